// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a client alone has the port do, held against what it traces: each region, message made, reply found and change of the
 * credits has its event, which says of it what is so, and there is no other. What a failure or a loss says is of the kind
 * that compat/port/trace.h tells. Of posts and completions: test_rdma_port_ledger.hh.
 */
#pragma once

#include "kunit/test_rdma_port_memory.hh"

namespace rpcordma {

class ClientLedger {
public:
	/* What was done. */

	/** The chain from @first on is being given to the device, which says @result. */
	void posting(const rpcordma_send_wr *first, int result);
	/** What the port was asked for on account of @xid has failed with @value: that is to be told of as @which. */
	void failed(rpcordma_failure which, u32 xid, int value);
	/** A completion was handled: who was looked for was told of. */
	void handled() const
	{
		EXPECT_EQ(replies_, 0);
	}
	/** The message of @xid is about to be posted. */
	void sending(u32 xid);
	/** A reply to @xid has come, whose call was looked for. */
	void replied(u32 xid);
	/** A connection begins with @credits, */
	void begun(u32 credits)
	{
		window_ = credits;
	}
	/** and has @credits from here on. */
	void granted(u32 credits);
	/** There is a message of @xid, or a call. */
	void know(u32 xid);

	/* What was traced. */
	void traced_marshal(u32 xid, u32 credits, u32 proc, u32 header, u32 stream);
	void traced_reply(const char *what, u32 xid, u32 credits, u32 proc, int result);
	void traced_region(const char *what, u32 xid, rpcordma_region &region,
			   const rpcordma_mapping &mapping);
	void traced_credits(u32 from, u32 to);
	void traced_failure(u32 which, u32 xid, int value);
	void traced_loss(u32 which, int value);
	void traced_connection(const char *what, int value) const;

	/** Nothing is left to be traced, but what somebody is about to. */
	void balance() const;

	/* What was posted, for counters: regions that messages register, */
	u32 registered = 0;
	u64 writable_bytes = 0;	   /* and of those that the peer writes to, the bytes */
	u32 scratch = 0;	   /* such as have scratch memory */
	u32 invalidations = 0;	   /* LOCAL_INVs */
	u32 drained = 0;	   /* regions that a drain took back */
	u32 nomsgs = 0, leads = 0; /* calls: RDMA_NOMSGs, and XMTREQs */

private:
	static constexpr u32 kXids = 64;

	[[nodiscard]] bool knows_(u32 xid) const;

	/* What has failed, and was not told of yet. */
	struct {
		bool owed;
		u32 which, xid;
		int value;
	} failure_ = {};
	/* The message that was made last, and not posted yet. */
	struct {
		bool made;
		u32 xid, credits, proc, length;
	} message_ = {};
	u32 sending_ = 0;		     /* messages that sunrpc was told of, likewise */
	u32 replies_ = 0;		     /* found, and not traced yet */
	u32 replied_ = 0;		     /* the last one's xid */
	u32 from_ = 0, to_ = 0, window_ = 0; /* credits */
	u32 xids_[kXids] = {}, xids_known_ = 0;
	u32 logged_ = 0; /* lines, when something failed last */
	int failed_ = 0; /* the last failure's figure, unless a connection was lost for it */
};

} // namespace rpcordma
