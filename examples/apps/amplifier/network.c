/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "copse/ops/conv.h"
#include "copse/ops/gated.h"

#include "network.h"

/* ---- variables ---- */

struct builder {
    copse_strategy *st;
    uint64_t seed;
    float dry_scale; /* of the weights of the dry signal */
    copse_status status;
};

static void make_part(struct builder *b, struct part *p, const char *name, int layer,
                      copse_shape shape)
{
    char full[40];
    const uint32_t *dims = shape.dims;
    const struct copse_variable_params params = {
        .name = full, .shape = shape, .seed = b->seed, .scale = dims[0] == 1 ? b->dry_scale : 0
    };
    snprintf(full, sizeof full, layer ? "layer%d.%s" : "%.0d%s", layer, name);
    *p = (struct part){ .taps = shape.rank > 2 ? dims[0] : 1,
                        .in = shape.rank > 1 ? dims[shape.rank - 2] : 1,
                        .out = dims[shape.rank - 1] };
    if (!b->status)
        b->status = copse_variable_create(b->st, &params, &p->v);
}

copse_status network_build(copse_strategy *st, uint64_t seed, double level, struct network *n)
{
    struct builder b = { .st = st, .seed = seed, .dry_scale = (float)(1 / level) };
    make_part(&b, &n->rechannel, "rechannel", 0, COPSE_SHAPE(1, CHANNELS));
    for (int i = 0; i < LAYERS; i++) {
        struct layer *l = &n->layers[i];
        make_part(&b, &l->conv, "conv", i + 1, COPSE_SHAPE(TAPS, CHANNELS, 2 * CHANNELS));
        make_part(&b, &l->conv_bias, "conv_bias", i + 1, COPSE_SHAPE(2 * CHANNELS));
        make_part(&b, &l->mix, "mix", i + 1, COPSE_SHAPE(1, 2 * CHANNELS));
        l->out = (struct part){ .taps = 1, .in = CHANNELS, .out = CHANNELS };
        l->out_bias = (struct part){ .taps = 1, .in = 1, .out = CHANNELS };
        if (i + 1 < LAYERS) { /* after the last layer no output needs them */
            make_part(&b, &l->out, "out", i + 1, COPSE_SHAPE(CHANNELS, CHANNELS));
            make_part(&b, &l->out_bias, "out_bias", i + 1, COPSE_SHAPE(CHANNELS));
        }
    }
    make_part(&b, &n->head, "head", 0, COPSE_SHAPE(CHANNELS, 1));
    make_part(&b, &n->head_bias, "head_bias", 0, COPSE_SHAPE(1));
    return b.status;
}

copse_status network_parts(struct network *n, void *user,
                           copse_status (*each)(void *user, struct part *p))
{
    COPSE_TRY(each(user, &n->rechannel));
    for (int i = 0; i < LAYERS; i++) {
        struct layer *l = &n->layers[i];
        struct part *parts[] = { &l->conv, &l->conv_bias, &l->mix, &l->out, &l->out_bias };
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
            COPSE_TRY(each(user, parts[k]));
    }
    COPSE_TRY(each(user, &n->head));
    return each(user, &n->head_bias);
}

/* ---- the network ---- */

static copse_tensor *use(const struct part *p)
{
    return copse_variable_tensor(p->v);
}

/* The last `width` positions of axis 1. */
static copse_tensor *last_of(copse_graph *g, copse_tensor *x, uint32_t width)
{
    copse_shape s = copse_tensor_shape(x);
    uint32_t start[3] = { 0, 0, 0 };
    if (s.dims[1] == width)
        return x;
    start[1] = s.dims[1] - width;
    s.dims[1] = width;
    return copse_slice(g, x, start, s.dims);
}

