/* SPDX-License-Identifier: MIT */
/* A stable sort of positions by row index, as launches: the positions of each row become adjacent,
   in their order. */
#ifndef COPSE_CORE_ROW_SORT_H
#define COPSE_CORE_ROW_SORT_H

#include "core/graph/op.h"

#define COPSE_MAX_SORTED (1u << 22) /* positions */

struct copse_row_sort {
    /* positions, sorted by row; those of indices out of range are last */
    struct copse_operand order;
    /* [rows + 1]: the first place of each row in `order`; the end of the last row */
    struct copse_operand starts;
};

/* Sort the elements of `indices` (i32), 1 to COPSE_MAX_SORTED, by their value from 0 to rows - 1.
   The work does not depend on the number of rows, apart from its logarithm. */
copse_status copse__lower_row_order(struct copse_lowering *l, const copse_tensor *indices,
                                    uint32_t rows, struct copse_operand *order);
/* The same, with the places of all rows. */
copse_status copse__lower_row_sort(struct copse_lowering *l, const copse_tensor *indices,
                                   uint32_t rows, struct copse_row_sort *out);

/* `to` [rows, width] receives the sums of the rows of `terms` [positions, width] by a sort
   (row_sums.c): row r of those at the places starts[r] to starts[r + 1] - 1 of `order`, in one
   fixed order, which depends on their number alone. */
copse_status copse__lower_row_sums(struct copse_lowering *l, uint32_t positions, uint32_t rows,
                                   uint32_t width, struct copse_operand terms,
                                   const struct copse_row_sort *sorted, struct copse_operand to);

#endif
