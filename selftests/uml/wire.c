// SPDX-License-Identifier: GPL-2.0-only
/*
 * wire: an Ethernet cable between two User-Mode Linux machines, for scripts/uml-pair.
 *
 *	wire [-d N] [-w FILE] [-m MTU] SOCKET0 SOCKET1
 *
 * Each machine is started with virtio_uml.device=SOCKET:1 and finds a virtio network device there;
 * this program is the device of both, by the vhost-user protocol, and copies frames from the memory
 * of one to the memory of the other. Nothing is lost on the way: when the receiver has no buffer,
 * the sender's frames wait in its ring. Only frames for a machine that has not brought its
 * interface up are dropped, as with a cable that is not plugged in.
 *
 *	-d N	drops each Nth frame, to see retransmission
 *	-w FILE	writes all frames to FILE in pcap format
 *	-m MTU	announced to the machines (default 4500: takes an RDMA MTU of 4096)
 *
 * Prints "ready" when both sockets listen; ends when both machines have ended, or with its parent.
 * Split rings only, no offloads, no indirect descriptors: what is not offered need not be handled.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/vhost_types.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define VHOST_USER_F_PROTOCOL_FEATURES 30
#define PROTOCOL_F_REQUESTS 5 /* from the device to the driver */
#define PROTOCOL_F_CONFIG 9
#define FLAG_VERSION 1
#define FLAG_REPLY 4

enum request {
	GET_FEATURES = 1,
	SET_FEATURES = 2,
	SET_OWNER = 3,
	SET_MEM_TABLE = 5,
	SET_VRING_NUM = 8,
	SET_VRING_ADDR = 9,
	SET_VRING_BASE = 10,
	SET_VRING_KICK = 12,
	SET_VRING_CALL = 13,
	SET_VRING_ERR = 14,
	GET_PROTOCOL_FEATURES = 15,
	SET_PROTOCOL_FEATURES = 16,
	SET_VRING_ENABLE = 18,
	SET_REQUEST_FD = 21,
	GET_CONFIG = 24,
	SET_CONFIG = 25,
};

struct header {
	uint32_t request, flags, size;
};

struct memory_region {
	uint64_t guest, size, user, offset;
};

union payload {
	uint64_t number;
	struct {
		uint32_t index, num;
	} state;
	struct {
		uint32_t index, flags;
		uint64_t desc, used, avail, log;
	} address;
	struct {
		uint32_t count, padding;
		struct memory_region region[8];
	} memory;
	struct {
		uint32_t offset, size, flags;
		uint8_t data[256];
	} config;
};

/* Of a network device's two queues, receive is the first. */
enum { RX, TX, QUEUES };

struct queue {
	struct vring ring;
	unsigned int size;
	uint16_t next; /* of the available ring, not yet taken */
	uint64_t desc, avail, used; /* guest addresses, 0 before they are told */
	bool enabled;
	int kick, call; /* -1 before they are told */
};

struct machine {
	const char *path;
	int listener, sock; /* sock is -1 before it connected and after it ended */
	struct memory_region region[8];
	uint8_t *mapped[8];
	unsigned int regions;
	struct queue queue[QUEUES];
	struct virtio_net_config config;
	unsigned int number;
	/*
	 * Nothing is requested of the driver. But it takes its interrupt number from this
	 * channel, and its end for the device's.
	 */
	int requests;
};

static struct machine machines[2];
static FILE *capture;
static unsigned long drop_each, frames, dropped;
static unsigned int mtu = 4500;

