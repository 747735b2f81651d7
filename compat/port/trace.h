/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Trace points: the events of system rpcordma, which Documentation/reference.rst describes. Events
 * that have the same fields are a class: a list here, a function, and a bit in
 * rpcordma_trace_enabled, which is set while somebody listens to an event of the class. The core
 * tests the bit before it calls, so that a silent trace point costs one load. Any context.
 *
 * Whatever makes an RPC or a connection fail, at either end, has an event of its own: in
 * RPCORDMA_FAILURES() what an RPC or a message fails of, in RPCORDMA_LOSSES() what a connection
 * fails of. In these lists a name is followed by what happened; where a figure belongs to it, by
 * that as well.
 */
#ifndef RPCORDMA_PORT_TRACE_H
#define RPCORDMA_PORT_TRACE_H

#include "compat/port/base.h"

RPCORDMA_BEGIN

struct rpcordma_endpoint;
struct rpcordma_mapping;
struct rpcordma_region;

/* Classes of one event, named as that. */
#define RPCORDMA_SINGLE_EVENTS(X)								\
	X(connection, "a step of its life")							\
	X(version, "it is known which one a connection has, and why")				\
	X(property, "transport properties are sent, or come")					\
	X(group, "a transmission of a message of several is sent, or comes")			\
	X(marshal, "a call's message is made")							\
	X(post, "a chain was posted")								\
	X(receive_posted, "a Receive of a chain")						\
	X(completion, "a completion came")							\
	X(region, "a region of memory changes hands")						\
	X(credits, "the credits in force change")						\
	X(reply, "a message came")								\
	X(decode, "a call's header was read")							\
	X(encode, "a reply's message is made")

/* An RPC or a message fails. */
#define RPCORDMA_FAILURES(X)									\
	/* Sending a call, or a reply to a backward call */					\
	X(reduce_failed, "a message that cannot be sent in any way: errno")			\
	X(marshal_failed, "a message could not be made: errno")					\
	X(buffers_missing, "no memory for call and reply: errno")				\
	X(pages_missing, "no memory for a reply's sparse pages: errno")				\
	X(regions_missing, "a call waits for regions: how many it needs")			\
	X(region_failed, "a region could not be made: errno")					\
	X(region_map_failed, "memory could not be mapped for a region: errno")			\
	X(scratch_map_failed, "scratch memory could not be mapped: errno")			\
	X(send_buffer_failed, "no memory for a send buffer: errno")				\
	X(send_map_failed, "a send buffer could not be DMA-mapped: errno")			\
	X(send_queue_full, "a sender waits for room in the send queue: work requests")		\
	X(post_failed, "a message could not be posted: errno")					\
	X(invalidate_post_failed, "LOCAL_INVs could not be posted: errno")			\
	X(scratch_post_failed, "REG_MRs of scratch memory could not be posted: errno")		\
	X(retransmission, "a call is sent again on its connection")				\
	X(call_still_out, "a call is sent while the peer still has it")				\
	X(reply_not_expected, "a call was sent that has no reply")				\
	/* Receives */										\
	X(receive_alloc_failed, "no memory for a Receive: errno")				\
	X(receive_map_failed, "a Receive's buffer could not be DMA-mapped: errno")		\
	X(receive_post_failed, "Receives could not be posted: errno")				\
	X(receives_missing, "fewer Receives are posted than were promised: the promise")	\
	/* Messages from the peer */								\
	X(message_short, "it ends within its header: errno")					\
	X(message_version, "a version that is not spoken here: errno")				\
	X(message_undecodable, "a header that cannot be understood: errno")			\
	X(message_incomplete, "its other transmissions never came")				\
	X(grant_zero, "the peer grants no credit")						\
	X(reply_unmatched, "nobody waits for the reply")					\
	X(reply_unexpected, "the call owes no reply: its state")				\
	X(reply_contradicts, "the reply is not what its call asked for: errno")			\
	X(segments_missing, "a chunk of the reply has fewer segments than were offered")	\
	X(err_vers_received, "RDMA_ERROR, ERR_VERS: the highest version the peer speaks")	\
	X(err_chunk_received, "RDMA_ERROR, ERR_CHUNK or another: its code")			\
	X(repterr_received, "REPTERR, or INVAL_OPTION: what is wrong with a transmission")	\
	X(invalidate_foreign, "the peer invalidated an R_key that is not the call's: R_key")	\
	/* Backward calls, at the client */							\
	X(backward_setup_failed, "no memory for the backchannel: errno")			\
	X(backward_call_unserved, "nobody serves a backward call")				\
	X(backward_call_chunks, "a backward call has chunks, and is refused")			\
	X(backward_refusal_lost, "no means to say so: what is wrong with a transmission, or 0")	\
	X(backward_reply_long, "a reply that the peer could not receive: bytes")		\
	X(backward_reply_lost, "the connection that the call came on is gone")			\
	/* Calls, at the server */								\
	X(call_segments, "chunks of too many segments: segments")				\
	X(call_pieces, "Read chunks of a call in several Receives: segments")			\
	X(call_read_list, "Read chunks that make no call: errno")				\
	X(call_cut_short, "cut short, or with a chunk in the RPC header: position")		\
	X(call_too_long, "too many pages: segments")						\
	X(call_failed_before, "its chunks broke a connection before")				\
	X(chunk_refused, "the client's device refused a chunk: status")				\
	X(err_vers_sent, "the call gets ERR_VERS")						\
	X(err_chunk_sent, "the call gets ERR_CHUNK")						\
	X(repterr_sent, "a transmission gets REPTERR: what is wrong with it")			\
	X(refusal_failed, "no error message could be made: errno")				\
	X(transfer_missing, "no memory for RDMA Reads or Writes: errno")			\
	X(sink_map_failed, "a sink could not be DMA-mapped: errno")				\
	X(read_chain_long, "RDMA Reads that do not make a chain: errno")			\
	X(read_post_failed, "RDMA Reads could not be posted: errno")				\
	X(gather_failed, "no memory for a call in several Receives: errno")			\
	/* Replies, at the server */								\
	X(reply_no_room, "the reply fits in no chunk, or in too few segments: bytes")		\
	X(reply_failed, "the reply could not be made: errno")					\
	X(write_map_failed, "a reply could not be DMA-mapped: errno")				\
	X(write_chain_long, "RDMA Writes that do not make a chain: work requests")		\
	/* Backward calls, at the server */							\
	X(backward_call_long, "a call that the client could not receive: bytes")		\
	X(backward_receive_missing, "no Receive for a backward call's reply: errno")		\
	X(backward_call_missing, "no memory for a backward call: errno")			\
	X(backward_error_received, "RDMA_ERROR for a backward call")				\
	X(backward_reply_unmatched, "nobody waits for the reply")				\
	X(backward_reply_chunks, "the reply has chunks, or is too long")

