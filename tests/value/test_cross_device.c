/* SPDX-License-Identifier: MIT */
/* Cross-device operations: results at every destination over mixtures of the devices found, an
   application's own accumulation, what is refused, and what is not summed. */
#include "copse/distribute/replica.h"
#include "tests/rig/value/cross_rig.h"

/* ---- OPS-1 ---- */

/* What the components must be and where; `to` NULL or a list. */
static void check_scalars(copse_strategy *st, const copse_value *v, float want, const uint32_t *to,
                          size_t to_count)
{
    const uint32_t n = st->replica_count;
    const size_t components = to ? to_count : n;
    if (!to && n == 1) {
        assert_int_equal(copse_value_kind_of(v), COPSE_VALUE_ARRAY);
        assert_true(scalar_of(v) == want);
        return;
    }
    assert_int_equal(copse_value_kind_of(v), COPSE_VALUE_MIRRORED);
    assert_int_equal(copse_value_count(v), components);
    for (size_t i = 0; i < components; i++) {
        const copse_value *c = copse_value_item(v, i);
        assert_int_equal(copse_value_rank(c), to ? to[i] : i);
        if (scalar_of(c) != want)
            fail_msg("%u replicas, component %zu: %g, not %g", n, i, (double)scalar_of(c),
                     (double)want);
    }
}

static void check_destination(copse_strategy *st, copse_cross_device *x, copse_value *const *values,
                              const struct copse_destinations *to, const uint32_t *ranks,
                              size_t count)
{
    const float n = (float)st->replica_count, sum = n * (n - 1) / 2;
    for (int op = COPSE_REDUCE_SUM; op <= COPSE_REDUCE_MEAN; op++) {
        const float by = op == COPSE_REDUCE_MEAN ? n : 1;
        copse_value *one, *both[2];
        OK(copse_cross_reduce(x, st, (copse_reduce_op)op, values[0], to, &one));
        check_scalars(st, one, sum / by, ranks, count);
        OK(copse_cross_batch_reduce(x, st, (copse_reduce_op)op, values, to, 2, both));
        check_scalars(st, both[0], sum / by, ranks, count);
        check_scalars(st, both[1], (sum + n) / by, ranks, count);
        copse_value_release(&one);
        copse_value_release(&both[0]);
        copse_value_release(&both[1]);
    }
}

static void check_ops_1(copse_strategy *st)
{
    const uint32_t n = st->replica_count;
    copse_value *first[MAX_RANKS], *second[MAX_RANKS], *values[2], *variable, *host;
    copse_variable *w;
    const float zero = 0;
    const struct copse_variable_params p = { .name = "w", .shape = COPSE_SCALAR, .values = &zero };
    uint32_t all[MAX_RANKS];
    for (uint32_t r = 0; r < n; r++) {
        first[r] = scalar_on(st, r, (float)r);
        second[r] = scalar_on(st, r, (float)r + 1);
        all[r] = r;
    }
    values[0] = per_replica(st, first);
    values[1] = per_replica(st, second);
    OK(copse_variable_create(st, &p, &w));
    OK(copse__value_of_variable(w, COPSE_ALL_RANKS, &variable));
    host = scalar_on(st, COPSE_HOST, 0);
    for (size_t s = 0; s < COPSE_COUNT(settings); s++) {
        const uint32_t last = n - 1, on_host = COPSE_HOST, list[] = { last, COPSE_HOST, 0 };
        copse_cross_device *x;
        OK(copse_cross_device_create(ctx, &settings[s], &x));
        check_destination(st, x, values, NULL, NULL, 0);
        check_destination(st, x, values, &(struct copse_destinations){ .like = variable }, all, n);
        check_destination(st, x, values, &(struct copse_destinations){ .like = host }, &on_host, 1);
        check_destination(st, x, values, &(struct copse_destinations){ .ranks = &last, .count = 1 },
                          &last, 1);
        if (n > 1)
            check_destination(st, x, values,
                              &(struct copse_destinations){ .ranks = list, .count = 3 }, list, 3);
        copse_cross_device_release(&x);
    }
    copse_value_release(&values[0]);
    copse_value_release(&values[1]);
    copse_value_release(&variable);
    copse_value_release(&host);
}

