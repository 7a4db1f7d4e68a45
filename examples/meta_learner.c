/* SPDX-License-Identifier: MIT */
/* Model-agnostic meta-learning (Finn, Abbeel and Levine, 2017): weights from which one step of
   gradient descent on a few points of a sine learns this sine. The loss is that after the step, so
   its derivative goes through a gradient. Usage: meta_learner [DEVICES], as host:0,host:0 */
#include <math.h>
#include <stdio.h>

#include "copse/compat/replicated.h"
#include "copse/copse.h"
#include "copse/distribute/call.h"

enum { TASKS = 6, POINTS = 5, HIDDEN = 8, STEPS = 20, WEIGHTS = 3 };
static const char *const names[] = { "w0", "w1", "w2" };
static copse_variable *variables[WEIGHTS]; /* [1, HIDDEN], [1, HIDDEN] and [HIDDEN, 1] */
static copse_tower_optimizer *optimizer;

static float number(int i, int seed) /* -1 to 1 */
{
    return (float)((i * 37 + seed * 11) % 23) / 11.0f - 1.0f;
}

/* tanh(x w0 + w1) w2 with weights of each task; the mean of squares for each, added up. */
static copse_tensor *loss_of(copse_graph *g, copse_tensor *x, copse_tensor *y, copse_tensor **w)
{
    copse_tensor *h = copse_add(g, copse_matmul(g, x, w[0], false, false), w[1]);
    h = copse_matmul(g, copse_tanh(g, h), w[2], false, false);
    h = copse_sum(g, copse_square(g, copse_sub(g, h, y)), NULL, 0, false);
    return copse_multiply_by(g, h, 1.0f / POINTS);
}

/* Half of the points of each task [tasks, POINTS, 2] are learned from, the others judge. */
static copse_tensor *learn(copse_graph *g, const copse_batch *in, void *user)
{
    const uint32_t tasks = copse_tensor_shape(copse_input(in, "0")).dims[0];
    copse_tensor *w[WEIGHTS], *own[WEIGHTS], *dw[WEIGHTS], *half[2], *old[2], *new[2];
    (void)user;
    copse_split(g, copse_input(in, "0"), 1, NULL, 2, half);
    copse_split(g, half[0], 2, NULL, 2, old);
    copse_split(g, half[1], 2, NULL, 2, new);
    for (int i = 0; i < WEIGHTS; i++) {
        w[i] = copse_variable_tensor(variables[i]);
        const copse_shape s = copse_variable_shape(variables[i]);
        own[i] = copse_broadcast_to(g, w[i], COPSE_SHAPE(tasks, s.dims[0], s.dims[1]));
    }
    copse_gradients(g, loss_of(g, old[0], old[1], own), NULL, own, WEIGHTS, dw);
    for (int i = 0; i < WEIGHTS; i++)
        own[i] = copse_sub(g, own[i], copse_multiply_by(g, dw[i], 0.1f));
    copse_tensor *loss = loss_of(g, new[0], new[1], own);
    loss = copse_multiply_by(g, loss, 1.0f / TASKS); /* this replica's part of the mean */
    copse_gradients(g, loss, NULL, w, WEIGHTS, dw);
    for (int i = 0; i < WEIGHTS; i++)
        copse_output(g, names[i], dw[i]);
    copse_output(g, "loss", loss);
    return NULL;
}

static copse_status make_batch(copse_context *ctx, copse_strategy *st, int step, copse_value **out)
{
    float rows[TASKS][2 * POINTS][2];
    copse_value *all;
    for (int t = 0; t < TASKS; t++)
        for (int i = 0; i < 2 * POINTS; i++) {
            rows[t][i][0] = 3 * number(i + 3 * t, step);
            rows[t][i][1] = (1.5f + number(t, step)) * sinf(rows[t][i][0] + number(t, 2 * step));
        }
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(TASKS, 2 * POINTS, 2), rows, &all));
    const copse_status s = copse_strategy_split(st, all, out);
    copse_value_release(&all);
    return s;
}

static copse_status train(copse_context *ctx, copse_strategy *st, int step)
{
    struct copse_tower_gradient pairs[WEIGHTS];
    copse_value *batch, *out = NULL, *sum = NULL;
    float loss;
    COPSE_TRY(make_batch(ctx, st, step, &batch));
    copse_status s = copse_strategy_map(st, learn, NULL, batch, &out);
    copse_value *each = copse_value_find(out, "loss");
    for (int i = 0; i < WEIGHTS; i++)
        pairs[i] =
            (struct copse_tower_gradient){ copse_value_find(out, copse_variable_name(variables[i])),
                                           variables[i] };
    s = s ? s : copse_tower_apply(optimizer, pairs, WEIGHTS, true);
    s = s ? s : copse_tower_finish(optimizer);
    s = s ? s : copse_strategy_reduce(st, COPSE_REDUCE_SUM, each, NULL, &sum);
    s = s ? s : copse_value_read(sum, &loss);
    if (!s)
        printf("%.7f\n", (double)loss);
    copse_value_release(&sum);
    copse_value_release(&out);
    copse_value_release(&batch);
    return s;
}

int main(int argc, char **argv)
{
    const copse_shape row = COPSE_SHAPE(1, HIDDEN), shapes[] = { row, row, { 2, { HIDDEN, 1 } } };
    const struct copse_tower_params how = { .optimizer = { .learning_rate = 0.01f } }; /* Adam */
    copse_context *ctx = NULL;
    copse_strategy *st = NULL;
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : copse_strategy_open(ctx, argc > 1 ? argv[1] : "host:0", NULL, &st);
    for (int i = 0; i < WEIGHTS && !s; i++) {
        float values[HIDDEN];
        struct copse_variable_params p = { names[i], .shape = shapes[i], .values = values };
        for (int k = 0; k < HIDDEN; k++)
            values[k] = number(k, i);
        s = copse_variable_create(st, &p, &variables[i]);
    }
    s = s ? s : copse_tower_create(st, &how, &optimizer);
    for (int step = 0; step < STEPS && !s; step++)
        s = train(ctx, st, step);
    if (s)
        fprintf(stderr, "meta_learner: %s\n", copse_last_error());
    copse_tower_release(&optimizer);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
