/* SPDX-License-Identifier: MIT */
/* Building a graph: nodes, inputs, variables' leaves, reports. Independent of the ops. */
#include "core/graph/graph.h"
#include "copse/ops.h"
#include "core/base/callback.h"
#include "core/graph/type.h"

/* Elements of one tensor: 31 bits, so that kernels index with uint and sizes fit on every host. */
#define MAX_ELEMENTS ((uint64_t)1 << 31)

const struct copse_op copse_op_input = { .name = "input" };
const struct copse_op copse_op_variable = { .name = "variable" };
const struct copse_op copse_op_released = { .name = "released variable" };

copse_status copse_graph_create(copse_context *ctx, copse_graph **out)
{
    if (!ctx || !out)
        return copse_fail(COPSE_ERR_ARGUMENT, "graph: context or result pointer is NULL");
    *out = NULL;
    copse_graph *g = copse__alloc(&ctx->base.mem, 1, sizeof *g);
    if (!g)
        return copse_no_memory("graph");
    g->ctx = copse_context_retain(ctx);
    g->arena.mem = &ctx->base.mem;
    *out = g;
    return COPSE_OK;
}

void copse_graph_release(copse_graph **g)
{
    if (!g || !*g)
        return;
    copse_context *ctx = (*g)->ctx;
    if (!copse__callback_may_release(&ctx->base.log, "copse_graph_release", *g))
        return;
    copse__free(&ctx->base.mem, (*g)->nodes.at);
    copse__free(&ctx->base.mem, (*g)->updates.at);
    copse__arena_fini(&(*g)->arena);
    copse__free(&ctx->base.mem, *g);
    copse_context_release(&ctx);
    *g = NULL;
}

static copse_status append(copse_graph *g, copse_tensor *t)
{
    uint64_t n = 1;
    bool is_empty = false;
    for (uint32_t i = 0; i < t->shape.rank; i++)
        is_empty |= t->shape.dims[i] == 0;
    for (uint32_t i = 0; i < t->shape.rank && !is_empty; i++) {
        n *= t->shape.dims[i];
        if (n >= MAX_ELEMENTS) {
            char text[96];
            return copse_fail(COPSE_ERR_SHAPE, "%s: a result of shape %s has 2^31 elements or more",
                              t->op->name, copse__shape_text(t->shape, text));
        }
    }
    t->graph = g;
    t->id = (uint32_t)g->nodes.count;
    if (!COPSE_PUSH(&g->ctx->base.mem, &g->nodes, t))
        return copse_fail(COPSE_ERR_NO_MEMORY, "graph: no memory for node %u", t->id);
    return COPSE_OK;
}

copse_status copse__own(copse_graph *g, copse_tensor *t, copse_tensor **out)
{
    if (!t)
        return copse_fail(COPSE_ERR_ARGUMENT, "graph: an operand is NULL");
    if (t->graph == g) {
        *out = t;
        return COPSE_OK;
    }
    if (t->op == &copse_op_released)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "graph: an operand is variable '%s', whose strategy was released",
                          t->name);
    if (t->graph)
        return copse_fail(COPSE_ERR_ARGUMENT, "graph: an operand ('%s') belongs to another graph",
                          t->name ? t->name : t->op->name);
    for (size_t i = 0; i < g->nodes.count; i++)
        if (g->nodes.at[i]->variable == t->variable && g->nodes.at[i]->op == &copse_op_variable) {
            *out = g->nodes.at[i];
            return COPSE_OK;
        }
    copse_tensor *leaf = copse__arena_alloc(&g->arena, 1, sizeof *leaf);
    if (!leaf)
        return copse_fail(COPSE_ERR_NO_MEMORY, "graph: no memory for a variable");
    *leaf = *t;
    leaf->name = copse__arena_strdup(&g->arena, t->name); /* the graph may outlive the variable */
    if (!leaf->name)
        return copse_fail(COPSE_ERR_NO_MEMORY, "graph: no memory for a variable");
    COPSE_TRY(append(g, leaf));
    *out = leaf;
    return COPSE_OK;
}

copse_status copse__cast_once(copse_graph *g, copse_tensor *x, copse_type type, copse_tensor **out)
{
    COPSE_TRY(copse__own(g, x, &x));
    for (size_t i = x->id + (size_t)1; i < g->nodes.count; i++) {
        copse_tensor *t = g->nodes.at[i];
        if (t->is_cast && t->in[0] == x && t->type == type) {
            *out = t;
            return COPSE_OK;
        }
    }
    const copse_tensor *from = x;
    COPSE_TRY(copse_cast(g, x, type, &x));
    x->is_cast = x != from;
    *out = x;
    return COPSE_OK;
}

