/* SPDX-License-Identifier: MIT */
/*
 * The objects of the fake fabric, from the fabric down to the endpoint: opening, binding, closing,
 * and all of their ops but data transfers. Closed ones stay in memory until the next reset, so that
 * a late use is seen.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include "internal.h"

static TAILQ_HEAD(, fake__object) objects = TAILQ_HEAD_INITIALIZER(objects);
struct fake__ep_list fake__eps = LIST_HEAD_INITIALIZER(fake__eps);
static struct fake__addr next_addr;
static uint32_t addr_number;

/* ---- what all objects have in common */

static void born(struct fake__object *object, const char *what, struct fake__object *parent,
		 void *memory)
{
	object->state = FAKE__LIVE;
	object->what = what;
	object->parent = parent;
	object->memory = memory;
	if (parent)
		parent->children++;
	TAILQ_INSERT_TAIL(&objects, object, link);
}

bool fake__usable(struct fake__object *object, const char *call)
{
	if (object->state == FAKE__LIVE)
		return true;
	fake__violation("%s on the %s after %s", call, object->what,
			object->state == FAKE__CLOSED ? "it was closed" : "a close that failed");
	return false;
}

/* What fi_close() does first, for all. Returns 0, or the code to answer with. */
static int begin_close(struct fake__object *object)
{
	char call[40];
	if (!fake__usable(object, "fi_close"))
		return FI_EINVAL;
	snprintf(call, sizeof(call), "fi_close(%s)", object->what);
	int code = fake__gate(call, FAKE__CLOSE, NULL);
	if (code) {
		object->state = FAKE__STUCK;
		return code;
	}
	if (object->children == 0)
		return 0;
	/* What could not be closed keeps its parents, and the caller can do nothing about it. */
	struct fake__object *child;
	TAILQ_FOREACH (child, &objects, link) {
		if (child->parent == object && child->state == FAKE__LIVE)
			fake__violation("the %s is closed before the %s", object->what,
					child->what);
	}
	struct fake__ep *ep;
	LIST_FOREACH (ep, &fake__eps, link) {
		if (ep->object.state == FAKE__LIVE && ep->enabled &&
		    (&ep->av->object == object || &ep->rx->object == object))
			fake__violation("the %s is closed before the endpoint", object->what);
	}
	object->state = FAKE__STUCK;
	return FI_EBUSY;
}

static void died(struct fake__object *object)
{
	object->state = FAKE__CLOSED;
	if (object->parent)
		object->parent->children--;
}

size_t fake__open_objects(void)
{
	struct fake__object *object;
	size_t count = 0;
	TAILQ_FOREACH (object, &objects, link)
		count += object->state != FAKE__CLOSED;
	return count;
}

/* ---- address vector */

static size_t raw_len(const struct fake_provider *p, const void *raw)
{
	switch (p->addr_format) {
	case FI_SOCKADDR_IN:
		return sizeof(struct sockaddr_in);
	case FI_SOCKADDR_IN6:
		return sizeof(struct sockaddr_in6);
	case FI_ADDR_STR:
		return strlen(raw) + 1;
	case FI_ADDR_EFA:
		return 32;
	default:
		return p->addr_len;
	}
}

/* Whether an address is one that a real provider could do something with. */
static bool is_sound(const struct fake_provider *p, const struct fake__addr *addr)
{
	static const uint8_t zero[16];
	struct sockaddr_in6 in;
	memcpy(&in, addr->raw, sizeof(in));
	switch (p->addr_format) {
	case FI_SOCKADDR_IN:
		return in.sin6_family == AF_INET && in.sin6_port != 0;
	case FI_SOCKADDR_IN6:
		return in.sin6_family == AF_INET6 && in.sin6_port != 0;
	case FI_ADDR_STR:
		return addr->len > 1;
	case FI_ADDR_EFA:
		return memcmp(addr->raw, zero, sizeof(zero)) != 0;
	default:
		return true;
	}
}

