/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The peer of a connection. Embedded in client transports and server connections, with their
 * lifetime.
 */
#ifndef RPCORDMA_LINUX_PEER_H
#define RPCORDMA_LINUX_PEER_H

#include <linux/in.h>
#include <linux/in6.h>
#include <linux/socket.h>
#include <linux/string.h>

#include "compat/port/base.h"

struct rpcordma_peer {
	union {
		struct sockaddr address;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
};

/** @address is an IPv4 or IPv6 address. */
static inline void rpcordma_peer_set(struct rpcordma_peer *peer, const struct sockaddr *address)
{
	if (address->sa_family == AF_INET6)
		memcpy(&peer->v6, address, sizeof(peer->v6));
	else
		memcpy(&peer->v4, address, sizeof(peer->v4));
}

#endif
