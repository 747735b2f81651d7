// SPDX-License-Identifier: GPL-2.0-only
/*
 * The version 2 header codec, case by case: messages word by word, each error of v2::decode(), and what only its
 * encoders do. The sweeps over whole families of headers are in test_xdr_v2_sweep.cc, the values of properties in
 * test_xdr_properties.cc.
 */
#include "kunit/test_xdr_reference.hh"
#include "kunit/testing.hh"
#include "module/protocol/v2.hh"

namespace rpcordma {
namespace {

using namespace v2;
using namespace xdr;
using protocol::V2;
using xdr_reference::set_word;
using xdr_reference::wire;
using xdr_reference::word_at;

constexpr Xid xid{0x12345678};
constexpr Credits credits{32};
constexpr u32 call = 0, reply = 1;
#define FIXED(proc) 0x12345678, 2, 32, proc

/** Apart, so that a test of many messages has one header on its stack. */
[[gnu::noinline]] Error outcome(Bytes bytes)
{
	Message message;

	return decode(bytes, message);
}

properties::Properties grown()
{
	properties::Properties said;

	said.receive_size = 20480;
	said.extensions = 7;
	said.structure = {20480, 4, 4096};
	said.present = properties::all;
	return said;
}

Envelope envelope(Direction direction, u32 invalidate)
{
	Envelope made;

	made.xid = xid;
	made.credits = credits;
	made.direction = direction;
	made.invalidate = Rkey(invalidate);
	return made;
}

} // namespace

RPCORDMA_TEST(xdr_v2, bare)
{
	static const u32 words[] = {FIXED(0), call, 0x89abcdef, 0, 0, 0, 0x12345678, call, 2};
	MutableBytes bytes = wire(words), room = test_alloc(min_header_length);
	Message message;

	ASSERT_EQ(V2::decode(bytes, message), Error::none);
	EXPECT_EQ(message.xid, xid);
	EXPECT_EQ(message.credits, credits);
	EXPECT_EQ(message.invalidate, Rkey(0x89abcdef));
	EXPECT_EQ(message.kind, Kind::msg);
	EXPECT_EQ(message.direction, Direction::call);
	EXPECT_EQ(message.header_length, V2::rules().bare_header);
	EXPECT_EQ(message.payload.size(), 12);
	EXPECT_EQ(message.body().size(), 0);
	auto built = V2::encode_bare(room, envelope(Direction::call, 0x89abcdef));
	ASSERT_OK(built);
	EXPECT_BYTES(Bytes(room), Bytes(bytes.first(min_header_length)));
	EXPECT_ERROR(V2::encode_bare(room.first(35), envelope(Direction::call, 0)), Error::no_space);
	EXPECT_ERROR(V2::encode_bare(room, envelope(Direction::unknown, 0)), Error::invalid);
	EXPECT_ERROR(V2::encode_continuation(room, envelope(Direction::call, 0), 1), Error::invalid);
}

/* What an Encoder makes of one chunk of one segment. */
RPCORDMA_TEST(xdr_v2, lone_chunk)
{
	const LoneChunk chunks[] = {{false, {}, {Rkey(7), 8, 9}},
				    {true, Position(40), {Rkey(7), 8, 9}}};

	for (const LoneChunk &chunk : chunks) {
		MutableBytes slow = test_alloc(64), fast = test_alloc(64);
		const Envelope said = envelope(Direction::reply, 0x89abcdef);

		__builtin_memset(slow.data(), 0xa5, slow.size());
		__builtin_memset(fast.data(), 0xa5, fast.size());
		V2::Encoder encoder(slow, said);
		if (chunk.read)
			encoder.read_segment(chunk.position, chunk.segment);
		else
			encoder.write_chunk({&chunk.segment, 1});
		const u32 length = encoder.finish().value();
		auto lone = V2::encode_lone(fast, said, chunk);
		ASSERT_OK(lone);
		EXPECT_EQ(lone.value(), length);
		EXPECT_BYTES(Bytes(fast), Bytes(slow));
		EXPECT_ERROR(V2::encode_lone(fast.first(length - 1), said, chunk), Error::no_space);
		EXPECT_EQ(V2::encode_lone(fast.first(length), said, chunk).value(), length);
		EXPECT_ERROR(V2::encode_lone(fast, envelope(Direction::unknown, 0), chunk),
			     Error::invalid);
	}
	EXPECT_ERROR(V2::encode_lone(test_alloc(64), envelope(Direction::call, 0), {true, {}, {}}),
		     Error::invalid);
}

/* The payload must be what the header says it is: a call is told, a reply is dropped. */
RPCORDMA_TEST(xdr_v2, payload_contradicts)
{
	static const u32 calls[][3] = {{call, 0x12345678, reply},
				       {call, 0x12345679, call},
				       {call, 0x12345678, 2}};
	static const u32 replies[][3] = {{reply, 0x12345678, call},
					 {reply, 0x12345679, reply},
					 {reply, 0x12345678, ~0u}};

	for (const auto &c : calls) {
		const u32 words[] = {FIXED(0), c[0], 0, 0, 0, 0, c[1], c[2]};
		EXPECT_EQ(outcome(wire(words)), Error::protocol);
	}
	for (const auto &c : replies) {
		const u32 words[] = {FIXED(0), c[0], 0, 0, 0, 0, c[1], c[2]};
		EXPECT_EQ(outcome(wire(words)), Error::bad_message);
	}
}

/* A MSG has no Position Zero chunk, a NOMSG that or a Reply chunk; a Position is a multiple of four. */
RPCORDMA_TEST(xdr_v2, positions)
{
	for (u32 direction : {call, reply}) {
		const Error refused = direction == call ? Error::protocol : Error::bad_message;
		const u32 zero_in_msg[] = {FIXED(0), direction, 0, 1, 0, 1,	     64,
					   0,	     0,		0, 0, 0, 0x12345678, direction};
		const u32 odd[] = {FIXED(0), direction, 0, 1, 41, 1,	      64,
				   0,	     0,		0, 0, 0,  0x12345678, direction};
		const u32 nowhere[] = {FIXED(1), direction, 0, 0, 0, 0};
		const u32 long_call[] = {FIXED(1), direction, 0, 1, 0, 1, 64, 0, 0, 0, 0, 0};
		const u32 long_reply[] = {FIXED(1), direction, 0, 0, 0, 1, 1, 1, 64, 0, 0};

		EXPECT_EQ(outcome(wire(zero_in_msg)), refused);
		EXPECT_EQ(outcome(wire(odd)), refused);
		EXPECT_EQ(outcome(wire(nowhere)), refused);
		EXPECT_EQ(outcome(wire(long_call)), Error::none);
		EXPECT_EQ(outcome(wire(long_reply)), Error::none);
	}
}

/* Each error stands for one course of action. */
RPCORDMA_TEST(xdr_v2, refusals)
{
	static const struct {
		u32 vers, proc, first, second;
		Error error;
		ErrorCode answer;
	} cases[] = {
		{1, 0, 0, 0, Error::no_protocol, ErrorCode::version},
		{3, 0, 0, 0, Error::no_protocol, ErrorCode::version},
		{2, 2, 0, 0, Error::not_supported, ErrorCode::procedure},
		{2, 3, 0, 0, Error::not_supported, ErrorCode::procedure},
		{2, 10, 1, 0, Error::not_supported, ErrorCode::procedure},
		{2, ~0u, 1, 0, Error::not_supported, ErrorCode::procedure},
		{2, 5, call, 0, Error::no_option, ErrorCode::option},
		{2, 5, call, 5, Error::no_option, ErrorCode::option},
		{2, 5, call, 2, Error::no_option, ErrorCode::option}, /* XMTRESP */
		{2, 5, 2, 1, Error::protocol, ErrorCode::chunk},
		{2, 0, 2, 0, Error::protocol, ErrorCode::chunk},
		{2, 0, call, 0, Error::protocol, ErrorCode::chunk},
		/* These say that they are replies. */
		{2, 5, reply, 1, Error::bad_message, ErrorCode::chunk}, /* XMTREQ */
		{2, 5, reply, 9, Error::bad_message, ErrorCode::chunk},
		{2, 0, reply, 0, Error::bad_message, ErrorCode::chunk},
		{2, 8, 7, 0, Error::bad_message, ErrorCode::chunk},
		{2, 4, 0, 0, Error::bad_message, ErrorCode::chunk},
		{2, 4, 7, 0, Error::bad_message, ErrorCode::chunk},
		{1, 4, 2, 0, Error::bad_message, ErrorCode::chunk},
	};

	for (const auto &c : cases) {
		TEST_NOTE("case", &c - cases);
		const u32 words[] = {0x12345678, c.vers, 32, c.proc, c.first, c.second};
		const Error error = outcome(wire(words));

		EXPECT_EQ(error, c.error);
		EXPECT_EQ(refusal(error), c.answer);
	}
	/* As far as it says which way it goes, and no further. */
	for (const u32 proc : {0u, 1u, 5u})
		for (const u32 direction : {call, reply, 2u}) {
			const u32 words[] = {0x12345678, 2, 32, proc, direction};

			TEST_NOTE("proc", proc);
			EXPECT_EQ(outcome(wire(words)),
				  direction == reply ? Error::bad_message : Error::protocol);
			EXPECT_EQ(outcome(wire(words).first(19)), Error::protocol);
		}
	static const u32 little[] = {0x12345678, 2, 32};
	EXPECT_EQ(outcome(wire(little)), Error::message_size);
}

/* All six codes, and ERR_VERS from a peer that speaks another version. */
RPCORDMA_TEST(xdr_v2, errors)
{
	static const struct {
		ErrorBody body;
		u32 words;
	} cases[] = {
		{{ErrorCode::version, 1, 2}, 3},	  {{ErrorCode::chunk, 0, 0}, 1},
		{ErrorBody::reply_resource(3, 70000), 3}, {{ErrorCode::procedure, 0, 0}, 1},
		{{ErrorCode::option, 0, 0}, 1},		  {{ErrorCode::system, 0, 0}, 1},
	};

	for (const auto &c : cases) {
		for (u32 vers : {1u, 2u, 0xffffffffu}) {
			const u32 code = u32(&c - cases) + 1;
			TEST_NOTE("code", code);
			MutableBytes room = test_alloc(error_words_length);
			Message message;
			auto length = V2::encode_error(room, {xid, vers, {}, 9}, credits, c.body);

			ASSERT_OK(length);
			EXPECT_EQ(length.value(), 16 + c.words * 4);
			EXPECT_EQ(word_at(room, 1), vers);
			EXPECT_EQ(word_at(room, 4), code);
			EXPECT_ERROR(V2::encode_error(room.first(length.value() - 1),
						      {xid, vers, {}, 9}, credits, c.body),
				     Error::no_space);
			const Error error = decode(room.first(length.value()), message);
			if (vers != 2 && code != 1) {
				EXPECT_EQ(error, Error::bad_message);
				continue;
			}
			ASSERT_EQ(error, Error::none);
			EXPECT_EQ(message.kind, Kind::error);
			EXPECT_EQ(message.direction, Direction::reply);
			EXPECT_EQ(message.version, vers);
			EXPECT_EQ(message.error.code, c.body.code);
			EXPECT_EQ(message.error.segment(), c.body.low);
			EXPECT_EQ(message.error.needed(), c.body.high);
			EXPECT_EQ(message.header_length, length.value());
			EXPECT_EQ(message.payload.size(), 0);
			EXPECT_EQ(message.body().size(), 0);
			EXPECT_FALSE(message.has_chunks());
		}
	}
}

/* What both ends say first: the client and a server that has grown, and one that has not. */
RPCORDMA_TEST(xdr_v2, connprop)
{
	static const u32 words[] = {FIXED(6), 6,  1,	 4, 20480, 2,	 4, 1, 3,   4,	  7,
				    4,	      40, 20480, 2, 1,	   4096, 8, 0, 4,   4096, 4096,
				    1,	      5,  4,	 1, 6,	   4,	 1, 1, 0x3f};
	MutableBytes room = test_alloc(most_connprop_length);
	properties::Properties said = grown();
	u32 nochange;
	Message message;
	auto length = encode_connprop(room, xid, credits, said, properties::all);

	ASSERT_OK(length);
	EXPECT_EQ(length.value(), 136);
	EXPECT_BYTES(Bytes(room), Bytes(wire(words)));
	ASSERT_EQ(decode(room, message), Error::none);
	EXPECT_EQ(message.kind, Kind::connprop);
	EXPECT_EQ(message.direction, Direction::call);
	ASSERT_EQ(properties::decode_connprop(message.body(), said, nochange), Error::none);
	EXPECT_EQ(nochange, properties::all);
	EXPECT_EQ(said.ddp_segments(), 4);
	for (u32 n = 0; n < 136; n++)
		EXPECT_ERROR(encode_connprop(room.first(n), xid, credits, said, 0), Error::no_space);

	said.receive_size = 4096;
	said.structure = {4096, 0, 0};
	length = encode_connprop(room, xid, credits, said, 0x36);
	ASSERT_OK(length);
	EXPECT_EQ(length.value(), 120);
	EXPECT_EQ(word_at(room, 29), 0x36);
}

RPCORDMA_TEST(xdr_v2, updprop)
{
	MutableBytes room = test_alloc(most_connprop_length);
	properties::Properties said = grown();
	Message message;

	said.present = bit(properties::Id::receive_size) | bit(properties::Id::structure);
	auto length = encode_updprop(room, xid, credits, said);
	ASSERT_OK(length);
	EXPECT_EQ(length.value(), 16 + 4 + 12 + 48);
	ASSERT_EQ(decode(room.first(length.value()), message), Error::none);
	EXPECT_EQ(message.kind, Kind::updprop);
	ASSERT_EQ(properties::decode_updprop(message.body(), said), Error::none);
	EXPECT_EQ(said.structure.segments, 4);
	EXPECT_ERROR(encode_updprop(room.first(length.value() - 1), xid, credits, said),
		     Error::no_space);
}

/* Whatever is asked for is rejected, bit by bit. */
RPCORDMA_TEST(xdr_v2, resprop)
{
	for (u32 count : {0u, 1u, 31u, 32u, 33u, 64u, 100u}) {
		TEST_NOTE("count", count);
		const u32 words = (count + 31) / 32;
		MutableBytes asked = test_alloc(20 + count * 8);
		MutableBytes room = test_alloc(resprop_length + words * 4);
		properties::Response response;
		Message message;

		__builtin_memset(asked.data(), 0, asked.size());
		for (u32 i = 0; i < 4; i++)
			set_word(asked, i, i == 0 ? xid.get() : i == 1 ? 2 : i == 2 ? 5 : 7);
		set_word(asked, 4, count);
		for (u32 i = 0; i < count; i++)
			set_word(asked, 5 + 2 * i, i);
		ASSERT_EQ(decode(asked, message), Error::none);
		EXPECT_EQ(message.kind, Kind::reqprop);
		for (u32 n = 0; n < room.size(); n++)
			EXPECT_ERROR(encode_resprop(room.first(n), message, credits),
				     Error::no_space);
		auto length = encode_resprop(room, message, credits);
		ASSERT_OK(length);
		EXPECT_EQ(length.value(), room.size());
		ASSERT_EQ(decode(room, message), Error::none);
		EXPECT_EQ(message.kind, Kind::resprop);
		EXPECT_EQ(message.xid, xid);
		EXPECT_EQ(message.direction, Direction::reply);
		ASSERT_EQ(properties::decode_resprop(message.body(), response), Error::none);
		for (u32 i = 0; i < count + 40; i++) {
			EXPECT_FALSE(response.done.has(i));
			EXPECT_EQ(response.rejected.has(i), i < count);
		}
		EXPECT_EQ(response.other.present, 0);
	}
	/* Of what is no REQPROP there is nothing to answer. */
	Message other;
	EXPECT_ERROR(encode_resprop(test_alloc(64), other, credits), Error::invalid);
}

/* The extension's bytes may stand in place already. */
RPCORDMA_TEST(xdr_v2, optional)
{
	static const u32 words[] = {FIXED(5), reply, 2, 12, 0, 1, 8, 0x12345678, reply};
	const MutableBytes bytes = wire(words);
	MutableBytes room = test_alloc(40);
	Message message;

	ASSERT_EQ(decode(bytes, message), Error::none);
	EXPECT_EQ(message.kind, Kind::optional);
	EXPECT_EQ(message.option, Option::xmtresp);
	EXPECT_EQ(message.header_length, 40);
	EXPECT_EQ(message.body().size(), 12);
	EXPECT_EQ(message.payload.size(), 8);
	__builtin_memcpy(room.data() + optional_length, bytes.data() + optional_length, 12);
	for (Bytes optinfo : {Bytes(bytes.from(28).first(12)), Bytes(room.from(28))}) {
		auto length = encode_optional(room, xid, credits, Direction::reply, Option::xmtresp,
					      optinfo);
		ASSERT_OK(length);
		EXPECT_EQ(length.value(), 40);
		EXPECT_BYTES(Bytes(room), Bytes(bytes.first(40)));
	}
	const Bytes optinfo = bytes.from(28).first(12);
	EXPECT_ERROR(encode_optional(room.first(27), xid, credits, Direction::reply,
				     Option::xmtresp, optinfo),
		     Error::no_space);
	EXPECT_ERROR(encode_optional(room, xid, credits, Direction::unknown, Option::xmtresp,
				     optinfo),
		     Error::invalid);
	EXPECT_ERROR(encode_optional(room, xid, credits, Direction::reply, Option::none, optinfo),
		     Error::invalid);
	EXPECT_ERROR(encode_optional(room, xid, credits, Direction::call, Option::xmtreq, optinfo),
		     Error::invalid);
}

/* How long optinfo is, of each option in each direction: what is read, and what is written. */
RPCORDMA_TEST(xdr_v2, optinfo_lengths)
{
	static const struct {
		Option option;
		u32 least, most;
	} options[] = {{Option::none, 1, 0},	   {Option::xmtreq, 20, ~0u},
		       {Option::xmtresp, 12, ~0u}, {Option::xmtcont, 12, 12},
		       {Option::repterr, 20, 44},  {static_cast<Option>(5), 1, 0}};

	for (const auto &o : options)
		for (const u32 direction : {call, reply})
			for (u32 length = 0; length <= 60; length++) {
				const bool fits = length >= o.least && length <= o.most &&
						  length % 4 == 0;
				const bool known = fits && o.option != (direction == call ?
										Option::xmtresp :
										Option::xmtreq);
				const MutableBytes room = test_alloc(28 + length);
				const MutableBytes optinfo = test_alloc(length);
				Message message;

				TEST_NOTE("option", static_cast<u32>(o.option));
				TEST_NOTE("direction", direction);
				TEST_NOTE("length", length);
				__builtin_memset(optinfo.data(), 0xa5, length);
				for (u32 n : {0u, 27u, 27 + length, 28 + length}) {
					const auto made =
						encode_optional(room.first(n), xid, credits,
								static_cast<Direction>(direction),
								o.option, optinfo);
					if (!fits)
						EXPECT_ERROR(made, Error::invalid);
					else if (n < 28 + length)
						EXPECT_ERROR(made, Error::no_space);
					else
						EXPECT_EQ(made.value(), 28 + length);
				}
				const u32 words[] = {FIXED(5), direction,
						     static_cast<u32>(o.option), length};
				for (u32 i = 0; i < 7; i++)
					set_word(room, i, words[i]);
				ASSERT_EQ(decode(room, message) == Error::none, known);
				/* Cut short it is nothing. */
				if (length)
					EXPECT_NE(outcome(room.first(27 + length)), Error::none);
				if (!known)
					continue;
				EXPECT_EQ(message.header_length, 28 + length);
				EXPECT_EQ(message.option, o.option);
				EXPECT_EQ(message.direction, static_cast<Direction>(direction));
				EXPECT_EQ(message.body().size(), length);
				EXPECT_EQ(message.payload.size(), 0);
			}
}

/* What a message of properties consists of is its header, whatever follows. */
RPCORDMA_TEST(xdr_v2, properties_alone)
{
	static const u32 words[] = {FIXED(6), 0, 0, 0, 0};

	for (const u32 proc : {6u, 7u, 8u, 9u}) {
		const MutableBytes bytes = wire(words);
		const u32 length = proc == 6 ? 24 : proc == 8 ? 28 : 20;

		TEST_NOTE("proc", proc);
		set_word(bytes, 3, proc);
		for (u32 n = 16; n <= 32; n++) {
			const ExactCopy copy(bytes.first(n));
			Message message;

			TEST_NOTE("length", n);
			ASSERT_EQ(decode(copy.bytes(), message) == Error::none, n >= length);
			if (n < length)
				continue;
			EXPECT_EQ(message.kind, static_cast<Kind>(proc));
			EXPECT_EQ(message.direction, proc == 8 ? Direction::reply : Direction::call);
			EXPECT_EQ(message.header_length, length);
			EXPECT_EQ(message.payload.size(), 0);
			EXPECT_BYTES(message.body(),
				     Bytes(copy.bytes()).from(16).first(length - 16));
		}
	}
}

/* No message is longer than a word can tell; nothing of it is read. */
RPCORDMA_TEST(xdr_v2, beyond_a_word)
{
	static const u32 words[] = {FIXED(0), call, 0, 0, 0, 0};
	MutableBytes bytes = wire(words);

	if constexpr (sizeof(usize) > sizeof(u32)) {
		const Bytes huge(bytes.data(), usize(1) << 32);

		EXPECT_EQ(outcome(huge), Error::message_size);
		/* The longest of all is as any other, and so for each of its readers. */
		static const u32 plain[17] = {FIXED(0), call, 0, 0, 0, 0, 0x12345678, call},
				 lone[17] = {FIXED(0), call, 0, 0, 1, 1,	  7,
					     8,	       0,    9, 0, 0, 0x12345678, call};
		for (const bool bare : {true, false}) {
			const u8 *const at = wire(bare ? plain : lone).data();
			const Bytes most(at, ~u32(0)), more(at, usize(1) << 32);
			Message message;

			EXPECT_EQ(outcome(most), Error::none);
			EXPECT_EQ(outcome(more), Error::message_size);
			EXPECT_EQ(decode_plain(most, message), bare);
			EXPECT_EQ(decode_lone(most, message), !bare);
			EXPECT_FALSE(decode_plain(more, message));
			EXPECT_FALSE(decode_lone(more, message));
		}
		EXPECT_ERROR(encode_optional(bytes, xid, credits, Direction::call, Option::xmtreq,
					     huge),
			     Error::no_space);
		for (u32 less : {27u, 28u})
			EXPECT_ERROR(encode_optional(bytes, xid, credits, Direction::call,
						     Option::xmtreq, huge.first(~u32(0) - less)),
				     less == 27 ? Error::no_space : Error::invalid);
	} else {
		TEST_SKIP("no span is that long here");
	}
}

RPCORDMA_TEST(xdr_v2, encoder)
{
	MutableBytes room = test_alloc(256);
	Envelope it = envelope(Direction::call, 0x89abcdef);
	Message message;

	it.kind = Kind::nomsg;
	V2::Encoder encoder(room, it);
	encoder.read_segment(Position(0), {Rkey(1), 64, 2});
	auto length = encoder.finish();
	ASSERT_OK(length);
	ASSERT_EQ(decode(room.first(length.value()), message), Error::none);
	EXPECT_EQ(message.invalidate, Rkey(0x89abcdef));
	EXPECT_TRUE(message.reads.has_position_zero());

	it.kind = Kind::connprop;
	V2::Encoder wrong_kind(room, it);
	EXPECT_ERROR(wrong_kind.finish(), Error::invalid);
	it.kind = Kind::msg;
	it.direction = Direction::unknown;
	V2::Encoder wrong_direction(room, it);
	EXPECT_ERROR(wrong_direction.finish(), Error::invalid);
}

/* The ways of most messages: they say nothing but what decode() says, take what they are for, and else touch nothing. */
template <usize N>
static void compare_with_decode(u32 (&words)[N], bool (*decode_some)(Bytes, Message &),
				u32 header_length, u32 &taken)
{
	static const u32 values[] = {0, 1, 2, 3, 4, 5, 7, 8, 0x700, 0x01000000, 0xffffffff};

	for (u32 at = 0; at < N; at++)
		for (u32 value : values)
			for (u32 length : {header_length, header_length + 7, header_length + 8,
					   header_length + 11, header_length + 12}) {
				const u32 was = words[at];
				Message some, any;
				words[at] = value;
				const ExactCopy copy(Bytes(wire(words)).first(length));
				words[at] = was;
				TEST_NOTE("word", at);
				TEST_NOTE("value", value);
				TEST_NOTE("length", length);
				/* As of another message that came in the same Receive. */
				some.kind = any.kind = Kind::nomsg;
				some.header_length = 99;
				const Error error = decode(copy.bytes(), any);
				if (!decode_some(copy.bytes(), some)) {
					EXPECT_EQ(some.header_length, 99);
					EXPECT_EQ(some.kind, Kind::nomsg);
					continue;
				}
				taken++;
				EXPECT_EQ(error, Error::none);
				xdr_reference::expect_same(some, any);
			}
}

RPCORDMA_TEST(xdr_v2, plain)
{
	u32 words[] = {FIXED(0), call, 0x89abcdef, 0, 0, 0, 0x12345678, call, 2}, taken = 0;
	const auto plain = [](Bytes bytes, Message &message) {
		return decode_plain(bytes, message);
	};

	compare_with_decode(words, plain, min_header_length, taken);
	/* With 44, 47 and 48 bytes: any credits, any R_key, any word behind, and what is as it was. */
	EXPECT_EQ(taken, 3 * (3 * 11 + 7));
	words[4] = words[10] = reply;
	taken = 0;
	compare_with_decode(words, plain, min_header_length, taken);
	EXPECT_EQ(taken, 3 * (3 * 11 + 7));
}

RPCORDMA_TEST(xdr_v2, lone)
{
	u32 read[] = {FIXED(0), call, 9, 1, 4, 7, 8, 0, 0x1000, 0, 0, 0, 0x12345678, call, 2};
	u32 write[] = {FIXED(0), reply, 0, 0, 1, 1, 7, 8, 0, 0x1000, 0, 0, 0x12345678, reply, 2};
	constexpr u32 header_length = 24 + lone_lists_size;
	u32 taken = 0;

	/* With 68, 71 and 72 bytes: the segment, the four Positions of those that data can have, and as above. */
	compare_with_decode(read, decode_lone, header_length, taken);
	EXPECT_EQ(taken, 3 * (7 * 11 + 4 + 8));
	taken = 0;
	compare_with_decode(write, decode_lone, header_length, taken);
	EXPECT_EQ(taken, 3 * (7 * 11 + 9));
}

RPCORDMA_SUITE(xdr_v2, bare, lone_chunk, plain, lone, payload_contradicts, positions, refusals,
	       errors, connprop, updprop, resprop, optional, optinfo_lengths, properties_alone,
	       beyond_a_word, encoder);

} // namespace rpcordma
