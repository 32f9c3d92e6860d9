/* SPDX-License-Identifier: MIT */
/*
 * Nets: opening, closing, what is told of them. Calls every other part of layer 1, and libfabric.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "clock.h"
#include "cq.h"
#include "eq.h"
#include "netimpl.h"

#define DRAIN_MS 2000

/* Descriptors that are left to the rest of the process when peers cost one each. */
#define SPARE_FILES 64

/* Fewer than so many peers are hardly what anybody wants, unless it was asked for. */
#define FEW_PEERS 16

static int fail(struct weft_net *net, const char *what, int code)
{
	const char *cure =
		code == -FI_EADDRINUSE
			? "; another program has this port: choose another one, or :0"
		: code == -FI_EADDRNOTAVAIL ? "; no interface of this machine has this address"
		: code == -FI_ENOMEM	    ? "; are RLIMIT_MEMLOCK (ulimit -l) and memory enough?"
		: code == -FI_EMFILE	    ? "; raise RLIMIT_NOFILE (ulimit -n)"
					    : "";
	weft__log(&net->log, WEFT_LOG_ERROR, "%s: cannot open %s: %s%s",
		  net->choice.candidate.provider, what, weft_strerror(code), cure);
	return code;
}

/* Gives an endpoint of a provider with names a name of ours. */
static int take_name(struct weft_net *net, const char *prefix)
{
	if (!net->choice.quirks->shm_names)
		return 0;
	weft__shmname_sweep(&net->log);
	int ret = weft__shmname_claim(&net->shmname, prefix, &net->log);
	if (ret < 0)
		return ret;
	struct fi_info *info = net->choice.info;
	char *name = strdup(net->shmname.name);
	if (!name) {
		weft__shmname_release(&net->shmname);
		return -ENOMEM;
	}
	free(info->src_addr);
	info->src_addr = name;
	info->src_addrlen = strlen(name) + 1;
	return 0;
}

static int open_domain(struct weft_net *net)
{
	struct fi_info *info = net->choice.info;
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	int ret = fi_fabric(info->fabric_attr, &net->fabric, NULL);
	if (ret < 0)
		return fail(net, "the fabric", ret);
	ret = fi_domain(net->fabric, info, &net->domain, NULL);
	if (ret < 0) {
		fail(net, "the domain", ret);
		goto close_fabric;
	}
	ret = fi_av_open(net->domain, &av_attr, &net->av, NULL);
	if (ret < 0) {
		fail(net, "an address vector", ret);
		goto close_domain;
	}
	ret = weft__eq_open(net);
	if (ret < 0) {
		fail(net, "an event queue", ret);
		goto close_av;
	}
	return 0;

close_av:
	fi_close(&net->av->fid);
close_domain:
	fi_close(&net->domain->fid);
close_fabric:
	fi_close(&net->fabric->fid);
	return ret;
}

static int learn_addr(struct weft_net *net)
{
	uint8_t raw[WEFT_ADDR_MAX];
	size_t len = sizeof(raw);
	struct weft_parse_error error;
	int ret = fi_getname(&net->ep->fid, raw, &len);
	if (ret < 0)
		return fail(net, "an endpoint: its address is not to be had", ret);
	if (len > sizeof(raw) ||
	    weft_addr_from_raw(&net->addr, net->choice.quirks->scheme,
			       net->choice.info->addr_format, raw, len, &error) < 0) {
		weft__log(&net->log, WEFT_LOG_ERROR,
			  "the provider gives this endpoint an address that weft cannot use: %s",
			  len > sizeof(raw) ? "it is too long" : error.reason);
		return -EADDRNOTAVAIL;
	}
	return 0;
}

static int open_endpoint(struct weft_net *net)
{
	int ret = fi_endpoint(net->domain, net->choice.info, &net->ep, NULL);
	if (ret < 0)
		return fail(net, "an endpoint", ret);
	/* One bind a direction: a single one with both has silenced receives on some providers. */
	ret = fi_ep_bind(net->ep, &net->cq->fid, FI_TRANSMIT);
	if (ret == 0)
		ret = fi_ep_bind(net->ep, &net->cq->fid, FI_RECV);
	if (ret == 0)
		ret = fi_ep_bind(net->ep, &net->av->fid, 0);
	if (ret == 0 && net->eq)
		ret = fi_ep_bind(net->ep, &net->eq->fid, 0);
	if (ret == 0)
		ret = fi_enable(net->ep);
	if (ret < 0)
		fail(net, "an endpoint", ret);
	else
		ret = learn_addr(net);
	if (ret < 0)
		fi_close(&net->ep->fid);
	return ret;
}

