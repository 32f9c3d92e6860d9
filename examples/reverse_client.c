/* SPDX-License-Identifier: MIT */
/*
 * A client of the reverse program: sends CONNECT with its own address, so that the server can
 * answer, then DATA with its text, and waits for the reply, all before one deadline.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "reverse.h"
#include "reverse_wire.h"

/* One exchange with a server, and how far it has come. */
struct exchange {
	struct weft_net *net;
	struct options *options;
	weft_dest server;
	struct cookie cookie;
	struct weft_buf *connect, *text, *reply;
	int64_t deadline_ms;
	bool connect_sent, text_sent, answered;
	int status; /* a negative code as soon as something has failed */
};

static void send_failed(struct exchange *exchange, const struct weft_done *done, const char *what)
{
	exchange->status = done->status;
	if (done->status != -ETIMEDOUT && done->status != -ECANCELED)
		say_failure(what, done);
}

static void on_connect_sent(struct weft_net *net, const struct weft_done *done)
{
	struct exchange *exchange = done->user;
	if (done->status < 0) {
		send_failed(exchange, done, "CONNECT not sent");
		return;
	}
	exchange->connect_sent = true;
	printf("CONNECT sent to %s\n", peer_name(net, exchange->server));
}

static void say_text_sent(struct exchange *exchange)
{
	const char *text = exchange->options->text;
	if (!exchange->text_sent)
		say_text("message sent", (const uint8_t *)text, strlen(text));
	exchange->text_sent = true;
}

static void on_text_sent(struct weft_net *net, const struct weft_done *done)
{
	(void)net;
	if (done->status < 0)
		send_failed(done->user, done, "message not sent");
	else
		say_text_sent(done->user);
}

static void on_reply(struct weft_net *net, const struct weft_done *done)
{
	struct exchange *exchange = done->user;
	struct reverse_message message;
	struct cookie cookie = received_cookie(done);
	if (done->status == -ECANCELED)
		return;
	if (done->status < 0) {
		say_failure("receive failed", done);
	} else if (reverse_decode(&message, weft_buf_data(done->buf), done->len) ||
		   message.type != REVERSE_DATA ||
		   (cookie.given && cookie.value != exchange->cookie.value)) {
		say_error("message dropped: it is not the reply");
	} else {
		/* The reply can be seen before the end of the send that it answers. */
		say_text_sent(exchange);
		say_text("reply", message.body, message.len);
		exchange->answered = true;
		return;
	}
	/* Anybody can send to us, so what is not the reply is no reason to stop waiting for it. */
	int ret = weft_net_recv(net, done->buf, on_reply, exchange);
	if (ret < 0)
		exchange->status = ret;
}

