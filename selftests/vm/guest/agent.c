// SPDX-License-Identifier: GPL-2.0-only
/*
 * The agent: process 1 of a test VM. It runs the scripts that the host sends over a virtio-serial
 * port and streams their output back. What the scripts do, and what their output means, is not
 * known here.
 *
 * Host to guest:	R <id> <bytes>\n<script>	run the script in a shell of its own
 *			K <id>\n			kill that shell and all its children
 *			Q\n				power off
 * Guest to host:	H\n				ready
 *			O <id> <bytes>\n<output>	stdout and stderr, as they come
 *			X <id> <status>\n		ended: exit status, or 128 + signal
 *
 * Scripts run side by side. X follows the last output of the shell itself; a child that outlives
 * its shell (a daemon) keeps the output pipe and may still send O afterwards.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_JOBS	64
#define MAX_SCRIPT	(1u << 20)

struct job {
	int id;
	pid_t pid;	/* 0: the shell has ended */
	int out;	/* -1: the slot is free */
};

static struct job jobs[MAX_JOBS];
static int port;

static void die(const char *what)
{
	fprintf(stderr, "agent: %s: %s\n", what, strerror(errno));
	sleep(1);
	reboot(RB_POWER_OFF);
	_exit(1);
}

static void write_all(const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(port, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			struct pollfd pfd = { .fd = port, .events = POLLOUT };

			poll(&pfd, 1, 1000);
			continue;
		}
		if (n <= 0)
			die("write to the host");
		p += n;
		len -= n;
	}
}

static void tell(const char *fmt, ...)
{
	char line[128];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	write_all(line, n);
}

/* Returns the number of bytes read; 0 when the output has ended or has nothing just now. */
static ssize_t forward_output(struct job *job)
{
	char data[16384];
	ssize_t n = read(job->out, data, sizeof(data));

	if (n > 0) {
		tell("O %d %zd\n", job->id, n);
		write_all(data, n);
		return n;
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		close(job->out);
		job->out = -1;
	}
	return 0;
}

static void run_script(int id, char *script)
{
	int fds[2], slot;
	pid_t pid;

	for (slot = 0; slot < MAX_JOBS; slot++)
		if (jobs[slot].out < 0 && !jobs[slot].pid)
			break;
	if (slot == MAX_JOBS || pipe2(fds, O_CLOEXEC)) {
		tell("X %d 125\n", id);
		return;
	}
	pid = fork();
	if (pid == 0) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setsid();
		dup2(open("/dev/null", O_RDONLY), 0);
		dup2(fds[1], 1);
		dup2(fds[1], 2);
		execl("/bin/sh", "sh", "-c", script, NULL);
		_exit(126);
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		tell("X %d 125\n", id);
		return;
	}
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	jobs[slot] = (struct job){ .id = id, .pid = pid, .out = fds[0] };
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (int i = 0; i < MAX_JOBS; i++) {
			struct job *job = &jobs[i];

			if (job->pid != pid)
				continue;
			while (job->out >= 0 && forward_output(job) > 0)
				;
			job->pid = 0;
			tell("X %d %d\n", job->id,
			     WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
		}
	}
}

/* Blocking reads of a command that has begun to arrive. */
static void read_all(char *data, size_t len)
{
	while (len) {
		ssize_t n = read(port, data, len);

		if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
			struct pollfd pfd = { .fd = port, .events = POLLIN };

			poll(&pfd, 1, 1000);
			continue;
		}
		if (n <= 0)
			die("the host went away");
		data += n;
		len -= n;
	}
}

static void take_command(void)
{
	char line[64];
	size_t n = 0, len;
	char *script;
	int id;

	do {
		read_all(&line[n], 1);
	} while (line[n] != '\n' && ++n < sizeof(line) - 1);
	line[n] = '\0';

	if (sscanf(line, "R %d %zu", &id, &len) == 2 && len <= MAX_SCRIPT) {
		script = malloc(len + 1);
		if (!script)
			die("no memory for a script");
		read_all(script, len);
		script[len] = '\0';
		run_script(id, script);
		free(script);
	} else if (sscanf(line, "K %d", &id) == 1) {
		for (int i = 0; i < MAX_JOBS; i++)
			if (jobs[i].pid && jobs[i].id == id)
				kill(-jobs[i].pid, SIGKILL);
	} else if (line[0] == 'Q') {
		sync();
		reboot(RB_POWER_OFF);
	} else {
		fprintf(stderr, "agent: not understood: %s\n", line);
	}
}

int main(int argc, char **argv)
{
	struct pollfd pfds[MAX_JOBS + 2];
	struct job *polled[MAX_JOBS + 2];
	sigset_t set;
	int sig;

	for (int i = 0; i < MAX_JOBS; i++)
		jobs[i].out = -1;
	port = -1;
	for (int tries = 0; port < 0 && tries < 100; tries++) {
		for (int i = 1; port < 0 && i < argc; i++)
			port = open(argv[i], O_RDWR | O_CLOEXEC | O_NONBLOCK);
		if (port < 0)
			usleep(50000);
	}
	if (port < 0)
		die("no port to the host");

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sig = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sig < 0)
		die("signalfd");
	tell("H\n");

	for (;;) {
		int n = 2;

		pfds[0] = (struct pollfd){ .fd = port, .events = POLLIN };
		pfds[1] = (struct pollfd){ .fd = sig, .events = POLLIN };
		for (int i = 0; i < MAX_JOBS; i++) {
			if (jobs[i].out < 0)
				continue;
			polled[n] = &jobs[i];
			pfds[n++] = (struct pollfd){ .fd = jobs[i].out, .events = POLLIN };
		}
		/* The limit is for a SIGCHLD that merged with another one. */
		if (poll(pfds, n, 1000) < 0 && errno != EINTR)
			die("poll");
		for (int i = 2; i < n; i++)
			if (pfds[i].revents && polled[i]->out >= 0)
				forward_output(polled[i]);
		if (pfds[1].revents) {
			struct signalfd_siginfo info;

			while (read(sig, &info, sizeof(info)) > 0)
				;
		}
		reap();
		if (pfds[0].revents & POLLIN)
			take_command();
		else if (pfds[0].revents & POLLHUP)
			die("the host hung up");
	}
}
