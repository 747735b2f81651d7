// SPDX-License-Identifier: GPL-2.0-only
/*
 * verbsmeter: counts and disturbs what kernel consumers do on an RDMA device.
 *
 * ib_post_send(), ib_post_recv() and ib_poll_cq() are inline calls through ib_device->ops, which no
 * kprobe reaches. This module replaces those three pointers of each device, and those that create
 * and destroy queue pairs, and puts them back when it goes. It knows nothing of any upper layer.
 * Queue pairs and completion queues that belong to user space, and the GSI and SMI queue pairs, are
 * passed through uncounted and undisturbed. Queue pairs that were there first have no line in
 * "caps" and are not broken by "break": load this module before a consumer.
 *
 * Module parameters:
 *   device  name of the one device to wrap; empty (default): every device, now and later
 *   attrs   comma-separated settings, as in the file "attrs" below, applied to each device when it
 *	     appears. Load this module before a consumer, and the consumer never sees other values.
 *
 * Files in /sys/kernel/debug/verbsmeter/<device>/:
 *   total   counters over all queue pairs since the last reset, one "name value" per line:
 *	       send_posts, recv_posts	  calls ("doorbells")
 *	       send_wrs, recv_wrs	  work requests in them
 *	       send_signaled		  of the send work requests, those with IB_SEND_SIGNALED
 *	       send_sges		  scatter/gather entries of the send work requests
 *	       rdma_write_sges		  of these, those of RDMA Writes
 *	       post_errors		  posts that the device refused (injected ones included)
 *	       wr_<opcode>		  send work requests by opcode: send, send_with_inv, rdma_write,
 *					  rdma_read, local_inv, reg_mr, other
 *	       reg_pages		  pages registered by reg_mr, in all
 *	       polls			  calls of poll_cq, those that found nothing included
 *	       completions		  entries that poll_cq returned
 *	       wc_<opcode>		  successful ones by opcode: send, rdma_write, rdma_read,
 *					  local_inv, reg_mr, recv, other
 *	       wc_with_inv		  of wc_recv, those with IB_WC_WITH_INVALIDATE
 *	       wc_flushed, wc_errors	  with IB_WC_WR_FLUSH_ERR; with any other error status
 *	       injected			  disturbances carried out
 *	       qps_created, qps_broken	  queue pairs made; put into the error state by "break" or by
 *					  the disturbance "disconnect"
 *   qps     the same per queue pair, each after a line "qp <number>". At most 64 are kept apart;
 *	     more are only counted in the total.
 *   caps    what was asked of the device for each queue pair that exists now, one line each:
 *	     "qp <number> max_send_wr N max_recv_wr N max_send_sge N max_recv_sge N
 *	     max_inline_data N send_cqe N recv_cqe N shared N": the entries of its completion queues
 *	     are as made; shared is 1 when both queues are one
 *   break   any write puts one connected queue pair into the error state, as a broken connection
 *	     does; each in its turn. ENOTCONN when none is connected.
 *   reset   any write sets all counters to zero and forgets the queue pairs
 *   attrs   reads as "name value original" per line; takes "name=value[,name=value...]":
 *	       mem_mgt_extensions (0 or 1: the capability bit), max_fast_reg_page_list_len,
 *	       max_send_sge, max_recv_sge, max_sge_rd, max_qp_wr, max_cqe, max_mr, max_qp_rd_atom,
 *	       max_qp_init_rd_atom. An empty write restores all originals. The device itself does
 *	       not change: lower values are safe, higher ones make it fail.
 *   inject  takes one disturbance per write, reads as those that still wait:
 *	       "post_send N ERRNO"  the Nth post from now fails with -ERRNO, nothing of it is posted
 *	       "post_recv N ERRNO"  likewise
 *	       "wc N STATUS"	    the Nth completion is returned with that ib_wc_status (a number)
 *	       "wc_drop N"	    the Nth completion is swallowed
 *	       "disconnect N TIMES" the Nth post from now whose first or last request is a Send, and
 *				    TIMES - 1 that follow, find their queue pair in the error state:
 *				    the requests are flushed, nothing of them reaches the peer. The
 *				    device's modify_qp is called from where the consumer posts;
 *				    rxe's does not sleep.
 *	       "clear"		    forgets those that wait
 *	     A disturbed completion leaves the queue pair in its state, unlike a real error: the
 *	     consumer is expected to disconnect.
 */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <rdma/ib_verbs.h>

