/* SPDX-License-Identifier: MIT */
/* Dropout. The mask is not stored: the gradient generates the same random numbers again. */
#include "core/base/random.h"
#include "core/device/host_at.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

/* kernels/random/dropout.cl reads these words by index. */
_Static_assert(COPSE_STEP_NUMBER == 0 && COPSE_STEP_SEED_LO == 1 && COPSE_STEP_SEED_HI == 2 &&
                   COPSE_STEP_FIRST_EXAMPLE == 3,
               "step words");

struct dropout_attr {
    uint32_t stream;    /* distinguishes the calls in one graph */
    uint32_t threshold; /* random words below it drop an element */
    float scale;
};

static copse_status infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    if (y->in[0]->type != COPSE_F32)
        return copse__shape_error(y, "expected f32");
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct dropout_attr *a = y->attr;
    struct copse_params_dropout p = {
        .n = (uint32_t)copse__elements(y->shape), .row_elements = 1, .stream = a->stream,
        .threshold = a->threshold, .scale = a->scale
    };
    for (uint32_t i = 1; i < y->shape.rank; i++)
        p.row_elements *= y->shape.dims[i];
    copse__divisor(p.row_elements, &p.m, &p.h);
    return COPSE_LAUNCH(l, dropout, NULL, p, copse__groups_for(l, COPSE_KERNEL_dropout, p.n),
                        copse__of(y->in[0]), copse__step(), copse__of(y));
}

/* Linear with a diagonal matrix, so it is its own transpose. */
static copse_status gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                             copse_tensor **dx)
{
    return COPSE_NODE(g, y->op, y->attr, &dx[0], dy);
}

static const struct copse_op op_dropout = {
    .name = "dropout",
    .attr_size = sizeof(struct dropout_attr),
    .infer = infer,
    .gradient = gradient,
    .lower = lower,
};

copse_status copse_dropout(copse_graph *g, copse_tensor *x, float rate, bool is_training,
                           copse_tensor **out)
{
    COPSE_TRY(COPSE_CHECK_OPERANDS("dropout", g, out, x));
    if (!(rate >= 0.0f && rate < 1.0f))
        return copse_fail(COPSE_ERR_ARGUMENT, "dropout: rate %g is not in [0, 1)", (double)rate);
    if (!is_training || rate == 0.0f)
        return copse__own(g, x, out);
    const struct dropout_attr a = {
        .stream = (uint32_t)g->nodes.count,
        .threshold = (uint32_t)((double)rate * 4294967296.0),
        .scale = (float)(1.0 / (1.0 - (double)rate)),
    };
    return COPSE_NODE(g, &op_dropout, &a, out, x);
}

/* ---- reference ---- */

double copse_at_dropout(const void *params, const int32_t *spec, const struct copse_host_arg *args, size_t i)
{
    const struct copse_params_dropout *p = params;
    const uint32_t *words = args[1].data;
    const uint32_t key[2] = { words[COPSE_STEP_SEED_LO], words[COPSE_STEP_SEED_HI] };
    const uint32_t example = words[COPSE_STEP_FIRST_EXAMPLE] + (uint32_t)(i / p->row_elements);
    const uint64_t place = (uint64_t)example * p->row_elements + i % p->row_elements;
    const uint32_t counter[4] = { (uint32_t)place, (uint32_t)(place >> 32), words[COPSE_STEP_NUMBER], p->stream };
    uint32_t random[4];
    (void)spec;
    copse__philox(counter, key, random);
    return random[0] < p->threshold ? 0.0 : copse__load(&args[0], i) * (double)p->scale;
}

void copse_host_dropout(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_dropout *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[2], i, copse_at_dropout(params, spec, args, i));
}

/* ---- self-tests ---- */

void copse_self_test_dropout(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_dropout p = { .n = COPSE_TEST_N, .row_elements = 7, .stream = 3,
                                      .threshold = 0x80000000u, .scale = 2.0f };
    copse__divisor(p.row_elements, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N), COPSE_TEST_N, COPSE_STEP_WORDS, COPSE_TEST_N);
}
