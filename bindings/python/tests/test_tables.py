# SPDX-License-Identifier: MIT
"""Tables in memory: DataFrames, dictionaries and lists, for training and predictions."""
import datetime
import importlib.util
import unittest

import numpy as np

import copse
from copse import table
from copse._library import ffi
from copse.table import _cell, _cells_in, columns_of, is_table
from rig import InFolder

ROWS = [{"colour": "red" if i % 2 else "blue", "width": i % 2 * 2 + i % 7 / 10, "kind": "tulip" if i % 2 else "crocus"}
        for i in range(200)]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}


def frames():
    """The rows in every form, by name."""
    yield "records", ROWS
    yield "columns", COLUMNS
    yield "arrays", {name: np.array(c) for name, c in COLUMNS.items()}
    if importlib.util.find_spec("pandas"):
        import pandas
        yield "pandas", pandas.DataFrame(COLUMNS)
        yield "pandas categories", pandas.DataFrame(COLUMNS).astype({"colour": "category"})


class Tables(InFolder):
    def model(self, data):
        model = copse.Model(copse.Strategy("host"), data, "dense 8 relu; dense out", seed=1)
        model.fit(data, 40, batch_size=50, learning_rate=0.02, seed=1)
        return model

    def test_labelled_data_of_another_form_is_refused(self):
        x, y = np.zeros((4, 2), np.float32), np.array(["a", "b"] * 2)
        rows = copse.Dataset.table(ROWS)
        arrays = copse.Dataset.arrays(x, np.arange(4) % 2)
        for data in (rows, arrays):
            model = copse.Model(copse.Strategy("host"), data, "dense out")
            for wrong in ((x, y), [x, y], (COLUMNS, y), (ROWS, y), (x.tolist(), y.tolist()), x, 3, object(), (), [1.0, 2.0]):
                for name, call in (("data", lambda: model.fit(wrong, 1)),
                                   ("validation_data", lambda: model.fit(data, 1, validation_data=wrong)),
                                   ("data", lambda: model.evaluate(wrong)),
                                   ("data", lambda: model.find_lr(wrong))):
                    with self.subTest(name, form=type(wrong), kind=len(data)), self.assertRaisesRegex(
                            copse.errors.ArgumentError, rf"^{name} is .*: give a data set, such as copse.Dataset.arrays\(x, y\)"):
                        call()

    def test_rows_of_another_width_are_refused_by_the_names_of_columns(self):
        labels = ["p", "q"] * 20
        numbers = copse.Dataset.table({"a": np.arange(40) % 7, "b": np.arange(40) % 5, "c": np.arange(40) % 3, "kind": labels})
        model = copse.Model(copse.Strategy("host"), numbers, "dense out")
        for row, count in (([[1.0, 2.0]], "2 values"), (np.zeros((3, 5)), "5 values"), ([1.0, 2.0, 3.0], "1 value"),
                           ([["1", "2"]], "2 values")):
            with self.subTest(row), self.assertRaisesRegex(
                    copse.errors.ShapeError, f"^the row has {count}, the model's table has 3 columns: a, b, c$"):
                model.predict(row)
        self.assertEqual(model.predict([[1.0, 2.0, 3.0]]).shape, (1, 2))
        texts = copse.Model(copse.Strategy("host"), copse.Dataset.table(ROWS), "dense out")
        with self.assertRaisesRegex(copse.errors.ShapeError, "^the row has 1 value, the model's table has 2 columns: colour, width$"):
            texts.predict([[1.0]])
        with self.assertRaisesRegex(copse.errors.ShapeError, "columns of categories or dates: colour: give their cells as texts"):
            texts.predict([[1.0, 2.0]])
        with self.assertRaisesRegex(copse.errors.ArgumentError, "rows differ in length or kind"):
            model.predict([[1.0, 2.0], [1.0]])
        with self.assertRaisesRegex(copse.errors.ArgumentError, "row 2 is list, the first one is dict"):
            model.predict([{"a": 1.0, "b": 2.0, "c": 3.0}, [1.0, 2.0, 3.0]])
        for wrong in (object(), None):
            with self.assertRaisesRegex(copse.errors.ArgumentError, "^data is .*: give a data set, a file, an array"):
                model.predict(wrong)

    def test_balanced_weights_are_of_the_rows(self):
        data = copse.Dataset.table([row for i, row in enumerate(ROWS) if row["kind"] == "tulip" or i % 4 == 0])
        made = []  # 50 rows of crocus, 100 of tulip
        for weights in ("balanced", "1.5,0.75", "1,1"):
            model = copse.Model(copse.Strategy("host"), data, "dense 8 relu; dense out", seed=1,
                                loss=f"cross_entropy weights={weights}")
            model.fit(data, 2, seed=1)
            made.append(model.predict(ROWS[:20]))
        np.testing.assert_array_equal(made[0], made[1])
        self.assertTrue((made[0] != made[2]).any())

    def test_warnings_are_logged(self):
        with self.assertLogs("copse", "WARNING") as found:
            copse.Dataset.table([{"user_id": i, **row} for i, row in enumerate(ROWS)])
        self.assertIn("it numbers the rows", found.output[0])
        with self.assertLogs("copse", "WARNING") as found:
            copse.Dataset.table([{"user_id": i, **row} for i, row in enumerate(ROWS)], ignore="none")
        self.assertIn("if it is an identifier, leave the column out", found.output[0])

    def by_file(self):
        lines = ["colour,width,kind"] + [f"{r['colour']},{r['width']!r},{r['kind']}" for r in ROWS]
        (self.folder / "t.csv").write_text("\n".join(lines) + "\n")
        return copse.Dataset.open(self.folder / "t.csv")

    def test_a_table_is_that_of_a_file(self):
        expected = self.by_file()
        model = self.model(expected)
        for name, rows in frames():
            with self.subTest(name):
                data = copse.Dataset.table(rows)
                for column in ("x", "y"):
                    np.testing.assert_array_equal(data.column(column), expected.column(column))
                own = self.model(data)
                self.assertEqual(own.classes, ["crocus", "tulip"])
                np.testing.assert_array_equal(own.predict(rows), model.predict(self.folder / "t.csv"))
                self.assertEqual(model.evaluate(rows).accuracy, 1.0)
                np.testing.assert_array_equal(model.read(rows).column("x"), expected.column("x"))
        self.assertEqual(copse.Dataset.table(COLUMNS, label="width", ignore=["kind"]).columns["x"][1], (2,))
        self.assertEqual(copse.Dataset.table(COLUMNS, label=1).classes, 2)
        by_position = copse.Dataset.table([list(r.values()) for r in ROWS])
        np.testing.assert_array_equal(by_position.column("x"), expected.column("x"))

    def test_several_labels_are_targets(self):
        x = np.linspace(0, 1, 60)
        columns = {"x": x, "width, cm": 10 + 4 * x, "height": 500 - 300 * x}
        names = ["width, cm", "height"]
        data = copse.Dataset.table(columns, label=names)
        self.assertEqual(data.columns["y"], ("float32", (2,)))
        (self.folder / "t.csv").write_text('x,"width, cm",height\n' + "".join(
            f"{a!r},{b!r},{c!r}\n" for a, b, c in zip(*(v.tolist() for v in columns.values()))))
        for label in (names, [2, 3], '"width, cm",height'):
            file = copse.Dataset.open(self.folder / "t.csv", label=label)
            np.testing.assert_array_equal(file.column("y"), data.column("y"))
        model = copse.Model(copse.Strategy("host"), data, "dense out", seed=1)
        model.fit(data, 80, batch_size=16, learning_rate=0.05, verbose=False)
        self.assertEqual((model.task, model.outputs), ("regression", 2))
        np.testing.assert_allclose(model.predict({"x": 0.5}), [[12, 350]], rtol=0.02)
        self.assertGreater(model.evaluate(self.folder / "t.csv").r2, 0.99)
        model.save(self.folder / "model")
        again = copse.Model.load(copse.Strategy("host"), self.folder / "model")
        np.testing.assert_array_equal(again.predict([{"x": 0.25}]), model.predict({"x": 0.25}))
        for wrong, error in (([], "a list without a column"), ([0, 1], "count from 1"), (["width", "height"], 'no column named "width"')):
            with self.assertRaisesRegex(copse.errors.ArgumentError, error):
                copse.Dataset.table(columns, label=wrong)
        left = copse.Dataset.table(columns, label="height", ignore=["width, cm"], task="regression")
        self.assertEqual(left.columns["x"][1], (1,))

    def test_predictions(self):
        model = self.model(self.by_file())
        one = model.predict({"width": 2.3, "colour": "red"})
        self.assertEqual(one.shape, (1, 2))
        self.assertEqual(model.classes[one[0].argmax()], "tulip")
        two = model.predict([{"width": 2.3, "colour": "red"}, {"colour": "blue", "width": 0.1}])
        np.testing.assert_array_equal(two[0], one[0])
        self.assertEqual(two.argmax(1).tolist(), [1, 0])
        for given in ({"width": [2.3, 0.1], "colour": ["red", "blue"]},
                      {"width": ["2.3", " 0.1 "], "colour": ("red", "blue")}):
            np.testing.assert_array_equal(model.predict(given), two)
        np.testing.assert_array_equal(model.predict({"width": 2.3, "colour": "red", "kind": None, "other": "x"}), one)

    def test_cells_that_training_did_not_know(self):
        model = self.model(self.by_file())
        with self.assertLogs("copse", "WARNING") as log:
            found = model.predict(
                [{"width": 2.3, "colour": "green"},
                 {"width": None, "colour": "red"},
                 {"colour": "red"}])
        self.assertEqual(len(log.output), 2)
        self.assertRegex(log.output[0] + log.output[1], '"green" in row 1')
        np.testing.assert_array_equal(found[1], found[2])
        with self.assertRaisesRegex(copse.errors.FormatError, 'row 1.*"green"|"green".*row 1'):
            model.predict({"width": 2.3, "colour": "green"}, unknown="refuse")
        with self.assertRaisesRegex(copse.errors.FormatError, "row 1"):
            model.predict({"width": float("nan"), "colour": "red"}, missing="refuse")
        with self.assertNoLogs("copse", "WARNING") if hasattr(self, "assertNoLogs") else self.subTest():
            model.predict({"width": None, "colour": "red"}, missing="mean")
        after_an_empty_cell = {"width": [2.3, 2.3, None, 2.3], "colour": ["", "red", "", "red"]}
        with self.assertLogs("copse", "WARNING"):
            found = model.predict(after_an_empty_cell)
        np.testing.assert_array_equal(found[[1, 3]], model.predict({"width": [2.3] * 2, "colour": ["red"] * 2}))
        with self.assertRaisesRegex(copse.errors.Error, "colour"):
            model.predict({"width": 2.3})
        with self.assertRaisesRegex(copse.errors.FormatError, "width"):
            model.predict({"width": "wide", "colour": "red"})

    def test_special_numbers(self):
        model = self.model(self.by_file())
        for special in (float("inf"), -float("inf"), np.float32("inf")):
            with self.assertRaises(copse.errors.FormatError):
                model.predict({"width": special, "colour": "red"})
        np.testing.assert_array_equal(model.predict({"width": np.float64("nan"), "colour": "red"}, missing="mean"),
                                      model.predict({"width": None, "colour": "red"}, missing="mean"))

    def test_many_rows(self):
        """More than 65,535 of them: each gets the prediction of its own cells."""
        model = self.model(self.by_file())
        n = 70000
        found = model.predict(
            {"width": [i % 2 * 2.5 for i in range(n)],
             "colour": ["red" if i % 2 else "blue" for i in range(n)]})
        np.testing.assert_array_equal(found.argmax(1), np.arange(n) % 2)

    def test_no_rows_and_wrong_forms(self):
        model = self.model(self.by_file())
        for rows, text in (({"width": [1.0], "colour": ["red", "blue"]}, "column 'colour' has 2 rows, the first one 1"),
                           ({"width": [1.0], "colour": "red"}, "column 'colour' has one cell"),
                           ([["red", 1.0], ["blue"]], "rows have 1 to 2 cells"),
                           ({"width": 1.0, "colour": "re\0d"}, "NUL"),
                           ({"width": [], "colour": []}, "row")):
            with self.assertRaisesRegex((copse.errors.ShapeError, copse.errors.ArgumentError), text):
                model.predict(rows)
        with self.assertRaises(copse.errors.Error):
            copse.Dataset.table([])


