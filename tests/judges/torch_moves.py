# SPDX-License-Identifier: MIT
"""Operators of PyTorch that move elements: see torch_ops.py. Their results are the same numbers, their gradients sums."""
import math

import numpy as np

from copse import ops as o

from judge import NotRun
from torch_more import at_least_1d
from torch_ops import EXACT, R, add, operator, transposed


def move(names):
    return operator(names, EXACT, R(4))


def dims_of(x, shape):
    """Dimensions that are given as one list or one by one."""
    return list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape)


def reshaped(x, shape):
    return o.reshape(x, [int(d) for d in shape])


add("reshape view", lambda x, *shape: reshaped(x, dims_of(x, shape)), EXACT, R(4))
add("reshape_as view_as", lambda x, y: o.reshape(x, y.shape), EXACT, R(4))
add("ravel", lambda x: o.reshape(x, (-1,)), EXACT, R(4))
add("expand", lambda x, *shape: expand(x, dims_of(x, shape)), EXACT, R(4))
add("broadcast_to", lambda x, shape: expand(x, shape), EXACT, R(4))
add("expand_as", lambda x, y: o.broadcast_to(x, y.shape), EXACT, R(4))
add("permute", lambda x, *order: o.transpose(x, [d % max(x.ndim, 1) for d in dims_of(x, order)]), EXACT, R(4))
add("mT mH", transposed, EXACT, R(4))
add("t T H", lambda x: o.transpose(x), EXACT, R(4))
add("hstack", lambda xs: o.concat([at_least_1d(x) for x in xs], 0 if xs[0].ndim < 2 else 1), EXACT, R(4))
add("vstack", lambda xs: o.concat([at_least_2d(x) for x in xs], 0), EXACT, R(4))
add("dstack", lambda xs: o.concat([at_least_3d(x) for x in xs], 2), EXACT, R(4))
add("column_stack", lambda xs: o.concat([o.reshape(x, (-1, 1)) if x.ndim < 2 else x for x in xs], 1), EXACT, R(4))
add("atleast_1d", lambda *xs: [at_least_1d(x) for x in listed(xs)], EXACT, R(4))
add("atleast_2d", lambda *xs: [at_least_2d(x) for x in listed(xs)], EXACT, R(4))
add("atleast_3d", lambda *xs: [at_least_3d(x) for x in listed(xs)], EXACT, R(4))
add("fliplr", lambda x: flip(x, [1]), EXACT, R(4))
add("flipud", lambda x: flip(x, [0]), EXACT, R(4))


def listed(xs):
    return xs[0] if len(xs) == 1 and isinstance(xs[0], (tuple, list)) else xs


def at_least_2d(x):
    return x if x.ndim >= 2 else o.reshape(x, (1, -1))


def at_least_3d(x):
    return x if x.ndim >= 3 else o.reshape(x, x.shape + (1,)) if x.ndim == 2 else o.reshape(x, (1, -1, 1))


def expand(x, shape):
    shape = list(shape)
    before = len(shape) - x.ndim
    return o.broadcast_to(x, [x.shape[i - before] if d == -1 else d for i, d in enumerate(shape)])


@move("broadcast_tensors")
def broadcast_tensors(*xs):
    shape = np.broadcast_shapes(*(x.shape for x in xs))
    return [o.broadcast_to(x, shape) for x in xs]


@move("meshgrid.variadic_tensors meshgrid.list_of_tensors")
def meshgrid(*xs, indexing="ij"):
    xs = [at_least_1d(x) for x in listed(xs)]
    order = [1, 0] + list(range(2, len(xs))) if indexing == "xy" and len(xs) > 1 else list(range(len(xs)))
    sizes = [xs[i].shape[0] for i in order]
    return [o.broadcast_to(o.reshape(x, [-1 if order[k] == i else 1 for k in range(len(xs))]), sizes) for i, x in enumerate(xs)]


