# SPDX-License-Identifier: MIT
"""peers.py: training steps of small networks in Copse, PyTorch and JAX, alternated.

Each framework runs in a process of its own, which is started and warmed up first. Then all of a row take turns, in the
reverse order every other round, and the medians of the rounds are compared: the ratio is a peer's time divided by
Copse's time in the same round, so more than 1 says that Copse is faster. A step takes new labels, and trains with Adam.
Each framework reads the loss of each step to the host. Copse has up to 8 steps under way, as `copse train` has; the
times contain all of them. PyTorch has two rows, eager and compiled; pictures are in channels last, which is the faster
layout there. The last rows are networks of the arena (arena_models.py), which train with momentum. Run it on a quiet
machine. Exit code 0; 1: a row failed; 77: skipped.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

from arena_models import MODELS, weights_of

THREADS = len(os.sched_getaffinity(0))
AHEAD = 8   # steps of Copse under way
LABELS = 16  # different batches of labels


# ---- the networks ----

def block(channels):
    return (f"residual {{ conv {channels} 3x3 bias=no; batch_norm; relu; conv {channels} 3x3 bias=no; batch_norm }}; "
            "relu; ")


def halving(channels):
    return (f"residual {{ conv {channels} 3x3 stride=2 bias=no; batch_norm; relu; conv {channels} 3x3 bias=no; "
            f"batch_norm; shortcut {{ conv {channels} 1x1 stride=2 bias=no; batch_norm }} }}; relu; ")


def perceptron(widths):
    return "; ".join([f"dense {w} relu" for w in widths[1:-1]] + ["dense out"])


CNN = ("conv 32 3x3 relu; conv 32 3x3 relu; max_pool 2; conv 64 3x3 relu; conv 64 3x3 relu; max_pool 2; flatten; "
       "dropout 0.25; dense 128 relu; dropout 0.5; dense out")
RESNET = ("conv 16 3x3 bias=no; batch_norm; relu; " + block(16) * 3 + halving(32) + block(32) * 2 + halving(64) +
          block(64) * 2 + "global_pool; dense out")
GPT = ("embedding in 128 scale=0.02; positions scale=0.02; " +
       "residual { layer_norm; attention 4 causal=yes init=normal scale=0.02 }; residual { layer_norm; dense 512 gelu "
       "init=normal scale=0.02; dense 128 init=normal scale=0.007 }; " * 4 +
       "layer_norm; dense out init=normal scale=0.02")


class Row:
    """Of one network: widths of a perceptron or the name of the network, its description for Copse, the shape of an
    example (tokens: one number), classes, examples of a step, and steps of a sample."""

    def __init__(self, network, text, shape, classes, batch, steps):
        self.network, self.text, self.shape, self.classes = network, text, shape, classes
        self.batch, self.steps = batch, steps
        self.is_text = network in ("gpt", "gru", "lstm")


class ArenaRow:
    """Of a network of the arena in its full size; a step trains on the same inputs each time."""

    def __init__(self, network):
        self.network, self.steps = network, 1
        self.model, self.make_inputs, self.sizes = MODELS[network][:3]

    def weights(self):
        return weights_of(self.network, self.sizes, False)


def dense_row(widths, batch, steps):
    return Row(widths, perceptron(widths), (widths[0],), widths[-1], batch, steps)


LARGE = [784, 512, 512, 10]
ROWS = {
    "mlp": dense_row(LARGE, 256, 20),
    "small": dense_row([64, 128, 64, 10], 64, 200),
    "cnn": Row("cnn", CNN, (28, 28, 1), 10, 128, 3),
    "resnet20": Row("resnet20", RESNET, (32, 32, 3), 10, 128, 2),
    "gpt": Row("gpt", GPT, (128,), 65, 16, 4),
    "gru": Row("gru", "embedding in 256; gru 256; gru 256; dense out", (64,), 65, 32, 2),
    "lstm": Row("lstm", "embedding in 256; lstm 256; lstm 256; dense out", (64,), 65, 32, 2),
    "batch64": dense_row(LARGE, 64, 20),
    "batch1024": dense_row(LARGE, 1024, 3),
    "batch4096": dense_row(LARGE, 4096, 1),
    "depth2": dense_row([256] * 3 + [10], 256, 10),
    "depth8": dense_row([256] * 9 + [10], 256, 5),
    "depth32": dense_row([256] * 33 + [10], 256, 3),
    "thin2": dense_row([64] * 3 + [10], 64, 100),
    "thin8": dense_row([64] * 9 + [10], 64, 60),
    "thin32": dense_row([64] * 33 + [10], 64, 30),
    **{network: ArenaRow(network) for network in MODELS},
}


def inputs_of(row, np):
    """The examples and LABELS arrays of labels, each [batch] or, of texts, [batch, positions]."""
    random = np.random.default_rng(0)
    shape = (row.batch, *row.shape)
    x = random.integers(0, row.classes, shape, np.int32) if row.is_text else random.random(shape, np.float32)
    labels = shape if row.is_text else shape[:1]
    return x, [random.integers(0, row.classes, labels, np.int32) for _ in range(LABELS)]


# ---- Copse ----

def copse_steps(row, device):
    """A function that makes n steps and reads the loss of each."""
    import copse
    strategy = copse.Strategy(device)
    make = arena_trainer if isinstance(row, ArenaRow) else small_trainer
    trainer, batches = make(row, strategy)
    made = 0

    def run(steps):
        nonlocal made
        under_way = 0
        for _ in range(steps):
            trainer.step(batches[made % len(batches)], wait=False)
            made, under_way = made + 1, under_way + 1
            while under_way and trainer.result(wait=under_way >= AHEAD) is not None:
                under_way -= 1
        trainer.results()
    return run


def arena_trainer(row, strategy):
    from arena_sides import CopseOps, copse_trainer, with_variables
    inputs, o = row.make_inputs(row.sizes), CopseOps(strategy, row.weights())
    with_variables(row.model, o, inputs, row.sizes)
    return copse_trainer(o, row.model, row.sizes), [inputs]


def small_trainer(row, strategy):
    import numpy as np
    import copse
    from copse import nn, ops
    x, labels = inputs_of(row, np)
    settings = {"dtype": "int32", "tokens": row.classes} if row.is_text else {}
    net = nn.Layers(row.text, strategy, shape=row.shape, outputs=row.classes, seed=1, **settings)

    def loss(given):
        y, target = net(given, given["x"]), given["y"]
        return ops.sparse_cross_entropy(ops.reshape(y, (-1, row.classes)), ops.reshape(target, (-1,)))
    trainer = copse.Trainer(strategy, loss, optimizer="adam", learning_rate=1e-3)
    return trainer, [{"x": x, "y": y} for y in labels]


# ---- PyTorch ----

def torch_network(row, torch):
    nn, f = torch.nn, torch.nn.functional

    class Residual(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.inner = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
            self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            return f.relu(self.shortcut(x) + self.inner(x))

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, d = x.shape
            q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
            return x + self.down(f.gelu(self.up(self.second(x))))

    class Transformer(nn.Module):
        def __init__(self, tokens, positions, width, heads, layers):
            super().__init__()
            self.tokens = nn.Embedding(tokens, width)
            self.positions = nn.Parameter(torch.randn(positions, width) * 0.02)
            self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens)

        def forward(self, x):
            return self.head(self.norm(self.blocks(self.tokens(x) + self.positions))).flatten(0, 1)

    class Recurrent(nn.Module):
        def __init__(self, kind, tokens, width, layers):
            super().__init__()
            self.tokens, self.head = nn.Embedding(tokens, width), nn.Linear(width, tokens)
            self.cells = kind(width, width, layers, batch_first=True)

        def forward(self, x):
            return self.head(self.cells(self.tokens(x))[0]).flatten(0, 1)

    def conv(inputs, outputs):
        return nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()
    if row.network == "cnn":
        return nn.Sequential(*conv(1, 32), *conv(32, 32), nn.MaxPool2d(2), *conv(32, 64), *conv(64, 64),
                             nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.25), nn.Linear(3136, 128), nn.ReLU(),
                             nn.Dropout(0.5), nn.Linear(128, 10))
    if row.network == "resnet20":
        sizes = [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2
        return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                             *[Residual(*s) for s in sizes], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    if row.network == "gpt":
        return Transformer(row.classes, row.shape[0], 128, 4, 4)
    if row.is_text:
        return Recurrent({"gru": nn.GRU, "lstm": nn.LSTM}[row.network], row.classes, 256, 2)
    widths = row.network
    layers = [part for a, b in zip(widths, widths[1:]) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def torch_steps(row, compiles):
    import numpy as np
    import torch
    torch.set_num_threads(THREADS)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    if isinstance(row, ArenaRow):
        return arena_torch_steps(row, compiles)
    x, labels = inputs_of(row, np)
    x, labels = torch.from_numpy(x), [torch.from_numpy(y.astype(np.int64)).flatten() for y in labels]
    net = torch_network(row, torch)
    if len(row.shape) == 3:
        net, x = net.to(memory_format=torch.channels_last), x.permute(0, 3, 1, 2)
    x = x.long() if row.is_text else x
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)

    def loss_of(x, y):
        return torch.nn.functional.cross_entropy(net(x), y)
    loss_of = torch.compile(loss_of) if compiles else loss_of
    made = 0

    def run(steps):
        nonlocal made
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(x, labels[made % LABELS])
            loss.backward()
            optimizer.step()
            loss.item()
            made += 1
    return run


def arena_torch_steps(row, compiles):
    from arena_sides import TorchSteps
    made = TorchSteps("cpu", row.model, row.make_inputs(row.sizes), row.sizes, row.weights(), compiles=compiles)

    def run(steps):
        for _ in range(steps):
            made.step().item()
    return run


# ---- JAX ----

def jax_steps(row):
    """Perceptrons and the transformer; the whole step is one function, and its arguments are given away."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    random = np.random.default_rng(1)

    def linear(a, b):
        return [jnp.array(random.uniform(-1, 1, (a, b)).astype("f4") / a ** 0.5), jnp.zeros(b, "f4")]

    def cross_entropy(z, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1).mean()
    x, labels = inputs_of(row, np)
    x, labels = jnp.array(x), [jnp.array(y.flatten()) for y in labels]
    if row.network == "gpt":
        width, heads, positions = 128, 4, row.shape[0]
        norm = [jnp.ones(width), jnp.zeros(width)]
        weights = {"tokens": jnp.array(random.normal(0, 1, (row.classes, width)).astype("f4")),
                   "positions": jnp.array(random.normal(0, 0.02, (positions, width)).astype("f4")),
                   "blocks": [{"first": norm, "second": norm, "qkv": linear(width, 3 * width),
                               "out": linear(width, width), "up": linear(width, 4 * width),
                               "down": linear(4 * width, width)} for _ in range(4)],
                   "norm": norm, "head": linear(width, row.classes)}
        weights = jax.tree_util.tree_map(jnp.array, weights)  # no array twice: they are given away
        mask = jnp.tril(jnp.ones((positions, positions), bool))

        def normed(h, p):
            m, v = h.mean(-1, keepdims=True), h.var(-1, keepdims=True)
            return (h - m) * jax.lax.rsqrt(v + 1e-5) * p[0] + p[1]

        def loss_of(w, x, y):
            h = w["tokens"][x] + w["positions"]
            for b in w["blocks"]:
                qkv = (normed(h, b["first"]) @ b["qkv"][0] + b["qkv"][1]).reshape(row.batch, positions, 3, heads, -1)
                q, k, v = jnp.transpose(qkv, (2, 0, 3, 1, 4))
                a = jax.nn.softmax(jnp.where(mask, (q @ k.swapaxes(-1, -2)) * (width // heads) ** -0.5, -jnp.inf))
                h = h + (a @ v).swapaxes(1, 2).reshape(h.shape) @ b["out"][0] + b["out"][1]
                up = jax.nn.gelu(normed(h, b["second"]) @ b["up"][0] + b["up"][1], approximate=False)
                h = h + up @ b["down"][0] + b["down"][1]
            return cross_entropy((normed(h, w["norm"]) @ w["head"][0] + w["head"][1]).reshape(-1, row.classes), y)
    else:
        weights = [linear(a, b) for a, b in zip(row.network, row.network[1:])]

        def loss_of(w, x, y):
            h = x
            for a, b in w[:-1]:
                h = jax.nn.relu(h @ a + b)
            return cross_entropy(h @ w[-1][0] + w[-1][1], y)

    def step(w, m, v, t, x, y):
        each = jax.tree_util.tree_map
        loss, g = jax.value_and_grad(loss_of)(w, x, y)
        t = t + 1
        m = each(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = each(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        first, second = 1 - 0.9 ** t, 1 - 0.999 ** t
        w = each(lambda p, a, b: p - 1e-3 * (a / first) / (jnp.sqrt(b / second) + 1e-8), w, m, v)
        return w, m, v, t, loss
    step = jax.jit(step, donate_argnums=(0, 1, 2))
    zeros = [jax.tree_util.tree_map(jnp.zeros_like, weights) for _ in range(2)]
    state = (weights, *zeros, jnp.float32(0))
    made = 0

    def run(steps):
        nonlocal state, made
        for _ in range(steps):
            *state, loss = step(*state, x, labels[made % LABELS])
            float(loss)
            made += 1
    return run


# ---- the processes ----

SIDES = {"pytorch": lambda row, _: torch_steps(row, False), "compiled": lambda row, _: torch_steps(row, True),
         "jax": lambda row, _: jax_steps(row), "copse": copse_steps}
MODULES = {"pytorch": "torch", "compiled": "torch", "jax": "jax"}


def has_row(side, row):
    return side != "jax" or row.network == "gpt" or isinstance(row.network, list)


def work(side, name, device):
    """The process of a framework: for each line it prints the milliseconds of a step in three samples."""
    row = ROWS[name]
    run = SIDES[side](row, device)
    run(12)  # Copse audits 8 steps, and so computes their gradients twice
    print("ready", flush=True)
    for _ in sys.stdin:
        run(row.steps)  # after the turn of another process
        samples = []
        for _ in range(3):
            begin = time.perf_counter()
            run(row.steps)
            samples.append((time.perf_counter() - begin) / row.steps * 1e3)
        print(json.dumps(samples), flush=True)


class Worker:
    def __init__(self, side, name, device):
        self.side, self.device, self.times = side, device, []
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", side, name, device],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.side} ended with {self.process.wait()}")
        return line

    def turn(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.times.append(statistics.median(json.loads(self.answer())))

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compare(name, given):
    """The rows of a network, Copse first."""
    sides = [(side, "-") for side in given.peers if has_row(side, ROWS[name])]
    workers = []
    try:
        for side, device in [("copse", d) for d in given.devices] + sides:
            workers.append(Worker(side, name, device))
            while workers[-1].answer() != "ready\n":
                pass
        for i in range(given.rounds):
            for worker in workers if i % 2 == 0 else reversed(workers):
                time.sleep(0.1)
                worker.turn()
    finally:
        for worker in workers:
            worker.end()
    found = []
    for w in workers:
        ratios = sorted(a / b for a, b in zip(w.times, workers[0].times))
        found.append({"row": name, "framework": w.side, "device": w.device, "median_ms": statistics.median(w.times),
                      "ratio": statistics.median(ratios), "least_ratio": ratios[0], "largest_ratio": ratios[-1],
                      "times_ms": w.times})
        print(f"{name:10} {w.side:9} {w.device:9} {statistics.median(w.times):10.3f} ms  ratio "
              f"{statistics.median(ratios):5.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)
    return found


def arguments():
    known = argparse.ArgumentParser(prog="run.sh BUILD --peers", description=__doc__.split("\n\n")[0])
    known.add_argument("--rows", default=",".join(ROWS), help=f"of {', '.join(ROWS)} [all]")
    known.add_argument("--devices", default="opencl:0", help="of Copse; ratios are to the first [opencl:0]")
    known.add_argument("--peers", default="pytorch,compiled,jax", help="[pytorch,compiled,jax]")
    known.add_argument("--rounds", type=int, default=9, help="[9]")
    known.add_argument("--json", metavar="FILE", help="write all times there")
    known.add_argument("--worker", nargs=3, metavar=("SIDE", "ROW", "DEVICE"), help=argparse.SUPPRESS)
    given = known.parse_args()
    given.rows, given.devices, given.peers = ([part for part in text.replace(",", " ").split()]
                                              for text in (given.rows, given.devices, given.peers))
    for what, names, table in ("row", given.rows, ROWS), ("peer", given.peers, MODULES):
        unknown = [name for name in names if name not in table]
        if unknown:
            known.error(f"no {what} {unknown[0]}: {', '.join(table)}")
    if given.rounds < 1 or not given.devices:
        known.error("--rounds is 1 or more, and --devices names a device")
    return given


def main():
    given = arguments()
    if given.worker:
        work(*given.worker)
        return 0
    import importlib.util
    for peer in list(given.peers):
        if importlib.util.find_spec(MODULES[peer]) is None:
            print(f"skipped: {peer}, since {sys.executable} has no module {MODULES[peer]}")
            given.peers.remove(peer)
    rows, failed = [], 0
    for name in given.rows:
        try:
            rows += compare(name, given)
        except RuntimeError as error:
            print(f"FAIL  {name}: {error}", flush=True)
            failed += 1
    if given.json:
        with open(given.json, "w") as f:
            json.dump({"machine": platform.platform(), "threads": THREADS, "rounds": given.rounds, "rows": rows}, f,
                      indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
