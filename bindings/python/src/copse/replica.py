# SPDX-License-Identifier: MIT
"""Functions on replicas: the custom training loop of tf.distribute."""
from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import numpy as np

from . import ops
from ._library import Guard, SharedGuard, c_string, check, choice, ffi, lib, owned, text
from .errors import ArgumentError, ContextError, Error, ShapeError
from .options import Averaging
from .strategy import Strategy, Variable
from .tensor import Tensor
from .values import PerReplica, Structure, Value, _shared, alike, is_array, leaves, mapped, pack, unpack, value

OPERATIONS = {"sum": lib.COPSE_REDUCE_SUM, "mean": lib.COPSE_REDUCE_MEAN}
SIGNATURES = 64  # of a function that are remembered
_here = threading.local()
_keys = itertools.count(1)  # of recordings; never used again
_TENSOR = object()  # in place of tensors in a structure


class Function:
    """A function of tensors that computes on devices. It is called with values, arrays, variables and structures of them, and
    gives values; in it they are tensors, and it may use every op, `gradients` and `ops.update`. None, texts and other
    objects of Python are given to it as they are. It is recorded once for each replica, for the types and shapes of its
    arguments, and for its variables and objects, so Python's own code in it runs only then.

    In a function of Strategy.run it computes on the replica's device; in a scope with per-replica arguments on all replicas,
    as Strategy.map does; else in a scope on the first replica. A call in another function of this kind is a part of that one."""

    def __init__(self, function: Callable[..., Structure]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "function")
        self.__doc__ = function.__doc__
        self._signatures = Signatures()

    def __call__(self, *args: Structure, **kwargs: Structure) -> Structure:
        if ops.is_building():
            return self.function(*args, **kwargs)
        strategy = current_strategy()
        if replica_context() is None and any(isinstance(v, PerReplica) for _, v in leaves([args, kwargs])):
            return strategy.map(self, *args, **kwargs)
        return self._compute(strategy, lib.copse_call, args, kwargs)

    def _compute(self, strategy: Strategy, compute: Callable[..., int], args: tuple,
                 kwargs: Mapping[str, Structure]) -> Structure:
        call, out = Call(self.function, self._signatures, strategy, [args, dict(kwargs)]), ffi.new("copse_value **")
        call.check(call.do(compute, call.pointer, call.signature.key, call.inputs(), out))
        got = _taken(out, strategy)
        return mapped(call.signature.result(strategy, compute is not lib.copse_call), lambda path, leaf: leaf
                      if leaf is not _TENSOR else got[path] if isinstance(got, Mapping) else got)


def function(f: Callable[..., Structure]) -> Function:
    """Decorator: see Function."""
    return Function(f)


def _form(x: Structure) -> Any:
    """What a recording depends on: structure, types and shapes, which variables, which objects of Python."""
    if isinstance(x, Mapping):
        return ("dict", tuple((k, _form(v)) for k, v in x.items()))
    if isinstance(x, (list, tuple)):
        return (type(x), tuple(_form(v) for v in x))
    if isinstance(x, Variable):
        return ("variable", x.strategy._serial, x._pointer)
    if isinstance(x, PerReplica):
        return tuple((c.dtype, c.shape) if isinstance(c, Value) else c for c in x)
    return (x.dtype, x.shape) if isinstance(x, Value) else ("object", x)


class _Signature:
    """Arguments of one form: the key of their recordings in the library, and the structures that they give, by replica."""

    def __init__(self) -> None:
        self.key = ffi.cast("void *", next(_keys))
        self.results: dict[int, Structure] = {}

    def result(self, strategy: Strategy, is_map: bool) -> Structure:
        """The structure that a computation has given."""
        if not is_map:
            return self.results[_rank(strategy)]
        first = lib.copse_strategy_first_rank(strategy._pointer)
        here = [self.results[first + i] for i in range(strategy.replicas)]
        for i, other in enumerate(here):
            if other != here[0]:
                raise ShapeError(f"the function returned other structures on replicas {first} and {first + i}")
        return here[0]


def _rank(strategy: Strategy) -> int:
    """Of the replica on which a call of this thread computes, among those of all workers."""
    context = replica_context()
    if context is not None:
        return context.replica_id
    updated = lib.copse_current_update_rank()
    return lib.copse_strategy_first_rank(strategy._pointer) + (0 if updated == lib.COPSE_HOST else updated)


