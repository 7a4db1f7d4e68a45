/* SPDX-License-Identifier: MIT */
/* A training job on the devices of the fake backend, for tests of failing calls. */
#ifndef COPSE_FAULTY_JOB_H
#define COPSE_FAULTY_JOB_H

#include "tests/rig/rig.h"

#include "copse/compat/single_loss.h"
#include "copse/loop/step.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/train/train_model.h"

enum { BATCH = 24, VALUES = 2048 };

static struct job {
    copse_context *ctx;
    copse_strategy *st;
    copse_trainer *t;
    struct model m;
    float x[MODEL_ROWS * MODEL_IN];
    int32_t y[MODEL_ROWS];
    uint32_t prefetch; /* of trainers created from now on */
    size_t rows;       /* of job_dataset */
} job;

/* A context with the given number of devices; the test makes the strategy. */
static inline void job_begin(uint32_t devices, const struct copse_context_params *params)
{
    memset(&job, 0, sizeof job);
    fake_reset();
    copse_fake.device_count = devices;
    model_data(job.x, job.y);
    OK(copse__context_create_with(params, fake_backends, &job.ctx));
}

/* Mirrored over the first devices, in several buckets. */
static inline void job_mirror(uint32_t devices)
{
    static const char *const ids[4] = { "fake:0", "fake:1", "fake:2", "fake:3" };
    OK(copse_mirrored_create(job.ctx, ids, devices,
                             &(struct copse_strategy_params){ .bucket_bytes = 1024 }, &job.st));
}

static inline void no_more_faults(void)
{
    for (uint32_t i = 0; i < FAKE_DEVICES; i++) {
        copse_fake.devices[i].delay_polls = 0;
        copse_fake.devices[i].delay_ns = 0;
        memset(copse_fake.devices[i].faults, 0, sizeof copse_fake.devices[i].faults);
    }
}

static inline void job_end(void)
{
    no_more_faults();
    copse_trainer_release(&job.t);
    copse_strategy_release(&job.st);
    copse_context_release(&job.ctx);
    assert_int_equal(atomic_load(&copse_fake.early_fini), 0);
}

/* A copse_make_trainer_fn, for the model of the job. */
static inline copse_status job_make_trainer(void *user, copse_trainer **out)
{
    (void)user;
    return copse_trainer_create(job.st,
                                &(struct copse_trainer_params){
                                    .loss = model_loss, .user = &job.m, .prefetch = job.prefetch },
                                out);
}

/* The model and its trainer, on the current strategy. */
static inline void job_learn(void)
{
    OK(model_create(&job.m, job.st));
    OK(job_make_trainer(NULL, &job.t));
}

/* A copse_dataset_fn: the first `rows` examples. */
static inline copse_status job_dataset(void *user, copse_strategy *st, copse_dataset **out)
{
    const struct copse_array_view x = { COPSE_F32, 2, { job.rows, MODEL_IN }, job.x };
    const struct copse_array_view y = { COPSE_I32, 1, { job.rows }, job.y };
    (void)user, (void)st;
    return copse_dataset_create(job.ctx, &x, &y,
                                &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE }, out);
}

/* Batches of the first `rows` examples, in order, twice. */
static inline void job_step(size_t rows, uint32_t iterations, copse_step **out)
{
    job.rows = rows;
    OK(copse_single_loss_step_create(
        job.ctx,
        &(struct copse_single_loss_params){
            .input = { .dataset = job_dataset,
                       .batches = { .batch = BATCH, .no_shuffle = true },
                       .epochs = 2 },
            .make = job_make_trainer,
            .iterations_per_step = iterations },
        out));
}

/* All values of a replica, concatenated; returns their number. */
static inline size_t job_read(uint32_t replica, float *out)
{
    size_t at = 0;
    for (int v = 0; v < MODEL_VARIABLES; v++) {
        OK(copse_variable_read(job.m.variables[v], replica, out + at));
        const copse_shape s = copse_variable_shape(job.m.variables[v]);
        at += s.rank == 2 ? s.dims[0] * s.dims[1] : s.dims[0];
    }
    assert_true(at <= VALUES);
    return at;
}

#endif
