/* SPDX-License-Identifier: MIT */
/* The description of a GGUF file: magic, version, keys with values, tensors. It is read in pieces,
   as far as its own counts say, so that a file takes memory only for bytes that it has. */
#include <stdlib.h>

#include "core/state/gguf.h"

#define PIECE ((size_t)64 << 10)

/* ---- bytes ---- */

struct description {
    copse_gguf *f;
    size_t have, room, at;
};

#define description_fail(...) copse_fail(COPSE_ERR_FORMAT, "gguf: " __VA_ARGS__)

/* Have the next `size` bytes in memory. */
static copse_status take_bytes(struct description *d, uint64_t size, size_t *at)
{
    copse_gguf *f = d->f;
    if (size > f->file_bytes - d->at)
        return description_fail("%s ends before its description, at byte %llu", f->path,
                                (unsigned long long)f->file_bytes);
    if (size > COPSE_GGUF_DESCRIPTION_MAX - d->at)
        return description_fail("%s: the description has more than %zu bytes", f->path,
                                COPSE_GGUF_DESCRIPTION_MAX);
    *at = d->at;
    d->at += (size_t)size;
    if (d->at <= d->have)
        return COPSE_OK;
    const size_t whole = (size_t)COPSE_MIN(f->file_bytes, (uint64_t)COPSE_GGUF_DESCRIPTION_MAX);
    if (d->at > d->room) {
        const size_t room = COPSE_MIN(COPSE_MAX(d->at + PIECE, d->room + d->room / 2), whole);
        unsigned char *grown = copse__resize(f->arena.mem, f->bytes, room, 1);
        if (!grown)
            return copse_no_memory("gguf: %s", f->path);
        f->bytes = grown;
        d->room = room;
    }
    if (fread(f->bytes + d->have, 1, d->room - d->have, f->stream) != d->room - d->have)
        return copse_fail(COPSE_ERR_IO, "gguf: cannot read %s: %s", f->path,
                          ferror(f->stream) ? "the system reports an error"
                                            : "it changed meanwhile");
    d->have = d->room;
    return COPSE_OK;
}

static copse_status take_number(struct description *d, uint32_t width, uint64_t *out)
{
    size_t at;
    COPSE_TRY(take_bytes(d, width, &at));
    *out = copse__gguf_bits(d->f->bytes + at, width);
    return COPSE_OK;
}

static copse_status take_text(struct description *d, size_t *at, size_t *size)
{
    uint64_t n;
    COPSE_TRY(take_number(d, 8, &n));
    COPSE_TRY(take_bytes(d, n, at));
    *size = (size_t)n;
    return COPSE_OK;
}

static copse_status take_name(struct description *d, const char *what, const char **out)
{
    size_t at, size;
    COPSE_TRY(take_text(d, &at, &size));
    const char *text = (const char *)d->f->bytes + at;
    if (size == 0 || size > COPSE_GGUF_NAME_MAX || copse__utf8_valid(text, size) != size)
        return description_fail("%s: the name of a %s at byte %zu is not 1 to %u bytes of UTF-8",
                                d->f->path, what, at, COPSE_GGUF_NAME_MAX);
    char *name = copse__arena_alloc(&d->f->arena, size + 1, 1);
    if (!name)
        return copse_no_memory("gguf: %s", d->f->path);
    memcpy(name, text, size);
    *out = name;
    return COPSE_OK;
}

/* ---- keys ---- */

enum { VALUE_TEXT = 8, VALUE_LIST = 9 };
static const struct value_form {
    copse_gguf_kind kind;
    uint32_t width; /* 0: no number */
    bool is_signed;
} value_forms[] = {
    { COPSE_GGUF_WHOLE, 1, false }, { COPSE_GGUF_WHOLE, 1, true },  { COPSE_GGUF_WHOLE, 2, false },
    { COPSE_GGUF_WHOLE, 2, true },  { COPSE_GGUF_WHOLE, 4, false }, { COPSE_GGUF_WHOLE, 4, true },
    { COPSE_GGUF_REAL, 4, true },   { COPSE_GGUF_BOOL, 1, false },  { COPSE_GGUF_TEXT, 0, false },
    { COPSE_GGUF_TEXT, 0, false }, /* a list: of another form */
    { COPSE_GGUF_WHOLE, 8, false }, { COPSE_GGUF_WHOLE, 8, true },  { COPSE_GGUF_REAL, 8, true },
};

