/* SPDX-License-Identifier: MIT */
/*
 * Peers on the fake fabric: addresses of every form, handles, limits, and peers that die, fall
 * silent, come back or are removed with operations under way.
 */
#include "world.h"

#include <errno.h>

#include <rdma/fi_errno.h>

#include "netimpl.h"

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
		pass(pair.a, pair.b, 1);
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
	pass(pair.a, pair.b, 1);
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

static void dead_peers_are_as_the_provider_has_them(void **state)
{
	static const struct {
		enum fake_absent absent;
		int started, status;
	} rows[] = {
		{FAKE_ABSENT_AGAIN, 0, -ETIMEDOUT},
		{FAKE_ABSENT_NEVER, 0, -ETIMEDOUT},
		{FAKE_ABSENT_LOST, 0, 0},
		{FAKE_ABSENT_ERROR, 0, -FI_EHOSTUNREACH},
		{FAKE_ABSENT_REFUSE, -FI_ENOENT, 1},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair pair;
		struct outcome sent = {.status = 1};
		fake_reset();
		pair_open(&pair, &fake_udp, NULL);
		exchange(&pair);
		pair.provider->absent_err = FI_EHOSTUNREACH;
		pair.provider->absent = rows[i].absent;
		fake_set_peer(&pair.b_addr, FAKE_PEER_DEAD);
		struct weft_post post = whole(NULL);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent),
				 rows[i].started);
		if (rows[i].started == 0)
			pass_until(pair.a, NULL, &sent.calls, 1);
		assert_int_equal(sent.status, rows[i].status);
		fake_set_peer(&pair.b_addr, FAKE_PEER_LIVE);
		pair_close(&pair);
	}
}

/* What is on its way when the peer dies is lost, or ends as the provider says. */
static void peers_that_die_meanwhile(void **state)
{
	struct pair pair;
	struct outcome sent = {0};
	(void)state;
	for (int i = 0; i < 2; i++) {
		fake_reset();
		pair_open(&pair, i == 0 ? &fake_tcp : &fake_efa, NULL);
		exchange(&pair);
		struct weft_post post = whole(NULL);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
		fake_set_peer(&pair.b_addr, FAKE_PEER_DEAD);
		pass_until(pair.a, NULL, &sent.calls, i + 1);
		assert_int_equal(sent.status, i == 0 ? 0 : -FI_EHOSTUNREACH);
		pair_close(&pair);
	}
}

static void peers_come_back_at_the_same_address_or_another(void **state)
{
	struct pair pair;
	struct outcome sent = {0};
	struct weft_net_opts opts = quiet_opts();
	(void)state;
	pair_open(&pair, &fake_efa, NULL);
	exchange(&pair);
	opts.provider = "efa";
	for (int same = 0; same < 2; same++) {
		assert_int_equal(weft_net_close(pair.b), 0);
		struct weft_post post = whole(NULL);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
		pass_until(pair.a, NULL, &sent.calls, same + 1);
		assert_int_equal(sent.status, -FI_EHOSTUNREACH);
		if (same)
			fake_next_addr(pair.b_addr.raw, pair.b_addr.len);
		pair.b = net_open(&opts);
		struct weft_addr addr = net_addr(pair.b);
		assert_int_equal(weft_addr_equal(&addr, &pair.b_addr), same);
		if (!same) {
			pair.b_addr = addr;
			assert_int_equal(weft_net_add_peer(pair.a, &addr, &pair.a_to_b), 0);
		}
		exchange(&pair);
	}
	pair_close(&pair);
}

static void held_operations_are_capped_per_peer_and_in_all(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	struct weft_net_opts opts = quiet_opts();
	(void)state;
	opts.max_held_per_peer = 2;
	opts.max_held = 3;
	opts.max_ops_per_peer = 2;
	pair_open(&pair, &fake_udp, &opts);
	weft_dest nobody = add_nobody(pair.a, NULL);
	struct weft_post post = whole(NULL);
	post.timeout_ms = 10;
	/* Held ones do not count as under way. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out), 0);
		pass_until(pair.a, NULL, &out.calls, i + 1);
	}
	assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out), -EHOSTUNREACH);
	fake_set_peer(&pair.b_addr, FAKE_PEER_SILENT);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
	pass_until(pair.a, NULL, &out.calls, 3);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), -EHOSTUNREACH);
	struct weft_net_stats stats = net_stats(pair.a);
	assert_int_equal(stats.held, 3);
	assert_int_equal(stats.refused, 2);
	assert_int_equal(stats.ops, 0);
	/* The cap follows the peer, not the handle. */
	struct weft_addr addr;
	weft_dest again;
	assert_int_equal(weft_net_get_peer_addr(pair.a, nobody, &addr), 0);
	assert_int_equal(weft_net_remove_peer(pair.a, nobody), 0);
	assert_int_equal(net_stats(pair.a).peers, 2);
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &again), 0);
	assert_int_not_equal(again, nobody);
	assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out), -ENOTCONN);
	assert_int_equal(weft_net_send(pair.a, again, &post, record, &out), -EHOSTUNREACH);
	pair_close(&pair);
	assert_int_equal(out.calls, 3);
}

