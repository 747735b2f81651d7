// SPDX-License-Identifier: GPL-2.0-only
/* See test.hh. */
#include "test.hh"

#include <algorithm>

namespace verbs {

using rpcordma::xdr::ErrorCode;

/* Another range each time that the program runs. */
u32 Test::next_xid_ = u32(now_ms()) << 12;

std::vector<Segment> pieces(const Memory &memory, std::initializer_list<u32> lengths)
{
	std::vector<Segment> segments;
	size_t offset = 0;

	for (u32 length : lengths) {
		segments.push_back(memory.segment(offset, length));
		offset += length;
	}
	return segments;
}

void check(bool condition, const std::string &what)
{
	if (!condition)
		throw Failure{what};
}

void same(const Octets &got, const Octets &want, const char *what)
{
	check(got.size() == want.size(),
	      text("%s: %zu bytes, expected %zu", what, got.size(), want.size()));
	size_t at = std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin();
	if (at == got.size())
		return;
	std::string bytes;
	for (size_t i = at; i < std::min(at + 4, got.size()); i++)
		bytes += text(" %02x (%02x)", got[i], want[i]);
	throw Failure{text("%s: wrong from byte %zu of %zu on:", what, at, got.size()) + bytes};
}

Connection &Test::connect(const Setup &setup)
{
	connections_.push_back(std::make_unique<Connection>(peer_, setup));
	Connection &connection = *connections_.back();
	connection.connect();
	bool established = connection.established();
	check(established, "no connection: " + connection.describe());
	return connection;
}

void Test::drop(Connection &connection)
{
	auto found = std::find_if(connections_.begin(), connections_.end(),
				  [&](auto &c) { return c.get() == &connection; });
	if (found != connections_.end())
		connections_.erase(found);
}

void Test::note(const std::string &what)
{
	notes_ += (notes_.empty() ? "" : ", ") + what;
}

void Test::send(Connection &connection, const Octets &message)
{
	bool sent = connection.send(message);
	check(sent, "cannot send: " + connection.describe());
}

Answer Test::answer(Connection &connection)
{
	Received received;
	bool came = connection.receive(received);
	check(came, "no answer: " + connection.describe());
	Answer answer(std::move(received));
	check(answer.valid(), "came " + answer.describe());
	check(!answer.invalidated(), "the answer invalidated an R_key, which nobody asked for");
	return answer;
}

Answer Test::call(Connection &connection, const Header &header, const Chunks &chunks,
		  const Octets &payload)
{
	send(connection, message(header, chunks, payload));
	return answer(connection);
}

void Test::error_chunk(Connection &connection, const Header &header)
{
	Answer got = answer(connection);
	check(got.is_error(ErrorCode::chunk), "expected ERR_CHUNK, came " + got.describe());
	check(got.header().xid.get() == header.xid && got.vers() == header.vers,
	      text("ERR_CHUNK to xid %u and version %u, expected %u and %u", got.header().xid.get(),
		   got.vers(), header.xid, header.vers));
	check(got.header().credits.get(), "ERR_CHUNK grants no credits");
}

void Test::error_vers(Connection &connection, const Header &header)
{
	Answer got = answer(connection);
	check(got.is_error(ErrorCode::version), "expected ERR_VERS, came " + got.describe());
	check(got.header().xid.get() == header.xid && got.vers() == header.vers,
	      text("ERR_VERS to xid %u and version %u, expected %u and %u", got.header().xid.get(),
		   got.vers(), header.xid, header.vers));
	check(got.header().error.low == 1 && got.header().error.high == 1,
	      "expected ERR_VERS 1..1, came " + got.describe());
	check(got.header().credits.get(), "ERR_VERS grants no credits");
}

Octets Test::plain_reply(const Answer &answer, u32 xid)
{
	check(answer.header().kind == Kind::msg && answer.header().xid.get() == xid,
	      text("expected an RDMA_MSG to xid %u, came ", xid) + answer.describe());
	check(!answer.header().has_chunks(), "a reply has chunks that were not offered");
	check(answer.header().credits.get(), "a reply grants no credits");
	return answer.payload();
}

u32 Test::served(Connection &connection)
{
	u32 xid = this->xid();
	send(connection, null_message(xid));
	Answer got = answer(connection);
	Results results(plain_reply(got, xid), xid);
	results.success();
	results.end();
	return got.header().credits.get();
}

void Test::dropped(Connection &connection)
{
	served(connection);
	Received late;
	if (connection.receive(late, 200))
		throw Failure{"expected silence, came " + Answer(std::move(late)).describe()};
	check(connection.state() == Connection::State::connected, connection.describe());
}

void Test::lost(Connection &connection)
{
	check(connection.ended(), "the connection was not ended");
	check(!connection.pending(), "an answer came before the connection was lost");
}

namespace {

void same_chunk(const rpcordma::xdr::WriteChunk &got, const std::vector<Segment> &offered,
		u32 written, const std::string &name)
{
	check(got.count() == offered.size(), text("the %s came back with %u segments, offered %zu",
						  name.c_str(), got.count(), offered.size()));
	for (u32 i = 0; i < got.count(); i++) {
		Segment want = offered[i];
		want.length = std::min(want.length, written);
		written -= want.length;
		check(got[i].handle == want.handle && got[i].offset == want.offset,
		      text("segment %u of the %s came back as another", i, name.c_str()));
		check(got[i].length == want.length,
		      text("segment %u of the %s came back with %u bytes, expected %u", i,
			   name.c_str(), got[i].length, want.length));
	}
}

} // namespace

void Test::returned(const Answer &answer, const Chunks &offered, const std::vector<u32> &written,
		    u32 reply_written)
{
	const auto &header = answer.header();

	check(header.kind == Kind::msg || header.kind == Kind::nomsg,
	      "expected a reply, came " + answer.describe());
	check(header.reads.empty(), "a reply has a Read list");
	check(header.writes.count() == offered.writes.size(),
	      text("%u Write chunks came back, offered %zu", header.writes.count(),
		   offered.writes.size()));
	size_t i = 0;
	for (const auto &chunk : header.writes) {
		same_chunk(chunk, offered.writes[i], written[i], text("Write chunk %zu", i));
		i++;
	}
	check(header.reply.present() == !offered.reply.empty(),
	      text("the Reply chunk %s",
		   header.reply.present() ? "was not offered" : "did not come back"));
	if (header.reply.present())
		same_chunk(header.reply, offered.reply[0], reply_written, "Reply chunk");
}

void Test::put(Connection &connection, u64 offset, const Octets &data)
{
	u32 xid = this->xid();
	Compound compound(xid);
	compound.lookup(file_name).write(offset, data);
	Results results(plain_reply(call(connection, {xid}, {}, compound.payload()), xid), xid);
	results.compound(3);
}

Octets Test::get(Connection &connection, u64 offset, u32 count)
{
	u32 xid = this->xid();
	Compound compound(xid);
	compound.lookup(file_name).read(offset, count);
	Results results(plain_reply(call(connection, {xid}, {}, compound.payload()), xid), xid);
	results.compound(3);
	results.operation(op_putrootfh);
	results.operation(op_lookup);
	bool eof;
	return results.octets(results.read(eof));
}

Octets Test::root(Connection &connection)
{
	u32 xid = this->xid();
	Compound compound(xid);
	compound.getfh();
	Results results(plain_reply(call(connection, {xid}, {}, compound.payload()), xid), xid);
	results.compound(2);
	results.operation(op_putrootfh);
	results.operation(op_getfh);
	return results.opaque();
}

} // namespace verbs
