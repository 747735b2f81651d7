// SPDX-License-Identifier: GPL-2.0-only
/*
 * rdma_optinfo of round-trip reduction: its decoders, what one transmission can be judged by, and its encoders.
 */
#include "xdr/rtrext.hh"

namespace rpcordma::rtrext {

namespace {

using xdr::word_size;

/** Bytes of an item without what its type adds; of a set without directions; of a direction without that. */
constexpr u32 least_item = 3 * word_size;
constexpr u32 least_set = 3 * word_size;
constexpr u32 least_place = 2 * word_size;
/** An xms_id. */
constexpr u32 id_size = 3 * word_size;

/** A count of what has at least @each bytes, all of which may be there. */
bool read_count(xdr::Reader &reader, u32 each, u32 &count)
{
	return reader.word(count) && count <= reader.left() / each;
}

bool read_segments(xdr::Reader &reader, xdr::WriteChunk &segments)
{
	u32 count;

	if (!read_count(reader, xdr::segment_size, count))
		return false;
	segments = {reader.at(), count};
	return reader.skip(usize(count) * xdr::segment_size);
}

/** The next item, of any type that one may have. @item was not read before. */
bool read_item(xdr::Reader &reader, Item &item)
{
	u32 type, count;

	if (!reader.word(item.displacement) || !reader.word(item.length) || !reader.word(type))
		return false;
	item.type = static_cast<Type>(type);
	switch (item.type) {
	case Type::segments:
		return read_segments(reader, item.segments);
	case Type::sent:
		if (!reader.word(item.offset) || !read_count(reader, word_size, count))
			return false;
		item.numbers = {reader.at(), count};
		return reader.skip(usize(count) * word_size);
	case Type::too_short:
	case Type::none:
		return true;
	default:
		return false;
	}
}

bool read_place(xdr::Reader &reader, Place &place)
{
	u32 type;

	if (!reader.word(place.least) || !reader.word(type))
		return false;
	place.type = static_cast<Type>(type);
	switch (place.type) {
	case Type::segments:
	case Type::either:
		return read_segments(reader, place.segments);
	case Type::by_size:
		return reader.word(place.most_sent) && read_segments(reader, place.segments);
	case Type::sent:
		return true;
	default:
		return false;
	}
}

/** A set up to its directions. */
bool read_set(xdr::Reader &reader, Set &set, u32 &places)
{
	return reader.word(set.begin) && reader.word(set.end) &&
	       read_count(reader, least_place, places);
}

/** What lies between @from and @to, of the same bytes. */
Bytes between(const xdr::Reader &from, const xdr::Reader &to)
{
	return {from.at(), from.left() - to.left()};
}

bool read_items(xdr::Reader &reader, bool response, Items &items)
{
	u32 count;
	u64 end = 0; /* nothing that is placed may begin before */

	if (!read_count(reader, least_item, count))
		return false;
	const xdr::Reader first = reader;
	for (u32 n = 0; n < count; n++) {
		Item item;

		if (!read_item(reader, item))
			return false;
		if (!item.placed()) {
			if (!response)
				return false;
			continue;
		}
		if (item.displacement % word_size != 0 || item.displacement < end)
			return false;
		/* One of no bytes has a place too. */
		end = item.displacement + max(item.padded(), u64(word_size));
		if (item.type == Type::segments && !response) {
			const u64 length = item.segments.length();

			if (length != item.length && length != item.padded())
				return false;
		}
	}
	items = {between(first, reader), count};
	return true;
}

bool read_sets(xdr::Reader &reader, Sets &sets)
{
	u32 count, all = 0;
	Set last;

	if (!read_count(reader, least_set, count))
		return false;
	const xdr::Reader first = reader;
	for (u32 n = 0; n < count; n++) {
		Set set;
		u32 places;

		if (!read_set(reader, set, places) || set.end < set.begin)
			return false;
		/* Two that begin alike are not disjoint, whatever their ends mean. */
		if (n != 0 && (set.begin < last.end || set.begin == last.begin))
			return false;
		last = set;
		all += places;
		for (; places != 0; places--) {
			Place place;

			if (!read_place(reader, place))
				return false;
		}
	}
	sets = {between(first, reader), count, all};
	return true;
}

bool read_id(xdr::Reader &reader, Id &id)
{
	if (reader.left() < id_size)
		return false;
	const u8 *at = reader.at();
	const u32 direction = xdr::load_be32(at + word_size);

	if (direction > static_cast<u32>(xdr::Direction::reply))
		return false;
	id.xid = Xid(xdr::load_be32(at));
	id.direction = static_cast<xdr::Direction>(direction);
	id.number = xdr::load_be32(at + 2 * word_size);
	return reader.skip(id_size);
}

/** Nothing may follow what was read. */
Error whole(bool good, const xdr::Reader &reader)
{
	return good && reader.left() == 0 ? Error::none : Error::protocol;
}

/** The stream, as far as it is at hand, is an RPC message of the header's xid and direction. */
bool is_of(const xdr::Message &message, Bytes stream)
{
	const auto rpc = rpc::peek(stream);

	return rpc && rpc.value().xid == message.xid &&
	       static_cast<u32>(rpc.value().type) == static_cast<u32>(message.direction);
}

/**
 * An item of the call that begins with @stream belongs into its RPC header, or that is cut short: then nobody knows. It
 * may continue in what is not at hand.
 */
bool in_preface(Bytes stream, const Request &request)
{
	if (request.items.count() == 0)
		return false;
	/* They ascend. */
	const Item first = *request.items.begin();
	/* What is to be fetched becomes a Read list, in which Position Zero stands for all of the call. */
	if (first.type == Type::segments && first.displacement < rpc::least_call_length)
		return true;
	const auto preface = rpc::call_preface(stream);

	if (!preface)
		return request.transmissions == 1 && stream.size() == request.stream_length;
	return first.displacement < preface.value();
}

} // namespace

void Items::Iterator::load_()
{
	item_ = {};
	if (left_ != 0 && !read_item(reader_, item_)) {
		/* Its bytes have changed: nothing behind it can be found. */
		item_ = {};
		reader_ = xdr::Reader({});
	}
}

void Places::Iterator::load_()
{
	place_ = {};
	if (left_ != 0 && !read_place(reader_, place_)) {
		place_ = {};
		reader_ = xdr::Reader({});
	}
}

void Sets::Iterator::load_()
{
	u32 places;
	bool good;

	set_ = {};
	if (left_ == 0)
		return;
	good = read_set(reader_, set_, places);
	const xdr::Reader first = reader_;
	for (u32 n = 0; good && n < places; n++) {
		Place place;

		good = read_place(reader_, place);
	}
	if (good) {
		set_.places = {between(first, reader_), places};
	} else {
		set_ = {};
		reader_ = xdr::Reader({});
	}
}

Error decode(Bytes optinfo, Request &request)
{
	xdr::Reader reader(optinfo);
	const bool good = read_items(reader, false, request.items) &&
			  read_sets(reader, request.sets) && reader.word(request.transmissions) &&
			  reader.word(request.reply_transmissions) &&
			  reader.word(request.stream_length) && request.transmissions != 0;

	return whole(good, reader);
}

Error decode(Bytes optinfo, Response &response)
{
	xdr::Reader reader(optinfo);
	const bool good = read_items(reader, true, response.items) &&
			  reader.word(response.transmissions) &&
			  reader.word(response.stream_length) && response.transmissions != 0;

	return whole(good, reader);
}

Error decode(Bytes optinfo, Continuation &continuation)
{
	xdr::Reader reader(optinfo);
	const bool good = reader.word(continuation.number) && reader.word(continuation.lead) &&
			  reader.word(continuation.stream_length);

	return whole(good, reader);
}

Error decode(Bytes optinfo, Report &report)
{
	xdr::Reader reader(optinfo);
	u32 lead, which;

	if (!read_id(reader, report.bad) || !reader.word(lead) || lead > 1)
		return Error::protocol;
	report.has_lead = lead != 0;
	report.lead = {};
	if ((report.has_lead && !read_id(reader, report.lead)) || !reader.word(which) ||
	    which < static_cast<u32>(Fault::header) || which > static_cast<u32>(Fault::stream))
		return Error::protocol;
	report.detail = {};
	report.detail.fault = static_cast<Fault>(which);
	bool good = true;
	for (u32 n = 0; n < report.detail.count(); n++)
		good = good && reader.word(report.detail.words[n]);
	return whole(good, reader);
}

Verdict judge_stream(u32 stream_length, u32 behind)
{
	if (stream_length % word_size != 0 || stream_length > behind)
		return Verdict::report(Detail::beyond(Fault::stream, stream_length, behind));
	return {};
}

Verdict judge_whole(const Items &items, u64 stream_length)
{
	u64 before = 0; /* bytes of the message that are not in the stream */

	for (const Item &item : items) {
		if (!item.placed())
			continue;
		/* They ascend: that is not below zero. */
		const u64 needed = item.displacement - before;

		if (needed > stream_length)
			return Verdict::report(
				{Fault::stream, {u32(stream_length), u32(needed), ~u32(0)}});
		before += item.padded();
	}
	return {};
}

/* RDMA segments that the peer says items are in, or may go to. */
static u64 count_segments(const Request &request)
{
	u64 count = 0;

	for (const Item &item : request.items)
		count += item.segments.count();
	for (const Set &set : request.sets)
		for (const Place &place : set.places)
			count += place.segments.count();
	return count;
}

Verdict judge(const xdr::Message &message, const Request &request, u32 behind, u32 most)
{
	const Bytes stream = message.payload.first(request.stream_length);

	if (!is_of(message, stream) || in_preface(stream, request) || request.transmissions > most)
		return Verdict::refuse(xdr::ErrorCode::chunk);
	if (const Verdict verdict = judge_stream(request.stream_length, behind); !verdict.good())
		return verdict;
	if (request.items.count() > most_items || request.sets.places() > most_items ||
	    count_segments(request) > most_segments)
		return Verdict::refuse(xdr::ErrorCode::system);
	return request.transmissions == 1 ? judge_whole(request.items, request.stream_length) :
					    Verdict{};
}

Verdict judge(const xdr::Message &message, const Response &response, u32 behind)
{
	if (!is_of(message, message.payload.first(response.stream_length)))
		return Verdict::refuse(xdr::ErrorCode::chunk);
	if (const Verdict verdict = judge_stream(response.stream_length, behind); !verdict.good())
		return verdict;
	if (response.items.count() > most_items)
		return Verdict::refuse(xdr::ErrorCode::system);
	return response.transmissions == 1 ? judge_whole(response.items, response.stream_length) :
					     Verdict{};
}

u32 filled_segments(const xdr::WriteChunk &offered, u32 length)
{
	u32 filled = 0;

	for (const xdr::Segment segment : offered) {
		if (length == 0)
			break;
		filled += segment.length != 0;
		length -= min(segment.length, length);
	}
	return filled;
}

Encoder::Encoder(MutableBytes room, Xid xid, Credits credits, xdr::Option option)
	: room_(room),
	  writer_(room.from(v2::optional_length)),
	  xid_(xid),
	  credits_(credits),
	  option_(option)
{
	if (option != xdr::Option::xmtreq && option != xdr::Option::xmtresp)
		writer_.fail(Error::invalid);
	else if (room.size() < v2::optional_length)
		writer_.fail(Error::no_space);
	items_ = begin_count_();
}

Encoder::Count Encoder::begin_count_()
{
	Count count;

	count.at = writer_.reserve(word_size);
	if (count.at)
		xdr::store_be32(count.at, 0);
	return count;
}

void Encoder::grow_(Count &count)
{
	if (count.at)
		xdr::store_be32(count.at, ++count.value);
}

void Encoder::begin_item_(u32 displacement, u32 length, Type type)
{
	if (in_sets_)
		writer_.fail(Error::invalid);
	grow_(items_);
	writer_.word(displacement);
	writer_.word(length);
	writer_.word(static_cast<u32>(type));
}

void Encoder::put_(Span<const xdr::Segment> segments)
{
	writer_.word(u32(segments.size()));
	for (const xdr::Segment &segment : segments)
		if (u8 *at = writer_.reserve(xdr::segment_size))
			xdr::store_segment(at, segment);
}

void Encoder::segments(u32 displacement, u32 length, Span<const xdr::Segment> segments)
{
	begin_item_(displacement, length, Type::segments);
	put_(segments);
}

void Encoder::written(u32 displacement, u32 length, const xdr::WriteChunk &offered)
{
	begin_item_(displacement, length, Type::segments);
	writer_.word(filled_segments(offered, length));
	for (xdr::Segment segment : offered) {
		if (segment.length == 0)
			continue;
		if (length == 0)
			break;
		segment.length = min(segment.length, length);
		length -= segment.length;
		if (u8 *at = writer_.reserve(xdr::segment_size))
			xdr::store_segment(at, segment);
	}
	if (length != 0)
		writer_.fail(Error::invalid);
}

void Encoder::sent(u32 displacement, u32 length, u32 offset, Span<const u32> numbers)
{
	begin_item_(displacement, length, Type::sent);
	writer_.word(offset);
	writer_.word(u32(numbers.size()));
	for (u32 number : numbers)
		writer_.word(number);
}

void Encoder::unplaced(u32 displacement, u32 length, Type type)
{
	if (type != Type::too_short && type != Type::none)
		writer_.fail(Error::invalid);
	begin_item_(displacement, length, type);
}

void Encoder::set(u32 begin, u32 end)
{
	if (option_ != xdr::Option::xmtreq)
		writer_.fail(Error::invalid);
	if (!in_sets_)
		sets_ = begin_count_();
	in_sets_ = true;
	grow_(sets_);
	writer_.word(begin);
	writer_.word(end);
	places_ = begin_count_();
}

void Encoder::place_sent(u32 least)
{
	if (!in_sets_)
		writer_.fail(Error::invalid);
	grow_(places_);
	writer_.word(least);
	writer_.word(static_cast<u32>(Type::sent));
}

void Encoder::place(u32 least, Type type, Span<const xdr::Segment> segments, u32 most_sent)
{
	if (!in_sets_ || type == Type::sent)
		writer_.fail(Error::invalid);
	grow_(places_);
	writer_.word(least);
	writer_.word(static_cast<u32>(type));
	if (type == Type::by_size)
		writer_.word(most_sent);
	put_(segments);
}

Result<u32> Encoder::finish(u32 transmissions, u32 reply_transmissions, u32 stream_length)
{
	const bool request = option_ == xdr::Option::xmtreq;

	if (request && !in_sets_)
		writer_.word(0);
	writer_.word(transmissions);
	if (request)
		writer_.word(reply_transmissions);
	writer_.word(stream_length);
	if (writer_.error() != Error::none)
		return writer_.error();

	/* What the peer would refuse is not sent. */
	const Bytes optinfo(room_.data() + v2::optional_length, writer_.length());
	Request as_request;
	Response as_response;

	if ((request ? decode(optinfo, as_request) : decode(optinfo, as_response)) != Error::none)
		return Error::invalid;
	return v2::encode_optional(room_, xid_, credits_,
				   request ? xdr::Direction::call : xdr::Direction::reply, option_,
				   optinfo);
}

Result<u32> encode(MutableBytes room, Xid xid, Credits credits, xdr::Direction direction,
		   const Continuation &continuation)
{
	u8 optinfo[3 * word_size];

	xdr::store_be32(optinfo, continuation.number);
	xdr::store_be32(optinfo + word_size, continuation.lead);
	xdr::store_be32(optinfo + 2 * word_size, continuation.stream_length);
	return v2::encode_optional(room, xid, credits, direction, xdr::Option::xmtcont,
				   Bytes(optinfo));
}

namespace {

void put_id(xdr::Writer &writer, const Id &id)
{
	writer.word(id.xid.get());
	writer.word(static_cast<u32>(id.direction));
	writer.word(id.number);
}

} // namespace

Result<u32> encode(MutableBytes room, Credits credits, const Report &report)
{
	u8 optinfo[most_report_length - v2::optional_length];
	xdr::Writer writer{MutableBytes(optinfo)};

	const xdr::Direction about = report.about().direction;

	if (report.detail.fault == Fault::none || report.bad.direction == xdr::Direction::unknown ||
	    about == xdr::Direction::unknown)
		return Error::invalid;
	put_id(writer, report.bad);
	writer.word(report.has_lead);
	if (report.has_lead)
		put_id(writer, report.lead);
	writer.word(static_cast<u32>(report.detail.fault));
	for (u32 n = 0; n < report.detail.count(); n++)
		writer.word(report.detail.words[n]);
	return v2::encode_optional(room, report.bad.xid, credits,
				   about == xdr::Direction::call ? xdr::Direction::reply :
								   xdr::Direction::call,
				   xdr::Option::repterr, Bytes(optinfo).first(writer.length()));
}

} // namespace rpcordma::rtrext
