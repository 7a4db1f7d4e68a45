/* SPDX-License-Identifier: MIT */
/* Cases of the ops that move elements: bit for bit, for both element types. Derivatives also move
   elements, or (broadcast_to) are sums of whole numbers. */
#include <math.h>

#include "prover/cases/cases.h"

struct move {
    copse_shape to;
    uint32_t a[COPSE_MAX_RANK], b[COPSE_MAX_RANK]; /* order; start and size */
    uint32_t axis;
    size_t count;
    double value;
};

static copse_tensor *build_reshape(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_reshape(g, in[0], ((const struct move *)user)->to);
}

static copse_tensor *build_transpose(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_transpose(g, in[0], ((const struct move *)user)->a);
}

static copse_tensor *build_slice(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct move *m = user;
    return copse_slice(g, in[0], m->a, m->b);
}

static copse_tensor *build_broadcast_to(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_broadcast_to(g, in[0], ((const struct move *)user)->to);
}

static copse_tensor *build_concat(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct move *m = user;
    return copse_concat(g, in, m->count, m->axis);
}

static copse_tensor *build_pad(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct move *m = user;
    return copse_pad(g, in[0], m->a, m->b, m->value);
}

/* The parts, joined from the last to the first. */
static copse_tensor *build_split(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct move *m = user;
    copse_tensor *parts[COPSE_MAX_RANK], *back[COPSE_MAX_RANK];
    copse_split(g, in[0], m->axis, m->b[0] ? m->b : NULL, m->count, parts);
    for (size_t i = 0; i < m->count; i++)
        back[i] = parts[m->count - 1 - i];
    return copse_concat(g, back, m->count, m->axis);
}

static copse_tensor *build_stack(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct move *m = user;
    return copse_stack(g, in, m->count, m->axis);
}

/* ---- the ops ---- */

static copse_tensor *random_pad(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_pad(g, in[0], (const uint32_t[]){ 1, 0, 2 }, (const uint32_t[]){ 0, 1, 1 }, 0.5);
}

static copse_tensor *random_transpose(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_transpose(g, in[0],
                           in[0]->shape.rank == 2 ? (uint32_t[]){ 1, 0 } : (uint32_t[]){ 2, 0, 1 });
}

static copse_tensor *random_concat(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_concat(g, (copse_tensor *[]){ in[0], in[0] }, 2, in[0]->shape.rank - 1);
}

static copse_tensor *random_slice(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_shape part = in[0]->shape;
    const uint32_t start[COPSE_MAX_RANK] = { part.dims[0] / 2 };
    (void)user;
    part.dims[0] -= start[0];
    return copse_slice(g, in[0], start, part.dims);
}

static copse_tensor *random_reshape(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const copse_shape s = in[0]->shape;
    (void)user;
    return copse_reshape(g, in[0],
                         s.rank == 2 ? COPSE_SHAPE(s.dims[0], 1, s.dims[1])
                                     : COPSE_SHAPE(s.dims[0] * s.dims[1], s.dims[2]));
}

#define OP(function, random_, count, ...)                                            \
    {                                                                                \
        .name = #function, .accuracy = COPSE_ACCURACY_exact, .takes_any_type = true, \
        .call = build_##function, .user = &(const struct move){ __VA_ARGS__ },       \
        .in = { F32_OF(2, 2), F32_OF(2, 2) }, .in_count = count, .random = random_   \
    }
static const struct copse_case_op ops[] = {
    OP(reshape, random_reshape, 1, .to = DIMS(4)),
    OP(transpose, random_transpose, 1, .a = { 1, 0 }),
    OP(slice, random_slice, 1, .a = { 0, 1 }, .b = { 1, 1 }),
    OP(broadcast_to, NULL, 1, .to = DIMS(3, 2, 2)),
    OP(concat, random_concat, 2, .axis = 0, .count = 2),
    OP(pad, random_pad, 1, .a = { 0, 1 }, .b = { 1, 0 }),
    OP(split, NULL, 1, .axis = 1, .count = 2),
    OP(stack, NULL, 2, .axis = 1, .count = 2),
};

