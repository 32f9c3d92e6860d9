/* SPDX-License-Identifier: MIT */
/* Nodes: opening them, turning and sleeping, foreign loops, work from other threads, and the
 * blocking call. */
#include <errno.h>
#include <limits.h>

#include "nodeimpl.h"
#include "nodes.h"

static void no_node(const struct weft_node_opts *opts, int code, const char *words)
{
	struct weft_node *node = NULL;
	int ret = weft_node_open(&node, opts, NULL, NULL);
	if (ret != code)
		fail_msg("open gave %d (%s), not %d", ret, weft_strerror(ret), code);
	assert_null(node);
	if (words)
		assert_true(logged(WEFT_LOG_ERROR, words));
}

static void options(void **state)
{
	struct weft_node *node = NULL;
	struct weft_node_opts opts = node_opts();
	(void)state;
	opts.size = 8;
	no_node(&opts, -EINVAL, NULL);
	opts = node_opts();
	opts.recv_budget = 63 * FRAME_SIZE;
	no_node(&opts, -EINVAL, "recv_budget");
	opts = node_opts();
	opts.send_budget = FRAME_SIZE;
	no_node(&opts, -EINVAL, "send_budget");
	opts = node_opts();
	opts.peer_send_budget = 100;
	no_node(&opts, -EINVAL, "send_budget");
	opts = node_opts();
	opts.peer_send_budget = 64u << 20;
	no_node(&opts, -EINVAL, "peer_send_budget");
	opts = node_opts();
	opts.keepalive_ms = -1;
	no_node(&opts, -EINVAL, "negative");
	opts = node_opts();
	opts.silence_ms = -1;
	no_node(&opts, -EINVAL, "negative");
	opts = node_opts();
	opts.max_half_open = 100000;
	no_node(&opts, -EINVAL, "max_half_open");
	opts = node_opts();
	opts.max_peers = 100000;
	no_node(&opts, -EINVAL, "there is room for");
	opts = node_opts();
	struct weft_events events = WEFT_EVENTS_INIT;
	events.size = 8;
	assert_int_equal(weft_node_open(&node, &opts, &events, NULL), -EINVAL);
	assert_null(node);
	/* What net options are wrong is the net's to say. */
	struct weft_net_opts net = quiet_opts();
	net.provider = "nothing like that";
	opts.net = &net;
	assert_true(weft_node_open(&node, &opts, NULL, NULL) < 0);
	assert_null(node);
}

static void limits(void **state)
{
	(void)state;
	/* A program of today, on a library of tomorrow. */
	struct weft_node_opts opts = node_opts();
	opts.size += 64;
	struct {
		struct weft_node_opts opts;
		char more[64];
	} longer = {opts, {0}};
	struct party *a = party_open(&longer.opts);
	assert_int_equal(a->node->opts.max_peers, 768);
	assert_int_equal(a->node->opts.max_half_open, 192);
	assert_int_equal(a->node->opts.keepalive_ms, 10000);
	assert_int_equal(a->node->opts.silence_ms, 30000);
	assert_int_equal(a->node->opts.max_connects, 2000);
	assert_int_equal(a->node->opts.peer_send_budget, 4u << 20);
	assert_int_equal(a->node->frames.posted_max, 512);
	assert_int_equal(a->node->frames.posted, WEFT__SPARE_FRAMES);
	/* As few as it takes. */
	opts = node_opts();
	opts.recv_budget = 64 * FRAME_SIZE;
	opts.send_budget = 2 * FRAME_SIZE;
	opts.peer_send_budget = FRAME_SIZE;
	struct party *b = party_open(&opts);
	assert_int_equal(b->node->frames.posted_max, 16);
	assert_int_equal(b->node->frames.posted, 16);
	assert_int_equal(b->node->pool.budget, 48);
	assert_int_equal(b->node->opts.max_half_open, 6);
	assert_int_equal(b->node->opts.max_peers, 24);
	meet(b, a);
	/* And as much as can be said. */
	opts = node_opts();
	opts.recv_budget = opts.send_budget = SIZE_MAX;
	struct party *most = party_open(&opts);
	assert_int_equal(most->node->frames.posted_max, 512);
	assert_int_equal(most->node->pool.budget, UINT32_MAX / 2 - 512);
	assert_int_equal(most->node->opts.max_peers, 1000);
	meet(most, b);
	/* Descriptors are a limit, too. */
	fake_set_files(300, 40);
	struct party *c = party_open(NULL);
	assert_in_range(c->node->opts.max_peers, 100, 260);
	opts = node_opts();
	opts.max_peers = 300;
	no_node(&opts, -EINVAL, "RLIMIT_NOFILE");
}

