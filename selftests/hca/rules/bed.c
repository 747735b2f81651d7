// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two ends and the connection between them, by rdma_cm; small steps of which cases are made.
 *
 * In /sys/kernel/debug/vhca_rules/:
 *	all	names of all cases
 *	cases	names of those that the devices at hand admit
 *	run	write a name: runs that case. What it came to is to be read here: "ok", or why it failed.
 *	plant	write kasan, lockdep, kmemleak or dma-api: a fault that this one reports
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/inetdevice.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "rules.h"

MODULE_DESCRIPTION("Breaks the rules of vhca, for tests");
MODULE_LICENSE("GPL");

#define PORT		4711
#define PATIENCE	(10 * HZ)

static const struct rules_case *const tables[] = {memory_cases, queue_cases, device_cases, event_cases};

/* One case at a time. */
static DEFINE_MUTEX(run_lock);
static struct bed bed;
static char result[400];
static struct dentry *debugfs;

static DEFINE_MUTEX(devices_lock);
static struct ib_device *devices[2];
static bool removal_expected;
static DECLARE_COMPLETION(removed);

int wrong(const char *fmt, ...)
{
	va_list args;

	/* The innermost step knows best. */
	if (result[0])
		return -EINVAL;
	va_start(args, fmt);
	vsnprintf(result, sizeof(result), fmt, args);
	va_end(args);
	return -EINVAL;
}

int broken(struct end *e, int n, const char *text)
{
	int now = atomic_read(&e->v->faults), more = now - e->faults;

	e->faults = now;
	if (more != n)
		return wrong("%d faults at %s instead of %d (%s); the last: %s", more, dev_name(&e->dev->dev), n,
			     text ?: "none", more ? e->v->fault : "");
	if (n && !strstr(e->v->fault, text))
		return wrong("the fault at %s does not tell of \"%s\": %s", dev_name(&e->dev->dev), text, e->v->fault);
	return 0;
}

int post_wr(struct end *e, u64 wr_id, struct op op)
{
	struct ib_sge sge[32];
	struct ib_rdma_wr wr = {
		.wr = {.wr_id = wr_id, .opcode = op.opcode, .send_flags = op.flags | (op.silent ? 0 : IB_SEND_SIGNALED),
		       .sg_list = sge, .num_sge = op.nsge ?: !!op.length, .ex.invalidate_rkey = op.rkey},
		.remote_addr = op.remote, .rkey = op.rkey,
	};
	const struct ib_send_wr *bad = NULL;
	int i, err;

	if (!op.lkey)
		op.lkey = e->pd->local_dma_lkey;
	for (i = 0; i < wr.wr.num_sge; i++)
		sge[i] = (struct ib_sge){.addr = op.addr, .length = op.length, .lkey = op.lkey};
	err = ib_post_send(e->qp, &wr.wr, &bad);
	if (err && bad != &wr.wr)
		return wrong("a post that fails does not say of which work request");
	return err;
}

int post_reg(struct end *e, u64 wr_id, u32 key, int access)
{
	struct ib_reg_wr wr = {
		.wr = {.wr_id = wr_id, .opcode = IB_WR_REG_MR, .send_flags = IB_SEND_SIGNALED},
		.mr = e->mr, .key = key, .access = access,
	};

	return ib_post_send(e->qp, &wr.wr, NULL);
}

int post_recv(struct end *e, u64 wr_id, u64 addr, u32 length)
{
	struct ib_sge sge = {.addr = addr, .length = length, .lkey = e->pd->local_dma_lkey};
	struct ib_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = !!length};

	return ib_post_recv(e->qp, &wr, NULL);
}

int next_wc(struct ib_cq *cq, struct ib_wc *wc)
{
	unsigned long end = jiffies + PATIENCE;

	while (ib_poll_cq(cq, 1, wc) != 1) {
		if (time_after(jiffies, end))
			return wrong("no completion");
		usleep_range(100, 300);
	}
	return 0;
}

static int compare(const struct ib_wc *wc, u64 wr_id, enum ib_wc_status status)
{
	if (wc->wr_id != wr_id || wc->status != status)
		return wrong("completion of %llu with %s, expected that of %llu with %s", wc->wr_id,
			     ib_wc_status_msg(wc->status), wr_id, ib_wc_status_msg(status));
	return 0;
}

