# SPDX-License-Identifier: MIT
"""Inputs of a loss function."""
from __future__ import annotations

from typing import Any

from ._library import c_string, check, ffi, lib
from .tensor import Scope, Tensor


class Inputs:
    """One replica's shard of a batch: `inputs["x"]` is a tensor. After the call of the loss function every use of it raises
    ArgumentError."""

    def __init__(self, scope: Scope, pointer: Any) -> None:
        self._scope = scope
        self._in_scope = pointer

    @property
    def _pointer(self) -> Any:
        return self._scope.valid(self._in_scope)

    def __getitem__(self, name: str) -> Tensor:
        result = lib.copse_input(self._pointer, c_string(name))
        check(lib.copse_graph_status(self._scope.graph))
        return Tensor(self._scope, result)

    @property
    def is_training(self) -> bool:
        """False while evaluating."""
        return bool(self._pointer.is_training)

    @property
    def replica(self) -> int:
        return self._pointer.replica

    @property
    def replicas(self) -> int:
        return self._pointer.replicas
