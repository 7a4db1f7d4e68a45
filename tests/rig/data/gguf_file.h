/* SPDX-License-Identifier: MIT */
/* GGUF files made by tests: call gguf_begin, gguf_key_..., gguf_tensor, and then gguf_bytes. */
#ifndef COPSE_TESTS_GGUF_FILE_H
#define COPSE_TESTS_GGUF_FILE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/rig.h"

struct gguf_made {
    unsigned char *at;
    size_t size, room;
};

/* The keys, the list of tensors, and their elements. */
struct gguf_file {
    struct gguf_made keys, tensors, data, all;
    uint64_t key_count, tensor_count;
};

static inline void gguf_put(struct gguf_made *m, const void *bytes, size_t size)
{
    if (m->size + size > m->room) {
        m->room = 2 * (m->size + size);
        m->at = realloc(m->at, m->room);
        assert_non_null(m->at);
    }
    if (size > 0)
        memcpy(m->at + m->size, bytes, size);
    m->size += size;
}

static inline void gguf_number(struct gguf_made *m, uint64_t v, size_t width)
{
    for (size_t i = 0; i < width; i++) {
        const unsigned char byte = i < sizeof v ? (unsigned char)(v >> (8 * i)) : 0;
        gguf_put(m, &byte, 1);
    }
}

static inline void gguf_text(struct gguf_made *m, const char *text)
{
    gguf_number(m, strlen(text), 8);
    gguf_put(m, text, strlen(text));
}

static inline void gguf_key(struct gguf_file *f, const char *name, uint32_t form)
{
    gguf_text(&f->keys, name);
    gguf_number(&f->keys, form, 4);
    f->key_count++;
}

static inline void gguf_key_u32(struct gguf_file *f, const char *name, uint32_t v)
{
    gguf_key(f, name, 4);
    gguf_number(&f->keys, v, 4);
}

static inline void gguf_key_f32(struct gguf_file *f, const char *name, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    gguf_key(f, name, 6);
    gguf_number(&f->keys, bits, 4);
}

static inline void gguf_key_text(struct gguf_file *f, const char *name, const char *text)
{
    gguf_key(f, name, 8);
    gguf_text(&f->keys, text);
}

/* A list of `count` values, which the caller puts. */
static inline void gguf_key_list(struct gguf_file *f, const char *name, uint32_t form,
                                 uint64_t count)
{
    gguf_key(f, name, 9);
    gguf_number(&f->keys, form, 4);
    gguf_number(&f->keys, count, 8);
}

/* An entry of the list of tensors; the shape is row-major, and the elements are not written. */
static inline void gguf_entry(struct gguf_file *f, const char *name, uint32_t type, uint32_t rank,
                              const uint64_t *shape, uint64_t begin)
{
    gguf_text(&f->tensors, name);
    gguf_number(&f->tensors, rank, 4);
    for (uint32_t i = rank; i-- > 0;)
        gguf_number(&f->tensors, shape[i], 8);
    gguf_number(&f->tensors, type, 4);
    gguf_number(&f->tensors, begin, 8);
    f->tensor_count++;
}

static inline void gguf_pad(struct gguf_made *m, size_t to)
{
    while (m->size % to)
        gguf_number(m, 0, 1);
}

/* A tensor with its `size` bytes. */
static inline void gguf_tensor(struct gguf_file *f, const char *name, uint32_t type, uint32_t rank,
                               const uint64_t *shape, const void *bytes, size_t size)
{
    gguf_pad(&f->data, 32);
    gguf_entry(f, name, type, rank, shape, f->data.size);
    gguf_put(&f->data, bytes, size);
}

static inline void gguf_matrix(struct gguf_file *f, const char *name, uint64_t rows, uint64_t width,
                               const float *values)
{
    const uint64_t shape[2] = { rows, width };
    gguf_tensor(f, name, 0, rows > 0 ? 2 : 1, rows > 0 ? shape : shape + 1, values,
                (size_t)((rows > 0 ? rows : 1) * width) * sizeof *values);
}

/* All of it, in f->all. */
static inline void gguf_bytes(struct gguf_file *f)
{
    f->all.size = 0;
    gguf_put(&f->all, "GGUF", 4);
    gguf_number(&f->all, 3, 4);
    gguf_number(&f->all, f->tensor_count, 8);
    gguf_number(&f->all, f->key_count, 8);
    gguf_put(&f->all, f->keys.at, f->keys.size);
    gguf_put(&f->all, f->tensors.at, f->tensors.size);
    gguf_pad(&f->all, 32);
    gguf_put(&f->all, f->data.at, f->data.size);
}

static inline void gguf_free(struct gguf_file *f)
{
    free(f->keys.at);
    free(f->tensors.at);
    free(f->data.at);
    free(f->all.at);
    memset(f, 0, sizeof *f);
}

#endif
