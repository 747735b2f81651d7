// SPDX-License-Identifier: GPL-2.0-only
/*
 * The DMA of a device: bus addresses that are not physical ones and never the same twice, so that an access
 * which is not allowed is found whenever it happens. With bounce buffers the device sees pages of its own,
 * which are copied when a mapping is made, synchronized and unmapped, and at no other time.
 *
 * The device may access a mapping while its owner unmaps it, which is a fault of the owner's that shows at the
 * next access: each one holds its mapping (pins), with interrupts off, for one page at a time, and unmapping
 * waits for that. Without checks there is nothing of this: bus addresses are the kernel's own, physical ones.
 */
#include <linux/dma-direct.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "vhca.h"

/* Far from any physical address of a test machine. */
#define FIRST_BUS	0x5ca1ab1e0000ULL

/* Of all devices, and of those that were before them: no other one's address is right by chance. */
static DEFINE_SPINLOCK(bus_lock);
static dma_addr_t next_bus = FIRST_BUS;
/* Freed and unwritten memory of bounce buffers. */
#define POISON		0xdb
/* What swiotlb maps at once, at most, with what is ahead of it as its place is kept; and what a slot of it has. */
#define MOST_BOUNCED	(256 * 1024)
#define SLOT		2048

const char *const vhca_dma_names[] = {
	"alloc", "free", "map_page", "unmap_page", "map_sg", "unmap_sg", "sync_single_for_cpu",
	"sync_single_for_device", "sync_sg_for_cpu", "sync_sg_for_device", "max_mapping_size", NULL
};

struct vhca_map {
	struct rb_node node;
	dma_addr_t bus;
	size_t size;
	enum dma_data_direction dir;
	struct page *page;		/* of the first byte, */
	u32 offset;			/* which is here in it */
	bool coherent;
	atomic_t pins;
	atomic_t exposed;		/* regions that a peer may use */
	atomic_t used;			/* SGEs of work requests that are not known to be over */
	u32 shadow_offset;
	struct page **shadow;		/* NULL: no bounce buffer */
	u32 nshadow;
};

static struct vhca *of(struct device *dev)
{
	return dev_get_drvdata(dev);
}

void vhca_dma_init(struct vhca_dma *dma, bool bounce, u32 align_mask)
{
	spin_lock_init(&dma->lock);
	dma->maps = RB_ROOT;
	dma->bounce = bounce;
	dma->align_mask = align_mask;
}

static void count(struct vhca *v, enum vhca_dma_op op)
{
	unsigned long flags;

	spin_lock_irqsave(&v->dma.lock, flags);
	v->dma.calls[op]++;
	spin_unlock_irqrestore(&v->dma.lock, flags);
}

/* The mapping that @bus lies in, or NULL. dma.lock. */
static struct vhca_map *find(struct vhca_dma *dma, dma_addr_t bus)
{
	struct rb_node *node = dma->maps.rb_node;

	lockdep_assert_held(&dma->lock);
	while (node) {
		struct vhca_map *map = rb_entry(node, struct vhca_map, node);

		if (bus < map->bus)
			node = node->rb_left;
		else if (bus - map->bus >= map->size)
			node = node->rb_right;
		else
			return map;
	}
	return NULL;
}

/* An address for @size bytes from byte @offset of a page on, which is larger than all before it. */
static dma_addr_t new_bus(u32 offset, size_t size)
{
	dma_addr_t bus;

	spin_lock(&bus_lock);
	/* No segment lies across 4 GiB, which is what the DMA API promises by default (dma_get_seg_boundary()). */
	if (upper_32_bits(next_bus) != upper_32_bits(next_bus + offset + size - 1))
		next_bus = ALIGN(next_bus, SZ_4G);
	bus = next_bus + offset;
	/* A page between two mappings belongs to neither: what runs over the end of one is found. */
	next_bus += PAGE_ALIGN(offset + size) + PAGE_SIZE;
	spin_unlock(&bus_lock);
	return bus;
}

