// SPDX-License-Identifier: GPL-2.0-only
/*
 * NFS as it should be, with chunks as few clients use them: what RFC 8166 and 8267 allow, a responder
 * has to bear.
 */
#include "test.hh"

#include <algorithm>

namespace verbs {

namespace {

/* NFSv4 results up to the READ's data. */
void before_read(Results &results, u32 operations)
{
	results.compound(operations);
	results.operation(op_putrootfh);
	results.operation(op_lookup);
}

/* The result of READ with its data in a Write chunk: the length, and nothing of the data. */
void reduced_read(Results &results, u32 length)
{
	bool eof;
	u32 got = results.read(eof);
	check(got == length, text("a READ of %u bytes, expected %u", got, length));
}

/* The result of GETATTR, of the size alone; nothing follows. */
void size_attribute(Results &results)
{
	results.operation(op_getattr);
	check(results.word() == 1 && results.word() == 1 << 4, "GETATTR: other attributes");
	results.opaque();
	results.end();
}

Octets front(Memory &memory, size_t length)
{
	return Octets(memory.bytes().begin(), memory.bytes().begin() + length);
}

/* Fill the file's first bytes, by one WRITE with a Read chunk in one piece. */
void fill(Test &t, Connection &c, const Octets &data, u64 offset = 0)
{
	Memory memory(t.peer(), data);
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).write_reduced(offset, u32(data.size()));
	Chunks chunks;
	chunks.read(compound.positions()[0], memory.segment());
	Results results(t.plain_reply(t.call(c, {xid}, chunks, compound.payload()), xid), xid);
	results.compound(3);
}

/* Read the file by a Write chunk in one piece. */
Octets fetch(Test &t, Connection &c, u32 length, u64 offset = 0)
{
	Memory memory(t.peer(), length);
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).read(offset, length);
	Chunks chunks;
	chunks.write({memory.segment()});
	Answer answer = t.call(c, {xid}, chunks, compound.payload());
	t.returned(answer, chunks, {length});
	Results results(answer.payload(), xid);
	before_read(results, 3);
	reduced_read(results, length);
	results.end();
	return front(memory, length);
}

void call_in_chunk(Test &t)
{
	Connection &c = t.connect();
	struct Cut {
		u32 first, second;
	};
	/* In one piece, in three, and with pieces that end anywhere. */
	for (auto [first, second] : {Cut{0, 0}, Cut{40, 80}, Cut{1, 6}, Cut{63, 65}}) {
		u32 xid = t.xid();
		Compound compound(xid);
		compound.lookup(file_name).getattr();
		Octets call = compound.payload();
		Memory memory(t.peer(), call);
		Chunks chunks;
		if (first)
			chunks.read(0, memory.segment(0, first))
				.read(0, memory.segment(first, second - first));
		chunks.read(0, memory.segment(second, u32(call.size()) - second));
		Answer answer = t.call(c, {xid, u32(Proc::nomsg)}, chunks, {});
		Results(t.plain_reply(answer, xid), xid).compound(3);
	}
}

void reply_in_chunk(Test &t)
{
	Connection &c = t.connect();
	fill(t, c, pattern(9000, 21));
	for (u32 length : {8000u, 8001u, 8999u}) {
		Memory memory(t.peer(), 16384);
		u32 xid = t.xid();
		Compound compound(xid);
		compound.lookup(file_name).read(0, length);
		Chunks chunks;
		chunks.reply_chunk(pieces(memory, {1000, 7, 4096, 11281}));
		Answer answer = t.call(c, {xid}, chunks, compound.payload());
		check(answer.header().kind == Kind::nomsg,
		      "expected an RDMA_NOMSG, came " + answer.describe());
		u32 written = u32(answer.header().reply.length());
		t.returned(answer, chunks, {}, written);
		Results results(front(memory, written), xid);
		before_read(results, 3);
		bool eof;
		check(results.read(eof) == length, "a short READ");
		same(results.octets(length), pattern(length, 21), "what was read");
		results.octets(rpcordma::xdr_pad(length));
		results.end();
	}
}

