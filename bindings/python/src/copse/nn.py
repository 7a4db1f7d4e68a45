# SPDX-License-Identifier: MIT
"""Layers: a network as a description, such as "dense 64 relu; dropout 0.1; dense out"."""
from __future__ import annotations

from typing import Any, Optional, Sequence

from . import devices, ops
from ._library import c_string, check, ffi, lib, make
from .strategy import Strategy
from .tensor import Tensor, shape_of, type_of
from .trainer import Inputs


class Layers:
    """A network from a description (docs/layers.md). With a strategy its variables are made at once.

    shape: of one example; dtype: of the input; outputs: units of "dense out"; scope: put before the variables' names.
    """

    def __init__(self, description: str, strategy: Optional[Strategy] = None, *, shape: Sequence[int] = (),
                 dtype: str = "float32", outputs: int = 0, scope: Optional[str] = None, seed: int = 0) -> None:
        self._pointer = make("layer", lib.copse_nn_parse, devices.context(), c_string(description))
        if strategy is not None:
            self.build(strategy, shape=shape, dtype=dtype, outputs=outputs, scope=scope, seed=seed)

    def build(self, strategy: Strategy, *, shape: Sequence[int] = (), dtype: str = "float32", outputs: int = 0,
              scope: Optional[str] = None, seed: int = 0) -> None:
        """Make the variables."""
        name = c_string(scope)
        params = ffi.new("struct copse_build_params *", {
            "type": type_of(dtype), "shape": shape_of(shape), "outputs": outputs, "scope": name, "seed": seed,
        })
        check(lib.copse_layer_build(self._pointer, strategy._pointer, params))

    def __call__(self, inputs: Inputs, x: Tensor) -> Tensor:
        """The output for a tensor, in a loss function."""
        out = ffi.new("copse_tensor **")
        check(lib.copse_layer_apply(self._pointer, ops.graph(), inputs._pointer, x._pointer, out))
        return Tensor(x._graph, out[0])

    @property
    def parameters(self) -> int:
        """Elements of the trained variables."""
        return lib.copse_layer_parameters(self._pointer)

    @property
    def output(self) -> tuple[int, ...]:
        """Shape of the output for one example."""
        shape = ffi.new("copse_shape *")
        check(lib.copse_layer_output(self._pointer, shape))
        return tuple(shape.dims[i] for i in range(shape.rank))

    def summary(self) -> str:
        """A table: layer, output, parameters."""
        return self._text(lib.copse_layer_summary)

    def __str__(self) -> str:
        """The description; built layers have numbers in it."""
        return self._text(lib.copse_layer_text)

    def _text(self, function: Any) -> str:
        needed = ffi.new("size_t *")
        check(function(self._pointer, ffi.NULL, 0, needed))
        room = ffi.new("char[]", needed[0])
        check(function(self._pointer, room, needed[0], needed))
        return ffi.string(room).decode("utf-8", "replace")