/* The net takes fewer receives than the budget would have. */
static void few_receives(void **state)
{
	(void)state;
	struct fake_provider like = fake_tcp;
	like.rx_size = 100;
	party_provider(&like);
	struct party *a = party_open(NULL), *b = party_open(NULL);
	assert_int_equal(a->node->frames.posted_max, 100);
	meet(a, b);
}

static void messages_that_are_too_short(void **state)
{
	(void)state;
	struct fake_provider like = fake_tcp;
	like.max_msg = 1023;
	party_provider(&like);
	struct weft_node_opts opts = node_opts();
	no_node(&opts, -EMSGSIZE, "1023 bytes only");
}

static void short_messages(void **state)
{
	(void)state;
	struct fake_provider like = fake_tcp;
	like.max_msg = 1024;
	party_provider(&like);
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	assert_int_equal(a->info.max_frame, 1024);
	uint8_t data[1024 - WEFT_FRAME_OVERHEAD] = {0};
	for (int i = 1; i <= 100; i++)
		assert_int_equal(weft_peer_write(a->node, peer, data, sizeof(data)), 0);
	nodes_until(&b->messages, 100);
	assert_int_equal(b->len, sizeof(data));
}

/* ---- turning and sleeping */

static void wake_it(void *node)
{
	weft_node_wake(node);
}

static void poll_it(void *arg)
{
	struct party *party = arg;
	if (party->node)
		weft_node_poll(party->node, 0);
}

static int64_t slept(struct party *party, int timeout_ms, int *ret)
{
	int64_t before = fake_now_ns();
	*ret = weft_node_poll(party->node, timeout_ms);
	return (fake_now_ns() - before) / FAKE_NS_PER_MS;
}

static void sleeping(void **state)
{
	int ret;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	assert_in_range(slept(a, 0, &ret), 0, 0);
	assert_int_equal(ret, 0);
	assert_in_range(slept(a, 50, &ret), 50, 51);
	assert_int_equal(ret, 0);
	/* Before, and meanwhile. */
	weft_node_wake(a->node);
	assert_in_range(slept(a, -1, &ret), 0, 1);
	assert_int_equal(ret, 0);
	fake_at(20 * FAKE_NS_PER_MS, wake_it, a->node);
	assert_in_range(slept(a, -1, &ret), 20, 21);
	assert_int_equal(ret, 0);
	/* One wake is one return. */
	assert_in_range(slept(a, 30, &ret), 30, 31);
	/* A signal. */
	fake_refuse("ppoll", NULL, EINTR, 1);
	assert_in_range(slept(a, 30, &ret), 0, 1);
	assert_int_equal(ret, 0);
	/* A message. */
	weft_peer peer = meet(b, a);
	nodes_pass(50);
	uint64_t before = party_stats(a).frames_sent;
	assert_int_equal(say(b, peer, "hello", NULL), 0);
	assert_in_range(slept(a, -1, &ret), 0, 1);
	assert_int_equal(ret, 1);
	/* What is owed goes out before a long sleep. */
	fake_at(100 * FAKE_NS_PER_MS, wake_it, a->node);
	slept(a, -1, &ret);
	assert_int_equal(party_stats(a).frames_sent, before + 1);
	/* A deadline of its own. */
	struct fate fate = {0};
	b->stopped = true;
	struct weft_send send = telling("", 0, &fate);
	send.timeout_ms = 200;
	assert_int_equal(weft_peer_send(a->node, a->peer, &send), 0);
	assert_in_range(slept(a, -1, &ret), 200, 212);
	assert_int_equal(ret, 1);
	assert_int_equal(fate.sent_status, -ETIMEDOUT);
}

