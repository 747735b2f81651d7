// SPDX-License-Identifier: GPL-2.0-only
/*
 * Version 2 with a client whose parameter version2 is 1: a server that answers the question for it in any way, and one
 * that speaks it wrongly. What the client has to make of it is one of these: to go on in version 2, as if nothing had
 * been; to go on in version 1, on the same connection or on a second one; to fail one call, and not to send it
 * again; to refuse what was said. Messages are written word by word, and read by this program's own code (message.hh).
 */
#include "odd.hh"

#include <cerrno>
#include <cstring>

namespace verbs {

namespace {

constexpr const char *hard = "hard,timeo=600";
constexpr u32 small = 512, large = 65536;
/* Of a WRITE that fits a message of the longest length here, and not the least one. */
constexpr u32 middle = 12000, most_takes = 20480;
/* The client's silence after a question, with something to spare. */
constexpr u64 question_ms = 5000;

using Words2 = std::initializer_list<u32>;

Octets error(u32 xid, Words2 body, u32 vers = version_2)
{
	Octets bytes = message_2(xid, two_error, body);
	rpcordma::xdr::store_be32(&bytes[4], vers);
	return bytes;
}

Octets cut(Octets bytes, size_t length)
{
	bytes.resize(length);
	return bytes;
}

/* A set of properties: of each the id and the data. */
struct Said {
	u32 id;
	Octets data;
};

Octets words(Words2 all)
{
	return Words().words(all).get();
}

Octets said(u32 xid, const std::vector<Said> &set, const std::vector<u32> &fixed = {0},
	    u32 credits = 32)
{
	Words all;
	all.words({xid, version_2, credits, two_connprop, u32(set.size())});
	for (const Said &property : set)
		all.word(property.id).opaque(property.data);
	all.word(u32(fixed.size()));
	for (u32 word : fixed)
		all.word(word);
	return all.get();
}

/* RBSTRUCT: its length, and groups of count and length. */
Octets structure(u32 total, const std::vector<std::pair<u32, u32>> &groups)
{
	Words all;
	all.words({total, u32(groups.size())});
	for (auto [count, length] : groups)
		all.words({count, length, 8, 0});
	return all.get();
}

void version_is(Server &s, u32 vers)
{
	check(s.current().vers == vers,
	      text("version %u is spoken, expected %u", s.current().vers, vers));
}

void asked(Server &s, u32 questions)
{
	check(s.questions() == questions,
	      text("the client asked %u times for version 2, expected %u", s.questions(), questions));
}

/* The file is right: what comes inline, what has chunks, and what may do either. */
void all_right(Server &s)
{
	for (u32 count : {small, 16384u, large})
		s.read(0, count);
	s.write(4096, middle, 21);
	s.write(0, large, 22);
	s.read(4, 4099);
}

/* Whether a WRITE of @middle comes with its call. */
bool goes_inline(Server &s)
{
	static u32 seed = 100;
	bool inline_one = false;

	s.odd = [&](Call &call) {
		if (call.procedure == proc_write)
			inline_one = call.read_chunk().empty();
		return false;
	};
	s.write(4096, middle, seed++);
	s.odd = nullptr;
	return inline_one;
}

/* --- the question --- */

void right(Server &s)
{
	s.version2 = true;
	s.mount(hard);
	u32 with_chunks = 0, to_invalidate = 0;
	s.odd = [&](Call &call) {
		const auto &header = call.message.header();
		with_chunks += header.has_chunks();
		to_invalidate += call.message.invalidate() != 0;
		return false;
	};
	all_right(s);
	s.list();
	s.odd = nullptr;
	version_is(s, version_2);
	check(with_chunks && with_chunks == to_invalidate,
	      text("%u calls with chunks, %u with an R_key to invalidate", with_chunks,
		   to_invalidate));
	check(!goes_inline(s), "a WRITE longer than what we take came in one message");
	/* And so on the next connection, which has its own question. */
	s.current().connection->disconnect();
	s.setup.message_size = s.takes = most_takes;
	all_right(s);
	check(goes_inline(s), "a WRITE that we have room for did not come in one message");
	version_is(s, version_2);
	connections(s, 2);
	asked(s, 2);
}

/* The question is @deal's, which does not give the client what it asked for: another connection, of version 1. */
void given_up(Server &s, const std::function<void(Question &)> &deal, bool last = true)
{
	const u32 before = s.accepted(), questions = s.questions();

	s.version2 = true;
	s.questioned = [&](Question &question) {
		deal(question);
		return true;
	};
	s.mount(hard);
	s.read(0, small);
	s.read(0, large);
	connections(s, before + 2);
	version_is(s, 1);
	check(!s.current().marked, "the second connection has the mark");
	if (last) {
		/* For a while nobody is asked again. */
		s.current().connection->disconnect();
		s.read(0, large);
		connections(s, before + 3);
		version_is(s, 1);
	}
	asked(s, questions + 1);
	s.umount();
}

/* The question is @deal's, and the connection is of version @vers then, with these limits. */
void goes_on(Server &s, u32 vers, const std::function<void(Question &)> &deal,
	     u32 calls_to = two_least, u32 replies_to = ~0u, bool last = true)
{
	const u32 before = s.accepted(), questions = s.questions();

	s.version2 = true;
	s.questioned = [&](Question &question) {
		s.speak(question.on, vers, calls_to, replies_to);
		deal(question);
		return true;
	};
	s.mount(hard);
	s.read(0, small);
	s.read(0, large);
	s.write(4096, middle, 23);
	connections(s, before + 1);
	version_is(s, vers);
	asked(s, questions + 1);
	if (vers == 1 && last) {
		s.current().connection->disconnect();
		s.read(0, large);
		connections(s, before + 2);
		version_is(s, 1);
		asked(s, questions + 1);
	}
	s.umount();
}

void refuses(Server &s)
{
	for (Words2 range :
	     {Words2{two_vers, 1, 1}, {two_vers, 1, 2}, {two_vers, 0, ~0u}, {two_vers, 0, 1, 4711}})
		goes_on(
			s, 1, [&](Question &q) { s.send(q.on, error(q.xid, range)); }, two_least,
			~0u, range.size() == 4);
	/* It echoes the version that it speaks. */
	goes_on(
		s, 1,
		[&](Question &q) {
			s.send(q.on, error(q.xid, {two_vers, 1, 1}, 1));
		},
		two_least, ~0u, false);
}

void refuses_all(Server &s)
{
	for (Words2 range : {Words2{two_vers, 2, 2},
			     {two_vers, 3, 9},
			     {two_vers, 0, 0},
			     {two_vers, 9, 1},
			     {two_vers, 2, 1}})
		given_up(
			s, [&](Question &q) { s.send(q.on, error(q.xid, range)); },
			range.begin()[1] == 2);
	/* To another question. */
	given_up(
		s,
		[&](Question &q) {
			s.send(q.on, error(q.xid + 1, {two_vers, 1, 1}));
		},
		false);
}

void silent(Server &s)
{
	u64 began = 0;
	given_up(s, [&](Question &) { began = now_ms(); });
	check(began && now_ms() - began >= question_ms - 500,
	      text("the client waited %llu ms for an answer",
		   (unsigned long long)(now_ms() - began)));
}

/* The second connection is given the mark unasked. */
void leaves(Server &s)
{
	given_up(s, [&](Question &q) {
		u8 room[rpcordma::private_data::marked_length];
		const u32 length =
			rpcordma::private_data::encode(room, {4096, 4096, true, true}).value();

		s.setup.default_private_data = false;
		s.setup.private_data = Octets(room, room + length);
		q.on.connection->disconnect();
	});
}

/* Version 2 without properties: nothing is longer than what every end takes. */
void without_properties(Server &s)
{
	goes_on(
		s, version_2, [&](Question &q) { s.send(q.on, error(q.xid, {two_inval_proc})); },
		two_least, two_least);
	given_up(
		s, [&](Question &q) { s.send(q.on, error(q.xid + 1, {two_inval_proc})); }, false);
}

/* Other errors, in time; and errors that are none. */
void other_errors(Server &s)
{
	for (Words2 body : {Words2{two_bad_xdr},
			    {two_reply_resource, 0, 0},
			    {two_inval_option},
			    {two_system},
			    {0},
			    {7},
			    {~0u}})
		given_up(
			s, [&](Question &q) { s.send(q.on, error(q.xid, body)); }, false);
}

void cut_errors(Server &s)
{
	for (size_t length : {0, 15, 19})
		given_up(
			s, [&](Question &q) { s.send(q.on, cut(error(q.xid, {4}), length)); },
			false);
	for (size_t length : {20, 27}) /* of what should say VERS */
		given_up(
			s,
			[&](Question &q) {
				s.send(q.on, cut(error(q.xid, {1, 1, 1}), length));
			},
			false);
}

/* What is no answer: other messages of version 2, replies of either version, noise, what is too long. */
void no_answers(Server &s)
{
	using Make = std::function<Octets(u32 xid)>;
	for (const Make &make : std::vector<Make>{
		     [](u32 xid) { return message_2(xid, two_updprop, {0}); },
		     [](u32 xid) {
			     return message_2(xid, two_reqprop, {1, two_rbsiz, 4, 8192});
		     },
		     [](u32 xid) {
			     return message_2(xid, two_msg, {1, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0});
		     },
		     [](u32 xid) {
			     return message({xid}, {}, Words().words({xid, 1, 0, 0, 0, 0}).get());
		     },
		     [](u32 xid) {
			     return message_2(xid, two_optional, {1, 2, 12, 0, 1, 0});
		     },
		     [](u32) { return pattern(200, 31); },
		     [](u32 xid) { return cut(properties_2(xid), 2 * most_takes); },
	     })
		given_up(
			s, [&](Question &q) { s.send(q.on, make(q.xid)); }, false);
}

/* Properties that do not decode: none of them counts, nor does the answer. */
void bad_properties(Server &s)
{
	using Make = std::function<Octets(u32 xid)>;
	auto one = [](u32 id, Words2 data) {
		return [=, data = words(data)](u32 xid) { return said(xid, {{id, data}}); };
	};
	for (const Make &make : std::vector<Make>{
		     one(two_rbsiz, {4096, 4096}),
		     one(two_brs, {3}),
		     one(two_rbstruct, {4096, 1u << 28, 1, 4096, 8, 0}),
		     /* Data beyond the message; a length that overflows; a count without them. */
		     [](u32 xid) {
			     return message_2(xid, two_connprop, {1, two_rbsiz, 400, 4096, 0});
		     },
		     [](u32 xid) {
			     return message_2(xid, two_connprop, {1, 99, ~0u, 4096, 0});
		     },
		     [](u32 xid) {
			     return message_2(xid, two_connprop, {~0u, 99, 0, 0});
		     },
	     })
		given_up(
			s, [&](Question &q) { s.send(q.on, make(q.xid)); }, false);
}

void cut_properties(Server &s)
{
	const size_t whole = properties_2(0).size();
	for (size_t length : {size_t(16), size_t(44), whole - 1})
		given_up(
			s, [&](Question &q) { s.send(q.on, cut(properties_2(q.xid), length)); },
			length == 44);
}

/* Properties that nobody expects, and that have a meaning all the same. */
void strange_properties(Server &s)
{
	struct Strange {
		std::vector<Said> set;
		u32 takes = two_least; /* what it comes to, where the client can send so much */
		std::vector<u32> fixed = {0};
	};
	std::vector<Said> many;
	for (u32 i = 0; i < 500; i++)
		many.push_back({100 + i, {}});
	const Octets most = words({most_takes});
	std::vector<Strange> all = {
		{{}, two_least, {}},
		{many},
		/* Twice, the last counts; and no data are the default. */
		{{{two_rbsiz, most}, {two_rbsiz, words({4096})}}},
		{{{two_rbsiz, words({4096})}, {two_rbsiz, most}}, most_takes},
		{{{two_rbsiz, most}, {two_rbsiz, {}}}},
		/* A structure that is none, or another than the size says. */
		{{{two_rbsiz, most}, {two_rbstruct, structure(most_takes, {{~0u, ~0u}})}},
		 most_takes},
		{{{two_rbsiz, most}, {two_rbstruct, structure(0, {{1u << 16, 1u << 16}})}},
		 most_takes},
		{{{two_rbsiz, most}, {two_rbstruct, structure(most_takes, {{0, most_takes}})}},
		 most_takes},
		{{{two_rbsiz, most}, {two_rbstruct, structure(8192, {{2, 4096}})}}, 8192},
		{{{two_rbstruct, structure(8192, {{2, 4096}})}}},
		/* All extensions, and no transmissions; more that is fixed than there is. */
		{{{two_brs, words({0})},
		  {two_rtrsupp, words({~0u})},
		  {two_reqrxlim, words({0})},
		  {two_respsxlim, words({~0u})},
		  {99, pattern(7, 3)}},
		 two_least,
		 {~0u, ~0u, ~0u}},
	};
	for (u32 size : {0u, 1u, 4095u})
		all.push_back({{{two_rbsiz, words({size})}}});
	for (u32 size : {1u << 20, 1u << 31, ~0u})
		all.push_back({{{two_rbsiz, words({size})}}, most_takes});

	s.version2 = true;
	s.setup.message_size = most_takes;
	u32 turn = 0;
	s.questioned = [&](Question &q) {
		const Strange &one = all[turn];
		/* Another xid will do, and nothing granted is one call. */
		const u32 xid = q.xid + turn % 2, credits = turn % 3 ? s.grant : 0;

		s.speak(q.on, version_2, one.takes);
		s.granted(q.on, credits);
		s.send(q.on, said(xid, one.set, one.fixed, credits));
		return true;
	};
	s.mount(hard);
	for (; turn < all.size();) {
		const bool inline_one = goes_inline(s);
		check(inline_one == (all[turn].takes > middle),
		      text("properties %u: a WRITE of %u bytes %s inline", turn, middle,
			   inline_one ? "came" : "did not come"));
		s.read(0, 16384);
		version_is(s, version_2);
		asked(s, ++turn);
		if (turn < all.size())
			s.current().connection->disconnect();
	}
	connections(s, turn);
}

/* An answer that takes its time, and others behind it, with which nothing changes. */
void late(Server &s)
{
	goes_on(s, version_2, [&](Question &q) {
		s.peer().run(2000, [] { return false; });
		s.granted(q.on, s.grant);
		s.send(q.on, properties_2(q.xid, s.grant));
		for (const Octets &more :
		     {error(q.xid, {two_vers, 1, 1}), properties_2(q.xid, s.grant, 1 << 20),
		      error(q.xid, {two_inval_proc}), message({q.xid}, {}, null_call(q.xid))}) {
			s.peer().run(50, [] { return false; });
			s.send(q.on, more);
		}
	});
}

/* Who goes along, and leaves before anything is replied to, is not asked again; who replied before, is. */
void leaves_first(Server &s)
{
	s.version2 = true;
	s.mount(hard);
	s.current().connection->disconnect();
	u32 left = 0;
	s.odd = [&](Call &call) {
		if (left)
			return false;
		left++;
		call.on.connection->disconnect();
		return true;
	};
	s.read(0, large);
	s.odd = nullptr;
	connections(s, 3);
	asked(s, 2);
	version_is(s, 1);
	all_right(s);
}

/* A server that is another one each time. */
void changes(Server &s)
{
	for (u32 turn = 0; turn < 6; turn++) {
		s.version2 = turn % 2;
		if (turn)
			s.current().connection->disconnect();
		else
			s.mount(hard);
		all_right(s);
		connections(s, turn + 1);
		version_is(s, s.version2 ? 2 : 1);
		asked(s, (turn + 1) / 2);
	}
}

/* What is not just the mark is none. */
void strange_marks(Server &s)
{
	u8 room[rpcordma::private_data::marked_length];
	const u32 length = rpcordma::private_data::encode(room, {4096, 4096, true, true}).value();
	const Octets right(room, room + length);

	s.setup.default_private_data = false;
	/* Its identifier, its format, what is zero in it, where it stands. */
	for (u32 change : {3, 4, 7, 8}) {
		s.setup.private_data = right;
		if (change < 8)
			s.setup.private_data[length - 8 + change]++;
		else
			s.setup.private_data.insert(s.setup.private_data.end() - 8, 0);
		if (s.accepted())
			s.current().connection->disconnect();
		else
			s.mount(hard);
		all_right(s);
		version_is(s, 1);
	}
	asked(s, 0);
	connections(s, 4);
}

/* --- version 2, once it is spoken --- */

/* A READ is @deal's, which fails it. */
void fails(Server &s, u32 count, const std::function<void(Call &)> &deal)
{
	u32 xid = 0, again = 0;

	s.odd = [&](Call &call) {
		if (call.procedure != proc_read)
			return false;
		again += xid == call.xid;
		if (xid)
			return false;
		xid = call.xid;
		deal(call);
		return true;
	};
	auto job = s.start_read(0, count);
	s.finish(*job);
	check(job->error() == EIO,
	      text("a READ ended with \"%s\", expected EIO", strerror(job->error())));
	s.read(0, large);
	check(!again, "a call that failed was sent again");
	s.odd = nullptr;
}

void errors(Server &s)
{
	s.version2 = true;
	s.mount(hard);
	for (Words2 body : {Words2{two_vers, 1, 1},
			    {two_vers, 1, 2},
			    {two_vers, 2, 2},
			    {two_vers, 9, 3},
			    {two_bad_xdr},
			    {two_reply_resource, 0, 0},
			    {two_reply_resource, 1, 65536},
			    {two_reply_resource, ~0u, ~0u},
			    {two_inval_proc},
			    {two_inval_option},
			    {two_system},
			    /* And something behind it. */
			    {two_bad_xdr, 1, 2, 3, 4},
			    {two_reply_resource, 1, 2, 3, 4}})
		for (u32 count : {small, large})
			fails(s, count,
			      [&](Call &call) { s.reply(call.on, error(call.xid, body), 32); });
	/* Of the version that it has after all. */
	fails(s, large, [&](Call &call) {
		s.reply(call.on, error(call.xid, {two_vers, 1, 1}, 1), 32);
	});
	connections(s, 1);
	version_is(s, version_2);
}

/* Replies that are whole, and contradict what they answer. */
void contradictions(Server &s)
{
	using Change = void (*)(Call &, Reply &);
	s.version2 = true;
	s.mount(hard);
	for (Change change :
	     std::initializer_list<Change>{[](Call &, Reply &r) {
						   r.chunks.read(64, {Rkey(1), 4, 0});
					   },
					   [](Call &, Reply &r) {
						   r.chunks.read(0, {Rkey(1), 4, 0});
						   r.header.proc = two_nomsg;
						   r.payload.clear();
					   },
					   [](Call &, Reply &r) {
						   r.chunks.reply_chunk({{Rkey(1), 128, 0}});
					   },
					   [](Call &, Reply &r) {
						   r.chunks.reply_chunk({{Rkey(1), 128, 0}});
						   r.header.proc = two_nomsg;
						   r.payload.clear();
					   },
					   [](Call &, Reply &r) {
						   r.chunks.write({{Rkey(1), 512, 0}});
					   }})
		for (u32 count : {small, large})
			fails(s, count, [&](Call &call) {
				Reply reply = s.prepare(call);
				change(call, reply);
				s.reply(call.on, reply);
			});
	connections(s, 1);
	/* In a reply the R_key is to be 0: it is not looked at. */
	once(s, proc_read, [&](Call &call) {
		Reply reply = s.prepare(call);
		reply.header.invalidate = 0x4711;
		s.reply(call.on, reply);
	});
	s.read(0, large);
	connections(s, 1);
}

/* Said while a call waits; what the client has to answer: version, rdma_proc and what follows, none: nothing. */
struct Aside {
	Octets bytes;
	std::vector<u32> answer;
};

/* A READ gets @odd, and then the right reply. */
void aside(Server &s, const std::function<std::vector<Aside>(u32 xid, const Reply &)> &odd)
{
	s.version2 = true;
	s.mount(hard);
	for (u32 count : {small, large}) {
		once(s, proc_read, [&](Call &call) {
			auto &answers = call.on.answers;
			u32 turn = 0;
			for (const Aside &one : odd(call.xid, s.prepare_dry(call))) {
				const std::string where = text("message %u: ", turn++);
				/* What the client answers with may be on its way still: then it drops. */
				for (int i = 0; i < 4 && answers.empty(); i++) {
					s.send(call.on, one.bytes);
					if (one.answer.empty())
						break;
					s.run(1000, [&] { return !answers.empty(); });
				}
				check(!answers.empty() || one.answer.empty(),
				      where + "no answer; " + call.on.connection->describe());
				/* Its Receive is to be posted again. */
				s.serve(20);
				if (one.answer.empty()) {
					check(answers.empty(),
					      where + "an answer: " +
						      (answers.empty() ? "" : answers[0].describe()));
					continue;
				}
				check(answers.size() == 1, where + "several answers");
				const Answer &got = answers[0];
				Reader in(got.bytes());
				const u32 to = in.word();
				std::vector<u32> rest = {got.vers()};
				in.two_words(); /* version and credits, of which some are judged */
				while (in.at() < got.bytes().size())
					rest.push_back(in.word());
				check(to == rpcordma::xdr::load_be32(one.bytes.data()) &&
					      rest == one.answer,
				      where + got.describe());
				answers.clear();
			}
			s.answer(call);
		});
		s.read(0, count);
	}
	s.read(0, large);
	check(s.current().answers.empty(), "an answer to nothing");
	connections(s, 1);
	version_is(s, version_2);
}

void dropped_cut(Server &s)
{
	aside(s, [](u32 xid, const Reply &reply) {
		std::vector<Aside> odd;
		for (size_t length : {0, 1, 4, 15, 20, 24, 35, 36})
			odd.push_back({cut(reply.bytes(), length), {}});
		for (size_t length : {16, 19})
			odd.push_back({cut(error(xid, {two_bad_xdr}), length), {}});
		for (u32 code : {two_vers, two_reply_resource})
			for (size_t length : {20, 24, 27})
				odd.push_back({cut(error(xid, {code, 1, 1}), length), {}});
		return odd;
	});
}

void dropped_errors(Server &s)
{
	aside(s, [](u32 xid, const Reply &) {
		std::vector<Aside> odd;
		for (u32 code : {0u, 7u, 0x01000000u, ~0u})
			odd.push_back({error(xid, {code, 1, 1}), {}});
		/* To nobody. */
		for (u32 code = two_vers; code <= two_system; code++)
			odd.push_back({error(xid + 1000, {code, 1, 1}), {}});
		/* Of another version there is only one. */
		for (u32 vers : {0u, 1u, 3u})
			odd.push_back({error(xid, {two_bad_xdr}, vers), {}});
		return odd;
	});
}

void dropped_replies(Server &s)
{
	aside(s, [](u32 xid, const Reply &reply) {
		std::vector<Aside> odd;
		auto with = [&](Words2 lists, u32 proc = two_msg) {
			return Aside{Words().octets(message_2(xid, proc, lists))
					     .octets(reply.payload)
					     .get(),
				     {}};
		};
		auto payload = [&](const Octets &bytes) {
			Reply other = reply;
			other.payload = bytes;
			odd.push_back({other.bytes(), {}});
		};
		for (size_t length : {0, 4, 7})
			payload(cut(reply.payload, length));
		payload(Words().words({xid + 1, 1, 0, 0, 0, 0}).get());
		for (u32 type : {0u, 2u, ~0u})
			payload(Words().words({xid, type, 0, 0, 0, 0}).get());
		/* Direction, R_key, lists. */
		for (Words2 lists : {Words2{1, 0, 2, 0, 0},
				     {1, 0, 1, 7, 1, 4, 0, 0, 0, 0, 0},
				     {1, 0, 0, 2, 0},
				     {1, 0, 0, 0, 2},
				     {1, 0, 0, 1, ~0u, 0},
				     {1, 0, 0, 1, 0x10000000, 1, 2, 3, 4},
				     {1, 0, 0, 0, 1, ~0u},
				     {1, 0, 1, 0, 1, 4, 0, 0, 0, 0, 0}})
			odd.push_back(with(lists));
		odd.push_back(with({1, 0, 0, 0, 0}, two_nomsg));
		Reply other = reply;
		other.header.xid = xid + 1000;
		rpcordma::xdr::store_be32(other.payload.data(), xid + 1000);
		odd.push_back({other.bytes(), {}});
		return odd;
	});
}

/* Properties once more, answers to nothing, and a reply in a container of an extension that was not agreed on. */
void dropped_others(Server &s)
{
	aside(s, [](u32 xid, const Reply &reply) {
		std::vector<Aside> odd;
		auto optional = [&](Words2 body) {
			odd.push_back({Words().octets(message_2(xid, two_optional, body))
					       .octets(reply.payload)
					       .get(),
				       {}});
		};
		const Octets again = properties_2(xid, 32, 1 << 20);
		odd.push_back({again, {}});
		for (size_t length : {size_t(16), size_t(21), again.size() - 1})
			odd.push_back({cut(again, length), {}});
		odd.push_back({said(xid, {{two_rbsiz, words({1, 2})}}), {}});
		for (Words2 body : {Words2{0, 0, 0},
				    {1, 1, 0, 0},
				    {0, 1, 1, 1, two_rbsiz, 4, 8192},
				    {~0u, 0, 0},
				    {0, 0},
				    {}})
			odd.push_back({message_2(xid, two_resprop, body), {}});
		const u32 length = u32(reply.payload.size());
		optional({1, 2, 12, 0, 1, length});	  /* XMTRESP */
		optional({1, 2, 12, 0, ~0u, length});	  /* of 2^32 - 1 */
		optional({1, 3, 12, 1, 2, length});	  /* XMTCONT */
		optional({1, 4, 20, xid, 0, 0, 0, 3});	  /* REPTERR */
		optional({1, 1, 20, 0, 0, 1, 1, length}); /* XMTREQ */
		optional({1, 2, ~0u, 0, 1, length});
		optional({1, 99, 0});
		optional({1, 0, 0});
		/* What changes nothing that is known here. */
		odd.push_back({message_2(xid, two_updprop, {0}), {}});
		odd.push_back({message_2(xid, two_updprop, {1, 99, 4, 1}), {}});
		return odd;
	});
}

void refused_versions(Server &s)
{
	aside(s, [](u32 xid, const Reply &reply) {
		std::vector<Aside> odd;
		for (u32 vers : {0u, 1u, 3u, 0x02000000u, ~0u}) {
			Reply other = reply;
			other.header.vers = vers;
			if (vers == 1)
				other.header.direction.reset();
			odd.push_back({other.bytes(), {vers, two_error, two_vers, 2, 2}});
		}
		for (u32 proc : {2u, 3u, 10u, 0x04000000u, ~0u}) {
			Reply other = reply;
			other.header.proc = proc;
			odd.push_back({other.bytes(), {2, two_error, two_inval_proc}});
		}
		(void)xid;
		return odd;
	});
}

void refused_calls(Server &s)
{
	aside(s, [](u32 xid, const Reply &reply) {
		const std::vector<u32> bad_xdr = {2, two_error, two_bad_xdr},
				       no_option = {2, two_error, two_inval_option};
		std::vector<Aside> odd;
		auto says = [&](u32 proc, Words2 body, const std::vector<u32> &answer) {
			odd.push_back({message_2(xid, proc, body), answer});
		};
		/* Without a direction, or with one that is none; a call with nothing to call. */
		odd.push_back({cut(reply.bytes(), 16), bad_xdr});
		for (u32 direction : {2u, ~0u}) {
			Reply other = reply;
			other.header.direction = direction;
			odd.push_back({other.bytes(), bad_xdr});
		}
		says(two_msg, {0, 0, 0, 0, 0}, bad_xdr);
		says(two_msg, {0, 0, 7, 0, 0, xid, 0}, bad_xdr);
		says(two_nomsg, {0, 0, 0, 0, 0}, bad_xdr);
		/* Nobody serves a call here: the first is dropped, and with it one that has chunks; not so what is none. */
		Header call = reply.header;
		call.direction = 0;
		odd.push_back({message(call, {}, null_call(xid)), {}});
		odd.push_back({message(call, Chunks().write({{Rkey(1), 4, 0}}), null_call(xid)), {}});
		odd.push_back({message(call, Chunks().read(0, {Rkey(1), 4, 0}), null_call(xid)),
			       bad_xdr});
		/* Extensions, as calls. */
		says(two_optional, {0, 0, 0}, no_option);
		says(two_optional, {0, 99, 0}, no_option);
		says(two_optional, {0, 1, 20, 0, 0, 1, 1, 0}, no_option);
		says(two_optional, {0, 2, 12, 0, 1, 0}, no_option);
		says(two_optional, {0, 3, 12, 1, 1, 0}, no_option);
		says(two_optional, {0, 4, 20, xid, 0, 0, 0, 3}, no_option);
		says(two_optional, {2, 1, 0}, bad_xdr);
		says(two_optional, {0, 1, 400, 0, 0}, bad_xdr);
		return odd;
	});
}

void properties_asked(Server &s)
{
	aside(s, [](u32 xid, const Reply &) {
		const std::vector<u32> bad_xdr = {2, two_error, two_bad_xdr};
		std::vector<Aside> odd;
		auto says = [&](u32 proc, Words2 body, const std::vector<u32> &answer) {
			odd.push_back({message_2(xid + 1, proc, body), answer});
		};
		/* None can be asked for: of each set all are rejected. */
		says(two_reqprop, {1, two_rbsiz, 4, 8192}, {2, two_resprop, 0, 1, 1, 0});
		says(two_reqprop, {2, 99, 0, two_rbsiz, 0}, {2, two_resprop, 0, 1, 3, 0});
		Words many;
		many.octets(message_2(xid + 1, two_reqprop, {33}));
		for (u32 i = 0; i < 33; i++)
			many.words({100 + i, 0});
		odd.push_back({many.get(), {2, two_resprop, 0, 2, ~0u, 1, 0}});
		for (u32 proc : {two_reqprop, two_updprop}) {
			says(proc, {1, two_rbsiz, 8, 8192, 8192}, bad_xdr);
			says(proc, {1, two_rbsiz, 4}, bad_xdr);
			says(proc, {1, two_brs, 4, 3}, bad_xdr);
			says(proc, {~0u}, bad_xdr);
			says(proc, {}, bad_xdr);
		}
		return odd;
	});
}

/* A hundred questions, each answered. */
void questions(Server &s)
{
	aside(s, [](u32 xid, const Reply &) {
		std::vector<Aside> odd;
		for (u32 i = 0; i < 50; i++) {
			odd.push_back({message_2(xid + i, two_updprop, {1, two_rbsiz, 4, 4096}), {}});
			odd.push_back({message_2(xid + i, two_reqprop, {1, two_rbsiz, 4, i}),
				       {2, two_resprop, 0, 1, 1, 0}});
		}
		return odd;
	});
}

/* Receives that shrink and grow; those that were said not to. */
void updates(Server &s)
{
	s.version2 = true;
	s.setup.message_size = s.takes = most_takes;
	for (const bool fixed : {false, true}) {
		s.questioned = [&](Question &q) {
			s.speak(q.on, version_2, most_takes);
			s.granted(q.on, s.grant);
			/* The receive size and its structure are the first and the fourth. */
			s.send(q.on, properties_2(q.xid, s.grant, most_takes, fixed ? 0x3f : 0x36));
			return true;
		};
		s.mount(hard);
		check(goes_inline(s), "a WRITE that we have room for did not come in one message");
		auto says = [&](Words2 update, u32 takes) {
			once(s, proc_read, [&](Call &call) {
				s.send(call.on, message_2(0x7000, two_updprop, update));
				s.serve(20);
				s.answer(call);
			});
			s.read(0, small);
			if (!fixed)
				s.current().calls_to = takes;
			check(goes_inline(s) == (fixed || takes > middle),
			      text("with receives of %u bytes%s, a WRITE of %u", takes,
				   fixed ? " that must not count" : "", middle));
		};
		says({1, two_rbsiz, 4, 4096}, two_least);
		says({1, two_rbsiz, 4, most_takes}, most_takes);
		says({1, two_rbsiz, 4, 0}, two_least);
		says({1, two_rbsiz, 4, ~0u}, most_takes);
		says({2, two_rbsiz, 4, 4096, two_rbsiz, 4, most_takes}, most_takes);
		says({1, two_rbsiz, 0}, two_least);
		connections(s, 1 + fixed);
		s.umount();
	}
}

/* --- what there is in version 1 as well --- */

/* The conversation @name, in version 2. */
void in_version_2(Server &s, const char *name, u32 most_inline = ~0u)
{
	s.version2 = true;
	s.most_inline = most_inline;
	for (const auto *group : {&odd_reply_tests, &odd_item_tests, &odd_connection_tests,
				  &odd_memory_tests, &odd_backward_tests})
		for (const OddTest &test : *group)
			if (!strcmp(test.name, name)) {
				test.function(s);
				check(s.questions() != 0, "nobody asked for version 2");
				version_is(s, version_2);
				return;
			}
	throw Failure{text("there is no conversation %s", name)};
}

} // namespace

const std::vector<OddTest> odd_version2_tests = {
	{"odd-v2-leave-first", "left before the first reply: version 1; later: asked again",
	 leaves_first},
	{"odd-v2-refused-all", "ERR_VERS without, or to another question: one connection more",
	 refuses_all},
	{"odd-v2-no-answer", "what is no answer to the question: the same", no_answers},
	{"odd-v2-refused", "ERR_VERS with version 1: that, on the same connection", refuses},
	{"odd-v2-error", "each error there is: EIO, and not sent again", errors},
	{"odd-v2-properties-bad", "properties that do not decode: the same", bad_properties},
	{"odd-v2-changes",
	 "a server that speaks version 2 now and then: asked when it has the mark", changes},
	{"odd-v2-properties-strange",
	 "unknown, none, twice, huge, contradictory properties: as they are to be read",
	 strange_properties},
	{"odd-v2-silence",
	 "a question for version 2 without an answer: version 1, and not asked again", silent},
	{"odd-v2-leave", "left with the question: the same, whatever mark comes", leaves},
	{"odd-v2-right", "nothing odd: calls, replies and R_keys as the properties have it", right},
	{"odd-v2-no-properties", "INVAL_PROC: version 2, with messages of 4096 bytes",
	 without_properties},
	{"odd-v2-errors-to-question", "any other error: one connection more", other_errors},
	{"odd-v2-errors-cut", "an error cut short: the same", cut_errors},
	{"odd-v2-properties-cut", "properties cut short: the same", cut_properties},
	{"odd-v2-late", "an answer that is late, and others behind it: the first holds", late},
	{"odd-v2-marks", "marks that are none: version 1, and no question", strange_marks},
	{"odd-v2-contradicts", "Read lists and chunks in replies that have no place there: EIO",
	 contradictions},
	{"odd-v2-cut", "replies and errors too short to be believed: dropped", dropped_cut},
	{"odd-v2-unknown-errors", "error codes that there are not, errors to nobody: dropped",
	 dropped_errors},
	{"odd-v2-replies", "replies that contradict themselves, or to nobody: dropped",
	 dropped_replies},
	{"odd-v2-unasked", "properties again, RESPPROP, XMTRESP and the like: dropped",
	 dropped_others},
	{"odd-v2-version", "version 1 and others amid version 2, and unknown procs: refused",
	 refused_versions},
	{"odd-v2-calls", "calls of no direction, of no content, of extensions: refused",
	 refused_calls},
	{"odd-v2-questions", "REQPROP is answered, what does not decode is refused",
	 properties_asked},
	{"odd-v2-many-questions", "a hundred of them, and updates: none is lost", questions},
	{"odd-v2-updates", "Receives that shrink and grow: kept to, unless they are not to change",
	 updates},
	{"odd-v2-again-twice", "odd-twice, in version 2",
	 [](Server &s) { in_version_2(s, "odd-twice"); }},
	{"odd-v2-again-write-chunk", "odd-write-chunk, in version 2",
	 [](Server &s) { in_version_2(s, "odd-write-chunk"); }},
	{"odd-v2-again-reply-chunk", "odd-reply-chunk, in version 2",
	 [](Server &s) { in_version_2(s, "odd-reply-chunk", 4096); }},
	{"odd-v2-again-oversized", "odd-oversized, in version 2",
	 [](Server &s) { in_version_2(s, "odd-oversized"); }},
	{"odd-v2-again-silence", "odd-silence, in version 2",
	 [](Server &s) { in_version_2(s, "odd-silence"); }},
	{"odd-v2-again-grant-zero", "odd-grant-zero, in version 2",
	 [](Server &s) { in_version_2(s, "odd-grant-zero"); }},
	{"odd-v2-again-grant-huge", "odd-grant-huge, in version 2",
	 [](Server &s) { in_version_2(s, "odd-grant-huge"); }},
	{"odd-v2-again-grant-changes", "odd-grant-changes, in version 2",
	 [](Server &s) { in_version_2(s, "odd-grant-changes"); }},
	{"odd-v2-again-write-beyond", "odd-write-beyond, in version 2",
	 [](Server &s) { in_version_2(s, "odd-write-beyond"); }},
	{"odd-v2-again-stale", "odd-stale-invalidated, in version 2",
	 [](Server &s) { in_version_2(s, "odd-stale-invalidated"); }},
	{"odd-v2-again-invalidate", "odd-invalidate-other, in version 2",
	 [](Server &s) { in_version_2(s, "odd-invalidate-other"); }},
	{"odd-v2-again-cancel", "odd-cancel-write, in version 2",
	 [](Server &s) { in_version_2(s, "odd-cancel-write"); }},
	{"odd-v2-backward-right", "odd-backward-right, in version 2",
	 [](Server &s) { in_version_2(s, "odd-backward-right"); }},
	{"odd-v2-backward-chunks", "odd-backward-chunks, in version 2",
	 [](Server &s) { in_version_2(s, "odd-backward-chunks"); }},
	{"odd-v2-backward-burst", "odd-backward-burst, in version 2",
	 [](Server &s) { in_version_2(s, "odd-backward-burst"); }},
	{"odd-v2-backward-overrun", "odd-backward-overrun, in version 2",
	 [](Server &s) { in_version_2(s, "odd-backward-overrun"); }},
};

} // namespace verbs
