# SPDX-License-Identifier: MIT
"""Estimators with the interface of scikit-learn, with it and without it; pickles of them and of models."""
import copy
import importlib.util
import os
import pickle
import subprocess
import sys
import unittest
import warnings
from unittest import mock

import numpy as np

import copse
from rig import DEVICES, SOME_DEVICES, InFolder

HAS_SKLEARN = importlib.util.find_spec("sklearn") is not None
HAS_PANDAS = importlib.util.find_spec("pandas") is not None
needs_sklearn = unittest.skipUnless(HAS_SKLEARN, "scikit-learn is not installed")
needs_pandas = unittest.skipUnless(HAS_PANDAS, "pandas is not installed")

# Checks of scikit-learn that do not apply, with the reason.
NOT_FOR_US = {
    "check_sample_weight_equivalence_on_dense_data":
        "the order of rows in mini-batches depends on their number, so a row twice is not a row with the weight 2",
}
SKIPPED_BY_SKLEARN = {"check_array_api_input": "SCIPY_ARRAY_API is not set"}


def flowers(rows=120, seed=0):
    """Two features; the labels are texts."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, rows)
    return rng.normal(size=(rows, 2)) * 0.5 + kind[:, None] * [2.0, -1.0], np.array(["iris", "crocus", "tulip"])[kind]


def numbers(rows=200, seed=0):
    x = np.random.default_rng(seed).uniform(-1, 1, (rows, 3))
    return x, 1000 + 300 * x[:, 0] - 100 * x[:, 1]


class Checks(unittest.TestCase):
    @needs_sklearn
    def test_checks_of_sklearn(self):
        from sklearn.utils.estimator_checks import check_estimator
        for estimator in copse.Classifier(device="host", epochs=60), copse.Regressor(device="host", epochs=60):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = check_estimator(estimator, expected_failed_checks=NOT_FOR_US, on_fail=None, on_skip=None)
            self.assertGreater(len(results), 50)
            for r in results:
                with self.subTest(f"{type(estimator).__name__}: {r['check_name']}"):
                    expected = ("xfail" if r["check_name"] in NOT_FOR_US else
                                "skipped" if r["check_name"] in SKIPPED_BY_SKLEARN else "passed")
                    self.assertEqual((r["status"], r["exception"] if expected == "passed" else None), (expected, None))

    @needs_sklearn
    def test_in_tools_of_sklearn(self):
        from sklearn.base import clone
        from sklearn.model_selection import GridSearchCV, cross_val_score
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        x, y = flowers()
        model = copse.Classifier("dense 8 relu; dense out", epochs=20,
                                 learning_rate=0.02, device="host", random_state=1)
        self.assertGreater(cross_val_score(model, x, y, cv=3).min(), 0.85)
        search = GridSearchCV(make_pipeline(StandardScaler(), clone(model)), {"classifier__epochs": [1, 20]}, cv=3)
        self.assertEqual(search.fit(x, y).best_params_, {"classifier__epochs": 20})
        self.assertEqual(repr(copse.Regressor(epochs=3)), "Regressor(epochs=3)")


class Estimators(unittest.TestCase):
    def test_a_classifier_of_texts(self):
        x, y = flowers()
        new, expected = flowers(60, seed=1)
        for device in SOME_DEVICES:
            model = copse.Classifier("dense 8 relu; dense out", epochs=30,
                                     learning_rate=0.02, device=device, random_state=1)
            self.assertIs(model.fit(x, y), model)
            self.assertEqual(model.classes_.tolist(), ["crocus", "iris", "tulip"])
            self.assertEqual((model.n_features_in_, model.n_iter_, model.model_.strategy.devices), (2, 30, [device]))
            probabilities = model.predict_proba(new)
            self.assertEqual(probabilities.shape, (60, 3))
            np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
            self.assertEqual(model.predict(new).tolist(), model.classes_[probabilities.argmax(1)].tolist())
            self.assertGreater(model.score(new, expected), 0.9)
            self.assertEqual(model.score(new, expected), np.mean(model.predict(new) == expected))
            self.assertLess(model.history_.history["loss"][-1], model.history_.history["loss"][0])

    def test_rows_decide_without_epochs(self):
        x, y = flowers()  # 120 rows: 1,000 steps of 64 rows
        model = copse.Classifier(device="host", random_state=1).fit(x, y)
        self.assertEqual(model.n_iter_, 500)
        plain = copse.Classifier("mlp:128,64 dropout=0", weight_decay=0, device="host", random_state=1).fit(x, y)
        self.assertTrue((model.predict_proba(x) != plain.predict_proba(x)).any())
        same = copse.Classifier("mlp:128,64 dropout=0.2", epochs=500, weight_decay=np.float32(0.02), device="host",
                                random_state=1).fit(x, y)
        np.testing.assert_array_equal(model.predict_proba(x), same.predict_proba(x))

    def test_a_regressor(self):
        x, y = numbers()
        new, expected = numbers(50, seed=1)
        for target, right in ((y, expected), (np.stack([y, -y], 1), np.stack([expected, -expected], 1))):
            model = copse.Regressor("dense out", epochs=60, learning_rate=0.05,
                                    device="host", random_state=1).fit(x, target)
            self.assertEqual(model.predict(new).shape, right.shape)
            np.testing.assert_allclose(model.predict(new), right, atol=5)
            self.assertGreater(model.score(new, right), 0.999)

    def test_random_states(self):
        x, y = flowers(64)

        def fitted(state):
            return copse.Classifier("dense out", epochs=2, device="host", random_state=state).fit(x, y).predict_proba(x)

        np.testing.assert_array_equal(fitted(3), fitted(3))
        np.testing.assert_array_equal(fitted(np.random.RandomState(3)), fitted(np.random.RandomState(3)))
        self.assertFalse(np.array_equal(fitted(3), fitted(4)))
        self.assertFalse(np.array_equal(fitted(None), fitted(None)))

    def test_sample_weights(self):
        """Half of the rows have wrong labels, and no weight."""
        x, y = flowers(200)
        wrong = np.arange(200) % 2 == 0
        told = np.where(wrong, "tulip", y)
        for device in DEVICES:
            model = copse.Classifier("dense out", epochs=30, learning_rate=0.1, device=device, random_state=1)
            self.assertLess(model.fit(x, told).score(x, y), 0.8)
            self.assertGreater(model.fit(x, told, sample_weight=~wrong).score(x, y), 0.9)
        x, y = numbers()
        told = np.where(np.arange(len(y)) % 2 == 0, 0, y)
        model = copse.Regressor("dense out", epochs=60, learning_rate=0.05, device="host", random_state=1)
        model.fit(x, told, sample_weight=(told != 0) * 7.0)
        np.testing.assert_allclose(model.predict(x), y, atol=20)
        equal = [model.fit(x, y, w).predict(x) for w in (None, np.full(len(y), 0.25))]
        np.testing.assert_allclose(*equal, rtol=1e-4)

    def test_wrong_weights(self):
        x, y = flowers(20)
        model = copse.Classifier("dense out", epochs=1, device="host")
        for special in (np.nan, np.inf, -np.inf, -1.0):
            with self.assertRaisesRegex(ValueError, "is not one number, 0 or more, for each of the 20 rows"):
                model.fit(x, y, [special] + [1.0] * 19)
        with self.assertRaisesRegex(ValueError, "for each of the 20 rows"):
            model.fit(x, y, [1.0] * 19)

    def test_class_weights(self):
        x, y = flowers(300)
        rare = (y == "iris").nonzero()[0][4:]
        x, y = np.delete(x, rare, 0) * 0.3, np.delete(y, rare)
        settings = dict(network="dense out", epochs=30, learning_rate=0.05, device="host", random_state=1)

        def found(class_weight):
            model = copse.Classifier(class_weight=class_weight, **settings).fit(x, y)
            return (model.predict(x[y == "iris"]) == "iris").mean()

        self.assertLess(found(None), 0.5)
        self.assertEqual(found("balanced"), 1.0)
        self.assertEqual(found({"iris": 50}), 1.0)
        with self.assertRaisesRegex(ValueError, "class 'rose', which the labels have not"):
            found({"rose": 1})
        with self.assertRaisesRegex(ValueError, "class_weight is 'balance'"):
            found("balance")
        for weight in -1, np.nan, np.inf:
            with self.assertRaisesRegex(ValueError, f"class_weight of 'iris' is {weight}: use a number, 0 or more"):
                found({"iris": weight})
        with self.assertRaisesRegex(TypeError, 'class_weight is list: use "balanced" or a mapping'):
            found([1, 2, 3])

    def test_wrong_numbers(self):
        x, y = flowers(20)
        for epochs in 0, -3:
            with self.assertRaisesRegex(ValueError, f"epochs is {epochs}: at least 1"):
                copse.Classifier("dense out", epochs=epochs, device="host").fit(x, y)
        with self.assertRaisesRegex(ValueError, "batch_size is -1: at least 1, or 0 for 64"):
            copse.Classifier("dense out", epochs=1, batch_size=-1, device="host").fit(x, y)

    def test_wrong_data(self):
        x, y = flowers(20)
        model = copse.Classifier("dense out", epochs=1, device="host")
        for f in model.predict, model.predict_proba, lambda x: model.save("m"):
            with self.assertRaisesRegex(ValueError, "not fitted yet"):
                f(x)
        for special in np.nan, np.inf, -np.inf:
            with self.assertRaisesRegex(ValueError, "NaN|inf"):
                model.fit(np.where(np.arange(40).reshape(20, 2) == 7, special, x), y)
        with self.assertRaisesRegex(ValueError, "one class, 'iris'"):
            model.fit(x, ["iris"] * 20)
        model.fit(x, y)
        with self.assertRaisesRegex(ValueError, "3 features"):
            model.predict(np.zeros((2, 3)))

    @needs_pandas
    def test_data_frames(self):
        import pandas
        x, y = flowers()
        frame = pandas.DataFrame({"length": x[:, 0], "width": x[:, 1]})
        model = copse.Classifier("dense 8 relu; dense out", epochs=30,
                                 learning_rate=0.02, device="host", random_state=1)
        model.fit(frame, pandas.Series(y))
        self.assertEqual(model.feature_names_in_.tolist(), ["length", "width"])
        self.assertGreater(model.score(frame, pandas.Series(y)), 0.9)
        with self.assertRaisesRegex(ValueError, "names|columns"):
            model.predict(frame[["width", "length"]])

    @needs_pandas
    def test_row_numbers_of_data_frames(self):
        import pandas
        x, y = flowers()
        frame = pandas.DataFrame({"Id": range(1, 121), "length": x[:, 0], "width": x[:, 1]})
        for part in frame, frame.assign(kind=["a", "b"] * 60):
            for model, labels in ((copse.Classifier("dense out", epochs=2, device="host", random_state=1), y),
                                  (copse.Regressor("dense out", epochs=2, device="host", random_state=1), x[:, 0])):
                with self.subTest(f"{type(model).__name__}, {len(part.columns)} columns"):
                    with self.assertLogs("copse", "WARNING") as log:
                        model.fit(part, labels)
                    self.assertRegex(log.output[0], '"Id".*: it numbers the rows')
                    np.testing.assert_array_equal(model.predict(part.assign(Id=0)), model.predict(part))
        two = copse.Regressor("dense out", epochs=2, device="host").fit(frame, x)
        self.assertEqual(two.predict(frame).shape, (120, 2))

    @needs_pandas
    def test_empty_data_frames(self):
        import pandas
        for frame in pandas.DataFrame(), pandas.DataFrame({"a": []}), pandas.DataFrame(index=range(3)):
            with self.assertRaisesRegex(ValueError, r"Classifier: the features are \[\d, \d\], not \[rows, features\]"):
                copse.Classifier("dense out", epochs=1, device="host").fit(frame, ["a"] * len(frame))

    @needs_pandas
    def test_data_frames_of_texts(self):
        import pandas
        x, y = flowers(200)
        colour = np.where(x[:, 0] > 1, "red", "blue")
        frame = pandas.DataFrame({"colour": colour, "width": x[:, 1]})
        for labels in y, np.unique(y, return_inverse=True)[1] * 10 - 10, x[:, 1] > 0.5:
            model = copse.Classifier("dense 8 relu; dense out", epochs=30,
                                     learning_rate=0.02, device="host", random_state=1)
            model.fit(frame, labels)
            self.assertEqual(model.classes_.tolist(), sorted(set(labels.tolist())))
            self.assertEqual((model.feature_names_in_.tolist(), model.n_features_in_), (["colour", "width"], 2))
            self.assertGreater(model.score(frame, labels), 0.85)
            again = pickle.loads(pickle.dumps(model))
            np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
            with self.assertLogs("copse", "WARNING") as log:
                model.predict(pandas.DataFrame({"colour": ["green", None], "width": [1.0, np.nan]}))
            self.assertRegex(" ".join(log.output), '"green"')
        model = copse.Regressor("dense 16 relu; dense out", epochs=150,
                                learning_rate=0.02, device="host", random_state=1)
        target = 100 * (colour == "red") + 10 * x[:, 1]
        self.assertGreater(model.fit(frame, target).score(frame, target), 0.99)
        self.assertGreater(model.fit(frame, target, np.ones(200)).score(frame, target), 0.99)

    @needs_pandas
    def test_labels_that_the_model_has_in_another_order(self):
        import pandas
        frame = pandas.DataFrame({"letter": ["a", "b", "c"] * 20})
        for labels in (
            ["10", "9", "8"],
            [2, 10, 1],
            [1.0, 10.0, 2.0],
            ["x", " y", "z"],
            ["B", "a", "C"],
            [True, False, True]):
            model = copse.Classifier("dense out", epochs=50, learning_rate=0.05, device="host", random_state=0)
            self.assertEqual(model.fit(frame, labels * 20).predict(frame[:3]).tolist(), labels)
        with self.assertRaisesRegex(ValueError, "the same without blanks"):
            model.fit(frame, ["a", " a", "b"] * 20)

    @needs_pandas
    def test_missing_cells(self):
        import pandas
        x, y = flowers()
        frame = pandas.DataFrame(x, columns=["length", "width"])
        frame.loc[::7, "width"] = np.nan
        model = copse.Classifier("dense 8 relu; dense out", epochs=30,
                                 learning_rate=0.02, device="host", random_state=1)
        with self.assertRaisesRegex(ValueError, 'column 2 ."width".*: the cell is empty'):
            model.fit(frame, y)
        self.assertGreater(model.set_params(missing="mean").fit(frame, y).score(frame, y), 0.85)
        texts = frame.assign(kind=np.where(x[:, 0] > 1, "a", None))
        with self.assertRaisesRegex(ValueError, "missing"):
            model.set_params(missing="auto").fit(texts, y)
        self.assertGreater(model.set_params(missing="mean").fit(texts, y).score(texts, y), 0.85)

    def test_early_stopping(self):
        x, y = flowers(150)
        model = copse.Classifier(
            "dense 64 relu; dense out", epochs=500, learning_rate=0.05, device="host", random_state=1,
            early_stopping=True, validation_fraction=0.2, n_iter_no_change=4)
        model.fit(x, y)
        losses = model.history_.history["val_loss"]
        best = model.history_.best_epoch
        self.assertLess(model.n_iter_, 500)
        self.assertEqual((len(losses), losses.index(min(losses))), (model.n_iter_, best))
        self.assertGreater(model.score(x, y), 0.85)
        self.assertGreater(model.fit(x, y, np.ones(150)).score(x, y), 0.85)
        numbers_ = copse.Regressor("dense out", epochs=500, learning_rate=0.5, device="host", random_state=1,
                                   early_stopping=True, tol=10.0)
        self.assertEqual(numbers_.fit(x, x[:, 0]).n_iter_, 11)
        for fraction in 0.0, 1.0, np.nan, 1e-9:
            with self.assertRaisesRegex(ValueError, "validation_fraction"):
                model.set_params(validation_fraction=fraction).fit(x, y)

    def test_held_out_rows_are_of_all_classes(self):
        from copse.estimators import _split
        groups = np.array([0] * 80 + [1] * 15 + [2] * 5)
        kept, chosen = _split(100, 0.2, 3, groups)
        self.assertEqual(sorted([*kept, *chosen]), list(range(100)))
        self.assertEqual(np.bincount(groups[chosen]).tolist(), [16, 3, 1])


class Pickles(InFolder):
    def model(self, device="host"):
        x, y = flowers()
        data = copse.Dataset.arrays(x, np.unique(y, return_inverse=True)[1].astype(np.int32), scale="standard")
        model = copse.Model(copse.Strategy(device), data, "dense 8 relu; dense out", seed=1)
        model.fit(data, 3)
        return model, x

    def test_models(self):
        for device in [*DEVICES, "host:0,host:0"]:
            model, x = self.model(device)
            for again in pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model):
                self.assertIsNot(again.strategy, model.strategy)
                self.assertEqual(again.strategy.devices, model.strategy.devices)
                np.testing.assert_array_equal(again.predict(x), model.predict(x))
                before = model.predict(x)
                again.fit(copse.Dataset.arrays(x, np.zeros(len(x), np.int32), classes=3), 1, learning_rate=1.0)
                np.testing.assert_array_equal(model.predict(x), before)

    def test_a_machine_without_the_device(self):
        model, x = self.model()
        _, (state,) = model.__reduce__()
        with self.assertWarnsRegex(RuntimeWarning, "opencl:97"):
            again = copse.model._restored({**state, "devices": "opencl:97"})
        self.assertEqual(again.strategy.devices, copse.select("auto"))
        np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-5)

    def test_another_format(self):
        _, (state,) = self.model()[0].__reduce__()
        with self.assertRaisesRegex(copse.errors.FormatError, "has format 2, this version of Copse reads 1"):
            copse.model._restored({**state, "format": 2})
        with self.assertRaises(copse.errors.FormatError):
            copse.model._restored({**state, "file": state["file"][:100]})

    def test_estimators(self):
        x, y = flowers()
        for model in (copse.Classifier("dense out", epochs=3, device="host", random_state=1).fit(x, y),
                      copse.Regressor("dense out", epochs=3, device="host", random_state=1).fit(x, x[:, 0])):
            copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
            if importlib.util.find_spec("joblib"):
                import joblib
                joblib.dump(model, self.folder / "m.joblib")
                copies.append(joblib.load(self.folder / "m.joblib"))
            model.save(self.folder / "m.safetensors")
            for again in copies:
                self.assertEqual(again.get_params(), model.get_params())
                self.assertEqual(again.predict(x).tolist(), model.predict(x).tolist())
            loaded = copse.Model.load(copse.Strategy("host"), self.folder / "m.safetensors")
            np.testing.assert_array_equal(loaded.predict(x), model.model_.predict(x))

    def test_in_another_process(self):
        model, x = self.model()
        (self.folder / "m.pickle").write_bytes(pickle.dumps((model, x)))
        found = subprocess.run([sys.executable, "-c", "import pickle, sys; m, x = pickle.load(open('m.pickle', 'rb'));"
                                "sys.stdout.buffer.write(m.predict(x).tobytes())"],
                               cwd=self.folder, capture_output=True, check=True).stdout
        self.assertEqual(found, model.predict(x).tobytes())


class WithoutSklearn(unittest.TestCase):
    """The same tests where scikit-learn cannot be imported."""

    def test_estimators(self):
        program = (
            "import sys, unittest; sys.modules['sklearn'] = None; sys.path.insert(0, sys.argv[1]);"
            "import test_estimators;"
            "unittest.main('test_estimators', argv=['', 'Estimators', 'Pickles.test_estimators', 'Parameters'])")
        run = subprocess.run(
            [sys.executable, "-c", program, os.path.dirname(os.path.abspath(__file__))],
            capture_output=True, text=True, env=os.environ)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_import_does_not_import_it(self):
        program = "import copse, sys; assert not {'sklearn', 'pandas', 'IPython', 'tqdm'} & set(sys.modules)"
        subprocess.run([sys.executable, "-c", program], check=True)


class Parameters(unittest.TestCase):
    def test_parameters(self):
        model = copse.Regressor(epochs=3)
        self.assertEqual(model.get_params()["epochs"], 3)
        self.assertIs(model.set_params(epochs=4, device="host"), model)
        self.assertEqual((model.epochs, model.device), (4, "host"))
        with self.assertRaisesRegex(ValueError, "epoch"):
            model.set_params(epoch=4)
        self.assertEqual(repr(copse.Regressor(epochs=3)), "Regressor(epochs=3)")
        with self.assertRaises(AttributeError):
            copse.Clasifier
        with self.assertRaises(TypeError):
            copse.Classifier(epoch=3)


if __name__ == "__main__":
    unittest.main()
