// SPDX-License-Identifier: GPL-2.0-only
/* The queue pair, the device and the peer of the double of the port; see test_rdma_port_verbs.hh. No tests here. */
#include "kunit/completion.hh"
#include "kunit/test_rdma_port.hh"
#include "kunit/test_xdr_reference.hh"
#include "module/server/audit.hh"
#include "xdr/v2.hh"

namespace rpcordma {
namespace {

constexpr int kLocalError = 2; /* IB_WC_LOC_QP_OP_ERR */

/* The call @xid that a message of has come; null: there is none. */
[[nodiscard]] const ServerCall *call_with(const Server &server, u32 xid)
{
	const ServerCall *call = ServerInside::all(server.calls);

	while (call && !(call->receive && call->message().xid == Xid(xid)))
		call = call->all_next;
	return call;
}

} // namespace

u32 Posted::length() const
{
	u32 length = 0;

	for (int i = 0; i < num_sge; i++)
		length += sges[i].length;
	return length;
}

rpcordma_endpoint *PortVerbs::endpoint()
{
	return reinterpret_cast<rpcordma_endpoint *>(this);
}

void PortVerbs::post_one(const rpcordma_recv_wr &wr)
{
	for (u32 i = 0; i < posted; i++)
		ASSERT_NE(receive_queue[i], &wr);
	/* Accounting is the core's, so that this never happens. */
	ASSERT_LT(posted, receive_room);
	ASSERT_GE(wr.num_sge, 1);
	ASSERT_LE(wr.num_sge, int(sizes.receive_sges));
	ASSERT_NE(wr.cqe, nullptr);
	for (int i = 0; i < wr.num_sge; i++) {
		const Block *block = the_port->memory.block_of(wr.sg_list[i]);
		ASSERT_NE(block, nullptr);
		EXPECT_EQ(block->mapped, wr.sg_list[i].length);
		EXPECT_EQ(block->direction, RPCORDMA_DMA_FROM_DEVICE);
		/* It is the device's: a client that looks at the message that came before finds none. */
		if (requester)
			__builtin_memset(block->memory, 0xdb, block->mapped);
	}
	receive_queue[posted++] = &wr;
}

const rpcordma_recv_wr *PortVerbs::take_receive()
{
	if (!posted)
		return nullptr;
	const rpcordma_recv_wr *wr = receive_queue[0];

	posted--;
	for (u32 i = 0; i < posted; i++)
		receive_queue[i] = receive_queue[i + 1];
	return wr;
}

Receive *PortVerbs::deliver(u32 length)
{
	const rpcordma_recv_wr *wr = take_receive();

	if (!wr)
		return nullptr;
	Receive *receive = OwnedCqe<Receive>::owner_of(wr->cqe);
	/* The device writes as much as the SGEs allow: the sanitizers see what is not ours. */
	for (int i = 0; i < wr->num_sge; i++)
		__builtin_memset(the_port->dma.byte_of(wr->sg_list[i], 0), 0x5a,
				 wr->sg_list[i].length);
	receive->length = length;
	return receive;
}

void PortPeer::have(u32 wanted)
{
	if (memory)
		rpcordma_test_free(memory, bytes);
	bytes = wanted;
	memory = static_cast<u8 *>(rpcordma_test_alloc(bytes));
	for (u32 i = 0; i < bytes; i++)
		memory[i] = u8(i * 31 + (i >> 8) * 7);
}

int PortVerbs::transfer(const Posted &wr, bool write)
{
	const u64 offset = wr.remote_addr - PortPeer::kAddress;
	u32 at = 0;

	if (wr.rkey != PortPeer::kKey || wr.remote_addr < PortPeer::kAddress ||
	    offset + wr.length() > the_port->peer.bytes)
		return RPCORDMA_WC_REMOTE_ACCESS;
	EXPECT_GT(wr.num_sge, 0);
	for (int i = 0; i < wr.num_sge; i++)
		for (u32 n = 0; n < wr.sges[i].length; n++, at++) {
			u8 *local = the_port->dma.byte_of(wr.sges[i], n);
			u8 *remote = the_port->peer.memory + offset + at;

			if (write)
				*remote = *local;
			else
				*local = *remote;
		}
	write ? the_port->peer.writes++ : the_port->peer.reads++;
	return RPCORDMA_WC_SUCCESS;
}

int PortVerbs::execute(const Posted &wr)
{
	switch (wr.opcode) {
	case RPCORDMA_WR_RDMA_READ:
		return transfer(wr, false);
	case RPCORDMA_WR_RDMA_READ_WITH_INV: {
		/* cxgb4 goes by the SGE, others by the key. */
		EXPECT_EQ(wr.num_sge, 1);
		EXPECT_EQ(wr.sges[0].lkey, wr.invalidate_rkey);
		EXPECT_TRUE(device.read_needs_region);
		const int status = transfer(wr, false);
		if (status || !the_port->dma.invalidate(wr.invalidate_rkey))
			return status ? status : kLocalError;
		the_port->peer.local_invalidations++;
		return RPCORDMA_WC_SUCCESS;
	}
	case RPCORDMA_WR_RDMA_WRITE:
		return transfer(wr, true);
	case RPCORDMA_WR_SEND:
	case RPCORDMA_WR_SEND_WITH_INV:
		the_port->peer.message_length = 0;
		EXPECT_LE(wr.length(), sizeof(the_port->peer.message));
		for (int i = 0; i < wr.num_sge; i++)
			for (u32 n = 0; n < wr.sges[i].length; n++)
				the_port->peer.message[the_port->peer.message_length++] =
					*the_port->dma.byte_of(wr.sges[i], n);
		the_port->peer.messages++;
		the_port->peer.invalidated =
			wr.opcode == RPCORDMA_WR_SEND_WITH_INV ? wr.invalidate_rkey : 0;
		return RPCORDMA_WC_SUCCESS;
	case RPCORDMA_WR_REG_MR:
		if (wr.region->registered)
			return kLocalError;
		wr.region->registered = wr.region_key;
		wr.region->access = wr.access;
		return RPCORDMA_WC_SUCCESS;
	case RPCORDMA_WR_LOCAL_INV:
		/* It may overtake the Reads into what it invalidates, unless they are done. */
		EXPECT_TRUE(requester || the_port->dma.is_stale(wr.invalidate_rkey));
		if (!the_port->dma.invalidate(wr.invalidate_rkey))
			return kLocalError;
		the_port->peer.local_invalidations++;
		return RPCORDMA_WC_SUCCESS;
	}
	EXPECT_TRUE(false);
	return kLocalError;
}

void PortVerbs::complete(rpcordma_cqe *cqe, rpcordma_completion completion)
{
	completion.cqe = cqe;
	const u64 kind = kind_of(*cqe);
	const bool sleepy = the_port->memory.may_sleep;

	leave_unset(completion, the_port->dma.last_key);
	EXPECT_EQ(the_port->sync.locks_held, 0);
	the_port->memory.may_sleep = false;
	const PortLedger::Completing completing(the_port->ledger, completion);
	switch (kind) {
	case RPCORDMA_CQE_SERVER_RECEIVE:
		rpcordma_core_server_receive_done(server, &completion);
		break;
	case RPCORDMA_CQE_SERVER_SEND:
		rpcordma_core_server_send_done(server, &completion);
		break;
	case RPCORDMA_CQE_SERVER_READ:
		rpcordma_core_server_read_done(server, &completion);
		break;
	case RPCORDMA_CQE_SERVER_CHAIN:
		rpcordma_core_server_chain_done(server, &completion);
		break;
	case RPCORDMA_CQE_RECEIVE:
		rpcordma_core_receive_done(requester, &completion);
		break;
	case RPCORDMA_CQE_SEND:
		rpcordma_core_send_done(requester, &completion);
		break;
	case RPCORDMA_CQE_REGISTER:
		rpcordma_core_register_done(requester, &completion);
		break;
	case RPCORDMA_CQE_INVALIDATE:
		rpcordma_core_invalidate_done(requester, &completion);
		break;
	case RPCORDMA_CQE_GATHERED:
		rpcordma_core_gathered_done(requester, &completion);
		break;
	default:
		EXPECT_TRUE(false);
	}
	the_port->memory.may_sleep = sleepy;
	EXPECT_EQ(the_port->sync.locks_held, 0);
	the_port->client_ledger.handled();
}

bool PortVerbs::send(rpcordma_server *to, Bytes bytes, u32 invalidate)
{
	const rpcordma_recv_wr *wr = take_receive();

	if (!wr)
		return false;
	EXPECT_EQ(to, server);
	Bytes left = bytes;
	for (int i = 0; i < wr->num_sge && !left.empty(); i++) {
		const Bytes piece = left.first(wr->sg_list[i].length);

		__builtin_memcpy(the_port->dma.byte_of(wr->sg_list[i], 0), piece.data(),
				 piece.size());
		left = left.from(piece.size());
	}
	EXPECT_TRUE(left.empty());
	if (bytes.size() >= xdr::word_size) {
		the_port->ledger.know(xdr::load_be32(bytes.data()));
		the_port->client_ledger.know(xdr::load_be32(bytes.data()));
	}
	rpcordma_completion completion = {};
	completion.byte_len = u32(bytes.size());
	if (invalidate) {
		completion.flags = RPCORDMA_WC_WITH_INVALIDATE;
		completion.invalidated_rkey = invalidate;
		(void)the_port->dma.invalidate(invalidate);
	}
	const PortLog &log = the_port->log;
	const u32 calls = log.calls, decodes = log.decodes;
	const ServerCall *const same = !server || bytes.size() < 8 ?
					       nullptr :
					       call_with(*server, xdr_reference::word_at(bytes, 0));
	complete(wr->cqe, completion);
	if (server)
		expect_called(bytes, same, calls, decodes);
	return true;
}

/*
 * Of @message, which came: if it made a call, that was told of, as it is. There were so many events before, and the call
 * @before of that XID.
 */
void PortVerbs::expect_called(Bytes message, const ServerCall *before, u32 calls, u32 decodes) const
{
	const PortLog &log = the_port->log;
	const u32 xid = message.size() < 8 ? 0 : xdr_reference::word_at(message, 0);
	const ServerCall *const call = call_with(*server, xid);

	EXPECT_EQ(log.decodes - decodes, log.calls - calls);
	if (log.calls == calls) {
		/* There is another answer; or it is one of a group. */
		EXPECT_TRUE(!call || call == before || call->refused || server->closing.load() ||
			    (call->message().kind != xdr::Kind::msg &&
			     call->message().kind != xdr::Kind::nomsg));
		return;
	}
	EXPECT_EQ(log.calls, calls + 1);
	EXPECT_TRUE(same_words(log.reply.what, "call"));
	EXPECT_EQ(log.reply.xid, xid);
	EXPECT_EQ(log.decoded.xid, xid);
	xdr::Message header;
	const bool first = xdr_reference::word_at(message, 1) == 1;
	ASSERT_EQ(first ? v1::decode(message, header) : v2::decode(message, header), Error::none);
	EXPECT_EQ(log.decoded.credits, log.reply.credits);
	EXPECT_EQ(log.decoded.proc, log.reply.proc);
	/* Its first one may have said other things. */
	if (header.kind == xdr::Kind::optional)
		return;
	EXPECT_EQ(log.reply.credits, header.credits.get());
	EXPECT_EQ(log.reply.proc, u32(header.kind));
	EXPECT_EQ(log.reply.result, int(message.size()));
	EXPECT_EQ(log.decoded.header_length, header.header_length);
	EXPECT_EQ(log.decoded.inline_length, header.payload.size());
	EXPECT_EQ(log.decoded.read_segments, header.reads.count());
	EXPECT_EQ(log.decoded.read_length, header.reads.total_length());
	EXPECT_EQ(log.decoded.write_chunks, header.writes.count());
	EXPECT_EQ(log.decoded.write_segments, header.writes.segments());
	EXPECT_EQ(log.decoded.reply_segments, header.reply.count());
}

u32 PortVerbs::work(u32 n)
{
	u32 done = 0;

	for (; done < n && sends && (broken || !stuck); done++) {
		const Posted wr = send_queue[send_queue_first];

		send_queue_first = (send_queue_first + 1) % kMostSends;
		sends--;
		rpcordma_completion completion = {};
		if (broken) {
			completion.status = RPCORDMA_WC_FLUSHED;
		} else if (fail_at == 0) {
			completion.status = fail_status;
			fail_at = kNoLimit;
		} else {
			if (fail_at != kNoLimit)
				fail_at--;
			completion.status = execute(wr);
		}
		broken = broken || completion.status;
		if (completion.status || wr.send_flags & RPCORDMA_SEND_SIGNALED)
			complete(wr.cqe, completion);
	}
	return done;
}

void PortVerbs::flush()
{
	broken = true;
	while (const rpcordma_recv_wr *wr = take_receive()) {
		rpcordma_completion completion = {};
		completion.status = RPCORDMA_WC_FLUSHED;
		complete(wr->cqe, completion);
	}
	work();
}

void PortVerbs::new_queue_pair()
{
	EXPECT_EQ(sends, 0);
	EXPECT_EQ(posted, 0);
	broken = stuck = drained = completes_in_drain = false;
	takes_receives = true;
	the_port->svc.backward_outstanding = receives_refused = 0;
	partly_posted = {};
	fail_at = kNoLimit;
}

void PortVerbs::note_partly_posted(const rpcordma_send_wr &first)
{
	PartlyPosted &chain = partly_posted;

	/* After one the connection closes. */
	EXPECT_EQ(chain.cqe, nullptr);
	chain = {first.cqe, 0, 0, false, !the_port->memory.may_sleep};
	for (const rpcordma_send_wr *wr = &first; wr; wr = wr->next) {
		chain.requests++;
		chain.regions += wr->opcode == RPCORDMA_WR_REG_MR;
		chain.writes = chain.writes || wr->opcode == RPCORDMA_WR_RDMA_WRITE ||
			       wr->opcode == RPCORDMA_WR_SEND;
	}
}

int PortVerbs::post(const rpcordma_send_wr *first, const rpcordma_send_wr **bad)
{
	EXPECT_FALSE(drained);
	send_doorbells++;
	receives_at_send = posted;
	/* The room for all of them was taken before, whatever becomes of them. */
	if (const Server *to = server) {
		u32 needed = sends;

		for (const rpcordma_send_wr *wr = first; wr; wr = wr->next)
			needed++;
		EXPECT_LE(to->room.free() + needed, sizes.send_wrs);
	}
	for (const rpcordma_send_wr *wr = first; wr; wr = wr->next) {
		if (!take_one(sends_left)) {
			if (wr != first && server)
				note_partly_posted(*first);
			*bad = wr;
			return -12;
		}
		/* Accounting is the core's, so that this never happens. */
		EXPECT_LT(sends, sizes.send_wrs);
		EXPECT_LT(sends, PortVerbs::kMostSends);
		if (sends == PortVerbs::kMostSends) {
			*bad = wr;
			return -12;
		}
		Posted &p = send_queue[(send_queue_first + sends) % PortVerbs::kMostSends];
		p = {};
		p.opcode = wr->opcode;
		p.send_flags = wr->send_flags;
		p.cqe = wr->cqe;
		p.invalidate_rkey = wr->invalidate_rkey;
		if (wr->opcode == RPCORDMA_WR_RDMA_READ || wr->opcode == RPCORDMA_WR_RDMA_WRITE ||
		    wr->opcode == RPCORDMA_WR_RDMA_READ_WITH_INV) {
			const auto *rdma = reinterpret_cast<const rpcordma_rdma_wr *>(wr);

			p.rkey = rdma->rkey;
			p.remote_addr = rdma->remote_addr;
		}
		if (wr->opcode == RPCORDMA_WR_REG_MR) {
			const auto *reg = reinterpret_cast<const rpcordma_reg_wr *>(wr);

			p.region = reinterpret_cast<rpcordma_region *>(reg->mr);
			p.region_key = reg->key;
			p.access = reg->access;
		} else if (wr->opcode != RPCORDMA_WR_LOCAL_INV) {
			EXPECT_LE(wr->num_sge, sizes.send_sges);
			p.num_sge = min(wr->num_sge, 32);
			for (int i = 0; i < p.num_sge; i++)
				p.sges[i] = wr->sg_list[i];
		}
		sends++;
	}
	return 0;
}

void PortVerbs::expect_none() const
{
	EXPECT_EQ(sends, 0);
	EXPECT_EQ(posted, 0);
}

u8 *PortPeer::reach(const xdr::Segment &segment, u32 at, bool write)
{
	const rpcordma_region *region = the_port->dma.region_of(segment.handle.get());

	if (region && segment.offset >= region->iova && (!write || region->writable) &&
	    segment.offset - region->iova + at < region->length)
		return PortDma::byte_of(*region, segment.offset - region->iova + at);
	return nullptr;
}

} // namespace rpcordma

