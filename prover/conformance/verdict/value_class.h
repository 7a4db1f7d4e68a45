/* SPDX-License-Identifier: MIT */
/* Classes of values in the buffers of a launch. */
#ifndef COPSE_CONFORMANCE_VALUE_CLASS_H
#define COPSE_CONFORMANCE_VALUE_CLASS_H

/* Contents of buffers: usual numbers, and numbers of the class at some places. */
enum copse_values {
    COPSE_VALUES_USUAL,
    COPSE_VALUES_ZEROS, /* of both signs */
    COPSE_VALUES_NANS,
    COPSE_VALUES_INFINITIES,
    COPSE_VALUES_SUBNORMALS,
    COPSE_VALUES_EXTREMES, /* largest and smallest numbers */
    COPSE_VALUES_EDGES,    /* ties, kinks, bounds, the first index out of range */
    COPSE_VALUES_COUNT,
    COPSE_VALUES_MIXED = COPSE_VALUES_COUNT /* all classes in one launch */
};
#define COPSE_BIT(n) (1u << (n)) /* in a set of classes */
extern const char *const copse_values_names[COPSE_VALUES_COUNT + 1];

#endif
