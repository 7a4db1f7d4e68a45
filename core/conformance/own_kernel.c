/* SPDX-License-Identifier: MIT */
/* A user kernel that replaces a library kernel: its text is completed with the dialect, or its SPIR-V is parsed as
   far as the contract requires, and a kernel row is made of it. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/conformance/conformance.h"

struct copse_own_row {
    struct copse_kernel_row row;
    char *text;      /* completed */
    uint32_t *words; /* SPIR-V */
};

static const struct copse_kernel_row *find_row(const char *name, enum copse_kernel_id *id)
{
    for (size_t i = 0; name && i < copse_kernel_count; i++)
        if (strcmp(copse_kernel_table[i].name, name) == 0) {
            *id = (enum copse_kernel_id)i;
            return &copse_kernel_table[i];
        }
    return NULL;
}

/* ---- the contract in words ---- */

static copse_status no_kernel(const char *kernel)
{
    char names[900] = "";
    for (size_t i = 0, at = 0; i < copse_kernel_count && at + 40 < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, " %s", copse_kernel_table[i].name);
    return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no kernel '%s'; there are%s", kernel, names);
}

/* The text between the parentheses of a line that starts with `word`, on one line; "" if there is none. Vulkan-only kernels
   have no text. */
static const char *find_words(const struct copse_kernel_row *row, const char *word, char *out, size_t room)
{
    const char *text = (const char *)row->cl_text, *from = text ? strstr(text, word) : NULL;
    size_t at = 0;
    for (from = from ? from + strlen(word) : ""; *from && *from != ')' && at + 1 < room; from++) {
        const bool is_space = *from == ' ' || *from == '\n';
        if (!is_space || (at > 0 && out[at - 1] != ' '))
            out[at++] = is_space ? ' ' : *from;
    }
    out[at] = '\0';
    return out;
}

struct lines {
    char *text;
    size_t room, at;
};

static void add_line(struct lines *l, const char *fmt, ...) COPSE_PRINTF(2, 3);
static void add_line(struct lines *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int size = l->at < l->room ? vsnprintf(l->text + l->at, l->room - l->at, fmt, args) : 0;
    va_end(args);
    l->at += size > 0 ? (size_t)size : 0;
}

copse_status copse_kernel_contract(const char *kernel, char *text, size_t room)
{
    enum copse_kernel_id id;
    char words[1024], start[16];
    COPSE_TRY(copse_need("conformance: contract", kernel, text));
    const struct copse_kernel_row *row = find_row(kernel, &id);
    struct lines l = { text, room, 0 };
    if (!row)
        return no_kernel(kernel);
    add_line(&l, "kernel %s\n", row->name);
    for (uint32_t i = 0; i < row->arg_count; i++)
        add_line(&l, "  buffer %u: %s, %s\n", i,
                 row->args[i].kind == COPSE_ARG_I32     ? "int or uint"
                 : row->args[i].kind == COPSE_ARG_TEXEL ? "rgba32f texels"
                                                        : "real or float",
                 row->args[i].is_written ? "written" : "read");
    add_line(&l, "  parameters: %u words of 4 bytes, then group_base\n", row->param_words);
    if (*find_words(row, "\nPARAMS(", words, sizeof words))
        add_line(&l, "    %s\n", words);
    add_line(&l, "  specialisation constants: %u\n", row->spec_count);
    for (uint32_t i = 0; i < row->spec_count; i++) {
        snprintf(start, sizeof start, "\nSPEC(%u,", i);
        if (*find_words(row, start, words, sizeof words))
            add_line(&l, "    %u: %s\n", i, words);
    }
    add_line(&l, "  group: %u x %u\n", row->group_x, row->group_y);
    return l.at < room ? COPSE_OK
                       : copse_fail(COPSE_ERR_ARGUMENT, "conformance: no room for the contract of %s", row->name);
}

/* ---- text in the dialect ---- */

struct writer {
    char *text; /* NULL: only count */
    size_t room, at;
};

static void put(struct writer *w, const char *bytes, size_t size)
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
static const char *included(const char *line, size_t length, size_t *name_length)
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
    put(w, text, (size_t)size);
}