static size_t count_open_files(void)
{
	size_t count = 0;
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* The provider says nothing when it runs out of descriptors, so peers are refused before. */
static size_t peer_limit(const struct weft_net *net)
{
	const struct weft__quirks *quirks = net->choice.quirks;
	size_t limit = UINT32_MAX - 1;
	struct rlimit files;
	if (net->opts.max_peers > 0)
		limit = net->opts.max_peers;
	if (quirks->max_peers > 0 && limit > quirks->max_peers)
		limit = quirks->max_peers;
	if (quirks->fd_per_peer && getrlimit(RLIMIT_NOFILE, &files) == 0 &&
	    files.rlim_cur != RLIM_INFINITY) {
		size_t taken = count_open_files() + SPARE_FILES;
		size_t room = files.rlim_cur > taken ? (size_t)files.rlim_cur - taken : 1;
		if (limit > room)
			limit = room;
	}
	return limit;
}

static void report_open(struct weft_net *net)
{
	const struct weft_candidate *c = &net->choice.candidate;
	char text[WEFT_ADDR_TEXT_MAX] = "";
	weft_addr_format(&net->addr, text, sizeof(text));
	weft__log(&net->log, WEFT_LOG_INFO, "opened %s, fabric %s, domain %s%s%s, address %s (%s)",
		  c->provider, c->fabric, c->domain, c->nic[0] ? ", NIC " : "", c->nic, text,
		  c->reason);
	if (net->choice.caveat)
		weft__log(&net->log, WEFT_LOG_WARN, "%s", net->choice.caveat);
}

int weft_net_open(struct weft_net **out, const struct weft_net_opts *given)
{
	int wait_fd;
	struct weft_net *net = calloc(1, sizeof(*net));
	if (!net)
		return -ENOMEM;
	int ret = weft__opts_read(&net->opts, given);
	if (ret < 0)
		goto free_net;
	net->log = (struct weft__log){net->opts.log, net->opts.log_user};
	TAILQ_INIT(&net->bufs);
	TAILQ_INIT(&net->regions);
	weft__ops_init(&net->ops);
	weft__dests_init(&net->dests);

	ret = weft__candidate_choose(&net->opts, &net->log, &net->choice);
	if (ret < 0)
		goto free_net;
	net->has_source = weft__has(net, FI_SOURCE) && !net->choice.quirks->stale_source;
	net->dests.av_room = net->choice.quirks->max_peers;
	/* A provider that keeps things of its own in the contexts has to be given some. */
	net->ops.numbered = net->choice.quirks->repeats_ends &&
			    !(net->choice.info->mode & (FI_CONTEXT | FI_CONTEXT2));
	ret = take_name(net, net->opts.bind);
	if (ret < 0)
		goto free_choice;
	ret = open_domain(net);
	if (ret < 0)
		goto release_name;
	ret = weft__cq_open(net, &wait_fd);
	if (ret < 0)
		goto close_domain;
	ret = open_endpoint(net);
	if (ret < 0)
		goto close_cq;
	ret = weft__wait_open(&net->wait, wait_fd);
	if (ret < 0) {
		fail(net, "descriptors to wait on", ret);
		goto close_ep;
	}
	net->max_peers = peer_limit(net);
	if (net->choice.quirks->fd_per_peer && net->max_peers < FEW_PEERS &&
	    net->opts.max_peers != net->max_peers)
		weft__log(
			&net->log, WEFT_LOG_WARN,
			"RLIMIT_NOFILE leaves descriptors for %zu peers only; raise it (ulimit -n)",
			net->max_peers);
	net->opts.provider = net->opts.domain = net->opts.bind = net->opts.require = NULL;
	net->opts.toward = NULL;
	report_open(net);
	*out = net;
	return 0;

close_ep:
	fi_close(&net->ep->fid);
close_cq:
	fi_close(&net->cq->fid);
close_domain:
	if (net->eq)
		fi_close(&net->eq->fid);
	fi_close(&net->av->fid);
	fi_close(&net->domain->fid);
	fi_close(&net->fabric->fid);
release_name:
	weft__shmname_release(&net->shmname);
free_choice:
	weft__choice_free(&net->choice);
free_net:
	free(net);
	return ret;
}

/*
 * Whether a send is under way, or closing the endpoint would not return, for one that nobody waits
 * for any more.
 */
static bool is_busy(const struct weft_net *net)
{
	return net->ops.live_sends > 0 || (net->choice.quirks->close_blocks && net->ops.held > 0);
}

/* Lets sends that are under way finish, for a bounded time. */
static void drain(struct weft_net *net)
{
	int64_t end = weft__clock_ns() + (int64_t)DRAIN_MS * WEFT__NS_PER_MS;
	while (is_busy(net) && !net->broken && weft__clock_ns() < end)
		weft_net_poll(net, 10);
}

/* Ends all that is left, whose slots the provider has let go of, or will never be used again. */
static void cancel_all(struct weft_net *net)
{
	weft__ops_reclaim(net);
	weft__ops_end(net, NULL, -ECANCELED, "the net was closed");
	while (!TAILQ_EMPTY(&net->ops.ending))
		weft__ops_run_ending(net);
}

/*
 * Closes what stands under the endpoint, in the order that libfabric wants. Returns how many
 * objects stay.
 */
static int close_domain(struct weft_net *net)
{
	struct fid *fids[] = {net->eq ? &net->eq->fid : NULL, &net->av->fid, &net->cq->fid,
			      &net->domain->fid, &net->fabric->fid};
	static const char *const names[] = {"event queue", "address vector", "completion queue",
					    "domain", "fabric"};
	int left = weft__bufs_detach(net);
	for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++) {
		if (!fids[i])
			continue;
		/* Nothing is closed twice: after a failure parts of the object may be gone. */
		int ret = fi_close(fids[i]);
		if (ret < 0) {
			weft__log(&net->log, WEFT_LOG_DEBUG, "the provider keeps the %s: %s",
				  names[i], weft_strerror(ret));
			left++;
			if (fids[i] == &net->domain->fid)
				return left + 1;
		}
	}
	return left;
}

