/* SPDX-License-Identifier: MIT */
/* Waiting: the turn of a net, and the sleep between turns. Calls cq, op, clock, and the kernel. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "clock.h"
#include "cq.h"
#include "netimpl.h"

/* While a send is under way. */
#define LIVE_SLEEP_NS WEFT__NS_PER_MS
/*
 * While nobody waits for a send, but the provider may yet let go of held slots or find room for
 * waiting receives.
 */
#define HELD_SLEEP_NS (100 * (int64_t)WEFT__NS_PER_MS)
/*
 * Without a descriptor the sleep is a part of the idle time so far, so latency is never out of
 * proportion to it.
 */
#define TIMED_SHARE 16
#define TIMED_SLEEP_MIN_NS 20000
#define TIMED_SLEEP_MAX_NS (10 * (int64_t)WEFT__NS_PER_MS)

#define FOREVER INT64_MAX

static int watch(int epoll_fd, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int weft__wait_open(struct weft__wait *wait, int cq_fd)
{
	wait->cq_fd = cq_fd;
	wait->wake_fd = wait->timer_fd = wait->epoll_fd = -1;
	atomic_init(&wait->woken, false);
	wait->timer_armed = false;
	wait->active_ns = weft__clock_ns();

	int ret = 0;
	wait->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wait->wake_fd >= 0)
		wait->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (wait->timer_fd >= 0)
		wait->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (wait->epoll_fd < 0)
		ret = -errno;
	if (ret == 0)
		ret = watch(wait->epoll_fd, wait->wake_fd);
	if (ret == 0)
		ret = watch(wait->epoll_fd, wait->timer_fd);
	if (ret == 0 && cq_fd >= 0)
		ret = watch(wait->epoll_fd, cq_fd);
	if (ret < 0)
		weft__wait_close(wait);
	return ret;
}

void weft__wait_close(struct weft__wait *wait)
{
	close_fd(&wait->epoll_fd);
	close_fd(&wait->timer_fd);
	close_fd(&wait->wake_fd);
}

void weft_net_wake(struct weft_net *net)
{
	/* It may run in a signal handler, which must not change errno. */
	int saved = errno;
	if (!atomic_exchange(&net->wait.woken, true)) {
		uint64_t one = 1;
		ssize_t ignored = write(net->wait.wake_fd, &one, sizeof(one));
		(void)ignored;
	}
	errno = saved;
}

/* Whether weft_net_wake() was called since this was last asked. */
static bool take_wake(struct weft__wait *wait)
{
	uint64_t count;
	if (!atomic_load(&wait->woken))
		return false;
	/*
	 * The flag is set before the descriptor is written. Where nothing can be read yet the flag
	 * stays, or the descriptor would be readable later with nobody to read it. A wake between
	 * the two lines is taken along: what its caller did before is seen after the exchange.
	 */
	if (read(wait->wake_fd, &count, sizeof(count)) == sizeof(count))
		atomic_exchange(&wait->woken, false);
	return true;
}

static void disarm(struct weft__wait *wait)
{
	struct itimerspec none = {0};
	if (wait->timer_armed)
		timerfd_settime(wait->timer_fd, 0, &none, NULL);
	wait->timer_armed = false;
}

/* One turn: progress, posting, deadlines, callbacks. Returns the callbacks run, or -EIO. */
static int turn(struct weft_net *net)
{
	struct weft__ops *ops = &net->ops;
	int count = weft__cq_poll(net);
	if (!TAILQ_EMPTY(&ops->turns))
		weft__ops_flush(net);
	if (ops->deadlines.count > 0)
		weft__ops_expire(net, count > 0);
	if (!TAILQ_EMPTY(&ops->ending)) {
		int ended = weft__ops_run_ending(net);
		count = count < 0 && ended > 0 ? ended : count + ended;
	}
	return count;
}

/*
 * How long to sleep at most, as things stand; FOREVER where only a completion or a wake can change
 * them.
 */
