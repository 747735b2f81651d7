// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cases of queue pairs and completion queues.
 */
#include <linux/delay.h>

#include "rules.h"

/* A peer may read and write. */
#define BOTH	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

/* A Write of nothing takes one block of the send queue and no Receive. */
static int nothing(struct end *e, u64 wr_id, bool silent)
{
	return post_wr(e, wr_id, (struct op){IB_WR_RDMA_WRITE, .silent = silent});
}

/* Room comes back with a completion that is polled, and with nothing else. */
static int sq_room(struct bed *bed)
{
	struct end *a = &bed->a;
	struct vhca_qp *qp = to_vqp(a->qp);
	u32 i, blocks = qp->blocks;

	for (i = 0; i < blocks - 1; i++)
		TRY(nothing(a, i, true));
	TRY(nothing(a, 100, false));
	TRY(none(a->rcq, 50));
	/* All are done, and nobody has looked. */
	MUST(qp->sq_done == qp->sq_posted);
	TRY(faulty(a, "has no room", nothing(a, 101, false), -ENOMEM));
	TRY(done(a->scq, 100, IB_WC_SUCCESS));
	for (i = 0; i < blocks; i++)
		TRY(nothing(a, i, true));
	TRY(broken(a, 0, NULL));
	TRY(faulty(a, "has no room", nothing(a, 102, false), -ENOMEM));
	/* Nothing will ever give room back. */
	TRY(none(a->scq, 50));
	return faulty(a, "has no room", nothing(a, 103, false), -ENOMEM);
}

/* There is room for as many of the largest as were asked for. */
static int sq_largest(struct bed *bed)
{
	struct end *a = &bed->a;
	int i;

	TRY(tell(a, "inject", "reg 1 hold 200"));
	TRY(map_region(a, a->bus, PAGE_SIZE));
	TRY(post_reg(a, 1, a->mr->rkey, IB_ACCESS_LOCAL_WRITE));
	for (i = 1; i < bed->set.send_wr; i++)
		TRY(post_wr(a, 1 + i, (struct op){IB_WR_RDMA_WRITE, .nsge = 3}));
	TRY(broken(a, 0, NULL));
	for (i = 0; i < bed->set.send_wr; i++)
		TRY(done(a->scq, 1 + i, IB_WC_SUCCESS));
	return 0;
}

static int sq_states(struct bed *bed)
{
	/* One that there is no fault in, as a caller cannot know better. */
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC, .send_cq = bed->a.scq, .recv_cq = bed->a.rcq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	enum ib_qp_state states[] = {IB_QPS_RTR, IB_QPS_INIT, IB_QPS_RESET};
	struct end other = bed->a;
	unsigned int i;
	int err = 0;

	other.qp = ib_create_qp(bed->a.pd, &init);
	TRY(PTR_ERR_OR_ZERO(other.qp));
	for (i = 0; i < ARRAY_SIZE(states) && !err; i++) {
		to_vqp(other.qp)->state = states[i];
		err = nothing(&other, 1, false) == -EINVAL ? broken(&bed->a, 0, NULL) :
			wrong("a post in state %d", states[i]);
	}
	/* This a caller does know. */
	if (!err)
		err = faulty(&bed->a, "is not initialized", post_recv(&other, 1, bed->a.bus, 100), -EINVAL);
	ib_destroy_qp(other.qp);
	return err;
}

