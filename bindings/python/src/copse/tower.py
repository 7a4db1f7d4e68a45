# SPDX-License-Identifier: MIT
"""Tower optimizers: gradients of all replicas, handed over by separate calls, update the variables."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from ._library import Guard, c_string, check, choice, ffi, lib, make, owned, text
from ._names import check_names, named_options
from .errors import ArgumentError
from .options import Averaging, Optimizer, OptimizerOptions, OptimizerSettings
from .replica import Call, Signatures, check_in_run
from .strategy import Strategy, Variable
from .trainer import LOSS_REDUCTIONS, Rate, Rule
from .values import Structure, Value, value, wrapped

if TYPE_CHECKING:
    from typing_extensions import Unpack

Pair = tuple[Optional[Value], Variable]


class TowerOptimizer:
    """An optimizer whose gradients come from calls: in a function of Strategy.run each replica hands over its own, and
    nothing changes until all replicas have; in a scope or a merge call one call hands over the gradients of all replicas.
    Then they are summed and the variables are updated once. A strategy may have several, with slots of their own.

    optimizer: a name as for a Trainer, or a function without arguments that gives a dictionary of settings ("optimizer",
    "learning_rate", and options), which is called at the first use.
    reduction: "mean": of N replicas each loss is divided by N before it is differentiated; "sum": it is not.
    name: of its slots in checkpoints. options: as for a Trainer, such as clip_global_norm=1.0.
    """

    @named_options(OptimizerOptions)
    def __init__(self, strategy: Strategy, optimizer: Union[Optimizer, Callable[[], OptimizerSettings]] = "adam", *,
                 learning_rate: Rate = 0.0, reduction: Averaging = "mean", seed: int = 0, name: Optional[str] = None,
                 groups: str = "", **options: Unpack[OptimizerOptions]) -> None:
        self.strategy, self.reduction = strategy, reduction
        self._guard = Guard()
        self._rule: Optional[Rule] = None
        self._signatures = Signatures()
        self._is_handed = False  # gradients were handed over since the last end of a step
        key = c_string(name)
        settings: dict[str, Any] = {"reduction": choice("the reduction", reduction, LOSS_REDUCTIONS), "seed": seed, "name": key}
        factory = None
        if isinstance(optimizer, str):
            self._rule = Rule(self._guard, optimizer, learning_rate, groups, options)
            settings["optimizer"] = self._rule.params[0]
        else:
            if learning_rate or groups or options:
                raise ArgumentError("a function gives the optimizer: it gives learning_rate, groups and options, too")
            factory = ffi.callback("copse_optimizer_factory_fn",
                                   lambda _user, out: self._guard.run(self._make_rule, optimizer, out))
            settings["factory"] = factory
        self._pointer = make("tower", lib.copse_tower_create, strategy._pointer, ffi.new("struct copse_tower_params *", settings),
                             keep=(factory, self._rule))
        strategy._towers.add(self)
        if strategy.cluster is not None:
            strategy.cluster._use(self)

    def close(self) -> None:
        """Release it; afterwards calls on it fail. Gradients that wait for other replicas are dropped."""
        pointer, self._pointer = self._pointer, ffi.NULL
        if pointer:
            ffi.release(pointer)

    def _make_rule(self, factory: Callable[[], OptimizerSettings], out: Any) -> None:
        given: dict[str, Any] = {"optimizer": "adam", "learning_rate": 0.0, "groups": "", **factory()}
        check_names("TowerOptimizer", given, OptimizerSettings.__annotations__)
        self._rule = Rule(self._guard, given.pop("optimizer"), given.pop("learning_rate"), given.pop("groups"), given)
        out[0] = self._rule.params[0]

    # ---- gradients ----

    def compute_gradients(self, loss: Callable[..., Any], args: Sequence[Structure] = (), *,
                          variables: Optional[Iterable[Variable]] = None,
                          kwargs: Optional[Mapping[str, Structure]] = None, grad_loss: Any = None) -> list[Pair]:
        """In a replica: the gradients of `loss(*args, **kwargs)`, a function over ops as for @copse.function that gives a
        scalar, by variables (None: all that are trained), as pairs (gradient, variable). A gradient is None where the loss
        does not depend on the variable. Give the same function in each step: it is recorded once for each replica and
        signature. grad_loss: the derivative of what follows a loss of any shape by it."""
        return self._compute(loss, args, variables, kwargs, grad_loss)[0]

    def _compute(self, loss: Callable[..., Any], args: Sequence[Structure], variables: Optional[Iterable[Variable]],
                 kwargs: Optional[Mapping[str, Structure]], grad_loss: Any) -> tuple[list[Pair], Value]:
        chosen = self._trained() if variables is None else list(variables)
        pairs = ffi.new("struct copse_tower_gradient[]", [{"variable": v._pointer} for v in chosen])
        result = ffi.new("copse_value **")
        call = Call(loss, self._signatures, self.strategy, [tuple(args), dict(kwargs or {})])
        inputs, derivative = call.inputs(), ffi.NULL if grad_loss is None else value(grad_loss)._pointer
        of = ffi.new("struct copse_tower_loss *", {
            "loss": call.pointer, "user": call.signature.key, "x": inputs, "grad_loss": derivative})
        status = call.do(lib.copse_tower_compute, self._pointer, of, pairs, len(chosen), result)
        if call.error is not None:
            call.check(status)
        self._check(status)
        gradients = [wrapped(owned("value", p.gradient)) if p.gradient else None for p in pairs]
        return list(zip(gradients, chosen)), wrapped(owned("value", result[0]))

    def _trained(self) -> list[Variable]:
        return [v for v in self.strategy.variables() if v.is_trained]

    def apply_gradients(self, pairs: Iterable[tuple[Any, Variable]], *, moves_step: bool = True) -> None:
        """Hand gradients over, None for no gradient: in a replica its own, in a scope or a merge call those of all replicas,
        as per-replica values. moves_step: the update adds 1 to the global step of the strategy."""
        listed = [(None if g is None else value(g), v) for g, v in pairs]
        given = ffi.new("struct copse_tower_gradient[]", [
            {"gradient": ffi.NULL if g is None else g._pointer, "variable": v._pointer} for g, v in listed])
        if self._rule is None:
            _ = self.kind  # makes the rule: its schedule may raise now, before anything has changed
        if self._rule is not None and self._rule.schedule is not None:
            self._rule.schedule.prepare(self.steps + 1)
        self._is_handed = True
        self._check(lib.copse_tower_apply(self._pointer, given, len(listed), moves_step))
        if self.strategy._runs == 0:
            self._end_run(True)

    def minimize(self, loss: Callable[..., Any], args: Sequence[Structure] = (), *,
                 variables: Optional[Iterable[Variable]] = None, kwargs: Optional[Mapping[str, Structure]] = None,
                 grad_loss: Any = None, moves_step: bool = True) -> Value:
        """In a replica: compute_gradients and apply_gradients; returns the loss, from before the update."""
        pairs, result = self._compute(loss, args, variables, kwargs, grad_loss)
        self.apply_gradients(pairs, moves_step=moves_step)
        return result

    def _end_run(self, is_done: bool) -> None:
        """End the step: all replicas must have made the same calls. What a failed run has left is dropped."""
        if not self._is_handed or not self._pointer:
            return
        self._is_handed = False
        status = lib.copse_tower_finish(self._pointer)
        if is_done:
            check(status)

    def _check(self, status: int) -> None:
        if self._guard.error is not None:  # of a schedule or a factory
            error, self._guard.error = self._guard.error, None
            raise error
        check_in_run(status)

    # ---- state ----

    @property
    def kind(self) -> str:
        """Name of the update rule, such as "adam"; a first use."""
        out = ffi.new("const char **")
        self._check(lib.copse_tower_name(self._pointer, out))
        return text(out[0])

    @property
    def steps(self) -> int:
        """Updates so far."""
        return lib.copse_tower_steps(self._pointer)

    @property
    def loss_scale(self) -> float:
        """Factor of the gradients that compute_gradients gives and apply_gradients takes; 0: they are not scaled."""
        return lib.copse_tower_loss_scale(self._pointer)

    @property
    def is_skipped(self) -> bool:
        """Whether the newest update was skipped, because a sum of scaled gradients was not finite."""
        return bool(lib.copse_tower_is_skipped(self._pointer))

    @property
    def slot_names(self) -> list[str]:
        names, count = ffi.new("const char *const **"), ffi.new("size_t *")
        self._check(lib.copse_tower_slot_names(self._pointer, names, count))
        return [text(names[0][i]) for i in range(count[0])]

    def slot(self, variable: Variable, name: str) -> Optional[Value]:
        """Outside of replicas: a slot of a variable, such as "m"; None where the rule has none of the name, or the variable was
        not updated yet."""
        out = ffi.new("copse_value **")
        check(lib.copse_tower_slot(self._pointer, variable._pointer, c_string(name), out))
        return wrapped(owned("value", out[0])) if out[0] else None


def global_step(strategy: Strategy) -> int:
    """Updates that tower optimizers and train steps have counted for a strategy."""
    return lib.copse_global_step(strategy._pointer)