using namespace rpcordma;

/* --- verbs.h --- */

void rpcordma_cqe_init(rpcordma_cqe *cqe, rpcordma_cqe_kind kind)
{
	/* What else it may be is opaque: kinds are told apart, and from none. */
	cqe->done = reinterpret_cast<void *>(static_cast<__UINTPTR_TYPE__>(kind) + 1);
}

rpcordma_endpoint *rpcordma_endpoint_create(rpc_xprt *, void *context, int *error)
{
	if (the_port->verbs.create_result) {
		*error = the_port->verbs.create_result;
		return nullptr;
	}
	the_port->verbs.new_queue_pair();
	the_port->verbs.requester = context;
	the_port->sync.closing = false;
	the_port->verbs.kept_room = the_port->verbs.kept_markers = 0;
	return the_port->verbs.endpoint();
}

int rpcordma_endpoint_resolve(rpcordma_endpoint *, rpcordma_u32 limit)
{
	the_port->verbs.resolve_limit = limit;
	return the_port->verbs.resolve_result;
}

void rpcordma_endpoint_device(const rpcordma_endpoint *, rpcordma_device *device)
{
	*device = the_port->verbs.device;
}

int rpcordma_endpoint_create_qp(rpcordma_endpoint *endpoint, const rpcordma_queue_sizes *sizes)
{
	EXPECT_EQ(endpoint, the_port->verbs.endpoint());
	the_port->verbs.sizes = *sizes;
	the_port->verbs.receive_room = min(sizes->receive_wrs, PortVerbs::kMostReceives);
	the_port->verbs.qp_tries++;
	if (sizes->send_sges > the_port->verbs.qp_sges ||
	    sizes->receive_wrs > the_port->verbs.qp_receives ||
	    sizes->receive_sges > the_port->verbs.qp_receive_sges)
		return to_errno(Error::no_memory);
	return the_port->verbs.create_qp_result;
}

