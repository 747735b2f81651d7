// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/server, on arbitrary messages, memory and disconnects of a client, through the simulated port. What the
 * service gets is, byte for byte, what some message says, put together by RFC 8166 3.4.5; what comes back is the
 * service's reply, byte for byte, in no memory but what was offered for it; each message is answered once at most.
 * A call stays what it is for as long as a thread has it, and so does a page of it that somebody keeps for longer.
 * All that the simulation watches over holds as well. In the end nothing is left of the connections, and an honest
 * client is served.
 */
#include "assembly.hh"
#include "world.hh"
#include "module/chunk/placement.hh"
#include "module/server/audit.hh"
#include "xdr/rpc.hh"

namespace sim {
namespace {

namespace v1 = rpcordma::v1;
namespace v2 = rpcordma::v2;
namespace xdr = rpcordma::xdr;
using rpcordma::Input;

constexpr u32 kMostMessage = 16384 + kPageSize, kConnections = 4;
/* Credits that a client asks for, so that the server's Receives grow. */
constexpr u32 kManyCredits = 64;

struct Message {
	Octets bytes;
	xdr::Message header; /* of them */
	bool decodes = false;
};

/* What the service replied to a call. */
struct Reply {
	Octets bytes;
	std::vector<std::pair<u32, u32>> results; /* offset, length; to be placed directly */
};

/* All that was said to the server, and what the service made of it; by xid. */
std::multimap<u32, Message> said;
std::multimap<u32, Reply> replies;
/* Calls that were said in one or more transmissions of rtrext-01; by xid. */
std::multimap<u32, Octets> continued;
/* What the first of these said: in how many the reply may come, and how many directions there are; by xid. */
struct Asked {
	u32 reply_transmissions, directions;
};
std::multimap<u32, Asked> leads;

/* Byte @at of the memory that a stranger has behind @key. */
u8 memory_byte(u32 key, u64 at)
{
	return u8(key * 31 + at * 7 + (at >> 8));
}

/* Whether @bytes is the call in @message; a pad may hold anything. */
bool is_call_of(const Message &message, const Octets &bytes)
{
	namespace assembly = rpcordma::assembly;
	assembly::Stream stream;
	const Octets payload = octets(message.header.payload);

	if (!assembly::assemble(message.header.reads, u32(payload.size()), kMostMessage, stream) ||
	    stream.length() != bytes.size())
		return false;
	for (u32 i = 0; i < bytes.size(); i++) {
		const u64 name = stream.bytes[i];

		if (name == assembly::kPad)
			continue;
		if (name >= assembly::kInline) {
			if (bytes[i] != payload[name - assembly::kInline])
				return false;
			continue;
		}
		const xdr::Segment segment = message.header.reads[u32(name >> 32) - 1].target;
		if (bytes[i] != memory_byte(segment.handle.get(), segment.offset + u32(name)))
			return false;
	}
	return true;
}

bool overlap(const xdr::Segment &a, const xdr::Segment &b)
{
	return a.handle == b.handle && a.offset < b.offset + b.length &&
	       b.offset < a.offset + a.length;
}

/* A connection's client end. */
class HostileClient : public Stranger {
public:
	explicit HostileClient(bool invalidation)
		: Stranger("hostile client"),
		  invalidation_(invalidation)
	{
	}

	bool tell(Octets bytes)
	{
		const u32 xid = xid_of(bytes);
		const auto it = said.emplace(xid, Message{std::move(bytes), {}, false});
		Message &message = it->second;
		const auto decoded = understood(message.bytes);

		/* It may be heard before say() returns. */
		follow_(message.bytes);
		if (decoded.ok()) {
			message.decodes = true;
			message.header = decoded.value();
			for (xdr::ReadSegment segment : message.header.reads)
				readable_.push_back(segment.target);
			for (xdr::WriteChunk chunk : message.header.writes)
				offer_(chunk);
			offer_(message.header.reply);
			offer_directions_(message.header);
			note_structure_(message.header);
		}
		if (say(message.bytes))
			return true;
		/* What it offers is offered all the same. */
		said.erase(it);
		return false;
	}

