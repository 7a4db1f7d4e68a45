# SPDX-License-Identifier: MIT
"""Layers: a network as a description, such as "dense 64 relu; dropout 0.1; dense out", or made of functions."""
from __future__ import annotations

from typing import Any, Optional, Sequence, Union

from . import ops
from ._library import c_string, check, choice, ffi, lib, make
from ._names import named_options
from .devices import context
from .errors import ArgumentError
from .inputs import Inputs
from .options import Activation, DType
from .strategy import Strategy
from .tensor import Tensor, shape_of, type_of


class Layers:
    """A network from a description (docs/layers.md). With a strategy its variables are made at once.

    shape: of one example; dtype: of the input; outputs: units of "dense out"; tokens: rows of "embedding in"; scope: put before
    the variables' names.
    """

    @named_options()
    def __init__(self, description: Optional[str], strategy: Optional[Strategy] = None, *, shape: Sequence[int] = (),
                 dtype: DType = "float32", outputs: int = 0, scope: Optional[str] = None, seed: int = 0,
                 tokens: int = 0, _pointer: Any = None) -> None:
        self._owner: Any = None  # of a pointer that is borrowed
        self._pointer = _pointer or make("layer", lib.copse_nn_parse, context(), c_string(description))
        if strategy is not None:
            self.build(strategy, shape=shape, dtype=dtype, outputs=outputs, scope=scope, seed=seed, tokens=tokens)

    @named_options()
    def build(self, strategy: Strategy, *, shape: Sequence[int] = (), dtype: DType = "float32", outputs: int = 0,
              scope: Optional[str] = None, seed: int = 0, tokens: int = 0) -> None:
        """Make the variables."""
        name = c_string(scope)
        params = ffi.new("struct copse_build_params *", {
            "type": type_of(dtype), "shape": shape_of(shape), "outputs": outputs, "scope": name, "seed": seed,
            "tokens": tokens,
        })
        check(lib.copse_layer_build(self._pointer, strategy._pointer, params))

    def __call__(self, inputs: Union[Inputs, Tensor], x: Optional[Tensor] = None, *, is_training: bool = False) -> Tensor:
        """The output for a tensor: `network(inputs, x)` in a loss function; `network(x)` in a function of @copse.function,
        where `is_training` says whether dropout and moving averages work as in training."""
        if isinstance(inputs, Inputs):
            if is_training:
                raise ArgumentError("is_training is for network(x) in a function of @copse.function: a loss function trains "
                                    "in a step, and does not in an evaluation")
            batch = inputs._pointer
        else:
            x, given = inputs, ops._scope().batch
            if given is None:
                raise ArgumentError("network(x) works in functions of @copse.function: in a loss function use "
                                    "network(inputs, x)")
            batch = ffi.new("copse_batch *", given[0])
            batch.is_training = is_training
        if not isinstance(x, Tensor):
            raise ArgumentError(f"the input of a network is {type(x).__name__}, not a Tensor")
        result = lib.copse_layer_apply(self._pointer, ops.graph(), batch, x._pointer)
        check(lib.copse_graph_status(ops.graph()))
        return Tensor(x._scope, result)

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


def _made(function: Any, *arguments: Any) -> Layers:
    return Layers(None, _pointer=make("layer", function, *arguments))


def dense(units: int = 0, activation: Activation = "linear") -> Layers:
    """Dense layer; without units as many as the `outputs` of `build`."""
    return _made(lib.copse_nn_dense, context(), units, choice("the activation", activation, ops.ACTIVATIONS))


def embedding(rows: int, width: int, sparse: bool = False) -> Layers:
    """Rows of a table by int32 index. sparse: a step takes the rows of the batch alone (docs/sparse.md)."""
    if sparse:
        return Layers(f"embedding {rows} {width} sparse=yes")
    return _made(lib.copse_nn_embedding, context(), rows, width)


def activation(name: Activation) -> Layers:
    """An activation alone."""
    return _made(lib.copse_nn_activation, context(), choice("the activation", name, ops.ACTIVATIONS))


def dropout(rate: float) -> Layers:
    """Dropout while training."""
    return _made(lib.copse_nn_dropout, context(), rate)


def layer_norm() -> Layers:
    """Layer norm over the last axis of each example."""
    return _made(lib.copse_nn_layer_norm, context())


def rms_norm() -> Layers:
    """RMS norm over the last axis of each example."""
    return _made(lib.copse_nn_rms_norm, context())


def batch_norm() -> Layers:
    """Batch norm over the global batch; evaluations use moving averages."""
    return _made(lib.copse_nn_batch_norm, context())


def flatten() -> Layers:
    """Each example becomes one axis."""
    return _made(lib.copse_nn_flatten, context())


def residual(inner: Layers) -> Layers:
    """x + inner(x)."""
    return _made(lib.copse_nn_residual, inner._pointer)


def sequential(*layers: Layers) -> Layers:
    """Layers in a row."""
    return _made(lib.copse_nn_sequential, [layer._pointer for layer in layers], len(layers))


def mlp(widths: Sequence[int] = (), activation: Activation = "relu") -> Layers:
    """Perceptron: flatten, hidden dense layers of these widths, dense out."""
    return _made(lib.copse_nn_mlp, context(), list(widths) or ffi.NULL, len(widths),
                 choice("the activation", activation, ops.ACTIVATIONS))
