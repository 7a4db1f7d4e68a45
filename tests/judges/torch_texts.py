# SPDX-License-Identifier: MIT
"""torch_texts.py: the networks of `copse train --model gpt:...`, `decoder:...`, `gru:...` and `lstm:...` beside PyTorch, on host:0,
opencl:0 and vulkan:0.

The command trains each network for one epoch on a text and saves it. From these weights Copse and PyTorch make 20 steps each
with equal batches, in single precision: the token after each position is predicted. Every loss may differ by 1e-4 of its size, and
so may the loss of all examples afterwards. Each line shows the difference of PyTorch in single and in double precision, too. host:0
runs one rule. Exit code 0; 1; 77: skipped.
"""
import os
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
from torch_training import DEVICES, LIMIT, STEPS, largest, parsed, usable

BATCH, CONTEXT = 8, 16
SGD, ADAM = torch.optim.SGD, torch.optim.Adam
RULES = [("sgd", 0.1, SGD, {}), ("momentum", 0.05, SGD, {"momentum": 0.9}), ("adam", 0.002, ADAM, {})]
NETWORKS = ["gpt:2,32,4", "decoder:2,32,4", "gru:2,32", "lstm:2,32"]
WORDS = "the owl saw a fox and it slept near our oak until dawn came with rain".split()


# ---- data ----

def tokens():
    """A text of words in a fixed random order, its tokens, and their number."""
    text = " ".join(WORDS[i] for i in np.random.default_rng(5).integers(0, len(WORDS), 1200))[:STEPS * BATCH * CONTEXT + 1]
    letters = sorted(set(text))
    return text, np.array([letters.index(c) for c in text], np.int32), len(letters)


def trained_file(folder, name, text):
    """A model file of one epoch of `copse train --model name`."""
    data, path = f"{folder}/text.txt", f"{folder}/{name.split(':')[0]}.safetensors"
    with open(data, "w") as f:
        f.write(text)
    subprocess.run([os.environ["COPSE_COMMAND"], "train", "--data", data, "--tokens", "characters", "--context", str(CONTEXT),
                    "--model", name, "--devices", "opencl:0" if "opencl:0" in usable() else "host:0", "--batch", "16",
                    "--epochs", "1", "--quiet", "--save", path], check=True)
    return path


# ---- the same networks in PyTorch ----

