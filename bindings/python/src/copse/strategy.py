# SPDX-License-Identifier: MIT
"""Strategies and variables."""
from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Mapping, Optional, Sequence, Union, cast

import numpy as np

from ._library import c_string, check, choice, ffi, lib, make, text
from ._names import named_options
from .cluster import Cluster
from .devices import context, select
from .errors import ArgumentError, ContextError, ShapeError, UnsupportedError
from .options import (Aggregation, Averaging, DType, GradientReduction, Initializer, InputPolicy, SplitRule,
                      StrategyKind, Synchronization, Transfer)
from .tensor import Tensor, array, array_of, shape_of, type_of, _NAMES

if TYPE_CHECKING:
    from .data import Loader
    from .distributed import DistributedFunction, DistributedLoader, InputContext, Source, ValueContext
    from .values import Value

INITIALIZERS = {
    name[len("COPSE_INIT_"):].lower(): getattr(lib, name) for name in dir(lib) if name.startswith("COPSE_INIT_")
}
KINDS = {
    name: getattr(lib, f"COPSE_STRATEGY_{name.upper()}")
    for name in ("one_device", "mirrored", "collective", "parameter_server", "accelerator")
}
REDUCTIONS = {
    "auto": lib.COPSE_REDUCE_AUTO, "sharded": lib.COPSE_REDUCE_SHARDED, "tree": lib.COPSE_REDUCE_TREE,
    "to_one": lib.COPSE_REDUCE_TO_ONE,
}
TRANSFERS = {
    "auto": lib.COPSE_TRANSFER_AUTO, "shared": lib.COPSE_TRANSFER_SHARED, "staged": lib.COPSE_TRANSFER_STAGED,
}
SYNCHRONIZATIONS = {
    "auto": lib.COPSE_SYNC_AUTO, "none": lib.COPSE_SYNC_NONE, "on_write": lib.COPSE_SYNC_ON_WRITE,
    "on_read": lib.COPSE_SYNC_ON_READ,
}
AGGREGATIONS = {
    "none": lib.COPSE_AGGREGATION_NONE, "sum": lib.COPSE_AGGREGATION_SUM, "mean": lib.COPSE_AGGREGATION_MEAN,
    "only_first_replica": lib.COPSE_AGGREGATION_ONLY_FIRST_REPLICA,
}


_serials = itertools.count()  # of strategies: addresses come again