bool fake__addr_equal(const struct fake__addr *a, const struct fake__addr *b)
{
	return a->len == b->len && memcmp(a->raw, b->raw, a->len) == 0;
}

static int av_insert(struct fid_av *fid, const void *raw, size_t count, fi_addr_t *out,
		     uint64_t flags, void *context)
{
	struct fake__av *av = (struct fake__av *)fid;
	struct fake__addr addr = {.len = raw_len(av->domain->provider, raw)};
	if (!fake__usable(&av->object, "fi_av_insert") || count != 1 || flags || context)
		return -FI_EINVAL;
	int code = fake__gate("fi_av_insert", FAKE__INSERT, NULL);
	if (code) {
		/* Whoever uses what a failed insert has left there crashes with real providers. */
		*out = FI_ADDR_NOTAVAIL;
		return code == FAKE_ZERO ? 0 : -code;
	}
	memcpy(addr.raw, raw, addr.len);
	if (!is_sound(av->domain->provider, &addr)) {
		fake__violation("an address that spoils the address vector");
		av->poisoned = true;
	}
	if (av->poisoned)
		return 0;
	for (size_t i = 0; i < FAKE__AV_MAX; i++) {
		if (av->entry[i].used && fake__addr_equal(&av->entry[i].addr, &addr))
			fake__violation("an address is inserted twice");
		if (av->entry[i].used)
			continue;
		av->entry[i].used = true;
		av->entry[i].works = 0;
		av->entry[i].addr = addr;
		*out = FAKE__FIRST_FI_ADDR + i;
		return 1;
	}
	return 0;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct fake__av *av = (struct fake__av *)fid;
	if (!fake__usable(&av->object, "fi_av_remove") || count != 1 || flags)
		return -FI_EINVAL;
	int code = fake__gate("fi_av_remove", FAKE__REMOVE, NULL);
	size_t i = (size_t)(*fi_addr - FAKE__FIRST_FI_ADDR);
	if (i >= FAKE__AV_MAX || !av->entry[i].used)
		fake__violation("fi_av_remove of an address that is not there");
	else if (av->entry[i].works > 0)
		fake__violation("fi_av_remove with operations under way to the address");
	else
		av->entry[i].used = false;
	return -code;
}

static int av_close(struct fid *fid)
{
	struct fake__av *av = (struct fake__av *)fid;
	int code = begin_close(&av->object);
	if (code == 0)
		died(&av->object);
	return -code;
}

static struct fi_ops av_fid_ops = {.size = sizeof(av_fid_ops), .close = av_close};
static struct fi_ops_av av_ops = {.size = sizeof(av_ops), .insert = av_insert, .remove = av_remove};

static int av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out,
		   void *context)
{
	struct fake__domain *domain = (struct fake__domain *)fid;
	if (!fake__usable(&domain->object, "fi_av_open"))
		return -FI_EINVAL;
	int code = fake__gate("fi_av_open", FAKE__OPEN, NULL);
	if (code)
		return -code;
	if (attr->type != FI_AV_TABLE)
		fake__violation("an address vector that is not a table");
	struct fake__av *av = fake__zalloc(sizeof(*av));
	av->fid.fid = (struct fid){FI_CLASS_AV, context, &av_fid_ops};
	av->fid.ops = &av_ops;
	av->domain = domain;
	born(&av->object, "address vector", &domain->object, av);
	*out = &av->fid;
	return 0;
}

/* ---- completion queue */

bool fake__may_sleep(int fd)
{
	struct fake__object *object;
	TAILQ_FOREACH (object, &objects, link) {
		struct fake__cq *cq = object->memory;
		if (fd >= 0 && object->state == FAKE__LIVE &&
		    strcmp(object->what, "completion queue") == 0 && cq->fd == fd)
			return cq->armed;
	}
	return true;
}