/* A reply that fits inline, and a Reply chunk besides: either may be used. */
void reply_chunk_unneeded(Test &t)
{
	Connection &c = t.connect();
	Memory memory(t.peer(), 4096);
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).getattr();
	Chunks chunks;
	chunks.reply_chunk(pieces(memory, {48, 2048}));
	Answer answer = t.call(c, {xid}, chunks, compound.payload());
	bool inside = answer.header().kind == Kind::msg;
	u32 written = inside ? 0 : u32(answer.header().reply.length());
	t.returned(answer, chunks, {}, written);
	Results(inside ? answer.payload() : front(memory, written), xid).compound(3);
	t.note(inside ? "came inline" : "came in the chunk");
}

void call_and_reply_in_chunks(Test &t)
{
	Connection &c = t.connect();
	fill(t, c, pattern(9000, 22));
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).read(0, 9000);
	Memory call(t.peer(), compound.payload()), reply(t.peer(), 16384);
	Chunks chunks;
	chunks.read(0, call.segment()).reply_chunk({reply.segment()});
	Answer answer = t.call(c, {xid, u32(Proc::nomsg)}, chunks, {});
	u32 written = u32(answer.header().reply.length());
	t.returned(answer, chunks, {}, written);
	Results results(front(reply, written), xid);
	before_read(results, 3);
	bool eof;
	same(results.octets(results.read(eof)), pattern(9000, 22), "what was read");
}

/* WRITEs whose data come in one Read chunk, of these lengths, cut in these pieces. */
void write_chunk(Test &t)
{
	Connection &c = t.connect();
	u32 seed = 30;
	for (u32 length : {1u, 4u, 7u, 999u, 4096u, 65535u, 100001u}) {
		for (u32 cut : {0u, 1u, 6u, 4097u}) {
			for (bool pad : {false, true}) {
				if (cut >= length || (pad && !rpcordma::xdr_pad(length)))
					continue;
				Octets data = pattern(length, ++seed);
				Octets padded = data;
				padded.resize(length + rpcordma::xdr_pad(length));
				Memory memory(t.peer(), padded);
				u32 xid = t.xid(), all = u32(pad ? padded.size() : length);
				Compound compound(xid);
				compound.lookup(file_name).write_reduced(0, length).getattr();
				u32 position = compound.positions()[0];
				Chunks chunks;
				if (cut)
					chunks.read(position, memory.segment(0, cut));
				chunks.read(position, memory.segment(cut, all - cut));
				try {
					Answer answer = t.call(c, {xid}, chunks, compound.payload());
					Results(t.plain_reply(answer, xid), xid).compound(4);
					same(fetch(t, c, length), data, "what was written");
				} catch (Failure &failure) {
					throw Failure{text("%u bytes, %s pad, cut at %u: ", length,
							   pad ? "with" : "without", cut) +
						      failure.what};
				}
			}
		}
	}
}

/* The pad as a segment of its own, which RFC 8166 3.4.5.2 allows. */
void write_pad_segment(Test &t)
{
	Connection &c = t.connect();
	Octets data = pattern(5001, 61);
	Memory memory(t.peer(), data), pad(t.peer(), 3);
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).write_reduced(0, 5001).getattr();
	Chunks chunks;
	chunks.read(compound.positions()[0], memory.segment())
		.read(compound.positions()[0], pad.segment());
	Answer answer = t.call(c, {xid}, chunks, compound.payload());
	Results(t.plain_reply(answer, xid), xid).compound(4);
	same(fetch(t, c, 5001), data, "what was written");
}

/*
 * A WRITE whose chunk has the first of its data alone, against RFC 8166 3.4.4.1, and the others are inline. nfsd takes as many
 * bytes as the call says from where the chunk's are: what follows them there is to be the call's, not somebody else's.
 */
void write_short_chunk(Test &t)
{
	Connection &c = t.connect();

	for (const u32 first : {4u, 1000u, 4096u, 20000u}) {
		const Octets data = pattern(first + 500, 70 + first);
		Memory memory(t.peer(), Octets(data.begin(), data.begin() + first));
		const u32 xid = t.xid();
		Compound compound(xid);
		compound.lookup(file_name).write(0, data).getattr();
		Octets stream = compound.payload();
		const auto at = std::search(stream.begin(), stream.end(), data.begin(), data.end());
		check(at != stream.end(), "the data are not in the call");
		Chunks chunks;
		chunks.read(u32(at - stream.begin()), memory.segment());
		stream.erase(at, at + first);
		Results(t.plain_reply(t.call(c, {xid}, chunks, stream), xid), xid).compound(4);
		same(fetch(t, c, first + 500), data,
		     text("what was written, of which %u bytes are in the chunk", first).c_str());
	}
}

