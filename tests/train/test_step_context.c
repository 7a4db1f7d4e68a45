/* SPDX-License-Identifier: MIT */
/* The context of a step: arrays that a loss function sets as outputs, and what iterations set and
   see, in one process and on several workers. */
#include <stdlib.h>
#include <unistd.h>

#include "copse/distribute/accelerator.h"
#include "copse/distribute/replica.h"
#include "copse/loop/step.h"
#include "copse/ops.h"
#include "core/loop/step.h"
#include "tests/rig/workers/numbers_rig.h"

#define BATCH 8u /* of 19 rows: the last batch has 3 */

/* ---- a step whose loss function sets arrays ---- */

struct single {
    copse_strategy *st;
    copse_variable *w;
    uint32_t bad;        /* which misuse, 0: none */
    uint32_t recordings; /* that the trainer keeps */
    bool checks;         /* numerics */
};

static copse_status misuse_outputs(copse_graph *g, const struct single *u, copse_tensor *x,
                                   copse_tensor *whole)
{
    char name[8];
    switch (u->bad) {
    case 1:
        copse_step_output(g, "x", x, COPSE_OUTPUT_NONE);
        copse_step_output(g, "x", x, COPSE_OUTPUT_NONE);
        return copse_graph_status(g);
    case 2:
        copse_step_output(g, "whole", whole, COPSE_OUTPUT_MEAN);
        return copse_graph_status(g);
    case 3: /* a row for each example, reduced */
        copse_step_output(g, "x", x, COPSE_OUTPUT_SUM);
        return copse_graph_status(g);
    case 4:
        for (uint32_t i = 0; i < 17; i++) {
            snprintf(name, sizeof name, "%u", i);
            copse_step_output(g, name, x, COPSE_OUTPUT_NONE);
        }
        return COPSE_OK;
    case 5:
        copse_step_output(g, "x", x, (copse_output_reduction)3);
        return copse_graph_status(g);
    }
    return COPSE_OK;
}

/* Output arrays of every kind: "rows" has a row for each example, the other ones a shape of their
   own. */
static copse_tensor *array_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct single *u = user;
    const uint32_t axis = 0;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *p = copse_mul(g, x, copse_variable_tensor(u->w));
    copse_tensor *sum = copse_sum(g, p, &axis, 1, false);
    copse_tensor *mean = copse_mean(g, p, &axis, 1, false);
    copse_tensor *whole = copse_cast(g, sum, COPSE_I32);
    copse_tensor *scalar = copse_mean(g, p, NULL, 0, false);
    if (u->bad)
        COPSE_GRAPH_TRY(g, misuse_outputs(g, u, x, whole));
    copse_step_output(g, "rows", p, COPSE_OUTPUT_NONE);
    copse_step_output(g, "sum", sum, COPSE_OUTPUT_SUM);
    copse_step_output(g, "mean", mean, COPSE_OUTPUT_MEAN);
    copse_step_output(g, "whole", whole, COPSE_OUTPUT_SUM);
    copse_step_output(g, "scalar", scalar, COPSE_OUTPUT_NONE);
    copse_step_output(g, "w", copse_variable_tensor(u->w), COPSE_OUTPUT_MEAN);
    return scalar;
}

static copse_status single_make(void *user, copse_trainer **out)
{
    struct single *u = user;
    return copse_trainer_create(
        u->st,
        &(struct copse_trainer_params){ .loss = array_loss,
                                        .user = u,
                                        .recordings = u->recordings,
                                        .check_numerics = u->checks,
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.5f } },
        out);
}

static copse_status rows_data(void *user, copse_strategy *st, copse_dataset **out)
{
    (void)user, (void)st;
    return labelled_rows(out);
}

static copse_status make_single_of(struct single *u, const char *name, bool drop_last,
                                   uint32_t iterations, copse_step **out)
{
    static const float start[] = { 1, -2, 0.5f };
    COPSE_TRY(copse_variable_create(u->st,
                                    &(struct copse_variable_params){ .name = name,
                                                                     .shape = COPSE_SHAPE(WIDTH),
                                                                     .values = start },
                                    &u->w));
    return copse_single_loss_step_create(
        ctx,
        &(struct copse_single_loss_params){
            .input = { .dataset = rows_data,
                       .batches = { .batch = BATCH, .no_shuffle = true, .drop_last = drop_last } },
            .make = single_make,
            .make_user = u,
            .iterations_per_step = iterations },
        out);
}

static copse_status make_single(struct single *u, const char *name, copse_step **out)
{
    return make_single_of(u, name, false, 1, out);
}

