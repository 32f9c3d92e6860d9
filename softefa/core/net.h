/* SPDX-License-Identifier: MIT */
/*
 * What carries datagrams: a UDP socket (udp.c), the same with faults (fault.c), or a fake one in the tests. Each begins
 * with a struct sefa_net. Nothing here blocks.
 */
#ifndef SEFA_NET_H
#define SEFA_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* An end: a host by its IPv4 address, a queue pair by its number, which is the UDP port. In host byte order. */
struct sefa_end {
	uint32_t ip;
	uint16_t qpn;
};

static inline bool sefa_end_equal(struct sefa_end a, struct sefa_end b)
{
	return a.ip == b.ip && a.qpn == b.qpn;
}

/* The network's word that a datagram could not be delivered. */
struct sefa_refusal {
	struct sefa_end end;
	bool port;        /* the host is there, and nobody has that port; otherwise there is no way to the host */
	bool has_flow;
	uint64_t flow;    /* of the datagram that could not be delivered, with has_flow */
};

struct sefa_net {
	/*
	 * Sends one datagram. Returns 0 (also if it may get lost), -EAGAIN (try again later), -EFAULT (the memory is
	 * not there), or another code where there is no way to the host.
	 */
	int (*send)(struct sefa_net *net, struct sefa_end to, const struct iovec *iov, int count);
	/* The next datagram, valid until the next call. Returns its length (0 is one), or -EAGAIN if there is none. */
	int (*receive)(struct sefa_net *net, struct sefa_end *from, const uint8_t **data);
	/* The next refusal. Returns whether there was one. */
	bool (*refused)(struct sefa_net *net, struct sefa_refusal *refusal);
	/* Does what is due, such as sending what was delayed. Returns when there is more to do, or UINT64_MAX. */
	uint64_t (*turn)(struct sefa_net *net, uint64_t now);
	void (*close)(struct sefa_net *net);
};

#endif
