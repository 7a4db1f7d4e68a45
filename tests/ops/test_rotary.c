/* SPDX-License-Identifier: MIT */
/* Rotary positions: the definition at large positions, scores that depend on distances only, the
   derivative of the table, one table for calls of equal angles. */
#include <math.h>
#include <stdlib.h>

#include "copse/ops/rotary.h"
#include "core/base/random.h"
#include "tests/rig/conformance/op_harness.h"

static double *numbers(size_t n, uint64_t seed)
{
    struct copse_stream random;
    double *x = calloc(n, sizeof *x);
    assert_non_null(x);
    copse__stream_init(&random, seed, 0);
    for (size_t i = 0; i < n; i++)
        x[i] = (double)copse__stream_normal(&random);
    return x;
}

static copse_graph *new_graph(void)
{
    copse_graph *g;
    OK(copse_graph_create(harness_context(), &g));
    return g;
}

/* The result of one call on a device, or in double for NULL. */
static double *result_of(copse_device *dev, copse_shape shape, double *x,
                         const struct copse_rotary_params *p)
{
    double *got = calloc((size_t)copse__elements(shape), sizeof *got);
    copse_graph *g = new_graph();
    assert_non_null(got);
    copse_tensor *in = copse_graph_input(g, "x", COPSE_F32, shape);
    copse_tensor *y = copse_rotary(g, in, p);
    if (dev)
        harness_on_device(dev, g, &in, &x, 1, &y, 1, NULL, &got);
    else
        harness_in_double(g, &in, &x, 1, &y, 1, NULL, &got);
    copse_graph_release(&g);
    return got;
}

/* ---- the definition ---- */

enum { LENGTH = 40, HEADS = 2, WIDTH = 64 };

/* Each element is (a cos - b sin) of its angle within 5 half-ULPs of the magnitudes: 4 and the
   rounding of the table. */
static void check_definition(const char *id, const double *x, const double *y,
                             const struct copse_rotary_params *p)
{
    const size_t pairs = WIDTH / 2;
    const double base = p->base > 0 ? (double)p->base : 10000;
    for (size_t t = 0; t < LENGTH; t++)
        for (size_t i = 0; i < (size_t)HEADS * WIDTH; i++) {
            const size_t at = t * HEADS * WIDTH + i, k = i % WIDTH;
            const bool is_second = p->is_interleaved ? k % 2 != 0 : k >= pairs;
            const size_t pair = p->is_interleaved ? k / 2 : k % pairs,
                         apart = p->is_interleaved ? 1 : pairs;
            const double angle =
                (double)(t + p->offset) * exp(-2.0 * (double)pair / WIDTH * log(base));
            const double a = x[at] * cos(angle),
                         b = x[is_second ? at - apart : at + apart] * sin(angle);
            const double want = is_second ? a + b : a - b,
                         limit = 5 * 0x1p-24 * (fabs(a) + fabs(b)) + 1e-11;
            if (!(fabs(y[at] - want) <= limit))
                fail_msg("%s: position %zu, element %zu is %.9g, expected %.9g within %.3g", id,
                         t + p->offset, i, y[at], want, limit);
        }
}

static void large_positions_are_accurate(void **state)
{
    static const struct copse_rotary_params params[] = {
        { .offset = 0 },
        { .offset = 99970 },
        { .offset = 99970, .is_interleaved = true },
        { .base = 500000, .offset = 1000000 },
    };
    (void)state;
    double *x = numbers((size_t)LENGTH * HEADS * WIDTH, 3);
    for (size_t i = 0; i < COPSE_COUNT(params); i++)
        for (size_t d = 0; d < harness_device_count(); d++) {
            double *y =
                result_of(harness_device(d), COPSE_SHAPE(LENGTH, HEADS, WIDTH), x, &params[i]);
            check_definition(copse_device_describe(harness_device(d))->id, x, y, &params[i]);
            free(y);
        }
    free(x);
}

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The product of a query at i + n and a key at j + n does not depend on n. */
static void scores_depend_on_distances(void **state)
{
    static const struct copse_rotary_params far = { .offset = 5000 };
    (void)state;
    const copse_shape shape = COPSE_SHAPE(LENGTH, 1, WIDTH);
    double *x = numbers((size_t)LENGTH * WIDTH, 4);
    double *near = result_of(NULL, shape, x, NULL), *beyond = result_of(NULL, shape, x, &far);
    for (size_t i = 0; i < LENGTH; i++)
        for (size_t j = 0; j < LENGTH; j++) {
            const double a = dot(near + i * WIDTH, near + j * WIDTH, WIDTH),
                         b = dot(beyond + i * WIDTH, beyond + j * WIDTH, WIDTH);
            if (fabs(a - b) > 1e-4)
                fail_msg("positions %zu and %zu: %.9g, and %.9g from position 5000 on", i, j, a, b);
        }
    assert_true(fabs(near[(size_t)3 * WIDTH] - x[(size_t)3 * WIDTH]) > 1e-3);
    free(x);
    free(near);
    free(beyond);
}

