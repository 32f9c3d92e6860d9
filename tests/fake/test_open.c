/* SPDX-License-Identifier: MIT */
/* Opening and closing on the fake fabric: what can go wrong on the way there and back, and what is
 * left then. */
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

static void names_of_shm_are_claimed_and_given_up(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct fake_left left;
	char text[WEFT_ADDR_TEXT_MAX], path[WEFT_ADDR_TEXT_MAX + 20];
	(void)state;
	fake_offer(&fake_shm);
	opts.provider = "shm";
	opts.bind = "loom";
	/* What dead ones have left is removed first, and nothing else. */
	fake_file("/dev/shm/weft-x-0123456789abcdef.lock", "");
	fake_file("/dev/shm/weft-x-0123456789abcdef", "segment");
	fake_file("/dev/shm/weft-x-0123456789abcdef_1", "segment");
	fake_file("/dev/shm/weft-x-0123456789abcdef1", "somebody else's");
	fake_file("/dev/shm/weft-x.lock", "no name of ours");
	struct weft_net *net = net_open(&opts);
	assert_true(logged(WEFT_LOG_INFO, "removed what 1 dead"));
	assert_false(fake_file_exists("/dev/shm/weft-x-0123456789abcdef.lock"));
	assert_false(fake_file_exists("/dev/shm/weft-x-0123456789abcdef"));
	assert_false(fake_file_exists("/dev/shm/weft-x-0123456789abcdef_1"));
	assert_true(fake_file_exists("/dev/shm/weft-x-0123456789abcdef1"));
	assert_true(fake_file_exists("/dev/shm/weft-x.lock"));
	struct weft_addr addr = net_addr(net);
	assert_true(weft_addr_format(&addr, text, sizeof(text)) > 0);
	assert_int_equal(strncmp(text, "shm://weft-loom-", 16), 0);
	snprintf(path, sizeof(path), "/dev/shm/%s.lock", text + 6);
	assert_true(fake_file_exists(path));
	/* A second one does not take it for a left-over. */
	struct weft_net *other = net_open(&opts);
	assert_true(fake_file_exists(path));
	assert_int_equal(weft_net_close(other), 0);
	assert_int_equal(weft_net_close(net), 0);
	assert_false(fake_file_exists(path));
	fake_get_left(&left);
	assert_int_equal(left.names, 2);
	/* A name that is taken is not used again: another one is. */
	fake_refuse("open", NULL, EEXIST, 7);
	assert_int_equal(weft_net_close(net_open(&opts)), 0);
	fake_refuse("open", NULL, EEXIST, 8);
	refused(&opts, -EEXIST, "lock file");
	fake_refuse("flock", NULL, EWOULDBLOCK, 9);
	refused(&opts, -EEXIST, "lock file");
	fake_refuse("open", NULL, EACCES, 1);
	refused(&opts, -EACCES, "lock file");
	opts.bind = "no/slash";
	refused(&opts, -EINVAL, "letters, digits");
	opts.bind = "";
	refused(&opts, -EINVAL, "letters, digits");
}

static void libfabric_of_another_version(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	(void)state;
	fake_offer(&fake_tcp);
	fake_offer(&fake_shm);
	/* An older one is asked in its own version, a newer one in that of the headers. */
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t version = i == 0 ? FI_VERSION(1, 12) : FI_VERSION(9, 0);
		fake_set_version(version);
		opts.provider = "shm";
		struct weft_net *net = net_open(&opts);
		assert_int_equal(weft_net_get_info(net, &info), 0);
		assert_int_equal(info.libfabric_running, version);
		assert_int_equal(info.libfabric_built,
				 FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION));
		assert_int_equal(weft_net_close(net), 0);
	}
}

