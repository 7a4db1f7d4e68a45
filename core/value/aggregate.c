/* SPDX-License-Identifier: MIT */
/* What the replicas of all workers have for a variable becomes one value, by the variable's aggregation. */
#include <stdio.h>

#include "core/value/cross_device.h"
#include "core/value/replica_run.h"

struct given {
    copse_variable *v;
    copse_value *const *at; /* of this worker's replicas */
    size_t count;
    size_t bytes; /* of each */
    unsigned char *first, *other; /* [bytes] */
};

static copse_status no_memory(const copse_variable *v)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "variable '%s': no memory", v->name);
}

/* To memory that is freed: no device writes there later. */
static copse_status read(const struct given *g, size_t i, unsigned char *to)
{
    copse_value *host;
    COPSE_TRY(copse__value_at(g->v->strategy, g->at[i], COPSE_HOST, &host));
    const copse_status s = copse__array_read(host, to);
    copse_value_release(&host);
    return s;
}

/* The first replica of all to all workers; each says whether its own ones have the same. */
static copse_status spread_first(const struct given *g, copse_status mine)
{
    copse_strategy *st = g->v->strategy;
    char what[sizeof ((struct copse_header *)0)->what];
    const uint64_t hash = copse__hash(COPSE_HASH_START, g->v->name, strlen(g->v->name));
    snprintf(what, sizeof what, "the first of all, %08x, for '%.24s'", (unsigned)hash, g->v->name);
    return copse__group_broadcast(&st->group, what, g->first, g->bytes, mine);
}

static copse_status compare(const struct given *g, bool *is_same)
{
    *is_same = true;
    for (size_t i = 0; i < g->count && *is_same; i++) {
        COPSE_TRY(read(g, i, g->other));
        *is_same = memcmp(g->first, g->other, g->bytes) == 0;
    }
    return COPSE_OK;
}

/* COPSE_ERR_ARGUMENT unless all replicas of all workers have the same. */
static copse_status demand_same(const struct given *g)
{
    copse_strategy *st = g->v->strategy;
    struct answer {
        uint32_t differs, failed;
    } answer = { 0, 0 }, all[COPSE_MAX_WORKERS];
    char text[COPSE_ERROR_BYTES];
    bool is_same;
    const copse_status mine = compare(g, &is_same);
    memcpy(text, copse_last_error(), sizeof text);
    answer = (struct answer){ !is_same, (uint32_t)mine };
    COPSE_TRY(copse__group_allgather(&st->group, g->v->name, &answer, all, sizeof answer));
    if (mine)
        copse__fail_again(text);
    for (uint32_t w = 0; w < st->group.workers; w++) {
        if (mine || all[w].failed)
            return mine ? mine
                        : copse_fail(COPSE_ERR_COMM, "variable '%s': worker %u failed: %s", g->v->name,
                                     w, copse_status_text(copse__status_of(all[w].failed)));
        if (all[w].differs)
            return copse_fail(COPSE_ERR_ARGUMENT, "variable '%s': i32 values that differ have no i32 "
                                                  "mean", g->v->name);
    }
    return COPSE_OK;
}

static copse_status take_first(const struct given *g, copse_status mine, copse_value **out)
{
    const bool must_be_same = g->v->aggregation == COPSE_AGGREGATION_MEAN;
    if (!mine)
        mine = read(g, 0, g->first);
    COPSE_TRY(spread_first(g, mine));
    if (must_be_same)
        COPSE_TRY(demand_same(g));
    if (g->v->strategy->group.workers == 1) {
        *out = copse_value_retain(g->at[0]);
        return COPSE_OK;
    }
    return copse_value_create_on(g->v->strategy, COPSE_HOST, g->v->tensor.type, g->v->tensor.shape,
                                 g->first, out);
}

static copse_status aggregate_first(copse_variable *v, copse_value *value, copse_status mine,
                                    copse_value **out)
{
    struct copse_mem *mem = &v->strategy->ctx->base.mem;
    struct given g = { .v = v, .bytes = (size_t)v->count * 4 };
    if (value) {
        g.at = value->items;
        g.count = value->count;
    }
    g.first = copse__alloc(mem, 2, g.bytes);
    g.other = g.first ? g.first + g.bytes : NULL;
    if (!mine && !g.first)
        mine = no_memory(v);
    const copse_status s = take_first(&g, mine, out);
    copse__free(mem, g.first);
    return s;
}

