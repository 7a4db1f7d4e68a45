/* SPDX-License-Identifier: MIT */
/* Runs on texts: options, how the file is opened, and what is printed about it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/schema.h"
#include "copse/data/source.h"
#include "copse/data/text.h"
#include "copse/train/model_file.h"

#include "tools/common/plural.h"
#include "tools/common/use.h"
#include "tools/train/train_run.h"

#define TEXT_MODEL "embedding in 24; flatten; dense 256 relu; dense out"

const struct option_name text_tokens[] = {
    { "none", TEXT_NONE },
    { "characters", 1 + COPSE_TOKENS_CHARACTERS },
    { "bytes", 1 + COPSE_TOKENS_BYTES },
    { "bpe", 1 + COPSE_TOKENS_BPE },
    { NULL, 0 },
};

/* The name of an option that is for other data, or NULL. */
static const char *other_option(const struct train_settings *s)
{
    return s->labels                                      ? "--labels"
           : s->label                                     ? "--label"
           : s->ignore                                    ? "--ignore"
           : s->classes > 0                               ? "--classes"
           : s->resize                                    ? "--resize"
           : s->augment                                   ? "--augment"
           : s->task.at->value != COPSE_TASK_AUTO         ? "--task"
           : s->missing.at->value != COPSE_MISSING_REFUSE ? "--missing"
           : s->header.at->value != COPSE_CSV_HEADER_AUTO ? "--header"
           : s->scale.at->value != COPSE_SCALE_AUTO       ? "--scale"
                                                          : NULL;
}

const char *text_check(struct train_settings *s)
{
    static char text[100];
    if (!s->model)
        s->model = settings_are_text(s) ? TEXT_MODEL : "mlp:128,64";
    if (!settings_are_text(s))
        return s->context > 0 || s->stride > 0 ? "--context and --stride belong to --tokens" : NULL;
    if (s->tokens.number > 0 && (s->tokens.number < 256 || s->tokens.number > 65536))
        return "--tokens bpe:N: a vocabulary has 256 to 65536 tokens";
    if (s->context > INT32_MAX || s->stride > INT32_MAX)
        return "--context and --stride: at most 2147483647";
    if (s->is_default_data)
        return "--tokens reads a text: name it with --data";
    const char *other = other_option(s);
    snprintf(text, sizeof text, "%s belongs to other data than texts (--tokens)",
             other ? other : "");
    return other ? text : NULL;
}

copse_status text_settle(struct train_settings *s, const char *network)
{
    /* descriptions need no device */
    const struct copse_context_params params = { .disable = "opencl,vulkan" };
    copse_context *ctx;
    copse_layer *l = NULL;
    copse_shape shape = COPSE_SCALAR;
    char plain[900];
    if (!settings_are_text(s))
        return COPSE_OK;
    s->context = s->context > 0 ? s->context : COPSE_TEXT_CONTEXT;
    COPSE_TRY(copse_context_create(&params, &ctx));
    copse_status status = copse_nn_parse(ctx, network, &l);
    if (status == COPSE_OK)
        status = copse_layer_shape(
            l,
            &(struct copse_build_params){
                .type = COPSE_I32, .shape = COPSE_SHAPE(s->context), .outputs = 2, .tokens = 2 },
            &shape, NULL);
    copse_layer_release(&l);
    copse_context_release(&ctx);
    if (status != COPSE_OK) {
        session_plain(plain, sizeof plain, session_error());
        return session_set_error(status, "--model: %s", plain);
    }
    if (s->stride == 0)
        s->stride = shape.rank == 2 ? s->context : 1;
    return COPSE_OK;
}

bool text_take(struct train_settings *s, const char *name, const char *value)
{
    uint32_t *to = strcmp(name, "--context") == 0  ? &s->context
                   : strcmp(name, "--stride") == 0 ? &s->stride
                                                   : NULL;
    if (to) {
        *to = (uint32_t)strtoul(value, NULL, 10);
        return *to > 0;
    }
    return strcmp(name, "--tokens") == 0 && option_choose(&s->tokens, value);
}

