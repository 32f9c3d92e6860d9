/* SPDX-License-Identifier: MIT */
/*
 * Destinations: handles, references, the address vector. Calls op, addr, log and libfabric's
 * address vector.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Adding to a table without memory leaves the element out; it is then seen by its handle being
 * NULL.
 */
#define HASH_NONFATAL_OOM 1
#include "addr.h"
#include "dest.h"
#include "netimpl.h"

#define TABLE_START 16
/* Addresses that nobody uses any more, and that stay in the address vector all the same. */
#define KEPT_MAX 1024
/* Of these, looked at each time that one joins them. */
#define KEPT_LOOKS 4

struct weft__dest *weft__dest_find(struct weft__dests *dests, fi_addr_t fi_addr)
{
	struct weft__dest *dest = NULL;
	/* FI_ADDR_UNSPEC is the same number. */
	if (fi_addr != FI_ADDR_NOTAVAIL)
		HASH_FIND(by_fi_addr, dests->by_fi_addr, &fi_addr, sizeof(fi_addr), dest);
	if (dest)
		dests->recent[fi_addr % WEFT__RECENT] = dest;
	return dest;
}

static int grow(struct weft__dests *dests)
{
	uint32_t size = dests->size ? dests->size * 2 : TABLE_START;
	struct weft__dest **table = realloc(dests->table, size * sizeof(*table));
	if (!table)
		return -ENOMEM;
	dests->table = table;
	uint32_t *generation = realloc(dests->generation, size * sizeof(*generation));
	if (!generation)
		return -ENOMEM;
	dests->generation = generation;
	for (uint32_t i = dests->size; i < size; i++) {
		table[i] = NULL;
		generation[i] = 1;
	}
	dests->size = size;
	return 0;
}

/* The lowest free index. */
static int find_index(struct weft__dests *dests, uint32_t *index)
{
	while (dests->free_hint < dests->size && dests->table[dests->free_hint])
		dests->free_hint++;
	if (dests->free_hint == dests->size) {
		int ret = grow(dests);
		if (ret < 0)
			return ret;
	}
	*index = dests->free_hint;
	return 0;
}

static void new_handle(struct weft__dests *dests, struct weft__dest *dest)
{
	dest->handle = (weft_dest)dests->generation[dest->index]++ << 32 | (dest->index + 1);
}

/* Puts a destination into the table. Returns 0 or -ENOMEM. */
static int enter(struct weft__dests *dests, struct weft__dest *dest)
{
	int ret = find_index(dests, &dest->index);
	if (ret < 0)
		return ret;
	HASH_ADD_KEYPTR(by_addr, dests->by_addr, dest->addr.raw, dest->addr.len, dest);
	if (!dest->by_addr.tbl)
		return -ENOMEM;
	dests->table[dest->index] = dest;
	dests->count++;
	new_handle(dests, dest);
	return 0;
}

static void leave_av(struct weft_net *net, struct weft__dest *dest)
{
	if (dest->fi_addr == FI_ADDR_NOTAVAIL)
		return;
	int ret = fi_av_remove(net->av, &dest->fi_addr, 1, 0);
	if (ret < 0)
		weft__log(&net->log, WEFT_LOG_WARN,
			  "the provider does not let go of a peer's address: %s",
			  weft_strerror(ret));
}

static void retire(struct weft__dests *dests, struct weft__dest *dest)
{
	dest->retiring = true;
	dest->retired_in = dests->reads;
	TAILQ_INSERT_TAIL(&dests->retiring, dest, link);
}

/* Takes it off the list of those that are leaving or that have been left. */
static void stop_retiring(struct weft__dests *dests, struct weft__dest *dest)
{
	if (dest->retiring)
		TAILQ_REMOVE(&dests->retiring, dest, link);
	dest->retiring = false;
	if (dest->kept) {
		TAILQ_REMOVE(&dests->kept, dest, link);
		dests->kept_count--;
	}
	dest->kept = false;
}

static void retire_kept(struct weft__dests *dests, struct weft__dest *dest)
{
	stop_retiring(dests, dest);
	retire(dests, dest);
}

static bool is_gone(const struct weft_net *net, const struct weft__dest *dest)
{
	return net->choice.quirks->shm_names && !weft__shmname_exists((const char *)dest->addr.raw);
}

/* Lets those go, of so many, that are gone: they send nothing more. The others are the last to go.
 */
