/* SPDX-License-Identifier: MIT */
/* Keys and tensors of a GGUF file by name, and the values of keys. */
#include "core/state/gguf.h"

size_t copse__gguf_search(const copse_gguf_named *order, size_t count, const char *name)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int c = strcmp(*order[middle], name);
        if (c == 0)
            return middle;
        low = c < 0 ? middle + 1 : low;
        high = c < 0 ? high : middle;
    }
    return count;
}

/* ---- keys ---- */

const struct copse_gguf_key *copse_gguf_keys(const copse_gguf *file, size_t *count)
{
    if (count)
        *count = file ? file->key_count : 0;
    return file ? file->keys : NULL;
}

static size_t key_index(const copse_gguf *f, const char *name)
{
    const size_t i = copse__gguf_search(f->key_order, f->key_count, name);
    return i < f->key_count
               ? (size_t)((const struct copse_gguf_key *)(const void *)f->key_order[i] - f->keys)
               : f->key_count;
}

static void read_whole(const unsigned char *p, const struct copse_gguf_place *place,
                       struct copse_gguf_value *out)
{
    uint64_t bits = copse__gguf_bits(p, place->width);
    const uint64_t top = (uint64_t)1 << (8 * place->width - 1);
    const bool is_negative = place->is_signed && bits & top;
    if (!is_negative && bits > INT64_MAX) {
        out->whole = INT64_MAX;
        out->real = (double)bits;
        return;
    }
    if (is_negative)
        bits |= ~(top - 1) & ~top; /* the bits above repeat the sign */
    out->whole = is_negative ? -(int64_t)(~bits) - 1 : (int64_t)bits;
    out->real = (double)out->whole;
}

copse_status copse_gguf_get(const copse_gguf *file, const char *key, uint64_t index,
                            struct copse_gguf_value *out)
{
    COPSE_TRY(copse_need("gguf", file, key, out));
    *out = (struct copse_gguf_value){ .whole = 0 };
    const size_t i = key_index(file, key);
    if (i == file->key_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "gguf: %s has no key \"%.200s\"", file->path, key);
    if (index >= file->keys[i].count)
        return copse_fail(COPSE_ERR_ARGUMENT, "gguf: %s: \"%s\" has %llu values, not %llu",
                          file->path, file->keys[i].name, (unsigned long long)file->keys[i].count,
                          (unsigned long long)index + 1);
    const struct copse_gguf_place *place = &file->places[i];
    const unsigned char *p = file->bytes + place->at;
    out->kind = file->keys[i].kind;
    if (out->kind == COPSE_GGUF_TEXT) {
        p = file->bytes + (place->texts ? place->texts[index] : place->at);
        out->size = (size_t)copse__gguf_bits(p, 8);
        out->text = (const char *)p + 8;
        return COPSE_OK;
    }
    p += index * place->width;
    if (out->kind == COPSE_GGUF_REAL && place->width == 4) {
        const uint32_t bits = (uint32_t)copse__gguf_bits(p, 4);
        float real;
        memcpy(&real, &bits, sizeof real);
        out->real = (double)real;
    } else if (out->kind == COPSE_GGUF_REAL) {
        const uint64_t bits = copse__gguf_bits(p, 8);
        memcpy(&out->real, &bits, sizeof bits);
    } else {
        read_whole(p, place, out);
    }
    return COPSE_OK;
}

/* ---- tensors ---- */

const struct copse_gguf_tensor *copse_gguf_tensors(const copse_gguf *file, size_t *count)
{
    if (count)
        *count = file ? file->tensor_count : 0;
    return file ? file->tensors : NULL;
}

const struct copse_gguf_tensor *copse_gguf_find(const copse_gguf *file, const char *name)
{
    if (!file || !name)
        return NULL;
    const size_t i = copse__gguf_search(file->tensor_order, file->tensor_count, name);
    return i < file->tensor_count
               ? (const struct copse_gguf_tensor *)(const void *)file->tensor_order[i]
               : NULL;
}
