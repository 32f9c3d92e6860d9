/* SPDX-License-Identifier: MIT */
/* Buffers on the fake fabric: registration, keys, one-sided access, and who may free what when. */
#include "world.h"

#include <errno.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

static void memory_is_registered_for_what_it_is_for(void **state)
{
	struct pair pair;
	struct weft_remote remote;
	uint64_t key = 0;
	size_t len;
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	struct weft_buf *buf = filled(pair.a, 5000, 0);
	/* The near side of reads and writes; nothing is open to the far side. */
	assert_int_equal(fake_access_of(weft_buf_data(buf)),
			 FI_SEND | FI_RECV | FI_READ | FI_WRITE);
	static const struct {
		unsigned access;
		uint64_t flags;
	} rows[] = {
		{WEFT_ACCESS_READ, FI_REMOTE_READ},
		{WEFT_ACCESS_WRITE, FI_REMOTE_WRITE},
		{WEFT_ACCESS_READ | WEFT_ACCESS_WRITE, FI_REMOTE_READ | FI_REMOTE_WRITE},
	};
	for (int i = 0; i < 3; i++) {
		struct weft_buf *shared = filled(pair.a, 100, 0);
		assert_int_equal(weft_buf_share(shared, rows[i].access, &remote), 0);
		assert_int_equal(fake_key_access(remote.key, &len), rows[i].flags);
		assert_int_equal(len, 100);
		assert_int_equal(remote.len, 100);
		assert_int_equal(remote.addr, 0);
		key = remote.key;
		assert_int_equal(weft_buf_share(shared, rows[i].access, &remote), 0);
		assert_int_equal(remote.key, key);
		assert_int_equal(weft_buf_share(shared, rows[i].access == 1 ? 2 : 1, &remote),
				 -EALREADY);
		/* Nothing tells when a peer's access has ended, so it stays until the net is
		 * closed. */
		weft_buf_unref(shared);
		assert_int_equal(fake_key_access(key, &len), rows[i].flags);
		assert_int_equal(net_stats(pair.a).buffers, i + 2);
	}
	assert_int_equal(weft_buf_share(buf, 0, &remote), -EINVAL);
	assert_int_equal(weft_buf_share(buf, 4, &remote), -EINVAL);
	weft_buf_unref(buf);
	pair_close(&pair);
	assert_int_equal(fake_key_access(key, &len), 0);

	fake_reset();
	pair_open(&pair, &fake_raw, NULL);
	buf = filled(pair.a, 10, 0);
	assert_int_equal(fake_access_of(weft_buf_data(buf)), FI_SEND | FI_RECV);
	assert_int_equal(weft_buf_share(buf, WEFT_ACCESS_READ, &remote), -EOPNOTSUPP);
	weft_buf_unref(buf);
	pair_close(&pair);
}

