# SPDX-License-Identifier: MIT
"""Files: variables, checkpoints, safetensors."""
import os
import subprocess
import sys
import unittest

import numpy as np

import copse
from copse import ops
from rig import InFolder, perceptron, toy


class FineTuning(InFolder):
    def test_body_of_another_model(self):
        x, y = toy()
        columns = {f"c{i}": x[:, i] for i in range(x.shape[1])}
        data, two = (copse.Dataset.table({**columns, "label": y % classes}, label="label") for classes in (3, 2))
        first = copse.Model(copse.Strategy("host"), data, "mlp:8,6")
        first.fit(data, 2, verbose=False)
        first.save(self.folder / "first")
        before = {v.name: v.numpy() for v in first.variables}
        model = copse.Model(copse.Strategy("host"), two, "mlp:8,6")
        taken = model.load_weights(self.folder / "first")
        self.assertEqual((len(taken.matched), taken.skipped), (4, ["dense3.weight", "dense3.bias"]))
        self.assertEqual((taken.head, taken.input), ("the file has 3 classes, the data 2", ""))
        model.fit(two, 2, freeze=["dense1.*"], groups="dense2.*: rate=0.5", verbose=False)
        for v in model.variables:
            if v.name.startswith("dense1."):
                np.testing.assert_array_equal(v.numpy(), before[v.name])
            elif v.name.startswith("dense2."):
                self.assertFalse(np.array_equal(v.numpy(), before[v.name]))
        with self.assertRaisesRegex(copse.errors.ArgumentError, '"dens9.[*]" matches no trained variable'):
            copse.Trainer(model.strategy, model, freeze="dens9.*")

    def test_frozen_body(self):
        x, y = toy()
        data = copse.Dataset.table({**{f"c{i}": x[:, i] for i in range(x.shape[1])}, "label": y}, label="label")
        model = copse.Model(copse.Strategy("host"), data, "mlp:8,6")

        def changed(train):
            before = {v.name: v.numpy() for v in model.variables}
            train()
            return [v.name for v in model.variables if not np.array_equal(v.numpy(), before[v.name])]

        def steps():
            trainer = copse.Trainer(model.strategy, model, learning_rate=0.01, freeze="body")
            trainer.fit(data, 1, verbose=False)
            trainer.close()

        head = ["dense3.weight", "dense3.bias"]
        self.assertEqual(changed(lambda: model.fit(data, 1, freeze="body", verbose=False)), head)
        self.assertEqual(changed(lambda: model.fit(data, 1, freeze=["dense1.*", "body"], verbose=False)), head)
        self.assertEqual(changed(steps), head)
        self.assertEqual(changed(lambda: model.fit(data, 1, freeze="dense1.*, *.bias", verbose=False)),
                         ["dense2.weight", "dense3.weight"])
        self.assertEqual(len(changed(lambda: model.fit(data, 1, freeze=None, verbose=False))), 6)
        every = model.find_lr(data, steps=20, batch_size=16)
        self.assertFalse(np.array_equal(model.find_lr(data, steps=20, batch_size=16, freeze="body").losses, every.losses))
        with self.assertRaisesRegex(copse.errors.ArgumentError, "leave groups out"):
            model.fit(data, 1, freeze="body", groups="*.bias: decay=0")
        for setting in ({"freeze": "body"}, {"body_rate": 0.1}):
            with self.assertRaisesRegex(copse.errors.ArgumentError, "head of a Model, but the loss is a function"):
                copse.Trainer(model.strategy, lambda inputs: None, **setting)

    def test_rate_of_the_body(self):
        x, y = toy()
        data = copse.Dataset.table({**{f"c{i}": x[:, i] for i in range(x.shape[1])}, "label": y}, label="label")
        model = copse.Model(copse.Strategy("host"), data, "mlp:8,6", seed=1)
        first = {v.name: v.numpy() for v in model.variables}

        def trained(**settings):
            for v in model.variables:
                v.assign(first[v.name])
            model.fit(data, 2, optimizer="sgd", learning_rate=0.1, verbose=False, **settings)
            return {v.name: v.numpy() for v in model.variables}

        slow = trained(body_rate=0.1)
        of_groups = trained(groups="dense1.*, dense2.*: rate=0.1")
        whole = trained(body_rate=1.0)
        for name, values in trained().items():
            np.testing.assert_array_equal(slow[name], of_groups[name])
            np.testing.assert_array_equal(whole[name], values)
            self.assertFalse(np.array_equal(slow[name], values))
        every = model.find_lr(data, steps=20, batch_size=16)
        self.assertFalse(np.array_equal(model.find_lr(data, steps=20, batch_size=16, body_rate=0.1).losses, every.losses))
        for rate in (0, -1.0, float("inf"), float("nan")):
            with self.assertRaisesRegex(copse.errors.ArgumentError, "body_rate is .*: a factor above 0"):
                model.fit(data, 1, body_rate=rate)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "a frozen body has no rate"):
            model.fit(data, 1, body_rate=0.1, freeze="body")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "body_rate makes groups of all variables: leave groups out"):
            model.fit(data, 1, body_rate=0.1, groups="*.bias: decay=0")


