/* SPDX-License-Identifier: MIT */
/* Tensors of files: checked once, so that reading an element cannot fail. Their numbers are in the
   message, as bytes or as a list; or in a file beside the model. */
#include "core/onnx/onnx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/files.h"
#include "core/base/half.h"

#define SHOWN_TENSOR 80

/* Bytes of an element; 0: the type is not read. */
static size_t element_bytes(int32_t type)
{
    static const uint8_t bytes[] = { 0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 0, 0, 2 };
    return type > 0 && type < (int32_t)COPSE_COUNT(bytes) ? bytes[type] : 0;
}

/* Elements of the list that a type has. */
static size_t list_count(const onnx_tensor *t)
{
    switch (t->data_type) {
    case ONNX_FLOAT:
        return t->n_float_data;
    case ONNX_DOUBLE:
        return t->n_double_data;
    case ONNX_INT64:
        return t->n_int64_data;
    case ONNX_UINT32:
    case ONNX_UINT64:
        return t->n_uint64_data;
    default:
        return t->n_int32_data;
    }
}

/* The shape that a tensor says, and its elements. */
static copse_status tensor_shape(const onnx_tensor *t, const char *name, const char *path,
                                 copse_shape *shape, uint64_t *count)
{
    uint64_t elements = 1;
    *shape = (copse_shape){ .rank = 0 };
    if (t->n_dims > COPSE_MAX_RANK)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "onnx: %s: tensor '%.*s' has %zu axes; at most %d",
                          path, SHOWN_TENSOR, name, t->n_dims, COPSE_MAX_RANK);
    for (size_t i = 0; i < t->n_dims; i++) {
        const int64_t d = t->dims[i];
        if (d < 0 || d > INT32_MAX || (elements *= (uint64_t)d) > INT32_MAX)
            return copse_fail(COPSE_ERR_FORMAT,
                              "onnx: %s: tensor '%.*s': axis %zu has the length %lld; a tensor has "
                              "fewer than 2^31 elements",
                              path, SHOWN_TENSOR, name, i, (long long)d);
        shape->dims[shape->rank++] = (uint32_t)d;
    }
    *count = elements;
    return COPSE_OK;
}

static copse_status refuse_data(const char *name, const char *path, copse_shape shape, uint64_t got)
{
    return copse_fail(COPSE_ERR_FORMAT,
                      "onnx: %s: tensor '%.*s' of shape %s has data of %llu elements", path,
                      SHOWN_TENSOR, name, COPSE_SHAPE_TEXT(shape), (unsigned long long)got);
}

copse_status copse__onnx_tensor_check(const onnx_tensor *t, const char *name, const char *path,
                                      copse_shape *shape)
{
    uint64_t elements;
    COPSE_TRY(tensor_shape(t, name, path, shape, &elements));
    const size_t size = element_bytes(t->data_type);
    if (size == 0)
        return COPSE_OK; /* nodes that read it are refused */
    const size_t got = t->has_raw_data ? t->raw_data.len / size : list_count(t);
    if (got != elements || (t->has_raw_data && t->raw_data.len % size))
        return refuse_data(name, path, *shape, got);
    return COPSE_OK;
}

/* ---- elements ---- */

static double raw_element(const unsigned char *p, int32_t type)
{
    const size_t size = element_bytes(type);
    uint64_t bits = 0;
    for (size_t i = size; i-- > 0;) /* little-endian */
        bits = bits << 8 | p[i];
    switch (type) {
    case ONNX_FLOAT:
        return (double)copse__of_bits((uint32_t)bits);
    case ONNX_FLOAT16:
        return (double)copse__f16_to_f32((uint16_t)bits);
    case ONNX_BFLOAT16:
        return (double)copse__bf16_to_f32((uint16_t)bits);
    case ONNX_DOUBLE: {
        double d;
        memcpy(&d, &bits, sizeof d);
        return d;
    }
    case ONNX_INT8:
        return (int8_t)bits;
    case ONNX_INT16:
        return (int16_t)bits;
    case ONNX_INT32:
        return (int32_t)bits;
    case ONNX_INT64:
        return (double)(int64_t)bits;
    default:
        return (double)bits;
    }
}

double copse__onnx_element(const onnx_tensor *t, size_t i)
{
    if (t->has_raw_data)
        return raw_element(t->raw_data.data + i * element_bytes(t->data_type), t->data_type);
    switch (t->data_type) {
    case ONNX_FLOAT:
        return (double)t->float_data[i];
    case ONNX_DOUBLE:
        return t->double_data[i];
    case ONNX_INT64:
        return (double)t->int64_data[i];
    case ONNX_UINT32:
    case ONNX_UINT64:
        return (double)t->uint64_data[i];
    case ONNX_FLOAT16:
        return (double)copse__f16_to_f32((uint16_t)t->int32_data[i]);
    case ONNX_BFLOAT16:
        return (double)copse__bf16_to_f32((uint16_t)t->int32_data[i]);
    default:
        return t->int32_data[i];
    }
}

static bool is_little(void)
{
    const uint16_t one = 1;
    return *(const unsigned char *)&one == 1;
}

const float *copse__onnx_floats(const onnx_tensor *t, size_t count, float *values)
{
    if (t->data_type == ONNX_FLOAT && !t->has_raw_data)
        return t->float_data;
    if (t->data_type == ONNX_FLOAT && is_little()) /* blocks of messages are aligned to 16 bytes */
        return (const float *)(const void *)t->raw_data.data;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)copse__onnx_element(t, i);
    return values;
}

/* ---- files beside the model ---- */

