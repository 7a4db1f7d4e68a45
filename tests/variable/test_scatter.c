/* SPDX-License-Identifier: MIT */
/* Scattered changes of variables: rows by the slices of sparse values, in every context. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>

#include "tests/rig/value/replica_rig.h"

#define ROWS 6u
#define ROW  2u
#define ALL  (ROWS * ROW)

typedef copse_status scatter_fn(copse_variable *v, copse_value *slices);

/* Element i starts as i. */
static copse_variable *make(copse_strategy *st, copse_synchronization sync,
                            copse_aggregation aggregation)
{
    float values[ALL];
    copse_variable *v;
    const struct copse_variable_params p = { .name = fresh("s"),
                                             .shape = COPSE_SHAPE(ROWS, ROW),
                                             .values = values,
                                             .synchronization = sync,
                                             .aggregation = aggregation };
    for (uint32_t i = 0; i < ALL; i++)
        values[i] = (float)i;
    OK(copse_variable_create(st, &p, &v));
    return v;
}

static copse_value *slices_of(uint32_t count, const int32_t *rows, const float *values)
{
    const struct copse_sparse_params p = { COPSE_SHAPE(ROWS, ROW), count, rows, values };
    copse_value *v = NULL;
    return copse_value_sparse(ctx, &p, &v) ? NULL : v;
}

/* Rows 4, 1 and 4 again. */
static copse_value *three_slices(void)
{
    return slices_of(3, (const int32_t[]){ 4, 1, 4 }, (const float[]){ 1, 2, 3, 4, 10, 20 });
}

/* What component r holds: i, but for the rows given as {row, first, second} up to row -1. */
static void holds(copse_variable *v, uint32_t r, const float (*rows)[3])
{
    float now[ALL], want[ALL];
    OK(copse_variable_read(v, r, now));
    for (uint32_t i = 0; i < ALL; i++)
        want[i] = (float)i;
    for (; (*rows)[0] >= 0; rows++)
        memcpy(want + (size_t)(*rows)[0] * ROW, *rows + 1, sizeof(float) * ROW);
    for (uint32_t i = 0; i < ALL; i++)
        if (now[i] != want[i])
            fail_msg("'%s': replica %u, row %u, column %u: %g, not %g", copse_variable_name(v), r,
                     i / ROW, i % ROW, (double)now[i], (double)want[i]);
}

static void all_hold(copse_variable *v, const float (*rows)[3])
{
    for (uint32_t r = 0; r < copse_strategy_replicas(v->strategy); r++)
        holds(v, r, rows);
}

static const float unchanged[][3] = { { -1 } };

static void from_outside(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_value *slices = three_slices(), *none = slices_of(0, NULL, NULL), *mirrored;
        copse_variable *add = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_NONE);
        copse_variable *set = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_NONE);
        OK(copse_scatter_add(add, none));
        all_hold(add, unchanged);
        OK(copse_scatter_add(add, slices));
        all_hold(add, (const float[][3]){ { 4, 8 + 11, 9 + 22 }, { 1, 2 + 3, 3 + 4 }, { -1 } });
        OK(copse_scatter_sub(add, slices));
        all_hold(add, unchanged);
        OK(copse_scatter_update(set, slices)); /* of two slices of a row the last one stays */
        all_hold(set, (const float[][3]){ { 4, 10, 20 }, { 1, 3, 4 }, { -1 } });
        OK(copse_strategy_broadcast(st, slices, NULL, &mirrored));
        OK(copse_scatter_add(set, mirrored));
        all_hold(set, (const float[][3]){ { 4, 21, 42 }, { 1, 6, 8 }, { -1 } });
        copse_value_release(&mirrored);
        copse_value_release(&slices);
        copse_value_release(&none);
        (void)n;
    }
}

/* ---- products, quotients, smaller and larger ones ---- */

/* Row 1 and, two slices of it, row 4. */
static copse_value *factors(void)
{
    return slices_of(3, (const int32_t[]){ 4, 1, 4 }, (const float[]){ 2, 0.5f, 4, -8, 16, 64 });
}