/* Count of components, and their numbers. */
static copse_status put_output(copse_outputs *outputs, const char *name, struct numbers *n)
{
    copse_value *v;
    COPSE_TRY(copse_outputs_value(outputs, name, &v));
    const bool is_list = copse_value_kind_of(v) == COPSE_VALUE_LIST;
    copse_status s = COPSE_OK;
    put(n, is_list ? (double)copse_value_count(v) : 0);
    for (size_t i = 0; i < (is_list ? copse_value_count(v) : 1) && !s; i++) {
        copse_value *item = is_list ? copse_value_item(v, i) : v;
        const copse_shape shape = copse_value_shape(item);
        put(n, shape.rank);
        put(n, shape.rank ? shape.dims[0] : 0);
        s = put_value(n, NULL, item);
    }
    copse_value_release(&v);
    return s;
}

static copse_status put_arrays(copse_step *step, struct numbers *n)
{
    static const char *const names[] = { "rows", "sum", "mean", "whole", "scalar", "w" };
    copse_outputs *outputs;
    COPSE_TRY(copse_step_outputs(step, &outputs));
    for (size_t i = 0; i < COPSE_COUNT(names); i++)
        COPSE_TRY(put_output(outputs, names[i], n));
    return COPSE_OK;
}

/* Three steps; in the last one replicas have shards of one row, or none. */
static copse_status array_numbers(copse_strategy *st, struct numbers *n)
{
    struct single u = { .st = st };
    copse_step *step;
    COPSE_TRY(make_single(&u, "w", &step));
    copse_status s = COPSE_OK;
    for (int i = 0; i < 3 && !s; i++) {
        s = copse_step_run(step);
        if (!s)
            s = put_arrays(step, n);
    }
    copse_step_release(&step);
    return s;
}

/* ---- iterations that set outputs ---- */

struct iterated {
    copse_step *step;
    copse_strategy *st;
    struct numbers *n;
    uint32_t done;
    copse_outputs *context;
};

/* A replica's number and array, by its number among all. */
static copse_status one_replica(copse_replica_context *rc, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    const struct iterated *u = user;
    const uint32_t id = copse_replica_id(rc);
    const float x[] = { row_value(id + 10 * u->done), (float)id };
    (void)args, (void)count;
    COPSE_TRY(copse_outputs_set_replica(u->context, id, "number", (double)x[0], COPSE_OUTPUT_MEAN));
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2), x, result));
    COPSE_TRY(copse_outputs_set_value(u->context, "mean", *result, COPSE_OUTPUT_MEAN));
    return copse_outputs_set_value(u->context, "sum", *result, COPSE_OUTPUT_SUM);
}

/* What the iteration before has set is there until it is set again. */
static copse_status iteration(void *user, const struct copse_host_batch *in, copse_outputs *context)
{
    struct iterated *u = user;
    struct copse_output out;
    copse_value *all;
    double own[RANKS];
    CHECK(in->count > 0);
    u->context = context;
    if (u->done == 0) {
        CHECK(copse_outputs_get(context, "number", &out) == COPSE_ERR_ARGUMENT);
        CHECK(copse_outputs_value(context, "mean", &all) == COPSE_ERR_ARGUMENT);
    } else {
        COPSE_TRY(copse_outputs_get(context, "number", &out));
        put(u->n, out.values[0]);
        COPSE_TRY(put_output(context, "mean", u->n));
    }
    COPSE_TRY(copse_strategy_run(u->st, one_replica, NULL, 0, u, &all));
    copse_status s = copse_outputs_set_value(context, "each", all, COPSE_OUTPUT_NONE);
    copse_value_release(&all);
    for (uint32_t r = 0; r < copse_strategy_replicas(u->st); r++)
        own[r] = (double)(copse_strategy_first_rank(u->st) + r) + 0.25 * u->done;
    for (int k = 0; k < 3 && !s; k++)
        s = copse_outputs_set(context,
                              k == 0   ? "numbers"
                              : k == 1 ? "numbers' sum"
                                       : "numbers' mean",
                              own, (copse_output_reduction)k);
    u->done++;
    return s;
}

static copse_status run_iterations(void *user)
{
    struct iterated *u = user;
    return copse_step_iterate(u->step, 2, iteration, u);
}

