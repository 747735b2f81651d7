// SPDX-License-Identifier: GPL-2.0-only
/*
 * chunk/select behind chunk/reduce, as the client asks them: which way a call and its reply go. Every combination of lengths and
 * of what a peer tells of itself is held against the rules as a list, written down once more; the ways that matter have
 * cases by name. How a client goes on with what is selected, and what it does without credits, Receives or memory, is
 * test_client_groups.cc's and test_client_items.cc's.
 */
#include "kunit/test_chunk_ways.hh"

namespace rpcordma {
namespace {

using namespace chunk;
using properties::takes_xmtcont;
using properties::takes_xmtreq;
using properties::takes_xmtresp;

constexpr u32 all = takes_xmtreq | takes_xmtresp | takes_xmtcont;

/* What an end receives into, and how often. */
struct End {
	u32 bytes;
	properties::Structure room;
	u32 limit;
};

constexpr End grown = {20480, {20480, 4, 4096}, 4};

/* What the client knows: its own Receives take the most bytes that reduce() hears of, and 32 KiB inline of a group. */
struct World {
	u32 send, receive;
	Means means;
};

World world_of(const End &ours, const End &peer, u32 extensions = all)
{
	World world;
	Means &means = world.means;

	world.send = means.send_bytes = means.buffer_bytes = peer.bytes;
	world.receive = ours.bytes;
	means.receive_bytes = min(ours.bytes, 32768u);
	means.extensions = extensions;
	means.ours = ours.room;
	means.theirs = peer.room;
	means.call_limit = means.reply_limit = peer.limit;
	means.item_segments = 64;
	means.write_max = 65536;
	means.read_max = 16384;
	return world;
}

/* Sends of a message that goes inline, counted one by one. */
u32 counted(u32 length, u32 header, u32 bytes)
{
	u32 n = 0;

	for (u32 at = header;; at = 40) {
		n++;
		const u32 room = (bytes - at) / 4 * 4;

		if (length <= room)
			return n;
		length -= room;
	}
}

/* The same of one whose item goes in DDP segments, beside @stream bytes; 0: it does not. */
u32 placed(const properties::Structure &room, u32 header, u32 stream, u32 item)
{
	if (room.segments == 0)
		return 0;
	const u32 segments = (item + room.segment_length - 1) / room.segment_length;

	if (header + 20 + 4 * segments + stream > room.total - room.segments * room.segment_length)
		return 0;
	return (segments + room.segments - 1) / room.segments;
}

/* The rules, in their order. */
Ways rules(const Lengths &l, const World &world)
{
	const Means &m = world.means;
	const u32 at = shape_of(l).send.head_length, pad = (4 - l.call_item % 4) % 4;
	const bool call_item = l.call_item && !l.sealed && at && at % 4 == 0,
		   reply_item = l.reply_item && !l.sealed;
	/* What is beside an item. */
	const u32 out_rest = l.call - l.call_item - pad, in_rest = l.reply - l.reply_item;
	Ways w;

	/* By chunks: of one region each, which has 16 bytes in a header; an entry of a list and a count are words. */
	const bool in_one = 36 + l.reply <= world.receive;
	const bool in_write = !in_one && reply_item && 36 + 24 + in_rest <= world.receive;
	const bool in_both = !in_one && !in_write && reply_item && l.marked;
	const u32 header = 36 + (in_one ? 0 : in_write ? 24 : in_both ? 24 + 20 : 20);
	const bool out_one = header + l.call <= world.send;
	const bool out_read = !out_one && call_item && header + 24 + out_rest <= world.send;
	const bool out_both = !out_one && !out_read && call_item && l.marked;

	w.in = in_one ? In::one : in_write ? In::write_chunk : In::reply_chunk;
	w.out = out_one ? Out::one : out_read ? Out::read_chunk : Out::long_call;
	if ((in_one && out_one) || in_both || out_both || (m.extensions & 7) != 7)
		return w;
	if (in_write) {
		const u32 n = placed(m.ours, 40, in_rest, l.reply_item);
		const u32 come = counted(l.reply + 20, 40, m.receive_bytes);

		if (!out_one || l.reply_item > m.read_max || l.call % 4 || !n ||
		    n > m.reply_limit || come > m.reply_limit || 68 + l.call > m.send_bytes)
			return w;
		w.in = In::sent;
		w.xmtreq = true;
		w.comes = n > come ? n : come;
		w.header = 68;
		w.send_bytes = 68 + l.call;
		while (40 + 20 + in_rest + w.least + 4 <= m.receive_bytes / 4 * 4)
			w.least += 4;
		return w;
	}
	const u32 come = in_one ? 1 : counted((l.reply + 3) / 4 * 4, 40, m.receive_bytes);
	if (come > m.reply_limit)
		return w;
	if (out_read) {
		const u32 n = placed(m.theirs, 48, out_rest, l.call_item);
		const u32 each = m.theirs.segments * m.theirs.segment_length;

		if (l.call_item > m.write_max || out_rest % 4 || !n || n > m.call_limit ||
		    (l.call_item + m.theirs.segment_length - 1) / m.theirs.segment_length >
			    m.item_segments)
			return w;
		w.out = Out::sent;
		w.sends = n;
		w.header =
			48 + 20 +
			4 * ((l.call_item + m.theirs.segment_length - 1) / m.theirs.segment_length);
		w.send_bytes = m.theirs.total - each + (l.call_item < each ? l.call_item : each);
	} else {
		const u32 bytes = m.send_bytes < m.buffer_bytes ? m.send_bytes : m.buffer_bytes;
		const u32 n = counted(l.call, 48, bytes);

		if (l.call % 4 || n > m.call_limit || (n == 1 && come == 1))
			return w;
		w.out = n == 1 ? Out::one : Out::group;
		w.sends = n;
		w.header = 48;
		w.send_bytes = bytes;
	}
	w.xmtreq = true;
	w.in = in_one ? In::one : In::group;
	w.comes = come;
	return w;
}

/* What is selected for @lengths, which is what the rules have. */
Selection selected(const Lengths &lengths, const World &world)
{
	CallShape call;
	Plan plan;

	EXPECT_TRUE(plan_call(lengths, world.send, world.receive, call, plan));
	const Selection got = select(call, plan, world.means);
	expect_same(plan, got, rules(lengths, world));
	return got;
}

/* Whether it is; it tells of itself if not. By itself, as a kernel's stack is small. */
[[gnu::noinline]] bool agrees(const Lengths &lengths, const World &world, u32 (&seen)[5][5])
{
	CallShape call;
	Plan plan;
	const bool planned = plan_call(lengths, world.send, world.receive, call, plan);
	const Ways want = rules(lengths, world);
	const Selection got = planned ? select(call, plan, world.means) : Selection{};

	seen[u32(want.out)][u32(want.in)]++;
	if (planned && same(plan, got, want))
		return true;
	TEST_NOTE("call", lengths.call);
	TEST_NOTE("item of the call", lengths.call_item);
	TEST_NOTE("reply", lengths.reply);
	TEST_NOTE("item of the reply", lengths.reply_item);
	EXPECT_TRUE(planned);
	if (planned)
		expect_same(plan, got, want);
	return false;
}

} // namespace

RPCORDMA_TEST(chunk_select, every_combination)
{
	const u32 calls[][2] = {
		{148, 0},
		{150, 0},
		{4000, 0},
		/* One word, and none, less than an XMTREQ has room for, without and with a direction. */
		{4024, 0},
		{4028, 0},
		{4032, 0},
		{4044, 0},
		{4048, 0},
		{4052, 0},
		{20000, 0},
		{20440, 0},
		{20480, 0},
		{20482, 0},
		{60000, 0},
		{90000, 0},
		{4096 + 160, 4096},
		{16384 + 160, 16384},
		{20380 + 4, 20380},
		{32768 + 160, 32768},
		{32769 + 3 + 160, 32769},
		{65536 + 160, 65536},
		{65536 + 162, 65536},
		{65540 + 160, 65540},
		{1048576 + 160, 1048576},
		{65536 + 5000, 65536},
		{65536 + 21000, 65536},
		/* Stream and header fill the head, and one word more. */
		{20004 + 4004, 20001},
		{20004 + 4008, 20001},
		{20004 + 4012, 20001}};
	static constexpr u32 replies[][2] = {{128, 0},
					     {4050, 0},
					     {4060, 0},
					     {4061, 0},
					     {20440, 0},
					     {20480, 0},
					     {65536, 0},
					     {81760, 0},
					     {81761, 0},
					     {131000, 0},
					     {4096 + 128, 4096},
					     {16384 + 128, 16384},
					     {16388 + 128, 16388},
					     {65535 + 129, 65535},
					     {1048576 + 128, 1048576},
					     {16384 + 4008, 16384},
					     {16384 + 4012, 16384},
					     {16384 + 4016, 16384},
					     {16384 + 5000, 16384},
					     {16384 + 21000, 16384}};
	const End small = {4096, {4096, 0, 0}, 4}, one = {20480, {20480, 4, 4096}, 1},
		  narrow = {8192, {8192, 1, 4096}, 4}, silent = {4096, {}, 1},
		  wide = {65536, {65536, 15, 4096}, 4};
	u32 seen[5][5] = {}, cases = 0, wrong = 0;

	for (u32 extensions = 0; extensions < 8; extensions++)
		for (const End &peer : {grown, small, one, silent})
			for (const End &ours : {grown, small, narrow, wide})
				for (u32 spent = 0; spent < 32; spent++) {
					/* What is announced matters with all of the rest in two of the ways alone. */
					if (extensions != all && spent > 1)
						continue;
					World world = world_of(ours, peer, extensions);
					world.means.write_max = spent & 1 ? 65536 : 32768;
					world.means.read_max = spent & 2 ? 16384 : 1048576;
					world.means.item_segments = spent & 4 ? 64 : 8;
					for (const auto &call : calls)
						for (const auto &reply : replies) {
							const Lengths lengths = {call[0],
										 call[1],
										 reply[0],
										 reply[1],
										 (spent & 8) != 0,
										 (spent & 16) != 0};

							cases++;
							TEST_NOTE("extensions", extensions);
							TEST_NOTE("spent", spent);
							TEST_NOTE("theirs", peer.bytes);
							TEST_NOTE("ours", ours.bytes);
							wrong += !agrees(lengths, world, seen);
						}
				}
	EXPECT_EQ(wrong, 0);
	EXPECT_EQ(cases, (7 * 2 + 32) * 4 * 4 * 29 * 20);
	/* All that can go together does, somewhere: XMTREQ with XMTREQ, but for two items, chunks with chunks, either with inline. */
	for (u32 out = 0; out < 5; out++)
		for (u32 in = 0; in < 5; in++) {
			const bool call_sent = out == u32(Out::sent) || out == u32(Out::group);
			const bool reply_sent = in == u32(In::sent) || in == u32(In::group);
			const bool apart = (call_sent && in > u32(In::group)) ||
					   (out > u32(Out::group) && reply_sent) ||
					   (call_sent && in == u32(In::sent));

			TEST_NOTE("call", out);
			TEST_NOTE("reply", in);
			EXPECT_EQ(seen[out][in] != 0, !apart);
		}
}

/* A long call of 21,000 bytes to a peer of 20 KiB, and of 4 KiB. */
RPCORDMA_TEST(chunk_select, long_call)
{
	World world = world_of(grown, grown);
	const Lengths lengths = {21000, 0, 128, 0, false};

	Selection chosen = selected(lengths, world);
	EXPECT_EQ(chosen.way, Way::group);
	EXPECT_EQ(chosen.call_transmissions, 2);
	EXPECT_EQ(chosen.reply_transmissions, 1);
	world = world_of(grown, {4096, {}, 4});
	/* Six would do. */
	EXPECT_EQ(selected(lengths, world).way, Way::planned);
	world.means.call_limit = 6;
	EXPECT_EQ(selected(lengths, world).call_transmissions, 6);
	world.means.call_limit = 5;
	EXPECT_EQ(selected(lengths, world).way, Way::planned);
	/* A peer that takes XMTREQ and no more. */
	for (u32 extensions = 0; extensions < all; extensions++) {
		TEST_NOTE("extensions", extensions);
		EXPECT_EQ(selected(lengths, world_of(grown, grown, extensions)).way, Way::planned);
	}
	/* What makes no whole words is no RPC message. */
	EXPECT_EQ(selected({21001, 0, 128, 0, false}, world_of(grown, grown)).way, Way::planned);
}

/* Without memory for long Sends there are more of them; and where there was none to plan with, and is some now, one will do. */
RPCORDMA_TEST(chunk_select, memory)
{
	World world = world_of(grown, grown);
	const Lengths lengths = {21000, 0, 128, 0, false}, shorter = {12000, 0, 128, 0, false};

	world.means.buffer_bytes = 8192;
	EXPECT_EQ(selected(lengths, world).call_transmissions, 3);
	EXPECT_EQ(selected(lengths, world).send_bytes, 8192);
	world.means.buffer_bytes = 5000;
	EXPECT_EQ(selected(lengths, world).way, Way::planned);
	world.means.buffer_bytes = 1 << 16;
	EXPECT_EQ(selected(lengths, world).send_bytes, 20480);
	world.send = 4096;
	EXPECT_EQ(selected(shorter, world).way, Way::planned);
	/* A long reply has it an XMTREQ all the same. */
	Selection chosen = selected({12000, 0, 65536, 0, false}, world);
	EXPECT_EQ(chosen.way, Way::group);
	EXPECT_EQ(chosen.call_transmissions, 1);
	EXPECT_EQ(chosen.reply_transmissions, 4);
}

/* A READDIR, which may come in parts, and a READ. */
RPCORDMA_TEST(chunk_select, replies)
{
	World world = world_of(grown, grown);
	const Lengths readdir = {148, 0, 65536, 0, false},
		      read = {148, 0, 16384 + 128, 16384, false};

	Selection chosen = selected(readdir, world);
	EXPECT_EQ(chosen.way, Way::group);
	EXPECT_EQ(chosen.call_transmissions, 1);
	EXPECT_EQ(chosen.reply_transmissions, 4);
	world.means.reply_limit = 3;
	EXPECT_EQ(selected(readdir, world).way, Way::planned);
	/* What fits one message comes inline, whatever the longest item in Sends is. */
	world.means.read_max = 0;
	EXPECT_EQ(selected(read, world).way, Way::planned);
	world = world_of({16384, {16384, 3, 4096}, 4}, grown);
	chosen = selected(read, world);
	EXPECT_EQ(chosen.way, Way::asked_item);
	EXPECT_EQ(chosen.reply_transmissions, 2);
	world.means.read_max = 8192;
	EXPECT_EQ(selected(read, world).way, Way::planned);
	/* Sealed, it has no item: it comes as it is. */
	EXPECT_EQ(selected({148, 0, 16384 + 128, 16384, true}, world).way, Way::group);
}

/* What a peer is told in optxrq_rsbuf, and the Receives that it stands for. */
RPCORDMA_TEST(chunk_select, receives)
{
	EXPECT_EQ(receives_to_reserve(0), 0);
	EXPECT_EQ(receives_to_reserve(1), 0);
	EXPECT_EQ(receives_to_reserve(2), 2);
	EXPECT_EQ(receives_to_reserve(4), 4);
}

/* One side's chunk makes the other's of what would be an XMTREQ; and two items do not go together. */
RPCORDMA_TEST(chunk_select, chunks_for_both)
{
	World world = world_of(grown, grown);

	/* A long call whose reply is a large READ. */
	EXPECT_EQ(selected({21000, 0, 1048576 + 128, 1048576, false}, world).way, Way::planned);
	/* A large WRITE whose reply may come in parts. */
	EXPECT_EQ(selected({1048576 + 160, 1048576, 65536, 0, false}, world).way, Way::planned);
	/* A WRITE of 64 KiB goes as four. */
	Selection chosen = selected({65536 + 160, 65536, 128, 0, false}, world);
	EXPECT_EQ(chosen.way, Way::sent_item);
	EXPECT_EQ(chosen.call_transmissions, 4);
	EXPECT_EQ(selected({65536 + 160, 65536, 65536, 0, false}, world).reply_transmissions, 4);
	/* Not with a READ that could be asked for by itself; nor does a long call with that. */
	world.means.read_max = 65536;
	const Lengths read = {148, 0, 32768 + 128, 32768, false};
	EXPECT_EQ(selected(read, world).way, Way::asked_item);
	EXPECT_EQ(selected({65536 + 160, 65536, read.reply, read.reply_item, false}, world).way,
		  Way::planned);
	EXPECT_EQ(selected({21000, 0, read.reply, read.reply_item, false}, world).way, Way::planned);
	/* Nor is more than one message asked for with a call that has several of its own, in a version that has such. */
	CallShape call;
	Plan plan;
	EXPECT_TRUE(plan_call(read, world.send, world.receive, call, plan));
	plan.transmissions = 2;
	EXPECT_EQ(select(call, plan, world.means).way, Way::planned);
}

RPCORDMA_SUITE(chunk_select, every_combination, long_call, memory, replies, receives,
	       chunks_for_both);

} // namespace rpcordma
