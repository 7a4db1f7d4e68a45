# SPDX-License-Identifier: MIT
"""Ops: each adds a node to the graph of its operands. Operands are tensors, variables, and numbers where the other
operand is a tensor. Call them in a loss function or a function of @copse.function."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any, Iterator, Optional, Sequence, Union, overload

import numpy as np

from ._library import c_string, check, choice, ffi, lib
from .errors import ArgumentError
from .options import Activation, Averaging, DType, Padding, Precision, Reduction, Resizing
from .strategy import Variable
from .tensor import Scope, Tensor, array, array_of, shape_of, type_of

Operand = Union[Tensor, Variable]
_now = threading.local()

ACTIVATIONS = {
    "linear": lib.COPSE_LINEAR, "relu": lib.COPSE_RELU, "sigmoid": lib.COPSE_SIGMOID, "tanh": lib.COPSE_TANH,
    "gelu": lib.COPSE_GELU, "silu": lib.COPSE_SILU,
}
PADDINGS = {"explicit": lib.COPSE_PADDING_EXPLICIT, "same": lib.COPSE_PADDING_SAME}
AVERAGINGS = {"mean": lib.COPSE_MEAN, "sum": lib.COPSE_SUM}
REDUCTIONS = {**AVERAGINGS, "none": lib.COPSE_EACH}


def _scope() -> Scope:
    scope = getattr(_now, "scope", None)
    if scope is None:
        raise ArgumentError("ops work in a loss function or a function of @copse.function")
    return scope


def is_building() -> bool:
    """Whether the thread builds a graph."""
    return getattr(_now, "scope", None) is not None


def graph() -> Any:
    """The graph that is being built in this thread."""
    return _scope().graph


@contextmanager
def building(g: Any) -> Iterator[Scope]:
    """Ops add to this graph, during a call of the application's function."""
    scope, before = Scope(g), getattr(_now, "scope", None)
    _now.scope = scope
    try:
        yield scope
    finally:
        _now.scope = before
        scope.is_over = True


def _pointer(x: Any, like: Optional[Operand] = None) -> Any:
    if isinstance(x, Tensor):
        return x._pointer
    if isinstance(x, Variable):
        return x._tensor
    if like is not None and isinstance(x, (int, float)):
        return fill((), x, like.dtype)._pointer
    raise ArgumentError(f"an operand is {type(x).__name__}: use a Tensor, a Variable, or a number beside one of them")


def _checked(scope: Scope) -> Scope:
    """Raise the failure of the graph, if it has one, at the line that called the op."""
    check(lib.copse_graph_status(scope.graph))
    return scope


def _call(function: Any, *arguments: Any) -> Tensor:
    scope = _scope()
    result = function(scope.graph, *arguments)
    return Tensor(_checked(scope), result)


def _do(function: Any, *arguments: Any) -> None:
    """A call without a result."""
    scope = _scope()
    function(scope.graph, *arguments)
    _checked(scope)


def _pair(function: Any, a: Any, b: Any) -> Tensor:
    like = a if isinstance(a, (Tensor, Variable)) else b
    return _call(function, _pointer(a, like), _pointer(b, like))


# Functions of each element.

def neg(x: Operand) -> Tensor:
    """-x."""
    return _call(lib.copse_neg, _pointer(x))


def abs(x: Operand) -> Tensor:
    """|x|."""
    return _call(lib.copse_abs, _pointer(x))


def square(x: Operand) -> Tensor:
    """x^2."""
    return _call(lib.copse_square, _pointer(x))


def sqrt(x: Operand) -> Tensor:
    """The square root of x."""
    return _call(lib.copse_sqrt, _pointer(x))


def rsqrt(x: Operand) -> Tensor:
    """1 / sqrt(x)."""
    return _call(lib.copse_rsqrt, _pointer(x))


def exp(x: Operand) -> Tensor:
    """e^x."""
    return _call(lib.copse_exp, _pointer(x))


def log(x: Operand) -> Tensor:
    """The natural logarithm of x."""
    return _call(lib.copse_log, _pointer(x))


def relu(x: Operand) -> Tensor:
    """max(x, 0)."""
    return _call(lib.copse_relu, _pointer(x))


def sigmoid(x: Operand) -> Tensor:
    """1 / (1 + e^-x)."""
    return _call(lib.copse_sigmoid, _pointer(x))


def tanh(x: Operand) -> Tensor:
    """The hyperbolic tangent of x."""
    return _call(lib.copse_tanh, _pointer(x))


def softplus(x: Operand) -> Tensor:
    """log(1 + e^x)."""
    return _call(lib.copse_softplus, _pointer(x))


def silu(x: Operand) -> Tensor:
    """x sigmoid(x)."""
    return _call(lib.copse_silu, _pointer(x))


def gelu(x: Operand) -> Tensor:
    """x times the normal distribution at x."""
    return _call(lib.copse_gelu, _pointer(x))


