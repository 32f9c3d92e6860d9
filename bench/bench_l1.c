/* SPDX-License-Identifier: MIT */
/*
 * bench_l1: one measurement of layer 1 or 2, or of libfabric alone doing the same. bench/run takes
 * many and compares.
 *
 *	bench_l1 raw|weft|layer2 [--provider P] [--size BYTES] [--window N] [--rounds N] [--solo]
 *... bench_l1 check [--provider P]
 *
 * A measurement runs two processes, each spinning on a core of its own, and prints one line of
 *JSON. With --solo both ends take turns in one thread, so that the number of instructions does not
 *depend on the scheduler. check opens an endpoint both ways and compares what libfabric says of the
 *two.
 *
 * This file knows processes and clocks. It moves no message itself; raw.c and layer1.c do.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "bench.h"

#define EXIT_USAGE 2
#define MESSAGE_MAX (16u << 20)
#define LAST_TURNS 1000

struct setup {
	const char *mode;
	const struct bench_kind *kind; /* NULL: check */
	struct bench_opts opts;
	unsigned rounds, warmup, batch;
	unsigned limit_s;
	bool solo;
	int cpu[2];  /* sender's, receiver's; -1: any */
	int peer_fd; /* the receiver: its socket to the sender; else -1 */
};

static const char usage[] =
	"usage: bench_l1 raw|weft|layer2 [options]\n"
	"       bench_l1 check [--provider P]\n"
	"  --provider P   tcp or shm (tcp)\n"
	"  --size BYTES   of every message, at least 8 (64)\n"
	"  --window N     messages under way: 1 is a ping-pong, else even, up to 16384 (1)\n"
	"  --rounds N     confirmations measured; each confirms half a window (10000)\n"
	"  --warmup N     confirmations before (1000)\n"
	"  --batch N      confirmations between two looks at the clock (100)\n"
	"  --solo         both ends in one thread\n"
	"  --limit S      give up after so many seconds (60)\n";

_Noreturn void bench_die(const char *what, int code)
{
	fprintf(stderr, "bench_l1: %s: %s (%d)\n", what, fi_strerror(abs(code)), code);
	exit(EXIT_FAILURE);
}

/* ------------------------------------------------------------------------------------------
 * processes */

/*
 * Two spinning processes on one core measure the scheduler, so each gets its own where there are
 * two. Where there is one, they share it and yield.
 */
static void choose_cpus(struct setup *s)
{
	cpu_set_t set;
	int found = 0;

	s->cpu[0] = -1;
	s->cpu[1] = -1;
	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
		if (CPU_ISSET((size_t)i, &set))
			s->cpu[found++] = i;
	s->opts.yield = found == 1;
}

static void pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		bench_die("sched_setaffinity", -errno);
}

/*
 * Starts this program again as the receiver. It is a new program, not only a new process, so that
 * neither side carries anything of libfabric from before the fork.
 */
static pid_t spawn_receiver(char **argv, int argc, int fd, int cpu)
{
	char **child_argv = calloc((size_t)argc + 4, sizeof(*child_argv));
	char fd_text[16], cpu_text[16];
	pid_t parent = getpid();
	pid_t pid;

	if (!child_argv)
		bench_die("calloc", -ENOMEM);
	snprintf(fd_text, sizeof(fd_text), "--peer-fd=%d", fd);
	snprintf(cpu_text, sizeof(cpu_text), "--cpu=%d", cpu);
	memcpy(child_argv, argv, (size_t)argc * sizeof(*argv));
	child_argv[argc] = fd_text;
	child_argv[argc + 1] = cpu_text;
	pid = fork();
	if (pid < 0)
		bench_die("fork", -errno);
	if (pid == 0) {
		/* A receiver whose sender is gone would spin until its limit. */
		if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent)
			_exit(EXIT_FAILURE);
		execv("/proc/self/exe", child_argv);
		_exit(EXIT_FAILURE);
	}
	free(child_argv);
	return pid;
}

/* The socket keeps packets apart, so a packet is one address or one signal. */
static void tell(int fd, const void *data, size_t len)
{
	if (send(fd, data, len, MSG_NOSIGNAL) != (ssize_t)len)
		bench_die("telling the other side", -errno);
}

static size_t hear(int fd, void *data, size_t size)
{
	ssize_t n = recv(fd, data, size, 0);

	if (n < 0)
		bench_die("hearing from the other side", -errno);
	if (n == 0)
		bench_die("the other side ended early", -ECONNRESET);
	return (size_t)n;
}

