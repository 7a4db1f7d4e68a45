# SPDX-License-Identifier: MIT
"""fit: what it returns, what callbacks get, and what it shows."""
import contextlib
import io
import math
import sys
import types
import unittest
from unittest import mock

import numpy as np

import copse
from copse._library import ffi
from copse.devices import _progress as progress_of_kernels
from copse.fit import Means
from rig import DEVICES, InFolder, perceptron, toy


def trainer_of(device="host", settings=None, kind=None, **more):
    strategy = copse.Strategy(device, kind=kind, **more)
    return copse.Trainer(
        strategy, perceptron(strategy, 8, 3, 4),
        optimizer="sgd", learning_rate=0.1, **(settings or{}))


class FakeTerminal(io.StringIO):
    def isatty(self):
        return True


class Histories(unittest.TestCase):
    def data(self, rows=60, seed=0):
        x, y = toy(rows, seed)
        return copse.Dataset({"x": x, "y": y})

    def test_means_are_over_the_examples_of_an_epoch(self):
        """The last batch is smaller: its loss counts less."""
        batches = self.data(50).batches(16, seed=3)
        stepped = trainer_of()
        expected = []
        for epoch in range(3):
            losses = [(stepped.step(b), b.count) for b in batches.epoch(epoch)]
            self.assertEqual([n for _, n in losses], [16, 16, 16, 2])
            expected.append((sum(r.loss * n for r, n in losses) / 50,
                             sum(r.reports["accuracy"] * n for r, n in losses) / 50))
        for device in DEVICES:
            for settings, more in (({}, {}), ({"prefetch": 2}, {}), ({}, {"kind": "accelerator", "steps_per_run": 3})):
                with self.subTest(device, **settings, **more):
                    history = trainer_of(device, settings, **more).fit(batches, 3)
                    self.assertEqual(history.epoch, [0, 1, 2])
                    self.assertEqual(list(history.history), ["loss", "accuracy"])
                    np.testing.assert_allclose(np.transpose(list(history.history.values())), expected, rtol=1e-5)

    def test_micro_batches(self):
        """Four batches make an update of three and one of the rest, whose examples count as they are."""
        batches = self.data(50).batches(16, shuffle=False)
        stepped = trainer_of(settings={"accumulate": 3})
        first = [stepped.step(b) for b in batches.epoch(0)][2]
        stepped.flush()
        rest = stepped.result()
        for device in DEVICES:
            with self.subTest(device):
                trainer = trainer_of(device, {"accumulate": 3})
                history = trainer.fit(batches, 1)
                np.testing.assert_allclose(history.history["loss"], [(first.loss * 48 + rest.loss * 2) / 50], rtol=1e-5)
                for a, b in zip(trainer.strategy.variables(), stepped.strategy.variables()):
                    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-7)

    def test_validation_data(self):
        held_out = self.data(30, seed=1)
        arrays = {"x": held_out.column("x"), "y": held_out.column("y")}
        seen = []
        for given in (held_out, arrays, held_out.batches(7), held_out.batches(30)):
            trainer = trainer_of()
            found = []
            history = trainer.fit(
                self.data().batches(16),
                2, lambda epoch, means: found.append(trainer.evaluate(arrays)),
                validation_data=given)
            self.assertEqual(list(history.history), ["loss", "accuracy", "val_loss", "val_accuracy"])
            np.testing.assert_allclose(history.history["val_loss"], [r.loss for r in found], rtol=1e-6)
            np.testing.assert_allclose(
                history.history["val_accuracy"],
                [r.reports["accuracy"] for r in found],
                rtol=1e-6)
            seen.append(history.history["loss"])
        for other in seen[1:]:  # it trains nothing
            self.assertEqual(other, seen[0])
        with self.assertRaisesRegex(copse.errors.ArgumentError, "data is ndarray: use a Dataset"):
            trainer_of().fit(self.data().batches(16), 1, validation_data=np.zeros(3))

    def test_the_loader_that_trains_may_be_the_validation_data(self):
        data = self.data()
        batches = data.batches(16, seed=1)
        both, apart = (trainer_of().fit(batches, 3, validation_data=v) for v in (batches, data))
        self.assertEqual(both.history["loss"], apart.history["loss"])
        np.testing.assert_allclose(both.history["val_loss"], apart.history["val_loss"], rtol=1e-6)

    def test_callbacks(self):
        seen = []
        trainer = trainer_of()
        history = trainer.fit(self.data(), 9, [lambda epoch, means: seen.append((epoch, means)),
                                               lambda epoch, means: epoch == 2, lambda epoch, means: 1])
        self.assertEqual([e for e, _ in seen], [0, 1, 2])
        self.assertEqual([m["loss"] for _, m in seen], history.history["loss"])
        self.assertEqual(trainer.steps, 3)  # a data set makes batches of 64
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            trainer.fit(self.data(), 1, lambda epoch, means: 1 / 0)

    def test_results_of_earlier_steps_are_in_no_mean(self):
        x, y = toy()
        trainer, other = trainer_of(), trainer_of()
        trainer.step({"x": x + 100, "y": y}, wait=False)
        other.step({"x": x + 100, "y": y})
        self.assertEqual(trainer.fit(self.data(), 1).history, other.fit(self.data(), 1).history)

    def test_means_of_nothing_and_of_special_values(self):
        self.assertEqual(Means().logs(), {})
        for special in (math.nan, math.inf, -math.inf):
            means = Means()
            means.add(1.0, {"r": special}, 3)
            means.add(2.0, {"r": 0.0}, 1)
            self.assertEqual(means.logs("val_")["val_loss"], 1.25)
            np.testing.assert_equal(means.logs()["r"], special)
        history = copse.History()
        history.add(0, {"loss": 1.0})
        history.add(1, {"loss": 2.0, "late": 3.0})
        np.testing.assert_equal(history.history, {"loss": [1.0, 2.0], "late": [math.nan, 3.0]})