static int qp_limits(struct bed *bed)
{
	const struct vhca_preset *p = bed->a.v->preset;
	struct ib_qp_init_attr right = {
		.qp_type = IB_QPT_RC, .send_cq = bed->a.scq, .recv_cq = bed->a.rcq,
		.cap = {.max_send_wr = 4, .max_recv_wr = p->recv_wr, .max_send_sge = p->send_sge,
			.max_recv_sge = p->recv_sge},
	}, init;
	struct ib_srq srq = {};
	struct ib_qp *qp;

	init = right;
	qp = ib_create_qp(bed->a.pd, &init);
	TRY(PTR_ERR_OR_ZERO(qp));
	ib_destroy_qp(qp);
#define REFUSED(setting) \
	do { \
		init = right; \
		init.setting; \
		qp = ib_create_qp(bed->a.pd, &init); \
		if (!IS_ERR(qp)) { \
			ib_destroy_qp(qp); \
			return wrong("there is a queue pair with %s", #setting); \
		} \
	} while (0)
	REFUSED(cap.max_recv_wr = p->recv_wr + 1);
	REFUSED(cap.max_send_sge = p->send_sge + 1);
	REFUSED(cap.max_recv_sge = p->recv_sge + 1);
	REFUSED(cap.max_send_wr = p->send_blocks / 3 + 1);
	REFUSED(cap.max_inline_data = 64);
	REFUSED(cap.max_send_wr = 0);
	REFUSED(qp_type = IB_QPT_UC);
	REFUSED(create_flags = IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK);
	REFUSED(srq = &srq);
#undef REFUSED
	return 0;
}

static int forbidden(struct bed *bed)
{
	struct end *a = &bed->a;
	struct op op = {IB_WR_SEND, .addr = a->bus, .length = 8};

	op.nsge = 4;
	TRY(faulty(a, "more SGEs than the queue pair has", post_wr(a, 1, op), -EINVAL));
	op.nsge = -1;
	TRY(faulty(a, "more SGEs than the queue pair has", post_wr(a, 1, op), -EINVAL));
	op.nsge = 1;
	op.flags = IB_SEND_INLINE;
	TRY(faulty(a, "inline data", post_wr(a, 1, op), -EINVAL));
	op.flags = 0;
	op.opcode = IB_WR_ATOMIC_CMP_AND_SWP;
	TRY(faulty(a, "an operation that there is not", post_wr(a, 1, op), -EINVAL));
	op.opcode = IB_WR_RDMA_WRITE_WITH_IMM;
	TRY(faulty(a, "an operation that there is not", post_wr(a, 1, op), -EINVAL));
	/* iWARP has no immediate data. */
	op.opcode = IB_WR_SEND_WITH_IMM;
	if (a->v->preset->iwarp)
		TRY(faulty(a, "an operation that there is not", post_wr(a, 1, op), -EINVAL));
	/* None of them has been posted. */
	return none(a->scq, 10);
}

static int read_with_inv(struct bed *bed)
{
	struct op op = {IB_WR_RDMA_READ_WITH_INV, .addr = bed->a.bus, .length = 1};

	return faulty(&bed->a, "which is iWARP's", post_wr(&bed->a, 1, op), -EINVAL);
}

/* The number of a queue pair that is made at @e, and no more. */
static int numbered(struct end *e, u32 *qpn)
{
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC, .send_cq = e->scq, .recv_cq = e->rcq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ib_qp *qp = ib_create_qp(e->pd, &init);

	TRY(PTR_ERR_OR_ZERO(qp));
	*qpn = qp->qp_num;
	ib_destroy_qp(qp);
	return 0;
}

/* Each device numbers its own, one after the other, and none as another device does. */
static int qp_numbers(struct bed *bed)
{
	u32 first, other, second;

	TRY(numbered(&bed->a, &first));
	TRY(numbered(&bed->b, &other));
	TRY(numbered(&bed->a, &second));
	if (second != first + 1 || other >> 20 == first >> 20)
		return wrong("queue pairs are numbered 0x%x, 0x%x, and 0x%x by another device", first, second, other);
	return 0;
}

/* What may be changed of a connected queue pair. */
static int qp_modify(struct bed *bed)
{
	struct end *a = &bed->a;
	u8 reads = a->v->preset->reads;
	struct ib_qp_attr attr = {.qp_state = IB_QPS_RESET};

	MUST(ib_modify_qp(a->qp, &attr, IB_QP_STATE) == -EOPNOTSUPP);
	MUST(ib_modify_qp(a->qp, &attr, IB_QP_RATE_LIMIT) == -EOPNOTSUPP);
	if (!a->v->preset->iwarp) {
		attr.qp_state = IB_QPS_SQD;
		MUST(ib_modify_qp(a->qp, &attr, IB_QP_STATE) == -EOPNOTSUPP);
		attr.qp_state = IB_QPS_INIT;
		MUST(ib_modify_qp(a->qp, &attr, IB_QP_STATE) == -EINVAL);
	} else {
		/* InfiniBand has them set on the way to a connection alone; see rdma_init_qp_attr(). */
		attr.max_rd_atomic = attr.max_dest_rd_atomic = reads;
		TRY(ib_modify_qp(a->qp, &attr, IB_QP_MAX_QP_RD_ATOMIC));
		TRY(ib_modify_qp(a->qp, &attr, IB_QP_MAX_DEST_RD_ATOMIC));
		attr.max_rd_atomic = attr.max_dest_rd_atomic = reads + 1;
		MUST(ib_modify_qp(a->qp, &attr, IB_QP_MAX_QP_RD_ATOMIC) == -EINVAL);
		MUST(ib_modify_qp(a->qp, &attr, IB_QP_MAX_DEST_RD_ATOMIC) == -EINVAL);
	}
	MUST(to_vqp(a->qp)->state == IB_QPS_RTS);
	return 0;
}

static int cq_limits(struct bed *bed)
{
	struct end *a = &bed->a;
	struct ib_cq_init_attr wrong_ones[] = {
		{.cqe = 0}, {.cqe = a->v->preset->cqe + 1}, {.cqe = 4, .flags = IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN}
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong_ones); i++) {
		struct ib_cq *cq = ib_create_cq(a->dev, NULL, NULL, NULL, &wrong_ones[i]);

		if (!IS_ERR(cq)) {
			ib_destroy_cq(cq);
			return wrong("there is a completion queue of %u entries, flags %u", wrong_ones[i].cqe,
				     wrong_ones[i].flags);
		}
	}
	return 0;
}

