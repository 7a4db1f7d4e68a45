/* SPDX-License-Identifier: MIT */
/* The header of a safetensors file. The JSON parser checks the syntax; this file checks what the parser accepts but
   the format forbids (duplicate names, number forms, depth, control characters). */
#include <cjson/cJSON.h>
#include <stdlib.h>

#include "core/data/array.h"
#include "core/data/input.h"
#include "core/state/safetensors.h"

#define DEPTH_MAX  3
#define NUMBER_MAX (1ull << 53) /* exact in the parser's doubles */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Offset after the string that starts at text[i], or 0 if it is malformed. */
static size_t scan_string(const char *text, size_t size, size_t i)
{
    for (i++; i < size && text[i] != '"'; i++) {
        if ((unsigned char)text[i] < 0x20)
            return 0;
        if (text[i] != '\\')
            continue;
        if (++i == size || strchr("\"\\/bfnrtu", text[i]) == NULL)
            return 0;
        if (text[i] == 'u' && (size - i <= 4 || memcmp(text + i + 1, "0000", 4) == 0))
            return 0;
    }
    return i < size ? i + 1 : 0;
}

/* The same for a number: 0 or a whole number without sign, leading zeros, point or exponent. */
static size_t scan_number(const char *text, size_t size, size_t i)
{
    uint64_t v = 0;
    size_t start = i;

    for (; i < size && text[i] >= '0' && text[i] <= '9'; i++) {
        v = v * 10 + (uint64_t)(text[i] - '0');
        if (v > NUMBER_MAX || (i > start && text[start] == '0'))
            return 0;
    }
    return i;
}

/* Check for content that the parser would accept. */
static copse_status scan(const char *path, const char *text, size_t size)
{
    int depth = 0;
    size_t i = copse__utf8_valid(text, size);

    if (i < size)
        return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: the header is not UTF-8 at byte %zu",
                          path, i + 8);
    for (i = 0; i < size;) {
        size_t next = i + 1;
        char c = text[i];
        if (c == '"')
            next = scan_string(text, size, i);
        else if (c >= '0' && c <= '9')
            next = scan_number(text, size, i);
        else if (c == '{' || c == '[')
            next = ++depth <= DEPTH_MAX ? next : 0;
        else if (c == '}' || c == ']')
            depth--;
        else if (c != ',' && c != ':' && !is_space(c))
            next = 0;
        if (next == 0)
            return copse_fail(COPSE_ERR_FORMAT,
                              "safetensors: %s: the header has what the format forbids at byte %zu",
                              path, i + 8);
        i = next;
    }
    return COPSE_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *copse__st_twice(const char **names, size_t count)
{
    if (count > 1)
        qsort(names, count, sizeof *names, by_text);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return names[i];
    return NULL;
}

/* All keys of an object: short enough and unique. */
static copse_status check_keys(struct copse_arena *arena, const char *path, const cJSON *object,
                               size_t *count)
{
    const char **names, *twice;
    size_t n = 0;

    for (const cJSON *item = object->child; item != NULL; item = item->next)
        n++;
    *count = n;
    names = copse__arena_alloc(arena, n, sizeof *names);
    if (names == NULL)
        return copse_no_memory("safetensors: %s", path);
    n = 0;
    for (const cJSON *item = object->child; item != NULL; item = item->next) {
        if (strlen(item->string) > COPSE_ST_NAME_MAX)
            return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: a name has more than %u bytes",
                              path, COPSE_ST_NAME_MAX);
        names[n++] = item->string;
    }
    twice = copse__st_twice(names, n);
    if (twice != NULL)
        return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: the name \"%.200s\" is there twice",
                          path, twice);
    return COPSE_OK;
}

static copse_status parse_metadata(struct copse_arena *arena, const char *path, const cJSON *object,
                                   struct copse_st_header *out)
{
    size_t n = 0;

    if (!cJSON_IsObject(object))
        return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: the metadata is no object", path);
    COPSE_TRY(check_keys(arena, path, object, &out->metadata_count));
    out->metadata = copse__arena_alloc(arena, out->metadata_count, sizeof *out->metadata);
    if (out->metadata == NULL)
        return copse_no_memory("safetensors: %s", path);
    for (const cJSON *item = object->child; item != NULL; item = item->next, n++) {
        if (!cJSON_IsString(item))
            return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: metadata \"%.200s\" is not text",
                              path, item->string);
        out->metadata[n].key = copse__arena_strdup(arena, item->string);
        out->metadata[n].value = copse__arena_strdup(arena, item->valuestring);
        if (out->metadata[n].key == NULL || out->metadata[n].value == NULL)
            return copse_no_memory("safetensors: %s", path);
    }
    return COPSE_OK;
}

