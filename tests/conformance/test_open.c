/* SPDX-License-Identifier: MIT */
/*
 * Opening: candidates and their reasons, policy, options, limits of peers, what is told of a net.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "pair.h"

static char last_error[1024];

static void keep_error(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level == WEFT_LOG_ERROR)
		snprintf(last_error, sizeof(last_error), "%s", text);
}

static struct weft_net_opts quiet_opts(void)
{
	struct weft_net_opts opts = test_opts();
	opts.log = keep_error;
	last_error[0] = 0;
	return opts;
}

/* That opening fails with a code, and that the log says each of the words. */
static void refused(const struct weft_net_opts *opts, int code, const char *word,
		    const char *other_word)
{
	struct weft_net *net = (struct weft_net *)-1;
	last_error[0] = 0;
	int ret = weft_net_open(&net, opts);
	if (ret != code)
		fail_msg("weft_net_open gave %d (%s), not %d", ret, weft_strerror(ret), code);
	assert_ptr_equal(net, (struct weft_net *)-1);
	if (!strstr(last_error, word) || !strstr(last_error, other_word))
		fail_msg("'%s' does not say '%s' and '%s'", last_error, word, other_word);
}

static void every_candidate_has_a_reason(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_candidate *list = NULL;
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	(void)state;
	int count = weft_net_list(&opts, &list);
	assert_true(count > 0);
	assert_int_equal(list->chosen, 1);
	for (struct weft_candidate *c = list; c; c = c->next) {
		assert_int_equal(c->size, sizeof(*c));
		assert_true(c->reason[0] != 0);
		assert_true(c->provider[0] != 0);
		assert_true(c->chosen == (c == list));
		count--;
	}
	assert_int_equal(count, 0);

	/* What is listed as chosen is what opens. */
	struct weft_net *net = open_net(&opts);
	assert_int_equal(weft_net_get_info(net, &info), 0);
	assert_string_equal(info.provider, list->provider);
	assert_string_equal(info.fabric, list->fabric);
	assert_string_equal(info.domain, list->domain);
	assert_true(info.max_msg >= 8192);
	assert_true(info.cq_data_size >= 4);
	assert_true(info.has_tagged && info.tx_size > 0 && info.rx_size > 0 && info.max_peers > 0);
	assert_true(info.libfabric_running > 0 && info.libfabric_built > 0);
	bool software = info.nic && strncmp(info.nic, "softefa", 7) == 0;
	assert_true((info.caveat != NULL) ==
		    (software || provider_is("udp") ||
		     (provider_is("shm") && info.libfabric_running < (2 << 16))));
	info.size = 4;
	assert_int_equal(weft_net_get_info(net, &info), -EINVAL);
	assert_int_equal(weft_net_close(net), 0);
	weft_candidate_free(list);
	weft_candidate_free(NULL);
}

static void without_wishes_the_policy_decides(void **state)
{
	struct weft_candidate *list = NULL;
	(void)state;
	assert_true(weft_net_list(NULL, &list) > 0);
	assert_true(strncmp(list->provider, "efa", 3) == 0 ||
		    strncmp(list->provider, "verbs", 5) == 0 ||
		    strncmp(list->provider, "tcp", 3) == 0);
	for (struct weft_candidate *c = list; c; c = c->next) {
		if (strcmp(c->provider, "shm") == 0 || strncmp(c->provider, "udp", 3) == 0)
			assert_non_null(strstr(c->reason, "only when asked for"));
	}
	if (strncmp(list->provider, "tcp", 3) == 0)
		assert_string_equal(list->addr, "127.0.0.1");
	weft_candidate_free(list);
}

static void own_address_reads_back(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_addr own, again;
	char text[WEFT_ADDR_TEXT_MAX];
	(void)state;
	struct weft_net *net = open_net(&opts);
	assert_int_equal(weft_net_get_addr(net, &own), 0);
	assert_true(weft_addr_format(&own, text, sizeof(text)) > 0);
	assert_int_equal(strncmp(text, provider(), strlen(provider())), 0);
	assert_int_equal(weft_addr_parse(&again, text, NULL), 0);
	assert_true(weft_addr_equal(&own, &again));
	assert_int_equal(weft_net_close(net), 0);
}

static void wrong_wishes_are_refused_with_the_reason(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	(void)state;
	opts.provider = "tpc";
	refused(&opts, -ENODATA, "tpc", "tcp");
	opts.provider = "efa";
	struct weft_candidate *list = NULL;
	opts.log = NULL;
	weft_net_list(&opts, &list);
	opts.log = keep_error;
	if (list && !list->chosen)
		refused(&opts, -ENODATA, "efa", "EFA network interface");
	weft_candidate_free(list);
	opts.provider = provider();
	opts.require = provider_is("efa") ? "tcp" : "efa";
	refused(&opts, -ENODATA, opts.require, "required");
	opts.require = "rdma";
	if (!provider_is("efa"))
		refused(&opts, -ENODATA, "rdma", provider());
	opts.require = NULL;
	opts.domain = "no-such-domain";
	refused(&opts, -ENODATA, "no-such-domain", provider());
	opts.domain = NULL;
	opts.size = 3;
	struct weft_net *net = NULL;
	assert_int_equal(weft_net_open(&net, &opts), -EINVAL);
	opts = quiet_opts();
	opts.max_ops = 0;
	refused(&opts, -EINVAL, "limits", "at least 1");
	opts = quiet_opts();
	opts.bind = "no such place/";
	refused(&opts, -EINVAL, "bind", "");
}