class FindLearningRate(unittest.TestCase):
    def test_range_test(self):
        x, y = toy()
        data = copse.Dataset.table({**{f"c{i}": x[:, i] for i in range(x.shape[1])}, "label": y}, label="label")
        model = copse.Model(copse.Strategy("host"), data, "mlp:8")
        before = [v.numpy() for v in model.variables]
        found = model.find_lr(data, batch_size=16, steps=50, end_lr=1.0, optimizer="sgd", freeze="dense1.*")
        for v, values in zip(model.variables, before):
            np.testing.assert_array_equal(v.numpy(), values)
        self.assertTrue(len(found.rates) == len(found.losses) == len(found.smoothed) <= 50)
        self.assertAlmostEqual(found.rates[0], 1e-7, 12)
        self.assertAlmostEqual(found.suggestion, 0.1 * found.rates[np.argmin(found.smoothed)], 6)
        again = model.find_lr(data, batch_size=16, steps=50, end_lr=1.0, optimizer="sgd", freeze="dense1.*")
        np.testing.assert_array_equal(found.losses, again.losses)
        self.assertIsNone(model.find_lr(data, batch_size=len(x), steps=10, start_lr=1e-30, end_lr=1e-29).suggestion)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "5 steps; 10 to 1000 are possible"):
            model.find_lr(data, steps=5)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "batch_size is -1: at least 1, or 0 for 64"):
            model.find_lr(data, batch_size=-1)
        with self.assertRaisesRegex(TypeError, "Model.find_lr.. takes no 'learning_rate': the test sets the rate: start_lr, end_lr"):
            model.find_lr(data, learning_rate=0.1)

    def test_range_test_of_a_trainer(self):
        x, y = toy()
        data = copse.Dataset.arrays(x, y)
        model = copse.Model(copse.Strategy("host"), data, "mlp:8")
        before = [v.numpy() for v in model.variables]
        batches = data.batches(16, seed=0)
        by_model = model.find_lr(data, batch_size=16, steps=30, optimizer="sgd")
        found = copse.Trainer.find_lr(model.strategy, model, batches, steps=30, optimizer="sgd")
        np.testing.assert_array_equal(found.rates, by_model.rates)
        self.assertAlmostEqual(found.rates[-1], 10.0, 4)
        for v, values in zip(model.variables, before):
            np.testing.assert_array_equal(v.numpy(), values)
        again = copse.Trainer.find_lr(model.strategy, model, batches, steps=30, optimizer="sgd")
        np.testing.assert_array_equal(found.losses, again.losses)

        def fails(inputs):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            copse.Trainer.find_lr(model.strategy, fails, batches)
        with self.assertRaisesRegex(TypeError, "Trainer.find_lr.. takes no 'learning_rate'"):
            copse.Trainer.find_lr(model.strategy, model, batches, learning_rate=0.1)

    def test_wrong_numbers_of_fit(self):
        x, y = toy()
        data = copse.Dataset.table({**{f"c{i}": x[:, i] for i in range(x.shape[1])}, "label": y}, label="label")
        model = copse.Model(copse.Strategy("host"), data, "mlp:8")
        for epochs in 0, -1:
            with self.assertRaisesRegex(copse.errors.ArgumentError, f"epochs is {epochs}: at least 1"):
                model.fit(data, epochs)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "batch_size is -1: at least 1"):
            model.fit(data, 1, batch_size=-1)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "seed is -1: at least 0"):
            model.fit(data, 1, seed=-1)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "data is None: give a data set"):
            model.fit(None)

    def test_rows_decide_the_epochs(self):
        x, y = toy(90)
        data = copse.Dataset.table({**{f"c{i}": x[:, i] for i in range(x.shape[1])}, "label": y}, label="label")
        few = copse.Model(copse.Strategy("host"), data, "mlp:8").fit(data)
        x, y = toy(60000)
        data = copse.Dataset.table({**{f"c{i}": x[:, i] for i in range(x.shape[1])}, "label": y}, label="label")
        train, test = data.split()
        many = copse.Model(copse.Strategy("host"), data, "mlp:8").fit(train, batch_size=4096, validation_data=test)
        self.assertGreater(len(few.epoch), 2 * len(many.epoch))
        self.assertIsNotNone(many.best_epoch)

    def test_parts_and_folds(self):
        y = np.repeat(np.arange(3), (5, 15, 30)).astype(np.int32)
        data = copse.Dataset({"x": np.arange(50, dtype=np.float32)[:, None], "y": y})
        for seed in range(3):
            train, test = data.split(0.8, seed, stratify=True)
            self.assertEqual(np.bincount(test.column("y")).tolist(), [1, 3, 6])
            held = [data.fold(5, k, seed=seed, stratify=True) for k in range(5)]
            self.assertEqual(sorted(np.concatenate([h.column("x")[:, 0] for _, h in held]).tolist()), list(range(50)))
            for train, test in held:
                self.assertEqual(np.bincount(test.column("y")).tolist(), [1, 3, 6])
                self.assertEqual(sorted([*train.column("x")[:, 0], *test.column("x")[:, 0]]), list(range(50)))
        with self.assertRaisesRegex(copse.errors.ArgumentError, "fold"):
            data.fold(5, 5)
        with self.assertRaisesRegex(copse.errors.ArgumentError, "fold is -1: at least 0"):
            data.fold(5, fold=-1)


