/* SPDX-License-Identifier: MIT */
/* Code of kernels that applications give: text is completed with the dialect, and SPIR-V is parsed
   as far as the contract requires. */
#include <ctype.h>
#include <stdio.h>

#include "copse/device/conformance.h"
#include "core/device/kernel/user_kernels.h"

/* ---- text in the dialect ---- */

struct writer {
    char *text; /* NULL: only count */
    size_t room, at;
};

static void kernel_code_put(struct writer *w, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++, w->at++)
        if (w->text && w->at < w->room)
            w->text[w->at] = bytes[i];
}

static const char *dialect_file(const char *name, size_t length)
{
    for (const struct copse_dialect_file *f = copse_dialect_files; f->name; f++)
        if (strlen(f->name) == length && memcmp(f->name, name, length) == 0)
            return f->text;
    return NULL;
}

/* The name between the quotes of an #include line, or NULL. */
static const char *kernel_code_included(const char *line, size_t length, size_t *name_length)
{
    const char *end = line + length, *p = line;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    if (p == end || *p++ != '#')
        return NULL;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    if (end - p < 8 || memcmp(p, "include", 7) != 0)
        return NULL;
    const char *open = memchr(p, '"', (size_t)(end - p));
    const char *close = open ? memchr(open + 1, '"', (size_t)(end - open - 1)) : NULL;
    if (!close)
        return NULL;
    *name_length = (size_t)(close - open - 1);
    return open + 1;
}

/* Line numbers in compiler messages must be those of the user's file, not of the generated text. */
static void put_line(struct writer *w, size_t line)
{
    char text[40];
    const int size = snprintf(text, sizeof text, "#line %zu\n", line);
    kernel_code_put(w, text, (size_t)size);
}

static copse_status kernel_code_complete(const char *owner, struct writer *w, const char *source,
                                         bool is_own, int depth)
{
    size_t number = 1;
    if (is_own)
        put_line(w, number);
    if (depth > 8)
        return copse_fail(COPSE_ERR_FORMAT, "%s: includes go deeper than 8", owner);
    for (const char *line = source; *line;) {
        const char *end = strchr(line, '\n');
        const size_t length = end ? (size_t)(end - line) : strlen(line);
        size_t name_length;
        const char *name = kernel_code_included(line, length, &name_length);
        if (name) {
            const char *text = dialect_file(name, name_length);
            if (!text)
                return copse_fail(COPSE_ERR_FORMAT, "%s: '%.*s' is not a file of the dialect",
                                  owner, (int)COPSE_MIN(name_length, 80), name);
            COPSE_TRY(kernel_code_complete(owner, w, text, false, depth + 1));
        } else {
            kernel_code_put(w, line, length);
        }
        kernel_code_put(w, "\n", 1);
        number++;
        if (name && is_own)
            put_line(w, number);
        line += length + (end != NULL);
    }
    return COPSE_OK;
}

static copse_status complete_all(const char *owner, copse_kernel_language language,
                                 const char *source, char *text, size_t room, size_t *needed)
{
    static const char version[] = "#version 450\n";
    struct writer w = { text, room, 0 };
    if (language == COPSE_KERNEL_GLSL)
        kernel_code_put(&w, version, sizeof version - 1);
    const char *prelude = language == COPSE_KERNEL_GLSL ? dialect_file("prelude.glsl", 12)
                                                        : dialect_file("prelude.clh", 11);
    COPSE_TRY(kernel_code_complete(owner, &w, prelude ? prelude : "", false, 0));
    COPSE_TRY(kernel_code_complete(owner, &w, source, true, 0));
    kernel_code_put(&w, "", 1);
    *needed = w.at;
    return !text || w.at <= room
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "%s: %zu bytes of text, room for %zu", owner, w.at,
                            room);
}

copse_status copse_kernel_complete(copse_kernel_language language, const char *source, char *text,
                                   size_t room, size_t *needed)
{
    COPSE_TRY(copse_need("conformance: kernel text", source, needed));
    return complete_all("conformance", language, source, text, room, needed);
}

/* Whether the text contains the word as a separate token. */
static bool has_word(const char *text, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = text; (p = strstr(p, word)) != NULL; p++) {
        const bool starts = p == text || (!isalnum((unsigned char)p[-1]) && p[-1] != '_');
        const bool ends = !isalnum((unsigned char)p[length]) && p[length] != '_';
        if (starts && ends)
            return true;
    }
    return false;
}

