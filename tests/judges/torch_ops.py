# SPDX-License-Identifier: MIT
"""Operators of PyTorch's OpInfo as ops of Copse, or short compositions of them.

`OPERATORS[name]` is (function, bound of the result, bound of gradients). The function takes the arguments of the operator with
tensors of Copse in the place of PyTorch's. `EXACT` is the same number, ULP(n) n distances to the next number, and R(n)
n times 2^-24 of |y| + sum of |dy/dx x| over the operands, which is the sum of the terms' magnitudes for sums and products.
Where terms cancel although they are computed from rounded values, such as in the gradient of softmax, R(n, sizes) adds the
sizes of these terms: sizes(expected) is an array for each result or gradient (torch_sizes.py). ULP(n, sizes) counts
the distances at the larger of |y| and the size.
"""
import math

import numpy as np

from copse import ops as o
from copse.tensor import Tensor

from judge import DECLARED, NotRun
from torch_sizes import operand_sizes, quarter_sizes, slope_sizes

OPERATORS = {}
EXACT = ("ulp", 0, None)


def ULP(n, sizes=None):
    return "ulp", n, sizes


def R(n, sizes=None):
    return "ratio", n, sizes


def add(names, function, result, gradient=None):
    """One function under one or several names."""
    for name in names.split():
        OPERATORS[name] = function, result, gradient or result


def operator(names, result, gradient=None):
    def decorate(function):
        add(names, function, result, gradient)
        return function
    return decorate


def refuse(**given):
    """Settings that Copse does not have must be those of the default."""
    for name, value in given.items():
        if value:
            raise NotRun(f"setting missing: {name}")


# ---- functions of one tensor ----

def one(name, function=None, uses=None, more=0):
    """A function whose errors are the sums of those declared for the functions that it uses, and `more` ULP."""
    uses = (uses or name).split()
    result, gradient = (sum(DECLARED[u][i] for u in uses) + more for i in (0, 1))

    def op(x, *_, inplace=False, **settings):
        refuse(**settings)
        return (function or getattr(o, name))(x)
    OPERATORS[name] = op, ULP(result), ULP(gradient)


for each in ("abs neg square sqrt rsqrt exp log sigmoid tanh erf sin cos tan asin acos atan sinh cosh asinh acosh "
             "atanh").split():
    one(each)
one("nn.functional.relu", o.relu, "relu")
add("nn.functional.silu", lambda x, inplace=False: o.silu(x), ULP(DECLARED["silu"][0]), ULP(DECLARED["silu"][1], quarter_sizes))
one("reciprocal", lambda x: o.div(1, x), "div")
one("nn.functional.softsign", lambda x: o.div(x, o.abs(x) + 1), "div add", 4)
one("nn.functional.logsigmoid", lambda x: o.neg(o.softplus(o.neg(x))), "softplus")
add("nn.functional.mish", lambda x, inplace=False: o.mish(x), ULP(DECLARED["mish"][0]), ULP(DECLARED["mish"][1], quarter_sizes))
one("nn.functional.relu6", lambda x: o.clip(x, 0, 6), "clip")
one("deg2rad", lambda x: o.multiply_by(x, math.pi / 180), "multiply_by", 1)
one("rad2deg", lambda x: o.multiply_by(x, 180 / math.pi), "multiply_by", 1)
one("positive", lambda x: o.reshape(x, x.shape), "neg")
for each in "clone contiguous resolve_conj resolve_neg real conj".split():
    one(each, lambda x: o.reshape(x, x.shape), "neg")
one("float", lambda x: o.cast(x, "float32"), "neg")
OPERATORS["log2"] = lambda x: o.multiply_by(o.log(x), 1 / math.log(2)), ULP(5), ULP(5)
OPERATORS["log10"] = lambda x: o.multiply_by(o.log(x), 1 / math.log(10)), ULP(5), ULP(5)
add("exp2", lambda x: o.exp(o.multiply_by(x, math.log(2))), R(8), R(10))
add("nn.functional.tanhshrink", lambda x: x - o.tanh(x), R(8, operand_sizes), R(8, slope_sizes))
add("special.entr", lambda x: o.where(o.equal(x, 0), 0, o.neg(x * o.log(o.where(o.less(x, 0), math.nan, x)))), R(8), R(8))
add("logit", lambda x, eps=None: logit(x, eps), R(12), R(16))
add("sign", lambda x: o.where(o.equal(x, x), o.less(o.fill((), 0), x) - o.less(x, 0), x), EXACT)
add("isnan", lambda x: flip_flag(o.equal(x, x)), EXACT)
add("isinf", lambda x: o.equal(o.abs(x), math.inf), EXACT)
add("isposinf", lambda x: o.equal(x, math.inf), EXACT)
add("isneginf", lambda x: o.equal(x, -math.inf), EXACT)
add("isfinite", lambda x: o.less(o.abs(x), math.inf), EXACT)
add("isreal", lambda x: o.fill(x.shape, 1), EXACT)
add("logical_not", o.logical_not, EXACT)
add("zeros_like zero_", lambda x, **_: o.multiply_by(o.where(o.equal(x, x), x, 0), 0), EXACT)
add("ones_like", lambda x, **_: o.fill(x.shape, 1), EXACT)
add("full_like", lambda x, value, **_: o.fill(x.shape, float(value)), EXACT)
add("new_full", lambda x, size, value, **_: o.fill(size, float(value)), EXACT)
add("new_ones", lambda x, size, **_: o.fill(size, 1), EXACT)
add("new_zeros", lambda x, size, **_: o.fill(size, 0), EXACT)


