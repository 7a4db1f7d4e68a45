/* SPDX-License-Identifier: MIT */
/* See tree.h. */
#include "core/reduce/tree.h"
#include "core/device/kernel/mean.h"

#define NEAR 2048 /* numbers of a row that stay in the nearest cache while the tree is evaluated */
#define PER  32   /* elements of an invocation of the reduction kernels */

/* ---- host memory ---- */

#define ADD_ROW(form, element)                                              \
    static void add_##form(void *to, const void *from, size_t at, size_t n) \
    {                                                                       \
        element *sum = (element *)to + at;                                  \
        const element *term = (const element *)from + at;                   \
        for (size_t i = 0; i < n; i++)                                      \
            sum[i] = sum[i] + term[i];                                      \
    }
ADD_ROW(f32, float)
ADD_ROW(i32, uint32_t)
ADD_ROW(i64, uint64_t)

void copse__tree_rows(void *const *rows, uint32_t row_count, size_t count, copse_type type)
{
    for (size_t at = 0; at < count; at += NEAR) {
        const size_t n = COPSE_MIN(count - at, NEAR);
        for (uint32_t width = 1; width < row_count; width *= 2)
            for (uint32_t r = 0; r + width < row_count; r += 2 * width) {
                if (type == COPSE_F32)
                    add_f32(rows[r], rows[r + width], at, n);
                else if (type == COPSE_I32)
                    add_i32(rows[r], rows[r + width], at, n);
                else
                    add_i64(rows[r], rows[r + width], at, n);
            }
    }
}

/* The quotient of an i32 by less than 2^16 is a float, the middle of two floats, or 2^-41 of itself
   away from such a middle: rounding to double first gives the same float. */
void copse__mean_values(const void *sums, void *means, size_t count, uint32_t divisor,
                        bool is_whole)
{
    const unsigned char *from = sums;
    unsigned char *to = means; /* may be the same memory */
    for (size_t i = 0; i < count; i++) {
        int32_t whole;
        float sum, mean;
        memcpy(&whole, from + COPSE_WORD_BYTES * i, sizeof whole);
        memcpy(&sum, from + COPSE_WORD_BYTES * i, sizeof sum);
        mean = is_whole ? (float)((double)whole / divisor) : sum / (float)divisor;
        memcpy(to + COPSE_WORD_BYTES * i, &mean, sizeof mean);
    }
}

/* ---- commands of a device ---- */

static copse_status tree_dispatch(copse_device *dev, enum copse_kernel_id id, int32_t setting,
                                  int32_t other, const void *params, uint64_t count,
                                  const struct copse_binding *both, struct copse_command *out)
{
    const int32_t spec[COPSE_MAX_SPECS] = { PER, dev->limits->has_wide_vectors, setting, other };
    struct copse_kernel *k;
    COPSE_TRY(copse__kernel_get(dev, id, spec, &k));
    const uint64_t each = (uint64_t)k->group_x * k->group_y * PER;
    return copse__dispatch_init(out, k, both, 2, params, (count + each - 1) / each, 0);
}

copse_status copse__tree_command(copse_device *dev, const struct copse_tree_sum *t,
                                 struct copse_command *out)
{
    const struct copse_binding both[] = { t->terms, t->sum };
    const struct copse_params_tree_sum floats = { .n = (uint32_t)t->count,
                                                  .base = t->base,
                                                  .stride = t->stride };
    const struct copse_params_sum_i32 whole = { .n = (uint32_t)t->count, .stride = t->stride };
    return t->is_whole ? tree_dispatch(dev, COPSE_KERNEL_sum_i32, (int32_t)t->rows, 0, &whole,
                                       t->count, both, out)
                       : tree_dispatch(dev, COPSE_KERNEL_tree_sum, (int32_t)t->rows, 0, &floats,
                                       t->count, both, out);
}

copse_status copse__accumulate_command(copse_device *dev, uint32_t rows, struct copse_binding term,
                                       struct copse_binding sum, uint64_t count,
                                       struct copse_command *out)
{
    const struct copse_params_accumulate p = { .n = (uint32_t)count };
    return tree_dispatch(dev, COPSE_KERNEL_accumulate, (int32_t)rows, 0, &p, count,
                         (const struct copse_binding[]){ term, sum }, out);
}

copse_status copse__mean_command(copse_device *dev, struct copse_binding sums,
                                 struct copse_binding means, uint64_t count, uint32_t divisor,
                                 bool is_whole, struct copse_command *out)
{
    const struct copse_params_mean p = copse__mean_params((uint32_t)count, divisor);
    return tree_dispatch(dev, COPSE_KERNEL_mean, is_whole, copse__mean_is_power(divisor, is_whole),
                         &p, count, (const struct copse_binding[]){ sums, means }, out);
}
