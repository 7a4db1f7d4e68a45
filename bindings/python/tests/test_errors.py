# SPDX-License-Identifier: MIT
"""Errors of the library and of the application."""
import unittest

import numpy as np

import copse
from copse import ops
from rig import perceptron


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
        with self.assertRaisesRegex(copse.errors.ArgumentError, "in a loss function"):
            ops.relu(v)

    def test_a_nul_is_refused(self):
        """It would end a text in C: the name 'a\\0b' was 'a'."""
        strategy = copse.Strategy("host")
        v = strategy.variable("v", (2,))
        data = copse.Dataset.arrays(np.zeros((4, 2)), np.arange(4) % 2)
        trainer = copse.Trainer(strategy, lambda inputs: ops.mean(inputs["x"] * v))
        batch = {"x": np.zeros((3, 2))}
        calls = {
            "variable": lambda: strategy.variable("a\0b", (2,)),
            "column": lambda: copse.Dataset({"x\0y": np.zeros(3)}),
            "batch": lambda: trainer.step({"x\0y": np.zeros(3)}),
            "input": lambda: copse.Trainer(strategy, lambda inputs: ops.mean(inputs["x\0"] * v)).step(batch),
            "report": lambda: copse.Trainer(
                strategy, lambda inputs: (ops.report("a\0", ops.mean(inputs["x"])), ops.mean(inputs["x"] * v))[1]).step(batch),
            "network": lambda: copse.nn.Layers("dense 3\0 relu"),
            "scope": lambda: copse.Model(strategy, data, "dense out", scope="a\0b"),
            "device": lambda: copse.Strategy(["host:0\0"]),
            "selector": lambda: copse.Strategy("host\0"),
            "path": lambda: copse.safetensors.save("a\0b", {"a": np.zeros(2)}),
            "array": lambda: copse.safetensors.save("a", {"a\0b": np.zeros(2)}),
            "metadata": lambda: copse.safetensors.save("a", {"a": np.zeros(2)}, {"k": "v\0w"}),
            "groups": lambda: copse.Trainer(strategy, lambda inputs: None, groups="*.bias\0: frozen"),
            "schedule": lambda: copse.Schedule("constant\0", 0.1),
            "file": lambda: copse.Dataset.open("a\0b.csv"),
            "delimiter": lambda: copse.Dataset.open("a.csv", delimiter="\0"),
            "label": lambda: copse.Dataset.open("a.csv", label="b\0"),
            "kernels": lambda: copse.Strategy("host", kernels="matmul=wide\0"),
        }
        for name, call in calls.items():
            with self.subTest(name), self.assertRaisesRegex(ValueError, "has a NUL|one character"):
                call()

    def test_unknown_names_list_the_known_ones(self):
        strategy = copse.Strategy("host")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "adamax, adamw"):
            copse.Trainer(strategy, lambda inputs: None, optimizer="adamm")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "he_normal"):
            strategy.variable("v", (2,), init="he")
        with self.assertRaises(copse.errors.NoDeviceError):
            copse.Strategy("opencl:77")

    def test_negative_counts_are_refused_by_name(self):
        """By keyword and by position, of Python and of NumPy."""
        data = copse.Dataset.text("abcd" * 50, context=4)
        model = copse.Model(copse.Strategy("host"), data, "embedding 4 4; flatten; dense out")
        rows = copse.Dataset.arrays(np.zeros((8, 2)), np.arange(8) % 2)
        for count in (-1, np.int64(-1), np.int32(-1)):
            for name, call in (("length", lambda: model.generate("abab", count)), ("length", lambda: model.generate("abab", length=count)),
                               ("folds", lambda: rows.fold(count, 2)), ("fold", lambda: rows.fold(2, count)), ("seed", lambda: model.generate("abab", 1, seed=count))):
                with self.subTest(name, count=type(count)), self.assertRaisesRegex(
                        copse.errors.ArgumentError, f"^{name} is -1: at least 0"):
                    call()
        self.assertEqual(len(model.generate("abab", np.int64(3))), 3)

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

    def test_the_text_is_that_of_the_library(self):
        from copse._library import lib, text
        for call in (lambda: copse.Strategy("opencl:77"), lambda: copse.nn.Layers("dens 3"),
                     lambda: copse.safetensors.load("no such file")):
            with self.assertRaises(copse.Error) as caught:
                call()
            self.assertEqual(str(caught.exception), text(lib.copse_last_error()))

    def test_an_exception_in_the_schedule_reaches_the_caller(self):
        strategy = copse.Strategy("host")
        v = strategy.variable("v", (2,))

        def rate(step):
            if step == 2:
                raise LookupError("no rate")
            return 0.1

        trainer = copse.Trainer(strategy, lambda inputs: ops.mean(inputs["x"] * v), learning_rate=rate)
        batch = {"x": np.ones((3, 2), np.float32)}
        trainer.step(batch)
        before = v.numpy()
        with self.assertRaisesRegex(LookupError, "no rate"):
            trainer.step(batch)
        np.testing.assert_array_equal(v.numpy(), before)


if __name__ == "__main__":
    unittest.main()
