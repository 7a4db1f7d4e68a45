/* SPDX-License-Identifier: MIT */
/* Plain text as bytes: UTF-8 without NUL. */
#include "copse/data.h"
#include "copse/data/readers.h"
#include "core/data/array.h"
#include "core/data/input.h"

static copse_status read_text(copse_context *ctx, struct copse_input *in, char **text,
                              copse_array **out)
{
    struct copse_mem *mem = in->mem;
    /* The size of a plain file is known; one more byte detects the end. A gzip buffer grows. */
    size_t room = in->is_gzip ? 64 << 10 : (size_t)in->file_size + 1, size = 0, got;

    *text = copse__alloc(mem, room, 1);
    for (;;) {
        if (*text == NULL)
            return copse_fail(COPSE_ERR_NO_MEMORY, "text: %s: no memory", in->path);
        COPSE_TRY(copse__input_read(in, *text + size, room - size, &got));
        size += got;
        if (size < room)
            break;
        char *grown = copse__resize(mem, *text, room, 2);
        if (grown == NULL)
            return copse_fail(COPSE_ERR_NO_MEMORY, "text: %s: no memory", in->path);
        *text = grown;
        room *= 2;
    }
    size_t valid = copse__utf8_valid(*text, size);
    if (valid < size)
        return copse_fail(COPSE_ERR_FORMAT, "text: %s has %s at byte %zu", in->path,
                          (*text)[valid] == 0 ? "a NUL" : "invalid UTF-8", valid);
    char *fitted = copse__resize(mem, *text, size + 1, 1);
    if (fitted != NULL)
        *text = fitted;
    COPSE_TRY(copse__array_create(ctx, COPSE_ELEMENT_U8, 1, &size, *text, out));
    *text = NULL;
    return COPSE_OK;
}

copse_status copse_read_text(copse_context *ctx, const char *path,
                             const struct copse_read_params *params, copse_array **out)
{
    COPSE_TRY(copse_need("text", ctx, path, out));
    struct copse_mem *mem = &copse__base(ctx)->mem;
    struct copse_input in;
    char *text = NULL;

    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_read_params, params));
    copse_status s = copse__input_open(&in, mem, path, params != NULL ? params->max_bytes : 0);
    if (s == COPSE_OK)
        s = read_text(ctx, &in, &text, out);
    copse__input_close(&in);
    copse__free(mem, text);
    return s;
}
