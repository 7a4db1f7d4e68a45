/* SPDX-License-Identifier: MIT */
/* Training of a small model on two fakes whose kernels are the host functions, for tests of
   cross-checks and audits. */
#ifndef COPSE_WATCH_RIG_H
#define COPSE_WATCH_RIG_H

#include "copse/train/audit.h"
#include "core/train/trainer.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/fake/kept.h"
#include "tests/rig/train/train_model.h"

static copse_context *ctx;
static float data_x[MODEL_ROWS * MODEL_IN];
static int32_t data_y[MODEL_ROWS];
static uint64_t job_seed = 3;
static copse_tensor *(*job_loss)(copse_graph *, const copse_batch *, void *) = model_loss;
static uint32_t unused_elements; /* of a variable that the loss does not depend on; 0: none */

struct job {
    copse_strategy *st;
    copse_trainer *t;
    struct model m;
};

/* A context whose kernel cache is `kept`. Self-tests would find the faults first. */
static inline void open_context(void)
{
    OK(copse__context_create_with(
        &(struct copse_context_params){ .no_self_test = true,
                                        .cache = { .get = get_kept, .put = keep } },
        fake_backends, &ctx));
}

static inline int begin(void **state)
{
    (void)state;
    model_data(data_x, data_y);
    fake_reset();
    copse_fake.device_count = 2;
    open_context();
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    drop_kept();
    fake_reset();
    return 0;
}

static inline void open_job(struct job *j, size_t replicas, copse_optimizer_kind kind,
                            const struct copse_audit_params *audit)
{
    const char *devices[] = { "fake:0", "fake:1" };
    const struct copse_trainer_params p = {
        .loss = job_loss,
        .user = &j->m,
        .optimizer = { .kind = kind, .learning_rate = 1e-2f },
        .seed = job_seed,
    };
    *j = (struct job){ .st = NULL };
    OK(copse_mirrored_create(ctx, devices, replicas,
                             &(struct copse_strategy_params){ .bucket_bytes = 0 }, &j->st));
    OK(model_create(&j->m, j->st));
    copse_variable *unused;
    const struct copse_variable_params u = { .name = "unused",
                                             .shape = COPSE_SHAPE(unused_elements) };
    if (unused_elements > 0)
        OK(copse_variable_create(j->st, &u, &unused));
    j->m.dropout = 0.2f;
    OK(copse_trainer_create(j->st, &p, &j->t));
    OK(copse_trainer_audit(j->t, audit));
}

static inline void close_job(struct job *j)
{
    copse_trainer_release(&j->t);
    copse_strategy_release(&j->st);
}

static inline copse_status step(struct job *j, uint64_t i)
{
    struct copse_step_result r;
    const size_t first = (size_t)i % 5 * 32;
    const struct copse_host_batch b = rig_kept((struct copse_host_batch){
        RIG_XY(MODEL_IN, data_x + first * MODEL_IN, data_y + first), .count = 32, .first = first });
    COPSE_TRY(copse_trainer_step(j->t, &b));
    return copse_trainer_result(j->t, true, &r);
}

static inline void read_values(struct job *j, float *values)
{
    for (int i = 0; i < MODEL_VARIABLES; i++) {
        const copse_shape s = copse_variable_shape(j->m.variables[i]);
        OK(copse_variable_read(j->m.variables[i], copse_strategy_replicas(j->st) - 1, values));
        values += s.rank == 2 ? s.dims[0] * s.dims[1] : s.dims[0];
    }
}

#endif
