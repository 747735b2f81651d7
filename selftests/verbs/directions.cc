// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls with directions for their results (rtrext-01 7.4): READs whose data come in Sends and by RDMA Write, compared byte by
 * byte; and directions that are odd, hostile, or for nothing. Messages are written and read word by word from the draft. The
 * server's version2_rtr is 7.
 */
#include "two.hh"

#include <algorithm>

namespace verbs {

namespace {

using namespace two;

/** xmddp_type. */
enum Type : u32 { exrw = 1, tbsn = 2, choice = 3, bysize = 4, tooshort = 5, noitem = 6 };

constexpr u32 page = 4096, file_size = 60000;

/* A Receive of so many pages behind a head of one. */
struct Room {
	u32 pages;

	[[nodiscard]] u32 bytes() const
	{
		return page + pages * page;
	}
};

/* One that says that it has @room for items, and takes 8 credits: for more, the server's Receives would grow. */
Connection &connect_room(Test &t, const Room &room)
{
	u8 said[rpcordma::private_data::marked_length];
	const u32 length = rpcordma::private_data::encode(said, {page, page, false, true}).value();
	Setup setup;

	setup.default_private_data = false;
	setup.private_data = Octets(said, said + length);
	setup.message_size = room.bytes();
	Connection &c = t.connect(setup);
	const u32 xid = t.xid();
	t.send(c, octets({xid,	       2, 8, two_connprop, 3,	 two_rbsiz,    4, room.bytes(),
			  two_rtrsupp, 4, 7, two_rbstruct, 40,	 room.bytes(), 2, 1,
			  page,	       8, 0, room.pages,   page, page,	       1, 0}));
	expect(c, {xid, 2, 0, two_connprop, 6, two_rbsiz, 4}, "CONNPROP");
	return c;
}

/* The file has these bytes. */
Octets content(Test &t)
{
	constexpr u32 piece = 3000;
	Connection &c = t.connect();
	const Octets bytes = pattern(file_size, 29);

	for (u32 at = 0; at < file_size; at += piece)
		t.put(c, at, Octets(bytes.begin() + at, bytes.begin() + at + piece));
	t.drop(c);
	return bytes;
}

/* One direction: minlen, type, and what is behind that. */
Words direction(u32 least, u32 type, const std::vector<Segment> &segments = {}, u32 dsdov = 0)
{
	Words words;

	words.words({least, type});
	if (type == bysize)
		words.word(dsdov);
	if (type != tbsn) {
		words.word(u32(segments.size()));
		for (const Segment &segment : segments)
			words.segment(segment);
	}
	return words;
}

/* An XMTREQ with @directions, all in one set of any range. */
Octets directed(u32 xid, const std::vector<Words> &directions, u32 rsbuf, const Octets &call)
{
	Words optinfo;

	optinfo.words({0, 1, 0, ~0u, u32(directions.size())});
	for (const Words &one : directions)
		optinfo.octets(one.get());
	optinfo.words({1, rsbuf, u32(call.size())});
	return Words()
		.words({xid, 2, 8, two_optional, 0, two_xmtreq, optinfo.size()})
		.octets(optinfo.get())
		.octets(call)
		.get();
}

Octets read_call(u32 xid, u64 offset, u32 count)
{
	Compound compound(xid);

	return compound.lookup(file_name).read(offset, count).payload();
}

/* An item of a reply, and the bytes that it has in DDP segments or in @memory. */
struct Item {
	u32 displacement, length, type;
	Octets bytes;
};

/* The words of one transmission, and where its stream begins. */
class Transmission {
public:
	Transmission(Octets bytes, u32 xid, u32 option) : bytes_(std::move(bytes))
	{
		check(word() == xid && word() == 2 && word() != 0 && word() == two_optional &&
			      word() == 1,
		      text("no OPTIONAL in reply to %#x", xid));
		check(word() == option, text("another opttype than %u", option));
		const u32 length = word();
		stream = at_ + length;
		check(stream <= bytes_.size(), text("optinfo of %u bytes", length));
	}
	u32 word()
	{
		check(at_ + 4 <= bytes_.size(), "a transmission is cut short");
		at_ += 4;
		return rpcordma::xdr::load_be32(&bytes_[at_ - 4]);
	}
	/* Behind the last word of optinfo. */
	void end()
	{
		check(at_ == stream, "optinfo has a remainder");
		check(stream_length % 4 == 0 && stream + stream_length <= bytes_.size(),
		      text("a stream of %u bytes", stream_length));
	}
	[[nodiscard]] const Octets &bytes() const
	{
		return bytes_;
	}

