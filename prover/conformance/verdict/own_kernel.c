/* SPDX-License-Identifier: MIT */
/* A user kernel: a kernel row is made of its code. It replaces a library kernel, or that of a
   registered op; or it is another kernel, whose launch a file describes (own_launch.h). */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "prover/conformance/verdict/library.h"
#include "prover/conformance/verdict/own_launch.h"

struct copse_own_row {
    struct copse_user_kernel user; /* its row; the rest for a kernel with a description */
    struct copse_own_launch launch;
    bool is_described;
    uint32_t id;     /* then */
    char *text;      /* completed */
    uint32_t *words; /* SPIR-V */
};

/* ctx NULL: of any context. */
static const struct copse_kernel_row *find_row(const copse_context *ctx, const char *name,
                                               uint32_t *id)
{
    return name && copse__row_find(ctx, name, strlen(name), id) ? copse__row(*id) : NULL;
}

/* ---- the contract in words ---- */

static copse_status no_kernel(const char *kernel)
{
    char names[900] = "";
    for (size_t i = 0, at = 0; i < copse_kernel_count && at + 40 < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, " %s", copse_kernel_table[i].name);
    return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no kernel '%s'; there are%s", kernel,
                      names);
}

/* The text between the parentheses of a line that starts with `word`, on one line; "" if there is
   none. Vulkan-only kernels have no text. */
static const char *find_words(const struct copse_kernel_row *row, const char *word, char *out,
                              size_t room)
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
    uint32_t id;
    char words[1024], start[16];
    COPSE_TRY(copse__conform_library());
    COPSE_TRY(copse_need("conformance: contract", kernel, text));
    const struct copse_kernel_row *row = find_row(NULL, kernel, &id);
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
                       : copse_fail(COPSE_ERR_ARGUMENT,
                                    "conformance: no room for the contract of %s", row->name);
}

/* ---- the row ---- */

static copse_status take_text(copse_context *ctx, const struct copse_own_kernel *own,
                              struct copse_own_row *r)
{
    char entry[48];
    copse__kernel_entry(&r->user.row, entry);
    COPSE_TRY(copse__code_text("conformance", &ctx->base.mem, entry, own->code, own->size, &r->text,
                               &r->user.row.cl_size));
    r->user.row.cl_text = (const unsigned char *)r->text;
    return COPSE_OK;
}

static copse_status take_spirv(copse_context *ctx, const struct copse_own_kernel *own,
                               struct copse_own_row *r)
{
    COPSE_TRY(copse__code_spirv("conformance", &ctx->base.mem, &r->user.row, own->code, own->size,
                                &r->words));
    r->user.row.spirv = r->words;
    r->user.row.spirv_bytes = own->size;
    return COPSE_OK;
}

static copse_status take_code(copse_context *ctx, copse_device *dev,
                              const struct copse_own_kernel *own, struct copse_own_row *r,
                              uint32_t id, bool is_new)
{
    uint32_t magic;
    memcpy(&magic, own->code, sizeof magic);
    const bool is_spirv = magic == COPSE_SPIRV_MAGIC;
    COPSE_TRY(is_spirv ? take_spirv(ctx, own, r) : take_text(ctx, own, r));
    if (is_new)
        COPSE_TRY(copse__user_kernel_add(&r->user, &r->id));
    else
        COPSE_TRY(copse__kernel_override(dev, (enum copse_kernel_id)id, &r->user.row));
    return copse__kernel_fits(dev, (enum copse_kernel_id)(is_new ? r->id : id))
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT, "conformance: %s takes %s", dev->info.id,
                            is_spirv ? "kernel text, not SPIR-V" : "SPIR-V, not kernel text");
}

/* A row of its own, by the description. */
static copse_status own_kernel_describe(copse_context *ctx, const struct copse_own_kernel *own,
                                        struct copse_own_row *r)
{
    const struct copse_own_launch *o = &r->launch;
    struct copse_kernel_row *row = &r->user.row;
    COPSE_TRY(copse__own_launch_read(&ctx->base.mem, own, &r->launch));
    snprintf(r->user.name, sizeof r->user.name, "%s", o->kernel);
    r->user.ctx = ctx;
    *row = (struct copse_kernel_row){
        .name = r->user.name,
        .arg_count = (uint8_t)o->buffer_count,
        .spec_count = (uint8_t)o->spec_count,
        .param_words = (uint16_t)o->param_count,
        .group_x = (uint16_t)o->group[0],
        .group_y = (uint16_t)o->group[1],
        .law = &r->user.law,
    };
    for (uint32_t i = 0; i < o->buffer_count; i++)
        row->args[i] =
            (struct copse_kernel_arg){ o->buffers[i].is_whole ? COPSE_ARG_I32 : COPSE_ARG_F32,
                                       o->buffers[i].is_written };
    r->is_described = true;
    r->id = UINT32_MAX;
    return COPSE_OK;
}

copse_status copse__own_kernel_open(copse_context *ctx, copse_device *dev,
                                    const struct copse_own_kernel *own, struct copse_own_row **out)
{
    *out = NULL;
    uint32_t id = UINT32_MAX;
    const bool is_new = copse__own_launch_is(own);
    const struct copse_kernel_row *base = is_new ? NULL : find_row(ctx, own->kernel, &id);
    if (!base && !is_new)
        return no_kernel(own->kernel ? own->kernel : "");
    if (!own->code || own->size < 4)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no code for kernel '%s'", own->kernel);
    if (dev->info.kind == COPSE_DEVICE_REFERENCE)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "conformance: %s runs functions of the library only; check a "
                          "kernel on another device",
                          dev->info.id);
    struct copse_own_row *r = copse__alloc(&ctx->base.mem, 1, sizeof *r);
    if (!r)
        return copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory for a kernel");
    if (base)
        r->user.row = *base;
    copse_status s = is_new ? own_kernel_describe(ctx, own, r) : COPSE_OK;
    r->user.row.cl_text = NULL;
    r->user.row.cl_size = 0;
    r->user.row.spirv = NULL;
    r->user.row.spirv_bytes = 0;
    r->user.row.is_variant = true; /* the host computes nothing in its place */
    r->user.row.source_hash = copse__hash(COPSE_HASH_START, own->code, own->size);
    if (s == COPSE_OK)
        s = take_code(ctx, dev, own, r, id, is_new);
    if (s != COPSE_OK) {
        copse__own_kernel_close(ctx, &r);
        return s;
    }
    *out = r;
    return COPSE_OK;
}

const struct copse_own_launch *copse__own_row_launch(const struct copse_own_row *r, uint32_t *id)
{
    *id = r->id;
    return r->is_described ? &r->launch : NULL;
}

copse_status copse__own_kernel_was_used(copse_device *dev, const struct copse_own_row *r)
{
    return copse__kernel_is_compiled(dev, &r->user.row)
               ? COPSE_OK
               : copse_fail(
                     COPSE_ERR_ARGUMENT,
                     "conformance: none of the cases uses kernel %s; name its op with --ops, "
                     "or force it with --variant",
                     r->user.row.name);
}

void copse__own_kernel_close(copse_context *ctx, struct copse_own_row **row)
{
    if (!*row)
        return;
    if ((*row)->is_described && (*row)->id != UINT32_MAX)
        copse__user_kernel_remove((*row)->id);
    copse__free(&ctx->base.mem, (*row)->text);
    copse__free(&ctx->base.mem, (*row)->words);
    copse__free(&ctx->base.mem, *row);
    *row = NULL;
}