static const struct copse_case speeds[] = {
    { .op = "transpose",
      .name = OF_SQUARE,
      .build = build_transpose,
      .user = &(const struct move){ .a = { 1, 0 } },
      .in = { SQUARE },
      .in_count = 1,
      .bytes = 2 * MATRIX },
    { .op = "broadcast_to",
      .name = OF_SQUARE,
      .build = build_broadcast_to,
      .user = &(const struct move){ .to = DIMS(SIDE, SIDE) },
      .in = { F32_OF(1, SIDE) },
      .in_count = 1,
      .bytes = MATRIX },
};

/* The first part that is no failed tensor, else a failed tensor. */
static copse_tensor *refuse_split(copse_graph *g, copse_tensor *x, uint32_t axis,
                                  const uint32_t *sizes, size_t count)
{
    copse_tensor *parts[4] = { x, x, x, x };
    copse_split(g, x, axis, sizes, count, parts);
    for (size_t i = 0; i < count; i++)
        if (!copse__is_failed(parts[i]))
            return parts[i];
    return copse__failed(g, COPSE_OK);
}

static void shapes_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    const uint32_t twice[] = { 0, 0 }, beyond[] = { 2, 0 }, start[] = { 0, 3 }, size[] = { 4, 4 };
    const copse_shape high = { COPSE_MAX_RANK + 1, { 4 } };
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5));
    copse_tensor *e = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 0));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4, 6));
    REFUSES(r, SHAPE, "reshape: operand f32[4, 6]", copse_reshape(g, x, COPSE_SHAPE(5, 5)));
    REFUSES(r, ARGUMENT, "rank 7", copse_reshape(g, x, high));
    REFUSES(r, SHAPE, "order[1] is 0", copse_transpose(g, x, twice));
    REFUSES(r, SHAPE, "order[0] is 2", copse_transpose(g, x, beyond));
    REFUSES(r, ARGUMENT, "order is NULL", copse_transpose(g, x, NULL));
    REFUSES(r, SHAPE, "4 elements from 3 on exceed axis 1", copse_slice(g, x, start, size));
    REFUSES(r, SHAPE, "exceed axis 0",
            copse_slice(g, x, (const uint32_t[]){ UINT32_MAX, 0 }, size));
    REFUSES(r, ARGUMENT, "slice", copse_slice(g, x, NULL, size));
    REFUSES(r, ARGUMENT, "slice", copse_slice(g, x, start, NULL));
    REFUSES(r, SHAPE, "concat: operands", copse_concat(g, (copse_tensor *[]){ x, v }, 2, 0));
    REFUSES(r, SHAPE, "axis 0", copse_concat(g, (copse_tensor *[]){ x, e }, 2, 0));
    REFUSES(r, SHAPE, "concat", copse_concat(g, (copse_tensor *[]){ x, n }, 2, 0));
    REFUSES(r, SHAPE, "no axis 2", copse_concat(g, (copse_tensor *[]){ x, x }, 2, 2));
    REFUSES(r, ARGUMENT, "at least one", copse_concat(g, NULL, 0, 0));
    REFUSES(r, ARGUMENT, "", copse_concat(g, NULL, 2, 0));
    REFUSES(r, ARGUMENT, "at least one", copse_concat(g, &x, 0, 0));
    REFUSES(r, SHAPE, "[5] does not broadcast to [5, 4]",
            copse_broadcast_to(g, v, COPSE_SHAPE(5, 4)));
    REFUSES(r, SHAPE, "does not broadcast", copse_broadcast_to(g, x, COPSE_SHAPE(6)));
    REFUSES(r, ARGUMENT, "pad: before or after is NULL", copse_pad(g, x, NULL, size, 0));
    REFUSES(r, ARGUMENT, "pad: before or after is NULL", copse_pad(g, x, start, NULL, 0));
    REFUSES(r, SHAPE, "pad: operand [4, 6]: axis 0 becomes too long",
            copse_pad(g, x, (const uint32_t[]){ UINT32_MAX, 0 }, start, 0));
    REFUSES(r, SHAPE, "split: operand [4, 6] has no axis 2", refuse_split(g, x, 2, NULL, 1));
    REFUSES(r, SHAPE, "axis 1 does not split into 4 equal parts", refuse_split(g, x, 1, NULL, 4));
    REFUSES(r, SHAPE, "the sizes sum to 8, axis 1 has 6", refuse_split(g, x, 1, size, 2));
    REFUSES(r, ARGUMENT, "at least one part", refuse_split(g, x, 1, size, 0));
    REFUSES(r, SHAPE, "stack: operands f32[4, 6] and f32[5]: expected one type and one shape",
            copse_stack(g, (copse_tensor *[]){ x, v }, 2, 0));
    REFUSES(r, SHAPE, "f32[4, 6] and i32[4, 6]", copse_stack(g, (copse_tensor *[]){ x, n }, 2, 0));
    REFUSES(r, SHAPE, "a new axis 3 needs a rank", copse_stack(g, &x, 1, 3));
    REFUSES(r, ARGUMENT, "stack: operand 1 is NULL",
            copse_stack(g, (copse_tensor *[]){ x, NULL }, 2, 0));
    REFUSES(r, ARGUMENT, "at least one", copse_stack(g, &x, 0, 0));
}