/* Give @map its address. */
static void insert(struct vhca_dma *dma, struct vhca_map *map)
{
	u32 offset = map->shadow ? map->shadow_offset : map->offset & ~PAGE_MASK;
	struct rb_node **link, *parent = NULL;
	unsigned long flags;

	spin_lock_irqsave(&dma->lock, flags);
	map->bus = new_bus(offset, map->size);
	for (link = &dma->maps.rb_node; *link; link = &(*link)->rb_right)
		parent = *link;
	rb_link_node(&map->node, parent, link);
	rb_insert_color(&map->node, &dma->maps);
	dma->live++;
	spin_unlock_irqrestore(&dma->lock, flags);
}

/* The byte at @at of the mapping, as the device has it; *@left is how many are in the same page. */
static void *device_byte(struct vhca_map *map, size_t at, u32 *left)
{
	size_t position = at + (map->shadow ? map->shadow_offset : map->offset);
	u32 in_page = position & ~PAGE_MASK;
	struct page *page = map->shadow ? map->shadow[position >> PAGE_SHIFT] : map->page + (position >> PAGE_SHIFT);

	*left = min_t(size_t, PAGE_SIZE - in_page, map->size - at);
	return page_address(page) + in_page;
}

/* Copy between the bounce buffer and its owner's memory. */
static void bounce(struct vhca_map *map, size_t at, size_t length, bool to_device)
{
	while (length) {
		size_t position = map->offset + at;
		u32 left, n;
		void *theirs = page_address(map->page + (position >> PAGE_SHIFT)) + (position & ~PAGE_MASK);
		void *device = device_byte(map, at, &left);

		n = min3((size_t)left, length, PAGE_SIZE - (position & ~PAGE_MASK));
		memcpy(to_device ? device : theirs, to_device ? theirs : device, n);
		at += n;
		length -= n;
	}
}

static bool to_device(enum dma_data_direction dir)
{
	return dir == DMA_TO_DEVICE || dir == DMA_BIDIRECTIONAL;
}

static bool from_device(enum dma_data_direction dir)
{
	return dir == DMA_FROM_DEVICE || dir == DMA_BIDIRECTIONAL;
}

static void free_map(struct vhca_map *map)
{
	u32 i;

	for (i = 0; i < map->nshadow; i++)
		if (map->shadow[i])
			__free_page(map->shadow[i]);
	kfree(map->shadow);
	kfree(map);
}

static struct vhca_map *make_map(struct vhca *v, struct page *page, size_t offset, size_t size,
				 enum dma_data_direction dir, unsigned long attrs)
{
	struct vhca_map *map;
	u32 i;

	if (v->dma.fail_every && atomic_inc_return(&v->dma.count) % v->dma.fail_every == 0)
		return NULL;
	map = kzalloc(sizeof(*map), GFP_ATOMIC | __GFP_NOWARN);
	if (!map)
		return NULL;
	map->page = page + (offset >> PAGE_SHIFT);
	map->offset = offset & ~PAGE_MASK;
	map->size = size;
	map->dir = dir;
	if (!v->dma.bounce)
		return map;

	map->shadow_offset = map->offset & v->dma.align_mask;
	if (map->shadow_offset + size > MOST_BOUNCED) {
		kfree(map);
		return NULL;
	}
	map->nshadow = DIV_ROUND_UP(map->shadow_offset + size, PAGE_SIZE);
	map->shadow = kcalloc(map->nshadow, sizeof(*map->shadow), GFP_ATOMIC | __GFP_NOWARN);
	if (!map->shadow) {
		map->nshadow = 0;
		free_map(map);
		return NULL;
	}
	for (i = 0; i < map->nshadow; i++) {
		map->shadow[i] = alloc_page(GFP_ATOMIC | __GFP_NOWARN);
		if (!map->shadow[i]) {
			free_map(map);
			return NULL;
		}
		memset(page_address(map->shadow[i]), POISON, PAGE_SIZE);
	}
	if (to_device(dir) && !(attrs & DMA_ATTR_SKIP_CPU_SYNC))
		bounce(map, 0, size, true);
	return map;
}

