# SPDX-License-Identifier: MIT
"""Learning rates that change over the steps of a run."""
from __future__ import annotations

from typing import Any

from ._library import c_string, check, ffi, lib, make, text
from .devices import context


class Schedule:
    """Learning rates from a text such as "warmup for 5%; cosine", for `Trainer(learning_rate=...)`.

    text: phases separated by ";" of factors separated by "*"; docs/optimizers.md lists the factors.
    rate: the base rate. steps: of the run; 0 if it has no end.
    """

    def __init__(self, text: str, rate: float, steps: int = 0) -> None:
        written = c_string(text)
        params = ffi.new("struct copse_schedule_params *", {"text": written, "rate": rate, "steps": steps})
        self._pointer = make("schedule", lib.copse_schedule_create, context(), params)

    @classmethod
    def _of(cls, pointer: Any) -> Schedule:
        schedule = cls.__new__(cls)
        schedule._pointer = pointer
        return schedule

    def rate(self, step: int) -> float:
        """The rate of a step, from 1."""
        return float(lib.copse_schedule_rate(self._pointer, step))

    def observe(self, loss: float) -> None:
        """Tell a validation loss to "plateau" factors."""
        check(lib.copse_schedule_observe(self._pointer, loss))

    @property
    def state(self) -> str:
        """What `observe` changes, as a text for a checkpoint."""
        buffer = ffi.new("char[]", 128)
        lib.copse_schedule_state(self._pointer, buffer)
        return text(buffer)

    def restore(self, state: str) -> None:
        """Set the state; "" is that of a new schedule."""
        check(lib.copse_schedule_restore(self._pointer, c_string(state)))
