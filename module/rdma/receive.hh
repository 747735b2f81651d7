// SPDX-License-Identifier: GPL-2.0-only
/*
 * A Receive: a buffer, which is a head and maybe pages behind it, its mapping, its work request, and the message
 * that came in it, which is decoded once and stays with it. Both ends post these; which, when and how many is
 * theirs to say.
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/base/memory.hh"
#include "module/base/span.hh"
#include "module/protocol/receive_room.hh"
#include "module/rdma/cqe.hh"
#include "module/rdma/message_pages.hh"
#include "module/rdma/trace.hh"
#include "xdr/message.hh"

namespace rpcordma {

struct Receive {
	OwnedCqe<Receive> cqe;
	rpcordma_recv_wr wr = {};
	rpcordma_sge sge = {};
	Receive *all_next = nullptr;
	/* The next transmission of the same message; or on its holder's list of Receives that nobody uses. */
	Receive *next = nullptr;
	Buffer buffer; /* the head */
	Owned<MessagePages> pages;
	u32 length = 0; /* of what came */
	/* The same of a transmission of round-trip reduction, whose stream is then all that `length` counts. */
	u32 whole_length = 0;
	int flags = 0;		  /* of its completion */
	u32 invalidated_rkey = 0; /* where `flags` has RPCORDMA_WC_WITH_INVALIDATE; else anything */
	xdr::Message message;	  /* points into the head, which has all of its header */
	Buffer read_list; /* or its Read list points here: that of items in RDMA segments (rtrext-01) */

	/** How many there are from this one on, by `next`: transmissions, if it is the first of a message. */
	[[nodiscard]] u32 chained() const
	{
		u32 count = 0;

		for (const Receive *one = this; one; one = one->next)
			count++;
		return count;
	}
	/** What came into the head: all of it, mostly. */
	[[nodiscard]] Bytes bytes() const
	{
		return {buffer.data(), min<usize>(length, buffer.size())};
	}
	/** Bytes that came into the pages: the rest of the payload. */
	[[nodiscard]] u32 in_pages() const
	{
		return length - u32(bytes().size());
	}
	/**
	 * Bytes of the payload, of which message.payload has the first. It was decoded. What follows a header that says that
	 * the payload is elsewhere is none.
	 */
	[[nodiscard]] u32 payload_length() const
	{
		return u32(message.payload.size()) +
		       (message.kind == xdr::Kind::nomsg ? 0 : in_pages());
	}
	/** The payload's bytes from @offset on, which are less than @payload_length(), as far as they lie in one piece. */
	[[nodiscard]] Bytes payload_from(u32 offset) const
	{
		const u32 in_head = u32(message.payload.size());

		if (offset < in_head)
			return message.payload.from(offset);
		return Bytes(pages->piece(offset - in_head)).first(payload_length() - offset);
	}
};

/** What all Receives of a connection have in common. Its owner keeps calls apart. */
class ReceiveMaker {
public:
	/** @buffer_size: bytes of the head. @kind: whose completions they have. */
	void init(rpcordma_endpoint *endpoint, const rpcordma_peer *peer, rpcordma_cqe_kind kind,
		  u32 buffer_size)
	{
		endpoint_ = endpoint;
		peer_ = peer;
		kind_ = kind;
		buffer_size_ = buffer_size;
	}
	/** The pages that Receives have while use_pages() says so. Before any is made. */
	void have_pages(const MessagePages::Layout &layout)
	{
		layout_ = layout;
	}
	/** Whether Receives that are made from here on have pages. Any context. */
	void use_pages(bool use)
	{
		with_pages_.store(use && layout_.count, std::memory_order_relaxed);
	}
	[[nodiscard]] bool with_pages() const
	{
		return with_pages_.load(std::memory_order_relaxed);
	}

