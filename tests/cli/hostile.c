/* SPDX-License-Identifier: MIT */
/*
 * hostile.c: a peer of the reverse server that sends whatever it is told to, for the tests that
 * show that no message harms the server. Calls layer 1 of weft only.
 *
 *   hostile ADDRESS
 *
 * Prints "address URI HEX", its own address as text and as the raw bytes, and obeys the lines of
 * stdin, each with one line of answer:
 *
 *   send HEX [COOKIE]   sends these bytes ("-": none), with the cookie as remote CQ data:
 *                       "sent", or "failed CODE"
 *   receive MS          takes the next message, waiting so long for it:
 *                       "received HEX [COOKIE]", "failed CODE" for one that ended in an error, or
 *                       "nothing"
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/net.h>

#define MESSAGE_MAX 65536
#define RECEIVES 64
#define SEND_MS 5000

/* What has been received and not been asked for yet, oldest first. */
struct inbox {
	struct weft_done done[RECEIVES];
	size_t count;
	bool closing;
};

static int64_t now_ms(void)
{
	struct timespec now = {0};
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void print_hex(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		printf("%02x", bytes[i]);
	if (len == 0)
		putchar('-');
}

static int hex_digit(char digit)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = digit ? strchr(digits, digit) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* Returns the number of bytes, or -1. */
static long parse_hex(uint8_t *out, const char *text)
{
	size_t digits = strlen(text);
	if (strcmp(text, "-") == 0)
		return 0;
	if (digits % 2 || digits / 2 > MESSAGE_MAX)
		return -1;
	for (size_t i = 0; i < digits; i += 2) {
		int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);
		if (high < 0 || low < 0)
			return -1;
		out[i / 2] = (uint8_t)(high << 4 | low);
	}
	return (long)(digits / 2);
}

static void on_receive(struct weft_net *net, const struct weft_done *done)
{
	struct inbox *inbox = done->user;
	(void)net;
	if (inbox->closing)
		weft_buf_unref(done->buf);
	else
		inbox->done[inbox->count++] = *done; /* One for each receive posted, so it fits. */
}

static void on_sent(struct weft_net *net, const struct weft_done *done)
{
	int *status = done->user;
	(void)net;
	*status = done->status;
	weft_buf_unref(done->buf);
}

/* Sends and waits for the end of it. Returns 0 or a negative code. */
static int send_bytes(struct weft_net *net, weft_dest dest, const char *hex, const char *cookie)
{
	struct weft_post post = WEFT_POST_INIT;
	int status = 1;
	int ret = weft_buf_alloc(net, MESSAGE_MAX, &post.buf);
	if (ret < 0)
		return ret;
	long len = parse_hex(weft_buf_data(post.buf), hex);
	post.len = (size_t)len;
	post.timeout_ms = SEND_MS;
	if (cookie) {
		post.flags = WEFT_POST_CQ_DATA;
		post.cq_data = strtoull(cookie, NULL, 10);
	}
	ret = len < 0 ? -EINVAL : weft_net_send(net, dest, &post, on_sent, &status);
	if (ret < 0) {
		weft_buf_unref(post.buf);
		return ret;
	}
	while (status > 0 && ret >= 0)
		ret = weft_net_poll(net, SEND_MS);
	return ret < 0 ? ret : status;
}

static void receive(struct weft_net *net, struct inbox *inbox, int ms)
{
	int64_t deadline = now_ms() + ms;
	int ret = 0;
	while (inbox->count == 0 && ret >= 0 && now_ms() < deadline)
		ret = weft_net_poll(net, (int)(deadline - now_ms()));
	if (inbox->count == 0) {
		printf("nothing\n");
		return;
	}
	struct weft_done done = inbox->done[0];
	memmove(inbox->done, inbox->done + 1, --inbox->count * sizeof(inbox->done[0]));
	if (done.status < 0) {
		printf("failed %d\n", done.status);
	} else {
		printf("received ");
		print_hex(weft_buf_data(done.buf), done.len);
		if (done.flags & WEFT_DONE_CQ_DATA)
			printf(" %" PRIu64, done.cq_data);
		putchar('\n');
	}
	if (weft_net_recv(net, done.buf, on_receive, inbox) < 0)
		weft_buf_unref(done.buf);
}

static void obey(struct weft_net *net, weft_dest dest, struct inbox *inbox)
{
	char *line = NULL;
	size_t size = 0;
	while (getline(&line, &size, stdin) > 0) {
		char *rest = NULL;
		const char *verb = strtok_r(line, " \n", &rest);
		const char *first = strtok_r(NULL, " \n", &rest);
		const char *second = strtok_r(NULL, " \n", &rest);
		if (verb && first && strcmp(verb, "send") == 0) {
			int ret = send_bytes(net, dest, first, second);
			if (ret < 0)
				printf("failed %d\n", ret);
			else
				printf("sent\n");
		} else if (verb && first && strcmp(verb, "receive") == 0) {
			receive(net, inbox, atoi(first));
		} else {
			printf("what?\n");
		}
	}
	free(line);
}

static void on_log(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level <= WEFT_LOG_WARN)
		fprintf(stderr, "hostile: %s\n", text);
}

int main(int argc, char **argv)
{
	struct weft_addr server, own;
	struct weft_parse_error error;
	struct weft_net *net;
	struct weft_net_opts opts = WEFT_NET_OPTS_INIT;
	struct inbox inbox = {.count = 0};
	char text[WEFT_ADDR_TEXT_MAX];
	weft_dest dest = WEFT_DEST_NONE;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 2 || weft_addr_parse(&server, argv[1], &error) < 0) {
		fprintf(stderr, "usage: hostile ADDRESS\n");
		return 2;
	}
	opts.toward = &server;
	opts.log = on_log;
	int ret = weft_net_open(&net, &opts);
	if (ret < 0) {
		fprintf(stderr, "hostile: %s\n", weft_strerror(ret));
		return 1;
	}
	ret = weft_net_add_peer(net, &server, &dest);
	for (int i = 0; ret == 0 && i < RECEIVES; i++) {
		struct weft_buf *buf;
		ret = weft_buf_alloc(net, MESSAGE_MAX, &buf);
		if (ret == 0)
			ret = weft_net_recv(net, buf, on_receive, &inbox);
	}
	if (ret == 0) {
		weft_net_get_addr(net, &own);
		weft_addr_format(&own, text, sizeof(text));
		printf("address %s ", text);
		print_hex(own.raw, own.len);
		putchar('\n');
		obey(net, dest, &inbox);
	} else {
		fprintf(stderr, "hostile: %s\n", weft_strerror(ret));
	}
	inbox.closing = true;
	weft_net_remove_peer(net, dest);
	weft_net_close(net);
	while (inbox.count > 0)
		weft_buf_unref(inbox.done[--inbox.count].buf);
	return ret < 0;
}
