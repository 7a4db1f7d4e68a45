/* SPDX-License-Identifier: MIT */
/* Windows. They are tested once: every task writes two patterns into its own window, one after the
 * other, and reads them from all others. If one task fails, no task uses windows.
 */
#include <stdio.h>

#include "core/comm/cluster.h"

#define LEAST_BYTES   4096u
#define DEFAULT_BYTES ((uint64_t)16 << 20)
#define DEFAULT_MOST  ((uint64_t)512 << 10) /* measured: docs/performance.md */
#define TOGETHER      8                     /* pending reads */
#define PROBE_WORDS   (LEAST_BYTES / 16)
#define WHY_BYTES     256

/* ---- settings ---- */

const char *copse__one_sided_name(copse_one_sided mode)
{
    return mode == COPSE_ONE_SIDED_ON ? "on" : mode == COPSE_ONE_SIDED_OFF ? "off" : "auto";
}

copse_status copse__window_check(const struct copse_cluster_params *params)
{
    if ((unsigned)params->one_sided > COPSE_ONE_SIDED_OFF)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: one_sided is auto, on or off, not %d",
                          (int)params->one_sided);
    if (params->window_bytes &&
        (params->window_bytes < LEAST_BYTES || params->window_bytes > COPSE_TRANSPORT_BYTES))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: windows of %llu bytes: they have at least %u, at "
                          "most %zu",
                          (unsigned long long)params->window_bytes, LEAST_BYTES,
                          COPSE_TRANSPORT_BYTES);
    if (params->one_sided_bytes && params->one_sided != COPSE_ONE_SIDED_AUTO)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: one_sided_bytes belongs to one_sided auto, not to %s",
                          copse__one_sided_name(params->one_sided));
    return COPSE_OK;
}

uint64_t copse__window_bytes(const struct copse_cluster_params *params)
{
    const uint64_t bytes = params->window_bytes ? params->window_bytes : DEFAULT_BYTES;
    return bytes / COPSE_WINDOW_LINE * COPSE_WINDOW_LINE;
}

uint64_t copse__window_most(const struct copse_cluster_params *params)
{
    return params->one_sided == COPSE_ONE_SIDED_ON ? UINT64_MAX
           : params->one_sided_bytes               ? params->one_sided_bytes
                                                   : DEFAULT_MOST;
}

uint64_t copse__window_size(const copse_cluster *c, uint32_t rank)
{
    const uint64_t most = COPSE_WINDOW_LINE + COPSE_WINDOW_GRADIENTS;
    return rank >= copse_cluster_size(c) ? c->window.bytes : COPSE_MIN(c->window.bytes, most);
}

void copse_cluster_one_sided(const copse_cluster *c, struct copse_one_sided_info *out)
{
    if (!out)
        return;
    *out = (struct copse_one_sided_info){ .why = "" };
    if (!c)
        return;
    *out = c->window.info;
    out->is_used = c->window.is_open;
    out->why = c->window.is_open ? "" : c->window.why;
}

/* ---- use ---- */

void copse__window_put(copse_cluster *c, uint64_t offset, const void *bytes, size_t size)
{
    c->table->window_put(&c->t, (size_t)offset, bytes, size);
}

/* Keep a timed-out read: it is waited for once more when the group ends. */
static void cluster_window_park(copse_cluster *c, struct copse_pending *read)
{
    c->window.stuck |= 1ull << read->peer;
    if (COPSE_PUSH(&c->ctx->base.mem, &c->window.reads, *read))
        return;
    c->window.is_unknown = true;
    copse__cluster_drop(c, read, 1);
}

