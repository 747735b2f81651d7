// SPDX-License-Identifier: GPL-2.0-only
/*
 * chunk/select in a small world, and all of it: messages of each length up to 92 words, Receives of 168 bytes with one
 * segment of 48 or two of 24, items of each length at which it matters how they lie. What is expected is found by trying:
 * a message is laid into Receives word by word, behind headers that are written out field by field; and of the ways in
 * their order the first one is taken that fits. test_chunk_select.cc has the sizes of real ends.
 */
#include "kunit/testing.hh"
#include "module/chunk/select.hh"

namespace rpcordma {
namespace {

using namespace chunk;
using properties::takes_xmtcont;
using properties::takes_xmtreq;
using properties::takes_xmtresp;

constexpr u32 kWord = 4;
/* In words: xid, version, credits, procedure, direction, handle and three empty lists. */
constexpr u32 kPlain = 4 + 1 + 1 + 3;
/* xid, version, credits, procedure, direction, option and length of what follows. */
constexpr u32 kOption = 4 + 1 + 1 + 1;
/* Items, sets, transmissions, those of the reply, length of the stream; and one set, of one way to send. */
constexpr u32 kAsking = kOption + 5 + (1 + 1 + 1) + (1 + 1);
/* Items, transmissions, length of the stream. */
constexpr u32 kAnswering = kOption + 3;
/* Number, option of the first one, length of the stream. */
constexpr u32 kContinuing = kOption + 3;
/* Displacement, length, type, offset, how many numbers; each of these is one more. */
constexpr u32 kSentItem = 5;

constexpr u32 kReceive = 168, kSegments = 48, kMostWords = 92;
/* Behind the shortest ones: what is shorter than these goes inline, or has too much beside it. */
constexpr u32 kFirstItem = 90, kMostItem = 150;
constexpr u32 kWriteMax = 140, kReadMax = 110;

/* Its words are all that there are, pads too. */
struct Message {
	u32 words, item;

	[[nodiscard]] u32 bytes() const
	{
		return words * kWord;
	}
};

/* Transmissions of a stream of @words, each put into the first Receive of @bytes that has room for it. */
u32 lay_stream(u32 words, u32 header, u32 bytes)
{
	u32 count = 1, used = header * kWord;

	for (; words; words--) {
		if (used + kWord > bytes) {
			count++;
			used = kContinuing * kWord;
		}
		used += kWord;
	}
	return count;
}

/* The same of @message whose item is laid into segments, byte by byte. 0: header and stream do not fit the head. */
u32 lay_item(const Message &message, u32 header, const properties::Structure &room)
{
	if (!room.segments)
		return 0;
	u32 used = header + kSentItem, stream = message.words, segment = 0, fill = 0;

	for (u32 byte = 0; byte < message.item; byte++) {
		/* A word of the message is the item's, from its first byte on. */
		stream -= byte % kWord == 0;
		if (byte == 0 || fill == room.segment_length) {
			/* A fresh segment, and its number in the header. */
			segment += byte != 0;
			fill = 0;
			used++;
		}
		fill++;
	}
	u32 head = room.total;
	for (u32 i = 0; i < room.segments; i++)
		head -= room.segment_length;
	return (used + stream) * kWord <= head ? segment / room.segments + 1 : 0;
}

/* What each way takes of a message. */
struct Laid {
	u32 sent = 0;	     /* transmissions, with the item in segments; 0: not so */
	u32 group = 0;	     /* inline */
	bool plain = false;  /* one, behind the header of an RDMA_MSG */
	bool asking = false; /* the same of an XMTREQ */
};

Laid lay(const Message &message, u32 header, const End &end)
{
	Laid laid;

	laid.sent = message.item ? lay_item(message, header, end.room) : 0;
	laid.group = lay_stream(message.words, header, end.receive_bytes);
	laid.plain = (kPlain + message.words) * kWord <= end.receive_bytes;
	laid.asking = (kAsking + message.words) * kWord <= end.receive_bytes;
	return laid;
}

/* What is chosen for a call and its reply, of which it is known how they lie. */
struct Judge {
	const Means &means;
	const Lengths &lengths;
	const Laid &call, &reply;

