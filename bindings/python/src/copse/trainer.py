# SPDX-License-Identifier: MIT
"""Training: a loss function in Python, an optimizer and a strategy make a trainer."""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np

from . import ops
from ._library import c_string, check, ffi, lib, make, text
from .data import Batches, HostBatch
from .errors import ArgumentError, Error
from .model import Model
from .strategy import Strategy, Variable, choice
from .tensor import Tensor

OPTIMIZERS = {
    "adam": lib.COPSE_ADAM, "adamw": lib.COPSE_ADAMW, "sgd": lib.COPSE_SGD, "momentum": lib.COPSE_MOMENTUM,
    "nesterov": lib.COPSE_NESTEROV,
}


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


Loss = Callable[[Inputs], Tensor]


@dataclass(frozen=True)
class StepResult:
    """Result of a step or an evaluation."""

    step: int
    loss: float
    reports: dict[str, float] = field(default_factory=dict)
    is_skipped: bool = False


class _ModelLoss:
    """The library's own loss function of a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.pointer = ffi.addressof(lib, "copse_model_loss")
        self.user = model._pointer
        self.check = check


class _Callback:
    """A Python function as a copse_loss_fn. An exception ends the call; `check` raises it again in the caller."""

    user = ffi.NULL

    def __init__(self, function: Loss) -> None:
        self.function = function
        self.error: Optional[BaseException] = None
        self.pointer = ffi.callback("copse_loss_fn", self._call)

    def _call(self, graph: Any, batch: Any, user: Any, out: Any) -> int:
        try:
            with ops.building(graph):
                result = self.function(Inputs(graph, batch))
                if isinstance(result, Variable):
                    out[0] = result._tensor
                elif isinstance(result, Tensor):
                    out[0] = result._pointer
                else:
                    raise ArgumentError(f"the loss function returned {type(result).__name__}, not a Tensor")
            return lib.COPSE_OK
        except Error as e:
            self.error = e
            return getattr(lib, f"COPSE_{e.status}")
        except BaseException as e:  # KeyboardInterrupt, too: it must not unwind through C
            self.error = e
            return lib.COPSE_ERR_CANCELLED

    def check(self, status: int) -> None:
        error, self.error = self.error, None
        if error is not None and status != lib.COPSE_OK:
            raise error
        check(status)


class Trainer:
    """Trains the variables of a strategy.

    loss: a Model, or a function that is called with the inputs of one replica and builds the loss, a mean over its
    examples, from ops. It is called once for each size of share, not for each step.
    learning_rate: a number, or a function of the step number (from 1).
    options: further members of copse_optimizer_params, such as weight_decay=1e-4 or clip_global_norm=1.0.
    """

    def __init__(self, strategy: Strategy, loss: Union[Loss, Model], *, optimizer: str = "adam",
                 learning_rate: Union[float, Callable[[int], float]] = 0.0, seed: int = 0, accumulate: int = 0,
                 prefetch: int = 0, variables: Optional[Sequence[Variable]] = None, **options: float) -> None:
        self.strategy = strategy
        self._loss = _ModelLoss(loss) if isinstance(loss, Model) else _Callback(loss)
        rule = {"kind": choice("the optimizer", optimizer, OPTIMIZERS), **options}
        if callable(learning_rate):
            function = learning_rate
            self._schedule = ffi.callback("float(void *, uint64_t)", lambda _user, step: function(step))
            rule["schedule"] = self._schedule
        else:
            rule["learning_rate"] = learning_rate
        try:
            settings = ffi.new("struct copse_optimizer_params *", rule)
        except KeyError as e:
            raise ArgumentError(f"the optimizer has no setting {e}") from None
        chosen = [v._pointer for v in variables] if variables is not None else None
        listed = ffi.new("copse_variable *[]", chosen) if chosen else ffi.NULL
        params = ffi.new("struct copse_trainer_params *", {
            "loss": self._loss.pointer, "user": self._loss.user, "optimizer": settings[0], "seed": seed, "accumulate": accumulate,
            "prefetch": prefetch, "variables": listed, "variable_count": len(chosen) if chosen else 0,
        })
        self._pointer = make("trainer", lib.copse_trainer_create, strategy._pointer, params,
                             keep=(self._loss, getattr(self, "_schedule", None)))

    def step(self, batch: Union[Mapping[str, Any], Any], wait: bool = True) -> Optional[StepResult]:
        """One training step on a global batch: arrays by name, or a batch of `Batches`. With `wait` false the step is
        queued; `result` gives its result later."""
        b, _keep = self._batch(batch)
        self._loss.check(lib.copse_trainer_step(self._pointer, b))
        return self.results()[-1] if wait else None

    def result(self, wait: bool = True) -> Optional[StepResult]:
        """The result of the oldest step that has one; None if there is none yet, or none is outstanding."""
        r = ffi.new("struct copse_step_result *")
        status = lib.copse_trainer_result(self._pointer, wait, r)
        if status == lib.COPSE_ERR_END or (not wait and status == lib.COPSE_ERR_TIMEOUT):
            return None
        self._loss.check(status)
        return _result(r)

    def results(self) -> list[StepResult]:
        """All outstanding results, oldest first; waits for them."""
        found = []
        while (r := self.result()) is not None:
            found.append(r)
        return found

    def evaluate(self, batch: Union[Mapping[str, Any], Any]) -> StepResult:
        """Loss and reports of a batch without training."""
        b, _keep = self._batch(batch)
        r = ffi.new("struct copse_step_result *")
        self._loss.check(lib.copse_trainer_evaluate(self._pointer, b, r))
        return _result(r)

    def fit(self, batches: Batches, epochs: int, on_epoch: Optional[Callable[[int, StepResult], None]] = None) -> None:
        """Train for some passes over the batches. `on_epoch` gets the epoch (from 0) and its last result."""
        for epoch in range(epochs):
            last = None
            for batch in batches.epoch(epoch):
                self.step(batch, wait=False)
                last = self.result(wait=False) or last
            last = (self.results() or [last])[-1]
            if on_epoch is not None and last is not None:
                on_epoch(epoch, last)

    def save(self, path: "str | os.PathLike") -> None:
        """Write every variable as safetensors."""
        check(lib.copse_trainer_save(self._pointer, c_string(path)))

    def checkpoint(self, path: "str | os.PathLike", *, epoch: int = 0, batch: int = 0) -> None:
        """Write everything that a run needs to continue, and the position in the data."""
        params = ffi.new("struct copse_state_params *", {"position": {"epoch": epoch, "batch": batch}})
        check(lib.copse_trainer_checkpoint(self._pointer, c_string(path), params))

    def restore(self, path: "str | os.PathLike") -> tuple[int, int]:
        """Restore a checkpoint; returns epoch and batch of the position in the data."""
        position = ffi.new("struct copse_position *")
        check(lib.copse_trainer_restore(self._pointer, c_string(path), position, ffi.NULL))
        return position.epoch, position.batch

    def slot(self, variable: Variable, name: str) -> np.ndarray:
        """An optimizer slot of a variable, such as "m"."""
        out = np.empty(variable.shape, np.float32)
        check(lib.copse_trainer_slot(self._pointer, variable._pointer, c_string(name), ffi.from_buffer("float[]", out)))
        return out

    def cancel(self) -> None:
        """End the current or next step; other threads may call it."""
        lib.copse_trainer_cancel(self._pointer)

    @property
    def steps(self) -> int:
        """Number of the last step begun."""
        return lib.copse_trainer_steps(self._pointer)

    @staticmethod
    def _batch(batch: Any) -> tuple[Any, Any]:
        if isinstance(batch, Mapping):
            made = HostBatch(batch)
            return made._batch, made
        return (batch._batch, batch) if isinstance(batch, HostBatch) else (batch, None)


def _result(r: Any) -> StepResult:
    reports = {text(r.report_names[i]): r.reports[i] for i in range(r.report_count)}
    return StepResult(step=r.step, loss=r.loss, reports=reports, is_skipped=bool(r.is_skipped))
