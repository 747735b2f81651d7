// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/client, on arbitrary messages, R_keys, RDMA accesses and disconnects of its server, through the simulated
 * port. Calls of the simulated consumer are outstanding meanwhile. What one of them is given for its reply is what
 * some message for it says: inline bytes as they came, chunks as they were written to, and no byte else. All that
 * the simulation watches over holds as well: an RPC completes once, with its memory out of reach. In the end an
 * honest server comes, and everything that is still outstanding has to come right with it.
 */
#include "world.hh"

namespace sim {
namespace {

namespace v1 = rpcordma::v1;
namespace v2 = rpcordma::v2;
namespace xdr = rpcordma::xdr;
using rpcordma::Input;

constexpr u32 kUsers = 6, kLongest = 17000;

/* What strangers said, whatever the connection. */
std::multimap<u32, Octets> said;
/* Of it, RPC messages that were said in one or more transmissions of rtrext-01. */
std::multimap<u32, Octets> continued;

/* A reply's buffer, as it would be if the core did nothing to it. */
struct Image {
	rpcordma_xdr_buf buf = {};
	bool taken = false;
	Octets bytes; /* head, pages, tail */

	void take()
	{
		bytes.clear();
		REQUIRE(each_piece(&buf, 0, length(),
				   [&](u8 *at, u32 n) { bytes.insert(bytes.end(), at, at + n); }),
			"a receive buffer is shorter than it says");
		taken = true;
	}
	u32 length() const
	{
		return u32(buf.head.length + buf.page_length + buf.tail.length);
	}
	/* Somebody else wrote to memory. */
	void write(const u8 *at, const u8 *from, u32 n)
	{
		u32 before = 0;

		if (!taken)
			return;
		(void)each_piece(&buf, 0, length(), [&](u8 *piece, u32 size) {
			const u8 *low = std::max<const u8 *>(at, piece);
			const u8 *high = std::min<const u8 *>(at + n, piece + size);

			if (low < high)
				std::memcpy(&bytes[before + u32(low - piece)], from + (low - at),
					    std::size_t(high - low));
			before += size;
		});
	}
	Octets part(u32 offset, u32 n) const
	{
		return {bytes.begin() + offset, bytes.begin() + offset + n};
	}
};

/* A call whose reply may come from a stranger. */
class Asked : public ClientCall {
public:
	explicit Asked(const Call &call) : ClientCall(call)
	{
		all.push_back(this);
	}
	~Asked() override
	{
		all.remove(this);
	}
	void encode(rpc_rqst &rqst) override
	{
		ClientCall::encode(rqst);
		now_ = rqst.receive;
		xid = rqst.xid;
		core_call_ = rpcordma_rqst_call(&rqst);
	}
	void move_border(rpcordma_xdr_buf &receive) override
	{
		ClientCall::move_border(receive);
		now_ = receive;
		moved_ = true;
	}
	/** It is under way: from here on its memory may be written to. Again, on another connection, it may be other memory. */
	void sent()
	{
		rpcordma_xdr_buf to = now_;

		/* Head and tail of a long reply may be received in other memory. */
		if (core_call_->xid == xid) {
			const auto &offered = core_call_->plan.reply_chunk_shape(core_call_->shape);

			if (!core_call_->plan.reply_chunk.empty()) {
				to.head.base = reinterpret_cast<void *>(offered.head_address);
				to.tail.base = reinterpret_cast<void *>(offered.tail_address);
			}
		}
		if (image.taken && !moved_ && to.head.base == image.buf.head.base &&
		    to.tail.base == image.buf.tail.base)
			return;
		image.buf = to;
		image.take();
		moved_ = false;
	}
	void decode(const rpcordma_xdr_buf &buf, u32 length) override
	{
		const auto [first, end] = said.equal_range(xid);

		for (auto it = first; it != end; ++it)
			if (says_(it->second, buf, length)) {
				decoded = true;
				return;
			}
		const auto [begin, behind] = continued.equal_range(xid);
		for (auto it = begin; it != behind; ++it)
			if (carries_(it->second, buf, length)) {
				decoded = true;
				return;
			}
		/* Then it is an honest server's. */
		REQUIRE(!fabric->strangers, "xid %#x: nobody said this reply of %u bytes", xid,
			length);
		ClientCall::decode(buf, length);
	}