copse_status copse__node(copse_graph *g, const struct copse_op *op, const void *attr,
                         copse_tensor *const *in, uint32_t in_count, copse_tensor **out)
{
    if (out)
        *out = NULL;
    if (!g || !out)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: graph or result pointer is NULL", op->name);
    copse_tensor *t = copse__arena_alloc(&g->arena, 1, sizeof *t);
    copse_tensor **own = copse__arena_alloc(&g->arena, in_count ? in_count : 1, sizeof *own);
    void *copy = op->attr_size ? copse__arena_alloc(&g->arena, 1, op->attr_size) : NULL;
    if (!t || !own || (op->attr_size && !copy))
        return copse_fail(COPSE_ERR_NO_MEMORY, "%s: no memory for a node", op->name);
    if (op->attr_size)
        memcpy(copy, attr, op->attr_size);
    t->graph = g;
    t->op = op;
    t->attr = copy;
    t->in = own;
    t->in_count = in_count;
    t->is_backward = g->is_backward;
    t->segment = g->is_backward ? 0 : g->segment;
    for (uint32_t i = 0; i < in_count; i++) {
        if (!in[i])
            return copse_fail(COPSE_ERR_ARGUMENT, "%s: operand %u is NULL", op->name, i);
        COPSE_TRY(copse_note(copse__own(g, in[i], &own[i]), "while adding %s", op->name));
        if (copse__type_is_half(own[i]->type) && !op->takes_stored)
            COPSE_TRY(copse_note(copse__cast_once(g, own[i], COPSE_F32, &own[i]), "while adding %s",
                                 op->name));
        if (!copse__type_is_computed(own[i]->type) && !op->takes_stored)
            return copse_fail(COPSE_ERR_UNSUPPORTED,
                              "%s: operand %u is %s; convert it first (copse_cast)", op->name, i,
                              copse__type_name(own[i]->type));
    }
    if (op->infer)
        COPSE_TRY(op->infer(t, &t->shape, &t->type));
    for (uint32_t i = 0; i < in_count; i++)
        t->needs_gradient |= copse__type_is_smooth(t->type) && own[i]->needs_gradient;
    COPSE_TRY(append(g, t));
    *out = t;
    return COPSE_OK;
}

copse_status copse_graph_input(copse_graph *g, const char *name, copse_type type, copse_shape shape,
                               copse_tensor **out)
{
    COPSE_TRY(copse_need("input", g, name, out));
    if (!copse__type_is_known(type) || shape.rank > COPSE_MAX_RANK)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "input '%s': needs a known type and a rank of at most %d", name,
                          COPSE_MAX_RANK);
    if (!copse__type(type)->is_on_devices)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "input '%s': %s is a type of batches and datasets; an input of a graph is "
            "%s",
            name, copse__type_name(type), copse__type_name(copse__type_on_devices(type)));
    *out = NULL;
    copse_tensor *t = copse__arena_alloc(&g->arena, 1, sizeof *t);
    char *copy = copse__arena_strdup(&g->arena, name);
    if (!t || !copy)
        return copse_no_memory("input '%s'", name);
    t->op = &copse_op_input;
    t->type = type;
    t->shape = shape;
    t->name = copy;
    COPSE_TRY(append(g, t));
    *out = t;
    return COPSE_OK;
}

copse_shape copse_tensor_shape(const copse_tensor *t)
{
    return t ? t->shape : COPSE_SCALAR;
}

copse_type copse_tensor_type(const copse_tensor *t)
{
    return t ? t->type : COPSE_F32;
}

copse_status copse_report(copse_graph *g, const char *name, copse_tensor *t)
{
    if (!g || !name || !t)
        return copse_fail(COPSE_ERR_ARGUMENT, "report: graph, name or tensor is NULL");
    copse_tensor *own;
    COPSE_TRY(copse__own(g, t, &own));
    if (t->type != COPSE_F32 || copse__elements(t->shape) != 1)
        return copse_fail(COPSE_ERR_SHAPE, "report '%s': must be an f32 scalar", name);
    if (g->report_count == COPSE_MAX_REPORTS)
        return copse_fail(COPSE_ERR_ARGUMENT, "report '%s': a graph reports at most %d values",
                          name, COPSE_MAX_REPORTS);
    char *copy = copse__arena_strdup(&g->arena, name);
    if (!copy)
        return copse_no_memory("report '%s'", name);
    g->reports[g->report_count].name = copy;
    g->reports[g->report_count].is_loss = false;
    g->reports[g->report_count++].tensor = own;
    return COPSE_OK;
}
