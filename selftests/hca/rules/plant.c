// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults of the kinds that a kernel's checkers are there for, one each: whether they are at work, and whether what they
 * say fails a run (the part `checkers` of scripts/hca).
 */
#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "rules.h"

static noinline int kasan(struct ib_device *dev)
{
	u8 *memory = kmalloc(64, GFP_KERNEL);

	if (!memory)
		return -ENOMEM;
	kfree(memory);
	OPTIMIZER_HIDE_VAR(memory);
	return READ_ONCE(memory[8]) == 0 ? 0 : 1;
}

static noinline int lockdep(struct ib_device *dev)
{
	static DEFINE_SPINLOCK(one);
	static DEFINE_SPINLOCK(other);

	spin_lock(&one);
	spin_lock(&other);
	spin_unlock(&other);
	spin_unlock(&one);
	spin_lock(&other);
	spin_lock(&one);
	spin_unlock(&one);
	spin_unlock(&other);
	return 0;
}

static noinline int kmemleak(struct ib_device *dev)
{
	int i;

	/* A register or a stack may still have the address of one. */
	for (i = 0; i < 10; i++) {
		void *memory = kmalloc(300, GFP_KERNEL);

		OPTIMIZER_HIDE_VAR(memory);
	}
	return 0;
}

/* The device itself cannot know whether its user has looked. */
static noinline int dma_api(struct ib_device *dev)
{
	u8 *memory = kmalloc(512, GFP_KERNEL);
	dma_addr_t bus;

	if (!memory)
		return -ENOMEM;
	bus = dma_map_single(dev->dma_device, memory, 512, DMA_TO_DEVICE);
	dma_unmap_single(dev->dma_device, bus, 512, DMA_TO_DEVICE);
	kfree(memory);
	return 0;
}

int plant(struct ib_device *dev, const char *what)
{
	static const struct {
		const char *name;
		int (*plant)(struct ib_device *dev);
	} faults[] = {{"kasan", kasan}, {"lockdep", lockdep}, {"kmemleak", kmemleak}, {"dma-api", dma_api}};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(faults); i++)
		if (!strcmp(faults[i].name, what))
			return faults[i].plant(dev);
	return -ENOENT;
}
