/* SPDX-License-Identifier: MIT */
/* Training with a mirrored strategy: sums of the replicas' gradients, equal components, batches
   that do not come out even. */
#include "tests/rig/train/step_rig.h"

/* (w - 1)^2 on every replica, whatever its examples. */
static copse_tensor *parabola(copse_graph *g, const copse_batch *in, void *user)
{
    (void)in;
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SHAPE(1), 1.0);
    copse_tensor *y = copse_sub(g, copse_variable_tensor(*(copse_variable **)user), one);
    return copse_square(g, y);
}

static void mir_4(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 5; n++) {
        copse_strategy *st = rig_strategy(n, NULL);
        copse_variable *w = rig_scalar(st, "w", 0.0f);
        const struct copse_host_batch rows = rig_rows(n); /* one each */
        copse_trainer *t;
        OK(copse_trainer_create(st,
                                &(struct copse_trainer_params){
                                    .loss = parabola,
                                    .user = &w,
                                    .reduction = COPSE_LOSS_SUM,
                                    .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.2f } },
                                &t));
        OK(copse_trainer_step(t, &rows));
        for (uint32_t k = 0; k < n; k++)
            rig_near((double)rig_value(w, k), 0.4 * (double)n, 1e-6 * (double)n);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

/* Mean of (tanh(x w) - x)^2, three ways to use a variable of 300 elements. */
static copse_tensor *curve(copse_graph *g, const copse_batch *in, void *user)
{
    copse_variable *const *v = user;
    copse_tensor *y = copse_mul(g, rig_x(in), copse_variable_tensor(v[0]));
    y = copse_add(g, y, copse_variable_tensor(v[1]));
    y = copse_tanh(g, y);
    y = copse_sub(g, y, rig_x(in));
    y = copse_square(g, y);
    return copse_mean(g, y, NULL, 0, false);
}

static void mir_5(void **state)
{
    (void)state;
    enum { WIDE = 300 };
    static float values[WIDE], a[WIDE], b[WIDE];
    for (int i = 0; i < WIDE; i++)
        values[i] = 0.01f * (float)(i % 37) - 0.2f;
    for (size_t n = 2; n <= 5; n++) {
        copse_strategy *st =
            rig_strategy(n, &(struct copse_strategy_params){ .bucket_bytes = 512 });
        copse_variable *v[2] = { rig_variable(st, "w", COPSE_SHAPE(WIDE), values),
                                 rig_variable(st, "b", COPSE_SHAPE(WIDE), values) };
        copse_trainer *t;
        OK(copse_trainer_create(st, &(struct copse_trainer_params){ .loss = curve, .user = v },
                                &t));
        for (size_t step = 1; step <= 8; step++) {
            /* empty shards among them */
            const struct copse_host_batch rows = rig_rows(1 + step % 6);
            OK(copse_trainer_step(t, &rows));
            for (int i = 0; i < 2; i++) {
                OK(copse_variable_read(v[i], 0, a));
                for (uint32_t k = 1; k < n; k++) {
                    OK(copse_variable_read(v[i], k, b));
                    assert_memory_equal(a, b, sizeof a);
                }
            }
        }
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

/* 7 elements, 3 replicas, one element each to a step: two steps, and one element is never used. */
static void mir_6(void **state)
{
    (void)state;
    enum { ELEMENTS = 7, REPLICAS = 3 };
    const float x[ELEMENTS] = { 0, 1, 2, 3, 4, 5, 6 };
    copse_strategy *st = rig_strategy(REPLICAS, NULL);
    copse_variable *v[2] = { rig_scalar(st, "w", 1.0f), rig_scalar(st, "b", 0.0f) };
    struct copse_host_batch batch;
    copse_dataset *data;
    copse_loader *batches;
    copse_trainer *t;
    copse_status s;
    bool is_used[ELEMENTS] = { false };
    size_t steps = 0, used = 0;
    OK(copse_trainer_create(st, &(struct copse_trainer_params){ .loss = curve, .user = v }, &t));
    OK(copse_dataset_create(ctx, &(struct copse_array_view){ COPSE_F32, 2, { ELEMENTS, 1 }, x },
                            NULL, &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE },
                            &data));
    OK(copse_loader_create(
        data, &(struct copse_loader_params){ .batch = REPLICAS, .drop_last = true }, &batches));
    while ((s = copse_loader_next(batches, &batch)) == COPSE_OK) {
        assert_int_equal(batch.count, REPLICAS);
        for (size_t i = 0; i < batch.count; i++)
            is_used[(int)rig_floats(&batch)[i]] = true;
        OK(copse_trainer_step(t, &batch));
        steps++;
    }
    assert_int_equal(s, COPSE_ERR_END);
    for (int i = 0; i < ELEMENTS; i++)
        used += is_used[i];
    assert_int_equal(steps, 2);
    assert_int_equal(used, ELEMENTS - 1);
    copse_loader_release(&batches);
    copse_dataset_release(&data);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mir_4),
        cmocka_unit_test(mir_5),
        cmocka_unit_test(mir_6),
    };
    return cmocka_run_group_tests_name("mirrored_training", tests, open_context, close_context);
}
