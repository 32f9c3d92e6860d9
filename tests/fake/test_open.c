/* SPDX-License-Identifier: MIT */
/* Opening and closing on the fake fabric: the choice among providers, what can go wrong on the way,
 * peers' addresses. */
#include "world.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

static struct weft_candidate *list_all(const struct weft_net_opts *opts, int want)
{
	struct weft_candidate *list = NULL;
	assert_int_equal(weft_net_list(opts, &list), want);
	return list;
}

static const struct weft_candidate *find(const struct weft_candidate *list, const char *provider)
{
	while (list && strcmp(list->provider, provider) != 0)
		list = list->next;
	assert_non_null(list);
	return list;
}

static bool says(const struct weft_candidate *candidate, const char *words)
{
	return candidate && strstr(candidate->reason, words);
}

static void the_best_is_chosen_and_the_rest_have_reasons(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct fake_provider eth = fake_tcp, v6 = fake_tcp6, second = fake_efa, direct = fake_efa;
	static const struct sockaddr_in away = {.sin_family = AF_INET,
						.sin_addr = {.s_addr = 0x0100000a}};
	(void)state;
	eth.domain = "eth0";
	eth.src_addr = &away;
	v6.domain = "lo6";
	second.domain = "rdmap9s0-rdm";
	second.nic = "rdmap9s0";
	second.link_bps = 200000000000;
	direct.fabric = "efa-direct";
	fake_offer(&fake_tcp);
	fake_offer(&eth);
	fake_offer(&v6);
	fake_offer(&fake_shm);
	fake_offer(&fake_udp);
	fake_offer(&fake_efa);
	fake_offer(&second);
	fake_offer(&direct);
	fake_file("/sys/class/infiniband/rdmap9s0/device/numa_node", "1\n");
	fake_file("/sys/class/net/eth0/speed", "25000\n");
	fake_file("/sys/class/net/eth0/device/numa_node", "0\n");
	fake_file("/sys/class/net/lo/speed", "-1\n");
	fake_file("/sys/class/net/lo6/speed", "unknown\n");

	struct weft_candidate *list = list_all(&opts, 8);
	assert_int_equal(list->chosen, 1);
	assert_string_equal(list->domain, "rdmap9s0-rdm");
	assert_string_equal(list->nic, "rdmap9s0");
	assert_int_equal(list->numa_node, 1);
	assert_int_equal(list->link_bps, 200000000000);
	assert_int_equal(list->max_msg, SIZE_MAX);
	assert_string_equal(list->addr, "");
	assert_true(says(find(list, "shm"), "asked for by name"));
	assert_true(says(find(list, "udp;ofi_rxd"), "asked for by name"));
	const struct weft_candidate *tcp = find(list, "tcp;ofi_rxm");
	assert_string_equal(tcp->addr, "127.0.0.1");
	assert_int_equal(tcp->link_bps, 0);
	assert_int_equal(tcp->numa_node, -1);
	assert_true(says(tcp, "better"));
	tcp = find(tcp->next, "tcp;ofi_rxm");
	assert_string_equal(tcp->domain, "eth0");
	assert_int_equal(tcp->link_bps, 25000000000);
	assert_int_equal(tcp->numa_node, 0);
	assert_true(says(tcp, "not loopback"));
	tcp = find(tcp->next, "tcp;ofi_rxm");
	assert_string_equal(tcp->addr, "::1");
	assert_int_equal(tcp->link_bps, 0);
	int direct_seen = 0;
	for (const struct weft_candidate *c = list; c; c = c->next) {
		assert_int_equal(c->chosen, c == list);
		direct_seen +=
			strcmp(c->fabric, "efa-direct") == 0 && strstr(c->reason, "keeps order");
	}
	assert_int_equal(direct_seen, 1);
	weft_candidate_free(list);

	/* The same policy opens. */
	struct weft_net *net = net_open(&opts);
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	assert_int_equal(weft_net_get_info(net, &info), 0);
	assert_string_equal(info.domain, "rdmap9s0-rdm");
	assert_string_equal(info.nic, "rdmap9s0");
	assert_int_equal(info.numa_node, 1);
	assert_int_equal(info.cq_data_size, 4);
	assert_int_equal(info.inject_size, 3928);
	assert_int_equal(info.tx_size, 256);
	assert_int_equal(info.rx_size, 1024);
	assert_true(info.has_rma && info.has_tagged && info.has_source && !info.has_wait_fd);
	assert_null(info.caveat);
	assert_int_equal(weft_net_close(net), 0);

	/* Among equals, fi_getinfo's order decides, unless the domain is named; with and without
	 * EFA's suffix. */
	opts.provider = "tcp";
	list = list_all(&opts, 8);
	assert_string_equal(list->domain, "lo");
	weft_candidate_free(list);
	static const char *const names[] = {"eth0", "rdmap0s6", "rdmap0s6-rdm"};
	for (int i = 0; i < 3; i++) {
		opts.provider = i == 0 ? "tcp" : NULL;
		opts.domain = names[i];
		list = list_all(&opts, 8);
		assert_int_equal(list->chosen, 1);
		assert_string_equal(list->domain, i == 0 ? "eth0" : "rdmap0s6-rdm");
		weft_candidate_free(list);
	}
	static const char *const wrong[] = {"eth", "eth01", "rdmap0s6-rd", "rdmap"};
	for (int i = 0; i < 4; i++) {
		opts.provider = NULL;
		opts.domain = wrong[i];
		list = list_all(&opts, 8);
		assert_int_equal(list->chosen, 0);
		weft_candidate_free(list);
	}
	opts.domain = NULL;
	opts.require = "rdma";
	list = list_all(&opts, 8);
	assert_string_equal(list->provider, "efa");
	assert_true(says(find(list, "tcp;ofi_rxm"), "required"));
	weft_candidate_free(list);
}

