# SPDX-License-Identifier: MIT
"""The custom loop of tf.distribute: the same cases and numbers on Copse and on TensorFlow. COPSE_TEST_FRAMEWORK=tensorflow
runs them on TensorFlow, which needs no Copse (README.md has the command)."""
import contextlib
import io
import os
import re
import sys
import unittest
from pathlib import Path

import numpy as np

FRAMEWORK = os.environ.get("COPSE_TEST_FRAMEWORK", "copse")
if FRAMEWORK == "tensorflow":
    import framework_tensorflow as d
else:
    import framework_copse as d

COUNTS = (1, 2, 3)  # replicas


class Case(unittest.TestCase):
    def each(self, *counts):
        """A strategy of each number of replicas."""
        for n in counts or COUNTS:
            st = d.strategy(n)
            try:
                yield n, st
            except GeneratorExit:  # a check has failed
                print(f"with {n} replicas:", file=sys.stderr)
                raise
            finally:
                d.close(st)

    def numbers(self, st, n, dtype=np.float32):
        """1, 2, ... on the replicas."""
        return d.per_replica(st, [np.asarray(r + 1, dtype) for r in range(n)])

    def same(self, found, expected, tolerance=1e-6):
        np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=tolerance, atol=tolerance)

    def locals(self, st, found, expected):
        """The components of a result; one where all are the same object."""
        parts = d.local(st, found)
        self.assertIn(len(parts), (1, len(expected)))
        for part, one in zip(parts, expected):
            self.same(part, one)


class Contexts(Case):
    def test_outside_of_scopes_there_is_no_strategy(self):
        self.assertFalse(d.has_strategy())
        self.assertFalse(d.in_cross_replica_context())

    def test_a_scope_sees_all_replicas(self):
        for n, st in self.each():
            with st.scope():
                self.assertTrue(d.has_strategy())
                self.assertTrue(d.in_cross_replica_context())
                self.assertIsNone(d.replica_context())
                self.assertIs(d.current_strategy(), st)
                self.assertEqual(d.replicas(st), n)
            self.assertFalse(d.has_strategy())

    def test_a_scope_can_be_entered_again(self):
        for _n, st in self.each():
            with st.scope():
                with st.scope():
                    self.assertTrue(d.in_cross_replica_context())
                self.assertTrue(d.in_cross_replica_context())
            self.assertFalse(d.in_cross_replica_context())

    def test_replicas_are_numbered(self):
        for n, st in self.each():
            seen = []

            def replica():
                context = d.replica_context()
                seen.append((d.replica_id(context), d.replicas(context)))
                self.assertFalse(d.in_cross_replica_context())
                self.assertTrue(d.has_strategy())
                self.assertIs(d.current_strategy(), st)

            st.run(replica)
            self.assertEqual(seen, [(r, n) for r in range(n)])

    def test_a_merge_call_sees_all_replicas(self):
        for n, st in self.each():
            seen = []

            def merge(strategy):
                seen.append((strategy is st, d.in_cross_replica_context(), d.replica_context()))

            def replica():
                d.replica_context().merge_call(merge)
                self.assertFalse(d.in_cross_replica_context())
                self.assertIsNotNone(d.replica_context())

            st.run(replica)
            self.assertEqual(seen, [(True, True, None)])

    def test_an_update_sees_all_replicas(self):
        for n, st in self.each():
            with st.scope():
                v = d.variable(1.0)
                seen = []

                def change(v):
                    seen.append((d.in_cross_replica_context(), d.replica_context()))

                d.update(st, v, change)
            self.assertEqual(seen, [(True, None)] * n)

    def test_contexts_end_with_an_exception(self):
        for _n, st in self.each():
            with self.assertRaises(KeyError):
                with st.scope():
                    raise KeyError("here")
            self.assertFalse(d.has_strategy())


