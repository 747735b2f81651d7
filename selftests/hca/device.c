// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices: "rdma link add NAME type vhca netdev INTERFACE" makes one, of the preset and with the behaviour that the
 * module's parameters say then; "rdma link delete NAME" ends it.
 */
#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <rdma/rdma_netlink.h>

#include "vhca.h"

MODULE_DESCRIPTION("An RDMA device without hardware, with real DMA and strict rules, for tests");
MODULE_LICENSE("GPL");
MODULE_ALIAS_RDMA_LINK("vhca");

/*
 * What drivers of Linux 6.12 announce: mlx5 (ConnectX), irdma and bnxt_re, cxgb4, qedr. Not their queues' lengths,
 * which are of thousands. The last two are the least that rpcordma accepts, and less.
 */
static const struct vhca_preset presets[] = {
	{ .name = "connectx", .sg_gaps = true, .page_list = 65536, .send_sge = 30, .recv_sge = 32, .read_sge = 30,
	  .sgl_rd = 16, .send_blocks = 32768, .recv_wr = 32768, .cqe = 1 << 22, .reads = 16, .mrs = 1 << 20 },
	{ .name = "irdma", .page_list = 256, .send_sge = 13, .recv_sge = 13, .read_sge = 13, .send_blocks = 32768,
	  .recv_wr = 4096, .cqe = 1 << 20, .reads = 32, .mrs = 1 << 16 },
	{ .name = "cxgb4", .iwarp = true, .sink_access = true, .page_list = 128, .send_sge = 4, .recv_sge = 4,
	  .read_sge = 1, .send_blocks = 8192, .recv_wr = 1024, .cqe = 1 << 16, .reads = 32, .mrs = 1 << 16 },
	{ .name = "qedr", .page_list = 512, .send_sge = 4, .recv_sge = 4, .read_sge = 4, .send_blocks = 32768,
	  .recv_wr = 32768, .cqe = 1 << 20, .reads = 16, .mrs = 1 << 16 },
	{ .name = "poor", .page_list = 1, .send_sge = 3, .recv_sge = 1, .read_sge = 3, .send_blocks = 4 * 211,
	  .recv_wr = 512, .cqe = 1024, .reads = 1, .mrs = 4096 },
	{ .name = "unfit", .page_list = 1, .send_sge = 3, .recv_sge = 1, .read_sge = 3, .send_blocks = 4 * 210,
	  .recv_wr = 512, .cqe = 1024, .reads = 1, .mrs = 4096 },
};

bool vhca_quiet;
module_param_named(quiet, vhca_quiet, bool, 0644);
MODULE_PARM_DESC(quiet, "Count broken rules, and do not warn of them");

static char preset[16] = "connectx";
module_param_string(preset, preset, sizeof(preset), 0644);
MODULE_PARM_DESC(preset, "Of devices made from now on: connectx irdma cxgb4 qedr poor unfit");

static bool bounce = true;
module_param(bounce, bool, 0644);
MODULE_PARM_DESC(bounce, "Devices made from now on have bounce buffers");

static bool checks = true;
module_param(checks, bool, 0644);
MODULE_PARM_DESC(checks, "Devices made from now on hold their users to all rules; N, without bounce: they are for measuring");

static uint align_mask = PAGE_SIZE - 1;
module_param(align_mask, uint, 0644);
MODULE_PARM_DESC(align_mask, "Bits of an address that bounce buffers keep: 4095, or 0 as swiotlb has it by default");

static uint sgl_rd;
module_param(sgl_rd, uint, 0644);
MODULE_PARM_DESC(sgl_rd, "Pieces beyond which devices made from now on want a Read's memory registered; 0: as the preset says");

static uint read_delay, cq_delay, cq_batch = 1;
module_param(read_delay, uint, 0644);
MODULE_PARM_DESC(read_delay, "us until a Read's data comes");
module_param(cq_delay, uint, 0644);
MODULE_PARM_DESC(cq_delay, "us that a completion waits for others, at most");
module_param(cq_batch, uint, 0644);
MODULE_PARM_DESC(cq_batch, "Completions that are told of together");

static uint vectors;
module_param(vectors, uint, 0644);
MODULE_PARM_DESC(vectors, "Completion vectors, in turn those of each CPU; 0: as many as CPUs, none with one of its own");

