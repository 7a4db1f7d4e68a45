/* SPDX-License-Identifier: MIT */
/* Predictions: see predictor.h. */
#include "core/train/predictor.h"

#include <stdio.h>

#include "core/graph/type.h"
#include "core/replica/context.h"
#include "core/train/trainer.h"

/* The recording of one replica for one share. */
struct copse_prediction {
    struct copse_recording base;
    struct copse_predictor *predictor;
    uint32_t replica;
    uint64_t used;        /* newest call that has asked for it */
    copse_buffer *result;
    size_t bytes;         /* of the result */
};

static struct copse_prediction *of_base(const struct copse_recording *base)
{
    return (struct copse_prediction *)(uintptr_t)base;
}

/* ---- one recording ---- */

static void begin(struct copse_recording *base)
{
    struct copse_prediction *p = of_base(base);
    p->predictor = base->list->user;
    p->replica = base->list->replica;
}

static copse_status call(struct copse_recording *base, copse_batch *in)
{
    const struct copse_prediction *p = of_base(base);
    copse_strategy *st = p->predictor->strategy;
    struct copse_callback here = { .name = "the function of a prediction", .is_passive = true,
                                   .used = { p->predictor->object, base->graph } };
    struct copse_frame frame;
    base->graph->replicas = st->group.ranks;
    base->graph->takes_updates = COPSE_UPDATES_IGNORED;
    in->replica = st->group.first + p->replica;
    in->replicas = st->group.ranks;
    copse__context_push_replica(&frame, st, p->replica);
    frame.is_graph = true;
    copse__callback_enter(&here);
    copse_status s = p->predictor->fn(base->graph, in, p->predictor->user, &base->result);
    if (s == COPSE_OK && !base->result)
        s = copse_fail(COPSE_ERR_ARGUMENT, "predict: the function set no result");
    return copse__callback_leave(&here, copse__context_pop(&frame, s));
}

static copse_status extend(struct copse_recording *base)
{
    struct copse_prediction *p = of_base(base);
    const copse_tensor *y = base->result;
    const uint32_t examples = base->inputs[0].is.shape.dims[0];
    char text[96];
    if (y->type != COPSE_F32 && y->type != COPSE_I32)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "predict: the result is %s; convert it to f32 or i32 (copse_cast)",
                          copse__type_name(y->type));
    if (y->shape.rank == 0 || y->shape.dims[0] != examples)
        return copse_fail(COPSE_ERR_SHAPE, "predict: the result is %s for %u examples; its first axis must count them",
                          copse__shape_text(y->shape, text), examples);
    p->bytes = (size_t)copse__elements(y->shape) * copse__type_bytes(y->type);
    const size_t room = copse__round_up(COPSE_MAX(p->bytes, 4), 16);
    COPSE_TRY(copse_buffer_create(p->predictor->strategy->replicas[p->replica].queue->dev,
                                  &(struct copse_buffer_params){ .size = room }, &p->result));
    return copse__recording_place(base, base->result, (struct copse_binding){ p->result, 0, room }, 0);
}

static copse_status locate(void *user, struct copse_variable *v, struct copse_binding *out)
{
    const struct copse_prediction *p = user;
    COPSE_TRY(copse__variable_of(v, p->predictor->strategy, "predict"));
    COPSE_TRY(copse__store_build(v->strategy));
    *out = copse__variable_values(v, p->replica);
    return COPSE_OK;
}

static void target(struct copse_recording *base, struct copse_program_params *params)
{
    const struct copse_prediction *p = of_base(base);
    const copse_strategy *st = p->predictor->strategy;
    *params = (struct copse_program_params){
        .queue = st->replicas[p->replica].queue,
        .bucket_count = 1,
        .step = { p->predictor->step[p->replica], 0, 4 * COPSE_STEP_WORDS },
        .locate = locate,
        .user = base,
        .choices = st->choices.at,
        .choice_count = st->choices.count,
    };
}

static bool is_needed(const struct copse_recording *base)
{
    return of_base(base)->used == of_base(base)->predictor->use;
}

static void release(struct copse_recording *base)
{
    copse_buffer_release(&of_base(base)->result);
}

static const struct copse_recording_table table = {
    .name = "predict",
    .size = sizeof(struct copse_prediction),
    .begin = begin,
    .call = call,
    .extend = extend,
    .target = target,
    .is_needed = is_needed,
    .release = release,
};

/* ---- one call ---- */

