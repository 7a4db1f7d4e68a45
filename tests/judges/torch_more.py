# SPDX-License-Identifier: MIT
"""Operators of PyTorch that reduce, normalise, move elements, and its losses: see torch_ops.py."""
import math

import numpy as np

from copse import ops as o

from judge import NotRun
from torch_ops import EXACT, R, add, flip_flag, operator, product, refuse, transposed
from torch_sizes import (attention_sizes, batch_norm_sizes, cosine_sizes, cross_entropy_sizes, group_norm_sizes,
                         instance_norm_sizes, layer_norm_result_sizes, layer_norm_sizes, length_sizes, log_softmax_sizes,
                         poisson_sizes, softmax_sizes)


def axes_of(x, dim):
    """Axes as a list; None: all."""
    if dim is None or dim == () or dim == []:
        return list(range(x.ndim))
    return [d % max(x.ndim, 1) for d in ([dim] if isinstance(dim, int) else dim)]


def at_least_1d(x):
    return o.reshape(x, (1,)) if x.ndim == 0 else x


def reduced(x, dim, keepdim, function):
    """A reduction of x, whose axes function(x, axes) keeps; of a scalar, too."""
    shape, axes = x.shape, axes_of(x, dim)
    y = function(at_least_1d(x), axes or [0])
    return o.reshape(y, [1 if i in axes else d for i, d in enumerate(shape)] if keepdim else
                     [d for i, d in enumerate(shape) if i not in axes])


def reduction(names, function, result, gradient):
    def op(x, dim=None, keepdim=False, **settings):
        refuse(**settings)
        return reduced(x, dim, keepdim, function)
    add(names, op, result, gradient)


def count(x, axes):
    return math.prod(x.shape[a] for a in axes)


def centred(x, axes):
    return x - o.mean(x, axes, True)


def variance_of(x, axes, correction):
    divisor = count(x, axes) - correction
    total = o.sum(o.square(centred(x, axes)), axes, True)
    return o.multiply_by(total, 1 / divisor) if divisor > 0 else o.multiply_by(total, math.nan if divisor == 0 else math.inf)


def log_sum_exp(x, axes):
    top = o.max(x, axes, True)
    top = o.where(o.less(o.abs(top), math.inf), top, 0)
    return o.log(o.sum(o.exp(x - top), axes, True)) + top


reduction("sum", lambda x, a: o.sum(x, a, True), R(4), R(4))
reduction("mean", lambda x, a: o.mean(x, a, True), R(4), R(4))
reduction("nansum", lambda x, a: o.sum(o.where(o.equal(x, x), x, 0), a, True), R(4), R(4))
reduction("nanmean", lambda x, a: o.div(o.sum(o.where(o.equal(x, x), x, 0), a, True), o.sum(o.equal(x, x), a, True)),
          R(8), R(8))
reduction("amax", lambda x, a: o.max(x, a, True), EXACT, R(4))
reduction("amin", lambda x, a: o.neg(o.max(o.neg(x), a, True)), EXACT, R(4))
reduction("logsumexp", log_sum_exp, R(8), R(16))
reduction("all", lambda x, a: flip_flag(o.max(o.equal(x, 0), a, True)), EXACT, EXACT)
reduction("any", lambda x, a: o.max(flip_flag(o.equal(x, 0)), a, True), EXACT, EXACT)
reduction("count_nonzero", lambda x, a: o.sum(flip_flag(o.equal(x, 0)), a, True), EXACT, EXACT)
add("max.reduction_no_dim", lambda x: reduced(x, None, False, lambda t, a: o.max(t, a, True)), EXACT, R(4))
add("min.reduction_no_dim", lambda x: o.neg(reduced(o.neg(x), None, False, lambda t, a: o.max(t, a, True))), EXACT, R(4))


def extreme_with_index(x, dim, keepdim=False):
    y = reduced(x, dim, keepdim, lambda t, a: o.max(t, a, True))
    return y, o.reshape(o.argmax(at_least_1d(x), axes_of(x, dim)[0] if x.ndim else 0), y.shape)


add("max.reduction_with_dim", extreme_with_index, EXACT, R(4))
add("min.reduction_with_dim", lambda x, dim, keepdim=False: [
    o.neg(y) if i == 0 else y for i, y in enumerate(extreme_with_index(o.neg(x), dim, keepdim))], EXACT, R(4))


