/* SPDX-License-Identifier: MIT */
/*
 * Strict mode: each breach of the contract ends the process and says what it was. Every case runs
 * in a child that has the device to itself, once strict and once not; then it must come back from
 * the call and see what the verbs say.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pair.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

static struct pair pair;

static void bad_lkey_in_a_send(void)
{
	struct end *a = &pair.end[0];
	ibv_wr_start(a->ex);
	ibv_wr_send(a->ex);
	ibv_wr_set_sge(a->ex, a->mr->lkey + 1, (uintptr_t)a->memory, 10);
	ibv_wr_set_ud_addr(a->ex, a->ah, pair.end[1].qp->qp_num, pair.end[1].qkey);
	assert_int_equal(ibv_wr_complete(a->ex), 0);
	assert_int_equal(next(a).vendor, 5);
}

static void range_beyond_the_region(void)
{
	struct end *a = &pair.end[0];
	ibv_wr_start(a->ex);
	ibv_wr_send(a->ex);
	ibv_wr_set_sge(a->ex, a->mr->lkey, (uintptr_t)a->memory + MEMORY - 9, 10);
	ibv_wr_set_ud_addr(a->ex, a->ah, pair.end[1].qp->qp_num, pair.end[1].qkey);
	assert_int_equal(ibv_wr_complete(a->ex), 0);
	assert_int_equal(next(a).vendor, 5);
}

static void bad_lkey_in_a_receive(void)
{
	pair.end[0].mr->lkey++;
	assert_int_equal(post_recv(&pair.end[0], 1, 10), EINVAL);
}

static void region_closed_under_a_receive(void)
{
	struct end *b = &pair.end[1];
	assert_int_equal(post_recv(b, 1, 10), 0);
	assert_int_equal(ibv_dereg_mr(b->mr), 0);
	assert_int_equal(post_send(&pair, 0, 1, 10), 0);
	assert_int_equal(next(b).vendor, 5);
}

static void region_closed_under_a_send(void)
{
	struct end *a = &pair.end[0];
	/* Nobody takes it, so it is sent again. */
	assert_int_equal(post_send(&pair, 0, 1, 10), 0);
	assert_int_equal(ibv_dereg_mr(a->mr), 0);
	assert_int_equal(next(a).vendor, 5);
}

static char *map_pages(size_t len)
{
	/* cppcheck-suppress invalidFunctionArg ; memory without a file has no descriptor */
	char *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(map != MAP_FAILED);
	return map;
}

/* As if unmapped, but without a hole that something else may be mapped into meanwhile. */
static void take_away(char *map, size_t len)
{
	assert_int_equal(mprotect(map, len, PROT_NONE), 0);
}

static void memory_unmapped_under_a_receive(void)
{
	struct end *b = &pair.end[1];
	char *map = map_pages(8192);
	struct ibv_mr *mr = ibv_reg_mr(pair.pd, map, 8192, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)map, 8192, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	assert_int_equal(ibv_post_recv(b->qp, &wr, &bad), 0);
	take_away(map + 4096, 4096);
	assert_int_equal(post_send(&pair, 0, 1, 8000), 0);
	next(b);
}

static void memory_unmapped_under_a_send(void)
{
	struct end *a = &pair.end[0];
	char *map = map_pages(4096);
	struct ibv_mr *mr = ibv_reg_mr(pair.pd, map, 4096, 0);
	take_away(map, 4096);
	ibv_wr_start(a->ex);
	ibv_wr_send(a->ex);
	ibv_wr_set_sge(a->ex, mr->lkey, (uintptr_t)map, 100);
	ibv_wr_set_ud_addr(a->ex, a->ah, pair.end[1].qp->qp_num, pair.end[1].qkey);
	assert_int_equal(ibv_wr_complete(a->ex), 0);
	assert_int_equal(next(a).vendor, 5);
}

static void memory_unmapped_under_a_shared_region(void)
{
	char *map = map_pages(4096);
	struct ibv_mr *mr = ibv_reg_mr(pair.pd, map, 4096, IBV_ACCESS_REMOTE_READ);
	struct end *a = &pair.end[0];
	take_away(map, 4096);
	ibv_wr_start(a->ex);
	ibv_wr_rdma_read(a->ex, mr->rkey, (uintptr_t)map);
	ibv_wr_set_sge(a->ex, a->mr->lkey, (uintptr_t)a->memory, 100);
	ibv_wr_set_ud_addr(a->ex, a->ah, pair.end[1].qp->qp_num, pair.end[1].qkey);
	assert_int_equal(ibv_wr_complete(a->ex), 0);
	next(a);
}