static int rq_room(struct bed *bed)
{
	struct end *b = &bed->b;
	struct ib_sge sge[2] = {};
	struct ib_recv_wr wr = {.sg_list = sge, .num_sge = 2};
	int i;

	for (i = 0; i < bed->set.recv_wr; i++)
		TRY(post_recv(b, i, b->bus, 100));
	TRY(broken(b, 0, NULL));
	TRY(faulty(b, "the queue is full", post_recv(b, 100, b->bus, 100), -ENOMEM));
	TRY(post_wr(&bed->a, 1, (struct op){IB_WR_SEND}));
	TRY(done(b->rcq, 0, IB_WC_SUCCESS));
	TRY(post_recv(b, 100, b->bus, 100));
	TRY(broken(b, 0, NULL));
	TRY(post_wr(&bed->a, 2, (struct op){IB_WR_SEND}));
	TRY(done(b->rcq, 1, IB_WC_SUCCESS));
	TRY(faulty(b, "too many SGEs", ib_post_recv(b->qp, &wr, NULL), -EINVAL));
	wr.num_sge = -1;
	return faulty(b, "too many SGEs", ib_post_recv(b->qp, &wr, NULL), -EINVAL);
}

static int cq_room(struct bed *bed)
{
	struct end *a = &bed->a;

	TRY(nothing(a, 1, false));
	TRY(nothing(a, 2, false));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	TRY(nothing(a, 3, false));
	TRY(none(a->rcq, 50));
	TRY(broken(a, 0, NULL));
	TRY(nothing(a, 4, false));
	TRY(none(a->rcq, 50));
	TRY(broken(a, 1, "completion queue of 2 overflows"));
	MUST(atomic_read(&a->cq_events) == 1);
	TRY(done(a->scq, 2, IB_WC_SUCCESS));
	return done(a->scq, 3, IB_WC_SUCCESS);
}

/* A Read whose data come late into a region that is invalidated behind it. */
static int late_read(struct bed *bed, int flags)
{
	struct end *a = &bed->a, *b = &bed->b;

	fill(a, 1);
	fill(b, 2);
	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(reg(a, a->bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE));
	WRITE_ONCE(a->v->read_delay, 100000);
	TRY(post_wr(a, 1, (struct op){IB_WR_RDMA_READ, .addr = a->mr->iova, .length = 100, .lkey = a->mr->lkey,
				      .remote = b->mr->iova, .rkey = b->mr->rkey}));
	return post_wr(a, 2, (struct op){IB_WR_LOCAL_INV, flags, .rkey = a->mr->rkey});
}

