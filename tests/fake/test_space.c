/* SPDX-License-Identifier: MIT */
/* Memory for frames to be sent: short and long spaces, and what the provider may still read. */
#include <string.h>

#include "netimpl.h"
#include "nodes.h"
#include "space.h"

#define NOTES 100
#define KEPT 2

static struct weft_net *net;
static struct weft__spaces spaces;
static uint64_t before; /* buffers of the node itself */

static void begin(void)
{
	net = weft_node_net(party_open(NULL)->node);
	before = net_stats(net).buffers;
	weft__spaces_init(&spaces, net, FRAME_SIZE, NOTES, KEPT);
}

static uint64_t buffers(void)
{
	return net_stats(net).buffers - before;
}

static void take_short(struct weft__space **into, int count)
{
	for (int i = 0; i < count; i++) {
		into[i] = weft__space_take(&spaces, false);
		assert_non_null(into[i]);
		memset(into[i]->data, i, WEFT__SHORT_SPACE);
	}
}

static void give_all(struct weft__space **from, int count)
{
	for (int i = 0; i < count; i++)
		weft__space_give(&spaces, from[i], false);
}

static void short_ones_share_a_buffer(void **state)
{
	struct weft__space *taken[WEFT__SHEET_SPACES + 1];
	(void)state;
	begin();
	take_short(taken, WEFT__SHEET_SPACES);
	assert_int_equal(buffers(), 1);
	for (int i = 0; i < WEFT__SHEET_SPACES; i++) {
		/* None has written into another one. */
		for (size_t at = 0; at < WEFT__SHORT_SPACE; at++)
			assert_int_equal(taken[i]->data[at], i);
		assert_ptr_equal((uint8_t *)weft_buf_data(taken[i]->buf) + taken[i]->off,
				 taken[i]->data);
	}
	take_short(taken + WEFT__SHEET_SPACES, 1);
	assert_int_equal(buffers(), 2);
	give_all(taken, WEFT__SHEET_SPACES + 1);
	/* What was given back is taken again. */
	take_short(taken, WEFT__SHEET_SPACES + 1);
	assert_int_equal(buffers(), 2);
	give_all(taken, WEFT__SHEET_SPACES + 1);
	weft__spaces_free(&spaces);
	assert_int_equal(buffers(), 0);
}

static void only_so_many_are_kept(void **state)
{
	enum { COUNT = 4 * WEFT__SHEET_SPACES };
	struct weft__space *taken[COUNT];
	(void)state;
	begin();
	take_short(taken, COUNT);
	assert_int_equal(buffers(), 4);
	size_t memory = weft__spaces_memory(&spaces);
	give_all(taken, COUNT);
	assert_int_equal(buffers(), KEPT);
	assert_int_equal(weft__spaces_memory(&spaces), memory / 2);
	weft__spaces_free(&spaces);
	assert_int_equal(buffers(), 0);
}

/* What the provider may still read is not used again, nor is what shares the buffer with it. */
static void spoilt(void **state)
{
	struct weft__space *taken[3], *next[WEFT__SHEET_SPACES], *one;
	(void)state;
	begin();
	take_short(taken, 3);
	struct weft_buf *buf = taken[0]->buf;
	weft__space_give(&spaces, taken[0], true);
	assert_int_equal(buffers(), 1);
	take_short(next, WEFT__SHEET_SPACES);
	assert_int_equal(buffers(), 2);
	for (int i = 0; i < WEFT__SHEET_SPACES; i++)
		assert_ptr_not_equal(next[i]->buf, buf);
	weft__space_give(&spaces, taken[1], true);
	assert_int_equal(buffers(), 2);
	weft__space_give(&spaces, taken[2], false);
	assert_int_equal(buffers(), 1);
	give_all(next, WEFT__SHEET_SPACES);

	size_t memory = weft__spaces_memory(&spaces);
	one = weft__space_take(&spaces, true);
	assert_non_null(one);
	assert_int_equal(buffers(), 2);
	assert_int_equal(weft__spaces_memory(&spaces),
			 memory + FRAME_SIZE + sizeof(*one) + NOTES * sizeof(*one->notes));
	memset(one->data, 0, FRAME_SIZE);
	memset(one->notes, 0xff, NOTES * sizeof(*one->notes));
	weft__space_give(&spaces, one, false);
	assert_ptr_equal(weft__space_take(&spaces, true), one);
	weft__space_give(&spaces, one, true);
	assert_int_equal(buffers(), 1);
	assert_int_equal(weft__spaces_memory(&spaces), memory);
	weft__spaces_free(&spaces);
	assert_int_equal(buffers(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		nodes_test(short_ones_share_a_buffer),
		nodes_test(only_so_many_are_kept),
		nodes_test(spoilt),
	};
	return world_run(tests);
}
