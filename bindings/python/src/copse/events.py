# SPDX-License-Identifier: MIT
"""Event files, which TensorBoard shows."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping

import numpy as np

from ._library import c_string, check, ffi, lib, text
from .devices import context
from .errors import ArgumentError
from .options import PathLike
from .tensor import array, array_of

if TYPE_CHECKING:
    from .trainer import Trainer


def _close(pointer: Any) -> int:
    return int(lib.copse_event_file_close(ffi.new("copse_event_file **", pointer)))


class EventFile:
    """Numbers, histograms and pictures by name and step, in a new file of a folder, which is made if it is missing.
    TensorBoard takes the folder as one run. Names may have paths: "loss/train" and "loss/held out" are shown together. For
    each name the steps should grow. Values go through a buffer: `close`, `flush`, or the end of a `with` statement write it.
    """

    def __init__(self, folder: PathLike) -> None:
        os.makedirs(folder, exist_ok=True)
        out = ffi.new("copse_event_file **")
        check(lib.copse_event_file_create(context(), c_string(folder), out))
        self._pointer = ffi.gc(out[0], _close)
        self.path = text(lib.copse_event_file_path(out[0]))

    def scalar(self, name: str, step: int, value: float) -> None:
        """Write a number."""
        check(lib.copse_event_file_scalar(self._pointer, c_string(name), step, value))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write numbers by name."""
        for name, value in values.items():
            self.scalar(name, step, value)

    def histogram(self, name: str, step: int, values: Any) -> None:
        """Write how numbers of any shape are distributed. NaN are left out."""
        a = array_of(values, np.float32)
        check(lib.copse_event_file_histogram(self._pointer, c_string(name), step, ffi.from_buffer("float[]", a), a.size))

    def picture(self, name: str, step: int, pixels: Any) -> None:
        """Write a picture [height, width], [height, width, 1] or [height, width, 3] of uint8."""
        a = array(pixels)
        if a.dtype != np.uint8 or a.ndim not in (2, 3):
            raise ArgumentError(f"a picture is {a.dtype}{list(a.shape)}, not uint8 [height, width] or [height, width, "
                                "channels]")
        height, width, channels = (*a.shape, 1)[:3]
        check(lib.copse_event_file_picture(self._pointer, c_string(name), step, ffi.from_buffer("uint8_t[]", a), height,
                                           width, channels))

    def gradients(self, trainer: "Trainer", step: int) -> None:
        """Write norms and magnitudes of the newest gradients of a trainer that was made with `summarize_gradients`."""
        check(lib.copse_event_file_gradients(self._pointer, trainer._pointer, step))

    def flush(self) -> None:
        """Write what is in the buffer."""
        check(lib.copse_event_file_flush(self._pointer))

    def close(self) -> None:
        """Write what is in the buffer, and close the file; afterwards calls on it fail."""
        pointer, self._pointer = self._pointer, ffi.NULL
        if pointer:
            ffi.gc(pointer, None)
            check(_close(pointer))

    def __enter__(self) -> "EventFile":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
