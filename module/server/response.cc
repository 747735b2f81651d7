// SPDX-License-Identifier: GPL-2.0-only
/* Replies by XMTRESP. See response.hh. */

#include "module/server/response.hh"

#include "module/chunk/directed.hh"
#include "module/server/server.hh"
#include "module/server/writes.hh"

namespace rpcordma {

bool has_directions(const ServerCall &call)
{
	rtrext::Request request;

	return call.message().option == xdr::Option::xmtreq &&
	       rtrext::decode(call.message().body(), request) == Error::none &&
	       request.sets.places();
}

/* What is mapped, from its front on, as SGEs of Sends. */
class MappedReply {
public:
	explicit MappedReply(Span<const rpcordma_sge> mapped) : mapped_(mapped)
	{
	}
	/* Call @visit(SGE) for each piece of the next @length bytes. False: there are not so many. */
	template <typename Visit> [[nodiscard]] bool take(u32 length, Visit &&visit)
	{
		while (length) {
			if (mapped_.empty())
				return false;
			rpcordma_sge piece = mapped_[0];
			const u32 n = min(length, piece.length - used_);

			piece.addr += used_;
			piece.length = n;
			visit(piece);
			length -= n;
			used_ += n;
			if (used_ == mapped_[0].length) {
				mapped_ = mapped_.from(1);
				used_ = 0;
			}
		}
		return true;
	}

private:
	Span<const rpcordma_sge> mapped_;
	u32 used_ = 0; /* of the first */
};

/* Bytes of the reply that stay in its stream, in their order. */
class RestReader {
public:
	RestReader(const rpcordma_xdr_buf *reply, const chunk::Directed &plan)
		: reply_(reply),
		  plan_(plan)
	{
	}
	/* The next @length bytes, or zeros behind the last one. */
	void copy(u8 *to, u32 length)
	{
		while (length && i_ < plan_.rest_count) {
			const chunk::ReplyRange &range = plan_.rest[i_];
			const u32 n = min(length, range.length - used_);

			rpcordma_buf_read(reply_, range.offset + used_, to, n);
			to += n;
			length -= n;
			used_ += n;
			if (used_ == range.length) {
				i_++;
				used_ = 0;
			}
		}
		__builtin_memset(to, 0, length);
	}

private:
	const rpcordma_xdr_buf *reply_;
	const chunk::Directed &plan_;
	u32 i_ = 0;
	u32 used_ = 0; /* of that range */
};

/* A reply that is being built. */
class ResponseBuilder {
public:
	ResponseBuilder(Server &server, ServerCall *call, svc_rqst *rqst,
			const rtrext::Request &request, Outgoing &out)
		: server_(server),
		  call_(call),
		  rqst_(rqst),
		  reply_(rpcordma_svc_reply(rqst)),
		  request_(request),
		  out_(out)
	{
	}

	/* Decide how it goes. */
	[[nodiscard]] Status plan(Span<const chunk::ReplyRange> results,
				  const chunk::ReplyRoom &room, chunk::Shortfall &shortfall)
	{
		room_ = &room;
		return chunk::plan_directed(request_.sets, results, reply_->len, room, plan_,
					    shortfall);
	}
	[[nodiscard]] const chunk::Directed &planned() const
	{
		return plan_;
	}

	/*
	 * Build it as planned. Errors: as build_response(); and ENOBUFS, what is sent cannot be, for want of SGEs or of memory in
	 * one piece: nothing is posted, and it is to be planned without.
	 */
	[[nodiscard]] Status build()
	{
		out_ = {};
		if (plan_.transmissions > 1 && !call_->others)
			call_->others = Owned<ReplySends>::create(RPCORDMA_ALLOC_SERVICE);
		if (plan_.transmissions > 1 && !call_->others)
			return Error::no_memory;
		WriteParts parts;
		if (plan_.write_length || plan_.segments)
			TRY_STATUS(map_(parts));
		TRY_STATUS(make_transmissions_(parts));
		link_();
		if (!call_->transfer)
			return {};
		/* Behind this nobody reads the reply. */
		TRY_STATUS(take_reply_pages(call_, rqst_));
		return plan_.write_length ? write_(parts) : Status();
	}

private:
	/* How a transmission is made. */
	struct Made {
		u32 header_end = 0; /* and of its stream */
		u32 stream_length = 0;
		u32 head_length = 0; /* before what is sent */
		u32 sent_length = 0; /* with padding */
		u32 padding = 0;     /* the most there is in one place */
		u32 sges = 0;	     /* of its Send; 0: its buffer has all */
		u32 first_sge = 0;   /* of the transfer's */
	};

