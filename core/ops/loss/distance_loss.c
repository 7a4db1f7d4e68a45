/* SPDX-License-Identifier: MIT */
/* Losses of distances between two tensors, made of other ops: Huber's loss, smooth L1, cosines. */
#include <math.h>

#include "copse/ops/losses.h"
#include "core/graph/type.h"
#include "core/ops/ops.h"

/* ---- Huber's loss and smooth L1 ---- */

copse_status copse_huber_loss(copse_graph *g, copse_tensor *a, copse_tensor *b, float delta,
                              copse_averaging averaging, copse_tensor **out)
{
    copse_tensor *d;
    COPSE_TRY(COPSE_CHECK_OPERANDS("huber_loss", g, out, a, b));
    COPSE_TRY(copse__check_averaging("huber_loss", averaging));
    if (!(delta > 0.0f) || !isfinite(delta))
        return copse_fail(COPSE_ERR_ARGUMENT, "huber_loss: delta %g is not a finite number above 0",
                          (double)delta);
    COPSE_TRY(copse_note(copse_sub(g, a, b, &d), "in huber_loss"));
    COPSE_TRY(copse_note(copse__huber(g, d, delta, &d), "in huber_loss"));
    return copse_note(copse__average(g, d, averaging, out), "in huber_loss");
}

static copse_status add_smooth_l1(copse_graph *g, copse_tensor *a, copse_tensor *b, float beta,
                                  copse_averaging averaging, copse_tensor **out)
{
    copse_tensor *d;
    COPSE_TRY(copse_sub(g, a, b, &d));
    if (beta > 0.0f) {
        COPSE_TRY(copse__huber(g, d, beta, &d));
        COPSE_TRY(copse__divide_by(g, d, beta, &d));
    } else {
        COPSE_TRY(copse_abs(g, d, &d));
    }
    return copse__average(g, d, averaging, out);
}

copse_status copse_smooth_l1_loss(copse_graph *g, copse_tensor *a, copse_tensor *b, float beta,
                                  copse_averaging averaging, copse_tensor **out)
{
    COPSE_TRY(COPSE_CHECK_OPERANDS("smooth_l1_loss", g, out, a, b));
    COPSE_TRY(copse__check_averaging("smooth_l1_loss", averaging));
    if (!(beta >= 0.0f) || !isfinite(beta))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "smooth_l1_loss: beta %g is not a finite number from 0 on", (double)beta);
    return copse_note(add_smooth_l1(g, a, b, beta, averaging, out), "in smooth_l1_loss");
}

/* ---- cosines ---- */

#define LEAST 1e-16 /* square of the smallest length that counts */

/* sqrt(max(sum of squares, LEAST)): a vector of zeros has a derivative of 0. */
static copse_status length(copse_graph *g, copse_tensor *x, uint32_t axis, copse_tensor *least,
                           copse_tensor **out)
{
    COPSE_TRY(copse_square(g, x, out));
    COPSE_TRY(copse_sum(g, *out, &axis, 1, false, out));
    COPSE_TRY(copse_maximum(g, *out, least, out));
    return copse_sqrt(g, *out, out);
}

static copse_status add_cosine(copse_graph *g, copse_tensor *a, copse_tensor *b, copse_tensor **out)
{
    const uint32_t axis = a->shape.rank - 1;
    copse_tensor *least, *t, *size;
    COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, LEAST, &least));
    COPSE_TRY(copse_mul(g, a, b, &t));
    COPSE_TRY(copse_sum(g, t, &axis, 1, false, &t));
    COPSE_TRY(length(g, a, axis, least, &size));
    COPSE_TRY(copse_div(g, t, size, &t));
    COPSE_TRY(length(g, b, axis, least, &size));
    return copse_div(g, t, size, out);
}

static copse_status check_vectors(const char *op, const copse_tensor *a, const copse_tensor *b)
{
    if (a->type == COPSE_F32 && b->type == COPSE_F32 && a->shape.rank > 0 &&
        copse__shape_equal(a->shape, b->shape))
        return COPSE_OK;
    return copse_fail(
        COPSE_ERR_SHAPE,
        "%s: operands %s%s and %s%s: expected two f32 tensors of one shape, rank 1 or more", op,
        copse__type_name(a->type), COPSE_SHAPE_TEXT(a->shape), copse__type_name(b->type),
        COPSE_SHAPE_TEXT(b->shape));
}

copse_status copse_cosine_similarity(copse_graph *g, copse_tensor *a, copse_tensor *b,
                                     copse_tensor **out)
{
    COPSE_TRY(COPSE_CHECK_OPERANDS("cosine_similarity", g, out, a, b));
    COPSE_TRY(COPSE_COMPUTE_IN_F32(g, &a, &b));
    COPSE_TRY(check_vectors("cosine_similarity", a, b));
    return copse_note(add_cosine(g, a, b, out), "in cosine_similarity");
}

/* 1 where the labels are `label`. */
static copse_status has_label(copse_graph *g, copse_tensor *labels, double label,
                              copse_tensor **out)
{
    COPSE_TRY(copse_fill(g, COPSE_I32, COPSE_SCALAR, label, out));
    return copse_equal(g, labels, *out, out);
}

static copse_status add_embedding(copse_graph *g, copse_tensor *a, copse_tensor *b,
                                  copse_tensor *labels, float margin, copse_averaging averaging,
                                  copse_tensor **out)
{
    copse_tensor *cosine, *near, *far, *one, *edge, *nothing, *is_near, *is_far;
    COPSE_TRY(add_cosine(g, a, b, &cosine));
    COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, 1, &one));
    COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)margin, &edge));
    COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, NAN, &nothing));
    COPSE_TRY(copse_sub(g, one, cosine, &near));
    COPSE_TRY(copse_sub(g, cosine, edge, &far));
    COPSE_TRY(copse_relu(g, far, &far));
    COPSE_TRY(has_label(g, labels, 1, &is_near));
    COPSE_TRY(has_label(g, labels, -1, &is_far));
    COPSE_TRY(copse_where(g, is_far, far, nothing, &far));
    COPSE_TRY(copse_where(g, is_near, near, far, &near));
    return copse__average(g, near, averaging, out);
}

copse_status copse_cosine_embedding_loss(copse_graph *g, copse_tensor *a, copse_tensor *b,
                                         copse_tensor *labels, float margin,
                                         copse_averaging averaging, copse_tensor **out)
{
    static const char name[] = "cosine_embedding_loss";
    COPSE_TRY(COPSE_CHECK_OPERANDS(name, g, out, a, b, labels));
    COPSE_TRY(copse__check_averaging(name, averaging));
    COPSE_TRY(COPSE_COMPUTE_IN_F32(g, &a, &b));
    COPSE_TRY(check_vectors(name, a, b));
    copse_shape rows = a->shape;
    rows.dims[--rows.rank] = 0;
    if (labels->type != COPSE_I32 || !copse__shape_equal(labels->shape, rows))
        return copse_fail(COPSE_ERR_SHAPE, "%s: labels %s%s: expected i32%s", name,
                          copse__type_name(labels->type), COPSE_SHAPE_TEXT(labels->shape),
                          COPSE_SHAPE_TEXT(rows));
    if (!(margin >= -1.0f && margin <= 1.0f))
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: margin %g is not -1 to 1", name, (double)margin);
    return copse_note(add_embedding(g, a, b, labels, margin, averaging, out),
                      "in cosine_embedding_loss");
}
