/* SPDX-License-Identifier: MIT */
/* The feed of a trainer: its choice, and the calls of the application. */
#include "copse/loop/feed.h"
#include "copse/distribute/accelerator.h"
#include "core/base/trace.h"
#include "core/train/trainer.h"

static const struct copse_feed_table direct;

copse_status copse__feed_init(copse_trainer *t)
{
    const uint32_t steps_per_run = t->strategy->accelerator.steps_per_run,
                   prefetch = t->params.prefetch;
    struct copse_feed *f = &t->feed;
    f->table = steps_per_run > 0 ? &copse__feed_run
               : prefetch > 0    ? &copse__feed_prefetch
                                 : &direct;
    if (steps_per_run > 0 && prefetch > 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: prefetch is %u, and an accelerator takes whole runs of "
                          "batches ahead: leave it 0",
                          prefetch);
    f->slots.setting = f->table->setting;
    f->slots.has_transfers = f->table->has_transfers;
    COPSE_TRY(copse__batch_slots_init(&f->slots, t->strategy, COPSE_MAX(steps_per_run, prefetch)));
    return f->table->init ? f->table->init(t) : COPSE_OK;
}

void copse__feed_fini(copse_trainer *t)
{
    if (t->feed.slots.at && t->feed.table->fini)
        t->feed.table->fini(t);
    copse__batch_slots_fini(&t->feed.slots);
}

static copse_status check_is_fed(const copse_trainer *t)
{
    return t->feed.table->plan
               ? COPSE_OK
               : copse_fail(COPSE_ERR_UNSUPPORTED,
                            "trainer: runs of several steps need an accelerator strategy, "
                            "its strategy is %s; to take batches ahead of its steps set "
                            "`prefetch`",
                            copse_strategy_name(t->strategy));
}

copse_status copse_trainer_feed(copse_trainer *t, const struct copse_host_batch *batch)
{
    COPSE_TRY(copse_need("trainer", t, batch));
    COPSE_TRY(copse_no_reserved(copse_host_batch, batch));
    COPSE_TRY(copse__require_no_replica("copse_trainer_feed", t));
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(check_is_fed(t));
    struct copse_feed *f = &t->feed;
    struct copse_shards s;
    if (f->slots.count == f->slots.depth)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: %u batches are fed, there is no room for one more: %s is %u",
                          f->slots.count, f->table->setting, f->slots.depth);
    COPSE_TRY(f->table->plan(t, batch, &s));
    COPSE_TRY(copse__batch_slot_upload(&f->slots, batch, &s,
                                       copse__batch_slot(&f->slots, f->slots.count)));
    f->slots.count++;
    return COPSE_OK;
}

void copse_trainer_unfeed(copse_trainer *t)
{
    if (t && copse__callback_allows(&t->strategy->ctx->base.log, "copse_trainer_unfeed", t))
        t->feed.slots.count = 0;
}

copse_status copse__trainer_run(copse_trainer *t, uint32_t *done)
{
    *done = 0;
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse__average_refuse(t));
    COPSE_TRY(check_is_fed(t));
    const struct copse_base *base = &t->strategy->ctx->base;
    const struct copse_span span = copse__span_begin(base);
    copse__trace_step(base, t->step + 1);
    return copse__span_end(span, COPSE_SPAN_STEP, "run", t->feed.table->run(t, done));
}

copse_status copse_trainer_run(copse_trainer *t)
{
    COPSE_TRY(copse__require_no_replica("copse_trainer_run", t));
    uint32_t done;
    return copse__trainer_run(t, &done);
}
