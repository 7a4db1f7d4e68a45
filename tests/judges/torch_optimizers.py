# SPDX-License-Identifier: MIT
"""torch_optimizers.py: the update rules and schedules that PyTorch has, on host:0, opencl:0 and vulkan:0.

Each rule makes 100 steps from equal values on equal gradients; PyTorch computes in double. The values may differ by 1e-5 of
their norm, after 1, 10 and 100 steps. Schedules: each rate of 100 steps within 1e-6. Exit code 0; 1; 77: skipped.
"""
import sys

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing}): name a Python with torch, numpy and cffi in COPSE_TORCH_PYTHON")
    sys.exit(77)
import copse
from copse import ops

SIZE, STEPS, LIMIT = 9000, 100, 1e-5
RATE = 0.01
T = torch.optim

# Name here and settings; PyTorch's optimizer and settings.
RULES = [
    ("sgd", {}, T.SGD, {}),
    ("sgd", {"weight_decay": 0.1}, T.SGD, {"weight_decay": 0.1}),
    ("momentum", {"momentum": 0.8}, T.SGD, {"momentum": 0.8}),
    ("nesterov", {}, T.SGD, {"momentum": 0.9, "nesterov": True}),
    ("adam", {}, T.Adam, {}),
    ("adam", {"weight_decay": 0.1, "beta1": 0.8, "beta2": 0.95}, T.Adam, {"weight_decay": 0.1, "betas": (0.8, 0.95)}),
    ("adamw", {"weight_decay": 0.1}, T.AdamW, {"weight_decay": 0.1}),
    ("amsgrad", {"beta2": 0.9}, T.Adam, {"amsgrad": True, "betas": (0.9, 0.9)}),
    ("adagrad", {}, T.Adagrad, {}),
    ("adagrad", {"initial": 0.1, "weight_decay": 0.1}, T.Adagrad, {"initial_accumulator_value": 0.1, "weight_decay": 0.1}),
    ("adadelta", {}, T.Adadelta, {}),
    ("rmsprop", {}, T.RMSprop, {}),
    ("rmsprop", {"momentum": 0.9, "weight_decay": 0.1}, T.RMSprop, {"momentum": 0.9, "weight_decay": 0.1}),
    ("rmsprop", {"is_centred": 1}, T.RMSprop, {"centered": True}),
    ("rmsprop", {"is_centred": 1, "momentum": 0.5, "beta2": 0.9}, T.RMSprop,
     {"centered": True, "momentum": 0.5, "alpha": 0.9}),
    ("adamax", {}, T.Adamax, {}),
    ("nadam", {}, T.NAdam, {}),
    ("nadam", {"momentum_decay": 0.02, "weight_decay": 0.1}, T.NAdam, {"momentum_decay": 0.02, "weight_decay": 0.1}),
]

S = T.lr_scheduler
SCHEDULES = [
    ("cosine", lambda o: S.CosineAnnealingLR(o, STEPS)),
    ("cosine 0.1", lambda o: S.CosineAnnealingLR(o, STEPS, eta_min=0.1 * RATE)),
    ("exponential 0.97", lambda o: S.ExponentialLR(o, 0.97)),
    ("step 0.5 30", lambda o: S.StepLR(o, 30, 0.5)),
    ("linear 0.25 1 for 50; constant", lambda o: S.LinearLR(o, 0.25, 1.0, 50)),
    ("one_cycle", lambda o: S.OneCycleLR(o, RATE, total_steps=STEPS)),
    ("one_cycle 0.5 10 100", lambda o: S.OneCycleLR(o, RATE, total_steps=STEPS, pct_start=0.5, div_factor=10,
                                                   final_div_factor=100)),
] + ([("polynomial 2", lambda o: S.PolynomialLR(o, STEPS, 2.0))] if hasattr(S, "PolynomialLR") else [])


def exact(settings):
    """Settings are single precision here, so PyTorch gets the same numbers."""
    return {k: tuple(map(exact_number, v)) if isinstance(v, tuple) else exact_number(v) for k, v in settings.items()}