static char *device = "";
module_param(device, charp, 0444);
MODULE_PARM_DESC(device, "name of the device to wrap (default: all)");

static char *attrs = "";
module_param(attrs, charp, 0444);
MODULE_PARM_DESC(attrs, "attribute settings for each device, as in the debugfs file attrs");

#define MAX_QPS		64
#define MAX_DEVICES	16

/* One word per counter, so that a table of names is all the reading side needs. */
enum counter {
	SEND_POSTS, SEND_WRS, SEND_SIGNALED, SEND_SGES, RDMA_WRITE_SGES, RECV_POSTS, RECV_WRS,
	POST_ERRORS,
	WR_SEND, WR_SEND_WITH_INV, WR_RDMA_WRITE, WR_RDMA_READ, WR_LOCAL_INV, WR_REG_MR, WR_OTHER,
	REG_PAGES,
	POLLS, COMPLETIONS, WC_SEND, WC_RDMA_WRITE, WC_RDMA_READ, WC_LOCAL_INV, WC_REG_MR, WC_RECV,
	WC_OTHER, WC_WITH_INV, WC_FLUSHED, WC_ERRORS, INJECTED, QPS_CREATED, QPS_BROKEN,
	COUNTERS
};

static const char *const counter_names[COUNTERS] = {
	"send_posts", "send_wrs", "send_signaled", "send_sges", "rdma_write_sges", "recv_posts",
	"recv_wrs", "post_errors",
	"wr_send", "wr_send_with_inv", "wr_rdma_write", "wr_rdma_read", "wr_local_inv",
	"wr_reg_mr", "wr_other", "reg_pages",
	"polls", "completions", "wc_send", "wc_rdma_write", "wc_rdma_read", "wc_local_inv", "wc_reg_mr",
	"wc_recv", "wc_other", "wc_with_inv", "wc_flushed", "wc_errors", "injected",
	"qps_created", "qps_broken",
};

enum site { ON_POST_SEND, ON_POST_RECV, ON_WC, ON_WC_DROP, ON_DISCONNECT, SITES };

static const char *const site_names[SITES] = {
	"post_send", "post_recv", "wc", "wc_drop", "disconnect",
};

struct per_qp {
	u32 number;
	u64 count[COUNTERS];
};

/* A queue pair that exists, and what was asked for it. */
struct live_qp {
	struct list_head link;
	struct ib_qp *qp;
	struct ib_qp_cap cap;
};

struct attr_desc {
	const char *name;
	size_t offset;
};

/* All are ints in ib_device_attr; attribute 0 is the capability bit and has no offset. */
#define ATTR(field) { #field, offsetof(struct ib_device_attr, field) }
static const struct attr_desc attr_table[] = {
	{ "mem_mgt_extensions", 0 },
	ATTR(max_fast_reg_page_list_len), ATTR(max_send_sge), ATTR(max_recv_sge), ATTR(max_sge_rd),
	ATTR(max_qp_wr), ATTR(max_cqe), ATTR(max_mr), ATTR(max_qp_rd_atom),
	ATTR(max_qp_init_rd_atom),
};

/*
 * A wrapped device. Lives from the client's add to its remove callback. The wrappers find it in
 * @meters by the ib_device pointer, without a lock: entries change only while no wrapper of that
 * device can run, and @lock orders everything else.
 */
struct meter {
	struct ib_device *ibdev;
	int (*post_send)(struct ib_qp *qp, const struct ib_send_wr *wr,
			 const struct ib_send_wr **bad_wr);
	int (*post_recv)(struct ib_qp *qp, const struct ib_recv_wr *wr,
			 const struct ib_recv_wr **bad_wr);
	int (*poll_cq)(struct ib_cq *cq, int num_entries, struct ib_wc *wc);
	int (*create_qp)(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata);
	int (*destroy_qp)(struct ib_qp *qp, struct ib_udata *udata);
	int original[ARRAY_SIZE(attr_table)];
	struct dentry *dir;

	atomic_t inside;	/* callers of create_qp and destroy_qp, which may sleep */
	struct mutex live_mutex;
	struct list_head live;	/* live_qp; the next to break is the first */

