# SPDX-License-Identifier: MIT
"""Loads the shared library and checks statuses. The declarations come from the public headers (make_ffi.py)."""
from __future__ import annotations

import functools
import os
import sys
from typing import Any, Callable, Optional

from . import errors
from ._ffi import SOVERSION, ffi

HERE = os.path.dirname(os.path.realpath(__file__))


def _names(stem: str) -> list[str]:
    return {"darwin": [f"lib{stem}.dylib"], "win32": [f"lib{stem}.dll"]}.get(
        sys.platform, [f"lib{stem}.so.{SOVERSION}", f"lib{stem}.so"])


def _candidates(stem: str) -> list[str]:
    """Files of a library: beside the one that COPSE_LIBRARY names, else in this package, else where the system looks."""
    names = _names(stem)
    given = os.environ.get("COPSE_LIBRARY")
    if given and stem == "copse":
        return [given]
    inside = os.path.join(HERE, "bin" if sys.platform == "win32" else "lib")  # DLLs are beside the command
    folder = os.path.dirname(given) if given and os.path.dirname(given) else inside
    paths = [os.path.join(folder, n) for n in names]
    return [p for p in paths if os.path.exists(p)] or names


def _open(stem: str, what: str) -> Any:
    reasons = []
    for path in _candidates(stem):
        try:
            return ffi.dlopen(path)
        except OSError as e:
            reasons.append(str(e))
    raise ImportError(what + ": " + "; ".join(reasons))


lib = _open("copse", "the Copse library cannot be loaded")


@functools.lru_cache(maxsize=None)
def conformance_lib() -> Any:
    """The library that judges devices, loaded at its first use: training works without it."""
    return _open("copse-conformance", "conformance needs the library copse-conformance, of the same build as the Copse "
                 "library and beside it; it cannot be loaded")


def text(pointer: Any) -> str:
    """A C string as str; "" for NULL."""
    return ffi.string(pointer).decode("utf-8", "replace") if pointer else ""


def check(status: int) -> None:
    """Raise the exception of a status, with the library's text."""
    if status != lib.COPSE_OK:
        raise errors.of(text(lib.copse_status_name(status)), text(lib.copse_last_error()))


class Guard:
    """Runs the application's functions for the library. An exception must not unwind through C: it ends the call with a
    status, and `check` raises it again in the caller."""

    def __init__(self) -> None:
        self.error: Optional[BaseException] = None

    def run(self, function: Callable[..., Any], *arguments: Any) -> int:
        """Call a function that returns nothing, or a status."""
        try:
            status = function(*arguments)
            return lib.COPSE_OK if status is None else status
        except errors.Error as e:
            self._hold(e)
            return getattr(lib, f"COPSE_{e.status}")
        except BaseException as e:  # KeyboardInterrupt, too
            self._hold(e)
            return lib.COPSE_ERR_CANCELLED

    def invoke(self, function: Callable[..., Any], *arguments: Any) -> int:
        """The same for a function whose result does not matter."""
        def body() -> None:
            function(*arguments)
        return self.run(body)

    def _hold(self, error: BaseException) -> None:
        self.error = error

    def build(self, graph: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that adds to a graph and returns a tensor of C, or None. An exception fails the graph; its result
        is a failed tensor then."""
        result: list[Any] = []
        status = self.run(lambda: result.append(function(*arguments)))
        if status != lib.COPSE_OK:
            return lib.copse_graph_fail(graph, status, str(self.error).encode("utf-8", "replace") or b"an exception")
        return result[0]

    def check(self, status: int) -> None:
        error, self.error = self.error, None
        if error is not None and status != lib.COPSE_OK:
            raise error
        check(status)


class SharedGuard(Guard):
    """Of functions of which one ends all others, as replicas do: the first exception counts."""

    def _hold(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error

    def meet(self, status: int) -> None:
        """Check a call in which one function met the others: an exception of another one ends it, too, and stays."""
        if status != lib.COPSE_OK and self.error is not None:
            raise errors.CancelledError(f"another replica or the function of a merge raised "
                                        f"{type(self.error).__name__}: {self.error}") from self.error
        check(status)


def c_string(value: str | os.PathLike | None) -> Any:
    """UTF-8 bytes that live as long as the result; NULL for None. A NUL, which would end the text in C, is refused."""
    if value is None:
        return ffi.NULL
    text_ = os.fspath(value)
    if "\0" in text_:
        raise errors.ArgumentError(f"a name, path or text has a NUL: {text_!r}")
    return ffi.new("char[]", text_.encode("utf-8"))


_TYPE_NAMES = {"tower": "tower_optimizer"}  # of types whose functions have another prefix


def owned(kind: str, pointer: Any, *keep: Any) -> Any:
    """A handle that releases its reference when Python drops it. `keep` lives as long as the handle."""
    release, place = getattr(lib, f"copse_{kind}_release"), f"copse_{_TYPE_NAMES.get(kind, kind)} **"

    def drop(p: Any, _keep: tuple = keep) -> None:
        release(ffi.new(place, p))

    return ffi.gc(pointer, drop)


def make(kind: str, function: Any, *arguments: Any, keep: tuple = ()) -> Any:
    """Call a function whose last parameter receives a new object."""
    out = ffi.new(f"copse_{_TYPE_NAMES.get(kind, kind)} **")
    check(function(*arguments, out))
    return owned(kind, out[0], *keep)


def choice(what: str, name: Optional[str], table: dict[str, int], default: int = 0) -> int:
    """The number of a name in a table, or an error that lists the names."""
    if name is None:
        return default
    if name not in table:
        raise errors.ArgumentError(f"{what} '{name}' is unknown: use one of {', '.join(sorted(table))}")
    return table[name]
