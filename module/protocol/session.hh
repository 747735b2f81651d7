// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the two ends of a connection have agreed on: the version, the inline thresholds, what the peer said of
 * itself. A pure machine: a message goes in, and out comes what is to be done with it. Who owns the
 * connection does it.
 *
 * A session is of version 1 from the start, unless both ends may speak another one. Then the version is open: a
 * responder takes that of the first message that is of one it speaks; a requester asks for version 2 with its
 * first message (negotiation.hh), and says which it is when the answer is there.
 */
#pragma once

#include "module/chunk/reduce.hh"
#include "module/protocol/codec.hh"
#include "module/protocol/receive_room.hh"
#include "module/protocol/reduction.hh"
#include "xdr/private_data.hh"

namespace rpcordma::protocol {

class Session {
public:
	/** What is to be done with a message. */
	enum class Action : u8 {
		deliver, /* act on it: it carries an RPC message, or says why one cannot be carried */
		control, /* it is about the connection: its properties, or an extension; or what collect() says */
		negotiate, /* a requester's question may be answered by it: it is not decoded */
		drop,	   /* nothing in it is to be believed, or it must not be answered */
		refuse,	   /* answer it with an error: Verdict::refusal */
	};
	struct Verdict {
		Action action = Action::deliver;
		xdr::ErrorCode refusal = xdr::ErrorCode::chunk;
		/* Why it is not delivered, for a trace. */
		Error why = Error::none;
	};

	/**
	 * What both sides said of themselves when they connected (RFC 8797). A peer that said nothing has the
	 * version's default threshold, and its device invalidates nothing for us (5.1).
	 */
	void begin(const private_data::Properties &ours,
		   const Result<private_data::Properties> &peer)
	{
		ours_ = ours;
		takes_ = ours.receive_size;
		sends_ = ours.send_size;
		said_ = peer.ok();
		if (said_)
			peer_ = peer.value();
		set_thresholds_();
	}

	/**
	 * Bytes that this end takes, and that it can send, at once in a version with properties: these may be more than the
	 * private data can say. Behind begin().
	 */
	void have_room(u32 takes, u32 sends)
	{
		takes_ = takes;
		sends_ = sends;
		set_thresholds_();
	}

	/**
	 * What this end does of round-trip reduction, in a version with properties. Behind begin(), before anything comes.
	 *
	 * @receives  that it has besides for that: Rules::extra_receives counts them
	 */
	void reduce_by(const Reduction &ours, u32 receives = 0)
	{
		reduction_ = ours;
		reserved_ = receives;
	}
	[[nodiscard]] const Reduction &reduction() const
	{
		return reduction_;
	}
	/** This end does something of it, in this version: then RDMA2_OPTIONALs are not simply refused. */
	[[nodiscard]] bool reduces() const
	{
		return reduction_.extensions && rules_.properties;
	}
	/** What the peer does of it; nothing in a version without. Any context. */
	[[nodiscard]] Reduction peer_reduction() const
	{
		return peer_reduction_.now();
	}
	/**
	 * A message of several transmissions has begun, and is not whole: from now on whatever comes is Action::control, as it may
	 * break that off; or no more. Receive completions.
	 */
	void collect(bool begun)
	{
		collecting_ = begun;
	}

	/** At a responder: the first message says the version. Behind begin(). */
	void open()
	{
		standing_ = Standing::open;
		rules_.extra_receives = Spoken::most(&Rules::extra_receives);
	}
	/** At a requester, which asks: speak() ends that. Behind begin(). */
	void ask()
	{
		open();
		standing_ = Standing::asking;
		begins_ = true;
	}
	/** Speak @version, which is one of Spoken, from here on. */
	void speak(u32 version)
	{
		version_ = version;
		rules_ = rules_of(version);
		if (rules_.properties)
			rules_.extra_receives += reserved_;
		standing_ = Standing::settled;
		set_thresholds_();
	}
	/**
	 * All of the peer's properties, of a version that has them, in place of what it said before. They hold for messages that
	 * are planned from now on, as others may be sending. @fixed: of these, those that will not change, a mask.
	 *
	 * The inline threshold from the peer is another one too if this is the first that comes over the connection.
	 */
	void take(const properties::Properties &properties, u32 fixed)
	{
		properties_ = properties;
		fixed_ = fixed;
		if (begins_) {
			begins_ = false;
			told_ = true;
			set_thresholds_();
		} else {
			set_peer_room_();
		}
	}
	/** Some of these are others now, but none of the fixed ones. As take(). */
	void update(const properties::Properties &some)
	{
		properties_.apply(some, fixed_);
		set_peer_room_();
	}