static void refused(struct weft_net_opts *opts, int code, const char *words)
{
	struct weft_net *net = NULL;
	int ret = weft_net_open(&net, opts);
	if (ret != code)
		fail_msg("open gave %d (%s), not %d", ret, weft_strerror(ret), code);
	assert_null(net);
	assert_true(logged(WEFT_LOG_ERROR, words));
}

static void what_does_not_fit_is_explained(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct weft_candidate *list = NULL;
	struct weft_addr addr;
	(void)state;
	unsetenv("FI_PROVIDER");
	assert_int_equal(weft_net_list(&opts, &list), 0);
	assert_null(list);
	refused(&opts, -ENODATA, "no provider at all");
	fake_offer(&fake_tcp);
	fake_offer(&fake_tcp6);
	fake_offer(&fake_udp);
	opts.provider = "tpc";
	refused(&opts, -ENODATA,
		"'tpc' was asked for, and libfabric offers only tcp;ofi_rxm, udp;ofi_rxd here");
	opts.provider = "efa";
	refused(&opts, -ENODATA, "kernel module efa");
	opts.provider = NULL;
	opts.require = "rdma";
	refused(&opts, -ENODATA,
		"'rdma' is required, and libfabric offers tcp;ofi_rxm, udp;ofi_rxd here; for EFA");
	opts.require = NULL;
	opts.provider = "tcp";
	opts.domain = "eth9";
	refused(&opts, -ENODATA, "'eth9' was asked for, and it has only lo 127.0.0.1, lo ::1 here");
	opts.domain = NULL;
	opts.bind = "192.0.2.7";
	refused(&opts, -ENODATA, "bind asks for the address 192.0.2.7");
	opts.bind = "oops";
	refused(&opts, -EINVAL, "bind 'oops': an IP address is expected");
	opts = quiet_opts();
	assert_int_equal(weft_addr_parse(&addr, "shm://x", NULL), 0);
	opts.toward = &addr;
	refused(&opts, -ENODATA, "does not reach the peer's kind of address");
	assert_int_equal(
		weft_addr_parse(&addr,
				"fe800000000000000853f7fffea442e100000000f6d3b3650000000000000000",
				NULL),
		0);
	refused(&opts, -ENODATA, "kernel module efa");
	setenv("FI_PROVIDER", "^efa", 1);
	refused(&opts, -ENODATA, "FI_PROVIDER='^efa' hides others");
	unsetenv("FI_PROVIDER");
	addr.len = 5;
	refused(&opts, -EINVAL, "toward: not an address");
	assert_int_equal(weft_net_list(&opts, &list), -EINVAL);
	opts = quiet_opts();
	opts.spin_us = -1;
	refused(&opts, -EINVAL, "limits");
	assert_int_equal(weft_net_list(&opts, &list), -EINVAL);
	opts.size = 7;
	struct weft_net *net;
	assert_int_equal(weft_net_open(&net, &opts), -EINVAL);
	for (int i = 0; i < 4; i++) {
		opts = quiet_opts();
		*(i == 0   ? &opts.max_ops
		  : i == 1 ? &opts.max_ops_per_peer
		  : i == 2 ? &opts.max_held
			   : &opts.max_held_per_peer) = 0;
		refused(&opts, -EINVAL, "at least 1");
	}
}

