/* SPDX-License-Identifier: MIT */
/* A choice between two tensors, element by element, with broadcasting. */
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

static copse_status where_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    if (y->in[0]->type != COPSE_F32 || y->in[1]->type != y->in[2]->type)
        return copse__shape_error(
            y, "expected an f32 or i32 condition and two tensors of one element type");
    if (!copse__broadcast(y->in[0]->shape, y->in[1]->shape, shape) ||
        !copse__broadcast(*shape, y->in[2]->shape, shape))
        return copse__shape_error(y,
                                  "expected dimensions that are equal or 1, counted from the last");
    *type = y->in[1]->type;
    return COPSE_OK;
}

/* An operand that has the last axes of the result and size 1 in the others repeats: its period,
   else 0. */
static uint32_t period_of(copse_shape from, copse_shape to)
{
    uint32_t period = 1, i = 0;
    while (i < from.rank && from.dims[from.rank - 1 - i] == to.dims[to.rank - 1 - i])
        period *= from.dims[from.rank - 1 - i++];
    for (; i < from.rank; i++)
        if (from.dims[from.rank - 1 - i] != 1)
            return 0;
    return period;
}

static copse_status where_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const uint32_t n = (uint32_t)copse__elements(y->shape);
    uint32_t d[3], m[3], h[3];
    int32_t spec[COPSE_MAX_SPECS] = { 0 };
    for (uint32_t i = 0; i < 3; i++) {
        d[i] = period_of(y->in[i]->shape, y->shape);
        copse__divisor(d[i], &m[i], &h[i]);
        spec[i] = d[i] < n;
    }
    if (y->type == COPSE_I32) {
        const struct copse_params_where_i32 p = { n,    d[0], m[0], h[0], d[1],
                                                  m[1], h[1], d[2], m[2], h[2] };
        return COPSE_LAUNCH(l, where_i32, spec, p, copse__groups_for(l, COPSE_KERNEL_where_i32, n),
                            copse__of(y->in[0]), copse__of(y->in[1]), copse__of(y->in[2]),
                            copse__of(y));
    }
    const struct copse_params_where p = { n, d[0], m[0], h[0], d[1], m[1], h[1], d[2], m[2], h[2] };
    return COPSE_LAUNCH(l, where, spec, p, copse__groups_for(l, COPSE_KERNEL_where, n),
                        copse__of(y->in[0]), copse__of(y->in[1]), copse__of(y->in[2]),
                        copse__of(y));
}

static const struct copse_op op_where;

/* dy where the operand was chosen, else 0, whatever dy is there. */
static void where_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                           copse_tensor **dx)
{
    copse_tensor *t;
    copse_tensor *zero = copse_fill(g, COPSE_F32, COPSE_SCALAR, 0);
    if (y->in[1]->needs_gradient) {
        t = COPSE_NODE(g, &op_where, NULL, y->in[0], dy, zero);
        dx[1] = copse__sum_to(g, t, y->in[1]->shape);
    }
    if (y->in[2]->needs_gradient) {
        t = COPSE_NODE(g, &op_where, NULL, y->in[0], zero, dy);
        dx[2] = copse__sum_to(g, t, y->in[2]->shape);
    }
}

static const struct copse_op op_where = {
    .name = "where",
    .infer = where_infer,
    .gradient = where_gradient,
    .lower = where_lower,
};

/* The kernel repeats whole operands; others are broadcast first. */
static copse_status where_repeat(copse_graph *g, copse_tensor **in)
{
    copse_shape shape;
    if (!copse__broadcast(in[0]->shape, in[1]->shape, &shape) ||
        !copse__broadcast(shape, in[2]->shape, &shape))
        return COPSE_OK; /* the node refuses them */
    for (uint32_t i = 0; i < 3; i++)
        if (copse__elements(in[i]->shape) > 0 && period_of(in[i]->shape, shape) == 0)
            in[i] = copse_broadcast_to(g, in[i], shape);
    return COPSE_OK;
}

copse_tensor *copse_where(copse_graph *g, copse_tensor *condition, copse_tensor *a, copse_tensor *b)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("where", g, condition, a, b));
    copse_tensor *in[] = { condition, a, b }, *zero;
    if (condition->type == COPSE_I32) { /* b where the condition is 0 */
        zero = copse_fill(g, COPSE_I32, COPSE_SCALAR, 0);
        in[0] = copse__noted(g, copse_equal(g, condition, zero), "while adding where");
        in[1] = b;
        in[2] = a;
    }
    COPSE_LATCH(g, copse_note(where_repeat(g, in), "while adding where"));
    return COPSE_NODE(g, &op_where, NULL, in[0], in[1], in[2]);
}

/* ---- references ---- */

static size_t where_place(int32_t mode, size_t i, uint32_t period)
{
    return mode ? i % period : i;
}

static double where_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                       size_t i)
{
    const struct copse_params_where *p = params;
    return copse__load(&args[0], where_place(spec[0], i, p->dc)) != 0
               ? copse__load(&args[1], where_place(spec[1], i, p->da))
               : copse__load(&args[2], where_place(spec[2], i, p->db));
}

static void where_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_where *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[3], i, where_at(params, spec, args, i));
}

static double where_i32_at(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args, size_t i)
{
    const struct copse_params_where_i32 *p = params;
    return copse__load(&args[0], where_place(spec[0], i, p->dc)) != 0
               ? copse__load_i(&args[1], where_place(spec[1], i, p->da))
               : copse__load_i(&args[2], where_place(spec[2], i, p->db));
}

static void where_i32_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_where_i32 *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store_i(&args[3], i, (int32_t)where_i32_at(params, spec, args, i));
}

/* ---- self-tests ---- */

#define PERIOD 7u

static uint32_t count_of(const struct copse_kernel *k, uint32_t i)
{
    return k->spec[i] ? PERIOD : COPSE_TEST_N;
}

static void where_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    uint32_t m, h;
    copse__divisor(PERIOD, &m, &h);
    const struct copse_params_where p = { COPSE_TEST_N, PERIOD, m, h, PERIOD, m, h, PERIOD, m, h };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), count_of(k, 0), count_of(k, 1),
                    count_of(k, 2), p.n);
}

static void where_i32_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    uint32_t m, h;
    copse__divisor(PERIOD, &m, &h);
    const struct copse_params_where_i32 p = {
        COPSE_TEST_N, PERIOD, m, h, PERIOD, m, h, PERIOD, m, h
    };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), count_of(k, 0), count_of(k, 1),
                    count_of(k, 2), p.n);
}

/* ---- laws ---- */

const struct copse_law copse_law_where = {
    .host = where_host,
    .at = where_at,
    .self_test = where_test,
};
const struct copse_law copse_law_where_i32 = {
    .host = where_i32_host,
    .at = where_i32_at,
    .self_test = where_i32_test,
};
