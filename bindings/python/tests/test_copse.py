# SPDX-License-Identifier: MIT
"""The Python package against its library: training, errors, memory, threads."""
import contextlib
import gc
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np

import copse
from copse import ops

DEVICES = (os.environ.get("COPSE_TEST_DEVICES", "").split()
           or [d.id for d in copse.devices() if d.is_usable and d.same_as is None])

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


class Training(unittest.TestCase):
    def test_digits_from_arrays(self):
        table = np.loadtxt(os.environ["COPSE_DIGITS"], delimiter=",", dtype=np.float32)
        data = copse.Dataset({"x": table[:, :64] / 16, "y": table[:, 64].astype(np.int32)})
        train, test = data.split(seed=1)
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 64), learning_rate=0.003)
        seen = []
        trainer.fit(train.batches(64, seed=1), 25, lambda epoch, result: seen.append(result.loss))
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

    def test_a_loss_of_two_inputs_of_different_types(self):
        rng = np.random.default_rng(1)
        image = rng.integers(0, 256, (32, 4, 4)).astype(np.uint8)
        tokens = rng.integers(0, 5, (32,)).astype(np.int64)
        target = (image.reshape(32, 16).mean(1) / 255 + tokens).astype(np.float32)
        strategy = copse.Strategy("host")
        w = strategy.variable("w", (16, 1))
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
        with self.assertRaisesRegex(copse.errors.ArgumentError, "clip_norms"):
            copse.Trainer(strategy, lambda inputs: None, clip_norms=1.0)


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

    def test_description(self):
        layers = copse.nn.Layers("mlp:16,8")
        layers.build(copse.Strategy("host"), shape=(2, 2), outputs=3)
        self.assertEqual(layers.output, (3,))
        self.assertEqual(layers.parameters, 4 * 16 + 16 + 16 * 8 + 8 + 8 * 3 + 3)
        self.assertIn("dense 3", str(layers))
        self.assertIn("243", layers.summary())
        with self.assertRaisesRegex(copse.errors.ArgumentError, "line 2.*did you mean dense"):
            copse.nn.Layers("relu\ndens 5")


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

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
        again = copse.Model.load(copse.Strategy("host"), self.folder / "model.safetensors")
        np.testing.assert_array_equal(again.predict(self.folder / "new.csv"), probabilities)
        (self.folder / "bad.csv").write_text("colour,length\ngreen,2.3\n")
        with self.assertRaisesRegex(copse.errors.FormatError, "row 2.*green"):
            again.predict(self.folder / "bad.csv")

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


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_variables_and_checkpoints(self):
        x, y = toy()
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4))
        for _ in range(3):
            trainer.step({"x": x, "y": y})
        trainer.save(self.folder / "weights.safetensors")
        arrays, _ = copse.safetensors.load(self.folder / "weights.safetensors")
        for v in strategy.variables():
            np.testing.assert_array_equal(arrays[v.name], v.numpy())
        trainer.checkpoint(self.folder / "state.safetensors", epoch=1, batch=2)
        after = [trainer.step({"x": x, "y": y}).loss for _ in range(2)]
        self.assertEqual(trainer.restore(self.folder / "state.safetensors"), (1, 2))
        self.assertEqual([trainer.step({"x": x, "y": y}).loss for _ in range(2)], after)
        self.assertEqual(trainer.slot(strategy.variables()[0], "m").shape, (4, 8))

    def test_safetensors_of_every_type(self):
        types = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                 "uint64", "bool"]
        arrays = {t: np.arange(6).reshape(2, 3).astype(t) for t in types} | {
            "scalar": np.float32(3), "empty": np.zeros((0, 4), np.float32), "strided": np.arange(12.0)[::2]}
        copse.safetensors.save(self.folder / "a.safetensors", arrays, {"key": "välue"})
        again, metadata = copse.safetensors.load(self.folder / "a.safetensors")
        self.assertEqual(metadata, {"key": "välue"})
        for name, a in arrays.items():
            self.assertEqual(again[name].dtype, np.asarray(a).dtype)
            np.testing.assert_array_equal(again[name], a)

    def test_a_damaged_file_is_a_format_error(self):
        (self.folder / "bad").write_bytes(b"\x05\0\0\0\0\0\0\0[]   ")
        with self.assertRaises(copse.errors.FormatError):
            copse.safetensors.load(self.folder / "bad")
        with self.assertRaises(copse.errors.FileError):
            copse.safetensors.load(self.folder / "none")


