# SPDX-License-Identifier: MIT
"""torch_training.py: the networks of `copse train --model cnn` and `resnet20` beside PyTorch, on host:0, opencl:0 and vulkan:0.

The command trains each network for one epoch and saves it. From these weights Copse and PyTorch make 20 steps each with equal
batches, in single precision, without dropout: its random numbers differ. Every loss may differ by 1e-4 of its size. Afterwards
the loss of all examples is compared, which uses the moving averages of batch norm. ResNet-20 amplifies rounding: at the rates
of the CNN, PyTorch in single precision differs from PyTorch in double by 1e-2 after 12 steps. Its rates are small enough that
these two agree; each line shows their difference, too. Where Copse and PyTorch still differ, rounding may have moved a value to
the other side of a kink, of relu or of max pooling: PyTorch then runs from weights that are changed by one rounding each. If
one of these runs differs from the run of the given weights by more than 1e-4, rounding decides, and the losses have to agree
with one of these runs, all of them. Otherwise the given weights alone count (nearest_runs.py).
host:0 runs one rule. The CNN trains with the other losses of the
library, too, at smaller rates: at the rate of the first loss PyTorch in single precision differs from PyTorch in double by up to
9e-3 (cosine), because rounding decides on which side of a kink of relu or max pooling a value is. Exit code 0; 1; 77: skipped.
"""
import os
import re
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing}): name a Python with torch, numpy and cffi in COPSE_TORCH_PYTHON")
    sys.exit(77)
import torch.nn.functional as F

import copse
from copse import ops
from nearest_runs import differences, nearest_run

STEPS, BATCH, SIDE, CLASSES, LIMIT = 20, 16, 14, 10, 1e-4
ROUNDINGS = 24  # runs of PyTorch from rounded weights
SGD, ADAM = torch.optim.SGD, torch.optim.Adam
RULES = {  # Copse's name and rate; PyTorch's optimizer
    "cnn": [("sgd", 0.02, SGD, {}), ("momentum", 0.01, SGD, {"momentum": 0.9}), ("adam", 0.001, ADAM, {})],
    "resnet20": [("sgd", 2e-4, SGD, {}), ("momentum", 2e-5, SGD, {"momentum": 0.9}), ("adam", 1e-5, ADAM, {})],
}
WEIGHTS = np.linspace(0.5, 2, CLASSES).astype(np.float32)


def one_hot(y, h):
    return F.one_hot(y, CLASSES).to(h.dtype)


def spread(y):
    return ops.one_hot(y, CLASSES) * 0.9 + 0.1 / CLASSES


# Losses: of logits and classes, here and in PyTorch. The rules above use the first; with each other the CNN makes 20 steps.
LOSSES = [
    ("cross-entropy", lambda h, y: ops.sparse_cross_entropy(h, y), lambda h, y: F.cross_entropy(h, y)),
    ("label smoothing", lambda h, y: ops.cross_entropy(h, y, label_smoothing=0.1),
     lambda h, y: F.cross_entropy(h, y, label_smoothing=0.1)),
    ("class weights", lambda h, y: ops.cross_entropy(h, y, class_weights=ops.constant(WEIGHTS)),
     lambda h, y: F.cross_entropy(h, y, torch.tensor(WEIGHTS, dtype=h.dtype))),
    ("ignored label", lambda h, y: ops.cross_entropy(h, y, ignored_label=3), lambda h, y: F.cross_entropy(h, y, ignore_index=3)),
    ("binary cross-entropy", lambda h, y: ops.binary_cross_entropy(h, ops.one_hot(y, CLASSES), ops.fill((), 3)),
     lambda h, y: F.binary_cross_entropy_with_logits(h, one_hot(y, h), pos_weight=torch.tensor(3.0, dtype=h.dtype))),
    ("huber", lambda h, y: ops.huber_loss(h, ops.one_hot(y, CLASSES), 0.3),
     lambda h, y: F.huber_loss(h, one_hot(y, h), delta=0.3)),
    ("smooth l1", lambda h, y: ops.smooth_l1_loss(h, ops.one_hot(y, CLASSES), 0.3),
     lambda h, y: F.smooth_l1_loss(h, one_hot(y, h), beta=0.3)),
    ("kl", lambda h, y: ops.kl_divergence(ops.log_softmax(h), spread(y)),
     lambda h, y: F.kl_div(F.log_softmax(h, 1), one_hot(y, h) * 0.9 + 0.1 / CLASSES, reduction="batchmean")),
    ("cosine", lambda h, y: 1 - ops.mean(ops.cosine_similarity(h, ops.one_hot(y, CLASSES))),
     lambda h, y: 1 - F.cosine_similarity(h, one_hot(y, h)).mean()),
]
DEVICES = os.environ.get("COPSE_TEST_DEVICES", "host:0 opencl:0 vulkan:0").split()


# ---- data ----

