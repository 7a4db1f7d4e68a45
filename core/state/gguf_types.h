/* SPDX-License-Identifier: MIT */
/* Element types of GGUF files: a row of a tensor is a sequence of blocks of equal size. */
#ifndef COPSE_GGUF_TYPES_H
#define COPSE_GGUF_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COPSE_GGUF_BLOCK_MAX 256u /* elements */

/* A block in parts: element i is numbers[i] scales[i / group] + offsets[i / group] in f32, rounded
   after each operation. Without offsets, numbers are signed. */
struct copse_gguf_parts {
    int16_t numbers[COPSE_GGUF_BLOCK_MAX];
    float scales[COPSE_GGUF_BLOCK_MAX / 16], offsets[COPSE_GGUF_BLOCK_MAX / 16];
};

struct copse_gguf_type {
    const char *name;         /* NULL: the format has no such number */
    uint32_t elements, bytes; /* of a block */
    /* One of these, or none: elements of this type are not read. */
    float (*read)(const unsigned char *block); /* the element of a block of one */
    void (*split)(const unsigned char *block, struct copse_gguf_parts *parts);
    /* Of blocks that are split: elements of a group; bits that take any number, 4 or 8. */
    uint32_t group, bits;
    bool has_offsets;
};

/* The elements of a block of a type that is read. */
void copse__gguf_values(const struct copse_gguf_type *type, const unsigned char *block,
                        float *values);
/* The type with a number; NULL: the format has none. */
const struct copse_gguf_type *copse__gguf_type(uint32_t number);

#endif
