// SPDX-License-Identifier: GPL-2.0-only
/*
 * golden: the guest's half of scripts/wire-golden. Captures frames, and does the same file operations
 * each time, one after the other.
 *
 *	capture NETDEV FILE	write the RoCEv2 frames that pass NETDEV, both ways, to FILE (pcap). FILE.ready
 *				is there once it listens. Ends at SIGTERM
 *	work DIR		direct and buffered I/O of many lengths, listings, links, attributes, locks
 *	sweep DIR THRESHOLD	direct I/O of each length about an inline threshold
 *	small DIR		a few operations
 *	settle DIR		nothing but to wait for the next second
 *	recall DIR SERVERS_DIR	delegations that are recalled, as the server's own programs open the files
 *
 * What an operation returned is printed, and is compared as well: an operation that is not supported
 * must fail in the same way both times.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <linux/if_packet.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define MIB (1024 * 1024)
#define ROCE_PORT 4791
#define ARRAY_SIZE(array) (sizeof(array) / sizeof(*(array)))
/* More bytes than any call with a WRITE, or reply to a READ, has beside the data. */
#define SWEEP 400

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "golden: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- capture --------------------------------------------------------------------------------- */

static int is_roce(const uint8_t *frame, size_t n)
{
	return n > 14 + 40 + 8 && frame[12] == 0x86 && frame[13] == 0xdd && frame[14 + 6] == IPPROTO_UDP &&
	       (frame[14 + 40 + 2] << 8 | frame[14 + 40 + 3]) == ROCE_PORT;
}

static void capture(const char *netdev, const char *file)
{
	static uint8_t frame[65536];
	static const uint32_t magic[6] = {0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, 1};
	const int room = 1 << 29;
	struct sockaddr_ll address = {.sll_family = AF_PACKET,
				      .sll_protocol = htons(ETH_P_ALL),
				      .sll_ifindex = if_nametoindex(netdev)};
	struct tpacket_stats stats;
	socklen_t length = sizeof(stats);
	char ready[4096];
	sigset_t set;
	FILE *out = fopen(file, "w");
	int sock = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), term;

	must(out && sock >= 0 && address.sll_ifindex, netdev);
	must(setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) == 0, "SO_RCVBUFFORCE");
	must(bind(sock, (struct sockaddr *)&address, sizeof(address)) == 0, "bind");
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	term = signalfd(-1, &set, 0);
	must(term >= 0, "signalfd");
	setvbuf(out, NULL, _IOFBF, MIB);
	fwrite(magic, sizeof(magic), 1, out);
	snprintf(ready, sizeof(ready), "%s.ready", file);
	close(open(ready, O_CREAT | O_WRONLY, 0644));
	for (;;) {
		struct pollfd fds[2] = {{sock, POLLIN, 0}, {term, POLLIN, 0}};
		ssize_t n = recv(sock, frame, sizeof(frame), MSG_DONTWAIT);

		if (n >= 0) {
			const uint32_t header[4] = {0, 0, n, n};

			if (!is_roce(frame, n))
				continue;
			fwrite(header, sizeof(header), 1, out);
			fwrite(frame, n, 1, out);
			continue;
		}
		must(errno == EAGAIN, "recv");
		must(poll(fds, 2, -1) > 0, "poll");
		if (!fds[0].revents && fds[1].revents)
			break;
	}
	must(getsockopt(sock, SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0, "statistics");
	must(fclose(out) == 0, file);
	unlink(ready);
	if (stats.tp_drops) {
		fprintf(stderr, "golden: %u frames were not captured\n", stats.tp_drops);
		exit(1);
	}
}

/* --- operations ------------------------------------------------------------------------------ */

static const char *dir;

static const char *in(const char *name)
{
	static char path[4][8192];
	static unsigned int turn;

	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", dir, name);
	return path[turn];
}

static long said(const char *what, long rc)
{
	printf("%s %ld%s%s\n", what, rc, rc < 0 ? " " : "", rc < 0 ? strerror(errno) : "");
	return rc;
}

/*
 * Wait for the next whole second: what a close or the like left under way ends, and each step begins at a time
 * that does not depend on how long the one before took. Waiting costs nothing where time travels.
 * $SKEW nanoseconds more tell what is made of the time.
 */