/* A connection cannot be made, or comes to its end. */
#define RPCORDMA_LOSSES(X)									\
	/* Making one */									\
	X(connect_failed, "a client's attempt failed: errno")					\
	X(accept_failed, "a server's attempt failed: errno")					\
	X(connection_alloc_failed, "no memory for a connection: errno")				\
	X(endpoint_failed, "no identifier of the rdma_cm: errno")				\
	X(resolve_failed, "no address or no route: errno")					\
	X(device_registration, "the device cannot register enough memory at once: pages")	\
	X(device_queues, "the device's queues are too short: work requests")			\
	X(qp_failed, "no protection domain, completion queue or queue pair: errno")		\
	X(first_receives_failed, "the first Receives could not be posted: Receives")		\
	X(first_regions_failed, "not one region could be made: errno")				\
	X(handshake_failed, "the rdma_cm did not connect, or accept: errno")			\
	X(client_serves_no_reads, "the client's responder resources are zero")			\
	/* The rdma_cm and the device end it */							\
	X(disconnected, "by the peer, or by us")						\
	X(address_change, "the address is on another device, or port")				\
	X(device_removal, "the device goes away")						\
	X(qp_fatal, "the queue pair reports a fatal error")					\
	/* A work request failed */								\
	X(send_failed, "a Send: status")							\
	X(receive_failed, "a Receive: status")							\
	X(register_failed, "a REG_MR: status")							\
	X(invalidate_failed, "a LOCAL_INV: status")						\
	X(read_failed, "an RDMA Read: status")							\
	X(chain_failed, "what precedes the last of a server's chain: status")			\
	/* We end it */										\
	X(rpc_failed, "an RPC failed, which has its event, and this ends the connection: value")\
	X(backward_overrun, "more backward calls than credits")					\
	X(backward_oversized, "a backward call longer than its buffer: bytes")			\
	X(replies_overdue, "cancelled calls were not answered: for how many ms")			\
	X(replies_unmatched, "too many replies that nobody waits for: how many")			\
	X(invalidations_overdue, "LOCAL_INVs do not leave the send queue")			\
	X(receive_not_posted, "Receives could not be posted, so messages may find none: how many")	\
	X(send_queue_stalled, "a reply waited too long for room in the send queue: work requests")

