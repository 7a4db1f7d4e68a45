/* SPDX-License-Identifier: MIT */
/* The context: allocator, log, kernel cache, and the list of devices that the backends report. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/cache_folder.h"
#include "core/base/trace.h"
#include "core/device/device.h"
#include "core/device/pace.h"

/* ---- the default allocator ---- */

static void *resize_default(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, size);
}

/* ---- the kernel cache in memory ---- */

struct copse_cache_entry {
    /* the list holds one; each reader another, so that it reads without the lock */
    copse_refs refs;
    struct copse_cache_entry *next;
    const char *key;
    const void *bytes; /* both stored after this struct */
    size_t size;
};

static void entry_release(struct copse_context *ctx, struct copse_cache_entry *e)
{
    if (copse__unref(&e->refs))
        copse__free(&ctx->base.mem, e);
}

static struct copse_cache_entry **entry_find(struct copse_context *ctx, const char *key)
{
    struct copse_cache_entry **at = &ctx->cache;
    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->next;
    return at;
}

static void cache_get(void *user, const char *key,
                      void (*take)(void *to, const void *bytes, size_t size), void *to)
{
    struct copse_context *ctx = user;

    copse__mutex_lock(&ctx->lock);
    struct copse_cache_entry *e = *entry_find(ctx, key);
    if (e)
        copse__ref(&e->refs);
    copse__mutex_unlock(&ctx->lock);
    if (e) {
        take(to, e->bytes, e->size);
        entry_release(ctx, e);
    }
}

/* If memory is exhausted, the kernel is compiled again next time. */
static void cache_put(void *user, const char *key, const void *bytes, size_t size)
{
    struct copse_context *ctx = user;
    const size_t key_size = strlen(key) + 1;
    size_t room;
    if (!copse__add(sizeof(struct copse_cache_entry) + key_size, size, &room))
        return;
    struct copse_cache_entry *e = copse__alloc(&ctx->base.mem, room, 1);
    if (!e)
        return;
    atomic_init(&e->refs, 1);
    e->bytes = memcpy(e + 1, bytes, size);
    e->key = memcpy((unsigned char *)(e + 1) + size, key, key_size);
    e->size = size;

    copse__mutex_lock(&ctx->lock);
    struct copse_cache_entry **at = entry_find(ctx, key), *old = *at;
    e->next = old ? old->next : NULL;
    *at = e;
    copse__mutex_unlock(&ctx->lock);
    if (old)
        entry_release(ctx, old);
}

/* The application's cache, files, or memory. */
static void open_cache(struct copse_context *ctx, const struct copse_context_params *p)
{
    ctx->base.cache =
        p->cache.get && p->cache.put
            ? p->cache
            : (struct copse_cache_params){ .get = cache_get, .put = cache_put, .user = ctx };
    const char *why =
        p->cache_folder && ctx->base.cache.user == ctx
            ? copse__cache_folder_open(&ctx->base.mem, p->cache_folder, &ctx->base.cache)
            : NULL;
    if (why) {
        char name[900];
        copse__cache_folder_name(p->cache_folder, name, sizeof name);
        copse__log(&ctx->base.log, COPSE_LOG_WARN,
                   "context: compiled kernels are not kept: the folder '%s' %s", name, why);
    }
}

/* ---- which backends not to load ---- */