/* 0 .. N-1 and a second tensor of one more each, for every kind of destination. */
static void ops_1(void **unused)
{
    (void)unused;
    over_mixtures(check_ops_1);
}

/* ---- OPS-6: the application's accumulation ---- */

static copse_status largest(void *user, copse_value *const *values, size_t count, copse_value **out)
{
    float best = -INFINITY;
    uint32_t *place = user;
    for (size_t i = 0; i < count; i++) {
        float x;
        COPSE_TRY(copse_value_read(values[i], &x));
        best = COPSE_MAX(best, x);
        assert_int_equal(copse_value_rank(values[i]), *place); /* all on one device */
    }
    return copse_value_scalar(ctx, best, out);
}

static copse_status refuse(void *user, copse_value *const *values, size_t count, copse_value **out)
{
    (void)user;
    (void)values;
    (void)count;
    *out = NULL;
    return copse_fail(COPSE_ERR_CANCELLED, "not today");
}

static copse_status wrong_shape(void *user, copse_value *const *values, size_t count,
                                copse_value **out)
{
    (void)user;
    (void)values;
    (void)count;
    return copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(1), &(float){ 0 }, out);
}

static void ops_6(void **unused)
{
    copse_strategy *st = open_all(ctx, 3);
    copse_value *parts[] = { scalar_on(st, 0, 1), scalar_on(st, 1, 5), scalar_on(st, 2, 3) };
    copse_value *v = per_replica(st, parts), *out;
    copse_cross_device *x;
    (void)unused;
    for (uint32_t place = 0; place < 4; place++) {
        uint32_t root = place == 3 ? COPSE_HOST : place;
        const struct copse_cross_device_params p = { .kind = COPSE_CROSS_TO_ONE,
                                                     .has_root = true,
                                                     .root = root,
                                                     .accumulate = largest,
                                                     .user = &root };
        OK(copse_cross_device_create(ctx, &p, &x));
        OK(copse_cross_reduce(x, st, COPSE_REDUCE_SUM, v, NULL, &out));
        for (uint32_t r = 0; r < 3; r++)
            assert_true(scalar_of(copse_value_item(out, r)) == 5.0f);
        copse_value_release(&out);
        OK(copse_cross_reduce(x, st, COPSE_REDUCE_MEAN, v, NULL, &out));
        for (uint32_t r = 0; r < 3; r++)
            assert_true(scalar_of(copse_value_item(out, r)) == 5.0f / 3.0f);
        copse_value_release(&out);
        copse_cross_device_release(&x);
    }
    struct copse_cross_device_params p = { .kind = COPSE_CROSS_TO_ONE, .accumulate = refuse };
    OK(copse_cross_device_create(ctx, &p, &x));
    FAILS(COPSE_ERR_CANCELLED, copse_cross_reduce(x, st, COPSE_REDUCE_SUM, v, NULL, &out),
          "not today");
    copse_cross_device_release(&x);
    p.accumulate = wrong_shape;
    OK(copse_cross_device_create(ctx, &p, &x));
    FAILS(COPSE_ERR_SHAPE, copse_cross_reduce(x, st, COPSE_REDUCE_MEAN, v, NULL, &out),
          "another shape");
    copse_cross_device_release(&x);
    copse_value_release(&v);
    copse_strategy_release(&st);
}

/* ---- OPS-7: refusals ---- */

