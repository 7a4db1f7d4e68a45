/* SPDX-License-Identifier: MIT */
/* Commands for a device as data: launches of kernels, copies, fills, and products of a vendor's
   library. */
#ifndef COPSE_COMMAND_H
#define COPSE_COMMAND_H

#include <stdatomic.h>

#include "copse/device/queue.h"
#include "core/device/kernel/kernel.h"

/* Every range that a kernel binds starts at a multiple of this number of bytes on every device:
   Vulkan devices may require 256, some OpenCL devices require 512. */
#define COPSE_ALIGNMENT 512
/* of an f32 or i32; sizes and offsets of device memory are whole words */
#define COPSE_WORD_BYTES 4
#define COPSE_UNIT       (COPSE_ALIGNMENT / COPSE_WORD_BYTES) /* the alignment in words */

struct copse_kernel {
    copse_device *dev; /* not a reference: kernels are freed with the device */
    const struct copse_kernel_row *row;
    uint32_t id; /* of the library's row that it is or replaces */
    int32_t spec[COPSE_MAX_SPECS];
    uint32_t group_x, group_y; /* chosen by core within limits */
    /* blocked on the device: core runs the row's host function, and the backend never sees the
       kernel */
    bool on_host;
    atomic_uint compared_by; /* number of the first chain (core/check/chain.h) that did; 0: none */
    struct copse_kernel *next;
    void *priv;
};

/* A range of a buffer that a kernel binds. Offset is a multiple of limits.offset_alignment. */
struct copse_binding {
    copse_buffer *buffer;
    size_t offset, size; /* bytes */
};

enum copse_command_kind {
    COPSE_COMMAND_DISPATCH,
    COPSE_COMMAND_COPY,
    COPSE_COMMAND_FILL,
    COPSE_COMMAND_GEMM, /* only where limits.has_library_gemm */
};

/* The content of the scratch memory means nothing before or after. The result is the last one, as of
   other commands. */
enum copse_gemm_binding {
    COPSE_GEMM_A,
    COPSE_GEMM_B,
    COPSE_GEMM_SCRATCH,
    COPSE_GEMM_C,
    COPSE_GEMM_BINDINGS
};

struct copse_command {
    enum copse_command_kind kind;
    /* DISPATCH: bindings in the order of the kernel's arguments.
       COPY: bindings[0] = source, [1] = destination, equal sizes. FILL: [0].
       GEMM: enum copse_gemm_binding. */
    struct copse_binding bindings[COPSE_MAX_BINDINGS];
    uint32_t binding_count;
    /* DISPATCH */
    struct copse_kernel *kernel;
    uint32_t params[COPSE_MAX_PARAM_WORDS]; /* row->param_words, then group_base */
    uint32_t groups_x, groups_y;            /* core has folded: groups_x <= max_group_count */
    uint32_t whole_x, whole_y; /* of the launch that it is a piece of (pace.h); 0: it is whole */
    /* FILL */
    uint32_t word;
    /* GEMM: row-major C[m,n] = op(A) op(B) for each product of a batch, whose matrices follow each
       other */
    struct copse_gemm {
        uint32_t m, n, k, batch;
        /* the terms that are added, to C unless they are the first ones */
        uint32_t k_begin, k_end;
        bool a_transposed, b_transposed;
        bool a_is_shared, b_is_shared; /* one matrix for all products */
        bool has_scratch;              /* the library copies matrices there */
    } gemm;
};

#endif
