# SPDX-License-Identifier: MIT
"""Traces of what the host and the devices did, for ui.perfetto.dev."""
from __future__ import annotations

import os
from types import TracebackType
from typing import Any, NamedTuple

from ._library import c_string, check, ffi, lib, text
from .devices import context
from .errors import ArgumentError
from .options import PathLike


class TraceSummary(NamedTuple):
    """What a trace shows. The parts are of the time from the end of the first step to the end of the last one."""

    spans: int
    dropped: int
    steps: int
    seconds: float
    devices: float
    wait: float
    data: float
    upload: float
    exchange: float
    update: float
    compile: float
    host: float
    limit: str


class trace:
    """Record the work of a `with` statement in a file that ui.perfetto.dev and chrome://tracing show:

        with copse.trace("trace.json") as t:
            trainer.fit(data)
        print(t.summary.limit)

    Spans after the first `events` are dropped and counted. After an exception the file has what happened before it."""

    def __init__(self, path: PathLike, events: int = 0, worker: int = 0) -> None:
        if events < 0 or worker < 0:
            raise ArgumentError("trace: events and worker are 0 or more")
        self._settings = os.fspath(path), events, worker
        self._summary: TraceSummary | None = None

    @property
    def summary(self) -> TraceSummary:
        """What the trace shows, after its end."""
        if self._summary is None:
            raise ArgumentError("trace: it has not ended")
        return self._summary

    def __enter__(self) -> trace:
        path, events, worker = self._settings
        name: Any = c_string(path)
        params = ffi.new("struct copse_trace_params *", {"path": name, "events": events, "worker": worker})
        check(lib.copse_trace_start(context(), params))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        s = ffi.new("struct copse_trace_summary *")
        check(lib.copse_trace_stop(context(), s))
        self._summary = TraceSummary(s.events, s.dropped, s.steps, s.seconds, s.devices, s.wait, s.data, s.upload, s.exchange,
                                     s.update, s.compile, s.host, text(s.limit))
