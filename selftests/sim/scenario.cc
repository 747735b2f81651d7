// SPDX-License-Identifier: GPL-2.0-only
/*
 * A run: two hosts with devices of some capability, a service, clients that come, make calls and go, and
 * what befalls them meanwhile. Then the faults end, and everything that was begun has to come out right:
 * each call ends, with the right bytes if nobody gave it up, and nothing is left of anything.
 */
#include "selftests/sim/scenario.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "module/client/audit.hh"
#include "module/server/failures.hh"
#include "module/server/server.hh"
#include "selftests/sim/consumer.hh"
#include "selftests/sim/swarm.hh"

namespace sim {
namespace {

u32 next_id;

/* One SGE for each work request there always is. */
u32 draw_most_sges()
{
	return chance.one_in(6) ? chance.between(1000, 8000) : 0;
}

std::unique_ptr<Device> make_device(const char *name, bool crowded)
{
	static const u32 page_lists[] = {32, 64, 256, 512, 1024};
	static const u32 sges[] = {1, 4, 6, 16, 30, 32};
	auto device = std::make_unique<Device>(name);
	rpcordma_device &limits = device->limits;

	std::strncpy(limits.name, name, sizeof(limits.name) - 1);
	limits.fast_registration = true;
	limits.sg_gaps = chance.one_in(4);
	limits.max_fast_reg_pages = chance.any_of(page_lists);
	/* What is large takes many work requests then, and there are few. */
	const bool tight = swarm.large && chance.one_in(2);
	limits.max_send_sge = tight ? 1 : chance.any_of(sges);
	limits.max_sge_rd = tight ? 1 : chance.any_of(sges);
	limits.max_recv_sge = chance.any_of(sges);
	limits.max_sgl_rd = chance.one_in(3) ? chance.between(1, 16) : 0;
	const bool short_queues = crowded || tight || chance.one_in(3);
	limits.max_qp_wr = limits.max_cqe = short_queues ? chance.between(220, 400) : 4096;
	limits.max_qp_rd_atom = chance.between(1, 16);
	limits.max_qp_init_rd_atom = chance.between(1, 16);
	limits.page_size = kPageSize;
	/* A device may have smaller ones than the kernel. */
	limits.mr_page_size = kPageSize > 4096 && chance.one_in(2) ? 4096 : kPageSize;
	if (chance.one_in(4)) {
		/* iWARP: one SGE in a Read, and a region for its sink. */
		limits.read_needs_region = true;
		limits.max_sge_rd = 1;
		limits.max_fast_reg_pages = std::max(limits.max_fast_reg_pages, 128u);
	}
	device->most_sges = draw_most_sges();
	return device;
}

/* Not good enough: it has to be refused, in words, and nothing else must come of it. */
void weaken(rpcordma_device &limits)
{
	switch (chance.below(3)) {
	case 0:
		limits.fast_registration = false;
		break;
	case 1:
		limits.max_qp_wr = chance.between(8, 50);
		break;
	case 2:
		limits.read_needs_region = true;
		limits.mr_page_size = 4096;
		limits.max_fast_reg_pages = 2;
		break;
	}
}

/* No regions at all; or as short as they may be, and queues too, which are too little together on iWARP. */
void starve(rpcordma_device &limits)
{
	static const u32 pages[] = {0, 8, 9, 10};

	if (!chance.one_in(4))
		return;
	limits.fast_registration = limits.read_needs_region = true;
	limits.max_fast_reg_pages = chance.any_of(pages);
	limits.max_qp_wr = chance.between(50, 66);
}

void draw_tunables(bool crowded, u32 &max_message)
{
	static const u32 messages[] = {16384, 16384, 65536, 65536, 65536, 262144, 262144, 1048576};

	rpcordma_tunables.slot_table_entries = crowded ? 64 : chance.between(4, 20);
	rpcordma_tunables.max_inline_read = swarm.draw_inline();
	rpcordma_tunables.max_inline_write = swarm.draw_inline();
	rpcordma_tunables.scratch_remap = chance.one_in(2);
	rpcordma_server_tunables.max_requests = crowded ? 64 : chance.between(4, 32);
	rpcordma_server_tunables.max_req_size = swarm.draw_inline();
	rpcordma_server_tunables.max_outbound_read_requests = chance.between(1, 16);
	rpcordma_server_tunables.eager_read_bytes = chance.one_in(4) ? 1 : 0;
	rpcordma_server_tunables.rnr_retry_count = 7;
	/* nfsd has some pages for each, however large they are. */
	max_message = std::max(swarm.large ? 1u << 20 : chance.any_of(messages), 4 * kPageSize) +
		      kPageSize;
}

/* --- versions --- */

/* With the version that tests alone have there is no other. */
#ifdef RPCORDMA_TEST_VERSION
static constexpr bool kVersion2 = false;
#else
static constexpr bool kVersion2 = true;
#endif

/* What one end is set to, or another server is that comes in its place. */
void draw_version2(u32 &parameter)
{
	static const u32 choices[] = {0, 1, 1, 2};

	if (!kVersion2)
		return;
	parameter = chance.any_of(choices);
	VersionMemory::changes++;
	TRACE("version2 is %u at the client, %u at the server", rpcordma_tunables.version2,
	      rpcordma_server_tunables.version2);
}

/* Pages behind the heads of messages, and what a server may spend on them: nothing, not enough for one, plenty. */
void draw_pages()
{
	static const u32 pages[] = {0, 1, 4, 4, 4, 4, 4, 16};
	static const unsigned long bytes[] = {0, 512 << 10, 64 << 20, 64 << 20, 64 << 20, 64 << 20};

	rpcordma_tunables.version2_pages = chance.any_of(pages);
	rpcordma_server_tunables.version2_pages = chance.any_of(pages);
	rpcordma_server_tunables.version2_receive_bytes = chance.any_of(bytes);
}

/* Round-trip reduction: mostly none or all of it, at each end. */
void draw_reduction()
{
	static const u32 bits[] = {0, 0, 7, 7, 7, 7, 5, 3};

	static const u32 items[] = {0, 20000, 65536, 65536, 65536, 262144};

	rpcordma_tunables.version2_rtr = chance.any_of(bits);
	rpcordma_server_tunables.version2_rtr = chance.any_of(bits);
	rpcordma_tunables.send_write_max = chance.any_of(items);
	rpcordma_tunables.send_read_max = chance.any_of(items);
}

/* A run in which most WRITEs may go in Sends: both ends have what that takes, and there are calls enough to grow. */
bool placing;

void draw_placing()
{
	static const u32 pages[] = {4, 4, 4, 2, 16};

	rpcordma_tunables.version2 = rpcordma_server_tunables.version2 = 1;
	rpcordma_tunables.version2_rtr = rpcordma_server_tunables.version2_rtr = 7;
	rpcordma_tunables.version2_pages = rpcordma_server_tunables.version2_pages =
		chance.any_of(pages);
	rpcordma_server_tunables.version2_receive_bytes = 64 << 20;
	rpcordma_tunables.send_write_max = chance.one_in(2) ? 65536 : 262144;
	rpcordma_tunables.send_read_max = chance.one_in(2) ? 65536 : 262144;
	rpcordma_tunables.slot_table_entries = chance.between(16, 40);
	rpcordma_server_tunables.max_requests = 64;
}

/* In half of the runs there is version 2 at either end; then sizes mostly do not forbid it. */
void draw_versions()
{
	placing = false;
	rpcordma_tunables.version2 = rpcordma_server_tunables.version2 = 0;
	rpcordma_tunables.version2_pages = rpcordma_server_tunables.version2_pages = 0;
	rpcordma_tunables.version2_rtr = rpcordma_server_tunables.version2_rtr = 0;
	rpcordma_tunables.send_write_max = rpcordma_tunables.send_read_max = 0;
	if (chance.one_in(2))
		return;
	draw_reduction();
	draw_version2(rpcordma_tunables.version2);
	draw_version2(rpcordma_server_tunables.version2);
	draw_pages();
	if (!kVersion2 || chance.one_in(8))
		return;
	placing = chance.one_in(5);
	if (placing)
		draw_placing();
	for (u32 *size : {&rpcordma_tunables.max_inline_read, &rpcordma_tunables.max_inline_write,
			  &rpcordma_server_tunables.max_req_size})
		*size = std::max(*size, rpcordma::properties::default_receive_size);
}

/* --- the client's calls --- */

/* What is around a call's data is longer than the smallest Receive of version 2, or that of its reply. */
void widen(Call &call)
{
	if (chance.one_in(2))
		call.wide_call = chance.between(980, 1900);
	/* All of it, a pad among it, is in one page of the service's; so are a few bytes of data. */
	const u32 others = call.reply_front() + call.back() + (call.kind == Kind::write ? 104 : 4);
	if (chance.one_in(2))
		call.wide_reply = (4096 - others) / 4 - chance.below(16);
}

/* What may go in Sends. */
Kind draw_placed()
{
	return chance.one_in(4) ? Kind::read : Kind::write;
}

Call draw_call(u32 max_message, bool crowded)
{
	/* As nfsd's: a page is for what is around the data. */
	u32 most = max_message - kPageSize;
	Call call;

	call.id = ++next_id;
	/* In a crowd, those that take most of a send queue. */
	call.kind = crowded && !chance.one_in(4) ? Kind::listing : swarm.draw_kind();
	const bool to_place = placing && chance.one_in(2);
	if (to_place)
		call.kind = draw_placed();
	call.credential = chance.below(20);
	call.verifier = chance.below(10);
	call.sealed = chance.one_in(5);
	call.changes = call.kind != Kind::null && call.kind != Kind::read &&
		       call.kind != Kind::listing && !chance.one_in(4);
	if ((call.kind == Kind::write || call.kind == Kind::read || call.kind == Kind::both) &&
	    chance.one_in(8)) {
		widen(call);
		most -= 2 * kPageSize;
	}
	switch (call.kind) {
	case Kind::null:
	case Kind::count:
		break;
	case Kind::small:
		call.call_data = chance.below(2000);
		call.reply_data = chance.below(2000);
		swarm.to_the_limit(call);
		break;
	case Kind::write:
	case Kind::linking:
		call.call_data = to_place ? chance.between(1, std::min(most, 80000u)) :
					    swarm.draw_length(most);
		call.reply_data = chance.below(100);
		break;
	case Kind::read:
	case Kind::listing:
		call.call_data = chance.below(100);
		call.reply_data = crowded  ? 8192 + chance.below(4000) :
				  to_place ? chance.between(1, std::min(most, 80000u)) :
					     swarm.draw_length(most);
		break;
	case Kind::both:
		call.call_data = swarm.draw_length(most / 2);
		call.reply_data = swarm.draw_length(most / 2);
		break;
	}
	return call;
}

/* Clients that have users. */
u32 busy;

/* What is out at the server while nobody calls. */
std::string server_unrest();

/* Version 2 may come up. */
bool versions_matter()
{
	return rpcordma_tunables.version2 && rpcordma_server_tunables.version2;
}

/** A client: a transport and the users of its mount. */
class Client {
public:
	Client(const char *name, u32 most_users, u32 max_message, bool called_back, bool hopeless)
		: name_(name),
		  most_users_(most_users),
		  max_message_(max_message),
		  called_back_(called_back),
		  hopeless_(hopeless)
	{
	}

