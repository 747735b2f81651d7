// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a queue pair does with its work requests: one after the other, in a worker of its own, or, without checks, in
 * an interrupt of the CPU that has posted them. Reads may come late:
 * what is behind one goes on, unless it is fenced; completions keep their order. The first
 * work request that fails says why, all behind it are flushed.
 */
#include "vhca.h"

/* Work requests until others get their turn. */
#define BUDGET	64
/* Until a peer that does not answer is asked again, ms. */
#define RETRY	50

/* What sqe_execute() may say beside a status. */
#define LATER	VHCA_LATER
#define COMES	(-2)		/* a Read's data is on its way */

/* Receive-not-ready timers, in microseconds: InfiniBand 9.7.5.2.8, table 46, rounded. */
static const u32 rnr_us[32] = {
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120, 7680, 10240,
	15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520
};

static struct vhca_cq *send_cq(struct vhca_qp *qp)
{
	return to_vcq(qp->init.send_cq);
}

/* A stretch of memory: SGEs of a queue pair, or what a peer's key names. */
struct stretch {
	struct vhca_qp *qp;
	const struct ib_sge *sge;	/* NULL: a peer's */
	u32 left;			/* in *sge */
	u64 address;
	u32 key;
	int access;
	bool writes;
};

static void advance(struct stretch *r, u32 n)
{
	r->address += n;
	r->left -= n;
	while (r->sge && !r->left) {
		r->sge++;
		r->address = r->sge->addr;
		r->key = r->sge->lkey;
		r->left = r->sge->length;
	}
}

static void begin(struct stretch *r, struct vhca_qp *qp, const struct ib_sge *sge, bool writes)
{
	*r = (struct stretch){.qp = qp, .sge = sge, .address = sge->addr, .key = sge->lkey, .left = sge->length,
			    .access = writes ? IB_ACCESS_LOCAL_WRITE : 0, .writes = writes};
}

static int pin(struct stretch *r, u32 length, struct vhca_mr **held, struct vhca_pin *pin)
{
	struct vhca *v = r->qp->dev;

	*held = NULL;
	if (r->sge)
		length = min(length, r->left);
	if (r->sge && r->key == v->ib.local_dma_lkey)
		return vhca_dma_pin(v, r->address, length, r->writes, pin);
	return vhca_mr_pin(v, r->qp->ib.pd, r->key, r->address, length, r->access, r->writes, held, pin);
}

static bool answers(const struct vhca_qp *qp)
{
	return qp->state == IB_QPS_RTR || qp->state == IB_QPS_RTS;
}

/*
 * Without checks as a processor copies by itself: where time is counted in instructions, eight bytes in each, which is
 * of the order of what memory takes.
 */
static void move_bytes(void *to, const void *from, size_t n, bool checks)
{
#ifdef CONFIG_X86_64
	if (!checks) {
		size_t words = n / 8;

		asm volatile("rep movsq" : "+D" (to), "+S" (from), "+c" (words) : : "memory");
		n %= 8;
	}
#endif
	memcpy(to, from, n);
}

/*
 * The one copy. 0; or an error, and *@at_source whether it is the source's; -ECONNRESET when the peer whose key
 * names one of them is over: it may unmap its memory from then on.
 */
static int copy(struct stretch *to, struct stretch *from, u32 length, bool *at_source)
{
	struct vhca_qp *peer = !to->sge ? to->qp : !from->sge ? from->qp : NULL;
	int err = 0;

	while (length && !err) {
		struct vhca_pin source, sink;
		struct vhca_mr *source_mr, *sink_mr;
		unsigned long flags;
		u32 n = 0;

		/* An SGE of no bytes. */
		if (from->sge && !from->left)
			advance(from, 0);
		if (to->sge && !to->left)
			advance(to, 0);
		local_irq_save(flags);
		if (peer)
			spin_lock(&peer->lock);
		*at_source = true;
		err = peer && !answers(peer) ? -ECONNRESET : pin(from, length, &source_mr, &source);
		if (!err) {
			*at_source = false;
			err = pin(to, source.length, &sink_mr, &sink);
			if (!err) {
				n = sink.length;
				move_bytes(sink.va, source.va, n, to->qp->dev->checks);
				vhca_mr_unpin(sink_mr, &sink);
			}
			vhca_mr_unpin(source_mr, &source);
		}
		if (peer)
			spin_unlock(&peer->lock);
		local_irq_restore(flags);
		length -= n;
		/* Behind the last byte there may be no SGE. */
		if (length) {
			advance(from, n);
			advance(to, n);
		}
	}
	return err;
}

