# SPDX-License-Identifier: MIT
"""The same numbers through TensorFlow's tf.distribute and through Copse, compared.

usage: parity.py PROGRAM [WORD...]     PROGRAM: the built tests/parity; only cases whose name has a WORD

Every case says what it allows: 0 where the arithmetic is exact or one correctly rounded operation, and for the
rest a limit with its reason. A case that differs on purpose has to differ in the way that
docs/tf-distribute-tests.md says.
"""
import os
import subprocess
import sys
import tempfile
import traceback

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import tensorflow as tf  # noqa: E402

U = 2.0**-24  # unit roundoff of float32


class Refused(Exception):
    """What a side says no with: the name of a status, or of an exception."""


# ---- Copse's side ----

def encode(array):
    array = np.asarray(array)
    dims = ",".join(map(str, array.shape))
    if np.issubdtype(array.dtype, np.integer):
        return "i:%s:%s" % (dims, ",".join(map(str, array.ravel().tolist())))
    flat = np.asarray(array, np.float32).ravel()
    return "f:%s:%s" % (dims, ",".join(float(x).hex() for x in flat))


def decode(word):
    kind, dims, values = word.split(":")
    shape = [int(d) for d in dims.split(",") if d]
    if kind == "i":
        return np.array([int(v) for v in values.split(",") if v], np.int64).reshape(shape)
    return np.array([float.fromhex(v) for v in values.split(",") if v], np.float64).reshape(shape)


class Copse:
    """The program, asked one request at a time."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def words(self, *request):
        line = " ".join(encode(r) if isinstance(r, (np.ndarray, np.generic)) else str(r)
                        for r in request)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n")
        if answer.startswith("error "):
            raise Refused(answer.split(" ", 2)[1])
        if not answer.startswith("ok"):
            raise RuntimeError("parity: the program ended at: %s" % line[:200])
        return answer.split()[1:]

    def ask(self, *request):
        return [decode(word) for word in self.words(*request)]

    def close(self):
        self.process.stdin.close()
        return self.process.wait(timeout=120)


# ---- both sides of a strategy ----

class Pair:
    """A strategy of TensorFlow's and the one of Copse that is compared with it."""

    def __init__(self, copse, kind, devices):
        self.copse = copse
        self.kind = kind
        self.devices = devices
        self.count = len(devices)
        cpus = ["/cpu:%d" % i for i in range(self.count)]
        # With several replicas its own choice, collectives, mixes up strategies of one process.
        ops = tf.distribute.ReductionToOneDevice() if self.count > 1 else None
        self.tf = (tf.distribute.OneDeviceStrategy(cpus[0]) if kind == "one"
                   else tf.distribute.MirroredStrategy(cpus, cross_device_ops=ops))
        self.renew()

    @property
    def name(self):
        same = len(set(self.devices)) == 1
        return "%s %s" % (self.kind, "%s x%d" % (self.devices[0], self.count) if same
                          else "+".join(self.devices))

    def renew(self):
        """A strategy without variables."""
        self.copse.ask("strategy", self.kind, *self.devices)

    def per_replica(self, arrays):
        return self.tf.experimental_distribute_values_from_function(
            lambda context: tf.constant(arrays[context.replica_id_in_sync_group]))

    def local(self, value):
        return [np.asarray(v) for v in self.tf.experimental_local_results(value)]

    def local_variables(self, variable):
        return self.tf.experimental_local_results(variable)

    def make_integer_mean(self):
        with self.tf.scope():
            return [tf.Variable(np.int32([1]), aggregation=tf.VariableAggregation.MEAN)]

    def hierarchical_sum(self):
        """1 + 2 + ... over the replicas, by hierarchical copy; it works in graphs alone."""
        strategy = tf.distribute.MirroredStrategy(
            ["/cpu:%d" % i for i in range(self.count)],
            cross_device_ops=tf.distribute.HierarchicalCopyAllReduce())

        def replica():
            context = tf.distribute.get_replica_context()
            return context.all_reduce("SUM",
                                      tf.cast(context.replica_id_in_sync_group, tf.float32) + 1)
        return tf.function(lambda: strategy.experimental_local_results(strategy.run(replica)))()


def outcome(function, *args):
    """What a function gives, as a list of arrays, or the name of its refusal."""
    try:
        result = function(*args)
    except Refused as refusal:
        return str(refusal)
    except (ValueError, TypeError, NotImplementedError, RuntimeError, tf.errors.OpError) as error:
        if str(error).startswith("parity:"):
            raise
        return type(error).__name__
    return [np.asarray(r) for r in result]


# ---- comparing ----

# Refusals that mean the same, as docs/from-tf-distribute.md has them.
SAME_REFUSALS = (("ValueError", "ERR_ARGUMENT"), ("InvalidArgumentError", "ERR_SHAPE"),
                 ("NotImplementedError", "ERR_UNSUPPORTED"))


