/* SPDX-License-Identifier: MIT */
/* GridSample: each place of the result reads the picture at a place that the grid says, from -1 to
   1 on each axis. The sums here give the derivatives of the picture and of the grid. */
#include "copse/ops.h"
#include "copse/ops/logic.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

#define EXACT_PLACES ((uint64_t)1 << 24) /* whole numbers of f32 */

/* One axis of the grid [places], as places of pixels. */
struct axis {
    uint32_t length;          /* pixels */
    copse_tensor *low, *part; /* the pixel before a place, and how far the place is after it */
};

/* Places that are no numbers, or far outside, become places outside. */
static copse_tensor *axis_place(copse_graph *g, copse_tensor *grid, uint32_t length,
                                bool is_aligned, bool is_border)
{
    const float half = ((float)length - 1) / 2, outside = is_border ? 0 : 2;
    copse_tensor *t = copse_multiply_by(g, grid, is_aligned ? half : (float)length / 2);
    t = copse_add(g, t, copse_scalar(g, (double)half));
    t = copse_where(g, copse_equal(g, t, t), t, copse_scalar(g, -2));
    return copse_clip(g, t, -outside, (float)length - 1 + outside);
}

/* Where a corner is inside, 1, else 0; `*at` becomes the next pixel inside. */
static copse_tensor *corner_inside(copse_graph *g, copse_tensor **at, uint32_t length)
{
    copse_tensor *inside = copse_clip(g, *at, 0, (float)length - 1);
    copse_tensor *is_inside = copse_equal(g, *at, inside);
    *at = inside;
    return is_inside;
}

/* What a corner adds: the pixels [places, c] times their weights. */
static copse_tensor *corner_pixels(copse_graph *g, copse_tensor *pixels, copse_tensor *first,
                                   const struct axis *x, const struct axis *y, int right, int down)
{
    copse_tensor *u = copse_add(g, x->low, copse_scalar(g, right)),
                 *v = copse_add(g, y->low, copse_scalar(g, down));
    copse_tensor *weight =
        copse_mul(g, corner_inside(g, &u, x->length), corner_inside(g, &v, y->length));
    const struct {
        const struct axis *axis;
        int is_far;
    } parts[] = { { x, right }, { y, down } };
    for (int i = 0; i < 2; i++)
        if (parts[i].axis->part)
            weight =
                copse_mul(g, weight,
                          parts[i].is_far ? parts[i].axis->part
                                          : copse_sub(g, copse_scalar(g, 1), parts[i].axis->part));
    copse_tensor *place =
        copse_add(g, first, copse_add(g, copse_multiply_by(g, v, (float)x->length), u));
    const uint32_t count = copse_tensor_shape(place).dims[0];
    return copse_mul(g, copse_gather(g, pixels, copse_cast(g, place, COPSE_I32)),
                     copse_reshape(g, weight, COPSE_SHAPE(count, 1)));
}

/* The places of an axis of the grid [n, h, w, 2]. */
static struct axis axis_of(struct onnx_walk *w, copse_tensor *grid, uint32_t which, uint32_t length,
                           bool is_nearest)
{
    copse_graph *g = w->g;
    const onnx_node *n = w->step->node;
    const copse_shape s = copse_tensor_shape(grid);
    copse_tensor *t = copse_slice(g, grid, (const uint32_t[]){ 0, 0, 0, which },
                                  (const uint32_t[]){ s.dims[0], s.dims[1], s.dims[2], 1 });
    t = axis_place(g, copse_reshape(g, t, COPSE_SHAPE(s.dims[0] * s.dims[1] * s.dims[2])), length,
                   copse__onnx_int(n, "align_corners", 0) != 0,
                   copse__onnx_text_is(n, "padding_mode", "zeros", "border"));
    struct axis out = { .length = length };
    out.low = is_nearest ? copse__onnx_round(g, t, NULL) : copse__onnx_floor(g, t, NULL);
    out.part = is_nearest ? NULL : copse_sub(g, t, out.low);
    return out;
}

/* The number of the first pixel of the picture of each place. */
static copse_tensor *first_pixels(struct onnx_walk *w, uint32_t pictures, uint32_t each,
                                  uint32_t pixels)
{
    float *values = copse__onnx_room(w, (size_t)pictures * each, sizeof *values);
    for (size_t i = 0; values && i < (size_t)pictures * each; i++)
        values[i] = (float)(i / each * pixels);
    return values ? copse_constant(w->g, COPSE_F32, COPSE_SHAPE(pictures * each), values) : NULL;
}

#define SHOWN_TEXT 40u

/* Refuse the text of an attribute, which is there. */
static void refuse_text(struct onnx_walk *w, const char *name)
{
    const ProtobufCBinaryData text = copse__onnx_attribute(w->step->node, name)->s;
    copse__onnx_refuse(w, "%s '%.*s' is not read", name, (int)COPSE_MIN(text.len, SHOWN_TEXT),
                       text.len > 0 ? (const char *)text.data : "");
}

void copse__onnx_grid_sample(struct onnx_walk *w)
{
    const onnx_node *n = w->step->node;
    copse_graph *g = w->g;
    struct onnx_value *x = copse__onnx_in(w, 0), *grid = copse__onnx_in(w, 1);
    const copse_shape s = x->shape, at = grid->shape;
    const bool is_nearest = copse__onnx_text_is(n, "mode", "linear", "nearest");
    if (!is_nearest && !copse__onnx_text_is(n, "mode", "linear", "linear") &&
        !copse__onnx_text_is(n, "mode", "linear", "bilinear"))
        refuse_text(w, "mode");
    else if (!copse__onnx_text_is(n, "padding_mode", "zeros", "zeros") &&
             !copse__onnx_text_is(n, "padding_mode", "zeros", "border"))
        refuse_text(w, "padding_mode");
    else if (s.rank != 4 || at.rank != 4 || at.dims[3] != 2 || at.dims[0] != s.dims[0] ||
             copse__elements(s) == 0 || copse__elements(at) == 0 ||
             (uint64_t)s.dims[0] * s.dims[2] * s.dims[3] > EXACT_PLACES)
        copse__onnx_refuse(w, "a picture %s with a grid %s", COPSE_SHAPE_TEXT(s),
                           COPSE_SHAPE_TEXT(at));
    if (w->status != COPSE_OK)
        return;
    copse_tensor *places = copse__onnx_f32(w, grid);
    const uint32_t pixels = s.dims[2] * s.dims[3], each = at.dims[1] * at.dims[2];
    const struct axis u = axis_of(w, places, 0, s.dims[3], is_nearest),
                      v = axis_of(w, places, 1, s.dims[2], is_nearest);
    copse_tensor *table =
        copse_reshape(g, copse__onnx_last(w, x), COPSE_SHAPE(s.dims[0] * pixels, s.dims[1]));
    copse_tensor *first = first_pixels(w, s.dims[0], each, pixels), *sum = NULL;
    for (int i = 0; first && i < (is_nearest ? 1 : 4); i++) {
        copse_tensor *t = corner_pixels(g, table, first, &u, &v, i & 1, i >> 1);
        sum = sum ? copse_add(g, sum, t) : t;
    }
    if (sum)
        copse__onnx_set_last(
            w, 0, copse_reshape(g, sum, COPSE_SHAPE(s.dims[0], at.dims[1], at.dims[2], s.dims[1])));
}
