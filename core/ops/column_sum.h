/* SPDX-License-Identifier: MIT */
/* Sums down the columns of a matrix: the derivative of a bias. */
#ifndef COPSE_CORE_COLUMN_SUM_H
#define COPSE_CORE_COLUMN_SUM_H

#include "core/graph/graph.h"

/* y[cols] = sums of x [rows, cols], by the variant that is chosen for "column_sum": "reduce", or
   "column_sum_wide" for wide vectors. */
copse_status copse__column_sum(copse_graph *g, copse_tensor *x, copse_tensor **out);

/* Sums of similar sizes are taken to have the same fastest variant; see copse__size_class. */
#define COPSE_COLUMN_SUM_ROWS  { 32, 256, 2048 }
#define COPSE_COLUMN_SUM_COLS  { 8, 32, 128, 512 }
#define COPSE_COLUMN_SUM_CLASS 24 /* bytes of its name: "2048-128" */
void copse__column_sum_class(uint32_t rows, uint32_t cols, char name[COPSE_COLUMN_SUM_CLASS]);

#endif