class Signatures:
    """Those of functions that were called, the newest ones."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, _Signature] = OrderedDict()

    def find(self, f: Callable[..., Structure], form: Any) -> _Signature:
        try:
            found = self._known.setdefault((f, form), _Signature())
        except TypeError:
            raise ArgumentError(f"an argument of {getattr(f, '__name__', 'the function')} cannot be a part of its signature: "
                                "use arrays, numbers, variables, structures of them, or keys of dictionaries") from None
        self._known.move_to_end((f, form))
        if len(self._known) > SIGNATURES:
            self._known.popitem(last=False)
        return found


class Call(Guard):
    """One call of a function; while it lasts the library may ask for the graph."""

    def __init__(self, f: Callable[..., Structure], signatures: Signatures, strategy: Strategy, given: Structure) -> None:
        super().__init__()
        self.function, self.pointer = f, _build_graph
        self.given = mapped(given, lambda _path, leaf: value(leaf) if is_array(leaf) else leaf)
        self.signature = signatures.find(f, (strategy._serial, _form(self.given)))

    def inputs(self) -> Any:
        """Arrays and variables as a structure of C; other arguments are not its business."""
        found = {path: leaf for path, leaf in leaves(self.given) if isinstance(leaf, (Value, Variable))}
        return pack(found) if found else ffi.NULL

    def do(self, compute: Callable[..., int], *arguments: Any) -> int:
        """Call the library, which may ask for the graph meanwhile."""
        before = getattr(_here, "call", None)
        _here.call = self
        try:
            return compute(*arguments)
        finally:
            _here.call = before

    def record(self, graph: Any, batch: Any) -> Any:
        with ops.building(graph) as scope:
            scope.batch = batch

            def tensor(path: str, leaf: Any) -> Any:
                if not isinstance(leaf, Value):
                    return leaf
                result = lib.copse_input(batch, c_string(path))
                check(lib.copse_graph_status(graph))
                return Tensor(scope, result)

            args, kwargs = mapped(self.given, tensor)
            result = mapped(self.function(*args, **kwargs), lambda _path, leaf: (
                ops.constant(leaf) if is_array(leaf) else leaf))
            self.signature.results[batch.replica] = mapped(result, lambda _path, leaf: (
                _TENSOR if isinstance(leaf, (Tensor, Variable)) else leaf))
            if isinstance(result, (Tensor, Variable)):
                return ops._pointer(result)
            for name, leaf in leaves(result):
                if isinstance(leaf, (Tensor, Variable)):
                    lib.copse_output(graph, c_string(name), ops._pointer(leaf))
                    check(lib.copse_graph_status(graph))
            return ffi.NULL


@ffi.callback("copse_call_fn")
def _build_graph(graph: Any, batch: Any, _user: Any) -> Any:
    call = _here.call
    return call.build(graph, call.record, graph, batch)


# ---- contexts ----

def has_strategy() -> bool:
    """Whether the thread is in a scope or in a replica of a strategy."""
    return getattr(_here, "strategy", None) is not None


def current_strategy() -> Strategy:
    """The strategy in whose scope, or in whose replica, the thread is."""
    strategy = getattr(_here, "strategy", None)
    if strategy is None:
        raise ContextError("the thread is in no scope of a strategy: use `with strategy.scope():`")
    return strategy


def in_cross_replica_context() -> bool:
    """Whether the thread sees all replicas of a strategy: in its scope, in a merge call or in an update."""
    return has_strategy() and replica_context() is None


def replica_context() -> Optional["ReplicaContext"]:
    """The replica that the thread is in, or None."""
    return getattr(_here, "replica", None)


def require_replica_context(context: "ReplicaContext") -> None:
    """Raise ContextError unless the thread is in this replica."""
    check(lib.copse_require_replica(context._pointer))


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
    """A replica during the call of a function by Strategy.run; afterwards it is refused."""

    def __init__(self, strategy: Strategy, pointer: Any, run: "_Run") -> None:
        self.strategy, self._pointer, self._run = strategy, pointer, run
        self._variables = 0  # without a name, that it has made

    @property
    def replica_id(self) -> int:
        """Among the replicas of all workers, from 0."""
        return lib.copse_replica_id(self._known)

    @property
    def replicas(self) -> int:
        """Of all workers."""
        return lib.copse_replica_count(self._known)

    @property
    def device(self) -> str:
        return text(lib.copse_replica_device(self._known))

    @property
    def _known(self) -> Any:
        if lib.copse_replica_count(self._pointer) == 0:
            raise ContextError("the function of the replica has returned: its context is over")
        return self._pointer

    def all_reduce(self, op: Averaging, x: Structure) -> Structure:
        """The sum or mean over all replicas, which must all call it."""
        out = ffi.new("copse_value **")
        self._run.meet(lib.copse_replica_all_reduce(
            self._pointer, choice("the operation", op, OPERATIONS), pack(x), out))
        return alike(_taken(out, self.strategy), x)

    def all_gather(self, x: Structure, axis: int) -> Structure:
        """The components of all replicas one after another along an axis; all must call it."""
        return self.merge_call(lambda strategy, parts: strategy.gather(parts, axis), (x,))

    def merge_call(self, f: Callable[..., Structure], args: Sequence[Structure] = (),
                   kwargs: Optional[Mapping[str, Structure]] = None) -> Structure:
        """Meet the other replicas: `f(strategy, *args, **kwargs)` runs once, with the arguments of all as per-replica values;
        each replica gets its part of the result."""
        run, strategy, names = self._run, self.strategy, list(kwargs or {})
        given = (*args, *(kwargs or {}).values())

        def merge(_st: Any, merged: Any, count: int, _user: Any, result: Any) -> int:
            def body() -> None:
                parts = [alike(unpack(_shared(merged[i]), strategy, run.objects), given[i]) for i in range(count)]
                split = count - len(names)
                with _entered(strategy, None):
                    run.merged = f(strategy, *parts[:split], **dict(zip(names, parts[split:])))
                    run.give(run.merged, result, True)
            return run.run(body)

        pointer = ffi.callback("copse_merge_fn", merge)
        packed = [pack(a, run.objects) for a in given]
        out = ffi.new("copse_value **")
        run.meet(lib.copse_merge_call(self._pointer, pointer, packed or ffi.NULL, len(packed), ffi.NULL, out))
        return alike(_taken(out, strategy, run.objects), run.merged)


def check_in_run(status: int) -> None:
    """Check a call in which replicas may meet."""
    context = replica_context()
    (check if context is None else context._run.meet)(status)


def variable_name() -> str:
    """Of a variable without a name: all replicas give their n-th one the same."""
    context = replica_context()
    if context is None:
        return current_strategy()._free_name()
    names = context._run.variables
    if context._variables == len(names):
        names.append(current_strategy()._free_name())
    context._variables += 1
    return names[context._variables - 1]


def _taken(out: Any, strategy: Strategy, objects: Optional[dict[int, Any]] = None) -> Structure:
    if not out[0]:
        return None
    return unpack(owned("value", out[0]), strategy, objects)


class _Run(SharedGuard):
    """One call of a function for each replica, or for each component of a variable."""

    def __init__(self, strategy: Strategy, f: Callable[..., Structure], args: Sequence[Structure],
                 kwargs: Optional[Mapping[str, Structure]]) -> None:
        super().__init__()
        self.strategy, self.function, self.names = strategy, f, list(kwargs or {})
        self.objects: dict[int, Any] = {}  # of Python, in the library's hands
        self.given = (*args, *(kwargs or {}).values())
        self.packed = [pack(a, self.objects, True) for a in self.given]
        self.variables: list[str] = []  # names of those without a name that replicas made
        self.merged: Structure = None  # what the newest merge call gave
        self.result: Structure = None  # what the function returned first

    def arguments(self, args: Any) -> tuple[list[Structure], dict[str, Structure]]:
        """Those of C as Python's."""
        given = [alike(unpack(_shared(args[i]), self.strategy, self.objects), like) for i, like in enumerate(self.given)]
        split = len(given) - len(self.names)
        return given[:split], dict(zip(self.names, given[split:]))

    def give(self, x: Structure, result: Any, keeps_numbers: bool) -> None:
        result[0] = ffi.NULL if x is None else lib.copse_value_retain(pack(x, self.objects, keeps_numbers))

    def replica(self, rc: Any, args: Any, _count: int, _user: Any, result: Any) -> int:
        def body() -> None:
            with _entered(self.strategy, ReplicaContext(self.strategy, rc, self)):
                self.call(args, result)
        return self.run(body)

    def update(self, _st: Any, target: Any, args: Any, _count: int, _user: Any, result: Any) -> int:
        def body() -> None:
            with _entered(self.strategy, None):
                self.call(args, result, *([unpack(_shared(target), self.strategy)] if target else []))
        return self.run(body)

    def call(self, args: Any, result: Any, *first: Structure) -> None:
        positional, named = self.arguments(args)
        returned = self.function(*first, *positional, **named)
        if self.result is None:
            self.result = returned
        self.give(returned, result, self.strategy.replicas == 1)

    def do(self, kind: str, callback: Callable[..., int], function: Callable[..., int], *place: Any) -> Structure:
        """Call the library's function, whose last arguments are alike."""
        pointer, out = ffi.callback(kind, callback), ffi.new("copse_value **")
        self.check(function(*place, pointer, self.packed or ffi.NULL, len(self.packed), ffi.NULL, out))
        return alike(_taken(out, self.strategy, self.objects), self.result)


