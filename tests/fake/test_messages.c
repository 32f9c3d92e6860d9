/* SPDX-License-Identifier: MIT */
/* Messages that fit a frame: what arrives, in which order, and what their senders are told. */
#include <errno.h>
#include <stdio.h>

#include "nodeimpl.h"
#include "nodes.h"

/* What is received must count up. */
static int counted;
static bool in_order;

static void count_up(struct party *party, const struct weft_msg *msg)
{
	int number;
	(void)party;
	assert_int_equal(msg->len, sizeof(number));
	memcpy(&number, msg->data, sizeof(number));
	in_order = in_order && number == counted;
	counted++;
}

static void start_counting(struct party *party)
{
	counted = 0;
	in_order = true;
	party->on_message = count_up;
}

static void there_and_back(void **state)
{
	struct fate one = {0}, two = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	assert_int_equal(say(a, peer, "hello", &one), 0);
	nodes_until(&b->messages, 1);
	assert_string_equal(b->text, "hello");
	assert_int_equal(b->msg.id, 1);
	assert_int_equal(b->msg.reply_to, 0);
	assert_int_equal(b->msg.peer, b->peer);
	assert_int_equal(say(b, b->peer, "hello yourself", &two), 0);
	nodes_until(&a->messages, 1);
	nodes_until(&one.sent, 1);
	nodes_until(&two.sent, 1);
	assert_int_equal(one.sent_status, 0);
	assert_int_equal(two.sent_status, 0);
	struct weft_node_stats stats = party_stats(a);
	assert_int_equal(stats.sent, 1);
	assert_int_equal(stats.sent_bytes, 5);
	assert_int_equal(stats.received, 1);
	assert_int_equal(stats.received_bytes, 14);
	assert_int_equal(stats.messages_waiting, 0);
	assert_int_equal(stats.send_errors, 0);
	nodes_pass(20);
	assert_int_equal(one.sent + two.sent, 2);
}

/* Of no bytes, of as many as fit a frame, out of parts, out of a buffer. */
static void forms_of_a_message(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	size_t most = a->info.max_frame - WEFT_FRAME_OVERHEAD;
	uint8_t *data = malloc(most);
	memset(data, 'x', most);

	assert_int_equal(weft_peer_write(a->node, peer, NULL, 0), 0);
	nodes_until(&b->messages, 1);
	assert_int_equal(b->len, 0);
	assert_int_equal(weft_peer_write(a->node, peer, data, most), 0);
	nodes_until(&b->messages, 2);
	assert_int_equal(b->len, most);

	struct weft_send send = WEFT_SEND_INIT;
	struct iovec parts[3] = {{"abc", 3}, {NULL, 0}, {"defg", 4}};
	send.iov = parts;
	send.iov_count = 3;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	nodes_until(&b->messages, 3);
	assert_string_equal(b->text, "abcdefg");
	parts[0].iov_len = SIZE_MAX;
	assert_int_equal(weft_peer_send(a->node, peer, &send), -EMSGSIZE);
	send.iov_count = -1;
	assert_int_equal(weft_peer_send(a->node, peer, &send), -EINVAL);

	struct weft_buf *buf;
	assert_int_equal(weft_buf_alloc(weft_node_net(a->node), 100, &buf), 0);
	memcpy((char *)weft_buf_data(buf) + 90, "0123456789", 10);
	send = (struct weft_send)WEFT_SEND_INIT;
	send.buf = buf;
	send.off = 90;
	send.len = 10;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	nodes_until(&b->messages, 4);
	assert_string_equal(b->text, "0123456789");
	send.len = 11;
	assert_int_equal(weft_peer_send(a->node, peer, &send), -EINVAL);
	send.off = 101;
	send.len = 0;
	assert_int_equal(weft_peer_send(a->node, peer, &send), -EINVAL);
	send.off = 0;
	send.len = 1;
	assert_int_equal(weft_peer_send(b->node, b->peer, &send), -EINVAL);
	send.data = data;
	assert_int_equal(weft_peer_send(a->node, peer, &send), -EINVAL);
	send.buf = NULL;
	send.data = NULL;
	assert_int_equal(weft_peer_send(a->node, peer, &send), -EINVAL);
	send.len = 0;
	send.timeout_ms = -2;
	assert_int_equal(weft_peer_send(a->node, peer, &send), -EINVAL);
	send.timeout_ms = -1;
	send.size = 8;
	assert_int_equal(weft_peer_send(a->node, peer, &send), -EINVAL);
	send.size = sizeof(send) + 8;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	nodes_until(&b->messages, 5);
	assert_int_equal(weft_peer_send(a->node, peer + 1, &send), -ENOTCONN);
	assert_int_equal(weft_peer_send(a->node, WEFT_PEER_NONE, &send), -ENOTCONN);
	assert_int_equal(party_stats(a).sent, 5);
	weft_buf_unref(buf);
	free(data);
}