	/** From mount to unmount. */
	void live()
	{
		busy++;
		while (!(xprt_ = rpc_xprt::create(name_)))
			sleep_for(100 * kMillisecond, "memory for a transport");
		std::unique_ptr<CallbackService> callbacks;
		if (called_back_) {
			callbacks = std::make_unique<CallbackService>(*xprt_);
			callbacks->drops = chance.one_in(4) ? 8 : 0;
			while (!callbacks->start(chance.one_in(3) ? 3 : 1))
				sleep_for(100 * kMillisecond, "memory for the backchannel");
		}
		const u32 users = swarm.large ?
					  chance.between(1, 4) :
					  chance.between(most_users_ > 12 ? 30 : 1, most_users_);
		leaving_ = false;
		for (u32 i = 0; i < users; i++) {
			users_++;
			spawn(std::string(name_) + " user " + std::to_string(i), Context::process,
			      [this] { use_(); });
		}
		while (users_)
			(void)wait(user_left_, "a client's users");
		if (!hopeless_ && !leaving_ && versions_matter() && chance.one_in(6))
			linger_();
		/* Who calls back looks for its reply for two minutes, if the connection is there so long. */
		if (callbacks && !leaving_ && chance.one_in(4))
			sleep_for(130 * kSecond, "backward replies to be missed");
		if (callbacks)
			callbacks->stop();
		busy--;
		come_to_rest_();
		rpc_xprt *xprt = xprt_;
		xprt_ = nullptr;
		while (injecting_)
			(void)wait(user_left_, "who breaks the connection by hand");
		xprt->destroy();
	}