static void ip_of_the_other_version_is_not_chosen(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct weft_addr addr;
	(void)state;
	struct fake_provider nowhere = fake_tcp;
	nowhere.domain = "odd";
	nowhere.src_addr = NULL;
	nowhere.src_addrlen = 0;
	fake_offer(&fake_tcp);
	fake_offer(&fake_tcp6);
	fake_offer(&nowhere);
	assert_int_equal(weft_addr_parse(&addr, "tcp://[::1]:9", NULL), 0);
	opts.toward = &addr;
	/* Named by its domain, it need not be asked for by the route. */
	opts.domain = "lo";
	struct weft_candidate *list = list_all(&opts, 3);
	assert_string_equal(list->addr, "::1");
	assert_true(says(find(list->next, "tcp;ofi_rxm"), "other IP version"));
	weft_candidate_free(list);
	opts.domain = NULL;
	struct weft_net *net = net_open(&opts);
	char text[WEFT_ADDR_TEXT_MAX];
	addr = net_addr(net);
	assert_true(weft_addr_format(&addr, text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "tcp://[::1]:"));
	assert_int_equal(weft_net_close(net), 0);
	/* The caller's own address and port are used. */
	opts.toward = NULL;
	opts.bind = "127.0.0.1:7777";
	net = net_open(&opts);
	addr = net_addr(net);
	assert_true(weft_addr_format(&addr, text, sizeof(text)) > 0);
	assert_string_equal(text, "tcp://127.0.0.1:7777");
	refused(&opts, -EADDRINUSE, "choose another one");
	assert_int_equal(weft_net_close(net), 0);
	opts.bind = "192.0.2.1";
	refused(&opts, -ENODATA, "bind asks");
	opts.bind = NULL;
	opts.provider = "tcp";
	list = list_all(&opts, 3);
	assert_string_equal(list->addr, "127.0.0.1");
	weft_candidate_free(list);
}

static void lesser_wishes_find_lesser_providers(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct fake_provider twice = fake_raw;
	(void)state;
	/* The same one named twice is one candidate. */
	fake_offer(&fake_raw);
	fake_offer(&twice);
	fake_offer(&fake_udp);
	fake_offer(&fake_tcp);
	struct weft_candidate *list = list_all(&opts, 3);
	weft_candidate_free(list);
	opts.provider = "loom";
	struct weft_net *net = net_open(&opts);
	assert_true(logged(WEFT_LOG_WARN, "not been tried"));
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	assert_int_equal(weft_net_get_info(net, &info), 0);
	assert_true(!info.has_rma && !info.has_tagged && !info.has_source && info.has_wait_fd);
	assert_int_equal(info.max_msg, 1024);
	assert_non_null(info.caveat);
	assert_null(info.nic);
	info.size--;
	assert_int_equal(weft_net_get_info(net, &info), -EINVAL);
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	stats.size--;
	assert_int_equal(weft_net_get_stats(net, &stats), -EINVAL);
	struct weft_fabric fabric = WEFT_FABRIC_INIT;
	assert_int_equal(weft_net_fabric(net, &fabric), 0);
	assert_string_equal(fabric.info->domain_attr->name, "loom0");
	assert_true(fabric.fabric && fabric.domain && fabric.av && fabric.cq && fabric.ep);
	fabric.size--;
	assert_int_equal(weft_net_fabric(net, &fabric), -EINVAL);
	assert_int_equal(weft_net_close(net), 0);
	assert_int_equal(weft_net_close(NULL), 0);
}

