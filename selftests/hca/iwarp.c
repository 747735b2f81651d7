// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connections of the iWARP kind. Both ends are in this kernel: a request finds its listener at once, by the device
 * whose interface has the address. What iw_cm is told it puts into a queue of its own, so that it may be told
 * anywhere; each end is told of its connection's end once.
 */
#include <linux/inetdevice.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>

#include "vhca.h"

/* Until somebody who asked for a connection is told that nobody has decided, seconds. */
#define PATIENCE	10

enum conn_state { ASKED, UP, OVER };

/* One end. Whoever's iw_cm_id it is, the queue pair and the other end hold it. */
struct vhca_conn {
	struct kref ref;
	enum conn_state state;
	bool active, told;
	struct iw_cm_id *id;		/* referenced; NULL at the passive end until it accepts */
	struct vhca_conn *peer;		/* referenced */
	struct vhca_qp *qp;		/* referenced */
	struct iw_cm_conn_param param;
	struct delayed_work patience;
};

struct listener {
	struct list_head node;
	struct iw_cm_id *id;
};

/* All of this file. What is called below it takes locks of iw_cm's and of queue pairs. */
static DEFINE_SPINLOCK(conn_lock);
static LIST_HEAD(listeners);

static void free_conn(struct kref *ref)
{
	kfree(container_of(ref, struct vhca_conn, ref));
}

static void put(struct vhca_conn *conn)
{
	if (conn)
		kref_put(&conn->ref, free_conn);
}

static void tell(struct vhca_conn *conn, enum iw_cm_event_type type, int status, const void *data, u8 length)
{
	struct iw_cm_event event = {
		.event = type, .status = status, .private_data = (void *)data, .private_data_len = length,
		.local_addr = conn->id->m_local_addr, .remote_addr = conn->id->m_remote_addr,
	};

	if (conn->peer && type == IW_CM_EVENT_CONNECT_REPLY) {
		event.ird = conn->peer->param.ird;
		event.ord = conn->peer->param.ord;
	}
	conn->id->event_handler(conn->id, &event);
}

/*
 * The end of @conn: whoever it belongs to is told, with @status. Returns the queue pair that is to follow, with the
 * reference that the connection had, or NULL. conn_lock.
 */
static struct vhca_qp *end(struct vhca_conn *conn, int status)
{
	enum conn_state was = conn->state;
	struct iw_cm_id *id = conn->id;
	struct vhca_qp *qp = conn->qp;

	lockdep_assert_held(&conn_lock);
	if (was == OVER)
		return NULL;
	conn->state = OVER;
	if (id && was == UP) {
		if (status)
			tell(conn, IW_CM_EVENT_DISCONNECT, status, NULL, 0);
		tell(conn, IW_CM_EVENT_CLOSE, status, NULL, 0);
	} else if (id && conn->active && !conn->told) {
		tell(conn, IW_CM_EVENT_CONNECT_REPLY, status ?: -ECONNRESET, NULL, 0);
	}
	conn->id = NULL;
	conn->qp = NULL;
	if (id)
		id->rem_ref(id);
	/* Not the last one: the caller has another. */
	if (conn->active && cancel_delayed_work(&conn->patience))
		put(conn);
	return qp;
}

/* Both ends are over: @conn's own knows, the other is told. */
static void end_both(struct vhca_conn *conn, int own, int other)
{
	struct vhca_qp *qps[2], *peers[2] = {};
	struct vhca_conn *peer;
	unsigned long flags;
	int i;

	spin_lock_irqsave(&conn_lock, flags);
	peer = conn->peer;
	qps[0] = end(conn, own);
	qps[1] = peer ? end(peer, other) : NULL;
	for (i = 0; i < 2; i++) {
		if (!qps[i])
			continue;
		qps[i]->conn = NULL;
		spin_lock(&qps[i]->lock);
		peers[i] = qps[i]->peer;
		qps[i]->peer = NULL;
		spin_unlock(&qps[i]->lock);
	}
	conn->peer = NULL;
	if (peer)
		peer->peer = NULL;
	spin_unlock_irqrestore(&conn_lock, flags);
	if (peer) {
		put(conn);
		put(peer);
	}
	for (i = 0; i < 2; i++) {
		if (peers[i])
			vhca_qp_put(peers[i]);
		if (qps[i]) {
			vhca_qp_set_state(qps[i], IB_QPS_ERR);
			vhca_qp_put(qps[i]);
			/* The reference of qp->conn. */
			put(i ? peer : conn);
		}
	}
}

