// SPDX-License-Identifier: GPL-2.0-only
/*
 * fsops: the file system work of the VM tests, with every result verified. Runs in the guests;
 * knows nothing of NFS but the names of two extended attributes.
 *
 *	gen DIR SEED		make the standard tree of files, contents from SEED
 *	check DIR SEED		verify that DIR holds exactly that tree
 *	copy FROM TO [N]	copy a tree, with reads and writes of many lengths
 *	compare A B [N]		verify that two trees are equal: names, kinds, sizes, every byte
 *				(both by N processes side by side, a directory each; default 1)
 *	names DIR [N]		create, rename, link, symlink, truncate, append, unlink, rmdir; the
 *				longest link text has N bytes (3900)
 *	dirmake DIR N		make N entries
 *	dirlist DIR N		verify that a listing has each of them once and nothing else
 *	locks DIR		fcntl and flock locks held against a second process
 *	direct DIR SEED		O_DIRECT at odd offsets, lengths and addresses, against a copy
 *	mapped DIR		write through a shared mapping
 *	acl FILE		set and read system.posix_acl_access
 *	acl4 FILE		read system.nfs4_acl and write it back
 *	xattr FILE		user attributes of 1 byte to 60000 bytes
 *	value FILE BYTES	one of that length, which stays
 *	value-is FILE BYTES	that is what it has
 *	hold FILE SECONDS	hold an open for reading, report when the file changes
 *
 * Prints one line "<what> key=value ..." and exits 0; or says what was wrong, and exits 1.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#define MIB		(1u << 20)
#define TREE_FILES	1600u

__attribute__((noreturn, format(printf, 1, 2)))
static void fail(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("fsops: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

/* For a system call that must not fail: @ok, and the file that it was about. */
#define MUST(ok, name) do { \
	if (!(ok)) \
		fail("%s: %s: %s (line %d)", #ok, name, strerror(errno), __LINE__); \
} while (0)

static char *path_of(const char *dir, const char *fmt, ...)
{
	static char ring[8][4096];
	static unsigned int next;
	char *path = ring[next++ % 8];
	int n = snprintf(path, 4096, "%s/", dir);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path + n, 4096 - n, fmt, ap);
	va_end(ap);
	return path;
}

/* Deterministic contents */

struct stream {
	uint64_t state;
};

static struct stream stream_of(uint64_t seed, uint64_t index)
{
	struct stream s = { (seed + 1) * 0x9e3779b97f4a7c15u ^ (index + 1) * 0xbf58476d1ce4e5b9u };

	return s;
}

static uint64_t draw(struct stream *s)
{
	s->state ^= s->state >> 12;
	s->state ^= s->state << 25;
	s->state ^= s->state >> 27;
	return s->state * 0x2545f4914f6cdd1du;
}

static void fill(struct stream *s, unsigned char *to, size_t len)
{
	while (len >= 8) {
		uint64_t word = draw(s);

		memcpy(to, &word, 8);
		to += 8;
		len -= 8;
	}
	if (len) {
		uint64_t word = draw(s);

		memcpy(to, &word, len);
	}
}

/* Sizes around each boundary that a transport may trip over come first, then many of each kind. */
static size_t tree_size(unsigned int i)
{
	static const size_t edges[] = {
		0, 1, 2, 3, 4, 5, 7, 8, 9, 100, 511, 512, 513, 700, 800, 900, 1000, 1023, 1024,
		1025, 2047, 2048, 2049, 3000, 3500, 3900, 4000, 4093, 4095, 4096, 4097, 4100, 8191,
		8192, 8193, 16385, 32767, 65535, 65536, 65537, 131071, 131072, 131073, 262141,
		262144, 524287, 1048573, 1048575, 1048576, 1048577, 2097149, 2097152, 2097155,
		3145729, 5 * MIB + 1, 24 * MIB + 4091,
	};
	const unsigned int n = ARRAY_SIZE(edges);
	struct stream s = stream_of(7, i);
	uint64_t r = draw(&s);

	if (i < n)
		return edges[i];
	if (i % 64 == 0)
		return 131072 + r % 800000;
	if (i % 8 == 0)
		return 8192 + r % 65536;
	return 1 + r % 6000;
}

