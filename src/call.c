/* SPDX-License-Identifier: MIT */
/* A request and its answer in one call. Calls the public functions of layer 2. */
#include <errno.h>
#include <stdlib.h>

#include "nodeimpl.h"

struct call {
	bool done, abandoned;
	int status;
	struct weft_msg *reply;
};

static void answered(struct weft_node *node, weft_peer peer, const struct weft_msg *msg, int status,
		     void *user)
{
	struct call *call = user;
	(void)peer;
	if (call->abandoned) {
		free(call);
		return;
	}
	call->done = true;
	call->status = status;
	if (!msg)
		return;
	call->reply = weft_msg_hold(node, msg);
	if (!call->reply)
		call->status = -ENOMEM;
}

int weft_call(struct weft_node *node, weft_peer peer, const void *request, size_t len,
	      struct weft_msg **reply, int timeout_ms)
{
	struct weft_send send = WEFT_SEND_INIT;
	if (node->in_callback)
		return -EBUSY;
	struct call *call = calloc(1, sizeof(*call));
	if (!call)
		return -ENOMEM;
	send.data = request;
	send.len = len;
	send.timeout_ms = timeout_ms;
	send.reply = answered;
	send.user = call;
	int ret = weft_peer_send(node, peer, &send);
	if (ret < 0) {
		free(call);
		return ret;
	}
	while (!call->done) {
		ret = weft_node_poll(node, -1);
		if (ret < 0) {
			/* The answer, or its absence, is still to be told: to nobody. */
			call->abandoned = true;
			return ret;
		}
	}
	ret = call->status;
	if (ret == 0)
		*reply = call->reply;
	free(call);
	return ret;
}
