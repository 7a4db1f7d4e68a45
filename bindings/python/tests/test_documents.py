# SPDX-License-Identifier: MIT
"""The page and the examples."""
import contextlib
import io
import itertools
import os
import re
import tempfile
import unittest
from pathlib import Path

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

    def test_rows_from_memory_in_eight_lines(self):
        docs = PACKAGE.parents[1]
        source, = re.findall(r"```python\n(.*?)```", (docs / "docs" / "use-a-model.md").read_text(), flags=re.S)
        self.assertEqual(len(source.splitlines()), 8)
        table = docs / "examples" / "data" / "flowers.csv"
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.run_program(source.replace('"flowers.csv"', repr(str(table))), "use-a-model.md")
        tulip = [float(row.strip("[]").split()[1]) for row in out.getvalue().splitlines()[-6:]]
        self.assertTrue(tulip[0] < 0.2 and tulip[5] > 0.8 and tulip == sorted(tulip), tulip)

    def test_the_examples_of_the_pages(self):
        pages = {page: re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S)
                 for page in (PACKAGE / "README.md", PACKAGE.parents[1] / "README.md")}
        self.assertEqual([len(blocks) for blocks in pages.values()], [4, 1])
        for source in itertools.chain(*pages.values()):
            with self.subTest(source):
                self.assertLessEqual(len(source.splitlines()), 20)
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    scope, files = self.run_program(source, "README.md")
                if "@copse.function" in source:
                    self.assertEqual((out.getvalue(), files), ("2.5\n", set()))
                    continue
                self.assertGreaterEqual(float(re.search(r"[01]\.[0-9]+", out.getvalue()).group(0)), 0.97)
                self.assertEqual(files, {"digits.safetensors"})
                if "predict" in source:
                    self.assertRegex(out.getvalue(), r"\b[0-9]\n$")

    def test_digits_example(self):
        path = PACKAGE / "examples" / "digits.py"
        with contextlib.redirect_stderr(io.StringIO()) as out:
            with contextlib.redirect_stdout(io.StringIO()):
                self.run_program(path.read_text(), str(path))
        self.assertIn("epoch 30/30  loss 0.0", out.getvalue())

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


if __name__ == "__main__":
    unittest.main()
