// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cases of devices that are made, and of what is asked of one as a whole.
 */
#include <linux/if_arp.h>
#include <linux/netdevice.h>

#include "rules.h"

/* "rdma link add" of a device that belongs to @netdev fails, once a shell has done @before; @after is done then. */
static int not_made(const char *before, const char *netdev, const char *after)
{
	char command[400];

	snprintf(command, sizeof(command),
		 "cd /sys/module/vhca/parameters && %s || exit 2; made=; "
		 "if rdma link add vhca_odd type vhca netdev %s 2> /dev/null; then made=1; rdma link delete vhca_odd; fi; "
		 "%s; [ ! $made ]", before, netdev, after);
	return shell(command);
}

static int link_twice(struct bed *bed)
{
	return not_made(":", "va", ":") ? wrong("an interface has two devices") : 0;
}

/* What the parameters say of it is not to be had. */
static int link_parameters(struct bed *bed)
{
	const char *wrong_one = NULL;

	TRY(shell("ip link add vl type veth peer name vm"));
	if (not_made("was=$(cat preset) && echo none-such > preset", "vl", "echo $was > preset"))
		wrong_one = "of no preset";
	else if (not_made("was=$(cat bounce) && echo N > checks && echo Y > bounce", "vl",
			  "echo $was > bounce; echo Y > checks"))
		wrong_one = "with bounce buffers and no checks";
	TRY(shell("ip link delete vl"));
	return wrong_one ? wrong("there is a device %s", wrong_one) : 0;
}

static netdev_tx_t drop(struct sk_buff *skb, struct net_device *netdev)
{
	kfree_skb(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops odd_ops = {.ndo_start_xmit = drop};

static void odd_setup(struct net_device *netdev)
{
	netdev->netdev_ops = &odd_ops;
	netdev->type = ARPHRD_NONE;
	netdev->flags = IFF_NOARP;
	netdev->mtu = 1500;
	netdev->addr_len = 8;
}

/* GUID and GIDs come from an Ethernet address, which this one has not. */
static int link_of_other_kind(struct bed *bed)
{
	struct net_device *netdev = alloc_netdev(0, "vodd", NET_NAME_USER, odd_setup);
	int err;

	MUST(netdev);
	err = register_netdev(netdev);
	if (!err) {
		err = not_made(":", "vodd", ":");
		unregister_netdev(netdev);
	}
	free_netdev(netdev);
	return err ? wrong("a device belongs to no Ethernet interface, or: %d", err) : 0;
}

static int port_keys(struct bed *bed)
{
	u16 pkey = 0;

	TRY(ib_query_pkey(bed->a.dev, 1, 0, &pkey));
	MUST(pkey == 0xffff);
	MUST(ib_query_pkey(bed->a.dev, 1, 1, &pkey) == -EINVAL);
	return 0;
}

const struct rules_case device_cases[] = {
	{"link-twice", link_twice, ALONE},
	{"link-parameters", link_parameters, ALONE},
	{"link-of-other-kind", link_of_other_kind, ALONE},
	{"port-keys", port_keys, ALONE},
	{}
};
