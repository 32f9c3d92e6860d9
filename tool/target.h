/* SPDX-License-Identifier: MIT */
/*
 * The ADDRESS of a command: what it can be, and how it becomes the address of an endpoint. Calls weft's address
 * functions, host, loop, stop, output.
 */
#ifndef TOOL_TARGET_H
#define TOOL_TARGET_H

#include <stdbool.h>

#include <weft/net.h>

/*
 * Finds the address that text stands for: an address as weft prints it, the same with the name of a host in it, the 64
 * hex digits of an EFA address, or the HOST:PORT of a rendezvous, which is asked, for at most timeout_ms.
 * *from_rendezvous, written whatever comes out, says whether that was so: what fails may go well another time.
 *
 * Returns EXIT_DONE, or an exit status after saying what is wrong.
 */
int target_find(struct weft_addr *addr, const char *text, int timeout_ms, bool *from_rendezvous);

#endif