static void removed_peers_leave_when_the_provider_lets_go(void **state)
{
	struct pair pair;
	struct outcome out[3] = {0};
	(void)state;
	pair_open(&pair, &fake_udp, NULL);
	logged_any(WEFT_LOG_DEBUG);
	struct weft_post post = whole(NULL);
	fake_next("fi_send", NULL, 1,
		  &(struct fake_fate){FAKE_LOSE, 30 * FAKE_NS_PER_MS, 0, 0, NULL});
	fake_next("fi_send", NULL, 1,
		  &(struct fake_fate){FAKE_LOSE, 40 * FAKE_NS_PER_MS, 0, 0, NULL});
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out[0]), 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out[1]), 0);
	fake_refuse("fi_send", NULL, FI_EAGAIN, 1);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out[2]), 0);
	assert_int_equal(weft_net_remove_peer(pair.a, pair.a_to_b), 0);
	assert_int_equal(weft_net_remove_peer(pair.a, pair.a_to_b), -ENOTCONN);
	assert_int_equal(weft_net_poll(pair.a, 0), 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(out[i].status, -ECANCELED);
		assert_string_equal(out[i].text, "the peer was removed");
	}
	assert_int_equal(net_stats(pair.a).canceled, 3);
	assert_int_equal(net_stats(pair.a).held, 2);
	assert_int_equal(net_stats(pair.a).peers, 1);
	assert_int_equal(fake_calls("fi_av_remove"), 0);
	pass(pair.a, pair.b, 35);
	assert_int_equal(fake_calls("fi_av_remove"), 0);
	pass(pair.a, pair.b, 10);
	assert_int_equal(fake_calls("fi_av_remove"), 1);
	assert_int_equal(net_stats(pair.a).peers, 0);
	assert_int_equal(net_stats(pair.a).held, 0);
	assert_int_equal(out[0].calls + out[1].calls + out[2].calls, 3);
	assert_false(logged_any(WEFT_LOG_WARN));
	/* A new handle, whose index was used before. */
	assert_int_equal(weft_net_add_peer(pair.a, &pair.b_addr, &out[0].source), 0);
	assert_int_not_equal(out[0].source, pair.a_to_b);
	pair.a_to_b = out[0].source;
	exchange(&pair);
	pair_close(&pair);
}

/* A completion and the end of the same operation fall into one turn. */
static void completed_in_the_turn_that_ends_it(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	(void)state;
	pair_open(&pair, &fake_udp, NULL);
	struct weft_buf *buf = filled(pair.a, 10, 0);
	struct weft_post post = whole(buf);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
	weft_buf_unref(buf);
	assert_int_equal(weft_net_remove_peer(pair.a, pair.a_to_b), 0);
	fake_advance_ns(FAKE_NS_PER_MS);
	assert_int_equal(weft_net_poll(pair.a, 0), 1);
	assert_int_equal(out.status, -ECANCELED);
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	struct weft_net_stats stats = net_stats(pair.a);
	assert_int_equal(stats.held + stats.late + stats.peers + stats.buffers + stats.ops, 0);
	pair_close(&pair);
	assert_int_equal(out.calls, 1);
}

struct swap {
	weft_dest first, second;
	struct weft_addr second_addr;
	int calls;
};

static void swap_peers(struct weft_net *net, const struct weft_done *done)
{
	struct swap *swap = done->user;
	assert_int_equal(done->status, 0);
	if (++swap->calls == 1) {
		assert_int_equal(done->source, swap->first);
		assert_int_equal(weft_net_remove_peer(net, swap->first), 0);
		assert_int_equal(weft_net_add_peer(net, &swap->second_addr, &swap->second), 0);
	} else {
		assert_int_equal(done->source, WEFT_DEST_NONE);
	}
}

/* A provider whose sources can be relied on, as those of tcp cannot. */
static struct fake_provider with_sources(void)
{
	struct fake_provider provider = fake_tcp;
	provider.name = "sockets";
	return provider;
}

/* The place in the address vector is not another's while completions that name it have not been
 * read. */
