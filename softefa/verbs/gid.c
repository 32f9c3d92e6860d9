/* SPDX-License-Identifier: MIT */
/*
 * GIDs of software devices: fe80::5efa:0:a.b.c.d, made from the IPv4 address that the device binds
 * to. A GID of any other form is of another fabric.
 */
#include <string.h>

#include "soft.h"

static const uint8_t prefix[12] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x5e, 0xfa, 0, 0};

void soft_gid_make(union ibv_gid *gid, uint32_t ip)
{
	memcpy(gid->raw, prefix, sizeof(prefix));
	for (int i = 0; i < 4; i++)
		gid->raw[12 + i] = (uint8_t)(ip >> (24 - 8 * i));
}

bool soft_gid_ip(const union ibv_gid *gid, uint32_t *ip)
{
	if (memcmp(gid->raw, prefix, sizeof(prefix)) != 0)
		return false;
	*ip = 0;
	for (int i = 0; i < 4; i++)
		*ip = *ip << 8 | gid->raw[12 + i];
	return *ip != 0;
}
