/* SPDX-License-Identifier: MIT */
/* The header of a safetensors file. This file checks what the JSON parser accepts but the
   format forbids (duplicate names, number forms, depth, control characters). */
#include <stdlib.h>

#include "core/data/array.h"
#include "core/data/reader/byte_stream.h"
#include "core/data/reader/json_walk.h"
#include "core/state/safetensors.h"

#define DEPTH_MAX  3
#define NUMBER_MAX (1ull << 53) /* exact in the parser's doubles */
/* of an array: its three fields need 300, the rest is white space */
#define ENTRY_BYTES_MAX ((size_t)4096)

/* Offset after the number that starts at text[i], or 0: it has a sign, leading zeros, a point or an
   exponent, or is above NUMBER_MAX. */
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
static copse_status safetensors_header_scan(const char *path, const char *text, size_t size)
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
            next = copse__json_scan_string(text, size, i);
        else if (c >= '0' && c <= '9')
            next = scan_number(text, size, i);
        else if (c == '{' || c == '[')
            next = ++depth <= DEPTH_MAX ? next : 0;
        else if (c == '}' || c == ']')
            depth--;
        else if (c != ',' && c != ':' && !copse__json_is_space(c))
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

/* A place in a header, which the scan has checked. */
static struct copse_json header_json(const char *path, const char *text, size_t size)
{
    return (struct copse_json){ .before = "safetensors: ",
                                .path = path,
                                .after = ": the header is not one JSON object",
                                .text = text,
                                .size = size };
}

/* The names of an object: short enough and unique. */
struct names {
    const char *path;
    struct copse_arena *arena;
    const char **at;
    size_t count;
};

static copse_status count_name(void *user, const struct copse_json_item *m)
{
    struct names *n = user;

    n->count++;
    if (strlen(m->name) <= COPSE_ST_NAME_MAX)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: a name has more than %u bytes", n->path,
                      COPSE_ST_NAME_MAX);
}

static copse_status add_name(void *user, const struct copse_json_item *m)
{
    struct names *n = user;

    n->at[n->count] = copse__arena_strdup(n->arena, m->name);
    return n->at[n->count++] != NULL ? COPSE_OK : copse_no_memory("safetensors: %s", n->path);
}

/* The names in the order of the object at the place, which stays. */
static copse_status list_names(struct copse_arena *arena, struct copse_json c, size_t most,
                               struct names *out)
{
    struct copse_json again = c;

    *out = (struct names){ .path = c.path, .arena = arena };
    COPSE_TRY(copse__json_members(&c, count_name, out));
    if (out->count > most)
        return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: more than %u arrays", c.path,
                          COPSE_ST_ARRAYS_MAX);
    out->at = copse__arena_alloc(arena, out->count, sizeof *out->at);
    if (out->at == NULL)
        return copse_no_memory("safetensors: %s", c.path);
    out->count = 0;
    COPSE_TRY(copse__json_members(&again, add_name, out));
    const char **sorted = copse__alloc(arena->mem, out->count, sizeof *sorted);
    if (sorted == NULL)
        return copse_no_memory("safetensors: %s", c.path);
    memcpy(sorted, out->at, out->count * sizeof *sorted);
    const char *twice = copse__st_twice(sorted, out->count);
    copse__free(arena->mem, (void *)sorted);
    if (twice == NULL)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: the name \"%.200s\" is there twice",
                      c.path, twice);
}

/* ---- metadata ---- */

struct reader {
    const char *path;
    struct copse_arena *arena;
    struct names names;
    struct copse_st_header *out;
    size_t next; /* of the names */
};

static copse_status read_line(void *user, const struct copse_json_item *m)
{
    struct reader *r = user;
    struct copse_metadata *line = &r->out->metadata[r->next];
    char *value = copse__json_string(m->value, m->size);

    if (value == NULL)
        return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: metadata \"%.200s\" is not text",
                          r->path, m->name);
    line->key = r->names.at[r->next++];
    line->value = copse__arena_strdup(r->arena, value);
    cJSON_free(value);
    return line->value != NULL ? COPSE_OK : copse_no_memory("safetensors: %s", r->path);
}