/* What nobody waits for goes along with the next frame that goes there anyway. */
static void owing_without_hurry(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	nodes_pass(300);
	uint64_t before = party_stats(b).frames_sent, asked = party_stats(a).frames_sent;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(say(a, peer, "", NULL), 0);
		nodes_pass(1);
		assert_int_equal(say(b, b->peer, "", NULL), 0);
		nodes_pass(1);
	}
	/* Each time that half of the credit is gone, there is one frame more. */
	assert_in_range(party_stats(b).frames_sent, before + 100, before + 110);
	assert_in_range(party_stats(a).frames_sent, asked + 100, asked + 110);
	assert_int_equal(a->messages + b->messages, 200);
}

/* By itself it goes after a while, for which a sleep is cut short, or a loop of the caller's. */
static void owing_for_a_while(void **state)
{
	int ret;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(say(a, peer, "", NULL), 0);
		nodes_pass(1);
	}
	nodes_pass(300);
	for (int turn = 0; turn < 2; turn++) {
		uint64_t before = party_stats(b).frames_sent;
		b->stopped = true;
		assert_int_equal(say(a, peer, "", NULL), 0);
		nodes_pass(1);
		assert_in_range(slept(b, 10, &ret), 0, 1);
		assert_int_equal(ret, 1);
		assert_int_equal(party_stats(b).frames_sent, before);
		if (turn == 0) {
			slept(b, 400, &ret);
			assert_int_equal(ret, 0);
		} else {
			assert_in_range(weft_node_arm(b->node), 190, 200);
			fake_advance_ns(210 * FAKE_NS_PER_MS);
			weft_node_poll(b->node, 0);
		}
		assert_int_equal(party_stats(b).frames_sent, before + 1);
		b->stopped = false;
		nodes_pass(10);
	}
}

static void answer(struct party *party, const struct weft_msg *msg)
{
	struct weft_send send = WEFT_SEND_INIT;
	send.data = "42";
	send.len = 2;
	assert_int_equal(weft_msg_reply(party->node, msg, &send), 0);
}

/* An answer from within the callback takes along the credit for the frame that it answers, be it
 * the only one. */
static void an_answer_frees_credit(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	b->on_message = answer;
	weft_peer peer = meet(a, b);
	nodes_pass(300);
	uint64_t before = party_stats(b).frames_sent;
	struct fate fate = {0};
	struct weft_send send = asking("", 0, &fate);
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	nodes_until(&fate.replies, 1);
	nodes_pass(20);
	assert_int_equal(party_stats(b).frames_sent, before + 1);
}

/* While one sleeps the other's frames come and go without a callback. */
static void sleeping_through_frames(void **state)
{
	int ret;
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.keepalive_ms = 100;
	opts.silence_ms = 1000;
	struct party *a = party_open(&opts), *b = party_open(&opts);
	meet(a, b);
	for (int i = 1; i < 3000; i++)
		fake_at(i * FAKE_NS_PER_MS, poll_it, b);
	assert_in_range(slept(a, 2500, &ret), 2500, 2510);
	assert_int_equal(ret, 0);
	assert_true(party_stats(a).frames_received > 20);
	assert_int_equal(a->closed + b->closed, 0);
	fake_advance_ns(600 * FAKE_NS_PER_MS);
}

