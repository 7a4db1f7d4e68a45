# SPDX-License-Identifier: MIT
"""Functions on replicas, beyond what they share with TensorFlow: values, structures, exceptions, memory."""
import gc
import os
import traceback
import unittest
import weakref
from collections import namedtuple
from pathlib import Path

import numpy as np

import copse
from copse import ops
from rig import DEVICES
from test_strategies import Job

Pair = namedtuple("Pair", "a b")


def strategies(*counts):
    for n in counts or (1, 2, 3):
        strategy = copse.Strategy(["host:0"] * n)
        yield n, strategy
        strategy.close()


def numbered(strategy):
    return strategy.values_from_function(lambda context: np.float32(context.replica_id + 1))


class Values(unittest.TestCase):
    def test_components_by_replica(self):
        strategy = copse.Strategy(["host:0"] * 3)
        x = strategy.per_replica([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        self.assertIsInstance(x, copse.PerReplica)
        self.assertEqual((len(x), x.shape, x.dtype), (3, (2,), "float32"))
        np.testing.assert_array_equal(x[1], [3, 4])
        np.testing.assert_array_equal(x[-1], [5, 6])
        np.testing.assert_array_equal(x, [[1, 2], [3, 4], [5, 6]])
        np.testing.assert_array_equal(np.asarray(x * 2, np.int32), [[2, 4], [6, 8], [10, 12]])
        self.assertEqual([float(c.sum()) for c in x], [3, 7, 11])
        with self.assertRaisesRegex(IndexError, "3 components"):
            x[3]
        with self.assertRaisesRegex(copse.errors.ShapeError, r"\[1\], \[2\]"):
            np.asarray(strategy.per_replica([[1.0], [1.0, 2.0], [3.0]]))

    def test_comparisons_read(self):
        x = copse.value([1.0, 3.0])
        np.testing.assert_array_equal(x > 2, [False, True])
        np.testing.assert_array_equal(x <= copse.value([1.0, 1.0]), [True, False])
        np.testing.assert_array_equal(x == [1, 2], [True, False])
        loss = copse.value(0.5)
        self.assertTrue(loss < 1 and loss >= 0.5 and loss == 0.5 and loss != 2)
        self.assertTrue(bool(loss) and not copse.value(0.0))
        with self.assertRaisesRegex(copse.errors.ArgumentError, "components"):
            copse.Strategy(["host:0"] * 2).per_replica([1.0, 2.0]) < 3

    def test_arithmetic_of_special_values_and_long_arrays(self):
        for device in DEVICES:
            strategy = copse.Strategy([device, device])
            a = np.array([1, -1, 0, np.inf, np.nan, -0.0], np.float32)
            b = np.array([0, 0, 0, np.inf, 1, 5], np.float32)
            with np.errstate(divide="ignore", invalid="ignore"):
                expected = [a + b, a - b, a * b, a / b]
            x, y = strategy.per_replica([a, a]), strategy.per_replica([b, b])
            for found, one in zip((x + y, x - y, x * y, x / y), expected):
                np.testing.assert_array_equal(found, [one, one])
            long = np.arange(70001, dtype=np.float32)
            z = strategy.per_replica([long, -long])
            np.testing.assert_array_equal((z + 1) / 2, [(long + 1) / 2, (-long + 1) / 2])
            strategy.close()

    def test_numbers_that_a_type_cannot_hold_are_refused(self):
        x = copse.value(np.array([1, 2], np.int32))
        with self.assertRaisesRegex(copse.errors.ArgumentError, "int32 cannot hold 0.5"):
            x + 0.5

    def test_reductions_to_some_replicas(self):
        for n, strategy in strategies():
            x = numbered(strategy)
            v = strategy.variable("v", values=0.0)
            for to in (None, v, x, list(range(n))):
                total = strategy.reduce_to("sum", x, to)
                self.assertEqual([float(c) for c in strategy.local_results(total)], [n * (n + 1) / 2] * n)
            one = strategy.broadcast(copse.value([1.0, 2.0]), to=[n - 1])
            np.testing.assert_array_equal(one, [1, 2])
            with self.assertRaises(copse.errors.ArgumentError):
                strategy.reduce_to("sum", x, [n])

    def test_gather_is_exact_and_checks(self):
        for n, strategy in strategies():
            x = strategy.values_from_function(
                lambda context: np.array([[np.nan, -0.0], [np.inf, context.replica_id]], np.float32))
            found = strategy.gather({"x": x}, 1)["x"].numpy()
            np.testing.assert_array_equal(found[0], [np.nan, 0] * n)
            self.assertTrue(np.signbit(found[0, 1]))
            np.testing.assert_array_equal(found[1], [e for r in range(n) for e in (np.inf, r)])
            for axis in (2, -3):
                with self.assertRaisesRegex(copse.errors.ArgumentError, "2 axes"):
                    strategy.gather(x, axis)
        strategy = copse.Strategy(["host:0", "host:0"])
        with self.assertRaisesRegex(copse.errors.ShapeError, r"\[1, 2\], \[1, 3\]"):
            strategy.gather(strategy.per_replica([np.ones((1, 2)), np.ones((1, 3))]), 0)
        with self.assertRaisesRegex(copse.errors.ContextError, "all_gather"):
            strategy.run(lambda: strategy.gather(copse.value([1.0]), 0))


class Workers(Job):
    def test_gather_and_input_over_workers(self):
        """Worker k has k + 1 rows of each type on each of its replicas."""
        def worker(cluster):
            strategy = copse.Strategy(["host:0", "host:0"], cluster=cluster)
            k = cluster.rank
            rows = [np.full((k + 1, 2), 10 * k + r, np.float32) for r in range(2)]
            rows[0][0, 0] = np.nan if k else -0.0
            found = strategy.gather(strategy.per_replica(rows), 0).numpy()
            bytes_ = strategy.gather(strategy.per_replica([r[:, 1].astype(np.uint8) + 200 for r in rows]), 0).numpy()
            data = strategy.distribute(copse.Dataset({"i": np.arange(12, dtype=np.int32)}).batches(8, shuffle=False))
            steps = [[c.numpy().tolist() for c in batch["i"]] for batch in data]
            made = strategy.distribute_from_function(
                lambda c: [{"i": np.array([c.pipeline * 10 + j], np.int32)} for j in range(c.replicas)])
            from_function = [[c.numpy().tolist() for c in batch["i"]] for batch in made]
            return found, bytes_, steps, from_function

        results = self.job(["worker", "worker"], worker)
        for found, bytes_, steps, from_function in results:
            np.testing.assert_array_equal(found, [[0, 0], [1, 1], [np.nan, 10], [10, 10], [11, 11], [11, 11]])
            self.assertTrue(np.signbit(found[0, 0]))
            np.testing.assert_array_equal(bytes_, [200, 201, 210, 210, 211, 211])
        self.assertEqual([r[2] for r in results], [[[[0, 1], [4, 5]], [[8], [10]]], [[[2, 3], [6, 7]], [[9], [11]]]])
        self.assertEqual([r[3] for r in results], [[[[0], [1]], [[2], [3]]], [[[10], [11]], [[12], [13]]]])


class Structures(unittest.TestCase):
    def test_python_objects_and_containers_go_through_runs_and_merges(self):
        token = object()
        for n, strategy in strategies():
            def replica(pair, options):
                self.assertIs(options["token"], token)
                self.assertEqual(options[3], (7, 2.5, None))
                own = {"id": copse.replica_context().replica_id}  # an object of its own
                merged = copse.replica_context().merge_call(
                    lambda _st, p, o: (p, o, "text"), (pair, token), None)
                self.assertIsInstance(merged[0], Pair)
                self.assertIs(merged[1], token)
                return Pair(merged[0].a * 2, options), {"own": own["id"]}, merged[2], iter

            x = numbered(strategy)
            pair, own, text, builtin = strategy.run(replica, (Pair(x, 1.0), {"token": token, 3: (7, 2.5, None)}))
            self.assertIsInstance(pair, Pair)
            self.assertEqual([float(c) for c in strategy.local_results(pair.a)], [2 * r + 2 for r in range(n)])
            self.assertIs(pair.b["token"], token)
            self.assertEqual((text, builtin), ("text", iter))
            self.assertEqual([int(c) for c in strategy.local_results(own["own"])], list(range(n)))

    def test_objects_of_each_replica(self):
        for n, strategy in strategies(2, 3):
            made = strategy.run(lambda: [object()])[0]
            gc.collect()
            parts = strategy.local_results(made)
            self.assertEqual(len(set(parts)), n)
            seen = []
            strategy.run(lambda part: seen.append(part), (made,))
            self.assertEqual(tuple(seen), parts)

    def test_functions_take_objects_as_they_are(self):
        calls = []

        @copse.function
        def f(x, mode, *, scale=None):
            calls.append(mode)
            return (x * 2 if mode == "double" else x), mode, scale

        for n, strategy in strategies(2):
            x = numbered(strategy)
            for _ in range(2):
                y, mode, scale = strategy.map(f, x, "double")
                np.testing.assert_array_equal(y, [2, 4])
                self.assertEqual((mode, scale), ("double", None))
                np.testing.assert_array_equal(strategy.map(f, x, "same")[0], [1, 2])
            self.assertEqual(calls, ["double"] * 2 + ["same"] * 2)
            with self.assertRaisesRegex(copse.errors.ArgumentError, "part of its signature"):
                strategy.map(f, x, {1, 2})

    def test_each_signature_has_its_structure(self):
        @copse.function
        def f(x):
            n = x.shape[0]
            return {1: x, 2: (x, [x + 1.0]), 3: {"a": x, "b": None}, 4: None}[n] if n < 4 else None

        for n, strategy in strategies(1, 2):
            with strategy.scope():
                v = copse.Variable(0.0, trainable=False)

                @copse.function
                def nothing(x):
                    ops.update(v, ops.sum(x))

                for _ in range(2):
                    for rows in (1, 2, 3, 2, 1):
                        x = copse.value(np.arange(rows, dtype=np.float32))
                        y = f(x)
                        if rows == 1:
                            self.assertEqual(y.shape, (1,))
                        elif rows == 2:
                            np.testing.assert_array_equal(y[1][0], [1, 2])
                        else:
                            self.assertEqual((set(y), y["b"], y["a"].shape), ({"a", "b"}, None, (3,)))
                    self.assertIsNone(nothing(x))

    def test_replicas_of_different_shapes_must_agree(self):
        @copse.function
        def f(x):
            return [x, x] if x.shape[0] == 1 else {"0": x, "1": x}

        strategy = copse.Strategy(["host:0", "host:0"])
        with self.assertRaises(copse.errors.ShapeError):
            strategy.map(f, strategy.per_replica([[1.0], [1.0, 2.0]]))

    def test_many_signatures(self):
        calls = []

        @copse.function
        def f(x):
            calls.append(x.shape)
            return {"y": x + 1.0} if x.shape[0] % 2 else (x + 2.0,)

        strategy = copse.Strategy("host:0")
        for _ in range(2):
            for rows in range(1, 80):
                x = np.zeros(rows, np.float32)
                y = strategy.map(f, x)
                np.testing.assert_array_equal(y["y"] if rows % 2 else y[0], x + (1 if rows % 2 else 2))
        self.assertLessEqual(len(f._signatures._known), 64)

    def test_layers_in_functions(self):
        for n, strategy in strategies(1, 2):
            network = copse.nn.Layers("dense 8 relu; dropout 0.5; dense out", strategy, shape=(4,), outputs=3, seed=1)

            @copse.function
            def loss(x, y, mode):
                return ops.sparse_cross_entropy(network(x, is_training=mode == "train"), y)

            x, y = np.ones((6, 4), np.float32), np.array([0, 1, 2, 0, 1, 2], np.int32)
            with strategy.scope():
                tested = [float(loss(x, y, "test")) for _ in range(2)]
                trained = [float(loss(x, y, "train")) for _ in range(4)]
            self.assertEqual(tested[0], tested[1])
            self.assertGreater(len(set(trained)), 1)
            tower = copse.TowerOptimizer(strategy, "sgd", learning_rate=0.5)
            for _ in range(3):
                strategy.run(lambda: tower.minimize(loss.function, (x, y, "test")) and None)
            with strategy.scope():
                self.assertLess(float(loss(x, y, "test")), tested[0])
            with self.assertRaisesRegex(copse.errors.ArgumentError, "network\\(inputs, x\\)"):
                copse.Trainer(strategy, lambda inputs: ops.mean(network(inputs["x"]))).evaluate({"x": x})


class Variables(unittest.TestCase):
    def test_names_and_types(self):
        for n, strategy in strategies():
            made = []

            def replica():
                made.append([copse.Variable(1.0).name, copse.Variable(2, name="own").name, copse.Variable([3]).name])

            strategy.run(replica)
            self.assertEqual(made, [["variable", "own", "variable_1"]] * n)
            self.assertEqual([(v.name, v.dtype) for v in strategy.variables()],
                             [("variable", "float32"), ("own", "int32"), ("variable_1", "int32")])
            with strategy.scope():
                self.assertEqual(copse.Variable(1.0).name, "variable_2")
            with self.assertRaises(copse.errors.ContextError):
                copse.Variable(1.0)

    def test_properties(self):
        for n, strategy in strategies(2):
            with strategy.scope():
                v = copse.Variable(1.0, synchronization="on_read", aggregation="sum")
                w = copse.Variable(1.0)
            self.assertEqual([(x.synchronization, x.aggregation, x.is_trained) for x in (v, w)],
                             [("on_read", "sum", False), ("on_write", "mean", True)])

    def test_without_aggregation_replicas_cannot_assign(self):
        for n, strategy in strategies(2):
            with strategy.scope():
                v = copse.Variable(10.0, aggregation="none")
            with self.assertRaisesRegex(copse.errors.ArgumentError, "aggregation"):
                strategy.run(lambda: v.assign(1.0))
            self.assertEqual(float(v), 10)

    def test_shapes_and_types_are_checked_in_replicas(self):
        for n, strategy in strategies():
            v = strategy.variable("v", (2,), dtype="int32", trainable=False, aggregation="sum")
            with self.assertRaisesRegex(copse.errors.ShapeError, r"\[2\], the values have \[3\]"):
                strategy.run(lambda: v.assign_add([1, 2, 3]))
            with self.assertRaisesRegex(copse.errors.ArgumentError, "int32 cannot hold"):
                strategy.run(lambda: v.assign_add([0.5, 1]))
            with self.assertRaises(copse.errors.Error):
                strategy.run(lambda: v.assign(copse.value([1.0, 2.0])))
            np.testing.assert_array_equal(v, [0, 0])

    def test_a_function_assigns_once(self):
        for n, strategy in strategies(1):
            v = strategy.variable("v", values=[1.0, 2.0], trainable=False)

            @copse.function
            def twice(x):
                v.assign([3, 4])
                self.assertIs(v.read(), v)
                v.assign_add(x)

            with self.assertRaises(copse.errors.ArgumentError):
                strategy.map(twice, np.float32(1))
            np.testing.assert_array_equal(v, [1, 2])

            @copse.function
            def once():
                v.assign([3, 4])

            strategy.map(once)
            np.testing.assert_array_equal(v, [3, 4])

    def test_update_is_refused_in_replicas_and_for_per_replica_arguments(self):
        for n, strategy in strategies(2):
            v = strategy.variable("v", values=1.0)
            with self.assertRaises(copse.errors.ContextError):
                strategy.run(lambda: strategy.update(v, lambda v: None))
            with self.assertRaises(copse.errors.ArgumentError):
                strategy.update(v, lambda v, x: None, (numbered(strategy),))


class Exceptions(unittest.TestCase):
    def failing(self, strategy):
        """Calls that raise KeyError in different functions, and the names of those functions."""
        v = strategy.variable("v", values=1.0)

        def broken(*_):
            raise KeyError("here")

        def deep():
            return broken()

        @copse.function
        def recorded(x):
            return broken()

        def merge():
            copse.replica_context().merge_call(lambda _st: broken())

        def nested():
            copse.replica_context().merge_call(lambda st: st.run(deep))

        yield "deep", lambda: strategy.run(deep)
        yield "recorded", lambda: strategy.run(recorded, (1.0,))
        yield "recorded", lambda: strategy.map(recorded, 1.0)
        yield "merge", lambda: strategy.run(merge)
        yield "nested", lambda: strategy.run(nested)
        yield "broken", lambda: strategy.update(v, broken)
        yield "broken", lambda: strategy.update_non_slot(None, broken)
        yield "broken", lambda: list(strategy.distribute_from_function(
            lambda _context: (broken() for _ in range(2))))

    def test_they_reach_the_caller_with_their_lines(self):
        for n, strategy in strategies():
            for name, call in self.failing(strategy):
                with self.subTest(name, replicas=n):
                    functions = []
                    try:  # assertRaises forgets the lines
                        call()
                    except KeyError as e:
                        functions = [f.name for f in traceback.extract_tb(e.__traceback__)]
                    self.assertIn("broken", functions)
                    if name in ("deep", "recorded"):
                        self.assertIn(name, functions)
                    self.assertFalse(copse.has_strategy())
                    self.assertIsNone(copse.replica_context())

    def test_replicas_that_wait_hear_of_it(self):
        for n, strategy in strategies(2, 3):
            heard = []

            def replica():
                if copse.replica_context().replica_id == n - 1:
                    raise KeyError("the last one")
                try:
                    copse.replica_context().merge_call(lambda _st: None)
                except copse.errors.Error as e:
                    heard.append(str(e))
                    raise

            with self.assertRaisesRegex(KeyError, "the last one"):
                strategy.run(replica)
            self.assertEqual(len(heard), n - 1)
            self.assertIn("KeyError", heard[0])

    def test_a_replica_may_catch_the_refusal_of_a_call(self):
        for n, strategy in strategies():
            def replica(x):
                with self.assertRaises(copse.errors.ContextError):
                    strategy.reduce("sum", x)
                with self.assertRaises(copse.errors.ShapeError):
                    copse.value([1.0, 2.0]) + copse.value([1.0, 2.0, 3.0])
                return copse.replica_context().all_reduce("sum", x)

            total = strategy.run(replica, (numbered(strategy),))
            self.assertEqual(float(strategy.local_results(total)[0]), n * (n + 1) / 2)


class Memory(unittest.TestCase):
    def loop(self, strategy):
        """All that a step may use."""
        v = strategy.variable("v", values=[1.0, 2.0], aggregation="mean")
        own = strategy.variable("own", values=0.0, synchronization="on_read", aggregation="sum")
        tower = copse.TowerOptimizer(strategy, "sgd", learning_rate=1e-3)

        @copse.function
        def gradient(batch, v):
            loss = ops.mean(ops.square(batch["x"] @ ops.reshape(v, (2, 1))))
            return {"loss": loss, "g": copse.gradients(loss, v)}

        def replica(batch, text):
            got = gradient(batch, v)
            own.assign_add(got["loss"])
            tower.apply_gradients([(got["g"], v)])
            return copse.replica_context().merge_call(lambda st, x: st.reduce("mean", x), (got["loss"],)), object(), text

        data = strategy.distribute(copse.Dataset({"x": np.ones((8, 2)), "wide": np.ones((8, 500))}).batches(4))

        def step():
            for batch in data:
                loss, _objects, _text = strategy.run(replica, (batch, "text"))
                strategy.gather(strategy.update(v, lambda v: v.read()), 0)
                float(strategy.local_results(loss)[0])

        def failing():
            def fails():
                raise KeyError("here")
            try:
                strategy.run(fails)
            except KeyError:
                pass

        return step, failing

    @unittest.skipIf("libasan" in os.environ.get("LD_PRELOAD", ""), "the sanitizer keeps what is freed")
    @unittest.skipUnless(Path("/proc/self/statm").exists(), "the system does not say how much memory a process has")
    def test_a_thousand_runs_keep_memory_constant(self):
        def used():
            gc.collect()
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"), len(gc.get_objects())

        strategy = copse.Strategy(["host:0", "host:0"])
        step, failing = self.loop(strategy)

        def runs(count):
            for _ in range(count // 2):
                step()  # two runs, four of other kinds
                failing()

        runs(200)
        before = used()
        runs(1000)
        after = used()
        self.assertLess(after[0] - before[0], 1 << 20)
        self.assertLess(after[1] - before[1], 100)

    def test_objects_may_die_in_any_order(self):
        def made():
            strategy = copse.Strategy(["host:0", "host:0"])
            step, failing = self.loop(strategy)
            step()
            value = numbered(strategy)
            tower = copse.TowerOptimizer(strategy, name="another")
            data = iter(strategy.distribute(copse.Dataset({"x": np.ones((8, 2))}).batches(4)))
            parts = {"strategy": strategy, "step": step, "failing": failing, "value": value, "tower": tower, "data": data,
                     "variable": strategy.variables()[0], "batch": next(data), "component": value[0]}
            return parts

        names = list(made())
        for first in range(len(names)):
            parts = made()
            for name in names[first:] + names[:first]:
                del parts[name]
                gc.collect()
                if "component" in parts:
                    self.assertEqual(float(parts["component"]), 1)
                if "value" in parts:
                    np.testing.assert_array_equal(parts["value"], [1, 2])
                if "variable" in parts:
                    self.assertEqual(parts["variable"].numpy().shape, (2,))

    def test_functions_do_not_keep_strategies(self):
        @copse.function
        def f(x, v):
            return x * v

        gone = []
        for _ in range(3):
            strategy = copse.Strategy(["host:0", "host:0"])
            v = strategy.variable("v", values=2.0)
            np.testing.assert_array_equal(strategy.map(f, numbered(strategy), v), [2, 4])
            gone.append(weakref.ref(strategy))
            del strategy, v
            gc.collect()
        self.assertEqual([g() for g in gone], [None] * 3)

    def test_strategies_do_not_keep_functions(self):
        strategy = copse.Strategy("host:0")
        gone = []
        for i in range(3):
            @copse.function
            def f(x):
                return x + float(i)

            self.assertEqual(float(strategy.map(f, 1.0)), 1 + i)
            gone.append(weakref.ref(f))
            del f
        gc.collect()
        self.assertEqual([g() for g in gone], [None] * 3)

    def test_closed_strategies_refuse_calls(self):
        strategy = copse.Strategy("host:0")
        tower = copse.TowerOptimizer(strategy)
        strategy.close()
        for call in (lambda: strategy.run(lambda: 1), lambda: strategy.reduce("mean", 1.0),
                     lambda: copse.TowerOptimizer(strategy), lambda: strategy.scope().__enter__()):
            with self.assertRaises(copse.errors.ArgumentError):
                call()
        self.assertEqual(tower.steps, 0)


class Refusals(unittest.TestCase):
    """What a function of @copse.function cannot do with values is refused while its graph is built."""

    def setUp(self):
        self.strategy = copse.Strategy(["host:0", "host:0"])
        with self.strategy.scope():
            self.w = copse.Variable(np.ones(2, np.float32))
            self.total = copse.Variable(np.zeros(2, np.float32), trainable=False, aggregation="sum")

    def refused(self, error, words, body):
        with self.strategy.scope(), self.assertRaisesRegex(error, words):
            copse.function(body)(np.ones(2, np.float32))

    def test_a_variable_has_no_values_there(self):
        self.refused(copse.errors.ContextError, "no values while a graph is built", lambda x: x + float(self.w.numpy()[0]))

    def test_a_value_is_no_operand_there(self):
        with self.strategy.scope():
            outside = copse.value(np.ones(2, np.float32))
        self.refused(copse.errors.ArgumentError, "no operand in a graph", lambda x: x + outside * self.w)

    def test_sums_of_replicas_are_not_added_to_there(self):
        def add(x):
            self.total.assign_add(x)
            return x
        self.refused(copse.errors.UnsupportedError, "sums what replicas assign", add)

    def test_closed_optimizers_and_steps_refuse_calls(self):
        tower = copse.TowerOptimizer(self.strategy, "sgd")
        step = copse.TrainStep(self.strategy, lambda i: ops.mean(i["x"] * self.w), optimizer="sgd")
        for made in (tower, step):
            made.close()
            made.close()
        with self.assertRaises(copse.errors.ArgumentError):
            step({"x": np.ones((2, 2), np.float32)})
        with self.strategy.scope(), self.assertRaises(copse.errors.ArgumentError):
            tower.apply_gradients([(np.ones(2, np.float32), self.w)])
        self.strategy.run(lambda: None)  # ends no step of a closed optimizer

    def test_a_variable_is_a_loss(self):
        with self.strategy.scope():
            penalty = copse.Variable(np.float32(3), trainable=False)
        step = copse.TrainStep(self.strategy, lambda i: {"a": ops.mean(i["x"] * self.w), "b": penalty}, optimizer="sgd",
                               total_loss=lambda losses: losses["a"] + losses["b"])
        self.assertEqual(step({"x": np.ones((2, 2), np.float32)}).named, {"a": 1.0, "b": 3.0})

    def test_training_is_not_said_in_loss_functions(self):
        network = copse.nn.Layers("dense 2", self.strategy, shape=(2,))
        trainer = copse.Trainer(self.strategy, lambda i: ops.mean(network(i, i["x"], is_training=True)), optimizer="sgd")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "is_training is for"):
            trainer.step({"x": np.ones((2, 2), np.float32)})

    def test_results_of_hooks_do_not_matter(self):
        step = copse.TrainStep(self.strategy, lambda i: ops.mean(i["x"] * self.w), optimizer="sgd",
                               update_hooks=[lambda strategy: True])
        self.assertIsNotNone(step({"x": np.ones((2, 2), np.float32)}))

    def test_a_schedule_that_raises_changes_nothing(self):
        def schedule(step):
            raise KeyError("mine")
        rule = {"optimizer": "momentum", "learning_rate": schedule}
        for tower in (copse.TowerOptimizer(self.strategy, lambda: rule),
                      copse.TowerOptimizer(self.strategy, "momentum", learning_rate=schedule)):
            with self.strategy.scope(), self.assertRaisesRegex(KeyError, "mine"):
                tower.apply_gradients([(np.ones(2, np.float32), self.w)])
            self.assertEqual(tower.steps, 0)
            np.testing.assert_array_equal(self.w.numpy(0), np.ones(2, np.float32))

    def test_exceptions_of_a_step_keep_their_type(self):
        data = copse.Dataset({"x": np.ones((4, 2), np.float32)})

        def loss(inputs):
            raise KeyError("mine")

        step = copse.SingleLossStep(lambda: copse.Trainer(self.strategy, loss, optimizer="sgd"), data.batches(2))
        with self.assertRaisesRegex(KeyError, "mine"):
            step()

    def test_a_trainer_belongs_to_one_step(self):
        data = copse.Dataset({"x": np.ones((4, 2), np.float32)})
        trainer = copse.Trainer(self.strategy, lambda i: ops.mean(i["x"] * self.w), optimizer="sgd")
        first = copse.SingleLossStep(lambda: trainer, data.batches(2))
        with self.assertRaisesRegex(copse.errors.ArgumentError, "given before"):
            copse.SingleLossStep(lambda: trainer, data.batches(2))
        self.assertTrue(first())


class Input(unittest.TestCase):
    def test_iterators_are_independent(self):
        for n, strategy in strategies(2):
            data = strategy.distribute(copse.Dataset({"x": np.arange(8, dtype=np.float32)}).batches(4, shuffle=False))
            one, two = iter(data), iter(data)
            next(one)
            for walk in (two, one):
                np.testing.assert_array_equal(next(walk)["x"], [[0, 1], [2, 3]] if walk is two else [[4, 5], [6, 7]])
            np.testing.assert_array_equal(next(data.epoch(0, 1))["x"], [[4, 5], [6, 7]])

    def test_epochs_are_shuffled_as_the_loader_does(self):
        data = copse.Dataset({"x": np.arange(8, dtype=np.float32)}).batches(4, seed=3)
        for n, strategy in strategies(1):
            distributed = strategy.distribute(data)
            for epoch in range(3):
                for batch, own in zip(distributed, data.epoch(epoch)):
                    np.testing.assert_array_equal(batch["x"], own.columns["x"])

    def test_rules_and_policies(self):
        strategy = copse.Strategy(["host:0", "host:0"])
        batches = copse.Dataset({"i": np.arange(13, dtype=np.int32)}).batches(8, shuffle=False)
        for rule, expected in (("balanced", [[8, 9, 10], [11, 12]]), ("fixed", [[8, 9, 10, 11], [12]])):
            data = strategy.distribute(batches, rule=rule)
            self.assertEqual([c.numpy().tolist() for c in list(data)[1]["i"]], expected)
            self.assertEqual(len(data), 2)

    def test_wrong_sources_are_refused(self):
        strategy = copse.Strategy("host:0")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "no Loader"):
            strategy.distribute(copse.Dataset({"x": np.ones(4)}))
        with self.assertRaisesRegex(copse.errors.ArgumentError, "the function gave int"):
            strategy.distribute_from_function(lambda context: 3)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "policy 'x'"):
            strategy.distribute(copse.Dataset({"x": np.ones(4)}).batches(2), policy="x")
        with self.assertRaises(copse.errors.ArgumentError):
            copse.InputContext(1, 0, 2).per_replica_batch(3)

    def test_a_last_step_for_the_first_replicas(self):
        for n, strategy in strategies(2):
            for keep_last, steps in ((False, 1), (True, 2)):
                data = strategy.distribute_from_function(
                    lambda context: [{"x": np.array([i], np.float32)} for i in range(3)], keep_last=keep_last)
                self.assertEqual(len(list(data)), steps)


if __name__ == "__main__":
    unittest.main()