class Files(InFolder):
    def test_variables_and_checkpoints(self):
        x, y = toy()
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4))
        for _ in range(3):
            trainer.step({"x": x, "y": y})
        trainer.save(self.folder / "weights.safetensors")
        arrays, _ = copse.safetensors.load(self.folder / "weights.safetensors")
        for v in strategy.variables():
            np.testing.assert_array_equal(arrays[v.name], v.numpy())
        trainer.checkpoint(self.folder / "state.safetensors", epoch=1, batch=2)
        after = [trainer.step({"x": x, "y": y}).loss for _ in range(2)]
        self.assertEqual(trainer.restore(self.folder / "state.safetensors"), (1, 2))
        self.assertEqual([trainer.step({"x": x, "y": y}).loss for _ in range(2)], after)
        self.assertEqual(trainer.slot(strategy.variables()[0], "m").shape, (4, 8))

    def test_safetensors_of_every_type(self):
        types = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                 "uint64", "bool"]
        arrays = {t: np.arange(6).reshape(2, 3).astype(t) for t in types} | {
            "scalar": np.float32(3), "empty": np.zeros((0, 4), np.float32), "strided": np.arange(12.0)[::2]}
        copse.safetensors.save(self.folder / "a.safetensors", arrays, {"key": "välue"})
        again, metadata = copse.safetensors.load(self.folder / "a.safetensors")
        self.assertEqual(metadata, {"key": "välue"})
        for name, a in arrays.items():
            self.assertEqual(again[name].dtype, np.asarray(a).dtype)
            np.testing.assert_array_equal(again[name], a)

    def test_a_damaged_file_is_a_format_error(self):
        (self.folder / "bad").write_bytes(b"\x05\0\0\0\0\0\0\0[]   ")
        with self.assertRaises(copse.errors.FormatError):
            copse.safetensors.load(self.folder / "bad")
        with self.assertRaises(copse.errors.FileError):
            copse.safetensors.load(self.folder / "none")

    def test_weights_of_pytorch_and_back(self):
        """torch.nn.Linear has [outputs, inputs]. The forward passes are NumPy's, with the file in PyTorch's layout."""
        rng = np.random.default_rng(4)
        shapes = {"dense1.weight": (8, 4), "dense1.bias": (8,), "dense2.weight": (3, 8), "dense2.bias": (3,)}
        given = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        x, y = toy()

        def forward(w):
            return np.maximum(x @ w["dense1.weight"].T + w["dense1.bias"], 0) @ w["dense2.weight"].T + w["dense2.bias"]

        def network():
            strategy = copse.Strategy("host")
            layers = copse.nn.Layers("dense 8 relu; dense out", strategy, shape=(4,), outputs=3)
            trainer = copse.Trainer(strategy, lambda inputs: ops.sparse_cross_entropy(
                layers(inputs, inputs["x"]), inputs["y"]))
            return trainer, lambda inputs: layers(inputs, inputs["x"])

        copse.safetensors.save(self.folder / "torch", given | {"other": np.zeros(2, np.float32)}, {"format": "pt"})
        trainer, predict = network()
        with self.assertRaisesRegex(copse.errors.ArgumentError, '"format": "pt"'):
            trainer.load(self.folder / "torch")
        found = trainer.load(self.folder / "torch", layout="torch", needs_all=True)
        self.assertEqual((found.matched, found.missing, found.unused), (list(shapes), [], ["other"]))
        np.testing.assert_allclose(trainer.predict(predict, {"x": x}), forward(given), rtol=1e-5, atol=1e-5)

        for _ in range(3):
            trainer.step({"x": x, "y": y})
        trainer.save(self.folder / "copse")
        back, _ = copse.safetensors.load(self.folder / "copse")
        turned = {name: a.T if a.ndim == 2 else a for name, a in back.items()}
        self.assertTrue((turned["dense1.weight"] != given["dense1.weight"]).any())
        np.testing.assert_allclose(trainer.predict(predict, {"x": x}), forward(turned), rtol=1e-5, atol=1e-5)
        copse.safetensors.save(self.folder / "half", {"dense2.bias": np.array([1, 2, 3], np.float16)})
        found = trainer.load(self.folder / "half")
        self.assertEqual((found.matched, found.missing), (["dense2.bias"], list(shapes)[:3]))
        with self.assertRaisesRegex(copse.errors.ShapeError, "f16"):
            trainer.load(self.folder / "half", is_exact=True)
        with self.assertRaises(copse.errors.ArgumentError):
            trainer.load(self.folder / "half", needs_all=True)
        body = trainer.load(self.folder / "torch", layout="torch", choose=lambda name: not name.startswith("dense2."))
        self.assertEqual((body.matched, body.skipped), (list(shapes)[:2], list(shapes)[2:]))
        np.testing.assert_array_equal(trainer.strategy.variables()[3].numpy(), np.array([1, 2, 3], np.float32))

    def test_a_module_of_pytorch_and_back(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        names = {f"{i}.{part}": f"dense{k}.{part}" for k, i in ((1, 0), (2, 2)) for part in ("weight", "bias")}

        def module():
            return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))

        net, (x, y) = module(), toy()
        x = x.astype(np.float32)
        copse.safetensors.save(self.folder / "torch", {names[k]: v.detach() for k, v in net.state_dict().items()},
                               {"format": "pt"})
        strategy = copse.Strategy("host")
        layers = copse.nn.Layers("dense 8 gelu; dense out", strategy, shape=(4,), outputs=3)

        def predict(inputs):
            return layers(inputs, inputs["x"])

        trainer = copse.Trainer(strategy, lambda inputs: ops.sparse_cross_entropy(predict(inputs), inputs["y"]))
        trainer.load(self.folder / "torch", layout="torch", needs_all=True)
        for _ in range(2):
            with torch.no_grad():
                expected = net(torch.from_numpy(x)).numpy()
            np.testing.assert_allclose(trainer.predict(predict, {"x": x}), expected, rtol=1e-5, atol=1e-5)
            trainer.step({"x": x, "y": y})  # the second round has the weights of Copse
            net = module()
            net.load_state_dict({k: torch.from_numpy(np.array(v.numpy().T)) for k, v in
                                 ((k, {w.name: w for w in strategy.variables()}[n]) for k, n in names.items())})


