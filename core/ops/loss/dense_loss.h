/* SPDX-License-Identifier: MIT */
/* Cross-entropy of the logits of a dense layer, which are computed in chunks of classes and not
   kept. */
#ifndef COPSE_CORE_DENSE_LOSS_H
#define COPSE_CORE_DENSE_LOSS_H

#include "copse/ops/losses.h"
#include "core/graph/graph.h"

/* The layer. */
struct copse_dense_loss {
    copse_tensor *w;    /* f32 [width, classes] */
    copse_tensor *bias; /* f32 [classes], or NULL */
    bool is_transposed; /* w is [classes, width], as the table of an embedding */
    uint32_t chunk;     /* classes that are computed at once [0: it decides] */
};

/* copse_dense_cross_entropy of such a layer. */
COPSE_PRIVATE copse_tensor *
copse__dense_cross_entropy(copse_graph *g, copse_tensor *x, const struct copse_dense_loss *layer,
                           copse_tensor *labels, const struct copse_cross_entropy_params *params,
                           copse_tensor **hits);

#endif
