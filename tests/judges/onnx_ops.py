# SPDX-License-Identifier: MIT
"""ONNX operators as ops of Copse, or short compositions of them, with the error that is allowed.

`OPERATORS[type](node)` returns a tensor or a list of tensors, and a bound or a list of bounds. `node.x[i]` is operand i as a
tensor, `node.host[i]` its values: operands that are attributes in Copse (axes, shapes) are read on the host.
"""
import numpy as np

from copse import ops as o

from judge import DECLARED, NotRun, declared, exact, ratio, ulp

OPERATORS = {}


def operator(*names):
    def add(function):
        OPERATORS.update((name, function) for name in names)
        return function
    return add


def axis_of(node, rank, default):
    return node.attribute("axis", default) % max(rank, 1)


def to_last(x, axis):
    """x with an axis moved to the end, and a function that moves it back."""
    order = [i for i in range(x.ndim) if i != axis] + [axis]
    return o.transpose(x, order), lambda y: o.transpose(y, np.argsort(order).tolist())


def whole(x):
    return x.dtype == "int32"


def negated(flags):
    return o.equal(flags, 0)


def absolute(node):
    """|operand| of every operand, in double."""
    return [None if a is None else np.abs(a.astype(np.float64)) for a in node.host]


# ---- functions of one tensor ----

def one(name, function, bound):
    def op(node):
        return function(node.x[0]), bound
    OPERATORS[name] = op


def with_alpha(name, function, bound, **defaults):
    def op(node):
        return function(node.x[0], *(node.attribute(k, v) for k, v in defaults.items())), bound
    OPERATORS[name] = op


one("Abs", o.abs, exact)
one("Neg", o.neg, exact)
one("Relu", o.relu, exact)
one("Identity", lambda x: o.reshape(x, x.shape), exact)
one("Sqrt", o.sqrt, declared("sqrt"))
one("Reciprocal", lambda x: o.div(1, x), declared("div"))
one("Exp", o.exp, declared("exp"))
one("Log", o.log, declared("log"))
one("Tanh", o.tanh, declared("tanh"))
one("Sigmoid", o.sigmoid, declared("sigmoid"))
one("Softplus", o.softplus, declared("softplus"))
one("Erf", o.erf, declared("erf"))
for each in "sin cos tan asin acos atan sinh cosh asinh acosh atanh".split():
    one(each.capitalize(), getattr(o, each), declared(each))
one("Mish", o.mish, declared("mish"))
one("HardSwish", o.hard_swish, declared("hard_swish"))
one("Softsign", lambda x: o.div(x, o.abs(x) + 1), declared("div", "add"))
one("IsNaN", lambda x: negated(o.equal(x, x)), exact)
with_alpha("LeakyRelu", o.leaky_relu, declared("leaky_relu"), alpha=0.01)
with_alpha("Elu", o.elu, declared("elu"), alpha=1.0)
with_alpha("Celu", lambda x, a: o.multiply_by(o.elu(o.multiply_by(x, 1 / a), 1), a), declared("elu", more=2), alpha=1.0)
with_alpha("Swish", lambda x, a: x * o.sigmoid(o.multiply_by(x, a)), declared("sigmoid", more=2), alpha=1.0)
with_alpha("ThresholdedRelu", lambda x, a: o.where(o.less(o.fill((), a), x), x, 0), exact, alpha=1.0)
with_alpha("Shrink", lambda x, bias, at: o.where(o.less(x, -at), x + bias, o.where(o.less(o.fill((), at), x), x - bias, 0)),
           ulp(1), bias=0.0, lambd=0.5)


@operator("HardSigmoid")
def hard_sigmoid(node):
    alpha, beta = node.attribute("alpha", 0.2), node.attribute("beta", 0.5)
    return o.clip(o.multiply_by(node.x[0], alpha) + beta, 0, 1), ratio(2, np.abs(alpha * node.host[0]) + abs(beta))


