# SPDX-License-Identifier: MIT
"""arena_referee.py: a verdict on the gradients of a training step, tensor by tensor.

The truth is PyTorch in double precision. The error of a tensor is |g - d| / |d|, in Euclidean norms. PyTorch in single
precision has such errors, too, from rounding: they are the noise. A gradient is right if its error is at most LIMIT, and
at most SHARE of the noise or FLOOR, whichever is larger. The norm of a tensor counts as no less than SMALL of the norm
of all, because what a nearly vanishing gradient has is rounding. `gate` is what benchmarks of training compare instead: the loss, and 16 logits.
"""
import math

import numpy as np

FLOOR, SHARE, LIMIT, SMALL = 2e-5, 16.0, 5e-3, 1e-6
GATE = 0.05


class Row:
    """Of a tensor: its norm, error, noise and bound."""

    def __init__(self, name, norm, error, noise, bound):
        self.name, self.norm, self.error, self.noise, self.bound = name, norm, error, noise, bound

    @property
    def is_right(self):
        return self.error <= self.bound  # also false for NaN


class Verdict:
    def __init__(self, rows, norm, true_norm, problems):
        self.rows, self.norm, self.true_norm, self.problems = rows, norm, true_norm, problems

    @property
    def wrong(self):
        """Names of the tensors that are wrong, the worst first."""
        return [r.name for r in sorted(self.rows, key=lambda r: -r.error / r.bound) if not r.is_right]

    @property
    def is_right(self):
        return not self.problems and not self.wrong

    @property
    def worst(self):
        return max(self.rows, key=lambda r: math.inf if math.isnan(r.error) else r.error / r.bound, default=None)


def length(x):
    return float(np.linalg.norm(np.asarray(x, np.float64).ravel()))


def distance(a, b):
    with np.errstate(invalid="ignore"):  # of infinities: NaN
        return length(np.subtract(a, b, dtype=np.float64))


def judge(got, single, double):
    """A Verdict on gradients by name; `single` and `double` are PyTorch's."""
    problems = [f"{n}: no gradient" for n in double if n not in got] + [f"{n}: unknown" for n in got if n not in double]
    problems += [f"{n}: {got[n].shape} instead of {double[n].shape}" for n in double
                 if n in got and got[n].shape != double[n].shape]
    common = [n for n in double if n in got and got[n].shape == double[n].shape]
    norms = {n: length(double[n]) for n in double}
    true_norm = math.hypot(*norms.values()) if norms else 0.0
    if not (0 < true_norm < math.inf):
        problems.append(f"the true gradients have the norm {true_norm}: nothing can be judged")
    rows = []
    for n in common:
        size = max(norms[n], SMALL * true_norm) or 1.0
        noise = distance(single[n], double[n]) / size
        error = distance(got[n], double[n]) / size
        error = math.inf if math.isnan(error) else error
        rows.append(Row(n, length(got[n]), error, noise, min(max(SHARE * noise, FLOOR), LIMIT)))
    noisy = [r for r in rows if not r.noise <= LIMIT]
    if noisy:
        problems.append(f"{len(noisy)} tensors have no verdict: PyTorch in single precision is {noisy[0].noise:.2g} from "
                        f"double precision in {noisy[0].name}")
    return Verdict(rows, math.hypot(*(r.norm for r in rows)) if rows else 0.0, true_norm, problems)


def gate(got, want):
    """Whether the loss, and 16 logits, agree within 5 %."""
    differs = np.abs(np.asarray(got.logits, np.float64) - want.logits).max()
    return abs(got.loss - want.loss) <= GATE * abs(want.loss) and differs <= GATE * np.abs(want.logits).max()


def is_row_right(verdict, got, want):
    """Whether the gradients are right, and loss and logits agree: neither excuses the other."""
    return bool(verdict.is_right and gate(got, want))
