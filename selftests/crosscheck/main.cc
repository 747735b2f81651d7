// SPDX-License-Identifier: GPL-2.0-only
/*
 * The version 2 codec of xdr/ beside the one that rpcgen makes of the drafts' XDR (selftests/bench/codec/). scripts/
 * crosscheck runs it:
 *
 *	crosscheck N		N random messages, encoded by each and decoded by both, and N spoiled ones, judged by both
 *	crosscheck --speed	what a decode takes with each
 *
 * rpcgen's code takes any well-formed header, and any number as an enumeration or a boolean. From what it decoded
 * judge() works out what ours has to say, by the rules that XDR cannot express; so each disagreement between the two is
 * of a class with a name, and is counted. Where ours says anything else than judge(), that is a failure. Each class has
 * to be met.
 */
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "xdr/rtrext.hh"

extern "C" {
/* Their names have hyphens, which a guard of rpcgen's cannot have. */
#include <rtrext-01.h>
}

using namespace rpcordma;

/*
 * libtirpc allocates what a count says before it looks whether that many bytes are there, and clears it. No message here
 * has so many: it is refused in any case, and now at once. It tells the user so.
 */
extern "C" void *__libc_calloc(size_t, size_t);
extern "C" void *calloc(size_t n, size_t size)
{
	return n && size > (1u << 18) / n ? nullptr : __libc_calloc(n, size);
}
extern "C" void warnx(const char *, ...)
{
}

namespace {

constexpr u32 kRoom = 4096;

/* xorshift: the same on every run. */
struct Random {
	u64 state = 0x9e3779b97f4a7c15;