static void connect_ends(const struct bench_kind *kind, struct bench_end *a, struct bench_end *b)
{
	char addr[BENCH_ADDR_MAX];
	size_t len = kind->get_addr(b, addr);

	if (!kind->connect(a, addr, len))
		bench_die("the address of the other side is refused", -EADDRNOTAVAIL);
}

static void connect_by_socket(const struct bench_kind *kind, struct bench_end *end, int fd)
{
	char addr[BENCH_ADDR_MAX];
	size_t len = kind->get_addr(end, addr);

	tell(fd, addr, len);
	len = hear(fd, addr, sizeof(addr));
	if (!kind->connect(end, addr, len))
		bench_die("the address of the other side is refused", -EADDRNOTAVAIL);
}

static void init_game(const struct setup *s, struct bench_end *end, enum game_role role,
		      uint64_t *stamp)
{
	game_init(&end->game, role, s->opts.window, s->opts.size, s->warmup + s->rounds, s->batch,
		  stamp);
}

static void check_game(const struct bench_end *end)
{
	if (!game_complete(&end->game))
		bench_die("messages were lost, doubled or changed", -EIO);
}

static int run_receiver(const struct setup *s)
{
	const struct bench_kind *kind = s->kind;
	struct bench_end *end = kind->open(&s->opts, GAME_RECEIVER);
	char byte = 0;
	ssize_t n;

	init_game(s, end, GAME_RECEIVER, NULL);
	connect_by_socket(kind, end, s->peer_fd);
	tell(s->peer_fd, &byte, 1);
	kind->run(end);
	check_game(end);
	/* A send is complete before it has arrived: make progress until the sender has all. */
	do {
		kind->turn(end);
		n = recv(s->peer_fd, &byte, 1, MSG_DONTWAIT);
	} while (n < 0 && (errno == EAGAIN || errno == EINTR));
	kind->close(end);
	return EXIT_SUCCESS;
}

/* ------------------------------------------------------------------------------------------
 * measuring */

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The value that so many of a thousand are below, of some in order. */
static double quantile(const uint64_t *ns, size_t n, size_t per_mille)
{
	size_t at = n * per_mille / 1000;

	return (double)ns[at];
}

/*
 * A batch that the scheduler interrupted is far off, so the median of the batches is the figure to
 * compare. The mean is printed as well.
 */
static void print_result(const struct setup *s, const struct bench_end *end, const uint64_t *stamp)
{
	size_t first = s->warmup / s->batch;
	size_t n = s->rounds / s->batch;
	uint64_t *ns = calloc(n, sizeof(*ns));
	double rounds = s->rounds + s->warmup;
	uint64_t median;

	if (!ns)
		bench_die("calloc", -ENOMEM);
	for (size_t i = 0; i < n; i++)
		ns[i] = stamp[first + i] - stamp[first + i - 1];
	qsort(ns, n, sizeof(*ns), compare_u64);
	median = ns[n / 2];
	printf("{\"mode\": \"%s\", \"provider\": \"%s\", \"size\": %zu, \"window\": %u, "
	       "\"rounds\": %u, \"messages_a_round\": %u, \"cores\": %d, "
	       "\"ns_median\": %.1f, \"ns_mean\": %.1f, \"ns_min\": %.1f, "
	       "\"ns_p90\": %.1f, \"ns_p99\": %.1f, \"ns_p999\": %.1f, "
	       "\"polls_a_round\": %.3f, \"idle_polls_a_round\": %.3f, \"libfabric\": \"%u.%u\"}\n",
	       s->mode, s->kind->get_info(end)->fabric_attr->prov_name, s->opts.size,
	       s->opts.window, s->rounds, game_chunk(s->opts.window),
	       s->solo || s->cpu[1] < 0 ? 1 : 2, (double)median / s->batch,
	       (double)(stamp[first + n - 1] - stamp[first - 1]) / s->rounds,
	       (double)ns[0] / s->batch, quantile(ns, n, 900) / s->batch,
	       quantile(ns, n, 990) / s->batch, quantile(ns, n, 999) / s->batch,
	       (double)end->polls / rounds, (double)end->idle_polls / rounds,
	       FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
	free(ns);
}

static int run_sender(const struct setup *s, char **argv, int argc)
{
	const struct bench_kind *kind = s->kind;
	uint64_t *stamp = calloc((s->warmup + s->rounds) / s->batch, sizeof(*stamp));
	struct bench_end *end;
	int fd[2];
	int status;
	pid_t pid, ended;
	char byte = 0;

	if (!stamp)
		bench_die("calloc", -ENOMEM);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd))
		bench_die("socketpair", -errno);
	pid = spawn_receiver(argv, argc, fd[1], s->cpu[1]);
	close(fd[1]);
	pin(s->cpu[0]);
	end = kind->open(&s->opts, GAME_SENDER);
	init_game(s, end, GAME_SENDER, stamp);
	connect_by_socket(kind, end, fd[0]);
	hear(fd[0], &byte, 1);
	kind->start(end);
	kind->run(end);
	check_game(end);
	print_result(s, end, stamp);
	tell(fd[0], &byte, 1);
	/* The receiver may still wait to hear that its last message is here. */
	while ((ended = waitpid(pid, &status, WNOHANG)) == 0)
		kind->turn(end);
	if (ended != pid || !WIFEXITED(status) || WEXITSTATUS(status))
		bench_die("the receiver failed", -EIO);
	kind->close(end);
	close(fd[0]);
	free(stamp);
	return EXIT_SUCCESS;
}