/* Scattered memory is DMA-mapped for a server's RDMA Reads and Writes, or was. */
#define RPCORDMA_BULK_EVENTS(X)									\
	X(sink_mapped, "for Reads: SGEs")							\
	X(sink_unmapped, "")									\
	X(reply_mapped, "for Writes: SGEs")							\
	X(reply_unmapped, "")

#define RPCORDMA_FAILURE_ENUMERATOR(name, ...) RPCORDMA_FAILURE_##name,
#define RPCORDMA_LOSS_ENUMERATOR(name, ...) RPCORDMA_LOSS_##name,
#define RPCORDMA_BULK_ENUMERATOR(name, ...) RPCORDMA_BULK_##name,

enum rpcordma_failure { RPCORDMA_FAILURES(RPCORDMA_FAILURE_ENUMERATOR) RPCORDMA_FAILURE_COUNT };
enum rpcordma_loss { RPCORDMA_LOSSES(RPCORDMA_LOSS_ENUMERATOR) RPCORDMA_LOSS_COUNT };
enum rpcordma_bulk_event { RPCORDMA_BULK_EVENTS(RPCORDMA_BULK_ENUMERATOR) RPCORDMA_BULK_COUNT };

enum rpcordma_trace {
	RPCORDMA_TRACE_CONNECTION = 1 << 0,
	RPCORDMA_TRACE_MARSHAL = 1 << 1,
	RPCORDMA_TRACE_POST = 1 << 2,
	RPCORDMA_TRACE_RECEIVE_POSTED = 1 << 3,
	RPCORDMA_TRACE_COMPLETION = 1 << 4,
	RPCORDMA_TRACE_REGION = 1 << 5,
	RPCORDMA_TRACE_CREDITS = 1 << 6,
	RPCORDMA_TRACE_REPLY = 1 << 7,
	RPCORDMA_TRACE_DECODE = 1 << 8,
	RPCORDMA_TRACE_ENCODE = 1 << 9,
	RPCORDMA_TRACE_FAILURE = 1 << 10,
	RPCORDMA_TRACE_LOSS = 1 << 11,
	RPCORDMA_TRACE_BULK = 1 << 12,
	RPCORDMA_TRACE_VERSION = 1 << 13,
	RPCORDMA_TRACE_PROPERTY = 1 << 14,
	RPCORDMA_TRACE_GROUP = 1 << 15,
};
extern unsigned int rpcordma_trace_enabled;

/* Whose completions they are: tells one completion queue from the other. */
enum rpcordma_trace_queue { RPCORDMA_TRACE_SEND_QUEUE, RPCORDMA_TRACE_RECEIVE_QUEUE };

/** @what: a word for the event, static. @value: its status or figure. */
void rpcordma_trace_connection(const struct rpcordma_peer *peer, const char *what, int value);
/**
 * A connection is of @version. @role: "client" or "server". @why: of a client "answered",
 * "INVAL_PROC", "ERR_VERS", "no answer", "avoided", "not asked", "unmarked" or "off"; of a server
 * "CONNPROP", "first message", "unmarked" or "off". Both static.
 */
void rpcordma_trace_version(const struct rpcordma_peer *peer, const char *role,
			    rpcordma_u32 version, const char *why);

/** A message with properties: its header, and what it says. */
struct rpcordma_trace_properties {
	rpcordma_u32 xid;
	rpcordma_u32 credits;
	rpcordma_u32 proc; /* 6 CONNPROP, 7 REQPROP, 8 RESPROP, 9 UPDPROP */
	rpcordma_u32 ids; /* of known properties: bit 0 is id 1 */
	rpcordma_u32 fixed; /* of these, those that will not change; CONNPROP */
	/* By default where it does not say. */
	rpcordma_u32 receive_size;
	rpcordma_u32 pages; /* DDP segments behind a Receive's head */
};
/** @what: "sent"; or what came of them: "applied", "rejected", "ignored" or "malformed". */
void rpcordma_trace_property(const struct rpcordma_peer *peer, const char *what,
			     const struct rpcordma_trace_properties *said);

/** A transmission of a message that may have several. */
struct rpcordma_trace_transmission {
	rpcordma_u32 xid;
	rpcordma_u32 option; /* 1 XMTREQ, 2 XMTRESP, 3 XMTCONT */
	rpcordma_u32 number; /* of those of its message, from 0 */
	rpcordma_u32 count; /* how many its message has; 0: an XMTCONT, which does not say */
	rpcordma_u32 stream_length; /* bytes of the RPC message in it */
};
/**
 * @what: "sent" or "received", of each; with what a transmission has brought about, "whole": it was
 * the last of its message; or "dropped": its message, or one that it broke off, is of no use.
 */
