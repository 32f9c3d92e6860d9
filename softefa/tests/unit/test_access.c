/* SPDX-License-Identifier: MIT */
/* One-sided access by the transport: whole, in range, and over a network that loses and reorders.
 */
#include <stdlib.h>
#include <string.h>

#include "world.h"

static struct world world;

static int open_world(void **state)
{
	(void)state;
	world_open(&world);
	return 0;
}

static int close_world(void **state)
{
	(void)state;
	world_close(&world);
	return 0;
}

static int lose_some(struct world *w, const struct datagram *d)
{
	(void)d;
	return w->seen % 5 == 3 ? 0 : 1;
}

static void share(int host, size_t len)
{
	world.hosts[host].shared = calloc(1, len);
	assert_non_null(world.hosts[host].shared);
	world.hosts[host].shared_len = len;
}

static void reads_fetch_what_is_shared(void **state)
{
	static const uint32_t sizes[] = {0, 1, SEFA_SEGMENT, SEFA_SEGMENT + 1, 1 << 20};
	(void)state;
	share(1, 1 << 20);
	pattern(world.hosts[1].shared, 1 << 20, 9);
	world.copies = lose_some;
	for (int i = 0; i < 5; i++) {
		struct test_op op;
		world_post(&world, 0, 1, &op, SEFA_READ, sizes[i], 0);
		world_run_until(&world, &op.ended, 1);
		assert_int_equal(op.status, SEFA_OK);
		assert_true(is_pattern(op.memory, sizes[i], 9));
		world_free(&op);
	}
}

static void writes_change_what_is_shared(void **state)
{
	static const uint32_t sizes[] = {0, 1, SEFA_SEGMENT, SEFA_SEGMENT + 1, 1 << 20};
	(void)state;
	share(1, 1 << 20);
	world.copies = lose_some;
	world.backwards = true;
	for (unsigned i = 0; i < 5; i++) {
		struct test_op op;
		world_post(&world, 0, 1, &op, SEFA_WRITE, sizes[i], i);
		world_run_until(&world, &op.ended, 1);
		assert_int_equal(op.status, SEFA_OK);
		assert_true(is_pattern(world.hosts[1].shared, sizes[i], i));
		world_free(&op);
	}
	assert_int_equal(world.hosts[1].message_count, 0);
}

static void immediate_data_comes_after_the_bytes(void **state)
{
	(void)state;
	share(1, 1 << 20);
	world.copies = lose_some;
	world.backwards = true;
	for (unsigned i = 0; i < 2; i++) {
		struct test_op op = {.op = {.type = SEFA_WRITE,
					    .has_imm = true,
					    .imm = 4711,
					    .rkey = 5,
					    .raddr = 0x1000,
					    .len = i == 0 ? 10 : 1 << 20}};
		op.memory = malloc(op.op.len);
		assert_non_null(op.memory);
		pattern(op.memory, op.op.len, i);
		assert_int_equal(sefa_port_post(&world.hosts[0].port, &op.op, world.hosts[1].end,
						world.hosts[1].port.qkey, world.now),
				 0);
		/* It takes a receive. */
		world_run(&world, 300 * MS);
		assert_int_equal(op.ended, 0);
		world.hosts[1].buffers = 1;
		int before = world.hosts[1].message_count;
		world_run_until(&world, &world.hosts[1].message_count, before + 1);
		assert_true(is_pattern(world.hosts[1].shared, op.op.len, i));
		assert_true(world.hosts[1].messages[before].write);
		assert_int_equal(world.hosts[1].messages[before].imm, 4711);
		assert_int_equal(world.hosts[1].messages[before].len, op.op.len);
		world_run_until(&world, &op.ended, 1);
		assert_int_equal(op.status, SEFA_OK);
		world_free(&op);
	}
}

static void accesses_out_of_range_are_refused(void **state)
{
	static const uint8_t types[] = {SEFA_READ, SEFA_WRITE};
	(void)state;
	share(1, 100);
	for (int i = 0; i < 2; i++) {
		struct test_op op;
		world_post(&world, 0, 1, &op, types[i], 101, 1);
		world_settle(&world);
		assert_int_equal(op.status, SEFA_BAD_ADDRESS);
		world_free(&op);
		world.hosts[1].knows = false;
		world_post(&world, 0, 1, &op, types[i], 10, 1);
		world_settle(&world);
		assert_int_equal(op.status, SEFA_UNKNOWN_PEER);
		world_free(&op);
		world.hosts[1].knows = true;
	}
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reads_fetch_what_is_shared),
		TEST(writes_change_what_is_shared),
		TEST(immediate_data_comes_after_the_bytes),
		TEST(accesses_out_of_range_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
