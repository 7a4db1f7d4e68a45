/* SPDX-License-Identifier: MIT */
/* What a trainer adds to recordings (core/graph/recording.h): the loss function is called for a replica and a share
   of a batch, its gradients are placed in the flat store, and a replica without examples records zeros. */
#include "core/graph/type.h"
#include "core/train/loss_recording.h"
#include "core/train/trainer.h"

/* The first graph gives the names of the reports. Later graphs must have the same. */
static copse_status keep_names(copse_trainer *t, const copse_graph *g)
{
    if (!t->reports.is_known) {
        for (size_t i = 0; i < g->report_count; i++) {
            t->reports.names[i] = copse__arena_strdup(&t->arena, g->reports[i].name);
            COPSE_TRY(copse_need_memory(t->reports.names[i], "trainer"));
            t->reports.is_loss[i] = g->reports[i].is_loss;
            t->reports.count++;
        }
        t->reports.is_known = true;
        return COPSE_OK;
    }
    bool is_same = t->reports.count == g->report_count;
    for (size_t i = 0; is_same && i < g->report_count; i++)
        is_same = strcmp(t->reports.names[i], g->reports[i].name) == 0;
    return is_same ? COPSE_OK
                   : copse_fail(COPSE_ERR_ARGUMENT, "trainer: the loss function must report the "
                                                    "same values on every call");
}

static copse_status place_report(struct copse_step_recording *r, size_t index, copse_tensor *t)
{
    const struct copse_binding at = { r->trainer->reports.buffers[r->replica], index * COPSE_REPORT_STRIDE,
                                      copse__type_bytes(COPSE_F32) };
    return copse__recording_place(&r->base, t, at, 0);
}

static copse_status call(struct copse_recording *base, copse_batch *in)
{
    const struct copse_step_recording *r = (const struct copse_step_recording *)base;
    const struct copse_trainer_params *p = &r->trainer->params;
    const bool is_training = r->pass != COPSE_PASS_EVALUATE;
    base->graph->takes_updates = is_training ? COPSE_UPDATES_TAKEN : COPSE_UPDATES_IGNORED;
    return copse__loss_call(base, in, is_training, "the loss function of a trainer", p->loss, p->user);
}

static copse_status extend(struct copse_recording *base)
{
    struct copse_step_recording *r = (struct copse_step_recording *)base;
    const copse_graph *g = base->graph;
    COPSE_TRY(copse__recording_check_loss(base));
    COPSE_TRY(keep_names(r->trainer, g));
    COPSE_TRY(place_report(r, 0, base->result));
    for (size_t i = 0; i < g->report_count; i++)
        COPSE_TRY(place_report(r, 1 + i, g->reports[i].tensor));
    COPSE_TRY(copse__loss_outputs_place(r));
    if (r->pass == COPSE_PASS_EVALUATE)
        return COPSE_OK;
    COPSE_TRY(copse__gradients_build(r));
    return copse__updates_place(r);
}

static uint32_t bucket_of(void *user, const struct copse_variable *v)
{
    const struct copse_step_recording *r = user;
    return copse__optimizer_bucket(r->trainer->optimizer, v);
}

static void target(struct copse_recording *base, struct copse_program_params *params)
{
    const struct copse_step_recording *r = (const struct copse_step_recording *)base;
    copse__loss_target(base, params);
    params->all_reduce = copse__layout_all_reduce;
    params->bucket_count = 1;
    if (r->pass == COPSE_PASS_EVALUATE)
        return;
    params->bucket_count = (uint32_t)r->trainer->optimizer->buckets.count;
    params->bucket_of = bucket_of;
}

static copse_status made(struct copse_recording *base)
{
    return copse__layout_settle((struct copse_step_recording *)base);
}

/* ---- empty shares ---- */

static struct copse_command zero(struct copse_binding at)
{
    return (struct copse_command){ .kind = COPSE_COMMAND_FILL, .bindings = { at },
                                   .binding_count = 1 };
}

/* The fills of a replica without examples in segment `i`: zeros for the operand of an all-reduce, or for the gradients
   of bucket `b`. A pass that adds to gradients leaves them as they are. */
static size_t zeros_of(const struct copse_step_recording *r, uint32_t i, uint32_t b, struct copse_command *out)
{
    copse_trainer *t = r->trainer;
    const copse_exchange *x = t->strategy->store->exchange;
    const struct copse_layout *l = copse__layout_of(t, r->pass);
    size_t n = 0;
    if (l->events.at[i] != COPSE_NO_ALL_REDUCE) {
        const struct copse_graph_all_reduce *c = &l->all_reduces.at[l->events.at[i]];
        out[n] = zero(copse__exchange_gradients(x, c->piece, r->replica));
        out[n++].bindings[0].size = (size_t)copse__elements(c->shape) * copse__type_bytes(COPSE_F32);
        return n;
    }
    for (size_t v = 0; r->pass == COPSE_PASS_TRAIN && v < t->trained.count; v++)
        if (copse__optimizer_bucket(t->optimizer, t->trained.at[v]) == b)
            out[n++] = zero(copse__variable_gradient(t->trained.at[v], r->replica));
    return n;
}