	bool reached(u64 address, u32 key, u32 length, u8 *buffer, Access how) override
	{
		bool offered = false;

		for (const xdr::Segment &segment : how == Access::read ? readable_ : writable_)
			offered = offered ||
				  (segment.handle.get() == key && address >= segment.offset &&
				   address - segment.offset <= segment.length &&
				   length <= segment.length - (address - segment.offset));
		REQUIRE(offered,
			"the server reaches for %u bytes at %#llx, key %#x: not offered for that",
			length, (unsigned long long)address, key);
		/* Nor does everything exist that is offered. */
		if (key % 8 == 7)
			return false;
		if (how == Access::read)
			for (u32 i = 0; i < length; i++)
				buffer[i] = memory_byte(key, address + i);
		else
			writes_.push_back({key, address, {buffer, buffer + length}});
		return true;
	}

	void heard(const Octets &bytes, u32 invalidated) override
	{
		const u32 xid = xid_of(bytes);
		const auto decoded = understood(bytes);

		REQUIRE(bytes.size() >= 20, "a message of %zu bytes", bytes.size());
		/* ERR_VERS echoes whatever version there was. */
		if (xdr::load_be32(&bytes[4]) != v1::version &&
		    xdr::load_be32(&bytes[4]) != v2::version) {
			REQUIRE(xdr::load_be32(&bytes[12]) == u32(v1::Proc::error),
				"version %u is spoken", xdr::load_be32(&bytes[4]));
			return;
		}
		REQUIRE(decoded.ok(), "a message of ours does not decode");
		const xdr::Message &header = decoded.value();
		if (header.kind == xdr::Kind::error)
			return;
		if (header.kind == xdr::Kind::optional)
			return heard_transmission_(bytes, header);
		REQUIRE(!hearing_, "xid %#x: amid the transmissions of a reply", xid);
		if (header.kind > xdr::Kind::error) {
			const auto question = header.kind == xdr::Kind::resprop ?
						      xdr::Kind::reqprop :
						      xdr::Kind::connprop;

			REQUIRE(header.kind == xdr::Kind::connprop ||
					header.kind == xdr::Kind::resprop ||
					header.kind == xdr::Kind::updprop,
				"a message of kind %u", u32(header.kind));
			/* News come by themselves, to who has said something: the fabric checks that they are true. */
			if (header.kind == xdr::Kind::updprop)
				grown = true;
			else
				REQUIRE(asked_(xid, question),
					"xid %#x: nobody asked for properties", xid);
			return;
		}
		const Octets payload = octets(header.payload);
		/* A backward call: the world checks it when it is replied to. */
		if (header.kind == xdr::Kind::msg && payload.size() >= 8 &&
		    !xdr::load_be32(&payload[4]))
			return;
		if (invalidated) {
			REQUIRE(invalidation_, "the client's memory is invalidated, uninvited");
			REQUIRE(key_of_(xid, invalidated),
				"key %#x is invalidated, by a reply to xid %#x", invalidated, xid);
		}
		if (ambiguous_)
			return;
		const auto [first, end] = replies.equal_range(xid);
		for (auto it = first; it != end; ++it)
			if (carries_(header, payload, it->second))
				return;
		fail("xid %#x: this is not what the service replied", xid);
	}

	bool grown = false; /* the server has said that its Receives are large */

private:
	struct Written {
		u32 key;
		u64 address;
		Octets bytes;
	};

	/* What the client says in transmissions. */
	void follow_(const Octets &bytes)
	{
		const auto header = understood(bytes);
		rpcordma::rtrext::Request lead;

		if (header.ok() && header.value().option == xdr::Option::xmtreq &&
		    rpcordma::rtrext::decode(header.value().body(), lead) == rpcordma::Error::none)
			leads.emplace(xid_of(bytes), Asked{std::max(1u, lead.reply_transmissions),
							   lead.sets.places()});
		if (told_.add(bytes) == Transmissions::What::last)
			continued.emplace(xid_of(bytes), told_.stream());
	}

