# SPDX-License-Identifier: MIT
"""Tables in memory as cells of the library: DataFrames, dictionaries of columns, records, and rows."""
from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np

from ._library import c_string, ffi
from .errors import ArgumentError, ShapeError


Column = Union[Sequence[Any], np.ndarray]
"""Cells, or an array of numbers."""


def is_frame(data: Any) -> bool:
    """Whether it is a DataFrame, of pandas or alike."""
    return hasattr(data, "columns") and hasattr(data, "__getitem__") and not isinstance(data, type)


def is_table(data: Any) -> bool:
    """Whether columns have names, or cells may be texts. Other data is an array of numbers."""
    if is_frame(data) or isinstance(data, Mapping):
        return True
    if not isinstance(data, (list, tuple, np.ndarray)) or len(data) == 0:
        return False
    return isinstance(data[0], Mapping) or np.asarray(data[0]).dtype.kind in "OUS"


def kind_of(data: Any) -> str:
    """What a text of an error calls it."""
    return "None" if data is None else type(data).__name__


def is_pair(data: Any) -> bool:
    """Whether it is a sequence such as (features, labels): one of the first two items is no row, but has rows."""
    def has_rows(d: Any) -> bool:
        if isinstance(d, (list, tuple)):
            return len(d) > 0 and (isinstance(d[0], (list, tuple, Mapping)) or getattr(d[0], "ndim", 0) > 0)
        return is_frame(d) or getattr(d, "ndim", 0) > 1 or isinstance(d, Mapping) != isinstance(data[0], Mapping)

    return isinstance(data, (list, tuple)) and any(has_rows(d) for d in data[:2])


def columns_of(data: Any) -> tuple[Optional[list[str]], list[Column]]:
    """Names, None without, and the cells of each column. A mapping of single cells is one row, a sequence of mappings
    has a row in each; a key that a mapping lacks is a missing cell."""
    if is_frame(data):
        count = len(data.columns)
        if len(data) == 1 and hasattr(data, "iloc"):  # to take a column of one cell takes ten times as long as the cell
            row = data.to_numpy(dtype=object)[0].tolist()
            return [str(c) for c in data.columns.tolist()], [[cell] for cell in row]
        parts = [data.iloc[:, i] if hasattr(data, "iloc") else data[data.columns[i]] for i in range(count)]
        return [str(c) for c in data.columns], [_cells_in(p) for p in parts]
    if isinstance(data, Mapping):
        columns = [_cells_in(v) if _is_column(v) else v for v in data.values()]
        are = [_is_column(v) for v in data.values()]
        if not any(are):
            return [str(k) for k in data], [[c] for c in columns]
        for name, c, is_list in zip(data, columns, are):
            if not is_list or len(c) != len(columns[0] if are[0] else ()):
                raise ShapeError(f"column '{name}' has {len(c) if is_list else 'one cell'}"
                                 f"{' rows' if is_list else ''}, the first one "
                                 f"{len(columns[0]) if are[0] else 'is one cell'}")
        return [str(k) for k in data], columns
    rows = list(data)
    if rows and isinstance(rows[0], Mapping):
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise ArgumentError(f"row {i + 1} is {type(row).__name__}, the first one is {type(rows[0]).__name__}: "
                                    "give a dictionary for each row")
        names = list(dict.fromkeys(chain.from_iterable(rows)))
        return [str(n) for n in names], [[row.get(n) for row in rows] for n in names]
    rows = [list(row) for row in rows]
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise ShapeError(f"rows have {min(widths)} to {max(widths)} cells: all need the same number")
    return None, [list(c) for c in zip(*rows)]


def _is_column(x: Any) -> bool:
    return isinstance(x, (list, tuple)) or (hasattr(x, "__len__") and hasattr(x, "__getitem__")
                                            and not isinstance(x, (str, bytes, Mapping)))


def _cells_in(column: Any) -> Column:
    """A list; an array stays one where all its cells are numbers, and a column of pandas with NA becomes one with NaN."""
    of = getattr(column, "dtype", None)
    kind = getattr(of, "kind", None)
    if isinstance(of, np.dtype):
        if of.kind in "fiub" and of.itemsize <= 8:
            return np.asarray(column)
    elif isinstance(kind, str) and kind in "fiu" and hasattr(column, "isna"):
        values = column.to_numpy({"f": np.float64, "i": np.int64, "u": np.uint64}[kind], na_value=0)
        if _are_doubles(values):
            return np.where(np.asarray(column.isna()), np.nan, values)
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _are_doubles(column: np.ndarray) -> bool:
    """Whether a double holds each number of an array; a boolean is a text."""
    if column.dtype.kind == "f" or column.itemsize < 8:
        return column.dtype.kind != "b"
    return len(column) == 0 or (int(column.min()) >= -2**53 and int(column.max()) <= 2**53)


