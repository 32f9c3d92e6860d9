/* SPDX-License-Identifier: MIT */
/*
 * weft send: sends a message, or a file in blocks, and writes the answer to each, in order. A few
 * blocks are under way at a time; each lies in a buffer of its own, in a ring, until its answer is
 * written.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "advice.h"
#include "commands.h"
#include "fabric.h"
#include "input.h"
#include "json.h"
#include "loop.h"
#include "output.h"
#include "progress.h"
#include "sink.h"
#include "stop.h"
#include "target.h"
#include "units.h"

#define BLOCK_BYTES ((size_t)1 << 20)
#define WINDOW 8
/* For what the program still has to tell its peer when all is done. */
#define LINGER_MS 1000
/* Before another attempt to connect; doubled each time, up to the second. */
#define RETRY_FIRST_MS 250
#define RETRY_MOST_MS 4000

enum block_state {
	BLOCK_FILLING,	/* more is to be read, or nothing has been yet */
	BLOCK_READY,	/* to be sent */
	BLOCK_SENT,	/* given to the library */
	BLOCK_ANSWERED, /* the answer is there, in reply, or none was wanted */
};

struct block {
	struct transfer *transfer;
	enum block_state state;
	struct weft_buf *buf;
	size_t len;
	bool told; /* --verbose has said that it was sent */
	struct weft_msg *reply;
	size_t written; /* of the reply */
};

struct transfer {
	const struct options *options;
	struct fabric fabric;
	struct input input;
	struct sink sink;
	weft_peer peer;
	struct weft_addr addr;
	bool open, ever_open, sink_full, input_ended, input_dry;
	uint64_t passes; /* over the whole input, those finished */
	size_t block_bytes;
	struct block blocks[WINDOW];
	uint64_t first,
		next;	  /* the oldest block in use, and the one to be filled; counted from 0 */
	int64_t moved_ms; /* when the peer was last heard of */
	struct weft_progress progress;
	int status; /* -1 while it runs, then the exit status */
	uint64_t sent_bytes, received_bytes, messages, replies;
	int64_t started_ms;
};

static struct block *block_at(struct transfer *transfer, uint64_t number)
{
	return &transfer->blocks[number % WINDOW];
}

static void end(struct transfer *transfer, int status)
{
	if (transfer->status < 0)
		transfer->status = status;
}

static void on_opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
		      void *user)
{
	struct transfer *transfer = user;
	(void)node;
	if (peer != transfer->peer)
		return;
	transfer->open = transfer->ever_open = true;
	transfer->moved_ms = now_ms();
	transfer->block_bytes =
		info->max_message < BLOCK_BYTES ? (size_t)info->max_message : BLOCK_BYTES;
	fabric_tell_peer(&transfer->fabric, info);
	say_more("connected to %s, its provider is %s", address_text(&info->addr), info->provider);
	if (transfer->input.text && transfer->input.len > info->max_message)
		end(transfer, fail(EXIT_USAGE,
				   "the message has %zu bytes and the peer takes at most %" PRIu64
				   "; --file sends it in parts",
				   transfer->input.len, info->max_message));
}

/* Says why the session is no more. How long we have waited the library does not say. */
static int tell_closed(const struct transfer *transfer, const struct weft_closed *closed)
{
	char time[UNITS_TEXT_MAX];
	const char *address = address_text(&transfer->addr);
	format_duration(time, transfer->options->timeout_ms);
	if (!closed->opened && closed->reason == WEFT_REASON_TIMEOUT)
		return fail(EXIT_TIMEOUT, "no answer from %s within %s, never connected; %s",
			    address, time,
			    advice_unanswered(&transfer->fabric, &transfer->addr, closed));
	return fail(closed->status == -ETIMEDOUT ? EXIT_TIMEOUT : EXIT_FAILED, "%s %s: %s",
		    closed->opened ? "lost" : "cannot connect to", address,
		    advice_closed(&transfer->fabric, &transfer->addr, closed));
}

static void on_closed(struct weft_node *node, weft_peer peer, const struct weft_closed *closed,
		      void *user)
{
	struct transfer *transfer = user;
	(void)node;
	if (peer != transfer->peer)
		return;
	transfer->open = false;
	if (transfer->status < 0)
		end(transfer, tell_closed(transfer, closed));
}

/* An answer can be seen before the end of what it answers. */
static void say_sent(struct block *block)
{
	if (!block->told && output_is_verbose())
		say_more("message sent (len=%zu): %s", block->len,
			 message_preview(block->len ? weft_buf_data(block->buf) : "", block->len));
	block->told = true;
}