int done(struct ib_cq *cq, u64 wr_id, enum ib_wc_status status)
{
	struct ib_wc wc;

	return next_wc(cq, &wc) ?: compare(&wc, wr_id, status);
}

/* The fault is looked at first: what is missed, where the device lets it pass, is the rule. */
int fails(struct end *e, u64 wr_id, enum ib_wc_status status, const char *text)
{
	struct ib_wc wc;

	return next_wc(e->scq, &wc) ?: broken(e, 1, text) ?: compare(&wc, wr_id, status);
}

int faulty(struct end *e, const char *text, int is, int must)
{
	return broken(e, 1, text) ?: is == must ? 0 : wrong("%d instead of %d, with the fault \"%s\"", is, must, text);
}

int none(struct ib_cq *cq, u32 ms)
{
	struct ib_wc wc;

	msleep(ms);
	if (ib_poll_cq(cq, 1, &wc))
		return wrong("a completion of %llu with %s that should not be", wc.wr_id, ib_wc_status_msg(wc.status));
	return 0;
}

int map_region(struct end *e, u64 bus, u32 length)
{
	struct scatterlist sg;

	sg_init_table(&sg, 1);
	sg_dma_address(&sg) = bus;
	sg_dma_len(&sg) = length;
	MUST(ib_map_mr_sg(e->mr, &sg, 1, NULL, PAGE_SIZE) == 1);
	return 0;
}

int reg(struct end *e, u64 bus, u32 length, int access)
{
	ib_update_fast_reg_key(e->mr, e->mr->rkey + 1);
	TRY(map_region(e, bus, length));
	TRY(post_reg(e, 900, e->mr->rkey, access));
	return done(e->scq, 900, IB_WC_SUCCESS);
}

int unreg(struct end *e)
{
	TRY(post_wr(e, 901, (struct op){IB_WR_LOCAL_INV, .flags = IB_SEND_FENCE, .rkey = e->mr->rkey}));
	return done(e->scq, 901, IB_WC_SUCCESS);
}

int sink(struct end *e, u64 *addr, u32 *lkey)
{
	*addr = e->bus;
	*lkey = e->pd->local_dma_lkey;
	if (!e->v->preset->sink_access)
		return 0;
	TRY(reg(e, e->bus, ROOM, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE));
	*addr = e->mr->iova;
	*lkey = e->mr->lkey;
	return 0;
}

void fill(struct end *e, u8 byte)
{
	ib_dma_sync_single_for_cpu(e->dev, e->bus, ROOM, DMA_BIDIRECTIONAL);
	memset(e->mem, byte, ROOM);
	ib_dma_sync_single_for_device(e->dev, e->bus, ROOM, DMA_BIDIRECTIONAL);
}

bool holds(struct end *e, u32 at, u32 length, u8 byte)
{
	ib_dma_sync_single_for_cpu(e->dev, e->bus, ROOM, DMA_BIDIRECTIONAL);
	return !memchr_inv(e->mem + at, byte, length);
}

int shell(const char *command)
{
	char *words[4] = {"/bin/sh", "-c", (char *)command, NULL}, *envp[1] = {NULL};

	return call_usermodehelper(words[0], words, envp, UMH_WAIT_PROC);
}

int tell(struct end *e, const char *file, const char *text)
{
	char command[128];

	snprintf(command, sizeof(command), "echo '%s' > /sys/kernel/debug/vhca/%s/%s", text,
		 dev_name(&e->dev->dev), file);
	return shell(command);
}

int to_error(struct end *e)
{
	struct ib_qp_attr attr = {.qp_state = IB_QPS_ERR};

	return ib_modify_qp(e->qp, &attr, IB_QP_STATE);
}

static void woken(struct ib_cq *cq, void *context)
{
	atomic_inc(&((struct end *)context)->woken);
}

static void cq_event(struct ib_event *event, void *context)
{
	atomic_inc(&((struct end *)context)->cq_events);
}

static void qp_event(struct ib_event *event, void *context)
{
	struct end *e = context;

	if (event->event < ARRAY_SIZE(e->events))
		atomic_inc(&e->events[event->event]);
}

static int end_init(struct end *e, struct ib_device *dev)
{
	if (!dev)
		return wrong("a device is missing");
	e->dev = dev;
	e->v = to_vhca(dev);
	e->faults = atomic_read(&e->v->faults);
	return 0;
}

