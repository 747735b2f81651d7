// SPDX-License-Identifier: GPL-2.0-only
/*
 * Version 2 with peers that keep to none of its rules: servers that answer the question in any way, and clients that
 * say anything. The other end has a core; what it must do about each message is known here, and checked. In the end an
 * honest peer comes, and nothing of the others is left.
 */
#include "selftests/sim/scenario.hh"

#include <algorithm>
#include <cstring>

#include "selftests/sim/server_play.hh"

namespace sim {
namespace {

namespace properties = rpcordma::properties;
namespace v2 = rpcordma::v2;
namespace xdr = rpcordma::xdr;
using rpcordma::MutableBytes;
using rpcordma::Credits;
using rpcordma::Xid;

using Octets = std::vector<u8>;

constexpr u32 kMostMessage = 16384 + kPageSize;

template <typename... Words> Octets words(Words... values)
{
	const u32 all[] = {u32(values)...};
	Octets bytes(sizeof(all));

	for (u32 i = 0; i < sizeof...(values); i++)
		xdr::store_be32(&bytes[4 * i], all[i]);
	return bytes;
}

u32 word_of(const Octets &bytes, u32 index)
{
	return bytes.size() < 4 * index + 4 ? 0 : xdr::load_be32(&bytes[4 * index]);
}

Octets operator+(Octets bytes, const Octets &more)
{
	bytes.insert(bytes.end(), more.begin(), more.end());
	return bytes;
}

/** What an encoder writes. */
template <typename Encode> Octets made(Encode encode)
{
	Octets bytes(256);
	const auto length = encode(MutableBytes(bytes.data(), bytes.size()));

	REQUIRE(length.ok(), "a stranger's message has no room");
	bytes.resize(length.value());
	return bytes;
}

Octets private_data(bool mark, bool invalidation = false)
{
	return made([=](MutableBytes room) -> rpcordma::Result<u32> {
		return rpcordma::private_data::encode(room, {kLeast, kLeast, invalidation, mark});
	});
}

/* @may_change: a mask of what it does not say to be for good. */
Octets connprop(u32 xid, u32 credits, u32 takes = kLeast, u32 may_change = 0)
{
	return made([=](MutableBytes room) {
		return rpcordma::protocol::encode_properties(room, Xid(xid), Credits(credits),
							     {takes, 0, 0}, may_change);
	});
}

/** What precedes the Payload stream of a message without chunks. */
Octets bare(u32 version, u32 xid, u32 credits, xdr::Direction direction, u32 invalidate = 0)
{
	if (version == 1)
		return words(xid, 1, credits, 0, 0, 0, 0);
	return words(xid, version, credits, 0, u32(direction), invalidate, 0, 0, 0);
}

/** A call that fits a message without chunks. */
Call small_call(u32 id)
{
	Call call;

	call.id = id;
	call.kind = chance.one_in(4) ? Kind::null : Kind::small;
	call.credential = chance.below(10);
	call.verifier = chance.below(6);
	if (call.kind == Kind::small) {
		call.call_data = chance.below(300);
		call.reply_data = chance.below(300);
	}
	return call;
}

/** One that may not, or not into any but a large Receive. */
Call long_call(u32 id)
{
	Call call = small_call(id);

	call.kind = Kind::linking;
	call.call_data = chance.below(16000);
	call.reply_data = 0;
	return call;
}

/* --- servers --- */

/**
 * A server that answers the question as it likes, and speaks as if it had gone along with what it said. It says at times
 * that it takes longer messages now, and gets none that are longer.
 */
class StrangeServer : public Stranger {
public:
	StrangeServer() : Stranger("strange server")
	{
	}

