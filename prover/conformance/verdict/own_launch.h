/* SPDX-License-Identifier: MIT */
/* A launch that a user describes in a file: a kernel with its own grid and signature.
   docs/conformance.md, "User kernels", has the words of the file. */
#ifndef COPSE_CORE_CONFORMANCE_OWN_LAUNCH_H
#define COPSE_CORE_CONFORMANCE_OWN_LAUNCH_H

#include "prover/conformance/verdict/conformance.h"
#include "prover/conformance/verdict/value_class.h"

struct copse_own_buffer {
    bool is_read, is_written, is_whole; /* is_whole: i32 */
    uint32_t words;
    uint32_t below; /* i32 that are read are from 0 to below - 1; 0: any */
};

struct copse_own_launch {
    char kernel[48]; /* the function in the text */
    uint32_t group[2], grid[2], runs;
    struct copse_own_buffer buffers[COPSE_MAX_BINDINGS];
    uint32_t buffer_count;
    uint32_t params[COPSE_MAX_PARAM_WORDS], param_count;
    int32_t spec[COPSE_MAX_SPECS];
    uint32_t spec_count;
    unsigned values; /* bits of enum copse_values */
    struct copse_case_limit limit;
    bool has_limit;
    /* The kernel of the library whose host function computes the expected results; its buffers are
       those of the user's kernel with these numbers, -1: a buffer that it does not read. */
    bool has_reference;
    uint32_t reference;
    int32_t buffer_of[COPSE_MAX_BINDINGS];
    uint32_t mapped_count;
    /* 0: those of the kernel */
    uint32_t reference_params[COPSE_MAX_PARAM_WORDS], reference_param_count;
    int32_t reference_spec[COPSE_MAX_SPECS];
    uint32_t reference_spec_count;
};

/* Whether a user kernel has a description: the name of its kernel is "@" and the path of the
   file. */
bool copse__own_launch_is(const struct copse_own_kernel *own);
/* COPSE_ERR_FORMAT with the line and the word that is wrong. `name` begins the texts of errors. */
copse_status copse__own_launch_parse(const char *name, const char *text,
                                     struct copse_own_launch *out);
copse_status copse__own_launch_read(struct copse_mem *mem, const struct copse_own_kernel *own,
                                    struct copse_own_launch *out);
/* The launch of a row that copse__own_kernel_open has made; NULL: it has none. */
const struct copse_own_launch *copse__own_row_launch(const struct copse_own_row *row, uint32_t *id);

#endif