static copse_status read_metadata(const struct reader *all, const struct copse_json_item *m)
{
    struct copse_json c = header_json(all->path, m->value, m->size);
    struct reader r = { .path = all->path, .arena = all->arena, .out = all->out };

    if (copse__json_peek(&c) != '{')
        return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: the metadata is no object", c.path);
    COPSE_TRY(list_names(r.arena, c, SIZE_MAX, &r.names));
    r.out->metadata_count = r.names.count;
    r.out->metadata = copse__arena_alloc(r.arena, r.names.count, sizeof *r.out->metadata);
    if (r.out->metadata == NULL)
        return copse_no_memory("safetensors: %s", c.path);
    return copse__json_members(&c, read_line, &r);
}

/* ---- arrays ---- */

/* Numbers of an array; false if it has other elements, or more than `room`. The scan has checked
   that they are whole and exact. */
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
    if (!cJSON_IsString(dtype) || !copse__type_find(dtype->valuestring, &e->type))
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
    if (!copse__shape_size(e->rank, e->shape, copse_type_size(e->type), &count, &bytes))
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

/* An entry: its text is short, or it has what does not belong there. */
static copse_status read_entry(void *user, const struct copse_json_item *m)
{
    struct reader *r = user;
    const char *name = r->names.at[r->next++];

    if (strcmp(name, COPSE_ST_METADATA) == 0)
        return read_metadata(r, m);
    struct copse_st_entry *e = &r->out->entries[r->out->entry_count];
    cJSON *object = m->size <= ENTRY_BYTES_MAX ? copse__json_parse(m->value, m->size) : NULL;
    const char *problem = m->size > ENTRY_BYTES_MAX
                              ? "has more than a type, a shape of at most 8 axes and data_offsets"
                          : object == NULL ? ""
                                           : parse_entry(object, e);
    cJSON_Delete(object);
    if (problem != NULL && !*problem)
        return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: the header is not one JSON object",
                          r->path);
    if (problem != NULL)
        return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s: the array \"%.200s\" %s", r->path,
                          name, problem);
    e->order = r->out->entry_count++;
    e->name = name;
    return COPSE_OK;
}

static copse_status check_places(const char *path, struct copse_st_header *h)
{
    if (h->entry_count > 1)
        qsort(h->entries, h->entry_count, sizeof *h->entries, by_position);
    for (size_t i = 0; i < h->entry_count; i++) {
        if (h->entries[i].begin != h->data_bytes)
            return copse_fail(
                COPSE_ERR_FORMAT,
                "safetensors: %s: the array \"%.200s\" leaves a gap or overlaps another", path,
                h->entries[i].name);
        h->data_bytes = h->entries[i].end;
    }
    return COPSE_OK;
}

copse_status copse__st_parse(struct copse_arena *arena, const char *path, const char *text,
                             size_t size, struct copse_st_header *out)
{
    struct copse_json c = header_json(path, text, size);
    struct reader r = { .path = path, .arena = arena, .out = out };

    memset(out, 0, sizeof *out);
    COPSE_TRY(safetensors_header_scan(path, text, size));
    COPSE_TRY(list_names(arena, c, (size_t)COPSE_ST_ARRAYS_MAX + 1, &r.names));
    out->entries = copse__arena_alloc(arena, r.names.count, sizeof *out->entries);
    if (out->entries == NULL)
        return copse_no_memory("safetensors: %s", path);
    COPSE_TRY(copse__json_members(&c, read_entry, &r));
    if (copse__json_peek(&c) != '\0' || c.at != size)
        return copse__json_wrong(&c);
    return check_places(path, out);
}
