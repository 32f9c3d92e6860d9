/* SPDX-License-Identifier: MIT */
/*
 * The document of --json: filled while the command runs, and printed once, at its end, however it ends. Without --json
 * it is filled all the same, which costs nothing worth saving, and not printed. Calls nothing of the tool.
 */
#ifndef TOOL_JSON_H
#define TOOL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

void document_open(const char *command);

/* Sets a member of the document. The value is the document's from then on; NULL, as of want of memory, is left out. */
void document_set(const char *key, json_t *value);
/* Numbers that JSON's readers take for whole ones; what is out of their range is null. */
json_t *json_number(uint64_t number);
/* Text as it is where it is UTF-8, else null. */
json_t *json_text(const char *text);
/* Bytes: as text under the key where they are UTF-8, else in base 64 under key_base64. */
void json_set_bytes(json_t *object, const char *key, const void *bytes, size_t len);

void document_error(const char *text);
void document_warning(const char *text);
/* Takes back what document_error() has noted, where the command goes on after all. */
void document_forget_error(void);
/* The document itself, for json_set_bytes(). */
json_t *document_root(void);

/* Prints the document to stdout if wanted, and frees it. */
void document_close(bool wanted, int status, bool interrupted);

#endif
