# SPDX-License-Identifier: MIT
"""Named arrays in safetensors files."""
from __future__ import annotations

from typing import Any, Mapping, Optional

import numpy as np

from ._library import c_string, check, ffi, lib, make, text
from .devices import context
from .errors import UnsupportedError
from .options import PathLike
from .tensor import _ELEMENTS, array, view_of

_DTYPES = {v: k for k, v in _ELEMENTS.items()}


def save(path: PathLike, arrays: Mapping[str, Any], metadata: Optional[Mapping[str, str]] = None) -> None:
    """Write arrays to a file. An older file is replaced when all bytes are on the disk."""
    held = {name: array(a) for name, a in arrays.items()}
    keep: list = []
    named = ffi.new(f"struct copse_named_array[{len(held)}]")
    for i, (name, a) in enumerate(held.items()):
        keep += [c_string(name), view_of(a)]
        named[i].name, named[i].array = keep[-2], keep[-1][0]
    pairs = ffi.new(f"struct copse_metadata[{len(metadata or {})}]")
    for i, (key, value) in enumerate((metadata or {}).items()):
        keep += [c_string(key), c_string(value)]
        pairs[i].key, pairs[i].value = keep[-2], keep[-1]
    params = ffi.new("struct copse_checkpoint_params *", {
        "arrays": named, "array_count": len(held), "metadata": pairs, "metadata_count": len(metadata or {}),
    })
    check(lib.copse_checkpoint_write(context(), c_string(path), params))


def load(path: PathLike) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays and metadata of a file, in its order."""
    file = make("checkpoint", lib.copse_checkpoint_read, context(), c_string(path))
    count = ffi.new("size_t *")
    named = lib.copse_checkpoint_arrays(file, count)
    arrays = {text(named[i].name): _copy(text(named[i].name), named[i].array) for i in range(count[0])}
    pairs = lib.copse_checkpoint_metadata(file, count)
    return arrays, {text(pairs[i].key): text(pairs[i].value) for i in range(count[0])}


def _copy(name: str, view: Any) -> np.ndarray:
    if view.type not in _DTYPES:
        raise UnsupportedError(f"array '{name}' has the type {text(lib.copse_type_name(view.type))}, "
                               "which NumPy does not have")
    out = np.empty([view.shape[i] for i in range(view.rank)], _DTYPES[view.type])
    ffi.memmove(ffi.from_buffer(out), view.data, out.nbytes) if out.nbytes else None
    return out
