// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages that are wrong by themselves, whatever memory there is: RFC 8166 4.5, 4.6. A responder
 * answers or drops them, and goes on; so the same connection has to serve a call afterwards.
 */
#include "test.hh"

namespace verbs {

namespace {

constexpr u32 min_header = rpcordma::v1::min_header_length;

/* The first @length bytes of a NULL call's message. */
void cut_off(Test &t, u32 from, u32 to)
{
	Connection &c = t.connect();
	for (u32 length = from; length < to; length++) {
		Octets bytes = null_message(t.xid());
		bytes.resize(length);
		t.send(c, bytes);
	}
	t.dropped(c);
}

void under_16(Test &t)
{
	cut_off(t, 0, 16);
}

void under_28(Test &t)
{
	cut_off(t, 16, min_header);
}

void version(Test &t)
{
	Connection &c = t.connect();
	for (u32 vers : {0u, 2u, 0xffffffffu}) {
		Header header = {t.xid(), u32(Proc::msg), vers};
		t.send(c, message(header, {}, null_call(header.xid)));
		t.error_vers(c, header);
	}
	t.served(c);
}

void refused_proc(Test &t, std::initializer_list<u32> procs)
{
	Connection &c = t.connect();
	for (u32 proc : procs) {
		Header header = {t.xid(), proc};
		t.send(c, message(header, {}, null_call(header.xid)));
		t.error_chunk(c, header);
	}
	t.served(c);
}

void proc_unknown(Test &t)
{
	refused_proc(t, {5, 9, 0xffffffff});
}

void proc_msgp(Test &t)
{
	refused_proc(t, {u32(Proc::msgp)});
}

void proc_done(Test &t)
{
	Connection &c = t.connect();
	u32 xid = t.xid();
	t.send(c, message({xid, u32(Proc::done)}, {}, null_call(xid)));
	t.dropped(c);
}

void proc_error(Test &t)
{
	Connection &c = t.connect();
	for (auto body : {Words().words({2}), Words().words({1, 1, 1}), Words().words({7, 0, 0})})
		t.send(c, Words().octets(fixed_header({t.xid(), u32(Proc::error)}))
				  .octets(body.get())
				  .get());
	t.dropped(c);
}

void truncated(Test &t)
{
	Connection &c = t.connect();
	Memory memory(t.peer(), 4096);
	Chunks chunks;
	chunks.read(100, memory.segment(0, 400)).read(100, memory.segment(400, 4));
	chunks.write(pieces(memory, {100, 200})).reply_chunk(pieces(memory, {300}));
	u32 length = u32(message({0}, chunks).size());
	for (u32 cut = min_header; cut < length; cut++) {
		Header header = {t.xid()};
		Octets bytes = message(header, chunks);
		bytes.resize(cut);
		t.send(c, bytes);
		try {
			t.error_chunk(c, header);
		} catch (Failure &failure) {
			throw Failure{text("cut after %u of %u bytes: ", cut, length) + failure.what};
		}
	}
	t.served(c);
	t.note(text("cut after each of %u..%u bytes", min_header, length - 1));
}

/* Each of @lists, in a header that is right otherwise, is answered ERR_CHUNK. */
void refused_lists(Test &t, const std::vector<Words> &lists)
{
	Connection &c = t.connect();
	for (size_t i = 0; i < lists.size(); i++) {
		Header header = {t.xid()};
		t.send(c, Words().octets(fixed_header(header))
				  .octets(lists[i].get())
				  .octets(null_call(header.xid))
				  .get());
		try {
			t.error_chunk(c, header);
		} catch (Failure &failure) {
			throw Failure{text("message %zu of %zu: ", i + 1, lists.size()) +
				      failure.what};
		}
	}
	t.served(c);
}

void segment_count(Test &t)
{
	std::vector<Words> lists;
	/* The last two: so many segments of 16 bytes that a product of 32 bits wraps. */
	for (u32 count : {100u, 1000u, 0x7fffffffu, 0xffffffffu, 0x10000000u, 0x10000001u}) {
		lists.push_back(Words().words({0, 1, count}).words({1, 4096, 0, 0, 0, 0}));
		lists.push_back(Words().words({0, 0, 1, count}).words({1, 4096, 0, 0}));
	}
	refused_lists(t, lists);
}

void optional_word(Test &t)
{
	Segment nowhere = {Rkey(1), 4, 0};
	refused_lists(t, {Words().words({2, 0, 0}), Words().words({0, 2, 0}),
			  Words().words({0, 0, 0xffffffff, 1}).segment(nowhere),
			  Words().words({2, 40}).segment(nowhere).words({0, 0, 0})});
}

void position_odd(Test &t)
{
	Memory memory(t.peer(), 64);
	std::vector<Words> lists;
	for (u32 position : {1u, 42u, 43u, 0xffffffffu})
		lists.push_back(
			Words().words({1, position}).segment(memory.segment()).words({0, 0, 0}));
	refused_lists(t, lists);
}

void msg_position_zero(Test &t)
{
	Connection &c = t.connect();
	Header header = {t.xid()};
	Octets call = null_call(header.xid);
	Memory memory(t.peer(), call);
	t.send(c, message(header, Chunks().read(0, memory.segment()), call));
	t.error_chunk(c, header);
	t.served(c);
}

void nomsg_nothing(Test &t)
{
	Connection &c = t.connect();
	Header header = {t.xid(), u32(Proc::nomsg)};
	t.send(c, message(header, {}));
	t.error_chunk(c, header);
	t.served(c);
}

void nomsg_no_call(Test &t)
{
	Connection &c = t.connect();
	Memory memory(t.peer(), 4096);
	Header header = {t.xid(), u32(Proc::nomsg)};
	t.send(c, message(header, Chunks().reply_chunk({memory.segment()})));
	t.error_chunk(c, header);
	t.served(c);
}

void payload_junk(Test &t)
{
	Connection &c = t.connect();
	for (const char *what : {"empty", "4 bytes", "another xid", "msg_type 7"}) {
		Header header = {t.xid()};
		Octets call = null_call(*what == 'a' ? header.xid ^ 1 : header.xid);
		call.resize(*what == 'e' ? 0 : *what == '4' ? 4 : call.size());
		if (*what == 'm')
			call[7] = 7;
		t.send(c, message(header, {}, call));
		try {
			t.error_chunk(c, header);
		} catch (Failure &failure) {
			throw Failure{text("payload: %s: ", what) + failure.what};
		}
	}
	t.served(c);
}

/* A call that RPC refuses: the transport has nothing to say of it. */
void rpc_refusals(Test &t)
{
	Connection &c = t.connect();
	struct {
		u32 program, version, procedure, accept_stat;
	} const calls[] = {
		{399999, 1, 0, 1},  /* PROG_UNAVAIL */
		{100003, 9, 0, 2},  /* PROG_MISMATCH */
		{100003, 3, 99, 3}, /* PROC_UNAVAIL */
		{100003, 3, 1, 4},  /* GARBAGE_ARGS: a GETATTR without a file handle */
	};
	for (auto &call : calls) {
		u32 xid = t.xid();
		Words rpc = rpc_call(xid, call.program, call.version, call.procedure, true);
		Results results(t.plain_reply(t.call(c, {xid}, {}, rpc.get()), xid), xid);
		u32 got = results.accept_stat();
		check(got == call.accept_stat,
		      text("accept_stat %u, expected %u", got, call.accept_stat));
	}
	u32 xid = t.xid();
	Octets third = null_call(xid);
	third[11] = 3; /* of the RPC version */
	Results results(t.plain_reply(t.call(c, {xid}, {}, third), xid), xid);
	check(results.reply_stat() == 1 && results.word() == 0, "expected RPC_MISMATCH");
	t.served(c);
}

void rpc_noise(Test &t)
{
	Connection &c = t.connect();
	u32 answers = 0;
	for (u32 seed = 0; seed < 16; seed++) {
		u32 xid = t.xid();
		Words call;
		call.words({xid, 0}).octets(pattern(64 + 16 * seed, seed));
		t.send(c, message({xid}, {}, call.get()));
	}
	Received received;
	while (c.receive(received, 500)) {
		Answer answer(std::move(received));
		check(answer.valid(), "came " + answer.describe());
		answers++;
	}
	t.note(text("%u of 16 calls answered", answers));
	/* Late answers to the noise may still come on that one. */
	t.served(t.connect());
}

void credits(Test &t)
{
	Connection &c = t.connect();
	std::string grants;
	for (u32 wanted : {0u, 1u, 0xffffffffu}) {
		u32 xid = t.xid();
		Answer got = t.call(c, {xid, u32(Proc::msg), 1, wanted}, {}, null_call(xid));
		t.plain_reply(got, xid);
		u32 grant = got.header().credits.get();
		check(grant <= 16384, text("a grant of %u for a request of %u", grant, wanted));
		grants += text("%s%u", grants.empty() ? "" : "/", grant);
	}
	t.note("granted " + grants + " for 0/1/4294967295");
}

/* Replies of a client that nobody has called back; their credits count for nothing either. */
void replies(Test &t)
{
	Connection &c = t.connect();
	u32 before = t.served(c);
	Memory memory(t.peer(), 64);
	u32 xid = t.xid();
	Octets reply = Words().words({xid, 1, 0, 0, 0, 0}).get();
	Header wild = {xid};
	wild.credits = 0xffffffff;
	Header none = {xid};
	none.credits = 0;
	for (const Octets &bytes :
	     {message({xid}, {}, reply), message({xid}, {}, reply), message(wild, {}, reply),
	      message(none, {}, reply), message({xid}, Chunks().write({memory.segment()}), reply),
	      message({xid}, Chunks().write({}), reply),
	      message({xid}, Chunks().reply_chunk({memory.segment()}), reply),
	      message({xid}, {}, Words().words({xid, 1}).get()),
	      message({xid}, {}, Words().words({xid, 1, 1, 0, 2, 2}).get())})
		t.send(c, bytes);
	t.dropped(c);
	u32 after = t.served(c);
	check(after >= before, text("a grant of %u after one of %u", after, before));
	same(memory.bytes(), Octets(64), "memory that a reply offered");
}

/* A call that ends early, after each of its words: RPC's to refuse, or to end the connection over. */
void cut_calls(Test &t)
{
	u32 refused = 0, errors = 0, lost = 0;
	auto whole = [](u32 xid) { return Compound(xid).lookup(file_name).getattr().payload(); };
	u32 end = u32(whole(0).size());
	Connection *c = &t.connect();
	for (u32 length = 8; length < end; length += 4) {
		Header header = {t.xid()};
		Octets call = whole(header.xid);
		call.resize(length);
		t.send(*c, message(header, {}, call));
		Received received;
		if (!c->receive(received)) {
			check(c->state() != Connection::State::connected,
			      text("a call cut to %u bytes is neither answered nor ends the "
				   "connection",
				   length));
			lost++;
			c = &t.connect();
			continue;
		}
		Answer answer(std::move(received));
		check(answer.valid() && answer.header().xid.get() == header.xid,
		      text("a call cut to %u bytes: ", length) + answer.describe());
		if (answer.is_error(rpcordma::xdr::ErrorCode::chunk)) {
			errors++;
			continue;
		}
		Results results(t.plain_reply(answer, header.xid), header.xid);
		bool executed = false;
		if (!results.reply_stat()) {
			results.word(); /* the verifier */
			results.opaque();
			executed = !results.word() && !results.word();
		}
		check(!executed, text("a call cut to %u bytes of %u was executed", length, end));
		refused++;
	}
	t.note(text("%u refused by RPC, %u by ERR_CHUNK, %u lost connections", refused, errors,
		    lost));
	t.served(*c);
}

/* Nobody has to survive this, but for the server. */
void oversized(Test &t)
{
	for (u32 size : {4097u, 8192u, 1u << 20}) {
		Connection &c = t.connect();
		u32 xid = t.xid();
		Octets bytes = null_message(xid);
		bytes.resize(size);
		t.send(c, bytes);
		t.lost(c);
	}
}

void overrun_by(Test &t, bool granted)
{
	Setup setup;
	setup.sends = setup.receives = 600;
	Connection &c = t.connect(setup);
	/* Before the first reply it is one (RFC 8166 3.3.3). */
	u32 grant = granted ? t.served(c) : 1, sent = 0, answers = 0;
	for (u32 want = 4 * grant + 20; sent < want && sent < setup.sends - 1; sent++)
		if (!c.send(null_message(t.xid())))
			break;
	Received received;
	while (answers < sent && c.receive(received, 3000)) {
		Answer answer(std::move(received));
		check(answer.valid() && answer.header().kind == Kind::msg,
		      "expected replies, came " + answer.describe());
		answers++;
	}
	check(answers == sent || c.state() != Connection::State::connected,
	      text("%u calls at once with a grant of %u: %u answered, the others neither answered "
		   "nor the connection lost",
		   sent, grant, answers));
	t.note(text("%u calls at once, granted %u: %u answered, then %s", sent, grant, answers,
		    c.describe().c_str()));
}

void overrun(Test &t)
{
	overrun_by(t, true);
}

void overrun_first(Test &t)
{
	overrun_by(t, false);
}

} // namespace

const std::vector<TestCase> header_tests = {
	{"header-under-16", "under 16 bytes: dropped", under_16},
	{"header-under-28", "16 to 27 bytes: dropped", under_28},
	{"header-version", "another version: ERR_VERS 1..1", version},
	{"header-proc", "an unknown proc: ERR_CHUNK", proc_unknown},
	{"header-msgp", "RDMA_MSGP: ERR_CHUNK", proc_msgp},
	{"header-done", "RDMA_DONE: dropped", proc_done},
	{"header-error", "RDMA_ERROR that answers nothing: dropped", proc_error},
	{"header-truncated", "chunk lists cut off at every byte: ERR_CHUNK", truncated},
	{"header-segment-count", "more segments than there are bytes: ERR_CHUNK", segment_count},
	{"header-optional", "optional-data words that are neither 0 nor 1: ERR_CHUNK", optional_word},
	{"header-position", "Positions that are no multiples of four: ERR_CHUNK", position_odd},
	{"header-msg-position-zero", "RDMA_MSG with a Position Zero Read chunk: ERR_CHUNK",
	 msg_position_zero},
	{"header-nomsg-nothing", "RDMA_NOMSG without any chunk: ERR_CHUNK", nomsg_nothing},
	{"header-nomsg-no-call", "RDMA_NOMSG with a Reply chunk alone: ERR_CHUNK", nomsg_no_call},
	{"header-payload", "a payload that is no call of this xid: ERR_CHUNK", payload_junk},
	{"header-credits", "requests of 0 and of 2^32-1 credits: served, a sane grant", credits},
	{"header-oversized", "Sends longer than the server's buffers: connection lost", oversized},
	{"header-overrun", "more calls than granted: each answered, or connection lost", overrun},
	{"header-overrun-first", "24 calls before any grant: the same", overrun_first},
	{"header-reply", "replies to calls that nobody made, with and without chunks: dropped",
	 replies},
	{"rpc-cut", "a call that ends early: refused, or connection lost", cut_calls},
	{"rpc-refused", "calls that RPC refuses: RPC's own answers", rpc_refusals},
	{"rpc-noise", "noise behind the xid of a call: survived", rpc_noise},
};

} // namespace verbs
