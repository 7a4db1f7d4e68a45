/* SPDX-License-Identifier: MIT */
/* One-sided publish of values and fetch of gradients by a server. Values are read from the device
   before the sequence becomes odd: it is odd only while they are copied. */
#include "core/ps/one_sided.h"

void copse__one_sided_server_init(struct copse_one_sided_server *k, copse_cluster *c,
                                  struct copse_pstore *s)
{
    const uint64_t zero = 0;
    *k = (struct copse_one_sided_server){ .cluster = c, .store = s, .low = c->window.bytes };
    if (c->window.is_open)
        copse__window_put(c, 0, &zero, sizeof zero);
}

void copse__one_sided_server_fini(struct copse_one_sided_server *k)
{
    struct copse_mem *mem = &k->store->ctx->base.mem;
    copse__free(mem, k->published.at);
    copse__free(mem, k->changed.at);
    copse__free(mem, k->gradients);
}

uint64_t copse__one_sided_server_offset(const struct copse_one_sided_server *k, uint32_t id)
{
    return id < k->published.count ? k->published.at[id].offset : COPSE_WINDOW_NONE;
}

static void put_word(struct copse_one_sided_server *k, uint64_t index, uint64_t word)
{
    copse__window_put(k->cluster, index * sizeof word, &word, sizeof word);
}

/* Assign offsets to new variables; words from below and values from above must not overlap. */
static copse_status place_new(struct copse_one_sided_server *k)
{
    for (size_t i = k->published.count; i < k->store->variables.count; i++) {
        const struct copse_pstore_variable *v = &k->store->variables.at[i];
        const uint64_t words = (i + 2) * sizeof(uint64_t);
        const uint64_t bytes =
            copse__round_up((size_t)v->count * COPSE_WORD_BYTES, COPSE_WINDOW_LINE);
        struct copse_published entry = { words <= k->low ? COPSE_WINDOW_MESSAGE : COPSE_WINDOW_NONE,
                                         0 };
        const bool is_large = v->count * COPSE_WORD_BYTES > k->cluster->window.most;
        if (words <= k->low && bytes <= k->low - words && !is_large)
            entry.offset = k->low -= bytes;
        else
            copse__log(&k->store->ctx->base.log, COPSE_LOG_INFO,
                       "parameter server: '%s' %s the window of %llu bytes and is sent by message",
                       v->name, is_large ? "is too large for" : "does not fit into",
                       (unsigned long long)k->cluster->window.bytes);
        if (!COPSE_PUSH(&k->store->ctx->base.mem, &k->published, entry))
            return copse_no_memory("parameter server: window");
    }
    return COPSE_OK;
}

static bool is_new(const struct copse_one_sided_server *k, uint32_t id)
{
    const struct copse_published *entry = &k->published.at[id];
    return entry->offset != COPSE_WINDOW_NONE &&
           entry->version != k->store->variables.at[id].version;
}

/* `values`: of the variables in `changed`, concatenated. */
static void lay_out(struct copse_one_sided_server *k, const unsigned char *values)
{
    put_word(k, 0, ++k->sequence);
    for (size_t i = 0; i < k->changed.count; i++) {
        const uint32_t id = k->changed.at[i];
        const struct copse_pstore_variable *v = &k->store->variables.at[id];
        copse__window_put(k->cluster, k->published.at[id].offset, values,
                          (size_t)v->count * COPSE_WORD_BYTES);
        values += v->count * COPSE_WORD_BYTES;
    }
    for (uint32_t i = 0; i < k->published.count; i++)
        if (is_new(k, i)) {
            k->published.at[i].version = k->store->variables.at[i].version;
            put_word(k, 1 + i, k->published.at[i].version);
        }
    put_word(k, 0, ++k->sequence);
}

