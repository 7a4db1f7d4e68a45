/* SPDX-License-Identifier: MIT */
/* Samples of the results of products: for launches with more work than the host can do again. */
#ifndef COPSE_SAMPLE_H
#define COPSE_SAMPLE_H

#include "core/device/device.h"

struct copse_sample {
    copse_host_at_fn *at;
    const void *params;
    uint32_t result; /* the binding */
    uint64_t places; /* elements of the result */
    uint64_t depth;  /* products of an element */
};

/* False: the command is no product. `c` must outlive *out. */
bool copse__sample_of(const struct copse_command *c, struct copse_sample *out);
/* How many elements are computed: so many that the work is 2^19, from 16 to 1024. */
size_t copse__sample_count(const struct copse_sample *s);
/* The place of one of them: one in each of as many equal parts of the result, by a hash of its number; the first and the last
   element are among them. The same in each run. */
size_t copse__sample_place(const struct copse_sample *s, size_t i);

#endif