/* Recordings of all shares that are not empty; rows have one size. */
static copse_status record(struct copse_predictor *p, const struct copse_host_batch *batch,
                           const struct copse_shard *shares, size_t bytes, struct copse_prediction **out)
{
    const uint64_t words[] = { (uint64_t)(uintptr_t)p->fn, (uint64_t)(uintptr_t)p->user };
    struct copse_recording_key key;
    struct copse_recording *r;
    size_t row = 0;
    for (uint32_t i = 0; i < p->strategy->replica_count; i++) {
        out[i] = NULL;
        if (shares[i].count == 0)
            continue;
        key.words = words;
        key.word_count = COPSE_COUNT(words);
        COPSE_TRY(copse__recording_inputs(table.name, batch, shares[i].count, &key));
        COPSE_TRY(copse_note(copse__recordings_get(&p->of[i], &key, &r), "while recording %zu examples for replica %u",
                             shares[i].count, i));
        out[i] = of_base(r);
        out[i]->used = p->use;
        const size_t mine = out[i]->bytes / shares[i].count;
        if (row > 0 && mine != row)
            return copse_fail(COPSE_ERR_SHAPE, "predict: a row of the result has %zu bytes on replica %u and %zu on "
                                               "another", mine, i, row);
        row = mine;
        COPSE_TRY(copse__share_check(&out[i]->base, batch, &shares[i]));
    }
    return row * batch->count == bytes
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE, "predict: the result has %zu rows of %zu bytes, together %zu; the memory for "
                                             "it has %zu bytes", batch->count, row, row * batch->count, bytes);
}

/* Queue a replica's share: its inputs, the program, the read of its rows. */
static copse_status queue_share(const struct copse_prediction *r, const struct copse_host_batch *batch,
                                const struct copse_shard *share, char *values)
{
    copse_queue *q = r->predictor->strategy->replicas[r->replica].queue;
    COPSE_TRY(copse__feed_write(q, &r->base, batch, share, NULL));
    COPSE_TRY(copse__program_replay(r->base.program, 0));
    COPSE_TRY(copse_queue_read(q, r->result, 0, values + share->first * (r->bytes / share->count), r->bytes));
    return copse_queue_submit(q, NULL);
}

/* Wait for all replicas, after a failure too: they write to the caller's memory. Returns the first failure. */
static copse_status finish(const copse_strategy *st, struct copse_prediction *const *list, copse_status s)
{
    char text[512];
    snprintf(text, sizeof text, "%s", s ? copse_last_error() : "");
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const copse_status here = list[r] ? copse_queue_finish(st->replicas[r].queue) : COPSE_OK;
        if (s == COPSE_OK && here != COPSE_OK)
            snprintf(text, sizeof text, "%s", copse_last_error());
        if (here == COPSE_ERR_TIMEOUT || s == COPSE_OK)
            s = here;
    }
    if (s)
        copse__fail_again(text);
    return s;
}

copse_status copse__predict(struct copse_predictor *p, const struct copse_host_batch *batch,
                            const struct copse_shard *shares, void *values, size_t bytes)
{
    struct copse_prediction *list[COPSE_MAX_REPLICAS];
    copse_status s = COPSE_OK;
    p->use++;
    COPSE_TRY(record(p, batch, shares, bytes, list));
    for (uint32_t r = 0; r < p->strategy->replica_count && s == COPSE_OK; r++)
        if (list[r])
            s = queue_share(list[r], batch, &shares[r], values);
    return finish(p->strategy, list, s);
}

/* ---- life ---- */

static copse_status init(struct copse_predictor *p, copse_strategy *st, uint32_t limit)
{
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    words[COPSE_STEP_SHARE] = words[COPSE_STEP_SCALE] = words[COPSE_STEP_PART] = 0x3f800000u; /* 1.0f */
    p->strategy = st;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        copse_queue *q = st->replicas[r].queue;
        p->of[r] = (struct copse_recordings){ .table = &table, .user = p, .ctx = st->ctx, .replica = r, .limit = limit };
        COPSE_TRY(copse_buffer_create(q->dev, &(struct copse_buffer_params){ .size = sizeof words }, &p->step[r]));
        COPSE_TRY(copse_queue_write(q, p->step[r], 0, words, sizeof words));
    }
    return COPSE_OK;
}

copse_status copse__predictor_init(struct copse_predictor *p, copse_strategy *st, uint32_t limit)
{
    const copse_status s = init(p, st, limit);
    if (s)
        copse__predictor_fini(p);
    return s;
}

void copse__predictor_fini(struct copse_predictor *p)
{
    for (uint32_t r = 0; p->strategy && r < p->strategy->replica_count; r++) {
        copse__recordings_fini(&p->of[r]);
        copse_buffer_release(&p->step[r]);
    }
    *p = (struct copse_predictor){ 0 };
}
