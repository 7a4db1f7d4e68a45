# SPDX-License-Identifier: MIT
"""Exceptions: one for each status of the library, with the text of copse_last_error."""
from __future__ import annotations


class Error(Exception):
    """A call of the library failed. `status` is the name of the status, such as "ERR_SHAPE"."""

    status = "ERR_INTERNAL"


class ArgumentError(Error, ValueError):
    status = "ERR_ARGUMENT"


class ShapeError(Error, ValueError):
    status = "ERR_SHAPE"


class UnsupportedError(Error, NotImplementedError):
    status = "ERR_UNSUPPORTED"


class OutOfMemoryError(Error, MemoryError):
    status = "ERR_NO_MEMORY"


class OutOfDeviceMemoryError(Error, MemoryError):
    status = "ERR_NO_DEVICE_MEMORY"


class NoDeviceError(Error):
    status = "ERR_NO_DEVICE"


class DeviceLostError(Error):
    status = "ERR_DEVICE_LOST"


class CompileError(Error):
    status = "ERR_COMPILE"


class FileError(Error, OSError):
    status = "ERR_IO"


class FormatError(Error, ValueError):
    status = "ERR_FORMAT"


class CommunicationError(Error, ConnectionError):
    status = "ERR_COMM"


class DeadlineError(Error, TimeoutError):
    status = "ERR_TIMEOUT"


class CancelledError(Error):
    status = "ERR_CANCELLED"


class NonFiniteError(Error, ArithmeticError):
    status = "ERR_NONFINITE"


class ContextError(Error, RuntimeError):
    status = "ERR_CONTEXT"


class EndError(Error):
    status = "ERR_END"


class InternalError(Error):
    status = "ERR_INTERNAL"


class UnreliableError(Error):
    status = "ERR_UNRELIABLE"


_BY_STATUS = {c.status: c for c in Error.__subclasses__()}


def of(status: str, message: str) -> Error:
    """The exception of a status name."""
    return _BY_STATUS.get(status, Error)(message)