/* ---- the cases ---- */

#define ROW(function, label, move_, input, ...)                                              \
    {                                                                                        \
        .op = #function, .name = label, .build = build_##function,                           \
        .user = &(const struct move){ UNWRAP move_ }, .in = { UNWRAP input }, .in_count = 1, \
        .skips_differences = true, __VA_ARGS__                                               \
    }
#define BOTH(function, label, move_, shape, ...)                     \
    ROW(function, label, move_, FILL(INTEGERS, shape), __VA_ARGS__), \
        ROW(function, label ", i32", move_, I32(shape), __VA_ARGS__)

#define CONCAT_ROW(label, axis_, x, y, z, ...)                                            \
    {                                                                                     \
        .op = "concat", .name = label, .build = build_concat,                             \
        .user = &(const struct move){ .axis = axis_, .count = 3 },                        \
        .in = { UNWRAP x, UNWRAP y, UNWRAP z }, .in_count = 3, .skips_differences = true, \
        __VA_ARGS__                                                                       \
    }
#define STACK_ROW(label, axis_, fill, shape_, ...)                             \
    {                                                                          \
        .op = "stack", .name = label, .build = build_stack,                    \
        .user = &(const struct move){ .axis = axis_, .count = 3 },             \
        THREE_INPUTS(fill(DIMS shape_), fill(DIMS shape_), fill(DIMS shape_)), \
        .skips_differences = true, __VA_ARGS__                                 \
    }
#define COUNTED(...) VALUES(counted, __VA_ARGS__)
#define WHOLES(...)  FILL(INTEGERS, __VA_ARGS__)
#define STACK(label, axis, shape, ...)                  \
    STACK_ROW(label, axis, WHOLES, shape, __VA_ARGS__), \
        STACK_ROW(label ", i32", axis, I32, shape, __VA_ARGS__)
#define I32(...) I32_UNIFORM(-1000000000, 1000000000, __VA_ARGS__)
#define CONCAT(label, axis, x, y, z, ...)                                   \
    CONCAT_ROW(label, axis, FILL(INTEGERS, DIMS x), FILL(INTEGERS, DIMS y), \
               FILL(INTEGERS, DIMS z), __VA_ARGS__),                        \
        CONCAT_ROW(label ", i32", axis, I32(DIMS x), I32(DIMS y), I32(DIMS z), __VA_ARGS__)

static const double counted[] = { 1, 2, 3, 4, 5, 6 };
static const double padded[] = { 9, 9, 9, 9, 9, 1, 2, 3, 9, 4, 5, 6 };
static const double turned[] = { 3, 1, 2, 6, 4, 5 };
static const double stacked[] = { 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6 };
static const double side[] = { 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6 };

