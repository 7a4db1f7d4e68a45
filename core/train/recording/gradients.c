/* SPDX-License-Identifier: MIT */
/* The nodes behind a loss: derivatives, the application's transform of them, watches, and their
   places in the flat store. */
#include <math.h>

#include "core/graph/type.h"
#include "core/ops/ops.h"
#include "core/train/recording/loss_recording.h"
#include "core/train/recording/step_recording.h"

struct builder {
    struct copse_step_recording *r;
    const struct copse_trained *trained;
    copse_graph *g;
    struct copse_gradient *pairs; /* of the trained variables */
};

static copse_status gradients_differentiate(struct builder *b)
{
    const struct copse_trained *trained = b->trained;
    const size_t count = trained->count;
    bool is_any = false;
    copse_tensor **x = copse__arena_alloc(&b->g->arena, count, 2 * sizeof *x);
    b->pairs = copse__arena_alloc(&b->g->arena, count, sizeof *b->pairs);
    COPSE_TRY(copse_need_memory(x && b->pairs, "trainer"));
    for (size_t i = 0; i < count; i++)
        x[i] = &trained->at[i]->tensor;
    copse_tensor **dx = x + count;
    b->g->keeps_rows = true;
    const copse_status s = copse__loss_differentiate(&b->r->base, NULL, x, count, dx);
    b->g->keeps_rows = false;
    COPSE_TRY(s);
    for (size_t i = 0; i < count; i++) {
        b->pairs[i] = (struct copse_gradient){ dx[i], trained->at[i] };
        is_any |= dx[i] != NULL;
    }
    return is_any || !trained->is_listed
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "trainer: the loss depends on none of the %zu variables to train "
                            "('%s'%s)",
                            count, trained->at[0]->name, count > 1 ? ", ..." : "");
}

static copse_status gradients_transform(struct builder *b)
{
    const struct copse_trainer_params *p = b->r->all->params;
    if (!p->transform)
        return COPSE_OK;
    struct copse_graph_call c;
    copse__graph_call_enter(&c, &b->r->base, "the gradient transform of a trainer");
    p->transform(b->g, b->pairs, b->trained->count, p->transform_user);
    COPSE_TRY(copse_note(copse__graph_call_leave(&c, copse_graph_status(b->g)),
                         "while transforming gradients"));
    for (size_t i = 0; i < b->trained->count; i++) {
        const copse_variable *v = b->trained->at[i];
        copse_tensor **dx = &b->pairs[i].gradient;
        if (b->pairs[i].variable != v)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "trainer: the transform of gradients must leave "
                              "'%s' at its place in the list",
                              v->name);
        if (*dx)
            *dx = copse__own(b->g, *dx);
        COPSE_TRY(copse_graph_status(b->g));
        if (*dx &&
            ((*dx)->type != COPSE_F32 || !copse__shape_equal((*dx)->shape, v->tensor.shape))) {
            return copse_fail(COPSE_ERR_SHAPE,
                              "trainer: the transformed gradient of '%s' must be "
                              "f32 and have its shape, it has %s",
                              v->name, COPSE_SHAPE_TEXT((*dx)->shape));
        }
    }
    return COPSE_OK;
}

/* ---- watches ---- */

static copse_status gradients_watch(struct builder *b, size_t i, uint32_t which,
                                    copse_tensor *scalar)
{
    const size_t at = (i * COPSE_WATCHES + which) * COPSE_REPORT_STRIDE;
    const struct copse_binding to = { b->r->all->watches.buffers[b->r->replica], at,
                                      copse__type_bytes(COPSE_F32) };
    return copse__recording_place(&b->r->base, scalar, to, 0);
}

/* The sum of x - x: 0, or NaN. */
static copse_status watch_finite(struct builder *b, size_t i)
{
    copse_tensor *x = b->pairs[i].gradient;
    x = copse_sub(b->g, x, x);
    x = copse_sum(b->g, x, NULL, 0, false);
    return gradients_watch(b, i, COPSE_WATCH_FINITE, x);
}

static copse_status watch_size(struct builder *b, size_t i)
{
    copse_tensor *x = b->pairs[i].gradient, *y, *size;
    y = copse_gradient_norm(b->g, x);
    COPSE_TRY(gradients_watch(b, i, COPSE_WATCH_NORM, y));
    size = copse_abs(b->g, x);
    for (int k = 0; k < COPSE_GRADIENT_BINS; k++) {
        copse_tensor *edge =
            copse_fill(b->g, COPSE_F32, COPSE_SCALAR, pow(10.0, COPSE_GRADIENT_LOW + k));
        y = copse_greater_equal(b->g, size, edge);
        y = copse_sum(b->g, y, NULL, 0, false);
        COPSE_TRY(gradients_watch(b, i, COPSE_WATCH_BINS + (uint32_t)k, y));
    }
    return COPSE_OK;
}

static copse_status watch_all(struct builder *b)
{
    for (size_t i = 0; i < b->trained->count; i++) {
        if (!b->pairs[i].gradient)
            continue;
        if (b->r->all->params->check_gradients)
            COPSE_TRY(watch_finite(b, i));
        if (b->r->all->params->summarize_gradients)
            COPSE_TRY(watch_size(b, i));
    }
    return COPSE_OK;
}

/* ---- places ---- */

static copse_status place_all(struct builder *b)
{
    for (size_t i = 0; i < b->trained->count; i++) {
        const copse_variable *v = b->trained->at[i];
        copse_tensor *dx = b->pairs[i].gradient;
        if (v->is_sparse) {
            COPSE_TRY(copse__rows_place(b->r, v, dx));
            continue;
        }
        if (b->r->pass == COPSE_PASS_ADD) {
            if (!dx)
                continue;
            dx = copse__add_in_place(b->g, dx);
        } else if (!dx) {
            dx = copse_fill(b->g, COPSE_F32, v->tensor.shape, 0.0);
        }
        COPSE_TRY(copse__recording_place(&b->r->base, dx,
                                         copse__variable_gradient(v, b->r->replica),
                                         copse__optimizer_bucket(b->r->all->optimizer, v)));
    }
    return COPSE_OK;
}

copse_status copse__gradients_build(struct copse_step_recording *r)
{
    struct builder b = { .r = r, .trained = r->all->trained, .g = r->base.graph };
    COPSE_TRY(gradients_differentiate(&b));
    const size_t first = b.g->nodes.count;
    COPSE_TRY(gradients_transform(&b));
    COPSE_TRY(watch_all(&b));
    COPSE_TRY(place_all(&b));
    return copse__graph_hoist(b.g, first);
}