static char *tree_path(const char *dir, unsigned int i)
{
	return path_of(dir, "d%02u/s%u/file-%04u", i % 12, i / 12 % 5, i);
}

static void do_gen(const char *dir, uint64_t seed)
{
	unsigned char *data = malloc(32 * MIB);
	uint64_t bytes = 0;

	mkdir(dir, 0755);
	for (unsigned int i = 0; i < TREE_FILES; i++) {
		struct stream s = stream_of(seed, i);
		const char *path = tree_path(dir, i);
		size_t size = tree_size(i);
		int fd;

		mkdir(path_of(dir, "d%02u", i % 12), 0755);
		mkdir(path_of(dir, "d%02u/s%u", i % 12, i / 12 % 5), 0755);
		fill(&s, data, size);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
		MUST(fd >= 0, path);
		MUST(write(fd, data, size) == (ssize_t)size, path);
		close(fd);
		bytes += size;
	}
	printf("gen files=%u bytes=%llu\n", TREE_FILES, (unsigned long long)bytes);
}

static void do_check(const char *dir, uint64_t seed)
{
	unsigned char *want = malloc(32 * MIB), *got = malloc(32 * MIB);
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < TREE_FILES; i++) {
		struct stream s = stream_of(seed, i);
		const char *path = tree_path(dir, i);
		size_t size = tree_size(i), have = 0;
		ssize_t n;
		int fd = open(path, O_RDONLY);

		MUST(fd >= 0, path);
		while ((n = read(fd, got + have, 32 * MIB - have)) > 0)
			have += n;
		MUST(n == 0, path);
		close(fd);
		if (have != size)
			fail("%s: %zu bytes, not %zu", path, have, size);
		fill(&s, want, size);
		for (size_t at = 0; at < size; at++)
			if (want[at] != got[at])
				fail("%s: wrong from byte %zu of %zu", path, at, size);
		bytes += size;
	}
	printf("check files=%u bytes=%llu\n", TREE_FILES, (unsigned long long)bytes);
}

/* Copy and compare */

/*
 * Work is divided by directory, since the kernel lets one process at a time change a directory.
 * Every worker walks the whole tree in the same order and does its own directories' files.
 */
static struct tally {
	uint64_t files, bytes;
} *tally;

static unsigned int worker, workers = 1, directories;

static bool mine(unsigned int directory)
{
	return directory % workers == worker;
}

static void print_in_parallel(const char *what, void (*work)(const char *, const char *),
			      const char *a, const char *b, unsigned int n)
{
	struct tally *all = mmap(NULL, n * sizeof(*all), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0), sum = { 0, 0 };
	bool bad = false;

	MUST(n > 0 && all != MAP_FAILED, what);
	workers = n;
	fflush(stdout);
	for (worker = 0; worker < n; worker++) {
		pid_t pid = fork();

		MUST(pid >= 0, what);
		if (pid == 0) {
			tally = &all[worker];
			work(a, b);
			exit(0);
		}
	}
	for (unsigned int i = 0; i < n; i++) {
		int status;

		MUST(wait(&status) > 0, what);
		bad = bad || status != 0;
	}
	for (unsigned int i = 0; i < n; i++) {
		sum.files += all[i].files;
		sum.bytes += all[i].bytes;
	}
	if (bad)
		fail("%s: a worker failed", what);
	printf("%s files=%llu bytes=%llu\n", what, (unsigned long long)sum.files,
	       (unsigned long long)sum.bytes);
}

