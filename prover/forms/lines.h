/* SPDX-License-Identifier: MIT */
/* Rows of the tables of lines, which are after the forms of each family. */
#ifndef COPSE_FORMS_LINES_H
#define COPSE_FORMS_LINES_H

#include "prover/conformance/launch/launch.h"

/* The length is a parameter of the kernel. */
#define COPSE_LINE(kernel_, field)                                     \
    {                                                                  \
        .kernel = COPSE_KERNEL_##kernel_,                              \
        .word = offsetof(struct copse_params_##kernel_, field) / 4 + 1 \
    }
/* No case has a long line, and why. */
#define COPSE_NO_LINE(kernel_, ...)                              \
    {                                                            \
        .kernel = COPSE_KERNEL_##kernel_, .no_line = __VA_ARGS__ \
    }

#define COPSE_WALKS_BLOCKS "a group walks a block of a fixed size"

#endif
