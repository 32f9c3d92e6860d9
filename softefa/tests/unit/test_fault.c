/* SPDX-License-Identifier: MIT */
/* The faults: as many as asked for, the same from the same seed, and over real sockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/fault.h"
#include "core/packet.h"
#include "core/udp.h"

/* A net that keeps the numbers of what it is given. */
struct recorder {
	struct sefa_net net;
	uint32_t got[20000];
	int count;
	int waiting; /* datagrams to be received */
	bool closed;
};

static int record_send(struct sefa_net *net, struct sefa_end to, const struct iovec *iov, int count)
{
	struct recorder *r = (struct recorder *)net;
	(void)to;
	assert_int_equal(count >= 1, 1);
	assert_true(r->count < 20000);
	memcpy(&r->got[r->count++], iov[0].iov_base, 4);
	return 0;
}

static int record_receive(struct sefa_net *net, struct sefa_end *from, const uint8_t **data)
{
	static const uint8_t byte;
	struct recorder *r = (struct recorder *)net;
	if (r->waiting == 0)
		return -EAGAIN;
	r->waiting--;
	*from = (struct sefa_end){1, 2};
	*data = &byte;
	return 1;
}

static bool record_refused(struct sefa_net *net, struct sefa_refusal *refusal)
{
	struct recorder *r = (struct recorder *)net;
	memset(refusal, 0, sizeof(*refusal));
	return r->waiting-- > 0;
}

static uint64_t record_turn(struct sefa_net *net, uint64_t now)
{
	(void)net;
	(void)now;
	return UINT64_MAX;
}

static void record_close(struct sefa_net *net)
{
	((struct recorder *)net)->closed = true;
}

static struct recorder recorder;

static struct sefa_net *wrap(const struct sefa_faults *faults)
{
	memset(&recorder, 0, sizeof(recorder));
	recorder.net = (struct sefa_net){record_send, record_receive, record_refused, record_turn,
					 record_close};
	struct sefa_net *net = sefa_fault_wrap(&recorder.net, faults);
	assert_non_null(net);
	return net;
}

static const struct sefa_end somewhere = {0x7f000001, 9};

static void send_number(struct sefa_net *net, uint32_t number)
{
	struct iovec iov[3] = {{&number, 4}, {NULL, 0}, {&number, 4}};
	assert_int_equal(net->send(net, somewhere, iov, 3), 0);
}

