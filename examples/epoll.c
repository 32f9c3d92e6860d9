/* SPDX-License-Identifier: MIT */
/*
 * epoll: a node in an epoll loop of one's own, beside a timer and standard input. Every second it
 * tells all its peers how many lines it has had so far, and at once what is typed; it shows what
 * they say. With an address it connects there. The end of standard input ends it.
 *
 *	epoll [-p PROVIDER] [ADDRESS]
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <weft/weft.h>

#include "escape.h"

enum { PEERS_MAX = 16, TEXT_MAX = 500 };

struct loop {
	struct weft_node *node;
	weft_peer peers[PEERS_MAX];
	size_t peer_count;
	unsigned lines;
	bool over;
};

static int fail(const char *what, int code)
{
	fprintf(stderr, "epoll: %s: %s\n", what, weft_strerror(code));
	return 1;
}

static void tell_all(struct loop *loop, const char *text, size_t len)
{
	for (size_t i = 0; i < loop->peer_count; i++) {
		int ret = weft_peer_write(loop->node, loop->peers[i], text, len);
		/* -ENOBUFS: this one is slow. What it misses here is soon told again, so nothing is
		 * kept. */
		if (ret < 0 && ret != -ENOBUFS)
			fail("not told", ret);
	}
}

static void on_opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
		      void *user)
{
	struct loop *loop = user;
	(void)info;
	/* This node takes no more than PEERS_MAX peers, see open_node(). */
	loop->peers[loop->peer_count++] = peer;
	weft_peer_write(node, peer, "hello", 5);
	printf("peers: %zu\n", loop->peer_count);
}

static void on_message(struct weft_node *node, const struct weft_msg *msg, void *user)
{
	char shown[ESCAPE_MAX(TEXT_MAX)];
	(void)node, (void)user;
	escape_bytes(shown, msg->data, msg->len);
	printf("> %s\n", shown);
}

static void on_closed(struct weft_node *node, weft_peer peer, const struct weft_closed *closed,
		      void *user)
{
	struct loop *loop = user;
	char shown[ESCAPE_MAX(TEXT_MAX)];
	(void)node;
	const char *advice = closed->advice ? closed->advice : "";
	escape_bytes(shown, (const uint8_t *)closed->text, strnlen(closed->text, TEXT_MAX));
	fprintf(stderr, "epoll: a peer is gone: %s %s\n", shown, advice);
	for (size_t i = 0; i < loop->peer_count; i++) {
		if (loop->peers[i] == peer)
			loop->peers[i] = loop->peers[--loop->peer_count];
	}
	printf("peers: %zu\n", loop->peer_count);
}

static void on_log(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level <= WEFT_LOG_WARN)
		fprintf(stderr, "epoll: %s\n", text);
}

static int open_node(struct loop *loop, const char *provider, const struct weft_addr *server)
{
	struct weft_net_opts net = WEFT_NET_OPTS_INIT;
	struct weft_node_opts opts = WEFT_NODE_OPTS_INIT;
	struct weft_events events = WEFT_EVENTS_INIT;
	weft_peer peer;
	net.provider = provider;
	net.toward = server;
	net.log = on_log;
	opts.net = &net;
	opts.max_peers = PEERS_MAX;
	opts.max_message = TEXT_MAX;
	events.opened = on_opened;
	events.message = on_message;
	events.closed = on_closed;
	int ret = weft_node_open(&loop->node, &opts, &events, loop);
	if (ret == 0 && server)
		ret = weft_peer_connect(loop->node, server, -1, &peer);
	return ret;
}

static void read_input(struct loop *loop)
{
	char text[TEXT_MAX];
	ssize_t got = read(STDIN_FILENO, text, sizeof(text));
	loop->over = got == 0 || (got < 0 && errno != EINTR);
	for (ssize_t i = 0; i < got; i++)
		loop->lines += text[i] == '\n';
	if (got > 0)
		tell_all(loop, text, (size_t)got);
}

static void read_timer(struct loop *loop, int timer)
{
	uint64_t passed;
	char text[64];
	if (read(timer, &passed, sizeof(passed)) != (ssize_t)sizeof(passed))
		return;
	int len = snprintf(text, sizeof(text), "%u lines so far", loop->lines);
	tell_all(loop, text, (size_t)len);
}

/* Runs until the end of standard input. Returns the exit status. */
static int run(struct loop *loop, int epoll, int timer)
{
	struct epoll_event ready[4];
	while (!loop->over) {
		/* Directly before the sleep: it says for how long at most, and makes the descriptor
		 * ready. */
		int ms = weft_node_arm(loop->node);
		if (ms < 0)
			return fail("the node is broken", ms);
		int count = epoll_wait(epoll, ready, 4, ms == INT_MAX ? -1 : ms);
		if (count < 0 && errno != EINTR)
			return fail("epoll_wait", -errno);
		for (int i = 0; i < count; i++) {
			if (ready[i].data.fd == STDIN_FILENO)
				read_input(loop);
			else if (ready[i].data.fd == timer)
				read_timer(loop, timer);
		}
		/* Whatever it was that woke the loop: the node has timers of its own. */
		int ret = weft_node_poll(loop->node, 0);
		if (ret < 0)
			return fail("the node is broken", ret);
	}
	return 0;
}

static int watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int main(int argc, char **argv)
{
	struct loop loop = {.node = NULL};
	const char *provider = argc > 2 && strcmp(argv[1], "-p") == 0 ? argv[2] : NULL;
	const char *address = argv[provider ? 3 : 1];
	const struct itimerspec second = {{1, 0}, {1, 0}};
	struct weft_addr server, own;
	char text[WEFT_ADDR_TEXT_MAX];
	if (argc > (provider ? 4 : 2) || (address && weft_addr_parse(&server, address, NULL) < 0)) {
		fputs("usage: epoll [-p PROVIDER] [ADDRESS], such as tcp://127.0.0.1:7000\n",
		      stderr);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	int ret = open_node(&loop, provider, address ? &server : NULL);
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (ret == 0 && (epoll < 0 || timer < 0 || timerfd_settime(timer, 0, &second, NULL) < 0))
		ret = -errno;
	if (ret == 0)
		ret = watch(epoll, weft_node_fd(loop.node));
	/* A terminal or a pipe can be watched, a file cannot: -EPERM, since it is always ready. */
	if (ret == 0)
		ret = watch(epoll, STDIN_FILENO);
	if (ret == 0)
		ret = watch(epoll, timer);
	if (ret == 0 && weft_node_get_addr(loop.node, &own) == 0 &&
	    weft_addr_format(&own, text, sizeof(text)) > 0)
		printf("address: %s\n", text);
	int status = ret < 0 ? fail("cannot begin", ret) : run(&loop, epoll, timer);
	weft_node_close(loop.node, 2000);
	return status;
}