	void heard(const Octets &message, u32 invalidated) override
	{
		const xdr::Message header = decode_message(message.data(), u32(message.size()));

		REQUIRE(!invalidated, "a requester invalidates its server's memory");
		REQUIRE(header.version, "a message of ours does not decode");
		if (header.kind == xdr::Kind::connprop) {
			asked_ = true;
			return soon_([this, xid = header.xid.get()] { answer_question_(xid); });
		}
		/* It refuses what is said beside the replies, or answers. */
		if (header.kind > xdr::Kind::nomsg)
			return;
		REQUIRE(message.size() <= most_, "client: %zu bytes, to a server that takes %u",
			message.size(), most_);
		REQUIRE(!asked_ || spoken_, "a call to a server that did not go along");
		REQUIRE(header.version == (asked_ ? spoken_ : 1), "a call in version %u",
			header.version);
		Octets payload(header.payload.begin(), header.payload.end());
		std::vector<xdr::Segment> chunk;
		for (xdr::ReadSegment segment : header.reads)
			chunk.push_back(segment.target);
		REQUIRE(payload.empty() != chunk.empty(), "a call with a chunk of something");
		calls_++;
		soon_([this, payload, chunk, version = header.version,
		       xid = header.xid.get()]() mutable {
			for (const xdr::Segment &segment : chunk) {
				const std::size_t at = payload.size();

				payload.resize(at + segment.length);
				/* Then nobody is there any more. */
				if (!reach(segment.offset, segment.handle.get(), segment.length,
					   &payload[at], Access::read))
					return;
			}
			for (u32 n = chance.one_in(2) ? chance.between(1, 2) : 0; n; n--)
				say_aside_(version);
			const Call call = check_call(payload);
			Ledger &ledger = fabric->ledger;
			const Stamps stamps =
				ledger.reply(connection(), xid, call.id, ledger.execution());
			(void)say(bare(version, xid, kGrant, xdr::Direction::reply) +
				  reply_bytes(call, xid, stamps));
			if (!--calls_ && version == 2) {
				sleep_for(50 * kMillisecond, "Receives to be posted again");
				check_receives_();
			}
		});
	}
	bool reached(u64, u32, u32, u8 *, Access) override
	{
		fail("a requester reaches for its server's memory");
	}

private:
	void soon_(std::function<void()> what)
	{
		spawn_after(fabric_delay(), "strange server", Context::process, std::move(what));
	}

	Octets error_(u32 xid, u32 code, u32 low = 0, u32 high = 0) const
	{
		const Octets bytes = words(xid, 2, 4, 4, code);

		return code == 1 || code == 3 ? bytes + words(low, high) : bytes;
	}

	void answer_question_(u32 xid)
	{
		static const u32 ranges[][2] = {{1, 1}, {1, 2}, {0, ~0u}, {0, 1},
						{2, 2}, {3, 9}, {0, 0},	  {9, 1}};
		const Octets usual = connprop(xid, chance.below(9), kLeast, may_change_);

		spoken_ = 0;
		most_ = ~0u;
		/* The last one, from which it goes on, more often. */
		switch (chance.below(16)) {
		case 0: /* nothing */
			break;
		case 1:
			leave();
			break;
		case 2: {
			const auto &range = ranges[chance.below(8)];

			spoken_ = range[0] <= 1 && range[1] >= 1 ? 1 : 0;
			(void)say(error_(xid, 1, range[0], range[1]));
			break;
		}
		case 3: /* INVAL_PROC */
			spoken_ = 2;
			(void)say(error_(xid, 4));
			break;
		case 4: { /* any other error, or one about something else */
			static const u32 codes[] = {0, 2, 3, 5, 6, 7, ~0u};

			if (chance.one_in(2))
				(void)say(error_(xid, chance.any_of(codes)));
			else
				(void)say(error_(xid + 1, chance.one_in(2) ? 4 : 1, 1, 2));
			break;
		}
		case 5: /* version 1, in various ways */
			if (chance.one_in(2)) {
				/* Whatever version it echoes. */
				spoken_ = 1;
				(void)say(words(xid, 1, 4, 4, 1, 1, 1));
			} else
				(void)say(bare(1, xid, 4, xdr::Direction::reply) +
					  words(xid, 1, 0, 0, 0, 0));
			break;
		case 6: { /* not all of it */
			Octets cut = usual;

			cut.resize(chance.below(u32(cut.size())));
			(void)say(cut);
			break;
		}
		case 7: { /* any bytes */
			Octets bytes(chance.below(200));

			for (u8 &byte : bytes)
				byte = u8(chance.next());
			(void)say(bytes);
			break;
		}
		case 8: /* a call, or a control message that is no answer */
			if (chance.one_in(2))
				(void)say(words(xid, 2, 4, 9, 0));
			else
				(void)say(words(xid, 2, 4, 8, 0, 0, 0));
			break;
		case 9: { /* strange properties: their data, and ids that there are not */
			static const u32 sizes[] = {0, 1, 4095, ~0u, 1 << 20};

			spoken_ = 2;
			(void)say(words(xid, 2, 1 + chance.below(8), 6, 4, 1, 4,
					chance.any_of(sizes), 99, 8, 1, 2, 5, 4, 0, 1, 0, 0));
			break;
		}
		case 10: /* a known one that does not decode */
			(void)say(words(xid, 2, 4, 6, 1, 1, 8, 4096, 4096, 0));
			break;
		default: /* another xid will do; and then again, with something else */
			spoken_ = 2;
			most_ = kLeast;
			(void)say(connprop(xid + chance.below(2), chance.below(9), kLeast,
					   may_change_));
			for (u32 more = chance.below(3); more; more--)
				(void)say(chance.one_in(2) ? usual : error_(xid, 1, 1, 1));
			break;
		}
	}