static ssize_t read_from(struct fake__cq *cq, struct fi_cq_tagged_entry *entry, size_t count,
			 fi_addr_t *source)
{
	size_t n = 0;
	if (!fake__usable(&cq->object, "fi_cq_read"))
		return -FI_EINVAL;
	int code = fake__gate("fi_cq_read", FAKE__CQ_READ, NULL);
	if (code)
		return code == FAKE_ZERO ? 0 : -code;
	fake__run_due();
	fake__progress(cq);
	cq->armed = false;
	if (cq->overrun)
		return -FI_EOVERRUN;
	struct fake__completion *completion;
	while (n < count && (completion = TAILQ_FIRST(&cq->completions)) && !completion->is_error) {
		TAILQ_REMOVE(&cq->completions, completion, link);
		cq->count--;
		entry[n] = completion->entry;
		if (source)
			source[n] = completion->source;
		free(completion);
		n++;
	}
	if (n > 0)
		return (ssize_t)n;
	return TAILQ_EMPTY(&cq->completions) ? -FI_EAGAIN : -FI_EAVAIL;
}

static ssize_t cq_read(struct fid_cq *fid, void *entry, size_t count)
{
	return read_from((struct fake__cq *)fid, entry, count, NULL);
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *entry, size_t count, fi_addr_t *source)
{
	struct fake__cq *cq = (struct fake__cq *)fid;
	if (!(cq->domain->provider->caps & FI_SOURCE))
		fake__violation("fi_cq_readfrom without FI_SOURCE");
	return read_from(cq, entry, count, source);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
	static const struct fi_cq_err_entry zero;
	struct fake__cq *cq = (struct fake__cq *)fid;
	if (!fake__usable(&cq->object, "fi_cq_readerr") || flags)
		return -FI_EINVAL;
	int code = fake__gate("fi_cq_readerr", FAKE__CQ_ERROR, NULL);
	if (code)
		return code == FAKE_ZERO ? 0 : -code;
	if (memcmp(entry, &zero, sizeof(zero)) != 0)
		fake__violation(
			"fi_cq_readerr into an entry that is not zero: providers read it first");
	struct fake__completion *completion = TAILQ_FIRST(&cq->completions);
	if (!completion || !completion->is_error)
		return -FI_EAGAIN;
	TAILQ_REMOVE(&cq->completions, completion, link);
	cq->count--;
	*entry = (struct fi_cq_err_entry){
		.op_context = completion->entry.op_context,
		.flags = completion->entry.flags,
		.len = completion->entry.len,
		.tag = completion->entry.tag,
		.data = completion->entry.data,
		.err = completion->err,
		.prov_errno = completion->prov_errno,
		/* The contract: it stays valid until the next read. */
		.err_data = (void *)(uintptr_t)completion->err_data,
		.err_data_size = completion->err_data ? strlen(completion->err_data) + 1 : 0,
	};
	free(completion);
	return 1;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *text,
			       size_t len)
{
	struct fake__cq *cq = (struct fake__cq *)fid;
	if (!fake__usable(&cq->object, "fi_cq_strerror") ||
	    fake__gate("fi_cq_strerror", FAKE__CQ_TEXT, NULL))
		return NULL;
	snprintf(text, len, "fake code %d%s%s", prov_errno, err_data ? ": " : "",
		 err_data ? (const char *)err_data : "");
	return text;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct fake__cq *cq = (struct fake__cq *)fid;
	if (!fake__usable(&cq->object, "fi_control"))
		return -FI_EINVAL;
	int code = fake__gate("fi_control", FAKE__OPEN, NULL);
	if (code)
		return -code;
	if (command != FI_GETWAIT || cq->fd < 0)
		return -FI_ENOSYS;
	*(int *)arg = cq->fd;
	return 0;
}

static int cq_close(struct fid *fid)
{
	struct fake__cq *cq = (struct fake__cq *)fid;
	int code = begin_close(&cq->object);
	if (code)
		return -code;
	while (!TAILQ_EMPTY(&cq->completions)) {
		struct fake__completion *completion = TAILQ_FIRST(&cq->completions);
		TAILQ_REMOVE(&cq->completions, completion, link);
		free(completion);
	}
	if (cq->fd >= 0)
		close(cq->fd);
	cq->fd = -1;
	died(&cq->object);
	return 0;
}

