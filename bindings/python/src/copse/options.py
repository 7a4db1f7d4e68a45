# SPDX-License-Identifier: MIT
"""Types of options, for type checkers: `optimizer="adm"` and `learnin_rate=0.1` are errors before a program runs."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, Sequence, TypedDict, Union

if TYPE_CHECKING:
    PathLike = Union[str, os.PathLike[str]]
else:
    PathLike = Union[str, os.PathLike]

DType = Literal["float32", "int32", "uint8", "float16", "int64", "bfloat16"]
Precision = Literal["float32", "float16", "bfloat16"]

# Of ops and layers.
Activation = Literal["linear", "relu", "sigmoid", "tanh", "gelu", "silu"]
Padding = Union[Literal["same"], int, Sequence[Union[int, Sequence[int]]]]
Reduction = Literal["mean", "sum", "none"]
Averaging = Literal["mean", "sum"]
Resizing = Literal["nearest", "linear", "area"]

# Of trainers and strategies.
Optimizer = Literal["adam", "adamw", "sgd", "momentum", "nesterov", "adagrad", "adadelta", "rmsprop", "amsgrad",
                    "adamax", "nadam", "lion", "ftrl", "proximal_sgd", "proximal_adagrad", "lars", "lamb", "adam8",
                    "adopt"]
Priority = Literal["normal", "low", "high"]
Layout = Literal["auto", "copse", "torch"]
StrategyKind = Literal["one_device", "mirrored", "collective", "parameter_server", "accelerator"]
GradientReduction = Literal["auto", "sharded", "tree", "to_one"]
Transfer = Literal["auto", "shared", "staged"]
Initializer = Literal["default", "glorot_uniform", "he_normal", "normal", "ones", "orthogonal",
                      "truncated_normal", "zeros"]
Synchronization = Literal["auto", "none", "on_write", "on_read"]
Aggregation = Literal["none", "sum", "mean", "only_first_replica"]
InputPolicy = Literal["auto", "file", "data", "off"]
SplitRule = Literal["balanced", "ceil", "fixed"]
Engine = Literal["auto", "mpi", "gloo"]
StepCount = Literal["global", "none"]

# Of data.
Task = Literal["auto", "classification", "regression", "sequence"]
Label = Union[str, int, Sequence[Union[str, int]], None]  # name or position from 1; several: targets of a regression
Scale = Literal["auto", "none", "standard", "max"]
Header = Literal["auto", "yes", "no"]
Tokens = Literal["characters", "bytes", "bpe"]
TextRows = Literal["windows", "lines", "end"]
Missing = Literal["auto", "refuse", "mean"]
Unknown = Literal["ignore", "refuse"]

# Of conformance.
Tier = Literal["quick", "standard", "full", "exhaustive"]
Mode = Literal["run", "grad", "opt", "reduce", "train", "bitwise", "args", "perf", "stress", "limits", "import", "tune", "compile", "ceilings",
               "launch", "api"]


class OptimizerOptions(TypedDict, total=False):
    """Further settings of an optimizer, 0 for its default; docs/optimizers.md says which rules have which."""

    momentum: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    clip_value: float
    clip_norm: float
    clip_global_norm: float
    loss_scale: float
    loss_scale_interval: int
    loss_scale_growth: float
    loss_scale_backoff: float
    average: float
    initial: float
    l1: float
    l2: float
    momentum_decay: float
    is_centred: bool
    trust: float
    epsilon_in_root: bool
    plain_average: bool


class OptimizerSettings(OptimizerOptions, total=False):
    """All that describes an optimizer, as a function gives it to a TowerOptimizer."""

    optimizer: Optimizer
    learning_rate: float
    groups: str
