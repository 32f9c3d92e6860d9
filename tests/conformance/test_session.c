/* SPDX-License-Identifier: MIT */
/* Messages of one session: what arrives, what is answered, what is told of them, and how a session
 * is closed. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "nodes.h"

#define ORDERED 3000
#define LAST_ONES 200

static void meet(struct actor *a, struct actor *b)
{
	actor_open(a, NULL);
	actor_open(b, NULL);
	actors_meet(a, b);
}

static void part(struct actor *a, struct actor *b)
{
	actor_close(a, b);
	actor_close(b, NULL);
}

/* What a message should be, and that it was. */
struct expected {
	size_t len;
	uint32_t sum;
	bool right;
};

static void compare(struct actor *actor, const struct weft_msg *msg)
{
	struct expected *expected = actor->user;
	expected->right = msg->len == expected->len && sum_of(msg->data, msg->len) == expected->sum;
}

/* Sends one message and waits until it has arrived and that is known. */
static void pass_on(struct actor *from, struct actor *to, const struct weft_send *send,
		    const uint8_t *data, size_t len)
{
	struct expected expected = {.len = len, .sum = sum_of(data, len)};
	int sents = from->sents + 1, messages = to->messages + 1;
	to->on_message = compare;
	to->user = &expected;
	assert_int_equal(weft_peer_send(from->node, from->peer, send), 0);
	wait_for(from, to, &from->sents, sents);
	wait_for(from, to, &to->messages, messages);
	assert_int_equal(from->sent_status, 0);
	assert_true(expected.right);
	to->on_message = NULL;
	to->user = NULL;
}

static void messages_of_all_sizes_both_ways(void **state)
{
	struct actor a = {0}, b = {0};
	(void)state;
	meet(&a, &b);
	size_t most = a.max_frame - WEFT_FRAME_OVERHEAD;
	size_t sizes[] = {0,	1,	  7,	    8,	      9,	63,   64,
			  65,	255,	  256,	    1000,     1023,	1024, 1025,
			  3999, most / 2, most - 9, most - 8, most - 1, most};
	uint8_t *data = malloc(most);
	assert_non_null(data);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		scribble(data, sizes[i], (unsigned)i);
		struct weft_send send = send_of(&a, data, sizes[i]);
		pass_on(&a, &b, &send, data, sizes[i]);
		send = send_of(&b, data, sizes[i]);
		pass_on(&b, &a, &send, data, sizes[i]);
	}
	free(data);
	assert_int_equal(stats_of(&a).send_errors + stats_of(&b).send_errors, 0);
	part(&a, &b);
}

static void parts_and_buffers(void **state)
{
	struct actor a = {0}, b = {0};
	uint8_t data[1000];
	(void)state;
	meet(&a, &b);
	scribble(data, sizeof(data), 1);
	struct iovec parts[3] = {{data, 1}, {data + 1, 0}, {data + 1, 999}};
	struct weft_send send = send_of(&a, NULL, 0);
	send.iov = parts;
	send.iov_count = 3;
	pass_on(&a, &b, &send, data, sizeof(data));
	send = send_of(&a, NULL, 500);
	assert_int_equal(weft_buf_alloc(weft_node_net(a.node), sizeof(data), &send.buf), 0);
	memcpy(weft_buf_data(send.buf), data, sizeof(data));
	send.off = 250;
	pass_on(&a, &b, &send, data + 250, 500);
	send.off = 501;
	assert_int_equal(weft_peer_send(a.node, a.peer, &send), -EINVAL);
	weft_buf_unref(send.buf);
	part(&a, &b);
}

static void longer_than_the_peer_takes(void **state)
{
	struct actor a = {0}, b = {0};
	struct weft_node_opts opts = node_opts();
	uint8_t data[1001] = {0};
	(void)state;
	opts.max_message = 1000;
	actor_open(&a, NULL);
	actor_open(&b, &opts);
	actors_meet(&a, &b);
	struct weft_send send = send_of(&a, data, 1001);
	assert_int_equal(weft_peer_send(a.node, a.peer, &send), -EMSGSIZE);
	send.len = 1000;
	pass_on(&a, &b, &send, data, 1000);
	assert_int_equal(a.sents, 1);
	part(&a, &b);
}

/* Messages of many lengths that count upwards, each sent when the one before it may still be under
 * way. */
