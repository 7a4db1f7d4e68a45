/* SPDX-License-Identifier: MIT */
/* Making and releasing trainers. */
#include "core/train/trainer.h"
#include "copse/loop/feed.h"
#include "core/graph/type.h"
#include "core/ops/product/precision.h"
#include "core/value/cross_device.h"

/* ---- trained variables ---- */

/* `list` by index of the variable. */
static copse_status mark_trained(const copse_trainer *t, const struct copse_trainer_params *p,
                                 bool *list)
{
    const copse_strategy *st = t->strategy;
    for (size_t i = 0; p->variables && i < p->variable_count; i++) {
        if (!p->variables[i])
            return copse_fail(COPSE_ERR_ARGUMENT, "trainer: variable %zu to train is NULL", i);
        COPSE_TRY(copse_note(copse__optimizer_trains(t->optimizer, p->variables[i], "trainer"),
                             "in variable %zu of %zu to train", i, p->variable_count));
        if (list[p->variables[i]->index])
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "trainer: variable '%s' is twice in the list of those to train",
                              p->variables[i]->name);
        list[p->variables[i]->index] = true;
    }
    for (size_t i = 0; !p->variables && i < st->variables.count; i++)
        list[i] = st->variables.at[i]->is_trained;
    return COPSE_OK;
}

/* Variables of frozen parameter groups are not trained. */
static copse_status drop_frozen(copse_trainer *t)
{
    const size_t count = t->trained.count;
    COPSE_TRY(copse__optimizer_check_groups(t->optimizer, t->trained.at, count));
    t->trained.count = 0;
    for (size_t i = 0; i < count; i++)
        if (!copse__optimizer_freezes(t->optimizer, t->trained.at[i]))
            t->trained.at[t->trained.count++] = t->trained.at[i];
    return t->trained.count > 0 ? COPSE_OK
                                : copse_fail(COPSE_ERR_ARGUMENT,
                                             "trainer: the parameter groups freeze all variables: "
                                             "leave one to train");
}

static copse_status make_optimizer(copse_trainer *t, const struct copse_trainer_params *p)
{
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    bool *list = copse__alloc(mem, st->variables.count, sizeof *list);
    t->trained.at = copse__alloc(mem, st->variables.count, sizeof(copse_variable *));
    copse_status s = list && t->trained.at ? mark_trained(t, p, list) : copse_no_memory("trainer");
    for (size_t i = 0; s == COPSE_OK && i < st->variables.count; i++)
        if (list[i])
            t->trained.at[t->trained.count++] = st->variables.at[i];
    if (s == COPSE_OK && t->trained.count > 0)
        s = drop_frozen(t);
    if (s == COPSE_OK && t->trained.count == 0)
        s = copse_fail(COPSE_ERR_ARGUMENT, "trainer: the strategy has no variables to train");
    if (s == COPSE_OK)
        s = copse__rows_check(&t->trained, &t->params);
    if (s == COPSE_OK)
        s = copse__slots_check(t->optimizer, t->trained.at, t->trained.count);
    if (s == COPSE_OK)
        s = t->optimizer->table->prepare(t->optimizer, t->trained.at, t->trained.count);
    copse__free(mem, list);
    return s;
}

/* ---- life ---- */

/* Objects that need the optimizer, which knows the params now. */
static void bind_optimizer(copse_trainer *t)
{
    t->recordings.optimizer = t->optimizer;
    t->words = (struct copse_step_words){ t->optimizer, &t->params, t, { 0 } };
}

static copse_status open_verifier(copse_trainer *t)
{
    const struct copse_check_owner owner = {
        .name = "trainer",
        .turn_off = "--no-cross-check, copse_trainer_audit",
        .strategy = t->strategy,
        .optimizer = t->optimizer,
        .reports = t->recordings.reports.buffers,
    };
    return copse__verifier_open(&t->verifier, &owner, t->trained.at, t->trained.count);
}

