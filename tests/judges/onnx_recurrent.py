# SPDX-License-Identifier: MIT
"""ONNX operators of recurrent layers: GRU, LSTM, RNN, from the first step, from the last one, or both."""
import numpy as np

from copse import ops as o

from judge import NotRun
from onnx_ops import operator


def bound(want):
    return np.full(want.shape, 2e-6 * np.abs(want).max(initial=0))


def columns(a, units, order):
    """Blocks of rows in another order, as columns."""
    return np.concatenate([a[k * units:(k + 1) * units] for k in order]).T


def turned(x):
    """The steps of x in reverse, [time, ...]."""
    return o.gather(x, o.constant(np.arange(x.shape[0])[::-1].astype(np.int32)))


def one_direction(node, d, is_backward, layer, order, states):
    """Every state [time, batch, units], and the last ones [batch, units]. order: the gates of Copse by their places in ONNX."""
    units, is_first, make = node.host[2].shape[2], node.attribute("layout", 0), node.x.graph.input
    parts = {}
    if node.has(3):
        of_input, of_hidden = np.split(node.host[3][d], 2)
        parts["bias"], parts["recurrent_bias"] = columns(of_input, units, order), columns(of_hidden, units, order)
    if node.has(4):
        parts["lengths"] = node.host[4]
    for i, name in enumerate(states):
        if node.has(5 + i):
            parts[name] = node.host[5 + i][:, d] if is_first else node.host[5 + i][d]
    x = o.transpose(node.x[0], (1, 0, 2)) if is_first else node.x[0]
    x = turned(x) if is_backward else x
    y, *last = layer(o.transpose(x, (1, 0, 2)), make(columns(node.host[1][d], units, order)),
                     make(columns(node.host[2][d], units, order)), **{name: make(a) for name, a in parts.items()})
    y = o.transpose(y, (1, 0, 2))
    return [turned(y) if is_backward else y] + last


def recurrent(node, layer, activations, order, states):
    is_first, direction = node.attribute("layout", 0), node.attribute("direction", b"forward")
    given = node.attribute("activations", activations)
    if given != activations * (len(given) // len(activations)) or node.attribute("clip", None) is not None:
        raise NotRun("setting missing: other activations of a recurrent layer, or clipping")
    if direction != b"forward" and node.has(4):
        raise NotRun("setting missing: packed sequences from the last step")
    backward = {b"forward": [False], b"reverse": [True], b"bidirectional": [False, True]}[direction]
    each = [one_direction(node, d, is_backward, layer, order, states) for d, is_backward in enumerate(backward)]
    y, *last = (o.stack(parts, 1 if i == 0 else 0) for i, parts in enumerate(zip(*each)))
    if is_first:
        return [o.transpose(y, (2, 0, 1, 3))] + [o.transpose(t, (1, 0, 2)) for t in last], bound
    return [y] + last, bound


@operator("GRU")
def gru(node):
    steps = node.host[0].shape[node.attribute("layout", 0)]
    units = node.host[2].shape[2]
    resets_nothing = steps == 1 and not node.has(5) and not (node.has(3) and node.host[3][:, 5 * units:].any())
    if not node.attribute("linear_before_reset", 0) and not resets_nothing:
        raise NotRun("setting missing: a GRU that resets before the product")
    return recurrent(node, o.gru, [b"Sigmoid", b"Tanh"], (1, 0, 2), ["hidden"])


@operator("LSTM")
def lstm(node):
    if node.has(7) and node.host[7].any():
        raise NotRun("setting missing: peepholes")
    return recurrent(node, o.lstm, [b"Sigmoid", b"Tanh", b"Tanh"], (0, 2, 3, 1), ["hidden", "cell"])


@operator("RNN")
def rnn(node):
    return recurrent(node, o.rnn, [b"Tanh"], (0,), ["hidden"])