/* What libfabric leaves out is empty, or not known. */
static void candidates_that_say_little(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct fake_provider nameless = fake_raw, linkless = fake_efa, bare = fake_tcp;
	struct weft_addr addr;
	(void)state;
	nameless.fabric = nameless.domain = NULL;
	linkless.no_link = true;
	bare.src_addr = NULL;
	bare.src_addrlen = 0;
	fake_offer(&nameless);
	fake_offer(&nameless);
	fake_offer(&linkless);
	fake_offer(&bare);
	struct weft_candidate *list = list_all(&opts, 3);
	assert_string_equal(list->provider, "efa");
	assert_string_equal(list->nic, "rdmap0s6");
	assert_int_equal(list->link_bps, 0);
	assert_int_equal(list->numa_node, -1);
	const struct weft_candidate *c = find(list, "loom");
	assert_true(says(c, "asked for by name"));
	assert_string_equal(c->fabric, "");
	assert_string_equal(c->domain, "");
	c = find(list, "tcp;ofi_rxm");
	assert_true(says(c, "no IP address"));
	assert_string_equal(c->addr, "");
	weft_candidate_free(list);
	/* An IP address to bind to leaves out who does not bind to one; a port alone does not. */
	opts.bind = "127.0.0.1:5";
	list = list_all(&opts, 3);
	assert_int_equal(list->chosen, 0);
	assert_true(says(find(list, "efa"), "does not bind to an IP address"));
	weft_candidate_free(list);
	opts.bind = ":5";
	list = list_all(&opts, 3);
	assert_string_equal(list->provider, "efa");
	weft_candidate_free(list);
	/* A requirement that is met. */
	opts.bind = NULL;
	opts.require = "efa";
	list = list_all(&opts, 3);
	assert_int_equal(list->chosen, 1);
	weft_candidate_free(list);
	/* Without a route there is no local address to choose. */
	opts.require = NULL;
	assert_int_equal(weft_addr_parse(&addr, "tcp://127.0.0.1:9", NULL), 0);
	opts.toward = &addr;
	static const char *const calls[] = {"socket", "connect", "getsockname"};
	for (int i = 0; i < 3; i++) {
		fake_refuse(calls[i], NULL, ENETUNREACH, 1);
		assert_int_equal(weft_net_list(&opts, &list), -ENETUNREACH);
		assert_true(logged(WEFT_LOG_ERROR, "no route to the peer's address"));
	}
}

/* The options of a caller that was compiled against an older header, which ended after the first.
 */
static void older_options_are_completed(void **state)
{
	struct weft_net_opts opts = WEFT_NET_OPTS_INIT;
	struct weft_net *net;
	(void)state;
	fake_offer(&fake_udp);
	fake_offer(&fake_tcp);
	opts.size = offsetof(struct weft_net_opts, domain);
	opts.provider = "udp";
	opts.domain = "what is behind the end is not read";
	opts.max_ops = 0;
	assert_int_equal(weft_net_open(&net, &opts), 0);
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	assert_int_equal(weft_net_get_info(net, &info), 0);
	assert_string_equal(info.provider, "udp;ofi_rxd");
	assert_int_equal(weft_net_close(net), 0);
	opts.size--;
	assert_int_equal(weft_net_open(&net, &opts), -EINVAL);
	assert_int_equal(weft_net_open(&net, NULL), 0);
	assert_int_equal(weft_net_close(net), 0);
}

static void raw_addresses_of_every_length(void **state)
{
	static const size_t lengths[] = {16, 19, 32, 128};
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct fake_provider provider = fake_raw;
		struct pair pair;
		struct weft_addr addr;
		fake_reset();
		provider.addr_len = lengths[i];
		pair_open(&pair, &provider, NULL);
		assert_int_equal(pair.b_addr.len, lengths[i]);
		assert_int_equal(pair.b_addr.scheme, WEFT_SCHEME_RAW);
		assert_int_equal(weft_net_get_peer_addr(pair.a, pair.a_to_b, &addr), 0);
		assert_true(weft_addr_equal(&addr, &pair.b_addr));
		exchange(&pair);
		pair_close(&pair);
	}
	/* The longest that there is room for, and one more. */
	fake_reset();
	struct weft_net_opts opts = quiet_opts();
	struct fake_provider *offered = fake_offer(&fake_raw);
	offered->addr_len = WEFT_ADDR_MAX;
	opts.provider = "loom";
	assert_int_equal(weft_net_close(net_open(&opts)), 0);
}

