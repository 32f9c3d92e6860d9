/* SPDX-License-Identifier: MIT */
/* Data transfers of the fake fabric: posting, matching messages with receives, one-sided access,
 * completions. */
#include "internal.h"

/* ---- completions */

void fake__signal(struct fake__cq *cq)
{
	uint64_t one = 1;
	if (cq->fd < 0 || !cq->armed)
		return;
	ssize_t ignored = write(cq->fd, &one, sizeof(one));
	(void)ignored;
}

static uint32_t dice = 1;

void fake__transfer_reset(void)
{
	dice = 1;
}

void fake__complete(struct fake__cq *cq, const struct fake__completion *completion)
{
	struct fake__completion *copy = fake__zalloc(sizeof(*copy));
	struct fake__completion *last = TAILQ_LAST(&cq->completions, fake__completions);
	*copy = *completion;
	dice = dice * 1664525 + 1013904223;
	if (last && cq->domain->provider->shuffles && dice >> 31)
		TAILQ_INSERT_BEFORE(last, copy, link);
	else
		TAILQ_INSERT_TAIL(&cq->completions, copy, link);
	if (++cq->count > cq->size)
		cq->overrun = true;
	fake__signal(cq);
}

#define MARKS (sizeof(((struct fi_context2 *)NULL)->internal) / sizeof(void *))

/* What a provider keeps in the caller's context, which is not the caller's business until the end.
 */
static void *mark(const struct fake__work *work, size_t i)
{
	return (void *)((uintptr_t)work ^ (0x5a5a0000u + i));
}

/* Gives memory back to the caller, after a look whether it is as it was. */
static void settle(struct fake__work *work, bool checks)
{
	if (work->poisoned)
		fake__unpoison(work->data, work->len);
	if (checks && work->guarded && fake__sum(work->data, work->len) != work->sum)
		fake__violation("memory was changed while %s had it", work->call);
	work->poisoned = work->guarded = false;
}

void fake__let_go(struct fake__work *work, bool checks)
{
	struct fake__ep *ep = work->ep;
	settle(work, checks);
	bool marked = !ep->provider->no_contexts;
	for (size_t i = 0; checks && marked && i < MARKS; i++) {
		if (work->context->internal[i] != mark(work, i))
			fake__violation("the context of %s was changed or used twice", work->call);
	}
	ep->ended = work->context;
	ep->ended_queue = work->receives ? ep->rx : ep->tx;
	TAILQ_REMOVE(&ep->works, work, link);
	if (work->receives) {
		ep->receives--;
	} else {
		ep->sends--;
		ep->av->entry[work->to].works--;
	}
	if (work->mr)
		work->mr->works--;
	fake__forget_work(work);
	free(work);
}

static void finish_from(struct fake__work *work, size_t len, int err, int prov_errno,
			const char *err_data, const struct fake__packet *packet)
{
	struct fake__ep *ep = work->ep;
	struct fake__cq *cq = work->receives ? ep->rx : ep->tx;
	struct fake__completion completion = {
		.entry = {.op_context = work->context, .len = len},
		.source = FI_ADDR_NOTAVAIL,
		.is_error = err != 0 || prov_errno != 0 || work->fate.outcome == FAKE_BREAK,
		.err = err,
		.prov_errno = prov_errno,
		.err_data = err_data,
	};
	if (packet) {
		completion.entry.tag = packet->tag;
		completion.entry.flags = FI_RECV | (packet->tagged ? FI_TAGGED : FI_MSG) |
					 (packet->has_cq_data ? FI_REMOTE_CQ_DATA : 0);
		completion.entry.data = packet->cq_data;
		/* The source is what the address vector says now, not what it will say when this is
		 * read. */
		for (size_t i = 0; i < FAKE__AV_MAX; i++) {
			if (ep->av->entry[i].used &&
			    fake__addr_equal(&ep->av->entry[i].addr, &packet->from))
				completion.source = FAKE__FIRST_FI_ADDR + i;
		}
	}
	fake__let_go(work, true);
	fake__complete(cq, &completion);
}

void fake__finish(struct fake__work *work, size_t len, int err, int prov_errno,
		  const char *err_data)
{
	finish_from(work, len, err, prov_errno, err_data, NULL);
}

/* ---- matching */