static void check_order(struct actor *actor, const struct weft_msg *msg)
{
	uint32_t number;
	assert_true(msg->len >= sizeof(number));
	memcpy(&number, msg->data, sizeof(number));
	assert_int_equal(number, actor->messages - 1);
	assert_int_equal(msg->id, actor->messages);
	uint8_t data[2048];
	scribble(data, msg->len - sizeof(number), number);
	assert_memory_equal((const uint8_t *)msg->data + sizeof(number), data,
			    msg->len - sizeof(number));
}

static void messages_arrive_in_order(void **state)
{
	struct actor a = {0}, b = {.on_message = check_order};
	uint8_t data[2048 + sizeof(uint32_t)];
	(void)state;
	meet(&a, &b);
	for (uint32_t i = 0; i < ORDERED;) {
		size_t len = i * 7919 % 2000;
		memcpy(data, &i, sizeof(i));
		scribble(data + sizeof(i), len, i);
		struct weft_send send = send_of(&a, data, sizeof(i) + len);
		int ret = weft_peer_send(a.node, a.peer, &send);
		if (ret == 0)
			i++;
		else
			assert_int_equal(ret, -ENOBUFS);
		if (ret < 0 || i % 17 == 0)
			poll_all((struct actor *[]){&a, &b}, 2);
	}
	wait_for(&a, &b, &a.sents, ORDERED);
	assert_int_equal(b.messages, ORDERED);
	assert_int_equal(stats_of(&a).send_errors, 0);
	part(&a, &b);
}

static void answer(struct actor *actor, const struct weft_msg *msg)
{
	struct weft_send send = WEFT_SEND_INIT;
	send.data = msg->data;
	send.len = msg->len;
	assert_int_equal(weft_msg_reply(actor->node, msg, &send), 0);
}

static void answers_find_their_question(void **state)
{
	struct actor a = {0}, b = {.on_message = answer};
	uint8_t data[700];
	(void)state;
	meet(&a, &b);
	for (int i = 1; i <= 100; i++) {
		scribble(data, sizeof(data), (unsigned)i);
		struct weft_send send = send_of(&a, data, (size_t)i * 7);
		send.reply = record_reply;
		assert_int_equal(weft_peer_send(a.node, a.peer, &send), 0);
		wait_for(&a, &b, &a.replies, i);
		assert_int_equal(a.reply_status, 0);
		assert_int_equal(a.reply_len, i * 7);
		assert_int_equal(a.reply_sum, sum_of(data, (size_t)(i * 7)));
		assert_int_equal(a.sents, i);
	}
	assert_int_equal(a.messages, 0);
	part(&a, &b);
}

/* The other side is not polled until all deadlines have passed; what was sent arrives all the same,
 * and late. */
static void deadlines_pass(void **state)
{
	struct actor a = {0}, b = {.on_message = answer};
	(void)state;
	meet(&a, &b);
	struct weft_send send = send_of(&a, "soon", 4);
	send.timeout_ms = 200;
	send.reply = record_reply;
	int64_t start = now_ms();
	assert_int_equal(weft_peer_send(a.node, a.peer, &send), 0);
	wait_for(&a, NULL, &a.replies, 1);
	assert_true(now_ms() - start >= 190);
	assert_int_equal(a.reply_status, -ETIMEDOUT);
	assert_int_equal(a.sent_status, -ETIMEDOUT);
	wait_for(&a, &b, &b.messages, 1);
	send = send_of(&a, "again", 5);
	send.reply = record_reply;
	assert_int_equal(weft_peer_send(a.node, a.peer, &send), 0);
	wait_for(&a, &b, &a.replies, 2);
	assert_int_equal(a.reply_status, 0);
	assert_int_equal(stats_of(&a).late_replies, 1);
	assert_int_equal(a.messages, 0);
	assert_int_equal(a.closed + b.closed, 0);
	part(&a, &b);
}