/* Sent before it is known whether anybody is there. */
static void before_it_is_open(void **state)
{
	weft_peer peer;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	start_counting(b);
	assert_int_equal(weft_peer_connect(a->node, &b->addr, -1, &peer), 0);
	for (int i = 0; i < 200; i++)
		assert_int_equal(weft_peer_write(a->node, peer, &i, sizeof(i)), 0);
	assert_in_range(party_stats(a).frames_queued, 4, 10);
	nodes_until(&b->messages, 200);
	assert_true(in_order);
	assert_int_equal(party_stats(a).frames_queued, 0);
}

/* While one is on its way, small ones share a frame; a lone one leaves at once. */
static void small_ones_share_frames(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	nodes_pass(20);
	start_counting(b);
	uint64_t before = party_stats(a).frames_sent;
	for (int i = 0; i < 101; i++) {
		assert_int_equal(weft_peer_write(a->node, peer, &i, sizeof(i)), 0);
		if (i == 0)
			assert_int_equal(party_stats(a).frames_sent, before + 1);
	}
	nodes_until(&b->messages, 101);
	assert_true(in_order);
	assert_int_equal(party_stats(a).frames_sent, before + 2);
	assert_int_equal(b->msg.id, 101);
}

/* Frames overtake each other, and come twice: the order is that of the calls. */
static void overtaking_and_repeating(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	start_counting(b);
	int sent = 0;
	for (int round = 0; round < 60; round++) {
		struct fake_fate fate = {.outcome = round % 3 ? FAKE_DELIVER : FAKE_TWICE,
					 .delay_ns = (round * 7919 % 13) * INT64_C(100000)};
		fake_next("fi_send", &b->addr, 1, &fate);
		for (int i = 0; i < 3; i++, sent++)
			assert_int_equal(weft_peer_write(a->node, peer, &sent, sizeof(sent)), 0);
		nodes_pass(round % 2);
	}
	nodes_until(&b->messages, sent);
	nodes_pass(10);
	assert_int_equal(b->messages, sent);
	assert_true(in_order);
	assert_true(party_stats(b).drop_duplicate > 0);
	assert_int_equal(a->closed + b->closed, 0);
	nodes_check_budgets();
}

/* A session whose frame 6 does not come, while the one behind it does. Its sides may be silent for
 * 2 s. */
static void lose_the_sixth(struct party **a, struct party **b, struct fate *lost,
			   struct fate *after)
{
	struct weft_node_opts opts = node_opts();
	opts.silence_ms = 2000;
	*a = party_open(&opts);
	*b = party_open(&opts);
	weft_peer peer = meet(*a, *b);
	/* Credit for more than one frame has to be earned. */
	for (int i = 1; i <= 5; i++) {
		assert_int_equal(say(*a, peer, "", NULL), 0);
		nodes_pass(20);
	}
	fake_next("fi_send", &(*b)->addr, 1, &(struct fake_fate){.outcome = FAKE_LOSE});
	assert_int_equal(say(*a, peer, "lost", lost), 0);
	nodes_pass(10);
	assert_int_equal(say(*a, peer, "comes", after), 0);
}

/* A frame that does not come ends the session, after the time that its sender may be silent. */
static void a_frame_is_lost(void **state)
{
	struct fate lost = {0}, after = {0};
	struct party *a, *b;
	(void)state;
	lose_the_sixth(&a, &b, &lost, &after);
	nodes_pass(1900);
	assert_int_equal(b->closed, 0);
	nodes_pass(300);
	assert_int_equal(b->closed, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_GAP);
	assert_int_equal(b->end.status, -ECONNABORTED);
	assert_non_null(strstr(b->why, "number 6 did not come"));
	nodes_until(&a->closed, 1);
	assert_int_equal(b->messages, 5);
	assert_int_equal(lost.sent + after.sent, 2);
	assert_int_equal(lost.sent_status, -ECONNABORTED);
	assert_int_equal(after.sent_status, -ECONNABORTED);
	assert_int_equal(party_stats(a).send_errors, 2);
	nodes_check_budgets();
}

