# SPDX-License-Identifier: MIT
"""What the tests of the package share."""
import os
import tempfile
import unittest
from pathlib import Path

import numpy as np

import copse
from copse import ops

DEVICES = (os.environ.get("COPSE_TEST_DEVICES", "").split()
           or [d.id for d in copse.devices() if d.is_usable and d.same_as is None])
# Of tests whose kernels take drivers long to compile, and which tests in C run on all devices.
SOME_DEVICES = DEVICES if os.environ.get("COPSE_TEST_ALL") else [d for d in DEVICES if d.startswith("host")] or DEVICES[:1]

PACKAGE = Path(__file__).resolve().parents[1]


def perceptron(strategy, hidden=32, classes=10, features=64):
    """Four variables and a loss over inputs "x" and "y"."""
    w1 = strategy.variable("w1", (features, hidden), init="he_normal", seed=1)
    b1 = strategy.variable("b1", (hidden,))
    w2 = strategy.variable("w2", (hidden, classes), init="glorot_uniform", seed=1)
    b2 = strategy.variable("b2", (classes,))

    def loss(inputs):
        logits = ops.dense(ops.dense(inputs["x"], w1, b1, "relu"), w2, b2)
        ops.report("accuracy", ops.mean(ops.equal(ops.argmax(logits), inputs["y"])))
        return ops.sparse_cross_entropy(logits, inputs["y"])

    return loss


def toy(rows=60, seed=0):
    """Points of three classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows).astype(np.int32)
    x = rng.normal(size=(rows, 4)).astype(np.float32) + y[:, None]
    return x, y


class InFolder(unittest.TestCase):
    """A test with an empty folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
