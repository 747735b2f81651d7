// SPDX-License-Identifier: GPL-2.0-only
/*
 * chunk/select: which way a call and its reply go. Every combination of lengths and of what a peer tells of itself is held
 * against the rules as a list, written down once more; the ways that matter have cases by name.
 */
#include "kunit/testing.hh"
#include "module/chunk/select.hh"

namespace rpcordma {
namespace {

using namespace chunk;
using properties::takes_xmtcont;
using properties::takes_xmtreq;
using properties::takes_xmtresp;

constexpr u32 all = takes_xmtreq | takes_xmtresp | takes_xmtcont;

End grown(u32 extensions = all)
{
	return {20480, {20480, 4, 4096}, extensions, 4, 4};
}

Means generous()
{
	Means means;

	means.ours = means.peer = grown();
	means.write_max = 65536;
	means.read_max = 16384;
	means.credits = 16;
	means.receives = 16;
	return means;
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

/* Sends of a message whose item goes in DDP segments; 0: it does not. */
u32 placed(const End &end, u32 length, u32 item, u32 header)
{
	if (end.room.segments == 0)
		return 0;
	const u32 each = end.room.segment_length, segments = (item + each - 1) / each;
	const u32 stream = length - (item + 3) / 4 * 4;

	if (header + 20 + 4 * segments + stream > end.room.total - end.room.segments * each)
		return 0;
	return (segments + end.room.segments - 1) / end.room.segments;
}

struct Ways {
	CallWay call;
	ReplyWay reply;
	u32 sends, comes;
};

/* The rules, in their order. @plain: without XMTREQ. */
Ways rules(const Lengths &l, const Means &m, bool plain)
{
	const u32 told = m.peer.extensions;
	const bool one = !plain && (told & 3) == 3, several = one && (told & 4);
	const u32 call_item = l.sealed ? 0 : l.call_item, reply_item = l.sealed ? 0 : l.reply_item;
	Ways w = {CallWay::long_call, ReplyWay::reply_chunk, 1, 1};

	const u32 in = placed(m.ours, l.reply, reply_item, 40),
		  come = counted(l.reply, 40, m.ours.receive_bytes);
	const auto reserved = [&](u32 n) { return n == 1 || n <= m.receives; };
	if (36 + l.reply <= m.ours.receive_bytes && reply_item <= m.read_max) {
		w.reply = ReplyWay::one;
	} else if (reply_item && reply_item <= m.read_max && in && in <= m.peer.reply_limit &&
		   (in == 1 ? one : several) && reserved(in)) {
		w.reply = ReplyWay::sent;
		w.comes = in;
	} else if (reply_item) {
		w.reply = ReplyWay::write_chunk;
	} else if (come <= m.peer.reply_limit && (come == 1 ? one : several) && reserved(come)) {
		w.reply = ReplyWay::group;
		w.comes = come;
	}
	const u32 out = placed(m.peer, l.call, call_item, 68),
		  most = min(m.peer.call_limit, m.credits);
	const u32 header = w.reply == ReplyWay::sent || w.reply == ReplyWay::group ? 68 : 36;
	const u32 send = counted(l.call, 68, m.peer.receive_bytes);
	if (header + l.call <= m.peer.receive_bytes) {
		w.call = CallWay::one;
	} else if (call_item && call_item <= m.write_max && out && out <= most &&
		   (out == 1 ? one : several)) {
		w.call = CallWay::sent;
		w.sends = out;
	} else if (call_item) {
		w.call = CallWay::read_chunk;
	} else if (send <= most && (send == 1 ? one : several)) {
		w.call = CallWay::group;
		w.sends = send;
	}
	return w;
}

} // namespace

RPCORDMA_TEST(chunk_select, every_combination)
{
	const u32 calls[][2] = {{148, 0},
				{4000, 0},
				{4060, 0},
				{20000, 0},
				{20440, 0},
				{20480, 0},
				{60000, 0},
				{90000, 0},
				{4096 + 160, 4096},
				{16384 + 160, 16384},
				{32768 + 160, 32768},
				{65536 + 160, 65536},
				{65540 + 160, 65540},
				{1048576 + 160, 1048576},
				{65536 + 5000, 65536},
				/* Stream and header fill the head, and one word more. */
				{20004 + 3988, 20001},
				{20004 + 3992, 20001}};
	const u32 replies[][2] = {{128, 0},
				  {4050, 0},
				  {4060, 0},
				  {20440, 0},
				  {20480, 0},
				  {65536, 0},
				  {82000, 0},
				  {4096 + 128, 4096},
				  {16384 + 128, 16384},
				  {16388 + 128, 16388},
				  {1048576 + 128, 1048576},
				  {16384 + 5000, 16384}};
	const End narrow = {8192, {8192, 1, 4096}, all, 4, 4}, silent,
		  small = {4096, {4096, 0, 0}, all, 4, 4},
		  one = {20480, {20480, 4, 4096}, all, 1, 1};
	u32 seen[5][5] = {}, cases = 0;

	for (u32 extensions = 0; extensions < 8; extensions++)
		for (const End &peer : {grown(extensions), small, one, silent})
			for (const End &ours : {grown(), small, narrow})
				for (u32 spent = 0; spent < 16; spent++)
					for (const auto &call : calls)
						for (const auto &reply : replies) {
							Means means;
							const Lengths lengths = {call[0], call[1],
										 reply[0], reply[1],
										 (spent & 4) != 0};

							means.ours = ours;
							means.peer = peer;
							means.write_max = spent & 8 ? 32768 : 65536;
							means.read_max = 16384;
							means.credits = spent & 1 ? 1 : 4;
							means.receives = spent & 2 ? 1 : 16;
							const Selection got = select(lengths, means);
							Ways want = rules(lengths, means, false);
							const bool mixed =
								(want.call == CallWay::sent ||
								 want.call == CallWay::group ||
								 want.reply == ReplyWay::sent ||
								 want.reply == ReplyWay::group) &&
								(want.call == CallWay::read_chunk ||
								 want.call == CallWay::long_call ||
								 want.reply == ReplyWay::write_chunk ||
								 want.reply == ReplyWay::reply_chunk);

							TEST_NOTE("call", call[0]);
							TEST_NOTE("reply", reply[0]);
							TEST_NOTE("extensions", extensions);
							TEST_NOTE("spent", spent);
							if (mixed)
								want = rules(lengths, means, true);
							EXPECT_EQ(got.call, want.call);
							EXPECT_EQ(got.reply, want.reply);
							EXPECT_EQ(got.call_transmissions,
								  want.sends);
							EXPECT_EQ(got.reply_transmissions,
								  want.comes);
							EXPECT_FALSE(got.xmtreq() && got.chunks());
							seen[u32(got.call)][u32(got.reply)]++;
							cases++;
						}
	EXPECT_EQ(cases, 8 * 4 * 3 * 16 * 17 * 12);
	/* All that can go together does, somewhere: XMTREQ with XMTREQ, chunks with chunks, either with inline. */
	for (u32 call = 0; call < 5; call++)
		for (u32 reply = 0; reply < 5; reply++) {
			const bool apart = (call == 1 || call == 3) && (reply == 2 || reply == 4);
			const bool other = (call == 2 || call == 4) && (reply == 1 || reply == 3);

			TEST_NOTE("call", call);
			TEST_NOTE("reply", reply);
			EXPECT_EQ(seen[call][reply] != 0, !apart && !other);
		}
}

/* A long call of 20,000 bytes to a peer of 4 KiB, and of 20 KiB. */
RPCORDMA_TEST(chunk_select, long_call)
{
	Means means = generous();
	const Lengths lengths = {21000, 0, 128, 0, false};

	Selection chosen = select(lengths, means);
	EXPECT_EQ(chosen.call, CallWay::group);
	EXPECT_EQ(chosen.call_transmissions, 2);
	EXPECT_EQ(chosen.reply, ReplyWay::one);
	means.peer.receive_bytes = 4096;
	/* Six would do. */
	EXPECT_EQ(select(lengths, means).call, CallWay::long_call);
	means.peer.call_limit = 6;
	EXPECT_EQ(select(lengths, means).call_transmissions, 6);
	means.credits = 5;
	EXPECT_EQ(select(lengths, means).call, CallWay::long_call);
	/* A peer that takes XMTREQ and no more. */
	means = generous();
	means.peer.extensions = takes_xmtreq | takes_xmtresp;
	EXPECT_EQ(select(lengths, means).call, CallWay::long_call);
	means.peer.extensions = takes_xmtreq | takes_xmtcont;
	EXPECT_EQ(select(lengths, means).call, CallWay::long_call);
}

/* A READDIR, which may come in parts, and a READ. */
RPCORDMA_TEST(chunk_select, replies)
{
	Means means = generous();

	Selection chosen = select({148, 0, 65536, 0, false}, means);
	EXPECT_EQ(chosen.call, CallWay::one);
	EXPECT_EQ(chosen.reply, ReplyWay::group);
	EXPECT_EQ(chosen.reply_transmissions, 4);
	EXPECT_TRUE(chosen.xmtreq());
	means.receives = 3;
	EXPECT_EQ(select({148, 0, 65536, 0, false}, means).reply, ReplyWay::reply_chunk);
	means = generous();
	EXPECT_EQ(select({148, 0, 16384 + 128, 16384, false}, means).reply, ReplyWay::one);
	means.ours.receive_bytes = 16384;
	EXPECT_EQ(select({148, 0, 16384 + 128, 16384, false}, means).reply, ReplyWay::sent);
	means.read_max = 8192;
	EXPECT_EQ(select({148, 0, 16384 + 128, 16384, false}, means).reply, ReplyWay::write_chunk);
	/* Sealed, it has no item: it comes as it is. */
	EXPECT_EQ(select({148, 0, 16384 + 128, 16384, true}, means).reply, ReplyWay::group);
}

/* One side's chunk makes the other's of what would be an XMTREQ. */
RPCORDMA_TEST(chunk_select, chunks_for_both)
{
	Means means = generous();

	/* A long call whose reply is a large READ. */
	Selection chosen = select({21000, 0, 1048576 + 128, 1048576, false}, means);
	EXPECT_EQ(chosen.call, CallWay::long_call);
	EXPECT_EQ(chosen.reply, ReplyWay::write_chunk);
	/* A large WRITE whose reply may come in parts. */
	chosen = select({1048576 + 160, 1048576, 65536, 0, false}, means);
	EXPECT_EQ(chosen.call, CallWay::read_chunk);
	EXPECT_EQ(chosen.reply, ReplyWay::reply_chunk);
	/* A WRITE of 64 KiB goes as four. */
	chosen = select({65536 + 160, 65536, 128, 0, false}, means);
	EXPECT_EQ(chosen.call, CallWay::sent);
	EXPECT_EQ(chosen.call_transmissions, 4);
}

RPCORDMA_SUITE(chunk_select, every_combination, long_call, replies, chunks_for_both);

} // namespace rpcordma
