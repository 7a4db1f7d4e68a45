# SPDX-License-Identifier: MIT
"""Values outside of graphs: arrays on a replica's device or on the host, and per-replica values."""
from __future__ import annotations

import numbers
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union, cast

import numpy as np

from ._library import c_string, check, ffi, lib, make, owned
from .devices import context
from .errors import ArgumentError, ShapeError
from .options import DType
from .strategy import Strategy, Variable
from .tensor import _NAMES, _TYPES, array, array_of, shape_of, type_of

KINDS = {getattr(lib, f"COPSE_VALUE_{name.upper()}"): name for name in (
    "array", "sparse", "object", "variable", "list", "dict", "per_replica", "mirrored")}

Structure = Any
"""A Value, a Variable, an array, a number, another object of Python, or a list, tuple or mapping of structures."""


class Value:
    """An array, or one array for each replica (PerReplica, "mirrored"). It never changes: arithmetic makes new values, on
    the device where the operands are. Only reading it (numpy, float, bool, comparisons) waits for the device."""

    __slots__ = ("_pointer",)
    __array_ufunc__ = None  # NumPy must not take over `array + value`
    __hash__ = None  # type: ignore[assignment]  # == compares elements

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer

    @property
    def kind(self) -> str:
        return KINDS[lib.copse_value_kind_of(self._pointer)]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each component; where shapes differ, of the first one."""
        s = lib.copse_value_shape(self._first)
        return tuple(s.dims[i] for i in range(s.rank))

    @property
    def dtype(self) -> DType:
        return cast(DType, _NAMES[lib.copse_value_type(self._first)])

    @property
    def _first(self) -> Any:
        return self._pointer

    @property
    def components(self) -> tuple[Any, ...]:
        """The values of this process's replicas, in order; of a plain value itself."""
        if self.kind != "mirrored":
            return (self,)
        return tuple(_components(self._pointer))

    def numpy(self) -> np.ndarray:
        """A copy in host memory; of a mirrored value its first component. A per-replica value has `components`."""
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

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind}, {self.dtype}{list(self.shape)})"

    def __add__(self, other: Any) -> "Value":
        return arithmetic("add", self, other)

    def __radd__(self, other: Any) -> "Value":
        return arithmetic("add", other, self)

    def __sub__(self, other: Any) -> "Value":
        return arithmetic("sub", self, other)

    def __rsub__(self, other: Any) -> "Value":
        return arithmetic("sub", other, self)

    def __mul__(self, other: Any) -> "Value":
        return arithmetic("mul", self, other)

    def __rmul__(self, other: Any) -> "Value":
        return arithmetic("mul", other, self)

    def __truediv__(self, other: Any) -> "Value":
        return arithmetic("div", self, other)

    def __rtruediv__(self, other: Any) -> "Value":
        return arithmetic("div", other, self)

    def __matmul__(self, other: Any) -> "Value":
        return arithmetic("matmul", self, other)

    def __rmatmul__(self, other: Any) -> "Value":
        return arithmetic("matmul", other, self)

    def __neg__(self) -> "Value":
        return wrapped(make("value", lib.copse_value_multiply_by, self._pointer, -1.0))

    # Comparisons read: their results are NumPy's, and conditions of `if`.

    def __eq__(self, other: Any) -> Any:
        return self.numpy() == _read(other)

    def __ne__(self, other: Any) -> Any:
        return self.numpy() != _read(other)

    def __lt__(self, other: Any) -> Any:
        return self.numpy() < _read(other)

    def __le__(self, other: Any) -> Any:
        return self.numpy() <= _read(other)

    def __gt__(self, other: Any) -> Any:
        return self.numpy() > _read(other)

    def __ge__(self, other: Any) -> Any:
        return self.numpy() >= _read(other)

    def sum(self) -> "Value":
        """The sum of all elements of each component."""
        return wrapped(make("value", lib.copse_value_sum, self._pointer))

    def astype(self, dtype: DType) -> "Value":
        return wrapped(make("value", lib.copse_value_convert, self._pointer, type_of(dtype)))


