/* SPDX-License-Identifier: MIT */
/* The one-device strategy and reductions along an axis, which weigh partial batches by what they
   hold. */
#include "copse/distribute/collective.h"
#include "copse/distribute/parameter_server.h"
#include "tests/rig/value/replica_rig.h"

static copse_strategy *one;

static int open_one(void **state)
{
    return open_rig(state) || copse_one_device_create(ctx, found[0], NULL, &one) ? -1 : 0;
}

static int close_one(void **state)
{
    copse_strategy_release(&one);
    return close_rig(state);
}

static copse_value *floats(uint32_t count, const float *values)
{
    copse_value *v;
    OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(count), values, &v));
    return v;
}

static copse_value *counted(uint32_t first, uint32_t count)
{
    float x[16];
    for (uint32_t i = 0; i < count; i++)
        x[i] = (float)(first + i);
    return floats(count, x);
}

/* Reduce and compare with `count` numbers. */
static void reduces_to(copse_strategy *st, copse_reduce_op op, copse_value *value, const int *axis,
                       uint32_t count, const float *want)
{
    copse_value *out;
    float got[16];
    OK(copse_strategy_reduce(st, op, value, axis, &out));
    assert_int_equal(copse_value_shape(out).rank, axis ? 0 : 1);
    OK(copse_value_read(out, got));
    for (uint32_t i = 0; i < count; i++)
        if (got[i] != want[i])
            fail_msg("element %u is %g, not %g", i, (double)got[i], (double)want[i]);
    copse_value_release(&out);
}

static copse_status doubles(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    float x;
    (void)user;
    CHECK(count == 1 && copse_replica_id(rc) == 0 && copse_replica_count(rc) == 1);
    COPSE_TRY(copse_value_read(args[0], &x));
    return copse_value_scalar(ctx, 2 * x, result);
}

static const int axis_0 = 0, axis_1 = 1, axis_last = -1, axis_before = -2;

static void one_1(void **unused)
{
    float sum = 0;
    (void)unused;
    for (uint32_t i = 0; i < 10; i++) {
        copse_value *x = scalar((float)i), *y;
        OK(copse_strategy_run(one, doubles, &x, 1, NULL, &y));
        assert_int_equal(copse_value_kind_of(y), COPSE_VALUE_ARRAY); /* plain */
        sum += scalar_of(y);
        copse_value_release(&x);
        copse_value_release(&y);
    }
    assert_true(sum == 90.0f);

    copse_value *v = counted(0, 10), *x = scalar(3), *out;
    const float all[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    reduces_to(one, COPSE_REDUCE_SUM, v, NULL, 10, all);
    reduces_to(one, COPSE_REDUCE_SUM, v, &axis_0, 1, (const float[]){ 45 });
    reduces_to(one, COPSE_REDUCE_MEAN, v, &axis_0, 1, (const float[]){ 4.5f });
    reduces_to(one, COPSE_REDUCE_MEAN, v, &axis_last, 1, (const float[]){ 4.5f });
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_reduce(one, COPSE_REDUCE_SUM, v, &axis_1, &out),
          "axis 1");
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_reduce(one, COPSE_REDUCE_SUM, v, &axis_before, &out),
          "axis -2");
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_reduce(one, COPSE_REDUCE_SUM, x, &axis_0, &out),
          "axis 0");
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_reduce(one, (copse_reduce_op)5, v, NULL, &out),
          "operation 5");
    copse_value_release(&v);
    copse_value_release(&x);
}

/* Component r has counts[r] numbers; they go on from one to the next. */
static copse_value *in_parts(copse_strategy *st, const uint32_t *counts)
{
    copse_value *parts[MAX_RANKS];
    uint32_t first = 0;
    for (uint32_t r = 0; r < copse_strategy_replicas(st); first += counts[r++])
        parts[r] = counted(first, counts[r]);
    return per_replica(st, parts);
}

static void one_2(void **unused)
{
    (void)unused;
    for (int mixed = 0; mixed < 2; mixed++) {
        copse_strategy *two = strategy_of(2, mixed);
        copse_value *v = in_parts(two, (const uint32_t[]){ 4, 4 });
        reduces_to(two, COPSE_REDUCE_SUM, v, NULL, 4, (const float[]){ 4, 6, 8, 10 });
        reduces_to(two, COPSE_REDUCE_MEAN, v, NULL, 4, (const float[]){ 2, 3, 4, 5 });
        reduces_to(two, COPSE_REDUCE_SUM, v, &axis_0, 1, (const float[]){ 28 });
        reduces_to(two, COPSE_REDUCE_MEAN, v, &axis_0, 1, (const float[]){ 3.5f });
        copse_value_release(&v);
    }
}

