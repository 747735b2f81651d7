// SPDX-License-Identifier: GPL-2.0-only
/* The port's doubles for the tests of module/server; see test_server_port.hh. No tests here. */
#include "kunit/test_server_port.hh"

/* Opaque behind the port. */
struct rpcordma_lock {
	bool held;
};

struct rpcordma_gate {
	rpcordma::u32 openings;
};

namespace rpcordma {

struct BulkPiece {
	u8 *at;
	u32 length;
};

} // namespace rpcordma

struct rpcordma_bulk {
	rpcordma::u32 room, count;
	bool mapped;
	rpcordma::BulkPiece *pieces;
};

struct rpcordma_region {
	rpcordma::u32 slot;
	rpcordma::u32 pages_most;
	rpcordma::u32 key;	  /* the fresh one, of the mapping */
	rpcordma::u32 registered; /* as the device knows it; 0: it does not */
	bool mapped, writable;
	rpcordma::u32 length, count;
	rpcordma::u64 iova;
	rpcordma::BulkPiece pieces[300];
};

struct rpcordma_server_tunables rpcordma_server_tunables;

namespace rpcordma {
namespace {

/** A work request as it was posted: what it points to may change afterwards. */
struct Posted {
	int opcode, send_flags, num_sge;
	u32 invalidate_rkey, rkey;
	u64 remote_addr;
	rpcordma_cqe *cqe;
	rpcordma_region *region;
	u32 region_key;
	rpcordma_sge sges[32];
};

constexpr u32 kMostRegions = 16;
constexpr u64 kRegionAddress = u64(9) << 40;
constexpr int kLocalError = 2; /* IB_WC_LOC_QP_OP_ERR */

page *all_pages[FakeServerPort::kMostPages];
rpcordma_region *all_regions[kMostRegions];
u32 last_key;
Posted *queue;
u32 queue_first;
bool drained;

bool one_of(u32 &left)
{
	if (left == FakePort::kNoLimit)
		return true;
	if (!left)
		return false;
	left--;
	return true;
}

/* Byte @at of what @region is mapped to. */
u8 *byte_of(const rpcordma_region &region, u64 at)
{
	EXPECT_TRUE(region.mapped);
	for (u32 i = 0; i < region.count; i++) {
		if (at < region.pieces[i].length)
			return region.pieces[i].at + at;
		at -= region.pieces[i].length;
	}
	EXPECT_TRUE(false);
	return FakeServerPort::client;
}

/* Byte @at of what @sge describes: plain memory, or a region's. */
u8 *byte_of(const rpcordma_sge &sge, u32 at)
{
	if (sge.addr < kRegionAddress || sge.addr >= kRegionAddress << 1)
		return reinterpret_cast<u8 *>(static_cast<__UINTPTR_TYPE__>(sge.addr)) + at;
	for (rpcordma_region *region : all_regions) {
		if (!region || region->registered != sge.lkey)
			continue;
		return byte_of(*region, (sge.addr & 0xffffffff) + at);
	}
	EXPECT_TRUE(false);
	return FakeServerPort::client;
}

u32 length_of(const Posted &wr)
{
	u32 length = 0;

	for (int i = 0; i < wr.num_sge; i++)
		length += wr.sges[i].length;
	return length;
}

/* Returns a completion's status. */
int transfer(const Posted &wr, bool write)
{
	const u64 offset = wr.remote_addr - FakeServerPort::kClientAddress;
	u32 at = 0;

	if (wr.rkey != FakeServerPort::kClientKey ||
	    wr.remote_addr < FakeServerPort::kClientAddress ||
	    offset + length_of(wr) > FakeServerPort::kClientBytes)
		return RPCORDMA_WC_REMOTE_ACCESS;
	EXPECT_GT(wr.num_sge, 0);
	for (int i = 0; i < wr.num_sge; i++)
		for (u32 n = 0; n < wr.sges[i].length; n++, at++) {
			u8 *local = byte_of(wr.sges[i], n);
			u8 *remote = FakeServerPort::client + offset + at;

			if (write)
				*remote = *local;
			else
				*local = *remote;
		}
	write ? FakeServerPort::writes++ : FakeServerPort::reads++;
	return RPCORDMA_WC_SUCCESS;
}

int execute(const Posted &wr)
{
	switch (wr.opcode) {
	case RPCORDMA_WR_RDMA_READ:
		return transfer(wr, false);
	case RPCORDMA_WR_RDMA_WRITE:
		return transfer(wr, true);
	case RPCORDMA_WR_SEND:
	case RPCORDMA_WR_SEND_WITH_INV:
		FakeServerPort::message_length = 0;
		EXPECT_LE(length_of(wr), sizeof(FakeServerPort::message));
		for (int i = 0; i < wr.num_sge; i++)
			for (u32 n = 0; n < wr.sges[i].length; n++)
				FakeServerPort::message[FakeServerPort::message_length++] =
					*byte_of(wr.sges[i], n);
		FakeServerPort::messages++;
		FakeServerPort::invalidated =
			wr.opcode == RPCORDMA_WR_SEND_WITH_INV ? wr.invalidate_rkey : 0;
		return RPCORDMA_WC_SUCCESS;
	case RPCORDMA_WR_REG_MR:
		if (wr.region->registered)
			return kLocalError;
		wr.region->registered = wr.region_key;
		return RPCORDMA_WC_SUCCESS;
	case RPCORDMA_WR_LOCAL_INV:
		/* Without the fence it may overtake the Reads into what it invalidates. */
		EXPECT_TRUE(FakeServerPort::requester || wr.send_flags & RPCORDMA_SEND_FENCE);
		for (rpcordma_region *region : all_regions)
			if (region && wr.invalidate_rkey &&
			    region->registered == wr.invalidate_rkey) {
				region->registered = 0;
				FakeServerPort::local_invalidations++;
				return RPCORDMA_WC_SUCCESS;
			}
		return kLocalError;
	}
	EXPECT_TRUE(false);
	return kLocalError;
}

void complete(rpcordma_cqe *cqe, const rpcordma_completion &completion)
{
	const auto kind = static_cast<int>(reinterpret_cast<__UINTPTR_TYPE__>(cqe->done)) - 1;
	const bool sleepy = FakePort::may_sleep;

	EXPECT_EQ(FakeServerPort::locks_held, 0);
	FakePort::may_sleep = false;
	switch (kind) {
	case RPCORDMA_CQE_SERVER_RECEIVE:
		rpcordma_core_server_receive_done(FakeServerPort::server, cqe, &completion);
		break;
	case RPCORDMA_CQE_SERVER_SEND:
		rpcordma_core_server_send_done(FakeServerPort::server, cqe, &completion);
		break;
	case RPCORDMA_CQE_SERVER_READ:
		rpcordma_core_server_read_done(FakeServerPort::server, cqe, &completion);
		break;
	case RPCORDMA_CQE_SERVER_CHAIN:
		rpcordma_core_server_chain_done(FakeServerPort::server, cqe, &completion);
		break;
	case RPCORDMA_CQE_RECEIVE:
		rpcordma_core_receive_done(FakeServerPort::requester, cqe, &completion);
		break;
	case RPCORDMA_CQE_SEND:
		rpcordma_core_send_done(FakeServerPort::requester, cqe, &completion);
		break;
	case RPCORDMA_CQE_REGISTER:
		rpcordma_core_register_done(FakeServerPort::requester, cqe, &completion);
		break;
	case RPCORDMA_CQE_INVALIDATE:
		rpcordma_core_invalidate_done(FakeServerPort::requester, cqe, &completion);
		break;
	default:
		EXPECT_TRUE(false);
	}
	FakePort::may_sleep = sleepy;
	EXPECT_EQ(FakeServerPort::locks_held, 0);
}

} // namespace

u32 FakeServerPort::pages_left, FakeServerPort::bulks_left, FakeServerPort::bulk_maps_left;
u32 FakeServerPort::regions_left, FakeServerPort::region_maps_left;
u32 FakeServerPort::scratch_maps_left, FakeServerPort::sends_left;
u32 FakeServerPort::locks_left, FakeServerPort::gates_left;
void (*FakeServerPort::in_post)();
int FakeServerPort::create_qp_result, FakeServerPort::accept_result;
u32 FakeServerPort::qp_sges, FakeServerPort::qp_tries;
u32 FakeServerPort::pages, FakeServerPort::bulks, FakeServerPort::bulk_maps, FakeServerPort::regions;
u32 FakeServerPort::locks, FakeServerPort::locks_held, FakeServerPort::gates, FakeServerPort::sends;
u32 FakeServerPort::send_doorbells, FakeServerPort::refills, FakeServerPort::waits;
u32 FakeServerPort::counters[RPCORDMA_SERVER_COUNTERS];
u32 FakeServerPort::logged, FakeServerPort::warned, FakeServerPort::disconnects;
rpcordma_device FakeServerPort::device;
rpcordma_queue_sizes FakeServerPort::sizes;
rpcordma_connect_parameters FakeServerPort::parameters;
u8 FakeServerPort::private_data[64];
u32 FakeServerPort::fail_at;
int FakeServerPort::fail_status;
bool FakeServerPort::broken, FakeServerPort::disconnect_in_wait;
u32 FakeServerPort::stalls, FakeServerPort::receives_at_send;
u64 FakeServerPort::now;
u8 *FakeServerPort::client;
u8 FakeServerPort::message[8192];
u32 FakeServerPort::message_length, FakeServerPort::messages, FakeServerPort::invalidated;
u32 FakeServerPort::reads, FakeServerPort::writes, FakeServerPort::local_invalidations;
rpcordma_svc_limits FakeServerPort::limits;
bool FakeServerPort::data, FakeServerPort::dead, FakeServerPort::backward_known;
u32 FakeServerPort::enqueued, FakeServerPort::received, FakeServerPort::closed;
u32 FakeServerPort::backward_replies, FakeServerPort::backward_errors, FakeServerPort::backward_xid;
u32 FakeServerPort::backward_credits, FakeServerPort::backward_length;
int FakeServerPort::backward_error;
rpcordma_server *FakeServerPort::server;
void *FakeServerPort::requester;

FakeServerPort::FakeServerPort()
{
	may_sleep = true;
	pages_left = bulks_left = bulk_maps_left = regions_left = region_maps_left = kNoLimit;
	scratch_maps_left = kNoLimit;
	in_post = nullptr;
	sends_left = locks_left = gates_left = kNoLimit;
	create_qp_result = accept_result = 0;
	qp_sges = kNoLimit;
	qp_tries = 0;
	pages = bulks = bulk_maps = regions = locks = locks_held = gates = sends = 0;
	send_doorbells = refills = waits = logged = warned = disconnects = 0;
	__builtin_memset(counters, 0, sizeof(counters));
	device = {};
	device.fast_registration = true;
	device.max_fast_reg_pages = 512;
	device.max_send_sge = 32;
	device.max_qp_wr = 4096;
	device.max_cqe = 4096;
	device.max_qp_rd_atom = device.max_qp_init_rd_atom = 16;
	device.max_sge_rd = 32;
	device.page_size = device.mr_page_size = kPageSize;
	sizes = {};
	parameters = {};
	fail_at = kNoLimit;
	fail_status = 0;
	broken = disconnect_in_wait = drained = false;
	stalls = receives_at_send = 0;
	now = 5000000;
	client = test_alloc(kClientBytes).data();
	for (u32 i = 0; i < kClientBytes; i++)
		client[i] = u8(i * 31 + (i >> 8) * 7);
	queue = reinterpret_cast<Posted *>(test_alloc(kMostSends * sizeof(Posted)).data());
	queue_first = 0;
	message_length = messages = invalidated = reads = writes = local_invalidations = 0;
	limits = {16 * 1024, 256, 8};
	data = dead = backward_known = false;
	enqueued = received = closed = 0;
	backward_replies = backward_errors = backward_xid = backward_credits = backward_length = 0;
	backward_error = 0;
	server = nullptr;
	requester = nullptr;
	last_key = 1000;
	rpcordma_server_tunables = {};
	rpcordma_server_tunables.max_requests = 64;
	rpcordma_server_tunables.max_req_size = 1024;
	rpcordma_server_tunables.max_outbound_read_requests = 16;
	rpcordma_server_tunables.rnr_retry_count = 7;
}

FakeServerPort::~FakeServerPort()
{
	EXPECT_EQ(pages, 0);
	EXPECT_EQ(bulks, 0);
	EXPECT_EQ(bulk_maps, 0);
	EXPECT_EQ(regions, 0);
	EXPECT_EQ(locks, 0);
	EXPECT_EQ(locks_held, 0);
	EXPECT_EQ(gates, 0);
	EXPECT_EQ(sends, 0);
	EXPECT_EQ(posted, 0);
	EXPECT_EQ(warned, 0);
	for (page *p : all_pages)
		if (p)
			free_page(p);
}

page *FakeServerPort::new_page()
{
	static u32 next;

	for (u32 turn = 0; turn < kMostPages; turn++) {
		const u32 i = next++ % kMostPages;

		if (all_pages[i])
			continue;
		page *p = static_cast<page *>(rpcordma_test_alloc(sizeof(page)));

		p->data = static_cast<u8 *>(rpcordma_test_alloc(kPageSize));
		/* What was there before is nobody's business. */
		__builtin_memset(p->data, 0xdd, kPageSize);
		p->slot = i;
		all_pages[i] = p;
		pages++;
		return p;
	}
	EXPECT_TRUE(false);
	return nullptr;
}

void FakeServerPort::free_page(page *p)
{
	EXPECT_EQ(all_pages[p->slot], p);
	all_pages[p->slot] = nullptr;
	rpcordma_test_free(p->data, kPageSize);
	rpcordma_test_free(p, sizeof(*p));
	pages--;
}

bool FakeServerPort::send(rpcordma_server *to, Bytes bytes, u32 invalidate)
{
	const rpcordma_recv_wr *wr = take_receive();

	if (!wr)
		return false;
	EXPECT_EQ(to, server);
	EXPECT_LE(bytes.size(), wr->sg_list->length);
	__builtin_memcpy(reinterpret_cast<void *>(static_cast<__UINTPTR_TYPE__>(wr->sg_list->addr)),
			 bytes.data(), bytes.size());
	rpcordma_completion completion = {};
	completion.byte_len = u32(bytes.size());
	if (invalidate) {
		completion.flags = RPCORDMA_WC_WITH_INVALIDATE;
		completion.invalidated_rkey = invalidate;
		for (rpcordma_region *region : all_regions)
			if (region && region->registered == invalidate)
				region->registered = 0;
	}
	complete(wr->cqe, completion);
	return true;
}

u8 *FakeServerPort::reach(const xdr::Segment &segment, u32 at, bool write)
{
	for (rpcordma_region *region : all_regions)
		if (region && region->registered && region->registered == segment.handle.get() &&
		    segment.offset >= region->iova && (!write || region->writable) &&
		    segment.offset - region->iova + at < region->length)
			return byte_of(*region, segment.offset - region->iova + at);
	return nullptr;
}

u32 FakeServerPort::work(u32 n)
{
	u32 done = 0;

	for (; done < n && sends; done++) {
		const Posted wr = queue[queue_first];

		queue_first = (queue_first + 1) % kMostSends;
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

void FakeServerPort::flush()
{
	broken = true;
	while (const rpcordma_recv_wr *wr = take_receive()) {
		rpcordma_completion completion = {};
		completion.status = RPCORDMA_WC_FLUSHED;
		complete(wr->cqe, completion);
	}
	work();
}

void FakeServerPort::new_queue_pair()
{
	EXPECT_EQ(sends, 0);
	EXPECT_EQ(posted, 0);
	broken = drained = false;
	fail_at = kNoLimit;
}

/* --- the bytes of an xdr_buf --- */

/* The @length bytes of @buf from @offset on, in pieces that are contiguous; false: @visit stopped it. */
template <typename Visit>
static bool each_piece_of(const rpcordma_xdr_buf *buf, u32 offset, u32 length, Visit &&visit)
{
	while (length) {
		u32 at = offset, n;
		u8 *from;

		if (at < buf->head.length) {
			from = static_cast<u8 *>(buf->head.base) + at;
			n = u32(buf->head.length) - at;
		} else if ((at -= u32(buf->head.length)) < buf->page_length) {
			const u32 in_pages = buf->page_base + at;

			from = buf->pages[in_pages / FakeServerPort::kPageSize]->data +
			       in_pages % FakeServerPort::kPageSize;
			n = min(buf->page_length - at,
				FakeServerPort::kPageSize - in_pages % FakeServerPort::kPageSize);
		} else {
			at -= buf->page_length;
			if (at >= buf->tail.length) {
				EXPECT_TRUE(false);
				return false;
			}
			from = static_cast<u8 *>(buf->tail.base) + at;
			n = u32(buf->tail.length) - at;
		}
		n = min(n, length);
		if (!visit(from, n))
			return false;
		offset += n;
		length -= n;
	}
	return true;
}

/* The same of a buffer that says how long it is. */
template <typename Visit>
static bool each_piece(const rpcordma_xdr_buf *buf, u32 offset, u32 length, Visit &&visit)
{
	EXPECT_LE(u64(offset) + length, buf->len);
	return each_piece_of(buf, offset, length, static_cast<Visit &&>(visit));
}

} // namespace rpcordma

using namespace rpcordma;

/* --- base.h --- */

rpcordma_u64 rpcordma_now_ms(void)
{
	return FakeServerPort::now;
}

rpcordma_lock *rpcordma_lock_create(rpcordma_lock_class)
{
	if (!one_of(FakeServerPort::locks_left))
		return nullptr;
	FakeServerPort::locks++;
	auto *lock = static_cast<rpcordma_lock *>(rpcordma_test_alloc(sizeof(rpcordma_lock)));
	lock->held = false;
	return lock;
}

void rpcordma_lock_destroy(rpcordma_lock *lock)
{
	if (!lock)
		return;
	EXPECT_FALSE(lock->held);
	rpcordma_test_free(lock, sizeof(*lock));
	FakeServerPort::locks--;
}

void rpcordma_lock_acquire(rpcordma_lock *lock)
{
	EXPECT_FALSE(lock->held);
	lock->held = true;
	FakeServerPort::locks_held++;
}

void rpcordma_lock_release(rpcordma_lock *lock)
{
	EXPECT_TRUE(lock->held);
	lock->held = false;
	FakeServerPort::locks_held--;
}

rpcordma_gate *rpcordma_gate_create(void)
{
	if (!one_of(FakeServerPort::gates_left))
		return nullptr;
	FakeServerPort::gates++;
	auto *gate = static_cast<rpcordma_gate *>(rpcordma_test_alloc(sizeof(rpcordma_gate)));
	gate->openings = 0;
	return gate;
}

void rpcordma_gate_destroy(rpcordma_gate *gate)
{
	if (!gate)
		return;
	rpcordma_test_free(gate, sizeof(*gate));
	FakeServerPort::gates--;
}

rpcordma_u32 rpcordma_gate_ticket(rpcordma_gate *gate)
{
	return gate->openings;
}

/* Who waits has only the device to wait for. */
rpcordma_bool rpcordma_gate_wait(rpcordma_gate *gate, rpcordma_u32 ticket, rpcordma_u32 limit_ms)
{
	EXPECT_TRUE(FakePort::may_sleep);
	EXPECT_EQ(FakeServerPort::locks_held, 0);
	FakeServerPort::waits++;
	while (gate->openings == ticket) {
		if (FakeServerPort::work(1))
			continue;
		if (FakeServerPort::disconnect_in_wait) {
			FakeServerPort::disconnect_in_wait = false;
			rpcordma_core_server_event(FakeServerPort::server,
						   RPCORDMA_EVENT_DISCONNECTED);
			continue;
		}
		if (FakeServerPort::stalls) {
			FakeServerPort::stalls--;
			FakeServerPort::now += limit_ms;
			return false;
		}
		/* For ever, that is. */
		EXPECT_TRUE(false);
		rpcordma_core_server_event(FakeServerPort::server, RPCORDMA_EVENT_QP_FATAL);
		return false;
	}
	return true;
}

void rpcordma_gate_open(rpcordma_gate *gate)
{
	gate->openings++;
}

void rpcordma_log(const rpcordma_peer *, rpcordma_level, const char *)
{
	FakeServerPort::logged++;
}

void rpcordma_log_value(const rpcordma_peer *, rpcordma_level, const char *, long long)
{
	FakeServerPort::logged++;
}

void rpcordma_log_string(const rpcordma_peer *, rpcordma_level, const char *, const char *)
{
	FakeServerPort::logged++;
}

void rpcordma_warn(const char *)
{
	FakeServerPort::warned++;
}

/* --- trace.h --- */

void rpcordma_trace_connection(const rpcordma_peer *, const char *, int)
{
}

void rpcordma_trace_completion(const rpcordma_peer *, const char *, int, rpcordma_u32, rpcordma_u32)
{
}

void rpcordma_trace_credits(const rpcordma_peer *, rpcordma_u32, rpcordma_u32)
{
}

void rpcordma_trace_reply(const rpcordma_peer *, const char *, rpcordma_u32, rpcordma_u32,
			  rpcordma_u32, int)
{
}

/* --- verbs.h --- */

void rpcordma_endpoint_device(const rpcordma_endpoint *, rpcordma_device *device)
{
	*device = FakeServerPort::device;
}

int rpcordma_endpoint_create_qp(rpcordma_endpoint *endpoint, const rpcordma_queue_sizes *sizes)
{
	EXPECT_EQ(endpoint, FakePort::endpoint());
	FakeServerPort::sizes = *sizes;
	FakeServerPort::qp_tries++;
	if (sizes->send_sges > FakeServerPort::qp_sges)
		return to_errno(Error::no_memory);
	return FakeServerPort::create_qp_result;
}

int rpcordma_endpoint_accept(rpcordma_endpoint *endpoint,
			     const rpcordma_connect_parameters *parameters)
{
	EXPECT_EQ(endpoint, FakePort::endpoint());
	FakeServerPort::parameters = *parameters;
	EXPECT_LE(parameters->private_data_length, sizeof(FakeServerPort::private_data));
	__builtin_memcpy(FakeServerPort::private_data, parameters->private_data,
			 parameters->private_data_length);
	return FakeServerPort::accept_result;
}

void rpcordma_endpoint_disconnect(rpcordma_endpoint *)
{
	FakeServerPort::disconnects++;
}

void rpcordma_endpoint_drain(rpcordma_endpoint *)
{
	EXPECT_EQ(FakeServerPort::locks_held, 0);
	FakeServerPort::flush();
	drained = true;
}

void rpcordma_endpoint_destroy(rpcordma_endpoint *)
{
	FakeServerPort::requester = nullptr;
	EXPECT_EQ(FakePort::mappings, 0);
	EXPECT_EQ(FakeServerPort::regions, 0);
}

static int post_send(rpcordma_endpoint *endpoint, const rpcordma_send_wr *first,
		     const rpcordma_send_wr **bad)
{
	EXPECT_EQ(endpoint, FakePort::endpoint());
	EXPECT_FALSE(drained);
	FakeServerPort::send_doorbells++;
	FakeServerPort::receives_at_send = FakePort::posted;
	for (const rpcordma_send_wr *wr = first; wr; wr = wr->next) {
		if (!one_of(FakeServerPort::sends_left)) {
			*bad = wr;
			return -12;
		}
		/* Accounting is the core's, so that this never happens. */
		EXPECT_LT(FakeServerPort::sends, FakeServerPort::sizes.send_wrs);
		if (FakeServerPort::sends == FakeServerPort::kMostSends) {
			*bad = wr;
			return -12;
		}
		Posted &p =
			queue[(queue_first + FakeServerPort::sends) % FakeServerPort::kMostSends];
		p = {};
		p.opcode = wr->opcode;
		p.send_flags = wr->send_flags;
		p.cqe = wr->cqe;
		p.invalidate_rkey = wr->invalidate_rkey;
		if (wr->opcode == RPCORDMA_WR_RDMA_READ || wr->opcode == RPCORDMA_WR_RDMA_WRITE) {
			const auto *rdma = reinterpret_cast<const rpcordma_rdma_wr *>(wr);

			p.rkey = rdma->rkey;
			p.remote_addr = rdma->remote_addr;
		}
		if (wr->opcode == RPCORDMA_WR_REG_MR) {
			const auto *reg = reinterpret_cast<const rpcordma_reg_wr *>(wr);

			p.region = reinterpret_cast<rpcordma_region *>(reg->mr);
			p.region_key = reg->key;
		} else if (wr->opcode != RPCORDMA_WR_LOCAL_INV) {
			EXPECT_LE(wr->num_sge, FakeServerPort::sizes.send_sges);
			p.num_sge = min(wr->num_sge, 32);
			for (int i = 0; i < p.num_sge; i++)
				p.sges[i] = wr->sg_list[i];
		}
		FakeServerPort::sends++;
	}
	return 0;
}

int rpcordma_post_send(rpcordma_endpoint *endpoint, const rpcordma_send_wr *first,
		       const rpcordma_send_wr **bad)
{
	const int rc = post_send(endpoint, first, bad);

	if (auto meanwhile = FakeServerPort::in_post) {
		FakeServerPort::in_post = nullptr;
		meanwhile();
	}
	return rc;
}

void rpcordma_dma_sync_for_device(rpcordma_endpoint *, const rpcordma_sge *, rpcordma_u32)
{
}

void rpcordma_dma_sync_for_cpu(rpcordma_endpoint *, const rpcordma_sge *, rpcordma_u32)
{
}

rpcordma_region *rpcordma_region_create(rpcordma_endpoint *, rpcordma_u32 pages, rpcordma_bool,
					int *error)
{
	EXPECT_TRUE(FakePort::may_sleep);
	EXPECT_EQ(FakeServerPort::locks_held, 0);
	for (u32 i = 0; i < kMostRegions; i++) {
		if (all_regions[i] || !one_of(FakeServerPort::regions_left))
			continue;
		auto *region =
			static_cast<rpcordma_region *>(rpcordma_test_alloc(sizeof(rpcordma_region)));
		__builtin_memset(region, 0, sizeof(*region));
		region->slot = i;
		region->pages_most = pages;
		all_regions[i] = region;
		FakeServerPort::regions++;
		return region;
	}
	*error = -12;
	return nullptr;
}

void rpcordma_region_destroy(rpcordma_region *region)
{
	EXPECT_TRUE(FakePort::may_sleep);
	all_regions[region->slot] = nullptr;
	rpcordma_test_free(region, sizeof(*region));
	FakeServerPort::regions--;
}

int rpcordma_region_map(rpcordma_region *region, const rpcordma_xdr_buf *buf, rpcordma_u32 offset,
			rpcordma_u32 length, rpcordma_bool writable, rpcordma_u32 tag,
			rpcordma_reg_wr *wr, rpcordma_mapping *mapping)
{
	EXPECT_FALSE(region->mapped);
	if (!FakeServerPort::requester) {
		EXPECT_TRUE(writable);
		EXPECT_LE(div_round_up(length, FakeServerPort::kPageSize), region->pages_most);
		EXPECT_EQ(offset % FakeServerPort::kPageSize, 0);
	}
	if (!one_of(FakeServerPort::region_maps_left))
		return -12;
	region->count = 0;
	region->length = length;
	region->writable = writable;
	const bool mapped = each_piece_of(buf, offset, length, [region](u8 *at, u32 n) {
		if (region->count == sizeof(region->pieces) / sizeof(*region->pieces))
			return false;
		region->pieces[region->count++] = {at, n};
		return true;
	});
	EXPECT_TRUE(mapped);
	region->mapped = true;
	region->key = ++last_key;
	region->iova = FakeServerPort::requester ? u64(tag) << 32 :
						   kRegionAddress + (u64(region->slot) << 32);
	wr->mr = reinterpret_cast<ib_mr *>(region);
	wr->key = region->key;
	*mapping = {region->key, region->key, length, region->iova};
	return 0;
}

void rpcordma_region_unmap(rpcordma_region *region)
{
	/* The peer could write to it, whoever has the pages next. */
	EXPECT_TRUE(!region->registered || FakeServerPort::broken);
	region->mapped = false;
}

/* One page for all, whose bytes nobody reads. */
int rpcordma_region_map_scratch(rpcordma_region *region, rpcordma_reg_wr *wr)
{
	static u8 scratch[FakeServerPort::kPageSize];

	EXPECT_FALSE(region->mapped);
	EXPECT_EQ(region->registered, 0);
	if (!one_of(FakeServerPort::scratch_maps_left))
		return -12;
	region->count = 0;
	for (u32 left = region->length; left;) {
		const u32 n = min(left, FakeServerPort::kPageSize);

		region->pieces[region->count++] = {scratch, n};
		left -= n;
	}
	region->mapped = true;
	wr->mr = reinterpret_cast<ib_mr *>(region);
	wr->key = region->key;
	return 0;
}

/* --- svc.h --- */

void rpcordma_server_count(rpcordma_server_counter which, rpcordma_u32 add)
{
	FakeServerPort::counters[which] += add;
}

rpcordma_u64 rpcordma_svc_address_key(const svc_xprt *)
{
	return 4711;
}

void rpcordma_svc_get_limits(const svc_xprt *, rpcordma_svc_limits *limits)
{
	*limits = FakeServerPort::limits;
}

void rpcordma_svc_close(svc_xprt *)
{
	FakeServerPort::closed++;
}

void rpcordma_svc_set_data(svc_xprt *)
{
	EXPECT_EQ(FakeServerPort::locks_held, 1);
	FakeServerPort::data = true;
}

void rpcordma_svc_clear_data(svc_xprt *)
{
	EXPECT_EQ(FakeServerPort::locks_held, 1);
	FakeServerPort::data = false;
}

void rpcordma_svc_enqueue(svc_xprt *)
{
	EXPECT_EQ(FakeServerPort::locks_held, 0);
	FakeServerPort::enqueued++;
}

void rpcordma_svc_received(svc_xprt *)
{
	EXPECT_EQ(FakeServerPort::locks_held, 0);
	FakeServerPort::received++;
}

void rpcordma_svc_set_arg(svc_rqst *rqst, svc_xprt *, rpcordma_server_call *call,
			  const rpcordma_svc_arg *arg)
{
	rqst->call = call;
	rqst->arg = *arg;
	rqst->calls++;
}

void rpcordma_svc_swap_pages(svc_rqst *rqst, page **pages, rpcordma_u32 count)
{
	ASSERT_LE(count, svc_rqst::kPages);
	for (u32 i = 0; i < count; i++) {
		page *const p = rqst->pages[i];

		rqst->pages[i] = pages[i];
		pages[i] = p;
	}
}

void rpcordma_svc_lend_pages(svc_rqst *rqst, page **pages, rpcordma_u32 count)
{
	ASSERT_LE(count, svc_rqst::kPages);
	for (u32 i = 0; i < count; i++) {
		pages[i] = rqst->pages[i];
		rqst->pages[i] = nullptr;
	}
}

rpcordma_xdr_buf *rpcordma_svc_reply(svc_rqst *rqst)
{
	return &rqst->reply;
}

rpcordma_bool rpcordma_svc_ddp_allowed(const svc_rqst *rqst)
{
	return rqst->ddp_allowed;
}

rpcordma_u32 rpcordma_svc_take_reply_pages(svc_rqst *rqst, page **pages, rpcordma_u32 room)
{
	/* The head has one at least. */
	const u32 count = max(rqst->reply_pages, 1u);

	if (count > room)
		return 0;
	for (u32 i = 0; i < count; i++) {
		pages[i] = rqst->pages[rqst->arg.pages_used + i];
		rqst->pages[rqst->arg.pages_used + i] = nullptr;
	}
	return count;
}

rpcordma_u32 rpcordma_pages_alloc(page **pages, rpcordma_u32 count, rpcordma_alloc_how how)
{
	EXPECT_TRUE(how == RPCORDMA_ALLOC_ATOMIC ||
		    (FakePort::may_sleep && !FakeServerPort::locks_held));
	for (u32 i = 0; i < count; i++) {
		if (!one_of(FakeServerPort::pages_left))
			return i;
		pages[i] = FakeServerPort::new_page();
	}
	return count;
}

void rpcordma_pages_release(page **pages, rpcordma_u32 count)
{
	for (u32 i = 0; i < count; i++)
		if (pages[i])
			FakeServerPort::free_page(pages[i]);
}

void rpcordma_pages_write(page **pages, rpcordma_u32 offset, const void *from, rpcordma_u32 length)
{
	for (u32 i = 0; i < length; i++, offset++)
		pages[offset / FakeServerPort::kPageSize]->data[offset % FakeServerPort::kPageSize] =
			static_cast<const u8 *>(from)[i];
}

void rpcordma_server_queue_refill(void)
{
	EXPECT_EQ(FakeServerPort::locks_held, 0);
	FakeServerPort::refills++;
}

rpcordma_bool rpcordma_svc_backward_reply(svc_xprt *, rpcordma_u32 xid, const void *,
					  rpcordma_u32 length, rpcordma_u32 credits)
{
	FakeServerPort::backward_replies++;
	FakeServerPort::backward_xid = xid;
	FakeServerPort::backward_length = length;
	FakeServerPort::backward_credits = credits;
	return FakeServerPort::backward_known;
}

rpcordma_bool rpcordma_svc_backward_error(svc_xprt *, rpcordma_u32 xid, int error)
{
	FakeServerPort::backward_errors++;
	FakeServerPort::backward_xid = xid;
	FakeServerPort::backward_error = error;
	return FakeServerPort::backward_known;
}

rpcordma_bulk *rpcordma_bulk_create(rpcordma_u32 pieces, rpcordma_alloc_how how)
{
	EXPECT_TRUE(how == RPCORDMA_ALLOC_ATOMIC ||
		    (FakePort::may_sleep && !FakeServerPort::locks_held));
	if (!one_of(FakeServerPort::bulks_left))
		return nullptr;
	auto *bulk = static_cast<rpcordma_bulk *>(rpcordma_test_alloc(sizeof(rpcordma_bulk)));
	*bulk = {pieces, 0, false, nullptr};
	bulk->pieces = static_cast<BulkPiece *>(rpcordma_test_alloc(pieces * sizeof(BulkPiece)));
	FakeServerPort::bulks++;
	return bulk;
}

void rpcordma_bulk_destroy(rpcordma_bulk *bulk)
{
	EXPECT_FALSE(bulk->mapped);
	rpcordma_test_free(bulk->pieces, bulk->room * sizeof(BulkPiece));
	rpcordma_test_free(bulk, sizeof(*bulk));
	FakeServerPort::bulks--;
}

static bool add_piece(rpcordma_bulk *bulk, u8 *at, u32 length)
{
	EXPECT_FALSE(bulk->mapped);
	if (bulk->count == bulk->room)
		return false;
	bulk->pieces[bulk->count++] = {at, length};
	return true;
}

int rpcordma_bulk_add_pages(rpcordma_bulk *bulk, page **pages, rpcordma_u32 offset,
			    rpcordma_u32 length)
{
	rpcordma_xdr_buf buf = {};

	buf.pages = pages;
	buf.page_base = offset;
	buf.page_length = buf.len = length;
	return rpcordma_bulk_add_buf(bulk, &buf, 0, length);
}

int rpcordma_bulk_add_buf(rpcordma_bulk *bulk, const rpcordma_xdr_buf *buf, rpcordma_u32 offset,
			  rpcordma_u32 length)
{
	return each_piece(buf, offset, length,
			  [bulk](u8 *at, u32 n) { return add_piece(bulk, at, n); }) ?
		       0 :
		       -28;
}

int rpcordma_bulk_map(rpcordma_bulk *bulk, rpcordma_endpoint *endpoint, rpcordma_dma,
		      rpcordma_sge *sges, rpcordma_u32 room)
{
	EXPECT_EQ(endpoint, FakePort::endpoint());
	EXPECT_FALSE(bulk->mapped);
	if (!one_of(FakeServerPort::bulk_maps_left)) {
		bulk->count = 0;
		return -12;
	}
	EXPECT_LE(bulk->count, room);
	for (u32 i = 0; i < bulk->count; i++)
		sges[i] = {reinterpret_cast<__UINTPTR_TYPE__>(bulk->pieces[i].at),
			   bulk->pieces[i].length, 1};
	bulk->mapped = true;
	FakeServerPort::bulk_maps++;
	return int(bulk->count);
}

void rpcordma_bulk_unmap(rpcordma_bulk *bulk)
{
	if (bulk->mapped)
		FakeServerPort::bulk_maps--;
	bulk->mapped = false;
	bulk->count = 0;
}

void rpcordma_buf_read(const rpcordma_xdr_buf *buf, rpcordma_u32 offset, void *to,
		       rpcordma_u32 length)
{
	u8 *at = static_cast<u8 *>(to);

	(void)each_piece(buf, offset, length, [&at](u8 *from, u32 n) {
		__builtin_memcpy(at, from, n);
		at += n;
		return true;
	});
}
