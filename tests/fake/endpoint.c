/* SPDX-License-Identifier: MIT */
/* The endpoint of the fake fabric: its address, what it is bound to, and what its end takes along.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "internal.h"

struct fake__ep_list fake__eps = LIST_HEAD_INITIALIZER(fake__eps);
static struct fake__addr next_addr;
static uint32_t addr_number;

void fake_next_addr(const void *raw, size_t len)
{
	next_addr.len = len;
	memcpy(next_addr.raw, raw, len);
}

/* Gives an endpoint an address: the one that the caller or the test wants, or a new one. */
static int name_endpoint(struct fake__ep *ep)
{
	const struct fake_provider *p = ep->provider;
	struct fake__addr *addr = &ep->addr;
	struct sockaddr_in6 in = {.sin6_family = 0};
	uint32_t number = ++addr_number;
	memset(addr->raw, 0, sizeof(addr->raw));
	memcpy(addr->raw, ep->bind_addr, ep->bind_len);
	addr->len = ep->bind_len;
	if (next_addr.len) {
		*addr = next_addr;
		next_addr.len = 0;
	} else if (p->addr_format == FI_SOCKADDR_IN || p->addr_format == FI_SOCKADDR_IN6) {
		memcpy(&in, addr->raw, addr->len);
		if (in.sin6_port == 0)
			in.sin6_port = htons((uint16_t)(40000 + number));
		memcpy(addr->raw, &in, addr->len);
	} else if (p->addr_format == FI_ADDR_EFA) {
		memcpy(addr->raw + 16, &number, 2);
		memcpy(addr->raw + 20, "\xf6\xd3\xb3\x65", 4);
	} else if (p->addr_format != FI_ADDR_STR) {
		addr->len = p->addr_len;
		memset(addr->raw, 0xa5, addr->len);
		memcpy(addr->raw, &number, sizeof(number));
	}
	return fake__find_ep(addr) ? FI_EADDRINUSE : 0;
}

struct fake__ep *fake__find_ep(const struct fake__addr *addr)
{
	struct fake__ep *ep;
	LIST_FOREACH (ep, &fake__eps, link) {
		if (ep->enabled && fake__addr_equal(&ep->addr, addr))
			return ep;
	}
	return NULL;
}

void fake_set_peer(const struct weft_addr *addr, enum fake_peer state)
{
	struct fake__addr raw = {.len = addr->len};
	memcpy(raw.raw, addr->raw, addr->len);
	struct fake__ep *ep = fake__find_ep(&raw);
	if (ep)
		ep->peer = state;
	else
		fake__violation("the test names an endpoint that is not there");
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct fake__ep *ep = (struct fake__ep *)fid;
	if (!fake__usable(&ep->object, "fi_ep_bind"))
		return -FI_EINVAL;
	int code = fake__gate("fi_ep_bind", FAKE__OPEN, NULL);
	if (code)
		return -code;
	if (ep->enabled)
		fake__violation("fi_ep_bind after fi_enable");
	if (other->fclass == FI_CLASS_CQ) {
		struct fake__cq *cq = (struct fake__cq *)other;
		if (!fake__usable(&cq->object, "fi_ep_bind"))
			return -FI_EINVAL;
		if (flags != FI_TRANSMIT && flags != FI_RECV)
			fake__violation("one bind for both directions, or with other flags, "
					"silences receives "
					"on some providers");
		*(flags == FI_TRANSMIT ? &ep->tx : &ep->rx) = cq;
		return 0;
	}
	if (other->fclass == FI_CLASS_EQ) {
		struct fake__eq *eq = (struct fake__eq *)other;
		return fake__usable(&eq->object, "fi_ep_bind") ? 0 : -FI_EINVAL;
	}
	struct fake__av *av = (struct fake__av *)other;
	if (other->fclass != FI_CLASS_AV || !fake__usable(&av->object, "fi_ep_bind"))
		return -FI_EINVAL;
	ep->av = av;
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct fake__ep *ep = (struct fake__ep *)fid;
	if (!fake__usable(&ep->object, "fi_enable"))
		return -FI_EINVAL;
	int code = fake__gate("fi_enable", FAKE__OPEN, NULL);
	if (code)
		return -code;
	if (command != FI_ENABLE || arg || !ep->tx || !ep->rx || !ep->av || ep->enabled)
		fake__violation("fi_enable of an endpoint that lacks a queue or addresses");
	code = name_endpoint(ep);
	if (code)
		return -code;
	ep->enabled = true;
	if (ep->provider->addr_format == FI_ADDR_STR)
		fake__segment((const char *)ep->addr.raw, true);
	/* An endpoint is a child of all that it uses, and its end frees them. */
	ep->av->object.children++;
	ep->rx->object.children++;
	return 0;
}