	spinlock_t lock;	/* the rest; taken with interrupts off: consumers post anywhere */
	u64 total[COUNTERS];
	struct per_qp qps[MAX_QPS];
	unsigned int nr_qps;
	struct {
		u64 countdown;	/* 0: none waits */
		int value;
	} inject[SITES];
};

static struct meter *meters[MAX_DEVICES];
static DEFINE_MUTEX(meters_mutex);
static struct dentry *root;

static struct meter *meter_of(const struct ib_device *ibdev)
{
	int i;

	for (i = 0; i < MAX_DEVICES; i++) {
		struct meter *meter = READ_ONCE(meters[i]);

		if (meter && meter->ibdev == ibdev)
			return meter;
	}
	return NULL;
}

static bool counted_qp(const struct ib_qp *qp)
{
	return qp && !qp->uobject && qp->qp_type != IB_QPT_GSI && qp->qp_type != IB_QPT_SMI;
}

/* NULL when the table is full. Caller holds meter->lock. */
static struct per_qp *find_qp(struct meter *meter, u32 number)
{
	unsigned int i;

	for (i = 0; i < meter->nr_qps; i++)
		if (meter->qps[i].number == number)
			return &meter->qps[i];
	if (meter->nr_qps == MAX_QPS)
		return NULL;
	meter->qps[meter->nr_qps].number = number;
	return &meter->qps[meter->nr_qps++];
}

static void add(struct meter *meter, struct per_qp *qp, enum counter which, u64 n)
{
	meter->total[which] += n;
	if (qp)
		qp->count[which] += n;
}

/* Whether the disturbance of @site is due now; its argument in @value. Caller holds the lock. */
static bool due(struct meter *meter, enum site site, int *value)
{
	if (!meter->inject[site].countdown || --meter->inject[site].countdown)
		return false;
	*value = meter->inject[site].value;
	return true;
}

static enum counter wr_counter(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_SEND:
		return WR_SEND;
	case IB_WR_SEND_WITH_INV:
		return WR_SEND_WITH_INV;
	case IB_WR_RDMA_WRITE:
		return WR_RDMA_WRITE;
	case IB_WR_RDMA_READ:
		return WR_RDMA_READ;
	case IB_WR_LOCAL_INV:
		return WR_LOCAL_INV;
	case IB_WR_REG_MR:
		return WR_REG_MR;
	default:
		return WR_OTHER;
	}
}

static enum counter wc_counter(enum ib_wc_opcode opcode)
{
	switch (opcode) {
	case IB_WC_SEND:
		return WC_SEND;
	case IB_WC_RDMA_WRITE:
		return WC_RDMA_WRITE;
	case IB_WC_RDMA_READ:
		return WC_RDMA_READ;
	case IB_WC_LOCAL_INV:
		return WC_LOCAL_INV;
	case IB_WC_REG_MR:
		return WC_REG_MR;
	case IB_WC_RECV:
		return WC_RECV;
	default:
		return WC_OTHER;
	}
}

static bool is_send(const struct ib_send_wr *wr)
{
	return wr->opcode == IB_WR_SEND || wr->opcode == IB_WR_SEND_WITH_INV ||
	       wr->opcode == IB_WR_SEND_WITH_IMM;
}

static int to_error(struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	return qp->device->ops.modify_qp(qp, &attr, IB_QP_STATE, NULL);
}

