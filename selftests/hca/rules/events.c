// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cases of faults on demand and of events.
 */
#include <linux/delay.h>

#include "rules.h"

/* A peer may read and write. */
#define BOTH	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

/* The second of each kind fails, as was asked. */
static int inject_fails(struct bed *bed)
{
	struct end *a = &bed->a;

	/* 10: IB_WC_REM_ACCESS_ERR */
	TRY(tell(a, "inject", "write 2 10"));
	TRY(post_recv(&bed->b, 1, bed->b.bus, 100));
	TRY(post_wr(a, 1, (struct op){IB_WR_RDMA_WRITE}));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	TRY(post_wr(a, 2, (struct op){IB_WR_SEND, .addr = a->bus, .length = 100}));
	TRY(done(a->scq, 2, IB_WC_SUCCESS));
	TRY(post_wr(a, 3, (struct op){IB_WR_RDMA_WRITE}));
	TRY(done(a->scq, 3, IB_WC_REM_ACCESS_ERR));
	MUST(to_vqp(a->qp)->state == IB_QPS_ERR);
	return 0;
}

/* What was asked for at the same time happens one after the other. */
static int inject_twice(struct bed *bed)
{
	struct end *a = &bed->a;
	ktime_t began;

	TRY(tell(a, "inject", "write 1 hold 100"));
	TRY(tell(a, "inject", "write 1 10"));
	began = ktime_get();
	TRY(post_wr(a, 1, (struct op){IB_WR_RDMA_WRITE}));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	MUST(ktime_ms_delta(ktime_get(), began) >= 99);
	TRY(post_wr(a, 2, (struct op){IB_WR_RDMA_WRITE}));
	return done(a->scq, 2, IB_WC_REM_ACCESS_ERR);
}

/* What waits for long goes on when it is told to. */
static int inject_release(struct bed *bed)
{
	struct end *a = &bed->a;

	TRY(tell(a, "inject", "write 1 hold 600000"));
	TRY(post_wr(a, 1, (struct op){IB_WR_RDMA_WRITE}));
	TRY(none(a->scq, 20));
	TRY(tell(a, "inject", "release"));
	return done(a->scq, 1, IB_WC_SUCCESS);
}

/* A message from a of @n bytes, of which a is told at once, whenever b is. */
static int message(struct bed *bed, u64 wr_id, u32 n)
{
	TRY(post_wr(&bed->a, wr_id, (struct op){IB_WR_SEND, .addr = bed->a.bus, .length = n}));
	return done(bed->a.scq, wr_id, IB_WC_SUCCESS);
}

/* The second message is told of late, and what comes behind it, behind it. Its bytes are there, and its sender knows. */
static int inject_recv(struct bed *bed)
{
	struct end *b = &bed->b;
	s64 held = atomic64_read(&b->v->held);
	struct ib_wc wc;
	ktime_t began;
	int i;

	TRY(tell(b, "inject", "recv 2 hold 200"));
	fill(&bed->a, 0x22);
	fill(b, 0x11);
	for (i = 1; i <= 3; i++)
		TRY(post_recv(b, i, b->bus + i * 100, 100));
	TRY(message(bed, 11, 10));
	TRY(done(b->rcq, 1, IB_WC_SUCCESS));
	began = ktime_get();
	TRY(message(bed, 12, 20));
	TRY(message(bed, 13, 30));
	MUST(ktime_ms_delta(ktime_get(), began) < 150);
	MUST(holds(b, 200, 20, 0x22) && holds(b, 220, 80, 0x11) && holds(b, 300, 30, 0x22));
	TRY(none(b->rcq, 20));
	TRY(next_wc(b->rcq, &wc));
	MUST(wc.wr_id == 2 && wc.status == IB_WC_SUCCESS && wc.opcode == IB_WC_RECV && wc.byte_len == 20);
	MUST(ktime_ms_delta(ktime_get(), began) >= 199);
	TRY(next_wc(b->rcq, &wc));
	MUST(wc.wr_id == 3 && wc.status == IB_WC_SUCCESS && wc.byte_len == 30);
	MUST(atomic64_read(&b->v->held) == held + 1);
	return none(b->rcq, 1);
}