	[[nodiscard]] bool knows(u32 transmissions) const
	{
		const u32 told = means.peer.extensions;

		return (told & takes_xmtreq) && (told & takes_xmtresp) &&
		       (transmissions < 2 || (told & takes_xmtcont));
	}
	[[nodiscard]] bool reply_fits(ReplyWay way, bool reduced) const
	{
		const bool item = lengths.reply_item && !lengths.sealed;
		const bool small = !item || lengths.reply_item <= means.read_max;
		const auto comes = [&](u32 n) {
			const u32 reserved = n > 1 ? n : 0;

			return reduced && n && knows(n) && n <= means.peer.reply_limit &&
			       reserved <= means.receives;
		};

		switch (way) {
		case ReplyWay::one:
			return reply.plain && small;
		case ReplyWay::sent:
			return item && small && comes(reply.sent);
		case ReplyWay::write_chunk:
			return item;
		case ReplyWay::group:
			return comes(reply.group);
		case ReplyWay::reply_chunk:
			break;
		}
		return true;
	}
	[[nodiscard]] bool call_fits(CallWay way, bool reduced, bool asks) const
	{
		const bool item = lengths.call_item && !lengths.sealed;
		const auto goes = [&](u32 n) {
			return reduced && n && knows(n) && n <= means.peer.call_limit &&
			       n <= means.credits;
		};

		switch (way) {
		case CallWay::one:
			return asks ? call.asking : call.plain;
		case CallWay::sent:
			return item && lengths.call_item <= means.write_max && goes(call.sent);
		case CallWay::read_chunk:
			return item;
		case CallWay::group:
			return goes(call.group);
		case CallWay::long_call:
			break;
		}
		return true;
	}
	[[nodiscard]] Selection choose(bool reduced) const
	{
		Selection chosen;

		for (const ReplyWay way : {ReplyWay::reply_chunk, ReplyWay::group,
					   ReplyWay::write_chunk, ReplyWay::sent, ReplyWay::one})
			if (reply_fits(way, reduced))
				chosen.reply = way;
		const bool asks = chosen.reply == ReplyWay::sent || chosen.reply == ReplyWay::group;
		for (const CallWay way : {CallWay::long_call, CallWay::group, CallWay::read_chunk,
					  CallWay::sent, CallWay::one})
			if (call_fits(way, reduced, asks))
				chosen.call = way;
		chosen.call_transmissions = chosen.call == CallWay::sent  ? call.sent :
					    chosen.call == CallWay::group ? call.group :
									    1;
		chosen.reply_transmissions = chosen.reply == ReplyWay::sent  ? reply.sent :
					     chosen.reply == ReplyWay::group ? reply.group :
									       1;
		return chosen;
	}
	[[nodiscard]] Selection choose() const
	{
		const Selection chosen = choose(true);

		for (const auto way : {CallWay::sent, CallWay::group})
			for (const auto other : {ReplyWay::write_chunk, ReplyWay::reply_chunk})
				if (chosen.call == way && chosen.reply == other)
					return choose(false);
		for (const auto way : {ReplyWay::sent, ReplyWay::group})
			for (const auto other : {CallWay::read_chunk, CallWay::long_call})
				if (chosen.reply == way && chosen.call == other)
					return choose(false);
		return chosen;
	}
};

/*
 * Ends with as many segments in a Receive; without any, it is no whole number of words. One more is sent less inline than there
 * is room for, so that one transmission is enough for an item that does not go inline.
 */
constexpr u32 kEnds = 4;

End end(u32 n)
{
	End one;

	one.receive_bytes = kReceive;
	if (n == 0)
		one.receive_bytes += 3;
	else if (n < 3)
		one.room = {kReceive, n, kSegments / n};
	else
		one = {100, {kReceive + 2 * kSegments, 2, 72}};
	one.extensions = takes_xmtreq | takes_xmtresp | takes_xmtcont;
	one.call_limit = one.reply_limit = 3;
	return one;
}

/* How often each way was the one. */
struct Seen {
	u32 calls[5] = {}, replies[5] = {}, of[3] = {};

