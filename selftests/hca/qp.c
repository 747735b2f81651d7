// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue pairs: what may be posted to one, and when.
 *
 * Room in a send queue is counted in blocks of 64 bytes. A work request's blocks are free again when a later
 * signaled completion has been polled, as drivers of real devices have it: nothing else tells them. A queue has
 * as many blocks as max_send_wr of the largest kind take, or it is not made.
 */
#include <linux/slab.h>
#include <rdma/ib_cache.h>

#include "vhca.h"

#define BLOCK		64
/* What a work request has beside its SGEs: a control segment; a remote address; what a registration writes. */
#define CONTROL		16
#define REMOTE		16
#define SGE		16
#define REGISTRATION	(48 + 64 + 16)

const char *const vhca_kinds[VHCA_KINDS] = {"send", "write", "read", "reg", "inv", "recv"};

enum vhca_kind vhca_kind_of(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return VHCA_WRITE;
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_READ_WITH_INV:
		return VHCA_READ;
	case IB_WR_REG_MR:
		return VHCA_REG;
	case IB_WR_LOCAL_INV:
		return VHCA_INV;
	default:
		return VHCA_SEND;
	}
}

static u32 blocks_of(enum vhca_kind kind, u32 nsge)
{
	u32 bytes = CONTROL;

	if (kind == VHCA_REG)
		bytes += REGISTRATION;
	else if (kind == VHCA_WRITE || kind == VHCA_READ)
		bytes += REMOTE + nsge * SGE;
	else if (kind == VHCA_SEND)
		bytes += nsge * SGE;
	return DIV_ROUND_UP(bytes, BLOCK);
}

struct vhca_qp *vhca_qp_get(struct vhca *v, u32 qpn)
{
	struct vhca_qp *qp;
	unsigned long flags;

	xa_lock_irqsave(&v->qps, flags);
	qp = xa_load(&v->qps, qpn);
	if (qp)
		kref_get(&qp->ref);
	xa_unlock_irqrestore(&v->qps, flags);
	return qp;
}

static void last_ref(struct kref *ref)
{
	complete(&container_of(ref, struct vhca_qp, ref)->gone);
}

void vhca_qp_put(struct vhca_qp *qp)
{
	kref_put(&qp->ref, last_ref);
}

static void free_queues(struct vhca_qp *qp)
{
	u32 i;

	for (i = 0; qp->rq && i < qp->rq_size; i++)
		kfree(qp->rq[i].sge);
	kvfree(qp->rq);
	kvfree(qp->sge);
	kvfree(qp->sq);
}

static int make_queues(struct vhca_qp *qp, u32 largest)
{
	const struct ib_qp_cap *cap = &qp->init.cap;
	u32 i;

	/* The smallest work requests have a block each. SGEs lie in the blocks; the last may run over the end. */
	qp->sq_size = qp->blocks;
	qp->rq_size = cap->max_recv_wr;
	qp->sq = kvcalloc(qp->sq_size, sizeof(*qp->sq), GFP_KERNEL);
	qp->sge = kvcalloc(qp->blocks + largest, BLOCK, GFP_KERNEL);
	qp->rq = kvcalloc(qp->rq_size, sizeof(*qp->rq), GFP_KERNEL);
	if (!qp->sq || !qp->sge || !qp->rq)
		return -ENOMEM;
	for (i = 0; i < qp->rq_size; i++) {
		qp->rq[i].sge = kcalloc(max(cap->max_recv_sge, 1u), sizeof(struct ib_sge), GFP_KERNEL);
		if (!qp->rq[i].sge)
			return -ENOMEM;
	}
	return 0;
}