class Data(unittest.TestCase):
    def test_columns_keep_their_types(self):
        data = copse.Dataset({"image": np.zeros((5, 2, 3), np.uint8), "token": np.arange(5)})
        self.assertEqual(data.columns, {"image": ("uint8", (2, 3)), "token": ("int64", ())})
        np.testing.assert_array_equal(data.column("token", [4, 0, 4]), [4, 0, 4])
        with self.assertRaisesRegex(copse.errors.ArgumentError, "no column 'x'"):
            data.column("x")
        with self.assertRaises(copse.errors.ArgumentError):
            data.column("token", [5])

    def test_batches_cover_an_epoch(self):
        data = copse.Dataset({"i": np.arange(10, dtype=np.int32)})
        batches = data.batches(4, seed=3)
        self.assertEqual(len(batches), 3)
        self.assertEqual([b.count for b in batches.epoch(0)], [4, 4, 2])
        self.assertEqual([b.count for b in batches.epoch(1, first=2)], [2])

    def test_arrays_of_other_lengths(self):
        with self.assertRaisesRegex(copse.errors.ArgumentError, r"x \[3\].*y \[2\]"):
            copse.Dataset({"x": np.zeros(3), "y": np.zeros(2)})

    def test_dlpack(self):
        class Foreign:
            """An array that NumPy knows through DLPack only."""

            def __init__(self, a):
                self.a = a

            def __dlpack__(self, **options):
                return self.a.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.a.__dlpack_device__()

        data = copse.Dataset({"x": Foreign(np.arange(3, dtype=np.float32))})
        np.testing.assert_array_equal(data.column("x"), [0, 1, 2])

    def test_views_and_other_orders(self):
        a = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))[:, ::2]
        np.testing.assert_array_equal(copse.Dataset({"x": a}).column("x"), a)


class Errors(unittest.TestCase):
    def test_the_librarys_text(self):
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy))
        with self.assertRaisesRegex(copse.errors.ArgumentError, "no 'y'"):
            trainer.step({"x": np.zeros((2, 64), np.float32)})
        with self.assertRaisesRegex(copse.errors.ShapeError, "63"):
            trainer.step({"x": np.zeros((2, 63), np.float32), "y": np.zeros(2, np.int32)})
        with self.assertRaises(ValueError):  # they are Python's own kinds, too
            strategy.variable("w1", (3,))

    def test_an_exception_in_the_loss_function_reaches_the_caller(self):
        strategy = copse.Strategy("host")
        strategy.variable("v", (2,))

        class Mine(Exception):
            pass

        def loss(inputs):
            raise Mine("in the loss function")

        with self.assertRaisesRegex(Mine, "in the loss function"):
            copse.Trainer(strategy, loss).step({"x": np.zeros(3, np.float32)})
        with self.assertRaisesRegex(copse.errors.ArgumentError, "NoneType"):
            copse.Trainer(strategy, lambda inputs: None).step({"x": np.zeros(3, np.float32)})

    def test_ops_outside_of_a_loss_function(self):
        strategy = copse.Strategy("host")
        v = strategy.variable("v", (2,))
        with self.assertRaisesRegex(copse.errors.ArgumentError, "inside a loss function"):
            ops.relu(v)

    def test_unknown_names_list_the_known_ones(self):
        strategy = copse.Strategy("host")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "adam, adamw"):
            copse.Trainer(strategy, lambda inputs: None, optimizer="adamm")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "he_normal"):
            strategy.variable("v", (2,), init="he")
        with self.assertRaises(copse.errors.NoDeviceError):
            copse.Strategy("opencl:77")

    def test_wrong_shapes_of_values(self):
        v = copse.Strategy("host").variable("v", (2, 3))
        with self.assertRaisesRegex(copse.errors.ShapeError, r"\[2, 3\]"):
            v.assign(np.zeros((3, 2)))

    def test_every_status_has_an_exception(self):
        from copse._library import lib, text
        for status in range(1, lib.COPSE_ERR_INTERNAL + 1):
            name = text(lib.copse_status_name(status))
            self.assertEqual(copse.errors.of(name, "").status, name)
            self.assertIsNot(type(copse.errors.of(name, "")), copse.Error)


