// SPDX-License-Identifier: GPL-2.0-only
/*
 * A ServerCall: a message that a client has sent, and whatever becomes of it; or a backward call on its way
 * out. And the ServerCalls of a connection that nothing is in, which are kept for the next ones.
 *
 * One is made with each Receive, so that a receive completion always finds one (S3). Those that backward calls
 * need are made besides.
 */
#pragma once

#include <atomic>
#include <cstddef>

#include "compat/port/port.h"
#include "module/base/memory.hh"
#include "module/chunk/answer.hh"
#include "module/chunk/arrival.hh"
#include "module/protocol/codec.hh"
#include "module/protocol/reduction.hh"
#include "module/rdma/receive.hh"
#include "module/rdma/send_buffer.hh"
#include "module/server/lone.hh"
#include "xdr/rtrext.hh"

namespace rpcordma {

/** The Sends of a reply of several transmissions (rtrext-01) but for the last. */
struct ReplySends {
	SendBuffer sends[protocol::kReplyTransmissions - 1];
};

/**
 * The pages of a call's item, in the order of its bytes: those of its Receives, which they stay. And one more, which is the last
 * of them again: a service that believes what a call says of its payload's length may look for more, though not for more
 * than the call has, of which at most a page is behind the item.
 */
struct LentPages {
	page *pages[protocol::kCallTransmissions * MessagePages::kMost + 1] = {};
};

using Server = rpcordma_server;
using ServerCall = rpcordma_server_call;
struct Transfer;

/** The results of a reply that may go in Write chunks, as the service announces them: here are as many as nearly all have. */
class ResultList {
public:
	static constexpr u32 kFew = 4;

	/** Have @range behind the others; with kMostResults it stays inline. False: no memory. A service thread. */
	[[nodiscard]] bool add(chunk::ReplyRange range)
	{
		if (__builtin_expect(count_ >= kFew, 0))
			return add_to_many_(range);
		few_[count_++] = range;
		return true;
	}
	/** All of them, in order. */
	[[nodiscard]] chunk::ReplyRange *ranges()
	{
		return __builtin_expect(count_ <= kFew, 1) ? few_ : many_->ranges;
	}
	[[nodiscard]] u32 count() const
	{
		return count_;
	}
	void clear()
	{
		count_ = 0;
	}

private:
	struct Many {
		chunk::ReplyRange ranges[chunk::kMostResults];
	};
	[[nodiscard]] bool add_to_many_(chunk::ReplyRange range);

	u32 count_ = 0;
	chunk::ReplyRange few_[kFew];
	/* All of them, where they are more; made when first needed. */
	Owned<Many> many_;
};

/** A ServerCall's completion entries, whose place in it says whose they are. */
struct CallCompletions {
	rpcordma_cqe send_cqe = {};
	rpcordma_cqe read_cqe = {};
	rpcordma_cqe chain_cqe = {}; /* of what is ahead of the last of a chain */
};

} // namespace rpcordma

struct rpcordma_server_call : rpcordma::CallCompletions {
	using u32 = rpcordma::u32;

	rpcordma_server_call *next = nullptr; /* on whichever list it is */
	rpcordma_server *server = nullptr;

	/* The message: null for a backward call; the first of its Receives, the others follow by `next`. */
	rpcordma::Receive *receive = nullptr;
	rpcordma::chunk::Arrival arrival;
	/* Not for the service: it gets this error for an answer. */
	bool refused = false;
	rpcordma::xdr::ErrorBody refusal;
	std::atomic<u32> parts{0}; /* chains at the device that others of it follow */
	/* It is refused, and what it gets is this REPTERR instead. */
	rpcordma::Owned<rpcordma::rtrext::Report> report;

	std::atomic<u32> owners{0};
	bool keeps_sink = false; /* the service may have the sink as long as it likes */
	u32 eager = 0;		 /* bytes taken of the eager budget */
	u32 reading = 0;	 /* of these, with Reads under way */
	u32 room_taken =
		0; /* in the send queue: given back when the chain that is posted completes */
	rpcordma::Transfer *transfer = nullptr;
	/* What its Reads filled, while the service has the pages: until its thread releases the call. */
	rpcordma::Transfer *sink = nullptr;
	rpcordma::LoneRequest lone;

	/* The reply. */
	rpcordma::ResultList results;
	rpcordma::SendBuffer sends[rpcordma::protocol::kTransmissions];
	/* Of its other transmissions with round-trip reduction; made when first needed. */
	rpcordma::Owned<rpcordma::ReplySends> others;
	/* Likewise; of Arrival::How::sent, from a thread's taking it on. */
	rpcordma::Owned<rpcordma::LentPages> lent;

	rpcordma_server_call *all_next = nullptr;

