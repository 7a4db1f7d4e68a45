# SPDX-License-Identifier: MIT
"""Data sets, batches, and arrays of other libraries."""
import unittest

import numpy as np

import copse
from rig import InFolder


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

    def test_dlpack_of_variables(self):
        v = copse.Strategy("host").variable("v", values=np.arange(6, dtype=np.float32).reshape(2, 3))
        a = np.from_dlpack(v)
        np.testing.assert_array_equal(a, v.numpy())
        self.assertEqual(v.__dlpack_device__(), a.__dlpack_device__())
        v.assign(np.zeros((2, 3)))
        self.assertEqual(a.sum(), 15)  # a copy
        tokens = copse.Strategy("host").variable("t", values=np.array([1, 2]), dtype="int32", trainable=False)
        self.assertEqual(np.from_dlpack(tokens).dtype, np.int32)

    def test_arrays_of_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        x = torch.arange(6, dtype=torch.float32).reshape(3, 2)
        data = copse.Dataset({"x": x, "y": torch.tensor([1, 0, 1])})
        self.assertEqual(data.columns, {"x": ("float32", (2,)), "y": ("int64", ())})
        np.testing.assert_array_equal(data.column("x"), x.numpy())
        v = copse.Strategy("host").variable("v", values=x)
        self.assertTrue(torch.equal(torch.from_dlpack(v), x))
        v.assign(x * 2)
        self.assertTrue(torch.equal(torch.from_dlpack(v.numpy()), x * 2))


class Tables(InFolder):
    TABLE = "id;grade;colour\n7;1.5;red\n8;;blue\n9;2.5;red\n"

    def open(self, text, **settings):
        path = self.folder / "table.csv"
        path.write_text(text)
        return copse.Dataset.open(path, **settings)

    def test_options(self):
        data = self.open(self.TABLE, label="colour", ignore=["id"], missing="mean", scale="none")
        self.assertEqual((len(data), data.classes), (3, 2))
        np.testing.assert_array_equal(data.column("x")[:, 0], [1.5, 2, 2.5])
        np.testing.assert_array_equal(data.column("y"), [1, 0, 1])
        data = self.open("1,5,2\n3,6,4\n", label=2, header="no", task="regression", scale="none")
        np.testing.assert_array_equal(data.column("x"), [[1, 2], [3, 4]])
        np.testing.assert_array_equal(data.column("y").ravel(), [5, 6])
        self.assertEqual(self.open("1,5,2\n3,6,4\n", header="no", no_labels=True).columns["x"][1], (3,))
        self.assertEqual(self.open("a|b\n1|2\n3|4\n", delimiter="|", no_labels=True).columns["x"][1], (2,))

    def test_wrong_options(self):
        for settings, pattern in (({"label": "color"}, "color"), ({"label": 9}, "9"), ({"label": 0}, "from 1"),
                                  ({"delimiter": "::"}, "one character"), ({"missing": "drop"}, "mean, refuse"),
                                  ({"header": "maybe"}, "auto, no, yes"), ({"ignore": "idd"}, "idd")):
            with self.subTest(settings), self.assertRaisesRegex(copse.errors.ArgumentError, pattern):
                self.open(self.TABLE, **settings)
        with self.assertRaisesRegex(copse.errors.FormatError, "row 3"):
            self.open(self.TABLE)

    def test_position(self):
        batches = copse.Dataset({"i": np.arange(10)}).batches(4, shuffle=False)
        batches.go(2, 1)
        self.assertEqual(batches.position, (2, 1))
        self.assertEqual(batches.take().count, 4)
        self.assertEqual(batches.take().count, 2)
        self.assertIsNone(batches.take())
        with self.assertRaises(copse.errors.ArgumentError):
            batches.go(0, 4)


if __name__ == "__main__":
    unittest.main()
