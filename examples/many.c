/* SPDX-License-Identifier: MIT */
/*
 * many: many peers in one node, each with data of its own. A server counts what each client asks
 *and answers with the count; a client asks many servers at once, and ends when all have answered.
 *
 *	many [-p PROVIDER]                             serves; the end of standard input ends it
 *	many [-p PROVIDER] -n QUESTIONS ADDRESS...     asks each server so often
 */
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

/* What this program knows of a peer; weft keeps the pointer to it. */
struct member {
	unsigned number, asked, answered;
	struct weft_addr addr;
};

static struct weft_node *node;
static unsigned members, here, questions, failures;

static void say(FILE *to, const struct member *m, const char *what)
{
	char text[WEFT_ADDR_TEXT_MAX];
	weft_addr_format(&m->addr, text, sizeof(text));
	fprintf(to, "peer %u, %s: %s, asked %u, answered %u\n", m->number, text, what, m->asked,
		m->answered);
}

/* Gives a peer its data. Returns NULL where memory is short. */
static struct member *make_member(weft_peer peer, const struct weft_addr *addr)
{
	struct member *m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	*m = (struct member){.number = ++members, .addr = *addr};
	here++;
	weft_peer_set_data(node, peer, m);
	return m;
}

static void on_opened(struct weft_node *at, weft_peer peer, const struct weft_peer_info *info,
		      void *user)
{
	(void)at, (void)user;
	/* Those that this side connected to have their data already. */
	if (!info->outgoing && !make_member(peer, &info->addr))
		weft_peer_close(node, peer, 0);
}

/* A question: the answer is the count. An answer to a question of ours does not come here. */
static void on_message(struct weft_node *at, const struct weft_msg *msg, void *user)
{
	struct member *m = weft_peer_data(node, msg->peer);
	struct weft_send answer = WEFT_SEND_INIT;
	(void)at, (void)user;
	if (!m)
		return;
	m->asked++;
	answer.data = &m->asked;
	answer.len = sizeof(m->asked);
	/* A client that asks more than it lets be answered waits in vain for the rest. */
	if (weft_msg_reply(node, msg, &answer) == 0)
		m->answered++;
}

static weft_reply_fn on_answer;

/* Asks until the library has no room; the writable event goes on. */
static void ask(weft_peer peer, struct member *m)
{
	struct weft_send question = WEFT_SEND_INIT;
	question.data = "how many?";
	question.len = strlen(question.data);
	question.reply = on_answer;
	while (m && m->asked < questions && weft_peer_send(node, peer, &question) == 0)
		m->asked++;
}

static void on_answer(struct weft_node *at, weft_peer peer, const struct weft_msg *msg, int status,
		      void *user)
{
	struct member *m = weft_peer_data(node, peer);
	unsigned count = 0;
	(void)at, (void)user;
	/* An error is told by the closed event too; a peer may also answer nonsense. */
	if (status < 0 || !m || msg->len != sizeof(count))
		return;
	memcpy(&count, msg->data, sizeof(count));
	m->answered += count == m->answered + 1;
	if (m->answered == questions)
		weft_peer_close(node, peer, -1);
}

static void on_writable(struct weft_node *at, weft_peer peer, void *user)
{
	(void)at, (void)user;
	if (questions)
		ask(peer, weft_peer_data(node, peer));
}

static void on_closed(struct weft_node *at, weft_peer peer, const struct weft_closed *closed,
		      void *user)
{
	/* The last event of a peer, and the last chance to free what belongs to it. */
	struct member *m = weft_peer_data(node, peer);
	(void)at, (void)user;
	if (!m)
		return;
	bool well = closed->status == 0 && (!questions || m->answered == questions);
	say(well ? stdout : stderr, m, well ? "closed" : weft_reason_text(closed->reason));
	if (closed->advice)
		fprintf(stderr, "many: %s\n", closed->advice);
	failures += !well;
	here--;
	free(m);
}

static void on_log(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level <= WEFT_LOG_WARN)
		fprintf(stderr, "many: %s\n", text);
}

static int begin(const char *provider, char **addresses)
{
	struct weft_net_opts net = WEFT_NET_OPTS_INIT;
	struct weft_node_opts opts = WEFT_NODE_OPTS_INIT;
	struct weft_events events = WEFT_EVENTS_INIT;
	struct weft_addr addr;
	weft_peer peer;
	net.provider = provider;
	net.log = on_log;
	if (*addresses && weft_addr_parse(&addr, *addresses, NULL) == 0)
		net.toward = &addr;
	opts.net = &net;
	events.opened = on_opened;
	events.message = on_message;
	events.writable = on_writable;
	events.closed = on_closed;
	int ret = weft_node_open(&node, &opts, &events, NULL);
	for (; ret == 0 && *addresses; addresses++) {
		ret = weft_addr_parse(&addr, *addresses, NULL);
		if (ret == 0)
			ret = weft_peer_connect(node, &addr, -1, &peer);
		if (ret != 0)
			fprintf(stderr, "many: %s: %s\n", *addresses, weft_strerror(ret));
		else
			ask(peer, make_member(peer, &addr));
	}
	return ret;
}

int main(int argc, char **argv)
{
	const char *provider = NULL;
	char text[WEFT_ADDR_TEXT_MAX];
	struct weft_addr own;
	bool ended = false, wrong = false;
	int letter;
	opterr = 0;
	while ((letter = getopt(argc, argv, "p:n:")) != -1) {
		if (letter == 'p')
			provider = optarg;
		else if (letter == 'n')
			questions = (unsigned)atoi(optarg);
		else
			wrong = true;
	}
	if (wrong || (questions > 0) != (argc > optind)) {
		fputs("usage: many [-p PROVIDER] [-n QUESTIONS ADDRESS...]\n", stderr);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	int ret = begin(provider, argv + optind);
	if (ret < 0)
		fprintf(stderr, "many: cannot begin: %s\n", weft_strerror(ret));
	if (ret == 0 && !questions && weft_node_get_addr(node, &own) == 0 &&
	    weft_addr_format(&own, text, sizeof(text)) > 0)
		printf("address: %s\n", text);
	while (ret >= 0 && (questions ? here > 0 : !ended)) {
		struct pollfd fds[2] = {{.fd = weft_node_fd(node), .events = POLLIN},
					{.fd = questions ? -1 : STDIN_FILENO, .events = POLLIN}};
		ret = weft_node_arm(node);
		if (ret >= 0 && poll(fds, 2, ret == INT_MAX ? -1 : ret) > 0 && fds[1].revents)
			ended = read(STDIN_FILENO, text, sizeof(text)) <= 0;
		if (ret >= 0)
			ret = weft_node_poll(node, 0);
	}
	weft_node_close(node, 2000);
	printf("peers: %u, failed: %u\n", members, failures);
	return ret < 0 || (questions && failures) ? 1 : 0;
}
