/* SPDX-License-Identifier: MIT */
/* Texts written by a model: the window of the last tokens slides, each token is drawn from one row
   of outputs. */
#include <math.h>

#include "copse/ops.h"
#include "core/base/callback.h"
#include "core/data/schema/schema.h"
#include "core/data/text/tokens.h"
#include "core/graph/type.h"
#include "core/model/model.h"
#include "core/model/sampling.h"

/* One text. */
struct generation {
    copse_model *m;
    const struct copse_schema_parts *schema;
    void *window;   /* [context] tokens of the schema's type; those after the first `count` are 0 */
    float *outputs; /* [vocabulary] */
    struct copse_candidate *candidates; /* [vocabulary] */
    size_t width;                       /* bytes of a token */
    uint32_t context, count;
};

/* ---- the window ---- */

static void generate_text_push(struct generation *g, uint32_t token)
{
    char *const window = g->window;
    if (g->count == g->context)
        memmove(window, window + g->width, --g->count * g->width);
    if (g->width == 1)
        window[g->count] = (char)(unsigned char)token;
    else
        ((int32_t *)g->window)[g->count] = (int32_t)token;
    g->count++;
}

/* The last tokens of the prompt. */
static copse_status push_prompt(struct generation *g, const char *prompt, size_t size)
{
    copse_context *ctx = g->m->strategy->ctx;
    struct copse_text t = { .name = "the prompt", .size = size };
    copse_array *tokens = NULL;
    t.bytes = copse__alloc(&ctx->base.mem, size, 1);
    if (!t.bytes)
        return copse_no_memory("generate");
    memcpy(t.bytes, prompt, size);
    const copse_status s =
        copse__token_kinds[g->schema->tokens].encode(ctx, &t, g->schema, &tokens);
    for (size_t i = 0; s == COPSE_OK && i < tokens->count; i++)
        generate_text_push(g, g->width == 1 ? ((const uint8_t *)tokens->data)[i]
                                            : (uint32_t)((const int32_t *)tokens->data)[i]);
    copse_array_release(&tokens);
    copse__text_fini(ctx, &t);
    return s;
}

static bool needs_whole_windows(const struct generation *g)
{
    return g->m->positions < g->context;
}

static copse_status generate_text_begin(struct generation *g, const char *prompt, size_t size)
{
    const struct copse_token_kind *kind = &copse__token_kinds[g->schema->tokens];
    if (prompt && size > 0)
        COPSE_TRY(push_prompt(g, prompt, size));
    else if (!needs_whole_windows(g))
        generate_text_push(g, (uint32_t)COPSE_MAX(kind->line_end(g->schema), (int64_t)0));
    if (needs_whole_windows(g) && g->count < g->context)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "generate: the prompt has %u %s; the network predicts only the token after a "
            "window of %u: give a prompt of at least %u",
            g->count, copse__token_kinds[g->schema->tokens].noun, g->context, g->context);
    return COPSE_OK;
}

/* ---- one token ---- */

/* The outputs for the token after the window. The shapes are the same for each token: one recording
   serves all. `checked`: of copse__short_window_check. */
static copse_status generate_text_compute(struct generation *g, int32_t *checked)
{
    const int32_t length = (int32_t)g->count;
    const struct copse_host_batch batch = {
        COPSE_COLUMNS({ "x", g->schema->type, g->schema->shape, g->window },
                      { "length", COPSE_I32, COPSE_SCALAR, &length }),
        .count = 1
    };
    COPSE_TRY(copse__short_window_check(g->m, &batch, checked));
    return copse__model_outputs(g->m, &batch, true, g->outputs);
}

static copse_status write_tokens(struct generation *g, const struct copse_generate_params *how,
                                 copse_token_fn *take, void *user)
{
    struct copse_callback callback = { .name = "the function that takes the tokens of a model",
                                       .used = { g->m } };
    char text[COPSE_TOKEN_BYTES];
    int32_t checked = 0;
    uint32_t token;
    for (uint64_t i = 0; i < how->length; i++) {
        COPSE_TRY(generate_text_compute(g, &checked));
        /* training has not taught the network when they follow */
        for (uint32_t k = 0; k < g->schema->unseen_count; k++)
            g->outputs[g->schema->unseen[k]] = -INFINITY;
        COPSE_TRY(copse__sample(g->outputs, g->m->is.outputs, how, i, g->candidates, &token));
        generate_text_push(g, token);
        const size_t size = copse__token_kinds[g->schema->tokens].text(g->schema, token, text);
        COPSE_TRY(copse_callback_call(&callback, take(user, token, text, size)));
    }
    return COPSE_OK;
}

/* ---- the call ---- */

static copse_status generate_text_check(const copse_model *m,
                                        const struct copse_generate_params *how)
{
    COPSE_TRY(copse_no_reserved(copse_generate_params, how));
    COPSE_TRY(copse__require_no_replica("copse_model_generate", m));
    if (m->is.kind != COPSE_DATA_TEXT)
        return copse_fail(COPSE_ERR_ARGUMENT, "generate: the model is not of a text");
    if (how->length == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "generate: the length is 0; it must be at least 1");
    return copse__sampling_check(how);
}

copse_status copse_model_generate(copse_model *m, const char *prompt, size_t size,
                                  const struct copse_generate_params *params, copse_token_fn *take,
                                  void *user)
{
    COPSE_TRY(copse_need("model", m, params, take));
    COPSE_TRY(generate_text_check(m, params));
    struct copse_mem *mem = &m->strategy->ctx->base.mem;
    struct generation g = { .m = m, .schema = &m->schema->is, .context = m->is.shape.dims[0] };
    g.width = copse__type_bytes(g.schema->type);
    g.window = copse__alloc(mem, g.context, g.width);
    g.outputs = copse__alloc(mem, m->is.outputs, sizeof *g.outputs);
    g.candidates = copse__alloc(mem, m->is.outputs, sizeof *g.candidates);
    copse_status s = g.window && g.outputs && g.candidates ? COPSE_OK : copse_no_memory("generate");
    if (s == COPSE_OK)
        s = generate_text_begin(&g, prompt, size);
    if (s == COPSE_OK)
        s = write_tokens(&g, params, take, user);
    copse__free(mem, g.candidates);
    copse__free_read(mem, g.outputs, s);
    copse__free(mem, g.window);
    return s;
}