static void ops_7(void **unused)
{
    copse_strategy *st = open_all(ctx, 2), *other = open_all(ctx, 2);
    copse_value *parts[] = { scalar_on(st, 0, 1), scalar_on(st, 1, 2) };
    copse_value *v = per_replica(st, parts), *out = v, *batch[2], *plain, *zero, *object, *mixed;
    const uint32_t ranks[] = { 0, 1, 1, 2 };
    (void)unused;
    FAILS(COPSE_ERR_ARGUMENT, copse_cross_reduce(NULL, st, (copse_reduce_op)7, v, NULL, &out),
          "unknown operation 7");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, v,
                             &(struct copse_destinations){ .ranks = ranks, .count = 0 }, &out),
          "empty");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, v,
                             &(struct copse_destinations){ .ranks = ranks, .count = 3 }, &out),
          "replica 1 is listed twice");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, v,
                             &(struct copse_destinations){ .ranks = ranks + 2, .count = 2 }, &out),
          "no replica 2 of 2");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_cross_batch_reduce(NULL, st, COPSE_REDUCE_SUM, &v, NULL, 0, batch), "empty");

    /* One identical value, a literal zero too. */
    OK(copse_value_scalar(ctx, 3, &plain));
    OK(copse_value_scalar(ctx, 0, &zero));
    FAILS(COPSE_ERR_ARGUMENT, copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, plain, NULL, &out),
          "the same on all 2 replicas");
    FAILS(COPSE_ERR_ARGUMENT, copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, zero, NULL, &out),
          "the same on all 2 replicas");
    copse_value *mirrored;
    OK(copse_cross_broadcast(NULL, st, plain, NULL, &mirrored));
    FAILS(COPSE_ERR_ARGUMENT, copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, mirrored, NULL, &out),
          "the same on all 2 replicas");
    batch[0] = v;
    batch[1] = plain;
    copse_value *both[2] = { v, v };
    FAILS(COPSE_ERR_ARGUMENT,
          copse_cross_batch_reduce(NULL, st, COPSE_REDUCE_SUM, batch, NULL, 2, both), "the same");
    assert_null(both[0]);
    assert_null(both[1]);

    OK(copse_value_object(ctx, &st, &object));
    FAILS(COPSE_ERR_ARGUMENT, copse_cross_reduce(NULL, st, COPSE_REDUCE_MEAN, object, NULL, &out),
          "object");
    parts[0] = scalar_on(st, 0, 1);
    parts[1] = copse_value_retain(object);
    mixed = per_replica(st, parts);
    FAILS(COPSE_ERR_ARGUMENT, copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, mixed, NULL, &out),
          "replica 1 has an object");
    copse_value_release(&mixed);
    parts[0] = scalar_on(st, 0, 1);
    parts[1] = floats_on(st, 1, 2, (const float[]){ 1, 2 });
    mixed = per_replica(st, parts);
    FAILS(COPSE_ERR_SHAPE, copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, mixed, NULL, &out),
          "replica 0 has f32[], replica 1 f32[2]");
    copse_value_release(&mixed);
    parts[0] = floats_on(st, 0, 2, (const float[]){ 1, 2 });
    parts[1] = sparse_on(st, 1, 0, NULL, NULL);
    mixed = per_replica(st, parts);
    FAILS(COPSE_ERR_SHAPE, copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, mixed, NULL, &out),
          "sparse");
    copse_value_release(&mixed);
    FAILS(COPSE_ERR_ARGUMENT, copse_cross_reduce(NULL, other, COPSE_REDUCE_SUM, v, NULL, &out),
          "another strategy");
    FAILS(COPSE_ERR_ARGUMENT, copse_cross_broadcast(NULL, st, v, NULL, &out),
          "replicas may differ");

    copse_reduce_op op;
    OK(copse_reduce_op_parse("Sum", &op));
    assert_int_equal(op, COPSE_REDUCE_SUM);
    OK(copse_reduce_op_parse("MEAN", &op));
    assert_int_equal(op, COPSE_REDUCE_MEAN);
    FAILS(COPSE_ERR_ARGUMENT, copse_reduce_op_parse("means", &op), "'means'");
    FAILS(COPSE_ERR_ARGUMENT, copse_reduce_op_parse("su", &op), "'su'");

    static const struct {
        struct copse_cross_device_params p;
        const char *word;
    } bad[] = {
        { { .kind = (copse_cross_device_kind)9 }, "algorithm 9" },
        { { .has_root = true }, "root belongs" },
        { { .kind = COPSE_CROSS_TO_ONE, .has_root = true, .root = 64 }, "root 64" },
        { { .accumulate = largest }, "accumulation" },
        { { .kind = COPSE_CROSS_TO_ONE, .packs = 1 }, "one by one" },
        { { .small_group = 2 }, "small_bytes" },
    };
    for (size_t i = 0; i < COPSE_COUNT(bad); i++) {
        copse_cross_device *x;
        FAILS(COPSE_ERR_ARGUMENT, copse_cross_device_create(ctx, &bad[i].p, &x), bad[i].word);
    }
    copse_cross_device *x;
    OK(copse_cross_device_create(ctx,
                                 &(struct copse_cross_device_params){
                                     .kind = COPSE_CROSS_TO_ONE, .has_root = true, .root = 2 },
                                 &x));
    FAILS(COPSE_ERR_ARGUMENT, copse_cross_reduce(x, st, COPSE_REDUCE_SUM, v, NULL, &out), "root 2");
    copse_cross_device_release(&x);
    copse_value_release(&v);
    copse_value_release(&plain);
    copse_value_release(&zero);
    copse_value_release(&object);
    copse_value_release(&mirrored);
    copse_strategy_release(&st);
    copse_strategy_release(&other);
}

