/* SPDX-License-Identifier: MIT */
/*
 * consumer.c: a program of a user of the installed package. Prints the version it was compiled with
 * and the one it runs with, if the calls that need no network do what the header says. Calls the
 * public functions only.
 */
#include <stdio.h>
#include <string.h>
#include <weft/net.h>

static int fail(const char *what)
{
	fprintf(stderr, "consumer: %s\n", what);
	return 1;
}

int main(void)
{
	const struct weft_net_opts opts = WEFT_NET_OPTS_INIT;
	const struct weft_post post = WEFT_POST_INIT;
	struct weft_addr addr, again;
	struct weft_parse_error error;
	char text[WEFT_ADDR_TEXT_MAX];

	if (opts.size != sizeof(opts) || post.timeout_ms != WEFT_DEFAULT_TIMEOUT_MS)
		return fail("the initial options are not as the header says");
	if (weft_addr_parse(&addr, "tcp://127.0.0.1:4242", &error))
		return fail(error.reason);
	if (weft_addr_format(&addr, text, sizeof(text)) != (int)strlen("tcp://127.0.0.1:4242") ||
	    strcmp(text, "tcp://127.0.0.1:4242"))
		return fail("an address is not formatted as it was given");
	if (weft_addr_parse(&again, text, NULL) || !weft_addr_equal(&addr, &again))
		return fail("an address read back is not equal");
	if (!weft_addr_parse(&addr, "tcp://127.0.0.1", &error) || !error.reason[0])
		return fail("an address without a port is accepted");
	if (!weft_strerror(-22)[0])
		return fail("a code has no text");
	if (weft_net_close(NULL))
		return fail("closing NULL is refused");
	printf("%s %s\n", WEFT_VERSION, weft_version());
	return 0;
}
