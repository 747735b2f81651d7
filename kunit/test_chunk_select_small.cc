// SPDX-License-Identifier: GPL-2.0-only
/*
 * chunk/select behind chunk/reduce in a small world, and all of it: messages of each length up to 92 words, Receives of 168 bytes
 * with one segment of 48 or two of 24, items of each length at which it matters how they lie. What is expected is found by
 * trying: a message is laid into Receives word by word, behind headers that are written out field by field; and of the pairs
 * of ways in their order the first one is taken that fits. test_chunk_select.cc has the sizes of real ends.
 */
#include "kunit/test_chunk_ways.hh"

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
/* Items, sets, transmissions, those of the reply, length of the stream. */
constexpr u32 kRequest = kOption + 5;
/* And one set, of one way to send. */
constexpr u32 kAsking = kRequest + (1 + 1 + 1) + (1 + 1);
/* Items, transmissions, length of the stream. */
constexpr u32 kAnswering = kOption + 3;
/* Number, option of the first one, length of the stream. */
constexpr u32 kContinuing = kOption + 3;
/* Displacement, length, type, offset, how many numbers; each of these is one more. */
constexpr u32 kSentItem = 5;
/* Key, length, and an address of two words. */
constexpr u32 kSegment = 1 + 1 + 2;
/* That there is one, its position, its segment; that there is one, how many segments; how many segments. */
constexpr u32 kReadChunk = 1 + 1 + kSegment, kWriteChunk = 1 + 1 + kSegment,
	      kReplyChunk = 1 + kSegment;

constexpr u32 kReceive = 168, kSegments = 48, kMostWords = 92;
/* Behind the shortest ones: what is shorter than these goes inline, or has too much beside it. */
constexpr u32 kFirstItem = 90, kMostItem = 150;
constexpr u32 kWriteMax = 140, kReadMax = 140;

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

/* How an item lies. */
struct Laid {
	u32 transmissions = 0; /* 0: header and stream do not fit the head */
	u32 segments = 0;
	u32 header = 0; /* words */
	u32 most = 0;	/* bytes of the item in the first one */
};

/* The same of a message whose item is laid into segments, byte by byte, and which has @beside bytes besides. */
Laid lay_item(u32 item, u32 beside, u32 header, const properties::Structure &room)
{
	Laid laid;

	if (!room.segments)
		return laid;
	u32 fill = room.segment_length;

	laid.header = header + kSentItem;
	for (u32 byte = 0; byte < item; byte++) {
		if (fill == room.segment_length) {
			/* A fresh segment, and its number in the header. */
			laid.segments++;
			laid.header++;
			fill = 0;
		}
		fill++;
		laid.most += laid.segments <= room.segments;
	}
	u32 head = room.total;
	for (u32 i = 0; i < room.segments; i++)
		head -= room.segment_length;
	for (u32 left = laid.segments; laid.header * kWord + beside <= head && left;
	     left -= min(left, room.segments))
		laid.transmissions++;
	return laid;
}

/* What is to be done about a call and its reply. */
struct Judge {
	const Message &call, &reply;
	bool sealed, marked;
	u32 send, receive; /* bytes of one message */
	const Means &means;

	/* Bytes beside the item. A call's pad goes with it, and a reply's may be there or not. */
	[[nodiscard]] u32 beside_call() const
	{
		return (call.words - (call.item + kWord - 1) / kWord) * kWord;
	}
	[[nodiscard]] u32 beside_reply() const
	{
		return reply.bytes() - reply.item;
	}
	/* There is something to be placed; in a call it stands behind something. */
	[[nodiscard]] bool has_call_item() const
	{
		return call.item && beside_call() && !sealed;
	}
	[[nodiscard]] bool has_reply_item() const
	{
		return reply.item && !sealed;
	}

	[[nodiscard]] bool reply_fits() const
	{
		return kPlain * kWord + reply.bytes() <= receive;
	}
	[[nodiscard]] bool write_fits() const
	{
		return !reply_fits() && has_reply_item() &&
		       (kPlain + kWriteChunk) * kWord + beside_reply() <= receive;
	}
	/* Words of a header that offers what the reply needs. */
	[[nodiscard]] u32 header() const
	{
		if (reply_fits())
			return kPlain;
		if (write_fits())
			return kPlain + kWriteChunk;
		return kPlain + kReplyChunk + (marked && has_reply_item() ? kWriteChunk : 0);
	}
	[[nodiscard]] bool call_fits() const
	{
		return header() * kWord + call.bytes() <= send;
	}
	[[nodiscard]] bool read_fits() const
	{
		return !call_fits() && has_call_item() &&
		       (header() + kReadChunk) * kWord + beside_call() <= send;
	}
	/* Two kinds of chunk for one message. */
	[[nodiscard]] bool two_for_reply() const
	{
		return marked && has_reply_item() && !reply_fits() && !write_fits();
	}
	[[nodiscard]] bool two_for_call() const
	{
		return marked && has_call_item() && !call_fits() && !read_fits() &&
		       (header() + 2 * kReadChunk) * kWord <= send;
	}

