# SPDX-License-Identifier: MIT
"""Element types, NumPy arrays as memory of the library, and symbolic tensors."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence, Union, cast

import numpy as np

from ._library import ffi, lib
from .errors import ArgumentError
from .options import DType

if TYPE_CHECKING:
    from .strategy import Variable

# Types of batches, data sets and tensors.
_TYPES = {
    "float32": lib.COPSE_F32, "int32": lib.COPSE_I32, "uint8": lib.COPSE_U8, "float16": lib.COPSE_F16,
    "int64": lib.COPSE_I64,
}
_NAMES = {v: k for k, v in _TYPES.items()} | {lib.COPSE_BF16: "bfloat16"}
_NUMBERS = {v: k for k, v in _NAMES.items()}
_OF_DTYPE = {np.dtype(k): v for k, v in _TYPES.items()}  # the name of a dtype takes NumPy microseconds
# Types of arrays in files and of features.
_ELEMENTS = _TYPES | {
    "float64": lib.COPSE_F64, "int8": lib.COPSE_I8, "int16": lib.COPSE_I16, "uint16": lib.COPSE_U16,
    "uint32": lib.COPSE_U32, "uint64": lib.COPSE_U64, "bool": lib.COPSE_BOOL,
}


def array(value: Any) -> np.ndarray:
    """A NumPy array as the library reads it: C order, aligned, native byte order; a copy if `value` is none. Takes arrays,
    lists, and any object with DLPack on the CPU, such as a PyTorch tensor."""
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        value = np.from_dlpack(value)
    if np.ma.is_masked(value):
        raise ArgumentError("an array has masked elements: fill them first")
    a = np.asarray(value)
    if a.flags.c_contiguous and a.flags.aligned and a.dtype.isnative:
        return a
    return np.require(a, a.dtype.newbyteorder("="), ["C", "A"])


def array_of(value: Any, dtype: Any) -> np.ndarray:
    """Numbers as an array of one type. Refuses values that a type of whole numbers cannot hold."""
    a, to = array(value), np.dtype(dtype).newbyteorder("=")
    if a.dtype.kind not in "biuf":
        raise ArgumentError(f"arrays of {a.dtype} are not supported: use numbers")
    with np.errstate(invalid="ignore"):
        b = a.astype(to)
    if to.kind in "iu" and (a != b).any():
        raise ArgumentError(f"{to} cannot hold {a[a != b].flat[0]}")
    return b


def column(value: Any) -> np.ndarray:
    """An array of a type that a batch can have. Other floats become float32, other whole numbers int64."""
    a = np.atleast_1d(array(value))
    if a.dtype in _OF_DTYPE:
        return a
    if a.dtype.kind == "f":
        return a.astype(np.float32)
    if a.dtype.kind in "iub":
        b = a.astype(np.int64)
        if a.dtype == np.uint64 and (a > np.iinfo(np.int64).max).any():
            raise ArgumentError("an array has whole numbers above 2^63 - 1")
        return b
    raise ArgumentError(f"arrays of {a.dtype} are not supported: use one of {', '.join(_TYPES)}")


def type_of(name: Union[str, np.dtype, type]) -> int:
    """The library's number of an element type."""
    if isinstance(name, np.dtype) and name in _OF_DTYPE:
        return _OF_DTYPE[name]
    text = "bfloat16" if name == "bfloat16" else np.dtype(name).name
    found = _NUMBERS.get(text)
    if found is None:
        raise ArgumentError(f"no element type '{name}': use one of {', '.join(_NAMES.values())}")
    return found


def shape_of(dims: Sequence[int]) -> Any:
    """A copse_shape."""
    dims = [dims] if isinstance(dims, int) else list(dims)
    if len(dims) > lib.COPSE_MAX_RANK:
        raise ArgumentError(f"a shape has {len(dims)} axes, the most are {lib.COPSE_MAX_RANK}")
    return ffi.new("copse_shape *", {"rank": len(dims), "dims": dims})[0]


def view_of(a: np.ndarray) -> Any:
    """A copse_array_view of an array; it does not keep the array alive."""
    if a.dtype.name not in _ELEMENTS:
        raise ArgumentError(f"arrays of {a.dtype} are not supported: use one of {', '.join(_ELEMENTS)}")
    return ffi.new("struct copse_array_view *", {
        "type": _ELEMENTS[a.dtype.name], "rank": a.ndim, "shape": list(a.shape), "data": ffi.from_buffer(a),
    })


class Scope:
    """A call of one of the application's functions, with the graph that it builds. The library frees what belongs to it."""

    __slots__ = ("_graph", "is_over", "batch")

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self.is_over = False
        self.batch: Any = None  # the inputs, in a function of copse.function

    def valid(self, pointer: Any) -> Any:
        """The pointer, while the call lasts."""
        if self.is_over:
            raise ArgumentError("inputs and tensors cannot be kept: the function call that gave them is over")
        return pointer

    @property
    def graph(self) -> Any:
        return self.valid(self._graph)


class Tensor:
    """A result of a node of a graph; it has a shape and a type, and no values. After the call of the function in which it was
    made, every use of it raises ArgumentError."""

    __slots__ = ("_scope", "_in_scope")
    __array_ufunc__ = None  # NumPy must not take over `array + tensor`

    def __init__(self, scope: Scope, pointer: Any) -> None:
        self._scope = scope
        self._in_scope = pointer

    @property
    def _pointer(self) -> Any:
        return self._scope.valid(self._in_scope)

    @property
    def shape(self) -> tuple[int, ...]:
        s = lib.copse_tensor_shape(self._pointer)
        return tuple(s.dims[i] for i in range(s.rank))

    @property
    def dtype(self) -> DType:
        return cast(DType, _NAMES[lib.copse_tensor_type(self._pointer)])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}{list(self.shape)})"

    def __add__(self, other: Union["Tensor", "Variable", float]) -> "Tensor":
        return _ops().add(self, other)

    def __radd__(self, other: Union["Tensor", "Variable", float]) -> "Tensor":
        return _ops().add(other, self)

    def __sub__(self, other: Union["Tensor", "Variable", float]) -> "Tensor":
        return _ops().sub(self, other)

    def __rsub__(self, other: Union["Tensor", "Variable", float]) -> "Tensor":
        return _ops().sub(other, self)

    def __mul__(self, other: Union["Tensor", "Variable", float]) -> "Tensor":
        return _ops().mul(self, other)

    def __rmul__(self, other: Union["Tensor", "Variable", float]) -> "Tensor":
        return _ops().mul(other, self)

    def __truediv__(self, other: Union["Tensor", "Variable", float]) -> "Tensor":
        return _ops().div(self, other)

    def __rtruediv__(self, other: Union["Tensor", "Variable", float]) -> "Tensor":
        return _ops().div(other, self)

    def __neg__(self) -> "Tensor":
        return _ops().neg(self)

    def __pow__(self, exponent: float) -> "Tensor":
        return _ops().pow(self, exponent)

    def __matmul__(self, other: Union["Tensor", "Variable"]) -> "Tensor":
        return _ops().matmul(self, other)


def _ops() -> Any:
    from . import ops
    return ops