static void a_loop_of_the_callers(void **state)
{
	struct fate fate = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer;
	a->stopped = true;
	assert_int_equal(weft_peer_connect(a->node, &b->addr, -1, &peer), 0);
	assert_int_equal(say(a, peer, "hello", &fate), 0);
	int sleeps = 0;
	for (int i = 0; i < 2000 && fate.sent == 0; i++) {
		int ms = weft_node_arm(a->node);
		assert_true(ms >= 0);
		if (ms > 0) {
			sleeps++;
			fake_wait_fd(weft_node_fd(a->node), ms > 5 ? 5 : ms);
		}
		assert_true(weft_node_poll(a->node, 0) >= 0);
		nodes_pass(1);
	}
	assert_int_equal(fate.sent_status, 0);
	assert_true(sleeps > 0);
	nodes_pass(50);
	weft_node_poll(a->node, 0);
	/* Nothing to do for long; then there is. */
	assert_true(weft_node_arm(a->node) > 500);
	weft_node_wake(a->node);
	assert_int_equal(fake_wait_fd(weft_node_fd(a->node), 10), 1);
	assert_int_equal(weft_node_arm(a->node), 0);
	weft_node_poll(a->node, 0);
	assert_int_equal(weft_peer_close(a->node, peer, 0), 0);
	assert_int_equal(weft_node_arm(a->node), 0);
	assert_true(weft_node_poll(a->node, 0) > 0);
	assert_int_equal(a->closed, 1);
	b->stopped = true;
}

/* A broken completion queue is told, and the node closes all the same. */
static void a_broken_queue(void **state)
{
	struct fate fate = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	assert_int_equal(say(a, peer, "lost", &fate), 0);
	a->stopped = true;
	fake_overrun(&a->addr);
	int ret = 0;
	for (int i = 0; i < 10 && ret >= 0; i++)
		ret = weft_node_poll(a->node, 1);
	assert_int_equal(ret, -EIO);
	assert_int_equal(weft_node_poll(a->node, 0), -EIO);
	struct weft_msg *reply = NULL;
	assert_int_equal(weft_call(a->node, peer, "", 0, &reply, 100), -EIO);
	assert_null(reply);
	assert_true(party_close(a, 100) >= 0);
	assert_int_equal(a->closed, 1);
	assert_int_equal(fate.sent, 1);
}

/* Without events a node still takes its part. */
static void nobody_listens(void **state)
{
	weft_peer peer;
	struct fate fate = {0};
	struct weft_node *deaf;
	(void)state;
	struct party *a = party_open(NULL);
	struct weft_node_opts opts = node_opts();
	struct weft_addr addr;
	assert_int_equal(weft_node_open(&deaf, &opts, NULL, NULL), 0);
	weft_node_get_addr(deaf, &addr);
	assert_int_equal(weft_peer_connect(a->node, &addr, -1, &peer), 0);
	assert_int_equal(say(a, peer, "anybody", &fate), 0);
	for (int i = 0; i < 1000 && fate.sent == 0; i++) {
		nodes_pass(1);
		weft_node_poll(deaf, 0);
	}
	assert_int_equal(fate.sent, 1);
	assert_int_equal(fate.sent_status, 0);
	weft_peer_close(a->node, peer, -1);
	for (int i = 0; i < 1000 && a->closed == 0; i++) {
		nodes_pass(1);
		weft_node_poll(deaf, 0);
	}
	assert_int_equal(weft_node_close(deaf, 0), 0);
}

/* ---- work from elsewhere */

static char order[16];
static size_t order_len;

static void note(struct weft_node *node, void *user)
{
	(void)node;
	order[order_len++] = *(const char *)user;
	order[order_len] = 0;
}

static void post_more(struct weft_node *node, void *user)
{
	note(node, user);
	assert_int_equal(weft_node_post(node, note, "z"), 0);
}

