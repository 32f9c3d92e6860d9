/* SPDX-License-Identifier: MIT */
/* What the environment asks of the device, see config.h. */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "SOFTEFA"

static int read_number(const char *value, uint64_t most, uint64_t *number)
{
	if (value[0] < '0' || value[0] > '9')
		return -EINVAL;
	char *end;
	errno = 0;
	unsigned long long got = strtoull(value, &end, 10);
	if (errno != 0 || *end != 0 || got > most)
		return -EINVAL;
	*number = got;
	return 0;
}

static int read_ip(const char *value, uint32_t *ip)
{
	struct in_addr in;
	if (inet_pton(AF_INET, value, &in) != 1 || in.s_addr == htonl(INADDR_ANY) ||
	    in.s_addr == htonl(INADDR_BROADCAST))
		return -EINVAL;
	*ip = ntohl(in.s_addr);
	return 0;
}

/* The numbers: name after the prefix, largest value. */
enum number {
	ON,
	STRICT,
	QPN,
	TIMEOUT,
	RDMA,
	LOSS,
	DUP,
	REORDER,
	DELAY,
	RNR,
	DIE_AFTER,
	SEED,
	NUMBERS
};
static const struct {
	const char *name;
	uint64_t most, preset;
} numbers[NUMBERS] = {
	[ON] = {"", 1, 0},
	[STRICT] = {"_STRICT", 1, 0},
	[QPN] = {"_QPN", UINT16_MAX, 0},
	[TIMEOUT] = {"_TIMEOUT_MS", 3600000, 2000},
	[RDMA] = {"_RDMA", 1, 1},
	[LOSS] = {"_LOSS", 100, 0},
	[DUP] = {"_DUP", 100, 0},
	[REORDER] = {"_REORDER", 100, 0},
	[DELAY] = {"_DELAY", 1000000, 0},
	[RNR] = {"_RNR", 100, 0},
	[DIE_AFTER] = {"_DIE_AFTER", UINT64_MAX, 0},
	[SEED] = {"_SEED", UINT64_MAX, 1},
};

static int read_one(struct sefa_config *config, uint64_t values[NUMBERS], const char *name,
		    size_t len, const char *value)
{
	static const char bind[] = "_BIND", link_down[] = "_LINK_DOWN", stats[] = "_STATS";
	static const char launcher[] = "_LAUNCHER";
	for (size_t i = 0; i < NUMBERS; i++) {
		if (strlen(numbers[i].name) == len && strncmp(name, numbers[i].name, len) == 0)
			return read_number(value, numbers[i].most, &values[i]);
	}
	if (len == sizeof(bind) - 1 && strncmp(name, bind, len) == 0)
		return read_ip(value, &config->ip);
	/* It is not for us, but for the program. */
	if (len == sizeof(launcher) - 1 && strncmp(name, launcher, len) == 0)
		return 0;
	/* A path that is given must be one. */
	if (value[0] == 0)
		return -EINVAL;
	if (len == sizeof(link_down) - 1 && strncmp(name, link_down, len) == 0) {
		config->faults.link_down = value;
		return 0;
	}
	if (len == sizeof(stats) - 1 && strncmp(name, stats, len) == 0) {
		config->stats = value;
		return 0;
	}
	return -ENOENT;
}

int sefa_config_read(struct sefa_config *config, char *const *environment, char *reason,
		     size_t size)
{
	uint64_t values[NUMBERS];
	memset(config, 0, sizeof(*config));
	config->ip = INADDR_LOOPBACK;
	for (size_t i = 0; i < NUMBERS; i++)
		values[i] = numbers[i].preset;
	for (; environment && *environment; environment++) {
		const char *name = *environment;
		const char *equals = strchr(name, '=');
		if (!equals || strncmp(name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		name += strlen(PREFIX);
		if (name[0] != '_' && name != equals)
			continue;
		int ret = read_one(config, values, name, (size_t)(equals - name), equals + 1);
		if (ret < 0) {
			snprintf(reason, size, "%.*s: %s", (int)(equals - *environment),
				 *environment,
				 ret == -ENOENT ? "there is no such variable"
						: "a value that does not do");
			return -EINVAL;
		}
	}
	config->on = values[ON];
	config->strict = values[STRICT];
	config->qpn = (uint16_t)values[QPN];
	config->timeout_ns = values[TIMEOUT] * 1000000;
	config->rdma = values[RDMA];
	config->faults.loss = (unsigned)values[LOSS];
	config->faults.dup = (unsigned)values[DUP];
	config->faults.reorder = (unsigned)values[REORDER];
	config->faults.delay_us = (unsigned)values[DELAY];
	config->faults.rnr = (unsigned)values[RNR];
	config->faults.die_after = values[DIE_AFTER];
	config->faults.seed = values[SEED];
	return 0;
}