static int inv_fenced(struct bed *bed)
{
	struct end *a = &bed->a;

	TRY(late_read(bed, IB_SEND_FENCE));
	TRY(none(a->scq, 30));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	MUST(holds(a, 0, 100, 2));
	return done(a->scq, 2, IB_WC_SUCCESS);
}

static int inv_unfenced(struct bed *bed)
{
	struct end *a = &bed->a;

	TRY(late_read(bed, 0));
	TRY(none(a->scq, 30));
	TRY(fails(a, 1, IB_WC_LOC_PROT_ERR, a->v->preset->sink_access ? "the sink of a Read" :
		  "the Read's own memory is not to be written"));
	TRY(done(a->scq, 2, IB_WC_WR_FLUSH_ERR));
	MUST(holds(a, 0, 100, 1));
	return 0;
}

/* What is behind a Read goes on, and is told of behind it. */
static int read_late(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	u64 addr;
	u32 lkey;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(sink(a, &addr, &lkey));
	TRY(post_recv(b, 1, b->bus + PAGE_SIZE, 100));
	TRY(post_recv(b, 2, b->bus + PAGE_SIZE, 100));
	WRITE_ONCE(a->v->read_delay, 200000);
	TRY(post_wr(a, 3, (struct op){IB_WR_RDMA_READ, .addr = addr, .length = 100, .lkey = lkey, .remote = b->mr->iova,
				      .rkey = b->mr->rkey}));
	TRY(post_wr(a, 4, (struct op){IB_WR_SEND, .addr = a->bus + PAGE_SIZE, .length = 100}));
	TRY(post_wr(a, 5, (struct op){IB_WR_SEND, IB_SEND_FENCE, .addr = a->bus + PAGE_SIZE, .length = 100}));
	TRY(done(b->rcq, 1, IB_WC_SUCCESS));
	TRY(none(a->scq, 0));
	TRY(none(b->rcq, 20));
	TRY(done(a->scq, 3, IB_WC_SUCCESS));
	TRY(done(a->scq, 4, IB_WC_SUCCESS));
	TRY(done(a->scq, 5, IB_WC_SUCCESS));
	return done(b->rcq, 2, IB_WC_SUCCESS);
}

/* A late Read that fails: what has overtaken it was for nothing. */
static int read_late_fails(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	u64 addr;
	u32 lkey;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(sink(a, &addr, &lkey));
	TRY(post_recv(b, 1, b->bus + PAGE_SIZE, 100));
	WRITE_ONCE(a->v->read_delay, 100000);
	TRY(post_wr(a, 3, (struct op){IB_WR_RDMA_READ, .addr = addr, .length = 100, .lkey = lkey, .remote = b->mr->iova,
				      .rkey = b->mr->rkey ^ 1}));
	TRY(post_wr(a, 4, (struct op){IB_WR_SEND, .silent = true, .addr = a->bus + PAGE_SIZE, .length = 100}));
	TRY(done(b->rcq, 1, IB_WC_SUCCESS));
	TRY(done(a->scq, 3, IB_WC_REM_ACCESS_ERR));
	return done(a->scq, 4, IB_WC_WR_FLUSH_ERR);
}

/* A Read of the first 100 bytes of b's region to @addr. */
static int post_read(struct bed *bed, u64 wr_id, u64 addr, u32 lkey)
{
	struct ib_mr *from = bed->b.mr;

	return post_wr(&bed->a, wr_id, (struct op){IB_WR_RDMA_READ, .addr = addr, .length = 100, .lkey = lkey,
						   .remote = from->iova, .rkey = from->rkey});
}

