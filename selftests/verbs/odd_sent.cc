// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replies whose items come in Sends (rtrext-01 7.3, 7.4). The client's parameters version2 and version2_rtr are 1 and 7,
 * send_read_max is 65536, and version2_pages 2: a READ says that its data may come in two DDP segments of each Receive. What the
 * client has to make of a reply: the file's bytes; EIO, where the reply contradicts its call; another connection with all its
 * calls, and without all this, where it cannot be believed.
 */
#include "odd.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace verbs {

namespace {

constexpr const char *hard = "hard,timeo=600,nordirplus";
constexpr u32 most_takes = 20480, transmissions = 4;
/* What the client receives into: a head, and segments behind it. */
constexpr u32 head = 4096, each = 4096, segments = 2;
/* Of a READ: two transmissions, or four. */
constexpr u32 middle = 4 * each, large = 8 * each;

/** xmddp_type. */
enum Type : u32 { exrw = 1, tbsn = 2, choice = 3, bysize = 4, tooshort = 5, noitem = 6 };

using Parts = std::vector<Octets>;
using Numbers = std::vector<u32>;

/* An item of a reply: where it belongs, its bytes, and where they come. */
struct Item {
	u32 displacement, length;
	Numbers numbers;
	u32 offset = 0, type = tbsn;
};

void begin(Server &s)
{
	s.version2 = true;
	s.transmissions = transmissions;
	s.setup.message_size = s.takes = most_takes;
	s.mount(hard);
}

/* 0, 1, ... */
Numbers straight(u32 count)
{
	Numbers numbers(count);

	for (u32 i = 0; i < count; i++)
		numbers[i] = i;
	return numbers;
}

/* What is right for a READ, with the data apart. */
class Data {
public:
	explicit Data(const Reply &reply, u32 count) : header_(reply.header)
	{
		const auto from = reply.payload.end() - long(count);

		check(count % 4 == 0 && reply.payload.size() > count, "a READ's reply is short");
		stream.assign(reply.payload.begin(), from);
		bytes.assign(from, reply.payload.end());
	}
	/* All data, in these segments. */
	[[nodiscard]] Item item(const Numbers &numbers, u32 offset = 0) const
	{
		return {u32(stream.size()), u32(bytes.size()), numbers, offset};
	}
	/* The transmissions of such a reply: as many as come to be, and @more. The data are where the first item says. */
	[[nodiscard]] Parts parts(const std::vector<Item> &items, u32 more = 0) const
	{
		std::vector<Octets> behind(1);

		if (!items.empty())
			scatter_(behind, items[0]);
		behind.resize(behind.size() + more);
		return parts(items, behind);
	}
	[[nodiscard]] Parts parts(const std::vector<Item> &items,
				  const std::vector<Octets> &behind) const
	{
		Words optinfo;
		Parts all;

		optinfo.word(u32(items.size()));
		for (const Item &one : items) {
			optinfo.words({one.displacement, one.length, one.type});
			if (one.type == exrw)
				optinfo.words({1, 0x4711, one.length, 0, 0});
			if (one.type != tbsn)
				continue;
			optinfo.words({one.offset, u32(one.numbers.size())});
			for (const u32 number : one.numbers)
				optinfo.word(number);
		}
		optinfo.words({u32(behind.size()), u32(stream.size())});
		for (u32 i = 0; i < behind.size(); i++) {
			Words words;

			words.words({header_.xid, version_2, header_.credits, two_optional, 1});
			if (i)
				words.words({two_xmtcont, 12, i, two_xmtresp, 0});
			else
				words.words({two_xmtresp, optinfo.size()})
					.octets(optinfo.get())
					.octets(stream);
			Octets part = words.get();
			if (!behind[i].empty()) {
				part.resize(std::max(part.size(), size_t(head)));
				part.insert(part.end(), behind[i].begin(), behind[i].end());
			}
			all.push_back(part);
		}
		return all;
	}
	/* The same with nothing placed: all in the stream, in two transmissions. */
	[[nodiscard]] Parts parts_inline() const
	{
		const Octets all = Words().octets(stream).octets(bytes).get();
		const u32 first = 8000, rest = u32(all.size()) - first;
		const auto fixed = [&] {
			return Words().words(
				{header_.xid, version_2, header_.credits, two_optional, 1});
		};

		return {fixed().words({two_xmtresp, 24, 1, u32(stream.size()), u32(bytes.size()),
				       tooshort, 2, first})
				.octets(Octets(all.begin(), all.begin() + first))
				.get(),
			fixed().words({two_xmtcont, 12, 1, two_xmtresp, rest})
				.octets(Octets(all.begin() + first, all.end()))
				.get()};
	}

