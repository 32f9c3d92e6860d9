/* SPDX-License-Identifier: MIT */
/* The wire format: what is put is read back, and nothing else is taken. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/packet.h"
#include "core/status.h"

struct datagram {
	uint8_t bytes[SEFA_DATAGRAM_MAX + 8];
	size_t len;
};

static struct datagram put(const struct sefa_packet *packet)
{
	struct datagram d = {.len = 0};
	d.len = sefa_packet_encode(packet, d.bytes);
	if (packet->len > 0)
		memcpy(d.bytes + d.len, packet->data, packet->len);
	d.len += packet->len;
	return d;
}

static const uint8_t payload[SEFA_MTU + 1] = {1, 2, 3, 4};

static struct sefa_packet sample(int type)
{
	static uint8_t list[SEFA_ACKS * 4];
	struct sefa_packet packet = {
		.type = (uint8_t)type, .flow = 0x1122334455667788, .psn = 0x90abcdef};
	switch (type) {
	case SEFA_SEND:
	case SEFA_WRITE:
		packet.flags = SEFA_IMM;
		packet.imm = 0x01020304;
		packet.attempt = 7;
		packet.data = payload;
		packet.len = 100;
		break;
	case SEFA_READ:
		packet.rlen = SEFA_SEGMENT;
		break;
	case SEFA_DATA:
		packet.data = payload;
		packet.len = SEFA_SEGMENT;
		break;
	case SEFA_ACK:
		packet.psn = 0;
		packet.acks = 3;
		packet.list = list;
		for (uint32_t i = 0; i < 3; i++)
			sefa_packet_put_ack(list, i, 1000 + i);
		break;
	default:
		packet.status = SEFA_RNR;
		packet.attempt = 200;
		break;
	}
	if (type <= SEFA_READ) {
		packet.una = packet.psn - (SEFA_WINDOW - 1);
		packet.qkey = 0xfedcba98;
	}
	if (type == SEFA_WRITE)
		packet.total = 100;
	if (type == SEFA_WRITE || type == SEFA_READ) {
		packet.rkey = 0x10203040;
		packet.raddr = 0x8070605040302010;
	}
	return packet;
}

static void what_is_put_is_read_back(void **state)
{
	(void)state;
	for (int type = SEFA_SEND; type <= SEFA_NAK; type++) {
		struct sefa_packet in = sample(type), out;
		struct datagram d = put(&in);
		assert_int_equal(sefa_packet_decode(&out, d.bytes, d.len), 0);
		assert_int_equal(out.type, type);
		assert_int_equal(out.flags, in.flags);
		assert_int_equal(out.attempt, in.attempt);
		assert_int_equal(out.psn, in.psn);
		assert_int_equal(out.flow, in.flow);
		assert_int_equal(out.una, in.una);
		assert_int_equal(out.qkey, in.qkey);
		assert_int_equal(out.imm, in.imm);
		assert_int_equal(out.rkey, in.rkey);
		assert_int_equal(out.raddr, in.raddr);
		assert_int_equal(out.rlen, in.rlen);
		assert_int_equal(out.total, in.total);
		assert_int_equal(out.status, in.status);
		assert_int_equal(out.acks, in.acks);
		assert_int_equal(out.len, in.len);
		if (in.len > 0)
			assert_memory_equal(out.data, in.data, in.len);
		for (uint32_t i = 0; i < in.acks; i++)
			assert_int_equal(sefa_packet_ack(&out, i), 1000 + i);
	}
}

/* The format is known by its bytes too: a change of it has to change its version. */
static void bytes_are_where_they_are_said_to_be(void **state)
{
	static const uint8_t expected[] = {'s',	 'E',  'F',  'A',  1,	 1,    1,    7,	   0x11,
					   0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x90, 0xab,
					   0xcd, 0xef, 0x90, 0xab, 0xcd, 0x70, 0xfe, 0xdc, 0xba,
					   0x98, 1,    2,    3,	   4,	 1,    2,    3,	   4};
	struct sefa_packet in = sample(SEFA_SEND);
	(void)state;
	in.len = 4;
	struct datagram d = put(&in);
	assert_int_equal(d.len, sizeof(expected));
	assert_memory_equal(d.bytes, expected, sizeof(expected));
}

static void refused(const struct datagram *d)
{
	struct sefa_packet packet;
	/* Exactly so many bytes, so that a sanitizer sees a read behind them. */
	uint8_t *bytes = malloc(d->len > 0 ? d->len : 1);
	assert_non_null(bytes);
	memcpy(bytes, d->bytes, d->len);
	assert_int_equal(sefa_packet_decode(&packet, bytes, d->len), -EBADMSG);
	free(bytes);
}

