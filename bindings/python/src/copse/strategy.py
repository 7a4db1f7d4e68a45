# SPDX-License-Identifier: MIT
"""Strategies and variables."""
from __future__ import annotations

from typing import Any, Optional, Sequence, Union

import numpy as np

from . import devices
from ._library import c_string, check, ffi, lib, make, text
from .errors import ArgumentError, ShapeError
from .tensor import Tensor, array, shape_of, type_of, _NAMES

INITIALIZERS = {
    name[len("COPSE_INIT_"):].lower(): getattr(lib, name) for name in dir(lib) if name.startswith("COPSE_INIT_")
}
AGGREGATIONS = {
    "none": lib.COPSE_AGGREGATION_NONE, "sum": lib.COPSE_AGGREGATION_SUM, "mean": lib.COPSE_AGGREGATION_MEAN,
    "only_first_replica": lib.COPSE_AGGREGATION_ONLY_FIRST_REPLICA,
}


def choice(what: str, name: Optional[str], table: dict[str, int], default: int = 0) -> int:
    """The number of a name in a table, or an error that lists the names."""
    if name is None:
        return default
    if name not in table:
        raise ArgumentError(f"{what} '{name}' is unknown: use one of {', '.join(sorted(table))}")
    return table[name]


class Variable:
    """An array on every replica: trained, or changed by the program. It can be an operand of every op."""

    def __init__(self, strategy: "Strategy", pointer: Any) -> None:
        self.strategy = strategy
        self._pointer = pointer

    @property
    def name(self) -> str:
        return text(lib.copse_variable_name(self._pointer))

    @property
    def shape(self) -> tuple[int, ...]:
        s = lib.copse_variable_shape(self._pointer)
        return tuple(s.dims[i] for i in range(s.rank))

    @property
    def dtype(self) -> str:
        return _NAMES[lib.copse_variable_type(self._pointer)]

    @property
    def is_trained(self) -> bool:
        return bool(lib.copse_variable_is_trained(self._pointer))

    @property
    def _tensor(self) -> Any:
        return lib.copse_variable_tensor(self._pointer)

    def numpy(self, replica: int = 0) -> np.ndarray:
        """A copy of the values on one replica."""
        out = np.empty(self.shape, self.dtype)
        check(lib.copse_variable_read(self._pointer, replica, ffi.from_buffer(out)))
        return out

    def assign(self, values: Any) -> None:
        """Set the values on every replica."""
        a = array(values)
        if a.shape != self.shape:
            raise ShapeError(f"variable '{self.name}' has the shape {list(self.shape)}, the values have {list(a.shape)}")
        a = np.ascontiguousarray(a, self.dtype)
        check(lib.copse_variable_assign(self._pointer, ffi.from_buffer(a)))

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        return self.numpy().astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.dtype}{list(self.shape)})"


class Strategy:
    """Where replicas run.

    devices: a selector ("auto", "all", "opencl:0,vulkan:0") or a list of ids, of which one may occur several times. One
    device makes one replica; several make one replica each, which train in step.
    """

    def __init__(self, devices_: Union[str, Sequence[str], None] = None, *, kernels: Optional[str] = None) -> None:
        ids = devices.select(devices_) if devices_ is None or isinstance(devices_, str) else list(devices_)
        names = [c_string(i) for i in ids]
        forced = c_string(kernels)
        params = ffi.new("struct copse_strategy_params *", {"kernels": forced})
        if len(names) == 1:
            self._pointer = make("strategy", lib.copse_one_device_create, devices.context(), names[0], params)
        else:
            self._pointer = make("strategy", lib.copse_mirrored_create, devices.context(), names, len(names), params)
        self.devices = ids
        self._variables: dict[str, Variable] = {}

    @property
    def replicas(self) -> int:
        return lib.copse_strategy_replicas(self._pointer)

    def variable(self, name: str, shape: Sequence[int] = (), *, init: str = "zeros", scale: float = 1.0, seed: int = 0,
                 values: Any = None, dtype: str = "float32", trainable: bool = True,
                 aggregation: str = "mean") -> Variable:
        """Make a variable. `init` is one of INITIALIZERS; `values` are used instead if given and also give the shape."""
        key, data = c_string(name), ffi.NULL
        if values is not None:
            a = np.ascontiguousarray(array(values), dtype)
            shape, data = a.shape, ffi.from_buffer(a)
        params = ffi.new("struct copse_variable_params *", {
            "name": key, "shape": shape_of(shape), "type": type_of(dtype), "scale": scale, "seed": seed, "values": data,
            "initializer": choice("the initializer", init, INITIALIZERS), "is_frozen": not trainable,
            "aggregation": choice("the aggregation", aggregation, AGGREGATIONS),
        })
        out = ffi.new("copse_variable **")
        check(lib.copse_variable_create(self._pointer, params, out))
        return Variable(self, out[0])

    def variables(self) -> list[Variable]:
        """All variables in order of creation."""
        found, count = ffi.new("copse_variable ***"), ffi.new("size_t *")
        lib.copse_strategy_variables(self._pointer, found, count)
        return [Variable(self, found[0][i]) for i in range(count[0])]

    def __repr__(self) -> str:
        return f"Strategy({', '.join(self.devices)})"
