// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory regions. A page list is what map_mr_sg() made until a registration's turn comes, which takes a copy: as
 * with real devices, which fetch it then, it must not change between. A region may be registered when it is not
 * valid, with its own index and any key; it is invalidated when it is valid, under the very key.
 */
#include <linux/slab.h>

#include "vhca.h"

#define REMOTE	(IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)

int vhca_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

int vhca_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static struct vhca_mr *make(struct ib_pd *pd, u32 entries)
{
	struct vhca *v = to_vhca(pd->device);
	struct vhca_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	int err = -ENOMEM;
	u32 index;

	if (!mr)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&mr->lock);
	mr->most = entries;
	if (entries) {
		mr->next = kvcalloc(entries, sizeof(*mr->next), GFP_KERNEL);
		mr->now = kvcalloc(entries, sizeof(*mr->now), GFP_KERNEL);
		if (!mr->next || !mr->now)
			goto fail;
	}
	/* An index is not used again soon. */
	err = xa_alloc_cyclic_irq(&v->mrs, &index, mr, XA_LIMIT(v->first_key + 1, v->first_key + v->preset->mrs),
				  &v->next_key, GFP_KERNEL);
	if (err < 0)
		goto fail;
	mr->key = mr->ib.lkey = mr->ib.rkey = index << 8;
	return mr;

fail:
	kvfree(mr->next);
	kvfree(mr->now);
	kfree(mr);
	return ERR_PTR(err);
}

struct ib_mr *vhca_get_dma_mr(struct ib_pd *pd, int access)
{
	struct vhca_mr *mr = make(pd, 0);

	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->valid = mr->all = true;
	mr->access = access;
	return &mr->ib;
}

struct ib_mr *vhca_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt, int access,
			       VHCA_DMAH_ARG struct ib_udata *udata)
{
	/* There is no user-space provider; the core wants the operation to be there. */
	return ERR_PTR(-EOPNOTSUPP);
}

struct ib_mr *vhca_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 entries)
{
	const struct vhca_preset *preset = to_vhca(pd->device)->preset;
	struct vhca_mr *mr;

	if (type != IB_MR_TYPE_MEM_REG && !(type == IB_MR_TYPE_SG_GAPS && preset->sg_gaps))
		return ERR_PTR(-EOPNOTSUPP);
	if (!entries || entries > preset->page_list)
		return ERR_PTR(-EINVAL);
	mr = make(pd, entries);
	return IS_ERR(mr) ? ERR_CAST(mr) : &mr->ib;
}

/* A peer may use all of its mappings, from now on or no more. mr->lock, or nobody else knows of it. */
static void expose(struct vhca *v, const struct vhca_mr *mr, int count)
{
	/* A mapping may begin within the first page, and only there. */
	u32 i, skip = mr->ib.type == IB_MR_TYPE_SG_GAPS ? 0 : mr->iova & (mr->page_size - 1);

	for (i = 0; i < mr->n; i++, skip = 0)
		vhca_dma_expose(v, mr->now[i].bus + skip, count);
}

static void hide(struct vhca *v, struct vhca_mr *mr)
{
	if (mr->exposed_by)
		expose(v, mr, -1);
	mr->exposed_by = NULL;
}

/* Nobody uses @mr any more that has begun to. */
static void settle(atomic_t *uses)
{
	while (atomic_read_acquire(uses))
		cpu_relax();
}

int vhca_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct vhca *v = to_vhca(ibmr->device);
	struct vhca_mr *mr = to_vmr(ibmr);
	unsigned long flags;

	spin_lock_irqsave(&v->mr_lock, flags);
	xa_erase(&v->mrs, mr->key >> 8);
	/* Whoever found it before that has it locked until it is counted. */
	spin_lock(&mr->lock);
	spin_unlock(&mr->lock);
	spin_unlock_irqrestore(&v->mr_lock, flags);
	settle(&mr->invalidators);
	settle(&mr->pins);
	if (mr->posted)
		vhca_fault(v, "region 0x%x is destroyed with its registration in a send queue", mr->key);
	hide(v, mr);
	kvfree(mr->next);
	kvfree(mr->now);
	kfree(mr);
	return 0;
}

static int set_page(struct ib_mr *ibmr, u64 bus)
{
	struct vhca_mr *mr = to_vmr(ibmr);

	if (mr->n_next == mr->most)
		return -ENOMEM;
	mr->next[mr->n_next].bus = bus;
	mr->next[mr->n_next++].length = ibmr->page_size;
	return 0;
}

