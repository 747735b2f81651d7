/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls of the kernel's that can be made to fail. In rpcordma_compat.ko this file is included ahead of each source of
 * compat/linux, behind all of the kernel's headers which those include: so what they call by these names from there on
 * asks faults.c first, and what the kernel's own inline functions call is left alone.
 *
 * A call that is to fail has no effect, and returns what the kernel returns in such a case, unless a comment says otherwise.
 * Which functions there are compat/linux calls, and why most of them are not here, is in kunit/compat/calls, and
 * scripts/kunit-compat compares both with the sources.
 */
#ifndef RPCORDMA_FAULTS_H
#define RPCORDMA_FAULTS_H

#include "kernel_headers.inc"
#include "kunit/compat/engine.h"

#define FAULT(call) rpcordma_fault(#call, __FILE__, __LINE__)

/* Macros of the kernel's, by other names, so that theirs are free. */

static __always_inline void *faultless_kmalloc(size_t size, gfp_t gfp)
{
	return kmalloc(size, gfp);
}

static __always_inline void *faultless_kzalloc(size_t size, gfp_t gfp)
{
	return kzalloc(size, gfp);
}

static __always_inline void *faultless_kzalloc_node(size_t size, gfp_t gfp, int node)
{
	return kzalloc_node(size, gfp, node);
}

static __always_inline void *faultless_kvzalloc(size_t size, gfp_t gfp)
{
	return kvzalloc(size, gfp);
}

static __always_inline char *faultless_kstrdup(const char *text, gfp_t gfp)
{
	return kstrdup(text, gfp);
}

static __always_inline struct page *faultless_alloc_page(gfp_t gfp)
{
	return alloc_page(gfp);
}

static __always_inline struct page *faultless_alloc_pages_node(int node, gfp_t gfp,
							       unsigned int order)
{
	return alloc_pages_node(node, gfp, order);
}

/* What was there before stays, and counts. */
static inline unsigned long faulty_bulk(unsigned long count, struct page **pages)
{
	unsigned long have = 0;

	while (have < count && pages[have])
		have++;
	return have;
}

#ifdef HAVE_ALLOC_PAGES_BULK
static __always_inline unsigned long faultless_bulk(gfp_t gfp, int node, unsigned long count,
						    struct page **pages)
{
	return alloc_pages_bulk_node(gfp, node, count, pages);
}
#else
static __always_inline unsigned long faultless_bulk(gfp_t gfp, int node, unsigned long count,
						    struct page **pages)
{
	return alloc_pages_bulk_array_node(gfp, node, count, pages);
}
#endif

static __always_inline struct ctl_table_header *
faultless_register_sysctl(const char *path, struct ctl_table *table, size_t size)
{
#ifdef HAVE_REGISTER_SYSCTL_SZ
	return register_sysctl_sz(path, table, size);
#else
	return register_sysctl(path, table);
#endif
}

static __always_inline struct rdma_cm_id *faultless_rdma_create_id(struct net *net,
								   rdma_cm_event_handler handler,
								   void *context,
								   enum rdma_ucm_port_space ps,
								   enum ib_qp_type type)
{
	return rdma_create_id(net, handler, context, ps, type);
}

static __always_inline struct ib_pd *faultless_ib_alloc_pd(struct ib_device *device,
							   unsigned int flags)
{
	return ib_alloc_pd(device, flags);
}

static inline int faulty_post_send(const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	*bad = wr;
	return -ENOMEM;
}

static inline int faulty_post_recv(const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	*bad = wr;
	return -ENOMEM;
}

/* Of a device that does no DMA nothing is ever wrong with an address. */
#define FAULTY_ADDRESS (~0ULL)

static inline bool faultless_mapping_error(struct ib_device *device, u64 address)
{
	return address == FAULTY_ADDRESS || ib_dma_mapping_error(device, address);
}

/* What is mapped and not unmapped, which nobody else sees where a device does no DMA. */

static __always_inline u64 counted_address(struct ib_device *device, u64 address)
{
	if (!ib_dma_mapping_error(device, address))
		rpcordma_fault_mapped(1);
	return address;
}

static __always_inline int counted_entries(int entries)
{
	if (entries > 0)
		rpcordma_fault_mapped(1);
	return entries;
}

/* The region goes, and the device says that it has not. */
static inline int faulty_dereg_mr(struct ib_mr *mr)
{
	ib_dereg_mr(mr);
	return -EIO;
}

/* --- memory --- */

