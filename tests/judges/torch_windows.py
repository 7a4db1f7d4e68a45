# SPDX-License-Identifier: MIT
"""Operators of PyTorch with windows, sizes and orders: convolutions, pooling, resizing, cumulative sums, sorting: see
torch_ops.py."""
from copse import ops as o

from judge import NotRun
from torch_more import at_least_1d
from torch_ops import EXACT, R, add, operator, refuse


def each(value, axes):
    return [value] * axes if isinstance(value, (int, float)) else list(value) * (axes if len(value) == 1 else 1)


def spatial(axes, function):
    """A function of channels-last x for x [n, c, ...] or [c, ...] with some spatial axes."""
    def op(x, *more, **settings):
        batch = x if x.ndim == axes + 2 else o.reshape(x, (1,) + tuple(x.shape))
        y = function(o.transpose(batch, [0] + list(range(2, axes + 2)) + [1]), axes, *more, **settings)
        y = o.transpose(y, [0, axes + 1] + list(range(1, axes + 1)))
        return y if batch is x else o.reshape(y, y.shape[1:])
    return op


def conv(x, axes, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
    dilation = each(dilation, axes)
    if isinstance(padding, str):
        totals = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, w.shape[2:])]
        sides = [(t // 2, t - t // 2) for t in totals]
    else:
        sides = [(p, p) for p in each(padding, axes)]
    w = o.transpose(w, list(range(2, w.ndim)) + [1, 0])
    return o.conv(x, w, bias, each(stride, axes), sides, dilation, groups)


def conv_transposed(x, axes, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    inner, out, size = w.shape[0] // groups, w.shape[1], list(w.shape[2:])
    w = o.transpose(o.reshape(w, (groups, inner, out, -1)), (3, 1, 0, 2))
    w = o.reshape(w, size + [inner, groups * out])
    return o.conv_transposed(x, w, bias, each(stride, axes), [(p, p) for p in each(padding, axes)], each(dilation, axes), groups,
                             extra=each(output_padding, axes))


def max_pool(x, axes, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    refuse(ceil_mode=ceil_mode, return_indices=return_indices)
    return o.max_pool(x, each(kernel_size, axes), each(stride or kernel_size, axes), [(p, p) for p in each(padding, axes)],
                      each(dilation, axes))


def average_pool(x, axes, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    refuse(ceil_mode=ceil_mode, divisor_override=divisor_override)
    return o.average_pool(x, each(kernel_size, axes), each(stride or kernel_size, axes), [(p, p) for p in each(padding, axes)],
                          1, count_include_pad)


def adaptive(x, axes, size):
    sizes = [s if n is None else n for n, s in zip(each(size, axes) if size is not None else [None] * axes, x.shape[1:])]
    return o.resize(x, sizes * (2 if axes == 1 else 1), "area")


for axes in 1, 2:
    add(f"nn.functional.conv{axes}d", spatial(axes, conv), R(16))
    add(f"nn.functional.conv_transpose{axes}d", spatial(axes, conv_transposed), R(16))
    add(f"nn.functional.max_pool{axes}d", spatial(axes, max_pool), EXACT, R(4))
    add(f"nn.functional.avg_pool{axes}d", spatial(axes, average_pool), R(8), R(8))
    add(f"nn.functional.adaptive_avg_pool{axes}d", spatial(axes, adaptive), R(8), R(8))


def resized(x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    kinds = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "area": "area"}
    if mode not in kinds or x.ndim not in (3, 4):
        raise NotRun(f"op missing: interpolate, {mode}, of {x.ndim - 2} axes")
    refuse(align_corners=align_corners, antialias=antialias)
    axes = x.ndim - 2
    if size is None:
        sizes = [n * s for n, s in zip(x.shape[2:], each(scale_factor, axes))]
        if any(s != int(s) for s in sizes):
            raise NotRun("setting missing: a scale that is not the ratio of the sizes")
    else:
        sizes = each(size, axes)
    sizes = [int(s) for s in sizes] * (2 if axes == 1 else 1)
    return spatial(axes, lambda t, _: o.resize(t, sizes, kinds[mode]))(x)


for kind in "nearest", "linear", "bilinear", "area":
    add(f"nn.functional.interpolate.{kind}", resized, R(8), R(8))
add("nn.functional.upsample_nearest", lambda x, size=None, scale_factor=None: resized(x, size, scale_factor), EXACT, R(4))


def shuffled(function):
    def op(x, upscale_factor=None, downscale_factor=None):
        shape, r = list(x.shape), upscale_factor or downscale_factor
        y = o.transpose(o.reshape(x, [-1] + shape[-3:]), (0, 2, 3, 1))
        y = o.transpose(function(y, r), (0, 3, 1, 2))
        return o.reshape(y, shape[:-3] + list(y.shape[1:]))
    return op


add("nn.functional.pixel_shuffle", shuffled(o.pixel_shuffle), EXACT, EXACT)
add("nn.functional.pixel_unshuffle", shuffled(o.pixel_unshuffle), EXACT, EXACT)


# ---- cumulative sums, sorting ----

@operator("cumsum", R(8))
def cumsum(x, dim, dtype=None):
    refuse(dtype=dtype)
    return o.reshape(o.cumsum(at_least_1d(x), dim), x.shape)


def ordered(x, k, dim, largest):
    """The k first elements along an axis, and their indices."""
    y = at_least_1d(x)
    dim %= y.ndim
    order = [i for i in range(y.ndim) if i != dim] + [dim]
    back = sorted(range(y.ndim), key=order.__getitem__)
    y = o.transpose(y, order)
    values, indices = o.top_k(y if largest else o.neg(y), y.shape[-1] if k is None else k)
    found = [o.transpose(t, back) for t in (values if largest else o.neg(values), indices)]
    return found if x.ndim else [o.reshape(t, ()) for t in found]


@operator("topk", EXACT)
def topk(x, k, dim=-1, largest=True, sorted=True):
    refuse(unsorted=not sorted)
    return ordered(x, k, dim, largest)


@operator("sort", EXACT)
def sort(x, dim=-1, descending=False, stable=None):
    return ordered(x, None, dim, descending)


add("argsort", lambda x, dim=-1, descending=False, stable=None: ordered(x, None, dim, descending)[1], EXACT)
add("msort", lambda x: ordered(x, None, 0, False)[0], EXACT)