	/** The network namespace goes, and takes the mount along: every call is killed. */
	void leave()
	{
		TRACE("%s: its namespace goes", name_);
		leaving_ = true;
		for (Task *task : tasks_)
			task->kill();
	}

	/** What debugfs and sunrpc ask about the transport. */
	void watch()
	{
		rpcordma_client_state state;

		if (!xprt_)
			return;
		injecting_++;
		rpcordma_core_client_state(xprt_->core, &state);
		port_call();
		REQUIRE(rpcordma_core_max_payload() && rpcordma_core_bc_slots(xprt_->core) &&
				rpcordma_core_bc_max_payload(xprt_->core),
			"%s: no payload, or no backward slots", name_);
		injecting_--;
		user_left_.wake_all();
	}

	/** What an administrator, or idleness, does to a connection. */
	void disconnect()
	{
		if (!xprt_)
			return;
		injecting_++;
		if (chance.one_in(2))
			rpcordma_core_client_inject_disconnect(xprt_->core);
		else
			xprt_->close_idle();
		injecting_--;
		user_left_.wake_all();
	}

private:
	/*
	 * Nobody calls any more. Replies that are owed come, or their connection goes: then nothing that
	 * the client counts is out; nor the server, where no other client has users.
	 */
	void come_to_rest_()
	{
		constexpr u32 kPatience =
			300; /* replies may be overdue for a minute, and connecting takes time */
		rpcordma::ClientAudit a;
		std::string server;

		for (u32 i = 0; i < kPatience; i++) {
			a = rpcordma::audit(*xprt_->core);
			server = busy ? std::string() : server_unrest();
			if (a.at_rest() && server.empty() && !has_credits_())
				return;
			sleep_for(kSecond, "client and server to come to rest");
		}
		REQUIRE(!a.at_rest() || !has_credits_(),
			"%s: nobody calls, and %u credits are taken", name_, xprt_->in_flight);
		REQUIRE(!a.at_rest(), "nobody calls, and a server's connection has %s",
			server.c_str());
		REQUIRE(false,
			"%s: nobody calls, and %u of %u calls are free, %u zombies, %u unfenced; "
			"backward %u of %u, %u owners; regions %u of %u, %u mapped; %u reserved, "
			"%u markers, %llu lost",
			name_, a.free, a.calls, a.zombies, a.unfenced, a.backward_free, a.backward,
			a.owners, a.listed, a.regions, a.mapped, a.reserved, a.markers,
			static_cast<unsigned long long>(a.lost));
	}

