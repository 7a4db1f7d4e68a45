/* SPDX-License-Identifier: MIT */
/* Functions of two tensors with broadcasting. kernels/elementwise/binary.def defines them; this
   file makes ops, public functions and references from its rows. */
#include <math.h>

#include "copse/ops/functions.h"
#include "copse/ops/logic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/elementwise/elementwise_chain.h"
#include "core/ops/move/host_walk.h"
#include "core/ops/self_tests.h"

/* The operands that need strides, and the strided walk over the result. */
struct operands {
    struct copse_walk walk;
    int32_t mode[2], rank;
};

static void walk_operands(const copse_tensor *y, struct operands *o)
{
    const uint64_t n = copse__elements(y->shape);
    uint32_t strides[2][COPSE_MAX_RANK];
    o->rank = 1;
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t count = copse__elements(y->in[i]->shape);
        copse__broadcast_strides(y->in[i]->shape, y->shape, strides[i]);
        o->mode[i] = count == n ? 0 : count == 1 ? 1 : 2;
    }
    copse__walk(y->shape, strides[0], strides[1], &o->walk);
    if (o->mode[0] == 2 || o->mode[1] == 2)
        o->rank = (int32_t)o->walk.rank;
}

static copse_status binary_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    if (y->in[0]->type != COPSE_F32 || y->in[1]->type != COPSE_F32)
        return copse__shape_error(y, "expected f32");
    if (!copse__broadcast(y->in[0]->shape, y->in[1]->shape, shape))
        return copse__shape_error(y, "expected dimensions that are equal or 1, counted from the "
                                     "last");
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status compare_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    if (y->in[0]->type != y->in[1]->type)
        return copse__shape_error(y, "expected two tensors of one element type");
    if (!copse__broadcast(y->in[0]->shape, y->in[1]->shape, shape))
        return copse__shape_error(y, "expected dimensions that are equal or 1, counted from the "
                                     "last");
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status grad_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[2]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

/* The three kernels have the same parameters with different names. */
#define PARAMS(w, n)                                                                            \
    {                                                                                           \
        n, (w).dims[0], (w).dims[1], (w).dims[2], (w).dims[3], (w).dims[4], (w).m[0], (w).m[1], \
            (w).m[2], (w).m[3], (w).m[4], (w).h[0], (w).h[1], (w).h[2], (w).h[3], (w).h[4],     \
            (w).a[0], (w).a[1], (w).a[2], (w).a[3], (w).a[4], (w).a[5], (w).b[0], (w).b[1],     \
            (w).b[2], (w).b[3], (w).b[4], (w).b[5]                                              \
    }

static copse_status binary_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct copse_binary_attr *a = y->attr;
    const uint32_t n = (uint32_t)copse__elements(y->shape);
    struct operands o;
    walk_operands(y, &o);
    const int32_t spec[COPSE_MAX_SPECS] = { a->id, o.mode[0], o.mode[1], o.rank };
    if (y->in[0]->type == COPSE_I32) {
        const struct copse_params_compare_i32 p = PARAMS(o.walk, n);
        return COPSE_LAUNCH(l, compare_i32, spec, p,
                            copse__groups_for(l, COPSE_KERNEL_compare_i32, n), copse__of(y->in[0]),
                            copse__of(y->in[1]), copse__of(y));
    }
    const struct copse_params_binary p = PARAMS(o.walk, n);
    return COPSE_LAUNCH(l, binary, spec, p, copse__groups_for(l, COPSE_KERNEL_binary, n),
                        copse__of(y->in[0]), copse__of(y->in[1]), copse__of(y));
}

static copse_status grad_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct copse_binary_attr *a = y->attr;
    const uint32_t n = (uint32_t)copse__elements(y->shape);
    struct operands o;
    walk_operands(y, &o);
    const int32_t spec[COPSE_MAX_SPECS] = { a->id, o.mode[0], o.mode[1], o.rank, a->side };
    const struct copse_params_binary_grad p = PARAMS(o.walk, n);
    return COPSE_LAUNCH(l, binary_grad, spec, p, copse__groups_for(l, COPSE_KERNEL_binary_grad, n),
                        copse__of(y->in[0]), copse__of(y->in[1]), copse__of(y->in[2]),
                        copse__of(y));
}

const struct copse_op copse_op_binary_grad = {
    .name = "binary_grad",
    .attr_size = sizeof(struct copse_binary_attr),
    .infer = grad_infer,
    .lower = grad_lower,
    .fuse = copse__chain_fuse,
    .lower_fused = copse__chain_lower,
    .chain = COPSE_CHAIN_BINARY_SLOPE,
};

/* The columns da and db as text: constant ones need no operands, so the kernel does not read
   them. */
static const char *const slopes[][2] = {
#define BINARY(op, number, f, da, db, ...) [number] = { #da, #db },
#define COMPARE(op, number, f)
#include "kernels/elementwise/binary.def"
#undef BINARY
#undef COMPARE
};

