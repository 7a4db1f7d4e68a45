# SPDX-License-Identifier: MIT
"""Strategies, several workers, and the settings of a trainer."""
import os
import socket
import threading
import unittest
from pathlib import Path

import numpy as np

import copse
from copse import ops
from rig import perceptron, toy


def train(strategy, steps=4, **settings):
    """Losses of some steps on the same batch."""
    x, y = toy()
    settings = {"optimizer": "sgd", "learning_rate": 0.1} | settings
    trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4), **settings)
    return [trainer.step({"x": x, "y": y}).loss for _ in range(steps)]


class Strategies(unittest.TestCase):
    def test_every_kind_trains_the_same(self):
        expected = train(copse.Strategy("host:0,host:0"))
        for kind, settings in {"mirrored": {"reduction": "tree"}, "collective": {}, "parameter_server": {},
                               "accelerator": {"cores": 2}}.items():
            with self.subTest(kind):
                strategy = copse.Strategy("host:0,host:0", kind=kind, **settings)
                self.assertEqual((strategy.kind, strategy.replicas, strategy.replicas_in_sync), (kind, 2, 2))
                np.testing.assert_allclose(train(strategy), expected, rtol=1e-6)
        np.testing.assert_allclose(train(copse.Strategy("host", kind="one_device")), expected, rtol=1e-6)

    def test_runs_of_an_accelerator(self):
        x, y = toy(70)
        data = copse.Dataset({"x": x, "y": y})
        weights, seen = [], []
        for settings in {}, {"kind": "accelerator", "steps_per_run": 3}:
            strategy = copse.Strategy("host:0,host:0", **settings)
            trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4))
            results = []
            trainer.fit(data.batches(16, seed=1), 2,
                        lambda epoch, means: results.append((epoch, trainer.steps, means["loss"])))
            weights.append(strategy.variables()[0].numpy())
            seen.append(results)
        np.testing.assert_array_equal(weights[0], weights[1])
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0][1][:2], (1, 10))
        strategy = copse.Strategy("host", kind="accelerator", steps_per_run=2)
        trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4))
        for _ in range(2):
            trainer.feed({"x": x, "y": y})
        self.assertEqual((strategy.steps_per_run, trainer.fed, trainer.steps), (2, 2, 0))
        with self.assertRaises(copse.errors.ArgumentError):
            trainer.feed({"x": x, "y": y})
        trainer.run()
        self.assertEqual([r.step for r in trainer.results()], [1, 2])

    def test_hashes(self):
        x, y = toy()

        def hashes(seed):
            strategy = copse.Strategy("host:0")
            w = strategy.variable("w", (4, 3), init="he_normal", seed=seed)
            b = strategy.variable("b", (3,))
            trainer = copse.Trainer(
                strategy, lambda i: ops.sparse_cross_entropy(ops.dense(i["x"], w, b), i["y"]), optimizer="sgd",
                learning_rate=0.1)
            found = []
            for _ in range(2):
                trainer.step({"x": x, "y": y})
                found.append(trainer.hashes())
            return found

        first, again, other = hashes(1), hashes(1), hashes(2)
        self.assertEqual(first, again)
        self.assertEqual(set(first[0]), {"", "w", "b"})
        self.assertTrue(all(0 <= h < 2 ** 64 for h in first[0].values()))
        for name in "", "w", "b":
            self.assertNotEqual(first[0][name], first[1][name])
            self.assertNotEqual(first[0][name], other[0][name])

    def test_portable_shards(self):
        devices = {d.id for d in copse.devices() if d.is_usable}
        if "opencl:0" not in devices:
            self.skipTest("portable bits: there is no opencl:0")
        x, y = toy()
        found = []
        for ids in "opencl:0", "opencl:0,opencl:0,opencl:0":
            strategy = copse.Strategy(ids, portable_shards=12)
            self.assertEqual((strategy.kind, strategy.replicas), ("mirrored", 12))
            trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4), optimizer="sgd", learning_rate=0.1)
            for _ in range(3):
                trainer.step({"x": x, "y": y})
            found.append(trainer.hashes())
        self.assertEqual(found[0], found[1])
        with self.assertRaisesRegex(copse.errors.ArgumentError, "5 shards are no multiple of 2 devices"):
            copse.Strategy("opencl:0,opencl:0", portable_shards=5)
        with self.assertRaises(copse.errors.ArgumentError):
            copse.Strategy("opencl:0", portable_shards=65)

    def test_settings_of_another_kind_are_refused(self):
        for settings, what in (({"steps_per_run": 2}, "steps_per_run"), ({"parameter_device": "host:0"}, "parameter device"),
                               ({"kind": "one_device"}, "one device"), ({"kind": "mirored"}, "mirrored")):
            with self.subTest(what), self.assertRaisesRegex(copse.errors.ArgumentError, what):
                copse.Strategy("host:0,host:0", **settings)

    def test_a_closed_strategy_refuses_calls(self):
        strategy = copse.Strategy("host")
        v = strategy.variable("v", (2,))
        strategy.close()
        strategy.close()
        for call in (lambda: strategy.variable("w", (2,)), v.numpy):
            with self.assertRaises(copse.errors.ArgumentError):
                call()


