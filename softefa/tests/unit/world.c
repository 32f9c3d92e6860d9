/* SPDX-License-Identifier: MIT */
/* Ports over a fake network, see world.h. */
#include "world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct world *the;
static struct datagram *arriving[PORTS][4096];
static int arriving_count[PORTS], arriving_next[PORTS];

void pattern(uint8_t *data, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 7 + i / 256 + seed);
}

bool is_pattern(const uint8_t *data, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++) {
		if (data[i] != (uint8_t)(i * 7 + i / 256 + seed))
			return false;
	}
	return true;
}

static struct host *host_of(struct sefa_net *net)
{
	return (struct host *)net;
}

static struct host *host_at(struct sefa_end end)
{
	for (int i = 0; i < PORTS; i++) {
		if (sefa_end_equal(the->hosts[i].end, end))
			return &the->hosts[i];
	}
	return NULL;
}

static int fake_send(struct sefa_net *net, struct sefa_end to, const struct iovec *iov, int count)
{
	struct host *host = host_of(net);
	if (host->send_error)
		return host->send_error;
	struct datagram *d = calloc(1, sizeof(*d));
	assert_non_null(d);
	d->from = host->end;
	d->to = to;
	for (int i = 0; i < count; i++) {
		assert_true(d->len + iov[i].iov_len <= sizeof(d->data));
		memcpy(d->data + d->len, iov[i].iov_base, iov[i].iov_len);
		d->len += iov[i].iov_len;
	}
	int copies = the->copies ? the->copies(the, d) : 1;
	the->seen++;
	for (int i = 0; i < copies; i++) {
		assert_true(the->under_way < 4096);
		struct datagram *copy = malloc(sizeof(*copy));
		assert_non_null(copy);
		*copy = *d;
		the->way[the->under_way++] = copy;
	}
	free(d);
	return 0;
}

static int fake_receive(struct sefa_net *net, struct sefa_end *from, const uint8_t **data)
{
	static struct datagram last;
	long i = host_of(net) - the->hosts;
	if (arriving_next[i] == arriving_count[i]) {
		arriving_next[i] = arriving_count[i] = 0;
		return -EAGAIN;
	}
	struct datagram *d = arriving[i][arriving_next[i]++];
	last = *d;
	free(d);
	*from = last.from;
	*data = last.data;
	return (int)last.len;
}

static bool fake_refused(struct sefa_net *net, struct sefa_refusal *refusal)
{
	struct host *host = host_of(net);
	if (host->refusal_count == 0)
		return false;
	*refusal = host->refusals[--host->refusal_count];
	return true;
}

static uint64_t fake_turn(struct sefa_net *net, uint64_t now)
{
	(void)net;
	assert_int_equal(now, the->now);
	return UINT64_MAX;
}

static void fake_close(struct sefa_net *net)
{
	(void)net;
}

static int gather(void *user, struct sefa_op *op, uint32_t off, uint32_t len,
		  struct iovec iov[SEFA_PIECES])
{
	struct test_op *t = (struct test_op *)op;
	(void)user;
	if (!t->memory)
		return -SEFA_INVALID_LKEY;
	/* In two pieces, as lists come. */
	uint32_t half = len / 2;
	iov[0] = (struct iovec){t->memory + off, half};
	iov[1] = (struct iovec){t->memory + off + half, len - half};
	return 2;
}

static enum sefa_status scatter(void *user, struct sefa_op *op, uint32_t off, const uint8_t *data,
				uint32_t len)
{
	struct test_op *t = (struct test_op *)op;
	(void)user;
	assert_int_equal(t->ended, 0);
	if (!t->memory)
		return SEFA_INVALID_LKEY;
	memcpy(t->memory + off, data, len);
	return SEFA_OK;
}

static void fault(void *user, struct sefa_op *op)
{
	struct host *host = user;
	(void)op;
	host->faults++;
}

static void done(void *user, struct sefa_op *op, enum sefa_status status)
{
	struct test_op *t = (struct test_op *)op;
	(void)user;
	t->ended++;
	t->status = status;
}

static enum sefa_status deliver(void *user, const struct sefa_arrival *arrival)
{
	struct host *host = user;
	if (host->buffers == 0)
		return SEFA_RNR;
	if (arrival->len > host->room && !arrival->write)
		return SEFA_REMOTE_LENGTH;
	host->buffers--;
	host->messages =
		realloc(host->messages, (size_t)(host->message_count + 1) * sizeof(struct message));
	assert_non_null(host->messages);
	struct message *m = &host->messages[host->message_count++];
	memset(m, 0, sizeof(*m));
	m->from = arrival->from;
	m->write = arrival->write;
	m->has_imm = arrival->has_imm;
	m->imm = arrival->imm;
	m->len = arrival->len;
	if (!arrival->write)
		memcpy(m->data, arrival->data, arrival->len);
	return SEFA_OK;
}

