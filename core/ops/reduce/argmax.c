/* SPDX-License-Identifier: MIT */
/* Index of the largest element along one axis. */
#include <math.h>

#include "core/device/kernel/launch_split.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

struct argmax_attr {
    uint32_t axis;
};

static copse_status argmax_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const uint32_t axis = ((const struct argmax_attr *)y->attr)->axis;
    const copse_shape *x = &y->in[0]->shape;
    if (y->in[0]->type != COPSE_F32 || axis >= x->rank || x->dims[axis] == 0)
        return copse__shape_error(y, "expected f32 with an axis %u that is not empty",
                                  (unsigned)axis);
    *shape = COPSE_SCALAR;
    for (uint32_t i = 0; i < x->rank; i++)
        if (i != axis)
            shape->dims[shape->rank++] = x->dims[i];
    *type = COPSE_I32;
    return COPSE_OK;
}

static copse_status argmax_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const uint32_t axis = ((const struct argmax_attr *)y->attr)->axis;
    const copse_shape *x = &y->in[0]->shape;
    uint32_t outer = 1, inner = 1;
    for (uint32_t i = 0; i < x->rank; i++) {
        outer *= i < axis ? x->dims[i] : 1;
        inner *= i > axis ? x->dims[i] : 1;
    }
    struct copse_params_argmax p = { .extent = x->dims[axis],
                                     .chunks = x->dims[axis],
                                     .inner = inner };
    struct copse_operand from = copse__of(y); /* the first pass does not read it */
    int32_t spec[COPSE_MAX_SPECS] = { 1 };
    do {
        p.count = p.chunks;
        p.chunks = (p.count + COPSE_CHAIN - 1) / COPSE_CHAIN;
        p.n = outer * p.chunks * inner;
        struct copse_operand to = copse__of(y);
        if (p.chunks > 1 && p.n > 0)
            COPSE_TRY(copse__scratch(l, p.n, &to));
        /* The first pass has no candidates, but every argument needs its own buffer. */
        if (spec[0] && p.n > 0)
            COPSE_TRY(copse__scratch(l, 1, &from));
        COPSE_TRY(COPSE_LAUNCH(l, argmax, spec, p, copse__groups_for(l, COPSE_KERNEL_argmax, p.n),
                               copse__of(y->in[0]), from, to));
        from = to;
        spec[0] = 0;
    } while (p.chunks > 1);
    return COPSE_OK;
}

static const struct copse_op op_argmax = {
    .name = "argmax",
    .attr_size = sizeof(struct argmax_attr),
    .infer = argmax_infer,
    .lower = argmax_lower,
};

copse_tensor *copse_argmax(copse_graph *g, copse_tensor *x, uint32_t axis)
{
    const struct argmax_attr a = { axis };
    return COPSE_NODE(g, &op_argmax, &a, x);
}

/* ---- reference ---- */

static void argmax_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_argmax *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t lane = i % p->inner, line = i / p->inner;
        const size_t chunk = line % p->chunks, outer = line / p->chunks;
        int32_t best = -1;
        double largest = 0;
        for (size_t k = chunk * COPSE_CHAIN; k < p->count && k < (chunk + 1) * COPSE_CHAIN; k++) {
            const int32_t index =
                spec[0] ? (int32_t)k
                        : copse__load_i(&args[1], (outer * p->count + k) * p->inner + lane);
            const double x =
                copse__load(&args[0], (outer * p->extent + (size_t)index) * p->inner + lane);
            if (best < 0 || (!isnan(largest) && (isnan(x) || x > largest))) {
                best = index;
                largest = x;
            }
        }
        copse__store_i(&args[2], i, best);
    }
}

/* ---- self-tests ---- */

static void argmax_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const bool is_first = k->spec[0] != 0;
    struct copse_params_argmax p = { .extent = COPSE_TEST_LINE, .inner = 2 };
    p.count = is_first ? COPSE_TEST_LINE : 4;
    p.chunks = is_first ? 2 : 1;
    p.n = 3 * p.chunks * p.inner;
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), 3 * COPSE_TEST_LINE * 2,
                    is_first ? 4 : 3 * 4 * 2, p.n);
    for (uint32_t i = 0; i < 3 * 4 * 2; i++)
        t->words[1][i] = i * 17 % COPSE_TEST_LINE;
}

/* ---- laws ---- */

static bool argmax_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_argmax *p = COPSE_SPLIT_PARAMS(argmax, o);
    const uint64_t lengths[] = { p->extent, c->kernel->spec[0] ? 0 : p->count, p->chunks };
    return copse__split_axis(o, 3, lengths, &p->n, p->chunks, &p->inner);
}

const struct copse_law copse_law_argmax = {
    .host = argmax_host,
    .split = argmax_split,
    .self_test = argmax_test,
};
