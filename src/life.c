/* SPDX-License-Identifier: MIT */
/* The life of a peer: events, actions, timers, the end. Calls session, transmit, message, peer,
 * reason, stranger. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "life.h"
#include "nodeimpl.h"
#include "peer.h"
#include "reason.h"
#include "transmit.h"

#define DEFAULT_LINGER_MS 5000
/* How long a session that is gone waits for its last frame to leave, and for chunks on their way to
 * it. */
#define LAST_FRAME_MS 2500
/* Whatever has been sent or is missing is looked at after this time. */
#define EXPECT_MS 1000
#define WHY_MAX 256

void weft__life_reason(struct weft__peer *peer, enum weft_reason reason, const char *format, ...)
{
	char text[WHY_MAX];
	va_list args;
	if (peer->reason != WEFT_REASON_NONE)
		return;
	peer->reason = reason;
	if (!format)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* Without memory the reason alone has to do. */
	peer->why = strdup(text);
}

void weft__life_set_timer(struct weft_node *node, struct weft__peer *peer)
{
	int ms = peer->s.state == WEFT__GONE ? LAST_FRAME_MS
					     : weft__session_next(&peer->s, node->now);
	if (peer->timer_on)
		weft__deadline_remove(&node->peer_timers, &peer->timer);
	weft__deadline_add(&node->peer_timers, &peer->timer, ms);
	peer->timer_on = true;
	peer->timer_ms = node->now + ms;
}

void weft__life_expect(struct weft_node *node, struct weft__peer *peer)
{
	if (peer->timer_on && peer->timer_ms - node->now > EXPECT_MS)
		weft__life_set_timer(node, peer);
}

static void drop_early(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__rframe *frame;
	while ((frame = TAILQ_FIRST(&peer->early))) {
		TAILQ_REMOVE(&peer->early, frame, link);
		weft__rframe_unref(node, frame);
	}
}

static bool close_waits(const struct weft__peer *peer)
{
	const struct weft__sframe *frame;
	TAILQ_FOREACH (frame, &peer->queue, link) {
		if (frame->type == WEFT__CLOSE)
			return true;
	}
	return false;
}

static void count_end(struct weft_node *node, const struct weft__peer *peer)
{
	if (peer->opened)
		node->stats.closed++;
	else
		node->stats.failed++;
	if (peer->reason == WEFT_REASON_LOST)
		node->stats.lost++;
	if (peer->reason == WEFT_REASON_RESTARTED || peer->reason == WEFT_REASON_UNKNOWN)
		node->stats.restarted++;
}

/* The session is gone: all but what its last frame and the caller need is given back. */
static void end(struct weft_node *node, struct weft__peer *peer)
{
	if (peer->is_half_open) {
		TAILQ_REMOVE(&node->half_open, peer, half_open);
		node->strangers.half_open--;
		peer->is_half_open = false;
	}
	if (peer->counted)
		node->open_peers--;
	peer->counted = false;
	weft__credit_close(&node->pool, &peer->s.credit);
	drop_early(node, peer);
	weft__in_end(peer);
	weft__bulk_end(node, peer);
	if (peer->is_starved)
		TAILQ_REMOVE(&node->starved, peer, starved);
	peer->is_starved = false;
	/* A CLOSE that is still behind messages leaves without them. */
	if (close_waits(peer))
		peer->wanted |= WEFT__WANT_CLOSE;
	weft__transmit_cancel(node, peer);
	peer->wanted &= WEFT__WANT_CLOSE | WEFT__WANT_CLOSED;
	if (peer->told) {
		count_end(node, peer);
		TAILQ_INSERT_TAIL(&node->ending, peer, ending);
		peer->is_ending = true;
	}
	weft__life_set_timer(node, peer);
	weft__peer_mark_dirty(node, peer);
}

/* All sessions with the same address and another process are over. */
static void replace(struct weft_node *node, const struct weft__peer *newer)
{
	for (uint32_t i = 0; i < node->table_size; i++) {
		struct weft__peer *peer = node->table[i];
		if (peer && peer->dest == newer->dest && peer->s.instance != newer->s.instance &&
		    (peer->s.state == WEFT__OPEN || peer->s.state == WEFT__CLOSING))
			weft__life_fail(node, peer, WEFT_REASON_RESTARTED, NULL);
	}
}

static void tell_opened(struct weft_node *node, struct weft__peer *peer)
{
	struct weft_peer_info info = WEFT_PEER_INFO_INIT;
	if (!node->events.opened)
		return;
	weft_peer_get_info(node, peer->handle, &info);
	bool before = weft__callback_begin(node);
	node->events.opened(node, peer->handle, &info, node->user);
	weft__callback_end(node, before);
}

/* Messages may have been queued before it was known how long they may be. */
static bool queue_fits(const struct weft__peer *peer)
{
	const struct weft__sframe *frame;
	TAILQ_FOREACH (frame, &peer->queue, link) {
		if (frame->out && frame->out->len > peer->s.peer_max_message)
			return false;
	}
	return true;
}

