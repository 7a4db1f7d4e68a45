# SPDX-License-Identifier: MIT
"""Data sets, batches, and arrays of other libraries."""
import struct
import unittest
import zlib

import numpy as np

import copse
from copse._library import lib
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
        same = self.open("1,5,2\n3,6,4\n", label=[2], header="no", task="regression", scale="none")
        np.testing.assert_array_equal(same.column("y"), data.column("y"))
        two = self.open("1,5,2\n3,6,4\n", label=[2, 3], header="no", scale="none")
        np.testing.assert_array_equal(two.column("y"), [[5, 2], [6, 4]])
        named = self.open("a,b,c\n1,5,2\n3,6,4\n", label=np.array(["b", "c"]), scale="none")
        np.testing.assert_array_equal(named.column("y"), [[5, 2], [6, 4]])
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


def png(path, pixels):
    """Write a grey picture of 8 bits."""
    height, width = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels.astype(np.uint8))

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Pictures(InFolder):
    def setUp(self):
        super().setUp()
        if not lib.copse_pictures_are_read():
            self.skipTest("the library was built without libpng and libjpeg")
        rng = np.random.default_rng(1)
        self.pixels = {}
        for name, shift in (("bright", 128), ("dark", 0)):
            (self.folder / "all" / name).mkdir(parents=True)
            for i in range(20):
                path = self.folder / "all" / name / f"{i:02}.png"
                self.pixels[str(path)] = rng.integers(0, 128, (4, 6)) + shift
                png(path, self.pixels[str(path)])

    def test_a_folder_trains_a_model(self):
        data = copse.Dataset.open(self.folder / "all")
        self.assertEqual((len(data), data.classes, data.columns["x"]), (40, 2, ("uint8", (4, 6))))
        x = data.column("x")
        for i in range(40):
            np.testing.assert_array_equal(x[i], self.pixels[data.file(i)])
        strategy = copse.Strategy("host")
        model = copse.Model(strategy, data, "flatten; dense 8 relu; dense out", seed=1)
        copse.Trainer(strategy, model, learning_rate=0.02).fit(data.batches(10, seed=1, augment="flip; shift 1"), 20)
        self.assertEqual(model.classes, ["bright", "dark"])
        found = model.predict(self.folder / "all" / "dark" / "03.png")
        self.assertEqual(found.argmax(1).tolist(), [1])
        self.assertGreater(model.evaluate(data).accuracy, 0.95)

    def test_mixup(self):
        data = copse.Dataset.open(self.folder / "all")
        strategy = copse.Strategy("host")
        model = copse.Model(strategy, data, "flatten; dense 8 relu; dense out", seed=1)
        batches = data.batches(10, seed=1, augment="mixup 0.3")
        copse.Trainer(strategy, model, learning_rate=0.02).fit(batches, 30)
        self.assertGreater(model.evaluate(data).accuracy, 0.95)
        for batch in batches.epoch(0):
            part, other, y = (batch.columns[name] for name in ("y_part", "y_other", "y"))
            self.assertTrue(((part >= 0.5) & (part <= 1)).all())
            np.testing.assert_array_equal(other[0::2], y[1::2])
            np.testing.assert_array_equal(other[1::2], y[0::2])
        with self.assertRaisesRegex(copse.errors.ArgumentError, "in a random order"):
            data.batches(10, shuffle=False, augment="mixup 0.3")

    def test_sizes_and_wrong_descriptions(self):
        png(self.folder / "all" / "dark" / "other.png", np.full((8, 12), 50))
        with self.assertRaisesRegex(copse.Error, "other.png"):
            copse.Dataset.open(self.folder / "all")
        data = copse.Dataset.open(self.folder / "all", resize=(3, 2))
        self.assertEqual(data.columns["x"], ("uint8", (2, 3)))
        self.assertTrue((data.column("x")[-1] == 50).all())
        with self.assertRaisesRegex(copse.errors.ArgumentError, "flop"):
            data.batches(4, augment="flop")


