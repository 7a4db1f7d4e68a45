/* SPDX-License-Identifier: MIT */
/** @file
 * Arrays in host memory, as read from a file or written to one: an element type, a shape, bytes.
 */
#ifndef COPSE_PUBLIC_ARRAY_H
#define COPSE_PUBLIC_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "copse/context.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Most axes of an array. */
#define COPSE_ARRAY_MAX_RANK 8

/** Every element type: COPSE_ELEMENT_MAP(X) calls X(NAME, bytes). */
#define COPSE_ELEMENT_MAP(X) \
    X(F32, 4)                \
    X(F64, 8)                \
    X(F16, 2)                \
    X(BF16, 2)               \
    X(I8, 1)                 \
    X(I16, 2)                \
    X(I32, 4)                \
    X(I64, 8)                \
    X(U8, 1)                 \
    X(U16, 2)                \
    X(U32, 4)                \
    X(U64, 8)                \
    X(BOOL, 1)

/** Type of the elements of an array in a file. */
typedef enum copse_element {
#define COPSE_ELEMENT_ENUM(name, bytes) COPSE_ELEMENT_##name,
    COPSE_ELEMENT_MAP(COPSE_ELEMENT_ENUM)
#undef COPSE_ELEMENT_ENUM
} copse_element;

/** Size of an element [bytes]; 0 outside the enum. */
COPSE_API size_t copse_element_size(copse_element type);

/** Name of an element type: "F32"; "?" outside the enum. Static. */
COPSE_API const char *copse_element_name(copse_element type);

/** An array: C order (the last axis is contiguous), the machine's byte order. */
struct copse_array_view {
    copse_element type;
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
