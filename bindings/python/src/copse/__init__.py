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
from .schedule import Schedule
from .strategy import Strategy, Variable
from .tensor import Tensor
from .trainer import Loaded, StepResult, Trainer

__version__ = version()

DIGITS = _os.environ.get("COPSE_DIGITS") or str(
    _Path(__file__).resolve().parent / "share" / "copse" / "digits" / "digits.csv.gz")
"""A CSV file of 1,797 handwritten digits: 64 pixels and the label in each row."""

__all__ = [
    "Cluster", "DIGITS", "Dataset", "Device", "Error", "Evaluation", "Inputs", "Loaded", "Loader", "Model", "Monitor",
    "Schedule", "StepResult", "Strategy", "Tensor", "Trainer", "Variable", "conformance", "context", "devices", "errors",
    "nn", "ops", "safetensors", "select", "version",
]
