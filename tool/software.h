/* SPDX-License-Identifier: MIT */
/*
 * EFA made of software (softefa): how it is told from hardware, and how a program is started on it. Calls nothing.
 */
#ifndef TOOL_SOFTWARE_H
#define TOOL_SOFTWARE_H

#include <stdbool.h>

#include <netinet/in.h>

#include <weft/net.h>

/*
 * Whether an address is that of a software device. Its IPv4 address, which the environment variable SOFTEFA_BIND has
 * set, goes to ip, which has room for INET_ADDRSTRLEN.
 */
bool software_ip(const struct weft_addr *addr, char *ip);

/* The command that starts a program on a software device: as this one was started, or by its name. */
const char *software_launcher(void);

#endif
