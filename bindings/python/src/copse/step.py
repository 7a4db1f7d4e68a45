# SPDX-License-Identifier: MIT
"""Steps: what a training loop repeats, as an object that a monitor runs, saves and restores."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Union

from . import ops
from ._library import Guard, c_string, choice, ffi, lib, make, owned, text
from .data import Loader
from .devices import context
from .errors import ArgumentError
from .options import Reduction
from .strategy import Strategy
from .tensor import Tensor
from .trainer import Trainer
from .values import Structure, unpack

OUTPUT_REDUCTIONS = {"none": lib.COPSE_OUTPUT_NONE, "sum": lib.COPSE_OUTPUT_SUM, "mean": lib.COPSE_OUTPUT_MEAN}


class Step:
    """A step of the application's own functions; a call runs it once, and returns whether there was data for it.

    run: one step; it raises StopIteration where the data has ended. save, restore: write all state to the file of a path, and
    restore it. progress: a number that is part of the state and grows with every change of it. recover: makes anew what is
    broken after a device failed or a worker was lost; `restore` follows.
    """

    def __init__(self, run: Optional[Callable[[], None]] = None, *, strategy: Optional[Strategy] = None,
                 save: Optional[Callable[[str], None]] = None, restore: Optional[Callable[[str], None]] = None,
                 progress: Optional[Callable[[], int]] = None, recover: Optional[Callable[[], None]] = None) -> None:
        guard = self._guard = Guard()
        self._strategy = strategy
        self._failed: Optional[BaseException] = None  # an exception of `progress`, which has no status
        status, path = "copse_status(void *)", "copse_status(void *, char *)"
        functions: dict[str, Any] = {}
        if run is not None:
            functions["run"] = ffi.callback(status, lambda _user: guard.run(self._run, run))
        if save is not None:
            functions["save"] = ffi.callback(path, lambda _user, where: guard.run(self._save_to, save, text(where)))
        if restore is not None:
            functions["restore"] = ffi.callback(path, lambda _user, where: guard.invoke(restore, text(where)))
        if progress is not None:
            functions["progress"] = ffi.callback("uint64_t(void *)", lambda _user: self._progress(progress))
        if recover is not None:
            functions["recover"] = ffi.callback(status, lambda _user: guard.invoke(recover))
        self._pointer = make("step", lib.copse_step_create, context(),
                             ffi.NULL if strategy is None else strategy._pointer,
                             ffi.new("struct copse_step_functions *", functions), ffi.NULL, keep=tuple(functions.values()))

    def _progress(self, progress: Callable[[], int]) -> int:
        try:
            return int(progress())
        except BaseException as e:  # the next function of the step raises it
            self._failed = e
            return 0

    def _check_progress(self) -> None:
        error, self._failed = self._failed, None
        if error is not None:
            raise error

    def _run(self, run: Callable[[], None]) -> Optional[int]:
        self._guard.error = None  # of an earlier call, which the library has got over
        self._check_progress()
        try:
            run()
        except StopIteration:
            return lib.COPSE_ERR_END
        return None

    def _save_to(self, save: Callable[[str], None], path: str) -> None:
        self._check_progress()
        save(path)

    def _take_error(self) -> None:
        """Of functions that the step did not get itself."""

    def __call__(self) -> bool:
        status = lib.copse_step_run(self._pointer)
        self._take_error()
        if status == lib.COPSE_ERR_END and self._guard.error is None:
            return False
        self._guard.check(status)
        return True

    @property
    def strategy(self) -> Optional[Strategy]:
        return self._strategy


class SingleLossStep(Step):
    """The standard step: a run trains `iterations_per_step` batches, one after the other; it can be saved and recovered.

    make: gives the trainer, with its strategy and variables; it is called once, and again after a device failed. The trainer
    belongs to the step then. batches: of all replicas together. outputs: by name, "loss" or what the loss function reports,
    how the values of the replicas become one: "mean", "sum" or "none". iterations_per_step: 0 runs none.
    """

    def __init__(self, make_trainer: Callable[[], Trainer], batches: Loader, *, epochs: int = 1,
                 iterations_per_step: Optional[int] = None, outputs: Optional[Mapping[str, Reduction]] = None) -> None:
        guard = self._guard = Guard()
        self._failed = None
        self._trainer: Optional[Trainer] = None
        self._kept: list[Any] = []  # functions of the trainers that the library has

        def give_data(_user: Any, _strategy: Any, out: Any) -> int:
            out[0] = lib.copse_dataset_retain(batches.data._pointer)
            return lib.COPSE_OK

        def give_trainer(_user: Any, out: Any) -> int:
            return guard.run(self._hand_over, make_trainer, out)

        callbacks = ffi.callback("copse_dataset_fn", give_data), ffi.callback("copse_make_trainer_fn", give_trainer)
        names = {name: c_string(name) for name in outputs or {}}
        wanted = ffi.new("struct copse_output_params[]", [
            {"name": names[name], "reduction": choice("the reduction", how, OUTPUT_REDUCTIONS)}
            for name, how in (outputs or {}).items()])
        params = ffi.new("struct copse_single_loss_params *", {
            "input": {"dataset": callbacks[0], "batches": batches._params[0], "epochs": epochs}, "make": callbacks[1],
            "iterations_per_step": (0 if iterations_per_step is None else iterations_per_step or lib.COPSE_NO_ITERATIONS),
            "outputs": wanted if names else ffi.NULL, "output_count": len(names)})
        out = ffi.new("copse_step **")
        status = lib.copse_single_loss_step_create(context(), params, out)
        if status != lib.COPSE_OK and self._trainer is not None:  # the library has released it
            self._trainer._pointer = ffi.NULL
        guard.check(status)
        self._pointer = owned("step", out[0], callbacks, self._kept, batches)
        self._own()

    def _hand_over(self, make_trainer: Callable[[], Trainer], out: Any) -> None:
        if self._trainer is not None:  # the library has released it
            self._trainer._pointer = ffi.NULL
        trainer = make_trainer()
        if not isinstance(trainer, Trainer):
            raise ArgumentError(f"the function gave {type(trainer).__name__}, not a Trainer")
        if not trainer._pointer or trainer._owner is not None:
            raise ArgumentError("the function gave a trainer that was given before, or is closed: make a new one")
        out[0] = pointer = trainer._pointer
        ffi.gc(pointer, None)  # the step releases it
        self._kept[:] = [trainer._loss, trainer._keep, trainer._predictors]
        self._trainer = trainer
        if hasattr(self, "_pointer"):
            self._own()

    def _take_error(self) -> None:
        loss = None if self._trainer is None else self._trainer._loss
        if loss is not None and self._guard.error is None:
            self._guard.error, loss.error = loss.error, None

    def _own(self) -> None:
        """The trainer's pointer lives as long as the step, which the trainer keeps."""
        if self._trainer is not None:
            self._trainer._owner = self._pointer

    @property
    def strategy(self) -> Optional[Strategy]:
        return None if self._trainer is None else self._trainer.strategy

    @property
    def trainer(self) -> Optional[Trainer]:
        """Its trainer; another one after a recovery."""
        return self._trainer

    def output(self, name: str) -> Union[float, list[float], Structure]:
        """An output of the last iteration: a number, or one for each replica; or the array that `set_output` named."""
        table, numbers, value = ffi.new("copse_outputs **"), ffi.new("struct copse_output *"), ffi.new("copse_value **")
        self._guard.check(lib.copse_step_outputs(self._pointer, table))
        if lib.copse_outputs_get(table[0], c_string(name), numbers) == lib.COPSE_OK:
            listed = [numbers.values[i] for i in range(numbers.count)]
            return listed[0] if numbers.is_reduced else listed
        self._guard.check(lib.copse_outputs_value(table[0], c_string(name), value))
        assert self._trainer is not None  # the step has outputs
        return unpack(owned("value", value[0]), self._trainer.strategy)


def set_output(name: str, x: Tensor, reduction: Reduction = "mean") -> None:
    """In a loss function of a SingleLossStep's trainer: keep an array as an output of the step."""
    ops._do(lib.copse_step_output, c_string(name), ops._pointer(x), choice("the reduction", reduction, OUTPUT_REDUCTIONS))
