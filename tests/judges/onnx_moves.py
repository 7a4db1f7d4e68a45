# SPDX-License-Identifier: MIT
"""ONNX operators that move elements, convert them, or make constants; those of losses; rotary embedding."""
import numpy as np

from copse import ops as o

from judge import NotRun, exact, ratio, ulp
from onnx_ops import axis_of, distance, operator, to_last, whole


# ---- shapes ----

@operator("Reshape")
def reshape(node):
    x, shape = node.x[0], node.host[1].tolist()
    if not node.attribute("allowzero", 0):
        shape = [x.shape[i] if d == 0 else d for i, d in enumerate(shape)]
    return o.reshape(x, shape), exact


@operator("Flatten")
def flatten(node):
    x, axis = node.x[0], node.attribute("axis", 1)
    rows = int(np.prod(x.shape[:axis]))
    return o.reshape(x, (rows, int(np.prod(x.shape)) // rows)), exact


@operator("Squeeze")
def squeeze(node):
    x = node.x[0]
    axes = [a % x.ndim for a in node.host[1].tolist()] if node.has(1) else [i for i, d in enumerate(x.shape) if d == 1]
    return o.reshape(x, [d for i, d in enumerate(x.shape) if i not in axes]), exact


@operator("Unsqueeze")
def unsqueeze(node):
    x, axes = node.x[0], node.host[1].tolist()
    rank = x.ndim + len(axes)
    axes, left = [a % rank for a in axes], iter(x.shape)
    return o.reshape(x, [1 if i in axes else next(left) for i in range(rank)]), exact


@operator("Transpose")
def transpose(node):
    return o.transpose(node.x[0], node.attribute("perm", None)), exact


@operator("Expand")
def expand(node):
    x = node.x[0]
    return o.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(node.host[1].tolist()))), exact


@operator("Concat")
def concat(node):
    parts = [node.x[i] for i in range(len(node.host))]
    return o.concat(parts, node.attribute("axis", 0)), exact