static void binary_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    for (int32_t side = 0; side < 2; side++) {
        if (!y->in[side]->needs_gradient)
            continue;
        const struct copse_binary_attr a = { ((const struct copse_binary_attr *)y->attr)->id,
                                             side };
        const char *slope = slopes[a.id][side];
        copse_tensor *d = dy;
        if (strcmp(slope, "-dy") == 0)
            d = copse_neg(g, dy);
        else if (strcmp(slope, "dy") != 0)
            d = COPSE_NODE(g, &copse_op_binary_grad, &a, y->in[0], y->in[1], dy);
        dx[side] = copse__sum_to(g, d, y->in[side]->shape);
    }
}

static void no_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx)
{
    (void)g, (void)y, (void)dy, (void)dx; /* constant almost everywhere */
}

#define ROW(op, number, rule, derivative)                                      \
    static const struct copse_op op_##op = {                                   \
        .name = #op,                                                           \
        .attr_size = sizeof(struct copse_binary_attr),                         \
        .infer = rule,                                                         \
        .gradient = derivative,                                                \
        .lower = binary_lower,                                                 \
        .fuse = copse__chain_fuse,                                             \
        .lower_fused = copse__chain_lower,                                     \
        .chain = COPSE_CHAIN_BINARY,                                           \
    };                                                                         \
    copse_tensor *copse_##op(copse_graph *g, copse_tensor *a, copse_tensor *b) \
    {                                                                          \
        const struct copse_binary_attr attr = { number, 0 };                   \
        return COPSE_NODE(g, &op_##op, &attr, a, b);                           \
    }
#define BINARY(op, number, ...) ROW(op, number, binary_infer, binary_gradient)
#define COMPARE(op, number, f)  ROW(op, number, compare_infer, no_gradient)
#include "kernels/elementwise/binary.def"
#undef BINARY
#undef COMPARE

bool copse__is_sum_of_two(const copse_tensor *t)
{
    return t->op == &op_add && t->in[0] != t->in[1] &&
           copse__shape_equal(t->in[0]->shape, t->shape) &&
           copse__shape_equal(t->in[1]->shape, t->shape);
}

copse_tensor *copse_logical_not(copse_graph *g, copse_tensor *x)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("logical_not", g, x));
    copse_tensor *zero =
        copse__noted(g, copse_fill(g, x->type, COPSE_SCALAR, 0), "while adding logical_not");
    return copse__noted(g, copse_equal(g, x, zero), "while adding logical_not");
}

/* ---- references ---- */

struct place {
    uint32_t dims[COPSE_MAX_RANK - 1], a[COPSE_MAX_RANK], b[COPSE_MAX_RANK];
    const int32_t *mode;
    int32_t rank;
};
#define PLACE(p, spec)                                                                      \
    {                                                                                       \
        { (p)->d0, (p)->d1, (p)->d2, (p)->d3, (p)->d4 },                                    \
            { (p)->a0, (p)->a1, (p)->a2, (p)->a3, (p)->a4, (p)->a5 },                       \
            { (p)->b0, (p)->b1, (p)->b2, (p)->b3, (p)->b4, (p)->b5 }, &(spec)[1], (spec)[3] \
    }

/* Walks over both operands. */
struct pair {
    struct copse_host_walk walk[2];
    const int32_t *mode;
    size_t i;
};
#define WALK(at, side)                                             \
    {                                                              \
        .dims = (at).dims, .strides = (at).side, .rank = (at).rank \
    }
#define PAIR(at)                                                \
    {                                                           \
        .walk = { WALK(at, a), WALK(at, b) }, .mode = (at).mode \
    }

static size_t binary_find(const struct place *at, int side, size_t i)
{
    return at->mode[side] == 0 ? i
           : at->mode[side] == 1
               ? 0
               : copse__strided_place(i, at->dims, side ? at->b : at->a, at->rank);
}

static size_t pair_place(const struct pair *p, int side)
{
    return p->mode[side] == 0 ? p->i : p->walk[side].at; /* one element: the walk does not begin */
}

static void pair_next(struct pair *p)
{
    p->i++;
    for (int side = 0; side < 2; side++)
        if (p->mode[side] == 2)
            copse__host_walk_next(&p->walk[side]);
}

static double binary_value(const int32_t *spec, double a, double b)
{
    switch (spec[0]) {
#define BINARY(op, number, f, da, db, reference, ...) \
    case number:                                      \
        return (reference);
#define COMPARE(op, number, f) \
    case number:               \
        return (f);
#include "kernels/elementwise/binary.def"
#undef BINARY
#undef COMPARE
    }
    return 0;
}

static double binary_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                        size_t i)
{
    const struct copse_params_binary *p = params;
    const struct place at = PLACE(p, spec);
    return binary_value(spec, copse__load(&args[0], binary_find(&at, 0, i)),
                        copse__load(&args[1], binary_find(&at, 1, i)));
}

static void binary_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_binary *p = params;
    const struct place at = PLACE(p, spec);
    struct pair x = PAIR(at);
    for (size_t i = 0; i < p->n; i++, pair_next(&x))
        copse__store(&args[2], i,
                     binary_value(spec, copse__load(&args[0], pair_place(&x, 0)),
                                  copse__load(&args[1], pair_place(&x, 1))));
}