/* x [n, FIELD - 1 + samples] becomes y [n, samples]. */
static copse_tensor *apply_network(copse_graph *g, const struct network *n, copse_tensor *x)
{
    const copse_shape s = copse_tensor_shape(x);
    const uint32_t samples = s.dims[1] - (FIELD - 1);
    copse_tensor *dry = copse_reshape(g, x, COPSE_SHAPE(s.dims[0], s.dims[1], 1));
    copse_tensor *y = copse_dense(g, dry, use(&n->rechannel), NULL, COPSE_LINEAR), *sum = NULL;
    uint32_t width = s.dims[1];
    for (uint32_t i = 0; i < LAYERS; i++) {
        const struct layer *l = &n->layers[i];
        const struct copse_conv_params how = { .dilation = { 1u << i } };
        copse_tensor *half[2];
        width -= (TAPS - 1u) << i;
        copse_tensor *z = copse_conv(g, y, use(&l->conv), use(&l->conv_bias), &how);
        z = copse_add(g, z,
                      copse_dense(g, last_of(g, dry, width), use(&l->mix), NULL, COPSE_LINEAR));
        copse_split(g, z, 2, NULL, 2, half);
        z = copse_glu(g, half[1], copse_tanh(g, half[0]), COPSE_SIGMOID);
        copse_tensor *heard = last_of(g, z, samples);
        sum = sum ? copse_add(g, sum, heard) : heard;
        if (i + 1 < LAYERS)
            y = copse_add(g, last_of(g, y, width),
                          copse_dense(g, z, use(&l->out), use(&l->out_bias), COPSE_LINEAR));
    }
    y = copse_dense(g, sum, use(&n->head), use(&n->head_bias), COPSE_LINEAR);
    return copse_reshape(g, y, COPSE_SHAPE(s.dims[0], samples));
}

copse_tensor *network_predict(copse_graph *g, const copse_batch *in, void *network)
{
    const struct network *n = network;
    return copse_multiply_by(g, apply_network(g, n, copse_input(in, "dry")), n->scale);
}

/* ---- the loss ---- */

static copse_tensor *mean_of(copse_graph *g, copse_tensor *x)
{
    return copse_mean(g, x, NULL, 0, false);
}

static copse_tensor *emphasise(copse_graph *g, copse_tensor *x)
{
    const copse_shape s = copse_tensor_shape(x);
    const uint32_t width = s.dims[1] - 1, start[] = { 0, 0 }, size[] = { s.dims[0], width };
    copse_tensor *before = copse_slice(g, x, start, size);
    return copse_sub(g, last_of(g, x, width), copse_multiply_by(g, before, EMPHASIS));
}

/* [size, size / 2 + 1]: cosines or sines of the discrete Fourier transform, times a Hann window. */
static copse_tensor *make_basis(copse_graph *g, uint32_t size, bool is_sine)
{
    const uint32_t bins = size / 2 + 1;
    const double turn = 2 * 3.14159265358979323846 / size;
    float *values = malloc((size_t)size * bins * sizeof *values);
    if (!values)
        return copse_fill(g, COPSE_F32, COPSE_SHAPE(size, bins), NAN); /* the loss names the step */
    for (uint32_t t = 0; t < size; t++)
        for (uint32_t k = 0; k < bins; k++) {
            const double angle = turn * (double)((uint64_t)t * k % size);
            const double window = 0.5 - 0.5 * cos(turn * t);
            values[(size_t)t * bins + k] = (float)(window * (is_sine ? sin(angle) : cos(angle)));
        }
    copse_tensor *basis = copse_constant(g, COPSE_F32, COPSE_SHAPE(size, bins), values);
    free(values);
    return basis;
}

