/* SPDX-License-Identifier: MIT */
/* The feed of a trainer: its choice, and the calls of the application. */
#include "copse/loop/feed.h"
#include "copse/distribute/accelerator.h"
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
    f->depth = COPSE_MAX(steps_per_run, prefetch);
    f->slots = copse__alloc(&t->strategy->ctx->base.mem, f->depth, sizeof *f->slots);
    if (!f->slots)
        return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory to take %u batches ahead",
                          f->depth);
    return f->table->init ? f->table->init(t) : COPSE_OK;
}

void copse__feed_fini(copse_trainer *t)
{
    for (uint32_t i = 0; t->feed.slots && i < t->feed.depth; i++)
        for (uint32_t r = 0; r < t->strategy->replica_count; r++)
            copse_buffer_release(&t->feed.slots[i].at[r].buffer);
    if (t->feed.slots && t->feed.table->fini)
        t->feed.table->fini(t);
    copse__free(&t->strategy->ctx->base.mem, t->feed.slots);
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
    if (f->count == f->depth)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: %u batches are fed, there is no room for one more: %s is %u",
                          f->count, f->table->depth, f->depth);
    COPSE_TRY(f->table->plan(t, batch, &s));
    COPSE_TRY(copse__feed_upload(t, batch, &s, copse__feed_slot(t, f->count)));
    f->count++;
    return COPSE_OK;
}

void copse_trainer_unfeed(copse_trainer *t)
{
    if (t && copse__callback_allows(&t->strategy->ctx->base.log, "copse_trainer_unfeed", t))
        t->feed.count = 0;
}

copse_status copse__trainer_run(copse_trainer *t, uint32_t *done)
{
    *done = 0;
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse__average_refuse(t));
    COPSE_TRY(check_is_fed(t));
    return t->feed.table->run(t, done);
}

copse_status copse_trainer_run(copse_trainer *t)
{
    COPSE_TRY(copse__require_no_replica("copse_trainer_run", t));
    uint32_t done;
    return copse__trainer_run(t, &done);
}
