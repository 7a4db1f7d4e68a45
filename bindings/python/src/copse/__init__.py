# SPDX-License-Identifier: MIT
"""Copse trains neural networks through OpenCL and Vulkan, on GPUs of any maker and on CPUs, several devices at once."""
import os as _os
from pathlib import Path as _Path

from . import conformance, errors, nn, ops, safetensors
from .cluster import Cluster
from .data import Dataset, Loader
from .devices import Device, context, devices, select, version
from .errors import Error
from .inputs import Inputs
from .model import Evaluation, Model
from .monitor import Monitor
from .replica import Function, ReplicaContext, current_strategy, function, replica_context
from .schedule import Schedule
from .strategy import Strategy, Variable
from .tensor import Tensor
from .trainer import Loaded, StepResult, Trainer
from .values import Value, value

__version__ = version()

DIGITS = _os.environ.get("COPSE_DIGITS") or str(
    _Path(__file__).resolve().parent / "share" / "copse" / "digits" / "digits.csv.gz")
"""A CSV file of 1,797 handwritten digits: 64 pixels and the label in each row."""

__all__ = [
    "Cluster", "DIGITS", "Dataset", "Device", "Error", "Evaluation", "Function", "Inputs", "Loaded", "Loader", "Model",
    "Monitor", "ReplicaContext", "Schedule", "StepResult", "Strategy", "Tensor", "Trainer", "Value", "Variable",
    "conformance",
    "context", "current_strategy", "devices", "errors", "function", "nn", "ops", "replica_context", "safetensors", "select",
    "value", "version",
]