/* The texts of a list: each has at least the 8 bytes of its size. */
static copse_status take_texts(struct description *d, const char *key, uint64_t count,
                               uint32_t **out)
{
    size_t at, size;
    const uint64_t whole = COPSE_MIN(d->f->file_bytes, (uint64_t)COPSE_GGUF_DESCRIPTION_MAX);
    if (count > (whole - d->at) / 8)
        return description_fail("%s: \"%s\" has %llu texts, more than %s has bytes for", d->f->path,
                                key, (unsigned long long)count,
                                whole < d->f->file_bytes ? "a description" : "the file");
    *out = copse__arena_alloc(&d->f->arena, (size_t)count, sizeof **out);
    if (!*out)
        return copse_no_memory("gguf: %s", d->f->path);
    for (size_t i = 0; i < count; i++) {
        COPSE_TRY(take_text(d, &at, &size));
        (*out)[i] = (uint32_t)(at - 8);
    }
    return COPSE_OK;
}

static copse_status take_values(struct description *d, const struct copse_gguf_key *key,
                                struct copse_gguf_place *place)
{
    size_t size;
    if (key->kind == COPSE_GGUF_TEXT && key->is_list)
        return take_texts(d, key->name, key->count, &place->texts);
    if (key->kind == COPSE_GGUF_TEXT) {
        COPSE_TRY(take_text(d, &place->at, &size));
        place->at -= 8;
        return COPSE_OK;
    }
    if (key->count > d->f->file_bytes / place->width)
        return description_fail("%s: \"%s\" has %llu values, more than the file has bytes for",
                                d->f->path, key->name, (unsigned long long)key->count);
    COPSE_TRY(take_bytes(d, key->count * place->width, &place->at));
    for (uint64_t i = 0; key->kind == COPSE_GGUF_BOOL && i < key->count; i++)
        if (d->f->bytes[place->at + i] > 1)
            return description_fail("%s: \"%s\" is neither true nor false", d->f->path, key->name);
    return COPSE_OK;
}

static copse_status take_key(struct description *d, struct copse_gguf_key *key,
                             struct copse_gguf_place *place)
{
    uint64_t form;
    COPSE_TRY(take_name(d, "key", &key->name));
    COPSE_TRY(take_number(d, 4, &form));
    key->is_list = form == VALUE_LIST;
    key->count = 1;
    if (key->is_list) {
        COPSE_TRY(take_number(d, 4, &form));
        COPSE_TRY(take_number(d, 8, &key->count));
    }
    if (form >= COPSE_COUNT(value_forms) || form == VALUE_LIST)
        return description_fail("%s: \"%s\" has values of the form %llu, which the format %s",
                                d->f->path, key->name, (unsigned long long)form,
                                form == VALUE_LIST ? "allows, but no model needs" : "lacks");
    key->kind = value_forms[form].kind;
    place->width = value_forms[form].width;
    place->is_signed = value_forms[form].is_signed;
    return take_values(d, key, place);
}

/* ---- tensors ---- */