__attribute__((noreturn, format(printf, 1, 2)))
static void die(const char *format, ...)
{
	va_list arguments;

	fputs("wire: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

/* Where a range of guest memory is here. The guest is trusted to be ours, not to be right. */
static void *at(struct machine *m, uint64_t address, uint64_t length)
{
	for (unsigned int i = 0; i < m->regions; i++) {
		const struct memory_region *r = &m->region[i];

		if (address >= r->guest && length <= r->size &&
		    address - r->guest <= r->size - length)
			return m->mapped[i] + (address - r->guest);
	}
	die("machine %u names memory that it does not share: 0x%llx, %llu bytes", m->number,
	    (unsigned long long)address, (unsigned long long)length);
}

/* --- frames --------------------------------------------------------------------------------- */

static bool ready(const struct queue *q)
{
	return q->enabled && q->ring.num;
}

static bool has_buffer(const struct queue *q)
{
	return ready(q) && q->next != __atomic_load_n(&q->ring.avail->idx, __ATOMIC_ACQUIRE);
}

/*
 * Walk the next chain of @q: copy its bytes to @bytes (@write false), or @bytes into it. Returns
 * the number of bytes copied; sets @head to the chain's name.
 */
static size_t walk(struct machine *m, struct queue *q, uint8_t *bytes, size_t room, bool write,
		   uint16_t *head)
{
	size_t done = 0;
	unsigned int i = q->ring.avail->ring[q->next++ % q->size];

	*head = i;
	for (unsigned int links = 0; links <= q->size; links++) {
		if (i >= q->size)
			die("machine %u: descriptor %u of %u", m->number, i, q->size);

		const struct vring_desc d = q->ring.desc[i];
		size_t n = d.len < room - done ? d.len : room - done;

		if (!!(d.flags & VRING_DESC_F_WRITE) != write)
			die("machine %u: a descriptor in the wrong direction", m->number);
		if (write)
			memcpy(at(m, d.addr, d.len), bytes + done, n);
		else
			memcpy(bytes + done, at(m, d.addr, d.len), n);
		done += n;
		if (!(d.flags & VRING_DESC_F_NEXT))
			return done;
		i = d.next;
	}
	die("machine %u: a chain of descriptors without end", m->number);
}

static void give_back(struct queue *q, uint16_t head, uint32_t length)
{
	struct vring_used *used = q->ring.used;

	used->ring[used->idx % q->size] = (struct vring_used_elem){.id = head, .len = length};
	__atomic_store_n(&used->idx, used->idx + 1, __ATOMIC_RELEASE);
}

static void notify(struct queue *q)
{
	const uint64_t one = 1;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&q->ring.avail->flags, __ATOMIC_RELAXED) & VRING_AVAIL_F_NO_INTERRUPT)
		return;
	/* A full pipe means that the guest has not looked yet; it will. */
	if (q->call >= 0 && write(q->call, &one, sizeof(one)) < 0 && errno != EAGAIN &&
	    errno != EPIPE)
		die("no interrupt for a machine: %s", strerror(errno));
}

static void record(const uint8_t *frame, size_t length)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);

	const uint32_t header[4] = {now.tv_sec, now.tv_nsec / 1000, length, length};

	fwrite(header, sizeof(header), 1, capture);
	fwrite(frame, length, 1, capture);
}

/* Move what @from wants to send, as far as @to has buffers. */
static void forward(struct machine *from, struct machine *to)
{
	static uint8_t packet[65536 + sizeof(struct virtio_net_hdr_mrg_rxbuf)];
	const size_t skip = sizeof(struct virtio_net_hdr_mrg_rxbuf);
	struct queue *out = &from->queue[TX], *in = &to->queue[RX];
	bool sent = false, received = false;
	uint16_t head;

	while (has_buffer(out)) {
		const bool lost = !ready(in) || (drop_each && (frames + 1) % drop_each == 0);

		if (!lost && !has_buffer(in))
			break;

		size_t n = walk(from, out, packet, sizeof(packet), false, &head);

		give_back(out, head, 0);
		sent = true;
		frames++;
		if (n <= skip)
			die("machine %u: a frame of %zu bytes", from->number, n);
		if (capture)
			record(packet + skip, n - skip);
		if (lost) {
			dropped++;
			continue;
		}
		memset(packet, 0, skip);
		((struct virtio_net_hdr_mrg_rxbuf *)packet)->num_buffers = 1;

		size_t fitted = walk(to, in, packet, n, true, &head);

		/* Nobody's buffers are smaller than the MTU they were told. */
		if (fitted < n)
			die("machine %u: %zu bytes of buffer for a frame of %zu", to->number,
			    fitted, n);
		give_back(in, head, n);
		received = true;
	}
	if (sent)
		notify(out);
	if (received)
		notify(in);
}

/* --- vhost-user ------------------------------------------------------------------------------ */

static void receive_all(int fd, void *to, size_t length)
{
	for (uint8_t *p = to; length;) {
		ssize_t n = recv(fd, p, length, MSG_WAITALL);

		if (n <= 0)
			die("a message ends in the middle");
		p += n;
		length -= n;
	}
}

static void reply(struct machine *m, struct header h, const void *payload, uint32_t size)
{
	uint8_t message[sizeof(h) + sizeof(union payload)];

	h.flags = FLAG_VERSION | FLAG_REPLY;
	h.size = size;
	memcpy(message, &h, sizeof(h));
	memcpy(message + sizeof(h), payload, size);
	if (send(m->sock, message, sizeof(h) + size, MSG_NOSIGNAL) < 0)
		die("no answer to machine %u: %s", m->number, strerror(errno));
}

