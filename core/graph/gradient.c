/* SPDX-License-Identifier: MIT */
/* Reverse-mode differentiation as a graph transformation: iterates backwards over the nodes between
   y and x, and each op adds the nodes of its derivative. Contributions are summed in the order of
   the iteration, so the result depends only on the graph. */
#include "copse/ops.h"
#include "core/graph/graph.h"
#include "core/graph/type.h"

/* Nodes that depend on some x and affect y. */
static void mark(const copse_graph *g, size_t count_before, const copse_tensor *y,
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

static copse_status contribute_rows(copse_graph *g, copse_tensor **sum, copse_tensor *dx,
                                    const copse_tensor *x, const copse_tensor *from)
{
    if (!dx->op->join)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "gradient: variable '%s' has sparse gradients, and %s needs a dense one: use "
            "copse_gather alone, or a variable that is not sparse",
            x->name, from->op->name);
    if (*sum)
        return dx->op->join(g, *sum, dx, sum);
    *sum = dx;
    return COPSE_OK;
}

static copse_status contribute(copse_graph *g, copse_tensor **sum, copse_tensor *dx,
                               const copse_tensor *x, const copse_tensor *from)
{
    if (g->keeps_rows && x->takes_rows)
        return contribute_rows(g, sum, dx, x, from);
    if (!copse__shape_equal(dx->shape, x->shape) || dx->type != COPSE_F32)
        return copse_fail(COPSE_ERR_INTERNAL, "gradient: %s gave a derivative of another shape",
                          from->op->name);
    if (!*sum) {
        *sum = dx;
        return COPSE_OK;
    }
    return copse_add(g, *sum, dx, sum);
}

static copse_status walk(copse_graph *g, copse_tensor *y, copse_tensor *dy, const bool *from_x,
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
        if (!t->op->gradient)
            return copse_fail(COPSE_ERR_UNSUPPORTED, "gradient: %s has no derivative", t->op->name);
        COPSE_TRY(copse_note(t->op->gradient(g, t, sums[n], dx), "while differentiating %s",
                             t->op->name));
        for (uint32_t i = 0; i < t->in_count; i++)
            if (dx[i] && from_x[t->in[i]->id])
                COPSE_TRY(contribute(g, &sums[t->in[i]->id], dx[i], t->in[i], t));
    }
    return COPSE_OK;
}

copse_status copse__gradients(copse_graph *g, copse_tensor *y, copse_tensor *dy,
                              copse_tensor *const *x, size_t count, copse_tensor **dx)
{
    if (!g || !y || y->graph != g || (count && (!x || !dx)))
        return copse_fail(COPSE_ERR_ARGUMENT, "gradient: y must belong to the graph; x and dx must "
                                              "not be NULL");
    if (y->type != COPSE_F32 || (!dy && copse__elements(y->shape) != 1))
        return copse_fail(COPSE_ERR_SHAPE, "gradient: y must be an f32 scalar, or dy be given");
    if (dy && (!copse__shape_equal(dy->shape, y->shape) || dy->type != COPSE_F32))
        return copse_fail(COPSE_ERR_SHAPE, "gradient: dy must be f32 and have y's shape");

    struct copse_mem *mem = &g->ctx->base.mem;
    copse_tensor **own = copse__arena_alloc(&g->arena, count ? count : 1, sizeof(copse_tensor *));
    if (!own)
        return copse_no_memory("gradient");
    uint32_t widest = 1;
    for (size_t i = 0; i < count; i++) {
        COPSE_TRY(copse__own(g, x[i], &own[i]));
        if (own[i]->type != COPSE_F32)
            return copse_fail(COPSE_ERR_SHAPE, "gradient: x[%zu] is not f32", i);
    }
    if (!dy)
        COPSE_TRY(copse_fill(g, COPSE_F32, y->shape, 1.0, &dy));
    for (size_t i = 0; i < g->nodes.count; i++)
        widest = COPSE_MAX(widest, g->nodes.at[i]->in_count);

    const size_t before = g->nodes.count;
    bool *from_x = copse__alloc(mem, before, 2 * sizeof(bool));
    copse_tensor **sums = copse__alloc(mem, before + widest, sizeof(copse_tensor *));
    copse_status s = COPSE_OK;
    if (!from_x || !sums) {
        s = copse_fail(COPSE_ERR_NO_MEMORY, "gradient: no memory for %zu nodes", before);
        goto done;
    }
    mark(g, before, y, own, count, from_x, from_x + before);
    /* Operands of derivatives have the types that the products of the forward pass had. */
    const copse_type precision = g->precision;
    g->precision = COPSE_F32;
    s = walk(g, y, dy, from_x, from_x + before, sums, sums + before);
    g->precision = precision;
    if (s != COPSE_OK)
        goto done;
    for (size_t i = 0; i < count; i++)
        dx[i] = sums[own[i]->id];
done:
    copse__free(mem, from_x);
    copse__free(mem, sums);
    return s;
}

copse_status copse_gradients(copse_graph *g, copse_tensor *y, copse_tensor *dy,
                             copse_tensor *const *x, size_t count, copse_tensor **dx)
{
    COPSE_TRY(copse__gradients(g, y, dy, x, count, dx));
    for (size_t i = 0; i < count; i++)
        if (!dx[i])
            COPSE_TRY(copse_fill(g, COPSE_F32, x[i]->shape, 0.0, &dx[i]));
    return COPSE_OK;
}