#ifdef __SANITIZE_ADDRESS__
static void memory_poisoned_under_a_receive(void)
{
	struct end *b = &pair.end[1];
	assert_int_equal(post_recv(b, 1, 100), 0);
	ASAN_POISON_MEMORY_REGION(b->memory + 50, 8);
	assert_int_equal(post_send(&pair, 0, 1, 100), 0);
	next(b);
}
#endif

static void completion_queue_overrun(void)
{
	struct end *a = &pair.end[0];
	struct ibv_cq_init_attr_ex attr = {.cqe = 2};
	struct ibv_qp *qp;
	struct ibv_cq_ex *cq = ibv_create_cq_ex(pair.context, &attr);
	struct ibv_sge sge = {(uintptr_t)a->memory, 10, a->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct ibv_poll_cq_attr poll_attr = {0};
	assert_int_equal(create_qp(pair.pd, cq, &qp), 0);
	make_ready(qp, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	assert_int_equal(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_start_poll(cq, &poll_attr), 0);
		ibv_end_poll(cq);
	}
	assert_int_equal(ibv_start_poll(cq, &poll_attr), EOVERFLOW);
}

static void send_before_it_is_ready(void)
{
	struct ibv_qp *before = pair.end[0].qp;
	assert_int_equal(create_qp(pair.pd, pair.end[0].cq, &pair.end[0].qp), 0);
	pair.end[0].ex = ibv_qp_to_qp_ex(pair.end[0].qp);
	assert_int_equal(post_send(&pair, 0, 1, 10), EINVAL);
	assert_int_equal(ibv_destroy_qp(before), 0);
}

static void receive_before_it_is_initialised(void)
{
	struct ibv_qp *before = pair.end[0].qp;
	assert_int_equal(create_qp(pair.pd, pair.end[0].cq, &pair.end[0].qp), 0);
	assert_int_equal(post_recv(&pair.end[0], 1, 10), EINVAL);
	assert_int_equal(ibv_destroy_qp(before), 0);
}

static void state_that_cannot_follow(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	assert_int_equal(ibv_modify_qp(pair.end[0].qp, &attr, IBV_QP_STATE), EINVAL);
}

static void attribute_that_does_not_belong_there(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	assert_int_equal(ibv_modify_qp(pair.end[0].qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT),
			 EINVAL);
}

static void too_long_a_message(void)
{
	assert_int_equal(post_send(&pair, 0, 1, 8761), EINVAL);
}

static void too_many_pieces(void)
{
	struct end *a = &pair.end[0];
	struct ibv_sge sge[3] = {{0}};
	ibv_wr_start(a->ex);
	ibv_wr_send(a->ex);
	ibv_wr_set_sge_list(a->ex, 3, sge);
	ibv_wr_set_ud_addr(a->ex, a->ah, 1, 1);
	assert_int_equal(ibv_wr_complete(a->ex), EINVAL);
}

static void too_much_inline_data(void)
{
	struct end *a = &pair.end[0];
	char bytes[33] = "";
	ibv_wr_start(a->ex);
	ibv_wr_send(a->ex);
	ibv_wr_set_inline_data(a->ex, bytes, sizeof(bytes));
	ibv_wr_set_ud_addr(a->ex, a->ah, 1, 1);
	assert_int_equal(ibv_wr_complete(a->ex), EINVAL);
}

static void send_to_nobody(void)
{
	struct end *a = &pair.end[0];
	ibv_wr_start(a->ex);
	ibv_wr_send(a->ex);
	ibv_wr_set_sge(a->ex, a->mr->lkey, (uintptr_t)a->memory, 10);
	assert_int_equal(ibv_wr_complete(a->ex), EINVAL);
}

static void request_without_start(void)
{
	ibv_wr_send(pair.end[0].ex);
}

static void complete_without_start(void)
{
	assert_int_equal(ibv_wr_complete(pair.end[0].ex), EINVAL);
}

static void start_within_start(void)
{
	ibv_wr_start(pair.end[0].ex);
	ibv_wr_start(pair.end[0].ex);
	ibv_wr_abort(pair.end[0].ex);
}

static void poll_within_poll(void)
{
	struct ibv_poll_cq_attr attr = {0};
	struct end *b = &pair.end[1];
	assert_int_equal(post_recv(b, 1, 10), 0);
	assert_int_equal(post_send(&pair, 0, 1, 10), 0);
	time_t until = time(NULL) + 20;
	while (ibv_start_poll(b->cq, &attr) != 0)
		assert_true(time(NULL) < until);
	assert_int_equal(ibv_start_poll(b->cq, &attr), EINVAL);
	ibv_end_poll(b->cq);
}

static void end_without_poll(void)
{
	ibv_end_poll(pair.end[0].cq);
}

static void unacknowledged_event(void)
{
	struct end *b = &pair.end[1];
	struct ibv_cq *cq;
	void *context;
	assert_int_equal(ibv_req_notify_cq(ibv_cq_ex_to_cq(b->cq), 0), 0);
	assert_int_equal(post_recv(b, 1, 10), 0);
	assert_int_equal(post_send(&pair, 0, 1, 10), 0);
	assert_int_equal(ibv_get_cq_event(b->channel, &cq, &context), 0);
	assert_int_equal(ibv_destroy_qp(b->qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
}

static void too_many_acknowledged(void)
{
	ibv_ack_cq_events(ibv_cq_ex_to_cq(pair.end[0].cq), 1);
}

/* What has no defined outcome but in strict mode, the process being killed or memory lost. */
#define STRICT_ONLY true

static const struct breach {
	const char *name;
	void (*act)(void);
	const char *says;
	bool strict_only;
} breaches[] = {
	{"bad_lkey_in_a_send", bad_lkey_in_a_send, "not registered", false},
	{"range_beyond_the_region", range_beyond_the_region, "not registered", false},
	{"bad_lkey_in_a_receive", bad_lkey_in_a_receive, "not registered", false},
	{"region_closed_under_a_receive", region_closed_under_a_receive,
	 "is gone while it is in use", false},
	{"region_closed_under_a_send", region_closed_under_a_send, "is gone while it is in use",
	 false},
	{"memory_unmapped_under_a_receive", memory_unmapped_under_a_receive, "was unmapped",
	 STRICT_ONLY},
	{"memory_unmapped_under_a_send", memory_unmapped_under_a_send, "was unmapped", false},
	{"memory_unmapped_under_a_shared_region", memory_unmapped_under_a_shared_region,
	 "was unmapped", STRICT_ONLY},
#ifdef __SANITIZE_ADDRESS__
	{"memory_poisoned_under_a_receive", memory_poisoned_under_a_receive, "freed or poisoned",
	 STRICT_ONLY},
#endif
	{"completion_queue_overrun", completion_queue_overrun, "is full", false},
	{"send_before_it_is_ready", send_before_it_is_ready, "not ready to send", false},
	{"receive_before_it_is_initialised", receive_before_it_is_initialised, "not initialised",
	 false},
	{"state_that_cannot_follow", state_that_cannot_follow, "cannot go from state", false},
	{"attribute_that_does_not_belong_there", attribute_that_does_not_belong_there,
	 "cannot go from state", false},
	{"too_long_a_message", too_long_a_message, "too long", false},
	{"too_many_pieces", too_many_pieces, "pieces of memory", false},
	{"too_much_inline_data", too_much_inline_data, "inline data", false},
	{"send_to_nobody", send_to_nobody, "without an address", false},
	{"request_without_start", request_without_start, "outside wr_start", false},
	{"complete_without_start", complete_without_start, "without wr_start", false},
	{"start_within_start", start_within_start, "wr_start before", false},
	{"poll_within_poll", poll_within_poll, "start_poll before", false},
	{"end_without_poll", end_without_poll, "end_poll without", false},
	{"unacknowledged_event", unacknowledged_event, "acknowledged", false},
	{"too_many_acknowledged", too_many_acknowledged, "acknowledged", false},
};

/* Runs a case in a child, and gives its status and what it wrote to standard error. */
static int run(const struct breach *breach, bool strict, char *text, size_t size)
{
	int out[2], status;
	size_t len = 0;
	ssize_t got;
	assert_int_equal(pipe(out), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(out[1], 2);
		close(out[0]);
		/* A failed assertion must not go on to the next test in here. */
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		setenv("SOFTEFA_STRICT", strict ? "1" : "0", 1);
		pair_open(&pair);
		breach->act();
		_exit(0);
	}
	close(out[1]);
	while (len < size - 1 && (got = read(out[0], text + len, size - 1 - len)) > 0)
		len += (size_t)got;
	text[len] = 0;
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void breach_ends_the_process(void **state)
{
	const struct breach *breach = *state;
	char text[2000];
	int status = run(breach, true, text, sizeof(text));
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
		fail_msg("status 0x%x, '%s'", (unsigned)status, text);
	if (!strstr(text, "softefa: the contract of the verbs is broken: ") ||
	    !strstr(text, breach->says))
		fail_msg("'%s' does not say '%s'", text, breach->says);
	if (breach->strict_only)
		return;
	status = run(breach, false, text, sizeof(text));
	if (status != 0)
		fail_msg("not strict: status 0x%x, '%s'", (unsigned)status, text);
	assert_null(strstr(text, "contract"));
}

int main(void)
{
	enum { COUNT = sizeof(breaches) / sizeof(breaches[0]) };
	struct CMUnitTest tests[COUNT];
	for (size_t i = 0; i < COUNT; i++) {
		tests[i] = (struct CMUnitTest){.name = breaches[i].name,
					       .test_func = breach_ends_the_process,
					       .initial_state = (void *)(uintptr_t)&breaches[i]};
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