class EarlyStopping(unittest.TestCase):
    """A learning rate that is 100 from step 4 on: the fourth epoch, of one step, spoils the weights."""

    def fit(self, device="host", epochs=9, **settings):
        strategy = copse.Strategy(device)
        trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4), optimizer="sgd",
                                learning_rate=lambda step: 0.1 if step < 4 else 100.0)
        x, y = toy()
        seen = []
        history = trainer.fit({"x": x, "y": y}, epochs, lambda epoch, means: seen.append(
            strategy.variables()[0].numpy()), validation_data={"x": x, "y": y}, **settings)
        return history, seen, strategy.variables()[0].numpy()

    def test_the_best_weights_are_left(self):
        for device in [*DEVICES, "host:0,host:0"]:
            with self.subTest(device):
                history, seen, last = self.fit(device)
                self.assertEqual((history.best_epoch, len(history.epoch)), (2, 9))
                self.assertEqual(history.history["val_loss"].index(min(history.history["val_loss"])), 2)
                np.testing.assert_array_equal(last, seen[2])
                history, seen, last = self.fit(device, restore_best_weights=False)
                self.assertIsNone(history.best_epoch)
                np.testing.assert_array_equal(last, seen[8])
                history, seen, last = self.fit(device, 3)
                np.testing.assert_array_equal(last, seen[2])

    def test_patience(self):
        for patience in 1, 3:
            history, seen, last = self.fit(patience=patience)
            self.assertEqual((history.epoch[-1], history.best_epoch), (2 + patience, 2))
            np.testing.assert_array_equal(last, seen[2])
            history, seen, last = self.fit(patience=patience, restore_best_weights=False)
            self.assertEqual((history.epoch[-1], history.best_epoch), (2 + patience, 2))
            np.testing.assert_array_equal(last, seen[-1])
        self.assertEqual(self.fit(patience=1, min_delta=10.0)[0].epoch, [0, 1])

    def test_wrong_settings(self):
        x, y = toy()
        with self.assertRaisesRegex(copse.errors.ArgumentError, "patience is about the loss of validation_data"):
            trainer_of().fit({"x": x, "y": y}, 1, patience=3)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "min_delta belongs to patience"):
            self.fit(min_delta=0.1)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "patience is -1: at least 0"):
            self.fit(patience=-1)
        for special in -1.0, math.nan, math.inf:
            with self.assertRaisesRegex(copse.errors.ArgumentError, "min_delta"):
                self.fit(min_delta=special)


    def test_how_it_ended_is_shown(self):
        for patience, text in ((1, "training stopped: 1 epochs without a lower val_loss; the values are of epoch 3, "
                                   "which has the lowest val_loss"),
                               (0, "the values are of epoch 3, which has the lowest val_loss")):
            stream = io.StringIO()
            with contextlib.redirect_stderr(stream):
                self.fit(patience=patience, verbose=2)
            self.assertEqual(stream.getvalue().splitlines()[-1], text)


