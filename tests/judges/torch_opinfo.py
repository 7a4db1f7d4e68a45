# SPDX-License-Identifier: MIT
"""torch_opinfo.py [PATTERN]: the samples of PyTorch's operators (OpInfo), run on host:0, opencl:0 and vulkan:0.

Every sample in single precision of an operator that Copse has, or a short composition (torch_ops.py, torch_more.py,
torch_moves.py, torch_windows.py): results, and gradients from a random upstream slope. PyTorch computes the expected numbers in double from
the same operands. Exit code 0: all agree, or differ as torch_known.txt says; 1; 77: skipped.
"""
import fnmatch
import random
import sys
import textwrap
import types
import unittest
import warnings
from pathlib import Path

try:
    import expecttest  # noqa: F401
except ImportError:  # PyTorch's own tests import it
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=True)
warnings.simplefilter("ignore")
try:
    import numpy as np
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    import judge
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing}): name a Python with torch, numpy and cffi in COPSE_TORCH_PYTHON")
    sys.exit(77)
from copse import ops
from copse.tensor import Tensor
import torch_more  # noqa: F401  these add their operators
import torch_moves  # noqa: F401
import torch_windows  # noqa: F401
from torch_ops import OPERATORS

HERE = Path(__file__).resolve().parent


def replaced(value, leaf):
    """The arguments of a sample with leaf(tensor) in the place of each tensor."""
    if isinstance(value, torch.Tensor):
        return leaf(value)
    if isinstance(value, (list, tuple)):
        items = [replaced(v, leaf) for v in value]
        return type(value)(items) if type(value) in (list, tuple) else items
    if isinstance(value, float):  # settings are single precision, too
        return float(np.float32(value))
    return {k: replaced(v, leaf) for k, v in value.items()} if isinstance(value, dict) else value


def tensors_in(value, kind):
    """The results of an operator as a list."""
    if isinstance(value, kind):
        return [value]
    return [t for v in value for t in tensors_in(v, kind)] if isinstance(value, (list, tuple)) else []


class Expected:
    """What PyTorch computes of a sample in double: results, and gradients from random slopes."""

    def __init__(self, op, sample):
        try:
            self.compute(op, sample, lambda t: True)  # the bounds need the derivatives by every operand
        except RuntimeError:  # not every operand has one
            self.compute(op, sample, lambda t: t.requires_grad)

    def compute(self, op, sample, is_differentiated):
        self.operands = []  # (of the sample, in double)

        def leaf(t):
            d = (t.detach().double() if t.dtype == torch.float32 else t.detach()).clone()
            d.requires_grad_(t.dtype == torch.float32 and is_differentiated(t))
            self.operands.append((t, d))
            return d

        self.arguments = replaced((sample.input, sample.args, sample.kwargs), leaf)
        # an operator that changes its operand must not get the leaf itself
        first, more, settings = replaced(self.arguments, lambda d: d.clone() if d.is_floating_point() else d)
        self.results = tensors_in(op(first, *more, **settings), torch.Tensor)
        self.trained = [d for t, d in self.operands if t.requires_grad and d.requires_grad]
        self.numbers = [d for _, d in self.operands if d.requires_grad]
        self.sloped = [i for i, y in enumerate(self.results) if y.is_floating_point() and y.requires_grad]
        generator = torch.Generator().manual_seed(1)
        self.slopes = [torch.randn(self.results[i].shape, generator=generator, dtype=torch.float32) for i in self.sloped]
        self.doubles = [s.double().requires_grad_() for s in self.slopes]
        self.gradients = []
        if self.trained and self.sloped:
            found = torch.autograd.grad([self.results[i] for i in self.sloped], self.trained, self.doubles, create_graph=True,
                                        allow_unused=True)
            self.gradients = [torch.zeros_like(x) if g is None else g for g, x in zip(found, self.trained)]