static int meter_post_send(struct ib_qp *qp, const struct ib_send_wr *first,
			   const struct ib_send_wr **bad_wr)
{
	struct meter *meter = meter_of(qp->device);
	const struct ib_send_wr *wr, *last = NULL;
	struct per_qp *per_qp;
	unsigned long flags;
	int rc, times, errno = 0;
	bool fail, disconnect = false;

	if (!counted_qp(qp))
		return meter->post_send(qp, first, bad_wr);

	spin_lock_irqsave(&meter->lock, flags);
	per_qp = find_qp(meter, qp->qp_num);
	fail = due(meter, ON_POST_SEND, &errno);
	add(meter, per_qp, SEND_POSTS, 1);
	if (fail)
		add(meter, per_qp, INJECTED, 1);
	for (wr = first; wr && !fail; wr = wr->next) {
		add(meter, per_qp, SEND_WRS, 1);
		add(meter, per_qp, wr_counter(wr->opcode), 1);
		add(meter, per_qp, SEND_SGES, wr->num_sge);
		if (wr->opcode == IB_WR_RDMA_WRITE)
			add(meter, per_qp, RDMA_WRITE_SGES, wr->num_sge);
		if (wr->send_flags & IB_SEND_SIGNALED)
			add(meter, per_qp, SEND_SIGNALED, 1);
		if (wr->opcode == IB_WR_REG_MR) {
			const struct ib_mr *mr = reg_wr(wr)->mr;

			add(meter, per_qp, REG_PAGES,
			    DIV_ROUND_UP_ULL((mr->iova & (mr->page_size - 1)) + mr->length,
					     mr->page_size));
		}
		last = wr;
	}
	if (last && (is_send(first) || is_send(last)) && due(meter, ON_DISCONNECT, &times)) {
		if (times > 1) {
			meter->inject[ON_DISCONNECT].countdown = 1;
			meter->inject[ON_DISCONNECT].value = times - 1;
		}
		add(meter, per_qp, INJECTED, 1);
		add(meter, per_qp, QPS_BROKEN, 1);
		disconnect = true;
	}
	spin_unlock_irqrestore(&meter->lock, flags);

	if (disconnect && to_error(qp))
		pr_err("verbsmeter: qp %u does not go into the error state\n", qp->qp_num);
	if (fail) {
		*bad_wr = first;
		rc = -errno;
	} else {
		/* The wrs may be gone once this returns: the completions run at any time. */
		rc = meter->post_send(qp, first, bad_wr);
	}
	if (rc) {
		spin_lock_irqsave(&meter->lock, flags);
		add(meter, find_qp(meter, qp->qp_num), POST_ERRORS, 1);
		spin_unlock_irqrestore(&meter->lock, flags);
	}
	return rc;
}

static int meter_post_recv(struct ib_qp *qp, const struct ib_recv_wr *first,
			   const struct ib_recv_wr **bad_wr)
{
	struct meter *meter = meter_of(qp->device);
	const struct ib_recv_wr *wr;
	struct per_qp *per_qp;
	unsigned long flags;
	int rc, errno = 0;
	bool fail;

	if (!counted_qp(qp))
		return meter->post_recv(qp, first, bad_wr);

	spin_lock_irqsave(&meter->lock, flags);
	per_qp = find_qp(meter, qp->qp_num);
	fail = due(meter, ON_POST_RECV, &errno);
	add(meter, per_qp, RECV_POSTS, 1);
	if (fail)
		add(meter, per_qp, INJECTED, 1);
	for (wr = first; wr && !fail; wr = wr->next)
		add(meter, per_qp, RECV_WRS, 1);
	spin_unlock_irqrestore(&meter->lock, flags);

	if (fail) {
		*bad_wr = first;
		rc = -errno;
	} else {
		rc = meter->post_recv(qp, first, bad_wr);
	}
	if (rc) {
		spin_lock_irqsave(&meter->lock, flags);
		add(meter, find_qp(meter, qp->qp_num), POST_ERRORS, 1);
		spin_unlock_irqrestore(&meter->lock, flags);
	}
	return rc;
}

/* Counts and disturbs one completion. Returns false when it is to be swallowed. */
static bool take_completion(struct meter *meter, struct ib_wc *wc)
{
	struct per_qp *per_qp = wc->qp ? find_qp(meter, wc->qp->qp_num) : NULL;
	int value;

	if (due(meter, ON_WC_DROP, &value)) {
		add(meter, per_qp, INJECTED, 1);
		return false;
	}
	if (due(meter, ON_WC, &value)) {
		add(meter, per_qp, INJECTED, 1);
		wc->status = value;
	}
	add(meter, per_qp, COMPLETIONS, 1);
	if (wc->status == IB_WC_WR_FLUSH_ERR) {
		add(meter, per_qp, WC_FLUSHED, 1);
	} else if (wc->status != IB_WC_SUCCESS) {
		add(meter, per_qp, WC_ERRORS, 1);
	} else {
		add(meter, per_qp, wc_counter(wc->opcode), 1);
		if (wc->opcode == IB_WC_RECV && wc->wc_flags & IB_WC_WITH_INVALIDATE)
			add(meter, per_qp, WC_WITH_INV, 1);
	}
	return true;
}