const char *text_tokens_name(const struct train_settings *s)
{
    static char text[32];
    snprintf(text, sizeof text, "%s:%u", s->tokens.at->name,
             s->tokens.number > 0 ? s->tokens.number : COPSE_TEXT_VOCABULARY);
    return s->tokens.at->value == 1 + COPSE_TOKENS_BPE ? text : s->tokens.at->name;
}

/* ---- the data ---- */

/* A file that was read as a table, and whose name is not that of one. */
static copse_status train_text_hint(const struct train_settings *s, const char *path,
                                    copse_status status)
{
    static const char *const tables[] = { ".csv",    ".csv.gz", ".tsv",     ".npy",
                                          ".npy.gz", "ubyte",   "ubyte.gz", "/" };
    char plain[900];
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (use_has_ending(path, tables[i]))
            return status;
    if (status != COPSE_ERR_FORMAT || s->labels || !strstr(session_error(), "csv: ") ||
        strstr(session_error(), ", which is not read; "))
        return status;
    session_plain(plain, sizeof plain, session_error());
    return session_set_error(status, "%s; to read it as a text give --tokens characters, or bytes",
                             plain);
}

copse_status text_open(const struct run *r, const char *path, struct copse_dataset_params *p,
                       copse_dataset **out)
{
    const struct train_settings *s = &r->settings;
    const bool is_text = settings_are_text(s);
    const struct copse_text_params text = { .tokens = is_text
                                                          ? (copse_tokens)(s->tokens.at->value - 1)
                                                          : COPSE_TOKENS_CHARACTERS,
                                            .context = s->context,
                                            .stride = s->stride,
                                            .vocabulary = s->tokens.number };
    struct copse_source_params source = { .text = &text };
    if (is_text)
        p->source = &source;
    const copse_status status = copse_dataset_open(r->ctx, path, p, out);
    p->source = NULL;
    return is_text ? status : train_text_hint(s, path, status);
}

/* Bytes of the tokens that a batch predicts, `positions` for each window. */
static double predicted_bytes(const copse_schema *schema, const struct copse_host_batch *batch,
                              uint32_t positions)
{
    const struct copse_column *y = copse_batch_column(batch, "y");
    const int32_t *labels = y->data;
    /* of a window: the last `positions` of it are predicted */
    const size_t length = y->shape.dims[0];
    double bytes = 0.0;
    for (size_t r = 0; r < batch->count; r++)
        for (size_t i = length - positions; i < length; i++)
            bytes += (double)copse_text_token(schema, (uint32_t)labels[r * length + i], NULL);
    return bytes;
}

copse_status text_measure(struct run *r)
{
    struct copse_dataset_info info;
    struct copse_host_batch batch;
    double bytes = 0.0;
    copse_status s;
    if (!r->test.is_sequence || !r->held)
        return COPSE_OK;
    copse_dataset_describe(r->held_out, &info);
    COPSE_TRY(copse_loader_start(r->held, 0, 0));
    while ((s = copse_loader_next(r->held, &batch)) == COPSE_OK)
        bytes += predicted_bytes(copse_dataset_schema(r->all), &batch, r->model.positions);
    r->test.token_bytes = bytes / (double)info.rows / r->model.positions;
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

void text_show(const struct run *r, const copse_schema *schema)
{
    struct copse_dataset_info all, train, test;
    struct copse_text_info info;
    copse_dataset_describe(r->all, &all);
    copse_dataset_describe(r->train, &train);
    copse_dataset_describe(r->held_out, &test);
    if (copse_text_describe(schema, &info) != COPSE_OK)
        return;
    const char *noun = info.tokens == COPSE_TOKENS_BPE ? "byte pairs" : r->settings.tokens.at->name;
    printf("data     %s: %zu window%s of %u %s, one every %u; %u different %s\n", r->settings.data,
           all.rows, plural_end(all.rows), info.context, noun, info.stride, info.vocabulary, noun);
    if (info.tokens == COPSE_TOKENS_BPE)
        printf("         the byte pairs were learned from the training part\n");
    if (!r->held_out)
        printf("         all for training, none held out: the last epoch counts\n");
    else
        printf("         %zu for training, %zu held out: %s\n", train.rows, test.rows,
               train.rows == all.rows ? r->settings.held_out : "the end of the text");
}
