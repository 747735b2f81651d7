// SPDX-License-Identifier: GPL-2.0-only
/*
 * Plugin for QEMU's TCG: how many instructions the guest's kernel executed, and where.
 *
 *	qemu-system-x86_64 -plugin file=instructions.so,socket=PATH ...
 *
 * Who connects to the unix socket PATH gets all counters, as they are then, and the end of the stream: of
 * each block of code that was ever translated the address, the instructions executed in runs that began
 * there, and how often a string instruction went round, as three u64. Entries are never removed, nor does
 * their order change. Address 0 is all of user space, address 1 what found no room in the table.
 *
 * TCG takes each round of a repeated string instruction (rep movs) as an instruction; a processor does not.
 * So a block that begins with one, which is where a further round begins, counts as a round and not as an
 * instruction.
 *
 * Counters are added to by the translated code, which takes no notice of other CPUs: where two run the same
 * block at the same moment, one of the two additions may be lost.
 */

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "qemu_plugin.h"

#define KERNEL		0xffff800000000000ull
#define ENTRIES		(1u << 20)
#define SLOTS		(4 * ENTRIES)
#define USER_SPACE	0
#define NO_ROOM		1

struct entry {
	uint64_t address, instructions, rounds;
};

int qemu_plugin_version = 1;

/* Both are zero pages until something is in them. A slot has the number of an entry; 0, none. */
static struct entry *entries;
static uint32_t *slots;
static uint32_t used = 2;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int listener;

static struct entry *find(uint64_t address)
{
	uint32_t slot = (address * 0x9e3779b97f4a7c15ull) >> 42;
	struct entry *entry = NULL;

	if (address < KERNEL)
		return &entries[USER_SPACE];

	pthread_mutex_lock(&lock);
	while (!entry) {
		uint32_t number = slots[slot];

		if (number && entries[number].address == address) {
			entry = &entries[number];
		} else if (number) {
			slot = (slot + 1) % SLOTS;
		} else if (used == ENTRIES) {
			entry = &entries[NO_ROOM];
		} else {
			entry = &entries[used];
			entry->address = address;
			slots[slot] = used;
			__atomic_store_n(&used, used + 1, __ATOMIC_RELEASE);
		}
	}
	pthread_mutex_unlock(&lock);
	return entry;
}

/* rep or repne, perhaps REX, and one of movs, cmps, stos, lods, scas */
static bool repeats(const struct qemu_plugin_insn *insn)
{
	const uint8_t *byte = qemu_plugin_insn_data(insn);
	const uint8_t *end = byte + qemu_plugin_insn_size(insn);

	if (byte == end || (*byte & 0xfe) != 0xf2)
		return false;
	byte++;
	if (byte != end && (*byte & 0xf0) == 0x40)
		byte++;
	return byte != end && *byte >= 0xa4 && *byte <= 0xaf && *byte != 0xa8 && *byte != 0xa9;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct entry *entry = find(qemu_plugin_tb_vaddr(tb));
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	if (repeats(qemu_plugin_tb_get_insn(tb, 0))) {
		qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &entry->rounds, 1);
		n--;
	}
	if (n)
		qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &entry->instructions, n);
}

static void *serve(void *unused)
{
	(void)unused;
	for (;;) {
		int peer = accept(listener, NULL, NULL);
		const char *from = (const char *)entries;
		const char *end = (const char *)(entries + __atomic_load_n(&used, __ATOMIC_ACQUIRE));

		while (from < end) {
			ssize_t sent = send(peer, from, end - from, MSG_NOSIGNAL);

			if (sent <= 0)
				break;
			from += sent;
		}
		close(peer);
	}
	return NULL;
}

static void *zeroes(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	sigset_t all, before;
	pthread_t thread;
	int failed;

	(void)info;
	if (argc != 1 || strncmp(argv[0], "socket=", 7) || strlen(argv[0] + 7) >= sizeof(address.sun_path)) {
		fprintf(stderr, "instructions: the one argument has to be socket=PATH, of a short path\n");
		return -1;
	}
	memcpy(address.sun_path, argv[0] + 7, strlen(argv[0] + 7) + 1);
	entries = zeroes(ENTRIES * sizeof(*entries));
	slots = zeroes(SLOTS * sizeof(*slots));
	unlink(address.sun_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!entries || !slots || listener < 0 ||
	    bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 1)) {
		perror("instructions: no table, or no socket");
		return -1;
	}
	entries[NO_ROOM].address = NO_ROOM;
	/* QEMU's signals are not for this thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, NULL, serve, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failed) {
		fprintf(stderr, "instructions: no thread: %s\n", strerror(failed));
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
