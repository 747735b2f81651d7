// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clients whose calls have several Read chunks: at any Positions, beside each other or with something between, with the
 * bytes in between inline or in a Position Zero chunk, and their segments in any order on the list, some of them empty. None
 * of our own clients makes such calls, and few others do; the rules allow them (RFC 8166 3.4.5), in either version. The service
 * has to get each byte at its place, and each byte that was offered is to be read once. A call that is sent again, over another
 * connection, is cut in another way, and still is the same to the service's reply cache.
 */
#include "selftests/sim/scenario.hh"

#include <algorithm>
#include <cstring>

#include "selftests/sim/server_play.hh"
#include "selftests/sim/swarm.hh"
#include "selftests/sim/versions.hh"

namespace sim {
namespace {

namespace v1 = rpcordma::v1;
namespace v2 = rpcordma::v2;
namespace xdr = rpcordma::xdr;
using rpcordma::Credits;
using rpcordma::MutableBytes;
using rpcordma::Position;
using rpcordma::Rkey;
using rpcordma::Xid;
using Octets = std::vector<u8>;

constexpr u32 kMostData = 60000, kMostChunks = 6, kMostSegments = 4, kCredits = 8;
/* Beside the longest list of segments. */
constexpr u32 kMostInline = kLeast - 64 - 24 * (kMostChunks + 1) * kMostSegments;
constexpr u64 kAddress = u64(5) << 33;

/* Bytes of a stream that are in a chunk of their own. */
struct Cut {
	u32 from, to;
};

/* A segment that is offered, and the bytes that it stands for. */
struct Offer {
	u32 position;
	xdr::Segment segment;
	Octets bytes;
	Octets read; /* 1 for each that was */
};

class ChunkingClient : public Stranger {
public:
	explicit ChunkingClient(u32 version) : Stranger("client with chunks"), version_(version)
	{
	}

	/** Ask for version 2, if that is spoken. False: the connection is lost. */
	bool greet(u32 xid)
	{
		Octets hello(256);

		if (version_ == v1::version)
			return true;
		const auto length = rpcordma::protocol::encode_properties(
			MutableBytes(hello.data(), hello.size()), Xid(xid), Credits(kCredits),
			{kLeast, 0, 0}, 0);
		hello.resize(length.value());
		greets_ = true;
		return ask_(xid, hello);
	}

	/** Make @call, with @xid. False: the connection is lost. */
	bool call(const Call &call, u32 xid)
	{
		const Octets stream = call_bytes(call, xid);

		call_ = call;
		return ask_(xid, make_(stream, xid));
	}

	void heard(const Octets &message, u32 invalidated) override
	{
		const xdr::Message header = decode_message(message.data(), u32(message.size()));

		REQUIRE(!invalidated, "a client's memory is invalidated, uninvited");
		REQUIRE(header.version == version_ && header.xid.get() == waits_,
			"xid %#x is answered, in version %u, instead of %#x", header.xid.get(),
			header.version, waits_);
		if (greets_) {
			REQUIRE(header.kind == xdr::Kind::connprop, "no answer to the question");
		} else {
			REQUIRE(header.kind == xdr::Kind::msg && !header.has_chunks(),
				"xid %#x is answered by kind %u", waits_, u32(header.kind));
			const Octets reply(header.payload.begin(), header.payload.end());
			fabric->ledger.take(check_reply(call_, waits_, reply), waits_, call_.id,
					    connection());
			for (const Offer &offer : offers_)
				REQUIRE(std::find(offer.read.begin(), offer.read.end(), 0) ==
						offer.read.end(),
					"xid %#x: bytes are not read, at Position %u", waits_,
					offer.position);
		}
		greets_ = false;
		waits_ = 0;
	}

	bool reached(u64 address, u32 key, u32 length, u8 *buffer, Access access) override
	{
		REQUIRE(access == Access::read, "a call's memory is written");
		REQUIRE(length, "a Read of nothing");
		for (Offer &offer : offers_) {
			const u64 at = address - offer.segment.offset;

			if (offer.segment.handle.get() != key || address < offer.segment.offset ||
			    at >= offer.bytes.size() || length > offer.bytes.size() - at)
				continue;
			std::memcpy(buffer, &offer.bytes[at], length);
			const auto begin = offer.read.begin() + u32(at);
			REQUIRE(std::find(begin, begin + length, 1) == begin + length,
				"xid %#x: bytes are read twice", waits_);
			std::fill(begin, begin + length, 1);
			return true;
		}
		fail("xid %#x: %u bytes at %#llx, key %#x, which were not offered", waits_, length,
		     static_cast<unsigned long long>(address), key);
	}

private:
	/* Say @message, and wait until it is answered. */
	bool ask_(u32 xid, const Octets &message)
	{
		waits_ = xid;
		if (!say(message))
			return false;
		for (u32 patience = 400; waits_ && other() && patience; patience--)
			sleep_for(50 * kMillisecond, "an answer");
		/* One that was put off may be dropped. */
		REQUIRE(!waits_ || !other() || dropped_calls.count(xid), "xid %#x is not answered",
			waits_);
		return !waits_;
	}

