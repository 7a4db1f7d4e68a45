/* SPDX-License-Identifier: MIT */
/* Shared by the tests of training loops of the application: a perceptron whose gradients a call
   computes, its batches, and a trainer that does the same. `ctx` is the test's. */
#ifndef COPSE_LOOP_RIG_H
#define COPSE_LOOP_RIG_H

#include "copse/compat/replicated.h"
#include "copse/distribute/call.h"
#include "copse/distribute/replica.h"
#include "copse/matmul.h"
#include "copse/ops.h"
#include "core/variable/variable.h"

enum { ROWS = 12, COLUMNS = 5, HIDDEN = 7, CLASSES = 3, STEPS = 5 };
enum { WEIGHTS = COLUMNS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES };

struct net {
    copse_variable *v[4];
    float part; /* 1 / replicas of all workers */
};

static const char *const net_names[] = { "w1", "b1", "w2", "b2" };

/* Clipping is by the norm of each variable, so optimizers over parts do what one does over all. */
static const struct copse_optimizer_params net_rule = { .kind = COPSE_ADAM,
                                                        .learning_rate = 0.1f,
                                                        .clip_norm = 0.05f };

/* Each worker has a seed of its own: all begin with the first one's values. */
static inline copse_status net_create(copse_strategy *st, struct net *n)
{
    const copse_shape shapes[] = { COPSE_SHAPE(COLUMNS, HIDDEN), COPSE_SHAPE(HIDDEN),
                                   COPSE_SHAPE(HIDDEN, CLASSES), COPSE_SHAPE(CLASSES) };
    for (int i = 0; i < 4; i++)
        COPSE_TRY(copse_variable_create(
            st,
            &(struct copse_variable_params){ .name = net_names[i],
                                             .shape = shapes[i],
                                             .initializer = COPSE_INIT_GLOROT_UNIFORM,
                                             .seed = 3 + copse_strategy_first_rank(st) },
            &n->v[i]));
    n->part = 1.0f / (float)copse_strategy_replicas_in_sync(st);
    return COPSE_OK;
}

static inline copse_tensor *net_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *n = user;
    copse_tensor *w[4];
    for (int i = 0; i < 4; i++)
        w[i] = copse_variable_tensor(n->v[i]);
    copse_tensor *h = copse_dense(g, copse_input(in, "x"), w[0], w[1], COPSE_TANH);
    copse_tensor *logits = copse_dense(g, h, w[2], w[3], COPSE_LINEAR);
    return copse_sparse_cross_entropy(g, logits, copse_input(in, "y"), COPSE_MEAN);
}

/* The derivatives of the mean over all replicas, by the names of the variables. */
static inline copse_tensor *net_gradients(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *n = user;
    copse_tensor *x[4], *dx[4], *mean = net_loss(g, in, user);
    for (int i = 0; i < 4; i++)
        x[i] = copse_variable_tensor(n->v[i]);
    copse_gradients(g, mean, copse_scalar(g, n->part), x, 4, dx);
    for (int i = 0; i < 4; i++)
        copse_output(g, net_names[i], dx[i]);
    return NULL;
}

/* Hand over what net_gradients gave for some of the variables. */
static inline copse_status net_apply(copse_tower_optimizer *t, const struct net *n, int first,
                                     int count, const copse_value *result)
{
    struct copse_tower_gradient pairs[4];
    for (int i = 0; i < count; i++)
        pairs[i] = (struct copse_tower_gradient){ copse_value_find(result, net_names[first + i]),
                                                  n->v[first + i] };
    return copse_tower_apply(t, pairs, (size_t)count, true);
}

/* The values on the last replica. */
static inline copse_status net_read(copse_strategy *st, const struct net *n, float *weights)
{
    for (int i = 0; i < 4; i++) {
        COPSE_TRY(copse_variable_read(n->v[i], copse_strategy_replicas(st) - 1, weights));
        weights += n->v[i]->count;
    }
    return COPSE_OK;
}

static inline void net_rows(float *x, int32_t *y, int step)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)((i * 37 + step * 11) % 23) / 11.0f - 1;
    for (int i = 0; i < ROWS; i++)
        y[i] = (i + step) % CLASSES;
}

/* The rows of this worker's replicas. */
static inline copse_status net_batch(copse_context *ctx, copse_strategy *st, int step,
                                     copse_value **out)
{
    const uint32_t each = ROWS / copse_strategy_replicas_in_sync(st),
                   rows = each * copse_strategy_replicas(st),
                   first = each * copse_strategy_first_rank(st);
    float x[ROWS * COLUMNS];
    int32_t y[ROWS];
    copse_value *both[2] = { NULL, NULL }, *all = NULL;
    net_rows(x, y, step);
    copse_status s = copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(rows, COLUMNS),
                                        x + (size_t)first * COLUMNS, &both[0]);
    if (!s)
        s = copse_value_create(ctx, COPSE_I32, COPSE_SHAPE(rows), y + first, &both[1]);
    if (!s)
        s = copse_value_dict(ctx, (const char *const[]){ "x", "y" }, both, 2, &all);
    if (!s)
        s = copse_strategy_split(st, all, out);
    copse_value_release(&all);
    copse_value_release(&both[0]);
    copse_value_release(&both[1]);
    return s;
}

static inline copse_status net_train(copse_strategy *st, float *weights)
{
    struct net n;
    copse_trainer *t;
    COPSE_TRY(net_create(st, &n));
    COPSE_TRY(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = net_loss, .user = &n, .optimizer = net_rule },
        &t));
    copse_status s = COPSE_OK;
    for (int step = 0; step < STEPS && !s; step++) {
        float x[ROWS * COLUMNS];
        int32_t y[ROWS];
        net_rows(x, y, step);
        s = copse_trainer_step(t, &(struct copse_host_batch){
                                      COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(COLUMNS), x },
                                                    { "y", COPSE_I32, COPSE_SCALAR, y }),
                                      .count = ROWS });
    }
    if (!s)
        s = net_read(st, &n, weights);
    copse_trainer_release(&t);
    return s;
}

#endif