	static std::list<Asked *> all;
	Image image;
	u32 xid = 0;

private:
	const rpcordma_call *core_call_ = nullptr;
	/* As it was encoded last; the image is of what was sent. Chunks are written to that, and go by its border. */
	rpcordma_xdr_buf now_ = {};
	bool moved_ = false;

	u32 whole_() const
	{
		return u32(now_.head.length + now_.page_length + now_.tail.length);
	}

	/* Whether @buf and @length are what should come of @stream, a whole reply; a pad at its end may have no room. */
	bool carries_(const Octets &stream, const rpcordma_xdr_buf &buf, u32 length) const
	{
		const u32 n = std::min(u32(stream.size()), whole_());
		Octets is;

		(void)each_piece(&buf, 0, std::min(length, buf.buflen),
				 [&](u8 *at, u32 size) { is.insert(is.end(), at, at + size); });
		return length == n && is.size() == n &&
		       std::equal(is.begin(), is.end(), stream.begin());
	}

	/* Whether @message is a reply of which @buf and @length are what should come of it. */
	bool says_(const Octets &message, const rpcordma_xdr_buf &buf, u32 length) const
	{
		const auto result = understood(message);
		if (!result.ok())
			return false;
		const xdr::Message &header = result.value();
		const Octets payload = octets(header.payload);
		const u32 whole = whole_(), head = u32(now_.head.length);
		/* A pad at the end may have no room. */
		Octets is;
		(void)each_piece(&buf, 0, std::min(length, buf.buflen),
				 [&](u8 *at, u32 n) { is.insert(is.end(), at, at + n); });
		const auto has = [&is](u32 at, const Octets &bytes) {
			return at + bytes.size() <= is.size() &&
			       std::equal(bytes.begin(), bytes.end(), is.begin() + at);
		};

		if (header.kind == xdr::Kind::nomsg) {
			const u64 n = header.reply.length();

			return n == length && n <= whole &&
			       (!image.taken || (is.size() == n && has(0, image.part(0, u32(n)))));
		}
		const u32 written = u32(header.writes.total_length()), n = u32(payload.size());
		if (!written)
			return length == std::min(n, whole) && is.size() == length &&
			       has(0, {payload.begin(), payload.begin() + length});
		const u32 front = std::min(n, head), pad = rpcordma::xdr_pad(written);
		if (written > now_.page_length || length < front + written + pad)
			return false;
		const u32 rest = length - front - written - pad;
		/* The tail may be too short for all of it. */
		if (rest > n - front || (rest < n - front && rest + pad < now_.tail.length))
			return false;
		return has(0, {payload.begin(), payload.begin() + front}) &&
		       (!image.taken ||
			has(front, image.part(u32(image.buf.head.length), written))) &&
		       has(front + written + pad,
			   {payload.begin() + front, payload.begin() + front + rest});
	}
};
std::list<Asked *> Asked::all;

/* Of a connection, the server's end. */
class HostileServer : public Stranger {
public:
	HostileServer() : Stranger("hostile server")
	{
	}
	bool tell(Octets message, u32 invalidate = 0)
	{
		const u32 xid = xid_of(message);

		/* It may be heard before say() returns. */
		const auto it = said.emplace(xid, message);
		if (told_.add(message) == Transmissions::What::last)
			continued.emplace(xid, told_.stream());
		if (say(message, invalidate))
			return true;
		said.erase(it);
		return false;
	}
	void heard(const Octets &message, u32 invalidated) override
	{
		REQUIRE(!invalidated, "a requester invalidates its server's memory");
		const auto fixed = rpcordma::xdr::peek(view(message));
		/* ERR_VERS echoes whatever version there was. */
		if (fixed.ok() && fixed.value().vers != v1::version &&
		    fixed.value().vers != v2::version) {
			REQUIRE(fixed.value().proc == u32(v1::Proc::error), "version %u is spoken",
				fixed.value().vers);
			return;
		}
		const auto header = understood(message);
		REQUIRE(header.ok(), "a message of ours does not decode");
		/* What is about the connection may have any xid, and so may a reply to a backward call. */
		for (Asked *call : Asked::all)
			if (header.value().kind <= xdr::Kind::nomsg &&
			    header.value().direction == xdr::Direction::call &&
			    call->xid == header.value().xid.get()) {
				call->sent();
				require_call_(header.value());
			}
		/* The same of one that is whole with this transmission. */
		if (asked_.add(message) == Transmissions::What::last)
			(void)check_call(asked_.stream());
		const auto keep = [this](const xdr::Segment &segment) {
			segments.push_back(segment);
		};
		for (xdr::ReadSegment segment : header.value().reads)
			keep(segment.target);
		for (xdr::WriteChunk chunk : header.value().writes)
			for (xdr::Segment segment : chunk)
				keep(segment);
		for (xdr::Segment segment : header.value().reply)
			keep(segment);
		messages.push_back(message);
	}
	bool reached(u64, u32, u32, u8 *, Access) override
	{
		fail("a requester reaches for its server's memory");
	}
	bool access(const xdr::Segment &at, Access how, u8 fill)
	{
		static u8 bytes[65536];

		std::memset(bytes, fill, std::min<u32>(at.length, sizeof(bytes)));
		device_wrote = [](u8 *to, const u8 *from, u32 n) {
			for (Asked *call : Asked::all)
				call->image.write(to, from, n);
		};
		const bool done = reach(at.offset, at.handle.get(),
					std::min<u32>(at.length, sizeof(bytes)), bytes, how);
		device_wrote = nullptr;
		return done;
	}

