/* SPDX-License-Identifier: MIT */
/* The network of `copse train`: a description of layers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/train/model_file.h"

#include "tools/common/use.h"
#include "tools/train/train.h"

/* Longest description on one line, as checkpoints keep it. */
#define NETWORK_BYTES (80 << 10) /* of 256 layers for texts */

bool network_is_mlp(const char *text)
{
    return strncmp(text, "mlp", 3) == 0 && (text[3] == ':' || text[3] == '\0');
}

/* ---- networks with a name ---- */

#define BLOCK(channels)                                                          \
    "residual { conv " channels " 3x3 bias=no; batch_norm; relu; conv " channels \
    " 3x3 bias=no; batch_norm }; relu; "
#define HALVING(channels)                                                                 \
    "residual { conv " channels " 3x3 stride=2 bias=no; batch_norm; relu; conv " channels \
    " 3x3 bias=no; batch_norm; "                                                          \
    "shortcut { conv " channels " 1x1 stride=2 bias=no; batch_norm } }; relu; "

static const struct named_network {
    const char *name, *text;
} named_networks[] = {
    { "cnn", "conv 32 3x3 relu; conv 32 3x3 relu; max_pool 2; conv 64 3x3 relu; conv 64 3x3 relu; "
             "max_pool 2; flatten; "
             "dropout 0.25; dense 128 relu; dropout 0.5; dense out" },
    /* He et al., "Deep residual learning for image recognition", 2016, section 4.2, with
       projections as shortcuts */
    { "resnet20",
      "conv 16 3x3 bias=no; batch_norm; relu; " BLOCK("16") BLOCK("16") BLOCK("16") HALVING("32")
          BLOCK("32") BLOCK("32") HALVING("64") BLOCK("64") BLOCK("64") "global_pool; dense out" },
};

#define MOST_LAYERS 256 /* of a network for texts: plans of deeper ones take minutes */

struct sizes {
    unsigned layers, width, heads;
    unsigned scale; /* millionths: of weights whose results are added to the sum of all layers */
};

/* name:layers,width,heads. */
static bool sizes_of(const char *spec, const char *name, struct sizes *s)
{
    const size_t begin = strlen(name) + 1;
    int end = 0;
    if (sscanf(spec + begin, "%4u,%6u,%4u%n", &s->layers, &s->width, &s->heads, &end) != 3 ||
        spec[begin + (size_t)end] || s->layers < 1 || s->layers > MOST_LAYERS)
        return false;
    s->scale = (unsigned)(0.02e6 / sqrt(2.0 * s->layers));
    return true;
}

/* A transformer for texts with norms before each part, learned positions and an output layer of its
   own (Radford et al., "Language models are unsupervised multitask learners", 2019):
   gpt:layers,width,heads. NULL: `spec` is none. */
static const char *gpt_text(const char *spec)
{
    static char text[NETWORK_BYTES];
    struct sizes of;
    if (!sizes_of(spec, "gpt", &of))
        return NULL;
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "embedding in %u scale=0.02; positions scale=0.02; ", of.width);
    for (unsigned i = 0; i < of.layers; i++)
        at += (size_t)snprintf(
            text + at, sizeof text - at,
            "residual { layer_norm; attention %u causal=yes init=normal scale=0.02 }; residual { "
            "layer_norm; "
            "dense %u gelu init=normal scale=0.02; dense %u init=normal scale=0.%06u }; ",
            of.heads, 4 * of.width, of.width, of.scale);
    snprintf(text + at, sizeof text - at, "layer_norm; dense out init=normal scale=0.02");
    return text;
}

/* The same without learned positions and biases: RMS norms, rotary positions, and gated units of
   about 8/3 widths with SiLU (Touvron et al., "LLaMA: open and efficient foundation language
   models", 2023): decoder:layers,width,heads. */
static const char *decoder_text(const char *spec)
{
    static char text[NETWORK_BYTES];
    struct sizes of;
    if (!sizes_of(spec, "decoder", &of))
        return NULL;
    const unsigned units = (8 * of.width / 3 + 31) / 32 * 32;
    size_t at = (size_t)snprintf(text, sizeof text, "embedding in %u scale=0.02; ", of.width);
    for (unsigned i = 0; i < of.layers; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "residual { rms_norm; attention %u causal=yes rotary=yes bias=no "
                               "init=normal scale=0.02 }; residual { "
                               "rms_norm; glu %u silu bias=no init=normal scale=0.02; dense %u "
                               "bias=no init=normal scale=0.%06u }; ",
                               of.heads, units, of.width, of.scale);
    snprintf(text + at, sizeof text - at, "rms_norm; dense out bias=no init=normal scale=0.02");
    return text;
}

