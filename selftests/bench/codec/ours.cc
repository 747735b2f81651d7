// SPDX-License-Identifier: GPL-2.0-only
/*
 * Our codec, reduction and answer planning behind codec.h. One unit, as the module is one, compiled
 * with the module's flags as far as a program can be (codec.mk).
 */
#include "selftests/bench/codec/codec.h"

#include "module/chunk/answer.cc"
#include "module/chunk/reduce.cc"
#include "module/chunk/segments.cc"
#include "xdr/lists.cc"
#include "xdr/v1.cc"

using namespace rpcordma;

namespace {

/** Inline thresholds as the module announces them. */
constexpr chunk::Thresholds kThresholds = {4096, 4096};

/** rdma_err (RFC 8166 4.5), as struct header has it. */
constexpr u32 kErrVers = 1, kErrChunk = 2;

xdr::Segment ours(const segment &from)
{
	return {Rkey(from.handle), from.length, from.offset};
}

/** Calls @see for each field of the header in @message. Returns false when it is refused. Part of its caller. */
template <typename See> [[gnu::always_inline]] inline bool decode(Bytes message, See &&see)
{
	xdr::Message header;
	if (v1::decode(message, header) != Error::none)
		return false;
	auto segment = [&](const xdr::Segment &it) {
		see(it.handle.get());
		see(it.length);
		see(it.offset);
	};

	see(header.xid.get());
	see(header.credits.get());
	see(static_cast<u32>(header.kind));
	if (header.kind == xdr::Kind::error) {
		const bool versions = header.error.code == xdr::ErrorCode::version;
		see(versions ? kErrVers : kErrChunk);
		if (versions) {
			see(header.error.low);
			see(header.error.high);
		}
		return true;
	}
	for (xdr::ReadSegment it : header.reads) {
		see(it.position.get());
		segment(it.target);
	}
	for (xdr::WriteChunk chunk : header.writes) {
		see(chunk.count());
		for (xdr::Segment it : chunk)
			segment(it);
	}
	if (header.reply.present()) {
		see(header.reply.count());
		for (xdr::Segment it : header.reply)
			segment(it);
	}
	return true;
}

} // namespace

size_t ours_encode(const header *header, uint8_t *room)
{
	MutableBytes bytes(room, ROOM);

	if (header->proc == static_cast<u32>(v1::Proc::error)) {
		xdr::FixedHeader request;
		xdr::ErrorBody error;

		request.xid = Xid(header->xid);
		request.vers = v1::version;
		if (header->error == kErrVers)
			error = {xdr::ErrorCode::version, header->low, header->high};
		auto length = v1::encode_error(bytes, request, Credits(header->credits), error);
		return length ? length.value() : 0;
	}

	v1::Encoder encoder(bytes, Xid(header->xid), Credits(header->credits),
			    static_cast<xdr::Kind>(header->proc));
	for (u32 i = 0; i < header->nr_reads; i++)
		encoder.read_segment(Position(header->reads[i].position),
				     ours(header->reads[i].target));
	for (u32 i = 0; i < header->nr_writes; i++) {
		encoder.write_chunk(header->writes[i].count);
		for (u32 j = 0; j < header->writes[i].count; j++)
			encoder.segment(ours(header->writes[i].segments[j]));
	}
	if (header->reply) {
		encoder.reply_chunk(header->reply->count);
		for (u32 j = 0; j < header->reply->count; j++)
			encoder.segment(ours(header->reply->segments[j]));
	}
	auto length = encoder.finish();
	return length ? length.value() : 0;
}

uint64_t ours_decode(const uint8_t *bytes, size_t length)
{
	u64 sum = 0;

	return decode({bytes, length}, [&](u64 field) { sum += field; }) ? sum : 0;
}

size_t ours_fields(const uint8_t *bytes, size_t length, uint64_t *fields)
{
	size_t n = 0;

	return decode({bytes, length},
		      [&](u64 field) {
			      if (n < MAX_FIELDS)
				      fields[n++] = field;
		      }) ?
		       n :
		       0;
}

uint32_t ours_reduce(const rpc_shape *shape)
{
	chunk::CallShape call;
	chunk::Limits limits;
	chunk::Plan plan;

	call.send = {0x1000,
		     shape->send_head,
		     shape->send_base,
		     shape->send_pages,
		     u64(0x1000) + shape->send_head,
		     shape->send_tail};
	call.receive = {0x9000,
			shape->receive_head,
			shape->receive_base,
			shape->receive_pages,
			u64(0x9000) + shape->receive_head,
			shape->receive_tail};
	call.send_ddp = shape->send_ddp;
	call.receive_ddp = shape->receive_ddp;
	limits.mr_pages = shape->mr_pages;
	return chunk::reduce(call, limits, kThresholds, plan).ok() ? plan.header_length : 0;
}

void *ours_prepare_answer(const answer_shape *, const uint8_t *call, size_t length)
{
	static xdr::Message messages[16];
	static u32 used;

	if (used == sizeof(messages) / sizeof(messages[0]) ||
	    v1::decode({call, length}, messages[used]) != Error::none)
		return nullptr;
	return &messages[used++];
}

uint32_t ours_plan_answer(const answer_shape *shape, void *prepared)
{
	const chunk::ReplyRange result{shape->result_offset, shape->result_length};
	chunk::Shortfall shortfall;
	chunk::Answer answer;
	const Status planned = chunk::plan_answer(*static_cast<const xdr::Message *>(prepared),
						  {&result, shape->result_length ? 1u : 0u},
						  shape->length, kThresholds, answer, shortfall);

	return planned ? answer.header_length : 0;
}
