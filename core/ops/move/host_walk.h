/* SPDX-License-Identifier: MIT */
/* Strided walks in references: the place of one element, and the places of all in order without a
   division for each. */
#ifndef COPSE_HOST_WALK_H
#define COPSE_HOST_WALK_H

#include "core/ops/ops.h"

/* Dimensions and strides count from the innermost one; the outermost has no dimension. */
static inline size_t copse__strided_place(size_t i, const uint32_t *dims, const uint32_t *strides,
                                          int32_t rank)
{
    size_t at = 0;
    for (int32_t d = 0; d < rank - 1; d++) {
        at += i % dims[d] * strides[d];
        i /= dims[d];
    }
    return at + i * strides[rank - 1];
}

/* Begin with the members after `at` zero. */
struct copse_host_walk {
    const uint32_t *dims, *strides;
    int32_t rank;
    size_t at; /* of the element that is next */
    uint32_t index[COPSE_MAX_RANK];
};

static inline void copse__host_walk_next(struct copse_host_walk *w)
{
    for (int32_t d = 0; d < w->rank - 1; d++) {
        w->at += w->strides[d];
        if (++w->index[d] < w->dims[d])
            return;
        w->at -= (size_t)w->dims[d] * w->strides[d];
        w->index[d] = 0;
    }
    w->at += w->strides[w->rank - 1];
}

#endif
