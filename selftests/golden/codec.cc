// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the project's xdr/ makes of the golden messages, with what module/ has for groups and placed items, against what
 * their files say:
 *
 *	codec FILE...
 *
 * Of each message: is every field that xdr/ decodes the file's, does xdr/ judge it as the file does, and is it
 * encoded to the same bytes? A line "ok - NAME" or "not ok - NAME: why" for each. What xdr/ does not decide or make is
 * not compared: then "# N ASPECT: why". What the fields mean is written down here once more, from the texts, and is not
 * taken from xdr/.
 */
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "module/chunk/placement.hh"
#include "module/protocol/groups.hh"
#include "xdr/private_data.hh"
#include "xdr/rtrext.hh"
#include "xdr/v1.hh"
#include "xdr/v2.hh"

using namespace rpcordma;
using std::string;
using std::to_string;
using xdr::Direction;
using xdr::Kind;

namespace {

/* --- the files --- */

struct Field {
	string name;
	u64 value;
};

struct Golden {
	std::map<string, string> said; /* by key */
	std::vector<u8> data;
	std::vector<Field> fields;

	string word(const string &key) const
	{
		const auto found = said.find(key);
		return found == said.end() ? "" : found->second;
	}
	bool has(const string &name) const
	{
		for (const Field &field : fields)
			if (field.name == name)
				return true;
		return false;
	}
	/** The first field of this name, or 0. */
	u64 value(const string &name) const
	{
		for (const Field &field : fields)
			if (field.name == name)
				return field.value;
		return 0;
	}
};

/** Reads a file as README.rst has it; golden.py has judged its form. Conversations are passed over. */
void read_file(const char *path, std::vector<Golden> &messages)
{
	std::ifstream file(path);
	string line, inside;
	bool conversation = false;

	if (!file) {
		fprintf(stderr, "%s cannot be read\n", path);
		exit(1);
	}
	while (std::getline(file, line)) {
		if (line.empty() || line[0] == '#')
			continue;
		if (line[0] != '\t') {
			const auto colon = line.find(':');
			const auto value = line.find_first_not_of(' ', colon + 1);
			inside = line.substr(0, colon);
			if (inside == "name" || inside == "sequence")
				conversation = inside == "sequence";
			if (inside == "name")
				messages.emplace_back();
			if (!conversation)
				messages.back().said[inside] =
					value == string::npos ? "" : line.substr(value);
		} else if (inside == "fields") {
			const auto equals = line.find('=');
			messages.back().fields.push_back(
				{line.substr(1, equals - 1),
				 std::stoull(line.substr(equals + 1), nullptr, 0)});
		} else if (inside == "bytes") {
			const auto blank = line.find(' ');
			std::vector<u8> &data = messages.back().data;
			const unsigned long times = line.compare(blank, 3, " x ") == 0 ?
							    std::stoul(line.substr(blank + 3)) :
							    1;
			for (unsigned long n = 0; n < times; n++)
				for (usize at = 1; at < blank; at += 2)
					data.push_back(
						u8(std::stoul(line.substr(at, 2), nullptr, 16)));
		}
	}
}

/** Bytes of exactly their own size, so that ASan sees who reads or writes behind them. */
class Room {
public:
	explicit Room(usize size) : bytes_(new u8[size]()), size_(size)
	{
	}
	explicit Room(const std::vector<u8> &from) : Room(from.size())
	{
		for (usize i = 0; i < size_; i++)
			bytes_[i] = from[i];
	}
	MutableBytes all()
	{
		return {bytes_.get(), size_};
	}
	Bytes bytes() const
	{
		return {bytes_.get(), size_};
	}

private:
	std::unique_ptr<u8[]> bytes_;
	usize size_;
};

/* --- what is said of a message --- */

/** Of what is not compared, how many messages; the first that was wrong with this one. */
std::map<string, unsigned int> apart;
string wrong;

void fail(const string &why)
{
	if (wrong.empty())
		wrong = why;
}

void leave(const string &why)
{
	apart[why]++;
}

void same(const string &what, u64 file, u64 ours)
{
	if (file != ours)
		fail(what + " is " + to_string(file) + " in the file, and " + to_string(ours) +
		     " for xdr/");
}

/** What xdr/ makes of rdma_optinfo. */
struct Inside {
	Error error = Error::none;
	rtrext::Request request;
	rtrext::Response response;
	rtrext::Continuation continuation;
	rtrext::Report report;

	void decode(xdr::Option option, Bytes optinfo)
	{
		switch (option) {
		case xdr::Option::xmtreq:
			error = rtrext::decode(optinfo, request);
			break;
		case xdr::Option::xmtresp:
			error = rtrext::decode(optinfo, response);
			break;
		case xdr::Option::xmtcont:
			error = rtrext::decode(optinfo, continuation);
			break;
		default:
			error = rtrext::decode(optinfo, report);
		}
	}
};

/** A message, and what xdr/'s decoder made of it. */
struct Decoded {
	const Golden &golden;
	Room room;
	bool version_1;
	Error error = Error::none;
	xdr::Message message;
	Inside inside; /* of Kind::optional */

