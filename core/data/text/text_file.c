/* SPDX-License-Identifier: MIT */
/* Texts in files: their bytes, and copse_read_text. */
#include "copse/data/readers.h"

#include "core/data/reader/byte_stream.h"
#include "core/data/text/tokens.h"

static copse_status read_all(struct copse_input *in, struct copse_text *out)
{
    struct copse_mem *mem = in->mem;
    /* The size of a plain file is known; one more byte detects the end. A gzip buffer grows. */
    size_t room = in->is_gzip ? 64 << 10 : (size_t)in->file_size + 1, got;

    out->bytes = copse__alloc(mem, room, 1);
    for (;;) {
        if (out->bytes == NULL)
            return copse_no_memory("text: %s", in->path);
        COPSE_TRY(copse__input_read(in, out->bytes + out->size, room - out->size, &got));
        out->size += got;
        if (out->size < room)
            break;
        char *grown = copse__resize(mem, out->bytes, room, 2);
        if (grown == NULL)
            return copse_no_memory("text: %s", in->path);
        out->bytes = grown;
        room *= 2;
    }
    char *fitted = copse__resize(mem, out->bytes, out->size + 1, 1);
    if (fitted != NULL)
        out->bytes = fitted;
    return COPSE_OK;
}

copse_status copse__text_read(copse_context *ctx, const char *path, uint64_t max_bytes,
                              struct copse_text *out)
{
    struct copse_input in;

    *out = (struct copse_text){ .name = path };
    copse_status s = copse__input_open(&in, &copse__base(ctx)->mem, path, max_bytes);
    if (s == COPSE_OK)
        s = read_all(&in, out);
    copse__input_close(&in);
    if (s != COPSE_OK)
        copse__text_fini(ctx, out);
    return s;
}

void copse__text_fini(copse_context *ctx, struct copse_text *t)
{
    copse__free(&copse__base(ctx)->mem, t->bytes);
    t->bytes = NULL;
}

copse_status copse_read_text(copse_context *ctx, const char *path,
                             const struct copse_read_params *params, copse_array **out)
{
    COPSE_TRY(copse_need("text", ctx, path, out));
    struct copse_text t;

    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_read_params, params));
    COPSE_TRY(copse__text_read(ctx, path, params != NULL ? params->max_bytes : 0, &t));
    const size_t valid = copse__utf8_valid(t.bytes, t.size);
    copse_status s = COPSE_OK;
    if (valid < t.size)
        s = copse_fail(COPSE_ERR_FORMAT, "text: %s has %s at byte %zu", path,
                       t.bytes[valid] == 0 ? "a NUL" : "invalid UTF-8", valid);
    else
        s = copse__array_create(ctx, COPSE_U8, 1, &t.size, t.bytes, out);
    if (s == COPSE_OK)
        t.bytes = NULL;
    copse__text_fini(ctx, &t);
    return s;
}