class Shown(unittest.TestCase):
    """What is on stderr while fit trains four batches in each of two epochs."""

    def fit(self, stream, verbose, **settings):
        x, y = toy(64)
        with contextlib.redirect_stderr(stream), mock.patch("copse.fit.INTERVAL", 0):
            return trainer_of().fit(copse.Dataset({"x": x, "y": y}).batches(16), 2, verbose=verbose, **settings)

    def test_nothing(self):
        for verbose in (0, False):
            stream = FakeTerminal()
            self.fit(stream, verbose)
            self.assertEqual(stream.getvalue(), "")
        stream = io.StringIO()
        self.fit(stream, "auto")
        self.assertEqual(stream.getvalue(), "")
        with mock.patch.object(sys, "stderr", None):  # as in programs without a console
            x, y = toy(64)
            trainer_of().fit(copse.Dataset({"x": x, "y": y}), 1)

    def test_lines(self):
        for verbose, stream in ((2, io.StringIO()), (2, FakeTerminal()), (1, io.StringIO()), (True, io.StringIO())):
            history = self.fit(stream, verbose).history
            self.assertEqual(
                stream.getvalue().splitlines(),
                [f"epoch {e + 1}/2  loss {history['loss'][e]:.4g}  accuracy {history['accuracy'][e]:.4g}"
                 for e in range(2)])

    def test_a_bar_on_a_terminal(self):
        for verbose in ("auto", 1, True):
            stream = FakeTerminal()
            history = self.fit(stream, verbose).history
            lines = stream.getvalue().split("\n")
            self.assertEqual((len(lines), lines[2]), (3, ""))
            looks = lines[0].split("\r")[1:]
            self.assertEqual([look[:22] for look in looks[:4]],
                             ["[" + "=" * n + "." * (20 - n) + "]" for n in (5, 10, 15, 20)])
            self.assertIn("epoch 1/2 3/4 loss ", looks[2])
            self.assertEqual(looks[4].rstrip(),
                             f"epoch 1/2  loss {history['loss'][0]:.4g}  accuracy {history['accuracy'][0]:.4g}")
            self.assertEqual({len(look) for look in looks}, {79})  # each covers the one before

    def test_a_bar_in_a_notebook(self):
        shown = []

        class Output:
            def update(self, x):
                shown.append(x)

        notebook = types.ModuleType("IPython")
        notebook.get_ipython = lambda: types.SimpleNamespace(kernel=object())
        display = types.ModuleType("IPython.display")
        display.HTML, display.display = str, lambda x, display_id: Output()
        stream = FakeTerminal()
        with mock.patch.dict(sys.modules, {"IPython": notebook, "IPython.display": display}):
            history = self.fit(stream, "auto").history
        self.assertEqual(stream.getvalue(), "")
        self.assertEqual(len(shown), 10)
        self.assertIn('<progress value="0.250" max="1"></progress> epoch 1/2 1/4', shown[0])
        self.assertEqual(shown[-1].count("\n"), 2)
        self.assertIn(f"epoch 2/2  loss {history['loss'][1]:.4g}", shown[-1])

    def test_kernels_that_are_compiled(self):
        def compiled(done):
            row = ffi.new("struct copse_progress *", {"device": name, "kernel": name, "done": done, "total": 8})
            lib_progress(ffi.NULL, row)

        name, lib_progress = ffi.new("char[]", b"opencl:9"), progress_of_kernels
        stream = FakeTerminal()
        x, y = toy(64)
        with contextlib.redirect_stderr(stream), mock.patch("copse.fit.INTERVAL", 0):
            trainer = trainer_of()
            loss = trainer._loss.function
            trainer._loss.function = lambda inputs: ([compiled(n) for n in (0, 4, 8)], loss(inputs))[1]
            trainer.fit(copse.Dataset({"x": x, "y": y}), 1, verbose=1)
            compiled(0)  # nothing shows it
        looks = stream.getvalue().split("\r")
        self.assertEqual([look.rstrip() for look in looks[1: 3]],
                         ["[....................] opencl:9: compiling kernels 0/8",
                          "[==========..........] opencl:9: compiling kernels 4/8"])
        self.assertEqual(len(looks), 5)

    def test_an_interrupted_bar_ends_its_line(self):
        stream = FakeTerminal()
        trainer = trainer_of()
        x, y = toy(64)
        batches = copse.Dataset({"x": x, "y": y}).batches(16)
        original, taken = trainer.result, []

        def result(wait=True):
            taken.append(found := original(wait))
            if len([t for t in taken if t]) == 3:
                raise KeyboardInterrupt
            return found

        with contextlib.redirect_stderr(stream), mock.patch("copse.fit.INTERVAL", 0):
            with mock.patch.object(trainer, "result", result), self.assertRaises(KeyboardInterrupt):
                trainer.fit(batches, 1, verbose=1)
        self.assertRegex(stream.getvalue(), r"2/4 [^\n]*\n$")
        self.assertEqual(len(trainer.fit(batches, 2).epoch), 2)