static int run_solo(const struct setup *s)
{
	const struct bench_kind *kind = s->kind;
	uint64_t *stamp = calloc((s->warmup + s->rounds) / s->batch, sizeof(*stamp));
	struct bench_end *sender, *receiver;

	if (!stamp)
		bench_die("calloc", -ENOMEM);
	pin(s->cpu[0]);
	receiver = kind->open(&s->opts, GAME_RECEIVER);
	sender = kind->open(&s->opts, GAME_SENDER);
	init_game(s, receiver, GAME_RECEIVER, NULL);
	init_game(s, sender, GAME_SENDER, stamp);
	connect_ends(kind, receiver, sender);
	connect_ends(kind, sender, receiver);
	kind->start(sender);
	while (sender->game.left || receiver->game.left) {
		kind->turn(sender);
		kind->turn(receiver);
	}
	check_game(sender);
	check_game(receiver);
	/* Both ends count here, so that the figures stand beside instructions of both. */
	sender->polls += receiver->polls;
	sender->idle_polls += receiver->idle_polls;
	print_result(s, sender, stamp);
	/* libfabric's shm 1.17 does not survive a send to an endpoint of the process that is
	 * closed. */
	if (kind->leave)
		kind->leave(sender);
	for (int i = 0; kind->leave && i < LAST_TURNS; i++) {
		kind->turn(sender);
		kind->turn(receiver);
	}
	kind->close(sender);
	kind->close(receiver);
	free(stamp);
	return EXIT_SUCCESS;
}

/* -------------------------------------------------------------------------------------------
 * checking */

/* Addresses and pointers differ between any two endpoints. */
static bool may_differ(const char *line)
{
	return strstr(line, "src_addr") || strstr(line, "dest_addr") || strstr(line, "handle:") ||
	       strstr(line, "domain: 0x") || strstr(line, "fabric: 0x");
}

/*
 * Prints the lines in which the two texts differ, and returns their number. As both come from one
 * printer, line n of one belongs to line n of the other, except for the number of lines, which is
 * compared too.
 */
static int compare_texts(char *weft, char *raw)
{
	char *weft_rest = weft, *raw_rest = raw;
	int differences = 0;

	while (weft_rest || raw_rest) {
		const char *w = weft_rest ? strsep(&weft_rest, "\n") : "(no line)";
		const char *r = raw_rest ? strsep(&raw_rest, "\n") : "(no line)";

		if (strcmp(w, r) == 0 || (may_differ(w) && may_differ(r)))
			continue;
		printf("weft: %s\nraw:  %s\n", w, r);
		differences++;
	}
	return differences;
}

static int compare_traits(struct bench_traits weft, struct bench_traits raw)
{
	if (weft.wait_fd == raw.wait_fd && weft.source == raw.source)
		return 0;
	printf("weft: descriptor to wait on %d, reads sources %d\n", weft.wait_fd, weft.source);
	printf("raw:  descriptor to wait on %d, reads sources %d\n", raw.wait_fd, raw.source);
	return 1;
}

