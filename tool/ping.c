/* SPDX-License-Identifier: MIT */
/*
 * weft ping: sends a request now and then, and tells how long the answer to each took. A session
 * that ends is made anew, so that a server that is started again is seen to come back.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "advice.h"
#include "commands.h"
#include "fabric.h"
#include "json.h"
#include "loop.h"
#include "output.h"
#include "rtt.h"
#include "stop.h"
#include "target.h"
#include "units.h"

#define LINGER_MS 500
/* Longer requests are sent from one buffer, which the library does not copy. */
#define COPIED_MAX 16384
/* Requests that have no end yet; more are not sent, so that a server that is gone costs no memory.
 */
#define PENDING_MAX 1024
/* Of a flood: the next request goes when the last one is answered, or after so long. */
#define FLOOD_MS 10
/* At the end, for answers that are just on their way: those would be told as lost. */
#define GRACE_MS 100

static const double percents[] = {50, 90, 99, 99.9};
#define PERCENTS (sizeof(percents) / sizeof(percents[0]))

struct request {
	struct pinger *pinger;
	uint64_t number;
	int64_t sent_ns;
};

struct pinger {
	const struct options *options;
	struct fabric fabric;
	struct weft_addr addr;
	char address[WEFT_ADDR_TEXT_MAX];
	weft_peer peer;
	bool ever_connected;
	bool told_unconnected; /* that it cannot connect again, since when it was connected */
	int told_failure;      /* of requests, since the last answer; 0: none */
	bool printing, dots;   /* what is shown on stdout: lines and a summary; a flood */
	struct weft_buf *buf;
	char data[COPIED_MAX];
	uint64_t sent, received, failed, pending;
	struct rtt rtt;
	int64_t started_ms, next_ms, deadline_ms;
	int last_failure;
	int status; /* -1 while it runs, then the exit status */
};

static void end(struct pinger *pinger, int status)
{
	if (pinger->status < 0)
		pinger->status = status;
}

/* Tells of a request without an answer, but not of each one that fails as the one before it did. */
static void say_unanswered(struct pinger *pinger, uint64_t number, int status)
{
	char time[UNITS_TEXT_MAX];
	bool again = pinger->told_failure == status;
	pinger->told_failure = status;
	if (again && (pinger->options->flood || !output_is_verbose()))
		return;
	if (status == -ETIMEDOUT)
		say("seq=%" PRIu64 ": no answer within %s", number,
		    format_duration(time, pinger->options->timeout_ms));
	else
		say("seq=%" PRIu64 ": no answer: %s (%s)", number,
		    status == -ECONNRESET || status == -ECANCELED ? "the session ended" : "failed",
		    weft_strerror(status));
}

static void on_reply(struct weft_node *node, weft_peer peer, const struct weft_msg *msg, int status,
		     void *user)
{
	struct request *request = user;
	struct pinger *pinger = request->pinger;
	int64_t took_ns = now_ns() - request->sent_ns;
	(void)node;
	(void)peer;
	pinger->pending--;
	if (status == 0) {
		pinger->received++;
		pinger->told_failure = 0;
		rtt_add(&pinger->rtt, took_ns);
		if (pinger->options->flood)
			pinger->next_ms = now_ms();
		if (pinger->dots)
			fputs("\b \b", stdout);
		else if (!pinger->options->quiet && !pinger->options->flood &&
			 !pinger->options->json)
			printf("%zu bytes from %s: seq=%" PRIu64 " time=%.3f ms\n", msg->len,
			       pinger->address, request->number, (double)took_ns / 1e6);
	} else if (pinger->status < 0 || status != -ECANCELED) {
		pinger->failed++;
		pinger->last_failure = status;
		say_unanswered(pinger, request->number, status);
	}
	free(request);
}

static int connect_again(struct pinger *pinger)
{
	return weft_peer_connect(pinger->fabric.node, &pinger->addr, pinger->options->timeout_ms,
				 &pinger->peer);
}

