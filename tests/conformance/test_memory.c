/* SPDX-License-Identifier: MIT */
/* Buffers and one-sided access: who owns what until when, and what reaches whom. */
#include <errno.h>
#include <stdlib.h>

#include "pair.h"

static void buffers_are_aligned_and_counted(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *net = open_net(&opts);
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	static const size_t sizes[] = {1, 4095, 4096, 4097, 1 << 20};
	struct weft_buf *buf[5];
	(void)state;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(weft_buf_alloc(net, sizes[i], &buf[i]), 0);
		assert_int_equal((uintptr_t)weft_buf_data(buf[i]) % 4096, 0);
		const uint8_t *data = weft_buf_data(buf[i]);
		assert_true(data[0] == 0 && data[sizes[i] - 1] == 0);
	}
	weft_net_get_stats(net, &stats);
	assert_int_equal(stats.buffers, 5);
	assert_int_equal(stats.buffer_bytes, 1 + 4095 + 4096 + 4097 + (1 << 20));
	assert_ptr_equal(weft_buf_ref(buf[0]), buf[0]);
	weft_buf_unref(buf[0]);
	for (int i = 0; i < 4; i++)
		weft_buf_unref(buf[i]);
	weft_net_get_stats(net, &stats);
	assert_int_equal(stats.buffers, 1);
	assert_int_equal(weft_buf_alloc(net, 0, &buf[0]), -EINVAL);
	assert_int_equal(weft_buf_alloc(net, SIZE_MAX - 10, &buf[0]), -ENOMEM);
	weft_buf_unref(NULL);
	assert_int_equal(weft_net_close(net), 0);
	assert_int_equal(weft_buf_size(buf[4]), 1 << 20);
	memset(weft_buf_data(buf[4]), 1, 1 << 20);
	weft_buf_unref(buf[4]);
}

struct released {
	int calls;
	void *data;
	size_t size;
};

static void note_release(void *data, size_t size, void *user)
{
	struct released *released = user;
	released->calls++;
	released->data = data;
	released->size = size;
}

static void wrapped_memory_is_given_back_once(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	static uint8_t mine[3][5000];
	struct released released[3] = {0};
	struct weft_buf *buf[3];
	struct outcome sent = {0}, received = {0};
	(void)state;
	pair_open(&pair, &opts);
	assert_int_equal(weft_buf_wrap(pair.a, NULL, 10, NULL, NULL, &buf[0]), -EINVAL);
	assert_int_equal(weft_buf_wrap(pair.a, mine[0], 0, NULL, NULL, &buf[0]), -EINVAL);
	for (int i = 0; i < 3; i++) {
		struct weft_net *net = i == 1 ? pair.b : pair.a;
		assert_int_equal(
			weft_buf_wrap(net, mine[i], 5000, note_release, &released[i], &buf[i]), 0);
		assert_ptr_equal(weft_buf_data(buf[i]), mine[i]);
	}
	fill(buf[0], 5000, 3);
	struct weft_post post = whole(buf[0]);
	assert_int_equal(weft_net_recv(pair.b, buf[1], record, &received), 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	/* Dropped while the device has them, they come back when it has let go. */
	weft_buf_unref(buf[0]);
	weft_buf_unref(buf[1]);
	assert_int_equal(released[1].calls, 0);
	poll_until(pair.a, pair.b, &received.calls, 1);
	poll_until(pair.a, pair.b, &sent.calls, 1);
	assert_memory_equal(mine[0], mine[1], 5000);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(released[i].calls, 1);
		assert_ptr_equal(released[i].data, mine[i]);
		assert_int_equal(released[i].size, 5000);
	}
	/* One that the device never lets go of comes back at close. */
	assert_int_equal(weft_net_recv(pair.a, buf[2], record, &received), 0);
	weft_buf_unref(buf[2]);
	assert_int_equal(released[2].calls, 0);
	pair_close(&pair);
	assert_int_equal(released[2].calls, 1);
}

struct closer {
	struct weft_net *net;
	int calls;
	int poll_ret, close_ret;
};

static void close_from_release(void *data, size_t size, void *user)
{
	struct closer *closer = user;
	(void)data;
	(void)size;
	closer->calls++;
	closer->poll_ret = weft_net_poll(closer->net, 0);
	closer->close_ret = weft_net_close(closer->net);
}

/* A net must not vanish under what gives the memory back, whoever drops the last reference. */
static void release_cannot_close_the_net(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct closer closer[3] = {0};
	static uint8_t mine[3][100];
	struct weft_buf *buf[3];
	struct outcome sent = {0}, received = {0};
	struct pair pair;
	(void)state;
	pair_open(&pair, &opts);
	for (int i = 0; i < 3; i++) {
		closer[i] = (struct closer){.net = pair.a};
		assert_int_equal(weft_buf_wrap(pair.a, mine[i], 100, close_from_release, &closer[i],
					       &buf[i]),
				 0);
	}
	struct weft_buf *into = filled(pair.b, 100, 0);
	struct weft_post post = whole(buf[0]);
	/* From a completion, from the caller's own unref, and from close. */
	assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	weft_buf_unref(buf[0]);
	poll_until(pair.a, pair.b, &received.calls, 1);
	poll_until(pair.a, pair.b, &sent.calls, 1);
	weft_buf_unref(buf[1]);
	assert_int_equal(weft_net_recv(pair.a, buf[2], record, &received), 0);
	weft_buf_unref(buf[2]);
	weft_buf_unref(into);
	pair_close(&pair);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(closer[i].calls, 1);
		assert_int_equal(closer[i].poll_ret, -EBUSY);
		assert_int_equal(closer[i].close_ret, -EBUSY);
	}
}

