/* SPDX-License-Identifier: MIT */
/*
 * What the torture loop runs. Each scenario takes whatever answer it gets and goes on as a program
 * could; torture_ok() says what has to come out where no call fails.
 */
#include "torture.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>

#include <rdma/fi_errno.h>

/* ---- opening, closing, listing */

static void open_close(const struct fake_provider *provider)
{
	struct weft_net_opts opts = torture_opts(provider->name);
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	fake_offer(provider);
	struct weft_net *net = torture_open(&opts);
	if (net)
		torture_check(weft_net_get_info(net, &info) == 0 && info.provider[0]);
	torture_close(net);
}

static void open_tcp(void)
{
	fake_set_files(200, 3);
	open_close(&fake_tcp);
}

static void open_udp(void)
{
	open_close(&fake_udp);
}

static void open_efa(void)
{
	fake_file("/sys/class/infiniband/rdmap0s6/device/numa_node", "1\n");
	open_close(&fake_efa);
}

static void open_raw(void)
{
	open_close(&fake_raw);
}

/* With what a dead process has left. */
static void open_shm(void)
{
	struct weft_net_opts opts = torture_opts("shm");
	fake_file("/dev/shm/weft-0123456789abcdef.lock", "");
	fake_file("/dev/shm/weft-0123456789abcdef", "");
	fake_file("/dev/shm/weft-0123456789abcdef_1", "");
	fake_offer(&fake_shm);
	opts.bind = "name";
	torture_close(torture_open(&opts));
	if (torture_untouched())
		torture_check(!fake_file_exists("/dev/shm/weft-0123456789abcdef_1"));
}

static void list(void)
{
	static const int named[] = {EINVAL, ENOMEM};
	struct weft_net_opts opts = torture_opts(NULL);
	struct weft_candidate *const untouched = (struct weft_candidate *)&opts;
	struct weft_candidate *all = untouched;
	fake_offer(&fake_tcp);
	fake_offer(&fake_shm);
	fake_offer(&fake_efa);
	fake_offer(&fake_raw);
	fake_file("/sys/class/net/lo/speed", "1000\n");
	opts.bind = "127.0.0.1:4000";
	int ret = weft_net_list(&opts, &all);
	torture_ok(ret == 4);
	torture_check(ret >= 0 || ret == -named[0] || ret == -named[1] || fake_gave(-ret));
	if (ret < 0)
		torture_check(all == untouched);
	else
		weft_candidate_free(all);
}

static void open_toward(void)
{
	struct weft_net_opts opts = torture_opts(NULL);
	struct weft_addr addr;
	fake_offer(&fake_tcp);
	fake_offer(&fake_tcp6);
	torture_check(weft_addr_parse(&addr, "tcp://127.0.0.1:9", NULL) == 0);
	opts.toward = &addr;
	torture_close(torture_open(&opts));
}

static void nothing_fits(void)
{
	struct weft_net_opts opts = torture_opts("efa");
	struct weft_net *net = NULL;
	fake_offer(&fake_tcp);
	torture_check(weft_net_open(&net, &opts) < 0 && !net);
}

/* ---- data */

static void exchange_of(struct torture_nets *nets, size_t len)
{
	struct weft_buf *from = torture_buf(nets->a, len);
	struct weft_buf *into = torture_buf(nets->b, len);
	struct weft_post post = torture_post(from, 50);
	struct torture_op *received = torture_recv(nets->b, into);
	struct torture_op *sent = torture_start(nets->a, TORTURE_SEND, nets->a_to_b, &post);
	weft_buf_unref(from);
	weft_buf_unref(into);
	torture_pass(nets, 60, true);
	torture_ok(sent->calls == 1 && sent->status == 0);
	torture_ok(received->calls == 1 && received->status == 0 &&
		   received->len == (from ? len : 0));
}

static void exchange(struct torture_nets *nets)
{
	exchange_of(nets, 300);
}

static void messages_on(const struct fake_provider *provider)
{
	struct torture_nets nets;
	torture_open_two(&nets, provider);
	exchange(&nets);
	exchange(&nets);
	torture_close_two(&nets);
}

static void messages_tcp(void)
{
	messages_on(&fake_tcp);
}

/* Of huge pages, too. */
static void messages_shm(void)
{
	struct torture_nets nets;
	torture_open_two(&nets, &fake_shm);
	exchange(&nets);
	exchange_of(&nets, 200000);
	torture_close_two(&nets);
}

static void messages_raw(void)
{
	messages_on(&fake_raw);
}

