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
void expect_direction(const xdr::Message &message, const reference::Model &m, Bytes bytes)
{
	const Bytes payload = bytes.from(m.length);

	EXPECT_EQ(message.payload.size(), m.proc ? 0 : payload.size());
	if (m.read_count) {
		EXPECT_EQ(message.direction, xdr::Direction::call);
		return;
	}
	if (m.proc) {
		EXPECT_EQ(message.direction, xdr::Direction::reply);
		return;
	}
	if (payload.size() < 8 || reference::word_at(payload, 0) != m.xid ||
	    reference::word_at(payload, 1) > 1) {
		EXPECT_EQ(message.direction, xdr::Direction::unknown);
		return;
	}
	EXPECT_EQ(message.direction,
		  reference::word_at(payload, 1) ? xdr::Direction::reply : xdr::Direction::call);
}

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
	return sum;
}

} // namespace
} // namespace rpcordma

FUZZ_TARGET()
{
	Input in;
	const u32 spoiled = in.half(), with = in.word();
	const ExactCopy bytes(in.take(reference::max_message));
	auto &model = test_zeroed<reference::Model>();
	MutableBytes room = test_alloc(reference::max_message);

	if (reference::check(bytes.bytes(), model, room) != Error::none)
		return;
	const xdr::Message message = decoded(bytes.bytes()).value();
	expect_direction(message, model, bytes.bytes());
	const u32 words = u32(bytes.bytes().size() / 4);
	reference::set_word(bytes.bytes(), spoiled % words, with);
	volatile u32 sum = walk(message);
	(void)sum;
}
