/* SPDX-License-Identifier: MIT */
/* Reverse-mode differentiation as a graph transformation: iterates backwards over the nodes between
   y and x, and each op adds the nodes of its derivative. Contributions are summed in the order of
   the iteration, so the result depends only on the graph. */
#include "copse/ops.h"
#include "core/graph/graph.h"
#include "core/graph/type.h"

/* Nodes that depend on some x and affect y. */
static void gradient_mark(const copse_graph *g, size_t count_before, const copse_tensor *y,
                          copse_tensor *const *x, size_t count, bool *from_x, bool *to_y)
{
    for (size_t i = 0; i < count; i++)
        from_x[x[i]->id] = true;
    for (size_t n = 0; n < count_before; n++) {
        const copse_tensor *t = g->nodes.at[n];
        for (uint32_t i = 0; i < t->in_count; i++)
            from_x[n] |= copse__type_is_smooth(t->type) && from_x[t->in[i]->id];
    }
    to_y[y->id] = true;
    for (size_t n = y->id + 1; n-- > 0;)
        if (to_y[n])
            for (uint32_t i = 0; i < g->nodes.at[n]->in_count; i++)
                to_y[g->nodes.at[n]->in[i]->id] = true;
}

/* The sum of the contributions to the derivative of x so far, and dx from the node `from`. */
static copse_tensor *add_rows(copse_graph *g, copse_tensor *sum, copse_tensor *dx,
                              const copse_tensor *x, const copse_tensor *from)
{
    if (!dx->op->join)
        return copse__refuse(
            g, COPSE_ERR_UNSUPPORTED,
            "gradient: variable '%s' has sparse gradients, and %s needs a dense one: use "
            "copse_gather alone, or a variable that is not sparse",
            x->name, from->op->name);
    return sum ? dx->op->join(g, sum, dx) : dx;
}

static copse_tensor *add_derivative(copse_graph *g, copse_tensor *sum, copse_tensor *dx,
                                    const copse_tensor *x, const copse_tensor *from)
{
    if (g->keeps_rows && x->takes_rows)
        return add_rows(g, sum, dx, x, from);
    if (!copse__shape_equal(dx->shape, x->shape) || dx->type != COPSE_F32)
        return copse__refuse(g, COPSE_ERR_INTERNAL,
                             "gradient: %s gave a derivative of another shape", from->op->name);
    return sum ? copse_add(g, sum, dx) : dx;
}

typedef void derivative(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx);

/* NULL: the op has none. */
static derivative *derivative_of(const struct copse_op *op)
{
    if (op->gradient)
        return op->gradient;
    for (size_t i = 0; copse_seconds[i]; i++)
        if (copse_seconds[i]->op == op)
            return copse_seconds[i]->gradient;
    return NULL;
}

static void refuse_op(copse_graph *g, const struct copse_op *op)
{
    (void)copse__refuse(g, COPSE_ERR_UNSUPPORTED, "gradient: %s has no derivative%s%s", op->name,
                        op->advice ? ": " : "", op->advice ? op->advice : "");
}

static void gradient_walk(copse_graph *g, copse_tensor *y, copse_tensor *dy, const bool *from_x,
                          const bool *to_y, copse_tensor **sums, copse_tensor **dx)
{
    sums[y->id] = dy;
    for (size_t n = y->id + 1; n-- > 0;) {
        copse_tensor *t = g->nodes.at[n];
        if (!from_x[n] || !to_y[n] || !sums[n] || t->in_count == 0)
            continue;
        bool is_wanted = false;
        for (uint32_t i = 0; i < t->in_count; i++) {
            t->in[i]->needs_gradient |= from_x[t->in[i]->id];
            is_wanted |= from_x[t->in[i]->id];
            dx[i] = NULL;
        }
        if (!is_wanted)
            continue;
        derivative *of = derivative_of(t->op);
        if (!of) {
            refuse_op(g, t->op);
            return;
        }
        of(g, t, sums[n], dx);
        if (g->status != COPSE_OK) {
            (void)copse__noted(g, &g->failed, "while differentiating %s", t->op->name);
            return;
        }
        for (uint32_t i = 0; i < t->in_count; i++) {
            copse_tensor **sum = &sums[t->in[i]->id];
            if (dx[i] && from_x[t->in[i]->id])
                *sum = add_derivative(g, *sum, dx[i], t->in[i], t);
        }
        if (g->status != COPSE_OK)
            return;
    }
}

