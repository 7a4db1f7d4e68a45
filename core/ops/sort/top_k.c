/* SPDX-License-Identifier: MIT */
/* The largest elements of rows: sorted lists of the largest of 64 adjacent elements, which are
   merged in pairs. */
#include <math.h>

#include "copse/ops/scan.h"
#include "core/device/kernel/launch_split.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

#define RUN 64u /* elements of the first lists */

struct top_k_attr {
    uint32_t k;
};

static copse_status top_k_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const uint32_t k = ((const struct top_k_attr *)y->attr)->k;
    const copse_shape *x = &y->in[0]->shape;
    if (y->in[0]->type != COPSE_F32 || x->rank == 0 || k == 0 || x->dims[x->rank - 1] < k)
        return copse__shape_error(y, "expected f32 [..., m] and k from 1 to m, not %u",
                                  (unsigned)k);
    *shape = *x;
    shape->dims[x->rank - 1] = k;
    *type = COPSE_I32;
    return COPSE_OK;
}

static uint32_t last_of(const copse_shape *shape)
{
    return shape->dims[shape->rank - 1];
}

/* The width of the result: lists of `keep` for each `span` elements of a row; the last list may be
   shorter. */
static uint32_t width_after(uint32_t width, uint32_t span, uint32_t keep)
{
    const uint32_t lists = (width + span - 1) / span;
    return (lists - 1) * keep + COPSE_MIN(keep, width - (lists - 1) * span);
}

static copse_status top_k_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const copse_shape *x = &y->in[0]->shape;
    const uint32_t k = last_of(&y->shape), rows = (uint32_t)(copse__elements(y->shape) / k);
    struct copse_params_top_k p = { .extent = last_of(x), .width = last_of(x), .run = RUN };
    int32_t spec[COPSE_MAX_SPECS] = { 1 };
    struct copse_operand lists[2], from, to;
    if (rows == 0)
        return COPSE_OK;
    /* the first pass does not read it, but every argument needs its own buffer */
    COPSE_TRY(copse__scratch(l, 1, &from));
    for (uint32_t pass = 0;; pass++) {
        const uint32_t span = pass ? 2 * p.run : p.run;
        const bool is_last = p.width <= span;
        p.keep = COPSE_MIN(k, span);
        p.to_width = width_after(p.width, span, p.keep);
        p.n = rows * p.width;
        if (!is_last && pass < 2) /* later results are not larger */
            COPSE_TRY(copse__scratch(l, (uint64_t)rows * p.to_width, &lists[pass]));
        to = is_last ? copse__of(y) : lists[pass % 2];
        COPSE_TRY(COPSE_LAUNCH(l, top_k, spec, p, copse__groups_for(l, COPSE_KERNEL_top_k, p.n),
                               copse__of(y->in[0]), from, to));
        if (is_last)
            return COPSE_OK;
        from = to;
        p.width = p.to_width;
        p.run = p.keep;
        spec[0] = 0;
    }
}

static const struct copse_op op_top_k = {
    .name = "top_k",
    .attr_size = sizeof(struct top_k_attr),
    .infer = top_k_infer,
    .lower = top_k_lower,
};

/* ---- the values, and their derivative ---- */

struct moved_attr {
    copse_shape shape; /* of the result */
};

static copse_status moved_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = ((const struct moved_attr *)y->attr)->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status values_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct copse_params_top_k_values p = { (uint32_t)copse__elements(y->shape),
                                                 last_of(&y->shape), last_of(&y->in[0]->shape) };
    return COPSE_LAUNCH(l, top_k_values, NULL, p,
                        copse__groups_for(l, COPSE_KERNEL_top_k_values, p.n), copse__of(y->in[0]),
                        copse__of(y->in[1]), copse__of(y));
}

