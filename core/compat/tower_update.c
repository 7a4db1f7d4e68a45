/* SPDX-License-Identifier: MIT */
/* The update of a tower optimizer: the gradients of all replicas are written to the store's gradients; the exchange sums
   them, updates and broadcasts the new values, one bucket per variable. Either every synchronous worker fails before
   the second barrier or none does. */
#include "core/compat/tower.h"

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "tower optimizer: no memory");
}

static copse_value *gradient_of(const copse_tower_optimizer *t, uint32_t replica,
                                const copse_variable *v)
{
    const struct copse_tower_call *call = &t->kept[replica].at[0];
    for (size_t i = 0; i < call->count; i++)
        if (call->pairs[i].variable == v)
            return call->pairs[i].gradient;
    return NULL;
}

/* ---- which variables ---- */

struct update {
    copse_tower_optimizer *t;
    unsigned char *has;    /* by number of the variable: COPSE_TOWER_HAS, _DENSE, of all workers */
    copse_variable **list; /* with a gradient of some replica, in order of creation */
    copse_value **sums;    /* of slices, where there are no dense gradients */
    size_t count;
    uint64_t ready[COPSE_MAX_REPLICAS];
    uint32_t words[COPSE_STEP_WORDS];
};

static void note_gradients(struct update *u)
{
    const copse_strategy *st = u->t->strategy;
    for (size_t i = 0; i < st->variables.count; i++)
        for (uint32_t r = 0; r < st->replica_count; r++) {
            const copse_value *g = gradient_of(u->t, r, st->variables.at[i]);
            if (g)
                u->has[i] |= g->kind == COPSE_VALUE_SPARSE ? COPSE_TOWER_HAS
                                                           : COPSE_TOWER_HAS | COPSE_TOWER_DENSE;
        }
}

static bool is_dense(const struct update *u, const copse_variable *v)
{
    return u->has[v->index] & COPSE_TOWER_DENSE;
}

static copse_status check_free(const struct update *u)
{
    for (size_t i = 0; i < u->count; i++)
        if (u->list[i]->accumulator)
            return copse_fail(COPSE_ERR_ARGUMENT, "a trainer gathers gradients of '%s'; let it finish, "
                                                  "or flush it", u->list[i]->name);
    return COPSE_OK;
}

/* The bucket of a variable that has a place in the store, made at its first update: its slots start at zero. */
static copse_status prepare_variable(struct copse_optimizer *o, copse_variable *v)
{
    return copse__optimizer_bucket(o, v) == COPSE_NO_BUCKET ? o->table->prepare(o, &v, 1) : COPSE_OK;
}

/* ---- gradients into their places ---- */

static copse_status put_zeros(copse_strategy *st, const copse_variable *v, uint32_t r)
{
    const struct copse_binding to = copse__variable_gradient(v, r);
    return copse_queue_fill(st->replicas[r].queue, to.buffer, to.offset, to.size, 0);
}

static copse_status put_sparse(copse_strategy *st, const copse_variable *v, uint32_t r,
                               const copse_value *g)
{
    copse_value *dense;
    COPSE_TRY(copse_value_densify(g, &dense));
    const copse_status s = copse__tower_write(st, r, dense, copse__variable_gradient(v, r));
    copse_value_release(&dense);
    return s;
}

/* The first replica of all has the slices that were summed. */
static copse_status put(const struct update *u, size_t i)
{
    copse_strategy *st = u->t->strategy;
    const copse_variable *v = u->list[i];
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const copse_value *g = gradient_of(u->t, r, v);
        if (!is_dense(u, v))
            g = st->group.first + r == 0 ? u->sums[i] : NULL;
        COPSE_TRY(!g                               ? put_zeros(st, v, r)
                  : g->kind == COPSE_VALUE_SPARSE ? put_sparse(st, v, r, g)
                                                  : copse__tower_write(st, r, g, copse__variable_gradient(v, r)));
    }
    return COPSE_OK;
}

/* Returns the first failure. It sums the slices of the other variables too, because other workers do. */
static copse_status sum_slices(struct update *u)
{
    copse_strategy *st = u->t->strategy;
    copse_value *of[COPSE_MAX_REPLICAS];
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < u->count; i++) {
        copse_variable *v = u->list[i];
        if (is_dense(u, v))
            continue;
        for (uint32_t r = 0; r < st->replica_count; r++)
            of[r] = gradient_of(u->t, r, v);
        const copse_status one = copse_note(copse__tower_sum_slices(u->t, v, of, &u->sums[i]),
                                            "with the slices of '%s'", v->name);
        s = s ? s : one;
    }
    return s;
}