static int inject_recv_release(struct bed *bed)
{
	struct end *b = &bed->b;

	TRY(tell(b, "inject", "recv 1 hold 600000"));
	TRY(post_recv(b, 1, b->bus, 100));
	TRY(message(bed, 11, 10));
	TRY(none(b->rcq, 20));
	TRY(tell(b, "inject", "release"));
	return done(b->rcq, 1, IB_WC_SUCCESS);
}

/* A Receive that is held back takes its room until it is told of, and is not there for another message. */
static int inject_recv_room(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	int i;

	TRY(tell(b, "inject", "recv 1 hold 600000"));
	for (i = 0; i < bed->set.recv_wr; i++)
		TRY(post_recv(b, i, b->bus, 100));
	TRY(message(bed, 11, 10));
	TRY(message(bed, 12, 10));
	MUST(post_recv(b, 9, b->bus, 100) == -ENOMEM);
	TRY(broken(b, 1, "the queue is full"));
	TRY(post_wr(a, 13, (struct op){IB_WR_SEND, .addr = a->bus, .length = 10}));
	TRY(done(a->scq, 13, a->v->preset->iwarp ? IB_WC_REM_OP_ERR : IB_WC_RNR_RETRY_EXC_ERR));
	return 0;
}

/* What has come before the end of the queue pair is no failure, and comes ahead of what is flushed. */
static int inject_recv_error(struct bed *bed)
{
	struct end *b = &bed->b;
	int i;

	TRY(tell(b, "inject", "recv 2 hold 600000"));
	for (i = 1; i <= 4; i++)
		TRY(post_recv(b, i, b->bus, 100));
	for (i = 1; i <= 3; i++)
		TRY(message(bed, 10 + i, 10));
	TRY(done(b->rcq, 1, IB_WC_SUCCESS));
	TRY(none(b->rcq, 20));
	TRY(to_error(b));
	TRY(done(b->rcq, 2, IB_WC_SUCCESS));
	TRY(done(b->rcq, 3, IB_WC_SUCCESS));
	return done(b->rcq, 4, IB_WC_WR_FLUSH_ERR);
}

static int inject_reg(struct bed *bed)
{
	struct end *a = &bed->a;

	/* 6: IB_WC_MW_BIND_ERR */
	TRY(tell(a, "inject", "reg 1 6"));
	TRY(map_region(a, a->bus, PAGE_SIZE));
	TRY(post_reg(a, 1, a->mr->rkey, IB_ACCESS_LOCAL_WRITE));
	TRY(done(a->scq, 1, IB_WC_MW_BIND_ERR));
	/* It is in no send queue. */
	return map_region(a, a->bus, PAGE_SIZE);
}

static int inject_refuses(struct bed *bed)
{
	static const char *const wrong_texts[] = {
		"", "send", "send 1", "send 0 5", "send 1 0", "recv 1 5", "recv 0 hold 5", "send 1 99", "eat 1 5",
		/* Longer than anything that there is to say. */
		"send 1 5                                                        "
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong_texts); i++)
		if (!tell(&bed->a, "inject", wrong_texts[i]))
			return wrong("\"%s\" is taken", wrong_texts[i]);
	MUST(list_empty(&bed->a.v->injections));
	MUST(tell(&bed->a, "event", "earthquake"));
	return 0;
}

struct listener {
	struct ib_event_handler handler;
	atomic_t seen[32];
};

static void seen(struct ib_event_handler *handler, struct ib_event *event)
{
	struct listener *l = container_of(handler, struct listener, handler);

	if (event->event < ARRAY_SIZE(l->seen))
		atomic_inc(&l->seen[event->event]);
}

static int wait_seen(struct listener *l, enum ib_event_type event)
{
	int i;

	for (i = 0; i < 5000 && !atomic_read(&l->seen[event]); i++)
		usleep_range(500, 1000);
	if (atomic_read(&l->seen[event]) != 1)
		return wrong("event %s was seen %d times", ib_event_msg(event), atomic_read(&l->seen[event]));
	return 0;
}

