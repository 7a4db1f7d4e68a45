/* SPDX-License-Identifier: MIT */
/* Sums and means over replicas inside a graph. */
#include "copse/distribute/sync.h"
#include "core/device/kernel/mean.h"
#include "core/ops/ops.h"

static copse_status all_reduce_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    if (y->in[0]->type != COPSE_F32)
        return copse__shape_error(y, "expected f32");
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static void all_reduce_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                copse_tensor **dx)
{
    dx[0] = COPSE_NODE(g, y->op, NULL, dy);
}

/* Programs do not call this, and the evaluator in double precision has no other replicas. */
static copse_status all_reduce_lower(struct copse_lowering *l, const copse_tensor *y)
{
    (void)l;
    return copse_fail(COPSE_ERR_UNSUPPORTED, "%s: there are no other replicas here", y->op->name);
}

static const struct copse_op op_all_reduce = {
    .name = "all_reduce",
    .infer = all_reduce_infer,
    .gradient = all_reduce_gradient,
    .lower = all_reduce_lower,
    .crosses = true,
};

/* ---- the mean: a sum, and its quotient by the number of replicas ---- */

#define PER 32 /* elements per invocation */

struct mean_attr {
    uint32_t replicas;
};

/* The division computes the derivative of the mean; the sum below it passes it on. */
static void pass_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                          copse_tensor **dx)
{
    (void)g, (void)y;
    dx[0] = dy;
}

static const struct copse_op op_sum_of_mean = {
    .name = "all_reduce",
    .infer = all_reduce_infer,
    .gradient = pass_gradient,
    .lower = all_reduce_lower,
    .crosses = true,
};

static void mean_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                          copse_tensor **dx)
{
    (void)y;
    dx[0] = copse_all_reduce(g, dy, COPSE_MEAN);
}

/* The kernel that also divides reductions of values: correctly rounded on every device. */
static copse_status mean_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct mean_attr *a = y->attr;
    const int32_t spec[COPSE_MAX_SPECS] = { PER, copse__limits(l)->has_wide_vectors, 0,
                                            copse__mean_is_power(a->replicas, false) };
    const struct copse_params_mean p =
        copse__mean_params((uint32_t)copse__elements(y->shape), a->replicas);
    return COPSE_LAUNCH(l, mean, spec, p,
                        copse__groups_for(l, COPSE_KERNEL_mean, (p.n + PER - 1) / PER),
                        copse__of(y->in[0]), copse__of(y));
}

static const struct copse_op op_mean_over_replicas = {
    .name = "all_reduce",
    .attr_size = sizeof(struct mean_attr),
    .infer = all_reduce_infer,
    .gradient = mean_gradient,
    .lower = mean_lower,
};

copse_tensor *copse_all_reduce(copse_graph *g, copse_tensor *x, copse_averaging op)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("all_reduce", g, x));
    if (op != COPSE_SUM && op != COPSE_MEAN)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "all_reduce: there is no reduction %d",
                             (int)op);
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &x));
    if (x->type != COPSE_F32)
        return copse__refuse(g, COPSE_ERR_SHAPE, "all_reduce: the operand must be f32");
    if (g->replicas < 2 || copse__elements(x->shape) == 0)
        return copse__own(g, x);
    if (op == COPSE_SUM)
        return COPSE_NODE(g, &op_all_reduce, NULL, x);
    const struct mean_attr attr = { g->replicas };
    copse_tensor *sum = COPSE_NODE(g, &op_sum_of_mean, NULL, x);
    return COPSE_NODE(g, &op_mean_over_replicas, &attr, sum);
}

/* The sum of blocks that have a place each, with zeros around them. */
copse_tensor *copse_all_gather(copse_graph *g, copse_tensor *x, uint32_t replica)
{
    uint32_t before[COPSE_MAX_RANK] = { 0 }, after[COPSE_MAX_RANK] = { 0 };
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("all_gather", g, x));
    if (x->shape.rank == 0)
        return copse__refuse(g, COPSE_ERR_SHAPE, "all_gather: a scalar has no axis 0");
    const uint32_t replicas = COPSE_MAX(g->replicas, 1u);
    if (replica >= replicas)
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "all_gather: replica %u of %u: give the `replica` of the batch",
                             (unsigned)replica, (unsigned)replicas);
    before[0] = replica * x->shape.dims[0];
    after[0] = (replicas - 1 - replica) * x->shape.dims[0];
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &x));
    if (replicas > 1)
        x = copse__noted(g, copse_pad(g, x, before, after, 0), "while adding all_gather");
    return copse_all_reduce(g, x, COPSE_SUM);
}

copse_tensor *copse__mean_over_batch(copse_graph *g, copse_tensor *x)
{
    if (g->replicas < 2)
        return copse__own(g, x);
    copse_tensor *part = copse__step_scalar(g, COPSE_STEP_PART);
    x = copse_mul(g, x, part);
    return copse_all_reduce(g, x, COPSE_SUM);
}
