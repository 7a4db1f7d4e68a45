/* SPDX-License-Identifier: MIT */
/* The multilayer perceptron of `copse train`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/train/train.h"

bool mlp_parse(const char *text, struct mlp *out)
{
    if (strncmp(text, "mlp", 3) != 0 || (text[3] != ':' && text[3] != '\0'))
        return false;
    out->layers = 1;
    for (const char *p = text[3] ? text + 4 : text + 3; *p;) {
        char *end;
        const unsigned long width = strtoul(p, &end, 10);
        if (end == p || *p < '1' || *p > '9' || width > 1000000 || out->layers == MLP_MAX_LAYERS ||
            (*end != ',' && *end != '\0') || (*end == ',' && end[1] == '\0'))
            return false;
        out->widths[out->layers++] = (uint32_t)width;
        p = *end ? end + 1 : end;
    }
    return true;
}

bool network_text(const struct train_settings *s, char *text, size_t room)
{
    struct mlp m = { 0 };
    if (!mlp_parse(s->model, &m))
        return (size_t)snprintf(text, room, "%s", s->model) < room;
    size_t n = (size_t)snprintf(text, room, "flatten; ");
    for (uint32_t i = 1; i < m.layers && n < room; i++) {
        n += (size_t)snprintf(text + n, room - n, "dense %u relu; ", m.widths[i]);
        if (s->dropout > 0.0f && n < room)
            n += (size_t)snprintf(text + n, room - n, "dropout %.9g; ", (double)s->dropout);
    }
    return n < room && (size_t)snprintf(text + n, room - n, "dense out") < room - n;
}

copse_status mlp_create(struct mlp *m, copse_strategy *st, uint64_t seed)
{
    for (uint32_t i = 0; i < m->layers; i++) {
        char name[32];
        copse_variable *v;
        const bool is_last = i + 1 == m->layers;
        snprintf(name, sizeof name, "dense%u.weight", i + 1);
        struct copse_variable_params params = {
            .name = name,
            .shape = COPSE_SHAPE(m->widths[i], m->widths[i + 1]),
            .initializer = is_last ? COPSE_INIT_GLOROT_UNIFORM : COPSE_INIT_HE_NORMAL,
            .seed = seed,
        };
        COPSE_TRY(copse_variable_create(st, &params, &v));
        m->w[i] = copse_variable_tensor(v);
        snprintf(name, sizeof name, "dense%u.bias", i + 1);
        params.shape = COPSE_SHAPE(m->widths[i + 1]);
        params.initializer = COPSE_INIT_ZEROS;
        COPSE_TRY(copse_variable_create(st, &params, &v));
        m->b[i] = copse_variable_tensor(v);
    }
    return COPSE_OK;
}

/* Column "x" as f32 [examples, inputs], scaled. */
static copse_status read_input(copse_graph *g, const copse_batch *in, const struct mlp *m, copse_tensor **out)
{
    copse_tensor *x, *offset;
    COPSE_TRY(copse_input(in, "x", &x));
    const uint32_t examples = copse_tensor_shape(x).dims[0];
    if (copse_tensor_type(x) != COPSE_F32)
        COPSE_TRY(copse_cast(g, x, COPSE_F32, &x));
    if (m->input_offset != 0.0f) {
        COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)m->input_offset, &offset));
        COPSE_TRY(copse_sub(g, x, offset, &x));
    }
    if (m->input_scale != 1.0f)
        COPSE_TRY(copse_multiply_by(g, x, m->input_scale, &x));
    return copse_reshape(g, x, COPSE_SHAPE(examples, m->inputs), out);
}

static copse_status squared_error(copse_graph *g, const struct mlp *m, copse_tensor *h, copse_tensor *y, copse_tensor **loss)
{
    copse_tensor *error;
    COPSE_TRY(copse_sub(g, h, y, &error));
    COPSE_TRY(copse_abs(g, error, &error));
    COPSE_TRY(copse_mean(g, error, NULL, 0, false, &error));
    COPSE_TRY(copse_multiply_by(g, error, (float)m->target_scale, &error));
    COPSE_TRY(copse_report(g, "mae", error));
    return copse_mean_squared_error(g, h, y, loss);
}

copse_status mlp_loss(copse_graph *g, const copse_batch *in, void *user, copse_tensor **loss)
{
    const struct mlp *m = user;
    copse_tensor *y, *h, *guess, *is_right, *accuracy;
    COPSE_TRY(read_input(g, in, m, &h));
    COPSE_TRY(copse_input(in, "y", &y));
    for (uint32_t i = 0; i < m->layers; i++) {
        const bool is_last = i + 1 == m->layers;
        COPSE_TRY(copse_dense(g, h, m->w[i], m->b[i], is_last ? COPSE_LINEAR : COPSE_RELU, &h));
        if (!is_last && m->dropout > 0.0f)
            COPSE_TRY(copse_dropout(g, h, m->dropout, in->is_training, &h));
    }
    if (m->is_regression)
        return squared_error(g, m, h, y, loss);
    COPSE_TRY(copse_argmax(g, h, 1, &guess));
    COPSE_TRY(copse_equal(g, guess, y, &is_right));
    COPSE_TRY(copse_mean(g, is_right, NULL, 0, false, &accuracy));
    COPSE_TRY(copse_report(g, "accuracy", accuracy));
    return copse_sparse_cross_entropy(g, h, y, COPSE_MEAN, loss);
}