static enum sefa_status reach(struct host *host, uint32_t rkey, uint64_t addr, uint32_t len)
{
	if (!host->knows)
		return SEFA_UNKNOWN_PEER;
	if (rkey != 5 || addr < 0x1000 || addr - 0x1000 + len > host->shared_len)
		return SEFA_BAD_ADDRESS;
	return SEFA_OK;
}

static enum sefa_status remote_read(void *user, struct sefa_end from, uint32_t rkey, uint64_t addr,
				    uint32_t len, const void **data)
{
	struct host *host = user;
	(void)from;
	enum sefa_status status = reach(host, rkey, addr, len);
	if (status == SEFA_OK)
		*data = host->shared + (addr - 0x1000);
	return status;
}

static enum sefa_status remote_write(void *user, struct sefa_end from, uint32_t rkey, uint64_t addr,
				     const uint8_t *data, uint32_t len)
{
	struct host *host = user;
	(void)from;
	enum sefa_status status = reach(host, rkey, addr, len);
	if (status == SEFA_OK)
		memcpy(host->shared + (addr - 0x1000), data, len);
	return status;
}

static const struct sefa_port_ops ops = {
	.gather = gather,
	.scatter = scatter,
	.fault = fault,
	.done = done,
	.deliver = deliver,
	.read = remote_read,
	.write = remote_write,
};

void world_open(struct world *world)
{
	memset(world, 0, sizeof(*world));
	the = world;
	world->now = 1000 * MS;
	for (int i = 0; i < PORTS; i++) {
		struct host *host = &world->hosts[i];
		host->net = (struct sefa_net){fake_send, fake_receive, fake_refused, fake_turn,
					      fake_close};
		host->end = (struct sefa_end){0x7f000001u + (uint32_t)i, (uint16_t)(2000 + i)};
		host->room = SEFA_MTU;
		host->knows = true;
		sefa_port_init(&host->port, &host->net, &ops, host, TIMEOUT_NS);
		host->port.qkey = 100 + (uint32_t)i;
		host->port.ready = true;
	}
}

void world_close(struct world *world)
{
	while (world->under_way > 0)
		free(world->way[--world->under_way]);
	for (int i = 0; i < PORTS; i++) {
		while (arriving_next[i] < arriving_count[i])
			free(arriving[i][arriving_next[i]++]);
		arriving_next[i] = arriving_count[i] = 0;
		sefa_port_clear(&world->hosts[i].port);
		free(world->hosts[i].messages);
		free(world->hosts[i].shared);
	}
}

void world_post(struct world *world, int a, int b, struct test_op *op, uint8_t type, uint32_t len,
		unsigned seed)
{
	memset(op, 0, sizeof(*op));
	op->op.type = type;
	op->op.len = len;
	op->op.rkey = 5;
	op->op.raddr = 0x1000;
	op->memory = calloc(1, len + 1);
	assert_non_null(op->memory);
	if (type != SEFA_READ)
		pattern(op->memory, len, seed);
	if (len == sizeof(seed))
		memcpy(op->memory, &seed, sizeof(seed));
	assert_int_equal(sefa_port_post(&world->hosts[a].port, &op->op, world->hosts[b].end,
					world->hosts[b].port.qkey, world->now),
			 0);
}

void world_free(struct test_op *op)
{
	free(op->memory);
	op->memory = NULL;
}

/* The network's word that nobody has the port. */
static void bounce(struct world *world, const struct datagram *d)
{
	struct host *host = host_at(d->from);
	(void)world;
	if (!host || host->refusal_count == 64)
		return;
	struct sefa_refusal *refusal = &host->refusals[host->refusal_count++];
	refusal->end = d->to;
	refusal->port = true;
	refusal->has_flow = sefa_packet_flow_of(d->data, d->len, &refusal->flow) == 0;
}

static void carry(struct world *world)
{
	int count = world->under_way;
	for (int n = 0; n < count; n++) {
		struct datagram *d = world->way[world->backwards ? count - 1 - n : n];
		struct host *host = host_at(d->to);
		if (!host || host->gone) {
			bounce(world, d);
			free(d);
		} else if (host->deaf) {
			free(d);
		} else {
			long i = host - world->hosts;
			assert_true(arriving_count[i] < 4096);
			arriving[i][arriving_count[i]++] = d;
		}
	}
	world->under_way = 0;
}

void world_settle(struct world *world)
{
	for (int turns = 0; turns < 100000; turns++) {
		carry(world);
		bool busy = false;
		for (int i = 0; i < PORTS; i++) {
			if (sefa_port_progress(&world->hosts[i].port, world->now) <= world->now)
				busy = true;
		}
		if (!busy && world->under_way == 0)
			return;
	}
	fail_msg("the world does not come to rest");
}

void world_run(struct world *world, uint64_t ns)
{
	uint64_t end = world->now + ns;
	world_settle(world);
	while (world->now < end) {
		world->now += MS / 10;
		world_settle(world);
	}
}

void world_run_until(struct world *world, const int *ended, int count)
{
	uint64_t end = world->now + 60000 * MS;
	world_settle(world);
	while (*ended < count) {
		assert_true(world->now < end);
		world->now += MS / 10;
		world_settle(world);
	}
}
