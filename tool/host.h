/* SPDX-License-Identifier: MIT */
/*
 * Names of hosts, and which of them is this one. Calls software, and weft's address functions.
 */
#ifndef TOOL_HOST_H
#define TOOL_HOST_H

#include <stdbool.h>

#include <netdb.h>

#include <weft/net.h>

/* Room for "[ADDRESS]:PORT". */
#define HOST_TEXT_MAX (NI_MAXHOST + NI_MAXSERV + 4)

/*
 * Looks a name up and writes "ADDRESS:PORT", or without a port where that is NULL, to text, which has room for
 * HOST_TEXT_MAX. Returns NULL, or what is wrong.
 */
const char *host_resolve(char *text, const char *name, const char *port);

/*
 * Takes "HOST:PORT", "[V6]:PORT", ":PORT" or "PORT" apart; without a HOST it is "". host has room for NI_MAXHOST
 * and port for NI_MAXSERV. Returns whether text is of one of these forms, with a port from 0 to 65535.
 */
bool host_split(const char *text, char *host, char *port);

/*
 * Takes the IP address and the port out of an address such as tcp://1.2.3.4:5. Room as for host_split(). Returns false
 * where it has none.
 */
bool host_of(const struct weft_addr *addr, char *host, char *port);

/* Whether an IP address, as text, is one that each host has for itself; all that a host has; or one of this host's. */
bool host_is_loopback(const char *ip);
bool host_is_any(const char *ip);
bool host_is_own(const char *ip);

/*
 * What weft serve has to be given to be reached from other hosts, where its address is one that only its own host
 * reaches. NULL: others may reach it.
 */
const char *host_only_cure(const struct weft_addr *addr);

/* Whether two addresses, of which the first is our own, are of one host, as far as can be told from them. */
bool host_is_same(const struct weft_addr *own, const struct weft_addr *peer);

#endif