/*
 * Two WRITEs in one COMPOUND, each with a Read chunk; the whole call inline, or in a chunk too.
 * nfsd takes a WRITE's data for what begins in the head of the call or with a page
 * (svc_fill_write_vector() knows no page_base): so the second one's have to begin in the first page
 * of the call, over any transport.
 */
void write_two(Test &t, bool whole, u32 first, u32 second)
{
	Connection &c = t.connect();
	Octets one = pattern(first, 62 + first), two = pattern(second, 63 + second);
	Memory a(t.peer(), one), b(t.peer(), two);
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).write_reduced(0, first).write_reduced(200000, second).getattr();
	Memory call(t.peer(), compound.payload());
	Chunks chunks;
	if (whole)
		chunks.read(0, call.segment());
	chunks.read(compound.positions()[0], a.segment());
	chunks.read(compound.positions()[1], b.segment(0, 100));
	chunks.read(compound.positions()[1], b.segment(100, second - 100));
	Answer answer = t.call(c, {xid, u32(whole ? Proc::nomsg : Proc::msg)}, chunks,
			       whole ? Octets() : compound.payload());
	Results(t.plain_reply(answer, xid), xid).compound(5);
	same(fetch(t, c, first), one, "what the first WRITE wrote");
	same(fetch(t, c, second, 200000), two, "what the second WRITE wrote");
}

void write_two_chunks(Test &t)
{
	write_two(t, false, 2048, 4096);
}

void write_two_odd(Test &t)
{
	write_two(t, false, 1501, 70003);
}

/*
 * A WRITE in a Position Zero Read chunk, its data in another one: what our client sends a server with the mark, in
 * either version, when a call is too long without them. The pad is in neither chunk, or with the data.
 */
void write_in_chunk_call(Test &t, u32 length, bool pad)
{
	Connection &c = t.connect();
	fill(t, c, pattern(length, 63));
	Octets data = pattern(length, 64), padded = data;
	if (pad)
		padded.resize(length + rpcordma::xdr_pad(length));
	Memory memory(t.peer(), padded);
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).write_reduced(0, length).getattr();
	Memory call(t.peer(), compound.payload());
	Chunks chunks;
	chunks.read(0, call.segment()).read(compound.positions()[0], memory.segment());
	Answer answer = t.call(c, {xid, u32(Proc::nomsg)}, chunks, {});
	Results results(t.plain_reply(answer, xid), xid);
	try {
		results.compound(4);
	} catch (Failure &failure) {
		/* It may have written all the same. */
		bool there = fetch(t, c, length) == data;
		throw Failure{failure.what + (there ? "; the data are in the file" :
						      "; the data are not in the file")};
	}
	same(fetch(t, c, length), data, "what was written");
}

void write_one_in_chunk_call(Test &t)
{
	write_in_chunk_call(t, 20000, false);
}

void write_odd_in_chunk_call(Test &t)
{
	write_in_chunk_call(t, 20001, false);
}

void write_padded_in_chunk_call(Test &t)
{
	write_in_chunk_call(t, 20001, true);
}

void write_two_in_chunk_call(Test &t)
{
	write_two(t, true, 2048, 4096);
	write_two(t, true, 1501, 70003);
}

/* READs into Write chunks that are larger, cut, odd. */
void read_chunk(Test &t)
{
	Connection &c = t.connect();
	fill(t, c, pattern(100001, 71));
	for (u32 length : {1u, 5u, 4096u, 4099u, 65535u, 100001u}) {
		Memory memory(t.peer(), 131072, 0xee);
		u32 xid = t.xid();
		Compound compound(xid);
		compound.lookup(file_name).read(0, length).getattr();
		Chunks chunks;
		chunks.write(pieces(memory, {3, 4096, 5000, 120000}));
		Answer answer = t.call(c, {xid}, chunks, compound.payload());
		t.returned(answer, chunks, {length});
		Results results(answer.payload(), xid);
		before_read(results, 4);
		reduced_read(results, length);
		results.operation(op_getattr);
		try {
			same(front(memory, length), pattern(length, 71), "what was read");
		} catch (Failure &failure) {
			/* Is it the reply that is wrong, or the file? */
			u32 some = std::min(length, 2000u);
			bool right = t.get(c, 0, some) == pattern(some, 71);
			throw Failure{failure.what +
				      (right ? "; inline it is right" : "; inline as well")};
		}
		/* The pad as well must not be written (RFC 8166 3.4.6.2). */
		Octets behind(memory.bytes().begin() + length, memory.bytes().end());
		same(behind, Octets(behind.size(), 0xee), "memory behind the data");
	}
}