@operator("argmax argmin", EXACT)
def argmax(x, dim=None, keepdim=False):
    if dim is None:
        y = o.argmax(o.reshape(x, (-1,)), 0)
        return o.reshape(y, [1] * x.ndim) if keepdim else y
    y = o.argmax(at_least_1d(x), axes_of(x, dim)[0] if x.ndim else 0)
    return o.reshape(y, [1 if i == dim % max(x.ndim, 1) else d for i, d in enumerate(x.shape)] if keepdim else
                     [d for i, d in enumerate(x.shape) if i != dim % max(x.ndim, 1)])


add("argmin", lambda x, dim=None, keepdim=False: argmax(o.neg(x), dim, keepdim), EXACT)


def moments(x, dim, unbiased, correction, keepdim, function):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    correction = (1 if unbiased is None or unbiased else 0) if correction is None else correction
    return [reduced(x, dim, keepdim, lambda t, a, f=f: f(t, a, correction)) for f in function]


def deviation_of(x, axes, correction):
    return o.sqrt(variance_of(x, axes, correction))


def mean_of(x, axes, correction):
    return o.mean(x, axes, True)


for names, functions in ("var", [variance_of]), ("std", [deviation_of]), ("var_mean", [variance_of, mean_of]), (
        "std_mean", [deviation_of, mean_of]):
    add(names, lambda x, dim=None, unbiased=None, keepdim=False, correction=None, f=functions: moments(
        x, dim, unbiased, correction, keepdim, f), R(16), R(24))


def vector_norm(x, axes, p):
    if p == math.inf:
        return o.max(o.abs(x), axes, True)
    if p == -math.inf:
        return o.neg(o.max(o.neg(o.abs(x)), axes, True))
    if p == 0:
        return o.sum(flip_flag(o.equal(x, 0)), axes, True)
    if p == 1:
        return o.sum(o.abs(x), axes, True)
    if p == 2:
        return o.sqrt(o.sum(o.square(x), axes, True))
    return o.pow(o.sum(o.pow(o.abs(x), p), axes, True), 1 / p)


@operator("linalg.vector_norm", R(24), R(48))
def linalg_vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):
    refuse(dtype=dtype)
    return reduced(x, dim, keepdim, lambda t, a: vector_norm(t, a, ord))


@operator("softmax", R(16), R(24, softmax_sizes))
def softmax(x, dim=-1, dtype=None, function=o.softmax):
    refuse(dtype=dtype)
    shape, x = x.shape, at_least_1d(x)
    axis = dim % x.ndim
    order = [i for i in range(x.ndim) if i != axis] + [axis]
    return o.reshape(o.transpose(function(o.transpose(x, order)), np.argsort(order).tolist()), shape)


add("log_softmax", lambda x, dim=-1, dtype=None: softmax(x, dim, dtype, o.log_softmax), R(16), R(24, log_softmax_sizes))
add("nn.functional.softmin", lambda x, dim=-1, dtype=None: softmax(o.neg(x), dim, dtype), R(16), R(24, softmax_sizes))


# ---- norms ----

@operator("nn.functional.layer_norm native_layer_norm", R(16, layer_norm_result_sizes), R(64, layer_norm_sizes))
def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    size = math.prod(shape)
    scale = o.fill((size,), 1) if weight is None else o.reshape(weight, (size,))
    offset = o.fill((size,), 0) if bias is None else o.reshape(bias, (size,))
    return o.reshape(o.layer_norm(o.reshape(x, (-1, size)), scale, offset, eps), x.shape)


def native_layer_norm(x, shape, weight, bias, eps):
    axes = list(range(x.ndim - len(shape), x.ndim))
    inverse = o.rsqrt(o.mean(o.square(centred(x, axes)), axes, True) + eps)
    return layer_norm(x, shape, weight, bias, eps), o.mean(x, axes, True), inverse


add("native_layer_norm", native_layer_norm, R(16, layer_norm_result_sizes), R(64, layer_norm_sizes))


def per_channel(v, x):
    return o.reshape(v, [1, -1] + [1] * (x.ndim - 2))


@operator("nn.functional.group_norm", R(32), R(64, group_norm_sizes))
def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    size = math.prod(x.shape) // max(x.shape[0] * groups, 1)
    y = o.layer_norm(o.reshape(x, (-1, size)), o.fill((size,), 1), o.fill((size,), 0), eps)
    y = o.reshape(y, x.shape)
    y = y if weight is None else y * per_channel(weight, x)
    return y if bias is None else y + per_channel(bias, x)


def instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    return group_norm(x, x.shape[1], weight, bias, eps)


