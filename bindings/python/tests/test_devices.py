# SPDX-License-Identifier: MIT
"""Devices and conformance."""
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import copse
from copse import _library
from rig import InFolder


class Devices(unittest.TestCase):
    def test_found(self):
        found = {d.id: d for d in copse.devices()}
        self.assertEqual(found["host:0"].kind, "reference")
        self.assertTrue(found["host:0"].is_usable)
        self.assertEqual(copse.select("host"), ["host:0"])
        self.assertEqual([d.id for d in found.values() if d.is_auto], copse.select("auto"))
        self.assertTrue(all(d.auto_reason for d in found.values()))

    def test_conformance(self):
        cases = []
        counts = copse.conformance.run("host:0", ops="softmax", modes=["run"], on_case=cases.append)
        self.assertEqual(set(counts), {"PASS"})
        self.assertEqual(len(cases), counts["PASS"])
        self.assertEqual(cases[0].op, "softmax")
        with self.assertRaises(copse.errors.ArgumentError):
            copse.conformance.run("host:0", ops="no such op")

        def stop(case):
            raise KeyError(case.op)

        with self.assertRaises(KeyError):
            copse.conformance.run("host:0", ops="softmax", on_case=stop)


class WithoutTheProver(InFolder):
    """A package or installation that leaves out libcopse-conformance."""

    def python(self, script):
        """Run a script over a folder that has libcopse alone."""
        given = os.environ.get("COPSE_LIBRARY") or _library._candidates("copse")[0]
        if not Path(given).exists():
            self.skipTest(f"the library is no file: {given}")
        alone = self.folder / "libcopse.so.0.1"
        shutil.copy(given, alone)
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                              env={**os.environ, "COPSE_LIBRARY": str(alone)})

    def test_training_works_and_conformance_says_what_is_missing(self):
        done = self.python("""
import copse
assert [d.id for d in copse.devices() if d.id == "host:0"]
train, test = copse.Dataset.open(copse.DIGITS).split(seed=1)
model = copse.Model(copse.Strategy("host"), train, "dense out")
copse.Trainer(model.strategy, model, learning_rate=0.01).fit(train.batches(64, seed=1), epochs=1)
try:
    copse.conformance.run("host:0", ops="softmax")
except ImportError as e:
    print(e)
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\Aconformance needs the library copse-conformance, of the same build as the Copse "
                                      r"library and beside it; it cannot be loaded: [^\n]*libcopse-conformance[^\n]*\n\Z")


if __name__ == "__main__":
    unittest.main()