static dma_addr_t do_map(struct vhca *v, struct page *page, size_t offset, size_t size,
			 enum dma_data_direction dir, unsigned long attrs)
{
	struct vhca_map *map;

	if (!size || !valid_dma_direction(dir)) {
		vhca_fault(v, "mapping of %zu bytes in direction %d", size, dir);
		return DMA_MAPPING_ERROR;
	}
	map = make_map(v, page, offset, size, dir, attrs);
	if (!map)
		return DMA_MAPPING_ERROR;
	insert(&v->dma, map);
	return map->bus;
}

/* Whether it was there, and is no more. @coherent: by dma_free_coherent(). */
static bool do_unmap(struct vhca *v, dma_addr_t bus, size_t size, enum dma_data_direction dir, unsigned long attrs,
		     bool coherent)
{
	const char *why = NULL;
	struct vhca_map *map;
	unsigned long flags;

	spin_lock_irqsave(&v->dma.lock, flags);
	map = find(&v->dma, bus);
	if (!map) {
		why = "not mapped (any more)";
	} else if (map->bus != bus) {
		why = "within a mapping";
	} else if (map->coherent != coherent) {
		why = coherent ? "not coherent" : "coherent memory";
	} else {
		rb_erase(&map->node, &v->dma.maps);
		v->dma.live--;
	}
	spin_unlock_irqrestore(&v->dma.lock, flags);
	if (why) {
		vhca_fault(v, "unmap of 0x%llx, which is %s", (u64)bus, why);
		return false;
	}
	if (map->size != size || map->dir != dir)
		vhca_fault(v, "unmap of %zu bytes in direction %d, mapped were %zu in %d", size, dir, map->size,
			   map->dir);
	if (atomic_read(&map->exposed))
		vhca_fault(v, "unmap of 0x%llx, which a peer may access still: its region is registered", (u64)bus);
	if (atomic_read(&map->used))
		vhca_fault(v, "unmap of 0x%llx, which is in a send queue: no completion says that it is over", (u64)bus);
	while (atomic_read_acquire(&map->pins))
		cpu_relax();
	if (map->shadow && from_device(map->dir) && !(attrs & DMA_ATTR_SKIP_CPU_SYNC))
		bounce(map, 0, map->size, false);
	free_map(map);
	return true;
}

static void do_sync(struct vhca *v, dma_addr_t bus, size_t size, enum dma_data_direction dir, bool for_device)
{
	const char *why = NULL;
	struct vhca_map *map;
	unsigned long flags;

	spin_lock_irqsave(&v->dma.lock, flags);
	map = find(&v->dma, bus);
	if (!map)
		why = "nothing is mapped there";
	else if (map->dir != dir)
		why = "mapped in another one";
	else if (map->size - (bus - map->bus) < size)
		why = "longer than the mapping";
	else if (map->shadow && (for_device ? to_device(dir) : from_device(dir)))
		bounce(map, bus - map->bus, size, for_device);
	spin_unlock_irqrestore(&v->dma.lock, flags);
	if (why)
		vhca_fault(v, "sync of %zu bytes at 0x%llx in direction %d: %s", size, (u64)bus, dir, why);
}

static void *op_alloc(struct device *dev, size_t size, dma_addr_t *bus, gfp_t gfp, unsigned long attrs)
{
	struct vhca *v = of(dev);
	struct vhca_map *map;
	void *va;

	count(v, VHCA_DMA_ALLOC);
	map = kzalloc(sizeof(*map), gfp);
	va = map ? alloc_pages_exact(size, gfp | __GFP_ZERO) : NULL;
	if (!va) {
		kfree(map);
		return NULL;
	}
	map->page = virt_to_page(va);
	map->size = size;
	map->dir = DMA_BIDIRECTIONAL;
	map->coherent = true;
	insert(&v->dma, map);
	*bus = map->bus;
	return va;
}