int vhca_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sgl, int nents, unsigned int *offset)
{
	struct vhca *v = to_vhca(ibmr->device);
	struct vhca_mr *mr = to_vmr(ibmr);
	unsigned int skip = offset ? *offset : 0;
	struct scatterlist *sg;
	int i;

	if (READ_ONCE(mr->posted))
		vhca_fault(v, "the page list of region 0x%x is written while its registration is posted", ibmr->rkey);
	mr->n_next = 0;
	if (ibmr->type != IB_MR_TYPE_SG_GAPS)
		return ib_sg_to_pages(ibmr, sgl, nents, offset, set_page);

	ibmr->iova = sg_dma_address(sgl) + skip;
	ibmr->length = 0;
	for_each_sg(sgl, sg, nents, i) {
		if (mr->n_next == mr->most)
			break;
		mr->next[mr->n_next].bus = sg_dma_address(sg) + skip;
		mr->next[mr->n_next].length = sg_dma_len(sg) - skip;
		ibmr->length += mr->next[mr->n_next++].length;
		skip = 0;
	}
	if (offset)
		*offset = 0;
	return i;
}

/* The region at @index, locked, or NULL. Interrupts are off. */
static struct vhca_mr *lock_index(struct vhca *v, u32 index)
{
	struct vhca_mr *mr;

	lockdep_assert_irqs_disabled();
	spin_lock(&v->mr_lock);
	mr = xa_load(&v->mrs, index);
	if (mr)
		spin_lock(&mr->lock);
	spin_unlock(&v->mr_lock);
	return mr;
}

/* The region that @key names, locked, or NULL. Interrupts are off. */
static struct vhca_mr *lock_mr(struct vhca *v, struct ib_pd *pd, u32 key)
{
	struct vhca_mr *mr = lock_index(v, key >> 8);

	if (mr && (mr->ib.pd != pd || mr->key != key)) {
		spin_unlock(&mr->lock);
		mr = NULL;
	}
	return mr;
}

void vhca_mr_posted(struct vhca *v, u32 index, bool posted)
{
	unsigned long flags;
	struct vhca_mr *mr;

	local_irq_save(flags);
	mr = lock_index(v, index);
	if (mr) {
		WRITE_ONCE(mr->posted, posted);
		spin_unlock(&mr->lock);
	}
	local_irq_restore(flags);
}

enum ib_wc_status vhca_mr_register(struct vhca_qp *qp, u32 index, u32 key, int access)
{
	const char *why = NULL;
	struct vhca *v = qp->dev;
	unsigned long flags;
	struct vhca_mr *mr;

	local_irq_save(flags);
	mr = lock_index(v, index);
	if (!mr) {
		why = "is gone";
		goto out;
	}
	WRITE_ONCE(mr->posted, false);
	if (mr->ib.pd != qp->ib.pd)
		why = "is of another protection domain";
	else if (mr->valid)
		why = "is valid";
	else if (key >> 8 != index)
		why = "is another one's";
	else if (!mr->n_next)
		why = "has no pages";
	else if (access & IB_ACCESS_REMOTE_WRITE && !(access & IB_ACCESS_LOCAL_WRITE))
		why = "lets a peer write, without IB_ACCESS_LOCAL_WRITE";
	if (why)
		goto unlock;
	swap(mr->now, mr->next);
	memcpy(mr->next, mr->now, mr->n_next * sizeof(*mr->now));
	mr->n = mr->n_next;
	mr->found = 0;
	mr->found_at = 0;
	mr->iova = mr->ib.iova;
	mr->length = mr->ib.length;
	mr->page_size = mr->ib.page_size;
	mr->access = access;
	mr->valid = true;
	mr->by_peer = false;
	mr->key = key;
	/* Once the queue pair is over, vhca_mr_hide() has been here or will be. */
	if (v->checks && access & REMOTE && READ_ONCE(qp->state) != IB_QPS_ERR) {
		mr->exposed_by = qp;
		expose(v, mr, 1);
	}
unlock:
	spin_unlock(&mr->lock);
out:
	local_irq_restore(flags);
	if (!why)
		return IB_WC_SUCCESS;
	vhca_fault(v, "registration of region 0x%x under key 0x%x, which %s", index << 8, key, why);
	return IB_WC_MW_BIND_ERR;
}

void vhca_mr_hide(struct vhca_qp *qp)
{
	struct vhca *v = qp->dev;
	unsigned long flags, index;
	struct vhca_mr *mr;

	spin_lock_irqsave(&v->mr_lock, flags);
	xa_for_each(&v->mrs, index, mr) {
		spin_lock(&mr->lock);
		if (mr->exposed_by == qp)
			hide(v, mr);
		spin_unlock(&mr->lock);
	}
	spin_unlock_irqrestore(&v->mr_lock, flags);
}

