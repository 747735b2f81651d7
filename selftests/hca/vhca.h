/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vhca: an RDMA device without hardware, for tests. It does DMA through dma_map_ops of its own, and holds those
 * who use it to the rules that real devices have and soft RoCE does not (Documentation/hardware.rst). Each
 * device belongs to a network interface; what one sends arrives at another in the same kernel, by one copy.
 *
 *	dma.c		bus addresses, mappings, bounce buffers: who may access which byte when
 *	mr.c		protection domains, memory regions, keys
 *	cq.c		completion queues
 *	qp.c		queue pairs: what may be posted, room in the queues, states
 *	engine.c	what a queue pair does with its work requests
 *	iwarp.c		connections of the iWARP kind, for iw_cm
 *	roce.c		GIDs, address handles and queue pair 1, for the CM of InfiniBand over RoCE
 *	inject.c	debugfs: counters, faults on demand
 *	device.c	presets, devices that come and go
 *
 * Without checks (the module's parameter of that name) a device is one to measure with: it has no dma_map_ops of its
 * own, and does little but look keys up and copy, in an interrupt at the post instead of in a worker. Rules that cost
 * nothing to look at are kept to all the same.
 *
 * Locks, in the order in which they nest: conn_lock (iwarp.c), qp->lock, cq->lock or dev->mr_lock, mr->lock,
 * dma.lock. All are taken with interrupts off.
 */
#ifndef VHCA_H
#define VHCA_H

#include <linux/dma-map-ops.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/platform_device.h>
#include <linux/rbtree.h>
#include <linux/smp.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#ifndef CONFIG_ARCH_HAS_DMA_OPS
#error "set_dma_ops() does nothing in this kernel: without ARCH_HAS_DMA_OPS vhca would do no DMA (x86: GART_IOMMU)"
#endif

/* The core has no number for tests, and takes 0 for all drivers at once. This one's hardware has no kernel ULPs. */
#define VHCA_DRIVER	RDMA_DRIVER_USNIC

/* What differs between kernels; Kbuild tells which have it. */
#ifdef VHCA_DMAH
#define VHCA_DMAH_ARG struct ib_dmah *dmah,
#else
#define VHCA_DMAH_ARG
#endif

/** A timer of CLOCK_MONOTONIC that has @function run in hard interrupts, after a time that is relative. */
static inline void vhca_timer_setup(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *))
{
#ifdef VHCA_HRTIMER_SETUP
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	timer->function = function;
#endif
}

/** What kinds of devices differ in. */
struct vhca_preset {
	const char *name;
	bool iwarp;
	bool sg_gaps;		/* IB_MR_TYPE_SG_GAPS, which ULPs then prefer */
	bool sink_access;	/* the sink of a Read is a region with IB_ACCESS_REMOTE_WRITE */
	u32 page_list;		/* entries of a region, at most */
	u32 send_sge, recv_sge, read_sge, sgl_rd;
	u32 send_blocks;	/* of 64 bytes, in a send queue, at most */
	u32 recv_wr;
	u32 cqe;
	u32 reads;		/* under way at once, each direction */
	u32 mrs;
};

/** Work requests by what they do, for counters and faults on demand. */
enum vhca_kind {
	VHCA_SEND, VHCA_WRITE, VHCA_READ, VHCA_REG, VHCA_INV, VHCA_RECV, VHCA_KINDS
};

extern const char *const vhca_kinds[VHCA_KINDS];

/** Operations of the DMA API, in the order of vhca_dma_names. */
enum vhca_dma_op {
	VHCA_DMA_ALLOC, VHCA_DMA_FREE, VHCA_DMA_MAP_PAGE, VHCA_DMA_UNMAP_PAGE, VHCA_DMA_MAP_SG, VHCA_DMA_UNMAP_SG,
	VHCA_DMA_CPU, VHCA_DMA_DEVICE, VHCA_DMA_SG_CPU, VHCA_DMA_SG_DEVICE, VHCA_DMA_MAPPING_SIZE, VHCA_DMA_OPS
};

