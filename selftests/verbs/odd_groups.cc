// SPDX-License-Identifier: GPL-2.0-only
/*
 * A server that does round-trip reduction (rtrext-01), rightly and wrongly, with a client whose parameters version2 and
 * version2_rtr are 1 and 7: replies in several transmissions, and reports of calls. What the client has to make of it: the
 * directory is listed; or one call fails with EIO; or what came is nobody's, and the reply that follows counts; or it comes
 * back with all its calls, and does without all this.
 */
#include "odd.hh"

#include <cerrno>
#include <cstring>

namespace verbs {

namespace {

constexpr const char *hard = "hard,timeo=600,nordirplus";
constexpr u32 most_takes = 20480, transmissions = 4;
using Parts = std::vector<Octets>;

void begin(Server &s)
{
	s.version2 = true;
	s.transmissions = transmissions;
	s.setup.message_size = s.takes = most_takes;
	s.mount(hard);
}

u32 word(const Octets &bytes, u32 index)
{
	return rpcordma::xdr::load_be32(&bytes[4 * index]);
}

/* What a listing of the directory ended with, by a mount of its own, as a client keeps what it has listed. */
struct Listed {
	int error;
	u32 connections; /* that it took */
	bool later;	 /* an XMTREQ came behind the first */
};

/* The first READDIR is @deal's, with what is right for it, a reply to an XMTREQ. */
Listed listing(Server &s, const std::function<void(Call &, Reply &)> &deal)
{
	bool seen = false, later = false;

	s.umount();
	const u32 before = s.accepted();
	s.mount(hard);
	s.odd = [&](Call &call) {
		if (seen)
			later = later || call.message.reply_transmissions();
		if (seen || call.procedure != proc_readdir)
			return false;
		Reply reply = s.prepare(call);
		check(call.message.reply_transmissions() > 1,
		      text("a READDIR whose reply may have %u transmissions",
			   call.message.reply_transmissions()));
		seen = true;
		deal(call, reply);
		return true;
	};
	auto job = s.start("list " + s.address());
	s.finish(*job);
	s.odd = nullptr;
	check(seen, "no READDIR came");
	if (!job->error())
		s.expect_names(job->bytes());
	return {job->error(), s.accepted() - before, later};
}

/* The reply that @deal gives is right, whatever came before it. */
void still_right(Server &s, const char *what, const std::function<void(Call &, Reply &)> &deal)
{
	const Listed listed = listing(s, deal);

	check(!listed.error && listed.connections == 1,
	      text("%s: the listing ended with \"%s\", by %u connections", what,
		   strerror(listed.error), listed.connections));
}

/* What @deal says costs the connection; all comes right on another one, with no more of this. */
void does_without(Server &s, const char *what, const std::function<void(Call &, Reply &)> &deal)
{
	const Listed listed = listing(s, deal);

	check(!listed.error && listed.connections == 2,
	      text("%s: the listing ended with \"%s\", by %u connections, expected 2", what,
		   strerror(listed.error), listed.connections));
	check(!listed.later, text("%s: the client goes on with XMTREQ", what));
}

/* The parts of @reply, three of them, as the reply that @call is owed. */
void send_parts(Server &s, Call &call, const Reply &reply, const Parts &parts)
{
	call.on.outstanding--;
	s.granted(call.on, reply.header.credits);
	for (const Octets &part : parts)
		call.on.connection->send(part);
}

Parts three(const Reply &reply)
{
	return reply.parts(3, u32(reply.payload.size() / 3) & ~3u);
}

void right(Server &s)
{
	begin(s);
	s.list();
	/* In pieces of any size; what is behind a stream is none of it. */
	for (u32 count = 1; count <= 3; count++)
		for (const u32 each : {8u, 24u, 4000u}) {
			const std::string what =
				text("%u transmissions, the first of %u bytes", count, each);

			still_right(s, what.c_str(), [&](Call &call, Reply &reply) {
				const u32 room = call.on.replies_to;
				Parts parts = reply.parts(count, each);

				check(call.message.reply_transmissions() >= 3,
				      "a listing with less than three transmissions");
				/* The rest goes with the last one. */
				if (parts.back().size() > room)
					return s.reply(call.on, reply);
				for (Octets &part : parts)
					part.resize(std::min<size_t>(part.size() + 64, room), 0xee);
				send_parts(s, call, reply, parts);
			});
		}
	s.write(0, 65536, 31);
	s.read(0, 65536);
	check(!s.current().reports, "the client reports what is right");
}

/* The parts of a reply are @change's. */
void breaks(Server &s, const char *what, const std::function<void(Parts &)> &change)
{
	does_without(s, what, [&](Call &call, Reply &reply) {
		Parts parts = three(reply);

		change(parts);
		send_parts(s, call, reply, parts);
	});
}

void broken(Server &s)
{
	begin(s);
	breaks(s, "one is missing", [](Parts &parts) { parts.erase(parts.begin() + 1); });
	breaks(s, "one comes twice",
	       [](Parts &parts) { parts.insert(parts.begin() + 1, parts[1]); });
	for (const u32 number : {0u, ~0u})
		breaks(s, "another number",
		       [number](Parts &parts) { rpcordma::xdr::store_be32(&parts[1][28], number); });
	breaks(s, "another xid", [](Parts &parts) { parts[1][3] ^= 1; });
	for (const u32 type : {1u, ~0u})
		breaks(s, "another type",
		       [type](Parts &parts) { rpcordma::xdr::store_be32(&parts[1][32], type); });
	/* Beyond the message, no whole words, wrapping around. */
	static constexpr u32 beyond[] = {4, 2, 0x80000000};
	for (u32 part = 0; part < 3; part++)
		breaks(s, "a stream that is too long", [part](Parts &parts) {
			rpcordma::xdr::store_be32(&parts[part][36],
						  word(parts[part], 9) + beyond[part]);
		});
}

/* A group that is not ended is broken off by whatever comes next. */
void unended(Server &s)
{
	begin(s);
	for (const u32 sent : {1u, 2u})
		breaks(s, "unended", [sent](Parts &parts) {
			parts.resize(sent);
			parts.push_back(message_2(0x7fffff00 + sent, two_updprop, {0}));
		});
}

/* More transmissions than the call said, and as many as nobody has. */
void too_many(Server &s)
{
	begin(s);
	const Listed listed = listing(s, [&](Call &call, Reply &reply) {
		const u32 count = call.message.reply_transmissions() + 1;

		send_parts(s, call, reply,
			   reply.parts(count, u32(reply.payload.size() / count) & ~3u));
	});
	check(listed.error == EIO && listed.connections == 1,
	      text("one too many: the listing ended with \"%s\", by %u connections, expected EIO",
		   strerror(listed.error), listed.connections));
	/* The call of such a one waits for it. */
	for (const u32 count : {0u, 17u, ~0u})
		breaks(s, "a count that nobody has", [count](Parts &parts) {
			rpcordma::xdr::store_be32(&parts[0][32], count);
			if (!count)
				parts.resize(1);
		});
}

/* To calls that nobody made. */
void to_nobody(Server &s)
{
	begin(s);
	for (u32 i = 0; i < 4; i++)
		still_right(s, "groups to nobody", [&](Call &call, Reply &reply) {
			Reply other = reply;

			other.header.xid ^= 0x40000000;
			rpcordma::xdr::store_be32(other.payload.data(), other.header.xid);
			/* More than there are Receives, were they not given back. */
			for (u32 n = 0; n < 40; n++) {
				for (const Octets &part : three(other))
					s.send(call.on, part);
				/* They are to be posted again meanwhile. */
				s.serve(5);
			}
			/* A continuation of nothing. */
			s.send(call.on, three(other)[1]);
			s.reply(call.on, reply);
		});
	/* Of which it is told once. */
	check(s.current().reports == 1, text("%u reports", s.current().reports));
}

Octets report(u32 xid, u32 credits, u32 fault)
{
	const u32 values = fault == 3 ? 0 : fault <= 5 ? 2 : 3;
	Words body;

	body.words({xid, 0, 0, 0, fault});
	for (u32 i = 0; i < values; i++)
		body.word(i);
	return Words()
		.words({xid, version_2, credits, two_optional, 1, two_repterr, body.size()})
		.octets(body.get())
		.get();
}

/* Of the call, and of one that nobody made. */
void reported(Server &s)
{
	begin(s);
	for (u32 fault = 1; fault <= 8; fault++)
		does_without(s, "a report", [&](Call &call, Reply &reply) {
			s.reply(call.on, report(reply.header.xid, reply.header.credits, fault),
				reply.header.credits);
		});
	does_without(s, "a report of nobody's call", [&](Call &call, Reply &reply) {
		s.send(call.on, report(reply.header.xid ^ 0x40000000, reply.header.credits, 3));
	});
}

/* Reports that are none. */
void odd_reports(Server &s)
{
	begin(s);
	still_right(s, "odd reports", [&](Call &call, Reply &reply) {
		const u32 xid = reply.header.xid;

		for (const u32 fault : {0u, 9u, ~0u})
			s.send(call.on, message_2(xid, two_optional,
						  {1, two_repterr, 20, xid, 0, 0, 0, fault}));
		s.send(call.on, message_2(xid, two_optional, {1, two_repterr, 16, xid, 0, 0, 0}));
		s.reply(call.on, reply);
	});
}

/* Amid the parts of a reply to a READDIR. */
void amid_reply(Server &s, const char *what, const std::function<Octets(Call &)> &make)
{
	for (const u32 sent : {1u, 2u})
		does_without(s, what, [&](Call &call, Reply &reply) {
			Parts parts = three(reply);

			parts.insert(parts.begin() + sent, make(call));
			send_parts(s, call, reply, parts);
		});
}

void amid(Server &s)
{
	begin(s);
	amid_reply(s, "a backward call", [](Call &) {
		Header header = {0x7ffffff0};

		header.vers = version_2;
		header.direction = 0;
		return message(header, {}, rpc_call(0x7ffffff0, 0x40000000, 1, 0).get());
	});
	amid_reply(s, "REQPROP", [](Call &) { return message_2(0x7ffffff1, two_reqprop, {0}); });
	amid_reply(s, "an error to nobody",
		   [](Call &) { return message_2(0x7ffffff2, two_error, {two_bad_xdr}); });
	amid_reply(s, "an XMTREQ", [](Call &) {
		return message_2(0x7ffffff3, two_optional,
				 {0, two_xmtreq, 20, 0, 0, 3, 1, 8, 0x7ffffff3, 0});
	});
}

/*
 * Listings that are killed when so many parts of their replies are there: the others are dropped, the connection stays, and
 * the Receives for them are free again, of which there are 16.
 */
void killed(Server &s)
{
	begin(s);
	for (u32 turn = 0; turn < 12; turn++) {
		const u32 sent = turn % 3;
		std::unique_ptr<Call> held;

		s.odd = [&](Call &call) {
			if (held || call.procedure != proc_readdir)
				return false;
			check(call.message.reply_transmissions() >= 3,
			      text("turn %u: a READDIR whose reply may have %u transmissions", turn,
				   call.message.reply_transmissions()));
			held = std::make_unique<Call>(std::move(call));
			return true;
		};
		auto job = s.start("list " + s.address());
		check(s.run(30000, [&] { return held != nullptr; }), "no READDIR came");
		const Reply reply = s.prepare(*held);
		const Parts parts = three(reply);
		for (u32 i = 0; i < sent; i++)
			held->on.connection->send(parts[i]);
		s.serve(20);
		job->kill();
		s.finish(*job);
		check(job->error() == EINTR, "the task was not killed");
		held->on.outstanding--;
		s.granted(held->on, s.grant);
		for (u32 i = sent; i < 3; i++)
			held->on.connection->send(parts[i]);
		s.serve(20);
		s.odd = nullptr;
	}
	s.list();
	s.read(0, 65536);
	connections(s, 1);
}

/* Each READDIR is reported, over each new connection: calls that are no XMTREQ, too. */
void loop(Server &s)
{
	u32 reported = 0;

	begin(s);
	s.odd = [&](Call &call) {
		if (call.procedure != proc_readdir || reported == 3)
			return false;
		check(!reported || !call.message.reply_transmissions(),
		      "the client goes on with XMTREQ");
		reported++;
		s.reply(call.on,
			message_2(call.xid, two_optional,
				  {1, two_repterr, 20, call.xid, 0, 0, 0, 3}, s.grant),
			s.grant);
		return true;
	};
	s.list();
	s.odd = nullptr;
	check(reported == 3, text("%u reports", reported));
	connections(s, 4);
	s.read(0, 16384);
}

} // namespace

const std::vector<OddTest> odd_group_tests = {
	{"odd-rtr-right", "replies in one to four transmissions, cut anywhere", right},
	{"odd-rtr-broken", "parts missing, twice, renumbered, too long: the connection", broken},
	{"odd-rtr-unended", "a reply that something else breaks off: the connection", unended},
	{"odd-rtr-many",
	 "more transmissions than the call said: EIO; 0, 17, 2^32-1: the connection", too_many},
	{"odd-rtr-nobody", "replies in several transmissions to nobody: dropped", to_nobody},
	{"odd-rtr-reported", "reports of each kind: another connection, and no XMTREQ", reported},
	{"odd-rtr-reports", "reports that do not decode: dropped", odd_reports},
	{"odd-rtr-amid", "backward calls and the like amid a reply: the connection", amid},
	{"odd-rtr-killed", "listings killed amid their replies: Receives come back", killed},
	{"odd-rtr-report-loop", "reports over each connection: the next one, and no XMTREQ", loop},
};

} // namespace verbs
