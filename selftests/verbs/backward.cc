// SPDX-License-Identifier: GPL-2.0-only
/*
 * The server's own calls (RFC 8167), and replies to them that are late, wrong, or too many. To be called
 * takes a session of NFSv4.1 and a delegation that somebody else is in the way of.
 */
#include "test.hh"

namespace verbs {

namespace {

using rpcordma::xdr::Direction;

constexpr u32 callback_program = 0x40000001;
constexpr u32 delay = 10008; /* NFS4ERR_DELAY */

/* Of NFSv4.1 (RFC 8881), what message.hh has no use for. */
enum Operation41 : u32 {
	op_delegreturn = 8,
	op_open = 18,
	op_putfh = 22,
	op_exchange_id = 42,
	op_create_session = 43,
	op_sequence = 53,
	op_reclaim_complete = 58,
	op_cb_recall = 4,
	op_cb_sequence = 11
};

/* A client that has the delegation of a file, and that the server calls to get it back. */
class Called {
public:
	explicit Called(Test &test)
		: c(test.connect()),
		  t(test),
		  name_(text("called-%u", test.xid()))
	{
		Words exchange;
		exchange.words({op_exchange_id, 1, t.xid()}).opaque(name_).words({0, 0, 0});
		Results id = run_(1, exchange);
		id.operation(op_exchange_id);
		client_ = id.octets(8);

		Words create;
		create.word(op_create_session).octets(client_);
		create.words({id.word(), 2 /* calls back on this connection */});
		for (int channel = 0; channel < 2; channel++)
			create.words({0, 4096, 4096, 1024, 8, 4, 0});
		create.words({callback_program, 1, 0 /* AUTH_NONE */});
		Results created = run_(1, create);
		created.operation(op_create_session);
		session_ = created.octets(16);
		run_in_session_(1, Words().words({op_reclaim_complete, 0}));

		Words open;
		open.words({op_putrootfh, op_open, 0, 1 /* to read */, 0}).octets(client_).opaque(name_);
		/* Create it, without attributes, by its name. */
		open.words({1, 0, 0, 0, 0}).opaque(name_).word(op_getfh);
		Results opened = run_in_session_(3, open);
		opened.operation(op_putrootfh);
		opened.operation(op_open);
		opened.octets(16 + 20 + 4); /* stateid, change_info4, flags */
		for (u32 words = opened.word(); words; words--)
			opened.word();
		check(opened.word() == 1, "the server gives no delegation to read");
		delegation_ = opened.octets(16);
		opened.octets(16); /* recall, and what everybody may do */
		opened.opaque();
		opened.operation(op_getfh);
		handle_ = opened.opaque();
	}

	/* Somebody else writes to the file; returns what NFS says to that. */
	u32 write()
	{
		if (!other_)
			other_ = &t.connect();
		u32 xid = t.xid();
		Compound compound(xid);
		compound.lookup(name_).write(0, pattern(100, 1));
		Results results(t.plain_reply(t.call(*other_, {xid}, {}, compound.payload()), xid),
				xid);
		results.success();
		return results.word();
	}
	/* The same, which makes the server call. */
	void provoke()
	{
		u32 status = write();
		check(status == delay, text("a WRITE in the way of a delegation: %u", status));
	}
	/* The server's next call, a CB_RECALL; returns its xid. */
	u32 called()
	{
		while (calls_.empty())
			take_();
		Answer call = std::move(calls_.front());
		calls_.pop_front();
		const auto &header = call.header();
		check(header.kind == Kind::msg && !header.has_chunks() && header.credits.get(),
		      "a call of the server's that is " + call.describe());
		Reader in(call.payload());
		u32 xid = in.word(), type = in.word(), rpc = in.word(), program = in.word();
		u32 version = in.word(), procedure = in.word();
		check(xid == header.xid.get() && !type && rpc == 2 && program == callback_program &&
			      version == 1 && procedure == 1,
		      text("a call of the server's to program %u, procedure %u", program, procedure));
		for (int i = 0; i < 2; i++) {
			in.word();
			in.opaque();
		}
		in.opaque();
		in.octets(12); /* minor version, ident, number of operations */
		check(in.word() == op_cb_sequence && in.octets(16) == session_, "no CB_SEQUENCE");
		callback_sequence_ = in.word();
		in.octets(16); /* slots, whether to cache, no referring calls */
		check(in.word() == op_cb_recall && in.octets(16) == delegation_, "no CB_RECALL");
		return xid;
	}
	/* What is right to say to called(). */
	[[nodiscard]] Octets reply(u32 xid) const
	{
		Words reply;
		reply.words({xid, 1, 0, 0, 0, 0}).words({0, 0, 2});
		reply.words({op_cb_sequence, 0}).octets(session_).words({callback_sequence_, 0, 0, 0});
		return reply.words({op_cb_recall, 0}).get();
	}
	void answer(u32 xid)
	{
		t.send(c, message({xid}, {}, reply(xid)));
	}
	/* The delegation goes back, and the WRITE goes on: the connection serves, and the recall was one. */
	void finish()
	{
		Words give;
		give.word(op_putfh).opaque(handle_).word(op_delegreturn).octets(delegation_);
		run_in_session_(2, give);
		u64 deadline = now_ms() + answer_ms;
		u32 status;
		while ((status = write()) == delay && now_ms() < deadline)
			t.peer().run(50, [] { return false; });
		check(!status, text("the WRITE came to %u", status));
		check(c.state() == Connection::State::connected, c.describe());
	}