int rpcordma_endpoint_connect(rpcordma_endpoint *, const rpcordma_connect_parameters *parameters,
			      rpcordma_u32 limit)
{
	the_port->verbs.connects++;
	the_port->verbs.connected = true;
	the_port->verbs.connect_limit = limit;
	the_port->verbs.parameters = *parameters;
	__builtin_memcpy(the_port->verbs.private_data, parameters->private_data,
			 parameters->private_data_length);
	return the_port->verbs.connect_result;
}

int rpcordma_endpoint_accept(rpcordma_endpoint *endpoint,
			     const rpcordma_connect_parameters *parameters)
{
	EXPECT_EQ(endpoint, the_port->verbs.endpoint());
	the_port->verbs.parameters = *parameters;
	EXPECT_LE(parameters->private_data_length, sizeof(the_port->verbs.private_data));
	__builtin_memcpy(the_port->verbs.private_data, parameters->private_data,
			 parameters->private_data_length);
	the_port->verbs.accepted = the_port->verbs.accept_result == 0;
	return the_port->verbs.accept_result;
}

const void *rpcordma_endpoint_private_data(const rpcordma_endpoint *, rpcordma_u32 *length)
{
	*length = the_port->verbs.answer_length;
	return the_port->verbs.answer;
}

void rpcordma_endpoint_disconnect(rpcordma_endpoint *)
{
	the_port->verbs.disconnects++;
	the_port->verbs.connected = false;
}