	/* Of a connection that lasts: the next one begins with none taken. */
	bool has_credits_() const
	{
		const rpcordma::Connection *c = xprt_->core->connection;

		return xprt_->in_flight && c && !c->broken.load();
	}

	void use_()
	{
		const u32 calls = swarm.large ? chance.between(1, 4) :
				  placing     ? chance.between(8, 20) :
						chance.between(1, 12);
		const u32 kill_odds = chance.one_in(3) ? 4 : 0;

		for (u32 i = 0; i < calls && !leaving_; i++) {
			if (chance.one_in(4))
				sleep_for(chance.below(5000) * swarm.pace, "a user's mood");
			one_call_(chance.one_in(kill_odds));
		}
		users_--;
		user_left_.wake_all();
	}

	/* So long that a server that did not speak version 2 is asked again, over the next connection. */
	void linger_()
	{
		sleep_for(kAvoidance + 20 * kSecond, "a server to be asked again");
		disconnect();
		users_++;
		use_();
	}

	void one_call_(bool kill)
	{
		const bool soft = chance.one_in(4);
		const Call what = draw_call(max_message_, most_users_ > 12);
		ClientCall call(what);
		auto task = std::make_shared<Task>(*xprt_, call, soft);

		if (kill) {
			const u64 patience = chance.one_in(2) ? chance.below(300) :
								chance.below(20000);
			spawn_after(patience, "a signal", Context::process,
				    [weak = std::weak_ptr<Task>(task)] {
					    if (auto victim = weak.lock())
						    victim->kill();
				    });
		}
		tasks_.push_back(task.get());
		if (leaving_)
			task->kill();
		const int rc = task->run();
		tasks_.remove(task.get());
		TRACE("call: %d", rc);
		if (!rc)
			REQUIRE(call.decoded, "a call ended well without a reply");
		else
			/* By a signal, or a soft call that had no connection; the reason has to be in effect. */
			REQUIRE(task->may_fail() || hopeless_,
				"a call that nobody gave up failed with %d", rc);
		if (!rc && std::max(what.call_data, what.reply_data) == 1 << 20)
			Swarm::full_payloads++;
	}