	/* Nothing is out: for each credit there is a Receive, and for two messages more. */
	void check_receives_() const
	{
		const auto qp = other();

		if (!calls_ && qp && qp->state == Qp::State::connected)
			REQUIRE(qp->receives_posted() >= kGrant + 2, "%u Receives for %u credits",
				qp->receives_posted(), kGrant);
	}

	/* What nobody asked for. There are Receives for two of that. */
	void say_aside_(u32 version)
	{
		const u32 xid = 0x51de0000 + chance.below(1000);

		switch (chance.below(16)) {
		case 0:
			(void)say(connprop(xid, 3));
			break;
		case 1: /* REQPROP */
			(void)say(words(xid, 2, 4, 7, 1, chance.below(9), 4, 8192));
			break;
		case 2: { /* UPDPROP, of a word */
			const u32 id = chance.below(9);

			if (id == u32(rpcordma::properties::Id::receive_size))
				note_news_(8192, total_);
			(void)say(words(xid, 2, 4, 9, 1, id, 4, 8192));
			break;
		}
		default:
			say_news_(xid);
			break;
		case 3: /* RESPROP */
			(void)say(words(xid, 2, 4, 8, 0, 0, 0));
			break;
		case 4: /* OPTIONAL */
			(void)say(words(xid, 2, 4, 5, chance.below(3), 1 + chance.below(90), 0));
			break;
		case 5: /* no such proc */
			(void)say(words(xid, 2, 4, 10 + chance.below(9), 0, 0, 0));
			break;
		case 6: /* of the other version */
			(void)say(bare(3 - version, xid, 4, xdr::Direction::reply) +
				  words(xid, 1, 0, 0, 0, 0));
			break;
		case 7: /* of none */
			(void)say(bare(3 + chance.below(9), xid, 4, xdr::Direction::reply));
			break;
		case 8: { /* a backward call that nobody serves */
			Call call;

			(void)say(bare(version, xid, 4, xdr::Direction::call,
				       chance.one_in(2) ? 0 : 77) +
				  call_bytes(call, xid));
			break;
		}
		}
	}

