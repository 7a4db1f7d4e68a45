# SPDX-License-Identifier: MIT
"""Models: a network with the meaning of its data. A file keeps both; another process loads it and predicts."""
from __future__ import annotations

import codecs
import math
import os
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union, cast

import numpy as np

from ._library import Guard, c_string, check, choice, ffi, lib, make, text
from ._names import named_options
from .data import Dataset, check_batch_size, defaults_of, MISSING, TASKS, TEXT_ROWS, UNKNOWN
from .devices import context
from .errors import ArgumentError, Error, FormatError, NoDeviceError, ShapeError
from .fit import Callbacks, History, Verbose
from .nn import Layers
from .options import Layout, Missing, Optimizer, OptimizerOptions, PathLike, Task, TextRows, Unknown
from .strategy import Strategy, Variable
from .table import Cells, columns_of, is_pair, is_table, kind_of
from .tensor import array, view_of


if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .trainer import Freeze, Rate


PICKLE_FORMAT = 1
LAYOUTS = {"auto": lib.COPSE_LAYOUT_AUTO, "copse": lib.COPSE_LAYOUT_COPSE, "torch": lib.COPSE_LAYOUT_TORCH}


@dataclass(frozen=True)
class Evaluation:
    """Comparison of predictions with labels. `accuracy` and `confusion` ([label, prediction]) are of a classification,
    `r2` and `mae` (mean absolute error) of a regression: means over the targets. `target_r2` and `target_mae` have a number
    for each target, in its own unit. Texts have `bits_per_byte`. Of a classification, `balanced_accuracy` is the mean recall,
    `f1` the mean F1, and `auc` has the area under the ROC curve of each class against the others; not of texts."""

    rows: int
    loss: float
    accuracy: Optional[float]
    r2: Optional[float]
    mae: Optional[float]
    confusion: Optional[np.ndarray]
    target_r2: Optional[np.ndarray]
    target_mae: Optional[np.ndarray]
    bits_per_byte: Optional[float] = None
    balanced_accuracy: Optional[float] = None
    f1: Optional[float] = None
    auc: Optional[np.ndarray] = None


@dataclass(frozen=True)
class Loaded:
    """Variables that got values from a file, variables that the file lacks, arrays that no variable has, and variables that
    `choose` or Model.load_weights left out. head, input: why Model.load_weights left out the head or the first layer."""

    matched: list[str]
    missing: list[str]
    unused: list[str]
    skipped: list[str] = field(default_factory=list)
    head: str = ""
    input: str = ""

    @classmethod
    def _of(cls, report: Any, head: str = "", input: str = "") -> "Loaded":
        lists = [[text(names[i]) for i in range(count)] for names, count in (
            (report.matched, report.matched_count), (report.missing, report.missing_count),
            (report.unused, report.unused_count), (report.skipped, report.skipped_count))]
        return cls(lists[0], lists[1], lists[2], lists[3], head, input)


@dataclass(frozen=True)
class LearningRates:
    """A learning-rate range test: rates and the losses of their steps. `suggestion`: a tenth of the rate with the lowest
    smoothed loss; None: no rate lowers the loss by 10 %."""

    rates: np.ndarray
    losses: np.ndarray
    smoothed: np.ndarray
    suggestion: Optional[float]
    has_diverged: bool

    @classmethod
    def _of(cls, found: Any) -> LearningRates:
        points = [found.points[i] for i in range(found.count)]
        return cls(np.array([p.lr for p in points]), np.array([p.loss for p in points]),
                   np.array([p.smoothed for p in points]), found.suggestion or None, bool(found.has_diverged))