static void tags_and_data(void)
{
	struct torture_nets nets;
	/* Before that, closing an EFA endpoint may not return. */
	fake_set_version(FI_VERSION(2, 6));
	torture_open_two(&nets, &fake_efa);
	struct weft_buf *into = torture_buf(nets.b, 64);
	struct weft_post room = torture_post(into, 0);
	struct weft_post post = torture_post(NULL, 50);
	room.ignore = 1;
	post.tag = 1;
	struct torture_op *received[3] = {torture_trecv(nets.b, &room),
					  torture_trecv(nets.b, &room), torture_recv(nets.b, into)};
	torture_start(nets.a, TORTURE_TSEND, nets.a_to_b, &post);
	post.flags = WEFT_POST_CQ_DATA;
	post.cq_data = 7;
	torture_start(nets.a, TORTURE_TSEND, nets.a_to_b, &post);
	torture_start(nets.a, TORTURE_SEND, nets.a_to_b, &post);
	torture_pass(&nets, 60, true);
	for (int i = 0; i < 3; i++)
		torture_ok(received[i]->calls == 1 && received[i]->status == 0);
	weft_buf_unref(into);
	torture_close_two(&nets);
}

static void one_sided(void)
{
	struct torture_nets nets;
	struct weft_remote remote;
	torture_open_two(&nets, &fake_tcp);
	struct weft_buf *near = torture_buf(nets.a, 100);
	struct weft_buf *far = torture_buf(nets.b, 100);
	struct weft_post post = torture_post(near, 50);
	if (near && far) {
		int ret = weft_buf_share(far, WEFT_ACCESS_READ | WEFT_ACCESS_WRITE, &remote);
		torture_check(ret == 0 || ret == -ENOMEM || ret == -EOPNOTSUPP || fake_gave(-ret));
		post.remote_addr = ret == 0 ? remote.addr : 0;
		post.remote_key = ret == 0 ? remote.key : 1;
		struct torture_op *op = torture_start(nets.a, TORTURE_READ, nets.a_to_b, &post);
		torture_pass(&nets, 60, true);
		torture_ok(op->calls == 1 && op->status == 0);
		op = torture_start(nets.a, TORTURE_WRITE, nets.a_to_b, &post);
		torture_pass(&nets, 60, true);
		torture_ok(op->calls == 1 && op->status == 0);
	}
	weft_buf_unref(near);
	weft_buf_unref(far);
	torture_close_two(&nets);
}

/* Error completions, with and without a text, of sends and of a receive that is posted again. */
static void errors(void)
{
	struct torture_nets nets;
	/* Before that, closing an EFA endpoint may not return. */
	fake_set_version(FI_VERSION(2, 6));
	torture_open_two(&nets, &fake_efa);
	struct weft_buf *into = torture_buf(nets.b, 64);
	struct weft_post post = torture_post(NULL, 50);
	fake_next("fi_send", NULL, 1, &(struct fake_fate){FAKE_BREAK, 0, FI_EIO, 9, "gone"});
	fake_next("fi_send", NULL, 1, &(struct fake_fate){FAKE_BREAK, 0, -FI_EIO, 0, NULL});
	fake_next("fi_recv", NULL, 1, &(struct fake_fate){FAKE_BREAK, 0, FI_ENOTCONN, 0, NULL});
	struct torture_op *sent = torture_start(nets.a, TORTURE_SEND, nets.a_to_b, &post);
	torture_start(nets.a, TORTURE_SEND, nets.a_to_b, &post);
	struct torture_op *received = torture_recv(nets.b, into);
	torture_pass(&nets, 60, true);
	torture_ok(sent->status == -EIO && received->status == -ENOTCONN);
	received = torture_recv(nets.b, into);
	torture_start(nets.a, TORTURE_SEND, nets.a_to_b, &post);
	torture_pass(&nets, 60, true);
	torture_ok(received->status == 0 && received->calls == 1);
	if (nets.a)
		fake_stray(&nets.a_addr, FI_EIO);
	torture_pass(&nets, 2, false);
	weft_buf_unref(into);
	torture_close_two(&nets);
}

/* ---- time */

/* One send that nobody takes, one that is taken and never answered, and one that is answered late.
 */
static void timeouts(void)
{
	struct torture_nets nets;
	torture_open_two(&nets, &fake_udp);
	struct weft_buf *buf = torture_buf(nets.a, 64);
	struct weft_post post = torture_post(buf, 10);
	weft_dest nobody = torture_add_nobody(nets.a, 1);
	fake_refuse("fi_send", NULL, FI_EAGAIN, 12);
	struct torture_op *ops[3];
	for (int i = 0; i < 2; i++)
		ops[i] = torture_start(nets.a, TORTURE_SEND, nobody, &post);
	torture_pass(&nets, 15, false);
	fake_next("fi_send", NULL, 1, &(struct fake_fate){.delay_ns = 30 * FAKE_NS_PER_MS});
	ops[2] = torture_start(nets.a, TORTURE_SEND, nets.a_to_b, &post);
	weft_buf_unref(buf);
	torture_pass(&nets, 50, false);
	for (int i = 0; i < 3; i++)
		torture_ok(ops[i]->calls == 1 && ops[i]->status == -ETIMEDOUT);
	torture_close_two(&nets);
}

