# SPDX-License-Identifier: MIT
"""lora.py: a step of an adapter of SmolLM2-135M-Instruct in Copse, and in PyTorch with PEFT in float32 and bfloat16.

The adapter has rank 8, on all seven matrices of each layer, as `copse train --lora 8` makes it; a step has 512 tokens
and updates by AdamW. Copse keeps the base as it is in the GGUF file; PyTorch has its values in the type of the row. Each
row runs in a process of its own, which has loaded PyTorch in each row, too. Times are the fastest of the repeats,
and the least processor time of one, of all threads: it also says something where other programs run. Copse audits its
first 8 steps, which means that it computes their gradients twice: they are not timed. Exit code 0: the losses of the
first step agree with PyTorch in float32, Copse's within 1e-4 and bfloat16's within 0.02; 1; 77: skipped.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import time

from language_file import find_model
from language_reference import np, reference, torch

try:
    from peft import LoraConfig, get_peft_model
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing}): name a Python with peft in COPSE_LANGUAGE_PYTHON")
    sys.exit(77)

import copse
from arena_sides import AUDITED

RANK, RATE = 8, 1e-4
MATRICES = [f"{n}_proj" for n in ("q", "k", "v", "o", "gate", "up", "down")]
BOUNDS = {"float32": 1e-4, "bfloat16": 0.02, "copse": 1e-4}


def arguments():
    known = argparse.ArgumentParser(prog="run.sh BUILD --lora", description=__doc__.split("\n\n")[0])
    known.add_argument("--devices", default="opencl:0", help="of Copse [opencl:0]")
    known.add_argument("--torch", default="float32,bfloat16", help="types of PyTorch [float32,bfloat16]")
    known.add_argument("--tokens", type=int, default=512, help="of a step [512]")
    known.add_argument("--repeats", type=int, default=5, help="timed steps [5]")
    known.add_argument("--json", metavar="FILE", help="write all rows there")
    known.add_argument("--one", nargs=2, metavar=("SIDE", "DEVICE"), help=argparse.SUPPRESS)
    given = known.parse_args()
    types = given.torch.replace(",", " ").split()
    if not given.one and ("float32" not in types or set(types) - set(BOUNDS) or "copse" in types):
        known.error(f"--torch {given.torch}: float32, which has the true loss, and perhaps bfloat16 are needed")
    if given.repeats < 0 or given.tokens < 2:
        known.error("--repeats is 0 or more, and --tokens 2 or more")
    given.torch = sorted(types, reverse=True)  # float32 first
    return given


def text():
    with open(os.environ["COPSE_JUDGE_TEXT"], encoding="utf-8") as f:
        return f.read() * 2


def copse_step(device, given):
    strategy = copse.Strategy(device)
    language = copse.LanguageModel(strategy, find_model())
    language.adapt(RANK, seed=1)
    windows = language.windows(text(), given.tokens)
    batch = {name: np.asarray(windows.column(name))[:1] for name in ("x", "y")}
    trainer = copse.Trainer(strategy, language, optimizer="adamw", learning_rate=RATE)
    return lambda: trainer.step(batch).loss


def torch_step(dtype, given):
    windows = copse.LanguageModel(copse.Strategy("host:0"), find_model()).windows(text(), given.tokens)
    x, y = (np.asarray(windows.column(name))[:1] for name in ("x", "y"))
    model, _ = reference(find_model())
    model.config._attn_implementation = "sdpa"
    torch.manual_seed(1)
    settings = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=MATRICES, lora_dropout=0.0, task_type="CAUSAL_LM")
    peft = get_peft_model(model.to(getattr(torch, dtype)), settings)
    trained = [p for p in peft.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE)
    x, y = torch.from_numpy(x).long(), torch.from_numpy(y).long()
    peft.train()

    def step():
        optimizer.zero_grad()
        logits = peft(x, use_cache=False).logits[0].float()
        loss = torch.nn.functional.cross_entropy(logits, y[0], ignore_index=-1)
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


def measure(given):
    side, device = given.one
    step = copse_step(device, given) if side == "copse" else torch_step(side, given)
    seconds, busy, losses = [], [], []
    for i in range(given.repeats + 1):
        for _ in range(AUDITED - 1 if side == "copse" and i == 1 else 0):
            step()
        begin, begin_busy = time.perf_counter(), time.process_time()
        losses.append(step())
        seconds.append(time.perf_counter() - begin)
        busy.append(time.process_time() - begin_busy)
    print(json.dumps({"side": side, "device": device, "loss": losses[0], "last_loss": losses[-1],
                      "first_s": seconds[0], "step_s": seconds[1:], "step_processor_s": busy[1:],
                      "process_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def main():
    given = arguments()
    find_model()
    if given.one:
        measure(given)
        return 0
    todo = [(dtype, "cpu") for dtype in given.torch]
    present = {d.id for d in copse.devices() if d.is_usable}
    for device in given.devices.replace(",", " ").split():
        if device in present:
            todo.append(("copse", device))
        else:
            print(f"skipped on {device}: there is no such device")
    print(f"{'':5} {'framework':16} {'device':9} {'loss':>9} {'last':>9} {'first step s':>12} {'step ms':>9} "
          f"{'of processors':>13} {'process MB':>10}")
    rows, wrong, true_loss = [], 0, None
    for side, device in todo:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", side, device,
                               "--tokens", str(given.tokens), "--repeats", str(given.repeats)],
                              stdout=subprocess.PIPE, text=True)
        name = "Copse" if side == "copse" else f"PEFT {side}"
        if done.returncode:
            print(f"FAIL  {name} {device}: the process ended with {done.returncode}")
            wrong += 1
            if side == "float32":
                print("The other rows need the loss of this one.")
                break
            continue
        row = json.loads(done.stdout.splitlines()[-1])
        true_loss = row["loss"] if side == "float32" else true_loss
        learns = row["last_loss"] < row["loss"] if given.repeats else True
        is_right = abs(row["loss"] / true_loss - 1) <= BOUNDS[side] and learns
        wrong += not is_right
        rows.append({**row, "is_right": is_right})
        step, busy = (f"{min(row[key]) * 1e3:.0f}" if row[key] else "-" for key in ("step_s", "step_processor_s"))
        print(f"{'pass' if is_right else 'FAIL':5} {name:16} {device:9} {row['loss']:9.5f} {row['last_loss']:9.5f} "
              f"{row['first_s']:12.1f} {step:>9} {busy:>13} "
              f"{row['process_peak_bytes'] / 1e6:10.0f}", flush=True)
    print(f"{given.tokens} tokens, rank {RANK}; PyTorch {torch.__version__}, {torch.get_num_threads()} threads; "
          f"{wrong} wrong")
    if given.json:
        with open(given.json, "w") as f:
            json.dump({"tokens": given.tokens, "rank": RANK, "pytorch": torch.__version__,
                       "threads": torch.get_num_threads(), "rows": rows}, f, indent=1)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