	explicit Decoded(const Golden &of) : golden(of), room(of.data)
	{
		const string given = of.word("given");
		/* Before it is known which version is spoken, a message's own decides. */
		version_1 = given == "V1" ||
			    (given == "UNSET" && of.value("version") == v1::version);
		error = version_1 ? v1::decode(room.bytes(), message) :
				    v2::decode(room.bytes(), message);
		if (error == Error::none && message.kind == Kind::optional)
			inside.decode(message.option, message.body());
	}
	bool is(Kind kind) const
	{
		return message.kind == kind;
	}
};

/* --- properties --- */

/** A property set as the file's fields have it, read by the texts' rules. */
struct Told {
	properties::Properties said;
	std::vector<u64> ids, subset[2];
	string odd; /* why xdr/ would not write it like that */

	void strange(const char *why)
	{
		if (odd.empty())
			odd = why;
	}
};

class Cursor {
public:
	Cursor(const Golden &golden, usize at) : fields_(golden.fields), at_(at)
	{
	}
	bool at(const string &name) const
	{
		return at_ < fields_.size() && fields_[at_].name == name;
	}
	u64 take(const string &name)
	{
		if (!at(name)) {
			fail("its fields have no " + name + " where one is to be");
			return 0;
		}
		return fields_[at_++].value;
	}
	bool ended() const
	{
		return at_ == fields_.size();
	}

private:
	const std::vector<Field> &fields_;
	usize at_;
};

/** RBSTRUCT: one that contradicts itself or is out of bounds is as if it were absent. */
properties::Structure structure(Cursor &cursor, Told &told)
{
	const u64 total = cursor.take("rbstruct_length");
	const u64 groups = cursor.take("rbgroup_count");
	properties::Structure found;
	bool absent = groups > 64 || total == 0 || total > 1 << 20, placed = true;
	u64 sum = 0;

	for (u64 n = 0; n < groups; n++) {
		const u64 count = cursor.take("rbgroup_segments"),
			  length = cursor.take("rbseg_length");
		const u64 align = cursor.take("rbseg_align"), flags = cursor.take("rbseg_flags");

		sum += count * length;
		absent |= count == 0 || length == 0;
		if (flags & 1) {
			placed &= found.segments == 0 || found.segment_length == length;
			found.segments += u32(count);
			found.segment_length = u32(length);
		} else if (found.segments != 0) {
			placed = false;
		}
		if ((flags & 1 ? align != length || flags != 1 : align != 8 || flags || count != 1) ||
		    n > 1)
			told.strange("a structure of another form");
	}
	if (absent || sum != total) {
		told.strange("a structure that counts as none");
		return {};
	}
	if (!placed)
		found.segments = found.segment_length = 0;
	found.total = u32(total);
	return found;
}

/** A value as it counts: @least is taken for less. */
u32 at_least(u64 value, u32 least, Told &told)
{
	if (value < least)
		told.strange("a value that counts as another");
	return value < least ? least : u32(value);
}

void set(Cursor &cursor, Told &told)
{
	const properties::Properties defaults;
	properties::Properties &said = told.said;
	const u64 count = cursor.take("prop_count");

	for (u64 n = 0; n < count; n++) {
		const u64 id = cursor.take("prop_id");
		const bool empty = cursor.take("prop_length") == 0;

		if (id < 1 || id > 6)
			told.strange("an unknown property");
		else if (!told.ids.empty() && id <= told.ids.back())
			told.strange("a property again, or in another order");
		else if (empty && id != 4)
			told.strange("a default as no data");
		told.ids.push_back(id);
		if (id == 1)
			said.receive_size = empty ? 4096 :
						    at_least(cursor.take("rbsiz"), 4096, told);
		else if (id == 2)
			said.backward =
				static_cast<properties::Backward>(empty ? 1 : cursor.take("brs"));
		else if (id == 3)
			said.extensions = empty ? 0 : u32(cursor.take("rtrsupp"));
		else if (id == 4)
			said.structure = empty ? defaults.structure : structure(cursor, told);
		else if (id == 5)
			said.call_limit = empty ? 1 : at_least(cursor.take("reqrxlim"), 1, told);
		else if (id == 6)
			said.reply_limit = empty ? 1 : at_least(cursor.take("respsxlim"), 1, told);
		if (id >= 1 && id <= 6)
			said.present |= 1u << (id - 1);
	}
}

void subset(Cursor &cursor, const string &name, std::vector<u64> &words)
{
	const u64 count = cursor.take(name + "_count");

	for (u64 n = 0; n < count; n++)
		words.push_back(cursor.take(name));
}

Told told_by(const Decoded &one)
{
	const Golden &golden = one.golden;
	const Kind kind = one.message.kind;
	Cursor cursor(golden, 4);
	Told told;

	if (kind == Kind::resprop) {
		subset(cursor, "done", told.subset[0]);
		subset(cursor, "rejected", told.subset[1]);
	}
	set(cursor, told);
	if (kind == Kind::connprop) {
		subset(cursor, "nochg", told.subset[0]);
		if (told.subset[0].size() != 1 || told.subset[0][0] >> told.ids.size())
			told.strange("an rdma_nochg that is not one word for what is there");
	}
	same("rest_length", cursor.at("rest_length") ? cursor.take("rest_length") : 0,
	     golden.data.size() - one.message.header_length);
	if (!cursor.ended())
		fail("more fields than a set has");
	return told;
}

/** Bit @n of a subset's words. */
bool bit_of(const std::vector<u64> &words, usize n)
{
	return n / 32 < words.size() && (words[n / 32] >> (n % 32) & 1);
}

Error decode_body(const xdr::Message &message, properties::Properties &said, u32 &nochange,
		  properties::Response &response)
{
	Error error;

	if (message.kind == Kind::connprop)
		return properties::decode_connprop(message.body(), said, nochange);
	if (message.kind != Kind::resprop)
		return properties::decode_updprop(message.body(), said);
	error = properties::decode_resprop(message.body(), response);
	said = response.other;
	return error;
}

bool of_properties(const xdr::Message &message)
{
	return message.kind >= Kind::connprop;
}

void compare_properties(const Decoded &one)
{
	const Told told = told_by(one);
	properties::Properties said;
	properties::Response response;
	u32 nochange = 0, kept = 0;

	if (decode_body(one.message, said, nochange, response) != Error::none) {
		fail("its properties do not decode");
		return;
	}
	same("the set of properties", told.said.present, said.present);
	same("rbsiz", told.said.receive_size, said.receive_size);
	same("brs", u64(told.said.backward), u64(said.backward));
	same("rtrsupp", told.said.extensions, said.extensions);
	same("the structure's length", told.said.structure.total, said.structure.total);
	same("the structure's DDP segments", told.said.structure.segments, said.structure.segments);
	same("their length", told.said.structure.segment_length, said.structure.segment_length);
	same("reqrxlim", told.said.call_limit, said.call_limit);
	same("respsxlim", told.said.reply_limit, said.reply_limit);
	if (one.golden.has("rbseg_align"))
		leave("fields: xdr/ makes nothing of rbseg_align");
	if (one.is(Kind::connprop)) {
		for (usize n = 0; n < told.ids.size(); n++)
			if (told.ids[n] - 1 < 6 && bit_of(told.subset[0], n))
				kept |= 1u << (told.ids[n] - 1);
		same("nochg", kept, nochange);
	}
	for (u32 n = 0; one.is(Kind::resprop) && n < 96; n++) {
		same("a bit of done", bit_of(told.subset[0], n), response.done.has(n));
		same("a bit of rejected", bit_of(told.subset[1], n), response.rejected.has(n));
	}
}

/* --- fields --- */

void add(std::vector<Field> &fields, const xdr::Segment &segment)
{
	fields.push_back({"rdma_handle", segment.handle.get()});
	fields.push_back({"rdma_length", segment.length});
	fields.push_back({"rdma_offset", segment.offset});
}

void add(std::vector<Field> &fields, const xdr::WriteChunk &chunk)
{
	fields.push_back({"segment_count", chunk.count()});
	for (const xdr::Segment segment : chunk)
		add(fields, segment);
}

void add(std::vector<Field> &fields, const rtrext::Items &items)
{
	fields.push_back({"ddp_count", items.count()});
	for (const rtrext::Item &item : items) {
		fields.push_back({"item_disp", item.displacement});
		fields.push_back({"item_length", item.length});
		fields.push_back({"item_type", u64(item.type)});
		if (item.type == rtrext::Type::segments) {
			add(fields, item.segments);
		} else if (item.type == rtrext::Type::sent) {
			fields.push_back({"tbsn_offset", item.offset});
			fields.push_back({"tbsn_count", item.numbers.count()});
			for (u32 n = 0; n < item.numbers.count(); n++)
				fields.push_back({"tbsn", item.numbers[n]});
		}
	}
}

void add(std::vector<Field> &fields, const rtrext::Sets &sets)
{
	fields.push_back({"rsd_count", sets.count()});
	for (const rtrext::Set &set : sets) {
		fields.push_back({"rsd_begin", set.begin});
		fields.push_back({"rsd_end", set.end});
		fields.push_back({"rsditem_count", set.places.count()});
		for (const rtrext::Place &place : set.places) {
			fields.push_back({"rsditem_minlen", place.least});
			fields.push_back({"rsditem_type", u64(place.type)});
			if (place.type == rtrext::Type::by_size)
				fields.push_back({"rsditem_dsdov", place.most_sent});
			if (place.type != rtrext::Type::sent)
				add(fields, place.segments);
		}
	}
}

void add(std::vector<Field> &fields, const char *which, const rtrext::Id &id)
{
	fields.push_back({string(which) + "_xid", id.xid.get()});
	fields.push_back({string(which) + "_dir", u64(id.direction)});
	fields.push_back({string(which) + "_seq", id.number});
}

void add(std::vector<Field> &fields, const rtrext::Report &report)
{
	const rtrext::Detail &detail = report.detail;
	const u64 which = u64(detail.fault);

	add(fields, "bad", report.bad);
	fields.push_back({"lead_present", report.has_lead});
	if (report.has_lead)
		add(fields, "lead", report.lead);
	fields.push_back({"err_which", which});
	if (which == 3)
		return;
	fields.push_back({which < 6 ? "err_expect" : "err_value", detail.words[0]});
	fields.push_back({which < 6 ? "err_current" : "err_min", detail.words[1]});
	if (which >= 6)
		fields.push_back({"err_max", detail.words[2]});
}

/** What is inside rdma_optinfo, if that decodes. */
void add_inside(std::vector<Field> &fields, const Decoded &one)
{
	const Inside &inside = one.inside;
	u64 stream = 0;

	if (inside.error != Error::none)
		return;
	switch (one.message.option) {
	case xdr::Option::xmtreq:
		add(fields, inside.request.items);
		add(fields, inside.request.sets);
		fields.push_back({"group_count", inside.request.transmissions});
		fields.push_back({"rsbuf", inside.request.reply_transmissions});
		stream = inside.request.stream_length;
		break;
	case xdr::Option::xmtresp:
		add(fields, inside.response.items);
		fields.push_back({"group_count", inside.response.transmissions});
		stream = inside.response.stream_length;
		break;
	case xdr::Option::xmtcont:
		fields.push_back({"xnum", inside.continuation.number});
		fields.push_back({"itype", inside.continuation.lead});
		stream = inside.continuation.stream_length;
		break;
	default:
		return add(fields, inside.report);
	}
	fields.push_back({"pslen", stream});
}

/** What xdr/ has of a message that it decodes, as the file would say it. */
std::vector<Field> fields_of(const Decoded &one)
{
	const xdr::Message &m = one.message;
	std::vector<Field> fields = {{"xid", m.xid.get()},
				     {"version", m.version},
				     {"flow_control", m.credits.get()},
				     {"msg_type", u64(m.kind)}};
	const u64 rest = one.golden.data.size() - m.header_length - m.payload.size();

	if (m.kind == Kind::error) {
		const char *first = "segment_index", *second = "length_needed";
		if (m.error.code == xdr::ErrorCode::version) {
			first = "vers_low";
			second = "vers_high";
		}
		fields.push_back({"errcode", u64(m.error.code) + 1});
		if (m.header_length > v2::error_length) {
			fields.push_back({first, m.error.low});
			fields.push_back({second, m.error.high});
		}
	} else if (m.kind == Kind::optional) {
		fields.push_back({"optdir", u64(m.direction)});
		fields.push_back({"opttype", u64(m.option)});
		fields.push_back({"optinfo_length", m.body().size()});
		add_inside(fields, one);
	} else if (!of_properties(m)) {
		if (!one.version_1) {
			fields.push_back({"direction", u64(m.direction)});
			fields.push_back({"inv_handle", m.invalidate.get()});
			for (const xdr::ReadSegment segment : m.reads) {
				fields.push_back({"position", segment.position.get()});
				add(fields, segment.target);
			}
			fields.push_back({"reads_count", m.reads.count()});
			for (const xdr::WriteChunk chunk : m.writes)
				add(fields, chunk);
			fields.push_back({"writes_count", m.writes.count()});
			fields.push_back({"reply_count", m.reply.present()});
			if (m.reply.present())
				add(fields, m.reply);
		}
		if (m.kind == Kind::msg)
			fields.push_back({"payload_length", m.payload.size()});
	}
	if (rest != 0 && !of_properties(m))
		fields.push_back({"rest_length", rest});
	return fields;
}

void compare_private(const Golden &golden)
{
	const Room room(golden.data);
	const auto found = private_data::parse(room.bytes());

	if (bool(found) != golden.has("private_version")) {
		fail("RFC 8797's message is there, or is not");
		return;
	}
	if (!found)
		return;
	same("private_flags", golden.value("private_flags") & 1, found.value().remote_invalidation);
	same("private_send", golden.value("private_send"), found.value().send_size);
	same("private_receive", golden.value("private_receive"), found.value().receive_size);
}

/** A refused message: what decode() says is found before that. */
void compare_refused(const Decoded &one)
{
	const Golden &golden = one.golden;
	const auto fixed = xdr::peek(one.room.bytes());
	const u64 proc = golden.value("msg_type");

	if (bool(fixed) != (golden.word("kind") != "short")) {
		fail("16 bytes are there, or are not");
		return;
	}
	if (!fixed)
		return;
	same("xid", golden.value("xid"), fixed.value().xid.get());
	same("version", golden.value("version"), fixed.value().vers);
	same("flow_control", golden.value("flow_control"), fixed.value().credits.get());
	same("msg_type", proc, fixed.value().proc);
	if (golden.fields.size() > 4)
		leave("fields: of what decode() refuses only xid, version, credits, kind, and "
		      "direction are there");
	if (one.version_1)
		return;
	same("decoded xid", golden.value("xid"), one.message.xid.get());
	same("decoded version", golden.value("version"), one.message.version);
	same("decoded credits", golden.value("flow_control"), one.message.credits.get());
	if (one.error == Error::no_protocol || one.error == Error::not_supported)
		return;
	same("decoded kind", proc, u64(one.message.kind));
	for (const char *name : {"direction", "optdir"})
		if (golden.has(name))
			same(name, min<u64>(golden.value(name), 2), u64(one.message.direction));
	if (proc >= 6)
		same("direction", proc == 8, u64(one.message.direction));
}

void compare(const Decoded &one)
{
	const Golden &golden = one.golden;
	const std::vector<Field> ours = fields_of(one);
	usize i = 0;

	if (of_properties(one.message)) {
		/* A property that does not decode is judged, and not read. */
		if (golden.word("xdr") == "good")
			compare_properties(one);
		else
			leave("fields: properties that do not decode are not there at all");
		for (; i < 4; i++)
			same(golden.fields[i].name, golden.fields[i].value, ours[i].value);
		return;
	}
	for (; i < ours.size(); i++) {
		if (i >= golden.fields.size() || ours[i].name != golden.fields[i].name)
			fail("no " + ours[i].name + " in the file, where xdr/ has it");
		else
			same(ours[i].name, golden.fields[i].value, ours[i].value);
		if (!wrong.empty())
			return;
	}
	if (one.is(Kind::optional)) {
		if (golden.word("xdr") == "good")
			same("what follows the header",
			     golden.value("payload_length") + golden.value("rest_length"),
			     one.message.payload.size());
		if (one.inside.error != Error::none)
			leave("fields: of optinfo that does not decode nothing is there");
		/* The stream is the first bytes of what follows; an edge of the message ends it. */
		else if (golden.has("pslen"))
			same("payload_length", golden.value("payload_length"),
			     min<u64>(golden.value("pslen"), one.message.payload.size()));
	} else if (i != golden.fields.size()) {
		fail(golden.fields[i].name + " in the file, and nothing of xdr/");
	}
}

/* --- judgement --- */

/** Where a text is open, and xdr/ reads it the other way than the file. */
const std::map<string, string> other_readings = {
	{"private-mark-zeros", "no mark"}, /* the three bytes are a part of the mark */
};

/** What a server says of its REQRXLIM in these messages. */
constexpr u32 most_transmissions = 4;

string reported(rtrext::Fault fault)
{
	static const char *const names[] = {"",	      "BADHMT", "BADOMT",  "BADCONT", "BADSEQ",
					    "BADXID", "BADOFF", "BADTBSN", "BADPL"};

	return string("REPTERR ") + names[u32(fault)];
}

/** What the receiver of a message told of its Receives, as README.rst has it. */
properties::Structure room_of(const Golden &golden)
{
	const string given = golden.word("given");

	return given == "grown" || given.find("updprop-grown") != string::npos ?
		       properties::Structure{20480, 4, 4096} :
		       properties::Structure{4096, 0, 0};
}

/** Where the items of a message of one transmission are. */
rtrext::Verdict placed(const Decoded &one, const rtrext::Items &items, u32 stream)
{
	const chunk::TransmissionLengths lengths[] = {
		{one.message.header_length, stream, u32(one.golden.data.size())}};

	return chunk::judge_placement(room_of(one.golden), lengths, items);
}

string judged_inside(const Decoded &one)
{
	const Inside &inside = one.inside;
	const bool reply = one.message.direction == Direction::reply;
	const u32 behind = u32(one.message.payload.size());
	rtrext::Verdict verdict;

	if (inside.error != Error::none)
		return reply ? "drop" : "BAD_XDR";
	switch (one.message.option) {
	case xdr::Option::xmtreq:
		verdict = rtrext::judge(one.message, inside.request, behind, most_transmissions);
		if (verdict.good() && inside.request.transmissions == 1)
			verdict = placed(one, inside.request.items, inside.request.stream_length);
		break;
	case xdr::Option::xmtresp:
		verdict = rtrext::judge(one.message, inside.response, behind);
		if (verdict.good() && inside.response.transmissions == 1)
			verdict = placed(one, inside.response.items, inside.response.stream_length);
		break;
	case xdr::Option::xmtcont:
		verdict = rtrext::judge_stream(inside.continuation.stream_length, behind);
		break;
	default:
		break;
	}
	if (verdict.good())
		return "good";
	if (verdict.how == rtrext::Verdict::How::report)
		return reported(verdict.detail.fault);
	return reply ? "EIO" : verdict.code == xdr::ErrorCode::system ? "SYSTEM" : "BAD_XDR";
}

protocol::Transmission transmission(const Decoded &one)
{
	const Inside &inside = one.inside;
	const u64 lead = inside.continuation.lead;