/* Where its sender is stopped, with the frame in its hands, it is the sender that is missed. */
static void who_is_stopped_has_lost_nothing(void **state)
{
	struct party *a, *b;
	(void)state;
	lose_the_sixth(&a, &b, NULL, NULL);
	nodes_pass(10);
	a->stopped = true;
	nodes_pass(2900);
	assert_int_equal(b->closed, 0);
	nodes_until(&b->closed, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_LOST);
	a->stopped = false;
	nodes_until(&a->closed, 1);
}

/* Also where no other one follows: a question tells the number. */
static void the_last_frame_is_lost(void **state)
{
	struct fate lost = {0};
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.silence_ms = 2000;
	struct party *a = party_open(&opts), *b = party_open(&opts);
	weft_peer peer = meet(a, b);
	nodes_pass(20);
	struct weft_send send = telling("lost", 4, &lost);
	send.timeout_ms = -1;
	fake_next("fi_send", &b->addr, 1, &(struct fake_fate){.outcome = FAKE_LOSE});
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	nodes_pass(900);
	assert_int_equal(b->closed, 0);
	nodes_pass(3000);
	assert_int_equal(b->closed, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_GAP);
	nodes_until(&lost.sent, 1);
	assert_int_equal(lost.sent_status, -ECONNABORTED);
}

/* One that only comes late is no loss. */
static void a_frame_is_late(void **state)
{
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.silence_ms = 2000;
	struct party *a = party_open(&opts), *b = party_open(&opts);
	weft_peer peer = meet(a, b);
	for (int i = 0; i < 4; i++) {
		fake_next("fi_send", &b->addr, 1,
			  &(struct fake_fate){.delay_ns = 1700 * FAKE_NS_PER_MS});
		assert_int_equal(say(a, peer, "late", NULL), 0);
		nodes_pass(2);
		if (i % 2)
			assert_int_equal(say(a, peer, "early", NULL), 0);
		nodes_pass(1900);
	}
	assert_int_equal(b->messages, 6);
	assert_int_equal(a->closed + b->closed, 0);
}

static void deadlines(void **state)
{
	struct fate soon = {0}, never = {0}, asked = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	b->stopped = true;
	struct weft_send send = telling("soon", 4, &soon);
	send.timeout_ms = 500;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	send = asking("ask", 3, &asked);
	send.timeout_ms = 600;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	send = telling("never", 5, &never);
	send.timeout_ms = -1;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	assert_int_equal(party_stats(a).messages_waiting, 3);
	nodes_pass(490);
	assert_int_equal(soon.sent, 0);
	nodes_pass(25);
	assert_int_equal(soon.sent, 1);
	assert_int_equal(soon.sent_status, -ETIMEDOUT);
	assert_int_equal(asked.sent + asked.replies, 0);
	nodes_pass(100);
	assert_int_equal(asked.sent, 1);
	assert_int_equal(asked.replies, 1);
	assert_int_equal(asked.sent_status, -ETIMEDOUT);
	assert_int_equal(asked.reply_status, -ETIMEDOUT);
	assert_int_equal(party_stats(a).send_errors, 2);
	/* They were on their way, and arrive. */
	b->stopped = false;
	nodes_until(&never.sent, 1);
	assert_int_equal(never.sent_status, 0);
	assert_int_equal(b->messages, 3);
	assert_int_equal(soon.sent + asked.sent, 2);
	assert_int_equal(party_stats(a).messages_waiting, 0);
	assert_int_equal(a->closed, 0);
}

static void at_once(void **state)
{
	struct fate fate = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	struct weft_send send = telling("now or never", 12, &fate);
	send.timeout_ms = 0;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	assert_int_equal(fate.sent, 0);
	nodes_until(&fate.sent, 1);
	assert_int_equal(fate.sent_status, -ETIMEDOUT);
	nodes_until(&b->messages, 1);
}

static void answer(struct party *party, const struct weft_msg *msg)
{
	struct weft_send send = WEFT_SEND_INIT;
	char text[80];
	send.data = text;
	send.len = (size_t)snprintf(text, sizeof(text), "re: %s", party->text);
	assert_int_equal(weft_msg_reply(party->node, msg, &send), 0);
}