class Resumed(InFolder):
    """A run that is cut and resumed in another process ends with the bits of an undisturbed one."""

    PROGRAM = """
import sys
import numpy as np
import copse
from copse import ops
from rig import toy
way, folder = sys.argv[1:]
x, y = toy(70)
strategy = copse.Strategy("host:0,host:0")
network = copse.nn.Layers("dense 8 relu; dropout 0.3; dense out", strategy, shape=(4,), outputs=3)
def loss(inputs):
    return ops.sparse_cross_entropy(network(inputs, inputs["x"]), inputs["y"])
trainer = copse.Trainer(strategy, loss, seed=1 if way == "second" else 5) # a checkpoint has the seed
batches = copse.Dataset({"x": x, "y": y}).batches(16, seed=2)
start = (0, 0)
if way == "whole":
    trainer.fit(batches, 4)
elif way == "first":
    for i, batch in enumerate(batches.epoch(0)):
        trainer.step(batch)
    for i, batch in enumerate(batches.epoch(1)):
        if i == 2:
            break
        trainer.step(batch)
    trainer.checkpoint(folder + "/cut", epoch=1, batch=2)
elif way == "second":
    trainer.fit(batches, 4, start=trainer.restore(folder + "/cut"))
elif way == "monitor":
    monitor = copse.Monitor(trainer, batches, 4, folder=folder + "/run", every_steps=2)
    print(monitor.resumed_from, monitor.run(7), monitor.saved)
trainer.save(folder + "/" + way)
"""

    def run_way(self, way):
        run = subprocess.run([sys.executable, "-c", self.PROGRAM, way, str(self.folder)], capture_output=True, text=True,
                             env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def weights(self, name):
        return (self.folder / name).read_bytes()

    def test_from_a_checkpoint(self):
        self.run_way("whole")
        self.run_way("first")
        self.assertNotEqual(self.weights("first"), self.weights("whole"))
        self.run_way("second")
        self.assertEqual(self.weights("second"), self.weights("whole"))

    def test_by_a_monitor(self):
        self.run_way("whole")
        said = [self.run_way("monitor") for _ in range(3)]
        self.assertEqual(said[0], "None 7 4\n")
        self.assertRegex(said[1], r"^/.*/run/step-0*6\.safetensors 7 3\n$")
        self.assertRegex(said[2], r"step-0*12\.safetensors 7 3\n$")
        self.run_way("monitor")
        self.assertEqual(self.weights("monitor"), self.weights("whole"))


class Monitored(InFolder):
    def monitor(self, **settings):
        x, y = toy(48)
        strategy = copse.Strategy("host")
        trainer = copse.Trainer(strategy, perceptron(strategy, 8, 3, 4))
        return copse.Monitor(trainer, copse.Dataset({"x": x, "y": y}).batches(16), 2, **settings)

    def test_steps_results_and_checkpoints(self):
        results = []
        monitor = self.monitor(file=self.folder / "state", every_steps=4, on_step=results.append)
        self.assertEqual((monitor.resumed_from, monitor.saved), (None, 1))
        self.assertEqual(monitor.run(2), 2)
        monitor.checkpoint()
        self.assertEqual(monitor.run(), 4)
        self.assertEqual([r.step for r in results], [1, 2, 3, 4, 5, 6])
        self.assertEqual(monitor.newest, str(self.folder / "state"))
        again = self.monitor(file=self.folder / "state")
        self.assertEqual((again.resumed_from, again.run()), (str(self.folder / "state"), 0))
        with self.assertRaises(copse.errors.ArgumentError):
            self.monitor(file=self.folder / "state", is_new=True)
        with self.assertRaises(copse.errors.ArgumentError):
            self.monitor().checkpoint()

    def test_an_exception_of_the_application_ends_the_run(self):
        def on_step(result):
            if result.step == 3:
                raise KeyError(result.step)

        monitor = self.monitor(on_step=on_step)
        with self.assertRaises(KeyError):
            monitor.run()
        self.assertEqual(monitor.trainer.steps, 3)
        self.assertEqual(monitor.run(), 3)


if __name__ == "__main__":
    unittest.main()
