// SPDX-License-Identifier: GPL-2.0-only
/*
 * One end of RDMA connections, in user space: librdmacm and libibverbs, driven by one poll loop. It
 * sends whatever bytes it is given; what they mean is message.hh's, who says what in which order is
 * the tests'. One thread, and no wait without a limit.
 *
 * A Peer is the loop, a Connection one connection of it, a Listener where connections are asked for, a
 * Memory what the other end may reach into.
 * Whatever cannot be helped (no device, no memory) is thrown as a Failure.
 */
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "xdr/private_data.hh"
#include "xdr/wire.hh"

namespace verbs {

using rpcordma::Rkey;
using rpcordma::u16;
using rpcordma::u32;
using rpcordma::u64;
using rpcordma::u8;
using rpcordma::xdr::Segment;

using Octets = std::vector<u8>;

/** A test cannot go on; the text says what was expected and what came instead. */
struct Failure {
	std::string what;
};

/** As printf. */
std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** An answer that has not come by now will never come. */
constexpr u64 answer_ms = 5000;

/** Milliseconds on a clock that never goes back. */
u64 now_ms();

class Connection;
class Listener;

/** The loop: an event channel, a protection domain and a completion queue of the first device. */
class Peer {
public:
	/** @address  of the other end, for Connections that connect; our own, for a Listener */
	Peer(const std::string &address, const std::string &port);
	~Peer();
	Peer(const Peer &) = delete;
	Peer &operator=(const Peer &) = delete;

	/** Handle what happens until @done, at most for @limit_ms. Returns done(). */
	bool run(u64 limit_ms, const std::function<bool()> &done);
	/** Call @readable whenever there is something to read from @fd, until forget(). */
	void watch(int fd, const std::function<void()> &readable)
	{
		watched_[fd] = readable;
	}
	void forget(int fd)
	{
		watched_.erase(fd);
	}

private:
	friend class Connection;
	friend class Listener;
	friend class Memory;
	/** Work requests that may be outstanding over all connections: rxe's longest queue. */
	static constexpr int cq_depth_ = 32767;

	void handle_events_();
	void handle_completions_();

	rdma_addrinfo *address_ = nullptr;
	rdma_event_channel *events_ = nullptr;
	ibv_context *device_ = nullptr;
	ibv_pd *pd_ = nullptr;
	ibv_comp_channel *completions_ = nullptr;
	ibv_cq *cq_ = nullptr;
	/* By number, which is part of a work request's id: completions may outlive a Connection. */
	std::map<u32, Connection *> connections_;
	u32 next_ = 1;
	std::map<int, std::function<void()>> watched_;
};

/** Registered bytes. The other end may read and write them, until withdraw(). */
class Memory {
public:
	Memory(Peer &peer, size_t size, u8 fill = 0);
	/** With the bytes of @content. */
	Memory(Peer &peer, const Octets &content);
	~Memory();
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;

	/** @length bytes from @offset on, as a segment; what lies outside is the caller's intent. */
	[[nodiscard]] Segment segment(size_t offset, u32 length) const;
	/** All of it. */
	[[nodiscard]] Segment segment() const;
	[[nodiscard]] Octets &bytes()
	{
		return bytes_;
	}
	[[nodiscard]] u32 lkey() const
	{
		return mr_->lkey;
	}
	/** Deregister; segment() goes on telling the R_key that was. */
	void withdraw();

private:
	Octets bytes_;
	ibv_mr *mr_ = nullptr;
	u32 rkey_ = 0;
};

/** What a message arrived with. */
struct Received {
	Octets bytes;
	bool invalidated = false; /* by a Send With Invalidate, of ... */
	u32 rkey = 0;		  /* ... this R_key */
};

/** How a Connection is made. */
struct Setup {
	/* The private data as it is; by default RFC 8797's, as message_size says */
	bool default_private_data = true;
	Octets private_data;
	bool remote_invalidation = false; /* the R bit that goes with it */
	bool mark = false;		  /* and the mark of version 2 */
	u8 responder_resources = 16;	  /* RDMA Reads that we serve at once */
	u32 message_size = 4096;	  /* bytes of a receive buffer, and what we say of it */
	u32 receives = 40;
	u32 sends = 40;
};

class Connection {
public:
	enum class State { idle, resolving, connecting, connected, refused, lost, asked };

