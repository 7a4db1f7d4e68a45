# SPDX-License-Identifier: MIT
"""The components of all replicas as one array."""
from __future__ import annotations

from typing import Any

import numpy as np

from ._library import lib
from .errors import ArgumentError, ContextError, ShapeError, UnsupportedError
from .replica import replica_context
from .strategy import Strategy, Variable
from .values import Structure, Value, mapped, per_replica, value


def gather(strategy: Strategy, x: Structure, axis: int) -> Structure:
    if replica_context() is not None:
        raise ContextError("gather sees all replicas, and the thread is in one: use its context's all_gather, or a merge call")
    return mapped(x, lambda _path, leaf: _gather(strategy, leaf, axis))


def _gather(strategy: Strategy, x: Any, axis: int) -> Value:
    x = x.read() if isinstance(x, Variable) else value(x)
    if x.dtype == "bfloat16":
        raise UnsupportedError("gather: NumPy has no bfloat16: use astype first")
    parts = [c.numpy() for c in x.components] if x.kind == "per_replica" else [x.numpy()]
    place = axis + parts[0].ndim if axis < 0 else axis
    if not 0 <= place < parts[0].ndim:
        raise ArgumentError(f"gather: the components have {parts[0].ndim} axes, not an axis {axis}")
    rest = {p.shape[:place] + p.shape[place + 1:] for p in parts}
    if len(rest) > 1:
        raise ShapeError(f"gather: the components differ on other axes than {axis}: "
                         + ", ".join(str(list(p.shape)) for p in parts))
    if strategy.replicas_in_sync > strategy.replicas and (x.kind == "per_replica" or strategy.replicas == 1):
        return value(_of_workers(strategy, parts, place))
    return value(np.concatenate(parts, place))


def _of_workers(strategy: Strategy, parts: list[np.ndarray], axis: int) -> np.ndarray:
    """The parts of all workers: each replica has zeros for the others in a sum of bits, which is exact."""
    first, count, dtype = lib.copse_strategy_first_rank(strategy._pointer), strategy.replicas_in_sync, parts[0].dtype
    lengths = _sum(strategy, [_at(first + i, p.shape[axis], count) for i, p in enumerate(parts)])
    bits = {4: np.int32, 2: np.int16, 1: np.int8}[dtype.itemsize]
    shape, begins = list(parts[0].shape), np.concatenate([[0], np.cumsum(lengths)])
    shape[axis] = int(begins[-1])
    placed = []
    for i, p in enumerate(parts):
        row = np.zeros(shape, np.int32)
        here = [slice(None)] * len(shape)
        here[axis] = slice(begins[first + i], begins[first + i + 1])
        row[tuple(here)] = np.ascontiguousarray(p).view(bits)
        placed.append(row)
    return _sum(strategy, placed).astype(bits).view(dtype)


def _at(place: int, number: int, count: int) -> np.ndarray:
    row = np.zeros(count, np.int32)
    row[place] = number
    return row


def _sum(strategy: Strategy, rows: list[np.ndarray]) -> np.ndarray:
    if rows[0].size == 0:
        return rows[0]
    parts = per_replica(strategy, rows) if len(rows) > 1 else value(rows[0])
    return strategy.reduce("sum", parts).numpy()
