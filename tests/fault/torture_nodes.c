/* SPDX-License-Identifier: MIT */
/* The calls that the torture loop's scenarios of layer 2 are made of. */
#include "torture_nodes.h"

#include <errno.h>
#include <string.h>

#include <rdma/fi_errno.h>

#define ENDS 4
#define MESSAGES 64

static struct end ends[ENDS];
static struct message messages[MESSAGES];
static size_t end_count, message_count;
/* More than nodes_begin() sets are for the scenarios that need them. */
size_t nodes_recv_frames, nodes_max_peers;

void nodes_begin(const struct fake_provider *provider)
{
	struct fake_provider like = *provider;
	like.max_msg = FRAME;
	/* Closing does not wait for the last words to those who are gone: other scenarios have
	 * that. */
	if (like.absent == FAKE_ABSENT_AGAIN)
		like.absent = FAKE_ABSENT_LOST;
	fake_offer(&like);
	memset(ends, 0, sizeof(ends));
	memset(messages, 0, sizeof(messages));
	end_count = message_count = 0;
	nodes_recv_frames = 64;
	nodes_max_peers = 20;
}

static int accepts(struct weft_node *node, const struct weft_peer_info *info, void *user)
{
	struct end *end = user;
	(void)node;
	torture_check(info->provider && !info->outgoing);
	return end->refuse;
}

static void opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
		   void *user)
{
	struct end *end = user;
	(void)node;
	end->opened++;
	end->peer = peer;
	if (!info->outgoing)
		end->owed++;
	if (end->on_opened)
		end->on_opened(end, peer);
}

static void closed(struct weft_node *node, weft_peer peer, const struct weft_closed *how,
		   void *user)
{
	struct end *end = user;
	(void)node;
	torture_check(how->text && how->status <= 0 && how->status != -FI_EAGAIN);
	end->closed++;
	if (end->on_closed)
		end->on_closed(end, peer);
}

static void message(struct weft_node *node, const struct weft_msg *msg, void *user)
{
	struct end *end = user;
	end->messages++;
	if (!end->held)
		end->held = weft_msg_hold(node, msg);
	if (end->on_message)
		end->on_message(end, msg->peer);
}

static void writable(struct weft_node *node, weft_peer peer, void *user)
{
	struct end *end = user;
	(void)node;
	if (end->on_writable)
		end->on_writable(end, peer);
}

struct end *nodes_open(const char *provider, bool counted)
{
	static const int named[] = {EINVAL, EMSGSIZE, ENODATA,	     ENOMEM,
				    EMFILE, EEXIST,   EADDRNOTAVAIL, 0};
	struct weft_net_opts net = torture_opts(provider);
	struct weft_node_opts opts = WEFT_NODE_OPTS_INIT;
	struct weft_events events = WEFT_EVENTS_INIT;
	struct end *end = &ends[end_count++];
	events.accept = accepts;
	events.opened = opened;
	events.message = message;
	events.writable = writable;
	events.closed = closed;
	opts.net = &net;
	opts.recv_budget = nodes_recv_frames * FRAME;
	opts.send_budget = 4 * FRAME;
	opts.peer_send_budget = 3 * FRAME;
	opts.max_peers = nodes_max_peers;
	opts.max_half_open = 4;
	opts.keepalive_ms = 40;
	opts.silence_ms = 80;
	if (!counted)
		fake_pause_count(true);
	int ret = weft_node_open(&end->node, &opts, &events, end);
	fake_pause_count(false);
	torture_code("weft_node_open", ret, named, true);
	torture_ok(ret == 0);
	torture_check((ret < 0) == !end->node);
	if (end->node)
		weft_node_get_addr(end->node, &end->addr);
	return end;
}

void nodes_close(struct end *end, int linger_ms)
{
	if (!end->node)
		return;
	end->on_opened = end->on_message = end->on_closed = end->on_writable = NULL;
	torture_left(weft_node_close(end->node, linger_ms));
	end->node = NULL;
	torture_check(end->closed == end->owed);
	weft_msg_release(end->held);
	end->held = NULL;
}

/* Closes all, and looks whether every message has had its end. */
void nodes_finish(int linger_ms)
{
	for (size_t i = 0; i < end_count; i++)
		nodes_close(&ends[i], linger_ms);
	for (size_t i = 0; i < message_count; i++) {
		const struct message *m = &messages[i];
		torture_check(m->sent == (m->started ? 1 : 0));
		torture_check(m->replies == (m->started && m->asks ? 1 : 0));
	}
}