	/** Whose send_cqe @cqe is. */
	[[nodiscard]] static rpcordma_server_call *of_send(rpcordma_cqe *cqe)
	{
		return with_(cqe, offsetof(rpcordma::CallCompletions, send_cqe));
	}
	/** Whose read_cqe @cqe is. */
	[[nodiscard]] static rpcordma_server_call *of_read(rpcordma_cqe *cqe)
	{
		return with_(cqe, offsetof(rpcordma::CallCompletions, read_cqe));
	}
	/** Whose chain_cqe @cqe is. */
	[[nodiscard]] static rpcordma_server_call *of_chain(rpcordma_cqe *cqe)
	{
		return with_(cqe, offsetof(rpcordma::CallCompletions, chain_cqe));
	}
	/** The message's header, and what there is of its payload in the first Receive. Only with a message. */
	[[nodiscard]] const rpcordma::xdr::Message &message() const
	{
		return receive->message;
	}
	/** The xid, of any message; 0 for a backward call. */
	[[nodiscard]] u32 xid() const
	{
		const auto header = receive ? rpcordma::xdr::peek(receive->bytes()) :
					      rpcordma::Error::message_size;

		return header.ok() ? header.value().xid.get() : 0;
	}
	/** The device has memory of its chunks, or something else has to be given back. */
	[[nodiscard]] bool moves_data() const
	{
		return transfer || sink || lone.mapped;
	}
	/** Its payload is in several pieces of memory that the service cannot have as they are: a thread puts them together. */
	[[nodiscard]] bool in_pieces() const
	{
		return arrival.how >= rpcordma::chunk::Arrival::How::linear && !arrival.segments;
	}

private:
	[[nodiscard]] static rpcordma_server_call *with_(rpcordma_cqe *cqe, rpcordma::usize offset)
	{
		return static_cast<rpcordma_server_call *>(
			reinterpret_cast<rpcordma::CallCompletions *>(
				reinterpret_cast<char *>(cqe) - offset));
	}
};
/* There is one for each Receive: no more of it than kmalloc() has one object for. */
static_assert(rpcordma::protocol::kTransmissions > 1 || sizeof(rpcordma_server_call) <= 512);

namespace rpcordma {

/** What ServerCalls a connection has, and which of them are spare. Whoever has one guards it with a lock. */
class ServerCalls {
public:
	/** destroy() is to free @call, which was made with a Receive, and is spare. */
	void own(ServerCall *call)
	{
		own_(call);
		push_(call);
	}
	/** As that, of one for a backward call, which has it. */
	void own_backward(ServerCall *call)
	{
		own_(call);
		backward_made_++;
		backward_out_++;
	}
	/** A spare one for a message. There is one for each Receive that is with no call. */
	[[nodiscard]] ServerCall *take_for(Receive *receive)
	{
		ServerCall *call = pop_();

		call->receive = receive;
		in_service_++;
		return call;
	}
	/** A spare one for a backward call; null: none but those for Receives. */
	[[nodiscard]] ServerCall *take_backward()
	{
		if (backward_out_ == backward_made_)
			return nullptr;
		backward_out_++;
		return pop_();
	}
	/** @call is spare. Returns the Receives that it had, if it had some. */
	[[nodiscard]] Receive *put(ServerCall *call)
	{
		Receive *receives = call->receive;

		if (receives)
			in_service_--;
		else
			backward_out_--;
		call->receive = nullptr;
		push_(call);
		return receives;
	}
	/** A call that is in service has @parts more transmissions: they count as calls, as they have credits. */
	void hold_parts(u32 parts)
	{
		in_service_ += parts;
	}
	/** @parts of these are done with. */
	void drop_parts(u32 parts)
	{
		in_service_ -= parts;
	}
	/** Calls received and not done with. */
	[[nodiscard]] u32 in_service() const
	{
		return in_service_;
	}
	/** Own one no longer; null: there is none left. */
	[[nodiscard]] ServerCall *disown()
	{
		ServerCall *call = all_;

		if (call)
			all_ = call->all_next;
		return call;
	}

private:
	friend struct ServerInside;
	void own_(ServerCall *call)
	{
		call->all_next = all_;
		all_ = call;
	}
	void push_(ServerCall *call)
	{
		call->next = spare_;
		spare_ = call;
	}
	[[nodiscard]] ServerCall *pop_()
	{
		ServerCall *call = spare_;

		spare_ = call->next;
		return call;
	}

	ServerCall *spare_ = nullptr;
	ServerCall *all_ = nullptr;
	u32 in_service_ = 0;
	u32 backward_made_ = 0;
	u32 backward_out_ = 0;
};

/** A new one, with no buffers; null without memory. */
[[nodiscard]] Owned<ServerCall> create_call(Server &server, rpcordma_alloc_how how);
/** Free @call with all that it still has; the device has nothing of it. Process context. */
void destroy_call(Server &server, ServerCall *call);

} // namespace rpcordma
