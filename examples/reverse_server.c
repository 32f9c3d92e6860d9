/* SPDX-License-Identifier: MIT */
/*
 * The server of the reverse program. It keeps receives posted, for all clients together; remembers
 * the address that each client sends in its CONNECT; and answers each DATA in the buffer that it
 * came in. Everything that a peer can make it keep is bounded: records of clients, DATA held for a
 * CONNECT, replies that a peer does not take. So one that misbehaves costs the others no more than
 * the time its messages take.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "reverse.h"
#include "reverse_wire.h"

#define RECEIVES 256	 /* posted at any time */
#define CLIENTS_MAX 4096 /* remembered; for one more, the one heard of longest ago is forgotten */
#define EARLY_MAX 64	 /* DATA held until their CONNECT comes */
#define REPLIES_MAX 1024 /* under way, to all clients */
#define REPLIES_EACH 8	 /* under way, to one client; a DATA that would need one more is dropped */
#define BUCKETS 1024	 /* of the tables in which clients are found */
#define RETRY_MS 100	 /* after which a receive that could not be posted is tried again */

struct client {
	TAILQ_ENTRY(client) link;
	LIST_ENTRY(client) by_cookie, by_dest;
	weft_dest dest; /* WEFT_DEST_NONE: its CONNECT has not come yet */
	struct cookie cookie;
	/*
	 * A DATA that came before the CONNECT, or NULL. Receives can complete in another order than
	 * the messages were sent in, so dropping it would lose a good client's text. Only a DATA
	 * with a cookie is held: nothing else could tell later whose it is.
	 */
	struct weft_buf *early;
	size_t early_len;
	size_t replies;	 /* under way */
	int64_t last_ms; /* when its last message came */
};

struct server {
	struct weft_net *net;
	struct options *options;
	TAILQ_HEAD(clients, client) clients; /* the one heard of longest ago comes first */
	LIST_HEAD(bucket, client) by_cookie[BUCKETS], by_dest[BUCKETS];
	size_t client_count, client_max, early_count, receives, receives_wanted, replies;
	uint64_t served;    /* replies sent */
	uint64_t malformed; /* messages dropped because they were none of ours */
	uint64_t unmatched; /* DATA dropped because nobody knew whom to answer */
	uint64_t failed;    /* receives, CONNECTs and replies that an error or a limit ended */
};

static struct bucket *bucket_of(struct bucket *table, uint64_t key)
{
	/* The upper half of a destination is a generation, which is small. */
	return &table[(key ^ key >> 32) % BUCKETS];
}

static struct client *find_by_dest(struct server *server, weft_dest dest)
{
	struct client *client;
	LIST_FOREACH (client, bucket_of(server->by_dest, dest), by_dest) {
		if (client->dest == dest)
			break;
	}
	return client;
}

/* Who a message is from: by its cookie if it has one, else by its source if that is known. */
static struct client *find_client(struct server *server, struct cookie cookie, weft_dest source)
{
	struct client *client;
	if (!cookie.given)
		return source != WEFT_DEST_NONE ? find_by_dest(server, source) : NULL;
	LIST_FOREACH (client, bucket_of(server->by_cookie, cookie.value), by_cookie) {
		if (client->cookie.value == cookie.value)
			break;
	}
	return client;
}

static void set_dest(struct server *server, struct client *client, weft_dest dest)
{
	client->dest = dest;
	LIST_INSERT_HEAD(bucket_of(server->by_dest, dest), client, by_dest);
}

static void forget_client(struct server *server, struct client *client)
{
	TAILQ_REMOVE(&server->clients, client, link);
	if (client->cookie.given)
		LIST_REMOVE(client, by_cookie);
	if (client->dest != WEFT_DEST_NONE)
		LIST_REMOVE(client, by_dest);
	server->client_count--;
	if (client->early) {
		server->early_count--;
		server->unmatched++;
		weft_buf_unref(client->early);
	}
	if (client->dest != WEFT_DEST_NONE && server->net)
		weft_net_remove_peer(server->net, client->dest);
	free(client);
}

/* Makes a record of a client. Returns NULL when memory is short. */
static struct client *remember_client(struct server *server, struct cookie cookie)
{
	struct client *client = calloc(1, sizeof(*client));
	if (!client)
		return NULL;
	if (server->client_count == server->client_max)
		forget_client(server, TAILQ_FIRST(&server->clients));
	client->cookie = cookie;
	if (cookie.given)
		LIST_INSERT_HEAD(bucket_of(server->by_cookie, cookie.value), client, by_cookie);
	TAILQ_INSERT_TAIL(&server->clients, client, link);
	server->client_count++;
	return client;
}

/* Notes that a client is alive, which moves it to the far end from where clients are forgotten. */
static void touch_client(struct server *server, struct client *client)
{
	client->last_ms = now_ms();
	TAILQ_REMOVE(&server->clients, client, link);
	TAILQ_INSERT_TAIL(&server->clients, client, link);
}

