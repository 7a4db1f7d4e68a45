/* SPDX-License-Identifier: MIT */
/* Writes .npy files: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#include "tools/export/npy_write.h"

#include <string.h>

static const char *descr(copse_type type)
{
    switch (type) {
    case COPSE_F64:
        return "<f8";
    case COPSE_F16:
        return "<f2";
    case COPSE_I8:
        return "|i1";
    case COPSE_I16:
        return "<i2";
    case COPSE_I32:
        return "<i4";
    case COPSE_I64:
        return "<i8";
    case COPSE_U8:
        return "|u1";
    case COPSE_U16:
        return "<u2";
    case COPSE_U32:
        return "<u4";
    case COPSE_U64:
        return "<u8";
    case COPSE_BOOL:
        return "|b1";
    case COPSE_F32:
    case COPSE_BF16:
        break;
    }
    return "<f4";
}

/* The header is padded with blanks, so that the elements begin at a multiple of 64. */
static void write_header(FILE *to, const struct copse_array_view *a)
{
    char text[320];
    int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                     descr(a->type));
    for (uint32_t i = 0; i < a->rank; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, i ? " %zu," : "%zu,", a->shape[i]);
    n += snprintf(text + n, sizeof text - (size_t)n, "), }");
    const int size = (10 + n + 1 + 63) / 64 * 64 - 10;
    fwrite("\x93NUMPY\x01\x00", 1, 8, to);
    fputc(size & 255, to);
    fputc(size >> 8, to);
    fprintf(to, "%s%*s\n", text, size - n - 1, "");
}

/* Reversed bytes on machines of the other byte order. */
static void write_element(FILE *to, const unsigned char *bytes, size_t size)
{
    const uint16_t one = 1;
    const bool is_little = *(const unsigned char *)&one == 1;
    for (size_t i = 0; i < size; i++)
        putc(bytes[is_little ? i : size - 1 - i], to);
}

static void write_elements(FILE *to, const struct copse_array_view *a)
{
    const unsigned char *from = a->data;
    const size_t size = copse_type_size(a->type);
    size_t count = 1;
    for (uint32_t i = 0; i < a->rank; i++)
        count *= a->shape[i];
    for (size_t i = 0; i < count; i++, from += size)
        if (a->type == COPSE_BF16) {
            uint16_t upper;
            memcpy(&upper, from, sizeof upper);
            const uint32_t bits = (uint32_t)upper << 16;
            write_element(to, (const unsigned char *)&bits, sizeof bits);
        } else {
            write_element(to, from, size);
        }
}

copse_status npy_write(const char *path, const struct copse_array_view *a)
{
    struct output o;
    COPSE_TRY(output_open(&o, path));
    write_header(o.stream, a);
    write_elements(o.stream, a);
    return output_commit(&o);
}