	Connection &c;

private:
	/* The next message: a call, or an answer. */
	void take_()
	{
		Answer answer = t.answer(c);
		const Direction way = answer.header().direction;
		check(way != Direction::unknown, "came " + answer.describe());
		(way == Direction::call ? calls_ : answers_).push_back(std::move(answer));
	}
	Results run_(u32 operations, const Words &arguments)
	{
		u32 xid = t.xid();
		Words call = rpc_call(xid, 100003, 4, 1, true);
		call.words({0, 1, operations}).octets(arguments.get());
		t.send(c, message({xid}, {}, call.get()));
		while (answers_.empty())
			take_();
		Answer answer = std::move(answers_.front());
		answers_.pop_front();
		Results results(t.plain_reply(answer, xid), xid);
		results.compound(operations);
		return results;
	}
	/* Behind a SEQUENCE, which is read. */
	Results run_in_session_(u32 operations, const Words &arguments)
	{
		Words all;
		all.word(op_sequence).octets(session_).words({++sequence_, 0, 0, 0});
		Results results = run_(operations + 1, all.octets(arguments.get()));
		results.operation(op_sequence);
		results.octets(36);
		return results;
	}

	Test &t;
	std::string name_;
	Octets client_, session_, delegation_, handle_;
	u32 sequence_ = 0, callback_sequence_ = 0;
	Connection *other_ = nullptr;
	std::deque<Answer> calls_, answers_;
};

void right(Test &t)
{
	Called k(t);
	k.provoke();
	k.answer(k.called());
	k.finish();
}

void twice(Test &t)
{
	Called k(t);
	k.provoke();
	u32 xid = k.called();
	for (int i = 0; i < 4; i++)
		k.answer(xid);
	k.answer(xid + 1000);
	t.dropped(k.c);
	k.finish();
}

/* Whatever is no reply to it changes nothing; the right one then counts, though it grants no credit. */
void wrong(Test &t)
{
	Called k(t);
	k.provoke();
	u32 xid = k.called();
	Memory memory(t.peer(), 256);
	Octets other = k.reply(xid);
	other[3] ^= 1;
	for (const Octets &bytes :
	     {message({xid ^ 0x10000}, {}, k.reply(xid ^ 0x10000)),
	      message({xid}, Chunks().write({memory.segment()}), k.reply(xid)),
	      message({xid}, Chunks().reply_chunk({memory.segment()}), k.reply(xid))})
		t.send(k.c, bytes);
	Header header = {xid};
	t.send(k.c, message(header, {}, other));
	t.error_chunk(k.c, header);
	header.credits = 0;
	t.send(k.c, message(header, {}, k.reply(xid)));
	k.finish();
}

/* The call fails, and nfsd makes it anew. */
void error(Test &t)
{
	for (auto body : {std::initializer_list<u32>{2}, {1, 1, 1}}) {
		Called k(t);
		k.provoke();
		u32 xid = k.called();
		t.send(k.c, Words().octets(fixed_header({xid, u32(Proc::error)})).words(body).get());
		u32 again = k.called();
		check(again != xid, "the server calls again with the same xid");
		k.answer(xid);
		k.answer(again);
		k.finish();
	}
}

/* After nfsd's patience, which is a tenth of the lease, the reply is nobody's. */
void late(Test &t)
{
	Called k(t);
	k.provoke();
	u32 first = k.called(), second = k.called();
	check(first != second, "the server calls again with the same xid");
	k.answer(first);
	k.answer(second);
	k.finish();
}

void leave(Test &t)
{
	Called k(t);
	k.provoke();
	k.called();
	t.drop(k.c);
	/* It waits for the delegation to come back, or for the lease to end; others do not. */
	check(k.write() == delay, "the WRITE went through");
	t.served(t.connect());
}

} // namespace

const std::vector<TestCase> backward_tests = {
	{"backward-right", "CB_RECALL, answered as it should be", right},
	{"backward-twice", "answered again and again, and to nobody: dropped", twice},
	{"backward-wrong", "answered with chunks, by another xid: dropped; and then rightly", wrong},
	{"backward-error", "RDMA_ERROR to it: it fails, and comes anew", error},
	{"backward-late", "no answer: it comes anew; the late answer is dropped", late},
	{"backward-leave", "left with the call: others are served", leave},
};

} // namespace verbs
