// SPDX-License-Identifier: GPL-2.0-only
/*
 * The port's messages for the administrator, and reports of broken invariants. Trace points are in
 * trace.c.
 */

#define pr_fmt(fmt) "rpcordma: " fmt

#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/kernel.h>
#include <linux/ratelimit.h>

#include "compat/linux/peer.h"
#include "compat/port/base.h"

/* Places that can report a broken invariant, each known by its text. */
#define WARN_PLACES 64

static __printf(3, 4) void emit(const struct rpcordma_peer *peer, enum rpcordma_level level,
				const char *format, ...)
{
	/*
	 * One rate limit for all messages: a burst of one may suppress others, but never fills the
	 * log.
	 */
	static DEFINE_RATELIMIT_STATE(limit, 5 * HZ, 20);
	struct va_format text = { .fmt = format };
	va_list arguments;

	if (!__ratelimit(&limit))
		return;
	va_start(arguments, format);
	text.va = &arguments;
	switch (level) {
	case RPCORDMA_LOG_ERROR:
		if (peer)
			pr_err("%pISpc: %pV\n", &peer->address, &text);
		else
			pr_err("%pV\n", &text);
		break;
	case RPCORDMA_LOG_WARNING:
		if (peer)
			pr_warn("%pISpc: %pV\n", &peer->address, &text);
		else
			pr_warn("%pV\n", &text);
		break;
	case RPCORDMA_LOG_INFO:
		if (peer)
			pr_info("%pISpc: %pV\n", &peer->address, &text);
		else
			pr_info("%pV\n", &text);
		break;
	}
	va_end(arguments);
}

void rpcordma_log(const struct rpcordma_peer *peer, enum rpcordma_level level, const char *text)
{
	emit(peer, level, "%s", text);
}

void rpcordma_log_value(const struct rpcordma_peer *peer, enum rpcordma_level level, const char *text,
			long long value)
{
	emit(peer, level, "%s: %lld", text, value);
}

void rpcordma_log_values(const struct rpcordma_peer *peer, enum rpcordma_level level, const char *text,
			 long long value, long long wanted)
{
	emit(peer, level, "%s: %lld of %lld", text, value, wanted);
}

void rpcordma_log_string(const struct rpcordma_peer *peer, enum rpcordma_level level, const char *text,
			 const char *what)
{
	emit(peer, level, "%s: %s", text, what);
}

/* The texts are string literals, so that each place has one address. */
static bool first_time(const char *invariant)
{
	static const char *seen[WARN_PLACES];
	unsigned int i;

	for (i = 0; i < WARN_PLACES; i++) {
		const char *other = cmpxchg(&seen[i], NULL, invariant);

		if (!other)
			return true;
		if (other == invariant)
			return false;
	}
	return false;
}

void rpcordma_warn(const char *invariant)
{
	if (first_time(invariant))
		WARN(1, "rpcordma: broken invariant: %s\n", invariant);
	else
		pr_err_ratelimited("broken invariant, again: %s\n", invariant);
}