	/* What the server says by rtrext-01: a reply in transmissions, or that those of a call are no good. */
	void heard_transmission_(const Octets &bytes, const xdr::Message &header)
	{
		const u32 xid = header.xid.get();

		if (header.option == xdr::Option::repterr) {
			rpcordma::rtrext::Report report;

			REQUIRE(rpcordma::rtrext::decode(header.body(), report) ==
					rpcordma::Error::none,
				"xid %#x: a report that does not decode", xid);
			/* The client may have replied to a backward call so. */
			REQUIRE(header.direction != report.about().direction,
				"xid %#x: a report with the direction of what it is about", xid);
			/* What breaks a group may be too short to have an xid. */
			REQUIRE(said.count(report.has_lead ? report.lead.xid.get() : xid) &&
					!hearing_,
				"xid %#x: a report of nobody's, or amid a reply", xid);
			return;
		}
		REQUIRE(header.direction == xdr::Direction::reply,
			"xid %#x: a server sends no call so", xid);
		if (!hearing_)
			parts_.clear();
		parts_.push_back(bytes);
		const Transmissions::What what = heard_.add(bytes);
		REQUIRE(what != Transmissions::What::other,
			"xid %#x: a transmission that is out of order", xid);
		hearing_ = what == Transmissions::What::part;
		if (hearing_)
			return;
		rpcordma::rtrext::Response response;
		const xdr::Message lead = understood(parts_[0]).value();
		REQUIRE(rpcordma::rtrext::decode(lead.body(), response) == rpcordma::Error::none,
			"xid %#x: a reply that does not decode", xid);
		bool asked = false;
		const auto [begin, behind] = leads.equal_range(xid);
		for (auto it = begin; it != behind; ++it)
			asked = asked || (heard_.count() <= it->second.reply_transmissions &&
					  response.items.count() == it->second.directions);
		REQUIRE(asked, "xid %#x: nobody asked for %u transmissions and %u items", xid,
			heard_.count(), response.items.count());
		const auto [first, end] = replies.equal_range(xid);
		for (auto it = first; it != end; ++it)
			for (const auto &structure : structures_)
				if (carries_items_(response.items, structure, it->second))
					return;
		fail("xid %#x: this is not what the service replied, in transmissions", xid);
	}

	/* What is written by directions, as by chunks; and items that are read. */
	void offer_directions_(const xdr::Message &header)
	{
		rpcordma::rtrext::Request lead;

		if (header.option != xdr::Option::xmtreq ||
		    rpcordma::rtrext::decode(header.body(), lead) != rpcordma::Error::none)
			return;
		for (const rpcordma::rtrext::Set &set : lead.sets)
			for (const rpcordma::rtrext::Place &place : set.places)
				offer_(place.segments);
		for (const rpcordma::rtrext::Item &item : lead.items)
			for (const xdr::Segment segment : item.segments)
				readable_.push_back(segment);
	}

	/* Where the client says that it takes what is sent: any of what it has said may be what the server goes by. */
	void note_structure_(const xdr::Message &header)
	{
		rpcordma::properties::Properties said;
		u32 fixed;

		if ((header.kind == xdr::Kind::connprop &&
		     rpcordma::properties::decode_connprop(header.body(), said, fixed) ==
			     rpcordma::Error::none) ||
		    (header.kind == xdr::Kind::updprop &&
		     rpcordma::properties::decode_updprop(header.body(), said) ==
			     rpcordma::Error::none))
			if (said.structure.segments)
				structures_.push_back(said.structure);
	}

	/* The bytes of @item that was sent, by @structure. False: it does not lie so. */
	bool sent_(const rpcordma::rtrext::Item &item,
		   const rpcordma::properties::Structure &structure, Octets &to) const
	{
		bool there = structure.segments;
		const auto take = [&](const rpcordma::chunk::ItemPiece &piece) {
			const u32 part = piece.number / structure.segments;
			const u64 at = rpcordma::chunk::begin_of(structure, piece);

			there = there && part < parts_.size() &&
				at + piece.length <= parts_[part].size();
			if (there)
				to.insert(to.end(), parts_[part].begin() + long(at),
					  parts_[part].begin() + long(at + piece.length));
			return there;
		};

		return there && !item.offset &&
		       !rpcordma::chunk::for_each_piece(item, structure.segment_length, take) &&
		       there;
	}