/* Sorted names of a directory, without . and .. */
static char **list(const char *dir, size_t *count)
{
	struct dirent **entries;
	int n = scandir(dir, &entries, NULL, alphasort);
	char **names;

	MUST(n >= 0, dir);
	names = calloc(n + 1, sizeof(*names));
	*count = 0;
	for (int i = 0; i < n; i++) {
		if (strcmp(entries[i]->d_name, ".") && strcmp(entries[i]->d_name, ".."))
			names[(*count)++] = strdup(entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return names;
}

static char *join(const char *dir, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		fail("no memory");
	return path;
}

static void copy_file(const char *from, const char *to, mode_t mode)
{
	/* Lengths of reads and writes in turn; primes, so that they meet every alignment. */
	static const size_t lengths[] = { MIB, 65521, 4093, MIB - 3, 262144, 131101 };
	static unsigned int turn;
	static unsigned char *data;
	int in = open(from, O_RDONLY), out;
	ssize_t n;

	if (!data)
		data = malloc(MIB);
	MUST(in >= 0, from);
	out = open(to, O_WRONLY | O_CREAT | O_TRUNC, mode & 0777);
	MUST(out >= 0, to);
	while ((n = read(in, data, lengths[turn % 6])) > 0) {
		for (ssize_t done = 0; done < n; ) {
			ssize_t m = write(out, data + done, n - done);

			MUST(m > 0, to);
			done += m;
		}
		tally->bytes += n;
		turn++;
	}
	MUST(n == 0, from);
	close(in);
	MUST(close(out) == 0, to);
	tally->files++;
}

static void copy_entry(const char *from, const char *to, bool ours)
{
	struct stat st;

	MUST(lstat(from, &st) == 0, from);
	if (S_ISDIR(st.st_mode)) {
		bool inside = mine(directories++);
		size_t count;
		char **names = list(from, &count);

		MUST(mkdir(to, 0755) == 0 || errno == EEXIST, to);
		for (size_t i = 0; i < count; i++) {
			char *a = join(from, names[i]), *b = join(to, names[i]);

			copy_entry(a, b, inside);
			free(a);
			free(b);
			free(names[i]);
		}
		free(names);
	} else if (S_ISLNK(st.st_mode) && ours) {
		char target[4096];
		ssize_t n = readlink(from, target, sizeof(target) - 1);

		MUST(n > 0, from);
		target[n] = '\0';
		MUST(symlink(target, to) == 0, to);
	} else if (S_ISREG(st.st_mode) && ours) {
		copy_file(from, to, st.st_mode);
	}
}

static void copy_tree(const char *from, const char *to)
{
	copy_entry(from, to, mine(0));
}

static void compare_files(const char *a, const char *b)
{
	static unsigned char *x, *y;
	int fa = open(a, O_RDONLY), fb = open(b, O_RDONLY);
	size_t at = 0;

	if (!x) {
		x = malloc(MIB);
		y = malloc(MIB);
	}
	MUST(fa >= 0, a);
	MUST(fb >= 0, b);
	for (;;) {
		ssize_t n = read(fa, x, MIB), m = 0;

		MUST(n >= 0, a);
		while (m < n || n == 0) {
			ssize_t k = read(fb, y + m, n ? n - m : 1);

			MUST(k >= 0, b);
			if (k == 0)
				break;
			m += k;
			if (n == 0)
				break;
		}
		if (m != n)
			fail("%s and %s have different lengths, from byte %zu", a, b, at + m);
		if (n == 0)
			break;
		for (ssize_t i = 0; i < n && memcmp(x, y, n); i++)
			if (x[i] != y[i])
				fail("%s and %s differ from byte %zu", a, b, at + i);
		at += n;
	}
	close(fa);
	close(fb);
	tally->files++;
	tally->bytes += at;
}

static void compare_entries(const char *a, const char *b, bool ours)
{
	struct stat sa, sb;

	MUST(lstat(a, &sa) == 0, a);
	MUST(lstat(b, &sb) == 0, b);
	if ((sa.st_mode & S_IFMT) != (sb.st_mode & S_IFMT))
		fail("%s and %s are of different kinds", a, b);
	if (S_ISDIR(sa.st_mode)) {
		bool inside = mine(directories++);
		size_t na, nb;
		char **la = list(a, &na), **lb = list(b, &nb);

		for (size_t i = 0; i < na || i < nb; i++) {
			char *pa, *pb;

			if (i >= na || i >= nb || strcmp(la[i], lb[i]))
				fail("%s and %s differ in their entries, at \"%s\"", a, b,
				     i < na ? la[i] : lb[i]);
			pa = join(a, la[i]);
			pb = join(b, lb[i]);
			compare_entries(pa, pb, inside);
			free(pa);
			free(pb);
			free(la[i]);
			free(lb[i]);
		}
		free(la);
		free(lb);
	} else if (!ours) {
		return;
	} else if (S_ISLNK(sa.st_mode)) {
		char ta[4096], tb[4096];
		ssize_t n = readlink(a, ta, sizeof(ta)), m = readlink(b, tb, sizeof(tb));

		if (n < 0 || n != m || memcmp(ta, tb, n))
			fail("%s and %s are links to different things", a, b);
	} else if (S_ISREG(sa.st_mode)) {
		if (sa.st_size != sb.st_size)
			fail("%s has %lld bytes, %s has %lld", a, (long long)sa.st_size, b,
			     (long long)sb.st_size);
		compare_files(a, b);
	}
}

static void compare_trees(const char *a, const char *b)
{
	compare_entries(a, b, mine(0));
}

/* Names and directories */

static void put(const char *path, const char *text, int flags)
{
	int fd = open(path, O_WRONLY | O_CREAT | flags, 0644);

	MUST(fd >= 0, path);
	MUST(write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
	MUST(close(fd) == 0, path);
}

static void expect(const char *path, const char *text)
{
	char got[4096];
	int fd = open(path, O_RDONLY);
	ssize_t n;

	MUST(fd >= 0, path);
	n = read(fd, got, sizeof(got));
	MUST(n >= 0, path);
	close(fd);
	if (n != (ssize_t)strlen(text) || memcmp(got, text, n))
		fail("%s holds \"%.*s\", not \"%s\"", path, (int)n, got, text);
}

static void expect_absent(const char *path)
{
	struct stat st;

	if (lstat(path, &st) == 0 || errno != ENOENT)
		fail("%s is there and should not be", path);
}

static void do_names(const char *dir, size_t text)
{
	char *a = join(dir, "a"), *b = join(dir, "b"), *sub = join(dir, "sub");
	char *c = join(dir, "sub/c"), *s = join(dir, "s"), name[256], longest[4096], got[4096];
	struct stat st, st2;
	unsigned int ops = 0;
	ssize_t n;
	int fd;

	mkdir(dir, 0755);
	for (unsigned int i = 0; i < 8; i++) {
		put(a, "one", O_EXCL);
		if (open(a, O_WRONLY | O_CREAT | O_EXCL, 0644) >= 0 || errno != EEXIST)
			fail("%s: exclusive create of an existing file", a);
		MUST(link(a, b) == 0, b);
		MUST(stat(a, &st) == 0 && stat(b, &st2) == 0, a);
		if (st.st_ino != st2.st_ino || st2.st_nlink != 2)
			fail("%s is no hard link", b);
		put(b, "two", O_APPEND);
		expect(a, "onetwo");
		MUST(mkdir(sub, 0700) == 0, sub);
		MUST(rename(b, c) == 0, c);
		expect_absent(b);
		expect(c, "onetwo");
		if (rmdir(sub) == 0 || errno != ENOTEMPTY)
			fail("%s: removed, though not empty", sub);
		put(b, "other", O_EXCL);
		MUST(rename(b, c) == 0, c);
		expect(c, "other");
		MUST(truncate(c, 2) == 0, c);
		expect(c, "ot");
		MUST(symlink("sub/c", s) == 0, s);
		expect(s, "ot");
		n = readlink(s, got, sizeof(got));
		if (n != 5 || memcmp(got, "sub/c", 5))
			fail("%s: not the link that was made", s);
		MUST(chmod(a, 0640) == 0, a);
		MUST(stat(a, &st) == 0, a);
		if ((st.st_mode & 0777) != 0640 || st.st_nlink != 1)
			fail("%s: mode %o, %u links", a, st.st_mode & 0777,
			     (unsigned int)st.st_nlink);
		/* A file that is removed while open stays readable. */
		fd = open(a, O_RDWR);
		MUST(fd >= 0, a);
		MUST(unlink(a) == 0, a);
		expect_absent(a);
		MUST(pread(fd, got, 6, 0) == 6 && !memcmp(got, "onetwo", 6), a);
		close(fd);
		MUST(unlink(s) == 0 && unlink(c) == 0 && rmdir(sub) == 0, sub);
		ops += 24;
	}
	/* The longest name, and a link text that needs more than an inline reply. */
	memset(name, 'n', 255);
	name[255] = '\0';
	put(path_of(dir, "%s", name), "long", O_EXCL);
	expect(path_of(dir, "%s", name), "long");
	memset(longest, 'l', text);
	longest[text] = '\0';
	MUST(symlink(longest, s) == 0, s);
	n = readlink(s, got, sizeof(got));
	if (n != (ssize_t)text || memcmp(got, longest, text))
		fail("%s: the long link text came back changed", s);
	MUST(unlink(s) == 0 && unlink(path_of(dir, "%s", name)) == 0, s);
	MUST(rmdir(dir) == 0, dir);
	printf("names ops=%u\n", ops + 6);
}

/* Names of many lengths, so that entries fall across every page boundary of a listing. */
static const char *entry_name(unsigned int i)
{
	static char name[256];
	int n = snprintf(name, sizeof(name), "e%05u-", i);
	unsigned int pad = i * 37 % 61;

	memset(name + n, 'a' + i % 26, pad);
	name[n + pad] = '\0';
	return name;
}

static void do_dirmake(const char *dir, unsigned int count)
{
	char *first = join(dir, entry_name(0));

	mkdir(dir, 0755);
	put(first, "entry", O_EXCL);
	for (unsigned int i = 1; i < count; i++) {
		const char *path = path_of(dir, "%s", entry_name(i));

		/* Links are the cheapest entries; every eighth is of another kind. */
		if (i % 16 == 8)
			MUST(symlink("nowhere", path) == 0, path);
		else if (i % 16 == 0)
			MUST(mkdir(path, 0755) == 0, path);
		else
			MUST(link(first, path) == 0, path);
	}
	printf("dirmake entries=%u\n", count);
}

static void do_dirlist(const char *dir, unsigned int count)
{
	unsigned char *seen = calloc(count, 1);
	unsigned int found = 0;
	struct dirent *entry;
	DIR *d = opendir(dir);

	MUST(d, dir);
	while (errno = 0, (entry = readdir(d))) {
		unsigned int i;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (sscanf(entry->d_name, "e%u-", &i) != 1 || i >= count ||
		    strcmp(entry->d_name, entry_name(i)))
			fail("%s: unknown entry \"%s\"", dir, entry->d_name);
		if (seen[i]++)
			fail("%s: \"%s\" is listed twice", dir, entry->d_name);
		found++;
	}
	MUST(errno == 0, dir);
	closedir(d);
	if (found != count)
		fail("%s: %u entries listed, not %u", dir, found, count);
	printf("dirlist entries=%u\n", found);
}

/* Locks */

static int try_fcntl(int fd, short type, off_t start, off_t len)
{
	struct flock fl = { .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };

	return fcntl(fd, F_SETLK, &fl) ? errno : 0;
}

/* Runs @attempt's lock in another process; returns the errno it got there. */
static int from_another(const char *path, short type, off_t start, off_t len, bool whole_file)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int fd = open(path, O_RDWR);

		if (fd < 0)
			_exit(255);
		if (whole_file)
			_exit(flock(fd, LOCK_EX | LOCK_NB) ? errno : 0);
		_exit(try_fcntl(fd, type, start, len));
	}
	MUST(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status), path);
	return WEXITSTATUS(status);
}