int vhca_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct vhca_qp *qp = to_vqp(ibqp);
	struct vhca *v = to_vhca(ibqp->device);
	const struct vhca_preset *p = v->preset;
	struct ib_qp_cap *cap = &init->cap;
	u32 largest, qpn;
	int err;

	if (udata || init->srq || init->create_flags ||
	    (init->qp_type != IB_QPT_RC && !(init->qp_type == IB_QPT_GSI && !p->iwarp)))
		return -EOPNOTSUPP;
	largest = max3(blocks_of(VHCA_REG, 0), blocks_of(VHCA_WRITE, cap->max_send_sge),
		       blocks_of(VHCA_READ, min(cap->max_send_sge, p->read_sge)));
	if (cap->max_send_sge > p->send_sge || cap->max_recv_sge > p->recv_sge || cap->max_recv_wr > p->recv_wr ||
	    cap->max_send_wr > p->send_blocks / largest || !cap->max_send_wr || cap->max_inline_data)
		return -EINVAL;

	qp->dev = v;
	qp->init = *init;
	qp->state = IB_QPS_RESET;
	qp->blocks = cap->max_send_wr * largest;
	kref_init(&qp->ref);
	init_completion(&qp->gone);
	spin_lock_init(&qp->lock);
	INIT_DELAYED_WORK(&qp->work, vhca_qp_work);
	qp->irq = IRQ_WORK_INIT_HARD(vhca_qp_interrupt);
	vhca_timer_setup(&qp->timer, vhca_qp_timer);
	vhca_timer_setup(&qp->recv_timer, vhca_recv_timer);
	err = make_queues(qp, largest);
	if (err)
		goto fail;
	if (init->qp_type == IB_QPT_GSI) {
		qpn = 1;
		err = xa_insert_irq(&v->qps, qpn, qp, GFP_KERNEL);
	} else {
		/* From 2 on, and as many as there are keys. */
		err = xa_alloc_cyclic_irq(&v->qps, &qpn, qp, XA_LIMIT(v->first_key + 2, v->first_key + 0xfffff),
					  &v->next_qpn, GFP_KERNEL);
	}
	if (err < 0)
		goto fail;
	ibqp->qp_num = qpn;
	return 0;

fail:
	free_queues(qp);
	return err;
}

int vhca_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct vhca_qp *qp = to_vqp(ibqp);
	struct vhca *v = qp->dev;
	u64 i;

	vhca_qp_set_state(qp, IB_QPS_ERR);
	/* One that was made of a queue pair in the error state has not been ended by that. */
	if (v->preset->iwarp)
		vhca_iw_closed(qp);
	xa_erase_irq(&v->qps, ibqp->qp_num);
	hrtimer_cancel(&qp->timer);
	hrtimer_cancel(&qp->recv_timer);
	irq_work_sync(&qp->irq);
	cancel_delayed_work_sync(&qp->work);
	vhca_qp_put(qp);
	wait_for_completion(&qp->gone);
	/* A peer that found it before that may have queued its work. */
	cancel_delayed_work_sync(&qp->work);
	if (qp->blamed)
		vhca_qp_put(qp->blamed);
	vhca_cq_forget(to_vcq(qp->init.send_cq), qp);
	vhca_cq_forget(to_vcq(qp->init.recv_cq), qp);
	vhca_sq_over(qp, qp->sq_posted);
	/* Registrations that were never carried out. */
	for (i = qp->sq_done; i != qp->sq_posted; i++)
		if (qp->sq[i % qp->sq_size].region)
			vhca_mr_posted(v, qp->sq[i % qp->sq_size].region, false);
	free_queues(qp);
	return 0;
}

void vhca_qp_set_state(struct vhca_qp *qp, enum ib_qp_state state)
{
	unsigned long flags;
	bool closed;

	spin_lock_irqsave(&qp->lock, flags);
	closed = qp->state != state && state == IB_QPS_ERR;
	/* There is no way back from an error. */
	if (qp->state != IB_QPS_ERR)
		qp->state = state;
	spin_unlock_irqrestore(&qp->lock, flags);
	if (closed) {
		vhca_mr_hide(qp);
		if (qp->dev->preset->iwarp)
			vhca_iw_closed(qp);
	}
	mod_delayed_work(vhca_wq, &qp->work, 0);
}

void vhca_qp_event(struct vhca_qp *qp, enum ib_event_type type)
{
	struct ib_event event = {.device = &qp->dev->ib, .element.qp = &qp->ib, .event = type};

	if (qp->ib.event_handler)
		qp->ib.event_handler(&event, qp->ib.qp_context);
}

