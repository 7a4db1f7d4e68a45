# SPDX-License-Identifier: MIT
"""The judges' own rules: what differs, what a convention excuses, and the exit code."""
import contextlib
import io
import tempfile
import unittest

import numpy as np

import judge
from copse import ops
from nearest_runs import nearest_run

X = np.array([-2, -0.5, 0, 0.5, 2], np.float32)


def report_of(conventions, cases, is_whole=True):
    """The exit code and the text of a report."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write("# a comment\n" + conventions)
        f.flush()
        report = judge.Report("Test", judge.Conventions(f.name))
    for case, differences in cases.items():
        if isinstance(differences, str):
            report.skip(differences)
        else:
            report.judged(case, differences)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = report.end(is_whole)
    return code, out.getvalue()


class Runs(unittest.TestCase):
    """Losses of runs from rounded weights, with the limit 1e-4."""

    def number(self, got, *runs):
        asked = []

        def run(i):
            asked.append(i)
            return runs[i]
        return nearest_run(got, run, len(runs), 1e-4), max(asked)

    def test_the_given_weights_come_first_and_need_no_other_run(self):
        self.assertEqual(self.number([2, 1.00005], [2, 1], [2, 1.00005]), (0, 0))

    def test_a_run_after_a_kink_judges(self):
        self.assertEqual(self.number([2, 1.01], [2, 1], [2, 1.00001], [2, 1.01], [2, 1]), (2, 2))

    def test_without_a_kink_the_given_weights_count_alone(self):
        self.assertEqual(self.number([2, 1.00015], [2, 1], [2, 1.00009], [2, 1.00008]), (0, 2))

    def test_a_kink_of_another_run_is_evidence(self):
        self.assertEqual(self.number([2, 1.00015], [2, 1], [2, 1.00009], [2, 1.01])[0], 1)

    def test_a_loss_that_no_run_has_is_wrong(self):
        for got in ([2, 1.02], [2, np.nan], [np.inf, 1], [1.5, 1.01]):
            self.assertEqual(self.number(got, [2, 1], [2, 1.01], [2, 1])[0], 0, got)


class Bounds(unittest.TestCase):
    def test_special_values_equal_themselves_only(self):
        special = np.array([np.nan, np.inf, -np.inf, 0], np.float32)
        self.assertIsNone(judge.difference(special, special, judge.exact))
        for i, other in enumerate((0, 1, np.inf, np.nan)):
            changed = special.copy()
            changed[i] = other
            self.assertIn("1 of 4", judge.difference(changed, special, judge.ulp(16)))

    def test_ulp_counts_the_distance_to_the_next_number(self):
        one, next_one = np.ones(1, np.float32), np.nextafter(np.ones(1, np.float32), 2, dtype=np.float32)
        self.assertIsNone(judge.difference(next_one, one, judge.ulp(1)))
        self.assertIn("as [0]", judge.difference(next_one, one, judge.exact))
        self.assertIn("2 of the bound", judge.difference(np.nextafter(next_one, 2, dtype=np.float32), one, judge.ulp(1)))

    def test_ratio_is_of_the_magnitude(self):
        want, got = np.zeros(2), np.array([0, 3 * judge.UNIT])
        self.assertIsNone(judge.difference(got, want, judge.ratio(1, [3, 3])))
        self.assertIn("[1]", judge.difference(got, want, judge.ratio(1, [3, 1])))

    def test_magnitudes_are_computed_where_they_are_needed(self):
        want = np.array([[1, 2, 0], [4, 0, 6]], np.float64).T  # not contiguous, as PyTorch's gradients are
        got = want + 3 * judge.UNIT * (want == 0)
        asked = []

        def magnitude(index):
            asked.append(index)
            return 3
        self.assertIsNone(judge.difference(got, want, judge.refined(1, magnitude)))
        self.assertEqual(asked, [3, 4])
        self.assertIn("2 of 6", judge.difference(got, want, judge.refined(0.9, magnitude)))
        nan = want.copy()
        nan[0, 0] = np.nan
        self.assertIn("1 of 6", judge.difference(nan, want, judge.refined(1, magnitude)))

    def test_shapes_must_be_equal(self):
        self.assertIn("shape [1, 5], expected [5]", judge.difference(X[None], X, judge.exact))

    def test_errors_declared_with_the_kernels(self):
        self.assertEqual(judge.DECLARED["exp"], (3, 4))
        self.assertEqual(judge.DECLARED["div"], (3, 7))
        self.assertGreaterEqual(len(judge.DECLARED), 26)


class Reports(unittest.TestCase):
    def test_all_agree(self):
        code, text = report_of("", {"a": {"host:0": None}, "b": "op missing: B", "c": "op missing: B"})
        self.assertEqual(code, 0)
        self.assertIn("3 cases, 1 run, 1 agreed, 0 differing, 2 not run", text)
        self.assertIn("2 not run: op missing: B", text)

    def test_a_difference_needs_a_reason(self):
        cases = {"a": {"host:0": None, "opencl:0": "1 of 5"}}
        code, text = report_of("", cases)
        self.assertEqual(code, 1)
        self.assertIn("FAILED a on opencl:0: 1 of 5", text)
        code, text = report_of("opencl:* | a | NaN | here", cases)
        self.assertEqual(code, 0)
        self.assertIn("differs by convention: NaN | here\n    a on opencl:0", text)
        self.assertEqual(report_of("vulkan:* | a | NaN", cases)[0], 1)

    def test_a_documented_case_that_agrees_fails(self):
        code, text = report_of("* | a | NaN", {"a": {"host:0": None}})
        self.assertEqual(code, 1)
        self.assertIn("FAILED a on host:0: it agrees", text)

    def test_a_convention_that_no_case_needs_fails(self):
        code, text = report_of("* | z* | NaN", {"a": {"host:0": None}})
        self.assertEqual(code, 1)
        self.assertIn("FAILED no case needs the convention: * | z* | NaN", text)
        self.assertEqual(report_of("* | z* | NaN", {"a": {"host:0": None}}, is_whole=False)[0], 0)


class Cases(unittest.TestCase):
    """Cases on the devices that tests use."""

    def judge_one(self, build):
        opened, _ = judge.open_devices()
        with tempfile.NamedTemporaryFile("w") as f:
            report = judge.Report("Test", judge.Conventions(f.name))
        judge.judge_case(report, "case", {"host:0": opened["host:0"]}, build)
        return report

    def test_results_are_compared(self):
        def build(want):
            return lambda graph: ([ops.square(graph.input(X))], [want], [judge.ulp(1)])
        self.assertEqual(self.judge_one(build(X * X)).agreed, 1)
        wrong = self.judge_one(build(X * X + 1e-5))
        self.assertEqual((wrong.run, wrong.agreed, len(wrong.unexplained)), (1, 0, 1))

    def test_types_and_empty_tensors(self):
        def build(graph):
            flags = graph.input(np.array([True, False]))
            empty = graph.input(np.zeros((2, 0), np.float32))
            self.assertEqual((flags.dtype, graph.input(np.array([2], np.int64)).dtype), ("int32", "int32"))
            return [ops.where(flags, 1.0 * ops.cast(flags, "float32"), 7), ops.sum(empty, 1)], [
                np.array([1, 7]), np.zeros(2)], [judge.exact] * 2
        self.assertEqual(self.judge_one(build).agreed, 1)

    def test_what_copse_does_not_have_is_not_run(self):
        for values in np.array([0.1]), np.array([1 << 40]), np.zeros([1] * 7, np.float32):
            report = self.judge_one(lambda graph, a=values: ([graph.input(a)], [a], [judge.exact]))
            self.assertEqual((report.cases, report.run), (1, 0))

    def test_a_refusal_is_a_difference(self):
        report = self.judge_one(lambda graph: ([ops.add(graph.input(X), graph.input(X[:2]))], [X], [judge.exact]))
        self.assertIn("refused: add", report.unexplained[0])


if __name__ == "__main__":
    unittest.main()
