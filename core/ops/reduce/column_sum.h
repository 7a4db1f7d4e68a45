/* SPDX-License-Identifier: MIT */
/* Sums down the columns of a matrix: the derivative of a bias. */
#ifndef COPSE_CORE_COLUMN_SUM_H
#define COPSE_CORE_COLUMN_SUM_H

#include "core/graph/graph.h"

/* y[cols] = sums of x [rows, cols], by a variant of the family column_sum. */
COPSE_PRIVATE copse_tensor *copse__column_sum(copse_graph *g, copse_tensor *x);

#endif