static void requests_and_replies(void **state)
{
	struct fate fate[3] = {{0}};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	b->on_message = answer;
	for (int i = 0; i < 3; i++) {
		char text[8];
		struct weft_send send =
			asking(text, (size_t)snprintf(text, sizeof(text), "%d", i), &fate[i]);
		if (i == 1)
			send.sent = NULL;
		assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	}
	for (int i = 0; i < 3; i++)
		nodes_until(&fate[i].replies, 1);
	for (int i = 0; i < 3; i++) {
		char text[16];
		snprintf(text, sizeof(text), "re: %d", i);
		assert_string_equal(fate[i].text, text);
		assert_int_equal(fate[i].reply_status, 0);
		assert_int_equal(fate[i].sent, i != 1);
		assert_int_equal(fate[i].sent_status, 0);
	}
	/* An answer goes to whom it is for, and not to the message event. */
	assert_int_equal(a->messages, 0);
	struct weft_send bad = WEFT_SEND_INIT;
	bad.size = 8;
	assert_int_equal(weft_msg_reply(b->node, &b->msg, &bad), -EINVAL);
	/* A second answer to the same is a message, which says what it answers. */
	struct weft_send more = WEFT_SEND_INIT;
	assert_int_equal(weft_msg_reply(b->node, &b->msg, &more), 0);
	nodes_until(&a->messages, 1);
	assert_int_equal(a->msg.reply_to, 3);
}

static void late_replies(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	struct weft_msg asked[20];
	struct fate fate[20] = {{0}};
	for (int i = 0; i < 20; i++) {
		struct weft_send send = asking("?", 1, &fate[i]);
		send.timeout_ms = 50;
		assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
		nodes_until(&b->messages, i + 1);
		asked[i] = b->msg;
	}
	nodes_pass(100);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(fate[i].sent_status, 0);
		assert_int_equal(fate[i].replies, 1);
		assert_int_equal(fate[i].reply_status, -ETIMEDOUT);
	}
	struct weft_send send = WEFT_SEND_INIT;
	for (int i = 0; i < 20; i++)
		assert_int_equal(weft_msg_reply(b->node, &asked[i], &send), 0);
	nodes_pass(20);
	/* The last 16 are remembered; older ones look like messages. */
	assert_int_equal(party_stats(a).late_replies, 16);
	assert_int_equal(a->messages, 4);
	assert_int_equal(party_stats(a).send_errors, 20);
}

/* What is sent is bounded by memory; whoever was told so is told when there is room. */
static void no_buffers(void **state)
{
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.send_budget = 16 * FRAME_SIZE;
	opts.peer_send_budget = 6 * FRAME_SIZE;
	struct party *a = party_open(&opts), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	uint8_t data[10000] = {0};
	int ret, sent = 0;
	b->stopped = true;
	while ((ret = weft_peer_write(a->node, peer, data, sizeof(data))) == 0)
		sent++;
	assert_int_equal(ret, -ENOBUFS);
	assert_int_equal(sent, 6);
	assert_int_equal(weft_peer_write(a->node, peer, data, sizeof(data)), -ENOBUFS);
	assert_int_equal(party_stats(a).no_buffers, 2);
	assert_int_equal(party_stats(a).sent, 6);
	nodes_pass(50);
	assert_int_equal(a->writable, 0);
	b->stopped = false;
	nodes_until(&a->writable, 1);
	assert_int_equal(weft_peer_write(a->node, peer, data, sizeof(data)), 0);
	nodes_until(&b->messages, 7);
	nodes_pass(50);
	assert_int_equal(a->writable, 1);
}

/* The whole budget, taken by several. */
static void no_buffers_for_anybody(void **state)
{
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.send_budget = 4 * FRAME_SIZE;
	opts.peer_send_budget = 4 * FRAME_SIZE;
	struct party *a = party_open(&opts);
	struct party *b[2] = {party_open(NULL), party_open(NULL)};
	weft_peer peer[2] = {meet(a, b[0]), meet(a, b[1])};
	uint8_t data[10000] = {0};
	b[0]->stopped = b[1]->stopped = true;
	for (int i = 0; i < 4; i++)
		assert_int_equal(weft_peer_write(a->node, peer[0], data, sizeof(data)), 0);
	assert_int_equal(weft_peer_write(a->node, peer[1], data, sizeof(data)), -ENOBUFS);
	/* One has left, since every session may have one on its way: there is room. */
	nodes_until(&a->writable, 1);
	assert_int_equal(weft_peer_write(a->node, peer[1], data, sizeof(data)), 0);
	b[0]->stopped = b[1]->stopped = false;
	nodes_until(&b[1]->messages, 1);
	nodes_until(&b[0]->messages, 4);
}

