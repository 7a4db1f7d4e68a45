/* SPDX-License-Identifier: MIT */
/* A user's first program, built outside the tree by install.sh: finds a and b of y = a x + b. */
#include <math.h>
#include <stdio.h>

#include <copse/ops.h>
#include <copse/trainer.h>

struct line {
    copse_variable *a, *b;
};

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct line *m = user;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *guess = copse_mul(g, x, copse_variable_tensor(m->a));
    guess = copse_add(g, guess, copse_variable_tensor(m->b));
    return copse_mean_squared_error(g, guess, y);
}

static copse_status fit(copse_context *ctx, float *a, float *b)
{
    const float x[] = { -1, 0, 1, 2 }, y[] = { -1, 1, 3, 5 }; /* y = 2 x + 1 */
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(1), x },
                                                          { "y", COPSE_F32, COPSE_SHAPE(1), y }),
                                            .count = 4 };
    struct copse_step_result result;
    struct line m;
    copse_strategy *st = NULL;
    copse_trainer *t = NULL;

    COPSE_TRY(copse_one_device_create(ctx, "host:0", NULL, &st));
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "a", .shape = COPSE_SHAPE(1) }, &m.a));
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "b", .shape = COPSE_SHAPE(1) }, &m.b));
    const struct copse_trainer_params params = {
        .loss = loss,
        .user = &m,
        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.1f },
    };
    COPSE_TRY(copse_trainer_create(st, &params, &t));
    for (int step = 0; step < 200; step++) {
        COPSE_TRY(copse_trainer_step(t, &batch));
        COPSE_TRY(copse_trainer_result(t, true, &result));
    }
    COPSE_TRY(copse_variable_read(m.a, 0, a));
    COPSE_TRY(copse_variable_read(m.b, 0, b));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return COPSE_OK;
}

int main(void)
{
    float a = 0, b = 0;
    copse_context *ctx = NULL;
    copse_status s = copse_context_create(NULL, &ctx);
    if (s == COPSE_OK)
        s = fit(ctx, &a, &b);
    if (s != COPSE_OK) {
        fprintf(stderr, "%s\n", copse_last_error());
        return 1;
    }
    copse_context_release(&ctx);
    printf("y = %.3f x + %.3f\n", (double)a, (double)b);
    return fabsf(a - 2.0f) < 0.01f && fabsf(b - 1.0f) < 0.01f ? 0 : 1;
}
