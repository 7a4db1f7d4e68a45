/* SPDX-License-Identifier: MIT */
/* The derivative of gather has one order of additions: the same bits on every device and for every
   group size. */
#include <stdlib.h>

#include "core/base/random.h"
#include "tests/rig/conformance/op_harness.h"
#include "tests/rig/graph_rig.h"

struct sizes {
    uint32_t rows, width, positions;
};

/* A third of the positions have row 0, a tenth are out of range. */
static void fill(const struct sizes *s, double *dy, double *indices)
{
    struct copse_stream random;
    copse__stream_init(&random, 7, 0);
    for (uint32_t i = 0; i < s->positions; i++) {
        const uint32_t kind = copse__stream_below(&random, 30);
        indices[i] = kind < 10   ? 0
                     : kind < 13 ? (double)s->rows
                                 : copse__stream_below(&random, s->rows);
    }
    for (size_t i = 0; i < (size_t)s->positions * s->width; i++)
        dy[i] = (double)copse__stream_normal(&random);
}

/* The documented order for one element: chunks of 64 positions of the row, runs of 256 chunks, all
   runs. */
static float sum_of(const struct sizes *s, const double *dy, const double *indices, uint32_t row,
                    uint32_t col)
{
    float total = 0, run = 0, chunk = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->positions; i++) {
        if (indices[i] != row)
            continue;
        chunk += (float)dy[(size_t)i * s->width + col];
        n++;
        if (n % 64 == 0) {
            run += chunk;
            chunk = 0;
        }
        if (n % (64 * 256) == 0) {
            total += run;
            run = 0;
        }
    }
    return total + (run + chunk);
}

static void run_on(copse_device *dev, const struct sizes *s, double *dy, double *indices,
                   double *result)
{
    const size_t cells = (size_t)s->rows * s->width;
    double *table = calloc(cells, sizeof *table), *in[] = { table, indices, dy };
    copse_graph *g;
    copse_tensor *t[3], *y, *dx;
    assert_non_null(table);
    OK(copse_graph_create(harness_context(), &g));
    t[0] = copse_graph_input(g, "table", COPSE_F32, COPSE_SHAPE(s->rows, s->width));
    t[1] = copse_graph_input(g, "indices", COPSE_I32, COPSE_SHAPE(s->positions));
    t[2] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(s->positions, s->width));
    y = copse_gather(g, t[0], t[1]);
    copse_gradients(g, y, t[2], t, 1, &dx);
    harness_on_device(dev, g, t, in, 3, &dx, 1, NULL, &result);
    copse_graph_release(&g);
    free(table);
}

static void check_on(copse_device *dev, const struct sizes *s)
{
    const size_t cells = (size_t)s->rows * s->width;
    double *dy = calloc((size_t)s->positions * s->width, sizeof *dy);
    double *indices = calloc(s->positions, sizeof *indices), *got = calloc(cells, sizeof *got);
    assert_true(dy && indices && got);
    fill(s, dy, indices);
    run_on(dev, s, dy, indices, got);
    for (uint32_t i = 0; i < cells; i++) {
        const float want = sum_of(s, dy, indices, i / s->width, i % s->width);
        if ((float)got[i] != want)
            fail_msg("%u x %u, %u positions on %s, groups of %u: element %u is %.9g, expected %.9g",
                     s->rows, s->width, s->positions, copse_device_describe(dev)->id,
                     dev->limits->max_group_size, i, got[i], (double)want);
    }
    free(dy);
    free(indices);
    free(got);
}

static void the_order_of_additions_is_one(void **state)
{
    (void)state;
    static const struct sizes sizes[] = {
        { 3, 5, 3000 }, { 40, 70, 300 }, { 2, 1, 120000 }, { 300, 3, 70000 }
    };
    static const uint32_t groups[] = { 256, 8 };
    for (size_t d = 0; d < harness_device_count(); d++) {
        const char *id = copse_device_describe(harness_device(d))->id;
        for (size_t i = 0; i < COPSE_COUNT(groups); i++) {
            copse_device *dev;
            OK(copse_device_open(harness_context(), id, NULL, &dev));
            struct copse_limits smaller = *dev->limits;
            smaller.max_group_size = groups[i];
            if (strcmp(id, "host:0") == 0)
                print_message("host:0 adds in double: not compared\n");
            else if (copse__device_limit(dev, &smaller) != COPSE_OK)
                print_message("%s has no groups of %u: %s\n", id, groups[i], copse_last_error());
            else
                for (size_t k = 0; k < COPSE_COUNT(sizes); k++)
                    check_on(dev, &sizes[k]);
            copse_device_release(&dev);
        }
    }
}

static void too_many_indices_have_no_derivative(void **state)
{
    (void)state;
    copse_graph *g;
    copse_tensor *t[3], *y, *dx;
    OK(copse_graph_create(harness_context(), &g));
    t[0] = copse_graph_input(g, "table", COPSE_F32, COPSE_SHAPE(2));
    t[1] = copse_graph_input(g, "indices", COPSE_I32, COPSE_SHAPE((1u << 22) + 1));
    t[2] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE((1u << 22) + 1));
    y = copse_gather(g, t[0], t[1]);
    copse_gradients(g, y, t[2], t, 1, &dx);
    harness_fails(copse__graph_take_failure(g), COPSE_ERR_UNSUPPORTED, "at most 4194304 indices");
    copse_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_additions_is_one),
        cmocka_unit_test(too_many_indices_have_no_derivative),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