static int64_t sleep_ns(const struct weft_net *net, int64_t now)
{
	int64_t ns = FOREVER;
	if (net->wait.cq_fd < 0) {
		ns = (now - net->wait.active_ns) / TIMED_SHARE;
		if (ns < TIMED_SLEEP_MIN_NS)
			ns = TIMED_SLEEP_MIN_NS;
		if (ns > TIMED_SLEEP_MAX_NS)
			ns = TIMED_SLEEP_MAX_NS;
	}
	if (net->ops.live_sends > 0 && ns > LIVE_SLEEP_NS)
		ns = LIVE_SLEEP_NS;
	if ((net->ops.held > 0 || net->ops.waiting > 0) && ns > HELD_SLEEP_NS)
		ns = HELD_SLEEP_NS;
	return ns;
}

/* Whether the completion queue's descriptor can be trusted to tell of what comes from now on. */
static bool may_sleep(struct weft_net *net)
{
	struct fid *fids[] = {&net->cq->fid};
	return net->wait.cq_fd < 0 || fi_trywait(net->fabric, fids, 1) == 0;
}

/* Sleeps on the descriptors. Returns 0, or -EINTR where a signal came. */
static int sleep_for(struct weft_net *net, int64_t ns)
{
	struct pollfd fds[] = {
		{.fd = net->wait.wake_fd, .events = POLLIN},
		{.fd = net->wait.cq_fd, .events = POLLIN}, /* poll(2) ignores -1 */
	};
	struct timespec time = {.tv_sec = ns / WEFT__NS_PER_S, .tv_nsec = ns % WEFT__NS_PER_S};
	net->stats.sleeps++;
	if (ppoll(fds, 2, ns == FOREVER ? NULL : &time, NULL) < 0)
		return -errno;
	return 0;
}

int weft_net_poll(struct weft_net *net, int timeout_ms)
{
	struct weft__wait *wait = &net->wait;
	if (net->in_callback)
		return -EBUSY;
	disarm(wait);
	int count = turn(net);
	if (count != 0 || timeout_ms == 0) {
		if (count != 0)
			wait->active_ns = 0;
		take_wake(wait);
		return count;
	}

	int64_t start = weft__clock_ns();
	int64_t end = timeout_ms < 0 ? FOREVER : start + (int64_t)timeout_ms * WEFT__NS_PER_MS;
	int64_t spin_end = start + (int64_t)net->opts.spin_us * 1000;
	/*
	 * Polls without a sleep do not pay for the exact clock; the first one that may sleep sets
	 * it.
	 */
	if (wait->active_ns == 0)
		wait->active_ns = start;
	for (;;) {
		if (take_wake(wait))
			return 0;
		int64_t now = weft__clock_ns();
		if (now >= end)
			return 0;
		if (now >= spin_end && may_sleep(net)) {
			int64_t ns = sleep_ns(net, now);
			if (ns > end - now)
				ns = end - now;
			if (sleep_for(net, ns) == -EINTR) {
				/* The signal's handler may have called for a wake: this is it. */
				take_wake(wait);
				return 0;
			}
		}
		count = turn(net);
		if (count != 0) {
			wait->active_ns = 0;
			return count;
		}
	}
}

int weft_net_fd(const struct weft_net *net)
{
	return net->wait.epoll_fd;
}

int weft__wait_arm(struct weft_net *net, int limit_ms)
{
	struct weft__wait *wait = &net->wait;
	if (net->in_callback)
		return -EBUSY;
	if (net->broken)
		return -EIO;
	if (!TAILQ_EMPTY(&net->ops.ending) || atomic_load(&wait->woken) || !may_sleep(net))
		return 0;
	int64_t now = weft__clock_ns();
	if (wait->active_ns == 0)
		wait->active_ns = now;
	int64_t ns = sleep_ns(net, now);
	if (limit_ms != INT_MAX && ns > (int64_t)limit_ms * WEFT__NS_PER_MS)
		ns = (int64_t)limit_ms * WEFT__NS_PER_MS;
	if (ns == FOREVER) {
		disarm(wait);
		return INT_MAX;
	}
	struct itimerspec time = {
		.it_value = {.tv_sec = ns / WEFT__NS_PER_S, .tv_nsec = ns % WEFT__NS_PER_S},
	};
	/* The kernel has no reason to refuse; a loop that cannot be woken in time is of no use. */
	if (timerfd_settime(wait->timer_fd, 0, &time, NULL) < 0)
		return -EIO;
	wait->timer_armed = true;
	return (int)((ns + WEFT__NS_PER_MS - 1) / WEFT__NS_PER_MS);
}

int weft_net_arm(struct weft_net *net)
{
	return weft__wait_arm(net, INT_MAX);
}