class Table:
    """Rows of all strategies, printed as one line for each case."""

    def __init__(self):
        self.rows = {}  # (family, case): [strategies, worst, limit, note]
        self.printed = 0
        self.failed = 0

    def row(self, family, case, where, difference, limit, note=""):
        is_good = difference <= limit  # NaN is no pass
        entry = self.rows.setdefault((family, case), [0, 0.0, limit, note])
        entry[0] += 1
        entry[1] = max(entry[1], difference)
        entry[2] = max(entry[2], limit)
        if not is_good:
            self.failed += 1
            print("FAILED %-10s %s on %s: %.2g, limit %.2g %s" % (family, case, where, difference,
                                                                  limit, note), flush=True)

    def purpose(self, case, where, is_as_documented, theirs, ours, pointer):
        note = "TensorFlow %s, Copse %s: %s" % (theirs, ours, pointer)
        self.row("purpose", case, where, 0.0 if is_as_documented else float("inf"), 0.0, note)

    def compare(self, family, case, where, theirs, ours, limit=0.0, scale=None):
        """Largest |theirs - ours|, of `scale` where one is given; or the same refusal."""
        if isinstance(theirs, str) or isinstance(ours, str):
            is_same = (theirs, ours) in SAME_REFUSALS
            said = [t if isinstance(t, str) else "a result" for t in (theirs, ours)]
            self.row(family, case, where, 0.0 if is_same else float("inf"), 0.0,
                     "refused: %s, %s" % tuple(said))
            return
        self.row(family, case, where, difference_of(theirs, ours, scale), limit)

    def print_new(self):
        """Cases since the last call."""
        for (family, case), (count, worst, limit, note) in list(self.rows.items())[self.printed:]:
            print("%-6s %-10s %-50s %d x, worst %-8.2g limit %-8.2g%s" % (
                "pass" if worst <= limit else "FAILED", family, case, count, worst, limit,
                "  " + note if note else ""), flush=True)
        self.printed = len(self.rows)

    def summary(self):
        families = {}
        for (family, _), (count, worst, limit, _) in self.rows.items():
            entry = families.setdefault(family, [0, 0, 0.0, 0.0])
            for i, x in enumerate((1, count)):
                entry[i] += x
            entry[2], entry[3] = max(entry[2], worst), max(entry[3], limit)
        print("\n%-12s %6s %12s  %-16s %s" % ("family", "cases", "comparisons", "worst difference",
                                              "limit"))
        for family, (cases, count, worst, limit) in families.items():
            print("%-12s %6d %12d  %-16.2g %.2g" % (family, cases, count, worst, limit))
        print("%d comparisons, %d of them of what differs on purpose, %d failed" % (
            sum(f[1] for f in families.values()), families.get("purpose", [0, 0])[1], self.failed))


def difference_of(theirs, ours, scale=None):
    """Largest difference; infinite where numbers or shapes of arrays differ."""
    if len(theirs) != len(ours):
        return float("inf")
    worst = 0.0
    for t, o in zip(theirs, ours):
        t, o = np.asarray(t, np.float64), np.asarray(o, np.float64)
        if t.shape != o.shape:
            return float("inf")
        if not t.size:
            continue
        apart = np.where(t == o, 0.0, np.abs(t - o))  # infinities may be equal
        if scale is not None:
            apart = apart / np.maximum(scale, 1e-300)
        largest = float(np.max(apart))
        worst = largest if largest > worst or np.isnan(largest) else worst
    return worst


def norm_difference(theirs, ours):
    """||theirs - ours|| / ||theirs|| of a list of arrays as one."""
    t = np.concatenate([np.ravel(a) for a in theirs]).astype(np.float64)
    o = np.concatenate([np.ravel(a) for a in ours]).astype(np.float64)
    return float(np.linalg.norm(t - o) / np.linalg.norm(t))


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4)
    tf.get_logger().setLevel("ERROR")
    import cases
    copse = Copse(sys.argv[1])
    there = copse.words("devices")
    print("TensorFlow %s, Keras %s, NumPy %s; Copse %s with %s" % (
        tf.__version__, tf.keras.__version__, np.__version__, copse.words("version")[0],
        ", ".join(there)), flush=True)
    sets = [["host:0"] * n for n in (1, 2, 3, 4)]
    mixed = [d for d in ("opencl:0", "vulkan:0") if d in there]
    if len(mixed) == 2:
        sets += [mixed, mixed + ["host:0"]]
    else:
        print("skipped: opencl:0 with vulkan:0: no such devices")
    pairs = [Pair(copse, "mirrored", s) for s in sets]
    pairs += [Pair(copse, "one", [d]) for d in ["host:0"] + mixed]
    table = Table()
    with tempfile.TemporaryDirectory() as folder:
        for function in cases.ALL:
            if len(sys.argv) > 2 and not any(w in function.__name__ for w in sys.argv[2:]):
                continue
            for pair in pairs:
                pair.renew()
                try:
                    function(table, pair, folder)
                except Exception:  # one case must not hide the others
                    traceback.print_exc()
                    table.row("broken", function.__name__, pair.name, float("inf"), 0.0)
            table.print_new()
    table.summary()
    if copse.close() != 0:
        print("FAILED: the program ended with an error")
        return 1
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.modules["parity"] = sys.modules["__main__"]
    sys.exit(main())