int weft_net_close(struct weft_net *net)
{
	int left = 0;
	if (!net)
		return 0;
	if (net->in_callback)
		return -EBUSY;
	net->closing = true;
	drain(net);

	bool abandoned = net->choice.quirks->close_blocks && is_busy(net);
	if (!abandoned) {
		int ret = fi_close(&net->ep->fid);
		abandoned = ret < 0;
		if (ret < 0)
			weft__log(&net->log, WEFT_LOG_WARN,
				  "the provider does not close the endpoint: %s",
				  weft_strerror(ret));
	}
	if (abandoned) {
		/*
		 * The endpoint, and the address vector, completion queue, domain and fabric under
		 * it, stay as they are.
		 */
		left = (net->eq ? 6 : 5) + weft__bufs_abandon(net);
		weft__log(&net->log, WEFT_LOG_WARN,
			  "a peer does not answer, and the provider would not return from closing "
			  "the endpoint: "
			  "%d objects are left to the end of the process",
			  left);
	}
	cancel_all(net);
	if (!abandoned) {
		left = close_domain(net);
		weft__shmname_release(&net->shmname);
	}
	/* Of numbers that it was given instead of addresses, the provider reaches nothing. */
	if (!abandoned || net->ops.numbered)
		weft__ops_free(&net->ops);
	weft__dests_free(net);
	weft__wait_close(&net->wait);
	weft__choice_free(&net->choice);
	free(net);
	return left;
}

/*
 * Hands out a struct that begins with its size to a caller who may know an older, shorter one.
 * Returns 0 or -EINVAL.
 */
static int give_out(void *out, void *full, size_t full_size)
{
	size_t size;
	memcpy(&size, out, sizeof(size));
	if (size < 2 * sizeof(size))
		return -EINVAL;
	if (size > full_size)
		size = full_size;
	memcpy(full, &size, sizeof(size));
	memcpy(out, full, size);
	return 0;
}

int weft_net_get_info(const struct weft_net *net, struct weft_net_info *out)
{
	const struct weft_candidate *c = &net->choice.candidate;
	const struct fi_info *info = net->choice.info;
	struct weft_net_info full = {
		.size = sizeof(full),
		.provider = c->provider,
		.fabric = c->fabric,
		.domain = c->domain,
		.nic = c->nic[0] ? c->nic : NULL,
		.link_bps = c->link_bps,
		.numa_node = c->numa_node,
		.max_msg = info->ep_attr->max_msg_size,
		.inject_size = info->tx_attr->inject_size,
		.tx_size = info->tx_attr->size,
		.rx_size = info->rx_attr->size,
		.cq_data_size = info->domain_attr->cq_data_size,
		.max_peers = net->max_peers,
		.has_tagged = weft__has(net, FI_TAGGED),
		.has_rma = weft__has(net, FI_RMA),
		.has_source = net->has_source,
		.has_wait_fd = net->wait.cq_fd >= 0,
		.libfabric_built = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
		.libfabric_running = fi_version(),
		.caveat = net->choice.caveat,
	};
	return give_out(out, &full, sizeof(full));
}

int weft_net_get_addr(const struct weft_net *net, struct weft_addr *addr)
{
	*addr = net->addr;
	return 0;
}

int weft_net_get_stats(const struct weft_net *net, struct weft_net_stats *out)
{
	struct weft_net_stats full = net->stats;
	full.size = sizeof(full);
	full.ops = net->ops.used - net->ops.held;
	full.ops_queued = net->ops.waiting;
	full.receives = net->ops.live_receives;
	full.held = net->ops.held;
	full.held_bytes = net->ops.held_bytes;
	full.peers = net->dests.count - net->dests.kept_count;
	return give_out(out, &full, sizeof(full));
}

int weft_net_fabric(const struct weft_net *net, struct weft_fabric *out)
{
	struct weft_fabric full = {
		.size = sizeof(full),
		.info = net->choice.info,
		.fabric = net->fabric,
		.domain = net->domain,
		.av = net->av,
		.cq = net->cq,
		.ep = net->ep,
	};
	return give_out(out, &full, sizeof(full));
}
