/* SPDX-License-Identifier: MIT */
/* What the tests of clipping and of gradient scaling share: a model of several variables, and
   strategies of each kind. The loss is the sum over examples of x . w, so the gradient of w is the
   sum of the rows of x. They are whole numbers: the sum is exact in any order, and results must
   have the same bits however it is formed. Include after cmocka.h. */
#ifndef COPSE_GRADIENT_RIG_H
#define COPSE_GRADIENT_RIG_H

#include <math.h>

#include "copse/compat/replicated.h"
#include "copse/copse.h"
#include "copse/distribute/accelerator.h"
#include "copse/distribute/parameter_server.h"
#include "copse/loop/feed.h"
#include "core/comm/local.h"
#include "tests/rig/workers/worker_rig.h"

#define OK(expr)                                                                       \
    do {                                                                               \
        const copse_status ok_ = (expr);                                               \
        if (ok_)                                                                       \
            fail_msg("%s: %s: %s", #expr, copse_status_name(ok_), copse_last_error()); \
    } while (0)

/* The first variable is of more than a slice and more than a launch group, the last one is
   frozen. */
enum { VARIABLES = 4, TRAINED = 3, ALL = 5000 + 7 + 300, ROWS = 15, SETS = 4, MOST = 100 };
static const int counts[VARIABLES] = { 5000, 7, 300, 20 };
static const int starts[VARIABLES] = { 0, 5000, 5007, 0 };

static float data_x[SETS][ROWS * ALL];

/* Of different sizes, so that some steps are clipped and some are not. */
static inline void make_data(void)
{
    uint32_t seed = 1;
    for (int t = 0; t < SETS; t++)
        for (int i = 0; i < ROWS * ALL; i++) {
            seed = seed * 1664525u + 1013904223u;
            data_x[t][i] = ldexpf((float)(int)((seed >> 16) % 17) - 8.0f, -2 * t);
        }
}

static inline float first_value(int i)
{
    return (float)(i % 17) / 8.0f - 1.0f;
}

struct model {
    copse_variable *v[VARIABLES];
    copse_tensor *w[TRAINED];
};

static inline copse_status model_create(struct model *m, copse_strategy *st)
{
    static const char *const names[] = { "large", "small", "middle", "frozen" };
    float values[5000];
    for (int k = 0; k < VARIABLES; k++) {
        for (int i = 0; i < counts[k]; i++)
            values[i] = first_value(starts[k] + i);
        const struct copse_variable_params p = { .name = names[k],
                                                 .shape = COPSE_SHAPE((uint64_t)counts[k]),
                                                 .values = values,
                                                 .is_frozen = k == TRAINED };
        COPSE_TRY(copse_variable_create(st, &p, &m->v[k]));
        if (k < TRAINED)
            m->w[k] = copse_variable_tensor(m->v[k]);
    }
    return COPSE_OK;
}

static inline copse_tensor *model_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    copse_tensor *w, *x, *y;
    x = copse_input(in, "x");
    w = copse_concat(g, m->w, TRAINED, 0);
    y = copse_mul(g, x, w);
    return copse_sum(g, y, NULL, 0, false);
}

/* ---- a run ---- */

struct job {
    struct copse_optimizer_params optimizer;
    uint32_t accumulate; /* of each step */
    int steps;
};

struct result {
    float value[ALL], frozen[20];
};

static inline copse_status step(copse_trainer *t, const float *x, int rows)
{
    const struct copse_column column = { "x", COPSE_F32, COPSE_SHAPE(ALL), x };
    const struct copse_host_batch batch = { .columns = &column,
                                            .column_count = 1,
                                            .count = (size_t)rows };
    const uint32_t run = copse_accelerator_steps_per_run(copse_trainer_strategy(t));
    if (run <= 1)
        return copse_trainer_step(t, &batch);
    if (copse_trainer_fed(t) == run)
        COPSE_TRY(copse_trainer_run(t));
    return copse_trainer_feed(t, &batch);
}

