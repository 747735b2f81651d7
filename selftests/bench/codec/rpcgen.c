// SPDX-License-Identifier: GPL-2.0-only
/*
 * rpcgen's code for the RFC's XDR behind codec.h: xdrmem streams of libtirpc, as a user-space program
 * would use it.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_v1.h"
#include "selftests/bench/codec/codec.h"

#define VERSION 1

static void *make(size_t size)
{
	void *made = calloc(1, size);

	if (!made)
		abort();
	return made;
}

static struct xdr_rdma_segment theirs(const struct segment *from)
{
	return (struct xdr_rdma_segment){ from->handle, from->length, from->offset };
}

static struct xdr_write_chunk write_chunk(const struct chunk *from)
{
	struct xdr_write_chunk to = { { 0 } };

	to.target.target_len = from->count;
	to.target.target_val = make((from->count + 1) * sizeof(*to.target.target_val));
	for (uint32_t i = 0; i < from->count; i++)
		to.target.target_val[i] = theirs(&from->segments[i]);
	return to;
}

void *rpcgen_prepare(const struct header *header)
{
	struct rdma_msg *msg = make(sizeof(*msg));
	struct rpc_rdma_header *lists = &msg->rdma_body.rdma_body_u.rdma_msg;
	struct xdr_read_list **read = &lists->rdma_reads;
	struct xdr_write_list **write = &lists->rdma_writes;

	msg->rdma_xid = header->xid;
	msg->rdma_vers = VERSION;
	msg->rdma_credit = header->credits;
	msg->rdma_body.proc = header->proc;
	if (header->proc == RDMA_ERROR) {
		struct rpc_rdma_error *error = &msg->rdma_body.rdma_body_u.rdma_error;

		error->err = header->error;
		error->rpc_rdma_error_u.range.rdma_vers_low = header->low;
		error->rpc_rdma_error_u.range.rdma_vers_high = header->high;
		return msg;
	}
	for (uint32_t i = 0; i < header->nr_reads; i++, read = &(*read)->next) {
		*read = make(sizeof(**read));
		(*read)->entry.position = header->reads[i].position;
		(*read)->entry.target = theirs(&header->reads[i].target);
	}
	for (uint32_t i = 0; i < header->nr_writes; i++, write = &(*write)->next) {
		*write = make(sizeof(**write));
		(*write)->entry = write_chunk(&header->writes[i]);
	}
	if (header->reply) {
		lists->rdma_reply = make(sizeof(*lists->rdma_reply));
		*lists->rdma_reply = write_chunk(header->reply);
	}
	return msg;
}

size_t rpcgen_encode(void *prepared, uint8_t *room)
{
	XDR xdrs;

	xdrmem_create(&xdrs, (char *)room, ROOM, XDR_ENCODE);
	return xdr_rdma_msg(&xdrs, prepared) ? xdr_getpos(&xdrs) : 0;
}

typedef void (*see_t)(void *context, uint64_t field);

static inline void see_chunk(const struct xdr_write_chunk *chunk, see_t see, void *context)
{
	see(context, chunk->target.target_len);
	for (uint32_t i = 0; i < chunk->target.target_len; i++) {
		see(context, chunk->target.target_val[i].handle);
		see(context, chunk->target.target_val[i].length);
		see(context, chunk->target.target_val[i].offset);
	}
}

/* Calls @see for each field, in ours.cc's order. Inline, so that @see is known where it is called. */
static inline __attribute__((always_inline)) void see_all(const struct rdma_msg *msg, see_t see,
							    void *context)
{
	const struct rpc_rdma_header *lists = &msg->rdma_body.rdma_body_u.rdma_msg;
	const struct rpc_rdma_error *error = &msg->rdma_body.rdma_body_u.rdma_error;

	see(context, msg->rdma_xid);
	see(context, msg->rdma_credit);
	see(context, msg->rdma_body.proc);
	if (msg->rdma_body.proc == RDMA_ERROR) {
		see(context, error->err);
		if (error->err == ERR_VERS) {
			see(context, error->rpc_rdma_error_u.range.rdma_vers_low);
			see(context, error->rpc_rdma_error_u.range.rdma_vers_high);
		}
		return;
	}
	for (const struct xdr_read_list *it = lists->rdma_reads; it; it = it->next) {
		see(context, it->entry.position);
		see(context, it->entry.target.handle);
		see(context, it->entry.target.length);
		see(context, it->entry.target.offset);
	}
	for (const struct xdr_write_list *it = lists->rdma_writes; it; it = it->next)
		see_chunk(&it->entry, see, context);
	if (lists->rdma_reply)
		see_chunk(lists->rdma_reply, see, context);
}

static void add(void *sum, uint64_t field)
{
	*(uint64_t *)sum += field;
}

struct list {
	uint64_t *fields;
	size_t n;
};

static void append(void *context, uint64_t field)
{
	struct list *list = context;

	if (list->n < MAX_FIELDS)
		list->fields[list->n++] = field;
}

/* The lists of RDMA_MSG and RDMA_NOMSG are one structure by two names; the others have none. */
static bool decode(const uint8_t *bytes, size_t length, struct rdma_msg *msg)
{
	XDR xdrs;

	xdrmem_create(&xdrs, (char *)bytes, length, XDR_DECODE);
	return xdr_rdma_msg(&xdrs, msg) && msg->rdma_vers == VERSION;
}

uint64_t rpcgen_decode(const uint8_t *bytes, size_t length)
{
	struct rdma_msg msg;
	uint64_t sum = 0;

	memset(&msg, 0, sizeof(msg));
	if (decode(bytes, length, &msg))
		see_all(&msg, add, &sum);
	xdr_free((xdrproc_t)xdr_rdma_msg, &msg);
	return sum;
}

static struct rdma_msg kept;

uint64_t rpcgen_decode_again(const uint8_t *bytes, size_t length)
{
	uint64_t sum = 0;

	if (decode(bytes, length, &kept))
		see_all(&kept, add, &sum);
	return sum;
}

void rpcgen_forget(void)
{
	xdr_free((xdrproc_t)xdr_rdma_msg, &kept);
	memset(&kept, 0, sizeof(kept));
}

size_t rpcgen_fields(const uint8_t *bytes, size_t length, uint64_t *fields)
{
	struct list list = { fields, 0 };
	struct rdma_msg msg;

	memset(&msg, 0, sizeof(msg));
	if (decode(bytes, length, &msg))
		see_all(&msg, append, &list);
	xdr_free((xdrproc_t)xdr_rdma_msg, &msg);
	return list.n;
}
