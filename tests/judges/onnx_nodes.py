# SPDX-License-Identifier: MIT
"""onnx_nodes.py [PATTERN]: the node tests of the ONNX package, run on host:0, opencl:0 and vulkan:0.

The package generates cases with inputs and expected outputs (onnx.backend.test.case.node). Those of one node whose operator
is an op of Copse, or a short composition (onnx_ops.py, onnx_attention.py, onnx_indices.py, onnx_moves.py, onnx_recurrent.py,
onnx_windows.py), are run through the Python package.
Results that are moved, compared or whole numbers must be equal. Others may differ by twice the bound of docs/conformance.md:
the expected outputs are single-precision results themselves. Exit code 0: all agree, or differ as onnx_known.txt says; 1; 77: skipped.
"""
import fnmatch
import sys
import warnings
from pathlib import Path

try:
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
    from onnx.backend.test.case.node import collect_testcases
    import judge
    from copse import ops
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing}): name a Python with onnx, numpy and cffi in COPSE_ONNX_PYTHON")
    sys.exit(77)
import onnx_attention  # noqa: F401  these add their operators
import onnx_indices  # noqa: F401
import onnx_moves  # noqa: F401
import onnx_recurrent  # noqa: F401
import onnx_windows  # noqa: F401
from onnx_ops import OPERATORS

HERE = Path(__file__).resolve().parent
CASTS = {"Cast", "CastLike", "Attention"}  # these take operands of stored types
CONVERTED = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min", "IsInf", "IsNaN"}


class Operands:
    """Operands as inputs of the graph, made when they are first used. Those of stored types are converted to f32 for
    operators whose results this does not change."""

    def __init__(self, graph, operator, values):
        self.graph, self.operator, self.values, self.made = graph, operator, values, {}

    def __getitem__(self, i):
        if i not in self.made:
            x = self.graph.input(self.values[i])
            if x.dtype not in ("float32", "int32") and self.operator not in CASTS:
                if self.operator not in CONVERTED:
                    raise judge.NotRun(f"type missing: {x.dtype} for {self.operator}")
                x = ops.cast(x, "float32")
            self.made[i] = x
        return self.made[i]


class Node:
    """A node of ONNX with the values of a test case."""

    def __init__(self, graph, node, inputs, outputs):
        given = iter(inputs)
        self.host = [next(given) if name else None for name in node.input]
        self.type, self.outputs = node.op_type, outputs
        self.x = Operands(graph, node.op_type, self.host)
        self._attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def has(self, i):
        return i < len(self.host) and self.host[i] is not None

    def attribute(self, name, default):
        return self._attributes.get(name, default)

    def array(self, name):
        return numpy_helper.to_array(self._attributes[name])


def values_of(a):
    """A value of a test case as an array, or None."""
    if isinstance(a, onnx.TensorProto):  # of a type without a NumPy type, or one of a few values
        a = numpy_helper.to_array(a)
    return a if isinstance(a, (np.ndarray, np.generic)) else None


def twice(bound):
    return lambda want: 2 * bound(want)


def build_case(node, inputs, outputs):
    def build(graph):
        operands = Node(graph, node, inputs, outputs)
        tensors, bounds = OPERATORS[node.op_type](operands)
        tensors = tensors if isinstance(tensors, list) else [tensors]
        bounds = bounds if isinstance(bounds, list) else [bounds] * len(tensors)
        named = [i for i, name in enumerate(node.output) if name and i < len(tensors)]
        wanted = [(tensors[i], np.asarray(y), twice(bounds[i])) for i, y in zip(named, outputs)]
        if len(wanted) != len(outputs):
            raise judge.NotRun(f"op missing: {node.op_type} with {len(outputs)} outputs")
        return tuple(zip(*wanted))
    return build


def judge_one(report, case, opened):
    nodes = case.model.graph.node
    if len(nodes) != 1:
        return report.skip("several nodes: an operator written out as others")
    node, (inputs, outputs) = nodes[0], ([values_of(a) for a in values] for values in case.data_sets[0])
    if any(a is None for a in inputs + outputs):
        return report.skip("sequences and optional values")
    if node.op_type not in OPERATORS:
        return report.skip(f"op missing: {node.op_type}")
    if len(case.data_sets) != 1:
        return report.skip("several sets of values")
    return judge.judge_case(report, case.name, opened, build_case(node, inputs, outputs))


def main():
    warnings.simplefilter("ignore")
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    opened = judge.begin()
    report = judge.Report("ONNX node tests", judge.Conventions(HERE / "onnx_known.txt"))
    for case in collect_testcases(None):
        if fnmatch.fnmatchcase(case.name, pattern):
            judge_one(report, case, opened)
    return report.end(is_whole=pattern == "*")


if __name__ == "__main__":
    sys.exit(main())
