# SPDX-License-Identifier: MIT
"""arena.py: training steps of four networks in Copse and in PyTorch, with a referee of gradients.

Inferena, a public table of training times, has these networks and sizes: SmolLM2-135M, ResNet-50, Whisper-tiny and a
U-Net. It compares its rows by the loss and 16 logits; here each gradient of the first step is compared, too
(arena_referee.py). Columns: seconds from the first call to the end of the first step, less one step (compile: of timed
rows only); milliseconds of the loss without gradients (forward) and of a training step with its update (training), the
fastest and, in the JSON, all of `repeats`; the peak of host memory of the whole process, which has loaded PyTorch in
each row (process MB). Copse audits its first 8 steps, which means that it computes their gradients twice: they are not
timed. Batch norm uses the statistics of the batch in both columns. In the full form each row runs in a process of its
own. Exit code 0: gradients, losses and logits are right; 1: some are wrong, or a row failed; 77: skipped.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import cffi  # noqa: F401
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing}): name a Python with torch, numpy and cffi in "
          "COPSE_TORCH_PYTHON")
    sys.exit(77)
# Before 2.5 there is no attention of grouped heads, and in 1.13 the gradient of a convolution of sequences is wrong.
if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5):
    print(f"skipped: PyTorch {torch.__version__} is too old: name a Python with 2.5 or later in COPSE_TORCH_PYTHON")
    sys.exit(77)

import copse
from arena_models import MODELS, weights_of
from arena_referee import GATE, gate, is_row_right, judge
from arena_sides import Result, run_copse, run_torch

CACHES = "XDG_CACHE_HOME", "POCL_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"


def arguments():
    known = argparse.ArgumentParser(prog="run.sh BUILD", description=__doc__.split("\n\n")[0])
    known.add_argument("--models", default=",".join(MODELS), help=f"of {', '.join(MODELS)} [all]")
    known.add_argument("--devices", default=os.environ.get("COPSE_TEST_DEVICES", "host:0 opencl:0 vulkan:0"),
                       help="of Copse, as copse devices lists them [COPSE_TEST_DEVICES, else all three first ones]")
    known.add_argument("--torch", default="cpu", help="devices of PyTorch that are timed [cpu]")
    known.add_argument("--torch-compile", action="store_true", help="a further row of torch.compile")
    known.add_argument("--small", action="store_true",
                       help="small networks in one process, and faults that must be found")
    known.add_argument("--repeats", type=int, help="timed steps [5; small: 0]")
    known.add_argument("--cold", action="store_true",
                       help="each row begins with empty caches of kernels; not with --small")
    known.add_argument("--fault", metavar="TENSOR[:FACTOR]",
                       help="Copse computes this tensor's gradient with the factor [1.02]")
    known.add_argument("--json", metavar="FILE", help="write all rows there")
    known.add_argument("--one", nargs=3, metavar=("SIDE", "DEVICE", "FOLDER"), help=argparse.SUPPRESS)
    given = known.parse_args()
    given.models = [m for m in given.models.replace(",", " ").split() if m]
    given.devices, given.torch = (text.replace(",", " ").split() for text in (given.devices, given.torch))
    unknown = [m for m in given.models if m not in MODELS]
    if unknown:
        known.error(f"no model {unknown[0]}: {', '.join(MODELS)}")
    if given.small and given.cold:
        known.error("--cold needs a process for each row, and --small runs all in one: leave one of them out")
    if given.repeats is not None and given.repeats < 0:
        known.error(f"--repeats {given.repeats}: 0 or more is needed")
    if given.repeats is None:
        given.repeats = 0 if given.small else 5
    if given.fault:
        name, _, factor = given.fault.partition(":")
        given.fault = name, float(factor or 1.02)
    return given


# ---- rows ----

def compute(given, side, device, name, fault=None):
    """A Result in this process."""
    model, make_inputs, full, small, _ = MODELS[name]
    z = small if given.small else full
    inputs, weights = make_inputs(z), weights_of(name, z, given.small)
    if side == "copse":
        return run_copse(device, model, inputs, z, weights, given.repeats, fault)
    repeats = 0 if side == "float64" else given.repeats
    dtype = "float64" if side == "float64" else "float32"
    return run_torch(device, model, inputs, z, weights, repeats, dtype, side == "compiled")


def write_result(folder, result):
    np.savez(f"{folder}/gradients.npz", **result.gradients)
    with open(f"{folder}/result.json", "w") as f:
        json.dump({"loss": result.loss, "logits": [float(x) for x in result.logits], "compile": result.compile,
                   "forward": result.forward, "training": result.training, "peak": Result.peak()}, f)


def read_result(folder):
    with open(f"{folder}/result.json") as f:
        values = json.load(f)
    peak = values.pop("peak")
    result = Result(gradients=np.load(f"{folder}/gradients.npz"), **values)
    result.peak = peak
    return result


def compute_apart(given, side, device, name, folder):
    """A Result of a process of its own, or None after its error."""
    os.makedirs(folder)
    environment = dict(os.environ)
    if given.cold:
        environment.update({variable: f"{folder}/{variable}" for variable in CACHES})
        for variable in CACHES:
            os.makedirs(f"{folder}/{variable}")
    command = [sys.executable, os.path.abspath(__file__), "--models", name, "--repeats", str(given.repeats),
               "--one", side, device, folder]
    if given.fault and side == "copse":
        command += ["--fault", ":".join(map(str, given.fault))]
    done = subprocess.run(command, env=environment)
    if done.returncode:
        print(f"FAIL  {name} {side} {device}: the process ended with {done.returncode}", flush=True)
        return None
    return read_result(folder)


def usable(wanted):
    present = {d.id for d in copse.devices() if d.is_usable}
    for device in wanted:
        if device not in present:
            print(f"skipped on {device}: there is no such device")
    return [d for d in wanted if d in present]


def shown(seconds, scale, places):
    return f"{min(seconds) * scale:.{places}f}" if seconds else "-"


HEADER = (f"{'':5} {'model':9} {'framework':15} {'device':9} {'gate':5} {'norm':>10} {'error':>8} {'bound':>8} "
          f"{'noise':>8} {'compile s':>9} {'forward ms':>10} {'training ms':>11} {'process MB':>10}  worst tensor")


def row_of(name, framework, device, result, single, double):
    """A row as JSON has it; prints it. It is right if gradients, loss and logits are."""
    verdict = judge(result.gradients, single.gradients, double.gradients)
    worst, agrees = verdict.worst, bool(gate(result, double))
    is_right = is_row_right(verdict, result, double)
    peak = result.peak if isinstance(result.peak, int) else None
    numbers = (worst.error, worst.bound, worst.noise) if worst else (0, 0, 0)
    print(f"{'pass' if is_right else 'FAIL':5} {name:9} {framework:15} {device:9} {'yes' if agrees else 'NO':5} "
          f"{verdict.norm:10.5g} {' '.join(f'{x:8.1e}' for x in numbers)} "
          f"{f'{result.compile:.2f}' if result.training else '-':>9} {shown(result.forward, 1e3, 1):>10} "
          f"{shown(result.training, 1e3, 1):>11} {f'{peak / 1e6:.0f}' if peak else '-':>10}  "
          f"{worst.name if worst else '-'}", flush=True)
    problems = list(verdict.problems)
    if verdict.wrong:
        problems.append(f"wrong gradients: {len(verdict.wrong)}, {', '.join(verdict.wrong[:8])}")
    if not agrees:
        problems.append(f"the loss {result.loss:.6g} or one of 16 logits differs by more than {GATE:.0%} from PyTorch "
                        f"in double precision, {double.loss:.6g}")
    for problem in problems:
        print(f"      {problem}", flush=True)
    return {"model": name, "framework": framework, "device": device, "is_right": is_right, "gate": agrees,
            "loss": result.loss, "true_loss": double.loss, "gradient_norm": verdict.norm,
            "true_gradient_norm": verdict.true_norm, "problems": problems,
            "compile_s": result.compile if result.training else None, "forward_s": result.forward,
            "training_s": result.training, "process_peak_bytes": peak,
            "tensors": [{"name": r.name, "norm": r.norm, "error": r.error, "bound": r.bound, "noise": r.noise}
                        for r in verdict.rows]}


def compare(given, name, folder):
    """The rows of a model, and the number of planted faults that are not found."""
    def get(side, device):
        if given.small:
            return compute(given, side, device, name, given.fault)
        return compute_apart(given, side, device, name, f"{folder}/{name}.{side}.{device.replace(':', '_')}")
    double, single = get("float64", "cpu"), get("float32", "cpu")
    if double is None or single is None:
        return [{"model": name, "is_right": False, "problems": ["PyTorch failed"]}], 0
    rows = [row_of(name, "PyTorch", "cpu", single, single, double)] if "cpu" in given.torch else []
    todo = [("float32", "PyTorch", d) for d in given.torch if d != "cpu"]
    todo += [("compiled", "torch.compile", d) for d in given.torch if given.torch_compile]
    todo += [("copse", "Copse", d) for d in given.devices]
    for side, framework, device in todo:
        result = get(side, device)
        rows.append({"model": name, "framework": framework, "device": device, "is_right": False,
                     "problems": ["the row failed"]}
                    if result is None else row_of(name, framework, device, result, single, double))
    return rows, plant_faults(given, name, single, double) if given.small and not given.fault else 0


# ---- faults ----

def plant_faults(given, name, single, double):
    """Number of faults that the referee does not find, or that the gate finds: one tensor's gradient times 1.02, on the
    first device."""
    missed, device = 0, given.devices[0]
    for tensor in MODELS[name][4]:
        result = compute(given, "copse", device, name, (tensor, 1.02))
        verdict, agrees = judge(result.gradients, single.gradients, double.gradients), gate(result, double)
        is_found = verdict.wrong == [tensor] and not verdict.problems
        missed += not (is_found and agrees)
        print(f"{'pass' if is_found and agrees else 'FAIL'}  planted in {name} on {device}: the gradient of {tensor} "
              f"times 1.02; the referee finds {', '.join(verdict.wrong) or 'nothing'}; loss and 16 logits "
              f"{'agree' if agrees else 'differ'} within {GATE:.0%}; the norm of all gradients is "
              f"{verdict.norm / verdict.true_norm - 1:+.2%} off", flush=True)
    return missed


def main():
    given = arguments()
    if given.one:
        side, device, folder = given.one
        write_result(folder, compute(given, side, device, given.models[0], given.fault))
        return 0
    given.devices = usable(given.devices)
    if not given.devices:
        print("skipped: no device of Copse is left")
        return 77
    weights = [weights_of(name, MODELS[name][3 if given.small else 2], given.small).text for name in given.models]
    print("; ".join(f"{name}: {text}" for name, text in zip(given.models, weights)))
    print(HEADER)
    rows, missed = [], 0
    with tempfile.TemporaryDirectory(prefix="arena.") as folder:
        for name in given.models:
            more, unseen = compare(given, name, folder)
            rows, missed = rows + more, missed + unseen
    wrong = sum(not r["is_right"] for r in rows)
    print(f"{len(rows)} rows, {wrong} wrong" + (f"; {missed} planted faults are not found" if missed else "") +
          f"; PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    if given.json:
        devices = {d.id: d.name for d in copse.devices() if d.id in given.devices}
        with open(given.json, "w") as f:
            json.dump({"machine": platform.platform(), "pytorch": torch.__version__, "threads": torch.get_num_threads(),
                       "devices": devices, "weights": dict(zip(given.models, weights)), "is_small": given.small,
                       "is_cold": given.cold, "sizes": {n: MODELS[n][3 if given.small else 2] for n in given.models},
                       "rows": rows}, f, indent=1)
    return 1 if wrong or missed else 0


if __name__ == "__main__":
    sys.exit(main())