static bool is_name(const char *text, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

/* The next word of a comma-separated list, without blanks; NULL at the end. */
static const char *next_word(const char **list, size_t *length)
{
    const char *word = *list + strspn(*list, ", \t");
    *length = strcspn(word, ", \t");
    *list = word + *length;
    return *length ? word : NULL;
}

static bool is_listed(const char *list, const char *name)
{
    size_t length;
    for (const char *word; list && (word = next_word(&list, &length));)
        if (is_name(word, length, name))
            return true;
    return false;
}

static bool is_known(const struct copse_context *ctx, const char *word, size_t length)
{
    if (is_name(word, length, "host"))
        return false; /* it cannot be disabled */
    for (const char *const *name = copse_backend_names; *name; name++)
        if (is_name(word, length, *name))
            return true;
    for (size_t i = 0; i < ctx->backend_count; i++)
        if (is_name(word, length, ctx->tables[i]->name))
            return true;
    return false;
}

/* First word that is not the name of a backend that can be disabled; NULL if there is none. */
static const char *unknown_word(const struct copse_context *ctx, const char *list, size_t *length)
{
    for (const char *word; list && (word = next_word(&list, length));)
        if (!is_known(ctx, word, *length))
            return word;
    return NULL;
}

/* ---- the list of devices ---- */

struct collector {
    struct copse_device_sink sink; /* first: the backend sees this part */
    const struct copse_backend *backend;
    uint32_t index;
    struct {
        struct copse_device_info *at;
        size_t count, room;
    } found;
};

static copse_status context_collect(struct copse_device_sink *sink,
                                    const struct copse_device_info *info)
{
    struct collector *c = (struct collector *)sink;
    struct copse_device_info d = *info;

    snprintf(d.id, sizeof d.id, "%s:%u", c->backend->name, c->index++);
    snprintf(d.backend, sizeof d.backend, "%s", c->backend->name);
    if (d.is_usable)
        d.is_usable = copse__limits_cap(&d.limits, d.reason, sizeof d.reason);
    if (!d.is_usable)
        memset(&d.limits, 0, sizeof d.limits);

    d.same_as = copse__device_same(c->found.at, c->found.count, &d);

    if (!COPSE_PUSH(&sink->base->mem, &c->found, d))
        return copse_fail(COPSE_ERR_NO_MEMORY, "context: no memory for the list of devices");
    if (d.is_usable)
        copse__log(&sink->base->log, COPSE_LOG_INFO, "context: %s is %s (%s)", d.id, d.name,
                   d.driver);
    else
        copse__log(&sink->base->log, COPSE_LOG_WARN, "context: %s, %s, is not used: %s", d.id,
                   d.name, d.reason);
    return COPSE_OK;
}

/* A backend that fails must not hide the others; only exhausted memory fails the call. */
static copse_status list_backend(struct collector *c, struct copse_backend_info *info,
                                 const char *disabled_by)
{
    snprintf(info->name, sizeof info->name, "%s", c->backend->name);
    if (disabled_by) {
        snprintf(info->detail, sizeof info->detail, "disabled by %s", disabled_by);
        return COPSE_OK;
    }

    c->index = 0;
    c->sink.is_loaded = false;
    c->sink.detail[0] = '\0';
    const copse_status s = c->backend->list(&c->sink);
    if (s == COPSE_ERR_NO_MEMORY)
        return s;
    info->is_loaded = c->sink.is_loaded;
    snprintf(info->detail, sizeof info->detail, "%s", s ? copse_last_error() : c->sink.detail);
    copse__log(&c->sink.base->log, s ? COPSE_LOG_WARN : COPSE_LOG_INFO, "context: %s: %s",
               info->name, info->detail);
    return COPSE_OK;
}

static copse_status list_all(struct copse_context *ctx, const char *by_params, const char *by_env)
{
    struct collector c = { .sink = { .base = &ctx->base, .add = context_collect } };
    copse_status s = COPSE_OK;

    for (size_t i = 0; i < ctx->backend_count && s == COPSE_OK; i++) {
        c.backend = ctx->tables[i];
        const char *by = is_listed(by_params, c.backend->name) ? "the application"
                         : is_listed(by_env, c.backend->name)  ? "COPSE_DISABLE"
                                                               : NULL;
        s = list_backend(&c, &ctx->backends[i], strcmp(c.backend->name, "host") == 0 ? NULL : by);
    }
    ctx->devices = c.found.at;
    ctx->device_count = c.found.count;
    return s;
}

/* ---- create, release ---- */

copse_status copse__context_create_with(const struct copse_context_params *params,
                                        const struct copse_backend *const *backends,
                                        copse_context **out)
{
    static const struct copse_context_params none;
    const struct copse_context_params *p = params ? params : &none;
    copse_status s = COPSE_OK;
    size_t length = 0;

    COPSE_TRY(copse_need("context", out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_context_params, p));
    COPSE_TRY(copse_no_reserved(copse_cache_params, &p->cache));

    struct copse_mem mem = { .resize = p->resize ? p->resize : resize_default,
                             .user = p->resize_user };
    copse_context *ctx = copse__alloc(&mem, 1, sizeof *ctx);
    if (!ctx)
        return copse_fail(COPSE_ERR_NO_MEMORY, "context: %zu bytes", sizeof *ctx);
    ctx->base.mem.resize = mem.resize;
    ctx->base.mem.user = mem.user;
    atomic_init(&ctx->base.mem.live, 1);
    atomic_init(&ctx->base.mem.calls, 1);
    atomic_init(&ctx->refs, 1);
    s = copse__mutex_init(&ctx->lock);
    if (s == COPSE_OK) {
        s = copse__trust_init(&ctx->trust, &ctx->base, copse__kernel_is_name);
        if (s)
            copse__mutex_fini(&ctx->lock);
    }
    if (s) {
        copse__free(&mem, ctx);
        return s;
    }

    ctx->base.log =
        (struct copse_logger){ p->log, p->log_user, p->log_level ? p->log_level : COPSE_LOG_WARN };
    open_cache(ctx, p);
    ctx->has_kept_cache = ctx->base.cache.get != cache_get;
    ctx->progress = p->progress;
    ctx->progress_user = p->progress_user;
    ctx->tables = backends;
    while (backends[ctx->backend_count])
        ctx->backend_count++;
    ctx->backends = copse__alloc(&ctx->base.mem, ctx->backend_count, sizeof *ctx->backends);
    if (!ctx->backends) {
        s = copse_fail(COPSE_ERR_NO_MEMORY, "context: no memory for the list of backends");
        goto fail;
    }

    const char *word = unknown_word(ctx, p->disable, &length);
    if (word) {
        s = copse_fail(COPSE_ERR_ARGUMENT,
                       "context: disable names '%.*s', which is no backend that can be disabled",
                       (int)COPSE_MIN(length, 64), word);
        goto fail;
    }
    const char *env = p->no_env ? NULL : copse__env("COPSE_DISABLE");
    word = unknown_word(ctx, env, &length);
    if (word)
        copse__log(&ctx->base.log, COPSE_LOG_WARN,
                   "context: COPSE_DISABLE names '%.*s', which is no backend that can be disabled",
                   (int)COPSE_MIN(length, 64), word);

    atomic_init(&ctx->self_tests_off,
                p->no_self_test || (!p->no_env && copse__env("COPSE_NO_SELF_TEST")));

    copse__pace_setting(ctx, p->no_env ? NULL : copse__env("COPSE_SUBMIT_MS"));
    COPSE_TRY_OR(fail, s, copse__trace_create(&ctx->base.mem, &ctx->base.trace));
    COPSE_TRY_OR(fail, s, list_all(ctx, p->disable, env));
    ctx->losses = copse__alloc(&ctx->base.mem, ctx->device_count, sizeof *ctx->losses);
    if (!ctx->losses) {
        s = copse_no_memory("context");
        goto fail;
    }
    *out = ctx;
    return COPSE_OK;

fail:
    copse_context_release(&ctx);
    return s;
}

copse_status copse_context_create(const struct copse_context_params *params, copse_context **out)
{
    return copse__context_create_with(params, copse_backends, out);
}

copse_context *copse_context_retain(copse_context *ctx)
{
    if (ctx)
        copse__ref(&ctx->refs);
    return ctx;
}

void copse__context_free(copse_context *ctx, void *object)
{
    copse__free(&ctx->base.mem, object);
    copse_context_release(&ctx);
}

void copse_context_release(copse_context **at)
{
    if (!at || !*at)
        return;
    copse_context *ctx = *at;
    *at = NULL;
    if (!copse__unref(&ctx->refs))
        return;

    struct copse_mem *mem = &ctx->base.mem;
    if (ctx->free_user_ops)
        ctx->free_user_ops(ctx);
    while (ctx->cache) {
        struct copse_cache_entry *e = ctx->cache;
        ctx->cache = e->next;
        entry_release(ctx, e);
    }
    copse__trust_fini(&ctx->trust);
    copse__told_free(ctx);
    if (copse__trace_has_step(ctx->base.trace) && copse__trace_stop(ctx->base.trace, NULL))
        copse__log(&ctx->base.log, COPSE_LOG_ERROR, "context: its trace is lost: %s",
                   copse_last_error());
    copse__trace_release(&ctx->base.trace);
    copse__cache_folder_close(mem, &ctx->base.cache);
    copse__free(mem, ctx->losses);
    copse__free(mem, ctx->devices);
    copse__free(mem, ctx->backends);
    copse__handles_fini(&ctx->variables, mem);
    copse__mutex_fini(&ctx->lock);
    mem->resize(mem->user, ctx, 0);
}

void copse_context_memory(copse_context *ctx, struct copse_memory_stats *out)
{
    if (out)
        *out = (struct copse_memory_stats){ 0 };
    if (!ctx || !out)
        return;
    out->live_blocks = atomic_load(&ctx->base.mem.live);
    out->calls = atomic_load(&ctx->base.mem.calls);
    out->device_allocations = atomic_load(&ctx->base.mem.device_calls);
}

void copse_context_devices(copse_context *ctx, const struct copse_device_info **list, size_t *count)
{
    if (list)
        *list = ctx ? ctx->devices : NULL;
    if (count)
        *count = ctx ? ctx->device_count : 0;
}

void copse_context_backends(copse_context *ctx, const struct copse_backend_info **list,
                            size_t *count)
{
    if (list)
        *list = ctx ? ctx->backends : NULL;
    if (count)
        *count = ctx ? ctx->backend_count : 0;
}