/* Ends of messages take memory, too. */
static void no_slots(void **state)
{
	struct fate fate = {0};
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.send_budget = 2 * FRAME_SIZE;
	opts.peer_send_budget = 2 * FRAME_SIZE;
	struct party *a = party_open(&opts), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	int ret, sent = 0;
	b->stopped = true;
	while ((ret = say(a, peer, "", &fate)) == 0)
		sent++;
	assert_int_equal(ret, -ENOBUFS);
	assert_int_equal(sent, 256);
	/* Nobody waits for this one. */
	assert_int_equal(say(a, peer, "", NULL), 0);
	b->stopped = false;
	nodes_until(&fate.sent, 256);
	nodes_until(&a->writable, 1);
	nodes_until(&b->messages, 257);
}

/* The net has no room at the moment: nothing is lost. */
static void a_net_without_room(void **state)
{
	(void)state;
	struct weft_net_opts net = quiet_opts();
	party_provider(&fake_tcp);
	net.provider = fake_tcp.name;
	net.max_ops_per_peer = 2;
	struct weft_node_opts opts = node_opts();
	opts.net = &net;
	struct party *a = party_open(&opts), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	start_counting(b);
	for (int i = 0; i < 3000; i++)
		assert_int_equal(weft_peer_write(a->node, peer, &i, sizeof(i)), 0);
	nodes_until(&b->messages, 3000);
	assert_true(in_order);
	assert_int_equal(a->closed, 0);
}

/* One operation a peer: whatever has to be said besides waits for its turn. */
static void a_net_with_room_for_one(void **state)
{
	(void)state;
	struct weft_net_opts net = quiet_opts();
	party_provider(&fake_tcp);
	net.provider = fake_tcp.name;
	net.max_ops_per_peer = 1;
	struct weft_node_opts opts = node_opts();
	opts.net = &net;
	opts.keepalive_ms = 5;
	struct party *a = party_open(&opts), *b = party_open(&opts);
	weft_peer peer = meet(a, b);
	start_counting(b);
	for (int i = 0; i < 3000; i++) {
		assert_int_equal(weft_peer_write(a->node, peer, &i, sizeof(i)), 0);
		assert_int_equal(say(b, b->peer, "back", NULL), 0);
		if (i % 50 == 0)
			nodes_pass(1);
	}
	nodes_until(&b->messages, 3000);
	nodes_until(&a->messages, 3000);
	assert_true(in_order);
	nodes_pass(200);
	/* One that never leaves is in the way of all others, until it is given up. */
	fake_next("fi_send", &b->addr, 1, &(struct fake_fate){.outcome = FAKE_VANISH});
	assert_int_equal(say(a, peer, "stuck", NULL), 0);
	nodes_pass(50);
	assert_int_equal(a->closed, 0);
	assert_int_equal(weft_peer_close(a->node, peer, 0), 0);
	nodes_until(&a->closed, 1);
	nodes_pass(20);
	assert_int_equal(party_stats(a).frames_in_flight, 0);
	assert_int_equal(a->node->peers, 0);
}

/* The next message of one that its receiver has not taken yet is held back, and memory is bounded.
 */
static void a_slow_receiver(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	uint8_t data[16000] = {0};
	b->stopped = true;
	int sent = 0;
	for (int i = 0; i < 3000; i++) {
		int ret = weft_peer_write(a->node, peer, data, sizeof(data));
		assert_true(ret == 0 || ret == -ENOBUFS);
		sent += ret == 0;
		if (i % 100 == 0)
			nodes_pass(1);
	}
	struct weft_node_stats stats = party_stats(a);
	assert_in_range(sent, 256, 258);
	assert_true(stats.memory < 32u << 20);
	assert_true(stats.stalls > 0);
	b->stopped = false;
	nodes_until(&b->messages, sent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		nodes_test(there_and_back),
		nodes_test(forms_of_a_message),
		nodes_test(before_it_is_open),
		nodes_test(small_ones_share_frames),
		nodes_test(overtaking_and_repeating),
		nodes_test(a_frame_is_lost),
		nodes_test(who_is_stopped_has_lost_nothing),
		nodes_test(the_last_frame_is_lost),
		nodes_test(a_frame_is_late),
		nodes_test(deadlines),
		nodes_test(at_once),
		nodes_test(requests_and_replies),
		nodes_test(late_replies),
		nodes_test(no_buffers),
		nodes_test(no_buffers_for_anybody),
		nodes_test(no_slots),
		nodes_test(a_net_without_room),
		nodes_test(a_net_with_room_for_one),
		nodes_test(a_slow_receiver),
	};
	return world_run(tests);
}