static int read_depth(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	u64 addr;
	u32 lkey;
	int i;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(sink(a, &addr, &lkey));
	WRITE_ONCE(a->v->read_delay, 20000);
	/* The queue pair waits where it knows that the peer has resources for one. */
	for (i = 0; i < 4; i++)
		TRY(post_read(bed, i, addr, lkey));
	for (i = 0; i < 4; i++)
		TRY(done(a->scq, i, IB_WC_SUCCESS));
	TRY(broken(a, 0, NULL));
	/* It was told that there are more. */
	to_vqp(a->qp)->attr.max_rd_atomic = 4;
	fill(b, 3);
	for (i = 0; i < 3; i++)
		TRY(post_read(bed, i, addr + i * 100, lkey));
	TRY(done(a->scq, 0, IB_WC_SUCCESS));
	MUST(holds(a, 0, 100, 3));
	TRY(fails(a, 1, IB_WC_REM_INV_REQ_ERR, "2 Reads under way, for which the peer has 1 resources"));
	TRY(done(a->scq, 2, IB_WC_WR_FLUSH_ERR));
	MUST(to_vqp(b->qp)->state == IB_QPS_ERR);
	MUST(atomic_read(&b->events[a->v->preset->iwarp ? IB_EVENT_QP_FATAL : IB_EVENT_QP_REQ_ERR]) == 1);
	return 0;
}

/* What is behind late Reads fails: they come first, with their data, and only then it is over for both ends. */
static int read_before_error(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	u64 addr;
	u32 lkey;
	int i;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(sink(a, &addr, &lkey));
	fill(b, 4);
	TRY(post_recv(b, 9, b->bus, 100));
	WRITE_ONCE(a->v->read_delay, 3000000);
	for (i = 0; i < 2; i++)
		TRY(post_read(bed, i, addr + i * 100, lkey));
	TRY(none(a->scq, 20));
	TRY(post_wr(a, 2, (struct op){IB_WR_RDMA_WRITE, .silent = true, .addr = a->bus, .length = 100,
				      .remote = b->mr->iova, .rkey = b->mr->rkey ^ 1}));
	TRY(nothing(a, 3, true));
	TRY(done(a->scq, 0, IB_WC_SUCCESS));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	TRY(done(a->scq, 2, IB_WC_REM_ACCESS_ERR));
	TRY(done(a->scq, 3, IB_WC_WR_FLUSH_ERR));
	MUST(holds(a, 0, 200, 4));
	TRY(done(b->rcq, 9, IB_WC_WR_FLUSH_ERR));
	MUST(atomic_read(&b->events[IB_EVENT_QP_ACCESS_ERR]) == 1);
	return 0;
}

static int read_depth_none(struct bed *bed)
{
	struct end *a = &bed->a;

	to_vqp(a->qp)->attr.max_rd_atomic = 0;
	TRY(reg(&bed->b, bed->b.bus, PAGE_SIZE, BOTH));
	TRY(post_wr(a, 1, (struct op){IB_WR_RDMA_READ, .addr = a->bus, .length = 100, .remote = bed->b.mr->iova,
				      .rkey = bed->b.mr->rkey}));
	return fails(a, 1, IB_WC_LOC_QP_OP_ERR, "which may have none under way");
}

static int read_sges(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	struct op op;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(reg(a, a->bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE));
	op = (struct op){IB_WR_RDMA_READ, .addr = a->mr->iova, .length = 100, .lkey = a->mr->lkey, .nsge = 2,
			 .remote = b->mr->iova, .rkey = b->mr->rkey};
	TRY(faulty(a, "more SGEs than a Read has", post_wr(a, 1, op), -EINVAL));
	op.nsge = 1;
	TRY(post_wr(a, 2, op));
	return done(a->scq, 2, IB_WC_SUCCESS);
}

/* Where a Read goes to is a region that a peer may write. */
static int read_sink(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(reg(a, a->bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE));
	TRY(post_wr(a, 1, (struct op){IB_WR_RDMA_READ, .addr = a->mr->iova, .length = 100, .lkey = a->mr->lkey,
				      .remote = b->mr->iova, .rkey = b->mr->rkey}));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	TRY(unreg(a));
	TRY(broken(a, 0, NULL));
	TRY(reg(a, a->bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE));
	TRY(post_wr(a, 2, (struct op){IB_WR_RDMA_READ, .addr = a->mr->iova, .length = 100, .lkey = a->mr->lkey,
				      .remote = b->mr->iova, .rkey = b->mr->rkey}));
	return fails(a, 2, IB_WC_LOC_PROT_ERR, "the sink of a Read");
}