/* What had been accepted before the close arrives, and this is known. */
static void a_close_waits_for_what_was_sent(void **state)
{
	struct actor a = {0}, b = {0};
	uint8_t data[300] = {0};
	(void)state;
	meet(&a, &b);
	for (int outgoing = 0; outgoing < 2; outgoing++) {
		struct actor *from = outgoing ? &a : &b, *to = outgoing ? &b : &a;
		int sents = from->sents, messages = to->messages, closed = to->closed;
		for (int i = 0; i < LAST_ONES; i++) {
			struct weft_send send = send_of(from, data, sizeof(data));
			assert_int_equal(weft_peer_send(from->node, from->peer, &send), 0);
		}
		assert_int_equal(weft_peer_close(from->node, from->peer, PATIENCE_MS), 0);
		struct weft_send send = send_of(from, data, 1);
		assert_int_equal(weft_peer_send(from->node, from->peer, &send), -ENOTCONN);
		assert_int_equal(weft_peer_close(from->node, from->peer, 0), -ENOTCONN);
		wait_for(&a, &b, &to->closed, closed + 1);
		assert_int_equal(to->messages - messages, LAST_ONES);
		assert_int_equal(to->end.reason, WEFT_REASON_CLOSED);
		assert_int_equal(to->end.by_peer, 1);
		wait_for(&a, &b, &from->closed, closed + 1);
		assert_int_equal(from->sents - sents, LAST_ONES);
		assert_int_equal(from->sent_status, 0);
		assert_int_equal(from->end.by_peer, 0);
		assert_int_equal(from->end.status, 0);
		if (!outgoing)
			actors_meet(&a, &b);
	}
	assert_int_equal(stats_of(&a).send_errors + stats_of(&b).send_errors, 0);
	part(&a, &b);
}

/* Counts what was said to be there. */
static int arrived;

static void count_arrived(struct weft_node *node, weft_peer peer, int status, void *user)
{
	record_sent(node, peer, status, user);
	arrived += status == 0;
}

/* The other side closes in the middle: each message has its end, and none that did not arrive is
 * called sent. */
static void a_close_by_the_receiver(void **state)
{
	static const int lingers[] = {0, PATIENCE_MS};
	uint8_t data[900] = {0};
	(void)state;
	for (size_t round = 0; round < 2; round++) {
		struct actor a = {0}, b = {0};
		int accepted = 0;
		meet(&a, &b);
		arrived = 0;
		for (int i = 0; i < 20 * LAST_ONES && a.closed == 0; i++) {
			struct weft_send send = send_of(&a, data, sizeof(data));
			send.sent = count_arrived;
			int ret = weft_peer_send(a.node, a.peer, &send);
			accepted += ret == 0;
			assert_true(ret == 0 || ret == -ENOBUFS || ret == -ENOTCONN);
			if (i == LAST_ONES)
				assert_int_equal(weft_peer_close(b.node, b.peer, lingers[round]),
						 0);
			if (i % 5 == 0)
				poll_all((struct actor *[]){&a, &b}, 2);
		}
		wait_for(&a, &b, &a.closed, 1);
		wait_for(&a, &b, &b.closed, 1);
		assert_int_equal(a.sents, accepted);
		assert_true(arrived <= b.messages);
		assert_int_equal(a.end.by_peer, 1);
		part(&a, &b);
	}
}

static void close_there(struct actor *actor, const struct weft_msg *msg)
{
	assert_int_equal(weft_peer_close(actor->node, msg->peer, 0), 0);
}

static void close_when_opened(struct actor *actor, weft_peer peer)
{
	assert_int_equal(weft_peer_close(actor->node, peer, 0), 0);
}

static void connect_again(struct actor *actor, weft_peer peer)
{
	const struct actor *other = actor->user;
	(void)peer;
	if (actor->closed == 1)
		begin(actor, other);
}

static void closes_and_connects_in_callbacks(void **state)
{
	struct actor a = {.on_closed = connect_again}, b = {.on_message = close_there};
	(void)state;
	a.user = &b;
	meet(&a, &b);
	assert_int_equal(weft_peer_write(a.node, a.peer, "one", 3), 0);
	wait_for(&a, &b, &a.closed, 1);
	wait_for(&a, &b, &a.opened, 2);
	wait_for(&a, &b, &b.opened, 2);
	b.on_opened = close_when_opened;
	begin(&a, &b);
	wait_for(&a, &b, &b.closed, 2);
	wait_for(&a, &b, &a.closed, 2);
	assert_int_equal(b.messages, 1);
	part(&a, &b);
}

#define HELD 10

struct keeper {
	struct weft_msg *held[HELD];
	int count;
};

static void keep(struct actor *actor, const struct weft_msg *msg)
{
	struct keeper *keeper = actor->user;
	if (keeper->count < HELD) {
		keeper->held[keeper->count] = weft_msg_hold(actor->node, msg);
		assert_non_null(keeper->held[keeper->count++]);
	}
}

