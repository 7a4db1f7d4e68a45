/* SPDX-License-Identifier: MIT */
/* Training with an evaluation after each step: a confusion matrix to which each replica adds its own
   examples, and which is summed when it is read. Usage: evaluation [DEVICES], as host:0,host:0 */
#include <stdio.h>

#include "copse/compat/replicated.h"
#include "copse/copse.h"
#include "copse/distribute/call.h"
#include "copse/train/update.h"

enum { EXAMPLES = 24, COLUMNS = 4, CLASSES = 3, STEPS = 20 };
static copse_variable *weights, *confusion; /* [COLUMNS, CLASSES] and [CLASSES, CLASSES] */
static copse_tower_optimizer *optimizer;

static float number(int i, int seed) /* -1 to 1 */
{
    return (float)((i * 37 + seed * 11) % 23) / 11.0f - 1.0f;
}

static copse_tensor *logits_of(copse_graph *g, const copse_batch *in)
{
    return copse_matmul(g, copse_input(in, "x"), copse_variable_tensor(weights), false, false);
}

/* This replica's part of the mean loss, and its derivative. */
static copse_tensor *learn(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *w = copse_variable_tensor(weights), *dw;
    copse_tensor *loss =
        copse_sparse_cross_entropy(g, logits_of(g, in), copse_input(in, "y"), COPSE_SUM);
    (void)user;
    loss = copse_multiply_by(g, loss, 1.0f / EXAMPLES);
    copse_gradients(g, loss, NULL, &w, 1, &dw);
    copse_output(g, "slope", dw);
    copse_output(g, "loss", loss);
    return NULL;
}

/* Rows are classes, columns what was predicted. */
static copse_tensor *count(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *is = copse_one_hot(g, copse_input(in, "y"), CLASSES);
    copse_tensor *guess = copse_one_hot(g, copse_argmax(g, logits_of(g, in), 1), CLASSES);
    copse_tensor *counts = copse_matmul(g, is, guess, true, false);
    (void)user;
    copse_update(g, confusion, copse_add(g, copse_variable_tensor(confusion), counts));
    return NULL;
}

static copse_status make_batch(copse_context *ctx, copse_strategy *st, int step, copse_value **out)
{
    float x[EXAMPLES][COLUMNS];
    int32_t y[EXAMPLES];
    copse_value *both[2] = { NULL }, *all = NULL;
    for (int i = 0; i < EXAMPLES * COLUMNS; i++)
        x[i / COLUMNS][i % COLUMNS] = number(i, step);
    for (int i = 0; i < EXAMPLES; i++)
        y[i] = x[i][0] > x[i][1] ? 0 : x[i][2] > 0 ? 1 : 2;
    copse_status s =
        copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(EXAMPLES, COLUMNS), x, &both[0]);
    s = s ? s : copse_value_create(ctx, COPSE_I32, COPSE_SHAPE(EXAMPLES), y, &both[1]);
    s = s ? s : copse_value_dict(ctx, (const char *const[]){ "x", "y" }, both, 2, &all);
    s = s ? s : copse_strategy_split(st, all, out);
    copse_value_release(&all);
    copse_value_release(&both[0]);
    copse_value_release(&both[1]);
    return s;
}

static copse_status train(copse_context *ctx, copse_strategy *st, int step)
{
    copse_value *batch, *out = NULL, *sum = NULL, *matrix = NULL;
    float loss, m[CLASSES][CLASSES] = { { 0 } };
    COPSE_TRY(make_batch(ctx, st, step, &batch));
    copse_status s = copse_strategy_map(st, learn, NULL, batch, &out);
    copse_value *each = copse_value_find(out, "loss");
    const struct copse_tower_gradient pair = { copse_value_find(out, "slope"), weights };
    s = s ? s : copse_tower_apply(optimizer, &pair, 1, true);
    s = s ? s : copse_tower_finish(optimizer);
    s = s ? s : copse_strategy_reduce(st, COPSE_REDUCE_SUM, each, NULL, &sum);
    s = s ? s : copse_value_read(sum, &loss);
    s = s ? s : copse_variable_assign(confusion, m);
    s = s ? s : copse_strategy_map(st, count, NULL, batch, NULL);
    s = s ? s : copse_read(confusion, &matrix); /* the sum of the replicas' counts */
    s = s ? s : copse_value_read(matrix, m);
    if (!s)
        printf("%.7f %g %g %g\n", (double)loss, (double)m[0][0], (double)m[1][1], (double)m[2][2]);
    copse_value_release(&matrix);
    copse_value_release(&sum);
    copse_value_release(&out);
    copse_value_release(&batch);
    return s;
}

int main(int argc, char **argv)
{
    const struct copse_tower_params how = { .optimizer = { COPSE_MOMENTUM,
                                                           .learning_rate = 0.3f } };
    float start[COLUMNS * CLASSES];
    const struct copse_variable_params w = { "weights", COPSE_SHAPE(COLUMNS, CLASSES),
                                             .values = start },
                                       c = { "confusion", COPSE_SHAPE(CLASSES, CLASSES),
                                             .synchronization = COPSE_SYNC_ON_READ,
                                             .aggregation = COPSE_AGGREGATION_SUM };
    copse_context *ctx = NULL;
    copse_strategy *st = NULL;
    copse_status s = copse_context_create(NULL, &ctx);
    for (int k = 0; k < COLUMNS * CLASSES; k++)
        start[k] = 0.3f * number(k, 1);
    s = s ? s : copse_strategy_open(ctx, argc > 1 ? argv[1] : "host:0", NULL, &st);
    s = s ? s : copse_variable_create(st, &w, &weights);
    s = s ? s : copse_variable_create(st, &c, &confusion);
    s = s ? s : copse_tower_create(st, &how, &optimizer);
    for (int step = 0; step < STEPS && !s; step++)
        s = train(ctx, st, step);
    if (s)
        fprintf(stderr, "evaluation: %s\n", copse_last_error());
    copse_tower_release(&optimizer);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