	const char *name_;
	u32 most_users_, max_message_;
	bool called_back_, hopeless_, leaving_ = false;
	rpc_xprt *xprt_ = nullptr;
	std::list<Task *> tasks_;
	u32 users_ = 0, injecting_ = 0;
	WaitQueue user_left_;
};

/* The one that there is, if any. */
Service *serving;

std::string server_unrest()
{
	if (!serving)
		return {};
	const std::string connections = serving->unrest();

	if (!connections.empty())
		return connections;
	if (serving->connections() > 1)
		return {}; /* those that are on their way out */
	if (rpcordma::eager_total.bytes() || rpcordma::eager_total.users())
		return "a share of the eager budget";
	if (rpcordma::server_pool.lent_pages())
		return "pages of the pool";
	return {};
}

/** A run's cast, and what befalls them. */
class Play {
public:
	Play()
	{
		draw_tunables(crowded_, max_message_);
		draw_versions();
		changing_ = rpcordma_tunables.version2 + rpcordma_server_tunables.version2 &&
			    chance.one_in(2);
		for (u32 i = chance.between(1, 2); i; i--) {
			fabric->client.devices.push_back(make_device("client device", crowded_));
			fabric->server.devices.push_back(make_device("server device", crowded_));
			if (placing)
				fabric->client.devices.back()->limits.max_send_sge =
					fabric->server.devices.back()->limits.max_recv_sge = 32;
		}
		if (hopeless_)
			for (auto &device :
			     (chance.one_in(2) ? fabric->client : fabric->server).devices) {
				weaken(device->limits);
				starve(device->limits);
			}
		files_.drops = chance.one_in(6) ? 40 : 0;
		files_.defers = chance.one_in(3) ? chance.between(2, 20) : 0;
		files_.slow = chance.one_in(6) ? 16 : 0;
		files_.others = 16;
		files_.cache.room = chance.one_in(4) ? chance.between(1, 4) : 1000;
	}