static void one_sided_read_and_write(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	struct weft_remote remote, again;
	struct outcome out = {0};
	(void)state;
	pair_open(&pair, &opts);
	weft_net_get_info(pair.a, &info);
	struct weft_buf *near = filled(pair.a, 8192, 1);
	struct weft_buf *far = filled(pair.b, 8192, 2);
	struct weft_post post = whole(near);
	if (!info.has_rma) {
		assert_int_equal(weft_buf_share(far, WEFT_ACCESS_READ, &remote), -EOPNOTSUPP);
		assert_int_equal(weft_net_read(pair.a, pair.a_to_b, &post, record, &out),
				 -EOPNOTSUPP);
		goto close;
	}
	assert_int_equal(weft_buf_share(far, 0, &remote), -EINVAL);
	assert_int_equal(weft_buf_share(far, 8, &remote), -EINVAL);
	assert_int_equal(weft_buf_share(far, WEFT_ACCESS_READ | WEFT_ACCESS_WRITE, &remote), 0);
	assert_int_equal(weft_buf_share(far, WEFT_ACCESS_READ | WEFT_ACCESS_WRITE, &again), 0);
	assert_memory_equal(&remote, &again, sizeof(remote));
	assert_int_equal(weft_buf_share(far, WEFT_ACCESS_READ, &again), -EALREADY);
	assert_int_equal(remote.len, 8192);

	post.remote_addr = remote.addr;
	post.remote_key = remote.key;
	assert_int_equal(weft_net_read(pair.a, pair.a_to_b, &post, record, &out), 0);
	poll_until(pair.a, pair.b, &out.calls, 1);
	assert_int_equal(out.status, 0);
	assert_int_equal(out.len, 8192);
	assert_true(is_filled(near, 8192, 2));

	fill(near, 8192, 3);
	post.len = 4000;
	post.off = 96;
	post.remote_addr = remote.addr + 96;
	assert_int_equal(weft_net_write(pair.a, pair.a_to_b, &post, record, &out), 0);
	poll_until(pair.a, pair.b, &out.calls, 2);
	assert_int_equal(out.status, 0);
	/*
	 * A write is done before its bytes are seen at the far side, where nothing tells of them.
	 */
	uint8_t *data = weft_buf_data(far);
	for (int64_t end = now_ms() + PATIENCE_MS;
	     memcmp(data + 96, (uint8_t *)weft_buf_data(near) + 96, 4000) != 0;) {
		weft_net_poll(pair.a, 0);
		weft_net_poll(pair.b, 0);
		assert_true(now_ms() < end);
	}
	struct weft_buf *untouched = filled(pair.b, 8192, 2);
	assert_memory_equal(data, weft_buf_data(untouched), 96);
	assert_memory_equal(data + 4096, (uint8_t *)weft_buf_data(untouched) + 4096, 4096);
	weft_buf_unref(untouched);

	post.flags = WEFT_POST_CQ_DATA;
	assert_int_equal(weft_net_write(pair.a, pair.a_to_b, &post, record, &out), -EINVAL);
close:
	weft_buf_unref(near);
	weft_buf_unref(far);
	pair_close(&pair);
}

/* No provider tells when a peer's access has ended, so what is shared stays until the net is
 * closed. */
static void shared_memory_stays_until_close(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *net = open_net(&opts);
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	struct released released = {0};
	struct weft_remote remote;
	static uint8_t mine[100];
	struct weft_buf *buf;
	(void)state;
	weft_net_get_info(net, &info);
	assert_int_equal(weft_buf_wrap(net, mine, 100, note_release, &released, &buf), 0);
	if (info.has_rma)
		assert_int_equal(weft_buf_share(buf, WEFT_ACCESS_READ, &remote), 0);
	weft_buf_unref(buf);
	assert_int_equal(released.calls, info.has_rma ? 0 : 1);
	assert_int_equal(weft_net_close(net), 0);
	assert_int_equal(released.calls, 1);
}

static void keys_cannot_be_guessed(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *net = open_net(&opts);
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	struct weft_remote remote[16];
	struct weft_buf *buf[16];
	(void)state;
	weft_net_get_info(net, &info);
	if (!info.has_rma) {
		assert_int_equal(weft_net_close(net), 0);
		skip();
	}
	uint64_t high = 0;
	for (int i = 0; i < 16; i++) {
		assert_int_equal(weft_buf_alloc(net, 100, &buf[i]), 0);
		assert_int_equal(weft_buf_share(buf[i], WEFT_ACCESS_READ, &remote[i]), 0);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(remote[i].key, remote[j].key);
		high |= remote[i].key >> 32;
	}
	/* Those of efa are the device's, and have 32 bits. */
	assert_true((high != 0) == !provider_is("efa"));
	for (int i = 0; i < 16; i++)
		weft_buf_unref(buf[i]);
	assert_int_equal(weft_net_close(net), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffers_are_aligned_and_counted),
		cmocka_unit_test(wrapped_memory_is_given_back_once),
		cmocka_unit_test(release_cannot_close_the_net),
		cmocka_unit_test(one_sided_read_and_write),
		cmocka_unit_test(shared_memory_stays_until_close),
		cmocka_unit_test(keys_cannot_be_guessed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