static int meter_poll_cq(struct ib_cq *cq, int num_entries, struct ib_wc *wc)
{
	struct meter *meter = meter_of(cq->device);
	unsigned long flags;
	int i, kept = 0, n;

	n = meter->poll_cq(cq, num_entries, wc);
	if (cq->uobject)
		return n;

	spin_lock_irqsave(&meter->lock, flags);
	/* A queue that is empty has no queue pair to count it for. */
	add(meter, NULL, POLLS, 1);
	for (i = 0; i < n; i++) {
		bool keep = true;

		/* A flushed completion's qp pointer is as good as any: kernel QPs drain first. */
		if (!wc[i].qp || counted_qp(wc[i].qp))
			keep = take_completion(meter, &wc[i]);
		if (!keep)
			continue;
		if (kept != i)
			wc[kept] = wc[i];
		kept++;
	}
	spin_unlock_irqrestore(&meter->lock, flags);

	if (n <= 0)
		return n;
	/* Fewer than asked for means "empty" to the CQ layer, which would then stop polling. */
	if (kept < n && n == num_entries) {
		int more = meter_poll_cq(cq, n - kept, wc + kept);

		if (more > 0)
			kept += more;
	}
	return kept;
}

/* Queue pairs come and go */

static int meter_create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	struct meter *meter = meter_of(qp->device);
	struct live_qp *live = NULL;
	unsigned long flags;
	int rc;

	atomic_inc(&meter->inside);
	if (counted_qp(qp)) {
		live = kzalloc(sizeof(*live), GFP_KERNEL);
		if (!live) {
			rc = -ENOMEM;
			goto out;
		}
		live->qp = qp;
		live->cap = attr->cap;
	}
	rc = meter->create_qp(qp, attr, udata);
	if (!live)
		goto out;
	if (rc) {
		kfree(live);
		goto out;
	}
	mutex_lock(&meter->live_mutex);
	list_add_tail(&live->link, &meter->live);
	mutex_unlock(&meter->live_mutex);
	spin_lock_irqsave(&meter->lock, flags);
	add(meter, find_qp(meter, qp->qp_num), QPS_CREATED, 1);
	spin_unlock_irqrestore(&meter->lock, flags);
out:
	atomic_dec(&meter->inside);
	return rc;
}

static int meter_destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	struct meter *meter = meter_of(qp->device);
	struct live_qp *live, *next;
	int rc;

	atomic_inc(&meter->inside);
	mutex_lock(&meter->live_mutex);
	list_for_each_entry_safe(live, next, &meter->live, link) {
		if (live->qp == qp) {
			list_del(&live->link);
			kfree(live);
		}
	}
	mutex_unlock(&meter->live_mutex);
	rc = meter->destroy_qp(qp, udata);
	atomic_dec(&meter->inside);
	return rc;
}

static bool is_connected(struct ib_qp *qp)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	return !ib_query_qp(qp, &attr, IB_QP_STATE, &init) && attr.qp_state == IB_QPS_RTS;
}

/* A queue pair stays while it is on the list and @live_mutex is held: its destroyer waits. */
static int break_one(struct meter *meter)
{
	struct live_qp *live;
	unsigned long flags;
	int rc = -ENOTCONN;

	mutex_lock(&meter->live_mutex);
	list_for_each_entry(live, &meter->live, link) {
		if (!is_connected(live->qp))
			continue;
		rc = to_error(live->qp);
		if (rc)
			break;
		spin_lock_irqsave(&meter->lock, flags);
		add(meter, find_qp(meter, live->qp->qp_num), QPS_BROKEN, 1);
		spin_unlock_irqrestore(&meter->lock, flags);
		list_move_tail(&live->link, &meter->live);
		break;
	}
	mutex_unlock(&meter->live_mutex);
	return rc;
}

/* Attributes */

static int get_attr(struct ib_device *ibdev, unsigned int i)
{
	if (i == 0)
		return !!(ibdev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS);
	return *(int *)((char *)&ibdev->attrs + attr_table[i].offset);
}