	void run()
	{
		REQUIRE(module_.start(), "the server does not start");
		open_service_();
		if (!chance.one_in(5))
			swarm.draw_faults();
		if (faults.active && faults.bursts)
			begin_("outages", outages);
		if (swarm.watched)
			begin_("watcher", [this] { watch_(); });
		if (swarm.tuned)
			begin_("tuner", [this] { tune_(); });
		VersionMemory::calm = !faults.active && !hopeless_ && !changing_;
		/* Who is called back serves that: a server calls none else. */
		const bool at_once = chance.one_in(8);
		const u32 callbacks = at_once	       ? chance.between(12, 24) :
				      chance.one_in(2) ? chance.between(1, 10) :
							 0;
		/* More than one as with the mount option nconnect=. */
		static const char *const names[] = {"client a", "client b", "client c", "client d"};
		const u32 clients = chance.one_in(12) && !swarm.large ? 4 :
				    chance.one_in(3)		      ? 2 :
									1;
		for (u32 i = 0; i < clients; i++)
			add_client_(names[i], callbacks != 0);
		for (u32 i = 0; i < callbacks; i++)
			add_callback_(i, at_once);

		if (changing_)
			change_versions_();
		if (faults.active && chance.one_in(2))
			for (u32 blows = chance.between(1, 4); blows; blows--) {
				sleep_for(chance.below(20000) * swarm.pace, "the next blow");
				blow_();
			}
		/* Everything comes to an end once the faults do. */
		sleep_for(chance.below(200) * kMillisecond * (chance.one_in(2) ? swarm.pace : 1),
			  "the end of the faults");
		faults.active = faults.quiet = false;
		while (others_)
			if (!wait(somebody_left_, "everybody to leave",
				  hopeless_ ? 20 * kSecond : kForever))
				for (auto &client : clients_)
					client->leave();
		over_ = true;
		while (beside_)
			(void)wait(somebody_left_, "those who look on");
		close_service_();
		module_.end();
		/* What is on its way in the fabric still refers to the devices. */
		sleep_for(10 * kSecond, "the fabric to come to rest");
	}

private:
	void open_service_()
	{
		service_ = std::make_unique<Service>(files_, chance.between(1, 6), max_message_);
		service_->listen();
		serving = service_.get();
	}

	void close_service_()
	{
		const auto service = std::move(service_);

		serving = nullptr;
		service->stop();
		files_.cache.clear();
	}

	void add_client_(const char *name, bool called_back)
	{
		clients_.push_back(std::make_unique<Client>(name, crowded_ ? 48 : 12, max_message_,
							    called_back, hopeless_));
		others_++;
		spawn_after(chance.one_in(2) ? 0 : chance.below(10000) * swarm.pace, "mount",
			    Context::process, [this, client = clients_.back().get()] {
				    for (u32 lives = chance.between(1, 2); lives; lives--)
					    client->live();
				    others_--;
				    somebody_left_.wake_all();
			    });
	}

	/* Anywhere in the run, or all within little time. */
	void add_callback_(u32 number, bool at_once)
	{
		others_++;
		spawn_after(at_once ? 20000 + chance.below(200) : chance.below(40000), "callback",
			    Context::process, [this, number] {
				    if (service_)
					    call_back(*service_, 1000000 + number,
						      0xcb000000 + number);
				    others_--;
				    somebody_left_.wake_all();
			    });
	}

	/* Another server takes the name of the one there was, of version 1; and then that one comes back. */
	void replace_server_()
	{
		u32 &parameter = rpcordma_server_tunables.version2;
		const u32 was = parameter;

		for (u32 value : {0u, was ? was : 1}) {
			sleep_for(chance.below(10000), "another server");
			parameter = value;
			VersionMemory::changes++;
			TRACE("version2 is %u at the server", value);
			for (auto &client : clients_)
				client->disconnect();
		}
	}

	/* The administrator, at both hosts: connections made from then on follow. */
	void change_versions_()
	{
		others_++;
		spawn("administrator", Context::process, [this] {
			if (chance.one_in(3))
				replace_server_();
			for (u32 times = chance.between(1, 4); times; times--) {
				sleep_for(chance.below(chance.one_in(2) ? 2000 : 20000),
					  "the administrator");
				draw_version2(chance.one_in(2) ? rpcordma_tunables.version2 :
								 rpcordma_server_tunables.version2);
				/* It is seen with the next connection. */
				if (chance.one_in(2))
					clients_[chance.below(u32(clients_.size()))]->disconnect();
			}
			others_--;
			somebody_left_.wake_all();
		});
	}

	void begin_(const char *name, std::function<void()> body)
	{
		beside_++;
		spawn(name, Context::process, [this, body = std::move(body)] {
			body();
			beside_--;
			somebody_left_.wake_all();
		});
	}

	/* Who reads debugfs and statistics, and a kernel that is short of memory. */
	void watch_()
	{
		for (u32 times = 60; times && !over_; times--) {
			sleep_for(chance.below(10000) * swarm.pace, "the watcher");
			switch (chance.below(3)) {
			case 0:
				clients_[chance.below(u32(clients_.size()))]->watch();
				break;
			case 1:
				if (service_ && serving)
					service_->watch(faults.active);
				break;
			case 2:
				if (const u32 spare = rpcordma_core_server_spare_pages())
					(void)rpcordma_core_server_shrink(chance.below(spare) + 1);
				break;
			}
		}
	}

