/* SPDX-License-Identifier: MIT */
/* The update of a tower optimizer: the gradients of all replicas are written to the store's
   gradients; the exchange sums them, updates and broadcasts the new values, in buckets of
   variables that are always updated together. Slices, and all gradients where the application has
   given the strategy cross-device operations, are summed as values first. Either every synchronous
   worker fails before the second barrier or none does. */
#include <stdio.h>

#include "core/base/half.h"
#include "core/compat/tower.h"
#include "core/value/cross_device.h"

enum { HAS = 1, DENSE = 2 }; /* bits: gradients of a variable, dense ones among them */

struct update {
    copse_tower_optimizer *t;
    unsigned char *has;    /* by index of the variable, of all workers */
    copse_variable **list; /* room for all variables */
    copse_value **sums;    /* where gradients are summed as values */
    uint64_t ready[COPSE_MAX_REPLICAS];
    uint32_t words[COPSE_STEP_WORDS];
};

static copse_value *gradient_of(const struct update *u, uint32_t replica, const copse_variable *v)
{
    const struct copse_tower_call *call = &u->t->kept[replica].at[0];
    for (size_t i = 0; i < call->count; i++)
        if (call->pairs[i].variable == v)
            return call->pairs[i].gradient;
    return NULL;
}

/* The next variable behind `v`, or the first (NULL), that has a gradient on some replica; NULL at
   the end. */
static copse_variable *tower_update_next(const struct update *u, const copse_variable *v)
{
    const copse_strategy *st = u->t->strategy;
    size_t i = v ? v->index + 1 : 0;
    while (i < st->variables.count && !u->has[i])
        i++;
    return i < st->variables.count ? st->variables.at[i] : NULL;
}

static bool is_dense(const struct update *u, const copse_variable *v)
{
    return u->has[v->index] & DENSE;
}

/* Slices are, and where the application has given operations all gradients. */
static bool sums_values(const struct update *u, const copse_variable *v)
{
    return !is_dense(u, v) || copse__strategy_has_own_sums(u->t->strategy);
}

/* ---- collectives: with one worker they return `mine` ---- */

copse_status copse__tower_barrier(copse_tower_optimizer *t, const char *what, uint64_t size,
                                  copse_status mine)
{
    const struct copse_optimizer *o = t->optimizer;
    const uint64_t hash = copse__hash(copse__hash(COPSE_HASH_START, o->name, strlen(o->name)),
                                      &o->step, sizeof o->step);
    char line[COPSE_WHAT_BYTES];
    snprintf(line, sizeof line, "%.32s of '%.12s', %08x", what, o->name, (unsigned)hash);
    return copse__group_barrier(&t->strategy->group, line, size, mine);
}

/* ---- which variables ---- */

static void note_gradients(struct update *u)
{
    const copse_strategy *st = u->t->strategy;
    for (size_t i = 0; i < st->variables.count; i++)
        for (uint32_t r = 0; r < st->replica_count; r++) {
            const copse_value *g = gradient_of(u, r, st->variables.at[i]);
            if (g)
                u->has[i] |= g->kind == COPSE_VALUE_SPARSE ? HAS : HAS | DENSE;
        }
}

/* What this worker has becomes what all workers have. `mine`: why it cannot take part. */
static copse_status tower_update_unite(struct update *u, copse_status mine)
{
    struct copse_group *g = &u->t->strategy->group;
    struct copse_mem *mem = &u->t->strategy->ctx->base.mem;
    const size_t count = u->t->strategy->variables.count;
    unsigned char *all = copse__alloc(mem, g->workers, COPSE_MAX(count, 1));
    if (!mine && !all)
        mine = copse_no_memory("tower optimizer");
    copse_status s = copse__tower_barrier(u->t, "an update", count, mine);
    if (!s) {
        memcpy(all + g->worker * count, u->has, count);
        s = copse__group_allgather_each(g, all, count);
    }
    for (size_t i = 0; i < g->workers * count && !s; i++)
        u->has[i % count] |= all[i];
    copse__free(mem, all);
    return s;
}

static copse_status check_free(const struct update *u)
{
    for (const copse_variable *v = NULL; (v = tower_update_next(u, v));)
        if (v->accumulator)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "a trainer gathers gradients of '%s'; let it finish, or flush it",
                              v->name);
    return COPSE_OK;
}