static copse_status iteration_numbers(copse_strategy *st, struct numbers *n)
{
    static const struct copse_step_functions functions = { .run = run_iterations };
    static const char *const values[] = { "mean", "sum", "each" };
    static const char *const numbers[] = { "number", "numbers", "numbers' sum", "numbers' mean" };
    struct iterated u = { .st = st, .n = n };
    copse_outputs *outputs;
    COPSE_TRY(copse_input_step_create(
        ctx, st,
        &(struct copse_input_params){ .dataset = rows_data, .batches = { .batch = BATCH } },
        &functions, &u, &u.step));
    copse_status s = copse_step_run(u.step);
    if (!s)
        s = copse_step_outputs(u.step, &outputs);
    for (size_t i = 0; i < COPSE_COUNT(values) && !s; i++)
        s = put_output(outputs, values[i], n);
    for (size_t i = 0; i < COPSE_COUNT(numbers) && !s; i++) {
        struct copse_output out;
        s = copse_outputs_get(outputs, numbers[i], &out);
        put(n, out.is_reduced);
        for (size_t k = 0; k < out.count; k++)
            put(n, out.values[k]);
    }
    copse_step_release(&u.step);
    return s;
}

static void outputs_of_workers_are_those_of_one_process(void **state)
{
    static const struct group groups[] = {
        { "copse_step_output", array_numbers },
        { "copse_outputs_set, _set_replica, _set_value in iterations", iteration_numbers },
    };
    (void)state;
    compare_groups(groups, COPSE_COUNT(groups));
}

/* ---- known numbers ---- */

static copse_strategy *open_strategy(uint32_t ranks)
{
    const char *ids[RANKS];
    copse_strategy *st;
    for (uint32_t r = 0; r < ranks; r++)
        ids[r] = found[r % found_count];
    OK(copse_mirrored_create(ctx, ids, ranks, NULL, &st));
    return st;
}

static void assert_near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-5 * fmax(1, fabs(expected))))
        fail_msg("%.9g, not %.9g", got, expected);
}

/* The third batch is rows 16 to 18: 2 and 1 on two replicas, 1, 1, 1 and none on four. */
static void arrays_of_a_loss_function_are_outputs(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 4; ranks++) {
        copse_strategy *st = open_strategy(ranks);
        struct single u = { .st = st };
        copse_step *step;
        copse_outputs *outputs;
        struct copse_output number;
        copse_value *v;
        float sum[WIDTH], mean[WIDTH], w[WIDTH];
        int32_t whole[WIDTH];
        OK(make_single(&u, "w", &step));
        OK(copse_step_outputs(step, &outputs));
        /* not before the first */
        assert_int_equal(copse_outputs_value(outputs, "sum", &v), COPSE_ERR_ARGUMENT);
        for (int i = 0; i < 2; i++)
            OK(copse_step_run(step));
        OK(copse_variable_read(u.w, 0, w));
        OK(copse_step_run(step));
        OK(copse_step_outputs(step, &outputs));
        assert_int_equal(copse_outputs_get(outputs, "sum", &number), COPSE_ERR_ARGUMENT);
        assert_non_null(strstr(copse_last_error(), "copse_outputs_value"));
        OK(copse_outputs_value(outputs, "sum", &v));
        OK(copse_value_read(v, sum));
        copse_value_release(&v);
        OK(copse_outputs_value(outputs, "mean", &v));
        OK(copse_value_read(v, mean));
        copse_value_release(&v);
        OK(copse_outputs_value(outputs, "whole", &v));
        assert_int_equal(copse_value_type(v), COPSE_I32);
        OK(copse_value_read(v, whole));
        copse_value_release(&v);
        for (uint32_t i = 0; i < WIDTH; i++) {
            double expected = 0;
            for (uint32_t r = 16; r < 19; r++)
                expected += (double)features()[r * WIDTH + i] * (double)w[i];
            assert_near((double)sum[i], expected);
            assert_near((double)mean[i], expected / 3);
            assert_true(ranks > 1 || whole[i] == (int32_t)sum[i]);
        }
        OK(copse_outputs_value(outputs, "rows", &v));
        assert_int_equal(copse_value_kind_of(v), ranks > 1 ? COPSE_VALUE_LIST : COPSE_VALUE_ARRAY);
        for (uint32_t r = 0, row = 16; r < ranks; r++) {
            float rows[3 * WIDTH];
            copse_value *item = ranks > 1 ? copse_value_item(v, r) : v;
            const copse_shape shape = copse_value_shape(item);
            assert_int_equal(shape.rank, 2);
            assert_int_equal(shape.dims[0], 3 / ranks + (r < 3 % ranks));
            OK(copse_value_read(item, rows));
            for (uint32_t i = 0; i < shape.dims[0] * WIDTH; i++)
                assert_near((double)rows[i],
                            (double)features()[row * WIDTH + i] * (double)w[i % WIDTH]);
            row += shape.dims[0];
        }
        copse_value_release(&v);
        copse_step_release(&step);
        copse_strategy_release(&st);
    }
}

