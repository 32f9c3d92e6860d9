/* SPDX-License-Identifier: MIT */
/*
 * Sends a file, however large, as one message: `sendfile OUT` waits for it and prints its address;
 * `sendfile IN ADDRESS` sends it there, straight from a registered buffer, and shows how far it is.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

struct state {
	const char *path;
	weft_peer peer;
	int done; /* 1: the file is there; -1: it never will be */
};

static void log_line(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level <= WEFT_LOG_WARN)
		fprintf(stderr, "sendfile: %s\n", text);
}

/* The whole file has arrived as one message. */
static void on_message(struct weft_node *node, const struct weft_msg *msg, void *user)
{
	struct state *state = user;
	(void)node;
	FILE *file = fopen(state->path, "wb");
	size_t written = file ? fwrite(msg->data, 1, msg->len, file) : 0;
	int closed = file ? fclose(file) : -1;
	state->done = written == msg->len && closed == 0 ? 1 : -1;
	if (state->done < 0)
		perror(state->path);
	else
		printf("%zu bytes\n", msg->len);
}

static void on_closed(struct weft_node *node, weft_peer peer, const struct weft_closed *closed,
		      void *user)
{
	struct state *state = user;
	(void)node;
	(void)peer;
	if (state->done == 0)
		fprintf(stderr, "sendfile: the session ended: %s%s%s\n", closed->text,
			closed->advice ? "; " : "", closed->advice ? closed->advice : "");
	if (state->done == 0)
		state->done = -1;
}

/* Status 0 means that the other side's library has all of it. */
static void on_sent(struct weft_node *node, weft_peer peer, int status, void *user)
{
	struct state *state = user;
	(void)node;
	(void)peer;
	state->done = status == 0 ? 1 : -1;
	if (status < 0)
		fprintf(stderr, "sendfile: %s\n", weft_strerror(status));
}

/* Reads a file into memory that the net can send from without a copy. */
static int load(struct weft_net *net, const char *path, struct weft_buf **out, size_t *size)
{
	FILE *file = fopen(path, "rb");
	int ret = file ? 0 : -errno;
	long end = -1;
	if (file && fseek(file, 0, SEEK_END) == 0)
		end = ftell(file);
	if (ret == 0 && (end < 0 || fseek(file, 0, SEEK_SET) < 0))
		ret = -errno;
	if (ret == 0)
		ret = weft_buf_alloc(net, end > 0 ? (size_t)end : 1, out);
	if (ret == 0 && fread(weft_buf_data(*out), 1, (size_t)end, file) != (size_t)end) {
		weft_buf_unref(*out);
		ret = -EIO;
	}
	if (file)
		fclose(file);
	*size = (size_t)end;
	return ret;
}

static int start_sending(struct weft_node *node, struct state *state, const char *address)
{
	struct weft_parse_error error;
	struct weft_send send = WEFT_SEND_INIT;
	struct weft_addr addr;
	if (weft_addr_parse(&addr, address, &error) < 0) {
		fprintf(stderr, "sendfile: %s: %s\n", address, error.reason);
		return -EINVAL;
	}
	int ret = load(weft_node_net(node), state->path, &send.buf, &send.len);
	if (ret < 0) {
		fprintf(stderr, "sendfile: %s: %s\n", state->path, weft_strerror(ret));
		return ret;
	}
	/* The time for the message begins anew with every part that is sent. */
	send.sent = on_sent;
	send.user = state;
	ret = weft_peer_connect(node, &addr, -1, &state->peer);
	if (ret == 0)
		ret = weft_peer_send(node, state->peer, &send);
	if (ret < 0)
		fprintf(stderr, "sendfile: %s\n", weft_strerror(ret));
	/* The library has a reference of its own until the message is sent. */
	weft_buf_unref(send.buf);
	return ret;
}

static int print_address(struct weft_node *node)
{
	char text[WEFT_ADDR_TEXT_MAX];
	struct weft_addr addr;
	weft_node_get_addr(node, &addr);
	if (weft_addr_format(&addr, text, sizeof(text)) < 0)
		return -EINVAL;
	printf("%s\n", text);
	return 0;
}

static void show_progress(const struct weft_node *node, weft_peer peer)
{
	struct weft_progress progress = WEFT_PROGRESS_INIT;
	if (weft_peer_get_progress(node, peer, &progress) == 0 && progress.out_len > 0)
		fprintf(stderr, "\r%3" PRIu64 " %%", progress.out_done * 100 / progress.out_len);
}

int main(int argc, char **argv)
{
	struct state state = {.path = argc > 1 ? argv[1] : NULL};
	struct weft_net_opts net = WEFT_NET_OPTS_INIT;
	struct weft_node_opts opts = WEFT_NODE_OPTS_INIT;
	struct weft_events events = WEFT_EVENTS_INIT;
	struct weft_addr toward;
	struct weft_node *node;
	if (argc < 2 || argc > 3 || argv[1][0] == '-') {
		fprintf(stderr, "usage: sendfile OUT | sendfile IN ADDRESS\n"
				"The variable PROVIDER names the provider.\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	net.provider = getenv("PROVIDER");
	net.log = log_line;
	/* Who sends opens what reaches the other side. */
	if (argc == 3 && weft_addr_parse(&toward, argv[2], NULL) == 0)
		net.toward = &toward;
	opts.net = &net;
	events.message = on_message;
	events.closed = on_closed;
	int ret = weft_node_open(&node, &opts, &events, &state);
	if (ret < 0)
		return 1;
	ret = argc == 3 ? start_sending(node, &state, argv[2]) : print_address(node);
	while (ret >= 0 && state.done == 0) {
		ret = weft_node_poll(node, 200);
		if (argc == 3)
			show_progress(node, state.peer);
	}
	if (argc == 3)
		fputc('\n', stderr);
	weft_node_close(node, -1);
	return ret >= 0 && state.done > 0 ? 0 : 1;
}
