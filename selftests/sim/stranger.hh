// SPDX-License-Identifier: GPL-2.0-only
/*
 * An end of a connection that has no core behind it and keeps no rule: a hostile peer, or whatever else a
 * test makes of it. It says what it likes, reaches for whatever it likes, and hears all that the core at
 * the other end sends.
 *
 * The fabric stays as strict as ever with the core. What is the stranger's fault only breaks the connection:
 * a message without a Receive, or too long for it, and an access to what is not registered.
 */
#pragma once

#include "selftests/sim/cm.hh"

namespace sim {

/** The smallest Receive of version 2, whatever a page is. */
constexpr u32 kLeast = rpcordma::properties::default_receive_size;

class Stranger {
public:
	explicit Stranger(const char *name) : peer_{name}
	{
	}
	virtual ~Stranger();
	/** As a client does: 0, or a negative errno. */
	int connect(const std::vector<u8> &private_data);
	/** Answer a connection request, soon; what a listener does. False: refused. */
	bool accept(const std::shared_ptr<CmId> &id, const std::vector<u8> &private_data);
	/** Disconnect, if it is connected, and be nobody. */
	void leave();

	/** The queue pair of the core at the other end, or null. */
	std::shared_ptr<Qp> other() const;
	/** The ledger's number of the connection, or 0. */
	u32 connection() const;
	/** Send it @message, with an R_key to invalidate, or 0. False: it did not arrive. */
	bool say(const std::vector<u8> &message, u32 invalidate = 0);
	/** RDMA Read or Write. False: it is refused, and the connection is lost. */
	bool reach(u64 address, u32 key, u32 length, u8 *buffer, Access access);
	/** Its queue pair is in the error state; nobody is told. */
	void fall_silent();
	/** Receives that it has posted. */
	u32 receives = ~0u;

	/* What the other end does to it. */
	/** A message, with an R_key that it invalidates, or 0. */
	virtual void heard(const std::vector<u8> &message, u32 invalidated) = 0;
	/** An access to its memory: false, it is not to be accessed. */
	virtual bool reached(u64 address, u32 key, u32 length, u8 *buffer, Access access) = 0;

private:
	void begin_(rpcordma_endpoint *endpoint);

	rpcordma_peer peer_;
	rpcordma_endpoint *endpoint_ = nullptr;
	bool accepting_ = false;
	WaitQueue accepted_;
};

} // namespace sim
