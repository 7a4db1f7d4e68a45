# SPDX-License-Identifier: MIT
"""Memory and threads."""
import gc
import sys
import threading
import time
import unittest

import numpy as np

import copse
from copse import ops
from copse._library import ffi, lib
from rig import perceptron, toy


class Lifetime(unittest.TestCase):
    def test_objects_may_die_in_any_order(self):
        x, y = toy()
        for _ in range(20):
            strategy = copse.Strategy("host")
            loss = perceptron(strategy, 8, 3, 4)
            trainer = copse.Trainer(strategy, loss, learning_rate=lambda step: 0.1 / step,
                                    transform=lambda pairs: [g for g, _ in pairs])
            batches = copse.Dataset({"x": x, "y": y}).batches(16)
            v = strategy.variables()[0]
            del strategy, loss
            gc.collect()
            trainer.fit(batches, 1)
            del trainer
            gc.collect()
            self.assertEqual(v.numpy().shape, (4, 8))

    def test_arrays_may_die_after_the_call(self):
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4))
        for i in range(20):
            x, y = toy(seed=i)
            trainer.step({"x": x, "y": y}, wait=False)
            del x, y
            gc.collect()
        self.assertTrue(all(np.isfinite(r.loss) for r in trainer.results()))

    def test_kept_batches_keep_their_rows(self):
        data = copse.Dataset({"i": np.arange(4000), "x": np.arange(8000, dtype=np.float32).reshape(4000, 2)})
        for prefetch in (0, 3):
            with self.subTest(prefetch=prefetch):
                batches = data.batches(400, shuffle=False, prefetch=prefetch)
                kept = list(batches.epoch(0))
                del batches
                gc.collect()
                strategy = copse.Strategy("host")
                strategy.variable("v")
                trainer = copse.Trainer(strategy, lambda inputs: ops.mean(inputs["x"]))
                self.assertEqual([trainer.evaluate(b).loss for b in kept], [800 * k + 399.5 for k in range(10)])
                np.testing.assert_array_equal(np.concatenate([b.columns["i"] for b in kept]), np.arange(4000))

    def test_what_a_function_got_is_refused_after_its_call(self):
        """Of the functions of losses, predictions and transforms: the library frees it, and it was on a stack."""
        kept = {}
        strategy = copse.Strategy("host")
        v = strategy.variable("v", (2,))

        def loss(inputs):
            kept.setdefault("inputs", inputs)
            kept.setdefault("x", inputs["x"])
            kept.setdefault("parts", ops.split(inputs["x"], 2, 1))
            kept.setdefault("top", ops.top_k(inputs["x"], 1))
            return ops.mean(inputs["x"] * v)

        def predict(inputs):
            kept.setdefault("predicted", inputs["x"] + 1.0)
            return inputs["x"]

        def transform(pairs):
            kept.setdefault("gradient", pairs[0][0])
            return [g for g, _ in pairs]

        trainer = copse.Trainer(strategy, loss, transform=transform)
        batch = {"x": np.ones((3, 2), np.float32)}
        trainer.step(batch)
        trainer.predict(predict, batch)
        stale = [kept["x"], *kept["parts"], *kept["top"], kept["predicted"], kept["gradient"]]
        uses = [lambda: kept["inputs"]["x"], lambda: kept["inputs"].is_training, lambda: kept["inputs"].replica,
                lambda: kept["inputs"].replicas]
        for t in stale:
            uses += [lambda t=t: t.shape, lambda t=t: t.dtype, lambda t=t: t.ndim, lambda t=t: repr(t)]
        for use in uses:
            with self.assertRaisesRegex(copse.errors.ArgumentError, "the function call that gave them is over"):
                use()
        for t in stale:  # in another call
            with self.assertRaisesRegex(copse.errors.ArgumentError, "the function call that gave them is over"):
                copse.Trainer(strategy, lambda inputs: ops.mean(inputs["x"]) + ops.mean(t)).evaluate(batch)
            with self.assertRaisesRegex(copse.errors.ArgumentError, "the function call that gave them is over"):
                copse.Trainer(strategy, lambda inputs: ops.mean(t)).evaluate(batch)
            with self.assertRaisesRegex(copse.errors.ArgumentError, "the function call that gave them is over"):
                copse.Trainer(strategy, lambda inputs: t).evaluate(batch)

    def test_other_threads_run_during_a_step(self):
        """Another thread counts. It gets the GIL only when this thread releases it, and between the two looks at the count
        there is one call of the library alone."""
        x, y = toy(20000)
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 64, 3, 4))
        trainer.step({"x": x, "y": y})
        batch, _keep = trainer._batch({"x": x, "y": y})
        result = ffi.new("struct copse_step_result *")
        count, is_over = [0], threading.Event()

        def run():
            while not is_over.is_set():
                count[0] += 1
                time.sleep(0)

        def is_released(function, *arguments):
            for _ in range(100):  # the other thread may be slow to wake up
                before = count[0]
                status = function(*arguments)
                after = count[0]
                self.assertEqual(status, lib.COPSE_OK)
                if after > before:
                    return True
            return False

        thread = threading.Thread(target=run)
        before = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        try:
            thread.start()
            for function, *more in ((lib.copse_trainer_step,), (lib.copse_trainer_evaluate, result)):
                with self.subTest(function):
                    self.assertTrue(is_released(function, trainer._pointer, batch, *more))
        finally:
            is_over.set()
            sys.setswitchinterval(before)
            thread.join()


if __name__ == "__main__":
    unittest.main()
