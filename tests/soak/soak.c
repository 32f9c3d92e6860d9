/* SPDX-License-Identifier: MIT */
/*
 * soak.c: one process of the soak test: some nodes, each in a thread of its own, which connect to
 * the nodes of other processes, send them messages of all sizes, check what they receive, and keep
 * books of it.
 *
 *   soak PROVIDER DIR SLOT LIFE SLOTS NODES SEED PORT LONGEST
 *
 * LONGEST: bytes of the longest message, or 0: what fits a frame.
 * DIR has a file of addresses for every slot. PORT is the first one's of the node 0 of this slot,
 * or 0. Ends at SIGTERM, when its sessions have been closed. Calls layer 2 of weft.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

#include "soak.h"

#define NODES_MAX 16
#define SESSIONS 4 /* that each node keeps up by connecting */
#define SESSIONS_MAX 64
#define KEEPALIVE_MS 300
#define SILENCE_MS 3000
#define BUDGET ((size_t)8 << 20)
#define FRAME_MAX 65536
/* Of so many messages one is longer than a frame, where such are asked for. */
#define LONG_SHARE 300
#define LEFT_MAX 256 /* answers that could not be sent yet */

/* What is in front of every message. */
struct head {
	uint64_t stream;
	uint32_t number;
	uint32_t life; /* of the sender */
	uint32_t ask;  /* an answer is expected */
	uint32_t sum;  /* of the rest */
};

struct session {
	struct session *next;
	weft_peer peer;
	bool open, outgoing, closing, known_in;
	uint32_t out, in; /* their places in the books */
	uint32_t number;  /* of the next message */
	uint32_t most;	  /* the longest one */
};

struct left {
	weft_peer peer;
	uint32_t id;
};

struct worker {
	pthread_t thread;
	struct weft_node *node;
	struct soak_books *books;
	struct session *sessions;
	int session_count, outgoing;
	uint32_t random;
	uint32_t index;
	struct left left[LEFT_MAX];
	int left_count;
	uint8_t *buffer;
	int64_t manage_ms, stats_ms;
};

static struct {
	const char *provider, *dir;
	uint32_t slot, life, slots, nodes, seed, port, longest;
	struct worker workers[NODES_MAX];
	atomic_int ready;
} soak;

static atomic_bool stopping;
static _Thread_local struct worker *me;

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint32_t chance(uint32_t below)
{
	me->random ^= me->random << 13;
	me->random ^= me->random >> 17;
	me->random ^= me->random << 5;
	return me->random % below;
}

__attribute__((format(printf, 1, 2))) static void violation(const char *format, ...)
{
	char text[SOAK_TEXT];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (me->books->violations++ == 0)
		memcpy(me->books->text, text, sizeof(text));
	fprintf(stderr, "soak: slot %u life %u node %u: %s\n", soak.slot, soak.life, me->index,
		text);
}

/* Bytes that follow from the stream and the number; len is rounded up to words. */
static void fill(uint8_t *data, size_t len, uint64_t stream, uint32_t number)
{
	uint64_t x = stream ^ (uint64_t)number * 0x9e3779b97f4a7c15u;
	for (size_t i = 0; i < len; i += 8) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		memcpy(data + i, &x, len - i < 8 ? len - i : 8);
	}
}

static uint32_t sum_of(const uint8_t *data, size_t len)
{
	uint64_t sum = 14695981039346656037u, word;
	for (size_t i = 0; i < len; i += 8) {
		word = 0;
		memcpy(&word, data + i, len - i < 8 ? len - i : 8);
		sum = (sum ^ word) * 1099511628211u;
	}
	return (uint32_t)(sum ^ sum >> 32);
}

static struct session *session_of(weft_peer peer)
{
	return weft_peer_data(me->node, peer);
}