static void settle(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += t.tv_nsec > 500000000 ? 2 : 1;
	t.tv_nsec = getenv("SKEW") ? atoi(getenv("SKEW")) : 0;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

static void shut(int fd)
{
	close(fd);
	settle();
}

static void fill(uint8_t *p, size_t n, uint32_t seed)
{
	uint32_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		p[i] = x;
	}
}

/* Write @size bytes at @at of a new file from memory @skew bytes behind a page, and read them back. */
static void direct(size_t size, off_t at, size_t skew)
{
	char name[64];
	uint8_t *memory = aligned_alloc(PAGE, (2 * size + 2 * skew + 2 * PAGE) & ~(size_t)(PAGE - 1));
	uint8_t *out = memory + skew, *back = out + size;
	int fd;

	snprintf(name, sizeof(name), "d%zu.%lld.%zu", size, (long long)at, skew);
	fd = open(in(name), O_RDWR | O_CREAT | O_DIRECT, 0644);
	must(fd >= 0 && memory, name);
	fill(out, size, size + skew);
	memset(back, 0, size);
	settle();
	said(name, pwrite(fd, out, size, at));
	settle();
	/* The reply of a READ is as long as asked for, or shorter. */
	said("read", pread(fd, back, size, at));
	if (memcmp(out, back, size)) {
		fprintf(stderr, "golden: %s was not read as it was written\n", name);
		exit(1);
	}
	said("read the end", pread(fd, back, size, at + size / 2));
	shut(fd);
	unlink(in(name));
	free(memory);
}

static void buffered(size_t size)
{
	uint8_t *out = malloc(size), *back = malloc(size);
	int fd = open(in("buffered"), O_RDWR | O_CREAT, 0644);

	must(fd >= 0, "buffered");
	fill(out, size, size);
	said("write", write(fd, out, size));
	settle();
	said("fsync", fsync(fd));
	settle();
	said("fadvise", posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	said("pread", pread(fd, back, size, 0));
	said("same", memcmp(out, back, size));
	shut(fd);
	unlink(in("buffered"));
	free(out);
	free(back);
}

static void list(const char *name)
{
	DIR *d = opendir(in(name));
	long n = 0;

	must(d != NULL, name);
	while (readdir(d))
		n++;
	said("entries", n);
	closedir(d);
}

static void names(void)
{
	static char target[4001], back[8192];
	char name[300];

	said("mkdir", mkdir(in("many"), 0755));
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "many/a-name-that-is-rather-long-for-a-file-of-no-bytes-%d", i);
		shut(open(in(name), O_CREAT | O_WRONLY, 0644));
	}
	list("many");
	memset(target, 'l', sizeof(target));
	for (int length = 1; length <= 4000; length = length * 5 + 3) {
		snprintf(name, sizeof(name), "many/link%d", length);
		target[length] = 0;
		said("symlink", symlink(target, in(name)));
		target[length] = 'l';
		said("readlink", readlink(in(name), back, sizeof(back)));
	}
	memset(name, 'n', sizeof(name));
	memcpy(name, "many/", 5);
	name[5 + 255] = 0;
	shut(said("create", open(in(name), O_CREAT | O_WRONLY, 0600)));
	said("rename", rename(in(name), in("many/short")));
	said("link", link(in("many/short"), in(name)));
	name[5 + 255] = 'n';
	name[5 + 256] = 0;
	said("too long", open(in(name), O_CREAT | O_WRONLY, 0600));
	list("many");
	said("no such", access(in("many/none"), F_OK));
	said("not empty", rmdir(in("many")));
}

