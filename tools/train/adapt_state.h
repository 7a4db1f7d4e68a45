/* SPDX-License-Identifier: MIT */
/* The checkpoint of a run of `copse train --lora`: the trainer's state, how far the run is, and the
   settings that must stay the same. */
#ifndef ADAPT_STATE_H
#define ADAPT_STATE_H

#include "copse/loop/early_stopping.h"
#include "copse/state.h"

#include "tools/train/adapt.h"

/* What decides the bits of a run, beside its settings. */
struct adapt_data {
    uint64_t sum, held_sum;                  /* of the bytes of the files; 0: there is none */
    uint64_t model_sum;                      /* model_sum.h; 0: no checkpoint is written */
    uint64_t windows, held_windows, batches; /* batches: of an epoch */
    uint64_t steps;
};

struct adapt_run {
    const struct adapt_settings *settings;
    copse_context *ctx;
    const copse_strategy *strategy;
    copse_language *language;
    copse_trainer *trainer;
    copse_early_stopping *stopping; /* NULL: none */
    const struct adapt_data *data;
};

/* How far a run is. */
struct adapt_progress {
    uint64_t step, best_step;
    uint32_t judged, count;
    double held_loss, loss, seconds; /* loss, seconds: of `count` steps since the newest line */
    struct copse_position next;
};

copse_status adapt_save(const struct adapt_run *r, const struct adapt_progress *p);
/* Go on from the checkpoint; *found false: there is none. */
copse_status adapt_resume(const struct adapt_run *r, struct adapt_progress *p, bool *found);

#endif