/* A replica without examples adds nothing, but takes part in every exchange. */
static copse_status record_zeros(struct copse_recording *base)
{
    struct copse_step_recording *r = (struct copse_step_recording *)base;
    copse_trainer *t = r->trainer;
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    const struct copse_layout *l = copse__layout_of(t, r->pass);
    r->zeros = copse__alloc(mem, l->events.count, sizeof(struct copse_segment *));
    struct copse_command *commands = copse__alloc(mem, t->trained.count, sizeof *commands);
    copse_status s = COPSE_OK;
    if (!r->zeros || !commands)
        s = copse_no_memory("trainer");
    for (uint32_t i = 0, b = 0; s == COPSE_OK && i < l->events.count; i++) {
        const size_t n = zeros_of(r, i, b, commands);
        b += l->events.at[i] == COPSE_NO_ALL_REDUCE;
        if (n > 0)
            s = copse__segment_create(st->replicas[r->replica].queue, commands, n, &r->zeros[i]);
    }
    copse__free(mem, commands);
    return s;
}

/* ---- all recordings ---- */

static void release(struct copse_recording *base)
{
    struct copse_step_recording *r = (struct copse_step_recording *)base;
    copse__loss_outputs_free(r);
    for (uint32_t i = 0; r->zeros && i < copse__layout_of(r->trainer, r->pass)->events.count; i++)
        copse__segment_release(&r->zeros[i]);
    copse__free(&r->trainer->strategy->ctx->base.mem, r->zeros);
}

/* The step, feed or run at hand needs it, or a batch that is fed. */
static bool is_needed(const struct copse_recording *base)
{
    const struct copse_step_recording *r = (const struct copse_step_recording *)base;
    return r->used == r->trainer->recordings.use || copse__feed_needs(r->trainer, r);
}

static copse_status settle(const struct copse_recording *base)
{
    const struct copse_step_recording *r = (const struct copse_step_recording *)base;
    for (uint32_t i = 0; r->zeros && i < copse__layout_of(r->trainer, r->pass)->events.count; i++)
        if (r->zeros[i])
            COPSE_TRY(copse__segment_settle(r->zeros[i]));
    return COPSE_OK;
}

static void begin(struct copse_recording *base)
{
    struct copse_step_recording *r = (struct copse_step_recording *)base;
    r->trainer = base->list->user;
    r->replica = base->list->replica;
    r->pass = (enum copse_pass)base->words[0];
    r->examples = (size_t)base->words[1];
}

static const struct copse_recording_table table = {
    .name = "trainer",
    .size = sizeof(struct copse_step_recording),
    .begin = begin,
    .call = call,
    .extend = extend,
    .target = target,
    .made = made,
    .empty = record_zeros,
    .is_needed = is_needed,
    .settle = settle,
    .release = release,
};

static copse_status check_columns(const char *user, const struct copse_host_batch *batch)
{
    if (!batch->columns || batch->column_count == 0 || batch->column_count > COPSE_MAX_INPUTS)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: a batch has 1 to %d inputs, this one has %zu", user,
                          COPSE_MAX_INPUTS, batch->columns ? batch->column_count : 0);
    for (size_t i = 0; i < batch->column_count; i++) {
        const struct copse_column *c = &batch->columns[i];
        if (!c->name || c->shape.rank >= COPSE_MAX_RANK)
            return copse_fail(COPSE_ERR_ARGUMENT, "%s: input %zu of the batch has no name, or its examples have "
                                                  "more than %d dimensions", user, i, COPSE_MAX_RANK - 1);
    }
    return COPSE_OK;
}

copse_status copse__recording_inputs(const char *user, const struct copse_host_batch *batch, size_t examples,
                                     struct copse_recording_key *key)
{
    key->input_count = 0;
    if (examples == 0)
        return COPSE_OK;
    COPSE_TRY(check_columns(user, batch));
    for (size_t i = 0; i < batch->column_count; i++) {
        const struct copse_column *c = &batch->columns[i];
        key->inputs[key->input_count++] =
            (struct copse_input_type){ c->name, c->type, copse__shape_of_rows(examples, c->shape) };
    }
    return COPSE_OK;
}

copse_status copse__recording_get(copse_trainer *t, uint32_t replica, const struct copse_host_batch *batch,
                                  size_t examples, enum copse_pass pass, struct copse_step_recording **out)
{
    const uint64_t words[] = { pass, examples };
    struct copse_layout *l = copse__layout_of(t, pass);
    struct copse_recording_key key;
    struct copse_recording *r;
    key.words = words;
    key.word_count = COPSE_COUNT(words);
    COPSE_TRY(copse__recording_inputs(table.name, batch, examples, &key));
    const copse_status s = copse__recordings_get(&t->recordings.of[replica], &key, &r);
    if (s != COPSE_OK && !l->is_known)
        copse__layout_fini(t, l); /* it belongs to the recording that failed */
    COPSE_TRY(copse_note(s, "while recording %zu examples for replica %u", examples, replica));
    *out = (struct copse_step_recording *)r;
    (*out)->used = t->recordings.use;
    return COPSE_OK;
}

void copse__recordings_begin(copse_trainer *t)
{
    t->recordings.use++;
}

void copse__recordings_init(copse_trainer *t)
{
    copse__loss_recordings_init(t->recordings.of, &table, t, t->strategy, t->params.recordings);
}