static void set_attr(struct ib_device *ibdev, unsigned int i, int value)
{
	if (i)
		*(int *)((char *)&ibdev->attrs + attr_table[i].offset) = value;
	else if (value)
		ibdev->attrs.device_cap_flags |= IB_DEVICE_MEM_MGT_EXTENSIONS;
	else
		ibdev->attrs.device_cap_flags &= ~(u64)IB_DEVICE_MEM_MGT_EXTENSIONS;
}

/* Applies "name=value,..."; -EINVAL at the first setting that is not understood. */
static int apply_attrs(struct ib_device *ibdev, char *text)
{
	char *setting;

	while ((setting = strsep(&text, ",")) != NULL) {
		char *name = strim(strsep(&setting, "="));
		unsigned int i;
		int value;

		for (i = 0; i < ARRAY_SIZE(attr_table); i++)
			if (!strcmp(name, attr_table[i].name))
				break;
		if (i == ARRAY_SIZE(attr_table) || !setting || kstrtoint(strim(setting), 0, &value)) {
			pr_err("verbsmeter: setting \"%s\" is not understood\n", name);
			return -EINVAL;
		}
		set_attr(ibdev, i, value);
	}
	return 0;
}

/* debugfs */

/* Takes a short text from user space; returns NULL-terminated @buf or an error. */
static int take_text(char *buf, size_t size, const char __user *from, size_t count)
{
	if (count >= size)
		return -EINVAL;
	if (copy_from_user(buf, from, count))
		return -EFAULT;
	buf[count] = '\0';
	return 0;
}

static void show_counts(struct seq_file *seq, const u64 *count)
{
	int i;

	for (i = 0; i < COUNTERS; i++)
		seq_printf(seq, "%s %llu\n", counter_names[i], count[i]);
}

static int total_show(struct seq_file *seq, void *unused)
{
	struct meter *meter = seq->private;
	u64 count[COUNTERS];
	unsigned long flags;

	spin_lock_irqsave(&meter->lock, flags);
	memcpy(count, meter->total, sizeof(count));
	spin_unlock_irqrestore(&meter->lock, flags);
	show_counts(seq, count);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(total);

static int qps_show(struct seq_file *seq, void *unused)
{
	struct meter *meter = seq->private;
	struct per_qp copy;
	unsigned long flags;
	unsigned int i;
	bool more;

	for (i = 0; ; i++) {
		spin_lock_irqsave(&meter->lock, flags);
		more = i < meter->nr_qps;
		if (more)
			copy = meter->qps[i];
		spin_unlock_irqrestore(&meter->lock, flags);
		if (!more)
			return 0;
		seq_printf(seq, "qp %u\n", copy.number);
		show_counts(seq, copy.count);
	}
}
DEFINE_SHOW_ATTRIBUTE(qps);

static int caps_show(struct seq_file *seq, void *unused)
{
	struct meter *meter = seq->private;
	struct live_qp *live;

	mutex_lock(&meter->live_mutex);
	list_for_each_entry(live, &meter->live, link) {
		const struct ib_qp *qp = live->qp;
		const struct ib_qp_cap *cap = &live->cap;

		seq_printf(seq, "qp %u max_send_wr %u max_recv_wr %u ", qp->qp_num,
			   cap->max_send_wr, cap->max_recv_wr);
		seq_printf(seq, "max_send_sge %u max_recv_sge %u ", cap->max_send_sge,
			   cap->max_recv_sge);
		seq_printf(seq, "max_inline_data %u send_cqe %d recv_cqe %d shared %d\n",
			   cap->max_inline_data, qp->send_cq ? qp->send_cq->cqe : 0,
			   qp->recv_cq ? qp->recv_cq->cqe : 0, qp->send_cq == qp->recv_cq);
	}
	mutex_unlock(&meter->live_mutex);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(caps);

static ssize_t break_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	int rc = break_one(file->private_data);

	return rc ? rc : count;
}

static const struct file_operations break_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = break_write,
};

static ssize_t reset_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	struct meter *meter = file->private_data;
	unsigned long flags;

	spin_lock_irqsave(&meter->lock, flags);
	memset(meter->total, 0, sizeof(meter->total));
	memset(meter->qps, 0, sizeof(meter->qps));
	meter->nr_qps = 0;
	spin_unlock_irqrestore(&meter->lock, flags);
	return count;
}

static const struct file_operations reset_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = reset_write,
};

