/* SPDX-License-Identifier: MIT */
/*
 * Gives any bytes to the packet decoder. What it takes must be put back into the same bytes by the
 * encoder, and every byte of it must be readable.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/packet.h"
#include "core/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int truth)
{
	if (!truth)
		abort();
}

static uint64_t sum(const uint8_t *bytes, size_t len)
{
	uint64_t total = 0;
	for (size_t i = 0; i < len; i++)
		total += bytes[i];
	return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sefa_packet packet;
	uint8_t head[SEFA_HEAD_MAX];
	uint8_t list[SEFA_ACKS * 4];
	uint64_t flow = 0;
	int taken = sefa_packet_decode(&packet, data, size);
	int has_flow = sefa_packet_flow_of(data, size, &flow);
	if (taken < 0)
		return 0;
	check(size <= SEFA_DATAGRAM_MAX);
	check(packet.type >= SEFA_SEND && packet.type <= SEFA_NAK);
	size_t len = sefa_packet_encode(&packet, head);
	check(len + packet.len == size);
	check(memcmp(head, data, len) == 0);
	if (packet.len > 0)
		check(packet.data == data + len);
	check(sum(packet.data, packet.len) <= 255 * packet.len);
	check(packet.acks <= SEFA_ACKS);
	for (uint32_t i = 0; i < packet.acks; i++)
		sefa_packet_put_ack(list, i, sefa_packet_ack(&packet, i));
	if (packet.acks > 0)
		check(memcmp(list, packet.list, (size_t)packet.acks * 4) == 0);
	if (packet.type <= SEFA_READ) {
		check(packet.psn - packet.una < SEFA_WINDOW);
		check(has_flow == 0 && flow == packet.flow);
	}
	if (packet.type == SEFA_NAK)
		check(packet.status > SEFA_OK && packet.status < SEFA_STATUS_MAX);
	if (packet.type == SEFA_READ)
		check(packet.rlen <= SEFA_SEGMENT);
	return 0;
}
