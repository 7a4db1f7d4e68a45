# SPDX-License-Identifier: MIT
"""Estimators with the interface of scikit-learn. Where it is installed they inherit from its base classes."""
from __future__ import annotations

import inspect
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Literal, Mapping, Optional, Sequence, Union

import numpy as np

from . import ops
from ._library import check, ffi, lib
from .data import Dataset, check_batch_size, defaults_of
from .fit import Verbose
from .inputs import Inputs
from .model import Model
from .options import Missing, Optimizer, Scale, Task
from .strategy import Strategy
from .table import Cells, _cells_in, columns_of, is_frame
from .tensor import Tensor
from .trainer import Loss, Trainer

if TYPE_CHECKING:
    HAS_SKLEARN = False
    check_classification_targets: Any
    check_is_fitted: Any
    column_or_1d: Any
    validate_data: Any
else:
    try:
        from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
        HAS_SKLEARN = True
    except ImportError:
        HAS_SKLEARN = False

if not HAS_SKLEARN:
    class NotFittedError(ValueError, AttributeError):
        """A prediction before `fit`."""

    class ClassifierMixin:
        _estimator_type = "classifier"

    class RegressorMixin:
        _estimator_type = "regressor"

    class BaseEstimator:
        """The parameters of an estimator are the parameters of its constructor."""

        @classmethod
        def _names(cls) -> list[str]:
            return [n for n in inspect.signature(cls).parameters if n != "self"]

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return {name: getattr(self, name) for name in self._names()}

        def set_params(self, **params: Any) -> Any:
            for name, value in params.items():
                if name not in self._names():
                    raise ValueError(f"{type(self).__name__} has no parameter '{name}': "
                                     f"it has {', '.join(self._names())}")
                setattr(self, name, value)
            return self

        def __repr__(self) -> str:
            own = {n: p.default for n, p in inspect.signature(type(self)).parameters.items()}
            changed = (f"{n}={v!r}" for n, v in self.get_params().items() if v is not own[n] and v != own[n])
            return f"{type(self).__name__}({', '.join(changed)})"

Labels = Any
"""An array, list or column: one label or number for each row."""


