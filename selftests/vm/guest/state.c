// SPDX-License-Identifier: GPL-2.0-only
/*
 * state: opens and byte-range locks of one process, for tests in which two machines meet. Runs in
 * the guests.
 *
 *	lock FILE START LENGTH STOP	take a write lock, or exit with 3 when it is not free; hold it
 *					until the file STOP exists
 *	wait FILE START LENGTH		take a write lock, however long that takes, and release it
 *	try FILE START LENGTH		take a write lock and release it, or exit with 3
 *	read FILE STOP			open for reading, read; hold the open until STOP exists
 *	write FILE TEXT			open for writing, write
 *
 * Prints "<what> ms=N" once it has what it asked for; any other failure exits with 1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUSY 3

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

__attribute__((noreturn))
static void fail(const char *what, const char *file)
{
	fprintf(stderr, "state: %s %s: %s\n", what, file, strerror(errno));
	exit(1);
}

static int open_or_fail(const char *file, int flags)
{
	int fd = open(file, flags, 0644);

	if (fd < 0)
		fail("open", file);
	return fd;
}

static void hold_until(const char *stop)
{
	while (access(stop, F_OK))
		usleep(50000);
}

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[1] : "", *file = argc > 3 ? argv[2] : "";
	long long began = now_ms();
	const char *stop = NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 4 && !strcmp(what, "read")) {
		char byte;

		if (read(open_or_fail(file, O_RDONLY), &byte, 1) != 1)
			fail("read", file);
		stop = argv[3];
	} else if (argc == 4 && !strcmp(what, "write")) {
		int fd = open_or_fail(file, O_WRONLY);
		ssize_t length = strlen(argv[3]);

		/* The open alone conflicts with a delegation: its time is what is asked for. */
		printf("open ms=%lld\n", now_ms() - began);
		if (write(fd, argv[3], length) != length || close(fd))
			fail("write", file);
	} else if (argc >= 5) {
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET,
			.l_start = atoll(argv[3]), .l_len = atoll(argv[4]),
		};
		int fd = open_or_fail(file, O_RDWR | O_CREAT);

		if (fcntl(fd, strcmp(what, "wait") ? F_SETLK : F_SETLKW, &lock)) {
			if (errno == EAGAIN || errno == EACCES)
				return BUSY;
			fail("lock", file);
		}
		stop = argc == 6 && !strcmp(what, "lock") ? argv[5] : NULL;
	} else {
		fprintf(stderr, "state: lock|wait|try|read|write, see the source\n");
		return 2;
	}
	printf("%s ms=%lld\n", what, now_ms() - began);
	if (stop)
		hold_until(stop);
	return 0;
}