/* ---- slices of the first replica ---- */

/* In two turns: how many there are, which the others need for room, then [count] rows and their values. */
static copse_status spread_slices(copse_variable *v, const copse_value *given, uint32_t *count,
                                  unsigned char **block, copse_status mine)
{
    copse_strategy *st = v->strategy;
    const size_t row = (size_t)v->count / v->tensor.shape.dims[0];
    char what[sizeof ((struct copse_header *)0)->what];
    size_t bytes = 0;
    const uint64_t hash = copse__hash(COPSE_HASH_START, v->name, strlen(v->name));
    snprintf(what, sizeof what, "the first slices, %08x, for '%.24s'", (unsigned)hash, v->name);
    *count = mine ? 0 : (uint32_t)copse_value_count(given);
    COPSE_TRY(copse__group_broadcast(&st->group, what, count, sizeof *count, mine));
    if (copse__mul(*count, 4 * (1 + row), &bytes))
        *block = copse__alloc(&st->ctx->base.mem, COPSE_MAX(bytes, 1), 1);
    mine = *block ? COPSE_OK : no_memory(v);
    if (!mine && st->group.worker == 0)
        mine = copse_value_read_sparse(given, (int32_t *)(void *)*block,
                                       (float *)(void *)(*block + (size_t)4 * *count));
    return copse__group_broadcast(&st->group, what, *block, bytes, mine);
}

static copse_status aggregate_first_slices(copse_variable *v, const copse_value *given, copse_status mine,
                                           copse_value **out)
{
    unsigned char *block = NULL;
    uint32_t count;
    copse_status s = spread_slices(v, given, &count, &block, mine);
    if (!s)
        s = copse__value_sparse(v->strategy->ctx, v->strategy, COPSE_HOST,
                                &(struct copse_sparse_params){
                                    .dense_shape = v->tensor.shape,
                                    .count = count,
                                    .indices = (const int32_t *)(const void *)block,
                                    .values = (const float *)(const void *)(block + (size_t)4 * count) },
                                out);
    if (s != COPSE_ERR_TIMEOUT) /* else a device may still write there */
        copse__free(&v->strategy->ctx->base.mem, block);
    return s;
}

copse_status copse__variable_aggregate(copse_variable *v, copse_value *value, copse_status mine,
                                       copse_value **out)
{
    copse_strategy *st = v->strategy;
    const bool is_mean = v->aggregation == COPSE_AGGREGATION_MEAN;
    *out = NULL;
    if (v->aggregation == COPSE_AGGREGATION_NONE) /* the same on all workers */
        return copse_fail(COPSE_ERR_ARGUMENT, "variable '%s': has no aggregation, and its replicas may "
                                              "differ; make it with one", v->name);
    if (v->aggregation == COPSE_AGGREGATION_ONLY_FIRST_REPLICA && st->group.workers == 1) {
        *out = mine ? NULL : copse_value_retain(value->items[0]);
        return mine;
    }
    if (v->aggregation == COPSE_AGGREGATION_ONLY_FIRST_REPLICA && value &&
        value->items[0]->kind == COPSE_VALUE_SPARSE)
        return aggregate_first_slices(v, value->items[0], mine, out);
    if (v->aggregation == COPSE_AGGREGATION_ONLY_FIRST_REPLICA ||
        (is_mean && v->tensor.type == COPSE_I32))
        return aggregate_first(v, value, mine, out);
    if (mine)
        return copse__group_barrier(&st->group, v->name, 0, mine);
    const uint32_t host = COPSE_HOST;
    const struct copse_destinations to = { .ranks = &host, .count = 1 };
    return copse_note(copse__cross_reduce_for(v->name, st->cross, st,
                                              is_mean ? COPSE_REDUCE_MEAN : COPSE_REDUCE_SUM, &value, &to,
                                              1, out),
                      "while aggregating variable '%s'", v->name);
}