/*
 * Two READs in one COMPOUND. Where a second READ's data do not begin with a page of the reply, nfsd
 * of 6.12 puts them a page too far (nfsd_iter_read() takes the next one), over any transport. Behind
 * the first one's data come 16 bytes that are not data; hence the length that tests read first.
 */
constexpr u32 first_length = 2 * 4096 - 16;

void read_two(Test &t, u64 first_offset, u32 first)
{
	Connection &c = t.connect();
	fill(t, c, pattern(30000, 72));
	Memory a(t.peer(), 8192), b(t.peer(), 8192);
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).read(first_offset, first_length).read(10000, 6001).getattr();
	Chunks chunks;
	chunks.write({a.segment()}).write(pieces(b, {4096, 4096}));
	Answer answer = t.call(c, {xid}, chunks, compound.payload());
	t.returned(answer, chunks, {first, 6001});
	Results results(answer.payload(), xid);
	before_read(results, 5);
	reduced_read(results, first);
	reduced_read(results, 6001);
	results.operation(op_getattr);
	Octets all = pattern(30000, 72);
	if (first)
		same(front(a, first), Octets(all.begin(), all.begin() + first), "the first READ");
	same(front(b, 6001), Octets(all.begin() + 10000, all.begin() + 16001), "the second READ");
}

void read_two_chunks(Test &t)
{
	read_two(t, 0, first_length);
}

void read_nothing_first(Test &t)
{
	read_two(t, u64(1) << 40, 0);
}

/* Two READs and one chunk: the second one's data come inline. */
void read_second_inline(Test &t)
{
	Connection &c = t.connect();
	fill(t, c, pattern(30000, 73));
	Memory memory(t.peer(), 8192);
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).read(0, first_length).read(10000, 601).getattr();
	Chunks chunks;
	chunks.write({memory.segment()});
	Answer answer = t.call(c, {xid}, chunks, compound.payload());
	t.returned(answer, chunks, {first_length});
	Results results(answer.payload(), xid);
	before_read(results, 5);
	reduced_read(results, first_length);
	bool eof;
	check(results.read(eof) == 601, "a short READ");
	Octets all = pattern(30000, 73);
	same(results.octets(601), Octets(all.begin() + 10000, all.begin() + 10601),
	     "the second READ");
	results.octets(rpcordma::xdr_pad(601));
	results.operation(op_getattr);
	same(front(memory, first_length), pattern(first_length, 73), "the first READ");
}

void read_empty_chunk(Test &t)
{
	Connection &c = t.connect();
	fill(t, c, pattern(30000, 74));
	Memory memory(t.peer(), 8192);
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).read(10000, first_length).read(0, 601);
	Chunks chunks;
	chunks.write({memory.segment()}).write({});
	Answer answer = t.call(c, {xid}, chunks, compound.payload());
	t.returned(answer, chunks, {first_length, 0});
	Results results(answer.payload(), xid);
	before_read(results, 4);
	reduced_read(results, first_length);
	bool eof;
	check(results.read(eof) == 601, "a short READ");
	same(results.octets(601), pattern(601, 74), "the READ with the empty chunk");
	results.octets(rpcordma::xdr_pad(601));
	results.end();
	Octets all = pattern(30000, 74);
	same(front(memory, first_length),
	     Octets(all.begin() + 10000, all.begin() + 10000 + first_length),
	     "the READ with the other chunk");
	/* And alone: nothing to do with what other READs there are. */
	xid = t.xid();
	Compound single(xid);
	single.lookup(file_name).read(0, 601);
	chunks = {};
	chunks.write({});
	Answer second = t.call(c, {xid}, chunks, single.payload());
	t.returned(second, chunks, {0});
	Results inside(second.payload(), xid);
	before_read(inside, 3);
	check(inside.read(eof) == 601, "a short READ");
	same(inside.octets(601), pattern(601, 74), "the READ alone with an empty chunk");
}

