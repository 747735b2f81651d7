// SPDX-License-Identifier: GPL-2.0-only
/* What test_rdma_port_ledger.hh declares. No tests here. */
#include "kunit/completion.hh"
#include "kunit/test_rdma_port.hh"
#include "module/server/server.hh"
#include "xdr/wire.hh"

namespace rpcordma {
namespace {

#define RPCORDMA_TEXT(name, text) text,
const char *const kFailures[] = {RPCORDMA_FAILURES(RPCORDMA_TEXT)};
const char *const kLosses[] = {RPCORDMA_LOSSES(RPCORDMA_TEXT)};
#undef RPCORDMA_TEXT

/* Whether a figure belongs to what @text tells: it stands behind a colon. */
[[nodiscard]] bool has_figure(const char *text)
{
	while (*text && *text != ':')
		text++;
	return *text;
}

/* Whether events of this class are listened to. */
[[nodiscard]] bool traced(u32 which)
{
	return rpcordma_trace_enabled & which;
}

/* What events call that which completes to @cqe: a call of the server's, or a Receive; of a client the entry itself. */
[[nodiscard]] const void *entry_of(rpcordma_cqe *cqe)
{
	switch (kind_of(*cqe)) {
	case RPCORDMA_CQE_SERVER_SEND:
		return ServerCall::of_send(cqe);
	case RPCORDMA_CQE_SERVER_READ:
		return ServerCall::of_read(cqe);
	case RPCORDMA_CQE_SERVER_CHAIN:
		return ServerCall::of_chain(cqe);
	case RPCORDMA_CQE_SERVER_RECEIVE:
	case RPCORDMA_CQE_RECEIVE:
		return OwnedCqe<Receive>::owner_of(cqe);
	}
	return cqe;
}

/* Whether an event of what completes to @cqe may be called @what. */
[[nodiscard]] bool names(const char *what, const rpcordma_cqe &cqe)
{
	switch (kind_of(cqe)) {
	case RPCORDMA_CQE_SERVER_RECEIVE:
	case RPCORDMA_CQE_RECEIVE:
		return same_words(what, "receive");
	case RPCORDMA_CQE_SERVER_READ:
		return same_words(what, "read") || same_words(what, "write");
	case RPCORDMA_CQE_SERVER_CHAIN:
		return same_words(what, "chain");
	case RPCORDMA_CQE_REGISTER:
		return same_words(what, "register");
	case RPCORDMA_CQE_INVALIDATE:
		return same_words(what, "invalidate");
	}
	return same_words(what, "send");
}

[[nodiscard]] bool sends(const rpcordma_send_wr &wr)
{
	return wr.opcode == RPCORDMA_WR_SEND || wr.opcode == RPCORDMA_WR_SEND_WITH_INV;
}

/* The XID of the message that @wr sends: its first word. */
[[nodiscard]] u32 xid_of(const rpcordma_send_wr &wr)
{
	u8 word[xdr::word_size];

	for (u32 i = 0; i < sizeof(word); i++)
		word[i] = *the_port->dma.byte_of(wr.sg_list[0], i);
	return xdr::load_be32(word);
}

} // namespace

PortLedger::Post PortLedger::chain_of(const rpcordma_send_wr *first, int result)
{
	Post post = {};

	post.owed = traced(RPCORDMA_TRACE_POST);
	post.result = result;
	for (const rpcordma_send_wr *wr = first; wr; wr = wr->next) {
		post.requests++;
		post.writes += wr->opcode == RPCORDMA_WR_RDMA_WRITE;
		post.signaled = wr->send_flags & RPCORDMA_SEND_SIGNALED;
		post.entry = entry_of(wr->cqe);
		if (sends(*wr)) {
			post.xid_known = true;
			post.xid = xid_of(*wr);
		}
	}
	/* What registers the sink of Reads, or invalidates it, counts with them. */
	if (!post.writes && !post.xid_known)
		post.reads = post.requests;
	/* Reads or Writes alone are of a call. */
	if (!post.xid_known && the_port->verbs.server) {
		post.xid_known = true;
		post.xid = static_cast<const ServerCall *>(post.entry)->xid();
	}
	return post;
}

void PortLedger::posted(const Post &post)
{
	Post &last = posts_[RPCORDMA_TRACE_SEND_QUEUE];

	EXPECT_FALSE(last.owed);
	last = post;
	if (!post.result) {
		reads_ += post.reads;
		writes_ += post.writes;
	}
}

void PortLedger::posted(const rpcordma_recv_wr *first, int result)
{
	Post &post = posts_[RPCORDMA_TRACE_RECEIVE_QUEUE];
	u64 entries = 0;

	EXPECT_FALSE(post.owed);
	post = {};
	post.owed = traced(RPCORDMA_TRACE_POST);
	post.result = result;
	post.signaled = post.xid_known = true;
	post.entry = entry_of(first->cqe);
	for (const rpcordma_recv_wr *wr = first; wr; wr = wr->next) {
		post.requests++;
		entries += reinterpret_cast<__UINTPTR_TYPE__>(entry_of(wr->cqe));
	}
	if (traced(RPCORDMA_TRACE_RECEIVE_POSTED)) {
		EXPECT_EQ(receives_, post.requests);
		EXPECT_EQ(receive_entries_, entries);
	}
	receives_ = 0;
	receive_entries_ = 0;
}

void PortLedger::traced_post(rpcordma_trace_queue queue, u32 xid, u32 requests, bool signaled,
			     int result, const void *entry)
{
	Post &post = posts_[queue];

	EXPECT_TRUE(post.owed);
	post.owed = false;
	if (post.xid_known)
		EXPECT_EQ(xid, post.xid);
	EXPECT_EQ(requests, post.requests);
	EXPECT_EQ(signaled, post.signaled);
	EXPECT_EQ(result, post.result);
	EXPECT_EQ(entry, post.entry);
}

void PortLedger::traced_receive(const void *entry)
{
	receives_++;
	receive_entries_ += reinterpret_cast<__UINTPTR_TYPE__>(entry);
}

PortLedger::Completing::Completing(PortLedger &ledger, const rpcordma_completion &completion)
	: ledger_(ledger),
	  before_(ledger.completing_)
{
	ledger_.completing_ = &completion;
	ledger_.completions_++;
}

PortLedger::Completing::~Completing()
{
	if (traced(RPCORDMA_TRACE_COMPLETION))
		EXPECT_EQ(ledger_.traced_completions_, ledger_.completions_);
	ledger_.completing_ = before_;
}

void PortLedger::traced_completion(rpcordma_trace_queue queue, const char *what, int status,
				   u32 byte_len, u32 invalidated_rkey, const void *entry)
{
	ASSERT_NE(completing_, nullptr);
	const rpcordma_completion &completion = *completing_;
	const u64 kind = kind_of(*completion.cqe);
	const bool receive = kind == RPCORDMA_CQE_RECEIVE || kind == RPCORDMA_CQE_SERVER_RECEIVE;
	const bool came = receive && completion.status == RPCORDMA_WC_SUCCESS;

	traced_completions_++;
	EXPECT_EQ(queue, receive ? RPCORDMA_TRACE_RECEIVE_QUEUE : RPCORDMA_TRACE_SEND_QUEUE);
	EXPECT_TRUE(names(what, *completion.cqe));
	EXPECT_EQ(status, completion.status);
	EXPECT_EQ(byte_len, came ? completion.byte_len : 0);
	EXPECT_EQ(invalidated_rkey, came && completion.flags & RPCORDMA_WC_WITH_INVALIDATE ?
					    completion.invalidated_rkey :
					    0);
	EXPECT_EQ(entry, entry_of(completion.cqe));
}

void PortLedger::expect_same(const Mapping &a, const Mapping &b)
{
	EXPECT_EQ(a.pieces, b.pieces);
	EXPECT_EQ(a.length, b.length);
	EXPECT_EQ(a.direction, b.direction);
}

void PortLedger::mapped(rpcordma_dma direction, u32 pieces, u32 length)
{
	/* A client tells of none. */
	if (!traced(RPCORDMA_TRACE_BULK) || !the_port->verbs.server)
		return;
	/* The one before was told of. */
	EXPECT_EQ(mapped_.pieces, 0);
	mapped_ = {pieces, length, direction};
}

void PortLedger::unmapped(rpcordma_dma direction, u32 pieces, u32 length)
{
	if (!traced(RPCORDMA_TRACE_BULK) || !the_port->verbs.server)
		return;
	expect_same(unmapped_, {pieces, length, direction});
	unmapped_ = {};
}

void PortLedger::mapped(const rpcordma_region *region, const rpcordma_mapping &mapping)
{
	if (!traced(RPCORDMA_TRACE_REGION))
		return;
	EXPECT_EQ(region_, nullptr);
	region_ = region;
	mapping_ = mapping;
}

void PortLedger::traced_bulk(rpcordma_bulk_event which, u32 xid, u32 pieces, u32 length)
{
	const bool writes = which == RPCORDMA_BULK_reply_mapped ||
			    which == RPCORDMA_BULK_reply_unmapped;
	const Mapping told = {pieces, length,
			      writes ? RPCORDMA_DMA_TO_DEVICE : RPCORDMA_DMA_FROM_DEVICE};

	if (which == RPCORDMA_BULK_reply_mapped || which == RPCORDMA_BULK_sink_mapped) {
		expect_same(told, mapped_);
		mapped_ = {};
		xids_[writes] += xid;
		pieces_[writes] += pieces;
		bytes_[writes] += length;
	} else {
		EXPECT_EQ(unmapped_.pieces, 0);
		unmapped_ = told;
		xids_[writes] -= xid;
		pieces_[writes] -= pieces;
		bytes_[writes] -= length;
	}
}

void PortLedger::traced_region(const char *what, u32 xid, const rpcordma_region *region,
			       const rpcordma_mapping *mapping)
{
	/* A client's have more ways to go. */
	if (!the_port->verbs.server)
		return;
	if (same_words(what, "map")) {
		EXPECT_EQ(region, region_);
		EXPECT_EQ(mapping->rkey, mapping_.rkey);
		EXPECT_EQ(mapping->length, mapping_.length);
		EXPECT_EQ(mapping->iova, mapping_.iova);
		region_ = nullptr;
		region_maps_++;
		region_xids_ += xid;
	} else {
		EXPECT_TRUE(same_words(what, "unmap"));
		EXPECT_FALSE(region->mapped);
		region_maps_--;
		region_xids_ -= xid;
	}
}

void PortLedger::know(u32 xid)
{
	known_[known_count_++ % (sizeof(known_) / sizeof(known_[0]))] = xid;
}

bool PortLedger::knows(u32 xid) const
{
	for (const u32 known : known_)
		if (known == xid)
			return true;
	return false;
}

void PortLedger::traced_reply(const char *what, u32 xid, int result) const
{
	if (!the_port->verbs.server)
		return;
	EXPECT_TRUE(knows(xid));
	/* There is none of what is about the connection. */
	if (same_words(what, "control"))
		EXPECT_EQ(result, 0);
}

void PortLedger::traced_failure(u32 which, u32 xid, int value) const
{
	if (!the_port->verbs.server)
		return;
	TEST_NOTE("failure", which);
	/* 0: of no message. */
	EXPECT_TRUE(!xid || knows(xid));
	/* Those that say what the answer is have its code besides. */
	if (!has_figure(kFailures[which]) && which != RPCORDMA_FAILURE_err_vers_sent &&
	    which != RPCORDMA_FAILURE_err_chunk_sent)
		EXPECT_EQ(value, 0);
}

void PortLedger::traced_loss(u32 which, int value) const
{
	if (!the_port->verbs.server)
		return;
	TEST_NOTE("loss", which);
	/* What the client offered, where it was the device or the administrator that allows none. */
	if (!has_figure(kLosses[which]) && which != RPCORDMA_LOSS_client_serves_no_reads)
		EXPECT_EQ(value, 0);
	/* An administrator has to do something about these: that is in the log by then. */
	for (const u32 grave : {RPCORDMA_LOSS_device_registration, RPCORDMA_LOSS_device_queues,
				RPCORDMA_LOSS_client_serves_no_reads})
		if (which == grave)
			EXPECT_EQ(the_port->log.logged, 1);
}

void PortLedger::expect_even() const
{
	for (const Post &post : posts_)
		EXPECT_FALSE(post.owed);
	EXPECT_EQ(receives_, 0);
	EXPECT_EQ(mapped_.pieces, 0);
	EXPECT_EQ(unmapped_.pieces, 0);
	EXPECT_EQ(region_, nullptr);
}

void PortLedger::expect_unmapped() const
{
	expect_even();
	for (u32 writes = 0; writes < 2; writes++) {
		TEST_NOTE("of replies", writes);
		EXPECT_EQ(pieces_[writes], 0);
		EXPECT_EQ(bytes_[writes], 0);
		EXPECT_EQ(xids_[writes], 0);
	}
}

void PortLedger::expect_no_regions() const
{
	EXPECT_EQ(region_maps_, 0);
	EXPECT_EQ(region_xids_, 0);
}

} // namespace rpcordma
