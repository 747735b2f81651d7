// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clients that have directions for the results of their calls (rtrext-01), and say anything in them: types, lengths, segments
 * that are short, empty, or nobody's; who take what is sent in Receives of any structure. What the server has to make of
 * each is known here, by rules of this file's own: how the result comes, in how many transmissions, and each byte of it, also
 * of the memory around what is written.
 */
#include "selftests/sim/scenario.hh"

#include <algorithm>
#include <cstring>

#include "selftests/sim/server_play.hh"
#include "selftests/sim/versions.hh"
#include "xdr/rtrext.hh"

namespace sim {
namespace {

namespace rtrext = rpcordma::rtrext;
namespace properties = rpcordma::properties;
namespace xdr = rpcordma::xdr;
using rpcordma::Credits;
using rpcordma::MutableBytes;
using rpcordma::Rkey;
using rpcordma::Xid;
using Octets = std::vector<u8>;

constexpr u32 kMostData = 70000, kMemory = 100000, kKey = 0x5e6;
constexpr u64 kAddress = u64(3) << 33;
/* What is in memory that nobody wrote to. */
constexpr u8 kUntouched = 0xa9;

/* A direction, as it is said. */
struct Direction {
	rtrext::Type type = rtrext::Type::sent;
	u32 least = 0, most_sent = 0;
	std::vector<xdr::Segment> segments;

	u64 offered() const
	{
		u64 sum = 0;

		for (const xdr::Segment &segment : segments)
			sum += segment.length;
		return sum;
	}
};

struct Room {
	u32 head = 4096, segments = 0, each = 0;

	u32 total() const
	{
		return head + segments * each;
	}
};

/* How a result comes. */
struct Outcome {
	rtrext::Type type = rtrext::Type::none;
	u32 transmissions = 0; /* 0: it cannot come so */
};

class DirectingClient : public Stranger {
public:
	DirectingClient() : Stranger("client with directions"), memory_(kMemory)
	{
		static const Room rooms[] = {{4096, 0, 0},     {4096, 4, 4096}, {4096, 1, 4096},
					     {4096, 2, 1024},  {1024, 3, 1024}, {8192, 4, 4096},
					     {4096, 16, 1024}, {2048, 1, 8192}};

		room_ = chance.any_of(rooms);
	}

	void talk()
	{
		Octets hello(256);
		const u32 xid = ++last_xid_;
		/* RBSIZ, RTRSUPP and RBSTRUCT: of two groups, if there are two. */
		std::vector<u32> all = {xid, 2, 64, 6, 3, 1, 4, room_.total(), 3, 4, 7, 4};
		const std::vector<u32> one = {24, room_.total(), 1, 1, room_.head, 8, 0};
		const std::vector<u32> two = {40, room_.total(),  2,	      1,    room_.head, 8,
					      0,  room_.segments, room_.each, 4096, 1};
		all.insert(all.end(), room_.segments ? two.begin() : one.begin(),
			   room_.segments ? two.end() : one.end());
		all.push_back(0);
		hello.resize(all.size() * 4);
		for (std::size_t i = 0; i < all.size(); i++)
			xdr::store_be32(&hello[4 * i], all[i]);
		waits_ = xid;
		greets_ = true;
		if (!say(hello))
			return;
		rest_();
		for (u32 i = chance.between(1, 12); i && other(); i--) {
			call_();
			rest_();
		}
	}

	void heard(const Octets &message, u32 invalidated) override
	{
		const xdr::Message header = decode_message(message.data(), u32(message.size()));

		REQUIRE(!invalidated, "directions have R_keys that nobody may invalidate");
		REQUIRE(header.xid.get() == waits_, "xid %#x is answered instead of %#x",
			header.xid.get(), waits_);
		if (greets_) {
			REQUIRE(header.kind == xdr::Kind::connprop, "no answer to the question");
			greets_ = false;
			waits_ = 0;
			return;
		}
		if (parts_.empty() && header.kind != xdr::Kind::optional)
			return take_other_(header);
		parts_.push_back(message);
		rtrext::Response response;
		const xdr::Message lead = decode_message(parts_[0].data(), u32(parts_[0].size()));
		REQUIRE(lead.option == xdr::Option::xmtresp &&
				rtrext::decode(lead.body(), response) == rpcordma::Error::none,
			"xid %#x: no XMTRESP", waits_);
		if (parts_.size() < response.transmissions)
			return;
		check_(lead, response);
		parts_.clear();
		waits_ = 0;
	}

