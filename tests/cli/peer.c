/* SPDX-License-Identifier: MIT */
/*
 * peer.c: a node that does what it is told, for the tests of sessions between processes. Calls
 * layer 2 of weft only.
 *
 *   peer PROVIDER [NAME=VALUE...]
 *
 * Names: bind, silence, keepalive (milliseconds), connects, budget (bytes), peers, books (a file).
 * Prints "address URI" and then lines of what happens: "opened N", "closed N reason=R opened=O
 * by_peer=B text", where N counts sessions from 1; "ended N sent=S good=G told=T" when all that was
 * to be sent has its end. Obeys the lines of stdin:
 *
 *   connect URI MS          begins a session: "connecting N", or "failed CODE"
 *   send N COUNT LENGTH     sends so many messages, as fast as it may: "sending N"
 *   ask N MS                waits for an answer to a question: "answer STATUS"
 *   close N MS
 *   pause MS                does not poll meanwhile: "paused" at its end
 *   statistics              "statistics: NAME=VALUE ..."
 *
 * The end of stdin closes the node: "bye". What has been received is written into `books` as two
 * 64-bit numbers: messages, and messages out of order; it is there also when the process is killed.
 * A message whose first byte is '?' is answered by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

#define SESSIONS 4096
#define LENGTH_MAX 4000

struct session {
	weft_peer peer;
	bool sending;
	uint64_t number; /* of the next message */
	uint64_t left, length;
	uint64_t good, told;
	uint64_t next; /* expected */
};

static struct session sessions[SESSIONS];
static int session_count;
static uint64_t own_books[2], *books = own_books;
static bool done;

static int number_of(const struct session *session)
{
	return (int)(session - sessions) + 1;
}

static struct session *new_session(struct weft_node *node, weft_peer peer)
{
	/* The oldest ones have had their end long since. */
	struct session *session = &sessions[session_count++ % SESSIONS];
	*session = (struct session){.peer = peer};
	weft_peer_set_data(node, peer, session);
	return session;
}

static void on_sent(struct weft_node *node, weft_peer peer, int status, void *user);

static void send_on(struct weft_node *node, struct session *session)
{
	uint8_t data[LENGTH_MAX] = {'.'};
	struct weft_send send = WEFT_SEND_INIT;
	send.data = data;
	send.len = session->length;
	send.timeout_ms = -1;
	send.sent = on_sent;
	send.user = session;
	while (session->left > 0) {
		memcpy(data + 8, &session->number, sizeof(session->number));
		if (weft_peer_send(node, session->peer, &send) < 0)
			return;
		session->number++;
		session->left--;
	}
}

static void tell_sent(struct session *session)
{
	if (!session->sending || session->left > 0 ||
	    session->good + session->told < session->number)
		return;
	session->sending = false;
	printf("ended %d sent=%" PRIu64 " good=%" PRIu64 " told=%" PRIu64 "\n", number_of(session),
	       session->number, session->good, session->told);
}

static void on_sent(struct weft_node *node, weft_peer peer, int status, void *user)
{
	struct session *session = user;
	(void)node;
	(void)peer;
	if (status == 0)
		session->good++;
	else
		session->told++;
	tell_sent(session);
}

static void on_opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
		      void *user)
{
	struct session *session = weft_peer_data(node, peer);
	(void)info;
	(void)user;
	if (!session)
		session = new_session(node, peer);
	printf("opened %d\n", number_of(session));
}

static void on_writable(struct weft_node *node, weft_peer peer, void *user)
{
	(void)user;
	send_on(node, weft_peer_data(node, peer));
}

static void on_message(struct weft_node *node, const struct weft_msg *msg, void *user)
{
	struct session *session = weft_peer_data(node, msg->peer);
	uint64_t number;
	(void)user;
	if (msg->len > 0 && *(const char *)msg->data == '?') {
		struct weft_send send = WEFT_SEND_INIT;
		send.data = msg->data;
		send.len = msg->len;
		weft_msg_reply(node, msg, &send);
		return;
	}
	books[0]++;
	if (msg->len < 16)
		return;
	memcpy(&number, (const uint8_t *)msg->data + 8, sizeof(number));
	books[1] += number != session->next;
	session->next = number + 1;
}

static void on_closed(struct weft_node *node, weft_peer peer, const struct weft_closed *closed,
		      void *user)
{
	struct session *session = weft_peer_data(node, peer);
	(void)user;
	session->left = 0;
	tell_sent(session);
	printf("closed %d reason=%d opened=%d by_peer=%d %s\n", number_of(session), closed->reason,
	       closed->opened, closed->by_peer, closed->text);
}

static void on_reply(struct weft_node *node, weft_peer peer, const struct weft_msg *msg, int status,
		     void *user)
{
	(void)node;
	(void)peer;
	(void)msg;
	(void)user;
	printf("answer %d\n", status);
}

static void print_statistics(const struct weft_node *node)
{
	struct weft_node_stats s = WEFT_NODE_STATS_INIT;
	weft_node_get_stats(node, &s);
	printf("statistics: peers=%" PRIu64 " half_open=%" PRIu64 " frames_queued=%" PRIu64
	       " memory=%" PRIu64 " session_memory=%" PRIu64 " opened=%" PRIu64 " closed=%" PRIu64
	       " received=%" PRIu64 " sent=%" PRIu64 " no_buffers=%" PRIu64 " rejected=%" PRIu64
	       " evicted=%" PRIu64 " lost=%" PRIu64 " restarted=%" PRIu64 " drop_malformed=%" PRIu64
	       " drop_unknown=%" PRIu64 " drop_source=%" PRIu64 " drop_rate=%" PRIu64
	       " drop_duplicate=%" PRIu64 " drop_state=%" PRIu64 " drop_refused=%" PRIu64
	       " wrong_order=%" PRIu64 "\n",
	       s.peers, s.half_open, s.frames_queued, s.memory, s.session_memory, s.opened,
	       s.closed, s.received, s.sent, s.no_buffers, s.rejected, s.evicted, s.lost,
	       s.restarted, s.drop_malformed, s.drop_unknown, s.drop_source, s.drop_rate,
	       s.drop_duplicate, s.drop_state, s.drop_refused, books[1]);
}

