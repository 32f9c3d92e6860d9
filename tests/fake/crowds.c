/* SPDX-License-Identifier: MIT */
/* Two nodes with several sessions. */
#include "crowds.h"

#include <stdlib.h>
#include <string.h>

#include "peer.h"

struct party *a, *b;
weft_peer peers[SESSIONS];
bool busy;
struct fate fates[SESSIONS];

void begin(const struct weft_node_opts *opts, int sessions)
{
	memset(fates, 0, sizeof(fates));
	a = party_open(opts);
	b = party_open(opts);
	for (int i = 0; i < sessions; i++)
		peers[i] = meet(a, b);
	nodes_pass(QUIET_MS);
	/* As if two frames had left in the last turn. */
	a->node->routes->frames = b->node->routes->frames = busy ? 2 : 0;
}

int setup(void **state)
{
	busy = false;
	return nodes_setup(state);
}

int setup_busy(void **state)
{
	busy = true;
	return nodes_setup(state);
}

void check_form(void)
{
	for (int i = 0; i < SESSIONS; i++) {
		const struct weft__peer *peer = weft__peer_find(a->node, peers[i]);
		assert_int_equal(peer->bundle > 0, busy && i > 0);
	}
}

void begin_with_room_for_one(void)
{
	struct weft_net_opts net = quiet_opts();
	party_provider(&fake_tcp);
	net.provider = fake_tcp.name;
	net.max_ops_per_peer = 1;
	struct weft_node_opts opts = node_opts();
	opts.net = &net;
	begin(&opts, SESSIONS);
}

void ask_all(size_t len)
{
	uint8_t *data = calloc(1, len);
	assert_non_null(data);
	for (int i = 0; i < SESSIONS; i++) {
		memset(data, 'A' + i, len);
		struct weft_send send = asking(data, len, &fates[i]);
		assert_int_equal(weft_peer_send(a->node, peers[i], &send), 0);
	}
	free(data);
}

void check_fates(void)
{
	for (int i = 0; i < SESSIONS; i++) {
		assert_int_equal(fates[i].sent, 1);
		assert_int_equal(fates[i].sent_status, 0);
		assert_int_equal(fates[i].replies, 1);
		assert_int_equal(fates[i].reply_status, 0);
		assert_int_equal(fates[i].text[0], 'A' + i);
	}
}
