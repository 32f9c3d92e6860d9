/* SPDX-License-Identifier: MIT */
/* Registered memory of the fake fabric, and what must not be freed. */
#include "internal.h"

static int mr_close(struct fid *fid)
{
	struct fake__mr *mr = (struct fake__mr *)fid;
	if (mr->works > 0)
		fake__violation("memory is deregistered under an operation that the provider has");
	int code = fake__begin_close(&mr->object);
	if (code)
		return -code;
	LIST_REMOVE(mr, link);
	fake__died(&mr->object);
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

int fake__mr_reg(struct fid *fid, const void *data, size_t len, uint64_t access, uint64_t offset,
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
	fake__born(&mr->object, "memory region", &domain->object, mr);
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
	TAILQ_FOREACH (object, &fake__objects, link) {
		struct fake__mr *mr = object->memory;
		if (object->state != FAKE__CLOSED && strcmp(object->what, "memory region") == 0 &&
		    overlaps(memory, len, mr->data, mr->len))
			fake__violation("memory is freed that is registered");
	}
	LIST_FOREACH (ep, &fake__eps, link) {
		TAILQ_FOREACH (work, &ep->works, link) {
			if (overlaps(memory, len, work->data, work->len))
				fake__violation("memory is freed while %s has it", work->call);
			if (!ep->provider->no_contexts &&
			    overlaps(memory, len, work->context, sizeof(*work->context)))
				fake__violation(
					"the context of %s is freed while the provider has it",
					work->call);
		}
	}
}

uint64_t fake_key_access(uint64_t key, size_t *len)
{
	struct fake__object *object;
	TAILQ_FOREACH (object, &fake__objects, link) {
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
	TAILQ_FOREACH (object, &fake__objects, link) {
		struct fake__mr *mr = object->memory;
		if (object->state == FAKE__LIVE && strcmp(object->what, "memory region") == 0 &&
		    overlaps(data, 1, mr->data, mr->len))
			access |= mr->access;
	}
	return access;
}