static int attrs_show(struct seq_file *seq, void *unused)
{
	struct meter *meter = seq->private;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(attr_table); i++)
		seq_printf(seq, "%s %d %d\n", attr_table[i].name, get_attr(meter->ibdev, i),
			   meter->original[i]);
	return 0;
}

static int attrs_open(struct inode *inode, struct file *file)
{
	return single_open(file, attrs_show, inode->i_private);
}

static void restore_attrs(struct meter *meter)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(attr_table); i++)
		set_attr(meter->ibdev, i, meter->original[i]);
}

static ssize_t attrs_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	struct meter *meter = ((struct seq_file *)file->private_data)->private;
	char text[256];
	int rc = take_text(text, sizeof(text), from, count);

	if (rc)
		return rc;
	if (!*strim(text))
		restore_attrs(meter);
	else
		rc = apply_attrs(meter->ibdev, strim(text));
	return rc ? rc : count;
}

static const struct file_operations attrs_fops = {
	.owner = THIS_MODULE,
	.open = attrs_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.write = attrs_write,
	.release = single_release,
};

static int inject_show(struct seq_file *seq, void *unused)
{
	struct meter *meter = seq->private;
	int i;

	for (i = 0; i < SITES; i++)
		if (READ_ONCE(meter->inject[i].countdown))
			seq_printf(seq, "%s %llu %d\n", site_names[i], meter->inject[i].countdown,
				   meter->inject[i].value);
	return 0;
}

static int inject_open(struct inode *inode, struct file *file)
{
	return single_open(file, inject_show, inode->i_private);
}

static ssize_t inject_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	struct meter *meter = ((struct seq_file *)file->private_data)->private;
	unsigned long long countdown;
	char text[64], name[16];
	unsigned long flags;
	int i, n, value = 0;
	int rc = take_text(text, sizeof(text), from, count);

	if (rc)
		return rc;
	if (!strcmp(strim(text), "clear")) {
		spin_lock_irqsave(&meter->lock, flags);
		memset(meter->inject, 0, sizeof(meter->inject));
		spin_unlock_irqrestore(&meter->lock, flags);
		return count;
	}
	n = sscanf(text, "%15s %llu %d", name, &countdown, &value);
	for (i = 0; i < SITES; i++)
		if (n >= 2 && !strcmp(name, site_names[i]))
			break;
	if (i == SITES || n != (i == ON_WC_DROP ? 2 : 3) || value < 0)
		return -EINVAL;
	spin_lock_irqsave(&meter->lock, flags);
	meter->inject[i].countdown = countdown;
	meter->inject[i].value = value;
	spin_unlock_irqrestore(&meter->lock, flags);
	return count;
}

static const struct file_operations inject_fops = {
	.owner = THIS_MODULE,
	.open = inject_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.write = inject_write,
	.release = single_release,
};

/* Devices come and go */

static struct ib_client client;