class Runs(Case):
    def test_replicas_get_their_components(self):
        for n, st in self.each():
            result = st.run(lambda x, y, z: x * y + z, (self.numbers(st, n), np.float32(10)), {"z": np.float32(1)})
            self.locals(st, result, [10 * (r + 1) + 1 for r in range(n)])

    def test_keyword_arguments_alone(self):
        for n, st in self.each():
            self.locals(st, st.run(lambda x: x + x, kwargs={"x": self.numbers(st, n)}), [2 * r + 2 for r in range(n)])

    def test_structures_keep_their_form(self):
        for n, st in self.each():
            def replica(batch):
                a, (b, c) = batch["a"], batch["rest"]
                self.assertIsInstance(batch["rest"], tuple)
                return {"sum": a + b, "pair": (b, [c])}

            x = self.numbers(st, n)
            result = st.run(replica, ({"a": x, "rest": (x, np.float32(5))},))
            self.assertEqual(set(result), {"sum", "pair"})
            self.assertIsInstance(result["pair"], tuple)
            self.assertIsInstance(result["pair"][1], list)
            self.locals(st, result["sum"], [2 * r + 2 for r in range(n)])
            self.locals(st, result["pair"][0], [r + 1 for r in range(n)])
            self.locals(st, result["pair"][1][0], [5] * n)

    def test_nothing_and_texts_go_through(self):
        for n, st in self.each():
            self.assertIsNone(st.run(lambda: None))
            x, none, text = st.run(lambda x, text: (x, None, text), (self.numbers(st, n), "train"))
            self.assertIsNone(none)
            self.assertEqual(text, "train")
            self.locals(st, x, [r + 1 for r in range(n)])

    def test_results_add_up_over_a_loop(self):
        for n, st in self.each():
            total = 0.0
            for i in range(10):
                x = d.per_replica(st, [np.float32(i)] * n)
                total += float(st.reduce("mean", st.run(lambda x: x * 2, (x,)), axis=None))
            self.assertEqual(total, 90)

    def test_an_exception_in_a_replica_reaches_the_caller(self):
        for n, st in self.each():
            def replica():
                if d.replica_id(d.replica_context()) == n - 1:
                    raise KeyError("here")

            with self.assertRaisesRegex(KeyError, "here"):
                st.run(replica)
            self.assertFalse(d.has_strategy())
            self.locals(st, st.run(lambda x: x * 3, (np.float32(2),)), [6] * n)

    def test_types_stay(self):
        for n, st in self.each():
            for dtype in (np.int32, np.uint8, np.float32):
                parts = d.local(st, st.run(lambda x: [x, x], (self.numbers(st, n, dtype),))[1])
                self.assertEqual([(p.dtype, int(p)) for p in parts], [(dtype, r + 1) for r in range(n)])

    def test_quotients(self):
        for n, st in self.each():
            self.locals(st, st.run(lambda x: 1.0 / x + x / 4.0, (self.numbers(st, n),)),
                        [1 / (r + 1) + (r + 1) / 4 for r in range(n)])


class Merges(Case):
    def test_replicas_meet_twice(self):
        for n, st in self.each():
            def replica(x):
                context = d.replica_context()
                first = context.merge_call(lambda strategy, v: strategy.reduce("sum", v, axis=None), (x,))
                return context.merge_call(lambda strategy, v: strategy.reduce("mean", v, axis=None), (first * x,))

            total = n * (n + 1) / 2
            self.locals(st, st.run(replica, (self.numbers(st, n),)), [total * total / n] * n)

    def test_arguments_are_in_the_order_of_replicas(self):
        for n, st in self.each():
            seen = []

            def merge(strategy, v, text):
                seen.extend(float(c) for c in d.local(strategy, v))
                seen.append(text)

            st.run(lambda x: d.replica_context().merge_call(merge, (x,), {"text": "end"}), (self.numbers(st, n),))
            self.assertEqual(seen, [r + 1 for r in range(n)] + ["end"])

    def test_each_replica_gets_its_part_of_the_result(self):
        for n, st in self.each():
            def replica(x):
                parts = d.replica_context().merge_call(lambda _st, v: {"own": v, "all": 7.0}, (x,))
                return parts["own"] * parts["all"]

            self.locals(st, st.run(replica, (self.numbers(st, n),)), [7 * (r + 1) for r in range(n)])

    def test_an_exception_in_a_merge_reaches_the_caller(self):
        for _n, st in self.each():
            def merge(_strategy):
                raise KeyError("merge")

            with self.assertRaisesRegex(KeyError, "merge"):
                st.run(lambda: d.replica_context().merge_call(merge))
            self.assertFalse(d.has_strategy())

    def test_different_numbers_of_merges_are_refused(self):
        for _n, st in self.each(2, 3):
            def replica():
                if d.replica_id(d.replica_context()) == 0:
                    d.replica_context().merge_call(lambda _st: None)

            with self.assertRaises(RuntimeError):
                st.run(replica)