static void look_at_kept(struct weft_net *net, uint32_t most)
{
	struct weft__dests *dests = &net->dests;
	struct weft__dest *dest;
	if (!net->choice.quirks->shm_names)
		return;
	for (; most > 0 && (dest = TAILQ_FIRST(&dests->kept)); most--) {
		if (is_gone(net, dest)) {
			retire_kept(dests, dest);
		} else {
			TAILQ_REMOVE(&dests->kept, dest, link);
			TAILQ_INSERT_TAIL(&dests->kept, dest, link);
		}
	}
}

/* Leaves it where it is until there are too many of its kind. */
static void keep(struct weft_net *net, struct weft__dest *dest)
{
	struct weft__dests *dests = &net->dests;
	look_at_kept(net, KEPT_LOOKS);
	dest->kept = true;
	TAILQ_INSERT_TAIL(&dests->kept, dest, link);
	if (++dests->kept_count > KEPT_MAX)
		retire_kept(dests, TAILQ_FIRST(&dests->kept));
}

/* Whether there has to be room in the address vector first; it is made by one that is kept. */
static bool make_room(struct weft_net *net)
{
	struct weft__dests *dests = &net->dests;
	if (dests->av_room == 0 || HASH_CNT(by_fi_addr, dests->by_fi_addr) < dests->av_room)
		return false;
	look_at_kept(net, dests->kept_count);
	if (TAILQ_EMPTY(&dests->retiring) && !TAILQ_EMPTY(&dests->kept))
		retire_kept(dests, TAILQ_FIRST(&dests->kept));
	return !TAILQ_EMPTY(&dests->retiring);
}

/* Takes a destination out of all tables and frees it. */
static void forget(struct weft_net *net, struct weft__dest *dest)
{
	struct weft__dests *dests = &net->dests;
	HASH_DELETE(by_addr, dests->by_addr, dest);
	if (dest->fi_addr != FI_ADDR_NOTAVAIL) {
		HASH_DELETE(by_fi_addr, dests->by_fi_addr, dest);
		if (dests->recent[dest->fi_addr % WEFT__RECENT] == dest)
			dests->recent[dest->fi_addr % WEFT__RECENT] = NULL;
	}
	dests->table[dest->index] = NULL;
	if (dest->index < dests->free_hint)
		dests->free_hint = dest->index;
	dests->count--;
	free(dest);
}

int weft__dest_insert(struct weft_net *net, struct weft__dest *dest)
{
	struct weft__dests *dests = &net->dests;
	fi_addr_t fi_addr = FI_ADDR_NOTAVAIL;
	if (dest->fi_addr != FI_ADDR_NOTAVAIL)
		return 0;
	/* To the shm provider, a name without an endpoint leaves its place free for another. */
	if (net->choice.quirks->shm_names && !weft__shmname_exists((const char *)dest->addr.raw))
		return -FI_EAGAIN;
	if (make_room(net))
		return -FI_EAGAIN;
	/* Only 1 is success: some providers answer a bad address by 0, without an error. */
	int ret = fi_av_insert(net->av, dest->addr.raw, 1, &fi_addr, 0, NULL);
	if (ret != 1) {
		weft__log(&net->log, WEFT_LOG_ERROR, "the provider refuses the peer's address%s",
			  net->addr.scheme == WEFT_SCHEME_EFA
				  ? "; is it of another subnet or region?"
				  : "");
		return ret == -FI_ENOMEM ? -ENOMEM : -EADDRNOTAVAIL;
	}
	dest->fi_addr = fi_addr;
	HASH_ADD(by_fi_addr, dests->by_fi_addr, fi_addr, sizeof(dest->fi_addr), dest);
	if (!dest->by_fi_addr.tbl) {
		leave_av(net, dest);
		dest->fi_addr = FI_ADDR_NOTAVAIL;
		return -ENOMEM;
	}
	return 0;
}

/* Checks an address before the address vector sees it, which one bad entry can poison. */
static int check_addr(struct weft_net *net, const struct weft_addr *addr, struct weft_addr *checked)
{
	struct weft_parse_error error = {.reason = "it is of another kind than this net's own"};
	if (addr->scheme == net->addr.scheme && addr->format == net->addr.format &&
	    weft__addr_check(checked, addr, &error) == 0)
		return 0;
	weft__log(&net->log, WEFT_LOG_ERROR, "cannot add this peer's address: %s", error.reason);
	return -EINVAL;
}

