// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the targets for whole peers share: a simulated world (selftests/sim/) for each input, in which one of the
 * two cores faces a stranger, and the input says what that one does. The first half word is the seed of
 * everything else: who runs when, and what calls look like. Whatever the world forbids fails the target.
 */
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>

#include "compat/port/trace.h"
#include "module/client/client.hh"
#include "module/server/failures.hh"
#include "module/server/server.hh"
#include "selftests/fuzz/fuzz.hh"
#include "selftests/sim/consumer.hh"
#include "selftests/sim/stranger.hh"
#include "xdr/private_data.hh"
#include "xdr/rtrext.hh"
#include "xdr/v2.hh"

namespace sim {

/** Steps of an input that are executed; the rest is not read. */
constexpr u32 kMostSteps = 48;
constexpr u32 kInputMaxMessage = 65536 + kPageSize;

using Octets = std::vector<u8>;

inline rpcordma::Bytes view(const Octets &bytes)
{
	return {bytes.data(), bytes.size()};
}

inline Octets octets(rpcordma::Bytes bytes)
{
	return {bytes.begin(), bytes.end()};
}

inline u32 xid_of(const Octets &message)
{
	return message.size() < 4 ? 0 : rpcordma::xdr::load_be32(message.data());
}

/** A message, in the version that it says it has; any but 2 is 1. */
inline rpcordma::Result<rpcordma::xdr::Message> understood(const Octets &message)
{
	const auto fixed = rpcordma::xdr::peek(view(message));
	rpcordma::xdr::Message header;

	if (!fixed.ok() || fixed.value().vers != rpcordma::v2::version)
		return rpcordma::decoded(view(message));
	const rpcordma::Error error = rpcordma::v2::decode(view(message), header);
	if (error != rpcordma::Error::none)
		return error;
	return header;
}

/** Whether @message is the first transmission of one of which a part is sent as an item. */
inline bool has_items(const Octets &message)
{
	const auto header = understood(message);
	rpcordma::rtrext::Request request;

	return header.ok() && header.value().kind == rpcordma::xdr::Kind::optional &&
	       header.value().option == rpcordma::xdr::Option::xmtreq &&
	       rpcordma::rtrext::decode(header.value().body(), request) == rpcordma::Error::none &&
	       request.items.count();
}

/**
 * RPC messages that one end sends in transmissions of rtrext-01: a lead, and then XMTCONTs, one behind the other. Of messages
 * with items nothing comes: where these are placed is the unit tests' and the simulation's.
 */
class Transmissions {
public:
	/** What @message is. */
	enum class What {
		other, /* nothing of it, or out of its order */
		part,
		last, /* stream() has the RPC message */
	};
	/** @items: whether a reply may have some, which whoever asks puts where they belong. */
	explicit Transmissions(bool items = false) : items_(items)
	{
	}
	What add(const Octets &message)
	{
		using rpcordma::xdr::Option;
		const auto header = understood(message);
		const bool ok = header.ok() && header.value().kind == rpcordma::xdr::Kind::optional;
		const rpcordma::xdr::Message &m = header.value();
		rpcordma::rtrext::Continuation part;
		u32 length = 0;

		if (ok && m.option == Option::xmtcont && left_ && m.xid.get() == xid_ &&
		    rpcordma::rtrext::decode(m.body(), part) == rpcordma::Error::none &&
		    part.number == next_ && part.lead == u32(lead_)) {
			length = part.stream_length;
			next_++;
			left_--;
		} else {
			left_ = 0;
			if (!ok || !leads_(m, length))
				return What::other;
			xid_ = m.xid.get();
			lead_ = m.option;
			next_ = 1;
			stream_.clear();
		}
		const Octets bytes = octets(m.payload);
		if (length > bytes.size()) {
			left_ = 0;
			return What::other;
		}
		stream_.insert(stream_.end(), bytes.begin(), bytes.begin() + length);
		return left_ ? What::part : What::last;
	}
	const Octets &stream() const
	{
		return stream_;
	}
	/** Of the message that came last. */
	u32 count() const
	{
		return next_ + left_;
	}

private:
	/* Whether @m begins a message; then left_ is what follows, and @length that of its stream. */
	bool leads_(const rpcordma::xdr::Message &m, u32 &length)
	{
		using rpcordma::xdr::Option;
		const auto is = [&](auto lead, Option option) {
			const bool may = items_ && option == Option::xmtresp;

			if (m.option != option ||
			    rpcordma::rtrext::decode(m.body(), lead) != rpcordma::Error::none ||
			    (lead.items.count() && !may))
				return false;
			left_ = lead.transmissions - 1;
			length = lead.stream_length;
			return true;
		};
		return is(rpcordma::rtrext::Request(), Option::xmtreq) ||
		       is(rpcordma::rtrext::Response(), Option::xmtresp);
	}