	[[nodiscard]] bool is_last_(u32 n) const
	{
		return n + 1 == plan_.transmissions;
	}
	/* Where a transmission's Send is. */
	[[nodiscard]] SendBuffer &send_(u32 n) const
	{
		return is_last_(n) ? call_->sends[0] : call_->others->sends[n];
	}
	template <typename Visit> void each_piece_(u32 n, Visit &&visit) const
	{
		if (plan_.segments)
			chunk::for_each_sent_piece(plan_, room_->structure, n, visit);
	}

	/* Lengths of transmission @n: each is filled before the next one has any of the stream. */
	[[nodiscard]] Made measure_(u32 n) const
	{
		const u32 first = rtrext::stream_room(room_->bytes, plan_.header_length),
			  more = rtrext::stream_room(room_->bytes, rtrext::continuation_length);
		Made made;

		if (plan_.segments)
			made.stream_length = n ? 0 : plan_.stream_length;
		else if (n)
			made.stream_length = min(more, plan_.stream_length - first - (n - 1) * more);
		else
			made.stream_length = min(first, plan_.stream_length);
		made.header_end = made.stream_length +
				  (n ? rtrext::continuation_length : plan_.header_length);
		made.head_length = plan_.segments ? room_->structure.head() : made.header_end;
		each_piece_(n, [&](const chunk::SentPiece &piece) {
			made.sent_length += piece.range.length + piece.padding;
			made.padding = max(made.padding, piece.padding);
		});
		return made;
	}

	/* Map what is written and what is sent, in that order. Without a mapping, what is sent is copied. */
	[[nodiscard]] Status map_(WriteParts &parts)
	{
		if (!take_reply_transfer(server_, call_, rqst_).ok())
			return plan_.write_length ? Status(Error::no_memory) : Status();
		const Result<u32> mapped = map_placed_();
		if (mapped.ok()) {
			parts.mapped = mapped.value();
			return {};
		}
		if (plan_.write_length)
			return mapped.error();
		put_transfer(server_, call_);
		return {};
	}
	[[nodiscard]] Result<u32> map_placed_()
	{
		for (const rtrext::Type type : {rtrext::Type::segments, rtrext::Type::sent})
			for (u32 i = 0; i < plan_.count; i++) {
				const chunk::DirectedItem &item = plan_.items[i];

				if (item.type == type &&
				    rpcordma_bulk_add_buf(call_->transfer->bulk, reply_,
							  item.range.offset, item.range.length))
					return Error::no_space;
			}
		return map_reply(server_, *call_);
	}

	/* Make each transmission: header, stream, zeros, and what is sent, gathered or copied. */
	[[nodiscard]] Status make_transmissions_(WriteParts &parts)
	{
		Made made[protocol::kReplyTransmissions];
		bool gathers = plan_.write_length != 0;

		if (plan_.transmissions > protocol::kReplyTransmissions)
			return Error::invalid;
		for (u32 n = 0; n < plan_.transmissions; n++)
			made[n] = measure_(n);
		if (call_->transfer && plan_.segments)
			plan_sges_(parts, made);
		MappedReply mapped = sent_pieces_(parts);
		RestReader rest(reply_, plan_);
		for (u32 n = 0; n < plan_.transmissions; n++) {
			gathers = gathers || made[n].sges;
			TRY_STATUS(make_(n, made[n], rest, mapped));
		}
		if (call_->transfer && !gathers)
			put_transfer(server_, call_);
		return {};
	}

	/* Of what is mapped, that which is sent. */
	[[nodiscard]] MappedReply sent_pieces_(const WriteParts &parts) const
	{
		MappedReply mapped(
			{call_->transfer ? call_->transfer->local : nullptr, parts.mapped});

		if (parts.mapped)
			(void)mapped.take(plan_.write_length, [](const rpcordma_sge &) {});
		return mapped;
	}

