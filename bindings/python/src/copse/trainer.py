# SPDX-License-Identifier: MIT
"""Training: a loss function in Python, an optimizer and a strategy make a trainer."""
from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from . import ops
from ._library import Guard, c_string, check, choice, ffi, lib, make, text
from ._names import named_options
from .data import Dataset, HostBatch, Loader
from .devices import compiling, context
from .errors import ArgumentError, NonFiniteError
from .events import EventFile
from .fit import Callbacks, History, Means, Progress, Verbose, listed, tags
from .inputs import Inputs
from .language import LanguageModel
from .model import LAYOUTS, LearningRates, Loaded, Model
from .options import Averaging, Layout, Optimizer, OptimizerOptions, PathLike, Precision
from .schedule import Schedule
from .strategy import Strategy, Variable
from .tensor import Tensor, type_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _optimizers() -> dict[str, int]:
    """The update rules of the library by name."""
    rules: dict[str, int] = {}
    while (rule := lib.copse_optimizer_rule_at(len(rules))) != ffi.NULL:
        rules[text(rule.name)] = rule.kind
    return rules


OPTIMIZERS = _optimizers()
LOSS_REDUCTIONS = {"mean": lib.COPSE_LOSS_MEAN, "sum": lib.COPSE_LOSS_SUM}


Loss = Callable[[Inputs], Union[Tensor, Variable]]
Transform = Callable[[list[tuple[Optional[Tensor], Variable]]], Sequence[Optional[Tensor]]]


@dataclass(frozen=True)
class StepResult:
    """Result of a step or an evaluation."""

    step: int
    loss: float
    reports: dict[str, float] = field(default_factory=dict)
    is_skipped: bool = False
    loss_scale: float = 0.0


class _ModelLoss(Guard):
    """The library's own loss function of a model."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.pointer = ffi.addressof(lib, "copse_model_loss")
        self.user = model._pointer


class _LanguageLoss(Guard):
    """The library's own loss function of a language model."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model
        self.pointer = ffi.addressof(lib, "copse_language_loss")
        self.user = model._pointer


def _loss_of(loss: Union[Loss, Model, LanguageModel]) -> Union[_ModelLoss, _LanguageLoss, _Callback]:
    if isinstance(loss, Model):
        return _ModelLoss(loss)
    return _LanguageLoss(loss) if isinstance(loss, LanguageModel) else _Callback(loss)


class _Callback(Guard):
    """A Python function as a copse_loss_fn or copse_predict_fn, which have the same parameters."""

    user = ffi.NULL

    def __init__(self, function: Loss, kind: str = "copse_loss_fn") -> None:
        super().__init__()
        self.function = function
        self.pointer = ffi.callback(kind, lambda graph, batch, _user: self.build(graph, self._build, graph, batch))
        self.row: Optional[tuple[str, tuple[int, ...]]] = None  # of the result that was built last

    def _build(self, graph: Any, batch: Any) -> Any:
        with ops.building(graph) as scope:
            result = self.function(Inputs(scope, batch))
            if not isinstance(result, (Tensor, Variable)):
                raise ArgumentError(f"the function returned {type(result).__name__}, not a Tensor")
            self.row = (result.dtype, result.shape[1:])
            return result._pointer if isinstance(result, Tensor) else result._tensor


class _Predictor(_Callback):
    """A function that predicts, and what a row of its result is, by the inputs."""

    def __init__(self, function: Loss) -> None:
        super().__init__(function, "copse_predict_fn")
        self.rows: dict[Any, tuple[str, tuple[int, ...]]] = {}