static struct session *new_session(weft_peer peer, bool outgoing, uint32_t to_slot)
{
	struct soak_books *books = me->books;
	struct session *session = calloc(1, sizeof(*session));
	if (!session || books->outs >= SOAK_STREAMS) {
		violation("no room for one more session");
		exit(1);
	}
	session->peer = peer;
	session->outgoing = outgoing;
	session->most = 1024 - WEFT_FRAME_OVERHEAD;
	session->out = books->outs++;
	books->out[session->out].stream = (uint64_t)chance(UINT32_MAX) << 32 | chance(UINT32_MAX);
	books->out[session->out].to_slot = to_slot;
	session->next = me->sessions;
	me->sessions = session;
	me->session_count++;
	me->outgoing += outgoing;
	weft_peer_set_data(me->node, peer, session);
	return session;
}

static void on_sent(struct weft_node *node, weft_peer peer, int status, void *user)
{
	struct soak_out *out = &me->books->out[(uintptr_t)user >> 32];
	uint32_t number = (uint32_t)(uintptr_t)user;
	(void)node;
	(void)peer;
	out->ended++;
	if (status < 0) {
		me->books->told++;
		return;
	}
	out->good++;
	if (out->good_end <= number)
		out->good_end = number + 1;
}

/* Whatever has arrived: is it the next one, and whole? */
static void check(struct session *session, const struct weft_msg *msg)
{
	struct soak_books *books = me->books;
	struct head head;
	if (msg->len < sizeof(head)) {
		violation("a message of %zu bytes has arrived", msg->len);
		return;
	}
	memcpy(&head, msg->data, sizeof(head));
	if (!session->known_in) {
		if (books->ins >= SOAK_STREAMS) {
			violation("no room for one more stream");
			exit(1);
		}
		session->known_in = true;
		session->in = books->ins++;
		books->in[session->in].stream = head.stream;
		books->in[session->in].from_life = head.life;
		books->out[session->out].to_life = head.life;
	}
	struct soak_in *in = &books->in[session->in];
	const uint8_t *rest = (const uint8_t *)msg->data + sizeof(head);
	size_t len = msg->len - sizeof(head);
	if (head.stream != in->stream)
		violation("stream %" PRIx64 " has a message of %" PRIx64, in->stream, head.stream);
	else if (head.number < in->received || (head.number > in->received && soak.longest == 0))
		violation("message %u of stream %" PRIx64 " came where %u was due", head.number,
			  head.stream, in->received);
	else if (head.sum != sum_of(rest, len))
		violation("message %u of stream %" PRIx64 " has other bytes", head.number,
			  head.stream);
	in->missed += head.number - in->received;
	in->received = head.number + 1;
	books->received++;
	books->received_bytes += msg->len;
}

static void on_reply(struct weft_node *node, weft_peer peer, const struct weft_msg *msg, int status,
		     void *user)
{
	(void)node;
	(void)user;
	if (status < 0)
		return;
	me->books->answered++;
	check(session_of(peer), msg);
}

static int send_one(struct session *session, uint32_t ask, uint32_t reply_to)
{
	struct soak_books *books = me->books;
	struct soak_out *out = &books->out[session->out];
	struct weft_send send = WEFT_SEND_INIT;
	struct head head = {.stream = out->stream, .number = session->number, .ask = ask};
	uint32_t kind = chance(10);
	uint32_t most = kind < 5 ? 200 : kind < 8 ? 2000 : session->most;
	if (most > session->most)
		most = session->most;
	if (soak.longest > 0 && chance(LONG_SHARE) == 0)
		most = (uint32_t)sizeof(head) + soak.longest;
	size_t len = sizeof(head) + chance(most - (uint32_t)sizeof(head) + 1);
	head.life = (soak.slot << 16 | soak.life) + 1;
	fill(me->buffer + sizeof(head), len - sizeof(head), head.stream, head.number);
	head.sum = sum_of(me->buffer + sizeof(head), len - sizeof(head));
	memcpy(me->buffer, &head, sizeof(head));
	send.data = me->buffer;
	send.len = len;
	/* An answer that came too late would be a gap for this side. */
	send.timeout_ms = !ask && chance(50) == 0 ? 1 + (int)chance(50) : -1;
	send.reply_to = reply_to;
	send.sent = on_sent;
	send.reply = ask ? on_reply : NULL;
	send.user = (void *)((uintptr_t)session->out << 32 | session->number);
	out->accepted++;
	int ret = weft_peer_send(me->node, session->peer, &send);
	if (ret < 0) {
		out->accepted--;
		return ret;
	}
	session->number++;
	books->sent++;
	books->sent_bytes += len;
	books->asked += ask;
	return 0;
}