	/* Whether the transmissions that came are @reply, if @structure is what the client takes. */
	bool carries_items_(const rpcordma::rtrext::Items &items,
			    const rpcordma::properties::Structure &structure,
			    const Reply &reply) const
	{
		Octets whole = heard_.stream(), is = reply.bytes;
		u32 i = 0;

		is.resize((is.size() + 3) & ~std::size_t(3));
		std::fill(is.begin() + long(reply.bytes.size()), is.end(), 0);
		for (const rpcordma::rtrext::Item &item : items) {
			const u32 n = i++;

			if (!item.placed())
				continue;
			Octets placed;
			if (n >= reply.results.size() ||
			    reply.results[n] != std::pair(item.displacement, item.length) ||
			    item.displacement > whole.size())
				return false;
			if (item.type == rpcordma::rtrext::Type::sent ?
				    !sent_(item, structure, placed) :
				    !written_(item.segments, placed))
				return ambiguous_;
			/* Its pad went with it, whatever that was. */
			const u32 end = item.displacement + item.length;
			const u32 pad =
				std::min(rpcordma::xdr_pad(item.length), u32(is.size()) - end);
			std::fill_n(is.begin() + end, pad, 0);
			placed.resize(placed.size() + pad);
			whole.insert(whole.begin() + item.displacement, placed.begin(),
				     placed.end());
		}
		return ambiguous_ || whole == is;
	}

	/* Where two messages offer the same memory, what is written there is either's. */
	void offer_(const xdr::WriteChunk &chunk)
	{
		for (xdr::Segment segment : chunk) {
			for (const xdr::Segment &other : writable_)
				ambiguous_ = ambiguous_ || overlap(segment, other);
			writable_.push_back(segment);
		}
	}

	static bool key_of_(u32 xid, u32 key)
	{
		const auto [first, end] = said.equal_range(xid);

		/* In version 2 the call names one, in version 1 any will do. */
		for (auto it = first; it != end; ++it)
			if (rpcordma::assembly::has_key(it->second.header, key) &&
			    (it->second.header.version != v2::version ||
			     it->second.header.invalidate.get() == key))
				return true;
		return false;
	}

	static bool asked_(u32 xid, xdr::Kind question)
	{
		const auto [first, end] = said.equal_range(xid);

		return std::any_of(first, end, [question](const auto &one) {
			return one.second.decodes && one.second.header.kind == question;
		});
	}

	/* What was written to @chunk, whose lengths say how much. */
	bool written_(const xdr::WriteChunk &chunk, Octets &to) const
	{
		for (xdr::Segment segment : chunk) {
			Octets bytes(segment.length);
			u32 covered = 0;

			for (const Written &w : writes_) {
				if (w.key != segment.handle.get() || w.address < segment.offset ||
				    w.address - segment.offset >= segment.length)
					continue;
				const u32 at = u32(w.address - segment.offset);
				const u32 n = std::min(u32(w.bytes.size()), segment.length - at);
				std::copy_n(w.bytes.begin(), n, bytes.begin() + at);
				covered += n;
			}
			if (covered < segment.length)
				return false;
			to.insert(to.end(), bytes.begin(), bytes.end());
		}
		return true;
	}

	bool carries_(const xdr::Message &header, const Octets &payload, const Reply &reply) const
	{
		Octets rest, expected;
		u32 done = 0, i = 0;

		for (xdr::WriteChunk chunk : header.writes) {
			const u32 n = u32(chunk.length());

			if (n) {
				Octets placed;
				if (i >= reply.results.size() || reply.results[i].second != n ||
				    !written_(chunk, placed))
					return false;
				const u32 at = reply.results[i].first;
				if (at < done || !std::equal(placed.begin(), placed.end(),
							     reply.bytes.begin() + at))
					return false;
				expected.insert(expected.end(), reply.bytes.begin() + done,
						reply.bytes.begin() + at);
				done = std::min(u32(reply.bytes.size()),
						at + n + rpcordma::xdr_pad(n));
			}
			i++;
		}
		expected.insert(expected.end(), reply.bytes.begin() + done, reply.bytes.end());
		if (header.kind == xdr::Kind::msg)
			return payload == expected;
		return written_(header.reply, rest) && rest == expected;
	}

