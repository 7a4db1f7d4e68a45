/* SPDX-License-Identifier: MIT */
/* Shared by the tests of cross-device operations of the application in training: accumulations, and a
   model whose gradients are whole numbers. */
#ifndef OWN_SUMS_H
#define OWN_SUMS_H

#include <math.h>
#include <stdlib.h>

#include "copse/distribute/replica.h"
#include "copse/distribute/sync.h"
#include "copse/ops.h"
#include "core/base/base.h"
#include "tests/rig/data/batch_rig.h"

/* What the accumulate function does, and how often it was called. */
struct own_sums {
    enum {
        OWN_MAXIMUM,
        OWN_TREE, /* the canonical sum */
        OWN_FAILS,
        OWN_GIVES_NOTHING,
        OWN_GIVES_OTHER_SHAPE,
        OWN_GIVES_OTHER_TYPE,
        OWN_GIVES_NAN,
        OWN_CANCELS,
    } kind;
    uint32_t
        fails_at; /* OWN_FAILS, OWN_GIVES_...: this call since `calls` was 0; others: OWN_TREE */
    uint32_t calls;
    copse_trainer *trainer; /* OWN_CANCELS: this one, at `fails_at` */
};

static inline float own_tree(const float *x, size_t stride, size_t count)
{
    size_t half = 1;
    if (count == 1)
        return x[0];
    while (half * 2 < count)
        half *= 2;
    return own_tree(x, stride, half) + own_tree(x + half * stride, stride, count - half);
}

static inline copse_status own_sum(copse_context *ctx, const struct own_sums *own,
                                   copse_value *const *values, size_t count, copse_value **out)
{
    const copse_shape shape = copse_value_shape(values[0]);
    size_t n = 1;
    for (uint32_t i = 0; i < shape.rank; i++)
        n *= shape.dims[i];
    float *x = malloc((count + 1) * n * sizeof *x), *sum = x ? x + count * n : NULL;
    copse_status s = x ? COPSE_OK : COPSE_ERR_NO_MEMORY;
    for (size_t r = 0; r < count && !s; r++)
        s = copse_value_read(values[r], x + r * n);
    for (size_t i = 0; i < n && !s; i++) {
        sum[i] = own_tree(x + i, n, count);
        for (size_t r = 0; r < count && own->kind == OWN_MAXIMUM; r++)
            sum[i] = r == 0 ? x[i] : fmaxf(sum[i], x[r * n + i]);
        if (own->kind == OWN_GIVES_NAN && own->calls == own->fails_at)
            sum[i] = NAN;
    }
    if (!s)
        s = copse_value_create(ctx, COPSE_F32, shape, sum, out);
    free(x);
    return s;
}

static inline copse_status own_accumulate(copse_context *ctx, struct own_sums *own,
                                          copse_value *const *values, size_t count,
                                          copse_value **out)
{
    static const int32_t word[2] = { 1, 2 };
    const bool is_odd = own->calls == own->fails_at;
    copse_status s = COPSE_OK;
    if (is_odd && own->kind == OWN_FAILS)
        s = copse_fail(COPSE_ERR_IO, "the link of the application is down");
    else if (is_odd && own->kind == OWN_GIVES_NOTHING)
        *out = NULL;
    else if (is_odd && own->kind == OWN_GIVES_OTHER_SHAPE)
        s = copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(1, 1, 2), word, out);
    else if (is_odd && own->kind == OWN_GIVES_OTHER_TYPE)
        s = copse_value_create(ctx, COPSE_I32, COPSE_SHAPE(2), word, out);
    else
        s = own_sum(ctx, own, values, count, out);
    if (is_odd && own->kind == OWN_CANCELS)
        copse_trainer_cancel(own->trainer);
    own->calls++;
    return s;
}

/* Operations at the host, or at the first destination. */
static inline copse_status own_set(copse_context *ctx, copse_strategy *st, copse_accumulate_fn *fn,
                                   struct own_sums *own, bool is_at_host)
{
    copse_cross_device *x;
    COPSE_TRY(copse_cross_device_create(
        ctx,
        &(struct copse_cross_device_params){ .kind = COPSE_CROSS_TO_ONE,
                                             .has_root = is_at_host,
                                             .root = is_at_host ? COPSE_HOST : 0,
                                             .accumulate = fn,
                                             .user = own },
        &x));
    const copse_status s = copse_strategy_set_cross_device(st, x);
    copse_cross_device_release(&x);
    return s;
}

/* ---- the model: the loss of a shard is sum(x) (sum(a) + sum(b)), so that each element of a and b has
   the gradient sum(x) ---- */

#define OWN_A 2u
#define OWN_B 9001u /* slices of several owners */

struct own_model {
    copse_variable *a, *b;
};

static inline copse_tensor *own_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct own_model *m = user;
    copse_tensor *x = copse_sum(g, rig_x(in), NULL, 0, false);
    copse_tensor *w = copse_add(g, copse_sum(g, copse_variable_tensor(m->a), NULL, 0, false),
                                copse_sum(g, copse_variable_tensor(m->b), NULL, 0, false));
    return copse_mul(g, x, w);
}

static inline copse_status own_model(copse_strategy *st, struct own_model *m)
{
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "a", .shape = COPSE_SHAPE(OWN_A) }, &m->a));
    return copse_variable_create(
        st, &(struct copse_variable_params){ .name = "b", .shape = COPSE_SHAPE(OWN_B) }, &m->b);
}

/* All elements of both variables are `want` on every replica. */
static inline copse_status own_holds(copse_strategy *st, const struct own_model *m, float want)
{
    float got[OWN_A + OWN_B];
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++) {
        COPSE_TRY(copse_variable_read(m->a, r, got));
        COPSE_TRY(copse_variable_read(m->b, r, got + OWN_A));
        for (uint32_t i = 0; i < OWN_A + OWN_B; i++)
            if (!(got[i] == want))
                return copse_fail(COPSE_ERR_INTERNAL, "element %u of replica %u is %g, not %g", i,
                                  r, (double)got[i], (double)want);
    }
    return COPSE_OK;
}

#endif
