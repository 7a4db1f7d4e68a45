/* SPDX-License-Identifier: MIT */
/* The network of `copse train`: a description of layers, and its loss. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/train/train.h"

/* Longest description on one line, as checkpoints keep it. */
#define NETWORK_BYTES 8192

bool network_is_mlp(const char *text)
{
    return strncmp(text, "mlp", 3) == 0 && (text[3] == ':' || text[3] == '\0');
}

/* The text of the file of this name, to be freed; NULL: no such file, or not readable. */
static char *file_text(const char *path)
{
    struct stat info;
    FILE *f = stat(path, &info) == 0 && S_ISREG(info.st_mode) ? fopen(path, "rb") : NULL;
    char *text = f ? calloc(1, (size_t)1 << 20) : NULL;
    if (text && fread(text, 1, ((size_t)1 << 20) - 1, f) == 0 && ferror(f)) {
        free(text);
        text = NULL;
    }
    if (f)
        fclose(f);
    return text;
}

/* Perceptrons get --dropout behind each hidden layer; other descriptions have dropout layers of their own. */
static copse_status parse(copse_context *ctx, const char *text, float dropout, copse_layer **out)
{
    char with[NETWORK_BYTES + 40];
    *out = NULL;
    if (dropout == 0.0f)
        return copse_nn_parse(ctx, text, out);
    if (!network_is_mlp(text))
        return session_set_error(COPSE_ERR_ARGUMENT, "--dropout is for --model mlp:...; write dropout %g between the "
                                                     "layers of the description", (double)dropout);
    snprintf(with, sizeof with, "%.*s dropout=%.9g", NETWORK_BYTES, text, (double)dropout);
    return copse_nn_parse(ctx, with, out);
}

/* The description on one line; mlp:... stays as it is. */
static copse_status settle(copse_context *ctx, const char *spec, const char *text, float dropout, const char **out)
{
    static char kept[NETWORK_BYTES];
    copse_layer *l;
    size_t needed;
    COPSE_TRY(parse(ctx, text, dropout, &l));
    copse_status s = COPSE_OK;
    if (!network_is_mlp(text))
        s = copse_layer_text(l, kept, sizeof kept, &needed);
    else if (strlen(text) >= sizeof kept)
        s = session_set_error(COPSE_ERR_ARGUMENT, "'%.40s...' is too long", spec);
    copse_layer_release(&l);
    *out = network_is_mlp(text) ? spec : kept;
    return s;
}

copse_status network_settle(const char *spec, float dropout, const char **out, const char **source)
{
    static char *kept;
    const struct copse_context_params params = { .disable = "opencl,vulkan" }; /* descriptions need no device */
    copse_context *ctx;
    char plain[900];
    COPSE_TRY(copse_context_create(&params, &ctx));
    char *text = network_is_mlp(spec) ? NULL : file_text(spec);
    free(kept);
    kept = text;
    *source = text ? text : spec;
    const copse_status s = settle(ctx, spec, text ? text : spec, dropout, out);
    copse_context_release(&ctx);
    if (s) {
        session_plain(plain, sizeof plain, session_error());
        session_set_error(s, text ? "--model: '%s': %s" : "--model: %.0s%s", spec, plain);
    }
    return s;
}

static copse_status check_output(const copse_layer *l, uint32_t outputs, bool is_regression)
{
    copse_shape shape;
    char text[96] = "";
    int at = 0;
    COPSE_TRY(copse_layer_output(l, &shape));
    if (shape.rank == 1 && shape.dims[0] == outputs)
        return COPSE_OK;
    for (uint32_t i = 0; i < shape.rank; i++)
        at += sprintf(text + at, i ? ", %u" : "%u", shape.dims[i]);
    return session_set_error(COPSE_ERR_SHAPE, "the last layer gives [%s], %u %s need [%u]: end the description with "
                                              "`flatten; dense out`", text, outputs,
                             is_regression ? "targets" : "classes", outputs);
}

static bool is_scaled(const struct network *n)
{
    return n->input_offset != 0.0f || n->input_scale != 1.0f;
}

copse_status network_create(struct network *n, copse_strategy *st, copse_context *ctx, const char *text, float dropout,
                            uint64_t seed)
{
    const struct copse_build_params params = {
        .type = is_scaled(n) ? COPSE_F32 : n->type, .shape = n->shape, .outputs = n->outputs, .seed = seed,
    };
    char plain[900];
    copse_layer_release(&n->layers);
    copse_status s = parse(ctx, text, dropout, &n->layers);
    if (!s)
        s = copse_layer_build(n->layers, st, &params);
    if (!s)
        s = check_output(n->layers, n->outputs, n->is_regression);
    if (s) {
        session_plain(plain, sizeof plain, session_error());
        session_set_error(s, "--model: %s", plain);
        copse_layer_release(&n->layers);
    }
    return s;
}

/* ---- the loss ---- */

/* Column "x", as f32 if it is scaled here. */
static copse_status read_input(copse_graph *g, const copse_batch *in, const struct network *n, copse_tensor **x)
{
    copse_tensor *offset;
    COPSE_TRY(copse_input(in, "x", x));
    if (is_scaled(n))
        COPSE_TRY(copse_cast(g, *x, COPSE_F32, x));
    if (n->input_offset != 0.0f) {
        COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)n->input_offset, &offset));
        COPSE_TRY(copse_sub(g, *x, offset, x));
    }
    return n->input_scale == 1.0f ? COPSE_OK : copse_multiply_by(g, *x, n->input_scale, x);
}

static copse_status squared_error(copse_graph *g, const struct network *n, copse_tensor *h, copse_tensor *y,
                                  copse_tensor **loss)
{
    copse_tensor *error;
    COPSE_TRY(copse_sub(g, h, y, &error));
    COPSE_TRY(copse_abs(g, error, &error));
    COPSE_TRY(copse_mean(g, error, NULL, 0, false, &error));
    COPSE_TRY(copse_multiply_by(g, error, (float)n->target_scale, &error));
    COPSE_TRY(copse_report(g, "mae", error));
    return copse_mean_squared_error(g, h, y, loss);
}

copse_status network_loss(copse_graph *g, const copse_batch *in, void *user, copse_tensor **loss)
{
    const struct network *n = user;
    copse_tensor *x, *y, *h, *guess, *is_right, *accuracy;
    COPSE_TRY(read_input(g, in, n, &x));
    COPSE_TRY(copse_input(in, "y", &y));
    COPSE_TRY(copse_layer_apply(n->layers, g, in, x, &h));
    if (n->is_regression)
        return squared_error(g, n, h, y, loss);
    COPSE_TRY(copse_argmax(g, h, 1, &guess));
    COPSE_TRY(copse_equal(g, guess, y, &is_right));
    COPSE_TRY(copse_mean(g, is_right, NULL, 0, false, &accuracy));
    COPSE_TRY(copse_report(g, "accuracy", accuracy));
    return copse_sparse_cross_entropy(g, h, y, COPSE_MEAN, loss);
}
