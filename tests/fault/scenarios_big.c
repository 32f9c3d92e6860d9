/* SPDX-License-Identifier: MIT */
/*
 * What the torture loop runs of messages longer than a frame, in parts and in tagged chunks: two
 * nodes, memory of the library's and of the caller's, budgets that are full, and ends in the
 * middle. What has to hold in each run: every message that was accepted has one end, every session
 * one closed event, what is shown has the right bytes, and no memory stays reserved.
 */
#include "torture.h"

#include <errno.h>
#include <string.h>

#include <weft/weft.h>

/* The shortest frames, or such as bring chunks along. */
#define SHORT ((size_t)1024)
#define LONG ((size_t)16384)
/* Two chunks. */
#define BULK ((size_t)300000)
#define STEP_MS 2
#define HELD 4
#define SENT 8
#define BYTE(i) ((uint8_t)((i)*5 + ((i) >> 9)))

struct side {
	struct weft_node *node;
	struct weft_addr addr;
	weft_peer peer;
	bool asleep, holds;
	int opened, messages, closed, owed, writables;
	struct weft_buf *place;
	struct weft_msg *held[HELD];
	int held_count;
};

struct end {
	bool started;
	int sent, status;
};

static struct side a, b;
static struct end sent[SENT];
static int sent_count;
static uint8_t bytes[BULK];
static size_t frame, longest;

static int accepts(struct weft_node *node, const struct weft_peer_info *info, void *user)
{
	(void)node;
	(void)info;
	(void)user;
	return 0;
}

static void opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
		   void *user)
{
	struct side *side = user;
	(void)node;
	side->opened++;
	side->peer = peer;
	if (!info->outgoing)
		side->owed++;
}

static void closed(struct weft_node *node, weft_peer peer, const struct weft_closed *how,
		   void *user)
{
	struct side *side = user;
	(void)node;
	(void)peer;
	torture_check(how->text && how->status <= 0);
	side->closed++;
}

static void message(struct weft_node *node, const struct weft_msg *msg, void *user)
{
	struct side *side = user;
	const uint8_t *data = msg->data;
	side->messages++;
	/* All of it is too much for every run. */
	for (size_t i = 0; i < msg->len; i += i + 1 < msg->len && i + 97 >= msg->len ? 1 : 97)
		torture_check(data[i] == BYTE(i));
	struct weft_msg *held = NULL;
	if (side->holds && side->held_count < HELD)
		held = weft_msg_hold(node, msg);
	if (held)
		side->held[side->held_count++] = held;
}

static void writable(struct weft_node *node, weft_peer peer, void *user)
{
	struct side *side = user;
	(void)node;
	(void)peer;
	side->writables++;
}

static struct weft_buf *place(struct weft_node *node, weft_peer peer, size_t len, uint32_t reply_to,
			      size_t *off, void *user)
{
	struct side *side = user;
	(void)node;
	(void)peer;
	(void)len;
	(void)reply_to;
	*off = 16;
	return side->place;
}

static void open_side(struct side *side, size_t budget)
{
	static const int named[] = {EINVAL, EMSGSIZE, ENODATA,	     ENOMEM,
				    EMFILE, EEXIST,   EADDRNOTAVAIL, 0};
	struct weft_net_opts net = torture_opts("tcp");
	struct weft_node_opts opts = WEFT_NODE_OPTS_INIT;
	const struct weft_events events = {sizeof(events), accepts, opened, message,
					   writable,	   closed,  place};
	opts.net = &net;
	opts.recv_budget = 64 * frame;
	opts.send_budget = 8 * frame;
	opts.peer_send_budget = 6 * frame;
	opts.message_budget = budget;
	opts.max_message = longest;
	opts.max_peers = 4;
	opts.max_half_open = 2;
	opts.keepalive_ms = 40;
	opts.silence_ms = 80;
	memset(side, 0, sizeof(*side));
	int ret = weft_node_open(&side->node, &opts, &events, side);
	torture_code("weft_node_open", ret, named, true);
	torture_check((ret < 0) == !side->node);
	if (side->node)
		weft_node_get_addr(side->node, &side->addr);
}

static void poll_both(void)
{
	static const int named[] = {EIO, 0};
	struct side *sides[] = {&a, &b};
	for (int i = 0; i < 2; i++) {
		if (!sides[i]->node || sides[i]->asleep)
			continue;
		torture_code("weft_node_poll", weft_node_poll(sides[i]->node, 0), named, false);
	}
}

static void until(const int *count, int want, int ms)
{
	for (; ms > 0 && *count < want; ms -= STEP_MS) {
		poll_both();
		fake_advance_ns(STEP_MS * FAKE_NS_PER_MS);
	}
	torture_ok(*count >= want);
}

static void pass(int ms)
{
	for (; ms > 0; ms -= STEP_MS) {
		poll_both();
		fake_advance_ns(STEP_MS * FAKE_NS_PER_MS);
	}
}