def run(strategy: Strategy, f: Callable[..., Structure], args: Sequence[Structure] = (),
        kwargs: Optional[Mapping[str, Structure]] = None) -> Structure:
    call = _Run(strategy, f, args, kwargs)
    strategy._runs += 1
    is_done = False
    try:
        result = call.do("copse_replica_fn", call.replica, lib.copse_strategy_run, strategy._pointer)
        is_done = True
    finally:
        strategy._runs -= 1
        if strategy._runs == 0:
            _end_towers(strategy, is_done)
    return result


def _end_towers(strategy: Strategy, is_done: bool) -> None:
    """All end the run; then the first error is raised."""
    failed: Optional[Error] = None
    for tower in list(strategy._towers):
        try:
            tower._end_run(is_done)
        except Error as e:
            failed = failed or e
    if failed is not None:
        raise failed


def map_all(strategy: Strategy, f: Callable[..., Structure], args: tuple, kwargs: Mapping[str, Structure]) -> Structure:
    if not isinstance(f, Function):
        raise ArgumentError("Strategy.map takes a function that @copse.function decorates")
    return f._compute(strategy, lambda *a: lib.copse_strategy_map(strategy._pointer, *a), args, kwargs)


def update(strategy: Strategy, variable: Variable, f: Callable[..., Structure], args: Sequence[Structure],
           kwargs: Optional[Mapping[str, Structure]]) -> Structure:
    call = _Run(strategy, f, args, kwargs)
    return call.do("copse_update_fn", call.update, lib.copse_strategy_update, strategy._pointer, variable._pointer)


