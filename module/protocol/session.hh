// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the two ends of a connection have agreed on: the version, the inline thresholds, what the peer said of
 * itself. A pure machine: a message goes in, and out comes what is to be done with it. Who owns the
 * connection does it.
 *
 * Where one version is spoken nothing is left to agree on, and a session is ready from the start. Where there are
 * several, a requester begins with the preferred one, and each end takes the version of the first message that is
 * of one of them.
 */
#pragma once

#include "module/chunk/reduce.hh"
#include "module/protocol/codec.hh"
#include "xdr/private_data.hh"

namespace rpcordma::protocol {

class Session {
public:
	/** What is to be done with a message. */
	enum class Action : u8 {
		deliver,	/* act on it */
		drop,		/* nothing in it is to be believed, or it must not be answered */
		refuse_version, /* a responder answers with ErrorCode::version */
		refuse_chunk,	/* a responder answers with ErrorCode::chunk */
	};
	struct Verdict {
		Action action = Action::deliver;
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
		said_ = peer.ok();
		if (said_)
			peer_ = peer.value();
		set_thresholds_();
	}

	/** Speak @version, which is one of Spoken, from here on. */
	void speak(u32 version)
	{
		version_ = version;
		settled_ = true;
		set_thresholds_();
	}

	[[nodiscard]] u32 version() const
	{
		return version_;
	}
	[[nodiscard]] Rules rules() const
	{
		return rules_of(version_);
	}
	/** Inline thresholds, and what headers cost in this version. */
	[[nodiscard]] const chunk::Thresholds &thresholds() const
	{
		return thresholds_;
	}
	/** What the peer said of itself; by default, what a peer is that says nothing. */
	[[nodiscard]] const private_data::Properties &peer() const
	{
		return peer_;
	}

	/**
	 * A message has come: decode it into @message, and say what is to be done with it. A requester answers
	 * no message of these kinds: what is to be refused it drops.
	 *
	 * @bytes    all of it
	 * @message  points into @bytes; means nothing unless it is to be delivered
	 */
	[[nodiscard]] Verdict receive(Bytes bytes, xdr::Message &message)
	{
		if constexpr (Spoken::lowest() != Spoken::highest())
			settle_(bytes);
		const Error error = Spoken::with(version_, [&](auto codec) {
			return codec.decode(bytes, message);
		});

		if (error != Error::none)
			return judge_(error);
		if (message.direction == xdr::Direction::unknown)
			return {Action::refuse_chunk, Error::protocol};
		return {};
	}

	/**
	 * Write the message that refuses a request into @room (RFC 8166 4.5).
	 *
	 * @request  the bytes of what is refused, of any version
	 *
	 * Returns its length. Errors: ENOSPC; EMSGSIZE, @request is so short that it is to be dropped.
	 */
	[[nodiscard]] Result<u32> encode_refusal(MutableBytes room, Bytes request, Credits credits,
						 xdr::ErrorCode code) const
	{
		const xdr::FixedHeader fixed = TRY(xdr::peek(request));

		return encode_refusal(room, fixed, credits, code);
	}
	[[nodiscard]] Result<u32> encode_refusal(MutableBytes room, const xdr::FixedHeader &request,
						 Credits credits, xdr::ErrorCode code) const
	{
		xdr::ErrorBody error;

		error.code = code;
		if (code == xdr::ErrorCode::version) {
			error.low = settled_ ? version_ : Spoken::lowest();
			error.high = settled_ ? version_ : Spoken::highest();
		}
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
	/* The first message of a version that is spoken decides. */
	void settle_(Bytes bytes)
	{
		if (settled_)
			return;
		if (const auto fixed = xdr::peek(bytes); fixed && Spoken::speak(fixed.value().vers))
			speak(fixed.value().vers);
	}

	[[nodiscard]] static Verdict judge_(Error error)
	{
		switch (error) {
		case Error::message_size:
		case Error::bad_message:
			return {Action::drop, error};
		case Error::no_protocol:
			return {Action::refuse_version, error};
		default:
			return {Action::refuse_chunk, error};
		}
	}

	void set_thresholds_()
	{
		const Rules r = rules();

		if (!said_)
			peer_ = {r.default_threshold, r.default_threshold, false};
		thresholds_.send =
			private_data::inline_threshold(ours_.send_size, peer_.receive_size);
		thresholds_.receive =
			private_data::inline_threshold(peer_.send_size, ours_.receive_size);
		thresholds_.bare_header = r.bare_header;
		thresholds_.continuation_header = r.continuation_header;
		thresholds_.transmissions = r.transmissions;
	}

	u32 version_ = Spoken::preferred();
	bool settled_ = Spoken::lowest() == Spoken::highest();
	chunk::Thresholds thresholds_;
	private_data::Properties ours_;
	private_data::Properties peer_;
	bool said_ = false; /* the peer, what it is */
};

} // namespace rpcordma::protocol
