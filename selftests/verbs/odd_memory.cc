// SPDX-License-Identifier: GPL-2.0-only
/*
 * The client's memory: what the server may reach, and for how long. A violation must be refused by the
 * client's device, which costs the connection; the call is then sent again on the next one.
 */
#include "odd.hh"

#include <cerrno>
#include <cstring>

namespace verbs {

namespace {

constexpr const char *hard = "hard,timeo=600";
constexpr u32 large = 65536;

enum class Way { write, read };

/* The client's device refuses @length bytes at @segment's beginning, and the connection is gone. */
void refused(Conversation &on, Way way, Segment segment, u32 length = 16)
{
	Octets bytes = pattern(length, 13);
	segment.length = length;
	check(on.connection->state() == Connection::State::connected,
	      "no violation is possible: " + on.connection->describe());
	ibv_wc_status status = way == Way::write ? on.connection->rdma_write(segment, bytes) :
						   on.connection->rdma_read(segment, bytes);
	/* Flushed: the client's good-bye overtook its device's refusal. */
	check(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_WR_FLUSH_ERR,
	      text("an RDMA %s ended with \"%s\", expected a refusal",
		   way == Way::write ? "Write" : "Read", ibv_wc_status_str(status)));
	check(on.connection->ended(), "the connection outlives a violation");
}

Segment moved(Segment segment, long by)
{
	segment.offset += u64(by);
	return segment;
}

/* During a READ (@procedure) or a WRITE: refused, then the call comes again and all is right. */
void violate(Server &s, u32 procedure, Way way, const std::function<Segment(Segment)> &where)
{
	u32 before = s.accepted();
	s.mount(hard);
	once(s, procedure, [&](Call &call) {
		Segment segment = procedure == proc_read ? call.write_chunk().at(0) :
							   call.read_chunk().at(0);
		refused(call.on, way, where(segment));
	});
	if (procedure == proc_read)
		s.read(0, large);
	else
		s.write(0, large, 14);
	connections(s, before + 2);
	s.umount();
}

void beyond_write(Server &s)
{
	violate(s, proc_read, Way::write, [](Segment g) { return moved(g, long(g.length) - 8); });
}

void before_write(Server &s)
{
	violate(s, proc_read, Way::write, [](Segment g) { return moved(g, -16); });
}

void beyond_read(Server &s)
{
	violate(s, proc_write, Way::read, [](Segment g) { return moved(g, long(g.length) - 8); });
}

void wrong_way(Server &s, u32 procedure)
{
	violate(s, procedure, procedure == proc_read ? Way::read : Way::write,
		[](Segment g) { return g; });
}

void read_write_chunk(Server &s)
{
	wrong_way(s, proc_read);
}

void write_read_chunk(Server &s)
{
	wrong_way(s, proc_write);
}

void bad_key(Server &s)
{
	for (u32 change : {0x1u, 0x00ffff00u})
		violate(s, proc_read, Way::write, [=](Segment g) {
			g.handle = Rkey(g.handle.get() ^ change);
			return g;
		});
}

/* After the reply the memory is the client's again: by our Send With Invalidate, or by itself. */
void stale(Server &s, u32 procedure, bool invalidate)
{
	s.setup.remote_invalidation = invalidate;
	s.mount(hard);
	std::vector<Segment> chunk;
	s.odd = [&](Call &call) {
		if (call.procedure == procedure)
			chunk = procedure == proc_read ? call.write_chunk() : call.read_chunk();
		return false;
	};
	if (procedure == proc_read)
		s.read(0, large);
	else
		s.write(0, large, 15);
	Conversation &on = s.current();
	connections(s, 1);
	refused(on, procedure == proc_read ? Way::write : Way::read, chunk.at(0));
	s.read(0, large);
	connections(s, 2);
	/* Nor on another connection. */
	refused(s.current(), procedure == proc_read ? Way::write : Way::read, chunk.at(0));
	s.read(0, large);
	connections(s, 3);
	s.umount();
}

void stale_invalidated(Server &s)
{
	stale(s, proc_read, true);
}

void stale_write(Server &s)
{
	stale(s, proc_read, false);
}

void stale_read(Server &s)
{
	stale(s, proc_write, false);
}

void invalidate_nothing(Server &s)
{
	s.mount(hard);
	once(s, proc_read, [&](Call &call) {
		Reply reply = s.prepare(call);
		reply.invalidate = call.write_chunk().at(0).handle.get() ^ 0x00ffff00;
		s.reply(call.on, reply);
	});
	s.read(0, large);
	connections(s, 2);
}

/* The memory of a call under way is taken from us by the reply to another one. */
void invalidate_other(Server &s)
{
	s.mount(hard);
	std::deque<Call> held;
	s.odd = [&](Call &call) {
		if (call.procedure != proc_read || held.size() == 2)
			return false;
		held.push_back(std::move(call));
		return true;
	};
	auto job = s.start_read(0, large, 2);
	check(s.run(30000, [&] { return held.size() == 2; }), "two READs did not come");
	Segment other = held[1].write_chunk().at(0);
	Reply reply = s.prepare(held[0]);
	reply.invalidate = other.handle.get();
	s.reply(held[0].on, reply);
	check(held[0].on.connection->sent(), "the connection did not survive the invalidation");
	refused(held[1].on, Way::write, other);
	s.right(*job, 0, 2 * large);
	connections(s, 2);
}

void invalidate_unannounced(Server &s)
{
	s.setup.remote_invalidation = false;
	s.mount(hard);
	for (int i = 0; i < 3; i++) {
		once(s, proc_read, [&](Call &call) {
			Reply reply = s.prepare(call);
			reply.invalidate = call.write_chunk().at(0).handle.get();
			s.reply(call.on, reply);
		});
		s.read(0, large);
	}
	connections(s, 1);
}

/* A READDIR whose task was killed; what we then do with its Reply chunk. Returns the call. */
Call cancelled(Server &s)
{
	s.mount(hard);
	std::deque<Call> held;
	s.odd = [&](Call &call) {
		if (call.procedure != proc_readdir)
			return false;
		held.push_back(std::move(call));
		return true;
	};
	auto job = s.start("list " + s.address());
	check(s.run(30000, [&] { return !held.empty(); }), "no READDIR came");
	job->kill();
	s.finish(*job, 30000);
	check(job->error() == EINTR, "the task was not killed");
	check(!held[0].reply_chunk().empty(), "a READDIR without Reply chunk");
	s.odd = nullptr;
	return std::move(held[0]);
}

void cancel_write(Server &s)
{
	Call call = cancelled(s);
	refused(call.on, Way::write, call.reply_chunk()[0]);
	s.read(0, large);
	s.list();
	connections(s, 2);
}

void cancel_reply(Server &s)
{
	Call call = cancelled(s);
	Reply reply = s.prepare_dry(call);
	reply.invalidate.reset();
	s.reply(call.on, reply);
	s.send(call.on, reply.bytes());
	s.read(0, large);
	s.list();
	connections(s, 1);
}

void cancel_error(Server &s)
{
	Call call = cancelled(s);
	Header header = {call.xid, u32(Proc::error)};
	s.reply(call.on, Words().octets(fixed_header(header)).word(2).get(), header.credits);
	s.read(0, large);
	s.list();
	connections(s, 1);
}

void cancel_leave(Server &s)
{
	Call call = cancelled(s);
	call.on.connection->disconnect();
	s.read(0, large);
	s.list();
	connections(s, 2);
}

/* Nor does a credit get lost: with one in all, a cancelled call has it until its reply. */
void cancel_credit(Server &s)
{
	s.grant = 1;
	Call call = cancelled(s);
	u32 others = 0;
	s.odd = [&](Call &) {
		others++;
		return false;
	};
	auto job = s.start_read(0, large);
	s.serve(1500);
	check(!others, "a call was sent on a credit that a cancelled call has");
	Reply reply = s.prepare_dry(call);
	reply.invalidate.reset();
	s.reply(call.on, reply);
	s.right(*job, 0, large);
	connections(s, 1);
}

/* The same with READs, which only umount -f gives up; somebody keeps the mount. */
void cancel_reads(Server &s)
{
	s.mount(hard);
	auto stay = s.start("stay " + s.address());
	std::deque<Call> held;
	s.odd = [&](Call &call) {
		if (call.procedure != proc_read)
			return false;
		held.push_back(std::move(call));
		return true;
	};
	auto job = s.start_read(0, large, 4);
	check(s.run(30000, [&] { return held.size() == 4; }), "four READs did not come");
	int error = s.order("umount " + s.address() + " 1");
	check(error == EBUSY, text("umount -f of a busy mount: %s", strerror(error)));
	s.finish(*job, 30000);
	check(job->error(), "READs that were given up were right");
	s.odd = nullptr;
	for (int i = 0; i < 2; i++) {
		Reply reply = s.prepare_dry(held[i]);
		reply.invalidate.reset();
		s.reply(held[i].on, reply);
	}
	s.read(0, large);
	connections(s, 1);
	refused(held[2].on, Way::write, held[2].write_chunk().at(0));
	s.read(0, large);
	connections(s, 2);
	stay->kill();
	s.finish(*stay, 30000);
}

} // namespace

const std::vector<OddTest> odd_memory_tests = {
	{"odd-write-beyond", "an RDMA Write that ends behind the Write chunk: refused", beyond_write},
	{"odd-write-before", "one that begins before it: refused", before_write},
	{"odd-read-beyond", "an RDMA Read that ends behind the Read chunk: refused", beyond_read},
	{"odd-read-written", "an RDMA Read from a Write chunk: refused", read_write_chunk},
	{"odd-write-read", "an RDMA Write to a Read chunk: refused", write_read_chunk},
	{"odd-key", "R_keys that are not the client's: refused", bad_key},
	{"odd-stale-invalidated", "an R_key that our reply invalidated: refused, on any connection",
	 stale_invalidated},
	{"odd-stale-write", "an R_key after the reply, not invalidated by us: refused likewise",
	 stale_write},
	{"odd-stale-read", "the same of a Read chunk", stale_read},
	{"odd-invalidate-nothing", "Send With Invalidate of no R_key: costs the connection",
	 invalidate_nothing},
	{"odd-invalidate-other", "of another call's R_key: both calls end right", invalidate_other},
	{"odd-invalidate-secretly", "of the right one, unannounced: believed",
	 invalidate_unannounced},
	{"odd-cancel-write", "an RDMA Write for a killed call: refused", cancel_write},
	{"odd-cancel-reply", "replies to a killed call: dropped", cancel_reply},
	{"odd-cancel-error", "an error to a killed call: dropped", cancel_error},
	{"odd-cancel-leave", "left with a killed call: forgotten", cancel_leave},
	{"odd-cancel-credit", "a killed call has its credit until the reply", cancel_credit},
	{"odd-cancel-reads", "late replies and RDMA Writes to READs that were given up",
	 cancel_reads},
};

} // namespace verbs
