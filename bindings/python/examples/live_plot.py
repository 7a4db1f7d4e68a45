# SPDX-License-Identifier: MIT
"""A loss curve that grows while the model trains. Run it as a script, or cell by cell: editors show `# %%` as cells."""
# %% Data and model
import matplotlib.pyplot as plt
import numpy as np

import copse
from copse import ops

rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, (2000, 1)).astype(np.float32)
y = (np.sin(2 * x) + 0.1 * rng.normal(size=x.shape)).astype(np.float32)
strategy = copse.Strategy("auto")
w1, b1 = strategy.variable("w1", (1, 64), init="normal"), strategy.variable("b1", (64,))
w2, b2 = strategy.variable("w2", (64, 1), init="glorot_uniform"), strategy.variable("b2", (1,))


def loss(inputs):
    return ops.mean_squared_error(ops.dense(ops.dense(inputs["x"], w1, b1, "tanh"), w2, b2), inputs["y"])


trainer = copse.Trainer(strategy, loss, learning_rate=0.01)

# %% Train and draw
figure, axes = plt.subplots()
curve = axes.semilogy([], [])[0]
losses: list[float] = []
axes.set(xlabel="epoch", ylabel="loss")


def draw(epoch, means):
    losses.append(means["loss"])
    curve.set_data(range(1, len(losses) + 1), losses)
    axes.relim()
    axes.autoscale_view()
    figure.canvas.draw_idle()
    plt.pause(0.01)


trainer.fit(copse.Dataset({"x": x, "y": y}).batches(100, seed=1), 50, draw)
figure.savefig("loss.png")
