/* SPDX-License-Identifier: MIT */
/* Who gets which examples: the rules of core/data/input/shard.c, with weights that are given or
   measured. */
#include <math.h>

#include "core/base/platform.h"
#include "core/train/trainer.h"

#define RUNS 3 /* timed runs of each replica, after one that is not timed */

static bool is_weighted(const copse_trainer *t)
{
    return t->params.sharding == COPSE_SHARD_WEIGHTED || t->params.sharding == COPSE_SHARD_MEASURED;
}

copse_status copse__split_init(copse_trainer *t, const struct copse_trainer_params *p)
{
    const uint32_t replicas = t->strategy->group.ranks;
    if (p->sharding == COPSE_SHARD_MEASURED && t->strategy->group.workers > 1)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "trainer: shards are measured within one process; give "
                          "those of all workers' replicas instead");
    COPSE_TRY(copse_need_known("trainer", "split", p->sharding, COPSE_SHARD_MEASURED));
    if (p->sharding == COPSE_SHARD_FIXED && (p->batch_size == 0 || p->batch_size % replicas))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "trainer: a fixed split needs batch_size, a multiple of the %u replicas; it "
            "is %zu",
            replicas, p->batch_size);
    if ((p->sharding == COPSE_SHARD_WEIGHTED) != (p->shard_weights != NULL))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: shard_weights belong to a weighted split, and a "
                          "weighted split needs them");
    t->params.shard_weights = NULL;
    if (p->sharding != COPSE_SHARD_WEIGHTED)
        return COPSE_OK;
    COPSE_TRY(copse__split_check(t, p->shard_weights));
    copse__split_set(t, p->shard_weights);
    return COPSE_OK;
}

/* Forward and backward of one replica alone. Nothing is exchanged or updated: only gradients
   are written, and no step has read any yet. */
static copse_status run_alone(copse_trainer *t, const struct copse_step_recording *rec,
                              const struct copse_host_batch *batch, uint64_t *ns)
{
    copse_queue *q = t->strategy->replicas[rec->replica].queue;
    const uint64_t begin = copse__now_ns();
    COPSE_TRY(
        copse__shard_write(q, &rec->base, batch, &(struct copse_shard){ 0, rec->examples }, NULL));
    for (uint32_t i = 0; i < copse__program_segments(rec->base.program); i++)
        COPSE_TRY(copse__program_replay(rec->base.program, i));
    COPSE_TRY(copse_queue_finish(q));
    *ns = COPSE_MAX(copse__now_ns() - begin, 1);
    return COPSE_OK;
}

static copse_status measure_replica(copse_trainer *t, uint32_t r, size_t examples,
                                    const struct copse_host_batch *batch)
{
    struct copse_step_recording *rec;
    uint64_t best = UINT64_MAX;
    COPSE_TRY(copse__recording_get(t, r, batch, examples, COPSE_PASS_TRAIN, &rec));
    for (int i = 0; i < 1 + RUNS; i++) {
        uint64_t ns;
        COPSE_TRY(run_alone(t, rec, batch, &ns));
        if (i > 0)
            best = COPSE_MIN(best, ns);
    }
    t->split.weights[r] = 1.0 / (double)best;
    copse__log(&t->strategy->ctx->base.log, COPSE_LOG_INFO,
               "trainer: replica %u (%s) takes %.3f ms "
               "for %zu examples",
               r, t->strategy->replicas[r].dev->info.id, (double)best * 1e-6, examples);
    return COPSE_OK;
}

/* Time every replica alone with an even shard. Weights are rounded to f32, the type in which they
   are reported. */
static copse_status measure(copse_trainer *t, const struct copse_host_batch *batch)
{
    const uint32_t replicas = t->strategy->replica_count;
    const size_t examples = COPSE_MAX(batch->count / replicas, 1);
    double largest = 0.0;
    for (uint32_t r = 0; r < replicas; r++)
        COPSE_TRY(
            copse_note(measure_replica(t, r, examples, batch), "while measuring replica %u", r));
    for (uint32_t r = 0; r < replicas; r++)
        largest = COPSE_MAX(largest, t->split.weights[r]);
    for (uint32_t r = 0; r < replicas; r++)
        t->split.weights[r] = (double)(float)(t->split.weights[r] / largest);
    t->split.is_known = true;
    return COPSE_OK;
}

copse_status copse__split(copse_trainer *t, const struct copse_host_batch *batch, bool may_measure,
                          struct copse_shard *out)
{
    const uint32_t replicas = t->strategy->group.ranks;
    if (is_weighted(t) && !t->split.is_known && may_measure)
        COPSE_TRY(measure(t, batch));
    if (is_weighted(t) && t->split.is_known)
        return copse__shard_weighted(batch->count, t->split.weights, replicas, out);
    const copse_shard_rule rule = is_weighted(t) ? COPSE_SHARD_BALANCED : t->params.sharding;
    return copse__shard(rule, batch->count,
                        rule == COPSE_SHARD_FIXED ? t->params.batch_size : batch->count, replicas,
                        out);
}

copse_status copse_trainer_shard_weights(const copse_trainer *t, float *weights, bool *is_known)
{
    COPSE_TRY(copse_need("trainer", t, weights, is_known));
    *is_known = !is_weighted(t) || t->split.is_known;
    for (uint32_t r = 0; r < t->strategy->group.ranks; r++)
        weights[r] = t->split.is_known ? (float)t->split.weights[r] : 1.0f;
    return COPSE_OK;
}

copse_status copse__split_check(const copse_trainer *t, const float *list)
{
    double weights[COPSE_MAX_REPLICAS] = { 0 };
    struct copse_shard unused[COPSE_MAX_REPLICAS];
    for (uint32_t r = 0; r < t->strategy->group.ranks; r++)
        weights[r] = list[r];
    return copse__shard_weighted(1, weights, t->strategy->group.ranks, unused);
}

void copse__split_set(copse_trainer *t, const float *weights)
{
    for (uint32_t r = 0; r < t->strategy->group.ranks; r++)
        t->split.weights[r] = weights[r];
    t->split.is_known = true;
}

copse_status copse_trainer_set_shard_weights(copse_trainer *t, const float *weights)
{
    COPSE_TRY(copse__require_no_replica("copse_trainer_set_shard_weights", t));
    COPSE_TRY(copse_need("trainer", t, weights));
    if (!is_weighted(t))
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: its split is not weighted");
    COPSE_TRY(copse__split_check(t, weights));
    copse__split_set(t, weights);
    return COPSE_OK;
}