struct vhca_dma {
	spinlock_t lock;
	struct rb_root maps;		/* by bus address */
	bool bounce;
	u32 align_mask;			/* of an address that bounce buffers keep */
	u32 fail_every;			/* mappings; 0: none fails */
	atomic_t count;			/* for fail_every */
	u64 calls[VHCA_DMA_OPS];
	u32 live;
};

struct vhca {
	struct ib_device ib;
	struct platform_device *pdev;
	const struct vhca_preset *preset;
	struct net_device *netdev;
	struct list_head node;		/* vhca_devices */
	struct vhca_dma dma;
	bool checks;			/* see above */

	struct xarray qps;
	spinlock_t mr_lock;
	struct xarray mrs;
	/* Keys and numbers of queue pairs: no two devices have the same, nor one that came before. */
	u32 first_key, next_key, next_qpn;

	bool port_up;
	bool cm_lost;			/* datagrams that it sends do not arrive */

	/* How it behaves, as the module's parameters were when it was made; debugfs changes them. */
	u32 read_delay;			/* us until a Read's data comes */
	u32 cq_batch, cq_delay;		/* completions wait for others, at most so many us */
	u32 vectors;			/* of completions, each with a CPU; 0: whichever completes is interrupted */
	atomic64_t moved;		/* interrupts of a vector whose CPU was offline */
	atomic64_t held;		/* Receives that were told of late, as was asked for */

	spinlock_t inject_lock;
	struct list_head injections;
	atomic64_t done[VHCA_KINDS];
	atomic_t faults;
	char fault[160];		/* the last one */
	struct dentry *debugfs;
};

#define to_vhca(ibdev) container_of(ibdev, struct vhca, ib)

/** A rule was broken by who uses @dev: counted, and a warning unless vhca.quiet is set. Any context. */
__printf(2, 3) void vhca_fault(struct vhca *dev, const char *fmt, ...);

extern bool vhca_quiet;
extern struct workqueue_struct *vhca_wq;
extern struct list_head vhca_devices;	/* by vhca_devices_lock */
extern rwlock_t vhca_devices_lock;

/* dma.c */

struct vhca_map;

/** A piece of memory within a page that the device holds; interrupts are off until vhca_dma_unpin(). */
struct vhca_pin {
	struct vhca_map *map;		/* NULL: without checks, whoever unmaps waits for nobody */
	void *va;
	u32 length;
};

extern const struct dma_map_ops vhca_dma_ops;
extern const char *const vhca_dma_names[];

void vhca_dma_init(struct vhca_dma *dma, bool bounce, u32 align_mask);
/**
 * Hold up to @length bytes at bus address @bus, which the device is about to read (@writes false) or write.
 * Interrupts are off; the caller lets go with vhca_dma_unpin() before it turns them on. 0, or -EFAULT after a
 * vhca_fault(): the address is not mapped, or not for that.
 */
int vhca_dma_pin(struct vhca *dev, dma_addr_t bus, u32 length, bool writes, struct vhca_pin *pin);
void vhca_dma_unpin(struct vhca_pin *pin);
/** A peer may access what is mapped at @bus, from now on or no more: @count is 1 or -1. */
void vhca_dma_expose(struct vhca *dev, dma_addr_t bus, int count);

/** A work request in a send queue uses what is mapped at @bus, from now on or no more: @count is 1 or -1. */
void vhca_dma_use(struct vhca *dev, dma_addr_t bus, int count);

/* mr.c */

struct vhca_qp;

struct vhca_pd {
	struct ib_pd ib;
};

struct vhca_piece {
	dma_addr_t bus;
	u32 length;
};