static void on_opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
		      void *user)
{
	struct pinger *pinger = user;
	(void)node;
	if (peer != pinger->peer)
		return;
	if (pinger->options->message_size > info->max_message) {
		end(pinger,
		    fail(EXIT_USAGE, "--size: %s takes messages of at most %" PRIu64 " bytes",
			 pinger->address, info->max_message));
		return;
	}
	if (pinger->ever_connected)
		say("connected to %s again", pinger->address);
	else
		fabric_tell_peer(&pinger->fabric, info);
	pinger->ever_connected = true;
	pinger->told_unconnected = false;
	pinger->next_ms = now_ms();
}

/* Once each time that the server is gone, however often it is tried. */
static void say_unconnected(struct pinger *pinger, const struct weft_closed *closed)
{
	if (pinger->told_unconnected)
		return;
	pinger->told_unconnected = true;
	say("cannot connect to %s again yet: %s; %s", pinger->address, closed->text,
	    advice_unanswered(&pinger->fabric, &pinger->addr, closed));
}

static void on_closed(struct weft_node *node, weft_peer peer, const struct weft_closed *closed,
		      void *user)
{
	struct pinger *pinger = user;
	char time[UNITS_TEXT_MAX];
	(void)node;
	if (peer != pinger->peer || pinger->status >= 0)
		return;
	pinger->last_failure = closed->status;
	format_duration(time, pinger->options->timeout_ms);
	if (!pinger->ever_connected && closed->reason == WEFT_REASON_TIMEOUT)
		end(pinger, fail(EXIT_TIMEOUT, "no answer from %s within %s, never connected; %s",
				 pinger->address, time,
				 advice_unanswered(&pinger->fabric, &pinger->addr, closed)));
	else if (!pinger->ever_connected)
		end(pinger, fail(EXIT_FAILED, "cannot connect to %s: %s", pinger->address,
				 advice_closed(&pinger->fabric, &pinger->addr, closed)));
	else if (closed->opened)
		say("lost %s, connecting again: %s", pinger->address,
		    advice_closed(&pinger->fabric, &pinger->addr, closed));
	else
		say_unconnected(pinger, closed);
	/* With a pause: it is made anew when the next request is due. */
	pinger->peer = WEFT_PEER_NONE;
}

/* Sends one request. */
static void send_request(struct pinger *pinger)
{
	struct weft_send send = WEFT_SEND_INIT;
	struct request *request = pinger->pending < PENDING_MAX ? malloc(sizeof(*request)) : NULL;
	if (pinger->peer == WEFT_PEER_NONE && connect_again(pinger) < 0)
		pinger->peer = WEFT_PEER_NONE;
	pinger->sent++;
	if (!request) {
		pinger->failed++;
		return;
	}
	*request = (struct request){pinger, pinger->sent, now_ns()};
	send.buf = pinger->buf;
	send.data = pinger->buf ? NULL : pinger->data;
	send.len = (size_t)pinger->options->message_size;
	send.timeout_ms = pinger->options->timeout_ms;
	send.reply = on_reply;
	send.user = request;
	int ret = weft_peer_send(pinger->fabric.node, pinger->peer, &send);
	if (ret == 0) {
		pinger->pending++;
		if (pinger->dots)
			putchar('.');
		return;
	}
	free(request);
	pinger->failed++;
	pinger->last_failure = ret;
	if (ret != -ENOBUFS && ret != -ENOTCONN)
		end(pinger, fail(EXIT_FAILED, "cannot send a request of %zu bytes: %s", send.len,
				 fabric_reason(ret)));
}

/* Whether the last request has been sent. */
static bool is_last_sent(const struct pinger *pinger)
{
	return pinger->options->count > 0 && pinger->sent >= pinger->options->count;
}

static void send_due(struct pinger *pinger)
{
	const struct options *options = pinger->options;
	if (!pinger->ever_connected || pinger->status >= 0 || is_last_sent(pinger) ||
	    now_ms() < pinger->next_ms)
		return;
	send_request(pinger);
	int64_t now = now_ms();
	pinger->next_ms += options->flood ? FLOOD_MS : options->interval_ms;
	/* After a stop of this process it does not catch up. */
	if (pinger->next_ms < now)
		pinger->next_ms = now + (options->flood ? FLOOD_MS : options->interval_ms);
}

