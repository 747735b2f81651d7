// SPDX-License-Identifier: GPL-2.0-only
/*
 * Headers that are right and chunks that are not: memory that is not there, or not enough, or too
 * much. RFC 8166 4.5.2, 4.5.3.
 */
#include "test.hh"

namespace verbs {

namespace {

constexpr u32 page = 4096;
/* More than any message that a server takes: NFS's largest payload is 1 MiB, or 4 with newer kernels. */
constexpr u32 too_long = 64 << 20;

struct Call {
	Header header;
	Chunks chunks;
	Octets payload;
};

/*
 * A call that makes the server touch memory which is not there. The first time nothing can be
 * answered: the failed RDMA operation takes the connection with it. The next time, or the time after
 * that, the server knows, and answers ERR_CHUNK (4.5.3).
 */
void touches_nothing(Test &t, const Call &call)
{
	for (u32 failures = 0; failures < 3; failures++) {
		Connection &c = t.connect();
		t.send(c, message(call.header, call.chunks, call.payload));
		Received received;
		if (c.receive(received, 20000)) {
			Answer answer(std::move(received));
			check(answer.is_error(rpcordma::xdr::ErrorCode::chunk) &&
				      answer.header().xid.get() == call.header.xid,
			      "expected ERR_CHUNK, came " + answer.describe());
			check(failures, "ERR_CHUNK before anything can have failed");
			t.served(c);
			t.note(text("ERR_CHUNK after %u lost connections", failures));
			return;
		}
		check(c.state() != Connection::State::connected, "neither answered nor lost");
	}
	throw Failure{"the connection was lost three times over one call, and no ERR_CHUNK came"};
}

Call write_from(Test &t, const Segment &segment)
{
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).write_reduced(0, segment.length);
	return {{xid}, Chunks().read(compound.positions()[0], segment), compound.payload()};
}

/* A READ of @length bytes, which the file has from now on. */
Call read_into(Test &t, const Segment &segment, u32 length = page)
{
	Connection &c = t.connect();
	for (u64 offset = 0; offset < length; offset += 2000)
		t.put(c, offset, pattern(2000, 5));
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).read(0, length);
	return {{xid}, Chunks().write({segment}), compound.payload()};
}

/* The same with a Reply chunk in its place: it has to be used. */
Call reply_into(Test &t, const Segment &segment)
{
	Call call = read_into(t, segment, 6000);
	call.chunks = Chunks().reply_chunk({segment});
	return call;
}

Segment nowhere(Test &t)
{
	Memory memory(t.peer(), page);
	Segment segment = memory.segment();
	segment.handle = Rkey(segment.handle.get() ^ 0x5a);
	return segment;
}

void read_bad_key(Test &t)
{
	touches_nothing(t, write_from(t, nowhere(t)));
}

void read_stale_key(Test &t)
{
	Memory memory(t.peer(), page);
	memory.withdraw();
	touches_nothing(t, write_from(t, memory.segment()));
}

void read_past_end(Test &t)
{
	Memory memory(t.peer(), page);
	touches_nothing(t, write_from(t, memory.segment(0, 2 * page)));
}

void read_bad_address(Test &t)
{
	Memory memory(t.peer(), page);
	Segment segment = memory.segment();
	segment.offset += u64(1) << 40;
	touches_nothing(t, write_from(t, segment));
}

void call_bad_key(Test &t)
{
	Header header = {t.xid(), u32(Proc::nomsg)};
	Segment segment = nowhere(t);
	touches_nothing(t, {header, Chunks().read(0, segment), {}});
}

void write_bad_key(Test &t)
{
	touches_nothing(t, read_into(t, nowhere(t)));
}

void write_stale_key(Test &t)
{
	Memory memory(t.peer(), page);
	memory.withdraw();
	touches_nothing(t, read_into(t, memory.segment()));
}

/* The chunk claims two pages of a memory of one, and that much is written. */
void write_past_end(Test &t)
{
	Memory memory(t.peer(), page);
	touches_nothing(t, read_into(t, memory.segment(0, 2 * page), 2 * page));
}

void reply_bad_key(Test &t)
{
	Segment segment = nowhere(t);
	segment.length = 2 * page;
	touches_nothing(t, reply_into(t, segment));
}

void reply_stale_key(Test &t)
{
	Memory memory(t.peer(), 2 * page);
	memory.withdraw();
	touches_nothing(t, reply_into(t, memory.segment()));
}

void reply_past_end(Test &t)
{
	Memory memory(t.peer(), page);
	touches_nothing(t, reply_into(t, memory.segment(0, 2 * page)));
}

