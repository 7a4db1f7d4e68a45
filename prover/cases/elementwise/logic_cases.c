/* SPDX-License-Identifier: MIT */
/* Cases of logical functions of one tensor. */
#include <math.h>

#include "copse/ops/logic.h"
#include "prover/cases/cases.h"

static copse_tensor *logic_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_logical_not(g, in[0]);
}

static const struct copse_case_op ops[] = {
    { .name = "logical_not",
      .accuracy = COPSE_ACCURACY_exact,
      .takes_any_type = true,
      .call = logic_build,
      .in = { F32_OF(2, 2) },
      .in_count = 1 },
};

#define ROW(label, in_, ...)                                                                  \
    {                                                                                         \
        .op = "logical_not", .name = label, .build = logic_build, ONE_INPUT(in_), __VA_ARGS__ \
    }

static const double numbers[] = { 0, -0.0, 1, -1, 1e-30, 3e38, INFINITY, -INFINITY, NAN };
static const double negated[] = { 1, 1, 0, 0, 0, 0, 0, 0, 0 };

static const struct copse_case cases[] = {
    ROW("numbers", VALUES(numbers, DIMS(9)), QUICK, .want = negated, .has_no_gradient = true),
    ROW("whole numbers", WHOLE(-1, 1, DIMS(7, 300)), STANDARD, .is_poor = true,
        .skips_differences = true),
    ROW("integers", I32_UNIFORM(-1, 1, DIMS(7, 300)), QUICK),
    ROW("nothing", I32_UNIFORM(-1, 1, DIMS(0, 3)), STANDARD),
};

COPSE_CASE_TABLE(logic, OPS)
