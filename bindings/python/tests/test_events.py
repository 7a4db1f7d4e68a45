# SPDX-License-Identifier: MIT
"""Event files: what is in them, read by the format of TFRecord and of protocol buffers."""
import math
import struct
import unittest
from pathlib import Path

import numpy as np

import copse
from copse import ops
from copse._library import lib
from rig import DEVICES, InFolder, perceptron, toy


def fields(data):
    """Number and value of each field of a message: whole numbers, 8 or 4 bytes, or bytes."""
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    at = 0
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at:at + size]
        at += size


def values(path):
    """Name, step, and the fields of each value."""
    data, at, found = Path(path).read_bytes(), 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        event = dict(fields(data[at + 12:at + 12 + size]))
        at += size + 16
        for _, value in fields(event.get(5, b"")):
            parts = dict(fields(value))
            found.append((parts[1].decode(), event.get(2, 0), parts))
    return found


def scalars(path):
    return [(name, step, struct.unpack("<f", parts[2])[0]) for name, step, parts in values(path) if 2 in parts]


class Events(InFolder):
    def file(self):
        (path,) = (self.folder / "run").iterdir()
        return path

    def test_numbers(self):
        numbers = [0.5, -0.0, math.inf, -math.inf, math.nan]
        with copse.EventFile(self.folder / "runs" / "one") as events:
            self.assertTrue(events.path.startswith(str(self.folder / "runs" / "one")))
            for i, number in enumerate(numbers):
                events.scalar("loss/train", i * 10, number)
            events.scalars(2**40, {"a": 1, "\u00fc": np.float32(2)})
        found = scalars(events.path)
        self.assertEqual([f[:2] for f in found],
                         [("loss/train", i * 10) for i in range(5)] + [("a", 2**40), ("\u00fc", 2**40)])
        np.testing.assert_equal([f[2] for f in found], numbers + [1.0, 2.0])

    @unittest.skipUnless(lib.copse_pictures_are_read(), "the library was built without pictures")
    def test_histograms_and_pictures(self):
        with copse.EventFile(self.folder / "run") as events:
            events.histogram("weights", 3, np.array([[1.0, -2.0], [np.nan, 0.5]]))
            events.histogram("none", 3, [])
            events.picture("grey", 4, np.zeros((2, 5), np.uint8))
            events.picture("colour", 4, np.zeros((2, 5, 3), np.uint8)[:, ::-1])
            for wrong in np.zeros((2, 5)), np.zeros(5, np.uint8), np.zeros((2, 5, 2), np.uint8):
                with self.assertRaisesRegex(copse.errors.ArgumentError, "pi(cture|xels)|channels"):
                    events.picture("wrong", 5, wrong)
        found = {name: parts for name, _, parts in values(events.path)}
        low, high, count, total = (struct.unpack("<d", dict(fields(found["weights"][5]))[i])[0] for i in (1, 2, 3, 4))
        self.assertEqual((low, high, count, total), (-2.0, 1.0, 3.0, -0.5))
        for name, colours in ("grey", 1), ("colour", 3):
            picture = dict(fields(found[name][4]))
            self.assertEqual((picture[1], picture[2], picture[3]), (2, 5, colours))
            self.assertTrue(picture[4].startswith(b"\x89PNG"))

    def test_closed_and_wrong_files(self):
        events = copse.EventFile(self.folder / "run")
        events.scalar("a", 0, 1.0)
        events.flush()
        self.assertEqual(scalars(events.path), [("a", 0, 1.0)])
        for name, step in ("", 0), ("x" * 300, 0), ("a", 2**63):
            with self.assertRaises(copse.errors.ArgumentError):
                events.scalar(name, step, 1.0)
        events.close()
        events.close()
        with self.assertRaises(copse.errors.ArgumentError):
            events.scalar("a", 1, 1.0)
        (self.folder / "file").write_text("x")
        with self.assertRaises(OSError):
            copse.EventFile(self.folder / "file")

    def test_fit(self):
        x, y = toy()
        for device in DEVICES:
            folder = self.folder / device.replace(":", "")
            strategy = copse.Strategy(device)
            trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4))
            history = trainer.fit({"x": x, "y": y}, 3, validation_data={"x": x, "y": y}, logdir=folder).history
            (path,) = folder.iterdir()
            self.assertEqual([f[:2] for f in scalars(path)], [
                (name, step) for step in (1, 2, 3)
                for name in ("loss/train", "accuracy/train", "loss/held out", "accuracy/held out")])
            np.testing.assert_allclose([f[2] for f in scalars(path)],
                                       np.transpose([history[n] for n in history]).ravel(), rtol=1e-6)
        model = copse.Model(copse.Strategy("host"), copse.Dataset.arrays(x, y), "dense out")
        with self.assertRaises(ZeroDivisionError):
            model.fit(copse.Dataset.arrays(x, y), 9, lambda epoch, means: 1 / (1 - epoch), logdir=self.folder / "run")
        self.assertEqual([f[1] for f in scalars(self.file()) if f[0] == "loss/train"], [1, 2])

    def test_gradients(self):
        x, y = toy()
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4), summarize_gradients=True)
        trainer.step({"x": x, "y": y})
        with copse.EventFile(self.folder / "run") as events:
            events.gradients(trainer, 1)
            with self.assertRaises(copse.errors.ArgumentError):
                events.gradients(copse.Trainer(strategy, lambda inputs: ops.mean(inputs["x"])), 1)
        names = [name for name, _, _ in values(events.path)]
        for v in strategy.variables():
            self.assertIn(f"gradients/{v.name}/norm", names)


if __name__ == "__main__":
    unittest.main()