static void expect_lock(int got, bool free, const char *what)
{
	if (free ? got != 0 : (got != EAGAIN && got != EACCES))
		fail("%s: %s, errno %d (%s)", what, free ? "refused" : "not refused", got,
		     strerror(got));
}

static void do_locks(const char *dir)
{
	char *path = join(dir, "lockfile");
	unsigned int rounds = 10;
	int fd;

	put(path, "0123456789", O_TRUNC);
	fd = open(path, O_RDWR);
	MUST(fd >= 0, path);
	for (unsigned int i = 0; i < rounds; i++) {
		expect_lock(try_fcntl(fd, F_WRLCK, 10, 10), true, "write lock");
		expect_lock(from_another(path, F_WRLCK, 15, 1, false), false, "write in write");
		expect_lock(from_another(path, F_RDLCK, 19, 5, false), false, "read over write");
		expect_lock(from_another(path, F_WRLCK, 20, 5, false), true, "write beside");
		expect_lock(try_fcntl(fd, F_RDLCK, 10, 10), true, "downgrade");
		expect_lock(from_another(path, F_RDLCK, 10, 10, false), true, "shared read");
		expect_lock(from_another(path, F_WRLCK, 10, 1, false), false, "write in read");
		expect_lock(try_fcntl(fd, F_UNLCK, 12, 3), true, "hole");
		expect_lock(from_another(path, F_WRLCK, 12, 3, false), true, "write in the hole");
		expect_lock(try_fcntl(fd, F_UNLCK, 0, 0), true, "unlock");
		expect_lock(from_another(path, F_WRLCK, 0, 0, false), true, "all after unlock");
	}
	for (unsigned int i = 0; i < rounds; i++) {
		MUST(flock(fd, LOCK_EX) == 0, path);
		expect_lock(from_another(path, 0, 0, 0, true), false, "flock against flock");
		MUST(flock(fd, LOCK_UN) == 0, path);
		expect_lock(from_another(path, 0, 0, 0, true), true, "flock after unlock");
	}
	close(fd);
	MUST(unlink(path) == 0, path);
	printf("locks attempts=%u\n", rounds * 15);
}