static struct fi_ops cq_fid_ops = {
	.size = sizeof(cq_fid_ops), .close = cq_close, .control = cq_control};
static struct fi_ops_cq cq_ops = {
	.size = sizeof(cq_ops),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.strerror = cq_strerror,
};

static int cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out,
		   void *context)
{
	struct fake__domain *domain = (struct fake__domain *)fid;
	if (!fake__usable(&domain->object, "fi_cq_open"))
		return -FI_EINVAL;
	int code = fake__gate("fi_cq_open", FAKE__OPEN, NULL);
	if (code)
		return -code;
	if (attr->format != FI_CQ_FORMAT_TAGGED)
		fake__violation("a completion queue of another format than the fake knows");
	if (attr->wait_obj == FI_WAIT_FD && domain->provider->wait == FAKE_WAIT_REFUSED)
		return -FI_ENOSYS;
	struct fake__cq *cq = fake__zalloc(sizeof(*cq));
	cq->fid.fid = (struct fid){FI_CLASS_CQ, context, &cq_fid_ops};
	cq->fid.ops = &cq_ops;
	cq->domain = domain;
	cq->fd = -1;
	if (attr->wait_obj == FI_WAIT_FD && domain->provider->wait == FAKE_WAIT_FD)
		cq->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	cq->size = attr->size;
	TAILQ_INIT(&cq->completions);
	born(&cq->object, "completion queue", &domain->object, cq);
	*out = &cq->fid;
	return 0;
}

static struct fake__cq *cq_at(const struct weft_addr *of)
{
	struct fake__addr addr = {.len = of->len};
	memcpy(addr.raw, of->raw, of->len);
	struct fake__ep *ep = fake__find_ep(&addr);
	if (!ep)
		fake__violation("the test names an endpoint that is not there");
	return ep ? ep->rx : NULL;
}

void fake_stray(const struct weft_addr *of, int err)
{
	struct fake__completion stray = {
		.is_error = err != 0, .err = err, .source = FI_ADDR_NOTAVAIL};
	struct fake__cq *cq = cq_at(of);
	if (cq)
		fake__complete(cq, &stray);
}

void fake_overrun(const struct weft_addr *of)
{
	struct fake__cq *cq = cq_at(of);
	if (cq)
		cq->overrun = true;
}

/* ---- memory */

static int mr_close(struct fid *fid)
{
	struct fake__mr *mr = (struct fake__mr *)fid;
	if (mr->works > 0)
		fake__violation("memory is deregistered under an operation that the provider has");
	int code = begin_close(&mr->object);
	if (code)
		return -code;
	LIST_REMOVE(mr, link);
	died(&mr->object);
	return 0;
}

static struct fi_ops mr_fid_ops = {.size = sizeof(mr_fid_ops), .close = mr_close};

static struct fake__mr *find_mr(struct fake__domain *domain, uint64_t key)
{
	struct fake__mr *mr;
	LIST_FOREACH (mr, &domain->mrs, link) {
		if (mr->fid.key == key)
			return mr;
	}
	return NULL;
}

