/* SPDX-License-Identifier: MIT */
/* See type.h. */
#include "core/graph/type.h"

#include <string.h>

#include "core/base/half.h"

/* get_... and put_... for one type, at any alignment. */
#define ACCESS(form, element, loaded, stored)                                                                          \
    static double get_##form(const void *data, size_t i)                                                               \
    {                                                                                                                  \
        element v;                                                                                                     \
        memcpy(&v, (const char *)data + i * sizeof v, sizeof v);                                                       \
        return loaded;                                                                                                 \
    }                                                                                                                  \
    static void put_##form(void *data, size_t i, double value)                                                         \
    {                                                                                                                  \
        const element v = stored;                                                                                      \
        memcpy((char *)data + i * sizeof v, &v, sizeof v);                                                             \
    }

ACCESS(f32, float, (double)v, (float)value)
ACCESS(i32, int32_t, v, (int32_t)value)
ACCESS(u8, uint8_t, v, (uint8_t)value)
ACCESS(f16, uint16_t, (double)copse__f16_to_f32(v), copse__f32_to_f16((float)value))
ACCESS(bf16, uint16_t, (double)copse__bf16_to_f32(v), copse__f32_to_bf16((float)value))
ACCESS(i64, int64_t, (double)v, (int64_t)value)

#define ROW(TYPE, name, bytes, computed, is_on_devices, form)                                                          \
    [COPSE_##TYPE] = { name, bytes, COPSE_##computed, is_on_devices, COPSE_ELEMENT_##TYPE, get_##form, put_##form },

const struct copse_type_row *copse__type(copse_type type)
{
    static const struct copse_type_row rows[] = {
        ROW(F32, "f32", COPSE_WORD_BYTES, F32, true, f32)
        ROW(I32, "i32", COPSE_WORD_BYTES, I32, true, i32)
        ROW(U8, "u8", 1, I32, true, u8)
        ROW(F16, "f16", 2, F32, true, f16)
        ROW(BF16, "bf16", 2, F32, true, bf16)
        ROW(I64, "i64", 8, I32, false, i64)
    };
    return (size_t)type < sizeof rows / sizeof *rows ? &rows[type] : NULL;
}