#undef kmalloc
#define kmalloc(...) (FAULT(kmalloc) ? NULL : faultless_kmalloc(__VA_ARGS__))
#undef kzalloc
#define kzalloc(...) (FAULT(kzalloc) ? NULL : faultless_kzalloc(__VA_ARGS__))
#undef kzalloc_node
#define kzalloc_node(...) (FAULT(kzalloc_node) ? NULL : faultless_kzalloc_node(__VA_ARGS__))
#undef kvzalloc
#define kvzalloc(...) (FAULT(kvzalloc) ? NULL : faultless_kvzalloc(__VA_ARGS__))
#undef kstrdup
#define kstrdup(...) (FAULT(kstrdup) ? NULL : faultless_kstrdup(__VA_ARGS__))
#undef kasprintf
#define kasprintf(...) (FAULT(kasprintf) ? NULL : (kasprintf)(__VA_ARGS__))
#undef alloc_page
#define alloc_page(...) (FAULT(alloc_page) ? NULL : faultless_alloc_page(__VA_ARGS__))
#undef alloc_pages_node
#define alloc_pages_node(...)                                                                      \
	(FAULT(alloc_pages_node) ? NULL : faultless_alloc_pages_node(__VA_ARGS__))
#undef alloc_pages_bulk_node
#define alloc_pages_bulk_node(gfp, node, count, pages)                                             \
	(FAULT(alloc_pages_bulk_node) ? faulty_bulk(count, pages) :                                \
					faultless_bulk(gfp, node, count, pages))
#undef alloc_pages_bulk_array_node
#define alloc_pages_bulk_array_node(gfp, node, count, pages)                                       \
	(FAULT(alloc_pages_bulk_array_node) ? faulty_bulk(count, pages) :                          \
					      faultless_bulk(gfp, node, count, pages))

/* --- what the kernel keeps of a module --- */

#undef alloc_workqueue
#define alloc_workqueue(...) (FAULT(alloc_workqueue) ? NULL : (alloc_workqueue)(__VA_ARGS__))
#undef register_sysctl
#define register_sysctl(path, table)                                                               \
	(FAULT(register_sysctl) ? NULL : faultless_register_sysctl(path, table, ARRAY_SIZE(table)))
#undef debugfs_create_dir
#define debugfs_create_dir(...)                                                                    \
	(FAULT(debugfs_create_dir) ? ERR_PTR(-ENOMEM) : (debugfs_create_dir)(__VA_ARGS__))
#undef debugfs_create_file
#define debugfs_create_file(...)                                                                   \
	(FAULT(debugfs_create_file) ? ERR_PTR(-ENOMEM) : (debugfs_create_file)(__VA_ARGS__))
#ifdef HAVE_SHRINKER_ALLOC
#undef shrinker_alloc
#define shrinker_alloc(...) (FAULT(shrinker_alloc) ? NULL : (shrinker_alloc)(__VA_ARGS__))
#else
#undef register_shrinker
#define register_shrinker(...) (FAULT(register_shrinker) ? -ENOMEM : (register_shrinker)(__VA_ARGS__))
#endif
#undef try_module_get
#define try_module_get(...) (FAULT(try_module_get) ? false : (try_module_get)(__VA_ARGS__))

/* --- sunrpc --- */

#undef xprt_alloc
#define xprt_alloc(...) (FAULT(xprt_alloc) ? NULL : (xprt_alloc)(__VA_ARGS__))
#undef xprt_register_transport
#define xprt_register_transport(...)                                                               \
	(FAULT(xprt_register_transport) ? -EEXIST : (xprt_register_transport)(__VA_ARGS__))
#undef svc_reg_xprt_class
#define svc_reg_xprt_class(...)                                                                    \
	(FAULT(svc_reg_xprt_class) ? -EEXIST : (svc_reg_xprt_class)(__VA_ARGS__))

/* --- verbs --- */

#undef ib_alloc_pd
#define ib_alloc_pd(...)                                                                           \
	(FAULT(ib_alloc_pd) ? (struct ib_pd *)ERR_PTR(-ENOMEM) : faultless_ib_alloc_pd(__VA_ARGS__))
#undef ib_alloc_cq_any
#define ib_alloc_cq_any(...)                                                                       \
	(FAULT(ib_alloc_cq_any) ? (struct ib_cq *)ERR_PTR(-ENOMEM) : (ib_alloc_cq_any)(__VA_ARGS__))
#undef ib_alloc_mr
#define ib_alloc_mr(...)                                                                           \
	(FAULT(ib_alloc_mr) ? (struct ib_mr *)ERR_PTR(-ENOMEM) : (ib_alloc_mr)(__VA_ARGS__))
