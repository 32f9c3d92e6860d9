/* SPDX-License-Identifier: MIT */
/* What the tests of layer 2 have in common. */
#include "nodes.h"

#include <stdio.h>

#include "nodeimpl.h"

#define PARTIES 260
#define RAWS 8

static struct party parties[PARTIES];
static size_t party_count;
static struct raw *raws[RAWS];
static size_t raw_count;
static const char *provider;
static struct weft_net_opts net_opts;
static int orders;
/* The others are polled by an event while one is being closed. */
static bool meanwhile;

int nodes_setup(void **state)
{
	world_setup(state);
	memset(parties, 0, sizeof(parties));
	party_count = raw_count = 0;
	provider = NULL;
	orders = 0;
	return 0;
}

int nodes_teardown(void **state)
{
	/* Nobody answers any more, which saves time. */
	for (size_t i = 0; i < party_count; i++)
		parties[i].stopped = true;
	for (size_t i = 0; i < party_count; i++) {
		if (parties[i].node)
			assert_true(party_close(&parties[i], 0) >= 0);
	}
	while (raw_count > 0)
		raw_close(raws[raw_count - 1]);
	return world_teardown(state);
}

/* ---- nodes */

static int on_accept(struct weft_node *node, const struct weft_peer_info *info, void *user)
{
	struct party *party = user;
	(void)node;
	assert_int_equal(info->size, sizeof(*info));
	assert_non_null(info->provider);
	assert_int_equal(info->outgoing, 0);
	party->accepts++;
	if (party->on_accept)
		party->on_accept(party);
	return party->refuse;
}

static void on_opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
		      void *user)
{
	struct party *party = user;
	party->opened++;
	party->peer = peer;
	party->info = *info;
	snprintf(party->provider, sizeof(party->provider), "%s", info->provider);
	assert_ptr_equal(node, party->node);
	if (party->on_opened)
		party->on_opened(party, peer);
}

static void on_message(struct weft_node *node, const struct weft_msg *msg, void *user)
{
	struct party *party = user;
	(void)node;
	assert_int_equal((uintptr_t)msg->data % 8, 0);
	assert_int_equal(msg->size, sizeof(*msg));
	party->messages++;
	party->msg = *msg;
	party->len = msg->len;
	size_t shown = msg->len < sizeof(party->text) ? msg->len : sizeof(party->text) - 1;
	memcpy(party->text, msg->data, shown);
	party->text[shown] = 0;
	if (party->on_message)
		party->on_message(party, msg);
}

static void on_writable(struct weft_node *node, weft_peer peer, void *user)
{
	struct party *party = user;
	(void)node;
	party->writable++;
	if (party->on_writable)
		party->on_writable(party, peer);
}

static void on_closed(struct weft_node *node, weft_peer peer, const struct weft_closed *closed,
		      void *user)
{
	struct party *party = user;
	(void)node;
	party->closed++;
	party->end = *closed;
	assert_non_null(closed->text);
	snprintf(party->why, sizeof(party->why), "%s", closed->text);
	snprintf(party->advice, sizeof(party->advice), "%s", closed->advice ? closed->advice : "");
	party->end.text = party->end.advice = NULL;
	if (party->on_closed)
		party->on_closed(party, peer);
}

static struct weft_buf *on_place(struct weft_node *node, weft_peer peer, size_t len,
				 uint32_t reply_to, size_t *off, void *user)
{
	struct party *party = user;
	(void)node;
	(void)reply_to;
	assert_true(peer != WEFT_PEER_NONE);
	assert_int_equal(*off, 0);
	party->places++;
	return party->on_place ? party->on_place(party, len, off) : NULL;
}

struct fake_provider *party_provider(const struct fake_provider *like)
{
	provider = like->name;
	return fake_offer(like);
}

struct weft_node_opts node_opts(void)
{
	struct weft_node_opts opts = WEFT_NODE_OPTS_INIT;
	if (!provider)
		party_provider(&fake_tcp);
	net_opts = quiet_opts();
	net_opts.provider = provider;
	opts.net = &net_opts;
	return opts;
}

