/* SPDX-License-Identifier: MIT */
/*
 * reverse: a server that reverses each message and sends it back, and a client for it. Without an
 * address it is the server; with one it is the client. This file has the command line, and what
 * both sides need: opening a fabric, signals, and saying what happens.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "escape.h"
#include "reverse.h"
#include "reverse_wire.h"

void say_error(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("reverse: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

int64_t now_ms(void)
{
	struct timespec now = {0};
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void say_text(const char *what, const uint8_t *text, size_t len)
{
	char shown[ESCAPE_MAX(REVERSE_TEXT_MAX)];
	escape_bytes(shown, text, len);
	printf("%s (len=%zu): %s\n", what, len, shown);
}

const char *peer_name(const struct weft_net *net, weft_dest dest)
{
	static char name[WEFT_ADDR_TEXT_MAX];
	struct weft_addr addr;
	if (weft_net_get_peer_addr(net, dest, &addr) < 0 ||
	    weft_addr_format(&addr, name, sizeof(name)) < 0)
		return "a client that is gone";
	return name;
}

/* Whose numbers stand beside the errors of the net that was opened last. */
static char numbered_by[32];

void say_failure(const char *what, const struct weft_done *done)
{
	char code[sizeof(numbered_by) + 32] = "";
	if (done->prov_errno != 0)
		snprintf(code, sizeof(code), " (%s code %d)", numbered_by, done->prov_errno);
	say_error("%s: %s%s%s%s%s%s", what, weft_strerror(done->status), done->text[0] ? ": " : "",
		  done->text, code, done->advice ? "; " : "", done->advice ? done->advice : "");
}

struct cookie received_cookie(const struct weft_done *done)
{
	return (struct cookie){(done->flags & WEFT_DONE_CQ_DATA) != 0, (uint32_t)done->cq_data};
}

int send_message(struct weft_net *net, weft_dest dest, struct weft_buf *buf, size_t len,
		 struct cookie cookie, int timeout_ms, weft_done_fn *done, void *user)
{
	struct weft_post post = WEFT_POST_INIT;
	post.buf = buf;
	post.len = len;
	post.timeout_ms = timeout_ms;
	if (cookie.given) {
		post.flags = WEFT_POST_CQ_DATA;
		post.cq_data = cookie.value;
	}
	return weft_net_send(net, dest, &post, done, user);
}

static struct weft_net *volatile wake_net;
static volatile sig_atomic_t stop_asked, statistics_asked;

bool stop_wanted(void)
{
	return stop_asked;
}

bool statistics_wanted(void)
{
	bool asked = statistics_asked;
	statistics_asked = 0;
	return asked;
}

static void on_signal(int number)
{
	if (number == SIGUSR1)
		statistics_asked = 1;
	else
		stop_asked = 1;
	if (wake_net)
		weft_net_wake(wake_net);
}

/*
 * A library under Debian's libfabric takes these signals when it is loaded, and makes a crash look
 * like a failure, unless this variable is set.
 */
static void reset_signals(void)
{
	static const int taken[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGINT, SIGTERM};
	bool left_alone = getenv("IPATH_NO_BACKTRACE") != NULL;
	for (size_t i = 0; !left_alone && i < sizeof(taken) / sizeof(taken[0]); i++)
		signal(taken[i], SIG_DFL);
	/* A reader that has gone shows as an error of stdout; then we still close cleanly. */
	signal(SIGPIPE, SIG_IGN);
}

/* To be called when the net is open: while it opens, the shm provider installs its own handlers. */
static void catch_signals(struct weft_net *net)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct sigaction hangup = {0};
	wake_net = net;
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	/* nohup(1) and others ask by this that we outlive the terminal. */
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &action, NULL);
}

static void on_log(void *user, enum weft_log_level level, const char *text)
{
	static const char *const names[] = {"", "error: ", "warning: ", "", "debug: "};
	const struct options *options = user;
	if (level <= WEFT_LOG_WARN || options->verbose)
		say_error("%s%s", level <= WEFT_LOG_DEBUG ? names[level] : "", text);
}

