/* SPDX-License-Identifier: MIT */
/* Trains a network whose loss is one nested expression, with dropout in several operands, and
   prints its variables. nested.sh builds it with several compilers, which evaluate arguments in
   different orders. All of them must print the same bits. */
#include <stdio.h>

#include <copse/copse.h>

struct model {
    copse_tensor *w, *v;
};

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    const bool trains = in->is_training;
    return copse_mean_squared_error(
        g,
        copse_add(
            g,
            copse_mul(g, copse_scalar(g, 0.5),
                      copse_dropout(g, copse_tanh(g, copse_mul(g, copse_input(in, "x"), m->w)),
                                    0.5f, trains)),
            copse_dropout(g, copse_sigmoid(g, copse_mul(g, m->w, copse_input(in, "x"))), 0.25f,
                          trains)),
        copse_mul(g, copse_dropout(g, copse_input(in, "y"), 0.5f, trains), m->v));
}

static copse_status make(copse_strategy *st, const char *name, copse_variable **v,
                         copse_tensor **out)
{
    const struct copse_variable_params p = { .name = name,
                                             .shape = COPSE_SHAPE(4),
                                             .initializer = COPSE_INIT_NORMAL,
                                             .scale = 1,
                                             .seed = 5 };
    COPSE_TRY(copse_variable_create(st, &p, v));
    *out = copse_variable_tensor(*v);
    return COPSE_OK;
}

static copse_status train(copse_strategy *st, copse_trainer **t)
{
    static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8 }, y[] = { 8, 7, 6, 5, 4, 3, 2, 1 };
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(4), x },
                                                          { "y", COPSE_F32, COPSE_SHAPE(4), y }),
                                            .count = 2 };
    struct model m;
    copse_variable *v[2];
    float values[4];
    COPSE_TRY(make(st, "w", &v[0], &m.w));
    COPSE_TRY(make(st, "v", &v[1], &m.v));
    const struct copse_trainer_params p = {
        .loss = loss, .user = &m, .optimizer = { .kind = COPSE_ADAM }, .seed = 9
    };
    COPSE_TRY(copse_trainer_create(st, &p, t));
    for (int i = 0; i < 20; i++)
        COPSE_TRY(copse_trainer_step(*t, &batch));
    for (int i = 0; i < 2; i++) {
        COPSE_TRY(copse_variable_read(v[i], 0, values));
        for (int k = 0; k < 4; k++)
            printf("%a%c", (double)values[k], k < 3 ? ' ' : '\n');
    }
    return COPSE_OK;
}

int main(void)
{
    copse_context *ctx = NULL;
    copse_strategy *st = NULL;
    copse_trainer *t = NULL;
    copse_status s;
    COPSE_TRY_OR(end, s, copse_context_create(NULL, &ctx));
    COPSE_TRY_OR(end, s, copse_strategy_open(ctx, "host:0", NULL, &st));
    s = train(st, &t);
end:
    if (s != COPSE_OK)
        fprintf(stderr, "nested: %s\n", copse_last_error());
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