	bool reached(u64 address, u32 key, u32 length, u8 *buffer, Access access) override
	{
		REQUIRE(access == Access::write, "the memory of results is read");
		REQUIRE(length, "a Write of nothing");
		bool offered = false;
		for (const Direction &direction : directions_)
			for (const xdr::Segment &segment : direction.segments)
				offered = offered ||
					  (segment.handle.get() == key && address >= segment.offset &&
					   address - segment.offset <= segment.length &&
					   length <= segment.length - (address - segment.offset));
		REQUIRE(offered, "xid %#x: %u bytes at %#llx, key %#x, which were not offered",
			waits_, length, (unsigned long long)address, key);
		if (key != kKey) {
			refused_ = true;
			return false;
		}
		std::memcpy(&memory_.at(address - kAddress), buffer, length);
		return true;
	}

private:
	/* Until it is answered, if it is to be. */
	void rest_()
	{
		for (u32 patience = 200; waits_ && !refused_ && other() && patience; patience--)
			sleep_for(50 * kMillisecond, "an answer");
		REQUIRE(!waits_ || refused_ || !other(), "xid %#x is not answered", waits_);
	}

	/* Segments of the memory, from @at on: some are empty, and at times one is nobody's. */
	std::vector<xdr::Segment> segments_(u32 &at)
	{
		std::vector<xdr::Segment> segments;

		for (u32 n = chance.below(5); n; n--) {
			const u32 length = chance.one_in(5) ? 0 :
					   chance.one_in(3) ? chance.below(kMostData) :
							      chance.below(6000);
			if (at + length > kMemory)
				break;
			segments.push_back({Rkey(kKey), length, kAddress + at});
			/* Something is between them. */
			at += length + chance.below(3);
		}
		/* Behind those that most results need, and of more than all memory. */
		if (chance.one_in(12))
			segments.push_back(
				{Rkey(0xbad), chance.one_in(2) ? ~u32(0) : 5000, ~u64(99)});
		return segments;
	}

	void draw_()
	{
		u32 at = chance.below(9);

		call_data_ = {};
		call_data_.id = waits_;
		call_data_.kind = chance.one_in(6) ? Kind::small :
				  chance.one_in(6) ? Kind::listing :
						     Kind::read;
		call_data_.credential = chance.below(10);
		call_data_.verifier = chance.below(6);
		call_data_.sealed = chance.one_in(8);
		call_data_.trailer = chance.one_in(2);
		call_data_.wide_reply = chance.one_in(8) ? chance.below(500) : 0;
		call_data_.reply_data = call_data_.kind == Kind::small ? chance.below(300) :
					chance.one_in(4)	       ? chance.below(kMostData) :
					chance.one_in(4)	       ? 1024 * chance.below(20) :
									 chance.below(6000);
		directions_.clear();
		for (u32 n = chance.one_in(20) ? 17 : chance.between(1, 4); n; n--) {
			Direction direction;

			direction.type = static_cast<rtrext::Type>(1 + chance.below(4));
			direction.least = chance.one_in(4) ? chance.below(8000) : 0;
			direction.most_sent = chance.one_in(2) ? chance.below(8000) : ~u32(0);
			if (direction.type != rtrext::Type::sent)
				direction.segments = segments_(at);
			directions_.push_back(direction);
		}
		rsbuf_ = chance.below(6);
	}

