/* SPDX-License-Identifier: MIT */
/* Batch norm: training normalises by the statistics of the global batch, over all replicas, and
   keeps moving averages of them; an evaluation, or a frozen layer, normalises by the averages. Features are the last
   axis. */
#include "copse/distribute/sync.h"
#include "copse/train/update.h"
#include "copse/trainer.h"
#include "core/graph/graph.h"
#include "core/nn/layer.h"

enum { MOMENTUM, EPSILON };
enum { SCALE, OFFSET, MEAN, VARIANCE };

static copse_status batch_norm_layer_infer(copse_layer *l, struct copse_flow *f)
{
    char text[96];
    if (f->shape.rank == 0 || copse__elements(f->shape) == 0)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "the input %s has no last axis with features to normalise",
                                copse__shape_text(f->shape, text));
    return COPSE_OK;
}

static copse_status batch_norm_layer_make(copse_layer *l, const struct copse_layer_maker *m)
{
    static const struct {
        const char *name;
        copse_initializer initializer;
    } parts[] = {
        [SCALE] = { "scale", COPSE_INIT_ONES },
        [OFFSET] = { "offset", COPSE_INIT_ZEROS },
        [MEAN] = { "mean", COPSE_INIT_ZEROS },
        [VARIANCE] = { "variance", COPSE_INIT_ONES },
    };
    const copse_shape in = l->in.shape;
    for (uint32_t i = 0; i < COPSE_COUNT(parts); i++) {
        const struct copse_variable_params p = {
            .shape = COPSE_SHAPE(in.dims[in.rank - 1]),
            .initializer = parts[i].initializer,
            .is_frozen = i >= MEAN,
            .aggregation =
                i >= MEAN ? COPSE_AGGREGATION_ONLY_FIRST_REPLICA : COPSE_AGGREGATION_NONE,
        };
        COPSE_TRY(copse__layer_variable(l, m, i, parts[i].name, &p));
    }
    return COPSE_OK;
}

/* old + (1 - momentum) (new - old): the same value on every replica. */
static void batch_norm_layer_update(const copse_layer *l, copse_graph *g, uint32_t i,
                                    copse_tensor *new)
{
    copse_tensor *old = copse__layer_tensor(l, i), *change;
    new = copse_reshape(g, new, copse_tensor_shape(old));
    change = copse_sub(g, new, old);
    change = copse_multiply_by(g, change, (float)(1.0 - (double)l->value[MOMENTUM].number));
    change = copse_add(g, old, change);
    copse_update(g, l->variable[i], change);
}

static copse_tensor *apply_training(const copse_layer *l, copse_graph *g, copse_tensor *x)
{
    static const uint32_t axes[COPSE_MAX_RANK] = { 0, 1, 2, 3, 4, 5 };
    copse_tensor *mean, *variance;
    const struct copse_batch_norm settings = {
        .gamma = copse__layer_tensor(l, SCALE),
        .beta = copse__layer_tensor(l, OFFSET),
        .epsilon = l->value[EPSILON].number,
        .mean = &mean,
        .variance = &variance,
    };
    copse_tensor *y = copse_sync_batch_norm(g, x, axes, copse_tensor_shape(x).rank - 1, &settings);
    if (copse__is_failed(y))
        return y;
    batch_norm_layer_update(l, g, MEAN, mean);
    batch_norm_layer_update(l, g, VARIANCE, variance);
    return y;
}

static copse_tensor *apply_averages(const copse_layer *l, copse_graph *g, copse_tensor *x)
{
    copse_tensor *small = copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)l->value[EPSILON].number);
    copse_tensor *factor = copse_add(g, copse__layer_tensor(l, VARIANCE), small);
    factor = copse_rsqrt(g, factor);
    copse_tensor *h = copse_sub(g, x, copse__layer_tensor(l, MEAN));
    h = copse_mul(g, h, factor);
    h = copse_mul(g, h, copse__layer_tensor(l, SCALE));
    return copse_add(g, h, copse__layer_tensor(l, OFFSET));
}

/* As `trainable = False` of Keras: a frozen layer does not depend on the batch, and keeps its
   averages. */
static bool batch_norm_layer_is_frozen(const copse_layer *l, const copse_graph *g)
{
    return g->freezes && g->freezes(g->freezer, l->variable[SCALE]) &&
           g->freezes(g->freezer, l->variable[OFFSET]);
}

static copse_tensor *batch_norm_layer_apply(const copse_layer *l, copse_graph *g,
                                            const copse_batch *in, copse_tensor *x)
{
    return in && in->is_training && !batch_norm_layer_is_frozen(l, g) ? apply_training(l, g, x)
                                                                      : apply_averages(l, g, x);
}

const struct copse_layer_kind copse__layer_batch_norm = {
    .name = "batch_norm",
    .setting = {
        [MOMENTUM] = { .name = "momentum", .form = COPSE_SETTING_NUMBER, .high = 1.0, .normal = { .number = 0.9f } },
        [EPSILON] = { .name = "epsilon", .form = COPSE_SETTING_NUMBER, .low = 1.18e-38, .high = 1e30,
                      .normal = { .number = 1e-5f } },
    },
    .takes = COPSE_F32,
    .infer = batch_norm_layer_infer,
    .make = batch_norm_layer_make,
    .apply = batch_norm_layer_apply,
};

copse_status copse_nn_batch_norm(copse_context *ctx, copse_layer **out)
{
    return copse__layer_create(ctx, &copse__layer_batch_norm, NULL, 0, out);
}
