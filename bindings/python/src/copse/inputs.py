# SPDX-License-Identifier: MIT
"""Inputs of a loss function."""
from __future__ import annotations

from typing import Any

from ._library import c_string, check, ffi, lib
from .tensor import Tensor


class Inputs:
    """One replica's share of a batch, inside a loss function: `inputs["x"]` is a tensor."""

    def __init__(self, graph: Any, pointer: Any) -> None:
        self._graph = graph
        self._pointer = pointer

    def __getitem__(self, name: str) -> Tensor:
        out = ffi.new("copse_tensor **")
        check(lib.copse_input(self._pointer, c_string(name), out))
        return Tensor(self._graph, out[0])

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