static void require_is_met(void **state)
{
	struct weft_net_opts opts = test_opts();
	(void)state;
	opts.require = provider();
	struct weft_net *net = open_net(&opts);
	assert_int_equal(weft_net_close(net), 0);
}

static void ip_binds(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct weft_addr addr;
	char text[WEFT_ADDR_TEXT_MAX];
	(void)state;
	if (provider_is("shm"))
		skip();
	if (provider_is("efa")) {
		opts.bind = "127.0.0.1";
		refused(&opts, -ENODATA, "efa", "does not bind to an IP address");
		return;
	}
	opts.bind = "0.0.0.0";
	refused(&opts, -EINVAL, "0.0.0.0", "name the address");
	opts.bind = "127.0.0.1:70000";
	refused(&opts, -EINVAL, "70000", "port");
	/* TEST-NET-3, which no machine has. */
	opts.bind = "203.0.113.77";
	refused(&opts, -ENODATA, "203.0.113.77", "127.0.0.1");

	opts.bind = "127.0.0.2";
	struct weft_net *net = open_net(&opts);
	weft_net_get_addr(net, &addr);
	assert_true(weft_addr_format(&addr, text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "://127.0.0.2:"));
	assert_int_equal(weft_net_close(net), 0);

	opts.bind = "[::1]";
	struct weft_net *v6 = NULL;
	if (weft_net_open(&v6, &opts) == 0) {
		weft_net_get_addr(v6, &addr);
		assert_true(weft_addr_format(&addr, text, sizeof(text)) > 0);
		assert_non_null(strstr(text, "://[::1]:"));
		assert_int_equal(weft_net_close(v6), 0);
	}
}

/* A provider that weft has no row for binds to loopback like any other, unless told otherwise. */
static void unknown_providers_bind_to_loopback(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct weft_candidate *list = NULL;
	(void)state;
	opts.provider = "net";
	assert_true(weft_net_list(&opts, &list) > 0);
	for (struct weft_candidate *c = list; c; c = c->next) {
		if (strcmp(c->provider, "net") == 0 && strcmp(c->addr, "127.0.0.1") != 0 &&
		    strcmp(c->addr, "::1") != 0)
			assert_non_null(strstr(c->reason, "not loopback"));
	}
	weft_candidate_free(list);
}

static void port_in_use_is_named(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct weft_addr addr;
	char text[WEFT_ADDR_TEXT_MAX], bind[64];
	(void)state;
	if (!provider_is("tcp"))
		skip();
	struct weft_net *first = open_net(&opts);
	weft_net_get_addr(first, &addr);
	assert_true(weft_addr_format(&addr, text, sizeof(text)) > 0);
	snprintf(bind, sizeof(bind), "127.0.0.1%s", strrchr(text, ':'));
	opts.bind = bind;
	refused(&opts, -EADDRINUSE, "in use", "choose another one");
	assert_int_equal(weft_net_close(first), 0);
}

static void toward_opens_what_reaches_the_peer(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	struct weft_addr addr;
	(void)state;
	pair.b = open_net(&opts);
	assert_int_equal(weft_net_get_addr(pair.b, &addr), 0);
	opts.provider = NULL;
	opts.toward = &addr;
	pair.a = open_net(&opts);
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &pair.a_to_b), 0);
	struct weft_buf *from = filled(pair.a, 100, 1);
	struct weft_buf *into = filled(pair.b, 100, 2);
	exchange(&pair, from, into, 100);
	weft_buf_unref(from);
	weft_buf_unref(into);
	pair_close(&pair);

	opts = quiet_opts();
	opts.toward = &addr;
	opts.provider = provider_is("shm") ? "tcp" : "shm";
	refused(&opts, -ENODATA, opts.provider, "kind of address");
	addr.len = 3;
	opts.provider = NULL;
	refused(&opts, -EINVAL, "toward", "address");
}