	std::vector<Octets> messages;	    /* that it heard */
	std::vector<xdr::Segment> segments; /* that were offered in them */

private:
	Transmissions told_, asked_;

	/* If all of a call is in @message, it is what the consumer made, however long. */
	static void require_call_(const xdr::Message &message)
	{
		const Octets payload = octets(message.payload);

		if (message.kind == xdr::Kind::msg && message.reads.empty() &&
		    payload.size() >= 8 && !xdr::load_be32(&payload[4]))
			(void)check_call(payload);
	}
};

/* Whoever calls back says any bytes, and is answered some. */
class Callbacks : public CallbackService {
public:
	using CallbackService::CallbackService;

protected:
	Octets answer(u32 xid, const Octets &call) override
	{
		const auto [first, end] = said.equal_range(xid);
		bool known = false;

		for (auto it = first; it != end; ++it) {
			const auto message = understood(it->second);
			known = known || (message.ok() && octets(message.value().payload) == call);
		}
		REQUIRE(known, "nobody said this backward call, xid %#x", xid);
		/* Up to what has no room in a message. */
		Octets reply(24 + xid * 977 % 4000, 0x77);
		xdr::store_be32(&reply[0], xid);
		xdr::store_be32(&reply[4], 1);
		return reply;
	}
};

class Play {
public:
	explicit Play(Input &in) : in_(in), ground_(in)
	{
	}

	void run()
	{
		said.clear();
		continued.clear();
		private_data_ = private_data_of(in_, invalidation_);
		const bool called_back = in_.byte() & 1;
		fabric->listener = [this](const std::shared_ptr<CmId> &id, u32, const Octets &) {
			servers_.push_back(std::make_unique<HostileServer>());
			return servers_.back()->accept(id, private_data_);
		};
		xprt_ = rpc_xprt::create("client");
		if (called_back) {
			callbacks_ = std::make_unique<Callbacks>(*xprt_);
			REQUIRE(callbacks_->start(), "there is no backchannel");
		}
		for (u32 i = 0; i < kMostSteps && !in_.empty(); i++)
			step_();
		set_faults(0);
		check_receives_();
		make_peace_();
	}

private:
	struct User {
		Task *task = nullptr;
		bool killed = false;
	};

