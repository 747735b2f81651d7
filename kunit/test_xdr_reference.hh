// SPDX-License-Identifier: GPL-2.0-only
/*
 * A second version 1 codec, for the tests to hold the real one against: written from the XDR of
 * RFC 8166 4.1.2 with no thought of speed, sharing no code with xdr/. It reads into a Model, which
 * copies everything, and it writes a Model word by word.
 *
 * A Model is too big for a kernel stack: take one from test_zeroed<Model>().
 */
#pragma once

#include "kunit/testing.hh"
#include "xdr/v1.hh"

namespace rpcordma::xdr_reference {

/* No message of the tests that use a Model is longer than max_message; the rest follows from it. */
constexpr u32 max_message = 640;
constexpr u32 max_reads = max_message / 24 + 1;
constexpr u32 max_chunks = max_message / 8 + 1;
constexpr u32 max_segments = max_message / 16 + 1;

/** As the decoder under test, with a Result. */
[[nodiscard]] inline Result<xdr::Message> decode(Bytes bytes)
{
	Result<xdr::Message> result{xdr::Message{}};

	if (Error error = v1::decode(bytes, result.value()); error != Error::none)
		result = error;
	return result;
}

struct Model {
	u32 xid, vers, credits, proc;
	u32 error_code, low, high;
	u32 read_count;
	xdr::ReadSegment reads[max_reads];
	u32 chunk_count;
	u32 chunk_segments[max_chunks];
	u32 segment_count; /* of all Write chunks */
	xdr::Segment segments[max_segments];
	bool reply;
	u32 reply_count;
	xdr::Segment reply_segments[max_segments];
	u32 length; /* of the header */
};

/** Appends big-endian words; the room is always large enough here, and checked all the same. */
class Words {
public:
	explicit Words(MutableBytes room) : room_(room)
	{
	}
	void add(u32 word)
	{
		ASSERT_LE(length_ + 4, room_.size());
		for (u32 shift = 32; shift != 0; shift -= 8)
			room_[length_++] = u8(word >> (shift - 8));
	}
	void add(const xdr::Segment &s)
	{
		add(s.handle.get());
		add(s.length);
		add(u32(s.offset >> 32));
		add(u32(s.offset));
	}
	[[nodiscard]] u32 length() const
	{
		return length_;
	}

private:
	MutableBytes room_;
	u32 length_ = 0;
};

/** Word number @i of @message, which has it. */
[[nodiscard]] inline u32 word_at(Bytes message, u32 i)
{
	u32 word = 0;

	for (u32 k = 0; k < 4; k++)
		word = word << 8 | message[i * 4 + k];
	return word;
}

inline void set_word(MutableBytes message, u32 i, u32 word)
{
	for (u32 k = 0; k < 4; k++)
		message[i * 4 + k] = u8(word >> (24 - 8 * k));
}

/** The bytes of a list of words, on the heap to the byte. */
template <usize N> [[nodiscard]] MutableBytes wire(const u32 (&words)[N])
{
	MutableBytes bytes = test_alloc(N * 4);

	for (u32 i = 0; i < N; i++)
		set_word(bytes, i, words[i]);
	return bytes;
}

/** Write the three lists of @m. */
inline void write_lists(const Model &m, Words &w)
{
	for (u32 i = 0; i < m.read_count; i++) {
		w.add(1);
		w.add(m.reads[i].position.get());
		w.add(m.reads[i].target);
	}
	w.add(0);
	for (u32 c = 0, s = 0; c < m.chunk_count; c++) {
		w.add(1);
		w.add(m.chunk_segments[c]);
		for (u32 i = 0; i < m.chunk_segments[c]; i++)
			w.add(m.segments[s++]);
	}
	w.add(0);
	w.add(m.reply);
	if (m.reply) {
		w.add(m.reply_count);
		for (u32 i = 0; i < m.reply_count; i++)
			w.add(m.reply_segments[i]);
	}
}

/** Write @m; returns the length. */
[[nodiscard]] inline u32 write(const Model &m, MutableBytes room)
{
	Words w(room);

	w.add(m.xid);
	w.add(m.vers);
	w.add(m.credits);
	w.add(m.proc);
	if (m.proc == 4) {
		w.add(m.error_code);
		if (m.error_code == 1) {
			w.add(m.low);
			w.add(m.high);
		}
		return w.length();
	}
	write_lists(m, w);
	return w.length();
}

/** Reads words until they run out, and then only zeros, and remembers that. */
class WordSource {
public:
	WordSource(Bytes message, u32 first) : message_(message), next_(first)
	{
	}
	[[nodiscard]] u32 word()
	{
		if ((u64(next_) + 1) * 4 > message_.size()) {
			short_ = true;
			return 0;
		}
		return word_at(message_, next_++);
	}
	[[nodiscard]] xdr::Segment segment()
	{
		xdr::Segment s;

		s.handle = Rkey(word());
		s.length = word();
		s.offset = u64(word()) << 32;
		s.offset |= word();
		return s;
	}
	[[nodiscard]] bool ran_out() const
	{
		return short_;
	}
	[[nodiscard]] u32 at() const
	{
		return next_ * 4;
	}

private:
	Bytes message_;
	u32 next_;
	bool short_ = false;
};

/** Nothing but the four fixed words, which @message has. */
inline void read_fixed(Bytes message, Model &m)
{
	m.xid = word_at(message, 0);
	m.vers = word_at(message, 1);
	m.credits = word_at(message, 2);
	m.proc = word_at(message, 3);
	m.error_code = m.low = m.high = 0;
	m.read_count = m.chunk_count = m.segment_count = m.reply_count = 0;
	m.reply = false;
}

/** The three lists: Error::none, Error::protocol, or ENOBUFS as read() has it. */
[[nodiscard]] inline Error read_lists(WordSource &in, Model &m, bool &position_zero)
{
	u32 more;

	while ((more = in.word()) == 1) {
		if (m.read_count == max_reads)
			return Error::no_buffers;
		xdr::ReadSegment &r = m.reads[m.read_count++];
		r.position = Position(in.word());
		r.target = in.segment();
		if (in.ran_out() || r.position.get() % 4 != 0)
			return Error::protocol;
		if (r.position.get() == 0)
			position_zero = true;
	}
	if (more != 0 || in.ran_out())
		return Error::protocol;
	while ((more = in.word()) == 1) {
		if (m.chunk_count == max_chunks)
			return Error::no_buffers;
		u32 count = in.word();
		m.chunk_segments[m.chunk_count++] = count;
		for (u32 i = 0; i < count; i++) {
			if (m.segment_count == max_segments)
				return Error::no_buffers;
			m.segments[m.segment_count++] = in.segment();
			if (in.ran_out())
				return Error::protocol;
		}
		if (in.ran_out())
			return Error::protocol;
	}
	if (more != 0 || in.ran_out())
		return Error::protocol;
	more = in.word();
	if (more > 1 || in.ran_out())
		return Error::protocol;
	if (more == 1) {
		m.reply = true;
		m.reply_count = in.word();
		if (in.ran_out())
			return Error::protocol;
		for (u32 i = 0; i < m.reply_count; i++) {
			if (i == max_segments)
				return Error::no_buffers;
			m.reply_segments[i] = in.segment();
			if (in.ran_out())
				return Error::protocol;
		}
	}
	return Error::none;
}

/**
 * What decode() has to say about @message, by the texts: Error::none and @m, or the error. ENOBUFS,
 * which decode() never returns: the message is beyond a Model.
 */
[[nodiscard]] inline Error read(Bytes message, Model &m)
{
	bool position_zero = false;

	if (message.size() > max_message)
		return Error::no_buffers;
	if (message.size() < 16)
		return Error::message_size;
	read_fixed(message, m);
	if (m.vers != 1 && m.proc == 4)
		return Error::bad_message;
	if (m.vers != 1)
		return Error::no_protocol;
	if (m.proc == 4) {
		if (message.size() < 20)
			return Error::message_size;
		m.error_code = word_at(message, 4);
		if (m.error_code != 1 && m.error_code != 2)
			return Error::bad_message;
		m.length = 20;
		if (m.error_code == 2)
			return Error::none;
		if (message.size() < 28)
			return Error::message_size;
		m.low = word_at(message, 5);
		m.high = word_at(message, 6);
		m.length = 28;
		return Error::none;
	}
	if (message.size() < 28)
		return Error::message_size;
	if (m.proc == 3)
		return Error::bad_message;
	if (m.proc == 2)
		return Error::not_supported;
	if (m.proc > 4)
		return Error::protocol;

	WordSource in(message, 4);
	if (const Error error = read_lists(in, m, position_zero); error != Error::none)
		return error;
	m.length = in.at();
	if (m.proc == 0 && position_zero)
		return Error::protocol;
	if (m.proc == 1 && !position_zero && !m.reply)
		return Error::protocol;
	return Error::none;
}

/** The three lists of @m, or of what was decoded, with an encoder under test. */
inline void encode_lists(const Model &m, xdr::ListEncoder &e)
{
	for (u32 i = 0; i < m.read_count; i++)
		e.read_segment(m.reads[i].position, m.reads[i].target);
	for (u32 c = 0, s = 0; c < m.chunk_count; c++) {
		e.write_chunk(m.chunk_segments[c]);
		for (u32 i = 0; i < m.chunk_segments[c]; i++)
			e.segment(m.segments[s++]);
	}
	if (m.reply)
		e.reply_chunk(Span<const xdr::Segment>(m.reply_segments, m.reply_count));
}

inline void encode_lists(const xdr::Message &h, xdr::ListEncoder &e)
{
	for (xdr::ReadSegment r : h.reads)
		e.read_segment(r.position, r.target);
	for (xdr::WriteChunk c : h.writes) {
		e.write_chunk(c.count());
		for (xdr::Segment s : c)
			e.segment(s);
	}
	if (h.reply.present())
		e.reply_chunk(h.reply, h.reply.length());
}

/** Build @m with the encoder under test. */
[[nodiscard]] inline Result<u32> encode(const Model &m, MutableBytes room)
{
	if (m.proc == 4) {
		const xdr::ErrorBody error = {m.error_code == 1 ? xdr::ErrorCode::version :
								  xdr::ErrorCode::chunk,
					      m.low, m.high};

		return v1::encode_error(room, {Xid(m.xid), m.vers, {}, 0}, Credits(m.credits),
					error);
	}
	v1::Encoder e(room, Xid(m.xid), Credits(m.credits), static_cast<xdr::Kind>(m.proc));
	encode_lists(m, e);
	return e.finish();
}

/** Build what was decoded with the encoder under test, reading all that the views show. */
[[nodiscard]] inline Result<u32> encode(const xdr::Message &h, MutableBytes room)
{
	if (h.kind == xdr::Kind::error)
		return v1::encode_error(room, {h.xid, h.version, {}, 0}, h.credits, h.error);
	v1::Encoder e(room, h.xid, h.credits, h.kind);
	encode_lists(h, e);
	return e.finish();
}

/** The lists of @h are those of @m, counts and sums included. */
inline void expect_same_lists(const xdr::Message &h, const Model &m)
{
	u32 i, c, runs = 0;
	u64 total = 0, zero = 0;
	bool ordered = true, position_zero = false;

	EXPECT_EQ(h.has_chunks(), m.read_count || m.chunk_count || m.reply);
	ASSERT_EQ(h.reads.count(), m.read_count);
	EXPECT_EQ(h.reads.empty(), m.read_count == 0);
	i = 0;
	for (xdr::ReadSegment r : h.reads) {
		ASSERT_LT(i, m.read_count);
		EXPECT_TRUE(r == m.reads[i]);
		EXPECT_TRUE(h.reads[i] == m.reads[i]);
		u32 position = m.reads[i].position.get();
		total += m.reads[i].target.length;
		if (position == 0) {
			position_zero = true;
			zero += m.reads[i].target.length;
		}
		if (i == 0 || m.reads[i - 1].position.get() != position)
			runs++;
		if (i != 0 && m.reads[i - 1].position.get() > position)
			ordered = false;
		i++;
	}
	EXPECT_EQ(i, m.read_count);
	EXPECT_EQ(h.reads.runs(), runs);
	EXPECT_EQ(h.reads.ordered(), ordered);
	EXPECT_EQ(h.reads.has_position_zero(), position_zero);
	EXPECT_EQ(h.reads.total_length(), total);
	EXPECT_EQ(h.reads.position_zero_length(), zero);

	ASSERT_EQ(h.writes.count(), m.chunk_count);
	ASSERT_EQ(h.writes.segments(), m.segment_count);
	EXPECT_EQ(h.writes.empty(), m.chunk_count == 0);
	i = c = 0;
	total = 0;
	for (xdr::WriteChunk chunk : h.writes) {
		u64 sum = 0;
		u32 k = 0;
		ASSERT_LT(c, m.chunk_count);
		ASSERT_EQ(chunk.count(), m.chunk_segments[c]);
		for (xdr::Segment s : chunk) {
			EXPECT_TRUE(s == m.segments[i]);
			EXPECT_TRUE(chunk[k] == m.segments[i]);
			sum += m.segments[i].length;
			i++;
			k++;
		}
		EXPECT_EQ(k, m.chunk_segments[c]);
		EXPECT_EQ(chunk.length(), sum);
		total += sum;
		c++;
	}
	EXPECT_EQ(c, m.chunk_count);
	EXPECT_EQ(i, m.segment_count);
	EXPECT_EQ(h.writes.total_length(), total);

	EXPECT_EQ(h.reply.present(), m.reply);
	ASSERT_EQ(h.reply.count(), m.reply_count);
	i = 0;
	total = 0;
	for (xdr::Segment s : h.reply) {
		EXPECT_TRUE(s == m.reply_segments[i]);
		total += m.reply_segments[i].length;
		i++;
	}
	EXPECT_EQ(i, m.reply_count);
	EXPECT_EQ(h.reply.length(), total);
}

/** Everything that @h says is what @m says, counts and sums included. */
inline void expect_same(const xdr::Message &h, const Model &m)
{
	EXPECT_EQ(h.xid.get(), m.xid);
	EXPECT_EQ(h.version, m.vers);
	EXPECT_EQ(h.credits.get(), m.credits);
	EXPECT_EQ(static_cast<u32>(h.kind), m.proc);
	EXPECT_EQ(h.header_length, m.length);
	if (m.proc == 4)
		EXPECT_EQ(h.error.code,
			  m.error_code == 1 ? xdr::ErrorCode::version : xdr::ErrorCode::chunk);
	EXPECT_EQ(h.error.low, m.low);
	EXPECT_EQ(h.error.high, m.high);
	expect_same_lists(h, m);
}

/** Two decoders say the same of the same bytes, which have no error message. */
inline void expect_same(const xdr::Message &h, const xdr::Message &other)
{
	EXPECT_EQ(h.xid, other.xid);
	EXPECT_EQ(h.version, other.version);
	EXPECT_EQ(h.credits, other.credits);
	EXPECT_EQ(h.invalidate, other.invalidate);
	EXPECT_EQ(h.kind, other.kind);
	EXPECT_EQ(h.direction, other.direction);
	EXPECT_EQ(h.header_length, other.header_length);
	EXPECT_EQ(h.transmissions, other.transmissions);
	EXPECT_EQ(h.transmission, other.transmission);
	EXPECT_EQ(h.payload.data(), other.payload.data());
	EXPECT_EQ(h.payload.size(), other.payload.size());
	EXPECT_EQ(h.has_chunks(), other.has_chunks());
	EXPECT_EQ(h.reads.count(), other.reads.count());
	EXPECT_EQ(h.writes.count(), other.writes.count());
	EXPECT_EQ(h.writes.segments(), other.writes.segments());
	EXPECT_EQ(h.reply.present(), other.reply.present());
}

/** The payload of @message, and the direction by RFC 8167 4.1, from @m and the words behind the header. */
inline void expect_payload(const xdr::Message &h, const Model &m, Bytes message)
{
	const Bytes payload = m.proc == 0 ? message.from(m.length) : Bytes();

	EXPECT_EQ(h.payload.size(), payload.size());
	if (payload.size())
		EXPECT_TRUE(h.payload.data() == payload.data());
	if (m.read_count)
		EXPECT_EQ(h.direction, xdr::Direction::call);
	else if (m.proc)
		EXPECT_EQ(h.direction, xdr::Direction::reply);
	else if (payload.size() < 8 || word_at(payload, 0) != m.xid || word_at(payload, 1) > 1)
		EXPECT_EQ(h.direction, xdr::Direction::unknown);
	else
		EXPECT_EQ(h.direction,
			  word_at(payload, 1) ? xdr::Direction::reply : xdr::Direction::call);
}

/**
 * Decode @message, and hold the outcome against read(): the error, or all that the header says. What
 * decodes is encoded again, into exactly the room it needs, and must come out as the same bytes.
 * Returns the outcome.
 *
 * @message  ends where its heap block ends. Neither it nor the rest is allocated here: in a kernel with
 *           KASAN and kmemleak an allocation takes longer than all of this.
 * @scratch  a Model to use
 * @room     at least as long as @message
 */
inline Error check(Bytes message, Model &scratch, MutableBytes room)
{
	constexpr u8 untouched = 0xa5;
	const Error expected = read(message, scratch);
	auto header = decode(message);

	EXPECT_ERROR(header, expected);
	if (!header || expected != Error::none)
		return expected;
	expect_same(header.value(), scratch);
	expect_payload(header.value(), scratch, message);

	__builtin_memset(room.data(), untouched, room.size());
	auto length = encode(header.value(), room.first(scratch.length));
	EXPECT_OK(length);
	if (length)
		EXPECT_EQ(length.value(), scratch.length);
	EXPECT_BYTES(Bytes(room.first(scratch.length)), message.first(scratch.length));
	for (u8 byte : room.from(scratch.length))
		EXPECT_EQ(byte, untouched);
	return expected;
}

/** A segment that no other @seed has, with all bits of its fields in use. */
[[nodiscard]] inline xdr::Segment segment(u32 seed, u32 length)
{
	return {Rkey(0x9e3779b9u * (seed + 1)), length,
		u64(0xf1e2d3c4b5a69788u) ^ (u64(seed) << 32 | seed)};
}

} // namespace rpcordma::xdr_reference
