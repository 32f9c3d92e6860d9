/* SPDX-License-Identifier: MIT */
/*
 * Operations: slots, queues, posting, deadlines, ends. Calls buf, dest, deadline and libfabric's
 * data transfer calls.
 */
#include <errno.h>
#include <stdlib.h>

#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "clock.h"
#include "netimpl.h"
#include "op.h"

/* On the path of every message, where a call costs more than what it does. */
#define HOT static inline __attribute__((always_inline))

#define CHUNK_OPS 128

/* The size that a post had first: what a caller passes is never less. */
#define FIRST_POST_SIZE (offsetof(struct weft_post, remote_key) + sizeof(uint64_t))

/*
 * How many queues in a row may answer "again" before a flush ends: it may be the whole endpoint
 * that has no room.
 */
#define FLUSH_MISSES 16
/* After how many turns with callbacks the deadlines are looked at all the same. */
#define BUSY_TURNS 4
/* How many operations one flush hands over at most, so that completions are read in between. */
#define FLUSH_POSTS 256

/* Half of the bits of what a provider is given are the slot's number, the others its turn's. */
#define NUMBER_BITS (sizeof(uintptr_t) * 4)
#define NUMBER_MASK (((uintptr_t)1 << NUMBER_BITS) - 1)

struct weft__op_chunk {
	struct weft__op op[CHUNK_OPS];
};

void weft__queue_init(struct weft__queue *queue)
{
	*queue = (struct weft__queue){.count = 0};
	TAILQ_INIT(&queue->waiting);
}

void weft__ops_init(struct weft__ops *ops)
{
	SLIST_INIT(&ops->free);
	TAILQ_INIT(&ops->ending);
	TAILQ_INIT(&ops->turns);
	weft__queue_init(&ops->receives);
	weft__deadlines_init(&ops->deadlines, weft__clock_coarse_ms(), weft__clock_slack_ms());
}

void weft__ops_free(struct weft__ops *ops)
{
	while (ops->chunk_count > 0)
		free(ops->chunks[--ops->chunk_count]);
	free(ops->chunks);
	ops->chunks = NULL;
}

static struct weft__queue *queue_of(struct weft_net *net, struct weft__op *op)
{
	return op->dest ? &op->dest->queue : &net->ops.receives;
}

