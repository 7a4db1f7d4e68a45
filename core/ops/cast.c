/* SPDX-License-Identifier: MIT */
/* Conversion between element types. A stored type is first converted to its computed type. */
#include <math.h>

#include "core/base/half.h"
#include "core/graph/type.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

struct cast_attr {
    copse_type type;
};

static copse_status infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = ((const struct cast_attr *)y->attr)->type;
    return COPSE_OK;
}

static copse_status lower(struct copse_lowering *l, const copse_tensor *y)
{
    const uint32_t n = (uint32_t)copse__elements(y->shape);
    if (y->in[0]->type == COPSE_U8) {
        const struct copse_params_from_u8 p = { n };
        return COPSE_LAUNCH(l, from_u8, NULL, p, copse__groups_for(l, COPSE_KERNEL_from_u8, n),
                            copse__of(y->in[0]), copse__of(y));
    }
    if (y->in[0]->type == COPSE_F16 || y->in[0]->type == COPSE_BF16) {
        const struct copse_params_from_half p = { n };
        const int32_t spec[] = { y->in[0]->type == COPSE_BF16 };
        return COPSE_LAUNCH(l, from_half, spec, p, copse__groups_for(l, COPSE_KERNEL_from_half, n),
                            copse__of(y->in[0]), copse__of(y));
    }
    if (y->type == COPSE_I32) {
        const struct copse_params_to_i32 p = { n };
        return COPSE_LAUNCH(l, to_i32, NULL, p, copse__groups_for(l, COPSE_KERNEL_to_i32, n),
                            copse__of(y->in[0]), copse__of(y));
    }
    const struct copse_params_to_f32 p = { n };
    return COPSE_LAUNCH(l, to_f32, NULL, p, copse__groups_for(l, COPSE_KERNEL_to_f32, n),
                        copse__of(y->in[0]), copse__of(y));
}

static const struct copse_op op_cast = {
    .name = "cast",
    .attr_size = sizeof(struct cast_attr),
    .infer = infer,
    .lower = lower,
    .takes_stored = true,
};

copse_status copse_cast(copse_graph *g, copse_tensor *x, copse_type type, copse_tensor **out)
{
    COPSE_TRY(COPSE_CHECK_OPERANDS("cast", g, out, x));
    if (!copse__type_is_computed(type))
        return copse_fail(COPSE_ERR_ARGUMENT, "cast: to f32 or i32, not to element type %d (%s)", (int)type,
                          copse__type_name(type));
    if (x->type == type)
        return copse__own(g, x, out);
    const struct cast_attr a = { type }, first = { copse__type(x->type)->computed };
    if (first.type != x->type && first.type != type)
        COPSE_TRY(COPSE_NODE(g, &op_cast, &first, &x, x));
    return COPSE_NODE(g, &op_cast, &a, out, x);
}

/* ---- references ---- */

void copse_host_to_i32(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    (void)spec;
    const struct copse_params_to_i32 *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const double x = copse__load(&args[0], i);
        copse__store_i(&args[1], i,
                       isnan(x)         ? 0
                       : x >= INT32_MAX ? INT32_MAX
                       : x <= INT32_MIN ? INT32_MIN
                                        : (int32_t)x);
    }
}

/* Four bytes per word, the lowest first. */
void copse_host_from_u8(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    (void)spec;
    const struct copse_params_from_u8 *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store_i(&args[1], i, (int32_t)((uint32_t)copse__load_i(&args[0], i / 4) >> (8 * (i % 4)) & 255u));
}

/* Two elements per word, the first in its low half. */
void copse_host_from_half(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_from_half *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const uint16_t h = (uint16_t)((uint32_t)copse__load_i(&args[0], i / 2) >> (16 * (i % 2)));
        copse__store(&args[1], i, (double)(spec[0] ? copse__bf16_to_f32(h) : copse__f16_to_f32(h)));
    }
}

void copse_host_to_f32(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    (void)spec;
    const struct copse_params_to_f32 *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[1], i, (float)copse__load_i(&args[0], i));
}

/* ---- self-tests ---- */

void copse_self_test_from_u8(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_from_u8 p = { COPSE_TEST_N };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N), COPSE_TEST_N / 4, COPSE_TEST_N);
    for (uint32_t i = 0; i < COPSE_TEST_N / 4; i++)
        t->words[0][i] = 0x9e3779b9u * (i + 1);
}

/* Numbers of every exponent except the highest, with both signs. */
void copse_self_test_from_half(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_from_half p = { COPSE_TEST_N };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N), COPSE_TEST_N / 2, COPSE_TEST_N);
    for (uint32_t i = 0; i < COPSE_TEST_N / 2; i++)
        t->words[0][i] = (0x9e3779b9u * (i + 1)) & 0xbbffbbffu;
}

void copse_self_test_to_f32(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_to_f32 p = { COPSE_TEST_N };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N), COPSE_TEST_N, COPSE_TEST_N);
}

void copse_self_test_to_i32(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_to_i32 p = { COPSE_TEST_N };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N), COPSE_TEST_N, COPSE_TEST_N);
    for (uint32_t i = 0; i < COPSE_TEST_N; i += 2)
        copse__test_set(t, 0, i, 0.25f * ((float)i - 50.0f));
}