static void op_free(struct device *dev, size_t size, void *va, dma_addr_t bus, unsigned long attrs)
{
	count(of(dev), VHCA_DMA_FREE);
	/* Whose memory it is otherwise nobody knows. */
	if (do_unmap(of(dev), bus, size, DMA_BIDIRECTIONAL, attrs, true))
		free_pages_exact(va, size);
}

static dma_addr_t op_map_page(struct device *dev, struct page *page, unsigned long offset, size_t size,
			      enum dma_data_direction dir, unsigned long attrs)
{
	count(of(dev), VHCA_DMA_MAP_PAGE);
	return do_map(of(dev), page, offset, size, dir, attrs);
}

#ifdef VHCA_MAP_PHYS
static dma_addr_t op_map_phys(struct device *dev, phys_addr_t phys, size_t size, enum dma_data_direction dir,
			      unsigned long attrs)
{
	/* What has no page is no memory. */
	if (attrs & DMA_ATTR_MMIO)
		return DMA_MAPPING_ERROR;
	return op_map_page(dev, phys_to_page(phys), offset_in_page(phys), size, dir, attrs);
}
#endif

static void op_unmap_page(struct device *dev, dma_addr_t bus, size_t size, enum dma_data_direction dir,
			  unsigned long attrs)
{
	count(of(dev), VHCA_DMA_UNMAP_PAGE);
	do_unmap(of(dev), bus, size, dir, attrs, false);
}

static int op_map_sg(struct device *dev, struct scatterlist *sgl, int n, enum dma_data_direction dir,
		     unsigned long attrs)
{
	struct vhca *v = of(dev);
	struct scatterlist *sg;
	int i, j;

	count(v, VHCA_DMA_MAP_SG);
	for_each_sg(sgl, sg, n, i) {
		sg_dma_address(sg) = do_map(v, sg_page(sg), sg->offset, sg->length, dir, attrs);
		if (sg_dma_address(sg) == DMA_MAPPING_ERROR)
			goto fail;
		sg_dma_len(sg) = sg->length;
	}
	return n;

fail:
	for_each_sg(sgl, sg, i, j)
		do_unmap(v, sg_dma_address(sg), sg_dma_len(sg), dir, attrs | DMA_ATTR_SKIP_CPU_SYNC, false);
	/* What dma_map_sgtable() takes for a shortage that may pass. */
	return -EIO;
}

static void op_unmap_sg(struct device *dev, struct scatterlist *sgl, int n, enum dma_data_direction dir,
			unsigned long attrs)
{
	struct scatterlist *sg;
	int i;

	count(of(dev), VHCA_DMA_UNMAP_SG);
	for_each_sg(sgl, sg, n, i)
		do_unmap(of(dev), sg_dma_address(sg), sg_dma_len(sg), dir, attrs, false);
}

static void op_sync_single_for_cpu(struct device *dev, dma_addr_t bus, size_t size, enum dma_data_direction dir)
{
	count(of(dev), VHCA_DMA_CPU);
	do_sync(of(dev), bus, size, dir, false);
}

static void op_sync_single_for_device(struct device *dev, dma_addr_t bus, size_t size, enum dma_data_direction dir)
{
	count(of(dev), VHCA_DMA_DEVICE);
	do_sync(of(dev), bus, size, dir, true);
}

static void op_sync_sg_for_cpu(struct device *dev, struct scatterlist *sgl, int n, enum dma_data_direction dir)
{
	struct scatterlist *sg;
	int i;

	count(of(dev), VHCA_DMA_SG_CPU);
	for_each_sg(sgl, sg, n, i)
		do_sync(of(dev), sg_dma_address(sg), sg_dma_len(sg), dir, false);
}