	return {one.message.kind,
		one.message.option,
		one.message.xid,
		one.message.option == xdr::Option::xmtreq ? inside.request.transmissions :
							    inside.response.transmissions,
		inside.continuation.number,
		lead <= 4 ? static_cast<xdr::Option>(lead) : xdr::Option::none};
}

/** What came before @golden. */
std::vector<const Golden *> before(const Golden &golden, const std::vector<Golden> &messages)
{
	const string given = golden.word("given");
	std::vector<const Golden *> found;

	if (given.compare(0, 6, "after:") != 0)
		return found;
	for (usize at = 6; at < given.size();) {
		const usize end = min(given.find(',', at), given.size());
		const usize had = found.size();

		for (const Golden &other : messages)
			if (other.word("name") == given.substr(at, end - at))
				found.push_back(&other);
		if (found.size() != had + 1)
			fail("what came before it is not there");
		at = end + 1;
	}
	return found;
}

/** The length of its part of a group's stream. */
u32 stream_length(const Decoded &one)
{
	const Inside &inside = one.inside;

	return one.message.option == xdr::Option::xmtreq  ? inside.request.stream_length :
	       one.message.option == xdr::Option::xmtresp ? inside.response.stream_length :
							    inside.continuation.stream_length;
}

/** A group that is whole with its last transmission, all of which are @parts: where its items are. */
string judged_whole(const Golden &last, const std::vector<const Golden *> &parts)
{
	const Decoded lead(*parts.front());
	const rtrext::Items &items = lead.message.option == xdr::Option::xmtreq ?
					     lead.inside.request.items :
					     lead.inside.response.items;
	std::vector<chunk::TransmissionLengths> lengths;
	u64 stream = 0;

	for (const Golden *golden : parts) {
		const Decoded part(*golden);

		lengths.push_back({part.message.header_length, stream_length(part),
				   u32(golden->data.size())});
		stream += stream_length(part);
	}
	rtrext::Verdict verdict = rtrext::judge_whole(items, stream);
	if (verdict.good())
		verdict = chunk::judge_placement(room_of(last), {lengths.data(), lengths.size()},
						 items);
	return verdict.good() ? "" : reported(verdict.detail.fault);
}

/**
 * A group is open, or is not, by what came before, and is whole, or is not: what is wrong with that, if anything. What is
 * wrong with @one itself is judged elsewhere.
 */
string judged_in_group(const Decoded &one, const std::vector<Golden> &messages)
{
	protocol::Collector collector;
	std::vector<const Golden *> parts;

	for (const Golden *golden : before(one.golden, messages)) {
		const auto step = collector.take(transmission(Decoded(*golden)));

		if (step.fault != rtrext::Fault::none)
			fail("what came before it is no good");
		if (step.what == protocol::Collector::What::part)
			parts.push_back(golden);
	}
	const auto step = collector.take(transmission(one));
	if (step.fault != rtrext::Fault::none)
		return reported(step.fault);
	if (step.what != protocol::Collector::What::last || judged_inside(one) != "good")
		return "";
	parts.push_back(&one.golden);
	return judged_whole(one.golden, parts);
}

string judged(const Decoded &one, const std::vector<Golden> &messages)
{
	Error error = one.error;
	properties::Properties said;
	properties::Response response;
	u32 nochange;

	if (error == Error::none && !one.version_1 && of_properties(one.message) &&
	    decode_body(one.message, said, nochange, response) != Error::none)
		error = one.is(Kind::resprop) ? Error::bad_message : Error::protocol;
	/* What precedes the arguments of a call is rpc.hh's. */
	if (error == Error::none && one.is(Kind::msg) && one.message.direction == Direction::call) {
		const auto preface = rpc::call_preface(one.message.payload);

		if (!preface)
			error = Error::protocol;
		for (const xdr::ReadSegment segment : one.message.reads)
			if (preface && segment.position.get() < preface.value())
				error = Error::protocol;
	}
	if (error == Error::none && !one.version_1)
		if (const string in_group = judged_in_group(one, messages); !in_group.empty())
			return in_group;
	if (error == Error::none && one.is(Kind::optional))
		return judged_inside(one);
	if (error == Error::none)
		return "good";
	if (error == Error::message_size || error == Error::bad_message)
		return "drop";
	/* xdr/ has it as a call, and does not know who receives it. */
	if (one.is(Kind::connprop) && one.golden.word("to") == "client") {
		leave("judgement: that a server's CONNPROP is a reply is known to its receiver");
		return "drop";
	}
	switch (v2::refusal(error)) {
	case xdr::ErrorCode::version:
		leave("judgement: the range of versions is the connection's");
		return "ERR_VERS";
	case xdr::ErrorCode::procedure:
		return "INVAL_PROC";
	case xdr::ErrorCode::option:
		return "INVAL_OPTION";
	case xdr::ErrorCode::chunk:
		return "BAD_XDR";
	default:
		return "another error";
	}
}

string judged_private(const Golden &golden)
{
	const Room room(golden.data);
	const auto found = private_data::parse(room.bytes());

	return found && found.value().mark ? "mark" : "no mark";
}

void compare_judgement(const Golden &golden, const string &ours)
{
	const string given = golden.word("given");
	const auto other = other_readings.find(golden.word("name"));
	string theirs = golden.word("judgement");

	if (theirs != "no mark" && theirs.compare(0, 8, "REPTERR ") != 0)
		theirs = theirs.substr(0, theirs.find(' '));
	if (other != other_readings.end()) {
		if (golden.word("open").empty() || theirs == other->second || ours != other->second)
			fail("another reading of an open text is listed: the file " + theirs +
			     ", xdr/ " + ours);
		leave("judgement: a text is open, and xdr/ reads it the other way: " +
		      golden.word("name"));
	} else if (theirs == ours) {
		return;
	} else if (ours == "good" && given == "state") {
		leave("judgement: it needs the receiver's state");
	} else {
		fail("judged " + theirs + " by the file, and " + ours + " by xdr/");
	}
}

/* --- encoding --- */

/** Calls encode(room) with as much room as there has to be, and with a byte less; is it what stands at @bytes? */
template <typename Encode> void encodes(Bytes bytes, const char *what, const Encode &encode)
{
	Room room(bytes.size());
	const Result<u32> length = encode(room.all());

	if (!length) {
		fail(string(what) + " is not encoded: error " +
		     to_string(static_cast<int>(length.error())));
		return;
	}
	same(string("the length of ") + what + ", encoded", bytes.size(), length.value());
	for (usize i = 0; i < min<usize>(bytes.size(), length.value()); i++)
		same(string(what) + ", encoded, byte " + to_string(i), bytes[i], room.bytes()[i]);
	Room tight(bytes.size() - 1);
	const Result<u32> none = encode(tight.all());
	if (none || none.error() != Error::no_space)
		fail(string(what) + " is encoded into a byte less than it has");
}

/** @returned: chunks as a responder returns them, all of them written to. */
Result<u32> encode_chunks(MutableBytes room, const xdr::Message &m, bool returned)
{
	v2::Encoder encoder(room, m.xid, m.credits, m.kind, m.direction, m.invalidate);

	for (const xdr::ReadSegment segment : m.reads)
		encoder.read_segment(segment.position, segment.target);
	for (const xdr::WriteChunk chunk : m.writes) {
		if (returned) {
			encoder.write_chunk(chunk, chunk.length());
			continue;
		}
		encoder.write_chunk(chunk.count());
		for (const xdr::Segment segment : chunk)
			encoder.segment(segment);
	}
	if (m.reply.present() && returned) {
		encoder.reply_chunk(m.reply, m.reply.length());
	} else if (m.reply.present()) {
		encoder.reply_chunk(m.reply.count());
		for (const xdr::Segment segment : m.reply)
			encoder.segment(segment);
	}
	return encoder.finish();
}

/** The REQPROP that @resprop answers by rejecting all of it, or null. */
const Golden *rejected_by(const Golden &resprop, const std::vector<Golden> &messages)
{
	if (resprop.value("done_count") != 0 || resprop.value("prop_count") != 0)
		return nullptr;
	for (const Golden &other : messages)
		if (other.value("msg_type") == 7 && other.word("judgement") == "good" &&
		    other.value("xid") == resprop.value("xid"))
			return &other;
	return nullptr;
}

void encode_properties(const Decoded &one, Bytes header, const std::vector<Golden> &messages)
{
	const xdr::Message &m = one.message;
	properties::Properties said;
	properties::Response response;
	u32 nochange = 0;

	if (m.kind == Kind::reqprop) {
		leave("encoding: xdr/ makes no REQPROP");
		return;
	}
	if (m.kind == Kind::resprop) {
		const Golden *request = rejected_by(one.golden, messages);
		if (!request) {
			leave("encoding: xdr/ makes a RESPROP only of a REQPROP all of which it "
			      "rejects");
			return;
		}
		const Decoded asked(*request);
		encodes(header, "the RESPROP", [&](MutableBytes room) {
			return v2::encode_resprop(room, asked.message, m.credits);
		});
		return;
	}
	if (decode_body(m, said, nochange, response) != Error::none) {
		leave("encoding: it does not decode");
		return;
	}
	const string odd = told_by(one).odd;
	if (!odd.empty()) {
		leave("encoding: xdr/ writes no such set: " + odd);
		return;
	}
	encodes(header, "the set", [&](MutableBytes room) {
		return m.kind == Kind::connprop ?
			       v2::encode_connprop(room, m.xid, m.credits, said, nochange) :
			       v2::encode_updprop(room, m.xid, m.credits, said);
	});
}

void put(rtrext::Encoder &encoder, const rtrext::Items &items)
{
	for (const rtrext::Item &item : items) {
		std::vector<xdr::Segment> segments;
		std::vector<u32> numbers;

		for (const xdr::Segment segment : item.segments)
			segments.push_back(segment);
		for (u32 n = 0; n < item.numbers.count(); n++)
			numbers.push_back(item.numbers[n]);
		if (item.type == rtrext::Type::segments)
			encoder.segments(item.displacement, item.length,
					 {segments.data(), segments.size()});
		else if (item.type == rtrext::Type::sent)
			encoder.sent(item.displacement, item.length, item.offset,
				     {numbers.data(), numbers.size()});
		else
			encoder.unplaced(item.displacement, item.length, item.type);
	}
}

Result<u32> encode_inside(MutableBytes room, const Decoded &one)
{
	const xdr::Message &m = one.message;
	const Inside &inside = one.inside;
	rtrext::Encoder encoder(room, m.xid, m.credits, m.option);

	switch (m.option) {
	case xdr::Option::xmtreq:
		put(encoder, inside.request.items);
		for (const rtrext::Set &set : inside.request.sets) {
			encoder.set(set.begin, set.end);
			for (const rtrext::Place &place : set.places) {
				std::vector<xdr::Segment> segments;

				for (const xdr::Segment segment : place.segments)
					segments.push_back(segment);
				if (place.type == rtrext::Type::sent)
					encoder.place_sent(place.least);
				else
					encoder.place(place.least, place.type,
						      {segments.data(), segments.size()},
						      place.most_sent);
			}
		}
		return encoder.finish(inside.request.transmissions,
				      inside.request.reply_transmissions,
				      inside.request.stream_length);
	case xdr::Option::xmtresp:
		put(encoder, inside.response.items);
		return encoder.finish(inside.response.transmissions, 0,
				      inside.response.stream_length);
	case xdr::Option::xmtcont:
		return rtrext::encode(room, m.xid, m.credits, m.direction, inside.continuation);
	default:
		return rtrext::encode(room, m.credits, inside.report);
	}
}

void compare_encoded(const Decoded &one, const std::vector<Golden> &messages)
{
	const xdr::Message &m = one.message;
	const Bytes header = one.room.bytes().first(m.header_length);

	if (one.error != Error::none) {
		leave("encoding: it does not decode");
	} else if (one.version_1) {
		encodes(header, "the header of version 1",
			[&](MutableBytes room) { return v1::encode_bare(room, m.xid, m.credits); });
	} else if (m.kind == Kind::error) {
		encodes(header, "the ERROR", [&](MutableBytes room) {
			return v2::encode_error(room, {m.xid, m.version, Credits(1), u32(m.kind)},
						m.credits, m.error);
		});
	} else if (m.kind == Kind::optional) {
		encodes(header, "the outer form", [&](MutableBytes room) {
			return v2::encode_optional(room, m.xid, m.credits, m.direction, m.option,
						   m.body());
		});
		if (one.inside.error == Error::none)
			encodes(header, "the whole",
				[&](MutableBytes room) { return encode_inside(room, one); });
	} else if (of_properties(m)) {
		encode_properties(one, header, messages);
	} else {
		encodes(header, "the header",
			[&](MutableBytes room) { return encode_chunks(room, m, false); });
		encodes(header, "the header with chunks returned",
			[&](MutableBytes room) { return encode_chunks(room, m, true); });
		if (m.kind == Kind::msg && !m.has_chunks())
			encodes(header, "the bare header", [&](MutableBytes room) {
				return v2::encode_bare(room, m.xid, m.credits, m.direction,
						       m.invalidate);
			});
	}
}

void encode_private(const Golden &golden)
{
	const Room room(golden.data);
	const auto found = private_data::parse(room.bytes());
	usize at = 0;

	if (!found) {
		leave("encoding: it does not decode");
		return;
	}
	while (xdr::load_be32(golden.data.data() + at) != private_data::format_identifier)
		at++;
	const usize length = found.value().mark ? private_data::marked_length : private_data::length;
	/* Before and behind it is what somebody else said. */
	if (at != 0 || golden.data.size() > at + length)
		leave("encoding: only what is ours amid private data of others");
	encodes(room.bytes().from(at).first(length), "private data",
		[&](MutableBytes into) { return private_data::encode(into, found.value()); });
}

void check(const Golden &golden, const std::vector<Golden> &messages)
{
	wrong.clear();
	if (golden.word("kind") == "private") {
		compare_private(golden);
		compare_judgement(golden, judged_private(golden));
		encode_private(golden);
	} else {
		const Decoded one(golden);

		if (one.error == Error::none)
			compare(one);
		else
			compare_refused(one);
		compare_judgement(golden, judged(one, messages));
		compare_encoded(one, messages);
	}
	if (wrong.empty())
		printf("ok - %s\n", golden.word("name").c_str());
	else
		printf("not ok - %s: %s\n", golden.word("name").c_str(), wrong.c_str());
}

} // namespace

int main(int argc, char **argv)
{
	std::vector<Golden> messages;

	/* What was said before a sanitizer ends it is not lost. */
	setvbuf(stdout, nullptr, _IOLBF, 0);
	for (int i = 1; i < argc; i++)
		read_file(argv[i], messages);
	for (const Golden &golden : messages)
		check(golden, messages);
	for (const auto &[why, count] : apart)
		printf("# %u %s\n", count, why.c_str());
	return messages.empty();
}
