/* SPDX-License-Identifier: MIT */
/* Cases of resizing. Nearest elements move, so their results are exact. */
#include <math.h>

#include "copse/ops/resize.h"
#include "prover/cases/cases.h"

struct wanted {
    uint32_t size[2];
    copse_resize_kind kind;
};

static copse_tensor *resize_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct wanted *w = user;
    return copse_resize(g, in[0], w->size, w->kind);
}

static copse_tensor *build_shuffle(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_pixel_shuffle(g, in[0], *(const uint32_t *)user);
}

static copse_tensor *build_unshuffle(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_pixel_unshuffle(g, in[0], *(const uint32_t *)user);
}

static const struct wanted three = { { 3, 3 }, COPSE_RESIZE_LINEAR };
static const uint32_t factor = 2, factor3 = 3;

static const struct copse_case_op ops[] = {
    { .name = "resize",
      .accuracy = COPSE_ACCURACY_resize,
      .call = resize_build,
      .user = &three,
      .in = { F32_OF(2, 2, 2, 2) },
      .in_count = 1 },
    { .name = "pixel_shuffle",
      .accuracy = COPSE_ACCURACY_exact,
      .takes_any_type = true,
      .call = build_shuffle,
      .user = &factor,
      .in = { F32_OF(2, 2, 2, 4) },
      .in_count = 1 },
    { .name = "pixel_unshuffle",
      .accuracy = COPSE_ACCURACY_exact,
      .takes_any_type = true,
      .call = build_unshuffle,
      .user = &factor,
      .in = { F32_OF(2, 2, 2, 2) },
      .in_count = 1 },
};

static const struct wanted doubled = { { 56, 56 }, COPSE_RESIZE_LINEAR };
static const struct copse_case speeds[] = {
    { .op = "resize",
      .name = "32 x 28 x 28 x 32 to 56 x 56",
      .build = resize_build,
      .user = &doubled,
      .in = { F32_OF(32, 28, 28, 32) },
      .in_count = 1,
      .bytes = 4.0 * 32 * 32 * (28 * 28 + 2 * 28 * 56 + 56 * 56) },
};

static void resize_refusals(struct copse_refusals *r)
{
    static const uint32_t two[] = { 2, 2 }, none[] = { 2, 0 }, large[] = { 16385, 2 };
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 5, 6, 8));
    copse_tensor *i = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(2, 5, 6, 8));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4));
    REFUSES(r, SHAPE, "resize: operand i32[2, 5, 6, 8]: expected f32 [n, h, w, c] or [n, w, c]",
            copse_resize(g, i, two, COPSE_RESIZE_LINEAR));
    REFUSES(r, SHAPE, "expected f32 [n, h, w, c] or [n, w, c]",
            copse_resize(g, v, two, COPSE_RESIZE_LINEAR));
    REFUSES(r, SHAPE, "the result of 0 elements: expected 1 to 16384",
            copse_resize(g, x, none, COPSE_RESIZE_AREA));
    REFUSES(r, SHAPE, "the result of 16385 elements", copse_resize(g, x, large, COPSE_RESIZE_AREA));
    REFUSES(r, ARGUMENT, "resize: unknown kind 3", copse_resize(g, x, two, (copse_resize_kind)3));
    REFUSES(r, ARGUMENT, "NULL", copse_resize(g, x, NULL, COPSE_RESIZE_AREA));
    REFUSES(r, SHAPE, "pixel_shuffle: operand f32[2, 5, 6, 8] and r = 3: expected [n, h, w, c r r]",
            copse_pixel_shuffle(g, x, 3));
    REFUSES(r, SHAPE, "r = 65536", copse_pixel_shuffle(g, x, 65536));
    REFUSES(r, SHAPE, "r = 0", copse_pixel_unshuffle(g, x, 0));
    REFUSES(r, SHAPE,
            "pixel_unshuffle: operand f32[2, 5, 6, 8] and r = 2: expected [n, h r, w r, c]",
            copse_pixel_unshuffle(g, x, 2));
}

