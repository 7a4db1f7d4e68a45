/* SPDX-License-Identifier: MIT */
/* Checkpoints of replicated models: those of a trainer that has no loss, trains nothing and takes no steps, beside
   which the strategy's tower optimizers stand. In a job with parameter servers they are the chief's; that it has
   restored, or has nothing to restore, it says by the places of a group that nobody pushes to. */
#include "core/cluster/cluster.h"
#include "core/replica/servers.h"
#include "core/train/state.h"

#define LOOK_NS 20000000ull

/* A worker beside the chief of a job with parameter servers. */
static bool is_guest(const copse_strategy *st)
{
    return st->servers && st->cluster && !copse_cluster_is_chief(st->cluster);
}

static copse_status check(copse_strategy *st, const char *path)
{
    if (!st)
        return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: the strategy is NULL, or the path is NULL or empty");
    if (!st->ctx)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "checkpoint: the default strategy has no variables");
    COPSE_TRY(copse__require_cross(st, "checkpoint"));
    if (st->remote || is_guest(st)) /* one worker looks at it, and tells the others where it is missing */
        return COPSE_OK;
    return path && *path ? COPSE_OK : copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: the strategy is NULL, or the path is NULL or empty");
}

/* ---- with parameter servers ---- */

/* The same of all workers: of the first variable that is trained; where there is none, `server` is NULL. It lasts
   until they are done. */
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
    *server = st->servers->at[v->server].server;
    return (*server)->table->group(*server, key, &st->servers->at[v->server].ids.at[v->shelf_place], 1, &rule,
                                   group);
}

/* Others may begin, where the chief is. */
static copse_status let_begin(copse_strategy *st, const struct copse_position *at)
{
    struct copse_server_places places = { .is_open = 1 };
    struct copse_server *server;
    uint32_t group;
    if (!st->servers || !st->cluster || copse_cluster_size(st->cluster) == 1)
        return COPSE_OK;
    COPSE_TRY(find_group(st, &server, &group));
    if (!server)
        return COPSE_OK;
    for (uint32_t w = 0; w < COPSE_MAX_WORKERS; w++)
        places.at[w] = (struct copse_server_place){ .batch = at->batch, .epoch = at->epoch };
    COPSE_TRY(server->table->places(server, group, COPSE_PLACES_SET, &places));
    return server->table->places(server, group, COPSE_PLACES_OPEN, &places);
}

/* A guest's: wait until the chief has said so. */
static copse_status await_chief(copse_strategy *st, struct copse_position *out)
{
    const uint64_t most = st->cluster->deadline_ns, end = copse__now_ns() + most;
    struct copse_server_places places = { .is_open = 0 };
    struct copse_server *server;
    uint32_t group;
    COPSE_TRY(find_group(st, &server, &group));
    if (!server)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "checkpoint: a worker beside the chief needs a variable that is "
                                                 "trained, to wait for the chief's restore");
    for (;;) {
        COPSE_TRY(server->table->places(server, group, COPSE_PLACES_READ, &places));
        if (places.is_open)
            break;
        if (copse__now_ns() >= end)
            return copse_fail(COPSE_ERR_TIMEOUT, "checkpoint: the chief has restored or written none within "
                                                 "%.3g s: do all workers have the same settings?",
                              (double)most / 1e9);
        copse__sleep_ns(LOOK_NS);
    }
    copse__towers_forget(st);
    const struct copse_server_place *at = &places.at[copse_cluster_rank(st->cluster)];
    *out = (struct copse_position){ at->epoch, at->batch };
    return COPSE_OK;
}

/* ---- both ways ---- */

static copse_status make(copse_strategy *st, copse_trainer **out)
{
    *out = copse__alloc(&st->ctx->base.mem, 1, sizeof **out);
    if (!*out)
        return copse_fail(COPSE_ERR_NO_MEMORY, "checkpoint: no memory");
    (*out)->strategy = st;
    for (const copse_tower_optimizer *t = st->towers; t; t = t->next)
        (*out)->step = COPSE_MAX((*out)->step, t->step);
    return COPSE_OK;
}

copse_status copse_replicated_checkpoint(copse_strategy *st, const char *path,
                                         const struct copse_state_params *params)
{
    static const struct copse_position begin;
    copse_trainer *t;
    COPSE_TRY(check(st, path));
    if (is_guest(st))
        return COPSE_OK;
    COPSE_TRY(make(st, &t));
    const copse_status s = copse_trainer_checkpoint(t, path, params);
    copse__free(&st->ctx->base.mem, t);
    return s ? s : let_begin(st, params ? &params->position : &begin);
}

copse_status copse_replicated_restore(copse_strategy *st, const char *path, struct copse_position *position,
                                      copse_checkpoint **file)
{
    struct copse_position at = { 0 };
    copse_trainer *t;
    if (file)
        *file = NULL;
    COPSE_TRY(check(st, path));
    if (is_guest(st)) {
        COPSE_TRY(await_chief(st, &at));
    } else {
        COPSE_TRY(make(st, &t));
        copse_status s = copse_trainer_restore(t, path, &at, file);
        copse__free(&st->ctx->base.mem, t);
        s = s ? s : let_begin(st, &at);
        if (s && file)
            copse_checkpoint_release(file);
        COPSE_TRY(s);
    }
    if (position)
        *position = at;
    return COPSE_OK;
}
