# SPDX-License-Identifier: MIT
"""Training with checkpoints; a later run resumes from the newest one."""
from __future__ import annotations

import os
from typing import Any, Callable, Optional

from ._library import Guard, c_string, ffi, lib, make, owned, text
from .data import Loader
from .devices import context
from .trainer import StepResult, Trainer


ALL = 2**64 - 1  # COPSE_ALL


class Monitor:
    """Runs the steps of a trainer over some passes of batches, and writes checkpoints to a folder or one file. When it is
    made it restores the newest undamaged checkpoint, or writes a first one.

    every_steps, every_progress, every_seconds: when to write; without any, every 600 s. keep: checkpoints in the folder.
    is_new: refuse to start where there are checkpoints. on_step: gets each result.
    """

    def __init__(self, trainer: Trainer, batches: Loader, epochs: int, *, folder: "str | os.PathLike | None" = None,
                 file: "str | os.PathLike | None" = None, every_steps: int = 0, every_progress: int = 0,
                 every_seconds: float = 0.0, keep: int = 0, is_new: bool = False,
                 on_step: Optional[Callable[[StepResult], None]] = None) -> None:
        self.trainer, self.batches, self.epochs = trainer, batches, epochs
        self._guard = Guard()
        self._on_step = on_step
        batches.go(0, 0)
        run = self._guard.run
        kept = (ffi.callback("copse_status(void *)", lambda _user: run(self._step)),
                ffi.callback("copse_status(void *, char *)", lambda _user, path: run(self._save, text(path))),
                ffi.callback("copse_status(void *, char *)", lambda _user, path: run(self._restore, text(path))),
                ffi.callback("uint64_t(void *)", lambda _user: lib.copse_trainer_steps(trainer._pointer)))
        functions = ffi.new("struct copse_step_functions *",
                            dict(zip(("run", "save", "restore", "progress"), kept)))
        step = make("step", lib.copse_step_create, context(), trainer.strategy._pointer, functions, ffi.NULL,
                    keep=kept)
        places = c_string(folder), c_string(file)
        params = ffi.new("struct copse_monitor_params *", {
            "folder": places[0], "file": places[1], "every_steps": every_steps, "every_progress": every_progress,
            "every_seconds": every_seconds, "keep": keep, "is_new": is_new})
        out = ffi.new("copse_monitor **")
        self._guard.check(lib.copse_monitor_create(step, params, out))
        self._pointer = owned("monitor", out[0], step)

    def run(self, steps: Optional[int] = None) -> int:
        """Run until so many steps have succeeded, or all passes are complete; returns the steps of this call."""
        done = ffi.new("uint64_t *")
        self._guard.check(lib.copse_monitor_run(self._pointer, ALL if steps is None else steps, done))
        return done[0]

    def checkpoint(self) -> None:
        """Write a checkpoint now, unless the newest one is of this state."""
        self._guard.check(lib.copse_monitor_checkpoint(self._pointer))

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

    # The functions of the step.

    def _step(self) -> Optional[int]:
        self._guard.error = None  # of a checkpoint that could not be written: the monitor goes on
        batch = self.batches.take()
        if batch is None:
            epoch = self.batches.position[0] + 1
            if epoch >= self.epochs:
                return lib.COPSE_ERR_END
            self.batches.go(epoch, 0)
            batch = self.batches.take()
        result = self.trainer.step(batch)
        if self._on_step is not None and result is not None:
            self._on_step(result)
        return None

    def _save(self, path: str) -> None:
        epoch, batch = self.batches.position
        self.trainer.checkpoint(path, epoch=epoch, batch=batch)

    def _restore(self, path: str) -> None:
        self.batches.go(*self.trainer.restore(path))
