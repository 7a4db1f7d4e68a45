# SPDX-License-Identifier: MIT
"""Strategies and variables."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np

from ._library import c_string, check, choice, ffi, lib, make, text
from .cluster import Cluster
from .devices import context, select
from .errors import ArgumentError, ShapeError
from .tensor import Tensor, array, array_of, shape_of, type_of, _NAMES

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


class Variable:
    """An array on every replica: trained, or changed by the program. It can be an operand of every op."""

    def __init__(self, strategy: "Strategy", pointer: Any) -> None:
        self.strategy = strategy
        self._pointer = pointer

    @property
    def name(self) -> str:
        return text(lib.copse_variable_name(self._pointer))

    @property
    def shape(self) -> tuple[int, ...]:
        s = lib.copse_variable_shape(self._pointer)
        return tuple(s.dims[i] for i in range(s.rank))

    @property
    def dtype(self) -> str:
        return _NAMES[lib.copse_variable_type(self._pointer)]

    @property
    def is_trained(self) -> bool:
        return bool(lib.copse_variable_is_trained(self._pointer))

    @property
    def _tensor(self) -> Any:
        return lib.copse_variable_tensor(self._pointer)

    def numpy(self, replica: int = 0) -> np.ndarray:
        """A copy of the values on one replica."""
        out = np.empty(self.shape, self.dtype)
        check(lib.copse_variable_read(self._pointer, replica, ffi.from_buffer(out)))
        return out

    def assign(self, values: Any) -> None:
        """Set the values on every replica."""
        a = array(values)
        if a.shape != self.shape:
            raise ShapeError(f"variable '{self.name}' has the shape {list(self.shape)}, the values have {list(a.shape)}")
        a = array_of(a, self.dtype)
        check(lib.copse_variable_assign(self._pointer, ffi.from_buffer(a)))

    def __dlpack__(self, **options: Any) -> Any:
        """A copy of the values on replica 0, for other libraries."""
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the CPU

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        return self.numpy().astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.dtype}{list(self.shape)})"


class Strategy:
    """Where replicas run, and how their gradients become one.

    devices: a selector ("auto", "all", "opencl:0,vulkan:0") or a list of ids; an id may occur several times. One
    device makes one replica; several make one replica each, which train in step.
    kind: one of KINDS; without it "one_device" or "mirrored", in a cluster "collective". An "accelerator" runs
    `steps_per_run` steps at once on `cores` of the devices; a "parameter_server" keeps the variables on
    `parameter_device` or on the servers of the cluster.
    cluster: the other workers; all of them make the same strategy.
    """

    def __init__(self, devices_: Union[str, Sequence[str], None] = None, *, kind: Optional[str] = None,
                 cluster: Optional[Cluster] = None, steps_per_run: int = 0, cores: int = 0,
                 parameter_device: Optional[str] = None, reduction: str = "auto", transfer: str = "auto",
                 bucket_bytes: int = 0, kernels: Optional[str] = None) -> None:
        ids = select(devices_) if devices_ is None or isinstance(devices_, str) else list(devices_)
        if kind is None:
            kind = "collective" if cluster else "one_device" if len(ids) == 1 else "mirrored"
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
            "transfer": choice("the transfer", transfer, TRANSFERS)})
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
        self.kind = kind
        self._functions: set[Any] = set()  # recorded ones: their addresses are keys in the library
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

    def variable(self, name: str, shape: Sequence[int] = (), *, init: str = "default", scale: float = 1.0, seed: int = 0,
                 values: Any = None, dtype: str = "float32", trainable: bool = True,
                 aggregation: str = "mean", synchronization: str = "auto", sparse: bool = False) -> Variable:
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
        return Variable(self, out[0])

    def variables(self) -> list[Variable]:
        """All variables in order of creation."""
        found, count = ffi.new("copse_variable ***"), ffi.new("size_t *")
        lib.copse_strategy_variables(self._pointer, found, count)
        return [Variable(self, found[0][i]) for i in range(count[0])]

    # ---- functions on replicas (replica.py) ----

    def scope(self) -> Any:
        """`with strategy.scope():` the thread sees the values of all replicas."""
        from . import replica
        return replica.scope(self)

    def run(self, f: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Mapping[str, Any]] = None) -> Any:
        """Call `f(*args, **kwargs)` once for each replica, in order; per-replica arguments are given as the replica's
        component. Arithmetic of values and functions of @copse.function compute on the replica's device. The results become
        one per-replica value, item by item."""
        from . import replica
        return replica.run(self, f, args, kwargs)

    def map(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Compute a function of @copse.function on all replicas at once."""
        from . import replica
        return replica.map_all(self, f, args, kwargs)

    def reduce(self, op: str, x: Any, axis: Optional[int] = None) -> Any:
        """The "sum" or "mean" of a per-replica value over the replicas of all workers; with an axis first along it."""
        from . import replica
        return replica.reduce(self, op, x, axis)

    def per_replica(self, components: Sequence[Any]) -> Any:
        """A per-replica value of one array or number for each replica of this process."""
        from . import values
        return values.per_replica(self, components)

    def local_results(self, x: Any) -> tuple[Any, ...]:
        """The components of a per-replica value in this process; of another value itself."""
        return tuple(getattr(x, "components", [x]))

    def __repr__(self) -> str:
        return f"Strategy({', '.join(self.devices)})"