def erf(x: Operand) -> Tensor:
    """The error function of x."""
    return _call(lib.copse_erf, _pointer(x))


def sin(x: Operand) -> Tensor:
    """The sine of x, in radians."""
    return _call(lib.copse_sin, _pointer(x))


def cos(x: Operand) -> Tensor:
    """The cosine of x, in radians."""
    return _call(lib.copse_cos, _pointer(x))


def tan(x: Operand) -> Tensor:
    """The tangent of x, in radians."""
    return _call(lib.copse_tan, _pointer(x))


def asin(x: Operand) -> Tensor:
    """The inverse of the sine."""
    return _call(lib.copse_asin, _pointer(x))


def acos(x: Operand) -> Tensor:
    """The inverse of the cosine."""
    return _call(lib.copse_acos, _pointer(x))


def atan(x: Operand) -> Tensor:
    """The inverse of the tangent."""
    return _call(lib.copse_atan, _pointer(x))


def sinh(x: Operand) -> Tensor:
    """The hyperbolic sine of x."""
    return _call(lib.copse_sinh, _pointer(x))


def cosh(x: Operand) -> Tensor:
    """The hyperbolic cosine of x."""
    return _call(lib.copse_cosh, _pointer(x))


def asinh(x: Operand) -> Tensor:
    """The inverse of the hyperbolic sine."""
    return _call(lib.copse_asinh, _pointer(x))


def acosh(x: Operand) -> Tensor:
    """The inverse of the hyperbolic cosine."""
    return _call(lib.copse_acosh, _pointer(x))


def atanh(x: Operand) -> Tensor:
    """The inverse of the hyperbolic tangent."""
    return _call(lib.copse_atanh, _pointer(x))


def gelu_tanh(x: Operand) -> Tensor:
    """gelu by the formula with tanh."""
    return _call(lib.copse_gelu_tanh, _pointer(x))


def mish(x: Operand) -> Tensor:
    """x tanh(softplus(x))."""
    return _call(lib.copse_mish, _pointer(x))


def hard_sigmoid(x: Operand) -> Tensor:
    """max(0, min(1, x / 6 + 1 / 2))."""
    return _call(lib.copse_hard_sigmoid, _pointer(x))


def hard_swish(x: Operand) -> Tensor:
    """x hard_sigmoid(x)."""
    return _call(lib.copse_hard_swish, _pointer(x))


def selu(x: Operand) -> Tensor:
    """1.0507 x where x > 0, else 1.7581 (e^x - 1)."""
    return _call(lib.copse_selu, _pointer(x))


def logical_not(x: Operand) -> Tensor:
    """1 where x is 0, else 0."""
    return _call(lib.copse_logical_not, _pointer(x))


def softmax(x: Operand) -> Tensor:
    """e^x divided by its sum over the last axis."""
    return _call(lib.copse_softmax, _pointer(x))


def log_softmax(x: Operand) -> Tensor:
    """log(softmax(x))."""
    return _call(lib.copse_log_softmax, _pointer(x))


# Functions of two operands, with broadcasting.

