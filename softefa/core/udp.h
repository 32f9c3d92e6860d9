/* SPDX-License-Identifier: MIT */
/* A UDP socket as a struct sefa_net. */
#ifndef SEFA_UDP_H
#define SEFA_UDP_H

#include "net.h"

/*
 * Binds a socket to an address of this machine and to a port, or to any free one if that is 0. Gives the port. Returns
 * 0 or a negative errno.
 */
int sefa_udp_open(struct sefa_net **net, uint32_t ip, uint16_t *port);

/* The socket, to be watched. It stays the net's. */
int sefa_udp_fd(const struct sefa_net *net);

#endif
