// SPDX-License-Identifier: GPL-2.0-only
/*
 * The codec of rtrext-01's rdma_optinfo over whole families of messages, as test_xdr_v1_sweep.cc has them for version 1:
 * against the second codec of test_xdr_reference_rtrext.hh. Single cases with a name are in test_xdr_rtrext.cc.
 */
#include "kunit/test_xdr_reference_rtrext.hh"
#include "kunit/test_xdr_sweep.hh"
#include "kunit/testing.hh"

namespace rpcordma {
namespace {

using namespace xdr_reference;
using ModelR = xdr_reference_rtrext::Model;
using xdr_reference_rtrext::IdModel;

/* Appends to a model. */
struct Maker {
	ModelR &m;

	void segments(u32 &count, u32 n, u32 each)
	{
		count = n;
		for (; n != 0; n--) {
			m.segment[m.segments] = segment(m.segments, each);
			m.segments++;
		}
	}
	Maker &fetched(u32 disp, u32 length, u32 n, u32 each)
	{
		auto &item = m.item[m.items++] = {disp, length, 1, 0, 0, 0};

		segments(item.segments, n, each);
		return *this;
	}
	Maker &sent(u32 disp, u32 length, u32 offset, u32 first, u32 n)
	{
		m.item[m.items++] = {disp, length, 2, offset, n, 0};
		for (; n != 0; n--)
			m.number[m.numbers++] = first++;
		return *this;
	}
	Maker &unplaced(u32 disp, u32 length, u32 type)
	{
		m.item[m.items++] = {disp, length, type, 0, 0, 0};
		return *this;
	}
	Maker &set(u32 begin, u32 end)
	{
		m.set[m.sets++] = {begin, end, 0};
		return *this;
	}
	Maker &place(u32 least, u32 type, u32 limit, u32 n)
	{
		auto &place = m.place[m.places++] = {least, type, limit, 0};

		m.set[m.sets - 1].places++;
		segments(place.segments, n, 4096);
		return *this;
	}
};

enum : u32 { requests = 9, responses = 5, continuations = 2, reports = 4 };

void fill_request(ModelR &m, u32 i)
{
	Maker make{m};

	m.option = 1;
	m.count = 1 + i % 3;
	m.rsbuf = i;
	m.pslen = 40 + 4 * i;
	switch (i) {
	case 0: /* nothing but a call */
		return;
	case 1: /* NFS WRITE */
		return (void)make.sent(140, 65536, 0, 0, 16);
	case 2: /* the same, to be fetched */
		return (void)make.fetched(140, 8192, 2, 4096);
	case 3: /* its pad is fetched too */
		return (void)make.fetched(140, 4095, 1, 4096);
	case 4: /* NFS READ */
		return (void)make.set(0, ~0u).place(8192, 2, 0, 0);
	case 5: /* all kinds of directions */
		return (void)make.set(0, 100)
			.place(0, 1, 0, 1)
			.place(1, 2, 0, 0)
			.place(2, 3, 0, 2)
			.place(3, 4, 16384, 1);
	case 6: /* sets that touch, one without directions */
		return (void)make.set(0, 40)
			.place(0, 2, 0, 0)
			.set(40, 40)
			.set(44, 100)
			.place(9, 4, 7, 0);
	case 7: /* items behind each other, with pads, and in part empty */
		return (void)make.sent(40, 5, 8, 3, 1)
			.fetched(48, 0, 0, 0)
			.fetched(52, 7, 1, 8)
			.sent(60, 1, 4095, 0, 2);
	case 8:
		return (void)make.sent(44, 4096, 0, 1, 1).set(0, 8).place(0, 1, 0, 2);
	}
}

void fill_response(ModelR &m, u32 i)
{
	Maker make{m};

	m.option = 2;
	m.direction = 1;
	m.count = 1 + i;
	m.pslen = 100 + i;
	switch (i) {
	case 0:
		return;
	case 1:
		return (void)make.sent(128, 16384, 0, 0, 4);
	case 2: /* each kind of result, in any place where it is none */
		return (void)make.unplaced(3, 4, 5)
			.fetched(24, 4096, 1, 8192)
			.sent(4120, 4100, 0, 0, 2)
			.unplaced(8220, 4, 5)
			.unplaced(0, 0, 6);
	case 3:
		return (void)make.unplaced(0, 0, 6);
	case 4:
		return (void)make.sent(24, 0, 0, 0, 0).sent(28, 4, 0, 1, 1);
	}
}

void fill_report(ModelR &m, u32 i)
{
	const u32 which[reports] = {3, 1, 5, 8};

	m.option = 4;
	m.direction = 1;
	m.bad = {0xc0ffee, 0, i};
	m.has_lead = i % 2;
	m.lead = {0xc0ffed, 0, 0};
	m.which = which[i];
	m.value[0] = 5000;
	m.value[1] = i == 3 ? 0 : 3;
	m.value[2] = 4096;
}

struct Codec {
	using Model = ModelR;
	enum : u32 {
		specimens = requests + responses + continuations + reports,
		least = xdr_reference_rtrext::head
	};

