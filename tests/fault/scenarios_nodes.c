/* SPDX-License-Identifier: MIT */
/* What the torture loop runs of layer 2: sessions, messages that fit a frame, and the ends of both.
 */
#include "torture_nodes.h"

#include <errno.h>

/* ---- sessions */

static void open_node(void)
{
	nodes_begin(&fake_tcp);
	nodes_open("tcp", true);
	nodes_finish(0);
}

static void open_node_efa(void)
{
	fake_set_version(FI_VERSION(2, 6));
	nodes_begin(&fake_efa);
	nodes_open("efa", true);
	nodes_finish(0);
}

static void connects(void)
{
	nodes_begin(&fake_tcp);
	struct end *a = nodes_open("tcp", false), *b = nodes_open("tcp", false);
	nodes_meet(a, b);
	nodes_pass(4);
	nodes_finish(20);
	torture_ok(a->closed == 1 && b->closed == 1);
}

static void refuses(void)
{
	nodes_begin(&fake_tcp);
	struct end *a = nodes_open("tcp", false), *b = nodes_open("tcp", false);
	b->refuse = 42;
	nodes_connect(a, &b->addr, 60);
	nodes_until(&a->closed, 1, 100);
	nodes_pass(4);
	nodes_finish(0);
	torture_ok(a->opened == 0 && b->opened == 0);
}

static void nobody_there(void)
{
	nodes_begin(&fake_udp);
	struct end *a = nodes_open("udp", false);
	struct weft_addr nobody = a->addr;
	nobody.raw[5] ^= 0x15;
	weft_peer peer = nodes_connect(a, &nobody, 30);
	nodes_send(a, peer, 10, false, 10);
	nodes_until(&a->closed, 1, 100);
	nodes_finish(0);
}

/* ---- messages */

static void reply_once(struct end *end, weft_peer peer)
{
	struct weft_send send = WEFT_SEND_INIT;
	(void)peer;
	if (end->held)
		weft_msg_reply(end->node, end->held, &send);
}

static void messages_pass(void)
{
	nodes_begin(&fake_tcp);
	struct end *a = nodes_open("tcp", false), *b = nodes_open("tcp", false);
	weft_peer peer = nodes_met(a, b);
	b->on_message = reply_once;
	struct message *asked = nodes_send(a, peer, 100, true, 60);
	struct message *empty = nodes_send(a, peer, 0, false, 60);
	nodes_until(&asked->replies, asked->started, 70);
	nodes_until(&empty->sent, empty->started, 70);
	torture_ok(b->messages == 2 && asked->status == 0 && empty->status == 0);
	nodes_close_peer(a, peer, 20);
	nodes_until(&b->closed, b->owed, 60);
	nodes_finish(20);
}

static void messages_shm(void)
{
	nodes_begin(&fake_shm);
	struct end *a = nodes_open("shm", false), *b = nodes_open("shm", false);
	weft_peer peer = nodes_met(a, b);
	struct message *m = nodes_send(a, peer, 500, false, 60);
	nodes_until(&m->sent, m->started, 70);
	nodes_finish(20);
}

static void poll_the_other(void *arg)
{
	struct end *end = arg;
	if (!end->node)
		return;
	weft_node_poll(end->node, 0);
	fake_at(STEP_MS * FAKE_NS_PER_MS, poll_the_other, end);
}

static void calling(void)
{
	static const int named[] = {ENOTCONN, EINVAL,	    EMSGSIZE,  ENOBUFS,
				    ENOMEM,   ECANCELED,    ETIMEDOUT, ECONNRESET,
				    EIO,      ECONNABORTED, EPROTO,    0};
	struct weft_msg *reply = NULL;
	nodes_begin(&fake_tcp);
	struct end *a = nodes_open("tcp", false), *b = nodes_open("tcp", false);
	weft_peer peer = nodes_met(a, b);
	b->on_message = reply_once;
	poll_the_other(b);
	if (a->node) {
		int ret = weft_call(a->node, peer, "?", 1, &reply, 60);
		torture_code("weft_call", ret, named, true);
		torture_ok(ret == 0);
		torture_check((ret == 0) == (reply != NULL));
		weft_msg_release(reply);
	}
	nodes_finish(0);
	fake_advance_ns(2 * FAKE_NS_PER_MS * STEP_MS);
}

static int writables;