static int ep_getname(fid_t fid, void *raw, size_t *len)
{
	struct fake__ep *ep = (struct fake__ep *)fid;
	if (!fake__usable(&ep->object, "fi_getname") || !ep->enabled)
		return -FI_EINVAL;
	int code = fake__gate("fi_getname", FAKE__OPEN, NULL);
	if (code)
		return -code;
	size_t room = *len;
	*len = ep->addr.len;
	memcpy(raw, ep->addr.raw, room < ep->addr.len ? room : ep->addr.len);
	return room < ep->addr.len ? -FI_ETOOSMALL : 0;
}

static void empty_packets(struct fake__packets *packets)
{
	while (!TAILQ_EMPTY(packets)) {
		struct fake__packet *packet = TAILQ_FIRST(packets);
		TAILQ_REMOVE(packets, packet, link);
		fake__packet_free(packet);
	}
}

/* Frees what hangs on an endpoint. Its operations end without a completion. */
static void strip_endpoint(struct fake__ep *ep, bool checks)
{
	while (!TAILQ_EMPTY(&ep->works))
		fake__let_go(TAILQ_FIRST(&ep->works), checks);
	empty_packets(&ep->inbox);
	empty_packets(&ep->unexpected);
	while (!SLIST_EMPTY(&ep->connections)) {
		struct fake__connection *connection = SLIST_FIRST(&ep->connections);
		SLIST_REMOVE_HEAD(&ep->connections, link);
		free(connection);
	}
	LIST_REMOVE(ep, link);
}

static int ep_close(struct fid *fid)
{
	struct fake__ep *ep = (struct fake__ep *)fid;
	if (ep->object.state == FAKE__LIVE && ep->provider->close_blocks && ep->sends > 0)
		fake__violation("closing this endpoint would not return: %zu sends are queued",
				ep->sends);
	int code = fake__begin_close(&ep->object);
	if (code)
		return -code;
	strip_endpoint(ep, true);
	if (ep->enabled && ep->provider->addr_format == FI_ADDR_STR)
		fake__segment((const char *)ep->addr.raw, false);
	if (ep->enabled) {
		ep->av->object.children--;
		ep->rx->object.children--;
	}
	fake__died(&ep->object);
	return 0;
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(ep_fid_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
};
/* As the providers do: a receive that nothing has reached ends, all else goes on. */
static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct fake__ep *ep = (struct fake__ep *)fid;
	struct fake__work *work;
	if (!fake__usable(&ep->object, "fi_cancel"))
		return -FI_EINVAL;
	int code = fake__gate("fi_cancel", FAKE__OPEN, NULL);
	if (code)
		return -code;
	TAILQ_FOREACH (work, &ep->works, link) {
		if (work->context != context)
			continue;
		if (work->receives)
			fake__finish(work, 0, FI_ECANCELED, 0, NULL);
		return 0;
	}
	return -FI_ENOENT;
}

static struct fi_ops_ep ep_ops = {.size = sizeof(ep_ops), .cancel = ep_cancel};
static struct fi_ops_cm ep_ops_cm = {.size = sizeof(ep_ops_cm), .getname = ep_getname};

int fake__ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct fake__domain *domain = (struct fake__domain *)fid;
	if (!fake__usable(&domain->object, "fi_endpoint"))
		return -FI_EINVAL;
	int code = fake__gate("fi_endpoint", FAKE__OPEN, NULL);
	if (code)
		return -code;
	struct fake__ep *ep = fake__zalloc(sizeof(*ep));
	ep->fid.fid = (struct fid){FI_CLASS_EP, context, &ep_fid_ops};
	ep->fid.cm = &ep_ops_cm;
	ep->fid.ops = &ep_ops;
	ep->fid.msg = &fake__ops_msg;
	ep->fid.tagged = &fake__ops_tagged;
	ep->fid.rma = &fake__ops_rma;
	ep->domain = domain;
	ep->provider = domain->provider;
	ep->bind_len = info->src_addrlen;
	if (info->src_addr)
		memcpy(ep->bind_addr, info->src_addr, info->src_addrlen);
	TAILQ_INIT(&ep->works);
	TAILQ_INIT(&ep->inbox);
	TAILQ_INIT(&ep->unexpected);
	LIST_INSERT_HEAD(&fake__eps, ep, link);
	fake__born(&ep->object, "endpoint", &domain->object, ep);
	*out = &ep->fid;
	return 0;
}

size_t fake__open_works(void)
{
	struct fake__ep *ep;
	size_t count = 0;
	LIST_FOREACH (ep, &fake__eps, link)
		count += ep->sends + ep->receives;
	return count;
}

void fake__endpoints_reset(void)
{
	while (!LIST_EMPTY(&fake__eps))
		strip_endpoint(LIST_FIRST(&fake__eps), false);
	next_addr.len = 0;
	addr_number = 0;
}