struct party *party_open(const struct weft_node_opts *opts)
{
	struct weft_events events = WEFT_EVENTS_INIT;
	struct weft_node_opts mine = opts ? *opts : node_opts();
	events.accept = on_accept;
	events.opened = on_opened;
	events.message = on_message;
	events.writable = on_writable;
	events.closed = on_closed;
	events.place = on_place;
	assert_true(party_count < PARTIES);
	struct party *party = &parties[party_count++];
	int ret = weft_node_open(&party->node, &mine, &events, party);
	if (ret < 0) {
		logged(WEFT_LOG_ERROR, "the reason");
		fail_msg("weft_node_open: %s", weft_strerror(ret));
	}
	assert_int_equal(weft_node_get_addr(party->node, &party->addr), 0);
	return party;
}

static void poll_all(void)
{
	for (size_t i = 0; i < party_count; i++) {
		struct party *party = &parties[i];
		if (party->node && !party->stopped)
			assert_true(weft_node_poll(party->node, 0) >= 0);
	}
	for (size_t i = 0; i < raw_count; i++)
		raw_poll(raws[i]);
}

static void poll_others(void *unused)
{
	(void)unused;
	if (!meanwhile)
		return;
	poll_all();
	fake_at(FAKE_NS_PER_MS, poll_others, NULL);
}

int party_close(struct party *party, int linger_ms)
{
	struct weft_node *node = party->node;
	bool outermost = !meanwhile;
	/* Its callbacks still find it, but nobody polls it. */
	party->stopped = true;
	meanwhile = true;
	if (outermost)
		fake_at(FAKE_NS_PER_MS, poll_others, NULL);
	int ret = weft_node_close(node, linger_ms);
	if (outermost)
		meanwhile = false;
	if (ret >= 0)
		party->node = NULL;
	return ret;
}

void party_kill(struct party *party)
{
	fake_next("fi_send", NULL, -1, &(struct fake_fate){.outcome = FAKE_LOSE});
	party->on_closed = NULL;
	assert_true(weft_node_close(party->node, 0) >= 0);
	party->node = NULL;
	fake_no_faults();
}

struct weft_node_stats party_stats(const struct party *party)
{
	struct weft_node_stats stats = WEFT_NODE_STATS_INIT;
	assert_int_equal(weft_node_get_stats(party->node, &stats), 0);
	return stats;
}

void nodes_pass(int64_t ms)
{
	/* Long times are for timers, which do not mind a coarser view. */
	int64_t step = ms > 1000 ? 4 * FAKE_NS_PER_MS : FAKE_NS_PER_MS / 4;
	for (int64_t end = fake_now_ns() + ms * FAKE_NS_PER_MS; fake_now_ns() < end;) {
		poll_all();
		fake_advance_ns(step);
	}
}

void nodes_until(const int *count, int want)
{
	int64_t end = fake_now_ns() + INT64_C(100000) * FAKE_NS_PER_MS;
	while (*count < want) {
		nodes_pass(1);
		if (fake_now_ns() > end)
			fail_msg("%d of %d after 100 s", *count, want);
	}
}

/* What the frames of a node count as, against what its budget allows. */
static void check_budget(const struct party *party)
{
	const struct weft_node *node = party->node;
	const struct weft__rframe *frame;
	uint32_t out = 0, held = 0, in_use = 0;
	for (uint32_t i = 0; i < node->table_size; i++) {
		const struct weft__peer *peer = node->table[i];
		if (!peer || peer->s.state == WEFT__GONE)
			continue;
		out += weft__credit_open_frames(&peer->s.credit);
		held += peer->s.credit.held;
	}
	SLIST_FOREACH (frame, &node->frames.all, all)
		in_use += frame->refs > 0 && frame->counted;
	assert_int_equal(out, node->pool.out);
	/* What may come is expected. */
	assert_true(node->frames.posted >= out || node->frames.posted == node->frames.posted_max);
	assert_true(held <= in_use);
	assert_true(out + in_use <= node->pool.budget);
	assert_true(node->pool.borrowed + node->pool.sessions <= node->pool.budget);
}

void nodes_check_budgets(void)
{
	for (size_t i = 0; i < party_count; i++) {
		if (parties[i].node)
			check_budget(&parties[i]);
	}
}

