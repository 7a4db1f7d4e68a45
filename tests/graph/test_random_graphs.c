/* SPDX-License-Identifier: MIT */
/* Random graphs of up to 12 ops, forward and gradient, on every device found against the double
   reference, and the reference against central differences. Without arguments: fixed seeds; with
   one: that seed alone. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/random.h"
#include "prover/cases/tables.h"
#include "tests/rig/conformance/op_harness.h"

#define MAX_OPS 12

/* The ops that keep values of moderate size and are smooth, so that a last-bit difference between
   two devices stays one; kinks have tests of their own. */
static const struct copse_case_op *smooth[64];
static uint32_t smooth_count;

static void find_smooth(void)
{
    for (size_t t = 0; copse_case_tables[t]; t++)
        for (size_t i = 0; i < copse_case_tables[t]->op_count; i++)
            if (copse_case_tables[t]->ops[i].random && smooth_count < COPSE_COUNT(smooth))
                smooth[smooth_count++] = &copse_case_tables[t]->ops[i];
}

static copse_tensor *add_op(copse_graph *g, struct copse_stream *s, copse_tensor **pool,
                            uint32_t count)
{
    const struct copse_case_op *op = smooth[copse__stream_below(s, smooth_count)];
    copse_tensor *x = pool[copse__stream_below(s, count)], *z = pool[copse__stream_below(s, count)];
    /* two operands: any two that broadcast, else x with itself */
    if (!copse__broadcast(z->shape, x->shape, &(copse_shape){ 0 }) ||
        copse__elements(z->shape) * copse__elements(x->shape) > 40000)
        z = x;
    return op->random(g, (copse_tensor *[]){ x, z }, op->user);
}

static copse_tensor *build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    struct copse_stream s;
    copse_tensor *pool[MAX_OPS + 3] = { in[0], in[1], in[2] }, *t;
    uint32_t count = 3;
    copse__stream_init(&s, *(const uint64_t *)user, 3);
    const uint32_t ops = 1 + copse__stream_below(&s, MAX_OPS);
    for (uint32_t i = 0; i < ops; i++, count++)
        pool[count] = add_op(g, &s, pool, count);
    /* Every op counts: the result is the sum of the means of all. */
    copse_tensor *y = copse_mean(g, pool[count - 1], NULL, 0, false);
    for (uint32_t i = 3; i + 1 < count; i++) {
        t = copse_mean(g, pool[i], NULL, 0, false);
        y = copse_add(g, y, t);
    }
    return y;
}

static uint64_t only;

static void random_graphs(void **state)
{
    (void)state;
    enum { COUNT = 30, SOME = 8 };
    find_smooth();
    assert_true(smooth_count >= 15);
    const uint64_t first = only ? only : 1, count = only ? 1 : rig_takes(1, 2) ? COUNT : SOME;
    struct copse_case cases[COUNT];
    uint64_t seeds[COUNT];
    char names[COUNT][32];
    for (uint64_t i = 0; i < count; i++) {
        seeds[i] = first + i;
        snprintf(names[i], sizeof names[i], "seed %llu", (unsigned long long)seeds[i]);
        cases[i] = (struct copse_case){
            .op = "random graph",
            .name = names[i],
            .build = build,
            .user = &seeds[i],
            .in = { { .shape = COPSE_SHAPE(4, 6), .low = -2, .high = 2 },
                    { .shape = COPSE_SHAPE(4, 1), .low = -2, .high = 2 },
                    { .shape = COPSE_SHAPE(3, 4, 6), .low = -2, .high = 2 } },
            .in_count = 3,
            .forward = { .ulp = 16, .of_max = 2e-6 },
            .backward = { .ulp = 16, .of_max = 5e-6 },
            .is_poor = true, /* few ops may use few inputs */
        };
    }
    harness_run(&(const struct copse_case_table){
        .family = "random graphs", .cases = cases, .count = count });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_graphs) };
    only = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
