# SPDX-License-Identifier: MIT
"""The context of the process and the devices that it found."""
from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any, Callable, Optional

from ._library import c_string, check, ffi, lib, make, text
from .errors import ArgumentError
from .options import Priority

log = logging.getLogger("copse")
_LEVELS = {}
_lock = threading.Lock()
_context: Optional[Any] = None


@ffi.callback("copse_log_fn")
def _log(user: Any, level: int, line: Any) -> None:
    log.log(_LEVELS.get(level, logging.DEBUG), text(line))


_LEVELS.update({
    lib.COPSE_LOG_ERROR: logging.ERROR, lib.COPSE_LOG_WARN: logging.WARNING, lib.COPSE_LOG_INFO: logging.INFO,
    lib.COPSE_LOG_DEBUG: logging.DEBUG, lib.COPSE_LOG_TRACE: logging.DEBUG,
})


compiling: list[Callable[[str, int, int], None]] = []
"""What shows that kernels are compiled: the last one gets the device, and the numbers of complete ones and of all."""


@ffi.callback("copse_progress_fn")
def _progress(user: Any, progress: Any) -> None:
    if compiling:
        compiling[-1](text(progress.device), progress.done, progress.total)


def context() -> Any:
    """The library's context: one for the process, made at the first use. Log lines go to the logger "copse". Compiled
    kernels are kept in the cache folder of the user, as the command does."""
    global _context
    with _lock:
        if _context is None:
            folder = c_string("")
            params = ffi.new("struct copse_context_params *", {
                "log": _log, "cache_folder": folder, "progress": _progress})
            _context = make("context", lib.copse_context_create, params)
        return _context


_PRIORITIES = {
    "normal": lib.COPSE_PRIORITY_NORMAL, "low": lib.COPSE_PRIORITY_LOW, "high": lib.COPSE_PRIORITY_HIGH,
}


def prioritize(priority: Priority) -> None:
    """The priority of the work of devices that are opened from now on, as by a new strategy: "low" gives way to other
    programs, "normal", or "high". Where a driver has none, a warning says so. No result depends on it."""
    if priority not in _PRIORITIES:
        raise ArgumentError(f"there is no priority {priority!r}: {', '.join(_PRIORITIES)}")
    check(lib.copse_context_prioritize(context(), _PRIORITIES[priority]))


@dataclass(frozen=True)
class Device:
    """A device as found. `id` is its name for a strategy."""

    id: str
    name: str
    driver: str
    backend: str
    kind: str
    memory_bytes: int
    is_usable: bool
    reason: str
    """Why it was rejected."""
    same_as: Optional[str]
    """An earlier entry for the same physical device."""
    is_auto: bool
    """Whether "auto" takes it."""
    auto_reason: str
    """Why "auto" takes it, or leaves it out."""


_KINDS = {
    lib.COPSE_DEVICE_REFERENCE: "reference", lib.COPSE_DEVICE_CPU: "cpu", lib.COPSE_DEVICE_INTEGRATED: "integrated",
    lib.COPSE_DEVICE_DISCRETE: "discrete", lib.COPSE_DEVICE_OTHER: "other",
}


def _choice(device: str) -> Any:
    choice = ffi.new("struct copse_device_choice *")
    check(lib.copse_device_choice(context(), c_string(device), choice))
    return choice


def devices() -> list[Device]:
    """Every device found, usable or not."""
    found, count = ffi.new("struct copse_device_info **"), ffi.new("size_t *")
    lib.copse_context_devices(context(), found, count)
    infos = [found[0][i] for i in range(count[0])]
    choices = [_choice(text(d.id)) for d in infos]
    return [Device(id=text(d.id), name=text(d.name), driver=text(d.driver), backend=text(d.backend),
                   kind=_KINDS[d.kind], memory_bytes=d.memory_bytes, is_usable=d.is_usable, reason=text(d.reason),
                   same_as=text(infos[d.same_as].id) if d.same_as >= 0 else None, is_auto=c.is_taken,
                   auto_reason=text(c.reason))
            for d, c in zip(infos, choices)]


def select(selector: Optional[str] = None) -> list[str]:
    """The ids of the devices that a selector names: "auto", "all", "opencl", "vulkan", "host", or a list of ids.
    All but a list take a physical device once; `Device.auto_reason` says why "auto" takes or leaves out a device."""
    room = lib.COPSE_MAX_REPLICAS
    ids, count = ffi.new(f"char[{room}][32]"), ffi.new("size_t *")
    check(lib.copse_select_devices(context(), c_string(selector), ids, room, count))
    return [text(ids[i]) for i in range(count[0])]


def version() -> str:
    """Version of the library."""
    return text(lib.copse_version())