	/* Transmissions of the reply, or of the call, by an XMTREQ; 0: not that way. */
	[[nodiscard]] u32 comes(In way) const
	{
		u32 n = 0;

		if (way == In::one && reply_fits())
			n = 1;
		if (way == In::group && !reply_fits() && !write_fits() && !two_for_reply())
			n = lay_stream(reply.words, kAnswering, means.receive_bytes);
		if (way == In::sent && write_fits() && reply.item <= means.read_max) {
			n = lay_item(reply.item, beside_reply(), kAnswering, means.ours).transmissions;
			/* Or inline, behind what says so. */
			if (n)
				n = max(n, lay_stream(reply.words + kSentItem, kAnswering,
						      means.receive_bytes));
		}
		return n <= means.reply_limit ? n : 0;
	}
	[[nodiscard]] u32 goes(Out way, In in) const
	{
		const u32 n = lay_stream(call.words, kRequest, means.send_bytes);
		u32 count = 0;

		if (way == Out::one && in == In::sent && call_fits() &&
		    kAsking * kWord + call.bytes() <= means.send_bytes)
			count = 1;
		if (way == Out::one && in != In::sent && !read_fits() && !two_for_call() && n == 1)
			count = 1;
		if (way == Out::group && in != In::sent && !read_fits() && !two_for_call() && n > 1)
			count = n;
		if (way == Out::sent && in != In::sent && read_fits() &&
		    call.item <= means.write_max) {
			const Laid laid = lay_item(call.item, beside_call(), kRequest, means.theirs);

			if (laid.segments <= means.item_segments)
				count = laid.transmissions;
		}
		return count <= means.call_limit ? count : 0;
	}
	[[nodiscard]] Ways as_planned() const
	{
		Ways ways;

		ways.in = reply_fits() ? In::one : write_fits() ? In::write_chunk : In::reply_chunk;
		ways.out = call_fits() ? Out::one : read_fits() ? Out::read_chunk : Out::long_call;
		return ways;
	}
	void fill(Ways &ways) const
	{
		ways.xmtreq = true;
		if (ways.in == In::sent) {
			ways.header = kAsking * kWord;
			ways.send_bytes = ways.header + call.bytes();
			/* Inline it costs nothing as long as there is one transmission. */
			while ((kAnswering + kSentItem + 1) * kWord + beside_reply() + ways.least <=
			       means.receive_bytes / kWord * kWord)
				ways.least += kWord;
		} else if (ways.out == Out::sent) {
			const Laid laid = lay_item(call.item, beside_call(), kRequest, means.theirs);

			ways.header = laid.header * kWord;
			ways.send_bytes = means.theirs.total + laid.most;
			for (u32 i = 0; i < means.theirs.segments; i++)
				ways.send_bytes -= means.theirs.segment_length;
		} else {
			ways.header = kRequest * kWord;
			ways.send_bytes = means.send_bytes;
		}
	}
	[[nodiscard]] Ways choose() const
	{
		const bool knows = (means.extensions & takes_xmtreq) &&
				   (means.extensions & takes_xmtresp) &&
				   (means.extensions & takes_xmtcont);

		for (const In in : {In::one, In::sent, In::group})
			for (const Out out : {Out::one, Out::sent, Out::group}) {
				Ways ways;

				ways.in = in;
				ways.out = out;
				ways.comes = comes(in);
				ways.sends = goes(out, in);
				if (in == In::one && out == Out::one) {
					if (reply_fits() && call_fits())
						return as_planned();
					continue;
				}
				if (!knows || !ways.comes || !ways.sends)
					continue;
				fill(ways);
				return ways;
			}
		return as_planned();
	}
};

/*
 * Ends with as many segments in a Receive; without any, it is no whole number of words. One more is sent less inline than there
 * is room for, so that one transmission is enough for an item that does not go inline.
 */
constexpr u32 kEnds = 4;

struct End {
	u32 bytes;
	properties::Structure room;
};

End end(u32 n)
{
	End one = {kReceive, {}};

	if (n == 0)
		one.bytes += 3;
	else if (n < 3)
		one.room = {kReceive, n, kSegments / n};
	else
		one = {100, {kReceive + 2 * kSegments, 2, 72}};
	return one;
}

/* How often each way was the one. */
struct Seen {
	u32 calls[5] = {}, replies[5] = {}, of[3] = {};

