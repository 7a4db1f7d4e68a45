/* SPDX-License-Identifier: MIT */
/* Calls of ops of applications: their shapes, launches, nodes in graphs, and buffers of their
   references. */
#include <stdio.h>

#include "core/graph/type.h"
#include "core/ops/user/user_op.h"

#define MAX_LAUNCH ((uint64_t)1 << 31) /* invocations */

/* ---- buffers of references ---- */

double copse_host_load(const struct copse_host_arg *buffer, size_t i)
{
    return buffer && i < buffer->count ? copse__load(buffer, i) : 0;
}

void copse_host_store(const struct copse_host_arg *buffer, size_t i, double value)
{
    if (buffer && i < buffer->count)
        copse__store(buffer, i, value);
}

/* ---- calls of the application's functions ---- */

copse_status copse__user_shape(const copse_user_op *op, const copse_shape *shapes,
                               const void *settings, copse_shape *out)
{
    const struct copse_user_call call = { .count = op->p.operands,
                                          .shapes = shapes,
                                          .settings = settings };
    const uint64_t before = copse__failures();
    *out = shapes[0];
    if (op->p.shape)
        COPSE_TRY(copse__returned(op->p.shape(op->p.user, &call, out), before));
    if (out->rank > COPSE_MAX_RANK || copse__elements(*out) >= (uint64_t)1 << 31)
        return copse_fail(COPSE_ERR_SHAPE,
                          "%s: the shape rule gives a tensor of too many axes or elements",
                          op->p.name);
    return COPSE_OK;
}

copse_status copse__user_launch(const copse_user_op *op, const copse_shape *shapes, copse_shape y,
                                const void *settings, uint32_t group_size,
                                struct copse_user_launch *out)
{
    const struct copse_user_call call = { .count = op->p.operands,
                                          .shapes = shapes,
                                          .settings = settings,
                                          .shape = y,
                                          .group_size = group_size };
    const uint64_t before = copse__failures(), n = copse__elements(y);
    *out = (struct copse_user_launch){ .groups = (n + group_size - 1) / group_size };
    if (op->p.params > 0)
        out->params[0] = (uint32_t)n;
    if (op->p.launch) {
        *out = (struct copse_user_launch){ .groups = 0 };
        COPSE_TRY(copse_note(copse__returned(op->p.launch(op->p.user, &call, out), before),
                             "in the launch function of %s", op->p.name));
        COPSE_TRY(copse_no_reserved(copse_user_launch, out));
    }
    if (out->groups > MAX_LAUNCH / group_size)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s: %llu groups of %u are more than 2^31 invocations", op->p.name,
                          (unsigned long long)out->groups, (unsigned)group_size);
    return COPSE_OK;
}

/* ---- nodes ---- */

static const copse_user_op *op_of(const struct copse_op *op)
{
    return (const copse_user_op *)(const void *)((const char *)op - offsetof(copse_user_op, op));
}

static void shapes_of(const copse_tensor *y, copse_shape shapes[COPSE_USER_OPERANDS])
{
    for (uint32_t i = 0; i < y->in_count; i++)
        shapes[i] = y->in[i]->shape;
}

static copse_status user_op_call_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const copse_user_op *op = op_of(y->op);
    copse_shape shapes[COPSE_USER_OPERANDS];
    char said[160] = "";
    for (uint32_t i = 0; i < y->in_count; i++)
        if (y->in[i]->type != op->p.types[i])
            return copse__shape_error(y, "expected %s as operand %u",
                                      copse_type_name(op->p.types[i]), (unsigned)i);
    shapes_of(y, shapes);
    const copse_status s = copse__user_shape(op, shapes, y->attr, shape);
    *type = op->p.type;
    if (s == COPSE_OK)
        return COPSE_OK;
    snprintf(said, sizeof said, "%s", copse_last_error());
    return copse__shape_error(y, "refused by its shape rule: %s", said);
}

static copse_status user_op_call_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const copse_user_op *op = op_of(y->op);
    const enum copse_kernel_id id = (enum copse_kernel_id)op->id;
    struct copse_operand args[COPSE_USER_OPERANDS + 1];
    struct copse_user_launch launch;
    copse_shape shapes[COPSE_USER_OPERANDS];
    shapes_of(y, shapes);
    COPSE_TRY(copse__user_launch(op, shapes, y->shape, y->attr, copse__group_size(l, id), &launch));
    for (uint32_t i = 0; i < y->in_count; i++)
        args[i] = copse__of(y->in[i]);
    args[y->in_count] = copse__of(y);
    return copse__launch(l, id, launch.spec, launch.params, launch.groups, args, y->in_count + 1);
}

static void user_op_call_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                  copse_tensor **dx)
{
    const copse_user_op *op = op_of(y->op);
    copse_shape shapes[COPSE_USER_OPERANDS];
    shapes_of(y, shapes);
    const struct copse_user_call call = { .count = y->in_count,
                                          .shapes = shapes,
                                          .settings = y->attr,
                                          .shape = y->shape,
                                          .operands = y->in,
                                          .result = (copse_tensor *)y };
    op->p.gradient(op->p.user, g, &call, dy, dx);
    if (g->status != COPSE_OK)
        return;
    for (uint32_t i = 0; i < y->in_count; i++)
        if (dx[i] && (dx[i]->graph != g || dx[i]->type != COPSE_F32 ||
                      !copse__shape_equal(dx[i]->shape, y->in[i]->shape))) {
            (void)copse__refuse(
                g, COPSE_ERR_SHAPE, "%s: the gradient function gives %s%s for operand %u, f32%s",
                op->p.name, copse_type_name(dx[i]->type), COPSE_SHAPE_TEXT(dx[i]->shape),
                (unsigned)i, COPSE_SHAPE_TEXT(y->in[i]->shape));
            return;
        }
}

void copse__user_op_node(copse_user_op *op)
{
    op->op = (struct copse_op){ .name = op->p.name,
                                .attr_size = op->p.settings_size,
                                .infer = user_op_call_infer,
                                .lower = user_op_call_lower,
                                .advice = "register it with a function `gradient`",
                                .gradient = op->p.gradient ? user_op_call_gradient : NULL };
}

const copse_user_op *copse__user_op_of(const copse_tensor *t)
{
    return t->op->infer == user_op_call_infer ? op_of(t->op) : NULL;
}

copse_tensor *copse_user_op_add(copse_graph *g, const copse_user_op *op,
                                copse_tensor *const *operands, uint32_t count, const void *settings)
{
    static const char zeros[COPSE_USER_SETTINGS];
    COPSE_LATCH(g, copse_need("user op", g, op, operands));
    COPSE_LATCH(g,
                copse__check_operands(op->p.name, g, operands, COPSE_MIN(count, op->p.operands)));
    if (count != op->p.operands)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "%s: %u operands were given, it has %u",
                             op->p.name, (unsigned)count, (unsigned)op->p.operands);
    if (g->ctx != op->ctx)
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "%s: the op was registered in another context than that of the graph",
                             op->p.name);
    return copse__node(g, &op->op, settings ? settings : zeros, operands, count);
}