static void on_opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
		      void *user)
{
	struct session *session = session_of(peer);
	(void)node;
	(void)user;
	if (!session)
		session = new_session(peer, false, 0);
	session->open = true;
	session->most = info->max_frame - WEFT_FRAME_OVERHEAD;
}

static void on_message(struct weft_node *node, const struct weft_msg *msg, void *user)
{
	struct session *session = session_of(msg->peer);
	struct head head;
	(void)node;
	(void)user;
	if (!session) {
		violation("a message came from nobody");
		return;
	}
	check(session, msg);
	memcpy(&head, msg->data, sizeof(head));
	if (!head.ask || session->closing || stopping)
		return;
	if (send_one(session, 0, msg->id) == -ENOBUFS && me->left_count < LEFT_MAX)
		me->left[me->left_count++] = (struct left){msg->peer, msg->id};
}

static void on_closed(struct weft_node *node, weft_peer peer, const struct weft_closed *closed,
		      void *user)
{
	struct session *session = session_of(peer), **at;
	(void)node;
	(void)user;
	if (!session) {
		violation("the end of nobody's session");
		return;
	}
	struct soak_out *out = &me->books->out[session->out];
	if (out->ended != out->accepted)
		violation("a session has ended before %u of its %u messages",
			  out->accepted - out->ended, out->accepted);
	if (closed->opened)
		me->books->reasons[closed->reason & 15]++;
	if (closed->reason == WEFT_REASON_PROTOCOL || closed->reason == WEFT_REASON_GAP)
		violation("a session has ended: %s", closed->text);
	for (at = &me->sessions; *at != session; at = &(*at)->next)
		;
	*at = session->next;
	me->session_count--;
	me->outgoing -= session->outgoing;
	free(session);
}

/* The address of a random node of another process, or false if it has not said it yet. */
static bool find_address(struct weft_addr *addr, uint32_t *slot)
{
	struct weft_parse_error error;
	char path[256], line[WEFT_ADDR_TEXT_MAX + 2];
	bool found = false;
	*slot = chance(soak.slots - 1);
	if (*slot >= soak.slot)
		++*slot;
	snprintf(path, sizeof(path), "%s/%u.addresses", soak.dir, *slot);
	FILE *file = fopen(path, "r");
	if (!file)
		return false;
	for (uint32_t skip = chance(soak.nodes) + 1; skip > 0; skip--)
		found = fgets(line, sizeof(line), file);
	fclose(file);
	if (!found)
		return false;
	line[strcspn(line, "\n")] = 0;
	return weft_addr_parse(addr, line, &error) == 0;
}

static void connect_one(void)
{
	struct weft_addr addr;
	weft_peer peer;
	uint32_t slot;
	if (!find_address(&addr, &slot) || weft_peer_connect(me->node, &addr, 3000, &peer) < 0)
		return;
	struct session *session = new_session(peer, true, slot + 1);
	for (uint32_t early = chance(4); early > 0; early--)
		send_one(session, 0, 0);
}

/* Two long messages that are half there would fill what is left beside the copies. 0: no matter. */
static size_t message_budget(void)
{
	return soak.longest ? 4 * (sizeof(struct head) + (size_t)soak.longest) : 0;
}

