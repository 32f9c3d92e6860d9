/* SPDX-License-Identifier: MIT */
/*
 * Operations: slots owned by the net, queued per peer, handed to the provider in turn, ended exactly once.
 *
 * The life of one: starting it takes a slot and posts it, or, while the provider says "again", leaves it in its queue,
 * which weft__ops_flush() retries. It ends by a completion (cq.c), by its deadline, by the removal of its peer or by
 * close. Where the provider still has it when it ends, the slot is held, with its buffer, until a completion or the
 * closing of the endpoint gives it back.
 *
 * Calls buf, dest, deadline, log and libfabric's data transfer calls.
 */
#ifndef WEFT_OP_H
#define WEFT_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <rdma/fabric.h>

#include <weft/net.h>

#include "deadline.h"

struct weft__dest;

enum weft__op_kind {
	WEFT__OP_SEND,
	WEFT__OP_TSEND,
	WEFT__OP_READ,
	WEFT__OP_WRITE,
	WEFT__OP_RECV,
	WEFT__OP_TRECV,
};

static inline bool weft__op_is_recv(enum weft__op_kind kind)
{
	return kind == WEFT__OP_RECV || kind == WEFT__OP_TRECV;
}

struct weft__op {
	struct fi_context2 context; /* the provider's, where it asks for one */
	uint32_t number; /* of the slot: its place among all */
	uint32_t turn;   /* how often the slot has been posted */
	enum weft__op_kind kind;
	bool used;   /* the slot is taken */
	bool posted; /* the provider has it */
	bool queued; /* it waits in its queue */
	bool ending; /* it is on the list of those whose callback is due, with `status` */
	bool told;   /* its callback has run; with `posted`, it is held */
	bool timed;  /* it is in the wheel of deadlines */
	bool canceling; /* its owner has asked for its end */
	int status;
	const char *text;
	unsigned flags;
	struct weft__dest *dest; /* NULL for receives */
	struct weft_buf *buf;    /* a reference; NULL for an empty message */
	size_t off, len;
	uint64_t tag, ignore, cq_data;
	uint64_t remote_addr, remote_key;
	weft_done_fn *done;
	void *user;
	struct weft__deadline deadline;
	union {
		TAILQ_ENTRY(weft__op) link; /* of its queue, or of those ending */
		SLIST_ENTRY(weft__op) free;
	};
};

TAILQ_HEAD(weft__op_list, weft__op);
SLIST_HEAD(weft__op_stack, weft__op);

/* Operations that wait for the provider, in the order started. One a peer, and one for receives. */
struct weft__queue {
	struct weft__op_list waiting;
	bool in_turn;             /* it is among those that weft__ops_flush() serves */
	TAILQ_ENTRY(weft__queue) turn;
	size_t count; /* operations not released, whatever their state */
	size_t held;  /* of these, ended for the caller */
};

TAILQ_HEAD(weft__queue_list, weft__queue);

struct weft__ops {
	struct weft__op_stack free;
	struct weft__op_chunk **chunks; /* by the numbers of their slots */
	size_t chunk_count;
	bool numbered;    /* see weft__op_of() */
	size_t allocated; /* slots in all chunks */
	size_t used;      /* slots not free */
	struct weft__op_list ending;
	struct weft__queue_list turns; /* queues with something waiting */
	struct weft__queue receives;
	struct weft__deadlines deadlines;
	size_t live_sends; /* sends, reads and writes not ended: while there are any, sleeps are short */
	size_t live_receives;
	size_t waiting;
	size_t held;
	size_t held_bytes; /* of the buffers of these */
	unsigned busy_turns; /* without a look at the deadlines */
};

void weft__queue_init(struct weft__queue *queue);

void weft__ops_init(struct weft__ops *ops);

/* Frees all slots. Nothing may be under way, and the provider must have let go of every slot. */
void weft__ops_free(struct weft__ops *ops);

/* Hands waiting operations to the provider, one a queue in turn, until it says "again" too often or none waits. */
void weft__ops_flush(struct weft_net *net);

/*
 * Ends the operations whose deadline has passed. busy: this turn has had callbacks, and another one is likely to
 * follow at once; then the clock is looked at only in every fourth.
 */
void weft__ops_expire(struct weft_net *net, bool busy);

/* Ends an operation with a status of our own; its callback runs in the next weft__ops_run_ending(). */
void weft__op_end(struct weft_net *net, struct weft__op *op, int status, const char *text);

/* Ends all operations to a destination, or with NULL all that there are, likewise. */
void weft__ops_end(struct weft_net *net, const struct weft__dest *dest, int status, const char *text);

/*
 * Ends the operations with this callback and context, likewise; what the provider has is held then. For sends, which
 * no provider cancels.
 */
void weft__ops_abandon(struct weft_net *net, weft_done_fn *done, void *user);

/* Runs the callbacks that are due. Returns how many. */
int weft__ops_run_ending(struct weft_net *net);

/* The operation that was posted under a number, or NULL if it has ended. */
struct weft__op *weft__op_numbered(const struct weft__ops *ops, uintptr_t number);

/*
 * The operation of a completion with this context, or NULL if its end has been told before: nobody waits for it then,
 * and its slot may be another one's by now. Where providers do that (`repeats_ends`), what they are given is a number
 * that names the slot and the time that it was posted; elsewhere it is the address of the operation.
 */
static inline struct weft__op *weft__op_of(const struct weft__ops *ops, void *context)
{
	struct weft__op *op = context;
	if (ops->numbered)
		return weft__op_numbered(ops, (uintptr_t)context);
	return op->posted ? op : NULL;
}

/* The provider has given an operation back, with *done telling how it went: runs its callback unless it has had it. */
int weft__op_complete(struct weft_net *net, struct weft__op *op, struct weft_done *done);

/* The endpoint is closed: every slot comes back that the provider still had. */
void weft__ops_reclaim(struct weft_net *net);

#endif
