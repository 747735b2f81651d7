/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_CTL_TABLE_CONST: does a proc_handler take a const struct ctl_table? */

#include <linux/sysctl.h>

#ifdef PROBE
int probe(const struct ctl_table *table, int write, void *buffer, size_t *len, loff_t *pos);
#else
int probe(struct ctl_table *table, int write, void *buffer, size_t *len, loff_t *pos);
#endif
extern struct ctl_table probe_table;
struct ctl_table probe_table = {
	.proc_handler = probe,
};