class Settings(unittest.TestCase):
    def test_a_step_ahead_and_accumulation(self):
        x, y = toy(64)
        data = copse.Dataset({"x": x, "y": y})
        weights = []
        for settings, batch in (({}, 32), ({"prefetch": 2}, 32), ({"accumulate": 2}, 16)):
            strategy = copse.Strategy("host")
            trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4), optimizer="sgd", learning_rate=0.1, **settings)
            trainer.fit(data.batches(batch, shuffle=False), 3)
            weights.append(strategy.variables()[0].numpy())
        np.testing.assert_array_equal(weights[0], weights[1])
        np.testing.assert_allclose(weights[0], weights[2], rtol=1e-4, atol=1e-6)

    def test_a_flush_updates_with_what_is_gathered(self):
        x, y = toy(20)
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4), accumulate=3)
        before = strategy.variables()[0].numpy()
        self.assertIsNone(trainer.step({"x": x, "y": y}))
        np.testing.assert_array_equal(strategy.variables()[0].numpy(), before)
        trainer.flush()
        self.assertTrue((strategy.variables()[0].numpy() != before).any())
        self.assertEqual(trainer.results()[0].step, 1)

    def one_weight(self, **settings):
        """A trainer of w in mean(w x), whose gradient is mean(x)."""
        strategy = copse.Strategy("host")
        w = strategy.variable("w", values=np.zeros(2, np.float32))
        trainer = copse.Trainer(strategy, lambda inputs: ops.sum(ops.mean(inputs["x"], 0) * w), **{
            "optimizer": "sgd", "learning_rate": 1.0} | settings)
        return w, trainer

    def test_clipping_averages_and_scaling(self):
        batch = {"x": np.array([[3, 4]], np.float32)}
        for settings, expected in (({}, [-3, -4]), ({"clip_value": 3.5}, [-3, -3.5]), ({"clip_norm": 1}, [-0.6, -0.8]),
                                   ({"clip_global_norm": 2.5}, [-1.5, -2]), ({"loss_scale": 8}, [-3, -4]),
                                   ({"weight_decay": 0.5}, [-3, -4])):
            with self.subTest(settings):
                w, trainer = self.one_weight(**settings)
                trainer.step(batch)
                np.testing.assert_allclose(w.numpy(), expected, rtol=1e-6)
        w, trainer = self.one_weight(average=0.5)
        trainer.step(batch)
        trainer.step(batch)
        np.testing.assert_allclose(trainer.slot(w, "average"), np.array([-3, -4]) * 5 / 3, rtol=1e-6)

    def test_a_sum_instead_of_a_mean(self):
        strategy = copse.Strategy("host:0,host:0")
        w = strategy.variable("w", values=np.zeros(1, np.float32))
        trainer = copse.Trainer(strategy, lambda inputs: ops.sum(inputs["x"] * w), reduction="sum", optimizer="sgd",
                                learning_rate=1.0)
        trainer.step({"x": np.array([[1], [2], [4]], np.float32)})
        np.testing.assert_allclose(w.numpy(), [-7])

    def test_a_transform_of_gradients(self):
        names = []

        def transform(pairs):
            names.append([v.name for _, v in pairs])
            return [ops.clip(g, -3.25, 3.25) * 2 for g, _ in pairs]

        w, trainer = self.one_weight(transform=transform)
        trainer.step({"x": np.array([[3, 4]], np.float32)})
        np.testing.assert_allclose(w.numpy(), [-6, -6.5])
        self.assertEqual(names, [["w"]])
        _, trainer = self.one_weight(transform=lambda pairs: [])
        with self.assertRaisesRegex(copse.errors.ArgumentError, "returned 0 gradients, not 1"):
            trainer.step({"x": np.array([[3, 4]], np.float32)})

    def test_numbers_that_are_not_finite(self):
        w, trainer = self.one_weight(check_numerics=True)
        with self.assertRaises(copse.errors.NonFiniteError):
            trainer.step({"x": np.array([[np.nan, 4]], np.float32)})
        np.testing.assert_array_equal(w.numpy(), [0, 0])

    def test_predictions_of_a_function(self):
        x, y = toy()
        strategy = copse.Strategy("host:0,host:0")
        w = strategy.variable("w", (4, 3), init="normal")
        calls = []

        def scores(inputs):
            calls.append(inputs.is_training)
            return ops.matmul(inputs["x"], w)

        def classes(inputs):
            return ops.argmax(scores(inputs))

        trainer = copse.Trainer(strategy, lambda inputs: ops.sparse_cross_entropy(scores(inputs), inputs["y"]))
        expected = x @ w.numpy()
        np.testing.assert_allclose(trainer.predict(scores, {"x": x}), expected, rtol=1e-5, atol=1e-6)
        found = trainer.predict(classes, {"x": x})
        self.assertEqual(found.dtype, np.int32)
        np.testing.assert_array_equal(found, expected.argmax(1))
        self.assertEqual(calls, [False] * len(calls))
        before = len(calls)
        np.testing.assert_array_equal(trainer.predict(scores, {"x": x}), trainer.predict(scores, {"x": x}))
        self.assertEqual(len(calls), before)  # recorded once
        with self.assertRaisesRegex(copse.errors.ArgumentError, "no 'z'"):
            trainer.predict(lambda inputs: inputs["z"], {"x": x})
        with self.assertRaisesRegex(copse.errors.ShapeError, "first axis"):
            trainer.predict(lambda inputs: ops.mean(inputs["x"]), {"x": x})


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Job(unittest.TestCase):
    """Two tasks of a job are two threads of this process. A call of one waits in the library for the other, so that
    nothing would go on if it kept the GIL."""

    def job(self, roles, function):
        """Run function(cluster) for each task; returns what they returned."""
        folder = Path(os.environ.get("COPSE_MODULES") or Path(os.environ.get("COPSE_LIBRARY", "none")).parent)
        if not (folder / "copse_gloo.so").exists():
            self.skipTest("no transport over TCP: libgloo-dev was not there when the library was built")
        addresses = [f"127.0.0.1:{port}" for port in free_ports(len(roles))]
        cluster = {role: [a for a, r in zip(addresses, roles) if r == role] for role in set(roles)}
        results, errors = [None] * len(roles), []

        def task(i):
            try:
                description = {"cluster": cluster, "task": {"type": roles[i], "index": roles[:i].count(roles[i])}}
                with copse.Cluster(description, deadline_ms=30000, modules=folder) as c:
                    results[i] = function(c)
            except BaseException as e:
                errors.append(e)

        threads = [threading.Thread(target=task, args=(i,)) for i in range(len(roles))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if errors:
            raise errors[0]
        return results


class Workers(Job):
    def test_two_workers_in_step(self):
        expected = train(copse.Strategy("host:0,host:0"))

        def worker(cluster):
            self.assertEqual((cluster.role, cluster.workers, cluster.servers), ("worker", 2, 0))
            self.assertEqual(cluster.is_chief, cluster.rank == 0)
            strategy = copse.Strategy("host", cluster=cluster)
            self.assertEqual((strategy.kind, strategy.replicas, strategy.replicas_in_sync), ("collective", 1, 2))
            return train(strategy)

        for losses in self.job(["worker", "worker"], worker):
            self.assertEqual(losses, expected)

    def test_a_parameter_server(self):
        def task(cluster):
            if cluster.role == "ps":
                return cluster.serve()
            return train(copse.Strategy("host", kind="parameter_server", cluster=cluster), 5)

        losses, served = self.job(["worker", "ps"], task)
        self.assertLess(losses[-1], losses[0])
        self.assertEqual((served.updates, served.variables, served.lost), (5, 4, 0))

    def test_descriptions(self):
        with self.assertRaisesRegex(copse.errors.FormatError, "JSON"):
            copse.Cluster("no JSON")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "task"):
            copse.Cluster({"cluster": {"worker": ["localhost:1"]}})
        saved = {k: os.environ.pop(k) for k in ("COPSE_CONFIG", "TF_CONFIG") if k in os.environ}
        self.addCleanup(os.environ.update, saved)
        self.assertIsNone(copse.Cluster.find())


if __name__ == "__main__":
    unittest.main()