class _Estimator(BaseEstimator):
    """What Classifier and Regressor have in common."""

    network: str
    epochs: Optional[int]
    batch_size: int
    learning_rate: float
    optimizer: Optimizer
    weight_decay: Optional[float]
    scale: Scale
    missing: Missing
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    tol: float
    device: Optional[str]
    random_state: Any
    verbose: Verbose

    def _rows(self, x: Any, y: Any = None, is_fit: bool = False) -> Any:
        """Features [rows, features] as floats, or a DataFrame as it is; with the labels in a fit."""
        if is_fit:
            # labels of a table are one column
            self._is_table = is_frame(x) and not (np.ndim(y) == 2 and isinstance(self, RegressorMixin) and _is_numeric(x))
        if is_frame(x) and 0 in x.shape:
            raise ValueError(f"{type(self).__name__}: the features are {list(x.shape)}, not [rows, features]")
        given: dict[str, Any] = {"dtype": (np.float32, np.float64)}
        if isinstance(self, RegressorMixin) and is_fit:
            given |= {"y_numeric": True, "multi_output": True}
        if not HAS_SKLEARN:
            return _checked(self, x, y, is_fit)
        if not self._is_table:
            return validate_data(self, x, y, **given) if is_fit else validate_data(self, x, reset=False, **given)
        validate_data(self, x, skip_check_array=True, reset=is_fit)
        if not is_fit:
            return x
        labels = column_or_1d(y, warn=True)
        if len(labels) != len(x):
            raise ValueError(f"{type(self).__name__}: {len(x)} rows of features have {len(labels)} labels")
        return x, labels

    def _weights(self, x: np.ndarray, sample_weight: Any) -> Optional[np.ndarray]:
        if sample_weight is None:
            return None
        weights = np.asarray(sample_weight, np.float64)
        if weights.shape != (len(x),) or not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(f"sample_weight is not one number, 0 or more, for each of the {len(x)} rows")
        return weights

    def _table(self, x: Any, y: np.ndarray, task: Task) -> Dataset:
        """A DataFrame with the labels after its columns."""
        names, columns = columns_of(x)
        assert names is not None
        label = next(n for n in chain(["label"], (f"label{i}" for i in count(1))) if n not in names)
        return Dataset._of_cells(Cells([*names, label], [*columns, _cells_in(y)]), label=label, task=task,
                                 scale=self.scale, missing=self.missing,
                                 is_weighted=getattr(self, "class_weight", None) is not None)

    def _train(self, data: Dataset, weights: Optional[np.ndarray], groups: Optional[np.ndarray] = None) -> None:
        """groups: each should have its part in the validation data."""
        if self.epochs is not None and self.epochs < 1:
            raise ValueError(f"epochs is {self.epochs}: at least 1")
        check_batch_size(self.batch_size)
        seed = _seed(self.random_state)
        by_rows = defaults_of(data, None, self.batch_size)
        decay = self.weight_decay
        if decay is None:
            decay = by_rows.weight_decay if self.optimizer == "adam" and _is_perceptron(self.network) else 0.0
        self.model_ = Model(Strategy(self.device), data, _with_dropout(self.network, by_rows.dropout), seed=seed)
        columns = {name: data.column(name) for name in ("x", "y")}
        held_out = None
        loss: Union[Model, Loss] = self.model_
        if weights is not None:
            if not weights.sum() > 0:
                raise ValueError("all weights are zero: no row would train")
            columns["weight"] = (weights / weights.mean()).astype(np.float32)
            loss = self._weighted_loss(self.model_)
        trainer = Trainer(self.model_.strategy, loss, optimizer=self.optimizer, learning_rate=self.learning_rate,
                          weight_decay=decay, seed=seed)
        if self.early_stopping:
            kept, chosen = _split(len(data), self.validation_fraction, seed, groups)
            held_out = Dataset({name: a[chosen] for name, a in columns.items()})
            columns = {name: a[kept] for name, a in columns.items()}
        patience = self.n_iter_no_change if self.early_stopping else 0
        try:
            self.history_ = trainer.fit(Dataset(columns)._in_batches(self.batch_size, seed=seed),
                                        by_rows.epochs if self.epochs is None else self.epochs,
                                        validation_data=held_out, min_delta=self.tol if patience else 0.0,
                                        patience=patience,
                                        verbose=self.verbose)
        finally:
            trainer.close()
        self.n_iter_ = len(self.history_.epoch)

    def _weighted_loss(self, model: Model) -> Loss:
        raise NotImplementedError

    def _fitted(self) -> Model:
        if HAS_SKLEARN:
            check_is_fitted(self, "model_")
        elif not hasattr(self, "model_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")
        return self.model_

    def save(self, path: Any) -> None:
        """Write the model file, which Model.load and the command `copse predict` read."""
        self._fitted().save(path)