static inline copse_status create(copse_strategy *st, const struct job *job, struct model *m,
                                  copse_trainer **out)
{
    COPSE_TRY(model_create(m, st));
    return copse_trainer_create(st,
                                &(struct copse_trainer_params){ .loss = model_loss,
                                                                .user = m,
                                                                .reduction = COPSE_LOSS_SUM,
                                                                .accumulate = job->accumulate,
                                                                .optimizer = job->optimizer },
                                out);
}

static inline copse_status read_all(const struct model *m, struct result *out)
{
    for (int k = 0; k < TRAINED; k++)
        COPSE_TRY(copse_variable_read(m->v[k], 0, out->value + starts[k]));
    return copse_variable_read(m->v[TRAINED], 0, out->frozen);
}

/* ---- strategies of one process ---- */

static const struct setup {
    const char *name;
    enum { ONE, MIRRORED, SERVER, CORES } kind;
    uint32_t replicas;
    bool is_mixed; /* on all devices found */
    struct copse_strategy_params params;
} setups[] = {
    { "one device", ONE, 1, false, { .bucket_bytes = 0 } },
    { "mirrored 2", MIRRORED, 2, false, { .bucket_bytes = 512 } },
    { "mirrored 3", MIRRORED, 3, false, { .bucket_bytes = 0 } },
    { "mirrored 5, staged",
      MIRRORED,
      5,
      false,
      { .bucket_bytes = 512, .transfer = COPSE_TRANSFER_STAGED } },
    { "mirrored 5, tree", MIRRORED, 5, false, { .reduction = COPSE_REDUCE_TREE } },
    { "mirrored 3, tree, staged",
      MIRRORED,
      3,
      false,
      { .reduction = COPSE_REDUCE_TREE, .transfer = COPSE_TRANSFER_STAGED } },
    { "mirrored 2, to one",
      MIRRORED,
      2,
      false,
      { .bucket_bytes = 512, .reduction = COPSE_REDUCE_TO_ONE } },
    { "mirrored on all devices", MIRRORED, 3, true, { .bucket_bytes = 512 } },
    { "mirrored 5 on all devices, staged",
      MIRRORED,
      5,
      true,
      { .transfer = COPSE_TRANSFER_STAGED } },
    { "parameter server", SERVER, 2, false, { .bucket_bytes = 512 } },
    { "accelerator", CORES, 2, false, { .bucket_bytes = 0 } },
    { "accelerator, staged", CORES, 3, false, { .transfer = COPSE_TRANSFER_STAGED } },
};
enum { SETUPS = sizeof setups / sizeof *setups };

static inline copse_strategy *make_strategy(const struct setup *s)
{
    const char *ids[8];
    copse_strategy *st = NULL;
    for (uint32_t r = 0; r < s->replicas; r++)
        ids[r] = s->is_mixed ? found[r % found_count] : "host:0";
    const struct copse_accelerator_params cores = { .steps_per_run = 3, .strategy = s->params };
    switch (s->kind) {
    case ONE:
        OK(copse_one_device_create(ctx, ids[0], &s->params, &st));
        break;
    case MIRRORED:
        OK(copse_mirrored_create(ctx, ids, s->replicas, &s->params, &st));
        break;
    case SERVER:
        OK(copse_parameter_server_create(ctx, NULL, ids, s->replicas, &s->params, &st));
        break;
    case CORES:
        OK(copse_accelerator_create(ctx, ids, s->replicas, &cores, &st));
        break;
    }
    return st;
}

static inline void same(const char *name, const struct result *a, const struct result *b)
{
    for (int i = 0; i < ALL; i++)
        if (memcmp(&a->value[i], &b->value[i], sizeof(float)) != 0)
            fail_msg("%s: value %d is %a, not %a", name, i, (double)a->value[i],
                     (double)b->value[i]);
}

#endif
