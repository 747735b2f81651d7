// SPDX-License-Identifier: GPL-2.0-only
/* What was done and what was traced; see test_rdma_port_ledger.hh. No tests here. */
#include "kunit/test_rdma_port.hh"
#include "module/rdma/receive.hh"
#include "xdr/wire.hh"

namespace rpcordma {
namespace {

/* The server's trace points are not held against anything here. */
bool of_client()
{
	return the_port->verbs.requester != nullptr;
}

u8 *byte_of(const rpcordma_send_wr &wr, u32 at)
{
	for (int i = 0; i < wr.num_sge; i++) {
		if (at < wr.sg_list[i].length)
			return the_port->dma.byte_of(wr.sg_list[i], at);
		at -= wr.sg_list[i].length;
	}
	return nullptr;
}

/* Word @number of the message of @wr; ~0 without. */
u32 word_of(const rpcordma_send_wr &wr, u32 number)
{
	u32 word = 0;

	for (u32 i = 0; i < xdr::word_size; i++) {
		const u8 *byte = byte_of(wr, number * xdr::word_size + i);

		if (!byte)
			return ~0u;
		word = word << 8 | *byte;
	}
	return word;
}

u32 length_of(const rpcordma_send_wr &wr)
{
	u32 length = 0;

	for (int i = 0; i < wr.num_sge; i++)
		length += wr.sg_list[i].length;
	return length;
}

#define RPCORDMA_TEXT(name, text) text,
const char *const kFailures[] = {RPCORDMA_FAILURES(RPCORDMA_TEXT)};
const char *const kLosses[] = {RPCORDMA_LOSSES(RPCORDMA_TEXT)};
#undef RPCORDMA_TEXT

/* The figure that an event has is what its text says behind a colon: an errno, another figure, or none, which is 0. */
void expect_figure(const char *text, int value)
{
	while (*text && *text != ':')
		text++;
	if (!*text)
		EXPECT_EQ(value, 0);
	else if (same_words(text, ": errno"))
		EXPECT_TRUE(value < 0 && value >= -4095);
	else
		EXPECT_GE(value, 0);
}

} // namespace

void PortLedger::know(u32 xid)
{
	if (!knows_(xid))
		xids_[xids_known_++ % kXids] = xid;
}

bool PortLedger::knows_(u32 xid) const
{
	for (const u32 known : xids_)
		if (known == xid)
			return true;
	return false;
}

void PortLedger::posted(const rpcordma_send_wr *first, int error)
{
	Chain chain = {nullptr, 0, false, error};
	const rpcordma_send_wr *send = nullptr;
	u32 regions = 0;

	if (!of_client())
		return;
	for (const rpcordma_send_wr *wr = first; wr; wr = wr->next) {
		chain.entry = wr->cqe;
		chain.requests++;
		/* One that is not the last is heard of only when it fails. */
		EXPECT_FALSE(chain.signaled);
		chain.signaled = wr->send_flags & RPCORDMA_SEND_SIGNALED;
		if (wr->opcode == RPCORDMA_WR_SEND && !send)
			send = wr;
		regions += wr->opcode == RPCORDMA_WR_REG_MR;
		if (wr->opcode != RPCORDMA_WR_LOCAL_INV)
			continue;
		invalidations++;
		for (rpcordma_region *region : the_port->dma.all_regions)
			if (region && region->key == wr->invalidate_rkey) {
				EXPECT_TRUE(region->invalidation_told);
				region->invalidation_told = false;
			}
	}
	for (Chain &free : chains_)
		if (!free.entry) {
			free = chain;
			break;
		}
	if (!send) {
		scratch += regions;
		return;
	}
	know(word_of(*send, 0));
	EXPECT_EQ(sending_, message_.made);
	if (!message_.made)
		return;
	/* A call. */
	registered += regions;
	for (const rpcordma_send_wr *wr = first; wr; wr = wr->next)
		if (wr->opcode == RPCORDMA_WR_REG_MR) {
			const auto *reg = reinterpret_cast<const rpcordma_reg_wr *>(wr);

			if (reg->access & RPCORDMA_ACCESS_REMOTE_WRITE)
				writable_bytes +=
					reinterpret_cast<const rpcordma_region *>(reg->mr)->length;
		}
	EXPECT_EQ(word_of(*send, 0), message_.xid);
	EXPECT_EQ(word_of(*send, 2), message_.credits);
	EXPECT_EQ(word_of(*send, 3), message_.proc);
	nomsgs += message_.proc == u32(xdr::Kind::nomsg);
	leads += message_.proc == u32(xdr::Kind::optional);
	if (message_.proc != u32(xdr::Kind::optional) && !send->next)
		EXPECT_EQ(length_of(*send), message_.length);
	message_.made = false;
	sending_ = 0;
}

void PortLedger::traced_post(u32 requests, bool signaled, int error, const void *entry)
{
	if (!of_client())
		return;
	for (Chain &chain : chains_)
		if (chain.entry && chain.entry == entry && chain.requests == requests &&
		    chain.signaled == signaled && chain.error == error) {
			chain.entry = nullptr;
			return;
		}
	TEST_NOTE("requests", requests);
	/* No such chain was posted. */
	EXPECT_TRUE(false);
}

const rpcordma_completion *PortLedger::handles(const rpcordma_completion *completion)
{
	const rpcordma_completion *before = handled_;

	handled_ = completion;
	return before;
}

void PortLedger::handled()
{
	if (of_client())
		completions_++;
	EXPECT_EQ(completions_, traced_completions_);
	EXPECT_EQ(replies_, 0);
}

void PortLedger::traced_completion(rpcordma_trace_queue queue, int status, u32 length, u32 key,
				   const void *entry)
{
	if (!of_client())
		return;
	traced_completions_++;
	ASSERT_NE(handled_, nullptr);
	const bool of_receive = queue == RPCORDMA_TRACE_RECEIVE_QUEUE;
	const bool told = of_receive && handled_->status == RPCORDMA_WC_SUCCESS;
	const bool invalidated = told && handled_->flags & RPCORDMA_WC_WITH_INVALIDATE;
	const void *receive = of_receive ? OwnedCqe<Receive>::owner_of(handled_->cqe) : nullptr;

	EXPECT_EQ(status, handled_->status);
	EXPECT_EQ(length, told ? handled_->byte_len : 0);
	EXPECT_EQ(key, invalidated ? handled_->invalidated_rkey : 0);
	EXPECT_EQ(entry, of_receive ? receive : handled_->cqe);
}

void PortLedger::sending(u32 xid)
{
	EXPECT_TRUE(message_.made);
	EXPECT_EQ(message_.xid, xid);
	sending_++;
}

void PortLedger::traced_marshal(u32 xid, u32 credits, u32 proc, u32 header, u32 stream)
{
	EXPECT_FALSE(message_.made);
	message_ = {true, xid, credits, proc, header + (proc == u32(xdr::Kind::msg) ? stream : 0)};
}

void PortLedger::replied(u32 xid)
{
	replies_++;
	replied_ = xid;
}

void PortLedger::traced_reply(const char *what, u32 xid, u32 credits, u32 proc, int result)
{
	if (!of_client())
		return;
	if (same_words(what, "reply") || same_words(what, "reply to a cancelled call")) {
		EXPECT_EQ(replies_, 1);
		EXPECT_EQ(xid, replied_);
		replies_ = 0;
	}
	if (same_words(what, "reply to a cancelled call"))
		EXPECT_EQ(credits | proc, 0);
	if (!same_words(what, "error"))
		EXPECT_EQ(result, 0);
	EXPECT_TRUE(knows_(xid));
}

void PortLedger::traced_region(const char *what, u32 xid, rpcordma_region &region,
			       const rpcordma_mapping &mapping)
{
	if (!of_client())
		return;
	EXPECT_EQ(mapping.rkey, region.key);
	EXPECT_EQ(mapping.length, region.length);
	EXPECT_EQ(mapping.iova, region.iova);
	EXPECT_EQ(xid, region.iova >> 32);
	if (same_words(what, "map") || same_words(what, "scratch")) {
		EXPECT_TRUE(region.map_untold);
		region.map_untold = false;
	} else if (same_words(what, "unmap") || same_words(what, "remote-inv") ||
		   same_words(what, "drain")) {
		EXPECT_TRUE(region.unmap_untold);
		region.unmap_untold = false;
		drained += same_words(what, "drain");
	} else if (same_words(what, "local-inv")) {
		EXPECT_FALSE(region.invalidation_told);
		region.invalidation_told = true;
	} else if (same_words(what, "discard")) {
		region.discard_told = true;
	}
}

void PortLedger::traced_credits(u32 from, u32 to)
{
	from_ = from;
	to_ = to;
}

void PortLedger::granted(u32 credits)
{
	EXPECT_EQ(from_, window_);
	EXPECT_EQ(to_, credits);
	EXPECT_NE(window_, credits);
	window_ = credits;
}

void PortLedger::traced_failure(u32 which, u32 xid, int value)
{
	logged_ = the_port->log.logged;
	TEST_NOTE("failure", which);
	if (!of_client())
		return;
	expect_figure(kFailures[which], value);
	EXPECT_TRUE(!xid || knows_(xid));
	if (which == RPCORDMA_FAILURE_reply_unmatched)
		replies_ = 0;
}

void PortLedger::traced_loss(u32 which, int value)
{
	TEST_NOTE("loss", which);
	const bool new_line = the_port->log.logged > logged_;

	logged_ = the_port->log.logged;
	/* What an administrator has to do something about is in the log. */
	for (const u32 grave : {RPCORDMA_LOSS_device_registration, RPCORDMA_LOSS_device_queues,
				RPCORDMA_LOSS_backward_overrun, RPCORDMA_LOSS_backward_oversized})
		if (of_client() && which == grave)
			EXPECT_TRUE(new_line);
	/* That of the event before it. */
	if (of_client() && which != RPCORDMA_LOSS_rpc_failed)
		expect_figure(kLosses[which], value);
}

void PortLedger::traced_connection(const char *what, int value) const
{
	for (const char *bare : {"close", "disconnect injected", "no answer in version 2"})
		if (same_words(what, bare))
			EXPECT_EQ(value, 0);
}

void PortLedger::balance() const
{
	for (const Chain &chain : chains_)
		EXPECT_EQ(chain.entry, nullptr);
	EXPECT_FALSE(message_.made);
	EXPECT_EQ(sending_, 0);
}

} // namespace rpcordma