/* An embedding and layers of a recurrent network: gru:layers,width. NULL: `spec` is none. */
static const char *recurrent_text(const char *spec)
{
    static char text[NETWORK_BYTES];
    unsigned layers, width;
    int begin = 0, end = 0;
    if (sscanf(spec, "%*[^:]:%n%4u,%6u%n", &begin, &layers, &width, &end) != 2 || spec[end] ||
        layers < 1 || layers > MOST_LAYERS)
        return NULL;
    size_t at = (size_t)snprintf(text, sizeof text, "embedding in %u; ", width);
    for (unsigned i = 0; i < layers; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%.*s %u; ", begin - 1, spec, width);
    snprintf(text + at, sizeof text - at, "dense out");
    return text;
}

/* Networks whose name has numbers. */
static const struct numbered_network {
    const char *name, *numbers, *example;
    const char *(*text)(const char *spec); /* NULL: the numbers are wrong */
} numbered_networks[] = {
    { "gpt:", "LAYERS,WIDTH,HEADS", "4,128,4", gpt_text },
    { "decoder:", "LAYERS,WIDTH,HEADS", "4,128,4", decoder_text },
    { "gru:", "LAYERS,WIDTH", "2,256", recurrent_text },
    { "lstm:", "LAYERS,WIDTH", "2,256", recurrent_text },
};

static const struct numbered_network *train_network_numbered(const char *spec)
{
    for (size_t i = 0; i < sizeof numbered_networks / sizeof *numbered_networks; i++)
        if (strncmp(spec, numbered_networks[i].name, strlen(numbered_networks[i].name)) == 0)
            return &numbered_networks[i];
    return NULL;
}

bool network_is_text(const char *spec)
{
    return train_network_numbered(spec) != NULL;
}

static const char *named_text(const char *spec)
{
    if (train_network_numbered(spec))
        return train_network_numbered(spec)->text(spec);
    for (size_t i = 0; i < sizeof named_networks / sizeof *named_networks; i++)
        if (strcmp(spec, named_networks[i].name) == 0)
            return named_networks[i].text;
    return NULL;
}

/* ---- descriptions ---- */

/* The text of the file of this name, to be freed; NULL: no such file, or not readable. */
static char *file_text(const char *path)
{
    struct system_file info;
    FILE *f = system_look(path, &info) && info.kind == SYSTEM_FILE ? system_open(path, "rb") : NULL;
    char *text = f ? calloc(1, (size_t)1 << 20) : NULL;
    if (text && fread(text, 1, ((size_t)1 << 20) - 1, f) == 0 && ferror(f)) {
        free(text);
        text = NULL;
    }
    if (f)
        fclose(f);
    return text;
}

/* Perceptrons get --dropout behind each hidden layer; other descriptions have dropout layers of
   their own. */
static copse_status train_network_parse(copse_context *ctx, const char *text, float dropout,
                                        copse_layer **out)
{
    static char with[NETWORK_BYTES + 40];
    *out = NULL;
    if (dropout == 0.0f)
        return copse_nn_parse(ctx, text, out);
    if (!network_is_mlp(text))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--dropout is for --model mlp:...; write dropout %g between the "
                                 "layers of the description",
                                 (double)dropout);
    snprintf(with, sizeof with, "%.*s dropout=%.9g", NETWORK_BYTES, text, (double)dropout);
    return copse_nn_parse(ctx, with, out);
}

/* The description on one line; mlp:... stays as it is. */
static copse_status train_network_settle(copse_context *ctx, const char *spec, const char *text,
                                         float dropout, const char **out)
{
    static char kept[NETWORK_BYTES];
    copse_layer *l;
    size_t needed;
    COPSE_TRY(train_network_parse(ctx, text, dropout, &l));
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
    /* descriptions need no device */
    const struct copse_context_params params = { .disable = "opencl,vulkan" };
    copse_context *ctx;
    char plain[900];
    if (use_is_onnx(spec) || use_is_language(spec))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--model: '%s' is %s, which `copse train` takes; here --model "
                                 "takes a network of layers",
                                 spec,
                                 use_is_onnx(spec)   ? "an ONNX file"
                                 : use_is_gguf(spec) ? "a GGUF file"
                                                     : "a language model");
    COPSE_TRY(copse_context_create(&params, &ctx));
    const char *named = named_text(spec);
    if (!named && train_network_numbered(spec)) {
        const struct numbered_network *n = train_network_numbered(spec);
        copse_context_release(&ctx);
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--model: '%.40s': write %s%s with 1 to %d layers, such as %s%s",
                                 spec, n->name, n->numbers, MOST_LAYERS, n->name, n->example);
    }
    char *text = named || network_is_mlp(spec) ? NULL : file_text(spec);
    free(kept);
    kept = text;
    *source = text ? text : named ? named : spec;
    const copse_status s = train_network_settle(ctx, spec, *source, dropout, out);
    copse_context_release(&ctx);
    if (s) {
        session_plain(plain, sizeof plain, session_error());
        session_set_error(s, text ? "--model: '%s': %s" : "--model: %.0s%s", spec, plain);
    }
    return s;
}

copse_status network_create(struct network *n, copse_strategy *st, copse_context *ctx,
                            const copse_schema *schema, const char *text, float dropout,
                            uint64_t seed)
{
    char plain[900];
    copse_layer *layers = NULL;
    copse_model_release(&n->model);
    copse_status s = train_network_parse(ctx, text, dropout, &layers);
    if (!s)
        s = copse_model_create(
            st, schema, &(struct copse_model_params){ .layer = layers, .seed = seed }, &n->model);
    copse_layer_release(&layers);
    if (s) {
        session_plain(plain, sizeof plain, session_error());
        return session_set_error(s, "--model: %s", plain);
    }
    copse_shape shape;
    COPSE_TRY(copse_layer_output(copse_model_layer(n->model), &shape));
    n->positions = shape.rank == 2 ? shape.dims[0] : 1;
    return COPSE_OK;
}
