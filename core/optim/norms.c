/* SPDX-License-Identifier: MIT */
/* Norms of summed gradients. An owner measures blocks of COPSE_UNIT elements. A variable begins
   with a block, and slices end where blocks do. So the blocks of a variable are the same for any
   number of replicas, workers and buckets, and the exact sum of their squares has the same bits. */
#include <math.h>

#include "core/optim/optimizer.h"

_Static_assert(COPSE_RULE_BLOCK == COPSE_UNIT, "slices consist of blocks");

static struct copse_mem *mem_of(const struct copse_optimizer *o)
{
    return &o->strategy->ctx->base.mem;
}

static bool is_kept(const struct copse_optimizer *o, uint32_t bucket)
{
    return o->buckets.at[bucket].is_kept;
}

/* Of measure `k`. */
static struct copse_squares *sum_of(const struct copse_optimizer *o, uint32_t variable, uint32_t k)
{
    const uint32_t each = o->norms.each;
    return &o->norms.sums.at[each > 1                          ? each * variable + k
                             : o->rule.params.clip_norm > 0.0f ? variable
                                                               : 0];
}

/* The words of measure `k` of a range in host memory. */
static float *words_of(const struct copse_norms *n, const struct copse_norm_range *r, uint32_t k)
{
    return n->host + COPSE_MEASURE_WORDS * (n->each * r->at + k * r->blocks);
}

/* ---- which parts there are ---- */

static copse_status add_parts(struct copse_optimizer *o, const struct copse_slice_memory *list,
                              uint32_t range)
{
    struct copse_norms *n = &o->norms;
    const copse_strategy *st = o->strategy;
    for (uint32_t i = 0; i < st->variables.count; i++) {
        const copse_variable *v = st->variables.at[i];
        if (copse__optimizer_bucket(o, v) != n->ranges.at[range].bucket)
            continue;
        const uint64_t first = COPSE_MAX(list->first, v->first);
        const uint64_t end = COPSE_MIN(list->first + list->count, v->first + v->count);
        if (first >= end)
            continue;
        const struct copse_norm_part part = {
            .range = range,
            .variable = i,
            .first = n->ranges.at[range].at + (size_t)((first - list->first) / COPSE_UNIT),
            .count = (size_t)((end - first + COPSE_UNIT - 1) / COPSE_UNIT),
        };
        if (!COPSE_PUSH(mem_of(o), &n->parts, part))
            return copse_no_memory("optimizer: norms");
    }
    return COPSE_OK;
}

static size_t all_blocks(const struct copse_norms *n)
{
    return n->ranges.count == 0
               ? 0
               : n->ranges.at[n->ranges.count - 1].at + n->ranges.at[n->ranges.count - 1].blocks;
}

static copse_status add_bucket(struct copse_optimizer *o, uint32_t bucket)
{
    struct copse_norms *n = &o->norms;
    const struct copse_slice_memory *list;
    size_t count;
    if (o->buckets.at[bucket].rows) /* it keeps its own measures */
        return COPSE_OK;
    copse__exchange_measures(o->strategy->store->exchange, o->buckets.at[bucket].id, &list, &count);
    for (size_t i = 0; i < count; i++) {
        const struct copse_norm_range range = {
            .bucket = bucket,
            .queue = o->strategy->replicas[list[i].rank].queue,
            .buffer = list[i].buffer,
            .at = all_blocks(n),
            .blocks = (size_t)((list[i].count + COPSE_UNIT - 1) / COPSE_UNIT),
        };
        if (!COPSE_PUSH(mem_of(o), &n->ranges, range))
            return copse_no_memory("optimizer: norms");
        COPSE_TRY(add_parts(o, &list[i], (uint32_t)n->ranges.count - 1));
    }
    return COPSE_OK;
}

copse_status copse__norms_room(struct copse_optimizer *o)
{
    struct copse_norms *n = &o->norms;
    n->each = COPSE_MAX(n->each, 1u);
    const size_t count =
        n->each > 1 || o->rule.params.clip_norm > 0.0f ? n->each * o->of_variable.count : 1;
    const uint32_t workers = o->strategy->group.workers;
    if (!COPSE_RESERVE(mem_of(o), &n->sums, count) ||
        !COPSE_RESERVE(mem_of(o), &n->all, count * workers))
        return copse_no_memory("optimizer: norms");
    n->sums.count = count;
    n->all.count = count * workers;
    return COPSE_OK;
}

