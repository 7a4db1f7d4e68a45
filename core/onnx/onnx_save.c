/* SPDX-License-Identifier: MIT */
/* The file of a network again, with the values of its variables. Messages and fields that are not
   known here are written as they were read. */
#include "core/onnx/onnx.h"

#include <errno.h>
#include <stdio.h>

#include "core/base/half.h"
#include "core/base/platform.h"

/* ---- values ---- */

static void put_bytes(uint8_t *to, const void *bytes, size_t size)
{
    const uint16_t one = 1;
    const bool is_little = *(const unsigned char *)&one == 1;
    for (size_t i = 0; i < size; i++)
        to[i] = ((const uint8_t *)bytes)[is_little ? i : size - 1 - i];
}

static size_t put_value(int32_t type, float value, uint8_t *to)
{
    const double d = (double)value;
    const uint16_t half =
        type == ONNX_FLOAT16 ? copse__f32_to_f16(value) : copse__f32_to_bf16(value);
    if (type == ONNX_FLOAT)
        put_bytes(to, &value, sizeof value);
    else if (type == ONNX_DOUBLE)
        put_bytes(to, &d, sizeof d);
    else
        put_bytes(to, &half, sizeof half);
    return type == ONNX_FLOAT ? sizeof value : type == ONNX_DOUBLE ? sizeof d : sizeof half;
}

/* The values of a variable as the bytes of its tensor. */
static copse_status take_values(copse_onnx *m, const struct onnx_weight *w)
{
    const size_t count = (size_t)copse__elements(w->shape);
    onnx_tensor *t = w->tensor;
    const ProtobufCAllocator a = copse__onnx_allocator(m);
    float *values = copse__alloc(m->arena.mem, count, sizeof *values);
    COPSE_TRY(copse_need_memory(values, "onnx"));
    copse_status s = copse_variable_read(w->variable, 0, values);
    const size_t most = count * sizeof(double);
    uint8_t *bytes = NULL;
    if (s == COPSE_OK && !t->has_raw_data) {
        m->limit += most + 64; /* lists become bytes once */
        bytes = a.alloc(a.allocator_data, most);
        s = copse_need_memory(bytes, "onnx");
        t->has_raw_data = bytes != NULL;
        t->raw_data.data = bytes;
        t->n_float_data = t->n_double_data = t->n_int32_data = 0;
    }
    size_t at = 0;
    for (size_t i = 0; s == COPSE_OK && i < count; i++)
        at += put_value(t->data_type, values[i], t->raw_data.data + at);
    if (s == COPSE_OK)
        t->raw_data.len = at;
    copse__free_read(m->arena.mem, values, s);
    return s;
}

/* ---- the file ---- */

struct onnx_writer {
    ProtobufCBuffer base;
    FILE *stream;
    bool has_failed;
};

static void writer_append(ProtobufCBuffer *buffer, size_t size, const uint8_t *bytes)
{
    struct onnx_writer *w = (struct onnx_writer *)(void *)buffer;
    w->has_failed = w->has_failed || fwrite(bytes, 1, size, w->stream) != size;
}

copse_status copse__onnx_write(struct copse_mem *mem, const CopseOnnx__Model *model,
                               const char *path)
{
    struct copse_atomic_file f = { NULL };
    const size_t size = copse_onnx__model__get_packed_size(model);
    if (size > INT32_MAX)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "onnx: %s would have %zu bytes; a message has at most 2^31 - 1", path,
                          size);
    copse_status s = copse__atomic_open(&f, mem, path);
    if (s == COPSE_OK) {
        struct onnx_writer w = { { writer_append }, f.stream, false };
        const size_t written = copse_onnx__model__pack_to_buffer(model, &w.base);
        if (w.has_failed || written != size)
            s = copse_fail(COPSE_ERR_IO, "onnx: cannot write %s", path);
    }
    if (s == COPSE_OK)
        s = copse__atomic_commit(&f);
    copse__atomic_abort(&f);
    return s;
}

copse_status copse_onnx_save(copse_onnx *m, const char *path)
{
    COPSE_TRY(copse_need("onnx", m, path));
    for (size_t i = 0; i < m->weight_count; i++)
        if (m->weights[i].variable)
            COPSE_TRY(take_values(m, &m->weights[i]));
    return copse__onnx_write(m->arena.mem, m->model, path);
}
