/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

/* Readers that keep numbers as doubles would round beyond this. */
#define NUMBER_MOST ((uint64_t)1 << 53)

/* As ASCII, so that no text of a peer's can do anything to a terminal. */
#define JSON_FLAGS (JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9))

static json_t *root, *warnings;

void document_open(const char *command)
{
	/* What every document has comes first; the ends of these are known at the end. */
	root = json_object();
	warnings = json_array();
	document_set("command", *command ? json_text(command) : json_null());
	document_set("ok", json_false());
	document_set("status", json_integer(0));
	document_set("interrupted", json_false());
	document_set("error", json_null());
	document_set("warnings", json_incref(warnings));
}

void document_set(const char *key, json_t *value)
{
	json_object_set_new(root, key, value);
}

json_t *document_root(void)
{
	return root;
}

json_t *json_number(uint64_t number)
{
	return number <= NUMBER_MOST ? json_integer((json_int_t)number) : json_null();
}

json_t *json_text(const char *text)
{
	json_t *string = text ? json_string(text) : NULL;
	return string ? string : json_null();
}

static char *to_base64(const uint8_t *bytes, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = malloc((len + 2) / 3 * 4 + 1);
	char *out = text;
	for (size_t i = 0; text && i < len; i += 3) {
		size_t here = len - i < 3 ? len - i : 3;
		uint32_t bits = (uint32_t)bytes[i] << 16;
		bits |= here > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
		bits |= here > 2 ? (uint32_t)bytes[i + 2] : 0;
		for (size_t j = 0; j < 4; j++)
			*out++ = j <= here ? digits[bits >> (18 - 6 * j) & 63] : '=';
	}
	if (text)
		*out = 0;
	return text;
}

void json_set_bytes(json_t *object, const char *key, const void *bytes, size_t len)
{
	json_t *string = json_stringn(len ? bytes : "", len);
	if (string) {
		json_object_set_new(object, key, string);
		return;
	}
	size_t size = strlen(key) + sizeof("_base64");
	char *name = malloc(size);
	char *text = to_base64(bytes, len);
	if (name && text) {
		snprintf(name, size, "%s_base64", key);
		json_object_set_new(object, name, json_string(text));
	}
	free(name);
	free(text);
}

void document_error(const char *text)
{
	document_set("error", json_text(text));
}

void document_forget_error(void)
{
	document_set("error", json_null());
}

void document_warning(const char *text)
{
	json_array_append_new(warnings, json_text(text));
}

void document_close(bool wanted, int status, bool interrupted)
{
	document_set("ok", json_boolean(status == 0));
	document_set("status", json_integer(status));
	document_set("interrupted", json_boolean(interrupted));
	char *text = wanted ? json_dumps(root, JSON_FLAGS) : NULL;
	if (wanted)
		puts(text ? text : "{\"ok\": false, \"error\": \"no memory for the document\"}");
	free(text);
	json_decref(warnings);
	json_decref(root);
	warnings = NULL;
	root = NULL;
}
