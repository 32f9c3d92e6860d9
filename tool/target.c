/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host.h"
#include "loop.h"
#include "options.h"
#include "output.h"
#include "stop.h"
#include "target.h"
#include "units.h"

/* What a rendezvous answers at most: an address and the end of its line. */
#define ANSWER_MAX (WEFT_ADDR_TEXT_MAX + 2)

/* Waits until a descriptor is ready. Returns 0, -ETIMEDOUT, or -EINTR after a signal. */
static int wait_ready(int fd, short events, int64_t deadline_ms)
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

/* Connects to one of the addresses that a name has. Returns the descriptor, or a negative code. */
static int connect_one(const struct addrinfo *to, int64_t deadline_ms)
{
	int error = 0;
	socklen_t len = sizeof(error);
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
		return fd;
	int ret = errno == EINPROGRESS ? wait_ready(fd, POLLOUT, deadline_ms) : -errno;
	if (ret == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0)
		ret = -error;
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}

/* Connects to the rendezvous. Returns the descriptor, or a negative code, or a look-up's fault in
 * *fault. */
static int connect_any(const char *host, const char *port, int64_t deadline_ms, const char **fault)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *all;
	int ret = getaddrinfo(host, port, &hints, &all);
	*fault = ret == 0 ? NULL : gai_strerror(ret);
	if (ret != 0)
		return -EADDRNOTAVAIL;
	ret = -EADDRNOTAVAIL;
	for (struct addrinfo *one = all; one && ret < 0 && ret != -EINTR && ret != -ETIMEDOUT;
	     one = one->ai_next)
		ret = connect_one(one, deadline_ms);
	freeaddrinfo(all);
	return ret;
}

/* Reads a line, without its end. Returns its length, -EMSGSIZE if it is none, or another code. */
static int read_answer(int fd, char *answer, int64_t deadline_ms)
{
	size_t used = 0;
	while (used < ANSWER_MAX) {
		int ret = wait_ready(fd, POLLIN, deadline_ms);
		if (ret < 0)
			return ret;
		ssize_t got = read(fd, answer + used, ANSWER_MAX - used);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (got < 0)
			return -errno;
		char *end = memchr(answer + used, '\n', (size_t)got);
		if (end || got == 0) {
			size_t len = end ? (size_t)(end - answer) : used;
			answer[len] = 0;
			return (int)len;
		}
		used += (size_t)got;
	}
	return -EMSGSIZE;
}

static int ask_rendezvous(struct weft_addr *addr, const char *text, const char *host,
			  const char *port, int timeout_ms)
{
	int64_t deadline_ms = now_ms() + timeout_ms;
	struct weft_parse_error error;
	const char *fault;
	char time[UNITS_TEXT_MAX];
	char answer[ANSWER_MAX + 1];
	int fd = connect_any(*host ? host : "localhost", port, deadline_ms, &fault);
	int ret = fd < 0 ? fd : read_answer(fd, answer, deadline_ms);
	if (fd >= 0)
		close(fd);
	if (ret == -EINTR)
		return EXIT_INTERRUPTED;
	if (ret == -ETIMEDOUT)
		return fail(
			EXIT_TIMEOUT,
			"rendezvous %s: no answer within %s; is weft serve --rendezvous running "
			"there?",
			text, format_duration(time, timeout_ms));
	if (ret == -EMSGSIZE)
		return fail(EXIT_FAILED, "rendezvous %s: what answers there is not weft serve",
			    text);
	if (ret < 0)
		return fail(EXIT_FAILED,
			    "rendezvous %s: %s; is weft serve --rendezvous running there?", text,
			    fault ? fault : weft_strerror(ret));
	if (weft_addr_parse(addr, answer, &error) < 0)
		return fail(EXIT_FAILED,
			    "rendezvous %s: what answers there is not weft serve: '%s' is not an "
			    "address: byte %zu: %s",
			    text, message_preview(answer, (size_t)ret), error.pos, error.reason);
	say_more("rendezvous %s: the address is %s", text, answer);
	return EXIT_DONE;
}

/* Replaces the name of a host in an address by what it stands for. Returns NULL, or what is wrong.
 */
static const char *resolve_name(char *resolved, size_t size, const char *text)
{
	static const char *const schemes[] = {"tcp://", "udp://", "verbs://"};
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];
	char numeric[HOST_TEXT_MAX];
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		size_t len = strlen(schemes[i]);
		if (strncmp(text, schemes[i], len) != 0)
			continue;
		/* What starts with a digit is an address that is wrong, rather than a name. */
		if (!host_split(text + len, host, port) || !*host ||
		    (*host >= '0' && *host <= '9') || strchr(host, ':'))
			return "";
		const char *fault = host_resolve(numeric, host, port);
		if (!fault)
			snprintf(resolved, size, "%s%s", schemes[i], numeric);
		return fault;
	}
	return "";
}

int target_find(struct weft_addr *addr, const char *text, int timeout_ms, bool *from_rendezvous)
{
	struct weft_parse_error error;
	char resolved[HOST_TEXT_MAX + 16];
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];
	*from_rendezvous = false;
	if (weft_addr_parse(addr, text, &error) == 0)
		return EXIT_DONE;
	if (!strstr(text, "://") && strchr(text, ':') && host_split(text, host, port)) {
		if (strcmp(port, "0") == 0)
			return fail(EXIT_USAGE, "'%s' is not a rendezvous: port 0 is none", text);
		*from_rendezvous = true;
		return ask_rendezvous(addr, text, host, port, timeout_ms);
	}
	const char *fault = resolve_name(resolved, sizeof(resolved), text);
	if (fault && *fault)
		return fail(EXIT_USAGE, "'%s' is not an address: its host cannot be looked up: %s",
			    text, fault);
	if (!fault && weft_addr_parse(addr, resolved, &error) == 0)
		return EXIT_DONE;
	return fail(
		EXIT_USAGE,
		"'%s' is not an address: byte %zu: %s; weft serve prints its own, and HOST:PORT is "
		"one of weft serve --rendezvous",
		text, error.pos, error.reason);
}
