# SPDX-License-Identifier: MIT
"""Tables in memory as cells of the library: DataFrames, dictionaries of columns, records, and rows."""
from __future__ import annotations

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


def columns_of(data: Any) -> tuple[Optional[list[str]], list[Column]]:
    """Names, None without, and the cells of each column. A mapping of single cells is one row, a sequence of mappings
    has a row in each; a key that a mapping lacks is a missing cell."""
    if is_frame(data):
        count = len(data.columns)
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
    """A list; an array stays one where all its cells are numbers."""
    of = getattr(column, "dtype", None)
    if isinstance(of, np.dtype) and of.kind in "fiub" and of.itemsize <= 8:
        return np.asarray(column)
    return list(column.tolist() if hasattr(column, "tolist") else column)


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


def _texts(column: Sequence[Any]) -> tuple[Any, np.ndarray]:
    """The cells as texts in one block, and where each begins; 0 is a missing one."""
    texts = [_cell(x) for x in column]
    sizes = np.array([0 if t is None else len(t) + 1 for t in texts], np.uintp)
    block = ffi.new("char[]", b"".join(t + b"\0" for t in texts if t is not None) or b"\0")
    return block, np.where(sizes > 0, np.cumsum(sizes, dtype=np.uintp) - sizes + _address(block), np.uintp(0))


def _numbers(column: np.ndarray) -> tuple[Any, np.ndarray]:
    """The same for an array of numbers, by the repr of all at once: "[0.5, nan, 2.0]"."""
    block = np.frombuffer(bytearray(repr(column.tolist()), "ascii"), np.uint8)
    ends = np.append(np.flatnonzero(block == ord(",")), len(block) - 1)
    block[ends] = 0
    starts = np.append(np.uintp(1), ends[:-1].astype(np.uintp) + np.uintp(2)) + _address(ffi.from_buffer(block))
    return block, np.where(np.isnan(column), np.uintp(0), starts) if column.dtype.kind == "f" else starts


def _address(block: Any) -> np.uintp:
    return np.uintp(int(ffi.cast("uintptr_t", block)))


class Cells:
    """A struct copse_cells and its memory: a block of texts for each column, and a pointer for each cell."""

    def __init__(self, names: Optional[Sequence[str]], columns: Sequence[Column]) -> None:
        self.rows = len(columns[0]) if columns else 0
        if any(len(c) != self.rows for c in columns):
            raise ShapeError("the columns have different numbers of rows: " + ", ".join(str(len(c)) for c in columns))
        pointers = np.zeros((max(self.rows, 1), max(len(columns), 1)), np.uintp)
        blocks = []
        for i, column in enumerate(columns if self.rows else ()):
            block, pointers[:, i] = _numbers(column) if isinstance(column, np.ndarray) else _texts(column)
            blocks.append(block)
        held = [c_string(n) for n in names or ()]
        listed = ffi.new("char *[]", held) if names is not None else ffi.NULL
        self.struct = ffi.new("struct copse_cells *", {
            "names": listed, "columns": len(columns), "rows": self.rows,
            "cells": ffi.cast("char **", ffi.from_buffer(pointers))})
        self._keep = blocks, pointers, held, listed


def cells_of(data: Any) -> Cells:
    return Cells(*columns_of(data))
