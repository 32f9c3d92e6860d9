/* SPDX-License-Identifier: MIT */
/* The transport: messages arrive once and whole over any network. */
#include <errno.h>
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

static void messages_arrive(void **state)
{
	static const uint32_t sizes[] = {0, 1, 2, 100, SEFA_MTU};
	(void)state;
	world.hosts[1].buffers = 100;
	for (int i = 0; i < 5; i++) {
		struct test_op op;
		world_post(&world, 0, 1, &op, SEFA_SEND, sizes[i], 3);
		world_settle(&world);
		assert_int_equal(op.ended, 1);
		assert_int_equal(op.status, SEFA_OK);
		assert_int_equal(world.hosts[1].message_count, i + 1);
		struct message *m = &world.hosts[1].messages[i];
		assert_int_equal(m->len, sizes[i]);
		assert_true(is_pattern(m->data, m->len, 3));
		assert_true(sefa_end_equal(m->from, world.hosts[0].end));
		assert_false(m->has_imm || m->write);
		world_free(&op);
	}
	assert_int_equal(world.hosts[0].port.counters.again, 0);
}

#define MANY 400

/*
 * More than any window, in both directions at once, with answers that the network may treat as it
 * likes.
 */
static void many_both_ways(void)
{
	static struct test_op op[2][MANY];
	static bool got[2][MANY];
	memset(got, 0, sizeof(got));
	for (int side = 0; side < 2; side++) {
		world.hosts[side].buffers = MANY;
		for (unsigned i = 0; i < MANY; i++)
			world_post(&world, side, !side, &op[side][i], SEFA_SEND, 4, i);
	}
	for (int side = 0; side < 2; side++) {
		for (int i = 0; i < MANY; i++) {
			world_run_until(&world, &op[side][i].ended, 1);
			assert_int_equal(op[side][i].ended, 1);
			assert_int_equal(op[side][i].status, SEFA_OK);
			world_free(&op[side][i]);
		}
	}
	world_run(&world, 1000 * MS);
	for (int side = 0; side < 2; side++) {
		assert_int_equal(world.hosts[side].message_count, MANY);
		for (int i = 0; i < MANY; i++) {
			int number;
			memcpy(&number, world.hosts[side].messages[i].data, 4);
			assert_in_range(number, 0, MANY - 1);
			assert_false(got[side][number]);
			got[side][number] = true;
		}
	}
}

static void many_messages(void **state)
{
	(void)state;
	many_both_ways();
	assert_int_equal(world.hosts[0].port.counters.again, 0);
}

static int lose_some(struct world *w, const struct datagram *d)
{
	(void)d;
	return w->seen % 5 == 3 ? 0 : 1;
}

static void losses_are_made_good(void **state)
{
	(void)state;
	world.copies = lose_some;
	many_both_ways();
	assert_true(world.hosts[0].port.counters.again > 0);
	assert_true(world.hosts[1].port.counters.duplicates > 0);
}

static int double_all(struct world *w, const struct datagram *d)
{
	(void)w;
	(void)d;
	return 2;
}

static void doubles_are_taken_once(void **state)
{
	(void)state;
	world.copies = double_all;
	many_both_ways();
	assert_true(world.hosts[1].port.counters.duplicates > 0);
	assert_int_equal(world.hosts[1].port.counters.malformed, 0);
}

static void order_does_not_matter(void **state)
{
	(void)state;
	world.backwards = true;
	many_both_ways();
}

static void lost_one_is_sent_again_before_its_time(void **state)
{
	static struct test_op op[60];
	(void)state;
	/* Rtt is known from here on. */
	world.hosts[1].buffers = 100;
	world.copies = lose_some;
	for (int i = 0; i < 60; i++)
		world_post(&world, 0, 1, &op[i], SEFA_SEND, 10, 0);
	world_settle(&world);
	/* The clock has stood still: only what was overtaken can have been sent again. */
	assert_true(world.hosts[0].port.counters.again > 0);
	for (int i = 0; i < 60; i++) {
		world_run_until(&world, &op[i].ended, 1);
		world_free(&op[i]);
	}
	assert_int_equal(world.hosts[1].message_count, 60);
}

static void immediate_data_travels(void **state)
{
	struct test_op op = {.op = {.type = SEFA_SEND, .has_imm = true, .imm = 77}};
	(void)state;
	op.memory = calloc(1, 1);
	world.hosts[1].buffers = 1;
	assert_int_equal(sefa_port_post(&world.hosts[0].port, &op.op, world.hosts[1].end,
					world.hosts[1].port.qkey, world.now),
			 0);
	world_settle(&world);
	assert_int_equal(op.status, SEFA_OK);
	assert_true(world.hosts[1].messages[0].has_imm);
	assert_int_equal(world.hosts[1].messages[0].imm, 77);
	world_free(&op);
}

