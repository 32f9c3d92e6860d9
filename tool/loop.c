/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <string.h>
#include <time.h>

#include "loop.h"

/* Of descriptors that can be waited for beside the node's. */
#define FDS_MOST 4

int64_t now_ns(void)
{
	struct timespec now = {0};
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t now_ms(void)
{
	return now_ns() / 1000000;
}

int ms_until(int64_t moment)
{
	if (moment == INT64_MAX)
		return -1;
	int64_t left = moment - now_ms();
	return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

int loop_turn(struct weft_node *node, struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct pollfd all[FDS_MOST + 1];
	if (count == 0 || count > FDS_MOST)
		return weft_node_poll(node, timeout_ms);

	int ret = weft_node_arm(node);
	if (ret < 0)
		return ret;
	if (timeout_ms < 0 || ret < timeout_ms)
		timeout_ms = ret == INT_MAX ? timeout_ms : ret;
	memcpy(all, fds, count * sizeof(*fds));
	all[count] = (struct pollfd){.fd = weft_node_fd(node), .events = POLLIN};
	if (poll(all, count + 1, timeout_ms) < 0) {
		for (nfds_t i = 0; i < count; i++)
			all[i].revents = 0;
	}
	for (nfds_t i = 0; i < count; i++)
		fds[i].revents = all[i].revents;
	return weft_node_poll(node, 0);
}