	void call_()
	{
		refused_ = false;
		waits_ = ++last_xid_;
		draw_();
		std::fill(memory_.begin(), memory_.end(), kUntouched);
		Octets message(8192);
		const Octets stream = call_bytes(call_data_, waits_);
		const u32 half = chance.one_in(4) ?
					 4 * chance.between(2, u32(stream.size()) / 4 - 1) :
					 u32(stream.size());
		rtrext::Encoder encoder({message.data(), message.size()}, Xid(waits_), Credits(64),
					xdr::Option::xmtreq);
		u32 begin = 0;
		for (std::size_t i = 0; i < directions_.size(); i++) {
			const Direction &direction = directions_[i];

			if (!i || chance.one_in(3)) {
				encoder.set(begin, begin + 8);
				begin += 8 + chance.below(3);
			}
			if (direction.type == rtrext::Type::sent)
				encoder.place_sent(direction.least);
			else
				encoder.place(direction.least, direction.type,
					      {direction.segments.data(), direction.segments.size()},
					      direction.most_sent);
		}
		const bool whole = half == stream.size();
		const auto header = encoder.finish(whole ? 1 : 2, rsbuf_, half);
		REQUIRE(header.ok(), "a stranger's message has no room");
		message.resize(header.value());
		message.insert(message.end(), stream.begin(), stream.begin() + half);
		if (message.size() > kLeast) {
			waits_ = 0;
			return;
		}
		if (!say(message) || whole)
			return;
		Octets more(64);
		const auto next = rtrext::encode(MutableBytes(more.data(), more.size()),
						 Xid(waits_), Credits(64), xdr::Direction::call,
						 {1, 1, u32(stream.size()) - half});
		more.resize(next.value());
		more.insert(more.end(), stream.begin() + half, stream.end());
		(void)say(more);
	}

	/* An ERROR, which the rules have to demand. */
	void take_other_(const xdr::Message &header)
	{
		REQUIRE(header.kind == xdr::Kind::error,
			"xid %#x: directions are answered by kind %u", waits_, u32(header.kind));
		if (directions_.size() > rtrext::most_items)
			REQUIRE(header.error.code == xdr::ErrorCode::system, "xid %#x: error %u",
				waits_, u32(header.error.code));
		else
			REQUIRE(header.error.code == xdr::ErrorCode::reply_resource &&
					!rules_().transmissions,
				"xid %#x: error %u, and it would fit", waits_,
				u32(header.error.code));
		waits_ = 0;
	}

	/* --- the rules --- */

	bool has_result_() const
	{
		return call_data_.kind == Kind::read && call_data_.reply_data;
	}

	u32 most_() const
	{
		return std::max(1u, std::min(rsbuf_, 4u));
	}

	/* Bytes of all items but the first one's segments or numbers. */
	u32 header_(u32 extra) const
	{
		return 40 + 12 * u32(directions_.size()) + extra;
	}

	/* Transmissions of @stream bytes behind a header of @header; 0: too many. */
	u32 flow_(u32 header, u32 stream) const
	{
		const u32 bytes = std::min(room_.total() < 4096 ? 4096 : room_.total(), 32768u);
		u32 n = 1;

		if (header > bytes)
			return 0;
		for (u32 room = (bytes - header) & ~3u; stream > room; room = (bytes - 40) & ~3u) {
			stream -= room;
			n++;
		}
		return n <= most_() ? n : 0;
	}

	Outcome rules_() const
	{
		const u32 all = call_data_.reply_length(), length = call_data_.reply_data;
		const u32 rest = all - Call::padded(length);

		if (!has_result_())
			return {rtrext::Type::none, flow_(header_(0), all)};
		const Direction &d = directions_[0];
		const Outcome in_line = {rtrext::Type::too_short, flow_(header_(0), all)};
		if (call_data_.sealed || length < d.least)
			return in_line;
		Outcome sent = {rtrext::Type::sent, 0}, written = {rtrext::Type::segments, 0};
		if (room_.segments && room_.total() >= 4096) {
			const u32 segments = (length + room_.each - 1) / room_.each;
			const u32 n = (segments + room_.segments - 1) / room_.segments;

			if (n <= most_() && segments <= 64 &&
			    header_(8 + 4 * segments) + rest <= room_.head)
				sent.transmissions = n;
		}
		if (d.offered() >= length) {
			u32 used = 0;
			u64 filled = 0;

			for (std::size_t i = 0; filled < length; i++) {
				filled += d.segments[i].length;
				used += d.segments[i].length != 0;
			}
			written.transmissions = flow_(header_(4 + 16 * used), rest);
		}
		std::vector<Outcome> ways;
		if (d.type == rtrext::Type::sent || d.type == rtrext::Type::either ||
		    (d.type == rtrext::Type::by_size && length <= d.most_sent))
			ways.push_back(sent);
		if (d.type != rtrext::Type::sent)
			ways.push_back(written);
		ways.push_back(in_line);
		for (const Outcome &way : ways)
			if (way.transmissions)
				return way;
		return {};
	}