static copse_status grad_lower(struct copse_lowering *l, const copse_tensor *dx)
{
    const copse_shape *k = &dx->in[0]->shape;
    const struct copse_params_top_k_grad p = { (uint32_t)copse__elements(*k), last_of(k),
                                               last_of(&dx->shape) };
    COPSE_TRY(copse__lower_fill(l, dx, 0.0));
    return COPSE_LAUNCH(l, top_k_grad, NULL, p, copse__groups_for(l, COPSE_KERNEL_top_k_grad, p.n),
                        copse__of(dx->in[0]), copse__of(dx->in[1]), copse__of(dx));
}

static void grad_gradient(copse_graph *g, const copse_tensor *dx, copse_tensor *u,
                          copse_tensor **out);

/* dx of dy and the indices. */
static const struct copse_op op_grad = {
    .name = "top_k_grad",
    .attr_size = sizeof(struct moved_attr),
    .infer = moved_infer,
    .gradient = grad_gradient,
    .lower = grad_lower,
};

static void values_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    const struct moved_attr a = { y->in[0]->shape };
    dx[0] = COPSE_NODE(g, &op_grad, &a, dy, y->in[1]);
}

static const struct copse_op op_values = {
    .name = "top_k_values",
    .attr_size = sizeof(struct moved_attr),
    .infer = moved_infer,
    .gradient = values_gradient,
    .lower = values_lower,
};

static void grad_gradient(copse_graph *g, const copse_tensor *dx, copse_tensor *u,
                          copse_tensor **out)
{
    const struct moved_attr a = { dx->in[0]->shape };
    out[0] = COPSE_NODE(g, &op_values, &a, u, dx->in[1]);
}

copse_tensor *copse_top_k(copse_graph *g, copse_tensor *x, uint32_t k, copse_tensor **indices)
{
    const struct top_k_attr a = { k };
    copse_tensor *found = copse__check_operands("top_k", g, &x, 1) == COPSE_OK
                              ? COPSE_NODE(g, &op_top_k, &a, x)
                              : copse__failed(g, COPSE_ERR_ARGUMENT);
    if (indices)
        *indices = found;
    if (copse__is_failed(found))
        return found;
    const struct moved_attr moved = { found->shape };
    return COPSE_NODE(g, &op_values, &moved, x, found);
}

/* ---- references ---- */

static bool comes_before(double a, size_t i, double b, size_t j)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && (!isnan(b) || i < j);
    return a > b || (a == b && i < j);
}

/* The elements with the indices list[first] to below list[end], or first to below end, that come
   before element `index`. */
static size_t count_before(const struct copse_host_arg *x, size_t base,
                           const struct copse_host_arg *list, size_t first, size_t end,
                           size_t index)
{
    const double mine = copse__load(x, base + index);
    if (!list) {
        size_t count = 0;
        for (size_t i = first; i < end; i++)
            count += comes_before(copse__load(x, base + i), i, mine, index);
        return count;
    }
    size_t low = first; /* lists are sorted */
    while (low < end) {
        const size_t middle = low + (end - low) / 2, i = (size_t)copse__load_i(list, middle);
        if (comes_before(copse__load(x, base + i), i, mine, index))
            low = middle + 1;
        else
            end = middle;
    }
    return low - first;
}

static void top_k_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_top_k *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = i / p->width, at = i % p->width, list = at / p->run,
                     start = (spec[0] ? list : list ^ 1) * p->run;
        const size_t end = COPSE_MIN(start + p->run, p->width), lists = row * p->width;
        const size_t index = spec[0] ? at : (size_t)copse__load_i(&args[1], i);
        const size_t place =
            spec[0] ? count_before(&args[0], row * p->extent, NULL, start, end, index)
                    : at % p->run + (start < end ? count_before(&args[0], row * p->extent, &args[1],
                                                                lists + start, lists + end, index)
                                                 : 0);
        if (place < p->keep)
            copse__store_i(&args[2],
                           row * p->to_width + (spec[0] ? list : list / 2) * p->keep + place,
                           (int32_t)index);
    }
}