/* A queue works from when its size and all addresses are known. */
static void set_ring(struct machine *m, struct queue *q)
{
	if (!q->size || !q->desc)
		return;
	q->ring.desc = at(m, q->desc, q->size * sizeof(struct vring_desc));
	q->ring.avail = at(m, q->avail, 4 + 2 * q->size);
	q->ring.used = at(m, q->used, 4 + sizeof(struct vring_used_elem) * q->size);
	q->ring.num = q->size;
}

static void set_memory(struct machine *m, const union payload *p, const int *fds,
		       unsigned int count)
{
	if (p->memory.count > 8 || p->memory.count != count)
		die("machine %u: %u regions of memory, %u descriptors", m->number, p->memory.count,
		    count);
	for (unsigned int i = 0; i < m->regions; i++)
		munmap(m->mapped[i] - m->region[i].offset, m->region[i].size + m->region[i].offset);
	m->regions = p->memory.count;
	for (unsigned int i = 0; i < m->regions; i++) {
		const struct memory_region *r = &p->memory.region[i];
		uint8_t *base = mmap(NULL, r->size + r->offset, PROT_READ | PROT_WRITE, MAP_SHARED,
				     fds[i], 0);

		if (base == MAP_FAILED)
			die("memory of machine %u: %s", m->number, strerror(errno));
		m->region[i] = *r;
		m->mapped[i] = base + r->offset;
		close(fds[i]);
	}
}

static struct queue *queue_of(struct machine *m, uint64_t index)
{
	if (index >= QUEUES)
		die("machine %u: queue %llu", m->number, (unsigned long long)index);
	return &m->queue[index];
}

static void set_fd(int *where, const int *fds, unsigned int count)
{
	if (*where >= 0)
		close(*where);
	*where = count ? fds[0] : -1;
	if (count)
		fcntl(fds[0], F_SETFL, fcntl(fds[0], F_GETFL) | O_NONBLOCK);
}