def magnitude(y, operands, index):
    """|y| + sum |dy/dx x| of one element: the sum of the magnitudes of its terms."""
    element = y.reshape(-1)[index]
    total = abs(element.item())
    if element.requires_grad:
        for g, x in zip(torch.autograd.grad(element, operands, retain_graph=True, allow_unused=True), operands):
            if g is not None:
                terms = (g * x).abs()
                total += terms[terms == terms].sum().item()
    return total


def bounds_of(kind, arrays, operands, expected):
    """The bounds of some results or gradients."""
    unit, n, sizes = kind
    if unit == "ulp" and sizes is None:
        return [judge.ulp(n)] * len(arrays)
    with torch.no_grad():
        more = [torch.zeros(()) for _ in arrays] if sizes is None else sizes(expected)
    if unit == "ulp":
        return [lambda want, m=m.numpy(): judge.ulp(n)(np.maximum(np.abs(want), m)) for m in more]
    more = [m.expand(y.shape).reshape(-1) for m, y in zip(more, arrays)]
    return [judge.refined(n, lambda index, y=y, m=m: magnitude(y, operands, index) + m[index].item())
            for y, m in zip(arrays, more)]


def build_case(op, sample, function, result, gradient):
    def build(graph):
        expected = Expected(op, sample)
        made, trained = [], []
        operands = iter(expected.operands)

        def leaf(t):
            single, double = next(operands)
            if single.dtype not in (torch.float32, torch.int64, torch.int32, torch.bool, torch.uint8):
                raise judge.NotRun(f"type missing: {str(single.dtype)[6:]}")
            made.append(graph.input(single.detach().contiguous().numpy()))
            if single.requires_grad and double.requires_grad:
                trained.append(made[-1])
            return made[-1]

        first, more, settings = replaced((sample.input, sample.args, sample.kwargs), leaf)
        tensors = tensors_in(function(first, *more, **settings), Tensor)
        if len(tensors) != len(expected.results):
            raise judge.NotRun(f"op missing: {op.name} with {len(expected.results)} results")
        wants = [y.detach().numpy() for y in expected.results]
        bounds = bounds_of(result, expected.results, expected.numbers, expected)
        if expected.gradients:
            slopes = [graph.input(s.numpy()) for s in expected.slopes]
            sloped = [tensors[i] for i in expected.sloped]
            if len(sloped) == 1:
                found = ops.gradients(sloped[0], trained, slopes[0])
            else:
                total = ops.fill((), 0)
                for y, dy in zip(sloped, slopes):
                    total = total + ops.sum(y * dy)
                found = ops.gradients(total, trained)
            tensors = tensors + found
            wants += [g.detach().numpy() for g in expected.gradients]
            bounds += bounds_of(gradient, expected.gradients, expected.numbers + expected.doubles, expected)
        return tensors, wants, bounds
    return build


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    opened = judge.begin()
    report = judge.Report("PyTorch's operators", judge.Conventions(HERE / "torch_known.txt"))
    absent = []
    torch.set_num_threads(1)
    for op in sorted(op_db, key=lambda each: (each.name, each.variant_test_name)):
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if name not in OPERATORS:
            absent.append(name)
            continue
        for seed in (torch.manual_seed, np.random.seed, random.seed):
            seed(1)
        try:
            kind = torch.float32 if op.supports_dtype(torch.float32, "cpu") else torch.int64
            samples = list(op.sample_inputs("cpu", kind, requires_grad=op.supports_autograd and kind == torch.float32))
        except Exception as e:  # a generator that needs what this PyTorch lacks
            report.skip(f"PyTorch cannot make samples of {name}: {type(e).__name__}")
            continue
        for i, sample in enumerate(samples):
            if fnmatch.fnmatchcase(f"{name}/{i}", pattern):
                judge.judge_case(report, f"{name}/{i}", opened, build_case(op, sample, *OPERATORS[name]))
    print(f"PyTorch {torch.__version__}: {len(op_db)} operators, {len(op_db) - len(absent)} that Copse has; not:")
    print(textwrap.fill(" ".join(absent), 120, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False))
    return report.end(is_whole=pattern == "*")


if __name__ == "__main__":
    sys.exit(main())