static void attributes(void)
{
	static uint8_t value[65536], back[65536];
	static const int sizes[] = {1, 1000, 4000, 9001, 60000};
	/* Version 2; entries for owner, one user, group, mask, others. */
	static const uint32_t acl[] = {2, 6 << 16 | 1, -1, 4 << 16 | 2, 1000, 4 << 16 | 4, -1, 7 << 16 | 16,
				       -1, 4 << 16 | 32, -1};
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 5};
	struct statvfs vfs;
	struct stat st;
	int fd = open(in("file"), O_RDWR | O_CREAT, 0644);

	must(fd >= 0, "file");
	for (int i = 0; i < 5; i++)
		said("fstat", fstat(fd, &st));
	said("statvfs", statvfs(dir, &vfs));
	said("chmod", fchmod(fd, 0640));
	said("truncate", ftruncate(fd, 12345));
	fill(value, sizeof(value), 7);
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		said("setxattr", fsetxattr(fd, "user.one", value, sizes[i], 0));
		said("getxattr", fgetxattr(fd, "user.one", back, sizeof(back)));
	}
	said("listxattr", flistxattr(fd, (char *)back, sizeof(back)));
	said("removexattr", fremovexattr(fd, "user.one"));
	said("setfacl", fsetxattr(fd, "system.posix_acl_access", acl, sizeof(acl), 0));
	said("getfacl", fgetxattr(fd, "system.posix_acl_access", back, sizeof(back)));
	said("nfs4_getfacl", fgetxattr(fd, "system.nfs4_acl", back, sizeof(back)));
	said("lock", fcntl(fd, F_SETLK, &lock));
	lock.l_type = F_UNLCK;
	said("unlock", fcntl(fd, F_SETLK, &lock));
	said("fallocate", fallocate(fd, 0, 0, 100000));
	said("hole", lseek(fd, 0, SEEK_HOLE));
	shut(fd);
}

static void work(void)
{
	/* About XDR's padding, pages, and the largest READ and WRITE. */
	static const size_t sizes[] = {1,    2,	   3,	  4,	 5,	1001,  3001,   4095,	4096,
				       4097, 8193, 20000, 65535, 65537, 70003, 262147, 1048575, 1048576};

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		direct(sizes[i], 0, 0);
		if (i % 2 == 0)
			direct(sizes[i], 1 + 3 * i, 1 + i % 7);
		if (i % 5 == 0)
			direct(sizes[i], PAGE, PAGE - 1);
	}
	buffered(300007);
	names();
	attributes();
	said("unlink", unlink(in("file")));
}

/* Lengths up to @threshold by fours: of one of them the WRITE just fits there, of another the READ's reply. */
static void sweep(size_t threshold)
{
	static uint8_t data[65536] __attribute__((aligned(PAGE)));
	int fd = open(in("sweep"), O_RDWR | O_CREAT | O_DIRECT, 0644);

	must(fd >= 0 && threshold > SWEEP && threshold <= sizeof(data), "sweep");
	fill(data, sizeof(data), threshold);
	settle();
	for (size_t size = threshold - SWEEP; size <= threshold; size += 4) {
		must(pwrite(fd, data, size, 0) == (ssize_t)size, "pwrite");
		must(pread(fd, data, size, 0) == (ssize_t)size, "pread");
	}
	shut(fd);
	said("unlink", unlink(in("sweep")));
}

static void small(void)
{
	direct(1, 0, 0);
	direct(5000, 3, 1);
	direct(300001, 0, 0);
	list("");
}

/* Opening for writing what somebody may keep for reading waits until that is given back. */
static void recall(const char *servers)
{
	static const int sizes[] = {10, 70003};

	for (int i = 0; i < 2; i++) {
		char path[4096], name[16], byte;
		int fd, other;

		snprintf(name, sizeof(name), "given%d", i);
		snprintf(path, sizeof(path), "%s/%s", servers, name);
		other = open(path, O_WRONLY | O_CREAT, 0644);
		must(other >= 0 && ftruncate(other, sizes[i]) == 0, path);
		close(other);
		for (int j = 0; j < 3; j++) {
			fd = open(in(name), O_RDONLY);
			must(fd >= 0, name);
			said("pread", pread(fd, &byte, 1, 0));
			if (j < 2)
				shut(fd);
			other = open(path, O_WRONLY);
			said("recalled", other >= 0);
			close(other);
			if (j == 2)
				shut(fd);
		}
	}
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 3) {
		fprintf(stderr, "golden: too few operands\n");
		return 1;
	}
	dir = argv[2];
	if (!strcmp(argv[1], "capture") && argc == 4) {
		capture(argv[2], argv[3]);
		return 0;
	}
	settle();
	if (!strcmp(argv[1], "settle") && argc == 3) {
		return 0;
	} else if (!strcmp(argv[1], "work") && argc == 3) {
		work();
	} else if (!strcmp(argv[1], "small") && argc == 3) {
		small();
	} else if (!strcmp(argv[1], "sweep") && argc == 4) {
		sweep(atoi(argv[3]));
	} else if (!strcmp(argv[1], "recall") && argc == 4) {
		recall(argv[3]);
	} else {
		fprintf(stderr, "golden: operation \"%s\" with %d operands is not known\n", argv[1], argc - 2);
		return 1;
	}
	return 0;
}
