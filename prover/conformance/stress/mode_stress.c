/* SPDX-License-Identifier: MIT */
/* Mode stress, sizes: odd sizes, more groups than an axis allows, and sums that are so long that a
   loop over them would exceed the 65,535 rounds after which some drivers leave it. Whole numbers,
   so exact. */
#include <math.h>
#include <stdio.h>

#include "core/ops/elementwise/unary.h"
#include "prover/conformance/modes/modes.h"
#include "prover/conformance/rig/case_rig.h"
#include "prover/conformance/stress/stress.h"

/* ---- y = -x ---- */

static copse_status negate_sizes(struct copse_conform_run *r, const size_t *counts, size_t n,
                                 struct copse_conform_outcome *out)
{
    const size_t offset = COPSE_ALIGNMENT;
    const struct copse_buffer_params how = { .size =
                                                 COPSE_WORD_BYTES * counts[n - 1] + 2 * offset };
    copse_queue *q = NULL;
    copse_buffer *x = NULL, *y = NULL;
    copse_status s;
    COPSE_TRY_OR(done, s, copse_queue_create(r->dev, &q));
    COPSE_TRY_OR(done, s, copse_buffer_create(r->dev, &how, &x));
    COPSE_TRY_OR(done, s, copse_buffer_create(r->dev, &how, &y));
    for (size_t i = 0; i < n; i++)
        COPSE_TRY_OR(done, s, copse__stress_negate(r, q, x, y, offset, counts[i], out));
done:
    copse_buffer_release(&x);
    copse_buffer_release(&y);
    copse_queue_release(&q);
    return s;
}

static copse_status odd_sizes(struct copse_conform_run *r, void *user,
                              struct copse_conform_outcome *out)
{
    static const size_t counts[] = { 1,   2,   3,   5,   31,   32,   33,   63,    64,    65,   127,
                                     129, 255, 256, 257, 1021, 4093, 8191, 16385, 65537, 99991 };
    (void)user;
    return negate_sizes(r, counts, COPSE_COUNT(counts), out);
}

static copse_status many_groups(struct copse_conform_run *r, void *user,
                                struct copse_conform_outcome *out)
{
    (void)user;
    const size_t count = (size_t)(65541 * copse__negate_group(r->dev->limits) + 5);
    if (COPSE_WORD_BYTES * count >
        COPSE_MIN(r->dev->limits->max_binding_bytes,
                  r->dev->limits->max_buffer_bytes - 2 * COPSE_ALIGNMENT)) {
        copse__conform_set(out, COPSE_VERDICT_SKIP, "%zu bytes are more than a kernel sees",
                           COPSE_WORD_BYTES * count);
        return COPSE_OK;
    }
    return negate_sizes(r, &count, 1, out);
}

copse_status copse__conform_stress(struct copse_conform_run *r)
{
    copse__conform_one(r,
                       &(struct copse_conform_case){ "stress", "elementwise", "odd sizes", NULL },
                       odd_sizes, NULL);
    copse__conform_one(
        r, &(struct copse_conform_case){ "stress", "elementwise", "65,541 groups", NULL },
        many_groups, NULL);
    copse__conform_walk_stress(r, "stress", copse__conform_result);
    copse__stress_memory(r);
    return COPSE_OK;
}