/* What is not mapped has been told of already. */
static void own_fault(struct vhca_qp *qp, const char *what, const struct stretch *r, int err)
{
	if (err == -EACCES)
		vhca_fault(qp->dev, "%s: address 0x%llx, key 0x%x", what, r->address, r->key);
}

int vhca_copy_sges(struct vhca_qp *from_qp, const struct ib_sge *from, struct vhca_qp *to_qp, const struct ib_sge *to,
		   u32 skip, u32 length)
{
	struct stretch source, sink;
	bool at_source;

	begin(&source, from_qp, from, false);
	begin(&sink, to_qp, to, true);
	while (skip) {
		u32 n = min(skip, sink.left);

		advance(&sink, n);
		skip -= n;
	}
	return copy(&sink, &source, length, &at_source);
}

/* The queue pair at the other end with a reference, or NULL when nobody would answer. */
static struct vhca_qp *peer_of(struct vhca_qp *qp)
{
	struct vhca_qp *peer = NULL;
	unsigned long flags;

	if (!READ_ONCE(qp->dev->port_up))
		return NULL;
	if (!qp->dev->preset->iwarp) {
		peer = vhca_roce_peer(qp);
	} else {
		spin_lock_irqsave(&qp->lock, flags);
		peer = qp->peer;
		if (peer)
			kref_get(&peer->ref);
		spin_unlock_irqrestore(&qp->lock, flags);
	}
	if (peer && (!READ_ONCE(peer->dev->port_up) || !answers(peer))) {
		vhca_qp_put(peer);
		peer = NULL;
	}
	return peer;
}

/* With an error nothing else of a completion has a meaning: who looks there all the same finds nonsense. */
static void error_wc(struct ib_wc *wc, struct vhca_qp *qp, u64 wr_id, enum ib_wc_status status)
{
	memset(wc, 0xff, sizeof(*wc));
	wc->wr_id = wr_id;
	wc->qp = &qp->ib;
	wc->status = status;
	wc->vendor_err = 0;
}

/*
 * Tell of the Receives that a message has come in, up to the first that is held back still. The sender knows of all of
 * them: it was told when they came. Once the queue pair is over nothing is held back, and is what it was all the same:
 * ahead of what is flushed. qp->lock.
 */
static void complete_receives(struct vhca_qp *qp)
{
	while (qp->rq_done != qp->rq_filled) {
		struct vhca_rwqe *e = &qp->rq[qp->rq_done % qp->rq_size];
		struct vhca_cqe cqe = {.qp = qp, .wc = e->wc};

		if (e->due && qp->state != IB_QPS_ERR) {
			ktime_t now = ktime_get();

			if (ktime_before(now, e->due)) {
				hrtimer_start(&qp->recv_timer, ktime_sub(e->due, now), HRTIMER_MODE_REL_HARD);
				return;
			}
		}
		atomic64_inc(&qp->dev->done[VHCA_RECV]);
		qp->rq_done++;
		vhca_cq_push(to_vcq(qp->init.recv_cq), &cqe, e->solicited);
	}
}

void vhca_recv_done(struct vhca_qp *qp, const struct ib_wc *wc, bool solicited)
{
	enum ib_wc_status status;
	struct vhca_rwqe *e;
	unsigned long flags;
	bool flushed;
	u32 ms = 0;

	if (wc->status == IB_WC_SUCCESS && qp->ib.qp_type != IB_QPT_GSI)
		vhca_inject(qp->dev, VHCA_RECV, &status, &ms);
	spin_lock_irqsave(&qp->lock, flags);
	e = &qp->rq[qp->rq_filled % qp->rq_size];
	flushed = qp->state == IB_QPS_ERR && wc->status == IB_WC_SUCCESS && qp->ib.qp_type != IB_QPT_GSI;
	e->wc = *wc;
	e->wc.wr_id = e->wr_id;
	e->wc.qp = &qp->ib;
	if (flushed || wc->status)
		error_wc(&e->wc, qp, e->wr_id, flushed ? IB_WC_WR_FLUSH_ERR : wc->status);
	e->solicited = solicited;
	e->due = ms ? ktime_add_ms(ktime_get(), ms) : 0;
	if (ms)
		atomic64_inc(&qp->dev->held);
	qp->rq_filled++;
	/* Others of the queue are flushed behind this one, not before. */
	complete_receives(qp);
	qp->rq_busy = false;
	spin_unlock_irqrestore(&qp->lock, flags);
	if (READ_ONCE(qp->state) == IB_QPS_ERR)
		mod_delayed_work(vhca_wq, &qp->work, 0);
}

