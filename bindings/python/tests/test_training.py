# SPDX-License-Identifier: MIT
"""Training, layers and models."""
import gc
import logging
import os
import unittest

import numpy as np

import copse
from copse import ops
from rig import DEVICES, InFolder, perceptron, toy


class Training(unittest.TestCase):
    def test_digits_from_arrays(self):
        table = np.loadtxt(os.environ["COPSE_DIGITS"], delimiter=",", dtype=np.float32)
        data = copse.Dataset({"x": table[:, :64] / 16, "y": table[:, 64].astype(np.int32)})
        train, test = data.split(seed=1)
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 64), learning_rate=0.003)
        seen = []
        trainer.fit(train.batches(64, seed=1), 25, lambda epoch, means: seen.append(means["loss"]))
        self.assertEqual(len(seen), 25)
        result = trainer.evaluate({"x": test.column("x"), "y": test.column("y")})
        self.assertGreaterEqual(result.reports["accuracy"], 0.97)

    def test_devices_give_the_same_training(self):
        x, y = toy()
        losses = []
        for device in DEVICES + ["host:0,host:0,host:0", ",".join(DEVICES)]:
            strategy = copse.Strategy(device)
            trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4), optimizer="sgd", learning_rate=0.1)
            losses.append([trainer.step({"x": x, "y": y}).loss for _ in range(5)])
        for other in losses[1:]:
            np.testing.assert_allclose(other, losses[0], rtol=1e-5)
        self.assertLess(losses[0][-1], losses[0][0])

    def test_parameter_groups(self):
        x, y = toy()
        batch = {"x": x, "y": y}
        strategy = copse.Strategy("host:0,host:0")
        loss = perceptron(strategy, 8, 3, 4)
        trainer = copse.Trainer(strategy, loss, optimizer="sgd", learning_rate=0.1, groups="w1: frozen; b?: rate=1e-30")
        before = {v.name: v.numpy() for v in strategy.variables()}
        trainer.step(batch)
        after = {v.name: v.numpy() for v in strategy.variables()}
        for name in ("w1", "b1", "b2"):
            np.testing.assert_allclose(after[name], before[name], rtol=0, atol=1e-25)
        self.assertGreater(np.abs(after["w2"] - before["w2"]).max(), 1e-4)
        with self.assertRaisesRegex(copse.errors.ArgumentError, '"w9" matches no trained variable; close names are'):
            copse.Trainer(strategy, loss, groups="w9: frozen")

    def test_averaged_weights(self):
        x, y = toy()
        batch = {"x": x, "y": y}
        strategy = copse.Strategy("host:0,host:0")
        trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4), optimizer="sgd", learning_rate=0.5, average=0.9)
        for _ in range(5):
            trainer.step(batch)
        own = {v.name: v.numpy() for v in strategy.variables()}
        loss = trainer.evaluate(batch).loss
        with trainer.averaged():
            for v in strategy.variables():
                np.testing.assert_array_equal(v.numpy(), trainer.slot(v, "average"))
            self.assertNotEqual(trainer.evaluate(batch).loss, loss)
            with self.assertRaisesRegex(copse.errors.ArgumentError, "copse_trainer_average_end first"):
                trainer.step(batch)
        for v in strategy.variables():
            np.testing.assert_array_equal(v.numpy(), own[v.name])
        self.assertEqual(trainer.evaluate(batch).loss, loss)

    def test_a_loss_of_two_inputs_of_different_types(self):
        rng = np.random.default_rng(1)
        image = rng.integers(0, 256, (32, 4, 4)).astype(np.uint8)
        tokens = rng.integers(0, 5, (32,)).astype(np.int64)
        target = (image.reshape(32, 16).mean(1) / 255 + tokens).astype(np.float32)
        strategy = copse.Strategy("host")
        w = strategy.variable("w", (16, 1), init="zeros")
        b = strategy.variable("b", (1,))
        types = []

        def loss(inputs):
            types.append((inputs["image"].dtype, inputs["tokens"].dtype, inputs["image"].shape[1:]))
            x = ops.reshape(ops.cast(inputs["image"], "float32"), (-1, 16)) * (1 / 255)
            y = ops.reshape(ops.dense(x, w, b), (-1,)) + ops.cast(inputs["tokens"], "float32")
            return ops.mean_squared_error(y, inputs["target"])

        trainer = copse.Trainer(strategy, loss, learning_rate=0.05)
        batch = {"image": image, "tokens": tokens, "target": target}
        first = trainer.step(batch).loss
        for _ in range(200):
            last = trainer.step(batch).loss
        self.assertEqual(types[0], ("uint8", "int32", (4, 4)))
        self.assertLess(last, first / 100)

    def test_every_optimizer_trains(self):
        x, y = toy()
        self.assertLess({"adam", "sgd", "lamb", "adam8"}, set(copse.trainer.OPTIMIZERS))
        for name in copse.trainer.OPTIMIZERS:
            strategy = copse.Strategy("host")
            schedule = copse.Schedule("warmup for 5; cosine", 0.02, 30)
            trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4), optimizer=name, learning_rate=schedule)
            losses = [trainer.step({"x": x, "y": y}).loss for _ in range(30)]
            self.assertLess(losses[-1], losses[0], name)
        strategy = copse.Strategy("host")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "l1 is 0.5: adam has no such setting"):
            copse.Trainer(strategy, perceptron(strategy, 8, 3, 4), l1=0.5)

    def test_schedules_of_a_text(self):
        schedule = copse.Schedule("warmup for 10; step 0.5 20 * plateau 0.1 1", 2.0, 100)
        self.assertAlmostEqual(schedule.rate(5), 1.0)
        self.assertAlmostEqual(schedule.rate(31), 1.0)
        schedule.observe(1.0)
        schedule.observe(1.0)
        self.assertAlmostEqual(schedule.rate(31), 0.1)
        other = copse.Schedule("plateau 0.1 1", 2.0)
        other.restore(schedule.state)
        self.assertAlmostEqual(other.rate(1), 0.2)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "at \"warm\""):
            copse.Schedule("warm", 1.0)

    def test_operators_equal_numpy(self):
        rng = np.random.default_rng(2)
        a, b = rng.uniform(0.5, 2, (2, 3, 4)).astype(np.float32)
        strategy = copse.Strategy("host")
        v = strategy.variable("v", values=np.float32(0))
        expected = np.mean((2 - (a + b) * 3 / b) ** 2 - a @ b.T.reshape(4, 3) @ np.ones((3, 4)) + -b)

        def loss(inputs):
            x, y = inputs["a"], inputs["b"]
            return ops.mean((2 - (x + y) * 3 / y) ** 2 - x @ ops.transpose(y) @ ops.fill((3, 4), 1) + -y) + v

        trainer = copse.Trainer(strategy, loss)
        self.assertAlmostEqual(trainer.evaluate({"a": a, "b": b}).loss, expected, places=4)

    def test_queued_steps_give_their_results_in_order(self):
        x, y = toy()
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4))
        for _ in range(5):
            self.assertIsNone(trainer.step({"x": x, "y": y}, wait=False))
        self.assertEqual([r.step for r in trainer.results()], [1, 2, 3, 4, 5])
        self.assertIsNone(trainer.result())
        self.assertEqual(trainer.steps, 5)

    def test_no_result_of_a_pass_is_dropped(self):
        """fit takes results while it goes on; the library warns where it drops one."""
        x, y = toy(64)
        for device in DEVICES:
            for settings in ({}, {"accumulate": 3}, {"prefetch": 2}):
                strategy = copse.Strategy(device)
                trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4), **settings)
                lines = []
                handler = logging.Handler(logging.WARNING)
                handler.emit = lambda record: lines.append(record.getMessage())
                logging.getLogger("copse").addHandler(handler)
                try:
                    trainer.fit(copse.Dataset({"x": x, "y": y}).batches(2), 2)
                finally:
                    logging.getLogger("copse").removeHandler(handler)
                self.assertEqual(lines, [])

    def test_schedule_and_options(self):
        x, y = toy()
        asked = []
        strategy = copse.Strategy("host")

        def rate(step):
            asked.append(step)
            return 0.0

        trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4), optimizer="sgd", learning_rate=rate,
                                clip_global_norm=1.0)
        before = strategy.variables()[0].numpy()
        trainer.step({"x": x, "y": y})
        self.assertEqual(asked[0], 1)
        np.testing.assert_array_equal(strategy.variables()[0].numpy(), before)