static int read_sink_local(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(post_wr(a, 2, (struct op){IB_WR_RDMA_READ, .addr = a->bus, .length = 100, .remote = b->mr->iova,
				      .rkey = b->mr->rkey}));
	return fails(a, 2, IB_WC_LOC_PROT_ERR, "the sink of a Read");
}

/* The first that fails says why; all behind it are flushed in order, with a completion each. */
static int flush_order(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	struct ib_qp_attr attr;
	struct ib_qp_init_attr init;
	int i;

	for (i = 0; i < 3; i++) {
		TRY(post_recv(a, i, a->bus, 100));
		TRY(post_recv(b, i, b->bus, 100));
	}
	TRY(tell(a, "inject", "write 1 hold 100"));
	TRY(nothing(a, 10, true));
	TRY(post_wr(a, 11, (struct op){IB_WR_RDMA_WRITE, .silent = true, .addr = a->bus, .length = 100,
				      .rkey = 0x1234}));
	TRY(nothing(a, 12, true));
	TRY(nothing(a, 13, false));
	TRY(post_wr(a, 14, (struct op){IB_WR_LOCAL_INV, .silent = true, .rkey = a->mr->rkey}));
	TRY(map_region(a, a->bus, PAGE_SIZE));
	TRY(post_reg(a, 15, a->mr->rkey, IB_ACCESS_LOCAL_WRITE));
	TRY(done(a->scq, 11, IB_WC_REM_ACCESS_ERR));
	for (i = 12; i <= 15; i++)
		TRY(done(a->scq, i, IB_WC_WR_FLUSH_ERR));
	for (i = 0; i < 3; i++) {
		TRY(done(a->rcq, i, IB_WC_WR_FLUSH_ERR));
		TRY(done(b->rcq, i, IB_WC_WR_FLUSH_ERR));
	}
	/* What is posted then is flushed as well. A registration that was is not in a queue any more. */
	TRY(nothing(a, 16, true));
	TRY(done(a->scq, 16, IB_WC_WR_FLUSH_ERR));
	TRY(post_recv(a, 17, a->bus, 100));
	TRY(done(a->rcq, 17, IB_WC_WR_FLUSH_ERR));
	TRY(map_region(a, a->bus, PAGE_SIZE));
	TRY(ib_query_qp(a->qp, &attr, IB_QP_STATE, &init));
	MUST(attr.qp_state == IB_QPS_ERR);
	TRY(none(a->scq, 5));
	return none(a->rcq, 5);
}

/* Of a completion with an error nothing is to be had but the work request, the status and the queue pair. */
static int error_fields(struct bed *bed)
{
	struct end *a = &bed->a;
	struct ib_wc wc;

	TRY(to_error(a));
	TRY(nothing(a, 1, false));
	TRY(next_wc(a->scq, &wc));
	MUST(wc.wr_id == 1 && wc.status == IB_WC_WR_FLUSH_ERR && wc.qp == a->qp);
	MUST(wc.opcode != IB_WC_RDMA_WRITE && wc.byte_len == U32_MAX);
	return 0;
}

static int rnr_none(struct bed *bed)
{
	TRY(post_wr(&bed->a, 1, (struct op){IB_WR_SEND, .addr = bed->a.bus, .length = 10}));
	TRY(done(bed->a.scq, 1, IB_WC_RNR_RETRY_EXC_ERR));
	MUST(to_vqp(bed->a.qp)->rnr_retries == 1);
	/* The responder takes no notice. */
	MUST(to_vqp(bed->b.qp)->state == IB_QPS_RTS);
	return 0;
}

