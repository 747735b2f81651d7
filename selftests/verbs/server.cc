// SPDX-License-Identifier: GPL-2.0-only
/* See server.hh. */
#include "server.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

namespace verbs {

using rpcordma::xdr_pad;

namespace {

constexpr u16 mount_port = 20048;
constexpr u32 mount_program = 100005;
/* Status of NFSv3. */
constexpr u32 nfs_ok = 0, nfs_noent = 2, nfs_inval = 22, nfs_badhandle = 10001;
/* accept_stat (RFC 5531). */
constexpr u32 rpc_success = 0, rpc_program_unavailable = 1, rpc_procedure_unavailable = 3;
/* Links follow. */
constexpr u32 root_id = 1, file_id = 2, first_link_id = 3;
constexpr u32 most_data = 1 << 20, directory_bytes = 32768;

Octets handle(u32 id)
{
	return Words().words({0x6f646421, id}).get();
}

/* 0: no such thing. */
u32 id_of(const Octets &handle)
{
	Reader reader(handle);
	return handle.size() == 8 && reader.word() == 0x6f646421 ? reader.word() : 0;
}

std::vector<Segment> segments_of(const rpcordma::xdr::WriteChunk &chunk)
{
	std::vector<Segment> segments;
	for (u32 i = 0; i < chunk.count(); i++)
		segments.push_back(chunk[i]);
	return segments;
}

std::vector<std::string> names_in_root()
{
	std::vector<std::string> all = {".", "..", odd_file};
	for (u32 i = 0; i < names; i++)
		all.push_back(text("a-name-that-takes-some-room-%u", i));
	return all;
}

} // namespace

std::vector<Segment> Call::write_chunk() const
{
	const auto &header = message.header();
	return header.writes.count() ? segments_of(*header.writes.begin()) : std::vector<Segment>();
}

std::vector<Segment> Call::reply_chunk() const
{
	const auto &header = message.header();
	return header.reply.present() ? segments_of(header.reply) : std::vector<Segment>();
}

namespace {

std::vector<Segment> reads(const Call &call, bool position_zero)
{
	std::vector<Segment> segments;
	for (auto read : call.message.header().reads)
		if (!read.position.get() == position_zero)
			segments.push_back(read.target);
	return segments;
}

} // namespace

std::vector<Segment> Call::read_chunk() const
{
	return reads(*this, false);
}

std::vector<Segment> Call::call_chunk() const
{
	return reads(*this, true);
}

bool Call::has(u32 rkey) const
{
	for (auto chunk : {write_chunk(), reply_chunk(), read_chunk(), call_chunk()})
		for (const Segment &segment : chunk)
			if (segment.handle.get() == rkey)
				return true;
	return false;
}

Server::Server(Peer &peer, const std::string &address, const std::string &client)
	: peer_(peer),
	  address_(address),
	  client_(client),
	  listener_(peer),
	  file_(pattern(file_size, file_seed))
{
	sockaddr_in at = {};
	at.sin_family = AF_INET;
	at.sin_port = htons(mount_port);
	inet_pton(AF_INET, address.c_str(), &at.sin_addr);
	mountd_ = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (mountd_ < 0 || bind(mountd_, reinterpret_cast<sockaddr *>(&at), sizeof(at)))
		throw Failure{text("UDP port %u at %s: %s", mount_port, address.c_str(),
				   strerror(errno))};
	peer_.watch(mountd_, [this] { handle_mount_call_(); });
	setup.remote_invalidation = true;
	/* As many as the client could ever be granted here, and what a test does besides. */
	setup.receives = 128;
	setup.sends = 128;
}

Server::~Server()
{
	peer_.forget(mountd_);
	close(mountd_);
}

void Server::accuse_(const Conversation &on, const std::string &what)
{
	if (wrong_.empty())
		wrong_ = text("the client, on its connection %u: ", on.number) + what;
}

/* RFC 8267 4 and 5.2: what of NFSv3 may be reduced, and of NFSACL nothing. */
void Server::judge_chunks_(const Call &call)
{
	bool nfs = call.program == nfs_program, acl = call.program == acl_program;

	if ((!nfs && !acl) || call.version != 3)
		return;
	bool argument = nfs && (call.procedure == proc_write || call.procedure == proc_symlink);
	bool result = nfs && (call.procedure == proc_read || call.procedure == proc_readlink);
	if (!call.read_chunk().empty() && !argument)
		accuse_(call.on, text("reduces arguments of procedure %u of program %u",
				      call.procedure, call.program));
	if (call.message.header().writes.count() && !result)
		accuse_(call.on,
			text("offers a Write chunk for results of procedure %u of program %u",
			     call.procedure, call.program));
}

bool Server::run(u64 limit_ms, const std::function<bool()> &done)
{
	u64 deadline = now_ms() + limit_ms;

	for (;;) {
		while (listener_.pending())
			handle_request_();
		bool more = false;
		/* By index: a test may serve while it deals with a call. */
		for (size_t i = 0; i < conversations_.size(); i++)
			more = handle_message_(*conversations_[i]) || more;
		if (done())
			return true;
		u64 now = now_ms();
		if (now >= deadline)
			return false;
		if (more)
			continue;
		peer_.run(deadline - now, [&] {
			auto ready = [](auto &c) {
				return c->connection->pending() &&
				       c->connection->state() != Connection::State::connecting;
			};
			return listener_.pending() || done() ||
			       std::any_of(conversations_.begin(), conversations_.end(), ready);
		});
	}
}

void Server::handle_request_()
{
	auto connection = listener_.next();

	requests_++;
	if (asked && asked(*connection)) {
		/* What is to be silence has to be kept. */
		auto kept = std::make_unique<Conversation>();
		kept->connection = std::move(connection);
		kept->number = 0;
		conversations_.push_back(std::move(kept));
		return;
	}
	auto on = std::make_unique<Conversation>();
	on->connection = std::move(connection);
	on->number = ++accepted_;
	rpcordma::private_data::Properties ours, theirs;
	auto properties = [](const Octets &said) {
		auto parsed = rpcordma::private_data::parse({said.data(), said.size()});
		return parsed.ok() ? parsed.value() : rpcordma::private_data::Properties();
	};
	theirs = properties(on->connection->private_data());
	on->marked = theirs.mark;
	Setup with_mark = setup;
	with_mark.mark = version2 && theirs.mark;
	if (setup.default_private_data)
		ours = {setup.message_size, setup.message_size, setup.remote_invalidation,
			with_mark.mark};
	else
		ours = properties(setup.private_data);
	on->calls_to = std::min(ours.receive_size, theirs.send_size);
	on->replies_to = std::min(ours.send_size, theirs.receive_size);
	on->remote_invalidation = ours.remote_invalidation && theirs.remote_invalidation;
	if (ours.mark && theirs.mark)
		on->vers = Conversation::either;
	on->connection->accept(with_mark);
	conversations_.push_back(std::move(on));
}

Conversation &Server::current()
{
	for (auto on = conversations_.rbegin(); on != conversations_.rend(); ++on)
		if ((*on)->number)
			return **on;
	throw Failure{"there is no connection"};
}

Header Conversation::header(u32 xid, bool call) const
{
	Header header = {xid};

	if (vers == version_2) {
		header.vers = version_2;
		header.direction = call ? 0 : 1;
	}
	return header;
}

void Server::speak(Conversation &on, u32 vers, u32 calls_to, u32 replies_to)
{
	on.vers = vers;
	if (vers != version_2)
		return;
	on.calls_to = calls_to;
	on.replies_to = std::min(replies_to, on.its_receives);
}

void Server::answer(const Question &question, u32 credits)
{
	speak(question.on, version_2, takes);
	granted(question.on, credits);
	send(question.on, properties_2(question.xid, credits, takes, 0x3f, transmissions));
}

/* What comes is of the version that was come to; where that is still to be, it decides. */
bool Server::judge_version_(Conversation &on, const Answer &answer)
{
	/* Refusals echo what they refuse. */
	if (answer.is_error(rpcordma::xdr::ErrorCode::version) && on.said)
		return true;
	if (on.vers == Conversation::either)
		on.vers = answer.vers();
	if (answer.vers() == on.vers)
		return true;
	accuse_(on,
		on.vers ? text("speaks version %u where %u was agreed on", answer.vers(), on.vers) :
			  "goes on without an answer to its question");
	return false;
}

/* All that a client without extensions says, in order. Nothing of it will change. */
void Server::judge_properties_(Conversation &on, const Octets &message)
{
	Reader in(message);
	auto one = [&](u32 id, u32 length) {
		u32 got = in.word(), bytes = in.word();
		if (got != id || bytes != length)
			throw Failure{text("property %u of %u bytes, expected %u of %u", got, bytes,
					   id, length)};
	};

	in.octets(16);
	if (in.word() != 6)
		throw Failure{"not six properties"};
	one(two_rbsiz, 4);
	on.its_receives = in.word();
	one(two_brs, 4);
	const u32 backward = in.word();
	one(two_rtrsupp, 4);
	const u32 extensions = in.word();
	if (in.word() != two_rbstruct)
		throw Failure{"no RBSTRUCT at its place"};
	Octets structure = in.opaque();
	one(two_reqrxlim, 4);
	const u32 calls = in.word();
	one(two_respsxlim, 4);
	const u32 replies = in.word();
	if (in.word() != 1 || in.word() != 0x3f)
		throw Failure{"not all six are said not to change"};
	in.end();
	Reader groups(structure);
	const u32 total = groups.word(), count = groups.word();
	u64 sum = 0;
	for (u32 i = 0; i < count; i++) {
		u64 pieces = groups.word();
		sum += pieces * groups.word();
		groups.two_words();
	}
	groups.end();
	if (on.its_receives < two_least || total != on.its_receives || sum != total)
		throw Failure{
			text("receives %u bytes, in a structure of %u, of which there are %llu",
			     on.its_receives, total, (unsigned long long)sum)};
	/* What it can do is the machine's parameter; here only what has to be there. */
	const bool continues = extensions == 7 && (transmissions > 1 || calls == 1);
	if (backward != 1 || (extensions && !continues) || (transmissions > 1 && !continues) ||
	    calls != 1 || replies != 1)
		throw Failure{text("backward calls %u, extensions %#x, %u and %u transmissions",
				   backward, extensions, calls, replies)};
}

/* The first message, and the only one of its kind. */
void Server::handle_question_(Conversation &on, const Answer &answer)
{
	questions_++;
	if (on.vers != version_2 || on.its_question) {
		accuse_(on, "asks for version 2 once more");
		return;
	}
	on.its_question = true;
	if (on.outstanding || !on.xids.empty())
		accuse_(on, "asks for version 2 in the midst of calls");
	try {
		judge_properties_(on, answer.bytes());
	} catch (Failure &failure) {
		accuse_(on, "its properties: " + failure.what);
	}
	Question question = {on, answer.header().xid.get()};
	on.vers = 0;
	if (!questioned || !questioned(question))
		this->answer(question);
}

/* Deal with its next message; false: there is none. */
bool Server::handle_message_(Conversation &on)
{
	Received received;

	if (!on.connection->pending() || on.connection->state() == Connection::State::connecting ||
	    !on.connection->receive(received, 0))
		return false;
	/* What a connection said that is lost since then, it will say again. */
	if (on.connection->state() != Connection::State::connected)
		return true;
	u32 length = u32(received.bytes.size());
	if (length > on.calls_to)
		accuse_(on, text("a message of %u bytes, more than the %u that we take", length,
				 on.calls_to));
	Answer answer(std::move(received));
	if (!answer.valid()) {
		accuse_(on, "sends " + answer.describe());
		return true;
	}
	if (!answer.header().credits.get())
		accuse_(on, "asks for no credit, or grants none");
	const auto &header = answer.header();
	if (header.direction == rpcordma::xdr::Direction::unknown) {
		accuse_(on, "sends what is neither call nor reply");
		return true;
	}
	if (!judge_version_(on, answer))
		return true;
	if (header.direction == rpcordma::xdr::Direction::reply) {
		if (!on.said)
			accuse_(on, text("replies to xid %u, which nobody sent there",
					 header.xid.get()));
		on.answers.push_back(std::move(answer));
		return true;
	}
	if (header.kind == Kind(two_connprop)) {
		handle_question_(on, answer);
		return true;
	}
	if (header.kind == Kind(two_optional) && transmissions > 1) {
		on.reports++;
		return true;
	}
	if (answer.reply_transmissions() && transmissions <= 1)
		accuse_(on, "sends an XMTREQ to who does not know that");
	if (header.kind != Kind::msg && header.kind != Kind::nomsg) {
		accuse_(on, "says what nobody wants to know: " + answer.describe());
		return true;
	}

	Call call = {on, std::move(answer), {}};
	call.xid = call.message.header().xid.get();
	on.most_outstanding = std::max(on.most_outstanding, ++on.outstanding);
	if (on.outstanding > on.most_granted)
		accuse_(on, text("%u calls outstanding with %u credits", on.outstanding,
				 on.most_granted));
	if (!on.xids.insert(call.xid).second)
		accuse_(on, text("sends xid %u twice", call.xid));
	call.payload = call.message.payload();
	if (auto whole = call.call_chunk(); !whole.empty()) {
		try {
			call.payload = fetch_(call, whole);
		} catch (Failure &) {
			/* As above. */
			if (on.connection->state() != Connection::State::connected)
				return true;
			throw;
		}
	}
	Reader reader(call.payload);
	u32 xid = reader.word(), type = reader.word(), rpc = reader.word();
	if (xid != call.xid || type != 0 || rpc != 2) {
		accuse_(on, text("a call with xid %u (%u in its header), type %u, RPC version %u",
				 xid, call.xid, type, rpc));
		return true;
	}
	call.program = reader.word();
	call.version = reader.word();
	call.procedure = reader.word();
	for (int i = 0; i < 2; i++) {
		reader.word();
		reader.opaque();
	}
	call.arguments = reader.at();
	judge_chunks_(call);
	if (const u32 rkey = call.message.invalidate(); rkey && !call.has(rkey))
		accuse_(on, text("wants R_key %#x invalidated, which it does not offer", rkey));
	if (odd && odd(call))
		return true;
	try {
		reply(on, prepare(call));
	} catch (Failure &) {
		/* A connection may go at any time. */
		if (on.connection->state() == Connection::State::connected)
			throw;
	}
	return true;
}

Octets Server::fetch_(Call &call, const std::vector<Segment> &segments)
{
	Octets all;
	for (const Segment &segment : segments) {
		Octets bytes(segment.length);
		ibv_wc_status status = call.on.connection->rdma_read(segment, bytes);
		if (status != IBV_WC_SUCCESS)
			throw Failure{text("RDMA Read of %u bytes: %s", segment.length,
					   ibv_wc_status_str(status))};
		all.insert(all.end(), bytes.begin(), bytes.end());
	}
	return all;
}

/* The opaque that comes next and may be reduced: if it was, the Read chunk is just it, at its place. */
Octets Server::item_(Call &call, Reader &in)
{
	u32 length = in.word(), position = call.arguments + in.at();
	auto chunk = call.read_chunk();

	if (chunk.empty()) {
		Octets bytes = in.octets(length);
		in.octets(xdr_pad(length));
		in.end();
		return bytes;
	}
	for (auto read : call.message.header().reads)
		if (read.position.get() && read.position.get() != position)
			accuse_(call.on, text("a Read chunk at Position %u, its item at %u",
					      read.position.get(), position));
	Octets bytes = fetch_(call, chunk);
	if (bytes.size() != length)
		accuse_(call.on,
			text("a Read chunk of %zu bytes for an item of %u", bytes.size(), length));
	/* The pad went with the item. */
	in.end();
	bytes.resize(length);
	return bytes;
}

void Server::attributes_(Words &to, u32 id) const
{
	u32 type = 5, mode = 0777, size = 4096;

	if (id == root_id) {
		type = 2;
	} else if (id == file_id) {
		type = 1;
		mode = 0666;
		size = file_size;
	} else {
		size = u32(links[id - first_link_id].target.size());
	}
	to.words({type, mode, 1, 0, 0, 0, size, 0, size, 0, 0, 0, 77, 0, id});
	for (int time = 0; time < 3; time++)
		to.words({1000000000, 0});
}

void Server::post_op_attributes_(Words &to, u32 id) const
{
	to.word(1);
	attributes_(to, id);
}

/* wcc_data */
void Server::changed_(Words &to, u32 id) const
{
	to.word(0);
	post_op_attributes_(to, id);
}

/* 0: no such name. */
u32 Server::find_(const std::string &name) const
{
	if (name == odd_file)
		return file_id;
	for (u32 i = 0; i < links.size(); i++)
		if (links[i].name == name)
			return first_link_id + i;
	return 0;
}

/* @results without @data, which stand at the end of a READ's or READLINK's. */
void Server::nfs_(Call &call, Words &results, Octets &data)
{
	Octets arguments(call.payload.begin() + call.arguments, call.payload.end());
	Reader in(arguments);

	if (call.procedure == proc_null)
		return;
	u32 id = id_of(in.opaque());
	if (!id || id >= first_link_id + links.size()) {
		results.words({nfs_badhandle, 0, 0});
		return;
	}
	results.word(nfs_ok);
	switch (call.procedure) {
	case proc_getattr:
		attributes_(results, id);
		return;
	case proc_setattr:
		changed_(results, id);
		return;
	case proc_lookup: {
		Octets name = in.opaque();
		u32 found = find_(std::string(name.begin(), name.end()));
		if (!found) {
			results = Words().word(nfs_noent);
			post_op_attributes_(results, id);
			return;
		}
		results.opaque(handle(found));
		post_op_attributes_(results, found);
		post_op_attributes_(results, root_id);
		return;
	}
	case proc_access:
		post_op_attributes_(results, id);
		results.word(in.word());
		return;
	case proc_read: {
		u64 offset = std::min(in.two_words(), u64(file_size));
		u32 count = std::min(in.word(), file_size - u32(offset));
		data.assign(file_.begin() + ssize_t(offset),
			    file_.begin() + ssize_t(offset + count));
		post_op_attributes_(results, id);
		results.words({count, offset + count == file_size, count});
		return;
	}
	case proc_readlink: {
		if (id < first_link_id)
			break;
		const std::string &target = links[id - first_link_id].target;
		data.assign(target.begin(), target.end());
		post_op_attributes_(results, id);
		results.word(u32(data.size()));
		return;
	}
	case proc_symlink: {
		Octets name = in.opaque();
		/* sattr3: mode, owner, group; size; times, of which the server's are 1 */
		for (int i = 0; i < 3; i++)
			if (in.word())
				in.word();
		if (in.word())
			in.two_words();
		for (int i = 0; i < 2; i++)
			if (in.word() == 2)
				in.two_words();
		Octets target = item_(call, in);
		links.push_back({std::string(name.begin(), name.end()),
				 std::string(target.begin(), target.end())});
		u32 made = first_link_id + u32(links.size()) - 1;
		results.word(1).opaque(handle(made));
		post_op_attributes_(results, made);
		changed_(results, id);
		return;
	}
	case proc_write: {
		u64 offset = in.two_words();
		u32 count = in.word();
		in.word(); /* stable */
		Octets bytes = item_(call, in);
		if (count != bytes.size() || offset + count > file_size) {
			accuse_(call.on, text("a WRITE of %u bytes at %llu with %zu bytes of data",
					      count, (unsigned long long)offset, bytes.size()));
			return;
		}
		std::copy(bytes.begin(), bytes.end(), file_.begin() + ssize_t(offset));
		changed_(results, id);
		results.words({count, 2 /* FILE_SYNC */, 0, 0});
		return;
	}
	case proc_readdir:
	case proc_readdirplus: {
		bool plus = call.procedure == proc_readdirplus;
		u64 cookie = in.two_words();
		in.two_words();
		if (plus)
			in.word(); /* dircount: maxcount is enough */
		u32 room = std::min(in.word(), directory_bytes) - 200, used = 0;
		auto all = names_in_root();
		post_op_attributes_(results, id);
		results.words({0, 0});
		for (; cookie < all.size() && used < room; cookie++) {
			Words entry;
			entry.words({1, 0, u32(cookie) + 10}).opaque(all[cookie]);
			entry.words({0, u32(cookie) + 1});
			if (plus)
				entry.words({0, 0}); /* neither attributes nor handle */
			used += entry.size();
			results.octets(entry.get());
		}
		results.words({0, cookie == all.size()});
		return;
	}
	case proc_fsstat:
		post_op_attributes_(results, id);
		results.words({0, 1 << 30, 0, 1 << 30, 0, 1 << 30, 0, 1000, 0, 1000, 0, 1000, 0});
		return;
	case proc_fsinfo:
		post_op_attributes_(results, id);
		results.words({most_data, most_data, 1, most_data, most_data, 1, directory_bytes, 0,
			       1 << 30, 0, 1, 0x1b});
		return;
	case proc_pathconf:
		post_op_attributes_(results, id);
		results.words({32, 255, 1, 1, 0, 1});
		return;
	case proc_commit:
		changed_(results, id);
		results.words({0, 0});
		return;
	}
	results = Words().words({nfs_inval, 0, 0});
}

/* NFSACL: SETACL of the file. The entries are kept as they came. */
void Server::acl_(Call &call, Words &results)
{
	if (call.procedure == proc_null)
		return;
	Reader in(Octets(call.payload.begin() + call.arguments, call.payload.end()));
	u32 id = id_of(in.opaque());
	in.word(); /* which of the two lists are there */
	u32 count = in.word();
	if (count != in.word())
		accuse_(call.on, "the two lengths of an ACL differ");
	file_acl_ = in.octets(12 * count);
	if (in.word() || in.word())
		accuse_(call.on, "a default ACL of a file");
	in.end();
	results.word(nfs_ok);
	post_op_attributes_(results, id);
}

Reply Server::prepare(Call &call)
{
	return prepare_(call, false);
}

Reply Server::prepare_dry(Call &call)
{
	return prepare_(call, true);
}

Reply Server::prepare_(Call &call, bool dry)
{
	Reply reply;
	reply.header = call.on.header(call.xid, false);
	reply.header.credits = grant;

	Words results;
	Octets data;
	u32 accept = rpc_success;
	bool nfs = call.program == nfs_program, acl = call.program == acl_program;
	if ((!nfs && !acl) || (call.version != 3 && call.procedure != proc_null))
		accept = rpc_program_unavailable;
	else if (nfs ? call.procedure > proc_commit :
		       call.procedure != proc_null && call.procedure != acl_proc_set)
		accept = rpc_procedure_unavailable;
	else if (nfs)
		nfs_(call, results, data);
	else
		acl_(call, results);
	Words payload;
	payload.words({call.xid, 1, 0, 0, 0, accept}).octets(results.get());

	auto put = [&](std::vector<Segment> segments, const Octets &bytes, const char *what) {
		u32 done = 0, all = u32(bytes.size());
		for (Segment &segment : segments) {
			segment.length = std::min(segment.length, all - done);
			Octets piece(bytes.begin() + done, bytes.begin() + done + segment.length);
			done += segment.length;
			if (piece.empty() || dry)
				continue;
			ibv_wc_status status = call.on.connection->rdma_write(segment, piece);
			if (status != IBV_WC_SUCCESS)
				throw Failure{text("RDMA Write of %zu bytes to the %s: %s",
						   piece.size(), what, ibv_wc_status_str(status))};
		}
		if (done < all)
			throw Failure{text("the %s has room for %u bytes, %u are needed", what,
					   done, all)};
		return segments;
	};

	/* In version 1 it is the server's choice. */
	bool invalidate = call.on.remote_invalidation && call.on.vers == rpcordma::v1::version;
	if (call.on.remote_invalidation && call.message.invalidate())
		reply.invalidate = call.message.invalidate();
	if (auto chunk = call.write_chunk(); !chunk.empty()) {
		if (invalidate)
			reply.invalidate = chunk[0].handle.get();
		reply.chunks.write(put(chunk, data, "Write chunk"));
	} else {
		payload.octets(data).octets(Octets(xdr_pad(u32(data.size()))));
	}
	auto chunk = call.reply_chunk();
	u32 room = std::min(call.on.replies_to, most_inline);
	if (!chunk.empty()) {
		reply.chunks.reply_chunk(chunk);
		for (Segment &segment : reply.chunks.reply[0])
			segment.length = 0;
		if (invalidate && !reply.invalidate)
			reply.invalidate = chunk[0].handle.get();
	}
	reply.payload = payload.get();
	if (auto reads = call.read_chunk(); invalidate && !reply.invalidate && !reads.empty())
		reply.invalidate = reads[0].handle.get();
	if (reply.bytes().size() <= room)
		return reply;
	if (const u32 most = call.message.reply_transmissions(); chunk.empty() && most) {
		reply.transmissions = u32((reply.payload.size() + room - 41) / (room - 40));
		if (reply.transmissions <= most)
			return reply;
	}
	if (chunk.empty())
		throw Failure{text("the client offers no Reply chunk for a reply of %zu bytes",
				   reply.bytes().size())};
	reply.chunks.reply[0] = put(chunk, reply.payload, "Reply chunk");
	reply.payload.clear();
	reply.header.proc = u32(Proc::nomsg);
	return reply;
}

std::vector<Octets> Reply::parts(u32 count, u32 each) const
{
	std::vector<Octets> all;

	for (u32 i = 0; i < count; i++) {
		const size_t at = std::min(payload.size(), size_t(i) * each);
		const size_t end = i + 1 == count ? payload.size() :
						    std::min(payload.size(), at + each);
		Words words;

		words.words({header.xid, version_2, header.credits, two_optional, 1,
			     i ? two_xmtcont : two_xmtresp, 12});
		words.words({i, i ? u32(two_xmtresp) : count, u32(end - at)});
		all.push_back(
			words.octets(Octets(payload.begin() + long(at), payload.begin() + long(end)))
				.get());
	}
	return all;
}

void Server::reply(Conversation &on, const Reply &reply)
{
	if (reply.transmissions) {
		const std::vector<Octets> parts =
			reply.parts(reply.transmissions, on.replies_to - 40);

		on.outstanding--;
		granted(on, reply.header.credits);
		for (const Octets &part : parts)
			on.connection->send(part);
		return;
	}
	this->reply(on, reply.bytes(), reply.header.credits, reply.invalidate);
}

void Server::reply(Conversation &on, const Octets &bytes, u32 credits, std::optional<u32> invalidate)
{
	/* Before the client can act on it. */
	on.outstanding--;
	granted(on, credits);
	on.connection->send(bytes, invalidate);
}

void Server::granted(Conversation &on, u32 credits)
{
	if (credits)
		on.granted = credits;
	on.most_granted = std::max(on.most_granted, on.granted);
}

void Server::send(Conversation &on, const Octets &bytes)
{
	on.said++;
	on.connection->send(bytes);
}

/* MOUNT version 3: NULL, and one handle for whoever asks. */
void Server::handle_mount_call_()
{
	u8 room[2048];
	sockaddr_in from;
	socklen_t length = sizeof(from);
	ssize_t n;

	while ((n = recvfrom(mountd_, room, sizeof(room), 0, reinterpret_cast<sockaddr *>(&from),
			     &length)) > 0) {
		Reader in(Octets(room, room + n));
		u32 xid = in.word();
		in.octets(8);
		u32 program = in.word();
		in.word();
		u32 procedure = in.word();
		Words out;
		out.words({xid, 1, 0, 0, 0,
			   program == mount_program ? rpc_success : rpc_program_unavailable});
		if (procedure == 1) /* OK, the handle, one flavour: AUTH_SYS */
			out.word(0).opaque(handle(root_id)).words({1, 1});
		sendto(mountd_, out.get().data(), out.size(), 0,
		       reinterpret_cast<sockaddr *>(&from), length);
		length = sizeof(from);
	}
}

std::unique_ptr<Job> Server::start(const std::string &order)
{
	return std::make_unique<Job>(peer_, client_, order);
}

void Server::finish(Job &job, u64 limit_ms)
{
	if (!run(limit_ms, [&] { return job.ended(); }))
		throw Failure{
			text("the client is not done after %llu ms", (unsigned long long)limit_ms)};
}

int Server::order(const std::string &order, u64 limit_ms)
{
	auto job = start(order);
	finish(*job, limit_ms);
	return job->error();
}

std::unique_ptr<Job> Server::start_mount(const std::string &options)
{
	return start("mount " + address_ +
		     " vers=3,proto=rdma,port=20049,mountvers=3,mountproto=udp," +
		     text("mountport=%u,nolock,noacl,nordirplus", mount_port) +
		     (options.empty() ? "" : ",") + options);
}

void Server::mount(const std::string &options)
{
	auto job = start_mount(options);
	finish(*job);
	if (job->error())
		throw Failure{text("mount: %s", strerror(job->error()))};
}

void Server::umount()
{
	if (int error = order("umount " + address_ + " 0"))
		throw Failure{text("umount: %s", strerror(error))};
}

std::unique_ptr<Job> Server::start_read(u32 offset, u32 count, u32 times)
{
	return start("read " + address_ + " " + odd_file + text(" %u %u %u", offset, count, times));
}

Octets Server::bytes(u32 offset, u32 count) const
{
	return Octets(file_.begin() + offset,
		      file_.begin() + std::min<size_t>(offset + count, file_.size()));
}

void Server::right(Job &job, u32 offset, u32 count)
{
	finish(job);
	if (job.error())
		throw Failure{
			text("reading %u bytes at %u: %s", count, offset, strerror(job.error()))};
	if (job.bytes() != bytes(offset, count))
		throw Failure{text("reading %u bytes at %u: %zu bytes came, not the file's", count,
				   offset, job.bytes().size())};
}

void Server::read(u32 offset, u32 count, u32 times)
{
	auto job = start_read(offset, count, times);
	right(*job, offset, count * times);
}

void Server::write(u32 offset, u32 count, u32 seed)
{
	if (int error = order("write " + address_ + " " + odd_file +
			      text(" %u %u %u", offset, count, seed)))
		throw Failure{text("writing %u bytes at %u: %s", count, offset, strerror(error))};
	Octets want = pattern(count, seed);
	if (!std::equal(want.begin(), want.end(), file_.begin() + offset))
		throw Failure{text("writing %u bytes at %u: others came", count, offset)};
}

void Server::list()
{
	auto job = start("list " + address_);
	finish(*job);
	if (job->error())
		throw Failure{text("listing the directory: %s", strerror(job->error()))};
	expect_names(job->bytes());
}

void Server::expect_names(const Octets &listed) const
{
	std::string want;

	for (const std::string &name : names_in_root())
		if (name[0] != '.')
			want += name + "\n";
	if (std::string(listed.begin(), listed.end()) != want)
		throw Failure{"listing the directory: other names came"};
}

void Server::symlink(const Link &link)
{
	if (int error = order("symlink " + address_ + " " + link.name + " " + link.target))
		throw Failure{text("making a link to a path of %zu bytes: %s", link.target.size(),
				   strerror(error))};
	u32 id = find_(link.name);
	if (!id || links[id - first_link_id].target != link.target)
		throw Failure{text("making a link to a path of %zu bytes: another came",
				   link.target.size())};
}

void Server::readlink(const Link &link)
{
	auto job = start("readlink " + address_ + " " + link.name);
	finish(*job);
	if (job->error())
		throw Failure{text("reading a link of %zu bytes: %s", link.target.size(),
				   strerror(job->error()))};
	if (std::string(job->bytes().begin(), job->bytes().end()) != link.target)
		throw Failure{text("reading a link of %zu bytes: another path came, of %zu",
				   link.target.size(), job->bytes().size())};
}

void Server::set_acl(u32 users)
{
	if (int error = order("acl " + address_ + " " + odd_file + text(" %u", users)))
		throw Failure{text("an ACL of %u users: %s", users, strerror(error))};
	/* Tag, user, permissions (hands.cc); around the users are owner, group, mask, others. */
	Words want;
	want.words({1, 0, 7});
	for (u32 i = 0; i < users; i++)
		want.words({2, 1000 + i, i % 8});
	want.words({4, 0, 7, 0x10, 0, 7, 0x20, 0, 7});
	if (file_acl_ != want.get())
		throw Failure{text("an ACL of %u users: %zu bytes came, not what was set", users,
				   file_acl_.size())};
}

} // namespace verbs