@operator("Selu")
def selu(node):
    alpha, gamma = node.attribute("alpha", 1.67326319217681884765625), node.attribute("gamma", 1.05070102214813232421875)
    return o.multiply_by(o.elu(node.x[0], alpha), gamma), declared("elu", more=1)


@operator("Gelu")
def gelu(node):
    x = node.x[0]
    if node.attribute("approximate", b"none") == b"none":
        return o.gelu(x), declared("gelu")
    return o.gelu_tanh(x), ratio(2 * DECLARED["gelu_tanh"][0], np.abs(node.host[0]))  # the judge loses digits of small ones


@operator("PRelu")
def prelu(node):
    return o.prelu(node.x[0], node.x[1]), ulp(1)


@operator("IsInf")
def is_inf(node):
    x = node.x[0]
    plus, minus = (o.multiply_by(o.equal(x, sign * np.inf), node.attribute(name, 1))
                   for sign, name in ((1, "detect_positive"), (-1, "detect_negative")))
    return plus + minus, exact


@operator("Clip")
def clip(node):
    x = node.x[0]
    low, high = (float(node.host[i]) if node.has(i) else bound for i, bound in ((1, -np.inf), (2, np.inf)))
    return o.clip(x, low, high), exact


@operator("Dropout")
def dropout(node):
    if node.has(2) and node.host[2]:
        if float(node.host[1]) > 0:
            raise NotRun("random numbers: each library has its own")
        x = o.dropout(node.x[0], 0, True)
    else:
        rate = node.host[1] if node.has(1) else node.attribute("ratio", 0.5)
        x = o.dropout(node.x[0], float(rate), False)
    x = o.reshape(x, x.shape)
    return [x, o.fill(x.shape, 1)], exact


# ---- functions of several tensors ----

def two(name, function, bound, takes_whole=False):
    def op(node):
        a, b = node.x[0], node.x[1]
        if whole(a) and not takes_whole:
            raise NotRun(f"type missing: {name} of {node.host[0].dtype.name}")
        return function(a, b), bound
    OPERATORS[name] = op


two("Add", o.add, declared("add"))
two("Sub", o.sub, declared("sub"))
two("Mul", o.mul, declared("mul"))
two("Div", o.div, declared("div"))
two("Equal", o.equal, exact, True)
two("Less", o.less, exact, True)
two("GreaterOrEqual", o.greater_equal, exact, True)
two("Greater", o.greater, exact, True)
two("LessOrEqual", o.less_equal, exact, True)
two("And", o.logical_and, exact, True)
two("Or", o.logical_or, exact, True)
two("Xor", o.logical_xor, exact, True)
one("Not", o.logical_not, exact)
one("Sign", lambda x: o.less(o.fill((), 0), x) - o.less(x, 0), exact)
with_alpha("Binarizer", lambda x, at: o.less(o.fill((), at), x), exact, threshold=0.0)


@operator("Max", "Min")
def largest(node):
    y = node.x[0]
    for i in range(1, len(node.host)):
        b = node.x[i]
        if whole(y):
            y = o.where(o.less(y, b) if node.type == "Max" else o.less(b, y), b, y)
        else:
            y = (o.maximum if node.type == "Max" else o.minimum)(y, b)
    return o.reshape(y, y.shape), exact


@operator("Sum", "Mean")
def total(node):
    count, y = len(node.host), node.x[0]
    for i in range(1, count):
        y = y + node.x[i]
    magnitude = sum(absolute(node))
    if node.type == "Mean":
        return o.multiply_by(y, 1 / count), ratio(4, magnitude / count)
    return o.reshape(y, y.shape), ratio(4, magnitude)


@operator("Pow")
def power(node):
    if node.host[1].size != 1:
        raise NotRun("op missing: Pow with an exponent for each element")
    return o.pow(node.x[0], float(node.host[1].reshape(()))), declared("pow")


