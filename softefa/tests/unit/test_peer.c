/* SPDX-License-Identifier: MIT */
/*
 * Peers that are not ready, refuse what they are sent, or do not answer: the request waits where it
 * may yet be taken, and otherwise ends with a reason, and nobody else is harmed.
 */
#include <errno.h>
#include <stdlib.h>

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

static void receiver_not_ready_is_asked_again(void **state)
{
	struct test_op op;
	(void)state;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	/* For ever, and much longer than a silent peer has. */
	world_run(&world, 4 * TIMEOUT_NS);
	assert_int_equal(op.ended, 0);
	assert_true(world.hosts[1].port.counters.rnr > 300);
	world.hosts[1].buffers = 1;
	world_run(&world, 10 * MS);
	assert_int_equal(op.ended, 1);
	assert_int_equal(op.status, SEFA_OK);
	assert_int_equal(world.hosts[1].message_count, 1);
	world_free(&op);
}

static void receiver_not_ready_ends_it_where_that_is_asked(void **state)
{
	struct test_op op;
	(void)state;
	world.hosts[0].port.sender.rnr_retry = 3;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	world_run(&world, 100 * MS);
	assert_int_equal(op.ended, 1);
	assert_int_equal(op.status, SEFA_RNR);
	assert_int_equal(world.hosts[1].port.counters.rnr, 4);
	/* The number is free again. */
	world_free(&op);
	world.hosts[1].buffers = 1;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	world_settle(&world);
	assert_int_equal(op.status, SEFA_OK);
	world_free(&op);
}

static struct datagram kept;
static bool has_kept;

static int keep_first(struct world *w, const struct datagram *d)
{
	(void)w;
	if (!has_kept) {
		kept = *d;
		has_kept = true;
	}
	return 1;
}

/* The datagram that keep_first() kept arrives once more. */
static void copy_comes_late(void)
{
	struct datagram *late = malloc(sizeof(*late));
	assert_non_null(late);
	*late = kept;
	world.way[world.under_way++] = late;
	world_settle(&world);
}

/*
 * A copy that comes late must not be taken: its sender may have sent the same as another request
 * since.
 */
static void late_copy_of_a_refused_message_stays_refused(void **state)
{
	struct test_op op;
	(void)state;
	has_kept = false;
	world.copies = keep_first;
	world.hosts[0].port.sender.rnr_retry = 0;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	world_settle(&world);
	assert_int_equal(op.status, SEFA_RNR);
	world.hosts[1].buffers = 5;
	copy_comes_late();
	assert_int_equal(world.hosts[1].message_count, 0);
	world_free(&op);
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	world_settle(&world);
	assert_int_equal(world.hosts[1].message_count, 1);
	world_free(&op);
	/* Also once its number is below all that is under way. */
	copy_comes_late();
	assert_int_equal(world.hosts[1].message_count, 1);
}

static void messages_that_are_too_long_are_refused(void **state)
{
	struct test_op op;
	(void)state;
	world.hosts[1].buffers = 1;
	world.hosts[1].room = 9;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	world_settle(&world);
	assert_int_equal(op.status, SEFA_REMOTE_LENGTH);
	assert_int_equal(world.hosts[1].buffers, 1);
	world_free(&op);
}

/* Its end has been told: a copy must not arrive after all, into a longer buffer. */
static void late_copy_of_one_that_was_too_long_stays_refused(void **state)
{
	struct test_op op;
	(void)state;
	has_kept = false;
	world.copies = keep_first;
	world.hosts[1].buffers = 1;
	world.hosts[1].room = 9;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	world_settle(&world);
	assert_int_equal(op.status, SEFA_REMOTE_LENGTH);
	world_free(&op);
	world.hosts[1].room = 100;
	copy_comes_late();
	assert_int_equal(world.hosts[1].message_count, 0);
	assert_int_equal(world.hosts[1].buffers, 1);
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 2);
	world_settle(&world);
	assert_int_equal(op.status, SEFA_OK);
	assert_int_equal(world.hosts[1].message_count, 1);
	world_free(&op);
}

static void wrong_key_is_a_wrong_address(void **state)
{
	struct test_op op[3];
	(void)state;
	world.hosts[1].buffers = 5;
	/* All that is under way to a wrong address ends at once. */
	for (int i = 0; i < 3; i++)
		world_post(&world, 0, 1, &op[i], i == 1 ? SEFA_READ : SEFA_SEND, 10, 1);
	world.hosts[1].port.qkey = 999;
	world_settle(&world);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(op[i].ended, 1);
		assert_int_equal(op[i].status, SEFA_BAD_QPN);
		world_free(&op[i]);
	}
	assert_int_equal(world.hosts[1].message_count, 0);
	assert_true(world.hosts[1].port.counters.bad_qkey > 0);
}