	/* --- what came --- */

	struct Part {
		const u8 *bytes;
		u32 header, stream, length;
	};

	void check_(const xdr::Message &lead, const rtrext::Response &response)
	{
		const Outcome outcome = rules_();
		const rtrext::Item item = *response.items.begin();
		std::vector<Part> parts;

		REQUIRE(directions_.size() <= rtrext::most_items, "xid %#x: 17 directions", waits_);
		REQUIRE(response.items.count() == directions_.size(), "xid %#x: %u items for %zu",
			waits_, response.items.count(), directions_.size());
		REQUIRE(parts_.size() == outcome.transmissions && item.type == outcome.type,
			"xid %#x: type %u in %zu transmissions, and not %u in %u", waits_,
			u32(item.type), parts_.size(), u32(outcome.type), outcome.transmissions);
		u32 n = 0;
		for (const rtrext::Item &one : response.items)
			REQUIRE(!n++ || (one.type == rtrext::Type::none && !one.displacement &&
					 !one.length),
				"xid %#x: an item of nothing", waits_);
		if (has_result_())
			REQUIRE(item.displacement == call_data_.reply_front() &&
					item.length == call_data_.reply_data,
				"xid %#x: the result is at %u, of %u", waits_, item.displacement,
				item.length);
		parts.push_back({parts_[0].data(), lead.header_length, response.stream_length,
				 u32(parts_[0].size())});
		for (u32 i = 1; i < parts_.size(); i++) {
			const xdr::Message more =
				decode_message(parts_[i].data(), u32(parts_[i].size()));
			rtrext::Continuation part;

			REQUIRE(more.option == xdr::Option::xmtcont &&
					rtrext::decode(more.body(), part) == rpcordma::Error::none &&
					part.number == i && part.lead == 2,
				"xid %#x: no XMTCONT %u", waits_, i);
			parts.push_back({parts_[i].data(), more.header_length, part.stream_length,
					 u32(parts_[i].size())});
		}
		compare_(item, parts);
	}

	void compare_(const rtrext::Item &item, const std::vector<Part> &parts)
	{
		Octets stream, whole, result;

		for (const Part &part : parts) {
			REQUIRE(part.header + part.stream <= part.length &&
					part.length <= std::max(room_.total(), 4096u),
				"xid %#x: a transmission of %u bytes", waits_, part.length);
			stream.insert(stream.end(), part.bytes + part.header,
				      part.bytes + part.header + part.stream);
			/* What is between is zeros. */
			const u32 until = std::min(part.length, room_.head);
			for (u32 at = part.header + part.stream; at < until; at++)
				REQUIRE(!part.bytes[at], "xid %#x: padding has something", waits_);
		}
		if (item.type == rtrext::Type::sent)
			result = sent_(item, parts);
		else if (item.type == rtrext::Type::segments)
			result = written_(item);
		check_untouched_(u32(item.type == rtrext::Type::segments ? result.size() : 0));
		whole = stream;
		if (item.placed()) {
			result.resize(Call::padded(u32(result.size())));
			whole.insert(whole.begin() + item.displacement, result.begin(),
				     result.end());
		}
		fabric->ledger.take(check_reply(call_data_, waits_, whole), waits_, call_data_.id,
				    connection());
		VersionTalk::results_sent += item.type == rtrext::Type::sent;
		VersionTalk::results_written += item.type == rtrext::Type::segments;
	}