	/* Where something begins or ends: anywhere behind the header, and often at what is looked at. */
	u32 draw_boundary_(u32 length) const
	{
		/* All of the header is inline, and the sequence number that begins sealed arguments. */
		const u32 header = call_.arguments_at() + (call_.sealed ? 4 : 0),
			  front = call_.call_front();
		const u32 edges[] = {header, front, front + Call::padded(call_.call_data),
				     kPageSize * chance.between(1, 1 + length / kPageSize), length};
		u32 at = chance.one_in(2) ? chance.any_of(edges) :
					    header + chance.below(length - header + 4);

		if (chance.one_in(4))
			at += 4 * chance.below(4);
		return std::min(std::max(at & ~3u, header), length);
	}

	/* Chunks of a stream of @length bytes, by ascending Position. */
	std::vector<Cut> draw_cuts_(u32 length) const
	{
		std::vector<u32> bounds;
		std::vector<Cut> cuts;

		for (u32 i = 2 * chance.between(1, kMostChunks); i; i--)
			bounds.push_back(draw_boundary_(length));
		std::sort(bounds.begin(), bounds.end());
		/* Side by side, now and then. */
		for (u32 i = 1; i + 1 < bounds.size(); i += 2)
			if (chance.one_in(4))
				bounds[i + 1] = bounds[i];
		for (u32 i = 0; i + 1 < bounds.size(); i += 2)
			if (bounds[i] < bounds[i + 1])
				cuts.push_back({bounds[i], bounds[i + 1]});
		return cuts;
	}

	void offer_(u32 position, const u8 *bytes, u32 length)
	{
		const u64 address = kAddress + (u64(offers_.size()) << 20) + chance.below(4096);
		Offer offer = {position,
			       {Rkey(0x100 + chance.below(3)), length, address},
			       Octets(bytes, bytes + length),
			       Octets(length)};

		offers_.push_back(std::move(offer));
	}

	/* As some segments, of any lengths. */
	void offer_chunk_(u32 position, const Octets &bytes)
	{
		u32 at = 0;

		for (u32 n = chance.between(1, kMostSegments); n > 1; n--) {
			const u32 length =
				chance.one_in(5) ? 0 : chance.below(u32(bytes.size()) - at + 1);

			offer_(position, bytes.data() + at, length);
			at += length;
		}
		offer_(position, bytes.data() + at, u32(bytes.size()) - at);
	}

	/* Any order of those of two chunks; those of one stay as they are. */
	void shuffle_()
	{
		for (u32 i = 0; i + 1 < offers_.size(); i++)
			for (u32 j = u32(offers_.size()) - 1; j > i; j--)
				if (offers_[j].position != offers_[j - 1].position &&
				    chance.one_in(2))
					std::swap(offers_[j], offers_[j - 1]);
	}

	/* Offer the chunks of @stream. Returns what is between. */
	Octets cut_(const Octets &stream)
	{
		const u32 data_end = call_.call_front() + call_.call_data;
		Octets rest;
		u32 done = 0;

		offers_.clear();
		chunks_ = 0;
		for (const Cut &cut : draw_cuts_(u32(stream.size()))) {
			Octets bytes(stream.begin() + cut.from, stream.begin() + cut.to);

			/* XDR padding need not be in a chunk, where the chunk ends with it. */
			if (cut.to == Call::padded(data_end) && cut.from < data_end &&
			    chance.one_in(2))
				bytes.resize(data_end - cut.from);
			rest.insert(rest.end(), stream.begin() + done, stream.begin() + cut.from);
			done = cut.to;
			offer_chunk_(cut.from, bytes);
			chunks_++;
		}
		rest.insert(rest.end(), stream.begin() + done, stream.end());
		return rest;
	}