static void one_3(void **unused)
{
    static const uint32_t counts[] = { 4, 2, 0 };
    (void)unused;
    for (uint32_t i = 0; i < 4; i++) {
        copse_strategy *st = strategy_of(2 + i / 2, i % 2);
        copse_value *v = in_parts(st, counts), *out;
        FAILS(COPSE_ERR_SHAPE, copse_strategy_reduce(st, COPSE_REDUCE_SUM, v, NULL, &out),
              "replica");
        reduces_to(st, COPSE_REDUCE_SUM, v, &axis_0, 1, (const float[]){ 15 });
        reduces_to(st, COPSE_REDUCE_MEAN, v, &axis_0, 1, (const float[]){ 2.5f });
        reduces_to(st, COPSE_REDUCE_MEAN, v, &axis_last, 1, (const float[]){ 2.5f });
        copse_value_release(&v);
        v = in_parts(st, (const uint32_t[]){ 0, 0, 0 });
        FAILS(COPSE_ERR_ARGUMENT, copse_strategy_reduce(st, COPSE_REDUCE_MEAN, v, &axis_0, &out),
              "no replica has an element");
        FAILS(COPSE_ERR_ARGUMENT, copse_strategy_reduce(st, COPSE_REDUCE_SUM, v, &axis_0, &out),
              "no replica has an element");
        copse_value_release(&v);
    }
}

static void one_8(void **unused)
{
    copse_value *five = scalar(5), *list[2] = { 0 };
    size_t count;
    (void)unused;
    copse_local_results(five, list, 2, &count);
    assert_int_equal(count, 1);
    assert_ptr_equal(list[0], five);
    copse_value_release(&five);

    const struct copse_context_params config = { .disable = "vulkan", .no_env = true };
    struct copse_context_params copy = { 0 };
    OK(copse_strategy_update_config(one, &config, &copy));
    assert_memory_equal(&copy, &config, sizeof config);
    copy.disable = NULL;
    assert_string_equal(config.disable, "vulkan");
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_update_config(one, NULL, &copy), "NULL");
}

static copse_status reduces(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    (void)count, (void)user;
    REFUSED(
        COPSE_ERR_CONTEXT,
        copse_strategy_reduce(copse_replica_strategy(rc), COPSE_REDUCE_SUM, args[0], NULL, result),
        "in replica 0 of the one device strategy");
    return COPSE_OK;
}

static void one_10(void **unused)
{
    copse_value *x = scalar(1), *out;
    (void)unused;
    OK(copse_strategy_run(one, reduces, &x, 1, NULL, NULL));
    OK(copse_strategy_reduce(one, COPSE_REDUCE_SUM, x, NULL, &out)); /* outside of everything */
    assert_ptr_equal(out, x);
    copse_value_release(&out);
    OK(copse_scope_enter(one));
    OK(copse_strategy_reduce(one, COPSE_REDUCE_MEAN, x, NULL, &out));
    assert_ptr_equal(out, x);
    copse_value_release(&out);
    FAILS(COPSE_ERR_CONTEXT,
          copse_strategy_reduce(strategy_of(2, false), COPSE_REDUCE_SUM, x, NULL, &out),
          "for another strategy");
    OK(copse_scope_leave(one));
    copse_value_release(&x);
}

/* ---- beyond the above: more axes, integers, the default strategy ---- */

static void middle_axis_and_integers(void **unused)
{
    static const int32_t ints[] = { 1, 2, 3, 4, 5, 6, INT32_MAX, INT32_MAX, 7, 8, 9, 10 };
    copse_strategy *two = strategy_of(2, true);
    copse_value *parts[2], *v, *out;
    int32_t sums[4];
    float means[4];
    (void)unused;
    OK(copse_value_create(ctx, COPSE_I32, COPSE_SHAPE(2, 1, 2), ints, &parts[0]));
    OK(copse_value_create(ctx, COPSE_I32, COPSE_SHAPE(2, 0, 2), NULL, &parts[1]));
    v = per_replica(two, parts);
    OK(copse_strategy_reduce(two, COPSE_REDUCE_SUM, v, &axis_1, &out));
    assert_int_equal(copse_value_type(out), COPSE_I32);
    assert_int_equal(copse_value_shape(out).rank, 2);
    OK(copse_value_read(out, sums));
    assert_memory_equal(sums, ints, sizeof sums);
    copse_value_release(&out);
    copse_value_release(&v);

    OK(copse_value_create(ctx, COPSE_I32, COPSE_SHAPE(2, 1, 2), ints + 4, &parts[0]));
    OK(copse_value_create(ctx, COPSE_I32, COPSE_SHAPE(2, 2, 2), ints + 4, &parts[1]));
    v = per_replica(two, parts);
    /* wraps around, as without an axis */
    OK(copse_strategy_reduce(two, COPSE_REDUCE_SUM, v, &axis_1, &out));
    OK(copse_value_read(out, sums));
    assert_true(sums[0] == INT32_MIN + 9 && sums[1] == INT32_MIN + 11);
    assert_true(sums[2] == INT32_MIN + 15 && sums[3] == INT32_MIN + 17);
    copse_value_release(&out);
    OK(copse_strategy_reduce(two, COPSE_REDUCE_MEAN, v, &axis_1, &out));
    assert_int_equal(copse_value_type(out), COPSE_F32);
    OK(copse_value_read(out, means));
    assert_true(means[0] == (float)((5.0 + 5.0 + INT32_MAX) / 3));
    assert_true(means[3] == (float)((INT32_MAX + 8.0 + 10.0) / 3));
    copse_value_release(&out);
    copse_value_release(&v);

    parts[0] = counted(0, 2);
    OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2, 1), (const float[]){ 1, 2 }, &parts[1]));
    v = per_replica(two, parts);
    FAILS(COPSE_ERR_SHAPE, copse_strategy_reduce(two, COPSE_REDUCE_SUM, v, &axis_0, &out),
          "[2, 1]");
    copse_value_release(&v);
}