	HostileServer *server_() const
	{
		return servers_.empty() ? nullptr : servers_.back().get();
	}
	/* The xid of one of the calls that the server has heard of. */
	u32 some_xid_(u8 which) const
	{
		const HostileServer *server = server_();

		return server && !server->messages.empty() ?
			       xid_of(server->messages[which % server->messages.size()]) :
			       which;
	}

	void call_(u32 number, u8 how)
	{
		User &user = users_[number];
		Call call;

		call.id = ++calls_;
		call.kind = Kind(how % u32(Kind::count));
		call.sealed = how & 0x80;
		call.call_data = in_.below(kLongest);
		call.reply_data = in_.below(kLongest);
		if (call.kind == Kind::null)
			call.call_data = call.reply_data = 0;
		else if (call.kind == Kind::small)
			call.call_data %= 2000, call.reply_data %= 2000;
		else if (call.kind == Kind::write || call.kind == Kind::linking)
			call.reply_data %= 100;
		else if (call.kind != Kind::both)
			call.call_data %= 100;
		busy_++;
		/* Before anybody else runs, so that no second one begins. */
		auto asked = std::make_shared<Asked>(call);
		auto task = std::make_shared<Task>(*xprt_, *asked, false);
		user.task = task.get();
		user.killed = false;
		spawn("user " + std::to_string(number), Context::process, [this, &user, asked, task] {
			const int rc = task->run();

			TRACE("call: %d", rc);
			REQUIRE(rc || asked->decoded, "a call ended well without a reply");
			REQUIRE(!rc || user.killed || said.count(asked->xid),
				"a call that nobody gave up failed with %d, and no stranger is to "
				"blame",
				rc);
			user.task = nullptr;
			busy_--;
			left_.wake_all();
		});
	}

	/* An answer to the question for version 2: properties, or any error. */
	void answer_question_(HostileServer &server, rpcordma::Xid xid, u8 how, u32 more, u32 error)
	{
		Octets message(v2::most_connprop_length);
		const rpcordma::MutableBytes room(message.data(), message.size());
		const rpcordma::Credits credits(how >> 4);
		/* All of rtrext-01 that a server of ours does, or nothing. */
		const auto reduction = rpcordma::protocol::server_reduction(
			how & 4 ? rpcordma_server_tunables.version2_rtr : 0);
		const auto end = error ? v2::encode_error(room, {xid, 2, {}, 0}, credits,
							  {static_cast<xdr::ErrorCode>(error % 6),
							   more & 3, more >> 2 & 3}) :
					 rpcordma::protocol::encode_properties(room, xid, credits,
									       {kPageSize + more},
									       how & 3, reduction);

		message.resize(end.value());
		server.tell(message);
	}

