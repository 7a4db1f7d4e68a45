/* SPDX-License-Identifier: MIT */
/* An embedded kernel: one row per kernel of kernels/ and shaders/, with its OpenCL text, its SPIR-V
   and its law. cmake/embed.cmake generates the table. */
#ifndef COPSE_KERNEL_H
#define COPSE_KERNEL_H

#include "core/device/kernel/law.h"

/* How a kernel declares a buffer. */
enum copse_arg_kind {
    COPSE_ARG_F32,   /* float words */
    COPSE_ARG_I32,   /* int or uint words */
    COPSE_ARG_TEXEL, /* Vulkan only: rgba32f storage texel buffer over float words, read-only */
};

struct copse_kernel_arg {
    uint8_t kind;    /* enum copse_arg_kind */
    bool is_written; /* declared OUT */
};

struct copse_kernel_row {
    const char *name; /* file name without extension: "softmax" */
    uint8_t arg_count, spec_count;
    struct copse_kernel_arg args[COPSE_MAX_BINDINGS];
    uint16_t param_words;         /* without the hidden group_base that core appends */
    uint16_t group_x, group_y;    /* preferred group size; y is 1 except for tiles */
    uint32_t group_memory_bytes;  /* 0 = none; an upper bound, checked against the limit */
    uint64_t source_hash;         /* of all text that it is made from: cache key */
    const unsigned char *cl_text; /* preprocessed OpenCL C, NUL-terminated; NULL = no OpenCL */
    size_t cl_size;               /* without the NUL */
    const uint32_t *spirv;        /* NULL = no Vulkan */
    size_t spirv_bytes;
    const struct copse_law *law;
    bool is_variant; /* of another kernel, which every device and host:0 can run */
    /* Vulkan only: for devices with limits.matrix_units. Specialisation constants 8 to 10 are
       limits.cooperative_shape, constant 11 is the size of subgroups; the fifth constant of the kernel
       says that operands are bf16, not f16 */
    bool is_cooperative;
};

/* The name of the function in the kernel's text: without the hash in names of applications'
   kernels, "swish@1a2b3c4d". At most 47 bytes. */
static inline void copse__kernel_entry(const struct copse_kernel_row *row, char entry[48])
{
    size_t length = 0;
    for (; length < 47 && row->name[length] && row->name[length] != '@'; length++)
        entry[length] = row->name[length];
    entry[length] = '\0';
}

extern COPSE_PRIVATE const struct copse_kernel_row copse_kernel_table[];
extern COPSE_PRIVATE const size_t copse_kernel_count;

/* The files of the dialect (preludes, helpers, tables), for kernels that are compiled at run time
   for tests. Ends with a NULL name. */
struct copse_dialect_file {
    const char *name; /* "prelude.clh" */
    const char *text;
};
extern const struct copse_dialect_file copse_dialect_files[];

/* enum copse_kernel_id { COPSE_KERNEL_softmax, ... } and struct copse_params_<kernel> are in the
   generated "kernel_ids.h". */

static inline double copse__load(const struct copse_host_arg *a, size_t i)
{
    return a->is_double ? ((const double *)a->data)[i] : (double)((const float *)a->data)[i];
}
static inline void copse__store(const struct copse_host_arg *a, size_t i, double v)
{
    if (a->is_double)
        ((double *)a->data)[i] = v;
    else
        ((float *)a->data)[i] = (float)v;
}
static inline int32_t copse__load_i(const struct copse_host_arg *a, size_t i)
{
    return ((const int32_t *)a->data)[i];
}
static inline void copse__store_i(const struct copse_host_arg *a, size_t i, int32_t v)
{
    ((int32_t *)a->data)[i] = v;
}

#endif