static void what_a_removed_peer_sent_is_nobody_elses(void **state)
{
	struct pair pair;
	struct swap swap = {.calls = 0};
	struct outcome sent = {0};
	struct weft_post post = whole(NULL);
	struct fake_provider provider = with_sources();
	(void)state;
	pair_open(&pair, &provider, NULL);
	exchange(&pair);
	swap.first = pair.b_to_a;
	swap.second_addr = pair.a_addr;
	swap.second_addr.raw[7] ^= 0x40;
	struct weft_buf *into = filled(pair.b, 10, 0);
	/* More than are read at once. */
	for (int i = 0; i < 40; i++) {
		assert_int_equal(weft_net_recv(pair.b, into, swap_peers, &swap), 0);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	}
	fake_advance_ns(FAKE_NS_PER_MS);
	pass_until(pair.b, pair.a, &swap.calls, 40);
	pass(pair.a, pair.b, 2);
	assert_int_equal(net_stats(pair.b).peers, 1);
	weft_buf_unref(into);
	pair_close(&pair);
}

/* Removed, added again before its place was given up, and removed for good. */
static void a_peer_that_comes_and_goes_leaves(void **state)
{
	struct pair pair;
	struct weft_addr addr;
	(void)state;
	pair_open(&pair, &fake_udp, NULL);
	weft_dest dest = add_nobody(pair.a, &addr);
	for (int i = 0; i < 3; i++) {
		weft_dest former = dest;
		assert_int_equal(weft_net_remove_peer(pair.a, dest), 0);
		assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), 0);
		assert_int_not_equal(dest, former);
	}
	pass(pair.a, pair.b, 1);
	assert_int_equal(net_stats(pair.a).peers, 2);
	assert_int_equal(weft_net_remove_peer(pair.a, dest), 0);
	pass(pair.a, pair.b, 1);
	assert_int_equal(net_stats(pair.a).peers, 1);
	exchange(&pair);
	pair_close(&pair);
}

/* Where both ends count messages, an address with which one was exchanged stays. */
static void addresses_stay_where_messages_are_counted(void **state)
{
	struct pair pair;
	struct weft_addr addr;
	(void)state;
	pair_open(&pair, &fake_efa, NULL);
	exchange(&pair);
	fake_count(0, false, 0);
	fake_refuse("fi_av_remove", NULL, FI_EBUSY, 1);
	assert_int_equal(weft_net_remove_peer(pair.a, pair.a_to_b), 0);
	pass(pair.a, pair.b, 3);
	assert_int_equal(net_stats(pair.a).peers, 0);
	assert_false(fake_gave(FI_EBUSY));
	assert_int_equal(weft_net_add_peer(pair.a, &pair.b_addr, &pair.a_to_b), 0);
	exchange(&pair);
	assert_int_equal(net_stats(pair.a).peers, 1);
	/* One with which none was exchanged goes. */
	weft_dest dest = add_nobody(pair.a, &addr);
	assert_int_equal(weft_net_remove_peer(pair.a, dest), 0);
	pass(pair.a, pair.b, 3);
	assert_true(fake_gave(FI_EBUSY));
	/* One that has stayed is one more when it is added again. */
	assert_int_equal(weft_net_remove_peer(pair.a, pair.a_to_b), 0);
	pair.a->max_peers = 1;
	dest = add_nobody(pair.a, &addr);
	assert_int_equal(weft_net_add_peer(pair.a, &pair.b_addr, &pair.a_to_b), -ENOSPC);
	assert_true(logged(WEFT_LOG_ERROR, "1 is the limit"));
	assert_int_equal(weft_net_remove_peer(pair.a, dest), 0);
	pass(pair.a, pair.b, 3);
	assert_int_equal(weft_net_add_peer(pair.a, &pair.b_addr, &pair.a_to_b), 0);
	pair_close(&pair);
}

/* Where a peer's memory goes with its address, it stays for as long as the peer is there. */
static void addresses_stay_where_peers_are_mapped(void **state)
{
	struct pair pair;
	struct weft_net_opts opts = quiet_opts();
	weft_dest to_other;
	(void)state;
	pair_open(&pair, &fake_shm, NULL);
	opts.provider = "shm";
	struct weft_net *other = net_open(&opts);
	struct weft_addr addr = net_addr(other);
	exchange(&pair);
	fake_count(0, false, 0);
	fake_refuse("fi_av_remove", NULL, FI_EBUSY, 1);
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &to_other), 0);
	assert_int_equal(weft_net_remove_peer(pair.a, to_other), 0);
	assert_int_equal(weft_net_remove_peer(pair.a, pair.a_to_b), 0);
	pass(pair.a, pair.b, 3);
	assert_int_equal(net_stats(pair.a).peers, 0);
	assert_false(fake_gave(FI_EBUSY));
	assert_int_equal(weft_net_add_peer(pair.a, &pair.b_addr, &pair.a_to_b), 0);
	exchange(&pair);
	/* What has ended sends no more. It is noticed when another one is removed. */
	assert_int_equal(weft_net_close(other), 0);
	assert_int_equal(weft_net_remove_peer(pair.a, pair.a_to_b), 0);
	pass(pair.a, pair.b, 3);
	assert_true(fake_gave(FI_EBUSY));
	assert_int_equal(weft_net_add_peer(pair.a, &pair.b_addr, &pair.a_to_b), 0);
	pair_close(&pair);
}

