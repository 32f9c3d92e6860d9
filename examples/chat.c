/* SPDX-License-Identifier: MIT */
/*
 * chat: two terminals talk. One waits and prints its address, the other connects to it; what is
 * typed on one side is shown on the other. It shows one session in a poll(2) loop of one's own,
 * what to do when the library has no room for a message, and how to close from either side.
 *
 *	chat [-p PROVIDER] [-b BIND]
 *		waits; over tcp without BIND, for one of this host
 *	chat [-p PROVIDER] [-b BIND] ADDRESS
 *		connects
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "escape.h"

#define LINE_MAX_LEN 2000

static struct weft_node *node;
static weft_peer peer = WEFT_PEER_NONE;
static char line[LINE_MAX_LEN]; /* what was read and not sent yet */
static size_t line_len;
static bool ended; /* there is nothing more to read */
static bool full;  /* the library has no room until the writable event */
static bool over;
static int status; /* of the process: 0 well, 1 not, 2 wrong usage */

static void failed(const char *what, const char *why)
{
	fprintf(stderr, "chat: %s: %s\n", what, why);
	status = 1;
}

/* Whatever a peer says may be meant for the terminal, so it is shown through this. */
static void show(FILE *to, const char *before, const void *text, size_t len)
{
	char shown[ESCAPE_MAX(LINE_MAX_LEN)];
	escape_bytes(shown, text, len < LINE_MAX_LEN ? len : LINE_MAX_LEN);
	fprintf(to, "%s%s\n", before, shown);
}

/* Sends what is there as whole lines, or in pieces where a line is too long for that. */
static void send_lines(void)
{
	while (line_len > 0) {
		const char *end = memchr(line, '\n', line_len);
		if (!end && line_len < LINE_MAX_LEN && !ended)
			return;
		size_t len = end ? (size_t)(end - line) : line_len;
		int ret = weft_peer_write(node, peer, line, len);
		full = ret == -ENOBUFS;
		if (full)
			return;
		if (ret < 0)
			failed("not sent", weft_strerror(ret));
		len += end != NULL;
		line_len -= len;
		memmove(line, line + len, line_len);
	}
	/* What was said before arrives first, if the other side takes it within 5 s. */
	if (ended && weft_peer_close(node, peer, 5000) < 0)
		over = true;
}

static void read_lines(void)
{
	ssize_t got = read(STDIN_FILENO, line + line_len, LINE_MAX_LEN - line_len);
	if (got > 0)
		line_len += (size_t)got;
	else
		ended = got == 0 || errno != EINTR;
	send_lines();
}

/* Two are company. A refusal has a number, from 1 on, which the two programs agree on. */
static int on_accept(struct weft_node *at, const struct weft_peer_info *info, void *user)
{
	(void)at, (void)info, (void)user;
	return peer == WEFT_PEER_NONE ? 0 : 1;
}

static void on_opened(struct weft_node *at, weft_peer who, const struct weft_peer_info *info,
		      void *user)
{
	char text[WEFT_ADDR_TEXT_MAX];
	(void)at, (void)user;
	/* Two may have been agreed to before the first of them is here. */
	if (peer != WEFT_PEER_NONE && peer != who) {
		weft_peer_close(node, who, 0);
		return;
	}
	peer = who;
	weft_addr_format(&info->addr, text, sizeof(text));
	printf("connected: %s\n", text);
}

static void on_message(struct weft_node *at, const struct weft_msg *msg, void *user)
{
	(void)at, (void)user;
	if (msg->peer == peer)
		show(stdout, "> ", msg->data, msg->len);
}

static void on_writable(struct weft_node *at, weft_peer who, void *user)
{
	(void)at, (void)who, (void)user;
	send_lines();
}

static void on_closed(struct weft_node *at, weft_peer who, const struct weft_closed *closed,
		      void *user)
{
	(void)at, (void)user;
	if (who != peer)
		return;
	/* text is the cause, advice the cure where one is known. */
	show(closed->status ? stderr : stdout,
	     closed->opened ? "over: " : "chat: not connected: ", closed->text,
	     strlen(closed->text));
	if (closed->advice)
		fprintf(stderr, "chat: %s\n", closed->advice);
	status = closed->status ? 1 : status;
	over = true;
}

static void on_log(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level <= WEFT_LOG_WARN)
		fprintf(stderr, "chat: %s\n", text);
}

static int open_node(const char *provider, const char *bind, const struct weft_addr *other)
{
	struct weft_net_opts net = WEFT_NET_OPTS_INIT;
	struct weft_node_opts opts = WEFT_NODE_OPTS_INIT;
	struct weft_events events = WEFT_EVENTS_INIT;
	net.provider = provider;
	net.bind = bind;
	net.toward = other; /* NULL: the best provider that there is */
	net.log = on_log;
	opts.net = &net;
	opts.max_message = LINE_MAX_LEN;
	events.accept = on_accept;
	events.opened = on_opened;
	events.message = on_message;
	events.writable = on_writable;
	events.closed = on_closed;
	return weft_node_open(&node, &opts, &events, NULL);
}

/* Sleeps until there is something to do, and does it. Returns a negative code at the end. */
static int turn(void)
{
	/* Before there is somebody to say it to, nothing is read. */
	bool reads = peer != WEFT_PEER_NONE && !ended && !full;
	struct pollfd fds[2] = {{.fd = weft_node_fd(node), .events = POLLIN},
				{.fd = reads ? STDIN_FILENO : -1, .events = POLLIN}};
	int ms = weft_node_arm(node);
	if (ms >= 0 && poll(fds, 2, ms == INT_MAX ? -1 : ms) > 0 && fds[1].revents)
		read_lines();
	return ms < 0 ? ms : weft_node_poll(node, 0);
}

int main(int argc, char **argv)
{
	const char *provider = NULL, *bind = NULL;
	char text[WEFT_ADDR_TEXT_MAX];
	struct weft_addr own, other;
	struct weft_parse_error error;
	bool wrong = false;
	int letter;
	opterr = 0;
	while ((letter = getopt(argc, argv, "p:b:")) != -1) {
		if (letter == 'p')
			provider = optarg;
		else if (letter == 'b')
			bind = optarg;
		else
			wrong = true;
	}
	if (wrong || argc > optind + 1) {
		fputs("usage: chat [-p PROVIDER] [-b BIND] [ADDRESS]\n", stderr);
		return 2;
	}
	const char *address = argv[optind];
	if (address && weft_addr_parse(&other, address, &error) < 0) {
		fprintf(stderr, "chat: '%s' is not an address: %s\n", address, error.reason);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	int ret = open_node(provider, bind, address ? &other : NULL);
	if (ret == 0 && address)
		ret = weft_peer_connect(node, &other, -1, &peer);
	if (ret == 0 && !address) {
		weft_node_get_addr(node, &own);
		weft_addr_format(&own, text, sizeof(text));
		printf("address: %s\nthe other side: %s '%s'\n", text, argv[0], text);
	}
	while (ret >= 0 && !over)
		ret = turn();
	if (ret < 0)
		failed("it does not work", weft_strerror(ret));
	weft_node_close(node, 2000);
	return status;
}