copse_status copse__one_sided_server_publish(struct copse_one_sided_server *k)
{
    const struct copse_pstore *s = k->store;
    const void *values = NULL;
    copse_status status = COPSE_OK;
    bool is_any = false;
    if (!k->cluster->window.is_open)
        return COPSE_OK;
    COPSE_TRY(place_new(k));
    if (!COPSE_RESERVE(&s->ctx->base.mem, &k->changed, s->variables.count))
        return copse_no_memory("parameter server: window");
    k->changed.count = 0;
    for (uint32_t i = 0; i < s->variables.count; i++) {
        is_any |= is_new(k, i);
        if (is_new(k, i) && k->published.at[i].offset != COPSE_WINDOW_MESSAGE)
            k->changed.at[k->changed.count++] = i;
    }
    if (!is_any)
        return COPSE_OK;
    if (k->changed.count > 0)
        status =
            copse__pstore_snapshot(k->store, k->changed.at, (uint32_t)k->changed.count, &values);
    if (status) { /* the window is outdated: an odd sequence number stops readers */
        k->sequence += k->sequence % 2 == 0;
        put_word(k, 0, k->sequence);
        return status;
    }
    k->sequence += k->sequence % 2;
    lay_out(k, values);
    return COPSE_OK;
}

static copse_status make_room(struct copse_one_sided_server *k, size_t bytes)
{
    struct copse_mem *mem = &k->store->ctx->base.mem;
    if (bytes <= k->room)
        return COPSE_OK;
    copse__free(mem, k->gradients);
    k->room = 0;
    k->gradients = copse__alloc(mem, bytes, 1);
    if (!k->gradients)
        return copse_no_memory("parameter server: window");
    k->room = bytes;
    return COPSE_OK;
}

static bool is_stuck(const struct copse_one_sided_server *k, uint32_t worker)
{
    return (k->cluster->window.stuck >> worker & 1) != 0;
}

/* Read the gradients, then the number at the begin of the window. */
static copse_status read_push(struct copse_one_sided_server *k, uint32_t worker, size_t size,
                              uint64_t timeout_ns)
{
    unsigned char *room = k->gradients;
    const struct copse_window_range first = { COPSE_WINDOW_LINE, room + COPSE_WINDOW_LINE, size };
    const struct copse_window_range then = { 0, room, sizeof(uint64_t) };
    const uint64_t begin = copse__now_ns();
    copse_status s = copse__window_get(k->cluster, worker, &first, 1, timeout_ns, "gradients");
    const uint64_t passed = COPSE_MIN(copse__now_ns() - begin, timeout_ns);
    if (!s)
        s = copse__window_get(k->cluster, worker, &then, 1, timeout_ns - passed, "gradients");
    if (is_stuck(k, worker)) { /* a late write must not hit the gradients of another worker */
        copse__window_keep(k->cluster, k->gradients);
        k->gradients = NULL;
        k->room = 0;
    }
    return s;
}

copse_status copse__one_sided_server_fetch(struct copse_one_sided_server *k, uint32_t worker,
                                           uint64_t number, size_t size, uint64_t timeout_ns,
                                           const void **gradients, bool *is_unread)
{
    struct copse_cluster_window *w = &k->cluster->window;
    *is_unread = false;
    if (!w->is_open || number == 0 ||
        size > copse__window_size(k->cluster, worker) - COPSE_WINDOW_LINE)
        return copse_fail(COPSE_ERR_COMM,
                          "parameter server: the push names no gradients of a window");
    *is_unread = is_stuck(k, worker);
    if (*is_unread)
        return copse_fail(COPSE_ERR_TIMEOUT,
                          "parameter server: a read of this worker's window did not end");
    COPSE_TRY(make_room(k, COPSE_WINDOW_LINE + size));
    const copse_status s = read_push(k, worker, size, timeout_ns);
    *is_unread = s != COPSE_OK;
    COPSE_TRY(s);
    const uint64_t *found = k->gradients;
    const unsigned char *values = (const unsigned char *)k->gradients + COPSE_WINDOW_LINE;
    if (*found != number)
        return copse_fail(COPSE_ERR_COMM,
                          "parameter server: the worker's window holds other gradients");
    w->info.pushes++;
    *gradients = values;
    return COPSE_OK;
}
