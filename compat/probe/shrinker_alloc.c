/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_SHRINKER_ALLOC: are shrinkers allocated, instead of being the caller's static memory? */

#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/shrinker.h>
#include <linux/stddef.h>

struct shrinker *probe(struct shrinker *mine);
struct shrinker *probe(struct shrinker *mine)
{
#ifdef PROBE
	mine = shrinker_alloc(0, "%s", "probe");
	if (mine)
		shrinker_register(mine);
	shrinker_free(mine);
#else
	if (register_shrinker(mine, "%s", "probe"))
		return NULL;
	unregister_shrinker(mine);
#endif
	return mine;
}
