# SPDX-License-Identifier: MIT
"""Ops against NumPy, and that the package has every op of the library."""
import math
import re
import unittest

import numpy as np

import copse
from copse import nn, ops
from copse._library import conformance_lib, ffi, lib
from rig import PACKAGE

X = np.random.default_rng(1).uniform(-2, 2, (4, 3, 2)).astype(np.float32)
Y = np.random.default_rng(2).uniform(0.5, 2, (4, 3, 2)).astype(np.float32)
I = np.array([2, 0, 1, 2], np.int32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def norm(x, centre):
    x = x - x.mean(-1, keepdims=True) * centre
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def smoothed(x, labels, e, weights, ignored):
    q = weights * ((1 - e) * np.eye(x.shape[1])[labels] + e / x.shape[1])
    return np.where(labels == ignored, 0, -(q * np.log(softmax(x))).sum(-1))


def binary_loss(x, y, w):
    return w * y * np.log1p(np.exp(-x)) + (1 - y) * np.log1p(np.exp(x))


def cosine(a, b):
    return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


def blocks(rows):
    return [ops.constant(part[:rows]) for part in (WORDS, FACTORS, FACTORS)]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru_step(a, b, h, c):
    r, z = (sigmoid(a[:, k:k + 2] + b[:, k:k + 2]) for k in (0, 2))
    return (1 - z) * np.tanh(a[:, 4:] + r * b[:, 4:]) + z * h, c


def lstm_step(a, b, h, c):
    i, f, _, o = (sigmoid(a[:, k:k + 2] + b[:, k:k + 2]) for k in (0, 2, 4, 6))
    c = f * c + i * np.tanh(a[:, 4:6] + b[:, 4:6])
    return o * np.tanh(c), c


def recurrent(step, x, rows, h, lengths, c=None):
    """Every hidden state, then the last one, and the last cell; rows are those of w, r and the biases."""
    states, c = [], h if c is None else c
    for t in range(x.shape[1]):
        next_h, next_c = step(x[:, t] @ rows[:2] + rows[4], h @ rows[2:4] + rows[5], h, c)
        on = (t < lengths)[:, None]
        h, c = np.where(on, next_h, h), np.where(on, next_c, c)
        states.append(np.where(on, h, 0))
    return np.stack(states + ([h, c] if step is lstm_step else [h]), 1)


def first_of(x):
    return ops.reshape(ops.slice(x, (0, 0, 0), (x.shape[0], 1, 2)), (-1, 2))


def with_last(y, *last):
    return ops.concat([y] + [ops.reshape(t, (-1, 1, 2)) for t in last], 1)


def attended(scores, lengths):
    scores = np.where(np.arange(3) < lengths[:, None, None], scores, -np.inf)
    shares = np.exp(scores)
    return shares / np.maximum(shares.sum(-1, keepdims=True), 1e-30)


def turned(x, angles):
    """Pairs turned by these angles."""
    c, s = np.cos(angles), np.sin(angles)
    return np.stack([x[..., 0] * c - x[..., 1] * s, x[..., 1] * c + x[..., 0] * s], -1)


erf = np.vectorize(math.erf)
ADDED = np.array([[0.5, 1, 2], [-np.inf, 0.25, 0], [-np.inf, -1, 0.5]], np.float32)
GATES = np.random.default_rng(3).uniform(-1, 1, (6, 8)).astype(np.float32)
PLAIN = np.array([1, 1, 1, 1, 0, 0], np.float32)[:, None]  # without biases
FAR = np.where(abs(np.subtract.outer(np.arange(3), np.arange(3))) < 2, 0, -1e9)  # keys 2 places away
COLUMNS = np.random.default_rng(4).uniform(-1, 1, (6, 5)).astype(np.float32)
# Three rows of 16 numbers of 4 bits, with a scale and an offset each: words, and what they mean.
DIGITS, FACTORS = np.arange(48).reshape(3, 16) * 7 % 16, np.array([[0.25], [-0.125], [0.5]], np.float32)
NUMBERS = DIGITS.astype(np.float32) * FACTORS + FACTORS
WORDS = (DIGITS.reshape(3, 2, 8) << 4 * np.arange(8)).sum(-1).astype(np.uint32).view(np.int32)
WEIGHTS = np.array([1, 2, 0.5, 3, 1, 0.25], np.float32)
SCALE, OFFSET = np.array([2, 3], np.float32), np.array([0.5, -1], np.float32)
KERNEL = np.array([[[1, -2], [3, 0.5]], [[-1, 2], [0.25, 1]]], np.float32)
# name: what the op computes of x [n, 3, 2], y of the same shape above 0 and i [n]; and the same in NumPy
CASES = {
    "neg": (lambda x, y, i: ops.neg(x), lambda x, y, i: -x),
    "abs": (lambda x, y, i: ops.abs(x), lambda x, y, i: abs(x)),
    "square": (lambda x, y, i: ops.square(x), lambda x, y, i: x * x),
    "sqrt": (lambda x, y, i: ops.sqrt(y), lambda x, y, i: np.sqrt(y)),
    "rsqrt": (lambda x, y, i: ops.rsqrt(y), lambda x, y, i: 1 / np.sqrt(y)),
    "exp": (lambda x, y, i: ops.exp(x), lambda x, y, i: np.exp(x)),
    "log": (lambda x, y, i: ops.log(y), lambda x, y, i: np.log(y)),
    "relu": (lambda x, y, i: ops.relu(x), lambda x, y, i: np.maximum(x, 0)),
    "sigmoid": (lambda x, y, i: ops.sigmoid(x), lambda x, y, i: 1 / (1 + np.exp(-x))),
    "tanh": (lambda x, y, i: ops.tanh(x), lambda x, y, i: np.tanh(x)),
    "softplus": (lambda x, y, i: ops.softplus(x), lambda x, y, i: np.log1p(np.exp(x))),
    "silu": (lambda x, y, i: ops.silu(x), lambda x, y, i: x / (1 + np.exp(-x))),
    "gelu": (lambda x, y, i: ops.gelu(x), lambda x, y, i: x * (1 + erf(x / math.sqrt(2))) / 2),
    "erf": (lambda x, y, i: ops.erf(x), lambda x, y, i: erf(x)),
    "sin": (lambda x, y, i: ops.sin(x), lambda x, y, i: np.sin(x)),
    "cos": (lambda x, y, i: ops.cos(x), lambda x, y, i: np.cos(x)),
    "tan": (lambda x, y, i: ops.tan(x / 2), lambda x, y, i: np.tan(x / 2)),
    "asin": (lambda x, y, i: ops.asin(x / 2), lambda x, y, i: np.arcsin(x / 2)),
    "acos": (lambda x, y, i: ops.acos(x / 2), lambda x, y, i: np.arccos(x / 2)),
    "atan": (lambda x, y, i: ops.atan(x), lambda x, y, i: np.arctan(x)),
    "sinh": (lambda x, y, i: ops.sinh(x), lambda x, y, i: np.sinh(x)),
    "cosh": (lambda x, y, i: ops.cosh(x), lambda x, y, i: np.cosh(x)),
    "asinh": (lambda x, y, i: ops.asinh(x), lambda x, y, i: np.arcsinh(x)),
    "acosh": (lambda x, y, i: ops.acosh(y + 1), lambda x, y, i: np.arccosh(y + 1)),
    "atanh": (lambda x, y, i: ops.atanh(x * 0.45), lambda x, y, i: np.arctanh(x * np.float32(0.45))),
    "gelu_tanh": (lambda x, y, i: ops.gelu_tanh(x),
                  lambda x, y, i: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))) / 2),
    "mish": (lambda x, y, i: ops.mish(x), lambda x, y, i: x * np.tanh(np.log1p(np.exp(x)))),
    "hard_sigmoid": (lambda x, y, i: ops.hard_sigmoid(2 * x), lambda x, y, i: np.clip(2 * x + 3, 0, 6) / 6),
    "hard_swish": (lambda x, y, i: ops.hard_swish(2 * x), lambda x, y, i: 2 * x * np.clip(2 * x + 3, 0, 6) / 6),
    "selu": (lambda x, y, i: ops.selu(x),
             lambda x, y, i: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543773 * np.expm1(x))),
    "softmax": (lambda x, y, i: ops.softmax(x), lambda x, y, i: softmax(x)),
    "log_softmax": (lambda x, y, i: ops.log_softmax(x), lambda x, y, i: np.log(softmax(x))),
    "softmax_groups": (lambda x, y, i: ops.softmax_groups(ops.reshape(x, (-1, 6)), 3, 0.5),
                       lambda x, y, i: softmax(x / 2).reshape(-1, 6)),
    "add": (lambda x, y, i: ops.add(x, y), lambda x, y, i: x + y),
    "sub": (lambda x, y, i: ops.sub(1, y), lambda x, y, i: 1 - y),
    "mul": (lambda x, y, i: ops.mul(x, y), lambda x, y, i: x * y),
    "div": (lambda x, y, i: ops.div(x, y), lambda x, y, i: x / y),
    "maximum": (lambda x, y, i: ops.maximum(x, 0.3), lambda x, y, i: np.maximum(x, 0.3)),
    "minimum": (lambda x, y, i: ops.minimum(x, y), lambda x, y, i: np.minimum(x, y)),
    "equal": (lambda x, y, i: ops.equal(i, 2), lambda x, y, i: i == 2),
    "greater_equal": (lambda x, y, i: ops.greater_equal(x, 0), lambda x, y, i: x >= 0),
    "less": (lambda x, y, i: ops.less(x, y), lambda x, y, i: x < y),
    "not_equal": (lambda x, y, i: ops.not_equal(i, 2), lambda x, y, i: i != 2),
    "greater": (lambda x, y, i: ops.greater(x, y), lambda x, y, i: x > y),
    "less_equal": (lambda x, y, i: ops.less_equal(i, 1), lambda x, y, i: i <= 1),
    "logical_and": (lambda x, y, i: ops.logical_and(i, 1), lambda x, y, i: i != 0),
    "logical_or": (lambda x, y, i: ops.logical_or(ops.relu(x), 0.0), lambda x, y, i: x > 0),
    "logical_xor": (lambda x, y, i: ops.logical_xor(ops.relu(x), y), lambda x, y, i: x <= 0),
    "logical_not": (lambda x, y, i: ops.logical_not(i), lambda x, y, i: i == 0),
    "prelu": (lambda x, y, i: ops.prelu(x, ops.constant(SCALE)), lambda x, y, i: np.where(x > 0, x, SCALE * x)),
    "leaky_relu": (lambda x, y, i: ops.leaky_relu(x, 0.2), lambda x, y, i: np.where(x > 0, x, 0.2 * x)),
    "elu": (lambda x, y, i: ops.elu(x, 0.5), lambda x, y, i: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "pow": (lambda x, y, i: ops.pow(y, 2.5), lambda x, y, i: y ** 2.5),
    "clip": (lambda x, y, i: ops.clip(x, -0.5, 1), lambda x, y, i: np.clip(x, -0.5, 1)),
    "multiply_by": (lambda x, y, i: ops.multiply_by(x, 3), lambda x, y, i: 3 * x),
    "sum": (lambda x, y, i: ops.sum(x, -1, keep_dims=True), lambda x, y, i: x.sum(-1, keepdims=True)),
    "mean": (lambda x, y, i: ops.mean(x, (1, 2)), lambda x, y, i: x.mean((1, 2))),
    "max": (lambda x, y, i: ops.max(x, [-2]), lambda x, y, i: x.max(-2)),
    "argmax": (lambda x, y, i: ops.argmax(x), lambda x, y, i: x.argmax(-1)),
    "cumsum": (lambda x, y, i: ops.cumsum(x, 1) + 2 * ops.cumsum(y, exclusive=True, reverse=True),
               lambda x, y, i: x.cumsum(1) + 2 * (y[..., ::-1].cumsum(-1)[..., ::-1] - y)),
    "top_k": (lambda x, y, i: ops.add(*(ops.cast(t, "float32") for t in ops.top_k(ops.reshape(x, (-1, 6)), 4))),
              lambda x, y, i: -np.sort(-x.reshape(-1, 6))[:, :4] + np.argsort(-x.reshape(-1, 6))[:, :4]),
    "matmul": (lambda x, y, i: ops.matmul(x, y, transpose_b=True), lambda x, y, i: x @ y.transpose(0, 2, 1)),
    "dense": (lambda x, y, i: ops.dense(x, ops.constant(np.eye(2)), ops.constant(OFFSET), "relu"),
              lambda x, y, i: np.maximum(x + OFFSET, 0)),
    "conv": (lambda x, y, i: ops.conv(x, ops.constant(KERNEL), ops.constant(OFFSET), padding=[(1, 0)], activation="relu"),
             lambda x, y, i: np.maximum(np.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :3] @ KERNEL[0] + x @ KERNEL[1] + OFFSET, 0)),
    "conv_transposed": (lambda x, y, i: ops.conv_transposed(x, ops.constant(KERNEL), stride=2, extra=(1,)),
                        lambda x, y, i: np.pad(np.stack([x @ KERNEL[0], x @ KERNEL[1]], 2).reshape(len(x), 6, 2),
                                               ((0, 0), (0, 1), (0, 0)))),
    "max_pool": (lambda x, y, i: ops.max_pool(x, (2,), stride=1), lambda x, y, i: np.maximum(x[:, :2], x[:, 1:])),
    "average_pool": (lambda x, y, i: ops.average_pool(x, (2,), padding=[(1, 0)], counts_padding=True),
                     lambda x, y, i: np.stack([x[:, 0] / 2, (x[:, 1] + x[:, 2]) / 2], 1)),
    "resize": (lambda x, y, i: ops.resize(x, 5) + ops.resize(y, (5, 1), "nearest"),
               lambda x, y, i: np.stack([np.interp((np.arange(5) + 0.5) * 0.6 - 0.5, np.arange(3), c) for c in x.transpose(
                   0, 2, 1).reshape(-1, 3)]).reshape(len(x), 2, 5).transpose(0, 2, 1) + y[:, np.arange(5) * 3 // 5]),
    "pixel_shuffle": (lambda x, y, i: ops.pixel_shuffle(ops.reshape(ops.concat([x, y], -1), (-1, 3, 1, 4)), 2),
                      lambda x, y, i: np.concatenate([x, y], -1).reshape(-1, 3, 1, 1, 2, 2).transpose(
                          0, 1, 4, 2, 5, 3).reshape(-1, 6, 2, 1)),
    "pixel_unshuffle": (lambda x, y, i: ops.pixel_unshuffle(ops.reshape(ops.concat([x, y], 1), (-1, 6, 2, 1)), 2),
                        lambda x, y, i: np.concatenate([x, y], 1).reshape(-1, 3, 2, 1, 2, 1).transpose(
                            0, 1, 3, 5, 2, 4).reshape(-1, 3, 1, 4)),
    "layer_norm": (lambda x, y, i: ops.layer_norm(x, ops.constant(SCALE), ops.constant(OFFSET)),
                   lambda x, y, i: norm(x, 1) * SCALE + OFFSET),
    "group_norm": (lambda x, y, i: ops.group_norm(x, 1, ops.constant(SCALE), ops.constant(OFFSET)),
                   lambda x, y, i: (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5) * SCALE
                   + OFFSET),
    "instance_norm": (lambda x, y, i: ops.instance_norm(x, ops.constant(SCALE), ops.constant(OFFSET)),
                      lambda x, y, i: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * SCALE
                      + OFFSET),
    "rms_norm": (lambda x, y, i: ops.rms_norm(x, ops.constant(SCALE)), lambda x, y, i: norm(x, 0) * SCALE),
    "dropout": (lambda x, y, i: ops.dropout(x, 0.5, False), lambda x, y, i: x),
    "reshape": (lambda x, y, i: ops.reshape(x, (-1, 6)), lambda x, y, i: x.reshape(-1, 6)),
    "transpose": (lambda x, y, i: ops.transpose(x, (0, 2, 1)), lambda x, y, i: x.transpose(0, 2, 1)),
    "slice": (lambda x, y, i: ops.slice(x, (0, 1, 0), (x.shape[0], 2, 1)), lambda x, y, i: x[:, 1:3, :1]),
    "concat": (lambda x, y, i: ops.concat([x, y], -1), lambda x, y, i: np.concatenate([x, y], -1)),
    "split": (lambda x, y, i: ops.sub(*ops.split(x, 2, -1)), lambda x, y, i: x[..., :1] - x[..., 1:]),
    "stack": (lambda x, y, i: ops.stack([x, y], -1), lambda x, y, i: np.stack([x, y], -1)),
    "pad": (lambda x, y, i: ops.pad(x, (0, 1, 0), (0, 0, 2), 7),
            lambda x, y, i: np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=7)),
    "where": (lambda x, y, i: ops.where(ops.less(x, 0), 5, y), lambda x, y, i: np.where(x < 0, 5, y)),
    "broadcast_to": (lambda x, y, i: ops.broadcast_to(ops.mean(x, 1, True), x.shape),
                     lambda x, y, i: np.broadcast_to(x.mean(1, keepdims=True), x.shape)),
    "gather": (lambda x, y, i: ops.gather(ops.constant(X[0]), i), lambda x, y, i: X[0][i]),
    "matmul_blocks": (lambda x, y, i: ops.matmul_blocks(ops.matmul_blocks(x, *blocks(2), transpose=False), *blocks(2)),
                      lambda x, y, i: x @ NUMBERS[:2] @ NUMBERS[:2].T),
    "gather_blocks": (lambda x, y, i: ops.gather_blocks(*blocks(3)[:2], i, blocks(3)[2]), lambda x, y, i: NUMBERS[i]),
    "attention": (lambda x, y, i: ops.reshape(ops.attention(*(ops.reshape(t, (-1, 3, 1, 2)) for t in (x, y, x)), causal=True,
                                                            scale=0.5, lengths=i, mask=ops.constant(ADDED)), (-1, 3, 2)),
                  lambda x, y, i: attended(0.5 * x @ y.transpose(0, 2, 1) + np.triu(np.full((3, 3), -np.inf), 1) + ADDED, i) @ x),
    "self_attention": (lambda x, y, i: ops.self_attention(ops.concat([x, y], -1), 2, 1, window=2),
                       lambda x, y, i: np.concatenate([softmax(x[..., h:h + 1] * y[:, None, :, 0] + FAR) @ y[..., 1:]
                                                       for h in (0, 1)], -1)),
    "glu": (lambda x, y, i: ops.glu(x, y, "silu") + ops.glu(ops.concat([x, y], -1)),
            lambda x, y, i: (x + 1) * y / (1 + np.exp(-x))),
    "rotary": (lambda x, y, i: ops.reshape(ops.rotary(ops.reshape(x, (-1, 3, 1, 2)), 100, 5), (-1, 3, 2)),
               lambda x, y, i: turned(x, np.arange(5, 8))),
    "rotary_by": (lambda x, y, i: ops.reshape(ops.rotary_by(ops.reshape(x, (-1, 3, 1, 2)), ops.constant(np.stack(
        [np.cos([1, 2, 3]), np.sin([1, 2, 3])], -1).astype("f4")), interleaved=True), (-1, 3, 2)),
        lambda x, y, i: turned(x, np.arange(1, 4))),
    "gru": (lambda x, y, i: with_last(*ops.gru(x, ops.constant(GATES[:2, :6]), ops.constant(GATES[2:4, :6]), ops.constant(GATES[4, :6]),
                                               ops.constant(GATES[5, :6]), first_of(y), i)),
            lambda x, y, i: recurrent(gru_step, x, GATES[:, :6], y[:, 0], i)),
    "lstm": (lambda x, y, i: with_last(*ops.lstm(x, ops.constant(GATES[:2]), ops.constant(GATES[2:4]), ops.constant(GATES[4]),
                                                 ops.constant(GATES[5]), first_of(y), first_of(x), i)),
             lambda x, y, i: recurrent(lstm_step, x, GATES, y[:, 0], i, x[:, 0])),
    "rnn": (lambda x, y, i: with_last(*ops.rnn(x, ops.constant(GATES[:2, :2]), ops.constant(GATES[2:4, :2]), hidden=first_of(y))),
            lambda x, y, i: recurrent(lambda a, b, h, c: (np.tanh(a + b), c), x, GATES[:, :2] * PLAIN, y[:, 0], i * 0 + 3)),
    "one_hot": (lambda x, y, i: ops.one_hot(i, 3), lambda x, y, i: np.eye(3)[i]),
    "cast": (lambda x, y, i: ops.add(ops.cast(x, "float16"), ops.cast(ops.cast(x, "int32"), "float32")),
             lambda x, y, i: x.astype(np.float16).astype(np.float32) + np.trunc(x)),
    "constant": (lambda x, y, i: ops.equal(i, ops.constant([2])) + ops.constant([0.5]), lambda x, y, i: (i == 2) + 0.5),
    "fill": (lambda x, y, i: x + ops.fill((2,), 0.5), lambda x, y, i: x + 0.5),
    "sparse_cross_entropy": (
        lambda x, y, i: ops.fill((x.shape[0], 1), 1) * ops.sparse_cross_entropy(ops.reshape(x, (-1, 6)), i, "sum"),
        lambda x, y, i: np.full((4, 1), -np.log(softmax(x.reshape(4, 6)))[range(4), i].sum())),
    "cross_entropy": (
        lambda x, y, i: ops.reshape(ops.cross_entropy(ops.reshape(x, (-1, 6)), i, "none", 0.3, ops.constant(WEIGHTS), 1), (-1, 1)),
        lambda x, y, i: smoothed(x.reshape(4, 6), i, 0.3, WEIGHTS, 1)[:, None]),
    "dense_cross_entropy": (
        lambda x, y, i: ops.reshape(ops.dense_cross_entropy(ops.reshape(x, (-1, 6)), ops.constant(COLUMNS), i,
                                                            ops.constant(COLUMNS[0]), "none", 2), (-1, 1)),
        lambda x, y, i: smoothed(x.reshape(4, 6) @ COLUMNS + COLUMNS[0], i, 0.0, np.ones(5), 2)[:, None]),
    "binary_cross_entropy": (lambda x, y, i: ops.binary_cross_entropy(x, ops.sigmoid(y), ops.constant(SCALE), "none"),
                             lambda x, y, i: binary_loss(x, 1 / (1 + np.exp(-y)), SCALE)),
    "huber_loss": (lambda x, y, i: ops.huber_loss(x, y, 0.5, "none"),
                   lambda x, y, i: np.where(np.abs(x - y) <= 0.5, (x - y) ** 2 / 2, (np.abs(x - y) - 0.25) / 2)),
    "smooth_l1_loss": (lambda x, y, i: ops.smooth_l1_loss(x, y, 0.0, "none"), lambda x, y, i: np.abs(x - y)),
    "kl_divergence": (lambda x, y, i: ops.kl_divergence(ops.log_softmax(x), ops.softmax(y), "none"),
                      lambda x, y, i: (softmax(y) * np.log(softmax(y) / softmax(x))).sum(-1)),
    "cosine_similarity": (lambda x, y, i: ops.cosine_similarity(x, y), lambda x, y, i: cosine(x, y)),
    "cosine_embedding_loss": (
        lambda x, y, i: ops.cosine_embedding_loss(ops.reshape(x, (-1, 6)), ops.reshape(y, (-1, 6)),
                                                  ops.cast(1 - 2 * ops.equal(i, 1), "int32"), 0.1, "none"),
        lambda x, y, i: np.where(i == 1, np.maximum(0, cosine(x.reshape(4, 6), y.reshape(4, 6)) - 0.1),
                                 1 - cosine(x.reshape(4, 6), y.reshape(4, 6)))),
    "mean_squared_error": (lambda x, y, i: x * 0 + ops.mean_squared_error(x, y),
                           lambda x, y, i: x * 0 + ((x - y) ** 2).mean()),
    "gradients": (lambda x, y, i: ops.gradients(ops.sum(ops.square(x)), [x])[0], lambda x, y, i: 2 * x),
}
# Ops that need a trainer: the tests of the classes that are named have them.
ELSEWHERE = {"all_reduce": "Synchronized", "sync_moments": "Synchronized", "sync_batch_norm": "Synchronized",
             "report": "Training", "update": "Synchronized", "set_precision": "Precision",
             "recompute_begin": "Recomputation", "recompute_end": "Recomputation", "all_gather": "Gathered"}


