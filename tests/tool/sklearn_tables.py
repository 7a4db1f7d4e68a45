# SPDX-License-Identifier: MIT
"""sklearn_tables.py COPSE LIBCOPSE: `copse train` with default options against scikit-learn's multilayer perceptron.

Writes wine, breast cancer, iris and diabetes of scikit-learn as CSV with column names and labels in words. Five seeds each:
both train on the same rows and are judged on the same rows, which Copse holds out; tests/judges/tables.py judges
by other rows. The mean accuracy must be at most 1.5 points, the mean R2 at most
0.05, below that of MLPClassifier or MLPRegressor with StandardScaler and the same layers. Exit code 77 without scikit-learn.
"""
import ctypes
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
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.preprocessing import StandardScaler
except ImportError as missing:
    print(f"skipped: {sys.executable} has no scikit-learn ({missing}): name a Python that has it in COPSE_SKLEARN_PYTHON")
    sys.exit(77)
warnings.filterwarnings("ignore")  # scikit-learn reports that 200 iterations did not converge

SEEDS = range(1, 6)
LAYERS = (128, 64)


class View(ctypes.Structure):  # struct copse_array_view
    _fields_ = [("type", ctypes.c_int), ("rank", ctypes.c_uint32), ("shape", ctypes.c_size_t * 8), ("data", ctypes.c_void_p)]


class Split(ctypes.Structure):  # struct copse_split_params
    _fields_ = [("train_fraction", ctypes.c_double), ("seed", ctypes.c_uint64), ("reserved", ctypes.c_uint64 * 4)]


def split(lib, rows, seed):
    """The rows that `copse train --seed SEED` trains on, and those that it holds out."""
    def need(status):
        if status != 0:
            raise RuntimeError(lib.copse_last_error())
    ctx, whole, parts = ctypes.c_void_p(), ctypes.c_void_p(), [ctypes.c_void_p(), ctypes.c_void_p()]
    numbers = np.arange(rows, dtype=np.float32)
    view = View(0, 1, (ctypes.c_size_t * 8)(rows), numbers.ctypes.data)
    need(lib.copse_context_create(None, ctypes.byref(ctx)))
    need(lib.copse_dataset_create(ctx, ctypes.byref(view), None, None, ctypes.byref(whole)))
    need(lib.copse_dataset_split(whole, ctypes.byref(Split(0, seed)), *(ctypes.byref(p) for p in parts)))
    train = int(np.floor(rows * 0.8 + 0.5))
    result = []
    for part, count in zip(parts, (train, rows - train)):
        taken = np.zeros(count, np.float32)
        need(lib.copse_dataset_gather(part, b"x", None, ctypes.c_size_t(count), taken.ctypes.data_as(ctypes.c_void_p)))
        result.append(taken.astype(int))
        lib.copse_dataset_release(ctypes.byref(part))
    lib.copse_dataset_release(ctypes.byref(whole))
    lib.copse_context_release(ctypes.byref(ctx))
    return result


def write_csv(path, data, is_regression):
    with open(path, "w", encoding="utf-8") as out:
        out.write(",".join(f'"{name}"' for name in data.feature_names) + ",target\n")
        for row, label in zip(data.data, data.target):
            name = repr(float(label)) if is_regression else str(data.target_names[label])
            out.write(",".join(repr(float(v)) for v in row) + f",{name}\n")


def copse_score(copse, path, seed):
    run = subprocess.run([copse, "train", "--devices", "host:0", "--data", path, "--seed", str(seed), "--split", "random", "--json"], check=True,
                         capture_output=True, text=True)
    done = json.loads(run.stdout.splitlines()[-1])
    return done["r2" if "r2" in done else "accuracy"]


def sklearn_score(data, train, held_out, seed, is_regression):
    scaler = StandardScaler().fit(data.data[train])
    model = (MLPRegressor if is_regression else MLPClassifier)(hidden_layer_sizes=LAYERS, random_state=seed)
    model.fit(scaler.transform(data.data[train]), data.target[train])
    return model.score(scaler.transform(data.data[held_out]), data.target[held_out])


def main():
    copse, lib = sys.argv[1], ctypes.CDLL(sys.argv[2])
    lib.copse_last_error.restype = ctypes.c_char_p
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("wine", "breast_cancer", "iris", "diabetes"):
            data = getattr(datasets, "load_" + name)()
            is_regression = name == "diabetes"
            path = os.path.join(folder, name + ".csv")
            write_csv(path, data, is_regression)
            ours = np.mean([copse_score(copse, path, seed) for seed in SEEDS])
            theirs = np.mean([sklearn_score(data, *split(lib, len(data.data), seed), seed, is_regression) for seed in SEEDS])
            below = theirs - ours
            is_good = below <= (0.05 if is_regression else 0.015)
            failed += not is_good
            print(f"{name}: {'R2' if is_regression else 'accuracy'} {ours:.4f}, scikit-learn {theirs:.4f}"
                  f"{'' if is_good else ': too low'}")
    sys.exit(1 if failed else 0)


main()