static void on_reply_sent(struct weft_net *net, const struct weft_done *done)
{
	struct server *server = done->user;
	const char *name = peer_name(net, done->source);
	struct client *client = find_by_dest(server, done->source);
	server->replies--;
	if (client && client->replies > 0)
		client->replies--;
	if (done->status == 0) {
		server->served++;
		printf("reversed message sent to %s\n", name);
	} else {
		char what[WEFT_ADDR_TEXT_MAX + 40];
		server->failed++;
		snprintf(what, sizeof(what), "reply not sent to %s", name);
		say_failure(what, done);
	}
	weft_buf_unref(done->buf);
}

/* Reverses a DATA where it lies and sends it back. Returns true if the send now has the buffer. */
static bool answer(struct server *server, struct client *client, struct weft_buf *buf, size_t len,
		   struct cookie cookie)
{
	char what[WEFT_ADDR_TEXT_MAX + 40];
	uint8_t *text = (uint8_t *)weft_buf_data(buf) + 1;
	touch_client(server, client);
	if (client->replies >= REPLIES_EACH || server->replies >= REPLIES_MAX) {
		server->failed++;
		return false;
	}
	snprintf(what, sizeof(what), "message received from %s",
		 peer_name(server->net, client->dest));
	say_text(what, text, len - 1);
	reverse_text(text, len - 1);
	int ret = send_message(server->net, client->dest, buf, len, cookie,
			       server->options->timeout_ms, on_reply_sent, server);
	if (ret < 0) {
		server->failed++;
		say_error("reply not sent to %s: %s", peer_name(server->net, client->dest),
			  weft_strerror(ret));
		return false;
	}
	client->replies++;
	server->replies++;
	return true;
}

/* Keeps a DATA until its CONNECT comes. Returns true if it has taken over the buffer. */
static bool hold_early(struct server *server, struct client *client, const struct weft_done *done)
{
	struct cookie cookie = received_cookie(done);
	if (!client && cookie.given && server->early_count < EARLY_MAX)
		client = remember_client(server, cookie);
	if (!client || client->early) {
		server->unmatched++;
		return false;
	}
	client->early = done->buf;
	client->early_len = done->len;
	server->early_count++;
	touch_client(server, client);
	return true;
}

static void drop_malformed(struct server *server, const char *reason)
{
	server->malformed++;
	say_error("message dropped: %s", reason);
}

static void handle_connect(struct server *server, const struct reverse_message *message,
			   struct cookie cookie)
{
	struct weft_addr own, addr;
	struct weft_parse_error error;
	weft_dest dest;
	weft_net_get_addr(server->net, &own);
	int ret = weft_addr_from_raw(&addr, own.scheme, own.format, message->body, message->len,
				     &error);
	if (ret < 0) {
		drop_malformed(server, error.reason);
		return;
	}
	ret = weft_net_add_peer(server->net, &addr, &dest);
	if (ret == -EINVAL || ret == -EADDRNOTAVAIL) {
		drop_malformed(server, "its address is not one of this fabric");
		return;
	}
	if (ret < 0) {
		server->failed++;
		say_error("CONNECT dropped: %s", weft_strerror(ret));
		/* So that there is room for the next one. */
		if (ret == -ENOSPC && !TAILQ_EMPTY(&server->clients))
			forget_client(server, TAILQ_FIRST(&server->clients));
		return;
	}
	struct client *client = find_client(server, cookie, dest);
	if (!client)
		client = remember_client(server, cookie);
	if (client && client->dest == WEFT_DEST_NONE)
		set_dest(server, client, dest);
	else
		weft_net_remove_peer(server->net, dest); /* A known one has its own reference. */
	if (!client) {
		server->failed++;
		return;
	}
	if (client->dest != dest) {
		drop_malformed(server, "its cookie is another client's");
		return;
	}
	printf("CONNECT received from %s\n", peer_name(server->net, dest));
	touch_client(server, client);
	if (client->early) {
		struct weft_buf *buf = client->early;
		client->early = NULL;
		server->early_count--;
		if (!answer(server, client, buf, client->early_len, cookie))
			weft_buf_unref(buf);
	}
}

/* Deals with one received message. Returns true if its buffer is in use for something else now. */
static bool handle_message(struct server *server, const struct weft_done *done)
{
	struct reverse_message message;
	struct cookie cookie = received_cookie(done);
	const char *fault = reverse_decode(&message, weft_buf_data(done->buf), done->len);
	if (fault) {
		drop_malformed(server, fault);
		return false;
	}
	if (message.type == REVERSE_CONNECT) {
		handle_connect(server, &message, cookie);
		return false;
	}
	struct client *client = find_client(server, cookie, done->source);
	if (!client && cookie.given)
		client = find_client(server, (struct cookie){0}, done->source);
	if (!client || client->dest == WEFT_DEST_NONE)
		return hold_early(server, client, done);
	return answer(server, client, done->buf, done->len, cookie);
}

static void on_receive(struct weft_net *net, const struct weft_done *done);

/* Posts a receive into a buffer that is ours to give away. */
static int post_receive(struct server *server, struct weft_buf *buf)
{
	int ret = weft_net_recv(server->net, buf, on_receive, server);
	if (ret < 0)
		weft_buf_unref(buf);
	else
		server->receives++;
	return ret;
}