/* Nobody reads what is printed, so nothing more is. */
static int lose_output(struct pinger *pinger)
{
	pinger->printing = pinger->dots = false;
	return fail_output();
}

static void converse(struct pinger *pinger)
{
	while (pinger->status < 0) {
		int64_t due = pinger->ever_connected && !is_last_sent(pinger) ? pinger->next_ms
									      : INT64_MAX;
		if (pinger->deadline_ms < due)
			due = pinger->deadline_ms;
		if (stop_wanted()) {
			end(pinger, EXIT_INTERRUPTED);
			return;
		}
		if (pinger->deadline_ms <= now_ms() ||
		    (is_last_sent(pinger) && pinger->pending == 0))
			return;
		int ret = loop_turn(pinger->fabric.node, NULL, 0, ms_until(due));
		if (ret < 0)
			end(pinger,
			    fail(EXIT_FAILED, "the fabric is broken: %s", fabric_reason(ret)));
		send_due(pinger);
		if (fflush(stdout) != 0 || ferror(stdout))
			end(pinger, lose_output(pinger));
	}
}

static void await_last(struct pinger *pinger)
{
	int64_t until_ms = now_ms() + GRACE_MS;
	while (pinger->pending > 0 && now_ms() < until_ms) {
		if (loop_turn(pinger->fabric.node, NULL, 0, ms_until(until_ms)) < 0)
			return;
	}
}

/* As ping(8): it went well if anything came back, or, where so many were to come in time, all of
 * them. */
static int conclude(struct pinger *pinger)
{
	const struct options *options = pinger->options;
	bool all = pinger->received >= options->count;
	if (pinger->status >= 0)
		return pinger->status;
	if (!pinger->ever_connected)
		return fail(
			EXIT_TIMEOUT, "no answer from %s within the deadline, never connected; %s",
			pinger->address, advice_unanswered(&pinger->fabric, &pinger->addr, NULL));
	if (pinger->received > 0 && (all || !(options->count && options->deadline_ms)))
		return EXIT_DONE;
	if (pinger->received > 0)
		return fail(EXIT_TIMEOUT,
			    "only %" PRIu64 " of %" PRIu64 " answers came before the deadline",
			    pinger->received, options->count);
	int failure = pinger->last_failure ? pinger->last_failure : -ETIMEDOUT;
	return fail(failure == -ETIMEDOUT ? EXIT_TIMEOUT : EXIT_FAILED,
		    "no answer from %s: %s; does its program answer messages?", pinger->address,
		    weft_strerror(failure));
}

static double percent_lost(const struct pinger *pinger)
{
	uint64_t lost = pinger->sent - pinger->received;
	return pinger->sent ? 100 * (double)lost / (double)pinger->sent : 0;
}

static void print_summary(const struct pinger *pinger)
{
	const struct rtt *rtt = &pinger->rtt;
	printf("%s--- %s ping statistics ---\n",
	       pinger->options->quiet && !pinger->dots ? "" : "\n", pinger->address);
	printf("%" PRIu64 " requests sent, %" PRIu64 " answered, %.4g%% lost, time %" PRId64
	       " ms\n",
	       pinger->sent, pinger->received, percent_lost(pinger), now_ms() - pinger->started_ms);
	if (rtt->count == 0)
		return;
	printf("rtt min/avg/max/mdev = %.3f/%.3f/%.3f/%.3f ms\n", (double)rtt->least / 1e6,
	       rtt->mean / 1e6, (double)rtt->most / 1e6, rtt_deviation(rtt) / 1e6);
	printf("rtt p50/p90/p99/p99.9 =");
	for (size_t i = 0; i < PERCENTS; i++)
		printf("%s%.3f", i ? "/" : " ", (double)rtt_percentile(rtt, percents[i]) / 1e6);
	printf(" ms\n");
}

