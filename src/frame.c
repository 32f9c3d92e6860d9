/* SPDX-License-Identifier: MIT */
/* Frames in memory. Calls space, receive (for what arrives), peer (for credit), and layer 1. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nodeimpl.h"
#include "peer.h"
#include "receive.h"

/* Frames to be sent that are kept for the next use, beside as many as may count in the budget. */
#define SPARE_KEPT 256

void weft__frames_init(struct weft_node *node, uint32_t max, uint32_t max_peer)
{
	struct weft__frames *frames = &node->frames;
	uint32_t messages = node->frame_size / WEFT__COMPACT_LEN;
	if (messages > WEFT__BUNDLE_MESSAGES)
		messages = WEFT__BUNDLE_MESSAGES;
	*frames = (struct weft__frames){.max = max, .max_peer = max_peer};
	TAILQ_INIT(&frames->free);
	TAILQ_INIT(&frames->views);
	SLIST_INIT(&frames->all);
	SLIST_INIT(&frames->all_views);
	TAILQ_INIT(&frames->spare);
	weft__spaces_init(&frames->spaces, node->net, node->frame_size, messages,
			  (max + SPARE_KEPT) / WEFT__SHEET_SPACES);
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
	view->is_compact = false;
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

static struct weft__sframe *take_spare(struct weft_node *node)
{
	struct weft__frames *frames = &node->frames;
	struct weft__sframe *frame = TAILQ_FIRST(&frames->spare);
	if (frame) {
		TAILQ_REMOVE(&frames->spare, frame, link);
		return frame;
	}
	frame = calloc(1, sizeof(*frame));
	if (!frame)
		return NULL;
	frame->node = node;
	frames->sframe_count++;
	return frame;
}

static void give_spare(struct weft__frames *frames, struct weft__sframe *frame)
{
	if (frames->sframe_count <= frames->max + SPARE_KEPT) {
		TAILQ_INSERT_HEAD(&frames->spare, frame, link);
		return;
	}
	free(frame);
	frames->sframe_count--;
}

struct weft__sframe *weft__sframe_take(struct weft_node *node, enum weft__sframe_kind kind)
{
	struct weft__frames *frames = &node->frames;
	bool counts = kind != WEFT__CONTROL_FRAME;
	if (counts && frames->counted >= frames->max)
		return NULL;
	struct weft__sframe *frame = take_spare(node);
	if (!frame)
		return NULL;
	frame->space = weft__space_take(&frames->spaces, kind == WEFT__LONG_FRAME);
	if (!frame->space) {
		give_spare(frames, frame);
		return NULL;
	}
	frame->data = frame->space->data;
	frame->counts = counts;
	frames->counted += counts;
	frame->peer = NULL;
	frame->len = 0;
	frame->costs = false;
	frame->control = 0;
	frame->out = NULL;
	frame->route = NULL;
	return frame;
}

bool weft__sframe_lengthen(struct weft_node *node, struct weft__sframe *frame, size_t len)
{
	if (!frame->space->sheet || len <= WEFT__SHORT_SPACE)
		return true;
	struct weft__space *space = weft__space_take(&node->frames.spaces, true);
	if (!space)
		return false;
	memcpy(space->data, frame->data, frame->len);
	weft__space_give(&node->frames.spaces, frame->space, false);
	frame->space = space;
	frame->data = space->data;
	return true;
}

void weft__sframe_empty(struct weft_node *node, struct weft__sframe *frame)
{
	weft__space_give(&node->frames.spaces, frame->space, false);
	frame->space = NULL;
}

void weft__sframe_give(struct weft_node *node, struct weft__sframe *frame, bool spoilt)
{
	struct weft__frames *frames = &node->frames;
	frames->counted -= frame->counts;
	if (frame->space)
		weft__space_give(&frames->spaces, frame->space, spoilt);
	give_spare(frames, frame);
}

size_t weft__frames_memory(const struct weft_node *node)
{
	const struct weft__frames *frames = &node->frames;
	return frames->count * (sizeof(struct weft__rframe) + node->frame_size) +
	       frames->view_count * sizeof(struct weft__rframe) +
	       frames->sframe_count * sizeof(struct weft__sframe) +
	       weft__spaces_memory(&frames->spaces);
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
	struct weft__sframe *spare;
	while ((spare = TAILQ_FIRST(&frames->spare))) {
		TAILQ_REMOVE(&frames->spare, spare, link);
		free(spare);
	}
	weft__spaces_free(&frames->spaces);
}