class _Transform:
    """A Python function as a copse_transform_fn."""

    def __init__(self, function: Transform, strategy: Strategy, guard: Guard) -> None:
        self.function, self.strategy = function, strategy
        self.pointer = ffi.callback(
            "copse_transform_fn", lambda graph, pairs, count, _user: self._run(guard, graph, pairs, count))

    def _run(self, guard: Guard, graph: Any, pairs: Any, count: int) -> None:
        guard.build(graph, self._build, graph, pairs, count)

    def _build(self, graph: Any, pairs: Any, count: int) -> None:
        with ops.building(graph) as scope:
            given = [(Tensor(scope, pairs[i].gradient) if pairs[i].gradient else None,
                      Variable._of(self.strategy, pairs[i].variable)) for i in range(count)]
            changed = list(self.function(given))
            if len(changed) != count:
                raise ArgumentError(f"the transform returned {len(changed)} gradients, not {count}")
            for i, gradient in enumerate(changed):
                pairs[i].gradient = ffi.NULL if gradient is None else gradient._pointer


class _Schedule:
    """A Python function of the step as the schedule of an optimizer. An exception cancels the step of a trainer."""

    def __init__(self, function: Callable[[int], float], guard: Guard) -> None:
        self.function, self.guard = function, guard
        self.trainer = ffi.NULL
        self.pointer = ffi.callback("float(void *, uint64_t)", self._rate)
        self.known: dict[int, float] = {}

    def prepare(self, step: int) -> None:
        """Ask for the rate of a step before the library does, so that an exception comes before any change."""
        self.known = {step: float(self.function(step))}

    def _rate(self, _user: Any, step: int) -> float:
        if step in self.known:
            return self.known[step]
        rate = []
        if self.guard.run(lambda: rate.append(float(self.function(step)))) == lib.COPSE_OK:
            return rate[0]
        lib.copse_trainer_cancel(self.trainer)
        return 0.0


class _EarlyStopping:
    """The library's, of a trainer with validation data; else nothing."""

    def __init__(self, trainer: "Trainer", patience: int, min_delta: float, restores: bool, has_data: bool) -> None:
        self.best_epoch: Optional[int] = None
        self._pointer: Any = None
        self._epoch = 0
        if min_delta and not patience:
            raise ArgumentError("min_delta belongs to patience, which is 0")
        if not has_data:
            if patience:
                raise ArgumentError("patience is about the loss of validation_data, which is missing")
        elif patience or (restores and trainer.strategy.kind != "parameter_server"):
            params = ffi.new("struct copse_early_stopping_params *", {
                "patience": patience, "min_delta": min_delta, "keep_last": not restores})
            self._pointer = make("early_stopping", lib.copse_early_stopping_create, trainer._pointer, params)

    def _info(self) -> Any:
        info = ffi.new("struct copse_early_stopping_info *")
        lib.copse_early_stopping_describe(self._pointer, info)
        return info

    def observe(self, epoch: int, loss: float) -> bool:
        """Whether training ends."""
        if self._pointer is None:
            return False
        stop, self._epoch = ffi.new("bool *"), epoch
        check(lib.copse_early_stopping_observe(self._pointer, epoch + 1, loss, stop))
        best = self._info().best_epoch
        self.best_epoch = best - 1 if best else None
        return bool(stop[0])

    def close(self) -> None:
        """Before its trainer."""
        if self._pointer is not None:
            ffi.release(self._pointer)

    def restore(self) -> str:
        """Set the best values; returns how training ended, or ""."""
        if self._pointer is None or self.best_epoch is None:
            return ""
        info = self._info()
        said = [f"training stopped: {info.waited} epochs without a lower val_loss"] if info.is_over else []
        if info.has_values and self.best_epoch != self._epoch:
            check(lib.copse_early_stopping_swap(self._pointer))
            said.append(f"the values are of epoch {self.best_epoch + 1}, which has the lowest val_loss")
        return "; ".join(said)


Rate = Union[float, Schedule, Callable[[int], float]]


Freeze = Union[str, Sequence[str], None]


