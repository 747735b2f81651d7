// SPDX-License-Identifier: GPL-2.0-only
/*
 * repeat: one file operation N times and nothing else, so that what N of them cost can be told from
 * what one costs. Runs in the guests; verifies lengths, not contents (fsops does).
 *
 *	read FILE N SIZE OFFSET SKEW [WHERE]	O_DIRECT reads of SIZE bytes, the first at OFFSET of the file, into
 *	write FILE N SIZE OFFSET SKEW [WHERE]	memory that begins SKEW bytes behind a page; or writes. WHERE
 *				says how the pages of this memory lie: "side" by side, or "apart", no page behind
 *				the one before it; without, as the kernel gives them
 *	fill FILE N WHERE		make FILE, N pages in a tmpfs that lie so
 *	stat FILE N			fstat of the open file
 *	list DIR N			listings from the first entry to the last, none from the cache
 *	setxattr FILE N SIZE		set a user attribute of SIZE bytes
 *	null DIR N			NULLs to the server of the mount DIR (nullrpc.ko)
 *
 *	timed DEPTH WARM ...		one of these by DEPTH threads at a time, N times each, once all have done it
 *					WARM times; transfers begin again at OFFSET when the file ends
 *
 * timed prints how many were done, the nanoseconds of all, and those of one in the middle and of the slowest but
 * one in a hundred.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define HUGE_PAGE (2UL << 20)
#define MOST 100000
#define THREADS 64
#define NULLRPC "/sys/kernel/debug/nullrpc"

struct worker {
	pthread_t thread;
	unsigned int number;
	int fd;
	DIR *dir;
	char *memory;
	unsigned long entries;
};

struct operation {
	const char *name;
	int operands;
	void (*begin)(struct worker *w);
	void (*once)(struct worker *w, unsigned int i);
};

static const char *what, *name, *where;
static const struct operation *operation;
static unsigned int n, warm, depth = 1;
static size_t size, skew;
static off_t offset, end;
static unsigned long long took[MOST], began, ended;
static pthread_barrier_t barrier;

static void must(int ok)
{
	if (ok)
		return;
	fprintf(stderr, "repeat: %s %s: %s\n", what, name, strerror(errno));
	exit(1);
}

static int apart(void)
{
	return where && !strcmp(where, "apart");
}

/* How many of @count pages at @memory are not as WHERE says. Only root learns where pages are. */
static unsigned int misplaced(const char *memory, unsigned int count)
{
	const int fd = open("/proc/self/pagemap", O_RDONLY);
	const uint64_t place = ((uint64_t)1 << 55) - 1;
	unsigned int wrong = 0;
	uint64_t entry, last = 0;

	must(fd >= 0);
	for (unsigned int i = 0; i < count; i++) {
		must(pread(fd, &entry, sizeof(entry), ((uintptr_t)memory / PAGE + i) * sizeof(entry)) ==
		     (ssize_t)sizeof(entry));
		entry &= place;
		wrong += !entry || (i && (entry == last + 1) == apart());
		last = entry;
	}
	close(fd);
	return wrong;
}