class Lifetime(unittest.TestCase):
    def test_objects_may_die_in_any_order(self):
        x, y = toy()
        for _ in range(20):
            strategy = copse.Strategy("host")
            loss = perceptron(strategy, 8, 3, 4)
            trainer = copse.Trainer(strategy, loss)
            batches = copse.Dataset({"x": x, "y": y}).batches(16)
            v = strategy.variables()[0]
            del strategy, loss
            gc.collect()
            trainer.fit(batches, 1)
            del trainer
            gc.collect()
            self.assertEqual(v.numpy().shape, (4, 8))

    def test_arrays_may_die_after_the_call(self):
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4))
        for i in range(20):
            x, y = toy(seed=i)
            trainer.step({"x": x, "y": y}, wait=False)
            del x, y
            gc.collect()
        self.assertTrue(all(np.isfinite(r.loss) for r in trainer.results()))

    def test_other_threads_run_during_a_step(self):
        x, y = toy(20000)
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 64, 3, 4))
        trainer.step({"x": x, "y": y})
        may_run, has_run = threading.Event(), []
        thread = threading.Thread(target=lambda: (may_run.wait(), has_run.append(True)))
        thread.start()
        before = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # another thread runs only when this one releases the GIL
        try:
            may_run.set()
            for _ in range(100):
                trainer.step({"x": x, "y": y})
                if has_run:
                    break
            ran_during = list(has_run)
        finally:
            sys.setswitchinterval(before)
            thread.join()
        self.assertTrue(ran_during)


class Documents(unittest.TestCase):
    """The programs of the page and the folder of examples run, and do what they say."""

    def run_program(self, source, name):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        before = os.getcwd()
        os.chdir(folder.name)
        try:
            scope = {"__name__": "__main__"}
            exec(compile(source, name, "exec"), scope)
            return scope, {p.name for p in Path(".").iterdir()}
        finally:
            os.chdir(before)

    def test_the_examples_of_the_page(self):
        page = (PACKAGE / "README.md").read_text()
        source, of_models = re.findall(r"```python\n(.*?)```", page, flags=re.S)
        self.assertLessEqual(len([line for line in source.splitlines() if line.strip()]), 20)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            scope, files = self.run_program(source, "README.md")
        self.assertGreaterEqual(float(re.search(r"'accuracy': ([0-9.]+)", out.getvalue()).group(1)), 0.97)
        self.assertEqual(files, {"digits.safetensors"})
        with contextlib.redirect_stdout(io.StringIO()) as out:
            scope, files = self.run_program(of_models, "README.md")
        accuracy, digit = out.getvalue().split()
        self.assertGreaterEqual(float(accuracy), 0.97)
        self.assertIn(digit, [str(d) for d in range(10)])
        self.assertEqual(files, {"digits.safetensors"})

    def test_digits_example(self):
        path = PACKAGE / "examples" / "digits.py"
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.run_program(path.read_text(), str(path))
        self.assertIn("epoch 30 loss", out.getvalue())

    def test_live_plot_example(self):
        try:
            import matplotlib
        except ImportError:
            self.skipTest("matplotlib is not installed")
        matplotlib.use("Agg")
        path = PACKAGE / "examples" / "live_plot.py"
        scope, files = self.run_program(path.read_text(), str(path))
        self.assertEqual(files, {"loss.png"})
        self.assertLess(scope["losses"][-1], 0.05)


class Devices(unittest.TestCase):
    def test_found(self):
        found = {d.id: d for d in copse.devices()}
        self.assertEqual(found["host:0"].kind, "reference")
        self.assertTrue(found["host:0"].is_usable)
        self.assertEqual(copse.select("host"), ["host:0"])

    def test_conformance(self):
        cases = []
        counts = copse.conformance.run("host:0", ops="softmax", modes=["run"], on_case=cases.append)
        self.assertEqual(set(counts), {"PASS"})
        self.assertEqual(len(cases), counts["PASS"])
        self.assertEqual(cases[0].op, "softmax")
        with self.assertRaises(copse.errors.ArgumentError):
            copse.conformance.run("host:0", ops="no such op")

        def stop(case):
            raise KeyError(case.op)

        with self.assertRaises(KeyError):
            copse.conformance.run("host:0", ops="softmax", on_case=stop)

    def test_the_command(self):
        run = subprocess.run([sys.executable, "-m", "copse", "devices"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("host:0", run.stdout)
        run = subprocess.run([sys.executable, "-m", "copse", "no-such-command"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)


if __name__ == "__main__":
    unittest.main()