void call_past_end(Test &t)
{
	Memory memory(t.peer(), page);
	Header header = {t.xid(), u32(Proc::nomsg)};
	touches_nothing(t, {header, Chunks().read(0, memory.segment(0, 2 * page)), {}});
}

/* Memory that was good for one call, and is offered again after it was taken back. */
void write_reused_key(Test &t)
{
	Memory memory(t.peer(), page);
	Call call = read_into(t, memory.segment());
	Connection &c = t.connect();
	Answer answer = t.call(c, call.header, call.chunks, call.payload);
	t.returned(answer, call.chunks, {page});
	memory.withdraw();
	touches_nothing(t, read_into(t, memory.segment()));
}

/* The same xid again, repaired: that is another call, and must not be taken for the first. */
void repaired(Test &t)
{
	Octets data = pattern(page, 7);
	Memory memory(t.peer(), data);
	Call bad = write_from(t, nowhere(t));
	for (int i = 0; i < 2; i++) {
		Connection &c = t.connect();
		t.send(c, message(bad.header, bad.chunks, bad.payload));
		Received received;
		if (c.receive(received, 20000))
			break; /* it knows already */
	}
	Connection &c = t.connect();
	Chunks good;
	good.read(bad.chunks.reads[0].position.get(), memory.segment());
	Results results(t.plain_reply(t.call(c, bad.header, good, bad.payload), bad.header.xid),
			bad.header.xid);
	results.compound(3);
	same(t.get(c, 0, 3000), pattern(3000, 7), "what the repaired call wrote");
}

/* Refused before anything is read: reading any of this would cost the connection. */
void read_too_long(Test &t)
{
	Connection &c = t.connect();
	Segment segment = nowhere(t);
	for (u32 segments : {1u, 2u, 16u}) {
		for (u32 length : {too_long, 0x80000000u, 0xffffffffu, 0xfffffffcu}) {
			Call call = write_from(t, segment);
			Chunks chunks;
			segment.length = length;
			for (u32 i = 0; i < segments; i++)
				chunks.read(call.chunks.reads[0].position.get(), segment);
			t.send(c, message(call.header, chunks, call.payload));
			t.error_chunk(c, call.header);
			/* And as the whole call. */
			Header header = {t.xid(), u32(Proc::nomsg)};
			Chunks whole;
			for (u32 i = 0; i < segments; i++)
				whole.read(0, segment);
			t.send(c, message(header, whole));
			t.error_chunk(c, header);
			segment.length = page;
		}
	}
	t.served(c);
}

/* More segments than anybody needs, and all of them right: done or refused. */
void many_segments(Test &t)
{
	Connection &c = t.connect();
	u32 count = 150;
	Memory memory(t.peer(), pattern(4 * count, 8));
	Call call = write_from(t, memory.segment());
	Chunks chunks;
	for (u32 i = 0; i < count; i++)
		chunks.read(call.chunks.reads[0].position.get(), memory.segment(4 * i, 4));
	Answer answer = t.call(c, call.header, chunks, call.payload);
	if (answer.is_error(rpcordma::xdr::ErrorCode::chunk)) {
		t.note("refused");
	} else {
		Results results(t.plain_reply(answer, call.header.xid), call.header.xid);
		results.compound(3);
		same(t.get(c, 0, 4 * count), pattern(4 * count, 8), "what was written");
		t.note("done");
	}
	t.served(c);
}

/* Each of them: refused, as ERR_CHUNK or GARBAGE_ARGS (4.5.2). */
void positions(Test &t)
{
	Connection &c = t.connect();
	Memory memory(t.peer(), page);
	for (u32 i = 0; i < 5; i++) {
		Call call = write_from(t, memory.segment(0, 64));
		u32 position = call.chunks.reads[0].position.get();
		Chunks chunks;
		const char *what = "";
		switch (i) {
		case 0:
			what = "4 bytes behind the end";
			chunks.read(position + 4, memory.segment(0, 64));
			break;
		case 1:
			what = "64 KiB behind the end";
			chunks.read(65536, memory.segment(0, 64));
			break;
		case 2:
			what = "2^32-4";
			chunks.read(0xfffffffc, memory.segment(0, 64));
			break;
		case 3:
			what = "within the chunk before it";
			chunks.read(position, memory.segment(0, 64));
			chunks.read(position + 32, memory.segment(64, 64));
			break;
		case 4:
			what = "in the middle of the RPC header";
			chunks.read(20, memory.segment(0, 64));
			break;
		}
		try {
			Answer answer = t.call(c, call.header, chunks, call.payload);
			if (answer.is_error(rpcordma::xdr::ErrorCode::chunk))
				continue;
			Results results(t.plain_reply(answer, call.header.xid), call.header.xid);
			/* What stands in the middle of the RPC header may well be denied by RPC. */
			if (i == 4)
				continue;
			u32 status = results.accept_stat();
			/* NFSv4 says so in its own words, NFS4ERR_BADXDR. */
			if (!status)
				status = results.word() == 10036 ? 4 : 0;
			check(status == 4, "executed");
		} catch (Failure &failure) {
			throw Failure{text("a Read chunk at a Position %s: ", what) + failure.what};
		}
	}
	t.served(c);
}