void write_chunk_unused(Test &t)
{
	Connection &c = t.connect();
	Memory memory(t.peer(), 16384, 0xee);
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).getattr();
	Chunks chunks;
	chunks.write(pieces(memory, {4096, 100})).write(pieces(memory, {8192}));
	Answer answer = t.call(c, {xid}, chunks, compound.payload());
	t.returned(answer, chunks, {0, 0});
	Results(answer.payload(), xid).compound(3);
	same(memory.bytes(), Octets(16384, 0xee), "memory of unused chunks");
}

/*
 * RFC 8267 4: of NFSv3's results READ's data and READLINK's path may be placed, and nothing else. Whoever offers
 * a Write chunk for something else gets the same reply as without it, and the chunk back unused, unwritten.
 */
void write_chunk_ineligible(Test &t)
{
	constexpr u32 lookup = 3, access = 4, readdir = 16, readdirplus = 17, pathconf = 20;
	Connection &c = t.connect();
	Octets where = t.root(c);
	auto ask = [&](u32 procedure, const Chunks &chunks) {
		u32 xid = t.xid();
		Words call = nfs3_call(xid, procedure);
		call.opaque(where);
		if (procedure == lookup)
			call.opaque(std::string(file_name));
		if (procedure == access)
			call.word(0x3f);
		if (procedure == readdir || procedure == readdirplus)
			call.words({0, 0, 0, 0, 2048}); /* from the beginning; READDIR's count */
		if (procedure == readdirplus)
			call.word(2048);
		Answer answer = t.call(c, {xid}, chunks, call.get());
		t.returned(answer, chunks, std::vector<u32>(chunks.writes.size(), 0));
		Results results(answer.payload(), xid);
		results.success();
		u32 status = results.word();
		check(!status, text("procedure %u ended with %u", procedure, status));
		Octets reply(answer.payload());
		/* The xid is another one each time. */
		return Octets(reply.begin() + 4, reply.end());
	};
	/* GETATTR to PATHCONF; listings have their entries in pages, as READ its data. */
	for (u32 procedure : {1u, lookup, access, readdir, readdirplus, 18u, 19u, pathconf}) {
		Memory memory(t.peer(), 16384, 0xee);
		const Octets before = ask(procedure, {});
		const Octets with = ask(procedure, Chunks().write(pieces(memory, {5, 4096, 12283})));
		const Octets after = ask(procedure, {});
		check(with.size() == before.size() && with.size() == after.size(),
		      text("procedure %u: %zu bytes inline, and %zu with a Write chunk", procedure,
			   before.size(), with.size()));
		/* What time, and others, have not changed meanwhile is the same. */
		size_t compared = 0;
		for (size_t at = 0; at < with.size(); at++) {
			if (before[at] != after[at])
				continue;
			compared++;
			check(with[at] == before[at], text("procedure %u: byte %zu of the reply is "
							   "another one with a Write "
							   "chunk",
							   procedure, at));
		}
		check(compared + 32 >= with.size(),
		      text("procedure %u: %zu of %zu bytes could be compared", procedure, compared,
			   with.size()));
		same(memory.bytes(), Octets(16384, 0xee), "memory of an unused chunk");
	}
}

/* Both lists: the data in the Write chunk; the rest inline, or in the Reply chunk. */
void read_and_reply_chunk(Test &t)
{
	Connection &c = t.connect();
	fill(t, c, pattern(30000, 75));
	Memory data(t.peer(), 32768), reply(t.peer(), 16384);
	u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).read(0, first_length).read(1000, 7000).getattr();
	Chunks chunks;
	chunks.write({data.segment()}).reply_chunk({reply.segment()});
	Answer answer = t.call(c, {xid}, chunks, compound.payload());
	check(answer.header().kind == Kind::nomsg,
	      "expected an RDMA_NOMSG, came " + answer.describe());
	u32 written = u32(answer.header().reply.length());
	t.returned(answer, chunks, {first_length}, written);
	Results results(front(reply, written), xid);
	before_read(results, 5);
	reduced_read(results, first_length);
	bool eof;
	check(results.read(eof) == 7000, "a short READ");
	Octets all = pattern(30000, 75);
	same(results.octets(7000), Octets(all.begin() + 1000, all.begin() + 8000),
	     "the second READ");
	size_attribute(results);
	same(front(data, first_length), pattern(first_length, 75), "the first READ");
}

/*
 * One READ, as our client asks a server with the mark for it when the rest of the reply may be too long: the Reply
 * chunk is returned with what is in it, which is the reply without the data and their pad.
 */