/* What an end has without a connection. */
static int end_up(struct end *e, const struct settings *set)
{
	struct ib_cq_init_attr cq = {.cqe = set->send_cqe ?: 64};
	bool gaps = e->dev->attrs.kernel_cap_flags & IBK_SG_GAPS_REG;

	e->mem = alloc_pages_exact(ROOM, GFP_KERNEL | __GFP_ZERO);
	MUST(e->mem);
	e->bus = ib_dma_map_single(e->dev, e->mem, ROOM, DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(e->dev, e->bus)) {
		e->bus = 0;
		return wrong("no mapping");
	}
	e->pd = ib_alloc_pd(e->dev, 0);
	TRY(PTR_ERR_OR_ZERO(e->pd));
	e->scq = ib_create_cq(e->dev, woken, cq_event, e, &cq);
	TRY(PTR_ERR_OR_ZERO(e->scq));
	cq.cqe = 64;
	e->rcq = ib_create_cq(e->dev, woken, cq_event, e, &cq);
	TRY(PTR_ERR_OR_ZERO(e->rcq));
	e->mr = ib_alloc_mr(e->pd, gaps ? IB_MR_TYPE_SG_GAPS : IB_MR_TYPE_MEM_REG, 8);
	TRY(PTR_ERR_OR_ZERO(e->mr));
	return 0;
}

static int end_qp(struct end *e, const struct settings *set)
{
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC, .sq_sig_type = IB_SIGNAL_REQ_WR, .send_cq = e->scq, .recv_cq = e->rcq,
		.event_handler = qp_event, .qp_context = e,
		.cap = {.max_send_wr = set->send_wr ?: 16, .max_recv_wr = set->recv_wr ?: 8, .max_send_sge = 3,
			.max_recv_sge = 1},
	};

	TRY(rdma_create_qp(e->id, e->pd, &init));
	e->qp = e->id->qp;
	return 0;
}

static void end_down(struct end *e)
{
	if (e->qp) {
		rdma_disconnect(e->id);
		rdma_destroy_qp(e->id);
	}
	if (e->id)
		rdma_destroy_id(e->id);
	if (!IS_ERR_OR_NULL(e->mr))
		ib_dereg_mr(e->mr);
	if (!IS_ERR_OR_NULL(e->scq))
		ib_destroy_cq(e->scq);
	if (!IS_ERR_OR_NULL(e->rcq))
		ib_destroy_cq(e->rcq);
	if (!IS_ERR_OR_NULL(e->pd))
		ib_dealloc_pd(e->pd);
	if (e->bus)
		ib_dma_unmap_single(e->dev, e->bus, ROOM, DMA_BIDIRECTIONAL);
	if (e->mem)
		free_pages_exact(e->mem, ROOM);
	e->id = NULL;
	e->qp = NULL;
	e->mr = NULL;
	e->scq = e->rcq = NULL;
	e->pd = NULL;
	e->bus = 0;
	e->mem = NULL;
}

static struct rdma_conn_param conn_param(const struct settings *set, bool passive)
{
	u8 reads = set->reads ?: 1, peer_reads = set->peer_reads ?: 1;

	return (struct rdma_conn_param){
		.initiator_depth = passive ? peer_reads : reads, .responder_resources = passive ? reads : peer_reads,
		.retry_count = 7, .rnr_retry_count = set->rnr_retry,
	};
}

static int passive_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct bed *b = &bed;
	struct rdma_conn_param param = conn_param(&b->set, true);

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		if (b->b.id)
			return -EBUSY;
		b->b.id = id;
		/* 1.28 ms */
		if (!b->b.v->preset->iwarp)
			rdma_set_min_rnr_timer(id, 14);
		b->b_status = end_qp(&b->b, &b->set) ?: rdma_accept(id, &param);
		if (b->b_status)
			complete(&b->answered);
	} else if (event->event == RDMA_CM_EVENT_ESTABLISHED) {
		complete(&b->answered);
	} else if (event->event == RDMA_CM_EVENT_DISCONNECTED) {
		complete(&b->parted);
	}
	return 0;
}