static void peer_that_is_gone_is_known_at_once(void **state)
{
	static struct test_op op[200];
	struct test_op other;
	(void)state;
	world.hosts[1].gone = true;
	world.hosts[2].buffers = 1;
	for (int i = 0; i < 200; i++)
		world_post(&world, 0, 1, &op[i], SEFA_SEND, 10, 1);
	world_post(&world, 0, 2, &other, SEFA_SEND, 10, 1);
	world_settle(&world);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(op[i].ended, 1);
		assert_int_equal(op[i].status, SEFA_BAD_QPN);
		world_free(&op[i]);
	}
	assert_int_equal(other.status, SEFA_OK);
	assert_int_equal(world.hosts[0].port.counters.given_up, 1);
	world_free(&other);
}

/* A new process with the same number: what was refused of the old one's does not count against it.
 */
static void refusal_is_of_one_flow(void **state)
{
	struct test_op old, young;
	(void)state;
	world.hosts[1].deaf = true;
	world_post(&world, 0, 1, &old, SEFA_SEND, 10, 1);
	world.hosts[1].gone = true;
	world_settle(&world);
	assert_int_equal(old.status, SEFA_BAD_QPN);
	struct sefa_refusal late = {
		.end = world.hosts[1].end, .port = true, .has_flow = true, .flow = 12345};
	world.hosts[1].port.qkey = 555;
	world.hosts[1].gone = world.hosts[1].deaf = false;
	world_post(&world, 0, 1, &young, SEFA_SEND, 10, 1);
	world.hosts[0].refusals[world.hosts[0].refusal_count++] = late;
	sefa_port_progress(&world.hosts[0].port, world.now);
	assert_int_equal(young.ended, 0);
	world.hosts[1].buffers = 1;
	world_settle(&world);
	world_run(&world, 20 * MS);
	assert_int_equal(young.status, SEFA_OK);
	/* Where it does not say which, it is all that go there. */
	world_free(&young);
	world.hosts[1].deaf = true;
	world_post(&world, 0, 1, &young, SEFA_SEND, 10, 1);
	late.has_flow = false;
	world.hosts[0].refusals[world.hosts[0].refusal_count++] = late;
	world_settle(&world);
	assert_int_equal(young.status, SEFA_BAD_QPN);
	world_free(&old);
	world_free(&young);
}

static void silent_peer_is_given_up(void **state)
{
	static struct test_op op[200];
	(void)state;
	world.hosts[1].deaf = true;
	for (int i = 0; i < 200; i++)
		world_post(&world, 0, 1, &op[i], SEFA_SEND, 10, 1);
	world_run(&world, TIMEOUT_NS - 10 * MS);
	for (int i = 0; i < 200; i++)
		assert_int_equal(op[i].ended, 0);
	world_run(&world, 300 * MS);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(op[i].ended, 1);
		assert_int_equal(op[i].status, SEFA_UNRESPONSIVE);
		world_free(&op[i]);
	}
	/* It is tried anew. */
	world.hosts[1].deaf = false;
	world.hosts[1].buffers = 1;
	world_post(&world, 0, 1, &op[0], SEFA_SEND, 10, 1);
	world_settle(&world);
	assert_int_equal(op[0].status, SEFA_OK);
	world_free(&op[0]);
}

/* Nobody polls: the port works when something is due, and at no other time. */
static void a_sleeper_keeps_a_short_time_out(void **state)
{
	struct test_op op;
	struct sefa_port *port = &world.hosts[0].port;
	(void)state;
	port->sender.timeout = 300 * MS;
	world.hosts[1].deaf = true;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	uint64_t begin = world.now, due = sefa_port_progress(port, world.now);
	while (!op.ended && world.now - begin < 1000 * MS) {
		assert_true(due > world.now && due != UINT64_MAX);
		world.now = due;
		due = sefa_port_progress(port, world.now);
	}
	assert_int_equal(op.ended, 1);
	assert_int_equal(op.status, SEFA_UNRESPONSIVE);
	assert_true(world.now - begin >= 300 * MS);
	world_free(&op);
}