class Network:
    """A description with variables of these names; x are tokens [n, positions]."""

    def __init__(self, text, values):
        self.layers = parsed(text)
        self.variables = {n: torch.tensor(v).requires_grad_() for n, v in values.items()}
        self.trained = list(self.variables.values())

    def __call__(self, x):
        self.counts = {}
        return self.sequence(self.layers, x)

    def sequence(self, layers, x):
        for kind, values, settings, inner in layers:
            name = f"{kind}{self.counts.setdefault(kind, 0) + 1}"
            self.counts[kind] += 1
            if set(settings) - {"causal", "rotary", "bias", "init", "scale"} or not hasattr(self, kind):
                raise ValueError(f"this judge does not know {kind} with {settings}")
            x = getattr(self, kind)(name, x, values, settings, inner)
        return x

    def get(self, name, what):
        return self.variables[f"{name}.{what}"]

    def product(self, name, x, weight="weight", bias="bias"):
        y = x @ self.get(name, weight)
        return y + self.get(name, bias) if f"{name}.{bias}" in self.variables else y

    def embedding(self, name, x, *_):
        return F.embedding(x.long(), self.get(name, "weight"))

    def positions(self, name, x, *_):
        return x + self.get(name, "weight")

    def residual(self, _name, x, _values, _settings, inner):
        return x + self.sequence(inner, x)

    def layer_norm(self, name, x, *_):
        return F.layer_norm(x, x.shape[-1:], self.get(name, "scale"), self.get(name, "offset"), 1e-5)

    def dense(self, name, x, values, *_):
        y = self.product(name, x)
        return F.gelu(y) if "gelu" in values else y

    def rms_norm(self, name, x, *_):
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * self.get(name, "scale")

    def glu(self, name, x, values, *_):
        if values[1:] != ["silu"]:
            raise ValueError(f"this judge does not know glu {values}")
        gate, value = self.product(name, x).chunk(2, -1)
        return F.silu(gate) * value

    @staticmethod
    def turned(x):
        """Rotary positions of x [n, heads, positions, width], as in decoders of PyTorch: x cos + rotate_half(x) sin."""
        t, w = x.shape[2:]
        angles = np.arange(t)[:, None] * 10000.0 ** (-np.arange(w // 2) * 2 / w)
        angles = torch.tensor(np.concatenate([angles, angles], -1))
        first, second = x.chunk(2, -1)
        return x * angles.cos().to(x.dtype) + torch.cat([-second, first], -1) * angles.sin().to(x.dtype)

    def attention(self, name, x, values, settings, _):
        heads, (n, t, w) = int(values[0]), x.shape
        parts = self.product(name, x, "qkv", "qkv_bias").split(w, -1)
        q, k, v = (p.reshape(n, t, heads, w // heads).transpose(1, 2) for p in parts)
        if settings.get("rotary") == "yes":
            q, k = self.turned(q), self.turned(k)
        scores = q @ k.transpose(2, 3) / (w // heads) ** 0.5
        if settings.get("causal") == "yes":
            scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -torch.inf)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, w)
        return self.product(name, y, "out", "out_bias")

    def gru(self, name, x, *_):
        weights = [self.get(name, "weight").T, self.get(name, "recurrent").T, self.get(name, "bias"), self.get(name, "recurrent_bias")]
        first = torch.zeros(1, len(x), len(self.get(name, "recurrent")), dtype=x.dtype)
        return torch._VF.gru(x, first, weights, True, 1, 0.0, True, False, True)[0]

    def lstm(self, name, x, *_):
        weights = [self.get(name, "weight").T, self.get(name, "recurrent").T, self.get(name, "bias"),
                   torch.zeros_like(self.get(name, "bias"))]
        first = torch.zeros(1, len(x), len(self.get(name, "recurrent")), dtype=x.dtype)
        return torch._VF.lstm(x, (first, first), weights, True, 1, 0.0, True, False, True)[0]


# ---- the comparison ----

def batch(stream, step):
    x = stream[step * BATCH * CONTEXT:][:BATCH * CONTEXT + 1]
    return x[:-1].reshape(BATCH, CONTEXT), x[1:].reshape(BATCH, CONTEXT)


def expected(text, values, dtype, make, rate, settings, stream):
    """Losses of the steps, and that of all examples afterwards."""
    network = Network(text, {n: v.astype(dtype) for n, v in values.items()})
    optimizer = make(network.trained, lr=rate, **settings)

    def loss_of(x, y):
        return F.cross_entropy(network(torch.tensor(x)).flatten(0, 1), torch.tensor(y.reshape(-1)).long())
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(*batch(stream, step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        return losses + [loss_of(stream[:-1].reshape(-1, CONTEXT), stream[1:].reshape(-1, CONTEXT)).item()]


def computed(device, text, values, rule, rate, stream, letters):
    strategy = copse.Strategy(device)
    network = copse.nn.Layers(text, strategy, shape=(CONTEXT,), dtype="int32", outputs=letters, tokens=letters)
    variables = strategy.variables()
    if {v.name for v in variables} != set(values):
        raise ValueError(f"variables {sorted(v.name for v in variables)} are not those of the file, {sorted(values)}")
    for v in variables:
        v.assign(values[v.name])

    def loss_of(inputs):
        y = network(inputs, inputs["x"])
        return ops.sparse_cross_entropy(ops.reshape(y, (-1, letters)), ops.reshape(inputs["y"], (-1,)))
    trainer = copse.Trainer(strategy, loss_of, optimizer=rule, learning_rate=rate)
    losses = []
    for step in range(STEPS):
        x, y = batch(stream, step)
        losses.append(trainer.step({"x": x, "y": y}).loss)
    losses.append(trainer.evaluate({"x": stream[:-1].reshape(-1, CONTEXT), "y": stream[1:].reshape(-1, CONTEXT)}).loss)
    trainer.close()
    return losses


def main():
    wrong = cases = 0
    text, stream, letters = tokens()
    for device in DEVICES:
        if device not in usable():
            print(f"skipped on {device}: there is no such device")
    with tempfile.TemporaryDirectory() as folder:
        for name in NETWORKS:
            arrays, metadata = copse.safetensors.load(trained_file(folder, name, text))
            values = {n: a for n, a in arrays.items() if not n.startswith("application/")}
            for rule, rate, make, settings in RULES:
                want = expected(metadata["network"], values, np.float32, make, rate, settings, stream)
                noise = largest(want, expected(metadata["network"], values, np.float64, make, rate, settings, stream))[0]
                for device in DEVICES:
                    if device not in usable() or (device == "host:0" and rule != "sgd"):
                        continue
                    error, step, evaluated = largest(computed(device, metadata["network"], values, rule, rate, stream, letters), want)
                    is_right = max(error, evaluated) <= LIMIT
                    cases += 1
                    wrong += not is_right
                    print(f"{'pass' if is_right else 'FAIL'}  {device} {name} {rule}: losses {want[0]:.4f} to "
                          f"{want[STEPS - 1]:.4f}, largest difference {error:.2g} at step {step}; evaluated {evaluated:.2g}; "
                          f"PyTorch in double {noise:.2g}", flush=True)
    print(f"{cases} cases, {wrong} wrong; PyTorch {torch.__version__}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
