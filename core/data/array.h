/* SPDX-License-Identifier: MIT */
/* Arrays in host memory. */
#ifndef COPSE_CORE_ARRAY_H
#define COPSE_CORE_ARRAY_H

#include "copse/array.h"
#include "core/graph/type.h"

struct copse_array {
    copse_refs refs;
    copse_context *ctx;
    struct copse_array_view view;
    void *data; /* = view.data; allocated by copse__alloc */
    size_t count, bytes;
};

/* False on overflow. `shape` may be NULL if `rank` is 0. */
bool copse__shape_size(uint32_t rank, const size_t *shape, size_t element, size_t *count,
                       size_t *bytes);

/* If `data` is given, the array owns it on success; otherwise memory is allocated, which is not
   zeroed. The shape must pass copse__shape_size. */
copse_status copse__array_create(copse_context *ctx, copse_type type, uint32_t rank,
                                 const size_t *shape, void *data, copse_array **out);

/* "f32 [3, 4]" */
void copse__array_describe(const struct copse_array_view *a, char text[160]);

/* Reverse the bytes of each of `count` elements if the machine's byte order differs. */
void copse__swap_from_big(void *data, size_t count, size_t size);
void copse__swap_from_little(void *data, size_t count, size_t size);

/* Services of a context. */
struct copse_base *copse__base(copse_context *ctx);

#endif
