# SPDX-License-Identifier: MIT
"""Estimators with the interface of scikit-learn. Where it is installed they inherit from its base classes."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, Mapping, Optional, Sequence, Union

import numpy as np

from . import ops
from .data import Dataset
from .fit import Verbose
from .inputs import Inputs
from .model import Model
from .options import Optimizer, Scale
from .strategy import Strategy
from .tensor import Tensor
from .trainer import Loss, Trainer

if TYPE_CHECKING:
    HAS_SKLEARN = False
    check_classification_targets: Any
    check_is_fitted: Any
    validate_data: Any
else:
    try:
        from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import check_is_fitted, validate_data
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
        """The parameters of an estimator are those of its constructor."""

        @classmethod
        def _names(cls) -> list[str]:
            return [n for n in inspect.signature(cls).parameters if n != "self"]

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return {name: getattr(self, name) for name in self._names()}

        def set_params(self, **params: Any) -> Any:
            for name, value in params.items():
                if name not in self._names():
                    raise ValueError(f"{type(self).__name__} has no parameter '{name}': it has {', '.join(self._names())}")
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
    epochs: int
    batch_size: int
    learning_rate: float
    optimizer: Optimizer
    weight_decay: float
    scale: Scale
    device: Optional[str]
    random_state: Any
    verbose: Verbose

    def _rows(self, x: Any, y: Any = None, is_fit: bool = False) -> Any:
        """Features [rows, features] as floats, with the labels in a fit."""
        if HAS_SKLEARN:
            settings = {"y_numeric": True, "multi_output": True} if isinstance(self, RegressorMixin) else {}
            return (validate_data(self, x, y, dtype=(np.float32, np.float64), **settings) if is_fit
                    else validate_data(self, x, dtype=(np.float32, np.float64), reset=False))
        return _checked(self, x, y, is_fit)

    def _weights(self, x: np.ndarray, sample_weight: Any) -> Optional[np.ndarray]:
        if sample_weight is None:
            return None
        weights = np.asarray(sample_weight, np.float64)
        if weights.shape != (len(x),) or not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(f"sample_weight is not one number, 0 or more, for each of the {len(x)} rows")
        return weights

    def _train(self, data: Dataset, weights: Optional[np.ndarray]) -> None:
        seed = _seed(self.random_state)
        self.model_ = Model(Strategy(self.device), data, self.network, seed=seed)
        columns = {name: data.column(name) for name in ("x", "y")}
        loss: Union[Model, Loss] = self.model_
        if weights is not None:
            if not weights.sum() > 0:
                raise ValueError("all weights are zero: no row would train")
            columns["weight"] = (weights / weights.mean()).astype(np.float32)
            loss = self._weighted_loss(self.model_)
        trainer = Trainer(self.model_.strategy, loss, optimizer=self.optimizer, learning_rate=self.learning_rate,
                          weight_decay=self.weight_decay, seed=seed)
        try:
            self.history_ = trainer.fit(Dataset(columns)._in_batches(self.batch_size, seed=seed), self.epochs,
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

    network: a description (docs/layers.md). scale: of the features, "standard" by default. batch_size: 0 for 64.
    class_weight: a weight for each class, by label, or "balanced". device: as of a Strategy. random_state: a number, a
    RandomState, or None for another seed in each fit. verbose: as of Trainer.fit.

    After fit: classes_, the labels in the order of predict_proba; n_features_in_; feature_names_in_ of a DataFrame; model_,
    a Model; history_, a History; n_iter_, the epochs.
    """

    def __init__(self, network: str = "mlp:128,64", *, epochs: int = 100, batch_size: int = 0, learning_rate: float = 1e-3,
                 optimizer: Optimizer = "adam", weight_decay: float = 0.0, scale: Scale = "standard",
                 class_weight: Union[Mapping[Any, float], Literal["balanced"], None] = None,
                 device: Optional[str] = None, random_state: Any = None, verbose: Verbose = 0) -> None:
        self.network = network
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.scale = scale
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
        self._train(Dataset.arrays(x, positions.astype(np.int32), classes=len(self.classes_), task="classification",
                                   scale=self.scale), weights)
        return self

    def _by_class(self, positions: np.ndarray) -> np.ndarray:
        counts = np.bincount(positions)
        if isinstance(self.class_weight, str):
            if self.class_weight != "balanced":
                raise ValueError(f"class_weight is '{self.class_weight}': use \"balanced\" or a weight for each class")
            return (len(positions) / (len(counts) * counts))[positions]
        assert self.class_weight is not None
        known = {c: i for i, c in enumerate(self.classes_.tolist())}
        by_class = np.ones(len(counts))
        for label, weight in self.class_weight.items():
            if label not in known:
                raise ValueError(f"class_weight has a class {label!r}, which the labels have not")
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
        return self._fitted().predict(self._rows(X))

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
    """A network that predicts numbers from the rows of a table, with the parameters of Classifier; `scale` is also of the
    targets, and predictions are in their unit. y has one number for each row, or [rows, targets]."""

    def __init__(self, network: str = "mlp:128,64", *, epochs: int = 40, batch_size: int = 0, learning_rate: float = 1e-3,
                 optimizer: Optimizer = "adam", weight_decay: float = 0.0, scale: Scale = "standard",
                 device: Optional[str] = None, random_state: Any = None, verbose: Verbose = 0) -> None:
        self.network = network
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.scale = scale
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Labels, sample_weight: Optional[Sequence[float]] = None) -> "Regressor":
        """Train a new model. X: numbers [rows, features]."""
        x, y = self._rows(X, y, True)
        weights = self._weights(x, sample_weight)
        self._is_flat = y.ndim == 1
        self._train(Dataset.arrays(x, y.astype(np.float32), task="regression", scale=self.scale), weights)
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
            total = np.average((true - np.average(true, axis=0, weights=sample_weight)) ** 2, axis=0, weights=sample_weight)
            return float(np.mean(1 - residual / total))


def _seed(random_state: Any) -> int:
    if random_state is None:
        random_state = np.random.mtrand._rand
    if hasattr(random_state, "randint"):
        return int(random_state.randint(2**31 - 1))
    return int(random_state)


def _checked(estimator: Any, x: Any, y: Any, is_fit: bool) -> Any:
    """Without scikit-learn: rows of finite numbers, of as many features as in the fit."""
    name = type(estimator).__name__
    names = [str(c) for c in x.columns] if hasattr(x, "columns") else None
    try:
        a = np.asarray(x, np.float64)
    except (TypeError, ValueError) as e:
        raise ValueError(f"{name}: the features are not numbers: {e}") from None
    if a.ndim != 2 or 0 in a.shape:
        raise ValueError(f"{name}: the features are {list(a.shape)}, not [rows, features]")
    if not np.isfinite(a).all():
        raise ValueError(f"{name}: a feature is NaN or infinite")
    if not is_fit:
        if a.shape[1] != estimator.n_features_in_:
            raise ValueError(f"{name}: the rows have {a.shape[1]} features, those of fit had {estimator.n_features_in_}")
        known = getattr(estimator, "feature_names_in_", None)
        if names is not None and known is not None and list(known) != names:
            raise ValueError(f"{name}: the columns are {', '.join(names)}; those of fit were {', '.join(known)}")
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
