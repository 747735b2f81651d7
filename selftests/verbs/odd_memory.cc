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

constexpr const char *hard = "hard,timeo=600", *hard_acl = "hard,timeo=600,acl";
constexpr u32 large = 65536;
/* Entries that no call of 4 KiB has room for. */
constexpr u32 long_acl = 600;

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

/* A piece of the client's memory, by the work that needs it. */
struct Piece {
	u32 program, procedure;
	/* Where it is in that work's call. */
	std::vector<Segment> (Call::*segments)() const;
	/* The client does it, and all comes out right. */
	void (*work)(Server &);
};

const Piece write_chunk = {nfs_program, proc_read, &Call::write_chunk,
			   [](Server &s) { s.read(0, large); }};
const Piece read_chunk = {nfs_program, proc_write, &Call::read_chunk,
			  [](Server &s) { s.write(0, large, 14); }};
const Piece reply_chunk = {nfs_program, proc_readdir, &Call::reply_chunk,
			   [](Server &s) { s.list(); }};
const Piece call_chunk = {acl_program, acl_proc_set, &Call::call_chunk,
			  [](Server &s) { s.set_acl(long_acl); }};

/* During the work that it is for: refused, then the call comes again and all is right. */
void violate(Server &s, const Piece &piece, Way way, const std::function<Segment(Segment)> &where)
{
	u32 before = s.accepted();
	s.mount(hard_acl);
	once(
		s, piece.procedure,
		[&](Call &call) { refused(call.on, way, where((call.*piece.segments)().at(0))); },
		piece.program);
	piece.work(s);
	connections(s, before + 2);
	s.umount();
}

/* 16 bytes of which 8 are the client's. */
Segment end_of(Segment segment)
{
	return moved(segment, long(segment.length) - 8);
}

Segment begin_of(Segment segment)
{
	return moved(segment, -8);
}

Segment itself(Segment segment)
{
	return segment;
}

void beyond_write(Server &s)
{
	violate(s, write_chunk, Way::write, end_of);
}

void before_write(Server &s)
{
	violate(s, write_chunk, Way::write, begin_of);
}

void beyond_read(Server &s)
{
	violate(s, read_chunk, Way::read, end_of);
}

void beyond_reply(Server &s)
{
	violate(s, reply_chunk, Way::write, end_of);
}

void beyond_call(Server &s)
{
	violate(s, call_chunk, Way::read, end_of);
}

void read_write_chunk(Server &s)
{
	violate(s, write_chunk, Way::read, itself);
	violate(s, reply_chunk, Way::read, itself);
}

void write_read_chunk(Server &s)
{
	violate(s, read_chunk, Way::write, itself);
	violate(s, call_chunk, Way::write, itself);
}

void bad_key(Server &s)
{
	for (u32 change : {0x1u, 0x00ffff00u})
		violate(s, write_chunk, Way::write, [=](Segment g) {
			g.handle = Rkey(g.handle.get() ^ change);
			return g;
		});
}

/* After the reply the memory is the client's again: by our Send With Invalidate, or by itself. */
void stale(Server &s, const Piece &piece, Way way, bool invalidate)
{
	u32 before = s.accepted();
	s.setup.remote_invalidation = invalidate;
	s.mount(hard_acl);
	std::vector<Segment> chunk;
	s.odd = [&](Call &call) {
		if (call.program == piece.program && call.procedure == piece.procedure)
			chunk = (call.*piece.segments)();
		return false;
	};
	piece.work(s);
	s.odd = nullptr;
	Segment gone = chunk.at(0);
	connections(s, before + 1);
	refused(s.current(), way, gone);
	s.read(0, large);
	connections(s, before + 2);
	/* Nor on another connection. */
	refused(s.current(), way, gone);
	s.read(0, large);
	connections(s, before + 3);
	s.umount();
}

void stale_invalidated(Server &s)
{
	stale(s, write_chunk, Way::write, true);
}

void stale_write(Server &s)
{
	stale(s, write_chunk, Way::write, false);
}

void stale_read(Server &s)
{
	stale(s, read_chunk, Way::read, false);
}

void stale_reply(Server &s)
{
	stale(s, reply_chunk, Way::write, false);
}