class Layers(unittest.TestCase):
    def test_layers_are_the_hand_written_network(self):
        x, y = toy()
        losses = []
        for by_hand in (True, False):
            strategy = copse.Strategy("host")
            if by_hand:
                w1 = strategy.variable("dense1.weight", (4, 8), init="he_normal", seed=3)
                b1 = strategy.variable("dense1.bias", (8,))
                w2 = strategy.variable("dense2.weight", (8, 3), init="glorot_uniform", seed=3)
                b2 = strategy.variable("dense2.bias", (3,))

                def network(inputs, x):
                    return ops.dense(ops.dense(x, w1, b1, "relu"), w2, b2)
            else:
                network = copse.nn.Layers("dense 8 relu; dense out", strategy, shape=(4,), outputs=3, seed=3)

            def loss(inputs):
                return ops.sparse_cross_entropy(network(inputs, inputs["x"]), inputs["y"])

            trainer = copse.Trainer(strategy, loss)
            losses.append([trainer.step({"x": x, "y": y}).loss for _ in range(5)])
        self.assertEqual(losses[0], losses[1])

    def test_sparse_embedding_has_the_values_of_the_dense_one(self):
        ids, y = np.arange(24, dtype=np.int32).reshape(8, 3) * 5 % 40, np.arange(8, dtype=np.int32) % 2
        tables = []
        for sparse in (False, True):
            strategy = copse.Strategy("host:0,host:0")
            network = copse.nn.sequential(copse.nn.embedding(40, 4, sparse=sparse), copse.nn.flatten(), copse.nn.dense(2))
            network.build(strategy, shape=(3,), dtype="int32", seed=3)
            trainer = copse.Trainer(strategy, lambda inputs: ops.sparse_cross_entropy(network(inputs, inputs["x"]), inputs["y"]),
                                    optimizer="sgd", learning_rate=0.5)
            for _ in range(3):
                trainer.step({"x": ids, "y": y})
            tables.append(strategy.variables()[0].numpy())
        np.testing.assert_array_equal(*tables)
        table = strategy.variable("table", (5, 2), sparse=True)
        with self.assertRaisesRegex(copse.errors.UnsupportedError, "lion has no sparse form"):
            copse.Trainer(strategy, lambda inputs: ops.sum(ops.gather(table, inputs["x"])), optimizer="lion")

    def test_description(self):
        layers = copse.nn.Layers("mlp:16,8")
        layers.build(copse.Strategy("host"), shape=(2, 2), outputs=3)
        self.assertEqual(layers.output, (3,))
        self.assertEqual(layers.parameters, 4 * 16 + 16 + 16 * 8 + 8 + 8 * 3 + 3)
        self.assertIn("dense 3", str(layers))
        self.assertIn("243", layers.summary())
        with self.assertRaisesRegex(copse.errors.ArgumentError, "line 2.*did you mean dense"):
            copse.nn.Layers("relu\ndens 5")


