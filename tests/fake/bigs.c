/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "buf.h"

#include "bigs.h"

/* ---- contents */

void fill(uint8_t *data, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8) * 3 + (i >> 16) + (size_t)seed * 31);
}

bool is_right(const uint8_t *data, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++) {
		if (data[i] != (uint8_t)(i * 7 + (i >> 8) * 3 + (i >> 16) + (size_t)seed * 31))
			return false;
	}
	return true;
}

void take_expected(struct party *party, const struct weft_msg *msg)
{
	struct expected *expected = party->user;
	assert_true(msg->id > expected->last && msg->id <= EXPECTED_MAX);
	expected->last = msg->id;
	assert_int_equal(msg->len, expected->sizes[msg->id - 1]);
	assert_true(is_right(msg->data, msg->len, msg->id));
	if (!expected->hold || msg->len < 17 * KIB)
		return;
	assert_true(expected->held_count < (int)COUNT(expected->held));
	struct weft_msg *held = weft_msg_hold(party->node, msg);
	assert_non_null(held);
	expected->held[expected->held_count++] = held;
}

void expect(struct party *party, struct expected *expected)
{
	memset(expected, 0, sizeof(*expected));
	party->user = expected;
	party->on_message = take_expected;
}

int send_big(struct party *from, weft_peer peer, struct expected *expected, uint32_t id, size_t len,
	     int timeout_ms, struct fate *fate)
{
	uint8_t *data = malloc(len > 0 ? len : 1);
	assert_non_null(data);
	fill(data, len, id);
	struct weft_send send = WEFT_SEND_INIT;
	if (fate)
		send = telling(data, len, fate);
	send.data = data;
	send.len = len;
	send.timeout_ms = timeout_ms;
	int ret = weft_peer_send(from->node, peer, &send);
	if (ret == 0 && expected)
		expected->sizes[id - 1] = len;
	/* It is read during the call only. */
	memset(data, 0, len);
	free(data);
	return ret;
}

struct weft_buf *place;
size_t place_off;

struct weft_buf *give_place(struct party *party, size_t len, size_t *off)
{
	(void)party;
	assert_true(len >= 100 * KIB);
	*off = place_off;
	return place;
}

/* ---- looking into the books */

struct weft__peer *only_peer(const struct party *party)
{
	struct weft__peer *found = NULL;
	for (uint32_t i = 0; i < party->node->table_size; i++) {
		if (!party->node->table[i])
			continue;
		assert_null(found);
		found = party->node->table[i];
	}
	return found;
}

void assert_idle(const struct party *party)
{
	nodes_pass(5);
	const struct weft__blocks *blocks = &party->node->blocks;
	assert_int_equal(blocks->bytes, 0);
	assert_int_equal(blocks->copies, 0);
	assert_true(TAILQ_EMPTY(&blocks->used));
	assert_true(TAILQ_EMPTY(&party->node->starved));
}

void assert_within_budget(const struct party *party)
{
	const struct weft__blocks *blocks = &party->node->blocks;
	const struct weft__block *block;
	size_t used = 0, copies = 0, kept = 0;
	TAILQ_FOREACH (block, &blocks->used, link) {
		used += block->size;
		copies += block->copy ? block->size : 0;
	}
	TAILQ_FOREACH (block, &blocks->kept, link)
		kept += block->size;
	assert_int_equal(used, blocks->bytes);
	assert_int_equal(copies, blocks->copies);
	assert_int_equal(kept, blocks->kept_bytes);
	assert_true(used + kept <= party->node->opts.message_budget);
	assert_true(copies <= party->node->opts.message_budget / 2);
}

struct weft_progress progress_of(const struct party *party, weft_peer peer)
{
	struct weft_progress progress = WEFT_PROGRESS_INIT;
	assert_int_equal(weft_peer_get_progress(party->node, peer, &progress), 0);
	return progress;
}

void reach_the_middle(struct party *from, struct party *to)
{
	struct weft_progress progress = WEFT_PROGRESS_INIT;
	for (int i = 0; i < 1000 && progress.in_done == 0; i++) {
		assert_true(weft_node_poll(from->node, 0) >= 0);
		assert_true(weft_node_poll(to->node, 0) >= 0);
		fake_advance_ns(20000);
		progress = progress_of(to, to->peer);
	}
	assert_true(progress.in_done > 0 && progress.in_done < progress.in_len);
}

bool in_chunks;

struct party *open_node(const struct weft_node_opts *opts)
{
	struct weft_node_opts mine = opts ? *opts : node_opts();
	/* Few frames, because opening a node takes long with many. */
	mine.recv_budget = 256 * (16 * KIB);
	struct party *party = party_open(&mine);
	if (in_chunks)
		assert_true(party->node->features & WEFT__FEATURE_BULK);
	party->node->features = in_chunks ? WEFT__FEATURE_BULK : 0;
	return party;
}

struct party *open_with_budget(size_t budget, uint64_t max_message)
{
	struct weft_node_opts opts = node_opts();
	opts.message_budget = budget;
	opts.max_message = max_message;
	return open_node(&opts);
}

int setup_parts(void **state)
{
	in_chunks = false;
	return nodes_setup(state);
}

int setup_chunks(void **state)
{
	in_chunks = true;
	int ret = nodes_setup(state);
	/* Chunks are no longer than the provider's messages: so there are many to a message that is
	 * not too slow here. */
	struct fake_provider like = fake_tcp;
	like.max_msg = 256 * KIB;
	party_provider(&like);
	return ret;
}