	/* UPDPROP: it takes more; or says so of one property, or two that contradict each other. */
	void say_news_(u32 xid)
	{
		static const u32 sizes[] = {kLeast, 2 * kLeast, 5 * kLeast};
		const u32 size = chance.any_of(sizes),
			  total = chance.one_in(2) ? size : chance.any_of(sizes);
		const Octets size_news = words(1, 4, size);
		/* One group, of one segment. */
		const Octets total_news = words(4, 24, total, 1, 1, total, 8, 0);

		switch (chance.below(4)) {
		case 0:
			note_news_(size, total_);
			(void)say(words(xid, 2, 4, 9, 1) + size_news);
			break;
		case 1:
			note_news_(size_, total);
			(void)say(words(xid, 2, 4, 9, 1) + total_news);
			break;
		default:
			note_news_(size, total);
			(void)say(words(xid, 2, 4, 9, 2) + size_news + total_news);
			break;
		}
	}

	/*
	 * It says what it takes by RBSIZ and RBSTRUCT, before it does: the smaller counts. It never takes less than it did, since
	 * a message may be under way. What it has said to be for good stays.
	 */
	void note_news_(u32 size, u32 total)
	{
		if (!may_change_)
			return;
		size_ = size;
		total_ = total;
		/* Nothing is known of one that has not said what it is. */
		most_ = std::max(most_, std::min(size_, total_));
	}

	static constexpr u32 kGrant = 4;

	/* Whether it has not said that its sizes stay. */
	const u32 may_change_ = chance.one_in(4) ? 0 : rpcordma::protocol::kSizes;
	u32 size_ = kLeast, total_ = kLeast;
	u32 most_ = ~0u; /* bytes of a message that it takes */
	bool asked_ = false;
	u32 calls_ = 0;	 /* that wait for a reply */
	u32 spoken_ = 0; /* after the question; 0: nobody is to speak */
};

/* --- clients --- */

/** A client that says anything, and knows what has to be answered. */
class StrangeClient : public Stranger {
public:
	/** @may_2: the server speaks version 2 if the first message does. */
	StrangeClient(bool may_2, bool floods)
		: Stranger("strange client"),
		  may_2_(may_2),
		  floods_(floods)
	{
	}

	/** Say what comes to mind, once connected. */
	void talk()
	{
		for (u32 i = chance.between(1, 24); i && other(); i--) {
			const u32 xid = ++last_xid_;
			const Octets message = any_message_(xid);

			if (!say(message)) {
				expected_.erase(xid);
				break;
			}
			if (floods_)
				continue;
			/* What it says that it takes holds for replies that are planned after that. */
			u32 patience = 20;
			do
				sleep_for(50 * kMillisecond, "the next thing to say");
			while (!expected_.empty() && other() && --patience);
			check_receives_();
		}
		sleep_for(kSecond, "answers");
		/* Who leaves Receives unposted, or breaks it, does not answer. */
		if (!floods_ && other())
			REQUIRE(expected_.empty(), "xid %#x is not answered, as it has to be",
				expected_.begin()->first);
	}

	void heard(const Octets &message, u32 invalidated) override
	{
		const u32 xid = word_of(message, 0);
		const auto it = expected_.find(xid);

		REQUIRE(!invalidated, "the client's memory is invalidated, uninvited");
		REQUIRE(it != expected_.end(), "xid %#x is answered, and must not be", xid);
		const Answer should = it->second;
		expected_.erase(it);
		granted_ = word_of(message, 2);
		if (!should.is_reply) {
			REQUIRE(message.size() >= should.words.size() * 4, "xid %#x: %zu bytes",
				xid, message.size());
			for (u32 i = 0; i < should.words.size(); i++)
				REQUIRE(i == 0 || i == 2 || word_of(message, i) == should.words[i],
					"xid %#x: word %u of the answer is %u instead of %u", xid,
					i, word_of(message, i), should.words[i]);
			return;
		}
		const Octets header =
			bare(should.version, xid, word_of(message, 2), xdr::Direction::reply);
		REQUIRE(message.size() > header.size() &&
				std::equal(header.begin(), header.end(), message.begin()),
			"xid %#x: this is not the service's reply", xid);
		fabric->ledger.take(check_reply(should.call, xid,
						Octets(message.begin() + u32(header.size()),
						       message.end())),
				    xid, should.call.id, connection());
	}
	bool reached(u64, u32, u32, u8 *, Access) override
	{
		fail("a server reaches for memory that it was not offered");
	}

private:
	struct Answer {
		std::vector<u32> words; /* the first ones; xid and credits may be any */
		u32 version = 0;
		bool is_reply = false; /* of the service, to: */
		Call call;
	};