/* ---- sums of values ---- */

/* What replica `r` gives: its gradient, or zeros. */
static copse_status part_of(const struct update *u, const copse_variable *v, uint32_t r,
                            copse_value **out)
{
    copse_strategy *st = u->t->strategy;
    const struct copse_sparse_params none = { .dense_shape = v->tensor.shape };
    copse_value *g = copse_value_retain(gradient_of(u, r, v));
    if (!g)
        COPSE_TRY(copse__value_sparse(st->ctx, st, r, &none, &g));
    if (!is_dense(u, v) || g->kind != COPSE_VALUE_SPARSE) {
        *out = g;
        return COPSE_OK;
    }
    const copse_status s = copse_value_densify(g, out);
    copse_value_release(&g);
    return s;
}

/* Over the replicas of all workers, on the host. Where it fails on this worker alone, the others have
   its gradients. */
static copse_status sum_values_of(const struct update *u, const copse_variable *v,
                                  copse_value **out)
{
    copse_strategy *st = u->t->strategy;
    copse_value *parts[COPSE_MAX_REPLICAS] = { NULL }, *all = NULL, *sum = NULL;
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < st->replica_count && !s; r++)
        s = part_of(u, v, r, &parts[r]);
    s = copse__value_distributed_of(s, st, COPSE_VALUE_PER_REPLICA, parts, NULL, st->replica_count,
                                    &all);
    s = s ? copse__group_barrier(&st->group, v->name, 0, s)
          : copse__cross_reduce_for(v->name, st->cross, st, COPSE_REDUCE_SUM, &all, &copse__to_host,
                                    1, &sum);
    if (!s)
        *out = copse_value_retain(sum->kind == COPSE_VALUE_MIRRORED ? sum->items[0] : sum);
    copse_value_release(&all);
    copse_value_release(&sum);
    return s;
}

/* Returns the first failure. It sums the slices of the other variables too, because other workers do. */
static copse_status sum_values(struct update *u)
{
    copse_status s = COPSE_OK;
    for (const copse_variable *v = NULL; (v = tower_update_next(u, v));) {
        if (!sums_values(u, v))
            continue;
        const copse_status one =
            copse_note(sum_values_of(u, v, &u->sums[v->index]), "with the %s of '%s'",
                       is_dense(u, v) ? "gradients" : "slices", v->name);
        s = s ? s : one;
    }
    return s;
}

/* ---- gradients into their places ---- */

/* Of a sum of values the first replica of all gets it, where the exchange adds zeros to it, or every
   replica, where the exchange takes sums. */
static copse_status tower_update_put(const struct update *u, const copse_variable *v)
{
    copse_strategy *st = u->t->strategy;
    const bool is_everywhere = copse__strategy_has_own_sums(st);
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const bool takes_sum = is_everywhere || st->group.first + r == 0;
        const copse_value *sum = takes_sum ? u->sums[v->index] : NULL;
        const copse_value *g = sums_values(u, v) ? sum : gradient_of(u, r, v);
        const struct copse_binding to = copse__variable_gradient(v, r);
        copse_value *dense = NULL;
        if (g && g->kind == COPSE_VALUE_SPARSE)
            COPSE_TRY(copse_value_densify(g, &dense));
        const copse_status s =
            g ? copse__value_write_to(st, r, dense ? dense : g, to)
              : copse_queue_fill(st->replicas[r].queue, to.buffer, to.offset, to.size, 0);
        copse_value_release(&dense);
        COPSE_TRY(s);
    }
    return COPSE_OK;
}

/* ---- the update ---- */

static copse_status write_step(struct update *u)
{
    copse_tower_optimizer *t = u->t;
    COPSE_TRY(copse__optimizer_words(t->optimizer, t, t->optimizer->step + 1, u->words));
    u->words[COPSE_STEP_NUMBER] = (uint32_t)t->optimizer->step + 1;
    u->words[COPSE_STEP_SCALE] = copse__bits_of(1.0f / copse__scaling_of(t->optimizer));
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        const struct copse_replica *rep = &t->strategy->replicas[r];
        COPSE_TRY(copse_queue_write(rep->queue, rep->step, 0, u->words, sizeof u->words));
        COPSE_TRY(copse_queue_submit(rep->queue, &u->ready[r]));
    }
    return COPSE_OK;
}

