/* SPDX-License-Identifier: MIT */
/* A server's window. Values are read from the shelf's device before the sequence becomes odd, so that it is odd for no
   longer than the copying takes. */
#include "core/ps/window.h"

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory for its window");
}

void copse__keeper_init(struct copse_window_keeper *k, copse_cluster *c, struct copse_shelf *s)
{
    const uint64_t zero = 0;
    *k = (struct copse_window_keeper){ .cluster = c, .shelf = s, .low = c->window.bytes };
    if (c->window.is_open)
        copse__window_put(c, 0, &zero, sizeof zero);
}

void copse__keeper_fini(struct copse_window_keeper *k)
{
    struct copse_mem *mem = &k->shelf->ctx->base.mem;
    copse__free(mem, k->places.at);
    copse__free(mem, k->changed.at);
    copse__free(mem, k->gradients);
}

uint64_t copse__keeper_place(const struct copse_window_keeper *k, uint32_t id)
{
    return id < k->places.count ? k->places.at[id].offset : COPSE_NO_PLACE;
}

static void put_word(struct copse_window_keeper *k, uint64_t index, uint64_t word)
{
    copse__window_put(k->cluster, index * sizeof word, &word, sizeof word);
}

/* Variables that have come; words from below and values from above must not meet. */
static copse_status place_new(struct copse_window_keeper *k)
{
    for (size_t i = k->places.count; i < k->shelf->variables.count; i++) {
        const struct copse_shelf_variable *v = &k->shelf->variables.at[i];
        const uint64_t words = (i + 2) * sizeof(uint64_t);
        const uint64_t bytes = copse__round_up((size_t)v->count * 4, COPSE_WINDOW_LINE);
        struct copse_window_place place = { words <= k->low ? COPSE_BY_MESSAGE : COPSE_NO_PLACE, 0 };
        const bool is_large = v->count * 4 > k->cluster->window.most;
        if (words <= k->low && bytes <= k->low - words && !is_large)
            place.offset = k->low -= bytes;
        else
            copse__log(&k->shelf->ctx->base.log, COPSE_LOG_INFO,
                       "parameter server: '%s' %s the window of %llu bytes and goes by messages", v->name,
                       is_large ? "is too large to go by" : "has no room in",
                       (unsigned long long)k->cluster->window.bytes);
        if (!COPSE_PUSH(&k->shelf->ctx->base.mem, &k->places, place))
            return no_memory();
    }
    return COPSE_OK;
}

static bool is_new(const struct copse_window_keeper *k, uint32_t id)
{
    const struct copse_window_place *place = &k->places.at[id];
    return place->offset != COPSE_NO_PLACE && place->version != k->shelf->variables.at[id].version;
}

/* `values`: of those in `changed`, one behind another. */
static void lay_out(struct copse_window_keeper *k, const unsigned char *values)
{
    put_word(k, 0, ++k->sequence);
    for (size_t i = 0; i < k->changed.count; i++) {
        const uint32_t id = k->changed.at[i];
        const struct copse_shelf_variable *v = &k->shelf->variables.at[id];
        copse__window_put(k->cluster, k->places.at[id].offset, values, (size_t)v->count * 4);
        values += v->count * 4;
    }
    for (uint32_t i = 0; i < k->places.count; i++)
        if (is_new(k, i)) {
            k->places.at[i].version = k->shelf->variables.at[i].version;
            put_word(k, 1 + i, k->places.at[i].version);
        }
    put_word(k, 0, ++k->sequence);
}

copse_status copse__keeper_publish(struct copse_window_keeper *k)
{
    const struct copse_shelf *s = k->shelf;
    const void *values = NULL;
    copse_status status = COPSE_OK;
    bool is_any = false;
    if (!k->cluster->window.is_open)
        return COPSE_OK;
    COPSE_TRY(place_new(k));
    if (!COPSE_RESERVE(&s->ctx->base.mem, &k->changed, s->variables.count))
        return no_memory();
    k->changed.count = 0;
    for (uint32_t i = 0; i < s->variables.count; i++) {
        is_any |= is_new(k, i);
        if (is_new(k, i) && k->places.at[i].offset != COPSE_BY_MESSAGE)
            k->changed.at[k->changed.count++] = i;
    }
    if (!is_any)
        return COPSE_OK;
    if (k->changed.count > 0)
        status = copse__shelf_look(k->shelf, k->changed.at, (uint32_t)k->changed.count, &values);
    if (status) { /* what lies there is not what the shelf has: nobody takes it any more */
        k->sequence += k->sequence % 2 == 0;
        put_word(k, 0, k->sequence);
        return status;
    }
    k->sequence += k->sequence % 2;
    lay_out(k, values);
    return COPSE_OK;
}

static copse_status make_room(struct copse_window_keeper *k, size_t bytes)
{
    struct copse_mem *mem = &k->shelf->ctx->base.mem;
    if (bytes <= k->room)
        return COPSE_OK;
    copse__free(mem, k->gradients);
    k->room = 0;
    k->gradients = copse__alloc(mem, bytes, 1);
    if (!k->gradients)
        return no_memory();
    k->room = bytes;
    return COPSE_OK;
}

static bool is_stuck(const struct copse_window_keeper *k, uint32_t worker)
{
    return (k->cluster->window.stuck >> worker & 1) != 0;
}

/* The number, which stands first, after the gradients. */
static copse_status read_push(struct copse_window_keeper *k, uint32_t worker, size_t size, uint64_t timeout_ns)
{
    unsigned char *room = k->gradients;
    const struct copse_window_part first = { COPSE_WINDOW_LINE, room + COPSE_WINDOW_LINE, size };
    const struct copse_window_part then = { 0, room, sizeof(uint64_t) };
    const uint64_t begin = copse__now_ns();
    copse_status s = copse__window_get(k->cluster, worker, &first, 1, timeout_ns, "gradients");
    const uint64_t passed = COPSE_MIN(copse__now_ns() - begin, timeout_ns);
    if (!s)
        s = copse__window_get(k->cluster, worker, &then, 1, timeout_ns - passed, "gradients");
    if (is_stuck(k, worker)) { /* what comes after all must not fall among another worker's */
        copse__window_keep(k->cluster, k->gradients);
        k->gradients = NULL;
        k->room = 0;
    }
    return s;
}

copse_status copse__keeper_take(struct copse_window_keeper *k, uint32_t worker, uint64_t number, size_t size,
                                uint64_t timeout_ns, const void **gradients, bool *is_unread)
{
    struct copse_cluster_window *w = &k->cluster->window;
    *is_unread = false;
    if (!w->is_open || number == 0 || size > copse__window_size(k->cluster, worker) - COPSE_WINDOW_LINE)
        return copse_fail(COPSE_ERR_COMM, "parameter server: there is no gradient in a window");
    *is_unread = is_stuck(k, worker);
    if (*is_unread)
        return copse_fail(COPSE_ERR_TIMEOUT, "parameter server: a read of this worker's window did not end");
    COPSE_TRY(make_room(k, COPSE_WINDOW_LINE + size));
    const copse_status s = read_push(k, worker, size, timeout_ns);
    *is_unread = s != COPSE_OK;
    COPSE_TRY(s);
    const uint64_t *found = k->gradients;
    const unsigned char *values = (const unsigned char *)k->gradients + COPSE_WINDOW_LINE;
    if (*found != number)
        return copse_fail(COPSE_ERR_COMM, "parameter server: the worker has given its gradients up");
    w->info.pushes++;
    *gradients = values;
    return COPSE_OK;
}