static void posting(void **state)
{
	(void)state;
	struct party *a = party_open(NULL);
	order_len = 0;
	assert_int_equal(weft_node_post(a->node, note, "a"), 0);
	assert_int_equal(weft_node_post(a->node, post_more, "b"), 0);
	assert_int_equal(weft_node_post(a->node, note, "c"), 0);
	assert_int_equal(order_len, 0);
	assert_int_equal(weft_node_arm(a->node), 0);
	assert_int_equal(weft_node_poll(a->node, -1), 3);
	assert_string_equal(order, "abc");
	assert_int_equal(weft_node_poll(a->node, -1), 1);
	assert_string_equal(order, "abcz");
	/* Or when the node is closed. */
	assert_int_equal(weft_node_post(a->node, note, "d"), 0);
	fake_refuse("malloc", NULL, ENOMEM, 1);
	assert_int_equal(weft_node_post(a->node, note, "e"), -ENOMEM);
	party_close(a, 0);
	assert_string_equal(order, "abczd");
}

/* ---- calls */

static struct party *others[2];

static void poll_others(void *left)
{
	int *times = left;
	for (int i = 0; i < 2; i++) {
		if (others[i] && others[i]->node)
			weft_node_poll(others[i]->node, 0);
	}
	if (--*times > 0)
		fake_at(FAKE_NS_PER_MS, poll_others, left);
}

static void calling(void **state)
{
	struct weft_msg *reply = NULL;
	int times = 1000;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	others[0] = b;
	others[1] = NULL;
	b->on_message = answer;
	fake_at(FAKE_NS_PER_MS, poll_others, &times);
	assert_int_equal(weft_call(a->node, peer, "?", 1, &reply, 1000), 0);
	assert_non_null(reply);
	assert_int_equal(reply->len, 2);
	assert_memory_equal(reply->data, "42", 2);
	assert_int_equal(party_stats(a).held, 1);
	weft_msg_release(reply);
	/* No answer in time. */
	b->on_message = NULL;
	reply = NULL;
	assert_int_equal(weft_call(a->node, peer, "?", 1, &reply, 100), -ETIMEDOUT);
	assert_null(reply);
	/* No memory for it. */
	b->on_message = answer;
	fake_refuse("malloc", NULL, ENOMEM, 1);
	assert_int_equal(weft_call(a->node, peer, "?", 1, &reply, 100), -ENOMEM);
	fake_refuse("calloc", NULL, ENOMEM, 1);
	assert_int_equal(weft_call(a->node, peer, "?", 1, &reply, 100), -ENOMEM);
	assert_null(reply);
	assert_int_equal(weft_call(a->node, peer + 1, "?", 1, &reply, 100), -ENOTCONN);
	/* The session ends meanwhile. */
	b->on_message = NULL;
	assert_int_equal(weft_peer_close(b->node, b->peer, 0), 0);
	assert_int_equal(weft_call(a->node, peer, "?", 1, &reply, 1000), -ECONNRESET);
	assert_null(reply);
	times = 1;
	fake_advance_ns(2 * FAKE_NS_PER_MS);
}

static void memory_again(void *user)
{
	(void)user;
	fake_no_faults();
}

static bool has_all_receives;

static void look_at_receives(void *user)
{
	struct party *party = user;
	has_all_receives = party->node->frames.posted == weft__rframes_wanted(party->node);
}

/* Who lacks receives does not sleep until somebody sends, but soon tries again to post them. */
static void receives_that_cannot_be_posted(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	fake_refuse("fi_recv", NULL, ENOMEM, -1);
	assert_int_equal(say(a, peer, "one", NULL), 0);
	nodes_until(&b->messages, 1);
	assert_true(b->node->frames.posted < weft__rframes_wanted(b->node));
	has_all_receives = false;
	fake_at(5 * FAKE_NS_PER_MS, memory_again, NULL);
	fake_at(30 * FAKE_NS_PER_MS, look_at_receives, b);
	for (int64_t end = fake_now_ns() + 50 * FAKE_NS_PER_MS; fake_now_ns() < end;)
		assert_true(weft_node_poll(b->node, 100) >= 0);
	assert_true(has_all_receives);
}

