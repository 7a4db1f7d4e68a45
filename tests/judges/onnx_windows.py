# SPDX-License-Identifier: MIT
"""ONNX operators of windows, sizes and orders: convolutions, pooling, resizing, cumulative sums, top-k: see onnx_ops.py."""
import itertools

import numpy as np

from copse import ops as o

from judge import NotRun, exact, ratio, ulp
from onnx_ops import axis_of, operator, small, to_last


def channels_last(x):
    """[n, c, ...] as [n, ..., c], and a function that moves the channels back."""
    if x.ndim not in (3, 4):
        raise NotRun(f"op missing: windows of {x.ndim - 2} axes")
    return to_last(x, 1)


class Windows:
    """Settings of windows along the spatial axes of x [n, c, ...]."""

    def __init__(self, node, size):
        self.size = list(size)
        axes = len(self.size)
        self.stride, self.dilation = (list(node.attribute(name, [1] * axes)) for name in ("strides", "dilations"))
        self.span = [(k - 1) * d + 1 for k, d in zip(self.size, self.dilation)]
        pads = node.attribute("pads", [0] * 2 * axes)
        self.sides = list(zip(pads[:axes], pads[axes:]))
        self.auto = node.attribute("auto_pad", b"NOTSET")

    def halves(self, totals):
        """The larger half is at the end, with SAME_LOWER at the beginning."""
        small = [(t // 2, t - t // 2) for t in totals]
        self.sides = [s[::-1] for s in small] if self.auto == b"SAME_LOWER" else small

    def pad_for(self, sizes):
        if self.auto in (b"SAME_UPPER", b"SAME_LOWER"):
            outs = [-(-n // s) for n, s in zip(sizes, self.stride)]
            self.halves([max((out - 1) * s + span - n, 0) for out, s, span, n in zip(outs, self.stride, self.span, sizes)])

    def reach(self, sizes, outs):
        """Pad the ends so that there are as many windows as `outs`; whether that was necessary."""
        ends = [max((out - 1) * s + span - n - before, after) for out, s, span, n, (before, after) in zip(
            outs, self.stride, self.span, sizes, self.sides)]
        before = self.sides
        self.sides = [(b, e) for (b, _), e in zip(before, ends)]
        return self.sides != before

    def taps(self, a, outs):
        """For each tap its index and the elements of a [n, c, ...] that it meets, 0 outside."""
        a = np.pad(a, [(0, 0), (0, 0)] + [(b, e) for b, e in self.sides])
        for tap in itertools.product(*(range(k) for k in self.size)):
            yield tap, a[(slice(None), slice(None)) + tuple(
                slice(t * d, t * d + (out - 1) * s + 1, s) for t, d, out, s in zip(tap, self.dilation, outs, self.stride))]


def taps_first(w):
    """Weights [a, b, taps...] as [taps..., b, a]."""
    return o.transpose(w, list(range(2, w.ndim)) + [1, 0])


@operator("Conv")
def conv(node):
    a, w = (np.abs(t.astype(np.float64)) for t in node.host[:2])
    x, back = channels_last(node.x[0])
    windows, groups, outs = Windows(node, w.shape[2:]), node.attribute("group", 1), node.outputs[0].shape[2:]
    windows.pad_for(a.shape[2:])
    bias = node.x[2] if node.has(2) else None
    y = o.conv(x, taps_first(node.x[1]), bias, windows.stride, windows.sides, windows.dilation, groups)
    n, c = a.shape[:2]
    terms = 0
    for tap, part in windows.taps(a, outs):
        part = part.reshape(n, groups, c // groups, -1)
        terms = terms + np.einsum("ngcp,goc->ngop", part, w[(slice(None), slice(None)) + tap].reshape(groups, -1, c // groups))
    terms = terms.reshape(node.outputs[0].shape)
    if node.has(2):
        terms = terms + np.abs(node.host[2]).reshape([1, -1] + [1] * len(outs))
    return back(y), ratio(16, terms)


@operator("ConvTranspose")
def conv_transposed(node):
    a, w = (np.abs(t.astype(np.float64)) for t in node.host[:2])
    x, back = channels_last(node.x[0])
    windows, groups, outs = Windows(node, w.shape[2:]), node.attribute("group", 1), node.outputs[0].shape[2:]
    (n, c), axes = a.shape[:2], len(outs)
    extra = list(node.attribute("output_padding", [0] * axes))
    full = [(size - 1) * s + span for size, s, span in zip(a.shape[2:], windows.stride, windows.span)]
    if node.attribute("output_shape", None) or windows.auto in (b"SAME_UPPER", b"SAME_LOWER"):
        totals = [f + e - out for f, e, out in zip(full, extra, outs)]
        extra = [e + max(-t, 0) for e, t in zip(extra, totals)]
        windows.halves([max(t, 0) for t in totals])
        if windows.auto not in (b"SAME_UPPER", b"SAME_LOWER"):
            windows.sides = [side[::-1] for side in windows.sides]
    inner, each = c // groups, w.shape[1]
    weights = o.transpose(o.reshape(node.x[1], (groups, inner, each, -1)), (3, 1, 0, 2))
    weights = o.reshape(weights, list(w.shape[2:]) + [inner, groups * each])
    bias = node.x[2] if node.has(2) else None
    y = o.conv_transposed(x, weights, bias, windows.stride, windows.sides, windows.dilation, groups, extra=extra)
    terms = np.zeros([n, groups * each] + [f + e for f, e in zip(full, extra)])
    for tap in itertools.product(*(range(k) for k in windows.size)):
        part = np.einsum("ngcp,gco->ngop", a.reshape(n, groups, inner, -1),
                         w[(slice(None), slice(None)) + tap].reshape(groups, inner, each))
        terms[(slice(None), slice(None)) + tuple(slice(t * d, t * d + (size - 1) * s + 1, s) for t, d, size, s in zip(
            tap, windows.dilation, a.shape[2:], windows.stride))] += part.reshape([n, groups * each] + list(a.shape[2:]))
    terms = terms[(slice(None), slice(None)) + tuple(slice(b, b + out) for (b, _), out in zip(windows.sides, outs))]
    if node.has(2):
        terms = terms + np.abs(node.host[2]).reshape([1, -1] + [1] * axes)
    return back(y), ratio(16, terms)


@operator("MaxPool", "AveragePool")
def pool(node):
    if len(node.outputs) > 1:
        raise NotRun("op missing: MaxPool with indices")
    windows, outs = Windows(node, node.attribute("kernel_shape", [])), node.outputs[0].shape[2:]
    x, back = channels_last(node.x[0])
    a = np.abs(node.host[0].astype(np.float64))
    windows.pad_for(a.shape[2:])
    counts = bool(node.attribute("count_include_pad", 0))
    longer = windows.reach(a.shape[2:], outs)
    if node.type == "MaxPool":
        return back(o.max_pool(x, windows.size, windows.stride, windows.sides, windows.dilation)), exact
    if longer and counts:
        raise NotRun("setting missing: AveragePool that counts some of the padding")
    y = o.average_pool(x, windows.size, windows.stride, windows.sides, windows.dilation, counts)
    total = sum(part for _, part in windows.taps(a, outs))
    number = np.prod(windows.size) if counts else sum(part for _, part in windows.taps(np.ones(a.shape), outs))
    bound = ratio(4, total / number)
    return back(y), lambda want: ulp(3)(want) + bound(want)


def places(mode, size, to, scale):
    """The place of each of `to` elements on an axis of `size` elements."""
    i = np.arange(to)
    if mode == b"asymmetric":
        return i / scale
    if mode == b"align_corners":
        return i * (size - 1) / max(to - 1, 1)
    if mode == b"half_pixel" or (mode == b"pytorch_half_pixel" and to > 1):
        return (i + 0.5) / scale - 0.5
    raise NotRun(f"setting missing: Resize with {mode.decode()}")


ROUNDED = {b"round_prefer_floor": lambda x: np.ceil(x - 0.5), b"round_prefer_ceil": lambda x: np.floor(x + 0.5),
           b"floor": np.floor, b"ceil": np.ceil}


@operator("Resize")
def resize(node):
    x, back = channels_last(node.x[0])
    a, to = node.host[0], node.outputs[0].shape
    mode, place = node.attribute("mode", b"nearest"), node.attribute("coordinate_transformation_mode", b"half_pixel")
    if mode not in (b"nearest", b"linear") or a.shape[:2] != to[:2]:
        raise NotRun(f"setting missing: Resize of kind {mode.decode()} along these axes")
    scales = [t / s for s, t in zip(a.shape, to)]
    if node.has(2) and node.host[2].size:
        for axis, scale in zip(node.attribute("axes", list(range(a.ndim))), node.host[2].tolist()):
            scales[axis] = scale
    for size, out, scale in list(zip(a.shape, to, scales))[2:]:
        at, own = places(place, size, out, scale), (np.arange(out) + 0.5) * size / out - 0.5
        if mode == b"nearest":
            at = np.clip(ROUNDED[node.attribute("nearest_mode", b"round_prefer_floor")](at), 0, size - 1)
            own = np.arange(out) * size // out
        same = np.abs(np.clip(at, 0, size - 1) - np.clip(own, 0, size - 1)).max() < 1e-6
        if not same or (mode == b"linear" and node.attribute("antialias", 0) and out < size):
            raise NotRun(f"setting missing: Resize, {mode.decode()}, at other places")
    y = back(o.resize(x, list(to[2:]) * (2 if len(to) == 3 else 1), mode.decode()))
    if mode == b"nearest":
        return y, exact
    largest = float(np.abs(a).max())  # of any term
    return y, lambda want: ulp(3)(want) + ratio(8, largest)(want)


@operator("CumSum")
def cumsum(node):
    a, axis = node.host[0], int(node.host[1].reshape(()))
    x = node.x[0] if a.dtype != np.float64 or (a != a.astype(np.float32)).any() else node.x.graph.input(a.astype(np.float32))
    if x.dtype == "int32" and small(a):
        x = o.cast(x, "float32")
    if x.dtype != "float32":
        raise NotRun(f"type missing: CumSum of {a.dtype.name}")
    y = o.cumsum(x, axis, bool(node.attribute("exclusive", 0)), bool(node.attribute("reverse", 0)))
    whole = (a == np.round(a)).all() and np.abs(a).sum() < 2 ** 24
    return y, exact if whole else ratio(8, np.abs(a).sum(axis=axis, keepdims=True))


@operator("TopK")
def top_k(node):
    x, back = to_last(node.x[0], axis_of(node, node.host[0].ndim, -1))
    if x.dtype == "int32" and small(node.host[0]):
        x = o.cast(x, "float32")
    if x.dtype != "float32":
        raise NotRun(f"type missing: TopK of {node.host[0].dtype.name}")
    turn = (lambda t: t) if node.attribute("largest", 1) else o.neg
    values, indices = o.top_k(turn(x), int(node.host[1].reshape(())))
    return [back(turn(values)), back(indices)], exact
