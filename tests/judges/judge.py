# SPDX-License-Identifier: MIT
"""What the judges share: graphs of ops on devices, error bounds, documented conventions, the report.

A judge runs the cases of another project through the Python package and compares the results with that project's. The
bounds are those of docs/conformance.md. A case that differs needs a line in a file of conventions, which says why.
"""
import collections
import fnmatch
import os
import re
import sys
from pathlib import Path

import numpy as np

from copse import errors, ops
from copse._library import c_string, check, ffi, lib, make
from copse.devices import context, devices
from copse.tensor import Tensor, shape_of

SKIPPED = 77
UNIT = 2.0 ** -24
SMALLEST = 2.0 ** -148
DEVICES = os.environ.get("COPSE_TEST_DEVICES", "host:0 opencl:0 vulkan:0").split()


class NotRun(Exception):
    """A case that Copse cannot do; the text is the reason."""


# ---- graphs on devices ----

def memory(a):
    """The memory of an array, which is not NULL for an empty one either."""
    return ffi.from_buffer(a if a.size else bytearray(1))


class Graph:
    """A graph whose inputs are given as arrays. Operands become inputs of the graph when they are asked for. `scope` is of
    the block in which ops add to it, and in which it runs."""

    def __init__(self):
        self.pointer = make("graph", lib.copse_graph_create, context())
        self.scope = None
        self.inputs = []

    def input(self, values):
        """An input of the graph for an array; whole numbers and truth values become i32, numbers of double precision f32,
        if these have all values."""
        types = {"float32": lib.COPSE_F32, "int32": lib.COPSE_I32, "uint8": lib.COPSE_U8, "float16": lib.COPSE_F16,
                 "bfloat16": lib.COPSE_BF16}
        a = np.ascontiguousarray(values).reshape(np.shape(values))
        if a.dtype == bool:
            a = a.astype(np.int32)
        elif a.dtype.kind in "iu" and a.dtype != np.uint8 and (a == a.astype(np.int32)).all():
            a = a.astype(np.int32)
        elif a.dtype == np.float64 and (np.isnan(a) | (a == a.astype(np.float32))).all():
            a = a.astype(np.float32)
        if a.dtype.name not in types:
            raise NotRun(f"type missing: {a.dtype.name}")
        if a.ndim > lib.COPSE_MAX_RANK:
            raise NotRun(f"more than {lib.COPSE_MAX_RANK} axes")
        pointer = lib.copse_graph_input(self.pointer, c_string(f"x{len(self.inputs)}"), types[a.dtype.name],
                                        shape_of(a.shape))
        check(lib.copse_graph_status(self.pointer))
        self.inputs.append((pointer, a))
        return Tensor(self.scope, pointer)

    def run(self, device, tensors):
        """The values of tensors of the graph, computed by a device."""
        params = ffi.new("struct copse_function_params *")
        outputs = ffi.new("copse_tensor *[]", [t._pointer for t in tensors])
        params.graph, params.outputs, params.output_count = self.pointer, outputs, len(tensors)
        f = make("function", lib.copse_function_create, device, params)
        for tensor, values in self.inputs:
            check(lib.copse_function_write(f, tensor, memory(values)))
        check(lib.copse_function_run(f))
        check(lib.copse_function_wait(f))
        results = []
        for i, t in enumerate(tensors):
            y = np.zeros(t.shape, t.dtype)
            check(lib.copse_function_read(f, i, memory(y)))
            results.append(y)
        return results


def open_devices():
    """The devices of the judge by id, and why others are left out."""
    opened, absent = {}, {}
    found = {d.id: d for d in devices()}
    for each in DEVICES:
        if each in found and found[each].is_usable:
            opened[each] = make("device", lib.copse_device_open, context(), c_string(each), ffi.NULL)
        else:
            absent[each] = found[each].reason if each in found else "there is no such device"
    return opened, absent


# ---- bounds ----
# A bound gives the largest error of each element from the expected values.

def exact(want):
    """The same number."""
    return np.zeros(want.shape)


def ulp(n):
    """n times the distance to the next number in single precision."""
    def bound(want):
        a = np.minimum(np.abs(want), np.finfo(np.float32).max).astype(np.float32)
        return n * np.spacing(a).astype(np.float64)
    return bound


def ratio(n, magnitude):
    """n times 2^-24 of the magnitude, an array that broadcasts to the result."""
    def bound(want):
        with np.errstate(invalid="ignore"):
            return np.broadcast_to(n * UNIT * np.asarray(magnitude, np.float64), want.shape)
    return bound


def refined(n, magnitude):
    """n times 2^-24 of the magnitude; magnitude(index) of an element is only computed where |expected| is too small. Two
    of the smallest numbers are allowed for rounding below 2^-126."""
    def bound(want):
        return n * UNIT * np.abs(want) + SMALLEST
    bound.refine = lambda index: n * UNIT * magnitude(index) + SMALLEST
    return bound


def declared_errors():
    """The largest errors that kernels/elementwise/*.def declare: name: (of the function, of its derivative) [ULP]."""
    found = {}
    for table in (Path(__file__).resolve().parents[2] / "kernels/elementwise").glob("*.def"):
        for name, f, g in re.findall(r"^(?:UNARY|SCALED|BINARY)\((\w+),[^;]*?\s([\d.]+), ([\d.]+), \w+\)$", table.read_text(),
                                     flags=re.M):
            found[name] = float(f), float(g)
    return found