class Classifier(ClassifierMixin, _Estimator):
    """A network that classifies the rows of a table: fit, predict, predict_proba, score, as in scikit-learn.

    A DataFrame is read as by Dataset.table: texts become categories, and a column that numbers the rows is left out with
    a warning in the log.
    network: a description (docs/layers.md). scale: of the features, "standard" by default. batch_size: 0 for 64.
    epochs: None for what suits the number of rows, and so the dropout of "mlp:..." without one of its own and its
    weight_decay, as in `copse train` (copse/train/defaults.h). The values of the last epoch are kept.
    missing: "mean" lets the mean of a column of a DataFrame replace its missing cells.
    early_stopping: hold validation_fraction of the rows out, end after n_iter_no_change epochs without a validation
    loss that is lower by tol, and keep the values of the best epoch.
    class_weight: a weight for each class, by label, or "balanced". device: as of a Strategy. random_state: a number, a
    RandomState, or None for another seed in each fit. verbose: as of Trainer.fit.

    After fit: classes_, the labels in the order of predict_proba; n_features_in_; feature_names_in_ of a DataFrame;
    model_, a Model; history_, a History; n_iter_, the epochs.
    """

    def __init__(self, network: str = "mlp:128,64", *, epochs: Optional[int] = None, batch_size: int = 0,
                 learning_rate: float = 1e-3, optimizer: Optimizer = "adam", weight_decay: Optional[float] = None,
                 scale: Scale = "standard", missing: Missing = "auto", early_stopping: bool = False,
                 validation_fraction: float = 0.1, n_iter_no_change: int = 10, tol: float = 1e-4,
                 class_weight: Union[Mapping[Any, float], Literal["balanced"], None] = None,
                 device: Optional[str] = None, random_state: Any = None, verbose: Verbose = 0) -> None:
        self.network = network
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.scale = scale
        self.missing = missing
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.class_weight = class_weight
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Labels, sample_weight: Optional[Sequence[float]] = None) -> "Classifier":
        """Train a new model. X: numbers [rows, features]; y: labels, numbers or texts."""
        x, y = self._rows(X, y, True)
        if HAS_SKLEARN:
            check_classification_targets(y)
        weights = self._weights(x, sample_weight)
        self.classes_, positions = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"the labels have one class, {self.classes_.tolist()[0]!r}: a classifier needs at least 2")
        if self.class_weight is not None:
            weights = self._by_class(positions) * (1.0 if weights is None else weights)
        data = self._table(x, y, "classification") if self._is_table else Dataset.arrays(
            x, positions.astype(np.int32), classes=len(self.classes_), task="classification", scale=self.scale)
        # the outputs of the model, which has an order of its own
        outputs = data.column("y")[np.unique(positions, return_index=True)[1]]
        if len(set(outputs.tolist())) < len(self.classes_):
            raise ValueError(f"two of the labels {self.classes_.tolist()} are the same without blanks around them")
        self._outputs = outputs
        self._train(data, weights, positions)
        return self

    def _by_class(self, positions: np.ndarray) -> np.ndarray:
        counts = np.bincount(positions)
        if isinstance(self.class_weight, str):
            if self.class_weight != "balanced":
                raise ValueError(f"class_weight is '{self.class_weight}': use \"balanced\" or a weight for each class")
            return (len(positions) / (len(counts) * counts))[positions]
        if not isinstance(self.class_weight, Mapping):
            raise TypeError(f"class_weight is {type(self.class_weight).__name__}: use \"balanced\" or a mapping from each "
                            "label to its weight")
        known = {c: i for i, c in enumerate(self.classes_.tolist())}
        by_class = np.ones(len(counts))
        for label, weight in self.class_weight.items():
            if label not in known:
                raise ValueError(f"class_weight has a class {label!r}, which the labels have not")
            if not 0 <= weight < np.inf:
                raise ValueError(f"class_weight of {label!r} is {weight}: use a number, 0 or more")
            by_class[known[label]] = weight
        return by_class[positions]

    def _weighted_loss(self, model: Model) -> Loss:
        def loss(inputs: Inputs) -> Tensor:
            logits = model.layers(inputs, inputs["x"])
            ops.report("accuracy", ops.mean(ops.equal(ops.argmax(logits), inputs["y"])))
            return ops.mean(ops.cross_entropy(logits, inputs["y"], "none") * inputs["weight"])
        return loss

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities [rows, classes]."""
        found = self._fitted().predict(self._rows(X))
        return found[:, self._outputs]

    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each row."""
        chosen = self.predict_proba(X).argmax(1)
        labels: np.ndarray = self.classes_[chosen]
        return labels

    if not HAS_SKLEARN:
        def score(self, X: Any, y: Labels, sample_weight: Optional[Sequence[float]] = None) -> float:
            """Accuracy."""
            return float(np.average(self.predict(X) == np.asarray(y), weights=sample_weight))


class Regressor(RegressorMixin, _Estimator):
    """A network that predicts numbers from the rows of a table, with the parameters of Classifier; `scale` is also of
    the targets, and predictions are in their unit. y has one number for each row, or [rows, targets]."""

    def __init__(self, network: str = "mlp:128,64", *, epochs: Optional[int] = None, batch_size: int = 0,
                 learning_rate: float = 1e-3, optimizer: Optimizer = "adam", weight_decay: Optional[float] = None,
                 scale: Scale = "standard", missing: Missing = "auto", early_stopping: bool = False,
                 validation_fraction: float = 0.1, n_iter_no_change: int = 10, tol: float = 1e-4,
                 device: Optional[str] = None, random_state: Any = None, verbose: Verbose = 0) -> None:
        self.network = network
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.scale = scale
        self.missing = missing
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Labels, sample_weight: Optional[Sequence[float]] = None) -> "Regressor":
        """Train a new model. X: numbers [rows, features]."""
        x, y = self._rows(X, y, True)
        weights = self._weights(x, sample_weight)
        self._is_flat = y.ndim == 1
        self._train(self._table(x, y, "regression") if self._is_table else Dataset.arrays(
            x, y.astype(np.float32), task="regression", scale=self.scale), weights)
        return self

    def _weighted_loss(self, model: Model) -> Loss:
        def loss(inputs: Inputs) -> Tensor:
            out = model.layers(inputs, inputs["x"])
            error = ops.mean(ops.square(out - ops.reshape(inputs["y"], out.shape)), 1)
            return ops.mean(error * inputs["weight"])
        return loss

    def predict(self, X: Any) -> np.ndarray:
        """A number for each row, or [rows, targets]."""
        found = self._fitted().predict(self._rows(X)).astype(np.float64)
        return found[:, 0] if self._is_flat else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.multi_output = True
        return tags

    if not HAS_SKLEARN:
        def score(self, X: Any, y: Labels, sample_weight: Optional[Sequence[float]] = None) -> float:
            """R2, the mean over the targets."""
            predicted, true = self.predict(X), np.asarray(y, np.float64)
            residual = np.average((true - predicted) ** 2, axis=0, weights=sample_weight)
            mean = np.average(true, axis=0, weights=sample_weight)
            total = np.average((true - mean) ** 2, axis=0, weights=sample_weight)
            return float(np.mean(1 - residual / total))