static int add_device(struct ib_device *ibdev)
{
	struct meter *meter;
	unsigned int i;
	char *settings;
	int rc = 0;

	if (*device && strcmp(device, dev_name(&ibdev->dev)))
		return -EOPNOTSUPP;
	if (!ibdev->ops.post_send || !ibdev->ops.post_recv || !ibdev->ops.poll_cq ||
	    !ibdev->ops.create_qp || !ibdev->ops.destroy_qp || !ibdev->ops.modify_qp)
		return -EOPNOTSUPP;
	meter = kvzalloc(sizeof(*meter), GFP_KERNEL);
	settings = kstrdup(attrs, GFP_KERNEL);
	if (!meter || !settings) {
		rc = -ENOMEM;
		goto out_free;
	}
	spin_lock_init(&meter->lock);
	meter->ibdev = ibdev;
	meter->post_send = ibdev->ops.post_send;
	meter->post_recv = ibdev->ops.post_recv;
	meter->poll_cq = ibdev->ops.poll_cq;
	meter->create_qp = ibdev->ops.create_qp;
	meter->destroy_qp = ibdev->ops.destroy_qp;
	mutex_init(&meter->live_mutex);
	INIT_LIST_HEAD(&meter->live);
	for (i = 0; i < ARRAY_SIZE(attr_table); i++)
		meter->original[i] = get_attr(ibdev, i);
	if (*settings) {
		rc = apply_attrs(ibdev, settings);
		if (rc) {
			restore_attrs(meter);
			goto out_free;
		}
	}

	mutex_lock(&meters_mutex);
	for (i = 0; i < MAX_DEVICES && meters[i]; i++)
		;
	if (i < MAX_DEVICES) {
		/* Readers take no lock: they find a meter that is whole. */
		smp_store_release(&meters[i], meter);
	}
	mutex_unlock(&meters_mutex);
	if (i == MAX_DEVICES) {
		pr_err("verbsmeter: more than %d devices, %s is not wrapped\n", MAX_DEVICES,
		       dev_name(&ibdev->dev));
		restore_attrs(meter);
		rc = -ENOSPC;
		goto out_free;
	}
	/* The entry must be seen before a wrapper is called. */
	smp_wmb();
	WRITE_ONCE(ibdev->ops.post_send, meter_post_send);
	WRITE_ONCE(ibdev->ops.post_recv, meter_post_recv);
	WRITE_ONCE(ibdev->ops.poll_cq, meter_poll_cq);
	WRITE_ONCE(ibdev->ops.create_qp, meter_create_qp);
	WRITE_ONCE(ibdev->ops.destroy_qp, meter_destroy_qp);

	meter->dir = debugfs_create_dir(dev_name(&ibdev->dev), root);
	debugfs_create_file("total", 0444, meter->dir, meter, &total_fops);
	debugfs_create_file("qps", 0444, meter->dir, meter, &qps_fops);
	debugfs_create_file("caps", 0444, meter->dir, meter, &caps_fops);
	debugfs_create_file("break", 0200, meter->dir, meter, &break_fops);
	debugfs_create_file("reset", 0200, meter->dir, meter, &reset_fops);
	debugfs_create_file("attrs", 0644, meter->dir, meter, &attrs_fops);
	debugfs_create_file("inject", 0644, meter->dir, meter, &inject_fops);
	ib_set_client_data(ibdev, &client, meter);
	kfree(settings);
	return 0;

out_free:
	kfree(settings);
	kvfree(meter);
	return rc;
}

static void remove_device(struct ib_device *ibdev, void *client_data)
{
	struct meter *meter = client_data;
	struct live_qp *live, *next;
	int i;

	if (!meter)
		return;
	debugfs_remove_recursive(meter->dir);
	WRITE_ONCE(ibdev->ops.post_send, meter->post_send);
	WRITE_ONCE(ibdev->ops.post_recv, meter->post_recv);
	WRITE_ONCE(ibdev->ops.poll_cq, meter->poll_cq);
	WRITE_ONCE(ibdev->ops.create_qp, meter->create_qp);
	WRITE_ONCE(ibdev->ops.destroy_qp, meter->destroy_qp);
	/*
	 * A caller may have loaded a pointer and not entered the wrapper yet, or be on its way out.
	 * Posting and polling never sleep, so once every task has scheduled of its own will, and
	 * every softirq has ended, nobody is left in them, and who is to enter the other two has
	 * said so. Those sleep; the last to leave has left when all tasks have scheduled once more.
	 */
	synchronize_rcu_tasks();
	synchronize_rcu();
	while (atomic_read(&meter->inside))
		msleep(20);
	synchronize_rcu_tasks();

	mutex_lock(&meters_mutex);
	for (i = 0; i < MAX_DEVICES; i++)
		if (meters[i] == meter)
			WRITE_ONCE(meters[i], NULL);
	mutex_unlock(&meters_mutex);
	restore_attrs(meter);
	list_for_each_entry_safe(live, next, &meter->live, link)
		kfree(live);
	kvfree(meter);
}

static struct ib_client client = {
	.name = "verbsmeter",
	.add = add_device,
	.remove = remove_device,
};

static int __init verbsmeter_init(void)
{
	int rc;

	root = debugfs_create_dir("verbsmeter", NULL);
	rc = ib_register_client(&client);
	if (rc)
		debugfs_remove_recursive(root);
	return rc;
}

static void __exit verbsmeter_exit(void)
{
	ib_unregister_client(&client);
	debugfs_remove_recursive(root);
}

module_init(verbsmeter_init);
module_exit(verbsmeter_exit);

MODULE_DESCRIPTION("Counts and disturbs verbs calls of kernel consumers");
MODULE_LICENSE("GPL");
