/* SPDX-License-Identifier: MIT */
/* Files of the GGUF format: opened, and their tensors read as f32. The description is kept as it is
   in the file; gguf_description.c finds what is in it. */
#include "core/state/gguf.h"

#include "core/base/files.h"
#include "core/data/array.h"

#define READ_BYTES ((size_t)1 << 20) /* of a file at once, about */

/* ---- the file ---- */

copse_status copse_gguf_open(copse_context *ctx, const char *path, copse_gguf **out)
{
    COPSE_TRY(copse_need("gguf", out));
    *out = NULL;
    COPSE_TRY(copse_need("gguf", ctx, path));
    struct copse_mem *mem = &copse__base(ctx)->mem;
    copse_gguf *f = copse__alloc(mem, 1, sizeof *f);
    if (!f)
        return copse_no_memory("gguf: %s", path);
    atomic_init(&f->refs, 1);
    f->ctx = copse_context_retain(ctx);
    f->arena.mem = mem;
    copse_status s = copse_need_memory(f->path = copse__arena_strdup(&f->arena, path), "gguf");
    if (s == COPSE_OK)
        s = copse__file_open(path, &f->stream, &f->file_bytes);
    if (s == COPSE_OK)
        s = copse__gguf_describe(f);
    if (s != COPSE_OK)
        copse_gguf_release(&f);
    *out = f;
    return s;
}

copse_gguf *copse_gguf_retain(copse_gguf *file)
{
    if (file)
        copse__ref(&file->refs);
    return file;
}

void copse_gguf_release(copse_gguf **file)
{
    copse_gguf *f = file ? *file : NULL;
    if (!f)
        return;
    *file = NULL;
    if (!copse__unref(&f->refs))
        return;
    copse_context *ctx = f->ctx;
    struct copse_mem *mem = f->arena.mem;
    if (f->stream)
        fclose(f->stream);
    copse__free(mem, f->bytes);
    copse__arena_fini(&f->arena);
    copse__free(mem, f);
    copse_context_release(&ctx);
}

/* ---- elements ---- */

/* Blocks of a tensor, in order. */
typedef void take_blocks(void *to, const struct copse_gguf_type *type, const unsigned char *blocks,
                         size_t count);

static copse_status read_blocks(copse_gguf *f, const struct copse_gguf_tensor *t, take_blocks *take,
                                void *to)
{
    const struct copse_gguf_data *data = &f->data[t - f->tensors];
    const struct copse_gguf_type *type = data->type;
    const size_t most = READ_BYTES / type->bytes;
    uint64_t left = t->elements / type->elements;
    if (!copse__file_seek(f->stream, f->data_begin + data->begin))
        return copse_fail(COPSE_ERR_IO, "gguf: cannot read %s", f->path);
    unsigned char *buffer = copse__alloc(f->arena.mem, READ_BYTES, 1);
    if (!buffer)
        return copse_no_memory("gguf: %s", f->path);
    copse_status s = COPSE_OK;
    for (size_t n; left > 0 && s == COPSE_OK; left -= n) {
        n = (size_t)COPSE_MIN((uint64_t)most, left);
        if (fread(buffer, type->bytes, n, f->stream) == n)
            take(to, type, buffer, n);
        else
            s = copse_fail(COPSE_ERR_IO, "gguf: cannot read %s: %s", f->path,
                           ferror(f->stream) ? "the system reports an error"
                                             : "it changed meanwhile");
    }
    copse__free(f->arena.mem, buffer);
    return s;
}

static void take_values(void *to, const struct copse_gguf_type *type, const unsigned char *blocks,
                        size_t count)
{
    float **values = to;
    for (size_t i = 0; i < count; i++, *values += type->elements)
        copse__gguf_values(type, blocks + i * type->bytes, *values);
}

copse_status copse_gguf_read(copse_gguf *file, const char *name, float *values, size_t count)
{
    COPSE_TRY(copse_need("gguf", file, name, values));
    const struct copse_gguf_tensor *t = copse_gguf_find(file, name);
    if (!t)
        return copse_fail(COPSE_ERR_ARGUMENT, "gguf: %s has no tensor \"%.200s\"", file->path,
                          name);
    if (count != t->elements)
        return copse_fail(COPSE_ERR_ARGUMENT, "gguf: %s: \"%s\" has %llu elements, not %zu",
                          file->path, t->name, (unsigned long long)t->elements, count);
    if (!t->is_readable)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "gguf: %s: \"%s\" has the type %s, which is not read; files of the types "
                          "Q4_K_M, Q6_K, Q8_0 and F16 are",
                          file->path, t->name, t->type);
    return read_blocks(file, t, take_values, &values);
}

/* ---- quantised numbers ---- */

bool copse__gguf_packing(const copse_gguf *file, const char *name, struct copse_gguf_packing *out)
{
    const struct copse_gguf_tensor *t = copse_gguf_find(file, name);
    const struct copse_gguf_type *type = t ? file->data[t - file->tensors].type : NULL;
    if (!type || !type->split)
        return false;
    *out = (struct copse_gguf_packing){ type->bits, type->group, type->has_offsets };
    return true;
}

/* `to` moves on. */
static void pack_block(struct copse_gguf_packed *to, const struct copse_gguf_type *type,
                       const struct copse_gguf_parts *parts)
{
    const int lowest = type->has_offsets ? 0 : -(1 << (type->bits - 1));
    for (uint32_t i = 0; i < type->elements; i += 32 / type->bits) {
        uint32_t word = 0;
        for (uint32_t k = 0; k < 32 / type->bits; k++)
            word |= (uint32_t)(parts->numbers[i + k] - lowest) << (k * type->bits);
        *to->words++ = word;
    }
    for (uint32_t i = 0; i < type->elements / type->group; i++) {
        *to->scales++ = parts->scales[i];
        if (type->has_offsets)
            *to->offsets++ = parts->offsets[i];
    }
}

static void take_packed(void *to, const struct copse_gguf_type *type, const unsigned char *blocks,
                        size_t count)
{
    struct copse_gguf_parts parts;
    for (size_t i = 0; i < count; i++) {
        type->split(blocks + i * type->bytes, &parts);
        pack_block(to, type, &parts);
    }
}

copse_status copse__gguf_read_packed(copse_gguf *file, const char *name,
                                     const struct copse_gguf_packed *to)
{
    struct copse_gguf_packed p = *to;
    return read_blocks(file, copse_gguf_find(file, name), take_packed, &p);
}