void rpcordma_endpoint_drain(rpcordma_endpoint *)
{
	EXPECT_EQ(the_port->sync.locks_held, 0);
	/* The server learns of it now, and not when somebody destroys the endpoint. */
	EXPECT_FALSE(the_port->verbs.connected);
	/* Completions may come until it returns; none of them is to post. */
	the_port->verbs.drained = true;
	/* But for a reply that its Sends' completion ends: then its Receive is posted once more, and flushed. */
	the_port->verbs.takes_receives = the_port->verbs.requester;
	if (the_port->verbs.completes_in_drain)
		the_port->verbs.work();
	the_port->verbs.flush();
	the_port->verbs.takes_receives = false;
	the_port->verbs.flush();
}

void rpcordma_endpoint_destroy(rpcordma_endpoint *)
{
	the_port->verbs.requester = nullptr;
	/* Who ends a connection before the peer has said that it is there may still be told so, until this returns. */
	if (the_port->verbs.accepted) {
		the_port->verbs.accepted = false;
		rpcordma_core_server_event(the_port->verbs.server, RPCORDMA_EVENT_ESTABLISHED);
	}
	EXPECT_EQ(the_port->dma.mappings, 0);
	EXPECT_EQ(the_port->dma.bulk_maps, 0);
	EXPECT_EQ(the_port->dma.regions, 0);
}