/* Handle one message. Returns false when the machine has ended. */
static bool message(struct machine *m)
{
	struct header h;
	union payload p = {0};
	int fds[8];
	unsigned int count = 0;
	union {
		char space[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {&h, sizeof(h)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(m->sock, &msg, MSG_CMSG_CLOEXEC);

	if (n <= 0)
		return false;
	if ((size_t)n < sizeof(h))
		receive_all(m->sock, (uint8_t *)&h + n, sizeof(h) - n);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_type == SCM_RIGHTS) {
			count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(fds, CMSG_DATA(c), count * sizeof(int));
		}
	}
	if (h.size > sizeof(p))
		die("machine %u: request %u with %u bytes", m->number, h.request, h.size);
	receive_all(m->sock, &p, h.size);

	struct queue *q;

	switch (h.request) {
	case GET_FEATURES:
		p.number = 1ull << VIRTIO_NET_F_MAC | 1ull << VIRTIO_NET_F_MTU |
			   1ull << VHOST_USER_F_PROTOCOL_FEATURES | 1ull << 32 /* VERSION_1 */;
		reply(m, h, &p, sizeof(p.number));
		break;
	case GET_PROTOCOL_FEATURES:
		p.number = 1ull << PROTOCOL_F_CONFIG | 1ull << PROTOCOL_F_REQUESTS;
		reply(m, h, &p, sizeof(p.number));
		break;
	case GET_CONFIG:
		if (p.config.size > sizeof(p.config.data))
			die("machine %u: configuration of %u bytes", m->number, p.config.size);
		memset(p.config.data, 0, sizeof(p.config.data));
		memcpy(p.config.data, &m->config, sizeof(m->config));
		reply(m, h, &p, h.size);
		break;
	case SET_MEM_TABLE:
		set_memory(m, &p, fds, count);
		for (int i = 0; i < QUEUES; i++)
			set_ring(m, &m->queue[i]);
		break;
	case SET_VRING_NUM:
		q = queue_of(m, p.state.index);
		q->size = p.state.num;
		set_ring(m, q);
		break;
	case SET_VRING_ADDR:
		q = queue_of(m, p.address.index);
		q->desc = p.address.desc;
		q->avail = p.address.avail;
		q->used = p.address.used;
		set_ring(m, q);
		break;
	case SET_VRING_BASE:
		queue_of(m, p.state.index)->next = p.state.num;
		break;
	case SET_VRING_KICK:
		set_fd(&queue_of(m, p.number & 0xff)->kick, fds, count);
		break;
	case SET_VRING_CALL:
		set_fd(&queue_of(m, p.number & 0xff)->call, fds, count);
		break;
	case SET_REQUEST_FD:
		set_fd(&m->requests, fds, count);
		break;
	case SET_VRING_ENABLE:
		queue_of(m, p.state.index)->enabled = p.state.num;
		break;
	case SET_FEATURES:
	case SET_OWNER:
	case SET_PROTOCOL_FEATURES:
	case SET_CONFIG:
		break;
	case SET_VRING_ERR:
		for (unsigned int i = 0; i < count; i++)
			close(fds[i]);
		break;
	default:
		die("machine %u: unknown request %u", m->number, h.request);
	}
	return true;
}

static void ended(struct machine *m)
{
	close(m->sock);
	m->sock = -1;
	set_fd(&m->requests, NULL, 0);
	for (int i = 0; i < QUEUES; i++) {
		set_fd(&m->queue[i].kick, NULL, 0);
		set_fd(&m->queue[i].call, NULL, 0);
		memset(&m->queue[i].ring, 0, sizeof(m->queue[i].ring));
	}
}

static void set_up(struct machine *m, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	m->number = m - machines;
	m->path = path;
	m->sock = m->requests = -1;
	for (int i = 0; i < QUEUES; i++)
		m->queue[i].kick = m->queue[i].call = -1;
	memcpy(m->config.mac, (const uint8_t[]){2, 0, 0, 0, 0, m->number + 1}, 6);
	m->config.mtu = mtu;
	if (strlen(path) >= sizeof(address.sun_path))
		die("%s is too long a name for a socket", path);
	memcpy(address.sun_path, path, strlen(path) + 1);
	unlink(path);
	m->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (m->listener < 0 || bind(m->listener, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(m->listener, 1))
		die("%s: %s", path, strerror(errno));
}

static void drain(int fd)
{
	uint64_t n;

	while (read(fd, &n, sizeof(n)) > 0)
		;
}

int main(int argc, char **argv)
{
	const char *file = NULL;
	int option;

	while ((option = getopt(argc, argv, "d:w:m:")) != -1) {
		switch (option) {
		case 'd':
			drop_each = strtoul(optarg, NULL, 0);
			break;
		case 'w':
			file = optarg;
			break;
		case 'm':
			mtu = strtoul(optarg, NULL, 0);
			break;
		default:
			return 2;
		}
	}
	if (argc - optind != 2) {
		fprintf(stderr, "usage: wire [-d N] [-w FILE] [-m MTU] SOCKET0 SOCKET1\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	if (file) {
		static const uint32_t magic[6] = {0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, 1};

		capture = fopen(file, "w");
		if (!capture)
			die("%s: %s", file, strerror(errno));
		fwrite(magic, sizeof(magic), 1, capture);
	}
	for (int i = 0; i < 2; i++)
		set_up(&machines[i], argv[optind + i]);
	puts("ready");
	fflush(stdout);

	for (;;) {
		struct pollfd fds[2 * (1 + QUEUES)];

		for (int i = 0; i < 2; i++) {
			struct machine *m = &machines[i];
			struct pollfd *f = &fds[i * (1 + QUEUES)];

			f[0].fd = m->sock >= 0 ? m->sock : m->listener;
			for (int j = 0; j < QUEUES; j++)
				f[1 + j].fd = m->queue[j].kick;
			for (int j = 0; j <= QUEUES; j++)
				f[j].events = POLLIN;
		}
		if (machines[0].listener < 0 && machines[0].sock < 0 && machines[1].listener < 0 &&
		    machines[1].sock < 0)
			break;
		if (poll(fds, 2 * (1 + QUEUES), -1) < 0)
			die("poll: %s", strerror(errno));
		for (int i = 0; i < 2; i++) {
			struct machine *m = &machines[i];
			struct pollfd *f = &fds[i * (1 + QUEUES)];

			for (int j = 0; j < QUEUES; j++)
				if (f[1 + j].revents & POLLIN)
					drain(f[1 + j].fd);
			if (!f[0].revents)
				continue;
			if (m->sock < 0) {
				m->sock = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);
				close(m->listener);
				m->listener = -1;
				unlink(m->path);
			} else if (!message(m)) {
				ended(m);
			}
		}
		forward(&machines[0], &machines[1]);
		forward(&machines[1], &machines[0]);
	}
	if (capture)
		fclose(capture);
	printf("%lu frames, %lu dropped\n", frames, dropped);
	return 0;
}