static int mr_reg(struct fid *fid, const void *data, size_t len, uint64_t access, uint64_t offset,
		  uint64_t key, uint64_t flags, struct fid_mr **out, void *context)
{
	struct fake__domain *domain = (struct fake__domain *)fid;
	int mode = domain->provider->mr_mode;
	if (!fake__usable(&domain->object, "fi_mr_reg") || !data || len == 0 || offset || flags)
		return -FI_EINVAL;
	int code = fake__gate("fi_mr_reg", FAKE__REG, NULL);
	if (code)
		return -code;
	if (mode & FI_MR_PROV_KEY)
		key = domain->next_key++;
	else if (domain->provider->mr_key_size < 8 && key >> (8 * domain->provider->mr_key_size))
		fake__violation("a key of more bytes than the provider has");
	else if (find_mr(domain, key))
		return -FI_ENOKEY;
	struct fake__mr *mr = fake__zalloc(sizeof(*mr));
	mr->fid.fid = (struct fid){FI_CLASS_MR, context, &mr_fid_ops};
	mr->fid.mem_desc = mr;
	mr->fid.key = key;
	mr->domain = domain;
	mr->data = (uint8_t *)(uintptr_t)data;
	mr->len = len;
	mr->access = access;
	LIST_INSERT_HEAD(&domain->mrs, mr, link);
	born(&mr->object, "memory region", &domain->object, mr);
	*out = &mr->fid;
	return 0;
}

static bool overlaps(const void *a, size_t a_len, const void *b, size_t b_len)
{
	return (uintptr_t)a < (uintptr_t)b + b_len && (uintptr_t)b < (uintptr_t)a + a_len;
}

void fake__check_free(const void *memory, size_t len)
{
	struct fake__object *object;
	struct fake__ep *ep;
	struct fake__work *work;
	TAILQ_FOREACH (object, &objects, link) {
		struct fake__mr *mr = object->memory;
		if (object->state != FAKE__CLOSED && strcmp(object->what, "memory region") == 0 &&
		    overlaps(memory, len, mr->data, mr->len))
			fake__violation("memory is freed that is registered");
	}
	LIST_FOREACH (ep, &fake__eps, link) {
		TAILQ_FOREACH (work, &ep->works, link) {
			if (overlaps(memory, len, work->data, work->len))
				fake__violation("memory is freed while %s has it", work->call);
			if (overlaps(memory, len, work->context, sizeof(*work->context)))
				fake__violation(
					"the context of %s is freed while the provider has it",
					work->call);
		}
	}
}

uint64_t fake_key_access(uint64_t key, size_t *len)
{
	struct fake__object *object;
	TAILQ_FOREACH (object, &objects, link) {
		struct fake__mr *mr = object->memory;
		if (object->state == FAKE__LIVE && strcmp(object->what, "memory region") == 0 &&
		    mr->fid.key == key) {
			*len = mr->len;
			return mr->access;
		}
	}
	return 0;
}

uint64_t fake_access_of(const void *data)
{
	struct fake__object *object;
	uint64_t access = 0;
	TAILQ_FOREACH (object, &objects, link) {
		struct fake__mr *mr = object->memory;
		if (object->state == FAKE__LIVE && strcmp(object->what, "memory region") == 0 &&
		    overlaps(data, 1, mr->data, mr->len))
			access |= mr->access;
	}
	return access;
}

/* ---- endpoint */

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
	int code = begin_close(&ep->object);
	if (code)
		return -code;
	strip_endpoint(ep, true);
	if (ep->enabled && ep->provider->addr_format == FI_ADDR_STR)
		fake__segment((const char *)ep->addr.raw, false);
	if (ep->enabled) {
		ep->av->object.children--;
		ep->rx->object.children--;
	}
	died(&ep->object);
	return 0;
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(ep_fid_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
};
static struct fi_ops_cm ep_ops_cm = {.size = sizeof(ep_ops_cm), .getname = ep_getname};

static int ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
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
	born(&ep->object, "endpoint", &domain->object, ep);
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

/* ---- domain and fabric */

static int domain_close(struct fid *fid)
{
	struct fake__domain *domain = (struct fake__domain *)fid;
	int code = begin_close(&domain->object);
	if (code == 0)
		died(&domain->object);
	return -code;
}

static struct fi_ops domain_fid_ops = {.size = sizeof(domain_fid_ops), .close = domain_close};
static struct fi_ops_mr domain_ops_mr = {.size = sizeof(domain_ops_mr), .reg = mr_reg};
static struct fi_ops_domain domain_ops = {
	.size = sizeof(domain_ops),
	.av_open = av_open,
	.cq_open = cq_open,
	.endpoint = ep_open,
};

