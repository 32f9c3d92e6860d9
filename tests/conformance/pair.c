/* SPDX-License-Identifier: MIT */
/* Two nets in one process, for the conformance tests. Uses the public header only. */
#include "pair.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

const char *provider(void)
{
	const char *name = getenv("WEFT_TEST_PROVIDER");
	return name ? name : "tcp";
}

bool provider_is(const char *name)
{
	return strcmp(provider(), name) == 0;
}

static void log_line(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level <= WEFT_LOG_WARN)
		fprintf(stderr, "log %d: %s\n", (int)level, text);
}

struct weft_net_opts test_opts(void)
{
	struct weft_net_opts opts = WEFT_NET_OPTS_INIT;
	opts.provider = provider();
	opts.log = log_line;
	return opts;
}

int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct weft_net *open_net(const struct weft_net_opts *opts)
{
	struct weft_net *net = NULL;
	int ret = weft_net_open(&net, opts);
	if (ret < 0)
		fail_msg("weft_net_open: %s", weft_strerror(ret));
	return net;
}

void pair_open(struct pair *pair, const struct weft_net_opts *opts)
{
	struct weft_addr addr;
	pair->a = open_net(opts);
	pair->b = open_net(opts);
	assert_int_equal(weft_net_get_addr(pair->b, &addr), 0);
	assert_int_equal(weft_net_add_peer(pair->a, &addr, &pair->a_to_b), 0);
	assert_int_equal(weft_net_get_addr(pair->a, &addr), 0);
	assert_int_equal(weft_net_add_peer(pair->b, &addr, &pair->b_to_a), 0);
}

void pair_close(struct pair *pair)
{
	assert_true(weft_net_close(pair->a) >= 0);
	assert_true(weft_net_close(pair->b) >= 0);
}

void record(struct weft_net *net, const struct weft_done *done)
{
	struct outcome *out = done->user;
	(void)net;
	assert_int_equal(done->size, sizeof(*done));
	assert_non_null(done->text);
	out->calls++;
	out->status = done->status;
	out->prov_errno = done->prov_errno;
	snprintf(out->text, sizeof(out->text), "%s", done->text);
	out->buf = done->buf;
	out->len = done->len;
	out->tag = done->tag;
	out->source = done->source;
	out->cq_data = done->cq_data;
	out->flags = done->flags;
}

void poll_until(struct weft_net *a, struct weft_net *b, const int *calls, int want)
{
	int64_t end = now_ms() + PATIENCE_MS;
	while (*calls < want) {
		assert_true(weft_net_poll(a, 0) >= 0);
		if (b)
			assert_true(weft_net_poll(b, 0) >= 0);
		if (now_ms() > end)
			fail_msg("%d of %d callbacks after %d ms", *calls, want, PATIENCE_MS);
	}
}

static uint8_t byte_at(size_t i, unsigned seed)
{
	return (uint8_t)(i * 31 + i / 251 + seed);
}

void fill(struct weft_buf *buf, size_t size, unsigned seed)
{
	uint8_t *data = weft_buf_data(buf);
	for (size_t i = 0; i < size; i++)
		data[i] = byte_at(i, seed);
}

struct weft_buf *filled(struct weft_net *net, size_t size, unsigned seed)
{
	struct weft_buf *buf;
	assert_int_equal(weft_buf_alloc(net, size, &buf), 0);
	assert_int_equal(weft_buf_size(buf), size);
	fill(buf, size, seed);
	return buf;
}

bool is_filled(struct weft_buf *buf, size_t size, unsigned seed)
{
	const uint8_t *data = weft_buf_data(buf);
	for (size_t i = 0; i < size; i++) {
		if (data[i] != byte_at(i, seed))
			return false;
	}
	return true;
}

struct weft_post whole(struct weft_buf *buf)
{
	struct weft_post post = WEFT_POST_INIT;
	post.buf = buf;
	post.len = weft_buf_size(buf);
	post.timeout_ms = PATIENCE_MS;
	return post;
}

void exchange(struct pair *pair, struct weft_buf *from, struct weft_buf *into, size_t len)
{
	struct outcome sent = {0}, received = {0};
	struct weft_post post = whole(from);
	post.len = len;
	assert_int_equal(weft_net_recv(pair->b, into, record, &received), 0);
	assert_int_equal(weft_net_send(pair->a, pair->a_to_b, &post, record, &sent), 0);
	assert_int_equal(sent.calls + received.calls, 0);
	poll_until(pair->a, pair->b, &received.calls, 1);
	poll_until(pair->a, pair->b, &sent.calls, 1);
	assert_int_equal(received.status, 0);
	assert_int_equal(received.len, len);
	assert_ptr_equal(received.buf, into);
	assert_int_equal(sent.status, 0);
	assert_int_equal(sent.len, len);
	assert_int_equal(sent.source, pair->a_to_b);
}

static int absent_socket = -1;

void numbered_efa_addr(struct weft_addr *addr, int host, uint16_t qpn)
{
	static struct weft_addr own;
	static const uint8_t key[4] = {1, 2, 3, 4};
	if (own.len == 0) {
		struct weft_net_opts opts = test_opts();
		struct weft_net *net = open_net(&opts);
		assert_int_equal(weft_net_get_addr(net, &own), 0);
		assert_int_equal(weft_net_close(net), 0);
	}
	*addr = own;
	if (host >= 0)
		addr->raw[15] = (uint8_t)host;
	/* In the host's byte order, as libfabric has it. */
	memcpy(addr->raw + 16, &qpn, sizeof(qpn));
	memcpy(addr->raw + 20, key, sizeof(key));
}

void absent_addr(struct weft_addr *addr)
{
	struct weft_parse_error error;
	char text[64];
	if (provider_is("shm")) {
		snprintf(text, sizeof(text), "shm://weft-nobody-%d", (int)getpid());
	} else {
		/*
		 * A socket that is bound, and neither listens nor answers, keeps the port from
		 * everybody else.
		 */
		struct sockaddr_in in = {.sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		socklen_t len = sizeof(in);
		int type = provider_is("udp") || provider_is("efa") ? SOCK_DGRAM : SOCK_STREAM;
		absent_socket = socket(AF_INET, type, 0);
		assert_true(absent_socket >= 0);
		assert_int_equal(bind(absent_socket, (struct sockaddr *)&in, len), 0);
		assert_int_equal(getsockname(absent_socket, (struct sockaddr *)&in, &len), 0);
		if (provider_is("efa")) {
			/* The software device's queue numbers are UDP ports. */
			numbered_efa_addr(addr, -1, ntohs(in.sin_port));
			return;
		}
		snprintf(text, sizeof(text), "%s://127.0.0.1:%d", provider(), ntohs(in.sin_port));
	}
	assert_int_equal(weft_addr_parse(addr, text, &error), 0);
}

void absent_done(void)
{
	if (absent_socket >= 0)
		close(absent_socket);
	absent_socket = -1;
}
