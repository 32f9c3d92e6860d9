/* SPDX-License-Identifier: MIT */
/*
 * crowd.c: many sessions against few, over tcp: what does it cost a server that its messages come
 * from a thousand sessions instead of ten? Calls layer 2 of weft.
 *
 *   crowd [SESSIONS FEW PROCESSES OUTSTANDING SECONDS ROUNDS SIZE]      (1000 10 4 1000 3 3 64)
 *
 * One process serves; the others have the sessions, as many in each, and keep OUTSTANDING questions
 * of SIZE bytes in all under way: each is answered, and the next one goes by the next session in
 * turn. Ten sessions put their small messages into common frames, which a thousand with one each
 * cannot: with a SIZE of more than half a frame neither does. Few and many take turns, ROUNDS
 * times, against one server. Prints messages a second of each, the ratio of the medians, and the
 * server's memory for an idle session. The exit status is 1 if a session was not served.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

#define MESSAGE_MAX 65536
#define ROUNDS_MAX 32
#define PROCESSES_MAX 64
#define OPEN_MS 60000

static struct {
	unsigned sessions, few, processes, outstanding, seconds, rounds, size;
} plan = {1000, 10, 4, 1000, 3, 3, 64};

/* What the processes tell each other. */
static struct shared {
	struct weft_addr server;
	volatile sig_atomic_t ready, stop;
	uint64_t idle_memory, open_memory, session_memory; /* the server's */
	unsigned round;	   /* what the clients are to do now; 0: nothing yet */
	unsigned sessions; /* in this round */
	unsigned opened[PROCESSES_MAX], served[PROCESSES_MAX];
	uint64_t answers[PROCESSES_MAX];
	unsigned done[PROCESSES_MAX];
} * shared;

struct client {
	struct weft_node *node;
	weft_peer *peers;
	unsigned *answers; /* of each session */
	unsigned count, opened, next, closed;
	uint64_t total;
	bool stopping;
	unsigned under_way;
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what, int code)
{
	fprintf(stderr, "crowd: %s: %s\n", what, weft_strerror(code));
	exit(2);
}

static void on_log(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level <= WEFT_LOG_WARN)
		fprintf(stderr, "crowd: %s\n", text);
}

static struct weft_node *open_node(const struct weft_events *events, void *user)
{
	struct weft_net_opts net = WEFT_NET_OPTS_INIT;
	struct weft_node_opts opts = WEFT_NODE_OPTS_INIT;
	struct weft_node *node;
	net.provider = "tcp";
	net.log = on_log;
	opts.net = &net;
	opts.silence_ms = 120000;
	opts.max_peers = plan.sessions;
	int ret = weft_node_open(&node, &opts, events, user);
	if (ret < 0)
		die("weft_node_open", ret);
	return node;
}

static void on_question(struct weft_node *node, const struct weft_msg *msg, void *user)
{
	struct weft_send send = WEFT_SEND_INIT;
	(void)user;
	send.data = msg->data;
	send.len = msg->len;
	int ret = weft_msg_reply(node, msg, &send);
	if (ret < 0 && ret != -ENOTCONN)
		die("weft_msg_reply", ret);
}

static void serve(void)
{
	struct weft_events events = WEFT_EVENTS_INIT;
	struct weft_node_stats stats = WEFT_NODE_STATS_INIT;
	events.message = on_question;
	struct weft_node *node = open_node(&events, NULL);
	weft_node_get_addr(node, &shared->server);
	weft_node_get_stats(node, &stats);
	shared->idle_memory = stats.memory;
	shared->session_memory = stats.session_memory;
	__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
	while (!shared->stop && weft_node_poll(node, 100) >= 0) {
		/* While the sessions are there and have not been used yet. */
		if (shared->open_memory == 0 && stats.peers < plan.sessions) {
			weft_node_get_stats(node, &stats);
			if (stats.peers == plan.sessions)
				shared->open_memory = stats.memory;
		}
	}
	weft_node_close(node, 0);
	exit(0);
}

static void on_opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
		      void *user)
{
	struct client *client = user;
	(void)node;
	(void)peer;
	(void)info;
	client->opened++;
}

