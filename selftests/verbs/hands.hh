// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hands on the client's machine, for tests in which this program is the server: `verbspeer hands` runs
 * there and does what it is told over TCP (mount, read, write, list), one process and one connection for
 * each order, so that each can be killed in the middle. A Job is such an order, on the server's side.
 */
#pragma once

#include "peer.hh"

namespace verbs {

constexpr u16 hands_port = 20050;

/** What the client's side does and came to. Forgotten means killed. */
class Job {
public:
	/**
	 * @client  address of the machine where the hands are
	 * @order   what they do: words, see hands.cc
	 */
	Job(Peer &peer, const std::string &client, const std::string &order);
	~Job();
	Job(const Job &) = delete;
	Job &operator=(const Job &) = delete;

	[[nodiscard]] bool ended() const
	{
		return ended_;
	}
	/** SIGKILL. It has ended when the process is gone, which may take until its call is given up. */
	void kill();
	/** An errno, or 0; killed: EINTR. */
	[[nodiscard]] int error() const
	{
		return error_;
	}
	/** What was read. */
	[[nodiscard]] const Octets &bytes() const
	{
		return bytes_;
	}

private:
	void readable_();

	Peer &peer_;
	std::string client_;
	int fd_ = -1;
	Octets in_, bytes_;
	int error_ = 0;
	bool ended_ = false;
};

/** Serves Jobs until it is killed. */
int hands();

} // namespace verbs