static int active_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct bed *b = &bed;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ESTABLISHED:
		b->a_status = 0;
		complete(&b->asked);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		b->a_status = event->status ?: -EIO;
		complete(&b->asked);
		break;
	default:
		break;
	}
	return 0;
}

static int asked(struct bed *b)
{
	return wait_for_completion_timeout(&b->asked, PATIENCE) ? b->a_status : -ETIMEDOUT;
}

int alone_up(struct bed *b)
{
	TRY(end_up(&b->a, &b->set));
	TRY(end_up(&b->b, &b->set));
	return 0;
}

int bed_up(struct bed *b, const struct settings *set)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
	struct rdma_conn_param param;

	b->set = *set;
	b->up = true;
	init_completion(&b->asked);
	init_completion(&b->answered);
	init_completion(&b->parted);
	TRY(alone_up(b));

	at.sin6_addr.s6_addr[0] = 0xfe;
	at.sin6_addr.s6_addr[1] = 0x80;
	at.sin6_addr.s6_addr[15] = 1;
	at.sin6_scope_id = b->b.v->netdev->ifindex;
	b->listener = rdma_create_id(&init_net, passive_event, NULL, RDMA_PS_TCP, IB_QPT_RC);
	TRY(PTR_ERR_OR_ZERO(b->listener));
	TRY(rdma_bind_addr(b->listener, (struct sockaddr *)&at));
	TRY(rdma_listen(b->listener, 1));

	b->a.id = rdma_create_id(&init_net, active_event, NULL, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(b->a.id)) {
		b->a.id = NULL;
		return wrong("no identifier");
	}
	at.sin6_scope_id = b->a.v->netdev->ifindex;
	TRY(rdma_resolve_addr(b->a.id, NULL, (struct sockaddr *)&at, 5000));
	TRY(asked(b));
	TRY(rdma_resolve_route(b->a.id, 5000));
	TRY(asked(b));
	MUST(b->a.id->device == b->a.dev);
	TRY(end_qp(&b->a, set));
	param = conn_param(set, false);
	TRY(rdma_connect(b->a.id, &param));
	TRY(asked(b));
	MUST(wait_for_completion_timeout(&b->answered, PATIENCE));
	TRY(b->b_status);
	return 0;
}

void bed_down(struct bed *b)
{
	if (!b->up)
		return;
	b->up = false;
	if (!IS_ERR_OR_NULL(b->listener))
		rdma_destroy_id(b->listener);
	b->listener = NULL;
	end_down(&b->a);
	end_down(&b->b);
}

void expect_removal(void)
{
	reinit_completion(&removed);
	WRITE_ONCE(removal_expected, true);
}

int removal(void)
{
	return wait_for_completion_timeout(&removed, PATIENCE) ? 0 : -ETIMEDOUT;
}

static int add_device(struct ib_device *dev)
{
	const char *name = dev_name(&dev->dev);

	mutex_lock(&devices_lock);
	if (!strcmp(name, "vhca_va"))
		devices[0] = dev;
	else if (!strcmp(name, "vhca_vb"))
		devices[1] = dev;
	mutex_unlock(&devices_lock);
	return 0;
}

static void remove_device(struct ib_device *dev, void *data)
{
	bool ours;
	int i;

	mutex_lock(&devices_lock);
	for (ours = false, i = 0; i < 2; i++)
		if (devices[i] == dev) {
			ours = true;
			devices[i] = NULL;
		}
	mutex_unlock(&devices_lock);
	if (!ours)
		return;
	if (READ_ONCE(removal_expected)) {
		WRITE_ONCE(removal_expected, false);
		bed_down(&bed);
		complete(&removed);
	} else {
		/* A case that uses it comes to its end first. */
		mutex_lock(&run_lock);
		mutex_unlock(&run_lock);
	}
}

static struct ib_client client = {.name = "vhca_rules", .add = add_device, .remove = remove_device};

/* Whether the devices at hand are what @c needs. devices_lock. */
static bool admitted(const struct rules_case *c)
{
	struct vhca *v;

	if (!devices[0] || !devices[1])
		return false;
	v = to_vhca(devices[0]);
	return !((c->flags & ROCE && v->preset->iwarp) || (c->flags & IWARP && !v->preset->iwarp) ||
		 (c->flags & BOUNCE && !v->dma.bounce) || (c->flags & PAGES && v->preset->sg_gaps));
}

