/* SPDX-License-Identifier: MIT */
/* Shared by softmax and the cross-entropy: rows, which are the last axis, and their statistics. */
#ifndef COPSE_CORE_SOFTMAX_H
#define COPSE_CORE_SOFTMAX_H

#include "core/graph/variant.h"
#include "core/ops/ops.h"

/* A scalar is a row of one element. */
static inline uint32_t copse__row_cols(copse_shape s)
{
    return s.rank ? s.dims[s.rank - 1] : 1;
}

static inline uint32_t copse__row_count(copse_shape s)
{
    uint32_t rows = 1;
    for (uint32_t i = 0; i + 1 < s.rank; i++)
        rows *= s.dims[i];
    return rows;
}

/* ---- families of kernels of rows (row_work.c) ---- */

/* The first member of the work of such a family. */
struct copse_row_work {
    uint32_t rows, cols;
};
struct copse_row_work copse__row_work(copse_shape shape);
/* For struct copse_family: rows of about 10 and about 1,000 elements. */
#define COPSE_ROW_SIZES 10, 1000
bool copse__row_size(const void *work, struct copse_size *out);
/* 256 rows. */
void copse__row_job(const struct copse_size *at, struct copse_tune_job *j);

/* Rows that an invocation of a kernel for wide vectors processes, and the groups of a launch. */
static inline uint32_t copse__rows_each(uint32_t cols)
{
    enum { ENOUGH = 4096 }; /* elements */
    return COPSE_MAX(ENOUGH / COPSE_MAX(cols, 1u), 1u);
}
static inline uint64_t copse__row_groups(uint32_t rows, uint32_t cols, uint32_t each)
{
    return cols > 0 ? ((uint64_t)rows + each - 1) / each : 0;
}

/* Sums of three levels in the kernels for wide vectors: chains of 64, 64 and 256 additions. */
#define COPSE_WIDE_COLS (1u << 24)

/* ---- what the ops share ---- */

/* For each row of f32 x: (m, t), as [rows, 2]. */
copse_tensor *copse__row_stats(copse_graph *g, copse_tensor *x);
/* The launches of row_stats alone: its kernel for all devices. `are_pairs`: the elements are the
   (m, t) of parts of rows. */
copse_status copse__lower_row_stats(struct copse_lowering *l, uint32_t rows, uint32_t cols,
                                    bool are_pairs, struct copse_operand from,
                                    struct copse_operand to);

/* The derivative of softmax, or of its logarithm, of rows from y and dy. */
copse_tensor *copse__softmax_grad(copse_graph *g, copse_tensor *y, copse_tensor *dy,
                                  bool is_logarithm);
/* The derivative of the cross-entropy from logits, labels, (m, t) and dy. */
copse_tensor *copse__cross_entropy_grad(copse_graph *g, copse_tensor *logits, copse_tensor *labels,
                                        copse_tensor *stats, copse_tensor *dy, bool is_mean);

#endif
