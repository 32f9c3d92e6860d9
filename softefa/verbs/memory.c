/* SPDX-License-Identifier: MIT */
/* Protection domains and memory regions. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "entry.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define INDEX_BITS 20
#define INDEX_MASK ((1u << INDEX_BITS) - 1)

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

struct ibv_pd *soft_ibv_alloc_pd(struct ibv_context *context)
{
	struct soft_pd *pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->pd.context = context;
	return &pd->pd;
}

int soft_ibv_dealloc_pd(struct ibv_pd *ibv_pd)
{
	struct soft_pd *pd = (struct soft_pd *)ibv_pd;
	soft_lock();
	unsigned users = pd->users;
	soft_unlock();
	if (users > 0)
		return EBUSY;
	free(pd);
	return 0;
}

/* Whether the pages are there and can be written, or read. Kernels before 5.14 cannot tell. */
static int check_pages(void *addr, size_t len, bool writable)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)addr & ~(page - 1);
	uintptr_t end = ((uintptr_t)addr + len + page - 1) & ~(page - 1);
	if ((uintptr_t)addr + len < (uintptr_t)addr)
		return EFAULT;
	int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
	/* Of no bytes at all, it fails only where the kernel does not know it. */
	if (len == 0 || madvise((void *)first, 0, advice) < 0 ||
	    madvise((void *)first, end - first, advice) == 0)
		return 0;
	return EFAULT;
}

/*
 * A free place for a region, in turn, so that a key comes back late. Makes the table longer where
 * there is none.
 */
static int find_place(uint32_t *place)
{
	for (uint32_t i = 0; i < soft.mr_size; i++) {
		uint32_t at = (soft.mr_next + i) % soft.mr_size;
		if (!soft.mrs[at]) {
			*place = at;
			soft.mr_next = at + 1;
			return 0;
		}
	}
	uint32_t size = soft.mr_size > 0 ? soft.mr_size * 2 : 64;
	if (size > INDEX_MASK)
		return ENOMEM;
	struct soft_mr **mrs = realloc(soft.mrs, size * sizeof(struct soft_mr *));
	if (!mrs)
		return ENOMEM;
	for (uint32_t i = soft.mr_size; i < size; i++)
		mrs[i] = NULL;
	*place = soft.mr_size;
	soft.mr_next = soft.mr_size + 1;
	soft.mrs = mrs;
	soft.mr_size = size;
	return 0;
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned access)
{
	uint32_t place, salt;
	int ret = check_pages(addr, len, access & IBV_ACCESS_LOCAL_WRITE);
	if (ret != 0) {
		errno = ret;
		return NULL;
	}
	/* Writing by others needs writing by oneself. */
	if (access & IBV_ACCESS_REMOTE_WRITE && !(access & IBV_ACCESS_LOCAL_WRITE)) {
		errno = EINVAL;
		return NULL;
	}
	struct soft_mr *mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		salt = 0;
	soft_lock();
	ret = find_place(&place);
	if (ret == 0) {
		soft.mrs[place] = mr;
		((struct soft_pd *)pd)->users++;
		mr->mr = (struct ibv_mr){
			.context = pd->context, .pd = pd, .addr = addr, .length = len};
		/* The upper part is by chance: an old key opens nothing new. A key is never 0. */
		mr->mr.lkey = mr->mr.rkey = mr->mr.handle = (salt & ~INDEX_MASK) | (place + 1);
		mr->iova = iova;
		mr->access = access;
	}
	soft_unlock();
	if (ret != 0) {
		free(mr);
		errno = ret;
		return NULL;
	}
	return &mr->mr;
}

struct ibv_mr *soft_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	return reg(pd, addr, len, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *soft_ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				    int access)
{
	return reg(pd, addr, len, iova, (unsigned)access);
}

struct ibv_mr *soft_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				     unsigned int access)
{
	return reg(pd, addr, len, iova, access);
}

int soft_ibv_dereg_mr(struct ibv_mr *ibv_mr)
{
	struct soft_mr *mr = (struct soft_mr *)ibv_mr;
	uint32_t place = (ibv_mr->lkey & INDEX_MASK) - 1;
	soft_lock();
	soft.mrs[place] = NULL;
	((struct soft_pd *)ibv_mr->pd)->users--;
	soft_unlock();
	free(mr);
	return 0;
}

struct soft_mr *soft_mr_find(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len,
			     unsigned access)
{
	uint32_t place = (key & INDEX_MASK) - 1;
	struct soft_mr *mr = place < soft.mr_size ? soft.mrs[place] : NULL;
	if (!mr || mr->mr.lkey != key || mr->mr.pd != pd)
		return NULL;
	if (addr < mr->iova || len > mr->mr.length || addr - mr->iova > mr->mr.length - len)
		return NULL;
	return (mr->access & access) == access ? mr : NULL;
}

void *soft_mr_at(const struct soft_mr *mr, uint64_t addr)
{
	return (char *)mr->mr.addr + (addr - mr->iova);
}