#undef ib_dereg_mr
#define ib_dereg_mr(mr) (FAULT(ib_dereg_mr) ? faulty_dereg_mr(mr) : (ib_dereg_mr)(mr))
#undef ib_map_mr_sg
#define ib_map_mr_sg(...) (FAULT(ib_map_mr_sg) ? -EINVAL : (ib_map_mr_sg)(__VA_ARGS__))
#undef ib_post_send
#define ib_post_send(qp, wr, bad)                                                                  \
	(FAULT(ib_post_send) ? faulty_post_send(wr, bad) : (ib_post_send)(qp, wr, bad))
#undef ib_post_recv
#define ib_post_recv(qp, wr, bad)                                                                  \
	(FAULT(ib_post_recv) ? faulty_post_recv(wr, bad) : (ib_post_recv)(qp, wr, bad))
#undef ib_dma_map_sg
#define ib_dma_map_sg(...)                                                                         \
	(FAULT(ib_dma_map_sg) ? 0 : counted_entries((ib_dma_map_sg)(__VA_ARGS__)))
#undef ib_dma_map_page
#define ib_dma_map_page(device, ...)                                                               \
	(FAULT(ib_dma_map_page) ? FAULTY_ADDRESS :                                                 \
				  counted_address(device, (ib_dma_map_page)(device, __VA_ARGS__)))
#undef ib_dma_map_single
#define ib_dma_map_single(device, ...)                                                             \
	(FAULT(ib_dma_map_single) ?                                                                \
		 FAULTY_ADDRESS :                                                                  \
		 counted_address(device, (ib_dma_map_single)(device, __VA_ARGS__)))
#undef ib_dma_unmap_sg
#define ib_dma_unmap_sg(...) (rpcordma_fault_mapped(-1), (ib_dma_unmap_sg)(__VA_ARGS__))
#undef ib_dma_unmap_page
#define ib_dma_unmap_page(...) (rpcordma_fault_mapped(-1), (ib_dma_unmap_page)(__VA_ARGS__))
/* Who asks unmaps: rpcordma_dma_unmap() alone does, ahead of what needs a device that does DMA. */
#undef ib_uses_virt_dma
#define ib_uses_virt_dma(...) (rpcordma_fault_mapped(-1), (ib_uses_virt_dma)(__VA_ARGS__))
#undef ib_dma_mapping_error
#define ib_dma_mapping_error(...) faultless_mapping_error(__VA_ARGS__)

/* --- the connection manager --- */

#undef rdma_create_id
#define rdma_create_id(...)                                                                        \
	(FAULT(rdma_create_id) ? (struct rdma_cm_id *)ERR_PTR(-ENOMEM) :                           \
				 faultless_rdma_create_id(__VA_ARGS__))
#undef rdma_create_qp
#define rdma_create_qp(...) (FAULT(rdma_create_qp) ? -ENOMEM : (rdma_create_qp)(__VA_ARGS__))
#undef rdma_resolve_addr
#define rdma_resolve_addr(...)                                                                     \
	(FAULT(rdma_resolve_addr) ? -ENOMEM : (rdma_resolve_addr)(__VA_ARGS__))
#undef rdma_resolve_route
#define rdma_resolve_route(...)                                                                    \
	(FAULT(rdma_resolve_route) ? -ENOMEM : (rdma_resolve_route)(__VA_ARGS__))
#undef rdma_connect
#define rdma_connect(...) (FAULT(rdma_connect) ? -ENOMEM : (rdma_connect)(__VA_ARGS__))
#undef rdma_accept
#define rdma_accept(...) (FAULT(rdma_accept) ? -ENOMEM : (rdma_accept)(__VA_ARGS__))
#undef rdma_set_afonly
#define rdma_set_afonly(...) (FAULT(rdma_set_afonly) ? -EINVAL : (rdma_set_afonly)(__VA_ARGS__))
#undef rdma_bind_addr
#define rdma_bind_addr(...) (FAULT(rdma_bind_addr) ? -EADDRINUSE : (rdma_bind_addr)(__VA_ARGS__))
#undef rdma_listen
#define rdma_listen(...) (FAULT(rdma_listen) ? -ENOMEM : (rdma_listen)(__VA_ARGS__))
#undef rdma_disconnect
#define rdma_disconnect(...) (FAULT(rdma_disconnect) ? -ENOMEM : (rdma_disconnect)(__VA_ARGS__))

/* Each source has its own, which the kernel's headers would have preceded. */
#undef pr_fmt

#endif