@operator("Split")
def split(node):
    x = node.x[0]
    axis, count = axis_of(node, x.ndim, 0), len(node.outputs)
    sizes = node.host[1].tolist() if node.has(1) else None
    if sizes is None:
        each = -(-x.shape[axis] // count)
        sizes = [each] * (count - 1) + [x.shape[axis] - each * (count - 1)]
    return o.split(x, sizes, axis), exact


@operator("Tile")
def tile(node):
    x = node.x[0]
    for axis, count in enumerate(node.host[1].tolist()):
        x = o.concat([x] * count, axis)
    return x, exact


@operator("Pad")
def pad(node):
    if node.attribute("mode", b"constant") != b"constant":
        raise NotRun(f"op missing: Pad in mode {node.attribute('mode', b'').decode()}")
    x = node.x[0]
    axes = [a % x.ndim for a in node.host[3].tolist()] if node.has(3) else list(range(x.ndim))
    before, after = np.zeros(x.ndim, int), np.zeros(x.ndim, int)
    before[axes], after[axes] = np.split(node.host[1], 2)
    return o.pad(x, before.tolist(), after.tolist(), float(node.host[2]) if node.has(2) else 0), exact


@operator("Slice")
def slices(node):
    x = node.x[0]
    starts, ends = node.host[1].tolist(), node.host[2].tolist()
    axes = [a % x.ndim for a in node.host[3].tolist()] if node.has(3) else list(range(len(starts)))
    steps = node.host[4].tolist() if node.has(4) else [1] * len(starts)
    y = x
    for start, end, axis, step in zip(starts, ends, axes, steps):
        taken = list(range(x.shape[axis]))[start:end:step]
        if step == 1:
            first, size = [0] * y.ndim, list(y.shape)
            first[axis], size[axis] = taken[0] if taken else 0, len(taken)
            y = o.slice(y, first, size)
        else:
            y = taken_along(y, o.constant(np.array(taken, np.int32)), axis)
    return y, exact


@operator("DepthToSpace")
def depth_to_space(node):
    x, size = node.x[0], node.attribute("blocksize", 1)
    n, c, h, w = x.shape
    if node.attribute("mode", b"DCR") == b"DCR":
        y = o.transpose(o.reshape(x, (n, size, size, c // size ** 2, h * w)), (0, 3, 4, 1, 2))
    else:
        y = o.transpose(o.reshape(x, (n, c // size ** 2, size, size, h * w)), (0, 1, 4, 2, 3))
    y = o.transpose(o.reshape(y, (n * c // size ** 2, h, w, size, size)), (0, 1, 3, 2, 4))
    return o.reshape(y, (n, c // size ** 2, h * size, w * size)), exact


@operator("SpaceToDepth")
def space_to_depth(node):
    x, size = node.x[0], node.attribute("blocksize", 1)
    n, c, h, w = x.shape
    y = o.transpose(o.reshape(x, (n * c, h // size, size, w // size, size)), (0, 2, 4, 1, 3))
    y = o.reshape(y, (n, c, size * size, h // size, w // size))
    y = o.transpose(y, (0, 2, 1, 3, 4)) if node.attribute("mode", b"DCR") == b"DCR" else y
    return o.reshape(y, (n, c * size * size, h // size, w // size)), exact


# ---- indices, constants, types ----

def taken_along(x, indices, axis):
    """Elements of an axis by index: its dimensions become those of the indices."""
    if whole(x):
        raise NotRun("type missing: gather of int32")
    order = [axis] + [i for i in range(x.ndim) if i != axis]
    y = o.gather(o.transpose(x, order), indices)
    more, left = indices.ndim, list(range(indices.ndim, indices.ndim + x.ndim - 1))
    return o.transpose(y, left[:axis] + list(range(more)) + left[axis:])


@operator("Gather")
def gather(node):
    x = node.x[0]
    axis, indices = axis_of(node, x.ndim, 0), node.x[1]
    if (node.host[1] < 0).any():
        indices = o.constant(node.host[1] % x.shape[axis])
    return taken_along(x, indices, axis), exact


@operator("OneHot")
def one_hot(node):
    depth = int(node.host[1].reshape(()))
    off, on = node.host[2].tolist()
    indices = o.cast(node.x[0], "int32")
    if (node.host[0] < 0).any():
        indices = o.where(o.less(indices, 0), o.cast(o.cast(indices, "float32") + depth, "int32"), indices)
    y = o.multiply_by(o.one_hot(indices, depth), on - off) + off
    axis = node.attribute("axis", -1) % y.ndim
    order = list(range(y.ndim - 1))
    order.insert(axis, y.ndim - 1)
    y = o.transpose(y, order)
    return (o.cast(y, "int32") if node.host[2].dtype.kind == "i" else y), exact


@operator("Trilu")
def trilu(node):
    x, k = node.x[0], int(node.host[1]) if node.has(1) else 0
    mask = (np.triu if node.attribute("upper", 1) else np.tril)(np.ones(x.shape[-2:], np.int32), k)
    return o.where(o.constant(mask), x, 0), exact


@operator("Constant")
def constant(node):
    return o.constant(node.array("value")), exact


@operator("ConstantOfShape")
def constant_of_shape(node):
    value = node.array("value") if node.attribute("value", None) is not None else np.zeros(1, np.float32)
    return o.fill(node.host[0].tolist(), float(value[0]), value.dtype.name), exact


@operator("EyeLike")
def eye_like(node):
    if node.outputs[0].dtype.name not in ("float32", "int32"):
        raise NotRun(f"type missing: {node.outputs[0].dtype.name}")
    rows, columns = node.host[0].shape
    y = o.one_hot(o.constant(np.arange(rows, dtype=np.int32) + node.attribute("k", 0)), columns)
    return (o.cast(y, "int32") if node.outputs[0].dtype == np.int32 else y), exact


@operator("Cast", "CastLike")
def cast(node):
    to, a = node.outputs[0].dtype.name, node.host[0]
    x = node.x[0]
    if to == "bool":
        return o.equal(o.equal(o.cast(x, "float32"), 0), 0), exact
    if to not in ("float32", "int32", "int64"):
        raise NotRun(f"type missing: Cast to {to}")
    return o.cast(o.reshape(x, a.shape) if x.dtype == to else x, "float32" if to == "float32" else "int32"), exact


# ---- losses ----

def loss_of_rows(node, log_p, weights, terms):
    """-weight log p of each label, then the reduction. `terms` is the magnitude of each row's term, without weights."""
    labels, classes, shape = node.x[1], log_p.shape[-1], node.host[1].shape
    target, ignored = node.host[1], node.attribute("ignore_index", None)
    picked = o.sum(o.where(o.one_hot(labels, classes), log_p, 0), -1)
    weight = np.ones(shape) if weights is None else np.take(node.host[2].astype(np.float64), target % classes)
    w = o.fill(shape, 1) if weights is None else o.gather(weights, labels)
    if ignored is not None:
        w = o.where(o.equal(labels, ignored), 0, w)
        weight = np.where(target == ignored, 0, weight)
    loss = o.neg(o.where(o.equal(w, 0), 0, picked * w))
    reduction, terms = node.attribute("reduction", b"mean"), terms * np.abs(weight)
    if reduction == b"none":
        return loss, ratio(10, terms)
    if reduction == b"sum":
        return o.sum(loss), ratio(12, terms.sum())
    return o.div(o.sum(loss), o.sum(w)), ratio(18, terms.sum() / max(weight.sum(), 1e-30))


def classes_last(x):
    return to_last(x, 1)


def picked_of(node, values):
    """The elements of the labels; 0 for labels out of range, which are ignored."""
    target = node.host[1]
    found = np.take_along_axis(values, np.expand_dims(np.clip(target, 0, values.shape[1] - 1), 1), 1).squeeze(1)
    return np.abs(found)


@operator("NegativeLogLikelihoodLoss")
def nll_loss(node):
    log_p, _ = classes_last(node.x[0])
    return loss_of_rows(node, log_p, node.x[2] if node.has(2) else None, picked_of(node, node.host[0].astype(np.float64)))


@operator("SoftmaxCrossEntropyLoss")
def cross_entropy(node):
    a = node.host[0].astype(np.float64)
    far = distance(a, 1)
    # the sizes that the loss is computed from: the distance to the largest element, and the logarithm of the sum
    terms = picked_of(node, far) + np.log(np.exp(-far).sum(axis=1)) + 1
    x, back = classes_last(node.x[0])
    log_p = o.log_softmax(x)
    reduction = node.attribute("reduction", b"mean")
    if not node.has(2) and node.attribute("ignore_index", None) is None and reduction != b"none":
        loss = o.sparse_cross_entropy(o.reshape(x, (-1, x.shape[-1])), o.reshape(node.x[1], (-1,)), reduction.decode())
        bound = ratio(8, terms.mean() if reduction == b"mean" else terms.sum())
    else:
        loss, bound = loss_of_rows(node, log_p, node.x[2] if node.has(2) else None, terms)
    return [loss, back(log_p)], [bound, lambda want: ulp(1)(want) * (8 + far)]


# ---- rotary embedding ----

@operator("RotaryEmbedding")
def rotary_embedding(node):
    x, shape = node.x[0], node.x[0].shape
    if len(shape) == 3:  # [batch, sequence, heads and elements]
        heads = node.attribute("num_heads", 0)
        x = o.reshape(x, (shape[0], shape[1], heads, shape[2] // heads))
    else:
        x = o.transpose(x, (0, 2, 1, 3))
    turned = node.attribute("rotary_embedding_dim", 0)
    cosine, sine = (o.gather(node.x[i], node.x[3]) if node.has(3) else node.x[i] for i in (1, 2))
    y = o.rotary_by(x, o.concat([cosine, sine], -1), turned, interleaved=bool(node.attribute("interleaved", 0)))
    y = o.reshape(y, shape) if len(shape) == 3 else o.transpose(y, (0, 2, 1, 3))
    return y, ratio(4, np.abs(node.host[0]).max() * 2)
