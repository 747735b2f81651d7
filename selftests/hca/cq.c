// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completion queues. They have exactly the room that was asked for. A completion may be held back until others
 * have come or a time has passed. Who waits for one is called in interrupt context, as hardware does: by the CPU that
 * the queue's vector belongs to, or by the one that the completion came from, when vectors were not asked for.
 */
#include <linux/slab.h>

#include "vhca.h"

static void interrupt(struct vhca_cq *cq)
{
	struct ib_event event = {.device = cq->ib.device, .element.cq = &cq->ib, .event = IB_EVENT_CQ_ERR};

	if (xchg(&cq->tell, false))
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
	if (xchg(&cq->overflown, false) && cq->ib.event_handler)
		cq->ib.event_handler(&event, cq->ib.cq_context);
}

static void interrupt_here(struct irq_work *work)
{
	interrupt(container_of(work, struct vhca_cq, irq));
}

static void interrupt_there(void *arg)
{
	struct vhca_cq *cq = arg;

	interrupt(cq);
	atomic_dec_return_release(&cq->calls);
}

/* Have interrupt() find @flag, soon. A vector whose CPU is offline interrupts another one. cq->lock. */
static void raise(struct vhca_cq *cq, bool *flag)
{
	int here = smp_processor_id(), there = here;

	if (cq->dev->vectors) {
		there = cpumask_nth(cq->vector % num_possible_cpus(), cpu_possible_mask);
		if (!cpu_online(there)) {
			atomic64_inc(&cq->dev->moved);
			there = cpumask_any(cpu_online_mask);
		}
	}
	/* A call that is on its way sees it, and one that is not any more is not in the way. */
	smp_store_mb(*flag, true);
	if (there == here) {
		irq_work_queue(&cq->irq);
		return;
	}
	atomic_inc(&cq->calls);
	if (smp_call_function_single_async(there, &cq->call))
		atomic_dec(&cq->calls);
}

/* Those from @cq->shown to @to can be polled now. cq->lock. */
static void show(struct vhca_cq *cq, u64 to)
{
	bool solicited = !cq->solicited_only;
	u64 i;

	for (i = cq->shown; i != to && !solicited; i++)
		solicited = cq->ring[i % cq->size].wc.vendor_err;
	if (cq->armed && cq->shown != to && solicited) {
		cq->armed = false;
		raise(cq, &cq->tell);
	}
	cq->shown = to;
}

static enum hrtimer_restart expired(struct hrtimer *timer)
{
	struct vhca_cq *cq = container_of(timer, struct vhca_cq, timer);
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	show(cq, cq->tail);
	spin_unlock_irqrestore(&cq->lock, flags);
	return HRTIMER_NORESTART;
}

int vhca_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct vhca_cq *cq = to_vcq(ibcq);
	struct vhca *v = to_vhca(ibcq->device);

	if (attrs)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > v->preset->cqe || attr->flags)
		return -EINVAL;
	cq->dev = v;
	cq->size = attr->cqe;
	cq->ring = kvcalloc(cq->size, sizeof(*cq->ring), GFP_KERNEL);
	if (!cq->ring)
		return -ENOMEM;
	spin_lock_init(&cq->lock);
	cq->vector = attr->comp_vector;
	cq->irq = IRQ_WORK_INIT_HARD(interrupt_here);
	INIT_CSD(&cq->call, interrupt_there, cq);
	vhca_timer_setup(&cq->timer, expired);
	ibcq->cqe = cq->size;
	return 0;
}

int vhca_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct vhca_cq *cq = to_vcq(ibcq);

	hrtimer_cancel(&cq->timer);
	irq_work_sync(&cq->irq);
	while (atomic_read_acquire(&cq->calls))
		cpu_relax();
	kvfree(cq->ring);
	return 0;
}

void vhca_cq_push(struct vhca_cq *cq, const struct vhca_cqe *cqe, bool solicited)
{
	struct vhca *v = cq->dev;
	unsigned long flags;
	u64 held;

	spin_lock_irqsave(&cq->lock, flags);
	if (cq->tail - cq->head == cq->size) {
		raise(cq, &cq->overflown);
		spin_unlock_irqrestore(&cq->lock, flags);
		vhca_fault(v, "completion queue of %u overflows", cq->size);
		return;
	}
	cq->ring[cq->tail % cq->size] = *cqe;
	/* Nobody looks at it when there is no error; here it says who may be woken. */
	cq->ring[cq->tail % cq->size].wc.vendor_err = solicited || cqe->wc.status;
	cq->tail++;
	held = cq->tail - cq->shown;
	if (held >= READ_ONCE(v->cq_batch) || !READ_ONCE(v->cq_delay))
		show(cq, cq->tail);
	else if (held == 1)
		hrtimer_start(&cq->timer, ns_to_ktime(v->cq_delay * NSEC_PER_USEC), HRTIMER_MODE_REL_HARD);
	spin_unlock_irqrestore(&cq->lock, flags);
}

int vhca_poll_cq(struct ib_cq *ibcq, int n, struct ib_wc *wc)
{
	struct vhca_cq *cq = to_vcq(ibcq);
	unsigned long flags;
	int i;

	spin_lock_irqsave(&cq->lock, flags);
	for (i = 0; i < n && cq->head != cq->shown; cq->head++) {
		struct vhca_cqe *e = &cq->ring[cq->head % cq->size];

		if (!e->qp)
			continue;
		/* Only now the room in the send queue is known to be free, as drivers of real devices know it. */
		if (e->releases) {
			vhca_sq_over(e->qp, e->over);
			WRITE_ONCE(e->qp->blocks_free, e->release);
		}
		wc[i] = e->wc;
		wc[i++].vendor_err = 0;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return i;
}

int vhca_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags how)
{
	struct vhca_cq *cq = to_vcq(ibcq);
	unsigned long flags;
	int missed;

	spin_lock_irqsave(&cq->lock, flags);
	cq->armed = true;
	cq->solicited_only = (how & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED;
	missed = (how & IB_CQ_REPORT_MISSED_EVENTS) && cq->head != cq->shown;
	spin_unlock_irqrestore(&cq->lock, flags);
	return missed;
}

void vhca_cq_forget(struct vhca_cq *cq, struct vhca_qp *qp)
{
	unsigned long flags;
	u64 i;

	spin_lock_irqsave(&cq->lock, flags);
	for (i = cq->head; i != cq->tail; i++)
		if (cq->ring[i % cq->size].qp == qp)
			cq->ring[i % cq->size].qp = NULL;
	spin_unlock_irqrestore(&cq->lock, flags);
}
