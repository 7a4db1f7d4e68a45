/* SPDX-License-Identifier: MIT */
/* Who gets which examples: the rules of core/data/input/shard.c, with weights that are given or
   measured. */
#include <math.h>

#include "core/base/platform.h"
#include "core/train/batch/shards.h"
#include "core/train/recording/shard_inputs.h"

#define RUNS 3 /* timed runs of each replica, after one that is not timed */

bool copse__split_is_weighted(const struct copse_split *split)
{
    return split->rule == COPSE_SHARD_WEIGHTED || split->rule == COPSE_SHARD_MEASURED;
}

copse_status copse__split_init(struct copse_split *split, copse_strategy *st,
                               const struct copse_trainer_params *p)
{
    const uint32_t replicas = st->group.ranks;
    *split =
        (struct copse_split){ .strategy = st, .rule = p->sharding, .batch_size = p->batch_size };
    if (p->sharding == COPSE_SHARD_MEASURED && st->group.workers > 1)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "trainer: shards are measured within one process; give "
                          "those of all workers' replicas instead");
    COPSE_TRY(copse_need_known("trainer", "split", p->sharding, COPSE_SHARD_MEASURED));
    if (st->params.portable_shards > 0 && copse__split_is_weighted(split))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: portable bits need equal shards: weights and measured times "
                          "depend on the devices; leave `sharding` out");
    if (p->sharding == COPSE_SHARD_FIXED && (p->batch_size == 0 || p->batch_size % replicas))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "trainer: a fixed split needs batch_size, a multiple of the %u replicas; it "
            "is %zu",
            replicas, p->batch_size);
    if ((p->sharding == COPSE_SHARD_WEIGHTED) != (p->shard_weights != NULL))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: shard_weights belong to a weighted split, and "
                          "a weighted split needs them");
    if (p->sharding != COPSE_SHARD_WEIGHTED)
        return COPSE_OK;
    COPSE_TRY(copse__split_check(split, p->shard_weights));
    copse__split_set(split, p->shard_weights);
    return COPSE_OK;
}

/* Forward and backward of one replica alone. Nothing is exchanged or updated: only gradients
   are written, and no step has read any yet. */
static copse_status run_alone(copse_queue *q, const struct copse_step_recording *rec,
                              const struct copse_host_batch *batch, uint64_t *ns)
{
    const uint64_t begin = copse__now_ns();
    COPSE_TRY(
        copse__shard_write(q, &rec->base, batch, &(struct copse_shard){ 0, rec->examples }, NULL));
    for (uint32_t i = 0; i < copse__program_segments(rec->base.program); i++)
        COPSE_TRY(copse__program_replay(rec->base.program, i));
    COPSE_TRY(copse_queue_finish(q));
    *ns = COPSE_MAX(copse__now_ns() - begin, 1);
    return COPSE_OK;
}

static copse_status measure_replica(struct copse_split *split, struct copse_step_recordings *all,
                                    uint32_t r, size_t examples,
                                    const struct copse_host_batch *batch)
{
    const struct copse_replica *rep = &split->strategy->replicas[r];
    struct copse_step_recording *rec;
    uint64_t best = UINT64_MAX;
    COPSE_TRY(copse__recording_get(all, r, batch, examples, COPSE_PASS_TRAIN, &rec));
    for (int i = 0; i < 1 + RUNS; i++) {
        uint64_t ns;
        COPSE_TRY(run_alone(rep->queue, rec, batch, &ns));
        if (i > 0)
            best = COPSE_MIN(best, ns);
    }
    split->weights[r] = 1.0 / (double)best;
    copse__log(&split->strategy->ctx->base.log, COPSE_LOG_INFO,
               "trainer: replica %u (%s) takes %.3f ms "
               "for %zu examples",
               r, rep->dev->info.id, (double)best * 1e-6, examples);
    return COPSE_OK;
}

/* Time every replica alone with an even shard. Weights are rounded to f32, the type in which they
   are reported. */
static copse_status batch_split_measure(struct copse_split *split,
                                        struct copse_step_recordings *all,
                                        const struct copse_host_batch *batch)
{
    const uint32_t replicas = split->strategy->replica_count;
    const size_t examples = COPSE_MAX(batch->count / replicas, 1);
    double largest = 0.0;
    for (uint32_t r = 0; r < replicas; r++)
        COPSE_TRY(copse_note(measure_replica(split, all, r, examples, batch),
                             "while measuring replica %u", r));
    for (uint32_t r = 0; r < replicas; r++)
        largest = COPSE_MAX(largest, split->weights[r]);
    for (uint32_t r = 0; r < replicas; r++)
        split->weights[r] = (double)(float)(split->weights[r] / largest);
    split->is_known = true;
    return COPSE_OK;
}

/* Replicas with a weight above 0 that is too small for an example of the first batch. */
static void tell_idle(struct copse_split *split, size_t rows, const struct copse_shard *shards)
{
    const copse_strategy *st = split->strategy;
    double sum = 0.0;
    for (uint32_t r = 0; r < st->group.ranks; r++)
        sum += split->weights[r];
    for (uint32_t i = 0; i < st->replica_count; i++) {
        const uint32_t r = st->group.first + i;
        if (shards[r].count == 0 && split->weights[r] > 0.0)
            copse__log(&st->ctx->base.log, COPSE_LOG_WARN,
                       "trainer: replica %u (%s) has the share %g of %g, and gets no example of a "
                       "batch of %zu; a larger batch or a larger share gives it some",
                       r, st->replicas[i].dev->info.id, split->weights[r], sum, rows);
    }
    split->is_told = true;
}

copse_status copse__split(struct copse_split *split, struct copse_step_recordings *all,
                          const struct copse_host_batch *batch, struct copse_shard *out)
{
    const uint32_t replicas = split->strategy->group.ranks;
    const bool is_weighted = copse__split_is_weighted(split);
    if (is_weighted && !split->is_known && all)
        COPSE_TRY(batch_split_measure(split, all, batch));
    if (is_weighted && split->is_known) {
        COPSE_TRY(copse__shard_weighted(batch->count, split->weights, replicas, out));
        if (all && !split->is_told)
            tell_idle(split, batch->count, out);
        return COPSE_OK;
    }
    const copse_shard_rule rule = is_weighted ? COPSE_SHARD_BALANCED : split->rule;
    return copse__shard(rule, batch->count,
                        rule == COPSE_SHARD_FIXED ? split->batch_size : batch->count, replicas,
                        out);
}

copse_status copse__split_check(const struct copse_split *split, const float *list)
{
    double weights[COPSE_MAX_REPLICAS] = { 0 };
    struct copse_shard unused[COPSE_MAX_REPLICAS];
    for (uint32_t r = 0; r < split->strategy->group.ranks; r++)
        weights[r] = list[r];
    return copse__shard_weighted(1, weights, split->strategy->group.ranks, unused);
}

void copse__split_set(struct copse_split *split, const float *weights)
{
    for (uint32_t r = 0; r < split->strategy->group.ranks; r++)
        split->weights[r] = weights[r];
    split->is_known = true;
    split->is_told = false;
}
