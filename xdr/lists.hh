// SPDX-License-Identifier: GPL-2.0-only
/*
 * The chunk lists of RFC 8166 4.3, which version 1 and version 2 headers share: views of a received
 * Read list, Write list and Reply chunk, and an encoder that appends the three. What precedes the
 * lists in a header, and what a proc demands of them, belongs to the version (v1.hh, v2.hh).
 *
 * A view is a pointer into the received message and the counts that its validation found. It copies
 * no segment, lives no longer than the message, and its iterators stay within the validated bytes
 * even if those bytes were changed afterwards.
 */
#pragma once

#include "xdr/wire.hh"

namespace rpcordma::xdr {

class ListDecoder;

/** On the wire a read segment is preceded by a one: 1 PHLOO (RFC 8166 4.7). */
constexpr u32 read_item_size = word_size + read_segment_size;
/** A Write chunk on a list begins with a one and its segment count. */
constexpr u32 write_item_size = 2 * word_size;

/*
 * The views' default constructors are spelled out for speed: with implicit ones the compiler clears a
 * whole header by `rep stos` before it is filled, which takes several times as long as decoding it.
 */

/** The Read list: read segments in list order (RFC 8166 4.3.1). Empty by default. */
class ReadList {
public:
	class Iterator {
	public:
		explicit Iterator(const u8 *at) : at_(at)
		{
		}
		[[nodiscard]] ReadSegment operator*() const
		{
			return {Position(load_be32(at_)), load_segment(at_ + word_size)};
		}
		Iterator &operator++()
		{
			at_ += read_item_size;
			return *this;
		}
		[[nodiscard]] bool operator!=(const Iterator &other) const
		{
			return at_ != other.at_;
		}

	private:
		const u8 *at_;
	};

	ReadList()
	{
	}
	/** Segments on the list. */
	[[nodiscard]] u32 count() const
	{
		return count_;
	}
	[[nodiscard]] bool empty() const
	{
		return count_ == 0;
	}
	/** Unchecked: @i < count() is the caller's promise. */
	[[nodiscard]] ReadSegment operator[](u32 i) const
	{
		return *Iterator(first_ + usize(i) * read_item_size);
	}
	[[nodiscard]] Iterator begin() const
	{
		return Iterator(first_);
	}
	[[nodiscard]] Iterator end() const
	{
		return Iterator(first_ + usize(count_) * read_item_size);
	}
	/**
	 * Runs of neighbouring segments with one Position. That is the number of Read chunks where
	 * no Position comes back after another, which ordered() guarantees; RFC 8166 3.4.5 lets a
	 * requester mix them, and no known one does.
	 */
	[[nodiscard]] u32 runs() const
	{
		return runs_;
	}
	/** True when Positions never decrease along the list; true of an empty list. */
	[[nodiscard]] bool ordered() const
	{
		return ordered_;
	}
	/** A Position Zero Read chunk, which holds the Payload stream, is there (RFC 8166 3.5.3). */
	[[nodiscard]] bool has_position_zero() const
	{
		return position_zero_;
	}
	/** The sum of the lengths of all segments, bytes. */
	[[nodiscard]] u64 total_length() const
	{
		return total_length_;
	}
	/** The sum of the lengths of the segments at Position zero, bytes. */
	[[nodiscard]] u64 position_zero_length() const
	{
		return position_zero_length_;
	}

private:
	friend class ListDecoder;
	friend struct LoneLists;
	const u8 *first_ = nullptr; /* the first PHLOO */
	u64 total_length_ = 0;
	u64 position_zero_length_ = 0;
	u32 count_ = 0;
	u32 runs_ = 0;
	bool ordered_ = true;
	bool position_zero_ = false;
};

/** The segments of one Write chunk, or of a Reply chunk, in array order (RFC 8166 3.4.6). */
class WriteChunk {
public:
	class Iterator {
	public:
		explicit Iterator(const u8 *at) : at_(at)
		{
		}
		[[nodiscard]] Segment operator*() const
		{
			return load_segment(at_);
		}
		Iterator &operator++()
		{
			at_ += segment_size;
			return *this;
		}
		[[nodiscard]] bool operator!=(const Iterator &other) const
		{
			return at_ != other.at_;
		}