def flip_flag(x):
    return o.equal(x, 0)


def logit(x, eps):
    x = x if eps is None else o.clip(x, eps, 1 - eps)
    return o.log(o.div(x, 1 - x))


@operator("nn.functional.gelu", ULP(DECLARED["gelu"][0]), ULP(DECLARED["gelu"][1], quarter_sizes))
def gelu(x, approximate="none"):
    return o.gelu_tanh(x) if approximate == "tanh" else o.gelu(x)


@operator("nn.functional.softplus", R(6), R(8))
def softplus(x, beta=1, threshold=20):
    y = o.multiply_by(o.softplus(o.multiply_by(x, beta)), 1 / beta)
    return o.where(o.less(o.fill((), threshold), o.multiply_by(x, beta)), x, y)


@operator("nn.functional.leaky_relu", ULP(1))
def leaky_relu(x, negative_slope=0.01, inplace=False):
    return o.leaky_relu(x, negative_slope)


@operator("nn.functional.elu", ULP(3), ULP(4))
def elu(x, alpha=1.0, inplace=False):
    return o.elu(x, alpha)


@operator("nn.functional.celu", ULP(5), ULP(7))
def celu(x, alpha=1.0, inplace=False):
    return o.multiply_by(o.elu(o.multiply_by(x, 1 / alpha), 1), alpha)


one("nn.functional.selu", o.selu, "selu")
one("nn.functional.hardsigmoid", o.hard_sigmoid, "hard_sigmoid")
one("nn.functional.hardswish", o.hard_swish, "hard_swish")


@operator("nn.functional.hardtanh", EXACT)
def hardtanh(x, min_val=-1.0, max_val=1.0, inplace=False):
    return o.clip(x, min_val, max_val)


@operator("nn.functional.hardshrink", EXACT)
def hardshrink(x, lambd=0.5):
    return o.where(o.greater_equal(lambd, o.abs(x)), 0, x)


@operator("nn.functional.softshrink", R(1), EXACT)
def softshrink(x, lambd=0.5):
    return o.where(o.less(x, -lambd), x + lambd, o.where(o.less(lambd, x), x - lambd, 0))


@operator("nn.functional.threshold", EXACT)
def threshold(x, threshold, value, inplace=False):
    return o.where(o.less(threshold, x), x, float(value))


@operator("nn.functional.prelu", ULP(1), R(4))
def prelu(x, weight):
    if weight.shape and weight.shape[0] > 1 and x.ndim > 1:
        weight = o.reshape(weight, [1, -1] + [1] * (x.ndim - 2))
    return o.prelu(x, weight)


@operator("nn.functional.glu", ULP(6), ULP(8))
def glu(x, dim=-1):
    a, b = o.split(x, 2, dim)
    return a * o.sigmoid(b)


@operator("clamp", EXACT, R(4))
def clamp(x, min=None, max=None):
    low, high = (v if isinstance(v, Tensor) else None for v in (min, max))
    if low is None and high is None:
        return o.clip(x, -math.inf if min is None else min, math.inf if max is None else max)
    x = x if min is None else o.maximum(x, min)
    return x if max is None else o.minimum(x, max)


add("clamp_min", lambda x, low: o.maximum(x, low) if isinstance(low, Tensor) else o.clip(x, low, math.inf),
    EXACT, R(4))
add("clamp_max", lambda x, high: o.minimum(x, high) if isinstance(high, Tensor) else o.clip(x, -math.inf, high),
    EXACT, R(4))


@operator("nan_to_num", EXACT)
def nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    largest = float(np.finfo(np.float32).max)
    x = o.where(o.equal(x, x), x, float(nan or 0))
    x = o.where(o.equal(x, math.inf), largest if posinf is None else float(posinf), x)
    return o.where(o.equal(x, -math.inf), -largest if neginf is None else float(neginf), x)


# ---- functions of several tensors ----

def scaled(b, alpha):
    if alpha is None or alpha == 1:
        return b
    return o.multiply_by(b, alpha) if isinstance(b, Tensor) else alpha * b


def same_type(a, b):
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype != b.dtype:
        a, b = (x if x.dtype == "float32" else o.cast(x, "float32") for x in (a, b))
    return a, b


def two(names, function, result, gradient=None):
    add(names, lambda a, b, **settings: function(*same_type(a, b), **settings), result, gradient)


