/* SPDX-License-Identifier: MIT */
/* Cross-entropy of the logits of a dense layer, which are computed in chunks of classes and not
   kept. */
#ifndef COPSE_CORE_DENSE_LOSS_H
#define COPSE_CORE_DENSE_LOSS_H

#include "copse/ops/losses.h"
#include "core/graph/graph.h"

/* copse_dense_cross_entropy with chunks of so many classes; 0: it decides. */
COPSE_PRIVATE copse_tensor *
copse__dense_cross_entropy(copse_graph *g, copse_tensor *x, copse_tensor *w, copse_tensor *bias,
                           copse_tensor *labels, const struct copse_cross_entropy_params *params,
                           uint32_t chunk, copse_tensor **hits);

#endif