def add(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """a + b."""
    return _pair(lib.copse_add, a, b)


def sub(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """a - b."""
    return _pair(lib.copse_sub, a, b)


def mul(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """a b."""
    return _pair(lib.copse_mul, a, b)


def div(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """a / b."""
    return _pair(lib.copse_div, a, b)


def maximum(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """The larger of a and b."""
    return _pair(lib.copse_maximum, a, b)


def minimum(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """The smaller of a and b."""
    return _pair(lib.copse_minimum, a, b)


def equal(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """1 where a = b, else 0."""
    return _pair(lib.copse_equal, a, b)


def not_equal(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """1 where a and b differ, else 0."""
    return _pair(lib.copse_not_equal, a, b)


def greater_equal(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """1 where a >= b, else 0."""
    return _pair(lib.copse_greater_equal, a, b)


def greater(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """1 where a > b, else 0."""
    return _pair(lib.copse_greater, a, b)


def less(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """1 where a < b, else 0."""
    return _pair(lib.copse_less, a, b)


def less_equal(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """1 where a <= b, else 0."""
    return _pair(lib.copse_less_equal, a, b)


def logical_and(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """1 where neither a nor b is 0, else 0."""
    return _pair(lib.copse_logical_and, a, b)


def logical_or(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """1 where a or b is not 0, else 0."""
    return _pair(lib.copse_logical_or, a, b)


def logical_xor(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """1 where one of a and b is 0 and the other one is not, else 0."""
    return _pair(lib.copse_logical_xor, a, b)


def prelu(a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """a where a > 0, else b a: b is trained."""
    return _pair(lib.copse_prelu, a, b)


def softmax_groups(x: Operand, groups: int, scale: float = 1.0) -> Tensor:
    """Softmax of scale x over each of `groups` equal parts of the last axis."""
    return _call(lib.copse_softmax_groups, _pointer(x), groups, scale)


def leaky_relu(x: Operand, slope: float = 0.01) -> Tensor:
    return _call(lib.copse_leaky_relu, _pointer(x), slope)


def elu(x: Operand, alpha: float = 1.0) -> Tensor:
    return _call(lib.copse_elu, _pointer(x), alpha)


def pow(x: Operand, exponent: float) -> Tensor:
    return _call(lib.copse_pow, _pointer(x), exponent)


def clip(x: Operand, low: float, high: float) -> Tensor:
    return _call(lib.copse_clip, _pointer(x), low, high)


def multiply_by(x: Operand, factor: float) -> Tensor:
    """factor x."""
    return _call(lib.copse_multiply_by, _pointer(x), factor)


def _axes(axes: Union[int, Sequence[int]], rank: int) -> list[int]:
    """Axes from 0; negative ones count from the end."""
    listed = [axes] if isinstance(axes, int) else list(axes)
    positions = [a + rank if a < 0 else a for a in listed]
    if any(p < 0 for p in positions):
        raise ArgumentError(f"the tensor has {rank} axes, not an axis {min(listed)}")
    return positions


def _reduce(function: Any, x: Operand, axes: Union[int, Sequence[int], None], keep_dims: bool) -> Tensor:
    positions = [] if axes is None else _axes(axes, len(x.shape))
    if axes is not None and not positions:  # of no axes; the library reads an empty list as all
        return reshape(x, x.shape)
    return _call(function, _pointer(x), positions or ffi.NULL, len(positions), keep_dims)


def sum(x: Operand, axes: Union[int, Sequence[int], None] = None, keep_dims: bool = False) -> Tensor:
    """Sum over some axes, or all."""
    return _reduce(lib.copse_sum, x, axes, keep_dims)


def mean(x: Operand, axes: Union[int, Sequence[int], None] = None, keep_dims: bool = False) -> Tensor:
    """Mean over some axes, or all."""
    return _reduce(lib.copse_mean, x, axes, keep_dims)


def max(x: Operand, axes: Union[int, Sequence[int], None] = None, keep_dims: bool = False) -> Tensor:
    """Largest element over some axes, or all."""
    return _reduce(lib.copse_max, x, axes, keep_dims)


def argmax(x: Operand, axis: int = -1) -> Tensor:
    """Index (int32) of the largest element along an axis."""
    return _call(lib.copse_argmax, _pointer(x), _axes(axis, len(x.shape))[0])


def cumsum(x: Operand, axis: int = -1, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Sums of the elements up to each one along an axis; exclusive: without the element itself; reverse: from the end."""
    return _call(lib.copse_cumsum, _pointer(x), _axes(axis, len(x.shape))[0], exclusive, reverse)


def top_k(x: Operand, k: int) -> tuple[Tensor, Tensor]:
    """The k largest elements along the last axis, from the largest, and their indices (int32). NaN counts as the largest;
    of equal elements those with lower indices come first."""
    indices = ffi.new("copse_tensor **")
    values = _call(lib.copse_top_k, _pointer(x), k, indices)
    return values, Tensor(_scope(), indices[0])


def matmul(a: Operand, b: Operand, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """Matrix product over the last two axes."""
    return _call(lib.copse_matmul, _pointer(a), _pointer(b), transpose_a, transpose_b)


def dense(x: Operand, w: Operand, bias: Optional[Operand] = None, activation: Activation = "linear") -> Tensor:
    """activation(x w + bias)."""
    return _call(lib.copse_dense, _pointer(x), _pointer(w), ffi.NULL if bias is None else _pointer(bias),
                 choice("the activation", activation, ACTIVATIONS))


def _each(numbers: Union[int, Sequence[int]]) -> list[int]:
    """A number for each of up to two spatial axes."""
    return [numbers, numbers] if isinstance(numbers, int) else list(numbers)


def _padding(padding: Padding) -> dict[str, Any]:
    if isinstance(padding, str):
        return {"padding": choice("the padding", padding, PADDINGS)}
    axes = [padding, padding] if isinstance(padding, int) else padding
    sides = [(p, p) if isinstance(p, int) else tuple(p) for p in axes]
    return {"before": [b for b, _ in sides], "after": [a for _, a in sides]}


def _conv(function: Any, x: Operand, w: Operand, bias: Optional[Operand], padding: Padding, activation: Activation,
          groups: int, **numbers: Any) -> Tensor:
    settings = {**_padding(padding), **{name: _each(n) for name, n in numbers.items()}}
    settings["groups"], settings["activation"] = groups, choice("the activation", activation, ACTIVATIONS)
    return _call(function, _pointer(x), _pointer(w), ffi.NULL if bias is None else _pointer(bias),
                 ffi.new("struct copse_conv_params *", settings))


def conv(x: Operand, w: Operand, bias: Optional[Operand] = None, stride: Union[int, Sequence[int]] = 1,
         padding: Padding = 0, dilation: Union[int, Sequence[int]] = 1, groups: int = 1,
         activation: Activation = "linear") -> Tensor:
    """activation(x * w + bias) of images [n, h, w, channels] or sequences [n, w, channels]. The padding is "same", a
    number, or for each axis a number or a pair (before, after)."""
    return _conv(lib.copse_conv, x, w, bias, padding, activation, groups, stride=stride, dilation=dilation)


def conv_transposed(x: Operand, w: Operand, bias: Optional[Operand] = None, stride: Union[int, Sequence[int]] = 1,
                    padding: Padding = 0, dilation: Union[int, Sequence[int]] = 1, groups: int = 1,
                    activation: Activation = "linear", extra: Union[int, Sequence[int]] = 0) -> Tensor:
    """Transposed convolution, with `extra` positions at the end; otherwise as conv."""
    return _conv(lib.copse_conv_transposed, x, w, bias, padding, activation, groups, stride=stride, dilation=dilation,
                 extra=extra)


def _pool(function: Any, x: Operand, padding: Padding, counts_padding: bool, **numbers: Any) -> Tensor:
    settings = {**_padding(padding), "counts_padding": counts_padding, **{k: _each(n) for k, n in numbers.items()}}
    return _call(function, _pointer(x), ffi.new("struct copse_pool_params *", settings))


def max_pool(x: Operand, window: Union[int, Sequence[int]], stride: Union[int, Sequence[int]] = 0, padding: Padding = 0,
             dilation: Union[int, Sequence[int]] = 1) -> Tensor:
    """Largest element of each window of images or sequences; stride 0 is the window. The padding is that of conv."""
    return _pool(lib.copse_max_pool, x, padding, False, window=window, stride=stride, dilation=dilation)


def average_pool(x: Operand, window: Union[int, Sequence[int]], stride: Union[int, Sequence[int]] = 0,
                 padding: Padding = 0, dilation: Union[int, Sequence[int]] = 1, counts_padding: bool = False) -> Tensor:
    """Mean of each window, as max_pool; with `counts_padding` of all its places, else of those inside of x."""
    return _pool(lib.copse_average_pool, x, padding, counts_padding, window=window, stride=stride, dilation=dilation)


def resize(x: Operand, size: Union[int, Sequence[int]], kind: Resizing = "linear") -> Tensor:
    """Images or sequences of another size: `kind` is "nearest", "linear" or "area" (adaptive average pooling)."""
    kinds = {"nearest": lib.COPSE_RESIZE_NEAREST, "linear": lib.COPSE_RESIZE_LINEAR, "area": lib.COPSE_RESIZE_AREA}
    if kind not in kinds:
        raise ValueError(f"resize: kind {kind!r}: expected nearest, linear or area")
    return _call(lib.copse_resize, _pointer(x), ffi.new("uint32_t[2]", _each(size)), kinds[kind])


def pixel_shuffle(x: Operand, r: int) -> Tensor:
    """[n, h, w, c r r] to [n, h r, w r, c]: channels become places."""
    return _call(lib.copse_pixel_shuffle, _pointer(x), r)


def pixel_unshuffle(x: Operand, r: int) -> Tensor:
    """[n, h r, w r, c] to [n, h, w, c r r]: places become channels."""
    return _call(lib.copse_pixel_unshuffle, _pointer(x), r)


def sparse_cross_entropy(logits: Operand, labels: Operand, reduction: Averaging = "mean") -> Tensor:
    """Cross-entropy of logits [n, classes] and int32 labels [n]; a scalar."""
    return _call(lib.copse_sparse_cross_entropy, _pointer(logits), _pointer(labels),
                 choice("the reduction", reduction, AVERAGINGS))


def cross_entropy(logits: Operand, labels: Operand, reduction: Reduction = "mean", label_smoothing: float = 0.0,
                  class_weights: Optional[Operand] = None, ignored_label: Optional[int] = None) -> Tensor:
    """Cross-entropy of logits [n, classes] and int32 labels [n], with label smoothing, class weights and an ignored label;
    the mean is over the weights. A scalar; with the reduction "none" a loss for each example."""
    weights = ffi.NULL if class_weights is None else _pointer(class_weights)
    settings = {"averaging": choice("the reduction", reduction, REDUCTIONS), "label_smoothing": label_smoothing,
                "class_weights": weights, "ignores": ignored_label is not None, "ignored_label": ignored_label or 0}
    return _call(lib.copse_cross_entropy, _pointer(logits), _pointer(labels),
                 ffi.new("struct copse_cross_entropy_params *", settings))


def dense_cross_entropy(x: Operand, w: Operand, labels: Operand, bias: Optional[Operand] = None,
                        reduction: Reduction = "mean", ignored_label: Optional[int] = None) -> Tensor:
    """cross_entropy of the logits x w + bias, x [n, width] and w [width, classes], which are not kept."""
    settings = {"averaging": choice("the reduction", reduction, REDUCTIONS), "ignores": ignored_label is not None,
                "ignored_label": ignored_label or 0}
    params = ffi.new("struct copse_cross_entropy_params *", settings)
    return _call(lambda g, *rest: lib.copse_dense_cross_entropy(g, *rest, ffi.NULL), _pointer(x), _pointer(w),
                 ffi.NULL if bias is None else _pointer(bias), _pointer(labels), params)


def binary_cross_entropy(logits: Operand, targets: Operand, positive_weight: Optional[Operand] = None,
                         reduction: Reduction = "mean") -> Tensor:
    """Binary cross-entropy of sigmoid(logits) and targets from 0 to 1; positive_weight is that of targets of 1."""
    weight = ffi.NULL if positive_weight is None else _pointer(positive_weight)
    return _call(lib.copse_binary_cross_entropy, _pointer(logits), _pointer(targets), weight,
                 choice("the reduction", reduction, REDUCTIONS))


def huber_loss(a: Operand, b: Operand, delta: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """(a - b)^2 / 2 where |a - b| <= delta, else delta (|a - b| - delta / 2)."""
    return _call(lib.copse_huber_loss, _pointer(a), _pointer(b), delta, choice("the reduction", reduction, REDUCTIONS))


def smooth_l1_loss(a: Operand, b: Operand, beta: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """Huber's loss with delta = beta, divided by beta; with beta 0 the mean of |a - b|."""
    return _call(lib.copse_smooth_l1_loss, _pointer(a), _pointer(b), beta, choice("the reduction", reduction, REDUCTIONS))


def kl_divergence(log_q: Operand, p: Operand, reduction: Reduction = "mean") -> Tensor:
    """The sum of p (log p - log q) over the last axis; the reduction is over the rows."""
    return _call(lib.copse_kl_divergence, _pointer(log_q), _pointer(p), choice("the reduction", reduction, REDUCTIONS))


def cosine_similarity(a: Operand, b: Operand) -> Tensor:
    """Cosine of the angle between vectors along the last axis."""
    return _call(lib.copse_cosine_similarity, _pointer(a), _pointer(b))


def cosine_embedding_loss(a: Operand, b: Operand, labels: Operand, margin: float = 0.0,
                          reduction: Reduction = "mean") -> Tensor:
    """1 - cosine where the int32 label is 1, max(0, cosine - margin) where it is -1."""
    return _call(lib.copse_cosine_embedding_loss, _pointer(a), _pointer(b), _pointer(labels), margin,
                 choice("the reduction", reduction, REDUCTIONS))


def mean_squared_error(a: Operand, b: Operand) -> Tensor:
    """Mean of (a - b)^2 over all elements; a scalar."""
    return _pair(lib.copse_mean_squared_error, a, b)


def layer_norm(x: Operand, scale: Operand, offset: Operand, epsilon: float = 1e-5) -> Tensor:
    """Layer norm over the last axis."""
    return _call(lib.copse_layer_norm, _pointer(x), _pointer(scale), _pointer(offset), epsilon)


def group_norm(x: Operand, groups: int, scale: Operand, offset: Operand, epsilon: float = 1e-5) -> Tensor:
    """Normalise `groups` groups of channels, the last axis, of each example over its places; scale and offset channels."""
    return _call(lib.copse_group_norm, _pointer(x), groups, _pointer(scale), _pointer(offset), epsilon)


def instance_norm(x: Operand, scale: Operand, offset: Operand, epsilon: float = 1e-5) -> Tensor:
    """Normalise each channel of each example over its places; scale and offset channels."""
    return _call(lib.copse_instance_norm, _pointer(x), _pointer(scale), _pointer(offset), epsilon)


def rms_norm(x: Operand, scale: Operand, epsilon: float = 1e-5) -> Tensor:
    """RMS norm over the last axis."""
    return _call(lib.copse_rms_norm, _pointer(x), _pointer(scale), epsilon)


def dropout(x: Operand, rate: float, is_training: bool) -> Tensor:
    """Each element is 0 with probability `rate`, else x / (1 - rate); unchanged outside training."""
    return _call(lib.copse_dropout, _pointer(x), rate, is_training)


def reshape(x: Operand, shape: Sequence[int]) -> Tensor:
    """The same elements under another shape; one dimension may be -1."""
    shape, size = list(shape), 1
    for d in x.shape:
        size *= d
    if shape.count(-1) == 1:
        known = 1
        for d in shape:
            known *= 1 if d == -1 else d
        shape[shape.index(-1)] = size // known if known else 0
    return _call(lib.copse_reshape, _pointer(x), shape_of(shape))


def transpose(x: Operand, order: Optional[Sequence[int]] = None) -> Tensor:
    """Axis i of the result is axis order[i] of x; without an order the axes are reversed."""
    return _call(lib.copse_transpose, _pointer(x), list(order if order is not None else range(len(x.shape))[::-1]))


def slice(x: Operand, start: Sequence[int], size: Sequence[int]) -> Tensor:
    """The part of x from `start` with the sizes `size`."""
    return _call(lib.copse_slice, _pointer(x), list(start), list(size))


def concat(x: Sequence[Operand], axis: int = 0) -> Tensor:
    """Join tensors along an axis."""
    return _call(lib.copse_concat, [_pointer(t) for t in x], len(x), _axes(axis, len(x[0].shape))[0] if x else 0)


def split(x: Operand, parts: Union[int, Sequence[int]], axis: int = 0) -> list[Tensor]:
    """x in parts along an axis: a number of equal ones, or their sizes."""
    sizes = ffi.NULL if isinstance(parts, int) else list(parts)
    count = parts if isinstance(parts, int) else len(parts)
    out = ffi.new("copse_tensor *[]", count)
    _do(lib.copse_split, _pointer(x), _axes(axis, len(x.shape))[0], sizes, count, out)
    return [Tensor(_scope(), t) for t in out]


def stack(x: Sequence[Operand], axis: int = 0) -> Tensor:
    """Join tensors of one type and shape along a new axis."""
    return _call(lib.copse_stack, [_pointer(t) for t in x], len(x), _axes(axis, len(x[0].shape) + 1)[0] if x else 0)


def pad(x: Operand, before: Sequence[int], after: Sequence[int], value: float = 0.0) -> Tensor:
    """x with before[i] and after[i] elements of `value` around it on axis i."""
    for sizes in before, after:
        if len(sizes) != len(x.shape):
            raise ArgumentError(f"pad: {len(sizes)} sizes for a tensor of {len(x.shape)} axes")
    return _call(lib.copse_pad, _pointer(x), list(before), list(after), value)


def where(condition: Operand, a: Union[Operand, float], b: Union[Operand, float]) -> Tensor:
    """a where the condition is not zero, else b, with broadcasting."""
    like = a if isinstance(a, (Tensor, Variable)) else b
    if not isinstance(like, (Tensor, Variable)):
        raise ArgumentError("where: one of the two values must be a Tensor or a Variable")
    return _call(lib.copse_where, _pointer(condition), _pointer(a, like), _pointer(b, like))


def gather(table: Operand, indices: Operand) -> Tensor:
    """Rows of a table by int32 index: an embedding."""
    return _call(lib.copse_gather, _pointer(table), _pointer(indices))


def _blocks(words: Operand, scales: Operand, offsets: Optional[Operand], bits: int) -> Any:
    parts = {"words": _pointer(words), "scales": _pointer(scales), "bits": bits}
    if offsets is not None:
        parts["offsets"] = _pointer(offsets)
    return ffi.new("struct copse_blocks *", parts)


def matmul_blocks(x: Operand, words: Operand, scales: Operand, offsets: Optional[Operand] = None, bits: int = 4,
                  transpose: bool = True) -> Tensor:
    """x times a quantised matrix w [rows, columns], or its transpose, whose elements are computed when they are loaded: numbers of
    4 or 8 bits in int32 words [rows, columns * bits / 32], the first one lowest, times a float32 scale for each group of 16 to 256
    in a row, plus an offset. Without offsets numbers are signed: half of their range is stored on top. Only x has a derivative."""
    return _call(lib.copse_matmul_blocks, _pointer(x), _blocks(words, scales, offsets, bits), transpose)


def gather_blocks(words: Operand, scales: Operand, indices: Operand, offsets: Optional[Operand] = None, bits: int = 4) -> Tensor:
    """Rows of the quantised matrix of matmul_blocks by int32 index, as float32."""
    return _call(lib.copse_gather_blocks, _blocks(words, scales, offsets, bits), _pointer(indices))


def _attention_params(causal: bool, window: int, scale: float, lengths: Optional[Operand], mask: Optional[Operand],
                      cap: float) -> Any:
    parts = {k: _pointer(t) for k, t in (("lengths", lengths), ("mask", mask)) if t is not None}
    return ffi.new("struct copse_attention_params *", {"is_causal": causal, "window": window, "scale": scale, "cap": cap, **parts})


def attention(q: Operand, k: Operand, v: Operand, causal: bool = False, window: int = 0, scale: float = 0.0,
              lengths: Optional[Operand] = None, mask: Optional[Operand] = None, cap: float = 0.0) -> Tensor:
    """Scaled dot-product attention of q [n, queries, heads, width] over k and v [n, keys, kv_heads, width]. With a window a
    query sees nearer keys only, with int32 lengths [n] the first keys of its item; scale 0 is 1 / sqrt(width). A float32 mask,
    broadcast to [n, heads, queries, keys], is added to the scores; -inf hides a key. With a cap a score s is
    cap * tanh(s / cap) before."""
    return _call(lib.copse_attention, _pointer(q), _pointer(k), _pointer(v),
                 _attention_params(causal, window, scale, lengths, mask, cap))


def self_attention(qkv: Operand, heads: int, kv_heads: Optional[int] = None, causal: bool = False, window: int = 0,
                   scale: float = 0.0, lengths: Optional[Operand] = None, mask: Optional[Operand] = None, cap: float = 0.0) -> Tensor:
    """attention of a tensor [n, length, (heads + 2 kv_heads) width] with query, key and value heads in each row. Positions
    from the length of an item on have results of 0."""
    return _call(lib.copse_self_attention, _pointer(qkv), heads, heads if kv_heads is None else kv_heads,
                 _attention_params(causal, window, scale, lengths, mask, cap))


def glu(gate: Operand, value: Optional[Operand] = None, activation: Activation = "sigmoid") -> Tensor:
    """activation(gate) * value. Without a value the last axis of gate has gates and then values; "silu" gives SwiGLU."""
    return _call(lib.copse_glu, _pointer(gate), ffi.NULL if value is None else _pointer(value),
                 choice("the activation", activation, ACTIVATIONS))


def _rotary_params(base: float, offset: int, width: int, heads: int, interleaved: bool) -> Any:
    return ffi.new("struct copse_rotary_params *", {"base": base, "offset": offset, "width": width, "heads": heads,
                                                    "is_interleaved": interleaved})


def rotary(x: Operand, base: float = 10000.0, offset: int = 0, width: int = 0, heads: int = 0,
           interleaved: bool = False) -> Tensor:
    """Rotary positions of x [..., length, heads, width]: pair k of R / 2 at position t turns by (t + offset) base^(-2 k / R).
    The first `width` (0: all) numbers R of the first `heads` (0: all) heads turn; pairs are k and k + R / 2, or adjacent."""
    return _call(lib.copse_rotary, _pointer(x), _rotary_params(base, offset, width, heads, interleaved))


def rotary_by(x: Operand, turns: Operand, width: int = 0, heads: int = 0, interleaved: bool = False) -> Tensor:
    """rotary with given cosines and sines: turns [..., length, R] has R / 2 cosines, then R / 2 sines."""
    return _call(lib.copse_rotary_by, _pointer(x), _pointer(turns), _rotary_params(0, 0, width, heads, interleaved))


def _recurrent(name: str, x: Operand, w: Operand, r: Operand, cells: int, **parts: Optional[Operand]) -> tuple[Tensor, ...]:
    out = [ffi.new("copse_tensor **") for _ in range(1 + cells)]
    params = ffi.new("struct copse_recurrent_params *", {k: _pointer(t) for k, t in parts.items() if t is not None})
    y = _call(getattr(lib, f"copse_{name}"), _pointer(x), _pointer(w), _pointer(r), params, *out)
    return (y, *(Tensor(_scope(), t[0]) for t in out))


def gru(x: Operand, w: Operand, r: Operand, bias: Optional[Operand] = None, recurrent_bias: Optional[Operand] = None,
        hidden: Optional[Operand] = None, lengths: Optional[Operand] = None) -> tuple[Tensor, Tensor]:
    """Gated recurrent unit: every hidden state [batch, time, units] of x [batch, time, features], and the last one. w
    [features, 3 units] and r [units, 3 units] have the gates r, z, n of torch.nn.GRU, as columns."""
    y, last = _recurrent("gru", x, w, r, 0, bias=bias, recurrent_bias=recurrent_bias, hidden=hidden, lengths=lengths)
    return y, last


def lstm(x: Operand, w: Operand, r: Operand, bias: Optional[Operand] = None, recurrent_bias: Optional[Operand] = None,
         hidden: Optional[Operand] = None, cell: Optional[Operand] = None,
         lengths: Optional[Operand] = None) -> tuple[Tensor, Tensor, Tensor]:
    """Long short-term memory: as gru, with the gates i, f, g, o of torch.nn.LSTM; the third result is the last cell."""
    y, last, end = _recurrent("lstm", x, w, r, 1, bias=bias, recurrent_bias=recurrent_bias, hidden=hidden, cell=cell,
                              lengths=lengths)
    return y, last, end


def rnn(x: Operand, w: Operand, r: Operand, bias: Optional[Operand] = None, recurrent_bias: Optional[Operand] = None,
        hidden: Optional[Operand] = None, lengths: Optional[Operand] = None) -> tuple[Tensor, Tensor]:
    """h' = tanh(x w + bias + h r + recurrent_bias), as gru with one gate."""
    y, last = _recurrent("rnn", x, w, r, 0, bias=bias, recurrent_bias=recurrent_bias, hidden=hidden, lengths=lengths)
    return y, last


def one_hot(indices: Operand, classes: int) -> Tensor:
    """1 at each int32 index, else 0: [indices..., classes]."""
    return _call(lib.copse_one_hot, _pointer(indices), classes)


def broadcast_to(x: Operand, shape: Sequence[int]) -> Tensor:
    """x repeated to a larger shape."""
    return _call(lib.copse_broadcast_to, _pointer(x), shape_of(shape))


def cast(x: Operand, dtype: DType) -> Tensor:
    """Another element type: float32, int32, float16 or bfloat16."""
    return _call(lib.copse_cast, _pointer(x), type_of(dtype))


def constant(values: Any, dtype: Optional[DType] = None) -> Tensor:
    """A tensor with these values: int32 for whole numbers, else float32, or the given type."""
    a = array(values)
    a = array_of(a, dtype or ("int32" if a.dtype.kind in "iub" else "float32"))
    return _call(lib.copse_constant, type_of(a.dtype), shape_of(a.shape), ffi.from_buffer(a))


def fill(shape: Sequence[int], value: float, dtype: DType = "float32") -> Tensor:
    """A tensor of one value."""
    return _call(lib.copse_fill, type_of(dtype), shape_of(shape), value)


@overload
def gradients(y: Operand, x: Operand, dy: Optional[Operand] = None) -> Tensor: ...
@overload
def gradients(y: Operand, x: Sequence[Operand], dy: Optional[Operand] = None) -> list[Tensor]: ...
def gradients(y: Operand, x: Union[Operand, Sequence[Operand]],
              dy: Optional[Operand] = None) -> Union[Tensor, list[Tensor]]:
    """The derivative of a scalar y, or of any y from its derivative `dy`, by each of x: a tensor, a variable, or a sequence
    of them. Zeros where y does not depend on one."""
    if isinstance(x, (Tensor, Variable)):
        return gradients(y, [x], dy)[0]
    out = ffi.new("copse_tensor *[]", len(x))
    _do(lib.copse_gradients, _pointer(y), ffi.NULL if dy is None else _pointer(dy), [_pointer(t) for t in x], len(x), out)
    return [Tensor(_scope(), t) for t in out]


class GradientTape:
    """In a function of @copse.function or a loss function: `tape.gradient(y, x)` is `gradients(y, x)`. The graph knows all
    that was computed, also outside of the `with` statement."""

    def __enter__(self) -> "GradientTape":
        _scope()
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    @overload
    @staticmethod
    def gradient(y: Operand, x: Operand, output_gradients: Optional[Operand] = None) -> Tensor: ...
    @overload
    @staticmethod
    def gradient(y: Operand, x: Sequence[Operand], output_gradients: Optional[Operand] = None) -> list[Tensor]: ...
    @staticmethod
    def gradient(y: Operand, x: Union[Operand, Sequence[Operand]],
                 output_gradients: Optional[Operand] = None) -> Union[Tensor, list[Tensor]]:
        """`gradients(y, x, output_gradients)`."""
        return gradients(y, x, output_gradients)


def all_reduce(x: Operand, op: Averaging = "sum") -> Tensor:
    """Sum or mean of x over all replicas."""
    return _call(lib.copse_all_reduce, _pointer(x), choice("the operation", op, AVERAGINGS))


def all_gather(x: Operand, replica: int) -> Tensor:
    """x of all replicas, one after another along axis 0: [replicas n, ...] of float32 [n, ...]. replica:
    `inputs.replica`."""
    return _call(lib.copse_all_gather, _pointer(x), replica)


def sync_moments(x: Operand, axes: Union[int, Sequence[int]] = 0) -> tuple[Tensor, Tensor]:
    """Mean and variance over some axes, 0 among them, of the global batch."""
    positions = _axes(axes, len(x.shape))
    variance = ffi.new("copse_tensor **")
    mean_ = _call(lib.copse_sync_moments, _pointer(x), positions or ffi.NULL, len(positions), variance)
    return mean_, Tensor(_scope(), variance[0])


def sync_batch_norm(x: Operand, axes: Union[int, Sequence[int]] = 0, gamma: Optional[Operand] = None,
                    beta: Optional[Operand] = None, epsilon: float = 1e-3) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) gamma + beta with the moments of the global batch."""
    positions = _axes(axes, len(x.shape))
    settings = ffi.new("struct copse_batch_norm *", {
        "gamma": ffi.NULL if gamma is None else _pointer(gamma), "beta": ffi.NULL if beta is None else _pointer(beta),
        "epsilon": epsilon})
    return _call(lib.copse_sync_batch_norm, _pointer(x), positions or ffi.NULL, len(positions), settings)


def report(name: str, value: Tensor) -> None:
    """Add a scalar to the result of every step: its mean over the global batch."""
    _do(lib.copse_report, c_string(name), _pointer(value))


def set_precision(dtype: Precision) -> None:
    """Let matmul, dense and the convolutions added from now on convert float32 operands to float16 or bfloat16; float32
    ends this."""
    _do(lib.copse_set_precision, type_of(dtype))


def recompute_begin() -> None:
    """Begin a segment whose results a training step computes again in the backward pass, instead of keeping them."""
    _do(lib.copse_recompute_begin)


def recompute_end() -> None:
    """End the segment: what ops outside of it read is kept."""
    _do(lib.copse_recompute_end)


def update(variable: Variable, value: Operand) -> None:
    """In a loss function: assign a tensor to a variable that is not trained, with every training step. In a function of
    @copse.function: to any variable, with every call."""
    _do(lib.copse_update, variable._pointer, _pointer(value))
