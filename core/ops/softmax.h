/* SPDX-License-Identifier: MIT */
/* The row statistics shared by softmax and the cross-entropy. */
#ifndef COPSE_CORE_SOFTMAX_H
#define COPSE_CORE_SOFTMAX_H

#include "core/ops/ops.h"

/* For each row of f32 x (its last axis): (m, t), as [rows, 2]. */
copse_status copse__row_stats(copse_graph *g, copse_tensor *x, copse_tensor **out);

#endif