class Dates(unittest.TestCase):
    def test_an_effect_of_the_weekday_is_learned(self):
        days = [datetime.date(2020, 1, 1) + datetime.timedelta(i) for i in range(700)]
        rows = {"day": days, "noise": np.arange(700) % 13, "free": ["yes" if d.weekday() > 4 else "no" for d in days]}
        data = copse.Dataset.table(rows, label="free")
        model = copse.Model(copse.Strategy("host"), data, "mlp:8")
        model.fit(data, 20, learning_rate=0.02, verbose=False)
        self.assertGreater(model.evaluate(data).accuracy, 0.98)
        later = [datetime.datetime(2022, 1, d, 12) for d in range(1, 15)]
        found = model.predict({"day": later, "noise": [1] * 14})
        self.assertEqual([model.classes[k] for k in found.argmax(1)], ["yes" if d.weekday() > 4 else "no" for d in later])


class Cells(unittest.TestCase):
    def test_cells(self):
        for x, text in (("red", b"red"), ("", b""), ("\u00fc", "\u00fc".encode()), (3, b"3"),
                        (-(10**30), b"-1" + b"0" * 30), (0.1, b"0.1"), (1e300, b"1e+300"), (np.float32(0.5), b"0.5"),
                        (np.int64(-7), b"-7"),
                        (True, b"True"), (np.bool_(False), b"False"), (None, None), (float("nan"), None),
                        (np.float32("nan"), None),
                        (float("inf"), b"inf"), (datetime.date(2020, 1, 2), b"2020-01-02")):
            self.assertEqual(_cell(x), text)

    def test_arrays_stay_numbers(self):
        """Cells of an array are numbers of the table, or the same texts as one by one."""
        random = np.random.default_rng(1)
        floats = np.concatenate([random.normal(size=50) * 10.0 ** random.integers(-300, 300, 50),
                                 [0.0, -0.0, np.nan, np.inf, -np.inf, 1e16, 1e-5, 2.0, 5e-324]])
        with np.errstate(over="ignore"):
            smaller = floats.astype(np.float32), floats.astype(np.float16)
        for column in (floats, *smaller, np.arange(-5, 60, dtype=np.int8), np.array([2**53, -2**53]), np.array([7.5]),
                       np.array([2**53], np.uint64), floats[::2], floats.reshape(1, -1)[0], np.array([3, 0], np.uint64)):
            self.assertIs(_cells_in(column).dtype, column.dtype)
            for others in ([], [[str(x) for x in range(len(column))]]):
                cells = table.Cells(["a", "b"][:1 + len(others)], [column, *others])
                found = np.array([cells.struct.numbers[0][i] for i in range(len(column))])
                np.testing.assert_array_equal(found.view(np.uint64), column.astype(np.float64).view(np.uint64))
                if others:
                    self.assertEqual(cells.struct.numbers[1], ffi.NULL)
                    self.assertEqual([ffi.string(cells.struct.cells[2 * i + 1]) for i in range(len(column))],
                                     [x.encode() for x in others[0]])
                else:
                    self.assertEqual(cells.struct.cells, ffi.NULL)
        for column in (np.array([2**53 + 1, 1]), np.array([2**63 - 1, -2**63]), np.array([2**64 - 1, 0], np.uint64),
                       np.array([True, False, False])):
            cells = table.Cells(None, [column])
            self.assertEqual(cells.struct.numbers[0], ffi.NULL)
            self.assertEqual([ffi.string(cells.struct.cells[i]) for i in range(len(column))],
                             [str(x).encode() for x in column])
        for column in (np.array([1, "x"], object), np.array(["a"]), np.array(["2020-01-01"], "M8[D]"), [1.0, 2]):
            self.assertIsInstance(_cells_in(column), list)

    def test_cells_of_one_row(self):
        """Numbers where a double holds them."""
        for x, number in ((1.5, 1.5), (np.float32(0.25), 0.25), (2**53, 2.0**53), (np.int64(-3), -3.0), (-0.0, -0.0),
                          (2**53 + 1, None), (np.uint64(2**64 - 1), None), (True, None), (np.bool_(False), None), ("2", None)):
            cells = table.Cells(["a", "b"], [[x], ["text"]])
            self.assertEqual(cells.struct.numbers[1], ffi.NULL)
            if number is None:
                self.assertEqual(cells.struct.numbers[0], ffi.NULL)
                self.assertEqual(ffi.string(cells.struct.cells[0]), str(x).encode())
            else:
                self.assertEqual(np.float64(cells.struct.numbers[0][0]).tobytes(), np.float64(number).tobytes())
            self.assertEqual([ffi.string(cells.struct.names[i]) for i in range(2)], [b"a", b"b"])
            self.assertEqual(ffi.string(cells.struct.cells[1]), b"text")

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_missing_cells_of_pandas(self):
        import pandas
        frame = pandas.DataFrame({"a": pandas.array([1, None], "Int64"), "b": ["x", None],
                                  "c": pandas.to_datetime(["2020-01-02", None]),
                                  "d": pandas.array([None, 0.5], "Float64"),
                                  "e": pandas.array([2**53 + 1, None], "Int64"),
                                  "f": pandas.array([True, None], "boolean"),
                                  "g": pandas.array([None, 255], "UInt8")})
        names, columns = columns_of(frame)
        self.assertEqual(names, list("abcdefg"))
        self.assertEqual([[_cell(x) for x in c] for c in columns], [
            [b"1.0", None], [b"x", None], [b"2020-01-02 00:00:00", None], [None, b"0.5"], [b"9007199254740993", None],
            [b"True", None], [None, b"255.0"]])
        self.assertEqual([isinstance(c, np.ndarray) for c in columns], [c in "adg" for c in "abcdefg"])

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_one_row_of_pandas_equals_one_of_many(self):
        """Another path, since pandas takes long for a column of one cell."""
        import pandas
        frame = pandas.DataFrame({"f": [1.0, np.nan], "f32": np.array([.1, -0.0], np.float32), "i": [2**60, 1],
                                  "b": [True, False], "s": ["a", None], "c": pandas.Categorical(["x", None]),
                                  "d": pandas.to_datetime(["2020-01-01", None]), "n": pandas.array([1, None], "Int64"),
                                  "o": pandas.Series([1, None], dtype=object)})
        frame.columns = ["f", "f", *frame.columns[2:]]  # two of one name
        for i in range(2):
            names, columns = columns_of(frame.iloc[[i]])
            self.assertEqual(names, list(frame.columns))
            for alone, all_rows in zip(columns, columns_of(frame)[1]):
                one, many = (table.Cells(["x"], [c]) for c in (alone, all_rows))
                if one.struct.numbers[0] and many.struct.numbers[0]:
                    self.assertEqual(*(np.float64(x).tobytes() for x in
                                       (one.struct.numbers[0][0], many.struct.numbers[0][i])))
                else:
                    self.assertEqual(_cell(alone[0]), _cell(all_rows[i]))

    def test_numbers_of_every_type_are_the_same_table(self):
        """The bits of a table of texts, in training and in predictions; a category and a class that are numbers, too."""
        n = 60
        columns = {"big": np.arange(n) % 7 + 2**53 - 3, "small": (np.arange(n) % 5 / 4).astype(np.float32),
                   "yes": np.arange(n) % 3 == 0, "colour": ["red" if i % 2 else "blue" for i in range(n)],
                   "kind": np.arange(n) % 2 * 4 + 3}
        texts = {k: [str(x) for x in (c.tolist() if isinstance(c, np.ndarray) else c)] for k, c in columns.items()}
        models = []
        for rows in (columns, texts):
            data = copse.Dataset.table(rows)
            models.append(copse.Model(copse.Strategy("host"), data, "dense 4 relu; dense out", seed=1))
            models[-1].fit(data, 2, seed=1)
            self.assertEqual(data.classes, 2)
        self.assertEqual(models[0].classes, ["3", "7"])
        np.testing.assert_array_equal(models[0].predict(columns), models[1].predict(texts))
        np.testing.assert_array_equal(models[0].predict(texts), models[1].predict(columns))
        many = models[0].predict(columns)  # one row has another path
        for i in range(6):
            for row in ({k: c[i] for k, c in columns.items()}, {k: c[i] for k, c in texts.items()},
                        {k: getattr(c[i], "item", lambda: c[i])() for k, c in columns.items()}):
                np.testing.assert_array_equal(models[0].predict(row), many[i:i + 1])
        self.assertEqual(models[0].evaluate(columns).accuracy, models[0].evaluate(texts).accuracy)
        codes = copse.Dataset.table({"code": ["1", "2", "x"] * 20, "y": np.arange(60) % 2})
        model = copse.Model(copse.Strategy("host"), codes, "dense out", seed=1)
        expected = model.predict({"code": ["1", "2"]})
        self.assertTrue((expected[0] != expected[1]).any())
        for given in (np.array([1, 2]), np.array([1.0, 2.0]), np.array([1, 2], np.uint8)):
            np.testing.assert_array_equal(model.predict({"code": given}), expected)
        for given in (np.array([np.inf]), np.array([-np.inf], np.float32)):
            with self.assertRaisesRegex(copse.errors.FormatError, r'row 1, column 1 \("small"\): -?inf is too large'):
                models[0].predict({"small": given, "big": [1], "yes": [True], "colour": ["red"]})
        with self.assertRaisesRegex(copse.errors.FormatError, "inf is too large"):
            copse.Dataset.table({"x": np.array([1.0, np.inf]), "y": [0, 1]})

    def test_forms(self):
        self.assertEqual(columns_of([{"a": 1}, {"b": 2, "a": 3}]), (["a", "b"], [[1, 3], [None, 2]]))
        self.assertEqual(columns_of([("x", 1), ("y", 2)]), (None, [["x", "y"], [1, 2]]))
        for table in (COLUMNS, ROWS, [["x", 1]], np.array([["x", "y"]]), np.array([[1, None]], object)):
            self.assertTrue(is_table(table))
        for array in (np.zeros((2, 2)), [[1.0, 2.0]], [], np.zeros((0, 2)), 3):
            self.assertFalse(is_table(array))


if __name__ == "__main__":
    unittest.main()