/* ---- what is not summed ---- */

static void plain_values_with_mean_are_themselves(void **unused)
{
    copse_strategy *st = open_all(ctx, 3), *one = open_all(ctx, 1);
    copse_value *plain = scalar_on(st, 1, 7), *out, *mirrored, *whole;
    const uint32_t to[] = { 2, COPSE_HOST, 1 };
    const struct copse_destinations places = { .ranks = to, .count = 3 };
    copse_variable *w;
    const float two = 2;
    (void)unused;
    OK(copse_cross_reduce(NULL, st, COPSE_REDUCE_MEAN, plain, NULL, &out));
    assert_ptr_equal(out, plain);
    copse_value_release(&out);
    OK(copse_cross_reduce(NULL, st, COPSE_REDUCE_MEAN, plain, &places, &mirrored));
    check_scalars(st, mirrored, 7, to, 3);
    assert_ptr_equal(copse_value_item(mirrored, 2), plain); /* it stands there already */
    OK(copse_cross_reduce(NULL, st, COPSE_REDUCE_MEAN, mirrored, NULL, &out));
    assert_ptr_equal(out, mirrored);
    copse_value_release(&out);
    OK(copse_cross_broadcast(NULL, st, mirrored, NULL, &out));
    check_scalars(st, out, 7, (const uint32_t[]){ 0, 1, 2 }, 3);
    copse_value_release(&out);
    copse_value_release(&mirrored);
    copse_value_release(&plain);

    OK(copse_variable_create(st, &(struct copse_variable_params){ .name = "w", .values = &two },
                             &w));
    OK(copse__value_of_variable(w, COPSE_ALL_RANKS, &whole));
    OK(copse_cross_broadcast(NULL, st, whole, &places, &out));
    check_scalars(st, out, 2, to, 3);
    copse_value_release(&out);
    FAILS(COPSE_ERR_ARGUMENT, copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, whole, NULL, &out),
          "the same");
    copse_value_release(&whole);

    /* Components of a variable are numbers like any other. */
    copse_value *parts[3];
    for (uint32_t r = 0; r < 3; r++)
        OK(copse__value_of_variable(w, r, &parts[r]));
    whole = per_replica(st, parts);
    OK(copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, whole, NULL, &out));
    check_scalars(st, out, 6, NULL, 0);
    copse_value_release(&out);
    copse_value_release(&whole);

    /* One replica: SUM is the value itself. */
    plain = scalar_on(one, 0, -0.0f);
    OK(copse_cross_reduce(NULL, one, COPSE_REDUCE_SUM, plain, NULL, &out));
    assert_ptr_equal(out, plain);
    copse_value_release(&out);
    copse_value *alone[] = { copse_value_retain(plain) };
    copse_value *v = per_replica(one, alone);
    OK(copse_cross_reduce(NULL, one, COPSE_REDUCE_MEAN, v, NULL, &out));
    assert_ptr_equal(out, plain);
    copse_value_release(&out);
    copse_value_release(&v);
    copse_value_release(&plain);
    copse_strategy_release(&st);
    copse_strategy_release(&one);
}

