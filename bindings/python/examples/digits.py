# SPDX-License-Identifier: MIT
"""Trains on the handwritten digits with a loss function in Python, on every device found."""
import copse
from copse import ops

train, test = copse.Dataset.open(copse.DIGITS).split(seed=1)
strategy = copse.Strategy("auto")
w1 = strategy.variable("w1", (64, 64), init="he_normal")
b1 = strategy.variable("b1", (64,))
w2 = strategy.variable("w2", (64, 10), init="glorot_uniform")
b2 = strategy.variable("b2", (10,))


def loss(inputs):
    logits = ops.dense(ops.dense(inputs["x"], w1, b1, "relu"), w2, b2)
    ops.report("accuracy", ops.mean(ops.equal(ops.argmax(logits), inputs["y"])))
    return ops.sparse_cross_entropy(logits, inputs["y"])


trainer = copse.Trainer(strategy, loss, learning_rate=0.003)
trainer.fit(train.batches(64, seed=1), epochs=30, verbose=2)
print("held out:", trainer.evaluate({"x": test.column("x"), "y": test.column("y")}).reports)
trainer.save("digits.safetensors")
