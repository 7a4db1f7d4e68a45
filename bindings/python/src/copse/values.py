# SPDX-License-Identifier: MIT
"""Values outside of graphs: arrays on a replica's device or on the host, and per-replica values."""
from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from ._library import c_string, check, ffi, lib, make, owned
from .devices import context
from .errors import ArgumentError
from .strategy import Strategy, Variable
from .tensor import _NAMES, _TYPES, array, shape_of, type_of

KINDS = {getattr(lib, f"COPSE_VALUE_{name.upper()}"): name for name in (
    "array", "sparse", "object", "variable", "list", "dict", "per_replica", "mirrored")}

Structure = Any  # a Value, a Variable, an array, a number, or a list, tuple or mapping of structures


class Value:
    """An array, or one array for each replica ("per_replica", "mirrored"). It never changes: arithmetic makes new values, on
    the device where the operands are. Only reading it (numpy, float, ==) waits for the device."""

    __slots__ = ("_pointer",)
    __array_ufunc__ = None  # NumPy must not take over `array + value`

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer

    @property
    def kind(self) -> str:
        return KINDS[lib.copse_value_kind_of(self._pointer)]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each component."""
        one = self._first()
        s = lib.copse_value_shape(one)
        return tuple(s.dims[i] for i in range(s.rank))

    @property
    def dtype(self) -> str:
        return _NAMES[lib.copse_value_type(self._first())]

    def _first(self) -> Any:
        return lib.copse_value_item(self._pointer, 0) if self.kind == "per_replica" else self._pointer

    @property
    def components(self) -> list["Value"]:
        """The values of this process's replicas, in order; of a plain value itself."""
        if self.kind not in ("per_replica", "mirrored"):
            return [self]
        return [Value(_shared(lib.copse_value_item(self._pointer, i)))
                for i in range(lib.copse_value_count(self._pointer))]

    def numpy(self) -> np.ndarray:
        """A copy in host memory; of a mirrored value its first component. A per-replica value has `components`."""
        if self.kind == "per_replica":
            raise ArgumentError("replicas may differ in this value: read its components, or reduce it")
        name = self.dtype
        out = np.empty(self.shape, np.uint16 if name == "bfloat16" else name)
        check(lib.copse_value_read(self._pointer, ffi.from_buffer(out)))
        return out

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        out = self.numpy()
        return out if dtype is None else out.astype(dtype, copy=False)

    def __float__(self) -> float:
        return float(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __repr__(self) -> str:
        return f"Value({self.kind}, {self.dtype}{list(self.shape)})"

    def __add__(self, other: Any) -> "Value":
        return _arithmetic(lib.copse_value_add, self, other)

    def __radd__(self, other: Any) -> "Value":
        return _arithmetic(lib.copse_value_add, other, self)

    def __sub__(self, other: Any) -> "Value":
        return _arithmetic(lib.copse_value_subtract, self, other)

    def __rsub__(self, other: Any) -> "Value":
        return _arithmetic(lib.copse_value_subtract, other, self)

    def __mul__(self, other: Any) -> "Value":
        return _arithmetic(lib.copse_value_multiply, self, other)

    def __rmul__(self, other: Any) -> "Value":
        return _arithmetic(lib.copse_value_multiply, other, self)

    def __matmul__(self, other: Any) -> "Value":
        return _arithmetic(lib.copse_value_matmul, self, other)

    def __neg__(self) -> "Value":
        return Value(make("value", lib.copse_value_multiply_by, self._pointer, -1.0))

    def sum(self) -> "Value":
        """The sum of all elements of each component."""
        return Value(make("value", lib.copse_value_sum, self._pointer))

    def astype(self, dtype: str) -> "Value":
        return Value(make("value", lib.copse_value_convert, self._pointer, type_of(dtype)))


def _shared(pointer: Any) -> Any:
    return owned("value", lib.copse_value_retain(pointer))


def _arithmetic(function: Any, a: Any, b: Any) -> Value:
    like = a if isinstance(a, Value) else b
    x, y = (v if isinstance(v, Value) else value(v, like.dtype) for v in (a, b))
    return Value(make("value", function, x._pointer, y._pointer))


def value(x: Any, dtype: Optional[str] = None) -> Value:
    """An array or a number as a value: in a replica on its device, else on the host. Floats become float32."""
    if isinstance(x, Value):
        return x
    a = array(x)
    if dtype is not None:
        a = a.astype(dtype)
    elif a.dtype.name not in _TYPES or (a.dtype == np.int64 and not isinstance(x, np.ndarray)):
        if a.dtype.kind not in "biuf":
            raise ArgumentError(f"arrays of {a.dtype} are not supported: use numbers")
        a = a.astype(np.float32 if a.dtype.kind == "f" else np.int64)
    a = np.ascontiguousarray(a).reshape(a.shape)
    return Value(make("value", lib.copse_value_create, context(), type_of(a.dtype), shape_of(a.shape),
                      ffi.from_buffer(a) if a.size else ffi.NULL))


def per_replica(strategy: Strategy, components: Sequence[Any]) -> Value:
    """One component for each replica of the strategy, copied to its device."""
    parts = []
    for rank, x in enumerate(components):
        a = np.asarray(x)
        a = a if a.dtype.name in _TYPES else a.astype(np.float32 if a.dtype.kind == "f" else np.int64)
        a = np.ascontiguousarray(a).reshape(a.shape)
        parts.append(make("value", lib.copse_value_create_on, strategy._pointer, rank, type_of(a.dtype),
                          shape_of(a.shape), ffi.from_buffer(a) if a.size else ffi.NULL))
    return Value(make("value", lib.copse_value_per_replica, strategy._pointer, parts, len(parts)))


# ---- structures: lists, tuples and mappings of values ----

def pack(x: Structure) -> Any:
    """A pointer to a structure of C, which it owns."""
    if isinstance(x, Mapping):
        items = [pack(v) for v in x.values()]
        names = [c_string(str(k)) for k in x]
        return make("value", lib.copse_value_dict, context(), names, items, len(items))
    if isinstance(x, (list, tuple)):
        items = [pack(v) for v in x]
        return make("value", lib.copse_value_list, context(), items, len(items))
    if isinstance(x, Variable):
        return make("value", lib.copse_variable_value, x._pointer)
    return value(x)._pointer


def unpack(pointer: Any, strategy: Strategy) -> Structure:
    """The structure of a pointer, which it takes over. Variables of the strategy are Variables."""
    kind = KINDS[lib.copse_value_kind_of(pointer)]
    if kind in ("list", "dict"):
        items = [unpack(_shared(lib.copse_value_item(pointer, i)), strategy)
                 for i in range(lib.copse_value_count(pointer))]
        if kind == "list":
            return items
        names = [ffi.string(lib.copse_value_name(pointer, i)).decode() for i in range(len(items))]
        return dict(zip(names, items))
    if kind == "variable":
        return Variable(strategy, lib.copse_value_variable(pointer))
    return Value(pointer)


def leaves(x: Structure, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a structure by the names that inputs of a call have."""
    if isinstance(x, (Mapping, list, tuple)):
        for key, item in (x.items() if isinstance(x, Mapping) else enumerate(x)):
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    else:
        yield path or "0", x


def mapped(x: Structure, fn: Callable[[str, Any], Any], path: str = "") -> Structure:
    """A structure like x of what `fn` makes of the path and the leaf."""
    if isinstance(x, Mapping):
        return {k: mapped(v, fn, f"{path}.{k}" if path else str(k)) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(mapped(v, fn, f"{path}.{i}" if path else str(i)) for i, v in enumerate(x))
    return fn(path or "0", x)