static void wrong_peers_are_refused_before_the_provider(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	struct pair pair;
	struct weft_addr addr;
	weft_dest dest = 99;
	(void)state;
	pair_open(&pair, &opts);
	const char *foreign = provider_is("tcp") ? "udp://127.0.0.1:4" : "tcp://127.0.0.1:4";
	assert_int_equal(weft_addr_parse(&addr, foreign, NULL), 0);
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), -EINVAL);
	assert_non_null(strstr(last_error, "another kind"));
	weft_net_get_addr(pair.b, &addr);
	addr.len--;
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), -EINVAL);
	weft_net_get_addr(pair.b, &addr);
	/* Of efa, bytes that are always zero; any others would do. */
	memset(addr.raw + (provider_is("efa") ? 18 : 0), 0xff, 2);
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), -EINVAL);
	if (provider_is("efa")) {
		/* A GID of another fabric looks right, but the device has no way there. */
		weft_net_get_addr(pair.b, &addr);
		addr.raw[9] ^= 1;
		assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), -EADDRNOTAVAIL);
	}
	assert_int_equal(dest, 99);
	weft_net_get_stats(pair.a, &stats);
	assert_int_equal(stats.peers, 1);
	/* The address vector is as good as before. */
	struct weft_buf *from = filled(pair.a, 100, 1);
	struct weft_buf *into = filled(pair.b, 100, 2);
	exchange(&pair, from, into, 100);
	weft_buf_unref(from);
	weft_buf_unref(into);
	pair_close(&pair);
}

/* A different address of the provider under test for every number. */
static void numbered_addr(struct weft_addr *addr, int number)
{
	char text[64];
	if (provider_is("efa")) {
		numbered_efa_addr(addr, 1 + number % 200, (uint16_t)(1000 + number));
		return;
	}
	if (provider_is("shm"))
		snprintf(text, sizeof(text), "shm://nobody-%d", number);
	else
		snprintf(text, sizeof(text), "%s://127.0.1.%d:%d", provider(), 1 + number % 200,
			 1000 + number);
	assert_int_equal(weft_addr_parse(addr, text, NULL), 0);
}

static void peers_come_and_go(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	struct weft_addr addr, back;
	static weft_dest dest[300];
	int limit = 300;
	(void)state;
	struct weft_net *net = open_net(&opts);
	weft_net_get_info(net, &info);
	if (provider_is("shm"))
		assert_int_equal(info.max_peers, 256);
	if (info.max_peers < 300)
		limit = (int)info.max_peers;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < limit; i++) {
			numbered_addr(&addr, i);
			int ret = weft_net_add_peer(net, &addr, &dest[i]);
			if (ret < 0)
				fail_msg("peer %d of round %d: %s", i, round, weft_strerror(ret));
			assert_int_equal(weft_net_get_peer_addr(net, dest[i], &back), 0);
			assert_true(weft_addr_equal(&addr, &back));
		}
		weft_net_get_stats(net, &stats);
		assert_int_equal(stats.peers, limit);
		if (limit < 300) {
			numbered_addr(&addr, limit);
			assert_int_equal(weft_net_add_peer(net, &addr, &dest[limit]), -ENOSPC);
			assert_non_null(strstr(last_error, "limit"));
		}
		for (int i = 0; i < limit; i++)
			assert_int_equal(weft_net_remove_peer(net, dest[i]), 0);
		for (int i = 0; i < limit; i++)
			assert_int_equal(weft_net_remove_peer(net, dest[i]), -ENOTCONN);
		/* Their places in the address vector are free after the next look at what came. */
		assert_int_equal(weft_net_poll(net, 0), 0);
		weft_net_get_stats(net, &stats);
		assert_int_equal(stats.peers, 0);
	}
	assert_int_equal(weft_net_close(net), 0);
}

static void max_peers_is_kept(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct weft_addr addr;
	weft_dest dest;
	(void)state;
	opts.max_peers = 2;
	struct weft_net *net = open_net(&opts);
	for (int i = 0; i < 3; i++) {
		numbered_addr(&addr, i);
		assert_int_equal(weft_net_add_peer(net, &addr, &dest), i < 2 ? 0 : -ENOSPC);
	}
	numbered_addr(&addr, 1);
	assert_int_equal(weft_net_add_peer(net, &addr, &dest), 0);
	assert_int_equal(weft_net_close(net), 0);
}

static void fabric_objects_are_handed_out(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_fabric fabric = WEFT_FABRIC_INIT;
	(void)state;
	struct weft_net *net = open_net(&opts);
	assert_int_equal(weft_net_fabric(net, &fabric), 0);
	assert_true(fabric.info && fabric.fabric && fabric.domain && fabric.av && fabric.cq &&
		    fabric.ep);
	fabric.size = 1;
	assert_int_equal(weft_net_fabric(net, &fabric), -EINVAL);
	assert_int_equal(weft_net_close(net), 0);
	assert_int_equal(weft_net_close(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_candidate_has_a_reason),
		cmocka_unit_test(without_wishes_the_policy_decides),
		cmocka_unit_test(own_address_reads_back),
		cmocka_unit_test(wrong_wishes_are_refused_with_the_reason),
		cmocka_unit_test(require_is_met),
		cmocka_unit_test(ip_binds),
		cmocka_unit_test(unknown_providers_bind_to_loopback),
		cmocka_unit_test(port_in_use_is_named),
		cmocka_unit_test(toward_opens_what_reaches_the_peer),
		cmocka_unit_test(wrong_peers_are_refused_before_the_provider),
		cmocka_unit_test(peers_come_and_go),
		cmocka_unit_test(max_peers_is_kept),
		cmocka_unit_test(fabric_objects_are_handed_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