	/* Which transmissions are gathered, and by which SGEs: the last one's are first, as send.cc has them. */
	void plan_sges_(WriteParts &parts, Made *made)
	{
		const u32 room = u32(call_->transfer->all_sges().size()) - server_.limits.send_sges;
		MappedReply mapped = sent_pieces_(parts);

		for (u32 n = 0; n < plan_.transmissions; n++) {
			/* One is the head's. */
			u32 sges = 1;
			bool found = true;

			each_piece_(n, [&](const chunk::SentPiece &piece) {
				found = found && mapped.take(piece.range.length,
							     [&](const rpcordma_sge &) { sges++; });
				sges += piece.padding != 0;
			});
			if (found && sges <= server_.limits.send_sges &&
			    parts.reserved + sges <= room) {
				made[n].sges = sges;
				parts.reserved += sges;
			}
		}
		u32 next = made[plan_.transmissions - 1].sges;
		for (u32 n = 0; !is_last_(n); n++) {
			made[n].first_sge = next;
			next += made[n].sges;
		}
	}

	[[nodiscard]] Status make_(u32 n, const Made &made, RestReader &rest, MappedReply &mapped)
	{
		const bool copied = made.sent_length && !made.sges;
		/* Behind the head are zeros for what is between items. */
		const u32 bytes = made.head_length + (copied ? made.sent_length : made.padding);

		if (made.sent_length && bytes > protocol::kMostInline)
			return Error::no_buffers;
		if (!have_buffer_(n, bytes))
			return plan_.segments ? Error::no_buffers : Error::no_memory;
		const MutableBytes room = send_(n).room();
		const u32 header = TRY(encode_header_(room, n, made));
		if (header + made.stream_length != made.header_end)
			return Error::invalid;
		rest.copy(room.data() + header, made.stream_length);
		__builtin_memset(room.data() + made.header_end, 0, bytes - made.header_end);
		if (copied)
			copy_(n, room.data() + made.head_length, mapped);
		trace::group_sent(server_.peer, call_->message().xid, xdr::Option::xmtresp, n,
				  plan_.transmissions, made.stream_length);
		/* What the device gets of the buffer. */
		send_(n).hand_over(server_.endpoint, bytes);
		if (made.sges)
			gather_(n, made, mapped);
		if (is_last_(n)) {
			out_.lengths[0] = made.sges ? made.head_length : bytes;
			out_.gathered = made.sges;
		}
		return {};
	}

	[[nodiscard]] bool have_buffer_(u32 n, u32 bytes)
	{
		/* As long as others of a group, so that the next one finds it. */
		const u32 size = plan_.transmissions > 1 && !plan_.segments ? room_->bytes : 0;

		return make_send(server_, call_, send_(n),
				 slab_bytes(max(max(bytes, size), send_size(server_))), bytes,
				 RPCORDMA_ALLOC_SERVICE);
	}

	[[nodiscard]] Result<u32> encode_header_(MutableBytes room, u32 n, const Made &made) const
	{
		const Xid xid = call_->message().xid;
		const Credits grant = server_.grant.credits();

		if (n)
			return rtrext::encode(room, xid, grant, xdr::Direction::reply,
					      {n, static_cast<u32>(xdr::Option::xmtresp),
					       made.stream_length});
		rtrext::Encoder encoder(room, xid, grant, xdr::Option::xmtresp);

		chunk::encode_directed(encoder, request_.sets, plan_);
		return encoder.finish(plan_.transmissions, 0, made.stream_length);
	}

	/* Copy what is sent in transmission @n to @at, where zeros are; and pass over it where it is mapped. */
	void copy_(u32 n, u8 *at, MappedReply &mapped) const
	{
		each_piece_(n, [&](const chunk::SentPiece &piece) {
			rpcordma_buf_read(reply_, piece.range.offset, at, piece.range.length);
			at += piece.range.length + piece.padding;
			if (call_->transfer)
				(void)mapped.take(piece.range.length, [](const rpcordma_sge &) {});
		});
	}

	/* Make what is sent in transmission @n SGEs of its Send, behind its head. */
	void gather_(u32 n, const Made &made, MappedReply &mapped)
	{
		rpcordma_send_wr &wr = send_(n).wr;
		rpcordma_sge *const sges = call_->transfer->sges + made.first_sge;
		const rpcordma_sge buffer = *wr.sg_list;
		u32 i = 1;

		sges[0] = buffer;
		sges[0].length = made.head_length;
		each_piece_(n, [&](const chunk::SentPiece &piece) {
			(void)mapped.take(piece.range.length,
					  [&](const rpcordma_sge &sge) { sges[i++] = sge; });
			if (!piece.padding)
				return;
			sges[i].addr = buffer.addr + made.head_length;
			sges[i].length = piece.padding;
			sges[i++].lkey = buffer.lkey;
		});
		wr.sg_list = sges;
		wr.num_sge = int(made.sges);
	}