	const bool invalidation_;
	bool ambiguous_ = false;
	Transmissions told_, heard_{true};
	bool hearing_ = false;	    /* a part of a reply is to follow */
	std::vector<Octets> parts_; /* of the reply that came last */
	/* That it has said, besides none. */
	std::vector<rpcordma::properties::Structure> structures_{{}};
	std::vector<xdr::Segment> readable_, writable_;
	std::vector<Written> writes_;
};

/* How the service treats the next call. */
struct Treatment {
	bool replies, placed, two, ddp_allowed, keeps;
	u32 head, size, tail;
};

/* Does what the input says with strangers' calls, and serves files to others. */
class HostedService : public FileService {
public:
	bool process(svc_rqst &rqst) override
	{
		if (!fabric->strangers)
			return FileService::process(rqst);
		const Octets call = read_(rqst.arg);
		/* The header's: what a chunk holds may say another one. */
		const u32 xid = rqst.context->message().xid.get();
		const auto [first, end] = said.equal_range(xid);
		bool known = false;

		for (auto it = first; it != end; ++it)
			known = known || (it->second.decodes && is_call_of(it->second, call));
		const auto [begin, behind] = continued.equal_range(xid);
		for (auto it = begin; it != behind; ++it)
			known = known || it->second == call;
		/* Of a call with items it is only known that it was said. */
		for (auto it = first; it != end; ++it)
			known = known || has_items(it->second.bytes);
		REQUIRE(known, "nobody said this call of %zu bytes, xid %#x", call.size(), xid);
		processed++;
		while (treatments.empty() && !over)
			(void)wait(changed, "what is to become of a call");
		if (treatments.empty())
			return false;
		const Treatment how = treatments.front();
		treatments.pop_front();
		REQUIRE(read_(rqst.arg) == call, "xid %#x: the call changes while a thread has it",
			xid);
		if (how.keeps)
			keep_lent_page(rqst);
		if (!how.replies)
			return false;
		reply_(rqst, how, xid);
		return true;
	}

	std::deque<Treatment> treatments;
	bool over = false;
	WaitQueue changed;

private:
	static Octets read_(const rpcordma_xdr_buf &arg)
	{
		Octets call;

		REQUIRE(each_piece(&arg, 0, arg.len,
				   [&](u8 *at, u32 n) { call.insert(call.end(), at, at + n); }),
			"a call says that it has %u bytes, and has not", arg.len);
		return call;
	}

	void reply_(svc_rqst &rqst, const Treatment &how, u32 xid)
	{
		rpcordma_xdr_buf &res = rqst.res;
		page *head = rqst.pages.at(rqst.respages);
		Reply reply;

		for (u32 i = 0; i < how.head + how.size + how.tail; i++)
			reply.bytes.push_back(u8(i * 5 + (i >> 8) + xid));
		xdr::store_be32(reply.bytes.data(), xid);
		xdr::store_be32(reply.bytes.data() + 4, 1);
		std::memcpy(head->data, reply.bytes.data(), how.head);
		res.head = {head->data, how.head};
		res.tail = {head->data + how.head, how.tail};
		std::memcpy(res.tail.base, reply.bytes.data() + how.head + how.size, how.tail);
		res.len = res.buflen = u32(reply.bytes.size());
		if (how.size) {
			res.page_length = how.size;
			res.pages = rqst.pages.data() + rqst.next_page;
			rqst.next_page += (how.size + kPageSize - 1) / kPageSize;
			rpcordma_copy_to_pages(&res, 0, reply.bytes.data() + how.head, how.size);
		}
		rqst.ddp_allowed = how.ddp_allowed;
		const u32 one = how.two ? how.size / 2 & ~3u : how.size;
		if (how.placed && one)
			reply.results.emplace_back(how.head, one);
		if (how.placed && how.size - one)
			reply.results.emplace_back(how.head + one, how.size - one);
		for (auto [offset, length] : reply.results)
			(void)rpcordma_core_server_result_payload(rqst.context, offset, length);
		if (!how.ddp_allowed)
			reply.results.clear();
		replies.emplace(xid, std::move(reply));
	}
};

class Play {
public:
	explicit Play(Input &in) : in_(in), ground_(in)
	{
	}

