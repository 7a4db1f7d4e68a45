/* SPDX-License-Identifier: MIT */
/* A gradient of rows: the derivative of a table by the rows that were looked up. Its size is that
   of the batch, not of the table. The tensor has a row of sums for each position; the list beside
   it says which row of the table that is. */
#ifndef COPSE_ROW_GRADIENT_H
#define COPSE_ROW_GRADIENT_H

#include "core/graph/graph.h"

/* The gradient of a table of this shape, from the derivative `dy` of the rows at `indices`: [n,
   width]. NULL if n is 0. */
copse_tensor *copse__row_gradient(copse_graph *g, copse_tensor *dy, copse_tensor *indices,
                                  copse_shape table);

/* The list of a gradient of rows, i32. Its first n numbers are the rows of the table, sorted; an
   index out of range is the number of rows. The first of equal ones has the sum of all of them, in
   the order of their positions, the others have zeros. The bits of a sum are those of the dense
   gradient. */
static inline copse_tensor *copse__row_list(const copse_tensor *gradient)
{
    return gradient->in[1];
}

#endif