	/*
	 * A reply to a call that was heard, with its chunks, of which as much is written as is said; @more bytes of it are
	 * inline beyond what a byte says.
	 */
	void answer_(u32 more)
	{
		HostileServer *server = server_();
		const u8 which = in_.byte(), how = in_.byte();
		const u32 written = in_.half(), replied = in_.half(), size = in_.byte();

		if (!server || server->messages.empty())
			return;
		/* Its own: a message may come while this is at work. */
		const Octets call = server->messages[which % server->messages.size()];
		const xdr::Message offered = understood(call).value();
		if (offered.kind == xdr::Kind::connprop)
			return answer_question_(*server, offered.xid, how, written, replied);
		Octets message(2048);
		const rpcordma::MutableBytes room(message.data(), message.size());
		const auto kind = replied ? xdr::Kind::nomsg : xdr::Kind::msg;
		const rpcordma::Credits credits(how >> 4);
		u32 key = 0;
		const auto fill = [&](const xdr::WriteChunk &chunk, u32 length) {
			const u32 claimed = u32(std::min<u64>(length, chunk.length()));
			u32 left = how & 1 ? 0 : claimed;

			for (xdr::Segment segment : chunk) {
				key = segment.handle.get();
				segment.length = std::min(segment.length, left);
				left -= segment.length;
				if (segment.length)
					(void)server->access(segment, Access::write, u8(how + left));
			}
			return claimed;
		};
		const auto finish = [&](auto &&encoder) {
			for (xdr::WriteChunk chunk : offered.writes)
				encoder.write_chunk(chunk, fill(chunk, written));
			if (offered.reply.present())
				encoder.reply_chunk(offered.reply, fill(offered.reply, replied));
			return encoder.finish();
		};
		/* Of the call's version, in most cases. */
		const auto end = (offered.version == 2) != bool(how & 8) ?
					 finish(v2::Encoder(room, offered.xid, credits, kind,
							    xdr::Direction::reply, {})) :
					 finish(v1::Encoder(room, offered.xid, credits, kind));
		if (!end.ok())
			return;
		message.resize(end.value());
		/* No two pages are alike, of this reply or another. */
		said_++;
		for (u32 n = 0; n < size + more; n++)
			message.push_back(n < 4	 ? message[n] :
					  n == 7 ? 1 :
					  n < 8	 ? 0 :
						   u8(n + (n >> 8) * 3 + said_ * 7));
		for (xdr::ReadSegment segment : offered.reads)
			key = segment.target.handle.get();
		server->tell(message, how & 2 ? key + (how & 4 ? 1 : 0) : 0);
	}

	/* An access to memory that was offered once, or near it. */
	void access_()
	{
		HostileServer *server = server_();
		const u8 which = in_.byte(), how = in_.byte();
		const u32 offset = in_.half(), length = in_.half();

		if (!server || server->segments.empty())
			return;
		xdr::Segment at = server->segments[which % server->segments.size()];
		if (how & 2)
			at.handle = rpcordma::Rkey(at.handle.get() + (how & 4 ? 1 : 256));
		at.offset += how & 8 ? u64(0) - offset : offset;
		at.length = how & 16 ? at.length + length : length;
		(void)server->access(at, how & 1 ? Access::read : Access::write, how);
	}

	/* Things that befall a connection. */
	void befall_(u8 what)
	{
		HostileServer *server = server_();

		switch (what) {
		case 0:
			if (server)
				server->leave();
			break;
		case 1:
			if (server)
				server->fall_silent();
			break;
		case 2:
			if (server)
				server->receives = in_.byte() & 3;
			break;
		case 3:
			if (server)
				server->receives = ~0u;
			break;
		case 4:
			for (auto &[number, id] : fabric->client.ids) {
				break_connection(*id);
				break;
			}
			break;
		case 5:
			if (in_.byte() & 1)
				rpcordma_core_client_inject_disconnect(xprt_->core);
			else
				xprt_->close_idle();
			break;
		case 6:
			if (server)
				(void)server->tell(Octets(4000 + in_.half() % 8000, 0x55));
			break;
		case 7: {
			Call call;

			call.id = ++calls_;
			call.kind = Kind::small;
			call.call_data = in_.byte();
			const u8 which = in_.byte();
			const u32 xid = which & 7;
			Octets message(which & 8 ? v2::min_header_length : v1::min_header_length);
			const rpcordma::MutableBytes room(message.data(), message.size());
			(void)(which & 8 ? v2::encode_bare(room, rpcordma::Xid(xid),
							   rpcordma::Credits(16),
							   xdr::Direction::call, {}) :
					   v1::encode_bare(room, rpcordma::Xid(xid),
							   rpcordma::Credits(16)));
			const Octets bytes = call_bytes(call, xid);
			message.insert(message.end(), bytes.begin(), bytes.end());
			if (server)
				(void)server->tell(message);
			break;
		}
		}
	}