@operator("Where")
def where(node):
    return o.where(node.x[0], node.x[1], node.x[2]), exact


@operator("SwiGLU")
def swiglu(node):
    a, alpha = node.x[0], node.attribute("alpha", 1.0)
    if alpha == 1:
        return o.glu(a, node.x[1], "silu"), declared("silu", more=1)
    return a * o.sigmoid(o.multiply_by(a, alpha)) * node.x[1], declared("sigmoid", more=3)


# ---- products ----

@operator("MatMul")
def matmul(node):
    a, b = node.x[0], node.x[1]
    y = o.matmul(o.reshape(a, (1, -1)) if a.ndim == 1 else a, o.reshape(b, (-1, 1)) if b.ndim == 1 else b)
    magnitude = np.matmul(*absolute(node))
    return o.reshape(y, magnitude.shape), ratio(16, magnitude)


@operator("Gemm")
def gemm(node):
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    turned = [bool(node.attribute(k, 0)) for k in ("transA", "transB")]
    y = o.multiply_by(o.matmul(node.x[0], node.x[1], *turned), alpha)
    a, b, *c = absolute(node)
    magnitude = alpha * (a.T if turned[0] else a) @ (b.T if turned[1] else b)
    if node.has(2):
        y, magnitude = y + o.multiply_by(node.x[2], beta), magnitude + beta * c[0]
    return y, ratio(16, magnitude)


# ---- reductions ----

def reduced_axes(node):
    """The axes of a reduction, from an operand or an attribute; None: it leaves the tensor as it is."""
    given = node.host[1].tolist() if node.has(1) else node.attribute("axes", [])
    if not given and node.attribute("noop_with_empty_axes", 0):
        return None
    rank = node.host[0].ndim
    return tuple(a % rank for a in given) or tuple(range(rank))


def log_sum_exp(x, axes):
    """The logarithm of a sum of e^x, with its axes kept."""
    top = o.max(x, axes, True)
    top = o.where(o.less(o.abs(top), np.inf), top, 0)
    return o.log(o.sum(o.exp(x - top), axes, True)) + top


REDUCTIONS = {
    "ReduceSum": lambda x, a: o.sum(x, a, True),
    "ReduceMean": lambda x, a: o.mean(x, a, True),
    "ReduceMax": lambda x, a: o.max(x, a, True),
    "ReduceMin": lambda x, a: o.neg(o.max(o.neg(x), a, True)),
    "ReduceL1": lambda x, a: o.sum(o.abs(x), a, True),
    "ReduceL2": lambda x, a: o.sqrt(o.sum(o.square(x), a, True)),
    "ReduceSumSquare": lambda x, a: o.sum(o.square(x), a, True),
    "ReduceLogSum": lambda x, a: o.log(o.sum(x, a, True)),
    "ReduceLogSumExp": log_sum_exp,
}


@operator(*REDUCTIONS)
def reduction(node):
    x, axes, a = node.x[0], reduced_axes(node), np.abs(node.host[0].astype(np.float64))
    if whole(x):
        raise NotRun(f"type missing: {node.type} of {node.host[0].dtype.name}")
    if axes is None:
        return o.reshape(x, x.shape), exact
    y = REDUCTIONS[node.type](x, axes)
    keeps = bool(node.attribute("keepdims", 1))
    if not keeps:
        y = o.reshape(y, [d for i, d in enumerate(x.shape) if i not in axes])
    with np.errstate(all="ignore"):
        sums = a.sum(axis=axes, keepdims=keeps)
        bounds = {
            "ReduceSum": ratio(4, sums), "ReduceL1": ratio(4, sums), "ReduceMax": exact, "ReduceMin": exact,
            "ReduceMean": ratio(4, sums / max(a.size / max(sums.size, 1), 1)),
            "ReduceSumSquare": ratio(5, (a * a).sum(axis=axes, keepdims=keeps)), "ReduceL2": ulp(6),
            # 3 ULP of the logarithm, and the error of the sum, which is a relative one
            "ReduceLogSum": lambda want: ulp(3)(want) + ratio(4, 1)(want),
            "ReduceLogSumExp": lambda want: ulp(4)(want) + ratio(12, 1)(want),
        }
    return y, bounds[node.type]


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node):
    axes = tuple(range(2, node.x[0].ndim))
    if node.type == "GlobalMaxPool":
        return o.max(node.x[0], axes, True), exact
    return o.mean(node.x[0], axes, True), ratio(4, absolute(node)[0].mean(axis=axes, keepdims=True))