class Variable:
    """An array on every replica: trained, or changed by the program. It can be an operand of every op, and has arithmetic as
    values have.

    `Variable(values)` in the scope or in a replica of a strategy makes one as Strategy.variable does, with the type of the
    values: float32, or int32 for whole numbers. It lives as long as its strategy. Without a name it gets "variable",
    "variable_1", ...; all replicas make the same variables in the same order."""

    strategy: "Strategy"
    _pointer: Any
    _owner: Any = None  # a model whose variable it is

    @named_options()
    def __init__(self, values: Any, name: Optional[str] = None, *, dtype: Optional[DType] = None,
                 trainable: bool = True, aggregation: Aggregation = "mean",
                 synchronization: Synchronization = "auto") -> None:
        from . import replica
        strategy = replica.current_strategy()
        a = array(values)
        made = strategy.variable(
            name or replica.variable_name(), values=a, dtype=dtype or ("int32" if a.dtype.kind in "iub" else "float32"),
            trainable=trainable, aggregation=aggregation, synchronization=synchronization)
        self.strategy, self._pointer = strategy, made._pointer

    @classmethod
    def _of(cls, strategy: "Strategy", pointer: Any) -> "Variable":
        made = cls.__new__(cls)
        made.strategy, made._pointer = strategy, pointer
        return made

    @property
    def name(self) -> str:
        return text(lib.copse_variable_name(self._pointer))

    @property
    def shape(self) -> tuple[int, ...]:
        s = lib.copse_variable_shape(self._pointer)
        return tuple(s.dims[i] for i in range(s.rank))

    @property
    def dtype(self) -> DType:
        return cast(DType, _NAMES[lib.copse_variable_type(self._pointer)])

    @property
    def is_trained(self) -> bool:
        return bool(lib.copse_variable_is_trained(self._pointer))

    @property
    def synchronization(self) -> Synchronization:
        """ "on_write" or "on_read". """
        return cast(Synchronization, _name_of(SYNCHRONIZATIONS, lib.copse_variable_synchronization(self._pointer)))

    @property
    def aggregation(self) -> Aggregation:
        return cast(Aggregation, _name_of(AGGREGATIONS, lib.copse_variable_aggregation(self._pointer)))

    @property
    def _tensor(self) -> Any:
        return lib.copse_variable_tensor(self._pointer)

    def read(self) -> Any:
        """The variable itself in a function of @copse.function. Else a Value: in a replica its component; in an update
        function the component of its replica; else the value that all have, or the aggregate of an "on_read" variable."""
        from . import ops, values
        return self if ops.is_building() else values.wrapped(make("value", lib.copse_read, self._pointer))

    def numpy(self, replica: Optional[int] = None) -> np.ndarray:
        """A copy of what `read` gives, or of the values on one replica of this process."""
        from . import ops
        if ops.is_building():
            raise ContextError(f"variable '{self.name}' has no values while a graph is built")
        if replica is None and self._is_contextual:
            return self.read().numpy()
        out = np.empty(self.shape, self.dtype)
        check(lib.copse_variable_read(self._pointer, replica or 0, ffi.from_buffer(out)))
        return out

    @property
    def _is_contextual(self) -> bool:
        """Whether the replicas' components may differ for the thread."""
        from . import replica
        return (lib.copse_variable_synchronization(self._pointer) == lib.COPSE_SYNC_ON_READ
                or replica.replica_context() is not None or lib.copse_current_update_rank() != lib.COPSE_HOST)

    def assign(self, values: Any) -> None:
        """Set the values: outside of replicas on all of them, an "on_read" variable with the aggregation "sum" to its part. In
        a replica an "on_read" variable changes its own component; another one meets the other replicas, which must assign,
        too, and gets the aggregate of their values. In a function of @copse.function it is ops.update: once for a variable,
        and the function itself reads the value from before."""
        if self._updates(values):
            return
        if self._is_contextual or isinstance(values, Variable) or hasattr(values, "components"):
            self._change(lib.copse_assign, values)
        else:  # in every context, that of another strategy, too
            check(lib.copse_variable_assign(self._pointer, ffi.from_buffer(self._array(values))))

    def assign_add(self, values: Any) -> None:
        """Add, with the rules of `assign`."""
        if not self._updates(values, "add"):
            self._change(lib.copse_assign_add, values)

    def assign_sub(self, values: Any) -> None:
        """Subtract, with the rules of `assign`."""
        if not self._updates(values, "sub"):
            self._change(lib.copse_assign_sub, values)

    def _updates(self, values: Any, operation: Optional[str] = None) -> bool:
        """Whether the thread builds a graph, which then assigns."""
        from . import ops
        if not ops.is_building():
            return False
        if (operation and self.aggregation == "sum" and self.synchronization == "on_write"
                and self.strategy.replicas_in_sync > 1):
            raise UnsupportedError(f"variable '{self.name}' sums what replicas assign: add to it outside of the function")
        if not isinstance(values, (Tensor, Variable)):
            values = ops.constant(values, self.dtype)
        ops.update(self, getattr(ops, operation)(self, values) if operation else values)
        return True

    def _change(self, function: Any, values: Any) -> None:
        from . import replica
        from .values import Value, value
        if isinstance(values, Variable):
            values = values.read()
        if not isinstance(values, Value):
            values = value(self._array(values))
        replica.check_in_run(function(self._pointer, values._pointer))

    def _array(self, values: Any) -> np.ndarray:
        a = array(values)
        if a.shape != self.shape:
            raise ShapeError(f"variable '{self.name}' has the shape {list(self.shape)}, the values have {list(a.shape)}")
        return array_of(a, self.dtype)

    def __dlpack__(self, **options: Any) -> Any:
        """A copy of the values, for other libraries."""
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the CPU

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        return self.numpy().astype(dtype or self.dtype, copy=False)

    __array_ufunc__ = None  # NumPy must not take over `array + variable`

    def __float__(self) -> float:
        return float(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.dtype}{list(self.shape)})"

    def __add__(self, other: Any) -> Any:
        return _operate("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _operate("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _operate("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _operate("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _operate("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _operate("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _operate("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _operate("div", other, self)

    def __matmul__(self, other: Any) -> Any:
        return _operate("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _operate("matmul", other, self)

    def __neg__(self) -> Any:
        return _operate("mul", self, -1)


def _name_of(table: Mapping[str, int], number: int) -> str:
    return next(name for name, n in table.items() if n == number)


def _operate(name: str, a: Any, b: Any) -> Any:
    """Of a variable: an op where a graph is built, else arithmetic of values."""
    from . import ops, values
    return getattr(ops, name)(a, b) if ops.is_building() else values.arithmetic(name, a, b)


class Strategy:
    """Where replicas run, and how their gradients become one.

    devices: a selector ("auto", "all", "opencl:0,vulkan:0") or a list of ids; an id may occur several times. One
    device makes one replica; several make one replica each, which train in step.
    kind: one of KINDS; without it "one_device" or "mirrored", in a cluster "collective". An "accelerator" runs
    `steps_per_run` steps at once on `cores` of the devices; a "parameter_server" keeps the variables on
    `parameter_device` or on the servers of the cluster.
    portable_shards: 12 gives a training the same bits on all devices that pass a probe, for all numbers of devices that
    divide 12; it is slower.
    cluster: the other workers; all of them make the same strategy.
    """

    @named_options()
    def __init__(self, devices_: Union[str, Sequence[str], None] = None, *, kind: Optional[StrategyKind] = None,
                 cluster: Optional[Cluster] = None, steps_per_run: int = 0, cores: int = 0,
                 parameter_device: Optional[str] = None, reduction: GradientReduction = "auto",
                 transfer: Transfer = "auto", bucket_bytes: int = 0, kernels: Optional[str] = None,
                 portable_shards: int = 0) -> None:
        ids = select(devices_) if devices_ is None or isinstance(devices_, str) else list(devices_)
        if kind is None:
            kind = "collective" if cluster else "one_device" if len(ids) == 1 and not portable_shards else "mirrored"
        choice("the kind", kind, KINDS)
        for what, given, of in (("a cluster", cluster, ("collective", "parameter_server")),
                                ("steps_per_run", steps_per_run, ("accelerator",)), ("cores", cores, ("accelerator",)),
                                ("a parameter device", parameter_device, ("parameter_server",))):
            if given and kind not in of:
                raise ArgumentError(f"a strategy of the kind '{kind}' has no use for {what}")
        if kind == "one_device" and len(ids) != 1:
            raise ArgumentError(f"a strategy of the kind 'one_device' runs on one device, not on {len(ids)}")
        names = [c_string(i) for i in ids]
        forced, parameters = c_string(kernels), c_string(parameter_device)
        params = ffi.new("struct copse_strategy_params *", {
            "kernels": forced, "parameter_device": parameters, "bucket_bytes": bucket_bytes,
            "reduction": choice("the reduction", reduction, REDUCTIONS),
            "transfer": choice("the transfer", transfer, TRANSFERS), "portable_shards": portable_shards})
        others = ffi.NULL if cluster is None else cluster._pointer
        if kind == "one_device":
            self._pointer = make("strategy", lib.copse_one_device_create, context(), names[0], params)
        elif kind == "mirrored":
            self._pointer = make("strategy", lib.copse_mirrored_create, context(), names, len(names), params)
        elif kind == "accelerator":
            settings = ffi.new("struct copse_accelerator_params *", {
                "strategy": params[0], "steps_per_run": steps_per_run, "cores": cores})
            self._pointer = make("strategy", lib.copse_accelerator_create, context(), names, len(names), settings)
        else:
            function = lib.copse_collective_create if kind == "collective" else lib.copse_parameter_server_create
            self._pointer = make("strategy", function, context(), others, names, len(names), params)
        self.devices = ids
        self._selector = None if cluster else devices_  # for a strategy alike
        self.kind = kind
        self._serial = next(_serials)
        self._runs = 0  # calls of run that are under way, one in the other
        self._towers: weakref.WeakSet[Any] = weakref.WeakSet()  # its tower optimizers
        self.cluster = cluster
        if cluster is not None:
            cluster._use(self)

    def close(self) -> None:
        """Release it; afterwards calls on it fail."""
        pointer, self._pointer = self._pointer, ffi.NULL
        if pointer:
            ffi.release(pointer)

    @property
    def replicas(self) -> int:
        """Replicas of this process."""
        return lib.copse_strategy_replicas(self._pointer)

    @property
    def replicas_in_sync(self) -> int:
        """Replicas of all workers that train in step."""
        return lib.copse_strategy_replicas_in_sync(self._pointer)

    @property
    def steps_per_run(self) -> int:
        """Batches that a trainer takes for one run: 1, except with an accelerator."""
        return lib.copse_accelerator_steps_per_run(self._pointer)

    @named_options()
    def variable(self, name: str, shape: Sequence[int] = (), *, init: Initializer = "default", scale: float = 1.0,
                 seed: int = 0, values: Any = None, dtype: DType = "float32", trainable: bool = True,
                 aggregation: Aggregation = "mean", synchronization: Synchronization = "auto",
                 sparse: bool = False) -> Variable:
        """Make a variable. `init` is one of INITIALIZERS, by default Glorot uniform for a trained variable of two or
        more dimensions and zeros for others; `values` are used instead if given and also give the shape. With
        the synchronization "on_read" each replica has a value of its own. sparse: a table for ops.gather alone, whose
        gradients are rows (docs/sparse.md)."""
        key, data = c_string(name), ffi.NULL
        if values is not None:
            a = array_of(values, dtype)
            shape, data = a.shape, ffi.from_buffer(a)
        params = ffi.new("struct copse_variable_params *", {
            "name": key, "shape": shape_of(shape), "type": type_of(dtype), "seed": seed, "values": data,
            "scale": 0.0 if scale == 1 else scale,  # integers have none
            "initializer": choice("the initializer", init, INITIALIZERS), "is_frozen": not trainable,
            "is_sparse": sparse,
            "aggregation": choice("the aggregation", aggregation, AGGREGATIONS),
            "synchronization": choice("the synchronization", synchronization, SYNCHRONIZATIONS),
        })
        out = ffi.new("copse_variable **")
        check(lib.copse_variable_create(self._pointer, params, out))
        return Variable._of(self, out[0])

    def _free_name(self) -> str:
        """A name for a variable without one."""
        taken = {v.name for v in self.variables()}
        names = itertools.chain(["variable"], (f"variable_{i}" for i in itertools.count(1)))
        return next(n for n in names if n not in taken)

    def variables(self) -> list[Variable]:
        """All variables in order of creation."""
        found, count = ffi.new("copse_variable ***"), ffi.new("size_t *")
        lib.copse_strategy_variables(self._pointer, found, count)
        return [Variable._of(self, found[0][i]) for i in range(count[0])]

    # ---- functions on replicas (replica.py) ----

    def scope(self) -> "ContextManager[Strategy]":
        """`with strategy.scope():` the thread sees the values of all replicas."""
        from . import replica
        return replica.scope(self)

    def run(self, f: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Mapping[str, Any]] = None) -> Any:
        """Call `f(*args, **kwargs)` once for each replica, in order; per-replica arguments are given as the replica's
        component. Arithmetic of values and functions of @copse.function compute on the replica's device. The results become
        one per-replica value, item by item. Numbers and other objects of Python are given as they are; numbers that several
        replicas return become a per-replica value, another object stays itself where all return the same one. An exception in
        a replica ends the run, and the caller gets it."""
        from . import replica
        return replica.run(self, f, args, kwargs)

    def map(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Compute a function of @copse.function on all replicas at once."""
        from . import replica
        return replica.map_all(self, f, args, kwargs)

    def reduce(self, op: Averaging, x: Any, axis: Optional[int] = None) -> Any:
        """The "sum" or "mean" of a per-replica value over the replicas of all workers; with an axis first along it."""
        from . import replica
        return replica.reduce(self, op, x, axis)

    def reduce_to(self, op: Averaging, x: Any, to: Any = None) -> Any:
        """The "sum" or "mean" over the replicas of all workers, as a mirrored value on all replicas, or on the replicas that
        `to` names: a variable or value whose devices are meant, or a list of numbers of replicas."""
        from . import replica
        return replica.reduce_to(self, op, x, to)

    def broadcast(self, x: Any, to: Any = None) -> Any:
        """A copy of a plain value on all replicas, or on the replicas that `to` names, as a mirrored value."""
        from . import replica
        return replica.broadcast(self, x, to)

    def gather(self, x: Any, axis: int) -> Any:
        """The components of all replicas of all workers, one after another along an axis, on the host. They may differ in
        length there."""
        from . import gather
        return gather.gather(self, x, axis)

    def update(self, variable: Variable, f: Callable[..., Any], args: Sequence[Any] = (),
               kwargs: Optional[Mapping[str, Any]] = None) -> Any:
        """Call `f(variable, *args, **kwargs)` once for each component of a variable, outside of replicas or in a merge call:
        in it the variable reads and changes that component, and mirrored arguments are its replica's. `f` must give every
        component of a mirrored variable the same value. Returns the results as `run` does."""
        from . import replica
        return replica.update(self, variable, f, args, kwargs)

    def update_non_slot(self, replicas: Optional[Sequence[int]], f: Callable[..., Any], args: Sequence[Any] = (),
                        kwargs: Optional[Mapping[str, Any]] = None) -> Any:
        """Call `f(*args, **kwargs)` for each of some replicas, None: all, as `update` does."""
        from . import replica
        return replica.update_non_slot(self, replicas, f, args, kwargs)

    def distribute(self, batches: "Loader", *, policy: InputPolicy = "auto",
                   rule: SplitRule = "balanced") -> "DistributedLoader":
        """The batches of a Loader, whose size counts the examples of all replicas, split into one part for each replica of
        all workers: see Distributed."""
        from . import distributed
        return distributed.DistributedLoader(self, batches, policy, rule)

    def distribute_from_function(self, f: "Callable[[InputContext], Source]", *,
                                 keep_last: bool = False) -> "DistributedFunction":
        """Batches of one replica each, which `f(input_context)` gives: a Loader, or an iterable of mappings of arrays. It is
        called once in each process. See Distributed. keep_last: a last step has batches for the first replicas alone."""
        from . import distributed
        return distributed.DistributedFunction(self, f, keep_last)

    def values_from_function(self, f: "Callable[[ValueContext], Any]") -> "Value":
        """A per-replica value of what `f(value_context)` gives for each replica of this process; `value_context` has
        `replica_id` and `replicas`."""
        from . import distributed
        return distributed.values_from_function(self, f)

    def per_replica(self, components: Sequence[Any]) -> "Value":
        """A per-replica value of one array or number for each replica of this process."""
        from . import values
        return values.per_replica(self, components)

    def local_results(self, x: Any) -> tuple[Any, ...]:
        """The components of a per-replica value in this process; of another value itself."""
        return tuple(getattr(x, "components", [x]))

    def __repr__(self) -> str:
        return f"Strategy({', '.join(self.devices)})"