static copse_status trainer_init(copse_trainer *t, const struct copse_trainer_params *p)
{
    copse_strategy *st = t->strategy;
    const uint32_t steps = COPSE_MAX(2 * st->accelerator.steps_per_run, COPSE_STEPS_IN_PROGRESS);
    COPSE_TRY(copse__optimizer_create(st, NULL, &t->optimizer));
    bind_optimizer(t);
    COPSE_TRY(copse__optimizer_rule(t->optimizer, &t->params.optimizer));
    COPSE_TRY(copse__split_init(&t->split, st, p));
    COPSE_TRY(copse__workers_agree(&t->workers, &t->params, copse__cross_text(st)));
    t->params.optimizer.groups = NULL; /* the caller's */
    COPSE_TRY(copse__step_slots_make(&t->ring, st, &t->verifier, steps, t->params.accumulate));
    for (uint32_t r = 0; r < st->replica_count; r++)
        COPSE_TRY(copse__replica_buffer(&st->replicas[r], COPSE_REPORT_BYTES,
                                        &t->recordings.reports.buffers[r]));
    COPSE_TRY(copse__store_build(st));
    COPSE_TRY(make_optimizer(t, p));
    COPSE_TRY(copse__feed_init(t));
    COPSE_TRY(open_verifier(t));
    return copse__trainer_watches(t) ? copse__watches_make(&t->recordings.watches, st, &t->trained)
                                     : COPSE_OK;
}

static copse_status trainer_check(const struct copse_trainer_params *p)
{
    if (!p->loss)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: needs a loss function");
    COPSE_TRY(copse_need_known("trainer", "reduction of losses", p->reduction, COPSE_LOSS_SUM));
    COPSE_TRY(copse_need_known("trainer", "gating", p->gating, COPSE_GATE_GRAPH));
    if (p->variables && p->variable_count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: the list of variables to train is empty; NULL means all");
    if (p->accumulate > 1u << 16)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: %u micro-batches to a step, at most 65536 "
                          "are possible",
                          p->accumulate);
    if (p->prefetch > COPSE_PREFETCH_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: %u batches to be uploaded ahead, at most %d are "
                          "possible",
                          p->prefetch, COPSE_PREFETCH_MAX);
    if (!copse__type_is_known(p->precision) || !copse__type_is_smooth(p->precision))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: precision is element type %d (%s): f32, f16 or bf16 is needed",
                          (int)p->precision, copse_type_name(p->precision));
    return COPSE_OK;
}

/* Derivatives below the range of f16 would vanish. */
static void scale_f16(struct copse_optimizer_params *p)
{
    if (p->loss_scale > 0.0f)
        return;
    p->loss_scale = 65536.0f;
    if (p->loss_scale_interval == 0)
        p->loss_scale_interval = 2000;
}

/* Whether the warning of this device was logged; it counts as logged from now on. */
static bool was_warned(copse_context *ctx, const char *id, copse_type type)
{
    for (size_t i = 0; i < COPSE_MIN(ctx->device_count, 32); i++) {
        const unsigned long long bit = 1ULL << (2 * i + (type == COPSE_BF16));
        if (strcmp(ctx->devices[i].id, id) == 0)
            return (atomic_fetch_or(&ctx->warned_precisions, bit) & bit) != 0;
    }
    return false;
}

/* A device whose products widen their operands again does more work than in f32. */
static copse_status warn_of_precision(copse_strategy *st, copse_type type)
{
    for (uint32_t r = 0; type != COPSE_F32 && r < st->replica_count; r++) {
        const copse_device *dev = st->replicas[r].dev;
        const bool can_tune = type == COPSE_F16 && dev->info.kind != COPSE_DEVICE_CPU &&
                              dev->info.kind != COPSE_DEVICE_REFERENCE;
        bool gains;
        COPSE_TRY(copse__precision_gains(dev, &st->choices, type, &gains));
        if (!gains && !was_warned(st->ctx, dev->info.id, type))
            copse__log(
                &st->ctx->base.log, COPSE_LOG_WARN,
                "trainer: %s is slower than f32 on %s: no faster kernel reads 16 bits there, "
                "so operands are converted and widened again; %suse f32",
                copse_type_name(type), dev->info.id,
                can_tune ? "run `copse tune`, which may find one, or " : "");
    }
    return COPSE_OK;
}

