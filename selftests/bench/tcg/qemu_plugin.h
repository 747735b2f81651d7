/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What instructions.c uses of QEMU's plugin interface, version 1, as documented in QEMU 7.2: Debian has QEMU
 * with plugins, and its header in no package.
 */
#ifndef RPCORDMA_BENCH_QEMU_PLUGIN_H
#define RPCORDMA_BENCH_QEMU_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;

/* Of operations that QEMU compiles into a block, there is this one. */
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

/* What QEMU looks for in a plugin. */
extern EXPORT int qemu_plugin_version;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*translated)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, enum qemu_plugin_op op, void *counter,
					      uint64_t amount);

#endif