	/* Nothing is out: for each credit there is a Receive, and for two messages more. */
	void check_receives_() const
	{
		const auto qp = other();

		if (expected_.empty() && spoken_ == 2 && qp && qp->state == Qp::State::connected)
			REQUIRE(qp->receives_posted() >= granted_ + 2, "%u Receives for %u credits",
				qp->receives_posted(), granted_);
	}

	void expect_(u32 xid, std::vector<u32> answer)
	{
		expected_[xid].words = std::move(answer);
	}
	void expect_error_(u32 xid, u32 code)
	{
		expect_(xid, {xid, 2, 0, 4, code});
	}
	/* That of any but the version that is spoken. */
	void expect_version_(u32 xid, u32 vers)
	{
		expect_(xid, {xid, vers, 0, 4, 1, spoken_ ? spoken_ : 1,
			      spoken_ ? spoken_ :
			      may_2_  ? 2 :
					1});
	}

	/* One message, and what is to come of it. */
	Octets any_message_(u32 xid)
	{
		/* A server that may not speak version 2 speaks version 1 from the start. */
		if (!may_2_)
			spoken_ = 1;
		/* Version 2 first, in most cases. */
		const u32 vers = chance.one_in(8)	      ? chance.below(5) :
				 spoken_ && !chance.one_in(4) ? spoken_ :
								2;

		if (vers != 1 && (vers != 2 || !may_2_ || spoken_ == 1)) {
			expect_version_(xid, vers);
			return bare(vers, xid, 4, xdr::Direction::call) +
			       call_bytes(small_call(xid), xid);
		}
		if (vers == 1 && spoken_ == 2) {
			expect_version_(xid, vers);
			return bare(vers, xid, 4, xdr::Direction::call) +
			       call_bytes(small_call(xid), xid);
		}
		const bool first = !spoken_;
		spoken_ = vers;
		if (first && vers == 2 && chance.one_in(2)) {
			takes_ = chance.one_in(2) ? 2 * kLeast : kLeast;
			fixed_ = true;
			expect_(xid, {xid, 2, 0, 6});
			return connprop(xid, 8, takes_);
		}
		if (vers == 1 || chance.one_in(4))
			return call_(vers, xid);
		return version_2_(xid);
	}

	Octets call_(u32 vers, u32 xid)
	{
		Call call = small_call(xid);

		/* A reply that is as long as messages are here, or a little longer. */
		if (vers == 2 && call.kind == Kind::small && !floods_ && chance.one_in(3))
			call.reply_data = kLeast - 64 - call.reply_length() + call.reply_data +
					  chance.below(64);
		/* A server sends as much as we say that we take. */
		const u32 most = takes_;
		if (vers == 2 && v2::min_header_length + call.reply_length() > most) {
			expect_error_(xid, 3);
		} else {
			expected_[xid].version = vers;
			expected_[xid].is_reply = true;
			expected_[xid].call = call;
		}
		/* An R_key to invalidate that stands in no chunk of it. */
		return bare(vers, xid, 4, xdr::Direction::call, chance.one_in(3) ? 0x1234 : 0) +
		       call_bytes(call, xid);
	}