static copse_status complete(struct writer *w, const char *source, bool is_own, int depth)
{
    size_t number = 1;
    if (is_own)
        put_line(w, number);
    if (depth > 8)
        return copse_fail(COPSE_ERR_FORMAT, "conformance: includes go deeper than 8");
    for (const char *line = source; *line;) {
        const char *end = strchr(line, '\n');
        const size_t length = end ? (size_t)(end - line) : strlen(line);
        size_t name_length;
        const char *name = included(line, length, &name_length);
        if (name) {
            const char *text = dialect_file(name, name_length);
            if (!text)
                return copse_fail(COPSE_ERR_FORMAT,
                                  "conformance: '%.*s' is not a file of the dialect",
                                  (int)COPSE_MIN(name_length, 80), name);
            COPSE_TRY(complete(w, text, false, depth + 1));
        } else {
            put(w, line, length);
        }
        put(w, "\n", 1);
        number++;
        if (name && is_own)
            put_line(w, number);
        line += length + (end != NULL);
    }
    return COPSE_OK;
}

copse_status copse_kernel_complete(copse_kernel_language language, const char *source, char *text,
                                   size_t room, size_t *needed)
{
    static const char version[] = "#version 450\n";
    struct writer w = { text, room, 0 };
    COPSE_TRY(copse_need("conformance: kernel text", source, needed));
    if (language == COPSE_KERNEL_GLSL)
        put(&w, version, sizeof version - 1);
    const char *prelude = language == COPSE_KERNEL_GLSL ? dialect_file("prelude.glsl", 12)
                                                        : dialect_file("prelude.clh", 11);
    COPSE_TRY(complete(&w, prelude ? prelude : "", false, 0));
    COPSE_TRY(complete(&w, source, true, 0));
    put(&w, "", 1);
    *needed = w.at;
    return !text || w.at <= room
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "conformance: %zu bytes of text, room for %zu",
                            w.at, room);
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

static copse_status take_text(copse_context *ctx, const struct copse_own_kernel *own,
                              struct copse_own_row *r)
{
    struct copse_mem *mem = &ctx->base.mem;
    char *source = copse__alloc(mem, own->size + 1, 1);
    size_t needed;
    if (!source)
        return copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory for a kernel");
    memcpy(source, own->code, own->size);
    copse_status s = COPSE_OK;
    if (strlen(source) != own->size)
        s = copse_fail(COPSE_ERR_FORMAT, "conformance: the kernel is neither text nor SPIR-V");
    else if (!has_word(source, own->kernel))
        s = copse_fail(COPSE_ERR_FORMAT, "conformance: the text has no kernel named '%s'",
                       own->kernel);
    if (s == COPSE_OK)
        s = copse_kernel_complete(COPSE_KERNEL_CL_C, source, NULL, 0, &needed);
    if (s == COPSE_OK && (r->text = copse__alloc(mem, needed, 1)) == NULL)
        s = copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory for a kernel");
    if (s == COPSE_OK)
        s = copse_kernel_complete(COPSE_KERNEL_CL_C, source, r->text, needed, &needed);
    copse__free(mem, source);
    if (s == COPSE_OK) {
        r->row.cl_text = (const unsigned char *)r->text;
        r->row.cl_size = needed - 1;
    }
    return s;
}

/* ---- SPIR-V ---- */

enum {
    SPIRV_MAGIC = 0x07230203,
    OP_ENTRY_POINT = 15,
    OP_DECORATE = 71,
    MODEL_COMPUTE = 5,
    DECORATION_SPEC_ID = 1,
    DECORATION_BINDING = 33,
    DECORATION_SET = 34,
};

