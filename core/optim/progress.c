/* SPDX-License-Identifier: MIT */
/* Every push carries the progress of its worker, so that the values of a store and the progress of
   all workers belong together. */
#include "core/optim/progress.h"

#include <stdio.h>

#include "core/variable/servers.h"

#define POLL_NS 20000000ull

static uint32_t workers_of(const struct copse_optimizer *o)
{
    return o->strategy->group.job ? copse_cluster_size(o->strategy->group.job) : 1;
}

bool copse__progress_is_non_chief(const copse_strategy *st)
{
    return copse__servers_of(st) && !copse__group_is_chief(&st->group);
}

/* ---- as text ---- */

void copse__progress_text(const struct copse_optimizer *o, const struct copse_worker_progress *mine,
                          char text[COPSE_PROGRESS_TEXT])
{
    const uint32_t count = workers_of(o);
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t w = 0; count > 1 && w < count; w++) {
        const bool is_this = w == copse_cluster_rank(o->strategy->group.job);
        const struct copse_worker_progress at = is_this ? *mine : o->table->seen(o, w);
        used += (size_t)snprintf(text + used, COPSE_PROGRESS_TEXT - used, "%s%llu:%u:%llu",
                                 w > 0 ? " " : "", (unsigned long long)at.steps, at.epoch,
                                 (unsigned long long)at.batch);
    }
}

/* Digits up to `end`, which is stepped over. */
static bool parse_number(const char **text, char end, uint64_t most, uint64_t *out)
{
    const char *c = *text;
    uint64_t v = 0;
    bool ok = *c != end;
    for (; ok && *c != end; c++) {
        const uint64_t digit = (uint64_t)(*c - '0');
        ok = *c >= '0' && *c <= '9' && v <= (most - digit) / 10;
        v = 10 * v + digit;
    }
    *text = c + (ok && end);
    *out = v;
    return ok;
}

/* How many there are; 0: it is no such text. */
static uint32_t progress_parse(const char *text,
                               struct copse_worker_progress list[COPSE_MAX_WORKERS])
{
    uint32_t count = 0;
    uint64_t steps, epoch, batch;
    for (bool is_last = false; !is_last; count++) {
        const char *end = strchr(text, ' ');
        is_last = !end;
        if (count == COPSE_MAX_WORKERS || !parse_number(&text, ':', UINT64_MAX, &steps) ||
            !parse_number(&text, ':', UINT32_MAX, &epoch) ||
            !parse_number(&text, is_last ? '\0' : ' ', UINT64_MAX, &batch))
            return 0;
        list[count] = (struct copse_worker_progress){ steps, batch, (uint32_t)epoch, 0 };
    }
    return count;
}

static bool is_before(const struct copse_worker_progress *a, const struct copse_worker_progress *b)
{
    return a->epoch != b->epoch ? a->epoch < b->epoch : a->batch < b->batch;
}

copse_status copse__progress_read(const struct copse_optimizer *o, const char *path,
                                  const char *text, struct copse_worker_progress *mine,
                                  struct copse_server_progress *out)
{
    const uint32_t wanted = workers_of(o);
    *out = (struct copse_server_progress){ .at = { *mine } };
    const uint32_t count = text ? progress_parse(text, out->at) : 1;
    if (count == 0)
        return copse_fail(
            COPSE_ERR_FORMAT,
            "checkpoint: %s: \"" COPSE_PROGRESS_KEY "\" is no list of worker progress", path);
    if (count == wanted)
        return COPSE_OK;
    struct copse_worker_progress slowest = out->at[0];
    for (uint32_t w = 1; w < count; w++)
        if (is_before(&out->at[w], &slowest))
            slowest = out->at[w];
    for (uint32_t w = 0; w < wanted; w++)
        out->at[w] = slowest;
    *mine = slowest;
    return COPSE_OK;
}

/* ---- with the stores ---- */

copse_status copse__progress_open(struct copse_optimizer *o)
{
    struct copse_server_progress none;
    return o->table->progress ? o->table->progress(o, COPSE_PROGRESS_OPEN, &none) : COPSE_OK;
}

