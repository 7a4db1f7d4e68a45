/* SPDX-License-Identifier: MIT */
/* Element types, one row each. A computed type is accepted by every op. A stored type is smaller on
   devices than the type in which it is computed: copse_cast converts it. The graph converts f16 and
   bf16 operands of ops that do not read them (graph.c). A host type exists only in batches and
   datasets: devices receive it converted to its computed type. A file type exists only in
   arrays. */
#ifndef COPSE_CORE_TYPE_H
#define COPSE_CORE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copse/tensor.h"
#include "core/device/backend.h" /* COPSE_WORD_BYTES: of f32 and i32 */

enum copse_type_place { COPSE_TYPE_ON_DEVICES, COPSE_TYPE_OF_HOST, COPSE_TYPE_OF_FILES };

struct copse_type_row {
    const char *name;    /* "f32" */
    const char *dtype;   /* in safetensors files: "F32" */
    size_t bytes;        /* of one element */
    copse_type computed; /* for a computed type: itself */
    enum copse_type_place place;
    /* Element `i` of an array as a double, exact except for large 64-bit integers; and the reverse,
       rounded to nearest, NULL for file types. */
    double (*get)(const void *data, size_t i);
    void (*put)(void *data, size_t i, double value);
};

/* NULL: no such type. */
COPSE_PRIVATE const struct copse_type_row *copse__type(copse_type type);
/* The type with this dtype in a file; false if there is none. */
bool copse__type_find(const char *dtype, copse_type *out);
/* COPSE_ERR_ARGUMENT unless it is a type of batches, datasets and graphs; the text begins with
   `what`, as in "input 'x'", and names those. */
copse_status copse__type_need(copse_type type, const char *what, const char *name);

/* A type of batches, datasets and graphs. */
static inline bool copse__type_is_known(copse_type type)
{
    const struct copse_type_row *row = copse__type(type);
    return row && row->place != COPSE_TYPE_OF_FILES;
}

/* Any element of an array as a double. */
static inline double copse__type_load(copse_type type, const void *data, size_t i)
{
    return copse__type(type)->get(data, i);
}

static inline bool copse__type_is_computed(copse_type type)
{
    return copse__type_is_known(type) && copse__type(type)->computed == type;
}

/* 16-bit floating point: stored, computed in f32. */
static inline bool copse__type_is_half(copse_type type)
{
    return type == COPSE_F16 || type == COPSE_BF16;
}

/* Tensors of the type can depend on variables with a derivative. Derivatives are f32. */
static inline bool copse__type_is_smooth(copse_type type)
{
    return type == COPSE_F32 || copse__type_is_half(type);
}

static inline bool copse__type_is_on_devices(copse_type type)
{
    return copse__type(type)->place == COPSE_TYPE_ON_DEVICES;
}

/* The type on devices. */
static inline copse_type copse__type_on_devices(copse_type type)
{
    return copse__type_is_on_devices(type) ? type : copse__type(type)->computed;
}

/* Of one element. */
static inline size_t copse__type_bytes(copse_type type)
{
    return copse__type(type)->bytes;
}

/* Of the memory of a tensor: whole words. */
static inline uint64_t copse__type_room(copse_type type, uint64_t elements)
{
    return (elements * copse__type_bytes(type) + COPSE_WORD_BYTES - 1) / COPSE_WORD_BYTES *
           COPSE_WORD_BYTES;
}

/* Whether devices can have elements [first, first + count); else *at is the first that they
   cannot. */
bool copse__type_fits(copse_type type, const void *data, size_t first, size_t count, size_t *at);
/* Queue the write of elements from `first` on to a buffer, as devices have the type: `bytes`
   there. */
copse_status copse__type_write(copse_queue *q, copse_buffer *to, size_t at, copse_type type,
                               const void *data, size_t first, size_t bytes);

#endif