/* Pages for @bytes that lie as WHERE says: those of a huge page, or the same in reverse. */
static char *lay_out(size_t bytes)
{
	const unsigned int count = (bytes + PAGE - 1) / PAGE;
	char *huge, *memory, *from;

	if (!where)
		return aligned_alloc(PAGE, (size_t)count * PAGE);
	huge = mmap(NULL, 2 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(huge != MAP_FAILED);
	huge = (char *)(((uintptr_t)huge + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
	must(madvise(huge, HUGE_PAGE, MADV_HUGEPAGE) == 0);
	/* Where there is a huge page this has it; else pages are missing, which is seen below. */
	*huge = 'r';
	memory = huge;
	if (apart()) {
		memory = mmap(NULL, (size_t)count * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		must(memory != MAP_FAILED);
		for (unsigned int i = 0; i < count; i++) {
			from = huge + (size_t)(count - 1 - i) * PAGE;
			must(mremap(from, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, memory + (size_t)i * PAGE) !=
			     MAP_FAILED);
		}
	}
	if (misplaced(memory, count)) {
		fprintf(stderr, "repeat: %u of %u pages of memory are not %s: has this kernel huge pages?\n",
			misplaced(memory, count), count, where);
		exit(1);
	}
	return memory;
}

/* How far apart pages of a file are that are asked for one after the other: such that all of @n are, once. */
static unsigned int stride(void)
{
	unsigned int step = n * 386ULL / 1000 + 1, a, b;

	for (;; step++) {
		for (a = n, b = step; b;) {
			const unsigned int rest = a % b;

			a = b;
			b = rest;
		}
		if (a == 1)
			return step;
	}
}

/*
 * A tmpfs gives a file pages as they are asked for, and the kernel hands out neighbours in either order: those that are
 * asked for far apart are apart. Huge ones are a mount option.
 */
static void fill(struct worker *w, unsigned int i)
{
	static char page[PAGE];
	const off_t at = apart() ? (uint64_t)i * stride() % n : i;
	unsigned int wrong;

	must(pwrite(w->fd, page, PAGE, at * PAGE) == PAGE);
	if (i + 1 < n)
		return;
	w->memory = mmap(NULL, (size_t)n * PAGE, PROT_READ, MAP_SHARED | MAP_POPULATE, w->fd, 0);
	must(w->memory != MAP_FAILED);
	/* A few are where others had been; and huge pages need not be neighbours. */
	wrong = misplaced(w->memory, n);
	if (wrong > n / 20) {
		fprintf(stderr, "repeat: %u of %u pages of %s are not %s\n", wrong, n, name, where);
		exit(1);
	}
}

static void begin_fill(struct worker *w)
{
	w->fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0666);
	must(w->fd >= 0);
}

static void begin_transfer(struct worker *w)
{
	struct stat st;

	w->fd = open(name, (*what == 'w' ? O_WRONLY : O_RDONLY) | O_DIRECT);
	w->memory = lay_out(size + skew);
	must(w->fd >= 0 && w->memory && fstat(w->fd, &st) == 0);
	memset(w->memory, 'r', size + skew);
	end = st.st_size;
}

static void transfer(struct worker *w, unsigned int i)
{
	off_t at = offset + (off_t)i * size;
	ssize_t got;

	if (warm)
		at = offset + ((w->number * (warm + n) + i) % ((end - offset) / size)) * size;
	got = *what == 'w' ? pwrite(w->fd, w->memory + skew, size, at) : pread(w->fd, w->memory + skew, size, at);
	if (got >= 0 && got != (ssize_t)size) {
		fprintf(stderr, "repeat: %s %s: %zd bytes of %zu at %lld\n", what, name,
			got, size, (long long)at);
		exit(1);
	}
	must(got >= 0);
}

static void begin_stat(struct worker *w)
{
	w->fd = open(name, O_RDONLY);
	must(w->fd >= 0);
}

static void stat_again(struct worker *w, unsigned int i)
{
	struct stat st;

	(void)i;
	must(fstat(w->fd, &st) == 0);
}

static void begin_list(struct worker *w)
{
	w->dir = opendir(name);
	must(w->dir != NULL);
}

static void list(struct worker *w, unsigned int i)
{
	(void)i;
	/* A directory's entries are cached in its pages, which this drops. */
	must(posix_fadvise(dirfd(w->dir), 0, 0, POSIX_FADV_DONTNEED) == 0);
	rewinddir(w->dir);
	errno = 0;
	while (readdir(w->dir))
		w->entries++;
	must(errno == 0);
}

static void begin_setxattr(struct worker *w)
{
	w->memory = malloc(size);
	must(w->memory != NULL);
	memset(w->memory, 'x', size);
}

static void setxattr_again(struct worker *w, unsigned int i)
{
	(void)i;
	must(setxattr(name, "user.repeat", w->memory, size, 0) == 0);
}

static void begin_null(struct worker *w)
{
	w->fd = open(NULLRPC, O_RDWR);
	must(w->fd >= 0 && write(w->fd, name, strlen(name)) == (ssize_t)strlen(name));
}

static void null_again(struct worker *w, unsigned int i)
{
	char c;

	(void)i;
	must(read(w->fd, &c, 1) == 1);
}

static const struct operation operations[] = {
	{ "read", 3, begin_transfer, transfer },
	{ "write", 3, begin_transfer, transfer },
	{ "stat", 0, begin_stat, stat_again },
	{ "fill", 0, begin_fill, fill },
	{ "list", 0, begin_list, list },
	{ "setxattr", 1, begin_setxattr, setxattr_again },
	{ "null", 0, begin_null, null_again },
};

static unsigned long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void *timed_worker(void *arg)
{
	struct worker *w = arg;
	unsigned long long before, after;

	operation->begin(w);
	for (unsigned int i = 0; i < warm; i++)
		operation->once(w, i);
	if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		began = now();
	pthread_barrier_wait(&barrier);
	before = now();
	for (unsigned int i = 0; i < n; i++) {
		operation->once(w, warm + i);
		after = now();
		took[w->number * n + i] = after - before;
		before = after;
	}
	if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		ended = now();
	return NULL;
}

static int compare(const void *a, const void *b)
{
	unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;

	return (x > y) - (x < y);
}

static void timed(void)
{
	static struct worker workers[THREADS];
	unsigned int all = depth * n;

	must(pthread_barrier_init(&barrier, NULL, depth) == 0);
	for (unsigned int i = 0; i < depth; i++) {
		workers[i].number = i;
		must(pthread_create(&workers[i].thread, NULL, timed_worker, &workers[i]) == 0);
	}
	for (unsigned int i = 0; i < depth; i++)
		must(pthread_join(workers[i].thread, NULL) == 0);
	qsort(took, all, sizeof(*took), compare);
	printf("repeat ops=%u ns=%llu p50=%llu p99=%llu\n", all, ended - began, took[all / 2], took[all - 1 - all / 100]);
}

static void plain(void)
{
	static struct worker worker;

	operation->begin(&worker);
	for (unsigned int i = 0; i < n; i++)
		operation->once(&worker, i);
	if (worker.fd)
		must(close(worker.fd) == 0);
	if (worker.dir) {
		closedir(worker.dir);
		printf("repeat entries=%lu\n", worker.entries);
	}
}

int main(int argc, char **argv)
{
	if (argc > 4 && !strcmp(argv[1], "timed")) {
		depth = strtoul(argv[2], NULL, 0);
		warm = strtoul(argv[3], NULL, 0);
		if (!depth || depth > THREADS || !warm) {
			fprintf(stderr, "repeat: 1 to %u threads, please, and one that is not timed at least\n", THREADS);
			return 1;
		}
		argc -= 3;
		argv += 3;
	}
	if (!strcmp(argv[argc - 1], "side") || !strcmp(argv[argc - 1], "apart"))
		where = argv[--argc];
	if (argc < 4) {
		fprintf(stderr, "repeat: too few operands\n");
		return 1;
	}
	what = argv[1];
	name = argv[2];
	n = strtoul(argv[3], NULL, 0);
	for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++)
		if (!strcmp(what, operations[i].name) && argc == 4 + operations[i].operands)
			operation = &operations[i];
	if (!operation) {
		fprintf(stderr, "repeat: operation \"%s\" with %d operands is not known\n", what, argc - 2);
		return 1;
	}
	if (argc > 4)
		size = strtoul(argv[4], NULL, 0);
	if (argc > 6) {
		offset = strtoul(argv[5], NULL, 0);
		skew = strtoul(argv[6], NULL, 0);
	}
	if (where ? size + skew > HUGE_PAGE : *what == 'f') {
		fprintf(stderr, "repeat: %s\n", where ? "memory that is \"side\" or \"apart\" has 2 MiB at most" :
						       "fill wants to know: \"side\" or \"apart\"?");
		return 1;
	}
	if (!warm) {
		plain();
		return 0;
	}
	if (!n || (unsigned long long)n * depth > MOST) {
		fprintf(stderr, "repeat: between 1 and %u operations in all, please\n", MOST);
		return 1;
	}
	timed();
	return 0;
}
