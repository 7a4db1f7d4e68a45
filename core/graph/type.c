/* SPDX-License-Identifier: MIT */
/* See type.h. */
#include "core/graph/type.h"

#include <string.h>

#include "core/base/half.h"
#include "core/device/device.h"

/* clang-format off */
/* get_... and put_... for one type, at any alignment. */
#define GET(form, element, loaded)                               \
    static double get_##form(const void *data, size_t i)         \
    {                                                            \
        element v;                                               \
        memcpy(&v, (const char *)data + i * sizeof v, sizeof v); \
        return loaded;                                           \
    }
#define PUT(form, element, stored)                               \
    static void put_##form(void *data, size_t i, double value)   \
    {                                                            \
        const element v = stored;                                \
        memcpy((char *)data + i * sizeof v, &v, sizeof v);       \
    }

GET(f32, float, (double)v)
GET(i32, int32_t, v)
GET(u8, uint8_t, v)
GET(f16, uint16_t, (double)copse__f16_to_f32(v))
GET(bf16, uint16_t, (double)copse__bf16_to_f32(v))
GET(i64, int64_t, (double)v)
GET(bool, uint8_t, v)
GET(i8, int8_t, v)
GET(i16, int16_t, v)
GET(u16, uint16_t, v)
GET(u32, uint32_t, v)
GET(u64, uint64_t, (double)v)
GET(f64, double, v)

PUT(f32, float, (float)value)
PUT(i32, int32_t, (int32_t)value)
PUT(u8, uint8_t, (uint8_t)value)
PUT(f16, uint16_t, copse__f32_to_f16((float)value))
PUT(bf16, uint16_t, copse__f32_to_bf16((float)value))
PUT(i64, int64_t, (int64_t)value)

#define ROW(TYPE, form, bytes, computed, place, put) \
    [COPSE_##TYPE] = { #form, #TYPE, bytes, COPSE_##computed, COPSE_TYPE_##place, get_##form, put }

static const struct copse_type_row rows[] = {
    ROW(F32, f32, COPSE_WORD_BYTES, F32, ON_DEVICES, put_f32),
    ROW(I32, i32, COPSE_WORD_BYTES, I32, ON_DEVICES, put_i32),
    ROW(U8, u8, 1, I32, ON_DEVICES, put_u8),
    ROW(F16, f16, 2, F32, ON_DEVICES, put_f16),
    ROW(BF16, bf16, 2, F32, ON_DEVICES, put_bf16),
    ROW(I64, i64, 8, I32, OF_HOST, put_i64),
    ROW(BOOL, bool, 1, I32, OF_FILES, NULL),
    ROW(I8, i8, 1, I32, OF_FILES, NULL),
    ROW(I16, i16, 2, I32, OF_FILES, NULL),
    ROW(U16, u16, 2, I32, OF_FILES, NULL),
    ROW(U32, u32, 4, I32, OF_FILES, NULL),
    ROW(U64, u64, 8, I32, OF_FILES, NULL),
    ROW(F64, f64, 8, F32, OF_FILES, NULL),
};
/* clang-format on */

const struct copse_type_row *copse__type(copse_type type)
{
    return (size_t)type < COPSE_COUNT(rows) ? &rows[type] : NULL;
}

size_t copse_type_size(copse_type type)
{
    return (size_t)type < COPSE_COUNT(rows) ? rows[type].bytes : 0;
}

const char *copse_type_name(copse_type type)
{
    return (size_t)type < COPSE_COUNT(rows) ? rows[type].name : "?";
}

bool copse__type_find(const char *dtype, copse_type *out)
{
    for (size_t i = 0; i < COPSE_COUNT(rows); i++)
        if (strcmp(rows[i].dtype, dtype) == 0) {
            *out = (copse_type)i;
            return true;
        }
    return false;
}

copse_status copse__type_need(copse_type type, const char *what, const char *name)
{
    if (copse__type_is_known(type))
        return COPSE_OK;
    if (!copse__type(type))
        return copse_fail(COPSE_ERR_ARGUMENT, "%s%s%s%s: there is no element type %d", what,
                          name ? " '" : "", name ? name : "", name ? "'" : "", (int)type);
    return copse_fail(COPSE_ERR_ARGUMENT,
                      "%s%s%s%s: %s is a type of arrays alone; f32, i32, u8, f16, bf16 or i64 is "
                      "needed",
                      what, name ? " '" : "", name ? name : "", name ? "'" : "",
                      copse_type_name(type));
}

bool copse__type_fits(copse_type type, const void *data, size_t first, size_t count, size_t *at)
{
    const struct copse_type_row *row = copse__type(type);
    for (*at = first; row->place != COPSE_TYPE_ON_DEVICES && *at < first + count; ++*at) {
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
