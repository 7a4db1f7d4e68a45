/* SPDX-License-Identifier: MIT */
/* A contrastive loss (InfoNCE: van den Oord, Li and Vinyals, 2018) over the batches of all replicas:
   each example must be more similar to its other view than to those of all other examples, also of
   other replicas. Usage: contrastive [DEVICES], as host:0,host:0 */
#include <stdio.h>

#include "copse/compat/replicated.h"
#include "copse/copse.h"
#include "copse/distribute/call.h"
#include "copse/distribute/sync.h"

enum { EXAMPLES = 12, COLUMNS = 6, HIDDEN = 8, FEATURES = 4, STEPS = 20 };
static copse_variable *variables[2]; /* [COLUMNS, HIDDEN] and [HIDDEN, FEATURES] */
static copse_tower_optimizer *optimizer;

static float number(int i, int seed) /* -1 to 1 */
{
    return (float)((i * 37 + seed * 11) % 23) / 11.0f - 1.0f;
}

/* A vector of length 1 for each row. */
static copse_tensor *encode(copse_graph *g, copse_tensor *x, copse_tensor *const *w)
{
    static const uint32_t last = 1;
    x = copse_dense(g, x, w[0], NULL, COPSE_TANH);
    x = copse_dense(g, x, w[1], NULL, COPSE_LINEAR);
    copse_tensor *length = copse_sum(g, copse_square(g, x), &last, 1, true);
    return copse_mul(g, x, copse_rsqrt(g, length));
}

static copse_tensor *learn(copse_graph *g, const copse_batch *in, void *user)
{
    const uint32_t rows = copse_tensor_shape(copse_input(in, "0")).dims[0];
    copse_tensor *w[] = { copse_variable_tensor(variables[0]),
                          copse_variable_tensor(variables[1]) };
    copse_tensor *views[2], *dw[2];
    int32_t labels[EXAMPLES];
    (void)user;
    copse_split(g, copse_input(in, "0"), 1, NULL, 2, views);
    copse_tensor *queries = encode(g, views[0], w);
    copse_tensor *keys = copse_all_gather(g, encode(g, views[1], w), in->replica);
    copse_tensor *logits = copse_matmul(g, queries, keys, false, true);
    logits = copse_multiply_by(g, logits, 5); /* 1 / temperature */
    for (uint32_t i = 0; i < rows; i++)
        labels[i] = (int32_t)(in->replica * rows + i);
    copse_tensor *of_keys = copse_constant(g, COPSE_I32, COPSE_SHAPE(rows), labels);
    copse_tensor *loss = copse_sparse_cross_entropy(g, logits, of_keys, COPSE_SUM);
    loss = copse_multiply_by(g, loss, 1.0f / EXAMPLES); /* this replica's part of the mean */
    copse_gradients(g, loss, NULL, w, 2, dw);
    copse_output(g, "0", dw[0]);
    copse_output(g, "1", dw[1]);
    copse_output(g, "loss", loss);
    return NULL;
}

/* Two views of each example, side by side: the second is the first with noise. */
static copse_status make_batch(copse_context *ctx, copse_strategy *st, int step, copse_value **out)
{
    float rows[EXAMPLES][2][COLUMNS];
    copse_value *all;
    for (int i = 0; i < EXAMPLES; i++)
        for (int k = 0; k < COLUMNS; k++) {
            rows[i][0][k] = number(i * COLUMNS + k, step);
            rows[i][1][k] = rows[i][0][k] + 0.3f * number(i + 5 * k, 2 * step + 1);
        }
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(EXAMPLES, 2 * COLUMNS), rows, &all));
    const copse_status s = copse_strategy_split(st, all, out);
    copse_value_release(&all);
    return s;
}

static copse_status train(copse_context *ctx, copse_strategy *st, int step)
{
    copse_value *batch, *out = NULL, *sum = NULL;
    float loss;
    COPSE_TRY(make_batch(ctx, st, step, &batch));
    copse_status s = copse_strategy_map(st, learn, NULL, batch, &out);
    copse_value *each = copse_value_find(out, "loss");
    const struct copse_tower_gradient pairs[] = { { copse_value_find(out, "0"), variables[0] },
                                                  { copse_value_find(out, "1"), variables[1] } };
    s = s ? s : copse_tower_apply(optimizer, pairs, 2, true);
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
    const copse_shape shapes[] = { COPSE_SHAPE(COLUMNS, HIDDEN), COPSE_SHAPE(HIDDEN, FEATURES) };
    const struct copse_tower_params how = { .optimizer = { COPSE_SGD, .learning_rate = 0.1f } };
    const char *const names[] = { "w0", "w1" };
    copse_context *ctx = NULL;
    copse_strategy *st = NULL;
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : copse_strategy_open(ctx, argc > 1 ? argv[1] : "host:0", NULL, &st);
    for (int i = 0; i < 2 && !s; i++) {
        float values[COLUMNS * HIDDEN];
        struct copse_variable_params p = { names[i], .shape = shapes[i], .values = values };
        for (int k = 0; k < COLUMNS * HIDDEN; k++)
            values[k] = 0.5f * number(k, i);
        s = copse_variable_create(st, &p, &variables[i]);
    }
    s = s ? s : copse_tower_create(st, &how, &optimizer);
    for (int step = 0; step < STEPS && !s; step++)
        s = train(ctx, st, step);
    if (s)
        fprintf(stderr, "contrastive: %s\n", copse_last_error());
    copse_tower_release(&optimizer);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
