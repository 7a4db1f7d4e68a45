/* SPDX-License-Identifier: MIT */
/* What is no row of a table of cases: dropout does not depend on the split. */
#include "tests/rig/op_harness.h"

/* Rows 4.. of a batch draw what a batch that starts at example 4 draws. */
static void dropout_does_not_depend_on_the_split(void **state)
{
    (void)state;
    enum { ROWS = 12, SKIP = 4, COLS = 33 };
    double ones[ROWS * COLS], whole[ROWS * COLS], part[ROWS * COLS];
    uint32_t step[COPSE_STEP_WORDS] = { 3, 17, 18, 1000 };
    for (size_t i = 0; i < ROWS * COLS; i++)
        ones[i] = 1;
    for (size_t d = 0; d < harness_device_count(); d++) {
        for (int k = 0; k < 2; k++) {
            copse_graph *g;
            copse_tensor *x, *y;
            double *in = ones, *out = k ? part : whole;
            OK(copse_graph_create(harness_context(), &g));
            OK(copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(k ? ROWS - SKIP : ROWS, COLS), &x));
            OK(copse_dropout(g, x, 0.5f, true, &y));
            step[COPSE_STEP_FIRST_EXAMPLE] = k ? 1000 + SKIP : 1000;
            harness_on_device(harness_device(d), g, &x, &in, 1, &y, 1, step, &out);
            copse_graph_release(&g);
        }
        size_t kept = 0;
        for (size_t i = 0; i < (ROWS - SKIP) * COLS; i++) {
            assert_true(part[i] == whole[i + SKIP * COLS]);
            kept += part[i] != 0;
        }
        assert_in_range(kept, (ROWS - SKIP) * COLS * 4 / 10, (ROWS - SKIP) * COLS * 6 / 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropout_does_not_depend_on_the_split),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