@operator("ArgMax", "ArgMin")
def arg(node):
    x = node.x[0]
    axis = axis_of(node, x.ndim, 0)
    x = o.neg(x) if node.type == "ArgMin" else x
    if node.attribute("select_last_index", 0):
        # the first one of the reversed axis
        last, _ = to_last(x, axis)
        size = last.shape[-1]
        turned = o.gather(o.reshape(o.transpose(last), (size, -1)), o.constant(np.arange(size)[::-1].astype(np.int32)))
        y = o.gather(o.constant(np.arange(size)[::-1].astype(np.float32)), o.argmax(turned, 0))
        y = o.cast(o.transpose(o.reshape(y, last.shape[:-1][::-1])), "int32")
    else:
        y = o.argmax(x, axis)
    kept = [1 if i == axis else d for i, d in enumerate(x.shape)]
    return (o.reshape(y, kept) if node.attribute("keepdims", 1) else y), exact


# ---- softmax, norms ----

def distance(a, axis):
    """The distance to the largest element along an axis."""
    a = a.astype(np.float64)
    return a.max(axis=axis, keepdims=True) - a


@operator("Softmax", "LogSoftmax")
def softmax(node):
    axis = axis_of(node, node.host[0].ndim, -1)
    x, back = to_last(node.x[0], axis)
    far = distance(node.host[0], axis)
    return back((o.softmax if node.type == "Softmax" else o.log_softmax)(x)), lambda want: ulp(1)(want) * (8 + far)


@operator("Hardmax")
def hardmax(node):
    axis = axis_of(node, node.host[0].ndim, -1)
    x, back = to_last(node.x[0], axis)
    return back(o.one_hot(o.argmax(x), x.shape[-1])), exact


def norm_magnitude(a, axes, scale, offset, epsilon):
    a = a.astype(np.float64)
    mean = a.mean(axis=axes, keepdims=True)
    deviation = np.sqrt(a.var(axis=axes, keepdims=True) + epsilon)
    return np.abs(scale) * (np.abs(a) + np.abs(mean)) / deviation + np.abs(offset), mean, deviation


@operator("LayerNormalization")
def layer_norm(node):
    x, epsilon = node.x[0], node.attribute("epsilon", 1e-5)
    axis = axis_of(node, x.ndim, -1)
    axes, size = tuple(range(axis, x.ndim)), int(np.prod(x.shape[axis:]))
    offset = node.host[2] if node.has(2) else np.zeros(x.shape[axis:], np.float32)
    y = o.layer_norm(o.reshape(x, (-1, size)), o.reshape(node.x[1], (size,)), o.constant(offset.reshape(size)), epsilon)
    mean = o.mean(x, axes, True)
    magnitude, middle, deviation = norm_magnitude(node.host[0], axes, node.host[1], offset, epsilon)
    inverse = o.rsqrt(o.mean(o.square(x - mean), axes, True) + epsilon)
    a = np.abs(node.host[0].astype(np.float64))
    spread = ((a + np.abs(middle)) ** 2).mean(axis=axes, keepdims=True) / deviation ** 2
    return [o.reshape(y, x.shape), mean, inverse], [
        ratio(16, magnitude), ratio(4, a.mean(axis=axes, keepdims=True)), ratio(16, spread / deviation)]