/* Dense, sparse, whole, plain and nested ones in one batch come back in their order. */
static void batches_are_parted_and_put_together(void **unused)
{
    copse_strategy *st = open_all(ctx, 2);
    copse_value *dense = random_value(st, 4, 30), *plain = scalar_on(st, 0, 8), *parts[2];
    const int32_t low[] = { INT32_MAX, -7 }, high[] = { 1, 2 };
    (void)unused;
    OK(copse_value_create_on(st, 0, COPSE_I32, COPSE_SHAPE(2), low, &parts[0]));
    OK(copse_value_create_on(st, 1, COPSE_I32, COPSE_SHAPE(2), high, &parts[1]));
    copse_value *whole = per_replica(st, parts);
    parts[0] = sparse_on(st, 0, 1, (const int32_t[]){ 1 }, (const float[]){ 1, 2 });
    parts[1] = sparse_on(st, 1, 1, (const int32_t[]){ 0 }, (const float[]){ 3, 4 });
    copse_value *sparse = per_replica(st, parts), *structure, *values[4], *out[4];
    OK(copse_value_dict(ctx, (const char *[]){ "sparse", "dense" },
                        (copse_value *[]){ sparse, dense }, 2, &structure));
    values[0] = sparse;
    values[1] = structure;
    values[2] = plain;
    values[3] = whole;
    for (size_t s = 0; s < COPSE_COUNT(settings); s++) {
        copse_cross_device *x;
        OK(copse_cross_device_create(ctx, &settings[s], &x));
        OK(copse_cross_batch_reduce(x, st, COPSE_REDUCE_MEAN, values, NULL, 4, out));
        check_sparse(copse_value_item(out[0], 1), 2, (const int32_t[]){ 0, 1 },
                     (const float[]){ 1.5f, 2, 0.5f, 1 });
        check_component(copse_value_item(copse_value_find(out[1], "dense"), 1), COPSE_REDUCE_MEAN,
                        2, 4, 30, "in a structure");
        assert_int_equal(copse_value_count(copse_value_item(copse_value_item(out[1], 0), 0)), 2);
        assert_ptr_equal(out[2], plain);
        /* Whole numbers: the sum wraps around; the mean is that of the exact sum, as f32. */
        assert_int_equal(copse_value_type(out[3]), COPSE_F32);
        float mean[2];
        OK(copse_value_read(copse_value_item(out[3], 1), mean));
        assert_true(mean[0] == 1073741824.0f && mean[1] == -2.5f);
        for (int i = 0; i < 4; i++)
            copse_value_release(&out[i]);
        int32_t sum[2];
        OK(copse_cross_reduce(x, st, COPSE_REDUCE_SUM, whole, NULL, out));
        assert_int_equal(copse_value_type(out[0]), COPSE_I32);
        OK(copse_value_read(copse_value_item(out[0], 0), sum));
        assert_true(sum[0] == INT32_MIN && sum[1] == -5);
        copse_value_release(&out[0]);
        copse_cross_device_release(&x);
    }
    copse_value_release(&dense);
    copse_value_release(&plain);
    copse_value_release(&whole);
    copse_value_release(&sparse);
    copse_value_release(&structure);
    copse_strategy_release(&st);
}

