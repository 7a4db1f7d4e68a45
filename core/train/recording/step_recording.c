/* SPDX-License-Identifier: MIT */
/* What a trainer adds to recordings (core/graph/recording.h): the loss function is called for a
   replica and a shard of a batch, and its gradients are placed in the flat store. */
#include "core/graph/type.h"
#include "core/train/recording/loss_recording.h"
#include "core/train/recording/shard_inputs.h"
#include "core/train/trainer.h"

/* The first graph gives the names of the reports. Later graphs must have the same. */
static copse_status keep_names(copse_trainer *t, const copse_graph *g)
{
    struct copse_reports *known = &t->reports;
    bool is_same = !known->is_known || known->count == g->report_count;
    for (size_t i = 0; !known->is_known && i < g->report_count; i++) {
        COPSE_TRY(copse_need_memory(
            known->names[i] = copse__arena_strdup(&t->arena, g->reports[i].name), "trainer"));
        known->is_loss[i] = g->reports[i].is_loss;
    }
    for (size_t i = 0; is_same && i < g->report_count; i++)
        is_same = strcmp(known->names[i], g->reports[i].name) == 0;
    known->count = known->is_known ? known->count : (uint32_t)g->report_count;
    known->is_known = true;
    return is_same ? COPSE_OK
                   : copse_fail(COPSE_ERR_ARGUMENT, "trainer: the loss function must report the "
                                                    "same values on every call");
}

static copse_status place_report(struct copse_step_recording *r, size_t index, copse_tensor *t)
{
    const struct copse_binding at = { r->trainer->reports.buffers[r->replica],
                                      index * COPSE_REPORT_STRIDE, copse__type_bytes(COPSE_F32) };
    return copse__recording_place(&r->base, t, at, 0);
}

static copse_status call(struct copse_recording *base, copse_batch *in)
{
    const struct copse_step_recording *r = (const struct copse_step_recording *)base;
    const struct copse_trainer_params *p = &r->trainer->params;
    const bool is_training = r->pass != COPSE_PASS_EVALUATE;
    base->graph->takes_updates = is_training ? COPSE_UPDATES_TAKEN : COPSE_UPDATES_IGNORED;
    base->graph->precision = p->precision;
    const copse_status s =
        copse__loss_call(base, in, is_training, "the loss function of a trainer", p->loss, p->user);
    base->graph->precision = COPSE_F32; /* of the transform of gradients */
    return s;
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

struct copse_memory_use copse__memory_use(const copse_trainer *t, uint32_t replica)
{
    struct copse_memory_use u = { .sharers = 0 };
    copse_device *dev = t->strategy->replicas[replica].dev;
    /* queued work keeps what was released */
    if (copse_queue_finish(t->strategy->replicas[replica].queue) == COPSE_OK)
        copse__buffers_purge(dev);
    u.others = atomic_load(&dev->bytes);
    for (uint32_t i = 0; i < t->strategy->replica_count; i++) {
        if (t->strategy->replicas[i].dev != dev)
            continue;
        u.sharers++;
        for (size_t k = 0; k < t->recordings.of[i].count; k++) {
            const copse_program *p = t->recordings.of[i].at[k]->program;
            u.recordings += p ? copse__program_bytes(p) : 0;
        }
    }
    u.others -= u.recordings;
    return u;
}

size_t copse__memory_left(const copse_trainer *t, uint32_t replica, uint64_t budget)
{
    if (budget == 0)
        return 0;
    const struct copse_memory_use u = copse__memory_use(t, replica);
    return (size_t)COPSE_MAX(budget > u.others ? (budget - u.others) / u.sharers : 0, 1);
}

static void target(struct copse_recording *base, struct copse_program_params *params)
{
    const struct copse_step_recording *r = (const struct copse_step_recording *)base;
    copse__loss_target(base, params);
    params->budget = copse__memory_left(r->trainer, r->replica, r->trainer->params.memory_budget);
    params->all_reduce = copse__layout_all_reduce;
    params->bucket_count = 1;
    if (r->pass == COPSE_PASS_EVALUATE)
        return;
    params->bucket_count = (uint32_t)r->trainer->optimizer->buckets.count;
    params->bucket_of = bucket_of;
}

/* ---- all recordings ---- */

static void release(struct copse_recording *base)
{
    copse__loss_outputs_free((struct copse_step_recording *)base);
    copse__rows_free((struct copse_step_recording *)base);
}

/* The step, feed or run at hand needs it, or a batch that is fed. */
static bool is_needed(const struct copse_recording *base)
{
    const struct copse_step_recording *r = (const struct copse_step_recording *)base;
    return r->used == r->trainer->recordings.use || copse__feed_needs(r->trainer, r);
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
    .made = copse__layout_settle,
    .has_empty = true,
    .is_needed = is_needed,
    .release = release,
};

/* The key for a shard; it points to `words`. */
static copse_status make_key(const struct copse_host_batch *batch, size_t examples,
                             enum copse_pass pass, uint64_t words[2],
                             struct copse_recording_key *key)
{
    words[0] = pass;
    words[1] = examples;
    key->words = words;
    key->word_count = 2;
    return copse__recording_inputs(table.name, batch, examples, key);
}

/* A layout that is not known belongs to the recording that failed, or that was planned. */
static copse_status drop_unknown(copse_trainer *t, enum copse_pass pass, copse_status s)
{
    struct copse_layout *l = copse__layout_of(t, pass);
    if (!l->is_known)
        copse__layout_fini(t, l);
    return s;
}

copse_status copse__recording_get(copse_trainer *t, uint32_t replica,
                                  const struct copse_host_batch *batch, size_t examples,
                                  enum copse_pass pass, struct copse_step_recording **out)
{
    struct copse_recording_key key;
    struct copse_recording *r;
    uint64_t words[2];
    COPSE_TRY(make_key(batch, examples, pass, words, &key));
    copse_status s = copse__recordings_get(&t->recordings.of[replica], &key, &r);
    if (s != COPSE_OK)
        s = drop_unknown(t, pass, s);
    COPSE_TRY(copse_note(s, "while recording %zu examples for replica %u", examples, replica));
    *out = (struct copse_step_recording *)r;
    (*out)->used = t->recordings.use;
    return COPSE_OK;
}

copse_status copse__recording_plan(copse_trainer *t, uint32_t replica,
                                   const struct copse_host_batch *batch, size_t examples,
                                   enum copse_pass pass, copse_plan_fn *plan, void *user)
{
    struct copse_recording_key key;
    uint64_t words[2];
    COPSE_TRY(make_key(batch, examples, pass, words, &key));
    return drop_unknown(t, pass,
                        copse__recordings_plan(&t->recordings.of[replica], &key, plan, user));
}

void copse__recordings_init(copse_trainer *t)
{
    copse__loss_recordings_init(t->recordings.of, &table, t, t->strategy, t->params.recordings);
}
