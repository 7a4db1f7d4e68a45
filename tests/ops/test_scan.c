/* SPDX-License-Identifier: MIT */
/* The cumulative sum has one order of additions, the same bits on every device and for every group
   size. Top-k equals a sort of the rows. */
#include <math.h>
#include <stdlib.h>

#include "copse/ops/scan.h"
#include "core/base/random.h"
#include "tests/rig/conformance/op_harness.h"

struct sizes {
    uint32_t outer, count, inner; /* top-k: rows, elements, k */
};

static double *numbers(size_t n)
{
    struct copse_stream random;
    double *x = calloc(n, sizeof *x);
    assert_non_null(x);
    copse__stream_init(&random, 11, 0);
    for (size_t i = 0; i < n; i++)
        x[i] = (double)copse__stream_normal(&random);
    return x;
}

/* ---- cumulative sums ---- */

/* The documented order: chunks of 64 elements in parts of 4 and runs of 4 parts, and the sums of
   the chunks in the same way. */
static void scan_line(const float *x, size_t n, bool is_exclusive, float *y)
{
    enum { CHUNK = 64, PART = 4, RUN = 16 };
    const size_t chunks = (n + CHUNK - 1) / CHUNK;
    float *sums = calloc(2 * chunks, sizeof *sums), *starts = sums + chunks;
    assert_non_null(sums);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t c = 0; c < chunks; c++) {
            volatile float total = 0, run = 0, part = 0, next, within, sum;
            for (size_t k = c * CHUNK; k < COPSE_MIN((c + 1) * CHUNK, n); k++) {
                next = part + x[k];
                within = run + (is_exclusive ? part : next);
                sum = total + within;
                if (pass == 1)
                    y[k] = starts[c] + sum;
                part = next;
                if (k % PART == PART - 1) {
                    run = run + part;
                    part = 0;
                }
                if (k % RUN == RUN - 1) {
                    total = total + run;
                    run = 0;
                }
            }
            within = run + part;
            sums[c] = total + within;
        }
        if (pass == 0 && chunks > 1)
            scan_line(sums, chunks, true, starts);
    }
    free(sums);
}

static void check_line(const char *id, const struct sizes *s, const double *x, const double *y,
                       size_t at, bool is_exclusive, bool is_reversed)
{
    float *line = calloc(2 * (size_t)s->count, sizeof *line), *want = line + s->count;
    assert_non_null(line);
    for (size_t k = 0; k < s->count; k++)
        line[is_reversed ? s->count - 1 - k : k] = (float)x[at + k * s->inner];
    scan_line(line, s->count, is_exclusive, want);
    for (size_t k = 0; k < s->count; k++) {
        const float wanted = want[is_reversed ? s->count - 1 - k : k];
        if ((float)y[at + k * s->inner] != wanted)
            fail_msg("%u x %u x %u on %s: element %zu of the line from %zu is %.9g, expected %.9g",
                     s->outer, s->count, s->inner, id, k, at, y[at + k * s->inner], (double)wanted);
    }
    free(line);
}

static void check_scan(copse_device *dev, const struct sizes *s, bool is_exclusive,
                       bool is_reversed)
{
    const size_t n = (size_t)s->outer * s->count * s->inner;
    double *x = numbers(n), *got = calloc(n, sizeof *got);
    copse_graph *g;
    assert_non_null(got);
    OK(copse_graph_create(harness_context(), &g));
    copse_tensor *in =
        copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(s->outer, s->count, s->inner));
    copse_tensor *y = copse_cumsum(g, in, 1, is_exclusive, is_reversed);
    harness_on_device(dev, g, &in, &x, 1, &y, 1, NULL, &got);
    copse_graph_release(&g);
    for (size_t o = 0; o < s->outer; o++)
        for (size_t i = 0; i < s->inner; i++)
            check_line(copse_device_describe(dev)->id, s, x, got, o * s->count * s->inner + i,
                       is_exclusive, is_reversed);
    free(x);
    free(got);
}