	/* The administrator. What is about version 2 has one of its own. */
	void tune_()
	{
		for (u32 times = 40; times && !over_; times--) {
			sleep_for(chance.below(20000) * swarm.pace, "the tuner");
			rpcordma_tunables.scratch_remap = chance.one_in(2);
			rpcordma_server_tunables.max_outbound_read_requests = chance.between(1, 16);
			rpcordma_server_tunables.eager_read_bytes =
				chance.one_in(4) ? chance.below(100000) : 0;
			rpcordma_server_tunables.rnr_retry_count = chance.below(8);
			if (rpcordma_tunables.version2 || rpcordma_server_tunables.version2 ||
			    changing_)
				continue;
			rpcordma_tunables.max_inline_read = swarm.draw_inline();
			rpcordma_tunables.max_inline_write = swarm.draw_inline();
			rpcordma_server_tunables.max_req_size = swarm.draw_inline();
			rpcordma_server_tunables.max_requests = chance.between(4, 64);
		}
	}

	void blow_()
	{
		const u32 which = chance.below(8);

		switch (swarm.has_blow(which) ? which : 7) {
		default:
			break_a_connection_();
			break;
		case 0:
		case 1:
			clients_[chance.below(u32(clients_.size()))]->disconnect();
			break;
		case 2:
			clients_[chance.below(u32(clients_.size()))]->leave();
			break;
		case 3:
			TRACE("the service is restarted");
			close_service_();
			sleep_for(chance.below(1000) * kMillisecond, "the service to come back");
			/* As another one, of an older or a newer kind. */
			if (changing_)
				draw_version2(rpcordma_server_tunables.version2);
			open_service_();
			break;
		case 5:
			if (service_)
				service_->age();
			break;
		case 4: {
			Host &host = chance.one_in(2) ? fabric->client : fabric->server;
			Device &device = *host.devices[0];

			host.remove(device);
			sleep_for(chance.below(3000) * kMillisecond, "a new device");
			device.present = true;
			break;
		}
		}
	}

	static void break_a_connection_()
	{
		std::vector<CmId *> all;

		for (Host *host : {&fabric->client, &fabric->server})
			for (auto &[number, id] : host->ids)
				all.push_back(id);
		if (!all.empty())
			break_connection(*all[chance.below(u32(all.size()))]);
	}

	const bool crowded_ = !swarm.large && chance.one_in(32);
	const bool hopeless_ = chance.one_in(40);
	bool changing_ = false;
	Memory memory_;
	Fabric fabric_;
	ServerModule module_;
	FileService files_;
	u32 max_message_ = 0;
	std::unique_ptr<Service> service_;
	std::vector<std::unique_ptr<Client>> clients_;
	u32 others_ = 0, beside_ = 0;
	bool over_ = false; /* those beside are to go */
	WaitQueue somebody_left_;
};

void strangers()
{
	switch (chance.below(4)) {
	case 0:
		return strange_directions();
	case 1:
		return strange_chunks();
	default:
		return strange_versions();
	}
}

} // namespace

u32 calls_made()
{
	return next_id;
}

void scenario()
{
	next_id = 0;
	/* Nothing is left of the seed before. */
	rpcordma_tunables = {};
	rpcordma_server_tunables = {};
	swarm.draw();
	given_up.clear();
	dropped_calls.clear();
	busy = 0;
	serving = nullptr;
	VersionMemory::reset();
	/* What the module remembers for longer than it is loaded. */
	rpcordma::server_failures = rpcordma::Failures();
	if (!kVersion2 || !chance.one_in(7))
		Play().run();
	else
		strangers();
	REQUIRE(!rpcordma::receive_budget.taken(),
		"no connection is left, and %llu pages of the budget are taken",
		static_cast<unsigned long long>(rpcordma::receive_budget.taken()));
}

} // namespace sim