copse_status copse__norms_plan(struct copse_optimizer *o, size_t first)
{
    struct copse_norms *n = &o->norms;
    n->each = o->rule.trusts ? 2 : 1;
    for (size_t b = first; b < o->buckets.count; b++)
        COPSE_TRY(add_bucket(o, (uint32_t)b));
    float *host =
        copse__alloc(mem_of(o), all_blocks(n) + 1, n->each * COPSE_MEASURE_WORDS * sizeof *host);
    if (!host)
        return copse_no_memory("optimizer: norms");
    if (!n->is_stuck)
        copse__free(mem_of(o), n->host);
    n->host = host;
    return copse__norms_room(o);
}

void copse__norms_drop(struct copse_optimizer *o, size_t first)
{
    struct copse_norms *n = &o->norms;
    while (n->ranges.count > 0 && n->ranges.at[n->ranges.count - 1].bucket >= first)
        n->ranges.count--;
    while (n->parts.count > 0 && n->parts.at[n->parts.count - 1].range >= n->ranges.count)
        n->parts.count--;
}

void copse__norms_free(struct copse_optimizer *o)
{
    struct copse_norms *n = &o->norms;
    copse__free(mem_of(o), n->ranges.at);
    copse__free(mem_of(o), n->parts.at);
    copse__free(mem_of(o), n->sums.at);
    copse__free(mem_of(o), n->all.at);
    if (!n->is_stuck)
        copse__free(mem_of(o), n->host);
}

/* ---- sums ---- */

void copse__norms_clear(struct copse_optimizer *o)
{
    memset(o->norms.sums.at, 0, o->norms.sums.count * sizeof *o->norms.sums.at);
}

void copse__norms_add(struct copse_optimizer *o, uint32_t variable, const float *gradient,
                      uint64_t count)
{
    enum { BLOCKS = 64 };
    float parts[BLOCKS * COPSE_MEASURE_WORDS];
    for (uint64_t at = 0; at < count; at += BLOCKS * COPSE_UNIT) {
        const uint64_t some = COPSE_MIN(count - at, BLOCKS * COPSE_UNIT);
        copse__rule_measure_host(gradient + at, some, parts);
        copse__squares_add(sum_of(o, variable, 0), parts,
                           (size_t)((some + COPSE_UNIT - 1) / COPSE_UNIT));
    }
}

/* Everything that is queued lands first, whatever failed. */
static copse_status read_own(struct copse_optimizer *o)
{
    struct copse_norms *n = &o->norms;
    const copse_strategy *st = o->strategy;
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < n->ranges.count && !s; i++) {
        const struct copse_norm_range *r = &n->ranges.at[i];
        for (uint32_t k = 0; k < n->each && is_kept(o, r->bucket) && !s; k++)
            s = copse_queue_read(r->queue, r->buffer, k * copse__measure_at(r->blocks * COPSE_UNIT),
                                 words_of(n, r, k), r->blocks * COPSE_MEASURE_BYTES);
    }
    for (size_t b = 0; b < o->buckets.count && !s; b++)
        if (o->buckets.at[b].rows && is_kept(o, (uint32_t)b))
            s = copse__row_exchange_read_measures(o->buckets.at[b].rows);
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const copse_status done = copse_queue_finish(st->replicas[r].queue);
        n->is_stuck |= done == COPSE_ERR_TIMEOUT;
        if (!s)
            s = copse_note(done, "while waiting for the sums of gradients of replica %u", r);
    }
    return s;
}

/* All workers add what each has. */
static copse_status norms_join(struct copse_optimizer *o)
{
    struct copse_norms *n = &o->norms;
    struct copse_group *g = &o->strategy->group;
    const size_t count = n->sums.count;
    if (g->workers == 1)
        return COPSE_OK;
    for (size_t i = 0; i < count; i++)
        copse__squares_carry(&n->sums.at[i]);
    COPSE_TRY(copse__group_allgather(g, "norms of gradients", n->sums.at, n->all.at,
                                     count * sizeof *n->sums.at));
    copse__norms_clear(o);
    for (size_t i = 0; i < n->all.count; i++)
        copse__squares_join(&n->sums.at[i % count], &n->all.at[i]);
    return COPSE_OK;
}

