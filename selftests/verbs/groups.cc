// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls and replies in several transmissions (rtrext-01), spoken wrongly: groups without an end, interleaved, renumbered, of
 * counts that nobody takes, with parts that are too short or too long. What the server is to answer is written word by word
 * from the draft. The server's version2_rtr is 7, but for the last test.
 */
#include "two.hh"

namespace verbs {

namespace two {

void expect_report(Connection &c, const Id &bad, std::optional<Id> lead, u32 fault,
		   const std::vector<u32> &values, const char *what, const Octets *come)
{
	Words body, want;

	body.words({bad.xid, bad.direction, bad.number, lead ? 1u : 0u});
	if (lead)
		body.words({lead->xid, lead->direction, lead->number});
	body.word(fault);
	for (const u32 value : values)
		body.word(value);
	const Octets got = come ? *come : answer(c);
	check(got.size() >= 16, text("%s: %zu bytes", what, got.size()));
	const u32 grant = rpcordma::xdr::load_be32(&got[8]);
	check(grant != 0, text("%s: no credit", what));
	want.words({bad.xid, 2, grant, two_optional, 1, two_repterr, body.size()}).octets(body.get());
	same(got, want.get(), what);
}

Connection &connect_rtr(Test &t, u32 extensions)
{
	Connection &c = connect(t);
	const u32 xid = t.xid();

	t.send(c, octets({xid, 2, 8, two_connprop, 2, two_rbsiz, 4, two_least, two_rtrsupp, 4,
			  extensions, 0}));
	expect(c, {xid, 2, 0, two_connprop, 6, two_rbsiz, 4}, "CONNPROP");
	return c;
}

} // namespace two

namespace {

using namespace two;
using Parts = std::vector<Octets>;

Octets xmtreq_message(u32 xid, u32 count, u32 rsbuf, u32 pslen, const Octets &bytes)
{
	return Words()
		.words({xid, 2, 8, two_optional, 0, two_xmtreq, 20, 0, 0, count, rsbuf, pslen})
		.octets(bytes)
		.get();
}

Octets xmtcont_message(u32 xid, u32 xnum, u32 itype, u32 pslen, const Octets &bytes)
{
	return Words()
		.words({xid, 2, 8, two_optional, 0, two_xmtcont, 12, xnum, itype, pslen})
		.octets(bytes)
		.get();
}

/* @stream in @count transmissions, each but the last with @each bytes of it. */
Parts group(u32 xid, const Octets &stream, u32 count, u32 each, u32 rsbuf = 1)
{
	Parts parts;

	for (u32 i = 0; i < count; i++) {
		const size_t at = std::min(stream.size(), size_t(i) * each);
		const size_t end = i + 1 == count ? stream.size() :
						    std::min(stream.size(), at + each);
		const Octets bytes(stream.begin() + long(at), stream.begin() + long(end));

		parts.push_back(i ? xmtcont_message(xid, i, two_xmtreq, u32(bytes.size()), bytes) :
				    xmtreq_message(xid, count, rsbuf, u32(bytes.size()), bytes));
	}
	return parts;
}

/* NULL, and @more bytes of arguments, which nobody reads. */
Octets call_with(u32 xid, u32 more)
{
	return Words().octets(null_call(xid)).octets(pattern(more, xid)).get();
}

void say(Test &t, Connection &c, const Parts &parts)
{
	for (const Octets &part : parts)
		t.send(c, part);
}

/* The reply to NULL. */
void expect_null(Connection &c, u32 xid, const char *what)
{
	expect(c, {xid, 2, 0, two_msg, 1, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0}, what);
}

void whole(Test &t)
{
	Connection &c = connect_rtr(t);

	/* In one to four; the RPC header, of 40 bytes, in two of them; parts with nothing of the stream. */
	for (const u32 count : {1u, 2u, 3u, 4u})
		for (const u32 each : {0u, 24u, 40u, 400u, 4000u}) {
			const u32 xid = t.xid();

			/* The first two words of the RPC header are in the first. */
			if (!each && count > 1)
				continue;
			say(t, c,
			    group(xid, call_with(xid, std::min(each * count, 3900u)), count, each));
			expect_null(c, xid, "a whole group");
		}
	const u32 xid = t.xid();
	const Octets stream = call_with(xid, 8);
	Parts parts = group(xid, stream, 3, u32(stream.size()));
	/* Behind a stream may be anything. */
	for (Octets &part : parts)
		part.insert(part.end(), 500, 0xee);
	say(t, c, parts);
	expect_null(c, xid, "bytes behind each stream");
	/* What a reply may take does not matter where it is short. */
	for (const u32 rsbuf : {0u, 1u, 5u, ~0u}) {
		const u32 one = t.xid();

		say(t, c, group(one, call_with(one, 80), 2, 60, rsbuf));
		expect_null(c, one, "an odd rsbuf");
	}
	/* Without a word about what the client does: an XMTREQ is taken all the same. */
	Connection &plain = connect(t);
	const u32 first = t.xid();
	say(t, plain, group(first, call_with(first, 80), 3, 40));
	expect_null(plain, first, "unannounced");
}

/* A message of another kind amid a group: the report and the message's answer, in either order. */
void unended(Test &t)
{
	Connection &c = connect_rtr(t);

	for (const u32 sent : {1u, 2u}) {
		const u32 xid = t.xid(), other = t.xid();
		Parts parts = group(xid, call_with(xid, 80), 3, 40);

		parts.resize(sent);
		say(t, c, parts);
		t.send(c, octets({other, 2, 8, two_reqprop, 0}));
		/* Several threads answer. */
		Octets report = answer(c), properties = answer(c);
		if (rpcordma::xdr::load_be32(&report[12]) != two_optional)
			std::swap(report, properties);
		expect_report(c, {other, 0}, Id{xid, 0}, bad_hmt, {two_optional, two_reqprop},
			      "REQPROP amid a group", &report);
		check(rpcordma::xdr::load_be32(&properties[0]) == other &&
			      rpcordma::xdr::load_be32(&properties[12]) == two_resprop,
		      "the REQPROP is not answered");
		/* The rest of what was broken off is nothing's. */
		t.send(c, group(xid, call_with(xid, 80), 3, 40)[2]);
		expect_report(c, {xid, 2}, {}, bad_cont, {}, "the rest of it");
		served(t, c);
	}
	/* Groups that nobody ends, and connections that go with them. */
	for (u32 i = 0; i < 20; i++) {
		Connection &gone = connect(t);
		const u32 xid = t.xid();
		Parts parts = group(xid, call_with(xid, 80), 4, 40);

		parts.resize(1 + i % 4);
		say(t, gone, parts);
		if (i % 4 == 3)
			expect_null(gone, xid, "a whole one");
		t.drop(gone);
	}
}

void interleaved(Test &t)
{
	Connection &c = connect_rtr(t);
	const u32 xid = t.xid(), other = t.xid();
	const Parts one = group(xid, call_with(xid, 80), 2, 60),
		    two = group(other, call_with(other, 80), 3, 60);

	t.send(c, one[0]);
	t.send(c, two[0]);
	expect_report(c, {other, 0}, Id{xid, 0}, bad_omt, {two_xmtcont, two_xmtreq},
		      "a group amid a group");
	t.send(c, two[1]);
	t.send(c, two[2]);
	expect_null(c, other, "the second one");
	t.send(c, one[1]);
	expect_report(c, {xid, 1}, {}, bad_cont, {}, "the end of the first one");
	served(t, c);
}

void renumbered(Test &t)
{
	Connection &c = connect_rtr(t);

	for (const u32 number : {0u, 2u, 3u, ~0u}) {
		const u32 xid = t.xid();
		const Parts parts = group(xid, call_with(xid, 80), 3, 40);

		t.send(c, parts[0]);
		t.send(c, xmtcont_message(xid, number, two_xmtreq, 0, {}));
		expect_report(c, {xid, number}, Id{xid, 0}, bad_seq, {1, number}, "another number");
		/* One report for a group. */
		say(t, c, {parts[1], parts[2], parts[1]});
		served(t, c);
		say(t, c, parts);
		expect_null(c, xid, "the same group once more");
	}
	/* Twice the same. */
	const u32 xid = t.xid();
	const Parts parts = group(xid, call_with(xid, 80), 3, 40);
	say(t, c, {parts[0], parts[1], parts[1], parts[2]});
	expect_report(c, {xid, 1}, Id{xid, 0}, bad_seq, {2, 1}, "a transmission twice");
	served(t, c);
}

void another_xid(Test &t)
{
	Connection &c = connect_rtr(t);
	/* An XMTCONT of @of, and of @type, comes second of the call @xid. */
	const auto breaks = [&](u32 xid, u32 of, u32 type, u32 fault, std::vector<u32> values,
				const char *what) {
		const Parts parts = group(xid, call_with(xid, 80), 3, 40);

		t.send(c, parts[0]);
		t.send(c, xmtcont_message(of, 1, type, 0, {}));
		expect_report(c, {of, 1}, Id{xid, 0}, fault, values, what);
		say(t, c, {parts[1], parts[2]});
		served(t, c);
	};
	const u32 xid = t.xid(), other = t.xid();

	breaks(xid, other, two_xmtreq, bad_xid, {xid, other}, "another xid");
	for (const u32 type : {0u, 2u, 3u, 5u, ~0u}) {
		const u32 one = t.xid();

		breaks(one, one, type, bad_omt, {two_xmtreq, type}, "another type");
	}
}

void alone(Test &t)
{
	Connection &c = connect_rtr(t);

	for (const u32 number : {0u, 1u, ~0u}) {
		const u32 xid = t.xid();

		t.send(c, xmtcont_message(xid, number, two_xmtreq, 0, {}));
		expect_report(c, {xid, number}, {}, bad_cont, {}, "an XMTCONT of nothing");
		served(t, c);
	}
	/* As a first message, too. */
	Connection &first = connect(t);
	const u32 xid = t.xid();
	t.send(first, xmtcont_message(xid, 1, two_xmtreq, 0, {}));
	expect_report(first, {xid, 1}, {}, bad_cont, {}, "an XMTCONT at first");
	served(t, first);
}

void counts(Test &t)
{
	Connection &c = connect_rtr(t);

	for (const u32 count : {0u, 5u, 1u << 16, ~0u}) {
		const u32 xid = t.xid();

		t.send(c, xmtreq_message(xid, count, 1, 40, null_call(xid)));
		expect(c, {xid, 2, 0, two_error, two_bad_xdr}, "a count");
		/* What follows of it is dropped in silence. */
		if (count > 1)
			for (const u32 number : {1u, 2u})
				t.send(c, xmtcont_message(xid, number, two_xmtreq, 0, {}));
		served(t, c);
	}
	/* With all of its transmissions, a call that is none. */
	const u32 xid = t.xid();
	const Octets stream = null_call(xid);
	say(t, c, group(xid, Octets(stream.begin(), stream.begin() + 20), 3, 8));
	expect(c, {xid, 2, 0, two_error, two_bad_xdr}, "half an RPC header");
	served(t, c);
}

void lengths(Test &t)
{
	Connection &c = connect_rtr(t);

	/* Of the first: beyond the message, no whole words, wrapping around. */
	for (const u32 length : {44u, 38u, 0x80000000u, ~0u, ~0u - 3}) {
		const u32 xid = t.xid();

		t.send(c, xmtreq_message(xid, 2, 1, length, null_call(xid)));
		expect_report(c, {xid, 0}, {}, bad_pl, {length, 0, 40}, "a length of the first");
		t.send(c, xmtcont_message(xid, 1, two_xmtreq, 0, {}));
		served(t, c);
	}
	/* Of another one. */
	for (const u32 length : {12u, 6u, ~0u, ~0u - 3}) {
		const u32 xid = t.xid();
		const Parts parts = group(xid, call_with(xid, 80), 3, 40);

		t.send(c, parts[0]);
		t.send(c, xmtcont_message(xid, 1, two_xmtreq, length, pattern(8, 1)));
		expect_report(c, {xid, 1}, Id{xid, 0}, bad_pl, {length, 0, 8},
			      "a length of the second");
		t.send(c, parts[2]);
		served(t, c);
	}
	/* A first one that has not even an xid of the RPC, or another. */
	for (const u32 length : {0u, 4u}) {
		const u32 xid = t.xid();

		t.send(c, xmtreq_message(xid, 2, 1, length, null_call(xid)));
		expect(c, {xid, 2, 0, two_error, two_bad_xdr}, "under 8 bytes of the RPC");
		t.send(c, xmtcont_message(xid, 1, two_xmtreq, 0, {}));
		served(t, c);
	}
	const u32 xid = t.xid();
	t.send(c, xmtreq_message(xid, 2, 1, 40, null_call(xid + 1)));
	expect(c, {xid, 2, 0, two_error, two_bad_xdr}, "another xid in the RPC");
	served(t, c);
	/* optinfo that is cut at each word, and one that has a remainder. */
	const Octets lead = xmtreq_message(xid, 2, 1, 40, null_call(xid));
	for (u32 length = 0; length <= 24; length += 4) {
		if (length == 20)
			continue;
		Octets spoiled = lead;
		rpcordma::xdr::store_be32(&spoiled[24], length);
		t.send(c, spoiled);
		expect(c, {xid, 2, 0, two_error, two_bad_xdr}, "optinfo of another length");
		served(t, c);
	}
}

/* A report of each kind, about a call where @direction is 1, about a reply where it is 0. */
void send_reports(Test &t, Connection &c, u32 direction)
{
	for (u32 fault = 1; fault <= 8; fault++) {
		const u32 xid = t.xid();
		const u32 values = fault == bad_cont ? 0 : fault <= bad_xid ? 2 : 3;
		Words body;

		body.words({xid, !direction, 0, 0, fault});
		for (u32 i = 0; i < values; i++)
			body.word(i);
		t.send(c,
		       Words().words({xid, 2, 8, two_optional, direction, two_repterr, body.size()})
			       .octets(body.get())
			       .get());
	}
}

/* A server has no use for any of these, and answers what says that it is a call. */
void strange_options(Test &t)
{
	Connection &c = connect_rtr(t);
	const u32 xid = t.xid();

	/* It makes no calls of several transmissions. */
	send_reports(t, c, 1);
	served(t, c);
	/* Replies to nobody. */
	t.send(c, octets({xid, 2, 8, two_optional, 1, two_xmtresp, 12, 0, 3, 8, xid, 1}));
	t.send(c, octets({xid, 2, 8, two_optional, 1, two_xmtresp, 12, 0, 0, 8, xid, 1}));
	served(t, c);
	t.send(c, octets({xid, 2, 8, two_optional, 0, two_xmtresp, 12, 0, 1, 8, xid, 1}));
	expect(c, {xid, 2, 0, two_error, two_inval_option}, "an XMTRESP that says it is a call");
	t.send(c, octets({xid, 2, 8, two_optional, 0, 5, 0}));
	expect(c, {xid, 2, 0, two_error, two_inval_option}, "opttype 5");
	served(t, c);
}

/* Reports of replies: they are counted, and not answered. */
void reports(Test &t)
{
	Connection &c = connect_rtr(t);

	send_reports(t, c, 0);
	served(t, c);
}

/* A reply of several transmissions, of which @count are to come. Returns its stream. */
Octets reply_group(Connection &c, u32 xid, u32 count)
{
	Octets stream;

	for (u32 i = 0; i < count; i++) {
		const Octets got = answer(c);
		const auto word = [&got](u32 at) {
			check(got.size() >= 4 * at + 4,
			      text("a transmission of %zu bytes", got.size()));
			return rpcordma::xdr::load_be32(&got[4 * at]);
		};
		const u32 length = word(9);

		check(got.size() <= two_least, text("a transmission of %zu bytes", got.size()));
		check(word(0) == xid && word(3) == two_optional && word(4) == 1 &&
			      word(5) == (i ? two_xmtcont : two_xmtresp) && word(6) == 12 &&
			      word(7) == (i ? i : 0) && word(8) == (i ? u32(two_xmtresp) : count),
		      text("transmission %u of %u: proc %u, opttype %u, %u, %u", i, count, word(3),
			   word(5), word(7), word(8)));
		check(length % 4 == 0 && 40 + length <= got.size(),
		      text("a stream of %u bytes", length));
		stream.insert(stream.end(), got.begin() + 40, got.begin() + 40 + length);
	}
	return stream;
}

void replies(Test &t)
{
	constexpr u32 size = 9000, piece = 3000;
	Connection &one = t.connect();
	const Octets content = pattern(size, 17);

	for (u32 at = 0; at < size; at += piece)
		t.put(one, at, Octets(content.begin() + at, content.begin() + at + piece));
	Connection &c = connect_rtr(t);
	const auto ask = [&t](Connection &on, u32 rsbuf) {
		const u32 xid = t.xid();
		Compound compound(xid);
		const Octets call = compound.lookup(file_name).read(0, size).payload();

		t.send(on, xmtreq_message(xid, 1, rsbuf, u32(call.size()), call));
		return xid;
	};
	/* As many as it may have, and no more than a server sends. */
	for (const u32 rsbuf : {3u, 4u, 5u, ~0u}) {
		const u32 xid = ask(c, rsbuf);
		Results results(reply_group(c, xid, 3), xid);
		bool eof;

		results.compound(3);
		results.operation(op_putrootfh);
		results.operation(op_lookup);
		const u32 length = results.read(eof);
		same(results.octets(length), content, "what was read");
	}
	/* Fewer: it fits nowhere. */
	for (const u32 rsbuf : {0u, 1u, 2u}) {
		const u32 xid = ask(c, rsbuf);

		expect(c, {xid, 2, 0, two_error, two_reply_resource, 0, 0},
		       "a reply for which there is no room");
		served(t, c);
	}
	/* To who does not know continuations. */
	for (const u32 extensions : {0u, 1u, 3u}) {
		Connection &other = connect_rtr(t, extensions);
		const u32 xid = ask(other, 4);

		expect(other, {xid, 2, 0, two_error, two_reply_resource, 0, 0},
		       "a reply to who takes no group");
		served(t, other);
		t.drop(other);
	}
	/* Replies under way, and nobody there any more. */
	for (u32 i = 0; i < 20; i++) {
		Connection &gone = connect_rtr(t);

		(void)ask(gone, 4);
		(void)ask(gone, 4);
		t.drop(gone);
	}
}

void many(Test &t)
{
	Connection &c = connect_rtr(t);

	/* More than there are Receives, each for itself: none is lost. */
	for (u32 i = 0; i < 200; i++) {
		const u32 xid = t.xid();

		if (i % 3 == 2) {
			/* One that is lost. */
			t.send(c, group(xid, call_with(xid, 80), 3, 40)[0]);
			t.send(c, xmtcont_message(xid, 2, two_xmtreq, 0, {}));
			expect_report(c, {xid, 2}, Id{xid, 0}, bad_seq, {1, 2}, "one that is lost");
			continue;
		}
		say(t, c, group(xid, call_with(xid, 3000), 4, 1000));
		expect_null(c, xid, "one of many");
	}
	served(t, c);
}

void off(Test &t)
{
	Connection &c = connect(t);
	const u32 xid = t.xid();

	served(t, c);
	t.send(c, xmtreq_message(xid, 2, 1, 40, null_call(xid)));
	expect(c, {xid, 2, 0, two_error, two_inval_option}, "XMTREQ");
	t.send(c, xmtcont_message(xid, 1, two_xmtreq, 0, {}));
	expect(c, {xid, 2, 0, two_error, two_inval_option}, "XMTCONT");
	t.send(c, octets({xid, 2, 32, two_optional, 0, two_repterr, 20, xid, 1, 0, 0, 3}));
	expect(c, {xid, 2, 0, two_error, two_inval_option}, "REPTERR");
	t.send(c, octets({xid, 2, 32, two_optional, 1, two_xmtresp, 12, 0, 1, 8, xid, 1}));
	served(t, c);
}

} // namespace

const std::vector<TestCase> group_tests = {
	{"rtr-whole", "calls in one to four transmissions, cut anywhere: served", whole},
	{"rtr-unended", "a group that nobody ends: BADHMT, and what came is handled", unended},
	{"rtr-interleaved", "a group amid a group: BADOMT, the second one is served", interleaved},
	{"rtr-renumbered", "transmissions missing, twice, of other numbers: BADSEQ", renumbered},
	{"rtr-another", "a continuation with another xid or type: one BADXID, one BADOMT",
	 another_xid},
	{"rtr-alone", "continuations of nothing: BADCONT", alone},
	{"rtr-counts", "counts of 0, 5 and 2^32-1, and half an RPC header: BAD_XDR", counts},
	{"rtr-lengths", "streams that are too long, odd, or wrap around: BADPL", lengths},
	{"rtr-options", "replies to nobody, reports of calls to it: dropped, or INVAL_OPTION",
	 strange_options},
	{"rtr-reports", "reports of replies, of each kind: counted, no answer", reports},
	{"rtr-replies", "replies in three transmissions, or REPLY_RESOURCE", replies},
	{"rtr-many", "200 groups, a third of them lost: no Receive is", many},
	{"version2-no-rtr", "round-trip reduction where the server has it off: INVAL_OPTION", off},
};

} // namespace verbs
