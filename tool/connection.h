/* SPDX-License-Identifier: MIT */
/*
 * TCP connections of the tool's own, made and waited for within a bound. Calls loop, stop.
 */
#ifndef TOOL_CONNECTION_H
#define TOOL_CONNECTION_H

#include <stdint.h>
#include <sys/socket.h>

/* Waits until a descriptor is ready for the events of poll(2). Returns 0, -ETIMEDOUT, or -EINTR after a signal. */
int connection_wait(int fd, short events, int64_t deadline_ms);

/* Connects. Returns the descriptor, which is the caller's and does not block, -ETIMEDOUT, -EINTR, or why not. */
int connection_open(const struct sockaddr *to, socklen_t len, int64_t deadline_ms);

#endif
