/* SPDX-License-Identifier: MIT */
/* How losses become one: the rule is a setting of the trainer, counts examples, and is never
   inferred. */
#include "tests/rig/train/step_rig.h"

struct line {
    copse_variable *w;
    bool is_sum; /* over the examples of the shard */
};

/* (w x - y)^2 with y = 3 x. */
static copse_tensor *line_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct line *l = user;
    copse_tensor *y = copse_multiply_by(g, rig_x(in), 3.0f);
    copse_tensor *error = copse_mul(g, rig_x(in), copse_variable_tensor(l->w));
    error = copse_sub(g, error, y);
    error = copse_square(g, error);
    return l->is_sum ? copse_sum(g, error, NULL, 0, false) : copse_mean(g, error, NULL, 0, false);
}

static struct copse_trainer_params line_params(struct line *l, copse_loss_reduction reduction)
{
    return (struct copse_trainer_params){
        .loss = line_loss,
        .user = l,
        .reduction = reduction,
        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.2f },
    };
}

/* w after one step from 2 over `replicas`, and the loss. */
static float step(size_t replicas, bool is_sum, copse_loss_reduction reduction, const float *x,
                  size_t count, double *loss)
{
    copse_strategy *st = rig_strategy(replicas, NULL);
    struct line l = { rig_scalar(st, "w", 2.0f), is_sum };
    const struct copse_trainer_params params = line_params(&l, reduction);
    struct copse_step_result result;
    copse_trainer *t;
    OK(copse_trainer_create(st, &params, &t));
    OK(copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(1, x), .count = count }));
    OK(copse_trainer_result(t, true, &result));
    const float w = rig_value(l.w, 0);
    *loss = result.loss;
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return w;
}

/* Every replica sees x = [2, 7]: a sum grows with the replicas, a mean does not. */
static void loss_1(void **state)
{
    (void)state;
    float x[10];
    double loss;
    for (int i = 0; i < 10; i++)
        x[i] = i % 2 ? 7.0f : 2.0f;
    for (size_t n = 1; n <= 5; n++) {
        rig_near((double)step(n, true, COPSE_LOSS_SUM, x, 2 * n, &loss), 2.0 + 21.2 * (double)n,
                 2e-5 * (double)n);
        rig_near(loss, 53.0 * (double)n, 1e-4);
        rig_near((double)step(n, false, COPSE_LOSS_MEAN, x, 2 * n, &loss), 12.6, 1e-5);
        rig_near(loss, 26.5, 1e-5);
    }
}

/* One global batch, split evenly and unevenly: weights do not depend on the split. */
static void loss_2(void **state)
{
    (void)state;
    static const float x[12] = { 1, 2, -1, 0.5f, 3, -2, 1.5f, -0.25f, 2.5f, 0.75f, -3, 1.25f };
    /* 6 over 4: 2, 2, 1, 1; 3 over 5: two have none */
    static const size_t counts[] = { 12, 6, 7, 3, 1 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        double whole, split;
        const float w = step(1, false, COPSE_LOSS_MEAN, x, counts[i], &whole);
        for (size_t n = 2; n <= 5; n++) {
            rig_near((double)step(n, false, COPSE_LOSS_MEAN, x, counts[i], &split), (double)w,
                     1e-5 * fabs((double)w));
            rig_near(split, whole, 1e-5 * fabs(whole));
        }
    }
    /* 6 over 4 + 2, as the older rule cuts it: still the mean of the six. */
    copse_strategy *st = rig_strategy(2, NULL);
    struct line l = { rig_scalar(st, "w", 2.0f), false };
    struct copse_trainer_params params = line_params(&l, COPSE_LOSS_MEAN);
    params.sharding = COPSE_SHARD_FIXED;
    params.batch_size = 8;
    copse_trainer *t;
    double whole;
    OK(copse_trainer_create(st, &params, &t));
    OK(copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(1, x), .count = 6 }));
    const float w = step(1, false, COPSE_LOSS_MEAN, x, 6, &whole);
    rig_near((double)rig_value(l.w, 0), (double)w, 1e-5 * fabs((double)w));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

/* w, without any of the library's losses, whatever other trainers in the process were told. */
static copse_tensor *plain_loss(copse_graph *g, const copse_batch *in, void *user)
{
    (void)in;
    return copse_sum(g, copse_variable_tensor(((struct line *)user)->w), NULL, 0, false);
}

static void loss_3(void **state)
{
    (void)state;
    const struct copse_host_batch rows = rig_rows(3);
    for (int other = 0; other < 2; other++) { /* before and after a trainer that adds up */
        for (int k = 0; k < 2; k++) {
            copse_strategy *st = rig_strategy(3, NULL);
            struct line l = { rig_scalar(st, "w", 2.0f), false };
            struct copse_trainer_params params =
                line_params(&l, k ? COPSE_LOSS_SUM : COPSE_LOSS_MEAN);
            params.loss = plain_loss;
            copse_trainer *t;
            OK(copse_trainer_create(st, &params, &t));
            OK(copse_trainer_step(t, &rows));
            rig_near((double)rig_value(l.w, 0), k ? 1.4 : 1.8, 1e-6);
            copse_trainer_release(&t);
            params.reduction = (copse_loss_reduction)2;
            FAILS(COPSE_ERR_ARGUMENT, copse_trainer_create(st, &params, &t),
                  "reduction of losses 2");
            copse_strategy_release(&st);
        }
        double loss;
        (void)step(2, true, COPSE_LOSS_SUM, rig_floats(&rows), 2, &loss);
    }
}

static copse_loss_reduction seen;

static copse_tensor *seeing_loss(copse_graph *g, const copse_batch *in, void *user)
{
    seen = copse_current_loss_reduction();
    return line_loss(g, in, user);
}

static void loss_functions_see_the_reduction(void **state)
{
    (void)state;
    const struct copse_host_batch rows = rig_rows(3);
    for (int k = 0; k < 2; k++) {
        copse_strategy *st = rig_strategy(2, NULL);
        const copse_loss_reduction given = k ? COPSE_LOSS_SUM : COPSE_LOSS_MEAN;
        struct line l = { rig_scalar(st, "w", 2.0f), false };
        struct copse_trainer_params params = line_params(&l, given);
        copse_trainer *t;
        params.loss = seeing_loss;
        seen = k ? COPSE_LOSS_MEAN : COPSE_LOSS_SUM;
        OK(copse_trainer_create(st, &params, &t));
        OK(copse_trainer_step(t, &rows));
        assert_int_equal(seen, given);
        assert_int_equal(copse_current_loss_reduction(), COPSE_LOSS_SUM);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_1),
        cmocka_unit_test(loss_2),
        cmocka_unit_test(loss_3),
        cmocka_unit_test(loss_functions_see_the_reduction),
    };
    return cmocka_run_group_tests_name("loss", tests, open_context, close_context);
}
