// SPDX-License-Identifier: GPL-2.0-only
/*
 * How a requester comes to a version (draft-cel-nfsv4-rpcrdma-version-two-03). It asks for version 2 by a CONNPROP, the
 * first message of a connection, where the server's private data have the mark or where version 2 is forced. What
 * comes back says the version. A responder has nothing to decide: Session takes the version of the first message.
 *
 * A server that does not go along costs one question and one connection at most; then it is not asked for a while.
 */
#pragma once

#include "module/protocol/receive_room.hh"
#include "module/protocol/session.hh"

namespace rpcordma::protocol {

/** What the administrator allows: module parameter version2. */
enum class Version2 : u32 {
	off = 0,
	marked = 1, /* with peers whose private data have the mark */
	any = 2,    /* with all that do not refuse it */
};

/** Whether private data with these sizes may have the mark: version 2 has no smaller messages than this (4096). */
[[nodiscard]] inline bool may_mark(u32 parameter, u32 send_size, u32 receive_size)
{
	return parameter != static_cast<u32>(Version2::off) &&
	       min(send_size, receive_size) >= V2::rules().default_threshold;
}

/** Whether version 2 is possible on a connection whose peer is @peer, if may_mark(). */
[[nodiscard]] inline bool may_speak_2(u32 parameter, const private_data::Properties &peer)
{
	return parameter == static_cast<u32>(Version2::any) || peer.mark;
}

/** The properties that may change, with what is received into: RBSIZ and RBSTRUCT. */
constexpr u32 kSizes = properties::bit(properties::Id::receive_size) |
		       properties::bit(properties::Id::structure);

/** The properties of an end that receives into @room, takes backward calls inline, and does @reduction. */
[[nodiscard]] constexpr properties::Properties properties_of(const ReceiveRoom &room,
							     const Reduction &reduction = {})
{
	properties::Properties ours;

	ours.extensions = reduction.extensions;
	ours.call_limit = reduction.call_limit;
	ours.reply_limit = reduction.reply_limit;
	ours.receive_size = room.bytes();
	ours.structure = {room.bytes(), room.pages, room.pages ? room.page_size : 0};
	ours.present = properties::all;
	return ours;
}

/**
 * Write the CONNPROP of such an end.
 *
 * @may_change  of the properties, a mask: 0 or kSizes
 *
 * Returns its length. Errors: ENOSPC.
 */
[[nodiscard]] inline Result<u32> encode_properties(MutableBytes room, Xid xid, Credits credits,
						   const ReceiveRoom &ours, u32 may_change,
						   const Reduction &reduction = {})
{
	return v2::encode_connprop(room, xid, credits, properties_of(ours, reduction),
				   properties::all & ~may_change);
}

/** Of these, what such an end says when its sizes are new. */
[[nodiscard]] constexpr properties::Properties sizes_of(const ReceiveRoom &room)
{
	properties::Properties ours = properties_of(room);

	ours.present = kSizes;
	return ours;
}

/** Write the UPDPROP of such an end. Returns its length. Errors: ENOSPC. */
[[nodiscard]] inline Result<u32> encode_sizes(MutableBytes room, Xid xid, Credits credits,
					      const ReceiveRoom &ours)
{
	return v2::encode_updprop(room, xid, credits, sizes_of(ours));
}

/** What a requester's question has come to. */
enum class Answer : u8 {
	none,	   /* not yet */
	version_2, /* a CONNPROP: with the server's properties, and its grant */
	defaults,  /* version 2 without properties: it does not know CONNPROP */
	version_1, /* on this connection */
	lost, /* a silence, a strange message or a disconnect: on another connection, in version 1 */
};

/** What came back, and what it says. */
struct Answered {
	Answer answer = Answer::lost;
	properties::Properties properties; /* Answer::version_2 */
	u32 fixed = 0; /* of them, those that the server will not change: a mask */
	Credits grant;
};

/**
 * Judge the first message that comes back to a question.
 *
 * @bytes  all of it
 * @xid    the question's
 */
[[nodiscard]] inline Answered judge_answer(Bytes bytes, Xid xid)
{
	xdr::Message message;
	Answered answered;

	if (v2::decode(bytes, message) != Error::none)
		return answered;
	if (message.kind == xdr::Kind::connprop) {
		/* A server may choose the xid. */
		if (properties::decode_connprop(message.body(), answered.properties,
						answered.fixed) != Error::none)
			return answered;
		answered.grant = message.credits;
		answered.answer = Answer::version_2;
	} else if (message.kind == xdr::Kind::error && message.xid == xid) {
		if (message.error.code == xdr::ErrorCode::procedure)
			answered.answer = Answer::defaults;
		else if (message.error.code == xdr::ErrorCode::version &&
			 message.error.low <= v1::version && v1::version <= message.error.high)
			answered.answer = Answer::version_1;
	}
	return answered;
}

/** The session of the requester that asked takes up what the question has come to. */
inline void take_up(Session &session, const Answered &answered)
{
	switch (answered.answer) {
	case Answer::version_2:
		session.speak(v2::version);
		session.take(answered.properties, answered.fixed);
		break;
	case Answer::defaults:
		session.speak(v2::version);
		break;
	case Answer::version_1:
		session.speak(v1::version);
		break;
	default:
		break;
	}
}

/** Whether a server that gave @answer is not asked again for a while (Avoidance). */
[[nodiscard]] constexpr bool did_not_go_along(Answer answer)
{
	return answer == Answer::version_1 || answer == Answer::lost;
}

/** The connections of one connect(): two at most, of which the second has no mark and asks nothing. */
class Attempt {
public:
	/** @marked  may_mark() */
	explicit constexpr Attempt(bool marked) : marked_(marked)
	{
	}
	/** Whether the next connection's private data have the mark. */
	[[nodiscard]] constexpr bool marked() const
	{
		return marked_;
	}
	/** No connection has come of it, and its question to @answer. Returns whether to make another one. */
	[[nodiscard]] constexpr bool again(Answer answer)
	{
		if (answer != Answer::lost)
			return false;
		marked_ = false;
		return true;
	}

private:
	bool marked_;
};

/** For how long a server that did not go along is not asked again. */
class Avoidance {
public:
	enum : u64 { kMs = 600000 };

	void begin(u64 now_ms)
	{
		until_ = now_ms + kMs;
	}
	[[nodiscard]] bool in_force(u64 now_ms) const
	{
		return now_ms < until_;
	}

private:
	u64 until_ = 0;
};

/**
 * For how long no round-trip reduction is used with a server whose reports, or lost connections, say that it does not work.
 * Any context, each.
 */
class Plainness {
public:
	enum : u64 { kMs = Avoidance::kMs };

	void begin(u64 now_ms)
	{
		until_.store(now_ms + kMs, std::memory_order_relaxed);
	}
	/** A connection was lost while a message of several transmissions was unanswered; the second time it is too much. */
	void connection_lost(u64 now_ms)
	{
		const u64 before = lost_.exchange(now_ms + kMs, std::memory_order_relaxed);

		if (now_ms < before)
			begin(now_ms);
	}
	[[nodiscard]] bool in_force(u64 now_ms) const
	{
		return now_ms < until_.load(std::memory_order_relaxed);
	}

private:
	std::atomic<u64> until_{0};
	std::atomic<u64> lost_{0}; /* until when the next one counts */
};

} // namespace rpcordma::protocol
