/* SPDX-License-Identifier: MIT */
/* Frames in memory. Calls receive (for what arrives), peer (for credit), and layer 1. */
#include <errno.h>
#include <stdlib.h>

#include "nodeimpl.h"
#include "peer.h"
#include "receive.h"

/* Small frames that are kept for the next use. */
#define SMALL_KEPT 256

void weft__frames_init(struct weft__frames *frames)
{
	*frames = (struct weft__frames){.count = 0};
	TAILQ_INIT(&frames->free);
	TAILQ_INIT(&frames->views);
	SLIST_INIT(&frames->all);
	SLIST_INIT(&frames->all_views);
	TAILQ_INIT(&frames->big);
	TAILQ_INIT(&frames->small);
}

static struct weft__rframe *make_rframe(struct weft_node *node)
{
	struct weft__rframe *frame = calloc(1, sizeof(*frame));
	if (!frame)
		return NULL;
	if (weft_buf_alloc(node->net, node->frame_size, &frame->buf) < 0) {
		free(frame);
		return NULL;
	}
	frame->node = node;
	frame->data = weft_buf_data(frame->buf);
	SLIST_INSERT_HEAD(&node->frames.all, frame, all);
	node->frames.count++;
	return frame;
}

static int post(struct weft_node *node, struct weft__rframe *frame)
{
	int ret = weft_net_recv(node->net, frame->buf, weft__receive, frame);
	if (ret < 0) {
		TAILQ_INSERT_HEAD(&node->frames.free, frame, link);
		return ret;
	}
	node->frames.posted++;
	return 0;
}

int weft__rframes_post(struct weft_node *node)
{
	struct weft__frames *frames = &node->frames;
	while (frames->posted < weft__rframes_wanted(node)) {
		struct weft__rframe *frame = TAILQ_FIRST(&frames->free);
		if (frame)
			TAILQ_REMOVE(&frames->free, frame, link);
		else
			frame = make_rframe(node);
		if (!frame)
			return -ENOMEM;
		int ret = post(node, frame);
		if (ret < 0)
			return ret;
	}
	return 0;
}

struct weft__rframe *weft__rframe_view(struct weft_node *node, struct weft__rframe *bundle,
				       const uint8_t *data, size_t len)
{
	struct weft__rframe *view = TAILQ_FIRST(&node->frames.views);
	if (view) {
		TAILQ_REMOVE(&node->frames.views, view, link);
	} else {
		view = calloc(1, sizeof(*view));
		if (!view)
			return NULL;
		SLIST_INSERT_HEAD(&node->frames.all_views, view, all);
		node->frames.view_count++;
	}
	view->node = node;
	view->buf = bundle->buf;
	view->data = bundle->data + (data - bundle->data);
	view->len = len;
	view->refs = 1;
	view->bundle = bundle;
	bundle->refs++;
	return view;
}

void weft__rframe_unref(struct weft_node *node, struct weft__rframe *frame)
{
	if (--frame->refs > 0)
		return;
	if (frame->counted)
		weft__peer_freed(node, frame->peer);
	frame->counted = false;
	if (frame->bundle) {
		TAILQ_INSERT_HEAD(&node->frames.views, frame, link);
		weft__rframe_unref(node, frame->bundle);
	} else if (node->closing || node->frames.posted >= weft__rframes_wanted(node))
		TAILQ_INSERT_HEAD(&node->frames.free, frame, link);
	else
		post(node, frame);
}

static struct weft__sframe *make_sframe(struct weft_node *node, bool small)
{
	struct weft__sframe *frame = calloc(1, sizeof(*frame));
	if (!frame)
		return NULL;
	size_t size = small ? WEFT__SMALL_FRAME : node->frame_size;
	if (weft_buf_alloc(node->net, size, &frame->buf) < 0) {
		free(frame);
		return NULL;
	}
	frame->node = node;
	frame->data = weft_buf_data(frame->buf);
	frame->small = small;
	if (small)
		node->frames.small_count++;
	else
		node->frames.big_count++;
	return frame;
}

static void free_sframe(struct weft__frames *frames, struct weft__sframe *frame)
{
	if (frame->small)
		frames->small_count--;
	else
		frames->big_count--;
	weft_buf_unref(frame->buf);
	free(frame);
}

struct weft__sframe *weft__sframe_take(struct weft_node *node, bool small)
{
	struct weft__frames *frames = &node->frames;
	struct weft__sframes *list = small ? &frames->small : &frames->big;
	if (!small && frames->big_used >= frames->big_max)
		return NULL;
	struct weft__sframe *frame = TAILQ_FIRST(list);
	if (frame)
		TAILQ_REMOVE(list, frame, link);
	else
		frame = make_sframe(node, small);
	if (!frame)
		return NULL;
	if (!small)
		frames->big_used++;
	frame->peer = NULL;
	frame->len = 0;
	frame->costs = false;
	frame->control = 0;
	frame->out = NULL;
	frame->route = NULL;
	return frame;
}

void weft__sframe_give(struct weft_node *node, struct weft__sframe *frame, bool spoilt)
{
	struct weft__frames *frames = &node->frames;
	if (!frame->small)
		frames->big_used--;
	if (spoilt || (frame->small && frames->small_count > SMALL_KEPT))
		free_sframe(frames, frame);
	else if (frame->small)
		TAILQ_INSERT_HEAD(&frames->small, frame, link);
	else
		TAILQ_INSERT_HEAD(&frames->big, frame, link);
}

size_t weft__frames_memory(const struct weft_node *node)
{
	const struct weft__frames *frames = &node->frames;
	return frames->count * (sizeof(struct weft__rframe) + node->frame_size) +
	       frames->view_count * sizeof(struct weft__rframe) +
	       frames->big_count * (sizeof(struct weft__sframe) + node->frame_size) +
	       frames->small_count * (sizeof(struct weft__sframe) + WEFT__SMALL_FRAME);
}

static void free_list(struct weft__frames *frames, struct weft__sframes *list)
{
	struct weft__sframe *frame;
	while ((frame = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, frame, link);
		free_sframe(frames, frame);
	}
}

void weft__frames_free(struct weft__frames *frames)
{
	struct weft__rframe *frame;
	while ((frame = SLIST_FIRST(&frames->all))) {
		SLIST_REMOVE_HEAD(&frames->all, all);
		weft_buf_unref(frame->buf);
		free(frame);
	}
	while ((frame = SLIST_FIRST(&frames->all_views))) {
		SLIST_REMOVE_HEAD(&frames->all_views, all);
		free(frame);
	}
	free_list(frames, &frames->big);
	free_list(frames, &frames->small);
}
