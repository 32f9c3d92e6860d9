/* SPDX-License-Identifier: MIT */
/*
 * The local IP address to bind to, from what the caller says: an address, a port, a peer to be reached, or nothing,
 * which is loopback. Calls nothing of weft.
 */
#ifndef WEFT_LOCAL_H
#define WEFT_LOCAL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/net.h>

/* A local address. family is AF_UNSPEC where only the port is given. */
struct weft__local {
	sa_family_t family;
	uint16_t port; /* host order; 0: any */
	struct in_addr v4;
	struct in6_addr v6;
};

/* Reads "ADDR", "ADDR:PORT", "[V6]", "[V6]:PORT", "V6", ":PORT". Returns 0, or -EINVAL with a reason. */
int weft__local_parse(struct weft__local *local, const char *text, char *reason, size_t reason_size);

/* The source address of the route to an IP peer. Returns 0, or a negative errno: there is no route. */
int weft__local_toward(struct weft__local *local, const struct weft_addr *peer);

/* The address of a sockaddr. Returns 0 or -EAFNOSUPPORT. */
int weft__local_from_sockaddr(struct weft__local *local, const void *sockaddr, size_t len);

/* Whether an interface with address `have` can be bound to `want`. The whole of 127.0.0.0/8 is one interface. */
bool weft__local_fits(const struct weft__local *want, const struct weft__local *have);

bool weft__local_is_loopback(const struct weft__local *local);

/* Writes want's address (where it has one) and port over a sockaddr of the same family. */
void weft__local_apply(const struct weft__local *want, void *sockaddr);

/* The address without the port, as text. Returns text. */
const char *weft__local_format(const struct weft__local *local, char *text, size_t size);

#endif
