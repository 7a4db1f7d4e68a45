# SPDX-License-Identifier: MIT
"""ONNX operators whose places are known on the host: gathers and scatters by element, padding by the content, einsum; and norms
and pools of powers: see onnx_ops.py."""
import numpy as np

from copse import ops as o

from judge import DECLARED, NotRun, exact, ratio, ulp
from onnx_ops import axis_of, operator, whole
from onnx_windows import Windows, channels_last


def numbers_of(a):
    """The flat number of each element."""
    return np.arange(a.size).reshape(a.shape)


def picked(x, flat):
    """Elements of x by their flat numbers, in the shape of these; 0 for negative ones."""
    x = o.cast(x, "float32") if whole(x) else x  # the comparison finds whole numbers that this changes
    y = o.gather(o.reshape(x, (-1, 1)), o.constant(np.maximum(flat, 0).astype(np.int32)))
    y = o.reshape(y, flat.shape)
    return o.where(o.constant((flat >= 0).astype(np.int32)), y, 0) if (flat < 0).any() else y


# ---- gathers ----

@operator("GatherElements")
def gather_elements(node):
    a, axis = node.host[0], axis_of(node, node.host[0].ndim, 0)
    return picked(node.x[0], np.take_along_axis(numbers_of(a), node.host[1] % a.shape[axis], axis)), exact


def entries(numbers, indices, batch):
    """Entries of an array by the last axis of the indices, item by item of `batch` leading axes."""
    if batch > 0:
        return np.stack([entries(n, i, batch - 1) for n, i in zip(numbers, indices)])
    return numbers[tuple(np.moveaxis(indices, -1, 0))]


@operator("GatherND")
def gather_nd(node):
    return picked(node.x[0], entries(numbers_of(node.host[0]), node.host[1], node.attribute("batch_dims", 0))), exact


@operator("Compress")
def compress(node):
    axis = node.attribute("axis", None)
    return picked(node.x[0], np.compress(node.host[1], numbers_of(node.host[0]), axis)), exact


@operator("ReverseSequence")
def reverse_sequence(node):
    time, batch = node.attribute("time_axis", 0), node.attribute("batch_axis", 1)
    numbers = np.moveaxis(numbers_of(node.host[0]), (batch, time), (0, 1)).copy()
    for item, length in zip(numbers, node.host[1].tolist()):
        item[:length] = item[:length][::-1].copy()
    return picked(node.x[0], np.moveaxis(numbers, (0, 1), (batch, time))), exact