	/* Link the transmissions; the last one's Send is made ready when it is posted. */
	void link_()
	{
		for (u32 n = 0; !is_last_(n); n++) {
			rpcordma_send_wr &wr = send_(n).wr;

			wr.opcode = RPCORDMA_WR_SEND;
			wr.send_flags = 0;
			wr.cqe = &call_->chain_cqe;
			wr.next = &send_(n + 1).wr;
		}
		out_.others = out_.writes = plan_.transmissions - 1;
		if (out_.writes)
			out_.first_write = &send_(0).wr;
	}

	/* Put the Writes of what is written ahead of the transmissions. */
	[[nodiscard]] Status write_(WriteParts &parts)
	{
		for (u32 i = 0; i < plan_.count; i++)
			if (plan_.items[i].type == rtrext::Type::segments)
				parts.segments += plan_.items[i].segments;
		parts.bytes = plan_.write_length;
		parts.sends = &send_(0).wr;
		parts.send_count = plan_.transmissions;
		TRY_STATUS(chain_writes(server_, call_, parts, out_, [&](ChainBuilder &chain) {
			bool built = true;

			chunk::for_each_direction(
				request_.sets, plan_,
				[&](const chunk::DirectedItem &item, const rtrext::Place &place) {
					if (item.type == rtrext::Type::segments)
						built = fill_segments(chain, place.segments,
								      item.range.length);
					return built;
				});
			return built;
		}));
		out_.writes += out_.others;
		return {};
	}

	Server &server_;
	ServerCall *const call_;
	svc_rqst *const rqst_;
	const rpcordma_xdr_buf *const reply_;
	const rtrext::Request &request_;
	Outgoing &out_;
	const chunk::ReplyRoom *room_ = nullptr;
	chunk::Directed plan_;
};

/* What there is for the reply to @request. */
[[nodiscard]] static chunk::ReplyRoom room_for(const Server &server, const rtrext::Request &request,
					       bool sealed)
{
	chunk::ReplyRoom room;

	room.bytes = min(server.session.thresholds().send, protocol::kMostInline);
	room.structure = server.session.peer_structure();
	if (server.session.peer_reduction().has(properties::takes_xmtcont))
		room.transmissions = max(1u, min(request.reply_transmissions,
						 server.session.reduction().reply_limit));
	room.sealed = sealed;
	return room;
}

static void count_response(const chunk::Directed &plan)
{
	u32 sent = 0;

	for (u32 i = 0; i < plan.count; i++)
		sent += plan.items[i].type == rtrext::Type::sent;
	if (sent)
		rpcordma_server_count(RPCORDMA_SERVER_V2_SENT_RESULTS, sent);
	if (plan.transmissions > 1)
		rpcordma_server_count(RPCORDMA_SERVER_V2_REPLY_GROUPS, 1);
}

Status build_response(Server &server, ServerCall *call, svc_rqst *rqst,
		      Span<const chunk::ReplyRange> results, bool sealed, Outgoing &out,
		      chunk::Shortfall &shortfall)
{
	rtrext::Request request;

	if (call->message().kind != xdr::Kind::optional ||
	    rtrext::decode(call->message().body(), request) != Error::none)
		return Error::no_space;
	/* Who gives directions takes what answers these. */
	if (!request.sets.places() && !server.session.peer_reduction().has(properties::takes_xmtresp))
		return Error::no_space;
	ResponseBuilder builder(server, call, rqst, request, out);
	chunk::ReplyRoom room = room_for(server, request, sealed);
	TRY_STATUS(builder.plan(results, room, shortfall));
	Status built = builder.build();
	if (!built.ok() && built.error() == Error::no_buffers) {
		room.structure = {};
		if (call->transfer)
			put_transfer(server, call);
		/* It may be gone, and a refusal has to have it. */
		if (!ensure_send(server, call, RPCORDMA_ALLOC_SERVICE))
			return Error::no_memory;
		TRY_STATUS(builder.plan(results, room, shortfall));
		built = builder.build();
	}
	if (built.ok())
		count_response(builder.planned());
	return built;
}

} // namespace rpcordma