static void one_sided_both_ways(void **state)
{
	static const struct fake_provider *const kinds[] = {&fake_tcp, &fake_shm, &fake_efa};
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct pair pair;
		struct weft_remote remote;
		struct outcome out = {0};
		fake_reset();
		pair_open(&pair, kinds[i], NULL);
		struct weft_buf *near = filled(pair.a, 1000, 1);
		struct weft_buf *far = filled(pair.b, 1000, 2);
		assert_int_equal(weft_buf_share(far, WEFT_ACCESS_READ | WEFT_ACCESS_WRITE, &remote),
				 0);
		assert_int_equal(remote.addr, i == 0 ? 0 : (uint64_t)(uintptr_t)weft_buf_data(far));
		struct weft_post post = whole(near);
		post.remote_addr = remote.addr;
		post.remote_key = remote.key;
		assert_int_equal(weft_net_read(pair.a, pair.a_to_b, &post, record, &out), 0);
		pass_until(pair.a, pair.b, &out.calls, 1);
		assert_int_equal(out.status, 0);
		assert_int_equal(out.len, 1000);
		assert_true(is_filled(near, 1000, 2));
		memset(weft_buf_data(near), 0x77, 1000);
		post.off = 10;
		post.len = 900;
		post.remote_addr += 50;
		assert_int_equal(weft_net_write(pair.a, pair.a_to_b, &post, record, &out), 0);
		pass_until(pair.a, pair.b, &out.calls, 2);
		assert_int_equal(out.status, 0);
		const uint8_t *data = weft_buf_data(far);
		assert_true(data[50] == 0x77 && data[949] == 0x77);
		assert_true(is_filled(far, 50, 2));
		assert_false(data[950] == 0x77 && data[951] == 0x77);
		/* Beyond the end, and with a key that nobody has. */
		post.remote_addr += 60;
		assert_int_equal(weft_net_write(pair.a, pair.a_to_b, &post, record, &out), 0);
		pass_until(pair.a, pair.b, &out.calls, 3);
		assert_int_equal(out.status, -FI_EACCES);
		assert_int_equal(out.prov_errno, 7);
		assert_true((out.advice != NULL) == (i == 2));
		post.remote_addr -= 60;
		post.remote_key ^= 1;
		assert_int_equal(weft_net_read(pair.a, pair.a_to_b, &post, record, &out), 0);
		pass_until(pair.a, pair.b, &out.calls, 4);
		assert_int_equal(out.status, -FI_EACCES);
		assert_int_equal(net_stats(pair.a).sent, 2);
		post.flags = WEFT_POST_CQ_DATA;
		assert_int_equal(weft_net_write(pair.a, pair.a_to_b, &post, record, &out), -EINVAL);
		weft_buf_unref(near);
		weft_buf_unref(far);
		pair_close(&pair);
	}
}

static void keys_that_collide_are_chosen_anew(void **state)
{
	struct pair pair;
	struct weft_buf *buf;
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	fake_refuse("fi_mr_reg", NULL, FI_ENOKEY, 7);
	assert_int_equal(weft_buf_alloc(pair.a, 10, &buf), 0);
	assert_int_equal(fake_calls("fi_mr_reg"), 8);
	assert_int_equal(fake_calls("getrandom"), 8);
	fake_refuse("fi_mr_reg", NULL, FI_ENOKEY, 8);
	struct weft_buf *other;
	assert_int_equal(weft_buf_alloc(pair.a, 10, &other), -FI_ENOKEY);
	assert_true(logged(WEFT_LOG_ERROR, "cannot register 10 bytes"));
	fake_refuse("fi_mr_reg", NULL, FI_ENOMEM, 1);
	assert_int_equal(weft_buf_alloc(pair.a, 10, &other), -ENOMEM);
	assert_true(logged(WEFT_LOG_ERROR, "RLIMIT_MEMLOCK"));
	fake_refuse("getrandom", NULL, ENOSYS, 1);
	assert_int_equal(weft_buf_alloc(pair.a, 10, &other), -ENOSYS);
	weft_buf_unref(buf);
	pair_close(&pair);

	/* Keys of two bytes are as random as two bytes can be, and fit. */
	fake_reset();
	pair_open(&pair, &fake_raw, NULL);
	struct weft_buf *many[200];
	for (int i = 0; i < 200; i++)
		many[i] = filled(pair.a, 1, 0);
	exchange(&pair);
	for (int i = 0; i < 200; i++)
		weft_buf_unref(many[i]);
	pair_close(&pair);

	/* Where the provider chooses, no random number is spent. */
	fake_reset();
	pair_open(&pair, &fake_efa, NULL);
	buf = filled(pair.a, 1, 0);
	assert_int_equal(fake_calls("getrandom"), 0);
	weft_buf_unref(buf);
	pair_close(&pair);
}