static copse_status complete_text(const char *owner, struct copse_mem *mem, const char *source,
                                  char **text, size_t *length)
{
    size_t needed;
    COPSE_TRY(complete_all(owner, COPSE_KERNEL_CL_C, source, NULL, 0, &needed));
    *text = copse__alloc(mem, needed, 1);
    COPSE_TRY(copse_need_memory(*text, "%s", owner));
    *length = needed - 1;
    return complete_all(owner, COPSE_KERNEL_CL_C, source, *text, needed, &needed);
}

copse_status copse__code_text(const char *owner, struct copse_mem *mem, const char *entry,
                              const void *code, size_t size, char **text, size_t *length)
{
    char *source = copse__alloc(mem, size + 1, 1);
    *text = NULL;
    COPSE_TRY(copse_need_memory(source, "%s", owner));
    memcpy(source, code, size);
    const copse_status s =
        strlen(source) != size
            ? copse_fail(COPSE_ERR_FORMAT, "%s: the kernel is neither text nor SPIR-V", owner)
        : !has_word(source, entry)
            ? copse_fail(COPSE_ERR_FORMAT, "%s: the text has no kernel named '%s'", owner, entry)
            : complete_text(owner, mem, source, text, length);
    copse__free(mem, source);
    return s;
}

/* ---- SPIR-V ---- */

enum {
    OP_ENTRY_POINT = 15,
    OP_DECORATE = 71,
    MODEL_COMPUTE = 5,
    DECORATION_SPEC_ID = 1,
    DECORATION_BINDING = 33,
    DECORATION_SET = 34,
};

/* The shape of cooperative matrices, and the size of subgroups. */
static bool is_shape(const struct copse_kernel_row *row, uint32_t constant)
{
    return row->is_cooperative && constant >= 2 + COPSE_MAX_SPECS &&
           constant < 2 + COPSE_MAX_SPECS + 4;
}

/* Bindings missing from the layout are undefined behaviour in drivers, so they are checked here. */
static copse_status check_spirv(const char *owner, const uint32_t *words, size_t count,
                                const struct copse_kernel_row *row)
{
    bool has_main = false;
    if (count < 5 || words[0] != COPSE_SPIRV_MAGIC)
        return copse_fail(COPSE_ERR_FORMAT, "%s: damaged SPIR-V", owner);
    for (size_t at = 5; at < count;) {
        const uint32_t length = words[at] >> 16, op = words[at] & 0xffff;
        if (length == 0 || length > count - at)
            return copse_fail(COPSE_ERR_FORMAT, "%s: damaged SPIR-V at word %zu", owner, at);
        if (op == OP_ENTRY_POINT && length > 4 && words[at + 1] == MODEL_COMPUTE)
            has_main |= memcmp(&words[at + 3], "main", 5) == 0;
        if (op == OP_DECORATE && length > 3) {
            const uint32_t what = words[at + 2], value = words[at + 3];
            if (what == DECORATION_BINDING && value >= row->arg_count)
                return copse_fail(COPSE_ERR_FORMAT, "%s: binding %u, but %s has %u buffers", owner,
                                  value, row->name, row->arg_count);
            if (what == DECORATION_SET && value != 0)
                return copse_fail(COPSE_ERR_FORMAT, "%s: descriptor set %u; only set 0 is bound",
                                  owner, value);
            if (what == DECORATION_SPEC_ID && value >= 2u + row->spec_count &&
                !is_shape(row, value))
                return copse_fail(COPSE_ERR_FORMAT,
                                  "%s: constant_id %u, but %s has %u besides the group size", owner,
                                  value, row->name, row->spec_count);
        }
        at += length;
    }
    return has_main ? COPSE_OK
                    : copse_fail(COPSE_ERR_FORMAT,
                                 "%s: the SPIR-V has no compute entry point 'main'", owner);
}

copse_status copse__code_spirv(const char *owner, struct copse_mem *mem,
                               const struct copse_kernel_row *row, const void *code, size_t size,
                               uint32_t **words)
{
    *words = NULL;
    if (size % 4)
        return copse_fail(COPSE_ERR_FORMAT, "%s: SPIR-V of %zu bytes, not a multiple of 4", owner,
                          size);
    *words = copse__alloc(mem, size / sizeof(uint32_t), sizeof(uint32_t));
    COPSE_TRY(copse_need_memory(*words, "%s", owner));
    memcpy(*words, code, size);
    return check_spirv(owner, *words, size / sizeof(uint32_t), row);
}
