/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The port's ground floor: the types both languages see, memory, time, locks, waiting, logging.
 *
 * Headers in compat/port/ are C11 and C++17 at once and use builtin types only. Kernel objects are
 * forward-declared structs. Functions prefixed rpcordma_ are given by compat/ (or by the simulated
 * port) and used by the cores; functions prefixed rpcordma_core_ are given by module/ and called
 * by compat/, always by name.
 *
 * Results are 0 or a negative errno unless a comment says otherwise.
 */
#ifndef RPCORDMA_PORT_BASE_H
#define RPCORDMA_PORT_BASE_H

#ifdef __cplusplus
#define RPCORDMA_BEGIN extern "C" {
#define RPCORDMA_END }
#define RPCORDMA_STATIC_ASSERT(x, why) static_assert(x, why)
#else
#define RPCORDMA_BEGIN
#define RPCORDMA_END
#define RPCORDMA_STATIC_ASSERT(x, why) _Static_assert(x, why)
#endif

/**
 * A function that the core gives to compat/: all that C++ shows of itself. In the module the C++ is compiled as
 * one whole program (Kbuild), of which nothing else is visible.
 */
#if defined(__cplusplus) && !defined(__clang__)
#define RPCORDMA_CORE __attribute__((externally_visible))
#else
#define RPCORDMA_CORE
#endif

RPCORDMA_BEGIN

typedef unsigned char rpcordma_u8;
typedef unsigned short rpcordma_u16;
typedef unsigned int rpcordma_u32;
typedef unsigned long long rpcordma_u64;
typedef __SIZE_TYPE__ rpcordma_size;
#ifndef __cplusplus
#define rpcordma_bool _Bool
#else
#define rpcordma_bool bool
#endif

/* Memory */

enum rpcordma_alloc_how {
	/** May sleep, may not start I/O, fails rather than digs into reserves; process context. */
	RPCORDMA_ALLOC_NOIO,
	/** Must not sleep, fails at once and silently; any context. */
	RPCORDMA_ALLOC_ATOMIC,
	/** May sleep and start I/O, and tries hard: a thread of a service, which locks nothing. */
	RPCORDMA_ALLOC_SERVICE,
	/**
	 * On behalf of the current RPC task, with what sunrpc thinks right for it; process context.
	 */
	RPCORDMA_ALLOC_TASK,
};

/**
 * Allocate @size bytes, zeroed, physically contiguous (so that they can be DMA-mapped), aligned to
 * 64 bytes if @size is a power of two of at least 64, and to a page if it is one of at least a page.
 * Returns null on failure.
 */
void *rpcordma_alloc(rpcordma_size size, enum rpcordma_alloc_how how);
/** @p may be null. Any context. */
void rpcordma_free(void *p);
/**
 * As rpcordma_alloc(), for memory that is never DMA-mapped: not necessarily contiguous, so that it is
 * to be had on a machine whose memory is in pieces.
 */
void *rpcordma_alloc_large(rpcordma_size size, enum rpcordma_alloc_how how);
/** @p may be null. Process or completion context, no spin lock held. */
void rpcordma_free_large(void *p);

/** The size of a page, bytes. */
rpcordma_u32 rpcordma_page_size(void);

/* Time: milliseconds since some moment in the past; never goes back. Any context. */
rpcordma_u64 rpcordma_now_ms(void);

/*
 * Locks. Each class is a lockdep class of its own; the names say what the lock guards, and
 * Documentation/architecture.rst lists the order. A spin lock is for process and completion context
 * (completions run in a workqueue); a mutex is for process context.
 */
