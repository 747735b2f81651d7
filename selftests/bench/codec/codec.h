/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the benchmark and the two codecs that it compares know in common: a transport header in plain C,
 * which belongs to neither, and the same few functions for each.
 *
 * The codecs are compiled apart from the benchmark (ours with the module's flags, rpcgen's as C), so
 * that each call is a call, and nothing of either is worked out at compile time.
 */
#ifndef RPCORDMA_BENCH_CODEC_H
#define RPCORDMA_BENCH_CODEC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct segment {
	uint32_t handle;
	uint32_t length;
	uint64_t offset;
};

struct read_segment {
	uint32_t position;
	struct segment target;
};

struct chunk {
	const struct segment *segments;
	uint32_t count;
};

/* Of a header with proc 4 (RDMA_ERROR) the lists are not looked at; of another, error is not. */
struct header {
	const char *name;
	uint32_t xid;
	uint32_t credits;
	uint32_t proc;
	const struct read_segment *reads;
	uint32_t nr_reads;
	const struct chunk *writes;
	uint32_t nr_writes;
	const struct chunk *reply; /* NULL: none */
	uint32_t error;
	uint32_t low;
	uint32_t high;
};

/* The longest header among the shapes, and the fields that it has, with room to spare. */
#define ROOM	   1024
#define MAX_FIELDS 256

/* Encode @header, in @room of ROOM bytes; returns its length, or 0. */
size_t ours_encode(const struct header *header, uint8_t *room);
/* rpcgen's XDR code wants its own structures, which are made beforehand and not timed. */
void *rpcgen_prepare(const struct header *header);
size_t rpcgen_encode(void *prepared, uint8_t *room);

/*
 * Decode a header, and read every field of it once, as a user does. Returns a sum over all fields, or 0
 * where it is refused. With rpcgen it is decoded into fresh memory, as it was made to be used, which is
 * given back; rpcgen_decode_again() decodes it into the memory that the same shape left there.
 */
uint64_t ours_decode(const uint8_t *bytes, size_t length);
uint64_t rpcgen_decode(const uint8_t *bytes, size_t length);
uint64_t rpcgen_decode_again(const uint8_t *bytes, size_t length);
void rpcgen_forget(void);

/* The same, not timed: every field goes to @fields, of MAX_FIELDS; returns how many, 0 where refused. */
size_t ours_fields(const uint8_t *bytes, size_t length, uint64_t *fields);
size_t rpcgen_fields(const uint8_t *bytes, size_t length, uint64_t *fields);

/* reduce() of an RPC's shape, and plan_answer() of a reply. Return the header's length, or 0. */
struct rpc_shape {
	const char *name;
	uint32_t send_head, send_pages, send_tail, send_base;
	uint32_t receive_head, receive_pages, receive_tail, receive_base;
	int send_ddp, receive_ddp;
	uint32_t mr_pages; /* of one memory region */
};
uint32_t ours_reduce(const struct rpc_shape *shape);

struct answer_shape {
	const char *name;
	const struct header *call; /* whose chunks the client offers */
	uint32_t length;	   /* of the reply */
	uint32_t result_offset;
	uint32_t result_length; /* 0: no result that may be placed */
};
/* Decodes the call, once and untimed; the answer is planned by ours_plan_answer(). */
void *ours_prepare_answer(const struct answer_shape *shape, const uint8_t *call, size_t length);
uint32_t ours_plan_answer(const struct answer_shape *shape, void *prepared);

#ifdef __cplusplus
}
#endif

#endif
