# SPDX-License-Identifier: MIT
"""nam_amplifier.py AMPLIFIER [FIGURE]: the application of examples/apps/amplifier beside Neural Amp Modeler (PyPI:
neural-amp-modeler) and PyTorch.

It captures the synthetic amplifier: at most 0.02 as error-to-signal ratio on samples that it has not trained on, in less than
ten minutes. The package loads the model, and what it plays differs from what Copse plays by at most 1e-6, where the signal
reaches 0.5. The three parts of the loss equal PyTorch's in double precision, to 1e-4 of their size. With FIGURE it keeps
the picture of docs/amplifier.md. Exit code 0; 1; 77: skipped.
"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import torch
    from nam.models._from_nam import init_from_nam
    from nam.models.losses import apply_pre_emphasis_filter, esr
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing}): name a Python with neural-amp-modeler in COPSE_NAM_PYTHON")
    sys.exit(77)

RATIO, SECONDS, DIFFERENCE, LOSS = 0.02, 600, 1e-6, 1e-4
failed = []


def check(what, is_good):
    print(("" if is_good else "FAILED: ") + what)
    if not is_good:
        failed.append(what)


def run(*arguments):
    done = subprocess.run([sys.argv[1], *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"FAILED: amplifier {' '.join(arguments)}: {done.stdout}")
    return done.stdout


def samples(path, kind):
    """The samples of a file with a header of 44 bytes."""
    with open(path, "rb") as file:
        data = file.read()[44:]
    if kind == "float":
        return np.frombuffer(data, "<f4")
    words = np.frombuffer(data, np.uint8).reshape(-1, 3).astype(np.int32)
    return ((words[:, 0] << 8 | words[:, 1] << 16 | words[:, 2] << 24) / 2.0**31).astype(np.float32)


def magnitudes(x, size):
    window = torch.hann_window(size, dtype=x.dtype)
    z = torch.stft(x, size, size // 2, size, window, center=False, return_complex=True)
    return (z.real**2 + z.imag**2).clamp(min=1e-8).sqrt()


def spectral(y, wet):
    parts = []
    for size in 128, 512, 2048:
        a, b = magnitudes(y, size), magnitudes(wet, size)
        parts.append(torch.linalg.norm(a - b) / torch.linalg.norm(b) + (a.log() - b.log()).abs().mean())
    return sum(parts) / len(parts)


with tempfile.TemporaryDirectory() as work:
    dry, wet, model, output = (os.path.join(work, name) for name in ("dry.wav", "wet.wav", "model.nam", "output.wav"))
    run("--make", dry, wet)
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    text = run(dry, wet, model, "--output", output, *(["--figure", sys.argv[2]] if len(sys.argv) > 2 else []))
    seconds, used = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    ratio = float(re.search(r"error-to-signal ratio on the last .*: ([0-9.]+)", text)[1])
    check(f"error-to-signal ratio {ratio} on held-out samples", ratio <= RATIO)
    check(f"{seconds:.0f} s, {used:.0f} s of processors", seconds < SECONDS)

    with open(model) as file:
        config = json.load(file)
    network = init_from_nam(config).eval()
    x, played, target = samples(dry, "24"), samples(output, "float"), samples(wet, "24")
    with torch.no_grad():
        theirs = network(torch.from_numpy(x)).numpy()
    check(f"largest difference {np.abs(theirs - played).max():.2g} of {np.abs(played).max():.2g}",
          theirs.shape == played.shape and np.abs(theirs - played).max() <= DIFFERENCE)
    check("the model has the sample rate", network.sample_rate == 48000)
    weights = network._export_weights()
    check("the package writes the same numbers", np.array_equal(weights, np.float32(config["weights"])))
    part = len(x) // 10 * 9
    theirs_ratio = esr(torch.from_numpy(theirs[part:].astype(np.float64)), torch.from_numpy(target[part:].astype(np.float64))).item()
    check(f"error-to-signal ratio {theirs_ratio:.4f} by the package", abs(theirs_ratio - ratio) <= 1e-4)

    y, t = (torch.from_numpy(s.astype(np.float64)) for s in (played, target))
    y, t = y / t.square().mean().sqrt(), t / t.square().mean().sqrt()
    emphasised = [apply_pre_emphasis_filter(s, 0.85) for s in (y, t)]
    wanted = [esr(y, t), esr(*emphasised), spectral(y, t)]
    got = [float(n) for n in re.findall(r"[0-9][0-9.e-]*", run("--compare", wet, output))]
    for name, a, b in zip(("error-to-signal ratio", "after pre-emphasis", "spectral loss"), got, wanted):
        check(f"{name} {a:.9g}, PyTorch {b.item():.9g}", abs(a - b.item()) <= LOSS * b.item())
sys.exit(1 if failed else 0)