static void on_closed(struct weft_node *node, weft_peer peer, const struct weft_closed *closed,
		      void *user)
{
	struct client *client = user;
	(void)node;
	(void)peer;
	client->closed++;
	if (!client->stopping)
		fprintf(stderr, "crowd: a session has ended: %s\n", closed->text);
}

static void ask_next(struct client *client);

static void on_answer(struct weft_node *node, weft_peer peer, const struct weft_msg *msg,
		      int status, void *user)
{
	struct client *client = user;
	(void)msg;
	client->under_way--;
	if (status < 0)
		return;
	client->total++;
	client->answers[(uintptr_t)weft_peer_data(node, peer)]++;
	ask_next(client);
}

static void ask_next(struct client *client)
{
	static const char data[MESSAGE_MAX];
	struct weft_send send = WEFT_SEND_INIT;
	if (client->stopping)
		return;
	send.data = data;
	send.len = plan.size;
	send.timeout_ms = -1;
	send.reply = on_answer;
	send.user = client;
	weft_peer peer = client->peers[client->next];
	client->next = (client->next + 1) % client->count;
	int ret = weft_peer_send(client->node, peer, &send);
	if (ret < 0)
		die("weft_peer_send", ret);
	client->under_way++;
}

/* One round: opens so many sessions, asks for the time of the round, and closes them. */
static void run_client(struct client *client, unsigned index, unsigned sessions)
{
	double end = now() + OPEN_MS / 1000.0;
	client->count = sessions / plan.processes + (index < sessions % plan.processes);
	client->opened = client->closed = client->next = 0;
	client->total = 0;
	client->stopping = false;
	client->peers = calloc(client->count, sizeof(*client->peers));
	client->answers = calloc(client->count, sizeof(*client->answers));
	for (unsigned i = 0; i < client->count; i++) {
		int ret = weft_peer_connect(client->node, &shared->server, OPEN_MS,
					    &client->peers[i]);
		if (ret < 0)
			die("weft_peer_connect", ret);
		weft_peer_set_data(client->node, client->peers[i], (void *)(uintptr_t)i);
	}
	while (client->opened + client->closed < client->count && now() < end)
		weft_node_poll(client->node, 10);
	__atomic_store_n(&shared->opened[index], client->opened, __ATOMIC_RELEASE);
	/* All begin together. */
	while (__atomic_load_n(&shared->sessions, __ATOMIC_ACQUIRE) != 0)
		weft_node_poll(client->node, 1);
	unsigned share = plan.outstanding / plan.processes;
	for (unsigned i = 0; i < share; i++)
		ask_next(client);
	double begin = now(), warm = begin + 0.5, stop = warm + plan.seconds;
	uint64_t before = 0;
	while (now() < stop) {
		weft_node_poll(client->node, 1);
		if (before == 0 && now() >= warm)
			before = client->total;
	}
	shared->answers[index] = client->total - before;
	client->stopping = true;
	while (client->under_way > 0 && client->closed < client->count && now() < stop + 30)
		weft_node_poll(client->node, 10);
	unsigned served = 0;
	for (unsigned i = 0; i < client->count; i++)
		served += client->answers[i] > 0;
	shared->served[index] = served;
	for (unsigned i = 0; i < client->count; i++)
		weft_peer_close(client->node, client->peers[i], 10000);
	while (client->closed < client->count && now() < stop + 60)
		weft_node_poll(client->node, 10);
	free(client->peers);
	free(client->answers);
}

static void be_client(unsigned index)
{
	struct weft_events events = WEFT_EVENTS_INIT;
	struct client client = {.node = NULL};
	events.opened = on_opened;
	events.closed = on_closed;
	while (!__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE))
		usleep(1000);
	client.node = open_node(&events, &client);
	for (unsigned round = 1;; round++) {
		while (__atomic_load_n(&shared->round, __ATOMIC_ACQUIRE) < round) {
			if (shared->stop) {
				weft_node_close(client.node, 1000);
				exit(0);
			}
			weft_node_poll(client.node, 1);
		}
		run_client(&client, index, shared->sessions);
		__atomic_store_n(&shared->done[index], round, __ATOMIC_RELEASE);
	}
}

