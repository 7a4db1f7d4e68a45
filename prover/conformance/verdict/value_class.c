/* SPDX-License-Identifier: MIT */
/* The words of the classes of values, in cases and in descriptions of launches. */
#include "prover/conformance/verdict/value_class.h"

const char *const copse_values_names[COPSE_VALUES_COUNT + 1] = {
    "usual", "zeros", "NaN", "infinities", "subnormals", "extremes", "edges", "mixed",
};
