/* SPDX-License-Identifier: MIT */
/* See type.h. */
#include "core/graph/type.h"

#include <string.h>

#include "core/base/half.h"
#include "core/device/device.h"

/* get_... and put_... for one type, at any alignment. */
#define ACCESS(form, element, loaded, stored)                    \
    static double get_##form(const void *data, size_t i)         \
    {                                                            \
        element v;                                               \
        memcpy(&v, (const char *)data + i * sizeof v, sizeof v); \
        return loaded;                                           \
    }                                                            \
    static void put_##form(void *data, size_t i, double value)   \
    {                                                            \
        const element v = stored;                                \
        memcpy((char *)data + i * sizeof v, &v, sizeof v);       \
    }

ACCESS(f32, float, (double)v, (float)value)
ACCESS(i32, int32_t, v, (int32_t)value)
ACCESS(u8, uint8_t, v, (uint8_t)value)
ACCESS(f16, uint16_t, (double)copse__f16_to_f32(v), copse__f32_to_f16((float)value))
ACCESS(bf16, uint16_t, (double)copse__bf16_to_f32(v), copse__f32_to_bf16((float)value))
ACCESS(i64, int64_t, (double)v, (int64_t)value)

#define ROW(TYPE, name, bytes, computed, is_on_devices, form)                                      \
    {                                                                                              \
        name, bytes, COPSE_##computed, is_on_devices, COPSE_ELEMENT_##TYPE, get_##form, put_##form \
    }

const struct copse_type_row *copse__type(copse_type type)
{
    static const struct copse_type_row rows[] = {
        [COPSE_F32] = ROW(F32, "f32", COPSE_WORD_BYTES, F32, true, f32),
        [COPSE_I32] = ROW(I32, "i32", COPSE_WORD_BYTES, I32, true, i32),
        [COPSE_U8] = ROW(U8, "u8", 1, I32, true, u8),
        [COPSE_F16] = ROW(F16, "f16", 2, F32, true, f16),
        [COPSE_BF16] = ROW(BF16, "bf16", 2, F32, true, bf16),
        [COPSE_I64] = ROW(I64, "i64", 8, I32, false, i64),
    };
    return (size_t)type < sizeof rows / sizeof *rows ? &rows[type] : NULL;
}

bool copse__type_fits(copse_type type, const void *data, size_t first, size_t count, size_t *at)
{
    const struct copse_type_row *row = copse__type(type);
    for (*at = first; !row->is_on_devices && *at < first + count; ++*at) {
        const double value = row->get(data, *at);
        if (value < INT32_MIN || value > INT32_MAX)
            return false;
    }
    return true;
}

copse_status copse__type_write(copse_queue *q, copse_buffer *to, size_t at, copse_type type,
                               const void *data, size_t first, size_t bytes)
{
    enum { CHUNK = 1024 };
    const struct copse_type_row *given = copse__type(type),
                                *own = copse__type(copse__type_on_devices(type));
    uint32_t chunk[CHUNK];
    if (given == own)
        return copse__queue_write_bytes(q, to, at, (const char *)data + first * given->bytes,
                                        bytes);
    for (size_t done = 0, count; done < bytes / own->bytes; done += count) {
        count = COPSE_MIN(bytes / own->bytes - done, CHUNK);
        for (size_t i = 0; i < count; i++)
            own->put(chunk, i, given->get(data, first + done + i));
        COPSE_TRY(
            copse__queue_write_bytes(q, to, at + done * own->bytes, chunk, count * own->bytes));
    }
    return COPSE_OK;
}
