# SPDX-License-Identifier: MIT
"""Memory and threads."""
import gc
import sys
import threading
import time
import unittest

import numpy as np

import copse
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