	Octets stream, bytes;

private:
	void scatter_(std::vector<Octets> &behind, const Item &item) const
	{
		u32 done = 0, offset = item.offset;

		for (const u32 number : item.numbers) {
			const u32 n =
				std::min(each - std::min(each, offset), u32(bytes.size()) - done);
			const u32 in = number / segments, at = number % segments * each + offset;

			/* Where there is no such segment, the data are nowhere. */
			if (in >= transmissions)
				break;
			behind.resize(std::max(behind.size(), size_t(in + 1)));
			behind[in].resize(std::max(behind[in].size(), size_t(at + n)), 0xaa);
			std::copy_n(bytes.begin() + done, n, behind[in].begin() + at);
			done += n;
			offset = 0;
		}
	}

	Header header_;
};

/* The parts that @call is owed. */
void send_parts(Server &s, Call &call, const Parts &parts)
{
	call.on.outstanding--;
	s.granted(call.on, s.grant);
	for (const Octets &part : parts)
		call.on.connection->send(part);
}

/* What a READ ended with, by a mount of its own. */
struct ReadOut {
	int error;
	bool right;
	u32 connections; /* that it took */
	bool later;	 /* another one asked for Sends behind it */
};

ReadOut reading(Server &s, u32 count, const std::function<Parts(const Data &)> &make)
{
	bool seen = false, later = false;

	s.umount();
	const u32 before = s.accepted();
	s.mount(hard);
	s.odd = [&](Call &call) {
		if (call.procedure != proc_read)
			return false;
		if (seen) {
			later = later || call.message.asks_to_send();
			return false;
		}
		check(call.message.asks_to_send(), "a READ that asks for no Sends");
		check(call.message.reply_transmissions() >= count / each / segments,
		      text("a READ whose reply may have %u transmissions",
			   call.message.reply_transmissions()));
		seen = true;
		send_parts(s, call, make(Data(s.prepare(call), count)));
		return true;
	};
	auto job = s.start_read(0, count);
	s.finish(*job);
	s.odd = nullptr;
	check(seen, "no READ came");
	return {job->error(), job->bytes() == s.bytes(0, count), s.accepted() - before, later};
}

void is_right(Server &s, const char *what, u32 count, const std::function<Parts(const Data &)> &make)
{
	const ReadOut out = reading(s, count, make);

	check(!out.error && out.right && out.connections == 1,
	      text("%s: a READ ended with \"%s\", %s bytes, by %u connections", what,
		   strerror(out.error), out.right ? "the right" : "other", out.connections));
}

/* A reply that is whole, and not what its call asked for. */
void contradicts(Server &s, const char *what, const std::function<Parts(const Data &)> &make)
{
	const ReadOut out = reading(s, middle, make);

	check(out.error == EIO && out.connections == 1,
	      text("%s: a READ ended with \"%s\", by %u connections, expected EIO", what,
		   strerror(out.error), out.connections));
}

/* A reply that cannot be believed. */
void breaks(Server &s, const char *what, const std::function<Parts(const Data &)> &make)
{
	const ReadOut out = reading(s, middle, make);

	check(!out.error && out.right && out.connections == 2,
	      text("%s: a READ ended with \"%s\", %s bytes, by %u connections, expected 2", what,
		   strerror(out.error), out.right ? "the right" : "other", out.connections));
	check(!out.later, text("%s: the client goes on asking for Sends", what));
}

void right(Server &s)
{
	begin(s);
	for (const u32 count : {middle, large}) {
		const Numbers numbers = straight(count / each);

		is_right(s, "straight", count,
			 [&](const Data &data) { return data.parts({data.item(numbers)}); });
		is_right(s, "backward", count, [&](const Data &data) {
			return data.parts({data.item({numbers.rbegin(), numbers.rend()})});
		});
	}
	is_right(s, "past a segment", 5 * each, [](const Data &data) {
		return data.parts({data.item({0, 1, 3, 4, 5})});
	});
	is_right(s, "from within a segment", 18000,
		 [](const Data &data) { return data.parts({data.item(straight(5), 1000)}); });
	is_right(s, "a list that goes on", middle, [](const Data &data) {
		return data.parts({data.item({0, 1, 2, 3, 3, 0})});
	});
	/* It is an answer to the direction that nothing was placed. */
	is_right(s, "inline, as too short", middle,
		 [](const Data &data) { return data.parts_inline(); });
	check(!s.current().reports, "the client reports what is right");
}

/* By Table 2, and by what was asked for. */
void contradictory(Server &s)
{
	begin(s);
	contradicts(s, "no item", [](const Data &data) { return data.parts({}, 1); });
	contradicts(s, "two items", [](const Data &data) {
		return data.parts({data.item(straight(4)),
				   {u32(data.stream.size()) + middle, 0, {}, 0, noitem}});
	});
	contradicts(s, "in RDMA segments, which it did not offer", [](const Data &data) {
		return data.parts({{u32(data.stream.size()), middle, {}, 0, exrw}}, 1);
	});
	contradicts(s, "more than was asked for", [](const Data &data) {
		Data more = data;

		more.bytes.resize(middle + each);
		return more.parts({more.item(straight(5))});
	});
	contradicts(s, "more transmissions than it said",
		    [](const Data &data) { return data.parts({data.item(straight(4))}, 1); });
}

void broken(Server &s)
{
	const auto item = [](const Data &data, const Numbers &numbers, u32 offset = 0,
			     u32 type = tbsn) {
		Item one = data.item(numbers, offset);

		one.type = type;
		return one;
	};
	const std::vector<Octets> full(2, Octets(segments * each, 0x55));

	begin(s);
	for (const u32 number : {4u, ~0u})
		breaks(s, "no such segment", [&](const Data &data) {
			return data.parts({item(data, {0, 1, 2, number})}, full);
		});
	breaks(s, "no segments",
	       [&](const Data &data) { return data.parts({item(data, {})}, full); });
	breaks(s, "too few",
	       [&](const Data &data) { return data.parts({item(data, straight(3))}, full); });
	breaks(s, "a segment twice", [&](const Data &data) {
		return data.parts({item(data, {0, 1, 2, 2})}, full);
	});
	breaks(s, "behind its segment",
	       [&](const Data &data) { return data.parts({item(data, straight(4), each)}, full); });
	breaks(s, "nothing came into the last", [&](const Data &data) {
		return data.parts({item(data, straight(4))}, {full[0], Octets(each, 0x55)});
	});
	breaks(s, "behind the stream", [&](const Data &data) {
		Item one = item(data, straight(4));

		one.displacement += 400;
		return data.parts({one}, full);
	});
	breaks(s, "no whole words", [&](const Data &data) {
		Item one = item(data, straight(4));

		one.displacement++;
		return data.parts({one}, full);
	});
	for (const u32 type : {0u, u32(choice), u32(bysize), ~0u})
		breaks(s, "a type that no item has", [&](const Data &data) {
			return data.parts({item(data, {}, 0, type)}, full);
		});
}

} // namespace

const std::vector<OddTest> odd_sent_tests = {
	{"odd-rtr-item-broken", "segments there are not, twice, empty: the connection", broken},
	{"odd-rtr-item-right", "READs whose data come in Sends, in segments of any order", right},
	{"odd-rtr-item-contradicts", "no item, two, of another type, too long: EIO", contradictory},
};

} // namespace verbs