/* As many as were asked for, each after the responder's time. */
static int rnr_some(struct bed *bed)
{
	struct vhca_qp *peer = to_vqp(bed->b.qp);
	struct end *a = &bed->a;
	ktime_t began;
	s64 ms;

	/* 81.92 ms */
	peer->attr.min_rnr_timer = 26;
	began = ktime_get();
	TRY(post_wr(a, 1, (struct op){IB_WR_SEND, .addr = a->bus, .length = 10}));
	msleep(100);
	TRY(post_recv(&bed->b, 2, bed->b.bus, 100));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	MUST(ktime_ms_delta(ktime_get(), began) >= 163);
	TRY(done(bed->b.rcq, 2, IB_WC_SUCCESS));

	/* 20.48 ms; a Send that has found its Receive begins to count anew. */
	peer->attr.min_rnr_timer = 22;
	began = ktime_get();
	TRY(post_wr(a, 3, (struct op){IB_WR_SEND, .addr = a->bus, .length = 10}));
	TRY(done(a->scq, 3, IB_WC_RNR_RETRY_EXC_ERR));
	ms = ktime_ms_delta(ktime_get(), began);
	MUST(ms >= 61);
	MUST(to_vqp(a->qp)->rnr_retries == bed->set.rnr_retry + 1);
	return 0;
}

static int rnr_forever(struct bed *bed)
{
	struct end *a = &bed->a;

	TRY(post_wr(a, 1, (struct op){IB_WR_SEND, .addr = a->bus, .length = 10}));
	TRY(none(a->scq, 150));
	MUST(to_vqp(a->qp)->state == IB_QPS_RTS);
	TRY(post_recv(&bed->b, 2, bed->b.bus, 100));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	return done(bed->b.rcq, 2, IB_WC_SUCCESS);
}

/* iWARP has no answer to a Send without a Receive but to end the connection. */
static int no_receive(struct bed *bed)
{
	TRY(post_wr(&bed->a, 1, (struct op){IB_WR_SEND, .addr = bed->a.bus, .length = 10}));
	TRY(done(bed->a.scq, 1, IB_WC_REM_OP_ERR));
	MUST(to_vqp(bed->b.qp)->state == IB_QPS_ERR);
	MUST(atomic_read(&bed->b.events[IB_EVENT_QP_FATAL]) == 1);
	return 0;
}

static int recv_too_small(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	struct ib_wc wc;

	fill(b, 1);
	fill(a, 2);
	TRY(post_recv(b, 1, b->bus, 100));
	TRY(post_wr(a, 2, (struct op){IB_WR_SEND, .addr = a->bus, .length = 100}));
	TRY(done(a->scq, 2, IB_WC_SUCCESS));
	TRY(done(b->rcq, 1, IB_WC_SUCCESS));
	MUST(holds(b, 0, 100, 2) && holds(b, 100, 100, 1));
	TRY(post_recv(b, 3, b->bus, 100));
	TRY(post_wr(a, 4, (struct op){IB_WR_SEND, .addr = a->bus, .length = 101}));
	TRY(done(a->scq, 4, IB_WC_REM_INV_REQ_ERR));
	TRY(next_wc(b->rcq, &wc));
	MUST(wc.wr_id == 3 && wc.status == IB_WC_LOC_LEN_ERR && wc.qp == b->qp);
	MUST(wc.opcode != IB_WC_RECV && wc.byte_len == U32_MAX);
	MUST(holds(b, 100, 100, 1));
	return 0;
}

static int cq_late(struct bed *bed)
{
	struct end *a = &bed->a;
	ktime_t began;

	WRITE_ONCE(a->v->cq_delay, 100000);
	WRITE_ONCE(a->v->cq_batch, 100);
	began = ktime_get();
	TRY(nothing(a, 1, false));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	MUST(ktime_ms_delta(ktime_get(), began) >= 99);
	return 0;
}