static void opened(struct weft_node *node, struct weft__peer *peer)
{
	if (peer->is_half_open) {
		TAILQ_REMOVE(&node->half_open, peer, half_open);
		node->strangers.half_open--;
		peer->is_half_open = false;
		weft__stranger_opened(node, node->now - peer->s.begun_ms);
	}
	if (!peer->counted && (node->open_peers >= node->opts.max_peers || node->closing)) {
		weft__life_fail(node, peer, node->closing ? WEFT_REASON_SHUTDOWN : WEFT_REASON_FULL,
				NULL);
		return;
	}
	if (!peer->counted)
		node->open_peers++;
	peer->counted = peer->told = peer->opened = true;
	peer->s.give_up_ms = INT64_MAX;
	/* What an attempt said before it succeeded is no reason for an end. */
	peer->reason = WEFT_REASON_NONE;
	free(peer->why);
	peer->why = NULL;
	peer->by_peer = peer->over_there = false;
	peer->code = peer->prov_errno = 0;
	peer->advice = NULL;
	node->stats.opened++;
	weft__log(&node->log, WEFT_LOG_DEBUG, "a session is open with %s", peer->provider);
	weft__transmit_renumber(peer);
	weft__peer_mark_owing(node, peer);
	weft__peer_mark_dirty(node, peer);
	weft__life_set_timer(node, peer);
	tell_opened(node, peer);
	if (!queue_fits(peer))
		weft__life_fail(node, peer, WEFT_REASON_PROTOCOL,
				"a message was sent that is longer than the peer takes");
}

/* The CLOSE of a session that the caller closes takes its place behind what waits. */
static void queue_close(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__sframe *frame = weft__sframe_take(node, WEFT__CONTROL_FRAME);
	if (!frame) {
		/* Without memory for it there is no waiting for what is in the queue. */
		peer->s.give_up_ms = node->now;
		return;
	}
	struct weft__farewell farewell = {.reason = (uint16_t)peer->reason};
	frame->len = WEFT__HEADER_LEN + weft__wire_put_close(frame->data + WEFT__HEADER_LEN,
							     WEFT__SHORT_SPACE - WEFT__HEADER_LEN,
							     &farewell);
	weft__transmit_queue(peer, frame, WEFT__CLOSE);
}

static void act(struct weft_node *node, struct weft__peer *peer, unsigned actions)
{
	static const struct {
		unsigned action, control;
	} frames[] = {
		{WEFT__DO_CONNECT, WEFT__WANT_CONNECT}, {WEFT__DO_ACCEPT, WEFT__WANT_ACCEPT},
		{WEFT__DO_CONFIRM, WEFT__WANT_CREDIT},	{WEFT__DO_PING, WEFT__WANT_PING},
		{WEFT__DO_PONG, WEFT__WANT_PONG},	{WEFT__DO_CLOSED, WEFT__WANT_CLOSED},
	};
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		if (!(actions & frames[i].action))
			continue;
		peer->wanted |= frames[i].control;
		weft__peer_mark_dirty(node, peer);
	}
	if (actions & WEFT__DO_PING)
		weft__session_pinged(&peer->s, node->now);
	if (actions & WEFT__DO_CLOSE) {
		if (peer->s.state == WEFT__GONE)
			peer->wanted |= WEFT__WANT_CLOSE;
		else
			queue_close(node, peer);
		weft__peer_mark_dirty(node, peer);
	}
	if (actions & WEFT__DO_REPLACE)
		replace(node, peer);
	if (peer->s.state == WEFT__GONE)
		end(node, peer);
	else if (actions & WEFT__DO_OPENED)
		opened(node, peer);
}

unsigned weft__life_event(struct weft_node *node, struct weft__peer *peer, enum weft__event event)
{
	unsigned actions = weft__session_step(&peer->s, event);
	if (actions & WEFT__DO_DROP)
		node->stats.drop_state++;
	else
		act(node, peer, actions);
	return actions;
}

void weft__life_fail(struct weft_node *node, struct weft__peer *peer, enum weft_reason reason,
		     const char *format, ...)
{
	char text[WHY_MAX] = "";
	va_list args;
	if (peer->s.state == WEFT__GONE)
		return;
	if (format) {
		va_start(args, format);
		vsnprintf(text, sizeof(text), format, args);
		va_end(args);
	}
	/* What is found now outweighs what a close of the caller's had said. */
	if (peer->reason == WEFT_REASON_CLOSED || peer->reason == WEFT_REASON_SHUTDOWN)
		peer->reason = WEFT_REASON_NONE;
	weft__life_reason(peer, reason, format ? "%s" : NULL, text);
	weft__life_event(node, peer, WEFT__FAIL);
}

