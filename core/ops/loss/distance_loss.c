/* SPDX-License-Identifier: MIT */
/* Losses of distances between two tensors, made of other ops: Huber's loss, smooth L1, cosines. */
#include <math.h>

#include "copse/ops/losses.h"
#include "core/graph/type.h"
#include "core/ops/ops.h"

/* ---- Huber's loss and smooth L1 ---- */

copse_tensor *copse_huber_loss(copse_graph *g, copse_tensor *a, copse_tensor *b, float delta,
                               copse_averaging averaging)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("huber_loss", g, a, b));
    COPSE_LATCH(g, copse__check_averaging("huber_loss", averaging));
    if (!(delta > 0.0f) || !isfinite(delta))
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "huber_loss: delta %g is not a finite number above 0", (double)delta);
    copse_tensor *d = copse__noted(g, copse_sub(g, a, b), "in huber_loss");
    d = copse__noted(g, copse__huber(g, d, delta), "in huber_loss");
    return copse__noted(g, copse__average(g, d, averaging), "in huber_loss");
}

static copse_tensor *add_smooth_l1(copse_graph *g, copse_tensor *a, copse_tensor *b, float beta,
                                   copse_averaging averaging)
{
    copse_tensor *d = copse_sub(g, a, b);
    if (beta > 0.0f) {
        d = copse__huber(g, d, beta);
        d = copse__divide_by(g, d, beta);
    } else {
        d = copse_abs(g, d);
    }
    return copse__average(g, d, averaging);
}

copse_tensor *copse_smooth_l1_loss(copse_graph *g, copse_tensor *a, copse_tensor *b, float beta,
                                   copse_averaging averaging)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("smooth_l1_loss", g, a, b));
    COPSE_LATCH(g, copse__check_averaging("smooth_l1_loss", averaging));
    if (!(beta >= 0.0f) || !isfinite(beta))
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "smooth_l1_loss: beta %g is not a finite number from 0 on",
                             (double)beta);
    return copse__noted(g, add_smooth_l1(g, a, b, beta, averaging), "in smooth_l1_loss");
}

/* ---- cosines ---- */

#define LEAST 1e-16 /* square of the smallest length that counts */

/* sqrt(max(sum of squares, LEAST)): a vector of zeros has a derivative of 0. */
static copse_tensor *distance_loss_length(copse_graph *g, copse_tensor *x, uint32_t axis,
                                          copse_tensor *least)
{
    copse_tensor *out = copse_square(g, x);
    out = copse_sum(g, out, &axis, 1, false);
    out = copse_maximum(g, out, least);
    return copse_sqrt(g, out);
}

static copse_tensor *add_cosine(copse_graph *g, copse_tensor *a, copse_tensor *b)
{
    const uint32_t axis = a->shape.rank - 1;
    copse_tensor *least = copse_fill(g, COPSE_F32, COPSE_SCALAR, LEAST);
    copse_tensor *t = copse_mul(g, a, b);
    t = copse_sum(g, t, &axis, 1, false);
    copse_tensor *size = distance_loss_length(g, a, axis, least);
    t = copse_div(g, t, size);
    size = distance_loss_length(g, b, axis, least);
    return copse_div(g, t, size);
}

static copse_status check_vectors(const char *op, const copse_tensor *a, const copse_tensor *b)
{
    if (a->type == COPSE_F32 && b->type == COPSE_F32 && a->shape.rank > 0 &&
        copse__shape_equal(a->shape, b->shape))
        return COPSE_OK;
    return copse_fail(
        COPSE_ERR_SHAPE,
        "%s: operands %s%s and %s%s: expected two f32 tensors of one shape, rank 1 or more", op,
        copse_type_name(a->type), COPSE_SHAPE_TEXT(a->shape), copse_type_name(b->type),
        COPSE_SHAPE_TEXT(b->shape));
}

copse_tensor *copse_cosine_similarity(copse_graph *g, copse_tensor *a, copse_tensor *b)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("cosine_similarity", g, a, b));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &a, &b));
    COPSE_LATCH(g, check_vectors("cosine_similarity", a, b));
    return copse__noted(g, add_cosine(g, a, b), "in cosine_similarity");
}

/* 1 where the labels are `label`. */
static copse_tensor *has_label(copse_graph *g, copse_tensor *labels, double label)
{
    copse_tensor *out = copse_fill(g, COPSE_I32, COPSE_SCALAR, label);
    return copse_equal(g, labels, out);
}

static copse_tensor *add_embedding(copse_graph *g, copse_tensor *a, copse_tensor *b,
                                   copse_tensor *labels, float margin, copse_averaging averaging)
{
    copse_tensor *cosine = add_cosine(g, a, b);
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SCALAR, 1);
    copse_tensor *edge = copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)margin);
    copse_tensor *nothing = copse_fill(g, COPSE_F32, COPSE_SCALAR, NAN);
    copse_tensor *near = copse_sub(g, one, cosine);
    copse_tensor *far = copse_sub(g, cosine, edge);
    far = copse_relu(g, far);
    copse_tensor *is_near = has_label(g, labels, 1);
    copse_tensor *is_far = has_label(g, labels, -1);
    far = copse_where(g, is_far, far, nothing);
    near = copse_where(g, is_near, near, far);
    return copse__average(g, near, averaging);
}

copse_tensor *copse_cosine_embedding_loss(copse_graph *g, copse_tensor *a, copse_tensor *b,
                                          copse_tensor *labels, float margin,
                                          copse_averaging averaging)
{
    static const char name[] = "cosine_embedding_loss";
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS(name, g, a, b, labels));
    COPSE_LATCH(g, copse__check_averaging(name, averaging));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &a, &b));
    COPSE_LATCH(g, check_vectors(name, a, b));
    copse_shape rows = a->shape;
    rows.dims[--rows.rank] = 0;
    if (labels->type != COPSE_I32 || !copse__shape_equal(labels->shape, rows))
        return copse__refuse(g, COPSE_ERR_SHAPE, "%s: labels %s%s: expected i32%s", name,
                             copse_type_name(labels->type), COPSE_SHAPE_TEXT(labels->shape),
                             COPSE_SHAPE_TEXT(rows));
    if (!(margin >= -1.0f && margin <= 1.0f))
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "%s: margin %g is not -1 to 1", name,
                             (double)margin);
    return copse__noted(g, add_embedding(g, a, b, labels, margin, averaging),
                        "in cosine_embedding_loss");
}