	/** At a responder: the first message is done with, and others may be sending from now on. */
	void end_beginning()
	{
		begins_ = false;
	}
	/** What the peer says of itself, in a version with properties. Receive completions, or nobody sends yet. */
	[[nodiscard]] const properties::Properties &properties() const
	{
		return properties_;
	}

	[[nodiscard]] u32 version() const
	{
		return version_;
	}
	/** It is known which one that is. */
	[[nodiscard]] bool settled() const
	{
		return standing_ == Standing::settled;
	}
	/** What holds in this version; while it is open, in version 1, but with Receives for each. */
	[[nodiscard]] const Rules &rules() const
	{
		return rules_;
	}
	/** Inline thresholds, and what headers cost in this version. The one to the peer may change: see PeerRoom. */
	[[nodiscard]] chunk::Thresholds thresholds() const
	{
		/* Each by itself: a copy of all of them is one in memory, of which most callers want two. */
		return {peer_room_.now().bytes, thresholds_.receive, thresholds_.bare_header,
			thresholds_.continuation_header, thresholds_.transmissions};
	}
	/** Where the peer takes items of a message that are placed directly; it may change, as the threshold. Any context. */
	[[nodiscard]] properties::Structure peer_structure() const
	{
		return peer_room_.now().structure;
	}
	/** What the peer said of itself; by default, what a peer is that says nothing. */
	[[nodiscard]] const private_data::Properties &peer() const
	{
		return peer_;
	}

	/**
	 * A message has come: decode it into @message, and say what is to be done with it. A requester does not refuse
	 * where the version does not tell a call from a reply (Rules::tells_direction): there it drops.
	 *
	 * @bytes    all of it
	 * @message  points into @bytes; means nothing unless it is to be delivered, or Action::control
	 */
	[[nodiscard, gnu::always_inline]] Verdict receive(Bytes bytes, xdr::Message &message)
	{
		/* Most messages, where they come: there is nothing to be said of them. */
		if (standing_ == Standing::settled &&
		    Spoken::with(
			    version_, [&](auto codec) __attribute__((always_inline)) {
				    if constexpr (decltype(codec)::rules().properties)
					    if (__builtin_expect(collecting_, 0))
						    return false;
				    return codec.decode_plain(bytes, message);
			    }))
			return {};
		return receive_any_(bytes, message);
	}

	/** What an error message with @code says besides, where that is the session's to say. */
	[[nodiscard]] xdr::ErrorBody refusal(xdr::ErrorCode code) const
	{
		xdr::ErrorBody error;

		error.code = code;
		if (code == xdr::ErrorCode::version) {
			error.low = settled() ? version_ : Spoken::lowest();
			error.high = settled() ? version_ : Spoken::highest();
		}
		return error;
	}
	/**
	 * Write the message that refuses a request into @room (RFC 8166 4.5).
	 *
	 * @request  the first words of what is refused, of any version
	 * @error    of refusal()
	 *
	 * Returns its length. Errors: ENOSPC.
	 */
	[[nodiscard]] Result<u32> encode_refusal(MutableBytes room, const xdr::FixedHeader &request,
						 Credits credits, const xdr::ErrorBody &error) const
	{
		return Spoken::with(version_, [&](auto codec) {
			return codec.encode_error(room, request, credits, error);
		});
	}

	/** Write the header of a message without chunks, of its first transmission. Errors: ENOSPC. */
	[[nodiscard]] Result<u32> encode_bare(MutableBytes room, const xdr::Envelope &envelope) const
	{
		return Spoken::with(version_,
				    [&](auto codec) { return codec.encode_bare(room, envelope); });
	}

	/**
	 * Write the header of a message whose only chunk is @chunk, with inline bytes behind it. Errors: ENOSPC; EINVAL, a
	 * Position that such a message cannot have.
	 */
	[[nodiscard, gnu::always_inline]] Result<u32> encode_lone(MutableBytes room,
								  const xdr::Envelope &envelope,
								  const xdr::LoneChunk &chunk) const
	{
		return Spoken::with(version_, [&](auto codec) {
			return codec.encode_lone(room, envelope, chunk);
		});
	}

	/** Write the header of a message's transmission @index, from 1 on. Errors: ENOSPC. */
	[[nodiscard]] Result<u32> encode_continuation(MutableBytes room,
						      const xdr::Envelope &envelope, u32 index) const
	{
		return Spoken::with(version_, [&](auto codec) {
			return codec.encode_continuation(room, envelope, index);
		});
	}