static void note_writable(struct end *end, weft_peer peer)
{
	(void)end;
	(void)peer;
	writables++;
}

static void full_budgets(void)
{
	nodes_begin(&fake_tcp);
	struct end *a = nodes_open("tcp", false), *b = nodes_open("tcp", false);
	weft_peer peer = nodes_met(a, b);
	writables = 0;
	a->on_writable = note_writable;
	b->asleep = true;
	for (int i = 0; i < 5; i++)
		nodes_send(a, peer, 900, false, 100);
	nodes_pass(4);
	b->asleep = false;
	nodes_until(&writables, 1, 40);
	/* Those that waited while the time was up. */
	nodes_send(a, peer, 900, false, 0);
	nodes_pass(8);
	nodes_finish(20);
}

/* ---- ends */

static int linger;

static void close_it(struct end *end, weft_peer peer)
{
	nodes_close_peer(end, peer, linger);
}

static void close_inside(int which)
{
	nodes_begin(&fake_tcp);
	struct end *a = nodes_open("tcp", false), *b = nodes_open("tcp", false);
	linger = which % 2 ? 10 : 0;
	if (which < 2)
		a->on_opened = b->on_opened = close_it;
	weft_peer peer = which < 2 ? nodes_meet(a, b) : nodes_met(a, b);
	if (which >= 2) {
		struct message *m = nodes_send(a, peer, 100, which >= 4, 40);
		if (which < 4)
			b->on_message = close_it;
		else
			b->on_message = reply_once;
		m->then = close_it;
		nodes_until(&a->closed, a->owed, 60);
	}
	nodes_pass(6);
	nodes_finish(0);
}

static void close_on_opened(void)
{
	close_inside(0);
	close_inside(1);
}

static void close_on_message(void)
{
	close_inside(2);
	close_inside(3);
}

static void close_on_reply(void)
{
	close_inside(4);
	close_inside(5);
}

/* As if its process were gone: nothing of it leaves any more. */
static void kill_end(struct end *end)
{
	fake_pause_count(true);
	fake_next("fi_send", NULL, -1, &(struct fake_fate){.outcome = FAKE_LOSE});
	nodes_close(end, 0);
	fake_no_faults();
	fake_pause_count(false);
}

/* The other side dies while connecting, half open, open with work, and closing. */
static void dying(void)
{
	for (int when = 0; when < 4; when++) {
		struct end *a, *b;
		nodes_begin(&fake_tcp);
		fake_pause_count(true);
		a = nodes_open("tcp", false), b = nodes_open("tcp", false);
		if (when == 0) {
			nodes_connect(a, &b->addr, 30);
			fake_pause_count(true);
			nodes_poll();
			kill_end(b);
			nodes_until(&a->closed, a->owed, 60);
		} else if (when == 1) {
			nodes_connect(b, &a->addr, 30);
			fake_pause_count(true);
			for (int i = 0; i < 3; i++)
				nodes_poll();
			kill_end(b);
			nodes_pass(10);
		} else {
			weft_peer peer = nodes_met(a, b);
			nodes_send(a, peer, 100, true, 60);
			if (when == 3)
				nodes_close_peer(a, peer, 30);
			kill_end(b);
			nodes_until(&a->closed, a->owed, 300);
		}
		nodes_finish(0);
	}
}

/* A question to somebody who was started again, and a new session with it. */
static void started_again(void)
{
	nodes_begin(&fake_tcp);
	struct end *a = nodes_open("tcp", false), *b = nodes_open("tcp", false);
	struct weft_addr addr = b->addr;
	nodes_met(a, b);
	kill_end(b);
	fake_next_addr(addr.raw, addr.len);
	struct end *again = nodes_open("tcp", false);
	if (again->node && a->node)
		nodes_until(&a->closed, 1, 100);
	nodes_meet(a, again);
	nodes_finish(10);
}

/* A node is closed with work in each state. */
static void close_nodes(void)
{
	for (int lingering = 0; lingering <= 10; lingering += 10) {
		nodes_begin(&fake_tcp);
		struct end *a = nodes_open("tcp", false), *b = nodes_open("tcp", false);
		struct weft_addr nobody = a->addr;
		weft_peer peer = nodes_met(a, b), other = nodes_met(a, b);
		nobody.raw[5] ^= 0x15;
		nodes_send(a, nodes_connect(a, &nobody, 300), 10, true, 50);
		nodes_connect(b, &a->addr, 300);
		if (b->node)
			weft_node_poll(b->node, 0);
		nodes_send(a, peer, 900, true, -1);
		nodes_send(a, peer, 900, false, 50);
		nodes_close_peer(a, other, 50);
		poll_the_other(b);
		nodes_close(a, lingering);
		nodes_pass(4);
		nodes_finish(0);
		fake_advance_ns(2 * FAKE_NS_PER_MS * STEP_MS);
	}
}

