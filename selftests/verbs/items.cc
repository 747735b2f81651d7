// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls whose items come in Sends (rtrext-01 6.2, 7.3), in the DDP segments that the server tells of once its Receives have
 * grown: in any order and at any offset, and then numbers that no segment has, segments without bytes, segments twice, offsets
 * and lengths beyond all; what comes amid a group and is no part of it; reports in answer to reports. Messages are written and
 * read word by word from the draft. The server's version2_rtr is 7.
 */
#include "two.hh"

#include <algorithm>

namespace verbs {

namespace {

using namespace two;
using Parts = std::vector<Octets>;

/* XMDTYPE_TBSN. */
constexpr u32 tbsn = 2;

/* Transmissions of a call that the server takes. */
constexpr u32 most = 4;

/* What the server receives into: a head, and DDP segments behind it. */
struct Room {
	u32 head = 0, segments = 0, each = 0;
};

/* An item of a call, in these segments from @offset of the first one on; or of a type that has nothing behind it. */
struct Item {
	u32 displacement, length, offset;
	std::vector<u32> numbers;
	u32 type = tbsn;
};

/* An UPDPROP says this. */
Room room_of(const Octets &update)
{
	Reader in(update);
	Room room;

	in.octets(16);
	for (u32 left = in.word(); left; left--) {
		const u32 id = in.word();
		Reader structure(in.opaque());

		if (id != two_rbstruct)
			continue;
		structure.word(); /* bytes of all */
		for (u32 groups = structure.word(); groups; groups--) {
			const u32 count = structure.word(), length = structure.word();
			const u32 alignment = structure.word(), flags = structure.word();

			check(alignment != 0, "an alignment of 0");
			if (flags & 1) {
				room.segments += count;
				room.each = length;
			} else {
				check(!room.segments, "what is no DDP segment, behind one");
				room.head += count * length;
			}
		}
	}
	return room;
}

/* A connection that was used until the server's Receives had grown. It has 32 credits. */
Connection &connect_grown(Test &t, Room &room)
{
	Connection &c = connect(t);
	const u32 first = t.xid();
	u32 granted = 1, outstanding = 0;

	t.send(c, properties_2(first, 32, two_least, 0x3f, most));
	expect(c, {first, 2, 0, two_connprop, 6, two_rbsiz, 4}, "CONNPROP");
	for (u32 calls = 0; !room.segments || outstanding;) {
		for (; !room.segments && outstanding < granted; outstanding++, calls++) {
			const u32 xid = t.xid();

			check(calls < 2000, "the server's Receives do not grow");
			t.send(c, Words().words({xid, 2, 32, two_msg, 0, 0, 0, 0, 0})
					  .octets(null_call(xid))
					  .get());
		}
		const Octets got = answer(c);
		const u32 proc = rpcordma::xdr::load_be32(&got[12]);

		granted = rpcordma::xdr::load_be32(&got[8]);
		check(proc == two_msg || proc == two_updprop, text("proc %u", proc));
		if (proc == two_updprop)
			room = room_of(got);
		else
			outstanding--;
	}
	check(room.head == two_least && room.each == 4096 && room.segments == 4,
	      text("a head of %u bytes, %u segments of %u", room.head, room.segments, room.each));
	return c;
}

/* Put @data, those of @item, behind the heads of the transmissions that its segments are of. */
void scatter(std::vector<Octets> &behind, const Room &room, const Item &item, const Octets &data)
{
	u32 done = 0, offset = item.offset;

	for (const u32 number : item.numbers) {
		const u32 n = std::min(room.each - offset, u32(data.size()) - done);
		const u32 in = number / room.segments,
			  at = number % room.segments * room.each + offset;

		if (!n)
			break;
		behind.resize(std::max(behind.size(), size_t(in + 1)));
		behind[in].resize(std::max(behind[in].size(), size_t(at + n)), 0xaa);
		std::copy_n(data.begin() + done, n, behind[in].begin() + at);
		done += n;
		offset = 0;
	}
	check(done == data.size(), "a test whose item does not fit its segments");
}

/* The transmissions of the call @xid: as many as @behind has. A stream that is longer than the head covers what is behind it. */
Parts call_of(u32 xid, const std::vector<Item> &items, const Octets &stream,
	      const std::vector<Octets> &behind, const Room &room)
{
	Words optinfo;
	Parts parts;

	optinfo.word(u32(items.size()));
	for (const Item &item : items) {
		optinfo.words({item.displacement, item.length, item.type});
		if (item.type != tbsn)
			continue;
		optinfo.words({item.offset, u32(item.numbers.size())});
		for (const u32 number : item.numbers)
			optinfo.word(number);
	}
	optinfo.words({0, u32(behind.size()), 1, u32(stream.size())});
	for (u32 i = 0; i < behind.size(); i++) {
		Words words;

		words.words({xid, 2, 32, two_optional, 0});
		if (i)
			words.words({two_xmtcont, 12, i, two_xmtreq, 0});
		else
			words.words({two_xmtreq, optinfo.size()}).octets(optinfo.get()).octets(stream);
		Octets part = words.get();
		if (!behind[i].empty()) {
			part.resize(std::max(part.size(), size_t(room.head)));
			part.insert(part.end(), behind[i].begin() + long(part.size() - room.head),
				    behind[i].end());
		}
		parts.push_back(part);
	}
	return parts;
}

void say(Test &t, Connection &c, const Parts &parts)
{
	for (const Octets &part : parts)
		t.send(c, part);
}

/* The reply to a COMPOUND that went well. */
void expect_done(Connection &c, u32 xid, const char *what)
{
	expect(c, {xid, 2, 0, two_msg, 1, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 0}, what);
}

/* From @at on the file has @data, as another connection sees it. */
void expect_written(Test &t, Connection &other, u32 at, const Octets &data)
{
	constexpr u32 piece = 3000;

	for (u32 done = 0; done < data.size(); done += piece) {
		const u32 n = std::min(piece, u32(data.size()) - done);

		same(t.get(other, at + done, n),
		     Octets(data.begin() + done, data.begin() + done + n), "what was written");
	}
}

/* WRITE @length bytes, which come in the segments @numbers. */
void write_sent(Test &t, Connection &c, const Room &room, Connection &other, u32 length, u32 offset,
		const std::vector<u32> &numbers)
{
	const u32 xid = t.xid(), place = xid % 1000;
	const Octets data = pattern(length, xid);
	std::vector<Octets> behind;
	Compound compound(xid);

	compound.lookup(file_name).write_reduced(place, length);
	const Item item = {compound.positions()[0], length, offset, numbers};
	scatter(behind, room, item, data);
	say(t, c, call_of(xid, {item}, compound.payload(), behind, room));
	expect_done(c, xid, text("a WRITE of %u bytes", length).c_str());
	expect_written(t, other, place, data);
}

void sent(Test &t)
{
	Room room;
	Connection &other = t.connect();
	Connection &c = connect_grown(t, room);
	const u32 all = most * room.segments;

	for (const u32 length : {1u, 5001u, 16384u, 65536u})
		for (const u32 offset : {0u, 4u, 777u}) {
			const u32 count = (offset + length + room.each - 1) / room.each;
			std::vector<u32> straight, back, apart;

			if (count > all)
				continue;
			for (u32 i = 0; i < count; i++) {
				straight.push_back(i);
				back.push_back(count - 1 - i);
				apart.push_back(all - 1 - 2 * i);
			}
			write_sent(t, c, room, other, length, offset, straight);
			write_sent(t, c, room, other, length, offset, back);
			if (2 * count <= all)
				write_sent(t, c, room, other, length, offset, apart);
		}
	/* What is behind its last byte in the list is not needed. */
	write_sent(t, c, room, other, 100, 0, {3, 0, 0, 1});
	/*
	 * Two in one call, of which the second begins in the segment where the first ends. nfsd wants it to begin in the first page
	 * of the call: see write_two() in nfs.cc.
	 */
	const Octets one = pattern(2048, 71), two = pattern(3000, 72);
	const u32 xid = t.xid();
	std::vector<Octets> behind;
	Compound compound(xid);
	compound.lookup(file_name).write_reduced(0, 2048).write_reduced(9000, 3000);
	const Item first = {compound.positions()[0], 2048, 3000, {2, 0}},
		   second = {compound.positions()[1], 3000, 952, {0, 1}};
	scatter(behind, room, first, one);
	scatter(behind, room, second, two);
	say(t, c, call_of(xid, {first, second}, compound.payload(), behind, room));
	expect_done(c, xid, "two items");
	expect_written(t, other, 0, one);
	expect_written(t, other, 9000, two);
	/* The stream may go on in segments (6.2): then the item is behind these. For the same reason only its data are judged. */
	const u32 longer = t.xid();
	const Octets data = pattern(4000, 73);
	std::vector<Octets> last;
	Compound many(longer);
	many.lookup(file_name).write_reduced(20000, 4000).write(40000, pattern(5000, 74));
	const Item item = {many.positions()[0], 4000, 0, {3}};
	scatter(last, room, item, data);
	say(t, c, call_of(longer, {item}, many.payload(), last, room));
	expect_done(c, longer, "a stream that fills more than the head");
	expect_written(t, other, 20000, data);
	served(t, c);
}

/* Sixteen items, which a server takes; one more: SYSTEM. */
void many(Test &t)
{
	Room room;
	Connection &other = t.connect();
	Connection &c = connect_grown(t, room);

	for (const u32 count : {16u, 17u}) {
		const u32 xid = t.xid();
		std::vector<Octets> behind;
		std::vector<Item> items;
		Compound compound(xid);

		compound.lookup(file_name);
		for (u32 i = 0; i < count; i++)
			compound.write_reduced(100 * i, 8);
		for (u32 i = 0; i < count; i++) {
			items.push_back({compound.positions()[i], 8, 8 * i, {0}});
			scatter(behind, room, items[i], pattern(8, xid + i));
		}
		say(t, c, call_of(xid, items, compound.payload(), behind, room));
		if (count == 16) {
			expect_done(c, xid, "16 items");
			for (u32 i = 0; i < count; i++)
				expect_written(t, other, 100 * i, pattern(8, xid + i));
		} else {
			expect(c, {xid, 2, 0, two_error, two_system}, "17 items");
		}
		served(t, c);
	}
}

/*
 * A report of @fault about the call @xid. Which of its transmissions is the bad one the draft does not say, where the items of
 * the first are at odds with what came in all; a lead may be told where there are several. @values: none, where it does not say
 * which.
 */
void expect_fault(Connection &c, u32 xid, u32 transmissions, u32 fault,
		  const std::vector<u32> &values, const char *what)
{
	const Octets got = answer(c);
	Reader in(got);
	u32 header[6];

	for (u32 &word : header)
		word = in.word();
	check(header[0] == xid && header[1] == 2 && header[2] && header[3] == two_optional &&
		      header[4] == 1 && header[5] == two_repterr,
	      text("%s: proc %u, %#x, %#x instead of a report", what, header[3], header[4],
		   header[5]));
	check(in.word() + 28 == got.size(), text("%s: optinfo of another length", what));
	const u32 bad = in.word(), direction = in.word(), number = in.word();
	check(bad == xid && !direction && number < transmissions,
	      text("%s: a report about transmission %u of %u", what, number, bad));
	if (in.word()) {
		const u32 lead = in.word(), its_direction = in.word(), its_number = in.word();

		check(transmissions > 1 && lead == xid && !its_direction && !its_number,
		      text("%s: a lead that is none", what));
	}
	const u32 which = in.word();
	check(which == fault, text("%s: fault %u, expected %u", what, which, fault));
	for (u32 i = 0; i < 3; i++) {
		const u32 told = in.word();

		check(i >= values.size() || told == values[i],
		      text("%s: value %u is %u, expected %u", what, i, told,
			   i < values.size() ? values[i] : 0));
	}
	in.end();
}

/* What is wrong with a call's items, and how the server has to say so. */
struct Wrong {
	const char *what;
	std::vector<Item> items; /* displacements from that of the WRITE's data on */
	u32 transmissions;
	/* Bytes behind the head, of each but the last, and of the last. */
	u32 behind, last;
	u32 fault; /* 0: BAD_XDR */
	std::vector<u32> values;
};

const std::vector<Wrong> wrong_items = {
	{"segment 4, of one", {{0, 4096, 0, {4}}}, 1, 0, 16384, bad_tbsn, {4, 0, 3}},
	{"segment 2^31", {{0, 4096, 0, {1u << 31}}}, 1, 0, 16384, bad_tbsn, {1u << 31, 0, 3}},
	{"segment 2^32-1", {{0, 4096, 0, {~0u}}}, 1, 0, 16384, bad_tbsn, {~0u, 0, 3}},
	{"a second one", {{0, 8192, 0, {0, 4}}}, 1, 0, 16384, bad_tbsn, {4, 0, 3}},
	{"segment 8, of two", {{0, 4096, 0, {8}}}, 2, 16384, 16384, bad_tbsn, {8, 0, 7}},
	{"segment 16, of four", {{0, 4096, 0, {16}}}, 4, 16384, 16384, bad_tbsn, {16, 0, 15}},
	{"no segments", {{0, 4096, 0, {}}}, 1, 0, 16384, bad_tbsn, {}},
	{"too few", {{0, 4097, 0, {0}}}, 1, 0, 16384, bad_tbsn, {}},
	{"too few, from an offset", {{0, 8, 4092, {0}}}, 1, 0, 16384, bad_tbsn, {}},
	{"2^32-1 bytes", {{0, ~0u, 0, {0, 1, 2, 3}}}, 1, 0, 16384, bad_tbsn, {}},
	{"an empty one", {{0, 4096, 0, {1}}}, 1, 0, 4096, bad_tbsn, {}},
	{"one too short", {{0, 101, 0, {0}}}, 1, 0, 100, bad_tbsn, {}},
	{"one too short, from an offset", {{0, 100, 1, {0}}}, 1, 0, 100, bad_tbsn, {}},
	{"a head, and no more", {{0, 1, 0, {0}}}, 1, 0, 0, bad_tbsn, {}},
	{"an empty second one", {{0, 4096, 0, {4}}}, 2, 16384, 0, bad_tbsn, {}},
	{"behind its segment", {{0, 100, 4096, {0}}}, 1, 0, 16384, bad_off, {4096, 0, 4095}},
	{"from 2^32-1", {{0, 100, ~0u, {0}}}, 1, 0, 16384, bad_off, {~0u, 0, 4095}},
	{"twice", {{0, 8192, 0, {1, 1}}}, 1, 0, 16384, bad_off, {0, 0, 4095}},
	{"16 times", {{0, 65536, 0, std::vector<u32>(16, 5)}}, 2, 16384, 16384, bad_off, {0, 0, 4095}},
	{"within another item",
	 {{0, 100, 0, {0}}, {100, 100, 50, {0}}},
	 1,
	 0,
	 16384,
	 bad_off,
	 {50, 0, 4095}},
	{"behind the stream", {{400, 100, 0, {0}}}, 1, 0, 16384, bad_pl, {}},
	{"at 2^31", {{0x7ffffff0, 100, 0, {0}}}, 1, 0, 16384, bad_pl, {}},
	{"no whole words", {{1, 100, 0, {0}}}, 1, 0, 16384, 0, {}},
	{"two at one place", {{0, 100, 0, {0}}, {0, 100, 200, {0}}}, 1, 0, 16384, 0, {}},
	{"one within another", {{0, 100, 0, {0}}, {96, 100, 200, {0}}}, 1, 0, 16384, 0, {}},
	{"type 0", {{0, 100, 0, {}, 0}}, 1, 0, 16384, 0, {}},
	{"CHOOSE", {{0, 100, 0, {}, 3}}, 1, 0, 16384, 0, {}},
	{"BYSIZE", {{0, 100, 0, {}, 4}}, 1, 0, 16384, 0, {}},
	{"TOOSHORT", {{0, 100, 0, {}, 5}}, 1, 0, 16384, 0, {}},
	{"NOITEM", {{0, 0, 0, {}, 6}}, 1, 0, 16384, 0, {}},
	{"type 2^32-1", {{0, 100, 0, {}, ~0u}}, 1, 0, 16384, 0, {}},
};

void wrong(Test &t)
{
	Room room;
	Connection &other = t.connect();
	Connection &c = connect_grown(t, room);

	for (const Wrong &one : wrong_items) {
		const u32 xid = t.xid();
		std::vector<Octets> behind(one.transmissions, Octets(one.behind, 0x55));
		std::vector<Item> items = one.items;
		Compound compound(xid);

		compound.lookup(file_name).write_reduced(0, 100);
		for (Item &item : items)
			item.displacement += compound.positions()[0];
		behind.back() = Octets(one.last, 0x55);
		say(t, c, call_of(xid, items, compound.payload(), behind, room));
		if (one.fault)
			expect_fault(c, xid, one.transmissions, one.fault, one.values, one.what);
		else
			expect(c, {xid, 2, 0, two_error, two_bad_xdr}, one.what);
		served(t, c);
	}
	/* NULL, with @more bytes of arguments and these items. */
	const auto null_with = [&](std::initializer_list<u32> items, u32 more) {
		const u32 xid = t.xid();
		Words optinfo;

		optinfo.words(items).words({0, 1, 1, 40 + more});
		Octets message =
			Words().words({xid, 2, 32, two_optional, 0, two_xmtreq, optinfo.size()})
				.octets(optinfo.get())
				.octets(null_call(xid))
				.get();
		message.resize(room.head + room.segments * room.each);
		t.send(c, message);
		return xid;
	};
	for (const u32 count : {5u, 1u << 12, 1u << 30, ~0u}) {
		const u32 xid = null_with({1, 40, 100, tbsn, 0, count}, 0);

		expect(c, {xid, 2, 0, two_error, two_bad_xdr}, "a list beyond optinfo");
		served(t, c);
	}
	for (const u32 place : {0u, 8u, 36u}) {
		const u32 xid = null_with({1, place, 100, tbsn, 0, 1, 0}, 0);

		expect(c, {xid, 2, 0, two_error, two_bad_xdr}, "an item in the RPC header");
		served(t, c);
	}
	/* The stream goes on to where the item is: before it are 28 bytes, 28 of the item, 16. */
	const u32 xid = null_with({1, 40, 4096, tbsn, 0, 1, 0}, 4000);
	expect_fault(c, xid, 1, bad_pl, {4040, 0, 4096 - 72}, "a stream in an item");
	served(t, c);
	/* No Receive was lost by all this. */
	for (u32 i = 0; i < 10; i++)
		write_sent(t, c, room, other, 50000, 0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
}

/* A server whose Receives have no segments. */
void none(Test &t)
{
	Connection &c = connect_rtr(t);
	const Room head = {two_least, 0, 0};

	for (const u32 number : {0u, 1u, ~0u})
		for (const u32 count : {1u, 2u}) {
			const u32 xid = t.xid();
			Compound compound(xid);

			compound.lookup(file_name).write_reduced(0, 100);
			say(t, c,
			    call_of(xid, {{compound.positions()[0], 100, 0, {number}}},
				    compound.payload(), std::vector<Octets>(count), head));
			expect_fault(c, xid, count, bad_tbsn, {number, 0, 0}, "no segments");
			served(t, c);
		}
}

/* Items under way, or begun, and nobody there any more. */
void gone(Test &t)
{
	for (u32 turn = 0; turn < most; turn++) {
		Room room;
		Connection &c = connect_grown(t, room);

		for (u32 i = 0; i < 4; i++) {
			const u32 xid = t.xid();
			const std::vector<Octets> behind(
				most, Octets(size_t(room.segments) * room.each, 0x33));
			std::vector<u32> numbers;
			Compound compound(xid);

			for (u32 n = 0; n < most * room.segments; n++)
				numbers.push_back(n);
			compound.lookup(file_name).write_reduced(0, 65536);
			Parts parts = call_of(xid, {{compound.positions()[0], 65536, 0, numbers}},
					      compound.payload(), behind, room);
			if (i == 3)
				parts.resize(turn);
			say(t, c, parts);
		}
		t.drop(c);
	}
	Room room;
	served(t, connect_grown(t, room));
}

/* In place of an xid: that of the message itself. */
constexpr u32 own = 0x9999;

/* What comes amid a group, and is no part of it. */
struct Other {
	const char *what;
	std::vector<u32> words; /* behind the grant */
	u32 direction, fault;
	std::vector<u32> values;
};

const std::vector<Other> others = {
	{"a reply to a backward call",
	 {two_msg, 1, 0, 0, 0, 0, own, 1, 0, 0, 0, 0},
	 1,
	 bad_hmt,
	 {two_optional, two_msg}},
	{"an error to a backward call",
	 {two_error, two_bad_xdr},
	 1,
	 bad_hmt,
	 {two_optional, two_error}},
	{"UPDPROP", {two_updprop, 0}, 0, bad_hmt, {two_optional, two_updprop}},
	{"XMTRESP",
	 {two_optional, 1, two_xmtresp, 12, 0, 3, 8, own, 1},
	 1,
	 bad_omt,
	 {two_xmtcont, two_xmtresp}},
	{"REPTERR",
	 {two_optional, 0, two_repterr, 20, own, 1, 0, 0, bad_cont},
	 0,
	 bad_omt,
	 {two_xmtcont, two_repterr}},
};

/* The report says what it is; it gets no answer of its own, as nobody waits for it; and the group is over. */
void amid(Test &t)
{
	Connection &c = connect_rtr(t);

	for (const Other &other : others)
		for (const u32 sent : {1u, 2u}) {
			const u32 xid = t.xid(), its = t.xid();
			Words message;

			t.send(c, Words().words({xid, 2, 8, two_optional, 0, two_xmtreq, 20, 0, 0,
						 3, 1, 40})
					  .octets(null_call(xid))
					  .get());
			if (sent == 2)
				t.send(c, octets({xid, 2, 8, two_optional, 0, two_xmtcont, 12, 1,
						  two_xmtreq, 0}));
			message.words({its, 2, 8});
			for (const u32 word : other.words)
				message.word(word == own ? its : word);
			t.send(c, message.get());
			expect_report(c, {its, 0, other.direction}, Id{xid, 0}, other.fault,
				      other.values, other.what);
			served(t, c);
			t.send(c, octets({xid, 2, 8, two_optional, 0, two_xmtcont, 12, sent,
					  two_xmtreq, 0}));
			expect_report(c, {xid, sent}, {}, bad_cont, {}, "the rest of it");
			served(t, c);
		}
}

/* Who is told of a fault tells of a fault in that: that is the end of it. */
void loop(Test &t)
{
	Connection &c = connect_rtr(t);

	for (u32 turn = 0; turn < 100; turn++) {
		const u32 xid = t.xid(), fault = 1 + turn % 8;

		t.send(c, octets({xid, 2, 8, two_optional, 0, two_xmtcont, 12, 1, two_xmtreq, 0}));
		expect_report(c, {xid, 1}, {}, bad_cont, {}, "an XMTCONT of nothing");
		/* The direction of what is about a reply, and that of what is about a call. */
		for (const u32 direction : {0u, 1u}) {
			const u32 values = fault == bad_cont ? 0 : fault <= bad_xid ? 2 : 3;
			Words body;

			body.words({xid, 1, 0, 1, xid, 1, 0, fault});
			for (u32 i = 0; i < values; i++)
				body.word(~0u);
			t.send(c, Words().words({xid, 2, 8, two_optional, direction, two_repterr,
						 body.size()})
					  .octets(body.get())
					  .get());
		}
		if (turn % 10 == 9)
			served(t, c);
	}
}

} // namespace

const std::vector<TestCase> item_tests = {
	{"rtr-item-sent", "WRITEs whose data come in Sends, in segments of any order: every byte",
	 sent},
	{"rtr-item-many", "16 items; 17: SYSTEM", many},
	{"rtr-item-wrong", "segments there are not, twice, empty: BADTBSN, BADOFF, BADPL, BAD_XDR",
	 wrong},
	{"rtr-item-none", "items for Receives without segments: BADTBSN", none},
	{"rtr-item-gone", "left amid calls with items", gone},
	{"rtr-amid", "replies to backward calls and the like amid a group: BADHMT, BADOMT", amid},
	{"rtr-report-loop", "a hundred reports in answer to reports: none is answered", loop},
};

} // namespace verbs