def pictures():
    """The digits of the package, enlarged, as u8 [n, SIDE, SIDE], and their classes."""
    digits = copse.Dataset.open(copse.DIGITS)
    x = np.asarray(digits.column("x"), np.float32).reshape(-1, 8, 8)[:STEPS * BATCH]
    x = np.kron(x, np.ones((2, 2), np.float32))[:, 1:1 + SIDE, 1:1 + SIDE]
    return np.round(x * (255 / x.max())).astype(np.uint8), np.asarray(digits.column("y"), np.int32)[:STEPS * BATCH]


def write_idx(path, values):
    with open(path, "wb") as f:
        f.write(struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.astype(np.uint8).tobytes())


def trained_file(folder, name, x, y):
    """A model file of one epoch of `copse train --model name`."""
    os.makedirs(f"{folder}/data", exist_ok=True)
    write_idx(f"{folder}/data/train-images-idx3-ubyte", x)
    write_idx(f"{folder}/data/train-labels-idx1-ubyte", y)
    path = f"{folder}/{name}.safetensors"
    subprocess.run([os.environ["COPSE_COMMAND"], "train", "--data", f"{folder}/data", "--model", name, "--devices",
                    "opencl:0" if "opencl:0" in usable() else "host:0", "--batch", "32", "--epochs", "1", "--quiet",
                    "--save", path], check=True)
    return path


def usable():
    return {d.id for d in copse.devices() if d.is_usable}


# ---- the same network in PyTorch ----

def parsed(text):
    """Layers of a description: lists [kind, values, settings, inner layers]."""
    tokens = re.findall(r"[{};]|[^{};]+", text.replace("\n", ";"))

    def block():
        layers = []
        while tokens and tokens[0] != "}":
            token = tokens.pop(0).strip()
            if token in ("", ";"):
                continue
            words = token.split()
            inner = None
            if tokens and tokens[0] == "{":
                tokens.pop(0)
                inner = block()
                tokens.pop(0)
            layers.append([words[0], [w for w in words[1:] if "=" not in w],
                           dict(w.split("=") for w in words[1:] if "=" in w), inner])
        return layers
    return block()


def pair(text):
    a, _, b = text.partition("x")
    return int(a), int(b or a)


