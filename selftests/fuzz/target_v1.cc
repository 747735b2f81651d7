// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdr/v1.hh and lists.hh, on arbitrary messages: the outcome is that of the reference decoder, what decodes is
 * encoded again as the same bytes, and the direction follows from the words alone. Bytes that change after
 * decoding lead no view out of the message.
 */
#include "fuzz.hh"
#include "kunit/test_xdr_reference.hh"

namespace rpcordma {
namespace {

namespace reference = xdr_reference;

/* By RFC 8167 4.1, from the model and the words behind the header. */
void expect_direction(const v1::Header &header, const reference::Model &m, Bytes message)
{
	const auto direction = v1::direction(header, message);

	if (m.read_count) {
		ASSERT_OK(direction);
		EXPECT_EQ(direction.value(), v1::Direction::call);
		return;
	}
	if (m.proc) {
		ASSERT_OK(direction);
		EXPECT_EQ(direction.value(), v1::Direction::reply);
		return;
	}
	const Bytes payload = message.from(m.length);
	EXPECT_EQ(header.payload(message).size(), payload.size());
	if (payload.size() < 8 || reference::word_at(payload, 0) != m.xid ||
	    reference::word_at(payload, 1) > 1) {
		EXPECT_ERROR(direction, Error::protocol);
		return;
	}
	ASSERT_OK(direction);
	EXPECT_EQ(direction.value(),
		  reference::word_at(payload, 1) ? v1::Direction::reply : v1::Direction::call);
}

/* Read all that the views show; the sanitizers judge. */
u32 walk(const v1::Header &header)
{
	u32 sum = 0;

	for (xdr::ReadSegment segment : header.reads)
		sum += segment.target.length;
	for (xdr::WriteChunk chunk : header.writes)
		for (xdr::Segment segment : chunk)
			sum += segment.length;
	for (xdr::Segment segment : header.reply)
		sum += segment.length;
	return sum;
}

} // namespace
} // namespace rpcordma

FUZZ_TARGET()
{
	Input in;
	const u32 spoiled = in.half(), with = in.word();
	const ExactCopy message(in.take(reference::max_message));
	auto &model = test_zeroed<reference::Model>();
	MutableBytes room = test_alloc(reference::max_message);

	if (reference::check(message.bytes(), model, room) != Error::none)
		return;
	const v1::Header header = v1::decode(message.bytes()).value();
	expect_direction(header, model, message.bytes());
	const u32 words = u32(message.bytes().size() / 4);
	reference::set_word(message.bytes(), spoiled % words, with);
	volatile u32 sum = walk(header);
	(void)sum;
}