static void wake_it(void *net)
{
	weft_net_wake(net);
}

static void sleeping_on(const struct fake_provider *provider)
{
	struct torture_nets nets;
	torture_open_two(&nets, provider);
	if (nets.a) {
		/* Events must not outlive the net. */
		fake_at(2 * FAKE_NS_PER_MS, wake_it, nets.a);
		torture_poll(nets.a, 20);
		fake_advance_ns(3 * FAKE_NS_PER_MS);
	}
	exchange(&nets);
	struct weft_post post = torture_post(NULL, 10);
	struct torture_op *op =
		torture_start(nets.a, TORTURE_SEND, torture_add_nobody(nets.a, 1), &post);
	for (int i = 0; nets.a && i < 30 && op->calls == 0; i++) {
		int ms = weft_net_arm(nets.a);
		torture_check(ms >= 0 || ms == -EIO);
		if (ms > 0)
			fake_wait_fd(weft_net_fd(nets.a), ms == INT_MAX ? 5 : ms);
		torture_poll(nets.a, 0);
	}
	torture_close_two(&nets);
}

static void sleep_fd(void)
{
	sleeping_on(&fake_tcp);
}

static void sleep_timed(void)
{
	sleeping_on(&fake_udp);
}

/* ---- peers */

static void peers(void)
{
	struct torture_nets nets;
	weft_dest dest[20];
	torture_open_two(&nets, &fake_udp);
	struct weft_post post = torture_post(NULL, -1);
	for (unsigned i = 0; i < 20; i++)
		dest[i] = torture_add_nobody(nets.a, i);
	/* To be removed with an operation that is posted, with one that is queued, and with none;
	 * and to come back. */
	torture_start(nets.a, TORTURE_SEND, dest[0], &post);
	fake_refuse("fi_send", NULL, FI_EAGAIN, 2);
	torture_start(nets.a, TORTURE_SEND, dest[1], &post);
	for (int i = 0; nets.a && i < 20; i++) {
		int ret = weft_net_remove_peer(nets.a, dest[i]);
		torture_check(ret == 0 || (ret == -ENOTCONN && dest[i] == WEFT_DEST_NONE));
		torture_check(weft_net_remove_peer(nets.a, dest[i]) == -ENOTCONN);
	}
	torture_pass(&nets, 2, false);
	weft_dest again = torture_add_nobody(nets.a, 0);
	torture_check(again == WEFT_DEST_NONE || again != dest[0]);
	exchange(&nets);
	torture_close_two(&nets);
}

/* So many that the tables of peers grow while they are in use. */
static void very_many_peers(void)
{
	struct torture_nets nets;
	fake_pause_count(true);
	torture_open_two(&nets, &fake_udp);
	for (unsigned i = 0; i < 320; i++) {
		fake_pause_count(i < 120);
		torture_add_nobody(nets.a, i);
	}
	fake_pause_count(true);
	exchange(&nets);
	fake_pause_count(false);
	torture_close_two(&nets);
}

static void very_many_operations(void)
{
	struct torture_nets nets;
	fake_pause_count(true);
	torture_open_two(&nets, &fake_tcp);
	struct weft_post post = torture_post(NULL, 20);
	for (int i = 0; i < 140; i++) {
		fake_pause_count(i < 120);
		torture_start(nets.a, TORTURE_SEND, nets.a_to_b, &post);
	}
	torture_pass(&nets, 30, true);
	fake_pause_count(true);
	torture_close_two(&nets);
}

/* ---- closing */

/* Of the two seconds in which close looks again and again, the first and the last milliseconds will
 * do. */
static void jump_ahead(void *unused)
{
	(void)unused;
	fake_advance_ns(1990 * (int64_t)FAKE_NS_PER_MS);
}

