/* SPDX-License-Identifier: MIT */
/* cases_run TABLE: one table of conformance cases, forward and backward, with every variant of its
   kernels, on every device found. The build makes a test of each
   prover/cases/<family>/<table>_cases.c. */
#include "tests/rig/conformance/op_harness.h"

static const char *table;

static void every_case_passes(void **state)
{
    (void)state;
    harness_run_named(table);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_case_passes) };
    table = argc > 1 ? argv[1] : "";
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