/* Two nodes whose messages are at most so long, with memory for `times` of them. */
static void open_both(size_t frame_size, size_t len, size_t times)
{
	struct fake_provider like = fake_tcp;
	frame = frame_size;
	longest = len;
	if (frame == SHORT)
		like.max_msg = SHORT;
	/* Closing does not wait for the last words to those who are gone. */
	like.absent = FAKE_ABSENT_LOST;
	fake_offer(&like);
	memset(sent, 0, sizeof(sent));
	sent_count = 0;
	torture_check(len <= sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes) && bytes[sizeof(bytes) - 1] == 0; i++)
		bytes[i] = BYTE(i);
	fake_pause_count(true);
	open_side(&a, times * len);
	open_side(&b, times * len);
	fake_pause_count(false);
}

static weft_peer connect_both(void)
{
	static const int named[] = {EINVAL, ENOSPC, EADDRNOTAVAIL, ENOMEM, ECANCELED, 0};
	weft_peer peer = WEFT_PEER_NONE;
	if (!a.node || !b.node)
		return peer;
	int ret = weft_peer_connect(a.node, &b.addr, 300, &peer);
	torture_code("weft_peer_connect", ret, named, true);
	a.owed += ret == 0;
	return peer;
}

/* The session is not the point. */
static void meet(void)
{
	fake_pause_count(true);
	connect_both();
	until(&a.opened, 1, 310);
	until(&b.opened, 1, 50);
	pass(6);
	fake_pause_count(false);
}

static void on_sent(struct weft_node *node, weft_peer peer, int status, void *user)
{
	struct end *end = user;
	(void)node;
	(void)peer;
	end->sent++;
	end->status = status;
	torture_check(status <= 0);
}

/* Sends the first len bytes: of a buffer with them at 16, or a copy. */
static struct end *send_from(struct side *side, weft_peer peer, struct weft_buf *buf, size_t len,
			     int timeout_ms)
{
	static const int named[] = {ENOTCONN, EINVAL, EMSGSIZE, ENOBUFS, ENOMEM, ECANCELED, 0};
	struct weft_send send = WEFT_SEND_INIT;
	struct end *end = &sent[sent_count++];
	torture_check(sent_count <= SENT);
	if (!side->node)
		return end;
	send.buf = buf;
	send.off = buf ? 16 : 0;
	send.data = buf ? NULL : bytes;
	send.len = len;
	send.timeout_ms = timeout_ms;
	send.sent = on_sent;
	send.user = end;
	int ret = weft_peer_send(side->node, peer, &send);
	torture_code("weft_peer_send", ret, named, true);
	end->started = ret == 0;
	return end;
}

static struct end *send_copy(struct side *side, size_t len, int timeout_ms)
{
	return send_from(side, side->peer, NULL, len, timeout_ms);
}

static void release(struct side *side)
{
	while (side->held_count > 0)
		weft_msg_release(side->held[--side->held_count]);
}

static void close_side(struct side *side, int linger_ms)
{
	if (!side->node)
		return;
	side->holds = false;
	torture_left(weft_node_close(side->node, linger_ms));
	side->node = NULL;
	torture_check(side->closed == side->owed);
	/* What is held is readable to the end. */
	for (int i = 0; i < side->held_count; i++)
		torture_check(*(const uint8_t *)side->held[i]->data == BYTE((size_t)0));
	release(side);
	weft_buf_unref(side->place);
	side->place = NULL;
}

static void finish(int linger_ms)
{
	close_side(&a, linger_ms);
	close_side(&b, linger_ms);
	for (int i = 0; i < sent_count; i++)
		torture_check(sent[i].sent == (sent[i].started ? 1 : 0));
}

/* Once from memory of the sender's to memory of the receiver's, and the other way by copies. */
static void there_and_back(size_t frame_size, size_t len)
{
	struct weft_buf *buf = NULL;
	open_both(frame_size, len, 4);
	meet();
	fake_pause_count(true);
	if (a.node && weft_buf_alloc(weft_node_net(a.node), len + 16, &buf) == 0)
		memcpy((uint8_t *)weft_buf_data(buf) + 16, bytes, len);
	if (b.node)
		weft_buf_alloc(weft_node_net(b.node), len + 16, &b.place);
	fake_pause_count(false);
	b.holds = true;
	struct end *one = send_from(&a, a.peer, buf, len, 200);
	struct end *two = send_copy(&b, len, 200);
	weft_buf_unref(buf);
	until(&one->sent, one->started, 210);
	until(&two->sent, two->started, 210);
	torture_ok(a.messages == 1 && b.messages == 1 && one->status == 0 && two->status == 0);
	finish(20);
}

static void parts_there_and_back(void)
{
	there_and_back(SHORT, 4 * SHORT);
}

static void chunks_there_and_back(void)
{
	there_and_back(LONG, BULK);
}