static void nothing_asked_nothing_done(void **state)
{
	struct sefa_faults none = {.seed = 3, .rnr = 20};
	(void)state;
	assert_false(sefa_faults_any(&none));
	assert_false(sefa_faults_link_down(&none));
	struct sefa_net *net = wrap(&none);
	for (uint32_t i = 0; i < 1000; i++)
		send_number(net, i);
	assert_int_equal(recorder.count, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(recorder.got[i], i);
	net->close(net);
	assert_true(recorder.closed);
}

static void shares_are_kept(void **state)
{
	struct sefa_faults loss = {.loss = 20, .seed = 1}, dup = {.dup = 30, .seed = 1};
	(void)state;
	assert_true(sefa_faults_any(&loss) && sefa_faults_any(&dup));
	struct sefa_net *net = wrap(&loss);
	for (uint32_t i = 0; i < 10000; i++)
		send_number(net, i);
	assert_in_range(recorder.count, 7800, 8200);
	net->close(net);
	net = wrap(&dup);
	for (uint32_t i = 0; i < 10000; i++)
		send_number(net, i);
	assert_in_range(recorder.count, 12700, 13300);
	net->close(net);
}

static void same_seed_same_faults(void **state)
{
	static uint32_t first[20000];
	struct sefa_faults faults = {.loss = 10, .dup = 10, .reorder = 30, .seed = 42};
	int count = 0;
	(void)state;
	for (int run = 0; run < 3; run++) {
		faults.seed = run < 2 ? 42 : 43;
		struct sefa_net *net = wrap(&faults);
		for (uint32_t i = 0; i < 5000; i++) {
			net->turn(net, i * UINT64_C(1000));
			send_number(net, i);
		}
		net->turn(net, UINT64_MAX / 2);
		if (run == 0) {
			count = recorder.count;
			memcpy(first, recorder.got, sizeof(first));
		} else {
			bool same = count == recorder.count &&
				    memcmp(first, recorder.got, (size_t)count * 4) == 0;
			assert_int_equal(same, run == 1);
		}
		net->close(net);
	}
}

static void reordering_overtakes_and_loses_nothing(void **state)
{
	static bool seen[1000];
	struct sefa_faults faults = {.reorder = 30, .seed = 1};
	int overtaken = 0;
	(void)state;
	memset(seen, 0, sizeof(seen));
	struct sefa_net *net = wrap(&faults);
	for (uint32_t i = 0; i < 1000; i++) {
		net->turn(net, i * UINT64_C(10000));
		send_number(net, i);
	}
	net->turn(net, UINT64_MAX / 2);
	assert_int_equal(recorder.count, 1000);
	for (int i = 0; i < 1000; i++) {
		assert_false(seen[recorder.got[i]]);
		seen[recorder.got[i]] = true;
		if (i > 0 && recorder.got[i] < recorder.got[i - 1])
			overtaken++;
	}
	assert_in_range(overtaken, 200, 400);
	net->close(net);
}

static void delay_is_kept(void **state)
{
	struct sefa_faults faults = {.delay_us = 500, .seed = 1};
	(void)state;
	struct sefa_net *net = wrap(&faults);
	assert_int_equal(net->turn(net, 1000), UINT64_MAX);
	send_number(net, 1);
	assert_int_equal(recorder.count, 0);
	assert_int_equal(net->turn(net, 400000), 501000);
	assert_int_equal(recorder.count, 0);
	assert_int_equal(net->turn(net, 501000), UINT64_MAX);
	assert_int_equal(recorder.count, 1);
	/* What is still held is freed with the net. */
	send_number(net, 2);
	net->close(net);
}

static void link_goes_down_and_up(void **state)
{
	char path[64];
	struct sefa_faults faults = {.link_down = path, .seed = 1, .delay_us = 1};
	struct sefa_refusal refusal;
	struct sefa_end from;
	const uint8_t *data;
	(void)state;
	snprintf(path, sizeof(path), "/tmp/softefa_test_link_%d", (int)getpid());
	unlink(path);
	struct sefa_net *net = wrap(&faults);
	recorder.waiting = 1;
	assert_int_equal(net->receive(net, &from, &data), 1);
	net->turn(net, 1000000);
	send_number(net, 0);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_true(sefa_faults_link_down(&faults));
	/* It is looked for once a millisecond; what is held then is lost. */
	net->turn(net, 2000000);
	send_number(net, 1);
	net->turn(net, 3000000);
	assert_int_equal(recorder.count, 0);
	recorder.waiting = 3;
	assert_int_equal(net->receive(net, &from, &data), -EAGAIN);
	recorder.waiting = 3;
	assert_false(net->refused(net, &refusal));
	unlink(path);
	net->turn(net, 4000000);
	send_number(net, 2);
	net->turn(net, 5000000);
	assert_int_equal(recorder.count, 1);
	recorder.waiting = 1;
	assert_true(net->refused(net, &refusal));
	net->close(net);
}

static void dies_when_told(void **state)
{
	struct sefa_faults faults = {.die_after = 3, .seed = 1};
	int *sent =
		/* cppcheck-suppress invalidFunctionArg ; memory without a file has no descriptor */
		mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	(void)state;
	assert_true(sent != MAP_FAILED);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct sefa_net *net = wrap(&faults);
		for (uint32_t i = 0; i < 10; i++) {
			send_number(net, i);
			*sent = recorder.count;
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_int_equal(*sent, 3);
	munmap(sent, sizeof(int));
}

static struct sefa_net *open_udp(uint16_t *port)
{
	struct sefa_net *net = NULL;
	*port = 0;
	assert_int_equal(sefa_udp_open(&net, INADDR_LOOPBACK, port), 0);
	assert_true(*port > 0);
	return net;
}

static void wait_for(const struct sefa_net *net, short events)
{
	struct pollfd fd = {.fd = sefa_udp_fd(net), .events = events};
	assert_int_equal(poll(&fd, 1, 10000), 1);
}

static void udp_carries(void **state)
{
	static uint8_t big[SEFA_DATAGRAM_MAX];
	uint16_t port[2];
	struct sefa_end from;
	const uint8_t *data;
	(void)state;
	struct sefa_net *a = open_udp(&port[0]), *b = open_udp(&port[1]);
	assert_int_equal(b->receive(b, &from, &data), -EAGAIN);
	for (int i = 0; i < 40; i++) {
		big[0] = (uint8_t)i;
		struct iovec iov[2] = {{big, 1}, {big + 1, (size_t)i * 200}};
		assert_int_equal(a->send(a, (struct sefa_end){INADDR_LOOPBACK, port[1]}, iov, 2),
				 0);
	}
	for (int i = 0; i < 40; i++) {
		int len = b->receive(b, &from, &data);
		while (len < 0) {
			wait_for(b, POLLIN);
			len = b->receive(b, &from, &data);
		}
		assert_int_equal(len, 1 + i * 200);
		assert_int_equal(data[0], i);
		assert_int_equal(from.qpn, port[0]);
		assert_int_equal(from.ip, INADDR_LOOPBACK);
	}
	assert_int_equal(a->turn(a, 1), UINT64_MAX);
	struct iovec bad = {(void *)8, 100};
	assert_int_equal(a->send(a, (struct sefa_end){INADDR_LOOPBACK, port[1]}, &bad, 1), -EFAULT);
	a->close(a);
	b->close(b);
}

static void udp_says_who_is_not_there(void **state)
{
	uint16_t port[2];
	struct sefa_refusal refusal;
	uint8_t head[SEFA_HEAD_MAX];
	(void)state;
	struct sefa_net *a = open_udp(&port[0]), *b = open_udp(&port[1]);
	b->close(b);
	struct sefa_end gone = {INADDR_LOOPBACK, port[1]};
	struct sefa_packet packet = {.type = SEFA_SEND, .flow = 4711};
	struct iovec iov = {head, sefa_packet_encode(&packet, head)};
	assert_false(a->refused(a, &refusal));
	/* Sending goes on although earlier datagrams have been refused. */
	for (int i = 0; i < 5; i++)
		assert_int_equal(a->send(a, gone, &iov, 1), 0);
	struct sefa_end from;
	const uint8_t *data;
	wait_for(a, 0);
	assert_int_equal(a->receive(a, &from, &data), -EAGAIN);
	assert_true(a->refused(a, &refusal));
	assert_true(sefa_end_equal(refusal.end, gone));
	assert_true(refusal.port);
	assert_true(refusal.has_flow);
	assert_int_equal(refusal.flow, 4711);
	a->close(a);
}

static void udp_refuses_what_cannot_be(void **state)
{
	uint16_t port[1], taken;
	struct sefa_net *other = NULL;
	(void)state;
	struct sefa_net *a = open_udp(port);
	taken = port[0];
	assert_int_equal(sefa_udp_open(&other, INADDR_LOOPBACK, &taken), -EADDRINUSE);
	taken = 0;
	/* TEST-NET-3, which no machine has. */
	assert_int_equal(sefa_udp_open(&other, 0xcb00714d, &taken), -EADDRNOTAVAIL);
	assert_null(other);
	/* A socket bound to loopback has no way out of it. */
	struct iovec iov = {port, 2};
	int ret = a->send(a, (struct sefa_end){0xcb00714d, 9}, &iov, 1);
	assert_true(ret < 0 && ret != -EAGAIN && ret != -EFAULT);
	a->close(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_asked_nothing_done),
		cmocka_unit_test(shares_are_kept),
		cmocka_unit_test(same_seed_same_faults),
		cmocka_unit_test(reordering_overtakes_and_loses_nothing),
		cmocka_unit_test(delay_is_kept),
		cmocka_unit_test(link_goes_down_and_up),
		cmocka_unit_test(dies_when_told),
		cmocka_unit_test(udp_carries),
		cmocka_unit_test(udp_says_who_is_not_there),
		cmocka_unit_test(udp_refuses_what_cannot_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