def parameter_groups(freeze: Freeze, body_rate: Optional[float], groups: str, model: Optional[Model]) -> str:
    """Groups in which these patterns are frozen, and the body, all but the head of the model, too, or has another rate."""
    listed = [freeze] if isinstance(freeze, str) else freeze or ()
    patterns = [p.strip() for item in listed for p in item.split(",") if p.strip()]
    named = [p for p in patterns if p != "body"]
    parts = [f"{', '.join(named)}: frozen"] if named else []
    body = ["frozen"] if "body" in patterns else []
    said = 'freeze="body"' if body else "body_rate"
    if body_rate is not None:
        if body:
            raise ArgumentError('body_rate and freeze="body": a frozen body has no rate; leave one of the two out')
        if not 0 < body_rate < float("inf"):
            raise ArgumentError(f"body_rate is {body_rate}: a factor above 0; freeze=\"body\" keeps the layers as they are")
        body = [f"rate={float(body_rate)!r}"]
    if not body:
        return "; ".join(filter(None, [*parts, groups]))
    if model is None:
        raise ArgumentError(f'{said} is about all but the head of a Model, but the loss is a function: '
                            "name the variables, as \"conv*\"")
    if groups:
        raise ArgumentError(f"{said} makes groups of all variables: leave groups out, or name the variables")
    count = ffi.new("size_t *")
    head = lib.copse_model_head(model._pointer, count)
    parts += [f"{text(lib.copse_variable_name(v))}: rate=1" for v in head[0:count[0]] if lib.copse_variable_is_trained(v)]
    return "; ".join([*parts, f"*: {body[0]}"])


class Rule:
    """Settings of an optimizer as C's: `params`, which points to parts of this object."""

    def __init__(self, guard: Guard, optimizer: str, learning_rate: Rate, groups: str,
                 options: Mapping[str, Any]) -> None:
        described = c_string(groups)
        rule: dict[str, Any] = {"kind": choice("the optimizer", optimizer, OPTIMIZERS), "groups": described, **options}
        self.schedule = _Schedule(learning_rate, guard) if callable(learning_rate) else None
        if self.schedule:
            rule["schedule"] = self.schedule.pointer
        elif isinstance(learning_rate, Schedule):
            rule["schedule"] = ffi.addressof(lib, "copse_schedule_rate")
            rule["schedule_user"] = learning_rate._pointer
        else:
            rule["learning_rate"] = learning_rate
        self.params = ffi.new("struct copse_optimizer_params *", rule)
        self._keep = described, learning_rate