/* ---- whole numbers: one rule for every way to reduce them ---- */

/* SUM wraps modulo 2^32, MEAN divides the exact sum. */
static void check_whole(copse_value *out, copse_reduce_op op, int64_t exact, uint32_t count,
                        const char *way)
{
    copse_value *v =
        copse_value_kind_of(out) == COPSE_VALUE_MIRRORED ? copse_value_item(out, 0) : out;
    int32_t sum;
    float mean;
    assert_int_equal(copse_value_type(v), op == COPSE_REDUCE_SUM ? COPSE_I32 : COPSE_F32);
    OK(copse_value_read(v, op == COPSE_REDUCE_SUM ? (void *)&sum : &mean));
    if (op == COPSE_REDUCE_SUM && (uint32_t)sum != (uint32_t)exact)
        fail_msg("%s: sum %d of %lld", way, (int)sum, (long long)exact);
    if (op == COPSE_REDUCE_MEAN && mean != (float)((double)exact / count))
        fail_msg("%s: mean %.9g of %lld / %u", way, (double)mean, (long long)exact, count);
}

static copse_status all_reduce_whole(copse_replica_context *rc, copse_value *const *args,
                                     size_t count, void *user, copse_value **result)
{
    (void)count;
    return copse_replica_all_reduce(rc, *(const copse_reduce_op *)user, args[0], result);
}

static void reduce_whole(copse_strategy *st, copse_reduce_op op, const int32_t *numbers)
{
    const uint32_t ranks = copse_strategy_replicas(st);
    const int axis = 0;
    copse_value *parts[4], *v, *out;
    int64_t exact = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        OK(copse_value_create_on(st, r, COPSE_I32, COPSE_SHAPE(1), &numbers[r], &parts[r]));
        exact += numbers[r];
    }
    v = per_replica(st, parts);
    OK(copse_strategy_reduce(st, op, v, NULL, &out));
    check_whole(out, op, exact, ranks, "reduce");
    copse_value_release(&out);
    OK(copse_strategy_reduce(st, op, v, &axis, &out));
    check_whole(out, op, exact, ranks, "reduce with an axis");
    copse_value_release(&out);
    for (size_t s = 0; s < COPSE_COUNT(settings); s++) {
        copse_cross_device *x;
        OK(copse_cross_device_create(ctx, &settings[s], &x));
        OK(copse_cross_reduce(x, st, op, v, NULL, &out));
        check_whole(out, op, exact, ranks, "copse_cross_reduce");
        copse_value_release(&out);
        copse_cross_device_release(&x);
    }
    OK(copse_strategy_run(st, all_reduce_whole, &v, 1, &op, &out));
    check_whole(copse_value_item(out, 0), op, exact, ranks, "all-reduce of replicas");
    copse_value_release(&out);
    copse_value_release(&v);
}

static void whole_numbers_have_one_rule(void **unused)
{
    static const int32_t numbers[][4] = {
        { 2000000000, 2000000000, 2000000000, 2000000000 },
        { INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN },
        { INT32_MAX, 1, -7, 3 },
        { -1, -65536, 65535, -65537 },
        { INT32_MAX, INT32_MIN, 0, -2 },
    };
    (void)unused;
    for (uint32_t ranks = 2; ranks <= 4; ranks++) {
        copse_strategy *st = open_all(ctx, ranks);
        for (size_t n = 0; n < COPSE_COUNT(numbers); n++) {
            reduce_whole(st, COPSE_REDUCE_SUM, numbers[n]);
            reduce_whole(st, COPSE_REDUCE_MEAN, numbers[n]);
        }
        copse_strategy_release(&st);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ops_1),
        TEST(ops_6),
        TEST(ops_7),
        TEST(plain_values_with_mean_are_themselves),
        TEST(batches_are_parted_and_put_together),
        TEST(whole_numbers_have_one_rule),
    };
    return cmocka_run_group_tests_name("cross_device", tests, open_context, close_context);
}