static void nobody_decides(struct work_struct *work)
{
	struct vhca_conn *conn = container_of(to_delayed_work(work), struct vhca_conn, patience);
	unsigned long flags;
	bool late;

	spin_lock_irqsave(&conn_lock, flags);
	late = conn->state == ASKED;
	spin_unlock_irqrestore(&conn_lock, flags);
	if (late)
		end_both(conn, -ETIMEDOUT, -ECONNRESET);
	put(conn);
}

static struct vhca_conn *make_conn(bool active)
{
	struct vhca_conn *conn = kzalloc(sizeof(*conn), GFP_KERNEL);

	if (!conn)
		return NULL;
	kref_init(&conn->ref);
	conn->active = active;
	INIT_DELAYED_WORK(&conn->patience, nobody_decides);
	return conn;
}

void vhca_iw_add_ref(struct ib_qp *qp)
{
	kref_get(&to_vqp(qp)->ref);
}

void vhca_iw_rem_ref(struct ib_qp *qp)
{
	vhca_qp_put(to_vqp(qp));
}

struct ib_qp *vhca_iw_get_qp(struct ib_device *ib, int qpn)
{
	struct vhca_qp *qp = vhca_qp_get(to_vhca(ib), qpn);

	if (!qp)
		return NULL;
	/* Whoever asks holds it some other way. */
	vhca_qp_put(qp);
	return &qp->ib;
}

static __be16 port_of(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET ? ((const struct sockaddr_in *)addr)->sin_port :
		((const struct sockaddr_in6 *)addr)->sin6_port;
}

/* Whether @ndev has the address. */
static bool has_address(struct net_device *ndev, const struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)addr;
	struct in_device *in_dev;
	bool found = false;

	if (addr->ss_family != AF_INET)
		return ipv6_chk_addr(dev_net(ndev), &in6->sin6_addr, ndev, 0);
	rcu_read_lock();
	in_dev = __in_dev_get_rcu(ndev);
	if (in_dev) {
		const struct in_ifaddr *ifa;

		in_dev_for_each_ifa_rcu(ifa, in_dev)
			found |= ifa->ifa_local == in4->sin_addr.s_addr;
	}
	rcu_read_unlock();
	return found;
}