/* Post the chain of @first. */
static int post_receives(PortVerbs &verbs, const rpcordma_recv_wr *first)
{
	EXPECT_TRUE(verbs.takes_receives);
	verbs.doorbells++;
	for (const rpcordma_recv_wr *wr = first; wr; wr = wr->next) {
		const u32 before = verbs.posted;

		if (!take_one(verbs.receives_left)) {
			for (; wr; wr = wr->next)
				verbs.receives_refused++;
			return -12;
		}
		verbs.post_one(*wr);
		/* A chain that bites its own tail would go on for ever. */
		if (verbs.posted == before)
			return -22;
	}
	return 0;
}

int rpcordma_post_receive(rpcordma_endpoint *endpoint, const rpcordma_recv_wr *first)
{
	EXPECT_EQ(endpoint, the_port->verbs.endpoint());
	const int error = post_receives(the_port->verbs, first);

	the_port->ledger.posted(first, error);
	return error;
}

rpcordma_posted rpcordma_post_send(rpcordma_endpoint *endpoint, const rpcordma_send_wr *first)
{
	EXPECT_EQ(endpoint, the_port->verbs.endpoint());
	const rpcordma_send_wr *bad = first;
	const int error = the_port->verbs.post(first, &bad);
	const PortLedger::Post chain = PortLedger::chain_of(first, error);

	the_port->client_ledger.posting(first, error);
	if (auto meanwhile = the_port->verbs.in_post) {
		the_port->verbs.in_post = nullptr;
		meanwhile();
	}
	the_port->ledger.posted(chain);
	return {error, bad != first};
}