def update_non_slot(strategy: Strategy, replicas: Optional[Sequence[int]], f: Callable[..., Structure],
                    args: Sequence[Structure], kwargs: Optional[Mapping[str, Structure]]) -> Structure:
    call = _Run(strategy, f, args, kwargs)
    ranks = ffi.new("uint32_t[]", list(range(strategy.replicas) if replicas is None else replicas))
    return call.do("copse_update_fn", call.update, lib.copse_strategy_update_non_slot, strategy._pointer, ranks, len(ranks))


def reduce(strategy: Strategy, op: Averaging, x: Structure, axis: Optional[int] = None) -> Structure:
    out = ffi.new("copse_value **")
    place = ffi.NULL if axis is None else ffi.new("int *", axis)
    check(lib.copse_strategy_reduce(strategy._pointer, choice("the operation", op, OPERATIONS), pack(x), place, out))
    return alike(_taken(out, strategy), x)


def _destinations(to: Any) -> Any:
    """A copse_destinations, and what it points to; NULL for all replicas."""
    if to is None:
        return ffi.NULL, None
    if isinstance(to, (Value, Variable)):
        like = pack(to)
        return ffi.new("struct copse_destinations *", {"like": like}), like
    ranks = ffi.new("uint32_t[]", list(to))
    return ffi.new("struct copse_destinations *", {"ranks": ranks, "count": len(ranks)}), ranks


def reduce_to(strategy: Strategy, op: Averaging, x: Structure, to: Any) -> Structure:
    out = ffi.new("copse_value **")
    places, _keep = _destinations(to)
    check(lib.copse_strategy_reduce_to(strategy._pointer, choice("the operation", op, OPERATIONS), pack(x), places, out))
    return alike(_taken(out, strategy), x)


def broadcast(strategy: Strategy, x: Structure, to: Any) -> Structure:
    out = ffi.new("copse_value **")
    places, _keep = _destinations(to)
    check(lib.copse_strategy_broadcast(strategy._pointer, pack(x), places, out))
    return alike(_taken(out, strategy), x)
