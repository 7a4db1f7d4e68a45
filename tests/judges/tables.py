# SPDX-License-Identifier: MIT
"""tables.py COPSE [DATA,...] [OPTION...]: the defaults of `copse train` on small tables beside scikit-learn.

Wine, breast cancer, iris, digits and diabetes of scikit-learn, each cut into 5 folds by 5 seeds. Copse and scikit-learn's
multilayer perceptron (StandardScaler, early_stopping=True, the seed, otherwise its defaults) train on the same rows, take from
these what they hold out, and are judged on the same rows of the fold, which neither has seen. OPTIONs are given to `copse train`.
Prints means and deviations of accuracy or R2. Exit code 0: the mean of Copse is at most 0.5 points of accuracy, or 0.02 of R2,
below; 1; 77: skipped, without scikit-learn.
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
    from sklearn.model_selection import KFold, StratifiedKFold
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
except ImportError as missing:
    print(f"skipped: {sys.executable} has no scikit-learn ({missing})")
    sys.exit(77)
warnings.filterwarnings("ignore")  # that iterations did not converge

SEEDS, FOLDS = range(1, 6), 5
DATA = {
    "wine": (datasets.load_wine, True),
    "cancer": (datasets.load_breast_cancer, True),
    "iris": (datasets.load_iris, True),
    "digits": (datasets.load_digits, True),
    "diabetes": (lambda: datasets.load_diabetes(scaled=False), False),
}


def write(path, x, labels):
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow([f"column{i}" for i in range(x.shape[1])] + ["label"])
        out.writerows([*map(repr, map(float, row)), label] for row, label in zip(x, labels))


def by_copse(copse, folder, seed, options, is_class):
    model, train, test = (os.path.join(folder, name) for name in ("model", "train.csv", "test.csv"))
    subprocess.run([copse, "train", "--data", train, "--seed", str(seed), "--save", model, "--quiet", *options], check=True,
                   stdout=subprocess.DEVNULL)
    said = subprocess.run([copse, "evaluate", model, test, "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(said.splitlines()[-1])["accuracy" if is_class else "r2"]


def by_sklearn(x, y, train, test, seed, is_class):
    kind = MLPClassifier if is_class else MLPRegressor
    model = make_pipeline(StandardScaler(), kind(early_stopping=True, random_state=seed))
    return model.fit(x[train], y[train]).score(x[test], y[test])


def judge(copse, name, options):
    load, is_class = DATA[name]
    data = load()
    x, y = data.data, data.target
    words = [f"class {value}" for value in y] if is_class else list(map(float, y))
    ours, theirs = [], []
    for seed in SEEDS:
        folds = (StratifiedKFold if is_class else KFold)(FOLDS, shuffle=True, random_state=seed)
        for train, test in folds.split(x, y):
            with tempfile.TemporaryDirectory() as folder:
                for part, rows in (("train", train), ("test", test)):
                    write(os.path.join(folder, part + ".csv"), x[rows], [words[row] for row in rows])
                ours.append(by_copse(copse, folder, seed, options, is_class))
            theirs.append(by_sklearn(x, y, train, test, seed, is_class))
    mean, of = np.mean(ours), np.mean(theirs)
    is_good = mean >= of - (0.005 if is_class else 0.02)
    print(f"{name:10} {'accuracy' if is_class else 'R2':9} {len(y):5} rows  copse {mean:.4f} +- {np.std(ours):.4f}  "
          f"scikit-learn {of:.4f} +- {np.std(theirs):.4f}  {'' if is_good else 'TOO LOW'}", flush=True)
    return is_good


def main():
    copse, *rest = sys.argv[1:]
    names = rest.pop(0).split(",") if rest and not rest[0].startswith("-") else list(DATA)
    return 0 if all([judge(copse, name, rest) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main())