/* Data paths other than read() and write() through the page cache */

static void do_direct(const char *dir, uint64_t seed)
{
	const size_t size = 5 * MIB + 77;
	char *path = join(dir, "direct");
	unsigned char *shadow = calloc(1, size + 2 * MIB), *arena, *got;
	struct stream s = stream_of(seed, 99);
	unsigned int writes = 0, reads = 0;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0644), plain;

	MUST(fd >= 0, path);
	arena = aligned_alloc(4096, 3 * MIB);
	got = malloc(size + 2 * MIB);
	fill(&s, shadow, size);
	for (size_t at = 0; at < size; ) {
		size_t len = 1 + draw(&s) % (MIB + 9000), skew = draw(&s) % 4096;

		if (len > size - at)
			len = size - at;
		memcpy(arena + skew, shadow + at, len);
		MUST(pwrite(fd, arena + skew, len, at) == (ssize_t)len, path);
		at += len;
		writes++;
	}
	for (unsigned int i = 0; i < 60; i++) {
		size_t at = draw(&s) % size, skew = draw(&s) % 4096;
		size_t len = 1 + draw(&s) % (i % 3 ? 20000 : 1500000), want;

		if (i % 2) {
			if (len > size - at)
				len = size - at;
			fill(&s, arena + skew, len);
			memcpy(shadow + at, arena + skew, len);
			MUST(pwrite(fd, arena + skew, len, at) == (ssize_t)len, path);
			writes++;
			continue;
		}
		memset(arena, 0xee, 3 * MIB);
		want = len < size - at ? len : size - at;
		if (pread(fd, arena + skew, len, at) != (ssize_t)want)
			fail("%s: short direct read at %zu, length %zu", path, at, len);
		if (memcmp(arena + skew, shadow + at, want))
			fail("%s: wrong data of a direct read at %zu, length %zu", path, at, len);
		/* Nothing beyond what was asked for may have been touched. */
		if ((skew && arena[skew - 1] != 0xee) || arena[skew + want] != 0xee)
			fail("%s: a direct read at %zu, length %zu, wrote outside its buffer", path,
			     at, len);
		reads++;
	}
	close(fd);
	plain = open(path, O_RDONLY);
	MUST(plain >= 0, path);
	for (size_t at = 0; at < size; ) {
		ssize_t n = read(plain, got + at, size - at);

		MUST(n > 0, path);
		at += n;
	}
	if (memcmp(got, shadow, size))
		fail("%s: the file is not what was written", path);
	close(plain);
	MUST(unlink(path) == 0, path);
	printf("direct reads=%u writes=%u\n", reads, writes);
}

