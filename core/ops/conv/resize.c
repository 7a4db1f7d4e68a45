/* SPDX-License-Identifier: MIT */
/* Images and sequences of another size: a node for each axis. Pixel shuffle is a transposition. */
#include "copse/ops/resize.h"
#include "core/graph/type.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

#define MAX_SIZE 16384u /* along an axis: places stay below 2^32 */

struct resize_attr {
    uint32_t axis, from, to;
    int32_t kind;
};

static copse_status resize_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct resize_attr *a = y->attr;
    *shape = y->in[0]->shape;
    shape->dims[a->axis] = a->to;
    *type = COPSE_F32;
    return COPSE_OK;
}

static uint32_t inner_of(const copse_shape *shape, uint32_t axis)
{
    uint32_t n = 1;
    for (uint32_t i = axis + 1; i < shape->rank; i++)
        n *= shape->dims[i];
    return n;
}

static copse_status resize_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct resize_attr *a = y->attr;
    const struct copse_params_resize p = { .count = (uint32_t)copse__elements(y->shape),
                                           .size = a->from,
                                           .to = a->to,
                                           .inner = inner_of(&y->shape, a->axis) };
    const int32_t spec[COPSE_MAX_SPECS] = { a->kind };
    return COPSE_LAUNCH(l, resize, spec, p, copse__groups_for(l, COPSE_KERNEL_resize, p.count),
                        copse__of(y->in[0]), copse__of(y));
}

/* ---- the derivative ---- */

static copse_status gradient_infer(const copse_tensor *dx, copse_shape *shape, copse_type *type)
{
    const struct resize_attr *a = dx->attr;
    *shape = dx->in[0]->shape;
    shape->dims[a->axis] = a->from;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status gradient_lower(struct copse_lowering *l, const copse_tensor *dx)
{
    const struct resize_attr *a = dx->attr;
    const struct copse_params_resize_grad p = { .count = (uint32_t)copse__elements(dx->shape),
                                                .size = a->from,
                                                .to = a->to,
                                                .inner = inner_of(&dx->shape, a->axis) };
    const int32_t spec[COPSE_MAX_SPECS] = { a->kind };
    return COPSE_LAUNCH(l, resize_grad, spec, p,
                        copse__groups_for(l, COPSE_KERNEL_resize_grad, p.count),
                        copse__of(dx->in[0]), copse__of(dx));
}

static void resize_op_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                               copse_tensor **dx);
static void resize_second(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                          copse_tensor **dx);

/* dx of dy. Linear in dy: its derivative is a resize. */
static const struct copse_op op_resize_gradient = {
    .name = "resize_gradient",
    .attr_size = sizeof(struct resize_attr),
    .infer = gradient_infer,
    .gradient = resize_second,
    .lower = gradient_lower,
};

static const struct copse_op op_resize = {
    .name = "resize",
    .attr_size = sizeof(struct resize_attr),
    .infer = resize_infer,
    .gradient = resize_op_gradient,
    .lower = resize_lower,
};

static void resize_op_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                               copse_tensor **dx)
{
    dx[0] = COPSE_NODE(g, &op_resize_gradient, y->attr, dy);
}

static void resize_second(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                          copse_tensor **dx)
{
    dx[0] = COPSE_NODE(g, &op_resize, y->attr, dy);
}

/* ---- the ops ---- */

static copse_status check_size(const char *what, uint32_t size)
{
    if (size >= 1 && size <= MAX_SIZE)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_SHAPE, "resize: %s of %u elements: expected 1 to %u", what,
                      (unsigned)size, MAX_SIZE);
}

static copse_tensor *resize_axis(copse_graph *g, copse_tensor *x, uint32_t axis, uint32_t to,
                                 copse_resize_kind kind)
{
    const struct resize_attr a = { axis, x->shape.dims[axis], to, (int32_t)kind };
    COPSE_LATCH(g, check_size("an axis of x", a.from));
    COPSE_LATCH(g, check_size("an axis of the result", to));
    return a.from == to ? x : COPSE_NODE(g, &op_resize, &a, x);
}