void reply_too_small(Test &t)
{
	Connection &c = t.connect();
	for (u64 offset = 0; offset < 8000; offset += 2000)
		t.put(c, offset, pattern(2000, 9));
	Memory memory(t.peer(), 2 * page, 0xee);
	for (auto &segments :
	     {pieces(memory, {1000}), pieces(memory, {500, 1500, 2000}), pieces(memory, {0})}) {
		Header header = {t.xid()};
		Compound compound(header.xid);
		compound.lookup(file_name).read(0, 8000);
		t.send(c, message(header, Chunks().reply_chunk(segments), compound.payload()));
		t.error_chunk(c, header);
	}
	t.served(c);
	Octets behind(memory.bytes().begin() + page, memory.bytes().end());
	same(behind, Octets(page, 0xee), "memory behind the Reply chunk");
}

/* A result that its Write chunk cannot hold: no reply, or one in which the READ failed. */
void write_too_small(Test &t)
{
	Connection &c = t.connect();
	for (u64 offset = 0; offset < 4000; offset += 2000)
		t.put(c, offset, pattern(2000, 10));
	Memory memory(t.peer(), 2 * page, 0xee);
	Header header = {t.xid()};
	Compound compound(header.xid);
	compound.lookup(file_name).read(0, 4000);
	Chunks chunks;
	chunks.write(pieces(memory, {1000, 2000}));
	Answer answer = t.call(c, header, chunks, compound.payload());
	if (!answer.is_error(rpcordma::xdr::ErrorCode::chunk)) {
		Results results(answer.payload(), header.xid);
		results.success();
		u32 status = results.word();
		check(status, "the READ went well");
		t.note(text("the READ failed with %u", status));
	}
	Octets behind(memory.bytes().begin() + 3000, memory.bytes().end());
	same(behind, Octets(2 * page - 3000, 0xee), "memory behind the Write chunk");
	t.served(c);
}

} // namespace

const std::vector<TestCase> chunk_tests = {
	{"chunk-read-bad-key", "a Read chunk of no memory: lost, later ERR_CHUNK", read_bad_key},
	{"chunk-read-stale-key", "of memory that was deregistered: the same", read_stale_key},
	{"chunk-read-past-end", "longer than the memory: the same", read_past_end},
	{"chunk-read-bad-address", "elsewhere than the memory: the same", read_bad_address},
	{"chunk-call-bad-key", "a Position Zero Read chunk of no memory: the same", call_bad_key},
	{"chunk-call-past-end", "one that is longer than its memory: the same", call_past_end},
	{"chunk-write-bad-key", "a Write chunk of no memory: the same", write_bad_key},
	{"chunk-write-stale-key", "of memory that was deregistered: the same", write_stale_key},
	{"chunk-write-reused-key", "of memory that was right in the call before: the same",
	 write_reused_key},
	{"chunk-write-past-end", "longer than the memory: the same", write_past_end},
	{"chunk-reply-bad-key", "a Reply chunk of no memory: the same", reply_bad_key},
	{"chunk-reply-stale-key", "of memory that was deregistered: the same", reply_stale_key},
	{"chunk-reply-past-end", "longer than the memory: the same", reply_past_end},
	{"chunk-repaired", "the same xid with its memory in place: executed", repaired},
	{"chunk-read-too-long", "Reads longer than any message: ERR_CHUNK, nothing read",
	 read_too_long},
	{"chunk-many-segments", "150 read segments of 4 bytes: done or ERR_CHUNK", many_segments},
	{"chunk-reply-too-small", "a Reply chunk that is too small: ERR_CHUNK", reply_too_small},
	{"chunk-write-too-small", "a Write chunk that is too small: ERR_CHUNK, or the READ fails",
	 write_too_small},
	{"chunk-position", "Read chunks at senseless Positions: ERR_CHUNK or GARBAGE_ARGS",
	 positions},
};

} // namespace verbs