weft_peer meet(struct party *a, struct party *b)
{
	weft_peer peer;
	int a_opened = a->opened, b_opened = b->opened;
	assert_int_equal(weft_peer_connect(a->node, &b->addr, -1, &peer), 0);
	nodes_until(&a->opened, a_opened + 1);
	nodes_until(&b->opened, b_opened + 1);
	return peer;
}

/* ---- messages */

static void on_sent(struct weft_node *node, weft_peer peer, int status, void *user)
{
	struct fate *fate = user;
	(void)node;
	assert_true(peer != WEFT_PEER_NONE);
	fate->sent++;
	fate->sent_status = status;
	fate->order = ++orders;
}

static void on_reply(struct weft_node *node, weft_peer peer, const struct weft_msg *msg, int status,
		     void *user)
{
	struct fate *fate = user;
	(void)node;
	(void)peer;
	assert_true((msg != NULL) == (status == 0));
	fate->replies++;
	fate->reply_status = status;
	if (msg)
		snprintf(fate->text, sizeof(fate->text), "%.*s", (int)msg->len,
			 (const char *)msg->data);
}

struct weft_send telling(const void *data, size_t len, struct fate *fate)
{
	struct weft_send send = WEFT_SEND_INIT;
	send.data = data;
	send.len = len;
	send.sent = on_sent;
	send.user = fate;
	return send;
}

struct weft_send asking(const void *data, size_t len, struct fate *fate)
{
	struct weft_send send = telling(data, len, fate);
	send.reply = on_reply;
	return send;
}

int say(struct party *party, weft_peer peer, const char *text, struct fate *fate)
{
	struct weft_send send = telling(text, strlen(text), fate);
	if (!fate)
		return weft_peer_write(party->node, peer, text, strlen(text));
	return weft_peer_send(party->node, peer, &send);
}

void echo(struct party *party, const struct weft_msg *msg)
{
	struct weft_send send = WEFT_SEND_INIT;
	send.data = msg->data;
	send.len = msg->len;
	assert_int_equal(weft_msg_reply(party->node, msg, &send), 0);
}

/* ---- strangers */

static void raw_received(struct weft_net *net, const struct weft_done *done)
{
	struct raw *raw = done->user;
	struct weft__header header;
	if (done->status < 0)
		return;
	const uint8_t *data = weft_buf_data(done->buf);
	size_t at = weft__wire_get_header(data, done->len, &header);
	assert_true(at > 0);
	raw->came[header.type]++;
	raw->last[header.type] = header;
	raw->len[header.type] = done->len - at;
	assert_true(done->len - at <= sizeof(raw->body[0]));
	memcpy(raw->body[header.type], data + at, done->len - at);
	assert_int_equal(weft_net_recv(net, done->buf, raw_received, raw), 0);
}

void raw_open(struct raw *raw, struct party *to)
{
	memset(raw, 0, sizeof(*raw));
	assert_true(raw_count < RAWS);
	if (!provider)
		party_provider(&fake_tcp);
	struct weft_net_opts opts = quiet_opts();
	opts.provider = provider;
	raw->net = net_open(&opts);
	raw->addr = net_addr(raw->net);
	raw->party = to;
	assert_int_equal(weft_net_add_peer(raw->net, &to->addr, &raw->to), 0);
	for (size_t i = 0; i < sizeof(raw->into) / sizeof(raw->into[0]); i++) {
		assert_int_equal(weft_buf_alloc(raw->net, 1024, &raw->into[i]), 0);
		assert_int_equal(weft_net_recv(raw->net, raw->into[i], raw_received, raw), 0);
	}
	raw->credit = 1000;
	raw->hello = (struct weft__hello){
		.version_min = 1,
		.version_max = 1,
		.max_frame = 1024,
		.instance = 0x1000 + raw_count,
		.session = 0x2000 + raw_count,
		.nonce = 0x3000 + raw_count,
		.max_message = 1 << 20,
		.keepalive_ms = 1000,
		.silence_ms = 3000,
		.libfabric = 0x10011,
		.addr = raw->addr,
		.provider = "raw",
	};
	raws[raw_count++] = raw;
}

