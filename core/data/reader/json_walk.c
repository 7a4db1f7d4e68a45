/* SPDX-License-Identifier: MIT */
/* Going through JSON texts: see json_walk.h. */
#include "core/data/reader/json_walk.h"

#include <string.h>

#include "core/base/files.h"
#include "core/data/reader/byte_stream.h"

bool copse__json_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

size_t copse__json_scan_string(const char *text, size_t size, size_t i)
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

copse_status copse__json_wrong(const struct copse_json *c)
{
    return copse_fail(COPSE_ERR_FORMAT, "%s%s%s", c->before, c->path, c->after);
}

char copse__json_peek(struct copse_json *c)
{
    while (c->at < c->size && copse__json_is_space(c->text[c->at]))
        c->at++;
    return c->at < c->size ? c->text[c->at] : '\0';
}

static bool json_take(struct copse_json *c, char expected)
{
    if (copse__json_peek(c) != expected)
        return false;
    c->at++;
    return true;
}

/* Skip a value: a string, or all up to a comma or the end of an object or array that does not
   belong to it. False: a string is malformed. */
static bool skip_value(struct copse_json *c)
{
    for (int depth = 0; c->at < c->size;) {
        const char ch = c->text[c->at];
        if (depth == 0 && (ch == ',' || ch == '}' || ch == ']'))
            return true;
        depth += ch == '{' || ch == '[' ? 1 : ch == '}' || ch == ']' ? -1 : 0;
        const size_t next =
            ch == '"' ? copse__json_scan_string(c->text, c->size, c->at) : c->at + 1;
        if (next == 0)
            return false;
        c->at = next;
    }
    return true;
}

/* The size of a value without the white space after it. */
static size_t trim_value(const char *value, size_t size)
{
    while (size > 0 && copse__json_is_space(value[size - 1]))
        size--;
    return size;
}

static copse_status each_value(struct copse_json *c, char *name, copse_json_fn *fn, void *user)
{
    struct copse_json_item item = { .name = name };
    if (copse__json_peek(c) == '\0')
        return copse__json_wrong(c);
    item.value = c->text + c->at;
    if (!skip_value(c))
        return copse__json_wrong(c);
    item.size = trim_value(item.value, (size_t)(c->text + c->at - item.value));
    return item.size > 0 ? fn(user, &item) : copse__json_wrong(c);
}

static copse_status each_member(struct copse_json *c, copse_json_fn *fn, void *user)
{
    if (copse__json_peek(c) != '"')
        return copse__json_wrong(c);
    const size_t start = c->at, end = copse__json_scan_string(c->text, c->size, start);
    char *name = end > 0 ? copse__json_string(c->text + start, end - start) : NULL;
    if (name == NULL)
        return copse__json_wrong(c);
    c->at = end;
    const copse_status s = json_take(c, ':') ? each_value(c, name, fn, user) : copse__json_wrong(c);
    cJSON_free(name);
    return s;
}

copse_status copse__json_members(struct copse_json *c, copse_json_fn *fn, void *user)
{
    if (!json_take(c, '{'))
        return copse__json_wrong(c);
    if (json_take(c, '}'))
        return COPSE_OK;
    do
        COPSE_TRY(each_member(c, fn, user));
    while (json_take(c, ','));
    return json_take(c, '}') ? COPSE_OK : copse__json_wrong(c);
}

copse_status copse__json_elements(struct copse_json *c, copse_json_fn *fn, void *user)
{
    if (!json_take(c, '['))
        return copse__json_wrong(c);
    if (json_take(c, ']'))
        return COPSE_OK;
    do
        COPSE_TRY(each_value(c, NULL, fn, user));
    while (json_take(c, ','));
    return json_take(c, ']') ? COPSE_OK : copse__json_wrong(c);
}

/* Each value begins the text, or follows one of these characters. */
size_t copse__json_count(const char *text, size_t size)
{
    size_t count = 1;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"')
            in_string = !in_string;
        else if (in_string && text[i] == '\\')
            i++;
        else if (!in_string && (text[i] == ',' || text[i] == '[' || text[i] == '{'))
            count++;
    }
    return count;
}

cJSON *copse__json_parse(const char *text, size_t size)
{
    const char *end = NULL;
    cJSON *value = copse__json_count(text, size) <= COPSE_JSON_VALUES
                       ? cJSON_ParseWithLengthOpts(text, size, &end, false)
                       : NULL;
    while (value != NULL && end < text + size && copse__json_is_space(*end))
        end++;
    if (value != NULL && end == text + size)
        return value;
    cJSON_Delete(value);
    return NULL;
}

char *copse__json_string(const char *text, size_t size)
{
    cJSON *value = size > 0 && text[0] == '"' ? copse__json_parse(text, size) : NULL;
    char *string = value != NULL ? value->valuestring : NULL;
    if (value != NULL)
        value->valuestring = NULL;
    cJSON_Delete(value);
    return string;
}

/* ---- members by name ---- */

struct picking {
    const struct copse_json *c;
    const char *const *names;
    size_t count;
    struct copse_json_item *items;
    bool *is_found;
};

#define PICKED_MAX 16u

static copse_status pick_item(void *user, const struct copse_json_item *item)
{
    struct picking *p = user;
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->names[i], item->name) != 0)
            continue;
        if (p->is_found[i])
            return copse_fail(COPSE_ERR_FORMAT, "%s%s: \"%s\" is there twice", p->c->before,
                              p->c->path, p->names[i]);
        p->is_found[i] = true;
        if (item->size != 4 || memcmp(item->value, "null", 4) != 0)
            p->items[i] = (struct copse_json_item){ .value = item->value, .size = item->size };
    }
    return COPSE_OK;
}

copse_status copse__json_pick(struct copse_json c, const char *const *names, size_t count,
                              struct copse_json_item *items)
{
    bool is_found[PICKED_MAX] = { false };
    struct picking p = { &c, names, COPSE_MIN(count, PICKED_MAX), items, is_found };
    memset(items, 0, count * sizeof *items);
    COPSE_TRY(copse__json_members(&c, pick_item, &p));
    return copse__json_peek(&c) == '\0' && c.at == c.size ? COPSE_OK : copse__json_wrong(&c);
}

/* ---- files ---- */

copse_status copse__json_load(struct copse_mem *mem, const char *path, uint64_t most, char **text,
                              size_t *size)
{
    FILE *stream;
    uint64_t bytes;
    *text = NULL;
    COPSE_TRY(copse__file_open(path, &stream, &bytes));
    copse_status s = COPSE_OK;
    if (bytes > most)
        s = copse_fail(COPSE_ERR_FORMAT, "%s has %llu bytes; at most %llu are read", path,
                       (unsigned long long)bytes, (unsigned long long)most);
    else if (!(*text = copse__alloc(mem, (size_t)bytes + 1, 1)))
        s = copse_no_memory("%s", path);
    else if (fread(*text, 1, (size_t)bytes, stream) != bytes)
        s = copse_fail(COPSE_ERR_IO, "cannot read %s", path);
    fclose(stream);
    *size = (size_t)bytes;
    const size_t valid = s == COPSE_OK ? copse__utf8_valid(*text, *size) : 0;
    if (s == COPSE_OK && valid < *size)
        s = copse_fail(COPSE_ERR_FORMAT, "%s is not UTF-8 at byte %zu", path, valid);
    if (s != COPSE_OK) {
        copse__free(mem, *text);
        *text = NULL;
    }
    return s;
}