	explicit Connection(Peer &peer, const Setup &setup = {});
	/** The passive side of one: somebody asks for it. Until accepted or rejected, silence. */
	Connection(Peer &peer, const rdma_cm_event &request);
	~Connection();
	Connection(const Connection &) = delete;
	Connection &operator=(const Connection &) = delete;

	/** Begin to connect, @from an address or any; wait for the outcome by established(), or run the Peer. */
	void connect(sockaddr_in *from = nullptr);
	/** Say yes or no to who asked; the private data of a yes are @setup's. */
	void accept(const Setup &setup);
	void reject(const Octets &private_data = {});
	/** Wait until it is known whether there is a connection. */
	[[nodiscard]] bool established(u64 limit_ms = 10000);
	[[nodiscard]] State state() const
	{
		return state_;
	}
	/** For a report: the state, and why. */
	[[nodiscard]] std::string describe() const;
	/** The other end's private data; empty unless it is connected, or asks. */
	[[nodiscard]] const Octets &private_data() const
	{
		return their_private_data_;
	}

	/**
	 * Post a Send of @message. False: the connection is not there (any more), or no Send ended
	 * in time. @message may be longer than the other end takes.
	 */
	bool send(const Octets &message, std::optional<u32> invalidate = {});
	/** RDMA Write @bytes to the other end's memory. Returns how that ended. */
	ibv_wc_status rdma_write(const Segment &to, Octets bytes);
	/** RDMA Read the other end's memory into @bytes, as many as these are. */
	ibv_wc_status rdma_read(const Segment &from, Octets &bytes);
	/** Sends have ended as they should, so far; waits for those under way. */
	[[nodiscard]] bool sent(u64 limit_ms = answer_ms);
	/** The next message; false: none within @limit_ms, or the connection is lost. */
	[[nodiscard]] bool receive(Received &message, u64 limit_ms = answer_ms);
	/** Something to receive() is there. */
	[[nodiscard]] bool pending() const
	{
		return !inbox_.empty();
	}
	/** Wait for the connection's end. */
	[[nodiscard]] bool ended(u64 limit_ms = 15000);
	/** Say good-bye; does not wait. */
	void disconnect();

private:
	friend class Peer;
	/* A work request's id: the connection's number, what it is, which buffer. */
	static constexpr u64 send_bit_ = u64(1) << 31;
	[[nodiscard]] u64 wr_id_(bool send, u32 slot) const
	{
		return u64(number_) << 32 | (send ? send_bit_ : 0) | slot;
	}
	void say_private_data_();
	void make_queue_pair_();
	std::optional<u32> post_(ibv_send_wr wr, const Octets &bytes);
	ibv_wc_status transfer_(ibv_wr_opcode opcode, const Segment &there, Octets &bytes);
	void post_receive_(u32 slot);
	void event_(const rdma_cm_event &event);
	void completion_(const ibv_wc &wc);
	void end_(State state, const std::string &why);

	Peer &peer_;
	Setup setup_;
	u32 number_;
	State state_ = State::idle;
	std::string why_;
	rdma_cm_id *id_ = nullptr;
	std::unique_ptr<Memory> receive_buffers_;
	std::vector<std::unique_ptr<Memory>> send_buffers_;
	std::vector<u32> free_sends_;
	/* How the work request that had the slot last ended; none while it is under way. */
	std::vector<std::optional<ibv_wc_status>> ends_;
	std::deque<Received> inbox_;
	Octets their_private_data_;
	u8 their_reads_ = 0; /* RDMA Reads that the other end serves at once */
};

/** Listens at the Peer's address, with its port. */
class Listener {
public:
	explicit Listener(Peer &peer);
	~Listener();
	Listener(const Listener &) = delete;
	Listener &operator=(const Listener &) = delete;

	/** Somebody has asked for a connection. */
	[[nodiscard]] bool pending() const
	{
		return !asked_.empty();
	}
	/** The first one who asked, if pending(). */
	std::unique_ptr<Connection> next();

private:
	friend class Peer;
	Peer &peer_;
	rdma_cm_id *id_ = nullptr;
	std::deque<std::unique_ptr<Connection>> asked_;
};

} // namespace verbs