static int events(struct bed *bed, struct listener *l)
{
	struct end *a = &bed->a;
	struct ib_port_attr port;

	TRY(ib_query_port(a->dev, 1, &port));
	MUST(port.state == IB_PORT_ACTIVE);
	TRY(tell(a, "event", "port down"));
	TRY(wait_seen(l, IB_EVENT_PORT_ERR));
	TRY(ib_query_port(a->dev, 1, &port));
	MUST(port.state == IB_PORT_DOWN);
	/* Nobody answers, for as long as it asks. */
	to_vqp(a->qp)->attr.retry_cnt = 250;
	TRY(post_wr(a, 1, (struct op){IB_WR_RDMA_WRITE}));
	TRY(none(a->scq, 20));
	TRY(tell(a, "event", "port up"));
	TRY(wait_seen(l, IB_EVENT_PORT_ACTIVE));
	TRY(ib_query_port(a->dev, 1, &port));
	MUST(port.state == IB_PORT_ACTIVE);
	TRY(done(a->scq, 1, IB_WC_SUCCESS));

	TRY(tell(a, "event", "fatal"));
	TRY(wait_seen(l, IB_EVENT_DEVICE_FATAL));
	MUST(!atomic_read(&a->events[IB_EVENT_SQ_DRAINED]));
	TRY(tell(a, "event", "sq-drained"));
	MUST(atomic_read(&a->events[IB_EVENT_SQ_DRAINED]) == 1);
	TRY(post_recv(a, 2, a->bus, 100));
	MUST(!atomic_read(&a->events[IB_EVENT_QP_FATAL]));
	TRY(tell(a, "event", "qp-fatal"));
	MUST(atomic_read(&a->events[IB_EVENT_QP_FATAL]) == 1);
	TRY(done(a->rcq, 2, IB_WC_WR_FLUSH_ERR));
	MUST(to_vqp(a->qp)->state == IB_QPS_ERR);
	/* The devices do not share their events. */
	MUST(!atomic_read(&bed->b.events[IB_EVENT_QP_FATAL]));
	return 0;
}

static int all_events(struct bed *bed)
{
	struct listener *l = kzalloc(sizeof(*l), GFP_KERNEL);
	int err;

	MUST(l);
	INIT_IB_EVENT_HANDLER(&l->handler, bed->a.dev, seen);
	ib_register_event_handler(&l->handler);
	err = events(bed, l);
	ib_unregister_event_handler(&l->handler);
	kfree(l);
	return err;
}

/* The peer's port is gone: nobody answers, until the retries are over. */
static int peer_gone(struct bed *bed)
{
	struct end *a = &bed->a;
	int err;

	TRY(tell(&bed->b, "event", "port down"));
	err = post_wr(a, 1, (struct op){IB_WR_RDMA_WRITE}) ?: done(a->scq, 1, IB_WC_RETRY_EXC_ERR);
	TRY(tell(&bed->b, "event", "port up"));
	TRY(err);
	MUST(to_vqp(a->qp)->state == IB_QPS_ERR);
	return 0;
}

/* A datagram that meets another one waits for that. The connection manager would send it again after four seconds. */
static int datagram_waits(struct bed *bed)
{
	struct vhca_qp *qp = xa_load(&bed->b.v->qps, 1);

	MUST(qp);
	msleep(20);
	WRITE_ONCE(qp->rq_busy, true);
	TRY(rdma_disconnect(bed->a.id));
	MUST(!wait_for_completion_timeout(&bed->parted, HZ / 20));
	WRITE_ONCE(qp->rq_busy, false);
	MUST(wait_for_completion_timeout(&bed->parted, 2 * HZ));
	return 0;
}

/* The device goes while a connection is up, work is posted and memory is registered: its users are told first. */
static int device_removed(struct bed *bed)
{
	struct end *a = &bed->a;
	int i;

	TRY(reg(a, a->bus, PAGE_SIZE, BOTH));
	for (i = 0; i < 4; i++)
		TRY(post_recv(a, i, a->bus, 100));
	expect_removal();
	TRY(tell(a, "event", "remove"));
	TRY(removal());
	MUST(!bed->up);
	return 0;
}

const struct rules_case event_cases[] = {
	{"inject-fails", inject_fails},
	{"inject-twice", inject_twice},
	{"inject-release", inject_release},
	{"inject-recv", inject_recv},
	{"inject-recv-release", inject_recv_release},
	{"inject-recv-room", inject_recv_room, .set = {.recv_wr = 2}},
	{"inject-recv-error", inject_recv_error},
	{"inject-reg", inject_reg},
	{"inject-refuses", inject_refuses, ALONE},
	{"events", all_events},
	{"peer-gone", peer_gone},
	{"datagram-waits", datagram_waits, ROCE},
	{"device-removed", device_removed, REMOVES},
	{}
};
