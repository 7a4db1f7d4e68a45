# SPDX-License-Identifier: MIT
"""The page, the examples, and the types that they declare."""
import contextlib
import io
import os
import re
import tempfile
import unittest
from pathlib import Path

import copse
from rig import PACKAGE


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


class Types(unittest.TestCase):
    """mypy finds no error in the package and in the examples, which use it as an application does."""

    def check(self, *arguments):
        try:
            import mypy.api
        except ImportError:
            self.skipTest("mypy is not installed")
        with tempfile.TemporaryDirectory() as cache:
            out, err, code = mypy.api.run([f"--config-file={PACKAGE / 'pyproject.toml'}", f"--cache-dir={cache}",
                                           *arguments])
        self.assertEqual(code, 0, out + err)

    def test_of_the_package(self):
        self.check(os.path.dirname(copse.__file__))

    def test_of_the_examples(self):
        before = os.environ.get("MYPYPATH", "")
        os.environ["MYPYPATH"] = os.path.dirname(os.path.dirname(copse.__file__))
        self.addCleanup(os.environ.update, MYPYPATH=before)
        for path in sorted((PACKAGE / "examples").glob("*.py")):
            with self.subTest(path.name):
                self.check("--allow-untyped-defs", "--check-untyped-defs", str(path))


if __name__ == "__main__":
    unittest.main()
