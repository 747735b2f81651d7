// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdr/rtrext.hh, on arbitrary rdma_optinfo: the outcome is that of the reference decoder, and what decodes is encoded
 * again as the same bytes. A transmission with it in front is judged: what is good has all that is said of it. Bytes that
 * change after decoding lead nothing out of the message.
 */
#include "fuzz.hh"
#include "kunit/test_xdr_reference_rtrext.hh"

namespace rpcordma {
namespace {

namespace reference = xdr_reference_rtrext;
using namespace rtrext;

/* Read all that the views show; the sanitizers judge. */
u32 walk(const Items &items)
{
	u32 sum = 0, count = 0;

	for (const Item &item : items) {
		sum += item.displacement + item.length + item.offset;
		for (u32 n = 0; n < item.numbers.count(); n++)
			sum += item.numbers[n];
		for (xdr::Segment segment : item.segments)
			sum += segment.length;
		count++;
	}
	EXPECT_EQ(count, items.count());
	return sum;
}

u32 walk(const Sets &sets)
{
	u32 sum = 0, count = 0;

	for (const Set &set : sets) {
		for (const Place &place : set.places)
			for (xdr::Segment segment : place.segments)
				sum += segment.length + place.least + place.most_sent;
		count++;
	}
	EXPECT_EQ(count, sets.count());
	return sum;
}

/* What is placed is in ascending order, and the stream reaches to where each item belongs. */
void expect_in_stream(const Items &items, u32 stream_length)
{
	u64 end = 0, before = 0;

	for (const Item &item : items) {
		if (!item.placed())
			continue;
		EXPECT_LE(end, u64(item.displacement));
		EXPECT_LE(item.displacement - before, u64(stream_length));
		before += item.padded();
		end = item.displacement + item.padded();
	}
}

void try_request(const xdr::Message &message, const Request &request, u32 behind, u32 most)
{
	const Verdict verdict = judge(message, request, behind, most);

	EXPECT_NE(request.transmissions, 0);
	if (!verdict.good())
		return;
	EXPECT_LE(request.transmissions, most);
	EXPECT_LE(request.items.count(), most_items);
	EXPECT_LE(request.sets.places(), most_items);
	EXPECT_LE(request.stream_length, behind);
	EXPECT_LE(8, request.stream_length);
	EXPECT_EQ(request.stream_length % 4, 0);
	EXPECT_EQ(xdr::load_be32(message.payload.data()), message.xid.get());
	if (request.transmissions == 1)
		expect_in_stream(request.items, request.stream_length);
}

void try_response(const xdr::Message &message, const Response &response, u32 behind)
{
	if (!judge(message, response, behind).good())
		return;
	EXPECT_LE(response.stream_length, behind);
	EXPECT_EQ(response.stream_length % 4, 0);
	if (response.transmissions == 1)
		expect_in_stream(response.items, response.stream_length);
}

} // namespace
} // namespace rpcordma

FUZZ_TARGET()
{
	Input in;
	const u32 option = 1 + in.byte() % 4, most = in.byte(), behind = in.half();
	const u32 spoiled = in.half(), with = in.word();
	const Bytes optinfo = in.take(xdr_reference::max_message - reference::head);
	const u32 stream[] = {7, option == 2, 2, 100003, 4, 1, 0, 0, 0, 0, 1, 2};
	const ExactCopy header(xdr_reference::wire({7, 2, 32, 5, option == 2, 1, 0}));
	MutableBytes bytes = test_alloc(reference::head + optinfo.size());
	MutableBytes room = test_alloc(xdr_reference::max_message);
	auto &model = test_zeroed<reference::Model>();
	xdr::Message message;
	Request request;
	Response response;

	__builtin_memcpy(bytes.data(), header.bytes().data(), reference::head);
	if (!optinfo.empty())
		__builtin_memcpy(bytes.data() + reference::head, optinfo.data(), optinfo.size());
	xdr_reference::set_word(bytes, 5, option);
	xdr_reference::set_word(bytes, 6, u32(optinfo.size()));
	if (reference::check(bytes, model, room) != Error::none || option > 2)
		return;

	const MutableBytes payload = xdr_reference::wire(stream);
	message.xid = Xid(7);
	message.direction = option == 2 ? xdr::Direction::reply : xdr::Direction::call;
	message.payload = payload.first(behind);
	const Bytes info = bytes.from(reference::head);
	if (option == 1) {
		ASSERT_EQ(decode(info, request), Error::none);
		try_request(message, request, behind, most);
	} else {
		ASSERT_EQ(decode(info, response), Error::none);
		try_response(message, response, behind);
	}

	xdr_reference::set_word(bytes, reference::head / 4 + spoiled % u32(info.size() / 4), with);
	volatile u32 sum = option == 1 ? walk(request.items) + walk(request.sets) :
					 walk(response.items);
	(void)sum;
}
