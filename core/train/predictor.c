/* SPDX-License-Identifier: MIT */
/* Predictions: see predictor.h. */
#include "core/train/predictor.h"

#include "core/graph/type.h"
#include "core/train/recording/loss_recording.h"
#include "core/train/recording/shard_inputs.h"

/* The recording of one replica for one shard. */
struct copse_prediction {
    struct copse_recording base;
    uint64_t used; /* newest call that has asked for it */
    copse_buffer *result;
    size_t bytes; /* of the result */
};

static struct copse_prediction *of_base(const struct copse_recording *base)
{
    return (struct copse_prediction *)(uintptr_t)base;
}

static struct copse_predictor *predictor_of(const struct copse_recording *base)
{
    return (struct copse_predictor *)(base->list - base->list->replica);
}

static copse_queue *queue_of(const struct copse_recording *base)
{
    return base->list->strategy->replicas[base->list->replica].queue;
}

/* ---- one recording ---- */

static copse_status predictor_call(struct copse_recording *base, copse_batch *in)
{
    const struct copse_predictor *p = predictor_of(base);
    base->graph->takes_updates = COPSE_UPDATES_IGNORED;
    COPSE_TRY(copse__loss_call(base, in, false, "the function of a prediction", p->fn, p->user));
    return base->result ? COPSE_OK
                        : copse_fail(COPSE_ERR_ARGUMENT, "predict: the function set no result");
}

static copse_status predictor_extend(struct copse_recording *base)
{
    struct copse_prediction *p = of_base(base);
    const copse_tensor *y = base->result;
    const uint32_t examples = base->inputs[0].is.shape.dims[0];
    if (y->type != COPSE_F32 && y->type != COPSE_I32)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "predict: the result is %s; convert it to f32 or i32 (copse_cast)",
                          copse_type_name(y->type));
    if (y->shape.rank == 0 || y->shape.dims[0] != examples)
        return copse_fail(
            COPSE_ERR_SHAPE,
            "predict: the result is %s for %u examples; its first axis must count them",
            COPSE_SHAPE_TEXT(y->shape), examples);
    p->bytes = (size_t)copse__elements(y->shape) * copse__type_bytes(y->type);
    const size_t room = copse__round_up(COPSE_MAX(p->bytes, 4), 16);
    COPSE_TRY(copse_buffer_create(queue_of(base)->dev,
                                  &(struct copse_buffer_params){ .size = room }, &p->result));
    return copse__recording_place(base, base->result, (struct copse_binding){ p->result, 0, room },
                                  0);
}

static void predictor_target(struct copse_recording *base, struct copse_program_params *params)
{
    copse__loss_target(base, params);
    params->bucket_count = 1;
    params->step.buffer = predictor_of(base)->step[base->list->replica];
}

static bool is_needed(const struct copse_recording *base)
{
    return of_base(base)->used == predictor_of(base)->use;
}

static void predictor_release(struct copse_recording *base)
{
    copse_buffer_release(&of_base(base)->result);
}

static const struct copse_recording_table table = {
    .name = "predict",
    .size = sizeof(struct copse_prediction),
    .call = predictor_call,
    .extend = predictor_extend,
    .target = predictor_target,
    .is_needed = is_needed,
    .release = predictor_release,
};

/* ---- one call ---- */

