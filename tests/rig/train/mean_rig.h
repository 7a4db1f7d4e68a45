/* SPDX-License-Identifier: MIT */
/* A model whose gradient is the mean of its data, for tests of optimizers: the loss is the mean
   over examples of x . w. Its steps, and the strategies of one process. The test has `ctx`, the
   numbers VARIABLES, ALL (elements of them together), ROWS, STEPS and STRATEGIES, and a table
   `parts` with the name and the count of each variable, before it includes this. */
#ifndef COPSE_MEAN_RIG_H
#define COPSE_MEAN_RIG_H

#include "copse/distribute/accelerator.h"
#include "copse/distribute/parameter_server.h"
#include "copse/loop/feed.h"
#include "tests/rig/rig.h"

struct model {
    copse_variable *v[VARIABLES];
    copse_tensor *w[VARIABLES];
};

static float data_x[STEPS][ROWS * ALL];

/* Numbers from -2 to 2. */
static inline void make_data(void)
{
    uint32_t seed = 1;
    for (int t = 0; t < STEPS; t++)
        for (int i = 0; i < ROWS * ALL; i++) {
            seed = seed * 1664525u + 1013904223u;
            data_x[t][i] = (float)(int32_t)(seed >> 8) / (1 << 22) - 2.0f;
        }
}

/* The gradient of element i in step t, from 0, in double precision. */
static inline double gradient_of(int t, int i)
{
    double g = 0;
    for (int r = 0; r < ROWS; r++)
        g += (double)data_x[t][r * ALL + i] / ROWS;
    return g;
}

/* The value of element i before training; never 0. */
static inline float first_value(int i)
{
    return (float)(i % 17) / 8.0f - 1.0625f;
}

static inline copse_status model_create(struct model *m, copse_strategy *st)
{
    float values[ALL];
    int at = 0;
    for (int i = 0; i < ALL; i++)
        values[i] = first_value(i);
    for (int k = 0; k < VARIABLES; at += parts[k++].count) {
        const struct copse_variable_params p = { .name = parts[k].name,
                                                 .values = values + at,
                                                 .shape = COPSE_SHAPE((uint64_t)parts[k].count) };
        COPSE_TRY(copse_variable_create(st, &p, &m->v[k]));
        m->w[k] = copse_variable_tensor(m->v[k]);
    }
    return COPSE_OK;
}

/* x . w of each example. */
static inline copse_tensor *product(copse_graph *g, const copse_batch *in, void *user)
{
    static const uint32_t axis[] = { 1 };
    const struct model *m = user;
    copse_tensor *w, *x;
    x = copse_input(in, "x");
    w = copse_concat(g, m->w, VARIABLES, 0);
    x = copse_mul(g, x, w);
    return copse_sum(g, x, axis, 1, false);
}

static inline copse_tensor *model_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *y = product(g, in, user);
    return copse_mean(g, y, NULL, 0, false);
}

/* The model, and a trainer of it. */
static inline copse_status create(copse_strategy *st, const struct copse_optimizer_params *p,
                                  struct model *m, copse_trainer **out)
{
    COPSE_TRY(model_create(m, st));
    return copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = model_loss, .user = m, .optimizer = *p }, out);
}

/* Steps `from` to below `to`; with an accelerator each is a run. */
static inline copse_status train(copse_trainer *t, int from, int to)
{
    for (int i = from; i < to; i++) {
        const struct copse_column x = { "x", COPSE_F32, COPSE_SHAPE(ALL), data_x[i] };
        const struct copse_host_batch batch = { .columns = &x, .column_count = 1, .count = ROWS };
        if (copse_accelerator_steps_per_run(copse_trainer_strategy(t)) > 1) {
            COPSE_TRY(copse_trainer_feed(t, &batch));
            COPSE_TRY(copse_trainer_run(t));
        } else {
            COPSE_TRY(copse_trainer_step(t, &batch));
        }
    }
    return COPSE_OK;
}

static inline copse_status read_values(const struct model *m, float value[ALL])
{
    int at = 0;
    for (int k = 0; k < VARIABLES; at += parts[k++].count)
        COPSE_TRY(copse_variable_read(m->v[k], 0, value + at));
    return COPSE_OK;
}

/* Strategies of one process, on the host. A test that wants none with servers has 4 STRATEGIES. */
enum { ONE_DEVICE, MIRRORED, STAGED, ACCELERATOR, PARAMETER_SERVERS };

/* NULL behind the last one. */
static inline copse_strategy *strategy_of(int i, const char **name)
{
    static const char *const ids[] = { "host:0", "host:0", "host:0" };
    static const char *const names[] = { "one device", "mirrored", "staged", "accelerator",
                                         "parameter server" };
    const struct copse_strategy_params small = {
        .bucket_bytes = 512,
        .transfer = i == STAGED ? COPSE_TRANSFER_STAGED : COPSE_TRANSFER_AUTO,
    };
    const struct copse_accelerator_params runs = { .steps_per_run = 2 };
    copse_strategy *st = NULL;
    if (i == STRATEGIES)
        return NULL;
    *name = names[i];
    if (i == ONE_DEVICE)
        OK(copse_one_device_create(ctx, "host:0", &small, &st));
    else if (i == ACCELERATOR)
        OK(copse_accelerator_create(ctx, ids, 2, &runs, &st));
    else if (i == PARAMETER_SERVERS)
        OK(copse_parameter_server_create(ctx, NULL, ids, 2, &small, &st));
    else
        OK(copse_mirrored_create(ctx, ids, 3, &small, &st));
    return st;
}

#endif
