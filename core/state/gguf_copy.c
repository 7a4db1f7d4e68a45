/* SPDX-License-Identifier: MIT */
/* Copies a GGUF file with its keys and tensors. The caller gives other elements for some tensors. One
   tensor is in memory at a time. */
#include "core/base/files.h"
#include "core/base/platform.h"
#include "core/state/gguf.h"

#define COPY_BYTES   ((size_t)1 << 20)
#define TYPE_NUMBERS 256u

struct copying {
    copse_gguf *from;
    const struct copse_gguf_copy *how;
    FILE *to;
    unsigned char *buffer;
};

static uint32_t copy_number(const struct copying *c, size_t tensor)
{
    uint32_t number = 0;
    if (c->how->types[tensor] != COPSE_GGUF_AS_IT_IS)
        return c->how->types[tensor];
    while (number < TYPE_NUMBERS && copse__gguf_type(number) != c->from->data[tensor].type)
        number++;
    return number;
}

/* Bytes of a tensor in the copy. */
static uint64_t copy_bytes(const struct copying *c, size_t tensor)
{
    const struct copse_gguf_type *type = copse__gguf_type(copy_number(c, tensor));
    return c->from->tensors[tensor].elements / type->elements * type->bytes;
}

static bool copy_put(FILE *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++, value >>= 8)
        if (fputc((int)(value & 0xff), to) == EOF)
            return false;
    return true;
}

static bool copy_zeros(FILE *to, uint64_t count)
{
    for (; count > 0; count--)
        if (fputc(0, to) == EOF)
            return false;
    return true;
}

/* The keys as they are in the file, perhaps with another type of it. */
static bool copy_keys(const struct copying *c)
{
    const copse_gguf *f = c->from;
    const uint32_t width = 4;
    size_t end = f->keys_end;
    for (size_t i = 0; i < f->key_count; i++)
        if (c->how->file_type != COPSE_GGUF_AS_IT_IS &&
            strcmp(f->keys[i].name, "general.file_type") == 0 && !f->keys[i].is_list &&
            f->keys[i].kind == COPSE_GGUF_WHOLE && f->places[i].width == width)
            end = f->places[i].at;
    if (fwrite(f->bytes, 1, end, c->to) != end)
        return false;
    if (end == f->keys_end)
        return true;
    const size_t rest = f->keys_end - end - width;
    return copy_put(c->to, c->how->file_type, (int)width) &&
           fwrite(f->bytes + end + width, 1, rest, c->to) == rest;
}

static bool copy_description(const struct copying *c)
{
    const copse_gguf *f = c->from;
    const uint64_t alignment = f->alignment;
    uint64_t offset = 0, size = f->keys_end;
    bool ok = copy_keys(c);
    for (size_t i = 0; ok && i < f->tensor_count; i++) {
        const struct copse_gguf_tensor *t = &f->tensors[i];
        const size_t length = strlen(t->name);
        ok = copy_put(c->to, length, 8) && fwrite(t->name, 1, length, c->to) == length &&
             copy_put(c->to, t->rank, 4);
        for (uint32_t axis = t->rank; ok && axis-- > 0;)
            ok = copy_put(c->to, t->shape[axis], 8);
        ok = ok && copy_put(c->to, copy_number(c, i), 4) && copy_put(c->to, offset, 8);
        offset += copse__round_up(copy_bytes(c, i), alignment);
        size += 8 + length + 4 + 8 * (uint64_t)t->rank + 4 + 8;
    }
    return ok && copy_zeros(c->to, copse__round_up(size, alignment) - size);
}

static copse_status copy_failed(const char *path)
{
    return copse_fail(COPSE_ERR_IO, "gguf: cannot write %s: is the disk full?", path);
}

static copse_status copy_unchanged(const struct copying *c, size_t tensor, const char *path)
{
    const copse_gguf *f = c->from;
    uint64_t left = f->tensors[tensor].bytes;
    if (!copse__file_seek(f->stream, f->data_begin + f->data[tensor].begin))
        return copse_fail(COPSE_ERR_IO, "gguf: cannot read %s", f->path);
    for (size_t n; left > 0; left -= n) {
        n = (size_t)COPSE_MIN((uint64_t)COPY_BYTES, left);
        if (fread(c->buffer, 1, n, f->stream) != n)
            return copse_fail(COPSE_ERR_IO, "gguf: cannot read %s: %s", f->path,
                              ferror(f->stream) ? "the system reports an error"
                                                : "it changed meanwhile");
        if (fwrite(c->buffer, 1, n, c->to) != n)
            return copy_failed(path);
    }
    return COPSE_OK;
}

static copse_status copy_tensor(const struct copying *c, size_t tensor, const char *path)
{
    const uint64_t bytes = copy_bytes(c, tensor);
    const void *data = NULL;
    if (c->how->types[tensor] == COPSE_GGUF_AS_IT_IS) {
        COPSE_TRY(copy_unchanged(c, tensor, path));
    } else {
        COPSE_TRY(c->how->elements(c->how->user, tensor, &data));
        if (fwrite(data, 1, (size_t)bytes, c->to) != bytes)
            return copy_failed(path);
    }
    return copy_zeros(c->to, copse__round_up(bytes, c->from->alignment) - bytes)
               ? COPSE_OK
               : copy_failed(path);
}

copse_status copse__gguf_copy(copse_gguf *from, const char *path, const struct copse_gguf_copy *how)
{
    struct copse_mem *mem = from->arena.mem;
    struct copse_atomic_file file = { 0 };
    struct copying c = { .from = from, .how = how };
    c.buffer = copse__alloc(mem, COPY_BYTES, 1);
    COPSE_TRY(copse_need_memory(c.buffer, "gguf: %s", path));
    copse_status s = copse__atomic_open(&file, mem, path);
    c.to = file.stream;
    if (s == COPSE_OK && !copy_description(&c))
        s = copy_failed(path);
    for (size_t i = 0; s == COPSE_OK && i < from->tensor_count; i++)
        s = copy_tensor(&c, i, path);
    if (s == COPSE_OK)
        s = copse__atomic_commit(&file);
    copse__atomic_abort(&file);
    copse__free(mem, c.buffer);
    return s;
}