/* The second message waits for the memory of the first, which the receiver holds. */
static void wait_for_memory(size_t frame_size, size_t len)
{
	open_both(frame_size, len, 4);
	/* The budget of the receiver is not that of the sender. */
	fake_pause_count(true);
	close_side(&b, 0);
	open_side(&b, len + len / 2);
	fake_pause_count(false);
	meet();
	b.holds = true;
	fake_pause_count(true);
	struct end *first = send_copy(&a, len, 200);
	until(&first->sent, first->started, 210);
	fake_pause_count(false);
	struct end *second = send_copy(&a, len, 200);
	struct end *behind = send_copy(&a, 10, 200);
	pass(10);
	torture_check(b.messages <= 1 || !torture_untouched());
	release(&b);
	until(&second->sent, second->started, 210);
	until(&behind->sent, behind->started, 210);
	finish(0);
}

static void parts_wait_for_memory(void)
{
	wait_for_memory(SHORT, 4 * SHORT);
}

static void chunks_wait_for_memory(void)
{
	wait_for_memory(LONG, BULK);
}

/* There is no memory for a third copy, until one has left. */
static void full_of_copies(void)
{
	open_both(SHORT, 4 * SHORT, 4);
	meet();
	b.asleep = true;
	send_copy(&a, 4 * SHORT, 200);
	send_copy(&a, 4 * SHORT, 0);
	send_copy(&a, 4 * SHORT, 200);
	torture_ok(!sent[2].started);
	pass(6);
	b.asleep = false;
	until(&a.writables, torture_untouched(), 100);
	pass(10);
	finish(0);
}

/* Queued before the session is open, and given up at different times. */
static void before_it_is_open(size_t frame_size, size_t len)
{
	open_both(frame_size, len, 8);
	b.asleep = true;
	fake_pause_count(true);
	weft_peer peer = connect_both();
	fake_pause_count(false);
	send_from(&a, peer, NULL, len, 4);
	struct end *one = send_from(&a, peer, NULL, 980, 200);
	struct end *two = send_from(&a, peer, NULL, len, 200);
	pass(8);
	b.asleep = false;
	until(&one->sent, one->started, 210);
	until(&two->sent, two->started, 210);
	torture_ok(b.messages == 2);
	finish(0);
}

static void parts_before_it_is_open(void)
{
	before_it_is_open(SHORT, 4 * SHORT);
}

static void chunks_before_it_is_open(void)
{
	before_it_is_open(LONG, BULK);
}

enum how { DEADLINE, CLOSE, DEATH };

/* Each side has a message for the other when one of them ends it. */
static void end_in_the_middle(size_t frame_size, size_t len, enum how how)
{
	const struct fake_fate late = {.delay_ns = 12 * FAKE_NS_PER_MS};
	open_both(frame_size, len, 4);
	meet();
	fake_next("fi_tsend", NULL, 2, &late);
	send_copy(&a, len, how == DEADLINE ? 6 : 200);
	send_copy(&b, len, how == DEADLINE ? 6 : 200);
	pass(4);
	if (how == DEADLINE) {
		b.asleep = true;
		pass(12);
		b.asleep = false;
	} else if (how == CLOSE && a.node) {
		weft_peer_close(a.node, a.peer, 0);
	} else if (how == DEATH) {
		fake_pause_count(true);
		fake_next("fi_send", NULL, -1, &(struct fake_fate){.outcome = FAKE_LOSE});
		close_side(&a, 0);
		fake_no_faults();
		fake_pause_count(false);
	}
	pass(10);
	fake_no_faults();
	finish(0);
}

static void parts_timeout(void)
{
	end_in_the_middle(SHORT, 30 * SHORT, DEADLINE);
}

static void parts_closed(void)
{
	end_in_the_middle(SHORT, 30 * SHORT, CLOSE);
}

static void parts_death(void)
{
	end_in_the_middle(SHORT, 30 * SHORT, DEATH);
}

static void chunks_timeout(void)
{
	end_in_the_middle(LONG, BULK, DEADLINE);
}

static void chunks_closed(void)
{
	end_in_the_middle(LONG, BULK, CLOSE);
}

static void chunks_death(void)
{
	end_in_the_middle(LONG, BULK, DEATH);
}

const struct torture_scenario torture_big_scenarios[] = {
	{"parts-exchange", parts_there_and_back, false},
	{"parts-wait", parts_wait_for_memory, false},
	{"parts-full", full_of_copies, false},
	{"parts-queued", parts_before_it_is_open, false},
	{"parts-timeout", parts_timeout, false},
	{"parts-closed", parts_closed, false},
	{"parts-death", parts_death, false},
	{"chunks-exchange", chunks_there_and_back, false},
	{"chunks-wait", chunks_wait_for_memory, false},
	{"chunks-queued", chunks_before_it_is_open, false},
	{"chunks-timeout", chunks_timeout, false},
	{"chunks-closed", chunks_closed, false},
	{"chunks-death", chunks_death, false},
};
const size_t torture_big_scenario_count =
	sizeof(torture_big_scenarios) / sizeof(torture_big_scenarios[0]);