	void run()
	{
		said.clear();
		replies.clear();
		continued.clear();
		leads.clear();
		REQUIRE(module_.start(), "the server does not start");
		service_ = std::make_unique<Service>(files_, 1 + (in_.byte() & 1), kMostMessage);
		(void)service_->listen();
		connect_();
		for (u32 i = 0; i < kMostSteps && !in_.empty(); i++)
			step_();
		set_faults(0);
		settle(kSecond);
		files_.over = true;
		files_.changed.wake_all();
		settle(kSecond);
		check_receives_();
		make_peace_();
	}

private:
	HostileClient &client_() const
	{
		return *clients_.back();
	}

	void connect_()
	{
		bool invalidation;
		const Octets data = private_data_of(in_, invalidation);

		if (clients_.size() == kConnections)
			return;
		clients_.push_back(std::make_unique<HostileClient>(invalidation));
		const int rc = client_().connect(data);
		TRACE("connect: %d", rc);
		settle();
	}

	/* Each has a key of its own. */
	xdr::Segment segment_()
	{
		const u32 length = in_.below(6000);

		keys_ += keys_ % 8 == 6 ? 2 : 1;
		return {rpcordma::Rkey(keys_ + (in_.byte() == 0xff ? 7 - keys_ % 8 : 0)), length,
			u64(keys_) << 32 | 0x123};
	}

	/* What the client takes, of one of some structures. */
	void say_structure_(u8 which)
	{
		static const rpcordma::properties::Structure structures[] = {
			{20480, 4, 4096}, {8192, 1, 4096}, {8192, 4, 1024}, {36864, 8, 4096}};
		rpcordma::properties::Properties said;

		said.structure = structures[which & 3];
		said.receive_size = said.structure.total;
		said.extensions = 7;
		said.present = rpcordma::properties::all;
		Octets message(1024);
		const auto length = v2::encode_connprop({message.data(), message.size()},
							rpcordma::Xid(0xff), rpcordma::Credits(32),
							said, 0);
		message.resize(length.value());
		(void)client_().tell(message);
	}

	/* A call with directions for its results, one more than @how says; before it, at times, what the client takes. */
	void directed_call_(u32 how)
	{
		if (how & 8)
			say_structure_(in_.byte());
		const u8 xid = in_.byte(), rsbuf = in_.byte();
		Octets message(2048);
		rpcordma::rtrext::Encoder encoder({message.data(), message.size()},
						  rpcordma::Xid(xid), rpcordma::Credits(32),
						  xdr::Option::xmtreq);
		encoder.set(0, 40);
		for (u32 i = 0; i <= (how & 3); i++) {
			const u8 kind = in_.byte();
			const auto type = static_cast<rpcordma::rtrext::Type>(1 + (kind & 3));
			const u32 least = kind & 4 ? in_.half() : 0;
			xdr::Segment segments[3];
			const u32 count = kind >> 3 & 3;

			if (kind & 0x20)
				encoder.set(40 + i, 41 + i);
			if (type == rpcordma::rtrext::Type::sent) {
				encoder.place_sent(least);
				continue;
			}
			for (u32 n = 0; n < count; n++)
				segments[n] = segment_();
			encoder.place(least, type, {segments, count}, in_.below(6000));
		}
		const auto header = encoder.finish(1, rsbuf & 7, 40);
		if (!header.ok())
			return;
		message.resize(header.value());
		append_call_(message, xid, false, 40);
		(void)client_().tell(message);
	}

	/* A header of this or that, and a call behind it, of up to @more bytes more than a byte says. */
	void call_(u32 more)
	{
		const u8 kind = in_.byte(), xid = in_.byte(), credits = in_.byte();
		const bool nomsg = kind & 0x80;
		Octets message(1024);
		const rpcordma::MutableBytes room(message.data(), message.size());
		const auto proc = nomsg ? xdr::Kind::nomsg : xdr::Kind::msg;
		const auto finish = [&](auto &&encoder) {
			for (u32 i = 0; i < (kind & 3u); i++) {
				const u32 position = nomsg && !i ? 0 : in_.byte() * 4;
				encoder.read_segment(rpcordma::Position(position), segment_());
			}
			for (u32 i = 0; i < ((kind >> 2) & 3u); i++) {
				const u32 segments = 1 + (kind >> 6 & 1);
				encoder.write_chunk(segments);
				for (u32 n = 0; n < segments; n++)
					encoder.segment(segment_());
			}
			if (kind & 0x10) {
				encoder.reply_chunk(1u);
				encoder.segment(segment_());
			}
			return encoder.finish();
		};
		/* With the first segment's R_key to invalidate, or one near it. */
		const auto direction = kind & 0x20 ? xdr::Direction::reply : xdr::Direction::call;
		const auto end =
			xid & 0x80 ? finish(v2::Encoder(room, rpcordma::Xid(xid),
							rpcordma::Credits(credits), proc, direction,
							rpcordma::Rkey(keys_ + (credits >> 6)))) :
				     finish(v1::Encoder(room, rpcordma::Xid(xid),
							rpcordma::Credits(credits), proc));
		if (!end.ok())
			return;
		message.resize(end.value());
		if (!nomsg) {
			/* No credential, no verifier. */
			append_call_(message, xid, kind & 0x20, in_.byte() * 4 + more);
		}
		(void)client_().tell(message);
	}

