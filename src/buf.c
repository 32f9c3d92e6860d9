/* SPDX-License-Identifier: MIT */
/*
 * Buffers: registration, references. Calls pages, random, log and libfabric's memory registration.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "netimpl.h"
#include "random.h"

#define KEY_TRIES 8
/*
 * Registers memory. The key is libfabric's where the provider wants that, else random: a guessable
 * one opens the door.
 */
static int reg(struct weft_net *net, void *data, size_t size, uint64_t access, struct fid_mr **mr)
{
	const struct fi_domain_attr *domain = net->choice.info->domain_attr;
	int ret = 0;
	for (int tries = 0; tries < KEY_TRIES; tries++) {
		uint64_t key = 0;
		if (!(domain->mr_mode & FI_MR_PROV_KEY)) {
			ret = weft__random(&key, sizeof(key));
			if (ret < 0)
				return ret;
			if (domain->mr_key_size < sizeof(key))
				key &= ((uint64_t)1 << (8 * domain->mr_key_size)) - 1;
		}
		ret = fi_mr_reg(net->domain, data, size, access, 0, key, 0, mr, NULL);
		if (ret != -FI_ENOKEY)
			break;
	}
	if (ret < 0)
		weft__log(&net->log, WEFT_LOG_ERROR, "cannot register %zu bytes of memory: %s%s",
			  size, weft_strerror(ret),
			  ret == -ENOMEM ? "; raise RLIMIT_MEMLOCK (ulimit -l)" : "");
	return ret;
}

static int make(struct weft_net *net, void *data, size_t size, struct weft_buf **out)
{
	struct weft_buf *buf = calloc(1, sizeof(*buf));
	if (!buf)
		return -ENOMEM;
	uint64_t access = FI_SEND | FI_RECV;
	/* The near side of reads and writes; it opens nothing to the far side. */
	if (weft__has(net, FI_RMA))
		access |= FI_READ | FI_WRITE;
	int ret = reg(net, data, size, access, &buf->mr);
	if (ret < 0) {
		free(buf);
		return ret;
	}
	buf->net = net;
	buf->data = data;
	buf->size = size;
	buf->refs = 1;
	TAILQ_INSERT_TAIL(&net->bufs, buf, link);
	net->stats.buffers++;
	net->stats.buffer_bytes += size;
	*out = buf;
	return 0;
}

int weft_buf_alloc(struct weft_net *net, size_t size, struct weft_buf **buf)
{
	if (size == 0)
		return -EINVAL;
	if (net->closing)
		return -ECANCELED;
	struct weft__region *region;
	struct weft__regions *regions = net->choice.quirks->huge_pages ? &net->regions : NULL;
	void *data = weft__pages_alloc(regions, size, &region);
	if (!data)
		return -ENOMEM;
	int ret = make(net, data, size, buf);
	if (ret < 0)
		weft__pages_free(data, size, region);
	else
		(*buf)->region = region;
	return ret;
}

int weft_buf_wrap(struct weft_net *net, void *data, size_t size, weft_release_fn *release,
		  void *user, struct weft_buf **buf)
{
	if (!data || size == 0)
		return -EINVAL;
	if (net->closing)
		return -ECANCELED;
	int ret = make(net, data, size, buf);
	if (ret < 0)
		return ret;
	(*buf)->wrapped = true;
	(*buf)->release = release;
	(*buf)->user = user;
	return 0;
}

void *weft_buf_data(struct weft_buf *buf)
{
	return buf->data;
}

size_t weft_buf_size(const struct weft_buf *buf)
{
	return buf->size;
}

struct weft_buf *weft_buf_ref(struct weft_buf *buf)
{
	return weft__buf_ref(buf);
}

void weft_buf_unref(struct weft_buf *buf)
{
	weft__buf_unref(buf);
}

/* Closes the registrations. Returns how many could not be closed. */
static int close_regs(struct weft_buf *buf)
{
	int failed = 0;
	if (buf->shared && fi_close(&buf->shared->fid) < 0)
		failed++;
	if (buf->mr && fi_close(&buf->mr->fid) < 0)
		failed++;
	buf->shared = NULL;
	buf->mr = NULL;
	return failed;
}

