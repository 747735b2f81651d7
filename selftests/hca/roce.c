// SPDX-License-Identifier: GPL-2.0-only
/*
 * RoCE version 2: GIDs are the core's affair, which keeps them as the interface's addresses change. Queue pair 1
 * carries the messages of InfiniBand's CM as datagrams, each behind a network header, between the devices whose
 * GIDs they name.
 */
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <rdma/ib_cache.h>

#include "vhca.h"

#define GRH	40

int vhca_create_ah(struct ib_ah *ah, struct rdma_ah_init_attr *attr, struct ib_udata *udata)
{
	if (udata || !(rdma_ah_get_ah_flags(attr->ah_attr) & IB_AH_GRH))
		return -EINVAL;
	to_vah(ah)->attr = *attr->ah_attr;
	return 0;
}

int vhca_destroy_ah(struct ib_ah *ah, u32 flags)
{
	return 0;
}

int vhca_query_ah(struct ib_ah *ah, struct rdma_ah_attr *attr)
{
	*attr = to_vah(ah)->attr;
	return 0;
}

int vhca_add_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

int vhca_del_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

/*
 * The queue pair @qpn, with a reference, of the device that has @gid. Without checks *@known is the device that had it
 * the last time, if it is there still.
 */
static struct vhca_qp *find_qp(const union ib_gid *gid, u32 qpn, struct vhca **known)
{
	struct vhca_qp *qp = NULL;
	struct vhca *v;
	unsigned long flags;

	read_lock_irqsave(&vhca_devices_lock, flags);
	list_for_each_entry(v, &vhca_devices, node) {
		const struct ib_gid_attr *attr;

		if (v->preset->iwarp || !v->port_up)
			continue;
		if (!*known) {
			attr = rdma_find_gid_by_port(&v->ib, gid, IB_GID_TYPE_ROCE_UDP_ENCAP, 1, NULL);
			if (IS_ERR(attr))
				continue;
			rdma_put_gid_attr(attr);
		} else if (*known != v) {
			continue;
		}
		qp = vhca_qp_get(v, qpn);
		if (qp)
			break;
	}
	*known = qp && !v->checks ? v : NULL;
	read_unlock_irqrestore(&vhca_devices_lock, flags);
	return qp;
}

struct vhca_qp *vhca_roce_peer(struct vhca_qp *qp)
{
	struct vhca_qp *peer = find_qp(&qp->attr.ah_attr.grh.dgid, qp->attr.dest_qp_num, &qp->toward);

	if (peer && (peer->attr.dest_qp_num != qp->ib.qp_num || peer->ib.qp_type != IB_QPT_RC)) {
		vhca_qp_put(peer);
		return NULL;
	}
	return peer;
}

/* The 40 bytes before a datagram, as the receiver gets them. */
static void make_grh(void *grh, const struct vhca_swqe *e)
{
	memset(grh, 0, GRH);
	if (e->av.network == RDMA_NETWORK_IPV4) {
		struct iphdr *ip = &((union rdma_network_hdr *)grh)->roce4grh;

		ip->version = 4;
		ip->ihl = 5;
		ip->ttl = 64;
		ip->protocol = IPPROTO_UDP;
		ip->tot_len = htons(sizeof(*ip) + e->length);
		memcpy(&ip->saddr, e->av.sgid.raw + 12, 4);
		memcpy(&ip->daddr, e->av.dgid.raw + 12, 4);
		/* rdma_cm looks at it to tell the two kinds of headers apart. */
		ip->check = ip_fast_csum(ip, ip->ihl);
	} else {
		struct ib_grh *ib = grh;

		ib->version_tclass_flow = htonl(6 << 28);
		ib->paylen = htons(e->length);
		ib->next_hdr = IPPROTO_UDP;
		ib->hop_limit = 64;
		ib->sgid = e->av.sgid;
		ib->dgid = e->av.dgid;
	}
}

int vhca_roce_send(struct vhca_qp *qp, struct vhca_swqe *e, u32 *ms)
{
	struct vhca *v = qp->dev;
	struct ib_wc wc = {
		.status = IB_WC_SUCCESS, .opcode = IB_WC_RECV, .byte_len = e->length + GRH, .src_qp = qp->ib.qp_num,
		.port_num = 1, .wc_flags = IB_WC_GRH | IB_WC_WITH_SMAC | IB_WC_WITH_NETWORK_HDR_TYPE,
	};
	struct vhca *known = NULL;
	struct vhca_rwqe *r = NULL;
	struct vhca_qp *peer;
	unsigned long flags;
	u8 grh[GRH];
	struct vhca_pin pin;
	u32 done = 0, room = 0;
	int i, err = 0, result = IB_WC_SUCCESS;

	wc.network_hdr_type = e->av.network;
	/* A datagram that nobody takes is lost, and nobody says so. */
	if (!v->port_up || e->av.no_interface || READ_ONCE(v->cm_lost))
		return IB_WC_SUCCESS;
	peer = find_qp(&e->av.dgid, e->av.qpn, &known);
	if (!peer)
		return IB_WC_SUCCESS;
	/* Whoever receives it looks for the GID that it was sent to in this VLAN. */
	ether_addr_copy(wc.smac, e->av.mac);
	wc.vlan_id = e->av.vlan;
	if (wc.vlan_id != 0xffff)
		wc.wc_flags |= IB_WC_WITH_VLAN;

	spin_lock_irqsave(&peer->lock, flags);
	if ((peer->state == IB_QPS_RTR || peer->state == IB_QPS_RTS) && peer->rq_posted != peer->rq_filled &&
	    peer->ib.qp_type == IB_QPT_GSI) {
		if (peer->rq_busy) {
			/* That of another device comes in just now: no reason to lose this one. */
			*ms = 1;
			result = VHCA_LATER;
		} else {
			r = &peer->rq[peer->rq_filled % peer->rq_size];
			peer->rq_busy = true;
		}
	}
	spin_unlock_irqrestore(&peer->lock, flags);
	if (!r)
		goto out;

	for (i = 0; i < r->nsge; i++)
		room += r->sge[i].length;
	if (room < GRH + e->length || !r->nsge || r->sge[0].length < GRH) {
		wc.status = IB_WC_LOC_LEN_ERR;
		vhca_recv_done(peer, &wc, false);
		goto out;
	}
	make_grh(grh, e);
	while (done < GRH && !err) {
		local_irq_save(flags);
		err = vhca_dma_pin(peer->dev, r->sge[0].addr + done, GRH - done, true, &pin);
		if (!err) {
			memcpy(pin.va, grh + done, pin.length);
			done += pin.length;
			vhca_dma_unpin(&pin);
		}
		local_irq_restore(flags);
	}
	if (!err && e->length)
		err = vhca_copy_sges(qp, e->sge, peer, r->sge, GRH, e->length);
	if (err)
		wc.status = IB_WC_LOC_PROT_ERR;
	vhca_recv_done(peer, &wc, false);
out:
	vhca_qp_put(peer);
	return result;
}