@operator("CenterCropPad")
def center_crop_pad(node):
    a = node.host[0]
    numbers = numbers_of(a)
    axes = [i % a.ndim for i in node.attribute("axes", range(a.ndim))]
    for axis, size in zip(axes, node.host[1].tolist()):
        more = size - numbers.shape[axis]
        if more >= 0:
            pads = [(0, 0)] * a.ndim
            pads[axis] = more // 2, more - more // 2
            numbers = np.pad(numbers, pads, constant_values=-1)
        else:
            numbers = np.take(numbers, np.arange(-more // 2, -more // 2 + size), axis)
    return picked(node.x[0], numbers), exact


# ---- scatters ----

def scattered(node, flat):
    """The operand with updates at these places; sums are the derivative of a gather."""
    x, updates, how = node.x[0], node.x[2], node.attribute("reduction", b"none")
    if how == b"none":
        source = np.full(node.host[0].size, -1)
        source[flat.reshape(-1)] = np.arange(flat.size)
        source = source.reshape(node.host[0].shape)
        return o.where(o.constant((source >= 0).astype(np.int32)), picked(updates, source), x), exact
    if how != b"add":
        raise NotRun(f"op missing: {node.type} by {how.decode()}")
    table = o.fill((node.host[0].size, 1), 0)
    rows = o.gather(table, o.constant(flat.reshape(-1).astype(np.int32)))
    sums, = o.gradients(rows, [table], o.reshape(updates, (-1, 1)))
    magnitude = np.abs(node.host[0].astype(np.float64))
    np.add.at(magnitude.reshape(-1), flat.reshape(-1), np.abs(node.host[2].astype(np.float64)).reshape(-1))
    return x + o.reshape(sums, x.shape), ratio(6, magnitude)


@operator("ScatterElements", "Scatter")
def scatter_elements(node):
    a, axis = node.host[0], axis_of(node, node.host[0].ndim, 0)
    places = list(np.indices(node.host[1].shape))
    places[axis] = node.host[1] % a.shape[axis]
    return scattered(node, numbers_of(a)[tuple(places)])


@operator("ScatterND")
def scatter_nd(node):
    return scattered(node, entries(numbers_of(node.host[0]), node.host[1], 0))


@operator("TensorScatter")
def tensor_scatter(node):
    past, update = node.host[:2]
    axis, circular = node.attribute("axis", -2) % past.ndim, node.attribute("mode", b"linear") == b"circular"
    starts = node.host[2] if node.has(2) else np.zeros(len(past), np.int64)
    source = np.full(past.shape, -1)
    for to, start, numbers in zip(source, starts.tolist(), numbers_of(update)):
        at = start + np.arange(update.shape[axis])
        np.moveaxis(to, axis - 1, 0)[at % past.shape[axis] if circular else at] = np.moveaxis(numbers, axis - 1, 0)
    return o.where(o.constant((source >= 0).astype(np.int32)), picked(node.x[1], source), node.x[0]), exact


# ---- einsum ----

@operator("Einsum")
def einsum(node):
    text = node.attribute("equation", b"").decode().replace(" ", "")
    inputs, _, output = text.partition("->")
    hidden = {s: "ABCDEF"[:a.ndim - len(s.replace("...", ""))] for s, a in zip(inputs.split(","), node.host)}
    inputs = [s.replace("...", hidden[s]) for s in inputs.split(",")]
    if "->" in text:
        output = output.replace("...", max(hidden.values(), key=len))
    else:
        output = "".join(sorted(c for c in set("".join(inputs)) if "".join(inputs).count(c) == 1))
    order = output + "".join(sorted(set("".join(inputs)) - set(output)))
    product, magnitude = None, [np.abs(a.astype(np.float64)) for a in node.host]
    for s, a in zip(inputs, node.host):
        own = "".join(c for c in order if c in s)
        x = picked(node.x.graph.input(a.astype(np.float32)), np.einsum(f"{s}->{own}", numbers_of(a)))
        sizes = dict(zip(own, x.shape))
        x = o.reshape(x, [sizes.get(c, 1) for c in order])
        product = x if product is None else product * x
    y = o.sum(product, list(range(len(output), len(order)))) if len(order) > len(output) else product
    return y, ratio(8, np.einsum(f"{','.join(inputs)}->{output}", *magnitude))


# ---- norms and pools of powers ----

@operator("LRN")
def local_response_norm(node):
    x, size = node.x[0], node.attribute("size", 1)
    alpha, beta, bias = (node.attribute(k, v) for k, v in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    before, after, rest = (size - 1) // 2, size // 2, [0] * (x.ndim - 2)
    squares = o.pad(o.square(x), [0, before] + rest, [0, after] + rest)
    total = sum((o.slice(squares, [0, k] + rest, x.shape) for k in range(1, size)), o.slice(squares, [0, 0] + rest, x.shape))
    return x * o.pow(o.multiply_by(total, alpha / size) + bias, -beta), ulp(DECLARED["pow"][0] + 8)


@operator("LpPool")
def lp_pool(node):
    if node.attribute("ceil_mode", 0) or node.attribute("p", 2) != 2:
        raise NotRun("setting missing: LpPool of other powers or sizes")
    windows = Windows(node, node.attribute("kernel_shape", []))
    x, back = channels_last(node.x[0])
    windows.pad_for(node.host[0].shape[2:])
    y = o.average_pool(o.square(x), windows.size, windows.stride, windows.sides, windows.dilation, True)
    return back(o.sqrt(o.multiply_by(y, float(np.prod(windows.size))))), ulp(9)