static void peers_are_checked_before_the_vector(void **state)
{
	struct pair pair;
	struct weft_addr addr;
	weft_dest dest = 99;
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	long inserts = fake_calls("fi_av_insert");
	addr = pair.b_addr;
	addr.scheme = WEFT_SCHEME_UDP;
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), -EINVAL);
	assert_true(logged(WEFT_LOG_ERROR, "another kind"));
	addr = pair.b_addr;
	addr.format = FI_SOCKADDR_IN6;
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), -EINVAL);
	addr = pair.b_addr;
	addr.len = 0;
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), -EINVAL);
	addr.len = WEFT_ADDR_MAX + 1;
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), -EINVAL);
	addr = pair.b_addr;
	memset(addr.raw + 2, 0, 2);
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), -EINVAL);
	assert_true(logged(WEFT_LOG_ERROR, "port"));
	assert_int_equal(fake_calls("fi_av_insert"), inserts);
	/* What says nothing of the endpoint does not make another peer. */
	addr = pair.b_addr;
	addr.raw[15] = 7;
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), 0);
	assert_int_equal(dest, pair.a_to_b);
	assert_int_equal(weft_net_remove_peer(pair.a, dest), 0);
	exchange(&pair);
	pair_close(&pair);
}

static void failed_inserts_leave_nothing(void **state)
{
	struct pair pair;
	struct weft_addr addr;
	weft_dest dest = 99;
	static const struct {
		int code, ret;
	} rows[] = {{FAKE_ZERO, -EADDRNOTAVAIL}, {FI_EINVAL, -EADDRNOTAVAIL}, {FI_ENOMEM, -ENOMEM}};
	(void)state;
	for (int efa = 0; efa < 2; efa++) {
		dest = 99;
		fake_reset();
		pair_open(&pair, efa ? &fake_efa : &fake_tcp, NULL);
		for (int i = 0; i < 3; i++) {
			addr = pair.b_addr;
			addr.raw[efa ? 17 : 7] = 9;
			fake_refuse("fi_av_insert", NULL, rows[i].code, 1);
			assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), rows[i].ret);
			assert_true(logged(WEFT_LOG_ERROR,
					   efa ? "another subnet or region" : "refuses"));
			assert_int_equal(dest, 99);
			assert_int_equal(net_stats(pair.a).peers, 1);
		}
		assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), 0);
		assert_int_equal(net_stats(pair.a).peers, 2);
		exchange(&pair);
		/* One that the provider does not let go is gone for the caller. */
		fake_refuse("fi_av_remove", NULL, FI_EINVAL, 1);
		assert_int_equal(weft_net_remove_peer(pair.a, dest), 0);
		assert_true(logged(WEFT_LOG_WARN, "does not let go"));
		assert_int_equal(net_stats(pair.a).peers, 1);
		pair_close(&pair);
	}
}

static void many_peers_and_their_handles(void **state)
{
	enum { PEERS = 100 };
	struct pair pair;
	struct weft_addr addr, back;
	weft_dest dest[PEERS], again;
	(void)state;
	pair_open(&pair, &fake_udp, NULL);
	addr = pair.b_addr;
	for (int i = 0; i < PEERS; i++) {
		addr.raw[6] = (uint8_t)(1 + i);
		assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest[i]), 0);
		for (int k = 0; k < i; k++)
			assert_int_not_equal(dest[i], dest[k]);
	}
	assert_int_equal(net_stats(pair.a).peers, PEERS + 1);
	/* Generations count from 1, so that no handle is WEFT_DEST_NONE, and each run gives the
	 * same ones. */
	for (int i = 0; i < PEERS; i++)
		assert_int_equal(dest[i] >> 32, 1);
	for (int i = 0; i < PEERS; i++) {
		addr.raw[6] = (uint8_t)(1 + i);
		assert_int_equal(weft_net_get_peer_addr(pair.a, dest[i], &back), 0);
		assert_true(weft_addr_equal(&addr, &back));
		assert_int_equal(weft_net_add_peer(pair.a, &addr, &again), 0);
		assert_int_equal(again, dest[i]);
	}
	/* Two references each. The lowest free index is used first, and its old handle stays stale.
	 */
	for (int i = PEERS - 1; i >= 0; i--) {
		assert_int_equal(weft_net_remove_peer(pair.a, dest[i]), 0);
		assert_int_equal(weft_net_get_peer_addr(pair.a, dest[i], &back), 0);
		assert_int_equal(weft_net_remove_peer(pair.a, dest[i]), 0);
		assert_int_equal(weft_net_remove_peer(pair.a, dest[i]), -ENOTCONN);
		assert_int_equal(weft_net_get_peer_addr(pair.a, dest[i], &back), -ENOTCONN);
	}
	assert_int_equal(net_stats(pair.a).peers, 1);
	addr.raw[6] = 200;
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &again), 0);
	assert_int_equal((uint32_t)again, (uint32_t)dest[0]);
	assert_int_not_equal(again, dest[0]);
	assert_int_equal(weft_net_get_peer_addr(pair.a, dest[0], &back), -ENOTCONN);
	assert_int_equal(weft_net_get_peer_addr(pair.a, again + 1000, &back), -ENOTCONN);
	exchange(&pair);
	pair_close(&pair);
}

