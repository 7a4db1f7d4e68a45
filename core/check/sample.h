/* SPDX-License-Identifier: MIT */
/* Samples of the elements or lines of a result, for laws with a function of one of them. */
#ifndef COPSE_SAMPLE_H
#define COPSE_SAMPLE_H

#include "core/device/device.h"

struct copse_sample {
    const struct copse_law *law;
    const void *params;
    const int32_t *spec;
    uint32_t result; /* the first binding of elements */
    uint64_t each;   /* elements of a binding */
    uint64_t places; /* elements of all of them */
    uint64_t depth;  /* operations of an element */
};

/* False: the law has no such function. `c` must outlive *out. */
bool copse__sample_of(const struct copse_command *c, struct copse_sample *out);

struct copse_line_sample {
    const struct copse_lines *law;
    uint32_t params[COPSE_MAX_PARAM_WORDS]; /* for its functions */
    const int32_t *spec;
    uint64_t count, depth; /* lines; operations of one */
};

/* False: the law has no lines. */
bool copse__line_sample_of(const struct copse_command *c, struct copse_line_sample *out);

/* ---- the choice, of elements, lines or units (part.h) ---- */

/* Numbers of units of a launch, in ascending order. */
struct copse_choice {
    uint64_t *at;
    size_t count;
};

/* Choose some of `units`, which the launch computes in order, each with `cost` operations: those of
   the first and of the last group, those around group 65,535 where the launch has more groups, and
   one in each of equal parts of the rest, by a hash of its number. About 2^19 operations; at least
   2 units. All units where these are few. The same in each run. Free with copse__free(mem,
   out->at). */
copse_status copse__choose_units(struct copse_mem *mem, const struct copse_command *c,
                                 uint64_t units, uint64_t cost, struct copse_choice *out);

#endif