	const bool items_;
	u32 xid_ = 0, next_ = 0, left_ = 0;
	rpcordma::xdr::Option lead_ = rpcordma::xdr::Option::none;
	Octets stream_;
};

/** What a world needs before anybody lives in it. */
struct Ground {
	explicit Ground(rpcordma::Input &in)
	{
		given_up.clear();
		dropped_calls.clear();
		rpcordma::server_failures = rpcordma::Failures();
		rpcordma_tunables.slot_table_entries = 8;
		rpcordma_server_tunables.max_requests = 8;
		rpcordma_server_tunables.max_outbound_read_requests = 4;
		rpcordma_server_tunables.eager_read_bytes = 0;
		rpcordma_server_tunables.rnr_retry_count = 7;
		const u8 how = in.byte();
		const u32 inline_size = how & 1 ? 4096 : 1024;
		rpcordma_tunables.max_inline_read = rpcordma_tunables.max_inline_write = inline_size;
		rpcordma_server_tunables.max_req_size = inline_size;
		rpcordma_tunables.scratch_remap = how & 2;
		/* 3: who has the mark, with a head and pages in each Receive, as soon as the server's grant is what asks for them. */
		const u32 versions = how >> 6;
		const bool pages = versions == 3;
		rpcordma_tunables.version2 = rpcordma_server_tunables.version2 = pages ? 1 :
											 versions;
		rpcordma_tunables.version2_pages = rpcordma_server_tunables.version2_pages =
			pages ? 4 : 0;
		rpcordma_tunables.version2_rtr = rpcordma_server_tunables.version2_rtr = pages ? 7 :
												 0;
		rpcordma_server_tunables.version2_receive_bytes = 64 << 20;
		if (pages)
			rpcordma_server_tunables.max_requests = 32;
		for (Host *host : {&fabric_.client, &fabric_.server}) {
			host->devices.push_back(std::make_unique<Device>("device"));
			rpcordma_device &limits = host->devices[0]->limits;
			limits.fast_registration = true;
			limits.sg_gaps = how & 4;
			limits.max_fast_reg_pages = how & 8 ? 32 : 256;
			limits.max_send_sge = limits.max_sge_rd = how & 16 ? 4 : 16;
			limits.max_recv_sge = how & 16 ? 1 : 6;
			limits.max_qp_wr = limits.max_cqe = how & 32 ? 256 : 4096;
			limits.max_qp_rd_atom = limits.max_qp_init_rd_atom = 4;
			limits.page_size = limits.mr_page_size = kPageSize;
		}
		fabric_.strangers = true;
	}

private:
	Memory memory_;
	Fabric fabric_;
};

/** How many bytes more than one byte of the input says a payload has, by the bits of its step that are free. */
inline u32 more_bytes(u8 step)
{
	return (step >> 3 & 15) * 1360;
}

/** What runs short from here on, by a byte of the input; nothing by 0. */
inline void set_faults(u8 what)
{
	static const u32 odds[] = {0, 4, 20, 100};

	faults.memory = odds[what & 3];
	faults.mapping = odds[(what >> 2) & 3];
	faults.posting = odds[(what >> 4) & 3];
	faults.slowness = what & 64 ? 4 : 0;
	faults.patience = 20;
	faults.active = what;
}

/** The private data that a stranger sends, by the input: none, valid ones, or any bytes. */
inline Octets private_data_of(rpcordma::Input &in, bool &invalidation)
{
	const u8 how = in.byte();
	Octets bytes;

	invalidation = false;
	if (how & 1) {
		const bool mark = how & 64;

		bytes.resize(mark ? rpcordma::private_data::marked_length :
				    rpcordma::private_data::length);
		(void)rpcordma::private_data::encode({bytes.data(), bytes.size()},
						     {1024u << ((how >> 1) & 3),
						      1024u << ((how >> 3) & 3), bool(how & 32),
						      mark});
		invalidation = how & 32;
	} else if (how & 2) {
		bytes = octets(in.take(how >> 2));
		const auto meant = rpcordma::private_data::parse(view(bytes));
		invalidation = meant.ok() && meant.value().remote_invalidation;
	}
	return bytes;
}

/** Let others run: by default, long enough for a message to go there and another one to come back. */
inline void settle(u64 microseconds = 2 * kMillisecond)
{
	sleep_for(microseconds, "the next step");
}

/** Run the input in the world of its seed. */
inline void in_world(void (*story)(rpcordma::Input &in))
{
	rpcordma::Input in;
	const u32 seed = in.half();

	end_of_failed_run = std::abort;
	/* To see what an input does. */
	tracing = std::getenv("SIM_TRACE");
	rpcordma_trace_enabled = tracing ? ~0u : u32(RPCORDMA_TRACE_FAILURE);
	run_world(seed, [&] { story(in); });
}

} // namespace sim