void read_and_reply_one(Test &t)
{
	Connection &c = t.connect();
	fill(t, c, pattern(30000, 76));
	for (u32 length : {20000u, 20001u}) {
		Memory data(t.peer(), 32768), reply(t.peer(), 4096);
		u32 xid = t.xid();
		Compound compound(xid);
		compound.lookup(file_name).read(0, length).getattr();
		Chunks chunks;
		chunks.write({data.segment()}).reply_chunk({reply.segment()});
		Answer answer = t.call(c, {xid}, chunks, compound.payload());
		check(!answer.is_error(rpcordma::xdr::ErrorCode::chunk),
		      "expected a reply, came " + answer.describe());
		bool inside = answer.header().kind == Kind::msg;
		u32 written = u32(answer.header().reply.length());
		check(written <= 4096, text("the Reply chunk came back with %u bytes", written));
		t.returned(answer, chunks, {length}, written);
		Results results(inside ? answer.payload() : front(reply, written), xid);
		before_read(results, 4);
		reduced_read(results, length);
		size_attribute(results);
		same(front(data, length), pattern(length, 76), "the READ");
	}
}

/* The most that the server says it takes in a WRITE, and in a READ, which must be the same. */
u32 largest(Test &t, Connection &c)
{
	u32 xid = t.xid();
	Compound compound(xid);
	compound.limits();
	Results results(t.plain_reply(t.call(c, {xid}, {}, compound.payload()), xid), xid);
	results.compound(2);
	results.operation(op_putrootfh);
	results.operation(op_getattr);
	check(results.word() == 1 && results.word() == 3u << 30, "GETATTR: other attributes");
	check(results.word() == 16, "GETATTR: not two numbers");
	u64 read = results.two_words(), write = results.two_words();
	check(read == write && read <= 1u << 30,
	      text("READs of %llu bytes, WRITEs of %llu", static_cast<unsigned long long>(read),
		   static_cast<unsigned long long>(write)));
	return u32(read);
}

void large(Test &t)
{
	Connection &c = t.connect();
	const u32 most = largest(t, c);
	t.note(text("%u bytes", most));
	for (u32 length : {1u << 20, (1u << 20) - 3, most, most - 3}) {
		Octets data = pattern(length, 80 + length);
		fill(t, c, data);
		same(fetch(t, c, length), data, "what was read");
	}
}

void at_once(Test &t)
{
	Connection &c = t.connect();
	constexpr u32 count = 16, length = 20000, patience = 1000;
	/* One credit at first, then few, and more with use. */
	for (u32 calls = 0; t.served(c) < count; calls++)
		check(calls < patience, text("%u calls, and not yet %u credits", calls, count));
	std::vector<std::unique_ptr<Memory>> memories;
	std::map<u32, u32> calls;
	for (u32 i = 0; i < count; i++) {
		u32 xid = t.xid();
		Compound compound(xid);
		compound.lookup(file_name).write_reduced(u64(i) * length, length);
		memories.push_back(std::make_unique<Memory>(t.peer(), pattern(length, 90 + i)));
		t.send(c, message({xid},
				  Chunks().read(compound.positions()[0], memories[i]->segment()),
				  compound.payload()));
		calls[xid] = i;
	}
	while (!calls.empty()) {
		Answer answer = t.answer(c);
		u32 xid = answer.header().xid.get();
		check(calls.erase(xid), "an answer to no call: " + answer.describe());
		Results(t.plain_reply(answer, xid), xid).compound(3);
	}
	for (u32 i = 0; i < count; i++)
		same(fetch(t, c, length, u64(i) * length), pattern(length, 90 + i),
		     text("what WRITE %u wrote", i).c_str());
}

/* Longest of them: as much as a path may have. */
constexpr u32 path_lengths[] = {1, 2, 7, 60, 1023, 3000, 4095};

/* Characters that a path may have. */
Octets path(u32 length)
{
	Octets path(length);
	for (u32 i = 0; i < length; i++)
		path[i] = u8(i % 97 == 96 ? '/' : 'a' + (i + length) % 26);
	return path;
}

