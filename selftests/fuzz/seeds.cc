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
#include "xdr/v2.hh"

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
	/* Behind its length, in a half word. */
	Seed &counted(const std::vector<u8> &more)
	{
		return half(u32(more.size())).all(more);
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
std::vector<u8> header(u32 lists, xdr::Kind kind, u32 xid = 7, u32 type = 0)
{
	std::vector<u8> room(1024);
	v1::Encoder e({room.data(), room.size()}, Xid(xid), Credits(32), kind);

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
		fprintf(stderr, "seeds: header %u of kind %u cannot be built\n", lists, u32(kind));
		exit(1);
	}
	room.resize(length.value());
	if (kind == xdr::Kind::msg)
		room = Seed{room}.words({xid, type, 2, 100003, 4, 1, 0, 0, 0, 0, 1, 2}).bytes;
	return room;
}

std::vector<u8> error(bool vers, u32 xid = 7)
{
	std::vector<u8> room(28);
	const MutableBytes bytes(room.data(), room.size());
	xdr::ErrorBody body;

	if (vers)
		body = {xdr::ErrorCode::version, 1, 1};
	const auto length = v1::encode_error(bytes, {Xid(xid), 1, {}, 0}, Credits(32), body);
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
	const auto msg = xdr::Kind::msg, nomsg = xdr::Kind::nomsg;
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

/* What an encoder of version 2 makes in a room. */
template <typename Make> std::vector<u8> built(Make &&make)
{
	std::vector<u8> room(1024);
	const Result<u32> length = make(MutableBytes(room.data(), room.size()));

	if (!length.ok()) {
		fprintf(stderr, "seeds: a message of version 2 cannot be built\n");
		exit(1);
	}
	room.resize(length.value());
	return room;
}

/* Messages of all kinds of version 2, whose lists are those of version 1's. */
std::vector<Named> messages2()
{
	const Xid xid(7);
	const Credits credits(32);
	std::vector<Named> all;

	for (const Named &m : messages()) {
		const u32 proc = xdr::load_be32(m.bytes.data() + 12);

		/* Those that an encoder made: behind the fixed words are the lists. */
		if (proc > 1 || xdr::load_be32(m.bytes.data() + 4) != 1)
			continue;
		for (u32 direction : {0u, 1u}) {
			const std::vector<u8> lists(m.bytes.begin() + 16, m.bytes.end());
			Seed seed;

			seed.words({7, 2, 32, proc, direction, direction ? 0 : 0x1236u}).all(lists);
			/* msg_type, in the second of the last twelve words. */
			if (proc == 0 && direction == 1 && seed.bytes.size() >= 48)
				seed.bytes[seed.bytes.size() - 41] = 1;
			all.push_back({m.name, seed.bytes});
		}
	}
	for (u32 code = 0; code < 6; code++)
		all.push_back(
			{"error", built([&](MutableBytes room) {
				 return v2::encode_error(room, {xid, 2, {}, 0}, credits,
							 {static_cast<xdr::ErrorCode>(code), 1, 2});
			 })});
	all.push_back({"err-vers-1", Seed().words({7, 1, 32, 4, 1, 1, 1}).bytes});

	properties::Properties said;
	said.receive_size = 20480;
	said.extensions = 7;
	said.structure = {20480, 4, 4096};
	said.present = properties::all;
	all.push_back({"connprop", built([&](MutableBytes room) {
			       return v2::encode_connprop(room, xid, credits, said, 0x36);
		       })});
	said.present = 9;
	all.push_back({"updprop", built([&](MutableBytes room) {
			       return v2::encode_updprop(room, xid, credits, said);
		       })});
	said.structure = {};
	all.push_back({"updprop-no-structure", built([&](MutableBytes room) {
			       return v2::encode_updprop(room, xid, credits, said);
		       })});
	all.push_back(
		{"updprop-too-little", Seed().words({7, 2, 32, 9, 2, 1, 4, 100, 5, 4, 0}).bytes});
	all.push_back({"connprop-nothing", Seed().words({7, 2, 32, 6, 0, 0}).bytes});
	all.push_back(
		{"connprop-unknown",
		 Seed().words({7, 2, 32, 6, 3, 9, 1, 0x01000000, 5, 4, 0, 1, 4, 1, 1, 4}).bytes});
	all.push_back(
		{"structure-not-last",
		 Seed().words({7, 2, 32, 9, 1, 4, 40, 8192, 2, 1, 4096, 8, 1, 1, 4096, 8, 0}).bytes});
	all.push_back({"structure-wrong-sum",
		       Seed().words({7, 2, 32, 9, 1, 4, 24, 4097, 1, 1, 4096, 8, 0}).bytes});
	all.push_back({"reqprop", Seed().words({7, 2, 32, 7, 2, 1, 4, 8192, 77, 0}).bytes});
	Seed asked;
	asked.words({7, 2, 32, 7, 33});
	for (u32 id = 0; id < 33; id++)
		asked.words({id, 0});
	all.push_back({"reqprop-33", asked.bytes});
	all.push_back({"resprop", Seed().words({7, 2, 32, 8, 1, 1, 1, 2, 1, 1, 4, 8192}).bytes});

	all.push_back({"xmtreq", Seed().words({7, 2, 32, 5, 0, 1, 20, 0, 0, 2, 1, 40, 7, 0}).bytes});
	all.push_back({"xmtresp", Seed().words({7, 2, 32, 5, 1, 2, 12, 0, 1, 8, 7, 1}).bytes});
	all.push_back({"xmtcont", Seed().words({7, 2, 32, 5, 0, 3, 12, 1, 1, 8, 1, 2}).bytes});
	all.push_back({"xmtcont-long", Seed().words({7, 2, 32, 5, 0, 3, 16, 1, 1, 8, 1, 2}).bytes});
	all.push_back({"repterr", Seed().words({7, 2, 32, 5, 1, 4, 20, 7, 0, 0, 0, 3}).bytes});
	all.push_back({"option-5", Seed().words({7, 2, 32, 5, 0, 5, 0}).bytes});
	all.push_back({"xmtresp-call", Seed().words({7, 2, 32, 5, 0, 2, 12, 0, 1, 8}).bytes});
	all.push_back({"another-xid", Seed().words({7, 2, 32, 0, 0, 0, 0, 0, 0, 8, 0}).bytes});
	all.push_back({"version-1", Seed().words({7, 1, 32, 0, 0, 0, 0}).bytes});
	all.push_back({"proc-3", Seed().words({7, 2, 32, 3, 0, 0, 0}).bytes});
	return all;
}

void write_codecs()
{
	u32 number = 0;

	for (const Named &m : messages())
		Seed().half(5).word(1).all(m.bytes).write("v1", m.name);
	/* Several have one name: the number tells them apart. */
	for (const Named &m : messages2())
		Seed().half(5).word(1).all(m.bytes).write("v2", std::string(m.name) + "-" +
									std::to_string(number++));

	std::vector<u8> said(8);
	(void)private_data::encode({said.data(), said.size()}, {4096, 8192, true});
	const auto properties = [] { return Seed().word(4096).word(8192).byte(1).byte(8); };
	properties().all(said).write("private_data", "plain");
	properties().words({1, 2}).byte(3).all(said).word(0).write("private_data", "offset");
	properties().word(0xf6ab0e18).byte(2).all(said).write("private_data", "other-first");
	properties().all({said.begin(), said.end() - 1}).write("private_data", "cut");
	Seed().word(~0u).word(0).byte(0).byte(7).write("private_data", "no-room");
	said.resize(16);
	(void)private_data::encode({said.data(), said.size()}, {4096, 8192, true, true});
	const auto marked = [] { return Seed().word(4096).word(8192).byte(3).byte(16); };
	marked().all(said).write("private_data", "mark");
	marked().words({1, 2}).byte(3).all(said).word(0).write("private_data", "mark-offset");
	marked().all({said.begin(), said.end() - 1}).write("private_data", "mark-cut");
	Seed().word(4096).word(4096).byte(3).byte(15).all(said).write("private_data",
								      "mark-no-room");

	Seed().words({7, 0, 2, 100003, 3, 1, 0, 0, 0, 0, 9, 9}).write("rpc", "auth-none");
	Seed().words({7, 0, 2, 100003, 3, 1, 1, 13, 1, 2, 3, 4, 6, 0, 0, 9}).write("rpc", "auth-sys");
	Seed().words({7, 0, 2, 100003, 3, 1, 6, 400}).write("rpc", "longest");
	Seed().words({7, 1, 0, 0, 0, 0}).write("rpc", "reply");
}

/* rdma_optinfo of each type: its number less one, the most transmissions, bytes behind it, a word to spoil. */
void write_rtrext()
{
	struct Info {
		const char *name;
		u32 option;
		std::initializer_list<u32> words;
	};
	const Info infos[] = {
		{"xmtreq", 0, {0, 0, 1, 0, 40}},
		{"xmtreq-lead", 0, {0, 0, 4, 4, 44}},
		{"xmtreq-too-many", 0, {0, 0, 5, 4, 44}},
		{"xmtreq-sent", 0, {1, 40, 9000, 2, 0, 3, 0, 1, 2, 0, 1, 1, 48}},
		{"xmtreq-fetched", 0, {1, 40, 63, 1, 2, 7, 60, 0, 0, 8, 4, 0, 0, 0, 1, 1, 48}},
		{"xmtreq-two", 0, {2, 40, 5, 2, 0, 1, 3, 48, 4, 2, 8, 1, 0, 0, 1, 1, 48}},
		{"xmtreq-two-and-too-little", 0, {2, 40, 5, 2, 0, 0, 60, 4, 2, 0, 0, 0, 1, 1, 48}},
		{"xmtreq-in-rpc-header", 0, {1, 36, 4, 2, 0, 1, 0, 0, 1, 1, 40}},
		{"xmtreq-stream-short", 0, {1, 80, 4, 2, 0, 1, 0, 0, 1, 1, 40}},
		{"xmtreq-descending", 0, {2, 48, 4, 2, 0, 0, 40, 4, 2, 0, 0, 0, 1, 1, 40}},
		{"xmtreq-overlap", 0, {2, 40, 8, 2, 0, 0, 44, 1, 2, 0, 0, 0, 1, 1, 40}},
		{"xmtreq-places", 0, {0, 1, 0, ~0u, 4, 0, 1, 1, 7, 4096, 0, 0, 0, 2,
				      9, 3, 1, 8,   9, 0, 0, 0, 4, 4096, 0, 1, 4, 40}},
		{"xmtreq-sets", 0, {0, 2, 0, 40, 0, 44, 100, 1, 0, 2, 1, 2, 40}},
		{"xmtreq-sets-overlap", 0, {0, 2, 0, 40, 0, 36, 100, 0, 1, 2, 40}},
		{"xmtresp", 1, {0, 1, 24}},
		{"xmtresp-sent", 1, {1, 24, 4096, 2, 0, 1, 0, 1, 28}},
		{"xmtresp-results", 1, {3, 24, 4, 1, 1, 7, 4, 0, 0, 28, 4, 5, 0, 0, 6, 1, 28}},
		{"xmtcont", 2, {1, 1, 8}},
		{"xmtcont-long", 2, {1, 1, 8, 1}},
		{"repterr", 3, {7, 0, 0, 0, 3}},
		{"repterr-lead", 3, {7, 0, 1, 1, 7, 0, 0, 4, 1, 2}},
		{"repterr-range", 3, {7, 1, 1, 1, 7, 1, 0, 8, 44, 0, 40}},
		{"repterr-direction", 3, {7, 2, 0, 0, 3}},
	};

	for (const Info &info : infos)
		Seed().byte(info.option)
			.byte(4)
			.half(48)
			.half(5)
			.word(1)
			.words(info.words)
			.write("rtrext", info.name);
	Seed many;
	many.byte(0).byte(4).half(48).half(3).word(9).word(17);
	for (u32 i = 0; i < 17; i++)
		many.words({40 + 4 * i, 0, 1, 0});
	many.words({0, 1, 1, 40}).write("rtrext", "xmtreq-17-items");
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
		const std::vector<u8> whole = header(which, xdr::Kind::msg);
		return std::vector<u8>(whole.begin() + 16, whole.end());
	};
	/* A reply of @length bytes with these results, to a call with those lists. */
	const auto answer = [&lists](const char *name, u32 length, u32 which,
				     std::initializer_list<u32> results) {
		Seed seed;

		seed.half(length).half(1024).half(u32(results.size()) / 2);
		for (u32 part : results)
			seed.half(part);
		seed.all(lists(which)).write("answer", name);
	};
	answer("inline", 100, 0, {});
	answer("placed", 4200, writes, {60, 4096});
	answer("odd", 4200, writes, {60, 4095});
	answer("too-large", 9000, writes, {60, 5001});
	answer("reply-chunk", 5000, reply, {});
	answer("all", 8000, writes | empty_write | reply, {60, 4096, 4200, 100});
	answer("beyond", 100, writes, {40, 0xffff});

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

/* Sizes of 4096, and version 2, for those with the mark; the same, where a Receive has a head and pages. */
constexpr u32 kGround2 = 0x41, kGround3 = 0xc1;

/*
 * The same with version2_rtr, as wherever Receives have pages, but these Receives have none, as the device has one SGE: messages of
 * 4 KiB, so that calls and replies of some KiB go in several transmissions.
 */
constexpr u32 kGroundGroups = 0xd1;

/*
 * A call or a reply of @length bytes in @count transmissions, one after another, as @lead begins it: equal parts of its stream. A
 * call says that its reply may have four.
 */
std::vector<std::vector<u8>> transmissions(xdr::Option lead, u32 xid, u32 length, u32 count)
{
	const bool call = lead == xdr::Option::xmtreq;
	const u32 direction = !call, each = (length / count + 3) & ~3u;
	std::vector<std::vector<u8>> all;
	Seed stream;

	stream.words({xid, direction, call ? 2u : 0u, call ? 100003u : 0u, call ? 3u : 0u, call, 0,
		      0, 0, 0});
	while (stream.bytes.size() < length)
		stream.byte(u32(stream.bytes.size() * 5 + (stream.bytes.size() >> 8) + xid));
	for (u32 i = 0; i < count; i++) {
		const u32 at = i * each, n = i + 1 < count ? each : u32(stream.bytes.size()) - at;
		Seed s;

		s.words({xid, 2, 32, 5, direction, i ? 3u : u32(lead)});
		if (i)
			s.words({12, i, u32(lead), n});
		else if (call)
			s.words({20, 0, 0, count, 4, n});
		else
			s.words({12, 0, count, n});
		all.push_back(
			s.all({stream.bytes.begin() + at, stream.bytes.begin() + at + n}).bytes);
	}
	return all;
}

/* A story for the target of one peer: the seed, the devices and tunables, and what follows. */
struct Story : Seed {
	explicit Story(u32 seed = 1, u32 ground = 0)
	{
		half(seed).byte(ground);
	}
	/* Private data of a stranger that takes R_keys to invalidate: the sizes are both 1024 << these. */
	Story &private_data(u32 sizes, bool invalidation = true, bool mark = false)
	{
		byte(1 | sizes << 1 | sizes << 3 | invalidation << 5 | mark << 6);
		return *this;
	}
	Story &no_private_data()
	{
		byte(0);
		return *this;
	}
};

enum Kind : u32 { small = 1, write_data, read_data, both_data, listing, linking };

/* Steps of target_responder.cc. */
struct Served : Story {
	using Story::Story;
	static Served by(u32 threads)
	{
		Served s;

		s.byte(threads - 1);
		s.private_data(2);
		return s;
	}
	/* In version 2, with properties. */
	static Served in_2(u32 ground = kGround2, u32 seed = 1)
	{
		Served s(seed, ground);

		s.byte(0);
		s.private_data(2, true, true);
		return s.says(Seed().words({1, 2, 32, 6, 1, 1, 4, 8192, 0}).bytes);
	}
	/* In version 2, by a client that does all of rtrext-01. */
	static Served continuing(u32 seed = 1)
	{
		properties::Properties said;
		Served s(seed, kGroundGroups);

		said.extensions = 7;
		said.present = properties::all & ~properties::bit(properties::Id::structure);
		s.byte(0);
		s.private_data(2, true, true);
		return s.says(built([&](MutableBytes room) {
			return v2::encode_connprop(room, Xid(1), Credits(32), said, 0);
		}));
	}
	/* A call in transmissions, of which @but is left out. */
	Served &continues(u32 xid, u32 length, u32 count, u32 but = ~0u)
	{
		u32 i = 0;

		for (const std::vector<u8> &one :
		     transmissions(xdr::Option::xmtreq, xid, length, count))
			if (i++ != but)
				says(one);
		return *this;
	}
	/* Where the server's Receives have grown. With another seed, DMA is another. */
	static Served grown(u32 seed = 1)
	{
		return in_2(kGround3, seed).makes_many(15);
	}
	/* Eight times @n calls. */
	Served &makes_many(u32 n)
	{
		byte(3 | n << 3);
		return *this;
	}
	Served &says(const std::vector<u8> &message)
	{
		byte(0).counted(message);
		return *this;
	}
	/* Of a call: reads, write chunks, reply chunk, reply instead of call, two segments, nomsg; as in the target. */
	Served &calls(u32 kind, u32 xid, std::initializer_list<u32> segments, u32 words,
		      u32 more = 0)
	{
		/* The credits ask for the first R_key to be invalidated, in version 2. */
		byte(1 | more << 3).byte(kind).byte(xid).byte(xid & 0x80 ? 64 : 32);
		u32 reads = kind & 3;
		for (u32 length : segments) {
			if (reads && !(kind & 0x80 && reads == (kind & 3)))
				byte(10);
			reads -= reads != 0;
			half(length).byte(0);
		}
		if (!(kind & 0x80))
			byte(words);
		return *this;
	}
	Served &replies(u32 how, u32 head, u32 size, u32 tail)
	{
		byte(2).byte(how).byte(head / 4).half(size).byte(tail);
		return *this;
	}
	Served &time(u32 n)
	{
		byte(3).byte(n);
		return *this;
	}
	Served &calls_back(u32 size)
	{
		byte(4).byte(size);
		return *this;
	}
	Served &befalls(u32 what)
	{
		byte(5 | what << 3);
		return *this;
	}
	Served &receives(u32 n)
	{
		befalls(2).byte(n);
		return *this;
	}
	Served &shrinks(u32 pages)
	{
		byte(7).byte(pages);
		return *this;
	}
	/* A call with these directions, as in the target, before which the client says what it takes: @structure. */
	Served &directs(u32 structure, u32 xid, u32 rsbuf,
			std::initializer_list<std::vector<u8>> directions)
	{
		byte(7 | (8 | (u32(directions.size()) - 1)) << 3).byte(structure).byte(xid).byte(rsbuf);
		for (const std::vector<u8> &one : directions)
			all(one);
		return *this;
	}
	Served &lacks(u32 what)
	{
		byte(6).byte(what);
		return *this;
	}
};

/* Directions of target_responder.cc: to send; to write, or one of both, into segments of these lengths. */
std::vector<u8> direct_send(u32 least = 0)
{
	Seed s;

	s.byte(least ? 5 : 1);
	return (least ? s.half(least) : s).bytes;
}
std::vector<u8> direct(u32 type, std::initializer_list<u32> lengths, u32 most_sent = 0)
{
	Seed s;

	s.byte((type - 1) | u32(lengths.size()) << 3);
	for (u32 length : lengths)
		s.half(length).byte(0);
	return s.half(most_sent).bytes;
}

/* Calls that say where their results may go. */
template <typename Write> void write_directed(const Write &write)
{
	const auto sends = direct_send();

	for (u32 structure = 0; structure < 4; structure++) {
		const std::string number = std::to_string(structure);

		write(Served::continuing()
			      .directs(structure, 9, 4, {sends})
			      .replies(0, 40, 5001, 7)
			      .time(1),
		      "directed-sent-" + number);
		write(Served::continuing()
			      .directs(structure, 9, 4, {sends, sends})
			      .replies(4, 40, 5004, 8)
			      .time(1),
		      "directed-two-" + number);
		write(Served::continuing()
			      .directs(structure, 9, 4, {direct(1, {1000, 5000}), sends})
			      .replies(4, 40, 5004, 8)
			      .time(1),
		      "directed-both-" + number);
	}
	write(Served::continuing()
		      .directs(0, 9, 1, {direct(1, {700, 900})})
		      .replies(0, 40, 5000, 8)
		      .time(1),
	      "directed-too-short");
	write(Served::continuing()
		      .directs(0, 9, 1,
			       {direct(3, {5000}), direct(4, {5000}, 100), direct_send(4000)})
		      .replies(4, 40, 4000, 8)
		      .time(1),
	      "directed-either");
	write(Served::continuing()
		      .directs(0, 9, 4, {sends, direct(1, {5000})})
		      .replies(8, 40, 5000, 8)
		      .time(1),
	      "directed-sealed");
	write(Served::continuing()
		      .directs(0, 9, 4, {sends, sends, sends, sends})
		      .replies(0, 40, 0, 0)
		      .time(1),
	      "directed-nothing");
	write(Served::continuing()
		      .lacks(0x11)
		      .directs(3, 9, 4, {sends, direct(1, {5000})})
		      .replies(4, 40, 5004, 8)
		      .time(1),
	      "directed-short-of-memory");
	write(Served::continuing()
		      .directs(0, 9, 4, {direct(1, {5000}), sends})
		      .replies(4, 40, 5004, 8)
		      .befalls(1)
		      .time(1),
	      "directed-gone");
}

/* And those of target_requester.cc. */
struct Asked : Story {
	using Story::Story;
	static Asked by(u32 sizes, bool backchannel = false, u32 ground = 0)
	{
		Asked s(1, ground);

		s.private_data(sizes, true, ground == kGround2 || ground == kGround3);
		s.byte(backchannel);
		return s;
	}
	/* In version 2, with a call, which is the second message. */
	static Asked in_2(u32 kind, u32 call_data, u32 reply_data)
	{
		Asked s = by(2, true, kGround2);

		return s.calls(0, kind, call_data, reply_data).is_answered(0, 0, 0, 0, 0);
	}
	/* The same, and messages may be as long as a head and four pages, both ways. */
	static Asked long_ones(u32 kind, u32 call_data, u32 reply_data, u32 seed = 1)
	{
		Asked s(seed, kGround3);

		s.private_data(2, true, true).byte(1);
		return s.calls(0, kind, call_data, reply_data).is_answered(0, 0, 4 * 4096, 0, 0);
	}
	/* In version 2, with a call to a server that does all of rtrext-01; its first message is the second one. */
	static Asked continuing(u32 kind, u32 call_data, u32 reply_data, u32 seed = 1)
	{
		Asked s(seed, kGroundGroups);

		s.private_data(2, true, true).byte(1);
		return s.calls(0, kind, call_data, reply_data).is_answered(0, 4, 0, 0, 0);
	}
	/* A reply to the nth message in transmissions, of which @but is left out. */
	Asked &hears_parts(u32 nth, u32 length, u32 count, u32 but = ~0u)
	{
		u32 i = 0;

		for (const std::vector<u8> &one :
		     transmissions(xdr::Option::xmtresp, 7, length, count))
			if (i++ != but)
				hears(one, false, nth);
		return *this;
	}
	Asked &calls(u32 number, u32 kind, u32 call_data, u32 reply_data)
	{
		byte(number << 3).byte(kind).half(call_data).half(reply_data);
		return *this;
	}
	Asked &time(u32 n)
	{
		byte(1).byte(n);
		return *this;
	}
	Asked &gives_up(u32 number)
	{
		byte(2 | number << 3);
		return *this;
	}
	/* With the xid of the first message, or of the nth. */
	Asked &hears(const std::vector<u8> &message, bool at_once = false, u32 nth = 0)
	{
		byte(3 | (at_once ? 0x80 : 0)).byte(nth).counted(message);
		return *this;
	}
	/* The memory that was offered as the nth is written to, or, with how = 1, read. */
	Asked &suffers(u32 nth, u32 how, u32 offset, u32 length)
	{
		byte(4).byte(nth).byte(how).half(offset).half(length);
		return *this;
	}
	/* How: 1, nothing is written; 2, the last R_key is invalidated; 6, one that nobody has. */
	Asked &is_answered(u32 nth, u32 how, u32 written, u32 replied, u32 size,
			   bool at_once = false, u32 more = 0)
	{
		byte(5 | (at_once ? 0x80 : 0) | more << 3)
			.byte(nth)
			.byte(how | 0x80)
			.half(written)
			.half(replied)
			.byte(size);
		return *this;
	}
	Asked &befalls(u32 what)
	{
		byte(6 | what << 3);
		return *this;
	}
	Asked &is_called_back(u32 size, u32 xid)
	{
		befalls(7).byte(size).byte(xid);
		return *this;
	}
	Asked &lacks(u32 what)
	{
		byte(7).byte(what);
		return *this;
	}
};

/* An XMTREQ of @count transmissions, with an item of @length bytes at @offset of the DDP segments @numbers, and @more behind. */
std::vector<u8> lead_with_item(u32 count, u32 length, u32 offset, const std::vector<u32> &numbers,
			       u32 more)
{
	Seed s;
	const u32 optinfo = 4 * (1 + 5 + u32(numbers.size()) + 4);

	s.words({9, 2, 64, 5, 0, 1, optinfo, 1, 40, length, 2, offset, u32(numbers.size())});
	for (u32 number : numbers)
		s.words({number});
	s.words({0, count, 1, 44, 9, 0, 2, 100003, 3, 7, 0, 0, 0, 0, 0x77});
	s.bytes.resize(4096);
	s.bytes.resize(4096 + more, 0x5a);
	return s.bytes;
}

/* Calls whose payload comes in pages of the Receives. */
template <typename Write> void write_items(const Write &write)
{
	Seed more;
	more.words({9, 2, 64, 5, 0, 3, 12, 1, 1, 0});
	more.bytes.resize(4096 + 100, 0xa5);
	const auto one = [&](const std::vector<u8> &message, const std::string &name) {
		/* A page is kept. */
		write(Served::grown().says(message).replies(16, 40, 0, 0).makes_many(8),
		      "items-" + name);
	};

	one(lead_with_item(1, 4101, 0, {0, 1}, 4101), "lent");
	one(lead_with_item(1, 4101, 0, {1, 0}, 8192), "order");
	one(lead_with_item(1, 4101, 8, {0, 1}, 4109), "copied");
	one(lead_with_item(1, 4101, 0, {0, 1}, 4100), "short");
	one(lead_with_item(1, 4101, 0, {0, 4}, 4101), "no-segment");
	one(lead_with_item(1, 100, 4096, {0}, 4196), "offset");
	for (const u32 number : {4u, 5u})
		write(Served::grown()
			      .says(lead_with_item(2, 4196, 0, {0, number}, 4096))
			      .says(more.bytes)
			      .replies(16, 40, 0, 0)
			      .makes_many(8),
		      "items-two-" + std::to_string(number));
}

void write_responder()
{
	const auto write = [](const Seed &s, const std::string &name) {
		s.write("responder", name);
	};

	for (const Named &m : messages())
		write(Served::by(1).says(m.bytes).replies(0, 40, 0, 0).time(0), m.name);
	write(Served::by(2).calls(1, 9, {1000}, 12).replies(0, 60, 0, 8).time(0), "write");
	write(Served::by(2).calls(4, 9, {2000}, 12).replies(0, 60, 1500, 20), "read");
	write(Served::by(1).calls(0x48, 9, {2000, 500, 600, 700}, 12).replies(4, 60, 2100, 20),
	      "reads");
	write(Served::by(1).calls(4, 9, {2000}, 12).replies(8, 60, 900, 20), "sealed");
	write(Served::by(1).calls(0x10, 9, {5000}, 12).replies(2, 60, 3500, 20), "long-reply");
	write(Served::by(1).calls(0x81, 9, {300}, 0).replies(0, 60, 0, 0).time(0), "long-call");
	write(Served::by(1).calls(0x82, 9, {100, 300}, 0).replies(0, 60, 0, 0).time(0),
	      "long-call-with-chunk");
	write(Served::by(2).calls(1, 9, {1000}, 12).calls(1, 9, {1000}, 12).time(0), "twice");
	write(Served::by(1).calls_back(100).says(header(0, xdr::Kind::msg, 0, 1)), "backward");
	write(Served::by(1).lacks(1).calls(1, 9, {1000}, 12).lacks(0).replies(0, 40, 0, 0),
	      "short-of-memory");
	write(Served::by(2).calls(1, 9, {5000}, 12).shrinks(1).replies(0, 40, 0, 0).time(0).shrinks(255),
	      "shrink");
	write(Served::by(1).calls(0, 9, {}, 12).befalls(0).replies(0, 40, 0, 0), "gone");
	write(Served::by(1).calls(0, 9, {}, 12).receives(0).replies(0, 40, 0, 0).time(200),
	      "no-receive");

	u32 number = 0;
	for (const Named &m : messages2())
		write(Served::in_2().says(m.bytes).replies(0, 40, 0, 0).time(0),
		      std::string("v2-") + m.name + "-" + std::to_string(number++));
	write(Served::in_2().calls(1, 0x89, {1000}, 12).replies(0, 60, 0, 8).time(0), "v2-write");
	write(Served::in_2().calls(4, 0x89, {2000}, 12).replies(0, 60, 1500, 20), "v2-read");
	write(Served::in_2().calls(0x10, 0x89, {5000}, 12).replies(2, 60, 5500, 20), "v2-no-room");
	write(Served::in_2().calls(0x81, 0x89, {300}, 0).replies(0, 60, 0, 0).time(0),
	      "v2-long-call");
	write(Served::in_2().calls(0, 0x89, {}, 12).calls(0, 9, {}, 12).replies(0, 40, 0, 0),
	      "v2-then-1");
	write(Served::in_2().calls_back(100).calls(0x20, 0x80, {}, 12), "v2-backward");

	/* 15 * 1360 bytes more are too many. */
	for (u32 more : {1u, 3u, 6u, 9u, 12u, 14u, 15u})
		write(Served::grown().calls(0, 0x89, {}, 12, more).replies(0, 40, 0, 0).time(0),
		      "pages-" + std::to_string(more));
	/* One keeps a page; another, and its Receive is posted again. */
	for (u32 how : {16u, 17u})
		write(Served::grown()
			      .calls(0, 0x89, {}, 12, 12)
			      .calls(0, 0x8a, {}, 13, 12)
			      .replies(how, 40, 0, 0)
			      .replies(0, 40, 0, 0)
			      .makes_many(8)
			      .calls(0, 0x8b, {}, 14, 11)
			      .replies(0, 40, 0, 0),
		      "pages-kept-" + std::to_string(how));
	/* A thread has one for long, while others come. */
	write(Served::grown()
		      .calls(0, 0x89, {}, 12, 12)
		      .calls(0, 0x8a, {}, 13, 11)
		      .calls(0, 0x8b, {}, 14, 12)
		      .time(2)
		      .replies(0, 40, 0, 0)
		      .replies(16, 40, 0, 0)
		      .replies(0, 40, 0, 0)
		      .time(0),
	      "pages-many");
	for (u32 seed = 1; seed <= 6; seed++)
		write(Served::grown(seed)
			      .calls(0, 0x89, {}, 12, 12)
			      .replies(0, 40, 0, 0)
			      .calls(1, 0x8a, {3000}, 12, 9)
			      .replies(0, 40, 0, 0)
			      .calls(4, 0x8b, {6000}, 12, 9)
			      .replies(0, 60, 5000, 20)
			      .makes_many(15)
			      .calls(0, 0x8c, {}, 13, 12)
			      .replies(0, 40, 0, 0),
		      "pages-chunks-" + std::to_string(seed));
	write(Served::grown().calls(0, 0x89, {}, 12, 12).befalls(0).time(0), "pages-gone");
	write(Served::grown().lacks(2).calls(0, 0x89, {}, 12, 12).replies(16, 40, 0, 0).makes_many(15),
	      "pages-no-memory");
	/* Another connection, with the same to say. */
	Served again = Served::grown();
	again.befalls(5).byte(0x75);
	again.says(Seed().words({1, 2, 32, 6, 1, 1, 4, 8192, 0}).bytes).makes_many(15);
	write(again.calls(0, 0x89, {}, 12, 12).replies(0, 40, 0, 0), "pages-again");
	write(Served::in_2(kGround3).calls(0, 0x89, {}, 12, 12).replies(0, 40, 0, 0),
	      "pages-too-soon");
	write_items(write);
	write_directed(write);

	/* Of other seeds DMA and who runs when are others. */
	for (u32 seed = 1; seed <= 3; seed++)
		write(Served::continuing(seed)
			      .continues(9, 3000, 3)
			      .replies(0, 40, 0, 0)
			      .continues(10, 40 + 4 * seed, 4)
			      .replies(2, 60, 5500, 20)
			      .time(0),
		      "groups-" + std::to_string(seed));
	write(Served::continuing()
		      .continues(9, 100, 2)
		      .continues(10, 48, 1)
		      .continues(11, 204, 3)
		      .replies(2, 60, 5000, 20)
		      .replies(2, 60, 3000, 21)
		      .replies(0, 1000, 0, 255)
		      .time(0),
	      "groups-at-once");
	/* The first, a middle one, the last is missing; and another call comes. */
	for (u32 but : {0u, 1u, 2u})
		write(Served::continuing()
			      .continues(9, 132, 3, but)
			      .calls(0, 0x8a, {}, 12)
			      .replies(0, 40, 0, 0)
			      .continues(11, 120, 3)
			      .replies(0, 40, 0, 0),
		      "groups-without-" + std::to_string(but));
	write(Served::continuing().continues(9, 132, 3, 2).continues(10, 132, 3).replies(0, 40, 0, 0),
	      "groups-interrupted");
	/* Each breaks off the one before it. */
	Served often = Served::continuing();
	for (u32 xid = 9; xid < 17; xid++)
		often.continues(xid, 132, 3, 2);
	write(often.continues(17, 132, 3).replies(0, 40, 0, 0).time(0), "groups-interrupted-often");
	write(Served::continuing().continues(9, 132, 5).continues(10, 132, 4).replies(0, 40, 0, 0),
	      "groups-too-many");
	write(Served::continuing().continues(9, 132, 3, 2).befalls(0).time(0), "groups-gone");
	write(Served::continuing()
		      .continues(9, 132, 3)
		      .lacks(1)
		      .continues(10, 132, 3, 0)
		      .continues(11, 132, 3)
		      .replies(2, 60, 5500, 20)
		      .lacks(0)
		      .replies(2, 60, 5500, 20)
		      .time(9),
	      "groups-short-of-memory");
	write(Served::continuing().receives(1).continues(9, 132, 3).replies(2, 60, 5500, 20).time(9),
	      "groups-no-receive");
	/* Of a reply to a backward call, and there is none: the report goes the other way. */
	write(Served::continuing()
		      .calls(0, 0x89, {}, 12)
		      .says(Seed().words({9, 2, 32, 5, 1, 3, 12, 1, 2, 8, 0, 0}).bytes)
		      .time(0),
	      "groups-backward");
}

void write_requester()
{
	const auto write = [](const Seed &s, const std::string &name) {
		s.write("requester", name);
	};

	for (const Named &m : messages()) {
		write(Asked::by(2).calls(0, small, 40, 40).hears(m.bytes), m.name);
		write(Asked::by(2, true).calls(0, small, 40, 40).hears(m.bytes).time(0),
		      std::string(m.name) + "-backchannel");
	}
	write(Asked::by(2).calls(0, read_data, 40, 4000).is_answered(0, 0, 3000, 0, 48), "read");
	write(Asked::by(2).calls(0, read_data, 40, 4000).is_answered(0, 1, 3001, 0, 48),
	      "read-claimed");
	write(Asked::by(2).calls(0, write_data, 4000, 40).is_answered(0, 0, 0, 0, 48), "write");
	write(Asked::by(0).calls(0, linking, 3000, 40).is_answered(0, 0, 0, 0, 48), "long-call");
	write(Asked::by(0).calls(0, listing, 40, 5000).is_answered(0, 0, 0, 4000, 0), "long-reply");
	write(Asked::by(2).calls(0, both_data, 4000, 4000).is_answered(0, 2, 3000, 0, 48),
	      "invalidated");
	write(Asked::by(2).calls(0, read_data, 40, 4000).is_answered(0, 6, 3000, 0, 48),
	      "invalidated-foreign");
	write(Asked::by(2)
		      .calls(0, read_data, 40, 4000)
		      .calls(1, read_data, 40, 4000)
		      .is_answered(0, 2, 3000, 0, 48)
		      .is_answered(1, 0, 3000, 0, 48),
	      "two");
	for (const u32 scratch : {0, 2})
		write(Asked::by(2, false, scratch)
			      .calls(0, read_data, 40, 4000)
			      .gives_up(0)
			      .suffers(0, 0, 10, 100)
			      .is_answered(0, 1, 3000, 0, 48),
		      scratch ? "cancelled-scratch" : "cancelled");
	write(Asked::by(2)
		      .calls(0, read_data, 40, 4000)
		      .is_answered(0, 0, 3000, 0, 48)
		      .suffers(0, 0, 0, 64)
		      .time(20),
	      "late-write");
	write(Asked::by(2)
		      .calls(0, small, 40, 40)
		      .is_answered(0, 0, 0, 0, 48)
		      .is_answered(0, 0, 0, 0, 48)
		      .time(0),
	      "twice");
	write(Asked::by(2)
		      .calls(0, both_data, 4000, 4000)
		      .is_answered(0, 0, 3000, 0, 48, true)
		      .is_answered(0, 0, 3000, 0, 48),
	      "twice-at-once");
	write(Asked::by(2).calls(0, write_data, 4000, 40).befalls(0).time(30).is_answered(0, 0, 0, 0, 48),
	      "gone");
	write(Asked::by(2).calls(0, small, 40, 40).time(255), "silence");
	write(Asked::by(2)
		      .lacks(0x11)
		      .calls(0, both_data, 3000, 3000)
		      .is_answered(0, 0, 9, 0, 40)
		      .time(9),
	      "short-of-memory");
	{
		Asked s = Asked::by(2, true);

		s.calls(0, small, 40, 40);
		for (u32 i = 0; i < 3; i++)
			s.is_called_back(60, i);
		write(s.time(0), "backward");
	}
	/* The first reply comes, and the other one is not overdue yet. */
	write(Asked::by(2)
		      .calls(0, read_data, 40, 4000)
		      .calls(1, read_data, 40, 4000)
		      .gives_up(0)
		      .time(100)
		      .gives_up(1)
		      .is_answered(0, 1, 0, 0, 48)
		      .time(120),
	      "cancelled-two");
	Asked refused = Asked::by(2, true);
	refused.calls(0, small, 40, 40);
	for (u32 i = 0; i < 36; i++)
		refused.hears(header(reads, xdr::Kind::msg, 7, 0), true);
	write(refused, "backward-refused");
	/* More segments than are ever offered. */
	Seed segments;
	segments.words({7, 1, 32, 0, 0, 1, 20});
	for (u32 i = 0; i < 20; i++)
		segments.words({i + 1, 10, 0, i << 16});
	segments.words({0, 0, 7, 1, 0, 0, 0, 0});
	write(Asked::by(2).calls(0, read_data, 40, 4000).hears(segments.bytes),
	      "too-many-segments");
	/* More than a batch of Receives. */
	Asked many = Asked::by(2);
	many.calls(0, small, 40, 40);
	for (u32 i = 0; i < 20; i++)
		many.hears(header(0, xdr::Kind::msg, 7, 1 + (i & 1)));
	write(many, "many");

	u32 number = 0;
	for (const Named &m : messages2()) {
		const std::string name =
			std::string("v2-") + m.name + "-" + std::to_string(number++);

		write(Asked::in_2(small, 40, 40).hears(m.bytes, false, 1).time(0), name);
		/* In place of an answer. */
		write(Asked::by(2, false, kGround2).calls(0, small, 40, 40).hears(m.bytes).time(20),
		      name + "-answer");
	}
	for (u32 error = 1; error <= 6; error++)
		write(Asked::by(2, false, kGround2)
			      .calls(0, small, 40, 40)
			      .is_answered(0, 0, 5, error, 0)
			      .is_answered(1, 0, 0, 0, 48),
		      "v2-answer-error-" + std::to_string(error));
	/* A backward call with the xid of calls that there was no memory for. */
	Asked refused_calls = Asked::by(2, true);
	refused_calls.calls(0, small, 40, 40).lacks(1);
	for (u32 i = 1; i < 8; i++)
		refused_calls.calls(i, small, 40, 40);
	write(refused_calls.lacks(0).is_called_back(60, 0).time(0), "backward-without-xid");
	/* The first decides, and is too short for a header. */
	write(Asked::by(2, false, kGround2)
		      .calls(0, small, 40, 40)
		      .hears({1, 2, 3, 4, 5}, true)
		      .hears(Seed().words({7, 2, 32, 4, 4}).bytes)
		      .time(20),
	      "v2-answer-too-short");
	/* ERR_VERS of a version that nobody speaks, with a word behind it. */
	write(Asked::by(2, false, kGround2)
		      .calls(0, small, 40, 40)
		      .hears(Seed().words({7, 99, 32, 4, 1, 1, 1, 1}).bytes)
		      .time(20),
	      "v2-answer-of-99");
	write(Asked::in_2(read_data, 40, 8000).is_answered(1, 0, 3000, 0, 48), "v2-read");
	write(Asked::in_2(read_data, 40, 8000).is_answered(1, 2, 3000, 0, 48), "v2-invalidated");
	write(Asked::in_2(write_data, 8000, 40).is_answered(1, 0, 0, 0, 48), "v2-write");
	write(Asked::in_2(listing, 40, 8000).is_answered(1, 0, 0, 4000, 0), "v2-long-reply");
	write(Asked::in_2(small, 40, 40).is_answered(1, 8, 0, 0, 48).is_answered(1, 0, 0, 0, 48),
	      "v2-then-1");
	write(Asked::in_2(small, 40, 40).is_called_back(60, 8).time(0), "v2-backward");
	write(Asked::by(2, false, kGround2).calls(0, small, 40, 40).time(20).is_answered(1, 0, 0, 0, 48),
	      "v2-silence");
	/* More than a batch of Receives. */
	Asked questions = Asked::in_2(small, 40, 40);
	for (u32 i = 0; i < 20; i++)
		questions.hears(Seed().words({7, 2, 32, 7, 0}).bytes, false, 1);
	write(questions, "v2-many-questions");

	/* A long reply comes in transmissions; a long call goes in some. */
	for (u32 seed = 1; seed <= 3; seed++) {
		write(Asked::continuing(listing, 40, 11000, seed)
			      .hears_parts(1, 9000, 3)
			      .calls(0, listing, 40, 7000)
			      .hears_parts(2, 100, 2)
			      .time(0),
		      "groups-reply-" + std::to_string(seed));
		write(Asked::continuing(linking, 9000, 40, seed)
			      .is_answered(1, 0, 0, 0, 48)
			      .calls(0, linking, 5000 + 4 * seed, 40)
			      .calls(1, listing, 40, 9000)
			      .hears_parts(4, 60, 1),
		      "groups-call-" + std::to_string(seed));
	}
	for (u32 but : {0u, 1u, 2u})
		write(Asked::continuing(listing, 40, 11000)
			      .hears_parts(1, 132, 3, but)
			      .calls(1, small, 40, 40)
			      .is_answered(2, 0, 0, 0, 48)
			      .hears_parts(1, 132, 3),
		      "groups-without-" + std::to_string(but));
	write(Asked::continuing(listing, 40, 11000)
		      .calls(1, listing, 40, 11000)
		      .hears_parts(1, 132, 3, 2)
		      .hears_parts(2, 132, 3)
		      .time(3),
	      "groups-interrupted");
	/* The first of one reply, and the second of another. */
	Asked mixed = Asked::continuing(listing, 40, 11000);
	const auto parts = transmissions(xdr::Option::xmtresp, 7, 132, 2);
	mixed.calls(1, listing, 40, 11000).hears(parts[0], false, 1).hears(parts[1], false, 2);
	write(mixed.hears_parts(2, 132, 2).time(3), "groups-mixed");
	/* More than it may have; to nobody; one that was given up. */
	write(Asked::continuing(listing, 40, 7000).hears_parts(1, 132, 5).time(3),
	      "groups-too-many");
	write(Asked::continuing(small, 40, 40).hears_parts(0, 132, 3).is_answered(1, 0, 0, 0, 48),
	      "groups-to-nobody");
	write(Asked::continuing(listing, 40, 11000)
		      .calls(1, linking, 9000, 40)
		      .gives_up(0)
		      .gives_up(1)
		      .hears_parts(1, 132, 3)
		      .hears_parts(2, 48, 1)
		      .time(3),
	      "groups-cancelled");
	write(Asked::continuing(listing, 40, 11000).hears_parts(1, 132, 3, 2).befalls(0).time(30),
	      "groups-gone");
	write(Asked::continuing(linking, 9000, 40)
		      .hears(Seed().words({7, 2, 32, 5, 1, 4, 20, 7, 0, 0, 0, 3}).bytes, false, 1)
		      .time(30)
		      .is_answered(0, 0, 0, 0, 0),
	      "groups-reported");
	write(Asked::continuing(listing, 40, 11000)
		      .lacks(0x11)
		      .calls(1, linking, 9000, 40)
		      .calls(2, listing, 40, 11000)
		      .hears_parts(1, 132, 3)
		      .hears_parts(2, 132, 3)
		      .time(9),
	      "groups-short-of-memory");

	for (u32 more : {1u, 3u, 6u, 9u, 11u, 12u, 14u, 15u}) {
		const std::string number = std::to_string(more);

		write(Asked::long_ones(read_data, 40, 16000).is_answered(1, 0, 0, 0, 48, false, more),
		      "pages-read-" + number);
		write(Asked::long_ones(listing, 40, 16000).is_answered(1, 0, 0, 0, 48, false, more),
		      "pages-listing-" + number);
	}
	for (u32 data : {3000u, 8000u, 12003u, 16384u})
		write(Asked::long_ones(write_data, data, 40).is_answered(1, 0, 0, 0, 48),
		      "pages-write-" + std::to_string(data));
	write(Asked::long_ones(small, 40, 40).is_answered(1, 0, 0, 0, 48, false, 12),
	      "pages-small");
	write(Asked::long_ones(small, 40, 40)
		      .is_called_back(60, 8)
		      .is_answered(1, 0, 0, 0, 48, false, 12),
	      "pages-back");
	/* More than a batch of Receives. */
	for (u32 seed = 1; seed <= 6; seed++) {
		Asked s = Asked::long_ones(read_data, 40, 16000, seed);

		for (u32 i = 0; i < 20; i++)
			s.is_answered(1 + i, 0, 0, 0, 48, false, 11 + i % 2)
				.calls(0, i % 2 ? read_data : listing, 40, 16000);
		write(s, "pages-many-" + std::to_string(seed));
	}
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
	write_rtrext();
	write_chunks();
	write_responder();
	write_requester();
}