	Octets version_2_(u32 xid)
	{
		const u32 takes = chance.one_in(2) ? 2 * kLeast : kLeast;
		Octets usual = connprop(xid, 1 + chance.below(20), takes);

		switch (chance.below(12)) {
		case 0:
		case 1: /* as often as it likes; the last ones hold, and say that they stay */
			takes_ = takes;
			fixed_ = true;
			expect_(xid, {xid, 2, 0, 6});
			return usual;
		case 2: /* the first words are there, or a known property does not decode */
			if (chance.one_in(3)) {
				expect_error_(xid, 2);
				return words(xid, 2, 4, 6, 1, 1, 8, 4096, 4096, 0);
			}
			usual.resize(chance.between(16, u32(usual.size()) - 1));
			expect_error_(xid, 2);
			return usual;
		case 3:
		case 4: { /* REQPROP, UPDPROP, of anything: a word */
			const bool update = chance.one_in(2);
			const u32 id = chance.below(9);
			const u32 value = chance.one_in(2) ? chance.below(9999) : chance.below(4);

			/* That is no structure, and not any number is a kind of backward call. */
			if (id == u32(properties::Id::structure) ||
			    (id == u32(properties::Id::backward) &&
			     value > u32(properties::Backward::general)))
				expect_error_(xid, 2);
			else if (!update)
				expect_(xid, {xid, 2, 0, 8});
			else if (id == u32(properties::Id::receive_size) && !fixed_)
				takes_ = std::max(value, kLeast);
			return words(xid, 2, 4, update ? 9 : 7, 1, id, 4, value);
		}
		case 5: /* RESPROP, that decodes or not; ERROR */
			return chance.one_in(2) ? words(xid, 2, 4, 8, 0, 0, 1, chance.below(9), 0) :
			       chance.one_in(2) ? words(xid, 2, 4, 8, 0, 0, 1, 1, 8, 0, 0) :
						  words(xid, 2, 4, 4, 1 + chance.below(9), 1, 1);
		case 6: /* no such proc */
			expect_error_(xid, 4);
			return words(xid, 2, 4,
				     chance.one_in(2) ? 2 + chance.below(2) : 10 + chance.below(99));
		case 7: /* no such option; nor is any of those that there are */
			expect_error_(xid, 5);
			return words(xid, 2, 4, 5, 0, 1000, 0);
		case 8: /* the same as a reply, or one that there is */
			return chance.one_in(2) ? words(xid, 2, 4, 5, 1, 1000, 0) :
						  words(xid, 2, 4, 5, 1, 2, 12, 0, 0, 0);
		case 9: /* many properties, none of which is known */
		{
			const u32 count = chance.between(2, 200);
			Octets many = words(xid, 2, 4, 6, count);

			for (u32 i = 0; i < count; i++)
				many = many + words(100 + i, 4, i);
			takes_ = kLeast;
			fixed_ = false;
			expect_(xid, {xid, 2, 0, 6});
			return many + words(0);
		}
		case 10: /* a call in no direction; lists that are none */
			expect_error_(xid, 2);
			if (chance.one_in(2))
				return words(xid, 2, 4, 0, 2, 0, 0, 0, 0, xid, 0);
			return words(xid, 2, 4, 0, 0, 0, 7, 0, 0, xid, 0);
		default: /* a reply to nobody */
			return bare(2, xid, 4, xdr::Direction::reply) + words(xid, 1, 0, 0, 0, 0);
		}
	}