/* NFSv3 SYMLINK, its path in a Read chunk with or without pad, or inline; returns the link's handle. */
Octets make_link(Test &t, Connection &c, const Octets &where, const Octets &target, bool reduced,
		 bool pad)
{
	u32 xid = t.xid(), length = u32(target.size());
	Octets padded = target;
	padded.resize(length + rpcordma::xdr_pad(length));
	Memory memory(t.peer(), padded);
	Words call = nfs3_call(xid, 10);
	/* No attributes. */
	call.opaque(where).opaque(text("link-%u", xid)).words({0, 0, 0, 0, 0, 0}).word(length);
	Chunks chunks;
	if (reduced)
		chunks.read(call.size(), memory.segment(0, pad ? u32(padded.size()) : length));
	else
		call.octets(padded);
	Results results(t.plain_reply(t.call(c, {xid}, chunks, call.get()), xid), xid);
	results.success();
	u32 status = results.word();
	check(!status && results.word(), text("SYMLINK ended with %u", status));
	return results.opaque();
}

void symlink(Test &t)
{
	Connection &c = t.connect();
	Octets where = t.root(c);
	for (u32 length : path_lengths) {
		Octets target = path(length);
		for (u32 way = 0; way < 3; way++) {
			bool reduced = way, pad = way == 2;
			if ((!reduced && length > 3000) || (pad && !rpcordma::xdr_pad(length)))
				continue;
			Octets link = make_link(t, c, where, target, reduced, pad);
			u32 xid = t.xid();
			Memory room(t.peer(), 2 * 4096);
			Chunks chunks;
			chunks.reply_chunk({room.segment()});
			Words call = nfs3_call(xid, 5);
			call.opaque(link);
			Answer answer = t.call(c, {xid}, chunks, call.get());
			u32 written = u32(answer.header().reply.length());
			t.returned(answer, chunks, {}, written);
			Results results(written ? front(room, written) : answer.payload(), xid);
			results.success();
			check(!results.word() && results.word(), "READLINK failed");
			results.octets(84); /* attributes */
			same(results.opaque(), target, text("a path of %u bytes", length).c_str());
			results.end();
		}
	}
}

/* A path at the front of memory that was all 0xee, and nothing behind it. */
void only_written(Memory &memory, const Octets &target)
{
	u32 length = u32(target.size());
	same(front(memory, length), target, "the path");
	Octets behind(memory.bytes().begin() + length, memory.bytes().end());
	same(behind, Octets(behind.size(), 0xee), "memory behind the path");
}

void readlink(Test &t)
{
	Connection &c = t.connect();
	Octets where = t.root(c);
	for (u32 length : path_lengths) {
		Octets target = path(length), link = make_link(t, c, where, target, true, false);
		Memory memory(t.peer(), 2 * 4096, 0xee);
		u32 xid = t.xid();
		Words call = nfs3_call(xid, 5);
		call.opaque(link);
		Chunks chunks;
		chunks.write(pieces(memory, {5, 2000, 6187}));
		Answer answer = t.call(c, {xid}, chunks, call.get());
		t.returned(answer, chunks, {length});
		Results results(answer.payload(), xid);
		results.success();
		check(!results.word() && results.word(), "READLINK failed");
		results.octets(84); /* attributes */
		u32 got = results.word();
		check(got == length, text("READLINK of %u bytes, expected %u", got, length));
		/* With the path its pad leaves the stream. */
		results.end();
		only_written(memory, target);
	}
}

/* A link of that text, which is in a Read chunk, under the root. Returns its name. */
std::string make_link_4(Test &t, Connection &c, const Octets &target)
{
	Memory memory(t.peer(), target);
	u32 xid = t.xid();
	std::string name = text("link-%u", xid);
	Compound create(xid);
	create.symlink_reduced(name, u32(target.size())).getattr();
	Chunks chunks;
	chunks.read(create.positions()[0], memory.segment());
	Results(t.plain_reply(t.call(c, {xid}, chunks, create.payload()), xid), xid).compound(3);
	return name;
}

/* Up to the READLINK's own results. */
void readlink_succeeded(Results &results)
{
	results.compound(3);
	results.operation(op_putrootfh);
	results.operation(op_lookup);
	results.operation(op_readlink);
}

/*
 * nfsd of 6.12 tells the transport of a path that begins four bytes before it does
 * (nfsd4_encode_readlink()): the transport has to know better.
 */
