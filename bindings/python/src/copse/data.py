# SPDX-License-Identifier: MIT
"""Data sets in memory, files, and batches."""
from __future__ import annotations

from copy import copy
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from ._library import c_string, check, choice, ffi, lib, make, owned, text
from ._names import named_options
from .devices import context as context_of
from .errors import ArgumentError
from .options import Header, Label, Missing, PathLike, Scale, Task, Tokens
from .table import Cells, cells_of
from .tensor import _NAMES, array, array_of, column, shape_of, type_of, view_of


TASKS = {"auto": lib.COPSE_TASK_AUTO, "classification": lib.COPSE_TASK_CLASSIFICATION,
         "regression": lib.COPSE_TASK_REGRESSION, "sequence": lib.COPSE_TASK_SEQUENCE}
SCALES = {"auto": lib.COPSE_SCALE_AUTO, "none": lib.COPSE_SCALE_NONE, "standard": lib.COPSE_SCALE_STANDARD,
          "max": lib.COPSE_SCALE_MAX}
HEADERS = {"auto": lib.COPSE_CSV_HEADER_AUTO, "yes": lib.COPSE_CSV_HEADER_YES, "no": lib.COPSE_CSV_HEADER_NO}
TOKENS = {"characters": lib.COPSE_TOKENS_CHARACTERS, "bytes": lib.COPSE_TOKENS_BYTES, "bpe": lib.COPSE_TOKENS_BPE}
TEXT_ROWS = {"windows": lib.COPSE_TEXT_WINDOWS, "lines": lib.COPSE_TEXT_LINES, "end": lib.COPSE_TEXT_END}
MISSING = {"auto": lib.COPSE_MISSING_AUTO, "refuse": lib.COPSE_MISSING_REFUSE, "mean": lib.COPSE_MISSING_MEAN}
UNKNOWN = {"ignore": lib.COPSE_UNKNOWN_IGNORE, "refuse": lib.COPSE_UNKNOWN_REFUSE}