def exact_number(v):
    return float(np.float32(v)) if isinstance(v, float) else v


def rounded_defaults(make, given):
    """PyTorch's defaults, rounded to single precision."""
    import inspect
    names = ("betas", "rho", "alpha", "eps", "momentum_decay")
    defaults = {n: p.default for n, p in inspect.signature(make.__init__).parameters.items() if n in names}
    return exact({**defaults, **given})


def expected(make, settings, start, gradients):
    """Values after each step, in double."""
    p = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = make([p], lr=float(np.float32(RATE)), **rounded_defaults(make, settings))
    for g in gradients:
        p.grad = torch.tensor(g, dtype=torch.float64)
        optimizer.step()
        yield p.detach().numpy().copy()


def correct_nadam():
    """Versions before 2.0 multiply the product of the mean's factors by that of the step once more; 2.0 does not."""
    import inspect
    import torch.optim.nadam as module
    source = inspect.getsource(module._single_tensor_nadam)
    wrong = "mu_product * mu * mu_next"
    if wrong in source:
        exec(source.replace(wrong, "mu_product * mu_next"), module.__dict__)
        print(f"NAdam of PyTorch {torch.__version__} is used with the correction of 2.0")


def check_rule(device, name, settings, make, theirs):
    rng = np.random.default_rng(7)
    start = rng.standard_normal(SIZE).astype(np.float32)
    gradients = rng.standard_normal((STEPS, SIZE)).astype(np.float32)
    gradients[:, ::3] *= np.float32(1e-3)
    strategy = copse.Strategy(device)
    w = strategy.variable("w", values=start)
    trainer = copse.Trainer(strategy, lambda inputs: ops.sum(inputs["g"] * w), optimizer=name, learning_rate=RATE, **settings)
    worst = 0.0
    for i, want in enumerate(expected(make, theirs, start, gradients)):
        trainer.step({"g": gradients[i:i + 1]})
        if i + 1 in (1, 10, STEPS):
            worst = max(worst, float(np.linalg.norm(w.numpy().astype(np.float64) - want) / np.linalg.norm(want)))
    trainer.close()
    return worst


def check_schedule(text, make):
    optimizer = T.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    theirs = make(optimizer)
    ours = copse.Schedule(text, RATE, STEPS)
    worst = 0.0
    for step in range(1, STEPS + 1):
        want = optimizer.param_groups[0]["lr"]
        worst = max(worst, abs(ours.rate(step) - want) / max(want, 1e-6 * RATE))
        optimizer.step()
        if step < STEPS:
            theirs.step()
    return worst


def check_plateau():
    optimizer = T.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    theirs, ours = S.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, eps=0), copse.Schedule("plateau 0.5 3", RATE)
    worst = 0.0
    for loss in np.random.default_rng(3).uniform(0.5, 1.0, 60):
        theirs.step(loss)
        ours.observe(loss)
        want = optimizer.param_groups[0]["lr"]
        worst = max(worst, abs(ours.rate(1) - want) / want)
    return worst


def main():
    wrong = cases = 0
    correct_nadam()
    results = [(f"schedule {text}", check_schedule(text, make), 1e-6) for text, make in SCHEDULES]
    results.append(("schedule plateau", check_plateau(), 1e-6))
    usable = {d.id for d in copse.devices() if d.is_usable}
    for device in ("host:0", "opencl:0", "vulkan:0"):
        if device not in usable:
            print(f"skipped on {device}: there is no such device")
            continue
        for name, settings, make, theirs in RULES:
            what = ", ".join(f"{k} {v}" for k, v in settings.items())
            results.append((f"{device} {name} {what}".rstrip(), check_rule(device, name, settings, make, theirs), LIMIT))
    for name, worst, limit in results:
        cases += 1
        wrong += not worst <= limit
        print(f"{'FAIL' if not worst <= limit else 'pass'}  {name}: {worst:.2g}")
    print(f"{cases} cases, {wrong} wrong; PyTorch {torch.__version__}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