int vhca_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct vhca_qp *qp = to_vqp(ibqp);
	struct vhca *v = qp->dev;
	enum ib_qp_state from = qp->state, to = mask & IB_QP_STATE ? attr->qp_state : from;
	unsigned long flags;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	/* iw_cm asks for SQD to close in order; what has been posted then is flushed here, as the peer may not care. */
	if (v->preset->iwarp && to == IB_QPS_SQD)
		to = IB_QPS_ERR;
	/* No ULP of the kernel does it, and it would take a queue that forgets, or one that stops. */
	if (to != from && (to == IB_QPS_RESET || to == IB_QPS_SQD))
		return -EOPNOTSUPP;
	if (!v->preset->iwarp && !ib_modify_qp_is_ok(from, to, ibqp->qp_type, mask))
		return -EINVAL;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > v->preset->reads)
		return -EINVAL;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > v->preset->reads)
		return -EINVAL;

	spin_lock_irqsave(&qp->lock, flags);
	if (mask & IB_QP_AV)
		qp->attr.ah_attr = attr->ah_attr;
	if (mask & IB_QP_DEST_QPN)
		qp->attr.dest_qp_num = attr->dest_qp_num;
	if (mask & IB_QP_TIMEOUT)
		qp->attr.timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT)
		qp->attr.retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		qp->attr.rnr_retry = attr->rnr_retry;
	if (mask & IB_QP_MIN_RNR_TIMER)
		qp->attr.min_rnr_timer = attr->min_rnr_timer;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		qp->attr.max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IB_QP_ACCESS_FLAGS)
		qp->attr.qp_access_flags = attr->qp_access_flags;
	if (mask & IB_QP_PATH_MTU)
		qp->attr.path_mtu = attr->path_mtu;
	if (mask & IB_QP_QKEY)
		qp->attr.qkey = attr->qkey;
	if (mask & IB_QP_SQ_PSN)
		qp->attr.sq_psn = attr->sq_psn;
	if (mask & IB_QP_RQ_PSN)
		qp->attr.rq_psn = attr->rq_psn;
	if (mask & IB_QP_PKEY_INDEX)
		qp->attr.pkey_index = attr->pkey_index;
	if (mask & IB_QP_PORT)
		qp->attr.port_num = attr->port_num;
	spin_unlock_irqrestore(&qp->lock, flags);
	if (mask & IB_QP_STATE)
		vhca_qp_set_state(qp, to);
	return 0;
}

int vhca_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init)
{
	struct vhca_qp *qp = to_vqp(ibqp);

	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->cap = qp->init.cap;
	*init = qp->init;
	return 0;
}

/* Why @wr must not be posted to @qp; NULL when it may. */
static const char *forbidden(const struct vhca_qp *qp, const struct ib_send_wr *wr, enum vhca_kind kind)
{
	const struct vhca_preset *p = qp->dev->preset;

	/* Immediate data would want a Receive of a Write; iWARP has none at all. */
	if (wr->opcode == IB_WR_RDMA_WRITE_WITH_IMM ||
	    (kind == VHCA_SEND && wr->opcode != IB_WR_SEND && wr->opcode != IB_WR_SEND_WITH_INV &&
	     (wr->opcode != IB_WR_SEND_WITH_IMM || p->iwarp)))
		return "an operation that there is not";
	if (wr->num_sge < 0 || wr->num_sge > (int)qp->init.cap.max_send_sge)
		return "more SGEs than the queue pair has";
	if (kind == VHCA_READ && wr->num_sge > (int)p->read_sge)
		return "more SGEs than a Read has";
	if (wr->opcode == IB_WR_RDMA_READ_WITH_INV && !p->iwarp)
		return "Read With Invalidate, which is iWARP's";
	if (wr->send_flags & IB_SEND_INLINE)
		return "inline data";
	if (kind == VHCA_REG && reg_wr(wr)->mr->device != qp->ib.device)
		return "a registration of another device's region";
	if (kind == VHCA_REG && READ_ONCE(to_vmr(reg_wr(wr)->mr)->posted))
		return "a registration of a region whose last one is not carried out";
	return NULL;
}

/* @n more work requests use the memory of @e, by its bus addresses; a region's is looked after by the region. */
static void use(struct vhca_qp *qp, const struct vhca_swqe *e, int n)
{
	int i;

	for (i = 0; qp->dev->checks && i < e->nsge; i++)
		if (e->sge[i].lkey == qp->dev->ib.local_dma_lkey && e->sge[i].length)
			vhca_dma_use(qp->dev, e->sge[i].addr, n);
}

void vhca_sq_over(struct vhca_qp *qp, u64 to)
{
	while (qp->sq_over < to)
		use(qp, &qp->sq[qp->sq_over++ % qp->sq_size], -1);
}

