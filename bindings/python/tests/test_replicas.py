# SPDX-License-Identifier: MIT
"""Functions on replicas: run, map, merge calls, values with arithmetic."""
import unittest

import numpy as np

import copse
from copse import ops


def strategies():
    """One, two and five replicas on the host, and one on each device found."""
    found = [d.id for d in copse.devices() if d.is_usable][:3]
    for ids in (["host:0"], ["host:0"] * 2, ["host:0"] * 5, found):
        yield copse.Strategy(ids)


def shards(strategy, numbers):
    """One number for each replica at a time; 0 where there is none left."""
    n = strategy.replicas
    for first in range(0, len(numbers), n):
        part = list(numbers[first:first + n])
        yield strategy.per_replica([np.float32(x) for x in part + [0] * (n - len(part))])


@copse.function
def loss_and_gradient(batch, w):
    y = ops.gather(w, batch["id"]) * (ops.cast(batch["pixel"], "float32") * (1 / 255)) + batch["x"]
    loss = ops.mean(y * y)
    return {"loss": loss, "dw": ops.gradients(loss, [w])[0]}


@copse.function
def step(x, w, rate):
    loss = ops.mean(ops.square(x @ w))
    dw = ops.all_reduce(ops.gradients(loss, [w])[0], "mean")
    ops.update(w, w - rate * dw)
    return loss


class Replicas(unittest.TestCase):
    def on_each(self):
        for strategy in strategies():
            with self.subTest(strategy):
                yield strategy
            strategy.close()

    def test_the_doubles_of_a_dataset_add_up(self):
        for strategy in self.on_each():
            result = 0
            for x in shards(strategy, range(10)):
                result += strategy.run(lambda x: x * 2, (x,))
            self.assertEqual(float(strategy.reduce("sum", result)), 90)

    def test_functions_take_structures_and_differentiate(self):
        for strategy in self.on_each():
            w = strategy.variable("w", values=[2.0, 4.0])
            x = np.arange(1, strategy.replicas + 1, dtype=np.float32)
            batch = {"id": np.array([0, 1, 1], np.int32), "pixel": np.array([255, 51, 102], np.uint8),
                     "x": strategy.per_replica(list(x))}
            for results in (strategy.map(loss_and_gradient, batch, w), strategy.run(loss_and_gradient, (batch, w))):
                losses, gradients = map(strategy.local_results, (results["loss"], results["dw"]))
                self.assertEqual(len(losses), strategy.replicas)
                for r, (loss, dw) in enumerate(zip(losses, gradients)):
                    y = np.array([2.0, 0.8, 1.6]) + x[r]
                    np.testing.assert_allclose(float(loss), np.mean(y * y), rtol=1e-6)
                    np.testing.assert_allclose(dw, [2 / 3 * y[0], 2 / 3 * (0.2 * y[1] + 0.4 * y[2])], rtol=1e-6)

    def test_replicas_meet_in_merge_calls(self):
        def replica(x):
            context = copse.replica_context()
            doubled = context.merge_call(lambda st, v: st.reduce("sum", v) * 2, (x,))
            return doubled + context.all_reduce("mean", x) * 0

        for strategy in self.on_each():
            x = strategy.per_replica([np.float32(r + 1) for r in range(strategy.replicas)])
            for component in strategy.local_results(strategy.run(replica, (x,))):
                self.assertEqual(float(component), strategy.replicas * (strategy.replicas + 1))
            self.assertIsNone(copse.replica_context())

    def test_functions_update_variables(self):
        x = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
        for strategy in self.on_each():
            w = strategy.variable("w", values=[[1.0], [2.0], [3.0]], aggregation="only_first_replica")
            expected = w.numpy()
            for _ in range(3):
                strategy.map(step, x, w, np.float32(0.1))
                expected = expected - np.float32(0.1) * (2 / 4 * x.T @ (x @ expected))
            np.testing.assert_allclose(w.numpy(), expected, rtol=1e-5)
            np.testing.assert_array_equal(w.numpy(strategy.replicas - 1), w.numpy())

    def test_an_exception_in_a_replica_reaches_the_caller(self):
        def fails(x):
            raise KeyError("here")

        for strategy in self.on_each():
            with self.assertRaisesRegex(KeyError, "here"):
                strategy.run(fails, (1.0,))
            with self.assertRaises(copse.errors.ContextError):
                copse.current_strategy()
            self.assertEqual(float(strategy.local_results(strategy.run(lambda x: x * 3, (2.0,)))[0]), 6)

    def test_wrong_use_is_refused(self):
        strategy = copse.Strategy(["host:0", "host:0"])
        with self.assertRaisesRegex(copse.errors.ArgumentError, "copse.function"):
            strategy.map(lambda x: x, 1.0)
        x = strategy.per_replica([1.0, 2.0])
        with self.assertRaisesRegex(copse.errors.ArgumentError, "components"):
            x.numpy()
        with self.assertRaises(copse.errors.ContextError):
            loss_and_gradient({"x": 1.0}, 2.0)
        with strategy.scope():
            self.assertIs(copse.current_strategy(), strategy)
            with self.assertRaises(copse.errors.ShapeError):
                copse.value([1.0, 2.0]) + copse.value([1.0, 2.0, 3.0])
        strategy.close()


if __name__ == "__main__":
    unittest.main()