/* ---- the update ---- */

static copse_status write_step(struct update *u)
{
    copse_tower_optimizer *t = u->t;
    const float scale = 1.0f / copse__scaling_of(t->optimizer);
    uint32_t *words = u->words;
    COPSE_TRY(copse__optimizer_words(t->optimizer, t, t->optimizer->step + 1, words));
    words[COPSE_STEP_NUMBER] = (uint32_t)t->optimizer->step + 1;
    memcpy(&words[COPSE_STEP_SCALE], &scale, sizeof scale);
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        const struct copse_replica *rep = &t->strategy->replicas[r];
        COPSE_TRY(copse_queue_write(rep->queue, rep->step, 0, words, sizeof u->words));
        COPSE_TRY(copse_queue_submit(rep->queue, &u->ready[r]));
    }
    return COPSE_OK;
}

/* All work that can fail on one worker alone. */
static copse_status prepare(struct update *u, copse_status s)
{
    COPSE_TRY(s);
    COPSE_TRY(check_free(u));
    for (size_t i = 0; i < u->count; i++) {
        COPSE_TRY(prepare_variable(u->t->optimizer, u->list[i]));
        COPSE_TRY(copse_note(put(u, i), "with the gradients of '%s'", u->list[i]->name));
    }
    return write_step(u);
}

static copse_status apply(struct update *u)
{
    struct copse_optimizer *o = u->t->optimizer;
    const struct copse_optimizer_ready ready = { .tickets = u->ready };
    const struct copse_optimizer_commit commit = { .words = u->words };
    for (size_t i = 0; i < u->count; i++)
        COPSE_TRY(o->table->apply(o, copse__optimizer_bucket(o, u->list[i]), &ready));
    return o->table->commit(o, &commit);
}

static copse_status run(struct update *u)
{
    copse_tower_optimizer *t = u->t;
    copse_strategy *st = t->strategy;
    for (size_t i = 0; i < st->variables.count; i++)
        if (u->has[i])
            u->list[u->count++] = st->variables.at[i];
    if (u->count == 0) /* of any worker */
        return copse_fail(COPSE_ERR_ARGUMENT, "no replica has a gradient of any variable");
    copse_status s = copse__store_build(st);
    const copse_status summed = sum_slices(u);
    s = prepare(u, s ? s : summed);
    COPSE_TRY(copse__tower_barrier(t, "gradients", 0, s));
    t->optimizer->is_torn = true; /* until all of it is queued */
    COPSE_TRY(apply(u));
    t->optimizer->is_torn = false;
    return COPSE_OK;
}

static copse_status update(struct update *u)
{
    const copse_strategy *st = u->t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    u->has = copse__alloc(mem, st->variables.count, sizeof *u->has);
    u->list = copse__alloc(mem, st->variables.count, sizeof(copse_variable *));
    u->sums = copse__alloc(mem, st->variables.count, sizeof(copse_value *));
    copse_status s = u->has && u->list && u->sums ? COPSE_OK : no_memory();
    if (!s)
        note_gradients(u);
    s = copse__tower_unite(u->t, u->has, st->variables.count, s);
    if (!s)
        s = run(u);
    for (size_t i = 0; u->sums && i < u->count; i++)
        copse_value_release(&u->sums[i]);
    copse__free(mem, u->sums);
    copse__free(mem, u->list);
    copse__free(mem, u->has);
    return s;
}

copse_status copse__tower_update(copse_tower_optimizer *t, bool moves_step)
{
    copse_strategy *st = t->strategy;
    struct update u = { .t = t };
    const copse_status s = update(&u);
    for (uint32_t r = 0; r < st->replica_count; r++)
        copse__tower_drop_first(t, r);
    if (s != COPSE_OK)
        return s;
    struct copse_optimizer *o = t->optimizer;
    if (o->scaling.is_skipped)
        return COPSE_OK;
    o->step++;
    uint64_t count = 1;
    if (moves_step)
        COPSE_TRY(o->strategy->table->count(o->strategy, false, &count));
    return o->table->pull(o, COPSE_PULL_ALWAYS, 0); /* later computations see the update */
}