	void step_()
	{
		const u8 what = in_.byte();
		const u32 number = (what >> 3) % kUsers;

		TRACE("step %#x", what);
		switch (what & 7) {
		case 0: { /* a call */
			const u8 how = in_.byte();

			if (users_[number].task)
				return;
			call_(number, how);
			break;
		}
		case 1: /* time */
			settle((1 + in_.byte()) * 300 * kMillisecond);
			break;
		case 2: /* somebody gives up */
			users_[number].killed = true;
			if (users_[number].task)
				users_[number].task->kill();
			break;
		case 3: { /* any bytes; with a call's xid, in most cases */
			const u8 whose = in_.byte();
			Octets message = octets(in_.take(in_.half()));
			/* Before it has two xids. */
			const auto header = understood(message);

			if (!(what & 8) && message.size() >= 4)
				xdr::store_be32(message.data(), some_xid_(whose));
			/* The payload's as well. */
			const bool begins = header.ok() &&
					    (header.value().kind == xdr::Kind::msg ||
					     header.value().option == xdr::Option::xmtresp);
			if (!(what & 24) && begins && header.value().payload.size() >= 4)
				xdr::store_be32(message.data() + header.value().header_length,
						some_xid_(whose));
			if (server_())
				(void)server_()->tell(message);
			break;
		}
		case 4:
			access_();
			break;
		case 5:
			answer_(more_bytes(what));
			break;
		case 6:
			befall_((what >> 3) & 7);
			break;
		case 7:
			set_faults(in_.byte());
			break;
		}
		if (!(what & 0x80) || (what & 7) == 0)
			settle();
	}

	/*
	 * No Receive was lost: each is posted, of a reply that has begun and has not ended, or one of less than a batch that
	 * wait. With faults there may be fewer, and while a call waits for its memory that one holds a Receive.
	 */
	void check_receives_()
	{
		const HostileServer *server = server_();

		settle(kSecond);
		const auto qp = server ? server->other() : nullptr;
		if (!qp || qp->state != Qp::State::connected || !xprt_->core->connection)
			return;
		const auto &connection = *xprt_->core->connection;
		const u32 provided = connection.receive_queue.provided();
		u32 begun = 0;
		for (auto *part = connection.groups.first(); part; part = part->next)
			begun++;
		REQUIRE(begun < rpcordma::protocol::kReplyTransmissions,
			"%u transmissions are kept of a reply that has begun", begun);
		REQUIRE(qp->receives_posted() + begun > provided,
			"%u Receives are posted and %u of a reply that has begun, where %u are "
			"promised and there are %u more",
			qp->receives_posted(), begun, provided, rpcordma::ReceiveQueue::kBatch);
	}

	/* The honest server comes. */
	void make_peace_()
	{
		FileService files;
		ServerModule module;

		/* First all of the others are gone, and known to be. */
		fabric->listener = nullptr;
		for (auto &server : servers_)
			server->leave();
		settle();
		fabric->strangers = false;
		REQUIRE(module.start(), "the server does not start");
		Service service(files, 2, kInputMaxMessage);
		(void)service.listen();
		call_last_();
		while (busy_)
			(void)wait(left_, "calls to come right");
		if (callbacks_)
			callbacks_->stop();
		xprt_->destroy();
		service.stop();
		module.end();
		sleep_for(10 * kSecond, "the fabric to come to rest");
	}

	/* One that nobody interferes with. */
	void call_last_()
	{
		Call call;

		call.id = ++calls_;
		call.kind = Kind::both;
		call.call_data = call.reply_data = 3001;
		ClientCall last(call);
		Task task(*xprt_, last, false);
		const int rc = task.run();
		REQUIRE(!rc && last.decoded, "the next server does not serve: %d", rc);
	}

	Input &in_;
	Ground ground_;
	Octets private_data_;
	bool invalidation_ = false;
	rpc_xprt *xprt_ = nullptr;
	std::unique_ptr<Callbacks> callbacks_;
	std::vector<std::unique_ptr<HostileServer>> servers_;
	User users_[kUsers];
	u32 busy_ = 0, calls_ = 0, said_ = 0;
	WaitQueue left_;
};

void story(Input &in)
{
	Play(in).run();
}

} // namespace
} // namespace sim

FUZZ_TARGET()
{
	sim::in_world(sim::story);
}
