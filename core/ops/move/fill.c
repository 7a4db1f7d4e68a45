/* SPDX-License-Identifier: MIT */
/* Tensors without operands: a constant, and scalars of the step buffer. */
#include <math.h>

#include "core/device/kernel/launch_split.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

struct fill_attr {
    copse_type type;
    copse_shape shape;
    double value;
};

static copse_status fill_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct fill_attr *a = y->attr;
    *shape = a->shape;
    *type = a->type;
    return COPSE_OK;
}

static int32_t nearest_int(double v)
{
    return isnan(v)         ? 0
           : v <= INT32_MIN ? INT32_MIN
           : v >= INT32_MAX ? INT32_MAX
                            : (int32_t)rint(v);
}

copse_status copse__lower_fill(struct copse_lowering *l, const copse_tensor *to, double value)
{
    const uint32_t n = (uint32_t)copse__elements(to->shape);
    if (to->type == COPSE_I32) {
        const struct copse_params_fill_i32 p = { n, nearest_int(value) };
        return COPSE_LAUNCH(l, fill_i32, NULL, p, copse__groups_for(l, COPSE_KERNEL_fill_i32, n),
                            copse__of(to));
    }
    const struct copse_params_fill p = { n, (float)value };
    return COPSE_LAUNCH(l, fill, NULL, p, copse__groups_for(l, COPSE_KERNEL_fill, n),
                        copse__of(to));
}

copse_status copse__give_bytes(struct copse_lowering *l, uint64_t count, struct copse_operand *x)
{
    return count > 0 ? COPSE_OK : copse__scratch(l, 1, x);
}

static copse_status fill_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_fill(l, y, ((const struct fill_attr *)y->attr)->value);
}

static const struct copse_op op_fill = {
    .name = "fill",
    .attr_size = sizeof(struct fill_attr),
    .infer = fill_infer,
    .lower = fill_lower,
};

copse_tensor *copse_fill(copse_graph *g, copse_type type, copse_shape shape, double value)
{
    const struct fill_attr a = { type, shape, value };
    if ((type != COPSE_F32 && type != COPSE_I32) || shape.rank > COPSE_MAX_RANK)
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "fill: needs the type f32 or i32 and a rank of at most %d",
                             COPSE_MAX_RANK);
    return copse__node(g, &op_fill, &a, NULL, 0);
}

copse_tensor *copse_scalar(copse_graph *g, double value)
{
    return copse_fill(g, COPSE_F32, COPSE_SCALAR, value);
}

/* ---- step scalar ---- */

struct step_attr {
    uint32_t word;
};

static copse_status step_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    (void)y;
    *shape = COPSE_SCALAR;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status step_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct copse_params_step_scalar p = { ((const struct step_attr *)y->attr)->word };
    return COPSE_LAUNCH(l, step_scalar, NULL, p, 1, copse__step(), copse__of(y));
}

static const struct copse_op op_step_scalar = {
    .name = "step_scalar",
    .attr_size = sizeof(struct step_attr),
    .infer = step_infer,
    .lower = step_lower,
};

copse_tensor *copse__step_scalar(copse_graph *g, enum copse_step_word word)
{
    const struct step_attr a = { word };
    return copse__node(g, &op_step_scalar, &a, NULL, 0);
}

/* ---- references ---- */

static void fill_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    (void)spec;
    const struct copse_params_fill *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[0], i, p->value);
}

static void fill_i32_host(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    (void)spec;
    const struct copse_params_fill_i32 *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store_i(&args[0], i, p->value);
}

static void step_scalar_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    (void)spec;
    const struct copse_params_step_scalar *p = params;
    float value;
    memcpy(&value, (const int32_t *)args[0].data + p->word, sizeof value);
    copse__store(&args[1], 0, value);
}

/* ---- self-tests ---- */

static void fill_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_fill p = { COPSE_TEST_N, 2.5f };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N), COPSE_TEST_N);
}

static void fill_i32_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_fill_i32 p = { COPSE_TEST_N, -7 };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N), COPSE_TEST_N);
}

static void step_scalar_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_step_scalar p = { COPSE_STEP_RATE };
    (void)k;
    COPSE_SELF_TEST(t, p, 1, COPSE_STEP_WORDS, 1);
    copse__test_set(t, 0, COPSE_STEP_RATE, 2.5f);
}

/* ---- laws ---- */

const struct copse_law copse_law_fill = {
    .host = fill_host,
    .split = copse__split_elements,
    .self_test = fill_test,
};
const struct copse_law copse_law_fill_i32 = {
    .host = fill_i32_host,
    .split = copse__split_elements,
    .self_test = fill_i32_test,
};
const struct copse_law copse_law_step_scalar = {
    .host = step_scalar_host,
    .self_test = step_scalar_test,
};