def declared():
    """Functions of the headers that add to a graph, and those that make layers."""
    found = {"ops": set(), "nn": set()}
    for name in dir(lib):
        if name.startswith("copse_nn_"):
            found["nn"].add(name)
        elif name.startswith("copse_"):
            try:
                kind = ffi.typeof(getattr(lib, name))
            except ffi.error:  # declared by the headers of conformance
                kind = ffi.typeof(getattr(conformance_lib(), name))
            if kind.kind == "function" and kind.args and kind.args[0].cname == "struct copse_graph *":
                found["ops"].add(name)
    return found


class Precision(unittest.TestCase):
    def test_products_read_16_bits(self):
        strategy = copse.Strategy("host:0")
        strategy.variable("unused", (1,))
        trainer = copse.Trainer(strategy, lambda inputs: ops.mean(inputs["x"]))
        a, b = np.full((3, 2), 1 + 2 ** -11, np.float32), np.eye(2, dtype=np.float32)
        for dtype, wanted in ("float16", 1), ("bfloat16", 1), ("float32", 1 + 2 ** -11):
            def product(inputs):
                ops.set_precision(dtype)
                return ops.matmul(inputs["x"], ops.constant(b))
            with self.subTest(dtype):
                np.testing.assert_array_equal(trainer.predict(product, {"x": a}), np.full((3, 2), wanted, np.float32))