static int add_chunk(struct weft__ops *ops)
{
	size_t size = (ops->chunk_count + 1) * sizeof(struct weft__op_chunk *);
	struct weft__op_chunk **chunks = realloc(ops->chunks, size);
	if (!chunks)
		return -ENOMEM;
	ops->chunks = chunks;
	struct weft__op_chunk *chunk = calloc(1, sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	for (size_t i = 0; i < CHUNK_OPS; i++) {
		chunk->op[i].number = (uint32_t)(ops->allocated + i);
		SLIST_INSERT_HEAD(&ops->free, &chunk->op[i], free);
	}
	ops->chunks[ops->chunk_count++] = chunk;
	ops->allocated += CHUNK_OPS;
	return 0;
}

/* Never 0, which would be no operation's context. */
HOT uintptr_t number_of(const struct weft__op *op)
{
	return (uintptr_t)op->turn << NUMBER_BITS | (op->number + 1);
}

/* What the provider is given for the present turn of a slot. */
HOT void *context_of(const struct weft_net *net, struct weft__op *op)
{
	return net->ops.numbered ? (void *)number_of(op) : &op->context;
}

struct weft__op *weft__op_numbered(const struct weft__ops *ops, uintptr_t number)
{
	size_t slot = (number & NUMBER_MASK) - 1;
	struct weft__op *op = &ops->chunks[slot / CHUNK_OPS]->op[slot % CHUNK_OPS];
	return op->posted && number_of(op) == number ? op : NULL;
}

/* The next slot from *at on that is taken, which *at is moved beyond; NULL at the end. */
static struct weft__op *next_used(const struct weft__ops *ops, size_t *at)
{
	while (*at < ops->chunk_count * CHUNK_OPS) {
		struct weft__op *op = &ops->chunks[*at / CHUNK_OPS]->op[*at % CHUNK_OPS];
		++*at;
		if (op->used)
			return op;
	}
	return NULL;
}

/* The same of those whose end is not decided. */
static struct weft__op *next_live(const struct weft__ops *ops, size_t *at)
{
	struct weft__op *op;
	do
		op = next_used(ops, at);
	while (op && (op->ending || op->told));
	return op;
}

HOT int take_slot(struct weft_net *net, struct weft__op **out)
{
	struct weft__ops *ops = &net->ops;
	if (ops->used >= net->opts.max_ops) {
		net->stats.refused++;
		return -ENOBUFS;
	}
	if (SLIST_EMPTY(&ops->free)) {
		int ret = add_chunk(ops);
		if (ret < 0)
			return ret;
	}
	*out = SLIST_FIRST(&ops->free);
	SLIST_REMOVE_HEAD(&ops->free, free);
	ops->used++;
	return 0;
}

static void stop_clock(struct weft_net *net, struct weft__op *op)
{
	if (op->timed)
		weft__deadline_remove(&net->ops.deadlines, &op->deadline);
	op->timed = false;
}

/* The callback has run, and the provider still has the operation. */
static void hold(struct weft_net *net, struct weft__op *op)
{
	op->told = true;
	net->ops.held++;
	queue_of(net, op)->held++;
	if (op->buf && op->buf->held++ == 0 && !op->buf->wrapped)
		net->ops.held_bytes += op->buf->size;
}

static void stop_holding(struct weft_net *net, struct weft__op *op)
{
	queue_of(net, op)->held--;
	net->ops.held--;
	if (op->buf && --op->buf->held == 0 && !op->buf->wrapped)
		net->ops.held_bytes -= op->buf->size;
}

/*
 * Gives a slot back. The caller has taken the buffer out of it, or drops the slot's reference
 * hereby.
 */
HOT void release(struct weft_net *net, struct weft__op *op)
{
	struct weft__queue *queue = queue_of(net, op);
	struct weft__dest *dest = op->dest;
	stop_clock(net, op);
	if (op->told)
		stop_holding(net, op);
	queue->count--;
	weft__buf_unref(op->buf);
	op->buf = NULL;
	op->used = false;
	SLIST_INSERT_HEAD(&net->ops.free, op, free);
	net->ops.used--;
	if (dest && queue->count == 0)
		weft__dest_released(net, dest);
}

static void leave_queue(struct weft_net *net, struct weft__queue *queue, struct weft__op *op)
{
	TAILQ_REMOVE(&queue->waiting, op, link);
	op->queued = false;
	net->ops.waiting--;
	if (TAILQ_EMPTY(&queue->waiting)) {
		TAILQ_REMOVE(&net->ops.turns, queue, turn);
		queue->in_turn = false;
	}
}

static void join_queue(struct weft_net *net, struct weft__queue *queue, struct weft__op *op)
{
	TAILQ_INSERT_TAIL(&queue->waiting, op, link);
	op->queued = true;
	net->ops.waiting++;
	if (!queue->in_turn) {
		TAILQ_INSERT_TAIL(&net->ops.turns, queue, turn);
		queue->in_turn = true;
	}
}

/* Offers an operation to the provider. Returns 0, -FI_EAGAIN, or an error. */
HOT int post(struct weft_net *net, struct weft__op *op)
{
	struct fid_ep *ep = net->ep;
	if (op->dest && op->dest->fi_addr == FI_ADDR_NOTAVAIL) {
		int waits = weft__dest_insert(net, op->dest);
		if (waits < 0)
			return waits;
	}
	fi_addr_t to = op->dest ? op->dest->fi_addr : FI_ADDR_UNSPEC;
	void *data = op->buf ? op->buf->data + op->off : NULL;
	void *desc = op->buf ? fi_mr_desc(op->buf->mr) : NULL;
	ssize_t ret = -FI_ENOSYS;
	op->turn++;
	void *context = context_of(net, op);
	switch (op->kind) {
	case WEFT__OP_SEND:
		ret = op->flags & WEFT_POST_CQ_DATA
			      ? fi_senddata(ep, data, op->len, desc, op->cq_data, to, context)
			      : fi_send(ep, data, op->len, desc, to, context);
		break;
	case WEFT__OP_TSEND:
		ret = op->flags & WEFT_POST_CQ_DATA
			      ? fi_tsenddata(ep, data, op->len, desc, op->cq_data, to, op->tag,
					     context)
			      : fi_tsend(ep, data, op->len, desc, to, op->tag, context);
		break;
	case WEFT__OP_READ:
		ret = fi_read(ep, data, op->len, desc, to, op->remote_addr, op->remote_key,
			      context);
		break;
	case WEFT__OP_WRITE:
		ret = fi_write(ep, data, op->len, desc, to, op->remote_addr, op->remote_key,
			       context);
		break;
	case WEFT__OP_RECV:
		ret = fi_recv(ep, data, op->len, desc, to, context);
		break;
	case WEFT__OP_TRECV:
		ret = fi_trecv(ep, data, op->len, desc, to, op->tag, op->ignore, context);
		break;
	}
	if (ret == 0)
		op->posted = true;
	return (int)ret;
}

void weft__ops_flush(struct weft_net *net)
{
	struct weft__ops *ops = &net->ops;
	struct weft__queue *queue;
	int misses = 0;
	for (int posts = 0; posts < FLUSH_POSTS && (queue = TAILQ_FIRST(&ops->turns)); posts++) {
		struct weft__op *op = TAILQ_FIRST(&queue->waiting);
		int ret = post(net, op);
		/* Whatever came of it, the next turn is another queue's. */
		TAILQ_REMOVE(&ops->turns, queue, turn);
		TAILQ_INSERT_TAIL(&ops->turns, queue, turn);
		if (ret == -FI_EAGAIN) {
			net->stats.retries++;
			if (++misses >= FLUSH_MISSES)
				break;
			continue;
		}
		misses = 0;
		if (ret == 0)
			leave_queue(net, queue, op);
		else
			weft__op_end(net, op, ret, "the provider refuses to post it");
	}
}

HOT int check_post(const struct weft_net *net, enum weft__op_kind kind,
		   const struct weft_post *post)
{
	const struct weft_buf *buf = post->buf;
	if (post->size < FIRST_POST_SIZE || (post->flags & ~WEFT_POST_CQ_DATA) ||
	    post->timeout_ms < -1)
		return -EINVAL;
	if (buf ? buf->net != net || post->off > buf->size || post->len > buf->size - post->off
		: post->len > 0 || post->off > 0 || weft__op_is_recv(kind))
		return -EINVAL;
	if (!weft__op_is_recv(kind) && post->len > net->choice.info->ep_attr->max_msg_size)
		return -EMSGSIZE;
	if (kind == WEFT__OP_TSEND || kind == WEFT__OP_TRECV) {
		if (!weft__has(net, FI_TAGGED))
			return -EOPNOTSUPP;
	} else if (kind == WEFT__OP_READ || kind == WEFT__OP_WRITE) {
		if (!weft__has(net, FI_RMA))
			return -EOPNOTSUPP;
	}
	if (post->flags & WEFT_POST_CQ_DATA) {
		size_t size = net->choice.info->domain_attr->cq_data_size;
		if (kind != WEFT__OP_SEND && kind != WEFT__OP_TSEND)
			return -EINVAL;
		if (size == 0)
			return -EOPNOTSUPP;
		if (size < sizeof(post->cq_data) && post->cq_data >> (8 * size))
			return -EINVAL;
	}
	return 0;
}

HOT int check_limits(struct weft_net *net, const struct weft__queue *queue)
{
	int ret = 0;
	if (queue->held >= net->opts.max_held_per_peer || net->ops.held >= net->opts.max_held)
		ret = -EHOSTUNREACH;
	else if (queue->count - queue->held >= net->opts.max_ops_per_peer)
		ret = -ENOBUFS;
	if (ret < 0)
		net->stats.refused++;
	return ret;
}

/* Takes a slot and fills in what every kind has. The rest is filled in before submit(). */
HOT int take(struct weft_net *net, enum weft__op_kind kind, struct weft__dest *dest,
	     struct weft_buf *buf, weft_done_fn *done, void *user, struct weft__op **out)
{
	struct weft__op *op;
	if (!done)
		return -EINVAL;
	int ret = take_slot(net, &op);
	if (ret < 0)
		return ret;
	op->kind = kind;
	op->used = true;
	op->posted = op->queued = op->ending = op->told = op->timed = false;
	op->canceling = false;
	op->dest = dest;
	op->buf = buf ? weft__buf_ref(buf) : NULL;
	op->done = done;
	op->user = user;
	*out = op;
	return 0;
}

/* Hands a filled slot to the provider or to its queue. On an error it is released. */
HOT int submit(struct weft_net *net, struct weft__op *op, int timeout_ms)
{
	struct weft__queue *queue = queue_of(net, op);
	queue->count++;
	int ret = TAILQ_EMPTY(&queue->waiting) ? post(net, op) : -FI_EAGAIN;
	if (ret == -FI_EAGAIN) {
		join_queue(net, queue, op);
	} else if (ret < 0) {
		release(net, op);
		return ret;
	}
	if (!op->dest) {
		net->ops.live_receives++;
		return 0;
	}
	net->ops.live_sends++;
	if (timeout_ms >= 0) {
		op->timed = true;
		weft__deadline_add(&net->ops.deadlines, &op->deadline, timeout_ms);
	}
	return 0;
}

HOT int start(struct weft_net *net, enum weft__op_kind kind, struct weft__dest *dest,
	      const struct weft_post *given, weft_done_fn *done, void *user)
{
	struct weft__op *op;
	if (net->closing)
		return -ECANCELED;
	int ret = check_post(net, kind, given);
	if (ret == 0 && dest)
		ret = check_limits(net, &dest->queue);
	if (ret == 0)
		ret = take(net, kind, dest, given->buf, done, user, &op);
	if (ret < 0)
		return ret;
	op->flags = given->flags;
	op->off = given->off;
	op->len = given->len;
	op->cq_data = given->cq_data;
	if (kind != WEFT__OP_SEND) {
		op->tag = given->tag;
		op->ignore = given->ignore;
		op->remote_addr = given->remote_addr;
		op->remote_key = given->remote_key;
	}
	return submit(net, op, given->timeout_ms);
}

HOT int start_to_peer(struct weft_net *net, enum weft__op_kind kind, weft_dest handle,
		      const struct weft_post *given, weft_done_fn *done, void *user)
{
	struct weft__dest *dest = weft__dest_get(&net->dests, handle);
	return dest ? start(net, kind, dest, given, done, user) : -ENOTCONN;
}

int weft_net_recv(struct weft_net *net, struct weft_buf *buf, weft_done_fn *done, void *user)
{
	struct weft__op *op;
	if (net->closing)
		return -ECANCELED;
	if (!buf || buf->net != net)
		return -EINVAL;
	int ret = take(net, WEFT__OP_RECV, NULL, buf, done, user, &op);
	if (ret < 0)
		return ret;
	op->off = 0;
	op->len = buf->size;
	return submit(net, op, -1);
}

int weft_net_trecv(struct weft_net *net, const struct weft_post *given, weft_done_fn *done,
		   void *user)
{
	return start(net, WEFT__OP_TRECV, NULL, given, done, user);
}

int weft_net_send(struct weft_net *net, weft_dest dest, const struct weft_post *given,
		  weft_done_fn *done, void *user)
{
	return start_to_peer(net, WEFT__OP_SEND, dest, given, done, user);
}

int weft_net_tsend(struct weft_net *net, weft_dest dest, const struct weft_post *given,
		   weft_done_fn *done, void *user)
{
	return start_to_peer(net, WEFT__OP_TSEND, dest, given, done, user);
}

int weft_net_read(struct weft_net *net, weft_dest dest, const struct weft_post *given,
		  weft_done_fn *done, void *user)
{
	return start_to_peer(net, WEFT__OP_READ, dest, given, done, user);
}

int weft_net_write(struct weft_net *net, weft_dest dest, const struct weft_post *given,
		   weft_done_fn *done, void *user)
{
	return start_to_peer(net, WEFT__OP_WRITE, dest, given, done, user);
}

int weft_net_cancel(struct weft_net *net, weft_done_fn *done, void *user)
{
	struct weft__op *op;
	size_t at = 0;
	int count = 0;
	while ((op = next_live(&net->ops, &at))) {
		if (op->canceling || !weft__op_is_recv(op->kind) || op->done != done ||
		    op->user != user)
			continue;
		op->canceling = true;
		count++;
		/* Where this fails, a message is on its way into it. */
		if (op->posted)
			fi_cancel(&net->ep->fid, context_of(net, op));
		else
			weft__op_end(net, op, -ECANCELED, "it was given up");
	}
	return count;
}

static void count_ended(struct weft_net *net, const struct weft__op *op)
{
	if (op->dest)
		net->ops.live_sends--;
	else
		net->ops.live_receives--;
}

void weft__op_end(struct weft_net *net, struct weft__op *op, int status, const char *text)
{
	if (op->queued)
		leave_queue(net, queue_of(net, op), op);
	stop_clock(net, op);
	count_ended(net, op);
	op->ending = true;
	op->status = status;
	op->text = text;
	TAILQ_INSERT_TAIL(&net->ops.ending, op, link);
	if (status == -ETIMEDOUT)
		net->stats.timeouts++;
	else if (status == -ECANCELED)
		net->stats.canceled++;
	else
		net->stats.errors++;
}

void weft__ops_end(struct weft_net *net, const struct weft__dest *dest, int status,
		   const char *text)
{
	struct weft__op *op;
	size_t at = 0;
	while ((op = next_live(&net->ops, &at))) {
		if (!dest || op->dest == dest)
			weft__op_end(net, op, status, text);
	}
}

void weft__ops_abandon(struct weft_net *net, weft_done_fn *done, void *user)
{
	struct weft__op *op;
	size_t at = 0;
	while ((op = next_live(&net->ops, &at))) {
		if (op->done == done && op->user == user)
			weft__op_end(net, op, -ECANCELED, "it was given up");
	}
}

void weft__ops_expire(struct weft_net *net, bool busy)
{
	if (busy && ++net->ops.busy_turns < BUSY_TURNS)
		return;
	net->ops.busy_turns = 0;
	struct weft__deadline_list passed;
	struct weft__deadline *entry;
	weft__deadlines_sweep(&net->ops.deadlines, weft__clock_coarse_ms(), &passed);
	while ((entry = LIST_FIRST(&passed))) {
		LIST_REMOVE(entry, link);
		struct weft__op *op =
			(struct weft__op *)((char *)entry - offsetof(struct weft__op, deadline));
		op->timed = false;
		weft__op_end(
			net, op, -ETIMEDOUT,
			op->posted
				? "the provider took it, and has not said in time what became of it"
				: "the provider did not take it in time: the peer does not answer");
	}
}

/* Runs the callback of an operation that may be gone already. */
static void call(struct weft_net *net, weft_done_fn *fn, const struct weft_done *done)
{
	net->in_callback = true;
	fn(net, done);
	net->in_callback = false;
	weft__buf_unref(done->buf);
}

static void fill_done(struct weft_done *done, const struct weft__op *op)
{
	done->size = sizeof(*done);
	done->buf = op->buf;
	done->off = op->off;
	done->user = op->user;
	if (op->dest)
		done->source = op->dest->handle;
}

int weft__ops_run_ending(struct weft_net *net)
{
	/* What the callbacks end in turn is for the next turn, or there might be no end of it. */
	struct weft__op_list due = TAILQ_HEAD_INITIALIZER(due);
	struct weft__op *op;
	int count = 0;
	TAILQ_CONCAT(&due, &net->ops.ending, link);
	while ((op = TAILQ_FIRST(&due))) {
		struct weft_done done = {.status = op->status, .text = op->text};
		weft_done_fn *fn = op->done;
		TAILQ_REMOVE(&due, op, link);
		op->ending = false;
		fill_done(&done, op);
		if (op->posted) {
			hold(net, op);
			if (done.buf)
				weft__buf_ref(done.buf);
		} else {
			op->buf = NULL;
			release(net, op);
		}
		call(net, fn, &done);
		count++;
	}
	return count;
}

int weft__op_complete(struct weft_net *net, struct weft__op *op, struct weft_done *done)
{
	weft_done_fn *fn = op->done;
	op->posted = false;
	if (op->told) {
		net->stats.late++;
		release(net, op);
		return 0;
	}
	/* Its end is decided, and its callback is due in this turn. */
	if (op->ending)
		return 0;

	count_ended(net, op);
	fill_done(done, op);
	if (done->status < 0) {
		net->stats.errors++;
		if (op->buf && !op->dest && done->status != -ECANCELED &&
		    net->choice.quirks->writes_late)
			weft__buf_outlive(op->buf);
	} else if (op->dest) {
		done->len = op->len;
		op->dest->known = true;
		net->stats.sent++;
		net->stats.sent_bytes += op->len;
	} else {
		net->stats.received++;
		net->stats.received_bytes += done->len;
	}
	op->buf = NULL;
	release(net, op);
	call(net, fn, done);
	return 1;
}

void weft__ops_reclaim(struct weft_net *net)
{
	struct weft__op *op;
	size_t at = 0;
	while ((op = next_used(&net->ops, &at))) {
		if (!op->posted)
			continue;
		op->posted = false;
		if (op->told)
			release(net, op);
	}
}