static bool matches(const struct fake__work *work, const struct fake__packet *packet)
{
	if (!work->receives || work->tagged != packet->tagged || work->fate.outcome != FAKE_DELIVER)
		return false;
	return !work->tagged || ((work->tag ^ packet->tag) & ~work->ignore) == 0;
}

/* Puts a message into a receive, and ends both. */
static void land(struct fake__work *work, struct fake__packet *packet)
{
	enum fake_trunc trunc = work->ep->provider->trunc;
	size_t len = packet->len < work->len ? packet->len : work->len;
	int err = 0;
	settle(work, true);
	if (len > 0)
		memcpy(work->data, packet->data, len);
	if (packet->len > work->len && trunc != FAKE_TRUNC_CUT)
		err = trunc == FAKE_TRUNC_ERROR ? FI_ETRUNC : -FI_ETRUNC;
	finish_from(work, len, err, err, NULL, packet);
	fake__packet_free(packet);
}

void fake__match_unexpected(struct fake__work *work)
{
	struct fake__packet *packet;
	TAILQ_FOREACH (packet, &work->ep->unexpected, link) {
		if (matches(work, packet)) {
			TAILQ_REMOVE(&work->ep->unexpected, packet, link);
			land(work, packet);
			return;
		}
	}
}

static void receive(struct fake__ep *ep, struct fake__packet *packet)
{
	struct fake__work *work;
	TAILQ_FOREACH (work, &ep->works, link) {
		if (matches(work, packet)) {
			land(work, packet);
			return;
		}
	}
	TAILQ_INSERT_TAIL(&ep->unexpected, packet, link);
}

/* A read or write that has come to the side whose memory it wants. */
static void serve(struct fake__ep *ep, struct fake__packet *packet)
{
	uint64_t need = packet->reads ? FI_REMOTE_READ : FI_REMOTE_WRITE;
	struct fake__mr *mr;
	LIST_FOREACH (mr, &ep->domain->mrs, link) {
		if (mr->fid.key == packet->remote_key)
			break;
	}
	uint64_t base =
		ep->provider->mr_mode & FI_MR_VIRT_ADDR && mr ? (uint64_t)(uintptr_t)mr->data : 0;
	uint64_t off = packet->remote_addr - base;
	int err = mr && (mr->access & need) && off <= mr->len && packet->len <= mr->len - off
			  ? 0
			  : FI_EACCES;
	if (err == 0 && packet->writes && packet->len > 0)
		memcpy(mr->data + off, packet->data, packet->len);
	if (packet->work) {
		if (err == 0 && packet->reads) {
			settle(packet->work, true);
			if (packet->len > 0)
				memcpy(packet->work->data, mr->data + off, packet->len);
		}
		/* 7 is EFA's code for a bad remote address. */
		fake__finish(packet->work, packet->work->len, err, err ? 7 : 0, NULL);
	}
	fake__packet_free(packet);
}

void fake__progress(struct fake__cq *cq)
{
	struct fake__ep *ep;
	LIST_FOREACH (ep, &fake__eps, link) {
		if (ep->rx != cq || !ep->enabled)
			continue;
		fake__accept(ep);
		while (!TAILQ_EMPTY(&ep->inbox)) {
			struct fake__packet *packet = TAILQ_FIRST(&ep->inbox);
			TAILQ_REMOVE(&ep->inbox, packet, link);
			if (packet->reads || packet->writes)
				serve(ep, packet);
			else
				receive(ep, packet);
		}
	}
}

/* ---- posting */

/* Finds what a post says about its memory wrong. Sets its registration. */
static void check_memory(struct fake__ep *ep, struct fake__work *work, void *desc, uint64_t access)
{
	struct fake__mr *mr;
	if (work->len == 0)
		return;
	if (!desc) {
		if (ep->provider->mr_mode & FI_MR_LOCAL)
			fake__violation("%s without a descriptor, on a provider that needs one",
					work->call);
		return;
	}
	LIST_FOREACH (mr, &ep->domain->mrs, link) {
		if (mr == desc)
			break;
	}
	if (!mr) {
		fake__violation("%s with a descriptor that is none of this domain", work->call);
		return;
	}
	if (work->data < mr->data || work->data + work->len > mr->data + mr->len)
		fake__violation("%s of memory beyond what is registered", work->call);
	if (!(mr->access & access))
		fake__violation("%s of memory that is not registered for it", work->call);
	work->mr = mr;
	mr->works++;
}