/* Numbers of an array; false if it has other elements, or more than `room`. The scan has checked that they are whole
   and exact. */
static bool take_numbers(const cJSON *array, uint64_t *to, size_t room, size_t *count)
{
    *count = 0;
    if (!cJSON_IsArray(array))
        return false;
    for (const cJSON *item = array->child; item != NULL; item = item->next) {
        if (!cJSON_IsNumber(item) || *count == room)
            return false;
        to[(*count)++] = (uint64_t)item->valuedouble;
    }
    return true;
}

static const char *parse_entry(const cJSON *object, struct copse_st_entry *e)
{
    const cJSON *dtype = NULL, *shape = NULL, *offsets = NULL;
    uint64_t dims[COPSE_ARRAY_MAX_RANK], range[2];
    size_t rank, two, count, bytes;

    if (!cJSON_IsObject(object))
        return "is no object";
    for (const cJSON *item = object->child; item != NULL; item = item->next) {
        const cJSON **field = strcmp(item->string, "dtype") == 0          ? &dtype
                              : strcmp(item->string, "shape") == 0        ? &shape
                              : strcmp(item->string, "data_offsets") == 0 ? &offsets
                                                                          : NULL;
        if (field == NULL)
            return "has an unknown field";
        if (*field != NULL)
            return "has a field twice";
        *field = item;
    }
    if (!cJSON_IsString(dtype) || !copse__element_find(dtype->valuestring, &e->type))
        return "has no known dtype";
    if (!take_numbers(shape, dims, COPSE_ARRAY_MAX_RANK, &rank))
        return "has no shape of at most 8 axes";
    if (!take_numbers(offsets, range, 2, &two) || two != 2 || range[1] < range[0])
        return "has no data_offsets [begin, end]";
    e->rank = (uint32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] > SIZE_MAX)
            return "is larger than memory";
        e->shape[i] = (size_t)dims[i];
    }
    e->begin = range[0];
    e->end = range[1];
    if (!copse__shape_size(e->rank, e->shape, copse_element_size(e->type), &count, &bytes))
        return "is larger than memory";
    if (bytes != e->end - e->begin)
        return "has data_offsets that do not fit its shape";
    return NULL;
}

static int by_position(const void *a, const void *b)
{
    const struct copse_st_entry *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static copse_status parse_root(struct copse_arena *arena, const char *path, const cJSON *root,
                               struct copse_st_header *out)
{
    size_t keys, n = 0;

    COPSE_TRY(check_keys(arena, path, root, &keys));
    if (keys > COPSE_ST_ARRAYS_MAX)
        return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: more than %u arrays", path,
                          COPSE_ST_ARRAYS_MAX);
    out->entries = copse__arena_alloc(arena, keys, sizeof *out->entries);
    if (out->entries == NULL)
        return copse_no_memory("safetensors: %s", path);
    for (const cJSON *item = root->child; item != NULL; item = item->next) {
        if (strcmp(item->string, COPSE_ST_METADATA) == 0) {
            COPSE_TRY(parse_metadata(arena, path, item, out));
            continue;
        }
        struct copse_st_entry *e = &out->entries[n];
        const char *problem = parse_entry(item, e);
        if (problem != NULL)
            return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: the array \"%.200s\" %s", path,
                              item->string, problem);
        e->order = n++;
        e->name = copse__arena_strdup(arena, item->string);
        if (e->name == NULL)
            return copse_no_memory("safetensors: %s", path);
    }
    out->entry_count = n;
    if (n > 1)
        qsort(out->entries, n, sizeof *out->entries, by_position);
    for (size_t i = 0; i < n; i++) {
        if (out->entries[i].begin != out->data_bytes)
            return copse_fail(
                COPSE_ERR_FORMAT,
                "safetensors: %s: the array \"%.200s\" leaves a gap or overlaps another", path,
                out->entries[i].name);
        out->data_bytes = out->entries[i].end;
    }
    return COPSE_OK;
}

copse_status copse__st_parse(struct copse_arena *arena, const char *path, const char *text,
                             size_t size, struct copse_st_header *out)
{
    const char *end = NULL;

    memset(out, 0, sizeof *out);
    COPSE_TRY(scan(path, text, size));
    cJSON *root = cJSON_ParseWithLengthOpts(text, size, &end, false);
    while (root != NULL && end < text + size && is_space(*end))
        end++;
    copse_status s;
    if (!cJSON_IsObject(root) || end != text + size)
        s = copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: the header is not one JSON object",
                       path);
    else
        s = parse_root(arena, path, root, out);
    cJSON_Delete(root);
    return s;
}
