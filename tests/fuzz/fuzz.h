/* SPDX-License-Identifier: MIT */
/* What a fuzzed reader is: the program copse_fuzz has one table of them. */
#ifndef COPSE_FUZZ_H
#define COPSE_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "copse/context.h"

struct fuzz_target {
    const char *name;
    /* Once: keep the context; write seeds into a folder. */
    void (*begin)(copse_context *ctx, const char *seeds);
    /* Read the bytes as a file. An error is a result. */
    void (*read)(const uint8_t *bytes, size_t size);
};

/* A seed, as a file of the folder. */
void fuzz_seed(const char *seeds, const char *name, const void *bytes, size_t size);

/* Each ends with a row without a name. */
extern const struct fuzz_target fuzz_language_targets[], fuzz_onnx_targets[];

#endif
