/* SPDX-License-Identifier: MIT */
/* Buffers: registered memory, counted references. Calls pages, random, log and libfabric's memory registration. */
#ifndef WEFT_BUF_H
#define WEFT_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <rdma/fi_domain.h>

#include <weft/net.h>

#include "pages.h"

struct weft_buf {
	struct weft_net *net; /* NULL once the net is closed */
	uint8_t *data;
	size_t size;
	size_t refs;
	size_t held;  /* of these, of operations that have ended for the caller and that the provider still has */
	struct weft__region *region; /* that data is a part of, or NULL */
	bool wrapped; /* data is the caller's, to be given back by release */
	weft_release_fn *release;
	void *user;
	struct fid_mr *mr;
	struct fid_mr *shared; /* the registration for one-sided access, or NULL */
	unsigned access;       /* of it */
	bool outlives;         /* see weft__buf_outlive() */
	TAILQ_ENTRY(weft_buf) link;
	struct weft_buf *next_kept; /* of those that live as long as the process */
};

TAILQ_HEAD(weft__buf_list, weft_buf);

/* Frees a buffer, or gives it back to its owner, when the last reference is gone. */
void weft__buf_free(struct weft_buf *buf);

static inline struct weft_buf *weft__buf_ref(struct weft_buf *buf)
{
	buf->refs++;
	return buf;
}

static inline void weft__buf_unref(struct weft_buf *buf)
{
	if (buf && --buf->refs == 0)
		weft__buf_free(buf);
}

/* The provider may still write to it: takes a reference, one however often, until the endpoint is closed. */
void weft__buf_outlive(struct weft_buf *buf);

/* Closes the registrations of all buffers, when the endpoint is closed. Returns how many could not be closed. */
int weft__bufs_detach(struct weft_net *net);

/* The endpoint is abandoned: every buffer that still exists must live as long as the process. Returns how many. */
int weft__bufs_abandon(struct weft_net *net);

#endif