	void note(const Selection &chosen)
	{
		calls[u32(chosen.call)]++;
		replies[u32(chosen.reply)]++;
		of[max(chosen.call_transmissions, chosen.reply_transmissions) - 1]++;
	}
	void expect_all(bool of_calls, bool of_replies) const
	{
		for (u32 way = 0; way < 5; way++) {
			TEST_NOTE("way", way);
			EXPECT_TRUE(calls[way] || !of_calls);
			EXPECT_TRUE(replies[way] || !of_replies);
		}
		for (const u32 n : of)
			EXPECT_NE(n, 0);
	}
};

/* Whether what is chosen for them is what is to be; it tells of itself if not. */
bool agree(const Message &call, const Laid &out, const Message &reply, const Laid &in,
	   const Means &means, bool sealed, Seen &seen)
{
	const Lengths lengths = {call.bytes(), call.item, reply.bytes(), reply.item, sealed};
	const Selection got = select(lengths, means);
	const Selection want = Judge{means, lengths, out, in}.choose();

	seen.note(want);
	if (got.call == want.call && got.reply == want.reply &&
	    got.call_transmissions == want.call_transmissions &&
	    got.reply_transmissions == want.reply_transmissions)
		return true;
	TEST_NOTE("call", call.words);
	TEST_NOTE("item of the call", call.item);
	TEST_NOTE("reply", reply.words);
	TEST_NOTE("item of the reply", reply.item);
	TEST_NOTE("extensions", means.peer.extensions);
	TEST_NOTE("limit of calls", means.peer.call_limit);
	TEST_NOTE("limit of replies", means.peer.reply_limit);
	TEST_NOTE("credits", means.credits);
	TEST_NOTE("Receives", means.receives);
	EXPECT_EQ(got.call, want.call);
	EXPECT_EQ(got.reply, want.reply);
	EXPECT_EQ(got.call_transmissions, want.call_transmissions);
	EXPECT_EQ(got.reply_transmissions, want.reply_transmissions);
	return false;
}

/* Each message, with each item that it may have: visit(message). */
template <typename Visit> void each_message(Visit visit)
{
	for (u32 words = 0; words <= kMostWords; words++)
		for (u32 item = 0; item <= min(kMostItem, words * kWord);
		     item += item == 1 ? kFirstItem - 1 : 1)
			visit(Message{words, item});
}

Means means_of(const End &ours, const End &peer)
{
	Means means;

	means.ours = ours;
	means.peer = peer;
	means.write_max = kWriteMax;
	means.read_max = kReadMax;
	means.credits = means.receives = 3;
	return means;
}

/* One that goes as it is, and one whose item is sent: of calls, and of replies. What else goes together is each_pair's. */
constexpr Message calls[] = {{10, 0}, {34, 125}}, replies[] = {{10, 0}, {35, 104}};

} // namespace

/* Each call, to each peer, with whatever credits there are. */
RPCORDMA_TEST(chunk_select_small, each_call)
{
	Seen seen;
	u32 wrong = 0;

	for (u32 n = 0; n < kEnds; n++)
		each_message([&](const Message &call) {
			Means means = means_of(end(2), end(n));
			const Laid out = lay(call, kAsking, means.peer);
			for (const Message &reply : replies) {
				const Laid in = lay(reply, kAnswering, means.ours);

				for (u32 told = 0; told < 8; told++)
					for (u32 limit = 1; limit <= 3; limit++)
						for (u32 credits = 1; credits <= 3; credits++) {
							means.peer.extensions = told;
							means.peer.call_limit = limit;
							means.credits = credits;
							wrong += !agree(call, out, reply, in, means,
									false, seen);
						}
			}
		});
	EXPECT_EQ(wrong, 0);
	seen.expect_all(true, false);
}

/* Each reply, from each peer, with whatever Receives there are. */
RPCORDMA_TEST(chunk_select_small, each_reply)
{
	Seen seen;
	u32 wrong = 0;

	for (u32 n = 0; n < kEnds; n++)
		each_message([&](const Message &reply) {
			Means means = means_of(end(n), end(2));
			const Laid in = lay(reply, kAnswering, means.ours);
			for (const Message &call : calls) {
				const Laid out = lay(call, kAsking, means.peer);

				for (u32 told = 0; told < 8; told++)
					for (u32 limit = 1; limit <= 3; limit++)
						for (u32 receives = 0; receives <= 3; receives++) {
							means.peer.extensions = told;
							means.peer.reply_limit = limit;
							means.receives = receives;
							wrong += !agree(call, out, reply, in, means,
									false, seen);
						}
			}
		});
	EXPECT_EQ(wrong, 0);
	seen.expect_all(false, true);
}

/* Each length of a call with each of its reply; items of both or either, of a payload that is protected too. */
RPCORDMA_TEST(chunk_select_small, each_pair)
{
	const Means means = means_of(end(2), end(2));
	Seen seen;
	u32 wrong = 0;

	for (u32 words = 0; words <= kMostWords; words++)
		for (const u32 item : {0u, 104u, 125u})
			for (u32 come = 0; come <= kMostWords; come++)
				for (const u32 place : {0u, 104u, 125u}) {
					const Message call = {words, item}, reply = {come, place};

					if (item > call.bytes() || place > reply.bytes())
						continue;
					const Laid out = lay(call, kAsking, means.peer);
					const Laid in = lay(reply, kAnswering, means.ours);
					for (const bool sealed : {false, true})
						wrong += !agree(call, out, reply, in, means, sealed,
								seen);
				}
	EXPECT_EQ(wrong, 0);
	seen.expect_all(true, true);
}

RPCORDMA_SUITE(chunk_select_small, each_call, each_reply, each_pair);

} // namespace rpcordma
