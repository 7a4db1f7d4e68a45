/* SPDX-License-Identifier: MIT */
/* Words of the kernels of rows that depend on others (launch_rows.c). */
#ifndef COPSE_ARRANGED_ROWS_H
#define COPSE_ARRANGED_ROWS_H

#include "prover/conformance/launch/launch.h"

/* Of softmax_grad and its variants: logarithms of probabilities are not positive. */
void copse__arrange_softmax_grad(const struct copse_launch *l, uint32_t *const *words);
/* Of cross_entropy_grad's variants: m is the largest number of its row, or NaN. */
void copse__arrange_loss_grad(const struct copse_launch *l, uint32_t *const *words);
/* Of norms: a mean that is large against the differences to it, with both signs. */
void copse__arrange_norm_mean(const struct copse_launch *l, uint32_t *const *words);
/* Words of z of a norm that has `n` elements: of a sum, or of u dy; else one that is bound. */
size_t copse__words_of_norm_z(const struct copse_launch *l, size_t n);

#endif