class Network:
    """A description with variables of these names; images are [n, channels, height, width]."""

    def __init__(self, text, values):
        self.layers = parsed(text)
        self.variables = {n: torch.tensor(v) for n, v in values.items()}
        self.trained = [v.requires_grad_() for n, v in self.variables.items() if n.split(".")[1] not in ("mean", "variance")]

    def __call__(self, x, trains):
        self.counts, self.trains = {}, trains
        return self.sequence(self.layers, x)

    def sequence(self, layers, x):
        for kind, values, settings, inner in layers:
            name = f"{kind}{self.counts.setdefault(kind, 0) + 1}"
            self.counts[kind] += 1
            unknown = set(settings) - {"conv": {"stride", "bias"}, "dense": {"bias"}, "max_pool": set()}.get(kind, set())
            if unknown or not hasattr(self, kind):
                raise ValueError(f"this judge does not know {kind} with {unknown}")
            x = getattr(self, kind)(name, x, values, settings, inner)
        return x

    def get(self, name, what):
        return self.variables.get(f"{name}.{what}")

    def conv(self, name, x, values, settings, _):
        w, stride, padding = self.get(name, "weight"), pair(settings.get("stride", "1")), []
        for size, step, taps in reversed(list(zip(x.shape[2:], stride, w.shape))):
            zeros = max((-(-size // step) - 1) * step + taps - size, 0)
            padding += [zeros // 2, zeros - zeros // 2]
        y = F.conv2d(F.pad(x, padding), w.permute(3, 2, 0, 1), self.get(name, "bias"), stride)
        return F.relu(y) if "relu" in values else y

    def dense(self, name, x, values, _settings, _):
        y = x @ self.get(name, "weight")
        if self.get(name, "bias") is not None:
            y = y + self.get(name, "bias")
        return F.relu(y) if "relu" in values else y

    def batch_norm(self, name, x, *_):
        mean, variance = self.get(name, "mean"), self.get(name, "variance")
        if self.trains:  # PyTorch's average is of the variance divided by n - 1
            with torch.no_grad():
                rows = x.transpose(0, 1).flatten(1)
                mean += 0.1 * (rows.mean(1) - mean)
                variance += 0.1 * (rows.var(1, unbiased=False) - variance)
            mean = variance = None
        return F.batch_norm(x, mean, variance, self.get(name, "scale"), self.get(name, "offset"), self.trains, 0.0, 1e-5)

    def residual(self, _name, x, _values, _settings, inner):
        shortcut = [each for each in inner if each[0] == "shortcut"]
        y = self.sequence([each for each in inner if each[0] != "shortcut"], x)
        return y + (self.sequence(shortcut[0][3], x) if shortcut else x)

    def max_pool(self, _name, x, values, *_):
        return F.max_pool2d(x, pair(values[0]))

    def flatten(self, _name, x, *_):
        return x.permute(0, 2, 3, 1).flatten(1)  # channels are the last axis here

    def global_pool(self, _name, x, *_):
        return x.mean((2, 3))

    def relu(self, _name, x, *_):
        return F.relu(x)


# ---- the comparison ----

def without_dropout(text):
    return re.sub(r"dropout[^;}\n]*[;\n]?", "", text)


def batch(x, y, step):
    rows = slice(step * BATCH, (step + 1) * BATCH)
    return x[rows], y[rows]


def expected(text, values, dtype, make, rate, settings, x, y, loss_of=LOSSES[0][2]):
    """Losses of the steps, and the loss of all examples afterwards."""
    network, x = Network(text, {n: v.astype(dtype) for n, v in values.items()}), x.astype(dtype)
    optimizer = make(network.trained, lr=rate, **settings)
    losses = []
    for step in range(STEPS):
        bx, by = batch(x, y, step)
        optimizer.zero_grad()
        loss = loss_of(network(torch.tensor(bx)[:, None], True), torch.tensor(by).long())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        return losses + [loss_of(network(torch.tensor(x)[:, None], False), torch.tensor(y).long()).item()]


def computed(device, text, values, rule, rate, x, y, loss_of=LOSSES[0][1]):
    strategy = copse.Strategy(device)
    network = copse.nn.Layers(text, strategy, shape=(SIDE, SIDE), outputs=CLASSES)
    variables = strategy.variables()
    if {v.name for v in variables} != set(values):
        raise ValueError(f"variables {sorted(v.name for v in variables)}; the file has others, {sorted(values)}")
    for v in variables:
        v.assign(values[v.name])
    trainer = copse.Trainer(strategy, lambda inputs: loss_of(network(inputs, inputs["x"]), inputs["y"]),
                            optimizer=rule, learning_rate=rate)
    losses = []
    for step in range(STEPS):
        bx, by = batch(x, y, step)
        losses.append(trainer.step({"x": bx, "y": by}).loss)
    losses.append(trainer.evaluate({"x": x, "y": y}).loss)
    trainer.close()
    return losses


def largest(got, want):
    """The largest difference of the losses of steps, its step, and the difference of the last loss."""
    errors = differences(got, want)
    return max(errors[:STEPS]), int(np.argmax(errors[:STEPS])) + 1, errors[STEPS]


def rounded(values, seed):
    """The values with each f32 moved to one of its two neighbours."""
    sides = np.random.default_rng(seed)
    return {n: np.nextafter(v, np.where(sides.random(v.shape) < 0.5, -np.inf, np.inf).astype(v.dtype)) for n, v in values.items()}


class Runs:
    """Runs of PyTorch in single precision: from the given weights, and from rounded ones, which are made when they are needed."""

    def __init__(self, run, values):
        self.run, self.values, self.made = run, values, [run(values)]

    def nearest(self, got):
        """The run that judges `got`, and its number: 0 for the given weights; see nearest_runs.py."""
        def made(i):
            while i >= len(self.made):
                self.made.append(self.run(rounded(self.values, len(self.made))))
            return self.made[i]
        number = nearest_run(got, made, 1 + ROUNDINGS, LIMIT)
        return made(number), number


def main():
    wrong = cases = 0
    x, y = pictures()
    scaled = x.astype(np.float32) / np.float32(255)
    for device in DEVICES:
        if device not in usable():
            print(f"skipped on {device}: there is no such device")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cnn", "resnet20"):
            arrays, metadata = copse.safetensors.load(trained_file(folder, name, x, y))
            text = without_dropout(metadata["network"])
            values = {n: a for n, a in arrays.items() if not n.startswith("application/")}
            jobs = [(rule, *LOSSES[0]) for rule in RULES[name]]
            for each in LOSSES[1:] if name == "cnn" else []:
                jobs.append((("sgd", 0.001 if each[0] == "cosine" else 0.004, SGD, {}), *each))
            for (rule, rate, make, settings), loss, ours, theirs in jobs:
                def run(weights, dtype=np.float32):
                    return expected(text, weights, dtype, make, rate, settings, scaled, y, theirs)
                runs = Runs(run, values)
                noise = largest(runs.made[0], run(values, np.float64))[0]
                for device in DEVICES:
                    is_one = rule == "sgd" and loss == LOSSES[0][0]
                    if device not in usable() or (device == "host:0" and not is_one):
                        continue
                    got = computed(device, text, values, rule, rate, scaled, y, ours)
                    want, number = runs.nearest(got)
                    error, step, evaluated = largest(got, want)
                    is_right = max(error, evaluated) <= LIMIT
                    cases += 1
                    wrong += not is_right
                    print(f"{'pass' if is_right else 'FAIL'}  {device} {name} {rule} {loss}: losses {want[0]:.4f} to "
                          f"{want[STEPS - 1]:.4f}, largest difference {error:.2g} at step {step}; evaluated {evaluated:.2g}; "
                          f"PyTorch in double {noise:.2g}" + (f"; from rounded weights {number}" if number else ""), flush=True)
    print(f"{cases} cases, {wrong} wrong; PyTorch {torch.__version__}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