/* Variables get their buckets at their first update: the slots start at zero. */
static copse_status tower_update_join(struct update *u)
{
    struct copse_optimizer *o = u->t->optimizer;
    size_t count = 0;
    for (copse_variable *v = NULL; (v = tower_update_next(u, v));)
        if (copse__optimizer_bucket(o, v) == COPSE_NO_BUCKET)
            u->list[count++] = v;
    if (count == 0)
        return COPSE_OK;
    COPSE_TRY(copse__slots_check(o, u->list, count));
    return o->table->prepare(o, u->list, count);
}

/* All work that can fail on one worker alone. */
static copse_status tower_update_prepare(struct update *u)
{
    struct copse_optimizer *o = u->t->optimizer;
    COPSE_TRY(check_free(u));
    COPSE_TRY(tower_update_join(u));
    for (size_t b = 0; b < o->buckets.count; b++)
        o->buckets.at[b].is_due = false;
    for (const copse_variable *v = NULL; (v = tower_update_next(u, v));) {
        o->buckets.at[copse__optimizer_bucket(o, v)].is_due = true;
        COPSE_TRY(copse_note(tower_update_put(u, v), "with the gradients of '%s'", v->name));
    }
    COPSE_TRY(write_step(u));
    return copse__tower_check_update(u->t);
}

static copse_status tower_update_apply(struct update *u)
{
    struct copse_optimizer *o = u->t->optimizer;
    const struct copse_optimizer_ready ready = { .tickets = u->ready };
    const struct copse_optimizer_commit commit = { .words = u->words,
                                                   .is_unchecked = u->t->params.no_cross_check };
    for (uint32_t b = 0; b < o->buckets.count; b++)
        if (o->buckets.at[b].is_due)
            COPSE_TRY(o->table->apply(o, b, &ready));
    return o->table->commit(o, &commit);
}

static copse_status tower_update_run(struct update *u)
{
    copse_tower_optimizer *t = u->t;
    if (!tower_update_next(u, NULL)) /* of any worker */
        return copse_fail(COPSE_ERR_ARGUMENT, "no replica has a gradient of any variable");
    copse_status s = copse__store_build(t->strategy);
    const copse_status summed = sum_values(u);
    s = copse__optimizer_separate(t->optimizer, u->has, s ? s : summed);
    const size_t before = t->optimizer->buckets.count;
    s = copse__tower_barrier(t, "gradients", 0, s ? s : tower_update_prepare(u));
    if (s && !t->optimizer->table->is_sharing) /* as on a worker that could not make them */
        copse__optimizer_drop(t->optimizer, before);
    COPSE_TRY(s);
    t->optimizer->is_torn = true; /* until all of it is queued */
    COPSE_TRY(tower_update_apply(u));
    t->optimizer->is_torn = false;
    return COPSE_OK;
}

static copse_status update_variables(struct update *u)
{
    const copse_strategy *st = u->t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    const size_t count = st->variables.count;
    u->has = copse__alloc(mem, count, sizeof *u->has);
    u->sums = copse__alloc(mem, count, sizeof(copse_value *));
    u->list = copse__alloc(mem, count, sizeof(copse_variable *));
    copse_status s = copse_need_memory(u->has && u->sums && u->list, "tower optimizer");
    if (!s)
        note_gradients(u);
    s = tower_update_unite(u, s);
    if (!s)
        s = tower_update_run(u);
    if (u->sums)
        copse__values_release(u->sums, count);
    copse__free(mem, u->list);
    copse__free(mem, u->sums);
    copse__free(mem, u->has);
    return s;
}

copse_status copse__tower_update(copse_tower_optimizer *t, bool moves_step)
{
    copse_strategy *st = t->strategy;
    struct copse_optimizer *o = t->optimizer;
    struct update u = { .t = t };
    uint64_t count = 1;
    const copse_status s = update_variables(&u);
    for (uint32_t r = 0; r < st->replica_count; r++)
        copse__tower_drop_first(t, r);
    if (s != COPSE_OK || o->scaling.is_skipped)
        return s;
    o->step++;
    if (moves_step)
        COPSE_TRY(st->table->count(st, false, &count));
    return o->table->pull(o, COPSE_PULL_ALWAYS, 0); /* later computations see the update */
}
