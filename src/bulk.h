/* SPDX-License-Identifier: MIT */
/*
 * Big messages in tagged chunks: OFFER, GRANT, and libfabric's tagged messages straight from one side's memory into the
 * other's, where both nets have tags. Calls big (for memory), session, transmit, receive, life, and layer 1.
 */
#ifndef WEFT_BULK_H
#define WEFT_BULK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/weft.h>

#include "wire.h"

struct weft__block;
struct weft__out;
struct weft__peer;
struct weft__rframe;
struct weft__sframe;

/* A big message that arrives in chunks. */
struct weft__grab {
	struct weft_node *node;
	struct weft__peer *peer; /* NULL: its session has ended, and receives are still to come back */
	struct weft__block *block;
	size_t len, got;
	uint32_t id, reply_to;
	uint64_t tag;
	uint32_t chunk; /* bytes of each but the last */
	uint32_t chunks, posted, done;
	uint32_t told;      /* how many chunks the last GRANT has granted */
	bool given_up;      /* by its sender: what was granted still comes, and is thrown away */
	struct weft_buf *scrap; /* where it comes to when the message's own memory is no longer for it; NULL: nowhere */
	size_t scrap_used;
	TAILQ_ENTRY(weft__grab) link;
};

TAILQ_HEAD(weft__grabs, weft__grab);
TAILQ_HEAD(weft__outs, weft__out);

/* Whether the provider of this node is one for chunks. */
bool weft__bulk_works(const struct weft_node *node);

/* Whether a big message goes in chunks, as far as is known yet. */
bool weft__bulk_offers(const struct weft__peer *peer, const struct weft__out *out);

/*
 * Whether the provider holds so much memory of chunks whose peers are gone that there should not be more. No call makes
 * it let go; parts in frames, which are short, go on.
 */
bool weft__bulk_clogged(const struct weft_node *node);

/* Writes the OFFER of a message into a frame. */
void weft__bulk_put_offer(const struct weft__out *out, struct weft__sframe *frame);

/* The OFFER has left: the message is no longer in the queue. */
void weft__bulk_offered(struct weft__peer *peer, struct weft__out *out);

/* Sends the chunks that are granted, as far as there is room. */
void weft__bulk_flush(struct weft_node *node, struct weft__peer *peer);

/* A GRANT, and an ABORT, have come. */
void weft__bulk_granted(struct weft_node *node, struct weft__peer *peer, const struct weft__grant *grant);
void weft__bulk_aborted(struct weft_node *node, struct weft__peer *peer, const struct weft__abort *abort);

/* The messages that the peer has acknowledged are over. */
void weft__bulk_acked(struct weft_node *node, struct weft__peer *peer);

/* Nobody waits for an offered message any more. */
void weft__bulk_give_up(struct weft_node *node, struct weft__peer *peer, struct weft__out *out);

/*
 * Begins to receive what the OFFERs announce that have come with all before them, a few ahead, so that the next message
 * is on its way when one is whole.
 */
void weft__bulk_look(struct weft_node *node, struct weft__peer *peer);

/* Whether the message whose turn it is next is on its way, and no longer than a chunk. */
bool weft__bulk_is_near(const struct weft__peer *peer);

/* Whether the message of the OFFER whose turn it is has come, so that it can be shown. */
bool weft__bulk_ready(struct weft_node *node, const struct weft__peer *peer, const struct weft__rframe *frame);

/* Takes out the message of the OFFER whose turn it is. */
struct weft__grab *weft__bulk_take(struct weft__peer *peer);

/* Writes the contents of the next GRANT, or the next ABORT, that is wanted. Returns their length; 0: none is. */
size_t weft__bulk_put_grant(const struct weft__peer *peer, uint8_t *to, size_t room);
size_t weft__bulk_put_abort(const struct weft__peer *peer, uint8_t *to, size_t room);

/* That frame has left. Returns whether another one of its type is wanted. */
bool weft__bulk_grant_left(struct weft__peer *peer);
bool weft__bulk_abort_left(struct weft__peer *peer);

/*
 * The session has ended: what is under way is given up. Chunks that the other side may still send, because it does not
 * know that yet, are received all the same, and the peer's record stays until then, or until weft__bulk_abandon().
 */
void weft__bulk_end(struct weft_node *node, struct weft__peer *peer);

/* They have had their time. */
void weft__bulk_take_no_more(struct weft_node *node, struct weft__peer *peer);

/* And so have those that this side has sent. */
void weft__bulk_abandon(struct weft_node *node, struct weft__peer *peer);

#endif
