/* SPDX-License-Identifier: MIT */
/*
 * flood.c: a peer that means no good to a node, made of libfabric alone.
 *
 *   flood ADDRESS:PORT KIND COUNT SEED
 *
 * Sends so many messages over tcp to a node's endpoint, as fast as it takes them, and prints
 * "flooded COUNT". Kinds:
 *
 * - connects: CONNECTs, each from another random address of 127.0.0.0/8, where nobody is or
 *   somebody else
 * - bytes: random bytes
 * - bodies: valid headers with random contents
 * - sessions: well-formed frames of every type for sessions that there are not
 * - replays: few different CONNECTs, each of them many times
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define FRAME_MAX 600
#define HEADER 32
#define AT_ONCE 64
#define TYPES 12

struct flood {
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t to;
	struct fi_context2 context[AT_ONCE];
	uint8_t frame[AT_ONCE][FRAME_MAX];
	struct fi_context2 *idle[AT_ONCE];
	int idle_count;
	uint64_t random;
};

static uint64_t next(struct flood *flood)
{
	flood->random ^= flood->random << 13;
	flood->random ^= flood->random >> 7;
	flood->random ^= flood->random << 17;
	return flood->random;
}

static void put(uint8_t *to, uint64_t value, int size)
{
	for (int i = 0; i < size; i++)
		to[i] = (uint8_t)(value >> (8 * i));
}

static void put_header(uint8_t *frame, int type, uint64_t session)
{
	memset(frame, 0, HEADER);
	frame[0] = 'w';
	frame[1] = 'f';
	frame[2] = 1;
	frame[3] = (uint8_t)type;
	put(frame + 6, HEADER, 2);
	put(frame + 8, session, 8);
	put(frame + 24, 1, 4);
}

/* An address of the loopback network, in the form of the wire. */
static void put_address(struct flood *flood, uint8_t *to)
{
	uint64_t random = next(flood);
	memset(to, 0, 16);
	put(to, AF_INET, 2);
	put(to + 2, (random & 0xffff) | 1, 2);
	to[4] = 127;
	put(to + 5, random >> 16, 2);
	to[7] = (uint8_t)(1 + (random >> 32) % 254);
}

static size_t put_connect(struct flood *flood, uint8_t *frame)
{
	static const uint8_t provider[] = {'t', 'c', 'p'};
	uint8_t *hello = frame + HEADER;
	put_header(frame, 1, 0);
	memset(hello, 0, 68);
	hello[0] = hello[1] = 1;
	put(hello + 2, 3, 2);
	put(hello + 12, 16384, 4);
	put(hello + 16, next(flood), 8);
	put(hello + 24, next(flood) | 1, 8);
	put(hello + 32, next(flood), 8);
	put(hello + 40, 1 << 20, 8);
	put(hello + 48, 1000, 4);
	put(hello + 52, 30000, 4);
	put(hello + 56, FI_VERSION(1, 17), 4);
	hello[60] = 2;
	hello[61] = 16;
	put(hello + 64, 2, 4);
	put_address(flood, hello + 68);
	memcpy(hello + 84, provider, sizeof(provider));
	return HEADER + 84 + sizeof(provider);
}

static size_t put_random(struct flood *flood, uint8_t *to, size_t len)
{
	for (size_t i = 0; i < len; i++)
		to[i] = (uint8_t)next(flood);
	return len;
}

/* Something well-formed of each type, for a session whose id was guessed. */
static size_t put_stray(struct flood *flood, uint8_t *frame)
{
	/* How long the contents are, by type. A PING says where its answer is to go. */
	static const size_t lens[TYPES + 1] = {0, 0, 0, 16, 24, 16, 24, 8, 0, 40, 0, 8, 0};
	int type = 2 + (int)(next(flood) % (TYPES - 1));
	put_header(frame, type, next(flood));
	memset(frame + HEADER, 0, FRAME_MAX - HEADER);
	if (type == 2) {
		size_t len = put_connect(flood, frame);
		put_header(frame, type, next(flood));
		return len;
	}
	uint8_t *body = frame + HEADER;
	if (type == 9) {
		put(body, next(flood) | 1, 8);
		body[16] = 2;
		body[17] = 16;
		put_address(flood, body + 24);
	} else if (type == 4) {
		put(body, 8, 4);
		put(body + 4, 1, 4);
	} else {
		put(body, 1 + next(flood) % 1000, 4);
		put(body + 4, 1, 4);
	}
	return HEADER + lens[type];
}