static void on_sent(struct weft_node *node, weft_peer peer, int status, void *user)
{
	struct block *block = user;
	struct transfer *transfer = block->transfer;
	(void)node;
	(void)peer;
	/* Where it failed, the reply's end or that of the session tells. */
	if (status < 0)
		return;
	transfer->moved_ms = now_ms();
	say_sent(block);
	if (transfer->options->no_reply)
		block->state = BLOCK_ANSWERED;
}

/* Writes what there is of the answers that are next in order. */
static void drain(struct transfer *transfer)
{
	transfer->sink_full = false;
	while (transfer->first < transfer->next && transfer->status < 0) {
		struct block *block = block_at(transfer, transfer->first);
		if (block->state != BLOCK_ANSWERED)
			return;
		if (block->reply) {
			const char *data = block->reply->data;
			long put = sink_write(&transfer->sink, data + block->written,
					      block->reply->len - block->written);
			if (put < 0) {
				end(transfer, sink_failed(&transfer->sink, put));
				return;
			}
			block->written += (size_t)put;
			if (block->written < block->reply->len) {
				transfer->sink_full = true;
				return;
			}
			weft_msg_release(block->reply);
			block->reply = NULL;
		}
		block->state = BLOCK_FILLING;
		block->len = 0;
		block->written = 0;
		transfer->first++;
	}
}

static void on_reply(struct weft_node *node, weft_peer peer, const struct weft_msg *msg, int status,
		     void *user)
{
	struct block *block = user;
	struct transfer *transfer = block->transfer;
	(void)peer;
	/* What ends with its session is told by the end of the session. */
	if (status < 0 || transfer->status >= 0)
		return;
	transfer->moved_ms = now_ms();
	transfer->replies++;
	transfer->received_bytes += msg->len;
	say_sent(block);
	if (output_is_verbose())
		say_more("reply (len=%zu): %s", msg->len, message_preview(msg->data, msg->len));
	block->reply = weft_msg_hold(node, msg);
	if (!block->reply) {
		end(transfer, fail(EXIT_FAILED, "no memory for a reply of %zu bytes", msg->len));
		return;
	}
	block->state = BLOCK_ANSWERED;
	drain(transfer);
}

/* Reads what there is for the next block. */
static void fill(struct transfer *transfer, struct block *block)
{
	size_t size = transfer->block_bytes;
	transfer->input_dry = false;
	/* An argument is one message; its length has been found to do. */
	if (transfer->input.text)
		size = transfer->input.len ? transfer->input.len : 1;
	if (!block->buf) {
		int ret = weft_buf_alloc(weft_node_net(transfer->fabric.node), size, &block->buf);
		if (ret < 0) {
			end(transfer, fail(EXIT_FAILED, "no memory for %zu bytes: %s", size,
					   fabric_reason(ret)));
			return;
		}
	}
	while (block->len < size) {
		char *to = (char *)weft_buf_data(block->buf) + block->len;
		long got = input_read(&transfer->input, to, size - block->len);
		if (got == -EAGAIN) {
			transfer->input_dry = true;
			return;
		}
		if (got < 0) {
			end(transfer, fail(EXIT_FAILED, "cannot read %s: %s", transfer->input.name,
					   strerror((int)-got)));
			return;
		}
		if (got == 0)
			break;
		block->len += (size_t)got;
	}
	block->state = BLOCK_READY;
}

/* An end of the input that leaves nothing to be sent: the last block before it was just full. */
static bool is_needless(const struct transfer *transfer, const struct block *block)
{
	return block->len == 0 && transfer->sent_bytes > 0 && !transfer->input.text;
}

/* The input is at its end: once more from its start, or that was all. */
static void pass_over(struct transfer *transfer)
{
	uint64_t passes = transfer->options->count ? transfer->options->count : 1;
	transfer->passes++;
	if (transfer->passes == passes)
		transfer->input_ended = true;
	else if (!input_rewind(&transfer->input))
		end(transfer, fail(EXIT_FAILED, "cannot read %s again: %s", transfer->input.name,
				   strerror(errno)));
}

