# SPDX-License-Identifier: MIT
"""Jobs of several processes: the other workers and the parameter servers (docs/cluster.md)."""
from __future__ import annotations

import atexit
import weakref
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Union

from ._library import c_string, check, choice, ffi, lib, make, text
from .devices import context
from .options import Engine, PathLike

ENGINES = {"auto": lib.COPSE_ENGINE_AUTO, "mpi": lib.COPSE_ENGINE_MPI, "gloo": lib.COPSE_ENGINE_GLOO}


def _close(user: "weakref.ref[Any]") -> None:
    known = user()
    if known is not None:
        known.close()


@dataclass(frozen=True)
class Served:
    """What a parameter server did: updates of all workers, variables, and workers that were lost."""

    updates: int
    variables: int
    lost: int


class Cluster:
    """This process and the others of its job, connected: all of them open it. Close it at the end, so that the others know;
    the end of the program closes it, too. It closes the trainers and strategies that use it.

    description: the tasks, and which of them this process is, as JSON or a dictionary:
    {"cluster": {"worker": ["a:7000", "b:7000"]}, "task": {"type": "worker", "index": 0}}.
    modules: the folder with the engines.
    """

    def __init__(self, description: Union[str, Mapping[str, Any]], *, engine: Engine = "auto", deadline_ms: int = 0,
                 modules: Optional[PathLike] = None, _spec: Any = None) -> None:
        spec = _spec
        if spec is None:
            spec = ffi.new("copse_cluster_spec **")
            import json
            written = description if isinstance(description, str) else json.dumps(description)
            check(lib.copse_cluster_spec_parse(context(), c_string(written), spec))
        self._users: list[weakref.ref] = []
        try:
            self.role = text(lib.copse_role_name(lib.copse_cluster_spec_role(spec[0])))
            folder = c_string(modules)
            params = ffi.new("struct copse_cluster_params *", {
                "engine": choice("the engine", engine, ENGINES), "deadline_ms": deadline_ms, "modules": folder})
            self._pointer = make("cluster", lib.copse_cluster_open, context(), spec[0], params)
        finally:
            lib.copse_cluster_spec_release(spec)
        atexit.register(_close, weakref.ref(self))

    @classmethod
    def find(cls, *, engine: Engine = "auto", deadline_ms: int = 0,
             modules: Optional[PathLike] = None) -> "Optional[Cluster]":
        """The job that the environment describes (COPSE_CONFIG, TF_CONFIG, or the variables of an MPI launcher); None
        without one."""
        spec = ffi.new("copse_cluster_spec **")
        check(lib.copse_cluster_spec_find(context(), spec))
        return cls("", engine=engine, deadline_ms=deadline_ms, modules=modules, _spec=spec) if spec[0] else None

    def _use(self, user: Any) -> None:
        self._users.append(weakref.ref(user))

    def close(self) -> None:
        """Leave the job."""
        while self._users:
            _close(self._users.pop())
        if self._pointer:
            pointer, self._pointer = self._pointer, ffi.NULL
            ffi.release(pointer)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def rank(self) -> int:
        """Of this process; parameter servers have the ranks behind those of the workers."""
        return lib.copse_cluster_rank(self._pointer)

    @property
    def workers(self) -> int:
        return lib.copse_cluster_size(self._pointer)

    @property
    def servers(self) -> int:
        return lib.copse_cluster_servers(self._pointer)

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints."""
        return bool(lib.copse_cluster_is_chief(self._pointer))

    def serve(self, device: Optional[str] = None) -> Served:
        """Of a parameter server: keep variables for the workers on a device (host:0) until all are done or lost."""
        summary = ffi.new("struct copse_parameter_server_summary *")
        check(lib.copse_parameter_server_serve(context(), self._pointer, c_string(device), summary))
        return Served(updates=summary.updates, variables=summary.variables, lost=summary.lost)