class Texts(InFolder):
    TEXT = "abcd" * 200

    def test_a_text_trains_a_model(self):
        (self.folder / "a.txt").write_text(self.TEXT)
        data = copse.Dataset.open(self.folder / "a.txt", tokens="characters", context=4, stride=1)
        same = copse.Dataset.text(self.TEXT, context=4, stride=1)
        np.testing.assert_array_equal(data.column("x"), same.column("x"))
        self.assertEqual(data.columns["x"], ("uint8", (4,)))
        np.testing.assert_array_equal(data.column("x", [1]), [[1, 2, 3, 0]])
        np.testing.assert_array_equal(data.column("y", [1]), [[2, 3, 0, 1]])
        strategy = copse.Strategy("host")
        model = copse.Model(strategy, data, "embedding in 8; flatten; dense out", seed=1)
        copse.Trainer(strategy, model, learning_rate=0.05).fit(data.batches(50, seed=1), 5)
        self.assertEqual((model.task, model.classes), ("sequence", list("abcd")))
        (self.folder / "b.txt").write_text("bcdabc")
        self.assertEqual(model.classes[model.predict(self.folder / "b.txt")[0].argmax()], "d")
        evaluation = model.evaluate(data)
        self.assertEqual((evaluation.accuracy, evaluation.confusion, evaluation.mae), (1.0, None, None))
        model.save(self.folder / "model")
        again = copse.Model.load(copse.Strategy("host"), self.folder / "model")
        np.testing.assert_array_equal(again.predict(self.folder / "b.txt"), model.predict(self.folder / "b.txt"))

    def test_texts_shorter_than_the_window(self):
        data = copse.Dataset.text(self.TEXT, context=4, stride=1)
        strategy = copse.Strategy("host")
        each = copse.Model(strategy, data, "embedding in 8; dense out", scope="each", seed=1)
        copse.Trainer(strategy, each, learning_rate=0.1).fit(data.batches(50, seed=1), 5)
        (self.folder / "short.txt").write_text("ab")
        self.assertEqual(each.classes[each.predict(self.folder / "short.txt")[0].argmax()], "c")
        self.assertEqual(each.generate("ab", 1, temperature=0), "c")
        rows = each.read(self.folder / "short.txt", text_rows="end")
        np.testing.assert_array_equal(rows.column("x"), [[0, 1, 0, 0]])
        np.testing.assert_array_equal(rows.column("length"), [2])
        whole = copse.Model(strategy, data, "embedding in 8; flatten; dense out", scope="whole", seed=1)
        with self.assertRaisesRegex(copse.errors.ShapeError, "has 2 characters; a window of 4 needs 4"):
            whole.predict(self.folder / "short.txt")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "only the token after a window of 4: give at least 4"):
            whole.predict(rows)

    def test_byte_pairs_and_generate(self):
        data = copse.Dataset.text(self.TEXT, tokens="bpe", vocabulary=257, context=4, stride=1)
        self.assertEqual(data.classes, 257)  # "ab" is one token: of equal counts the smallest pair
        np.testing.assert_array_equal(data.column("x", [0]), [[256, ord("c"), ord("d"), 256]])
        strategy = copse.Strategy("host")
        model = copse.Model(strategy, data, "embedding in 8; dense out", seed=1)
        copse.Trainer(strategy, model, learning_rate=0.1).fit(data.batches(50, seed=1), 5)
        self.assertEqual(model.generate("ab", 6, temperature=0), "cdabcdab")
        self.assertEqual(model.generate(b"ab", 6, temperature=0), b"cdabcdab")
        evaluation = model.evaluate(data)
        self.assertAlmostEqual(evaluation.bits_per_byte, evaluation.loss / np.log(2) * 3 / 4, places=4)  # 3 tokens are 4 bytes
        drawn = [model.generate("ab", 40, temperature=3.0, seed=s) for s in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        with self.assertRaisesRegex(copse.errors.ArgumentError, "length is 0"):
            model.generate("ab", 0)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "a vocabulary has 256"):
            copse.Dataset.text("abc", tokens="bpe", vocabulary=20)

    def test_bytes_and_wrong_settings(self):
        data = copse.Dataset.text(bytes(range(256)), tokens="bytes", context=8)
        self.assertEqual(len(data), 31)
        with self.assertRaisesRegex(copse.errors.FormatError, "line 1"):
            copse.Dataset.text(b"ab\xff" * 20)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "bpe, bytes, characters"):
            copse.Dataset.text("abc", tokens="words")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "belong to texts"):
            copse.Dataset.open("a", context=4)


if __name__ == "__main__":
    unittest.main()