def _cell(x: Any) -> Optional[bytes]:
    """A cell as text; None is a missing one."""
    if type(x) is float:  # most cells
        return None if x != x else repr(x).encode()
    if isinstance(x, str):
        if "\0" in x:
            raise ArgumentError(f"a cell has a NUL: {x!r}")
        return x.encode()
    if x is None or type(x).__name__ == "NAType":  # of pandas; comparing it gives itself
        return None
    if isinstance(x, (float, np.floating)):
        return None if x != x else repr(float(x)).encode()
    if isinstance(x, (bool, np.bool_)) or not isinstance(x, (int, np.integer)):
        return None if type(x).__name__ == "NaTType" else str(x).encode()
    return str(int(x)).encode()


def _number(x: Any) -> Optional[float]:
    """A cell that is a number and that a double holds; None is another one."""
    if type(x) is float or type(x) is int and -2**53 <= x <= 2**53:
        return x
    if isinstance(x, (np.floating, np.integer)) and x.dtype.itemsize <= 8:
        return _number(x.item())
    return None


def _texts(column: Column) -> tuple[Any, np.ndarray]:
    """The cells as texts in one block, and where each begins; 0 is a missing one."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "b":
        both = ffi.new("char[]", b"False\0True\0")
        return both, np.where(column, np.uintp(6), np.uintp(0)) + _address(both)
    texts = [_cell(x) for x in column]
    sizes = np.array([0 if t is None else len(t) + 1 for t in texts], np.uintp)
    block = ffi.new("char[]", b"".join(t + b"\0" for t in texts if t is not None) or b"\0")
    return block, np.where(sizes > 0, np.cumsum(sizes, dtype=np.uintp) - sizes + _address(block), np.uintp(0))


def _address(block: Any) -> np.uintp:
    return np.uintp(int(ffi.cast("uintptr_t", block)))


@lru_cache(maxsize=16)
def _names(names: tuple[str, ...]) -> tuple[Any, Any]:
    """A list of names for the library, and its memory: an application predicts many rows of the same columns."""
    held = [c_string(n) for n in names]
    return ffi.new("char *[]", held), held


class Cells:
    """A struct copse_cells and its memory: of each column its numbers, or texts and a pointer for each cell."""

    def __init__(self, names: Optional[Sequence[str]], columns: Sequence[Column]) -> None:
        self.rows = len(columns[0]) if columns else 0
        if any(len(c) != self.rows for c in columns):
            raise ShapeError("the columns have different numbers of rows: " + ", ".join(str(len(c)) for c in columns))
        numbers, texts, *memory = self._row([c[0] for c in columns]) if self.rows == 1 else self._columns(columns)
        listed, held = (ffi.NULL, None) if names is None else _names(tuple(names))
        self.struct = ffi.new("struct copse_cells *", {
            "names": listed, "columns": len(columns), "rows": self.rows, "numbers": numbers, "cells": texts})
        self._keep = numbers, texts, memory, listed, held

    def _row(self, cells: Sequence[Any]) -> tuple[Any, ...]:
        """Without arrays, which take longer to make than the library to predict a row."""
        numbers = [_number(x) for x in cells]
        texts = [_cell(x) if n is None else None for x, n in zip(cells, numbers)]
        values = ffi.new("double[]", [0.0 if n is None else n for n in numbers])
        blocks = [ffi.NULL if t is None else ffi.new("char[]", t) for t in texts]
        return (ffi.new("double *[]", [ffi.NULL if n is None else values + i for i, n in enumerate(numbers)]),
                ffi.NULL if cells and None not in numbers else ffi.new("char *[]", blocks), values, blocks)

    def _columns(self, columns: Sequence[Column]) -> tuple[Any, ...]:
        numbers = [np.ascontiguousarray(c, np.float64) if isinstance(c, np.ndarray) and _are_doubles(c) else None
                   for c in columns]
        has_texts = not columns or any(n is None for n in numbers)
        pointers = np.zeros((max(self.rows, 1), max(len(columns), 1)) if has_texts else (0, 0), np.uintp)
        blocks = []
        for i, column in enumerate(columns if self.rows else ()):
            if numbers[i] is None:
                block, pointers[:, i] = _texts(column)
                blocks.append(block)
        lists = ffi.new("double *[]", [ffi.NULL if n is None else ffi.from_buffer("double[]", n) for n in numbers])
        return lists, ffi.cast("char **", ffi.from_buffer(pointers)) if has_texts else ffi.NULL, pointers, blocks, numbers


def cells_of(data: Any) -> Cells:
    return Cells(*columns_of(data))