typedef copse_status read_progress_fn(void *user, struct copse_server_progress *out);

/* Wait until the chief has opened. `read` gets the progress. */
static copse_status progress_await(const copse_strategy *st, read_progress_fn *read, void *user,
                                   struct copse_server_progress *out)
{
    const uint64_t most = st->group.job->deadline_ns, end = copse__now_ns() + most;
    *out = (struct copse_server_progress){ .is_open = 0 };
    for (;;) {
        COPSE_TRY(read(user, out));
        if (out->is_open)
            return COPSE_OK;
        if (copse__now_ns() >= end)
            return copse_fail(COPSE_ERR_TIMEOUT,
                              "checkpoint: the chief has restored or written none within "
                              "%.3g s: do all workers have the same settings?",
                              (double)most / 1e9);
        copse__sleep_ns(POLL_NS);
    }
}

static copse_status read_own(void *user, struct copse_server_progress *out)
{
    struct copse_optimizer *o = user;
    return o->table->progress(o, COPSE_PROGRESS_READ, out);
}

copse_status copse__progress_await(struct copse_optimizer *o, struct copse_server_progress *out)
{
    return progress_await(o->strategy, read_own, o, out);
}

/* ---- of a strategy whose optimizers are named ---- */

/* A group that is not updated has the progress, the same of all workers: that of the first variable
   that is trained; where there is none, `server` is NULL. It lasts until all workers are done. */
static copse_status find_group(copse_strategy *st, struct copse_server **server, uint32_t *group)
{
    static const char name[] = "replicated state";
    const struct copse_optimizer_params rule = { .kind = COPSE_SGD, .learning_rate = 1.0f };
    const uint64_t key = copse__hash(COPSE_HASH_START, name, sizeof name) | 1;
    size_t i = 0;
    while (i < st->variables.count && !st->variables.at[i]->is_trained)
        i++;
    *server = NULL;
    if (i == st->variables.count)
        return COPSE_OK;
    const copse_variable *v = st->variables.at[i];
    *server = copse__servers_of(st)->at[v->server].server;
    return (*server)->table->group(*server, key,
                                   &copse__servers_of(st)->at[v->server].ids.at[v->server_index], 1,
                                   &rule, group);
}

copse_status copse__progress_let(copse_strategy *st, uint32_t epoch, uint64_t batch)
{
    struct copse_server_progress all = { .is_open = 1 };
    struct copse_server *server;
    uint32_t group;
    if (!copse__servers_of(st) || !st->group.job || copse_cluster_size(st->group.job) == 1)
        return COPSE_OK;
    COPSE_TRY(find_group(st, &server, &group));
    if (!server)
        return COPSE_OK;
    for (uint32_t w = 0; w < COPSE_MAX_WORKERS; w++)
        all.at[w] = (struct copse_worker_progress){ .batch = batch, .epoch = epoch };
    COPSE_TRY(server->table->progress(server, group, COPSE_PROGRESS_SET, &all));
    return server->table->progress(server, group, COPSE_PROGRESS_OPEN, &all);
}

struct group {
    struct copse_server *server;
    uint32_t id;
};

static copse_status read_group(void *user, struct copse_server_progress *out)
{
    const struct group *g = user;
    return g->server->table->progress(g->server, g->id, COPSE_PROGRESS_READ, out);
}

copse_status copse__progress_await_chief(copse_strategy *st, uint32_t *epoch, uint64_t *batch)
{
    struct copse_server_progress all;
    struct group g;
    COPSE_TRY(find_group(st, &g.server, &g.id));
    if (!g.server)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "checkpoint: a worker beside the chief needs a variable that is "
                          "trained, to wait for the chief's restore");
    COPSE_TRY(progress_await(st, read_group, &g, &all));
    const struct copse_worker_progress *at = &all.at[copse_cluster_rank(st->group.job)];
    *epoch = at->epoch;
    *batch = at->batch;
    return COPSE_OK;
}