two("add __radd__", lambda a, b, alpha=None: o.add(a, scaled(b, alpha)), R(2), R(4))
two("sub", lambda a, b, alpha=None: o.sub(a, scaled(b, alpha)), R(2), R(4))
two("rsub __rsub__", lambda a, b, alpha=None: o.sub(b, scaled(a, alpha)), R(2), R(4))
two("mul __rmul__", o.mul, ULP(1), R(4))
two("div.no_rounding_mode true_divide", lambda a, b, rounding_mode=None: o.div(a, b), ULP(3), R(8))
two("__rdiv__", lambda a, b: o.div(b, a), ULP(3), R(8))
two("maximum max.binary", o.maximum, EXACT, R(4))
two("minimum min.binary", o.minimum, EXACT, R(4))
two("eq", o.equal, EXACT)
two("ne", o.not_equal, EXACT)
two("lt", o.less, EXACT)
two("ge", o.greater_equal, EXACT)
two("gt", o.greater, EXACT)
two("le", o.less_equal, EXACT)
for each in "logical_and", "logical_or", "logical_xor":
    two(each, getattr(o, each), EXACT)
two("logaddexp", lambda a, b: o.maximum(a, b) + o.softplus(o.neg(o.abs(a - b))), R(8), R(16))


@operator("heaviside", EXACT)
def heaviside(x, at_zero):
    return o.where(o.equal(x, 0), at_zero, o.less(o.fill((), 0), x))


@operator("xlogy", R(6), R(8))
def xlogy(x, y):
    if not isinstance(y, Tensor):
        return o.multiply_by(x, math.log(y)) if y > 0 else o.where(o.equal(x, 0), 0, x * math.nan)
    return o.where(o.equal(x, 0) if isinstance(x, Tensor) else o.fill((), float(x == 0)), 0, o.mul(x, o.log(y)))


@operator("pow __rpow__ float_power", ULP(16), ULP(20))
def power(x, exponent):
    if isinstance(exponent, Tensor) or not isinstance(x, Tensor):
        raise NotRun("op missing: pow with an exponent for each element")
    return o.pow(x, float(exponent))


@operator("lerp", R(4), R(8))
def lerp(a, b, weight):
    return a + (o.multiply_by(b - a, weight) if not isinstance(weight, Tensor) else (b - a) * weight)


@operator("addcmul", R(4), R(8))
def addcmul(x, a, b, value=1):
    return x + scaled(a * b, value)


@operator("addcdiv", R(6), R(16))
def addcdiv(x, a, b, value=1):
    return x + scaled(o.div(a, b), value)


@operator("where", EXACT, R(4))
def where(condition, x, other):
    return o.where(x, condition, other)  # the first operand of the samples is the first value


@operator("masked_fill", EXACT, R(4))
def masked_fill(x, mask, value):
    shape = np.broadcast_shapes(x.shape, mask.shape)
    return o.broadcast_to(o.where(mask, value if isinstance(value, Tensor) else float(value), x), shape)


# ---- products ----

def product(a, b):
    """matmul of PyTorch."""
    shape = list(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    y = o.matmul(o.reshape(a, (1, -1)) if a.ndim == 1 else a, o.reshape(b, (-1, 1)) if b.ndim == 1 else b)
    return o.reshape(y, shape + ([] if a.ndim == 1 else [a.shape[-2]]) + ([] if b.ndim == 1 else [b.shape[-1]]))


add("matmul __rmatmul__ mm bmm mv dot vdot", product, R(16))
OPERATORS["__rmatmul__"] = lambda a, b: product(b, a), R(16), R(16)
add("nn.functional.linear", lambda x, w, b=None: product(x, transposed(w)) if b is None else product(x, transposed(w)) + b,
    R(16))
add("inner", lambda a, b: o.mul(a, b) if not a.ndim or not b.ndim else inner(a, b), R(16))
add("outer ger", lambda a, b: o.reshape(a, (-1, 1)) * o.reshape(b, (1, -1)), ULP(1), R(4))
add("linalg.vecdot", lambda a, b, dim=-1: o.sum(a * b, dim), R(5))
add("linalg.multi_dot", lambda parts: chain(parts), R(32))


def chain(parts):
    y = parts[0]
    for each in parts[1:]:
        y = product(y, each)
    return y


def inner(a, b):
    y = o.matmul(o.reshape(a, (-1, a.shape[-1])), o.reshape(b, (-1, b.shape[-1])), False, True)
    return o.reshape(y, a.shape[:-1] + b.shape[:-1])


def transposed(x):
    return o.transpose(x, list(range(x.ndim - 2)) + [x.ndim - 1, x.ndim - 2]) if x.ndim > 1 else o.reshape(x, x.shape)


@operator("addmm addmm.decomposed addmv addr baddbmm", R(17))
def add_product(x, a, b, beta=1, alpha=1):
    if a.ndim == 1 and b.ndim == 1:
        y = o.reshape(a, (-1, 1)) * o.reshape(b, (1, -1))
    else:
        y = product(a, b)
    return scaled(y, alpha) if beta == 0 else scaled(x, beta) + scaled(y, alpha)


OPERATORS["addbmm"] = lambda x, a, b, beta=1, alpha=1: scaled(x, beta) + scaled(o.sum(product(a, b), 0), alpha), R(20), R(20)