void readlink_4(Test &t)
{
	Connection &c = t.connect();
	for (u32 length : path_lengths) {
		Octets target = path(length);
		Memory memory(t.peer(), 2 * 4096, 0xee);
		std::string name = make_link_4(t, c, target);
		u32 xid = t.xid();
		Compound read(xid);
		read.lookup(name).readlink();
		Chunks chunks;
		chunks.write(pieces(memory, {5, 2000, 6187}));
		Answer answer = t.call(c, {xid}, chunks, read.payload());
		t.returned(answer, chunks, {length});
		Results results(answer.payload(), xid);
		readlink_succeeded(results);
		u32 got = results.word();
		check(got == length, text("READLINK of %u bytes, expected %u", got, length));
		results.end();
		only_written(memory, target);
	}
}

/* NFSv4: CREATE's link text. */
void symlink_4(Test &t)
{
	Connection &c = t.connect();
	for (u32 length : path_lengths) {
		Octets target = path(length);
		Memory room(t.peer(), 3 * 4096);
		std::string name = make_link_4(t, c, target);
		u32 xid = t.xid();
		Compound read(xid);
		read.lookup(name).readlink();
		Chunks chunks;
		chunks.reply_chunk({room.segment()});
		Answer answer = t.call(c, {xid}, chunks, read.payload());
		u32 written = u32(answer.header().reply.length());
		t.returned(answer, chunks, {}, written);
		Results results(written ? front(room, written) : answer.payload(), xid);
		readlink_succeeded(results);
		same(results.opaque(), target, text("a path of %u bytes", length).c_str());
		results.end();
	}
}

} // namespace

const std::vector<TestCase> nfs_tests = {
	{"nfs-call-chunk", "a call in a Position Zero Read chunk, in pieces", call_in_chunk},
	{"nfs-reply-chunk", "a reply in a Reply chunk, in pieces", reply_in_chunk},
	{"nfs-reply-chunk-unneeded", "a Reply chunk for a reply that fits inline",
	 reply_chunk_unneeded},
	{"nfs-both-chunks", "call and reply in chunks", call_and_reply_in_chunks},
	{"nfs-write", "WRITEs of all lengths, with and without pad, in pieces", write_chunk},
	{"nfs-write-pad-segment", "a WRITE whose pad is a segment", write_pad_segment},
	{"nfs-write-short-chunk", "a WRITE whose chunk has a part of its data, the rest inline",
	 write_short_chunk},
	{"nfs-write-two", "two WRITEs in one COMPOUND, two Read chunks", write_two_chunks},
	{"nfs-write-two-odd", "the same, of odd lengths, without pads", write_two_odd},
	{"nfs-write-call-chunk", "a WRITE in a Position Zero Read chunk, its data in another",
	 write_one_in_chunk_call},
	{"nfs-write-odd-call-chunk", "the same, 20001 bytes without their pad",
	 write_odd_in_chunk_call},
	{"nfs-write-pad-call-chunk", "the same with it", write_padded_in_chunk_call},
	{"nfs-write-two-call-chunk", "two such WRITEs", write_two_in_chunk_call},
	{"nfs-read", "READs of all lengths into pieces; no pad is written", read_chunk},
	{"nfs-read-two", "two READs in one COMPOUND, two Write chunks", read_two_chunks},
	{"nfs-read-nothing-first", "the same, and there is nothing to read for the first",
	 read_nothing_first},
	{"nfs-read-second-inline", "two READs, one Write chunk: the second inline",
	 read_second_inline},
	{"nfs-read-empty-chunk", "an empty Write chunk: that READ inline", read_empty_chunk},
	{"nfs-write-chunk-unused", "Write chunks that nothing is for: returned with zero lengths",
	 write_chunk_unused},
	{"nfs-write-chunk-ineligible", "Write chunks for results that may not be placed: not used",
	 write_chunk_ineligible},
	{"nfs-read-reply-chunk", "a Write list and a Reply chunk", read_and_reply_chunk},
	{"nfs-read-reply-chunk-one", "the same for one READ, the rest short", read_and_reply_one},
	{"nfs-symlink", "NFSv3 SYMLINKs, their paths in Read chunks, with and without pad", symlink},
	{"nfs-readlink", "NFSv3 READLINKs, their paths in Write chunks; no pad is written", readlink},
	{"nfs-readlink-4", "NFSv4 READLINKs, which nfsd announces four bytes early", readlink_4},
	{"nfs-symlink-4", "NFSv4 CREATEs of links, their text in Read chunks", symlink_4},
	{"nfs-large", "1 MiB, the most that the server takes, and 3 bytes less, there and back",
	 large},
	{"nfs-at-once", "16 WRITEs at once", at_once},
};

} // namespace verbs
