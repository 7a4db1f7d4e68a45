# SPDX-License-Identifier: MIT
"""Data sets in memory, files, and batches."""
from __future__ import annotations

import os
from typing import Any, Iterator, Mapping, Optional, Sequence

import numpy as np

from . import devices
from ._library import c_string, check, ffi, lib, make, text
from .errors import ArgumentError
from .strategy import choice
from .tensor import _NAMES, array, column, view_of


TASKS = {"auto": lib.COPSE_TASK_AUTO, "classification": lib.COPSE_TASK_CLASSIFICATION,
         "regression": lib.COPSE_TASK_REGRESSION}
SCALES = {"auto": lib.COPSE_SCALE_AUTO, "none": lib.COPSE_SCALE_NONE, "standard": lib.COPSE_SCALE_STANDARD,
          "max": lib.COPSE_SCALE_MAX}


class HostBatch:
    """Columns of one batch in host memory, as the trainer takes it."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        arrays = {name: column(a) for name, a in columns.items()}
        counts = {a.shape[0] if a.ndim else 0 for a in arrays.values()}
        if len(counts) != 1:
            raise ArgumentError("the columns of a batch have different numbers of rows: "
                                + ", ".join(f"{n} {list(a.shape)}" for n, a in arrays.items()))
        self.count = counts.pop()
        self._keep = [arrays]
        self._columns = _columns(arrays, self._keep)
        self._batch = ffi.new("struct copse_host_batch *", {
            "columns": self._columns, "column_count": len(arrays), "count": self.count,
        })


def _columns(arrays: Mapping[str, np.ndarray], keep: list) -> Any:
    from .tensor import shape_of, type_of
    out = ffi.new(f"struct copse_column[{len(arrays)}]")
    for i, (name, a) in enumerate(arrays.items()):
        key, data = c_string(name), ffi.from_buffer(a)
        keep += [key, data]
        out[i].name, out[i].type, out[i].shape, out[i].data = key, type_of(a.dtype), shape_of(a.shape[1:]), data
    return out


class Dataset:
    """Columns in host memory with the same number of rows. Copse copies the arrays; they may change afterwards."""

    def __init__(self, columns: Mapping[str, Any], *, _pointer: Any = None) -> None:
        if _pointer is None:
            arrays = {name: column(a) for name, a in columns.items()}
            keep: list = []
            rows = {a.shape[0] if a.ndim else 0 for a in arrays.values()}
            if len(rows) > 1:
                raise ArgumentError("the columns of a data set have different numbers of rows: "
                                    + ", ".join(f"{n} {list(a.shape)}" for n, a in arrays.items()))
            _pointer = make("dataset", lib.copse_dataset_columns, devices.context(), _columns(arrays, keep),
                            len(arrays), rows.pop() if rows else 0)
        self._pointer = _pointer

    @classmethod
    def open(cls, path: "str | os.PathLike", *, labels: "str | os.PathLike | None" = None,
             classes: int = 0) -> "Dataset":
        """Read a CSV, IDX or .npy file, or a folder with an IDX pair: features "x", labels "y"."""
        name = c_string(labels)
        params = ffi.new("struct copse_dataset_params *", {"labels": name, "classes": classes})
        return cls({}, _pointer=make("dataset", lib.copse_dataset_open, devices.context(), c_string(path), params))

    @classmethod
    def arrays(cls, features: Any, labels: Any = None, *, classes: int = 0, task: str = "auto",
               scale: str = "auto") -> "Dataset":
        """Features "x" and labels "y" as a data set with a schema, for a Model. task: auto, classification or regression;
        scale: auto (none), none, standard or max."""
        x, y = array(features), None if labels is None else array(labels)
        params = ffi.new("struct copse_dataset_params *", {
            "classes": classes, "task": choice("the task", task, TASKS), "scale": choice("the scale", scale, SCALES)})
        return cls({}, _pointer=make("dataset", lib.copse_dataset_create, devices.context(), view_of(x),
                                     ffi.NULL if y is None else view_of(y), params))

    @property
    def _info(self) -> Any:
        info = ffi.new("struct copse_dataset_info *")
        lib.copse_dataset_describe(self._pointer, info)
        return info

    def __len__(self) -> int:
        return self._info.rows

    @property
    def classes(self) -> int:
        """Labels are 0 .. classes - 1; 0 without labels."""
        return self._info.classes

    @property
    def columns(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of one row, by name."""
        found = {}
        for i in range(self._info.columns):
            c = ffi.new("struct copse_column *")
            check(lib.copse_dataset_column(self._pointer, i, c))
            found[text(c.name)] = (_NAMES[c.type], tuple(c.shape.dims[k] for k in range(c.shape.rank)))
        return found

    def column(self, name: str, rows: Optional[Sequence[int]] = None) -> np.ndarray:
        """A copy of a column, or of some of its rows."""
        if name not in self.columns:
            raise ArgumentError(f"the data set has no column '{name}': it has {', '.join(self.columns)}")
        dtype, shape = self.columns[name]
        indices = None if rows is None else np.ascontiguousarray(rows, np.uint32)
        out = np.empty((len(self) if indices is None else indices.size, *shape), dtype)
        check(lib.copse_dataset_gather(self._pointer, c_string(name),
                                       ffi.NULL if indices is None else ffi.from_buffer("uint32_t[]", indices),
                                       out.shape[0], ffi.from_buffer(out)))
        return out

    def split(self, train_fraction: float = 0.8, seed: int = 0) -> tuple["Dataset", "Dataset"]:
        """Shuffle, then cut into a training part and a held-out part."""
        params = ffi.new("struct copse_split_params *", {"train_fraction": train_fraction, "seed": seed})
        parts = [ffi.new("copse_dataset **") for _ in range(2)]
        check(lib.copse_dataset_split(self._pointer, params, *parts))
        from ._library import owned
        train, test = (Dataset({}, _pointer=owned("dataset", p[0])) for p in parts)
        return train, test

    def batches(self, batch: int, *, seed: int = 0, shuffle: bool = True, drop_last: bool = False,
                prefetch: int = 0) -> "Batches":
        """An iterator over batches, in an order that depends on seed and epoch alone."""
        return Batches(self, batch, seed=seed, shuffle=shuffle, drop_last=drop_last, prefetch=prefetch)


class Batches:
    """Batches of a data set. `epoch(n)` iterates over one pass."""

    def __init__(self, data: Dataset, batch: int, *, seed: int = 0, shuffle: bool = True, drop_last: bool = False,
                 prefetch: int = 0) -> None:
        params = ffi.new("struct copse_batches_params *", {
            "batch": batch, "seed": seed, "no_shuffle": not shuffle, "drop_last": drop_last, "prefetch": prefetch,
        })
        self._pointer = make("batches", lib.copse_batches_create, data._pointer, params)

    def __len__(self) -> int:
        return lib.copse_batches_count(self._pointer)

    def epoch(self, epoch: int = 0, first: int = 0) -> Iterator[Any]:
        """The batches of an epoch, from batch `first` on. Each is valid until the next one is taken."""
        check(lib.copse_batches_start(self._pointer, epoch, first))
        while True:
            batch = ffi.new("struct copse_host_batch *")
            status = lib.copse_batches_next(self._pointer, batch)
            if status == lib.COPSE_ERR_END:
                return
            check(status)
            yield batch