	private:
		const u8 *at_;
	};

	WriteChunk()
	{
	}
	/** @first: the first HLOO of @count, all of which lie within the message. */
	WriteChunk(const u8 *first, u32 count) : first_(first), count_(count)
	{
	}
	/** Segments; zero makes it an "empty Write chunk". */
	[[nodiscard]] u32 count() const
	{
		return count_;
	}
	/** Unchecked: @i < count() is the caller's promise. */
	[[nodiscard]] Segment operator[](u32 i) const
	{
		return load_segment(first_ + usize(i) * segment_size);
	}
	[[nodiscard]] Iterator begin() const
	{
		return Iterator(first_);
	}
	[[nodiscard]] Iterator end() const
	{
		return Iterator(first_ + usize(count_) * segment_size);
	}
	/** The sum of the segments' lengths, bytes. Walks them: linear in count(). */
	[[nodiscard]] u64 length() const
	{
		u64 sum = 0;
		for (Segment segment : *this)
			sum += segment.length;
		return sum;
	}

private:
	const u8 *first_ = nullptr;
	u32 count_ = 0;
};

/** The Write list: Write chunks in list order (RFC 8166 4.3.2). Empty by default. */
class WriteList {
public:
	class Iterator {
	public:
		Iterator(const u8 *at, usize left, u32 chunks)
			: at_(at),
			  left_(left),
			  chunks_(chunks)
		{
		}
		[[nodiscard]] WriteChunk operator*() const
		{
			return {at_ + write_item_size, segments_()};
		}
		Iterator &operator++()
		{
			usize bytes = write_item_size + usize(segments_()) * segment_size;

			chunks_--;
			at_ += bytes;
			left_ -= bytes;
			return *this;
		}
		[[nodiscard]] bool operator!=(const Iterator &other) const
		{
			return chunks_ != other.chunks_;
		}

	private:
		/*
		 * The count word is read a second time here. Validation left write_item_size bytes
		 * for each chunk still to come; whatever the word says now, those stay ahead.
		 */
		[[nodiscard]] u32 segments_() const
		{
			usize room = (left_ - usize(chunks_) * write_item_size) / segment_size;

			return u32(min<usize>(load_be32(at_ + word_size), room));
		}
		const u8 *at_; /* the chunk's leading one */
		usize left_;   /* validated bytes from at_ on */
		u32 chunks_;   /* this one and those behind it */
	};

	WriteList()
	{
	}
	/** Chunks on the list, empty ones included. */
	[[nodiscard]] u32 count() const
	{
		return count_;
	}
	[[nodiscard]] bool empty() const
	{
		return count_ == 0;
	}
	/** Segments of all chunks together. */
	[[nodiscard]] u32 segments() const
	{
		return segments_;
	}
	/** The sum of the lengths of all segments of all chunks, bytes. */
	[[nodiscard]] u64 total_length() const
	{
		return total_length_;
	}
	/** The first segment of all. Unchecked: segments() is not 0, and no chunk before it is empty. */
	[[nodiscard]] Segment first_segment() const
	{
		return load_segment(first_ + write_item_size);
	}
	[[nodiscard]] Iterator begin() const
	{
		return {first_, bytes_(), count_};
	}
	[[nodiscard]] Iterator end() const
	{
		return {first_ + bytes_(), 0, 0};
	}

private:
	friend class ListDecoder;
	friend struct LoneLists;
	[[nodiscard]] usize bytes_() const
	{
		return usize(count_) * write_item_size + usize(segments_) * segment_size;
	}
	const u8 *first_ = nullptr; /* the first chunk's leading one */
	u64 total_length_ = 0;
	u32 count_ = 0;
	u32 segments_ = 0;
};

/** The Reply chunk (RFC 8166 4.3.3); a present one may have no segments, as far as the XDR goes. */
class ReplyChunk : public WriteChunk {
public:
	ReplyChunk()
	{
	}
	[[nodiscard]] bool present() const
	{
		return present_;
	}
	/** As WriteChunk::length(), without the walk. */
	[[nodiscard]] u64 length() const
	{
		return length_;
	}

private:
	friend class ListDecoder;
	ReplyChunk(WriteChunk chunk, u64 length)
		: WriteChunk(chunk),
		  present_(true),
		  length_(length)
	{
	}
	bool present_ = false; /* in what WriteChunk leaves of a word */
	u64 length_ = 0;
};

/** The three lists of a header. */
struct ChunkLists {
	ReadList reads;
	WriteList writes;
	ReplyChunk reply;

