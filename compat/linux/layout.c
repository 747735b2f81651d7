// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compile-time assertions that what the port mirrors matches the kernel: structs that are handed
 * over as they are, values of enums, and errno numbers, of which C++ has its own copy. No code.
 */

#include <linux/errno.h>
#include <linux/stddef.h>
#include <linux/sunrpc/xdr.h>
#include <linux/sunrpc/xprt.h>
#include <rdma/ib_verbs.h>

#include "compat/port/port.h"

#define SAME_SIZE(ours, theirs)                                                                    \
	static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs),        \
		      #ours " is not laid out as " #theirs)
#define SAME_MEMBER(ours, member, theirs, other)                                                   \
	static_assert(offsetof(ours, member) == offsetof(theirs, other) &&                         \
			      sizeof(((ours *)0)->member) == sizeof(((theirs *)0)->other),         \
		      #ours "." #member " is not where " #theirs "." #other " is")

/* Compared as numbers, since they belong to different enums. */
#define SAME_VALUE(ours, theirs)                                                                   \
	static_assert((long)(ours) == (long)(theirs), #ours " is not the kernel's " #theirs)

SAME_SIZE(rpcordma_u8, u8);
SAME_SIZE(rpcordma_u16, u16);
SAME_SIZE(rpcordma_u32, u32);
SAME_SIZE(rpcordma_u64, u64);
SAME_SIZE(rpcordma_size, size_t);

/* sunrpc */

SAME_SIZE(struct rpcordma_kvec, struct kvec);
SAME_MEMBER(struct rpcordma_kvec, base, struct kvec, iov_base);
SAME_MEMBER(struct rpcordma_kvec, length, struct kvec, iov_len);

SAME_SIZE(struct rpcordma_xdr_buf, struct xdr_buf);
SAME_MEMBER(struct rpcordma_xdr_buf, head, struct xdr_buf, head);
SAME_MEMBER(struct rpcordma_xdr_buf, tail, struct xdr_buf, tail);
SAME_MEMBER(struct rpcordma_xdr_buf, bvec, struct xdr_buf, bvec);
SAME_MEMBER(struct rpcordma_xdr_buf, pages, struct xdr_buf, pages);
SAME_MEMBER(struct rpcordma_xdr_buf, page_base, struct xdr_buf, page_base);
SAME_MEMBER(struct rpcordma_xdr_buf, page_length, struct xdr_buf, page_len);
SAME_MEMBER(struct rpcordma_xdr_buf, flags, struct xdr_buf, flags);
SAME_MEMBER(struct rpcordma_xdr_buf, buflen, struct xdr_buf, buflen);
SAME_MEMBER(struct rpcordma_xdr_buf, len, struct xdr_buf, len);

static_assert(RPCORDMA_XDRBUF_READ == XDRBUF_READ);
static_assert(RPCORDMA_XDRBUF_WRITE == XDRBUF_WRITE);
static_assert(RPCORDMA_XDRBUF_SPARSE_PAGES == XDRBUF_SPARSE_PAGES);

/* verbs */

SAME_SIZE(struct rpcordma_sge, struct ib_sge);
SAME_MEMBER(struct rpcordma_sge, addr, struct ib_sge, addr);
SAME_MEMBER(struct rpcordma_sge, length, struct ib_sge, length);
SAME_MEMBER(struct rpcordma_sge, lkey, struct ib_sge, lkey);

SAME_SIZE(struct rpcordma_cqe, struct ib_cqe);
SAME_MEMBER(struct rpcordma_cqe, done, struct ib_cqe, done);

SAME_SIZE(struct rpcordma_send_wr, struct ib_send_wr);
SAME_MEMBER(struct rpcordma_send_wr, next, struct ib_send_wr, next);
SAME_MEMBER(struct rpcordma_send_wr, cqe, struct ib_send_wr, wr_cqe);
SAME_MEMBER(struct rpcordma_send_wr, sg_list, struct ib_send_wr, sg_list);
SAME_MEMBER(struct rpcordma_send_wr, num_sge, struct ib_send_wr, num_sge);
SAME_MEMBER(struct rpcordma_send_wr, opcode, struct ib_send_wr, opcode);
SAME_MEMBER(struct rpcordma_send_wr, send_flags, struct ib_send_wr, send_flags);
SAME_MEMBER(struct rpcordma_send_wr, invalidate_rkey, struct ib_send_wr, ex.invalidate_rkey);

SAME_SIZE(struct rpcordma_rdma_wr, struct ib_rdma_wr);
SAME_MEMBER(struct rpcordma_rdma_wr, wr, struct ib_rdma_wr, wr);
SAME_MEMBER(struct rpcordma_rdma_wr, remote_addr, struct ib_rdma_wr, remote_addr);
SAME_MEMBER(struct rpcordma_rdma_wr, rkey, struct ib_rdma_wr, rkey);

SAME_SIZE(struct rpcordma_reg_wr, struct ib_reg_wr);
SAME_MEMBER(struct rpcordma_reg_wr, wr, struct ib_reg_wr, wr);
SAME_MEMBER(struct rpcordma_reg_wr, mr, struct ib_reg_wr, mr);
SAME_MEMBER(struct rpcordma_reg_wr, key, struct ib_reg_wr, key);
SAME_MEMBER(struct rpcordma_reg_wr, access, struct ib_reg_wr, access);

SAME_SIZE(struct rpcordma_recv_wr, struct ib_recv_wr);
SAME_MEMBER(struct rpcordma_recv_wr, next, struct ib_recv_wr, next);
SAME_MEMBER(struct rpcordma_recv_wr, cqe, struct ib_recv_wr, wr_cqe);
SAME_MEMBER(struct rpcordma_recv_wr, sg_list, struct ib_recv_wr, sg_list);
SAME_MEMBER(struct rpcordma_recv_wr, num_sge, struct ib_recv_wr, num_sge);

SAME_VALUE(RPCORDMA_WR_RDMA_WRITE, IB_WR_RDMA_WRITE);
SAME_VALUE(RPCORDMA_WR_SEND, IB_WR_SEND);
SAME_VALUE(RPCORDMA_WR_RDMA_READ, IB_WR_RDMA_READ);
SAME_VALUE(RPCORDMA_WR_LOCAL_INV, IB_WR_LOCAL_INV);
SAME_VALUE(RPCORDMA_WR_SEND_WITH_INV, IB_WR_SEND_WITH_INV);
SAME_VALUE(RPCORDMA_WR_RDMA_READ_WITH_INV, IB_WR_RDMA_READ_WITH_INV);
SAME_VALUE(RPCORDMA_WR_REG_MR, IB_WR_REG_MR);
SAME_VALUE(RPCORDMA_SEND_SIGNALED, IB_SEND_SIGNALED);
SAME_VALUE(RPCORDMA_ACCESS_LOCAL_WRITE, IB_ACCESS_LOCAL_WRITE);
SAME_VALUE(RPCORDMA_ACCESS_REMOTE_WRITE, IB_ACCESS_REMOTE_WRITE);
SAME_VALUE(RPCORDMA_ACCESS_REMOTE_READ, IB_ACCESS_REMOTE_READ);
SAME_VALUE(RPCORDMA_WC_SUCCESS, IB_WC_SUCCESS);
SAME_VALUE(RPCORDMA_WC_FLUSHED, IB_WC_WR_FLUSH_ERR);
SAME_VALUE(RPCORDMA_WC_REMOTE_ACCESS, IB_WC_REM_ACCESS_ERR);
SAME_VALUE(RPCORDMA_WC_WITH_INVALIDATE, IB_WC_WITH_INVALIDATE);

/* A completion is handed over as a pointer to the kernel's, which goes on behind ours. */
SAME_MEMBER(struct rpcordma_completion, cqe, struct ib_wc, wr_cqe);
SAME_MEMBER(struct rpcordma_completion, status, struct ib_wc, status);
SAME_MEMBER(struct rpcordma_completion, byte_len, struct ib_wc, byte_len);
SAME_MEMBER(struct rpcordma_completion, invalidated_rkey, struct ib_wc, ex.invalidate_rkey);
SAME_MEMBER(struct rpcordma_completion, flags, struct ib_wc, wc_flags);
static_assert(sizeof(struct rpcordma_completion) <= sizeof(struct ib_wc));

/* The errno numbers of Error in module/base/result.hh, in its order. */

static_assert(EIO == 5);
static_assert(EAGAIN == 11);
static_assert(ENOMEM == 12);
static_assert(ENODEV == 19);
static_assert(EINVAL == 22);
static_assert(ENOSPC == 28);
static_assert(EPROTO == 71);
static_assert(EBADMSG == 74);
static_assert(EMSGSIZE == 90);
static_assert(ENOPROTOOPT == 92);
static_assert(EPROTONOSUPPORT == 93);
static_assert(EOPNOTSUPP == 95);
static_assert(ENETUNREACH == 101);
static_assert(ENOBUFS == 105);
static_assert(ENOTCONN == 107);
static_assert(ETIMEDOUT == 110);
static_assert(ECONNREFUSED == 111);
static_assert(EHOSTUNREACH == 113);

/* Other values that module/client/client.hh hands to sunrpc. */

static_assert(EBADSLT == 57);