struct workqueue_struct *vhca_wq;
LIST_HEAD(vhca_devices);
/* That have been made. */
static atomic_t devices;
DEFINE_RWLOCK(vhca_devices_lock);

static int query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	const struct vhca_preset *p = to_vhca(ib)->preset;

	*attr = (struct ib_device_attr){
		.sys_image_guid = ib->node_guid,
		.max_mr_size = U64_MAX, .page_size_cap = ~(PAGE_SIZE - 1),
		.max_qp = 1 << 16, .max_qp_wr = p->send_blocks / 4,
		.device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS | IB_DEVICE_RC_RNR_NAK_GEN,
		.kernel_cap_flags = IBK_LOCAL_DMA_LKEY | IBK_ALLOW_USER_UNREG |
			(p->sg_gaps ? IBK_SG_GAPS_REG : 0),
		.max_send_sge = p->send_sge, .max_recv_sge = p->recv_sge, .max_sge_rd = p->read_sge,
		.max_sgl_rd = sgl_rd ?: p->sgl_rd, .max_cq = 1 << 16, .max_cqe = p->cqe, .max_mr = p->mrs, .max_pd = 1 << 16,
		.max_qp_rd_atom = p->reads, .max_qp_init_rd_atom = p->reads, .max_res_rd_atom = p->reads << 16,
		.max_fast_reg_page_list_len = p->page_list, .max_pkeys = 1, .max_ah = 1 << 16,
	};
	return 0;
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	struct vhca *v = to_vhca(ib);
	bool up = v->port_up && netif_running(v->netdev) && netif_carrier_ok(v->netdev);

	attr->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = attr->active_mtu = IB_MTU_4096;
	attr->gid_tbl_len = v->preset->iwarp ? 1 : 32;
	attr->pkey_tbl_len = 1;
	attr->max_msg_sz = 1 << 30;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_HDR;
	attr->port_cap_flags = IB_PORT_CM_SUP | IB_PORT_DEVICE_MGMT_SUP;
	attr->ip_gids = true;
	return 0;
}

static int get_port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	struct vhca *v = to_vhca(ib);

	immutable->gid_tbl_len = v->preset->iwarp ? 1 : 32;
	immutable->pkey_tbl_len = 1;
	immutable->core_cap_flags = v->preset->iwarp ? RDMA_CORE_PORT_IWARP : RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->max_mad_size = v->preset->iwarp ? 0 : IB_MGMT_MAD_SIZE;
	return 0;
}

/* iWARP's: the interface's address, as rdma_cm looks for it. */
static int query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	struct vhca *v = to_vhca(ib);

	memset(gid, 0, sizeof(*gid));
	memcpy(gid->raw, v->netdev->dev_addr, ETH_ALEN);
	return 0;
}

static int query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = 0xffff;
	return 0;
}