class HostBatch:
    """One batch in host memory, as the trainer takes it: `columns` are arrays by name, of `count` rows. Owns its memory."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        arrays = {name: column(a) for name, a in columns.items()}
        counts = {a.shape[0] if a.ndim else 0 for a in arrays.values()}
        if len(counts) != 1:
            raise ArgumentError("the columns of a batch have different numbers of rows: "
                                + ", ".join(f"{n} {list(a.shape)}" for n, a in arrays.items()))
        keep: list = []
        self._own(arrays, counts.pop(), _columns(arrays, keep), keep)

    def _own(self, arrays: dict[str, np.ndarray], count: int, described: Any, keep: list) -> None:
        self.columns, self.count, self._keep = arrays, count, (described, keep)
        self._batch = ffi.new("struct copse_host_batch *", {
            "columns": described, "column_count": len(arrays), "count": count,
        })

    @classmethod
    def _copy(cls, batch: Any, names: list[tuple[str, Any]]) -> "HostBatch":
        """Of a batch that the library will overwrite; `names` of its columns for Python and C."""
        made, arrays = cls.__new__(cls), {}
        keep: list = [names]
        described = ffi.new("struct copse_column[]", batch.column_count)
        for i, (name, key) in enumerate(names):
            described[i] = c = batch.columns[i]
            a = np.empty((batch.count, *c.shape.dims[0:c.shape.rank]), _NAMES[c.type])
            described[i].name, described[i].data = key, (data := ffi.from_buffer(a))
            ffi.memmove(data, c.data, a.nbytes)
            arrays[name] = a
            keep.append(data)
        made._own(arrays, batch.count, described, keep)
        return made


def _columns(arrays: Mapping[str, np.ndarray], keep: list) -> Any:
    out = ffi.new(f"struct copse_column[{len(arrays)}]")
    for i, (name, a) in enumerate(arrays.items()):
        key, data = c_string(name), ffi.from_buffer(a)
        keep += [key, data]
        out[i].name, out[i].type, out[i].shape, out[i].data = key, type_of(a.dtype), shape_of(a.shape[1:]), data
    return out


def _positions(rows: Any) -> np.ndarray:
    a = array(rows)
    if a.ndim != 1 or (a.size and a.dtype.kind not in "iu"):
        raise ArgumentError(f"rows are a list of positions, not {a.dtype}{list(a.shape)}")
    return array_of(a, np.uint32)


def _text_params(tokens: Optional[str], context: int, stride: int, vocabulary: int) -> Any:
    """NULL: no text."""
    if tokens is None:
        if context or stride or vocabulary:
            raise ArgumentError("context, stride and vocabulary belong to texts: say which tokens, characters, bytes or bpe")
        return ffi.NULL
    return ffi.new("struct copse_text_params *", {
        "tokens": choice("the kind of token", tokens, TOKENS), "context": context, "stride": stride, "vocabulary": vocabulary})


def _listed(columns: Union[str, Sequence[Union[str, int]]]) -> str:
    """Names and positions as a list of the library, which has names in quotes."""
    if isinstance(columns, str):
        return columns
    return ",".join(str(c) if isinstance(c, int) else '"' + str(c).replace('"', '""') + '"' for c in columns)


def _label_and_ignored(label: Label, ignore: Union[str, Sequence[Union[str, int]], None]) -> tuple[Any, int, Any]:
    """The name or the names of the label columns, the position of one, and the list of columns that are left out."""
    listed = [] if label is None else [label] if isinstance(label, (str, int)) else list(label)
    if any(isinstance(c, int) and c < 1 for c in listed):
        raise ArgumentError("positions of label columns count from 1")
    if label is not None and not listed:
        raise ArgumentError("label is a list without a column")
    position = listed[0] if len(listed) == 1 and isinstance(listed[0], int) else 0
    name = None if position or not listed else label if isinstance(label, str) else _listed(listed)
    return c_string(name), position, c_string(None if ignore is None else _listed(ignore))


def check_batch_size(batch: int) -> None:
    if batch < 0:
        raise ArgumentError(f"batch_size is {batch}: at least 1, or 0 for 64")


def defaults_of(train: "Dataset", held_out: Optional["Dataset"], batch: int) -> Any:
    """Settings that suit the rows: copse/train/defaults.h."""
    out = ffi.new("struct copse_training_defaults *")
    check(lib.copse_training_defaults(train._pointer, held_out._pointer if held_out else ffi.NULL, batch, out))
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
            _pointer = make("dataset", lib.copse_dataset_columns, context_of(), _columns(arrays, keep),
                            len(arrays), rows.pop() if rows else 0)
        self._pointer = _pointer

    @classmethod
    @named_options()
    def open(cls, path: PathLike, *, labels: Optional[PathLike] = None, classes: int = 0,
             no_labels: bool = False, label: Label = None, header: Header = "auto",
             delimiter: Optional[str] = None, task: Task = "auto", scale: Scale = "auto", missing: Missing = "auto",
             ignore: Union[str, Sequence[Union[str, int]], None] = None, max_bytes: int = 0,
             resize: Optional[tuple[int, int]] = None, picture_bytes: int = 0, tokens: Optional[Tokens] = None,
             context: int = 0, stride: int = 0, vocabulary: int = 0) -> "Dataset":
        """Read a CSV, IDX or .npy file, a folder with an IDX pair, a folder of pictures with a sub-folder for each class, or
        with `tokens` a text: features "x", labels "y".

        labels: the file with the labels of an IDX or .npy file. label: the label column of a table, by its name or by
        position from 1; the last one without it; a list of columns: the targets of a regression. task: auto, classification
        or regression. scale: auto, none, standard or max. missing: refuse (auto) or mean, for missing cells. ignore: columns
        of a table that are left out.
        resize: width and height that pictures get. picture_bytes: most memory for decoded pictures.
        tokens: characters, bytes, or bpe (byte pairs). context: tokens in a window. stride: tokens between the starts of two
        windows. vocabulary: number of byte pairs and bytes.
        """
        keep = c_string(labels), *_label_and_ignored(label, ignore)
        if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter == "\0"):
            raise ArgumentError(f"the delimiter is one character, not '{delimiter}'")
        source = ffi.new("struct copse_source_params *", {"picture_bytes": picture_bytes})
        size, text_ = c_string(f"{resize[0]}x{resize[1]}" if resize else None), _text_params(tokens, context, stride, vocabulary)
        source.resize, source.text = size, text_
        params = ffi.new("struct copse_dataset_params *", {
            "source": source, "labels": keep[0], "classes": classes, "no_labels": no_labels, "max_bytes": max_bytes, "ignore": keep[3],
            "task": choice("the task", task, TASKS), "scale": choice("the scale", scale, SCALES),
            "missing": choice("the treatment of missing cells", missing, MISSING),
            "csv": {"label_name": keep[1], "label_column": keep[2],
                    "header": choice("the header", header, HEADERS), "delimiter": (delimiter or "\0").encode()}})
        return cls({}, _pointer=make("dataset", lib.copse_dataset_open, context_of(), c_string(path), params))

    @classmethod
    @named_options()
    def text(cls, text: Union[str, bytes], *, tokens: Tokens = "characters", context: int = 0, stride: int = 0,
             vocabulary: int = 0) -> "Dataset":
        """Windows of a text in memory, as `open` makes them of a file."""
        data = text.encode() if isinstance(text, str) else text
        settings = _text_params(tokens, context, stride, vocabulary)
        source = ffi.new("struct copse_source_params *", {"text": settings})
        params = ffi.new("struct copse_dataset_params *", {"source": source})
        return cls({}, _pointer=make("dataset", lib.copse_text_create, context_of(), ffi.from_buffer("char[]", data),
                                     len(data), params))

    @classmethod
    @named_options()
    def table(cls, rows: Any, *, label: Label = None, classes: int = 0, no_labels: bool = False,
              task: Task = "auto", scale: Scale = "auto", missing: Missing = "auto",
              ignore: Union[str, Sequence[Union[str, int]], None] = None) -> "Dataset":
        """A table in memory, as `open` reads it from a CSV file: a DataFrame, a dictionary of columns, a list of
        dictionaries with a row in each, or rows of cells. Cells are texts and numbers; None and NaN are missing."""
        return cls._of_cells(cells_of(rows), label=label, classes=classes, no_labels=no_labels, task=task, scale=scale,
                             missing=missing, ignore=ignore)

    @classmethod
    def _of_cells(cls, cells: Cells, *, label: Label = None, classes: int = 0, no_labels: bool = False,
                  task: Task = "auto", scale: Scale = "auto", missing: Missing = "auto",
                  ignore: Union[str, Sequence[Union[str, int]], None] = None, is_weighted: bool = False) -> "Dataset":
        """is_weighted: classes have weights, so no warning of unequal classes advises them."""
        keep = _label_and_ignored(label, ignore)
        source = ffi.new("struct copse_source_params *", {"is_weighted": is_weighted})
        params = ffi.new("struct copse_dataset_params *", {
            "classes": classes, "no_labels": no_labels, "ignore": keep[2], "task": choice("the task", task, TASKS),
            "scale": choice("the scale", scale, SCALES),
            "missing": choice("the treatment of missing cells", missing, MISSING), "source": source,
            "csv": {"label_name": keep[0], "label_column": keep[1]}})
        return cls({}, _pointer=make("dataset", lib.copse_dataset_cells, context_of(), cells.struct, params))

    @classmethod
    @named_options()
    def arrays(cls, features: Any, labels: Any = None, *, classes: int = 0, task: Task = "auto",
               scale: Scale = "auto") -> "Dataset":
        """Features "x" and labels "y" as a data set with a schema, for a Model. task: auto, classification or regression;
        scale: auto (none), none, standard or max."""
        x, y = array(features), None if labels is None else array(labels)
        params = ffi.new("struct copse_dataset_params *", {
            "classes": classes, "task": choice("the task", task, TASKS), "scale": choice("the scale", scale, SCALES)})
        return cls({}, _pointer=make("dataset", lib.copse_dataset_create, context_of(), view_of(x),
                                     ffi.NULL if y is None else view_of(y), params))

    @classmethod
    def _of(cls, data: Union["Dataset", Mapping[str, Any]]) -> "Dataset":
        if not isinstance(data, (Dataset, Mapping)):
            raise ArgumentError(f"data is {type(data).__name__}: use a Dataset, a Loader, or arrays by name")
        return data if isinstance(data, Dataset) else cls(data)

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

    def file(self, row: int) -> Optional[str]:
        """The file of a row of pictures."""
        return text(lib.copse_dataset_file(self._pointer, row)) or None

    def column(self, name: str, rows: Optional[Sequence[int]] = None) -> np.ndarray:
        """A copy of a column, or of the rows at some positions."""
        if name not in self.columns:
            raise ArgumentError(f"the data set has no column '{name}': it has {', '.join(self.columns)}")
        dtype, shape = self.columns[name]
        indices = None if rows is None else _positions(rows)
        out = np.empty((len(self) if indices is None else indices.size, *shape), dtype)
        check(lib.copse_dataset_gather(self._pointer, c_string(name),
                                       ffi.NULL if indices is None else ffi.from_buffer("uint32_t[]", indices),
                                       out.shape[0], ffi.from_buffer(out)))
        return out

    @named_options()
    def split(self, train_fraction: float = 0.8, seed: int = 0, *, stratify: bool = False) -> tuple["Dataset", "Dataset"]:
        """Shuffle, then cut into a training part and a held-out part. stratify: divide each class alike, into both parts
        where rows suffice."""
        params = ffi.new("struct copse_split_params *",
                         {"train_fraction": train_fraction, "seed": seed, "stratify": stratify})
        return self._parts(lib.copse_dataset_split, params)

    @named_options()
    def fold(self, folds: int, fold: int, *, seed: int = 0, stratify: bool = False) -> tuple["Dataset", "Dataset"]:
        """The rows outside and inside of a fold, which counts from 0: `for k in range(5): train, test = data.fold(5, k)`.
        Folds have the same number of rows, or one more. stratify: and so many of each class."""
        params = ffi.new("struct copse_fold_params *",
                         {"folds": folds, "fold": fold, "seed": seed, "stratify": stratify})
        return self._parts(lib.copse_dataset_fold, params)

    def _parts(self, divide: Any, params: Any) -> tuple["Dataset", "Dataset"]:
        parts = [ffi.new("copse_dataset **") for _ in range(2)]
        check(divide(self._pointer, params, *parts))
        train, test = (Dataset({}, _pointer=owned("dataset", p[0])) for p in parts)
        return train, test

    @named_options()
    def batches(self, batch: int, *, seed: int = 0, shuffle: bool = True, drop_last: bool = False,
                prefetch: int = 0, augment: Optional[str] = None) -> "Loader":
        """A loader of batches, in an order that depends on seed and epoch alone. augment: changes of pictures, such as
        "flip; rotate 10; mixup 0.2" (docs/pictures.md)."""
        return Loader(self, batch, seed=seed, shuffle=shuffle, drop_last=drop_last, prefetch=prefetch, augment=augment)

    def _in_batches(self, batch: int = 0, *, seed: int = 0, shuffle: bool = True) -> "Loader":
        """Batches of so many examples, 0: 64, or of all if they are fewer."""
        check_batch_size(batch)
        return self.batches(max(1, min(batch or 64, len(self))), seed=seed, shuffle=shuffle)


class Loader:
    """Gives the batches of a data set. `epoch(n)` iterates over one pass."""

    @named_options()
    def __init__(self, data: Dataset, batch: int, *, seed: int = 0, shuffle: bool = True, drop_last: bool = False,
                 prefetch: int = 0, augment: Optional[str] = None) -> None:
        self.data, self.batch = data, batch
        self._changes = c_string(augment)
        self._params = ffi.new("struct copse_loader_params *", {
            "batch": batch, "seed": seed, "no_shuffle": not shuffle, "drop_last": drop_last, "prefetch": prefetch,
            "augment": self._changes,
        })
        self._pointer = make("loader", lib.copse_loader_create, data._pointer, self._params)
        self._names: list[tuple[str, Any]] = []

    def __len__(self) -> int:
        return lib.copse_loader_count(self._pointer)

    def again(self) -> "Loader":
        """Another loader of the same batches, at their start."""
        other = copy(self)
        other._pointer = make("loader", lib.copse_loader_create, self.data._pointer, self._params)
        return other

    def epoch(self, epoch: int = 0, first: int = 0) -> Iterator[HostBatch]:
        """The batches of an epoch, from batch `first` on. Each owns its memory, and may be kept."""
        self.go(epoch, first)
        return iter(self.take, None)

    def go(self, epoch: int, batch: int) -> None:
        """Go to a batch of an epoch."""
        check(lib.copse_loader_start(self._pointer, epoch, batch))

    def take(self) -> Optional[HostBatch]:
        """A copy of the next batch; None at the end of the epoch."""
        batch = ffi.new("struct copse_host_batch *")
        status = lib.copse_loader_next(self._pointer, batch)
        if status == lib.COPSE_ERR_END:
            return None
        check(status)
        if not self._names:
            self._names = [(name := text(c.name), c_string(name)) for c in batch.columns[0:batch.column_count]]
        return HostBatch._copy(batch, self._names)

    @property
    def position(self) -> tuple[int, int]:
        """Epoch and number of the next batch."""
        epoch, batch = ffi.new("uint32_t *"), ffi.new("size_t *")
        lib.copse_loader_position(self._pointer, epoch, batch)
        return epoch[0], batch[0]
