/* SPDX-License-Identifier: MIT */
/* The op of matrix products: shapes, leading axes that broadcast, derivatives. */
#include "core/ops/ops.h"
#include "core/ops/product.h"

struct matmul_attr {
    bool a_transposed, b_transposed;
};

/* The leading axes of an operand. */
static copse_shape lead_of(const copse_tensor *x)
{
    copse_shape lead = x->shape;
    lead.rank -= 2;
    return lead;
}

/* Which matrices of an operand with leading axes `from` a batch of shape `to` reads. false: a matrix is repeated between
   axes that are not, so a copy is necessary. */
static bool items_of(copse_shape from, copse_shape to, struct copse_product_items *out)
{
    uint32_t i = 0;
    *out = (struct copse_product_items){ 1, 1 };
#define FROM (i < from.rank ? from.dims[from.rank - 1 - i] : 1)
#define TO   to.dims[to.rank - 1 - i]
    for (; i < to.rank && FROM == 1; i++)
        out->each *= TO;
    for (; i < to.rank && FROM == TO; i++)
        out->count *= TO;
    for (; i < to.rank; i++)
        if (FROM != 1)
            return false;
#undef FROM
#undef TO
    return true;
}

/* One b for all products: the rows of all matrices a are one matrix. */
static bool shares_b(const copse_tensor *y)
{
    return !((const struct matmul_attr *)y->attr)->a_transposed && copse__elements(lead_of(y->in[1])) == 1;
}

static copse_status infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct matmul_attr *t = y->attr;
    const copse_shape a = y->in[0]->shape, b = y->in[1]->shape;
    if (y->in[0]->type != COPSE_F32 || y->in[1]->type != COPSE_F32)
        return copse__shape_error(y, "expected f32 operands");
    if (a.rank < 2 || b.rank < 2)
        return copse__shape_error(y, "expected ranks of at least 2");
    if (!copse__broadcast(lead_of(y->in[0]), lead_of(y->in[1]), shape))
        return copse__shape_error(y, "expected leading axes that are equal or 1");
    const uint32_t k = a.dims[a.rank - 1 - t->a_transposed], b_k = b.dims[b.rank - 2 + t->b_transposed];
    if (k != b_k)
        return copse__shape_error(y, "expected equal inner sizes; a%s has %u, b%s has %u",
                                  t->a_transposed ? " (transposed)" : "", (unsigned)k,
                                  t->b_transposed ? " (transposed)" : "", (unsigned)b_k);
    shape->dims[shape->rank++] = a.dims[a.rank - 2 + t->a_transposed];
    shape->dims[shape->rank++] = b.dims[b.rank - 1 - t->b_transposed];
    *type = COPSE_F32;
    return COPSE_OK;
}

/* ---- the derivatives ---- */

/* x as one matrix of all rows. */
static copse_status all_rows(copse_graph *g, copse_tensor *x, copse_tensor **out)
{
    uint32_t rows = 1;
    for (uint32_t i = 0; i + 1 < x->shape.rank; i++)
        rows *= x->shape.dims[i];
    return copse_reshape(g, x, COPSE_SHAPE(rows, x->shape.dims[x->shape.rank - 1]), out);
}

static copse_status gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx)
{
    const struct matmul_attr *t = y->attr;
    copse_tensor *a = y->in[0], *b = y->in[1];
    const bool ta = t->a_transposed, tb = t->b_transposed;
    if (a->needs_gradient) { /* dA = dY op(B)^T, or its transpose */
        COPSE_TRY(ta ? copse_matmul(g, b, dy, tb, true, &dx[0]) : copse_matmul(g, dy, b, false, !tb, &dx[0]));
        COPSE_TRY(copse__sum_to(g, dx[0], a->shape, &dx[0]));
    }
    if (!b->needs_gradient)
        return COPSE_OK;
    if (shares_b(y)) { /* the product sums over the batch, too */
        COPSE_TRY(all_rows(g, a, &a));
        COPSE_TRY(all_rows(g, dy, &dy));
    }
    /* dB = op(A)^T dY, or its transpose */
    COPSE_TRY(tb ? copse_matmul(g, dy, a, true, ta, &dx[1]) : copse_matmul(g, a, dy, !ta, false, &dx[1]));
    return shares_b(y) ? copse_reshape(g, dx[1], b->shape, &dx[1]) : copse__sum_to(g, dx[1], b->shape, &dx[1]);
}

/* ---- the op ---- */

static copse_status lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct matmul_attr *t = y->attr;
    const copse_shape s = y->shape, lead = lead_of(y);
    struct copse_product p = {
        .a = y->in[0],
        .b = y->in[1],
        .c = y,
        .batch = (uint32_t)copse__elements(lead),
        .m = s.dims[s.rank - 2],
        .n = s.dims[s.rank - 1],
        .k = y->in[0]->shape.dims[y->in[0]->shape.rank - 1 - t->a_transposed],
        .a_transposed = t->a_transposed,
        .b_transposed = t->b_transposed,
    };
    if (shares_b(y)) {
        p.m *= p.batch;
        p.batch = 1;
    } else if (!items_of(lead_of(p.a), lead, &p.of_a) || !items_of(lead_of(p.b), lead, &p.of_b)) {
        return copse_fail(COPSE_ERR_INTERNAL, "matmul: operands that were not copied");
    }
    return copse__lower_product(l, &p);
}

static const struct copse_op op_matmul = {
    .name = "matmul",
    .attr_size = sizeof(struct matmul_attr),
    .infer = infer,
    .gradient = gradient,
    .lower = lower,
};

/* Copies an operand that no kernel can read in place: one that repeats between axes that do not. */
static copse_status copy(copse_graph *g, copse_shape lead, copse_tensor **x)
{
    struct copse_product_items items;
    const copse_shape s = (*x)->shape;
    if (items_of(lead_of(*x), lead, &items))
        return COPSE_OK;
    lead.dims[lead.rank++] = s.dims[s.rank - 2];
    lead.dims[lead.rank++] = s.dims[s.rank - 1];
    return copse_note(copse_broadcast_to(g, *x, lead, x), "while adding matmul");
}

copse_status copse_matmul(copse_graph *g, copse_tensor *a, copse_tensor *b, bool transpose_a, bool transpose_b,
                          copse_tensor **y)
{
    const struct matmul_attr t = { transpose_a, transpose_b };
    copse_shape lead;
    COPSE_TRY(COPSE_CHECK_OPERANDS("matmul", g, y, a, b));
    if (a->shape.rank >= 2 && b->shape.rank >= 2 && copse__broadcast(lead_of(a), lead_of(b), &lead)) {
        COPSE_TRY(copy(g, lead, &a));
        COPSE_TRY(copy(g, lead, &b));
    }
    return COPSE_NODE(g, &op_matmul, &t, y, a, b);
}