static void check_context(const struct fake__ep *ep, const struct fake__work *work)
{
	struct fake__ep *other;
	struct fake__work *known;
	if (!work->context)
		fake__violation("%s without a context, which the provider needs", work->call);
	LIST_FOREACH (other, &fake__eps, link) {
		if (other->domain != ep->domain)
			continue;
		TAILQ_FOREACH (known, &other->works, link) {
			if (known->context == work->context)
				fake__violation("%s with a context that %s has", work->call,
						known->call);
		}
	}
}

/* Takes memory from the caller: it must not change, and what will be written must not even be
 * looked at. */
static void take_memory(struct fake__ep *ep, struct fake__work *work)
{
	struct fake__work *other;
	TAILQ_FOREACH (other, &ep->works, link) {
		/* Two receives into the same bytes are for their caller to make sense of. */
		if (other->data < work->data + work->len && work->data < other->data + other->len &&
		    (work->receives || work->reads || other->receives || other->reads)) {
			settle(other, false);
			return;
		}
	}
	work->sum = fake__sum(work->data, work->len);
	work->guarded = true;
	if (work->receives || work->reads) {
		fake__poison(work->data, work->len);
		work->poisoned = true;
	}
}

static struct fake__av *av_of(struct fake__ep *ep, fi_addr_t to)
{
	if (to - FAKE__FIRST_FI_ADDR >= FAKE__AV_MAX ||
	    !ep->av->entry[to - FAKE__FIRST_FI_ADDR].used) {
		fake__violation("a send to an address that is not in the address vector");
		return NULL;
	}
	return ep->av;
}

/* Whether there is room and somebody at the other end. Returns 0 or a code. */
static int admit(struct fake__ep *ep, const struct fake__work *work)
{
	const struct fake_provider *p = ep->provider;
	if (work->receives)
		return ep->receives < p->rx_size ? 0 : FI_EAGAIN;
	if (ep->sends >= p->tx_size)
		return FI_EAGAIN;
	if (!fake__is_there(&work->to_addr))
		return p->absent == FAKE_ABSENT_AGAIN	 ? FI_EAGAIN
		       : p->absent == FAKE_ABSENT_REFUSE ? FI_ENOENT
							 : 0;
	if (p->connects && !fake__connect(ep, &work->to_addr))
		return FI_EAGAIN;
	return 0;
}

static ssize_t post(struct fid_ep *fid, const struct fake__work *like, fi_addr_t to, void *desc,
		    uint64_t access)
{
	struct fake__ep *ep = (struct fake__ep *)fid;
	struct fake__work *work;
	struct fake__addr to_addr = {.len = 0};
	if (!fake__usable(&ep->object, like->call))
		return -FI_EINVAL;
	if (!ep->enabled)
		fake__violation("%s before fi_enable", like->call);
	if (!like->receives) {
		if (!av_of(ep, to))
			return -FI_EINVAL;
		to -= FAKE__FIRST_FI_ADDR;
		to_addr = ep->av->entry[to].addr;
	}
	int code = fake__gate(like->call, FAKE__POST, like->receives ? NULL : &to_addr);
	if (code)
		return -code;
	if (!like->receives && like->len > ep->provider->max_msg)
		fake__violation("%s of a message that is too long", like->call);
	if (like->has_cq_data && ep->provider->cq_data_size < 8 &&
	    like->cq_data >> (8 * ep->provider->cq_data_size))
		fake__violation("%s with CQ data that the provider cannot carry", like->call);

	work = fake__zalloc(sizeof(*work));
	*work = *like;
	work->ep = ep;
	work->to = to;
	work->to_addr = to_addr;
	check_context(ep, work);
	check_memory(ep, work, desc, access);
	code = admit(ep, work);
	if (code) {
		if (work->mr)
			work->mr->works--;
		free(work);
		return -code;
	}
	if (work->len > 0)
		take_memory(ep, work);
	for (size_t i = 0; !ep->provider->no_contexts && i < MARKS; i++)
		work->context->internal[i] = mark(work, i);
	work->fate = fake__take_fate(work->call, work->receives ? NULL : &to_addr);
	TAILQ_INSERT_TAIL(&ep->works, work, link);
	if (work->receives) {
		ep->receives++;
		if (work->fate.outcome == FAKE_BREAK)
			fake__break_later(work, work->fate.err, work->fate.prov_errno,
					  work->fate.err_data);
		else
			fake__match_unexpected(work);
	} else {
		ep->sends++;
		ep->av->entry[to].works++;
		fake__transmit(work);
	}
	return 0;
}