class Recomputation(unittest.TestCase):
    def trained(self, marks, budget=0):
        strategy = copse.Strategy("host:0")
        weights = [strategy.variable(f"w{i}", (16, 16), init="normal", scale=0.25, seed=i) for i in range(6)]

        def loss(inputs):
            x = inputs["x"]
            for w in weights:
                if marks:
                    ops.recompute_begin()
                x = x + ops.tanh(ops.matmul(ops.gelu(x), w))
                if marks:
                    ops.recompute_end()
            return ops.mean(ops.square(x))

        trainer = copse.Trainer(strategy, loss, optimizer="sgd", learning_rate=0.1, memory_budget=budget)
        for _ in range(2):
            trainer.step({"x": np.linspace(-1, 1, 512 * 16, dtype=np.float32).reshape(512, 16)})
        return [w.numpy() for w in weights]

    def test_bits_are_the_same(self):
        plain = self.trained(False)
        for other in self.trained(True), self.trained(False, 400_000):
            for a, b in zip(plain, other):
                np.testing.assert_array_equal(a, b)

    def test_a_budget_that_is_too_small_is_refused(self):
        with self.assertRaisesRegex(copse.Error, "memory budget leaves"):
            self.trained(False, 1000)


class Complete(unittest.TestCase):
    def test_every_op_is_in_the_package_or_named_on_its_page(self):
        found = declared()
        self.assertLess({"copse_add", "copse_gather", "copse_matmul", "copse_all_reduce"}, found["ops"])
        self.assertGreater(len(found["ops"]), 60)
        self.assertLess({"copse_nn_dense", "copse_nn_parse"}, found["nn"])
        page = (PACKAGE / "README.md").read_text().split("## C functions without a Python name")[1]
        exceptions = set(re.findall(r"`(copse_\w+)`", page))
        lacks = {f for f in found["ops"] if not hasattr(ops, f[len("copse_"):])}
        lacks |= {f for f in found["nn"] if not hasattr(nn, f[len("copse_nn_"):])}
        self.assertEqual(lacks, exceptions & (found["ops"] | found["nn"]))

    def test_every_op_is_tested(self):
        names = {f[len("copse_"):] for f in declared()["ops"]}
        self.assertEqual({n for n in names if hasattr(ops, n)}, set(CASES) | set(ELSEWHERE))


