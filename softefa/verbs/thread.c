/* SPDX-License-Identifier: MIT */
/*
 * The thread that does the device's work while the application does not. Real hardware acknowledges
 * while the program sleeps or computes; so must we. While the program polls, it does the work
 * itself on its way, and the thread keeps out of it: it only looks once a millisecond whether that
 * is still so.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "soft.h"

#define NAP_LEAST 1000000u
#define NAP_MOST 4000000u

static void work_on(struct soft_qp *qp, uint64_t now)
{
	/* Without sockets, in the child of a fork, nothing is ever due. */
	qp->next = qp->net ? sefa_port_progress(&qp->port, now) : UINT64_MAX;
}

/* Whether the program has polled a queue pair's completions since the thread last asked. */
static bool is_polled(struct soft_qp *qp)
{
	uint64_t polls = qp->send_cq->polls + qp->recv_cq->polls;
	bool polled = polls != qp->seen_poll && !qp->send_cq->armed && !qp->recv_cq->armed;
	qp->seen_poll = polls;
	return polled;
}

void soft_progress(struct soft_cq *cq)
{
	uint64_t now = soft_now();
	struct soft_qp *qp;
	LIST_FOREACH (qp, &soft.qps, link) {
		if (qp->send_cq == cq || qp->recv_cq == cq)
			work_on(qp, now);
	}
}

/*
 * One round. Returns when the next one is due, and whether anything is being polled. *nap is how
 * long to sleep then: longer the longer that lasts.
 */
static uint64_t round_of_all(bool *polled, uint64_t *nap)
{
	uint64_t now = soft_now();
	uint64_t due = UINT64_MAX;
	struct soft_qp *qp;
	*polled = false;
	LIST_FOREACH (qp, &soft.qps, link) {
		if (is_polled(qp))
			*polled = true;
		else
			work_on(qp, now);
		if (qp->next < due)
			due = qp->next;
	}
	if (!*polled) {
		*nap = NAP_LEAST;
		return due;
	}
	/* Somebody who polls does in time what is due; we only look again. */
	due = now + *nap;
	*nap = *nap * 2 < NAP_MOST ? *nap * 2 : NAP_MOST;
	return due;
}

static void sleep_until(uint64_t due, bool polled)
{
	uint64_t now = soft_now();
	uint64_t wait = due > now ? due - now : 0;
	struct timespec t = {.tv_sec = (time_t)(wait / 1000000000u),
			     .tv_nsec = (long)(wait % 1000000000u)};
	struct pollfd fds[2] = {
		{.fd = soft.wake_fd, .events = POLLIN},
		{.fd = soft.epoll_fd, .events = POLLIN},
	};
	if (ppoll(fds, polled ? 1 : 2, due == UINT64_MAX ? NULL : &t, NULL) > 0 &&
	    (fds[0].revents & POLLIN)) {
		uint64_t count;
		ssize_t got = read(soft.wake_fd, &count, sizeof(count));
		(void)got;
	}
}

static void *run(void *arg)
{
	uint64_t nap = NAP_LEAST;
	(void)arg;
	soft_lock();
	while (!soft.stop) {
		bool polled;
		uint64_t due = round_of_all(&polled, &nap);
		soft.sleeps_until = due;
		soft_unlock();
		sleep_until(due, polled);
		soft_lock();
		soft.sleeps_until = 0;
	}
	soft_unlock();
	return NULL;
}

void soft_thread_wake(void)
{
	uint64_t one = 1;
	ssize_t put = write(soft.wake_fd, &one, sizeof(one));
	(void)put;
}

void soft_thread_due(uint64_t due)
{
	if (due < soft.sleeps_until)
		soft_thread_wake();
}

int soft_thread_watch(int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	return epoll_ctl(soft.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int soft_thread_start(void)
{
	sigset_t all, before;
	int ret = 0;
	if (soft.running)
		return 0;
	if (soft.wake_fd < 0) {
		soft.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		soft.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (soft.wake_fd < 0 || soft.epoll_fd < 0)
			return -errno;
	}
	/* The program's signals are the program's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&soft.thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	soft.running = ret == 0;
	return -ret;
}

void soft_thread_stop(void)
{
	if (!soft.running || soft.stop)
		return;
	soft.stop = true;
	soft_thread_wake();
	soft_unlock();
	pthread_join(soft.thread, NULL);
	soft_lock();
	soft.running = false;
	soft.stop = false;
	/* Somebody may have come while the lock was free. */
	if (!LIST_EMPTY(&soft.qps))
		(void)soft_thread_start();
}