static bool is_wildcard(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET ? !((const struct sockaddr_in *)addr)->sin_addr.s_addr :
		ipv6_addr_any(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
			((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return ipv6_addr_equal(&((const struct sockaddr_in6 *)a)->sin6_addr,
			       &((const struct sockaddr_in6 *)b)->sin6_addr);
}

/* Who listens at @addr, as @from can reach it; NULL: nobody. conn_lock. */
static struct listener *find_listener(struct vhca *from, const struct sockaddr_storage *addr)
{
	struct listener *l;

	lockdep_assert_held(&conn_lock);
	list_for_each_entry(l, &listeners, node) {
		struct vhca *v = to_vhca(l->id->device);

		if (port_of(&l->id->m_local_addr) != port_of(addr) || !v->port_up ||
		    l->id->m_local_addr.ss_family != addr->ss_family)
			continue;
		if (is_wildcard(&l->id->m_local_addr) ? has_address(v->netdev, addr) :
		    same_address(&l->id->m_local_addr, addr))
			return l;
	}
	return NULL;
}

int vhca_iw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct vhca *v = to_vhca(id->device);
	struct vhca_qp *qp = vhca_qp_get(v, param->qpn);
	struct vhca_conn *us = make_conn(true), *them = make_conn(false);
	struct iw_cm_event event = {.event = IW_CM_EVENT_CONNECT_REQUEST};
	struct listener *l;
	unsigned long flags;
	int err = 0;

	if (!qp || !us || !them) {
		if (qp)
			vhca_qp_put(qp);
		put(us);
		put(them);
		return qp ? -ENOMEM : -EINVAL;
	}
	if (!v->port_up)
		err = -ENETUNREACH;

	spin_lock_irqsave(&conn_lock, flags);
	us->id = id;
	us->param = *param;
	us->qp = qp;
	id->add_ref(id);
	id->provider_data = us;
	/* Three hold each end: its queue pair, the other end, and here the clock. */
	kref_get(&us->ref);
	qp->conn = us;
	l = err ? NULL : find_listener(v, &id->m_remote_addr);
	if (l) {
		us->peer = them;
		them->peer = us;
		kref_get(&us->ref);
		event.local_addr = id->m_remote_addr;
		event.remote_addr = id->m_local_addr;
		event.private_data = (void *)param->private_data;
		event.private_data_len = param->private_data_len;
		event.provider_data = them;
		event.ird = param->ird;
		event.ord = param->ord;
		/* The reference of the identifier that iw_cm makes of it. */
		kref_get(&them->ref);
		if (l->id->event_handler(l->id, &event)) {
			put(them);
			l = NULL;
		}
	}
	/* Before anybody can end it: that is where the clock is stopped. */
	if (l)
		queue_delayed_work(vhca_wq, &us->patience, PATIENCE * HZ);
	spin_unlock_irqrestore(&conn_lock, flags);
	if (!l) {
		bool paired = us->peer;

		end_both(us, err ?: -ECONNREFUSED, -ECONNREFUSED);
		if (!paired)
			put(them);
		put(us);
	}
	return 0;
}

int vhca_iw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct vhca_qp *qp = vhca_qp_get(to_vhca(id->device), param->qpn), *other;
	struct vhca_conn *us = id->provider_data, *them;
	unsigned long flags;
	int err = 0;

	if (!qp)
		return -EINVAL;
	spin_lock_irqsave(&conn_lock, flags);
	them = us->peer;
	if (us->state != ASKED || !them || them->state != ASKED) {
		err = -ECONNRESET;
		goto out;
	}
	us->id = id;
	us->param = *param;
	us->qp = qp;
	id->add_ref(id);
	/* iw_cm's reference becomes that of the queue pair. */
	qp->conn = us;
	us->state = them->state = UP;
	other = them->qp;
	kref_get(&other->ref);
	kref_get(&qp->ref);
	spin_lock(&qp->lock);
	qp->peer = other;
	qp->attr.max_rd_atomic = param->ord;
	qp->attr.max_dest_rd_atomic = param->ird;
	if (qp->state != IB_QPS_ERR)
		qp->state = IB_QPS_RTS;
	spin_unlock(&qp->lock);
	spin_lock(&other->lock);
	other->peer = qp;
	other->attr.max_rd_atomic = them->param.ord;
	other->attr.max_dest_rd_atomic = them->param.ird;
	if (other->state != IB_QPS_ERR)
		other->state = IB_QPS_RTS;
	spin_unlock(&other->lock);
	tell(us, IW_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	tell(them, IW_CM_EVENT_CONNECT_REPLY, 0, param->private_data, param->private_data_len);
	spin_unlock_irqrestore(&conn_lock, flags);
	/* What was posted before. */
	queue_delayed_work(vhca_wq, &qp->work, 0);
	queue_delayed_work(vhca_wq, &other->work, 0);
	return 0;

out:
	spin_unlock_irqrestore(&conn_lock, flags);
	vhca_qp_put(qp);
	/* No event comes for it any more. */
	put(us);
	return err;
}

int vhca_iw_reject(struct iw_cm_id *id, const void *data, u8 length)
{
	struct vhca_conn *us = id->provider_data, *them;
	unsigned long flags;

	spin_lock_irqsave(&conn_lock, flags);
	them = us->peer;
	if (them && them->state == ASKED && them->id) {
		/* With its data; end() would tell without. */
		tell(them, IW_CM_EVENT_CONNECT_REPLY, -ECONNREFUSED, data, length);
		them->told = true;
	}
	spin_unlock_irqrestore(&conn_lock, flags);
	end_both(us, 0, -ECONNREFUSED);
	put(us);
	return 0;
}

int vhca_iw_create_listen(struct iw_cm_id *id, int backlog)
{
	struct listener *l = kzalloc(sizeof(*l), GFP_KERNEL);
	unsigned long flags;

	if (!l)
		return -ENOMEM;
	l->id = id;
	id->add_ref(id);
	id->provider_data = l;
	spin_lock_irqsave(&conn_lock, flags);
	list_add_tail(&l->node, &listeners);
	spin_unlock_irqrestore(&conn_lock, flags);
	return 0;
}

int vhca_iw_destroy_listen(struct iw_cm_id *id)
{
	struct listener *l = id->provider_data;
	unsigned long flags;

	spin_lock_irqsave(&conn_lock, flags);
	list_del(&l->node);
	spin_unlock_irqrestore(&conn_lock, flags);
	id->rem_ref(id);
	kfree(l);
	return 0;
}

void vhca_iw_closed(struct vhca_qp *qp)
{
	struct vhca_conn *conn;
	unsigned long flags;

	spin_lock_irqsave(&conn_lock, flags);
	conn = qp->conn;
	if (conn)
		kref_get(&conn->ref);
	spin_unlock_irqrestore(&conn_lock, flags);
	if (conn) {
		end_both(conn, 0, -ECONNRESET);
		put(conn);
	}
}
