/* SPDX-License-Identifier: MIT */
/* See host_sum.h. */
#include "core/reduce/host_sum.h"

void copse__axis_sum(const void *values, copse_type type, size_t outer, size_t length, size_t inner,
                     void *sums)
{
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            double sum = 0;
            int64_t whole = 0;
            for (size_t k = 0; k < length; k++) {
                const size_t at = (o * length + k) * inner + i;
                if (type == COPSE_I32)
                    whole += ((const int32_t *)values)[at];
                else
                    sum += (double)((const float *)values)[at];
            }
            if (type == COPSE_I32)
                ((int64_t *)sums)[o * inner + i] = whole;
            else
                ((float *)sums)[o * inner + i] = (float)sum;
        }
}

/* ---- slices ---- */

static void host_sum_merge(const struct copse_slice_at *from, uint32_t middle, uint32_t end,
                           struct copse_slice_at *to)
{
    uint32_t a = 0, b = middle;
    for (uint32_t i = 0; i < end; i++)
        to[i] = a < middle && (b == end || from[a].row <= from[b].row) ? from[a++] : from[b++];
}

/* Stable; the result is in the returned half. */
static const struct copse_slice_at *host_sum_sort(struct copse_slice_at *slices, uint32_t count)
{
    struct copse_slice_at *from = slices, *to = slices + count;
    for (uint64_t width = 1; width < count; width *= 2) {
        for (uint64_t at = 0; at < count; at += 2 * width) {
            const uint32_t end = (uint32_t)COPSE_MIN(2 * width, count - at);
            host_sum_merge(from + at, (uint32_t)COPSE_MIN(width, end), end, to + at);
        }
        struct copse_slice_at *other = from;
        from = to;
        to = other;
    }
    return from;
}

void copse__slices_sum(const struct copse_slices *from, struct copse_slice_at *order,
                       struct copse_slices *sums)
{
    for (uint32_t i = 0; i < from->count; i++)
        order[i] = (struct copse_slice_at){ from->rows[i], i };
    const struct copse_slice_at *sorted = host_sum_sort(order, from->count);
    sums->count = 0;
    sums->width = from->width;
    for (uint32_t i = 0; i < from->count; i++) {
        const float *term = from->values + from->width * sorted[i].at;
        const bool is_new = i == 0 || sorted[i].row != sorted[i - 1].row;
        sums->count += is_new;
        float *sum = sums->values + from->width * (sums->count - 1);
        sums->rows[sums->count - 1] = sorted[i].row;
        for (size_t j = 0; j < from->width; j++)
            sum[j] = is_new ? term[j] : sum[j] + term[j];
    }
}
