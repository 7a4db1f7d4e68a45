# SPDX-License-Identifier: MIT
"""Copse trains neural networks through OpenCL and Vulkan, on GPUs of any maker and on CPUs, several devices at once."""
import os as _os
from typing import TYPE_CHECKING
from typing import Any as _Any

from . import conformance, errors, nn, ops, options, safetensors
from .cluster import Cluster
from .data import Dataset, Loader
from .devices import Device, context, devices, prioritize, select, version
from .distributed import Distributed, InputContext, ValueContext
from .errors import Error
from .events import EventFile
from .fit import History
from .inputs import Inputs
from .language import LanguageEvaluation, LanguageModel
from .model import Evaluation, LearningRates, Loaded, Model
from .monitor import Monitor
from .onnx import OnnxModel
from .ops import GradientTape, gradients
from .replica import (Function, ReplicaContext, current_strategy, function, has_strategy, in_cross_replica_context,
                      replica_context, require_replica_context)
from .schedule import Schedule
from .step import SingleLossStep, Step, set_output
from .strategy import Strategy, Variable
from .tensor import Tensor
from .tower import TowerOptimizer, global_step
from .trace import TraceSummary, trace
from .train_step import TrainStep, TrainStepResult
from .trainer import StepResult, Trainer
from .values import PerReplica, Value, value

if TYPE_CHECKING:
    from .estimators import Classifier, Regressor

__version__ = version()


def _digits() -> str:
    """In this package (a wheel), else in the prefix in which Python modules and the library are installed."""
    here = _os.path.dirname(_os.path.realpath(__file__))
    folders = [here, _os.path.normpath(_os.path.join(here, "..", "..", "..", ".."))]
    paths = [_os.path.join(f, "share", "copse", "digits", "digits.csv.gz") for f in folders]
    return next((p for p in paths if _os.path.exists(p)), paths[0])


DIGITS = _os.environ.get("COPSE_DIGITS") or _digits()
"""A CSV file of 1,797 handwritten digits: 64 pixels and the label in each row."""

__all__ = [
    "Classifier", "Cluster", "DIGITS", "Dataset", "Device", "Distributed", "Error", "Evaluation", "EventFile",
    "Function", "GradientTape", "History", "InputContext", "Inputs", "LanguageEvaluation", "LanguageModel", "LearningRates",
    "Loaded", "Loader", "Model", "Monitor", "OnnxModel", "PerReplica", "Regressor", "ReplicaContext", "Schedule", "SingleLossStep", "Step", "StepResult", "Strategy",
    "Tensor", "TowerOptimizer", "TraceSummary", "TrainStep", "TrainStepResult", "Trainer", "Value", "ValueContext", "Variable",
    "conformance", "context", "current_strategy", "devices", "errors", "function", "global_step", "gradients",
    "has_strategy", "in_cross_replica_context", "nn", "ops", "options", "prioritize", "replica_context",
    "require_replica_context", "safetensors", "select", "set_output", "trace", "value", "version",
]


def __getattr__(name: str) -> _Any:
    """The estimators, at their first use: they import scikit-learn where it is installed, which takes a while."""
    if name in ("Classifier", "Regressor"):
        from . import estimators
        return getattr(estimators, name)
    raise AttributeError(f"module 'copse' has no attribute '{name}'")