static unsigned sum(const unsigned *values)
{
	unsigned total = 0;
	for (unsigned i = 0; i < plan.processes; i++)
		total += __atomic_load_n(&values[i], __ATOMIC_ACQUIRE);
	return total;
}

/* Has the clients run a round. Returns messages a second, or a negative number if not all sessions
 * were served. */
static double run_round(unsigned round, unsigned sessions)
{
	uint64_t answers = 0;
	memset(shared->opened, 0, sizeof(shared->opened));
	__atomic_store_n(&shared->sessions, sessions, __ATOMIC_RELEASE);
	__atomic_store_n(&shared->round, round, __ATOMIC_RELEASE);
	double end = now() + OPEN_MS / 1000.0;
	while (sum(shared->opened) < sessions && now() < end)
		usleep(1000);
	unsigned opened = sum(shared->opened);
	/* Time for the server to look at its memory. */
	usleep(300000);
	__atomic_store_n(&shared->sessions, 0, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < plan.processes; i++) {
		while (__atomic_load_n(&shared->done[i], __ATOMIC_ACQUIRE) < round)
			usleep(1000);
		answers += shared->answers[i];
	}
	double rate = (double)answers / plan.seconds;
	unsigned served = sum(shared->served);
	printf("%4u sessions: %u opened, %u served, %.0f questions and answers a second\n",
	       sessions, opened, served, rate);
	fflush(stdout);
	return opened == sessions && served == sessions ? rate : -1;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	unsigned *numbers[] = {&plan.sessions, &plan.few,    &plan.processes, &plan.outstanding,
			       &plan.seconds,  &plan.rounds, &plan.size};
	double few[ROUNDS_MAX], many[ROUNDS_MAX];
	pid_t pids[PROCESSES_MAX + 1];
	struct rlimit files;
	int status = 0;
	for (int i = 1; i < argc && i <= 7; i++)
		*numbers[i - 1] = (unsigned)atoi(argv[i]);
	if (plan.rounds == 0 || plan.rounds > ROUNDS_MAX || plan.processes == 0 ||
	    plan.processes > PROCESSES_MAX || plan.few < plan.processes ||
	    plan.sessions < plan.few || plan.size > MESSAGE_MAX) {
		fprintf(stderr,
			"usage: crowd [SESSIONS FEW PROCESSES OUTSTANDING SECONDS ROUNDS SIZE]\n");
		return 2;
	}
	/* An endpoint of tcp;ofi_rxm takes 70 MiB otherwise. */
	setenv("FI_OFI_RXM_MSG_RX_SIZE", "16", 0);
	setenv("FI_OFI_RXM_MSG_TX_SIZE", "16", 0);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	/* cppcheck-suppress invalidFunctionArg ; memory without a file has no descriptor */
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 2;
	const unsigned children = plan.processes + 1;
	for (unsigned i = 0; i < children; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			return 2;
		if (pids[i] == 0 && i == 0)
			serve();
		else if (pids[i] == 0)
			be_client(i - 1);
	}
	for (unsigned i = 0; i < plan.rounds; i++) {
		few[i] = run_round(2 * i + 1, plan.few);
		many[i] = run_round(2 * i + 2, plan.sessions);
		if (few[i] < 0 || many[i] < 0)
			status = 1;
	}
	shared->stop = 1;
	for (unsigned i = 0; i < children; i++)
		waitpid(pids[i], NULL, 0);
	qsort(few, plan.rounds, sizeof(*few), by_size);
	qsort(many, plan.rounds, sizeof(*many), by_size);
	printf("%u sessions against %u, %u outstanding of %u bytes: %.2f of the messages a second "
	       "(medians of "
	       "%u)\n",
	       plan.sessions, plan.few, plan.outstanding, plan.size,
	       many[plan.rounds / 2] / few[plan.rounds / 2], plan.rounds);
	printf("the server's memory for an idle session: %" PRIu64
	       " bytes by session_memory; by all of its memory %.0f\n",
	       shared->session_memory,
	       ((double)shared->open_memory - (double)shared->idle_memory) / plan.sessions);
	return status;
}
