/* SPDX-License-Identifier: MIT */
/* Conversion between element types, in one or two nodes: u8 through i32, f16 and bf16 through
   f32. */
#include <math.h>

#include "core/base/half.h"
#include "core/device/kernel/launch_split.h"
#include "core/graph/type.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

struct cast_attr {
    copse_type type;
};

static copse_status cast_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = ((const struct cast_attr *)y->attr)->type;
    return COPSE_OK;
}

/* Derivatives of f16 and bf16 tensors are f32. */
static void cast_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                          copse_tensor **dx)
{
    (void)y;
    dx[0] = copse__own(g, dy);
}

static copse_status cast_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const uint32_t n = (uint32_t)copse__elements(y->shape);
    if (copse__type_is_half(y->type)) {
        const struct copse_params_to_half p = { n };
        const int32_t spec[COPSE_MAX_SPECS] = { y->type == COPSE_BF16 };
        return COPSE_LAUNCH(l, to_half, spec, p,
                            copse__groups_for(l, COPSE_KERNEL_to_half, (n + 1) / 2),
                            copse__of(y->in[0]), copse__of(y));
    }
    if (y->in[0]->type == COPSE_U8) {
        const struct copse_params_from_u8 p = { n };
        return COPSE_LAUNCH(l, from_u8, NULL, p, copse__groups_for(l, COPSE_KERNEL_from_u8, n),
                            copse__of(y->in[0]), copse__of(y));
    }
    if (copse__type_is_half(y->in[0]->type)) {
        const struct copse_params_from_half p = { n };
        const int32_t spec[COPSE_MAX_SPECS] = { y->in[0]->type == COPSE_BF16 };
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
    .infer = cast_infer,
    .gradient = cast_gradient,
    .lower = cast_lower,
    .takes_stored = true,
};

copse_tensor *copse_cast(copse_graph *g, copse_tensor *x, copse_type type)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("cast", g, x));
    if (!copse__type_is_computed(type) && !copse__type_is_half(type))
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "cast: to f32, i32, f16 or bf16, not to element type %d (%s)",
                             (int)type, copse_type_name(type));
    /* Nodes convert a stored type to its computed type, f32 to and from i32, and f32 to 16 bits. */
    const copse_type between[] = { copse__type(x->type)->computed, copse__type(type)->computed,
                                   type };
    x = copse__own(g, x);
    if (x->type != type)
        for (size_t i = 0; i < COPSE_COUNT(between); i++) {
            const struct cast_attr a = { between[i] };
            if (a.type != x->type)
                x = COPSE_NODE(g, &op_cast, &a, x);
        }
    return x;
}

copse_status copse__compute_in_f32(copse_graph *g, copse_tensor ***operands, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (copse__type_is_half((*operands[i])->type))
            *operands[i] = copse__cast_once(g, *operands[i], COPSE_F32);
    return g->status;
}

/* ---- references ---- */

static void to_i32_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
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
static void from_u8_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    (void)spec;
    const struct copse_params_from_u8 *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store_i(&args[1], i,
                       (int32_t)((uint32_t)copse__load_i(&args[0], i / 4) >> (8 * (i % 4)) & 255u));
}

/* Two elements per word, the first in its low half. */
static void from_half_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_from_half *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const uint16_t h = (uint16_t)((uint32_t)copse__load_i(&args[0], i / 2) >> (16 * (i % 2)));
        copse__store(&args[1], i, (double)(spec[0] ? copse__bf16_to_f32(h) : copse__f16_to_f32(h)));
    }
}

static void to_half_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_to_half *p = params;
    for (size_t i = 0; i < p->n; i += 2) {
        uint32_t word = 0;
        for (size_t k = i; k < COPSE_MIN(i + 2, p->n); k++) {
            const float x = (float)copse__load(&args[0], k);
            word |= (uint32_t)(spec[0] ? copse__f32_to_bf16(x) : copse__f32_to_f16(x))
                    << (16 * (k % 2));
        }
        copse__store_i(&args[1], i / 2, (int32_t)word);
    }
}

static void to_f32_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    (void)spec;
    const struct copse_params_to_f32 *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[1], i, (float)copse__load_i(&args[0], i));
}

/* ---- self-tests ---- */

static void from_u8_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_from_u8 p = { COPSE_TEST_N };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N), COPSE_TEST_N / 4, COPSE_TEST_N);
    for (uint32_t i = 0; i < COPSE_TEST_N / 4; i++)
        t->words[0][i] = 0x9e3779b9u * (i + 1);
}

/* Numbers of every exponent except the highest, with both signs. */
static void from_half_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_from_half p = { COPSE_TEST_N };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N), COPSE_TEST_N / 2, COPSE_TEST_N);
    for (uint32_t i = 0; i < COPSE_TEST_N / 2; i++)
        t->words[0][i] = (0x9e3779b9u * (i + 1)) & 0xbbffbbffu;
}

/* Both sides of the range of f16, and ties. */
static void to_half_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_to_half p = { COPSE_TEST_N - 1 };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N / 2), COPSE_TEST_N, COPSE_TEST_N / 2);
    for (uint32_t i = 0; i < COPSE_TEST_N; i++) {
        const uint32_t size = 0x32800000u + (0x9e3779b9u * (i + 1)) % 0x15000000u;
        t->words[0][i] = (i & 1u) << 31 | (i % 4 ? size : (size & ~0x1fffu) | 0x1000u);
    }
}

static void to_f32_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_to_f32 p = { COPSE_TEST_N };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N), COPSE_TEST_N, COPSE_TEST_N);
}

static void to_i32_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_to_i32 p = { COPSE_TEST_N };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N), COPSE_TEST_N, COPSE_TEST_N);
    for (uint32_t i = 0; i < COPSE_TEST_N; i += 2)
        copse__test_set(t, 0, i, 0.25f * ((float)i - 50.0f));
}

/* ---- laws ---- */

static bool from_u8_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    return COPSE_SPLIT_EACH(o, 4, 1, 4);
}

static bool from_half_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    return COPSE_SPLIT_EACH(o, 2, 1, 2);
}

static bool to_half_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    return COPSE_SPLIT_EACH(o, 2, 2, 1);
}

const struct copse_law copse_law_to_i32 = {
    .host = to_i32_host,
    .split = copse__split_elements,
    .self_test = to_i32_test,
};
const struct copse_law copse_law_from_u8 = {
    .host = from_u8_host,
    .split = from_u8_split,
    .self_test = from_u8_test,
};
const struct copse_law copse_law_from_half = {
    .host = from_half_host,
    .split = from_half_split,
    .self_test = from_half_test,
};
const struct copse_law copse_law_to_half = {
    .host = to_half_host,
    .split = to_half_split,
    .self_test = to_half_test,
};
const struct copse_law copse_law_to_f32 = {
    .host = to_f32_host,
    .split = copse__split_elements,
    .self_test = to_f32_test,
};
