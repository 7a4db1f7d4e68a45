/* SPDX-License-Identifier: MIT */
/* A training loop of the application: a call computes the gradients of a perceptron, and a tower
   optimizer applies them. The same arithmetic as a step of a trainer. */
#include "tools/bench/bench_loop.h"

#include <stdio.h>

#include "copse/compat/replicated.h"
#include "copse/distribute/call.h"
#include "copse/matmul.h"
#include "copse/ops/losses.h"

enum { MOST_VARIABLES = 2 * BENCH_MOST_LAYERS };

struct loop {
    copse_strategy *strategy;
    const struct bench_perceptron *perceptron;
    const struct bench_batch *batch;
    copse_variable *variables[MOST_VARIABLES];
    char names[MOST_VARIABLES][16];
    copse_tower_optimizer *optimizer;
};

static copse_tensor *loop_gradients(copse_graph *g, const copse_batch *in, void *user)
{
    const struct loop *l = user;
    const uint32_t layers = l->perceptron->layers;
    copse_tensor *w[MOST_VARIABLES], *dw[MOST_VARIABLES], *x = copse_input(in, "x");
    for (uint32_t i = 0; i < 2 * layers; i++)
        w[i] = copse_variable_tensor(l->variables[i]);
    for (uint32_t i = 0; i < layers; i++)
        x = copse_dense(g, x, w[2 * i], w[2 * i + 1], i + 1 < layers ? COPSE_RELU : COPSE_LINEAR);
    copse_tensor *loss = copse_sparse_cross_entropy(g, x, copse_input(in, "y"), COPSE_MEAN);
    /* of the mean over the examples of all replicas */
    copse_tensor *part = copse_scalar(g, 1.0 / copse_strategy_replicas_in_sync(l->strategy));
    copse_gradients(g, loss, part, w, 2 * layers, dw);
    for (uint32_t i = 0; i < 2 * layers; i++)
        copse_output(g, l->names[i], dw[i]);
    return NULL;
}

/* A per-replica value of the rows of each replica. */
static copse_status rows_create(copse_strategy *st, copse_type type, size_t row, const void *rows,
                                uint32_t count, copse_value **out)
{
    const uint32_t n = copse_strategy_replicas(st), each = count / n;
    const copse_shape shape = row ? COPSE_SHAPE(each, (uint32_t)row) : COPSE_SHAPE(each);
    copse_value *at[COPSE_MAX_REPLICAS] = { NULL };
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < n && s == COPSE_OK; r++)
        s = copse_value_create_on(st, r, type, shape,
                                  (const char *)rows + (size_t)r * each * (row ? row : 1) * 4,
                                  &at[r]);
    if (s == COPSE_OK)
        s = copse_value_per_replica(st, at, n, out);
    for (uint32_t r = 0; r < n; r++)
        copse_value_release(&at[r]);
    return s;
}

static copse_status batch_create(const struct loop *l, copse_value **out)
{
    static const char *const names[] = { "x", "y" };
    const struct bench_batch *b = l->batch;
    copse_value *both[2] = { NULL, NULL };
    copse_status s =
        rows_create(l->strategy, COPSE_F32, l->perceptron->widths[0], b->x, b->count, &both[0]);
    if (s == COPSE_OK)
        s = rows_create(l->strategy, COPSE_I32, 0, b->labels, b->count, &both[1]);
    if (s == COPSE_OK)
        s = copse_value_dict(b->ctx, names, both, 2, out);
    copse_value_release(&both[0]);
    copse_value_release(&both[1]);
    return s;
}

static copse_status loop_apply(const struct loop *l, const copse_value *gradients)
{
    struct copse_tower_gradient pairs[MOST_VARIABLES];
    for (uint32_t i = 0; i < 2 * l->perceptron->layers; i++)
        pairs[i] = (struct copse_tower_gradient){ copse_value_find(gradients, l->names[i]),
                                                  l->variables[i] };
    return copse_tower_apply(l->optimizer, pairs, 2 * l->perceptron->layers, true);
}

static copse_status loop_step(struct loop *l)
{
    copse_value *batch = NULL, *gradients = NULL;
    l->batch->draw(l->batch->user);
    copse_status s = batch_create(l, &batch);
    if (s == COPSE_OK)
        s = copse_strategy_map(l->strategy, loop_gradients, l, batch, &gradients);
    if (s == COPSE_OK)
        s = loop_apply(l, gradients);
    copse_value_release(&gradients);
    copse_value_release(&batch);
    return s;
}

static copse_status run_loop(void *user, unsigned count)
{
    struct loop *l = user;
    float last[1024];
    copse_status s = copse_scope_enter(l->strategy);
    for (unsigned i = 0; i < count && s == COPSE_OK; i++)
        s = loop_step(l);
    if (s == COPSE_OK) /* waits */
        s = copse_variable_read(l->variables[2 * l->perceptron->layers - 1], 0, last);
    const copse_status left = copse_scope_leave(l->strategy);
    return s == COPSE_OK ? left : s;
}

static copse_status loop_create(struct loop *l)
{
    const struct bench_perceptron *p = l->perceptron;
    for (uint32_t i = 0; i < 2 * p->layers; i++) {
        const uint32_t from = p->widths[i / 2], to = p->widths[i / 2 + 1];
        snprintf(l->names[i], sizeof l->names[i], "%c%u", i % 2 ? 'b' : 'w', i / 2);
        COPSE_TRY(copse_variable_create(
            l->strategy,
            &(struct copse_variable_params){
                .name = l->names[i],
                .shape = i % 2 ? COPSE_SHAPE(to) : COPSE_SHAPE(from, to),
                .initializer = i % 2 ? COPSE_INIT_ZEROS : COPSE_INIT_GLOROT_UNIFORM,
                .seed = 1 },
            &l->variables[i]));
    }
    COPSE_TRY(
        copse_call_configure(l->strategy, &(struct copse_call_params){ .no_cross_check = true }));
    return copse_tower_create(
        l->strategy,
        &(struct copse_tower_params){ .optimizer = { .kind = COPSE_ADAM }, .no_cross_check = true },
        &l->optimizer);
}

copse_status bench_loop(copse_strategy *st, const struct bench_perceptron *p,
                        const struct bench_batch *batch, double seconds, struct timing *t)
{
    struct loop l = { .strategy = st, .perceptron = p, .batch = batch };
    copse_status s = loop_create(&l);
    if (s == COPSE_OK)
        s = bench_time(run_loop, &l, 0.05, seconds, t);
    copse_tower_release(&l.optimizer);
    return s;
}