static enum rdma_link_layer get_link_layer(struct ib_device *ib, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static void disassociate_ucontext(struct ib_ucontext *context)
{
}

/* It is registered, and about to be shown to its users: from now on the others see it. */
static int enable_driver(struct ib_device *ib)
{
	struct vhca *v = to_vhca(ib);
	unsigned long flags;

	/* It is called again when the device has another network namespace. */
	if (!list_empty(&v->node))
		return 0;
	write_lock_irqsave(&vhca_devices_lock, flags);
	list_add_tail(&v->node, &vhca_devices);
	write_unlock_irqrestore(&vhca_devices_lock, flags);
	vhca_inject_add(v);
	return 0;
}

/* The last that the core does with it. */
static void dealloc_driver(struct ib_device *ib)
{
	struct vhca *v = to_vhca(ib);
	unsigned long flags;

	write_lock_irqsave(&vhca_devices_lock, flags);
	list_del(&v->node);
	write_unlock_irqrestore(&vhca_devices_lock, flags);
	vhca_inject_remove(v);
	if (v->dma.live)
		vhca_fault(v, "%u mappings are left", v->dma.live);
	xa_destroy(&v->qps);
	xa_destroy(&v->mrs);
	platform_device_unregister(v->pdev);
	dev_put(v->netdev);
}

static const struct ib_device_ops ops = {
	.owner = THIS_MODULE,
	.driver_id = VHCA_DRIVER,

	.alloc_mr = vhca_alloc_mr,
	.alloc_pd = vhca_alloc_pd,
	.create_cq = vhca_create_cq,
	.create_qp = vhca_create_qp,
	.dealloc_driver = dealloc_driver,
	.dealloc_pd = vhca_dealloc_pd,
	.dereg_mr = vhca_dereg_mr,
	.destroy_cq = vhca_destroy_cq,
	.destroy_qp = vhca_destroy_qp,
	.disassociate_ucontext = disassociate_ucontext,
	.enable_driver = enable_driver,
	.get_dma_mr = vhca_get_dma_mr,
	.get_link_layer = get_link_layer,
	.get_port_immutable = get_port_immutable,
	.map_mr_sg = vhca_map_mr_sg,
	.modify_qp = vhca_modify_qp,
	.poll_cq = vhca_poll_cq,
	.post_recv = vhca_post_recv,
	.post_send = vhca_post_send,
	.query_device = query_device,
	.query_pkey = query_pkey,
	.query_port = query_port,
	.query_qp = vhca_query_qp,
	.reg_user_mr = vhca_reg_user_mr,
	.req_notify_cq = vhca_req_notify_cq,

	INIT_RDMA_OBJ_SIZE(ib_cq, vhca_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, vhca_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, vhca_qp, ib),
};

static const struct ib_device_ops iwarp_ops = {
	.iw_accept = vhca_iw_accept,
	.iw_add_ref = vhca_iw_add_ref,
	.iw_connect = vhca_iw_connect,
	.iw_create_listen = vhca_iw_create_listen,
	.iw_destroy_listen = vhca_iw_destroy_listen,
	.iw_get_qp = vhca_iw_get_qp,
	.iw_reject = vhca_iw_reject,
	.iw_rem_ref = vhca_iw_rem_ref,
	.query_gid = query_gid,
};

static const struct ib_device_ops roce_ops = {
	.add_gid = vhca_add_gid,
	.create_ah = vhca_create_ah,
	.del_gid = vhca_del_gid,
	.destroy_ah = vhca_destroy_ah,
	.query_ah = vhca_query_ah,

	INIT_RDMA_OBJ_SIZE(ib_ah, vhca_ah, ib),
};

/* What the RDMA device's DMA goes through. */
static struct platform_device *make_dma_device(struct vhca *v)
{
	struct platform_device *pdev = platform_device_register_simple("vhca", PLATFORM_DEVID_AUTO, NULL, 0);
	int err;

	if (IS_ERR(pdev))
		return pdev;
	dev_set_drvdata(&pdev->dev, v);
	/* All of them before the mask is set: that is where the kernel looks whether there is anything to sync. */
	if (v->checks)
		set_dma_ops(&pdev->dev, &vhca_dma_ops);
	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (!err)
		dma_set_max_seg_size(&pdev->dev, SZ_2G);
	if (err) {
		platform_device_unregister(pdev);
		return ERR_PTR(err);
	}
	return pdev;
}

static const struct vhca_preset *find_preset(void)
{
	char name[sizeof(preset)];
	unsigned int i;

	strscpy(name, preset, sizeof(name));
	strim(name);
	for (i = 0; i < ARRAY_SIZE(presets); i++)
		if (!strcmp(presets[i].name, strim(name)))
			return &presets[i];
	pr_err("vhca: there is no preset \"%s\"\n", name);
	return NULL;
}

static int newlink(const char *name, struct net_device *netdev)
{
	const struct vhca_preset *p = find_preset();
	struct ib_device *other = ib_device_get_by_netdev(netdev, VHCA_DRIVER);
	struct vhca *v;
	int err;

	if (other) {
		ib_device_put(other);
		return -EEXIST;
	}
	if (!p || netdev->addr_len != ETH_ALEN)
		return -EINVAL;
	if (!checks && bounce) {
		pr_err("vhca: bounce buffers are a part of the checks\n");
		return -EINVAL;
	}
	v = ib_alloc_device(vhca, ib);
	if (!v)
		return -ENOMEM;
	v->preset = p;
	/* The core lets go of it before the last of this device's operations has been called. */
	v->netdev = netdev;
	dev_hold(netdev);
	v->port_up = true;
	v->checks = checks;
	v->read_delay = read_delay;
	v->cq_delay = cq_delay;
	v->cq_batch = cq_batch;
	v->vectors = vectors;
	xa_init_flags(&v->qps, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&v->mrs, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	/* The largest preset has so many regions, and an index 24 bits. */
	v->first_key = (u32)atomic_inc_return(&devices) % 15 << 20;
	spin_lock_init(&v->mr_lock);
	spin_lock_init(&v->inject_lock);
	INIT_LIST_HEAD(&v->injections);
	INIT_LIST_HEAD(&v->node);
	vhca_dma_init(&v->dma, bounce, align_mask);
	v->pdev = make_dma_device(v);
	if (IS_ERR(v->pdev)) {
		err = PTR_ERR(v->pdev);
		dev_put(netdev);
		ib_dealloc_device(&v->ib);
		return err;
	}

	v->ib.node_type = p->iwarp ? RDMA_NODE_RNIC : RDMA_NODE_IB_CA;
	v->ib.phys_port_cnt = 1;
	v->ib.num_comp_vectors = v->vectors ?: num_possible_cpus();
	/* No region has it. */
	v->ib.local_dma_lkey = 0x5a;
	addrconf_addr_eui48((u8 *)&v->ib.node_guid, netdev->dev_addr);
	snprintf(v->ib.node_desc, sizeof(v->ib.node_desc), "vhca %s%s", p->name, bounce ? " bounce" : "");
	ib_set_device_ops(&v->ib, &ops);
	ib_set_device_ops(&v->ib, p->iwarp ? &iwarp_ops : &roce_ops);
	if (p->iwarp) {
		strscpy(v->ib.iw_ifname, netdev->name, sizeof(v->ib.iw_ifname));
		v->ib.iw_driver_flags = IW_F_NO_PORT_MAP;
	}
	err = ib_device_set_netdev(&v->ib, netdev, 1);
	if (!err) {
		ib_mark_name_assigned_by_user(&v->ib);
		err = ib_register_device(&v->ib, name, &v->pdev->dev);
	}
	if (err) {
		/* dealloc_driver() is called by it. */
		ib_dealloc_device(&v->ib);
		return err;
	}
	/* It may be gone already. */
	return 0;
}

static struct rdma_link_ops link_ops = {
	.type = "vhca",
	.newlink = newlink,
};

void vhca_remove(struct vhca *v)
{
	ib_unregister_device_queued(&v->ib);
}

void vhca_port(struct vhca *v, bool up)
{
	struct ib_event event = {
		.device = &v->ib, .element.port_num = 1, .event = up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR,
	};

	if (v->port_up == up)
		return;
	WRITE_ONCE(v->port_up, up);
	ib_dispatch_event(&event);
}

static int netdev_event(struct notifier_block *nb, unsigned long event, void *arg)
{
	struct net_device *netdev = netdev_notifier_info_to_dev(arg);
	struct ib_device *ib = ib_device_get_by_netdev(netdev, VHCA_DRIVER);

	if (!ib)
		return NOTIFY_OK;
	switch (event) {
	case NETDEV_UP:
		vhca_port(to_vhca(ib), true);
		break;
	case NETDEV_DOWN:
		vhca_port(to_vhca(ib), false);
		break;
	case NETDEV_UNREGISTER:
		vhca_remove(to_vhca(ib));
		break;
	}
	ib_device_put(ib);
	return NOTIFY_OK;
}

static struct notifier_block netdev_notifier = {
	.notifier_call = netdev_event,
};

static int __init vhca_init(void)
{
	int err;

	vhca_wq = alloc_workqueue("vhca", WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_HIGHPRI, 0);
	if (!vhca_wq)
		return -ENOMEM;
	debugfs_create_dir("vhca", NULL);
	err = register_netdevice_notifier(&netdev_notifier);
	if (err) {
		debugfs_lookup_and_remove("vhca", NULL);
		destroy_workqueue(vhca_wq);
		return err;
	}
	rdma_link_register(&link_ops);
	return 0;
}

static void __exit vhca_exit(void)
{
	rdma_link_unregister(&link_ops);
	unregister_netdevice_notifier(&netdev_notifier);
	ib_unregister_driver(VHCA_DRIVER);
	debugfs_lookup_and_remove("vhca", NULL);
	destroy_workqueue(vhca_wq);
}

module_init(vhca_init);
module_exit(vhca_exit);