class Model:
    """A network for a data set. `Trainer(strategy, model)` trains it.

    data: labelled; its schema decides inputs, outputs and the task. network: a description, or layers that are not built;
    it ends with "dense out". loss: such as "huber delta=0.5" (docs/optimizers.md); it is not kept in files. The weights of
    "cross_entropy weights=balanced" are of the rows of `data`.
    """

    @named_options()
    def __init__(self, strategy: Strategy, data: Optional[Dataset], network: Union[str, Layers] = "mlp:128,64", *,
                 scope: Optional[str] = None, seed: int = 0, loss: Optional[str] = None,
                 _path: Optional[PathLike] = None) -> None:
        before = len(strategy.variables())
        if _path is not None:
            key = c_string(scope)
            params = ffi.new("struct copse_model_load_params *", {"scope": key})
            _pointer = make("model", lib.copse_model_load, strategy._pointer, c_string(_path), params)
        else:
            if data is None:
                raise ArgumentError("a model needs a data set")
            keep = (c_string(network if isinstance(network, str) else None), c_string(scope))
            params = ffi.new("struct copse_model_params *", {
                "network": keep[0], "scope": keep[1], "seed": seed,
                "layer": ffi.NULL if isinstance(network, str) else network._pointer})
            _pointer = make("model", lib.copse_model_create, strategy._pointer,
                            lib.copse_dataset_schema(data._pointer), params)
        self.strategy = strategy
        self._pointer = _pointer
        if loss is not None:
            check(lib.copse_model_set_loss(self._pointer, c_string(loss)))
            if data is not None:
                check(lib.copse_model_balance_loss(self._pointer, data._pointer))
        self._variables = strategy.variables()[before:]  # the newest

    @classmethod
    def load(cls, strategy: Strategy, path: PathLike, *, scope: Optional[str] = None) -> "Model":
        """A model from a file. Its variables are made in the strategy, and end with the model. scope: of their names; without
        it the scope of the file. A newer file can be loaded with another scope beside it."""
        return cls(strategy, None, scope=scope, _path=path)

    def save(self, path: PathLike) -> None:
        """Write weights, network and schema."""
        check(lib.copse_model_save(self._pointer, c_string(path), ffi.NULL))

    @named_options()
    def load_weights(self, path: PathLike, *, layout: Layout = "auto") -> Loaded:
        """Fine-tuning: start from a model file, a checkpoint or a file of arrays, by name. Where its classes, targets,
        columns or tokens differ from the model's, the head or the first layer keeps its values. layout: as of Trainer.load."""
        params = ffi.new("struct copse_load_params *", {"layout": choice("the layout", layout, LAYOUTS)})
        found = ffi.new("struct copse_model_weights *")
        check(lib.copse_model_load_weights(self._pointer, ffi.NULL, c_string(path), params, found))
        return Loaded._of(found.load, text(found.head), text(found.input))

    def __reduce__(self) -> Any:
        """Pickle and copy: the bytes of its file. A copy has a strategy of its own, on the devices of the model's, or
        on the devices of "auto" where a machine lacks them. The state of a trainer is no part of it."""
        import tempfile  # takes a while
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.safetensors")
            self.save(path)
            with open(path, "rb") as file:
                return _restored, ({"format": PICKLE_FORMAT, "devices": self.strategy._selector, "file": file.read()},)

    @cached_property
    def _info(self) -> Any:
        info = ffi.new("struct copse_schema_info *")
        check(lib.copse_schema_describe(lib.copse_model_schema(self._pointer), info))
        return info

    @property
    def layers(self) -> Layers:
        """Its network, for a loss function of your own: `model.layers(inputs, inputs["x"])` are the outputs."""
        made = Layers(None, _pointer=lib.copse_model_layer(self._pointer))
        made._owner = self
        return made

    @property
    def variables(self) -> list[Variable]:
        """Of its layers, in order."""
        made = [Variable._of(v.strategy, v._pointer) for v in self._variables]
        for v in made:
            v._owner = self  # they end with the model
        return made

    @named_options(OptimizerOptions)
    def fit(self, data: Any, epochs: Optional[int] = None, callbacks: Optional[Callbacks] = None, *, batch_size: int = 0,
            validation_data: Any = None, patience: int = 0, min_delta: float = 0.0,
            restore_best_weights: bool = True, logdir: Optional[PathLike] = None,
            optimizer: Optimizer = "adam", learning_rate: "Rate" = 0.0, seed: int = 0, groups: str = "",
            freeze: "Freeze" = None, body_rate: Optional[float] = None, verbose: Verbose = "auto",
            **options: Unpack[OptimizerOptions]) -> History:
        """Train the model, by a Trainer of its variables for this call. `data` and `validation_data` are data sets with
        the model's schema, files, or tables in memory. epochs: None for what suits the rows, as `copse train` chooses it;
        with validation data of enough rows training then stops by itself. batch_size: 0 for 64; all rows if they are
        fewer. seed: of the order of rows, and of dropout. Other settings are explained at Trainer and Trainer.fit."""
        from .trainer import Trainer
        rows = self._labelled("data", data)
        held_out = None if validation_data is None else self._labelled("validation_data", validation_data)
        if epochs is None:
            by_rows = defaults_of(rows, held_out, batch_size)
            epochs, patience = by_rows.epochs, patience or by_rows.patience
            restore_best_weights &= not by_rows.keep_last or patience > 0
        trainer = Trainer(self.strategy, self, optimizer=optimizer, learning_rate=learning_rate, seed=seed,
                          groups=groups, freeze=freeze, body_rate=body_rate,
                          variables=[v for v in self.variables if v.is_trained], **options)
        try:
            return trainer.fit(rows._in_batches(batch_size, seed=seed), epochs, callbacks,
                               validation_data=held_out, patience=patience, min_delta=min_delta,
                               restore_best_weights=restore_best_weights, logdir=logdir, verbose=verbose)
        finally:
            trainer.close()

    @named_options(OptimizerOptions, learning_rate="the test sets the rate: start_lr, end_lr")
    def find_lr(self, data: Any, *, start_lr: float = 1e-7, end_lr: float = 10.0, steps: int = 100, batch_size: int = 0,
                optimizer: Optimizer = "adam", seed: int = 0, groups: str = "", freeze: "Freeze" = None,
                body_rate: Optional[float] = None, **options: Unpack[OptimizerOptions]) -> LearningRates:
        """The learning-rate range test: train for a few steps while the rate grows exponentially. The model keeps its values.
        data, batch_size, optimizer and further settings: as of `fit`."""
        from .trainer import parameter_groups, Rule
        rows = self._labelled("data", data)
        check_batch_size(batch_size)
        rule = Rule(Guard(), optimizer, 0.0, parameter_groups(freeze, body_rate, groups, self), options)
        how = ffi.new("struct copse_model_fit_params *", {"batch": batch_size, "seed": seed, "optimizer": rule.params[0]})
        params = ffi.new("struct copse_find_lr_params *", {"start_lr": start_lr, "end_lr": end_lr, "steps": steps})
        found = ffi.new("struct copse_lr_range *")
        check(lib.copse_model_find_lr(self._pointer, rows._pointer, how, params, found))
        return LearningRates._of(found)

    @property
    def outputs(self) -> int:
        """Classes, or targets of a regression."""
        return self._info.outputs

    @property
    def task(self) -> Task:
        """classification, regression, or sequence, which predicts the next token of a text."""
        return cast(Task, {v: k for k, v in TASKS.items()}[self._info.task])

    @property
    def is_classification(self) -> bool:
        return self._info.task == lib.COPSE_TASK_CLASSIFICATION

    @property
    def classes(self) -> list[str]:
        """Names of the classes, or tokens of a text; of a regression none."""
        schema = lib.copse_model_schema(self._pointer)
        return [text(lib.copse_schema_class(schema, i)) for i in range(self.outputs)] if self.task != "regression" else []

    def read(self, data: Any, *, text_rows: TextRows = "windows", missing: Missing = "auto",
             unknown: Unknown = "ignore") -> Dataset:
        """A file, a folder of pictures, a table in memory (see Dataset.table), or an array of features, as a data set
        by the schema of the model: scaled as in training. Columns of a table are found by name.
        text_rows: the rows of a text: all windows, the "end" of the text, or the end of each of the "lines". The ends may
        be shorter than the window if the network predicts the token after each position of it.
        missing: of missing cells, "auto": their column's mean, with a warning in the log; "mean": without; or "refuse".
        unknown: of categories that training did not have, "ignore": they count as none, with a warning; or "refuse"."""
        params = ffi.new("struct copse_dataset_params *", {
            "schema": lib.copse_model_schema(self._pointer),
            "missing": choice("the treatment of missing cells", missing, MISSING),
            "unknown": choice("the treatment of unknown categories", unknown, UNKNOWN)})
        rows = ffi.new("struct copse_text_params *", {
            "rows": choice("the rows", text_rows, TEXT_ROWS),
            "takes_short": text_rows != "windows" and self.task == "sequence" and len(self.layers.output) == 2})
        source = ffi.new("struct copse_source_params *", {"text": rows})
        if self.task == "sequence":
            params.source = source
        if isinstance(data, (str, os.PathLike)):
            pointer = make("dataset", lib.copse_dataset_open, context(), c_string(data), params)
        elif self._takes_cells(data):
            cells = self._cells_of(data)  # has the memory of its struct
            pointer = make("dataset", lib.copse_dataset_cells, context(), cells.struct, params)
        else:
            a = self._numbers_of(data)
            pointer = make("dataset", lib.copse_dataset_create, context(), view_of(a), ffi.NULL, params)
        return Dataset({}, _pointer=pointer)

    def _takes_cells(self, data: Any) -> bool:
        """Whether data goes by names of columns, or as texts."""
        return self._has_columns and is_table(data)

    def _labelled(self, name: str, data: Any) -> Dataset:
        """A data set with labels, of what an argument takes."""
        if isinstance(data, Dataset):
            return data
        try:
            if isinstance(data, (str, os.PathLike)) or not is_pair(data) and self._takes_cells(data):
                return self.read(data)
        except ValueError as error:  # NumPy's, of rows that are no rows
            if isinstance(error, Error):
                raise
        what = f"a {type(data).__name__} of {len(data)}" if isinstance(data, (list, tuple)) else kind_of(data)
        raise ArgumentError(f"{name} is {what}: give a data set, such as copse.Dataset.arrays(x, y), "
                            + ("a file, or a table in memory with the label" if self._has_columns else "or a file"))

    @property
    def _has_columns(self) -> bool:
        return self._info.kind == lib.COPSE_DATA_TABLE

    @cached_property
    def _columns(self) -> list[tuple[str, int]]:
        """Names of the columns of its table, or positions from 1 without names, and their roles."""
        column, schema = ffi.new("struct copse_schema_column *"), lib.copse_model_schema(self._pointer)
        found = []
        for i in range(self._info.columns):
            check(lib.copse_schema_column(schema, i, column))
            found.append((text(column.name) or str(i + 1), column.role))
        return found

    def _wrong_width(self, width: int, names: Sequence[str]) -> ShapeError:
        return ShapeError(f"the row has {width} value{'' if width == 1 else 's'}, the model's table has {len(names)} "
                          f"column{'' if len(names) == 1 else 's'}: {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}")

    def _cells_of(self, data: Any) -> Cells:
        names, columns = columns_of(data)
        if names is None and columns:
            known = [n for n, role in self._columns if role != lib.COPSE_COLUMN_LABEL]
            count = len(self._columns)
            if len(columns) not in (count, count - (len(known) < count)):
                raise self._wrong_width(len(columns), known)
        return Cells(names, columns)

    def _numbers_of(self, data: Any) -> np.ndarray:
        """An array of features, in which a row has the numbers of a row in training."""
        try:
            a = array(data)
        except (TypeError, ValueError) as error:
            if isinstance(error, Error):
                raise
            raise ArgumentError(f"data is a {type(data).__name__} whose rows differ in length or kind: give an array of "
                                "features, a data set, a file, or a table in memory") from error
        if a.dtype.kind == "O":
            raise ArgumentError(f"data is {kind_of(data)}: give a data set, a file, an array of features"
                                + (", a DataFrame, dictionaries, or rows of cells" if self._has_columns else ""))
        if self._has_columns and a.ndim > 0 and a.size:
            used = [(n, role) for n, role in self._columns if role not in (lib.COPSE_COLUMN_LABEL, lib.COPSE_COLUMN_IGNORED)]
            shape, width = self._info.shape, a.size // len(a)
            if any(role == lib.COPSE_COLUMN_CATEGORY for _, role in used) or width != math.prod(shape.dims[i] for i in range(shape.rank)):
                texts = [n for n, role in used if role != lib.COPSE_COLUMN_NUMBER]
                if width == len(used) and texts:
                    raise ShapeError(f"the model's table has columns of categories or dates: {', '.join(texts[:20])}: give "
                                     "their cells as texts, in rows, dictionaries or a DataFrame")
                raise self._wrong_width(width, [n for n, _ in used])
        return a

    def predict(self, data: Any, *, missing: Missing = "auto", unknown: Unknown = "ignore") -> np.ndarray:
        """Probabilities [rows, classes], or values [rows, targets] in the unit of the target; of a text the probabilities
        of the token after its end. `data`: a data set with the model's schema, or what `read` takes: a file, an array
        of features, a DataFrame, a dictionary for one row, a list of them. missing, unknown: as of `read`."""
        if self._takes_cells(data):
            return self._predict_cells(self._cells_of(data), missing, unknown)
        rows = data if isinstance(data, Dataset) else self.read(data, text_rows="end", missing=missing, unknown=unknown)
        out = np.empty((len(rows), self.outputs), np.float32)
        check(lib.copse_model_predict(self._pointer, rows._pointer, ffi.from_buffer("float[]", out)))
        return out

    def _predict_cells(self, cells: Cells, missing: Missing, unknown: Unknown) -> np.ndarray:
        """As of a data set of them; the model keeps what it has prepared for the next call."""
        params = ffi.new("struct copse_predict_cells_params *", {
            "missing": choice("the treatment of missing cells", missing, MISSING),
            "unknown": choice("the treatment of unknown categories", unknown, UNKNOWN)})
        out = np.empty((cells.rows, self.outputs), np.float32)
        check(lib.copse_model_predict_cells(self._pointer, cells.struct, params, ffi.from_buffer("float[]", out)))
        return out

    @named_options()
    def generate(self, prompt: Union[str, bytes] = "", length: int = 200, *, temperature: float = 1.0, top_k: int = 0,
                 top_p: float = 1.0, seed: int = 1) -> Union[str, bytes]:
        """Continue a text by `length` tokens, without the prompt: bytes after bytes, otherwise a string, in which U+FFFD is in the
        place of bytes that are no character; one that the last token leaves incomplete is left out. temperature: 0 takes the most likely token always. top_k: 0 keeps all tokens. The
        same seed gives the same text."""
        start = prompt.encode() if isinstance(prompt, str) else bytes(prompt)
        written = bytearray()

        def take(_user: Any, _token: int, token_bytes: Any, size: int) -> int:
            written.extend(ffi.buffer(token_bytes, size))
            return lib.COPSE_OK

        params = ffi.new("struct copse_generate_params *", {
            "length": length, "seed": seed, "temperature": temperature, "top_p": top_p, "top_k": top_k})
        callback = ffi.callback("copse_token_fn", take, error=lib.COPSE_ERR_INTERNAL)
        check(lib.copse_model_generate(self._pointer, ffi.from_buffer("char[]", start), len(start), params, callback, ffi.NULL))
        return codecs.getincrementaldecoder("utf-8")("replace").decode(written) if isinstance(prompt, str) else bytes(written)

    def evaluate(self, data: Any) -> Evaluation:
        """Compare predictions with the labels of a data set, a file or a table in memory."""
        rows = self._labelled("data", data)
        table = np.zeros((self.outputs, self.outputs), np.uint64) if self.is_classification else None
        targets = np.zeros((2, self.outputs)) if self.task == "regression" else None
        params = ffi.new("struct copse_evaluation_params *")
        if table is not None:
            params.confusion = ffi.from_buffer("uint64_t[]", table)
        if targets is not None:
            params.target_r2, params.target_mae = (ffi.from_buffer("double[]", row) for row in targets)
        scores = np.zeros(self.outputs) if self.task == "classification" else None
        if scores is not None:
            params.class_auc = ffi.from_buffer("double[]", scores)
        e = ffi.new("struct copse_evaluation *")
        check(lib.copse_model_evaluate(self._pointer, rows._pointer, params, e))
        own = self.task != "regression"
        return Evaluation(rows=e.rows, loss=e.loss, accuracy=e.accuracy if own else None, r2=None if own else e.r2,
                          mae=None if own else e.mae, confusion=table, target_r2=None if targets is None else targets[0],
                          target_mae=None if targets is None else targets[1],
                          bits_per_byte=e.bits_per_byte if self.task == "sequence" else None,
                          balanced_accuracy=None if scores is None else e.balanced_accuracy,
                          f1=None if scores is None else e.f1, auc=scores)


def _restored(state: Mapping[str, Any]) -> Model:
    """A model from what Model.__reduce__ gave."""
    if state["format"] != PICKLE_FORMAT:
        raise FormatError(f"the pickled model has format {state['format']}, this version of Copse reads "
                          f"{PICKLE_FORMAT}: save the model to a file with the version that made it")
    try:
        strategy = Strategy(state["devices"])
    except NoDeviceError as e:
        warnings.warn(f"the model was on other devices, and is now on the devices of \"auto\": {e}", RuntimeWarning, 2)
        strategy = Strategy("auto")
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        with open(path, "wb") as file:
            file.write(state["file"])
        return Model.load(strategy, path)