copse_status copse__norms_read(struct copse_optimizer *o)
{
    struct copse_norms *n = &o->norms;
    const copse_status s = read_own(o);
    if (s && o->strategy->group.workers > 1)
        copse__group_abort(&o->strategy->group);
    COPSE_TRY(s);
    copse__norms_clear(o);
    for (size_t i = 0; i < n->parts.count; i++) {
        const struct copse_norm_part *p = &n->parts.at[i];
        const struct copse_norm_range *r = &n->ranges.at[p->range];
        for (uint32_t k = 0; k < n->each && is_kept(o, r->bucket); k++)
            copse__squares_add(sum_of(o, p->variable, k),
                               words_of(n, r, k) + COPSE_MEASURE_WORDS * (p->first - r->at),
                               p->count);
    }
    for (size_t b = 0; b < o->buckets.count; b++) {
        size_t count = 0;
        const bool has = o->buckets.at[b].rows && is_kept(o, (uint32_t)b);
        const float *parts =
            has ? copse__row_exchange_measures(o->buckets.at[b].rows, &count) : NULL;
        if (count > 0)
            copse__squares_add(sum_of(o, o->buckets.at[b].variable, 0), parts, count);
    }
    return norms_join(o);
}

/* ---- what follows ---- */

bool copse__norms_are_finite(const struct copse_optimizer *o)
{
    bool is_finite = true;
    for (size_t i = 0; i < o->norms.sums.count; i++)
        is_finite &= isfinite(copse__squares_root(&o->norms.sums.at[i])) != 0;
    return is_finite;
}

float copse__norms_scale(const struct copse_optimizer *o, float scale)
{
    const double most = (double)o->rule.params.clip_global_norm;
    if (!(most > 0.0))
        return scale;
    const double norm = fabs((double)scale) * copse__squares_root(sum_of(o, 0, 0));
    return !isfinite(norm) ? NAN : norm > most ? (float)((double)scale * (most / norm)) : scale;
}

float copse__norms_factor(const struct copse_optimizer *o, uint32_t variable, float scale)
{
    const double most = (double)o->rule.params.clip_norm,
                 first = copse__squares_root(sum_of(o, variable, 0));
    const double norm = fabs((double)scale) * first;
    if (o->norms.each > 1) {
        const struct copse_rule *rule =
            &o->of_group[copse__optimizer_group(o, o->strategy->variables.at[variable])];
        return copse__rule_trust(rule, first, copse__squares_root(sum_of(o, variable, 1)), scale);
    }
    return isnan(norm) ? NAN : norm > most ? (float)(most / norm) : 1.0f;
}

copse_status copse__norms_write(struct copse_optimizer *o, float scale)
{
    struct copse_norms *n = &o->norms;
    for (size_t i = 0; i < n->parts.count; i++) {
        const struct copse_norm_part *p = &n->parts.at[i];
        const struct copse_norm_range *r = &n->ranges.at[p->range];
        const float factor =
            is_kept(o, r->bucket) ? copse__norms_factor(o, p->variable, scale) : 1.0f;
        float *to = words_of(n, r, 0) + (p->first - r->at);
        for (size_t k = 0; k < p->count; k++)
            to[k] = factor;
    }
    for (size_t b = 0; b < o->buckets.count; b++)
        if (o->buckets.at[b].rows && is_kept(o, (uint32_t)b))
            COPSE_TRY(copse__row_exchange_write_factor(
                o->buckets.at[b].rows, copse__norms_factor(o, o->buckets.at[b].variable, scale)));
    for (size_t i = 0; i < n->ranges.count; i++) {
        const struct copse_norm_range *r = &n->ranges.at[i];
        if (is_kept(o, r->bucket))
            COPSE_TRY(copse_queue_write(r->queue, r->buffer, 0, words_of(n, r, 0),
                                        r->blocks * sizeof *n->host));
    }
    return COPSE_OK;
}