static int run_check(const struct setup *s)
{
	struct bench_end *weft = bench_layer1.open(&s->opts, GAME_RECEIVER);
	struct bench_end *raw = bench_raw.open(&s->opts, GAME_RECEIVER);
	char *weft_text = strdup(fi_tostr(bench_layer1.get_info(weft), FI_TYPE_INFO));
	char *raw_text = strdup(fi_tostr(bench_raw.get_info(raw), FI_TYPE_INFO));
	int differences;

	if (!weft_text || !raw_text)
		bench_die("strdup", -ENOMEM);
	differences = compare_texts(weft_text, raw_text) +
		      compare_traits(bench_layer1.get_traits(weft), bench_raw.get_traits(raw));
	free(weft_text);
	free(raw_text);
	bench_raw.close(raw);
	bench_layer1.close(weft);
	return differences ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* --------------------------------------------------------------------------------------------
 * options */

static _Noreturn void usage_error(const char *reason)
{
	fprintf(stderr, "bench_l1: %s\n%s", reason, usage);
	exit(EXIT_USAGE);
}

static unsigned number(const char *name, const char *text, unsigned min, unsigned max)
{
	char *end;
	unsigned long value;
	char reason[128];

	errno = 0;
	value = strtoul(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value >= min &&
	    value <= max)
		return (unsigned)value;
	snprintf(reason, sizeof(reason), "--%s takes a number from %u to %u", name, min, max);
	usage_error(reason);
}

static void parse_options(struct setup *s, int argc, char **argv)
{
	enum { PROVIDER, SIZE, WINDOW, ROUNDS, WARMUP, BATCH, SOLO, LIMIT, PEER_FD, CPU };
	static const struct option options[] = {
		{"provider", required_argument, NULL, PROVIDER},
		{"size", required_argument, NULL, SIZE},
		{"window", required_argument, NULL, WINDOW},
		{"rounds", required_argument, NULL, ROUNDS},
		{"warmup", required_argument, NULL, WARMUP},
		{"batch", required_argument, NULL, BATCH},
		{"solo", no_argument, NULL, SOLO},
		{"limit", required_argument, NULL, LIMIT},
		/* Between the two processes only. */
		{"peer-fd", required_argument, NULL, PEER_FD},
		{"cpu", required_argument, NULL, CPU},
		{NULL, 0, NULL, 0},
	};
	int option, index;

	while ((option = getopt_long(argc, argv, "", options, &index)) != -1) {
		const char *name = option == '?' ? "" : options[index].name;

		switch (option) {
		case PROVIDER:
			s->opts.provider = optarg;
			break;
		case SIZE:
			s->opts.size = number(name, optarg, 8, MESSAGE_MAX);
			break;
		case WINDOW:
			s->opts.window = number(name, optarg, 1, GAME_WINDOW_MAX);
			break;
		case ROUNDS:
			s->rounds = number(name, optarg, 1, 100000000);
			break;
		case WARMUP:
			s->warmup = number(name, optarg, 1, 100000000);
			break;
		case BATCH:
			s->batch = number(name, optarg, 1, 1000000);
			break;
		case SOLO:
			s->solo = true;
			break;
		case LIMIT:
			s->limit_s = number(name, optarg, 1, 3600);
			break;
		case PEER_FD:
			s->peer_fd = (int)number(name, optarg, 0, 65535);
			break;
		case CPU:
			/* -1 where the sender found one core only, or none: share. */
			s->cpu[1] = atoi(optarg);
			break;
		default:
			usage_error("unknown or incomplete option");
		}
	}
}

static void parse(struct setup *s, int argc, char **argv)
{
	parse_options(s, argc, argv);
	if (optind + 1 != argc)
		usage_error("one of raw, weft, layer2 and check is wanted");
	s->mode = argv[optind];
	if (strcmp(s->mode, "raw") == 0)
		s->kind = &bench_raw;
	else if (strcmp(s->mode, "weft") == 0)
		s->kind = &bench_layer1;
	else if (strcmp(s->mode, "layer2") == 0)
		s->kind = &bench_layer2;
	else if (strcmp(s->mode, "check") != 0)
		usage_error("one of raw, weft, layer2 and check is wanted");
	if (strcmp(s->opts.provider, "tcp") != 0 && strcmp(s->opts.provider, "shm") != 0)
		usage_error("--provider takes tcp or shm");
	if (s->opts.window > 1 && s->opts.window % 2)
		usage_error("--window takes 1 or an even number");
	/* Whole batches only, and at least one of each. */
	s->rounds = (s->rounds + s->batch - 1) / s->batch * s->batch;
	s->warmup = (s->warmup + s->batch - 1) / s->batch * s->batch;
}

/* SIGTERM, because shm removes its file in /dev/shm then. */
static void on_limit(int number)
{
	(void)number;
	raise(SIGTERM);
}

int main(int argc, char **argv)
{
	struct setup s = {
		.opts = {.provider = "tcp", .size = 64, .window = 1},
		.rounds = 10000,
		.warmup = 1000,
		.batch = 100,
		.limit_s = 60,
		.peer_fd = -1,
	};

	choose_cpus(&s);
	parse(&s, argc, argv);
	/* Whatever hangs, here or in a provider, ends. */
	signal(SIGALRM, on_limit);
	alarm(s.limit_s);
	if (!s.kind)
		return run_check(&s);
	if (s.solo)
		return run_solo(&s);
	if (s.peer_fd >= 0) {
		pin(s.cpu[1]);
		return run_receiver(&s);
	}
	return run_sender(&s, argv, argc);
}
