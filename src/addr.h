/* SPDX-License-Identifier: MIT */
/*
 * What the rest of the library needs of addresses beyond weft/net.h, and what addr.c lends to addrtext.c.
 * Calls nothing of weft.
 */
#ifndef WEFT_ADDR_H
#define WEFT_ADDR_H

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>

#include <weft/net.h>

/* What a scheme is called in texts and reasons, in the order of enum weft_scheme. */
#define WEFT__SCHEMES "efa, tcp, udp, verbs, shm, raw"

/*
 * Checks an address that a caller has passed in, which may be damaged or made by hand, by the rules of
 * weft_addr_from_raw(), and writes its canonical form to *out: equal endpoints have equal bytes there, and raw is zero
 * from len on. out may be the same object as addr. error may be NULL; its position is an offset in addr->raw.
 *
 * To be called before an address is hashed, or handed to libfabric: one bad address can spoil an address vector.
 *
 * Returns 0, or -EINVAL with *error filled and *out untouched. Any thread.
 */
int weft__addr_check(struct weft_addr *out, const struct weft_addr *addr, struct weft_parse_error *error);

/* "tcp" for WEFT_SCHEME_TCP, and so on. NULL for WEFT_SCHEME_NONE and for what is no scheme. Any thread. */
const char *weft__scheme_name(enum weft_scheme scheme);

/* What is wrong with an IP address as that of one endpoint, as a constant text; NULL where nothing is. Any thread. */
const char *weft__v4_fault(const struct in_addr *ip);
const char *weft__v6_fault(const struct in6_addr *ip);

/* Fills *error, which may be NULL. */
__attribute__((format(printf, 3, 4))) void weft__addr_explain(struct weft_parse_error *error, size_t pos,
							      const char *format, ...);

/* The same as an expression of the value -EINVAL. A macro, so that compilers see that this is no success. */
#define weft__addr_refuse(...) (weft__addr_explain(__VA_ARGS__), -EINVAL)

#define WEFT__BYTE_NAME_MAX 12

/* Names a byte of a text so that the name can be printed: a terminal must not receive a peer's control bytes. */
const char *weft__byte_name(char byte, char room[WEFT__BYTE_NAME_MAX]);

#endif
