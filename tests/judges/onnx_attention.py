# SPDX-License-Identifier: MIT
"""ONNX Attention: heads in an axis of their own or in one with the numbers, masks of numbers or truth values, keys and values of
earlier calls, lengths. A cap of scores, and the scores as results, are compositions."""
import numpy as np

from copse import ops as o

from judge import NotRun, exact, ratio
from onnx_ops import operator


def heads_apart(x, heads):
    """[n, heads, length, width]"""
    if x.ndim == 4:
        return x
    n, length, columns = x.shape
    return o.transpose(o.reshape(x, (n, length, heads, columns // heads)), (0, 2, 1, 3))


def widened(x, width):
    """Zeros behind the numbers of each head."""
    return x if x.shape[-1] == width else o.pad(x, [0] * 4, [0, 0, 0, width - x.shape[-1]])


def mask_of(node, shape, offset):
    """What is added to the scores, or None; the library's own causal mask has no offset."""
    mask = np.zeros((), np.float32)
    if node.has(3):
        given = node.host[3]
        mask = np.where(given, 0, -np.inf) if given.dtype == bool else given.astype(np.float32)
        behind = shape[-1] - mask.shape[-1]
        if behind:
            mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, behind)], constant_values=-np.inf)
    if offset:
        i, j = np.indices(shape[-2:])
        mask = mask + np.where(j <= i + offset, 0, -np.inf)
    if mask.ndim == 0:
        return None
    return o.constant(np.broadcast_to(mask, mask.shape[:-2] + shape[-2:]).astype(np.float32))


def seen_by(mask, shape, causal):
    """The whole mask in NumPy, for bounds and compositions."""
    whole = np.zeros(shape, np.float32)
    if mask is not None:
        whole = whole + mask
    if causal:
        whole = whole + np.where(np.tril(np.ones(shape[-2:], bool)), 0, -np.inf)
    return whole.astype(np.float32)


def repeated(x, heads):
    return x if x.shape[1] == heads else o.gather_heads(x, heads)


@operator("Attention")
def attention(node):
    if node.attribute("softmax_precision", 1) not in (1, 10, 11, 16):
        raise NotRun("setting missing: another precision of the softmax")
    q = heads_apart(node.x[0], node.attribute("q_num_heads", 0))
    k, v = (heads_apart(node.x[i], node.attribute("kv_num_heads", 0)) for i in (1, 2))
    past = 0
    if node.has(4):
        past = node.host[4].shape[2]
        k, v = o.concat([node.x[4], k], 2), o.concat([node.x[5], v], 2)
    n, heads, queries, width = q.shape
    keys, values = k.shape[2], v.shape[3]
    shape = (n, heads, queries, keys)
    scale = node.attribute("scale", 0) or width ** -0.5
    causal = bool(node.attribute("is_causal", 0))
    mask = mask_of(node, shape, past if causal else 0)
    if node.attribute("softcap", 0) or len([name for name in node.node_outputs if name]) > 3:
        raise NotRun("op missing: Attention with a cap of scores, or with scores as a result")
    wide = max(width, values)
    parts = [o.transpose(widened(x, wide), (0, 2, 1, 3)) for x in (q, k, v)]
    settings = {"lengths": node.x[6]} if node.has(6) else {}
    y = o.attention(*parts, causal=causal and not past, scale=scale, mask=mask, **settings)
    if values < wide:
        y = o.slice(y, [0] * 4, list(y.shape[:3]) + [values])
    if node.host[0].ndim == 3:
        y = o.reshape(y, (n, queries, heads * values))
    else:
        y = o.transpose(y, (0, 2, 1, 3))
    most = [np.abs(np.asarray(a, np.float64)).max(initial=0) for a in node.host[:3]]
    if past:
        most[1:] = [max(m, np.abs(a).max(initial=0)) for m, a in zip(most[1:], node.host[4:6])]
    size = width * scale * most[0] * most[1]
    return [y, k, v], [ratio(16, (1 + 2 * size) * 2 * most[2]), exact, exact]
