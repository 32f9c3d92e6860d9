/* SPDX-License-Identifier: MIT */
/* What the device does while the program sleeps, works elsewhere, or has forked. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return poll(&p, 1, ms) == 1;
}

static void channels_wake(void **state)
{
	struct pair pair;
	struct ibv_cq *cq;
	struct got got;
	void *context;
	(void)state;
	pair_open(&pair);
	struct end *b = &pair.end[1];
	assert_int_equal(post_recv(b, 1, 10), 0);
	assert_int_equal(post_recv(b, 2, 10), 0);
	assert_int_equal(ibv_req_notify_cq(ibv_cq_ex_to_cq(b->cq), 0), 0);
	assert_false(readable(b->channel->fd, 0));
	/* Nobody polls: the device's own thread takes the message in, and wakes. */
	assert_int_equal(post_send(&pair, 0, 1, 10), 0);
	assert_true(readable(b->channel->fd, 20000));
	assert_int_equal(ibv_get_cq_event(b->channel, &cq, &context), 0);
	assert_ptr_equal(cq, ibv_cq_ex_to_cq(b->cq));
	assert_ptr_equal(context, b);
	assert_int_equal(next(b).wr_id, 1);
	/* Once for each time that it was asked for. */
	assert_int_equal(post_send(&pair, 0, 2, 10), 0);
	assert_int_equal(next(b).wr_id, 2);
	assert_false(readable(b->channel->fd, 0));
	ibv_ack_cq_events(cq, 1);
	/* An event that nobody has fetched goes with its queue. */
	assert_int_equal(ibv_req_notify_cq(ibv_cq_ex_to_cq(b->cq), 0), 0);
	assert_int_equal(post_recv(b, 3, 10), 0);
	assert_int_equal(post_send(&pair, 0, 3, 10), 0);
	assert_true(readable(b->channel->fd, 20000));
	assert_int_equal(fcntl(b->channel->fd, F_SETFL, O_NONBLOCK), 0);
	while (poll_once(&pair.end[0], &got))
		;
	pair_close(&pair);
}

static void channel_without_events_would_block(void **state)
{
	struct pair pair;
	struct ibv_cq *cq;
	void *context;
	(void)state;
	pair_open(&pair);
	assert_int_equal(fcntl(pair.end[0].channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_cq_event(pair.end[0].channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	struct ibv_cq *plain = ibv_create_cq(pair.context, 1, NULL, NULL, 0);
	assert_non_null(plain);
	assert_int_equal(ibv_req_notify_cq(plain, 0), EINVAL);
	assert_int_equal(ibv_destroy_cq(plain), 0);
	pair_close(&pair);
}

static void device_works_while_the_program_sleeps(void **state)
{
	struct pair pair;
	(void)state;
	pair_open(&pair);
	struct end *a = &pair.end[0], *b = &pair.end[1];
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(post_recv(b, i, 8760), 0);
	/* b never polls; all that is sent to it is acknowledged all the same. */
	for (uint64_t i = 0; i < 20; i++) {
		assert_int_equal(post_send(&pair, 0, i, 8760), 0);
		assert_int_equal(next(a).status, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < 20; i++)
		next(b);
	pair_close(&pair);
}

/*
 * The child of a fork has no sockets of the device, so its parent's end is the end of the queue
 * pair.
 */
static void forked_child_holds_nothing_open(void **state)
{
	struct pair pair;
	int hold[2], status;
	char byte;
	(void)state;
	pair_open(&pair);
	struct end *a = &pair.end[0], *b = &pair.end[1];
	assert_int_equal(pipe(hold), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(hold[1]);
		/* A failed assertion must not go on to the next test in here. */
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		/* What it may still do is fail and close. */
		struct got got;
		int sent = post_send(&pair, 0, 1, 10);
		bool polled = poll_once(a, &got);
		ssize_t got_byte = read(hold[0], &byte, 1);
		int closed = ibv_destroy_qp(a->qp);
		_exit(got_byte == 0 && sent == EINVAL && !polled && closed == 0 ? 0 : 1);
	}
	close(hold[0]);
	assert_int_equal(post_recv(b, 1, 10), 0);
	assert_int_equal(post_send(&pair, 0, 1, 10), 0);
	assert_int_equal(next(b).status, IBV_WC_SUCCESS);
	assert_int_equal(next(a).status, IBV_WC_SUCCESS);
	uint32_t qpn = b->qp->qp_num;
	assert_int_equal(ibv_destroy_qp(b->qp), 0);
	assert_int_equal(create_qp(pair.pd, b->cq, &b->qp), 0);
	b->qp->qp_num = qpn;
	assert_int_equal(post_send(&pair, 0, 1, 10), 0);
	assert_int_equal(next(a).vendor, 9);
	assert_int_equal(ibv_destroy_qp(b->qp), 0);
	assert_int_equal(create_qp(pair.pd, b->cq, &b->qp), 0);
	make_ready(b->qp, b->qkey);
	close(hold[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* The child's end has not taken the files of its parent with it. */
	assert_int_equal(access(getenv("SYSFS_PATH"), F_OK), 0);
	pair_close(&pair);
}

/* What was due in the parent is not due in the child, whose own queue pair has a thread again. */
static void forked_child_does_not_spin(void **state)
{
	struct pair pair;
	int status;
	(void)state;
#ifdef __SANITIZE_THREAD__
	/* ThreadSanitizer lets the child of a process with threads start none. */
	skip();
#endif
	pair_open(&pair);
	struct end *a = &pair.end[0];
	/* Its answer is that there is no receive: it is due again and again. */
	assert_int_equal(post_send(&pair, 0, 1, 10), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct ibv_qp *own;
		struct timespec used;
		int made = create_qp(pair.pd, a->cq, &own);
		make_ready(own, a->qkey);
		/* That it does nothing for so long is what is tested. */
		usleep(200000);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
		_exit(made == 0 && used.tv_sec == 0 && used.tv_nsec < 100000000 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	pair_close(&pair);
}

static void *sender(void *arg)
{
	struct pair *pair = arg;
	int done = 0;
	for (uint64_t i = 0; done < 500;) {
		struct got got;
		if (i < 500 && post_send(pair, 0, i, 100) == 0)
			i++;
		while (poll_once(&pair->end[0], &got)) {
			assert_int_equal(got.status, IBV_WC_SUCCESS);
			done++;
		}
	}
	return NULL;
}

static void ends_on_different_threads(void **state)
{
	struct pair pair;
	pthread_t thread;
	int posted = 0, done = 0;
	(void)state;
	pair_open(&pair);
	struct end *b = &pair.end[1];
	assert_int_equal(pthread_create(&thread, NULL, sender, &pair), 0);
	while (done < 500) {
		struct got got;
		while (posted < 500 && post_recv(b, 1, 100) == 0)
			posted++;
		while (poll_once(b, &got)) {
			assert_int_equal(got.status, IBV_WC_SUCCESS);
			done++;
		}
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	pair_close(&pair);
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(channels_wake),
		cmocka_unit_test(channel_without_events_would_block),
		cmocka_unit_test(device_works_while_the_program_sleeps),
		cmocka_unit_test(forked_child_holds_nothing_open),
		cmocka_unit_test(forked_child_does_not_spin),
		cmocka_unit_test(ends_on_different_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
