/* SPDX-License-Identifier: MIT */
/* Evaluation of the canonical tree (sum_schedule.h) and of means: on rows in host memory, and as
   commands of a device, where words are f32 or (is_whole) i32. Both give the same bits. */
#ifndef COPSE_TREE_H
#define COPSE_TREE_H

#include "copse/tensor.h"
#include "core/device/device.h"

/* ---- host memory ---- */

/* rows[0] = the tree over the rows of `count` f32, i32 or i64; the other rows are used up. Whole
   numbers wrap around. */
void copse__tree_rows(void *const *rows, uint32_t row_count, size_t count, copse_type type);
/* f32 quotients, correctly rounded; divisor below 2^16. `means` may be `sums`. */
void copse__mean_values(const void *sums, void *means, size_t count, uint32_t divisor,
                        bool is_whole);

/* ---- commands of a device ---- */

/* The tree over `rows` rows of `terms`: row r of `count` words begins at word base + r * stride. */
struct copse_tree_sum {
    struct copse_binding terms, sum;
    uint32_t rows, base, stride;
    uint64_t count;
    bool is_whole; /* then base is 0 */
};
copse_status copse__tree_command(copse_device *dev, const struct copse_tree_sum *t,
                                 struct copse_command *out);
/* `sum` += `term`, f32. `rows`: how many ranks the tree has. */
COPSE_PRIVATE copse_status copse__accumulate_command(copse_device *dev, uint32_t rows,
                                                     struct copse_binding term,
                                                     struct copse_binding sum, uint64_t count,
                                                     struct copse_command *out);
copse_status copse__mean_command(copse_device *dev, struct copse_binding sums,
                                 struct copse_binding means, uint64_t count, uint32_t divisor,
                                 bool is_whole, struct copse_command *out);

#endif