static void peers_are_refused_at_the_limits(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	struct weft_addr addr;
	weft_dest dest;
	(void)state;
	fake_offer(&fake_tcp);
	fake_offer(&fake_shm);
	fake_set_files(100, 7);
	struct weft_net *net = net_open(&opts);
	assert_int_equal(weft_net_get_info(net, &info), 0);
	/* The directory lists itself and its parent too; the library keeps 64 for others. */
	assert_int_equal(info.max_peers, 100 - 7 - 2 - 64);
	addr = net_addr(net);
	for (unsigned i = 0; i < 28; i++) {
		addr.raw[7] = (uint8_t)(2 + i);
		assert_int_equal(weft_net_add_peer(net, &addr, &dest), i < 27 ? 0 : -ENOSPC);
	}
	assert_true(logged(WEFT_LOG_ERROR, "27 is the limit"));
	assert_int_equal(net_stats(net).refused, 1);
	assert_int_equal(weft_net_close(net), 0);
	opts.max_peers = 5;
	net = net_open(&opts);
	assert_int_equal(weft_net_get_info(net, &info), 0);
	assert_int_equal(info.max_peers, 5);
	assert_int_equal(weft_net_close(net), 0);
	/* However few descriptors there are, one peer may be tried. */
	opts.max_peers = 0;
	fake_set_files(30, 0);
	net = net_open(&opts);
	assert_int_equal(weft_net_get_info(net, &info), 0);
	assert_int_equal(info.max_peers, 1);
	assert_int_equal(weft_net_close(net), 0);
	fake_refuse("opendir", NULL, EMFILE, 1);
	fake_set_files(1000, 0);
	net = net_open(&opts);
	assert_int_equal(weft_net_get_info(net, &info), 0);
	assert_int_equal(info.max_peers, 1000 - 64);
	assert_int_equal(weft_net_close(net), 0);
	/* shm has its own, and needs no descriptors. */
	opts.provider = "shm";
	net = net_open(&opts);
	assert_int_equal(weft_net_get_info(net, &info), 0);
	assert_int_equal(info.max_peers, 256);
	assert_int_equal(weft_net_close(net), 0);
	opts.max_peers = 300;
	net = net_open(&opts);
	assert_int_equal(weft_net_get_info(net, &info), 0);
	assert_int_equal(info.max_peers, 256);
	assert_int_equal(weft_net_close(net), 0);
}

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
	assert_int_equal(weft_net_close(a), 5 + 3);
	assert_true(logged(WEFT_LOG_WARN, "8 objects are left"));
	for (int i = 0; i < 3; i++)
		assert_int_equal(out[i].calls, 1);
	assert_int_equal(out[1].status, -ECANCELED);
	/* The caller's references are still good. */
	assert_true(is_filled(buf, 100, 0));
	weft_buf_unref(buf);
	weft_buf_unref(kept);
	assert_int_equal(weft_net_close(b), 0);
	fake_get_left(&left);
	assert_int_equal(left.objects, 5 + 3);
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
		world_test(the_best_is_chosen_and_the_rest_have_reasons),
		world_test(what_does_not_fit_is_explained),
		world_test(ip_of_the_other_version_is_not_chosen),
		world_test(lesser_wishes_find_lesser_providers),
		world_test(candidates_that_say_little),
		world_test(older_options_are_completed),
		world_test(raw_addresses_of_every_length),
		world_test(peers_are_checked_before_the_vector),
		world_test(failed_inserts_leave_nothing),
		world_test(many_peers_and_their_handles),
		world_test(peers_are_refused_at_the_limits),
		world_test(names_of_shm_are_claimed_and_given_up),
		world_test(libfabric_of_another_version),
		world_test(completion_queues_without_a_descriptor),
		world_test(what_fails_to_open_says_what_to_do),
		world_test(addresses_of_endpoints_that_weft_cannot_use),
		world_test(abandoned_where_close_would_not_return),
		world_test(what_does_not_close_is_counted),
		world_test(close_while_busy),
		world_test(idle_close_takes_no_time),
		world_test(nothing_starts_while_closing),
	};
	return world_run(tests);
}