static void do_mapped(const char *dir)
{
	const size_t size = 300 * 4096 + 123;
	char *path = join(dir, "mapped");
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	struct stream s = stream_of(5, 5);
	unsigned char *map, *want = malloc(size), *got = malloc(size);

	MUST(fd >= 0, path);
	MUST(ftruncate(fd, size) == 0, path);
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(map != MAP_FAILED, path);
	fill(&s, want, size);
	memcpy(map, want, size);
	MUST(msync(map, size, MS_SYNC) == 0, path);
	MUST(munmap(map, size) == 0, path);
	close(fd);
	fd = open(path, O_RDONLY | O_DIRECT);
	MUST(fd >= 0, path);
	for (size_t at = 0; at < size; ) {
		ssize_t n = pread(fd, got + at, size - at, at);

		MUST(n > 0, path);
		at += n;
	}
	if (memcmp(want, got, size))
		fail("%s: what was mapped and written is not what is read", path);
	close(fd);
	MUST(unlink(path) == 0, path);
	printf("mapped bytes=%zu\n", size);
}

/* Attributes */

struct acl_entry {
	uint16_t tag, perm;
	uint32_t id;
};

/* acl(5): version 2; user::rw- user:1000:r-- group::r-- mask::r-- other::--- */
static const struct {
	uint32_t version;
	struct acl_entry entries[5];
} posix_acl = { 2, { { 1, 6, -1 }, { 2, 4, 1000 }, { 4, 4, -1 }, { 0x10, 4, -1 }, { 0x20, 0, -1 } } };