	Octets sent_(const rtrext::Item &item, const std::vector<Part> &parts) const
	{
		Octets result;

		REQUIRE(!item.offset, "xid %#x: it begins within a segment", waits_);
		for (u32 i = 0; i < item.numbers.count(); i++) {
			const u32 number = item.numbers[i];

			REQUIRE(number == i && number / room_.segments < parts.size(),
				"xid %#x: segment %u", waits_, number);
			const Part &part = parts[number / room_.segments];
			const u32 at = room_.head + number % room_.segments * room_.each;
			const u32 left = item.length - u32(result.size());
			const u32 bytes = std::min(left, room_.each);
			REQUIRE(at + bytes <= part.length, "xid %#x: segment %u has not come",
				waits_, number);
			result.insert(result.end(), part.bytes + at, part.bytes + at + bytes);
		}
		REQUIRE(result.size() == item.length, "xid %#x: too few segments", waits_);
		return result;
	}

	Octets written_(const rtrext::Item &item) const
	{
		Octets result;
		u32 n = 0;

		for (const xdr::Segment &segment : directions_[0].segments) {
			if (!segment.length || result.size() == item.length)
				continue;
			REQUIRE(n < item.segments.count(), "xid %#x: too few segments", waits_);
			const xdr::Segment said = item.segments[n++];
			REQUIRE(said.handle == segment.handle && said.offset == segment.offset &&
					said.length == std::min(segment.length,
								item.length - u32(result.size())),
				"xid %#x: segment %u is another one", waits_, n);
			const u8 *from = &memory_[said.offset - kAddress];
			result.insert(result.end(), from, from + said.length);
		}
		REQUIRE(n == item.segments.count(), "xid %#x: too many segments", waits_);
		return result;
	}

	/* Nothing but the first @length bytes of the first direction's segments was written. */
	void check_untouched_(u32 length) const
	{
		Octets expected(kMemory, kUntouched);

		if (length)
			for (const xdr::Segment &segment : directions_[0].segments) {
				const u32 n = std::min(length, segment.length);

				for (u32 i = 0; i < n; i++)
					expected[segment.offset - kAddress + i] =
						memory_[segment.offset - kAddress + i];
				length -= n;
				if (!length)
					break;
			}
		REQUIRE(expected == memory_, "xid %#x: other memory was written", waits_);
	}

	Room room_;
	Octets memory_;
	std::vector<Direction> directions_;
	std::vector<Octets> parts_;
	Call call_data_;
	u32 rsbuf_ = 0;
	u32 last_xid_ = 0x2000;
	u32 waits_ = 0;	       /* the xid that is to be answered; 0: none */
	bool greets_ = false;  /* that is the question's */
	bool refused_ = false; /* it did not let the server write, and the connection is lost */
};

class DirectionPlay : ServerPlay {
public:
	DirectionPlay()
	{
		static const u32 sges[] = {1, 2, 5, 6, 32};

		rpcordma_server_tunables.max_requests = chance.between(4, 16);
		rpcordma_server_tunables.max_req_size = kLeast;
		rpcordma_server_tunables.max_outbound_read_requests = 4;
		rpcordma_server_tunables.eager_read_bytes = 0;
		rpcordma_server_tunables.version2 = 1;
		rpcordma_server_tunables.version2_rtr = 7;
		rpcordma_server_tunables.version2_pages = 0;
		for (Host *host : {&fabric_.client, &fabric_.server}) {
			rpcordma_device &limits = add_device_(*host);

			limits.max_send_sge = chance.any_of(sges);
			limits.max_qp_wr = limits.max_cqe = chance.one_in(2) ? 300 : 4096;
		}
		begin_();
	}

	void run()
	{
		serve_(2 * kMostData, [] {
			for (u32 i = chance.between(1, 3); i; i--) {
				DirectingClient client;

				if (!client.connect(kSpeaksVersion2))
					client.talk();
				client.leave();
				sleep_for(kSecond, "the next client");
			}
		});
	}
};

} // namespace

void strange_directions()
{
	DirectionPlay().run();
}

} // namespace sim