	const bool may_2_, floods_;
	u32 spoken_ = 0; /* 0: not settled */
	u32 last_xid_ = 0x1000;
	u32 granted_ = 1;
	/* Of a message, by what it said last; and whether it said that this stays so. */
	u32 takes_ = kLeast;
	bool fixed_ = false;
	std::map<u32, Answer> expected_;
};

/* --- the plays --- */

class VersionPlay : ServerPlay {
public:
	VersionPlay()
	{
		rpcordma_tunables.slot_table_entries = 8;
		rpcordma_tunables.max_inline_read = rpcordma_tunables.max_inline_write = kLeast;
		rpcordma_tunables.scratch_remap = false;
		rpcordma_tunables.version2 = chance.between(1, 2);
		rpcordma_tunables.version2_pages = chance.one_in(2) ? 4 : 0;
		rpcordma_server_tunables.version2_pages = chance.one_in(2) ? 4 : 0;
		rpcordma_server_tunables.version2_receive_bytes = 64 << 20;
		rpcordma_tunables.version2_rtr = chance.one_in(2) ? 7 : 0;
		rpcordma_server_tunables.version2_rtr = chance.one_in(2) ? 7 : 0;
		rpcordma_tunables.send_write_max = chance.one_in(2) ? 65536 : 0;
		rpcordma_server_tunables.max_requests = chance.between(4, 16);
		rpcordma_server_tunables.max_req_size = chance.one_in(2) ? 2 * kLeast : kLeast;
		rpcordma_server_tunables.max_outbound_read_requests = 4;
		rpcordma_server_tunables.eager_read_bytes = 0;
		rpcordma_server_tunables.version2 = chance.below(3);
		for (Host *host : {&fabric_.client, &fabric_.server}) {
			rpcordma_device &limits = add_device_(*host);

			limits.max_qp_wr = limits.max_cqe = chance.one_in(2) ? 300 : 4096;
		}
		begin_();
	}

	void run()
	{
		serve_(kMostMessage, [this] {
			if (chance.one_in(2))
				meet_servers_();
			else
				meet_clients_();
			/* Who is honest is served. */
			if (!xprt_)
				xprt_ = rpc_xprt::create("client");
			call_(2);
			xprt_->destroy();
			for (auto &server : servers_)
				server->leave();
		});
	}

private:
	/* The first connections are strangers'; the honest server has the others. */
	void meet_servers_()
	{
		const Listener honest = fabric->listener;
		u32 left = chance.between(1, 3);

		fabric->listener = [this, honest, &left](const std::shared_ptr<CmId> &id, u32 depth,
							 const Octets &said) {
			const bool mark = rpcordma_tunables.version2 == 1 || chance.one_in(2);

			if (!left)
				return honest(id, depth, said);
			left--;
			servers_.push_back(std::make_unique<StrangeServer>());
			return servers_.back()->accept(id, private_data(mark));
		};
		xprt_ = rpc_xprt::create("client");
		for (u32 i = 0; i < 12 && (left || i < 3); i++) {
			call_(1 + chance.below(2));
			if (chance.one_in(3))
				sleep_for(chance.one_in(4) ? kAvoidance + 20 * kSecond : kSecond,
					  "the next call");
			if (chance.one_in(2))
				xprt_->close_idle();
		}
		fabric->listener = honest;
		/* No stranger is left to be spoken to. */
		for (auto &server : servers_)
			server->leave();
	}

	void meet_clients_()
	{
		for (u32 i = chance.between(1, 3); i; i--) {
			const bool mark = chance.one_in(2);
			const u32 parameter = rpcordma_server_tunables.version2;
			StrangeClient client(parameter == 2 || (parameter == 1 && mark),
					     chance.one_in(3));

			if (!client.connect(private_data(mark, chance.one_in(2))))
				client.talk();
			client.leave();
			sleep_for(kSecond, "the next client");
			rpcordma_server_tunables.version2 = chance.below(3);
		}
	}

	/* @count calls at once, each of which has to end well. */
	void call_(u32 count)
	{
		for (u32 i = 0; i < count; i++) {
			busy_++;
			spawn("user", Context::process, [this] {
				const u32 id = ++calls_;
				ClientCall call(chance.one_in(2) ? long_call(id) : small_call(id));
				Task task(*xprt_, call, false);
				const int rc = task.run();

				REQUIRE(!rc && call.decoded, "a call failed with %d", rc);
				busy_--;
				left_.wake_all();
			});
		}
		while (busy_)
			(void)wait(left_, "the users");
	}

	rpc_xprt *xprt_ = nullptr;
	std::vector<std::unique_ptr<StrangeServer>> servers_;
	u32 calls_ = 0, busy_ = 0;
	WaitQueue left_;
};

} // namespace

void strange_versions()
{
	VersionPlay().run();
}

} // namespace sim
