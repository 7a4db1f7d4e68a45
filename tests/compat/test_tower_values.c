/* SPDX-License-Identifier: MIT */
/* Tower optimizers: gradients that are missing or sparse; replicated models: predictions. */
#include <math.h>

#include "tests/rig/train/tower_rig.h"

/* Everybody has both gradients, then only replica 0 has one of d. */
static copse_status give_twice(copse_replica_context *rc, copse_value *const *args, size_t count,
                               void *user, copse_value **result)
{
    (void)args, (void)count, (void)result;
    COPSE_TRY(give(user, true));
    return give(user, copse_replica_id(rc) == 0);
}

static void missing_gradients_add_nothing(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct calls k = { make_one(st, 100), make_one(st, 100), optimizer(st, COPSE_SGD, 1), 0 };
        OK(copse_strategy_run(st, give_twice, NULL, 0, &k, NULL));
        OK(copse_tower_finish(k.t));
        assert_int_equal(copse_tower_steps(k.t), 2);
        all_are(k.c, 100 - 4 * (float)n);
        all_are(k.d, 95 - 5 * (float)n);
        copse_tower_release(&k.t);
    }
}

/* Rows 1 and r + 1 of 10, ones. */
static copse_status give_slices(copse_replica_context *rc, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    const struct calls *k = user;
    const int32_t rows[] = { 1, (int32_t)copse_replica_id(rc) + 1 };
    const float ones[] = { 1, 1, 1, 1 };
    const struct copse_sparse_params p = { COPSE_SHAPE(10, 2), 2, rows, ones };
    struct copse_tower_gradient pair = { NULL, k->c };
    (void)args, (void)count, (void)result;
    COPSE_TRY(copse_value_sparse(ctx, &p, &pair.gradient));
    if (!k->is_sparse && copse_replica_id(rc) == 0) { /* one dense among them */
        copse_value *dense;
        COPSE_TRY(copse_value_densify(pair.gradient, &dense));
        copse_value_release(&pair.gradient);
        pair.gradient = dense;
    }
    const copse_status s = copse_tower_apply(k->t, &pair, 1, false);
    copse_value_release(&pair.gradient);
    return s;
}

static void sparse_gradients_are_added_up(void **unused)
{
    const float zeros[20] = { 0 };
    float x[20];
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    for (int is_sparse = 0; is_sparse < 2; is_sparse++) {
        struct calls k = { make(st, COPSE_SHAPE(10, 2), zeros), NULL, optimizer(st, COPSE_SGD, 1),
                           is_sparse };
        OK(copse_strategy_run(st, give_slices, NULL, 0, &k, NULL));
        OK(copse_variable_read(k.c, n - 1, x));
        for (uint32_t i = 0; i < 20; i++) {
            const uint32_t at = i / 2;
            const float want = at == 1 ? (float)n + 1 : at >= 2 && at <= n ? 1 : 0;
            assert_true(x[i] == -want);
        }
        copse_tower_release(&k.t);
    }
}

/* A dictionary in which a list holds c x. */
static copse_status predict(copse_replica_context *rc, const struct copse_model_call *call,
                            struct copse_model_spec *spec)
{
    const struct model *m = call->user;
    const struct copse_tower_loss of = { .loss = product_of,
                                         .user = m->variables[0],
                                         .x = call->features };
    const char *const name = "products";
    copse_value *product, *list = NULL;
    (void)rc;
    COPSE_TRY(copse_tower_forward(m->optimizers[0], &of, &product));
    copse_status s = copse_value_list(ctx, &product, 1, &list);
    if (s == COPSE_OK)
        s = copse_value_dict(ctx, &name, &list, 1, &spec->outputs);
    copse_value_release(&product);
    copse_value_release(&list);
    return s;
}

static void predictions_are_joined(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct model m = { { make_one(st, 3) }, { optimizer(st, COPSE_SGD, 1) }, 1, UINT32_MAX, 0 };
        const struct copse_replicated_params p = { predict, &m, COPSE_LOSS_MEAN };
        struct copse_replicated_result result;
        float x[2 * MAX_RANKS], y[2 * MAX_RANKS];
        for (uint32_t i = 0; i < 2 * n; i++)
            x[i] = (float)i;
        copse_value *features = row(x, 2 * n);
        OK(copse_replicated_run(st, &p, COPSE_MODEL_PREDICT, features, NULL, &result));
        const copse_value *joined =
            copse_value_item(copse_value_find(result.outputs, "products"), 0);
        assert_non_null(joined);
        assert_int_equal(copse_value_shape(joined).dims[0], 2 * n);
        OK(copse_value_read(joined, y));
        for (uint32_t i = 0; i < 2 * n; i++)
            assert_true(y[i] == 3 * (float)i);
        copse_value_release(&result.outputs);
        copse_value_release(&features);
        release_model(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_gradients_add_nothing),
        cmocka_unit_test(sparse_gradients_are_added_up),
        cmocka_unit_test(predictions_are_joined),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
