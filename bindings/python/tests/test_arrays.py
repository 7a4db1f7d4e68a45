# SPDX-License-Identifier: MIT
"""Arrays of every byte order and layout have the same values wherever the package takes arrays."""
import unittest

import numpy as np

import copse
from copse import ops
from rig import InFolder

NUMBERS = np.array([[1, 2], [3, 4], [5, 105]])  # the mean is exact
TYPES = ["f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4", "u8"]


def misaligned(a):
    """The same array one byte after an address of its alignment."""
    room = np.zeros(a.nbytes + a.itemsize + 1, np.uint8)
    start = 1 - room.ctypes.data % a.itemsize + a.itemsize if a.itemsize > 1 else 0
    out = room[start:start + a.nbytes].view(a.dtype).reshape(a.shape)
    out[...] = a
    return out


def read_only(a):
    b = a.copy()
    b.flags.writeable = False
    return b


LAYOUTS = {
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "little-endian": lambda a: a.astype(a.dtype.newbyteorder("<")),
    "big-endian and strided": lambda a: np.repeat(a, 2, axis=1).astype(a.dtype.newbyteorder(">"))[:, ::2],
    "Fortran's order": np.asfortranarray,
    "backwards": lambda a: a[::-1].copy()[::-1],
    "read-only": read_only,
    "misaligned": misaligned,
    "matrix": np.matrix,
    "mask without masked elements": np.ma.array,
}


class Arrays(InFolder):
    def each(self, check, types=TYPES):
        """Call check(array, plain array of the same numbers) for every type and layout."""
        for t in types:
            for name, layout in LAYOUTS.items():
                with self.subTest(f"{t}, {name}"):
                    check(layout(NUMBERS.astype(t)), NUMBERS.astype(t))

    def test_data_sets(self):
        def check(a, plain):
            np.testing.assert_array_equal(copse.Dataset({"x": a}).column("x"), plain)
            data = copse.Dataset.arrays(a, a[:, 0] % 2, classes=2)
            np.testing.assert_array_equal(data.column("x"), plain)
            np.testing.assert_array_equal(data.column("y"), plain[:, 0] % 2)

        self.each(check, TYPES + ["?", "i1", "u1"])

    def test_batches(self):
        strategy = copse.Strategy("host")
        strategy.variable("v", (2,))
        trainer = copse.Trainer(strategy, lambda inputs: ops.mean(ops.cast(inputs["x"], "float32")))

        def check(a, plain):
            self.assertEqual(trainer.evaluate({"x": a}).loss, plain.mean())
            got = trainer.predict(lambda inputs: ops.cast(inputs["x"], "float32"), {"x": a})
            np.testing.assert_array_equal(got, plain)

        self.each(check, ["f4", "i4"])

    def test_variables(self):
        strategy = copse.Strategy("host")

        def check(a, plain):
            v = strategy.variable(f"v{len(strategy.variables())}", values=a)
            np.testing.assert_array_equal(v.numpy(), plain)
            v.assign(np.zeros((3, 2)))
            v.assign(a)
            np.testing.assert_array_equal(v.numpy(), plain)

        self.each(check)

    def test_constants(self):
        strategy = copse.Strategy("host")
        strategy.variable("v", (2,))

        def check(a, plain):
            for dtype in (None, "float32", ">f4", "int32", ">i4"):
                trainer = copse.Trainer(strategy, lambda inputs: ops.mean(
                    inputs["x"] * ops.cast(ops.constant(a, dtype), "float32")))
                self.assertEqual(trainer.evaluate({"x": np.ones((3, 2))}).loss, plain.mean())

        self.each(check)

    def test_files(self):
        def check(a, plain):
            copse.safetensors.save(self.folder / "a", {"a": a})
            again = copse.safetensors.load(self.folder / "a")[0]["a"]
            self.assertEqual((again.dtype, again.shape), (plain.dtype, plain.shape))
            np.testing.assert_array_equal(again, plain)

        self.each(check, TYPES + ["?", "i1", "u1"])
        for shape in ((), (0, 4), (3, 0)):
            copse.safetensors.save(self.folder / "a", {"a": np.full(shape, 7, ">i4")})
            again = copse.safetensors.load(self.folder / "a")[0]["a"]
            self.assertEqual((again.shape, again.tolist()), (shape, np.full(shape, 7).tolist()))

    def test_models(self):
        x = np.random.default_rng(1).normal(size=(12, 3)).astype(np.float32)
        strategy = copse.Strategy("host")
        model = copse.Model(strategy, copse.Dataset.arrays(x, np.arange(12) % 3, classes=3), "dense out", seed=1)
        np.testing.assert_array_equal(model.predict(x.astype(">f4")), model.predict(x))

    def test_scalars(self):
        v = copse.Strategy("host").variable("v")
        v.assign(3)
        self.assertEqual((v.numpy().shape, float(v.numpy())), ((), 3.0))
        self.assertEqual(copse.Strategy("host").variable("w", values=2.5).shape, ())

    def test_what_a_type_cannot_hold_is_refused(self):
        strategy = copse.Strategy("host")
        v = strategy.variable("v", (1,), dtype="int32", trainable=False)
        strategy.variable("trained")
        constant = copse.Trainer(strategy, lambda inputs: ops.mean(
            inputs["x"] * ops.cast(ops.constant(given, "int32"), "float32")))
        for given in ([2**40], [1.5], [float("nan")], np.array([2**64 - 1], np.uint64)):
            for call in (lambda: v.assign(given),
                         lambda: strategy.variable("w", values=given, dtype="int32", trainable=False),
                         lambda: constant.evaluate({"x": np.ones(2)})):
                with self.subTest(given), self.assertRaisesRegex(copse.errors.ArgumentError, "int32 cannot hold"):
                    call()
        with self.assertRaisesRegex(copse.errors.ArgumentError, r"above 2\^63 - 1"):
            copse.Dataset({"x": np.array([2**64 - 1], ">u8")})
        for values in ([1j], ["1"], np.array(["2001-01-01"], "datetime64[D]"), np.array([None])):
            with self.subTest(values), self.assertRaisesRegex(copse.errors.ArgumentError, "not supported"):
                v.assign(values)
        for call in (lambda a: v.assign(a), lambda a: copse.Dataset({"x": a}), lambda a: copse.Dataset.arrays(a),
                     lambda a: copse.safetensors.save(self.folder / "a", {"a": a})):
            with self.assertRaisesRegex(copse.errors.ArgumentError, "masked"):
                call(np.ma.array([1], mask=[True]))

    def test_positions_of_rows(self):
        data = copse.Dataset({"x": np.arange(4)})
        np.testing.assert_array_equal(data.column("x", np.array([3, 1], ">i8")), [3, 1])
        np.testing.assert_array_equal(data.column("x", []), [])
        for rows in ([True, False, True, False], [0.5], [2**32], [-1], [[0], [1]]):
            with self.subTest(rows), self.assertRaises(copse.errors.ArgumentError):
                data.column("x", rows)


if __name__ == "__main__":
    unittest.main()