class Models(InFolder):
    def table(self):
        rng = np.random.default_rng(5)
        x = rng.normal(size=(200, 3)).astype(np.float32)
        return x, (x[:, 0] + x[:, 1] > 0).astype(np.int32)

    def test_fit_is_that_of_a_trainer(self):
        data = copse.Dataset.arrays(*self.table())
        train, held_out = data.split(seed=1)
        strategy = copse.Strategy("host")
        other = copse.Model(strategy, data, "dense out", scope="other")
        model = copse.Model(strategy, data, "dense 8 relu; dense out", scope="this", seed=1)
        self.assertEqual([v.name for v in model.variables],
                         ["this/dense1.weight", "this/dense1.bias", "this/dense2.weight", "this/dense2.bias"])
        before = [v.numpy() for v in other.variables]
        history = model.fit(train, 5, batch_size=50, validation_data=held_out,
                            learning_rate=0.02, seed=3, clip_norm=1.0)
        self.assertEqual(list(history.history), ["loss", "accuracy", "val_loss", "val_accuracy"])
        for old, v in zip(before, other.variables):
            np.testing.assert_array_equal(v.numpy(), old)
        self.assertAlmostEqual(model.evaluate(held_out).accuracy,
                               history.history["val_accuracy"][history.best_epoch], places=6)
        again = copse.Model(copse.Strategy("host"), data, "dense 8 relu; dense out", scope="this", seed=1)
        by_trainer = copse.Trainer(again.strategy, again, learning_rate=0.02, seed=3, clip_norm=1.0).fit(
            train.batches(50, seed=3), 5, validation_data=held_out)
        self.assertEqual(by_trainer.history, history.history)
        with self.assertRaisesRegex(TypeError, "did you mean 'learning_rate'"):
            model.fit(train, learnin_rate=1)

    def test_files(self):
        rows = ["length,kind"] + [f"{i % 2 * 2 + i % 7 / 10},{'tulip' if i % 2 else 'crocus'}" for i in range(100)]
        (self.folder / "t.csv").write_text("\n".join(rows) + "\n")
        model = copse.Model(copse.Strategy("host"), copse.Dataset.open(self.folder / "t.csv"), "dense out")
        history = model.fit(self.folder / "t.csv", 30, learning_rate=0.1, validation_data=self.folder / "t.csv")
        self.assertEqual(history.history["val_accuracy"][-1], 1.0)
        model.save(self.folder / "m.safetensors")
        again = copse.Model.load(copse.Strategy("host"), self.folder / "m.safetensors")
        self.assertEqual([v.name for v in again.variables], [v.name for v in model.variables])


if __name__ == "__main__":
    unittest.main()
