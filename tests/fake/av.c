/* SPDX-License-Identifier: MIT */
/* The address vector of the fake fabric, and which addresses are sound. */
#include <netinet/in.h>

#include "internal.h"

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
	int code = fake__begin_close(&av->object);
	if (code == 0)
		fake__died(&av->object);
	return -code;
}

static struct fi_ops av_fid_ops = {.size = sizeof(av_fid_ops), .close = av_close};
static struct fi_ops_av av_ops = {.size = sizeof(av_ops), .insert = av_insert, .remove = av_remove};

int fake__av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out,
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
	fake__born(&av->object, "address vector", &domain->object, av);
	*out = &av->fid;
	return 0;
}