struct vhca_mr {
	struct ib_mr ib;
	spinlock_t lock;
	u32 key;			/* as the device has it: ib.lkey may be the next one's already */
	bool valid;
	bool all;			/* of local memory: bus addresses are used as they are */
	bool posted;			/* a registration is in a send queue: its page list must not change */
	bool by_peer;			/* a peer was the last to invalidate it */
	struct vhca_qp *exposed_by;	/* counted at its mappings; never looked into */
	int access;
	u64 iova, length;
	u32 page_size;
	u32 most;			/* entries */
	u32 n_next, n;			/* of what map_mr_sg() made; of what is registered */
	u32 found;			/* entry of the latest access, */
	u64 found_at;			/* which has this byte as its first */
	struct vhca_piece *next, *now;
	atomic_t pins;			/* accesses under way */
	atomic_t invalidators;		/* who wait for these */
};

#define to_vmr(ibmr) container_of(ibmr, struct vhca_mr, ib)

int vhca_alloc_pd(struct ib_pd *pd, struct ib_udata *udata);
int vhca_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata);
struct ib_mr *vhca_get_dma_mr(struct ib_pd *pd, int access);
struct ib_mr *vhca_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt, int access,
			       VHCA_DMAH_ARG struct ib_udata *udata);
struct ib_mr *vhca_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max_num_sg);
int vhca_dereg_mr(struct ib_mr *mr, struct ib_udata *udata);
int vhca_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int nents, unsigned int *offset);

/** The region at @index has a registration in a send queue, or no more. It may be gone. */
void vhca_mr_posted(struct vhca *dev, u32 index, bool posted);
/** What an IB_WR_REG_MR does when it is its turn. A status for its completion. */
enum ib_wc_status vhca_mr_register(struct vhca_qp *qp, u32 index, u32 key, int access);
/** What @qp registered can be used by no peer any more, as it has none: its memory may be unmapped. */
void vhca_mr_hide(struct vhca_qp *qp);
/** What IB_WR_LOCAL_INV does, or at the receiver a Send With Invalidate (@remote). */
enum ib_wc_status vhca_mr_invalidate(struct vhca *dev, struct ib_pd *pd, u32 key, bool remote);
/**
 * Hold up to @length bytes at @address of the region that @key names, whose access must have @access; see
 * vhca_dma_pin(). *@held is set to what vhca_mr_unpin() wants. 0, -EACCES when the region does not allow it,
 * -EFAULT when the memory behind it is not mapped.
 */
int vhca_mr_pin(struct vhca *dev, struct ib_pd *pd, u32 key, u64 address, u32 length, int access, bool writes,
		struct vhca_mr **held, struct vhca_pin *pin);
void vhca_mr_unpin(struct vhca_mr *held, struct vhca_pin *pin);
/** Whether [@address, +@length) lies in the region and it has @access. */
bool vhca_mr_allows(struct vhca *dev, struct ib_pd *pd, u32 key, u64 address, u64 length, int access);

/* cq.c */

struct vhca_cqe {
	struct ib_wc wc;
	struct vhca_qp *qp;
	bool releases;		/* once it is polled, so many blocks of the send queue were ever given back, */
	u64 release;
	u64 over;		/* and so many of its work requests' memory is their owner's again */
};

struct vhca_cq {
	struct ib_cq ib;
	struct vhca *dev;
	spinlock_t lock;
	struct vhca_cqe *ring;
	u32 size;
	u64 head, shown, tail;		/* next to be polled, first that is held back, next to be written */
	bool armed, solicited_only;
	bool tell, overflown;		/* what the interrupt is for */
	u32 vector;
	struct irq_work irq;		/* of this CPU; */
	call_single_data_t call;	/* of another one */
	atomic_t calls;			/* that are on their way */
	struct hrtimer timer;
};

#define to_vcq(ibcq) container_of(ibcq, struct vhca_cq, ib)

