// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a test asks of a device, in debugfs/vhca/NAME/:
 *
 *	stats		counters, a line each: faults, work requests by kind, mappings, calls of each DMA operation,
 *			queue pairs, regions, interrupts that came elsewhere as their CPU was offline, Receives that
 *			were held back
 *	fault		the last rule that was broken
 *	inject		write "KIND N STATUS" or "KIND N hold MS": the Nth work request of KIND from now fails with STATUS
 *			(a number of enum ib_wc_status), or waits for MS milliseconds. KIND: send write read reg inv
 *			"recv N hold MS": the Nth message from now that comes in, to any queue pair but queue pair 1, has
 *			its place in memory and its sender's completion at once, and its Receive's MS milliseconds later;
 *			those of the same queue pair behind it come behind it. With the queue pair's end it comes at once.
 *			"release": nobody waits any longer
 *	event		write "remove", "fatal", "port down", "port up", "qp-fatal", "sq-drained". GIDs come and go with
 *			addresses of the interface.
 *	read_delay	us until a Read's data comes
 *	cq_delay, cq_batch	completions wait for others, at most so many us
 *	cm_lost		Y: datagrams that it sends are lost, those of InfiniBand's CM; iWARP has none
 *	map_fails	every Nth mapping fails; 0: none
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "vhca.h"

struct injection {
	struct list_head node;
	enum vhca_kind kind;
	u32 nth;
	enum ib_wc_status status;
	u32 ms;
};

void vhca_fault(struct vhca *v, const char *fmt, ...)
{
	struct va_format text = {.fmt = fmt};
	va_list args;

	va_start(args, fmt);
	text.va = &args;
	atomic_inc(&v->faults);
	snprintf(v->fault, sizeof(v->fault), "%pV", &text);
	if (!vhca_quiet)
		WARN(1, "vhca %s: %pV\n", dev_name(&v->ib.dev), &text);
	va_end(args);
}

bool vhca_inject(struct vhca *v, enum vhca_kind kind, enum ib_wc_status *status, u32 *ms)
{
	struct injection *i, *due = NULL;
	unsigned long flags;
	bool fails = false;

	*ms = 0;
	if (list_empty_careful(&v->injections))
		return false;
	spin_lock_irqsave(&v->inject_lock, flags);
	list_for_each_entry(i, &v->injections, node) {
		if (i->kind != kind)
			continue;
		/* Of two for the same work request, the second is for the next. */
		if (i->nth > 1)
			i->nth--;
		else if (!due)
			due = i;
	}
	if (due) {
		list_del(&due->node);
		*status = due->status;
		*ms = due->ms;
		fails = due->status != IB_WC_SUCCESS;
	}
	spin_unlock_irqrestore(&v->inject_lock, flags);
	kfree(due);
	return fails;
}

/* What happens to every queue pair but queue pair 1. */
static void for_all_qps(struct vhca *v, void (*what)(struct vhca_qp *qp))
{
	unsigned long qpn;
	u32 last = 1;

	for (;;) {
		struct vhca_qp *qp;
		unsigned long flags;

		qpn = last + 1;
		xa_lock_irqsave(&v->qps, flags);
		qp = xa_find(&v->qps, &qpn, ULONG_MAX, XA_PRESENT);
		if (qp)
			kref_get(&qp->ref);
		xa_unlock_irqrestore(&v->qps, flags);
		if (!qp)
			return;
		last = qpn;
		what(qp);
		vhca_qp_put(qp);
	}
}

static void is_over(struct vhca_qp *qp)
{
	vhca_qp_set_state(qp, IB_QPS_ERR);
	vhca_qp_event(qp, IB_EVENT_QP_FATAL);
}

static void has_drained(struct vhca_qp *qp)
{
	vhca_qp_event(qp, IB_EVENT_SQ_DRAINED);
}

static void goes_on(struct vhca_qp *qp)
{
	mod_delayed_work(vhca_wq, &qp->work, 0);
	vhca_recv_release(qp);
}

static char *copy_words(const char __user *from, size_t n, char *words, size_t room)
{
	if (n >= room)
		return ERR_PTR(-EINVAL);
	if (copy_from_user(words, from, n))
		return ERR_PTR(-EFAULT);
	words[n] = 0;
	return strim(words);
}