/* Brings the number of receives back to what it should be, with new buffers for those in use. */
static int post_receives(struct server *server)
{
	int ret = 0;
	while (ret == 0 && server->receives < server->receives_wanted) {
		struct weft_buf *buf;
		ret = weft_buf_alloc(server->net, REVERSE_MESSAGE_MAX, &buf);
		if (ret == 0)
			ret = post_receive(server, buf);
	}
	return ret;
}

static void on_receive(struct weft_net *net, const struct weft_done *done)
{
	struct server *server = done->user;
	bool taken = false;
	(void)net;
	server->receives--;
	if (done->status == 0) {
		taken = handle_message(server, done);
	} else if (done->status != -ECANCELED) {
		server->failed++;
		say_failure("receive failed", done);
	}
	if (!taken)
		post_receive(server, done->buf);
	post_receives(server);
}

/*
 * Forgets who had been silent too long at looked_ms, when messages were last looked for: what came
 * while we were busy is not read yet, and its sender not silent. Who is owed a reply is kept until
 * that has ended, for which it has a deadline. Returns for how many ms there is nothing to do, or
 * -1.
 */
static int expire(struct server *server, int64_t looked_ms)
{
	int64_t now = now_ms();
	int64_t next = INT64_MAX;
	struct client *client;
	while ((client = TAILQ_FIRST(&server->clients)) &&
	       client->last_ms + server->options->idle_ms <= looked_ms) {
		if (client->replies > 0)
			touch_client(server, client);
		else
			forget_client(server, client);
	}
	if (client)
		next = client->last_ms + server->options->idle_ms;
	if (post_receives(server) < 0 && now + RETRY_MS < next)
		next = now + RETRY_MS;
	if (next < now)
		next = now;
	return next == INT64_MAX ? -1 : (int)(next - now);
}

static int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;
	if (!dir)
		return -1;
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count - 1; /* One of them was the directory itself. */
}

static void print_statistics(const struct server *server)
{
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	weft_net_get_stats(server->net, &stats);
	printf("statistics: clients=%zu receives=%" PRIu64 " buffers=%" PRIu64 " peers=%" PRIu64
	       " operations=%" PRIu64 " held=%" PRIu64 " descriptors=%d served=%" PRIu64
	       " malformed=%" PRIu64 " unmatched=%" PRIu64 " failed=%" PRIu64 "\n",
	       server->client_count, stats.receives, stats.buffers, stats.peers, stats.ops,
	       stats.held, count_descriptors(), server->served, server->malformed,
	       server->unmatched, server->failed);
}

static int serve(struct server *server)
{
	int64_t looked_ms = now_ms();
	while (!stop_wanted() && !ferror(stdout)) {
		int wait_ms = expire(server, looked_ms);
		looked_ms = now_ms();
		int ret = weft_net_poll(server->net, wait_ms);
		if (ret < 0) {
			say_error("the fabric is broken: %s", weft_strerror(ret));
			return EXIT_FAILED;
		}
		if (statistics_wanted())
			print_statistics(server);
	}
	return EXIT_DONE;
}

/* The command that a client has to be started by, as we were, to have a device made of software. */
static const char *launched_by(const struct weft_net_info *info)
{
	const char *launcher = getenv("SOFTEFA_LAUNCHER");
	return launcher && strncmp(info->domain, "softefa", 7) == 0 ? launcher : "";
}

int run_server(struct options *options)
{
	struct server server = {.options = options};
	TAILQ_INIT(&server.clients);
	int status = open_net(&server.net, options, NULL);
	if (status != EXIT_DONE)
		return status;

	struct weft_net_info info = WEFT_NET_INFO_INIT;
	weft_net_get_info(server.net, &info);
	server.receives_wanted = info.rx_size < RECEIVES ? info.rx_size : RECEIVES;
	/* Some room is left for peers that are forgotten but not yet out of the address vector. */
	size_t spare = info.max_peers / 8 + 1;
	size_t peers = info.max_peers > spare ? info.max_peers - spare : 1;
	server.client_max = peers < CLIENTS_MAX ? peers : CLIENTS_MAX;

	int ret = post_receives(&server);
	if (ret < 0) {
		status = EXIT_FAILED;
		say_error("cannot post receives: %s", weft_strerror(ret));
	} else {
		char text[WEFT_ADDR_TEXT_MAX];
		struct weft_addr own;
		weft_net_get_addr(server.net, &own);
		weft_addr_format(&own, text, sizeof(text));
		const char *launcher = launched_by(&info);
		printf("address: %s\na client is started by: %s%s%s '%s' 'Hello, world!'\n", text,
		       launcher, launcher[0] ? " " : "", options->program, text);
		status = serve(&server);
		print_statistics(&server);
	}
	/* The close lets replies under way finish, so clients are forgotten only after it. */
	close_net(server.net);
	server.net = NULL;
	while (!TAILQ_EMPTY(&server.clients))
		forget_client(&server, TAILQ_FIRST(&server.clients));
	return status;
}
