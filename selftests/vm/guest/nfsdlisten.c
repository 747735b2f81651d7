// SPDX-License-Identifier: GPL-2.0-only
/*
 * nfsdlisten ADDRESS PORT: nfsd, while it has no threads, listens on RDMA there and nowhere else.
 *
 * /proc/fs/nfsd/portlist makes listeners for all addresses only; for one address there is the
 * generic netlink family "nfsd" (Linux 6.10), whose numbers are here because the headers to compile
 * with may be older.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTENER_SET	6
#define SERVER_ADDR	1	/* nested, once for each listener: */
#define SOCK_ADDR	1
#define SOCK_TRANSPORT	2

struct message {
	struct nlmsghdr header;
	struct genlmsghdr genl;
	char attributes[4096];
};

__attribute__((noreturn))
static void fail(const char *what)
{
	fprintf(stderr, "nfsdlisten: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void begin(struct message *m, int family, int command, int flags)
{
	memset(m, 0, sizeof(*m));
	m->header.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
	m->header.nlmsg_type = family;
	m->header.nlmsg_flags = NLM_F_REQUEST | flags;
	m->genl.cmd = command;
	m->genl.version = 1;
}

static struct nlattr *put(struct message *m, int type, const void *data, size_t length)
{
	struct nlattr *attr = (struct nlattr *)((char *)m + NLMSG_ALIGN(m->header.nlmsg_len));

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + length;
	if (length)
		memcpy(attr + 1, data, length);
	m->header.nlmsg_len = NLMSG_ALIGN(m->header.nlmsg_len) + NLA_ALIGN(attr->nla_len);
	return attr;
}

static void ask(int fd, struct message *m, const char *what)
{
	ssize_t got;

	if (send(fd, m, m->header.nlmsg_len, 0) < 0)
		fail(what);
	got = recv(fd, m, sizeof(*m), 0);
	if (got < (ssize_t)NLMSG_LENGTH(sizeof(int)))
		fail(what);
	if (m->header.nlmsg_type == NLMSG_ERROR) {
		errno = -((struct nlmsgerr *)NLMSG_DATA(&m->header))->error;
		if (errno)
			fail(what);
	}
}

static int family_of(int fd, const char *name)
{
	struct message m;
	char *at, *end;

	begin(&m, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);
	put(&m, CTRL_ATTR_FAMILY_NAME, name, strlen(name) + 1);
	ask(fd, &m, "no netlink family nfsd: is the module there, and the kernel 6.10 or later?");
	end = (char *)&m + m.header.nlmsg_len;
	for (at = m.attributes; at < end;) {
		struct nlattr *attr = (struct nlattr *)at;

		if (attr->nla_type == CTRL_ATTR_FAMILY_ID)
			return *(unsigned short *)(attr + 1);
		at += NLA_ALIGN(attr->nla_len);
	}
	fail("the netlink family nfsd has no number");
}

int main(int argc, char **argv)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct sockaddr_storage address = { 0 };
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&address;
	struct message m;
	struct nlattr *nest;
	int fd;

	if (argc != 3 || !atoi(argv[2])) {
		fputs("usage: nfsdlisten ADDRESS PORT\n", stderr);
		return 2;
	}
	if (inet_pton(AF_INET, argv[1], &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(atoi(argv[2]));
	} else if (inet_pton(AF_INET6, argv[1], &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(atoi(argv[2]));
	} else {
		errno = EINVAL;
		fail(argv[1]);
	}
	fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
	if (fd < 0 || connect(fd, (struct sockaddr *)&kernel, sizeof(kernel)))
		fail("generic netlink");

	begin(&m, family_of(fd, "nfsd"), LISTENER_SET, NLM_F_ACK);
	nest = put(&m, SERVER_ADDR | NLA_F_NESTED, NULL, 0);
	put(&m, SOCK_ADDR, &address, sizeof(address));
	put(&m, SOCK_TRANSPORT, "rdma", sizeof("rdma"));
	nest->nla_len = (char *)&m + m.header.nlmsg_len - (char *)nest;
	ask(fd, &m, "listen");
	return 0;
}
