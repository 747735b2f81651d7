// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices, memory regions, queue pairs and completion queues, and what goes between two queue pairs.
 *
 * A send queue is worked off by a fiber of its own, one work request after the other; RDMA Reads are
 * only started in order, and go on while later ones are executed. Completions come in order in each
 * completion queue, which is polled by a fiber: so those of two queues come in any order, and the reply to
 * a message may come before the message's own completion. What a device may touch, and what a peer
 * may reach, is checked at every access.
 *
 * Each connection is listened to (Conversation): credits, replies to nobody, replies twice, Sends whose
 * memory changes after they were posted. Where one end is a Stranger (stranger.hh), what it says is taken for
 * possible, and only the other end is held to the rules.
 */
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compat/port/port.h"
#include "selftests/sim/ledger.hh"
#include "selftests/sim/memory.hh"
#include "selftests/sim/versions.hh"

namespace sim {
struct Device;
struct Qp;
class Stranger;
}

/** A memory region: what its owner is preparing, and what the device knows. */
struct ib_mr {
	struct Run {
		sim::u64 address;
		sim::u32 length;
	};
	struct Content {
		sim::u64 iova = 0;
		sim::u32 length = 0;
		std::vector<Run> runs;
	};
	sim::Device *device;
	sim::u32 pages;
	bool gaps;
	sim::u32 key; /* the lowest byte is the owner's */
	Content next;

	bool valid = false;
	sim::u32 valid_key = 0;
	int access = 0;
	Content now;

	/** As ib_map_mr_sg(): false when the runs break the rules of the region's type. */
	bool set_runs(const std::vector<sim::Scatter::Run> &runs);
};

namespace sim {

struct Device {
	explicit Device(std::string name_);
	~Device();
	ib_mr *create_mr(u32 pages, bool gaps);
	void destroy_mr(ib_mr *mr);
	/** The region that is registered with @key, or was last; or null. */
	ib_mr *find(u32 key, bool or_was = false);
	/** Fails when a peer can reach memory of the call with @xid. */
	void require_unreachable(u32 xid) const;

	std::string name;
	rpcordma_device limits = {};
	/* SGEs that a send queue may have in all its work requests, which its limits do not say; 0: any number. */
	u32 most_sges = 0;
	bool present = true;
	u32 users = 0; /* endpoints bound to it */
	WaitQueue unused;

private:
	std::vector<ib_mr *> mrs_; /* by the upper bytes of their key */
};

/** A message of several transmissions that one end is posting. */
struct GroupHeard {
	void begin(u32 its_xid, u32 transmissions)
	{
		xid = its_xid;
		next = 1;
		left = transmissions - 1;
	}

	u32 left = 0, next = 0, xid = 0;
};

/** What is heard on a connection. */
struct Conversation {
	explicit Conversation(u32 number_ = 0) : number(number_)
	{
	}
	const u32 number; /* the ledger's */
	u32 granted = 1, latest = 1;
	std::set<u32> owed;	  /* calls that the client has posted and has no reply to */
	std::map<u32, u32> parts; /* of these, those of several transmissions: how many more than one */
	std::map<u32, u32> replies; /* of calls, transmissions that the reply may have */
	std::set<u32> directed;	    /* calls that have a direction for their results */
	GroupHeard call, reply;	    /* the client is posting, and the server */
	std::set<u32> to_be_replied; /* calls that reached the server, which has not posted a reply */
	std::set<u32> backward_owed;
	bool strange = false;	       /* one end is a stranger's, or was */
	std::multiset<u32> unanswered; /* xids of a stranger's messages, until one is answered */
	bool called = false;	       /* a call has reached the server */
	std::map<u32, u32> deliverable; /* by xid, messages that the service may get as a call, each once */
	std::shared_ptr<VersionTalk> versions = std::make_shared<VersionTalk>();
	VersionMemory *memory = nullptr; /* the client's, if it has a core */
};

/** Credits that @heard's calls have. */
inline size_t credits_of(const Conversation &heard)
{
	size_t credits = heard.owed.size();

	for (const auto &[xid, parts] : heard.parts)
		credits += parts;
	return credits;
}

struct Completion {
	rpcordma_completion what;
	u32 slots;     /* of its queue that are free now */
	bool *drained; /* a marker's */
};

class Cq : public std::enable_shared_from_this<Cq> {
public:
	Cq(std::string name, u32 room, void *context)
		: name_(std::move(name)),
		  room_(room),
		  context_(context)
	{
	}
	void push(Qp &qp, const Completion &completion);
	void wait_for(const bool &drained);
	/** Nothing more is delivered; waits for what is. */
	void close();

private:
	void poll_();

