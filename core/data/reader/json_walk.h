/* SPDX-License-Identifier: MIT */
/* JSON texts, gone through member by member. cJSON, which needs up to 50 times the bytes of its
   text, gets one small value at a time: a text costs a small multiple of its bytes. */
#ifndef COPSE_JSON_WALK_H
#define COPSE_JSON_WALK_H

#include <cjson/cJSON.h>

#include "core/base/base.h"

/* A place in a text. Functions that fail say "<before><path><after>". */
struct copse_json {
    const char *before, *path, *after;
    const char *text;
    size_t size, at;
};

/* A member of an object or an element of an array. */
struct copse_json_item {
    char *name; /* of a member, while its function runs; else NULL */
    const char *value;
    size_t size; /* of the value, which is not parsed */
};
typedef copse_status copse_json_fn(void *user, const struct copse_json_item *item);

/* Offset after the string that begins at text[i], or 0 if it is malformed or has U+0000. */
size_t copse__json_scan_string(const char *text, size_t size, size_t i);
bool copse__json_is_space(char c);
/* The next character that is no white space; '\0': the text ends. */
char copse__json_peek(struct copse_json *c);
/* Call `fn` with the members of the object, or the elements of the array, at the place, which is
   after it then. */
copse_status copse__json_members(struct copse_json *c, copse_json_fn *fn, void *user);
copse_status copse__json_elements(struct copse_json *c, copse_json_fn *fn, void *user);
/* COPSE_ERR_FORMAT with the text of the place. */
copse_status copse__json_wrong(const struct copse_json *c);

/* How many values a text has at most. */
size_t copse__json_count(const char *text, size_t size);
/* The value of a text that is one value; free it with cJSON_Delete. NULL: the text is none, or it has
   more than COPSE_JSON_VALUES values. A value takes about 100 bytes of memory. */
#define COPSE_JSON_VALUES 65536
cJSON *copse__json_parse(const char *text, size_t size);
/* The same of a string, to be freed with cJSON_free. */
char *copse__json_string(const char *text, size_t size);

/* Find members of the object that is all of the text: item i has the name `names[i]`; value NULL:
   there is none, or it is null. A name that is there twice is an error. */
copse_status copse__json_pick(struct copse_json c, const char *const *names, size_t count,
                              struct copse_json_item *items);

/* The text of a file of at most `most` bytes, valid UTF-8; the caller frees it. */
copse_status copse__json_load(struct copse_mem *mem, const char *path, uint64_t most, char **text,
                              size_t *size);

#endif
