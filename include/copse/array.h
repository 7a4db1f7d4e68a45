/* SPDX-License-Identifier: MIT */
/** @file
 * Arrays in host memory, as read from a file or written to one: an element type, a shape, bytes.
 */
#ifndef COPSE_PUBLIC_ARRAY_H
#define COPSE_PUBLIC_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "copse/tensor.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Most axes of an array. */
#define COPSE_ARRAY_MAX_RANK 8

/** An array: C order (the last axis is contiguous), the machine's byte order. */
struct copse_array_view {
    copse_type type;                    /**< any */
    uint32_t rank;                      /**< axes; 0 = a single element */
    size_t shape[COPSE_ARRAY_MAX_RANK]; /**< length of each axis; 0 is legal */
    const void *data;                   /**< the elements; may be NULL when there are none */
};

/** An array that the library owns. */
typedef struct copse_array copse_array;

COPSE_API copse_array *copse_array_retain(copse_array *array);
COPSE_API void copse_array_release(copse_array **array);

/** Type, shape and elements, borrowed. */
COPSE_API const struct copse_array_view *copse_array_view(const copse_array *array);

#if defined(__cplusplus)
}
#endif
#endif