	u32 next()
	{
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		return u32(state >> 16);
	}
	u32 below(u32 n)
	{
		return next() % n;
	}
	/* Numbers that mean something more often than others. */
	u32 word()
	{
		static const u32 some[] = {0,	       1,	   2,	       3,
					   4,	       5,	   8,	       12,
					   16,	       20,	   4096,       20480,
					   0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff};

		return below(3) ? next() : some[below(sizeof(some) / sizeof(some[0]))];
	}
};

/* What rpcgen's structures point to, until the next message. */
class Arena {
public:
	template <typename T> T *make(usize n = 1)
	{
		blocks_.emplace_back(n * sizeof(T) + 1);
		return reinterpret_cast<T *>(blocks_.back().data());
	}
	void clear()
	{
		blocks_.clear();
	}

private:
	std::deque<std::vector<char>> blocks_;
};

Random rng;
Arena arena;
/* What is made need not be good: a type that is wrong where it stands is never met by chance. */
bool spoiling;
u64 failures;
/* Messages of each class of disagreement, and how often each outcome was agreed on. */
std::map<std::string, u64> classes, outcomes;

void hex(Bytes bytes)
{
	for (usize i = 0; i < bytes.size(); i++)
		fprintf(stderr, "%s%02x", i % 4 ? "" : " ", bytes[i]);
	fprintf(stderr, "\n");
}

[[gnu::format(printf, 2, 3)]] void fail(Bytes bytes, const char *why, ...)
{
	if (++failures > 5)
		return;
	va_list list;
	va_start(list, why);
	fprintf(stderr, "FAILED   ");
	vfprintf(stderr, why, list);
	fprintf(stderr, ":");
	va_end(list);
	hex(bytes);
}

template <typename T> using Coder = bool_t (*)(XDR *, T *);

/* rpcgen's bytes of @value. */
template <typename T> u32 encode(Coder<T> coder, T &value, u8 *room)
{
	XDR xdrs;

	xdrmem_create(&xdrs, reinterpret_cast<char *>(room), kRoom, XDR_ENCODE);
	if (!coder(&xdrs, &value)) {
		fprintf(stderr, "crosscheck: rpcgen's code does not encode\n");
		exit(1);
	}
	return xdr_getpos(&xdrs);
}

/* A value that rpcgen's code decoded, and frees. */
template <typename T> struct Decoded {
	T value;
	bool good;
	u32 length; /* what it took */

	Decoded(Coder<T> coder, Bytes bytes) : coder_(coder)
	{
		XDR xdrs;

		memset(static_cast<void *>(&value), 0, sizeof(value));
		xdrmem_create(&xdrs,
			      const_cast<char *>(reinterpret_cast<const char *>(bytes.data())),
			      u32(bytes.size()), XDR_DECODE);
		good = coder(&xdrs, &value);
		length = xdr_getpos(&xdrs);
	}
	Decoded(const Decoded &) = delete;
	~Decoded()
	{
		xdr_free(reinterpret_cast<xdrproc_t>(coder_), &value);
	}
	bool whole(Bytes bytes) const
	{
		return good && length == bytes.size();
	}

private:
	Coder<T> coder_;
};

/* --- Random structures, as rpcgen has them --- */

rpcrdma2_segment some_segment()
{
	return {rng.word(), rng.word(), u64(rng.word()) << 32 | rng.word()};
}

template <typename Chunk> void some_segments(Chunk &len, rpcrdma2_segment *&val)
{
	len = rng.below(5);
	val = arena.make<rpcrdma2_segment>(len);
	for (u32 i = 0; i < len; i++)
		val[i] = some_segment();
}

void some_lists(rpcrdma2_chunk_lists &lists, bool msg)
{
	rpcrdma2_read_list **read = &lists.rdma_reads;
	rpcrdma2_write_list **write = &lists.rdma_writes;
	const u32 shape = rng.below(4);

	lists.rdma_direction = rng.below(2) ? RDMA2_CALL : RDMA2_REPLY;
	lists.rdma_inv_handle = rng.word();
	for (u32 i = shape & 1 ? rng.below(5) : 0; i != 0; i--, read = &(*read)->rdma_next) {
		*read = arena.make<rpcrdma2_read_list>();
		(*read)->rdma_entry = {rng.word() & ~3u, some_segment()};
		if (msg && (*read)->rdma_entry.rdma_position == 0)
			(*read)->rdma_entry.rdma_position = 4;
	}
	for (u32 i = shape & 2 ? rng.below(4) : 0; i != 0; i--, write = &(*write)->rdma_next) {
		auto &target = (*write = arena.make<rpcrdma2_write_list>())->rdma_entry.rdma_target;
		some_segments(target.rdma_target_len, target.rdma_target_val);
	}
	if (rng.below(4) == 0 || !msg) {
		auto &target = (lists.rdma_reply = arena.make<rpcrdma2_write_chunk>())->rdma_target;
		some_segments(target.rdma_target_len, target.rdma_target_val);
	}
}

/* Segments of @bytes together. */
template <typename Chunk> void segments_of(u64 bytes, Chunk &len, rpcrdma2_segment *&val)
{
	some_segments(len, val);
	for (u32 i = 0; i < len; i++) {
		val[i].rdma_length = i + 1 == len ? u32(bytes) : rng.below(u32(bytes) + 1);
		bytes -= val[i].rdma_length;
	}
}

/* Items that may stand where they are: what is placed ascends, and in a call segments have its bytes. */
void some_items(xmddp_grpinfo &info, bool call)
{
	u32 end = 0;

	info.xmddp_grpinfo_len = rng.below(4);
	info.xmddp_grpinfo_val = arena.make<xmddp_mitem>(info.xmddp_grpinfo_len);
	for (u32 i = 0; i < info.xmddp_grpinfo_len; i++) {
		static const xmddp_type types[] = {XMDTYPE_EXRW, XMDTYPE_TBSN, XMDTYPE_TOOSHORT,
						   XMDTYPE_NOITEM};
		xmddp_mitem &item = info.xmddp_grpinfo_val[i];
		auto &where = item.xmdmi_where.xmddp_loc_u;

		item.xmdmi_where.type =
			types[rng.below(call && !(spoiling && rng.below(8) == 0) ? 2 : 4)];
		item.xmdmi_disp = rng.word();
		item.xmdmi_length = rng.word();
		if (item.xmdmi_where.type > XMDTYPE_TBSN)
			continue;
		item.xmdmi_disp = end + 4 * rng.below(20);
		item.xmdmi_length = rng.below(3) ? rng.below(70000) : rng.below(9);
		end = item.xmdmi_disp + max((item.xmdmi_length + 3) & ~3u, 4u);
		if (item.xmdmi_where.type == XMDTYPE_EXRW) {
			auto &segments = where.xmdl_ex;
			const u32 length = item.xmdmi_length;

			do
				segments_of(rng.below(2) ? length : (length + 3) & ~3u,
					    segments.xmdl_ex_len, segments.xmdl_ex_val);
			while (call && length != 0 && segments.xmdl_ex_len == 0);
			continue;
		}
		auto &numbers = where.xmdl_tbsn.xmdl_bsnum;

		where.xmdl_tbsn.xmdl_offset = rng.word();
		numbers.xmdl_bsnum_len = rng.below(4);
		numbers.xmdl_bsnum_val = arena.make<xmddp_tbsn>(numbers.xmdl_bsnum_len);
		for (u32 n = 0; n < numbers.xmdl_bsnum_len; n++)
			numbers.xmdl_bsnum_val[n] = rng.word();
	}
}

void some_places(xmddp_rsdgroup &group)
{
	u32 begin = 0;

	group.xmddp_rsdgroup_len = rng.below(3);
	group.xmddp_rsdgroup_val = arena.make<xmddp_rsdset>(group.xmddp_rsdgroup_len);
	for (u32 i = 0; i < group.xmddp_rsdgroup_len; i++) {
		xmddp_rsdset &set = group.xmddp_rsdgroup_val[i];
		auto &items = set.xmdrsds_items;

		begin += 1 + rng.below(100);
		set.xmdrsds_range = {begin, begin + rng.below(100)};
		begin = set.xmdrsds_range.xmdrsdr_end;
		items.xmdrsds_items_len = rng.below(3);
		items.xmdrsds_items_val = arena.make<xmddp_rsditem>(items.xmdrsds_items_len);
		for (u32 n = 0; n < items.xmdrsds_items_len; n++) {
			xmddp_rsditem &item = items.xmdrsds_items_val[n];
			auto &where = item.xmdrsdi_loc.xmddp_rsdloc_u;
			const xmddp_type type = xmddp_type(1 + rng.below(4));

			item.xmdrsdi_minlen = rng.word();
			item.xmdrsdi_loc.type = type;
			if (type == XMDTYPE_EXRW || type == XMDTYPE_CHOOSE)
				some_segments(where.xmdrsdl_ex.xmdrsdl_ex_len,
					      where.xmdrsdl_ex.xmdrsdl_ex_val);
			if (type == XMDTYPE_BYSIZE) {
				where.xmdrsdl_bysize.xmdrsdl_dsdov = rng.word();
				some_segments(where.xmdrsdl_bysize.xmdrsdl_bsex.xmdrsdl_bsex_len,
					      where.xmdrsdl_bysize.xmdrsdl_bsex.xmdrsdl_bsex_val);
			}
		}
	}
}

Span<const xdr::Segment> ours(u32 count, const rpcrdma2_segment *from)
{
	auto *segments = arena.make<xdr::Segment>(count);

	for (u32 i = 0; i < count; i++)
		segments[i] = {Rkey(from[i].rdma_handle), from[i].rdma_length, from[i].rdma_offset};
	return {segments, count};
}

void ours(rtrext::Encoder &encoder, const xmddp_grpinfo &info)
{
	for (u32 i = 0; i < info.xmddp_grpinfo_len; i++) {
		const xmddp_mitem &item = info.xmddp_grpinfo_val[i];
		const auto &where = item.xmdmi_where.xmddp_loc_u;
		const auto &numbers = where.xmdl_tbsn.xmdl_bsnum;

		if (item.xmdmi_where.type == XMDTYPE_EXRW)
			encoder.segments(item.xmdmi_disp, item.xmdmi_length,
					 ours(where.xmdl_ex.xmdl_ex_len, where.xmdl_ex.xmdl_ex_val));
		else if (item.xmdmi_where.type == XMDTYPE_TBSN)
			encoder.sent(item.xmdmi_disp, item.xmdmi_length, where.xmdl_tbsn.xmdl_offset,
				     {numbers.xmdl_bsnum_val, numbers.xmdl_bsnum_len});
		else
			encoder.unplaced(item.xmdmi_disp, item.xmdmi_length,
					 static_cast<rtrext::Type>(item.xmdmi_where.type));
	}
}

void ours(rtrext::Encoder &encoder, const xmddp_rsdgroup &group)
{
	for (u32 i = 0; i < group.xmddp_rsdgroup_len; i++) {
		const xmddp_rsdset &set = group.xmddp_rsdgroup_val[i];

		encoder.set(set.xmdrsds_range.xmdrsdr_begin, set.xmdrsds_range.xmdrsdr_end);
		for (u32 n = 0; n < set.xmdrsds_items.xmdrsds_items_len; n++) {
			const xmddp_rsditem &item = set.xmdrsds_items.xmdrsds_items_val[n];
			const auto &where = item.xmdrsdi_loc.xmddp_rsdloc_u;
			const auto type = static_cast<rtrext::Type>(item.xmdrsdi_loc.type);
			const auto &sized = where.xmdrsdl_bysize;

			if (type == rtrext::Type::sent)
				encoder.place_sent(item.xmdrsdi_minlen);
			else if (type == rtrext::Type::by_size)
				encoder.place(item.xmdrsdi_minlen, type,
					      ours(sized.xmdrsdl_bsex.xmdrsdl_bsex_len,
						   sized.xmdrsdl_bsex.xmdrsdl_bsex_val),
					      sized.xmdrsdl_dsdov);
			else
				encoder.place(item.xmdrsdi_minlen, type,
					      ours(where.xmdrsdl_ex.xmdrsdl_ex_len,
						   where.xmdrsdl_ex.xmdrsdl_ex_val));
		}
	}
}

rtrext::Id ours(const xms_id &id)
{
	return {Xid(id.xmsi_xid), static_cast<xdr::Direction>(id.xmsi_dir), id.xmsi_seq};
}

/* One of the four, as rpcgen has it, and what ours makes of it in @room: an error, where it makes no such message. */
Result<u32> some_option(const rpcrdma2_xprt_hdr &hdr, rpcrdma2_optional &optional,
			MutableBytes my_room)
{
	u8 *room = arena.make<u8>(kRoom);
	const Xid xid(hdr.rdma_xid);
	const Credits credits(hdr.rdma_credit);
	const u32 pslen = rng.word();
	Result<u32> made = Error::invalid;
	u32 length;
	optxmt_req request = {};
	optxmt_resp response = {};
	optxmt_cont more = {rng.word(), rng.word(), pslen};
	optrept_err report = {};

	optional.rdma_optdir = rng.below(2) ? RDMA2_CALL : RDMA2_REPLY;
	optional.rdma_opttype = 1 + rng.below(4);
	switch (optional.rdma_opttype) {
	case ROPT_XMTREQ: {
		optional.rdma_optdir = RDMA2_CALL;
		some_items(request.optxrq_ddp, true);
		some_places(request.optxrq_rsd);
		request.optxrq_count = max(rng.word(), 1u);
		request.optxrq_rsbuf = rng.word();
		request.optxrq_pslen = pslen;
		length = encode(xdr_optxmt_req, request, room);
		rtrext::Encoder encoder(my_room, xid, credits, xdr::Option::xmtreq);
		ours(encoder, request.optxrq_ddp);
		ours(encoder, request.optxrq_rsd);
		made = encoder.finish(request.optxrq_count, request.optxrq_rsbuf, pslen);
		break;
	}
	case ROPT_XMTRESP: {
		optional.rdma_optdir = RDMA2_REPLY;
		some_items(response.optxrs_ddp, false);
		response.optxrs_count = max(rng.word(), 1u);
		response.optxrs_pslen = pslen;
		length = encode(xdr_optxmt_resp, response, room);
		rtrext::Encoder encoder(my_room, xid, credits, xdr::Option::xmtresp);
		ours(encoder, response.optxrs_ddp);
		made = encoder.finish(response.optxrs_count, 0, pslen);
		break;
	}
	case ROPT_XMTCONT:
		length = encode(xdr_optxmt_cont, more, room);
		made = rtrext::encode(my_room, xid, credits,
				      static_cast<xdr::Direction>(optional.rdma_optdir),
				      rtrext::Continuation{more.optxc_xnum, more.optxc_itype, pslen});
		break;
	default:
		report.optre_bad = {rng.below(2) ? hdr.rdma_xid : rng.word(),
				    rpcrdma2_dir(rng.below(2)), rng.word()};
		if (rng.below(2)) {
			report.optre_lead = arena.make<xms_id>();
			*report.optre_lead = {rng.word(), rpcrdma2_dir(rng.below(2)), rng.word()};
		}
		report.optre_info.optre_which = optr_err(1 + rng.below(8));
		const optr_range words = {rng.word(), rng.word(), rng.word()};
		report.optre_info.optr_info_u.optri_range = words;
		length = encode(xdr_optrept_err, report, room);
		/* Ours has the xid of what is bad, and goes the other way than what it is about. */
		const auto about = report.optre_lead ? report.optre_lead->xmsi_dir :
						       report.optre_bad.xmsi_dir;
		if (report.optre_bad.xmsi_xid == hdr.rdma_xid && about != optional.rdma_optdir) {
			rtrext::Report mine;

			mine.bad = ours(report.optre_bad);
			mine.has_lead = report.optre_lead != nullptr;
			if (mine.has_lead)
				mine.lead = ours(*report.optre_lead);
			mine.detail = {static_cast<rtrext::Fault>(report.optre_info.optre_which),
				       {words.optri_value, words.optri_min, words.optri_max}};
			made = rtrext::encode(my_room, credits, mine);
		}
	}
	optional.rdma_optinfo.rdma_optinfo_len = length;
	optional.rdma_optinfo.rdma_optinfo_val = reinterpret_cast<char *>(room);
	if (!made && optional.rdma_opttype != ROPT_REPTERR && !spoiling)
		fail({room, length}, "ours does not encode option %u: %d", optional.rdma_opttype,
		     int(made.error()));
	return made;
}

/* Properties with values that our encoder can say, and the same as rpcgen has them. */
properties::Properties some_properties(rpcrdma2_propset &set)
{
	properties::Properties said;
	rpcrdma2_propval *val = arena.make<rpcrdma2_propval>(6);
	u32 n = 0;

	said.present = rng.below(properties::all + 1);
	said.receive_size = 4096 + rng.below(0x10000);
	said.backward = static_cast<properties::Backward>(rng.below(3));
	said.extensions = rng.word();
	said.call_limit = 1 + rng.below(100);
	said.reply_limit = 1 + rng.below(100);
	if (const u32 shape = rng.below(3)) {
		const u32 pages = shape == 1 ? 0 : 1 + rng.below(16);
		const u32 each = pages ? 4 << rng.below(12) : 0;

		said.structure = {4096 + pages * each, pages, each};
	}
	for (u32 id = 1; id <= 6; id++) {
		if (!(said.present >> (id - 1) & 1))
			continue;
		u8 *data = arena.make<u8>(kRoom);
		u32 length, word = id == 1 ? said.receive_size :
				   id == 2 ? static_cast<u32>(said.backward) :
				   id == 3 ? said.extensions :
				   id == 5 ? said.call_limit :
					     said.reply_limit;
		xmrbs_group groups[2] = {{1, {said.structure.head(), 8, 0}},
					 {said.structure.segments,
					  {said.structure.segment_length,
					   said.structure.segment_length, XMRSFLAG_DDP}}};
		xpr_rbs structure = {said.structure.total,
				     {said.structure.segments ? 2u : 1u, groups}};

		if (id != 4)
			length = encode(xdr_uint32, word, data);
		else
			length = said.structure.total ? encode(xdr_xpr_rbs, structure, data) : 0;
		val[n++] = {id, {length, reinterpret_cast<char *>(data)}};
	}
	set = {n, val};
	return said;
}

/* Any properties, unknown ones and those of any data too. */
void some_set(rpcrdma2_propset &set)
{
	set.rpcrdma2_propset_len = rng.below(7);
	set.rpcrdma2_propset_val = arena.make<rpcrdma2_propval>(set.rpcrdma2_propset_len);
	for (u32 i = 0; i < set.rpcrdma2_propset_len; i++) {
		rpcrdma2_propval &val = set.rpcrdma2_propset_val[i];
		u8 *data = arena.make<u8>(256);

		val.rdma_which = rng.below(8);
		val.rdma_data.rdma_data_len = rng.below(3) ? 4 : rng.below(60);
		if (val.rdma_which == 4) {
			const u32 groups = rng.below(4), length = 1 + rng.below(8192);
			u32 total = 0;
			xmrbs_group some[4];
			for (u32 g = 0; g < groups; g++) {
				some[g] = {rng.below(4),
					   {rng.below(4) ? length : rng.word(), 8, rng.below(2)}};
				total += some[g].xmrgrp_count * some[g].xmrgrp_info.xmrseg_length;
			}
			xpr_rbs structure = {rng.below(4) ? total : rng.word(), {groups, some}};
			val.rdma_data.rdma_data_len = encode(xdr_xpr_rbs, structure, data);
		} else {
			for (u32 at = 0; at < 60; at += 4)
				xdr::store_be32(data + at, rng.below(2) ? rng.below(4) : rng.word());
		}
		val.rdma_data.rdma_data_val = reinterpret_cast<char *>(data);
	}
}

void some_subset(rpcrdma2_propsubset &subset)
{
	subset.rpcrdma2_propsubset_len = rng.below(3);
	subset.rpcrdma2_propsubset_val = arena.make<uint32>(3);
	for (u32 i = 0; i < 3; i++)
		subset.rpcrdma2_propsubset_val[i] = rng.word();
}

/* --- What ours encodes for it --- */

xdr::Segment ours(const rpcrdma2_segment &from)
{
	return {Rkey(from.rdma_handle), from.rdma_length, from.rdma_offset};
}

void ours(v2::Encoder &encoder, const rpcrdma2_chunk_lists &lists)
{
	for (auto *it = lists.rdma_reads; it; it = it->rdma_next)
		encoder.read_segment(Position(it->rdma_entry.rdma_position),
				     ours(it->rdma_entry.rdma_target));
	for (auto *it = lists.rdma_writes; it; it = it->rdma_next) {
		const auto &target = it->rdma_entry.rdma_target;

		encoder.write_chunk(target.rdma_target_len);
		for (u32 i = 0; i < target.rdma_target_len; i++)
			encoder.segment(ours(target.rdma_target_val[i]));
	}
	if (lists.rdma_reply) {
		const auto &target = lists.rdma_reply->rdma_target;

		encoder.reply_chunk(target.rdma_target_len);
		for (u32 i = 0; i < target.rdma_target_len; i++)
			encoder.segment(ours(target.rdma_target_val[i]));
	}
}

xdr::Direction ours(rpcrdma2_dir direction)
{
	return static_cast<xdr::Direction>(direction);
}

/**
 * A random message: rpcgen's bytes in @room, and a payload that agrees behind it.
 *
 * @mine  where ours goes; its length is 0 where our encoder makes no such message
 */
u32 some_message(u8 *room, u32 &header, u8 *mine, u32 &my_length)
{
	static const rpcrdma2_proc procs[] = {RDMA2_MSG,      RDMA2_MSG,      RDMA2_NOMSG,
					      RDMA2_ERROR,    RDMA2_OPTIONAL, RDMA2_CONNPROP,
					      RDMA2_REQPROP,  RDMA2_RESPROP,  RDMA2_UPDPROP,
					      RDMA2_CONNPROP, RDMA2_OPTIONAL};
	rpcrdma2_xprt_hdr hdr = {};
	auto &body = hdr.rdma_body.rpcrdma2_body_u;
	const MutableBytes my_room(mine, kRoom);
	Result<u32> made = Error::invalid;
	u32 direction = 0;

	arena.clear();
	hdr.rdma_xid = rng.word();
	hdr.rdma_vers = v2::version;
	hdr.rdma_credit = rng.word();
	hdr.rdma_body.rdma_proc = procs[rng.below(sizeof(procs) / sizeof(procs[0]))];
	const Xid xid(hdr.rdma_xid);
	const Credits credits(hdr.rdma_credit);
	my_length = 0;
	switch (hdr.rdma_body.rdma_proc) {
	case RDMA2_MSG:
	case RDMA2_NOMSG: {
		const auto kind = static_cast<xdr::Kind>(hdr.rdma_body.rdma_proc);

		some_lists(body.rdma_chunks, kind == xdr::Kind::msg);
		direction = body.rdma_chunks.rdma_direction;
		v2::Encoder encoder(my_room, xid, credits, kind,
				    ours(body.rdma_chunks.rdma_direction),
				    Rkey(body.rdma_chunks.rdma_inv_handle));
		ours(encoder, body.rdma_chunks);
		made = encoder.finish();
		break;
	}
	case RDMA2_ERROR: {
		const u32 code = 1 + rng.below(6);

		body.rdma_error.rdma_err = rpcrdma2_errcode(code);
		body.rdma_error.rpcrdma2_error_u.rdma_vrange = {rng.word(), rng.word()};
		const auto &words = body.rdma_error.rpcrdma2_error_u.rdma_vrange;
		made = v2::encode_error(my_room, {xid, v2::version, {}, 0}, credits,
					{static_cast<xdr::ErrorCode>(code - 1), words.rdma_vers_low,
					 words.rdma_vers_high});
		break;
	}
	case RDMA2_OPTIONAL:
		made = some_option(hdr, body.rdma_optional, my_room);
		break;
	case RDMA2_CONNPROP:
		if (rng.below(2)) {
			const u32 fixed = rng.below(properties::all + 1);
			const auto said = some_properties(body.rdma_connprop.rdma_start);
			auto &subset = body.rdma_connprop.rdma_nochg;

			subset = {1, arena.make<uint32>()};
			for (u32 id = 0, n = 0; id < properties::known; id++)
				if (said.present >> id & 1)
					*subset.rpcrdma2_propsubset_val |= (fixed >> id & 1) << n++;
			made = v2::encode_connprop(my_room, xid, credits, said, fixed);
		} else {
			some_set(body.rdma_connprop.rdma_start);
			some_subset(body.rdma_connprop.rdma_nochg);
		}
		break;
	case RDMA2_REQPROP:
		some_set(body.rdma_reqprop.rdma_want);
		break;
	case RDMA2_RESPROP:
		some_subset(body.rdma_resprop.rdma_done);
		some_subset(body.rdma_resprop.rdma_rejected);
		some_set(body.rdma_resprop.rdma_other);
		if (rng.below(2)) {
			/* As ours answers a REQPROP. */
			rpcrdma2_xprt_hdr request = hdr;
			u8 bytes[kRoom];
			xdr::Message message;
			const u32 n = rng.below(70);
			auto &set = request.rdma_body.rpcrdma2_body_u.rdma_reqprop.rdma_want;
			auto &rejected = body.rdma_resprop.rdma_rejected;

			request.rdma_body.rdma_proc = RDMA2_REQPROP;
			set = {n, arena.make<rpcrdma2_propval>(n)};
			const u32 length = encode(xdr_rpcrdma2_xprt_hdr, request, bytes);
			if (v2::decode({bytes, length}, message) != Error::none)
				fail({bytes, length}, "a REQPROP is refused");
			made = v2::encode_resprop(my_room, message, credits);
			body.rdma_resprop.rdma_done.rpcrdma2_propsubset_len = 0;
			body.rdma_resprop.rdma_other.rpcrdma2_propset_len = 0;
			rejected = {(n + 31) / 32, arena.make<uint32>(4)};
			for (u32 i = 0; i < n; i++)
				rejected.rpcrdma2_propsubset_val[i / 32] |= 1u << i % 32;
		}
		break;
	case RDMA2_UPDPROP:
		made = v2::encode_updprop(my_room, xid, credits,
					  some_properties(body.rdma_updprop.rdma_now));
		break;
	}
	if (made)
		my_length = made.value();
	header = encode(xdr_rpcrdma2_xprt_hdr, hdr, room);
	u32 length = header;
	if (hdr.rdma_body.rdma_proc == RDMA2_MSG || hdr.rdma_body.rdma_proc == RDMA2_OPTIONAL) {
		xdr::store_be32(room + length, hdr.rdma_xid);
		xdr::store_be32(room + length + 4, direction);
		length += 8;
	}
	return length;
}

/* --- What ours has to say --- */

struct Verdict {
	Error error = Error::none;
	/* Why ours refuses what rpcgen's takes. */
	const char *why = nullptr;
};

/* What ours makes of optinfo. */
struct Inside {
	rtrext::Request request;
	rtrext::Response response;
	rtrext::Continuation continuation;
	rtrext::Report report;

