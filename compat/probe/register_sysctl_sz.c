/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_REGISTER_SYSCTL_SZ: are sysctl tables counted, not ended by an empty entry? */

#include <linux/sysctl.h>

#ifdef PROBE
struct ctl_table_header *probe(struct ctl_table *table);
struct ctl_table_header *probe(struct ctl_table *table)
{
	return register_sysctl_sz("sunrpc", table, 1);
}
#else
/* Conflicts with the declaration of the function, if there is one. */
extern struct ctl_table *register_sysctl_sz;

struct ctl_table_header *probe(struct ctl_table *table);
struct ctl_table_header *probe(struct ctl_table *table)
{
	return register_sysctl("sunrpc", table);
}
#endif
