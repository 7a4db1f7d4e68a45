/* SPDX-License-Identifier: MIT */
/* A GGUF file from the inside. */
#ifndef COPSE_GGUF_H
#define COPSE_GGUF_H

#include <stdio.h>

#include "copse/data/gguf.h"
#include "core/base/base.h"
#include "core/state/gguf_types.h"

#define COPSE_GGUF_KEYS_MAX        65536u
#define COPSE_GGUF_TENSORS_MAX     262144u
#define COPSE_GGUF_NAME_MAX        1024u               /* bytes */
#define COPSE_GGUF_DESCRIPTION_MAX ((size_t)256 << 20) /* bytes */

/* Where the values of a key are in the description. */
struct copse_gguf_place {
    size_t at;
    uint32_t width; /* bytes of a number */
    bool is_signed;
    uint32_t *texts; /* of a list: the place of each text; else NULL */
};

struct copse_gguf_data {
    const struct copse_gguf_type *type;
    uint64_t begin; /* after data_begin */
};

/* Names of keys or tensors, sorted: pointers to their structs, which begin with the name. */
typedef const char *const *copse_gguf_named;

struct copse_gguf {
    copse_refs refs;
    copse_context *ctx;
    struct copse_arena arena; /* names and lists */
    const char *path;         /* for error texts */
    FILE *stream;
    uint64_t file_bytes, data_begin;
    unsigned char *bytes; /* of the description, as in the file */
    size_t keys_end;      /* in it: where the tensors begin */
    uint64_t alignment;   /* of tensors in the data */
    struct copse_gguf_key *keys;
    struct copse_gguf_place *places; /* of the keys */
    copse_gguf_named *key_order;
    size_t key_count;
    struct copse_gguf_tensor *tensors;
    struct copse_gguf_data *data; /* of the tensors */
    copse_gguf_named *tensor_order;
    size_t tensor_count;
};

/* Read the description from the stream, and check all of it. (gguf_description.c) */
copse_status copse__gguf_describe(copse_gguf *f);
/* The place of a name in a sorted list, or `count`. (gguf_entries.c) */
size_t copse__gguf_search(const copse_gguf_named *order, size_t count, const char *name);

/* ---- quantised numbers as matrices of blocks (copse/ops/blocks.h) have them (gguf.c) ---- */

struct copse_gguf_packing {
    uint32_t bits, group;
    bool has_offsets;
};
/* False: the elements of a tensor are no quantised numbers, or of a type that is not read. */
bool copse__gguf_packing(const copse_gguf *file, const char *name, struct copse_gguf_packing *out);
struct copse_gguf_packed {
    uint32_t *words;
    float *scales, *offsets; /* offsets: NULL if there are none */
};
/* Read a tensor that has a packing. */
copse_status copse__gguf_read_packed(copse_gguf *file, const char *name,
                                     const struct copse_gguf_packed *to);

/* ---- a copy with other elements (gguf_copy.c) ---- */

#define COPSE_GGUF_AS_IT_IS UINT32_MAX
struct copse_gguf_copy {
    /* for each tensor: the number of its type in the copy, one that has no blocks; or
       COPSE_GGUF_AS_IT_IS */
    const uint32_t *types;
    /* the elements of a tensor with such a type, little-endian; valid until the next call */
    copse_status (*elements)(void *user, size_t tensor, const void **data);
    void *user;
    /* value of the key "general.file_type", if the file has one; COPSE_GGUF_AS_IT_IS: the value
       in the file */
    uint32_t file_type;
};
/* Write the keys and tensors of an open file to a file. COPSE_ERR_IO: an older file is unchanged. */
copse_status copse__gguf_copy(copse_gguf *from, const char *path,
                              const struct copse_gguf_copy *how);

/* A little-endian number of 1 to 8 bytes. */
static inline uint64_t copse__gguf_bits(const unsigned char *p, uint32_t width)
{
    uint64_t bits = 0;
    for (uint32_t i = width; i-- > 0;)
        bits = bits << 8 | p[i];
    return bits;
}

#endif
