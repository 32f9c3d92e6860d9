/* SPDX-License-Identifier: MIT */
/* The completion queue of the fake fabric, and its descriptor. */
#include <stdio.h>
#include <sys/eventfd.h>

#include "internal.h"

bool fake__may_sleep(int fd)
{
	struct fake__object *object;
	TAILQ_FOREACH (object, &fake__objects, link) {
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
	/* What follows this member came later; fi_cq_readerr() itself sets it in newer headers. */
	static const char zero[offsetof(struct fi_cq_err_entry, err_data_size) + sizeof(size_t)];
	struct fake__cq *cq = (struct fake__cq *)fid;
	if (!fake__usable(&cq->object, "fi_cq_readerr") || flags)
		return -FI_EINVAL;
	int code = fake__gate("fi_cq_readerr", FAKE__CQ_ERROR, NULL);
	if (code)
		return code == FAKE_ZERO ? 0 : -code;
	if (memcmp(entry, zero, sizeof(zero)) != 0)
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

void fake__queue_empty(struct fake__cq *cq)
{
	while (!TAILQ_EMPTY(&cq->completions)) {
		struct fake__completion *completion = TAILQ_FIRST(&cq->completions);
		TAILQ_REMOVE(&cq->completions, completion, link);
		free(completion);
	}
	if (cq->fd >= 0)
		close(cq->fd);
	cq->fd = -1;
}

static int cq_close(struct fid *fid)
{
	struct fake__cq *cq = (struct fake__cq *)fid;
	int code = fake__begin_close(&cq->object);
	if (code)
		return -code;
	fake__queue_empty(cq);
	fake__died(&cq->object);
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

int fake__cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out,
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
	fake__born(&cq->object, "completion queue", &domain->object, cq);
	*out = &cq->fid;
	return 0;
}

static struct fake__ep *ep_at(const struct weft_addr *of)
{
	struct fake__addr addr = {.len = of->len};
	memcpy(addr.raw, of->raw, of->len);
	struct fake__ep *ep = fake__find_ep(&addr);
	if (!ep)
		fake__violation("the test names an endpoint that is not there");
	return ep;
}

static struct fake__cq *cq_at(const struct weft_addr *of)
{
	struct fake__ep *ep = ep_at(of);
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

void fake_repeat(const struct weft_addr *of, int err, int prov_errno)
{
	struct fake__ep *ep = ep_at(of);
	if (!ep || !ep->ended_queue) {
		fake__violation("the test repeats an end that has not been");
		return;
	}
	struct fake__completion again = {
		.entry = {.op_context = ep->ended},
		.source = FI_ADDR_NOTAVAIL,
		.is_error = true,
		.err = err,
		.prov_errno = prov_errno,
	};
	fake__complete(ep->ended_queue, &again);
}

void fake_overrun(const struct weft_addr *of)
{
	struct fake__cq *cq = cq_at(of);
	if (cq)
		cq->overrun = true;
}