int vhca_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr, struct uverbs_attr_bundle *attrs);
int vhca_destroy_cq(struct ib_cq *cq, struct ib_udata *udata);
int vhca_poll_cq(struct ib_cq *cq, int n, struct ib_wc *wc);
int vhca_req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags);
void vhca_cq_push(struct vhca_cq *cq, const struct vhca_cqe *cqe, bool solicited);
/** Forget what is left of @qp, which is being destroyed. */
void vhca_cq_forget(struct vhca_cq *cq, struct vhca_qp *qp);

/* qp.c, engine.c */

/* What carrying out a work request may come to beside a status: no answer, or no Receive; again in *ms. */
#define VHCA_LATER	(-1)

enum vhca_wqe_state { VHCA_POSTED, VHCA_UNDER_WAY, VHCA_DONE };

/** Where a datagram goes, and whose it is: as its address handle was when it was posted. */
struct vhca_av {
	union ib_gid sgid, dgid;
	enum rdma_network_type network;
	u32 qpn;
	bool no_interface;	/* it has gone: the datagram is lost */
	u16 vlan;
	u8 mac[ETH_ALEN];
};

struct vhca_swqe {
	u64 wr_id;
	enum ib_wr_opcode opcode;
	int flags;
	enum vhca_wqe_state state;
	enum ib_wc_status status;
	u32 blocks;
	u32 length;
	u64 remote_addr;
	u32 rkey;		/* or the key to invalidate, or of a registration */
	__be32 imm;
	u32 region;		/* index of the one that is to be registered, or 0 */
	int access;
	struct vhca_av av;	/* of a datagram */
	ktime_t due;
	bool held;		/* it has waited already, as was asked for */
	int nsge;
	struct ib_sge *sge;
};

struct vhca_rwqe {
	u64 wr_id;
	int nsge;
	struct ib_sge *sge;
	/* Once a message has come: what is told of it, and not before when. */
	struct ib_wc wc;
	bool solicited;
	ktime_t due;		/* 0: at once */
};

struct vhca_qp {
	struct ib_qp ib;
	struct vhca *dev;
	struct kref ref;
	struct completion gone;
	spinlock_t lock;
	enum ib_qp_state state;
	struct ib_qp_attr attr;
	struct ib_qp_init_attr init;

	/* Send queue: entries in a ring, counted up; room in blocks, given back by what is polled. */
	struct vhca_swqe *sq;
	struct ib_sge *sge;
	u32 sq_size, blocks;
	u64 sq_posted, sq_next, sq_done;
	u64 blocks_posted, blocks_done;
	u64 blocks_free;	/* under the send CQ's lock: how many blocks were ever given back; */
	u64 sq_over;		/* and whose memory */
	u32 reads;		/* under way */
	/* A work request has failed; the Reads before it are yet to come. Who has found fault, and hears of it then: */
	bool failed;
	struct vhca_qp *blamed;	/* referenced, or NULL */
	enum ib_event_type blame;
	int retries, rnr_retries;

	struct vhca_rwqe *rq;
	u32 rq_size;
	u64 rq_posted, rq_filled, rq_done;	/* a message has come; it has been told of */
	bool rq_busy;		/* a peer fills the first that is empty */
	struct hrtimer recv_timer;	/* the next that is held back is due */

	struct delayed_work work;
	struct irq_work irq;	/* instead, without checks */
	atomic_t runs;		/* of both that are asked for: one goes on for all */
	struct vhca *toward;	/* without checks: the peer's device, for comparison only */
	struct hrtimer timer;	/* the next Read comes */
	struct vhca_conn *conn;
	struct vhca_qp *peer;	/* iWARP: referenced, under conn_lock and lock */
};

#define to_vqp(ibqp) container_of(ibqp, struct vhca_qp, ib)

