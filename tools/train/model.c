/* SPDX-License-Identifier: MIT */
/* The network of `copse train`: a description of layers, and its loss. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/train/train.h"

/* Longest description on one line, as checkpoints keep it. */
#define NETWORK_BYTES 8192

static bool is_mlp(const char *text)
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
    if (!is_mlp(text))
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
    if (!is_mlp(text))
        s = copse_layer_text(l, kept, sizeof kept, &needed);
    else if (strlen(text) >= sizeof kept)
        s = session_set_error(COPSE_ERR_ARGUMENT, "'%.40s...' is too long", spec);
    copse_layer_release(&l);
    *out = is_mlp(text) ? spec : kept;
    return s;
}

copse_status network_settle(const char *spec, float dropout, const char **out, const char **source)
{
    static char *kept;
    const struct copse_context_params params = { .disable = "opencl,vulkan" }; /* descriptions need no device */
    copse_context *ctx;
    char plain[900];
    COPSE_TRY(copse_context_create(&params, &ctx));
    char *text = is_mlp(spec) ? NULL : file_text(spec);
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

static copse_status check_output(const copse_layer *l, uint32_t outputs)
{
    copse_shape shape;
    char text[96] = "";
    int at = 0;
    COPSE_TRY(copse_layer_output(l, &shape));
    if (shape.rank == 1 && shape.dims[0] == outputs)
        return COPSE_OK;
    for (uint32_t i = 0; i < shape.rank; i++)
        at += sprintf(text + at, i ? ", %u" : "%u", shape.dims[i]);
    return session_set_error(COPSE_ERR_SHAPE, "the last layer gives [%s], %u classes need [%u]: end the description with "
                                              "`flatten; dense out`", text, outputs, outputs);
}

copse_status network_create(copse_strategy *st, copse_context *ctx, const char *text, float dropout,
                            const struct copse_build_params *params, copse_layer **out)
{
    char plain[900];
    copse_layer *l = NULL;
    copse_status s = parse(ctx, text, dropout, &l);
    if (!s)
        s = copse_layer_build(l, st, params);
    if (!s)
        s = check_output(l, params->outputs);
    if (s) {
        session_plain(plain, sizeof plain, session_error());
        session_set_error(s, "--model: %s", plain);
        copse_layer_release(&l);
    }
    *out = l;
    return s;
}

copse_status network_loss(copse_graph *g, const copse_batch *in, void *user, copse_tensor **loss)
{
    copse_tensor *x, *y, *logits, *guess, *is_right, *accuracy;
    COPSE_TRY(copse_input(in, "x", &x));
    COPSE_TRY(copse_input(in, "y", &y));
    COPSE_TRY(copse_layer_apply(user, g, in, x, &logits));
    COPSE_TRY(copse_argmax(g, logits, 1, &guess));
    COPSE_TRY(copse_equal(g, guess, y, &is_right));
    COPSE_TRY(copse_mean(g, is_right, NULL, 0, false, &accuracy));
    COPSE_TRY(copse_report(g, "accuracy", accuracy));
    return copse_sparse_cross_entropy(g, logits, y, COPSE_MEAN, loss);
}