static const struct copse_case cases[] = {
    BOTH(reshape, "other axes", (.to = DIMS(4, 5, 3)), DIMS(6, 10), QUICK),
    BOTH(reshape, "axes of 1 to a scalar", (.to = NO_DIMS), DIMS(1, 1), STANDARD),
    BOTH(reshape, "a scalar to six axes", (.to = DIMS(1, 1, 1, 1, 1, 1)), NO_DIMS, STANDARD),
    BOTH(reshape, "the same shape", (.to = DIMS(6, 10)), DIMS(6, 10), STANDARD),
    BOTH(reshape, "nothing", (.to = DIMS(0)), DIMS(0, 3), STANDARD),

    BOTH(transpose, "a matrix past every tile", (.a = { 1, 0 }), DIMS(37, 53), QUICK),
    BOTH(transpose, "three axes turned", (.a = { 2, 0, 1 }), DIMS(3, 4, 5), STANDARD),
    BOTH(transpose, "the middle of four", (.a = { 0, 2, 1, 3 }), DIMS(2, 3, 4, 5), STANDARD),
    BOTH(transpose, "six axes", (.a = { 5, 3, 1, 0, 4, 2 }), DIMS(2, 3, 2, 3, 2, 3), STANDARD),
    BOTH(transpose, "an axis of 1", (.a = { 1, 2, 0 }), DIMS(3, 1, 5), STANDARD),
    BOTH(transpose, "in its place", (.a = { 0, 1 }), DIMS(7, 5), STANDARD),
    BOTH(transpose, "a scalar", (.a = { 0 }), NO_DIMS, STANDARD),
    BOTH(transpose, "nothing", (.a = { 1, 0 }), DIMS(0, 5), STANDARD),
    BOTH(transpose, "a square of 257", (.a = { 1, 0 }), DIMS(257, 257), STANDARD),
    BOTH(transpose, "a long row", (.a = { 1, 0 }), DIMS(1, 65537), FULL),
    ROW(transpose, "special values keep their bits", (.a = { 1, 0 }), FILL(SPECIAL, DIMS(2, 94)),
        .has_no_gradient = true, STANDARD),
    ROW(transpose, "bit patterns", (.a = { 1, 0 }), FILL(PATTERNS, DIMS(64, 1024)),
        .has_no_gradient = true, STANDARD),

    BOTH(slice, "a block of a matrix", (.a = { 2, 3 }, .b = { 5, 11 }), DIMS(9, 20), QUICK),
    BOTH(slice, "the last of the middle axis", (.a = { 0, 4, 0 }, .b = { 4, 1, 6 }), DIMS(4, 5, 6),
         STANDARD),
    BOTH(slice, "six axes", (.a = { 1, 0, 1, 0, 1, 2 }, .b = { 1, 3, 1, 2, 1, 1 }),
         DIMS(2, 3, 2, 3, 2, 3), STANDARD, .is_poor = true),
    BOTH(slice, "rows longer than a group", (.a = { 1, 1 }, .b = { 2, 257 }), DIMS(4, 260),
         STANDARD),
    BOTH(slice, "nothing, at the end", (.a = { 9, 0 }, .b = { 0, 20 }), DIMS(9, 20), STANDARD),
    BOTH(slice, "everything", (.a = { 0, 0 }, .b = { 9, 20 }), DIMS(9, 20), STANDARD),
    BOTH(slice, "a scalar", (.a = { 0 }), NO_DIMS, STANDARD),

    BOTH(broadcast_to, "a row", (.to = DIMS(5, 70)), DIMS(70), QUICK),
    BOTH(broadcast_to, "a scalar", (.to = DIMS(5, 70)), NO_DIMS, STANDARD, .is_poor = true),
    BOTH(broadcast_to, "a row of rank 2", (.to = DIMS(5, 70)), DIMS(1, 70), STANDARD),
    BOTH(broadcast_to, "a column to three axes", (.to = DIMS(3, 5, 7)), DIMS(5, 1), STANDARD),
    BOTH(broadcast_to, "six axes in turn", (.to = DIMS(2, 3, 2, 3, 2, 3)), DIMS(2, 1, 2, 1, 2, 1),
         STANDARD),
    BOTH(broadcast_to, "the same shape", (.to = DIMS(5, 7)), DIMS(5, 7), STANDARD),
    BOTH(broadcast_to, "more rows than a chunk", (.to = DIMS(4097, 3)), DIMS(3), STANDARD),
    BOTH(broadcast_to, "nothing", (.to = DIMS(0, 7)), DIMS(1), STANDARD),

    CONCAT("columns", 1, (3, 4), (3, 1), (3, 7), QUICK),
    CONCAT("rows, some empty", 0, (3, 4), (0, 4), (300, 4), STANDARD),
    CONCAT("the middle axis", 1, (2, 3, 4), (2, 5, 4), (2, 1, 4), STANDARD),
    CONCAT("rows longer than a group", 1, (3, 257), (3, 2), (3, 255), STANDARD),
    CONCAT("six axes", 3, (2, 1, 2, 1, 2, 3), (2, 1, 2, 3, 2, 3), (2, 1, 2, 2, 2, 3), FULL),
    CONCAT("nothing", 0, (0), (0), (0), STANDARD),
    ROW(pad, "stated", (.a = { 1, 1 }, .b = { 0, 0 }, .value = 9), VALUES(counted, DIMS(2, 3)),
        .want = padded, QUICK),
    ROW(split, "stated: parts of 2 and 1, the last one first",
        (.axis = 1, .count = 2, .b = { 2, 1 }), VALUES(counted, DIMS(2, 3)), .want = turned, QUICK),
    STACK_ROW("stated: the first axis", 0, COUNTED, (2, 3), .want = stacked, QUICK),
    STACK_ROW("stated: the last axis", 2, COUNTED, (2, 3), .want = side, QUICK),
    BOTH(pad, "a frame", (.a = { 1, 2 }, .b = { 3, 0 }, .value = 2.5), DIMS(5, 11), QUICK),
    BOTH(pad, "nothing to add", (.value = 1), DIMS(5, 7), STANDARD),
    BOTH(pad, "a scalar", (.value = 1), NO_DIMS, STANDARD, .is_poor = true),
    BOTH(pad, "nothing, to a block", (.a = { 2, 1 }, .b = { 1, 0 }, .value = -3), DIMS(0, 4),
         STANDARD, .is_poor = true),
    BOTH(pad, "six axes", (.a = { 1, 0, 1, 0, 1, 2 }, .b = { 0, 1, 0, 1, 0, 0 }),
         DIMS(2, 3, 2, 3, 2, 3), STANDARD, .is_poor = true),
    BOTH(pad, "rows longer than a group", (.a = { 0, 250 }, .b = { 1, 10 }, .value = 1),
         DIMS(4, 260), STANDARD),
    BOTH(pad, "more than 65,535 groups", (.a = { 1, 0 }, .b = { 0, 1 }), DIMS(65537, 257), FULL),
    BOTH(split, "three equal parts", (.axis = 1, .count = 3), DIMS(5, 12), QUICK),
    BOTH(split, "sizes", (.axis = 0, .count = 3, .b = { 2, 0, 7 }), DIMS(9, 4), STANDARD),
    BOTH(split, "one part", (.axis = 2, .count = 1), DIMS(2, 3, 4), STANDARD),
    BOTH(split, "nothing", (.axis = 1, .count = 2), DIMS(3, 0), STANDARD),
    STACK("a new first axis", 0, (5, 7), QUICK),
    STACK("a new last axis", 2, (5, 7), STANDARD),
    STACK("scalars of one axis", 1, (4), STANDARD),
    STACK("rows longer than a group", 1, (3, 257), STANDARD),
    STACK("nothing", 0, (0, 2), STANDARD),
    ROW(concat, "one tensor", (.axis = 0, .count = 1), FILL(NORMAL, DIMS(3)), STANDARD),
};

COPSE_CASE_TABLE(shapes, OPS, SPEEDS, .refusals = shapes_refusals)