class Ops(unittest.TestCase):
    def test_equal_numpy(self):
        strategy = copse.Strategy("host:0,host:0")
        strategy.variable("unused", (1,))
        trainer = copse.Trainer(strategy, lambda inputs: ops.mean(inputs["x"]))
        for name, (op, expected) in CASES.items():
            if name in ("sparse_cross_entropy", "mean_squared_error"):
                continue  # of a whole batch
            with self.subTest(name):
                y = trainer.predict(lambda inputs: op(inputs["x"], inputs["y"], inputs["i"]), {"x": X, "y": Y, "i": I})
                wanted = np.asarray(expected(X, Y, I))
                self.assertEqual(y.shape, wanted.shape)
                np.testing.assert_allclose(y, wanted, rtol=2e-6, atol=2e-6)

    def test_losses_equal_numpy(self):
        strategy = copse.Strategy("host")
        strategy.variable("unused", (1,))
        trainer = copse.Trainer(strategy, lambda inputs: ops.mean(inputs["x"]))
        for name in "sparse_cross_entropy", "mean_squared_error":
            op, expected = CASES[name]
            y = trainer.predict(lambda inputs: op(inputs["x"], inputs["y"], inputs["i"]), {"x": X, "y": Y, "i": I})
            np.testing.assert_allclose(y, expected(X, Y, I), rtol=2e-6)

    def test_wrong_arguments(self):
        wrong = {
            r"3 axes, not an axis -4": lambda x: ops.sum(x, -4),
            r"2 sizes for a tensor of 3": lambda x: ops.pad(x, (0, 0), (0, 0)),
            r"one of the two values": lambda x: ops.where(x, 1, 2),
            r"operand is str": lambda x: ops.add(x, "1"),
            r"split": lambda x: ops.split(x, [1, 1], 1)[0],
            r"stack": lambda x: ops.stack([]),
            r"concat": lambda x: ops.concat([]),
            r"'mode'.*mean, sum": lambda x: ops.all_reduce(x, "mode"),
        }
        strategy = copse.Strategy("host")
        strategy.variable("unused", (1,))
        trainer = copse.Trainer(strategy, lambda inputs: ops.mean(inputs["x"]))
        for pattern, op in wrong.items():
            with self.subTest(pattern), self.assertRaisesRegex((copse.errors.ArgumentError, copse.errors.ShapeError), pattern):
                trainer.predict(lambda inputs: op(inputs["x"]), {"x": X})


