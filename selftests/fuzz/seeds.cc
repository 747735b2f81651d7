// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes the seed corpus: seeds FOLDER makes FOLDER/TARGET/NAME. One file for each kind of input that a target
 * should not have to find by itself, built by xdr/'s encoders, the same on each run. What is stored in
 * selftests/fuzz/corpus/ has to be just that; scripts/fuzz compares.
 */
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "xdr/private_data.hh"
#include "xdr/v1.hh"

using namespace rpcordma;

namespace {

std::filesystem::path folder;

/* An input, as fuzz.hh's Input reads it. */
struct Seed {
	std::vector<u8> bytes;

	Seed &byte(u32 value)
	{
		bytes.push_back(u8(value));
		return *this;
	}
	Seed &half(u32 value)
	{
		return byte(value >> 8).byte(value);
	}
	Seed &word(u32 value)
	{
		return half(value >> 16).half(value);
	}
	Seed &words(std::initializer_list<u32> values)
	{
		for (u32 value : values)
			word(value);
		return *this;
	}
	Seed &all(const std::vector<u8> &more)
	{
		bytes.insert(bytes.end(), more.begin(), more.end());
		return *this;
	}
	/* Behind its length, in a byte. */
	Seed &counted(const std::vector<u8> &more)
	{
		return byte(u32(more.size())).all(more);
	}
	void write(const char *target, const std::string &name) const
	{
		const std::filesystem::path file = folder / target / name;

		std::filesystem::create_directories(file.parent_path());
		FILE *f = fopen(file.c_str(), "wb");
		if (!f || fwrite(bytes.data(), 1, bytes.size(), f) != bytes.size() || fclose(f)) {
			perror(file.c_str());
			exit(1);
		}
	}
};

xdr::Segment segment(u32 length, u32 number = 0)
{
	return {Rkey(0x1234 + number), length, u64(0x10000) * (number + 1)};
}

enum Lists : u32 { reads = 1, two_reads = 2, zero = 4, writes = 8, empty_write = 16, reply = 32 };

/* A header with these lists, and the first words of an RPC message behind it. */
std::vector<u8> header(u32 lists, v1::Proc proc, u32 xid = 7, u32 type = 0)
{
	std::vector<u8> room(1024);
	v1::Encoder e({room.data(), room.size()}, Xid(xid), Credits(32), proc);

	if (lists & zero) {
		e.read_segment(Position(0), segment(100));
		e.read_segment(Position(0), segment(28, 1));
	}
	if (lists & (reads | two_reads))
		e.read_segment(Position(40), segment(4096, 2));
	if (lists & two_reads)
		e.read_segment(Position(48), segment(17, 3));
	if (lists & writes) {
		e.write_chunk(2);
		e.segment(segment(4096, 4));
		e.segment(segment(904, 5));
	}
	if (lists & empty_write)
		e.write_chunk(0);
	if (lists & reply) {
		e.reply_chunk(1);
		e.segment(segment(6000, 6));
	}
	const auto length = e.finish();
	if (!length.ok()) {
		fprintf(stderr, "seeds: header %u of proc %u cannot be built\n", lists, u32(proc));
		exit(1);
	}
	room.resize(length.value());
	if (proc == v1::Proc::msg)
		room = Seed{room}.words({xid, type, 2, 100003, 4, 1, 0, 0, 0, 0, 1, 2}).bytes;
	return room;
}

std::vector<u8> error(bool vers, u32 xid = 7)
{
	std::vector<u8> room(28);
	const MutableBytes bytes(room.data(), room.size());
	const auto length = vers ? v1::encode_error_vers(bytes, Xid(xid), 1, Credits(32), 1, 1) :
				   v1::encode_error_chunk(bytes, Xid(xid), 1, Credits(32));

	room.resize(length.value());
	return room;
}

struct Named {
	const char *name;
	std::vector<u8> bytes;
};

/* Messages of all kinds. */
std::vector<Named> messages()
{
	const auto msg = v1::Proc::msg, nomsg = v1::Proc::nomsg;
	std::vector<Named> all = {
		{"call", header(0, msg)},
		{"reply", header(0, msg, 7, 1)},
		{"read-chunk", header(reads, msg)},
		{"read-chunks", header(two_reads, msg)},
		{"write-chunk", header(writes, msg)},
		{"write-chunks", header(writes | empty_write, msg)},
		{"reply-chunk", header(reply, msg)},
		{"all-lists", header(two_reads | writes | empty_write | reply, msg)},
		{"position-zero", header(zero, nomsg)},
		{"position-zero-and-reads", header(zero | reads | writes, nomsg)},
		{"long-reply", header(reply, nomsg)},
		{"long-call-and-reply", header(zero | reply, nomsg)},
		{"err-vers", error(true)},
		{"err-chunk", error(false)},
		{"msgp", Seed().words({7, 1, 32, 2, 4, 4096, 0, 0, 0}).bytes},
		{"done", Seed().words({7, 1, 32, 3, 0, 0, 0}).bytes},
		{"version-2", Seed().words({7, 2, 32, 0, 0, 0, 0}).bytes},
		{"huge-count", Seed().words({7, 1, 32, 0, 0, 1, ~0u, 1}).bytes},
		{"odd-position", Seed().words({7, 1, 32, 0, 1, 41, 1, 2, 0, 3, 0, 0, 0}).bytes},
	};
	std::vector<u8> cut = header(two_reads | writes | reply, msg);
	cut.resize(90);
	all.push_back({"cut", cut});
	return all;
}

void write_codecs()
{
	for (const Named &m : messages())
		Seed().half(5).word(1).all(m.bytes).write("v1", m.name);

	std::vector<u8> said(8);
	(void)private_data::encode({said.data(), said.size()}, {4096, 8192, true});
	const auto properties = [] { return Seed().word(4096).word(8192).byte(1).byte(8); };
	properties().all(said).write("private_data", "plain");
	properties().words({1, 2}).byte(3).all(said).word(0).write("private_data", "offset");
	properties().word(0xf6ab0e18).byte(2).all(said).write("private_data", "other-first");
	properties().all({said.begin(), said.end() - 1}).write("private_data", "cut");
	Seed().word(~0u).word(0).byte(0).byte(7).write("private_data", "no-room");

	Seed().words({7, 0, 2, 100003, 3, 1, 0, 0, 0, 0, 9, 9}).write("rpc", "auth-none");
	Seed().words({7, 0, 2, 100003, 3, 1, 1, 13, 1, 2, 3, 4, 6, 0, 0, 9}).write("rpc", "auth-sys");
	Seed().words({7, 0, 2, 100003, 3, 1, 6, 400}).write("rpc", "longest");
	Seed().words({7, 1, 0, 0, 0, 0}).write("rpc", "reply");
}

void write_chunks()
{
	struct Piece {
		u32 position, length;
	};
	const struct {
		const char *name;
		u32 most, inline_length;
		std::vector<Piece> pieces;
	} arrivals[] = {
		{"inline", 2048, 100, {}},
		{"single", 2048, 100, {{60, 400}}},
		{"single-odd", 2048, 60, {{60, 401}, {60, 13}}},
		{"too-long", 300, 100, {{60, 400}}},
		{"zero", 2048, 0, {{0, 100}, {0, 28}}},
		{"zero-and-one", 2048, 0, {{0, 100}, {40, 501}, {0, 28}}},
		{"two", 2048, 100, {{40, 401}, {500, 100}}},
		{"overlap", 2048, 100, {{40, 401}, {80, 100}}},
		{"mixed", 2048, 200, {{500, 50}, {40, 401}, {500, 51}, {40, 3}, {44, 0}}},
		{"behind", 2048, 20, {{60, 4}}},
	};
	for (const auto &a : arrivals) {
		Seed seed;
		seed.half(a.most).half(a.inline_length);
		for (const Piece &p : a.pieces)
			seed.half(p.position).half(p.length);
		seed.write("arrival", a.name);
	}

	const auto lists = [](u32 which) {
		const std::vector<u8> whole = header(which, v1::Proc::msg);
		return std::vector<u8>(whole.begin() + 16, whole.end());
	};
	Seed().half(100).half(1024).byte(0).byte(0).all(lists(0)).write("answer", "inline");
	Seed().half(4200)
		.half(1024)
		.half(1)
		.half(60)
		.half(4096)
		.all(lists(writes))
		.write("answer", "placed");
	Seed().half(4200).half(1024).half(1).half(60).half(4095).all(lists(writes)).write("answer", "odd");
	Seed().half(9000)
		.half(1024)
		.half(1)
		.half(60)
		.half(5001)
		.all(lists(writes))
		.write("answer", "too-large");
	Seed().half(5000).half(1024).half(0).all(lists(reply)).write("answer", "reply-chunk");
	Seed().half(8000)
		.half(1024)
		.half(2)
		.half(60)
		.half(4096)
		.half(4200)
		.half(100)
		.all(lists(writes | empty_write | reply))
		.write("answer", "all");
	Seed().half(100)
		.half(1024)
		.half(1)
		.half(40)
		.half(0xffff)
		.all(lists(writes))
		.write("answer", "beyond");

	/* flags, mr_pages, send, receive, thresholds, what is honest, what is not */
	const auto shape = [](Seed &s, u32 head, u32 pages, u32 tail) {
		s.half(16).half(head).half(0).half(pages).byte(0).half(32).half(tail);
	};
	for (u32 flags : {0u, 3u, 7u, 11u, 19u}) {
		for (u32 pages : {0u, 3000u, 8001u}) {
			Seed s;
			s.byte(flags).half(63);
			shape(s, 200, pages, pages & 3 ? 4 - (pages & 3) : 0);
			shape(s, 128, pages, 64);
			s.half(0).half(0).half(120).half(pages).half(40);
			s.byte(flags & 2 && pages ? 4 : 2).byte(1).half(0x8000).byte(1).half(0x8000);
			s.all(std::vector<u8>(100, 0x11));
			s.write("reply", "flags-" + std::to_string(flags) + "-pages-" +
						 std::to_string(pages));
		}
	}
}

void write_peers()
{
	/* Steps are those of target_responder.cc. */
	for (const Named &m : messages())
		if (m.bytes.size() < 256)
			Seed().byte(1)
				.byte(0)
				.counted(m.bytes)
				.byte(3)
				.byte(20)
				.byte(4 | 32 | 64)
				.byte(0)
				.half(0)
				.byte(40)
				.byte(3)
				.byte(20)
				.write("responder", m.name);
	Seed().byte(1)
		.byte(1)
		.byte(1)
		.byte(9)
		.byte(64)
		.byte(10)
		.half(1000)
		.half(100)
		.byte(40)
		.byte(3)
		.byte(30)
		.byte(4 | 32 | 64)
		.byte(0)
		.half(0)
		.byte(60)
		.byte(3)
		.byte(9)
		.write("responder", "write");
	Seed().byte(1)
		.byte(1)
		.byte(4)
		.byte(9)
		.byte(64)
		.half(2000)
		.half(500)
		.byte(40)
		.byte(4 | 16 | 32)
		.byte(60)
		.half(1500)
		.byte(20)
		.byte(3)
		.byte(9)
		.write("responder", "read");
	Seed().byte(0)
		.byte(1)
		.byte(0x10)
		.byte(9)
		.byte(64)
		.half(5000)
		.half(500)
		.byte(40)
		.byte(4 | 32)
		.byte(60)
		.half(3500)
		.byte(20)
		.byte(3)
		.byte(9)
		.write("responder", "long-reply");
	Seed().byte(1)
		.byte(1)
		.byte(0x82)
		.byte(9)
		.byte(64)
		.half(100)
		.half(0)
		.byte(10)
		.half(300)
		.half(900)
		.byte(3)
		.byte(30)
		.byte(4)
		.byte(0)
		.half(0)
		.byte(0)
		.byte(3)
		.byte(9)
		.write("responder", "long-call");
	Seed().byte(1)
		.byte(14)
		.byte(100)
		.byte(3)
		.byte(2)
		.byte(0)
		.counted(header(0, v1::Proc::msg, 14, 1))
		.byte(3)
		.byte(2)
		.write("responder", "backward");
	Seed().byte(1)
		.byte(7 | 8)
		.byte(2)
		.byte(1)
		.byte(1)
		.byte(9)
		.byte(64)
		.byte(10)
		.half(1000)
		.half(100)
		.byte(40)
		.byte(7)
		.byte(3)
		.byte(9)
		.byte(4)
		.byte(0)
		.half(0)
		.byte(0)
		.write("responder", "short-of-memory");

	/* And those of target_requester.cc: a call, then what comes for it. Its xid is 1. */
	const auto called = [](u32 setup, u32 size, u32 pages, bool of_reply) {
		Seed s;
		s.byte(setup).byte(0).byte(size / 8).half(pages);
		if (pages)
			s.byte(of_reply);
		return s.byte(1);
	};
	for (const Named &m : messages()) {
		std::vector<u8> bytes = m.bytes;
		if (bytes.size() >= 256)
			continue;
		bytes[3] = 1;
		called(8, 40, 0, false).byte(3).counted(bytes).byte(2).write("requester", m.name);
		called(31, 40, 0, false)
			.byte(3)
			.counted(bytes)
			.byte(7)
			.byte(8)
			.byte(2)
			.write("requester", std::string(m.name) + "-backchannel");
	}
	called(12, 40, 4000, true).byte(5).half(3000).half(0).byte(48).byte(2).write("requester", "read");
	called(12, 40, 4000, false).byte(5).half(0).half(0).byte(48).byte(2).write("requester", "write");
	called(0, 2000, 0, false).byte(5).half(0).half(0).byte(48).byte(2).write("requester", "long-call");
	called(12, 40, 4000, true)
		.byte(2)
		.byte(5)
		.half(3000)
		.half(0)
		.byte(48)
		.write("requester", "cancelled");
	called(12, 40, 4000, true)
		.byte(6 | 8)
		.byte(0)
		.byte(5)
		.half(3000)
		.half(0)
		.byte(48)
		.byte(2)
		.write("requester", "invalidation-fails");
	/* An inline reply to it, with the R_key that is its own, and with one that nobody has. */
	for (const u32 key : {1, 99})
		called(12, 40, 4000, true)
			.byte(4)
			.byte(0x20)
			.counted(Seed().words({0, 0, 0, 1, 1, 0}).bytes)
			.byte(1)
			.byte(key)
			.byte(2)
			.write("requester", key == 1 ? "invalidated" : "invalidated-foreign");
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: seeds FOLDER\n");
		return 2;
	}
	folder = argv[1];
	write_codecs();
	write_chunks();
	write_peers();
}
