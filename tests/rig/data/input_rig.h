/* SPDX-License-Identifier: MIT */
/* Data whose rows are identified by their numbers, and iterations as text. Include after
   cmocka.h. */
#ifndef COPSE_INPUT_RIG_H
#define COPSE_INPUT_RIG_H

#include "copse/copse.h"
#include "copse/distribute/input.h"
#include "tests/rig/data/batch_rig.h"
#include "tests/rig/data/temp_files.h"

static copse_context *ctx;

static inline int begin(void **state)
{
    (void)state;
    temp_begin();
    return copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" },
                                &ctx) != COPSE_OK;
}

static inline int end(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

static inline void assert_ok(copse_status s)
{
    if (s != COPSE_OK)
        fail_msg("%s: %s", copse_status_name(s), copse_last_error());
}

static inline void assert_error(copse_status expected, copse_status got, const char *text)
{
    if (got != expected || strstr(copse_last_error(), text) == NULL)
        fail_msg("expected %s with \"%s\", got %s: %s", copse_status_name(expected), text,
                 copse_status_name(got), copse_last_error());
}

static const struct copse_dataset_params plain = { .scale = COPSE_SCALE_NONE };

/* first, first + 1, ...: one number each. */
static inline copse_dataset *range(size_t first, size_t rows)
{
    copse_dataset *ds;
    float *f = malloc(rows * sizeof *f);

    for (size_t i = 0; i < rows; i++)
        f[i] = (float)(first + i);
    assert_ok(copse_dataset_create(ctx, &(struct copse_array_view){ COPSE_F32, 1, { rows }, f },
                                   NULL, &plain, &ds));
    free(f);
    return ds;
}

/* A .npy file of first, first + 1, ... of this shape. */
static inline const char *npy(const char *name, const char *descr, const char *shape, float first,
                              size_t count)
{
    char bytes[512] = "\x93NUMPY\1\0\x76\0"; /* 10 + 118 bytes of header */

    int n = snprintf(bytes + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                     descr, shape);
    memset(bytes + 10 + n, ' ', 118 - (size_t)n);
    bytes[127] = '\n';
    for (size_t i = 0; i < count; i++) {
        float f = first + (float)i;
        int32_t whole = (int32_t)f;
        memcpy(bytes + 128 + 4 * i, descr[1] == 'i' ? (const void *)&whole : &f, 4);
    }
    return temp_write(name, bytes, 128 + 4 * count);
}

/* The rest of an iteration: numbers of a minibatch separated by blanks, minibatches by commas ("_"
   for an empty one), steps by bars. */
static inline const char *rest(copse_distributed *d)
{
    static char text[4096];
    struct copse_host_batch shards[64];
    size_t n = 0;
    copse_status s;

    text[0] = 0;
    while ((s = copse_distributed_next(d, shards)) == COPSE_OK) {
        n += (size_t)snprintf(text + n, sizeof text - n, n > 0 ? "|" : "");
        for (uint32_t r = 0; r < copse_distributed_replicas(d); r++) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", r > 0 ? "," : "",
                                  shards[r].count == 0 ? "_" : "");
            if (shards[r].count == 0 && (shards[r].columns != NULL || shards[r].rows != NULL))
                fail_msg("an empty minibatch with data");
            for (size_t i = 0; i < shards[r].count; i++)
                n += (size_t)snprintf(text + n, sizeof text - n, "%s%g", i > 0 ? " " : "",
                                      (double)rig_floats(&shards[r])[i]);
            assert_true(n < sizeof text);
        }
    }
    for (int again = 0; again < 2; again++) {
        if (s != COPSE_ERR_END)
            fail_msg("%s: %s", copse_status_name(s), copse_last_error());
        shards[0].count = 1;
        s = copse_distributed_next(d, shards);
        assert_int_equal(shards[0].count, 0);
    }
    return text;
}

static inline void assert_walk(const struct copse_distributed_params *p, const char *expected)
{
    copse_distributed *d;

    assert_ok(copse_distributed_create(ctx, p, &d));
    assert_string_equal(rest(d), expected);
    copse_distributed_release(&d);
    assert_null(d);
}

static inline void assert_refused(const struct copse_distributed_params *p, copse_status status,
                                  const char *text)
{
    copse_distributed *d;

    assert_error(status, copse_distributed_create(ctx, p, &d), text);
    assert_null(d);
}

#endif