/* Bindings missing from the layout are undefined behaviour in drivers, so they are checked here. */
static copse_status check_spirv(const uint32_t *words, size_t count,
                                const struct copse_kernel_row *row)
{
    bool has_main = false;
    if (count < 5 || words[0] != SPIRV_MAGIC)
        return copse_fail(COPSE_ERR_FORMAT, "conformance: damaged SPIR-V");
    for (size_t at = 5; at < count;) {
        const uint32_t length = words[at] >> 16, op = words[at] & 0xffff;
        if (length == 0 || length > count - at)
            return copse_fail(COPSE_ERR_FORMAT, "conformance: damaged SPIR-V at word %zu", at);
        if (op == OP_ENTRY_POINT && length > 4 && words[at + 1] == MODEL_COMPUTE)
            has_main |= memcmp(&words[at + 3], "main", 5) == 0;
        if (op == OP_DECORATE && length > 3) {
            const uint32_t what = words[at + 2], value = words[at + 3];
            if (what == DECORATION_BINDING && value >= row->arg_count)
                return copse_fail(COPSE_ERR_FORMAT, "conformance: binding %u, but %s has %u buffers",
                                  value, row->name, row->arg_count);
            if (what == DECORATION_SET && value != 0)
                return copse_fail(COPSE_ERR_FORMAT, "conformance: descriptor set %u; only set 0 is "
                                                    "bound", value);
            if (what == DECORATION_SPEC_ID && value >= 2u + row->spec_count)
                return copse_fail(COPSE_ERR_FORMAT,
                                  "conformance: constant_id %u, but %s has %u besides the group size",
                                  value, row->name, row->spec_count);
        }
        at += length;
    }
    return has_main ? COPSE_OK
                    : copse_fail(COPSE_ERR_FORMAT, "conformance: the SPIR-V has no compute entry "
                                                   "point 'main'");
}

static copse_status take_spirv(copse_context *ctx, const struct copse_own_kernel *own,
                               struct copse_own_row *r)
{
    if (own->size % 4)
        return copse_fail(COPSE_ERR_FORMAT, "conformance: SPIR-V of %zu bytes, not a multiple of 4",
                          own->size);
    r->words = copse__alloc(&ctx->base.mem, own->size / sizeof(uint32_t), sizeof(uint32_t));
    if (!r->words)
        return copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory for a kernel");
    memcpy(r->words, own->code, own->size);
    COPSE_TRY(check_spirv(r->words, own->size / sizeof(uint32_t), &r->row));
    r->row.spirv = r->words;
    r->row.spirv_bytes = own->size;
    return COPSE_OK;
}

/* ---- the row ---- */

copse_status copse__own_kernel_open(copse_context *ctx, copse_device *dev,
                                    const struct copse_own_kernel *own, struct copse_own_row **out)
{
    *out = NULL;
    enum copse_kernel_id id;
    const struct copse_kernel_row *base = find_row(own->kernel, &id);
    if (!base)
        return no_kernel(own->kernel ? own->kernel : "");
    if (!own->code || own->size < 4)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no code for kernel '%s'", own->kernel);
    if (dev->info.kind == COPSE_DEVICE_REFERENCE)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: %s runs functions of the library only; check a "
                                              "kernel on another device", dev->info.id);
    struct copse_own_row *r = copse__alloc(&ctx->base.mem, 1, sizeof *r);
    if (!r)
        return copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory for a kernel");
    r->row = *base;
    r->row.cl_text = NULL;
    r->row.cl_size = 0;
    r->row.spirv = NULL;
    r->row.spirv_bytes = 0;
    r->row.host = NULL;
    r->row.source_hash = copse__hash(COPSE_HASH_START, own->code, own->size);
    uint32_t magic;
    memcpy(&magic, own->code, sizeof magic);
    copse_status s = magic == SPIRV_MAGIC ? take_spirv(ctx, own, r) : take_text(ctx, own, r);
    if (s == COPSE_OK)
        s = copse__kernel_override(dev, id, &r->row);
    if (s == COPSE_OK && !copse__kernel_fits(dev, id))
        s = copse_fail(COPSE_ERR_FORMAT, "conformance: %s takes %s", dev->info.id,
                       magic == SPIRV_MAGIC ? "kernel text, not SPIR-V" : "SPIR-V, not kernel text");
    if (s != COPSE_OK) {
        copse__own_kernel_close(ctx, &r);
        return s;
    }
    *out = r;
    return COPSE_OK;
}

copse_status copse__own_kernel_was_used(copse_device *dev, const struct copse_own_row *r)
{
    return copse__kernel_is_compiled(dev, &r->row)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "conformance: none of the cases uses kernel %s; name its op with --ops, "
                            "or force it with --variant", r->row.name);
}

void copse__own_kernel_close(copse_context *ctx, struct copse_own_row **row)
{
    if (!*row)
        return;
    copse__free(&ctx->base.mem, (*row)->text);
    copse__free(&ctx->base.mem, (*row)->words);
    copse__free(&ctx->base.mem, *row);
    *row = NULL;
}