void stale_call(Server &s)
{
	stale(s, call_chunk, Way::read, false);
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
	Held held(s, proc_read, 2);
	auto job = s.start_read(0, large, 2);
	held.await(2);
	Conversation &on = held.calls[0].on;
	Segment other = held.calls[1].write_chunk().at(0);
	Reply reply = s.prepare(held.calls[0]);
	reply.invalidate = other.handle.get();
	s.reply(on, reply);
	check(on.connection->sent(), "the connection did not survive the invalidation");
	refused(on, Way::write, other);
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
	Held held(s, proc_readdir);
	auto job = s.start("list " + s.address());
	held.await(1);
	job->kill();
	s.finish(*job, 30000);
	check(job->error() == EINTR, "the task was not killed");
	check(!held.calls[0].reply_chunk().empty(), "a READDIR without Reply chunk");
	return std::move(held.calls[0]);
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
	Held held(s);
	auto job = s.start_read(0, large, 4);
	held.await(4);
	int error = s.order("umount " + s.address() + " 1");
	check(error == EBUSY, text("umount -f of a busy mount: %s", strerror(error)));
	s.finish(*job, 30000);
	check(job->error(), "READs that were given up were right");
	s.odd = nullptr;
	for (int i = 0; i < 2; i++) {
		Reply reply = s.prepare_dry(held.calls[i]);
		reply.invalidate.reset();
		s.reply(held.calls[i].on, reply);
	}
	s.read(0, large);
	connections(s, 1);
	refused(held.calls[2].on, Way::write, held.calls[2].write_chunk().at(0));
	s.read(0, large);
	connections(s, 2);
	stay->kill();
	s.finish(*stay, 30000);
}

/*
 * With scratch_remap=Y, which the harness sets for this one: what is written for a killed call, and its reply,
 * goes nowhere, and the connection stays. After the reply the memory is gone.
 */
void scratch_write(Server &s)
{
	Call call = cancelled(s);
	/* An access in the moment of the change would cost the connection. */
	s.serve(500);
	for (const Segment &segment : call.reply_chunk()) {
		ibv_wc_status status =
			call.on.connection->rdma_write(segment, pattern(segment.length, 16));
		check(status == IBV_WC_SUCCESS,
		      text("a late RDMA Write of %u bytes ended with \"%s\"", segment.length,
			   ibv_wc_status_str(status)));
	}
	Reply reply = s.prepare(call);
	reply.invalidate.reset();
	s.reply(call.on, reply);
	s.read(0, large);
	s.list();
	connections(s, 1);
	refused(call.on, Way::write, call.reply_chunk()[0]);
	s.list();
	connections(s, 2);
}

} // namespace

const std::vector<OddTest> odd_memory_tests = {
	{"odd-write-beyond", "an RDMA Write that ends behind the Write chunk: refused", beyond_write},
	{"odd-write-before", "one that begins before it: refused", before_write},
	{"odd-read-beyond", "an RDMA Read that ends behind the Read chunk: refused", beyond_read},
	{"odd-reply-beyond", "an RDMA Write that ends behind the Reply chunk: refused", beyond_reply},
	{"odd-call-beyond", "an RDMA Read that ends behind a long call: refused", beyond_call},
	{"odd-read-written", "an RDMA Read from a Write or Reply chunk: refused", read_write_chunk},
	{"odd-write-read", "an RDMA Write to a Read chunk or a long call: refused", write_read_chunk},
	{"odd-key", "R_keys that are not the client's: refused", bad_key},
	{"odd-stale-invalidated", "an R_key that our reply invalidated: refused, on any connection",
	 stale_invalidated},
	{"odd-stale-write", "an R_key after the reply, not invalidated by us: refused likewise",
	 stale_write},
	{"odd-stale-read", "the same of a Read chunk", stale_read},
	{"odd-stale-reply", "the same of a Reply chunk", stale_reply},
	{"odd-stale-call", "the same of a long call", stale_call},
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
	{"odd-scratch-write",
	 "scratch_remap=Y: an RDMA Write and a reply for a killed call go nowhere", scratch_write},
};

} // namespace verbs
