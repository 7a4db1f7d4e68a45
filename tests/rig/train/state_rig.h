/* SPDX-License-Identifier: MIT */
/* Shared by the tests of checkpoints: a context that counts warnings, and a trainer with its
   data. */
#ifndef COPSE_STATE_RIG_H
#define COPSE_STATE_RIG_H

#include "tests/rig/rig.h"

#include "tests/rig/data/temp_files.h"
#include "tests/rig/train/train_job.h"

static copse_context *ctx;
static unsigned warnings;

static inline void take_log(void *user, copse_log_level level, const char *line)
{
    (void)user;
    if (level == COPSE_LOG_WARN && strstr(line, "checkpoint:"))
        warnings++;
}

static inline int open_context(void **state)
{
    (void)state;
    temp_begin();
    return copse_context_create(&(struct copse_context_params){ .log = take_log }, &ctx) == COPSE_OK
               ? 0
               : -1;
}

static inline int close_context(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

/* ---- a trainer and its data, taken by hand ---- */

struct life {
    struct job j;
    copse_trainer *t;
    copse_loader *batches;
};

static inline void begin(struct life *l, const struct job *like)
{
    copse_dataset *data;
    *l = (struct life){ .j = *like };
    l->j.ctx = ctx;
    OK(job_make(&l->j, &l->t));
    OK(job_dataset(&l->j, copse_trainer_strategy(l->t), &data));
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = 32, .seed = 5 },
                           &l->batches));
    copse_dataset_release(&data);
}

static inline void end(struct life *l)
{
    copse_loader_release(&l->batches);
    copse_trainer_release(&l->t);
}

static inline void steps(struct life *l, int count)
{
    struct copse_host_batch batch;
    copse_status s;
    uint32_t epoch;
    size_t index;
    while (count > 0) {
        s = copse_loader_next(l->batches, &batch);
        if (s == COPSE_ERR_END) {
            copse_loader_position(l->batches, &epoch, &index);
            OK(copse_loader_start(l->batches, epoch + 1, 0));
            continue;
        }
        OK(s);
        OK(copse_trainer_step(l->t, &batch));
        count--;
    }
}

static inline void save(struct life *l, const char *path)
{
    struct copse_state_params p = { 0 };
    size_t index;
    copse_loader_position(l->batches, &p.position.epoch, &index);
    p.position.batch = index;
    OK(copse_trainer_checkpoint(l->t, path, &p));
}

static inline void load(struct life *l, const char *path)
{
    struct copse_position at;
    OK(copse_trainer_restore(l->t, path, &at, NULL));
    OK(copse_loader_start(l->batches, at.epoch, (size_t)at.batch));
}

#endif