static int domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out,
		       void *context)
{
	struct fake__fabric *fabric = (struct fake__fabric *)fid;
	if (!fake__usable(&fabric->object, "fi_domain"))
		return -FI_EINVAL;
	int code = fake__gate("fi_domain", FAKE__OPEN, NULL);
	if (code)
		return -code;
	struct fake__domain *domain = fake__zalloc(sizeof(*domain));
	domain->fid.fid = (struct fid){FI_CLASS_DOMAIN, context, &domain_fid_ops};
	domain->fid.ops = &domain_ops;
	domain->fid.mr = &domain_ops_mr;
	domain->fabric = fabric;
	domain->provider =
		fake__provider_named(info->fabric_attr->prov_name, info->domain_attr->name);
	domain->next_key = 1;
	LIST_INIT(&domain->mrs);
	born(&domain->object, "domain", &fabric->object, domain);
	*out = &domain->fid;
	return 0;
}

static int fabric_close(struct fid *fid)
{
	struct fake__fabric *fabric = (struct fake__fabric *)fid;
	int code = begin_close(&fabric->object);
	if (code == 0)
		died(&fabric->object);
	return -code;
}

static int trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
	struct fake__fabric *fabric = (struct fake__fabric *)fid;
	uint64_t signals;
	if (!fake__usable(&fabric->object, "fi_trywait"))
		return -FI_EINVAL;
	int code = fake__gate("fi_trywait", FAKE__TRYWAIT, NULL);
	if (code)
		return -code;
	for (int i = 0; i < count; i++) {
		struct fake__cq *cq = (struct fake__cq *)fids[i];
		if (!fake__usable(&cq->object, "fi_trywait"))
			return -FI_EINVAL;
		if (cq->fd < 0)
			fake__violation("fi_trywait on a queue without a descriptor");
		fake__run_due();
		fake__progress(cq);
		if (!TAILQ_EMPTY(&cq->completions) || cq->overrun)
			return -FI_EAGAIN;
		/* Only here does the descriptor become quiet again. */
		ssize_t ignored = read(cq->fd, &signals, sizeof(signals));
		(void)ignored;
		cq->armed = true;
	}
	return 0;
}

static struct fi_ops fabric_fid_ops = {.size = sizeof(fabric_fid_ops), .close = fabric_close};
static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(fabric_ops),
	.domain = domain_open,
	.trywait = trywait,
};

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	int code = fake__gate("fi_fabric", FAKE__OPEN, NULL);
	if (code)
		return -code;
	(void)attr;
	struct fake__fabric *made = fake__zalloc(sizeof(*made));
	made->fid.fid = (struct fid){FI_CLASS_FABRIC, context, &fabric_fid_ops};
	made->fid.ops = &fabric_ops;
	born(&made->object, "fabric", NULL, made);
	*fabric = &made->fid;
	return 0;
}

/* Of the objects of a lost world nothing is called any more. */
void fake__objects_reset(void)
{
	while (!LIST_EMPTY(&fake__eps))
		strip_endpoint(LIST_FIRST(&fake__eps), false);
	while (!TAILQ_EMPTY(&objects)) {
		struct fake__object *object = TAILQ_FIRST(&objects);
		if (object->state != FAKE__CLOSED &&
		    strcmp(object->what, "completion queue") == 0) {
			struct fake__cq *cq = object->memory;
			while (!TAILQ_EMPTY(&cq->completions)) {
				struct fake__completion *completion = TAILQ_FIRST(&cq->completions);
				TAILQ_REMOVE(&cq->completions, completion, link);
				free(completion);
			}
			if (cq->fd >= 0)
				close(cq->fd);
		}
		TAILQ_REMOVE(&objects, object, link);
		free(object->memory);
	}
	next_addr.len = 0;
	addr_number = 0;
}
