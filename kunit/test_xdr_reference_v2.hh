// SPDX-License-Identifier: GPL-2.0-only
/*
 * A second version 2 codec, for the tests to hold the real one against: as test_xdr_reference.hh is for version 1,
 * whose chunk lists it takes. Written from the XDR of version-two-03; of an extension's bytes, and of property sets, it
 * knows the outer form.
 */
#pragma once

#include "kunit/test_xdr_reference.hh"
#include "xdr/v2.hh"

namespace rpcordma::xdr_reference_v2 {

using xdr_reference::max_message;
using xdr_reference::WordSource;
using xdr_reference::Words;
using xdr_reference::word_at;

struct Model : xdr_reference::Model {
	u32 direction; /* 0 or 1 */
	u32 invalidate;
	u32 option;
	/* Of an OPTIONAL, optinfo; of a message of properties, what follows proc. */
	u32 body_words;
	u32 body[max_message / 4];
};

[[nodiscard]] inline bool has_properties(const Model &m)
{
	return m.proc >= 6 && m.proc <= 9;
}

/** Write @m; returns the length of its header. */
[[nodiscard]] inline u32 write(const Model &m, MutableBytes room)
{
	Words w(room);

	w.add(m.xid);
	w.add(m.vers);
	w.add(m.credits);
	w.add(m.proc);
	if (m.proc == 4) {
		w.add(m.error_code);
		if (m.error_code == 1 || m.error_code == 3) {
			w.add(m.low);
			w.add(m.high);
		}
		return w.length();
	}
	if (m.proc <= 1) {
		w.add(m.direction);
		w.add(m.invalidate);
		xdr_reference::write_lists(m, w);
		return w.length();
	}
	if (m.proc == 5) {
		w.add(m.direction);
		w.add(m.option);
		w.add(m.body_words * 4);
	}
	for (u32 i = 0; i < m.body_words; i++)
		w.add(m.body[i]);
	return w.length();
}

/** A property set is there, as far as its lengths go. */
[[nodiscard]] inline bool read_set(WordSource &in)
{
	for (u32 left = in.word(); left != 0 && !in.ran_out(); left--) {
		(void)in.word();
		const u32 length = in.word();
		for (u64 at = 0; at < length && !in.ran_out(); at += 4)
			(void)in.word();
	}
	return !in.ran_out();
}

[[nodiscard]] inline bool read_subset(WordSource &in)
{
	for (u32 left = in.word(); left != 0 && !in.ran_out(); left--)
		(void)in.word();
	return !in.ran_out();
}

/** As read() of an ERROR. */
[[nodiscard]] inline Error read_error(Bytes message, Model &m)
{
	m.direction = 1;
	if (message.size() < 20)
		return Error::bad_message;
	m.error_code = word_at(message, 4);
	if (m.error_code == 0 || m.error_code > 6 || (m.vers != 2 && m.error_code != 1))
		return Error::bad_message;
	m.length = 20;
	if (m.error_code != 1 && m.error_code != 3)
		return Error::none;
	if (message.size() < 28)
		return Error::bad_message;
	m.low = word_at(message, 5);
	m.high = word_at(message, 6);
	m.length = 28;
	return Error::none;
}

/**
 * What v2::decode() has to say about @message, by the texts: Error::none and @m, or the error. ENOBUFS, which it never
 * returns: the message is beyond a Model.
 */
[[nodiscard]] inline Error read(Bytes message, Model &m)
{
	if (message.size() > max_message)
		return Error::no_buffers;
	if (message.size() < 16)
		return Error::message_size;
	xdr_reference::read_fixed(message, m);
	m.direction = m.invalidate = m.option = 0;
	if (m.proc == 4)
		return read_error(message, m);
	if (m.vers != 2)
		return Error::no_protocol;
	if (m.proc > 9 || m.proc == 2 || m.proc == 3)
		return Error::not_supported;

	WordSource in(message, 4);
	if (has_properties(m)) {
		bool good = true;

		m.direction = m.proc == 8;
		if (m.proc == 8)
			good = read_subset(in) && read_subset(in);
		good = good && read_set(in);
		if (m.proc == 6)
			good = good && read_subset(in);
		m.length = in.at();
		return good ? Error::none : m.proc == 8 ? Error::bad_message : Error::protocol;
	}

	m.direction = in.word();
	if (in.ran_out() || m.direction > 1)
		return Error::protocol;
	const Error malformed = m.direction == 1 ? Error::bad_message : Error::protocol;
	if (m.proc == 5) {
		/* The first is the least, the second the most. */
		const u32 lengths[5][2] = {{1, 0}, {20, ~0u}, {12, ~0u}, {12, 12}, {20, 44}};

		m.option = in.word();
		if (in.ran_out())
			return malformed;
		if (m.option == 0 || m.option > 4 || m.option == (m.direction ? 1 : 2))
			return m.direction ? Error::bad_message : Error::no_option;
		const u32 length = in.word();
		if (in.ran_out() || length < lengths[m.option][0] ||
		    length > lengths[m.option][1] || length % 4 != 0)
			return malformed;
		for (u64 at = 0; at < length && !in.ran_out(); at += 4)
			(void)in.word();
		m.length = in.at();
		return in.ran_out() ? malformed : Error::none;
	}

	bool position_zero = false;
	m.invalidate = in.word();
	const Error lists = xdr_reference::read_lists(in, m, position_zero);
	if (lists != Error::none)
		return lists == Error::protocol ? malformed : lists;
	m.length = in.at();
	if (m.proc == 1)
		return position_zero || m.reply ? Error::none : malformed;
	if (position_zero || message.size() < m.length + 8 ||
	    word_at(message, m.length / 4) != m.xid ||
	    word_at(message, m.length / 4 + 1) != m.direction)
		return malformed;
	return Error::none;
}

/** Build @m, which has no properties, with the encoder under test. */
[[nodiscard]] inline Result<u32> encode(const Model &m, MutableBytes room)
{
	const auto direction = static_cast<xdr::Direction>(m.direction);

	if (m.proc == 4) {
		const xdr::ErrorBody error = {static_cast<xdr::ErrorCode>(m.error_code - 1), m.low,
					      m.high};

		return v2::encode_error(room, {Xid(m.xid), m.vers, {}, 0}, Credits(m.credits),
					error);
	}
	if (m.proc == 5) {
		MutableBytes optinfo = test_alloc(m.body_words * 4);

		for (u32 i = 0; i < m.body_words; i++)
			xdr_reference::set_word(optinfo, i, m.body[i]);
		return v2::encode_optional(room, Xid(m.xid), Credits(m.credits), direction,
					   static_cast<xdr::Option>(m.option), optinfo);
	}
	v2::Encoder e(room, Xid(m.xid), Credits(m.credits), static_cast<xdr::Kind>(m.proc),
		      direction, Rkey(m.invalidate));
	xdr_reference::encode_lists(m, e);
	return e.finish();
}

/** Build what was decoded, which has no properties. */
[[nodiscard]] inline Result<u32> encode(const xdr::Message &h, MutableBytes room)
{
	if (h.kind == xdr::Kind::error)
		return v2::encode_error(room, {h.xid, h.version, {}, 0}, h.credits, h.error);
	if (h.kind == xdr::Kind::optional)
		return v2::encode_optional(room, h.xid, h.credits, h.direction, h.option, h.body());
	v2::Encoder e(room, h.xid, h.credits, h.kind, h.direction, h.invalidate);
	xdr_reference::encode_lists(h, e);
	return e.finish();
}

/** Everything that @h says is what @m says; both are of @message. */
inline void expect_same(const xdr::Message &h, const Model &m, Bytes message)
{
	EXPECT_EQ(h.xid.get(), m.xid);
	EXPECT_EQ(h.version, m.vers);
	EXPECT_EQ(h.credits.get(), m.credits);
	EXPECT_EQ(static_cast<u32>(h.kind), m.proc);
	EXPECT_EQ(static_cast<u32>(h.direction), m.direction);
	EXPECT_EQ(h.invalidate.get(), m.invalidate);
	EXPECT_EQ(static_cast<u32>(h.option), m.option);
	EXPECT_EQ(h.header_length, m.length);
	if (m.proc == 4)
		EXPECT_EQ(static_cast<u32>(h.error.code) + 1, m.error_code);
	EXPECT_EQ(h.error.low, m.low);
	EXPECT_EQ(h.error.high, m.high);
	xdr_reference::expect_same_lists(h, m);

	const u32 begin = m.proc == 5 ? 28 : has_properties(m) ? 16 : m.length;
	EXPECT_EQ(h.body().size(), m.length - begin);
	if (m.length != begin)
		EXPECT_TRUE(h.body().data() == message.data() + begin);
	const Bytes payload = m.proc == 0 || m.proc == 5 ? message.from(m.length) : Bytes();
	EXPECT_EQ(h.payload.size(), payload.size());
	if (payload.size())
		EXPECT_TRUE(h.payload.data() == payload.data());
}

/** As xdr_reference::check(), of version 2. Messages of properties are not encoded again: their values are not looked at. */
inline Error check(Bytes message, Model &scratch, MutableBytes room)
{
	constexpr u8 untouched = 0xa5;
	const Error expected = read(message, scratch);
	xdr::Message h;

	EXPECT_EQ(v2::decode(message, h), expected);
	if (expected != Error::none)
		return expected;
	expect_same(h, scratch, message);
	if (has_properties(scratch))
		return expected;

	__builtin_memset(room.data(), untouched, room.size());
	auto length = encode(h, room.first(scratch.length));
	EXPECT_OK(length);
	if (length)
		EXPECT_EQ(length.value(), scratch.length);
	EXPECT_BYTES(Bytes(room.first(scratch.length)), message.first(scratch.length));
	for (u8 byte : room.from(scratch.length))
		EXPECT_EQ(byte, untouched);
	return expected;
}

} // namespace rpcordma::xdr_reference_v2