static void note_stats(int64_t now)
{
	struct weft_node_stats stats = WEFT_NODE_STATS_INIT;
	struct soak_books *books = me->books;
	me->stats_ms = now + 500;
	weft_node_get_stats(me->node, &stats);
	books->memory = stats.memory;
	if (books->memory_most < stats.memory)
		books->memory_most = stats.memory;
	/* All budgets, and the sessions, ends of messages and tables beside them. */
	if (stats.memory > 2 * BUDGET + BUDGET + message_budget())
		violation("weft uses %" PRIu64 " bytes", stats.memory);
	/* What the provider does not let go of: up to a budget, and what was under way then. */
	struct weft_net_stats net = WEFT_NET_STATS_INIT;
	weft_net_get_stats(weft_node_net(me->node), &net);
	if (net.held_bytes > 2 * (BUDGET + message_budget()))
		violation("the provider holds %" PRIu64 " bytes", net.held_bytes);
	books->opened = stats.opened;
	books->closed = stats.closed;
	books->failed = stats.failed;
	books->lost = stats.lost;
	books->restarted = stats.restarted;
	books->no_buffers = stats.no_buffers;
	books->stalls = stats.stalls;
	books->drop_malformed = stats.drop_malformed;
	books->drop_unknown = stats.drop_unknown;
	books->drop_source = stats.drop_source;
	books->drop_duplicate = stats.drop_duplicate;
	books->drop_state = stats.drop_state;
	books->recv_errors = stats.recv_errors;
	books->send_errors = stats.send_errors;
}

/* Every now and then: new sessions for old. */
static void manage(int64_t now)
{
	static const int lingers[] = {0, 50, 2000};
	struct session *session;
	if (now < me->manage_ms)
		return;
	me->manage_ms = now + 20 + chance(50);
	if (me->outgoing < SESSIONS)
		connect_one();
	for (session = me->sessions; session; session = session->next) {
		if (session->closing || !session->open || chance(200) != 0)
			continue;
		session->closing = true;
		weft_peer_close(me->node, session->peer, lingers[chance(3)]);
	}
}

static void send_some(void)
{
	struct session *session;
	while (me->left_count > 0) {
		struct left *left = &me->left[me->left_count - 1];
		session = session_of(left->peer);
		if (session && !session->closing && send_one(session, 0, left->id) == -ENOBUFS)
			break;
		me->left_count--;
	}
	for (session = me->sessions; session; session = session->next) {
		if (!session->open || session->closing || chance(3) != 0)
			continue;
		for (uint32_t burst = 1 + chance(16); burst > 0; burst--) {
			if (send_one(session, chance(20) == 0, 0) < 0)
				break;
		}
	}
}

static struct soak_books *open_books(uint32_t node)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%u.%u.%u.books", soak.dir, soak.slot, soak.life, node);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct soak_books)) < 0)
		return NULL;
	struct soak_books *books =
		mmap(NULL, sizeof(*books), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (books == MAP_FAILED)
		return NULL;
	books->slot = soak.slot;
	books->life = soak.life;
	books->node = node;
	books->magic = SOAK_MAGIC;
	return books;
}

static void on_log(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level <= WEFT_LOG_ERROR)
		fprintf(stderr, "soak: slot %u: %s\n", soak.slot, text);
}

static int open_node(struct worker *worker)
{
	struct weft_net_opts net = WEFT_NET_OPTS_INIT;
	struct weft_node_opts opts = WEFT_NODE_OPTS_INIT;
	struct weft_events events = WEFT_EVENTS_INIT;
	char bind[32];
	net.provider = soak.provider;
	net.log = on_log;
	if (soak.port) {
		snprintf(bind, sizeof(bind), "127.0.0.1:%u", soak.port + worker->index);
		net.bind = bind;
	}
	opts.net = &net;
	opts.max_peers = SESSIONS_MAX;
	opts.recv_budget = opts.send_budget = BUDGET;
	opts.peer_send_budget = BUDGET / 16;
	opts.message_budget = message_budget();
	opts.keepalive_ms = KEEPALIVE_MS;
	opts.silence_ms = SILENCE_MS;
	events.opened = on_opened;
	events.message = on_message;
	events.closed = on_closed;
	return weft_node_open(&worker->node, &opts, &events, worker);
}

static bool is_connecting(void)
{
	for (const struct session *session = me->sessions; session; session = session->next) {
		if (!session->open)
			return true;
	}
	return false;
}