@move("transpose swapaxes")
def transpose(x, a, b):
    order = list(range(x.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return o.transpose(x, order)


@move("movedim moveaxis")
def movedim(x, source, destination):
    names = list(range(x.ndim))
    source, destination = ([a % x.ndim for a in np.atleast_1d(v).tolist()] for v in (source, destination))
    left = [n for n in names if n not in source]
    for to, what in sorted(zip(destination, source)):
        left.insert(to, what)
    return o.transpose(x, left)


@move("squeeze")
def squeeze(x, dim=None):
    axes = range(x.ndim) if dim is None else [dim % max(x.ndim, 1)]
    return o.reshape(x, [d for i, d in enumerate(x.shape) if i not in axes or d != 1])


@move("unsqueeze")
def unsqueeze(x, dim):
    at = dim % (x.ndim + 1)
    return o.reshape(x, x.shape[:at] + (1,) + x.shape[at:])


@move("flatten")
def flatten(x, start_dim=0, end_dim=-1):
    x = at_least_1d(x)
    a, b = start_dim % x.ndim, end_dim % x.ndim
    return o.reshape(x, x.shape[:a] + (math.prod(x.shape[a:b + 1]),) + x.shape[b + 1:])


@move("unflatten")
def unflatten(x, dim, sizes):
    at, known = dim % x.ndim, math.prod(d for d in sizes if d != -1)
    return o.reshape(x, x.shape[:at] + tuple(x.shape[at] // known if d == -1 else d for d in sizes) + x.shape[at + 1:])


@move("cat concat")
def cat(xs, dim=0):
    kept = [x for x in xs if x.shape != (0,)]
    return o.concat(kept, dim) if kept else xs[0]


@move("stack")
def stack(xs, dim=0):
    return o.stack(xs, dim)


def part(x, axis, start, length):
    first, size = [0] * x.ndim, list(x.shape)
    first[axis], size[axis] = start, length
    return o.slice(x, first, size)


def parts(x, axis, sizes):
    return o.split(x, list(sizes), axis)


@move("split split.list_args split_with_sizes")
def split(x, size, dim=0):
    n = x.shape[dim]
    sizes = size if isinstance(size, (tuple, list)) else [min(size, n - i) for i in range(0, n, size)]
    return parts(x, dim, sizes)


@move("chunk")
def chunk(x, chunks, dim=0):
    return split(x, -(-x.shape[dim] // chunks), dim)


def tensor_split(x, sections, dim=0):
    if not isinstance(sections, (int, tuple, list)):
        raise NotRun("setting missing: sections in a tensor")
    n = x.shape[dim]
    if isinstance(sections, int):
        return parts(x, dim, [n // sections + (i < n % sections) for i in range(sections)])
    ends = [0] + [range(n)[:s].stop for s in sections] + [n]
    return parts(x, dim, [max(b - a, 0) for a, b in zip(ends, ends[1:])])


add("tensor_split", tensor_split, EXACT, R(4))
add("hsplit", lambda x, s: tensor_split(x, s, 0 if x.ndim == 1 else 1), EXACT, R(4))
add("vsplit", lambda x, s: tensor_split(x, s, 0), EXACT, R(4))
add("dsplit", lambda x, s: tensor_split(x, s, 2), EXACT, R(4))


@move("unbind")
def unbind(x, dim=0):
    axis = dim % x.ndim
    return [o.reshape(p, x.shape[:axis] + x.shape[axis + 1:]) for p in parts(x, axis, [1] * x.shape[axis])]


@move("narrow narrow_copy")
def narrow(x, dim, start, length):
    if not isinstance(start, int):
        raise NotRun("setting missing: start in a tensor")
    return part(x, dim % x.ndim, start % max(x.shape[dim], 1) if start < 0 else start, length)


@move("select")
def select(x, dim, index):
    axis = dim % x.ndim
    y = part(x, axis, index % x.shape[axis], 1)
    return o.reshape(y, x.shape[:axis] + x.shape[axis + 1:])


@move("slice")
def slices(x, dim=0, start=None, end=None, step=1):
    taken = list(range(x.shape[dim]))[start:end:step]
    return index_select(x, dim, o.constant(np.array(taken, np.int32)))


@move("index_select")
def index_select(x, dim, indices):
    shape, x = x.shape, at_least_1d(x)
    axis = dim % x.ndim
    order = [axis] + [i for i in range(x.ndim) if i != axis]
    y = o.gather(o.transpose(x, order), at_least_1d(indices))
    return o.reshape(y, ()) if shape == () else o.transpose(y, np.argsort(order).tolist())


@move("flip")
def flip(x, *given, dims=None):
    for axis in dims_of(x, given) if dims is None else dims:
        x = index_select(x, axis, o.constant(np.arange(x.shape[axis], dtype=np.int32)[::-1]))
    return x


@move("roll")
def roll(x, shifts, dims=None):
    if dims is None or dims == ():
        return o.reshape(roll(o.reshape(x, (-1,)), shifts, 0), x.shape)
    for shift, axis in zip(np.atleast_1d(shifts).tolist(), np.atleast_1d(dims).tolist()):
        n = x.shape[axis]
        if n:
            a, b = o.split(x, [n - shift % n, shift % n], axis)
            x = o.concat([b, a], axis)
    return x


@move("rot90")
def rot90(x, k=1, dims=(0, 1)):
    k %= 4
    x = flip(x, [dims[1]]) if k in (1, 2) else x
    x = flip(x, [dims[0]]) if k in (2,) else x
    x = transpose(x, *dims) if k % 2 else x
    return flip(x, [dims[1]]) if k == 3 else x


@move("repeat tile")
def repeat(x, *counts):
    counts = dims_of(x, counts)
    counts = [1] * (x.ndim - len(counts)) + counts
    x = o.reshape(x, (1,) * (len(counts) - x.ndim) + x.shape)
    for axis, count in enumerate(counts):
        x = o.concat([x] * count, axis) if count else part(x, axis, 0, 0)
    return x


@move("constant_pad_nd nn.functional.pad.constant")
def pad(x, pads, mode="constant", value=0.0):
    value = mode if isinstance(mode, (int, float)) else value
    if any(p < 0 for p in pads):
        raise NotRun("setting missing: negative padding")
    before, after = [0] * x.ndim, [0] * x.ndim
    for i in range(len(pads) // 2):
        before[x.ndim - 1 - i], after[x.ndim - 1 - i] = pads[2 * i], pads[2 * i + 1]
    return o.pad(x, before, after, float(value or 0))


def triangle(function):
    def op(x, diagonal=0):
        return o.where(o.constant(function(np.ones(x.shape[-2:], np.int32), diagonal)), x, 0)
    return op


add("tril", triangle(np.tril), EXACT, R(4))
add("triu", triangle(np.triu), EXACT, R(4))


@operator("trace", R(4), R(4))
def trace(x):
    return o.sum(o.where(o.constant(np.eye(*x.shape, dtype=np.int32)), x, 0))


@operator("sum_to_size", R(4), R(4))
def sum_to_size(x, *shape):
    shape = dims_of(x, shape)
    before = x.ndim - len(shape)
    axes = [i for i, d in enumerate(x.shape) if i < before or (shape[i - before] == 1 and d != 1)]
    return o.reshape(o.sum(x, axes, True), shape) if axes else o.reshape(x, shape)


@operator("diff", R(4), R(8))
def diff(x, n=1, dim=-1, prepend=None, append=None):
    x = o.concat([t for t in (prepend, x, append) if t is not None], dim) if n else o.reshape(x, x.shape)
    axis = dim % x.ndim
    for _ in range(n):
        size = x.shape[axis]
        if size == 0:
            raise NotRun("setting missing: differences of nothing")
        x = part(x, axis, 1, size - 1) - part(x, axis, 0, size - 1)
    return x


@move("nn.functional.pixel_shuffle")
def pixel_shuffle(x, upscale_factor):
    factor = upscale_factor
    *lead, c, h, w = x.shape
    n, c = math.prod(lead), c // factor ** 2
    y = o.transpose(o.reshape(x, (n * c, factor, factor, h, w)), (0, 3, 1, 4, 2))
    return o.reshape(y, (*lead, c, h * factor, w * factor))


@move("nn.functional.pixel_unshuffle")
def pixel_unshuffle(x, downscale_factor):
    factor = downscale_factor
    *lead, c, h, w = x.shape
    n = math.prod(lead)
    y = o.transpose(o.reshape(x, (n * c, h // factor, factor, w // factor, factor)), (0, 2, 4, 1, 3))
    return o.reshape(y, (*lead, c * factor ** 2, h // factor, w // factor))
