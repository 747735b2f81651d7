/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vhca_rules: breaks each rule of vhca on purpose, and does the same thing right. A case fails when a fault that
 * must be counted is not, when there is one more, when it says something else, or when a completion is not what it
 * must be. It runs on vhca_va and vhca_vb, as selftests/vm/vmlib/hca.py makes them, with vhca.quiet=1.
 *
 *	bed.c		two connected ends, and what cases are made of; the files in debugfs
 *	memory.c	cases of DMA mappings and regions
 *	queues.c	cases of queue pairs and completion queues
 *	events.c	cases of faults on demand and of events
 *	devices.c	cases of devices that are made, and of what is asked of one as a whole
 *	plant.c		faults that a kernel's checkers find, and the device does not
 */
#ifndef VHCA_RULES_H
#define VHCA_RULES_H

#include <rdma/rdma_cm.h>

#include "vhca.h"

#define ROOM	(4 * PAGE_SIZE)

/* One side of a connection. */
struct end {
	struct ib_device *dev;
	struct vhca *v;
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *scq, *rcq;
	struct ib_qp *qp;
	struct ib_mr *mr;
	u8 *mem;		/* ROOM bytes, */
	u64 bus;		/* mapped here for both directions */
	int faults;		/* that are accounted for */
	atomic_t woken;		/* calls of the completion handlers */
	atomic_t events[32];	/* of the queue pair, by type */
	atomic_t cq_events;
};

struct settings {
	u32 send_wr, recv_wr, send_cqe;	/* 0: what is usual */
	u8 rnr_retry;
	u8 reads, peer_reads;		/* under way; for which the peer has resources. 0: one */
};

struct bed {
	struct end a, b;	/* vhca_va connects to vhca_vb */
	struct settings set;
	struct rdma_cm_id *listener;
	struct completion asked, answered, parted;
	int a_status, b_status;
	bool up;
};

/* What a case needs of the devices. */
enum {
	ALONE = 1,		/* no connection */
	ROCE = 2, IWARP = 4,	/* only there */
	BOUNCE = 8,		/* bounce buffers */
	PAGES = 16,		/* regions of whole pages */
	REMOVES = 32,		/* a device is gone afterwards */
};

struct rules_case {
	const char *name;
	int (*run)(struct bed *bed);
	int flags;
	struct settings set;
};

extern const struct rules_case memory_cases[], queue_cases[], event_cases[], device_cases[];

/** Say why a case fails; returns an error. */
__printf(1, 2) int wrong(const char *fmt, ...);

#define TRY(what) \
	do { \
		int try_err = (what); \
		if (try_err) \
			return wrong("%s:%d: %s: %d", __func__, __LINE__, #what, try_err); \
	} while (0)

#define MUST(what) \
	do { \
		if (!(what)) \
			return wrong("%s:%d: not so: %s", __func__, __LINE__, #what); \
	} while (0)

/** Since the last time @n rules have been broken at @e, the last with @text in what is said of it. */
int broken(struct end *e, int n, const char *text);

/** A work request with at most one SGE. */
struct op {
	enum ib_wr_opcode opcode;
	int flags;		/* beside IB_SEND_SIGNALED, */
	bool silent;		/* which this one lacks */
	u64 addr;
	u32 length, lkey;	/* 0: the key for all local memory */
	u64 remote;
	u32 rkey;		/* or the one to invalidate */
	int nsge;		/* so many times that SGE, where it is more than one */
};

int post_wr(struct end *e, u64 wr_id, struct op op);
int post_reg(struct end *e, u64 wr_id, u32 key, int access);
int post_recv(struct end *e, u64 wr_id, u64 addr, u32 length);
/** The next completion of @cq, which comes within a few seconds. */
int next_wc(struct ib_cq *cq, struct ib_wc *wc);
/** It is that of @wr_id with @status. */
int done(struct ib_cq *cq, u64 wr_id, enum ib_wc_status status);
/** The same of @e's send queue; and one rule has been broken, with @text in what is said of it. */
int fails(struct end *e, u64 wr_id, enum ib_wc_status status, const char *text);
/** One rule has been broken, with @text in what is said of it, by what came to @is, which must be @must. */
int faulty(struct end *e, const char *text, int is, int must);
/** No more is there, for @ms. */
int none(struct ib_cq *cq, u32 ms);

/** Have @e->mr stand for [@bus, +@length). */
int map_region(struct end *e, u64 bus, u32 length);
/** The same, registered under a new key; and the end of that. */
int reg(struct end *e, u64 bus, u32 length, int access);
int unreg(struct end *e);
/** Where @e may read to: the address is *@addr, the key *@lkey, and unreg() must follow where @e->mr is used. */
int sink(struct end *e, u64 *addr, u32 *lkey);

/** All of @e->mem becomes @byte, for the device as well; whether it is in [@at, +@length), as the device left it. */
void fill(struct end *e, u8 byte);
bool holds(struct end *e, u32 at, u32 length, u8 byte);

/** What a shell does with @command. */
int shell(const char *command);
/** Write @text into @file of @e's device in debugfs. */
int tell(struct end *e, const char *file, const char *text);
int to_error(struct end *e);

int bed_up(struct bed *bed, const struct settings *set);
void bed_down(struct bed *bed);
int alone_up(struct bed *bed);
/** The next time that @e's device goes, the bed is taken down by that. */
void expect_removal(void);
int removal(void);

/** Do something that KASAN, lockdep, kmemleak or DMA API debugging reports, by its name; @dev is there for the last. */
int plant(struct ib_device *dev, const char *what);

#endif
