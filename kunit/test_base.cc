// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of module/base: the vocabulary that everything else is written in.
 */
#include "kunit/testing.hh"
#include "module/base/list.hh"
#include "module/base/result.hh"
#include "module/base/span.hh"
#include "module/base/types.hh"

namespace rpcordma {
namespace {

struct Tag;
struct OtherTag;

struct Item : ListLink<Tag>, ListLink<OtherTag> {
	explicit Item(int v) : value(v)
	{
	}
	int value;
};

using Items = List<Item, Tag>;
using OtherItems = List<Item, OtherTag>;

bool linked(const Item &item)
{
	return item.ListLink<Tag>::linked();
}

/** The values of a list, as decimal digits, first item first; 1000000 or more when it does not end. */
u32 digits(const Items &list)
{
	u32 n = 0;

	for (Item *i = list.front(); i && n < 1000000; i = list.next(i))
		n = n * 10 + static_cast<u32>(i->value);
	return n;
}

Result<u32> half(u32 n)
{
	if (n & 1)
		return Error::invalid;
	return n / 2;
}

Result<u32> quarter(u32 n)
{
	const u32 h = TRY(half(n));

	return TRY(half(h));
}

Status must_be_even(u32 n)
{
	TRY_STATUS(half(n));
	return {};
}

} // namespace

RPCORDMA_TEST(base, be32)
{
	const Be32 field(0x01020304);
	const u8 wire[] = {1, 2, 3, 4};

	EXPECT_EQ(field.get(), 0x01020304u);
	EXPECT_BYTES(Bytes(reinterpret_cast<const u8 *>(&field), sizeof(field)), Bytes(wire));
	EXPECT_EQ(Be32(0xffffffff).get(), 0xffffffffu);
	EXPECT_EQ(Be32().get(), 0u);
}

RPCORDMA_TEST(base, strong_types)
{
	EXPECT_TRUE(Xid(7) == Xid(7));
	EXPECT_TRUE(Xid(7) != Xid(8));
	EXPECT_EQ(Rkey(0xdeadbeef).get(), 0xdeadbeefu);
	EXPECT_EQ(Credits().get(), 0u);
	static_assert(!std::is_convertible_v<u32, Xid> && !std::is_convertible_v<Xid, u32>);
	static_assert(!std::is_convertible_v<Rkey, Position>);
}

RPCORDMA_TEST(base, xdr_pad)
{
	const u32 want[] = {0, 3, 2, 1, 0, 3, 2, 1, 0};

	for (u32 n = 0; n < sizeof(want) / sizeof(want[0]); n++) {
		TEST_NOTE("length", n);
		EXPECT_EQ(xdr_pad(n), want[n]);
	}
	EXPECT_EQ(xdr_pad(~0u), 1u);
}

RPCORDMA_TEST(base, arithmetic)
{
	u32 sum = 5;

	EXPECT_TRUE(checked_add(0xfffffff0u, 0xfu, sum));
	EXPECT_EQ(sum, 0xffffffffu);
	EXPECT_FALSE(checked_add(0xfffffff0u, 0x10u, sum));
	EXPECT_EQ(sum, 0xffffffffu);
	EXPECT_FALSE(checked_add(u64(1), ~u64(0), test_zeroed<u64>()));

	EXPECT_EQ(div_round_up(0u, 4096u), 0u);
	EXPECT_EQ(div_round_up(1u, 4096u), 1u);
	EXPECT_EQ(div_round_up(4096u, 4096u), 1u);
	EXPECT_EQ(div_round_up(4097u, 4096u), 2u);

	EXPECT_EQ(min(3, -4), -4);
	EXPECT_EQ(max(3, -4), 3);
}

RPCORDMA_TEST(base, span)
{
	u8 array[] = {1, 2, 3, 4, 5};
	const MutableBytes all(array);
	const Bytes read = all;

	ASSERT_EQ(all.size(), 5u);
	EXPECT_EQ(read.data(), &array[0]);
	EXPECT_EQ(read[4], 5);
	EXPECT_EQ(read.first(2).size(), 2u);
	EXPECT_EQ(read.first(6).size(), 5u);
	EXPECT_EQ(read.from(2).size(), 3u);
	EXPECT_EQ(read.from(2)[0], 3);
	EXPECT_TRUE(read.from(5).empty());
	EXPECT_TRUE(read.from(~usize(0)).empty());
	EXPECT_TRUE(Bytes().empty());

	u32 sum = 0;
	for (u8 b : read)
		sum += b;
	EXPECT_EQ(sum, 15u);
}

RPCORDMA_TEST(base, result)
{
	EXPECT_OK(half(4));
	EXPECT_EQ(half(4).value(), 2u);
	EXPECT_ERROR(half(3), Error::invalid);
	EXPECT_EQ(quarter(8).value(), 2u);
	EXPECT_ERROR(quarter(6), Error::invalid);
	EXPECT_ERROR(quarter(7), Error::invalid);
	EXPECT_OK(must_be_even(2));
	EXPECT_ERROR(must_be_even(1), Error::invalid);
	EXPECT_EQ(to_errno(Error::message_size), -90);
	EXPECT_EQ(from_errno(-90), Error::message_size);
}

RPCORDMA_TEST(base, list)
{
	Items list, other;
	Item a(1), b(2), c(3), d(4);

	EXPECT_TRUE(list.empty());
	EXPECT_EQ(list.front(), nullptr);
	EXPECT_EQ(list.pop_front(), nullptr);
	EXPECT_FALSE(linked(a));

	list.push_back(&a);
	list.push_back(&b);
	list.push_front(&c);
	EXPECT_TRUE(linked(a));
	EXPECT_EQ(digits(list), 312u);

	Items::remove(&a);
	EXPECT_FALSE(linked(a));
	EXPECT_EQ(digits(list), 32u);

	other.push_back(&d);
	other.push_back(&a);
	list.splice_back(other);
	EXPECT_TRUE(other.empty());
	EXPECT_EQ(digits(list), 3241u);
	list.splice_back(other);
	EXPECT_EQ(digits(list), 3241u);

	EXPECT_EQ(list.pop_front(), &c);
	EXPECT_FALSE(linked(c));
	for (Item *item : {&b, &d, &a})
		EXPECT_EQ(list.pop_front(), item);
	EXPECT_TRUE(list.empty());
	EXPECT_FALSE(linked(d));
}

/* Each end, the middle and the only item: what remains holds together in both directions. */
RPCORDMA_TEST(base, list_remove)
{
	const struct {
		int removed;
		u32 rest, appended;
	} cases[] = {
		{.removed = 1, .rest = 23, .appended = 231},
		{.removed = 2, .rest = 13, .appended = 132},
		{.removed = 3, .rest = 12, .appended = 123},
	};

	for (const auto &c : cases) {
		TEST_NOTE("removed", c.removed);
		Items list;
		Item items[] = {Item(1), Item(2), Item(3)};

		for (Item &item : items)
			list.push_back(&item);
		Item *item = &items[c.removed - 1];
		Items::remove(item);
		EXPECT_FALSE(linked(*item));
		EXPECT_EQ(digits(list), c.rest);
		list.push_back(item);
		EXPECT_TRUE(linked(*item));
		EXPECT_EQ(digits(list), c.appended);
	}

	Items list;
	Item only(7);
	list.push_front(&only);
	EXPECT_EQ(list.next(&only), nullptr);
	Items::remove(&only);
	EXPECT_TRUE(list.empty());
	list.push_back(&only);
	EXPECT_EQ(digits(list), 7u);
}

/* From each place of a list, also the only one, to either end of another, and of the same. */
RPCORDMA_TEST(base, list_move)
{
	for (int moved = 1; moved <= 3; moved++) {
		TEST_NOTE("moved", moved);
		Items list, other;
		Item items[] = {Item(1), Item(2), Item(3)}, kept(4);
		Item *item = &items[moved - 1];
		const u32 rest = moved == 1 ? 23 : moved == 2 ? 13 : 12;

		for (Item &i : items)
			list.push_back(&i);
		other.push_back(&kept);
		other.move_back(item);
		EXPECT_TRUE(linked(*item));
		EXPECT_EQ(digits(list), rest);
		EXPECT_EQ(digits(other), 40u + u32(moved));
		other.move_front(item);
		EXPECT_EQ(digits(other), u32(moved) * 10 + 4);
		list.move_front(item);
		EXPECT_EQ(digits(list), u32(moved) * 100 + rest);
		EXPECT_EQ(digits(other), 4u);
		list.move_back(&kept);
		EXPECT_TRUE(other.empty());
		for (const int value : {moved, moved == 1 ? 2 : 1, moved == 3 ? 2 : 3, 4})
			EXPECT_EQ(list.pop_front()->value, value);
		EXPECT_TRUE(list.empty());
	}
}

/* What was spliced belongs to its new list at every joint. */
RPCORDMA_TEST(base, list_splice)
{
	Items list, other;
	Item a(1), b(2), c(3), d(4);

	other.push_back(&a);
	other.push_back(&b);
	list.splice_back(other);
	EXPECT_EQ(digits(list), 12u);
	EXPECT_EQ(other.front(), nullptr);
	other.push_back(&c);
	EXPECT_EQ(digits(other), 3u);
	list.splice_back(other);
	list.push_back(&d);
	EXPECT_EQ(digits(list), 1234u);
	Items::remove(&c);
	Items::remove(&b);
	EXPECT_EQ(digits(list), 14u);
	Items::remove(&d);
	list.push_back(&b);
	EXPECT_EQ(digits(list), 12u);
	EXPECT_TRUE(other.empty());
}

/* One item on two lists at once. */
RPCORDMA_TEST(base, list_tags)
{
	Items list;
	OtherItems others;
	Item a(1), b(2);

	list.push_back(&a);
	list.push_back(&b);
	others.push_back(&b);
	EXPECT_FALSE(a.ListLink<OtherTag>::linked());
	others.push_back(&a);
	Items::remove(&a);
	EXPECT_FALSE(linked(a));
	EXPECT_TRUE(a.ListLink<OtherTag>::linked());
	EXPECT_EQ(digits(list), 2u);
	EXPECT_EQ(others.front(), &b);
	EXPECT_EQ(others.next(&b), &a);
	EXPECT_EQ(others.next(&a), nullptr);
}

/* Cuts stay inside, share the memory, and may be cut again; constness is only ever added. */
RPCORDMA_TEST(base, span_cuts)
{
	static_assert(std::is_convertible_v<MutableBytes, Bytes>);
	static_assert(!std::is_convertible_v<Bytes, MutableBytes>);
	static_assert(!std::is_convertible_v<Span<const u32>, Bytes>);
	const MutableBytes all = test_alloc(6);

	for (usize n = 0; n <= all.size(); n++) {
		for (usize m = 0; m <= all.size() + 1; m++) {
			TEST_NOTE("first", n);
			TEST_NOTE("from", m);
			const MutableBytes cut = all.first(n).from(m);

			EXPECT_EQ(cut.size(), m < n ? n - m : 0);
			EXPECT_EQ(cut.empty(), m >= n);
			EXPECT_EQ(cut.data(), all.data() + (m < n ? m : n));
			EXPECT_EQ(cut.end() - cut.begin(), cut.size());
			for (u8 &b : cut)
				b = u8(m);
			if (!cut.empty())
				EXPECT_EQ(all[m], u8(m));
		}
	}
	EXPECT_EQ(Bytes().first(1).size(), 0u);
	EXPECT_EQ(Bytes().from(1).size(), 0u);
}

RPCORDMA_SUITE(base, be32, strong_types, xdr_pad, arithmetic, span, span_cuts, result, list,
	       list_remove, list_move, list_splice, list_tags);

} // namespace rpcordma