copse_tensor *copse_resize(copse_graph *g, copse_tensor *x, const uint32_t size[2],
                           copse_resize_kind kind)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("resize", g, x));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &x));
    COPSE_LATCH(g, copse_need("resize", size));
    COPSE_LATCH(g, copse_need_known("resize", "kind", kind, COPSE_RESIZE_AREA));
    if (x->type != COPSE_F32 || (x->shape.rank != 3 && x->shape.rank != 4))
        return copse__refuse(g, COPSE_ERR_SHAPE,
                             "resize: operand %s%s: expected f32 [n, h, w, c] or [n, w, c]",
                             copse_type_name(x->type), COPSE_SHAPE_TEXT(x->shape));
    if (x->shape.rank == 3)
        return resize_axis(g, x, 1, size[0], kind);
    COPSE_LATCH(g, check_size("an axis of the result", size[0])); /* before a node is made */
    COPSE_LATCH(g, check_size("an axis of x", x->shape.dims[1]));
    copse_tensor *inner = resize_axis(g, x, 2, size[1], kind);
    return resize_axis(g, inner, 1, size[0], kind);
}

static copse_status check_shuffle(const char *op, const copse_tensor *x, uint32_t r,
                                  bool divides_places)
{
    const uint32_t *dims = x->shape.dims;
    const bool is_right =
        x->shape.rank == 4 && (x->type == COPSE_F32 || x->type == COPSE_I32) && r >= 1 &&
        (divides_places ? dims[1] % r == 0 && dims[2] % r == 0
                        : (uint64_t)r * r <= UINT32_MAX && dims[3] % (r * r) == 0);
    if (is_right)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_SHAPE, "%s: operand %s%s and r = %u: expected %s", op,
                      copse_type_name(x->type), COPSE_SHAPE_TEXT(x->shape), (unsigned)r,
                      divides_places ? "[n, h r, w r, c]" : "[n, h, w, c r r]");
}

copse_tensor *copse_pixel_shuffle(copse_graph *g, copse_tensor *x, uint32_t r)
{
    static const uint32_t order[] = { 0, 1, 4, 2, 5, 3 };
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("pixel_shuffle", g, x));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &x));
    COPSE_LATCH(g, check_shuffle("pixel_shuffle", x, r, false));
    const uint32_t n = x->shape.dims[0], h = x->shape.dims[1], w = x->shape.dims[2],
                   c = x->shape.dims[3] / (r * r);
    copse_tensor *y = copse_reshape(g, x, COPSE_SHAPE(n, h, w, c, r, r));
    y = copse_transpose(g, y, order);
    return copse_reshape(g, y, COPSE_SHAPE(n, h * r, w * r, c));
}

copse_tensor *copse_pixel_unshuffle(copse_graph *g, copse_tensor *x, uint32_t r)
{
    static const uint32_t order[] = { 0, 1, 3, 5, 2, 4 };
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("pixel_unshuffle", g, x));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &x));
    COPSE_LATCH(g, check_shuffle("pixel_unshuffle", x, r, true));
    const uint32_t n = x->shape.dims[0], h = x->shape.dims[1] / r, w = x->shape.dims[2] / r,
                   c = x->shape.dims[3];
    copse_tensor *y = copse_reshape(g, x, COPSE_SHAPE(n, h, r, w, r, c));
    y = copse_transpose(g, y, order);
    return copse_reshape(g, y, COPSE_SHAPE(n, h, w, c * r * r));
}

/* ---- references ---- */

/* The elements of x that element `o` of the result is computed from: `first` and below `end`, in
   units of 1 / (2 to) the place. */
struct part {
    uint64_t place, first, end;
};