copse_status copse__window_get(copse_cluster *c, uint32_t peer,
                               const struct copse_window_range *parts, uint32_t count,
                               uint64_t timeout_ns, const char *what)
{
    copse_status s = COPSE_OK;
    if (copse__peer_is_gone(c, peer))
        return copse__peer_lost(c, peer, what);
    for (uint32_t at = 0; at < count && !s; at += TOGETHER) {
        struct copse_pending list[TOGETHER] = { { NULL, 0 } };
        const uint32_t n = COPSE_MIN(count - at, TOGETHER);
        const uint64_t begin = copse__now_ns();
        for (uint32_t i = 0; i < n && !s; i++) {
            const struct copse_window_range *p = &parts[at + i];
            list[i].peer = peer;
            s = c->table->window_get(&c->t, peer, (size_t)p->offset, p->bytes, p->size,
                                     &list[i].op);
            if (s) {
                char name[COPSE_WORKERS_TEXT];
                list[i].op = NULL;
                s = copse_fail(s, "cluster: the window of %s cannot be read (%s): %s",
                               copse__cluster_names(c, 1ull << peer, name), what, c->t.text);
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t passed = COPSE_MIN(copse__now_ns() - begin, timeout_ns);
            const copse_status one = copse__peer_wait(c, &list[i], timeout_ns - passed, what);
            s = s ? s : one;
            if (list[i].op)
                cluster_window_park(c, &list[i]);
        }
    }
    return s;
}

/* A block that cannot be listed is never freed. */
void copse__window_keep(copse_cluster *c, void *block)
{
    (void)COPSE_PUSH(&c->ctx->base.mem, &c->window.kept, block);
}

bool copse__window_drain(copse_cluster *c, uint64_t timeout_ns)
{
    const uint64_t end = copse__now_ns() + timeout_ns;
    bool is_drained = !c->window.is_unknown;
    for (size_t i = 0; i < c->window.reads.count; i++) {
        struct copse_pending *read = &c->window.reads.at[i];
        const uint64_t now = copse__now_ns();
        if (read->op &&
            c->table->wait(&c->t, read->op, now < end ? end - now : 0) != COPSE_ERR_TIMEOUT)
            read->op = NULL;
        is_drained = is_drained && !read->op;
    }
    return is_drained;
}

/* Without an orderly end the engine may still hold the reads: the blocks are never freed. */
void copse__window_end(copse_cluster *c, bool is_orderly)
{
    struct copse_mem *mem = &c->ctx->base.mem;
    for (size_t i = 0; i < c->window.kept.count && is_orderly; i++)
        copse__free(mem, c->window.kept.at[i]);
    copse__free(mem, c->window.kept.at);
    copse__free(mem, c->window.reads.at);
    memset(&c->window.kept, 0, sizeof c->window.kept);
    memset(&c->window.reads, 0, sizeof c->window.reads);
}

/* ---- test ---- */

struct window_vote {
    uint32_t is_bad;
    char why[WHY_BYTES];
};

static uint64_t cluster_window_pattern(uint32_t rank, uint32_t round, uint32_t word)
{
    const uint64_t of[] = { rank, round, word };
    return copse__hash(COPSE_HASH_START, of, sizeof of);
}

static void write_pattern(copse_cluster *c, uint32_t round)
{
    uint64_t words[PROBE_WORDS];
    for (uint32_t i = 0; i < PROBE_WORDS; i++)
        words[i] = cluster_window_pattern(c->t.rank, round, i);
    copse__window_put(c, 0, words, sizeof words);
    copse__window_put(c, copse__window_size(c, c->t.rank) - sizeof words[0], words,
                      sizeof words[0]); /* and at the end of the window */
}

static copse_status read_pattern(copse_cluster *c, uint64_t *words, uint32_t peer, uint32_t round)
{
    const struct copse_window_range parts[] = {
        { 0, words, PROBE_WORDS * sizeof *words },
        { copse__window_size(c, peer) - sizeof *words, &words[PROBE_WORDS], sizeof *words },
    };
    COPSE_TRY(copse__window_get(c, peer, parts, 2, c->deadline_ns, "trying windows"));
    bool is_same = words[PROBE_WORDS] == cluster_window_pattern(peer, round, 0);
    for (uint32_t i = 0; i < PROBE_WORDS; i++)
        is_same &= words[i] == cluster_window_pattern(peer, round, i);
    return is_same
               ? COPSE_OK
               : copse_fail(COPSE_ERR_COMM,
                            "its read of rank %u returned other bytes than that rank wrote", peer);
}

/* Exchange results: the first task that failed is the reason. */
static copse_status cluster_window_agree(copse_cluster *c, struct window_vote *mine,
                                         struct window_vote *all)
{
    char name[COPSE_WORKERS_TEXT];
    COPSE_TRY(copse__cluster_allgather(c, mine, all, sizeof *mine, "whether windows work"));
    for (uint32_t r = 0; r < c->t.size; r++)
        if (all[r].is_bad) {
            all[r].why[WHY_BYTES - 1] = '\0';
            snprintf(c->window.why, sizeof c->window.why, "%s: %s",
                     copse__cluster_names(c, 1ull << r, name), all[r].why);
            return COPSE_ERR_UNSUPPORTED;
        }
    return COPSE_OK;
}

static void cluster_window_object(struct window_vote *v, const char *why)
{
    if (!v->is_bad)
        snprintf(v->why, sizeof v->why, "%.*s", WHY_BYTES - 1, why);
    v->is_bad = 1;
}

static copse_status try_all(copse_cluster *c, uint64_t *words, struct window_vote *all)
{
    struct window_vote mine = { 0 };
    copse_status s =
        c->table->window_open(&c->t, (size_t)copse__window_size(c, c->t.rank), c->deadline_ns);
    c->window.is_hung = s == COPSE_ERR_TIMEOUT;
    if (c->window.is_hung)
        return copse_fail(s, "cluster: %s", c->t.text);
    if (s)
        cluster_window_object(&mine, c->t.text);
    COPSE_TRY(cluster_window_agree(c, &mine, all));
    for (uint32_t round = 0; round < 2; round++) {
        write_pattern(c, round);
        COPSE_TRY(cluster_window_agree(c, &mine, all)); /* all have written */
        for (uint32_t r = 0; r < c->t.size && !mine.is_bad; r++)
            if (r != c->t.rank && read_pattern(c, words, r, round))
                cluster_window_object(&mine, copse_last_error());
        COPSE_TRY(cluster_window_agree(c, &mine, all)); /* all have read */
    }
    return COPSE_OK;
}

static copse_status cluster_window_try(copse_cluster *c)
{
    struct copse_mem *mem = &c->ctx->base.mem;
    uint64_t *words = copse__alloc(mem, PROBE_WORDS + 1, sizeof *words);
    struct window_vote *all = copse__alloc(mem, c->t.size, sizeof *all);
    const copse_status s = words && all ? try_all(c, words, all) : copse_no_memory("cluster");
    copse__free(mem, all);
    if (c->window.stuck)
        copse__window_keep(c, words);
    else
        copse__free(mem, words);
    return s;
}

copse_status copse__window_begin(copse_cluster *c)
{
    struct copse_cluster_window *w = &c->window;
    copse_status s = COPSE_ERR_UNSUPPORTED;
    w->info = (struct copse_one_sided_info){ 0 };
    w->stuck = 0;
    w->is_unknown = w->is_stuck = false;
    if (copse_cluster_servers(c) == 0)
        return snprintf(w->why, sizeof w->why, "the job has no parameter server"), COPSE_OK;
    if (w->mode == COPSE_ONE_SIDED_OFF)
        return snprintf(w->why, sizeof w->why, "they are off"), COPSE_OK;
    if (!c->table->window_open)
        snprintf(w->why, sizeof w->why, "the engine %s has none", c->table->name);
    else
        s = cluster_window_try(c);
    w->is_open = s == COPSE_OK;
    if (w->is_open || s != COPSE_ERR_UNSUPPORTED)
        return s;
    if (w->mode == COPSE_ONE_SIDED_ON)
        return copse_fail(
            s, "cluster: windows are on and cannot be used: %s; leave them to auto, or off",
            w->why);
    copse__log(&c->ctx->base.log, COPSE_LOG_INFO,
               "cluster: parameter servers are reached by messages: %s", w->why);
    return COPSE_OK;
}