static void every_header_byte_that_has_a_rule_is_checked(void **state)
{
	(void)state;
	for (int type = SEFA_SEND; type <= SEFA_NAK; type++) {
		struct sefa_packet in = sample(type);
		for (size_t i = 0; i < 5; i++) {
			struct datagram d = put(&in);
			d.bytes[i] ^= 0x40;
			refused(&d);
		}
		struct datagram d = put(&in);
		d.bytes[5] = SEFA_NAK + 1;
		refused(&d);
		d.bytes[5] = 0;
		refused(&d);
		d = put(&in);
		d.bytes[6] = 2;
		refused(&d);
		if (type == SEFA_READ || type >= SEFA_DATA) {
			d = put(&in);
			d.bytes[6] = SEFA_IMM;
			refused(&d);
		}
		if (type == SEFA_READ || type == SEFA_DATA || type == SEFA_ACK) {
			d = put(&in);
			d.bytes[7] = 1;
			refused(&d);
		}
	}
}

static void numbers_are_checked(void **state)
{
	(void)state;
	/* The lowest unfinished number is out of the window, or above the packet's own. */
	for (int type = SEFA_SEND; type <= SEFA_READ; type++) {
		struct sefa_packet in = sample(type);
		in.una = in.psn - SEFA_WINDOW;
		struct datagram d = put(&in);
		refused(&d);
		in.una = in.psn + 1;
		d = put(&in);
		refused(&d);
	}
	struct sefa_packet in = sample(SEFA_READ);
	in.rlen = SEFA_SEGMENT + 1;
	struct datagram d = put(&in);
	refused(&d);
	in = sample(SEFA_READ);
	in.total = 1;
	d = put(&in);
	refused(&d);
	/* The total is with the immediate data, and not less than what is here. */
	in = sample(SEFA_WRITE);
	in.flags = 0;
	d = put(&in);
	refused(&d);
	in.flags = SEFA_IMM;
	in.total = 99;
	d = put(&in);
	refused(&d);
	in = sample(SEFA_DATA);
	d = put(&in);
	d.bytes[23] = 1;
	refused(&d);
	static const uint16_t bad_status[] = {SEFA_OK, SEFA_STATUS_MAX};
	for (int i = 0; i < 2; i++) {
		in = sample(SEFA_NAK);
		in.status = bad_status[i];
		d = put(&in);
		refused(&d);
	}
	d.bytes[20] = 1;
	refused(&d);
	in = sample(SEFA_ACK);
	in.psn = 1;
	d = put(&in);
	refused(&d);
}

static void lengths_are_checked(void **state)
{
	struct sefa_packet packet;
	(void)state;
	for (int type = SEFA_SEND; type <= SEFA_NAK; type++) {
		struct sefa_packet in = sample(type);
		in.len = 0;
		struct datagram d = put(&in);
		assert_int_equal(sefa_packet_decode(&packet, d.bytes, d.len), 0);
		for (size_t whole = d.len; d.len > 0;) {
			d.len--;
			refused(&d);
			if (whole - d.len > SEFA_HEAD_MAX)
				break;
		}
	}
	static const struct {
		uint8_t type;
		size_t most;
	} limits[] = {{SEFA_SEND, SEFA_MTU}, {SEFA_WRITE, SEFA_SEGMENT}, {SEFA_DATA, SEFA_SEGMENT}};
	for (size_t i = 0; i < 3; i++) {
		struct sefa_packet in = sample(limits[i].type);
		in.data = payload;
		in.total = in.type == SEFA_WRITE ? UINT32_MAX : 0;
		in.len = limits[i].most;
		struct datagram d = put(&in);
		assert_int_equal(sefa_packet_decode(&packet, d.bytes, d.len), 0);
		in.len++;
		d = put(&in);
		refused(&d);
	}
	static const uint8_t bare[] = {SEFA_READ, SEFA_NAK};
	for (size_t i = 0; i < 2; i++) {
		struct sefa_packet in = sample(bare[i]);
		struct datagram d = put(&in);
		d.len++;
		refused(&d);
	}
	/* A list that is shorter or longer than it says. */
	struct sefa_packet in = sample(SEFA_ACK);
	struct datagram d = put(&in);
	d.len += 4;
	refused(&d);
	d.len -= 8;
	refused(&d);
	in.acks = 0;
	d = put(&in);
	refused(&d);
}

static void flow_of_a_piece(void **state)
{
	uint64_t flow = 0;
	(void)state;
	for (int type = SEFA_SEND; type <= SEFA_NAK; type++) {
		struct sefa_packet in = sample(type);
		struct datagram d = put(&in);
		int expected = type <= SEFA_READ ? 0 : -EBADMSG;
		assert_int_equal(sefa_packet_flow_of(d.bytes, 16, &flow), expected);
		assert_int_equal(sefa_packet_flow_of(d.bytes, 15, &flow), -EBADMSG);
		d.bytes[0]++;
		assert_int_equal(sefa_packet_flow_of(d.bytes, 16, &flow), -EBADMSG);
	}
	assert_int_equal(flow, 0x1122334455667788);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_is_read_back),
		cmocka_unit_test(bytes_are_where_they_are_said_to_be),
		cmocka_unit_test(every_header_byte_that_has_a_rule_is_checked),
		cmocka_unit_test(numbers_are_checked),
		cmocka_unit_test(lengths_are_checked),
		cmocka_unit_test(flow_of_a_piece),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
