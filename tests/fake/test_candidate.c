/* SPDX-License-Identifier: MIT */
/* The choice among what libfabric offers, by the caller's wishes: what is chosen, and why the rest
 * is not. */
#include "world.h"

#include <errno.h>
#include <netinet/in.h>
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
	assert_true(list->suits && !find(list, "shm")->suits);
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
	assert_true(says(tcp, "not loopback") && tcp->suits);
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

/* A device of software is used where it is there, and does not pass for hardware. */
static void software_is_told_from_hardware(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	struct fake_provider soft = fake_efa;
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	static const char caveat[] = "a software device (softefa), not EFA hardware";
	(void)state;
	soft.domain = "softefa0-rdm";
	soft.nic = "softefa0";
	fake_offer(&fake_tcp);
	fake_offer(&soft);
	for (int asked = 0; asked < 2; asked++) {
		opts.provider = asked ? "efa" : NULL;
		struct weft_candidate *list = list_all(&opts, 2);
		assert_string_equal(list->nic, "softefa0");
		assert_string_equal(list->reason, caveat);
		assert_int_equal(list->link_bps, 0);
		weft_candidate_free(list);
	}
	struct weft_net *net = net_open(&opts);
	assert_true(logged(WEFT_LOG_WARN, caveat));
	assert_int_equal(weft_net_get_info(net, &info), 0);
	assert_string_equal(info.caveat, caveat);
	assert_int_equal(info.link_bps, 0);
	assert_int_equal(weft_net_close(net), 0);

	opts.provider = NULL;
	opts.require = "rdma";
	struct weft_candidate *list = list_all(&opts, 2);
	assert_int_equal(list->chosen, 0);
	assert_true(says(find(list, "efa"), caveat));
	weft_candidate_free(list);
	refused(&opts, -ENODATA, "not EFA hardware: refused, since 'rdma' is required");
	/* Who names it means it; and the provider is that of EFA. */
	opts.domain = "softefa0";
	assert_int_equal(weft_net_close(net_open(&opts)), 0);
	opts.domain = NULL;
	opts.require = "efa";
	assert_int_equal(weft_net_close(net_open(&opts)), 0);
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
	refused(&opts, -ENODATA,
		"no provider here reaches the peer's kind of address, shm; libfabric offers only "
		"tcp;ofi_rxm, udp;ofi_rxd");
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
	info.size = sizeof(info.size);
	assert_int_equal(weft_net_get_info(net, &info), -EINVAL);
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	stats.size = sizeof(stats.size);
	assert_int_equal(weft_net_get_stats(net, &stats), -EINVAL);
	struct weft_fabric fabric = WEFT_FABRIC_INIT;
	assert_int_equal(weft_net_fabric(net, &fabric), 0);
	assert_string_equal(fabric.info->domain_attr->name, "loom0");
	assert_true(fabric.fabric && fabric.domain && fabric.av && fabric.cq && fabric.ep);
	fabric.size = sizeof(fabric.size);
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

/* What a caller knows of the options that the library does not know is left alone. */
static void options_of_other_sizes(void **state)
{
	struct {
		struct weft_net_opts opts;
		char later[64];
	} newer = {.opts = WEFT_NET_OPTS_INIT};
	struct weft_net *net;
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	(void)state;
	fake_offer(&fake_udp);
	fake_offer(&fake_tcp);
	memset(newer.later, 0xff, sizeof(newer.later));
	newer.opts.size = sizeof(newer);
	newer.opts.provider = "udp";
	assert_int_equal(weft_net_open(&net, &newer.opts), 0);
	assert_int_equal(weft_net_get_info(net, &info), 0);
	assert_string_equal(info.provider, "udp;ofi_rxd");
	assert_int_equal(weft_net_close(net), 0);
	newer.opts.size = offsetof(struct weft_net_opts, domain) - 1;
	struct {
		struct weft_net_stats stats;
		char later[64];
	} more = {.stats = {.size = sizeof(more)}};
	struct weft_net *other;
	assert_int_equal(weft_net_open(&other, NULL), 0);
	assert_int_equal(weft_net_get_stats(other, &more.stats), 0);
	assert_int_equal(more.stats.size, sizeof(more.stats));
	more.stats.size = offsetof(struct weft_net_stats, held);
	more.stats.held = 4711;
	assert_int_equal(weft_net_get_stats(other, &more.stats), 0);
	assert_int_equal(more.stats.size, offsetof(struct weft_net_stats, held));
	assert_int_equal(more.stats.held, 4711);
	assert_int_equal(weft_net_close(other), 0);
	assert_int_equal(weft_net_open(&net, &newer.opts), -EINVAL);
	assert_int_equal(weft_net_open(&net, NULL), 0);
	assert_int_equal(weft_net_close(net), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		world_test(the_best_is_chosen_and_the_rest_have_reasons),
		world_test(software_is_told_from_hardware),
		world_test(what_does_not_fit_is_explained),
		world_test(ip_of_the_other_version_is_not_chosen),
		world_test(lesser_wishes_find_lesser_providers),
		world_test(candidates_that_say_little),
		world_test(options_of_other_sizes),
	};
	return world_run(tests);
}