static void completion_queues_without_a_descriptor(void **state)
{
	static const enum fake_wait waits[] = {FAKE_WAIT_FD, FAKE_WAIT_REFUSED,
					       FAKE_WAIT_NO_GETWAIT};
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fake_provider provider = fake_tcp;
		struct pair pair;
		struct weft_net_info info = WEFT_NET_INFO_INIT;
		fake_reset();
		provider.wait = waits[i];
		pair_open(&pair, &provider, NULL);
		assert_int_equal(weft_net_get_info(pair.a, &info), 0);
		assert_int_equal(info.has_wait_fd, i == 0);
		assert_int_equal(fake_calls("fi_cq_open"), i == 0 ? 2 : 4);
		assert_false(logged_any(WEFT_LOG_ERROR));
		exchange(&pair);
		pair_close(&pair);
	}
	fake_reset();
	struct weft_net_opts opts = quiet_opts();
	fake_offer(&fake_tcp);
	fake_refuse("fi_cq_open", NULL, FI_ENOMEM, 2);
	refused(&opts, -ENOMEM, "completion queue");
}

static void what_fails_to_open_says_what_to_do(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	static const struct {
		const char *call;
		int code;
		const char *words;
	} rows[] = {
		{"fi_fabric", FI_EIO, "cannot open the fabric"},
		{"fi_domain", FI_ENOMEM, "cannot open the domain"},
		{"fi_domain", FI_ENOMEM, "RLIMIT_MEMLOCK"},
		{"fi_av_open", FI_EMFILE, "RLIMIT_NOFILE"},
		{"fi_endpoint", FI_EADDRNOTAVAIL, "no interface"},
		{"fi_ep_bind", FI_EINVAL, "cannot open an endpoint"},
		{"fi_enable", FI_EADDRINUSE, "another program has this port"},
		{"fi_getname", FI_EIO, "address is not to be had"},
		{"eventfd", EMFILE, "descriptors to wait on"},
		{"timerfd_create", EMFILE, "descriptors to wait on"},
		{"epoll_create1", EMFILE, "descriptors to wait on"},
		{"epoll_ctl", ENOSPC, "descriptors to wait on"},
		{"fi_getinfo", FI_ENOMEM, "fi_getinfo"},
	};
	(void)state;
	fake_offer(&fake_tcp);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fake_refuse(rows[i].call, NULL, rows[i].code, 1);
		refused(&opts, -rows[i].code, rows[i].words);
	}
	for (int i = 1; i < 3; i++) {
		fake_skip("epoll_ctl", i);
		fake_refuse("epoll_ctl", NULL, ENOSPC, 1);
		refused(&opts, -ENOSPC, "descriptors");
	}
	for (int i = 1; i < 3; i++) {
		fake_skip("fi_ep_bind", i);
		fake_refuse("fi_ep_bind", NULL, FI_EIO, 1);
		refused(&opts, -EIO, "endpoint");
	}
	struct weft_net *net = net_open(&opts);
	assert_true(logged(
		WEFT_LOG_INFO,
		"opened tcp;ofi_rxm, fabric 127.0.0.0/8, domain lo, address tcp://127.0.0.1:"));
	assert_int_equal(weft_net_close(net), 0);
}

static void addresses_of_endpoints_that_weft_cannot_use(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	static const uint8_t zero[32];
	(void)state;
	fake_offer(&fake_efa);
	fake_next_addr(zero, sizeof(zero));
	refused(&opts, -EADDRNOTAVAIL, "GID");
	fake_reset();
	struct fake_provider *raw = fake_offer(&fake_raw);
	opts.provider = "loom";
	raw->addr_len = WEFT_ADDR_MAX;
	assert_int_equal(weft_net_close(net_open(&opts)), 0);
	/* Longer than any. */
	fake_refuse("fi_getname", NULL, FI_ETOOSMALL, 1);
	refused(&opts, -FI_ETOOSMALL, "address is not to be had");
}

