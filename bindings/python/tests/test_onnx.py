# SPDX-License-Identifier: MIT
"""Networks of ONNX files: written from a model, applied, trained and saved again."""
import subprocess
import sys
import unittest

import numpy as np

import copse
from copse import errors, ops
from copse._library import lib

from rig import DEVICES, InFolder


@unittest.skipUnless(lib.copse_onnx_is_read(), "the library was built without protobuf-c")
class Onnx(InFolder):
    def setUp(self):
        super().setUp()
        x = np.random.default_rng(1).standard_normal((80, 3)).astype(np.float32)
        y = (x[:, 0] > x[:, 1]).astype(np.int32)
        self.x, self.y = x, y
        self.path = str(self.folder / "m.onnx")
        rows, model = str(self.folder / "rows.csv"), str(self.folder / "m.safetensors")
        with open(rows, "w", encoding="utf-8") as f:
            f.write("a,b,c,kind\n" + "".join(f"{a},{b},{c},{'more' if k else 'less'}\n" for (a, b, c), k in zip(x, y)))
        for arguments in (["train", "--data", rows, "--model", "mlp:8", "--epochs", "2", "--quiet", "--save", model, "--devices", "host"],
                          ["export", model, "--onnx", self.path]):
            subprocess.run([sys.executable, "-m", "copse", *arguments], check=True, capture_output=True)

    def test_what_is_in_it(self):
        m = copse.OnnxModel(self.path)
        self.assertEqual((m.inputs, m.outputs, m.opset, m.refused), (["x"], ["y"], 21, []))
        self.assertIn("dense1.weight", m.weights)
        with self.assertRaises(errors.Error):
            copse.OnnxModel(str(self.folder / "rows.csv"))

    def test_training(self):
        strategy = copse.Strategy(DEVICES[0])
        m = copse.OnnxModel(self.path, strategy, scope="net")

        def loss(inputs):
            p = m({"x": inputs["x"]})["y"]
            return ops.neg(ops.mean(ops.log(ops.sum(p * ops.one_hot(inputs["y"], 2), -1))))
        trainer = copse.Trainer(strategy, loss, learning_rate=0.05)
        losses = [trainer.step({"x": self.x, "y": self.y}).loss for _ in range(20)]
        self.assertLess(losses[-1], losses[0] - 0.05)
        tuned = str(self.folder / "tuned.onnx")
        m.save(tuned)
        again = copse.OnnxModel(tuned, copse.Strategy(DEVICES[0]))
        self.assertEqual(again.parameters, m.parameters)
        with self.assertRaises(errors.Error):
            copse.OnnxModel(self.path, copse.Strategy(DEVICES[0]), trained="none*")

    def test_what_is_refused(self):
        strategy = copse.Strategy(DEVICES[0])
        with self.assertRaisesRegex(errors.ArgumentError, "names no weight"):
            copse.OnnxModel(self.path, strategy, trained=[])
        with self.assertRaisesRegex(errors.ArgumentError, "needs a strategy"):
            copse.OnnxModel(self.path, trained="dense1.*")
        m = copse.OnnxModel(self.path, strategy, scope="refused", trained=["dense1.*", " dense2.bias"])
        for x in (self.x, 1.0):
            with self.assertRaisesRegex(errors.ArgumentError, "an operand is"):
                copse.Trainer(strategy, lambda inputs: ops.mean(m({"x": x})["y"])).step({"x": self.x})


if __name__ == "__main__":
    unittest.main()