	/** A new one, mapped; null without memory. It is nobody's before own(). @how names the contexts. */
	[[nodiscard]] Receive *create(rpcordma_alloc_how how) const
	{
		auto receive = Owned<Receive>::create(how);

		if (!receive || !receive->buffer.create_near(endpoint_, buffer_size_, how)) {
			trace::failure(peer_, trace::Failure::receive_alloc_failed, 0,
				       Error::no_memory);
			return nullptr;
		}
		if (const int rc = rpcordma_dma_map(endpoint_, receive->buffer.data(), buffer_size_,
						    RPCORDMA_DMA_FROM_DEVICE, &receive->sge)) {
			trace::failure(peer_, trace::Failure::receive_map_failed, 0, rc);
			return nullptr;
		}
		receive->cqe.init(kind_, receive.get());
		receive->wr.cqe = &receive->cqe.cqe;
		receive->wr.sg_list = &receive->sge;
		receive->wr.num_sge = 1;
		Receive *const made = receive.let_go();
		if (with_pages() && !add_pages(made, how)) {
			free_(made);
			return nullptr;
		}
		return made;
	}
	/** Whether @receive may be posted: it has pages, or need not. */
	[[nodiscard]] bool complete(const Receive &receive) const
	{
		return receive.pages || !with_pages();
	}
	/** Give @receive, which nobody has posted, its pages. False: no memory. @how names the contexts. */
	[[nodiscard]] bool add_pages(Receive *receive, rpcordma_alloc_how how) const
	{
		auto pages = Owned<MessagePages>::create(how);

		if (!pages || !pages->create(endpoint_, layout_, RPCORDMA_DMA_FROM_DEVICE, how)) {
			trace::failure(peer_, trace::Failure::receive_alloc_failed, 0,
				       Error::no_memory);
			return false;
		}
		receive->wr.num_sge = int(pages->describe_all(receive->sge));
		receive->wr.sg_list = pages->sges();
		receive->pages = static_cast<Owned<MessagePages> &&>(pages);
		return true;
	}
	/** Take the pages of @receive, which nobody has posted, away. Any context. */
	[[gnu::noinline, gnu::cold]] void drop_pages(Receive *receive) const
	{
		receive->pages->destroy(endpoint_);
		receive->pages = {};
		receive->wr.sg_list = &receive->sge;
		receive->wr.num_sge = 1;
	}
	/** Exchange pages of @receive that somebody else still has. False: no memory for all. As add_pages(). */
	[[nodiscard]] bool renew_pages(Receive *receive, rpcordma_alloc_how how) const
	{
		const bool renewed = receive->pages->renew(endpoint_, how);

		(void)receive->pages->describe_all(receive->sge);
		return renewed;
	}
	/** destroy() is to free @receive. */
	void own(Receive *receive)
	{
		receive->all_next = all_;
		all_ = receive;
	}
	/** Post @count, chained by wr.next. False: the connection is on its way out. Any context. */
	bool post(const Receive *first, u32 count) const
	{
		/* Before they can complete. */
		if (trace::on(RPCORDMA_TRACE_RECEIVE_POSTED))
			trace_each_(&first->wr);
		const int rc = rpcordma_post_receive(endpoint_, &first->wr);
		if (trace::on(RPCORDMA_TRACE_POST))
			rpcordma_trace_post(endpoint_, RPCORDMA_TRACE_RECEIVE_QUEUE, "receive", 0,
					    count, true, rc, first);
		if (rc)
			trace::failure(peer_, trace::Failure::receive_post_failed, 0, rc);
		return rc == 0;
	}
	/** @receive has completed with success: what came is the CPU's. Returns its bytes(). Any context. */
	Bytes arrived(Receive *receive, const rpcordma_completion &completion) const
	{
		const Bytes bytes(receive->buffer.data(),
				  min<usize>(completion.byte_len, receive->buffer.size()));

		receive->length = completion.byte_len;
		receive->flags = completion.flags;
		receive->invalidated_rkey = completion.invalidated_rkey;
		receive->next = nullptr;
		rpcordma_dma_sync_for_cpu(endpoint_, &receive->sge, u32(bytes.size()));
		if (const u32 in_pages = completion.byte_len - u32(bytes.size()))
			receive->pages->sync_for_cpu(endpoint_, in_pages);
		return bytes;
	}
	/** Free all. The queue pair is drained or was never there. Process context. */
	void destroy()
	{
		while (Receive *receive = all_) {
			all_ = receive->all_next;
			free_(receive);
		}
	}
	/** Bytes of the head. */
	[[nodiscard]] u32 buffer_size() const
	{
		return buffer_size_;
	}
	[[nodiscard]] const MessagePages::Layout &layout() const
	{
		return layout_;
	}
	/** What is received into, as the peer is told. */
	[[nodiscard]] protocol::ReceiveRoom room() const
	{
		return {buffer_size_, with_pages() ? layout_.count : 0, layout_.page_size};
	}
	/** Bytes of head and pages, as Receives have them from now on. */
	[[nodiscard]] u32 whole_size() const
	{
		return room().bytes();
	}

private:
	/* Nobody knows @receive any more. */
	void free_(Receive *receive) const
	{
		rpcordma_dma_unmap(endpoint_, &receive->sge, buffer_size_, RPCORDMA_DMA_FROM_DEVICE);
		if (receive->pages)
			receive->pages->destroy(endpoint_);
		(void)Owned<Receive>::take_over(receive);
	}
	[[gnu::noinline]] void trace_each_(const rpcordma_recv_wr *wr) const
	{
		for (; wr; wr = wr->next)
			rpcordma_trace_receive_posted(endpoint_,
						      OwnedCqe<Receive>::owner_of(wr->cqe));
	}

	rpcordma_endpoint *endpoint_ = nullptr;
	const rpcordma_peer *peer_ = nullptr;
	Receive *all_ = nullptr;
	rpcordma_cqe_kind kind_ = RPCORDMA_CQE_RECEIVE;
	u32 buffer_size_ = 0;
	MessagePages::Layout layout_;
	std::atomic<bool> with_pages_{false};
};

} // namespace rpcordma
