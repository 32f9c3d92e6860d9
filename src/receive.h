/* SPDX-License-Identifier: MIT */
/* Frames that arrive: which session, which event, in which order. Calls session, life, message, stranger, wire. */
#ifndef WEFT_RECEIVE_H
#define WEFT_RECEIVE_H

#include <weft/weft.h>

/* The end of a posted receive, whose user is a struct weft__rframe. */
weft_done_fn weft__receive;

#endif
