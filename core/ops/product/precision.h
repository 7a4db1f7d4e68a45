/* SPDX-License-Identifier: MIT */
/* Products of f16 and bf16 operands. They compute in f32, and their results are f32. */
#ifndef COPSE_CORE_OPS_PRECISION_H
#define COPSE_CORE_OPS_PRECISION_H

#include "core/ops/ops.h"

/* The operands of a product that is added: f32 ones become those of the graph's precision
   (copse_set_precision). */
void copse__product_operands(copse_graph *g, copse_tensor **a, copse_tensor **b);
/* The derivative of a product y of two f16 or two bf16 operands is rounded to their type, because
   it is an operand of the products that compute the derivatives of y's operands. */
copse_tensor *copse__narrow_slope(copse_graph *g, const copse_tensor *y, copse_tensor *dy);
/* A tensor of 16 bits becomes scratch memory of f32 that lives during the node. */
copse_status copse__widen(struct copse_lowering *l, struct copse_operand *x);
/* Whether some product of operands of this type, f16 or bf16, would be computed on the device by a
   variant that reads 16 bits and was not measured to be slower than the variant of f32 operands
   (precision_gain.c). `forced`: the variants of the job. */
struct copse_choices;
copse_status copse__precision_gains(const copse_device *dev, const struct copse_choices *forced,
                                    copse_type type, bool *gains);

#endif