/*
 * Lets attempts to connect come to their end. On shm of libfabric 1.17 a process dies when another
 * one has begun to connect to it and is gone before that is noticed.
 */
static void settle(void)
{
	int64_t end = now_ms() + 5000;
	while (is_connecting() && now_ms() < end && weft_node_poll(me->node, 5) >= 0)
		me->books->beat_ms = (uint64_t)now_ms();
}

static void *work(void *user)
{
	me = user;
	while (!stopping) {
		int64_t now = now_ms();
		me->books->beat_ms = (uint64_t)now;
		int ret = weft_node_poll(me->node, 5);
		if (ret < 0) {
			violation("poll: %s", weft_strerror(ret));
			break;
		}
		manage(now);
		send_some();
		if (now >= me->stats_ms)
			note_stats(now);
	}
	settle();
	note_stats(now_ms());
	int left = weft_node_close(me->node, 10000);
	if (left < 0)
		violation("close: %s", weft_strerror(left));
	if (me->session_count > 0)
		violation("%d sessions have no end", me->session_count);
	me->books->beat_ms = (uint64_t)now_ms();
	me->books->finished = 1;
	return NULL;
}

/* Tells the others where the nodes are. */
static int publish(void)
{
	struct weft_addr addr;
	char path[256], name[256], text[WEFT_ADDR_TEXT_MAX];
	snprintf(path, sizeof(path), "%s/%u.new", soak.dir, soak.slot);
	snprintf(name, sizeof(name), "%s/%u.addresses", soak.dir, soak.slot);
	FILE *file = fopen(path, "w");
	if (!file)
		return -errno;
	for (uint32_t i = 0; i < soak.nodes; i++) {
		weft_node_get_addr(soak.workers[i].node, &addr);
		weft_addr_format(&addr, text, sizeof(text));
		fprintf(file, "%s\n", text);
	}
	return fclose(file) == 0 && rename(path, name) == 0 ? 0 : -errno;
}

static void on_signal(int number)
{
	(void)number;
	stopping = true;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	if (argc != 10) {
		fprintf(stderr,
			"usage: soak PROVIDER DIR SLOT LIFE SLOTS NODES SEED PORT LONGEST\n");
		return 2;
	}
	sigaction(SIGTERM, &action, NULL);
	soak.provider = argv[1];
	soak.dir = argv[2];
	uint32_t *numbers[] = {&soak.slot,  &soak.life, &soak.slots,
			       &soak.nodes, &soak.seed, &soak.port,
			       &soak.longest};
	for (int i = 0; i < 7; i++)
		*numbers[i] = (uint32_t)strtoul(argv[3 + i], NULL, 10);
	if (soak.nodes > NODES_MAX || soak.slots < 2)
		return 2;
	for (uint32_t i = 0; i < soak.nodes; i++) {
		struct worker *worker = &soak.workers[i];
		worker->index = i;
		worker->random =
			(soak.seed * 31 + soak.slot * 7 + soak.life * 1009 + i) * 2654435761u | 1;
		worker->buffer = malloc(FRAME_MAX + (size_t)soak.longest);
		worker->books = open_books(i);
		int ret = worker->books && worker->buffer ? open_node(worker) : -EIO;
		if (ret < 0) {
			fprintf(stderr, "soak: slot %u: %s\n", soak.slot, weft_strerror(ret));
			return 1;
		}
	}
	/* Again: providers have installed theirs. */
	sigaction(SIGTERM, &action, NULL);
	if (publish() < 0)
		return 1;
	for (uint32_t i = 0; i < soak.nodes; i++)
		if (pthread_create(&soak.workers[i].thread, NULL, work, &soak.workers[i]) != 0)
			return 1;
	int status = 0;
	for (uint32_t i = 0; i < soak.nodes; i++) {
		pthread_join(soak.workers[i].thread, NULL);
		status |= soak.workers[i].books->violations > 0;
		free(soak.workers[i].buffer);
	}
	return status;
}