/* Four are told of together, by one call, long before their time is over. */
static int cq_batch(struct bed *bed)
{
	struct end *a = &bed->a;
	struct ib_wc wc[8];
	ktime_t began;
	int i;

	WRITE_ONCE(a->v->cq_delay, 3000000);
	WRITE_ONCE(a->v->cq_batch, 4);
	began = ktime_get();
	ib_req_notify_cq(a->scq, IB_CQ_NEXT_COMP);
	for (i = 0; i < 3; i++)
		TRY(nothing(a, i, false));
	TRY(none(a->scq, 50));
	MUST(!atomic_read(&a->woken));
	TRY(nothing(a, 3, false));
	for (i = 0; i < 1000 && !atomic_read(&a->woken); i++)
		usleep_range(100, 300);
	MUST(atomic_read(&a->woken) == 1);
	MUST(ib_poll_cq(a->scq, 8, wc) == 4);
	for (i = 0; i < 4; i++)
		MUST(wc[i].wr_id == i && wc[i].status == IB_WC_SUCCESS);
	MUST(ktime_ms_delta(ktime_get(), began) < 2900);
	return 0;
}

static int handler_calls(struct end *e, int n)
{
	int i;

	for (i = 0; i < 1000 && atomic_read(&e->woken) < n; i++)
		usleep_range(100, 300);
	msleep(20);
	if (atomic_read(&e->woken) != n)
		return wrong("the completion handler was called %d times instead of %d", atomic_read(&e->woken), n);
	return 0;
}

/* Who asks is told once, of what comes then. */
static int cq_notify(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	int i;

	TRY(nothing(a, 1, false));
	TRY(handler_calls(a, 0));
	/* What has come before is no reason, but can be asked for. */
	MUST(ib_req_notify_cq(a->scq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0);
	TRY(handler_calls(a, 0));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	TRY(nothing(a, 2, false));
	TRY(nothing(a, 3, false));
	TRY(handler_calls(a, 1));
	TRY(done(a->scq, 2, IB_WC_SUCCESS));
	TRY(done(a->scq, 3, IB_WC_SUCCESS));
	MUST(!ib_req_notify_cq(a->scq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS));

	for (i = 0; i < 2; i++)
		TRY(post_recv(b, i, b->bus, 100));
	ib_req_notify_cq(b->rcq, IB_CQ_SOLICITED);
	TRY(post_wr(a, 4, (struct op){IB_WR_SEND}));
	TRY(done(b->rcq, 0, IB_WC_SUCCESS));
	TRY(handler_calls(b, 0));
	TRY(post_wr(a, 5, (struct op){IB_WR_SEND, IB_SEND_SOLICITED}));
	TRY(handler_calls(b, 1));
	return done(b->rcq, 1, IB_WC_SUCCESS);
}

const struct rules_case queue_cases[] = {
	{"sq-room", sq_room},
	{"sq-largest", sq_largest, .set = {.send_wr = 5}},
	{"sq-states", sq_states, ALONE},
	{"qp-limits", qp_limits, ALONE},
	{"qp-numbers", qp_numbers, ALONE},
	{"qp-modify", qp_modify},
	{"cq-limits", cq_limits, ALONE},
	{"forbidden", forbidden},
	{"read-with-inv", read_with_inv, ROCE},
	{"rq-room", rq_room, .set = {.recv_wr = 3, .rnr_retry = 7}},
	{"cq-room", cq_room, .set = {.send_cqe = 2}},
	{"inv-fenced", inv_fenced},
	{"inv-unfenced", inv_unfenced},
	{"read-late", read_late},
	{"read-late-fails", read_late_fails},
	{"read-depth", read_depth},
	{"read-before-error", read_before_error, .set = {.reads = 2}},
	{"read-depth-none", read_depth_none},
	{"read-sges", read_sges, IWARP},
	{"read-sink", read_sink, IWARP},
	{"read-sink-local", read_sink_local, IWARP},
	{"flush-order", flush_order},
	{"error-fields", error_fields},
	{"rnr-none", rnr_none, ROCE},
	{"rnr-some", rnr_some, ROCE, .set = {.rnr_retry = 3}},
	{"rnr-forever", rnr_forever, ROCE, .set = {.rnr_retry = 7}},
	{"no-receive", no_receive, IWARP},
	{"recv-too-small", recv_too_small},
	{"cq-late", cq_late},
	{"cq-batch", cq_batch},
	{"cq-notify", cq_notify},
	{}
};