	/* @size bytes of an RPC message, no two pages of which are alike. */
	void append_call_(Octets &message, u32 xid, bool reply, u32 size)
	{
		const u32 words[10] = {xid, reply, 2, 100003, 3, 1};

		said_++;
		for (u32 i = 0; i < size; i++)
			message.push_back(i < 40 ? u8(words[i / 4] >> (24 - i % 4 * 8)) :
						   u8(i + (i >> 8) * 3 + said_ * 7));
	}

	/*
	 * Short calls of version 2, @count of them: most are replied to at once, so that the server's grant grows, and its Receives
	 * with it.
	 */
	void many_calls_(u32 count)
	{
		for (u32 i = 0; i < count; i++) {
			Octets message(v2::min_header_length);
			const u32 xid = 0x1000 + many_++;

			(void)v2::encode_bare({message.data(), message.size()}, rpcordma::Xid(xid),
					      rpcordma::Credits(kManyCredits), xdr::Direction::call,
					      {});
			append_call_(message, xid, false, 40);
			files_.treatments.push_back({true, false, false, false, false, 24, 0, 0});
			files_.changed.wake_one();
			if (!client_().tell(message))
				return;
			/* Others are to come meanwhile. */
			if (i % 4 == 3)
				settle();
		}
	}

	void call_back_()
	{
		svc_xprt *xprt = service_->any_connection();
		const u32 xid = backs_++;
		Call call;

		if (!xprt)
			return;
		call.id = ++calls_;
		call.kind = Kind::small;
		call.call_data = in_.byte();
		busy_++;
		spawn("callback", Context::process, [this, xprt, call, xid] {
			Octets reply;
			const int rc = service_->call_back(*xprt, xid, call_bytes(call, xid), reply);
			bool known = rc != 0;
			const auto [first, end] = said.equal_range(xid);

			TRACE("backward call: %d", rc);
			for (auto it = first; it != end; ++it)
				known = known || (it->second.decodes &&
						  octets(it->second.header.payload) == reply);
			REQUIRE(known, "nobody said this backward reply, xid %#x", xid);
			xprt->put();
			busy_--;
			left_.wake_all();
		});
	}

	void befall_(u8 what)
	{
		switch (what) {
		case 0:
			client_().leave();
			break;
		case 1:
			client_().fall_silent();
			break;
		case 2:
			client_().receives = in_.byte() & 3;
			starved_ = true;
			break;
		case 3:
			client_().receives = ~0u;
			break;
		case 4:
			for (auto &[number, id] : fabric->server.ids) {
				break_connection(*id);
				break;
			}
			break;
		case 5:
			client_().leave();
			connect_();
			break;
		case 6:
			/* The first one stays as it is. */
			connect_();
			break;
		case 7:
			(void)client_().tell(Octets(1000 + in_.half() % 8000, 0x55));
			break;
		}
	}

