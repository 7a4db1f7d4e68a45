# SPDX-License-Identifier: MIT
"""test_referee.py: what the referee of gradients finds, on numbers that are made up."""
import unittest

import numpy as np

from arena_referee import FLOOR, LIMIT, gate, is_row_right, judge
from arena_sides import Result

NAMES = {"a": (40, 30), "b": (30,), "tiny": (5,)}


def gradients():
    values = np.random.default_rng(3)
    double = {n: values.standard_normal(shape) for n, shape in NAMES.items()}
    double["tiny"] *= 1e-11
    single = {n: g.astype(np.float32) for n, g in double.items()}
    return {n: g.copy() for n, g in single.items()}, single, double


class Referee(unittest.TestCase):
    def test_rounded_gradients_are_right(self):
        verdict = judge(*gradients())
        self.assertTrue(verdict.is_right)
        self.assertAlmostEqual(verdict.norm, verdict.true_norm, delta=1e-5)

    def test_a_tensor_is_named_from_the_bound_on(self):
        for factor, is_right in ((1 + FLOOR / 2, True), (1 + 2 * FLOOR, False), (1.02, False), (-1, False), (0, False)):
            got, single, double = gradients()
            got["b"] = double["b"] * factor
            self.assertEqual(judge(got, single, double).wrong, [] if is_right else ["b"], factor)

    def test_one_element_is_enough(self):
        for value in (np.nan, np.inf, -np.inf, 3.0):
            got, single, double = gradients()
            got["a"][39, 29] = value
            self.assertEqual(judge(got, single, double).wrong, ["a"], value)

    def test_two_tensors_are_not_exchanged(self):
        got, single, double = gradients()
        got["a"] = got["a"][::-1]
        self.assertEqual(judge(got, single, double).wrong, ["a"])

    def test_the_worst_comes_first(self):
        got, single, double = gradients()
        got["a"], got["b"] = got["a"] * 1.001, got["b"] * 1.02
        self.assertEqual(judge(got, single, double).wrong, ["b", "a"])

    def test_a_gradient_of_rounding_alone_counts_by_the_norm_of_all(self):
        got, single, double = gradients()
        got["tiny"] = np.zeros(5, np.float32)
        self.assertTrue(judge(got, single, double).is_right)
        got["tiny"][2] = 1e-3
        self.assertEqual(judge(got, single, double).wrong, ["tiny"])

    def test_tensors_must_be_there_with_their_shapes(self):
        got, single, double = gradients()
        del got["b"]
        self.assertEqual(judge(got, single, double).problems, ["b: no gradient"])
        got, single, double = gradients()
        got["a"] = got["a"].T
        self.assertEqual(judge(got, single, double).problems, ["a: (30, 40) instead of (40, 30)"])
        got, single, double = gradients()
        got["c"] = got["b"]
        self.assertEqual(judge(got, single, double).problems, ["c: unknown"])

    def test_no_verdict_where_rounding_decides(self):
        for noise in (2 * LIMIT, np.nan):
            got, single, double = gradients()
            single["b"] = single["b"] * np.float32(1 + noise)
            self.assertFalse(judge(got, single, double).is_right)

    def test_no_verdict_on_zeros_and_on_infinities(self):
        for value in (0, np.inf, np.nan):
            all_equal = {n: np.full(shape, value) for n, shape in NAMES.items()}
            self.assertFalse(judge(all_equal, all_equal, all_equal).is_right, value)
        self.assertFalse(judge({}, {}, {}).is_right)

    def test_the_gate_knows_loss_and_logits_alone(self):
        def result(loss, logits):
            return Result(loss, np.array(logits), {}, 0, [], [])
        want = result(2.0, [1.0, -4.0])
        for loss, logits, agrees in ((2.09, [1.1, -4], True), (2.11, [1, -4], False), (2, [1.3, -4], False),
                                     (np.nan, [1, -4], False), (2, [1, np.nan], False)):
            self.assertEqual(bool(gate(result(loss, logits), want)), agrees, (loss, logits))

    def test_a_row_needs_gradients_and_loss_and_logits(self):
        got, single, double = gradients()
        want, right = Result(2.0, np.ones(16), {}, 0, [], []), judge(got, single, double)
        got["b"] = double["b"] * 1.02
        for verdict, loss, logit, is_right in ((right, 2, 1, True), (right, 3, 1, False), (right, np.nan, 1, False),
                                               (right, 2, 1.2, False), (judge(got, single, double), 2, 1, False)):
            row = Result(loss, np.full(16, logit), {}, 0, [], [])
            self.assertIs(is_row_right(verdict, row, want), is_right, (loss, logit))


if __name__ == "__main__":
    unittest.main()
