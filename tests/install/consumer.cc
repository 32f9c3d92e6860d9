// SPDX-License-Identifier: MIT
// consumer.cc: a C++ program of a user of the installed package; see consumer.c. All initial values are used here,
// since they are macros that C++ reads by its own rules.
#include <cstdio>
#include <string>
#include <weft/net.h>

static int fail(const char *what)
{
	std::fprintf(stderr, "consumer: %s\n", what);
	return 1;
}

int main()
{
	const weft_net_opts opts = WEFT_NET_OPTS_INIT;
	const weft_net_info info = WEFT_NET_INFO_INIT;
	const weft_net_stats stats = WEFT_NET_STATS_INIT;
	const weft_fabric fabric = WEFT_FABRIC_INIT;
	const weft_post post = WEFT_POST_INIT;

	if (opts.size != sizeof(opts) || info.size != sizeof(info) || stats.size != sizeof(stats) ||
	    fabric.size != sizeof(fabric) || post.size != sizeof(post))
		return fail("an initial value does not carry its size");

	weft_addr addr;
	weft_parse_error error;
	char text[WEFT_ADDR_TEXT_MAX];

	if (weft_addr_parse(&addr, "shm://loom", &error) != 0)
		return fail(error.reason);
	if (weft_addr_format(&addr, text, sizeof(text)) < 0 || std::string(text) != "shm://loom")
		return fail("an address is not formatted as it was given");
	if (std::string(weft_strerror(-22)).empty())
		return fail("a code has no text");
	if (weft_net_close(nullptr) != 0)
		return fail("closing NULL is refused");
	std::printf("%s %s\n", WEFT_VERSION, weft_version());
	return 0;
}