static struct part part_of(int32_t kind, uint64_t o, uint64_t from, uint64_t to)
{
    const uint64_t twice = (2 * o + 1) * from, place = twice > to ? twice - to : 0;
    struct part at = { place, o * from / to, 0 };
    at.end = at.first + 1;
    if (kind == COPSE_RESIZE_AREA)
        at.end = ((o + 1) * from + to - 1) / to;
    if (kind == COPSE_RESIZE_LINEAR) {
        at.first = place / (2 * to);
        at.end = COPSE_MIN(at.first + (place % (2 * to) > 0 ? 2 : 1), from);
    }
    return at;
}

static double weight_of(int32_t kind, const struct part *at, uint64_t e, uint64_t from, uint64_t to)
{
    if (kind != COPSE_RESIZE_LINEAR)
        return 1 / (double)(at->end - at->first);
    const double place = (double)at->place / (double)(2 * to),
                 far = place > (double)e ? place - (double)e : (double)e - place;
    return e + 1 == from && place > (double)e ? 1 : 1 - far;
}

static double resize_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                        size_t i)
{
    const struct copse_params_resize *p = params;
    const size_t line = i / p->inner, outer = line / p->to, c = i % p->inner;
    const struct part at = part_of(spec[0], line % p->to, p->size, p->to);
    double sum = -0.0;
    for (uint64_t e = at.first; e < at.end; e++)
        sum += weight_of(spec[0], &at, e, p->size, p->to) *
               copse__load(&args[0], (outer * p->size + e) * p->inner + c);
    return sum;
}

static void resize_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_resize *p = params;
    for (size_t i = 0; i < p->count; i++)
        copse__store(&args[1], i, resize_at(params, spec, args, i));
}

static double resize_grad_at(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args, size_t i)
{
    const struct copse_params_resize_grad *p = params;
    const size_t line = i / p->inner, outer = line / p->size, e = line % p->size, c = i % p->inner;
    double sum = 0;
    for (size_t o = 0; o < p->to; o++) {
        const struct part at = part_of(spec[0], o, p->size, p->to);
        if (at.first <= e && e < at.end)
            sum += weight_of(spec[0], &at, e, p->size, p->to) *
                   copse__load(&args[0], (outer * p->to + o) * p->inner + c);
    }
    return sum;
}

static void resize_grad_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const struct copse_params_resize_grad *p = params;
    for (size_t i = 0; i < p->count; i++)
        copse__store(&args[1], i, resize_grad_at(params, spec, args, i));
}

/* ---- self-tests: 3 lines of 5 elements become 8, and back, with weights of few bits ---- */

enum { TEST_SIZE = 5, TEST_TO = 8, TEST_INNER = 2 };

static void resize_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t lines = COPSE_TEST_ROWS;
    struct copse_params_resize p = { lines * TEST_TO * TEST_INNER, TEST_SIZE, TEST_TO, TEST_INNER };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.count), lines * TEST_SIZE * TEST_INNER, p.count);
}

static void resize_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t lines = COPSE_TEST_ROWS;
    struct copse_params_resize_grad p = { lines * TEST_SIZE * TEST_INNER, TEST_SIZE, TEST_TO,
                                          TEST_INNER };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.count), lines * TEST_TO * TEST_INNER, p.count);
}

/* ---- laws ---- */

static struct copse_elements resize_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_resize *p = params;
    (void)spec;
    return (struct copse_elements){ p->count, 1 + p->size / COPSE_MAX(p->to, 1u) };
}

static struct copse_elements resize_grad_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_resize_grad *p = params;
    (void)spec;
    return (struct copse_elements){ p->count, p->to };
}

const struct copse_law copse_law_resize = {
    .host = resize_host,
    .at = resize_at,
    .elements = resize_elements,
    .limit = { .ulp = 3, .ratio = 4 },
    .self_test = resize_test,
};
const struct copse_law copse_law_resize_grad = {
    .host = resize_grad_host,
    .at = resize_grad_at,
    .elements = resize_grad_elements,
    .limit = { .ulp = 3, .ratio = 4 },
    .self_test = resize_grad_test,
};
