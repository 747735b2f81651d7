// SPDX-License-Identifier: GPL-2.0-only
/*
 * A second codec of what rtrext-01 puts into rdma_optinfo, for the tests to hold the real one against: as
 * test_xdr_reference.hh is for version 1. Written from the XDR of rtrext-01 and its Table 1.
 *
 * A message here is an OPTIONAL of which only rdma_opttype and the length of rdma_optinfo are looked at: the rest of
 * its header is test_xdr_reference_v2.hh's.
 */
#pragma once

#include "kunit/test_xdr_reference.hh"
#include "xdr/rtrext.hh"

namespace rpcordma::xdr_reference_rtrext {

using xdr_reference::max_message;
using xdr_reference::max_segments;
using xdr_reference::word_at;
using xdr_reference::Words;
using xdr_reference::WordSource;

constexpr u32 head = 28;
constexpr u32 max_items = max_message / 12 + 1;
constexpr u32 max_sets = max_message / 12 + 1;
constexpr u32 max_places = max_message / 8 + 1;
constexpr u32 max_numbers = max_message / 4 + 1;

struct ItemModel {
	u32 disp, length, type, offset, numbers, segments;
};
struct PlaceModel {
	u32 least, type, limit, segments;
};
struct SetModel {
	u32 begin, end, places;
};
struct IdModel {
	u32 xid, direction, number;
};

struct Model {
	u32 xid, credits, direction, option;
	u32 items, sets, places, numbers, segments;
	ItemModel item[max_items];
	SetModel set[max_sets];
	PlaceModel place[max_places];
	u32 number[max_numbers];	    /* of all items */
	xdr::Segment segment[max_segments]; /* of all items, and then of all places */
	u32 count, rsbuf, pslen, xnum, itype;
	IdModel bad, lead;
	u32 has_lead, which, value[3];
	u32 length; /* of the whole header */
};

[[nodiscard]] inline u32 words_of(u32 which)
{
	return which == 3 ? 0 : which <= 5 ? 2 : 3;
}

[[nodiscard]] inline bool has_segments(u32 type, bool of_place)
{
	return type == 1 || (of_place && (type == 3 || type == 4));
}

inline void write_id(Words &w, const IdModel &id)
{
	w.add(id.xid);
	w.add(id.direction);
	w.add(id.number);
}

inline void write_items(const Model &m, Words &w, u32 &segment)
{
	u32 number = 0;

	w.add(m.items);
	for (u32 i = 0; i < m.items; i++) {
		const ItemModel &item = m.item[i];

		w.add(item.disp);
		w.add(item.length);
		w.add(item.type);
		if (item.type == 1) {
			w.add(item.segments);
			for (u32 n = 0; n < item.segments; n++)
				w.add(m.segment[segment++]);
		} else if (item.type == 2) {
			w.add(item.offset);
			w.add(item.numbers);
			for (u32 n = 0; n < item.numbers; n++)
				w.add(m.number[number++]);
		}
	}
}

inline void write_sets(const Model &m, Words &w, u32 &segment)
{
	u32 place = 0;

	w.add(m.sets);
	for (u32 i = 0; i < m.sets; i++) {
		w.add(m.set[i].begin);
		w.add(m.set[i].end);
		w.add(m.set[i].places);
		for (u32 n = 0; n < m.set[i].places; n++) {
			const PlaceModel &p = m.place[place++];

			w.add(p.least);
			w.add(p.type);
			if (p.type == 4)
				w.add(p.limit);
			if (has_segments(p.type, true)) {
				w.add(p.segments);
				for (u32 k = 0; k < p.segments; k++)
					w.add(m.segment[segment++]);
			}
		}
	}
}

/** Write @m; returns the length of its header. */
[[nodiscard]] inline u32 write(const Model &m, MutableBytes room)
{
	Words outer(room.first(head)), w(room.from(head));
	u32 segment = 0;

	switch (m.option) {
	case 1:
		write_items(m, w, segment);
		write_sets(m, w, segment);
		w.add(m.count);
		w.add(m.rsbuf);
		w.add(m.pslen);
		break;
	case 2:
		write_items(m, w, segment);
		w.add(m.count);
		w.add(m.pslen);
		break;
	case 3:
		w.add(m.xnum);
		w.add(m.itype);
		w.add(m.pslen);
		break;
	default:
		write_id(w, m.bad);
		w.add(m.has_lead);
		if (m.has_lead)
			write_id(w, m.lead);
		w.add(m.which);
		for (u32 n = 0; n < words_of(m.which); n++)
			w.add(m.value[n]);
	}
	for (u32 word : {m.xid, 2u, m.credits, 5u, m.direction, m.option, w.length()})
		outer.add(word);
	return head + w.length();
}

[[nodiscard]] inline Error read_item_segments(WordSource &in, Model &m, u32 &count, u64 &sum)
{
	count = in.word();
	for (u32 n = 0; n < count; n++) {
		if (in.ran_out())
			return Error::protocol;
		if (m.segments == max_segments)
			return Error::no_buffers;
		m.segment[m.segments] = in.segment();
		sum += m.segment[m.segments++].length;
	}
	return in.ran_out() ? Error::protocol : Error::none;
}

[[nodiscard]] inline Error read_items(WordSource &in, Model &m, bool request)
{
	/* Up to where the message is taken by what is placed. */
	u64 taken = 0;
	bool some = false;

	const u32 count = in.word();
	for (u32 i = 0; i < count; i++) {
		if (in.ran_out())
			return Error::protocol;
		if (i == max_items)
			return Error::no_buffers;
		ItemModel &item = m.item[m.items++];
		u64 sum = 0;

		item.disp = in.word();
		item.length = in.word();
		item.type = in.word();
		item.offset = item.numbers = item.segments = 0;
		if (in.ran_out())
			return Error::protocol;
		if (item.type == 1) {
			if (const Error e = read_item_segments(in, m, item.segments, sum);
			    e != Error::none)
				return e;
		} else if (item.type == 2) {
			item.offset = in.word();
			item.numbers = in.word();
			for (u32 n = 0; n < item.numbers; n++) {
				if (in.ran_out())
					return Error::protocol;
				m.number[m.numbers++] = in.word();
			}
			if (in.ran_out())
				return Error::protocol;
		} else if (request || item.type < 5 || item.type > 6) {
			return Error::protocol;
		}
		if (item.type > 2)
			continue;
		const u64 with_pad = (u64(item.length) + 3) / 4 * 4;
		if (item.disp % 4 != 0 || (some && (item.disp < taken || item.disp == m.value[0])))
			return Error::protocol;
		some = true;
		m.value[0] = item.disp;
		taken = item.disp + with_pad;
		if (request && item.type == 1 && sum != item.length && sum != with_pad)
			return Error::protocol;
	}
	return Error::none;
}

[[nodiscard]] inline Error read_sets(WordSource &in, Model &m)
{
	const u32 count = in.word();
	for (u32 i = 0; i < count; i++) {
		if (in.ran_out())
			return Error::protocol;
		if (i == max_sets)
			return Error::no_buffers;
		SetModel &set = m.set[m.sets++];
		set.begin = in.word();
		set.end = in.word();
		set.places = in.word();
		if (in.ran_out() || set.begin > set.end)
			return Error::protocol;
		/* Disjoint, if ends are outside; and in strictly increasing order. */
		if (i > 0 && (set.begin <= m.set[i - 1].begin || set.begin < m.set[i - 1].end))
			return Error::protocol;
		for (u32 n = 0; n < set.places; n++) {
			if (in.ran_out())
				return Error::protocol;
			if (m.places == max_places)
				return Error::no_buffers;
			PlaceModel &place = m.place[m.places++];
			u64 sum = 0;

			place.least = in.word();
			place.type = in.word();
			place.limit = place.type == 4 ? in.word() : 0;
			place.segments = 0;
			if (in.ran_out() || place.type < 1 || place.type > 4)
				return Error::protocol;
			if (has_segments(place.type, true))
				if (const Error e = read_item_segments(in, m, place.segments, sum);
				    e != Error::none)
					return e;
		}
	}
	return in.ran_out() ? Error::protocol : Error::none;
}

[[nodiscard]] inline bool read_id(WordSource &in, IdModel &id)
{
	id.xid = in.word();
	id.direction = in.word();
	id.number = in.word();
	return !in.ran_out() && id.direction <= 1;
}

/**
 * What rtrext::decode() has to say about @message, by the texts: Error::none and @m, or EPROTO. EMSGSIZE: there is no
 * rdma_optinfo, or none of a known type. ENOBUFS: it is beyond a Model.
 */
[[nodiscard]] inline Error read(Bytes message, Model &m)
{
	Error error = Error::none;

	if (message.size() < head || message.size() > max_message)
		return Error::message_size;
	m.xid = word_at(message, 0);
	m.credits = word_at(message, 2);
	m.direction = word_at(message, 4);
	m.option = word_at(message, 5);
	m.items = m.sets = m.places = m.numbers = m.segments = 0;
	m.has_lead = 0;
	if (m.option < 1 || m.option > 4)
		return Error::message_size;
	const Bytes info = message.from(head).first(word_at(message, 6));
	WordSource in(info, 0);

	switch (m.option) {
	case 1:
		error = read_items(in, m, true);
		if (error == Error::none)
			error = read_sets(in, m);
		m.count = in.word();
		m.rsbuf = in.word();
		m.pslen = in.word();
		break;
	case 2:
		error = read_items(in, m, false);
		m.count = in.word();
		m.pslen = in.word();
		break;
	case 3:
		m.xnum = in.word();
		m.itype = in.word();
		m.pslen = in.word();
		m.count = 1;
		break;
	default:
		m.count = 1;
		if (!read_id(in, m.bad))
			return Error::protocol;
		m.has_lead = in.word();
		if (m.has_lead > 1 || (m.has_lead == 1 && !read_id(in, m.lead)))
			return Error::protocol;
		m.which = in.word();
		if (m.which < 1 || m.which > 8)
			return Error::protocol;
		for (u32 n = 0; n < words_of(m.which); n++)
			m.value[n] = in.word();
	}
	if (error != Error::none)
		return error;
	if (in.ran_out() || in.at() != info.size() || m.count == 0)
		return Error::protocol;
	m.length = head + in.at();
	return Error::none;
}

[[nodiscard]] inline Span<const xdr::Segment> segments_of(const Model &m, u32 &at, u32 count)
{
	at += count;
	return {m.segment + at - count, count};
}

/** Build @m with the encoder under test. */
[[nodiscard]] inline Result<u32> encode(const Model &m, MutableBytes room)
{
	using namespace rtrext;
	const Xid xid(m.xid);
	const Credits credits(m.credits);
	u32 segment = 0, number = 0, place = 0;

	if (m.option == 3)
		return rtrext::encode(room, xid, credits, static_cast<xdr::Direction>(m.direction),
				      Continuation{m.xnum, m.itype, m.pslen});
	if (m.option == 4) {
		Report report;

		report.bad = {Xid(m.bad.xid), static_cast<xdr::Direction>(m.bad.direction),
			      m.bad.number};
		report.has_lead = m.has_lead != 0;
		report.lead = {Xid(m.lead.xid), static_cast<xdr::Direction>(m.lead.direction),
			       m.lead.number};
		report.detail = {static_cast<Fault>(m.which), {m.value[0], m.value[1], m.value[2]}};
		return rtrext::encode(room, credits, report);
	}
	Encoder e(room, xid, credits, static_cast<xdr::Option>(m.option));
	for (u32 i = 0; i < m.items; i++) {
		const ItemModel &item = m.item[i];

		if (item.type == 1) {
			e.segments(item.disp, item.length, segments_of(m, segment, item.segments));
		} else if (item.type == 2) {
			e.sent(item.disp, item.length, item.offset,
			       {m.number + number, item.numbers});
			number += item.numbers;
		} else {
			e.unplaced(item.disp, item.length, static_cast<Type>(item.type));
		}
	}
	for (u32 i = 0; i < m.sets; i++) {
		e.set(m.set[i].begin, m.set[i].end);
		for (u32 n = 0; n < m.set[i].places; n++) {
			const PlaceModel &p = m.place[place++];

			if (p.type == 2)
				e.place_sent(p.least);
			else
				e.place(p.least, static_cast<Type>(p.type),
					segments_of(m, segment, p.segments), p.limit);
		}
	}
	return e.finish(m.count, m.rsbuf, m.pslen);
}

inline void expect_same_segments(const xdr::WriteChunk &chunk, u32 count, const Model &m, u32 &at)
{
	ASSERT_EQ(chunk.count(), count);
	for (u32 n = 0; n < count; n++)
		EXPECT_TRUE(chunk[n] == m.segment[at++]);
}

inline void expect_same_items(const rtrext::Items &items, const Model &m, u32 &segment)
{
	u32 i = 0, number = 0;

	ASSERT_EQ(items.count(), m.items);
	for (const rtrext::Item &item : items) {
		const ItemModel &expected = m.item[i++];

		EXPECT_EQ(item.displacement, expected.disp);
		EXPECT_EQ(item.length, expected.length);
		EXPECT_EQ(static_cast<u32>(item.type), expected.type);
		EXPECT_EQ(item.placed(), expected.type <= 2);
		EXPECT_EQ(item.offset, expected.offset);
		ASSERT_EQ(item.numbers.count(), expected.numbers);
		for (u32 n = 0; n < expected.numbers; n++)
			EXPECT_EQ(item.numbers[n], m.number[number++]);
		expect_same_segments(item.segments, expected.segments, m, segment);
	}
	EXPECT_EQ(i, m.items);
}

inline void expect_same_sets(const rtrext::Sets &sets, const Model &m, u32 &segment)
{
	u32 i = 0, n = 0;

	ASSERT_EQ(sets.count(), m.sets);
	EXPECT_EQ(sets.places(), m.places);
	for (const rtrext::Set &set : sets) {
		const SetModel &expected = m.set[i++];

		EXPECT_EQ(set.begin, expected.begin);
		EXPECT_EQ(set.end, expected.end);
		ASSERT_EQ(set.places.count(), expected.places);
		for (const rtrext::Place &place : set.places) {
			const PlaceModel &p = m.place[n++];

			EXPECT_EQ(place.least, p.least);
			EXPECT_EQ(static_cast<u32>(place.type), p.type);
			EXPECT_EQ(place.most_sent, p.limit);
			expect_same_segments(place.segments, p.segments, m, segment);
		}
	}
	EXPECT_EQ(i, m.sets);
	EXPECT_EQ(n, m.places);
}

inline void expect_same_id(const rtrext::Id &id, const IdModel &m)
{
	EXPECT_EQ(id.xid.get(), m.xid);
	EXPECT_EQ(static_cast<u32>(id.direction), m.direction);
	EXPECT_EQ(id.number, m.number);
}

/** Decode @optinfo with the decoder under test; if that works, what it says is what @m says. */
[[gnu::noinline]] inline Error decode_and_compare(Bytes optinfo, const Model &m, bool compare)
{
	rtrext::Request request;
	rtrext::Response response;
	rtrext::Continuation continuation;
	rtrext::Report report;
	u32 segment = 0;
	Error error;

	switch (m.option) {
	case 1:
		error = rtrext::decode(optinfo, request);
		if (error != Error::none || !compare)
			return error;
		expect_same_items(request.items, m, segment);
		expect_same_sets(request.sets, m, segment);
		EXPECT_EQ(request.transmissions, m.count);
		EXPECT_EQ(request.reply_transmissions, m.rsbuf);
		EXPECT_EQ(request.stream_length, m.pslen);
		return error;
	case 2:
		error = rtrext::decode(optinfo, response);
		if (error != Error::none || !compare)
			return error;
		expect_same_items(response.items, m, segment);
		EXPECT_EQ(response.transmissions, m.count);
		EXPECT_EQ(response.stream_length, m.pslen);
		return error;
	case 3:
		error = rtrext::decode(optinfo, continuation);
		if (error != Error::none || !compare)
			return error;
		EXPECT_EQ(continuation.number, m.xnum);
		EXPECT_EQ(continuation.lead, m.itype);
		EXPECT_EQ(continuation.stream_length, m.pslen);
		return error;
	default:
		error = rtrext::decode(optinfo, report);
		if (error != Error::none || !compare)
			return error;
		expect_same_id(report.bad, m.bad);
		EXPECT_EQ(report.has_lead, m.has_lead != 0);
		if (m.has_lead)
			expect_same_id(report.lead, m.lead);
		EXPECT_EQ(static_cast<u32>(report.detail.fault), m.which);
		EXPECT_EQ(report.detail.count(), words_of(m.which));
		for (u32 n = 0; n < words_of(m.which); n++)
			EXPECT_EQ(report.detail.words[n], m.value[n]);
		return error;
	}
}

/**
 * Hold the codec under test against this one: the same outcome, the same content, and the same bytes when what was read
 * is encoded again.
 */
inline Error check(Bytes message, Model &scratch, MutableBytes room)
{
	constexpr u8 untouched = 0xa5;
	const Error expected = read(message, scratch);

	if (expected == Error::message_size || expected == Error::no_buffers)
		return expected;
	const Bytes optinfo = message.from(head).first(word_at(message, 6));
	EXPECT_EQ(decode_and_compare(optinfo, scratch, expected == Error::none), expected);
	if (expected != Error::none)
		return expected;

	/* An XMTCONT is written in either direction, the others have theirs. */
	if (scratch.option == 3 && scratch.direction > 1)
		scratch.direction = 1;
	__builtin_memset(room.data(), untouched, room.size());
	auto length = encode(scratch, room.first(scratch.length));
	EXPECT_OK(length);
	if (length)
		EXPECT_EQ(length.value(), scratch.length);
	EXPECT_BYTES(Bytes(room.first(scratch.length).from(head)), optinfo);
	for (u8 byte : room.from(scratch.length))
		EXPECT_EQ(byte, untouched);
	return expected;
}

} // namespace rpcordma::xdr_reference_rtrext