class PerReplica(Value):
    """One component for each replica of this process: `x[r]` belongs to replica r, `len(x)` is their number. NumPy takes it as an
    array [replicas, ...] where the components have one shape."""

    __slots__ = ()
    __hash__ = None

    @property
    def _first(self) -> Any:
        return lib.copse_value_item(self._pointer, 0)

    @property
    def components(self) -> tuple[Any, ...]:
        return tuple(_components(self._pointer))

    def __len__(self) -> int:
        return lib.copse_value_count(self._pointer)

    def __getitem__(self, replica: int) -> Any:
        if not -len(self) <= replica < len(self):
            raise IndexError(f"the value has {len(self)} components, not a component {replica}")
        return self.components[replica]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.components)

    def numpy(self) -> np.ndarray:
        raise ArgumentError("replicas may differ in this value: read its components, or reduce it")

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        parts = [np.asarray(c, dtype) for c in self.components]
        if len({p.shape for p in parts}) > 1:
            raise ShapeError("the components have different shapes, "
                             + ", ".join(str(list(p.shape)) for p in parts) + ": read each of them")
        return np.stack(parts)


_OPERATIONS = {"add": lib.copse_value_add, "sub": lib.copse_value_subtract, "mul": lib.copse_value_multiply,
               "div": lib.copse_value_divide, "matmul": lib.copse_value_matmul}


def arithmetic(name: str, a: Any, b: Any) -> Value:
    """An operation of two operands of which one is a Value or a Variable."""
    from . import ops
    if ops.is_building():
        raise ArgumentError("a Value is no operand in a graph: give it to the function as an argument, or use ops.constant")
    x, y = (v.read() if isinstance(v, Variable) else v for v in (a, b))
    like = x if isinstance(x, Value) else y
    x, y = (v if isinstance(v, Value) else value(v, like.dtype) for v in (x, y))
    return wrapped(make("value", _OPERATIONS[name], x._pointer, y._pointer))


def _read(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, (Value, Variable)) else x


def wrapped(pointer: Any) -> Value:
    """A pointer, which it takes over, as a Value."""
    return (PerReplica if lib.copse_value_kind_of(pointer) == lib.COPSE_VALUE_PER_REPLICA else Value)(pointer)


def _shared(pointer: Any) -> Any:
    return owned("value", lib.copse_value_retain(pointer))


def _components(pointer: Any) -> Iterator[Any]:
    """Components of a distributed value; objects of Python are themselves."""
    for i in range(lib.copse_value_count(pointer)):
        item = lib.copse_value_item(pointer, i)
        is_object = lib.copse_value_kind_of(item) == lib.COPSE_VALUE_OBJECT
        yield _object(item) if is_object else Value(_shared(item))


def value(x: Any, dtype: Optional[DType] = None) -> Value:
    """An array or a number as a value: in a replica on its device, else on the host. float64 becomes float32; float16 stays."""
    if isinstance(x, Value):
        return x
    a = array(x)
    if dtype is not None:
        a = array_of(a, dtype)
    a = _supported(a)
    return Value(make("value", lib.copse_value_create, context(), type_of(a.dtype), shape_of(a.shape), _memory(a)))


def _supported(x: Any) -> np.ndarray:
    """An array of a type of values, in C order. Other floats become float32, other whole numbers int64."""
    a = np.asarray(x)
    if a.dtype.name not in _TYPES:
        if a.dtype.kind not in "biuf":
            raise ArgumentError(f"arrays of {a.dtype} are not supported: use numbers")
        a = array_of(a, np.float32 if a.dtype.kind == "f" else np.int64)
    return np.ascontiguousarray(a).reshape(a.shape)


def _memory(a: np.ndarray) -> Any:
    return ffi.from_buffer(a) if a.size else ffi.NULL