enum ib_wc_status vhca_mr_invalidate(struct vhca *v, struct ib_pd *pd, u32 key, bool remote)
{
	/* What mlx5 and cxgb4 say to it. */
	enum ib_wc_status local = to_vhca(pd->device)->preset->iwarp ? IB_WC_LOC_ACCESS_ERR : IB_WC_MW_BIND_ERR;
	enum ib_wc_status status = remote ? IB_WC_REM_ACCESS_ERR : local;
	bool crossed = false;
	unsigned long flags;
	struct vhca_mr *mr;

	local_irq_save(flags);
	mr = lock_mr(v, pd, key);
	if (mr) {
		/*
		 * Who gives up a call invalidates its region, and the answer that does so too may be on its way: nobody can
		 * know. That is no fault of a ULP, and the connection is lost all the same.
		 */
		crossed = mr->by_peer && !mr->valid;
		/* A peer invalidates what it was allowed to use, and no other. */
		if (mr->valid && !mr->all && (!remote || mr->access & REMOTE)) {
			mr->valid = false;
			hide(v, mr);
			mr->by_peer = remote;
			status = IB_WC_SUCCESS;
			atomic_inc(&mr->invalidators);
		}
		spin_unlock(&mr->lock);
		if (status == IB_WC_SUCCESS) {
			settle(&mr->pins);
			atomic_dec_return_release(&mr->invalidators);
		}
	}
	local_irq_restore(flags);
	if (status != IB_WC_SUCCESS && !remote && !crossed)
		vhca_fault(v, "LOCAL_INV of key 0x%x, under which nothing is registered", key);
	return status;
}

/* Whether @mr lets [@address, +@length) be used so. mr->lock. */
static bool allows(const struct vhca_mr *mr, u64 address, u64 length, int access)
{
	if (!mr->valid || (mr->access & access) != access)
		return false;
	return mr->all || (address >= mr->iova && length <= mr->length && address - mr->iova <= mr->length - length);
}

bool vhca_mr_allows(struct vhca *v, struct ib_pd *pd, u32 key, u64 address, u64 length, int access)
{
	struct vhca_mr *mr;
	unsigned long flags;
	bool ok;

	local_irq_save(flags);
	mr = lock_mr(v, pd, key);
	ok = mr && allows(mr, address, length, access);
	if (mr)
		spin_unlock(&mr->lock);
	local_irq_restore(flags);
	return ok;
}

/* Where byte @address of @mr is on the bus; *@length becomes what is there in one piece. mr->lock. */
static dma_addr_t translate(struct vhca_mr *mr, u64 address, u32 *length)
{
	u64 at = address - mr->iova;
	u32 i = 0;

	if (mr->all)
		return address;
	if (mr->ib.type != IB_MR_TYPE_SG_GAPS) {
		/* The first byte is somewhere in the first page. */
		at += mr->iova & (mr->page_size - 1);
		i = at / mr->page_size;
		at %= mr->page_size;
	} else {
		/* Accesses go on, mostly, where the last one was. */
		if (at < mr->found_at)
			mr->found = mr->found_at = 0;
		while (at - mr->found_at >= mr->now[mr->found].length)
			mr->found_at += mr->now[mr->found++].length;
		at -= mr->found_at;
		i = mr->found;
	}
	*length = min_t(u64, *length, mr->now[i].length - at);
	return mr->now[i].bus + at;
}

int vhca_mr_pin(struct vhca *v, struct ib_pd *pd, u32 key, u64 address, u32 length, int access, bool writes,
		struct vhca_mr **held, struct vhca_pin *pin)
{
	struct vhca_mr *mr = lock_mr(v, pd, key);
	dma_addr_t bus;
	int err;

	if (!mr || !allows(mr, address, length, access)) {
		if (mr)
			spin_unlock(&mr->lock);
		return -EACCES;
	}
	bus = translate(mr, address, &length);
	atomic_inc(&mr->pins);
	spin_unlock(&mr->lock);
	err = vhca_dma_pin(v, bus, length, writes, pin);
	if (err)
		atomic_dec_return_release(&mr->pins);
	else
		*held = mr;
	return err;
}

void vhca_mr_unpin(struct vhca_mr *held, struct vhca_pin *pin)
{
	vhca_dma_unpin(pin);
	if (held)
		atomic_dec_return_release(&held->pins);
}