static void default_strategy_has_no_device(void **unused)
{
    copse_strategy *st = copse_current_strategy(), *kept_value = copse_strategy_retain(st);
    const struct copse_variable_params p = { .name = "v", .shape = COPSE_SCALAR };
    const uint32_t zero = 0;
    copse_value *x = scalar(2), *y;
    copse_variable *v;
    (void)unused;
    copse_strategy_release(&kept_value);
    assert_int_equal(copse_strategy_replicas(st), 1);
    assert_string_equal(copse_strategy_name(st), "default");
    assert_null(copse_strategy_device(st, 0));
    assert_int_equal(copse_value_rank(x), COPSE_HOST);
    FAILS(COPSE_ERR_UNSUPPORTED, copse_variable_create(st, &p, &v), "no device");
    OK(copse_strategy_run(st, doubles, &x, 1, NULL, &y));
    assert_true(scalar_of(y) == 4.0f);
    copse_value_release(&y);
    OK(copse_strategy_reduce(st, COPSE_REDUCE_SUM, x, NULL, &y));
    assert_ptr_equal(x, y);
    copse_value_release(&y);
    OK(copse_strategy_reduce_to(st, COPSE_REDUCE_SUM, x, NULL, &y));
    copse_value_release(&y);
    OK(copse_strategy_broadcast(st, x, NULL, &y));
    assert_ptr_equal(x, y);
    copse_value_release(&y);
    FAILS(COPSE_ERR_ARGUMENT,
          copse_strategy_update_non_slot(st, &zero, 1, NULL, NULL, 0, NULL, NULL), "'fn' is NULL");
    FAILS(COPSE_ERR_UNSUPPORTED, copse_strategy_set_cross_device(st, NULL), "default strategy");
    FAILS(COPSE_ERR_UNSUPPORTED, copse_value_create_on(st, 0, COPSE_F32, COPSE_SCALAR, "1234", &y),
          "default strategy");
    FAILS(COPSE_ERR_UNSUPPORTED, copse_value_per_replica(st, &x, 1, &y), "default strategy");
    copse_value_release(&x);
}

static void settings_out_of_range_are_refused(void **unused)
{
    const struct copse_strategy_params algorithm = { .reduction = (copse_reduce_algorithm)99 };
    const struct copse_strategy_params transfer = { .transfer = (copse_transfer)99 };
    const char *twice[] = { found[0], found[0] };
    copse_strategy *st;
    (void)unused;
    FAILS(COPSE_ERR_ARGUMENT, copse_one_device_create(ctx, found[0], &algorithm, &st),
          "reduction 99");
    FAILS(COPSE_ERR_ARGUMENT, copse_mirrored_create(ctx, twice, 2, &algorithm, &st),
          "reduction 99");
    FAILS(COPSE_ERR_ARGUMENT, copse_mirrored_create(ctx, twice, 2, &transfer, &st), "transfer 99");
    FAILS(COPSE_ERR_ARGUMENT, copse_parameter_server_create(ctx, NULL, twice, 2, &transfer, &st),
          "transfer 99");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_1),
        cmocka_unit_test(one_2),
        cmocka_unit_test(one_3),
        cmocka_unit_test(one_8),
        cmocka_unit_test(one_10),
        cmocka_unit_test(settings_out_of_range_are_refused),
        cmocka_unit_test(middle_axis_and_integers),
        cmocka_unit_test(default_strategy_has_no_device),
    };
    return cmocka_run_group_tests(tests, open_one, close_one);
}
