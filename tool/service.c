/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "service.h"

/* Longer answers go out of a buffer of their own, which the library does not copy. */
#define COPIED_MAX ((size_t)16384)
/* Messages of one client that may wait for their answers; one with more does not take what it asked
 * for. */
#define WAITING_MAX 256

struct answer {
	struct service_state *service;
	weft_peer peer;
	struct weft_buf *buf; /* NULL: the answer was copied */
	size_t len;
};

void service_init(struct service_state *service, enum service kind, uint64_t memory_max)
{
	*service = (struct service_state){.kind = kind, .memory_max = memory_max};
	TAILQ_INIT(&service->stuck);
}

struct client *service_add(struct service_state *service, weft_peer peer,
			   const struct weft_addr *addr)
{
	struct client *client = calloc(1, sizeof(*client));
	if (!client)
		return NULL;
	client->service = service;
	client->peer = peer;
	weft_addr_format(addr, client->name, sizeof(client->name));
	STAILQ_INIT(&client->waiting);
	return client;
}

static void drop_first(struct client *client)
{
	struct waiting *first = STAILQ_FIRST(&client->waiting);
	STAILQ_REMOVE_HEAD(&client->waiting, link);
	client->waiting_count--;
	weft_msg_release(first->msg);
	free(first);
	if (STAILQ_EMPTY(&client->waiting))
		TAILQ_REMOVE(&client->service->stuck, client, link);
}

void service_remove(struct client *client)
{
	client->service->failed += client->waiting_count;
	while (!STAILQ_EMPTY(&client->waiting))
		drop_first(client);
	free(client);
}

static void on_answered(struct weft_node *node, weft_peer peer, int status, void *user)
{
	struct answer *answer = user;
	struct service_state *service = answer->service;
	struct client *client = weft_peer_data(node, peer);
	if (status == 0)
		service->replies++;
	else
		service->failed++;
	if (status == 0 && client && output_is_verbose())
		say_more("%s sent to %s (len=%zu)",
			 service->kind == SERVICE_REVERSE ? "reversed message" : "answer",
			 client->name, answer->len);
	else if (status < 0)
		say_more("answer of %zu bytes not known to have arrived: %s", answer->len,
			 weft_strerror(status));
	if (answer->buf)
		service->memory -= answer->len;
	weft_buf_unref(answer->buf);
	free(answer);
}

/* Writes the answer to a message to out, which has room for it. */
static void make_answer(enum service kind, char *out, const struct weft_msg *msg)
{
	const char *in = msg->data;
	if (kind == SERVICE_ECHO) {
		memcpy(out, in, msg->len);
		return;
	}
	for (size_t i = 0; i < msg->len; i++)
		out[i] = in[msg->len - 1 - i];
}

/* Answers a message. Returns 0, -ENOBUFS if that has to be tried again, or why it cannot be. */
static int answer_message(struct client *client, const struct weft_msg *msg)
{
	static char copied[COPIED_MAX];
	struct service_state *service = client->service;
	struct weft_send send = WEFT_SEND_INIT;
	size_t len = service->kind == SERVICE_DISCARD ? 0 : msg->len;
	struct weft_buf *buf = NULL;
	if (len > COPIED_MAX) {
		if (service->memory > 0 && service->memory + len > service->memory_max)
			return -ENOBUFS;
		int ret = weft_buf_alloc(weft_node_net(service->node), len, &buf);
		if (ret < 0)
			return ret;
	}
	struct answer *answer = malloc(sizeof(*answer));
	if (!answer) {
		weft_buf_unref(buf);
		return -ENOMEM;
	}
	*answer = (struct answer){service, client->peer, buf, len};
	if (len > 0)
		make_answer(service->kind, buf ? weft_buf_data(buf) : copied, msg);
	send.buf = buf;
	send.data = buf || len == 0 ? NULL : copied;
	send.len = len;
	/* A client that is slow is not to lose its answer while its session is alive. */
	send.timeout_ms = -1;
	send.sent = on_answered;
	send.user = answer;
	int ret = weft_msg_reply(service->node, msg, &send);
	if (ret < 0) {
		weft_buf_unref(buf);
		free(answer);
	} else if (buf) {
		service->memory += len;
	}
	return ret;
}

/* An answer that cannot be sent, now or later. */
static void give_up(struct client *client, const char *why)
{
	if (client->closing)
		return;
	client->closing = true;
	client->service->failed++;
	say("closing the session with %s: %s", client->name, why);
	weft_peer_close(client->service->node, client->peer, 0);
}

static void postpone(struct client *client, const struct weft_msg *msg)
{
	struct waiting *waiting =
		client->waiting_count < WAITING_MAX ? malloc(sizeof(*waiting)) : NULL;
	if (client->waiting_count >= WAITING_MAX) {
		give_up(client, "it sends, and does not take the answers");
		return;
	}
	if (waiting)
		waiting->msg = weft_msg_hold(client->service->node, msg);
	if (!waiting || !waiting->msg) {
		free(waiting);
		give_up(client, "no memory for a message");
		return;
	}
	if (client->waiting_count++ == 0)
		TAILQ_INSERT_TAIL(&client->service->stuck, client, link);
	STAILQ_INSERT_TAIL(&client->waiting, waiting, link);
}

static void answer_or_give_up(struct client *client, int ret)
{
	if (ret == -EMSGSIZE)
		give_up(client, "it takes no messages as long as the answer");
	else if (ret < 0 && ret != -ENOTCONN && ret != -ECANCELED)
		give_up(client, weft_strerror(ret));
	else if (ret < 0)
		client->service->failed++;
}

void service_message(struct client *client, const struct weft_msg *msg)
{
	struct service_state *service = client->service;
	service->messages++;
	service->bytes += msg->len;
	if (output_is_verbose())
		say_more("message received from %s (len=%zu): %s", client->name, msg->len,
			 message_preview(msg->data, msg->len));
	int ret = client->waiting_count > 0 ? -ENOBUFS : answer_message(client, msg);
	if (ret == -ENOBUFS)
		postpone(client, msg);
	else
		answer_or_give_up(client, ret);
}

/* Answers what waits of one client, as far as that goes. */
static void resume_client(struct client *client)
{
	while (client->waiting_count > 0) {
		int ret = answer_message(client, STAILQ_FIRST(&client->waiting)->msg);
		if (ret == -ENOBUFS)
			return;
		answer_or_give_up(client, ret);
		drop_first(client);
	}
}

void service_resume(struct service_state *service)
{
	struct client *last = TAILQ_LAST(&service->stuck, clients);
	for (bool more = last != NULL; more;) {
		struct client *client = TAILQ_FIRST(&service->stuck);
		more = client != last;
		resume_client(client);
		/* The others come first the next time, should there be too little for all. */
		if (client->waiting_count > 0) {
			TAILQ_REMOVE(&service->stuck, client, link);
			TAILQ_INSERT_TAIL(&service->stuck, client, link);
		}
	}
}