void weft__life_close(struct weft_node *node, struct weft__peer *peer, enum weft_reason reason,
		      int linger_ms)
{
	node->now = weft__clock_coarse_ms();
	peer->reason = reason;
	free(peer->why);
	peer->why = NULL;
	peer->close_queued = true;
	if (peer->s.state == WEFT__OPEN)
		peer->s.give_up_ms = node->now + (linger_ms < 0 ? DEFAULT_LINGER_MS : linger_ms);
	weft__life_event(node, peer, WEFT__USER_CLOSE);
	if (peer->s.state == WEFT__CLOSING && linger_ms == 0)
		weft__life_event(node, peer, WEFT__TIMEOUT);
	else if (peer->s.state == WEFT__CLOSING)
		weft__life_set_timer(node, peer);
}

static void give_reason(struct weft_node *node, struct weft__peer *peer, enum weft__event event)
{
	long long ms = (long long)(node->now - peer->s.begun_ms);
	if (event == WEFT__TIMEOUT && peer->s.state == WEFT__CONNECTING) {
		/* What the fabric said meanwhile is the best explanation that there is. */
		if (peer->reason == WEFT_REASON_NONE)
			weft__life_reason(peer, WEFT_REASON_TIMEOUT, "waited %lld ms", ms);
	} else if (event == WEFT__SILENT) {
		peer->reason = WEFT_REASON_NONE;
		weft__life_reason(peer, WEFT_REASON_LOST,
				  "nothing was heard for %lld ms, and a question was not answered",
				  (long long)(node->now - peer->s.heard_ms));
	}
}

static void tick_peer(struct weft_node *node, struct weft__peer *peer, bool empty)
{
	if (peer->s.state == WEFT__GONE) {
		/* Its last frame has had its time, and so have chunks on their way to it. */
		peer->wanted = 0;
		weft__peer_abandon(node, peer);
		return;
	}
	enum weft__event event = weft__session_tick(&peer->s, node->now, empty);
	if (event == WEFT__FAIL) {
		weft__life_fail(node, peer, WEFT_REASON_GAP, "number %u did not come",
				peer->s.rx_number + 1);
	} else if (event != WEFT__NOTHING) {
		give_reason(node, peer, event);
		weft__life_event(node, peer, event);
	}
	if (weft__session_give_back(&peer->s, node->now)) {
		peer->wanted |= WEFT__WANT_CREDIT;
		weft__peer_mark_dirty(node, peer);
	}
	if (peer->s.state != WEFT__GONE)
		weft__life_set_timer(node, peer);
}

void weft__life_tick(struct weft_node *node, bool empty)
{
	struct weft__deadline_list passed;
	struct weft__deadline *entry;
	if (node->peer_timers.count == 0)
		return;
	weft__deadlines_sweep(&node->peer_timers, node->now, &passed);
	while ((entry = LIST_FIRST(&passed))) {
		struct weft__peer *peer =
			(struct weft__peer *)((char *)entry - offsetof(struct weft__peer, timer));
		LIST_REMOVE(entry, link);
		peer->timer_on = false;
		tick_peer(node, peer, empty);
	}
}

static void tell_closed(struct weft_node *node, struct weft__peer *peer)
{
	char text[2 * WHY_MAX];
	snprintf(text, sizeof(text), "%s%s%s%s", peer->by_peer ? "the other side says: " : "",
		 weft_reason_text(peer->reason), peer->why ? ": " : "", peer->why ? peer->why : "");
	weft__log(&node->log, WEFT_LOG_DEBUG, "a session has ended: %s", text);
	struct weft_closed closed = {
		.size = sizeof(closed),
		.reason = peer->reason,
		.by_peer = peer->by_peer,
		.opened = peer->opened,
		.status = weft__reason_status(peer->reason),
		.code = peer->code,
		.prov_errno = peer->prov_errno,
		.text = text,
		.advice = peer->advice,
	};
	if (!node->events.closed)
		return;
	bool before = weft__callback_begin(node);
	node->events.closed(node, peer->handle, &closed, node->user);
	weft__callback_end(node, before);
}

void weft__life_tell_endings(struct weft_node *node)
{
	/* Those that the callbacks end in turn are for the next turn, or there might be no end. */
	struct weft__peer_list list = TAILQ_HEAD_INITIALIZER(list);
	struct weft__peer *peer;
	TAILQ_CONCAT(&list, &node->ending, ending);
	while ((peer = TAILQ_FIRST(&list))) {
		int status = weft__reason_status(peer->reason);
		if (status == 0)
			status = peer->by_peer ? -ECONNRESET : -ECANCELED;
		TAILQ_REMOVE(&list, peer, ending);
		weft__message_end_all(node, peer, status);
		tell_closed(node, peer);
		peer->is_ending = false;
		/* From here on the caller's handle is stale. */
		peer->handle = 0;
		weft__peer_reap(node, peer);
	}
}