/* Recordings of all shards that are not empty; rows have one size. */
static copse_status predictor_record(struct copse_predictor *p,
                                     const struct copse_host_batch *batch,
                                     const struct copse_shard *shards, size_t bytes,
                                     struct copse_prediction **out)
{
    const uint64_t words[] = { (uint64_t)(uintptr_t)p->fn, (uint64_t)(uintptr_t)p->user };
    struct copse_recording_key key;
    struct copse_recording *r;
    size_t row = 0;
    for (uint32_t i = 0; i < p->strategy->replica_count; i++) {
        out[i] = NULL;
        if (shards[i].count == 0)
            continue;
        key.words = words;
        key.word_count = COPSE_COUNT(words);
        COPSE_TRY(copse__recording_inputs(table.name, batch, shards[i].count, &key));
        COPSE_TRY(copse_note(copse__recordings_get(&p->of[i], &key, &r),
                             "while recording %zu example%s for replica %u", shards[i].count,
                             copse__plural(shards[i].count), i));
        out[i] = of_base(r);
        out[i]->used = p->use;
        const size_t mine = out[i]->bytes / shards[i].count;
        if (row > 0 && mine != row)
            return copse_fail(COPSE_ERR_SHAPE,
                              "predict: a row of the result has %zu bytes on replica %u and %zu on "
                              "another",
                              mine, i, row);
        row = mine;
        COPSE_TRY(copse__shard_check(&out[i]->base, batch, &shards[i]));
    }
    return row * batch->count == bytes
               ? COPSE_OK
               : copse_fail(
                     COPSE_ERR_SHAPE,
                     "predict: the result has %zu rows of %zu bytes, together %zu; the memory for "
                     "it has %zu bytes",
                     batch->count, row, row * batch->count, bytes);
}

/* Queue a replica's shard: its inputs, the program, the read of its rows. */
static copse_status queue_shard(const struct copse_prediction *r,
                                const struct copse_host_batch *batch,
                                const struct copse_shard *shard, char *values)
{
    copse_queue *q = queue_of(&r->base);
    COPSE_TRY(copse__shard_write(q, &r->base, batch, shard, NULL));
    COPSE_TRY(copse__program_replay(r->base.program, 0));
    COPSE_TRY(copse_queue_read(q, r->result, 0, values + shard->first * (r->bytes / shard->count),
                               r->bytes));
    return copse_queue_submit(q, NULL);
}

/* Wait for all replicas, after a failure too: they write to the caller's memory. Returns the first
   failure. */
static copse_status predictor_finish(const copse_strategy *st, struct copse_prediction *const *list,
                                     copse_status s)
{
    for (uint32_t r = 0; r < st->replica_count; r++)
        if (list[r])
            s = copse__queue_settle(st->replicas[r].queue,
                                    s ? s : copse_queue_finish(st->replicas[r].queue));
    return s;
}

copse_status copse__predict(struct copse_predictor *p, const struct copse_host_batch *batch,
                            const struct copse_shard *shards, void *values, size_t bytes)
{
    struct copse_prediction *list[COPSE_MAX_REPLICAS];
    copse_status s = COPSE_OK;
    COPSE_TRY(copse__strategy_settle(p->strategy));
    p->use++;
    COPSE_TRY(predictor_record(p, batch, shards, bytes, list));
    for (uint32_t r = 0; r < p->strategy->replica_count && s == COPSE_OK; r++)
        if (list[r])
            s = queue_shard(list[r], batch, &shards[r], values);
    return predictor_finish(p->strategy, list, s);
}

/* ---- life ---- */

copse_status copse__predictor_init(struct copse_predictor *p, copse_strategy *st, void *object,
                                   uint32_t limit)
{
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    copse_status s = COPSE_OK;
    /* 1.0f */
    words[COPSE_STEP_SHARE] = words[COPSE_STEP_SCALE] = words[COPSE_STEP_PART] = 0x3f800000u;
    p->strategy = st;
    copse__loss_recordings_init(p->of, &table, object, st, limit);
    for (uint32_t r = 0; r < st->replica_count && !s; r++) {
        copse_queue *q = st->replicas[r].queue;
        s = copse_buffer_create(q->dev, &(struct copse_buffer_params){ .size = sizeof words },
                                &p->step[r]);
        if (!s)
            s = copse_queue_write(q, p->step[r], 0, words, sizeof words);
    }
    if (s)
        copse__predictor_fini(p);
    return s;
}

void copse__predictor_fini(struct copse_predictor *p)
{
    copse__loss_recordings_fini(p->of);
    for (uint32_t r = 0; r < COPSE_MAX_REPLICAS; r++)
        copse_buffer_release(&p->step[r]);
    *p = (struct copse_predictor){ 0 };
}
