// SPDX-License-Identifier: GPL-2.0-only
/*
 * Version 2, spoken wrongly: properties that are cut, huge, contradictory, late or endless, versions that are mixed,
 * R_keys of nobody. Each message goes out word by word, and so is judged what comes back. The connections have the
 * mark, so that the server takes part where its parameter version2 is 1.
 */
#include "two.hh"

namespace verbs {

namespace two {

Octets octets(std::initializer_list<u32> values)
{
	return Words().words(values).get();
}

Connection &connect(Test &t, bool mark)
{
	u8 room[rpcordma::private_data::marked_length];
	const u32 length = rpcordma::private_data::encode(room, {4096, 4096, false, mark}).value();
	Setup setup;

	setup.default_private_data = false;
	setup.private_data = Octets(room, room + length);
	Connection &c = t.connect(setup);
	const auto theirs =
		rpcordma::private_data::parse({c.private_data().data(), c.private_data().size()});
	check(theirs.ok() && theirs.value().mark == mark,
	      mark ? "the server does not answer the mark: is its parameter version2 0?" :
		     "the server has the mark, and the client has not");
	return c;
}

Octets answer(Connection &c)
{
	Received received;

	/* Before the reason is asked for: of a call's arguments nobody knows which is evaluated first. */
	const bool came = c.receive(received);
	check(came, "no answer: " + c.describe());
	check(!received.invalidated, "the answer invalidated an R_key");
	check(received.bytes.size() >= 16, "an answer without a header");
	return received.bytes;
}

void expect(Connection &c, std::initializer_list<u32> words, const char *what)
{
	const Octets got = answer(c);
	u32 i = 0;

	check(got.size() >= 4 * words.size(), text("%s: an answer of %zu bytes", what, got.size()));
	for (const u32 word : words) {
		const u32 came = rpcordma::xdr::load_be32(&got[4 * i]);

		check(i == 2 ? came != 0 : came == word,
		      text("%s: word %u of the answer is %#x, expected %#x", what, i, came, word));
		i++;
	}
}

void served(Test &t, Connection &c, u32 invalidate)
{
	const u32 xid = t.xid();

	t.send(c, Words().words({xid, 2, 32, two_msg, 0, invalidate, 0, 0, 0})
			  .octets(null_call(xid))
			  .get());
	expect(c, {xid, 2, 0, two_msg, 1, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0}, "NULL");
}

} // namespace two

namespace {

using namespace two;

/* The answer to properties: another CONNPROP. */
void expect_properties(Connection &c, u32 xid)
{
	expect(c, {xid, 2, 0, two_connprop, 6, two_rbsiz, 4}, "CONNPROP");
}

void cut(Test &t)
{
	const Octets whole = properties_2(t.xid());
	/* As a first message, and behind others. */
	for (const size_t size : {size_t(16), size_t(20), size_t(44), whole.size() - 1}) {
		Connection &c = connect(t);
		const u32 xid = rpcordma::xdr::load_be32(whole.data());
		t.send(c, Octets(whole.begin(), whole.begin() + size));
		expect(c, {xid, 2, 0, two_error, two_bad_xdr}, "cut, at first");
		served(t, c);
		t.drop(c);
	}
	Connection &c = connect(t);
	served(t, c);
	for (size_t size = 0; size < whole.size(); size++) {
		const u32 xid = rpcordma::xdr::load_be32(whole.data());
		t.send(c, Octets(whole.begin(), whole.begin() + size));
		if (size >= 16)
			expect(c, {xid, 2, 0, two_error, two_bad_xdr}, "cut");
		else
			served(t, c);
	}
	t.send(c, whole);
	expect_properties(c, rpcordma::xdr::load_be32(whole.data()));
	served(t, c);
}

void many(Test &t)
{
	Connection &c = connect(t);
	/* All that a message has room for, and none that is known. */
	for (const u32 count : {1000u, 500u}) {
		const u32 xid = t.xid();
		Words words;

		words.words({xid, 2, 32, two_connprop, count});
		for (u32 i = 0; i < 500; i++)
			words.words({100 + i, 0});
		t.send(c, words.word(0).get());
		if (count == 500)
			expect_properties(c, xid);
		else
			expect(c, {xid, 2, 0, two_error, two_bad_xdr},
			       "1,000, of which half are there");
		served(t, c);
	}
}

void sizes(Test &t)
{
	for (const u32 size : {0u, 1u, 4095u, 1u << 20, 1u << 31, ~0u}) {
		Connection &c = connect(t);
		const u32 xid = t.xid();

		t.send(c, octets({xid, 2, 32, two_connprop, 1, two_rbsiz, 4, size, 0}));
		expect_properties(c, xid);
		served(t, c);
		t.drop(c);
	}
}

void structures(Test &t)
{
	/* Sums and counts that overflow 32 bits, or 64, and empty groups: as none. */
	static constexpr u32 groups[][4] = {
		{~0u, ~0u, 8, 1}, {1u << 16, 1u << 16, 8, 1}, {0, 4096, 8, 1}, {1, 0, 8, 1},
		{~0u, 1, 8, 0},
	};
	for (const auto &group : groups) {
		Connection &c = connect(t);
		const u32 xid = t.xid();

		t.send(c, Words().words({xid, 2, 32, two_connprop, 1, two_rbstruct, 24, 4096, 1})
				  .words({group[0], group[1], group[2], group[3], 0})
				  .get());
		expect_properties(c, xid);
		served(t, c);
		t.drop(c);
	}
	/* More groups than data, by a count that overflows: not decodable. */
	for (const u32 count : {0u, 2u, 1u << 28, ~0u}) {
		Connection &c = connect(t);
		const u32 xid = t.xid();

		t.send(c, octets({xid, 2, 32, two_connprop, 1, two_rbstruct, 24, 4096, count, 1,
				  4096, 8, 0, 0}));
		expect(c, {xid, 2, 0, two_error, two_bad_xdr}, "a count of groups");
		served(t, c);
		t.drop(c);
	}
}

void flood(Test &t)
{
	Connection &c = connect(t);
	const u32 first = t.xid();

	/* With few credits: for more, its Receives would grow, and it would say so in between. */
	t.send(c, properties_2(first, 8));
	expect_properties(c, first);
	/* Updates are not answered, however many; and one that does not decode is. */
	for (u32 i = 0; i < 500; i++)
		t.send(c, octets({t.xid(), 2, 8, two_updprop, 1, two_rbsiz, 4, 4096 + i}));
	served(t, c);
	const u32 xid = t.xid();
	t.send(c, octets({xid, 2, 8, two_updprop, 1, two_rbsiz, 2, 0}));
	expect(c, {xid, 2, 0, two_error, two_bad_xdr}, "UPDPROP with half a word");
	/* Questions are, each. */
	for (u32 i = 0; i < 100; i++) {
		const u32 question = t.xid();

		if (i % 2) {
			t.send(c, octets({question, 2, 8, two_reqprop, 1, two_rbsiz, 4, 8192}));
			expect(c, {question, 2, 0, two_resprop, 0, 1, 1, 0}, "REQPROP");
		} else {
			t.send(c, properties_2(question, 8));
			expect_properties(c, question);
		}
	}
	served(t, c);
}

void no_credits(Test &t)
{
	Connection &c = connect(t);
	const u32 xid = t.xid();

	t.send(c, properties_2(xid, 0));
	expect_properties(c, xid);
	served(t, c);
}

void mixed(Test &t)
{
	Connection &two = connect(t);
	served(t, two);
	for (const u32 vers : {0u, 1u, 3u, ~0u}) {
		const u32 xid = t.xid();

		t.send(two, Words().words({xid, vers, 32, 0, 0, 0, 0}).octets(null_call(xid)).get());
		expect(two, {xid, vers, 0, two_error, two_vers, 2, 2}, "amid version 2");
	}
	served(t, two);
	Connection &one = connect(t);
	t.served(one);
	for (const u32 vers : {0u, 2u, 3u}) {
		const u32 xid = t.xid();

		t.send(one, octets({xid, vers, 32, two_connprop, 0, 0}));
		expect(one, {xid, vers, 0, two_error, two_vers, 1, 1}, "amid version 1");
	}
	t.served(one);
	/* What is of neither leaves both open. */
	Connection &open = connect(t);
	const u32 xid = t.xid();
	t.send(open, octets({xid, 3, 32, two_connprop, 0, 0}));
	expect(open, {xid, 3, 0, two_error, two_vers, 1, 2}, "before either");
	served(t, open);
}

void unmarked(Test &t)
{
	Connection &c = connect(t, false);
	const u32 xid = t.xid();

	t.send(c, properties_2(xid));
	expect(c, {xid, 2, 0, two_error, two_vers, 1, 1}, "without the mark");
	t.served(c);
}

void foreign_key(Test &t)
{
	Connection &c = connect(t);
	Memory memory(t.peer(), 4096);

	/* Of nobody, and of memory that is there, and that the call does not offer. */
	for (const u32 key : {0x1234u, memory.segment().handle.get(), ~0u})
		served(t, c, key);
}

} // namespace

const std::vector<TestCase> version2_tests = {
	{"version2-cut", "properties cut at each byte: BAD_XDR, or dropped without a header", cut},
	{"version2-many", "1,000 properties, and 500 that nobody knows", many},
	{"version2-sizes", "receive sizes of 0 to 2^32-1: answered", sizes},
	{"version2-structures", "receive structures that overflow: as none, or BAD_XDR", structures},
	{"version2-flood", "500 updates, 100 questions: none is lost", flood},
	{"version2-no-credits", "no credit asked for: one is granted", no_credits},
	{"version2-mixed", "another version than the first message's: ERR_VERS", mixed},
	{"version2-unmarked", "without the mark: ERR_VERS 1..1", unmarked},
	{"version2-foreign-key", "R_keys to invalidate that are not offered: a plain Send",
	 foreign_key},
};

} // namespace verbs
