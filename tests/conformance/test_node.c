/* SPDX-License-Identifier: MIT */
/* Nodes and how sessions begin: agreed to, refused, in vain, many at once, crossing, before the
 * other one is there. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nodes.h"

#define CROWD 20
#define CROSSINGS 200

static void two_nodes_meet(void **state)
{
	struct actor a = {0}, b = {0};
	struct weft_peer_info info = WEFT_PEER_INFO_INIT;
	(void)state;
	actor_open(&a, NULL);
	actor_open(&b, NULL);
	actors_meet(&a, &b);
	assert_int_equal(a.outgoing, 1);
	assert_int_equal(b.outgoing, 0);
	assert_int_equal(b.accepts, 1);
	assert_true(a.instance != b.instance);
	assert_int_equal(weft_peer_get_info(b.node, b.peer, &info), 0);
	assert_true(weft_addr_equal(&info.addr, &a.addr));
	assert_int_equal(info.max_frame, b.max_frame);
	assert_int_equal(weft_peer_get_info(a.node, a.peer, &info), 0);
	assert_true(weft_addr_equal(&info.addr, &b.addr));
	assert_int_equal(stats_of(&a).peers, 1);
	assert_int_equal(stats_of(&b).half_open, 0);
	assert_int_equal(weft_peer_set_data(a.node, a.peer, &info), 0);
	assert_ptr_equal(weft_peer_data(a.node, a.peer), &info);
	actor_close(&a, &b);
	wait_for(&b, NULL, &b.closed, 1);
	assert_int_equal(b.end.reason,
			 parts_first() ? WEFT_REASON_CLOSED : WEFT_REASON_SHUTDOWN);
	assert_int_equal(b.end.by_peer, 1);
	assert_int_equal(a.closed, 1);
	assert_int_equal(weft_peer_get_info(b.node, b.peer, &info), -ENOTCONN);
	actor_close(&b, NULL);
	assert_int_equal(b.closed, 1);
}

static void a_refusal_is_told_with_its_code(void **state)
{
	struct actor a = {0}, b = {.refuse = 4711};
	(void)state;
	actor_open(&a, NULL);
	actor_open(&b, NULL);
	weft_peer peer = begin(&a, &b);
	struct weft_send send = send_of(&a, "never", 5);
	assert_int_equal(weft_peer_send(a.node, peer, &send), 0);
	wait_for(&a, &b, &a.closed, 1);
	assert_int_equal(a.end.reason, WEFT_REASON_REFUSED);
	assert_int_equal(a.end.status, -ECONNREFUSED);
	assert_int_equal(a.end.by_peer, 1);
	assert_int_equal(a.end.opened, 0);
	assert_int_equal(a.end.code, 4711);
	assert_int_equal(a.opened + b.opened + b.closed + b.messages, 0);
	assert_int_equal(a.sents, 1);
	assert_int_equal(a.sent_status, -ECONNREFUSED);
	b.refuse = 0;
	actors_meet(&a, &b);
	actor_close(&a, &b);
	actor_close(&b, NULL);
}

static void a_full_node_says_so(void **state)
{
	struct actor a = {0}, b = {0};
	struct weft_node_opts opts = node_opts();
	(void)state;
	opts.max_peers = 1;
	actor_open(&a, NULL);
	actor_open(&b, &opts);
	actors_meet(&a, &b);
	begin(&a, &b);
	wait_for(&a, &b, &a.closed, 1);
	assert_int_equal(a.end.reason, WEFT_REASON_FULL);
	weft_peer peer;
	assert_int_equal(weft_peer_connect(b.node, &a.addr, -1, &peer), -ENOSPC);
	assert_int_equal(b.closed, 0);
	actor_close(&a, &b);
	actor_close(&b, NULL);
}

/* Asks one after the other for a session, and then for an answer each. */
static void many_peers_in_one_node(void **state)
{
	struct actor server = {0}, crowd[CROWD] = {{0}};
	struct actor *all[CROWD + 1];
	int64_t end = now_ms() + PATIENCE_MS;
	int answered = 0;
	(void)state;
	actor_open(&server, NULL);
	for (int i = 0; i < CROWD; i++) {
		actor_open(&crowd[i], NULL);
		all[i] = &crowd[i];
		weft_peer peer = begin(&crowd[i], &server);
		struct weft_send send = send_of(&crowd[i], &i, sizeof(i));
		assert_int_equal(weft_peer_send(crowd[i].node, peer, &send), 0);
	}
	all[CROWD] = &server;
	while (answered < CROWD) {
		assert_true(now_ms() < end);
		poll_all(all, CROWD + 1);
		answered = 0;
		for (int i = 0; i < CROWD; i++)
			answered += crowd[i].sents;
	}
	assert_int_equal(server.opened, CROWD);
	assert_int_equal(server.messages, CROWD);
	assert_int_equal(stats_of(&server).peers, CROWD);
	for (int i = 0; i < CROWD; i++) {
		assert_int_equal(crowd[i].sent_status, 0);
		actor_close(&crowd[i], &server);
	}
	wait_for(&server, NULL, &server.closed, CROWD);
	assert_int_equal(stats_of(&server).peers, 0);
	actor_close(&server, NULL);
}

