# SPDX-License-Identifier: MIT
"""The page, the examples, and the types that they declare."""
import contextlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import copse
from rig import InFolder, PACKAGE


class Documents(unittest.TestCase):
    """The programs of the page and the folder of examples run, and do what they say."""

    def run_program(self, source, name):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        before = os.getcwd()
        os.chdir(folder.name)
        try:
            scope = {"__name__": "__main__"}
            exec(compile(source, name, "exec"), scope)
            return scope, {p.name for p in Path(".").iterdir()}
        finally:
            os.chdir(before)

    def test_the_examples_of_the_page(self):
        page = (PACKAGE / "README.md").read_text()
        source, of_models = re.findall(r"```python\n(.*?)```", page, flags=re.S)
        self.assertLessEqual(len([line for line in source.splitlines() if line.strip()]), 20)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            scope, files = self.run_program(source, "README.md")
        self.assertGreaterEqual(float(re.search(r"'accuracy': ([0-9.]+)", out.getvalue()).group(1)), 0.97)
        self.assertEqual(files, {"digits.safetensors"})
        with contextlib.redirect_stdout(io.StringIO()) as out:
            scope, files = self.run_program(of_models, "README.md")
        accuracy, digit = out.getvalue().split()
        self.assertGreaterEqual(float(accuracy), 0.97)
        self.assertIn(digit, [str(d) for d in range(10)])
        self.assertEqual(files, {"digits.safetensors"})

    def test_digits_example(self):
        path = PACKAGE / "examples" / "digits.py"
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.run_program(path.read_text(), str(path))
        self.assertIn("epoch 30 loss", out.getvalue())

    def test_live_plot_example(self):
        try:
            import matplotlib
        except ImportError:
            self.skipTest("matplotlib is not installed")
        matplotlib.use("Agg")
        path = PACKAGE / "examples" / "live_plot.py"
        scope, files = self.run_program(path.read_text(), str(path))
        self.assertEqual(files, {"loss.png"})
        self.assertLess(scope["losses"][-1], 0.05)


@unittest.skipIf(importlib.util.find_spec("mypy") is None, "mypy is not installed")
class Types(InFolder):
    """mypy finds no error in the package and in the examples, which use it as an application does."""

    def check(self, *arguments):
        run = subprocess.run([sys.executable, "-m", "mypy", f"--config-file={PACKAGE / 'pyproject.toml'}",
                              f"--cache-dir={self.folder / 'cache'}", *arguments],
                             capture_output=True, text=True, cwd=self.folder, env=os.environ | {"MYPYPATH": str(self.folder)})
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_of_the_package_and_the_examples(self):
        shutil.copytree(os.path.dirname(copse.__file__), self.folder / "copse",
                        ignore=shutil.ignore_patterns("lib", "bin", "share", "__pycache__"))
        self.check("-p", "copse")
        for path in sorted((PACKAGE / "examples").glob("*.py")):
            with self.subTest(path.name):
                self.check("--allow-untyped-defs", "--check-untyped-defs", str(path))


if __name__ == "__main__":
    unittest.main()