/* Sends the block that is next. Returns whether there may be more to do at once. */
static bool advance(struct transfer *transfer)
{
	struct block *block = block_at(transfer, transfer->next);
	struct weft_send send = WEFT_SEND_INIT;
	if (!transfer->open || transfer->input_ended || transfer->status >= 0 ||
	    transfer->next - transfer->first == WINDOW)
		return false;
	block->transfer = transfer;
	if (block->state == BLOCK_FILLING)
		fill(transfer, block);
	if (block->state != BLOCK_READY)
		return false;
	bool short_one = block->len < transfer->block_bytes || transfer->input.text;
	if (is_needless(transfer, block)) {
		block->state = BLOCK_FILLING;
		pass_over(transfer);
		return true;
	}
	send.buf = block->len ? block->buf : NULL;
	send.len = block->len;
	send.timeout_ms = -1;
	send.sent = on_sent;
	send.reply = transfer->options->no_reply ? NULL : on_reply;
	send.user = block;
	int ret = weft_peer_send(transfer->fabric.node, transfer->peer, &send);
	if (ret == -ENOBUFS)
		return false;
	if (ret < 0) {
		/* The end of a session is told by its event, with the reason. */
		if (ret != -ENOTCONN)
			end(transfer, fail(EXIT_FAILED, "cannot send a message of %zu bytes: %s",
					   block->len, fabric_reason(ret)));
		return false;
	}
	if (transfer->first == transfer->next)
		transfer->moved_ms = now_ms();
	block->state = BLOCK_SENT;
	block->told = false;
	transfer->messages++;
	transfer->sent_bytes += block->len;
	transfer->next++;
	if (short_one)
		pass_over(transfer);
	return true;
}

/* When the peer has had its time, if it is the peer that we wait for. */
static int64_t deadline_of(const struct transfer *transfer)
{
	bool waiting = transfer->first < transfer->next && !transfer->sink_full;
	return transfer->open && waiting ? transfer->moved_ms + transfer->options->timeout_ms
					 : INT64_MAX;
}

/* Whether parts of messages have come or gone since the last look: on a slow link one takes longer
 * than the time. */
static bool has_moved(struct transfer *transfer)
{
	struct weft_progress now = WEFT_PROGRESS_INIT;
	struct weft_progress *last = &transfer->progress;
	if (weft_peer_get_progress(transfer->fabric.node, transfer->peer, &now) < 0)
		return false;
	bool moved = now.out_id != last->out_id || now.out_done != last->out_done ||
		     now.in_id != last->in_id || now.in_done != last->in_done;
	*last = now;
	return moved;
}

static void check_deadline(struct transfer *transfer)
{
	char time[UNITS_TEXT_MAX];
	if (transfer->status >= 0 || deadline_of(transfer) > now_ms())
		return;
	if (has_moved(transfer)) {
		transfer->moved_ms = now_ms();
		return;
	}
	format_duration(time, transfer->options->timeout_ms);
	end(transfer,
	    fail(EXIT_TIMEOUT,
		 "no answer from %s within %s, connected, %" PRIu64 " of %" PRIu64
		 " messages answered; does its program answer messages?",
		 address_text(&transfer->addr), time, transfer->replies, transfer->messages));
}

/* Waits for whatever can make it go on, and lets the node work. */
static void turn(struct transfer *transfer)
{
	struct pollfd fds[2];
	nfds_t count = 0;
	int64_t due = deadline_of(transfer);
	bool room = transfer->next - transfer->first < WINDOW;
	if (progress_due_ms() < due)
		due = progress_due_ms();
	if (transfer->open && transfer->input_dry && room && !transfer->input_ended)
		fds[count++] = (struct pollfd){.fd = transfer->input.fd, .events = POLLIN};
	if (transfer->sink_full)
		fds[count++] = (struct pollfd){.fd = transfer->sink.fd, .events = POLLOUT};
	int ret = loop_turn(transfer->fabric.node, fds, count, ms_until(due));
	if (ret < 0 && transfer->status < 0)
		end(transfer, fail(EXIT_FAILED, "the fabric is broken: %s", fabric_reason(ret)));
}

static void converse(struct transfer *transfer)
{
	const struct options *options = transfer->options;
	uint64_t passes = options->count ? options->count : 1;
	uint64_t total = transfer->input.size_known ? transfer->input.size * passes : 0;
	progress_start(!options->quiet, total);
	while (transfer->status < 0) {
		if (stop_wanted()) {
			end(transfer, EXIT_INTERRUPTED);
			break;
		}
		turn(transfer);
		drain(transfer);
		while (advance(transfer))
			;
		check_deadline(transfer);
		progress_show(options->no_reply ? transfer->sent_bytes : transfer->received_bytes);
		if (transfer->input_ended && transfer->first == transfer->next)
			end(transfer, EXIT_DONE);
	}
	progress_end(options->no_reply ? transfer->sent_bytes : transfer->received_bytes);
}

