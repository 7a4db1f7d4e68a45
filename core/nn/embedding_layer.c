/* SPDX-License-Identifier: MIT */
/* Embedding: rows of a table by index; learned positions. */
#include "copse/ops.h"
#include "core/graph/graph.h"
#include "core/nn/layer.h"

enum { ROWS, WIDTH, INIT, SCALE, SPARSE };

static copse_status embedding_layer_infer(copse_layer *l, struct copse_flow *f)
{
    char text[96];
    if (l->value[ROWS].count == 0 && f->tokens == 0)
        return copse_layer_fail(
            l, COPSE_ERR_ARGUMENT,
            "`in` is the number of different tokens of the data, which has none; give "
            "a number");
    if (f->shape.rank + 2 > COPSE_MAX_RANK) /* one axis counts the examples */
        return copse_layer_fail(l, COPSE_ERR_SHAPE, "the input %s has no room for another axis",
                                copse__shape_text(f->shape, text));
    f->shape.dims[f->shape.rank++] = l->value[WIDTH].count;
    f->type = COPSE_F32;
    return COPSE_OK;
}

static copse_status embedding_layer_make(copse_layer *l, const struct copse_layer_maker *m)
{
    struct copse_variable_params p = {
        .shape = COPSE_SHAPE(l->value[ROWS].count ? l->value[ROWS].count : l->in.tokens,
                             l->value[WIDTH].count),
        .is_sparse = l->value[SPARSE].count != 0
    };
    copse__setting_initialize(l->value[INIT], COPSE_INIT_NORMAL, l->value[SCALE].number, &p);
    return copse__layer_variable(l, m, 0, "weight", &p);
}

static copse_tensor *embedding_layer_apply(const copse_layer *l, copse_graph *g,
                                           const copse_batch *in, copse_tensor *x)
{
    (void)in;
    return copse_gather(g, copse__layer_tensor(l, 0), x);
}

const struct copse_layer_kind copse__layer_embedding = {
    .name = "embedding",
    .setting = {
        [ROWS] = { .name = "ROWS", .form = COPSE_SETTING_TOKENS, .is_word = true, .is_required = true },
        [WIDTH] = { .name = "WIDTH", .form = COPSE_SETTING_COUNT, .is_word = true, .is_required = true },
        [INIT] = { .name = "init", .form = COPSE_SETTING_INITIALIZER },
        [SCALE] = { .name = "scale", .form = COPSE_SETTING_NUMBER, .low = 1e-30, .high = 1e30 },
        [SPARSE] = { .name = "sparse", .form = COPSE_SETTING_FLAG },
    },
    .takes = COPSE_I32,
    .infer = embedding_layer_infer,
    .make = embedding_layer_make,
    .apply = embedding_layer_apply,
};

copse_status copse_nn_embedding(copse_context *ctx, uint32_t rows, uint32_t width,
                                copse_layer **out)
{
    const struct copse_setting_value values[] = { { .count = rows }, { .count = width } };
    return copse__layer_create(ctx, &copse__layer_embedding, values, 2, out);
}

/* ---- learned positions ---- */

enum { POSITIONS_INIT, POSITIONS_SCALE };

static copse_status infer_positions(copse_layer *l, struct copse_flow *f)
{
    char text[96];
    if (f->shape.rank < 2 || copse__elements(f->shape) == 0)
        return copse_layer_fail(
            l, COPSE_ERR_SHAPE,
            "the input %s has no two last axes with elements, positions and width",
            copse__shape_text(f->shape, text));
    return COPSE_OK;
}

static copse_status make_positions(copse_layer *l, const struct copse_layer_maker *m)
{
    const copse_shape in = l->in.shape;
    struct copse_variable_params p = { .shape = COPSE_SHAPE(in.dims[in.rank - 2],
                                                            in.dims[in.rank - 1]) };
    copse__setting_initialize(l->value[POSITIONS_INIT], COPSE_INIT_NORMAL,
                              l->value[POSITIONS_SCALE].number, &p);
    return copse__layer_variable(l, m, 0, "weight", &p);
}

static copse_tensor *apply_positions(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                     copse_tensor *x)
{
    (void)in;
    return copse_add(g, x, copse__layer_tensor(l, 0));
}

const struct copse_layer_kind copse__layer_positions = {
    .name = "positions",
    .setting = {
        [POSITIONS_INIT] = { .name = "init", .form = COPSE_SETTING_INITIALIZER },
        [POSITIONS_SCALE] = { .name = "scale", .form = COPSE_SETTING_NUMBER, .low = 1e-30, .high = 1e30 },
    },
    .takes = COPSE_F32,
    .infer = infer_positions,
    .make = make_positions,
    .apply = apply_positions,
};