/* ---- the table ---- */

static size_t tables_of(const copse_graph *g)
{
    size_t count = 0;
    for (size_t i = 0; i < g->nodes.count; i++)
        count += g->nodes.at[i]->op == &copse_op_constant;
    return count;
}

static void equal_angles_share_a_table(void **state)
{
    (void)state;
    copse_graph *g = new_graph();
    copse_tensor *y;
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(2, 5, 3, 8));
    copse_tensor *longer = copse_graph_input(g, "longer", COPSE_F32, COPSE_SHAPE(6, 3, 8));
    for (int i = 0; i < 3; i++)
        y = copse_rotary(g, x, NULL);
    y = copse_rotary(g, x, &(struct copse_rotary_params){ .heads = 2, .is_interleaved = true });
    assert_int_equal(tables_of(g), 1);
    y = copse_rotary(g, x, &(struct copse_rotary_params){ .offset = 1 });
    y = copse_rotary(g, x, &(struct copse_rotary_params){ .base = 9999 });
    y = copse_rotary(g, x, &(struct copse_rotary_params){ .width = 6 });
    y = copse_rotary(g, longer, NULL);
    assert_int_equal(tables_of(g), 5);
    y = copse_rotary(g, y, NULL);
    assert_int_equal(tables_of(g), 5);
    copse_graph_release(&g);
}

/* The sum of y dy, in double. */
static double objective(double *const *values, copse_shape table,
                        const struct copse_rotary_params *p)
{
    double sum = 0, *result = &sum;
    copse_graph *g = new_graph();
    copse_tensor *in[3], *y;
    in[0] = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(2, 3, 3, 7));
    in[1] = copse_graph_input(g, "turns", COPSE_F32, table);
    in[2] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(2, 3, 3, 7));
    y = copse_rotary_by(g, in[0], in[1], p);
    y = copse_mul(g, y, in[2]);
    y = copse_sum(g, y, NULL, 0, false);
    harness_in_double(g, in, values, 3, &y, 1, NULL, &result);
    copse_graph_release(&g);
    return sum;
}

static double *derivative_of_table(double *const *values, copse_shape table,
                                   const struct copse_rotary_params *p)
{
    double *slopes = calloc((size_t)copse__elements(table), sizeof *slopes);
    copse_graph *g = new_graph();
    copse_tensor *in[3], *y, *dx[2];
    assert_non_null(slopes);
    in[0] = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(2, 3, 3, 7));
    in[1] = copse_graph_input(g, "turns", COPSE_F32, table);
    in[2] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(2, 3, 3, 7));
    y = copse_rotary_by(g, in[0], in[1], p);
    copse_gradients(g, y, in[2], in, 2, dx);
    harness_in_double(g, in, values, 3, &dx[1], 1, NULL, &slopes);
    copse_graph_release(&g);
    return slopes;
}

static void check_table(copse_shape table, const struct copse_rotary_params *p)
{
    const size_t n = (size_t)copse__elements(table);
    double *values[3] = { numbers(126, 5), numbers(n, 6), numbers(126, 7) };
    double *slopes = derivative_of_table(values, table, p);
    for (size_t i = 0; i < n; i++) {
        const double kept = values[1][i], before = objective(values, table, p);
        values[1][i] = kept + 1; /* linear: no step is too large */
        const double want = objective(values, table, p) - before;
        values[1][i] = kept;
        if (fabs(slopes[i] - want) > 1e-9 * (1 + fabs(want)))
            fail_msg("word %zu of the table: %.9g, expected %.9g", i, slopes[i], want);
    }
    for (int i = 0; i < 3; i++)
        free(values[i]);
    free(slopes);
}

static void the_table_has_a_derivative(void **state)
{
    static const struct copse_rotary_params halves = { .width = 4, .heads = 2 },
                                            adjacent = { .width = 6, .is_interleaved = true };
    (void)state;
    check_table(COPSE_SHAPE(3, 4), &halves);
    check_table(COPSE_SHAPE(2, 3, 6), &adjacent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_positions_are_accurate),
        cmocka_unit_test(scores_depend_on_distances),
        cmocka_unit_test(equal_angles_share_a_table),
        cmocka_unit_test(the_table_has_a_derivative),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
