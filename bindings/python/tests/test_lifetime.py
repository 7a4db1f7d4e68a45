# SPDX-License-Identifier: MIT
"""Memory and threads."""
import gc
import sys
import threading
import unittest

import numpy as np

import copse
from rig import perceptron, toy


class Lifetime(unittest.TestCase):
    def test_objects_may_die_in_any_order(self):
        x, y = toy()
        for _ in range(20):
            strategy = copse.Strategy("host")
            loss = perceptron(strategy, 8, 3, 4)
            trainer = copse.Trainer(strategy, loss)
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
        x, y = toy(20000)
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 64, 3, 4))
        trainer.step({"x": x, "y": y})
        may_run, has_run = threading.Event(), []
        thread = threading.Thread(target=lambda: (may_run.wait(), has_run.append(True)))
        thread.start()
        before = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # another thread runs only when this one releases the GIL
        try:
            may_run.set()
            for _ in range(100):
                trainer.step({"x": x, "y": y})
                if has_run:
                    break
            ran_during = list(has_run)
        finally:
            sys.setswitchinterval(before)
            thread.join()
        self.assertTrue(ran_during)


if __name__ == "__main__":
    unittest.main()
