/* SPDX-License-Identifier: MIT */
/*
 * The packets of the software EFA device. One packet is one UDP datagram; the sender's address is the datagram's own.
 * All numbers are big-endian and are put and read byte by byte. Knows bytes only.
 *
 * All packets begin with
 *	0  magic    4
 *	4  version  1
 *	5  type     1
 *	6  flags    1   SEFA_IMM on SEND and WRITE, else 0
 *	7  attempt  1   SEND and WRITE: how often the receiver was not ready for it; NAK: of the request; else 0
 *	8  flow     8   chosen at random by the requester, quoted in all answers
 *	16 psn      4   of the request; 0 in ACK
 *	20 extra    4   requests: the lowest number that the requester has not finished with;
 *	                ACK: how many numbers follow; NAK: the status; DATA: 0
 * and go on with
 *	SEND   qkey 4, imm 4, payload 0 to SEFA_MTU
 *	WRITE  qkey 4, imm 4, rkey 4, total 4, address 8, payload 0 to SEFA_SEGMENT; total: of the whole access, with
 *	       SEFA_IMM, which its last packet bears, else 0
 *	READ   qkey 4, length 4, rkey 4, zero 4, address 8
 *	DATA   payload 0 to SEFA_SEGMENT: the answer to a READ
 *	ACK    numbers, 4 each, 1 to SEFA_ACKS
 *	NAK    nothing
 */
#ifndef SEFA_PACKET_H
#define SEFA_PACKET_H

#include <stddef.h>
#include <stdint.h>

#define SEFA_MTU 8760u     /* the longest message */
#define SEFA_SEGMENT 8192u /* one-sided accesses are cut into pieces of this size */
#define SEFA_ACKS 64u
#define SEFA_HEAD_MAX (24u + 4u * SEFA_ACKS)
#define SEFA_DATAGRAM_MAX (32u + SEFA_MTU)
#define SEFA_WINDOW 128u   /* a number is at most so far above the lowest unfinished one */

enum sefa_type {
	SEFA_SEND = 1,
	SEFA_WRITE = 2,
	SEFA_READ = 3,
	SEFA_DATA = 4,
	SEFA_ACK = 5,
	SEFA_NAK = 6,
};

#define SEFA_IMM 1u

struct sefa_packet {
	uint8_t type;
	uint8_t flags;
	uint8_t attempt;     /* SEND, WRITE, NAK */
	uint16_t status;     /* NAK */
	uint32_t psn;
	uint64_t flow;
	uint32_t una;        /* requests */
	uint32_t qkey;       /* requests */
	uint32_t imm;        /* SEND, WRITE */
	uint32_t rkey;       /* WRITE, READ */
	uint64_t raddr;      /* WRITE, READ */
	uint32_t rlen;       /* READ */
	uint32_t total;      /* WRITE */
	uint32_t acks;       /* ACK: how many */
	const uint8_t *list; /* ACK: the numbers, as on the wire */
	const uint8_t *data; /* SEND, WRITE, DATA */
	size_t len;          /* of data */
};

/*
 * Takes a datagram apart; the pointers in *packet point into it. Returns 0, or -EBADMSG where it is not, to the last
 * byte, a packet as described above. *packet is written in both cases.
 */
int sefa_packet_decode(struct sefa_packet *packet, const uint8_t *datagram, size_t len);

/*
 * Puts the header of a packet, of an ACK also its list, which has to be in wire order. Payload follows it unchanged.
 * Returns the header's length.
 */
size_t sefa_packet_encode(const struct sefa_packet *packet, uint8_t head[SEFA_HEAD_MAX]);

/* A number of an ACK's list. */
uint32_t sefa_packet_ack(const struct sefa_packet *packet, uint32_t i);

/* Puts a number into a list for an ACK. */
void sefa_packet_put_ack(uint8_t *list, uint32_t i, uint32_t psn);

/* The flow that a cut-off piece of a request belongs to, such as an ICMP message quotes. Returns 0, or -EBADMSG. */
int sefa_packet_flow_of(const uint8_t *piece, size_t len, uint64_t *flow);

#endif
