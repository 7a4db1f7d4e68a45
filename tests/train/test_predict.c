/* SPDX-License-Identifier: MIT */
/* copse_trainer_predict: the values are those of the function, in row order, under every strategy
   and split; it trains nothing, allocates nothing when repeated, and refuses what it cannot
   compute. */
#include "tests/rig/train/step_rig.h"

#include "copse/distribute/accelerator.h"
#include "copse/distribute/collective.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/shards.h"
#include "copse/distribute/sync.h"
#include "copse/predict.h"
#include "tests/rig/train/train_model.h"

struct fixture {
    copse_strategy *st;
    copse_trainer *t;
    struct model m;
    float x[MODEL_ROWS * MODEL_IN];
    int32_t y[MODEL_ROWS];
    int calls; /* of the predict function */
};

static void open_trainer(struct fixture *f, const struct copse_trainer_params *params)
{
    struct copse_trainer_params p = *params;
    p.loss = model_loss;
    p.user = &f->m;
    p.optimizer = (struct copse_optimizer_params){ .kind = COPSE_SGD, .learning_rate = 0.05f };
    OK(copse_trainer_create(f->st, &p, &f->t));
}

/* Takes over the strategy. */
static struct fixture *fixture_on(copse_strategy *st, const struct copse_trainer_params *params)
{
    static const struct copse_trainer_params none;
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    model_data(f->x, f->y);
    f->st = st;
    OK(model_create(&f->m, st));
    open_trainer(f, params ? params : &none);
    return f;
}

static void fixture_close(struct fixture *f)
{
    copse_trainer_release(&f->t);
    copse_strategy_release(&f->st);
    free(f);
}

/* Only the features: a prediction has no labels. */
static struct copse_host_batch rows_of(const struct fixture *f, size_t first, size_t count)
{
    return rig_kept(
        (struct copse_host_batch){ RIG_X(MODEL_IN, f->x + first * MODEL_IN), .count = count });
}

static struct copse_host_batch labelled(const struct fixture *f, size_t count)
{
    return rig_kept((struct copse_host_batch){ RIG_XY(MODEL_IN, f->x, f->y), .count = count });
}

static copse_tensor *logits(copse_graph *g, const copse_batch *in, void *user)
{
    struct fixture *f = user;
    f->calls++;
    copse_tensor *y = copse_input(in, "x");
    for (int i = 0; i < 3; i++) {
        y = copse_dense(g, y, f->m.w[i], f->m.b[i], i < 2 ? COPSE_RELU : COPSE_LINEAR);
        y = copse_dropout(g, y, 0.5f, in->is_training); /* nothing outside of training */
    }
    return y;
}

/* The same in double precision, from the variables of replica 0. */
static void check_logits(const struct fixture *f, size_t first, size_t count, const float *got)
{
    enum { WIDEST = 32 };
    static const int widths[4] = { MODEL_IN, 32, 16, MODEL_CLASSES };
    static float w[3][WIDEST * WIDEST], b[3][WIDEST];
    for (int i = 0; i < 3; i++) {
        OK(copse_variable_read(f->m.variables[2 * i], 0, w[i]));
        OK(copse_variable_read(f->m.variables[2 * i + 1], 0, b[i]));
    }
    for (size_t row = 0; row < count; row++) {
        double h[WIDEST], next[WIDEST];
        for (int k = 0; k < MODEL_IN; k++)
            h[k] = (double)f->x[(first + row) * MODEL_IN + (size_t)k];
        for (int i = 0; i < 3; i++) {
            for (int o = 0; o < widths[i + 1]; o++) {
                next[o] = (double)b[i][o];
                for (int k = 0; k < widths[i]; k++)
                    next[o] += h[k] * (double)w[i][k * widths[i + 1] + o];
                next[o] = i < 2 && next[o] < 0.0 ? 0.0 : next[o];
            }
            memcpy(h, next, sizeof h);
        }
        for (int o = 0; o < MODEL_CLASSES; o++)
            rig_near((double)got[row * MODEL_CLASSES + (size_t)o], h[o], 2e-5 * (1.0 + fabs(h[o])));
    }
}

static void predict_and_check(struct fixture *f, size_t first, size_t count)
{
    float values[MODEL_ROWS * MODEL_CLASSES];
    const struct copse_host_batch batch = rows_of(f, first, count);
    for (size_t i = 0; i < count * MODEL_CLASSES; i++)
        values[i] = NAN;
    OK(copse_trainer_predict(f->t, logits, f, &batch, values,
                             count * MODEL_CLASSES * sizeof *values));
    check_logits(f, first, count, values);
}

static copse_strategy *mirrored(size_t count)
{
    copse_strategy *st = NULL;
    OK(copse_mirrored_create(ctx, rig_devices, count, NULL, &st));
    return st;
}

