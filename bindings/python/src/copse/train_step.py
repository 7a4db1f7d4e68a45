# SPDX-License-Identifier: MIT
"""A train step as one function: losses in, losses out."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Union

from . import ops
from ._library import Guard, choice, c_string, ffi, lib, make, text
from ._names import named_options
from .errors import ArgumentError
from .inputs import Inputs
from .options import Averaging, Optimizer, OptimizerOptions, Precision, StepCount
from .strategy import Strategy, Variable
from .tensor import Tensor, type_of
from .trainer import LOSS_REDUCTIONS, Rate, Rule, Trainer, Transform, _Transform
from .values import Structure, leaves, mapped


if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class TrainStepResult:
    """What a run came to. `losses` has the structure that the function of the losses gave; they and `total` belong to the
    global batch before the update."""

    step: int
    global_step: int
    total: float
    losses: Any
    named: dict[str, float]


class TrainStep:
    """One step of training, which a call runs: hooks, losses, total loss, gradients, transform, update, global step.

    losses: a function of the inputs of one replica, as the loss of a Trainer, that gives a scalar or a structure of scalars.
    total_loss: makes the scalar to minimise of that structure; not needed for one loss.
    counts: "global", the global step of the strategy, or "none".
    update_hooks: functions of the strategy that run before each step; they may read and assign variables. variables, transform,
    check_gradients, accumulate, precision, memory_budget, groups, options: as of a Trainer. skip_numerics: let losses that
    are not finite update the variables.
    """

    @named_options(OptimizerOptions)
    def __init__(self, strategy: Strategy, losses: Callable[[Inputs], Structure], *, optimizer: Optimizer = "adam",
                 learning_rate: Rate = 0.0, total_loss: Optional[Callable[[Structure], Tensor]] = None,
                 update_hooks: Sequence[Callable[[Strategy], None]] = (), variables: Optional[Sequence[Variable]] = None,
                 transform: Optional[Transform] = None, counts: StepCount = "global", seed: int = 0,
                 reduction: Averaging = "mean", skip_numerics: bool = False,
                 check_gradients: bool = False, accumulate: int = 0, precision: Precision = "float32",
                 memory_budget: int = 0, groups: str = "",
                 **options: Unpack[OptimizerOptions]) -> None:
        self.strategy = strategy
        guard = self._guard = Guard()
        rule = Rule(guard, optimizer, learning_rate, groups, options)
        self._structure: Structure = None  # of the losses
        changes = _Transform(transform, strategy, guard) if transform else None
        kept = [ffi.callback("copse_losses_fn", lambda g, batch, _user, out: self._build(losses, g, batch, out))]
        params = ffi.new("struct copse_train_step_params *", {
            "losses": kept[0], "optimizer": rule.params[0], "seed": seed, "skip_numerics": skip_numerics,
            "reduction": choice("the reduction", reduction, LOSS_REDUCTIONS), "check_gradients": check_gradients,
            "transform": changes.pointer if changes else ffi.NULL, "accumulate": accumulate,
            "precision": type_of(precision), "memory_budget": memory_budget,
            "global_step": choice("what counts the steps", counts, {
                "global": lib.COPSE_GLOBAL_STEP_DEFAULT, "none": lib.COPSE_GLOBAL_STEP_NONE})})
        if total_loss is not None:
            kept.append(ffi.callback("copse_total_loss_fn", lambda g, given, _user: guard.build(
                g, self._total, total_loss, g, given)))
            params.total_loss = kept[-1]
        hooks = [ffi.callback("copse_update_hook_fn", lambda _st, _user, h=h: guard.invoke(h, strategy))
                 for h in update_hooks]
        listed = ffi.new("struct copse_update_hook[]", [{"fn": h} for h in hooks])
        chosen = ffi.new("copse_variable *[]", [v._pointer for v in variables or ()])
        if hooks:
            params.update_hooks, params.update_hook_count = listed, len(hooks)
        if variables is not None:
            params.variables, params.variable_count = chosen, len(chosen)
        self._pointer = make("train_step", lib.copse_train_step_create, strategy._pointer, params,
                             keep=(*kept, *hooks, rule, changes))
        if rule.schedule:
            rule.schedule.trainer = lib.copse_train_step_trainer(self._pointer)
        if strategy.cluster is not None:
            strategy.cluster._use(self)

    def close(self) -> None:
        """Release it; afterwards calls on it fail."""
        pointer, self._pointer = self._pointer, ffi.NULL
        if pointer:
            ffi.release(pointer)

    def __call__(self, batch: Union[Mapping[str, Any], Any]) -> Optional[TrainStepResult]:
        """Run a step on a global batch: arrays by name, or a batch of a Loader. None: it was only accumulated."""
        b, _keep = Trainer._batch(batch)
        out = ffi.new("struct copse_train_step_result *")
        self._guard.check(lib.copse_train_step_run(self._pointer, b, out))
        if not out.is_updated:
            return None
        named = {text(out.names[i]): out.losses[i] for i in range(out.loss_count)}
        return TrainStepResult(out.step, out.global_step, out.total,
                               mapped(self._structure, lambda path, _leaf: named[_name(path, named)]), named)

    def _build(self, losses: Callable[[Inputs], Structure], graph: Any, batch: Any, out: Any) -> None:
        def body() -> None:
            with ops.building(graph) as scope:
                given = losses(Inputs(scope, batch))
                named = {("loss" if isinstance(given, (Tensor, Variable)) else path): t for path, t in leaves(given)}
                for name, t in named.items():
                    if not isinstance(t, (Tensor, Variable)):
                        raise ArgumentError(f"the loss '{name}' is {type(t).__name__}, not a Tensor")
                self._structure = mapped(given, lambda path, _leaf: None)
                self._names = [c_string(name) for name in named]
                out.count = len(named)
                for i, t in enumerate(named.values()):
                    out.names[i], out.at[i] = self._names[i], ops._pointer(t)
        self._guard.build(graph, body)

    def _total(self, total_loss: Callable[[Structure], Tensor], graph: Any, given: Any) -> Any:
        with ops.building(graph) as scope:
            named = {text(given.names[i]): Tensor(scope, given.at[i]) for i in range(given.count)}
            total = total_loss(mapped(self._structure, lambda path, _leaf: named[_name(path, named)]))
            if not isinstance(total, (Tensor, Variable)):
                raise ArgumentError(f"the function of the total loss returned {type(total).__name__}, not a Tensor")
            return ops._pointer(total)


def _name(path: str, named: Mapping[str, Any]) -> str:
    """Of the loss at a path; a single one is "loss"."""
    return path if path in named else "loss"