static uint8_t *bytes(const void *data)
{
	return (uint8_t *)(uintptr_t)data;
}

static ssize_t msg_recv(struct fid_ep *ep, void *data, size_t len, void *desc, fi_addr_t from,
			void *context)
{
	struct fake__work like = {
		.call = "fi_recv", .receives = true, .data = data, .len = len, .context = context};
	return post(ep, &like, from, desc, FI_RECV);
}

static ssize_t msg_send(struct fid_ep *ep, const void *data, size_t len, void *desc, fi_addr_t to,
			void *context)
{
	struct fake__work like = {
		.call = "fi_send", .data = bytes(data), .len = len, .context = context};
	return post(ep, &like, to, desc, FI_SEND);
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *data, size_t len, void *desc,
			    uint64_t cq_data, fi_addr_t to, void *context)
{
	struct fake__work like = {.call = "fi_senddata",
				  .data = bytes(data),
				  .len = len,
				  .context = context,
				  .has_cq_data = true,
				  .cq_data = cq_data};
	return post(ep, &like, to, desc, FI_SEND);
}

static ssize_t tagged_recv(struct fid_ep *ep, void *data, size_t len, void *desc, fi_addr_t from,
			   uint64_t tag, uint64_t ignore, void *context)
{
	struct fake__work like = {.call = "fi_trecv",
				  .receives = true,
				  .tagged = true,
				  .data = data,
				  .len = len,
				  .context = context,
				  .tag = tag,
				  .ignore = ignore};
	return post(ep, &like, from, desc, FI_RECV);
}

static ssize_t tagged_send(struct fid_ep *ep, const void *data, size_t len, void *desc,
			   fi_addr_t to, uint64_t tag, void *context)
{
	struct fake__work like = {.call = "fi_tsend",
				  .tagged = true,
				  .data = bytes(data),
				  .len = len,
				  .context = context,
				  .tag = tag};
	return post(ep, &like, to, desc, FI_SEND);
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *data, size_t len, void *desc,
			       uint64_t cq_data, fi_addr_t to, uint64_t tag, void *context)
{
	struct fake__work like = {.call = "fi_tsenddata",
				  .tagged = true,
				  .data = bytes(data),
				  .len = len,
				  .context = context,
				  .tag = tag,
				  .has_cq_data = true,
				  .cq_data = cq_data};
	return post(ep, &like, to, desc, FI_SEND);
}

static ssize_t rma_read(struct fid_ep *ep, void *data, size_t len, void *desc, fi_addr_t from,
			uint64_t addr, uint64_t key, void *context)
{
	struct fake__work like = {.call = "fi_read",
				  .reads = true,
				  .data = data,
				  .len = len,
				  .context = context,
				  .remote_addr = addr,
				  .remote_key = key};
	return post(ep, &like, from, desc, FI_READ);
}

static ssize_t rma_write(struct fid_ep *ep, const void *data, size_t len, void *desc, fi_addr_t to,
			 uint64_t addr, uint64_t key, void *context)
{
	struct fake__work like = {.call = "fi_write",
				  .writes = true,
				  .data = bytes(data),
				  .len = len,
				  .context = context,
				  .remote_addr = addr,
				  .remote_key = key};
	return post(ep, &like, to, desc, FI_WRITE);
}

struct fi_ops_msg fake__ops_msg = {
	.size = sizeof(fake__ops_msg),
	.recv = msg_recv,
	.send = msg_send,
	.senddata = msg_senddata,
};
struct fi_ops_tagged fake__ops_tagged = {
	.size = sizeof(fake__ops_tagged),
	.recv = tagged_recv,
	.send = tagged_send,
	.senddata = tagged_senddata,
};
struct fi_ops_rma fake__ops_rma = {
	.size = sizeof(fake__ops_rma),
	.read = rma_read,
	.write = rma_write,
};