DECLARED = declared_errors()


def declared(*names, more=0):
    """The bound of a composition of functions with declared errors, and of `more` ULP."""
    return ulp(sum(DECLARED[name][0] for name in names) + more)


def difference(got, want, bound):
    """None, or how the result differs. NaN equals NaN, an infinity equals itself."""
    want = np.asarray(want)
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    want = want.astype(np.float64)
    got = got.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = np.nan_to_num(bound(want), nan=0.0, posinf=0.0)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        if hasattr(bound, "refine"):
            allowed = np.array(allowed, order="C")
            for i in np.flatnonzero(~same & ~(np.abs(got - want) <= allowed) & np.isfinite(got) & np.isfinite(want)):
                allowed.reshape(-1)[i] = bound.refine(int(i))
        wrong = ~(same | (np.abs(got - want) <= allowed))
        error = np.where(wrong, np.abs(got - want) / np.where(allowed > 0, allowed, 1), -1)
    if not wrong.any():
        return None
    at = np.unravel_index(np.nan_to_num(error, nan=np.inf).argmax(), wrong.shape)
    scale = f", {error[at]:.3g} of the bound" if allowed[at] > 0 else ""
    return f"{wrong.sum()} of {wrong.size} elements, as {list(map(int, at))}: {got[at]:.9g}, expected {want[at]:.9g}{scale}"


# ---- conventions and the report ----

class Conventions:
    """Documented differences: lines `DEVICE | CASE | REASON`, where * matches anything."""

    def __init__(self, path):
        self.lines = []
        with open(path, encoding="utf-8") as f:
            for line in f:
                if line.strip() and not line.startswith("#"):
                    device, case, reason = (part.strip() for part in line.split("|", 2))
                    self.lines.append((device, case, reason))
        self.used = set()

    def of(self, device, case):
        """The reason of a difference, or None."""
        for i, (d, c, reason) in enumerate(self.lines):
            if fnmatch.fnmatchcase(device, d) and fnmatch.fnmatchcase(case, c):
                return i, reason
        return None


class Report:
    """Counts and lists what the cases gave; its exit code is that of the judge."""

    def __init__(self, judge, conventions):
        self.judge, self.conventions = judge, conventions
        self.cases = self.run = self.agreed = 0
        self.not_run = collections.Counter()
        self.documented = collections.defaultdict(list)
        self.unexplained, self.agree_now, self.agreed_lines = [], [], collections.Counter()

    def skip(self, reason):
        """A case that is not run."""
        self.cases += 1
        self.not_run[reason] += 1

    def judged(self, case, differences):
        """A case that ran on every device; differences by device, None where it agrees."""
        self.cases += 1
        self.run += 1
        self.agreed += all(text is None for text in differences.values())
        for device, text in differences.items():
            known = self.conventions.of(device, case)
            if text is not None and known:
                self.conventions.used.add(known[0])
                self.documented[known[1]].append(f"{case} on {device}")
            elif text is not None:
                self.unexplained.append(f"{case} on {device}: {text}")
            elif known:
                self.agree_now.append(f"{case} on {device}: it agrees, but the conventions say: {known[1]}")

    def end(self, is_whole):
        """Print the report; the exit code."""
        print(f"{self.judge}: {self.cases} cases, {self.run} run, {self.agreed} agreed, "
              f"{self.run - self.agreed} differing, {self.cases - self.run} not run")
        for reason, cases in sorted(self.documented.items()):
            print(f"differs by convention: {reason}")
            for case in cases:
                print(f"    {case}")
        for reason, count in sorted(self.not_run.items(), key=lambda r: (-r[1], r[0])):
            print(f"{count:5} not run: {reason}")
        for line in self.unexplained + self.agree_now:
            print(f"FAILED {line}")
        if is_whole:
            for i, line in enumerate(self.conventions.lines):
                if i not in self.conventions.used:
                    self.agree_now.append(line)
                    print(f"FAILED no case needs the convention: {' | '.join(line)}")
        return 1 if self.unexplained or self.agree_now else 0


def judge_case(report, name, opened, build):
    """Build a case's graph and run it on the devices. `build(graph)` returns tensors, expected arrays and bounds."""
    graph = Graph()
    with ops.building(graph.pointer) as graph.scope:
        judge_graph(report, name, opened, build, graph)


def judge_graph(report, name, opened, build, graph):
    try:
        tensors, wants, bounds = build(graph)
    except NotRun as reason:
        report.skip(str(reason))
        return
    except errors.Error as refused:
        report.judged(name, {device: f"refused: {refused}" for device in opened})
        return
    except Exception as e:  # arguments that the composition does not know, such as those of a newer release
        report.judged(name, {device: f"not composed: {type(e).__name__}: {e}" for device in opened})
        return
    found = {}
    for device, handle in opened.items():
        try:
            texts = [difference(y, want, bound) for y, want, bound in zip(graph.run(handle, tensors), wants, bounds)]
            found[device] = next((t for t in texts if t is not None), None)
        except errors.Error as refused:
            found[device] = f"refused: {refused}"
    report.judged(name, found)


def begin():
    """The devices; ends the judge without one."""
    opened, absent = open_devices()
    for device, reason in absent.items():
        print(f"skipped: {device}: {reason}")
    if not opened:
        sys.exit(SKIPPED)
    return opened
