/* SPDX-License-Identifier: MIT */
/*
 * reverse.h: what the server and the client of the reverse program have in common. For reverse*.c only, which use
 * nothing of weft but its layer 1 (weft/net.h).
 */
#ifndef REVERSE_H
#define REVERSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/net.h>

enum exit_status {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_TIMEOUT = 3,
	EXIT_INTERRUPTED = 130,
};

struct options {
	const char *program, *provider, *bind, *address, *text;
	int timeout_ms, idle_ms;
	bool verbose;
};

/*
 * The number that tells clients apart. The bytes of a DATA do not say which client it is from, and a provider may not
 * know it either while the CONNECT before it has not been dealt with. So a client of ours chooses a random number and
 * sends it beside CONNECT and DATA, as remote CQ data, and the server returns it with the reply.
 */
struct cookie {
	bool given;
	uint32_t value;
};

/* Each runs one side until it is done, and returns the exit status. */
int run_server(struct options *options);
int run_client(struct options *options);

/*
 * Opens a net that reaches `toward`, or, where that is NULL, one for others to reach, and says what it is. Takes the
 * signals, which end the program cleanly from then on. Returns EXIT_DONE, or the exit status of the failure.
 */
int open_net(struct weft_net **net, struct options *options, const struct weft_addr *toward);
void close_net(struct weft_net *net);

/* Whether the program has been told to end, and, once for each time, to print statistics. */
bool stop_wanted(void);
bool statistics_wanted(void);

/* Sends the first len bytes of buf, with the cookie if there is one. As weft_net_send(). */
int send_message(struct weft_net *net, weft_dest dest, struct weft_buf *buf, size_t len, struct cookie cookie,
		 int timeout_ms, weft_done_fn *done, void *user);
/* The cookie that came with a message. */
struct cookie received_cookie(const struct weft_done *done);

/* One line on stderr. */
__attribute__((format(printf, 1, 2))) void say_error(const char *format, ...);
/* The same, with all that is known of why an operation failed: the error, what the provider says, what to do. */
void say_failure(const char *what, const struct weft_done *done);
/* One line on stdout about text that may be a peer's: what, its length, and the text in a form that harms nobody. */
void say_text(const char *what, const uint8_t *text, size_t len);
/* The address of a peer as text, in storage that the next call uses again. */
const char *peer_name(const struct weft_net *net, weft_dest dest);

/* Milliseconds of a clock that only goes forward. */
int64_t now_ms(void);

#endif
