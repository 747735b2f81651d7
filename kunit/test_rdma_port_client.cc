// SPDX-License-Identifier: GPL-2.0-only
/* What test_rdma_port_client.hh declares. No tests here. */
#include "kunit/test_rdma_port.hh"
#include "module/client/client.hh"
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

/* The region that @wr registers, or invalidates; null: none. */
const rpcordma_region *region_of(const rpcordma_send_wr &wr)
{
	if (wr.opcode == RPCORDMA_WR_REG_MR)
		return reinterpret_cast<const rpcordma_region *>(
			reinterpret_cast<const rpcordma_reg_wr &>(wr).mr);
	for (const rpcordma_region *region : the_port->dma.all_regions)
		if (region && wr.opcode == RPCORDMA_WR_LOCAL_INV && region->key == wr.invalidate_rkey)
			return region;
	return nullptr;
}

/* On whose account the chain of @first is posted. */
u32 xid_of(const rpcordma_send_wr &first)
{
	const rpcordma_region *region = region_of(first);

	return region ? u32(region->iova >> 32) : word_of(first, 0);
}

/* What it is called when that cannot be posted. */
rpcordma_failure failure_of(const rpcordma_send_wr &first)
{
	for (const rpcordma_send_wr *wr = &first; wr; wr = wr->next)
		if (wr->opcode == RPCORDMA_WR_SEND)
			return RPCORDMA_FAILURE_post_failed;
	return first.opcode == RPCORDMA_WR_LOCAL_INV ? RPCORDMA_FAILURE_invalidate_post_failed :
						       RPCORDMA_FAILURE_scratch_post_failed;
}

#define RPCORDMA_TEXT(name, text) text,
const char *const kFailures[] = {RPCORDMA_FAILURES(RPCORDMA_TEXT)};
const char *const kLosses[] = {RPCORDMA_LOSSES(RPCORDMA_TEXT)};
#undef RPCORDMA_TEXT

/*
 * The figure that an event has is what its text says behind a colon: an errno, the status of a completion that failed, another
 * figure, or none, which is 0. A server has some figures that their text does not tell of.
 */
void expect_figure(const char *text, int value)
{
	while (*text && *text != ':')
		text++;
	if (same_words(text, ": errno"))
		EXPECT_TRUE(value < 0 && value >= -4095);
	else if (same_words(text, ": status"))
		EXPECT_NE(value, RPCORDMA_WC_SUCCESS);
	else if (!of_client())
		return;
	else if (!*text)
		EXPECT_EQ(value, 0);
	else
		EXPECT_GE(value, 0);
}

} // namespace

void ClientLedger::know(u32 xid)
{
	if (!knows_(xid))
		xids_[xids_known_++ % kXids] = xid;
}

bool ClientLedger::knows_(u32 xid) const
{
	for (const u32 known : xids_)
		if (known == xid)
			return true;
	return false;
}

void ClientLedger::failed(rpcordma_failure which, u32 xid, int value)
{
	if (!of_client())
		return;
	EXPECT_FALSE(failure_.owed);
	failure_ = {true, which, xid, value};
}

void ClientLedger::posting(const rpcordma_send_wr *first, int result)
{
	const rpcordma_send_wr *send = nullptr;
	u32 regions = 0;

	if (!of_client())
		return;
	if (result)
		failed(failure_of(*first), xid_of(*first), result);
	for (const rpcordma_send_wr *wr = first; wr; wr = wr->next) {
		/* One that is not the last is heard of only when it fails. */
		if (wr->next)
			EXPECT_FALSE(wr->send_flags & RPCORDMA_SEND_SIGNALED);
		EXPECT_EQ(wr->send_flags & ~RPCORDMA_SEND_SIGNALED, 0);
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

void ClientLedger::sending(u32 xid)
{
	EXPECT_TRUE(message_.made);
	EXPECT_EQ(message_.xid, xid);
	sending_++;
}

void ClientLedger::traced_marshal(u32 xid, u32 credits, u32 proc, u32 header, u32 stream)
{
	EXPECT_FALSE(message_.made);
	message_ = {true, xid, credits, proc, header + (proc == u32(xdr::Kind::msg) ? stream : 0)};
}

void ClientLedger::replied(u32 xid)
{
	replies_++;
	replied_ = xid;
}

void ClientLedger::traced_reply(const char *what, u32 xid, u32 credits, u32 proc, int result)
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

void ClientLedger::traced_region(const char *what, u32 xid, rpcordma_region &region,
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

void ClientLedger::traced_credits(u32 from, u32 to)
{
	from_ = from;
	to_ = to;
}

void ClientLedger::granted(u32 credits)
{
	EXPECT_EQ(from_, window_);
	EXPECT_EQ(to_, credits);
	EXPECT_NE(window_, credits);
	window_ = credits;
}

void ClientLedger::traced_failure(u32 which, u32 xid, int value)
{
	logged_ = the_port->log.logged;
	failed_ = value;
	TEST_NOTE("failure", which);
	expect_figure(kFailures[which], value);
	if (!of_client())
		return;
	if (failure_.owed && failure_.which == which) {
		EXPECT_EQ(xid, failure_.xid);
		EXPECT_EQ(value, failure_.value);
		failure_.owed = false;
	}
	EXPECT_TRUE(!xid || knows_(xid));
	/* What is wrong with a transmission is known only where a message may have several. */
	const auto *c = static_cast<const Connection *>(the_port->verbs.requester);
	if (which == RPCORDMA_FAILURE_backward_refusal_lost && !c->session.reduces())
		EXPECT_EQ(value, 0);
	/* Ahead of the connection's end, which comes of it. */
	if (which == RPCORDMA_FAILURE_repterr_received)
		EXPECT_FALSE(c->broken.load());
	if (which == RPCORDMA_FAILURE_reply_unmatched)
		replies_ = 0;
}

void ClientLedger::traced_loss(u32 which, int value)
{
	TEST_NOTE("loss", which);
	const bool new_line = the_port->log.logged > logged_;

	logged_ = the_port->log.logged;
	/* What an administrator has to do something about is in the log. */
	for (const u32 grave : {RPCORDMA_LOSS_device_registration, RPCORDMA_LOSS_device_queues,
				RPCORDMA_LOSS_backward_overrun, RPCORDMA_LOSS_backward_oversized})
		if (of_client() && which == grave)
			EXPECT_TRUE(new_line);
	/* That of the event before it; others than an errno may be another message's. */
	if (which != RPCORDMA_LOSS_rpc_failed)
		expect_figure(kLosses[which], value);
	else if (of_client() && value < 0)
		EXPECT_EQ(value, failed_);
	failed_ = 0;
}

void ClientLedger::traced_connection(const char *what, int value) const
{
	for (const char *bare : {"close", "disconnect injected", "no answer in version 2"})
		if (same_words(what, bare))
			EXPECT_EQ(value, 0);
}

void ClientLedger::balance() const
{
	EXPECT_FALSE(message_.made);
	EXPECT_EQ(sending_, 0);
	TEST_NOTE("failure", failure_.which);
	EXPECT_FALSE(failure_.owed);
}

} // namespace rpcordma