/* Held messages stay as they were, while others come and go, and when the node is closed. */
static void messages_are_held(void **state)
{
	struct keeper keeper = {.count = 0};
	struct actor a = {0}, b = {.on_message = keep, .user = &keeper};
	uint8_t data[1000];
	(void)state;
	meet(&a, &b);
	for (int i = 0; i < 500; i++) {
		scribble(data, sizeof(data), (unsigned)i);
		struct weft_send send = send_of(&a, data, sizeof(data));
		assert_int_equal(weft_peer_send(a.node, a.peer, &send), 0);
		wait_for(&a, &b, &b.messages, i + 1);
	}
	assert_int_equal(stats_of(&b).held, HELD);
	for (int i = 0; i < HELD / 2; i++) {
		scribble(data, sizeof(data), (unsigned)i);
		assert_memory_equal(keeper.held[i]->data, data, sizeof(data));
		weft_msg_release(keeper.held[i]);
	}
	assert_int_equal(stats_of(&b).held, HELD - HELD / 2);
	actor_close(&b, &a);
	actor_close(&a, NULL);
	for (int i = HELD / 2; i < HELD; i++) {
		scribble(data, sizeof(data), (unsigned)i);
		assert_memory_equal(keeper.held[i]->data, data, sizeof(data));
		weft_msg_release(keeper.held[i]);
	}
	weft_msg_release(NULL);
}

struct service {
	struct actor *actor;
	atomic_bool stop;
};

static void *serve(void *user)
{
	struct service *service = user;
	while (!atomic_load(&service->stop) && weft_node_poll(service->actor->node, 1000) >= 0)
		;
	return NULL;
}

static void set_flag(struct weft_node *node, void *user)
{
	(void)node;
	atomic_store((atomic_bool *)user, true);
}

/* A node that sleeps in a thread of its own answers calls, and is woken from another thread. */
static void calls_across_threads(void **state)
{
	struct actor a = {0}, b = {.on_message = answer};
	struct service service = {.actor = &b};
	struct weft_msg *reply;
	pthread_t thread;
	char text[32];
	(void)state;
	meet(&a, &b);
	assert_int_equal(pthread_create(&thread, NULL, serve, &service), 0);
	for (int i = 0; i < 200; i++) {
		int len = snprintf(text, sizeof(text), "question %d", i);
		assert_int_equal(weft_call(a.node, a.peer, text, (size_t)len, &reply, PATIENCE_MS),
				 0);
		assert_int_equal(reply->len, len);
		assert_memory_equal(reply->data, text, (size_t)len);
		weft_msg_release(reply);
	}
	assert_int_equal(weft_node_post(b.node, set_flag, &service.stop), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(weft_call(a.node, a.peer, "hello?", 6, &reply, 100), -ETIMEDOUT);
	assert_int_equal(weft_call(a.node, WEFT_PEER_NONE, "", 0, &reply, 100), -ENOTCONN);
	part(&a, &b);
}

/* Who is silent for longer than announced is given up, and is told so when it comes back. */
static void silence_is_noticed(void **state)
{
	struct actor a = {0}, b = {0};
	struct weft_node_opts opts = node_opts();
	(void)state;
	opts.keepalive_ms = 100;
	opts.silence_ms = 400;
	actor_open(&a, &opts);
	actor_open(&b, &opts);
	actors_meet(&a, &b);
	/* Both are polled for a while without a word: that is no silence. */
	int64_t end = now_ms() + 1500;
	while (now_ms() < end)
		poll_all((struct actor *[]){&a, &b}, 2);
	assert_int_equal(a.closed + b.closed, 0);
	struct weft_send send = send_of(&a, "there?", 6);
	send.timeout_ms = -1;
	assert_int_equal(weft_peer_send(a.node, a.peer, &send), 0);
	wait_for(&a, NULL, &a.closed, 1);
	assert_int_equal(a.end.reason, WEFT_REASON_LOST);
	assert_int_equal(a.end.status, -ETIMEDOUT);
	assert_int_equal(a.sents, 1);
	assert_int_equal(a.sent_status, -ETIMEDOUT);
	assert_int_equal(stats_of(&a).lost, 1);
	wait_for(&a, &b, &b.closed, 1);
	actors_meet(&a, &b);
	part(&a, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_of_all_sizes_both_ways),
		cmocka_unit_test(parts_and_buffers),
		cmocka_unit_test(longer_than_the_peer_takes),
		cmocka_unit_test(messages_arrive_in_order),
		cmocka_unit_test(answers_find_their_question),
		cmocka_unit_test(deadlines_pass),
		cmocka_unit_test(a_close_waits_for_what_was_sent),
		cmocka_unit_test(a_close_by_the_receiver),
		cmocka_unit_test(closes_and_connects_in_callbacks),
		cmocka_unit_test(messages_are_held),
		cmocka_unit_test(calls_across_threads),
		cmocka_unit_test(silence_is_noticed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