/* There are places for so many only: those that are kept make room. */
static void kept_addresses_make_room(void **state)
{
	enum { OTHERS = 12 };
	struct pair pair;
	struct weft_net_opts opts = quiet_opts();
	struct weft_net *others[OTHERS];
	struct weft_post post = whole(NULL);
	(void)state;
	pair_open(&pair, &fake_shm, NULL);
	pair.a->dests.av_room = 4;
	opts.provider = "shm";
	for (int i = 0; i < OTHERS; i++) {
		struct outcome sent = {0}, received = {0};
		weft_dest dest;
		others[i] = net_open(&opts);
		struct weft_addr addr = net_addr(others[i]);
		struct weft_buf *into = filled(others[i], 10, 0);
		assert_int_equal(weft_net_recv(others[i], into, record, &received), 0);
		assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), 0);
		assert_int_equal(weft_net_send(pair.a, dest, &post, record, &sent), 0);
		pass_until(pair.a, others[i], &received.calls, 1);
		pass_until(pair.a, others[i], &sent.calls, 1);
		assert_int_equal(sent.status, 0);
		assert_true(pair.a->dests.count <= 5);
		weft_buf_unref(into);
		assert_int_equal(weft_net_remove_peer(pair.a, dest), 0);
	}
	exchange(&pair);
	for (int i = 0; i < OTHERS; i++)
		assert_int_equal(weft_net_close(others[i]), 0);
	pair_close(&pair);
}

/* A new peer in the place of a former one is told from it, also to who looked the former one up a
 * moment ago. */
static void places_are_used_again(void **state)
{
	struct pair pair;
	struct weft_net_opts opts = quiet_opts();
	struct outcome sent = {0}, received = {0};
	struct weft_post post = whole(NULL);
	weft_dest to_b;
	struct fake_provider provider = with_sources();
	(void)state;
	pair_open(&pair, &provider, NULL);
	struct weft_buf *into = filled(pair.b, 10, 0);
	opts.provider = provider.name;
	for (int i = 0; i < 3; i++) {
		struct weft_net *other = net_open(&opts);
		struct weft_addr addr = net_addr(other);
		assert_int_equal(weft_net_remove_peer(pair.b, pair.b_to_a), 0);
		pass(pair.a, pair.b, 1);
		assert_int_equal(weft_net_add_peer(pair.b, &addr, &pair.b_to_a), 0);
		assert_int_equal(weft_net_add_peer(other, &pair.b_addr, &to_b), 0);
		assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
		assert_int_equal(weft_net_send(other, to_b, &post, record, &sent), 0);
		pass_until(other, pair.b, &received.calls, i + 1);
		pass_until(other, pair.b, &sent.calls, i + 1);
		assert_int_equal(received.source, pair.b_to_a);
		assert_int_equal(weft_net_close(other), 0);
	}
	weft_buf_unref(into);
	pair_close(&pair);
}

/* A net that never reads its completions to the end in a turn lets removed peers go all the same.
 */
static void removed_peers_leave_a_busy_net(void **state)
{
	struct pair pair;
	struct outcome sent = {0};
	struct weft_post post = whole(NULL);
	(void)state;
	pair_open(&pair, &fake_udp, NULL);
	weft_dest nobody = add_nobody(pair.a, NULL);
	assert_int_equal(weft_net_remove_peer(pair.a, nobody), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
		fake_advance_ns(FAKE_NS_PER_MS);
		assert_int_equal(weft_net_poll(pair.a, 0), 1);
	}
	assert_int_equal(net_stats(pair.a).peers, 1);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		world_test(raw_addresses_of_every_length),
		world_test(peers_are_checked_before_the_vector),
		world_test(failed_inserts_leave_nothing),
		world_test(many_peers_and_their_handles),
		world_test(peers_are_refused_at_the_limits),
		world_test(dead_peers_are_as_the_provider_has_them),
		world_test(peers_that_die_meanwhile),
		world_test(peers_come_back_at_the_same_address_or_another),
		world_test(held_operations_are_capped_per_peer_and_in_all),
		world_test(removed_peers_leave_when_the_provider_lets_go),
		world_test(completed_in_the_turn_that_ends_it),
		world_test(what_a_removed_peer_sent_is_nobody_elses),
		world_test(a_peer_that_comes_and_goes_leaves),
		world_test(addresses_stay_where_messages_are_counted),
		world_test(addresses_stay_where_peers_are_mapped),
		world_test(kept_addresses_make_room),
		world_test(places_are_used_again),
		world_test(removed_peers_leave_a_busy_net),
	};
	return world_run(tests);
}