static double binary_slope(const int32_t *spec, double a, double b, double dy)
{
    double slope = 0;
    bool is_choice = false;
    switch (spec[0]) {
#define BINARY(op, number, f, da, db, reference, ref_a, ref_b, ulp, ulp_g, class) \
    case number:                                                                  \
        slope = spec[4] ? (ref_b) : (ref_a);                                      \
        is_choice = (ulp_g) == 0;                                                 \
        break;
#define COMPARE(op, number, f)
#include "kernels/elementwise/binary.def"
#undef BINARY
#undef COMPARE
    }
    /* An exact derivative chooses dy or 0, also where dy is NaN. */
    return is_choice && slope == 0 ? 0 : dy * slope;
}

static double binary_grad_at(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args, size_t i)
{
    const struct copse_params_binary_grad *p = params;
    const struct place at = PLACE(p, spec);
    return binary_slope(spec, copse__load(&args[0], binary_find(&at, 0, i)),
                        copse__load(&args[1], binary_find(&at, 1, i)), copse__load(&args[2], i));
}

static void binary_grad_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const struct copse_params_binary_grad *p = params;
    const struct place at = PLACE(p, spec);
    struct pair x = PAIR(at);
    for (size_t i = 0; i < p->n; i++, pair_next(&x))
        copse__store(&args[3], i,
                     binary_slope(spec, copse__load(&args[0], pair_place(&x, 0)),
                                  copse__load(&args[1], pair_place(&x, 1)),
                                  copse__load(&args[2], i)));
}

static double compare_value(const int32_t *spec, int32_t a, int32_t b)
{
    switch (spec[0]) {
#define BINARY(op, number, ...)
#define COMPARE(op, number, f) \
    case number:               \
        return (f);
#include "kernels/elementwise/binary.def"
#undef BINARY
#undef COMPARE
    }
    return 0;
}

static double compare_i32_at(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args, size_t i)
{
    const struct copse_params_compare_i32 *p = params;
    const struct place at = PLACE(p, spec);
    return compare_value(spec, copse__load_i(&args[0], binary_find(&at, 0, i)),
                         copse__load_i(&args[1], binary_find(&at, 1, i)));
}

static void compare_i32_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const struct copse_params_compare_i32 *p = params;
    const struct place at = PLACE(p, spec);
    struct pair x = PAIR(at);
    for (size_t i = 0; i < p->n; i++, pair_next(&x))
        copse__store(&args[2], i,
                     compare_value(spec, copse__load_i(&args[0], pair_place(&x, 0)),
                                   copse__load_i(&args[1], pair_place(&x, 1))));
}

/* ---- errors ---- */

/* Largest errors of a function, or of its derivatives [ULP]; conditions have none. */
static double binary_ulps(int32_t op, bool is_gradient)
{
    switch (op) {
#define BINARY(name, number, f, da, db, reference, ref_a, ref_b, ulp, ulp_g, class) \
    case number:                                                                    \
        return is_gradient ? ulp_g : ulp;
#define COMPARE(name, number, f)
#include "kernels/elementwise/binary.def"
#undef BINARY
#undef COMPARE
    }
    return 0;
}

/* ---- self-tests ---- */

static void binary_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t rank = copse__test_rank(k->spec[3]), n = copse__test_elements(rank);
    const struct copse_walk w = copse__test_walk(rank);
    const struct copse_params_binary p = PARAMS(w, n);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, n), COPSE_TEST_WALK, COPSE_TEST_WALK, n);
    t->slack = copse__test_slack(binary_ulps(k->spec[0], false));
    if (t->slack > 0.0f)
        copse__test_quarters(t, 1);
}

static void binary_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t rank = copse__test_rank(k->spec[3]), n = copse__test_elements(rank);
    const struct copse_walk w = copse__test_walk(rank);
    const struct copse_params_binary_grad p = PARAMS(w, n);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, n), COPSE_TEST_WALK, COPSE_TEST_WALK, n, n);
    t->slack = copse__test_slack(binary_ulps(k->spec[0], true));
    if (t->slack > 0.0f)
        copse__test_quarters(t, 1);
}

static void compare_i32_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t rank = copse__test_rank(k->spec[3]), n = copse__test_elements(rank);
    const struct copse_walk w = copse__test_walk(rank);
    const struct copse_params_compare_i32 p = PARAMS(w, n);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, n), COPSE_TEST_WALK, COPSE_TEST_WALK, n);
}

/* ---- laws ---- */

static void binary_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    (void)params;
    limit->ulp = binary_ulps(spec[0], false);
}

static void binary_grad_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    (void)params;
    limit->ulp = binary_ulps(spec[0], true);
}

const struct copse_law copse_law_binary = {
    .host = binary_host,
    .at = binary_at,
    .limit_of = binary_limit,
    .self_test = binary_test,
};
const struct copse_law copse_law_binary_grad = {
    .host = binary_grad_host,
    .at = binary_grad_at,
    .limit_of = binary_grad_limit,
    .self_test = binary_grad_test,
};
const struct copse_law copse_law_compare_i32 = {
    .host = compare_i32_host,
    .at = compare_i32_at,
    .self_test = compare_i32_test,
};