void rpcordma_trace_group(const struct rpcordma_peer *peer, const char *what,
			  const struct rpcordma_trace_transmission *transmission);
/** A call was reduced: the modes as chunk/reduce.hh numbers them. */
void rpcordma_trace_marshal(const struct rpcordma_peer *peer, rpcordma_u32 xid, rpcordma_u32 credits,
			    rpcordma_u32 proc, rpcordma_u32 header_length,
			    rpcordma_u32 inline_length, rpcordma_u32 send_mode,
			    rpcordma_u32 receive_mode);
/**
 * A chain was posted: @what is "send", "receive", "invalidate", "scratch", "read", "write" or "reply". A call may have several
 * with "read", one after the other, and several with "write" before its "reply".
 * @entry  what its end completes to, as the completion has it: an address, of which the event has a
 *         digest
 */
void rpcordma_trace_post(const struct rpcordma_endpoint *endpoint, enum rpcordma_trace_queue queue,
			 const char *what, rpcordma_u32 xid, rpcordma_u32 work_requests,
			 rpcordma_bool signaled, int result, const void *entry);
/** One Receive of a chain was posted. @entry: as above. */
void rpcordma_trace_receive_posted(const struct rpcordma_endpoint *endpoint, const void *entry);
/** A completion came: @what is "send", "receive", "invalidate", "register", "read", "write" or "chain". */
void rpcordma_trace_completion(const struct rpcordma_endpoint *endpoint,
			       enum rpcordma_trace_queue queue, const char *what, int status,
			       rpcordma_u32 byte_len, rpcordma_u32 invalidated_rkey,
			       const void *entry);
/** @what: "map", "unmap", "local-inv", "remote-inv", "cancel", "scratch", "discard" or "drain". */
void rpcordma_trace_region(const struct rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			   const struct rpcordma_region *region,
			   const struct rpcordma_mapping *mapping);
void rpcordma_trace_credits(const struct rpcordma_peer *peer, rpcordma_u32 from, rpcordma_u32 to);
/** A message came. @what: "reply", "reply to a cancelled call", "backward call" or "error". */
void rpcordma_trace_reply(const struct rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			  rpcordma_u32 credits, rpcordma_u32 proc, int result);

/** What a call's header says: segments of its chunks, and bytes. */
struct rpcordma_trace_call {
	rpcordma_u32 xid;
	rpcordma_u32 credits;
	rpcordma_u32 proc;
	rpcordma_u32 header_length;
	rpcordma_u32 inline_length;
	rpcordma_u32 read_segments;
	rpcordma_u32 read_length;
	rpcordma_u32 write_chunks;
	rpcordma_u32 write_segments;
	rpcordma_u32 reply_segments;
};
void rpcordma_trace_decode(const struct rpcordma_peer *peer, const struct rpcordma_trace_call *call);

/** How a reply goes: what is inline, in Write chunks and in the Reply chunk, in bytes. */
struct rpcordma_trace_answer {
	rpcordma_u32 xid;
	rpcordma_u32 credits;
	rpcordma_u32 proc;
	rpcordma_u32 header_length;
	rpcordma_u32 inline_length;
	rpcordma_u32 write_length;
	rpcordma_u32 reply_length;
	rpcordma_u32 segments; /* returned, of all chunks */
	rpcordma_u32 writes; /* RDMA Writes */
	rpcordma_u32 transmissions;
	rpcordma_u32 invalidate; /* R_key; 0: none */
};
void rpcordma_trace_encode(const struct rpcordma_peer *peer,
			   const struct rpcordma_trace_answer *answer);

/** @xid: 0 where there is none. */
void rpcordma_trace_failure(enum rpcordma_failure which, const struct rpcordma_peer *peer,
			    rpcordma_u32 xid, int value);
void rpcordma_trace_loss(enum rpcordma_loss which, const struct rpcordma_peer *peer, int value);
/** @pieces of memory, of @length bytes together, are mapped: ahead of what unmaps them, behind what maps them. */
void rpcordma_trace_bulk(enum rpcordma_bulk_event which, const struct rpcordma_peer *peer,
			 rpcordma_u32 xid, rpcordma_u32 pieces, rpcordma_u32 length);

RPCORDMA_END

#endif