#define ONE(label, dims, kind_, h, w, ...)                                \
    {                                                                     \
        .op = "resize", .name = label, .build = resize_build,             \
        .user = &(const struct wanted){ { h, w }, COPSE_RESIZE_##kind_ }, \
        ONE_INPUT(FILL(NORMAL, UNWRAP dims)), __VA_ARGS__                 \
    }
#define MEANS .forward = { .ulp = 3, .ratio = 8 }, .backward = { .ulp = 6, .ratio = 8 }
#define ROW(label, dims, h, w, ...)                                                       \
    ONE(label ", nearest", dims, NEAREST, h, w, .backward = { .ratio = 4 }, __VA_ARGS__), \
        ONE(label ", linear", dims, LINEAR, h, w, MEANS, __VA_ARGS__),                    \
        ONE(label ", area", dims, AREA, h, w, MEANS, __VA_ARGS__)
#define STATED(label, fill_, dims, kind_, h, w, want_, no_gradient)                          \
    {                                                                                        \
        .op = "resize", .name = label, .build = resize_build,                                \
        .user = &(const struct wanted){ { h, w }, COPSE_RESIZE_##kind_ },                    \
        ONE_INPUT(VALUES(fill_, UNWRAP dims)), .want = want_, MEANS, QUICK, .is_poor = true, \
        .has_no_gradient = no_gradient                                                       \
    }

static const double line[] = { 1, 2, 4, 8 };
static const double nearest8[] = { 1, 1, 2, 2, 4, 4, 8, 8 };
static const double nearest3[] = { 1, 2, 4 };
static const double linear8[] = { 1, 1.25, 1.75, 2.5, 3.5, 5, 7, 8 };
static const double linear2[] = { 1.5, 6 };
static const double area2[] = { 1.5, 6 };
static const double area8[] = { 1, 1, 2, 2, 4, 4, 8, 8 };
static const double square[] = { 0, 4, 8, 12 };
static const double linear33[] = { 0, 2, 4, 4, 6, 8, 8, 10, 12 };
static const double special[] = { NAN, 1, INFINITY, -INFINITY, 2 };
static const double special_want[] = { NAN, NAN, INFINITY, INFINITY, NAN, -INFINITY, 2 };
static const double channels[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
static const double shuffled[] = { 0, 1, 4, 5, 2, 3, 6, 7 };

static const struct copse_case cases[] = {
    ROW("5 x 6 to 7 x 9", (DIMS(3, 5, 6, 5)), 7, 9, QUICK),
    ROW("9 x 8 to 4 x 3", (DIMS(2, 9, 8, 3)), 4, 3, QUICK),
    ROW("one axis", (DIMS(2, 6, 7, 3)), 6, 13, STANDARD),
    ROW("to one element", (DIMS(2, 7, 6, 3)), 1, 1, .is_poor = true, STANDARD),
    ROW("from one element", (DIMS(2, 1, 1, 3)), 5, 4, STANDARD),
    ROW("the same size", (DIMS(2, 4, 5, 2)), 4, 5, .is_poor = true, STANDARD),
    ROW("sequence", (DIMS(3, 20, 4)), 33, 0, STANDARD),
    ROW("by 40", (DIMS(1, 2, 3, 2)), 80, 120, STANDARD),
    ROW("to a 40th", (DIMS(1, 120, 80, 2)), 3, 2, .is_poor = true, STANDARD),
    ROW("no images", (DIMS(0, 4, 4, 3)), 8, 2, .is_poor = true, STANDARD),
    ROW("16,384 elements", (DIMS(1, 5, 1)), 16384, 0, FULL),
    STATED("stated result, nearest", line, (DIMS(1, 4, 1)), NEAREST, 8, 0, nearest8, false),
    STATED("stated result, nearest, fewer", line, (DIMS(1, 4, 1)), NEAREST, 3, 0, nearest3, false),
    STATED("stated result, linear", line, (DIMS(1, 4, 1)), LINEAR, 8, 0, linear8, false),
    STATED("stated result, linear, fewer", line, (DIMS(1, 4, 1)), LINEAR, 2, 0, linear2, false),
    STATED("stated result, area", line, (DIMS(1, 4, 1)), AREA, 2, 0, area2, false),
    STATED("stated result, area, more", line, (DIMS(1, 4, 1)), AREA, 8, 0, area8, false),
    STATED("stated result, linear, two axes", square, (DIMS(1, 2, 2, 1)), LINEAR, 3, 3, linear33,
           false),
    STATED("stated result, linear: NaN and infinities", special, (DIMS(1, 5, 1)), LINEAR, 7, 0,
           special_want, true),
    { .op = "pixel_shuffle",
      .name = "by 2",
      .build = build_shuffle,
      .user = &factor,
      ONE_INPUT(FILL(NORMAL, DIMS(2, 3, 5, 12))),
      QUICK },
    { .op = "pixel_shuffle",
      .name = "by 3",
      .build = build_shuffle,
      .user = &factor3,
      ONE_INPUT(FILL(NORMAL, DIMS(2, 3, 5, 18))),
      STANDARD },
    { .op = "pixel_shuffle",
      .name = "stated result",
      .build = build_shuffle,
      .user = &factor,
      ONE_INPUT(VALUES(channels, DIMS(1, 1, 2, 4))),
      .want = shuffled,
      .is_poor = true,
      QUICK },
    { .op = "pixel_unshuffle",
      .name = "by 2",
      .build = build_unshuffle,
      .user = &factor,
      ONE_INPUT(FILL(NORMAL, DIMS(2, 6, 4, 5))),
      QUICK },
    { .op = "pixel_unshuffle",
      .name = "stated result",
      .build = build_unshuffle,
      .user = &factor,
      ONE_INPUT(VALUES(shuffled, DIMS(1, 2, 4, 1))),
      .want = channels,
      .is_poor = true,
      QUICK },
};

COPSE_CASE_TABLE(resize, OPS, SPEEDS, .refusals = resize_refusals)
