/* SPDX-License-Identifier: MIT */
/* The direct feed: a step writes its batch from host memory to where the recordings read it. */
#include "core/train/trainer.h"

static copse_status unsupported(const copse_trainer *t)
{
    return copse_fail(COPSE_ERR_UNSUPPORTED, "trainer: runs of several steps need an accelerator strategy, its strategy "
                                             "is %s; to take batches ahead of its steps set `prefetch`",
                      copse_strategy_name(t->strategy));
}

static copse_status put(copse_trainer *t, const struct copse_host_batch *batch)
{
    (void)batch;
    return unsupported(t);
}

copse_status copse__feed_prepare_direct(copse_trainer *t, const struct copse_host_batch *batch, enum copse_pass pass,
                                        struct copse_shares *s, struct copse_batch_slot **slot)
{
    *slot = NULL;
    return copse__shares_prepare(t, batch, pass, s);
}

static copse_status run(copse_trainer *t, uint32_t *done)
{
    (void)done;
    return unsupported(t);
}

const struct copse_feed_table copse__feed_direct = { .put = put, .prepare = copse__feed_prepare_direct, .run = run };