static void full_socket_is_tried_again(void **state)
{
	struct test_op op;
	(void)state;
	world.hosts[1].buffers = 1;
	world.hosts[0].send_error = -EAGAIN;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	world_run(&world, 100 * MS);
	assert_int_equal(op.ended, 0);
	assert_int_equal(world.hosts[0].port.counters.sent, 0);
	world.hosts[0].send_error = 0;
	world_run(&world, 3 * MS);
	assert_int_equal(op.status, SEFA_OK);
	world_free(&op);
}

static void memory_that_is_gone_ends_the_request(void **state)
{
	struct test_op op;
	(void)state;
	world.hosts[1].buffers = 1;
	world.hosts[0].send_error = -EFAULT;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	assert_int_equal(op.status, SEFA_INVALID_LKEY);
	assert_int_equal(world.hosts[0].faults, 1);
	world_free(&op);
	/* The same for a region that was closed after the request was posted. */
	world.hosts[0].send_error = 0;
	world.hosts[1].deaf = true;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	world_free(&op);
	world_run(&world, 50 * MS);
	assert_int_equal(op.status, SEFA_INVALID_LKEY);
}

static void to_oneself(void **state)
{
	struct test_op op;
	(void)state;
	world.hosts[0].buffers = 1;
	world_post(&world, 0, 0, &op, SEFA_SEND, 10, 1);
	world_settle(&world);
	assert_int_equal(op.status, SEFA_OK);
	assert_int_equal(world.hosts[0].message_count, 1);
	world_free(&op);
}

static void strangers_and_rubbish_are_counted(void **state)
{
	struct test_op op;
	(void)state;
	world.hosts[1].buffers = 1;
	world.hosts[1].deaf = true;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	world_settle(&world);
	static const uint8_t types[] = {SEFA_ACK, SEFA_NAK, SEFA_DATA};
	for (int i = 0; i < 3; i++) {
		uint8_t head[SEFA_HEAD_MAX], list[4] = {0, 0, 0, 0};
		struct sefa_packet packet = {.type = types[i], .flow = 99};
		if (types[i] == SEFA_ACK) {
			packet.acks = 1;
			packet.list = list;
		}
		if (types[i] == SEFA_NAK)
			packet.status = SEFA_BAD_QPN;
		struct iovec iov = {head, sefa_packet_encode(&packet, head)};
		/* From the right host, and from another one. */
		world.hosts[1].net.send(&world.hosts[1].net, world.hosts[0].end, &iov, 1);
		world.hosts[2].net.send(&world.hosts[2].net, world.hosts[0].end, &iov, 1);
		iov.iov_len--;
		world.hosts[2].net.send(&world.hosts[2].net, world.hosts[0].end, &iov, 1);
	}
	world_settle(&world);
	assert_int_equal(op.ended, 0);
	assert_int_equal(world.hosts[0].port.counters.strangers, 6);
	assert_int_equal(world.hosts[0].port.counters.malformed, 3);
	world.hosts[1].deaf = false;
	world_run(&world, 300 * MS);
	assert_int_equal(op.status, SEFA_OK);
	world_free(&op);
}

static void flushing_ends_all(void **state)
{
	static struct test_op op[100];
	(void)state;
	world.hosts[1].deaf = true;
	for (int i = 0; i < 100; i++)
		world_post(&world, 0, 1, &op[i], SEFA_SEND, 10, 1);
	sefa_port_fail(&world.hosts[0].port, SEFA_FLUSHED);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(op[i].ended, 1);
		assert_int_equal(op[i].status, SEFA_FLUSHED);
		world_free(&op[i]);
	}
}

static void idle_ports_have_nothing_due(void **state)
{
	struct test_op op;
	(void)state;
	world.hosts[1].buffers = 1;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	world_run(&world, 10 * MS);
	assert_int_equal(op.status, SEFA_OK);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sefa_port_progress(&world.hosts[i].port, world.now), UINT64_MAX);
	/*
	 * Flows and records of peers go when they have been silent for long, while the process was
	 * not: the steps are short enough that it does not pass for one that was stopped.
	 */
	for (int i = 0; i < 122; i++) {
		world.now += 500 * MS;
		world_settle(&world);
	}
	for (unsigned i = 0; i < SEFA_FLOW_BUCKETS; i++)
		assert_true(LIST_EMPTY(&world.hosts[0].port.flows[i]));
	assert_int_equal(world.hosts[1].port.seen.count, 0);
	world_free(&op);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(messages_arrive),
		TEST(many_messages),
		TEST(losses_are_made_good),
		TEST(doubles_are_taken_once),
		TEST(order_does_not_matter),
		TEST(lost_one_is_sent_again_before_its_time),
		TEST(immediate_data_travels),
		TEST(full_socket_is_tried_again),
		TEST(memory_that_is_gone_ends_the_request),
		TEST(to_oneself),
		TEST(strangers_and_rubbish_are_counted),
		TEST(flushing_ends_all),
		TEST(idle_ports_have_nothing_due),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