class Trainer:
    """Trains the variables of a strategy.

    loss: a Model, a LanguageModel, or a function that is called with the inputs of one replica and builds the loss, a mean over its
    examples, from ops. It is called once for each size of shard, not for each step.
    learning_rate: a number, a Schedule, or a function of the step number (from 1).
    accumulate: micro-batches for each update. prefetch: batches that are uploaded ahead of their steps. recordings: sizes
    of a shard that are kept.
    precision: "float16" or "bfloat16": matmul, dense and convolutions of the loss function read operands of 16 bits.
    memory_budget: bytes on each device; what does not fit is computed again in the backward pass, with the same bits.
    summarize_gradients: for EventFile.gradients.
    check_numerics, check_gradients: refuse a step with a loss, or gradients, that are not finite.
    transform: a function of pairs of gradient and variable that returns new gradients.
    groups: settings of variables by name, as "*.bias: decay=0; conv1.*: frozen"; docs/optimizers.md.
    freeze: a pattern of names of variables that are not trained, as "conv*", or a list of them; "body" is all but the head
    of a Model (docs/fine-tuning.md). body_rate: the body of a Model learns with this factor of the learning rate.
    options: further members of copse_optimizer_params, such as weight_decay=1e-4, clip_global_norm=1.0, average=0.999 or
    loss_scale=1024.
    """

    @named_options(OptimizerOptions)
    def __init__(self, strategy: Strategy, loss: Union[Loss, Model, LanguageModel], *, optimizer: Optimizer = "adam",
                 learning_rate: Rate = 0.0, seed: int = 0, accumulate: int = 0,
                 prefetch: int = 0, variables: Optional[Sequence[Variable]] = None, reduction: Averaging = "mean",
                 check_numerics: bool = False, check_gradients: bool = False, recordings: int = 0,
                 transform: Optional[Transform] = None, groups: str = "", freeze: Freeze = None,
                 body_rate: Optional[float] = None,
                 precision: Precision = "float32", memory_budget: int = 0, summarize_gradients: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None:
        self.strategy = strategy
        self.prefetch = prefetch
        self._loss = _loss_of(loss)
        self._predictors: dict[Loss, _Predictor] = {}
        parts = parameter_groups(freeze, body_rate, groups, loss if isinstance(loss, Model) else None)
        rule = Rule(self._loss, optimizer, learning_rate, parts, options)
        changes = _Transform(transform, strategy, self._loss) if transform else None
        chosen = [v._pointer for v in variables] if variables is not None else None
        listed = ffi.new("copse_variable *[]", chosen) if chosen else ffi.NULL
        params = ffi.new("struct copse_trainer_params *", {
            "loss": self._loss.pointer, "user": self._loss.user, "optimizer": rule.params[0], "seed": seed,
            "accumulate": accumulate, "prefetch": prefetch, "variables": listed, "recordings": recordings,
            "variable_count": len(chosen) if chosen else 0, "check_numerics": check_numerics,
            "reduction": choice("the reduction", reduction, LOSS_REDUCTIONS), "check_gradients": check_gradients,
            "transform": changes.pointer if changes else ffi.NULL, "precision": type_of(precision),
            "memory_budget": memory_budget, "summarize_gradients": summarize_gradients,
        })
        self._pointer = make("trainer", lib.copse_trainer_create, strategy._pointer, params,
                             keep=(self._loss, rule, changes, self._predictors))
        self._keep = rule, changes  # for a step that takes the pointer over
        self._owner: Any = None  # that step
        if rule.schedule:
            rule.schedule.trainer = ffi.cast("copse_trainer *", self._pointer)
        if strategy.cluster is not None:
            strategy.cluster._use(self)

    @staticmethod
    @named_options(OptimizerOptions, learning_rate="the test sets the rate: start_lr, end_lr")
    def find_lr(strategy: Strategy, loss: Union[Loss, Model], batches: Union[Loader, Dataset, Mapping[str, Any]], *,
                start_lr: float = 1e-7, end_lr: float = 10.0, steps: int = 100, optimizer: Optimizer = "adam", seed: int = 0,
                accumulate: int = 0, variables: Optional[Sequence[Variable]] = None, reduction: Averaging = "mean",
                check_gradients: bool = False, transform: Optional[Transform] = None, groups: str = "",
                freeze: Freeze = None, body_rate: Optional[float] = None, precision: Precision = "float32",
                memory_budget: int = 0, **options: Unpack[OptimizerOptions]) -> LearningRates:
        """The learning-rate range test: a trainer with these settings makes a few steps while the rate grows exponentially.
        The variables keep their values. `fit` says what batches are, Trainer has the other settings."""
        if not isinstance(batches, Loader):
            batches = Dataset._of(batches)._in_batches()
        params = ffi.new("struct copse_find_lr_params *", {"start_lr": start_lr, "end_lr": end_lr, "steps": steps})
        rates = Schedule._of(make("schedule", lib.copse_find_lr_schedule, context(), params))
        trainer = Trainer(strategy, loss, optimizer=optimizer, learning_rate=rates, seed=seed, accumulate=accumulate,
                          variables=variables, reduction=reduction, check_numerics=True, check_gradients=check_gradients,
                          transform=transform, groups=groups, freeze=freeze, body_rate=body_rate, precision=precision,
                          memory_budget=memory_budget, **options)
        try:
            found = ffi.new("struct copse_lr_range *")
            trainer._loss.check(lib.copse_trainer_find_lr(trainer._pointer, batches._pointer, params, found))
            return LearningRates._of(found)
        finally:
            trainer.close()

    def close(self) -> None:
        """Wait for its steps and release it; afterwards calls on it fail."""
        pointer, self._pointer = self._pointer, ffi.NULL
        if pointer:
            ffi.release(pointer)

    def step(self, batch: Union[Mapping[str, Any], Any], wait: bool = True) -> Optional[StepResult]:
        """One training step on a global batch: arrays by name, or a batch of `Loader`. With `wait` false the step is
        queued; `result` gives its result later. With `accumulate` only each update has a result."""
        b, _keep = self._batch(batch)
        self._loss.check(lib.copse_trainer_step(self._pointer, b))
        results = self.results() if wait else []
        return results[-1] if results else None

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

    def predict(self, function: Loss, batch: Union[Mapping[str, Any], Any]) -> np.ndarray:
        """What a function of the inputs gives for each row of a batch: [rows, ...]. Nothing is trained. Give the same
        function again for further batches: it is recorded once for each size of shard, as the loss function is."""
        b, _keep = self._batch(batch)
        known = self._predictors.get(function) or self._predictors.setdefault(function, _Predictor(function))
        key = tuple((text(c.name), c.type, tuple(c.shape.dims[k] for k in range(c.shape.rank)))
                    for c in (b.columns[i] for i in range(b.column_count)))
        if key not in known.rows:  # the call records the function, and is refused because it gives no room
            known.row = None
            status = lib.copse_trainer_predict(self._pointer, known.pointer, ffi.NULL, b, ffi.new("char[1]"), 0)
            if status != lib.COPSE_ERR_SHAPE or known.error is not None or known.row is None:
                known.check(status)
            assert known.row is not None  # a call without an error has built the result
            known.rows[key] = known.row
        dtype, shape = known.rows[key]
        out = np.empty((b.count, *shape), dtype)
        known.check(lib.copse_trainer_predict(self._pointer, known.pointer, ffi.NULL, b, ffi.from_buffer(out), out.nbytes))
        return out

    def feed(self, batch: Union[Mapping[str, Any], Any]) -> None:
        """Upload a batch ahead of its step: with `prefetch`, or for a run of an accelerator."""
        b, _keep = self._batch(batch)
        self._loss.check(lib.copse_trainer_feed(self._pointer, b))

    @property
    def fed(self) -> int:
        """Batches that are fed."""
        return lib.copse_trainer_fed(self._pointer)

    def run(self) -> None:
        """A step on each batch that is fed; `results` gives their results."""
        self._loss.check(lib.copse_trainer_run(self._pointer))

    def flush(self) -> None:
        """Update with the micro-batches since the last update, if any."""
        self._loss.check(lib.copse_trainer_flush(self._pointer))

    @named_options()
    def fit(self, batches: Union[Loader, Dataset, Mapping[str, Any]], epochs: int = 1,
            callbacks: Optional[Callbacks] = None, *, start: tuple[int, int] = (0, 0),
            validation_data: Union[Loader, Dataset, Mapping[str, Any], None] = None, patience: int = 0,
            min_delta: float = 0.0, restore_best_weights: bool = True,
            logdir: Optional[PathLike] = None, verbose: Verbose = "auto") -> History:
        """Train until `epochs` passes over the batches are complete, from the position `start` (epoch, batch), such as
        the position of a checkpoint. A Dataset, or arrays by name, give batches of
        64 examples, or of all if they are fewer. Micro-batches that are left at the end of an epoch make one
        update.

        callbacks: functions of the epoch (from 0) and its means by name, as History has them; training ends where one
        returns True. validation_data: evaluated after each epoch.
        patience: training ends after so many epochs in a row whose validation loss is not lower by more than min_delta;
        0: never.
        logdir: a folder for an event file, which TensorBoard shows.
        restore_best_weights: with validation data leave the values of the epoch with the lowest loss; parameter servers
        keep the last ones.
        verbose: 0 nothing, 1 a bar, 2 a line for each epoch; "auto" a bar where stderr is a terminal, and in notebooks.
        """
        if epochs < 1:
            raise ArgumentError(f"epochs is {epochs}: at least 1")
        if not isinstance(batches, Loader):
            batches = Dataset._of(batches)._in_batches()
        held_out = None if validation_data is None else _unshuffled(validation_data, batches)
        stopping = _EarlyStopping(self, patience, min_delta, restore_best_weights, held_out is not None)
        log = None if logdir is None else EventFile(logdir)
        history, progress = History(), Progress(verbose, epochs, len(batches))
        compiling.append(progress.compiling)
        try:
            is_over = False
            for epoch in range(start[0], epochs):
                logs = self._epoch(batches, epoch, start[1] if epoch == start[0] else 0, progress)
                if held_out is not None:
                    logs.update(self._evaluate_all(held_out).logs("val_"))
                    is_over = stopping.observe(epoch, logs["val_loss"])
                    history.best_epoch = stopping.best_epoch
                history.add(epoch, logs)
                if log is not None:
                    log.scalars(self.steps, tags(logs))
                    log.flush()
                progress.epoch(epoch, logs)
                if any([callback(epoch, dict(logs)) is True for callback in listed(callbacks)]) or is_over:
                    break
            progress.ended(stopping.restore())
        finally:
            compiling.remove(progress.compiling)
            stopping.close()
            progress.close()
            if log is not None:
                log.close()
        return history

    def _epoch(self, batches: Loader, epoch: int, first: int, progress: Progress) -> dict[str, float]:
        """Train the batches of an epoch from the first one on; returns the means."""
        means, done = Means(), first
        self._drop_results()
        for result, count, examples in self._pass(batches.epoch(epoch, first)):
            means.add(result.loss, result.reports, examples)
            done += count
            progress.batch(epoch, done, means.logs())
        return means.logs()

    def _evaluate_all(self, batches: Loader) -> Means:
        means = Means()
        for batch in batches.epoch():
            result = self.evaluate(batch)
            means.add(result.loss, result.reports, batch.count)
        return means

    def _drop_results(self) -> None:
        """Of earlier steps."""
        while True:
            try:
                if self.result() is None:
                    return
            except NonFiniteError:
                pass

    def _pass(self, batches: Iterator[HostBatch]) -> Iterator[tuple[StepResult, int, int]]:
        """Steps on batches; gives all results, each with the numbers of its batches and examples."""
        in_run, ahead = self.strategy.steps_per_run, self.prefetch
        sizes: deque[int] = deque()  # of batches that are fed
        collected: list[int] = []  # sizes of micro-batches without an update
        begun: deque[tuple[int, int]] = deque()  # batches and examples of the results to come

        def note(size: Optional[int] = None) -> None:
            """A step was begun. Only an update has a result."""
            collected.extend(() if size is None else (size,))
            if lib.copse_trainer_accumulated(self._pointer) == 0:
                begun.append((len(collected), sum(collected)))
                collected.clear()

        def take(most: int) -> Iterator[tuple[StepResult, int, int]]:
            """What is complete; waits until `most` are left."""
            while begun and (result := self.result(wait=len(begun) > most)) is not None:
                yield (result, *begun.popleft())

        def run() -> Iterator[tuple[StepResult, int, int]]:
            yield from take(in_run)  # the results of two runs are kept
            self.run()
            while sizes:
                note(sizes.popleft())

        def step(batch: Any, size: int) -> Iterator[tuple[StepResult, int, int]]:
            yield from take(lib.COPSE_STEPS_IN_PROGRESS - 1)  # one more would drop a result
            self._loss.check(lib.copse_trainer_step(self._pointer, batch))
            note(size)

        for batch in batches:
            if in_run > 1:
                if len(sizes) == in_run or (sizes and batch.count != sizes[0]):  # batches of a run have one size
                    yield from run()
            elif ahead and len(sizes) == ahead:
                yield from step(ffi.NULL, sizes.popleft())
            if in_run > 1 or ahead:
                self.feed(batch)
                sizes.append(batch.count)
            else:
                yield from step(batch._batch, batch.count)
        if in_run > 1 and sizes:
            yield from run()
        while sizes:
            yield from step(ffi.NULL, sizes.popleft())
        if collected:
            yield from take(lib.COPSE_STEPS_IN_PROGRESS - 1)
            self.flush()
            note()
        yield from take(0)

    def save(self, path: PathLike) -> None:
        """Write every variable as safetensors."""
        check(lib.copse_trainer_save(self._pointer, c_string(path)))

    def checkpoint(self, path: PathLike, *, epoch: int = 0, batch: int = 0) -> None:
        """Write everything that a run needs to continue, and the position in the data."""
        params = ffi.new("struct copse_state_params *", {"position": {"epoch": epoch, "batch": batch}})
        check(lib.copse_trainer_checkpoint(self._pointer, c_string(path), params))

    def restore(self, path: PathLike) -> tuple[int, int]:
        """Restore a checkpoint; returns epoch and batch of the position in the data."""
        position = ffi.new("struct copse_position *")
        check(lib.copse_trainer_restore(self._pointer, c_string(path), position, ffi.NULL))
        return position.epoch, position.batch

    @named_options()
    def load(self, path: PathLike, *, layout: Layout = "auto", is_exact: bool = False,
             needs_all: bool = False, choose: Optional[Callable[[str], bool]] = None) -> Loaded:
        """Set variables from a safetensors file, by name. layout: "torch" transposes the matrices of torch.nn.Linear.
        is_exact: refuse float64 and float16 instead of converting them. needs_all: refuse a file that lacks a variable.
        choose: a function of the name of a variable. If it returns False, the variable keeps its values: for example the
        last layer of a model for other classes, whose array in the file has another shape."""
        left_out = {v.name for v in self.strategy.variables() if choose and not choose(v.name)}
        callback = ffi.callback("copse_load_choice_fn", lambda _user, _file, name: text(name) not in left_out)
        params = ffi.new("struct copse_load_params *", {
            "layout": choice("the layout", layout, LAYOUTS), "is_exact": is_exact, "needs_all": needs_all,
            "choose": callback if left_out else ffi.NULL})
        found = ffi.new("struct copse_load_report *")
        check(lib.copse_trainer_load(self._pointer, c_string(path), params, found))
        return Loaded._of(found)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within a `with` statement the variables have their moving averages: evaluate, predict and save with them. Training
        goes on behind it with the same bits. Needs the option `average`."""
        self._loss.check(lib.copse_trainer_average_begin(self._pointer))
        try:
            yield
        finally:
            self._loss.check(lib.copse_trainer_average_end(self._pointer))

    def slot(self, variable: Variable, name: str) -> np.ndarray:
        """An optimizer slot of a variable, such as "m", or "average" for the moving average."""
        out = np.empty(variable.shape, np.float32)
        check(lib.copse_trainer_slot(self._pointer, variable._pointer, c_string(name), ffi.from_buffer("float[]", out)))
        return out

    def hashes(self) -> dict[str, int]:
        """Hashes of the variables after the newest step, by name; "" has the hash of all. Equal bits have equal hashes."""
        out = ffi.new("struct copse_trainer_hashes *")
        self._loss.check(lib.copse_trainer_hash(self._pointer, out))
        return {"": out.all} | {text(out.variables[i].name): out.variables[i].hash for i in range(out.count)}

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
        if not isinstance(batch, HostBatch):
            raise ArgumentError(f"a batch is {type(batch).__name__}: use arrays by name, or a batch of a Loader")
        return batch._batch, batch


def _unshuffled(data: Union[Loader, Dataset, Mapping[str, Any]], like: Loader) -> Loader:
    """Batches for evaluations; batches of a data set have the size of the batches that train."""
    return data if isinstance(data, Loader) else Dataset._of(data)._in_batches(like.batch, shuffle=False)


def _result(r: Any) -> StepResult:
    reports = {text(r.report_names[i]): r.reports[i] for i in range(r.report_count)}
    return StepResult(step=r.step, loss=r.loss, reports=reports, is_skipped=bool(r.is_skipped),
                      loss_scale=r.loss_scale)