static void do_acl(const char *file)
{
	unsigned char got[65536];
	ssize_t n;

	put(file, "acl", O_TRUNC);
	MUST(setxattr(file, "system.posix_acl_access", &posix_acl, sizeof(posix_acl), 0) == 0, file);
	for (unsigned int i = 0; i < 10; i++) {
		n = getxattr(file, "system.posix_acl_access", got, sizeof(got));
		MUST(n >= 0, file);
		if (n != sizeof(posix_acl) || memcmp(got, &posix_acl, n))
			fail("%s: the ACL came back changed, %zd bytes", file, n);
	}
	printf("acl bytes=%zd\n", n);
}

static void do_acl4(const char *file)
{
	unsigned char acl[65536], again[65536];
	ssize_t n, m;

	put(file, "acl", O_TRUNC);
	n = getxattr(file, "system.nfs4_acl", acl, sizeof(acl));
	MUST(n > 0, file);
	MUST(setxattr(file, "system.nfs4_acl", acl, n, 0) == 0, file);
	m = getxattr(file, "system.nfs4_acl", again, sizeof(again));
	if (m != n || memcmp(acl, again, n))
		fail("%s: the ACL came back changed, %zd bytes, not %zd", file, m, n);
	printf("acl4 bytes=%zd\n", n);
}