static void whole_pages_are_allocated(void **state)
{
	struct pair pair;
	struct weft_buf *buf;
	static const size_t sizes[] = {1, 4095, 4096, 4097, 100000};
	size_t total = 0;
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	struct weft_buf *all[5];
	for (int i = 0; i < 5; i++) {
		assert_int_equal(weft_buf_alloc(pair.a, sizes[i], &all[i]), 0);
		assert_int_equal(weft_buf_size(all[i]), sizes[i]);
		const uint8_t *data = weft_buf_data(all[i]);
		assert_int_equal((uintptr_t)data % 4096, 0);
		for (size_t k = 0; k < (sizes[i] + 4095) / 4096 * 4096; k++)
			assert_int_equal(data[k], 0);
		total += sizes[i];
		assert_int_equal(net_stats(pair.a).buffers, i + 1);
		assert_int_equal(net_stats(pair.a).buffer_bytes, total);
	}
	assert_int_equal(weft_buf_alloc(pair.a, 0, &buf), -EINVAL);
	assert_int_equal(weft_buf_alloc(pair.a, SIZE_MAX, &buf), -ENOMEM);
	assert_int_equal(weft_buf_alloc(pair.a, SIZE_MAX - 4095, &buf), -ENOMEM);
	for (int i = 0; i < 5; i++)
		weft_buf_unref(all[i]);
	assert_int_equal(net_stats(pair.a).buffers, 0);
	assert_int_equal(net_stats(pair.a).buffer_bytes, 0);
	weft_buf_unref(NULL);
	pair_close(&pair);
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

static void references_keep_buffers(void **state)
{
	struct pair pair;
	struct outcome received = {0}, sent = {0};
	struct released released = {0};
	static uint8_t mine[64];
	struct weft_buf *buf;
	(void)state;
	pair_open(&pair, &fake_udp, NULL);
	assert_int_equal(weft_buf_wrap(pair.b, NULL, 64, note_release, &released, &buf), -EINVAL);
	assert_int_equal(weft_buf_wrap(pair.b, mine, 0, note_release, &released, &buf), -EINVAL);
	fake_refuse("fi_mr_reg", NULL, FI_EFAULT, 1);
	assert_int_equal(weft_buf_wrap(pair.b, mine, 64, note_release, &released, &buf),
			 -FI_EFAULT);
	assert_int_equal(weft_buf_wrap(pair.b, mine, 64, note_release, &released, &buf), 0);
	assert_ptr_equal(weft_buf_ref(buf), buf);
	assert_int_equal(weft_net_recv(pair.b, buf, record, &received), 0);
	weft_buf_unref(buf);
	weft_buf_unref(buf);
	assert_int_equal(released.calls, 0);
	struct weft_buf *from = filled(pair.a, 64, 5);
	struct weft_post post = whole(from);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	weft_buf_unref(from);
	assert_int_equal(net_stats(pair.a).buffers, 1);
	pass_until(pair.a, pair.b, &received.calls, 1);
	pass_until(pair.a, pair.b, &sent.calls, 1);
	assert_int_equal(net_stats(pair.a).buffers, 0);
	assert_int_equal(released.calls, 1);
	assert_ptr_equal(released.data, mine);
	assert_int_equal(released.size, 64);
	assert_int_equal(mine[1], 31 + 5);
	/* Without a release function, and released only at close. */
	assert_int_equal(weft_buf_wrap(pair.b, mine, 64, NULL, NULL, &buf), 0);
	weft_buf_unref(buf);
	assert_int_equal(weft_buf_wrap(pair.b, mine, 64, note_release, &released, &buf), 0);
	assert_int_equal(weft_net_recv(pair.b, buf, record, &received), 0);
	weft_buf_unref(buf);
	/* One that outlives its net is no longer of any use but to be read. */
	struct weft_buf *rest = filled(pair.a, 10, 8);
	struct weft_remote remote;
	pair_close(&pair);
	assert_int_equal(released.calls, 2);
	assert_true(is_filled(rest, 10, 8));
	assert_int_equal(weft_buf_size(rest), 10);
	assert_int_equal(weft_buf_share(rest, WEFT_ACCESS_READ, &remote), -EINVAL);
	weft_buf_unref(rest);
}

/* What the provider does not let go of is never freed, nor given back. */
static void memory_that_stays_registered_is_kept(void **state)
{
	struct pair pair;
	struct weft_remote remote;
	struct released released = {0};
	static uint8_t mine[64];
	struct weft_buf *buf, *wrapped;
	struct fake_left left;
	(void)state;
	for (int i = 0; i < 2; i++) {
		fake_reset();
		pair_open(&pair, &fake_tcp, NULL);
		buf = filled(pair.a, 10, 0);
		assert_int_equal(weft_buf_wrap(pair.a, mine, 64, note_release, &released, &wrapped),
				 0);
		fake_refuse("fi_close(memory region)", NULL, FI_EBUSY, i == 0 ? 2 : 1);
		weft_buf_unref(buf);
		assert_true(logged(WEFT_LOG_ERROR, "cannot deregister 10 bytes"));
		assert_int_equal(net_stats(pair.a).buffers, 1);
		weft_buf_unref(wrapped);
		assert_int_equal(released.calls, i);
		assert_int_equal(net_stats(pair.a).buffers, 0);
		assert_int_equal(weft_net_close(pair.a), 2);
		assert_int_equal(weft_net_close(pair.b), 0);
		fake_get_left(&left);
		assert_int_equal(left.objects, (i == 0 ? 2 : 1) + 2);
	}
	/* At close, the caller's reference is no longer the last. */
	fake_reset();
	pair_open(&pair, &fake_tcp, NULL);
	buf = filled(pair.a, 10, 3);
	assert_int_equal(weft_buf_share(buf, WEFT_ACCESS_READ, &remote), 0);
	fake_refuse("fi_close(memory region)", NULL, FI_EBUSY, 2);
	assert_int_equal(weft_net_close(pair.a), 4);
	weft_buf_unref(buf);
	assert_int_equal(weft_net_close(pair.b), 0);
	fake_get_left(&left);
	assert_int_equal(left.allocations, 2);
	fake_reset();
}

/* On shm they lie side by side; what a net leaves behind is whole. */
static void long_ones_share_huge_pages(void **state)
{
	enum { LEN = 1024 * 1024 };
	struct pair pair;
	struct fake_left left;
	(void)state;
	for (int i = 0; i < 3; i++) {
		fake_reset();
		pair_open(&pair, i == 0 ? &fake_tcp : &fake_shm, NULL);
		/* Ordinary pages do as well. */
		if (i == 2)
			fake_refuse("madvise", NULL, EINVAL, -1);
		fake_get_left(&left);
		size_t before = left.allocations;
		struct weft_buf *one = filled(pair.a, LEN, 1), *other = filled(pair.a, LEN, 2);
		fake_get_left(&left);
		/* Two buffers, and the memory of each, or a region and its mapping. */
		assert_int_equal(left.allocations - before, 4);
		if (i > 0)
			assert_ptr_equal((uint8_t *)weft_buf_data(other),
					 (uint8_t *)weft_buf_data(one) + LEN);
		weft_buf_unref(one);
		assert_true(is_filled(other, LEN, 2));
		one = filled(pair.a, LEN / 2, 3);
		fake_no_faults();
		pair_close(&pair);
		assert_true(is_filled(one, LEN / 2, 3));
		assert_true(is_filled(other, LEN, 2));
		weft_buf_unref(other);
		assert_true(is_filled(one, LEN / 2, 3));
		weft_buf_unref(one);
		fake_get_left(&left);
		assert_int_equal(left.allocations, 0);
	}
	/* Without the addresses that a region takes it is of ordinary pages, and without those
	 * there is nothing. */
	fake_reset();
	pair_open(&pair, &fake_shm, NULL);
	static const struct {
		const char *call;
		int times, code;
	} rows[] = {{"calloc", 1, 0},	{"calloc", 2, -ENOMEM}, {"mmap", 1, 0},
		    {"mprotect", 1, 0}, {"mmap", 2, -ENOMEM},	{"fi_mr_reg", 1, -ENOMEM}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weft_buf *buf = NULL;
		fake_get_left(&left);
		size_t before = left.allocations;
		fake_refuse(rows[i].call, NULL, ENOMEM, rows[i].times);
		assert_int_equal(weft_buf_alloc(pair.a, LEN, &buf), rows[i].code);
		fake_no_faults();
		weft_buf_unref(buf);
		fake_get_left(&left);
		assert_int_equal(left.allocations, before);
	}
	pair_close(&pair);
}

static void close_from_release(void *data, size_t size, void *user)
{
	struct pair *pair = user;
	(void)data;
	(void)size;
	assert_int_equal(weft_net_poll(pair->a, 0), -EBUSY);
	assert_int_equal(weft_net_close(pair->a), -EBUSY);
	pair->provider = NULL;
}

/* From the caller's own unref, from a completion, and from close. */
static void release_cannot_close_the_net(void **state)
{
	static uint8_t mine[10];
	(void)state;
	for (int how = 0; how < 3; how++) {
		struct pair pair;
		struct outcome out = {0};
		struct weft_buf *buf;
		fake_reset();
		pair_open(&pair, &fake_udp, NULL);
		assert_int_equal(weft_buf_wrap(pair.a, mine, 10, close_from_release, &pair, &buf),
				 0);
		struct weft_post post = whole(buf);
		if (how == 1)
			assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out),
					 0);
		else if (how == 2)
			assert_int_equal(weft_net_recv(pair.a, buf, record, &out), 0);
		weft_buf_unref(buf);
		assert_int_equal(pair.provider == NULL, how == 0);
		if (how == 1)
			pass_until(pair.a, pair.b, &out.calls, 1);
		assert_int_equal(pair.provider == NULL, how <= 1);
		pair_close(&pair);
		assert_null(pair.provider);
	}
}

