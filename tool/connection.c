/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "connection.h"
#include "loop.h"
#include "stop.h"

int connection_wait(int fd, short events, int64_t deadline_ms)
{
	struct pollfd entry = {.fd = fd, .events = events};
	for (;;) {
		int left = ms_until(deadline_ms);
		if (stop_wanted())
			return -EINTR;
		if (left == 0)
			return -ETIMEDOUT;
		if (poll(&entry, 1, left) > 0)
			return 0;
	}
}

int connection_open(const struct sockaddr *to, socklen_t len, int64_t deadline_ms)
{
	int error = 0;
	socklen_t size = sizeof(error);
	int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, to, len) == 0)
		return fd;
	int ret = errno == EINPROGRESS ? connection_wait(fd, POLLOUT, deadline_ms) : -errno;
	if (ret == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0)
		ret = -error;
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}