static const struct arithmetic {
    scatter_fn *scatter;
    float rows[3][3]; /* what `factors` make of the values at first */
} arithmetics[] = {
    { copse_scatter_mul, { { 4, 256, 288 }, { 1, 8, -24 }, { -1 } } },
    { copse_scatter_div, { { 4, 0.25f, 0.28125f }, { 1, 0.5f, -0.375f }, { -1 } } },
    { copse_scatter_min, { { 4, 2, 0.5f }, { 1, 2, -8 }, { -1 } } },
    { copse_scatter_max, { { 4, 16, 64 }, { 1, 4, 3 }, { -1 } } },
};

static void arithmetic_from_outside(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_value *slices = factors(), *none = slices_of(0, NULL, NULL), *mirrored;
        OK(copse_strategy_broadcast(st, slices, NULL, &mirrored));
        for (size_t k = 0; k < COPSE_COUNT(arithmetics); k++) {
            const struct arithmetic *a = &arithmetics[k];
            copse_variable *v = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_NONE);
            copse_variable *local = make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_MEAN);
            copse_variable *sum = make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM);
            OK(a->scatter(v, none));
            all_hold(v, unchanged);
            OK(a->scatter(v, k % 2 ? slices : mirrored));
            all_hold(v, a->rows);
            OK(a->scatter(local, slices));
            all_hold(local, a->rows);
            FAILS(COPSE_ERR_ARGUMENT, a->scatter(sum, slices), "from outside");
        }
        copse_value_release(&mirrored);
        copse_value_release(&slices);
        copse_value_release(&none);
        (void)n;
    }
}

/* Quotients by 0 are infinite, with the sign of both; a NaN is neither smaller nor larger than
   anything. */
static void arithmetic_of_special_values(void **unused)
{
    const float first[] = { 3, -3, NAN, 0 }, by[] = { 0, 0, 1, NAN };
    const int32_t rows[] = { 0, 1, 2, 3 };
    (void)unused;
    copse_strategy *st = strategy_of(2, true);
    for (size_t k = 1; k < COPSE_COUNT(arithmetics); k++) {
        const struct copse_variable_params p = { .name = fresh("n"),
                                                 .shape = COPSE_SHAPE(4),
                                                 .values = first };
        const struct copse_sparse_params sparse = { COPSE_SHAPE(4), 4, rows, by };
        copse_variable *v;
        copse_value *slices;
        float now[4];
        OK(copse_variable_create(st, &p, &v));
        OK(copse_value_sparse(ctx, &sparse, &slices));
        OK(arithmetics[k].scatter(v, slices));
        copse_value_release(&slices);
        for (uint32_t r = 0; r < 2; r++) {
            OK(copse_variable_read(v, r, now));
            assert_true(isnan(now[2]));
            if (arithmetics[k].scatter == copse_scatter_div) {
                assert_true(isinf(now[0]) && now[0] > 0 && isinf(now[1]) && now[1] < 0 &&
                            isnan(now[3]));
            } else {
                assert_true(now[0] == (arithmetics[k].scatter == copse_scatter_min ? 0 : 3));
                assert_true(now[1] == (arithmetics[k].scatter == copse_scatter_min ? -3 : 0));
                assert_true(now[3] == 0);
            }
        }
    }
}

/* ---- in replicas ---- */

struct scattering {
    copse_variable *v;
    scatter_fn *scatter;
    /* NULL: of replica id slices {id + 1, 4} of row 0 and {16, 32} of row id % ROWS */
    copse_value *same;
};

static copse_status scatters(copse_replica_context *rc, copse_value *const *args, size_t count,
                             void *user, copse_value **result)
{
    const struct scattering *s = user;
    const int32_t id = (int32_t)copse_replica_id(rc), rows[] = { 0, id % (int32_t)ROWS };
    const float values[] = { (float)id + 1, 4, 16, 32 };
    copse_value *slices = s->same ? copse_value_retain(s->same) : slices_of(2, rows, values);
    (void)args, (void)count, (void)result;
    CHECK(slices);
    const copse_status status = s->scatter(s->v, slices);
    copse_value_release(&slices);
    return status;
}