/* ---- statistics */

static void statistics(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	meet(a, b);
	struct weft_node_stats stats = WEFT_NODE_STATS_INIT;
	stats.size = 8;
	assert_int_equal(weft_node_get_stats(a->node, &stats), -EINVAL);
	stats.size = sizeof(size_t) + sizeof(uint64_t);
	stats.half_open = 4711;
	assert_int_equal(weft_node_get_stats(a->node, &stats), 0);
	assert_int_equal(stats.peers, 1);
	assert_int_equal(stats.half_open, 4711);
	struct {
		struct weft_node_stats stats;
		uint64_t more;
	} longer = {WEFT_NODE_STATS_INIT, 4711};
	longer.stats.size = sizeof(longer);
	assert_int_equal(weft_node_get_stats(a->node, &longer.stats), 0);
	assert_int_equal(longer.stats.size, sizeof(longer.stats));
	assert_int_equal(longer.more, 4711);
	assert_int_equal(longer.stats.opened, 1);
	assert_in_range(longer.stats.session_memory, 500, 4096);
	assert_true(longer.stats.memory > WEFT__SPARE_FRAMES * FRAME_SIZE);
	assert_true(longer.stats.memory < 33u << 20);
	assert_int_equal(longer.stats.credits_out, 1);
	/* A net of ones own to look at. */
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	assert_int_equal(weft_net_get_info(weft_node_net(a->node), &info), 0);
	assert_string_equal(info.provider, "tcp;ofi_rxm");
}

/* More sessions at once than a table has first, and their handles stay what they are. */
static void many_sessions(void **state)
{
	weft_peer peers[60];
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	for (int i = 0; i < 60; i++)
		peers[i] = meet(a, b);
	for (int i = 0; i < 60; i++)
		assert_int_equal(weft_peer_set_data(a->node, peers[i], &peers[i]), 0);
	for (int i = 0; i < 60; i += 2)
		assert_int_equal(weft_peer_close(a->node, peers[i], -1), 0);
	nodes_until(&a->closed, 30);
	for (int i = 0; i < 60; i++) {
		assert_ptr_equal(weft_peer_data(a->node, peers[i]), i % 2 ? &peers[i] : NULL);
		weft_peer again = i % 2 ? WEFT_PEER_NONE : meet(a, b);
		for (int k = 0; k < 60; k++)
			assert_int_not_equal(again, peers[k]);
	}
	assert_int_equal(party_stats(a).peers, 60);
	assert_int_equal(a->node->table_size, 64);
}

static void reasons_in_words(void **state)
{
	(void)state;
	for (int i = WEFT_REASON_NONE; i <= WEFT_REASON_ADDRESS; i++) {
		for (int k = 0; k < i; k++)
			assert_string_not_equal(weft_reason_text((enum weft_reason)i),
						weft_reason_text((enum weft_reason)k));
	}
	assert_non_null(strstr(weft_reason_text((enum weft_reason)16), "not known"));
	assert_non_null(strstr(weft_reason_text((enum weft_reason) - 1), "not known"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		nodes_test(options),
		nodes_test(limits),
		nodes_test(few_receives),
		nodes_test(messages_that_are_too_short),
		nodes_test(short_messages),
		nodes_test(sleeping),
		nodes_test(owing_without_hurry),
		nodes_test(owing_for_a_while),
		nodes_test(an_answer_frees_credit),
		nodes_test(sleeping_through_frames),
		nodes_test(a_loop_of_the_callers),
		nodes_test(a_broken_queue),
		nodes_test(nobody_listens),
		nodes_test(posting),
		nodes_test(calling),
		nodes_test(receives_that_cannot_be_posted),
		nodes_test(statistics),
		nodes_test(many_sessions),
		nodes_test(reasons_in_words),
	};
	return world_run(tests);
}
