// SPDX-License-Identifier: GPL-2.0-only
/*
 * metaload: how fast names are made, looked at and removed, one after the other. Runs in the guests.
 *
 *	create DIR MILLISECONDS		files f0, f1, ... until the time is over
 *	stat DIR MILLISECONDS N		looks at f0 to fN-1 in turn until the time is over
 *	unlink DIR N			removes f0 to fN-1
 *
 * Prints how many were done, the nanoseconds of all, and microseconds of one: what p10, p25, p50, p75, p90,
 * p95, p99 and p99.9 of them do not exceed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST 100000
#define LONGEST 600000000000ULL

static unsigned long long took[MOST];

static unsigned long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static int one(char what, const char *path)
{
	struct stat st;
	int fd;

	if (what == 's')
		return stat(path, &st);
	if (what == 'u')
		return unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
	return fd < 0 ? fd : close(fd);
}

static int compare(const void *a, const void *b)
{
	unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static const double shares[] = { .1, .25, .5, .75, .9, .95, .99, .999 };
	unsigned long long limit = LONGEST, began, before;
	unsigned int names = MOST, most = MOST, n = 0;
	char what = argc > 1 ? argv[1][0] : 0;
	char path[4096];

	if (!(what == 'c' && argc == 4) && !(what == 's' && argc == 5) && !(what == 'u' && argc == 4)) {
		fprintf(stderr, "metaload: create DIR MILLISECONDS, stat DIR MILLISECONDS N or unlink DIR N\n");
		return 1;
	}
	if (what == 'u')
		names = most = strtoul(argv[3], NULL, 0);
	else
		limit = strtoull(argv[3], NULL, 0) * 1000000;
	if (what == 's')
		names = strtoul(argv[4], NULL, 0);
	if (!names || most > MOST) {
		fprintf(stderr, "metaload: between 1 and %u files, please\n", MOST);
		return 1;
	}
	for (began = before = now(); n < most && before - began < limit; n++) {
		unsigned long long after;

		snprintf(path, sizeof(path), "%s/f%u", argv[2], n % names);
		if (one(what, path) < 0) {
			fprintf(stderr, "metaload: %s %s: %s\n", argv[1], path, strerror(errno));
			return 1;
		}
		after = now();
		took[n] = after - before;
		before = after;
	}
	printf("%u %llu", n, before - began);
	qsort(took, n, sizeof(*took), compare);
	for (unsigned int i = 0; i < sizeof(shares) / sizeof(*shares); i++)
		printf(" %.1f", took[(unsigned int)(shares[i] * n)] / 1e3);
	printf("\n");
	return 0;
}