/* Both connect in the same instant: those are two sessions, and both work. */
static void sessions_may_cross(void **state)
{
	struct actor a = {0}, b = {0};
	(void)state;
	actor_open(&a, NULL);
	actor_open(&b, NULL);
	for (int i = 1; i <= CROSSINGS; i++) {
		weft_peer to_b = begin(&a, &b), to_a = begin(&b, &a);
		struct weft_send send = send_of(&a, &i, sizeof(i));
		assert_int_equal(weft_peer_send(a.node, to_b, &send), 0);
		send = send_of(&b, &i, sizeof(i));
		assert_int_equal(weft_peer_send(b.node, to_a, &send), 0);
		wait_for(&a, &b, &a.sents, i);
		wait_for(&a, &b, &b.sents, i);
		assert_int_equal(a.sent_status, 0);
		assert_int_equal(b.sent_status, 0);
		wait_for(&a, &b, &a.opened, 2 * i);
		wait_for(&a, &b, &b.opened, 2 * i);
		assert_int_equal(a.messages, i);
		assert_int_equal(b.messages, i);
		assert_int_equal(weft_peer_close(a.node, to_b, -1), 0);
		assert_int_equal(weft_peer_close(b.node, to_a, -1), 0);
		wait_for(&a, &b, &a.closed, 2 * i);
		wait_for(&a, &b, &b.closed, 2 * i);
	}
	assert_int_equal(stats_of(&a).peers + stats_of(&b).peers, 0);
	assert_int_equal(stats_of(&a).failed + stats_of(&b).failed, 0);
	actor_close(&a, &b);
	actor_close(&b, NULL);
}

static void nobody_there(void **state)
{
	struct actor a = {0};
	struct weft_addr addr;
	weft_peer peer;
	(void)state;
	actor_open(&a, NULL);
	absent_addr(&addr);
	int64_t start = now_ms();
	assert_int_equal(weft_peer_connect(a.node, &addr, 700, &peer), 0);
	struct weft_send send = send_of(&a, "anyone?", 7);
	assert_int_equal(weft_peer_send(a.node, peer, &send), 0);
	wait_for(&a, NULL, &a.closed, 1);
	assert_true(now_ms() - start >= 690);
	assert_int_equal(a.end.reason, WEFT_REASON_TIMEOUT);
	assert_int_equal(a.end.status, -ETIMEDOUT);
	assert_int_equal(a.end.opened, 0);
	assert_int_equal(a.sents, 1);
	assert_int_equal(a.sent_status, -ETIMEDOUT);
	assert_int_equal(weft_peer_send(a.node, peer, &send), -ENOTCONN);
	absent_done();
	actor_close(&a, NULL);
	assert_int_equal(a.closed, 1);
}

static void a_wrong_address_is_refused_at_once(void **state)
{
	struct actor a = {0};
	struct weft_addr addr;
	weft_peer peer;
	(void)state;
	actor_open(&a, NULL);
	addr = a.addr;
	memset(addr.raw, 0xff, sizeof(addr.raw));
	assert_int_equal(weft_peer_connect(a.node, &addr, -1, &peer), -EINVAL);
	memset(&addr, 0, sizeof(addr));
	assert_int_equal(weft_peer_connect(a.node, &addr, -1, &peer), -EINVAL);
	addr = a.addr;
	addr.scheme = addr.scheme == WEFT_SCHEME_SHM ? WEFT_SCHEME_TCP : WEFT_SCHEME_SHM;
	assert_int_equal(weft_peer_connect(a.node, &addr, -1, &peer), -EINVAL);
	assert_int_equal(weft_peer_connect(a.node, &a.addr, -2, &peer), -EINVAL);
	assert_int_equal(stats_of(&a).peers, 0);
	actor_close(&a, NULL);
}

/* A port of the loopback interface that nobody has now. */
static uint16_t free_port(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, provider_is("tcp") ? SOCK_STREAM : SOCK_DGRAM, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&in, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	close(fd);
	return ntohs(in.sin_port);
}

/*
 * The other node comes when three seconds of the time to connect are over. Only IP has addresses
 * that are known before.
 */
