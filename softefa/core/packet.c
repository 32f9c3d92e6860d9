/* SPDX-License-Identifier: MIT */
/* The packets of the software EFA device, see packet.h. Calls nothing but memcpy. */
#include "packet.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "status.h"

#define MAGIC 0x73454641u
#define VERSION 1u
#define COMMON 24u

static void put32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static void put64(uint8_t *p, uint64_t v)
{
	put32(p, (uint32_t)(v >> 32));
	put32(p + 4, (uint32_t)v);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

/* How long the header of a type is, without an ACK's list; 0: no such type. */
static size_t head_size(uint8_t type)
{
	switch (type) {
	case SEFA_SEND:
		return COMMON + 8;
	case SEFA_WRITE:
	case SEFA_READ:
		return COMMON + 24;
	case SEFA_DATA:
	case SEFA_ACK:
	case SEFA_NAK:
		return COMMON;
	default:
		return 0;
	}
}

static size_t payload_max(uint8_t type)
{
	switch (type) {
	case SEFA_SEND:
		return SEFA_MTU;
	case SEFA_WRITE:
	case SEFA_DATA:
		return SEFA_SEGMENT;
	case SEFA_ACK:
		return (size_t)SEFA_ACKS * 4;
	default:
		return 0;
	}
}

static int decode_request(struct sefa_packet *packet, const uint8_t *d)
{
	packet->una = get32(d + 20);
	packet->qkey = get32(d + 24);
	if (packet->psn - packet->una >= SEFA_WINDOW)
		return -EBADMSG;
	if (packet->type == SEFA_SEND) {
		packet->imm = get32(d + 28);
		return 0;
	}
	packet->rkey = get32(d + 32);
	packet->raddr = get64(d + 40);
	packet->total = get32(d + 36);
	if (packet->type == SEFA_WRITE) {
		packet->imm = get32(d + 28);
		if (!(packet->flags & SEFA_IMM))
			return packet->total == 0 ? 0 : -EBADMSG;
		return packet->total >= packet->len ? 0 : -EBADMSG;
	}
	if (packet->total != 0)
		return -EBADMSG;
	packet->rlen = get32(d + 28);
	return packet->rlen <= SEFA_SEGMENT ? 0 : -EBADMSG;
}

static int decode_answer(struct sefa_packet *packet, const uint8_t *d)
{
	uint32_t extra = get32(d + 20);
	switch (packet->type) {
	case SEFA_ACK:
		packet->acks = extra;
		packet->list = packet->data;
		if (extra == 0 || extra > SEFA_ACKS || packet->len != (size_t)extra * 4 ||
		    packet->psn != 0)
			return -EBADMSG;
		packet->data = NULL;
		packet->len = 0;
		return 0;
	case SEFA_NAK:
		packet->status = (uint16_t)extra;
		return extra > SEFA_OK && extra < SEFA_STATUS_MAX ? 0 : -EBADMSG;
	default:
		return extra == 0 ? 0 : -EBADMSG;
	}
}

int sefa_packet_decode(struct sefa_packet *packet, const uint8_t *d, size_t len)
{
	memset(packet, 0, sizeof(*packet));
	if (len < COMMON || get32(d) != MAGIC || d[4] != VERSION)
		return -EBADMSG;
	packet->type = d[5];
	packet->flags = d[6];
	packet->attempt = d[7];
	packet->flow = get64(d + 8);
	packet->psn = get32(d + 16);
	size_t head = head_size(packet->type);
	if (head == 0 || len < head || len - head > payload_max(packet->type))
		return -EBADMSG;
	if (packet->flags & ~SEFA_IMM)
		return -EBADMSG;
	bool carries = packet->type == SEFA_SEND || packet->type == SEFA_WRITE;
	if (packet->flags && !carries)
		return -EBADMSG;
	if (packet->attempt && !carries && packet->type != SEFA_NAK)
		return -EBADMSG;
	packet->data = d + head;
	packet->len = len - head;
	if (packet->type <= SEFA_READ)
		return decode_request(packet, d);
	return decode_answer(packet, d);
}

size_t sefa_packet_encode(const struct sefa_packet *packet, uint8_t head[SEFA_HEAD_MAX])
{
	size_t len = head_size(packet->type);
	memset(head, 0, len);
	put32(head, MAGIC);
	head[4] = VERSION;
	head[5] = packet->type;
	head[6] = packet->flags;
	head[7] = packet->attempt;
	put64(head + 8, packet->flow);
	put32(head + 16, packet->psn);
	switch (packet->type) {
	case SEFA_ACK:
		put32(head + 20, packet->acks);
		memcpy(head + COMMON, packet->list, (size_t)packet->acks * 4);
		return COMMON + (size_t)packet->acks * 4;
	case SEFA_NAK:
		put32(head + 20, packet->status);
		return len;
	case SEFA_DATA:
		return len;
	default:
		break;
	}
	put32(head + 20, packet->una);
	put32(head + 24, packet->qkey);
	put32(head + 28, packet->type == SEFA_READ ? packet->rlen : packet->imm);
	if (packet->type != SEFA_SEND) {
		put32(head + 32, packet->rkey);
		put32(head + 36, packet->total);
		put64(head + 40, packet->raddr);
	}
	return len;
}

uint32_t sefa_packet_ack(const struct sefa_packet *packet, uint32_t i)
{
	return get32(packet->list + (size_t)i * 4);
}

void sefa_packet_put_ack(uint8_t *list, uint32_t i, uint32_t psn)
{
	put32(list + (size_t)i * 4, psn);
}

int sefa_packet_flow_of(const uint8_t *piece, size_t len, uint64_t *flow)
{
	if (len < 16 || get32(piece) != MAGIC || piece[4] != VERSION)
		return -EBADMSG;
	if (piece[5] < SEFA_SEND || piece[5] > SEFA_READ)
		return -EBADMSG;
	*flow = get64(piece + 8);
	return 0;
}
