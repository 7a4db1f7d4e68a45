# SPDX-License-Identifier: MIT
"""Training with checkpoints; a later run resumes from the newest one."""
from __future__ import annotations

from typing import Any, Callable, Optional, Union

from ._library import c_string, ffi, lib, owned, text
from ._names import named_options
from .data import Loader
from .errors import ArgumentError
from .options import PathLike
from .step import Step
from .trainer import StepResult, Trainer


class _Epochs(Step):
    """Steps of a trainer over some passes of batches."""

    def __init__(self, trainer: Trainer, batches: Loader, epochs: int, on_step: Optional[Callable[[StepResult], None]]) -> None:
        self.trainer, self.batches, self.epochs, self._on_step = trainer, batches, epochs, on_step
        batches.go(0, 0)
        super().__init__(self._train, strategy=trainer.strategy, save=self._save, restore=self._restore,
                         progress=lambda: lib.copse_trainer_steps(trainer._pointer))

    def _train(self) -> None:
        batch = self.batches.take()
        if batch is None:
            epoch = self.batches.position[0] + 1
            if epoch >= self.epochs:
                raise StopIteration
            self.batches.go(epoch, 0)
            batch = self.batches.take()
        result = self.trainer.step(batch)
        if self._on_step is not None and result is not None:
            self._on_step(result)

    def _save(self, path: str) -> None:
        epoch, batch = self.batches.position
        self.trainer.checkpoint(path, epoch=epoch, batch=batch)

    def _restore(self, path: str) -> None:
        self.batches.go(*self.trainer.restore(path))


class Monitor:
    """Runs the steps of a trainer over some passes of batches, or a Step, and writes checkpoints to a folder or one file. When
    it is made it restores the newest undamaged checkpoint, or writes a first one.

    every_steps, every_progress, every_seconds: when to write; without any, every 600 s. keep: checkpoints in the folder.
    retries: how often to restart from one checkpoint after a device failed, 0: 3 times. is_new: refuse to start where there are
    checkpoints. on_step: gets each result of a trainer.
    """

    @named_options()
    def __init__(self, trainer: Union[Trainer, Step], batches: Optional[Loader] = None, epochs: int = 1, *,
                 folder: Optional[PathLike] = None, file: Optional[PathLike] = None, every_steps: int = 0,
                 every_progress: int = 0, every_seconds: float = 0.0, keep: int = 0, retries: int = 0, is_new: bool = False,
                 on_step: Optional[Callable[[StepResult], None]] = None) -> None:
        if isinstance(trainer, Step):
            if batches is not None or on_step is not None:
                raise ArgumentError("a Step has its own data and results: batches and on_step are for a Trainer")
            step = trainer
        else:
            if batches is None:
                raise ArgumentError("a monitor of a Trainer needs batches")
            step = _Epochs(trainer, batches, epochs, on_step)
        self.step, self._guard = step, step._guard
        places = c_string(folder), c_string(file)
        params = ffi.new("struct copse_monitor_params *", {
            "folder": places[0], "file": places[1], "every_steps": every_steps, "every_progress": every_progress,
            "every_seconds": every_seconds, "keep": keep, "retries": retries, "is_new": is_new})
        out = ffi.new("copse_monitor **")
        self._check(lib.copse_monitor_create(step._pointer, params, out))
        self._pointer = owned("monitor", out[0], step)

    def _check(self, status: int) -> None:
        self.step._take_error()
        self._guard.check(status)
        self.step._check_progress()

    @property
    def trainer(self) -> Optional[Trainer]:
        """The trainer of the step, where it has one."""
        return getattr(self.step, "trainer", None)

    def run(self, steps: Optional[int] = None) -> int:
        """Run until so many steps have succeeded, or all passes are complete; returns the steps of this call."""
        done = ffi.new("uint64_t *")
        self._check(lib.copse_monitor_run(self._pointer, lib.COPSE_ALL if steps is None else steps, done))
        return done[0]

    def checkpoint(self) -> None:
        """Write a checkpoint now, unless the newest one is of this state."""
        self._check(lib.copse_monitor_checkpoint(self._pointer))

    @property
    def resumed_from(self) -> Optional[str]:
        """The checkpoint that was restored first."""
        return text(self._info.resumed_from) or None

    @property
    def newest(self) -> Optional[str]:
        """The newest checkpoint."""
        return text(self._info.newest) or None

    @property
    def saved(self) -> int:
        """Checkpoints written."""
        return self._info.saved

    @property
    def failed(self) -> int:
        """Checkpoints that could not be written."""
        return self._info.failed

    @property
    def _info(self) -> Any:
        info = ffi.new("struct copse_monitor_info *")
        lib.copse_monitor_describe(self._pointer, info)
        return info