/* A run of two batches on two cores that share a device: the outputs are those of the second
   one. */
static void a_run_of_an_accelerator_has_them(void **state)
{
    static const char *const ids[] = { "host:0", "host:0" };
    const struct copse_accelerator_params params = { .steps_per_run = 2 };
    struct single u = { .checks = false };
    copse_step *step;
    copse_outputs *outputs;
    copse_value *v;
    float sum[WIDTH], w[WIDTH];
    (void)state;
    OK(copse_accelerator_create(ctx, ids, 2, &params, &u.st));
    OK(make_single_of(&u, "w", true, 0, &step));
    OK(copse_step_run(step));
    OK(copse_variable_read(u.w, 0, w));
    OK(copse_step_outputs(step, &outputs));
    OK(copse_outputs_value(outputs, "sum", &v));
    OK(copse_value_read(v, sum));
    copse_value_release(&v);
    /* one update before it, one behind it: of the gradient, x / rows / WIDTH */
    for (uint32_t i = 0; i < WIDTH; i++) {
        double rows = 0;
        for (uint32_t r = 8; r < 16; r++)
            rows += (double)features()[r * WIDTH + i];
        assert_near((double)sum[i], rows * ((double)w[i] + 0.5 * rows / 8 / WIDTH));
    }
    copse_step_release(&step);
    copse_strategy_release(&u.st);
}

/* ---- what is refused, and what is gone ---- */

static void wrong_outputs_are_refused(void **state)
{
    static const struct {
        copse_status status;
        const char *says;
    } expected[] = {
        { COPSE_OK, "" },
        { COPSE_ERR_ARGUMENT, "output 'x' is set twice" },
        { COPSE_ERR_ARGUMENT, "output 'whole': the mean of i32" },
        { COPSE_ERR_SHAPE, "output 'x' is [1, 3] here and was [2, 3] before" },
        { COPSE_ERR_ARGUMENT, "at most 16 outputs" },
        { COPSE_ERR_ARGUMENT, "unknown reduction 3" },
    };
    (void)state;
    for (uint32_t bad = 1; bad < COPSE_COUNT(expected); bad++) {
        copse_strategy *st = open_strategy(2);
        struct single u = { .st = st, .bad = bad };
        copse_step *step;
        OK(make_single(&u, "w", &step));
        OK(copse_step_seek(step, &(struct copse_position){ 0, 2 })); /* three rows */
        const copse_status s = copse_step_run(step);
        if (s != expected[bad].status || !strstr(copse_last_error(), expected[bad].says))
            fail_msg("misuse %u: %s: %s", bad, copse_status_name(s), copse_last_error());
        copse_step_release(&step);
        copse_strategy_release(&st);
    }
}

static void outputs_of_a_released_recording_are_not_set(void **state)
{
    copse_strategy *st = open_strategy(2);
    struct single u = { .st = st, .recordings = 1 };
    struct copse_step_result result;
    copse_step *step;
    copse_outputs *outputs;
    copse_value *v;
    (void)state;
    OK(make_single(&u, "w", &step));
    OK(copse_step_run(step));
    const struct copse_host_batch other = {
        COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(WIDTH), features() }), .count = 4
    };
    /* takes the place of the recording */
    OK(copse_trainer_evaluate(copse_step_trainer(step), &other, &result));
    OK(copse_step_outputs(step, &outputs));
    assert_int_equal(copse_outputs_value(outputs, "sum", &v), COPSE_ERR_ARGUMENT);
    OK(copse_step_run(step));
    OK(copse_step_outputs(step, &outputs));
    OK(copse_outputs_value(outputs, "sum", &v));
    copse_value_release(&v);
    copse_step_release(&step);
    copse_strategy_release(&st);
}

static void outputs_of_a_step_before_a_failure_are_not_set(void **state)
{
    static const float nan[] = { NAN, NAN, NAN };
    copse_strategy *st = open_strategy(2);
    struct single u = { .st = st, .checks = true };
    copse_step *step;
    copse_outputs *outputs;
    copse_value *v;
    (void)state;
    OK(make_single(&u, "w", &step));
    OK(copse_step_run(step));
    OK(copse_step_outputs(step, &outputs));
    OK(copse_outputs_value(outputs, "sum", &v)); /* taken before: it stays */
    copse_value_release(&v);
    OK(copse_step_run(step));
    OK(copse_variable_assign(u.w, nan));
    assert_int_equal(copse_step_run(step), COPSE_ERR_NONFINITE); /* computed, and no update */
    OK(copse_step_outputs(step, &outputs));
    assert_int_equal(copse_outputs_value(outputs, "sum", &v), COPSE_ERR_ARGUMENT);
    copse_step_release(&step);
    copse_strategy_release(&st);
}