	void step_()
	{
		const u8 what = in_.byte();

		TRACE("step %#x", what);
		switch (what & 7) {
		case 0: /* any bytes */
			(void)client_().tell(octets(in_.take(in_.half())));
			break;
		case 1:
			call_(more_bytes(what));
			break;
		case 2: { /* what a thread is to do */
			const u8 how = in_.byte();
			const u32 head = 8 + in_.byte() * 4u, size = in_.below(6000),
				  tail = in_.byte();

			files_.treatments.push_back({!(how & 1), !(how & 2), bool(how & 4),
						     !(how & 8), bool(how & 16), head, size, tail});
			files_.changed.wake_one();
			break;
		}
		case 3: /* time; or, with calls, none */
			if (what >> 3 & 15)
				many_calls_((what >> 3 & 15) * 8);
			else
				settle((1 + in_.byte()) * 300 * kMillisecond);
			break;
		case 4:
			call_back_();
			break;
		case 5:
			befall_((what >> 3) & 7);
			break;
		case 6:
			set_faults(in_.byte());
			break;
		case 7: /* the kernel wants memory back; or, with more, a call with directions */
			if (what >> 3 & 15)
				directed_call_(what >> 3 & 15);
			else
				(void)rpcordma_core_server_shrink(in_.byte());
			break;
		}
		if (!(what & 0x80))
			settle();
	}

	/*
	 * Each Receive that the server counts is there, and where none could not be made as many as it promised. But for a
	 * client that takes no replies, and calls all the same: what it does not take keeps its Receives, and there are no more
	 * than enough. And none is lost, of which the server would make another.
	 */
	void check_receives_()
	{
		const auto qp = client_().other();
		svc_xprt *xprt = service_->any_connection();

		if (!xprt)
			return;
		const u32 counted = xprt->core->receives.posted();
		const u32 promised = rpcordma::promised_locked(*xprt->core);
		/* Where there is one connection, it is this one. */
		if (qp && qp->state == Qp::State::connected && service_->connections() == 1 &&
		    !xprt->closing) {
			REQUIRE(qp->receives_posted() == counted,
				"%u Receives are posted, and the server takes them for %u",
				qp->receives_posted(), counted);
			REQUIRE(faults.receives_failed || starved_ ||
					qp->receives_posted() >= promised,
				"%u Receives are posted, and %u promised", qp->receives_posted(),
				promised);
			/* A call of which transmissions are yet to come has those that came. */
			const auto audit = rpcordma::audit(*xprt->core);
			const u32 found = audit.posted + audit.spare + audit.with_calls;
			REQUIRE(found + rpcordma::protocol::kCallTransmissions > audit.receives,
				"of %u Receives %u are posted, spare or of a call", audit.receives,
				found);
		}
		xprt->put();
	}

	void make_peace_()
	{
		for (auto &client : clients_)
			client->leave();
		while (busy_)
			(void)wait(left_, "backward calls");
		const u64 end = now() + 60 * kSecond;
		while (service_->connections()) {
			REQUIRE(now() < end, "%u connections stay, whose clients have left",
				service_->connections());
			settle(10 * kMillisecond);
		}
		fabric->strangers = false;
		serve_honest_();
		service_->stop();
		service_.reset();
		module_.end();
		REQUIRE(!rpcordma::receive_budget.taken(),
			"no connection is left, and %llu pages of the budget are taken",
			static_cast<unsigned long long>(rpcordma::receive_budget.taken()));
		sleep_for(10 * kSecond, "the fabric to come to rest");
	}

	void serve_honest_()
	{
		rpc_xprt *xprt = rpc_xprt::create("honest client");
		Call call;

		for (Kind kind : {Kind::both, Kind::listing}) {
			call.id = ++calls_;
			call.kind = kind;
			call.call_data = kind == Kind::both ? 3001 : 50;
			call.reply_data = 4002;
			ClientCall one(call);
			Task task(*xprt, one, false);
			const int rc = task.run();
			REQUIRE(!rc && one.decoded, "the next client is not served: %d", rc);
		}
		xprt->destroy();
	}

	Input &in_;
	Ground ground_;
	ServerModule module_;
	HostedService files_;
	bool starved_ = false; /* some client had few Receives */
	std::unique_ptr<Service> service_;
	std::vector<std::unique_ptr<HostileClient>> clients_;
	u32 keys_ = 0, calls_ = 0, backs_ = 0, busy_ = 0, said_ = 0, many_ = 0;
	WaitQueue left_;
};

void story(Input &in)
{
	Play(in).run();
}

} // namespace
} // namespace sim

FUZZ_TARGET()
{
	sim::in_world(sim::story);
}