enum rpcordma_lock_class {
	RPCORDMA_LOCK_CLIENT, /* a client transport's lists: free calls, zombies, free regions */
	RPCORDMA_LOCK_SERVER, /* a server connection's queues of calls, and its spare ones */
	RPCORDMA_LOCK_SINKS, /* the module's pool of sink pages and transfers: a NUMA node's shelf, or how it grows */
	RPCORDMA_LOCK_FAILURES, /* the module's memory of failed RDMA operations */
	RPCORDMA_LOCK_POSTS, /* a server connection's posts, where replies have several transmissions */
	RPCORDMA_LOCK_CLASSES,
};
enum rpcordma_mutex_class {
	RPCORDMA_MUTEX_FENCE, /* keeps a client's connection in place while memory is fenced */
	RPCORDMA_MUTEX_CLASSES,
};
struct rpcordma_lock;
struct rpcordma_mutex;
/* Returns null when there is no memory. Process context. */
struct rpcordma_lock *rpcordma_lock_create(enum rpcordma_lock_class which);
void rpcordma_lock_destroy(struct rpcordma_lock *lock);
void rpcordma_lock_acquire(struct rpcordma_lock *lock);
void rpcordma_lock_release(struct rpcordma_lock *lock);
struct rpcordma_mutex *rpcordma_mutex_create(enum rpcordma_mutex_class which);
void rpcordma_mutex_destroy(struct rpcordma_mutex *mutex);
void rpcordma_mutex_lock(struct rpcordma_mutex *mutex);
void rpcordma_mutex_unlock(struct rpcordma_mutex *mutex);

/*
 * An event that one context raises and one waits for. reset() makes it unraised; it must not race
 * with raise() or wait(). raise() is callable from completion context, wait() from process context.
 */
struct rpcordma_event;
struct rpcordma_event *rpcordma_event_create(void);
void rpcordma_event_destroy(struct rpcordma_event *event);
void rpcordma_event_reset(struct rpcordma_event *event);
void rpcordma_event_raise(struct rpcordma_event *event);
/** Wait without limit, uninterruptibly: only for what is bound to come. */
void rpcordma_event_wait(struct rpcordma_event *event);
/** As that, up to @limit_ms. False: it was not raised until then. */
rpcordma_bool rpcordma_event_wait_for(struct rpcordma_event *event, rpcordma_u32 limit_ms);

/*
 * A gate for several who wait until something may have changed: take a ticket, look, and wait with
 * that ticket if there was nothing. wait() returns at once when the gate was opened since. open() is
 * callable from completion context, wait() from process context, uninterruptibly; it returns false
 * when @limit_ms have passed without that.
 */
struct rpcordma_gate;
struct rpcordma_gate *rpcordma_gate_create(void);
void rpcordma_gate_destroy(struct rpcordma_gate *gate);
rpcordma_u32 rpcordma_gate_ticket(struct rpcordma_gate *gate);
rpcordma_bool rpcordma_gate_wait(struct rpcordma_gate *gate, rpcordma_u32 ticket,
				 rpcordma_u32 limit_ms);
void rpcordma_gate_open(struct rpcordma_gate *gate);

/** Who is at the other end of a connection, for logs and traces. As long-lived as its transport. */
struct rpcordma_peer;

/*
 * Logging. The text is complete; nothing is formatted. @peer is named in front by the port, where
 * it is not null. Any context; rate-limited.
 */
enum rpcordma_level { RPCORDMA_LOG_ERROR, RPCORDMA_LOG_WARNING, RPCORDMA_LOG_INFO };
void rpcordma_log(const struct rpcordma_peer *peer, enum rpcordma_level level, const char *text);
/** As rpcordma_log(), with ": @value" behind the text. */
void rpcordma_log_value(const struct rpcordma_peer *peer, enum rpcordma_level level, const char *text,
			long long value);
/** As rpcordma_log(), with ": @value of @wanted" behind the text. */
void rpcordma_log_values(const struct rpcordma_peer *peer, enum rpcordma_level level, const char *text,
			 long long value, long long wanted);
/** As rpcordma_log(), with ": @what" behind the text. */
void rpcordma_log_string(const struct rpcordma_peer *peer, enum rpcordma_level level, const char *text,
			 const char *what);

/** Report a broken invariant, once per place: a stack trace in the log, and go on. Any context. */
void rpcordma_warn(const char *invariant);

RPCORDMA_END

#endif