/* 37 rows on 3 replicas are unequal shards; of 2 rows and of 1 some shards are empty. */
static void values_are_those_of_the_function_in_row_order(void **state)
{
    (void)state;
    for (size_t replicas = 1; replicas <= 3; replicas++) {
        struct fixture *f = fixture_on(mirrored(replicas), NULL);
        const struct copse_host_batch batch = labelled(f, 50);
        for (int i = 0; i < 3; i++)
            OK(copse_trainer_step(f->t, &batch));
        predict_and_check(f, 0, 37); /* after three steps; their results were not taken */
        predict_and_check(f, 11, 2);
        predict_and_check(f, 199, 1);
        predict_and_check(f, 0, MODEL_ROWS);
        OK(copse_trainer_step(f->t, &batch));
        predict_and_check(f, 0, 37); /* the values after one more step */
        fixture_close(f);
    }
}

static void every_strategy_predicts(void **state)
{
    (void)state;
    const char *const twice[2] = { "host:0", "host:0" };
    copse_strategy *list[5] = { NULL };
    OK(copse_one_device_create(ctx, rig_devices[2], NULL, &list[0]));
    OK(copse_accelerator_create(
        ctx, twice, 2, &(struct copse_accelerator_params){ .steps_per_run = 2 }, &list[1]));
    OK(copse_parameter_server_create(ctx, NULL, twice, 2, NULL, &list[2]));
    OK(copse_collective_create(ctx, NULL, twice, 2, NULL, &list[3]));
    OK(copse_mirrored_create(ctx, rig_devices, 5, NULL, &list[4]));
    for (int i = 0; i < 5; i++) {
        struct fixture *f = fixture_on(list[i], NULL);
        const struct copse_host_batch batch = labelled(f, 50);
        OK(copse_trainer_step(f->t, &batch));
        predict_and_check(f, 3, 31);
        OK(copse_trainer_step(f->t, &batch));
        predict_and_check(f, 3, 31);
        fixture_close(f);
    }
}

static void weighted_and_fixed_splits_give_the_same_values(void **state)
{
    (void)state;
    const float weights[3] = { 1.0f, 0.0f, 5.0f };
    const struct copse_trainer_params params[] = {
        { .sharding = COPSE_SHARD_WEIGHTED, .shard_weights = weights },
        { .sharding = COPSE_SHARD_FIXED, .batch_size = 6 },
        { .sharding = COPSE_SHARD_CEIL },
        { .sharding = COPSE_SHARD_MEASURED },
    };
    for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
        struct fixture *f = fixture_on(mirrored(3), &params[i]);
        predict_and_check(f, 0, 41); /* more rows than the batch of a fixed split has */
        predict_and_check(f, 5, 4);
        fixture_close(f);
    }
}

static void repeated_call_allocates_nothing_and_records_once(void **state)
{
    (void)state;
    struct fixture *f = fixture_on(mirrored(3), NULL);
    struct copse_memory_stats before, after;
    for (int i = 0; i < 3; i++) {
        predict_and_check(f, 0, 40);
        predict_and_check(f, 0, 7);
    }
    /* two sizes on three replicas; 40 = 14 + 13 + 13, 7 = 3 + 2 + 2 */
    assert_int_equal(f->calls, 2 * 3);
    copse_context_memory(ctx, &before);
    for (int i = 0; i < 10; i++) {
        predict_and_check(f, 0, 40);
        predict_and_check(f, 0, 7);
    }
    copse_context_memory(ctx, &after);
    assert_int_equal(after.calls, before.calls);
    assert_int_equal(after.device_allocations, before.device_allocations);
    assert_int_equal(f->calls, 6);
    fixture_close(f);
}

static void recordings_beyond_the_limit_are_evicted(void **state)
{
    (void)state;
    struct fixture *f = fixture_on(mirrored(1), &(struct copse_trainer_params){ .recordings = 2 });
    for (size_t count = 1; count <= 4; count++)
        predict_and_check(f, 0, count);
    assert_int_equal(f->calls, 4);
    predict_and_check(f, 0, 4);
    assert_int_equal(f->calls, 4); /* kept */
    predict_and_check(f, 0, 1);
    assert_int_equal(f->calls, 5); /* evicted */
    fixture_close(f);
}

