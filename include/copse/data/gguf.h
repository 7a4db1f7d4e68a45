/* SPDX-License-Identifier: MIT */
/** @file
 * Files of the GGUF format, in which language models are distributed: keys with values, and tensors
 * that may be quantised.
 *
 * Opening reads the description at the beginning of a file. Elements stay in the file until they
 * are asked for, so that a file of any size takes little memory. Reading is strict: versions 2 and
 * 3, little-endian; duplicate names, overlapping tensors, and places or sizes outside of the file
 * are errors.
 */
#ifndef COPSE_PUBLIC_DATA_GGUF_H
#define COPSE_PUBLIC_DATA_GGUF_H

#include "copse/context.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** What a value is. */
typedef enum copse_gguf_kind {
    COPSE_GGUF_WHOLE, /**< a whole number: of 8, 16, 32 or 64 bits in the file */
    COPSE_GGUF_REAL,  /**< of 32 or 64 bits in the file */
    COPSE_GGUF_BOOL,
    COPSE_GGUF_TEXT,
} copse_gguf_kind;

/** A key of a file. */
struct copse_gguf_key {
    const char *name; /**< UTF-8, at most 1,024 bytes, such as "llama.block_count" */
    copse_gguf_kind kind;
    int is_list;    /**< 0: the key has one value */
    uint64_t count; /**< values, also 0 for a list */
};

/** A value of a key. */
struct copse_gguf_value {
    copse_gguf_kind kind;
    /** of a whole number, or 0 and 1. An unsigned one above INT64_MAX is INT64_MAX */
    int64_t whole;
    double real;      /**< of a real or whole number */
    const char *text; /**< `size` bytes, not terminated; borrowed from the file. NULL: no text */
    size_t size;
};

/** A tensor of a file. */
struct copse_gguf_tensor {
    const char *name;  /**< UTF-8, at most 1,024 bytes */
    const char *type;  /**< such as "F32" or "Q4_K" */
    uint32_t rank;     /**< 1 to 4 */
    uint64_t shape[4]; /**< row-major: the last axis is contiguous */
    uint64_t elements; /**< above 0 */
    uint64_t bytes;    /**< in the file */
    int is_readable;   /**< copse_gguf_read knows the type */
};

/** An open file. */
typedef struct copse_gguf copse_gguf;

/**
 * Open a file and read its description.
 * @retval COPSE_ERR_IO      The file cannot be read.
 * @retval COPSE_ERR_FORMAT  It is no GGUF file, or breaks a rule; the text says which.
 * Any thread. Memory: at most twice the size of the description.
 */
COPSE_API COPSE_CHECKED copse_status copse_gguf_open(copse_context *ctx, const char *path,
                                                     copse_gguf **out);
COPSE_API copse_gguf *copse_gguf_retain(copse_gguf *file);
COPSE_API void copse_gguf_release(copse_gguf **file);

/** The keys in the order of the file, borrowed. */
COPSE_API const struct copse_gguf_key *copse_gguf_keys(const copse_gguf *file, size_t *count);
/**
 * Value `index` of a key, from 0.
 * @retval COPSE_ERR_ARGUMENT  There is no such key, or it has fewer values.
 */
COPSE_API COPSE_CHECKED copse_status copse_gguf_get(const copse_gguf *file, const char *key,
                                                    uint64_t index, struct copse_gguf_value *out);

/** The tensors in the order of the file, borrowed. */
COPSE_API const struct copse_gguf_tensor *copse_gguf_tensors(const copse_gguf *file, size_t *count);
/** The tensor of a name, borrowed, or NULL. */
COPSE_API const struct copse_gguf_tensor *copse_gguf_find(const copse_gguf *file, const char *name);
/**
 * Read all elements of a tensor as f32: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K
 * and Q6_K, each value as the format defines it, rounded after each operation.
 * @param values  Row-major.
 * @param count   Of `values`: exactly the elements of the tensor.
 * @retval COPSE_ERR_ARGUMENT     There is no tensor of this name, or `count` is not its size.
 * @retval COPSE_ERR_UNSUPPORTED  Its type is another one.
 * @retval COPSE_ERR_IO           The file cannot be read, or changed meanwhile.
 * One thread at a time. Blocks while the file is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_gguf_read(copse_gguf *file, const char *name,
                                                     float *values, size_t count);

#if defined(__cplusplus)
}
#endif
#endif