/* Sizes in the file begin with the contiguous axis. */
static copse_status take_tensor(struct description *d, struct copse_gguf_tensor *t,
                                struct copse_gguf_data *data)
{
    uint64_t rank, dim, type;
    COPSE_TRY(take_name(d, "tensor", &t->name));
    COPSE_TRY(take_number(d, 4, &rank));
    if (rank < 1 || rank > COPSE_COUNT(t->shape))
        return description_fail("%s: the tensor \"%s\" has %llu axes; it may have 1 to %zu",
                                d->f->path, t->name, (unsigned long long)rank,
                                COPSE_COUNT(t->shape));
    t->rank = (uint32_t)rank;
    t->elements = 1;
    for (uint32_t i = t->rank; i-- > 0;) {
        COPSE_TRY(take_number(d, 8, &dim));
        if (dim == 0 || dim > d->f->file_bytes * COPSE_GGUF_BLOCK_MAX / t->elements)
            return description_fail("%s: the tensor \"%s\" is empty or larger than the file",
                                    d->f->path, t->name);
        t->shape[i] = dim;
        t->elements *= dim;
    }
    COPSE_TRY(take_number(d, 4, &type));
    data->type = type <= UINT32_MAX ? copse__gguf_type((uint32_t)type) : NULL;
    if (!data->type)
        return description_fail("%s: the tensor \"%s\" has the unknown type %llu", d->f->path,
                                t->name, (unsigned long long)type);
    if (t->shape[t->rank - 1] % data->type->elements)
        return description_fail("%s: the tensor \"%s\" has rows of %llu elements, and %s has "
                                "blocks of %u",
                                d->f->path, t->name, (unsigned long long)t->shape[t->rank - 1],
                                data->type->name, data->type->elements);
    t->type = data->type->name;
    t->bytes = t->elements / data->type->elements * data->type->bytes;
    t->is_readable = data->type->read || data->type->split;
    return take_number(d, 8, &data->begin);
}

/* ---- order ---- */

static int by_name(const void *a, const void *b)
{
    const copse_gguf_named *x = a, *y = b;
    return strcmp(**x, **y);
}

/* Sort the structs, `size` bytes each, by name; no name may be there twice. */
static copse_status sort_names(copse_gguf *f, const void *structs, size_t count, size_t size,
                               const char *what, copse_gguf_named **out)
{
    copse_gguf_named *order = copse__arena_alloc(&f->arena, count, sizeof *order);
    if (!order)
        return copse_no_memory("gguf: %s", f->path);
    for (size_t i = 0; i < count; i++)
        order[i] = (copse_gguf_named)(const void *)((const char *)structs + i * size);
    if (count > 1)
        qsort(order, count, sizeof *order, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(*order[i - 1], *order[i]) == 0)
            return copse_fail(COPSE_ERR_FORMAT, "gguf: %s: the %s \"%s\" is there twice", f->path,
                              what, *order[i]);
    *out = order;
    return COPSE_OK;
}

struct stretch {
    uint64_t begin, end;
    const char *name;
};

static int by_begin(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1)
                                : (x->end > y->end) - (x->end < y->end);
}

static copse_status check_stretches(const copse_gguf *f, struct stretch *list)
{
    if (f->tensor_count > 1)
        qsort(list, f->tensor_count, sizeof *list, by_begin);
    for (size_t i = 1; i < f->tensor_count; i++)
        if (list[i].begin < list[i - 1].end)
            return copse_fail(COPSE_ERR_FORMAT, "gguf: %s: the tensors \"%s\" and \"%s\" overlap",
                              f->path, list[i - 1].name, list[i].name);
    return COPSE_OK;
}

/* Each tensor is in the file, aligned, and shares no byte with another one. */
static copse_status check_places(copse_gguf *f)
{
    const uint64_t alignment = f->alignment;
    const uint64_t room = f->file_bytes > f->data_begin ? f->file_bytes - f->data_begin : 0;
    for (size_t i = 0; i < f->tensor_count; i++) {
        const uint64_t begin = f->data[i].begin, bytes = f->tensors[i].bytes;
        if (begin % alignment)
            return copse_fail(COPSE_ERR_FORMAT,
                              "gguf: %s: the tensor \"%s\" begins at byte %llu of the data, which "
                              "is not a multiple of %llu",
                              f->path, f->tensors[i].name, (unsigned long long)begin,
                              (unsigned long long)alignment);
        if (begin > room || bytes > room - begin)
            return copse_fail(COPSE_ERR_FORMAT,
                              "gguf: %s ends before the tensor \"%s\": is the file complete?",
                              f->path, f->tensors[i].name);
    }
    struct stretch *list = copse__alloc(f->arena.mem, f->tensor_count, sizeof *list);
    if (!list)
        return copse_no_memory("gguf: %s", f->path);
    for (size_t i = 0; i < f->tensor_count; i++)
        list[i] = (struct stretch){ .begin = f->data[i].begin,
                                    .end = f->data[i].begin + f->tensors[i].bytes,
                                    .name = f->tensors[i].name };
    const copse_status s = check_stretches(f, list);
    copse__free(f->arena.mem, list);
    return s;
}

