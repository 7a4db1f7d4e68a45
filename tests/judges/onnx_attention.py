# SPDX-License-Identifier: MIT
"""ONNX Attention: heads in an axis of their own or in one with the numbers, masks of numbers or truth values, keys and values of
earlier calls, lengths, windows. A cap of scores, and scores as results, are compositions."""
import numpy as np

from copse import ops as o

from judge import NotRun, exact, ratio
from onnx_ops import operator

ROUNDING = {"float16": 2.0 ** 13, "bfloat16": 2.0 ** 16}  # of expected results, in units of 2^-24


def heads_apart(x, heads):
    """[n, heads, length, width]"""
    if x.ndim == 4:
        return x
    n, length, columns = x.shape
    return o.transpose(o.reshape(x, (n, length, heads, columns // heads)), (0, 2, 1, 3))


def widened(x, width):
    """Zeros behind the numbers of each head."""
    return x if x.shape[-1] == width else o.pad(x, [0] * 4, [0, 0, 0, width - x.shape[-1]])


def offset_of(node, queries):
    """Of the places of queries among keys: one for each item, or one for all."""
    if node.has(4):
        return node.host[4].shape[2]
    return node.host[6].reshape(-1, 1, 1, 1) - queries if node.has(6) else 0


def bias_of(node, queries, keys):
    """What the library adds to scores, and whether it is causal by itself."""
    bias, offset = np.zeros((1, 1), np.float32), offset_of(node, queries)
    if node.has(3):
        given = node.host[3]
        bias = np.where(given, 0, -np.inf) if given.dtype == bool else given.astype(np.float32)
        bias = np.pad(bias, [(0, 0)] * (bias.ndim - 1) + [(0, keys - bias.shape[-1])], constant_values=-np.inf)
    causal, left, right = (node.attribute(name, d) for name, d in
                           (("is_causal", 0), ("left_window_size", -1), ("right_window_size", -1)))
    distance = np.arange(queries)[:, None] + offset - np.arange(keys)
    hidden = np.zeros(np.shape(distance), bool)
    is_own = bool(causal) and np.ndim(offset) == 0 and offset == 0
    if causal and not is_own:
        hidden |= distance < 0
    if left >= 0:
        hidden |= distance > left
    if right >= 0:
        hidden |= -distance > right
    if hidden.any():
        bias = bias + np.where(hidden, -np.inf, 0)
    if not bias.any():
        return None, is_own
    return np.broadcast_to(bias, bias.shape[:-1] + (keys,)).astype(np.float32), is_own


def scores_of(node, q, k, scale, bias, is_own):
    """The scores with their cap, and those with what is added."""
    n, heads, queries, width = q.shape
    shape = (n, heads, queries, k.shape[2])
    s = o.matmul(o.reshape(q, (n, k.shape[1], heads // k.shape[1] * queries, width)), k, transpose_b=True)
    s = o.multiply_by(o.reshape(s, shape), scale)
    cap = node.attribute("softcap", 0)
    s = o.multiply_by(o.tanh(o.multiply_by(s, 1 / cap)), cap) if cap else s
    whole = np.zeros(shape, np.float32) + (0 if bias is None else bias)
    if is_own:
        whole = whole + np.where(np.tri(*shape[-2:]), 0, -np.inf)
    if node.has(6):
        whole = whole + np.where(np.arange(shape[-1]) < node.host[6].reshape(-1, 1, 1, 1), 0, -np.inf)
    return s, s + o.constant(whole.astype(np.float32)), whole


def shares_of(scores, whole):
    """Softmax; 0 where all keys are hidden."""
    some = np.isfinite(whole).any(-1, keepdims=True).astype(np.int32)
    return o.where(o.constant(np.broadcast_to(some, whole.shape).copy()), o.softmax(scores), 0)


def by_shares(shares, v):
    n, heads, queries, keys = shares.shape
    y = o.matmul(o.reshape(shares, (n, v.shape[1], heads // v.shape[1] * queries, keys)), v)
    return o.reshape(y, (n, heads, queries, v.shape[3]))


@operator("Attention")
def attention(node):
    if node.outputs[0].dtype.name == "bfloat16" and node.attribute("softcap", 0):
        raise NotRun("type missing: a cap of bfloat16 scores")
    kind = node.outputs[0].dtype.name
    heads, kv_heads = node.attribute("q_num_heads", 0), node.attribute("kv_num_heads", 0)
    given = [node.x[i] if node.has(i) else None for i in (0, 1, 2, 4, 5)]
    given = [x if x is None or kind == "float32" else o.cast(x, "float32") for x in given]
    q, k, v = heads_apart(given[0], heads), heads_apart(given[1], kv_heads), heads_apart(given[2], kv_heads)
    if node.has(4):
        k, v = o.concat([given[3], k], 2), o.concat([given[4], v], 2)
    n, heads, queries, width = q.shape
    keys, values = k.shape[2], v.shape[3]
    scale = node.attribute("scale", 0) or width ** -0.5
    bias, is_own = bias_of(node, queries, keys)
    mode, wants_scores = node.attribute("qk_matmul_output_mode", 0), len(node.outputs) in (2, 4)
    scores = None
    if wants_scores or node.attribute("softcap", 0):
        capped, added, whole = scores_of(node, q, k, scale, bias, is_own)
        scores = shares_of(added, whole) if mode == 3 else added if mode == 2 else capped
    if node.attribute("softcap", 0):
        y = by_shares(shares_of(added, whole), v)
    else:
        wide = max(width, values)
        parts = [o.transpose(widened(x, wide), (0, 2, 1, 3)) for x in (q, k, v)]
        if kind != "float32":
            parts = [o.cast(x, kind) for x in parts]
        settings = {"lengths": node.x[6]} if node.has(6) else {}
        if bias is not None:
            settings["mask"] = o.constant(bias)
        y = o.transpose(o.attention(*parts, causal=is_own, scale=scale, **settings), (0, 2, 1, 3))
        y = o.slice(y, [0] * 4, [n, heads, queries, values]) if values < wide else y
    if node.host[0].ndim == 3:
        y = o.reshape(o.transpose(y, (0, 2, 1, 3)), (n, queries, heads * values))
    most = [max(np.nanmax(np.abs(np.asarray(node.host[i], np.float64)), initial=0) for i in part if node.has(i))
            for part in ((0,), (1, 4), (2, 5))]
    most = [m if np.isfinite(m) else 1e4 for m in most]
    size = width * abs(scale) * most[0] * most[1] + (np.abs(bias[np.isfinite(bias)]).max(initial=0) if bias is not None else 0)
    units = ROUNDING.get(kind, 16)
    bounds = [ratio(units, (1 + 2 * size) * 2 * most[2]), exact, exact, ratio(units, 1 + size)]
    return [y, k, v, scores] if wants_scores else [y, k, v], bounds
