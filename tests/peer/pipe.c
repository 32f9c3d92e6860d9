/* SPDX-License-Identifier: MIT */
/*
 * pipe: the library on the fake fabric, with a second endpoint there whose frames go through this
 * program's standard input and output, so that a peer in another language can talk to it. Time is
 * virtual and passes as the other side says. Calls the public functions of weft, and the fake.
 *
 * A packet is a length (4 bytes, little-endian), a letter, and so many bytes. What comes in:
 *
 *	F frame       to the node             M message    the node sends it, and awaits an answer
 *	T             some time passes        N            the node connects to the second endpoint
 *	C             the node closes
 *
 * Each is answered by any number of F (a frame from the node) and E (a line that tells what the
 *node was told), and then by D with the time in milliseconds (8 bytes). It begins with A, the
 *second endpoint's address.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "fake.h"

#define FRAME_MAX 65536
#define RECEIVES 32
#define TURNS 40
#define TIME_MS 50

static struct weft_node *node;
static struct weft_net *net;
static weft_dest node_dest;
static struct weft_addr net_addr;
static weft_peer peer;

static _Noreturn void die(const char *what, int code)
{
	fprintf(stderr, "pipe: %s: %s\n", what, weft_strerror(code));
	exit(1);
}

static void need(const char *what, int code)
{
	if (code < 0)
		die(what, code);
}

static void put(char letter, const void *data, size_t len)
{
	uint8_t head[5] = {(uint8_t)len, (uint8_t)(len >> 8), (uint8_t)(len >> 16),
			   (uint8_t)(len >> 24), (uint8_t)letter};
	fwrite(head, 1, sizeof(head), stdout);
	fwrite(data, 1, len, stdout);
}

static void tell(const char *what, long number, const void *text, size_t len)
{
	char line[2000];
	int used = snprintf(line, sizeof(line), "%s %ld %.*s", what, number, (int)len,
			    (const char *)text);
	put('E', line, (size_t)used < sizeof(line) ? (size_t)used : sizeof(line) - 1);
}

static void on_opened(struct weft_node *at, weft_peer who, const struct weft_peer_info *info,
		      void *user)
{
	(void)at, (void)user;
	peer = who;
	tell("opened", info->outgoing, info->provider, strlen(info->provider));
}

/* Every message is answered by the same with an exclamation mark. */
static void on_message(struct weft_node *at, const struct weft_msg *msg, void *user)
{
	struct weft_send answer = WEFT_SEND_INIT;
	struct iovec parts[2] = {{(void *)(uintptr_t)msg->data, msg->len}, {(char[]){"!"}, 1}};
	(void)user;
	tell("message", (long)msg->id, msg->data, msg->len);
	answer.iov = parts;
	answer.iov_count = 2;
	need("reply", weft_msg_reply(at, msg, &answer));
}

static void on_closed(struct weft_node *at, weft_peer who, const struct weft_closed *closed,
		      void *user)
{
	(void)at, (void)who, (void)user;
	tell(closed->by_peer ? "closed-by-peer" : "closed", (long)closed->reason, closed->text,
	     strlen(closed->text));
}

static void on_sent(struct weft_node *at, weft_peer who, int status, void *user)
{
	(void)at, (void)who, (void)user;
	tell("sent", status, "", 0);
}

static void on_reply(struct weft_node *at, weft_peer who, const struct weft_msg *msg, int status,
		     void *user)
{
	(void)at, (void)who, (void)user;
	tell("reply", status, msg ? msg->data : "", msg ? msg->len : 0);
}

static void on_frame(struct weft_net *at, const struct weft_done *done)
{
	if (done->status == -ECANCELED)
		return;
	need("a receive", done->status);
	put('F', weft_buf_data(done->buf), done->len);
	need("weft_net_recv", weft_net_recv(at, done->buf, on_frame, NULL));
}

static void on_frame_sent(struct weft_net *at, const struct weft_done *done)
{
	(void)at;
	need("a send", done->status);
}

static void send_frame(const uint8_t *data, size_t len)
{
	struct weft_post post = WEFT_POST_INIT;
	need("weft_buf_alloc", weft_buf_alloc(net, len, &post.buf));
	memcpy(weft_buf_data(post.buf), data, len);
	post.len = len;
	need("weft_net_send", weft_net_send(net, node_dest, &post, on_frame_sent, NULL));
	weft_buf_unref(post.buf);
}

static void begin(void)
{
	struct weft_net_opts net_opts = WEFT_NET_OPTS_INIT;
	struct weft_node_opts opts = WEFT_NODE_OPTS_INIT;
	struct weft_events events = WEFT_EVENTS_INIT;
	struct weft_addr addr;
	fake_reset();
	fake_offer(&fake_tcp);
	opts.net = &net_opts;
	events.opened = on_opened;
	events.message = on_message;
	events.closed = on_closed;
	need("weft_node_open", weft_node_open(&node, &opts, &events, NULL));
	need("weft_net_open", weft_net_open(&net, &net_opts));
	weft_node_get_addr(node, &addr);
	weft_net_get_addr(net, &net_addr);
	need("weft_net_add_peer", weft_net_add_peer(net, &addr, &node_dest));
	for (int i = 0; i < RECEIVES; i++) {
		struct weft_buf *buf;
		need("weft_buf_alloc", weft_buf_alloc(net, FRAME_MAX, &buf));
		need("weft_net_recv", weft_net_recv(net, buf, on_frame, NULL));
		weft_buf_unref(buf);
	}
	put('A', net_addr.raw, net_addr.len);
}

/* Lets what was asked for happen, and some time pass. */
static void pass(void)
{
	for (int i = 0; i < TURNS; i++) {
		int ret = weft_node_poll(node, 0);
		if (ret >= 0)
			ret = weft_net_poll(net, 0);
		need("poll", ret);
		fake_advance_ns(TIME_MS * FAKE_NS_PER_MS / TURNS);
	}
	int64_t now = fake_now_ns() / FAKE_NS_PER_MS;
	put('D', &now, sizeof(now));
	fflush(stdout);
}

static void send_message(const uint8_t *data, size_t len)
{
	struct weft_send send = WEFT_SEND_INIT;
	send.data = data;
	send.len = len;
	send.sent = on_sent;
	send.reply = on_reply;
	int ret = weft_peer_send(node, peer, &send);
	if (ret < 0)
		tell("refused", ret, "", 0);
}

static void obey(int letter, const uint8_t *data, size_t len)
{
	if (letter == 'F')
		send_frame(data, len);
	else if (letter == 'M')
		send_message(data, len);
	else if (letter == 'N')
		need("weft_peer_connect", weft_peer_connect(node, &net_addr, -1, &peer));
	else if (letter == 'C')
		need("weft_peer_close", weft_peer_close(node, peer, -1));
	else if (letter != 'T')
		die("a packet", -EINVAL);
	pass();
}

int main(void)
{
	static uint8_t data[FRAME_MAX];
	uint8_t head[5];
	begin();
	fflush(stdout);
	while (fread(head, 1, sizeof(head), stdin) == sizeof(head)) {
		size_t len = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16;
		if (len > sizeof(data) || fread(data, 1, len, stdin) != len)
			die("standard input", -EINVAL);
		obey(head[4], data, len);
	}
	int left = weft_node_close(node, 0) + weft_net_close(net);
	struct fake_left lost;
	fake_get_left(&lost);
	fake_remove_files();
	return left || lost.objects || lost.allocations || lost.files || fflush(stdout);
}
