# SPDX-License-Identifier: MIT
"""Types that the package declares: what a type checker refuses before a program runs, and what calls refuse then."""
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from typing import get_args

import copse
from copse import conformance, nn, ops, options, safetensors
from copse._library import ffi
from rig import InFolder, PACKAGE

# Each line that ends with "bad" is an error, and no other one is.
USES = '''
from typing import Iterator
import numpy as np
import copse
from copse import ops
strategy = copse.Strategy("host", kind="one_device")
copse.Strategy("host", kind="one_devise")  # bad
copse.Strategy("host", redaction="tree")  # bad
w = strategy.variable("w", (2, 2), init="zeros", aggregation="sum")
strategy.variable("w", (2, 2), init="zeroes")  # bad
strategy.variable("w", shap=(2, 2))  # bad
def loss(inputs: copse.Inputs) -> copse.Tensor:
    x = inputs["x"]
    h: copse.Tensor = ops.relu(x @ w) + 1 - ops.exp(x) * 2.0
    wrong: str = ops.relu(x)  # bad
    ops.relu(x, 1)  # bad
    ops.relu("x")  # bad
    ops.add(x)  # bad
    h + "x"  # bad
    ops.mean(x, axes=(0, 1), keep_dims=True)
    ops.mean(x, keepdims=True)  # bad
    ops.dense(x, w, activation="relu")
    ops.dense(x, w, activation="rely")  # bad
    ops.conv(x, w, padding="same")
    ops.conv(x, w, padding=((1, 2), 0))
    ops.conv(x, w, padding="some")  # bad
    ops.cast(x, h.dtype)
    ops.cast(x, "float23")  # bad
    one: copse.Tensor = ops.gradients(ops.mean(h), w)
    many: list[copse.Tensor] = copse.gradients(ops.mean(h), [w, x])
    other: int = ops.gradients(ops.mean(h), w)  # bad
    return ops.mean_squared_error(h, inputs["y"])
trainer = copse.Trainer(strategy, loss, learning_rate=0.1, weight_decay=1e-4, is_centred=True)
copse.Trainer(strategy, loss, learning_rate=copse.Schedule("cosine", 0.1, 100))
copse.Trainer(strategy, loss, learning_rate=lambda step: 1 / step)
copse.Trainer(strategy, loss, learnin_rate=0.1)  # bad
copse.Trainer(strategy, loss, clip_norms=0.1)  # bad
copse.Trainer(strategy, loss, clip_norm="high")  # bad
copse.Trainer(strategy, loss, optimizer="adm")  # bad
copse.TrainStep(strategy, loss, optimizer="lamb", momentun=0.5)  # bad
tower = copse.TowerOptimizer(strategy, lambda: {"optimizer": "sgd", "learning_rate": 0.1})
copse.TowerOptimizer(strategy, "sgd", learning_rte=0.1)  # bad
data = copse.Dataset.open("x.csv", label="y", scale="standard")
copse.Dataset.open("x.csv", labl="y")  # bad
copse.Dataset.open("x.csv", scale="std")  # bad
batches: Iterator[str] = data.batches(32).epoch(0)  # bad
data.batches(32, shufle=False)  # bad
result = trainer.evaluate({"x": np.zeros(3)})
number: float = result.loss + result.reports["accuracy"]
text: str = result.loss  # bad
trainer.load("w.safetensors", layout="toch")  # bad
strategy.reduce("max", 1)  # bad
trainer.fit(data.batches(3), 9, validation_data=data, patience=3)
history: dict[str, list[float]] = trainer.fit(data.batches(3), 9, lambda epoch, means: means["loss"] < 1).history
trainer.fit(data.batches(3), 9, patients=3)  # bad
trainer.fit(data.batches(3), 9, lambda epoch: True)  # bad
trainer.fit(data.batches(3), verbose="yes")  # bad
estimator: copse.Classifier = copse.Classifier(epochs=30, class_weight="balanced").fit([[1.0]], ["a"])
copse.Classifier(epoch=30)  # bad
copse.Classifier(class_weight="balance")  # bad
estimator.fit([[1.0]], [1.0], sample_wait=[1.0])  # bad
score: float = copse.Regressor().score([[1.0]], [1.0])
copse.Regressor(optimizer="adm")  # bad
'''


