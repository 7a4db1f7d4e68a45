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


def unrolled(node, gates, step):
    """Steps written out as ops, forward: every state, and the last ones. step(a, p, c): of the products of the input, of a
    function that gives those of a state, and of the state."""
    is_first = node.attribute("layout", 0)
    x = o.transpose(node.x[0], (1, 0, 2)) if is_first else node.x[0]
    (time, batch), make, units = x.shape[:2], node.x.graph.input, node.host[2].shape[2]
    if node.attribute("direction", b"forward") != b"forward" or (node.has(4) and (node.host[4] != time).any()):
        raise NotRun("setting missing: cells of other forms in other orders")
    of_input, of_hidden = np.split(node.host[3][0], 2) if node.has(3) else (np.zeros(gates * units, np.float32),) * 2
    w, b, r = (make(a) for a in (np.ascontiguousarray(node.host[1][0].T), of_input, np.ascontiguousarray(node.host[2][0].T)))
    r, c = o.split(r, gates, -1), o.split(make(of_hidden), gates, 0)
    state = [make(node.host[i][:, 0] if is_first else node.host[i][0]) if node.has(i) else o.fill((batch, units), 0) for i in (5, 6)]
    states = []
    for part in o.split(x, time, 0):
        a = o.split(o.dense(o.reshape(part, (batch, -1)), w, b), gates, -1)
        state = step(a, lambda h, k: o.dense(h, r[k], c[k]), state)
        states.append(state[0])
    y = o.reshape(o.stack(states, 1 if is_first else 0), (batch, time, 1, units) if is_first else (time, 1, batch, units))
    return [y] + [o.reshape(s, (batch, 1, units) if is_first else (1, batch, units)) for s in state], bound


def reset_before(a, p, state):
    """A GRU that resets the state before its product; the gates are z, r, h."""
    h = state[0]
    z, r = (o.sigmoid(a[k] + p(h, k)) for k in (0, 1))
    n = o.tanh(a[2] + p(r * h, 2))
    return [n + z * (h - n), state[1]]


def with_peepholes(node):
    """An LSTM whose gates read the cell; the gates are i, o, f, c."""
    looks = o.split(node.x.graph.input(node.host[7][0]), 3, 0)

    def step(a, p, state):
        h, c = state
        i, f = (o.sigmoid(a[k] + p(h, k) + looks[k] * c) for k in (0, 2))
        c = f * c + i * o.tanh(a[3] + p(h, 3))
        return [o.sigmoid(a[1] + p(h, 1) + looks[1] * c) * o.tanh(c), c]
    return step


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
        return unrolled(node, 3, reset_before)
    return recurrent(node, o.gru, [b"Sigmoid", b"Tanh"], (1, 0, 2), ["hidden"])


@operator("LSTM")
def lstm(node):
    if node.has(7) and node.host[7].any():
        return unrolled(node, 4, with_peepholes(node))
    return recurrent(node, o.lstm, [b"Sigmoid", b"Tanh", b"Tanh"], (0, 2, 3, 1), ["hidden", "cell"])


@operator("RNN")
def rnn(node):
    return recurrent(node, o.rnn, [b"Tanh"], (0,), ["hidden"])
