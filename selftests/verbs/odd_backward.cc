// SPDX-License-Identifier: GPL-2.0-only
/*
 * Backward calls (RFC 8167). A client of NFSv4.1 serves them from its EXCHANGE_ID on, which is left
 * unanswered meanwhile: CB_NULL needs no session, and so this program no NFSv4.
 */
#include "odd.hh"

#include <cstring>

namespace verbs {

using rpcordma::xdr::ErrorCode;

namespace {

constexpr u32 callback_program = 0x40000000;
/* As many as every client of this transport has to bear (module/client/client.hh). */
constexpr u32 backward_credits = 16;

Octets callback(u32 xid, u32 procedure = 0)
{
	return rpc_call(xid, callback_program, 1, procedure).get();
}

/* A client that waits for the reply to its EXCHANGE_ID, and serves callbacks. */
class Waiting {
public:
	explicit Waiting(Server &server) : s(server)
	{
		s.odd = [this](Call &call) {
			if (call.procedure == proc_null)
				return false;
			held.push_back(std::move(call));
			return true;
		};
		job = s.start("mount " + s.address() +
			      " vers=4.1,proto=rdma,port=20049,clientaddr=10.0.0.2");
		check(s.run(60000, [&] { return !held.empty(); }), "no EXCHANGE_ID came");
	}
	Conversation &on()
	{
		return s.current();
	}
	/* The next answer to a backward call. */
	Answer answer()
	{
		auto &answers = on().answers;
		if (!s.run(answer_ms * 2, [&] { return !answers.empty(); }))
			throw Failure{"no answer to a backward call: " + on().connection->describe()};
		Answer first = std::move(answers.front());
		answers.pop_front();
		return first;
	}
	/* That of a backward call, of the connection's version. */
	Header header(u32 xid)
	{
		return on().header(xid, true);
	}
	/* CB_NULL is executed. */
	void served(u32 xid)
	{
		s.send(on(), message(header(xid), {}, callback(xid)));
		expect(xid);
	}
	void expect(u32 xid)
	{
		Answer got = answer();
		check(got.header().kind == Kind::msg && got.header().xid.get() == xid,
		      text("expected an RDMA_MSG to xid %u, came ", xid) + got.describe());
		same_version(got);
		check(!got.header().has_chunks(), "a backward reply has chunks");
		Results results(got.payload(), xid);
		results.success();
		results.end();
	}
	void refused(u32 xid)
	{
		Answer got = answer();
		check(got.is_error(ErrorCode::chunk) && got.header().xid.get() == xid,
		      text("expected ERR_CHUNK to xid %u, came ", xid) + got.describe());
		same_version(got);
	}
	/* As the calls that are answered at all. */
	void same_version(const Answer &got)
	{
		check(got.vers() == on().vers,
		      text("version %u in the answer to a call of %u", got.vers(), on().vers));
	}
	/* Nothing has come of what was sent; the same connection serves. */
	void ignored(u32 xid)
	{
		s.serve(300);
		served(xid);
		connections(s, 1);
	}
	/* The connection may be another one by now: the EXCHANGE_ID comes again if it has to. */
	void again()
	{
		bool came = s.run(60000, [&] {
			return on().connection->state() == Connection::State::connected &&
			       &held.back().on == &on();
		});
		check(came, "EXCHANGE_ID was not sent again");
		s.serve(300);
		on().answers.clear();
	}
	/* The mount gets its reply: that there is no NFSv4 here. */
	void end()
	{
		s.odd = nullptr;
		for (Call &call : held)
			if (&call.on == &on())
				s.answer(call);
		s.finish(*job, 60000);
		check(job->error(), "a mount of a version that there is not");
	}