def callables():
    """Public functions, classes and methods by name."""
    modules = {"copse": copse, "copse.ops": ops, "copse.nn": nn, "copse.safetensors": safetensors,
               "copse.conformance": conformance}
    for place, module in modules.items():
        for name in copse.__all__ if module is copse else vars(module):
            thing = getattr(module, name)
            if name.startswith("_") or not callable(thing) or not getattr(thing, "__module__", "").startswith("copse."):
                continue
            if module is not copse and thing.__module__ != module.__name__:
                continue
            if isinstance(thing, type) and issubclass(thing, Exception):
                continue
            yield f"{place}.{name}", thing
            if isinstance(thing, type):
                for method, f in vars(thing).items():
                    if not method.startswith("_") and callable(getattr(thing, method)):
                        yield f"{place}.{name}.{method}", getattr(thing, method)


class Checkers(InFolder):
    """mypy and pyright, as an application's own check runs them."""

    def setUp(self):
        super().setUp()
        shutil.copytree(os.path.dirname(copse.__file__), self.folder / "copse",
                        ignore=shutil.ignore_patterns("lib", "bin", "share", "__pycache__"))

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=self.folder,
                              env=os.environ | {"MYPYPATH": str(self.folder)})

    def mypy(self, *arguments):
        if importlib.util.find_spec("mypy") is None:
            self.skipTest("mypy is not installed")
        return self.run_tool("mypy", f"--config-file={PACKAGE / 'pyproject.toml'}",
                             f"--cache-dir={self.folder / 'cache'}", *arguments)

    def errors_by_mypy(self, source):
        (self.folder / "program.py").write_text(source)
        run = self.mypy("--strict", "program.py")
        return {int(line) for line in re.findall(r"^program\.py:(\d+): error: ", run.stdout, flags=re.M)}

    def errors_by_pyright(self, source):
        if importlib.util.find_spec("pyright") is None:
            self.skipTest("pyright is not installed")
        (self.folder / "program.py").write_text(source)
        (self.folder / "pyrightconfig.json").write_text(json.dumps({
            "include": ["program.py"], "reportMissingImports": "none", "reportUnusedExpression": "none"}))
        run = self.run_tool("pyright", "--outputjson")
        try:
            found = json.loads(run.stdout[run.stdout.index("{"):])
        except ValueError:
            self.skipTest("pyright does not start")
        return {d["range"]["start"]["line"] + 1 for d in found["generalDiagnostics"] if d["severity"] == "error"}

    def judge(self, source, errors):
        lines = source.splitlines()
        for number, line in enumerate(lines, 1):
            with self.subTest(line):
                if line.endswith("# bad"):
                    self.assertIn(number, errors)
                else:
                    self.assertNotIn(number, errors)

    def test_mypy_finds_the_wrong_uses(self):
        self.judge(USES, self.errors_by_mypy(USES))

    def test_pyright_finds_the_wrong_uses(self):
        self.judge(USES, self.errors_by_pyright(USES))

    def test_every_public_function_refuses_an_unknown_option(self):
        """One whose type is unknown would take it."""
        source = "import copse\n" + "".join(f"{name}(unknown_option=1)  # bad\n" for name, _ in callables())
        self.assertGreater(source.count("\n"), 250)
        self.judge(source, self.errors_by_mypy(source))

    def test_the_package_and_the_examples(self):
        run = self.mypy("-p", "copse")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for path in sorted((PACKAGE / "examples").glob("*.py")):
            with self.subTest(path.name):
                run = self.mypy("--allow-untyped-defs", "--check-untyped-defs", "--ignore-missing-imports", str(path))
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


