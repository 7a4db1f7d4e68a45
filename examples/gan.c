/* SPDX-License-Identifier: MIT */
/* A generative adversarial network (Goodfellow et al., 2014) that makes points of a parabola: two
   optimizers, each for the variables of one network. Usage: gan [DEVICES], as host:0,host:0 */
#include <stdio.h>

#include "copse/compat/replicated.h"
#include "copse/copse.h"
#include "copse/distribute/call.h"

enum { EXAMPLES = 12, HIDDEN = 8, STEPS = 20 };
static struct net {
    copse_variable *v[2]; /* [2, HIDDEN] and [HIDDEN, outputs] */
    copse_tower_optimizer *optimizer;
} generator, discriminator;

static float number(int i, int seed) /* -1 to 1 */
{
    return (float)((i * 37 + seed * 11) % 23) / 11.0f - 1.0f;
}

static copse_tensor *apply_net(copse_graph *g, copse_tensor *x, const struct net *n)
{
    x = copse_dense(g, x, copse_variable_tensor(n->v[0]), NULL, COPSE_TANH);
    return copse_dense(g, x, copse_variable_tensor(n->v[1]), NULL, COPSE_LINEAR);
}

/* The loss of a discriminator whose examples are all real, or all made. */
static copse_tensor *judge(copse_graph *g, copse_tensor *x, bool is_real)
{
    copse_tensor *logits = apply_net(g, x, &discriminator);
    logits = is_real ? copse_neg(g, logits) : logits;
    return copse_mean(g, copse_softplus(g, logits), NULL, 0, false); /* cross-entropy */
}

/* The loss of one network, and its derivatives: this replica's part of the mean's derivatives. */
static copse_tensor *learn(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *n = user;
    copse_tensor *w[] = { copse_variable_tensor(n->v[0]), copse_variable_tensor(n->v[1]) };
    copse_tensor *dw[2], *both[2];
    copse_split(g, copse_input(in, "0"), 1, NULL, 2, both);
    copse_tensor *loss = judge(g, apply_net(g, both[0], &generator), n == &generator);
    if (n == &discriminator)
        loss = copse_add(g, loss, judge(g, both[1], true));
    copse_gradients(g, loss, copse_scalar(g, 1.0 / in->replicas), w, 2, dw);
    copse_output(g, "0", dw[0]);
    copse_output(g, "1", dw[1]);
    copse_output(g, "loss", loss);
    return NULL;
}

/* Compute on all replicas at once, change the variables of one network, and print its loss. */
static copse_status train(copse_strategy *st, struct net *n, copse_value *batch)
{
    copse_value *out, *mean = NULL;
    float loss;
    COPSE_TRY(copse_strategy_map(st, learn, n, batch, &out));
    const struct copse_tower_gradient pairs[] = { { copse_value_find(out, "0"), n->v[0] },
                                                  { copse_value_find(out, "1"), n->v[1] } };
    copse_value *each = copse_value_find(out, "loss");
    copse_status s = copse_tower_apply(n->optimizer, pairs, 2, n == &generator);
    s = s ? s : copse_tower_finish(n->optimizer);
    s = s ? s : copse_strategy_reduce(st, COPSE_REDUCE_MEAN, each, NULL, &mean);
    s = s ? s : copse_value_read(mean, &loss);
    if (!s)
        printf(n == &generator ? " %.7f\n" : "%.7f", (double)loss);
    copse_value_release(&mean);
    copse_value_release(&out);
    return s;
}

static copse_status make_net(copse_strategy *st, struct net *n, uint32_t outputs)
{
    const struct copse_tower_params how = { .optimizer = { .learning_rate = 0.01f } }; /* Adam */
    const char *const names[][2] = { { "d1", "d2" }, { "g1", "g2" } };
    float values[2 * HIDDEN];
    struct copse_variable_params p = { .shape = COPSE_SHAPE(2, HIDDEN), .values = values };
    for (uint32_t i = 0; i < 2; i++, p.shape = COPSE_SHAPE(HIDDEN, outputs)) {
        for (int k = 0; k < 2 * HIDDEN; k++)
            values[k] = 0.7f * number(k, (int)(2 * outputs + i));
        p.name = names[outputs - 1][i];
        COPSE_TRY(copse_variable_create(st, &p, &n->v[i]));
    }
    return copse_tower_create(st, &how, &n->optimizer);
}

static copse_status make_batch(copse_context *ctx, copse_strategy *st, int step, copse_value **out)
{
    float rows[EXAMPLES][4]; /* noise, and a point */
    copse_value *all;
    for (int i = 0; i < EXAMPLES; i++) {
        for (int k = 0; k < 3; k++)
            rows[i][k] = number(i + 5 * k, (k + 1) * step);
        rows[i][3] = rows[i][2] * rows[i][2];
    }
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(EXAMPLES, 4), rows, &all));
    const copse_status s = copse_strategy_split(st, all, out);
    copse_value_release(&all);
    return s;
}

int main(int argc, char **argv)
{
    copse_context *ctx = NULL;
    copse_strategy *st = NULL;
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : copse_strategy_open(ctx, argc > 1 ? argv[1] : "host:0", NULL, &st);
    s = s ? s : make_net(st, &generator, 2);
    s = s ? s : make_net(st, &discriminator, 1);
    for (int step = 0; step < STEPS && !s; step++) {
        copse_value *batch = NULL;
        s = make_batch(ctx, st, step, &batch);
        s = s ? s : train(st, &discriminator, batch);
        s = s ? s : train(st, &generator, batch);
        copse_value_release(&batch);
    }
    if (s)
        fprintf(stderr, "gan: %s\n", copse_last_error());
    copse_tower_release(&discriminator.optimizer);
    copse_tower_release(&generator.optimizer);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
