// SPDX-License-Identifier: GPL-2.0-only
/* The port's doubles for the tests of module/server; see test_server_port.hh. No tests here. */
#include "kunit/test_server_port.hh"

#include "kunit/test_server_dma.hh"
#include "module/server/server.hh"

/* Opaque behind the port. */
struct rpcordma_lock {
	bool held;
};

struct rpcordma_gate {
	rpcordma::u32 openings;
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

constexpr int kLocalError = 2; /* IB_WC_LOC_QP_OP_ERR */

page *all_pages[FakeServerPort::kMostPages];
Posted *queue;
u32 queue_first;
bool drained;

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
		if (!invalidate(wr.invalidate_rkey))
			return kLocalError;
		FakeServerPort::local_invalidations++;
		return RPCORDMA_WC_SUCCESS;
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
u32 FakeServerPort::pages, FakeServerPort::bulks, FakeServerPort::bulk_maps;
u32 FakeServerPort::regions, FakeServerPort::region_maps;
u32 FakeServerPort::locks, FakeServerPort::locks_held, FakeServerPort::gates, FakeServerPort::sends;
u32 FakeServerPort::send_doorbells, FakeServerPort::refills, FakeServerPort::waits;
u32 FakeServerPort::backward_outstanding;
PartlyPosted FakeServerPort::partly_posted;
u32 FakeServerPort::counters[RPCORDMA_SERVER_COUNTERS];
u32 FakeServerPort::logged, FakeServerPort::warned, FakeServerPort::disconnects;
rpcordma_device FakeServerPort::device;
rpcordma_queue_sizes FakeServerPort::sizes;
rpcordma_connect_parameters FakeServerPort::parameters;
u8 FakeServerPort::private_data[64];
u32 FakeServerPort::fail_at;
int FakeServerPort::fail_status;
bool FakeServerPort::broken, FakeServerPort::disconnect_in_wait;
bool FakeServerPort::completes_in_drain;
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
	want_for_nothing();
	in_post = nullptr;
	create_qp_result = accept_result = 0;
	qp_sges = kNoLimit;
	qp_tries = 0;
	pages = bulks = bulk_maps = regions = region_maps = 0;
	locks = locks_held = gates = sends = 0;
	backward_outstanding = 0;
	partly_posted = {};
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
	fail_status = 0;
	broken = drained = completes_in_drain = false;
	receives_at_send = 0;
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
	EXPECT_EQ(region_maps, 0);
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

void FakeServerPort::want_for_nothing()
{
	allocations_left = mappings_left = receives_left = kNoLimit;
	pages_left = bulks_left = bulk_maps_left = regions_left = region_maps_left = kNoLimit;
	scratch_maps_left = sends_left = locks_left = gates_left = kNoLimit;
	fail_at = kNoLimit;
	stalls = 0;
	disconnect_in_wait = false;
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
		(void)rpcordma::invalidate(invalidate);
	}
	complete(wr->cqe, completion);
	return true;
}

u8 *FakeServerPort::reach(const xdr::Segment &segment, u32 at, bool write)
{
	const rpcordma_region *region = region_of(segment.handle.get());

	if (region && segment.offset >= region->iova && (!write || region->writable) &&
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
	broken = drained = completes_in_drain = false;
	takes_receives = true;
	backward_outstanding = receives_refused = 0;
	partly_posted = {};
	fail_at = kNoLimit;
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
	if (!FakePort::one_of(FakeServerPort::locks_left))
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
	if (!FakePort::one_of(FakeServerPort::gates_left))
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
		if (void (*const what)() = FakePort::meanwhile) {
			FakePort::meanwhile = nullptr;
			what();
			continue;
		}
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
	FakePort::receive_room = min(sizes->receive_wrs, FakePort::kMost);
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
	/* Completions may come until it returns; none of them is to post. */
	drained = true;
	FakePort::takes_receives = false;
	if (FakeServerPort::completes_in_drain)
		FakeServerPort::work();
	FakeServerPort::flush();
}

void rpcordma_endpoint_destroy(rpcordma_endpoint *)
{
	FakeServerPort::requester = nullptr;
	EXPECT_EQ(FakePort::mappings, 0);
	EXPECT_EQ(FakeServerPort::regions, 0);
}

static void note_partly_posted(const rpcordma_send_wr &first)
{
	PartlyPosted &chain = FakeServerPort::partly_posted;

	/* After one the connection closes. */
	EXPECT_EQ(chain.cqe, nullptr);
	chain = {first.cqe, 0, 0, false, !FakePort::may_sleep};
	for (const rpcordma_send_wr *wr = &first; wr; wr = wr->next) {
		chain.requests++;
		chain.regions += wr->opcode == RPCORDMA_WR_REG_MR;
		chain.writes = chain.writes || wr->opcode == RPCORDMA_WR_RDMA_WRITE;
	}
}

static int post_send(rpcordma_endpoint *endpoint, const rpcordma_send_wr *first,
		     const rpcordma_send_wr **bad)
{
	EXPECT_EQ(endpoint, FakePort::endpoint());
	EXPECT_FALSE(drained);
	FakeServerPort::send_doorbells++;
	FakeServerPort::receives_at_send = FakePort::posted;
	/* The room for all of them was taken before, whatever becomes of them. */
	if (const Server *server = FakeServerPort::server) {
		u32 needed = FakeServerPort::sends;

		for (const rpcordma_send_wr *wr = first; wr; wr = wr->next)
			needed++;
		EXPECT_LE(server->room.load() + needed, FakeServerPort::sizes.send_wrs);
	}
	for (const rpcordma_send_wr *wr = first; wr; wr = wr->next) {
		if (!FakePort::one_of(FakeServerPort::sends_left)) {
			if (wr != first && FakeServerPort::server)
				note_partly_posted(*first);
			*bad = wr;
			return -12;
		}
		/* Accounting is the core's, so that this never happens. */
		EXPECT_LT(FakeServerPort::sends, FakeServerPort::sizes.send_wrs);
		EXPECT_LT(FakeServerPort::sends, FakeServerPort::kMostSends);
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
		if (!FakePort::one_of(FakeServerPort::pages_left))
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
	FakeServerPort::backward_outstanding -= FakeServerPort::backward_known &&
						FakeServerPort::backward_outstanding;
	return FakeServerPort::backward_known;
}

rpcordma_bool rpcordma_svc_backward_error(svc_xprt *, rpcordma_u32 xid, int error)
{
	FakeServerPort::backward_errors++;
	FakeServerPort::backward_xid = xid;
	FakeServerPort::backward_error = error;
	FakeServerPort::backward_outstanding -= FakeServerPort::backward_known &&
						FakeServerPort::backward_outstanding;
	return FakeServerPort::backward_known;
}