class AtRunTime(unittest.TestCase):
    def test_a_misspelt_option_is_a_type_error_with_the_right_name(self):
        strategy = copse.Strategy("host")
        data = copse.Dataset({"x": [1.0]})

        def loss(inputs):
            self.fail("never called")

        for call, where, wrong, right in (
                (lambda: copse.Trainer(strategy, loss, learnin_rate=0.1), "Trainer", "learnin_rate", "learning_rate"),
                (lambda: copse.Trainer(strategy, loss, clip_norms=1), "Trainer", "clip_norms", "clip_norm"),
                (lambda: copse.TrainStep(strategy, loss, weight_deca=1), "TrainStep", "weight_deca", "weight_decay"),
                (lambda: copse.TowerOptimizer(strategy, "sgd", momentun=1), "TowerOptimizer", "momentun", "momentum"),
                (lambda: copse.TowerOptimizer(strategy, lambda: {"learning_rte": 1}).kind,
                 "TowerOptimizer", "learning_rte", "learning_rate"),
                (lambda: copse.Strategy("host", redution="tree"), "Strategy", "redution", "reduction"),
                (lambda: strategy.variable("w", shap=(1,)), "Strategy.variable", "shap", "shape"),
                (lambda: data.batches(1, shufle=False), "Dataset.batches", "shufle", "shuffle"),
                (lambda: copse.Dataset.open("x.csv", labl="y"), "Dataset.open", "labl", "label")):
            with self.assertRaisesRegex(TypeError, rf"^{where}\(\) got .* '{wrong}': did you mean '{right}'\?$"):
                call()
        with self.assertRaisesRegex(TypeError, r"'colour'$"):
            copse.Dataset.open("x.csv", colour="red")

    def test_every_parameter_has_a_type(self):
        for name, thing in callables():
            function = thing.__init__ if isinstance(thing, type) else thing
            if not inspect.isfunction(inspect.unwrap(function)):
                continue
            for p in inspect.signature(function).parameters.values():
                with self.subTest(f"{name}: {p.name}"):
                    if p.name == "self":
                        continue
                    self.assertIsNot(p.annotation, p.empty)
                    if p.kind is p.VAR_KEYWORD and name not in ("copse.Function", "copse.Strategy.map"):
                        self.assertRegex(p.annotation, r"^Unpack\[\w+\]$")

    def test_names_of_options_are_the_library_s(self):
        from copse import cluster, data, distributed, replica, step, strategy, tensor, trainer
        for type_, table in (
                (options.Optimizer, trainer.OPTIMIZERS), (options.Layout, trainer.LAYOUTS),
                (options.Averaging, trainer.LOSS_REDUCTIONS), (options.Averaging, ops.AVERAGINGS),
                (options.Averaging, replica.OPERATIONS), (options.Reduction, ops.REDUCTIONS),
                (options.Reduction, step.OUTPUT_REDUCTIONS), (options.Activation, ops.ACTIVATIONS),
                (options.StrategyKind, strategy.KINDS), (options.GradientReduction, strategy.REDUCTIONS),
                (options.Transfer, strategy.TRANSFERS), (options.Initializer, strategy.INITIALIZERS),
                (options.Synchronization, strategy.SYNCHRONIZATIONS), (options.Aggregation, strategy.AGGREGATIONS),
                (options.InputPolicy, distributed.POLICIES), (options.SplitRule, distributed.RULES),
                (options.Engine, cluster.ENGINES), (options.Task, data.TASKS), (options.Scale, data.SCALES),
                (options.Header, data.HEADERS), (options.Tokens, data.TOKENS), (options.TextRows, data.TEXT_ROWS),
                (options.Missing, data.MISSING), (options.Unknown, data.UNKNOWN), (options.Tier, conformance.TIERS),
                (options.Mode, conformance.MODES), (options.DType, tensor._NAMES.values())):
            self.assertEqual(sorted(get_args(type_)), sorted(table))

    def test_settings_of_optimizers_are_the_library_s(self):
        given_otherwise = {"kind", "learning_rate", "schedule", "schedule_user", "groups", "reserved"}
        fields = {name for name, _ in ffi.typeof("struct copse_optimizer_params").fields}
        self.assertEqual(set(options.OptimizerOptions.__annotations__), fields - given_otherwise)


if __name__ == "__main__":
    unittest.main()