/* The objects of a trainer learn what they have of it. */
static void bind_objects(copse_trainer *t)
{
    t->recordings.strategy = t->strategy;
    t->recordings.params = &t->params;
    t->recordings.trained = &t->trained;
    copse__step_recordings_init(&t->recordings, t);
    t->accumulation = (struct copse_accumulation){
        .strategy = t->strategy, .trained = &t->trained, .owner = t, .every = t->params.accumulate
    };
    t->workers = (struct copse_train_workers){ &t->strategy->group, &t->is_failed };
}

copse_status copse_trainer_create(copse_strategy *st, const struct copse_trainer_params *params,
                                  copse_trainer **out)
{
    COPSE_TRY(copse_need("trainer", st, params, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_trainer_params, params));
    COPSE_TRY(copse_no_reserved(copse_optimizer_params, &params->optimizer));
    COPSE_TRY(copse__require_no_replica("copse_trainer_create", st));
    COPSE_TRY(trainer_check(params));
    COPSE_TRY(copse__require_device(st, "trainer"));
    COPSE_TRY(copse__strategy_settle(st));
    copse_trainer *t = copse__alloc(&st->ctx->base.mem, 1, sizeof *t);
    COPSE_TRY(copse_need_memory(t, "trainer"));
    t->strategy = copse_strategy_retain(st);
    t->params = *params;
    t->params.variables = NULL; /* the caller's */
    t->params.shard_weights = NULL;
    t->trained.is_listed = params->variables != NULL;
    t->params.accumulate = COPSE_MAX(params->accumulate, 1);
    if (params->precision == COPSE_F16)
        scale_f16(&t->params.optimizer);
    bind_objects(t);
    copse_status s = trainer_init(t, params);
    if (s == COPSE_OK)
        s = warn_of_precision(st, params->precision);
    if (s != COPSE_OK)
        copse_trainer_release(&t);
    else
        *out = t;
    return copse_note(s, "while making a trainer");
}

void copse_trainer_release(copse_trainer **trainer)
{
    if (!trainer || !*trainer)
        return;
    copse_trainer *t = *trainer;
    copse_strategy *st = t->strategy;
    if (!copse__callback_may_release(&st->ctx->base.log, "copse_trainer_release", t))
        return;
    struct copse_mem *mem = &st->ctx->base.mem;
    bool is_idle = true;
    copse__advancing_free(t);
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const copse_status s = copse_queue_finish(st->replicas[r].queue);
        is_idle &= s != COPSE_ERR_TIMEOUT;
        if (s != COPSE_OK)
            copse__log(&st->ctx->base.log, COPSE_LOG_WARN, "trainer: %s did not finish: %s",
                       st->replicas[r].dev->info.id, copse_last_error());
    }
    copse__accumulation_drop(&t->accumulation);
    copse__average_free(&t->uses.average, mem);
    copse__hashes_free(&t->uses.hashes, mem, is_idle);
    copse__step_recordings_fini(&t->recordings);
    copse__predictor_fini(&t->uses.predictor);
    copse__weights_end(&t->uses.weights);
    copse__optimizer_release(&t->optimizer);
    copse__feed_fini(t);
    copse__step_slots_free(&t->ring, is_idle);
    copse__verifier_free(&t->verifier, is_idle);
    copse__watches_free(&t->recordings.watches, is_idle);
    for (uint32_t r = 0; r < st->replica_count; r++)
        copse_buffer_release(&t->recordings.reports.buffers[r]);
    copse__free(mem, t->trained.at);
    copse_context *ctx = copse_context_retain(st->ctx); /* mem lives in it */
    copse__free(mem, t);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    *trainer = NULL;
}

COPSE_PROPERTY(copse_strategy *, copse_trainer_strategy, copse_trainer, x->strategy, NULL)
COPSE_PROPERTY(uint64_t, copse_trainer_steps, copse_trainer, x->step, 0)
COPSE_PROPERTY(uint32_t, copse_trainer_accumulated, copse_trainer, x->accumulation.parts, 0)
COPSE_PROPERTY(uint32_t, copse_trainer_fed, copse_trainer, x->feed.slots.count, 0)