/* A path within the model's folder. */
static bool is_inside(const char *path)
{
    if (!*path || *path == '/' || strchr(path, '\\') || strchr(path, ':'))
        return false;
    for (const char *c = path; c; c = strchr(c, '/')) {
        c += *c == '/';
        if (strncmp(c, "..", 2) == 0 && (c[2] == '/' || c[2] == '\0'))
            return false;
    }
    return true;
}

/* A number of external data; false: it is none. */
static bool external_number(const char *text, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

/* A location in the folder of the model, without empty parts and ".": one file has one path. */
static char *path_beside(copse_onnx *m, const char *location)
{
    const size_t folder = (size_t)(copse__path_name(m->path) - m->path);
    char *path = copse__arena_alloc(&m->arena, folder + strlen(location) + 2, 1), *to = path;
    if (!path)
        return NULL;
    memcpy(to, m->path, folder);
    to += folder;
    while (*location) {
        const size_t n = strcspn(location, "/");
        const bool is_part = n > 0 && !(n == 1 && *location == '.');
        if (is_part && to > path + folder)
            *to++ = '/';
        if (is_part)
            to = (char *)memcpy(to, location, n) + n;
        location += n + (location[n] == '/');
    }
    return path;
}

/* A file raises the limit of memory once, however many tensors are in it. */
static copse_status note_beside(copse_onnx *m, const char *path, uint64_t size)
{
    for (const struct onnx_beside *b = m->beside; b; b = b->next)
        if (strcmp(b->path, path) == 0)
            return COPSE_OK;
    struct onnx_beside *b = copse__arena_alloc(&m->arena, 1, sizeof *b);
    COPSE_TRY(copse_need_memory(b, "onnx: %s", m->path));
    *b = (struct onnx_beside){ path, m->beside };
    m->beside = b;
    m->limit += 2 * COPSE_MIN(size, (uint64_t)1 << 60);
    return COPSE_OK;
}

static copse_status read_external(copse_onnx *m, const char *name, const char *location,
                                  uint64_t offset, uint64_t length, onnx_tensor *t)
{
    FILE *stream = NULL;
    uint64_t size = 0, elements;
    copse_shape shape;
    COPSE_TRY(tensor_shape(t, name, m->path, &shape, &elements));
    const size_t each = element_bytes(t->data_type);
    const char *path = path_beside(m, location);
    COPSE_TRY(copse_need_memory(path, "onnx: %s", m->path));
    COPSE_TRY(copse_note(copse__file_open(path, &stream, &size), "of tensor '%.*s' of %s",
                         SHOWN_TENSOR, name, m->path));
    copse_status s = COPSE_OK;
    length = length == UINT64_MAX && size >= offset ? size - offset : length;
    if (offset > size || length > size - offset || length > INT32_MAX)
        s = copse_fail(COPSE_ERR_FORMAT, "onnx: %s: tensor '%.*s' is outside of %s", m->path,
                       SHOWN_TENSOR, name, path);
    if (s == COPSE_OK && each > 0 && length != elements * each)
        s = refuse_data(name, m->path, shape, length / each);
    if (s == COPSE_OK)
        s = note_beside(m, path, size);
    if (s == COPSE_OK) {
        const ProtobufCAllocator a = copse__onnx_allocator(m);
        if (t->has_raw_data)
            a.free(a.allocator_data, t->raw_data.data);
        t->raw_data.len = 0;
        t->raw_data.data = a.alloc(a.allocator_data, (size_t)length);
        t->has_raw_data = t->raw_data.data != NULL;
        if (!t->raw_data.data)
            s = copse_fail(COPSE_ERR_NO_MEMORY,
                           "onnx: %s: tensor '%.*s': the weights need more than 48 MiB and twice "
                           "the size of the model and of the files beside it",
                           m->path, SHOWN_TENSOR, name);
    }
    if (s == COPSE_OK) {
        t->raw_data.len = (size_t)length;
        if (!copse__file_seek(stream, offset) ||
            fread(t->raw_data.data, 1, (size_t)length, stream) != length)
            s = copse_fail(COPSE_ERR_IO, "onnx: cannot read %s", path);
    }
    fclose(stream);
    return s;
}

copse_status copse__onnx_load_external(copse_onnx *m, const char *name, onnx_tensor *t)
{
    const char *location = NULL;
    uint64_t offset = 0, length = UINT64_MAX;
    if (!t->has_data_location || t->data_location == 0)
        return COPSE_OK;
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = t->external_data[i]->key, *value = t->external_data[i]->value;
        if (!key || !value)
            continue;
        if (strcmp(key, "location") == 0)
            location = value;
        if ((strcmp(key, "offset") == 0 && !external_number(value, &offset)) ||
            (strcmp(key, "length") == 0 && !external_number(value, &length)))
            return copse_fail(COPSE_ERR_FORMAT, "onnx: %s: tensor '%.*s': its %s is '%.40s'",
                              m->path, SHOWN_TENSOR, name, key, value);
    }
    if (!location || !is_inside(location))
        return copse_fail(COPSE_ERR_FORMAT,
                          "onnx: %s: tensor '%.*s': its data is in '%.80s'; only files in the "
                          "folder of the model are read",
                          m->path, SHOWN_TENSOR, name, location ? location : "");
    COPSE_TRY(read_external(m, name, location, offset, length, t));
    t->has_data_location = false; /* saved with the model */
    t->data_location = 0;
    const ProtobufCAllocator a = copse__onnx_allocator(m);
    for (size_t i = 0; i < t->n_external_data; i++)
        copse_onnx__string_pair__free_unpacked(t->external_data[i], (ProtobufCAllocator *)&a);
    a.free(a.allocator_data, t->external_data);
    t->external_data = NULL;
    t->n_external_data = 0;
    return COPSE_OK;
}