int vhca_create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata);
int vhca_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int vhca_query_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init);
int vhca_destroy_qp(struct ib_qp *qp, struct ib_udata *udata);
int vhca_post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int vhca_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
/** The queue pair numbered @qpn with a reference, or NULL. Any context. */
struct vhca_qp *vhca_qp_get(struct vhca *dev, u32 qpn);
void vhca_qp_put(struct vhca_qp *qp);
/** Move to @state; in the error state everything is flushed, and the peer of an iWARP connection hears of it. */
void vhca_qp_set_state(struct vhca_qp *qp, enum ib_qp_state state);
/** The device tells who made @qp of @event. */
void vhca_qp_event(struct vhca_qp *qp, enum ib_event_type event);
void vhca_qp_work(struct work_struct *work);
void vhca_qp_interrupt(struct irq_work *work);
enum hrtimer_restart vhca_qp_timer(struct hrtimer *timer);
enum hrtimer_restart vhca_recv_timer(struct hrtimer *timer);
enum vhca_kind vhca_kind_of(enum ib_wr_opcode opcode);
/** The memory of all work requests before @to is their owner's again. The send CQ's lock, or the end of @qp. */
void vhca_sq_over(struct vhca_qp *qp, u64 to);
/** Complete the oldest empty Receive of @qp, which the caller has made busy. */
void vhca_recv_done(struct vhca_qp *qp, const struct ib_wc *wc, bool solicited);
/** No Receive of @qp is held back any longer. */
void vhca_recv_release(struct vhca_qp *qp);
/** Copy @length bytes from a list of SGEs to another. @from_qp and @to_qp say whose memory they are. */
int vhca_copy_sges(struct vhca_qp *from_qp, const struct ib_sge *from, struct vhca_qp *to_qp, const struct ib_sge *to,
		   u32 skip, u32 length);

/* iwarp.c */

void vhca_iw_add_ref(struct ib_qp *qp);
void vhca_iw_rem_ref(struct ib_qp *qp);
struct ib_qp *vhca_iw_get_qp(struct ib_device *ib, int qpn);
int vhca_iw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int vhca_iw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int vhca_iw_reject(struct iw_cm_id *id, const void *data, u8 length);
int vhca_iw_create_listen(struct iw_cm_id *id, int backlog);
int vhca_iw_destroy_listen(struct iw_cm_id *id);
/** @qp has left the state in which it can send: its connection is over. Any context. */
void vhca_iw_closed(struct vhca_qp *qp);

/* roce.c */

int vhca_create_ah(struct ib_ah *ah, struct rdma_ah_init_attr *attr, struct ib_udata *udata);
int vhca_destroy_ah(struct ib_ah *ah, u32 flags);
int vhca_query_ah(struct ib_ah *ah, struct rdma_ah_attr *attr);
int vhca_add_gid(const struct ib_gid_attr *attr, void **context);
int vhca_del_gid(const struct ib_gid_attr *attr, void **context);
/** The queue pair that a RoCE one is connected to, with a reference, or NULL. */
struct vhca_qp *vhca_roce_peer(struct vhca_qp *qp);
/** Send @e, a datagram. A status, or VHCA_LATER with *@ms set. */
int vhca_roce_send(struct vhca_qp *qp, struct vhca_swqe *e, u32 *ms);

struct vhca_ah {
	struct ib_ah ib;
	struct rdma_ah_attr attr;
};

#define to_vah(ibah) container_of(ibah, struct vhca_ah, ib)

/* inject.c */

/**
 * What was asked to happen to this work request. True: it fails with *@status; false: it goes on, after *@ms
 * milliseconds where that is not 0.
 */
bool vhca_inject(struct vhca *dev, enum vhca_kind kind, enum ib_wc_status *status, u32 *ms);
void vhca_inject_add(struct vhca *dev);
void vhca_inject_remove(struct vhca *dev);

/* device.c */

/** The end of @dev, soon, from any process. */
void vhca_remove(struct vhca *dev);
/** Its port comes or goes. */
void vhca_port(struct vhca *dev, bool up);

#endif
