# SPDX-License-Identifier: MIT
"""onnx_files.py [PATTERN]: the node tests of the ONNX package as files, read by copse_onnx_open.

The package generates cases (onnx.backend.test.case.node), each a model with inputs and expected outputs. Each model is
written to a file, opened, applied to inputs of its shapes, and run on host:0, opencl:0 and vulkan:0. Results may differ by the
tolerances that the case states. Exit code 0: all that are read agree, or differ as onnx_files_known.txt says; 1; 77: skipped.
"""
import fnmatch
import os
import sys
import tempfile
import warnings
from pathlib import Path

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test.case.node import collect_testcases
    import judge
    from copse import errors
    from copse._library import c_string, check, ffi, lib, make
    from copse.devices import context
    from copse.tensor import Tensor
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing}): name a Python with onnx, numpy and cffi in COPSE_ONNX_PYTHON")
    sys.exit(77)

HERE = Path(__file__).resolve().parent


class File:
    """A model that was opened."""

    def __init__(self, path):
        self.pointer = make("onnx", lib.copse_onnx_open, context(), c_string(path))

    def refusals(self):
        count = ffi.new("size_t *")
        listed = lib.copse_onnx_refusals(self.pointer, count)
        return [(ffi.string(listed[i].op).decode(), ffi.string(listed[i].why).decode()) for i in range(count[0])]

    def inputs(self):
        count = ffi.new("size_t *")
        listed = lib.copse_onnx_inputs(self.pointer, count)
        return [ffi.string(listed[i].name).decode() for i in range(count[0])]

    def apply(self, graph, feeds, count):
        """Tensors of the outputs. feeds: (name, tensor)."""
        names = [ffi.new("char[]", name.encode()) for name, _ in feeds]
        given = ffi.new("struct copse_onnx_feed[]", max(len(feeds), 1))
        for i, (_, tensor) in enumerate(feeds):
            given[i].name, given[i].tensor = names[i], tensor
        params = ffi.new("struct copse_onnx_apply_params *", {"inputs": given, "input_count": len(feeds)})
        results = ffi.new("copse_tensor *[]", count)
        lib.copse_onnx_apply(self.pointer, graph, params, results)
        check(lib.copse_graph_status(graph))
        return list(results)


def values_of(a):
    if isinstance(a, onnx.TensorProto):
        a = numpy_helper.to_array(a)
    return a if isinstance(a, (np.ndarray, np.generic)) else None


def tolerance(case):
    return lambda want: case.atol + case.rtol * np.abs(want)


def fold(model, name):
    """Whether the operand is one whose numbers a file has as constants: shapes, axes, sizes."""
    return any(i.name == name and i.type.tensor_type.elem_type not in (1, 9, 10, 11, 16) for i in model.graph.input)


def with_constants(model, values):
    """A copy in which inputs of whole numbers, and scalars, are initialisers, as exporters write them."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    kept = [i for i in copy.graph.input if i.name not in values]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    copy.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in values.items())
    return copy


def judge_one(report, case, opened, folder):
    inputs, outputs = ([values_of(a) for a in values] for values in case.data_sets[0])
    if any(a is None for a in inputs + outputs):
        return report.skip("sequences and optional values")
    if any(a.dtype == object or a.dtype.kind in "SUc" for a in inputs + outputs):
        return report.skip("texts and complex numbers")
    given = dict(zip((i.name for i in case.model.graph.input), inputs))
    return run_case(report, case, opened, folder, given, outputs)


def run_case(report, case, opened, folder, given, outputs):
    texts = []
    first = next(iter(given), None)
    small = {name: a for name, a in given.items() if a.dtype.kind in "iub" and a.size <= 64 and name != first}
    tiny = {name: a for name, a in given.items() if a.size <= 8 and name != first}
    for constants in ({}, small, {**small, **tiny}, {name: a for name, a in given.items() if name != first or len(given) == 1}):
        path = os.path.join(folder, "model.onnx")
        onnx.save(with_constants(case.model, constants), path)
        try:
            opened_file = File(path)
        except errors.Error as refused:
            return report.skip(f"{refused}".replace(folder, "")[:100])
        refused = opened_file.refusals()
        if refused:
            return report.skip(f"{refused[0][0]}: {refused[0][1]}")

        def build(graph, file=opened_file):
            names = file.inputs()
            feeds = [(name, graph.input(np.asarray(given[name]))._pointer) for name in names]
            tensors = [Tensor(graph.scope, t) for t in file.apply(graph.pointer, feeds, len(outputs))]
            return tensors, [np.asarray(y) for y in outputs], [tolerance(case)] * len(outputs)
        graph = judge.Graph()
        with judge.ops.building(graph.pointer) as graph.scope:
            try:
                build(graph)
            except errors.UnsupportedError as refused:
                texts.append(str(refused))
                continue
            except judge.NotRun as reason:
                return report.skip(str(reason))
            except errors.Error:
                pass
        return judge.judge_case(report, case.name, opened, build)
    text = texts[-1]
    return report.skip(text[text.find("("):][:90])


def main():
    warnings.simplefilter("ignore")
    if not lib.copse_onnx_is_read():
        print("skipped: the library was built without protobuf-c")
        return 77
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    opened = judge.begin()
    report = judge.Report("ONNX node tests as files", judge.Conventions(HERE / "onnx_files_known.txt"))
    with tempfile.TemporaryDirectory() as folder:
        for case in collect_testcases(None):
            if fnmatch.fnmatchcase(case.name, pattern):
                judge_one(report, case, opened, folder)
    return report.end(is_whole=pattern == "*")


if __name__ == "__main__":
    sys.exit(main())