add("nn.functional.instance_norm", instance_norm, R(32), R(64, instance_norm_sizes))


@operator("nn.functional.batch_norm", R(32), R(64, batch_norm_sizes))
def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    mean, variance = running_mean, running_var
    refuse(one_axis=x.ndim == 1)
    if training or mean is None:
        axes = [i for i in range(x.ndim) if i != 1]
        mean = o.mean(x, axes, True)
        variance = o.mean(o.square(x - mean), axes, True)
    else:
        mean, variance = per_channel(mean, x), per_channel(variance, x)
    y = (x - mean) * o.rsqrt(variance + eps)
    y = y if weight is None else y * per_channel(weight, x)
    return y if bias is None else y + per_channel(bias, x)


@operator("nn.functional.normalize", R(24), R(48, length_sizes))
def normalize(x, p=2.0, dim=1, eps=1e-12):
    return o.div(x, o.maximum(reduced(x, dim, True, lambda t, a: vector_norm(t, a, p)), eps))


@operator("nn.functional.pairwise_distance", R(24), R(48))
def pairwise_distance(a, b, p=2.0, eps=1e-6, keepdim=False):
    return reduced(a - b + eps, -1, keepdim, lambda t, axes: vector_norm(t, axes, p))


# ---- losses ----

def averaged(losses, reduction="mean", size_average=None, reduce=None):
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    return {"none": lambda: losses, "sum": lambda: o.sum(losses), "mean": lambda: o.mean(losses)}[reduction]()


def loss(names, function, result, gradient):
    """A loss of each element, and the reduction."""
    def op(x, y, *more, weight=None, reduction="mean", size_average=None, reduce=None, **settings):
        values = function(x, y, *more, **settings)
        if weight is not None:
            values = values * weight
        return averaged(values, reduction, size_average, reduce)
    add(names, op, result, gradient)


def huber(x, y, delta=1.0):
    d = o.abs(x - y)
    return o.where(o.less(delta, d), o.multiply_by(d - 0.5 * delta, delta), o.multiply_by(o.square(d), 0.5))


def smooth_l1(x, y, beta=1.0):
    d = o.abs(x - y)
    return d if beta == 0 else o.where(o.less(d, beta), o.multiply_by(o.square(d), 0.5 / beta), d - 0.5 * beta)


def kl_div(x, y, log_target=False):
    return o.exp(y) * (y - x) if log_target else o.where(o.equal(y, 0), 0, y * o.log(o.where(o.equal(y, 0), 1, y))) - y * x


def poisson_nll(x, y, log_input=True, full=False, eps=1e-8):
    losses = o.exp(x) - y * x if log_input else x - y * o.log(x + eps)
    if full:
        stirling = y * o.log(y) - y + o.multiply_by(o.log(o.multiply_by(y, 2 * math.pi)), 0.5)
        losses = losses + o.where(o.less(1, y), stirling, 0)
    return losses


def binary_cross_entropy(x, y):
    return o.neg(y * o.maximum(o.log(x), -100.0) + (1 - y) * o.maximum(o.log(1 - x), -100.0))


def with_logits(x, y, pos_weight=None):
    plus = y * o.softplus(o.neg(x))
    return (plus if pos_weight is None else plus * pos_weight) + (1 - y) * o.softplus(x)


loss("nn.functional.mse_loss", lambda x, y: o.square(x - y), R(8), R(12))
loss("nn.functional.l1_loss", lambda x, y: o.abs(x - y), R(8), R(8))
loss("nn.functional.huber_loss", huber, R(10), R(12))
loss("nn.functional.smooth_l1_loss", smooth_l1, R(10), R(12))
loss("nn.functional.binary_cross_entropy", binary_cross_entropy, R(16), R(24))
loss("nn.functional.binary_cross_entropy_with_logits", with_logits, R(16), R(24))
loss("nn.functional.poisson_nll_loss", poisson_nll, R(16, poisson_sizes), R(24))
loss("nn.functional.soft_margin_loss", lambda x, y: o.softplus(o.neg(x * y)), R(12), R(16))
loss("nn.functional.hinge_embedding_loss", lambda x, y, margin=1.0: o.where(o.equal(y, -1), 0, x) + o.where(
    o.equal(y, 1), 0, o.maximum(margin - x, 0)), R(8), R(8))
loss("nn.functional.margin_ranking_loss", lambda a, b, y, margin=0.0: o.maximum(o.neg(y) * (a - b) + margin, 0), R(8), R(8))