static void stopped_process_does_not_blame_its_peers(void **state)
{
	struct test_op op;
	(void)state;
	world.hosts[1].deaf = true;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	world_run(&world, 10 * MS);
	/* Nobody works for a long time, and then everybody does. */
	world.now += 3 * TIMEOUT_NS;
	world.hosts[1].deaf = false;
	world.hosts[1].buffers = 1;
	world_settle(&world);
	world_run(&world, 10 * MS);
	assert_int_equal(op.ended, 1);
	assert_int_equal(op.status, SEFA_OK);
	world_free(&op);
}

static int lose_first_kind(struct world *w, const struct datagram *d)
{
	(void)w;
	return d->data[5] == SEFA_SEND && d->len == 24 + 8 + 99 ? 0 : 1;
}

/* A peer may answer all but one kind of packet, as where the network drops long ones. */
static void packet_that_never_gets_through_is_given_up(void **state)
{
	struct test_op bad;
	(void)state;
	world.copies = lose_first_kind;
	world.hosts[1].buffers = 10000;
	world_post(&world, 0, 1, &bad, SEFA_SEND, 99, 1);
	for (int i = 0; i < 200 && bad.ended == 0; i++) {
		struct test_op good;
		world_post(&world, 0, 1, &good, SEFA_SEND, 10, 1);
		world_run(&world, 100 * MS);
		assert_int_equal(good.status, SEFA_OK);
		world_free(&good);
	}
	assert_int_equal(bad.ended, 1);
	assert_int_equal(bad.status, SEFA_UNRESPONSIVE);
	world_free(&bad);
}

/* It may pass, as when a link comes up; it is the reason only if it lasts. */
static void no_way_is_the_reason_if_it_lasts(void **state)
{
	struct test_op op;
	struct sefa_refusal refusal = {.end = world.hosts[1].end};
	(void)state;
	for (int by_message = 0; by_message < 2; by_message++) {
		for (int lasts = 0; lasts < 2; lasts++) {
			world.hosts[1].buffers = 1;
			world.hosts[1].deaf = true;
			if (!by_message)
				world.hosts[0].send_error = -ENETUNREACH;
			world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
			if (by_message)
				world.hosts[0].refusals[world.hosts[0].refusal_count++] = refusal;
			world_run(&world, TIMEOUT_NS / 2);
			assert_int_equal(op.ended, 0);
			world.hosts[1].deaf = lasts;
			if (!lasts)
				world.hosts[0].send_error = 0;
			world_run(&world, TIMEOUT_NS);
			assert_int_equal(op.ended, 1);
			assert_int_equal(op.status, lasts ? SEFA_UNREACHABLE : SEFA_OK);
			world.hosts[0].send_error = 0;
			world_free(&op);
		}
	}
}

static void not_ready_takes_nothing(void **state)
{
	struct test_op op;
	(void)state;
	world.hosts[1].port.ready = false;
	world.hosts[1].buffers = 1;
	world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
	world_run(&world, 50 * MS);
	assert_int_equal(op.ended, 0);
	assert_true(world.hosts[1].port.counters.not_ready > 0);
	world.hosts[1].port.ready = true;
	world_run(&world, 500 * MS);
	assert_int_equal(op.status, SEFA_OK);
	world_free(&op);
}

static void rnr_fault_answers_so_many(void **state)
{
	struct test_op op;
	(void)state;
	world.hosts[1].buffers = 1000;
	world.hosts[1].port.rnr_fault = 50;
	sefa_rng_seed(&world.hosts[1].port.rng, 7);
	for (int i = 0; i < 100; i++) {
		world_post(&world, 0, 1, &op, SEFA_SEND, 10, 1);
		world_run_until(&world, &op.ended, 1);
		assert_int_equal(op.status, SEFA_OK);
		world_free(&op);
	}
	assert_int_equal(world.hosts[1].message_count, 100);
	assert_in_range(world.hosts[1].port.counters.rnr, 50, 200);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(receiver_not_ready_is_asked_again),
		TEST(receiver_not_ready_ends_it_where_that_is_asked),
		TEST(late_copy_of_a_refused_message_stays_refused),
		TEST(messages_that_are_too_long_are_refused),
		TEST(late_copy_of_one_that_was_too_long_stays_refused),
		TEST(a_sleeper_keeps_a_short_time_out),
		TEST(wrong_key_is_a_wrong_address),
		TEST(peer_that_is_gone_is_known_at_once),
		TEST(refusal_is_of_one_flow),
		TEST(silent_peer_is_given_up),
		TEST(stopped_process_does_not_blame_its_peers),
		TEST(packet_that_never_gets_through_is_given_up),
		TEST(no_way_is_the_reason_if_it_lasts),
		TEST(not_ready_takes_nothing),
		TEST(rnr_fault_answers_so_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
