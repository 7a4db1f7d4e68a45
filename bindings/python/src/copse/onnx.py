# SPDX-License-Identifier: MIT
"""Networks of other programs, from ONNX files and to them."""
from __future__ import annotations

from typing import Mapping, Optional, Sequence, Union

from . import ops
from ._library import c_string, check, ffi, lib, make, text
from ._names import named_options
from .devices import context
from .errors import ArgumentError
from .options import PathLike
from .strategy import Strategy
from .tensor import Tensor


class OnnxModel:
    """A network of an ONNX file. With a strategy its weights are variables, which trainers change; else they are constants.
    Call it in a loss function, or another function that builds a graph."""

    @named_options()
    def __init__(self, path: PathLike, strategy: Optional[Strategy] = None, *, trained: Union[str, Sequence[str], None] = None,
                 scope: str = "") -> None:
        """trained: patterns of the weights that are trained, such as "head.*"; None: all but statistics and single numbers.
        scope: variables are "scope/name"."""
        self._pointer = make("onnx", lib.copse_onnx_open, context(), c_string(path))
        self.strategy = strategy
        info = ffi.new("struct copse_onnx_info *")
        check(lib.copse_onnx_describe(self._pointer, info))
        self.opset, self.nodes, self.parameters = info.opset, info.nodes, info.parameters
        self.inputs = self._names(lib.copse_onnx_inputs)
        self.outputs = self._names(lib.copse_onnx_outputs)
        self.weights = self._names(lib.copse_onnx_weights)
        if trained is not None and not trained:
            raise ArgumentError("trained: names no weight; leave it out, or leave out the strategy: the weights are constants then")
        if trained is not None and strategy is None:
            raise ArgumentError("trained: needs a strategy; without one the weights are constants")
        if strategy is not None:
            listed = c_string(trained if trained is None or isinstance(trained, str) else ",".join(trained))
            named = c_string(scope)
            params = ffi.new("struct copse_onnx_make_params *", {"scope": named, "trained": listed})
            check(lib.copse_onnx_make(self._pointer, strategy._pointer, params))

    def _names(self, function: object) -> list[str]:
        count = ffi.new("size_t *")
        listed = function(self._pointer, count)  # type: ignore[operator]
        return [text(listed[i].name) for i in range(count[0])]

    @property
    def refused(self) -> list[tuple[str, str, str]]:
        """Nodes that are not read: the name, the operator, the reason."""
        count = ffi.new("size_t *")
        listed = lib.copse_onnx_refusals(self._pointer, count)
        return [(text(r.node), text(r.op), text(r.why)) for r in (listed[i] for i in range(count[0]))]

    @named_options()
    def __call__(self, inputs: Mapping[str, Tensor], *, outputs: Optional[Sequence[str]] = None, training: bool = False,
                 batch_statistics: bool = False) -> dict[str, Tensor]:
        """Add the network to the graph that is being built: tensors by name. outputs: names of inner tensors or outputs
        [the outputs of the file]. training: Dropout acts. batch_statistics: in training, BatchNormalization takes the
        statistics of the batch."""
        wanted = list(self.outputs if outputs is None else outputs)
        kept = [c_string(name) for name in [*inputs, *wanted]]
        given = ffi.new("struct copse_onnx_feed[]", max(len(inputs), 1))
        for i, tensor in enumerate(inputs.values()):
            given[i].name, given[i].tensor = kept[i], ops._pointer(tensor)
        names = ffi.new("const char *[]", kept[len(inputs):] or [ffi.NULL])
        params = ffi.new("struct copse_onnx_apply_params *", {
            "inputs": given, "input_count": len(inputs), "outputs": names, "output_count": len(wanted),
            "is_training": training, "batch_statistics": batch_statistics})
        results = ffi.new("copse_tensor *[]", max(len(wanted), 1))
        scope = ops._scope()
        lib.copse_onnx_apply(self._pointer, scope.graph, params, results)
        ops._checked(scope)
        return {name: Tensor(scope, results[i]) for i, name in enumerate(wanted)}

    def save(self, path: PathLike) -> None:
        """Write the file again, with the values that the variables have."""
        check(lib.copse_onnx_save(self._pointer, c_string(path)))
