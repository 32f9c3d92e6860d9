/* SPDX-License-Identifier: MIT */
#include "help.h"

/* What every command has. */
#define COMMON                                                                                     \
	"  -p, --provider P     efa, tcp, shm, udp, verbs, or one of libfabric's names\n"          \
	"  -d, --domain D       the NIC: rdmap0s6, eth0\n"                                         \
	"  -b, --bind B         where to bind: IP[:PORT], :PORT, an interface, a host\n"           \
	"  -r, --require R      fail unless it is provider R; rdma: any RDMA hardware\n"           \
	"  -v, --verbose        tell of all that happens\n"                                        \
	"      --json           one JSON document on stdout, whatever happens\n"

static const char general[] =
	"usage: weft COMMAND [OPTION]...        messages over RDMA fabrics, by libfabric\n"
	"\n"
	"  serve    answers messages: reversed, as they are, or empty\n"
	"  send     sends a message or a file, prints the answer\n"
	"  ping     measures round-trip times\n"
	"  info     shows what is here: providers, NICs, and which one weft takes\n"
	"\n"
	"weft COMMAND --help shows the options; weft --version the versions.\n"
	"\n"
	"  weft serve                                   # prints its address\n"
	"  weft send tcp://127.0.0.1:40909 'Hello, world!'\n"
	"  weft serve --rendezvous 10.0.0.1:7471        # for other hosts, too\n"
	"  weft ping 10.0.0.1:7471\n"
	"\n"
	"Exit status: 0 done; 1 the peer, the transport or a file failed; 2 wrong usage;\n"
	"3 timed out; 130 interrupted. stdout has data only, stderr the talk.\n";

static const char serve[] =
	"usage: weft serve [OPTION]...            answers messages until a signal comes\n"
	"\n"
	"It prints its address on stdout. Without EFA and without --bind or --domain, it\n"
	"can be reached from this host only.\n"
	"\n"
	"  -s, --service S      reverse (default), echo, discard (empty answers)\n"
	"  -R, --rendezvous [HOST:]PORT\n"
	"                       a TCP port that tells clients the address. HOST is also\n"
	"                       where it binds, without --bind; and the other way round\n"
	"      --address-file F write the address to F; removed at the end\n"
	"  -1, --once           serve one session, then end\n"
	"      --max-peers N    sessions at a time (default 1000)\n"
	"      --max-message S  the longest message (default: half of --memory)\n"
	"      --memory S       for messages and answers under way (default 2G)\n" COMMON "\n"
	"S is in bytes, or 64k, 8M, 1G. SIGUSR1 shows statistics.\n"
	"\n"
	"  weft serve -v                        # see each connection and message\n"
	"  weft serve --provider shm --service echo\n"
	"  weft serve --rendezvous 10.0.0.1:7471\n";

static const char send[] =
	"usage: weft send [OPTION]... ADDRESS [MESSAGE | -]\n"
	"\n"
	"Sends MESSAGE (\"Hello, world!\" without one, - for standard input) and writes the\n"
	"answer to stdout, byte for byte. ADDRESS is what weft serve prints, or the\n"
	"HOST:PORT of its rendezvous.\n"
	"\n"
	"  -f, --file F         send a file, in messages of 1 MiB\n"
	"  -o, --output F       write the answer to F, once all of it is there\n"
	"  -c, --count N        send it N times\n"
	"  -t, --timeout T      how long the peer may be silent (default 5s)\n"
	"      --retry N        try N times more if it cannot connect\n"
	"      --no-reply       wait until all has arrived, not for answers\n"
	"  -q, --quiet          no progress bar, and no summary for --output\n" COMMON "\n"
	"T is in seconds, or 500ms, 2s, 1m. A MESSAGE that starts with - comes after --.\n"
	"\n"
	"  weft send tcp://127.0.0.1:40909 'Hello, world!'\n"
	"  tar c . | weft send 10.0.0.1:7471 - >reply\n"
	"  weft send --file F --output G efa://fe80...\n";

static const char ping[] =
	"usage: weft ping [OPTION]... ADDRESS           measures round-trip times\n"
	"\n"
	"ADDRESS is what weft serve prints, or the HOST:PORT of its rendezvous.\n"
	"\n"
	"  -c, --count N        end after N requests (default: at SIGINT)\n"
	"  -i, --interval T     between two requests (default 1s)\n"
	"  -s, --size S         bytes of a request (default 64)\n"
	"  -f, --flood          the next one as soon as the last one is answered\n"
	"  -w, --deadline T     end after this time\n"
	"  -W, --timeout T      how long an answer may take (default 5s)\n"
	"  -q, --quiet          the summary only\n" COMMON "\n"
	"T is in seconds, or 500ms, 2s, 1m. S is in bytes, or 64k, 8M, 1G.\n"
	"Exit status 0: something came back, and with -c and -w, all of it.\n"
	"\n"
	"  weft ping -c 5 tcp://127.0.0.1:40909\n"
	"  weft ping -f -q -w 10s -s 64k 10.0.0.1:7471\n";

static const char info[] =
	"usage: weft info [OPTION]... [ADDRESS]\n"
	"\n"
	"Lists what weft could take here. The one with the * is what it would take, of\n"
	"each other one it says why not. With ADDRESS: to reach that.\n"
	"\n" COMMON "\n"
	"-v lists all that libfabric offers, opens the one that is taken, and shows its\n"
	"limits.\n"
	"\n"
	"  weft info\n"
	"  weft info --provider efa        # why not, if it is not taken\n"
	"  weft info --json | jq '.candidates[] | select(.chosen)'\n";

const char *help_text(enum command command)
{
	switch (command) {
	case COMMAND_SERVE:
		return serve;
	case COMMAND_SEND:
		return send;
	case COMMAND_PING:
		return ping;
	case COMMAND_INFO:
		return info;
	case COMMAND_NONE:
		break;
	}
	return general;
}