static void abandoned_where_close_would_not_return(void **state)
{
	struct fake_provider provider = fake_efa;
	struct weft_net_opts opts = quiet_opts();
	struct outcome out[3] = {0};
	struct fake_left left;
	(void)state;
	/* The table says that this one blocks. */
	fake_set_version(FI_VERSION(1, 17));
	provider.close_blocks = true;
	fake_offer(&provider);
	struct weft_net *a = net_open(&opts);
	struct weft_net *b = net_open(&opts);
	weft_dest dest;
	struct weft_addr addr = net_addr(b);
	assert_int_equal(weft_net_add_peer(a, &addr, &dest), 0);
	fake_set_peer(&addr, FAKE_PEER_SILENT);
	struct weft_buf *buf = filled(a, 100, 0), *into = filled(a, 100, 0),
			*kept = filled(a, 100, 0);
	struct weft_post post = whole(buf);
	post.timeout_ms = 5;
	assert_int_equal(weft_net_send(a, dest, &post, record, &out[0]), 0);
	pass_until(a, NULL, &out[0].calls, 1);
	post.timeout_ms = -1;
	assert_int_equal(weft_net_send(a, dest, &post, record, &out[1]), 0);
	assert_int_equal(weft_net_recv(a, into, record, &out[2]), 0);
	weft_buf_unref(into);
	assert_int_equal(weft_net_close(a), 6 + 3);
	assert_true(logged(WEFT_LOG_WARN, "9 objects are left"));
	for (int i = 0; i < 3; i++)
		assert_int_equal(out[i].calls, 1);
	assert_int_equal(out[1].status, -ECANCELED);
	/* The caller's references are still good. */
	assert_true(is_filled(buf, 100, 0));
	weft_buf_unref(buf);
	weft_buf_unref(kept);
	assert_int_equal(weft_net_close(b), 0);
	fake_get_left(&left);
	assert_int_equal(left.objects, 6 + 3);
	assert_int_equal(left.works, 3);
	assert_int_equal(left.files, 0);
	assert_true(left.allocations > 0);
	/* With nothing under way, it closes like any other. */
	fake_reset();
	fake_set_version(FI_VERSION(1, 17));
	fake_offer(&provider);
	a = net_open(&opts);
	assert_int_equal(weft_net_close(a), 0);
}

/* Its end may only be late: then nothing has to be left. */
static void a_close_waits_for_what_is_held(void **state)
{
	struct fake_provider provider = fake_efa;
	struct pair pair;
	struct outcome out = {0};
	(void)state;
	fake_set_version(FI_VERSION(1, 17));
	provider.close_blocks = true;
	pair_open(&pair, &provider, NULL);
	struct weft_post post = whole(NULL);
	post.timeout_ms = 5;
	fake_next("fi_send", NULL, 1,
		  &(struct fake_fate){FAKE_BREAK, 500 * FAKE_NS_PER_MS, FI_EIO, 13, NULL});
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
	pass_until(pair.a, NULL, &out.calls, 1);
	assert_int_equal(out.status, -ETIMEDOUT);
	assert_int_equal(net_stats(pair.a).held, 1);
	int64_t before = fake_now_ns();
	pair_close(&pair);
	assert_in_range(fake_now_ns() - before, 400 * FAKE_NS_PER_MS, 600 * FAKE_NS_PER_MS);
	assert_int_equal(out.calls, 1);
}

static void what_does_not_close_is_counted(void **state)
{
	static const struct {
		const char *call;
		int left;
	} rows[] = {
		{"fi_close(memory region)",
		 1 + 2}, /* the domain cannot be closed then, nor the fabric */
		{"fi_close(address vector)", 1 + 2},
		{"fi_close(completion queue)", 1 + 2},
		{"fi_close(domain)", 2},
		{"fi_close(fabric)", 1},
		{"fi_close(endpoint)", 5 + 1},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair pair;
		struct fake_left left;
		struct outcome out = {0};
		fake_reset();
		pair_open(&pair, &fake_tcp, NULL);
		struct weft_buf *buf = filled(pair.a, 10, 0);
		assert_int_equal(weft_net_recv(pair.a, buf, record, &out), 0);
		fake_refuse(rows[i].call, NULL, FI_EBUSY, 1);
		assert_int_equal(weft_net_close(pair.a), rows[i].left);
		assert_int_equal(out.calls, 1);
		assert_int_equal(out.status, -ECANCELED);
		fake_get_left(&left);
		assert_int_equal(left.objects, rows[i].left + 5);
		weft_buf_unref(buf);
		assert_int_equal(weft_net_close(pair.b), 0);
	}
	fake_reset();
}