static ssize_t inject_write(struct file *file, const char __user *from, size_t n, loff_t *pos)
{
	struct vhca *v = file->private_data;
	char words[64], kind[8], *text = copy_words(from, n, words, sizeof(words));
	struct injection i = {};
	unsigned long flags;
	u32 status;
	int k;

	if (IS_ERR(text))
		return PTR_ERR(text);
	if (!strcmp(text, "release")) {
		for_all_qps(v, goes_on);
		return n;
	}
	if (sscanf(text, "%7s %u hold %u", kind, &i.nth, &i.ms) != 3) {
		i.ms = 0;
		if (sscanf(text, "%7s %u %u", kind, &i.nth, &status) != 3 || !status || status > IB_WC_GENERAL_ERR)
			return -EINVAL;
		i.status = status;
	}
	k = match_string(vhca_kinds, VHCA_KINDS, kind);
	if (k < 0 || !i.nth)
		return -EINVAL;
	/* A Receive fails for what its sender does, which hears of it. */
	if (k == VHCA_RECV && i.status)
		return -EINVAL;
	i.kind = k;
	{
		struct injection *new = kmemdup(&i, sizeof(i), GFP_KERNEL);

		if (!new)
			return -ENOMEM;
		spin_lock_irqsave(&v->inject_lock, flags);
		list_add_tail(&new->node, &v->injections);
		spin_unlock_irqrestore(&v->inject_lock, flags);
	}
	return n;
}

static const struct file_operations inject_fops = {
	.owner = THIS_MODULE, .open = simple_open, .write = inject_write,
};

static ssize_t event_write(struct file *file, const char __user *from, size_t n, loff_t *pos)
{
	struct vhca *v = file->private_data;
	char words[32], *text = copy_words(from, n, words, sizeof(words));
	struct ib_event event = {.device = &v->ib, .element.port_num = 1};
	ssize_t ret = n;

	if (IS_ERR(text))
		return PTR_ERR(text);
	/* Nothing may be told of a device that goes, nor may it go twice. */
	if (!ib_device_try_get(&v->ib))
		return -ENODEV;
	if (!strcmp(text, "remove")) {
		vhca_remove(v);
	} else if (!strcmp(text, "fatal")) {
		event.event = IB_EVENT_DEVICE_FATAL;
		ib_dispatch_event(&event);
	} else if (!strcmp(text, "port down")) {
		vhca_port(v, false);
	} else if (!strcmp(text, "port up")) {
		vhca_port(v, true);
	} else if (!strcmp(text, "qp-fatal")) {
		for_all_qps(v, is_over);
	} else if (!strcmp(text, "sq-drained")) {
		for_all_qps(v, has_drained);
	} else {
		ret = -EINVAL;
	}
	ib_device_put(&v->ib);
	return ret;
}

static const struct file_operations event_fops = {
	.owner = THIS_MODULE, .open = simple_open, .write = event_write,
};

static int stats_show(struct seq_file *s, void *unused)
{
	struct vhca *v = s->private;
	unsigned long index;
	void *entry;
	u32 qps = 0, mrs = 0;
	int i;

	seq_printf(s, "faults %d\n", atomic_read(&v->faults));
	for (i = 0; i < VHCA_KINDS; i++)
		seq_printf(s, "%s %lld\n", vhca_kinds[i], atomic64_read(&v->done[i]));
	seq_printf(s, "mapped %u\n", READ_ONCE(v->dma.live));
	for (i = 0; vhca_dma_names[i]; i++)
		seq_printf(s, "%s %llu\n", vhca_dma_names[i], v->dma.calls[i]);
	xa_for_each(&v->qps, index, entry)
		qps++;
	xa_for_each(&v->mrs, index, entry)
		mrs++;
	seq_printf(s, "qps %u\nmrs %u\nmoved %lld\nheld %lld\n", qps, mrs, atomic64_read(&v->moved),
		   atomic64_read(&v->held));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

static int fault_show(struct seq_file *s, void *unused)
{
	seq_printf(s, "%s\n", ((struct vhca *)s->private)->fault);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(fault);

void vhca_inject_add(struct vhca *v)
{
	struct dentry *top = debugfs_lookup("vhca", NULL);

	v->debugfs = debugfs_create_dir(dev_name(&v->ib.dev), top);
	dput(top);
	debugfs_create_file("stats", 0400, v->debugfs, v, &stats_fops);
	debugfs_create_file("fault", 0400, v->debugfs, v, &fault_fops);
	debugfs_create_file("inject", 0200, v->debugfs, v, &inject_fops);
	debugfs_create_file("event", 0200, v->debugfs, v, &event_fops);
	debugfs_create_u32("read_delay", 0600, v->debugfs, &v->read_delay);
	debugfs_create_u32("cq_delay", 0600, v->debugfs, &v->cq_delay);
	debugfs_create_u32("cq_batch", 0600, v->debugfs, &v->cq_batch);
	debugfs_create_bool("cm_lost", 0600, v->debugfs, &v->cm_lost);
	debugfs_create_u32("map_fails", 0600, v->debugfs, &v->dma.fail_every);
}

void vhca_inject_remove(struct vhca *v)
{
	struct injection *i, *next;

	debugfs_remove_recursive(v->debugfs);
	list_for_each_entry_safe(i, next, &v->injections, node)
		kfree(i);
}
