# SPDX-License-Identifier: MIT
"""arena_sides.py: the ops that descriptions of arena_models.py use, in Copse and in PyTorch, and a training step with them.

Both sides train with momentum at a rate that is too small to change a weight: the slot of the rule then has the gradient
of the first step, as the training step itself has computed it, and every timed step does the same work.
"""
import resource
import time

import numpy as np

RATE = 1e-30
AUDITED = 8  # the first steps of Copse compute their gradients twice, by default (copse/train/audit.h)


class Result:
    """Of a side: loss, the first 16 logits, gradients by name, seconds."""

    def __init__(self, loss, logits, gradients, compile, forward, training):
        self.loss, self.logits, self.gradients = loss, logits, gradients
        self.compile, self.forward, self.training = compile, forward, training

    @staticmethod
    def peak():
        """Bytes of host memory that the process has used at most."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def timed(repeats, call):
    """Seconds of each call."""
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return found


# ---- Copse ----

class CopseOps:
    """Weights become variables of the strategy. `fault` is (name, factor): that weight's gradient is computed with the
    factor, by a graph whose results are the same: w becomes factor w - (factor - 1) w0 with a constant w0."""

    def __init__(self, strategy, weights, fault=None):
        from copse import ops
        self.o, self.strategy, self.weights, self.fault, self.variables = ops, strategy, weights, fault, {}

    def weight(self, name, shape, kind="normal"):
        if name not in self.variables:
            self.variables[name] = self.strategy.variable(name, values=self.weights(name, shape, kind))
        v = self.variables[name]
        if not self.fault or self.fault[0] != name:
            return v
        return v * self.fault[1] - self.o.constant(self.weights(name, shape, kind) * np.float32(self.fault[1] - 1))

    def gather(self, table, x):
        return self.o.gather(table, x)

    def dense(self, x, w, bias):
        return self.o.dense(x, w, bias)

    def dense_by_rows(self, x, table):
        return self.o.matmul(x, table, transpose_b=True)

    def rms_norm(self, x, scale, epsilon):
        return self.o.rms_norm(x, scale, epsilon)

    def layer_norm(self, x, scale, offset):
        return self.o.layer_norm(x, scale, offset, 1e-5)

    def group_norm(self, x, scale, offset, groups):
        return self.o.group_norm(x, groups, scale, offset, 1e-5)

    def batch_norm(self, x, scale, offset):
        return self.o.sync_batch_norm(x, (0, 1, 2), scale, offset, 1e-5)

    def conv(self, x, w, bias, stride=1, padding=0):
        return self.o.conv(x, w, bias, stride=stride, padding=padding)

    def max_pool(self, x, window, stride, padding):
        return self.o.max_pool(x, window, stride, padding)

    def mean_of_places(self, x):
        return self.o.mean(x, (1, 2))

    def relu(self, x):
        return self.o.relu(x)

    def silu(self, x):
        return self.o.silu(x)

    def gelu(self, x):
        return self.o.gelu(x)

    def heads(self, x, n):
        return self.o.reshape(x, (*x.shape[:2], n, x.shape[2] // n))

    def rotary(self, x, base):
        return self.o.rotary(x, base)

    def attention(self, q, k, v, causal):
        y = self.o.attention(q, k, v, causal=causal)
        return self.o.reshape(y, (*y.shape[:2], -1))

    def places(self, x):
        return x

    rows = places

    def constant(self, values):
        return self.o.constant(values)

    def twice(self, x):
        return self.o.resize(x, (2 * x.shape[1], 2 * x.shape[2]), "nearest")

    def join(self, x, y):
        return self.o.concat([x, y], -1)

    def cross_entropy(self, logits, y):
        return self.o.sparse_cross_entropy(self.o.reshape(logits, (-1, logits.shape[-1])), self.o.reshape(y, (-1,)))

    def mean_squared_error(self, a, b):
        return self.o.mean_squared_error(a, b)


def copse_trainer(o, model, z):
    """A trainer of a description, whose variables exist."""
    import copse
    return copse.Trainer(o.strategy, lambda given: model(o, given, z)[1], optimizer="momentum", learning_rate=RATE)


def run_copse(device, model, inputs, z, weights, repeats=0, fault=None):
    """A Result of Copse on a device."""
    import copse
    from copse import ops
    strategy = copse.Strategy(device)
    o = CopseOps(strategy, weights, fault)

    def first_logits(given):
        logits = model(o, given, z)[0]
        return ops.slice(ops.reshape(logits, (logits.shape[0], -1)), (0, 0), (logits.shape[0], 16))
    with_variables(model, o, inputs, z)
    begin = time.perf_counter()
    trainer = copse_trainer(o, model, z)
    first = trainer.step(inputs)
    begun = time.perf_counter() - begin
    gradients = {name: trainer.slot(v, "v") for name, v in o.variables.items()}
    logits = trainer.predict(first_logits, inputs)[0]
    training, forward = [], []
    if repeats:
        for _ in range(AUDITED - 1):
            trainer.step(inputs)
        training = timed(repeats, lambda: trainer.step(inputs))
        trainer.evaluate(inputs)
        forward = timed(repeats, lambda: trainer.evaluate(inputs))
    trainer.close()
    strategy.close()
    return Result(first.loss, logits, gradients, max(begun - min(training), 0.0) if training else begun, forward, training)


class Shapes:
    """Ops without results, which find the weights of a description: Copse makes its variables before the trainer."""

    def __init__(self, o):
        self.o = o

    def weight(self, name, shape, kind="normal"):
        self.o.weight(name, shape, kind)
        return self

    def __getattr__(self, _name):
        return lambda *_given, **_settings: self

    def __add__(self, _other):
        return self

    __radd__ = __mul__ = __add__


def with_variables(model, o, inputs, z):
    fault, o.fault = o.fault, None
    model(Shapes(o), {name: Shapes(o) for name in inputs}, z)
    o.fault = fault
    if fault and fault[0] not in o.variables:
        raise ValueError(f"the model has no weight {fault[0]}: {', '.join(o.variables)}")


# ---- PyTorch ----

class TorchOps:
    """Pictures are [n, channels, height, width] between `places` and `rows`, and weights have the layouts of torch.nn."""

    def __init__(self, torch, weights, dtype, device):
        self.t, self.f, self.weights, self.dtype, self.device = torch, torch.nn.functional, weights, dtype, device
        self.parameters, self.orders, self.turns = {}, {}, {}

    def weight(self, name, shape, kind="normal"):
        if name not in self.parameters:
            rank = len(shape)
            order = (rank - 1, rank - 2, *range(rank - 2)) if kind == "normal" else tuple(range(rank))
            values = np.ascontiguousarray(self.weights(name, shape, kind).transpose(order))
            self.parameters[name] = self.t.tensor(values, dtype=self.dtype, device=self.device).requires_grad_()
            self.orders[name] = np.argsort(order)
        return self.parameters[name]

    def gradient(self, name):
        """In the layout of the description."""
        return self.parameters[name].grad.cpu().numpy().transpose(self.orders[name])

    def gather(self, table, x):
        return self.f.embedding(x, table)

    def dense(self, x, w, bias):
        return self.f.linear(x, w, bias)

    def dense_by_rows(self, x, table):
        return self.f.linear(x, table)

    def rms_norm(self, x, scale, epsilon):
        return self.f.rms_norm(x, x.shape[-1:], scale, epsilon)

    def layer_norm(self, x, scale, offset):
        return self.f.layer_norm(x, x.shape[-1:], scale, offset, 1e-5)

    def group_norm(self, x, scale, offset, groups):
        return self.f.group_norm(x, groups, scale, offset, 1e-5)

    def batch_norm(self, x, scale, offset):
        return self.f.batch_norm(x, None, None, scale, offset, True, 0.0, 1e-5)

    def conv(self, x, w, bias, stride=1, padding=0):
        return (self.f.conv1d if w.ndim == 3 else self.f.conv2d)(x, w, bias, stride, padding)

    def max_pool(self, x, window, stride, padding):
        return self.f.max_pool2d(x, window, stride, padding)

    def mean_of_places(self, x):
        return x.mean((2, 3))

    def relu(self, x):
        return self.f.relu(x)

    def silu(self, x):
        return self.f.silu(x)

    def gelu(self, x):
        return self.f.gelu(x)

    def heads(self, x, n):
        return x.reshape(*x.shape[:2], n, -1).transpose(1, 2)

    def rotary(self, x, base):
        key = x.shape[2:], base
        if key not in self.turns:
            places, width = x.shape[2:]
            angles = np.arange(places)[:, None] * base ** (-np.arange(width // 2) * 2 / width)
            angles = np.concatenate([angles, angles], 1)
            self.turns[key] = [self.t.tensor(f(angles), dtype=self.dtype, device=self.device)
                               for f in (np.cos, np.sin)]
        first, second = x.chunk(2, -1)
        cosine, sine = self.turns[key]
        return x * cosine + self.t.cat([-second, first], -1) * sine

    def attention(self, q, k, v, causal):
        y = self.f.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
        return y.transpose(1, 2).flatten(2)

    def places(self, x):
        return x.movedim(-1, 1).contiguous()

    def rows(self, x):
        return x.movedim(1, -1)

    def constant(self, values):
        key = "constant", values.shape
        if key not in self.turns:
            self.turns[key] = self.t.tensor(values, dtype=self.dtype, device=self.device)
        return self.turns[key]

    def twice(self, x):
        return self.f.interpolate(x, scale_factor=2, mode="nearest")

    def join(self, x, y):
        return self.t.cat([x, y], 1)

    def cross_entropy(self, logits, y):
        return self.f.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))

    def mean_squared_error(self, a, b):
        return self.f.mse_loss(a, b)


class TorchSteps:
    """A description in PyTorch: steps with an update, and losses without gradients."""

    def __init__(self, device, model, inputs, z, weights, dtype="float32", compiles=False):
        import torch
        self.t, self.device = torch, device
        self.o = o = TorchOps(torch, weights, getattr(torch, dtype), device)
        self.given = given = {name: torch.tensor(a, dtype=torch.long if a.dtype == np.int32 else o.dtype, device=device)
                              for name, a in inputs.items()}
        model(Shapes(o), {name: Shapes(o) for name in inputs}, z)  # makes the weights
        self.optimizer = torch.optim.SGD(list(o.parameters.values()), lr=RATE, momentum=0.9, fused=True)

        def loss_of():
            return model(o, given, z)[1]
        self.loss_of = torch.compile(loss_of) if compiles else loss_of

    def waits(self, value):
        if self.device.startswith("cuda"):
            self.t.cuda.synchronize()
        return value

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss_of()
        loss.backward()
        self.optimizer.step()
        return self.waits(loss)

    def forward(self):
        with self.t.no_grad():
            return self.waits(self.loss_of())


def run_torch(device, model, inputs, z, weights, repeats=0, dtype="float32", compiles=False):
    """A Result of PyTorch."""
    import torch
    steps = TorchSteps(device, model, inputs, z, weights, dtype, compiles)
    o, given = steps.o, steps.given
    begin = time.perf_counter()
    loss = steps.step().item()
    begun = time.perf_counter() - begin
    gradients = {name: o.gradient(name).copy() for name in o.parameters}
    with torch.no_grad():  # after the first step, whose seconds have what PyTorch does once
        logits = model(o, given, z)[0].reshape(len(next(iter(inputs.values()))), -1)[0, :16].double().cpu().numpy()
    training = timed(repeats, steps.step)
    steps.forward() if repeats else None
    forwards = timed(repeats, steps.forward)
    return Result(loss, logits, gradients, max(begun - min(training), 0.0) if training else begun, forwards, training)