class Reductions(Case):
    def test_all_reduce(self):
        for n, st in self.each():
            for op, expected in (("sum", n * (n + 1) / 2), ("mean", (n + 1) / 2)):
                result = st.run(lambda x: d.replica_context().all_reduce(op, x), (self.numbers(st, n),))
                self.locals(st, result, [expected] * n)

    def test_all_reduce_of_a_structure(self):
        for n, st in self.each():
            def replica(x):
                return d.replica_context().all_reduce("sum", [x, x * 2])

            a, b = st.run(replica, (self.numbers(st, n),))
            self.locals(st, a, [n * (n + 1) / 2] * n)
            self.locals(st, b, [n * (n + 1)] * n)

    def test_all_gather(self):
        for n, st in self.each():
            x = d.per_replica(st, [np.full((1, 2), r, np.float32) for r in range(n)])
            result = st.run(lambda x: d.replica_context().all_gather(x, axis=0), (x,))
            self.locals(st, result, [[[r, r] for r in range(n)]] * n)

    def test_sum_and_mean(self):
        for n, st in self.each():
            x = self.numbers(st, n)
            self.same(st.reduce("sum", x, axis=None), n * (n + 1) / 2)
            self.same(st.reduce("mean", x, axis=None), (n + 1) / 2)

    def test_sum_and_mean_along_an_axis(self):
        for n, st in self.each():
            x = d.per_replica(st, [np.arange(4, dtype=np.float32) + 4 * r for r in range(n)])
            self.same(st.reduce("sum", x, axis=0), sum(range(4 * n)))
            self.same(st.reduce("mean", x, axis=0), (4 * n - 1) / 2)
            x = d.per_replica(st, [np.full((2, 3), r + 1, np.float32) for r in range(n)])
            self.same(st.reduce("sum", x, axis=1), [3 * n * (n + 1) / 2] * 2)
            self.same(st.reduce("sum", x, axis=-1), [3 * n * (n + 1) / 2] * 2)

    def test_partial_batches_weigh_what_they_hold(self):
        for n, st in self.each():
            x = d.per_replica(st, [np.full(r + 1, r, np.float32) for r in range(n)])
            rows = n * (n + 1) / 2
            self.same(st.reduce("mean", x, axis=0), sum(r * (r + 1) for r in range(n)) / rows)

    def test_a_plain_value_is_its_mean(self):
        for n, st in self.each():
            x = st.run(lambda: 3.0)  # the same object on all replicas
            self.same(st.reduce("mean", x, axis=None), 3)

    def test_a_sum_of_one_plain_value_is_refused(self):
        for _n, st in self.each(2, 3):
            with st.scope(), self.assertRaises(ValueError):
                st.reduce("sum", np.float32(3), axis=None)

    def test_sums_of_whole_numbers(self):
        for n, st in self.each():
            self.assertEqual(int(st.reduce("sum", self.numbers(st, n, np.int32), axis=None)), n * (n + 1) // 2)

    def test_a_mirrored_variable_is_its_mean(self):
        for _n, st in self.each():
            with st.scope():
                v = d.variable([1.0, 2.0])
            self.same(st.reduce("mean", v, axis=None), [1, 2])

    def test_gather(self):
        for n, st in self.each():
            x = d.per_replica(st, [np.full((2, 1), r, np.float32) for r in range(n)])
            self.same(st.gather(x, axis=0), [[r] for r in range(n) for _ in range(2)])
            self.same(st.gather(x, axis=1), [list(range(n))] * 2)

    def test_gather_of_different_lengths(self):
        for n, st in self.each():
            x = d.per_replica(st, [np.full(r + 1, r, np.int32) for r in range(n)])
            self.same(st.gather(x, axis=0), [r for r in range(n) for _ in range(r + 1)])


class Variables(Case):
    AGGREGATES = {"sum": lambda n: n * (n + 1) / 2, "mean": lambda n: (n + 1) / 2, "only_first_replica": lambda n: 1}

    def combinations(self, synchronizations=("auto", "on_write"), aggregations=tuple(AGGREGATES)):
        """A variable of value 10 of each combination."""
        for n, st in self.each():
            for synchronization in synchronizations:
                for aggregation in aggregations:
                    with st.scope():
                        v = d.variable(10.0, synchronization, aggregation)
                    yield n, st, v, aggregation

    def test_replicas_assign_to_a_mirrored_variable(self):
        for n, st, v, aggregation in self.combinations():
            st.run(lambda x: v.assign(x) and None, (self.numbers(st, n),))
            expected = self.AGGREGATES[aggregation](n)
            self.same(v.numpy(), expected)
            self.same(d.components(st, v), [expected] * n)

    def test_replicas_add_to_a_mirrored_variable(self):
        for n, st, v, aggregation in self.combinations():
            st.run(lambda x: v.assign_add(x) and None, (self.numbers(st, n),))
            self.same(v.numpy(), 10 + self.AGGREGATES[aggregation](n))

    def test_replicas_subtract_from_a_mirrored_variable(self):
        for n, st, v, aggregation in self.combinations():
            st.run(lambda x: v.assign_sub(x) and None, (self.numbers(st, n),))
            self.same(v.numpy(), 10 - self.AGGREGATES[aggregation](n))

    def test_a_scope_assigns_to_all_components(self):
        for n, st, v, _aggregation in self.combinations(aggregations=("none", "sum", "mean", "only_first_replica")):
            with st.scope():
                v.assign(2.0)
                v.assign_add(3.0)
                v.assign_sub(1.0)
                self.same(v.numpy(), 4)
            self.same(d.components(st, v), [4] * n)

    def test_a_merge_call_assigns_to_all_components(self):
        for n, st, v, _aggregation in self.combinations(("on_write",), ("none", "sum")):
            def merge(strategy, x):
                v.assign(strategy.reduce("sum", x, axis=None))

            st.run(lambda x: d.replica_context().merge_call(merge, (x,)), (self.numbers(st, n),))
            self.same(d.components(st, v), [n * (n + 1) / 2] * n)

    def test_each_replica_has_its_own_value_of_an_on_read_variable(self):
        for n, st, v, aggregation in self.combinations(("on_read",)):
            def replica(x):
                v.assign_add(x)
                v.assign_sub(1.0)
                return v * 1.0

            self.locals(st, st.run(replica, (self.numbers(st, n),)), [10 + r for r in range(n)])
            self.same(d.components(st, v), [10 + r for r in range(n)])

    def test_reading_an_on_read_variable_aggregates(self):
        for n, st, v, aggregation in self.combinations(("on_read",)):
            st.run(lambda x: v.assign(x) and None, (self.numbers(st, n),))
            with st.scope():
                self.same(v.numpy(), self.AGGREGATES[aggregation](n))

    def test_assigning_a_sum_gives_each_replica_its_part(self):
        for n, st, v, _aggregation in self.combinations(("on_read",), ("sum",)):
            with st.scope():
                v.assign(6.0)
                self.same(v.numpy(), 6)
            self.same(d.components(st, v), [6 / n] * n)

    def test_assigning_a_mean_gives_each_replica_the_value(self):
        for n, st, v, _aggregation in self.combinations(("on_read",), ("mean", "only_first_replica")):
            with st.scope():
                v.assign(6.0)
            self.same(d.components(st, v), [6] * n)

    def test_a_scope_cannot_add_to_a_sum(self):
        for _n, st in self.each(2, 3):
            with st.scope():
                v = d.variable(10.0, "on_read", "sum")
                for change in (v.assign_add, v.assign_sub):
                    with self.assertRaises(ValueError):
                        change(1.0)

    def test_an_on_read_variable_without_aggregation_cannot_be_read_across_replicas(self):
        for _n, st in self.each(2, 3):
            with st.scope():
                v = d.variable(10.0, "on_read", "none")
            st.run(lambda x: v.assign(x) and None, (np.float32(1),))
            with st.scope(), self.assertRaises(ValueError):
                v.numpy()

    def test_whole_numbers(self):
        for n, st in self.each():
            with st.scope():
                v = d.variable(np.int32(10), "on_write", "sum", trainable=False)
            st.run(lambda x: v.assign_add(x) and None, (self.numbers(st, n, np.int32),))
            self.same(v.numpy(), 10 + n * (n + 1) // 2)

    def test_arithmetic_of_variables_in_replicas(self):
        for n, st in self.each():
            with st.scope():
                v = d.variable([1.0, 2.0])
            result = st.run(lambda x: (v * x - v) / v + 1.0, (self.numbers(st, n),))
            self.locals(st, result, [[r + 1, r + 1] for r in range(n)])

    def test_a_variable_that_replicas_return_is_the_variable(self):
        for n, st in self.each():
            with st.scope():
                v = d.variable([1.0, 2.0])
            self.same(st.run(lambda: v).numpy(), [1, 2])

    def test_update_changes_each_component(self):
        for n, st in self.each():
            with st.scope():
                v = d.variable(3.0)
                d.update(st, v, lambda v, x: v.assign(v * x) and None, (np.float32(2),))
            self.same(d.components(st, v), [6] * n)

    def test_update_in_a_merge_call(self):
        for n, st in self.each():
            with st.scope():
                v = d.variable(3.0)

            def merge(strategy, x):
                total = strategy.reduce("sum", x, axis=None)
                d.update(strategy, v, lambda v, t: v.assign_sub(t) and None, (total,))

            st.run(lambda x: d.replica_context().merge_call(merge, (x,)), (self.numbers(st, n),))
            self.same(d.components(st, v), [3 - n * (n + 1) / 2] * n)


class Input(Case):
    COLUMNS = {"x": np.arange(20, dtype=np.float32).reshape(10, 2), "id": np.arange(10, dtype=np.int32),
               "pixel": np.arange(10, dtype=np.uint8) * 20}

    def steps(self, st, data):
        return [[{name: d.local(st, batch[name])[r] for name in batch} for r in range(d.replicas(st))] for batch in data]

    def test_a_global_batch_is_split(self):
        for n, st in self.each():
            steps = self.steps(st, d.distribute(st, {"id": np.arange(12, dtype=np.int32)}, 6))
            expected = np.arange(12).reshape(2, n, 6 // n)
            self.assertEqual(len(steps), 2)
            for step, rows in zip(steps, expected):
                for part, own in zip(step, rows):
                    np.testing.assert_array_equal(part["id"], own)

    def test_types_and_columns_stay(self):
        for n, st in self.each(1, 2):
            for step in self.steps(st, d.distribute(st, self.COLUMNS, 2)):
                for part in step:
                    rows = part["id"]
                    self.assertEqual([part[k].dtype.name for k in ("x", "id", "pixel")], ["float32", "int32", "uint8"])
                    np.testing.assert_array_equal(part["x"], self.COLUMNS["x"][rows])
                    np.testing.assert_array_equal(part["pixel"], self.COLUMNS["pixel"][rows])

    def test_the_last_batch_may_be_smaller(self):
        for n, st in self.each(2):
            steps = self.steps(st, d.distribute(st, {"id": np.arange(11, dtype=np.int32)}, 4))
            self.assertEqual([[p["id"].tolist() for p in step] for step in steps],
                             [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10]]])

    def test_a_smaller_batch_is_split_evenly(self):
        for n, st in self.each(2):
            steps = self.steps(st, d.distribute(st, {"id": np.arange(13, dtype=np.int32)}, 8))
            self.assertEqual([p["id"].tolist() for p in steps[1]], [[8, 9, 10], [11, 12]])

    def test_a_replica_may_have_no_rows(self):
        for n, st in self.each(2):
            steps = self.steps(st, d.distribute(st, {"id": np.arange(5, dtype=np.int32)}, 4))
            self.assertEqual([p["id"].tolist() for p in steps[1]], [[4], []])

    def test_each_iteration_begins_again(self):
        for n, st in self.each():
            data = d.distribute(st, {"id": np.arange(6, dtype=np.int32)}, 6)
            for _ in range(2):
                self.assertEqual(len(self.steps(st, data)), 1)

    def test_a_loop_over_a_dataset(self):
        for n, st in self.each():
            total = 0.0
            for batch in d.distribute(st, self.COLUMNS, 6):
                y = st.run(lambda batch: batch["x"] * 2, (batch,))
                total += float(np.asarray(st.reduce("sum", y, axis=0)).sum())
            self.assertEqual(total, 2 * sum(range(20)))

    def test_batches_from_a_function(self):
        for n, st in self.each():
            steps = self.steps(st, d.distribute_from_function(st, {"id": np.arange(12, dtype=np.int32)}, 6))
            self.assertEqual(len(steps), 2)
            expected = np.arange(12).reshape(2, n, 6 // n)
            np.testing.assert_array_equal([[p["id"] for p in step] for step in steps], expected)


class Functions(Case):
    BATCH = {"id": np.array([0, 1, 1], np.int32), "pixel": np.array([255, 51, 102], np.uint8)}

    def test_a_function_computes_on_each_replica(self):
        @d.function
        def f(x, y):
            return d.mean(d.square(x)) + y

        for n, st in self.each():
            x = d.per_replica(st, [np.arange(3, dtype=np.float32) + r for r in range(n)])
            expected = [np.mean((np.arange(3) + r) ** 2) + 1 for r in range(n)]
            self.locals(st, st.run(f, (x, np.float32(1))), expected)

    def test_typed_inputs_outputs_and_a_gradient_under_a_merge(self):
        @d.function
        def step(batch, w):
            with d.GradientTape() as tape:
                y = d.gather(w, batch["id"]) * (d.cast(batch["pixel"], "float32") * (1 / 255)) + batch["x"]
                loss = d.mean(y * y)
            return {"loss": loss, "largest": d.exp(loss * 0.125)}, tape.gradient(loss, [w])[0]

        for n, st in self.each():
            with st.scope():
                w = d.variable([2.0, 4.0])

            def replica(batch):
                outputs, gradient = step(batch, w)

                def merge(strategy, g, loss):
                    return strategy.reduce("sum", g, axis=None), strategy.reduce("mean", loss, axis=None)

                total, loss = d.replica_context().merge_call(merge, (gradient, outputs["loss"]))
                return outputs, total, loss

            x = d.per_replica(st, [np.array([r + 1, 0.5, -r], np.float32) for r in range(n)])
            outputs, total, loss = st.run(replica, ({**self.BATCH, "x": x},))
            y = np.array([[2 + r + 1, 4 * 0.2 + 0.5, 4 * 0.4 - r] for r in range(n)])
            losses = np.mean(y * y, 1)
            self.locals(st, outputs["loss"], losses)
            self.locals(st, outputs["largest"], np.exp(losses * 0.125))
            self.locals(st, loss, [losses.mean()] * n)
            self.locals(st, total, [[2 / 3 * y[:, 0].sum(), 2 / 3 * (0.2 * y[:, 1] + 0.4 * y[:, 2]).sum()]] * n)

    def test_structures_may_depend_on_shapes(self):
        @d.function
        def f(x):
            return {"row": x + 1} if len(x.shape) == 1 else (x + 2, x + 3)

        for n, st in self.each():
            row, table = np.ones(2, np.float32), np.ones((1, 2), np.float32)
            for _ in range(2):  # recorded, then replayed, in turns
                self.locals(st, st.run(f, (row,))["row"], [[2, 2]] * n)
                a, b = st.run(f, (table,))
                self.locals(st, a, [[[3, 3]]] * n)
                self.locals(st, b, [[[4, 4]]] * n)

    def test_functions_call_functions(self):
        @d.function
        def square(x):
            return x * x

        @d.function
        def f(x):
            return square(x) + square(x + 1.0)

        for n, st in self.each():
            self.locals(st, st.run(f, (self.numbers(st, n),)), [(r + 1) ** 2 + (r + 2) ** 2 for r in range(n)])

    def test_functions_assign_to_variables(self):
        for n, st in self.each():
            with st.scope():
                v = d.variable([1.0, 2.0], "on_read", "sum")

            @d.function
            def add(x):
                v.assign(v + x)
                return x * 2.0

            for _ in range(3):
                self.locals(st, st.run(add, (self.numbers(st, n),)), [2 * r + 2 for r in range(n)])
            self.same(d.components(st, v), [[1 + 3 * (r + 1), 2 + 3 * (r + 1)] for r in range(n)])

    def test_functions_add_to_variables(self):
        for n, st in self.each():
            with st.scope():
                v, w = d.variable([1.0, 2.0], "on_read", "sum"), d.variable(5.0, "on_read", "mean")

            @d.function
            def change(x):
                v.assign_add(v * x)
                w.assign_sub(0.5)
                return x

            for _ in range(2):
                st.run(change, (self.numbers(st, n),))
            self.same(d.components(st, v), [[(r + 2) ** 2, 2 * (r + 2) ** 2] for r in range(n)])
            self.same(d.components(st, w), [4] * n)

    def test_gradients_by_several_variables(self):
        for n, st in self.each():
            with st.scope():
                w, b = d.variable([[1.0], [2.0]]), d.variable(0.5)

            @d.function
            def f(x):
                with d.GradientTape() as tape:
                    loss = d.mean(d.square(d.matmul(x, w) + b))
                return tape.gradient(loss, [w, b])

            x = np.array([[1, 2], [3, -1]], np.float32)
            dw, db = st.run(f, (x,))
            y = x @ [[1], [2]] + 0.5
            self.locals(st, dw, [x.T @ (2 * y / 2)] * n)
            self.locals(st, db, [np.sum(2 * y / 2)] * n)

    def test_an_exception_in_a_function_reaches_the_caller(self):
        @d.function
        def f(x):
            raise ValueError("recorded")

        for _n, st in self.each():
            with self.assertRaisesRegex(ValueError, "recorded"):
                st.run(f, (np.float32(1),))

    def test_a_training_loop(self):
        rng = np.random.default_rng(1)
        x = rng.standard_normal((12, 3)).astype(np.float32)
        y = (x @ np.array([[1.0], [-2.0], [3.0]], np.float32)).astype(np.float32)
        for n, st in self.each():
            with st.scope():
                w = d.variable(np.zeros((3, 1), np.float32), aggregation="only_first_replica")

            @d.function
            def gradient(x, y):
                with d.GradientTape() as tape:
                    loss = d.mean(d.square(d.matmul(x, w) - y)) * (1 / n)
                return loss, tape.gradient(loss, [w])[0]

            def replica(batch):
                loss, g = gradient(batch["x"], batch["y"])
                w.assign_sub(d.replica_context().all_reduce("sum", g) * 0.1)
                return loss

            expected = np.zeros((3, 1))
            for batch in d.distribute(st, {"x": x, "y": y}, 6):
                loss = st.reduce("sum", st.run(replica, (batch,)), axis=None)
                a, b = (x[:6], y[:6]) if not expected.any() else (x[6:], y[6:])
                self.same(loss, np.mean((a @ expected - b) ** 2), 1e-5)
                expected = expected - 0.1 * a.T @ (a @ expected - b) / 3
            self.same(w.numpy(), expected, 1e-5)


class Optimizers(Case):
    def train(self, st, n, tower, variables, steps=3, in_merge=False):
        """Gradients (r + 1) (step + 1) of each variable."""
        def replica(x):
            pairs = [(x + v * 0.0, v) for v in variables]
            if in_merge:
                d.apply_in_merge(st, tower, pairs)
            else:
                tower.apply_gradients(pairs)

        for i in range(steps):
            st.run(replica, (d.per_replica(st, [np.float32((r + 1) * (i + 1)) for r in range(n)]),))

    def test_gradients_of_replicas_are_added(self):
        for n, st in self.each():
            with st.scope():
                v, w = d.variable([1.0, 2.0]), d.variable(3.0)
            self.train(st, n, d.optimizer(st, "sgd", 0.5), [v, w])
            total = n * (n + 1) / 2 * 6 * 0.5
            self.same(v.numpy(), [1 - total, 2 - total])
            self.same(w.numpy(), 3 - total)
            self.same(d.components(st, w), [3 - total] * n)

    def test_gradients_are_applied_in_a_merge_call(self):
        for n, st in self.each():
            with st.scope():
                v, w = d.variable([1.0, 2.0]), d.variable(3.0)
            self.train(st, n, d.optimizer(st, "sgd", 0.5), [v, w], in_merge=True)
            total = n * (n + 1) / 2 * 6 * 0.5
            self.same(v.numpy(), [1 - total, 2 - total])
            self.same(d.components(st, w), [3 - total] * n)

    def test_momentum(self):
        for n, st in self.each():
            with st.scope():
                v = d.variable(1.0)
            self.train(st, n, d.optimizer(st, "momentum", 0.1), [v])
            expected, m = 1.0, 0.0
            for i in range(3):
                m = 0.9 * m + n * (n + 1) / 2 * (i + 1)
                expected -= 0.1 * m
            self.same(v.numpy(), expected)

    def test_adam(self):
        for n, st in self.each():
            with st.scope():
                v = d.variable(1.0)
            self.train(st, n, d.optimizer(st, "adam", 0.1), [v])
            expected, m, s = 1.0, 0.0, 0.0
            for i in range(3):
                g = n * (n + 1) / 2 * (i + 1)
                m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
                expected -= 0.1 * (m / (1 - 0.9 ** (i + 1))) / (np.sqrt(s / (1 - 0.999 ** (i + 1))) + 1e-8)
            self.same(v.numpy(), expected)

    def test_several_optimizers_have_their_own_variables(self):
        for n, st in self.each():
            with st.scope():
                v, w = d.variable(1.0), d.variable(1.0)
            first, second = d.optimizer(st, "sgd", 0.5), d.optimizer(st, "momentum", 0.25)
            for _ in range(2):
                self.train(st, n, first, [v], 1)
                self.train(st, n, second, [w], 1)
            g = n * (n + 1) / 2
            self.same(v.numpy(), 1 - 2 * 0.5 * g)
            self.same(w.numpy(), 1 - 0.25 * g - 0.25 * 1.9 * g)


class Tutorial(unittest.TestCase):
    """docs/from-tf-distribute.md."""

    def test_its_program_prints_what_it_says(self):
        page = (Path(__file__).resolve().parents[3] / "docs" / "from-tf-distribute.md").read_text()
        programs = re.findall(r"```python\n(.*?)```", page, flags=re.S)
        program, = (p for p in programs if f"import {FRAMEWORK}" in p)
        if FRAMEWORK == "tensorflow":  # devices of a process are set once
            program = re.sub(r"tf\.config\.set_logical_device_configuration\(.*?\* 2\)\n", "", program, flags=re.S)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(program, "from-tf-distribute.md", "exec"), {"__name__": "__main__"})
        self.assertIn(f"```text\n{out.getvalue()}```", page)
        self.assertEqual(out.getvalue().count("epoch"), 3)


class Errors(Case):
    def test_calls_of_the_whole_strategy_are_refused_in_replicas(self):
        for n, st in self.each():
            x = self.numbers(st, n)
            for call in (lambda x: st.reduce("sum", x, axis=None), lambda x: st.run(lambda: None),
                         lambda x: st.gather(x, axis=0)):
                with self.assertRaises(RuntimeError):
                    st.run(call, (x,))
                self.assertFalse(d.has_strategy())

    def test_the_scope_of_another_strategy_is_refused(self):
        for _n, st in self.each(1, 2):
            other = d.strategy(2)
            with st.scope():
                with self.assertRaises(RuntimeError):
                    with other.scope():
                        pass
                self.assertIs(d.current_strategy(), st)
            d.close(other)

    def test_there_is_no_replica_to_meet_in_a_scope(self):
        for _n, st in self.each():
            kept = []
            st.run(lambda: kept.append(d.replica_context()))
            with st.scope():
                self.assertIsNone(d.replica_context())
                for context in kept:
                    with self.assertRaises(RuntimeError):
                        context.merge_call(lambda _st: None)

    def test_unknown_reductions_are_refused(self):
        for n, st in self.each():
            with self.assertRaises(ValueError):
                st.reduce("largest", self.numbers(st, n), axis=None)

    def test_axes_out_of_range_are_refused(self):
        for n, st in self.each():
            x = d.per_replica(st, [np.ones(2, np.float32)] * n)
            with self.assertRaises(Exception):
                st.reduce("sum", x, axis=3)


if __name__ == "__main__":
    unittest.main()