void vhca_recv_release(struct vhca_qp *qp)
{
	unsigned long flags;
	u64 i;

	spin_lock_irqsave(&qp->lock, flags);
	for (i = qp->rq_done; i != qp->rq_filled; i++)
		qp->rq[i % qp->rq_size].due = 0;
	complete_receives(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
}

enum hrtimer_restart vhca_recv_timer(struct hrtimer *timer)
{
	struct vhca_qp *qp = container_of(timer, struct vhca_qp, recv_timer);
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	complete_receives(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
	return HRTIMER_NORESTART;
}

/*
 * The responder has found fault with a work request of @qp: it is over for it as well, once the Reads that are under
 * way have come. It has answered these before.
 */
static void blame(struct vhca_qp *qp, struct vhca_qp *peer, enum ib_event_type event)
{
	if (qp->blamed)
		vhca_qp_put(qp->blamed);
	kref_get(&peer->ref);
	qp->blamed = peer;
	qp->blame = event;
}

static void blamed_fails(struct vhca_qp *qp)
{
	struct vhca_qp *peer = qp->blamed;

	if (!peer)
		return;
	qp->blamed = NULL;
	vhca_qp_event(peer, qp->blame);
	vhca_qp_set_state(peer, IB_QPS_ERR);
	vhca_qp_put(peer);
}

static int send(struct vhca_qp *qp, struct vhca_swqe *e, struct vhca_qp *peer, u32 *ms)
{
	struct ib_wc wc = {.status = IB_WC_SUCCESS, .opcode = IB_WC_RECV, .byte_len = e->length, .src_qp = qp->ib.qp_num,
			   .port_num = 1};
	struct vhca_rwqe *r = NULL;
	unsigned long flags;
	u32 room = 0;
	int i, err;

	spin_lock_irqsave(&peer->lock, flags);
	if (answers(peer) && peer->rq_posted != peer->rq_filled) {
		r = &peer->rq[peer->rq_filled % peer->rq_size];
		peer->rq_busy = true;
	}
	spin_unlock_irqrestore(&peer->lock, flags);
	if (!r) {
		if (!answers(peer))
			return LATER;
		/* iWARP has no answer to that but to end the connection. */
		if (qp->dev->preset->iwarp) {
			blame(qp, peer, IB_EVENT_QP_FATAL);
			return IB_WC_REM_OP_ERR;
		}
		if (qp->attr.rnr_retry != 7 && qp->rnr_retries++ >= qp->attr.rnr_retry)
			return IB_WC_RNR_RETRY_EXC_ERR;
		*ms = DIV_ROUND_UP(rnr_us[peer->attr.min_rnr_timer & 31], 1000);
		qp->retries = 0;
		return LATER;
	}
	qp->rnr_retries = 0;
	for (i = 0; i < r->nsge; i++)
		room += r->sge[i].length;
	if (room < e->length) {
		wc.status = IB_WC_LOC_LEN_ERR;
		vhca_recv_done(peer, &wc, false);
		blame(qp, peer, IB_EVENT_QP_REQ_ERR);
		return IB_WC_REM_INV_REQ_ERR;
	}
	if (e->length) {
		struct stretch source, sink;
		bool at_source;

		begin(&source, qp, e->sge, false);
		begin(&sink, peer, r->sge, true);
		err = copy(&sink, &source, e->length, &at_source);
		if (err && !at_source) {
			wc.status = IB_WC_LOC_PROT_ERR;
			vhca_recv_done(peer, &wc, false);
			blame(qp, peer, IB_EVENT_QP_FATAL);
			return IB_WC_REM_OP_ERR;
		} else if (err) {
			/* Nothing of it has been sent: the Receive stays where it is. */
			spin_lock_irqsave(&peer->lock, flags);
			peer->rq_busy = false;
			spin_unlock_irqrestore(&peer->lock, flags);
			own_fault(qp, "the Send's own memory is not to be read", &source, err);
			mod_delayed_work(vhca_wq, &peer->work, 0);
			return IB_WC_LOC_PROT_ERR;
		}
	}
	if (e->opcode == IB_WR_SEND_WITH_INV) {
		wc.wc_flags = IB_WC_WITH_INVALIDATE;
		wc.ex.invalidate_rkey = e->rkey;
		if (vhca_mr_invalidate(peer->dev, peer->ib.pd, e->rkey, true)) {
			wc.status = IB_WC_LOC_ACCESS_ERR;
			vhca_recv_done(peer, &wc, false);
			blame(qp, peer, IB_EVENT_QP_ACCESS_ERR);
			return IB_WC_REM_ACCESS_ERR;
		}
	} else if (e->opcode == IB_WR_SEND_WITH_IMM) {
		wc.wc_flags = IB_WC_WITH_IMM;
		wc.ex.imm_data = e->imm;
	}
	vhca_recv_done(peer, &wc, e->flags & IB_SEND_SOLICITED);
	return IB_WC_SUCCESS;
}

/* A Read's sink, as iWARP devices without the Read of another kind want it. */
static bool sink_is_wrong(struct vhca_qp *qp, struct vhca_swqe *e)
{
	return qp->dev->preset->sink_access && e->length &&
		!vhca_mr_allows(qp->dev, qp->ib.pd, e->sge->lkey, e->sge->addr, e->length,
				IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE);
}

static int move(struct vhca_qp *qp, struct vhca_swqe *e, struct vhca_qp *peer, bool reads)
{
	int access = reads ? IB_ACCESS_REMOTE_READ : IB_ACCESS_REMOTE_WRITE;
	struct stretch local, remote = {.qp = peer, .address = e->remote_addr, .key = e->rkey, .access = access,
				      .writes = !reads};
	bool at_source;
	int err;

	if (!e->length)
		return IB_WC_SUCCESS;
	if (!(peer->attr.qp_access_flags & access) ||
	    !vhca_mr_allows(peer->dev, peer->ib.pd, e->rkey, e->remote_addr, e->length, access)) {
		blame(qp, peer, IB_EVENT_QP_ACCESS_ERR);
		return IB_WC_REM_ACCESS_ERR;
	}
	begin(&local, qp, e->sge, reads);
	err = reads ? copy(&local, &remote, e->length, &at_source) : copy(&remote, &local, e->length, &at_source);
	if (err == -ECONNRESET)
		return LATER;
	if (!err && e->opcode == IB_WR_RDMA_READ_WITH_INV)
		return vhca_mr_invalidate(qp->dev, qp->ib.pd, e->sge->lkey, false);
	if (!err)
		return IB_WC_SUCCESS;
	if (at_source == reads) {
		blame(qp, peer, IB_EVENT_QP_ACCESS_ERR);
		return err == -EACCES ? IB_WC_REM_ACCESS_ERR : IB_WC_REM_OP_ERR;
	}
	own_fault(qp, reads ? "the Read's own memory is not to be written" : "the Write's own memory is not to be read",
		  &local, err);
	return IB_WC_LOC_PROT_ERR;
}

/* Carry @e out. A status, LATER with *@ms set where it is not RETRY, or COMES. */
static int execute(struct vhca_qp *qp, struct vhca_swqe *e, u32 *ms)
{
	enum vhca_kind kind = vhca_kind_of(e->opcode);
	struct vhca *v = qp->dev;
	enum ib_wc_status status;
	struct vhca_qp *peer;
	int result;

	if (e->state == VHCA_POSTED && !e->held && qp->ib.qp_type != IB_QPT_GSI) {
		if (vhca_inject(v, kind, &status, ms)) {
			if (e->region)
				vhca_mr_posted(v, e->region, false);
			return status;
		}
		e->held = true;
		if (*ms)
			return LATER;
	}
	if (kind == VHCA_REG)
		return vhca_mr_register(qp, e->region, e->rkey, e->access);
	if (kind == VHCA_INV)
		return vhca_mr_invalidate(v, qp->ib.pd, e->rkey, false);
	if (qp->ib.qp_type == IB_QPT_GSI)
		return vhca_roce_send(qp, e, ms);

	if (kind == VHCA_READ && !qp->attr.max_rd_atomic) {
		vhca_fault(v, "a Read by a queue pair which may have none under way");
		return IB_WC_LOC_QP_OP_ERR;
	}
	peer = peer_of(qp);
	if (!peer) {
		/* iWARP's stream is broken; InfiniBand's is asked again. */
		if (v->preset->iwarp && !qp->peer)
			return IB_WC_FATAL_ERR;
		return qp->retries++ < max_t(int, qp->attr.retry_cnt, 1) ? LATER : IB_WC_RETRY_EXC_ERR;
	}
	qp->retries = 0;
	if (kind == VHCA_SEND) {
		result = send(qp, e, peer, ms);
	} else if (kind == VHCA_WRITE) {
		result = move(qp, e, peer, false);
	} else if (e->state == VHCA_POSTED && qp->reads >= peer->attr.max_dest_rd_atomic) {
		vhca_fault(v, "%u Reads under way, for which the peer has %u resources", qp->reads + 1,
			   peer->attr.max_dest_rd_atomic);
		/* InfiniBand 9.7.4.1.2, NAK-Invalid Request; RFC 5041, 7.1: no buffer for the Read Request. */
		blame(qp, peer, v->preset->iwarp ? IB_EVENT_QP_FATAL : IB_EVENT_QP_REQ_ERR);
		result = IB_WC_REM_INV_REQ_ERR;
	} else if (sink_is_wrong(qp, e)) {
		vhca_fault(v, "the sink of a Read is no region with IB_ACCESS_REMOTE_WRITE");
		result = IB_WC_LOC_PROT_ERR;
	} else if (e->state == VHCA_POSTED && READ_ONCE(v->read_delay)) {
		e->due = ktime_add_us(ktime_get(), v->read_delay);
		result = COMES;
	} else {
		result = move(qp, e, peer, true);
	}
	vhca_qp_put(peer);
	return result;
}

/* Tell of those that are done, in their order. qp->lock. */
static void complete_sends(struct vhca_qp *qp)
{
	while (qp->sq_done != qp->sq_posted) {
		struct vhca_swqe *e = &qp->sq[qp->sq_done % qp->sq_size];
		struct vhca_cqe cqe = {.qp = qp};

		if (e->state != VHCA_DONE)
			break;
		qp->sq_done++;
		qp->blocks_done += e->blocks;
		e->region = 0;
		if (e->status == IB_WC_SUCCESS && !(e->flags & IB_SEND_SIGNALED))
			continue;
		cqe.releases = true;
		cqe.release = qp->blocks_done;
		cqe.over = qp->sq_done;
		if (e->status != IB_WC_SUCCESS) {
			error_wc(&cqe.wc, qp, e->wr_id, e->status);
			vhca_cq_push(send_cq(qp), &cqe, true);
			continue;
		}
		cqe.wc = (struct ib_wc){.wr_id = e->wr_id, .qp = &qp->ib, .byte_len = e->length};
		switch (vhca_kind_of(e->opcode)) {
		case VHCA_WRITE:
			cqe.wc.opcode = IB_WC_RDMA_WRITE;
			break;
		case VHCA_READ:
			cqe.wc.opcode = IB_WC_RDMA_READ;
			break;
		case VHCA_REG:
			cqe.wc.opcode = IB_WC_REG_MR;
			break;
		case VHCA_INV:
			cqe.wc.opcode = IB_WC_LOCAL_INV;
			break;
		default:
			cqe.wc.opcode = IB_WC_SEND;
		}
		vhca_cq_push(send_cq(qp), &cqe, true);
	}
}

/* What has overtaken @e, a Read that fails, was never acknowledged. qp->lock. */
static void undo_behind(struct vhca_qp *qp, struct vhca_swqe *e)
{
	bool behind = false;
	u64 i;

	for (i = qp->sq_done; i != qp->sq_next; i++) {
		struct vhca_swqe *other = &qp->sq[i % qp->sq_size];

		if (behind && other->state == VHCA_DONE)
			other->status = IB_WC_WR_FLUSH_ERR;
		behind |= other == e;
	}
}

/* Everything that is left, with an error. qp->lock. */
static void flush(struct vhca_qp *qp)
{
	u64 i;

	for (i = qp->sq_done; i != qp->sq_posted; i++) {
		struct vhca_swqe *e = &qp->sq[i % qp->sq_size];

		if (e->state == VHCA_DONE)
			continue;
		if (e->region)
			vhca_mr_posted(qp->dev, e->region, false);
		e->state = VHCA_DONE;
		e->status = IB_WC_WR_FLUSH_ERR;
	}
	qp->sq_next = qp->sq_posted;
	qp->reads = 0;
	complete_sends(qp);
	complete_receives(qp);
	while (!qp->rq_busy && qp->rq_done != qp->rq_posted) {
		struct vhca_cqe cqe = {.qp = qp};

		error_wc(&cqe.wc, qp, qp->rq[qp->rq_done++ % qp->rq_size].wr_id, IB_WC_WR_FLUSH_ERR);
		qp->rq_filled = qp->rq_done;
		vhca_cq_push(to_vcq(qp->init.recv_cq), &cqe, true);
	}
}

enum hrtimer_restart vhca_qp_timer(struct hrtimer *timer)
{
	struct vhca_qp *qp = container_of(timer, struct vhca_qp, timer);

	queue_delayed_work(vhca_wq, &qp->work, 0);
	return HRTIMER_NORESTART;
}

/* The oldest Read that is under way and has come; NULL when none has, with a timer for it. qp->lock. */
static struct vhca_swqe *read_that_came(struct vhca_qp *qp)
{
	u64 i;

	for (i = qp->sq_done; qp->reads && i != qp->sq_next; i++) {
		struct vhca_swqe *e = &qp->sq[i % qp->sq_size];
		ktime_t now = ktime_get();

		if (e->state != VHCA_UNDER_WAY)
			continue;
		if (!qp->failed && ktime_before(now, e->due)) {
			hrtimer_start(&qp->timer, ktime_sub(e->due, now), HRTIMER_MODE_REL_HARD);
			return NULL;
		}
		return e;
	}
	return NULL;
}

/* The next that may begin, or NULL. qp->lock. */
static struct vhca_swqe *next(struct vhca_qp *qp)
{
	struct vhca_swqe *e = &qp->sq[qp->sq_next % qp->sq_size];

	if (qp->sq_next == qp->sq_posted || qp->failed)
		return NULL;
	/* A LOCAL_INV that is not fenced takes the sink of such a Read away: InfiniBand 10.8.3.3, table 79. */
	if (qp->reads && e->flags & IB_SEND_FENCE)
		return NULL;
	if (qp->reads && vhca_kind_of(e->opcode) == VHCA_READ && qp->reads >= qp->attr.max_rd_atomic)
		return NULL;
	return e;
}

static void run(struct vhca_qp *qp)
{
	struct vhca_swqe *e;
	unsigned long flags;
	int budget, result;

	for (budget = BUDGET; budget; budget--) {
		bool came = true, over;
		u32 ms = 0;

		spin_lock_irqsave(&qp->lock, flags);
		if (qp->state != IB_QPS_RTS) {
			if (qp->state == IB_QPS_ERR)
				flush(qp);
			spin_unlock_irqrestore(&qp->lock, flags);
			blamed_fails(qp);
			return;
		}
		e = read_that_came(qp);
		if (!e) {
			came = false;
			e = next(qp);
		}
		spin_unlock_irqrestore(&qp->lock, flags);
		if (!e)
			return;

		result = execute(qp, e, &ms);
		if (result == LATER) {
			mod_delayed_work(vhca_wq, &qp->work, msecs_to_jiffies(ms ?: RETRY));
			/* Who had it flushed meanwhile must not wait for that. */
			if (READ_ONCE(qp->state) == IB_QPS_ERR)
				mod_delayed_work(vhca_wq, &qp->work, 0);
			return;
		}
		/* What fails is told of behind the Reads before it, which come now. A Read that fails ends it at once. */
		qp->failed |= result > 0;
		over = qp->failed && (came ? result > 0 || qp->reads == 1 : !qp->reads);
		if (over)
			blamed_fails(qp);
		spin_lock_irqsave(&qp->lock, flags);
		if (came)
			qp->reads--;
		else
			qp->sq_next++;
		if (result == COMES) {
			e->state = VHCA_UNDER_WAY;
			qp->reads++;
		} else {
			e->state = VHCA_DONE;
			e->status = result;
			if (result == IB_WC_SUCCESS)
				atomic64_inc(&qp->dev->done[vhca_kind_of(e->opcode)]);
			else
				undo_behind(qp, e);
			complete_sends(qp);
		}
		spin_unlock_irqrestore(&qp->lock, flags);
		if (over)
			vhca_qp_set_state(qp, IB_QPS_ERR);
	}
	queue_delayed_work(vhca_wq, &qp->work, 0);
}

/* A worker and an interrupt may both want to. */
static void run_alone(struct vhca_qp *qp)
{
	int asked;

	if (atomic_inc_return(&qp->runs) > 1)
		return;
	do {
		asked = atomic_read(&qp->runs);
		run(qp);
	} while (atomic_sub_return(asked, &qp->runs));
}

void vhca_qp_work(struct work_struct *work)
{
	run_alone(container_of(to_delayed_work(work), struct vhca_qp, work));
}

void vhca_qp_interrupt(struct irq_work *work)
{
	run_alone(container_of(work, struct vhca_qp, irq));
}