static void the_order_of_additions_is_one(void **state)
{
    (void)state;
    static const struct sizes sizes[] = {
        { 1, 64, 1 }, { 2, 65, 3 }, { 2, 5000, 3 }, { 1, 270000, 1 }, { 70001, 3, 1 }
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
                    check_scan(dev, &sizes[k], k % 2, k % 3 == 1);
            copse_device_release(&dev);
        }
    }
}

/* ---- top-k ---- */

static const double *sorted_row;

static int largest_first(const void *a, const void *b)
{
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const double x = sorted_row[i], y = sorted_row[j];
    if (isnan(x) != isnan(y))
        return isnan(x) ? -1 : 1;
    return x > y ? -1 : x < y ? 1 : i < j ? -1 : 1;
}

static void check_row(const char *id, const double *x, uint32_t m, uint32_t k, double *const *got)
{
    uint32_t *order = calloc(m, sizeof *order);
    double *slopes = calloc(m, sizeof *slopes);
    assert_true(order && slopes);
    for (uint32_t i = 0; i < m; i++)
        order[i] = i;
    sorted_row = x;
    qsort(order, m, sizeof *order, largest_first);
    for (uint32_t i = 0; i < k; i++) {
        const double v = x[order[i]];
        slopes[order[i]] = i + 1;
        if (got[1][i] != order[i] ||
            (got[0][i] != (double)(float)v && !(isnan(got[0][i]) && isnan(v))))
            fail_msg("%u of %u on %s: place %u has element %g, %.9g; expected %u, %.9g", k, m, id,
                     i, got[1][i], got[0][i], order[i], v);
    }
    for (uint32_t i = 0; i < m; i++)
        if (got[2][i] != slopes[i])
            fail_msg("%u of %u on %s: the derivative of element %u is %g, expected %g", k, m, id, i,
                     got[2][i], slopes[i]);
    free(order);
    free(slopes);
}

/* Every fifth number is whole, so that many are equal, or NaN. dy is 1, 2, ... along a row. */
static void check_top_k(copse_device *dev, const struct sizes *s)
{
    const uint32_t m = s->count, k = s->inner;
    const size_t n = (size_t)s->outer * m, kept = (size_t)s->outer * k;
    double *x = numbers(n), *dy = calloc(kept, sizeof *dy), *in_values[] = { x, dy };
    double *got[] = { calloc(kept, sizeof(double)), calloc(kept, sizeof(double)),
                      calloc(n, sizeof(double)) };
    copse_graph *g;
    copse_tensor *in[2], *out[3];
    assert_true(dy && got[0] && got[1] && got[2]);
    for (size_t i = 0; i < n; i += 5)
        x[i] = i % 175 == 0 ? NAN : round(x[i]);
    for (size_t i = 0; i < kept; i++)
        dy[i] = (double)(i % k) + 1;
    OK(copse_graph_create(harness_context(), &g));
    in[0] = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(s->outer, m));
    in[1] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(s->outer, k));
    out[0] = copse_top_k(g, in[0], k, &out[1]);
    copse_gradients(g, out[0], in[1], in, 1, &out[2]);
    harness_on_device(dev, g, in, in_values, 2, out, 3, NULL, got);
    copse_graph_release(&g);
    for (size_t row = 0; row < s->outer; row++)
        check_row(copse_device_describe(dev)->id, x + row * m, m, k,
                  (double *[]){ got[0] + row * k, got[1] + row * k, got[2] + row * m });
    for (size_t i = 0; i < COPSE_COUNT(got); i++)
        free(got[i]);
    free(x);
    free(dy);
}

static void top_k_equals_a_sort(void **state)
{
    (void)state;
    static const struct sizes sizes[] = { { 3, 1, 1 },       { 5, 64, 64 },  { 5, 65, 1 },
                                          { 7, 321, 321 },   { 4, 500, 70 }, { 2, 9999, 5 },
                                          { 1, 9999, 9999 }, { 70001, 3, 2 } };
    for (size_t d = 0; d < harness_device_count(); d++)
        for (size_t i = 0; i < COPSE_COUNT(sizes); i++)
            check_top_k(harness_device(d), &sizes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_additions_is_one),
        cmocka_unit_test(top_k_equals_a_sort),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
