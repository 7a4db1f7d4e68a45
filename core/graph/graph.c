/* SPDX-License-Identifier: MIT */
/* Building a graph: nodes, inputs, variables' leaves, reports. Independent of the ops. */
#include "core/graph/graph.h"

#include <stdarg.h>
#include <stdio.h>

#include "copse/ops.h"
#include "core/base/callback.h"
#include "core/graph/type.h"

/* Elements of one tensor: 31 bits, so that kernels index with uint and sizes fit on every host. */
#define MAX_ELEMENTS ((uint64_t)1 << 31)

const struct copse_op copse_op_input = { .name = "input" };
const struct copse_op copse_op_variable = { .name = "variable" };
const struct copse_op copse_op_released = { .name = "released variable" };
const struct copse_op copse_op_failed = { .name = "failed call" };

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
    g->failed = (copse_tensor){ .graph = g, .op = &copse_op_failed };
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

static copse_status graph_append(copse_graph *g, copse_tensor *t)
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

/* ---- failures ---- */

/* Of calls whose graph is NULL. */
static copse_tensor no_graph_failed = { .op = &copse_op_failed };

copse_tensor *copse__failed(copse_graph *g, copse_status s)
{
    if (!g)
        return &no_graph_failed;
    if (g->status == COPSE_OK && s != COPSE_OK) {
        g->status = s;
        strncpy(g->failure, copse_last_error(), sizeof g->failure - 1);
        strncpy(g->failure_place, copse_last_error_place(), sizeof g->failure_place - 1);
    }
    return &g->failed;
}

bool copse__is_failed(const copse_tensor *t)
{
    return t->op == &copse_op_failed;
}

copse_tensor *copse__noted(copse_graph *g, copse_tensor *t, const char *fmt, ...)
{
    if (!g || !copse__is_failed(t))
        return t;
    char text[96];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const size_t at = strlen(g->failure);
    snprintf(g->failure + at, sizeof g->failure - at, "; %s", text);
    return t;
}

copse_status copse_graph_status(const copse_graph *g)
{
    if (!g)
        return copse_fail(COPSE_ERR_ARGUMENT, "graph: the graph is NULL");
    if (g->status != COPSE_OK)
        copse__fail_from(g->failure, g->failure_place);
    return g->status;
}

copse_tensor *copse_graph_fail(copse_graph *g, copse_status status, const char *text)
{
    COPSE_LATCH(g, copse_need("graph", g, text));
    if (status == COPSE_OK)
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "graph: a failure needs a status other than COPSE_OK");
    return copse__failed(g, copse_fail(status, "%s", text));
}

copse_status copse__graph_take_failure(copse_graph *g)
{
    const copse_status s = copse_graph_status(g);
    g->status = COPSE_OK;
    g->failure[0] = '\0';
    return s;
}

/* ---- nodes ---- */

static copse_tensor *find_leaf(const copse_graph *g, const struct copse_variable *v)
{
    for (size_t i = 0; i < g->nodes.count; i++)
        if (g->nodes.at[i]->variable == v && g->nodes.at[i]->op == &copse_op_variable)
            return g->nodes.at[i];
    return NULL;
}

copse_tensor *copse__own(copse_graph *g, copse_tensor *t)
{
    if (g->status != COPSE_OK)
        return &g->failed;
    if (!t)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "graph: an operand is NULL");
    if (t->graph == g)
        return t;
    if (copse__is_failed(t))
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "graph: an operand is the result of a call that failed, on %s",
                             t->graph ? "another graph" : "no graph: the graph was NULL");
    if (t->op == &copse_op_released)
        return copse__refuse(
            g, COPSE_ERR_ARGUMENT,
            "graph: an operand is variable '%s', which was released with its strategy or "
            "model",
            t->name);
    if (t->graph)
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "graph: an operand ('%s') belongs to another graph",
                             t->name ? t->name : t->op->name);
    copse_tensor *leaf = find_leaf(g, t->variable);
    if (leaf)
        return leaf;
    leaf = copse__arena_alloc(&g->arena, 1, sizeof *leaf);
    if (!leaf)
        return copse__failed(g, copse_no_memory("graph: a variable"));
    *leaf = *t;
    leaf->name = copse__arena_strdup(&g->arena, t->name); /* the graph may outlive the variable */
    if (!leaf->name)
        return copse__failed(g, copse_no_memory("graph: a variable"));
    COPSE_LATCH(g, graph_append(g, leaf));
    return leaf;
}

copse_tensor *copse__cast_once(copse_graph *g, copse_tensor *x, copse_type type)
{
    copse_tensor *from = copse__own(g, x);
    for (size_t i = from->id + (size_t)1; i < g->nodes.count; i++) {
        copse_tensor *t = g->nodes.at[i];
        if (t->is_cast && t->in[0] == from && t->type == type)
            return t;
    }
    copse_tensor *y = copse_cast(g, from, type);
    if (!copse__is_failed(y))
        y->is_cast = y != from;
    return y;
}

