/* SPDX-License-Identifier: MIT */
/*
 * What all objects of the fake fabric have in common: birth, use, the order of closing; and the two
 * that hold the others, fabric and domain. Closed ones stay in memory until the next reset, so that
 * a late use is seen.
 */
#include <stdio.h>

#include "internal.h"

struct fake__object_list fake__objects = TAILQ_HEAD_INITIALIZER(fake__objects);

void fake__born(struct fake__object *object, const char *what, struct fake__object *parent,
		void *memory)
{
	object->state = FAKE__LIVE;
	object->what = what;
	object->parent = parent;
	object->memory = memory;
	if (parent)
		parent->children++;
	TAILQ_INSERT_TAIL(&fake__objects, object, link);
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
int fake__begin_close(struct fake__object *object)
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
	TAILQ_FOREACH (child, &fake__objects, link) {
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

void fake__died(struct fake__object *object)
{
	object->state = FAKE__CLOSED;
	if (object->parent)
		object->parent->children--;
}

size_t fake__open_objects(void)
{
	struct fake__object *object;
	size_t count = 0;
	TAILQ_FOREACH (object, &fake__objects, link)
		count += object->state != FAKE__CLOSED;
	return count;
}

/* ---- domain and fabric */

static int domain_close(struct fid *fid)
{
	struct fake__domain *domain = (struct fake__domain *)fid;
	int code = fake__begin_close(&domain->object);
	if (code == 0)
		fake__died(&domain->object);
	return -code;
}

static struct fi_ops domain_fid_ops = {.size = sizeof(domain_fid_ops), .close = domain_close};
static struct fi_ops_mr domain_ops_mr = {.size = sizeof(domain_ops_mr), .reg = fake__mr_reg};
static struct fi_ops_domain domain_ops = {
	.size = sizeof(domain_ops),
	.av_open = fake__av_open,
	.cq_open = fake__cq_open,
	.endpoint = fake__ep_open,
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
	fake__born(&domain->object, "domain", &fabric->object, domain);
	*out = &domain->fid;
	return 0;
}

static int fabric_close(struct fid *fid)
{
	struct fake__fabric *fabric = (struct fake__fabric *)fid;
	int code = fake__begin_close(&fabric->object);
	if (code == 0)
		fake__died(&fabric->object);
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

static int eq_close(struct fid *fid)
{
	struct fake__eq *eq = (struct fake__eq *)fid;
	int code = fake__begin_close(&eq->object);
	if (code == 0)
		fake__died(&eq->object);
	return -code;
}

/* There is never an event, unless the script says that there is an error. */
static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *memory, size_t len,
		       uint64_t flags)
{
	struct fake__eq *eq = (struct fake__eq *)fid;
	(void)event;
	(void)memory;
	if (!fake__usable(&eq->object, "fi_eq_read") || len < sizeof(struct fi_eq_entry) || flags)
		return -FI_EINVAL;
	int code = fake__gate("fi_eq_read", FAKE__EQ_READ, NULL);
	return code == FAKE_ZERO ? 0 : code ? -code : -FI_EAGAIN;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
	struct fake__eq *eq = (struct fake__eq *)fid;
	if (!fake__usable(&eq->object, "fi_eq_readerr") || flags)
		return -FI_EINVAL;
	int code = fake__gate("fi_eq_readerr", FAKE__CQ_ERROR, NULL);
	if (code)
		return code == FAKE_ZERO ? 0 : -code;
	*entry = (struct fi_eq_err_entry){.err = FI_EIO, .prov_errno = 4104};
	return sizeof(*entry);
}

static struct fi_ops eq_fid_ops = {.size = sizeof(eq_fid_ops), .close = eq_close};
static struct fi_ops_eq eq_ops = {
	.size = sizeof(eq_ops),
	.read = eq_read,
	.readerr = eq_readerr,
};

static int eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **out,
		   void *context)
{
	struct fake__fabric *fabric = (struct fake__fabric *)fid;
	(void)attr;
	if (!fake__usable(&fabric->object, "fi_eq_open"))
		return -FI_EINVAL;
	int code = fake__gate("fi_eq_open", FAKE__OPEN, NULL);
	if (code)
		return -code;
	struct fake__eq *eq = fake__zalloc(sizeof(*eq));
	eq->fid.fid = (struct fid){FI_CLASS_EQ, context, &eq_fid_ops};
	eq->fid.ops = &eq_ops;
	fake__born(&eq->object, "event queue", &fabric->object, eq);
	*out = &eq->fid;
	return 0;
}

static struct fi_ops fabric_fid_ops = {.size = sizeof(fabric_fid_ops), .close = fabric_close};
static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(fabric_ops),
	.domain = domain_open,
	.eq_open = eq_open,
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
	fake__born(&made->object, "fabric", NULL, made);
	*fabric = &made->fid;
	return 0;
}

/* Of the objects of a lost world nothing is called any more. */
void fake__objects_reset(void)
{
	fake__endpoints_reset();
	while (!TAILQ_EMPTY(&fake__objects)) {
		struct fake__object *object = TAILQ_FIRST(&fake__objects);
		if (object->state != FAKE__CLOSED && strcmp(object->what, "completion queue") == 0)
			fake__queue_empty(object->memory);
		TAILQ_REMOVE(&fake__objects, object, link);
		free(object->memory);
	}
}