void nodes_poll(void)
{
	static const int named[] = {EIO, 0};
	for (size_t i = 0; i < end_count; i++) {
		if (!ends[i].node || ends[i].asleep)
			continue;
		int ret = weft_node_poll(ends[i].node, 0);
		torture_code("weft_node_poll", ret, named, false);
		torture_ok(ret >= 0);
	}
}

/* Polls all until the count is there, if nothing has failed; in vain for so long. */
void nodes_until(const int *count, int want, int ms)
{
	for (; ms > 0 && *count < want; ms -= STEP_MS) {
		nodes_poll();
		fake_advance_ns(STEP_MS * FAKE_NS_PER_MS);
	}
	torture_ok(*count >= want);
}

void nodes_pass(int ms)
{
	for (; ms > 0; ms -= STEP_MS) {
		nodes_poll();
		fake_advance_ns(STEP_MS * FAKE_NS_PER_MS);
	}
}

weft_peer nodes_connect(struct end *end, const struct weft_addr *addr, int timeout_ms)
{
	static const int named[] = {EINVAL, ENOSPC, EADDRNOTAVAIL, ENOMEM, ECANCELED, 0};
	weft_peer peer = WEFT_PEER_NONE;
	if (!end->node || addr->scheme == WEFT_SCHEME_NONE)
		return peer;
	int ret = weft_peer_connect(end->node, addr, timeout_ms, &peer);
	/* Random numbers may be refused, too. */
	torture_code("weft_peer_connect", ret, named, true);
	torture_ok(ret == 0);
	torture_check((ret < 0) == (peer == WEFT_PEER_NONE));
	if (ret == 0)
		end->owed++;
	return peer;
}

weft_peer nodes_meet(struct end *a, struct end *b)
{
	weft_peer peer = nodes_connect(a, &b->addr, 300);
	nodes_until(&a->opened, a->opened + 1, 310);
	nodes_until(&b->opened, b->opened + 1, 50);
	return peer;
}

/* The same, where it is not the point. */
weft_peer nodes_met(struct end *a, struct end *b)
{
	fake_pause_count(true);
	weft_peer peer = nodes_meet(a, b);
	nodes_pass(6);
	fake_pause_count(false);
	return peer;
}

static void on_sent(struct weft_node *node, weft_peer peer, int status, void *user)
{
	struct message *m = user;
	(void)node;
	m->sent++;
	m->status = status;
	torture_check(status <= 0 && status != -FI_EAGAIN);
	if (m->then && !m->asks)
		m->then(m->end, peer);
}

static void on_reply(struct weft_node *node, weft_peer peer, const struct weft_msg *msg, int status,
		     void *user)
{
	struct message *m = user;
	(void)node;
	m->replies++;
	torture_check((msg != NULL) == (status == 0));
	if (m->then)
		m->then(m->end, peer);
}

/* Sends so many bytes. Returns the message, which may not have started. */
struct message *nodes_send(struct end *end, weft_peer peer, size_t len, bool asks, int timeout_ms)
{
	static const int named[] = {ENOTCONN, EINVAL, EMSGSIZE, ENOBUFS, ENOMEM, ECANCELED, 0};
	static const uint8_t data[FRAME];
	struct message *m = &messages[message_count++ % MESSAGES];
	struct weft_send send = WEFT_SEND_INIT;
	torture_check(message_count <= MESSAGES);
	m->end = end;
	m->asks = asks;
	if (!end->node)
		return m;
	send.data = data;
	send.len = len;
	send.timeout_ms = timeout_ms;
	send.sent = on_sent;
	send.reply = asks ? on_reply : NULL;
	send.user = m;
	int ret = weft_peer_send(end->node, peer, &send);
	/* Random numbers may be refused, too. */
	torture_code("weft_peer_send", ret, named, true);
	m->started = ret == 0;
	return m;
}

void nodes_close_peer(struct end *end, weft_peer peer, int linger_ms)
{
	if (!end->node)
		return;
	int ret = weft_peer_close(end->node, peer, linger_ms);
	torture_check(ret == 0 || ret == -ENOTCONN);
}