def per_replica(strategy: Strategy, components: Sequence[Any]) -> Value:
    """One component for each replica of the strategy, copied to its device."""
    parts = []
    for rank, x in enumerate(components):
        a = _supported(array(x))
        parts.append(make("value", lib.copse_value_create_on, strategy._pointer, rank, type_of(a.dtype),
                          shape_of(a.shape), _memory(a)))
    return wrapped(make("value", lib.copse_value_per_replica, strategy._pointer, parts, len(parts)))


# ---- structures: lists, tuples and mappings of values ----

def is_array(x: Any) -> bool:
    """Whether a leaf of a structure is an array or a number; else it is a Variable or another object of Python."""
    return isinstance(x, (Value, np.ndarray, np.generic, numbers.Number)) or (
        not isinstance(x, Variable) and (hasattr(x, "__array__") or hasattr(x, "__dlpack__")))


def pack(x: Structure, objects: Optional[dict[int, Any]] = None, keeps_numbers: bool = False) -> Any:
    """A pointer to a structure of C, which it owns. With `objects` leaves may be objects of Python, with `keeps_numbers` its
    numbers, too: `objects` keeps the handles that C has instead, one for each object, and must live as long as C has the
    structure."""
    if isinstance(x, Mapping):
        items = [pack(v, objects, keeps_numbers) for v in x.values()]
        names = [c_string(str(k)) for k in x]
        return make("value", lib.copse_value_dict, context(), names, items, len(items))
    if isinstance(x, (list, tuple)):
        items = [pack(v, objects, keeps_numbers) for v in x]
        return make("value", lib.copse_value_list, context(), items, len(items))
    if isinstance(x, Variable):
        return make("value", lib.copse_variable_value, x._pointer)
    is_number = isinstance(x, (int, float)) and not isinstance(x, np.generic)
    if objects is None or (is_array(x) and not (keeps_numbers and is_number)):
        return value(x)._pointer
    handle = objects.setdefault(id(x), ffi.new_handle(x))
    return make("value", lib.copse_value_object, context(), handle)


def unpack(pointer: Any, strategy: Strategy, objects: Optional[dict[int, Any]] = None) -> Structure:
    """The structure of a pointer, which it takes over. Variables of the strategy are Variables; handles of `objects` are the
    objects."""
    kind = KINDS[lib.copse_value_kind_of(pointer)]
    if kind in ("list", "dict"):
        items = [unpack(_shared(lib.copse_value_item(pointer, i)), strategy, objects)
                 for i in range(lib.copse_value_count(pointer))]
        if kind == "list":
            return items
        names = [ffi.string(lib.copse_value_name(pointer, i)).decode() for i in range(len(items))]
        return dict(zip(names, items))
    if kind == "variable":
        return Variable._of(strategy, lib.copse_value_variable(pointer))
    if kind == "object":
        return _object(pointer)
    if kind == "per_replica" and objects:  # its components may be objects, which live as long as their handles
        return wrapped(owned("value", lib.copse_value_retain(pointer), objects))
    return wrapped(pointer)


def _object(pointer: Any) -> Any:
    return ffi.from_handle(lib.copse_value_pointer(pointer))


def alike(x: Structure, like: Structure) -> Structure:
    """x, whose containers came from C as lists and dictionaries, with the containers of `like`."""
    if isinstance(like, Mapping) and isinstance(x, Mapping) and len(x) == len(like):
        return {k: alike(x[str(k)], v) for k, v in like.items()}
    if isinstance(like, (list, tuple)) and isinstance(x, list) and len(x) == len(like):
        return _sequence(like, [alike(a, b) for a, b in zip(x, like)])
    return x


def _sequence(like: Sequence[Any], items: list[Any]) -> Sequence[Any]:
    """The items as a list, a tuple or a named tuple."""
    if isinstance(like, list):
        return items
    return type(like)(*items) if hasattr(like, "_fields") else tuple(items)


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
        return _sequence(x, [mapped(v, fn, f"{path}.{i}" if path else str(i)) for i, v in enumerate(x)])
    return fn(path or "0", x)