class Models(InFolder):
    def test_train_save_load_predict(self):
        rows = ["length,colour,kind"]
        for i in range(200):
            rows.append(f"{i % 2 * 2 + i % 7 / 10},{'red' if i % 2 else 'blue'},{'tulip' if i % 2 else 'crocus'}")
        (self.folder / "train.csv").write_text("\n".join(rows) + "\n")
        (self.folder / "new.csv").write_text("colour,length\nred,2.3\nblue,0.1\n")
        data = copse.Dataset.open(self.folder / "train.csv")
        strategy = copse.Strategy("host")
        model = copse.Model(strategy, data, "dense 8 relu; dense out", seed=1)
        copse.Trainer(strategy, model, learning_rate=0.02).fit(data.batches(50, seed=1), 40)
        model.save(self.folder / "model.safetensors")
        probabilities = model.predict(self.folder / "new.csv")
        self.assertEqual(model.classes, ["crocus", "tulip"])
        self.assertEqual(probabilities.argmax(1).tolist(), [1, 0])
        np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
        evaluation = model.evaluate(self.folder / "train.csv")
        self.assertEqual(evaluation.confusion.tolist(), [[100, 0], [0, 100]])
        self.assertEqual(evaluation.accuracy, 1.0)
        self.assertEqual((evaluation.balanced_accuracy, evaluation.f1, list(evaluation.auc)), (1.0, 1.0, [1.0, 1.0]))
        again = copse.Model.load(copse.Strategy("host"), self.folder / "model.safetensors")
        np.testing.assert_array_equal(again.predict(self.folder / "new.csv"), probabilities)
        (self.folder / "bad.csv").write_text("colour,length\ngreen,2.3\n")
        with self.assertLogs("copse", "WARNING") as log:
            self.assertEqual(again.predict(self.folder / "bad.csv").argmax(1).tolist(), [1])
        self.assertRegex(log.output[0], 'the first is "green" in row 2')
        with self.assertRaisesRegex(copse.errors.FormatError, "row 2.*green"):
            again.predict(self.folder / "bad.csv", unknown="refuse")
        (self.folder / "bad.csv").write_text("colour,length\nred,long\n")
        with self.assertRaisesRegex(copse.errors.FormatError, "row 2.*long"):
            again.predict(self.folder / "bad.csv")

    def test_a_newer_model_is_loaded_beside_an_older_one(self):
        data = copse.Dataset.arrays(np.eye(4, dtype=np.float32), np.arange(4) % 2)
        strategy = copse.Strategy("host")
        first = copse.Model(strategy, data, "dense out", seed=1)
        first.save(self.folder / "model.safetensors")
        values = first.predict(data)
        for i in range(3):
            newer = copse.Model.load(strategy, self.folder / "model.safetensors", scope=f"number{i}")
            self.assertEqual([v.name for v in newer.variables], [f"number{i}/dense1.weight", f"number{i}/dense1.bias"])
            first = newer  # the older one goes, with its variables
            gc.collect()
            self.assertEqual(len(strategy.variables()), 2)
            np.testing.assert_array_equal(first.predict(data), values)

    def test_regression_from_arrays(self):
        rng = np.random.default_rng(3)
        x = rng.uniform(-1, 1, (400, 2)).astype(np.float32)
        y = (1000 + 300 * x[:, 0] - 100 * x[:, 1]).astype(np.float32)
        data = copse.Dataset.arrays(x, y, task="regression", scale="standard")
        strategy = copse.Strategy("host")
        model = copse.Model(strategy, data, "dense out", seed=1)
        copse.Trainer(strategy, model, learning_rate=0.05).fit(data.batches(100, seed=1), 100)
        np.testing.assert_allclose(model.predict(x)[:, 0], y, atol=2)
        self.assertGreater(model.evaluate(data).r2, 0.999)
        self.assertEqual(model.classes, [])

    def test_several_targets_have_errors_in_their_units(self):
        rng = np.random.default_rng(3)
        x = rng.uniform(-1, 1, (200, 2)).astype(np.float32)
        y = np.stack([x[:, 0], 1000 * x[:, 1]], 1)
        data = copse.Dataset.arrays(x, y, task="regression", scale="standard")
        strategy = copse.Strategy("host")
        model = copse.Model(strategy, data, copse.nn.sequential(copse.nn.dense(8, "tanh"), copse.nn.dense()), seed=1)
        copse.Trainer(strategy, model, learning_rate=0.02).fit(data.batches(50, seed=1), 20)
        found = model.evaluate(data)
        errors = np.abs(model.predict(x) - y).mean(0)
        np.testing.assert_allclose(found.target_mae, errors, rtol=1e-4)
        self.assertGreater(errors[1], 10 * errors[0])
        np.testing.assert_allclose(found.r2, found.target_r2.mean())


if __name__ == "__main__":
    unittest.main()