	Server &s;
	std::deque<Call> held;
	std::unique_ptr<Job> job;
};

void backward_right(Server &s)
{
	Waiting w(s);
	for (u32 xid = 1; xid <= 40; xid++)
		w.served(xid);
	w.ignored(41);
	w.end();
}

void backward_xid(Server &s)
{
	Waiting w(s);
	u32 xid = w.held[0].xid;
	w.served(xid);
	w.served(xid);
	w.end();
	connections(s, 1);
}

void backward_chunks(Server &s)
{
	Waiting w(s);
	u32 xid = 100;
	Memory memory(s.peer(), 4096);
	for (const Chunks &chunks :
	     {Chunks().read(callback(0).size() - 4, memory.segment()),
	      Chunks().write({memory.segment()}), Chunks().write({}),
	      Chunks().reply_chunk({memory.segment()}),
	      Chunks().read(40, memory.segment()).reply_chunk({memory.segment()})}) {
		++xid;
		s.send(w.on(), message(w.header(xid), chunks, callback(xid)));
		w.refused(xid);
	}
	++xid;
	Header nomsg = w.header(xid);
	nomsg.proc = u32(Proc::nomsg);
	s.send(w.on(), message(nomsg, Chunks().read(0, memory.segment()), {}));
	w.refused(xid);
	w.ignored(++xid);
	w.end();
}

/* What this client answers has version 1: calls of another get no answer (RFC 8167 5.2). */
void backward_version(Server &s)
{
	Waiting w(s);
	Memory memory(s.peer(), 4096);
	u32 xid = 100;
	for (u32 vers : {0u, 2u, 0x01000000u, ~0u}) {
		Header header = {++xid};
		header.vers = vers;
		s.send(w.on(), message(header, {}, callback(xid)));
		header.xid = ++xid;
		s.send(w.on(), message(header, Chunks().write({memory.segment()}), callback(xid)));
	}
	/* The next answer is that to a right call. */
	w.ignored(++xid);
	w.end();
}

void backward_burst(Server &s)
{
	Waiting w(s);
	std::set<u32> owed;
	for (u32 xid = 1; xid <= backward_credits; xid++) {
		s.send(w.on(), message(w.header(xid), {}, callback(xid)));
		owed.insert(xid);
	}
	while (!owed.empty()) {
		Answer got = w.answer();
		check(got.header().kind == Kind::msg && owed.erase(got.header().xid.get()),
		      "expected a reply to one of the calls, came " + got.describe());
	}
	w.ignored(1000);
	w.end();
}

/* Far more calls than credits: it may serve them, or leave; nothing worse. */
void backward_overrun(Server &s)
{
	Waiting w(s);
	Conversation &on = w.on();
	u32 sent = 0;
	for (; sent < 400 && on.connection->state() == Connection::State::connected; sent++)
		s.send(on, message(w.header(sent + 1), {}, callback(sent + 1)));
	s.run(10000, [&] {
		return on.answers.size() == sent ||
		       on.connection->state() != Connection::State::connected;
	});
	check(on.connection->state() != Connection::State::connected || on.answers.size() == sent,
	      text("%zu of %u backward calls are answered, and the connection stays",
		   on.answers.size(), sent));
	w.again();
	w.served(5000);
	w.end();
}

/* Replies to calls of a connection that is lost are not for the next one. */
void backward_leave(Server &s)
{
	Waiting w(s);
	for (u32 round = 0; round < 2; round++) {
		for (u32 xid = 1; xid <= backward_credits; xid++)
			s.send(w.on(), message(w.header(xid), {}, callback(xid)));
		/* They have come when the last Send has ended. */
		(void)w.on().connection->sent();
		w.on().connection->disconnect();
		w.again();
	}
	w.served(5000);
	w.end();
}

/* Too long for anything but a CB_COMPOUND, too short for a call, for another program. */
void backward_noise(Server &s)
{
	Waiting w(s);
	u32 xid = 200;
	Octets longest = callback(++xid);
	longest.resize(4096 - 28);
	s.send(w.on(), message(w.header(xid), {}, longest));
	w.answer();
	++xid;
	s.send(w.on(), message(w.header(xid), {}, rpc_call(xid, 4711, 1, 0).get()));
	Results(w.answer().payload(), xid).reply_stat();
	w.ignored(++xid);
	for (size_t length : {8, 12, 20, 39}) {
		Octets call = callback(++xid);
		call.resize(length);
		s.send(w.on(), message(w.header(xid), {}, call));
	}
	/* What it makes of half a call is sunrpc's. */
	s.serve(500);
	w.on().answers.clear();
	w.served(++xid);
	Header none = w.header(++xid);
	none.credits = 0;
	s.send(w.on(), message(none, {}, callback(xid)));
	w.expect(xid);
	connections(s, 1);
	w.end();
}

void backward_error(Server &s)
{
	Waiting w(s);
	for (u32 code : {1u, 2u}) {
		Header header = {300 + code, u32(Proc::error)};
		s.send(w.on(), Words().octets(fixed_header(header)).words({code, 1, 1}).get());
	}
	w.ignored(310);
	w.end();
}

/* What is not of version 2 is refused there, and what is, but cannot be served. The R_key of a call is nobody's here. */
void backward_version_2(Server &s)
{
	s.version2 = true;
	Waiting w(s);
	check(w.on().vers == version_2, "version 2 is not spoken");
	u32 xid = 500;
	for (u32 vers : {0u, 1u, 3u, ~0u}) {
		Header header = w.header(++xid);
		header.vers = vers;
		if (vers == 1)
			header.direction.reset();
		s.send(w.on(), message(header, {}, callback(xid)));
		Answer got = w.answer();
		check(got.is_error(ErrorCode::version) && got.vers() == vers &&
			      got.header().xid.get() == xid && got.header().error.low == version_2 &&
			      got.header().error.high == version_2,
		      text("a call of version %u: expected ERR_VERS 2..2, came ", vers) +
			      got.describe());
	}
	for (u32 proc : {2u, 3u, 10u, ~0u}) {
		Header header = w.header(++xid);
		header.proc = proc;
		s.send(w.on(), message(header, {}, callback(xid)));
		Answer got = w.answer();
		check(got.is_error(ErrorCode::procedure) && got.header().xid.get() == xid,
		      text("rdma_proc %u: expected INVAL_PROC, came ", proc) + got.describe());
	}
	/* Neither call nor reply; a call whose payload is something else, or nothing. */
	for (u32 direction : {2u, ~0u}) {
		Header header = w.header(++xid);
		header.direction = direction;
		s.send(w.on(), message(header, {}, callback(xid)));
		w.refused(xid);
	}
	++xid;
	s.send(w.on(), message(w.header(xid), {}, callback(xid + 1)));
	w.refused(xid);
	++xid;
	s.send(w.on(), message(w.header(xid), {}, Words().words({xid, 1, 0, 0, 0, 0}).get()));
	w.refused(xid);
	s.send(w.on(), message(w.header(++xid), {}, {}));
	w.refused(xid);
	for (u32 rkey : {0x1234u, ~0u}) {
		Header header = w.header(++xid);
		header.invalidate = rkey;
		s.send(w.on(), message(header, {}, callback(xid)));
		w.refused(xid);
	}
	w.ignored(++xid);
	w.end();
}

/* A client of NFSv3 serves none. */
void backward_unexpected(Server &s)
{
	s.mount("hard,timeo=600");
	Memory memory(s.peer(), 4096);
	for (u32 xid = 1; xid <= 4; xid++) {
		Header header = s.current().header(xid, true);
		s.send(s.current(), message(header, {}, callback(xid)));
		s.send(s.current(),
		       message(header, Chunks().read(0, memory.segment()), callback(xid)));
		s.serve(50);
	}
	s.serve(300);
	check(s.current().answers.empty(), "a client that serves no backward calls answers one");
	s.read(0, 65536);
	connections(s, 1);
}

} // namespace

const std::vector<OddTest> odd_backward_tests = {
	{"odd-backward-right", "CB_NULL, as it should be: executed", backward_right},
	{"odd-backward-xid", "with the xid of a forward call under way: both answered", backward_xid},
	{"odd-backward-chunks", "with chunks of each kind: ERR_CHUNK", backward_chunks},
	{"odd-backward-version", "of versions that there are not: dropped", backward_version},
	{"odd-backward-burst", "as many at once as there are credits: all executed", backward_burst},
	{"odd-backward-overrun", "far more: executed, or the connection is lost", backward_overrun},
	{"odd-backward-leave", "left with backward calls: no reply to them on the next connection",
	 backward_leave},
	{"odd-backward-noise", "too long, too short, unknown: a service goes on", backward_noise},
	{"odd-backward-error", "errors to backward replies: dropped", backward_error},
	{"odd-v2-backward-refused",
	 "in version 2: other versions and procs, no direction, a foreign R_key", backward_version_2},
	{"odd-unexpected", "to a client that serves none: dropped", backward_unexpected},
};

} // namespace verbs