static void close_while_busy(void **state)
{
	struct pair pair;
	struct outcome out[6] = {0};
	struct weft_post post = whole(NULL);
	(void)state;
	pair_open(&pair, &fake_udp, NULL);
	weft_dest nobody = add_nobody(pair.a, NULL);
	struct weft_buf *buf = filled(pair.a, 10, 0);
	struct weft_post room = whole(buf);
	/* Under way and answered in time; held; posted for ever; queued; two receives. */
	fake_next("fi_send", NULL, 1,
		  &(struct fake_fate){.delay_ns = 1500 * (int64_t)FAKE_NS_PER_MS});
	post.timeout_ms = -1;
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out[0]), 0);
	post.timeout_ms = 5;
	assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out[1]), 0);
	pass_until(pair.a, NULL, &out[1].calls, 1);
	post.timeout_ms = -1;
	assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out[2]), 0);
	fake_refuse("fi_send", NULL, FI_EAGAIN, -1);
	assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out[3]), 0);
	assert_int_equal(weft_net_recv(pair.a, buf, record, &out[4]), 0);
	assert_int_equal(weft_net_trecv(pair.a, &room, record, &out[5]), 0);
	weft_buf_unref(buf);
	int64_t start = fake_now_ns();
	assert_int_equal(weft_net_close(pair.a), 0);
	int64_t took = (fake_now_ns() - start) / FAKE_NS_PER_MS;
	assert_true(took >= 1990 && took <= 2050);
	static const int status[6] = {0,	  -ETIMEDOUT, -ECANCELED,
				      -ECANCELED, -ECANCELED, -ECANCELED};
	for (int i = 0; i < 6; i++) {
		assert_int_equal(out[i].calls, 1);
		assert_int_equal(out[i].status, status[i]);
	}
	assert_string_equal(out[5].text, "the net was closed");
	assert_int_equal(weft_net_close(pair.b), 0);
}

/* Without sends under way nothing is waited for. */
static void idle_close_takes_no_time(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	struct weft_buf *buf = filled(pair.a, 10, 0);
	assert_int_equal(weft_net_recv(pair.a, buf, record, &out), 0);
	int64_t start = fake_now_ns();
	assert_int_equal(weft_net_close(pair.a), 0);
	assert_true(fake_now_ns() - start < FAKE_NS_PER_MS);
	weft_buf_unref(buf);
	assert_int_equal(weft_net_close(pair.b), 0);
}

static void start_while_closing(struct weft_net *net, const struct weft_done *done)
{
	struct outcome *out = done->user;
	struct weft_post post = whole(NULL);
	struct weft_addr addr;
	weft_dest dest;
	struct weft_buf *buf;
	record(net, done);
	assert_int_equal(weft_net_get_addr(net, &addr), 0);
	assert_int_equal(weft_net_add_peer(net, &addr, &dest), -ECANCELED);
	assert_int_equal(weft_net_recv(net, done->buf, record, out), -ECANCELED);
	assert_int_equal(weft_net_trecv(net, &post, record, out), -ECANCELED);
	assert_int_equal(weft_buf_alloc(net, 10, &buf), -ECANCELED);
	assert_int_equal(weft_buf_wrap(net, out, 10, NULL, NULL, &buf), -ECANCELED);
}

static void nothing_starts_while_closing(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	struct weft_buf *buf = filled(pair.a, 10, 0);
	assert_int_equal(weft_net_recv(pair.a, buf, start_while_closing, &out), 0);
	pair_close(&pair);
	assert_int_equal(out.calls, 1);
	weft_buf_unref(buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		world_test(names_of_shm_are_claimed_and_given_up),
		world_test(libfabric_of_another_version),
		world_test(completion_queues_without_a_descriptor),
		world_test(what_fails_to_open_says_what_to_do),
		world_test(addresses_of_endpoints_that_weft_cannot_use),
		world_test(abandoned_where_close_would_not_return),
		world_test(a_close_waits_for_what_is_held),
		world_test(what_does_not_close_is_counted),
		world_test(close_while_busy),
		world_test(idle_close_takes_no_time),
		world_test(nothing_starts_while_closing),
	};
	return world_run(tests);
}
