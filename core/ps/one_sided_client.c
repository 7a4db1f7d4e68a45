/* SPDX-License-Identifier: MIT */
/* One-sided fetch of values and publish of gradients by a worker. Values are read into the caller's
   memory. A fetch that overlapped a publish is repeated; the worker's copy counts only once its
   version is set. */
#include "core/ps/one_sided.h"

#define TRIES    16
#define PAUSE_NS 20000ull
#define AT_ONCE  8 /* tries without a pause: a publish is short */

static struct copse_mem *mem_of(const struct copse_one_sided_client *r)
{
    return &r->cluster->ctx->base.mem;
}

static bool is_stuck(const struct copse_one_sided_client *r)
{
    return (r->cluster->window.stuck >> r->server & 1) != 0;
}

static bool is_usable(const struct copse_one_sided_client *r)
{
    return r->cluster->window.is_open && !is_stuck(r);
}

void copse__one_sided_client_init(struct copse_one_sided_client *r, copse_cluster *c,
                                  uint32_t server)
{
    *r = (struct copse_one_sided_client){ .cluster = c, .server = server };
}

void copse__one_sided_client_fini(struct copse_one_sided_client *r)
{
    copse__free(mem_of(r), r->fetched.at);
    copse__free(mem_of(r), r->reads.at);
    if (is_stuck(r)) /* the engine may still write to it */
        copse__window_keep(r->cluster, r->words);
    else
        copse__free(mem_of(r), r->words);
}

copse_status copse__one_sided_client_add(struct copse_one_sided_client *r, uint32_t id,
                                         uint64_t offset, uint64_t bytes)
{
    const uint64_t window = r->cluster->window.bytes;
    const struct copse_fetched none = { COPSE_WINDOW_NONE, 0 };
    if (!r->cluster->window.is_open)
        return COPSE_OK;
    if ((offset != COPSE_WINDOW_MESSAGE && (offset > window || bytes > window - offset)) ||
        (offset != COPSE_WINDOW_NONE && (id + 2ull) * sizeof *r->words > window))
        return copse_fail(COPSE_ERR_COMM,
                          "parameter server: the offset of a variable is outside of the window");
    while (r->fetched.count <= id)
        if (!COPSE_PUSH(mem_of(r), &r->fetched, none))
            return copse_no_memory("parameter server: values of the window");
    r->fetched.at[id] = (struct copse_fetched){ offset, bytes };
    return COPSE_OK;
}

/* ---- fetch ---- */

/* Words that a fetch of these variables needs; 0: the window does not hold one of them. */
static size_t words_of(const struct copse_one_sided_client *r, const uint32_t *ids, uint32_t count)
{
    size_t words = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] >= r->fetched.count || r->fetched.at[ids[i]].offset == COPSE_WINDOW_NONE)
            return 0;
        words = COPSE_MAX(words, (size_t)ids[i] + 2);
    }
    return words;
}

static copse_status make_room(struct copse_one_sided_client *r, uint32_t count, size_t words)
{
    struct copse_mem *mem = mem_of(r);
    if (words > r->word_count) {
        copse__free(mem, r->words);
        r->word_count = 0;
        r->words = copse__alloc(mem, words + 1, sizeof *r->words);
        if (!r->words)
            return copse_no_memory("parameter server: values of the window");
        r->word_count = words;
    }
    return COPSE_RESERVE(mem, &r->reads, count)
               ? COPSE_OK
               : copse_no_memory("parameter server: values of the window");
}

static copse_status one_sided_client_get(struct copse_one_sided_client *r,
                                         const struct copse_window_range *reads, uint32_t count)
{
    return copse__window_get(r->cluster, r->server, reads, count, r->cluster->deadline_ns,
                             "values");
}

/* One try: new values are in `values`, if they are of one moment (`is_whole`). `must_ask`: request
   them by message. */
static copse_status fetch_once(struct copse_one_sided_client *r, const uint32_t *ids,
                               uint32_t count, size_t words, const uint64_t *seen,
                               void *const *values, bool *is_whole, bool *must_ask)
{
    uint64_t *const again = &r->words[r->word_count];
    const struct copse_window_range head = { 0, r->words, words * sizeof *r->words };
    const struct copse_window_range sequence = { 0, again, sizeof *again };
    COPSE_TRY(one_sided_client_get(r, &sequence, 1)); /* before the versions */
    const uint64_t begin = *again;
    *is_whole = false;
    if (begin % 2 != 0)
        return COPSE_OK;
    COPSE_TRY(one_sided_client_get(r, &head, 1));
    r->reads.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct copse_fetched *p = &r->fetched.at[ids[i]];
        const bool is_new = r->words[1 + ids[i]] != seen[i];
        *must_ask |= is_new && p->offset == COPSE_WINDOW_MESSAGE;
        if (is_new)
            r->reads.at[r->reads.count++] =
                (struct copse_window_range){ p->offset, values[i], (size_t)p->bytes };
    }
    if (*must_ask)
        return COPSE_OK;
    COPSE_TRY(one_sided_client_get(r, r->reads.at, (uint32_t)r->reads.count));
    COPSE_TRY(one_sided_client_get(r, &sequence, 1));
    *is_whole = *again == begin;
    return COPSE_OK;
}

copse_status copse__one_sided_client_fetch(struct copse_one_sided_client *r, const uint32_t *ids,
                                           uint32_t count, uint64_t *seen, void *const *values,
                                           bool *is_done)
{
    struct copse_one_sided_info *info = &r->cluster->window.info;
    const size_t words = is_usable(r) ? words_of(r, ids, count) : 0;
    *is_done = false;
    info->asked++;
    if (words == 0)
        return COPSE_OK;
    COPSE_TRY(make_room(r, count, words));
    bool must_ask = false;
    for (uint32_t i = 0; i < TRIES && !*is_done && !must_ask; i++) {
        const copse_status s = fetch_once(r, ids, count, words, seen, values, is_done, &must_ask);
        if (s) /* after other errors a request by message succeeds or reports the reason */
            return s == COPSE_ERR_TIMEOUT ? s : COPSE_OK;
        if (!*is_done && !must_ask) {
            info->retries++;
            if (i >= AT_ONCE)
                copse__sleep_ns(PAUSE_NS);
        }
    }
    if (!*is_done)
        return COPSE_OK;
    for (uint32_t i = 0; i < count; i++)
        seen[i] = r->words[1 + ids[i]];
    info->asked--;
    info->pulls++;
    return COPSE_OK;
}

/* ---- publish ---- */

uint64_t copse__one_sided_client_publish(struct copse_one_sided_client *r, const void *gradients,
                                         uint64_t bytes)
{
    copse_cluster *c = r->cluster;
    const uint64_t none = 0;
    if (!is_usable(r) || r->is_unread ||
        bytes > copse__window_size(c, c->t.rank) - COPSE_WINDOW_LINE)
        return 0;
    const uint64_t number = ++c->window.info.pushes; /* counts pushes to all servers */
    copse__window_put(c, 0, &none, sizeof none);
    copse__window_put(c, COPSE_WINDOW_LINE, gradients, (size_t)bytes);
    copse__window_put(c, 0, &number, sizeof number);
    return number;
}