int open_net(struct weft_net **net, struct options *options, const struct weft_addr *toward)
{
	struct weft_net_opts opts = WEFT_NET_OPTS_INIT;
	opts.provider = options->provider;
	opts.bind = options->bind;
	opts.toward = toward;
	opts.log = on_log;
	opts.log_user = options;
	int ret = weft_net_open(net, &opts);
	if (ret < 0) {
		say_error("cannot open a fabric: %s", weft_strerror(ret));
		return ret == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	catch_signals(*net);

	struct weft_net_info info = WEFT_NET_INFO_INIT;
	weft_net_get_info(*net, &info);
	snprintf(numbered_by, sizeof(numbered_by), "%s",
		 strcmp(info.provider, "efa") == 0 ? "EFA" : info.provider);
	printf("provider: %s\ndomain: %s\nfabric: %s\n", info.provider, info.domain, info.fabric);
	if (info.nic)
		printf("NIC: %s\n", info.nic);
	if (info.nic && info.link_bps > 0)
		printf("link: %.1f Gbit/s\n", (double)info.link_bps / 1e9);
	return EXIT_DONE;
}

void close_net(struct weft_net *net)
{
	wake_net = NULL;
	if (weft_net_close(net) > 0)
		say_error("the provider did not let go of everything at close");
}

static const char help[] =
	"usage: reverse [OPTION]...                 the server: reverses what it is sent\n"
	"       reverse [OPTION]... ADDRESS [TEXT]  a client: sends TEXT, shows the reply\n"
	"\n"
	"ADDRESS is what the server prints, such as tcp://127.0.0.1:4567. TEXT is at most\n"
	"8191 bytes; \"Hello, world!\" is sent without it. Options come before ADDRESS.\n"
	"\n"
	"  -p, --provider P   efa, tcp, shm, udp, verbs, or one of libfabric's names\n"
	"                     (default: the best one here, or the one that ADDRESS needs)\n"
	"  -b, --bind B       where to bind: IP[:PORT], or with shm the start of the name\n"
	"  -t, --timeout T    how long a client waits in all, and a server for the end of\n"
	"                     each reply (default 5s)\n"
	"  -i, --idle T       when the server forgets a client that sends nothing more\n"
	"                     (default 10s)\n"
	"  -v, --verbose      show all that the library has to say\n"
	"  -h, --help         show this\n"
	"  -V, --version      show the version\n"
	"\n"
	"T is in seconds, or with a unit: 500ms, 2s, 1m. SIGINT and SIGTERM end the\n"
	"server; SIGUSR1 makes it print statistics.\n"
	"\n"
	"Exit status: 0 done; 1 the peer or the transport failed; 2 wrong usage; 3 timed\n"
	"out; 130 a client was interrupted.\n";

/* Reads a duration of at least a millisecond. Returns it in milliseconds, or -1. */
static int parse_duration(const char *text)
{
	static const struct {
		const char *name;
		int64_t ms;
	} units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}};
	int64_t number = 0;
	const char *end = text;
	for (; *end >= '0' && *end <= '9' && number <= INT_MAX; end++)
		number = number * 10 + (*end - '0');
	for (size_t i = 0; end > text && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].name) == 0 && number > 0 &&
		    number <= INT_MAX / units[i].ms)
			return (int)(number * units[i].ms);
	}
	return -1;
}

/* Returns -1 to go on, or an exit status. */
static int parse_options(struct options *options, int argc, char **argv)
{
	static const struct option names[] = {
		{"provider", required_argument, NULL, 'p'}, {"bind", required_argument, NULL, 'b'},
		{"timeout", required_argument, NULL, 't'},  {"idle", required_argument, NULL, 'i'},
		{"verbose", no_argument, NULL, 'v'},	    {"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},	    {NULL, 0, NULL, 0},
	};
	int letter;
	/* The plus sign ends the options at ADDRESS, so that no TEXT is ever taken for one. */
	while ((letter = getopt_long(argc, argv, "+p:b:t:i:vhV", names, NULL)) != -1) {
		int *duration = letter == 't' ? &options->timeout_ms : &options->idle_ms;
		switch (letter) {
		case 'p':
			options->provider = optarg;
			break;
		case 'b':
			options->bind = optarg;
			break;
		case 't':
		case 'i':
			*duration = parse_duration(optarg);
			if (*duration < 0) {
				say_error("'%s' is not a duration such as 500ms, 2s, 1m or 5",
					  optarg);
				return EXIT_USAGE;
			}
			break;
		case 'v':
			options->verbose = true;
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_DONE;
		case 'V':
			printf("reverse %s\n", weft_version());
			return EXIT_DONE;
		default:
			say_error("--help shows the options");
			return EXIT_USAGE;
		}
	}
	if (argc - optind > 2) {
		say_error("there is more than an address and a text: '%s'", argv[optind + 2]);
		return EXIT_USAGE;
	}
	options->address = argc > optind ? argv[optind] : NULL;
	if (argc > optind + 1)
		options->text = argv[optind + 1];
	return -1;
}

/*
 * A standard descriptor that is closed would be given to the next socket of libfabric, and the text
 * would go into that. Opened the wrong way round it makes every write fail, as it should.
 */
static void secure_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			_exit(EXIT_FAILED);
	}
}

int main(int argc, char **argv)
{
	struct options options = {
		.program = argc > 0 ? argv[0] : "reverse",
		.text = "Hello, world!",
		.timeout_ms = WEFT_DEFAULT_TIMEOUT_MS,
		.idle_ms = 10000,
	};
	secure_descriptors();
	reset_signals();
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stderr, NULL, _IOLBF, 0);
	int status = parse_options(&options, argc, argv);
	if (status < 0)
		status = options.address ? run_client(&options) : run_server(&options);
	if ((fflush(stdout) != 0 || ferror(stdout)) && status == EXIT_DONE) {
		say_error("cannot write to standard output");
		status = EXIT_FAILED;
	}
	return status;
}
