# SPDX-License-Identifier: MIT
"""Distributed input: batches with a part for each replica."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Union

from ._library import Guard, check, choice, ffi, lib, make, owned
from .data import HostBatch, Loader
from .devices import context
from .errors import ArgumentError
from .options import InputPolicy, SplitRule
from .strategy import Strategy
from .values import Value, per_replica, unpack, value

POLICIES = {"auto": lib.COPSE_INPUT_AUTO, "file": lib.COPSE_INPUT_FILE, "data": lib.COPSE_INPUT_DATA,
            "off": lib.COPSE_INPUT_OFF}
RULES = {"balanced": lib.COPSE_SHARD_BALANCED, "ceil": lib.COPSE_SHARD_CEIL, "fixed": lib.COPSE_SHARD_FIXED}


@dataclass(frozen=True)
class InputContext:
    """The place of a process, one input pipeline, among all."""

    pipelines: int
    pipeline: int
    replicas: int
    """Of all pipelines together."""

    def per_replica_batch(self, batch: int) -> int:
        """Examples of one replica in a global batch, which must be divisible."""
        size = ffi.new("size_t *")
        check(lib.copse_input_per_replica_batch(self._params, batch, size))
        return size[0]

    @property
    def _params(self) -> Any:
        return ffi.new("struct copse_input_context *", {
            "pipelines": self.pipelines, "pipeline": self.pipeline, "replicas": self.replicas})


@dataclass(frozen=True)
class ValueContext:
    """A replica among those of all workers."""

    replica_id: int
    replicas: int


def input_context(strategy: Strategy) -> InputContext:
    """Of this process."""
    job = strategy.cluster
    pipelines, pipeline = (1, 0) if job is None else (job.workers, job.rank)
    return InputContext(pipelines, pipeline, strategy.replicas * pipelines)


def values_from_function(strategy: Strategy, f: Callable[[ValueContext], Any]) -> Value:
    first = lib.copse_strategy_first_rank(strategy._pointer)
    parts = [f(ValueContext(first + i, strategy.replicas_in_sync)) for i in range(strategy.replicas)]
    return per_replica(strategy, parts) if len(parts) > 1 else value(parts[0])


class Distributed(ABC):
    """Batches for Strategy.run: an iteration gives, for each step, a dictionary of the columns, whose values have a
    component [rows, ...] for each replica of this process; with one replica they are plain. Rows may differ between
    replicas; one without rows has [0, ...]. Each iteration is the next epoch, each `iter` walks by itself."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self._epoch = 0

    def __iter__(self) -> Iterator[dict[str, Value]]:
        epoch, self._epoch = self._epoch, self._epoch + 1
        return self.epoch(epoch)

    def epoch(self, epoch: int = 0, first: int = 0) -> Iterator[dict[str, Value]]:
        """The steps of an epoch from step `first` on."""
        guard = Guard()
        walk, out = self._walk(epoch, first, guard), ffi.new("copse_value **")
        while True:
            status = lib.copse_distributed_next_value(walk, self.strategy._pointer, out)
            if status == lib.COPSE_ERR_END and guard.error is None:
                return
            guard.check(status)
            yield unpack(owned("value", out[0]), self.strategy)

    @abstractmethod
    def _walk(self, epoch: int, first: int, guard: Guard) -> Any:
        """A new walk at a step."""


class DistributedLoader(Distributed):
    """Batches of a Loader, each split into one part for each replica of all workers.

    policy: "data", every worker has the same data and takes its part of each batch, or "off", every worker takes the same
    parts. rule: how a batch is split: "balanced", "ceil" or "fixed".
    """

    def __init__(self, strategy: Strategy, batches: Loader, policy: InputPolicy = "auto",
                 rule: SplitRule = "balanced") -> None:
        super().__init__(strategy)
        if not isinstance(batches, Loader):
            raise ArgumentError(f"a {type(batches).__name__} is no Loader: use Dataset(...).batches(n), n examples of all "
                                "replicas together")
        self.batches = batches
        self._settings = {"policy": choice("the policy", policy, POLICIES), "rule": choice("the rule", rule, RULES)}

    @property
    def element_spec(self) -> dict[str, tuple[str, tuple[Optional[int], ...]]]:
        """Type and shape of each column of a replica's part, by name; the number of rows is None."""
        return {name: (dtype, (None, *shape)) for name, (dtype, shape) in self.batches.data.columns.items()}

    def __len__(self) -> int:
        """Steps of an epoch."""
        return lib.copse_distributed_steps(self._walk(0, 0, Guard()))

    def _walk(self, epoch: int, first: int, guard: Guard) -> Any:
        params = ffi.new("struct copse_distributed_params *", {
            "data": self.batches.data._pointer, "input": input_context(self.strategy)._params[0],
            "batches": self.batches._params[0], **self._settings})
        walk = make("distributed", lib.copse_distributed_create, context(), params)
        check(lib.copse_distributed_start(walk, epoch, first))
        return walk


Source = Union[Loader, Iterable[Union[HostBatch, Mapping[str, Any]]]]


class DistributedFunction(Distributed):
    """Batches of one replica each, which a function gives and which are not split: replica r of R gets batch step R + r."""

    def __init__(self, strategy: Strategy, f: Callable[[InputContext], Source], keep_last: bool = False) -> None:
        super().__init__(strategy)
        self.source = f(input_context(strategy))
        self.last = lib.COPSE_LAST_STEP_EMPTY if keep_last else lib.COPSE_LAST_STEP_DROP
        if not isinstance(self.source, (Loader, Iterable)):
            raise ArgumentError(f"the function gave {type(self.source).__name__}: use a Loader, or an iterable of batches")

    def _walk(self, epoch: int, first: int, guard: Guard) -> Any:
        given = iter(self.source.again().epoch(epoch) if isinstance(self.source, Loader) else self.source)
        for _ in range(first * self.strategy.replicas):
            next(given, None)
        kept: deque[HostBatch] = deque(maxlen=2 * self.strategy.replicas + 1)  # of this step and the one before

        def take(out: Any) -> Optional[int]:
            batch = next(given, None)
            if batch is None:
                return lib.COPSE_ERR_END
            kept.append(batch if isinstance(batch, HostBatch) else HostBatch(batch))
            out[0] = kept[-1]._batch[0]
            return None

        pull = ffi.callback("copse_replica_batch_fn", lambda _user, out: guard.run(take, out))

        def pipeline(_user: Any, _input: Any, source: Any) -> int:
            source.next = pull
            return lib.COPSE_OK

        opened = ffi.callback("copse_pipeline_fn", pipeline)
        params = ffi.new("struct copse_distributed_fn_params *", {
            "pipeline": opened, "input": input_context(self.strategy)._params[0], "last": self.last})
        return make("distributed", lib.copse_distributed_from_function, context(), params, keep=(pull, kept))
