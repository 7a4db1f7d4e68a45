/* SPDX-License-Identifier: MIT */
/* The derivatives of da = dy df/da and db = dy df/db, for each row f of
   kernels/elementwise/binary.def that costs a kernel. By dy they are the same nodes. */
#include "copse/ops/logic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/ops.h"

enum {
#define BINARY(name, number, ...)  BINARY_##name = number,
#define COMPARE(name, number, ...) BINARY_##name = number,
#include "kernels/elementwise/binary.def"
#undef BINARY
#undef COMPARE
};

/* By the other operand: w = dy times the slope. */
static void mul_second(copse_graph *g, const copse_tensor *d, copse_tensor *w, copse_tensor **out)
{
    const int32_t other = 1 - ((const struct copse_binary_attr *)d->attr)->side;
    out[other] = copse__sum_to(g, w, d->in[other]->shape);
}

/* dy / b: -w / b^2 by b. -dy a / b^2: -w / b^2 by a, and 2 w (a / b) / b^2 by b. */
static void div_second(copse_graph *g, const copse_tensor *d, copse_tensor *w, copse_tensor **out)
{
    const int32_t side = ((const struct copse_binary_attr *)d->attr)->side, linear = 1 - side;
    copse_tensor *a = d->in[0], *b = d->in[1], *t, *quotient;
    w = copse_div(g, w, b);
    w = copse_div(g, w, b);
    if (d->in[linear]->needs_gradient) {
        t = copse_neg(g, w);
        out[linear] = copse__sum_to(g, t, d->in[linear]->shape);
    }
    if (side == 1 && b->needs_gradient) {
        quotient = copse_div(g, a, b);
        t = copse_mul(g, w, quotient);
        t = copse_multiply_by(g, t, 2);
        out[1] = copse__sum_to(g, t, b->shape);
    }
}

/* b dy by b, or a dy by a, where a is not above 0. */
static void prelu_second(copse_graph *g, const copse_tensor *d, copse_tensor *w, copse_tensor **out)
{
    const int32_t other = 1 - ((const struct copse_binary_attr *)d->attr)->side;
    copse_tensor *zero = copse_scalar(g, 0);
    copse_tensor *above = copse_greater(g, d->in[0], zero);
    w = copse_where(g, above, zero, w);
    out[other] = copse__sum_to(g, w, d->in[other]->shape);
}

static void binary_second(copse_graph *g, const copse_tensor *d, copse_tensor *slope,
                          copse_tensor **out)
{
    const struct copse_binary_attr *f = d->attr;
    copse_tensor *a = d->in[0], *b = d->in[1], *dy = d->in[2], *w;
    if (dy->needs_gradient)
        out[2] = COPSE_NODE(g, &copse_op_binary_grad, f, a, b, slope);
    if (f->id == BINARY_maximum || f->id == BINARY_minimum)
        return;
    if (f->id != BINARY_div && !d->in[1 - f->side]->needs_gradient)
        return;
    w = copse_mul(g, slope, dy);
    if (f->id == BINARY_mul)
        mul_second(g, d, w, out);
    else if (f->id == BINARY_div)
        div_second(g, d, w, out);
    else if (f->id == BINARY_prelu)
        prelu_second(g, d, w, out);
    else
        (void)copse__refuse(g, COPSE_ERR_UNSUPPORTED,
                            "gradient: the derivative of row %d of binary.def has no derivative: "
                            "add it to binary_second.c",
                            (int)f->id);
}

const struct copse_second copse_second_binary = { &copse_op_binary_grad, binary_second };