static void take(struct vhca_qp *qp, struct vhca_swqe *e, const struct ib_send_wr *wr, enum vhca_kind kind)
{
	struct ib_sge *sge = qp->sge + qp->blocks_posted % qp->blocks * (BLOCK / SGE);
	int i, nsge = kind == VHCA_REG || kind == VHCA_INV ? 0 : wr->num_sge;

	*e = (struct vhca_swqe){
		.wr_id = wr->wr_id, .opcode = wr->opcode, .flags = wr->send_flags, .sge = sge, .nsge = nsge,
		.imm = wr->ex.imm_data, .rkey = wr->ex.invalidate_rkey,
	};
	if (qp->init.sq_sig_type == IB_SIGNAL_ALL_WR)
		e->flags |= IB_SEND_SIGNALED;
	for (i = 0; i < nsge; i++) {
		sge[i] = wr->sg_list[i];
		e->length += sge[i].length;
	}
	if (kind == VHCA_WRITE || kind == VHCA_READ) {
		e->remote_addr = rdma_wr(wr)->remote_addr;
		e->rkey = rdma_wr(wr)->rkey;
	} else if (kind == VHCA_REG) {
		e->region = to_vmr(reg_wr(wr)->mr)->key >> 8;
		e->rkey = reg_wr(wr)->key;
		e->access = reg_wr(wr)->access;
		vhca_mr_posted(qp->dev, e->region, true);
	} else if (qp->ib.qp_type == IB_QPT_GSI) {
		const struct ib_global_route *grh = &to_vah(ud_wr(wr)->ah)->attr.grh;

		e->av = (struct vhca_av){
			.sgid = grh->sgid_attr->gid, .dgid = grh->dgid, .qpn = ud_wr(wr)->remote_qpn,
			.network = rdma_gid_attr_network_type(grh->sgid_attr),
		};
		e->av.no_interface = rdma_read_gid_l2_fields(grh->sgid_attr, &e->av.vlan, e->av.mac);
	}
	e->blocks = blocks_of(kind, nsge);
	use(qp, e, 1);
}

int vhca_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct vhca_qp *qp = to_vqp(ibqp);
	struct vhca *v = qp->dev;
	unsigned long flags;
	const char *why = NULL;
	int err = 0;

	spin_lock_irqsave(&qp->lock, flags);
	for (; wr; wr = wr->next) {
		enum vhca_kind kind = vhca_kind_of(wr->opcode);
		u32 blocks = blocks_of(kind, max(wr->num_sge, 0));
		u64 used = qp->blocks_posted - READ_ONCE(qp->blocks_free);

		/* A caller may find out by this that the connection is not there yet; the rest is a fault of its own. */
		if (qp->state == IB_QPS_RESET || qp->state == IB_QPS_INIT || qp->state == IB_QPS_RTR) {
			err = -EINVAL;
			break;
		}
		why = forbidden(qp, wr, kind);
		if (why) {
			err = -EINVAL;
			break;
		}
		if (used + blocks > qp->blocks) {
			why = "a work request for which the send queue has no room";
			err = -ENOMEM;
			break;
		}
		take(qp, &qp->sq[qp->sq_posted % qp->sq_size], wr, kind);
		qp->blocks_posted += blocks;
		qp->sq_posted++;
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	if (err) {
		*bad = wr;
		if (why)
			vhca_fault(v, "post of %s (%s, %d SGEs)", why, vhca_kinds[vhca_kind_of(wr->opcode)],
				   wr->num_sge);
	}
	if (v->checks)
		queue_delayed_work(vhca_wq, &qp->work, 0);
	else
		irq_work_queue(&qp->irq);
	return err;
}

int vhca_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct vhca_qp *qp = to_vqp(ibqp);
	unsigned long flags;
	int i, err = 0;

	spin_lock_irqsave(&qp->lock, flags);
	for (; wr && !err; wr = wr->next) {
		struct vhca_rwqe *e;

		if (qp->state == IB_QPS_RESET || wr->num_sge < 0 || wr->num_sge > (int)qp->init.cap.max_recv_sge)
			err = -EINVAL;
		else if (qp->rq_posted - qp->rq_done == qp->rq_size)
			err = -ENOMEM;
		if (err)
			break;
		e = &qp->rq[qp->rq_posted++ % qp->rq_size];
		e->wr_id = wr->wr_id;
		e->nsge = wr->num_sge;
		for (i = 0; i < wr->num_sge; i++)
			e->sge[i] = wr->sg_list[i];
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	if (err) {
		*bad = wr;
		vhca_fault(qp->dev, "post of a Receive: %s", err == -ENOMEM ? "the queue is full" :
			   qp->state == IB_QPS_RESET ? "the queue pair is not initialized" : "too many SGEs");
	}
	if (READ_ONCE(qp->state) == IB_QPS_ERR)
		queue_delayed_work(vhca_wq, &qp->work, 0);
	return err;
}