/* The graph's own operand `i` of a node, in a type that the op computes. */
static copse_tensor *take_operand(copse_graph *g, const struct copse_op *op, uint32_t i,
                                  copse_tensor *x)
{
    if (!x)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "%s: operand %u is NULL", op->name, i);
    copse_tensor *own = copse__noted(g, copse__own(g, x), "while adding %s", op->name);
    if (copse__is_failed(own) || op->takes_stored)
        return own;
    if (copse__type_is_half(own->type))
        return copse__noted(g, copse__cast_once(g, own, COPSE_F32), "while adding %s", op->name);
    if (!copse__type_is_computed(own->type))
        return copse__refuse(g, COPSE_ERR_UNSUPPORTED,
                             "%s: operand %u is %s; convert it first (copse_cast)", op->name, i,
                             copse_type_name(own->type));
    return own;
}

copse_tensor *copse__node(copse_graph *g, const struct copse_op *op, const void *attr,
                          copse_tensor *const *in, uint32_t in_count)
{
    if (!g)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "%s: graph is NULL", op->name);
    if (g->status != COPSE_OK)
        return &g->failed;
    copse_tensor *t = copse__arena_alloc(&g->arena, 1, sizeof *t);
    copse_tensor **own = copse__arena_alloc(&g->arena, in_count ? in_count : 1, sizeof *own);
    void *copy = op->attr_size ? copse__arena_alloc(&g->arena, 1, op->attr_size) : NULL;
    if (!t || !own || (op->attr_size && !copy))
        return copse__failed(g, copse_no_memory("%s: a node", op->name));
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
        own[i] = take_operand(g, op, i, in[i]);
        if (copse__is_failed(own[i]))
            return own[i];
    }
    if (op->infer)
        COPSE_LATCH(g, op->infer(t, &t->shape, &t->type));
    for (uint32_t i = 0; i < in_count; i++)
        t->needs_gradient |= copse__type_is_smooth(t->type) && own[i]->needs_gradient;
    COPSE_LATCH(g, graph_append(g, t));
    return t;
}

copse_tensor *copse_graph_input(copse_graph *g, const char *name, copse_type type,
                                copse_shape shape)
{
    COPSE_LATCH(g, copse_need("input", g, name));
    if (g->status != COPSE_OK)
        return &g->failed;
    COPSE_LATCH(g, copse__type_need(type, "input", name));
    if (shape.rank > COPSE_MAX_RANK)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "input '%s': the rank is at most %d", name,
                             COPSE_MAX_RANK);
    if (copse__type(type)->place != COPSE_TYPE_ON_DEVICES)
        return copse__refuse(g, COPSE_ERR_UNSUPPORTED,
                             "input '%s': %s is a type of batches and datasets; an input of a "
                             "graph is %s",
                             name, copse_type_name(type),
                             copse_type_name(copse__type_on_devices(type)));
    copse_tensor *t = copse__arena_alloc(&g->arena, 1, sizeof *t);
    char *copy = copse__arena_strdup(&g->arena, name);
    if (!t || !copy)
        return copse__failed(g, copse_no_memory("input '%s'", name));
    t->op = &copse_op_input;
    t->type = type;
    t->shape = shape;
    t->name = copy;
    COPSE_LATCH(g, graph_append(g, t));
    return t;
}

copse_shape copse_tensor_shape(const copse_tensor *t)
{
    return t ? t->shape : COPSE_SCALAR;
}

copse_type copse_tensor_type(const copse_tensor *t)
{
    return t ? t->type : COPSE_F32;
}

void copse_report(copse_graph *g, const char *name, copse_tensor *t)
{
    COPSE_LATCH_VOID(g, copse_need("report", g, name, t));
    copse_tensor *own = copse__own(g, t);
    if (copse__is_failed(own))
        return;
    if (t->type != COPSE_F32 || copse__elements(t->shape) != 1)
        COPSE_LATCH_VOID(g,
                         copse_fail(COPSE_ERR_SHAPE, "report '%s': must be an f32 scalar", name));
    if (g->report_count == COPSE_MAX_REPORTS)
        COPSE_LATCH_VOID(g, copse_fail(COPSE_ERR_ARGUMENT,
                                       "report '%s': a graph has at most %d reports "
                                       "(COPSE_MAX_REPORTS); set an array with copse_step_output",
                                       name, COPSE_MAX_REPORTS));
    char *copy = copse__arena_strdup(&g->arena, name);
    if (!copy)
        COPSE_LATCH_VOID(g, copse_no_memory("report '%s'", name));
    g->reports[g->report_count].name = copy;
    g->reports[g->report_count].is_loss = false;
    g->reports[g->report_count++].tensor = own;
}