static void op_sync_sg_for_device(struct device *dev, struct scatterlist *sgl, int n, enum dma_data_direction dir)
{
	struct scatterlist *sg;
	int i;

	count(of(dev), VHCA_DMA_SG_DEVICE);
	for_each_sg(sgl, sg, n, i)
		do_sync(of(dev), sg_dma_address(sg), sg_dma_len(sg), dir, true);
}

static size_t op_max_mapping_size(struct device *dev)
{
	count(of(dev), VHCA_DMA_MAPPING_SIZE);
	/* Wherever it lies. */
	return of(dev)->dma.bounce ? MOST_BOUNCED - roundup(of(dev)->dma.align_mask, SLOT) : SIZE_MAX;
}

static int op_dma_supported(struct device *dev, u64 mask)
{
	return mask >= DMA_BIT_MASK(48);
}

const struct dma_map_ops vhca_dma_ops = {
	.alloc			= op_alloc,
	.free			= op_free,
#ifdef VHCA_MAP_PHYS
	.map_phys		= op_map_phys,
	.unmap_phys		= op_unmap_page,
#else
	.map_page		= op_map_page,
	.unmap_page		= op_unmap_page,
#endif
	.map_sg			= op_map_sg,
	.unmap_sg		= op_unmap_sg,
	.sync_single_for_cpu	= op_sync_single_for_cpu,
	.sync_single_for_device	= op_sync_single_for_device,
	.sync_sg_for_cpu	= op_sync_sg_for_cpu,
	.sync_sg_for_device	= op_sync_sg_for_device,
	.max_mapping_size	= op_max_mapping_size,
	.dma_supported		= op_dma_supported,
};

int vhca_dma_pin(struct vhca *v, dma_addr_t bus, u32 length, bool writes, struct vhca_pin *pin)
{
	struct vhca_map *map;
	u32 left;

	lockdep_assert_irqs_disabled();
	if (!v->checks) {
		*pin = (struct vhca_pin){.va = phys_to_virt(dma_to_phys(&v->pdev->dev, bus)), .length = length};
		return 0;
	}
	spin_lock(&v->dma.lock);
	map = find(&v->dma, bus);
	if (map && (writes ? from_device(map->dir) : to_device(map->dir)))
		atomic_inc(&map->pins);
	else
		goto fault;
	spin_unlock(&v->dma.lock);
	pin->map = map;
	pin->va = device_byte(map, bus - map->bus, &left);
	pin->length = min(left, length);
	return 0;

fault:
	spin_unlock(&v->dma.lock);
	vhca_fault(v, "the device %s 0x%llx, which is %s", writes ? "writes" : "reads", (u64)bus,
		   map ? "mapped for the other direction only" :
		   bus >= FIRST_BUS && bus < READ_ONCE(next_bus) ?
		   "mapped no more, another device's, or beyond the end of a mapping" :
		   "no bus address at all");
	return -EFAULT;
}

void vhca_dma_unpin(struct vhca_pin *pin)
{
	if (pin->map)
		atomic_dec_return_release(&pin->map->pins);
}

/* Add @n to a count of the mapping that @bus lies in, if there is one. */
static void count_in_map(struct vhca *v, dma_addr_t bus, bool exposed, int n)
{
	struct vhca_map *map;
	unsigned long flags;

	spin_lock_irqsave(&v->dma.lock, flags);
	map = find(&v->dma, bus);
	if (map)
		atomic_add(n, exposed ? &map->exposed : &map->used);
	spin_unlock_irqrestore(&v->dma.lock, flags);
}

void vhca_dma_expose(struct vhca *v, dma_addr_t bus, int n)
{
	count_in_map(v, bus, true, n);
}

void vhca_dma_use(struct vhca *v, dma_addr_t bus, int n)
{
	count_in_map(v, bus, false, n);
}