	std::string name_;
	u32 room_;
	void *context_;
	bool polled_ = false;
	bool closed_ = false;
	std::shared_ptr<Qp> qp_;
	std::deque<Completion> entries_;
	WaitQueue changed_;
};

/** A work request, as it was posted: what it points to may change. */
struct SendEntry {
	int opcode = 0, flags = 0;
	rpcordma_cqe *cqe = nullptr;
	std::vector<rpcordma_sge> sges;
	u32 length = 0;
	u64 remote_address = 0;
	u32 key = 0; /* the peer's, or what is invalidated or registered */
	ib_mr *mr = nullptr;
	ib_mr::Content content;
	int access = 0;
	std::vector<u8> message; /* of a Send, when it was posted */
	u32 lent_from =
		~0u; /* where in it the RPC's own memory begins, if it has such; all behind is */
	bool *drained = nullptr;
	bool started = false, done = false, gone = false;
	int status = 0;

	bool is_read() const
	{
		return opcode == RPCORDMA_WR_RDMA_READ || opcode == RPCORDMA_WR_RDMA_READ_WITH_INV;
	}
};

struct ReceiveEntry {
	rpcordma_cqe *cqe;
	std::vector<rpcordma_sge> sges;
	bool *drained;

	u32 length() const
	{
		u32 sum = 0;

		for (const rpcordma_sge &sge : sges)
			sum += sge.length;
		return sum;
	}
};

struct Qp : std::enable_shared_from_this<Qp> {
	enum class State { init, receiving, connected, error };

	Qp(Device *device, std::string name, bool server, void *context,
	   const rpcordma_queue_sizes &sizes);

	int post_send(const rpcordma_send_wr *first, const rpcordma_send_wr **bad);
	int post_receive(const rpcordma_recv_wr *first);
	/** Everything that is posted is flushed. */
	void set_error();
	void drain();
	void destroy();
	/* What a stranger at the other end does: false, it is refused. */
	bool strange_message(const std::vector<u8> &message, u32 invalidate);
	bool strange_access(u64 address, u32 key, u32 length, u8 *buffer, Access access);
	/** Receives that are posted. */
	u32 receives_posted() const
	{
		return u32(receives_.size());
	}

	Device *device;
	std::string name;
	bool server;
	State state = State::init;
	std::weak_ptr<Qp> peer;
	std::shared_ptr<Conversation> conversation;
	Stranger *stranger = nullptr; /* whose it is, when no core is behind it */
	/* Told of a fault that no completion tells of. */
	std::function<void()> fatal;
	std::shared_ptr<Cq> send_cq, receive_cq;
	u32 send_used = 0, receive_used = 0; /* entries, until they are polled */
	const u32 memory_failures_before = faults.memory_failures; /* when it was made */

private:
	friend class Cq;
	using Entry = std::shared_ptr<SendEntry>;
	void kick_();
	void run_();
	void execute_(const Entry &entry);
	void send_(const Entry &entry);
	void write_(const Entry &entry);
	void read_(const Entry &entry);
	void tear_(const Entry &entry);
	bool reads_before_(const Entry &entry) const;
	int local_(const Entry &entry);
	void finish_(const Entry &entry, int status);
	void retire_();
	void flush_();
	std::shared_ptr<Qp> reachable_peer_();
	bool local_access_(const rpcordma_sge &sge, u32 offset, u32 length, u8 *buffer,
			   Access access);
	void gather_(const SendEntry &entry, u32 offset, u32 length, u8 *to);
	void check_lent_(const SendEntry &entry);
	void answer_stranger_(u32 xid);
	bool remote_access_(u64 address, u32 key, u32 length, u8 *buffer, Access access);
	bool accessible_(u64 address, u32 key, u32 length, u8 *buffer, Access access);
	void lose_by_fault_();
	void take_message_(const std::vector<u8> &message, u32 invalidated);
	void overhear_growth_(const rpcordma::xdr::Message &message);
	void overhear_part_(const rpcordma::xdr::Message &message, GroupHeard &group,
			    rpcordma::xdr::Option lead);
	void overhear_response_(const rpcordma::xdr::Message &message);
	[[nodiscard]] u32 overhear_lead_(const rpcordma::xdr::Message &message);
	void overhear_post_(const SendEntry &entry);
	void overhear_completion_(const Completion &completion, const std::vector<u8> &bytes);

	u32 send_room_, receive_room_, most_sges_, most_receive_sges_;
	std::deque<Entry> sends_;
	std::deque<ReceiveEntry> receives_;
	std::map<rpcordma_cqe *, std::vector<u8>> arrived_; /* messages whose completion is on its way */
	u32 reads_ = 0;					    /* under way */
	u32 silent_slots_ = 0;				    /* done, and nobody was told */
	bool failed_ = false; /* something has; all behind it is flushed */
	bool running_ = false, drained_sends_ = false, drained_receives_ = false, destroyed_ = false;
	WaitQueue changed_;
};

/** Calls that their task gave up: a peer's late access to their memory is to be expected. */
extern std::set<u32> given_up;

/** How long a step of the fabric takes, us. */
u64 fabric_delay();

} // namespace sim
