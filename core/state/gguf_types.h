/* SPDX-License-Identifier: MIT */
/* Element types of GGUF files: a row of a tensor is a sequence of blocks of equal size. */
#ifndef COPSE_GGUF_TYPES_H
#define COPSE_GGUF_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define COPSE_GGUF_BLOCK_MAX 256u /* elements */

struct copse_gguf_type {
    const char *name;         /* NULL: the format has no such number */
    uint32_t elements, bytes; /* of a block */
    /* The elements of one block; NULL: elements of this type are not read. */
    void (*read)(const unsigned char *block, float *values);
};

/* The type with a number; NULL: the format has none. */
const struct copse_gguf_type *copse__gguf_type(uint32_t number);

#endif