class Synchronized(unittest.TestCase):
    """Ops over replicas with unequal shards: two of three examples and one."""

    def trainer(self, loss):
        strategy = copse.Strategy("host:0,host:0")
        strategy.variable("unused", (1,))
        total = strategy.variable("total", (2,), trainable=False, aggregation="mean")
        return total, copse.Trainer(strategy, lambda inputs: loss(inputs["x"], total), learning_rate=0.1)

    def test_all_reduce_and_update(self):
        def loss(x, total):
            ops.report("mean", ops.mean(ops.all_reduce(ops.sum(x, 0), "mean")))
            ops.update(total, ops.all_reduce(ops.sum(x, 0)))
            return ops.mean(x) + ops.sum(total) * 0 + ops.sum(strategy.variables()[0]) * 0

        total, trainer = self.trainer(loss)
        strategy = trainer.strategy
        x = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        result = trainer.step({"x": x})
        np.testing.assert_allclose(total.numpy(), [9, 12])
        self.assertAlmostEqual(result.reports["mean"], 21 / 4, places=5)

    def test_moments_of_the_global_batch(self):
        x = np.array([[1, 2], [3, 4], [5, 9]], np.float32)

        def loss(inputs, _total):
            mean, variance = ops.sync_moments(inputs)
            ops.report("mean", ops.sum(mean))
            ops.report("variance", ops.sum(variance))
            y = ops.sync_batch_norm(inputs, gamma=ops.constant([2.0, 1.0]), beta=ops.constant([1.0, 0.0]), epsilon=1e-6)
            return ops.mean(ops.square(y))

        reports = self.trainer(loss)[1].evaluate({"x": x})
        self.assertAlmostEqual(reports.reports["mean"], x.mean(0).sum(), places=5)
        self.assertAlmostEqual(reports.reports["variance"], x.var(0).sum(), places=4)
        y = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-6) * [2, 1] + [1, 0]
        self.assertAlmostEqual(reports.loss, (y ** 2).mean(), places=4)


class Gathered(unittest.TestCase):
    def test_all_gather(self):
        """Each replica compares its rows with the rows of all."""
        x = np.arange(8, dtype=np.float32).reshape(4, 2)
        for device in "host:0", "host:0,host:0":
            strategy = copse.Strategy(device)
            strategy.variable("w")
            trainer = copse.Trainer(strategy, lambda inputs: ops.sum(ops.all_gather(inputs["x"], inputs.replica)))
            self.assertEqual(trainer.evaluate({"x": x}).loss, 28.0)
        with self.assertRaises(copse.errors.ArgumentError):
            copse.Trainer(strategy, lambda inputs: ops.sum(ops.all_gather(inputs["x"], 2))).evaluate({"x": x})


if __name__ == "__main__":
    unittest.main()
