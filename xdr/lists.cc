// SPDX-License-Identifier: GPL-2.0-only
/*
 * Decoding and encoding of the chunk lists. The decoder is on the path of every received message: one
 * pass, nothing copied, and a message without chunks takes three words.
 */
#include "xdr/lists.hh"

namespace rpcordma::xdr {

/** Fills the views' private parts; a class only to be their friend. */
class ListDecoder {
public:
	explicit ListDecoder(Reader &reader) : reader_(reader)
	{
	}
	[[nodiscard]] bool reads(ReadList &list);
	[[nodiscard]] bool writes(WriteList &list);
	[[nodiscard]] bool reply(ReplyChunk &chunk);

private:
	/** An optional-data word: 0 or 1, or the list is not decodable (RFC 4506 4.19). */
	[[nodiscard]] bool present_(bool &present)
	{
		u32 word;

		if (!reader_.word(word) || word > 1)
			return false;
		present = word != 0;
		return true;
	}
	/** A counted array of segments, and the sum of their lengths. */
	[[nodiscard]] bool chunk_(WriteChunk &chunk, u64 &length)
	{
		u32 count;

		/* Divided, not multiplied: the count is the peer's and may be anything. */
		if (!reader_.word(count) || count > reader_.left() / segment_size)
			return false;
		chunk = WriteChunk(reader_.at(), count);
		length = chunk.length();
		return reader_.skip(usize(count) * segment_size);
	}
	Reader &reader_;
};

/*
 * No sum of lengths here can overflow: fewer than 2^32 / 16 segments, each shorter than 2^32.
 */
bool ListDecoder::reads(ReadList &list)
{
	bool present;
	u32 last = 0;

	while (true) {
		if (!present_(present))
			return false;
		if (!present)
			return true;
		const u8 *at = reader_.at();
		if (!reader_.skip(read_segment_size))
			return false;
		const u32 position = load_be32(at);
		const u32 length = load_be32(at + 8);
		if (position & (word_size - 1))
			return false;
		if (list.count_ == 0)
			list.first_ = at;
		if (list.count_ == 0 || position != last)
			list.runs_++;
		if (position < last)
			list.ordered_ = false;
		if (position == 0) {
			list.position_zero_ = true;
			list.position_zero_length_ += length;
		}
		list.total_length_ += length;
		list.count_++;
		last = position;
	}
}

bool ListDecoder::writes(WriteList &list)
{
	bool present;

	list.first_ = reader_.at();
	while (true) {
		WriteChunk chunk;
		u64 length;

		if (!present_(present))
			return false;
		if (!present)
			return true;
		if (!chunk_(chunk, length))
			return false;
		list.total_length_ += length;
		list.segments_ += chunk.count();
		list.count_++;
	}
}

bool ListDecoder::reply(ReplyChunk &reply)
{
	bool present;
	WriteChunk chunk;
	u64 length;

	if (!present_(present))
		return false;
	if (!present)
		return true;
	if (!chunk_(chunk, length))
		return false;
	reply = ReplyChunk(chunk, length);
	return true;
}

Status decode_lists(Reader &reader, ChunkLists &lists)
{
	ListDecoder decoder(reader);
	LoneLists lone;

	if (reader.left() >= lone_lists_size && lone.load(reader.at())) {
		lone.fill(reader.at(), lists);
		(void)reader.skip(lone_lists_size);
		return {};
	}
	if (!decoder.reads(lists.reads) || !decoder.writes(lists.writes) ||
	    !decoder.reply(lists.reply))
		return Error::protocol;
	return {};
}

bool ListEncoder::advance_(At at)
{
	if (at < at_ || open_ != 0) {
		writer_.fail(Error::invalid);
		return false;
	}
	for (; at_ < at; at_ = static_cast<At>(static_cast<u8>(at_) + 1))
		writer_.word(0);
	return true;
}

void ListEncoder::read_segment(Position position, const Segment &target)
{
	if (!advance_(At::reads))
		return;
	if (position.get() & (word_size - 1)) {
		writer_.fail(Error::invalid);
		return;
	}
	u8 *at = writer_.reserve(read_item_size);
	if (!at)
		return;
	store_be32(at, 1);
	store_be32(at + word_size, position.get());
	store_segment(at + 2 * word_size, target);
	if (position.get() == 0)
		position_zero_ = true;
}

void ListEncoder::write_chunk(u32 segments)
{
	if (!advance_(At::writes))
		return;
	u8 *at = writer_.reserve(write_item_size);
	if (!at)
		return;
	store_be32(at, 1);
	store_be32(at + word_size, segments);
	open_ = segments;
}

void ListEncoder::reply_chunk(u32 segments)
{
	if (has_reply_) {
		writer_.fail(Error::invalid);
		return;
	}
	if (!advance_(At::reply))
		return;
	u8 *at = writer_.reserve(write_item_size);
	if (!at)
		return;
	store_be32(at, 1);
	store_be32(at + word_size, segments);
	open_ = segments;
	has_reply_ = true;
}

void ListEncoder::segment(const Segment &segment)
{
	if (open_ == 0) {
		writer_.fail(Error::invalid);
		return;
	}
	u8 *at = writer_.reserve(segment_size);
	if (!at)
		return;
	store_segment(at, segment);
	open_--;
}

/** The segment count of @segments; one too large for a count word cannot fit in any room either. */
static u32 count_word(Span<const Segment> segments)
{
	return u32(min<usize>(segments.size(), ~u32(0)));
}

void ListEncoder::segments_(Span<const Segment> segments)
{
	for (const Segment &item : segments) {
		if (writer_.error() != Error::none)
			return;
		segment(item);
	}
}

void ListEncoder::returned_(const WriteChunk &offered, u64 written)
{
	for (Segment item : offered) {
		item.length = u32(min<u64>(item.length, written));
		written -= item.length;
		segment(item);
	}
	if (written != 0)
		writer_.fail(Error::invalid);
}

void ListEncoder::write_chunk(Span<const Segment> segments)
{
	write_chunk(count_word(segments));
	segments_(segments);
}

void ListEncoder::write_chunk(const WriteChunk &offered, u64 written)
{
	write_chunk(offered.count());
	returned_(offered, written);
}

void ListEncoder::reply_chunk(Span<const Segment> segments)
{
	reply_chunk(count_word(segments));
	segments_(segments);
}

void ListEncoder::reply_chunk(const WriteChunk &offered, u64 written)
{
	reply_chunk(offered.count());
	returned_(offered, written);
}

void ListEncoder::end_lists_()
{
	if (advance_(At::reply) && !has_reply_)
		writer_.word(0);
}

} // namespace rpcordma::xdr