void raw_close(struct raw *raw)
{
	size_t i = 0;
	assert_true(weft_net_close(raw->net) >= 0);
	for (size_t n = 0; n < sizeof(raw->into) / sizeof(raw->into[0]); n++)
		weft_buf_unref(raw->into[n]);
	while (raws[i] != raw)
		i++;
	raws[i] = raws[--raw_count];
}

void raw_poll(struct raw *raw)
{
	assert_true(weft_net_poll(raw->net, 0) >= 0);
}

static void raw_sent(struct weft_net *net, const struct weft_done *done)
{
	(void)net;
	(void)done;
}

void raw_send(struct raw *raw, const void *data, size_t len)
{
	struct weft_buf *buf;
	assert_int_equal(weft_buf_alloc(raw->net, len ? len : 1, &buf), 0);
	if (len > 0)
		memcpy(weft_buf_data(buf), data, len);
	struct weft_post post = whole(buf);
	post.len = len;
	assert_int_equal(weft_net_send(raw->net, raw->to, &post, raw_sent, raw), 0);
	weft_buf_unref(buf);
}

void raw_frame(struct raw *raw, enum weft__frame_type type, const void *body, size_t len)
{
	uint8_t frame[16384];
	assert_true(len <= sizeof(frame) - WEFT__HEADER_LEN);
	if (type == WEFT__DATA || type == WEFT__OFFER || type == WEFT__CLOSE)
		raw->number++;
	struct weft__header header = {
		.version = 1,
		.type = (uint8_t)type,
		.flags = raw->flags,
		.session = type == WEFT__CONNECT ? 0 : raw->peer_id,
		.number = raw->number,
		.ack = raw->ack,
		.credit = raw->credit,
		.returned = raw->returned,
	};
	raw->flags = 0;
	weft__wire_put_header(frame, &header);
	if (len > 0)
		memcpy(frame + WEFT__HEADER_LEN, body, len);
	raw_send(raw, frame, WEFT__HEADER_LEN + len);
}

static void raw_greet(struct raw *raw, enum weft__frame_type type)
{
	uint8_t body[512];
	size_t len = weft__wire_put_hello(body, sizeof(body), &raw->hello);
	assert_true(len > 0);
	raw_frame(raw, type, body, len);
}

void raw_connect(struct raw *raw)
{
	raw_greet(raw, WEFT__CONNECT);
}

void raw_accept(struct raw *raw)
{
	struct weft__hello theirs;
	assert_true(raw->came[WEFT__CONNECT] > 0);
	assert_true(
		weft__wire_get_hello(raw->body[WEFT__CONNECT], raw->len[WEFT__CONNECT], &theirs));
	raw->hello.nonce = theirs.nonce;
	raw->peer_id = theirs.session;
	raw_greet(raw, WEFT__ACCEPT);
}

void raw_data(struct raw *raw, const char *text)
{
	uint8_t body[1024] = {0};
	size_t len = strlen(text);
	uint8_t *to = weft__wire_put_record(body, ++raw->message, 0, (uint32_t)len);
	memcpy(to, text, len);
	raw_frame(raw, WEFT__DATA, body, weft__record_room(len));
}

void raw_meet(struct raw *raw)
{
	struct weft__hello theirs;
	int opened = raw->party->opened;
	raw_connect(raw);
	nodes_until(&raw->came[WEFT__ACCEPT], 1);
	assert_true(weft__wire_get_hello(raw->body[WEFT__ACCEPT], raw->len[WEFT__ACCEPT], &theirs));
	raw->peer_id = theirs.session;
	raw_frame(raw, WEFT__CREDIT, NULL, 0);
	nodes_until(&raw->party->opened, opened + 1);
}

struct weft__farewell raw_farewell(const struct raw *raw, enum weft__frame_type type)
{
	struct weft__farewell farewell = {0};
	assert_true(raw->came[type] > 0);
	if (type == WEFT__REJECT)
		assert_true(weft__wire_get_reject(raw->body[type], raw->len[type], &farewell));
	else
		assert_true(weft__wire_get_close(raw->body[type], raw->len[type], &farewell));
	return farewell;
}
