// SPDX-License-Identifier: GPL-2.0-only
/*
 * repeat: one file operation N times and nothing else, so that what N of them cost can be told from
 * what one costs. Runs in the guests; verifies lengths, not contents (fsops does).
 *
 *	read FILE N SIZE OFFSET SKEW	O_DIRECT reads of SIZE bytes, the first at OFFSET of the file, into
 *	write FILE N SIZE OFFSET SKEW	memory that begins SKEW bytes behind a page; or writes
 *	stat FILE N			fstat of the open file
 *	list DIR N			listings from the first entry to the last, none from the cache
 *	setxattr FILE N SIZE		set a user attribute of SIZE bytes
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PAGE 4096

static const char *what, *name;

static void must(int ok)
{
	if (ok)
		return;
	fprintf(stderr, "repeat: %s %s: %s\n", what, name, strerror(errno));
	exit(1);
}

static void transfer(int writes, unsigned int n, size_t size, off_t at, size_t skew)
{
	int fd = open(name, (writes ? O_WRONLY : O_RDONLY) | O_DIRECT);
	char *memory = aligned_alloc(PAGE, (size + skew + PAGE) & ~(size_t)(PAGE - 1));

	must(fd >= 0 && memory);
	memset(memory, 'r', size + skew);
	for (unsigned int i = 0; i < n; i++, at += size) {
		ssize_t got = writes ? pwrite(fd, memory + skew, size, at) :
				       pread(fd, memory + skew, size, at);

		if (got >= 0 && got != (ssize_t)size) {
			fprintf(stderr, "repeat: %s %s: %zd bytes of %zu at %lld\n", what, name,
				got, size, (long long)at);
			exit(1);
		}
		must(got >= 0);
	}
	must(close(fd) == 0);
}

static void stat_again(unsigned int n)
{
	int fd = open(name, O_RDONLY);
	struct stat st;

	must(fd >= 0);
	while (n--)
		must(fstat(fd, &st) == 0);
	close(fd);
}

static void list(unsigned int n)
{
	DIR *dir = opendir(name);
	unsigned long entries = 0;

	must(dir != NULL);
	while (n--) {
		/* A directory's entries are cached in its pages, which this drops. */
		must(posix_fadvise(dirfd(dir), 0, 0, POSIX_FADV_DONTNEED) == 0);
		rewinddir(dir);
		errno = 0;
		while (readdir(dir))
			entries++;
		must(errno == 0);
	}
	closedir(dir);
	printf("repeat entries=%lu\n", entries);
}

static void setxattr_again(unsigned int n, size_t size)
{
	char *value = malloc(size);

	must(value != NULL);
	memset(value, 'x', size);
	while (n--)
		must(setxattr(name, "user.repeat", value, size, 0) == 0);
}

int main(int argc, char **argv)
{
	unsigned int n;

	if (argc < 4) {
		fprintf(stderr, "repeat: too few operands\n");
		return 1;
	}
	what = argv[1];
	name = argv[2];
	n = strtoul(argv[3], NULL, 0);
	if ((!strcmp(what, "read") || !strcmp(what, "write")) && argc == 7) {
		transfer(what[0] == 'w', n, strtoul(argv[4], NULL, 0), strtoul(argv[5], NULL, 0),
			 strtoul(argv[6], NULL, 0));
	} else if (!strcmp(what, "stat") && argc == 4) {
		stat_again(n);
	} else if (!strcmp(what, "list") && argc == 4) {
		list(n);
	} else if (!strcmp(what, "setxattr") && argc == 5) {
		setxattr_again(n, strtoul(argv[4], NULL, 0));
	} else {
		fprintf(stderr, "repeat: operation \"%s\" with %d operands is not known\n", what, argc - 2);
		return 1;
	}
	return 0;
}