@operator("RMSNormalization")
def rms_norm(node):
    x, epsilon = node.x[0], node.attribute("epsilon", 1e-5)
    axis = axis_of(node, x.ndim, -1)
    size = int(np.prod(x.shape[axis:]))
    y = o.rms_norm(o.reshape(x, (-1, size)), o.reshape(node.x[1], (size,)), epsilon)
    return o.reshape(y, x.shape), lambda want: ratio(16, np.abs(want))(want)


@operator("InstanceNormalization", "GroupNormalization")
def group_norm(node):
    x, epsilon = node.x[0], node.attribute("epsilon", 1e-5)
    n, c = x.shape[:2]
    groups = node.attribute("num_groups", c)
    size, per_channel = int(np.prod(x.shape)) // (n * groups), [1, c] + [1] * (x.ndim - 2)
    last, back = to_last(x, 1)
    y = back(o.group_norm(last, groups, node.x[1], node.x[2], epsilon))
    magnitude, _, _ = norm_magnitude(node.host[0].reshape(n * groups, size), 1, 1, 0, epsilon)
    scale, offset = (np.abs(a.reshape(per_channel)) for a in node.host[1:3])
    return y, ratio(16, magnitude.reshape(x.shape) * scale + offset)


@operator("BatchNormalization")
def batch_norm(node):
    x, epsilon, momentum = node.x[0], node.attribute("epsilon", 1e-5), node.attribute("momentum", 0.9)
    axes, per_channel = [i for i in range(x.ndim) if i != 1], [1, -1] + [1] * (x.ndim - 2)
    scale, offset, mean, variance = (o.reshape(node.x[i], per_channel) for i in range(1, 5))
    a = node.host[0].astype(np.float64)
    middle, spread = (node.host[i].reshape(per_channel).astype(np.float64) for i in (3, 4))
    more = []
    if node.attribute("training_mode", 0):
        own = o.mean(x, axes, True), o.mean(o.square(x - o.mean(x, axes, True)), axes, True)
        more = [o.reshape(o.multiply_by(old, momentum) + o.multiply_by(new, 1 - momentum), (-1,))
                for old, new in zip((mean, variance), own)]
        mean, variance = own
        old = np.abs(middle), spread
        middle, spread = a.mean(axis=tuple(axes), keepdims=True), a.var(axis=tuple(axes), keepdims=True)
        size = np.abs(a).mean(axis=tuple(axes), keepdims=True)
        sizes = size, ((np.abs(a) + size) ** 2).mean(axis=tuple(axes), keepdims=True)
    y = (x - mean) * o.rsqrt(variance + epsilon) * scale + offset
    magnitude = (np.abs(a) + np.abs(middle)) / np.sqrt(spread + epsilon) * np.abs(node.host[1].reshape(per_channel))
    bounds = [ratio(16, magnitude + np.abs(node.host[2].reshape(per_channel)))]
    if more:
        bounds += [ratio(8, (momentum * b + (1 - momentum) * s).reshape(-1)) for b, s in zip(old, sizes)]
    return [y] + more, bounds


@operator("LpNormalization")
def lp_norm(node):
    x = node.x[0]
    axis = axis_of(node, x.ndim, -1)
    if node.attribute("p", 2) == 1:
        length = o.sum(o.abs(x), axis, True)
    else:
        length = o.sqrt(o.sum(o.square(x), axis, True))
    return o.where(o.equal(length, 0), 0, o.div(x, o.where(o.equal(length, 0), 1, length))), ulp(9)


@operator("MeanVarianceNormalization")
def mean_variance_norm(node):
    x, axes = node.x[0], tuple(node.attribute("axes", [0, 2, 3]))
    centred = x - o.mean(x, axes, True)
    y = o.div(centred, o.sqrt(o.mean(o.square(centred), axes, True)) + 1e-9)
    return y, ratio(16, norm_magnitude(node.host[0], axes, 1, 0, 0)[0])