static size_t make(struct flood *flood, uint8_t *frame, const char *kind)
{
	if (strcmp(kind, "connects") == 0)
		return put_connect(flood, frame);
	if (strcmp(kind, "bytes") == 0)
		return put_random(flood, frame, next(flood) % FRAME_MAX);
	if (strcmp(kind, "sessions") == 0)
		return put_stray(flood, frame);
	if (strcmp(kind, "replays") == 0) {
		uint64_t random = flood->random;
		flood->random = 1 + random % 8;
		size_t len = put_connect(flood, frame);
		flood->random = random;
		next(flood);
		return len;
	}
	put_header(frame, 1 + (int)(next(flood) % TYPES), next(flood));
	return HEADER + put_random(flood, frame + HEADER, next(flood) % (FRAME_MAX - HEADER));
}

/* Takes what the provider has done with, so that it goes on. Returns 0 or a code. */
static int progress(struct flood *flood)
{
	struct fi_cq_entry entry[AT_ONCE];
	struct fi_cq_err_entry error = {0};
	ssize_t got = fi_cq_read(flood->cq, entry, AT_ONCE);
	if (got == -FI_EAVAIL)
		return fi_cq_readerr(flood->cq, &error, 0) == 1 ? -error.err : -EIO;
	for (ssize_t i = 0; i < got; i++)
		flood->idle[flood->idle_count++] = entry[i].op_context;
	return got == -FI_EAGAIN || got >= 0 ? 0 : (int)got;
}

static int run(struct flood *flood, const char *kind, long count)
{
	for (int i = 0; i < AT_ONCE; i++)
		flood->idle[flood->idle_count++] = &flood->context[i];
	for (long i = 0; i < count;) {
		int ret = progress(flood);
		if (ret < 0)
			return ret;
		if (flood->idle_count == 0)
			continue;
		struct fi_context2 *context = flood->idle[flood->idle_count - 1];
		uint8_t *frame = flood->frame[context - flood->context];
		size_t len = make(flood, frame, kind);
		ssize_t sent;
		while ((sent = fi_send(flood->ep, frame, len, NULL, flood->to, context)) ==
		       -FI_EAGAIN) {
			struct fi_context2 *before = flood->idle[--flood->idle_count];
			ret = progress(flood);
			flood->idle[flood->idle_count++] = before;
			if (ret < 0)
				return ret;
		}
		if (sent < 0)
			return (int)sent;
		flood->idle_count--;
		i++;
	}
	while (flood->idle_count < AT_ONCE) {
		int ret = progress(flood);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Opens an endpoint, which is left to the end of the process. Returns 0 or a code of libfabric. */
static int open_endpoint(struct flood *flood, const struct sockaddr_in *to)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fi_info *info, *hints = fi_allocinfo();
	if (!hints)
		return -ENOMEM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->fabric_attr->prov_name = strdup("tcp");
	hints->src_addr = malloc(sizeof(own));
	if (!hints->src_addr)
		return -ENOMEM;
	memcpy(hints->src_addr, &own, sizeof(own));
	hints->src_addrlen = sizeof(own);
	uint32_t version = fi_version() < FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)
				   ? fi_version()
				   : FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
	int ret = fi_getinfo(version, NULL, NULL, 0, hints, &info);
	if (ret == 0)
		ret = fi_fabric(info->fabric_attr, &fabric, NULL);
	if (ret == 0)
		ret = fi_domain(fabric, info, &domain, NULL);
	if (ret == 0)
		ret = fi_av_open(domain, &av_attr, &av, NULL);
	if (ret == 0)
		ret = fi_cq_open(domain, &cq_attr, &flood->cq, NULL);
	if (ret == 0)
		ret = fi_endpoint(domain, info, &flood->ep, NULL);
	if (ret == 0)
		ret = fi_ep_bind(flood->ep, &av->fid, 0);
	if (ret == 0)
		ret = fi_ep_bind(flood->ep, &flood->cq->fid, FI_TRANSMIT | FI_RECV);
	if (ret == 0)
		ret = fi_enable(flood->ep);
	if (ret == 0 && fi_av_insert(av, to, 1, &flood->to, 0, NULL) != 1)
		ret = -EADDRNOTAVAIL;
	return ret;
}

int main(int argc, char **argv)
{
	static struct flood flood;
	struct sockaddr_in to = {.sin_family = AF_INET};
	char host[64];
	unsigned port;
	if (argc != 5 || sscanf(argv[1], "%63[0-9.]:%u", host, &port) != 2 ||
	    inet_pton(AF_INET, host, &to.sin_addr) != 1) {
		fprintf(stderr, "usage: flood ADDRESS:PORT KIND COUNT SEED\n");
		return 2;
	}
	to.sin_port = htons((uint16_t)port);
	flood.random = strtoull(argv[4], NULL, 10) | 1;
	int ret = open_endpoint(&flood, &to);
	if (ret == 0)
		ret = run(&flood, argv[2], atol(argv[3]));
	if (ret < 0) {
		fprintf(stderr, "flood: %s\n", fi_strerror(-ret));
		return 1;
	}
	printf("flooded %s\n", argv[3]);
	return 0;
}