/* The weights after steps with and without predictions between them, also between micro-batches. */
static void prediction_changes_no_bit_of_the_training(void **state)
{
    (void)state;
    float got[2][MODEL_IN * 32];
    for (int with = 0; with < 2; with++) {
        struct fixture *f =
            fixture_on(mirrored(3), &(struct copse_trainer_params){ .accumulate = 2 });
        const struct copse_host_batch batch = labelled(f, 50);
        for (int i = 0; i < 8; i++) {
            OK(copse_trainer_step(f->t, &batch));
            if (with)
                predict_and_check(f, 0, 10 + (size_t)i);
        }
        OK(copse_variable_read(f->m.variables[0], 0, got[with]));
        fixture_close(f);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
}

/* ---- other results ---- */

static copse_tensor *classes(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *y = logits(g, in, user);
    return copse_argmax(g, y, 1);
}

static copse_tensor *itself(copse_graph *g, const copse_batch *in, void *user)
{
    (void)g, (void)user;
    return copse_input(in, "x");
}

static copse_tensor *dropped(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    copse_tensor *y = copse_input(in, "x");
    return copse_dropout(g, y, 0.5f, true);
}

/* Ops that read the words of a training step compute: dropout keeps half of the numbers, times
   2. */
static void functions_may_draw_random_numbers(void **state)
{
    (void)state;
    struct fixture *f = fixture_on(mirrored(3), NULL);
    const struct copse_host_batch batch = rows_of(f, 0, 40);
    float values[40 * MODEL_IN];
    int zeros = 0;
    OK(copse_trainer_predict(f->t, dropped, NULL, &batch, values, sizeof values));
    for (int i = 0; i < 40 * MODEL_IN; i++) {
        assert_true(values[i] == 0.0f || values[i] == 2.0f * f->x[i]);
        zeros += values[i] == 0.0f;
    }
    assert_in_range(zeros, 300, 500);
    fixture_close(f);
}

static void integers_and_inputs_are_results_too(void **state)
{
    (void)state;
    struct fixture *f = fixture_on(mirrored(2), NULL);
    const struct copse_host_batch batch = rows_of(f, 0, 33);
    int32_t guess[33];
    float values[33 * MODEL_CLASSES], copy[33 * MODEL_IN];
    OK(copse_trainer_predict(f->t, logits, f, &batch, values, sizeof values));
    /* another recording */
    OK(copse_trainer_predict(f->t, classes, f, &batch, guess, sizeof guess));
    for (int row = 0; row < 33; row++)
        for (int c = 0; c < MODEL_CLASSES; c++)
            assert_true(values[row * MODEL_CLASSES + guess[row]] >=
                        values[row * MODEL_CLASSES + c]);
    OK(copse_trainer_predict(f->t, itself, NULL, &batch, copy, sizeof copy));
    assert_memory_equal(copy, f->x, sizeof copy);
    fixture_close(f);
}

/* ---- what is refused ---- */

static copse_tensor *total(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *y = logits(g, in, user);
    return copse_mean(g, y, NULL, 0, false);
}

static copse_tensor *summed(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *y = logits(g, in, user);
    return copse_all_reduce(g, y, COPSE_SUM);
}

static copse_tensor *labels(copse_graph *g, const copse_batch *in, void *user)
{
    (void)g, (void)user;
    return copse_input(in, "y");
}

static copse_tensor *no_result(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *y = NULL;
    (void)g, (void)in, (void)user, (void)y;
    return y;
}

static copse_tensor *nested(copse_graph *g, const copse_batch *in, void *user)
{
    struct fixture *f = user;
    float values[MODEL_CLASSES];
    const struct copse_host_batch batch = rows_of(f, 0, 1);
    (void)in;
    COPSE_GRAPH_TRY(g, copse_trainer_predict(f->t, logits, f, &batch, values, sizeof values));
    return copse_input(in, "x");
}

static void wrong_use_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct fixture *f = fixture_on(mirrored(2), NULL);
    const struct copse_host_batch batch = rows_of(f, 0, 12),
                                  none = { .columns = batch.columns, .column_count = 1 };
    const uint8_t small[12] = { 0 };
    const struct copse_host_batch bytes = { COPSE_COLUMNS({ "x", COPSE_U8, COPSE_SCALAR, small }),
                                            .count = 12 };
    float values[12 * MODEL_CLASSES];
    const size_t room = sizeof values;
    memset(values, 0x5a, sizeof values);
    FAILS(COPSE_ERR_SHAPE, copse_trainer_predict(f->t, logits, f, &batch, values, room - 4), "240");
    FAILS(COPSE_ERR_SHAPE, copse_trainer_predict(f->t, logits, f, &batch, values, room + 4),
          "12 rows of 20 bytes");
    FAILS(COPSE_ERR_SHAPE, copse_trainer_predict(f->t, total, f, &batch, values, room),
          "first axis");
    FAILS(COPSE_ERR_UNSUPPORTED, copse_trainer_predict(f->t, summed, f, &batch, values, room),
          "all_reduce");
    FAILS(COPSE_ERR_UNSUPPORTED, copse_trainer_predict(f->t, itself, NULL, &bytes, values, room),
          "u8");
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_predict(f->t, labels, f, &batch, values, room), "'y'");
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_predict(f->t, no_result, f, &batch, values, room),
          "set no");
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_predict(f->t, logits, f, &none, values, room),
          "1 to 2^32-1");
    FAILS(COPSE_ERR_CONTEXT, copse_trainer_predict(f->t, nested, f, &batch, values, room),
          "copse_trainer_predict");
    for (size_t i = 0; i < sizeof values; i++)
        assert_int_equal(((unsigned char *)values)[i], 0x5a);
    predict_and_check(f, 0, 12);
    fixture_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_function_in_row_order),
        cmocka_unit_test(every_strategy_predicts),
        cmocka_unit_test(weighted_and_fixed_splits_give_the_same_values),
        cmocka_unit_test(repeated_call_allocates_nothing_and_records_once),
        cmocka_unit_test(recordings_beyond_the_limit_are_evicted),
        cmocka_unit_test(prediction_changes_no_bit_of_the_training),
        cmocka_unit_test(functions_may_draw_random_numbers),
        cmocka_unit_test(integers_and_inputs_are_results_too),
        cmocka_unit_test(wrong_use_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