static copse_status find_alignment(const copse_gguf *f, uint64_t *out)
{
    struct copse_gguf_value v = { .whole = 32 };
    if (copse__gguf_search(f->key_order, f->key_count, "general.alignment") < f->key_count)
        COPSE_TRY(copse_gguf_get(f, "general.alignment", 0, &v));
    *out = (uint64_t)v.whole;
    if (v.kind != COPSE_GGUF_WHOLE || v.whole < 1 || v.whole > 1 << 20 || *out & (*out - 1))
        return copse_fail(COPSE_ERR_FORMAT,
                          "gguf: %s: \"general.alignment\" is not a power of two up to 2^20",
                          f->path);
    return COPSE_OK;
}

/* ---- all ---- */

static copse_status take_head(struct description *d, uint64_t *tensors, uint64_t *keys)
{
    uint64_t magic, version;
    copse_gguf *f = d->f;
    if (f->file_bytes < 24)
        return description_fail("%s has only %llu bytes", f->path,
                                (unsigned long long)f->file_bytes);
    COPSE_TRY(take_number(d, 4, &magic));
    COPSE_TRY(take_number(d, 4, &version));
    if (magic != 0x46554747u)
        return description_fail("%s does not begin with \"GGUF\"", f->path);
    if (version != 2 && version != 3)
        return description_fail("%s has version %llu%s; 2 and 3 are read", f->path,
                                (unsigned long long)version,
                                version && version % 65536 == 0 ? " (big-endian?)" : "");
    COPSE_TRY(take_number(d, 8, tensors));
    COPSE_TRY(take_number(d, 8, keys));
    /* the smallest key has a name, a form and a byte; the smallest tensor an axis, too */
    const uint64_t left = f->file_bytes - d->at;
    if (*keys > COPSE_GGUF_KEYS_MAX || *tensors > COPSE_GGUF_TENSORS_MAX || *keys > left / 14 ||
        *tensors > left / 33)
        return description_fail("%s promises %llu keys and %llu tensors in %llu bytes", f->path,
                                (unsigned long long)*keys, (unsigned long long)*tensors,
                                (unsigned long long)f->file_bytes);
    return COPSE_OK;
}

static copse_status allocate_lists(copse_gguf *f)
{
    f->keys = copse__arena_alloc(&f->arena, f->key_count, sizeof *f->keys);
    f->places = copse__arena_alloc(&f->arena, f->key_count, sizeof *f->places);
    f->tensors = copse__arena_alloc(&f->arena, f->tensor_count, sizeof *f->tensors);
    f->data = copse__arena_alloc(&f->arena, f->tensor_count, sizeof *f->data);
    return copse_need_memory(f->keys && f->places && f->tensors && f->data, "gguf: %s", f->path);
}

copse_status copse__gguf_describe(copse_gguf *f)
{
    struct description d = { .f = f };
    uint64_t tensors = 0, keys = 0;
    COPSE_TRY(take_head(&d, &tensors, &keys));
    f->key_count = (size_t)keys;
    f->tensor_count = (size_t)tensors;
    COPSE_TRY(allocate_lists(f));
    for (size_t i = 0; i < f->key_count; i++)
        COPSE_TRY(take_key(&d, &f->keys[i], &f->places[i]));
    f->keys_end = d.at;
    for (size_t i = 0; i < f->tensor_count; i++)
        COPSE_TRY(take_tensor(&d, &f->tensors[i], &f->data[i]));
    COPSE_TRY(sort_names(f, f->keys, f->key_count, sizeof *f->keys, "key", &f->key_order));
    COPSE_TRY(
        sort_names(f, f->tensors, f->tensor_count, sizeof *f->tensors, "tensor", &f->tensor_order));
    COPSE_TRY(find_alignment(f, &f->alignment));
    f->data_begin = ((uint64_t)d.at + f->alignment - 1) / f->alignment * f->alignment;
    return check_places(f);
}
