/* SPDX-License-Identifier: MIT */
/* Arrays in host memory: allocation, shapes, byte order. Reads no files. */
#include <stdio.h>

#include "core/base/platform.h"
#include "core/data/array.h"
#include "core/device/device.h"

#define LARGE_BYTES ((size_t)4 << 20)

struct copse_base *copse__base(copse_context *ctx)
{
    return &ctx->base;
}

bool copse__shape_size(uint32_t rank, const size_t *shape, size_t element, size_t *count,
                       size_t *bytes)
{
    size_t n = 1;
    bool has_zero = false;

    /* The product skips zeros, so that the result does not depend on the axis order. */
    for (uint32_t i = 0; i < rank; i++) {
        has_zero |= shape[i] == 0;
        if (shape[i] != 0 && !copse__mul(n, shape[i], &n))
            return false;
    }
    *count = has_zero ? 0 : n;
    return copse__mul(n, element, bytes) && copse__mul(*count, element, bytes);
}

copse_status copse__array_create(copse_context *ctx, copse_type type, uint32_t rank,
                                 const size_t *shape, void *data, copse_array **out)
{
    struct copse_mem *mem = &copse__base(ctx)->mem;
    size_t count, bytes;

    *out = NULL;
    if (rank > COPSE_ARRAY_MAX_RANK ||
        !copse__shape_size(rank, shape, copse_type_size(type), &count, &bytes))
        return copse_fail(COPSE_ERR_INTERNAL, "array: shape not checked");
    copse_array *a = copse__alloc(mem, 1, sizeof *a);
    if (a == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "array: no memory");
    a->data = data != NULL ? data : copse__resize(mem, NULL, COPSE_MAX(bytes, (size_t)1), 1);
    if (data == NULL && a->data != NULL && bytes >= LARGE_BYTES)
        copse__use_large_pages(a->data, bytes);
    if (a->data == NULL) {
        copse__free(mem, a);
        return copse_fail(COPSE_ERR_NO_MEMORY, "array: no memory for %zu bytes", bytes);
    }
    atomic_init(&a->refs, 1);
    a->ctx = copse_context_retain(ctx);
    a->count = count;
    a->bytes = bytes;
    a->view.type = type;
    a->view.rank = rank;
    if (rank > 0)
        memcpy(a->view.shape, shape, rank * sizeof *shape);
    a->view.data = a->data;
    *out = a;
    return COPSE_OK;
}

copse_array *copse_array_retain(copse_array *array)
{
    if (array != NULL)
        copse__ref(&array->refs);
    return array;
}

void copse_array_release(copse_array **array)
{
    if (array == NULL || *array == NULL)
        return;
    copse_array *a = *array;
    *array = NULL;
    if (!copse__unref(&a->refs))
        return;
    copse_context *ctx = a->ctx;
    struct copse_mem *mem = &copse__base(ctx)->mem;
    copse__free(mem, a->data);
    copse__free(mem, a);
    copse_context_release(&ctx);
}

const struct copse_array_view *copse_array_view(const copse_array *array)
{
    return array ? &array->view : NULL;
}

void copse__array_describe(const struct copse_array_view *a, char text[160])
{
    int n = snprintf(text, 160, "%s [", copse_type_name(a->type));
    for (uint32_t i = 0; i < a->rank; i++)
        n += snprintf(text + n, (size_t)(160 - n), i ? ", %zu" : "%zu", a->shape[i]);
    snprintf(text + n, (size_t)(160 - n), "]");
}

static bool is_little_endian(void)
{
    const uint16_t one = 1;
    return *(const unsigned char *)&one == 1;
}

static void array_swap(unsigned char *data, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++, data += size)
        for (size_t a = 0, b = size - 1; a < b; a++, b--) {
            unsigned char t = data[a];
            data[a] = data[b];
            data[b] = t;
        }
}

void copse__swap_from_big(void *data, size_t count, size_t size)
{
    if (size > 1 && is_little_endian())
        array_swap(data, count, size);
}

void copse__swap_from_little(void *data, size_t count, size_t size)
{
    if (size > 1 && !is_little_endian())
        array_swap(data, count, size);
}