static void top_k_values_host(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args)
{
    const struct copse_params_top_k_values *p = params;
    (void)spec;
    for (size_t i = 0; i < p->n; i++) {
        const uint32_t index = (uint32_t)copse__load_i(&args[1], i);
        copse__store(&args[2], i,
                     index < p->extent ? copse__load(&args[0], i / p->k * p->extent + index) : NAN);
    }
}

static void top_k_grad_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_top_k_grad *p = params;
    (void)spec;
    for (size_t i = 0; i < p->n; i++) {
        const uint32_t index = (uint32_t)copse__load_i(&args[1], i);
        if (index < p->extent)
            copse__store(&args[2], i / p->k * p->extent + index, copse__load(&args[0], i));
    }
}

/* ---- self-tests ---- */

enum { ROWS = 3, EXTENT = 11, LIST = 4, KEPT = 3 };

/* Rows of 11 whole numbers, many of them equal. The first pass makes 3 lists of 3; a later one
   makes 2 of lists of 3, 3 and 2. */
static void top_k_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const bool is_first = k->spec[0] != 0;
    struct copse_params_top_k p = { .extent = EXTENT,
                                    .width = is_first ? EXTENT : 3 * KEPT - 1,
                                    .run = is_first ? LIST : KEPT,
                                    .keep = is_first ? KEPT : LIST };
    p.n = ROWS * p.width;
    p.to_width = is_first ? 3 * KEPT : LIST + KEPT - 1;
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), ROWS * EXTENT, is_first ? 4 : p.n,
                    ROWS * p.to_width);
    for (uint32_t i = 0; !is_first && i < p.n; i++) /* the values below fall along each list */
        t->words[1][i] = i % p.width;
    for (uint32_t i = 0; !is_first && i < ROWS * EXTENT; i++)
        copse__test_set(t, 0, i, (float)(EXTENT - i % EXTENT % KEPT));
}

static void top_k_values_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_top_k_values p = { .n = COPSE_TEST_N, .k = 7, .extent = EXTENT };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), (COPSE_TEST_N + 6) / 7 * EXTENT, p.n, p.n);
    for (uint32_t i = 0; i < COPSE_TEST_N; i++)
        t->words[1][i] = i * 5 % (EXTENT + 1);
}

static void top_k_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_top_k_grad p = { .n = COPSE_TEST_N, .k = 7, .extent = EXTENT };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, p.n, (COPSE_TEST_N + 6) / 7 * EXTENT);
    for (uint32_t i = 0; i < COPSE_TEST_N; i++)
        /* they differ within a row; 11 is out of range */
        t->words[1][i] = (i % 7 * 5 + 1) % (EXTENT + 1);
}

/* ---- laws ---- */

static bool top_k_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    const struct copse_params_top_k *p = COPSE_SPLIT_PARAMS(top_k, o);
    return COPSE_SPLIT_EACH(o, p->width, p->extent, p->width, p->to_width);
}

static bool top_k_values_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    const struct copse_params_top_k_values *p = COPSE_SPLIT_PARAMS(top_k_values, o);
    return COPSE_SPLIT_EACH(o, p->k, p->extent, p->k, p->k);
}

static bool top_k_grad_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    const struct copse_params_top_k_grad *p = COPSE_SPLIT_PARAMS(top_k_grad, o);
    return COPSE_SPLIT_EACH(o, p->k, p->k, p->k, p->extent);
}

const struct copse_law copse_law_top_k = {
    .host = top_k_host,
    .split = top_k_split,
    .self_test = top_k_test,
};
const struct copse_law copse_law_top_k_values = {
    .host = top_k_values_host,
    .split = top_k_values_split,
    .self_test = top_k_values_test,
};
const struct copse_law copse_law_top_k_grad = {
    .host = top_k_grad_host,
    .split = top_k_grad_split,
    .self_test = top_k_grad_test,
};