	/**
	 * Write a header with chunks, of a message's first transmission: @fill(encoder) puts them there, with the
	 * calls of xdr::ListEncoder. Returns its length. Errors: ENOSPC; EINVAL, @fill broke the encoder's rules.
	 */
	template <typename Fill>
	[[nodiscard]] Result<u32> encode(MutableBytes room, const xdr::Envelope &envelope,
					 Fill &&fill) const
	{
		return Spoken::with(version_, [&](auto codec) {
			typename decltype(codec)::Encoder encoder(room, envelope);

			fill(encoder);
			return encoder.finish();
		});
	}

private:
	enum class Standing : u8 { settled, open, asking };

	/* As receive(), whatever the message is. */
	[[nodiscard, gnu::noinline]] Verdict receive_any_(Bytes bytes, xdr::Message &message)
	{
		if (__builtin_expect(standing_ != Standing::settled, 0)) {
			if (standing_ == Standing::asking)
				return {Action::negotiate, {}, {}};
			settle_(bytes);
		}
		return Spoken::with(version_, [&](auto codec) -> Verdict {
			const Error error = codec.decode(bytes, message);

			if (error != Error::none)
				return judge_(error, codec.refusal(error));
			if constexpr (decltype(codec)::rules().properties)
				if (__builtin_expect(message.kind > xdr::Kind::error || collecting_,
						     0))
					return {Action::control, {}, {}};
			if (message.direction == xdr::Direction::unknown)
				return {Action::refuse, xdr::ErrorCode::chunk, Error::protocol};
			return {};
		});
	}

	/* The first message of a version that is spoken decides. */
	void settle_(Bytes bytes)
	{
		const auto fixed = xdr::peek(bytes);

		if (!fixed || !Spoken::speak(fixed.value().vers))
			return;
		speak(fixed.value().vers);
		begins_ = fixed.value().proc == static_cast<u32>(xdr::Kind::connprop);
	}

	[[nodiscard]] static Verdict judge_(Error error, xdr::ErrorCode refusal)
	{
		if (error == Error::message_size || error == Error::bad_message)
			return {Action::drop, {}, error};
		return {Action::refuse, refusal, error};
	}

	void set_thresholds_()
	{
		if (!said_)
			peer_ = {rules_.default_threshold, rules_.default_threshold, false, false};
		/* A peer sends as much as it is told that we take, or what every peer takes. */
		if (rules_.properties)
			thresholds_.receive = told_ ? takes_ : min(takes_, rules_.default_threshold);
		else
			thresholds_.receive =
				private_data::inline_threshold(peer_.send_size, ours_.receive_size);
		set_peer_room_();
		thresholds_.bare_header = rules_.bare_header;
		thresholds_.continuation_header = rules_.continuation_header;
		thresholds_.transmissions = rules_.transmissions;
	}

	void set_peer_room_()
	{
		peer_reduction_.set(rules_.properties ? properties_ : properties::Properties{});
		if (rules_.properties)
			peer_room_.set(
				{private_data::inline_threshold(sends_, properties_.receive_bytes()),
				 properties_.ddp_segments() ? properties_.structure :
							      properties::Structure{}});
		else
			peer_room_.set(
				{private_data::inline_threshold(ours_.send_size, peer_.receive_size),
				 {}});
	}

	u32 version_ = Spoken::preferred();
	Standing standing_ = kBornOpen ? Standing::open : Standing::settled;
	bool said_ = false;   /* the peer, what it is, in its private data */
	bool told_ = false;   /* each of the other's properties */
	bool begins_ = false; /* nobody sends yet: properties that come now set both thresholds */
	/* Of the peer, in a version with properties; and those that will not change. */
	properties::Properties properties_;
	u32 fixed_ = 0;
	/* Of this end, in such a version. */
	u32 takes_ = properties::default_receive_size;
	u32 sends_ = properties::default_receive_size;
	Rules rules_ = rules_of(Spoken::preferred());
	chunk::Thresholds thresholds_; /* but for the one to the peer */
	PeerRoom peer_room_;
	Reduction reduction_;
	u32 reserved_ = 0; /* Receives, see reduce_by() */
	PeerReduction peer_reduction_;
	bool collecting_ = false; /* see collect() */
	private_data::Properties ours_;
	private_data::Properties peer_;
};

} // namespace rpcordma::protocol