	void note(const Ways &chosen)
	{
		calls[u32(chosen.out)]++;
		replies[u32(chosen.in)]++;
		of[max(chosen.sends, chosen.comes) - 1]++;
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

/* A call and its reply, planned. */
struct Planned {
	Message call, reply;
	bool sealed = false, marked = false;
	u32 send = 0, receive = 0;
	CallShape shape = {};
	Plan plan = {};

	Planned(const Message &a, const Message &b) : call(a), reply(b)
	{
	}

	/* False: it cannot be sent. */
	bool make(const End &ours, const End &peer)
	{
		send = peer.bytes;
		receive = ours.bytes;
		return plan_call({call.bytes(), call.item, reply.bytes(), reply.item, sealed, marked},
				 send, receive, shape, plan);
	}
	/* Whether what is chosen is what is to be; it tells of itself if not. */
	bool agrees(const Means &means, Seen &seen) const
	{
		const Selection got = select(shape, plan, means);
		const Ways want = Judge{call, reply, sealed, marked, send, receive, means}.choose();

		seen.note(want);
		if (same(plan, got, want))
			return true;
		TEST_NOTE("call", call.words);
		TEST_NOTE("item of the call", call.item);
		TEST_NOTE("reply", reply.words);
		TEST_NOTE("item of the reply", reply.item);
		TEST_NOTE("extensions", means.extensions);
		TEST_NOTE("limit of calls", means.call_limit);
		TEST_NOTE("limit of replies", means.reply_limit);
		TEST_NOTE("segments", means.item_segments);
		TEST_NOTE("marked", marked);
		expect_same(plan, got, want);
		return false;
	}
};

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

	means.extensions = takes_xmtreq | takes_xmtresp | takes_xmtcont;
	means.send_bytes = means.buffer_bytes = peer.bytes;
	means.receive_bytes = ours.bytes;
	means.ours = ours.room;
	means.theirs = peer.room;
	means.call_limit = means.reply_limit = 3;
	means.item_segments = 6;
	means.write_max = kWriteMax;
	means.read_max = kReadMax;
	return means;
}

/* How often it is another way than it is to be, where not all is announced. */
u32 knowing_less(const Planned &planned, Means means, Seen &seen)
{
	u32 wrong = 0;

	for (means.extensions = 0; means.extensions < 7; means.extensions++)
		wrong += !planned.agrees(means, seen);
	return wrong;
}

/* One that goes as it is, and one whose item is sent: of calls, and of replies. What else goes together is each_pair's. */
constexpr Message calls[] = {{10, 0}, {40, 125}}, replies[] = {{10, 0}, {45, 130}};

} // namespace

/* Each call, to each peer, of whatever limits. */
RPCORDMA_TEST(chunk_select_small, each_call)
{
	Seen seen;
	u32 wrong = 0;

	for (u32 n = 0; n < kEnds; n++)
		each_message([&](const Message &call) {
			Means means = means_of(end(2), end(n));
			for (const Message &reply : replies) {
				Planned planned(call, reply);

				if (!planned.make(end(2), end(n))) {
					wrong++;
					continue;
				}
				for (u32 limit = 1; limit <= 3; limit++)
					for (u32 segments = 3; segments <= 6; segments++) {
						means.call_limit = limit;
						means.item_segments = segments;
						wrong += !planned.agrees(means, seen);
					}
				wrong += knowing_less(planned, means, seen);
			}
		});
	EXPECT_EQ(wrong, 0);
	seen.expect_all(true, false);
}

/* Each reply, from each peer, of whatever limits. */
RPCORDMA_TEST(chunk_select_small, each_reply)
{
	Seen seen;
	u32 wrong = 0;

	for (u32 n = 0; n < kEnds; n++)
		each_message([&](const Message &reply) {
			Means means = means_of(end(n), end(2));
			for (const Message &call : calls) {
				Planned planned(call, reply);

				if (!planned.make(end(n), end(2))) {
					wrong++;
					continue;
				}
				for (u32 limit = 1; limit <= 3; limit++) {
					means.reply_limit = limit;
					wrong += !planned.agrees(means, seen);
				}
				wrong += knowing_less(planned, means, seen);
				planned.marked = true;
				wrong += !planned.make(end(n), end(2)) ||
					 !planned.agrees(means, seen);
			}
		});
	EXPECT_EQ(wrong, 0);
	seen.expect_all(false, true);
}

/* Each length of a call with each of its reply; items of both or either, of a payload that is protected, of a peer that is marked. */
RPCORDMA_TEST(chunk_select_small, each_pair)
{
	const Means means = means_of(end(2), end(2));
	Seen seen;
	u32 wrong = 0;

	for (u32 words = 0; words <= kMostWords; words++)
		for (const u32 item : {0u, 104u, 125u})
			for (u32 come = 0; come <= kMostWords; come++)
				for (const u32 place : {0u, 104u, 125u})
					for (const u32 of : {0u, 1u, 2u}) {
						Planned planned({words, item}, {come, place});

						if (item > planned.call.bytes() ||
						    place > planned.reply.bytes())
							continue;
						planned.sealed = of == 1;
						planned.marked = of == 2;
						wrong += !planned.make(end(2), end(2)) ||
							 !planned.agrees(means, seen);
					}
	EXPECT_EQ(wrong, 0);
	seen.expect_all(true, true);
}

RPCORDMA_SUITE(chunk_select_small, each_call, each_reply, each_pair);

} // namespace rpcordma