	Error decode(u32 type, Bytes optinfo)
	{
		switch (type) {
		case ROPT_XMTREQ:
			return rtrext::decode(optinfo, request);
		case ROPT_XMTRESP:
			return rtrext::decode(optinfo, response);
		case ROPT_XMTCONT:
			return rtrext::decode(optinfo, continuation);
		default:
			return rtrext::decode(optinfo, report);
		}
	}
};

/* Why ours refuses items that rpcgen's takes, or null. */
const char *judge_items(const xmddp_grpinfo &info, bool call)
{
	const char *why = nullptr;
	bool some = false;
	u64 end = 0;
	u32 last = 0;

	for (u32 i = 0; i < info.xmddp_grpinfo_len && !why; i++) {
		const xmddp_mitem &item = info.xmddp_grpinfo_val[i];
		const auto &segments = item.xmdmi_where.xmddp_loc_u.xmdl_ex;
		const u64 padded = (u64(item.xmdmi_length) + 3) & ~u64(3);

		if (item.xmdmi_where.type > XMDTYPE_TBSN) {
			why = call ? "a result in a call" : nullptr;
			continue;
		}
		if (item.xmdmi_disp % 4)
			why = "a displacement that is no multiple of four";
		else if (some && (item.xmdmi_disp < end || item.xmdmi_disp <= last))
			why = "displacements that do not ascend";
		some = true;
		last = item.xmdmi_disp;
		end = last + padded;
		if (why || !call || item.xmdmi_where.type != XMDTYPE_EXRW)
			continue;
		u64 sum = 0;
		for (u32 n = 0; n < segments.xmdl_ex_len; n++)
			sum += segments.xmdl_ex_val[n].rdma_length;
		if (sum != item.xmdmi_length && sum != padded)
			why = "segments of another length than their item";
	}
	return why;
}

const char *judge_sets(const xmddp_rsdgroup &group)
{
	for (u32 i = 0; i < group.xmddp_rsdgroup_len; i++) {
		const auto &range = group.xmddp_rsdgroup_val[i].xmdrsds_range;
		const auto *before = i ? &group.xmddp_rsdgroup_val[i - 1].xmdrsds_range : nullptr;

		if (range.xmdrsdr_end < range.xmdrsdr_begin)
			return "a set that ends before it begins";
		if (before && (range.xmdrsdr_begin < before->xmdrsdr_end ||
			       range.xmdrsdr_begin <= before->xmdrsdr_begin))
			return "sets that are not disjoint, or do not ascend";
	}
	return nullptr;
}

bool same_segments(const xdr::WriteChunk &a, u32 count, const rpcrdma2_segment *val)
{
	bool equal = a.count() == count;

	for (u32 i = 0; equal && i < count; i++)
		equal = a[i].handle.get() == val[i].rdma_handle &&
			a[i].length == val[i].rdma_length && a[i].offset == val[i].rdma_offset;
	return equal;
}

bool same_items(const rtrext::Items &a, const xmddp_grpinfo &b)
{
	u32 i = 0;

	if (a.count() != b.xmddp_grpinfo_len)
		return false;
	for (const rtrext::Item &item : a) {
		const xmddp_mitem &other = b.xmddp_grpinfo_val[i++];
		const auto &where = other.xmdmi_where.xmddp_loc_u;
		const u32 type = other.xmdmi_where.type;

		if (item.displacement != other.xmdmi_disp || item.length != other.xmdmi_length ||
		    static_cast<u32>(item.type) != type)
			return false;
		if (!same_segments(item.segments,
				   type == XMDTYPE_EXRW ? where.xmdl_ex.xmdl_ex_len : 0,
				   where.xmdl_ex.xmdl_ex_val))
			return false;
		if (type != XMDTYPE_TBSN)
			continue;
		const auto &numbers = where.xmdl_tbsn.xmdl_bsnum;
		if (item.offset != where.xmdl_tbsn.xmdl_offset ||
		    item.numbers.count() != numbers.xmdl_bsnum_len)
			return false;
		for (u32 n = 0; n < numbers.xmdl_bsnum_len; n++)
			if (item.numbers[n] != numbers.xmdl_bsnum_val[n])
				return false;
	}
	return true;
}

bool same_place(const rtrext::Place &a, const xmddp_rsditem &b)
{
	const auto &where = b.xmdrsdi_loc.xmddp_rsdloc_u;
	const auto &sized = where.xmdrsdl_bysize;

	if (a.least != b.xmdrsdi_minlen || static_cast<u32>(a.type) != u32(b.xmdrsdi_loc.type))
		return false;
	switch (b.xmdrsdi_loc.type) {
	case XMDTYPE_TBSN:
		return a.segments.count() == 0;
	case XMDTYPE_BYSIZE:
		return a.most_sent == sized.xmdrsdl_dsdov &&
		       same_segments(a.segments, sized.xmdrsdl_bsex.xmdrsdl_bsex_len,
				     sized.xmdrsdl_bsex.xmdrsdl_bsex_val);
	default:
		return same_segments(a.segments, where.xmdrsdl_ex.xmdrsdl_ex_len,
				     where.xmdrsdl_ex.xmdrsdl_ex_val);
	}
}

bool same_sets(const rtrext::Sets &a, const xmddp_rsdgroup &b)
{
	u32 i = 0, all = 0;

	if (a.count() != b.xmddp_rsdgroup_len)
		return false;
	for (const rtrext::Set &set : a) {
		const xmddp_rsdset &other = b.xmddp_rsdgroup_val[i++];
		u32 n = 0;

		if (set.begin != other.xmdrsds_range.xmdrsdr_begin ||
		    set.end != other.xmdrsds_range.xmdrsdr_end ||
		    set.places.count() != other.xmdrsds_items.xmdrsds_items_len)
			return false;
		for (const rtrext::Place &place : set.places)
			if (!same_place(place, other.xmdrsds_items.xmdrsds_items_val[n++]))
				return false;
		all += n;
	}
	return a.places() == all;
}

bool same_id(const rtrext::Id &a, const xms_id &b)
{
	return a.xid.get() == b.xmsi_xid && static_cast<u32>(a.direction) == u32(b.xmsi_dir) &&
	       a.number == b.xmsi_seq;
}

/* optinfo that rpcgen's decodes as @T, and what is wrong with it for ours; then both have read the same. */
template <typename T, typename Judge, typename Same>
void judge_inside(u32 type, Coder<T> coder, Bytes optinfo, Judge &&judge, Same &&same)
{
	Decoded<T> theirs(coder, optinfo);
	Inside mine;
	const Error error = mine.decode(type, optinfo);
	const char *why = theirs.whole(optinfo) ? judge(theirs.value) : nullptr;

	if (why)
		classes[why]++;
	if (!theirs.whole(optinfo))
		outcomes["optinfo refused by both"]++;
	if (error != (theirs.whole(optinfo) && !why ? Error::none : Error::protocol))
		fail(optinfo, "inside option %u ours says %d (%s)", type, int(error),
		     why ? why : "both refuse or take it");
	else if (error == Error::none && !same(mine, theirs.value))
		fail(optinfo, "inside option %u they read different things", type);
}

void judge_inside(u32 type, Bytes optinfo)
{
	switch (type) {
	case ROPT_XMTREQ:
		return judge_inside<optxmt_req>(
			type, xdr_optxmt_req, optinfo,
			[](const optxmt_req &req) {
				const char *why = judge_items(req.optxrq_ddp, true);

				why = why ? why : judge_sets(req.optxrq_rsd);
				return why		     ? why :
				       req.optxrq_count == 0 ? "a message of no transmission" :
							       nullptr;
			},
			[](const Inside &mine, const optxmt_req &req) {
				return same_items(mine.request.items, req.optxrq_ddp) &&
				       same_sets(mine.request.sets, req.optxrq_rsd) &&
				       mine.request.transmissions == req.optxrq_count &&
				       mine.request.reply_transmissions == req.optxrq_rsbuf &&
				       mine.request.stream_length == req.optxrq_pslen;
			});
	case ROPT_XMTRESP:
		return judge_inside<optxmt_resp>(
			type, xdr_optxmt_resp, optinfo,
			[](const optxmt_resp &resp) {
				const char *why = judge_items(resp.optxrs_ddp, false);

				return why		      ? why :
				       resp.optxrs_count == 0 ? "a message of no transmission" :
								nullptr;
			},
			[](const Inside &mine, const optxmt_resp &resp) {
				return same_items(mine.response.items, resp.optxrs_ddp) &&
				       mine.response.transmissions == resp.optxrs_count &&
				       mine.response.stream_length == resp.optxrs_pslen;
			});
	case ROPT_XMTCONT:
		return judge_inside<optxmt_cont>(
			type, xdr_optxmt_cont, optinfo,
			[](const optxmt_cont &) -> const char * { return nullptr; },
			[](const Inside &mine, const optxmt_cont &more) {
				return mine.continuation.number == more.optxc_xnum &&
				       mine.continuation.lead == more.optxc_itype &&
				       mine.continuation.stream_length == more.optxc_pslen;
			});
	default:
		return judge_inside<optrept_err>(
			type, xdr_optrept_err, optinfo,
			[&](const optrept_err &err) -> const char * {
				if (u32(err.optre_bad.xmsi_dir) > 1 ||
				    (err.optre_lead && u32(err.optre_lead->xmsi_dir) > 1))
					return "a report of a direction that is none";
				/* The word behind the first id. */
				if (xdr::load_be32(optinfo.data() + 12) > 1)
					return "a report with a boolean that is none";
				return nullptr;
			},
			[](const Inside &mine, const optrept_err &err) {
				const auto &words = err.optre_info.optr_info_u.optri_range;
				const rtrext::Detail &detail = mine.report.detail;

				if (!same_id(mine.report.bad, err.optre_bad) ||
				    mine.report.has_lead != (err.optre_lead != nullptr) ||
				    (err.optre_lead && !same_id(mine.report.lead, *err.optre_lead)) ||
				    static_cast<u32>(detail.fault) != u32(err.optre_info.optre_which))
					return false;
				switch (err.optre_info.optre_which) {
				case OPTRERR_BADCONT:
					return true;
				case OPTRERR_BADTBSN:
				case OPTRERR_BADOFF:
				case OPTRERR_BADPL:
					if (detail.words[2] != words.optri_max)
						return false;
					[[fallthrough]];
				default:
					return detail.words[0] == words.optri_value &&
					       detail.words[1] == words.optri_min;
				}
			});
	}
}

/* By rtrext-01's own structures: @optinfo is one. */
bool option_decodes(u32 type, Bytes optinfo)
{
	switch (type) {
	case ROPT_XMTREQ:
		return Decoded<optxmt_req>(xdr_optxmt_req, optinfo).whole(optinfo);
	case ROPT_XMTRESP:
		return Decoded<optxmt_resp>(xdr_optxmt_resp, optinfo).whole(optinfo);
	case ROPT_XMTCONT:
		return Decoded<optxmt_cont>(xdr_optxmt_cont, optinfo).whole(optinfo);
	default:
		return Decoded<optrept_err>(xdr_optrept_err, optinfo).whole(optinfo);
	}
}

/* @hdr, encoded again, is what was decoded: it has no booleans but 0 and 1. Pads of opaque data may differ. */
bool canonical(const Decoded<rpcrdma2_xprt_hdr> &hdr, Bytes bytes)
{
	u8 again[kRoom];
	rpcrdma2_xprt_hdr value = hdr.value;

	return encode(xdr_rpcrdma2_xprt_hdr, value, again) == hdr.length &&
	       !memcmp(again, bytes.data(), hdr.length);
}

Verdict judge(const Decoded<rpcrdma2_xprt_hdr> &hdr, Bytes bytes)
{
	if (bytes.size() < 16)
		return {Error::message_size, nullptr};
	const u32 vers = xdr::load_be32(bytes.data() + 4), proc = xdr::load_be32(bytes.data() + 12);
	const auto &body = hdr.value.rdma_body.rpcrdma2_body_u;

	if (proc == RDMA2_ERROR) {
		if (!hdr.good)
			return {Error::bad_message, nullptr};
		if (vers != v2::version && body.rdma_error.rdma_err != RDMA2_ERR_VERS)
			return {Error::bad_message, "an ERROR of another version"};
		return {};
	}
	if (vers != v2::version)
		return {Error::no_protocol, "another version"};
	if (proc > 9 || proc == 2 || proc == 3)
		return {Error::not_supported, nullptr};
	if (proc >= RDMA2_CONNPROP) {
		if (!hdr.good)
			return {proc == RDMA2_RESPROP ? Error::bad_message : Error::protocol,
				nullptr};
		return {};
	}

	/* rpcgen's structure has no direction where it is cut short. */
	const u32 direction = bytes.size() < 20 ? ~0u : xdr::load_be32(bytes.data() + 16);
	if (direction > 1)
		return {Error::protocol, "a direction that is none"};
	const Error malformed = direction ? Error::bad_message : Error::protocol;
	if (proc == RDMA2_OPTIONAL) {
		if (bytes.size() < 24)
			return {malformed, nullptr};
		const u32 type = xdr::load_be32(bytes.data() + 20);
		if (type == 0 || type > 4 || type == (direction ? 1 : 2))
			return {direction ? Error::bad_message : Error::no_option,
				"an option that is none"};
		if (!hdr.good)
			return {malformed, nullptr};
		/* Beyond the least and the most that the structures can have, and not whole words. */
		const auto &info = body.rdma_optional.rdma_optinfo;
		const Bytes optinfo(reinterpret_cast<u8 *>(info.rdma_optinfo_val),
				    info.rdma_optinfo_len);
		const u32 least[] = {0, 20, 12, 12, 20}, most[] = {0, ~0u, ~0u, 12, 44};
		if (optinfo.size() < least[type] || optinfo.size() > most[type] ||
		    optinfo.size() % 4) {
			if (option_decodes(type, optinfo))
				fail(bytes, "the lengths of option %u", type);
			return {malformed, "optinfo of a length that is none"};
		}
		judge_inside(type, optinfo);
		return {};
	}
	if (!hdr.good)
		return {malformed, nullptr};
	if (!canonical(hdr, bytes))
		return {malformed, "a boolean that is none"};
	bool zero = false;
	for (auto *it = body.rdma_chunks.rdma_reads; it; it = it->rdma_next) {
		if (it->rdma_entry.rdma_position % 4)
			return {malformed, "a Position that is no multiple of four"};
		zero |= it->rdma_entry.rdma_position == 0;
	}
	if (proc == RDMA2_NOMSG)
		return zero || body.rdma_chunks.rdma_reply ?
			       Verdict{} :
			       Verdict{malformed, "a Payload stream that is nowhere"};
	if (zero)
		return {malformed, "a Payload stream in two places"};
	const Bytes payload = bytes.from(hdr.length);
	if (payload.size() < 8 || xdr::load_be32(payload.data()) != hdr.value.rdma_xid ||
	    xdr::load_be32(payload.data() + 4) != direction)
		return {malformed, "a payload that contradicts"};
	return {};
}

/* --- What ours reads, held against what rpcgen's reads --- */

bool same(const xdr::Segment &a, const rpcrdma2_segment &b)
{
	return a == ours(b);
}

bool same(const xdr::WriteChunk &a, const rpcrdma2_write_chunk &b)
{
	if (a.count() != b.rdma_target.rdma_target_len)
		return false;
	for (u32 i = 0; i < a.count(); i++)
		if (!same(a[i], b.rdma_target.rdma_target_val[i]))
			return false;
	return true;
}

bool same_lists(const xdr::Message &message, const rpcrdma2_chunk_lists &lists)
{
	auto *read = lists.rdma_reads;
	auto *write = lists.rdma_writes;

	if (static_cast<u32>(message.direction) != u32(lists.rdma_direction) ||
	    message.invalidate.get() != lists.rdma_inv_handle)
		return false;
	for (xdr::ReadSegment it : message.reads) {
		if (!read || it.position.get() != read->rdma_entry.rdma_position ||
		    !same(it.target, read->rdma_entry.rdma_target))
			return false;
		read = read->rdma_next;
	}
	for (xdr::WriteChunk it : message.writes) {
		if (!write || !same(it, write->rdma_entry))
			return false;
		write = write->rdma_next;
	}
	return !read && !write && message.reply.present() == (lists.rdma_reply != nullptr) &&
	       (!lists.rdma_reply || same(message.reply, *lists.rdma_reply));
}

/* The structure that @decoded stands for (version2: what contradicts itself is none). */
properties::Structure expected(const xpr_rbs &decoded)
{
	properties::Structure found;
	bool uniform = true;
	unsigned __int128 sum = 0;
	u32 segments = 0, length = 0;

	if (decoded.xmrbuf_groups.xmrbuf_groups_len > 64)
		return {};
	for (u32 i = 0; i < decoded.xmrbuf_groups.xmrbuf_groups_len; i++) {
		const xmrbs_group &group = decoded.xmrbuf_groups.xmrbuf_groups_val[i];
		const u32 each = group.xmrgrp_info.xmrseg_length;

		if (!group.xmrgrp_count || !each)
			return {};
		sum += u64(group.xmrgrp_count) * each;
		if (group.xmrgrp_info.xmrseg_flags & XMRSFLAG_DDP) {
			uniform &= !segments || each == length;
			segments += group.xmrgrp_count;
			length = each;
		} else if (segments) {
			uniform = false;
		}
	}
	if (sum > 1 << 20 || sum != decoded.xmrbuf_length)
		return {};
	found.total = u32(sum);
	if (uniform && segments) {
		found.segments = segments;
		found.segment_length = length;
	}
	return found;
}

/* What @set stands for, by rpcgen's decoders of the single properties. False: a known one does not decode. */
bool expected(const rpcrdma2_propset &set, properties::Properties &said)
{
	const properties::Properties defaults;

	said = {};
	for (u32 i = 0; i < set.rpcrdma2_propset_len; i++) {
		const rpcrdma2_propval &val = set.rpcrdma2_propset_val[i];
		const Bytes data(reinterpret_cast<u8 *>(val.rdma_data.rdma_data_val),
				 val.rdma_data.rdma_data_len);
		const u32 id = val.rdma_which;

		if (id == 0 || id > 6)
			continue;
		said.present |= 1u << (id - 1);
		if (id == 4) {
			Decoded<xpr_rbs> structure(xdr_xpr_rbs, data);

			if (!data.empty() && !structure.whole(data))
				return false;
			said.structure = data.empty() ? properties::Structure{} :
							expected(structure.value);
			continue;
		}
		Decoded<uint32> word(xdr_uint32, data);
		if (!data.empty() && !word.whole(data))
			return false;
		const u32 value = word.value;
		switch (id) {
		case 1:
			said.receive_size = data.empty() || value < 4096 ? defaults.receive_size :
									   value;
			break;
		case 2:
			if (!data.empty() && value > RDMA2_BKREQSUP_GENL)
				return false;
			said.backward = data.empty() ? defaults.backward :
						       static_cast<properties::Backward>(value);
			break;
		case 3:
			said.extensions = data.empty() ? 0 : value;
			break;
		case 5:
			said.call_limit = data.empty() || !value ? 1 : value;
			break;
		default:
			said.reply_limit = data.empty() || !value ? 1 : value;
		}
	}
	return true;
}

bool same(const properties::Properties &a, const properties::Properties &b)
{
	return a.present == b.present && a.receive_size == b.receive_size &&
	       a.backward == b.backward && a.extensions == b.extensions &&
	       a.structure == b.structure && a.call_limit == b.call_limit &&
	       a.reply_limit == b.reply_limit;
}

bool same_subset(const properties::Subset &a, const rpcrdma2_propsubset &b)
{
	for (u32 i = 0; i < (b.rpcrdma2_propsubset_len + 1) * 32; i++)
		if (a.has(i) != (i / 32 < b.rpcrdma2_propsubset_len &&
				 (b.rpcrdma2_propsubset_val[i / 32] >> i % 32 & 1)))
			return false;
	return true;
}

bool same_properties(Bytes bytes, const xdr::Message &message, const rpcrdma2_body &body)
{
	const auto &u = body.rpcrdma2_body_u;
	properties::Properties said, by_theirs;
	properties::Response response;
	bool good = false, equal = true;
	u32 nochange = 0;
	Error error;

	if (message.kind == xdr::Kind::resprop) {
		good = expected(u.rdma_resprop.rdma_other, by_theirs);
		error = properties::decode_resprop(message.body(), response);
		said = response.other;
		equal = same_subset(response.done, u.rdma_resprop.rdma_done) &&
			same_subset(response.rejected, u.rdma_resprop.rdma_rejected);
	} else if (message.kind == xdr::Kind::connprop) {
		const auto &set = u.rdma_connprop.rdma_start;
		u32 by_place = 0;

		good = expected(set, by_theirs);
		error = properties::decode_connprop(message.body(), said, nochange);
		for (u32 i = 0; good && i < set.rpcrdma2_propset_len; i++) {
			const u32 id = set.rpcrdma2_propset_val[i].rdma_which;
			const auto &subset = u.rdma_connprop.rdma_nochg;

			if (id >= 1 && id <= 6 && i / 32 < subset.rpcrdma2_propsubset_len &&
			    (subset.rpcrdma2_propsubset_val[i / 32] >> i % 32 & 1))
				by_place |= 1u << (id - 1);
		}
		equal = nochange == by_place;
	} else {
		good = expected(message.kind == xdr::Kind::reqprop ? u.rdma_reqprop.rdma_want :
								     u.rdma_updprop.rdma_now,
				by_theirs);
		error = properties::decode_updprop(message.body(), said);
	}
	if (!good) {
		classes["a known property that does not decode"]++;
		return error == Error::protocol;
	}
	if (error != Error::none)
		fail(bytes, "a property set is refused");
	return error == Error::none && equal && same(said, by_theirs);
}

/* Both read the same of what both take. */
bool same(Bytes bytes, const xdr::Message &message, const Decoded<rpcrdma2_xprt_hdr> &hdr)
{
	const auto &body = hdr.value.rdma_body.rpcrdma2_body_u;

	if (message.xid.get() != hdr.value.rdma_xid || message.version != hdr.value.rdma_vers ||
	    message.credits.get() != hdr.value.rdma_credit ||
	    static_cast<u32>(message.kind) != u32(hdr.value.rdma_body.rdma_proc) ||
	    message.header_length != hdr.length)
		return false;
	switch (hdr.value.rdma_body.rdma_proc) {
	case RDMA2_MSG:
	case RDMA2_NOMSG:
		return same_lists(message, body.rdma_chunks) &&
		       (message.kind == xdr::Kind::nomsg ||
			message.payload.data() == bytes.data() + hdr.length);
	case RDMA2_ERROR: {
		const auto &words = body.rdma_error.rpcrdma2_error_u.rdma_reply;
		const u32 code = body.rdma_error.rdma_err;

		if (static_cast<u32>(message.error.code) + 1 != code)
			return false;
		return (code != RDMA2_ERR_VERS && code != RDMA2_ERR_REPLY_RESOURCE) ||
		       (message.error.low == words.rdma_segment_index &&
			message.error.high == words.rdma_length_needed);
	}
	case RDMA2_OPTIONAL: {
		const auto &info = body.rdma_optional.rdma_optinfo;

		return static_cast<u32>(message.direction) == u32(body.rdma_optional.rdma_optdir) &&
		       static_cast<u32>(message.option) == body.rdma_optional.rdma_opttype &&
		       message.body().size() == info.rdma_optinfo_len &&
		       !memcmp(message.body().data(), info.rdma_optinfo_val, info.rdma_optinfo_len) &&
		       message.payload.size() == bytes.size() - hdr.length;
	}
	default:
		return same_properties(bytes, message, hdr.value.rdma_body);
	}
}

/* Both decode @bytes, and ours is held against theirs. Returns ours' outcome. */
Error judge_both(Bytes bytes)
{
	Decoded<rpcrdma2_xprt_hdr> hdr(xdr_rpcrdma2_xprt_hdr, bytes);
	xdr::Message message;
	const Error error = v2::decode(bytes, message);
	const Verdict verdict = judge(hdr, bytes);

	if (error != verdict.error)
		fail(bytes, "ours says %d, and should say %d (%s)", int(error), int(verdict.error),
		     verdict.why ? verdict.why : "both refuse or take it");
	else if (hdr.good && error != Error::none)
		classes[verdict.why ? verdict.why : "?"]++;
	else if (error == Error::none && !same(bytes, message, hdr))
		fail(bytes, "they read different things");
	outcomes[error == Error::none ? "taken by both" :
		 hdr.good	      ? "refused by ours alone" :
					"refused by both"]++;
	return error;
}

void spoil(u8 *bytes, u32 &length)
{
	switch (rng.below(8)) {
	case 0:
		length = rng.below(length);
		break;
	case 1:
		if (length + 4 < kRoom) {
			xdr::store_be32(bytes + length, rng.word());
			length += 4;
		}
		break;
	case 2:
		bytes[rng.below(length)] ^= u8(1u << rng.below(8));
		break;
	case 3: /* the words that say most */
		xdr::store_be32(bytes + min(4 * rng.below(7), (length - 4) & ~3u), rng.below(12));
		break;
	default: {
		u8 *at = bytes + 4 * rng.below(length / 4);

		xdr::store_be32(at, rng.below(2) ? rng.word() :
				    rng.below(2) ? xdr::load_be32(at) + 1 :
						   rng.below(12));
	}
	}
}

int check(u64 n)
{
	static const char *const expected_classes[] = {
		"an ERROR of another version",
		"another version",
		"a direction that is none",
		"an option that is none",
		"optinfo of a length that is none",
		"a result in a call",
		"a displacement that is no multiple of four",
		"displacements that do not ascend",
		"segments of another length than their item",
		"a set that ends before it begins",
		"sets that are not disjoint, or do not ascend",
		"a message of no transmission",
		"a report of a direction that is none",
		"a report with a boolean that is none",
		"a boolean that is none",
		"a Position that is no multiple of four",
		"a Payload stream that is nowhere",
		"a Payload stream in two places",
		"a payload that contradicts",
		"a known property that does not decode",
	};
	static u8 theirs[kRoom], mine[kRoom];
	u32 header, length, my_length, passed = 0, failed = 0;
	u64 encoded = 0;

	for (u64 i = 0; i < n; i++) {
		length = some_message(theirs, header, mine, my_length);
		if (my_length) {
			encoded++;
			if (my_length != header || memcmp(theirs, mine, header) != 0)
				fail({mine, my_length}, "they encode different bytes");
		}
		if (judge_both({theirs, length}) != Error::none)
			fail({theirs, length}, "ours refuses what it should take");
	}
	printf("%s %lu random messages decoded by both, %lu of them encoded by both\n",
	       failures ? "FAILED  " : "passed  ", (unsigned long)n, (unsigned long)encoded);
	(failures ? failed : passed)++;
	classes.clear();
	outcomes.clear();
	const u64 before = failures;
	spoiling = true;
	for (u64 i = 0; i < n; i++) {
		length = some_message(theirs, header, mine, my_length);
		for (u32 k = 1 + rng.below(3); k != 0 && length >= 4; k--)
			spoil(theirs, length);
		/* What lies behind the end is not there for either. */
		judge_both({theirs, length});
	}
	printf("%s %lu spoiled messages judged by both\n",
	       failures != before ? "FAILED  " : "passed  ", (unsigned long)n);
	(failures != before ? failed : passed)++;
	for (const auto &it : outcomes)
		printf("         %9lu %s\n", (unsigned long)it.second, it.first.c_str());
	for (const char *name : expected_classes) {
		const u64 met = classes[name];

		printf("%s %9lu %s\n", met ? "passed  " : "FAILED  ", (unsigned long)met, name);
		(met ? passed : failed)++;
		classes.erase(name);
	}
	for (const auto &it : classes) {
		printf("FAILED   %9lu of no class: %s\n", (unsigned long)it.second,
		       it.first.c_str());
		failed++;
	}
	printf("%u passed, %u failed, 0 skipped\n", passed, failed);
	return failed ? 1 : 0;
}

/* --- Speed --- */

template <typename Work> double nanoseconds(Work &&work)
{
	double best = 1e9;

	for (int round = 0; round < 5; round++) {
		constexpr int times = 100000;
		const auto began = std::chrono::steady_clock::now();
		for (int i = 0; i < times; i++)
			work();
		const std::chrono::duration<double, std::nano> took =
			std::chrono::steady_clock::now() - began;
		best = min(best, took.count() / times);
	}
	return best;
}

int speed()
{
	constexpr double least = 5;
	u32 passed = 0, failed = 0;
	struct Shape {
		const char *name;
		u32 reads, segments;
	};

	for (const Shape &shape :
	     {Shape{"inline", 0, 0}, Shape{"read-1", 1, 0}, Shape{"read-16", 16, 0},
	      Shape{"write-1", 0, 1}, Shape{"write-16", 0, 16}, Shape{"CONNPROP", ~0u, 0}}) {
		static u8 bytes[kRoom];
		u32 length;

		if (shape.reads == ~0u) {
			properties::Properties said;

			said.receive_size = 20480;
			said.structure = {20480, 4, 4096};
			said.present = properties::all;
			length = v2::encode_connprop(bytes, Xid(7), Credits(1), said, 0).value();
		} else {
			v2::Encoder encoder(bytes, Xid(7), Credits(1), xdr::Kind::msg,
					    xdr::Direction::call, Rkey(0x1234));

			for (u32 i = 0; i < shape.reads; i++)
				encoder.read_segment(Position(140), {Rkey(i), 4096, i});
			if (shape.segments)
				encoder.write_chunk(shape.segments);
			for (u32 i = 0; i < shape.segments; i++)
				encoder.segment({Rkey(i), 4096, i});
			length = encoder.finish().value();
			xdr::store_be32(bytes + length, 7);
			xdr::store_be32(bytes + length + 4, 0);
			length += 8;
		}
		const double mine = nanoseconds([&] {
			xdr::Message message;
			if (v2::decode({bytes, length}, message) != Error::none)
				abort();
			u64 sum = 0;
			for (xdr::ReadSegment it : message.reads)
				sum += it.target.offset;
			for (xdr::WriteChunk chunk : message.writes)
				for (xdr::Segment it : chunk)
					sum += it.offset;
			asm volatile("" : : "r"(sum), "m"(message));
		});
		const double theirs = nanoseconds([&] {
			Decoded<rpcrdma2_xprt_hdr> hdr(xdr_rpcrdma2_xprt_hdr, {bytes, length});
			if (!hdr.good)
				abort();
			asm volatile("" : : "m"(hdr));
		});
		const bool good = theirs >= least * mine;

		printf("%s %-10s %7.1f ns, rpcgen's %7.1f ns: %.1f times as fast\n",
		       good ? "passed  " : "FAILED  ", shape.name, mine, theirs, theirs / mine);
		(good ? passed : failed)++;
	}
	for (const u32 items : {0u, 1u, 4u}) {
		static u8 bytes[kRoom];
		const u32 numbers[] = {0, 1, 2, 3};
		rtrext::Encoder encoder(bytes, Xid(7), Credits(1), xdr::Option::xmtreq);

		for (u32 i = 0; i < items; i++)
			encoder.sent(140 + 20000 * i, 16384, 0, numbers);
		encoder.set(0, ~0u);
		encoder.place_sent(8192);
		const u32 length = encoder.finish(1, 4, 200).value();
		const double mine = nanoseconds([&] {
			xdr::Message message;
			rtrext::Request request;
			if (v2::decode({bytes, length}, message) != Error::none ||
			    rtrext::decode(message.body(), request) != Error::none)
				abort();
			u64 sum = 0;
			for (const rtrext::Item &item : request.items)
				for (u32 n = 0; n < item.numbers.count(); n++)
					sum += item.numbers[n];
			asm volatile("" : : "r"(sum), "m"(message), "m"(request));
		});
		const double theirs = nanoseconds([&] {
			Decoded<rpcrdma2_xprt_hdr> hdr(xdr_rpcrdma2_xprt_hdr, {bytes, length});
			const auto &info =
				hdr.value.rdma_body.rpcrdma2_body_u.rdma_optional.rdma_optinfo;
			Decoded<optxmt_req> request(xdr_optxmt_req,
						    {reinterpret_cast<u8 *>(info.rdma_optinfo_val),
						     info.rdma_optinfo_len});
			if (!request.good)
				abort();
			asm volatile("" : : "m"(request));
		});
		const bool good = theirs >= least * mine;

		printf("%s XMTREQ-%u   %7.1f ns, rpcgen's %7.1f ns: %.1f times as fast\n",
		       good ? "passed  " : "FAILED  ", items, mine, theirs, theirs / mine);
		(good ? passed : failed)++;
	}
	printf("%u passed, %u failed, 0 skipped\n", passed, failed);
	return failed ? 1 : 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--speed"))
		return speed();
	const u64 n = argc == 2 ? strtoull(argv[1], nullptr, 10) : 0;
	if (n == 0) {
		fprintf(stderr, "usage: crosscheck N | --speed\n");
		return 2;
	}
	return check(n);
}
