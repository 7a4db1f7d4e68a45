# SPDX-License-Identifier: MIT
"""tables.py COPSE [DATA,...] [OPTION...]: the defaults of `copse train` on tables beside scikit-learn.

Wine, breast cancer, iris, digits and diabetes of scikit-learn, and two tables that this program makes, flats and customers, with
texts and missing cells; each cut into 5 folds by 5 seeds. Copse and the anchor train on the same rows, take from these what they
hold out, and are judged on the same rows of the fold, which neither has seen. The anchor is scikit-learn's multilayer perceptron
after StandardScaler (texts: OneHotEncoder, missing: SimpleImputer, targets: StandardScaler) with the seed, otherwise its defaults: the better of
early_stopping=False and True. Of the table `large`, make_classification with 100,000 rows of 20 features, one fold of one seed,
and the anchor is HistGradientBoostingClassifier. OPTIONs are given to `copse train`; tables with missing cells get
--missing mean. Prints means and deviations of accuracy or R2. Exit code 0: the mean of Copse is at most 0.5 points of accuracy,
or 0.02 of R2, below; 1; 77: skipped, without scikit-learn.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
try:
    import numpy as np
    from sklearn import datasets
    from sklearn.compose import TransformedTargetRegressor, make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.model_selection import KFold, StratifiedKFold
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
except ImportError as missing:
    print(f"skipped: {sys.executable} has no scikit-learn ({missing})")
    sys.exit(77)
warnings.filterwarnings("ignore")  # that iterations did not converge

SEEDS, FOLDS = range(1, 6), 5


class Table:
    """Rows, labels or targets, and which columns are texts. A missing number is NaN, a missing text ""."""

    def __init__(self, x, y, is_class, texts=()):
        self.x, self.y, self.is_class, self.texts = x, y, is_class, list(texts)
        numbers = [i for i in range(x.shape[1]) if i not in self.texts]
        self.has_missing = bool(np.isnan(x[:, numbers].astype(float)).any())

    def anchors(self, seed):
        numbers = [i for i in range(self.x.shape[1]) if i not in self.texts]
        ready = StandardScaler()
        if self.texts:
            ready = make_column_transformer((make_pipeline(SimpleImputer(), StandardScaler()), numbers),
                                            (OneHotEncoder(handle_unknown="ignore"), self.texts))
        kind = MLPClassifier if self.is_class else MLPRegressor
        made = [make_pipeline(ready, kind(early_stopping=stops, random_state=seed)) for stops in (False, True)]
        return made if self.is_class else [TransformedTargetRegressor(m, transformer=StandardScaler()) for m in made]


class Large(Table):
    def anchors(self, seed):
        return [HistGradientBoostingClassifier(random_state=seed)]


def of_sklearn(load, is_class):
    data = load()
    return Table(data.data, data.target, is_class)


def holes(rng, column, part, missing):
    column = np.array(column, object)
    column[rng.random(len(column)) < part] = missing
    return column


def flats(rows=1500):
    """A regression: prices of flats."""
    rng = np.random.default_rng(7)
    town = rng.integers(0, 6, rows)
    area, floor, age = rng.gamma(6, 13, rows), rng.integers(0, 9, rows), rng.integers(0, 80, rows)
    heating = rng.integers(0, 3, rows)
    price = (np.array([21, 14, 33, 18, 25, 29])[town] * area * (1 - 0.004 * age + 0.00004 * (age - 40) ** 2)
             + 150 * floor * (town > 2) + np.array([0, 200, -150])[heating]) * np.exp(rng.normal(0, 0.12, rows))
    x = np.array([np.array(["Ulm", "Gera", "Bonn", "Kiel", "Trier", "Mainz"], object)[town], area.round(1),
                  holes(rng, floor, 0.1, np.nan), holes(rng, age, 0.05, np.nan),
                  holes(rng, np.array(["gas", "heat pump", "oil"], object)[heating], 0.08, "")], object).T
    return Table(x, price.round(0), False, [0, 4])


def customers(rows=1200):
    """A classification: which customers stay."""
    rng = np.random.default_rng(8)
    plan, region = rng.integers(0, 4, rows), rng.integers(0, 9, rows)
    months, calls, bill = rng.gamma(2, 14, rows), rng.poisson(2, rows), rng.gamma(4, 12, rows)
    score = (0.05 * months - 0.9 * calls * (plan < 2) - 0.03 * bill + np.array([0.5, 1.0, -0.5, 0.2])[plan]
             + 0.8 * np.sin(region) + 1.2 + rng.logistic(0, 0.7, rows))
    x = np.array([np.array(["basic", "plus", "family", "trial"], object)[plan], months.round(1), calls,
                  holes(rng, bill.round(2), 0.1, np.nan), holes(rng, np.array(list("ABCDEFGHI"), object)[region], 0.1, "")],
                 object).T
    return Table(x, (score > 0).astype(int), True, [0, 4])


def large():
    return Large(*datasets.make_classification(100_000, 20, n_informative=10, n_classes=2, flip_y=0.1, class_sep=0.8,
                                               random_state=1), True)


DATA = {
    "wine": lambda: of_sklearn(datasets.load_wine, True),
    "cancer": lambda: of_sklearn(datasets.load_breast_cancer, True),
    "iris": lambda: of_sklearn(datasets.load_iris, True),
    "digits": lambda: of_sklearn(datasets.load_digits, True),
    "diabetes": lambda: of_sklearn(lambda: datasets.load_diabetes(scaled=False), False),
    "flats": flats,
    "customers": customers,
    "large": large,
}


def write(path, x, labels):
    def cell(value):
        return value if isinstance(value, str) else "" if np.isnan(value) else repr(float(value))
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow([f"column{i}" for i in range(x.shape[1])] + ["label"])
        out.writerows([*map(cell, row), label] for row, label in zip(x, labels))


def by_copse(copse, folder, seed, options, is_class):
    model, train, test = (os.path.join(folder, name) for name in ("model", "train.csv", "test.csv"))
    subprocess.run([copse, "train", "--data", train, "--seed", str(seed), "--save", model, "--quiet", *options], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    said = subprocess.run([copse, "evaluate", model, test, "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(said.splitlines()[-1])["accuracy" if is_class else "r2"]


def judge(copse, name, options):
    t = DATA[name]()
    words = [f"class {value}" for value in t.y] if t.is_class else list(map(float, t.y))
    options = options + ["--missing", "mean"] * t.has_missing
    ours, theirs = [], [[] for _ in t.anchors(0)]
    for seed in SEEDS if name != "large" else SEEDS[:1]:
        folds = (StratifiedKFold if t.is_class else KFold)(FOLDS, shuffle=True, random_state=seed)
        for train, test in list(folds.split(t.x, t.y))[:FOLDS if name != "large" else 1]:
            with tempfile.TemporaryDirectory() as folder:
                for part, rows in (("train", train), ("test", test)):
                    write(os.path.join(folder, part + ".csv"), t.x[rows], [words[row] for row in rows])
                ours.append(by_copse(copse, folder, seed, options, t.is_class))
            for scores, model in zip(theirs, t.anchors(seed)):
                scores.append(model.fit(t.x[train], t.y[train]).score(t.x[test], t.y[test]))
    best = max(theirs, key=np.mean)
    mean, of = np.mean(ours), np.mean(best)
    is_good = mean >= of - (0.005 if t.is_class else 0.02)
    print(f"{name:10} {'accuracy' if t.is_class else 'R2':9} {len(t.y):6} rows  copse {mean:.4f} +- {np.std(ours):.4f}  "
          f"scikit-learn {of:.4f} +- {np.std(best):.4f}  {'' if is_good else 'TOO LOW'}", flush=True)
    return is_good


def main():
    copse, *rest = sys.argv[1:]
    names = rest.pop(0).split(",") if rest and not rest[0].startswith("-") else list(DATA)
    return 0 if all([judge(copse, name, rest) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main())
