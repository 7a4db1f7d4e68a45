# SPDX-License-Identifier: MIT
"""Functions on replicas: the custom training loop of tf.distribute."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

from . import ops
from ._library import Guard, c_string, check, choice, ffi, lib, owned
from .errors import ArgumentError, ContextError
from .strategy import Strategy, Variable
from .tensor import Tensor
from .values import Structure, Value, _shared, leaves, mapped, pack, unpack

OPERATIONS = {"sum": lib.COPSE_REDUCE_SUM, "mean": lib.COPSE_REDUCE_MEAN}
_here = threading.local()


class _Inputs:
    """Symbolic inputs of a call, in the structure of its arguments."""

    def __init__(self, scope: Any, pointer: Any) -> None:
        self.scope, self.pointer = scope, pointer

    def tensor(self, name: str, leaf: Any) -> Any:
        if isinstance(leaf, Variable):
            return leaf
        result = lib.copse_input(self.pointer, c_string(name))
        check(lib.copse_graph_status(self.scope.graph))
        return Tensor(self.scope, result)


class Function:
    """A function of tensors that computes on devices. It is called with values, arrays, variables and structures of them, and
    gives values; in it they are tensors, and it may use every op, `ops.gradients` and `ops.update`. It is recorded once for
    each replica and for the types and shapes of its arguments, so Python's own code in it runs only then.

    In a function of Strategy.run it computes on the replica's device; in a scope with per-replica arguments on all replicas,
    as Strategy.map does; else in a scope on the first replica."""

    def __init__(self, function: Callable[..., Structure]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "function")
        self.__doc__ = function.__doc__
        self._recorded: dict[Any, "_Recorded"] = {}

    def __call__(self, *args: Structure, **kwargs: Structure) -> Structure:
        strategy = current_strategy()
        if replica_context() is None and any(
                isinstance(v, Value) and v.kind == "per_replica" for _, v in leaves([args, kwargs])):
            return strategy.map(self, *args, **kwargs)
        return self._of(args, kwargs).call(strategy, lib.copse_call, args, kwargs)

    def _of(self, args: tuple, kwargs: Mapping[str, Structure]) -> "_Recorded":
        """What is recorded for arguments of this structure. Variables are a part of it: they are not copied."""
        form = (_form(args), _form(kwargs))
        if form not in self._recorded:
            self._recorded[form] = _Recorded(self.function, args, kwargs)
        return self._recorded[form]


def function(f: Callable[..., Structure]) -> Function:
    """Decorator: see Function."""
    return Function(f)


def _form(x: Structure) -> Any:
    if isinstance(x, Mapping):
        return ("dict", tuple((k, _form(v)) for k, v in x.items()))
    if isinstance(x, (list, tuple)):
        return (type(x).__name__, tuple(_form(v) for v in x))
    return x._pointer if isinstance(x, Variable) else None


class _Recorded(Guard):
    """One function and one structure of arguments, as a function of C."""

    def __init__(self, f: Callable[..., Structure], args: tuple, kwargs: Mapping[str, Structure]) -> None:
        super().__init__()
        self.function = f
        # the structure of the arguments; of the leaves only variables are kept
        self.arguments = mapped([args, kwargs], lambda path, leaf: leaf if isinstance(leaf, Variable) else None)
        self.result: Any = None  # the structure of what it returns
        self.pointer = ffi.callback("copse_call_fn", lambda graph, batch, _user: self.build(
            graph, self._build, graph, batch))

    def _build(self, graph: Any, batch: Any) -> Any:
        with ops.building(graph) as scope:
            inputs = _Inputs(scope, batch)
            args, kwargs = mapped(self.arguments, inputs.tensor)
            result = self.function(*args, **kwargs)
            self.result = mapped(result, lambda path, leaf: None)
            if isinstance(result, (Tensor, Variable)):
                return ops._pointer(result)
            for name, leaf in leaves(result) if result is not None else ():
                lib.copse_output(scope.graph, c_string(name), ops._pointer(leaf))
                check(lib.copse_graph_status(scope.graph))
            return ffi.NULL

    def call(self, strategy: Strategy, compute: Callable[..., int], args: tuple,
             kwargs: Mapping[str, Structure]) -> Structure:
        packed = pack([list(args), dict(kwargs)]) if args or kwargs else ffi.NULL
        strategy._functions.add(self)
        out = ffi.new("copse_value **")
        self.check(compute(self.pointer, ffi.NULL, packed, out))
        got = _taken(out, strategy)
        if self.result is None:
            return got
        return mapped(self.result, lambda path, _: got[path])


# ---- contexts ----

def current_strategy() -> Strategy:
    """The strategy in whose scope, or in whose replica, the thread is."""
    strategy = getattr(_here, "strategy", None)
    if strategy is None:
        raise ContextError("the thread is in no scope of a strategy: use `with strategy.scope():`")
    return strategy


@contextmanager
def _entered(strategy: Strategy, replica: Optional["ReplicaContext"]) -> Iterator[None]:
    before = getattr(_here, "strategy", None), getattr(_here, "replica", None)
    _here.strategy, _here.replica = strategy, replica
    try:
        yield
    finally:
        _here.strategy, _here.replica = before


@contextmanager
def scope(strategy: Strategy) -> Iterator[Strategy]:
    check(lib.copse_scope_enter(strategy._pointer))
    try:
        with _entered(strategy, None):
            yield strategy
    finally:
        check(lib.copse_scope_leave(strategy._pointer))


class ReplicaContext:
    """A replica during the call of a function by Strategy.run."""

    def __init__(self, strategy: Strategy, pointer: Any, run: "_Run") -> None:
        self.strategy, self._pointer, self._run = strategy, pointer, run

    @property
    def replica_id(self) -> int:
        """Among the replicas of all workers, from 0."""
        return lib.copse_replica_id(self._pointer)

    @property
    def replicas(self) -> int:
        return lib.copse_replica_count(self._pointer)

    @property
    def device(self) -> str:
        return ffi.string(lib.copse_replica_device(self._pointer)).decode()

    def all_reduce(self, op: str, x: Structure) -> Structure:
        """The sum or mean over all replicas, which must all call it."""
        out = ffi.new("copse_value **")
        self._run.check(lib.copse_replica_all_reduce(self._pointer, choice("the operation", op, OPERATIONS), pack(x), out))
        return _taken(out, self.strategy)

    def merge_call(self, f: Callable[..., Structure], args: Sequence[Structure] = ()) -> Structure:
        """Meet the other replicas: `f(strategy, *args)` runs once, with the arguments of all as per-replica values; each
        replica gets its part of the result."""
        def merge(_st: Any, given: Any, count: int, _user: Any, result: Any) -> int:
            def body() -> None:
                with _entered(self.strategy, None):
                    _give(f(self.strategy, *(unpack(_shared(given[i]), self.strategy) for i in range(count))), result)
            return self._run.run(body)

        pointer = ffi.callback("copse_merge_fn", merge)
        packed = [pack(a) for a in args]
        out = ffi.new("copse_value **")
        self._run.check(lib.copse_merge_call(self._pointer, pointer, packed or ffi.NULL, len(packed), ffi.NULL, out))
        return _taken(out, self.strategy)


def replica_context() -> Optional[ReplicaContext]:
    """The replica that the thread is in, or None."""
    return getattr(_here, "replica", None)


def _taken(out: Any, strategy: Strategy) -> Structure:
    if not out[0]:
        return None
    return unpack(owned("value", out[0]), strategy)


def _give(x: Structure, result: Any) -> None:
    result[0] = ffi.NULL if x is None else lib.copse_value_retain(pack(x))


class _Run(Guard):
    """One call of Strategy.run."""

    def __init__(self, strategy: Strategy, f: Callable[..., Structure], names: Sequence[str]) -> None:
        super().__init__()
        self.strategy, self.function, self.names = strategy, f, names
        self.pointer = ffi.callback("copse_replica_fn", self._replica)

    def _replica(self, rc: Any, args: Any, count: int, _user: Any, result: Any) -> int:
        def body() -> None:
            given = [unpack(_shared(args[i]), self.strategy) for i in range(count)]
            positional = given[:count - len(self.names)]
            with _entered(self.strategy, ReplicaContext(self.strategy, rc, self)):
                _give(self.function(*positional, **dict(zip(self.names, given[len(positional):]))), result)
        return self.run(body)


def run(strategy: Strategy, f: Callable[..., Structure], args: Sequence[Structure] = (),
        kwargs: Optional[Mapping[str, Structure]] = None) -> Structure:
    kwargs = kwargs or {}
    packed = [pack(a) for a in (*args, *kwargs.values())]
    call = _Run(strategy, f, list(kwargs))
    out = ffi.new("copse_value **")
    call.check(lib.copse_strategy_run(strategy._pointer, call.pointer, packed or ffi.NULL, len(packed), ffi.NULL, out))
    return _taken(out, strategy)


def map_all(strategy: Strategy, f: Callable[..., Structure], args: tuple, kwargs: Mapping[str, Structure]) -> Structure:
    if not isinstance(f, Function):
        raise ArgumentError("Strategy.map takes a function that @copse.function decorates")
    return f._of(args, kwargs).call(strategy, lambda *a: lib.copse_strategy_map(strategy._pointer, *a), args, kwargs)


def reduce(strategy: Strategy, op: str, x: Structure, axis: Optional[int] = None) -> Structure:
    out = ffi.new("copse_value **")
    place = ffi.NULL if axis is None else ffi.new("int *", axis)
    check(lib.copse_strategy_reduce(strategy._pointer, choice("the operation", op, OPERATIONS), pack(x), place, out))
    return _taken(out, strategy)