/* Magnitudes [n, frames, bins] of frames that overlap by half. */
static copse_tensor *magnitudes(copse_graph *g, copse_tensor *x, copse_tensor *const *basis)
{
    const copse_shape s = copse_tensor_shape(x);
    const uint32_t hop = copse_tensor_shape(basis[0]).dims[0] / 2, count = s.dims[1] / hop;
    const uint32_t zero[] = { 0, 0 }, whole[] = { s.dims[0], count * hop };
    const uint32_t second[] = { 0, 1, 0 }, size[] = { s.dims[0], count - 1, hop }, first[3] = { 0 };
    copse_tensor *blocks = copse_slice(g, x, zero, whole);
    blocks = copse_reshape(g, blocks, COPSE_SHAPE(s.dims[0], count, hop));
    copse_tensor *halves[] = { copse_slice(g, blocks, first, size),
                               copse_slice(g, blocks, second, size) };
    copse_tensor *frames = copse_concat(g, halves, 2, 2);
    copse_tensor *re = copse_matmul(g, frames, basis[0], false, false);
    copse_tensor *im = copse_matmul(g, frames, basis[1], false, false);
    copse_tensor *power = copse_add(g, copse_square(g, re), copse_square(g, im));
    return copse_sqrt(g, copse_maximum(g, power, copse_scalar(g, 1e-8)));
}

/* Spectral convergence (Arik et al., 2018) and mean difference of logarithms, for frames
   of one size. */
static copse_tensor *spectral_loss(copse_graph *g, copse_tensor *y, copse_tensor *wet,
                                   uint32_t size)
{
    static const uint32_t axes[] = { 1, 2 };
    copse_tensor *const basis[] = { make_basis(g, size, false), make_basis(g, size, true) };
    copse_tensor *is = magnitudes(g, y, basis), *should = magnitudes(g, wet, basis);
    copse_tensor *error = copse_sum(g, copse_square(g, copse_sub(g, is, should)), axes, 2, false);
    copse_tensor *power = copse_sum(g, copse_square(g, should), axes, 2, false);
    /* at least 1e-8, so that the root has a derivative where the error is 0 */
    error = copse_maximum(g, error, copse_scalar(g, 1e-8));
    copse_tensor *convergence = mean_of(g, copse_sqrt(g, copse_div(g, error, power)));
    copse_tensor *logs = copse_sub(g, copse_log(g, is), copse_log(g, should));
    return copse_add(g, convergence, mean_of(g, copse_abs(g, logs)));
}

struct losses {
    copse_tensor *esr, *emphasised, *spectral;
};

static struct losses add_losses(copse_graph *g, copse_tensor *y, copse_tensor *wet,
                                float emphasised_power)
{
    static const uint32_t sizes[] = { 128, 512, 2048 };
    const size_t count = sizeof sizes / sizeof sizes[0];
    copse_tensor *error = copse_sub(g, y, wet);
    struct losses l = { .esr = mean_of(g, copse_square(g, error)) };
    l.emphasised = copse_multiply_by(g, mean_of(g, copse_square(g, emphasise(g, error))),
                                     1 / emphasised_power);
    l.spectral = copse_scalar(g, 0);
    for (size_t i = 0; i < count; i++)
        l.spectral = copse_add(g, l.spectral, spectral_loss(g, y, wet, sizes[i]));
    l.spectral = copse_multiply_by(g, l.spectral, 1.0f / (float)count);
    return l;
}

copse_tensor *network_loss(copse_graph *g, const copse_batch *in, void *network)
{
    const struct network *n = network;
    copse_tensor *y = apply_network(g, n, copse_input(in, "dry"));
    const struct losses l = add_losses(g, y, copse_input(in, "wet"), n->emphasised_power);
    copse_report(g, "esr", l.esr);
    copse_report(g, "emphasised", l.emphasised);
    copse_tensor *loss = copse_add(g, l.esr, l.emphasised);
    if (n->spectral_weight <= 0)
        return loss;
    copse_report(g, "spectral", l.spectral);
    return copse_add(g, loss, copse_multiply_by(g, l.spectral, n->spectral_weight));
}

copse_tensor *network_compare(copse_graph *g, const copse_batch *in, void *network)
{
    const struct network *n = network;
    const struct losses l =
        add_losses(g, copse_input(in, "output"), copse_input(in, "wet"), n->emphasised_power);
    copse_tensor *const all[] = { l.esr, l.emphasised, l.spectral };
    return copse_reshape(g, copse_stack(g, all, 3, 0), COPSE_SHAPE(1, 3));
}
