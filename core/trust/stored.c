/* SPDX-License-Identifier: MIT */
/* See stored.h. */
#include "core/trust/stored.h"

#include <inttypes.h>
#include <stdio.h>

#include "copse/copse.h"

#define MAX_STORED ((size_t)256 << 10) /* bytes; a longer text is not ours */
#define HEAD_ROOM  64

void copse__stored_flatten(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            *text = ' ';
}

void copse__stored_id(const char *kind, const struct copse_device_info *info, const char *more,
                      struct copse_stored_id *out)
{
    char name[sizeof info->name], driver[sizeof info->driver], api[sizeof info->api_version];
    snprintf(name, sizeof name, "%s", info->name);
    snprintf(driver, sizeof driver, "%s", info->driver);
    snprintf(api, sizeof api, "%s", info->api_version);
    copse__stored_flatten(name);
    copse__stored_flatten(driver);
    copse__stored_flatten(api);
    out->kind = kind;
    snprintf(out->lines, sizeof out->lines, "device %s %s\ndriver %s\napi %s\nlibrary %s\n%s%s",
             info->backend, name, driver, api, copse_version(), more ? more : "", more ? "\n" : "");
    snprintf(out->key, sizeof out->key, "%s-%016" PRIx64, kind,
             copse__hash(COPSE_HASH_START, out->lines, strlen(out->lines)));
}

static int write_head(char *out, const char *kind, const char *body, size_t size)
{
    return snprintf(out, HEAD_ROOM, "copse-%s 1 %zu %016" PRIx64 "\n", kind, size,
                    copse__hash(COPSE_HASH_START, body, size));
}

/* ---- reading ---- */

/* The lines after the identity, NULL when the text is damaged or another's. */
static const char *lines_of(const struct copse_stored_id *id, const char *text, size_t size)
{
    char head[HEAD_ROOM];
    const char *newline = strchr(text, '\n');
    if (!newline || strlen(text) != size)
        return NULL;
    const char *body = newline + 1;
    const size_t length = strlen(id->lines);
    const int n = write_head(head, id->kind, body, strlen(body));
    return n == (int)(body - text) && memcmp(head, text, (size_t)n) == 0 &&
                   strncmp(body, id->lines, length) == 0
               ? body + length
               : NULL;
}

copse_status copse__stored_read(struct copse_base *base, const struct copse_stored_id *id,
                                const void *bytes, size_t size, copse_stored_fn *read, void *user,
                                bool *is_ours)
{
    *is_ours = false;
    if (size == 0 || size > MAX_STORED)
        return COPSE_OK;
    char *text = copse__alloc(&base->mem, size + 1, 1);
    if (!text)
        return copse_fail(COPSE_ERR_NO_MEMORY, "%s: no memory to read what is stored", id->kind);
    memcpy(text, bytes, size);
    const char *lines = lines_of(id, text, size);
    *is_ours = lines && read(user, lines, true) && read(user, lines, false);
    copse__free(&base->mem, text);
    return COPSE_OK;
}

struct taken {
    struct copse_base *base;
    const struct copse_stored_id *id;
    copse_stored_fn *read;
    void *user;
    copse_status status;
    bool is_wrong;
};

static void stored_take(void *to, const void *bytes, size_t size)
{
    struct taken *t = to;
    bool is_ours;
    t->status = copse__stored_read(t->base, t->id, bytes, size, t->read, t->user, &is_ours);
    t->is_wrong = t->status == COPSE_OK && !is_ours;
}

copse_status copse__stored_get(struct copse_base *base, const struct copse_stored_id *id,
                               copse_stored_fn *read, void *user)
{
    struct taken t = { .base = base, .id = id, .read = read, .user = user };
    base->cache.get(base->cache.user, id->key, stored_take, &t);
    if (t.is_wrong)
        copse__log(&base->log, COPSE_LOG_WARN,
                   "%s: what is stored as %s is damaged or another device's, and is ignored",
                   id->kind, id->key);
    return t.status;
}

/* ---- writing ---- */

copse_status copse__stored_text(struct copse_base *base, const struct copse_stored_id *id,
                                const char *lines, char **text, size_t *size)
{
    const size_t own = strlen(id->lines), rest = strlen(lines);
    *text = copse__alloc(&base->mem, HEAD_ROOM + own + rest + 1, 1);
    if (!*text)
        return copse_fail(COPSE_ERR_NO_MEMORY, "%s: no memory to store it", id->kind);
    char *body = *text + HEAD_ROOM;
    memcpy(body, id->lines, own);
    memcpy(body + own, lines, rest);
    const size_t head = (size_t)write_head(*text, id->kind, body, own + rest);
    memmove(*text + head, body, own + rest + 1);
    *size = head + own + rest;
    return COPSE_OK;
}

struct comparison {
    const char *text;
    size_t size;
    bool is_same;
};

static void stored_compare(void *to, const void *bytes, size_t size)
{
    struct comparison *l = to;
    l->is_same = size == l->size && memcmp(bytes, l->text, size) == 0;
}

copse_status copse__stored_put(struct copse_base *base, const struct copse_stored_id *id,
                               const char *lines, bool *is_kept)
{
    const struct copse_cache_params *cache = &base->cache;
    char *text;
    size_t size;
    COPSE_TRY(copse__stored_text(base, id, lines, &text, &size));
    struct comparison l = { text, size, false };
    cache->put(cache->user, id->key, text, size);
    if (is_kept) {
        cache->get(cache->user, id->key, stored_compare, &l);
        *is_kept = l.is_same;
    }
    copse__free(&base->mem, text);
    return COPSE_OK;
}

/* ---- changing ---- */

void *copse__stored_lock(struct copse_base *base, const struct copse_stored_id *id)
{
    const struct copse_cache_params *cache = &base->cache;
    return cache->lock && cache->unlock ? cache->lock(cache->user, id->key) : NULL;
}

void copse__stored_unlock(struct copse_base *base, void *locked)
{
    const struct copse_cache_params *cache = &base->cache;
    if (cache->lock && cache->unlock)
        cache->unlock(cache->user, locked);
}