	template <typename Encoder>
	Octets encode_(Encoder encoder, Octets &room, const Octets &rest)
	{
		for (const Offer &offer : offers_)
			encoder.read_segment(Position(offer.position), offer.segment);
		const auto header = encoder.finish();
		REQUIRE(header.ok(), "a stranger's message has no room");
		room.resize(header.value());
		room.insert(room.end(), rest.begin(), rest.end());
		return room;
	}

	Octets make_(const Octets &stream, u32 xid)
	{
		Octets room(kLeast), rest = cut_(stream);
		/* Or what is between the chunks would not fit. */
		const bool whole = chance.one_in(3) || rest.size() > kMostInline;

		if (whole) {
			offer_chunk_(0, rest);
			rest.clear();
		}
		shuffle_();
		VersionTalk::several_reads[version_ - 1] += chunks_ > 1;
		const xdr::Kind kind = whole ? xdr::Kind::nomsg : xdr::Kind::msg;
		const MutableBytes to(room.data(), room.size());
		return version_ == v1::version ?
			       encode_(v1::Encoder(to, Xid(xid), Credits(kCredits), kind), room,
				       rest) :
			       encode_(v2::Encoder(to, Xid(xid), Credits(kCredits), kind,
						   xdr::Direction::call, Rkey()),
				       room, rest);
	}

	const u32 version_;
	Call call_;
	std::vector<Offer> offers_;
	u32 chunks_ = 0;      /* but for that of Position Zero */
	u32 waits_ = 0;	      /* the xid that is to be answered; 0: none */
	bool greets_ = false; /* that is the question's */
};

class ChunkPlay : ServerPlay {
public:
	ChunkPlay()
	{
		static const u32 sges[] = {1, 2, 4, 6, 32};

		rpcordma_server_tunables.max_requests = chance.between(4, 16);
		rpcordma_server_tunables.max_req_size = kLeast;
		rpcordma_server_tunables.max_outbound_read_requests = chance.between(1, 16);
		rpcordma_server_tunables.eager_read_bytes = chance.one_in(2);
		rpcordma_server_tunables.version2 = 1;
		rpcordma_server_tunables.version2_rtr = chance.one_in(2) ? 7 : 0;
		rpcordma_server_tunables.version2_pages = 0;
		for (Host *host : {&fabric_.client, &fabric_.server}) {
			rpcordma_device &limits = add_device_(*host);

			limits.max_send_sge = limits.max_sge_rd = limits.max_recv_sge =
				chance.any_of(sges);
			limits.max_qp_wr = limits.max_cqe = chance.one_in(2) ? 300 : 4096;
			limits.max_qp_rd_atom = limits.max_qp_init_rd_atom = chance.between(1, 16);
			/* iWARP */
			limits.read_needs_region = chance.one_in(4);
			if (limits.read_needs_region)
				limits.max_sge_rd = 1;
		}
		begin_();
		files_.defers = chance.one_in(3) ? chance.between(2, 20) : 0;
	}

	void run()
	{
		serve_(2 * kMostData, [this] {
			for (u32 i = chance.between(1, 3); i; i--) {
				talk_(chance.between(1, 2));
				sleep_for(kSecond, "the next client");
			}
		});
	}

private:
	void talk_(u32 version)
	{
		ChunkingClient client(version);

		if (!client.connect(kSpeaksVersion2) && client.greet(++xid_)) {
			/* The last one of the connection before, which has been answered. */
			if (last_.id && chance.one_in(2))
				(void)client.call(last_, last_xid_);
			for (u32 i = chance.between(1, 10); i; i--) {
				last_ = draw_();
				last_xid_ = ++xid_;
				if (!client.call(last_, last_xid_))
					break;
			}
		}
		client.leave();
	}

	/* One whose reply fits a message. */
	Call draw_()
	{
		Call call;

		call.id = xid_ + 100;
		call.kind = chance.one_in(4) ? Kind::small :
			    chance.one_in(4) ? Kind::linking :
					       Kind::write;
		call.credential = chance.below(10);
		call.verifier = chance.below(6);
		call.sealed = chance.one_in(8);
		call.changes = chance.one_in(2);
		call.wide_call = chance.one_in(2) ? chance.below(300) : 0;
		call.call_data = swarm.draw_length(call.kind == Kind::small ? 3000 : kMostData);
		call.reply_data = chance.below(100);
		return call;
	}

	u32 xid_ = 0x3000, last_xid_ = 0;
	Call last_;
};

} // namespace

void strange_chunks()
{
	ChunkPlay().run();
}

} // namespace sim