static void document(const struct pinger *pinger)
{
	const struct rtt *rtt = &pinger->rtt;
	document_set("size", json_number(pinger->options->message_size));
	document_set("sent", json_number(pinger->sent));
	document_set("received", json_number(pinger->received));
	document_set("lost_percent", json_real(percent_lost(pinger)));
	document_set("seconds", json_real((double)(now_ms() - pinger->started_ms) / 1000));
	if (rtt->count == 0) {
		document_set("rtt_ms", json_null());
		return;
	}
	json_t *object = json_pack("{s:f, s:f, s:f, s:f}", "min", (double)rtt->least / 1e6, "avg",
				   rtt->mean / 1e6, "max", (double)rtt->most / 1e6, "mdev",
				   rtt_deviation(rtt) / 1e6);
	for (size_t i = 0; i < PERCENTS; i++) {
		char name[16];
		snprintf(name, sizeof(name), "p%g", percents[i]);
		json_object_set_new(object, name,
				    json_real((double)rtt_percentile(rtt, percents[i]) / 1e6));
	}
	document_set("rtt_ms", object);
}

/* What is sent: recognizable bytes, as of ping(8). */
static int make_data(struct pinger *pinger)
{
	size_t len = (size_t)pinger->options->message_size;
	char *bytes = pinger->data;
	if (len > COPIED_MAX) {
		int ret = weft_buf_alloc(weft_node_net(pinger->fabric.node), len, &pinger->buf);
		if (ret < 0)
			return fail(EXIT_FAILED, "no memory for %zu bytes: %s", len,
				    fabric_reason(ret));
		bytes = weft_buf_data(pinger->buf);
	}
	for (size_t i = 0; i < len; i++)
		bytes[i] = (char)i;
	return EXIT_DONE;
}

static int open_and_ping(struct pinger *pinger)
{
	const struct options *options = pinger->options;
	struct weft_events events = WEFT_EVENTS_INIT;
	struct weft_node_opts limits = WEFT_NODE_OPTS_INIT;
	bool from_rendezvous;
	events.opened = on_opened;
	events.closed = on_closed;
	int status =
		target_find(&pinger->addr, options->address, options->timeout_ms, &from_rendezvous);
	if (status == EXIT_DONE)
		status = fabric_open(&pinger->fabric, options, &limits, &pinger->addr, &events,
				     pinger);
	if (status == EXIT_DONE)
		status = make_data(pinger);
	if (status != EXIT_DONE)
		return status;

	snprintf(pinger->address, sizeof(pinger->address), "%s", address_text(&pinger->addr));
	if (pinger->printing)
		printf("PING %s: %" PRIu64 " bytes of data\n", pinger->address,
		       options->message_size);
	pinger->started_ms = pinger->next_ms = now_ms();
	pinger->deadline_ms =
		options->deadline_ms ? pinger->started_ms + options->deadline_ms : INT64_MAX;
	int ret = connect_again(pinger);
	if (ret < 0)
		return fail(EXIT_FAILED, "cannot connect to %s: %s", pinger->address,
			    fabric_reason(ret));
	converse(pinger);
	await_last(pinger);
	if (pinger->printing && pinger->ever_connected)
		print_summary(pinger);
	document(pinger);
	status = conclude(pinger);
	end(pinger, status);
	return status;
}

int ping_run(const struct options *options)
{
	struct pinger *pinger = calloc(1, sizeof(*pinger));
	if (!pinger)
		return fail(EXIT_FAILED, "no memory");
	pinger->options = options;
	pinger->status = -1;
	pinger->printing = !options->json;
	pinger->dots = options->flood && !options->quiet && !options->json && isatty(STDOUT_FILENO);
	int status = open_and_ping(pinger);
	end(pinger, status);
	fabric_close(&pinger->fabric, LINGER_MS);
	weft_buf_unref(pinger->buf);
	free(pinger);
	return status;
}
