/* SPDX-License-Identifier: MIT */
/* Shared by the tests of datasets and batches: a context, a folder, and distinguishable rows. */
#ifndef COPSE_DATA_RIG_H
#define COPSE_DATA_RIG_H

#include "tests/rig/rig.h"

#include "copse/data.h"
#include "tests/rig/data/temp_files.h"

static copse_context *ctx;

static inline int begin(void **state)
{
    (void)state;
    temp_begin();
    return copse_context_create(NULL, &ctx) != COPSE_OK;
}

static inline int end(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

/* rows examples of two features, (i, 2 i), label i % 3. */
static inline copse_dataset *numbered(size_t rows)
{
    float *f = malloc(rows * 2 * sizeof *f);
    uint8_t *l = malloc(rows);
    copse_dataset *ds;

    for (size_t i = 0; i < rows; i++) {
        f[2 * i] = (float)i;
        f[2 * i + 1] = 2 * (float)i;
        l[i] = (uint8_t)(i % 3);
    }
    OK(copse_dataset_create(ctx, &(struct copse_array_view){ COPSE_F32, 2, { rows, 2 }, f },
                            &(struct copse_array_view){ COPSE_U8, 1, { rows }, l },
                            &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE }, &ds));
    free(f);
    free(l);
    return ds;
}

#endif