/* A receive that failed gives its memory back at once, or where more may be written to it, with the
 * net. */
static void memory_that_is_written_late(void **state)
{
	static const struct fake_provider *const kinds[] = {&fake_tcp, &fake_efa};
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair pair;
		struct outcome received = {0}, sent = {0};
		struct released released = {0};
		struct fake_provider like = *kinds[i];
		static uint8_t mine[64];
		struct weft_buf *buf;
		fake_reset();
		like.trunc = FAKE_TRUNC_ERROR;
		pair_open(&pair, &like, NULL);
		assert_int_equal(weft_buf_wrap(pair.b, mine, 64, note_release, &released, &buf), 0);
		struct weft_buf *from = filled(pair.a, 100, 5);
		struct weft_post post = whole(from);
		for (int n = 1; n <= 3; n++) {
			assert_int_equal(weft_net_recv(pair.b, buf, record, &received), 0);
			assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent),
					 0);
			pass_until(pair.a, pair.b, &received.calls, n);
			assert_int_equal(received.status, -FI_ETRUNC);
		}
		pass_until(pair.a, pair.b, &sent.calls, 3);
		weft_buf_unref(from);
		weft_buf_unref(buf);
		assert_int_equal(released.calls, i == 0);
		assert_int_equal(net_stats(pair.b).buffers, i);
		pair_close(&pair);
		assert_int_equal(released.calls, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		world_test(memory_is_registered_for_what_it_is_for),
		world_test(one_sided_both_ways),
		world_test(keys_that_collide_are_chosen_anew),
		world_test(whole_pages_are_allocated),
		world_test(references_keep_buffers),
		world_test(memory_that_stays_registered_is_kept),
		world_test(long_ones_share_huge_pages),
		world_test(release_cannot_close_the_net),
		world_test(memory_that_is_written_late),
	};
	return world_run(tests);
}