static copse_status in_replicas(copse_variable *v, scatter_fn *scatter, copse_value *same)
{
    struct scattering s = { v, scatter, same };
    return copse_strategy_run(v->strategy, scatters, NULL, 0, &s, NULL);
}

/* Sums of what all replicas scatter, times `factor`, behind the values at first. */
static void holds_sums(copse_variable *v, uint32_t n, float factor)
{
    float rows[ROWS + 1][3];
    for (uint32_t row = 0; row < ROWS; row++) {
        const float times = (float)((n + ROWS - 1 - row) / ROWS); /* replicas whose own row it is */
        rows[row][0] = (float)row;
        rows[row][1] = (float)(2 * row) + factor * 16 * times;
        rows[row][2] = (float)(2 * row + 1) + factor * 32 * times;
    }
    rows[0][1] += factor * (float)(n * (n + 1) / 2);
    rows[0][2] += factor * 4 * (float)n;
    rows[ROWS][0] = -1;
    all_hold(v, (const float(*)[3])rows);
}

static void in_all_replicas(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_variable *sum = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_SUM);
        copse_variable *mean = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_MEAN);
        copse_variable *one = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_ONLY_FIRST_REPLICA);
        OK(in_replicas(sum, copse_scatter_add, NULL));
        holds_sums(sum, n, 1);
        OK(in_replicas(sum, copse_scatter_sub, NULL));
        all_hold(sum, unchanged);
        OK(in_replicas(sum, copse_scatter_sub, NULL));
        holds_sums(sum, n, -1);
        if ((n & (n - 1)) == 0) { /* division is exact */
            OK(in_replicas(mean, copse_scatter_add, NULL));
            holds_sums(mean, n, 1 / (float)n);
        }
        OK(in_replicas(one, copse_scatter_add, NULL)); /* row 0 twice */
        all_hold(one, (const float[][3]){ { 0, 17, 37 }, { -1 } });
        OK(in_replicas(one, copse_scatter_update, NULL));
        all_hold(one, (const float[][3]){ { 0, 16, 32 }, { -1 } });
    }
}

static void arithmetic_in_replicas(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_value *slices = factors();
        for (size_t k = 0; k < COPSE_COUNT(arithmetics); k++) {
            const struct arithmetic *a = &arithmetics[k];
            copse_variable *one =
                make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_ONLY_FIRST_REPLICA);
            copse_variable *local = make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM);
            copse_variable *sum = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_SUM);
            copse_variable *mean = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_MEAN);
            OK(in_replicas(one, a->scatter, slices)); /* once, not once for every replica */
            all_hold(one, a->rows);
            OK(in_replicas(local, a->scatter, slices)); /* nobody meets: each its own */
            all_hold(local, a->rows);
            FAILS(COPSE_ERR_UNSUPPORTED, in_replicas(sum, a->scatter, slices),
                  "ONLY_FIRST_REPLICA");
            FAILS(COPSE_ERR_UNSUPPORTED, in_replicas(mean, a->scatter, slices),
                  "ONLY_FIRST_REPLICA");
            all_hold(sum, unchanged);
            all_hold(mean, unchanged);
        }
        copse_value_release(&slices);
        (void)n;
    }
}

static void replica_local_ones(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_value *slices = three_slices();
        copse_variable *sum = make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM);
        copse_variable *mean = make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_MEAN);
        OK(in_replicas(sum, copse_scatter_add, NULL));
        for (uint32_t r = 1; r < n; r++) {
            const float own = (float)(2 * (r % ROWS));
            if (r % ROWS)
                holds(sum, r,
                      (const float[][3]){ { 0, (float)r + 1, 5 },
                                          { (float)(r % ROWS), own + 16, own + 33 },
                                          { -1 } });
        }
        holds(sum, 0, (const float[][3]){ { 0, 17, 37 }, { -1 } });
        OK(in_replicas(mean, copse_scatter_update, slices)); /* nobody meets: each its own */
        all_hold(mean, (const float[][3]){ { 4, 10, 20 }, { 1, 3, 4 }, { -1 } });
        OK(copse_scatter_add(mean, slices));
        all_hold(mean, (const float[][3]){ { 4, 21, 42 }, { 1, 6, 8 }, { -1 } });
        FAILS(COPSE_ERR_ARGUMENT, copse_scatter_add(sum, slices), "from outside");
        FAILS(COPSE_ERR_ARGUMENT, copse_scatter_update(sum, slices), "from outside");
        copse_value_release(&slices);
    }
}