	u32 stream = 0, stream_length = 0;

private:
	Octets bytes_;
	u32 at_ = 0;
};

/* What a reply came to. */
struct Reply {
	std::vector<Item> items;
	Octets whole; /* with the items where they belong */
	u32 transmissions = 0;
};

/* The reply to @xid, with an item for each of @directions. @memory: that of the segments, if there is one. */
Reply directed_reply(Connection &c, u32 xid, u32 directions, const Room &room,
		     Memory *memory = nullptr)
{
	std::vector<Transmission> came;
	std::vector<std::vector<u32>> numbers;
	Reply reply;

	came.emplace_back(answer(c), xid, two_xmtresp);
	Transmission &lead = came[0];
	check(lead.word() == directions, "not as many items as directions");
	for (u32 i = 0; i < directions; i++) {
		Item item = {lead.word(), lead.word(), lead.word(), {}};
		std::vector<u32> segments;

		check(item.type == exrw || item.type == tbsn || item.type == tooshort ||
			      item.type == noitem,
		      text("an item of type %u", item.type));
		if (item.type == exrw)
			for (u32 n = lead.word(); n; n--) {
				(void)lead.word();
				const u32 length = lead.word();
				const u64 offset = u64(lead.word()) << 32;
				const u64 at = offset + lead.word() - memory->segment().offset;
				const auto from = memory->bytes().begin() + long(at);

				check(at + length <= memory->bytes().size(), "another segment");
				item.bytes.insert(item.bytes.end(), from, from + length);
			}
		if (item.type == tbsn) {
			check(lead.word() == 0, "an item that begins within a segment");
			for (u32 n = lead.word(); n; n--)
				segments.push_back(lead.word());
		}
		reply.items.push_back(item);
		numbers.push_back(segments);
	}
	reply.transmissions = lead.word();
	lead.stream_length = lead.word();
	lead.end();
	for (u32 i = 1; i < reply.transmissions; i++) {
		Transmission more(answer(c), xid, two_xmtcont);

		check(more.word() == i && more.word() == two_xmtresp, "another XMTCONT");
		more.stream_length = more.word();
		more.end();
		came.push_back(more);
	}
	for (const Transmission &one : came) {
		const auto from = one.bytes().begin() + long(one.stream);

		check(one.bytes().size() <= room.bytes(), "a transmission that is too long");
		reply.whole.insert(reply.whole.end(), from, from + long(one.stream_length));
		for (u32 at = one.stream + one.stream_length;
		     at < std::min(one.bytes().size(), size_t(page)); at++)
			check(!one.bytes()[at], "padding that is not zero");
	}
	for (size_t i = 0; i < reply.items.size(); i++) {
		Item &item = reply.items[i];

		if (item.type > tbsn)
			continue;
		for (const u32 number : numbers[i]) {
			check(number / room.pages < came.size(), text("segment %u", number));
			const Octets &bytes = came[number / room.pages].bytes();
			const u32 at = page + number % room.pages * page,
				  n = std::min(item.length - u32(item.bytes.size()), page);
			check(at + n <= bytes.size(), text("segment %u has not come", number));
			item.bytes.insert(item.bytes.end(), bytes.begin() + at,
					  bytes.begin() + at + n);
		}
		check(item.bytes.size() == item.length,
		      text("%zu bytes of an item of %u", item.bytes.size(), item.length));
		Octets padded = item.bytes;
		padded.resize((padded.size() + 3) / 4 * 4);
		check(item.displacement <= reply.whole.size(), "an item behind the stream");
		reply.whole.insert(reply.whole.begin() + item.displacement, padded.begin(),
				   padded.end());
	}
	return reply;
}

/* @whole is the reply to a READ that returned @want. */
void expect_read(const Octets &whole, u32 xid, const Octets &want)
{
	Results results(whole, xid);
	bool eof;

	results.compound(3);
	results.operation(op_putrootfh);
	results.operation(op_lookup);
	same(results.octets(results.read(eof)), want, "what was read");
}

Octets part(const Octets &bytes, u64 offset, u32 count)
{
	return Octets(bytes.begin() + long(offset), bytes.begin() + long(offset + count));
}

/* A READ with one direction; its data come as @type, in @transmissions. */
void read_directed(Test &t, Connection &c, const Room &room, const Octets &bytes, u64 offset,
		   u32 count, const Words &how, u32 type, u32 transmissions,
		   Memory *memory = nullptr, u32 rsbuf = 4)
{
	const u32 xid = t.xid();

	t.send(c, directed(xid, {how}, rsbuf, read_call(xid, offset, count)));
	const Reply reply = directed_reply(c, xid, 1, room, memory);
	check(reply.items[0].type == type && reply.transmissions == transmissions,
	      text("a READ of %u bytes: type %u in %u transmissions, and not %u in %u", count,
		   reply.items[0].type, reply.transmissions, type, transmissions));
	check(reply.items[0].length == count, "an item of another length");
	expect_read(reply.whole, xid, part(bytes, offset, count));
}

void read_sent(Test &t)
{
	const Octets bytes = content(t);

	for (const Room room : {Room{4}, Room{1}}) {
		Connection &c = connect_room(t, room);

		for (const u32 count : {1u, 100u, page - 1, page, page + 1, 4 * page - 2, 4 * page})
			for (const u64 offset : {u64(0), u64(page), u64(777)})
				read_directed(t, c, room, bytes, offset, count, direction(0, tbsn),
					      tbsn,
					      ((count + page - 1) / page + room.pages - 1) /
						      room.pages);
		served(t, c);
		t.drop(c);
	}
	const Room room = {4};
	Connection &c = connect_room(t, room);
	for (const u32 count : {4 * page + 1, 40000u, file_size})
		read_directed(t, c, room, bytes, 0, count, direction(0, tbsn), tbsn,
			      ((count + page - 1) / page + 3) / 4);
	/* More than comes in so many: it goes inline, if that is in as many. */
	read_directed(t, c, room, bytes, 0, 20000, direction(0, tbsn), tooshort, 1, nullptr, 1);
	const u32 xid = t.xid();
	t.send(c, directed(xid, {direction(0, tbsn)}, 1, read_call(xid, 0, 30000)));
	expect(c, {xid, 2, 0, two_error, two_reply_resource, 0, 0}, "no room for it");
	served(t, c);
}

void read_written(Test &t)
{
	const Octets bytes = content(t);
	const Room room = {4};
	Connection &c = connect_room(t, room);
	const auto both = [&](u32 type, u32 count, u32 least, u32 dsdov, u32 want) {
		Memory memory(t.peer(), file_size + 100, 0x77);
		const u32 first = count > 2000 ? count - 2000 : 0;
		const std::vector<Segment> segments = {memory.segment(3, first),
						       memory.segment(3 + first + 50, 0),
						       memory.segment(3 + first + 50, 2040)};

		read_directed(t, c, room, bytes, 0, count, direction(least, type, segments, dsdov),
			      want, want == exrw ? 1 : (count + 4 * page - 1) / (4 * page), &memory);
		const u32 written = want == exrw ? count : 0;
		u32 others = 0;
		for (u32 at = 0; at < memory.bytes().size(); at++) {
			const bool mine = (at >= 3 && at < 3 + std::min(first, written)) ||
					  (written && at >= 3 + first + 50 && at < 53 + written);
			others += !mine && memory.bytes()[at] != 0x77;
		}
		check(!others, text("%u bytes beside the result were written", others));
	};

	for (const u32 count : {1u, 2000u, 2001u, page, 40000u, file_size})
		both(exrw, count, 0, 0, exrw);
	both(exrw, 1000, 1001, 0, tooshort);
	both(exrw, 1001, 1001, 0, exrw);
	both(choice, 40000, 0, 0, tbsn);
	both(bysize, page, 0, page, tbsn);
	both(bysize, page + 1, 0, page, exrw);
	served(t, c);
}

/*
 * Behind a READ's data come 16 bytes that are not data, and where a READ's data do not begin with a page of the reply nfsd
 * puts them elsewhere (read_two() in nfs.cc): hence the length.
 */
void several(Test &t)
{
	constexpr u32 length = 2 * page - 16;
	const u32 reads[][2] = {{10, length}, {7001, length}, {20000, length}, {0, 77}};
	const Octets bytes = content(t);
	const Room room = {4};
	Connection &c = connect_room(t, room);
	Memory memory(t.peer(), 2 * page, 0x77);
	const u32 xid = t.xid();
	Compound compound(xid);

	compound.lookup(file_name);
	for (const auto &one : reads)
		compound.read(one[0], one[1]);
	t.send(c, directed(xid,
			   {direction(0, tbsn), direction(0, exrw, {memory.segment()}),
			    direction(0, choice)},
			   4, compound.payload()));
	const Reply reply = directed_reply(c, xid, 3, room, &memory);
	check(reply.items[0].type == tbsn && reply.items[1].type == exrw &&
		      reply.items[2].type == tbsn && reply.transmissions == 1,
	      text("types %u, %u, %u in %u transmissions", reply.items[0].type, reply.items[1].type,
		   reply.items[2].type, reply.transmissions));
	check(memory.bytes()[length] == 0x77, "a byte beside the result was written");
	Results results(reply.whole, xid);
	results.compound(6);
	results.operation(op_putrootfh);
	results.operation(op_lookup);
	for (const auto &one : reads) {
		bool eof;
		const u32 got = results.read(eof);

		same(results.octets(got), part(bytes, one[0], one[1]), "one of several READs");
		(void)results.octets((4 - got % 4) % 4);
	}
	results.end();
}

/* WRITEs whose data are items in RDMA segments: as in a Read chunk, with the pad and without. */
void write_fetched(Test &t)
{
	const Octets bytes = content(t);
	Connection &c = connect_room(t, Room{4});
	Connection &one = t.connect();

	for (const u32 length : {1u, 4095u, page, 5001u, 40000u})
		for (const bool pad : {false, true}) {
			const u32 xid = t.xid(), padded = (length + 3) / 4 * 4;
			const Octets data = pattern(padded, length);
			Memory memory(t.peer(), data);
			Compound compound(xid);
			Words optinfo;

			compound.lookup(file_name).write_reduced(100, length);
			const Octets call = compound.payload();
			const u32 first = length / 3;
			optinfo.words({1, compound.positions()[0], length, exrw, 2});
			optinfo.segment(memory.segment(0, first))
				.segment(memory.segment(first, (pad ? padded : length) - first));
			optinfo.words({0, 1, 1, u32(call.size())});
			t.send(c, Words().words({xid, 2, 8, two_optional, 0, two_xmtreq,
						 optinfo.size()})
					  .octets(optinfo.get())
					  .octets(call)
					  .get());
			expect(c, {xid, 2, 0, two_msg, 1, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 0},
			       "WRITE of an item");
			const u32 most = std::min(length, 3000u);
			same(t.get(one, 100 + length - most, most), part(data, length - most, most),
			     "what was written");
		}
	/* Memory that is not there costs the connection. */
	const u32 xid = t.xid();
	Compound compound(xid);
	compound.lookup(file_name).write_reduced(0, page);
	const Octets call = compound.payload();
	Words optinfo;
	optinfo.words({1, compound.positions()[0], page, exrw, 1});
	optinfo.segment({Rkey(0x5a5a), page, 4096}).words({0, 1, 1, u32(call.size())});
	t.send(c, Words().words({xid, 2, 8, two_optional, 0, two_xmtreq, optinfo.size()})
			  .octets(optinfo.get())
			  .octets(call)
			  .get());
	t.lost(c);
}

void nothing(Test &t)
{
	const Room room = {4};
	Connection &c = connect_room(t, room);

	/* NULL has no result: each direction comes to NOITEM. */
	for (const u32 count : {1u, 2u, 16u}) {
		const u32 xid = t.xid();

		t.send(c, directed(xid, std::vector<Words>(count, direction(0, tbsn)), 1,
				   null_call(xid)));
		const Reply reply = directed_reply(c, xid, count, room);
		for (const Item &item : reply.items)
			check(item.type == noitem && !item.length && !item.displacement,
			      text("type %u, %u bytes", item.type, item.length));
		check(reply.whole.size() == 24, text("%zu bytes", reply.whole.size()));
	}
	for (const u32 count : {17u, 200u}) {
		const u32 xid = t.xid();

		t.send(c, directed(xid, std::vector<Words>(count, direction(0, tbsn)), 1,
				   null_call(xid)));
		expect(c, {xid, 2, 0, two_error, two_system}, "more directions than are taken");
		served(t, c);
	}
	/* Types that a direction cannot have, sets that are none, more than there is of anything. */
	const std::vector<std::vector<u32>> bad = {
		{1, 0, 8, 1, 0, 5},	     {1, 0, 8, 1, 0, 6},      {1, 0, 8, 1, 0, 0},
		{1, 0, 8, 1, 0, 7, 0},	     {1, 0, 8, 1, 0, ~0u},    {1, 8, 4, 0},
		{2, 0, 8, 0, 4, 8, 0},	     {2, 8, 9, 0, 0, 8, 0},   {2, 8, 8, 0, 8, 9, 0},
		{1, 0, 8, 2, 0, 2},	     {1, 0, 8, ~0u, 0, 2},    {~0u, 0, 8, 1, 0, 2},
		{1, 0, 8, 1, 0, 1, 1, 0, 0}, {1, 0, 8, 1, 0, 1, ~0u}, {1, 0, 8, 1, 0, 4, 0}};
	for (const auto &words : bad) {
		const u32 xid = t.xid();
		Words optinfo;

		optinfo.word(0);
		for (const u32 word : words)
			optinfo.word(word);
		optinfo.words({1, 1, 40});
		t.send(c, Words().words({xid, 2, 8, two_optional, 0, two_xmtreq, optinfo.size()})
				  .octets(optinfo.get())
				  .octets(null_call(xid))
				  .get());
		expect(c, {xid, 2, 0, two_error, two_bad_xdr}, "directions that are none");
		served(t, c);
	}
}

void odd(Test &t)
{
	const Octets bytes = content(t);
	const Room room = {4};
	Connection &c = connect_room(t, room);
	Memory memory(t.peer(), page, 0x77);

	/* Segments of nothing, of other places that are not needed, of far more than 4 GiB; a minlen that nothing has. */
	const Segment far = {Rkey(1), ~0u, ~u64(0)}, empty = {Rkey(2), 0, ~u64(0)};
	read_directed(t, c, room, bytes, 0, 500, direction(0, exrw, {empty, empty}), tooshort, 1);
	read_directed(t, c, room, bytes, 0, 500, direction(0, exrw, {}), tooshort, 1);
	read_directed(t, c, room, bytes, 0, 500, direction(~0u, tbsn), tooshort, 1);
	read_directed(t, c, room, bytes, 0, 500, direction(~0u, exrw, {far, far}), tooshort, 1);
	read_directed(t, c, room, bytes, 0, 500,
		      direction(0, exrw, {empty, memory.segment(0, 500), far, far, far}), exrw, 1,
		      &memory);
	read_directed(t, c, room, bytes, 0, 500, direction(0, bysize, {far, far}, ~0u), tbsn, 1);
	/* Too few for what is read: it comes inline, and where that is too long, the server says what was too short. */
	read_directed(t, c, room, bytes, 0, 9000, direction(0, exrw, {memory.segment()}), tooshort,
		      1);
	const u32 xid = t.xid();
	t.send(c, directed(xid, {direction(0, exrw, {empty, memory.segment()})}, 1,
			   read_call(xid, 0, 30000)));
	expect(c, {xid, 2, 0, two_error, two_reply_resource, 2, 30000},
	       "segments that are too short");
	served(t, c);
	/* Replies under way, and nobody there any more. */
	for (u32 i = 0; i < 20; i++) {
		Connection &gone = connect_room(t, room);

		for (u32 n = 0; n < 3; n++) {
			const u32 one = t.xid();

			t.send(gone, directed(one,
					      {n == 1 ? direction(0, exrw, {memory.segment()}) :
							direction(0, tbsn)},
					      4, read_call(one, 0, n == 1 ? page : 50000)));
		}
		t.drop(gone);
	}
}

/* Memory that is not there: the connection is lost, and when the call comes again the server knows. */
void bad_key(Test &t)
{
	(void)content(t);
	Memory memory(t.peer(), page);
	Segment nowhere = memory.segment();
	const u32 xid = t.xid();

	nowhere.handle = Rkey(nowhere.handle.get() ^ 0x5a);
	for (u32 failures = 0; failures < 3; failures++) {
		Connection &c = connect_room(t, Room{4});

		t.send(c,
		       directed(xid, {direction(0, exrw, {nowhere})}, 1, read_call(xid, 0, page)));
		Received received;
		if (!c.receive(received, 20000)) {
			check(c.state() != Connection::State::connected,
			      "neither answered nor lost");
			continue;
		}
		check(failures && received.bytes.size() == 20 &&
			      rpcordma::xdr::load_be32(&received.bytes[12]) == two_error &&
			      rpcordma::xdr::load_be32(&received.bytes[16]) == two_system,
		      "an answer that is not SYSTEM");
		served(t, c);
		t.note(text("SYSTEM after %u lost connections", failures));
		return;
	}
	throw Failure{"the connection was lost three times over one call, and no SYSTEM came"};
}

} // namespace

const std::vector<TestCase> direction_tests = {
	{"rtr-read-sent", "READs of 1 byte to 60,000 whose data come in Sends: every byte",
	 read_sent},
	{"rtr-read-written", "READs by RDMA Write, by size, and as the server likes: every byte",
	 read_written},
	{"rtr-read-several", "four READs in one call, two sent, one written, one inline", several},
	{"rtr-write-fetched", "WRITEs whose data are items in RDMA segments: as by Read chunks",
	 write_fetched},
	{"rtr-directions-none", "directions for nothing: NOITEM; 17: SYSTEM; bad: BAD_XDR", nothing},
	{"rtr-directions-odd", "segments of nothing, or beyond all memory, replies to nobody", odd},
	{"rtr-directions-bad-key", "a result into no memory: lost, then SYSTEM", bad_key},
};

} // namespace verbs
