/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "software.h"

bool software_ip(const struct weft_addr *addr, char *ip)
{
	/* An EFA address begins with the GID, which softefa makes of its IP address. */
	static const unsigned char prefix[12] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x5e, 0xfa};
	return addr->scheme == WEFT_SCHEME_EFA && memcmp(addr->raw, prefix, sizeof(prefix)) == 0 &&
	       inet_ntop(AF_INET, (const unsigned char *)addr->raw + sizeof(prefix), ip,
			 INET_ADDRSTRLEN);
}

const char *software_launcher(void)
{
	const char *launcher = getenv("SOFTEFA_LAUNCHER");
	return launcher && *launcher ? launcher : "softefa";
}
