/* SPDX-License-Identifier: MIT */
/*
 * The network of the fake fabric: what is on the way between endpoints, when it arrives, and what
 * becomes of it where nobody is at home.
 */
#include "internal.h"

static TAILQ_HEAD(, fake__packet) world = TAILQ_HEAD_INITIALIZER(world);

/* An operation that ends by itself after a while. */
struct ending {
	TAILQ_ENTRY(ending) link;
	struct fake__work *work; /* NULL: it is gone */
	int err, prov_errno;
	const char *err_data;
};
static TAILQ_HEAD(, ending) endings = TAILQ_HEAD_INITIALIZER(endings);

void fake__packet_free(struct fake__packet *packet)
{
	TAILQ_REMOVE(&world, packet, world);
	free(packet->data);
	free(packet);
}

void fake__network_reset(void)
{
	struct fake__ep *ep;
	/* Those that have arrived are the endpoints' own. */
	LIST_FOREACH (ep, &fake__eps, link) {
		TAILQ_INIT(&ep->inbox);
		TAILQ_INIT(&ep->unexpected);
	}
	while (!TAILQ_EMPTY(&world))
		fake__packet_free(TAILQ_FIRST(&world));
	while (!TAILQ_EMPTY(&endings)) {
		struct ending *ending = TAILQ_FIRST(&endings);
		TAILQ_REMOVE(&endings, ending, link);
		free(ending);
	}
}

void fake__forget_work(struct fake__work *work)
{
	struct fake__packet *packet;
	struct ending *ending;
	TAILQ_FOREACH (packet, &world, world) {
		if (packet->work == work)
			packet->work = NULL;
	}
	TAILQ_FOREACH (ending, &endings, link) {
		if (ending->work == work)
			ending->work = NULL;
	}
}

bool fake__is_there(const struct fake__addr *addr)
{
	struct fake__ep *ep = fake__find_ep(addr);
	return ep && ep->peer != FAKE_PEER_DEAD;
}

bool fake__connect(struct fake__ep *ep, const struct fake__addr *to)
{
	struct fake__connection *connection;
	SLIST_FOREACH (connection, &ep->connections, link) {
		if (fake__addr_equal(&connection->to, to))
			return connection->up;
	}
	connection = fake__zalloc(sizeof(*connection));
	connection->to = *to;
	SLIST_INSERT_HEAD(&ep->connections, connection, link);
	return false;
}

void fake__accept(struct fake__ep *ep)
{
	struct fake__ep *other;
	struct fake__connection *connection;
	LIST_FOREACH (other, &fake__eps, link) {
		SLIST_FOREACH (connection, &other->connections, link) {
			if (fake__addr_equal(&connection->to, &ep->addr))
				connection->up = true;
		}
	}
}

static void end_now(void *arg)
{
	struct ending *ending = arg;
	TAILQ_REMOVE(&endings, ending, link);
	if (ending->work)
		fake__finish(ending->work, ending->work->len, ending->err, ending->prov_errno,
			     ending->err_data);
	free(ending);
}

static void end_later(struct fake__work *work, int err, int prov_errno, const char *err_data)
{
	struct ending *ending = fake__zalloc(sizeof(*ending));
	ending->work = work;
	ending->err = err;
	ending->prov_errno = prov_errno;
	ending->err_data = err_data;
	TAILQ_INSERT_TAIL(&endings, ending, link);
	fake__schedule(fake_now_ns() + work->ep->provider->latency_ns + work->fate.delay_ns,
		       end_now, ending);
}

void fake__break_later(struct fake__work *work, int err, int prov_errno, const char *err_data)
{
	work->fate.outcome = FAKE_BREAK;
	end_later(work, err, prov_errno, err_data);
}

/* What a message comes to that arrives where nobody is any more. */
static void arrive_nowhere(struct fake__packet *packet)
{
	struct fake__work *work = packet->work;
	if (!work)
		return;
	const struct fake_provider *p = work->ep->provider;
	if (p->absent == FAKE_ABSENT_ERROR)
		fake__finish(work, work->len, p->absent_err, p->absent_prov_errno, NULL);
	else if (p->absent != FAKE_ABSENT_NEVER)
		fake__finish(work, work->len, 0, 0, NULL);
}

static void arrive(void *arg)
{
	struct fake__packet *packet = arg;
	struct fake__ep *ep = fake__find_ep(&packet->to);
	if (!ep || ep->peer == FAKE_PEER_DEAD) {
		arrive_nowhere(packet);
		fake__packet_free(packet);
		return;
	}
	if (ep->peer == FAKE_PEER_SILENT) {
		fake__packet_free(packet);
		return;
	}
	TAILQ_INSERT_TAIL(&ep->inbox, packet, link);
	fake__signal(ep->rx);
	/* One-sided ones are done when the far side's provider has done them. */
	if (packet->work && !packet->reads && !packet->writes)
		fake__finish(packet->work, packet->work->len, 0, 0, NULL);
}

static void send_packet(struct fake__work *work, bool tells)
{
	struct fake__packet *packet = fake__zalloc(sizeof(*packet));
	packet->from = work->ep->addr;
	packet->to = work->to_addr;
	packet->tagged = work->tagged;
	packet->reads = work->reads;
	packet->writes = work->writes;
	packet->tag = work->tag;
	packet->has_cq_data = work->has_cq_data;
	packet->cq_data = work->cq_data;
	packet->remote_addr = work->remote_addr;
	packet->remote_key = work->remote_key;
	packet->len = work->len;
	if (!work->reads) {
		packet->data = fake__zalloc(work->len + 1);
		if (work->len > 0)
			memcpy(packet->data, work->data, work->len);
	}
	packet->work = tells ? work : NULL;
	TAILQ_INSERT_TAIL(&world, packet, world);
	fake__schedule(fake_now_ns() + work->ep->provider->latency_ns + work->fate.delay_ns, arrive,
		       packet);
}

void fake__transmit(struct fake__work *work)
{
	const struct fake_provider *p = work->ep->provider;
	struct fake__ep *target = fake__find_ep(&work->to_addr);
	struct fake_fate *fate = &work->fate;
	if (fate->outcome == FAKE_DELIVER && !fake__is_there(&work->to_addr)) {
		if (p->absent == FAKE_ABSENT_ERROR)
			*fate = (struct fake_fate){.outcome = FAKE_BREAK,
						   .err = p->absent_err,
						   .prov_errno = p->absent_prov_errno};
		else
			fate->outcome = p->absent == FAKE_ABSENT_LOST ? FAKE_LOSE : FAKE_VANISH;
	} else if (fate->outcome == FAKE_DELIVER && target->peer == FAKE_PEER_SILENT) {
		fate->outcome = FAKE_VANISH;
	}
	switch (fate->outcome) {
	case FAKE_DELIVER:
		send_packet(work, true);
		break;
	case FAKE_TWICE:
		send_packet(work, true);
		send_packet(work, false);
		break;
	case FAKE_MUTE:
		send_packet(work, false);
		break;
	case FAKE_LOSE:
		end_later(work, 0, 0, NULL);
		break;
	case FAKE_BREAK:
		/* err 0 is an error completion all the same, which says nothing. */
		fake__break_later(work, fate->err, fate->prov_errno, fate->err_data);
		break;
	case FAKE_VANISH:
		break;
	}
}