/* Polls until *what is true. Returns 0, -ETIMEDOUT, -EINTR after a signal, or what has failed. */
static int wait_for(struct exchange *exchange, const bool *what)
{
	while (!*what) {
		int64_t left = exchange->deadline_ms - now_ms();
		if (exchange->status < 0)
			return exchange->status;
		if (stop_wanted())
			return -EINTR;
		if (left <= 0)
			return -ETIMEDOUT;
		int ret = weft_net_poll(exchange->net, (int)left);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Sends one message of ours, within what is left of the time. */
static int start_send(struct exchange *exchange, struct weft_buf *buf, enum reverse_type type,
		      const void *body, size_t len, weft_done_fn *done)
{
	int64_t left = exchange->deadline_ms - now_ms();
	size_t size = reverse_encode(weft_buf_data(buf), type, body, len);
	if (left <= 0)
		return -ETIMEDOUT;
	return send_message(exchange->net, exchange->server, buf, size, exchange->cookie, (int)left,
			    done, exchange);
}

/* The whole conversation. Returns 0 when the reply has been shown, or a negative code. */
static int converse(struct exchange *exchange, const struct weft_addr *server)
{
	struct weft_addr own;
	char text[WEFT_ADDR_TEXT_MAX];
	weft_net_get_addr(exchange->net, &own);
	weft_addr_format(&own, text, sizeof(text));
	printf("own address: %s\n", text);

	int ret = weft_net_add_peer(exchange->net, server, &exchange->server);
	if (ret == 0)
		ret = weft_buf_alloc(exchange->net, REVERSE_MESSAGE_MAX, &exchange->connect);
	if (ret == 0)
		ret = weft_buf_alloc(exchange->net, REVERSE_MESSAGE_MAX, &exchange->text);
	if (ret == 0)
		ret = weft_buf_alloc(exchange->net, REVERSE_MESSAGE_MAX, &exchange->reply);
	/* The receive has to be there before the server can answer. */
	if (ret == 0)
		ret = weft_net_recv(exchange->net, exchange->reply, on_reply, exchange);
	if (ret == 0)
		ret = start_send(exchange, exchange->connect, REVERSE_CONNECT, own.raw, own.len,
				 on_connect_sent);
	if (ret == 0)
		ret = wait_for(exchange, &exchange->connect_sent);
	if (ret == 0)
		ret = start_send(exchange, exchange->text, REVERSE_DATA, exchange->options->text,
				 strlen(exchange->options->text), on_text_sent);
	if (ret == 0)
		ret = wait_for(exchange, &exchange->answered);
	return ret;
}

/* Says how a conversation ended, if not well, and gives the exit status for it. */
static int conclude(const struct exchange *exchange, int ret)
{
	int ms = exchange->options->timeout_ms;
	if (ret == 0)
		return EXIT_DONE;
	if (ret == -EINTR)
		return EXIT_INTERRUPTED;
	if (ret != -ETIMEDOUT) {
		say_error("failed: %s", weft_strerror(ret));
		return EXIT_FAILED;
	}
	say_error("no answer within %d %s, %s", ms % 1000 ? ms : ms / 1000, ms % 1000 ? "ms" : "s",
		  !exchange->connect_sent ? "never connected"
		  : exchange->text_sent	  ? "sent but not answered"
					  : "connected but the message was not taken");
	return EXIT_TIMEOUT;
}

int run_client(struct options *options)
{
	struct exchange exchange = {.options = options,
				    .deadline_ms = now_ms() + options->timeout_ms};
	struct weft_addr server;
	struct weft_parse_error error;
	size_t len = strlen(options->text);
	if (weft_addr_parse(&server, options->address, &error) < 0) {
		say_error("'%s' is not an address: byte %zu: %s", options->address, error.pos,
			  error.reason);
		return EXIT_USAGE;
	}
	if (len > REVERSE_TEXT_MAX) {
		say_error("a text of %zu bytes is too long: at most %d", len, REVERSE_TEXT_MAX);
		return EXIT_USAGE;
	}
	int status = open_net(&exchange.net, options, &server);
	if (status != EXIT_DONE)
		return status;

	struct weft_net_info info = WEFT_NET_INFO_INIT;
	weft_net_get_info(exchange.net, &info);
	if (len >= info.max_msg) {
		say_error("a text of %zu bytes is too long: at most %zu on this fabric", len,
			  info.max_msg - 1);
		close_net(exchange.net);
		return EXIT_USAGE;
	}
	struct cookie *cookie = &exchange.cookie;
	ssize_t random = getrandom(&cookie->value, sizeof(cookie->value), 0);
	cookie->given = random == (ssize_t)sizeof(cookie->value) &&
			info.cq_data_size >= sizeof(cookie->value);

	status = conclude(&exchange, converse(&exchange, &server));
	/* Ends what is still under way, so that the close has nothing to wait for. */
	weft_net_remove_peer(exchange.net, exchange.server);
	weft_buf_unref(exchange.connect);
	weft_buf_unref(exchange.text);
	weft_buf_unref(exchange.reply);
	close_net(exchange.net);
	return status;
}