	static void fill_specimen(Model &m, u32 i)
	{
		ASSERT_LT(i, specimens);
		__builtin_memset(static_cast<void *>(&m), 0, sizeof(m));
		m.xid = 0xc0ffee;
		m.credits = 0x00010203;
		if (i < requests) {
			fill_request(m, i);
		} else if (i < requests + responses) {
			fill_response(m, i - requests);
		} else if (i < requests + responses + continuations) {
			m.option = 3;
			m.direction = i % 2;
			m.xnum = 1 + i;
			m.itype = 1 + m.direction;
			m.pslen = 4 * i;
		} else {
			fill_report(m, i - requests - responses - continuations);
		}
	}
	static u32 write(const Model &m, MutableBytes room)
	{
		return xdr_reference_rtrext::write(m, room);
	}
	static void write_trailer(const Model &m, MutableBytes room)
	{
		set_word(room, 0, m.xid);
		set_word(room, 1, m.direction);
		set_word(room, 2, 1);
	}
	static Error check(Bytes message, Model &scratch, MutableBytes room)
	{
		return xdr_reference_rtrext::check(message, scratch, room);
	}
	static bool encodes(const Model &)
	{
		return true;
	}
	static Result<u32> encode(const Model &m, MutableBytes room)
	{
		return xdr_reference_rtrext::encode(m, room);
	}
};

} // namespace

/* What the second codec writes is read, and written again, as it is. */
RPCORDMA_TEST(xdr_rtrext_sweep, round_trips)
{
	auto &m = test_zeroed<ModelR>();
	auto &scratch = test_zeroed<ModelR>();
	MutableBytes whole = test_alloc(max_message);
	MutableBytes room = test_alloc(max_message);

	for (u32 specimen = 0; specimen < Codec::specimens; specimen++) {
		TEST_NOTE("specimen", specimen);
		Codec::fill_specimen(m, specimen);
		const u32 header = Codec::write(m, whole);
		ExactCopy message(whole.first(header));

		EXPECT_EQ(Codec::check(message.bytes(), scratch, room), Error::none);
		EXPECT_BYTES(Bytes(room.first(header)), Bytes(message.bytes()));
	}
}

/* Every prefix is cut short. */
RPCORDMA_TEST(xdr_rtrext_sweep, prefixes)
{
	sweep_prefixes<Codec>([](const ModelR &, u32 header, u32 n, Error error) {
		EXPECT_EQ(error, n < xdr_reference_rtrext::head ? Error::message_size :
				 n >= header			? Error::none :
								  Error::protocol);
	});
}

RPCORDMA_TEST(xdr_rtrext_sweep, alignments)
{
	sweep_alignments<Codec>();
}

RPCORDMA_TEST(xdr_rtrext_sweep, single_word_mutations)
{
	auto &tally = test_zeroed<Tally>();

	sweep_words<Codec>(tally);
	EXPECT_GT(tally.accepted, 10000);
	EXPECT_GT(tally.bad, 10000);
}

/* From rdma_opttype on. */
RPCORDMA_TEST(xdr_rtrext_sweep, double_word_mutations)
{
	auto &tally = test_zeroed<Tally>();

	sweep_pairs<Codec>({0u, 3u, 6u, 7u, 11u, 13u, 17u, 19u}, 5, tally);
	EXPECT_GT(tally.accepted, 5000);
	EXPECT_GT(tally.bad, 10000);
}

RPCORDMA_TEST(xdr_rtrext_sweep, rooms)
{
	sweep_rooms<Codec>();
}

RPCORDMA_SUITE(xdr_rtrext_sweep, round_trips, prefixes, alignments, single_word_mutations,
	       double_word_mutations, rooms);

} // namespace rpcordma
