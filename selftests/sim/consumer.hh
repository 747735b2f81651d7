// SPDX-License-Identifier: GPL-2.0-only
/*
 * The consumers at both ends: a client that makes calls of all shapes, in memory of its own that is used
 * for something else as soon as a call has ended, and a service that answers them. Both check every byte.
 */
#pragma once

#include "selftests/sim/message.hh"
#include "selftests/sim/reply_cache.hh"
#include "selftests/sim/sunrpc.hh"
#include "selftests/sim/svc.hh"

namespace sim {

/** One call of the client, with its pages. */
class ClientCall : public Procedure {
public:
	explicit ClientCall(const Call &call);
	~ClientCall() override;
	void encode(rpc_rqst &rqst) override;
	void replace_pages() override;
	void move_border(rpcordma_xdr_buf &receive) override;
	void decode(const rpcordma_xdr_buf &buf, u32 length) override;

	bool decoded = false;

private:
	Call call_;
	const VersionMemory *client_ = nullptr;
	u32 xid_ = 0;
	bool sparse_ = false;
	u32 slack_ = 0; /* bytes by which the reply's front is overestimated */
	u32 send_base_ = 0, receive_base_ = 0;
	std::vector<page *> send_pages_, receive_pages_;
};

/**
 * Have somebody keep one of the pages that @rqst has on loan for longer than the call is, as one who sends it on does. What
 * it holds has to stay. Without such pages, nothing.
 */
void keep_lent_page(const svc_rqst &rqst);

/** What nfsd does. */
class FileService : public Program {
public:
	bool process(svc_rqst &rqst) override;

	u32 drops = 0;	/* one call in so many is dropped, and with it maybe the connection */
	u32 defers = 0; /* one that can be is put off */
	u32 slow = 0;	/* one takes seconds */
	u32 others = 0; /* one reply with data has more results */
	u32 processed = 0;
	ReplyCache cache;

private:
	/** The reply to @call, which is executed now, or was. Empty: there is none, and what becomes of it is in @rqst. */
	std::vector<u8> serve_(svc_rqst &rqst, const Call &call, const std::vector<u8> &bytes);
	/** Whether a call with @xid is to be executed now. */
	bool is_served_(svc_rqst &rqst, u32 xid);
};

/** The client's callback service, for as long as the transport serves backward calls. */
class CallbackService {
public:
	explicit CallbackService(rpc_xprt &xprt) : xprt_(xprt)
	{
	}
	virtual ~CallbackService() = default;
	/** Of @sessions, each of which has the backchannel made for it and given up. */
	bool start(u32 sessions = 1);
	void stop();

	u32 drops = 0; /* one backward call in so many has no reply */

protected:
	/** The reply to a backward call; checks it. */
	virtual std::vector<u8> answer(u32 xid, const std::vector<u8> &call);

private:
	void serve_();
	rpc_xprt &xprt_;
	bool running_ = false, stopping_ = false;
	u32 sessions_ = 0;
	WaitQueue ended_;
};

/** One backward call, over any connection of @service. */
void call_back(Service &service, u32 id, u32 xid);

} // namespace sim