/* Whether one more may be in use. Returns 0 or -ENOSPC. */
static int check_limit(struct weft_net *net)
{
	if (net->dests.count - net->dests.kept_count < net->max_peers)
		return 0;
	net->stats.refused++;
	weft__log(&net->log, WEFT_LOG_ERROR,
		  "cannot add a peer: %zu is the limit of max_peers, of the provider %s, "
		  "or of open files",
		  net->max_peers, net->choice.candidate.provider);
	return -ENOSPC;
}

static int make_dest(struct weft_net *net, const struct weft_addr *addr, weft_dest *out)
{
	struct weft__dests *dests = &net->dests;
	if (check_limit(net) < 0)
		return -ENOSPC;
	struct weft__dest *dest = calloc(1, sizeof(*dest));
	if (!dest)
		return -ENOMEM;
	weft__queue_init(&dest->queue);
	dest->refs = 1;
	dest->fi_addr = FI_ADDR_NOTAVAIL;
	dest->addr = *addr;
	int ret = enter(dests, dest);
	if (ret < 0) {
		free(dest);
		return ret;
	}
	ret = weft__dest_insert(net, dest);
	if (ret < 0 && ret != -FI_EAGAIN) {
		forget(net, dest);
		return ret;
	}
	*out = dest->handle;
	return 0;
}

int weft_net_add_peer(struct weft_net *net, const struct weft_addr *addr, weft_dest *out)
{
	struct weft_addr checked;
	struct weft__dest *dest;
	if (net->closing)
		return -ECANCELED;
	int ret = check_addr(net, addr, &checked);
	if (ret < 0)
		return ret;
	HASH_FIND(by_addr, net->dests.by_addr, checked.raw, checked.len, dest);
	if (!dest)
		return make_dest(net, &checked, out);
	if (dest->kept && check_limit(net) < 0)
		return -ENOSPC;
	/* One that is still being removed comes back to life; its former handle stays stale. */
	if (dest->refs++ == 0) {
		stop_retiring(&net->dests, dest);
		new_handle(&net->dests, dest);
	}
	*out = dest->handle;
	return 0;
}

void weft__dest_released(struct weft_net *net, struct weft__dest *dest)
{
	/* A net that closes takes all out at once, when the endpoint is gone. */
	if (dest->refs > 0 || dest->queue.count > 0 || dest->retiring || dest->kept || net->closing)
		return;
	if (dest->fi_addr == FI_ADDR_NOTAVAIL) {
		forget(net, dest);
		return;
	}
	/*
	 * Where a peer's memory is unmapped with its address, it has to be silent before. And
	 * where both ends count the messages between them, one that forgets the count while the
	 * other goes on is not understood any more: the other waits for ever for what it takes to
	 * be missing, or ends its process over what it takes to be a repetition.
	 */
	const struct weft__quirks *quirks = net->choice.quirks;
	if ((quirks->counts_messages && dest->known) || (quirks->maps_peers && !is_gone(net, dest)))
		keep(net, dest);
	else
		retire(&net->dests, dest);
}

void weft__dests_retire(struct weft_net *net)
{
	struct weft__dests *dests = &net->dests;
	struct weft__dest *dest;
	/* Those that went during the last read were known to completions behind it. */
	while ((dest = TAILQ_FIRST(&dests->retiring)) && dest->retired_in < dests->reads) {
		stop_retiring(dests, dest);
		leave_av(net, dest);
		forget(net, dest);
	}
}

int weft_net_remove_peer(struct weft_net *net, weft_dest handle)
{
	struct weft__dest *dest = weft__dest_get(&net->dests, handle);
	if (!dest)
		return -ENOTCONN;
	if (--dest->refs > 0)
		return 0;
	if (dest->queue.count > dest->queue.held)
		weft__ops_end(net, dest, -ECANCELED, "the peer was removed");
	weft__dest_released(net, dest);
	return 0;
}

int weft_net_get_peer_addr(const struct weft_net *net, weft_dest handle, struct weft_addr *addr)
{
	struct weft__dest *dest = weft__dest_get(&net->dests, handle);
	if (!dest)
		return -ENOTCONN;
	*addr = dest->addr;
	return 0;
}

void weft__dests_init(struct weft__dests *dests)
{
	TAILQ_INIT(&dests->retiring);
	TAILQ_INIT(&dests->kept);
}

void weft__dests_free(struct weft_net *net)
{
	struct weft__dests *dests = &net->dests;
	for (uint32_t i = 0; i < dests->size; i++) {
		if (dests->table[i])
			forget(net, dests->table[i]);
	}
	free(dests->table);
	free(dests->generation);
}