def _seed(random_state: Any) -> int:
    if random_state is None:
        random_state = np.random.mtrand._rand
    if hasattr(random_state, "randint"):
        return int(random_state.randint(2**31 - 1))
    return int(random_state)


def _with_dropout(network: str, dropout: float) -> str:
    """The network; a perceptron without a setting for dropout gets it after each hidden layer."""
    is_plain = _is_perceptron(network) and "dropout" not in network
    return f"{network} dropout={dropout:.9g}" if is_plain and dropout else network


def _is_perceptron(network: str) -> bool:
    return network.split(":")[0].strip() == "mlp"


def _is_numeric(frame: Any) -> bool:
    """Whether all columns of a DataFrame are numbers."""
    return all(np.asarray(frame[c]).dtype.kind in "biuf" for c in frame.columns)


def _split(rows: int, fraction: float, seed: int, groups: Optional[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rows that train, and rows that validate: a fraction of each group."""
    if not 0 < fraction < 1:
        raise ValueError(f"validation_fraction is {fraction}: use a number between 0 and 1")
    order = np.random.RandomState(seed).permutation(rows)
    if groups is None:
        groups = np.zeros(rows, int)
    is_chosen = np.zeros(rows, bool)
    for g in np.unique(groups):
        members = order[groups[order] == g]
        is_chosen[members[:round(fraction * len(members))]] = True
    if not is_chosen.any() or is_chosen.all():
        raise ValueError(f"validation_fraction {fraction} of {rows} rows leaves no row to validate, or none to train")
    return np.flatnonzero(~is_chosen), np.flatnonzero(is_chosen)


def _checked(estimator: Any, x: Any, y: Any, is_fit: bool) -> Any:
    """Without scikit-learn: rows of finite numbers, of as many features as in the fit."""
    name = type(estimator).__name__
    names = [str(c) for c in x.columns] if hasattr(x, "columns") else None
    try:
        a = x if estimator._is_table else np.asarray(x, np.float64)
    except (TypeError, ValueError) as e:
        raise ValueError(f"{name}: the features are not numbers: {e}") from None
    if len(a.shape) != 2 or 0 in a.shape:
        raise ValueError(f"{name}: the features are {list(a.shape)}, not [rows, features]")
    if not estimator._is_table and not np.isfinite(a).all():
        raise ValueError(f"{name}: a feature is NaN or infinite")
    if not is_fit:
        if a.shape[1] != estimator.n_features_in_:
            raise ValueError(f"{name}: the rows have {a.shape[1]} features, but fit had "
                             f"{estimator.n_features_in_} features")
        known = getattr(estimator, "feature_names_in_", None)
        if names is not None and known is not None and list(known) != names:
            raise ValueError(f"{name}: the columns are {', '.join(names)}; fit had {', '.join(known)}")
        return a
    labels = np.asarray(y)
    if labels.ndim not in ((1, 2) if isinstance(estimator, RegressorMixin) else (1,)) or len(labels) != len(a):
        raise ValueError(f"{name}: {len(a)} rows of features have labels of the shape {list(labels.shape)}")
    estimator.n_features_in_ = a.shape[1]
    if names is not None:
        estimator.feature_names_in_ = np.array(names, object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    return a, labels
