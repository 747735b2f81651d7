// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdr/v2.hh and properties.hh, on arbitrary messages: the outcome is that of the reference decoder, and what decodes is
 * encoded again as the same bytes. Properties that decode say the same when they are encoded and decoded again. Bytes
 * that change after decoding lead nothing out of the message.
 */
#include "fuzz.hh"
#include "kunit/test_xdr_reference_v2.hh"

namespace rpcordma {
namespace {

namespace reference = xdr_reference_v2;
using properties::Properties;

/* Read all that the views show; the sanitizers judge. */
u32 walk(const xdr::Message &message)
{
	u32 sum = 0;

	for (xdr::ReadSegment segment : message.reads)
		sum += segment.target.length;
	for (xdr::WriteChunk chunk : message.writes)
		for (xdr::Segment segment : chunk)
			sum += segment.length;
	for (xdr::Segment segment : message.reply)
		sum += segment.length;
	for (u8 byte : message.body())
		sum += byte;
	return sum;
}

/* Decode the body of a message of properties. */
Error decode_body(const xdr::Message &message, Properties &said, u32 &nochange)
{
	properties::Response response;
	Error error;

	nochange = 0;
	switch (message.kind) {
	case xdr::Kind::connprop:
		return properties::decode_connprop(message.body(), said, nochange);
	case xdr::Kind::resprop:
		error = properties::decode_resprop(message.body(), response);
		for (u32 n = 0; error == Error::none && n < 100; n++)
			(void)(response.done.has(n) || response.rejected.has(n));
		said = response.other;
		return error;
	default:
		return properties::decode_updprop(message.body(), said);
	}
}

/* What holds of properties, wherever they come from. */
void expect_sound(const Properties &said)
{
	EXPECT_LE(properties::default_receive_size, said.receive_size);
	EXPECT_LE(properties::default_receive_size, said.receive_bytes());
	EXPECT_LE(said.receive_bytes(), said.receive_size);
	EXPECT_LE(static_cast<u32>(said.backward), 2);
	EXPECT_NE(said.call_limit, 0);
	EXPECT_NE(said.reply_limit, 0);
	EXPECT_LE(said.structure.total, properties::most_structure_bytes);
	EXPECT_LE(u64(said.structure.segments) * said.structure.segment_length,
		  said.structure.total);
	EXPECT_EQ(said.structure.segments == 0, said.structure.segment_length == 0);
	EXPECT_EQ(said.present & ~properties::all, 0);
}

void expect_same(const Properties &a, const Properties &b)
{
	EXPECT_EQ(a.present, b.present);
	EXPECT_EQ(a.receive_size, b.receive_size);
	EXPECT_EQ(a.backward, b.backward);
	EXPECT_EQ(a.extensions, b.extensions);
	EXPECT_EQ(a.call_limit, b.call_limit);
	EXPECT_EQ(a.reply_limit, b.reply_limit);
	EXPECT_TRUE(a.structure == b.structure);
}

void try_properties(const xdr::Message &message)
{
	MutableBytes room = test_alloc(v2::most_connprop_length);
	Properties said, again;
	u32 nochange, nochange_again;
	xdr::Message made;

	if (decode_body(message, said, nochange) != Error::none)
		return;
	expect_sound(said);
	EXPECT_EQ(nochange & ~said.present, 0);
	auto length = v2::encode_connprop(room, message.xid, message.credits, said, nochange);
	ASSERT_OK(length);
	ASSERT_EQ(v2::decode(room.first(length.value()), made), Error::none);
	ASSERT_EQ(properties::decode_connprop(made.body(), again, nochange_again), Error::none);
	expect_same(said, again);
	EXPECT_EQ(nochange, nochange_again);
}

/* As many are rejected as were asked for. */
void try_rejection(const xdr::Message &message)
{
	MutableBytes room = test_alloc(xdr_reference::max_message);
	const u32 asked = xdr::load_be32(message.body().data());
	properties::Response response;
	xdr::Message made;
	auto length = v2::encode_resprop(room, message, message.credits);

	ASSERT_OK(length);
	ASSERT_EQ(v2::decode(room.first(length.value()), made), Error::none);
	ASSERT_EQ(properties::decode_resprop(made.body(), response), Error::none);
	EXPECT_EQ(made.xid, message.xid);
	for (u32 n = 0; n < asked + 40; n++)
		EXPECT_EQ(response.rejected.has(n), n < asked);
}

} // namespace
} // namespace rpcordma

FUZZ_TARGET()
{
	Input in;
	const u32 spoiled = in.half(), with = in.word();
	const ExactCopy bytes(in.take(xdr_reference::max_message));
	auto &model = test_zeroed<reference::Model>();
	MutableBytes room = test_alloc(xdr_reference::max_message);
	xdr::Message message;

	if (reference::check(bytes.bytes(), model, room) != Error::none)
		return;
	ASSERT_EQ(v2::decode(bytes.bytes(), message), Error::none);
	const bool properties = reference::has_properties(model);
	if (properties)
		try_properties(message);
	if (message.kind == xdr::Kind::reqprop)
		try_rejection(message);

	const u32 words = u32(bytes.bytes().size() / 4);
	xdr_reference::set_word(bytes.bytes(), spoiled % words, with);
	volatile u32 sum = walk(message);
	(void)sum;
	if (properties) {
		Properties said;
		u32 nochange;

		if (decode_body(message, said, nochange) == Error::none)
			expect_sound(said);
	}
}
