/* SPDX-License-Identifier: MIT */
/* Memory for frames to be sent. Calls the public functions of layer 1. */
#include <stdlib.h>

#include "space.h"

#define SHEET_LEN ((size_t)WEFT__SHEET_SPACES * WEFT__SHORT_SPACE)

void weft__spaces_init(struct weft__spaces *spaces, struct weft_net *net, size_t long_size,
		       uint32_t notes, uint32_t sheets_kept)
{
	*spaces = (struct weft__spaces){
		.net = net,
		.long_size = long_size,
		.notes = notes,
		.sheets_kept = sheets_kept,
	};
	LIST_INIT(&spaces->long_free);
	LIST_INIT(&spaces->short_free);
	LIST_INIT(&spaces->sheets);
}

/* A long space with its notes. */
static size_t long_struct(const struct weft__spaces *spaces)
{
	return sizeof(struct weft__space) + spaces->notes * sizeof(uint64_t);
}

static bool add_long(struct weft__spaces *spaces)
{
	struct weft__space *space = calloc(1, long_struct(spaces));
	if (!space)
		return false;
	if (weft_buf_alloc(spaces->net, spaces->long_size, &space->buf) < 0) {
		free(space);
		return false;
	}
	space->data = weft_buf_data(space->buf);
	space->notes = (uint64_t *)(space + 1);
	LIST_INSERT_HEAD(&spaces->long_free, space, link);
	spaces->long_count++;
	return true;
}

static bool add_sheet(struct weft__spaces *spaces)
{
	struct weft_buf *buf;
	struct weft__sheet *sheet = calloc(1, sizeof(*sheet));
	if (!sheet)
		return false;
	if (weft_buf_alloc(spaces->net, SHEET_LEN, &buf) < 0) {
		free(sheet);
		return false;
	}
	for (size_t i = 0; i < WEFT__SHEET_SPACES; i++) {
		struct weft__space *space = &sheet->space[i];
		space->buf = buf;
		space->off = i * WEFT__SHORT_SPACE;
		space->data = (uint8_t *)weft_buf_data(buf) + space->off;
		space->sheet = sheet;
		space->is_free = true;
		LIST_INSERT_HEAD(&spaces->short_free, space, link);
	}
	LIST_INSERT_HEAD(&spaces->sheets, sheet, link);
	spaces->sheet_count++;
	return true;
}

struct weft__space *weft__space_take(struct weft__spaces *spaces, bool is_long)
{
	struct weft__space_list *list = is_long ? &spaces->long_free : &spaces->short_free;
	if (LIST_EMPTY(list) && !(is_long ? add_long(spaces) : add_sheet(spaces)))
		return NULL;
	struct weft__space *space = LIST_FIRST(list);
	LIST_REMOVE(space, link);
	space->is_free = false;
	if (space->sheet)
		space->sheet->used++;
	return space;
}

static void free_long(struct weft__spaces *spaces, struct weft__space *space)
{
	weft_buf_unref(space->buf);
	free(space);
	spaces->long_count--;
}

static void give_long(struct weft__spaces *spaces, struct weft__space *space, bool spoilt)
{
	if (spoilt) {
		free_long(spaces, space);
		return;
	}
	LIST_INSERT_HEAD(&spaces->long_free, space, link);
}

/* Takes those of a sheet that are free from the free ones. */
static void withdraw(struct weft__sheet *sheet)
{
	for (size_t i = 0; i < WEFT__SHEET_SPACES; i++) {
		if (sheet->space[i].is_free)
			LIST_REMOVE(&sheet->space[i], link);
		sheet->space[i].is_free = false;
	}
}

static void free_sheet(struct weft__spaces *spaces, struct weft__sheet *sheet)
{
	withdraw(sheet);
	LIST_REMOVE(sheet, link);
	weft_buf_unref(sheet->space[0].buf);
	free(sheet);
	spaces->sheet_count--;
}

static void give_short(struct weft__spaces *spaces, struct weft__space *space, bool spoilt)
{
	struct weft__sheet *sheet = space->sheet;
	sheet->used--;
	if (spoilt && !sheet->spoilt) {
		sheet->spoilt = true;
		withdraw(sheet);
	}
	if (!sheet->spoilt) {
		space->is_free = true;
		LIST_INSERT_HEAD(&spaces->short_free, space, link);
	}
	if (sheet->used == 0 && (sheet->spoilt || spaces->sheet_count > spaces->sheets_kept))
		free_sheet(spaces, sheet);
}

void weft__space_give(struct weft__spaces *spaces, struct weft__space *space, bool spoilt)
{
	if (space->sheet)
		give_short(spaces, space, spoilt);
	else
		give_long(spaces, space, spoilt);
}

size_t weft__spaces_memory(const struct weft__spaces *spaces)
{
	return spaces->long_count * (long_struct(spaces) + spaces->long_size) +
	       spaces->sheet_count * (sizeof(struct weft__sheet) + SHEET_LEN);
}

void weft__spaces_free(struct weft__spaces *spaces)
{
	struct weft__space *space;
	struct weft__sheet *sheet, *next;
	while ((space = LIST_FIRST(&spaces->long_free))) {
		LIST_REMOVE(space, link);
		free_long(spaces, space);
	}
	for (sheet = LIST_FIRST(&spaces->sheets); sheet; sheet = next) {
		next = LIST_NEXT(sheet, link);
		if (sheet->used == 0)
			free_sheet(spaces, sheet);
	}
}