static void note_post(struct weft_node *node, void *user)
{
	(void)node;
	++*(int *)user;
}

static void loops(void)
{
	int ran = 0, posted = 0;
	nodes_begin(&fake_tcp);
	struct end *a = nodes_open("tcp", false), *b = nodes_open("tcp", false);
	nodes_met(a, b);
	if (a->node) {
		for (int i = 0; i < 2; i++) {
			int ret = weft_node_post(a->node, note_post, &ran);
			torture_check(ret == 0 || ret == -ENOMEM);
			posted += ret == 0;
		}
		for (int i = 0; i < 6; i++) {
			int ms = weft_node_arm(a->node);
			torture_check(ms >= 0 || ms == -EIO);
			if (ms > 0)
				fake_wait_fd(weft_node_fd(a->node), ms > 5 ? 5 : ms);
			weft_node_poll(a->node, 0);
		}
		weft_node_wake(a->node);
		weft_node_poll(a->node, 5);
		weft_node_poll(a->node, 5);
		torture_check(ran == posted);
	}
	nodes_finish(0);
}

/* Tables grow while they are in use. */
static void many_sessions(void)
{
	nodes_begin(&fake_tcp);
	struct end *a = nodes_open("tcp", false), *b = nodes_open("tcp", false);
	for (int i = 0; i < 15; i++)
		nodes_met(a, b);
	nodes_pass(6);
	nodes_meet(a, b);
	fake_pause_count(true);
	for (int i = 0; i < 3; i++)
		nodes_met(a, b);
	fake_pause_count(true);
	nodes_finish(10);
	fake_pause_count(false);
}

/* Sessions of the same two nodes, whose frames leave together, both ways. */
static void bundles(void)
{
	enum { SESSIONS = 4 };
	weft_peer peers[SESSIONS];
	nodes_begin(&fake_tcp);
	struct end *a = nodes_open("tcp", false), *b = nodes_open("tcp", false);
	for (int i = 0; i < SESSIONS; i++)
		peers[i] = nodes_met(a, b);
	b->on_message = reply_once;
	for (int i = 0; i < SESSIONS; i++)
		nodes_send(a, peers[i], 10, true, 200);
	nodes_until(&b->messages, SESSIONS, 300);
	nodes_pass(10);
	nodes_finish(10);
}

/* So many, of as many nodes, that the tables of sessions and of destinations grow as well. */
static void very_many_sessions(void)
{
	nodes_begin(&fake_udp);
	nodes_recv_frames = 600;
	nodes_max_peers = 400;
	struct end *a = nodes_open("udp", false);
	struct weft_addr nobody = a->addr;
	nobody.raw[5] ^= 0x15;
	for (int i = 0; i < 240; i++) {
		fake_pause_count(i < 110);
		nobody.raw[3] = (uint8_t)(1 + i);
		nodes_connect(a, &nobody, 300);
	}
	fake_pause_count(true);
	nodes_finish(0);
	fake_pause_count(false);
}

const struct torture_scenario torture_node_scenarios[] = {
	{"node-open", open_node, false},
	{"node-open-efa", open_node_efa, false},
	{"node-connect", connects, false},
	{"node-refuse", refuses, false},
	{"node-nobody", nobody_there, false},
	{"node-messages", messages_pass, false},
	{"node-messages-shm", messages_shm, false},
	{"node-call", calling, false},
	{"node-full", full_budgets, false},
	{"node-close-opened", close_on_opened, false},
	{"node-close-message", close_on_message, false},
	{"node-close-reply", close_on_reply, false},
	{"node-dying", dying, false},
	{"node-restart", started_again, false},
	{"node-close", close_nodes, false},
	{"node-loop", loops, false},
	{"node-many", many_sessions, false},
	{"node-bundles", bundles, false},
	{"node-very-many", very_many_sessions, false},
};
const size_t torture_node_scenario_count =
	sizeof(torture_node_scenarios) / sizeof(torture_node_scenarios[0]);