static void close_busy_on(const struct fake_provider *provider)
{
	struct torture_nets nets;
	torture_open_two(&nets, provider);
	weft_dest nobody = torture_add_nobody(nets.a, 1);
	struct weft_buf *buf = torture_buf(nets.a, 64);
	struct weft_post post = torture_post(buf, 3);
	struct weft_post room = torture_post(buf, 0);
	struct weft_buf *kept = torture_buf(nets.a, 64);
	torture_start(nets.a, TORTURE_SEND, nobody, &post);
	torture_pass(&nets, 15, true);
	post.timeout_ms = -1;
	torture_start(nets.a, TORTURE_SEND, nets.a_to_b, &post);
	torture_start(nets.a, TORTURE_SEND, nobody, &post);
	fake_refuse("fi_send", NULL, FI_EAGAIN, -1);
	torture_start(nets.a, TORTURE_SEND, nobody, &post);
	torture_recv(nets.a, buf);
	torture_trecv(nets.a, &room);
	weft_buf_unref(buf);
	fake_at(5 * FAKE_NS_PER_MS, jump_ahead, NULL);
	torture_close_two(&nets);
	weft_buf_unref(kept);
}

static void close_busy_tcp(void)
{
	close_busy_on(&fake_tcp);
}

static void close_busy_udp(void)
{
	close_busy_on(&fake_udp);
}

/* Closing the endpoint would not return, so it is left. */
static void close_abandoned(void)
{
	struct fake_provider provider = fake_efa;
	struct torture_nets nets;
	provider.close_blocks = true;
	provider.absent = FAKE_ABSENT_NEVER;
	fake_set_version(FI_VERSION(1, 17));
	torture_open_two(&nets, &provider);
	struct weft_buf *buf = torture_buf(nets.a, 64);
	struct weft_post post = torture_post(buf, 3);
	weft_dest nobody = torture_add_nobody(nets.a, 1);
	torture_start(nets.a, TORTURE_SEND, nobody, &post);
	torture_pass(&nets, 15, true);
	torture_recv(nets.a, buf);
	weft_buf_unref(buf);
	torture_close_two(&nets);
}

struct once {
	int calls;
};

static void release_once(void *data, size_t size, void *user)
{
	struct once *once = user;
	(void)data;
	(void)size;
	once->calls++;
	torture_check(once->calls == 1);
}

static void buffers(void)
{
	static uint8_t mine[2][64];
	struct once once[2] = {0};
	struct torture_nets nets;
	struct weft_remote remote;
	torture_open_two(&nets, &fake_tcp);
	struct weft_buf *outlives = torture_buf(nets.a, 10);
	for (int i = 0; nets.a && i < 2; i++) {
		struct weft_buf *buf = NULL;
		int ret = weft_buf_wrap(nets.a, mine[i], 64, release_once, &once[i], &buf);
		torture_check((ret < 0) == (buf == NULL) &&
			      (ret == 0 || ret == -ENOMEM || fake_gave(-ret)));
		if (i == 0 && buf)
			weft_buf_share(buf, WEFT_ACCESS_READ, &remote);
		else if (buf)
			torture_recv(nets.a, buf);
		weft_buf_unref(buf);
		/* Shared, or posted: both stay until close. */
		torture_ok(once[i].calls == 0);
	}
	if (outlives)
		weft_buf_share(outlives, WEFT_ACCESS_WRITE, &remote);
	torture_close_two(&nets);
	torture_ok(once[0].calls == 1 && once[1].calls == 1);
	weft_buf_unref(outlives);
}

/* ---- more than one */

static void two_pairs(void)
{
	struct torture_nets one, other;
	/* Before that, closing an EFA endpoint may not return. */
	fake_set_version(FI_VERSION(2, 6));
	torture_open_two(&one, &fake_tcp);
	torture_open_two(&other, &fake_efa);
	exchange(&one);
	exchange(&other);
	torture_close(one.a);
	exchange(&other);
	torture_close(one.b);
	exchange(&other);
	torture_close_two(&other);
}

const struct torture_scenario torture_scenarios[] = {
	{"open-tcp", open_tcp, false},
	{"open-udp", open_udp, false},
	{"open-efa", open_efa, false},
	{"open-raw", open_raw, false},
	{"open-shm", open_shm, false},
	{"open-toward", open_toward, false},
	{"nothing-fits", nothing_fits, false},
	{"list", list, false},
	{"messages-tcp", messages_tcp, false},
	{"messages-shm", messages_shm, false},
	{"messages-raw", messages_raw, false},
	{"tags-and-data", tags_and_data, false},
	{"one-sided", one_sided, false},
	{"errors", errors, false},
	{"timeouts", timeouts, false},
	{"sleep-fd", sleep_fd, false},
	{"sleep-timed", sleep_timed, false},
	{"peers", peers, false},
	{"very-many-peers", very_many_peers, false},
	{"very-many-operations", very_many_operations, false},
	{"close-busy-tcp", close_busy_tcp, false},
	{"close-busy-udp", close_busy_udp, false},
	{"close-abandoned", close_abandoned, true},
	{"buffers", buffers, false},
	{"two-pairs", two_pairs, false},
};
const size_t torture_scenario_count = sizeof(torture_scenarios) / sizeof(torture_scenarios[0]);