static void a_restored_step_has_no_arrays(void **state)
{
    char path[] = "/tmp/copse-context-XXXXXX";
    copse_strategy *st = open_strategy(2);
    struct single u = { .st = st };
    copse_step *step;
    copse_outputs *outputs;
    copse_value *v;
    const int file = mkstemp(path);
    (void)state;
    assert_true(file >= 0);
    close(file);
    OK(make_single(&u, "w", &step));
    OK(copse_step_run(step));
    OK(copse_step_outputs(step, &outputs));
    OK(copse_outputs_value(outputs, "sum", &v));
    copse_value_release(&v);
    OK(step->f.save(step->user, path));
    OK(step->f.restore(step->user, path));
    OK(copse_step_outputs(step, &outputs));
    assert_int_equal(copse_outputs_value(outputs, "sum", &v), COPSE_ERR_ARGUMENT);
    OK(copse_step_run(step));
    OK(copse_step_outputs(step, &outputs));
    OK(copse_outputs_value(outputs, "sum", &v));
    copse_value_release(&v);
    copse_step_release(&step);
    copse_strategy_release(&st);
    unlink(path);
}

static copse_status set_without_reduction(copse_replica_context *rc, copse_value *const *args,
                                          size_t count, void *user, copse_value **result)
{
    (void)rc, (void)count, (void)result;
    return copse_outputs_set_value(user, "x", args[0], COPSE_OUTPUT_NONE);
}

static void values_are_checked(void **state)
{
    copse_strategy *st = open_strategy(2), *other = open_strategy(1);
    copse_step *step;
    copse_outputs *outputs;
    copse_value *v;
    (void)state;
    OK(copse_step_create(ctx, st, NULL, NULL, &step));
    OK(copse_step_outputs(step, &outputs));
    OK(copse_value_scalar(ctx, 2, &v));
    assert_int_equal(copse_outputs_set_value(outputs, "x", NULL, COPSE_OUTPUT_NONE),
                     COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_outputs_set_value(outputs, "x", v, (copse_output_reduction)-1),
                     COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_outputs_set_value(outputs, "", v, COPSE_OUTPUT_NONE),
                     COPSE_ERR_ARGUMENT);
    /* of one value */
    assert_int_equal(copse_outputs_set_value(outputs, "x", v, COPSE_OUTPUT_SUM),
                     COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_strategy_run(st, set_without_reduction, &v, 1, outputs, NULL),
                     COPSE_ERR_ARGUMENT);
    assert_non_null(strstr(copse_last_error(), "needs a reduction"));
    assert_int_equal(copse_strategy_run(other, set_without_reduction, &v, 1, outputs, NULL),
                     COPSE_ERR_CONTEXT);
    assert_non_null(strstr(copse_last_error(), "another strategy"));
    copse_value *got = v;
    assert_int_equal(copse_outputs_value(outputs, "x", &got), COPSE_ERR_ARGUMENT);
    assert_null(got);
    OK(copse_outputs_set_value(outputs, "x", v, COPSE_OUTPUT_NONE)); /* kept as it is */
    OK(copse_outputs_value(outputs, "x", &got));
    assert_ptr_equal(got, v);
    copse_value_release(&got);
    /* takes its place */
    OK(copse_outputs_set(outputs, "x", (const double[]){ 1, 2 }, COPSE_OUTPUT_SUM));
    assert_int_equal(copse_outputs_value(outputs, "x", &got), COPSE_ERR_ARGUMENT);
    copse_value_release(&v);
    copse_step_release(&step);
    copse_strategy_release(&st);
    copse_strategy_release(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_a_loss_function_are_outputs),
        cmocka_unit_test(a_run_of_an_accelerator_has_them),
        cmocka_unit_test(outputs_of_workers_are_those_of_one_process),
        cmocka_unit_test(wrong_outputs_are_refused),
        cmocka_unit_test(outputs_of_a_released_recording_are_not_set),
        cmocka_unit_test(outputs_of_a_step_before_a_failure_are_not_set),
        cmocka_unit_test(a_restored_step_has_no_arrays),
        cmocka_unit_test(values_are_checked),
    };
    return cmocka_run_group_tests_name("step_context", tests, open_workers, close_workers);
}
