// SPDX-License-Identifier: GPL-2.0-only
/*
 * Decoding and encoding of property sets. A connection has a handful of them in its life: nothing here has to be fast,
 * and everything is judged, whatever the counts say.
 */
#include "xdr/properties.hh"

namespace rpcordma::properties {

namespace {

using xdr::word_size;

/** XMRSFLAG_DDP. */
constexpr u32 flag_ddp = 1;
/** An xmrbs_group: count, length, alignment, flags. */
constexpr u32 group_size = 16;
/** The length and the count of groups that precede them. */
constexpr u32 structure_size = 8;
/** What buffers that are no pages are aligned to. */
constexpr u32 head_align = 8;

/** One property of a set. */
struct Property {
	u32 id;
	Bytes data;
};

bool next(xdr::Reader &reader, Property &property)
{
	u32 length;

	if (!reader.word(property.id) || !reader.word(length))
		return false;
	/* Only used if it is there. One after the other: their sum could overflow. */
	property.data = Bytes(reader.at(), length);
	return reader.skip(length) && reader.skip(xdr_pad(length));
}

/** Data that is one word, or the default. */
bool one_word(Bytes data, u32 &value)
{
	if (data.empty())
		return true;
	if (data.size() != word_size)
		return false;
	value = xdr::load_be32(data.data());
	return true;
}

/**
 * Judge the groups behind a structure's length. Anything that contradicts itself leaves @structure as it is, none.
 */
void judge(u32 total, Bytes groups, Structure &structure)
{
	Structure found;
	bool uniform = true;
	u64 sum = 0;

	if (groups.size() > usize(most_structure_groups) * group_size)
		return;
	for (; !groups.empty(); groups = groups.from(group_size)) {
		const u32 count = xdr::load_be32(groups.data());
		const u32 length = xdr::load_be32(groups.data() + word_size);
		const bool ddp = xdr::load_be32(groups.data() + 3 * word_size) & flag_ddp;

		/* The sum stays below 2^21, and below 2^64 on the way. */
		sum += u64(count) * length;
		if (count == 0 || length == 0 || u64(count) * length > most_structure_bytes ||
		    sum > most_structure_bytes)
			return;
		if (ddp) {
			if (found.segments && found.segment_length != length)
				uniform = false;
			found.segments += count;
			found.segment_length = length;
		} else if (found.segments) {
			uniform = false;
		}
	}
	if (sum != total)
		return;
	if (!uniform)
		found.segments = found.segment_length = 0;
	found.total = total;
	structure = found;
}

bool decode_structure(Bytes data, Structure &structure)
{
	structure = {};
	if (data.empty())
		return true;
	if (data.size() < structure_size)
		return false;
	const u32 total = xdr::load_be32(data.data());
	const u32 count = xdr::load_be32(data.data() + word_size);
	const Bytes groups = data.from(structure_size);

	if (groups.size() != u64(count) * group_size)
		return false;
	judge(total, groups, structure);
	return true;
}

/** Take @property into @said; false when its data is not of its type. */
bool take(const Property &property, Properties &said)
{
	const Properties defaults;
	u32 value;

	switch (static_cast<Id>(property.id)) {
	case Id::receive_size:
		value = defaults.receive_size;
		if (!one_word(property.data, value))
			return false;
		said.receive_size = max(value, default_receive_size);
		break;
	case Id::backward:
		value = static_cast<u32>(defaults.backward);
		if (!one_word(property.data, value) || value > static_cast<u32>(Backward::general))
			return false;
		said.backward = static_cast<Backward>(value);
		break;
	case Id::extensions:
		value = defaults.extensions;
		if (!one_word(property.data, value))
			return false;
		said.extensions = value;
		break;
	case Id::structure:
		if (!decode_structure(property.data, said.structure))
			return false;
		break;
	case Id::call_limit:
		value = defaults.call_limit;
		if (!one_word(property.data, value))
			return false;
		said.call_limit = max(value, u32(1));
		break;
	case Id::reply_limit:
		value = defaults.reply_limit;
		if (!one_word(property.data, value))
			return false;
		said.reply_limit = max(value, u32(1));
		break;
	default:
		return true;
	}
	said.present |= bit(static_cast<Id>(property.id));
	return true;
}

bool read_subset(xdr::Reader &reader, Subset &subset)
{
	u32 count;

	if (!reader.word(count) || count > reader.left() / word_size)
		return false;
	const usize bytes = usize(count) * word_size;

	subset = Subset(Bytes(reader.at(), bytes));
	return reader.skip(bytes);
}

/** The known properties of the set at the front of @reader, which was decoded, that @subset has. */
u32 ids_of(const Subset &subset, xdr::Reader reader)
{
	u32 count, ids = 0;
	Property property;

	if (reader.word(count))
		for (u32 n = 0; n < count && next(reader, property); n++)
			if (property.id - 1 < known && subset.has(n))
				ids |= bit(static_cast<Id>(property.id));
	return ids;
}

void put(xdr::Writer &writer, Id id, u32 value)
{
	writer.word(static_cast<u32>(id));
	writer.word(word_size);
	writer.word(value);
}

void put_group(xdr::Writer &writer, u32 count, u32 length, u32 align, u32 flags)
{
	writer.word(count);
	writer.word(length);
	writer.word(align);
	writer.word(flags);
}

void put(xdr::Writer &writer, const Structure &structure)
{
	const u32 head = structure.head();
	const u32 groups = (head != 0) + (structure.segments != 0);

	writer.word(static_cast<u32>(Id::structure));
	if (structure.total == 0) {
		writer.word(0);
		return;
	}
	writer.word(structure_size + groups * group_size);
	writer.word(structure.total);
	writer.word(groups);
	if (head)
		put_group(writer, 1, head, head_align, 0);
	if (structure.segments)
		put_group(writer, structure.segments, structure.segment_length,
			  structure.segment_length, flag_ddp);
}

} // namespace

void Properties::apply(const Properties &update, u32 fixed)
{
	const u32 changed = update.present & ~fixed;

	if (changed & bit(Id::receive_size))
		receive_size = update.receive_size;
	if (changed & bit(Id::backward))
		backward = update.backward;
	if (changed & bit(Id::extensions))
		extensions = update.extensions;
	if (changed & bit(Id::structure))
		structure = update.structure;
	if (changed & bit(Id::call_limit))
		call_limit = update.call_limit;
	if (changed & bit(Id::reply_limit))
		reply_limit = update.reply_limit;
	present |= changed;
}

bool skip_set(xdr::Reader &reader, u32 &count)
{
	Property property;

	if (!reader.word(count))
		return false;
	for (u32 n = 0; n < count; n++)
		if (!next(reader, property))
			return false;
	return true;
}

bool skip_subset(xdr::Reader &reader)
{
	Subset subset;

	return read_subset(reader, subset);
}

Error decode_set(xdr::Reader &reader, Properties &said)
{
	Property property;
	u32 count;

	said = {};
	if (!reader.word(count))
		return Error::protocol;
	for (u32 n = 0; n < count; n++)
		if (!next(reader, property) || !take(property, said))
			return Error::protocol;
	return Error::none;
}

Error decode_connprop(Bytes body, Properties &said, u32 &nochange)
{
	xdr::Reader reader(body);
	Subset subset;

	nochange = 0;
	if (const Error error = decode_set(reader, said); error != Error::none)
		return error;
	if (!read_subset(reader, subset))
		return Error::protocol;
	nochange = ids_of(subset, xdr::Reader(body));
	return Error::none;
}

Error decode_updprop(Bytes body, Properties &said)
{
	xdr::Reader reader(body);

	return decode_set(reader, said);
}

Error decode_resprop(Bytes body, Response &response)
{
	xdr::Reader reader(body);

	if (!read_subset(reader, response.done) || !read_subset(reader, response.rejected))
		return Error::protocol;
	return decode_set(reader, response.other);
}

void encode_set(xdr::Writer &writer, const Properties &said)
{
	u32 count = 0;

	for (u32 left = said.present & all; left != 0; left &= left - 1)
		count++;
	writer.word(count);
	if (said.has(Id::receive_size))
		put(writer, Id::receive_size, said.receive_size);
	if (said.has(Id::backward))
		put(writer, Id::backward, static_cast<u32>(said.backward));
	if (said.has(Id::extensions))
		put(writer, Id::extensions, said.extensions);
	if (said.has(Id::structure))
		put(writer, said.structure);
	if (said.has(Id::call_limit))
		put(writer, Id::call_limit, said.call_limit);
	if (said.has(Id::reply_limit))
		put(writer, Id::reply_limit, said.reply_limit);
}

u32 subset_of(const Properties &said, u32 ids)
{
	u32 subset = 0, n = 0;

	for (u32 id = 0; id < known; id++) {
		if (!(said.present >> id & 1))
			continue;
		subset |= (ids >> id & 1) << n;
		n++;
	}
	return subset;
}

} // namespace rpcordma::properties
