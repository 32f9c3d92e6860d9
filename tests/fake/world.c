/* SPDX-License-Identifier: MIT */
/* What the tests on the fake fabric have in common. */
#include "world.h"

#include <stdio.h>

#define LINES 64

static struct {
	enum weft_log_level level;
	char text[400];
} lines[LINES];
static size_t line_count;
static int callbacks;

int world_setup(void **state)
{
	(void)state;
	fake_reset();
	line_count = 0;
	callbacks = 0;
	return 0;
}

int world_teardown(void **state)
{
	struct fake_left left;
	(void)state;
	fake_get_left(&left);
	assert_int_equal(left.objects, 0);
	assert_int_equal(left.works, 0);
	assert_int_equal(left.allocations, 0);
	assert_int_equal(left.files, 0);
	return 0;
}

int world_end(int failed)
{
	fake_reset();
	return failed;
}

static void keep_line(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (line_count == LINES)
		line_count = 0;
	lines[line_count].level = level;
	snprintf(lines[line_count++].text, sizeof(lines[0].text), "%s", text);
}

struct weft_net_opts quiet_opts(void)
{
	struct weft_net_opts opts = WEFT_NET_OPTS_INIT;
	opts.log = keep_line;
	return opts;
}

bool logged(enum weft_log_level level, const char *words)
{
	bool found = false;
	for (size_t i = 0; i < line_count; i++)
		found = found || (lines[i].level == level && strstr(lines[i].text, words));
	for (size_t i = 0; !found && i < line_count; i++)
		fprintf(stderr, "log %d: %s\n", (int)lines[i].level, lines[i].text);
	line_count = 0;
	return found;
}

bool logged_any(enum weft_log_level level)
{
	bool found = false;
	for (size_t i = 0; i < line_count; i++)
		found = found || lines[i].level <= level;
	line_count = 0;
	return found;
}

struct weft_net *net_open(const struct weft_net_opts *opts)
{
	struct weft_net *net = NULL;
	int ret = weft_net_open(&net, opts);
	if (ret < 0) {
		logged(WEFT_LOG_ERROR, "the reason");
		fail_msg("weft_net_open: %s", weft_strerror(ret));
	}
	return net;
}

void refused(const struct weft_net_opts *opts, int code, const char *words)
{
	struct weft_net *net = NULL;
	int ret = weft_net_open(&net, opts);
	if (ret != code)
		fail_msg("open gave %d (%s), not %d", ret, weft_strerror(ret), code);
	assert_null(net);
	assert_true(logged(WEFT_LOG_ERROR, words));
}

struct weft_addr net_addr(struct weft_net *net)
{
	struct weft_addr addr;
	assert_int_equal(weft_net_get_addr(net, &addr), 0);
	return addr;
}

struct weft_net_stats net_stats(struct weft_net *net)
{
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	assert_int_equal(weft_net_get_stats(net, &stats), 0);
	return stats;
}

void pair_open(struct pair *pair, const struct fake_provider *provider,
	       const struct weft_net_opts *opts)
{
	struct weft_net_opts mine = opts ? *opts : quiet_opts();
	pair->provider = fake_offer(provider);
	mine.provider = provider->name;
	pair->a = net_open(&mine);
	pair->b = net_open(&mine);
	pair->a_addr = net_addr(pair->a);
	pair->b_addr = net_addr(pair->b);
	assert_int_equal(weft_net_add_peer(pair->a, &pair->b_addr, &pair->a_to_b), 0);
	assert_int_equal(weft_net_add_peer(pair->b, &pair->a_addr, &pair->b_to_a), 0);
}

void pair_close(struct pair *pair)
{
	assert_int_equal(weft_net_close(pair->a), 0);
	assert_int_equal(weft_net_close(pair->b), 0);
}

void record(struct weft_net *net, const struct weft_done *done)
{
	struct outcome *out = done->user;
	(void)net;
	assert_int_equal(done->size, sizeof(*done));
	assert_non_null(done->text);
	assert_true((done->status == 0) == (done->text[0] == 0));
	assert_true(done->status <= 0);
	out->calls++;
	out->status = done->status;
	out->prov_errno = done->prov_errno;
	snprintf(out->text, sizeof(out->text), "%s", done->text);
	out->advice = done->advice;
	out->buf = done->buf;
	out->off = done->off;
	out->len = done->len;
	out->tag = done->tag;
	out->cq_data = done->cq_data;
	out->source = done->source;
	out->flags = done->flags;
	out->order = ++callbacks;
}

void pass(struct weft_net *a, struct weft_net *b, int64_t ms)
{
	for (int64_t end = fake_now_ns() + ms * FAKE_NS_PER_MS; fake_now_ns() < end;) {
		assert_true(weft_net_poll(a, 0) >= 0);
		if (b)
			assert_true(weft_net_poll(b, 0) >= 0);
		fake_advance_ns(FAKE_NS_PER_MS / 4);
	}
}

void pass_until(struct weft_net *a, struct weft_net *b, const int *calls, int want)
{
	int64_t end = fake_now_ns() + (int64_t)100000 * FAKE_NS_PER_MS;
	while (*calls < want) {
		pass(a, b, 1);
		if (fake_now_ns() > end)
			fail_msg("%d of %d callbacks after 100 s", *calls, want);
	}
}

static uint8_t byte_at(size_t i, unsigned seed)
{
	return (uint8_t)(i * 31 + i / 251 + seed);
}

struct weft_buf *filled(struct weft_net *net, size_t size, unsigned seed)
{
	struct weft_buf *buf;
	assert_int_equal(weft_buf_alloc(net, size, &buf), 0);
	uint8_t *data = weft_buf_data(buf);
	for (size_t i = 0; i < size; i++)
		data[i] = byte_at(i, seed);
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
	post.len = buf ? weft_buf_size(buf) : 0;
	return post;
}

void exchange(struct pair *pair)
{
	static unsigned seed;
	struct outcome sent = {0}, received = {0};
	struct weft_buf *from = filled(pair->a, 100, ++seed);
	struct weft_buf *into = filled(pair->b, 200, 0);
	struct weft_post post = whole(from);
	assert_int_equal(weft_net_recv(pair->b, into, record, &received), 0);
	assert_int_equal(weft_net_send(pair->a, pair->a_to_b, &post, record, &sent), 0);
	assert_int_equal(sent.calls + received.calls, 0);
	pass_until(pair->a, pair->b, &received.calls, 1);
	pass_until(pair->a, pair->b, &sent.calls, 1);
	assert_int_equal(received.status, 0);
	assert_int_equal(received.len, 100);
	assert_ptr_equal(received.buf, into);
	assert_true(is_filled(into, 100, seed));
	assert_int_equal(sent.status, 0);
	assert_int_equal(sent.len, 100);
	assert_int_equal(sent.source, pair->a_to_b);
	assert_ptr_equal(sent.buf, from);
	weft_buf_unref(from);
	weft_buf_unref(into);
}

weft_dest add_nobody(struct weft_net *net, struct weft_addr *addr)
{
	weft_dest dest;
	struct weft_addr nobody = net_addr(net);
	/* In every form of address these bytes may be anything but zero. */
	nobody.raw[nobody.scheme == WEFT_SCHEME_EFA ? 16 : 3] ^= 0x15;
	assert_int_equal(weft_net_add_peer(net, &nobody, &dest), 0);
	if (addr)
		*addr = nobody;
	return dest;
}