static copse_status check_request(const copse_graph *g, const copse_tensor *y,
                                  const copse_tensor *dy, copse_tensor *const *x, size_t count,
                                  copse_tensor *const *dx)
{
    if (!y || y->graph != g || (count && (!x || !dx)))
        return copse_fail(COPSE_ERR_ARGUMENT, "gradient: y must belong to the graph; x and dx must "
                                              "not be NULL");
    if (y->type != COPSE_F32 || (!dy && copse__elements(y->shape) != 1))
        return copse_fail(COPSE_ERR_SHAPE, "gradient: y must be an f32 scalar, or dy be given");
    if (dy && (!copse__shape_equal(dy->shape, y->shape) || dy->type != COPSE_F32))
        return copse_fail(COPSE_ERR_SHAPE, "gradient: dy must be f32 and have y's shape");
    return COPSE_OK;
}

/* The graph's own nodes of x, in the graph's memory. */
static copse_status own_all(copse_graph *g, copse_tensor *const *x, size_t count,
                            copse_tensor ***out)
{
    copse_tensor **own = copse__arena_alloc(&g->arena, count ? count : 1, sizeof(copse_tensor *));
    COPSE_TRY(copse_need_memory(own, "gradient"));
    for (size_t i = 0; i < count; i++) {
        own[i] = copse__own(g, x[i]);
        COPSE_TRY(g->status);
        if (own[i]->type != COPSE_F32)
            return copse_fail(COPSE_ERR_SHAPE, "gradient: x[%zu] is not f32", i);
    }
    *out = own;
    return COPSE_OK;
}

/* x is kept constant where another one is a function of it: the walk ends at each. */
static void end_at_all(copse_tensor *const *x, size_t count, bool *to_y)
{
    for (size_t i = 0; i < count; i++)
        to_y[x[i]->id] = false;
}

static copse_status gradient_differentiate(copse_graph *g, copse_tensor *y, copse_tensor *dy,
                                           copse_tensor *const *x, size_t count, bool is_partial,
                                           copse_tensor **dx)
{
    struct copse_mem *mem = &g->ctx->base.mem;
    copse_tensor **own = NULL;
    uint32_t widest = 1;
    COPSE_TRY(g->status);
    COPSE_TRY(check_request(g, y, dy, x, count, dx));
    COPSE_TRY(copse__graph_order(g, &y, 1));
    COPSE_TRY(own_all(g, x, count, &own));
    if (!dy)
        dy = copse_fill(g, COPSE_F32, y->shape, 1.0);
    COPSE_TRY(g->status);
    for (size_t i = 0; i < g->nodes.count; i++)
        widest = COPSE_MAX(widest, g->nodes.at[i]->in_count);
    const size_t before = g->nodes.count;
    bool *from_x = copse__alloc(mem, before, 2 * sizeof(bool));
    copse_tensor **sums = copse__alloc(mem, before + widest, sizeof(copse_tensor *));
    if (from_x && sums) {
        gradient_mark(g, before, y, own, count, from_x, from_x + before);
        if (is_partial)
            end_at_all(own, count, from_x + before);
        /* Operands of derivatives have the types that the products of the forward pass had. */
        const copse_type precision = g->precision;
        g->precision = COPSE_F32;
        gradient_walk(g, y, dy, from_x, from_x + before, sums, sums + before);
        g->precision = precision;
        for (size_t i = 0; i < count; i++)
            dx[i] = sums[own[i]->id];
    } else {
        (void)copse__failed(g, copse_no_memory("gradient: %zu nodes", before));
    }
    copse__free(mem, from_x);
    copse__free(mem, sums);
    return g->status;
}

static void add_gradients(copse_graph *g, copse_tensor *y, copse_tensor *dy, copse_tensor *const *x,
                          size_t count, bool is_partial, copse_tensor **dx)
{
    copse_status s = copse_need("gradient", g);
    if (s == COPSE_OK)
        s = gradient_differentiate(g, y, dy, x, count, is_partial, dx);
    if (s == COPSE_OK)
        return;
    copse_tensor *failed = copse__failed(g, s);
    for (size_t i = 0; dx && i < count; i++)
        dx[i] = failed;
}

void copse__gradients(copse_graph *g, copse_tensor *y, copse_tensor *dy, copse_tensor *const *x,
                      size_t count, copse_tensor **dx)
{
    add_gradients(g, y, dy, x, count, false, dx);
}

void copse__partials(copse_graph *g, copse_tensor *y, copse_tensor *dy, copse_tensor *const *x,
                     size_t count, copse_tensor **dx)
{
    add_gradients(g, y, dy, x, count, true, dx);
}

void copse_gradients(copse_graph *g, copse_tensor *y, copse_tensor *dy, copse_tensor *const *x,
                     size_t count, copse_tensor **dx)
{
    copse__gradients(g, y, dy, x, count, dx);
    for (size_t i = 0; dx && i < count; i++)
        if (!dx[i])
            dx[i] = copse_fill(g, COPSE_F32, x[i]->shape, 0.0);
}