/* One attempt: a node, a session, and all that is to be said. */
static int attempt(struct transfer *transfer)
{
	struct weft_events events = WEFT_EVENTS_INIT;
	struct weft_node_opts limits = WEFT_NODE_OPTS_INIT;
	const struct options *options = transfer->options;
	transfer->status = -1;
	events.opened = on_opened;
	events.closed = on_closed;
	int status = fabric_open(&transfer->fabric, options, &limits, &transfer->addr, &events,
				 transfer);
	if (status != EXIT_DONE)
		return status;
	int ret = weft_peer_connect(transfer->fabric.node, &transfer->addr, options->timeout_ms,
				    &transfer->peer);
	if (ret < 0)
		end(transfer, fail(EXIT_FAILED, "cannot connect to %s: %s", options->address,
				   fabric_reason(ret)));
	else
		say_more("connecting to %s", address_text(&transfer->addr));
	transfer->started_ms = now_ms();
	converse(transfer);
	/* Whether the end is a good one or not, nothing that is under way matters any more. */
	fabric_close(&transfer->fabric, transfer->status == EXIT_DONE ? LINGER_MS : 0);
	for (size_t i = 0; i < WINDOW; i++) {
		weft_msg_release(transfer->blocks[i].reply);
		weft_buf_unref(transfer->blocks[i].buf);
		transfer->blocks[i] = (struct block){0};
	}
	return transfer->status;
}

/* Sleeps before another attempt. Returns false after a signal. */
static bool pause_before_retry(uint64_t tried, uint64_t retries)
{
	int64_t wait_ms = tried < 4 ? RETRY_FIRST_MS << tried : RETRY_MOST_MS;
	int64_t until_ms = now_ms() + wait_ms;
	say("trying again in %d ms, attempt %" PRIu64 " of %" PRIu64, (int)wait_ms, tried + 2,
	    retries + 1);
	while (!stop_wanted() && now_ms() < until_ms)
		poll(NULL, 0, ms_until(until_ms));
	return !stop_wanted();
}

static int connect_and_send(struct transfer *transfer)
{
	const struct options *options = transfer->options;
	for (uint64_t tried = 0;; tried++) {
		bool from_rendezvous;
		int status = target_find(&transfer->addr, options->address, options->timeout_ms,
					 &from_rendezvous);
		if (status == EXIT_DONE)
			status = attempt(transfer);
		/* What was sent once is not sent again: nobody knows whether it has arrived. */
		bool again =
			(status == EXIT_FAILED || status == EXIT_TIMEOUT) && !transfer->ever_open;
		if (!again || tried == options->retry || stop_wanted())
			return status;
		if (!pause_before_retry(tried, options->retry))
			return EXIT_INTERRUPTED;
		document_forget_error();
	}
}

static void document(const struct transfer *transfer)
{
	int64_t ms = transfer->started_ms ? now_ms() - transfer->started_ms : 0;
	double seconds = (double)ms / 1000;
	document_set("messages", json_number(transfer->messages));
	document_set("replies", json_number(transfer->replies));
	document_set("sent_bytes", json_number(transfer->sent_bytes));
	document_set("received_bytes", json_number(transfer->received_bytes));
	document_set("seconds", json_real(seconds));
	document_set("output", json_text(transfer->options->output));
}

/* Where the answers go to a file, nothing else would show that they are there. */
static void say_summary(const struct transfer *transfer)
{
	const struct options *options = transfer->options;
	char sent[UNITS_TEXT_MAX];
	char received[UNITS_TEXT_MAX];
	char time[UNITS_TEXT_MAX];
	if (!options->output || options->quiet || strcmp(options->output, "-") == 0)
		return;
	say("%s sent, %s received in %s, now in %s",
	    format_size(sent, (double)transfer->sent_bytes),
	    format_size(received, (double)transfer->received_bytes),
	    format_duration(time, now_ms() - transfer->started_ms), options->output);
}

int send_run(const struct options *options)
{
	struct transfer transfer = {.options = options, .fabric = {.node = NULL}};
	int status = input_open(&transfer.input, options);
	if (status == EXIT_DONE)
		status = sink_open(&transfer.sink, options);
	else
		transfer.sink.fd = -1;
	if (status == EXIT_DONE)
		status = connect_and_send(&transfer);
	if (status == EXIT_DONE)
		status = sink_finish(&transfer.sink);
	if (status == EXIT_DONE)
		say_summary(&transfer);
	document(&transfer);
	sink_close(&transfer.sink);
	input_close(&transfer.input);
	return status;
}
