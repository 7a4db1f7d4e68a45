# SPDX-License-Identifier: MIT
# model_numpy.py MODEL ROWS.csv PREDICTIONS.csv: computes the predictions of a model file in NumPy from docs/model-file.md
# alone and compares them with the output of `copse predict`. MODEL is a network of dense layers. ROWS.csv has no header and
# only numbers. Exit code 77 without NumPy.
import csv
import json
import struct
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: python3 has no numpy")
    sys.exit(77)

TYPES = {"F32": "<f4", "F64": "<f8"}


def read(path):
    """Arrays and metadata of a safetensors file."""
    with open(path, "rb") as f:
        raw = f.read()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    meta = header.pop("__metadata__")
    arrays = {}
    for name, a in header.items():
        begin, end = a["data_offsets"]
        arrays[name] = np.frombuffer(raw[8 + size + begin:8 + size + end], TYPES[a["dtype"]]).reshape(a["shape"])
    return arrays, meta


def features(schema, rows):
    """Column "x" of the rows, as "How x is made of a row" says."""
    x = []
    for row in rows:
        out = []
        for cell, column in zip(row, schema["columns"]):
            if column["role"] == "number":
                out.append((float(cell) - column["mean"]) / column["scale"])
            elif column["role"] == "category":
                out.extend(1.0 if cell == c else 0.0 for c in column["categories"])
        x.append(out)
    x = np.array(x, "f4").astype("f8")
    return (x - schema["input"]["offset"]) * schema["input"]["scale"]


def forward(arrays, network, scope, x):
    prefix = scope + "/" if scope else ""
    number = 0
    for layer in network.split(";"):
        word = layer.split()
        if word[0] == "dense":
            number += 1
            x = x @ arrays["%sdense%d.weight" % (prefix, number)].astype("f8")
            x = x + arrays["%sdense%d.bias" % (prefix, number)].astype("f8")
            if "relu" in word:
                x = np.maximum(x, 0)
        elif word[0] == "flatten":
            x = x.reshape(len(x), -1)
        elif word[0] != "dropout":
            raise SystemExit("no such layer here: " + layer)
    return x


def main(model, rows, predictions):
    arrays, meta = read(model)
    assert meta["format"] == "copse-model-1", meta["format"]
    schema = json.loads(meta["schema"])
    with open(rows, newline="") as f:
        y = forward(arrays, meta["network"], meta["scope"], features(schema, csv.reader(f)))
    with open(predictions, newline="") as f:
        table = list(csv.reader(f))
    if schema["task"] == "classification":
        y = np.exp(y - y.max(axis=1, keepdims=True))
        y = y / y.sum(axis=1, keepdims=True)
        classes = schema["classes"]
        names = [str(i) for i in range(classes)] if isinstance(classes, int) else classes
        assert table[0][1:] == names, table[0]
        assert [row[0] for row in table[1:]] == [names[i] for i in y.argmax(axis=1)], "classes differ"
        got = np.array([row[1:] for row in table[1:]], "f8")
    else:
        y = y * np.array([t["scale"] for t in schema["targets"]]) + np.array([t["mean"] for t in schema["targets"]])
        got = np.array(table[1:], "f8")
    error = np.max(np.abs(got - y) / (1 + np.abs(y)))
    print("%d predictions, largest difference %.2g" % (len(y), error))
    return 0 if got.shape == y.shape and error <= 1e-5 else 1


sys.exit(main(*sys.argv[1:]))