static void connect_to(struct weft_node *node, const char *uri, int ms)
{
	struct weft_parse_error error;
	struct weft_addr addr;
	weft_peer peer;
	int ret = weft_addr_parse(&addr, uri, &error);
	if (ret == 0)
		ret = weft_peer_connect(node, &addr, ms, &peer);
	if (ret < 0)
		printf("failed %d\n", ret);
	else
		printf("connecting %d\n", number_of(new_session(node, peer)));
}

static void ask(struct weft_node *node, struct session *session, int ms)
{
	struct weft_send send = WEFT_SEND_INIT;
	send.data = "?";
	send.len = 1;
	send.timeout_ms = ms;
	send.reply = on_reply;
	int ret = weft_peer_send(node, session->peer, &send);
	if (ret < 0)
		printf("answer %d\n", ret);
}

static void obey(struct weft_node *node, void *user)
{
	char verb[16] = "", uri[WEFT_ADDR_TEXT_MAX + 1] = "";
	const char *line = user;
	unsigned n = 0;
	long a = 0, b = 0;
	sscanf(line, "%15s %u %ld %ld", verb, &n, &a, &b);
	struct session *session = &sessions[(n - 1) % SESSIONS];
	if (strcmp(verb, "end") == 0) {
		done = true;
	} else if (strcmp(verb, "connect") == 0 && sscanf(line, "%*s %140s %ld", uri, &a) == 2) {
		connect_to(node, uri, (int)a);
	} else if (strcmp(verb, "send") == 0 && b <= LENGTH_MAX) {
		session->left = (uint64_t)a;
		session->length = (uint64_t)b;
		session->sending = true;
		printf("sending %u\n", n);
		send_on(node, session);
	} else if (strcmp(verb, "ask") == 0) {
		ask(node, session, (int)a);
	} else if (strcmp(verb, "close") == 0) {
		weft_peer_close(node, session->peer, (int)a);
	} else if (strcmp(verb, "pause") == 0) {
		const struct timespec pause = {n / 1000, (long)(n % 1000) * 1000000};
		nanosleep(&pause, NULL);
		printf("paused\n");
	} else if (strcmp(verb, "statistics") == 0) {
		print_statistics(node);
	} else {
		printf("what?\n");
	}
	free(user);
}

/* Reads the commands, for the node's own thread to carry out. */
static void *listen_to(void *user)
{
	struct weft_node *node = user;
	char *line = NULL;
	size_t size = 0;
	while (getline(&line, &size, stdin) > 0)
		weft_node_post(node, obey, strdup(line));
	free(line);
	weft_node_post(node, obey, strdup("end"));
	return NULL;
}

static void on_log(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level <= WEFT_LOG_WARN)
		fprintf(stderr, "peer: %s\n", text);
}

static int open_books(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(own_books)) < 0)
		return -1;
	books = mmap(NULL, sizeof(own_books), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return books == MAP_FAILED ? -1 : 0;
}

static int read_option(struct weft_node_opts *opts, struct weft_net_opts *net, const char *text)
{
	const char *value = strchr(text, '=');
	size_t len = value ? (size_t)(value - text) : 0;
	if (!value)
		return -1;
	long number = atol(++value);
	if (strncmp(text, "bind", len) == 0)
		net->bind = value;
	else if (strncmp(text, "silence", len) == 0)
		opts->silence_ms = (int)number;
	else if (strncmp(text, "keepalive", len) == 0)
		opts->keepalive_ms = (int)number;
	else if (strncmp(text, "connects", len) == 0)
		opts->max_connects = (unsigned)number;
	else if (strncmp(text, "peers", len) == 0)
		opts->max_peers = (size_t)number;
	else if (strncmp(text, "budget", len) == 0)
		opts->recv_budget = opts->send_budget = (size_t)number;
	else if (strncmp(text, "books", len) == 0)
		return open_books(value);
	else
		return -1;
	return 0;
}

int main(int argc, char **argv)
{
	struct weft_net_opts net = WEFT_NET_OPTS_INIT;
	struct weft_node_opts opts = WEFT_NODE_OPTS_INIT;
	struct weft_events events = WEFT_EVENTS_INIT;
	char text[WEFT_ADDR_TEXT_MAX];
	struct weft_node *node;
	struct weft_addr addr;
	pthread_t thread;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 2; i < argc; i++) {
		if (read_option(&opts, &net, argv[i]) < 0)
			return 2;
	}
	if (argc < 2)
		return 2;
	net.provider = argv[1];
	net.log = on_log;
	opts.net = &net;
	events.opened = on_opened;
	events.message = on_message;
	events.writable = on_writable;
	events.closed = on_closed;
	int ret = weft_node_open(&node, &opts, &events, NULL);
	if (ret < 0) {
		fprintf(stderr, "peer: %s\n", weft_strerror(ret));
		return 1;
	}
	weft_node_get_addr(node, &addr);
	weft_addr_format(&addr, text, sizeof(text));
	printf("address %s\n", text);
	if (pthread_create(&thread, NULL, listen_to, node) != 0)
		return 1;
	while (!done && ret >= 0)
		ret = weft_node_poll(node, 1000);
	pthread_join(thread, NULL);
	ret = weft_node_close(node, -1);
	printf("bye\n");
	return ret < 0;
}