static const struct rules_case *find_case(const char *name)
{
	const struct rules_case *c;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tables); i++)
		for (c = tables[i]; c->name; c++)
			if (!strcmp(c->name, name))
				return c;
	return NULL;
}

/* As they are made, but for what concerns the devices. */
static void usual(struct vhca *v)
{
	WRITE_ONCE(v->read_delay, 0);
	WRITE_ONCE(v->cq_delay, 0);
	WRITE_ONCE(v->cq_batch, 1);
	WRITE_ONCE(v->dma.fail_every, 0);
	WRITE_ONCE(v->dma.align_mask, PAGE_SIZE - 1);
}

static int run_case(const struct rules_case *c)
{
	int err;

	memset(&bed, 0, sizeof(bed));
	mutex_lock(&devices_lock);
	err = admitted(c) ? 0 : wrong("the devices are not for this case");
	err = err ?: end_init(&bed.a, devices[0]) ?: end_init(&bed.b, devices[1]);
	mutex_unlock(&devices_lock);
	if (err)
		return err;
	if (c->flags & ALONE) {
		bed.up = true;
		err = alone_up(&bed);
	} else {
		err = bed_up(&bed, &c->set);
	}
	err = err ?: c->run(&bed);
	if (c->flags & REMOVES) {
		WRITE_ONCE(removal_expected, false);
		bed_down(&bed);
		return err;
	}
	usual(bed.a.v);
	usual(bed.b.v);
	bed_down(&bed);
	/* What the case has not asked for. */
	return err ?: broken(&bed.a, 0, NULL) ?: broken(&bed.b, 0, NULL);
}

static ssize_t run_write(struct file *file, const char __user *from, size_t n, loff_t *pos)
{
	const struct rules_case *c;
	char name[40];

	if (n >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, n))
		return -EFAULT;
	name[n] = 0;
	c = find_case(strim(name));
	if (!c)
		return -ENOENT;
	mutex_lock(&run_lock);
	result[0] = 0;
	if (!run_case(c))
		strscpy(result, "ok");
	else if (!result[0])
		strscpy(result, "it failed and does not say why");
	mutex_unlock(&run_lock);
	return n;
}

static ssize_t run_read(struct file *file, char __user *to, size_t n, loff_t *pos)
{
	return simple_read_from_buffer(to, n, pos, result, strlen(result));
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE, .open = simple_open, .read = run_read, .write = run_write,
};

static ssize_t plant_write(struct file *file, const char __user *from, size_t n, loff_t *pos)
{
	char name[40];
	int err;

	if (n >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, n))
		return -EFAULT;
	name[n] = 0;
	mutex_lock(&devices_lock);
	err = devices[0] ? plant(devices[0], strim(name)) : -ENODEV;
	mutex_unlock(&devices_lock);
	return err < 0 ? err : n;
}

static const struct file_operations plant_fops = {
	.owner = THIS_MODULE, .open = simple_open, .write = plant_write,
};

static void show_cases(struct seq_file *s, bool all)
{
	const struct rules_case *c;
	unsigned int i;

	mutex_lock(&devices_lock);
	for (i = 0; i < ARRAY_SIZE(tables); i++)
		for (c = tables[i]; c->name; c++)
			if (all || admitted(c))
				seq_printf(s, "%s\n", c->name);
	mutex_unlock(&devices_lock);
}

static int all_show(struct seq_file *s, void *unused)
{
	show_cases(s, true);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(all);

static int cases_show(struct seq_file *s, void *unused)
{
	show_cases(s, false);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(cases);

static int __init rules_init(void)
{
	int err = ib_register_client(&client);

	if (err)
		return err;
	debugfs = debugfs_create_dir("vhca_rules", NULL);
	debugfs_create_file("all", 0400, debugfs, NULL, &all_fops);
	debugfs_create_file("cases", 0400, debugfs, NULL, &cases_fops);
	debugfs_create_file("run", 0600, debugfs, NULL, &run_fops);
	debugfs_create_file("plant", 0200, debugfs, NULL, &plant_fops);
	return 0;
}

static void __exit rules_exit(void)
{
	debugfs_remove_recursive(debugfs);
	ib_unregister_client(&client);
}

module_init(rules_init);
module_exit(rules_exit);