static void leave_net(struct weft_net *net, struct weft_buf *buf)
{
	TAILQ_REMOVE(&net->bufs, buf, link);
	net->stats.buffers--;
	net->stats.buffer_bytes -= buf->size;
	buf->net = NULL;
}

/*
 * The buffers that live as long as the process, since a device may go on touching them. Nobody
 * walks this list: it is there so that whoever looks for lost memory sees that these are not lost.
 */
static struct weft_buf *_Atomic kept;

/* Takes the buffer from its net, with a reference that is never dropped. */
static void keep(struct weft_net *net, struct weft_buf *buf)
{
	weft__buf_ref(buf);
	leave_net(net, buf);
	do {
		buf->next_kept = atomic_load(&kept);
	} while (!atomic_compare_exchange_weak(&kept, &buf->next_kept, buf));
}

/* The owner's function must not find the net in the middle of something and close it. */
static void give_back(struct weft_net *net, struct weft_buf *buf)
{
	bool in_callback = net && net->in_callback;
	if (net)
		net->in_callback = true;
	buf->release(buf->data, buf->size, buf->user);
	if (net)
		net->in_callback = in_callback;
}

void weft__buf_free(struct weft_buf *buf)
{
	struct weft_net *net = buf->net;
	if (close_regs(buf) > 0) {
		/* The provider goes on using the memory: it must not be freed, nor given back. */
		weft__log(&net->log, WEFT_LOG_ERROR,
			  "cannot deregister %zu bytes; they are kept for ever", buf->size);
		keep(net, buf);
		return;
	}
	if (net)
		leave_net(net, buf);
	if (!buf->wrapped)
		weft__pages_free(buf->data, buf->size, buf->region);
	else if (buf->release)
		give_back(net, buf);
	free(buf);
}

int weft_buf_share(struct weft_buf *buf, unsigned access, struct weft_remote *remote)
{
	struct weft_net *net = buf->net;
	if (!net || !access || (access & ~(WEFT_ACCESS_READ | WEFT_ACCESS_WRITE)))
		return -EINVAL;
	if (!weft__has(net, FI_RMA))
		return -EOPNOTSUPP;
	if (buf->shared && buf->access != access)
		return -EALREADY;
	if (!buf->shared) {
		uint64_t flags = (access & WEFT_ACCESS_READ ? FI_REMOTE_READ : 0) |
				 (access & WEFT_ACCESS_WRITE ? FI_REMOTE_WRITE : 0);
		int ret = reg(net, buf->data, buf->size, flags, &buf->shared);
		if (ret < 0)
			return ret;
		buf->access = access;
		/* The net's own reference, until it closes: nothing tells when a peer's access has
		 * ended. */
		weft__buf_ref(buf);
	}
	*remote = (struct weft_remote){
		/* Where the provider does not use virtual addresses, a region starts at 0. */
		.addr = net->choice.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR
				? (uint64_t)(uintptr_t)buf->data
				: 0,
		.key = fi_mr_key(buf->shared),
		.len = buf->size,
	};
	return 0;
}

void weft__buf_outlive(struct weft_buf *buf)
{
	if (!buf->outlives)
		weft__buf_ref(buf);
	buf->outlives = true;
}

int weft__bufs_detach(struct weft_net *net)
{
	struct weft_buf *buf;
	int failed = 0;
	while ((buf = TAILQ_FIRST(&net->bufs))) {
		bool shared = buf->shared, outlives = buf->outlives;
		int ret = close_regs(buf);
		/* What cannot be deregistered may be touched for ever, and is kept for ever. */
		if (ret > 0)
			keep(net, buf);
		else
			leave_net(net, buf);
		failed += ret;
		buf->outlives = false;
		/* The net has a reference for each of the two. */
		if (shared && outlives)
			buf->refs--;
		if (shared || outlives)
			weft__buf_unref(buf);
	}
	weft__regions_detach(&net->regions);
	return failed;
}

int weft__bufs_abandon(struct weft_net *net)
{
	struct weft_buf *buf;
	int count = 0;
	while ((buf = TAILQ_FIRST(&net->bufs))) {
		buf->mr = buf->shared = NULL;
		keep(net, buf);
		count++;
	}
	weft__regions_detach(&net->regions);
	return count;
}
