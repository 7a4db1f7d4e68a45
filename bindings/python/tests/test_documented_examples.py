# SPDX-License-Identifier: MIT
"""The examples and statements of TensorFlow's own documents of tf.distribute, each as a program of Copse: a class for each
document. Devices are host:0, as often as there are replicas."""
import unittest

import numpy as np

import copse
from copse import ops
from rig import InFolder, toy


def strategies():
    for n in (1, 2, 3):
        strategy = copse.Strategy(["host:0"] * n)
        yield n, strategy
        strategy.close()


class OneDeviceStrategy(unittest.TestCase):
    """tf.compat.v1.distribute.OneDeviceStrategy."""

    def test_for_example(self):
        strategy = copse.Strategy("host:0", kind="one_device")
        with strategy.scope():
            v = copse.Variable(1.0)
        self.assertEqual((float(v), strategy.devices), (1.0, ["host:0"]))

        def step_fn(x):
            return x * 2

        result = 0
        for i in range(10):
            result += strategy.run(step_fn, args=(i,))
        self.assertEqual(result, 90)

    def test_for_example_on_values(self):
        """The same with arrays: the devices multiply and add."""
        for n, strategy in strategies():
            result = np.float32(0)
            for i in range(10):
                result = result + strategy.run(lambda x: x * 2, args=(np.float32(i),))
            self.assertEqual([float(c) for c in strategy.local_results(result)], [90] * n)

    def test_experimental_distribute_dataset(self):
        for n, strategy in strategies():
            dataset = copse.Dataset({"x": np.arange(24, dtype=np.float32)})
            dist_dataset = strategy.distribute(dataset.batches(6, shuffle=False))  # by the global batch size
            self.assertEqual(len(dist_dataset), 4)
            seen = []

            def train_step(inputs):
                seen.extend(inputs["x"].numpy())

            for x in dist_dataset:
                strategy.run(train_step, args=(x,))
            self.assertEqual(seen, list(range(24)))

    def test_element_spec_as_the_signature_of_a_function(self):
        for n, strategy in strategies():
            dist_dataset = strategy.distribute(copse.Dataset({"x": np.ones((12, 2), np.float32)}).batches(6))
            self.assertEqual(dist_dataset.element_spec, {"x": ("float32", (None, 2))})
            calls = []

            @copse.function
            def train_step(inputs):
                calls.append(inputs["x"].dtype)
                return ops.mean(inputs["x"])

            for x in dist_dataset:
                loss = strategy.run(train_step, args=(x,))
                self.assertEqual([float(c) for c in strategy.local_results(loss)], [1] * n)
            self.assertEqual(calls, ["float32"] * n)  # one signature, recorded for each replica

    def test_distribute_datasets_from_function(self):
        for n, strategy in strategies():
            def dataset_fn(input_context):
                self.assertEqual((input_context.pipelines, input_context.pipeline, input_context.replicas), (1, 0, n))
                batch_size = input_context.per_replica_batch(12)
                return ({"x": np.ones((batch_size, 1), np.float32)} for _ in range(4 * n))

            inputs = strategy.distribute_from_function(dataset_fn)
            shapes = []
            for batch in inputs:
                replica_results = strategy.run(lambda batch: batch["x"].sum(), args=(batch,))
                shapes.append([float(c) for c in strategy.local_results(replica_results)])
            self.assertEqual(shapes, [[12 // n] * n] * 4)

    def test_an_iterator_of_a_distributed_dataset(self):
        for n, strategy in strategies():
            inputs = strategy.distribute_from_function(
                lambda context: copse.Dataset({"x": np.arange(12, dtype=np.float32)}).batches(2, shuffle=False))
            iterator = iter(inputs)
            for step in range(12 // (2 * n)):
                sums = strategy.run(lambda x: x["x"].sum(), args=(next(iterator),))
                expected = np.arange(12).reshape(-1, n, 2)[step].sum(1)
                np.testing.assert_array_equal([float(c) for c in strategy.local_results(sums)], expected)
            with self.assertRaises(StopIteration):
                next(iterator)

    def test_make_input_fn_iterator_with_shards(self):
        """Each pipeline takes its shard; here there is one."""
        for n, strategy in strategies():
            def input_fn(context):
                rows = np.arange(12, dtype=np.float32)[context.pipeline::context.pipelines]
                return copse.Dataset({"x": rows}).batches(context.per_replica_batch(6), shuffle=False)

            with strategy.scope():
                iterator = iter(strategy.distribute_from_function(input_fn))
                replica_results = strategy.run(lambda batch: batch["x"].sum(), (next(iterator),))
                self.assertEqual(float(strategy.reduce("sum", replica_results)) if n > 1 else float(replica_results), 15)

    def test_experimental_make_numpy_dataset(self):
        for n, strategy in strategies():
            numpy_input = np.ones([12], dtype=np.float32)
            dist_dataset = strategy.distribute(copse.Dataset({"x": numpy_input}).batches(6))
            self.assertEqual(sum(float(strategy.reduce("sum", batch["x"], axis=0)) for batch in dist_dataset), 12)

    def test_reduce_of_a_global_batch(self):
        strategy = copse.Strategy(["host:0", "host:0"])
        values = strategy.per_replica([np.arange(4, dtype=np.float32), np.arange(4, 8, dtype=np.float32)])
        np.testing.assert_array_equal(strategy.reduce("sum", values), [4, 6, 8, 10])
        self.assertEqual(float(strategy.reduce("sum", values, axis=0)), 28)

    def test_reduce_of_a_partial_batch(self):
        """Of six examples the replicas hold four and two."""
        strategy = copse.Strategy(["host:0", "host:0"])
        values = strategy.per_replica([np.arange(4, dtype=np.float32), np.arange(4, 6, dtype=np.float32)])
        with self.assertRaises(copse.errors.ShapeError):
            strategy.reduce("mean", values)
        self.assertEqual(float(strategy.reduce("mean", values, axis=0)), 2.5)

    def test_run_with_a_constant(self):
        for n, strategy in strategies():
            @copse.function
            def replica_fn(input):
                return input * 2.0

            result = strategy.run(replica_fn, args=(copse.value(3.0),))
            self.assertEqual([float(c) for c in strategy.local_results(result)], [6.0] * n)

    def test_run_with_distributed_values(self):
        for n, strategy in strategies():
            distributed_values = strategy.values_from_function(lambda context: np.float32(context.replicas))
            result = strategy.run(lambda input: input * 2, args=(distributed_values,))
            self.assertEqual([float(c) for c in strategy.local_results(result)], [2 * n] * n)

    def test_scope_selects_the_strategy(self):
        for n, strategy in strategies():
            with strategy.scope():
                self.assertIs(copse.current_strategy(), strategy)
                v = copse.Variable([1.0])
                self.assertIs(v.strategy, strategy)


class Module(unittest.TestCase):
    """tf.contrib.distribute: contexts, call_for_each_tower, update, colocation."""

    def test_get_cross_tower_context(self):
        for n, strategy in strategies():
            self.assertFalse(copse.in_cross_replica_context())
            with strategy.scope():
                self.assertTrue(copse.in_cross_replica_context())
                strategy.run(lambda: self.assertFalse(copse.in_cross_replica_context()))

    def test_get_tower_context(self):
        for n, strategy in strategies():
            seen = []
            strategy.run(lambda: seen.append(copse.replica_context().replica_id))  # call_for_each_tower
            self.assertEqual(seen, list(range(n)))

    def test_get_and_has_distribution_strategy(self):
        self.assertFalse(copse.has_strategy())
        for n, strategy in strategies():
            with strategy.scope():
                self.assertTrue(copse.has_strategy())
                self.assertIs(copse.current_strategy(), strategy)

    def test_require_tower_context(self):
        for n, strategy in strategies():
            kept = []

            def replica():
                kept.append(copse.replica_context())
                copse.require_replica_context(kept[-1])
                if len(kept) > 1:
                    with self.assertRaises(copse.errors.ContextError):
                        copse.require_replica_context(kept[0])

            strategy.run(replica)
            with self.assertRaises(copse.errors.ContextError):
                copse.require_replica_context(kept[0])
            with self.assertRaises(copse.errors.ContextError):
                kept[0].replica_id

    def test_update_and_update_non_slot(self):
        for n, strategy in strategies():
            v = strategy.variable("v", values=2.0)
            local = strategy.variable("local", values=0.0, synchronization="on_read", aggregation="sum")
            strategy.update(v, lambda v, x: v.assign(v * x), args=(3.0,))
            self.assertEqual([v.numpy(r) for r in range(n)], [6] * n)
            ranks = strategy.update_non_slot([n - 1], lambda: local.assign_add(1.0) or "done")
            self.assertEqual((ranks, float(local)), ("done", 1))
            strategy.update_non_slot(None, lambda x: local.assign_add(x), kwargs={"x": 1.0})
            self.assertEqual([local.numpy(r) for r in range(n)], [1] * (n - 1) + [2])

    def test_one_loss_for_all_towers(self):
        """get_loss_reduction: the mean divides the loss of each replica by their number."""
        for reduction, rate in (("mean", 1.0), ("sum", None)):
            for n, strategy in strategies():
                v = strategy.variable("v", values=1.0)
                tower = copse.TowerOptimizer(strategy, "sgd", learning_rate=0.5, reduction=reduction)
                strategy.run(lambda x: tower.minimize(lambda x: x * v, (x,)), (np.float32(1),))
                self.assertEqual(float(v), 1 - 0.5 * (rate or n))

    def test_all_reduce_cross_tower_ops(self):
        for n, strategy in strategies():
            x = strategy.values_from_function(lambda context: np.float32(context.replica_id + 1))
            total = strategy.reduce_to("sum", x)
            self.assertEqual([float(c) for c in strategy.local_results(total)], [n * (n + 1) / 2] * n)
            self.assertEqual(float(strategy.reduce_to("mean", x, to=[0])), (n + 1) / 2)
            self.assertEqual([float(c) for c in strategy.local_results(strategy.broadcast(copse.value(5.0)))], [5] * n)

    def test_monitor_runs_steps(self):
        runs = []
        monitor = copse.Monitor(copse.Step(lambda: runs.append(1)))
        self.assertEqual(monitor.run(3), 3)
        self.assertEqual(len(runs), 3)


class StandardSingleLossStep(InFolder):
    """tf.contrib.distribute.StandardSingleLossStep, Step and Monitor."""

    def step(self, n=2, iterations=1, epochs=1, outputs=None):
        x, y = toy(48)
        batches = copse.Dataset({"x": x, "y": y}).batches(8, seed=1)

        def make():
            strategy = copse.Strategy(["host:0"] * n)
            w = strategy.variable("w", (4, 3), init="zeros")

            def loss_fn(inputs):
                logits = ops.matmul(inputs["x"], w)
                ops.report("accuracy", ops.mean(ops.equal(ops.argmax(logits), inputs["y"])))
                copse.set_output("logits", ops.mean(logits, 0))
                return ops.sparse_cross_entropy(logits, inputs["y"])

            return copse.Trainer(strategy, loss_fn, optimizer="sgd", learning_rate=0.1)

        return copse.SingleLossStep(make, batches, epochs=epochs, iterations_per_step=iterations,
                                    outputs=outputs or {"loss": "mean"})

    def test_run_a_single_training_step(self):
        step = self.step()
        self.assertTrue(step())
        self.assertEqual(step.trainer.steps, 1)
        self.assertAlmostEqual(step.output("loss"), np.log(3), 6)
        np.testing.assert_allclose(step.output("logits"), np.zeros(3), atol=1e-6)
        self.assertEqual(step.strategy.replicas, 2)

    def test_iterations_per_step(self):
        step = self.step(iterations=3)
        self.assertTrue(step())
        self.assertEqual(step.trainer.steps, 3)
        self.assertTrue(step())
        self.assertFalse(step())  # six batches
        none = self.step(iterations=0)
        self.assertTrue(none())
        self.assertEqual(none.trainer.steps, 0)

    def test_outputs_of_each_replica(self):
        step = self.step(n=3, outputs={"accuracy": "none", "loss": "mean"})
        step()
        self.assertEqual(len(step.output("accuracy")), 3)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "nothing"):
            step.output("nothing")

    def test_a_monitor_runs_saves_and_resumes(self):
        step = self.step(epochs=2)
        monitor = copse.Monitor(step, folder=self.folder, every_steps=2)
        self.assertEqual(monitor.run(5), 5)
        monitor.checkpoint()
        resumed = copse.Monitor(self.step(epochs=2), folder=self.folder)
        self.assertIsNotNone(resumed.resumed_from)
        self.assertEqual(resumed.trainer.steps, 5)
        self.assertEqual((resumed.run(), monitor.run()), (7, 7))
        np.testing.assert_array_equal(*(m.step.strategy.variables()[0].numpy() for m in (resumed, monitor)))

    def test_a_function_that_makes_no_trainer(self):
        with self.assertRaisesRegex(copse.errors.ArgumentError, "not a Trainer"):
            copse.SingleLossStep(lambda: 3, copse.Dataset({"x": np.ones(4)}).batches(2))
        with self.assertRaisesRegex(KeyError, "maker"):
            def maker():
                raise KeyError("maker")
            copse.SingleLossStep(maker, copse.Dataset({"x": np.ones(4)}).batches(2))

    def test_a_step_of_own_functions(self):
        state = {"n": 0}

        def run():
            if state["n"] == 5:
                raise StopIteration
            state["n"] += 1

        def save(path):
            copse.safetensors.save(path, {"n": np.array([state["n"]], np.int32)})

        def restore(path):
            state["n"] = int(copse.safetensors.load(path)[0]["n"][0])

        def step():
            return copse.Step(run, save=save, restore=restore, progress=lambda: state["n"])

        monitor = copse.Monitor(step(), file=self.folder / "state", every_steps=1)
        self.assertEqual(monitor.run(3), 3)
        state["n"] = 0
        again = copse.Monitor(step(), file=self.folder / "state")
        self.assertEqual((state["n"], again.run()), (3, 2))
        self.assertFalse(again.step())
        with self.assertRaisesRegex(copse.errors.ArgumentError, "data and results"):
            copse.Monitor(step(), copse.Dataset({"x": np.ones(4)}).batches(2))

    def test_a_trainer_outlives_its_step(self):
        step = self.step()
        step()
        trainer = step.trainer
        del step
        self.assertEqual((trainer.steps, trainer.strategy.variables()[0].shape), (1, (4, 3)))

    def test_an_exception_of_progress_reaches_the_caller(self):
        def progress():
            raise KeyError("progress")

        step = copse.Step(lambda: None, save=lambda path: None, restore=lambda path: None, progress=progress)
        with self.assertRaisesRegex(KeyError, "progress"):
            copse.Monitor(step, folder=self.folder)

    def test_an_exception_of_a_step_reaches_the_caller(self):
        def run():
            raise KeyError("step")

        with self.assertRaisesRegex(KeyError, "step"):
            copse.Step(run)()
        with self.assertRaisesRegex(KeyError, "step"):
            copse.Monitor(copse.Step(run)).run(1)


class CreateTrainStep(unittest.TestCase):
    """create_train_step of tf.contrib.training."""

    X = {"x": np.array([[1, 2], [3, -1]], np.float32)}

    def each(self, **settings):
        for n, strategy in strategies():
            if n > 2:
                continue
            w = strategy.variable("w", values=[1.0, 1.0])
            b = strategy.variable("b", values=0.5)
            losses = settings.get("losses", lambda w, b, x: ops.mean(ops.square(ops.sum(x * w, 1) + b)))
            given = {k: v for k, v in settings.items() if k != "losses"}
            yield strategy, w, b, copse.TrainStep(strategy, lambda inputs: losses(w, b, inputs["x"]), optimizer="sgd",
                                                  learning_rate=0.5, **given)

    def test_it_evaluates_gradients_and_returns_the_loss(self):
        for strategy, w, b, step in self.each():
            result = step(self.X)
            y = self.X["x"].sum(1) + 0.5
            self.assertAlmostEqual(result.total, np.mean(y * y), 5)
            self.assertEqual(result.losses, result.total)
            np.testing.assert_allclose(w, 1 - 0.5 * self.X["x"].T @ (2 * y / 2), rtol=1e-6)
            self.assertEqual((result.step, result.global_step, copse.global_step(strategy)), (1, 1, 1))

    def test_a_nested_tuple_of_losses_and_total_loss_fn(self):
        def losses(w, b, x):
            return ops.mean(ops.square(w)), {"b": (ops.square(b),), "x": ops.mean(x)}

        for strategy, w, b, step in self.each(losses=losses, total_loss=lambda given: given[0] + 2.0 * given[1]["b"][0]):
            result = step(self.X)
            self.assertAlmostEqual(result.total, 1 + 2 * 0.25, 6)
            self.assertEqual((result.losses[0], result.losses[1]["b"]), (1, (0.25,)))
            self.assertAlmostEqual(result.losses[1]["x"], 1.25, 6)
            np.testing.assert_allclose(b, 0.5 - 0.5 * 2 * 2 * 0.5, rtol=1e-6)
        for strategy, w, b, step in self.each(losses=losses):
            with self.assertRaisesRegex(copse.errors.ArgumentError, "total"):
                step(self.X)

    def test_update_ops_run_first(self):
        for strategy, w, b, step in self.each(update_hooks=[lambda st: st.variables()[1].assign(0.0)]):
            self.assertAlmostEqual(step(self.X).total, np.mean(self.X["x"].sum(1) ** 2), 5)

        def fails(_strategy):
            raise KeyError("hook")

        for strategy, w, b, step in self.each(update_hooks=[fails]):
            with self.assertRaisesRegex(KeyError, "hook"):
                step(self.X)
            np.testing.assert_array_equal(w, [1, 1])

    def test_variables_to_train_and_transform_grads_fn(self):
        seen = []

        def transform(pairs):
            seen.append([v.name for _, v in pairs])
            return [ops.clip(g, -0.25, 0.25) for g, _ in pairs]

        for n, strategy in strategies():
            w, b = strategy.variable("w", values=[1.0, 1.0]), strategy.variable("b", values=0.5)
            step = copse.TrainStep(strategy, lambda inputs: ops.mean(inputs["x"] * w) + b, optimizer="sgd", learning_rate=1.0,
                                   variables=[b], transform=transform, reduction="sum")
            step({"x": np.ones((2, 2), np.float32)})
            np.testing.assert_array_equal(w, [1, 1])
            self.assertEqual(float(b), 0.5 - 0.25 * min(n, 2))  # a third replica has no example
        self.assertEqual(set(map(tuple, seen)), {("b",)})

    def test_global_step_may_be_none(self):
        for strategy, w, b, step in self.each(counts="none"):
            self.assertEqual((step(self.X).global_step, copse.global_step(strategy)), (0, 0))

    def test_check_numerics(self):
        bad = {"x": np.array([[np.nan, 1], [np.inf, 1]], np.float32)}
        for strategy, w, b, step in self.each():
            with self.assertRaises(copse.errors.NonFiniteError):
                step(bad)
            np.testing.assert_array_equal(w, [1, 1])
        for strategy, w, b, step in self.each(skip_numerics=True):
            self.assertTrue(np.isnan(step(bad).total))

    def test_a_loss_must_be_a_function_of_tensors(self):
        for strategy, w, b, step in self.each(losses=lambda w, b, x: 3.0):
            with self.assertRaisesRegex(copse.errors.ArgumentError, "not a Tensor"):
                step(self.X)


class TowerOptimizer(unittest.TestCase):
    """TowerOptimizer of tf.contrib.estimator."""

    def each(self, optimizer="sgd", **settings):
        for n, strategy in strategies():
            v, w = strategy.variable("v", values=[1.0, 2.0]), strategy.variable("w", values=3.0)
            settings = settings or ({"learning_rate": 0.5} if isinstance(optimizer, str) else {})
            tower = copse.TowerOptimizer(strategy, optimizer, reduction="sum", **settings)
            x = strategy.values_from_function(lambda context: np.float32(context.replica_id + 1))
            yield n, strategy, v, w, tower, x

    def test_gradients_of_all_towers_are_applied_with_the_last(self):
        for n, strategy, v, w, tower, x in self.each():
            seen = []

            def replica(x):
                before = v.numpy()
                tower.apply_gradients([(x + v * 0, v)])
                seen.append((v.numpy() - before).tolist())

            strategy.run(replica, (x,))
            total = n * (n + 1) / 2
            self.assertEqual(seen, [[0, 0]] * (n - 1) + [[-0.5 * total] * 2])
            self.assertEqual(tower.steps, 1)

    def test_minimize_is_compute_and_apply(self):
        for n, strategy, v, w, tower, x in self.each():
            losses = strategy.run(lambda x: tower.minimize(lambda x: ops.sum(x * v), (x,), variables=[v]), (x,))
            self.assertEqual([float(c) for c in strategy.local_results(losses)], [3 * (r + 1) for r in range(n)])
            first = v.numpy()

            def replica(x):
                pairs = tower.compute_gradients(lambda x: ops.sum(x * v), (x,))
                self.assertEqual([p[1].name for p in pairs], ["v", "w"])
                self.assertIsNone(pairs[1][0])  # the loss does not depend on it
                tower.apply_gradients(pairs)

            strategy.run(replica, (x,))
            np.testing.assert_allclose(v, 2 * first - [1, 2], rtol=1e-6)
            self.assertEqual(float(w), 3)

    def test_processed_gradients(self):
        """compute_gradients, a change, apply_gradients."""
        for n, strategy, v, w, tower, x in self.each():
            def replica(x):
                pairs = tower.compute_gradients(lambda x: ops.sum(x * v), (x,), variables=[v])
                tower.apply_gradients([(g * 2, v) for g, v in pairs])

            strategy.run(replica, (x,))
            np.testing.assert_allclose(v, np.array([1, 2]) - n * (n + 1) / 2, rtol=1e-6)

    def test_grad_loss(self):
        for n, strategy, v, w, tower, x in self.each():
            strategy.run(lambda x: tower.minimize(lambda x: x * v, (x,), variables=[v],
                                                  grad_loss=np.array([1, 10], np.float32)), (x,))
            np.testing.assert_allclose(v, np.array([1, 2]) - 0.5 * n * (n + 1) / 2 * np.array([1, 10]), rtol=1e-6)

    def test_arguments_of_every_type_and_structure(self):
        for n, strategy, v, w, tower, x in self.each():
            def loss(batch, scale, mode):
                self.assertEqual(mode, "train")
                return ops.sum(ops.gather(v, batch["id"]) * ops.cast(batch["pixel"], "float32")) * scale

            batch = {"id": np.array([0, 1, 1], np.int32), "pixel": np.array([1, 2, 3], np.uint8)}
            strategy.run(lambda x: tower.minimize(loss, (batch, x, "train"), variables=[v]), (x,))
            np.testing.assert_allclose(v, np.array([1, 2]) - 0.5 * n * (n + 1) / 2 * np.array([1, 5]), rtol=1e-6)

    def test_a_function_gives_the_optimizer(self):
        calls = []

        def factory():
            calls.append(1)
            return {"optimizer": "momentum", "learning_rate": 0.5, "momentum": 0.5}

        for n, strategy, v, w, tower, x in self.each(factory):
            self.assertEqual((tower.kind, tower.slot_names), ("momentum", ["v"]))
            for _ in range(2):
                strategy.run(lambda x: tower.apply_gradients([(x, w)]), (x,))
            g = n * (n + 1) / 2
            self.assertAlmostEqual(float(w), 3 - 0.5 * g - 0.75 * g, 5)
        self.assertEqual(len(calls), 3)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "gives learning_rate"):
            copse.TowerOptimizer(copse.Strategy("host"), factory, learning_rate=1.0)

    def test_a_factory_that_raises(self):
        def factory():
            raise KeyError("factory")

        tower = copse.TowerOptimizer(copse.Strategy("host"), factory)
        with self.assertRaisesRegex(KeyError, "factory"):
            tower.kind

    def test_slots(self):
        for n, strategy, v, w, tower, x in self.each("momentum"):
            self.assertIsNone(tower.slot(w, "v"))
            strategy.run(lambda x: tower.apply_gradients([(x, w)]), (x,))
            self.assertEqual(float(tower.slot(w, "v")), n * (n + 1) / 2)
            self.assertIsNone(tower.slot(w, "nothing"))

    def test_global_step(self):
        for n, strategy, v, w, tower, x in self.each():
            strategy.run(lambda x: tower.apply_gradients([(x, w)]), (x,))
            strategy.run(lambda x: tower.apply_gradients([(x, w)], moves_step=False), (x,))
            self.assertEqual((tower.steps, copse.global_step(strategy)), (2, 1))

    def test_gradients_of_all_towers_at_once(self):
        """In a scope and in a merge call, from a function that all replicas compute at once."""
        @copse.function
        def gradient(x, w):
            loss = x * w
            return loss, copse.gradients(loss, w)

        for n, strategy, v, w, tower, x in self.each():
            with strategy.scope():
                loss, g = gradient(x, w)
                tower.apply_gradients([(g, w)])
            strategy.run(lambda x: copse.replica_context().merge_call(
                lambda st, g: tower.apply_gradients([(g, w)]), (gradient(x, w)[1],)), (x,))
            self.assertAlmostEqual(float(w), 3 - n * (n + 1) / 2, 5)

    def test_clipping(self):
        for n, strategy, v, w, tower, x in self.each("sgd", learning_rate=1.0, clip_global_norm=1.0):
            strategy.run(lambda x: tower.apply_gradients([(x + v * 0, v), (x * 2, w)]), (x,))
            np.testing.assert_allclose(v, np.array([1, 2]) - 1 / np.sqrt(6), rtol=1e-6)
            self.assertAlmostEqual(float(w), 3 - 2 / np.sqrt(6), 5)

    def test_several_towers_over_parts_of_the_variables(self):
        for n, strategy, v, w, tower, x in self.each():
            other = copse.TowerOptimizer(strategy, "momentum", learning_rate=0.25, reduction="sum", name="other")

            def replica(x):
                tower.minimize(lambda x: ops.sum(x * v), (x,), variables=[v])
                other.minimize(lambda x: x * w, (x,), variables=[w])

            for _ in range(2):
                strategy.run(replica, (x,))
            g = n * (n + 1) / 2
            np.testing.assert_allclose(v, np.array([1, 2]) - g, rtol=1e-6)
            self.assertAlmostEqual(float(w), 3 - 0.25 * g - 0.25 * 1.9 * g, 5)

    def test_schedules(self):
        for n, strategy, v, w, tower, x in self.each("sgd", learning_rate=lambda step: 1.0 / step):
            for _ in range(2):
                strategy.run(lambda x: tower.apply_gradients([(x, w)]), (x,))
            self.assertAlmostEqual(float(w), 3 - 1.5 * n * (n + 1) / 2, 5)

        def fails(step):
            raise KeyError("schedule")

        for n, strategy, v, w, tower, x in self.each("sgd", learning_rate=fails):
            with self.assertRaisesRegex(KeyError, "schedule"):
                strategy.run(lambda x: tower.apply_gradients([(x, w)]), (x,))
            self.assertEqual((float(w), tower.steps), (3, 0))

    def test_different_numbers_of_calls_are_refused(self):
        for n, strategy, v, w, tower, x in self.each():
            def replica(x):
                if copse.replica_context().replica_id == 0:
                    tower.apply_gradients([(x, w)])

            if n > 1:
                with self.assertRaises(copse.errors.ContextError):
                    strategy.run(replica, (x,))
                self.assertEqual(float(w), 3)
            strategy.run(lambda x: tower.apply_gradients([(x, w)]), (x,))  # what was left over is dropped
            self.assertEqual(float(w), 3 - 0.5 * n * (n + 1) / 2)

    def test_a_failed_run_leaves_nothing_behind(self):
        for n, strategy, v, w, tower, x in self.each():
            def replica(x):
                if copse.replica_context().replica_id == n - 1:
                    raise KeyError("here")
                tower.apply_gradients([(x, w)])

            with self.assertRaisesRegex(KeyError, "here"):
                strategy.run(replica, (x,))
            strategy.run(lambda x: tower.apply_gradients([(x, w)]), (x,))
            self.assertEqual(float(w), 3 - 0.5 * n * (n + 1) / 2)

    def test_wrong_gradients_are_refused(self):
        for n, strategy, v, w, tower, x in self.each():
            for pairs, error in (([(x, v)], copse.errors.ShapeError), ([], copse.errors.ArgumentError),
                                 ([(x, w), (x, w)], copse.errors.ArgumentError)):
                with self.assertRaises(error), strategy.scope():
                    tower.apply_gradients(pairs)
            with self.assertRaises(copse.errors.ContextError):
                tower.compute_gradients(lambda x: x * w, (1.0,))


if __name__ == "__main__":
    unittest.main()