/* ---- in update functions ---- */

static copse_status scatters_one(copse_strategy *st, copse_value *target, copse_value *const *args,
                                 size_t count, void *user, copse_value **result)
{
    (void)st, (void)count, (void)user, (void)result;
    return copse_current_update_rank() == 1
               ? COPSE_OK
               : copse_scatter_add(copse_value_variable(target), args[0]);
}

static void in_updates(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_value *slices = three_slices(), *mirrored;
        copse_variable *v = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_SUM);
        OK(copse_strategy_broadcast(st, slices, NULL, &mirrored));
        OK(copse_strategy_update(st, v, scatters_one, &mirrored, 1, NULL, NULL));
        for (uint32_t r = 0; r < n; r++)
            holds(v, r,
                  r == 1 ? unchanged : (const float[][3]){ { 4, 19, 31 }, { 1, 5, 7 }, { -1 } });
        copse_value_release(&mirrored);
        copse_value_release(&slices);
    }
}

/* ---- refusals ---- */

static void what_is_refused(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        const struct copse_sparse_params other = { COPSE_SHAPE(ROWS, ROW + 1), 1,
                                                   (const int32_t[]){ 0 },
                                                   (const float[]){ 1, 2, 3 } };
        const struct copse_variable_params ints = { .name = fresh("i"),
                                                    .shape = COPSE_SHAPE(ROWS, ROW),
                                                    .type = COPSE_I32 };
        const float numbers[ALL] = { 0 };
        copse_value *slices = three_slices(), *wide, *dense;
        copse_variable *whole_numbers;
        OK(copse_variable_create(st, &ints, &whole_numbers)); /* its name, before another is made */
        copse_variable *sum = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_SUM);
        copse_variable *mean = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_MEAN);
        copse_variable *none = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_NONE);
        OK(copse_value_sparse(ctx, &other, &wide));
        OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(ROWS, ROW), numbers, &dense));
        FAILS(COPSE_ERR_SHAPE, copse_scatter_add(sum, wide), "[6, 3]");
        FAILS(COPSE_ERR_SHAPE, copse_scatter_add(whole_numbers, slices), "is i32");
        FAILS(COPSE_ERR_ARGUMENT, copse_scatter_add(sum, dense), "sparse value");
        FAILS(COPSE_ERR_ARGUMENT, copse_assign_add(sum, slices), "mirrored array");
        FAILS(COPSE_ERR_ARGUMENT, copse_scatter_update(sum, NULL), "NULL");
        FAILS(COPSE_ERR_SHAPE, in_replicas(mean, copse_scatter_add, wide), "[6, 3]");
        FAILS(COPSE_ERR_ARGUMENT, in_replicas(mean, copse_scatter_sub, dense), "sparse value");
        FAILS(COPSE_ERR_UNSUPPORTED, in_replicas(sum, copse_scatter_update, NULL),
              "ONLY_FIRST_REPLICA");
        FAILS(COPSE_ERR_ARGUMENT, in_replicas(none, copse_scatter_add, NULL),
              "without an aggregation");
        if (n > 1)
            FAILS(COPSE_ERR_ARGUMENT, in_replicas(sum, copse_scatter_add, slices), "same value");
        all_hold(sum, unchanged);
        all_hold(mean, unchanged);
        all_hold(none, unchanged);
        copse_value_release(&slices);
        copse_value_release(&wide);
        copse_value_release(&dense);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_outside),
        cmocka_unit_test(arithmetic_from_outside),
        cmocka_unit_test(arithmetic_of_special_values),
        cmocka_unit_test(in_all_replicas),
        cmocka_unit_test(arithmetic_in_replicas),
        cmocka_unit_test(replica_local_ones),
        cmocka_unit_test(in_updates),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
