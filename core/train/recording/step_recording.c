/* SPDX-License-Identifier: MIT */
/* What a trainer adds to recordings (core/graph/recording.h): the loss function is called for a
   replica and a shard of a batch, and its gradients are placed in the flat store. */
#include "core/train/recording/step_recording.h"
#include "core/graph/type.h"
#include "core/train/recording/loss_recording.h"
#include "core/train/recording/shard_inputs.h"

/* The first graph gives the names of the reports. Later graphs must have the same. */
static copse_status keep_names(struct copse_reports *known, struct copse_arena *names,
                               const copse_graph *g)
{
    bool is_same = !known->is_known || known->count == g->report_count;
    for (size_t i = 0; !known->is_known && i < g->report_count; i++) {
        COPSE_TRY(copse_need_memory(
            known->names[i] = copse__arena_strdup(names, g->reports[i].name), "trainer"));
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
    const struct copse_binding at = { r->all->reports.buffers[r->replica],
                                      index * COPSE_REPORT_STRIDE, copse__type_bytes(COPSE_F32) };
    return copse__recording_place(&r->base, t, at, 0);
}

static bool step_recording_freezes(const void *optimizer, const struct copse_variable *v)
{
    return v->is_trained && copse__optimizer_freezes(optimizer, v);
}

static copse_status step_recording_call(struct copse_recording *base, copse_batch *in)
{
    const struct copse_step_recording *r = (const struct copse_step_recording *)base;
    const struct copse_trainer_params *p = r->all->params;
    const bool is_training = r->pass != COPSE_PASS_EVALUATE;
    base->graph->takes_updates = is_training ? COPSE_UPDATES_TAKEN : COPSE_UPDATES_IGNORED;
    base->graph->precision = p->precision;
    base->graph->freezes = step_recording_freezes;
    base->graph->freezer = r->all->optimizer;
    const copse_status s =
        copse__loss_call(base, in, is_training, "the loss function of a trainer", p->loss, p->user);
    base->graph->precision = COPSE_F32; /* of the transform of gradients */
    return s;
}

static copse_status step_recording_extend(struct copse_recording *base)
{
    struct copse_step_recording *r = (struct copse_step_recording *)base;
    const copse_graph *g = base->graph;
    COPSE_TRY(copse__recording_check_loss(base));
    COPSE_TRY(keep_names(&r->all->reports, &r->all->names, g));
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
    return copse__optimizer_bucket(r->all->optimizer, v);
}

struct copse_memory_use copse__memory_use(const struct copse_step_recordings *all, uint32_t replica)
{
    const copse_strategy *st = all->strategy;
    struct copse_memory_use u = { .sharers = 0 };
    copse_device *dev = st->replicas[replica].dev;
    /* queued work keeps what was released */
    if (copse_queue_finish(st->replicas[replica].queue) == COPSE_OK)
        copse__buffers_purge(dev);
    u.others = atomic_load(&dev->bytes);
    for (uint32_t i = 0; i < st->replica_count; i++) {
        if (st->replicas[i].dev != dev)
            continue;
        u.sharers++;
        for (size_t k = 0; k < all->of[i].count; k++) {
            const copse_program *p = all->of[i].at[k]->program;
            u.recordings += p ? copse__program_bytes(p) : 0;
        }
    }
    u.others -= u.recordings;
    return u;
}

size_t copse__memory_left(const struct copse_step_recordings *all, uint32_t replica,
                          uint64_t budget)
{
    if (budget == 0)
        return 0;
    const struct copse_memory_use u = copse__memory_use(all, replica);
    return (size_t)COPSE_MAX(budget > u.others ? (budget - u.others) / u.sharers : 0, 1);
}

static void step_recording_target(struct copse_recording *base, struct copse_program_params *params)
{
    const struct copse_step_recording *r = (const struct copse_step_recording *)base;
    copse__loss_target(base, params);
    params->budget = copse__memory_left(r->all, r->replica, r->all->params->memory_budget);
    params->all_reduce = copse__layout_all_reduce;
    params->is_sliced = r->all->is_sliced;
    params->bucket_count = 1;
    if (r->pass == COPSE_PASS_EVALUATE)
        return;
    params->bucket_count = (uint32_t)r->all->optimizer->buckets.count;
    params->bucket_of = bucket_of;
}

/* ---- all recordings ---- */

static void step_recording_release(struct copse_recording *base)
{
    copse__loss_outputs_free((struct copse_step_recording *)base);
    copse__rows_free((struct copse_step_recording *)base);
}

/* The step, evaluation, feed or run at hand needs it. */
static bool is_needed(const struct copse_recording *base)
{
    const struct copse_step_recording *r = (const struct copse_step_recording *)base;
    return r->used == r->all->use;
}

static void step_recording_begin(struct copse_recording *base)
{
    struct copse_step_recording *r = (struct copse_step_recording *)base;
    r->all = (struct copse_step_recordings *)(base->list - base->list->replica);
    r->replica = base->list->replica;
    r->pass = (enum copse_pass)base->words[0];
    r->examples = (size_t)base->words[1];
}

static const struct copse_recording_table table = {
    .name = "trainer",
    .size = sizeof(struct copse_step_recording),
    .begin = step_recording_begin,
    .call = step_recording_call,
    .extend = step_recording_extend,
    .target = step_recording_target,
    .made = copse__layout_settle,
    .has_empty = true,
    .is_needed = is_needed,
    .release = step_recording_release,
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
static copse_status drop_unknown(struct copse_step_recordings *all, enum copse_pass pass,
                                 copse_status s)
{
    struct copse_layout *l = copse__layout_of(all, pass);
    if (!l->is_known)
        copse__layout_fini(l, all->strategy);
    return s;
}

copse_status copse__recording_get(struct copse_step_recordings *all, uint32_t replica,
                                  const struct copse_host_batch *batch, size_t examples,
                                  enum copse_pass pass, struct copse_step_recording **out)
{
    struct copse_recording_key key;
    struct copse_recording *r;
    uint64_t words[2];
    COPSE_TRY(make_key(batch, examples, pass, words, &key));
    copse_status s = copse__recordings_get(&all->of[replica], &key, &r);
    if (s != COPSE_OK)
        s = drop_unknown(all, pass, s);
    COPSE_TRY(copse_note(s, "while recording %zu example%s for replica %u", examples,
                         copse__plural(examples), replica));
    *out = (struct copse_step_recording *)r;
    (*out)->used = all->use;
    return COPSE_OK;
}

copse_status copse__recording_plan(struct copse_step_recordings *all, uint32_t replica,
                                   const struct copse_host_batch *batch, size_t examples,
                                   enum copse_pass pass, copse_plan_fn *plan, void *user)
{
    struct copse_recording_key key;
    uint64_t words[2];
    COPSE_TRY(make_key(batch, examples, pass, words, &key));
    return drop_unknown(all, pass, copse__recordings_plan(&all->of[replica], &key, plan, user));
}

void copse__step_recordings_init(struct copse_step_recordings *all, void *object)
{
    all->names.mem = &all->strategy->ctx->base.mem;
    all->reports.adds = all->params->reduction == COPSE_LOSS_SUM;
    copse__loss_recordings_init(all->of, &table, object, all->strategy, all->params->recordings);
    for (uint32_t r = 0; r < all->strategy->replica_count; r++)
        all->of[r].is_mean = !all->reports.adds;
}

void copse__step_recordings_fini(struct copse_step_recordings *all)
{
    copse__loss_recordings_fini(all->of);
    for (size_t i = 0; i < COPSE_COUNT(all->layouts); i++)
        copse__layout_fini(&all->layouts[i], all->strategy);
    copse__free(&all->strategy->ctx->base.mem, all->ready.at);
    copse__arena_fini(&all->names);
}