@operator("nn.functional.kl_div", R(16), R(24))
def kl_div_loss(x, y, size_average=None, reduce=None, reduction="mean", log_target=False):
    values = kl_div(x, y, log_target)
    if reduction == "batchmean":
        return o.multiply_by(o.sum(values), 1 / x.shape[0])
    return averaged(values, reduction, size_average, reduce)


def classes_last(x):
    return o.transpose(x, [0] + list(range(2, x.ndim)) + [1]) if x.ndim > 1 else o.reshape(x, (1, -1))


def loss_of_labels(log_p, labels, weight, ignore_index, reduction, shape):
    classes = log_p.shape[-1]
    labels = o.reshape(labels, log_p.shape[:-1])
    w = o.fill(labels.shape, 1) if weight is None else o.gather(weight, labels)
    w = o.where(o.equal(labels, ignore_index), 0, w)
    picked = o.sum(o.where(o.one_hot(labels, classes), log_p, 0), -1)
    losses = o.where(o.equal(w, 0), 0, o.neg(picked * w))
    if reduction == "none":
        return o.reshape(losses, shape)
    return o.sum(losses) if reduction == "sum" else o.div(o.sum(losses), o.sum(w))


@operator("nn.functional.nll_loss", R(16), R(16))
def nll_loss(x, labels, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    return loss_of_labels(classes_last(x), labels, weight, ignore_index, reduction, labels.shape)


@operator("nn.functional.cross_entropy", R(24), R(32, cross_entropy_sizes))
def cross_entropy(x, labels, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    if labels.dtype == "float32":
        return cross_entropy_of_probabilities(x, labels, weight, reduction, label_smoothing)
    refuse(label_smoothing=label_smoothing)
    if weight is None and x.ndim == 2 and reduction != "none" and ignore_index < 0:
        return o.sparse_cross_entropy(x, labels, reduction)
    return loss_of_labels(o.log_softmax(classes_last(x)), labels, weight, ignore_index, reduction, labels.shape)


def cross_entropy_of_probabilities(x, p, weight, reduction, label_smoothing):
    rows, p = classes_last(x), classes_last(p)
    p = p if not label_smoothing else o.multiply_by(p, 1 - label_smoothing) + label_smoothing / p.shape[-1]
    log_p = o.log_softmax(rows)
    losses = o.neg(o.sum((log_p if weight is None else log_p * weight) * p, -1))
    if reduction == "none":
        return o.reshape(losses, [d for i, d in enumerate(x.shape) if i != (1 if x.ndim > 1 else 0)])
    return o.sum(losses) if reduction == "sum" else o.multiply_by(o.sum(losses), 1 / math.prod(losses.shape))


@operator("nn.functional.cosine_similarity", R(24), R(48, cosine_sizes))
def cosine_similarity(a, b, dim=1, eps=1e-8):
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = (o.broadcast_to(t, shape) for t in (a, b))
    lengths = [o.maximum(reduced(t, dim, True, lambda u, x: vector_norm(u, x, 2)), eps) for t in (a, b)]
    return reduced(o.div(a, lengths[0]) * o.div(b, lengths[1]), dim, False, lambda t, x: o.sum(t, x, True))


# ---- tables, attention ----

@operator("nn.functional.embedding", EXACT, R(4))
def embedding(table, indices, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    refuse(padding_idx=padding_idx is not None, max_norm=max_norm, scale_grad_by_freq=scale_grad_by_freq)
    return o.gather(table, indices)


@operator("nn.functional.one_hot", EXACT)
def one_hot(x, num_classes=-1):
    refuse(num_classes=num_classes < 0)
    return o.one_hot(x, num_classes)


@operator("nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d", EXACT)
def dropout(x, p=0.5, training=True, inplace=False):
    if training and p > 0:
        raise NotRun("random numbers: each library has its own")
    return o.dropout(x, 0, False)


@operator("nn.functional._scaled_dot_product_attention", R(64), R(96, attention_sizes))
def attention(q, k, v, attn_mask=None, dropout_p=0.0, need_attn_weights=False, is_causal=False):
    if dropout_p:
        raise NotRun("random numbers: each library has its own")
    scores = product(o.multiply_by(q, q.shape[-1] ** -0.5), transposed(k))
    if is_causal:
        attn_mask = o.constant(np.tril(np.ones(scores.shape[-2:], np.int32)))
    if attn_mask is not None:
        scores = o.where(attn_mask, scores, -math.inf) if attn_mask.dtype == "int32" else scores + attn_mask
    weights = o.softmax(scores)
    return product(weights, v), weights