static void do_xattr(const char *file)
{
	static const size_t sizes[] = { 1, 3, 100, 1023, 4000, 4096, 4097, 20001, 60000 };
	unsigned char value[65536], got[65536];
	unsigned int i;

	put(file, "xattr", O_TRUNC);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct stream s = stream_of(3, i);
		ssize_t n;

		fill(&s, value, sizes[i]);
		MUST(setxattr(file, "user.test", value, sizes[i], 0) == 0, file);
		n = getxattr(file, "user.test", got, sizeof(got));
		MUST(n >= 0, file);
		if (n != (ssize_t)sizes[i] || memcmp(value, got, n))
			fail("%s: attribute of %zu bytes came back changed", file, sizes[i]);
	}
	MUST(removexattr(file, "user.test") == 0, file);
	printf("xattr values=%u\n", i);
}

static void do_value(const char *file, size_t size, bool set)
{
	unsigned char value[65536], got[65536];
	struct stream s = stream_of(5, size);
	ssize_t n;

	if (size == 0 || size > sizeof(value))
		fail("value: an attribute of %zu bytes", size);
	fill(&s, value, size);
	if (set)
		MUST(setxattr(file, "user.value", value, size, 0) == 0, file);
	n = getxattr(file, "user.value", got, sizeof(got));
	MUST(n >= 0, file);
	if (n != (ssize_t)size || memcmp(value, got, n))
		fail("%s: an attribute of %zu bytes is another one, of %zd", file, size, n);
	printf("value bytes=%zu\n", size);
}

static void do_hold(const char *file, unsigned int seconds)
{
	int fd = open(file, O_RDONLY);

	MUST(fd >= 0, file);
	printf("holding\n");
	fflush(stdout);
	sleep(seconds);
	close(fd);
}

static const char *operand(int argc, char **argv, int i)
{
	if (i >= argc)
		fail("%s needs more operands", argv[1]);
	return argv[i];
}

int main(int argc, char **argv)
{
	const char *op = argc > 2 ? argv[1] : "";
	const char *first = argc > 2 ? argv[2] : "";

#define OPERAND operand(argc, argv, 3)
	if (!strcmp(op, "gen")) {
		do_gen(first, strtoull(OPERAND, NULL, 0));
	} else if (!strcmp(op, "check")) {
		do_check(first, strtoull(OPERAND, NULL, 0));
	} else if (!strcmp(op, "copy")) {
		print_in_parallel("copy", copy_tree, first, OPERAND, argc > 4 ? atoi(argv[4]) : 1);
	} else if (!strcmp(op, "compare")) {
		print_in_parallel("compare", compare_trees, first, OPERAND,
				  argc > 4 ? atoi(argv[4]) : 1);
	} else if (!strcmp(op, "names")) {
		size_t text = argc > 3 ? strtoul(argv[3], NULL, 0) : 3900;

		if (text == 0 || text > 4095)
			fail("names: a link text of %s bytes", argv[3]);
		do_names(first, text);
	} else if (!strcmp(op, "dirmake")) {
		do_dirmake(first, atoi(OPERAND));
	} else if (!strcmp(op, "dirlist")) {
		do_dirlist(first, atoi(OPERAND));
	} else if (!strcmp(op, "locks")) {
		do_locks(first);
	} else if (!strcmp(op, "direct")) {
		do_direct(first, strtoull(OPERAND, NULL, 0));
	} else if (!strcmp(op, "mapped")) {
		do_mapped(first);
	} else if (!strcmp(op, "acl")) {
		do_acl(first);
	} else if (!strcmp(op, "acl4")) {
		do_acl4(first);
	} else if (!strcmp(op, "xattr")) {
		do_xattr(first);
	} else if (!strcmp(op, "value") || !strcmp(op, "value-is")) {
		do_value(first, strtoul(OPERAND, NULL, 0), !op[5]);
	} else if (!strcmp(op, "hold")) {
		do_hold(first, atoi(OPERAND));
	} else {
		fail("operation \"%s\" is not known", op);
	}
	return 0;
}