	/** Any of the three is there, an empty Write chunk included. */
	[[nodiscard]] bool has_chunks() const
	{
		return !reads.empty() || !writes.empty() || reply.present();
	}
};

/**
 * Validate the three lists at the front of @reader in one pass, and leave it behind them.
 *
 * Checked: every optional-data word is 0 or 1, every segment lies within the bytes, every Position is
 * a multiple of four (RFC 8166 3.4.5). Not checked, since only RDMA operations can: handles, offsets.
 *
 * @reader  at most 2^32 - 1 bytes
 * @lists   the views; their bytes are @reader's. Meaningless after an error.
 *
 * Errors: EPROTO, not decodable.
 */
[[nodiscard]] Status decode_lists(Reader &reader, ChunkLists &lists);

/** Bytes of three lists that are not there. */
constexpr u32 absent_lists_size = 3 * word_size;

/** None of the three lists is there: the absent_lists_size bytes at @at are all zero. */
[[nodiscard]] inline bool lists_absent(const u8 *at)
{
	return !(load_be64(at) | load_be32(at + 2 * word_size));
}

/** Wire bytes of the three lists; the counts are those of a header that is to be built. */
[[nodiscard]] constexpr u64 encoded_lists_length(u32 read_segments, u32 write_chunks,
						 u32 write_segments, bool reply_chunk,
						 u32 reply_segments)
{
	return 3 * word_size + u64(read_segments) * read_item_size +
	       u64(write_chunks) * write_item_size + u64(write_segments) * segment_size +
	       (reply_chunk ? word_size + u64(reply_segments) * segment_size : 0);
}

/**
 * Bytes of a header with these counts, where one without chunks has @bare: what chunks add is the same in every
 * version.
 */
[[nodiscard]] constexpr u64 encoded_length(u32 bare, u32 read_segments, u32 write_chunks,
					   u32 write_segments, bool reply_chunk, u32 reply_segments)
{
	return bare - absent_lists_size +
	       encoded_lists_length(read_segments, write_chunks, write_segments, reply_chunk,
				    reply_segments);
}

/** The chunk of a message that has one, of one segment: as most have that have any. */
struct LoneChunk {
	/** A Read chunk at @position; else a Write chunk. Not a bool: see BasicGuard. */
	u32 read = false;
	Position position;
	Segment segment;
};
/** Bytes of the three lists of such a message. */
constexpr u32 lone_lists_size = 9 * word_size;
static_assert(lone_lists_size == encoded_lists_length(1, 0, 0, false, 0) &&
	      lone_lists_size == encoded_lists_length(0, 1, 1, false, 0));

/**
 * The three lists of such a message, decoded: first load(), which reads, then fill(), which writes, so that a compiler knows that
 * neither looks at what the other does. Both are what decode_lists() does.
 */
struct LoneLists {
	/** A Read chunk, at this Position; else a Write chunk. Not a bool: see BasicGuard. */
	u32 read;
	u32 position;
	/** Of the segment, bytes. */
	u32 length;

