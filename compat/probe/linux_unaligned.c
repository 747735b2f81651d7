/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_LINUX_UNALIGNED_H: is it <linux/unaligned.h>, not <asm/unaligned.h>? */

#ifdef PROBE
#if !__has_include("linux/unaligned.h")
#error "it is not there"
#endif
#include <linux/unaligned.h>
#else
#if __has_include("linux/unaligned.h")
#error "the new header is there"
#endif
#include <asm/unaligned.h>
#endif

unsigned int probe(const void *word);
unsigned int probe(const void *word)
{
	return get_unaligned_be32(word);
}
