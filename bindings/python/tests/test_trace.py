# SPDX-License-Identifier: MIT
"""Traces: a file for a `with` statement, and what it says."""
import json
import unittest

import copse
from rig import InFolder, perceptron, toy


def small_trainer():
    strategy = copse.Strategy("host", kind="one_device")
    return copse.Trainer(strategy, perceptron(strategy, hidden=8, classes=3, features=4))


class Traces(InFolder):
    def test_a_fit_is_in_its_trace(self):
        x, y = toy(64)
        trainer = small_trainer()
        with copse.trace("trace.json", worker=2) as t:
            for _ in range(5):
                trainer.step({"x": x, "y": y})
        with open("trace.json") as file:
            events = json.load(file)["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        self.assertEqual(t.summary.spans, len(spans))
        self.assertEqual([event["args"]["step"] for event in spans if event["cat"] == "step"], [1, 2, 3, 4, 5])
        self.assertEqual({event["pid"] for event in events}, {2})
        self.assertEqual((t.summary.steps, t.summary.dropped), (5, 0))
        self.assertAlmostEqual(sum(t.summary[5:12]), 1, places=3)

    def test_few_spans_are_kept_and_the_others_counted(self):
        x, y = toy(64)
        trainer = small_trainer()
        with copse.trace("trace.json", events=3) as t:
            trainer.step({"x": x, "y": y})
        self.assertEqual(t.summary.spans, 3)
        self.assertGreater(t.summary.dropped, 0)

    def test_an_exception_passes_and_leaves_the_file(self):
        with self.assertRaises(ZeroDivisionError):
            with copse.trace("trace.json"):
                1 / 0
        with open("trace.json") as file:
            json.load(file)

    def test_wrong_uses_are_refused(self):
        t = copse.trace("trace.json")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "not ended"):
            t.summary
        with self.assertRaisesRegex(copse.Error, "missing/trace.json"):
            with copse.trace("missing/trace.json"):
                pass
        with self.assertRaisesRegex(copse.errors.ArgumentError, "0 or more"):
            copse.trace("trace.json", events=-1)
        with copse.trace("trace.json"):
            with self.assertRaisesRegex(copse.Error, "traced already"):
                copse.trace("other.json").__enter__()


if __name__ == "__main__":
    unittest.main()