static void the_other_node_may_come_later(void **state)
{
	struct actor a = {0}, b = {0};
	char bind_to[32], uri[64];
	struct weft_parse_error error;
	struct weft_addr addr;
	weft_peer peer;
	(void)state;
	if (!provider_is("tcp") && !provider_is("udp"))
		skip();
	uint16_t port = free_port();
	snprintf(bind_to, sizeof(bind_to), "127.0.0.1:%u", port);
	snprintf(uri, sizeof(uri), "%s://%s", provider(), bind_to);
	assert_int_equal(weft_addr_parse(&addr, uri, &error), 0);
	actor_open(&a, NULL);
	assert_int_equal(weft_peer_connect(a.node, &addr, PATIENCE_MS, &peer), 0);
	int64_t end = now_ms() + 3000;
	while (now_ms() < end)
		assert_true(weft_node_poll(a.node, (int)(end - now_ms())) >= 0);
	assert_int_equal(a.opened + a.closed, 0);
	struct weft_node_opts opts = node_opts();
	struct weft_net_opts net = *opts.net;
	net.bind = bind_to;
	opts.net = &net;
	actor_open(&b, &opts);
	wait_for(&a, &b, &a.opened, 1);
	wait_for(&a, &b, &b.opened, 1);
	struct weft_send send = send_of(&a, "late", 4);
	assert_int_equal(weft_peer_send(a.node, peer, &send), 0);
	wait_for(&a, &b, &a.sents, 1);
	assert_int_equal(a.sent_status, 0);
	actor_close(&a, &b);
	actor_close(&b, NULL);
}

/* One that was there before connects again while another one may have its place in the address
 * vector. */
static void a_peer_may_come_back(void **state)
{
	struct actor a = {0}, b = {0}, c = {0};
	(void)state;
	actor_open(&a, NULL);
	actor_open(&b, NULL);
	actor_open(&c, NULL);
	actors_meet(&a, &b);
	assert_int_equal(weft_peer_close(a.node, a.peer, -1), 0);
	wait_for(&a, &b, &a.closed, 1);
	wait_for(&a, &b, &b.closed, 1);
	/* The last frames leave, and the address with them. */
	for (int turn = 0; turn < 100; turn++)
		poll_all((struct actor *[]){&a, &b}, 2);
	actors_meet(&c, &b);
	actors_meet(&a, &b);
	struct weft_send send = send_of(&a, "again", 5);
	assert_int_equal(weft_peer_send(a.node, a.peer, &send), 0);
	wait_for(&a, &b, &a.sents, 1);
	assert_int_equal(a.sent_status, 0);
	actor_close(&a, &b);
	actor_close(&c, &b);
	actor_close(&b, NULL);
}

/* A session with oneself is one like any other. */
static void a_node_may_connect_to_itself(void **state)
{
	struct actor a = {0};
	(void)state;
	actor_open(&a, NULL);
	weft_peer peer = begin(&a, &a);
	struct weft_send send = send_of(&a, "me", 2);
	assert_int_equal(weft_peer_send(a.node, peer, &send), 0);
	wait_for(&a, NULL, &a.opened, 2);
	wait_for(&a, NULL, &a.sents, 1);
	assert_int_equal(a.sent_status, 0);
	assert_int_equal(a.messages, 1);
	assert_int_equal(weft_peer_close(a.node, peer, -1), 0);
	wait_for(&a, NULL, &a.closed, 2);
	actor_close(&a, NULL);
}

static void calls_from_callbacks_are_told(struct actor *actor, const struct weft_msg *msg)
{
	struct weft_msg *reply;
	assert_int_equal(weft_node_poll(actor->node, 0), -EBUSY);
	assert_int_equal(weft_node_close(actor->node, 0), -EBUSY);
	assert_int_equal(weft_call(actor->node, msg->peer, "", 0, &reply, 0), -EBUSY);
	assert_int_equal(weft_node_arm(actor->node), -EBUSY);
}

static void no_polling_from_a_callback(void **state)
{
	struct actor a = {0}, b = {.on_message = calls_from_callbacks_are_told};
	(void)state;
	actor_open(&a, NULL);
	actor_open(&b, NULL);
	actors_meet(&a, &b);
	assert_int_equal(weft_peer_write(a.node, a.peer, "", 0), 0);
	wait_for(&a, &b, &b.messages, 1);
	actor_close(&a, &b);
	actor_close(&b, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_nodes_meet),
		cmocka_unit_test(a_refusal_is_told_with_its_code),
		cmocka_unit_test(a_full_node_says_so),
		cmocka_unit_test(many_peers_in_one_node),
		cmocka_unit_test(sessions_may_cross),
		cmocka_unit_test(nobody_there),
		cmocka_unit_test(a_wrong_address_is_refused_at_once),
		cmocka_unit_test(the_other_node_may_come_later),
		cmocka_unit_test(a_peer_may_come_back),
		cmocka_unit_test(a_node_may_connect_to_itself),
		cmocka_unit_test(no_polling_from_a_callback),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