	/**
	 * Whether the lists at @at are one chunk of one segment, and nothing else.
	 *
	 * @at  unchecked: there are lone_lists_size bytes
	 */
	[[nodiscard, gnu::always_inline]] bool load(const u8 *at)
	{
		/* In either form the last two words say that nothing follows. */
		if (load_be64(at + 7 * word_size))
			return false;
		read = load_be64(at) != 1;
		if (!read) {
			position = 0;
			length = load_be32(at + 4 * word_size);
			return load_be32(at + 2 * word_size) == 1;
		}
		position = load_be32(at + word_size);
		length = load_be32(at + 3 * word_size);
		return load_be32(at) == 1 && !load_be32(at + 6 * word_size) &&
		       !(position & (word_size - 1));
	}
	/** Make @lists, which are empty, what load() has found at @at. */
	[[gnu::always_inline]] void fill(const u8 *at, ChunkLists &lists) const
	{
		if (!read) {
			lists.writes.first_ = at + word_size;
			lists.writes.total_length_ = length;
			lists.writes.count_ = 1;
			lists.writes.segments_ = 1;
			return;
		}
		lists.reads.first_ = at + word_size;
		lists.reads.total_length_ = length;
		lists.reads.count_ = 1;
		lists.reads.runs_ = 1;
		if (!position) {
			lists.reads.position_zero_ = true;
			lists.reads.position_zero_length_ = length;
		}
	}
};

/** A Position that a chunk beside inline bytes may have: a multiple of four, and not zero (RFC 8166 3.4.5). */
[[nodiscard]] inline bool is_position_of_data(Position position)
{
	return position.get() && !(position.get() & (word_size - 1));
}

/** What ListEncoder makes of @chunk. Unchecked: @at has lone_lists_size bytes, the Position is a multiple of four. */
inline void store_lone(u8 *at, const LoneChunk &chunk)
{
	if (chunk.read) {
		store_be32(at, 1);
		store_be32(at + word_size, chunk.position.get());
		store_segment(at + 2 * word_size, chunk.segment);
		store_be32(at + 6 * word_size, 0);
	} else {
		store_be64(at, 1);
		store_be32(at + 2 * word_size, 1);
		store_segment(at + 3 * word_size, chunk.segment);
	}
	store_be64(at + 7 * word_size, 0);
}

/**
 * Appends the three lists to a header in wire order: read segments, then Write chunks, then the Reply
 * chunk; each may be left out. A list is ended when a later one begins or when the version's finish()
 * is called. Nothing has to be checked between: the first misuse (EINVAL) or lack of room (ENOSPC)
 * sticks and is the result of finish(). A version's encoder derives from this.
 */
class ListEncoder {
public:
	/** Append a read segment. EINVAL: @position is no multiple of four, or a Write or Reply chunk began. */
	void read_segment(Position position, const Segment &target);

	/**
	 * Begin a Write chunk of @segments segments, zero allowed; exactly that many calls of
	 * segment() follow. EINVAL: the chunk before it lacks segments, or the Reply chunk began.
	 */
	void write_chunk(u32 segments);
	/** A whole Write chunk. */
	void write_chunk(Span<const Segment> segments);
	/**
	 * A Write chunk as a responder returns it: the segments of @offered, their lengths set to
	 * what was written when @written bytes filled them in order (RFC 8166 3.4.6); zero makes
	 * an unused chunk. EINVAL: @written exceeds the chunk.
	 */
	void write_chunk(const WriteChunk &offered, u64 written);

	/** The same three for the Reply chunk, of which there is at most one (RFC 8166 4.3.3). */
	void reply_chunk(u32 segments);
	void reply_chunk(Span<const Segment> segments);
	void reply_chunk(const WriteChunk &offered, u64 written);

	/** The next segment of the chunk begun last. EINVAL: that chunk is complete, or there is none. */
	void segment(const Segment &segment);

	/** The first failure so far, if any; finish() reports it too. */
	[[nodiscard]] Error error() const
	{
		return writer_.error();
	}

protected:
	explicit ListEncoder(MutableBytes room) : writer_(room)
	{
	}
	/** End the lists. */
	void end_lists_();

	Writer writer_;
	bool position_zero_ = false; /* a read segment had Position zero */
	bool has_reply_ = false;

private:
	enum class At : u8 { reads, writes, reply };
	/** Write the ends of the lists before @at; EINVAL when @at lies behind or a chunk is open. */
	[[nodiscard]] bool advance_(At at);
	void segments_(Span<const Segment> segments);
	void returned_(const WriteChunk &offered, u64 written);

	u32 open_ = 0; /* segments that the current chunk still lacks */
	At at_ = At::reads;
};

} // namespace rpcordma::xdr
