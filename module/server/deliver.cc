// SPDX-License-Identifier: GPL-2.0-only
/* What a service thread takes off a connection. See deliver.hh. */

#include "module/server/deliver.hh"

#include "module/chunk/placement.hh"
#include "module/server/close.hh"
#include "module/server/owners.hh"
#include "module/server/read.hh"
#include "module/server/refusal.hh"
#include "module/server/server.hh"

namespace rpcordma {

/* XDR padding. */
static constexpr u8 kZeros[4] = {};

/* Copy @length bytes of the payload of @receive, from @from on, into @pages, to their byte @to. */
static void write_payload(const Receive &receive, u32 from, u32 length, page **pages, u32 to)
{
	while (length) {
		const Bytes piece = receive.payload_from(from).first(length);
		const u32 n = u32(piece.size());

		rpcordma_pages_write(pages, to, piece.data(), n);
		from += n;
		to += n;
		length -= n;
	}
}

/* A transmission of a call, and the first of its pages' numbers. */
[[nodiscard]] static Receive *transmission_of(Receive *receive, u32 number)
{
	while (number--)
		receive = receive->next;
	return receive;
}

/* Have the pages of @call's item, which were judged good, for the service. False: no memory. */
[[nodiscard]] static bool lend_item(Server &server, ServerCall *call)
{
	const u32 pages = server.receive_maker.layout().count;
	const u32 page_size = server.receive_maker.layout().page_size;
	const chunk::Arrival &arrival = call->arrival;
	rtrext::Request request;
	u32 n = 0;

	if (!call->lent)
		call->lent = Owned<LentPages>::create(RPCORDMA_ALLOC_SERVICE);
	if (!call->lent || rtrext::decode(call->message().body(), request) != Error::none)
		return false;
	const rtrext::Item item = *request.items.begin();
	chunk::for_each_piece(item, page_size, [&](const chunk::ItemPiece &piece) {
		Receive *const in = transmission_of(call->receive, piece.number / pages);

		call->lent->pages[n++] = in->pages->pages()[piece.number % pages];
		return true;
	});
	call->lent->pages[n] = call->lent->pages[n - 1];
	/* What is behind the item was somebody else's. */
	rpcordma_pages_write(call->lent->pages, arrival.sink_length, kZeros,
			     xdr_pad(arrival.sink_length));
	/* From here on they have bytes of the call, for recycle(). */
	for (Receive *receive = call->receive; receive; receive = receive->next)
		receive->length = receive->whole_length;
	rpcordma_server_count(RPCORDMA_SERVER_LENT_PAGES, n);
	return true;
}

/* Bytes of the stream of a call of several transmissions, in their order. */
class StreamReader {
public:
	explicit StreamReader(const Receive *first) : at_(first)
	{
	}
	/* Copy the next @length bytes, or as many as there are, into @pages, to their byte @to. Returns how many. */
	u32 copy(u32 length, page **pages, u32 to)
	{
		const u32 wanted = length;

		while (length && at_) {
			const u32 n = min(length, at_->payload_length() - used_);

			write_payload(*at_, used_, n, pages, to);
			used_ += n;
			to += n;
			length -= n;
			if (used_ == at_->payload_length()) {
				at_ = at_->next;
				used_ = 0;
			}
		}
		return wanted - length;
	}

private:
	const Receive *at_;
	u32 used_ = 0; /* of at_'s payload */
};

/* Copy the pieces of @call, and its items, which were judged good, into @pages in the order of its XDR stream. */
static void copy_pieces(const Server &server, const ServerCall *call, page **to)
{
	const u32 pages = server.receive_maker.layout().count;
	const u32 page_size = server.receive_maker.layout().page_size;
	StreamReader stream(call->receive);
	rtrext::Request request;
	u32 at = 0;

	if (call->message().kind == xdr::Kind::optional &&
	    rtrext::decode(call->message().body(), request) != Error::none)
		request = {};
	for (const rtrext::Item &item : request.items) {
		at += stream.copy(item.displacement - at, to, at);
		chunk::for_each_piece(item, page_size, [&](const chunk::ItemPiece &piece) {
			const Receive *const in =
				transmission_of(call->receive, piece.number / pages);
			const MutableBytes bytes =
				in->pages->piece(piece.number % pages * page_size + piece.offset);

			rpcordma_pages_write(to, at, bytes.data(), piece.length);
			at += piece.length;
			return true;
		});
		rpcordma_pages_write(to, at, kZeros, xdr_pad(item.length));
		at += xdr_pad(item.length);
	}
	(void)stream.copy(call->arrival.message_length - at, to, at);
}

/* Copy the inline pieces of @call into pages of the thread, in its transfer; or lend it its item. False: no memory. */
[[nodiscard]] static bool gather_pieces(Server &server, ServerCall *call, svc_rqst *rqst)
{
	if (call->arrival.how == chunk::Arrival::How::sent)
		return lend_item(server, call);
	const u32 pages = sink_pages(server, call->arrival);
	Transfer *transfer = server_pool.take(pages, RPCORDMA_ALLOC_SERVICE);

	if (!transfer)
		return false;
	call->transfer = transfer;
	rpcordma_svc_lend_pages(rqst, transfer->pages, pages);
	transfer->page_count = pages;
	copy_pieces(server, call, transfer->pages);
	return true;
}

/* Complete what Reads brought into @call's sink: the inline part, and pads. */
static void complete_sink(const ServerCall &call)
{
	const chunk::Arrival &arrival = call.arrival;
	page **const pages = call.transfer->pages;

	if (arrival.how != chunk::Arrival::How::linear) {
		/* What is behind the chunk was somebody else's. */
		rpcordma_pages_write(pages, arrival.sink_length, kZeros,
				     xdr_pad(arrival.sink_length));
		return;
	}
	auto read = [](const xdr::Segment &, u32) {};
	auto copy = [&](u32 from, u32 to, u32 length) {
		write_payload(*call.receive, from, length, pages, to);
	};
	auto pad = [&](u32 at, u32 length) { rpcordma_pages_write(pages, at, kZeros, length); };
	(void)chunk::walk_arrival(call.message().reads, arrival.inline_length,
				  arrival.message_length, read, copy, pad);
}

/* The Reads are done: what they brought is for the service to see. */
static void finish_sink(Server &server, ServerCall *call)
{
	Transfer *transfer = call->transfer;

	if (call->lone.mapped) {
		put_lone(server, call);
	} else {
		trace_mapping(server, *call, false);
		rpcordma_bulk_unmap(transfer->bulk);
		for (Region *region : transfer->regions) {
			if (!region)
				break;
			rpcordma_region_unmap(region->device);
		}
	}
	if (!call->in_pieces())
		complete_sink(*call);
}

/* Pages that the service may look at of @call, whose sink has one chunk: repeat_tail(). */
[[nodiscard]] static u32 seen_pages(const Server &server, const ServerCall &call)
{
	return div_round_up(call.arrival.message_length - call.arrival.position,
			    server.device.page_size);
}

/*
 * Whether the service may have the pages of @call's sink where they are, the first @pages of them, for as long as it likes. So
 * neighbours stay together, and no page moves. But others may need this sink: where much of the eager budget is taken, or
 * where it is larger than needed. And one of another node had better get pages of this thread's.
 */
[[nodiscard]] static bool may_lend_sink(const ServerCall &call, u32 pages)
{
	const Transfer &sink = *call.transfer;

	return call.arrival.how == chunk::Arrival::How::single && call.keeps_sink &&
	       Transfer::is_sink(sink.size) && pages <= sink.stock &&
	       pages > Transfer::pages_of(sink.size - 1) &&
	       (!rpcordma_nodes_differ() || sink.node == rpcordma_node());
}

/* The service has these pages, which stay where they are. */
static void lend_sink(Server &server, ServerCall *call, u32 pages)
{
	Transfer *sink = call->transfer;

	if (sink->regions[0])
		put_regions(server, *sink, call->xid());
	sink->page_count = pages;
	sink->eager = call->eager;
	call->eager = 0;
	call->sink = sink;
	call->transfer = nullptr;
}

/* The sink's pages become the thread's, and as many of the thread's the sink's. Returns how many. */
[[nodiscard]] static u32 exchange_sink(Server &server, ServerCall *call, svc_rqst *rqst)
{
	const u32 pages = sink_pages(server, call->arrival);

	rpcordma_svc_swap_pages(rqst, call->transfer->pages, pages);
	give_back_resources(server, call);
	return pages;
}

/*
 * A service that believes what a call says of its payload's length may look for more of it in the pages than its chunk had:
 * not for more than the call has. It finds there what goes on in the stream, as it would if all were inline, and nothing
 * that was somebody else's.
 */
static void repeat_tail(const Server &server, svc_rqst *rqst, rpcordma_svc_arg &arg)
{
	if (arg.pages) {
		if (arg.tail_length)
			rpcordma_pages_write(arg.pages, arg.page_length, arg.tail, arg.tail_length);
		return;
	}
	if (arg.tail_length)
		rpcordma_svc_write_pages(rqst, arg.page_length, arg.tail, arg.tail_length);
	arg.pages_used = div_round_up(arg.page_length + arg.tail_length, server.device.page_size);
}

/* Hand a whole call to the thread. Returns its length, or 0: there was no memory for it. */
[[nodiscard]] static u32 deliver_call(Server &server, ServerCall *call, svc_rqst *rqst)
{
	const chunk::Arrival &arrival = call->arrival;
	u8 *const payload = call->receive->buffer.data() + call->message().header_length;
	rpcordma_svc_arg arg = {};

	const bool gathered = !call->in_pieces() || gather_pieces(server, call, rqst);

	/* Of an item the service has pages in all of them. */
	if (__builtin_expect(call->message().kind == xdr::Kind::optional, 0) &&
	    !(gathered && arrival.how == chunk::Arrival::How::sent))
		put_parts(server, call);
	if (!gathered) {
		/* The client sends it again, over another connection. */
		const u32 xid = call->message().xid.get();

		recycle(server, call);
		close_after(server, trace::Failure::gather_failed, xid, Error::no_memory);
		return 0;
	}
	if (call->transfer) {
		const u32 pages = seen_pages(server, *call);

		finish_sink(server, call);
		if (may_lend_sink(*call, pages)) {
			lend_sink(server, call, pages);
			arg.pages = call->sink->pages;
		} else {
			arg.pages_used = exchange_sink(server, call, rqst);
		}
		if (server.limits.region_pages)
			tend_regions(server);
	}
	switch (arrival.how) {
	case chunk::Arrival::How::inline_:
		arg.head = payload;
		arg.page_length = call->receive->in_pages();
		arg.head_length = arrival.inline_length - arg.page_length;
		/* They stay the Receive's, which stays the call's until release(). */
		if (arg.page_length) {
			arg.pages = call->receive->pages->pages();
			rpcordma_server_count(RPCORDMA_SERVER_LENT_PAGES,
					      div_round_up(arg.page_length, server.device.page_size));
		}
		break;
	case chunk::Arrival::How::single:
		arg.head = payload;
		arg.head_length = arrival.position;
		arg.page_length = arrival.sink_length + xdr_pad(arrival.sink_length);
		arg.tail = payload + arrival.position;
		arg.tail_length = arrival.inline_length - arrival.position;
		repeat_tail(server, rqst, arg);
		break;
	case chunk::Arrival::How::sent:
		arg.head = payload;
		arg.head_length = arrival.position;
		arg.pages = call->lent->pages;
		arg.page_length = arrival.sink_length + xdr_pad(arrival.sink_length);
		arg.tail = payload + arrival.position;
		arg.tail_length = arrival.inline_length - arrival.position;
		break;
	case chunk::Arrival::How::linear:
		arg.head_length = min(arrival.message_length, server.device.page_size);
		arg.page_length = arrival.message_length - arg.head_length;
		break;
	}
	call->owners.store(1, std::memory_order_relaxed);
	rpcordma_svc_set_arg(rqst, server.xprt, call, &arg);
	return arrival.message_length;
}

u32 take_and_deliver(Server &server, svc_rqst *rqst)
{
	const CallQueue::Taken taken = take_call(server);

	rpcordma_svc_received(server.xprt);
	if (!taken.call)
		return 0;
	if (taken.lane == CallQueue::Lane::held) {
		pull_with(server, taken.call, rqst);
		return 0;
	}
	if (taken.call->refused) {
		refuse(server, taken.call, taken.call->refusal);
		return 0;
	}
	return deliver_call(server, taken.call, rqst);
}

} // namespace rpcordma
