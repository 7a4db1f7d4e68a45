# SPDX-License-Identifier: MIT
"""The cases of parity.py: each function compares one subject on one pair of strategies."""
import numpy as np
import tensorflow as tf

from parity import U, outcome
from training import TRAINING

SYNC = {"on_write": tf.VariableSynchronization.ON_WRITE,
        "on_read": tf.VariableSynchronization.ON_READ}
AGGREGATION = {"none": tf.VariableAggregation.NONE, "sum": tf.VariableAggregation.SUM,
               "mean": tf.VariableAggregation.MEAN,
               "first": tf.VariableAggregation.ONLY_FIRST_REPLICA}


# ---- values ----

def components(n):
    """What replicas hold, by name: one array for each of n replicas."""
    random = np.random.default_rng(1)
    rows = (4, 2, 0, 3)
    whole = [random.integers(-99, 99, (r, 3)) for r in rows[:n]]
    return {
        "scalars": [np.float32(i + 1) for i in range(n)],
        "vectors": [np.arange(4, dtype=np.float32) + 10 * i for i in range(n)],
        "integers": [np.arange(4, dtype=np.int32) * (i + 1) for i in range(n)],
        "partial": [w.astype(np.float32) for w in whole],
        "partial integers": [w.astype(np.int32) for w in whole],
        "random": [random.standard_normal((5, 7)).astype(np.float32) for _ in range(n)],
        "partial random": [random.standard_normal((r, 3)).astype(np.float32) for r in rows[:n]],
    }


def tf_reduce(pair, op, values, axis):
    if pair.kind == "one":
        return [pair.tf.reduce(op, tf.constant(values[0]), axis)]
    return [pair.tf.reduce(op, pair.per_replica(values), axis)]


def copse_reduce(pair, op, values, axis):
    return pair.copse.ask("reduce", op, "none" if axis is None else axis, "each", *values)


def scale_of(op, values, axis):
    """Sum of the magnitudes that are added, divided as the result is: the errors of sums go with it."""
    values = [np.abs(np.asarray(v, np.float64)) for v in values]
    if axis is None:
        return sum(values) / (len(values) if op == "MEAN" else 1)
    rows = sum(v.shape[axis] for v in values) if values[0].ndim else 1
    return sum(v.sum(axis=axis) for v in values) / (rows if op == "MEAN" else 1)


def reduce(table, pair, folder):
    """reduce, every operation along every axis; at most 140 values, so that two orders of addition are apart
    by R <= 4 each, and a division rounds once more."""
    for name, values in components(pair.count).items():
        for op in ("SUM", "MEAN"):
            for axis in (None, 0, -1, 1, 5):
                if axis is not None and (not values[0].ndim or (name == "integers" and axis == 1)):
                    continue
                is_exact = "random" not in name and op == "SUM"
                theirs = outcome(tf_reduce, pair, op, values, axis)
                ours = outcome(copse_reduce, pair, op, values, axis)
                case = "%s %s axis %s" % (op, name, "none" if axis is None else axis)
                scale = None
                if not is_exact and not isinstance(theirs, str) and not isinstance(ours, str):
                    scale = scale_of(op, values, axis)
                table.compare("reduce", case, pair.name, theirs, ours, 0 if is_exact else 10 * U,
                              scale)


def plain(table, pair, folder):
    """One value that is no replica's own."""
    two = np.float32(2)
    for op in ("SUM", "MEAN"):
        theirs = outcome(lambda: [pair.tf.reduce(op, tf.constant(two), None)])
        ours = outcome(lambda: pair.copse.ask("reduce", op, "none", "plain", two))
        table.compare("reduce", "%s of one plain value" % op, pair.name, theirs, ours)


def replicas(table, pair, folder):
    """What run, merge_call and all_reduce in replicas give."""
    def context():
        return tf.distribute.get_replica_context()

    def run(x):
        return 2 * x + tf.cast(context().replica_id_in_sync_group, tf.float32)

    def merge(x):
        v = x + tf.cast(context().replica_id_in_sync_group, tf.float32)
        return context().merge_call(
            lambda strategy, w: strategy.experimental_distribute_values_from_function(
                lambda c, s=strategy.reduce("SUM", w, None): s), args=(v,)) + v

    values = components(pair.count)
    for name in ("scalars", "vectors", "partial"):
        theirs = outcome(lambda: pair.local(pair.tf.run(run, (pair.per_replica(values[name]),))))
        table.compare("replicas", "run " + name, pair.name, theirs,
                      outcome(pair.copse.ask, "run", *values[name]))
    three = np.float32(3)
    table.compare("replicas", "merge_call", pair.name,
                  outcome(lambda: pair.local(pair.tf.run(merge, (tf.constant(three),)))),
                  outcome(pair.copse.ask, "merge", three))
    for op in ("SUM", "MEAN"):
        for name in ("scalars", "vectors", "random"):
            theirs = outcome(lambda: pair.local(pair.tf.run(
                lambda x: context().all_reduce(op, x), (pair.per_replica(values[name]),))))
            is_exact = name != "random" and op == "SUM"
            table.compare("replicas", "all_reduce %s %s" % (op, name), pair.name, theirs,
                          outcome(pair.copse.ask, "all_reduce", op, *values[name]),
                          0 if is_exact else 4 * U,
                          None if is_exact else scale_of(op, values[name], None))


# ---- variables ----

class Both:
    """A variable on both sides."""

    def __init__(self, pair, name, sync, aggregation, first):
        self.pair, self.name = pair, name
        self.theirs = outcome(self.make, sync, aggregation, first)
        self.ours = outcome(pair.copse.ask, "variable", name, sync, aggregation, first)

    def make(self, sync, aggregation, first):
        with self.pair.tf.scope():
            self.variable = tf.Variable(first, synchronization=SYNC[sync],
                                        aggregation=AGGREGATION[aggregation], trainable=False)
        return []

    def method(self, verb):
        return getattr(self.variable, {"assign": "assign", "add": "assign_add", "sub": "assign_sub"}[verb])

    def replica(self, verb, values, is_same=False):
        """All replicas assign; the outcomes of both sides."""
        method = self.method(verb)

        def theirs():
            if is_same:
                x = tf.constant(values[0])
                self.pair.tf.run(lambda: [method(x), None][1])
            else:
                self.pair.tf.run(lambda x: [method(x), None][1], (self.pair.per_replica(values),))
            return []
        return outcome(theirs), outcome(self.pair.copse.ask, "replica", self.name, verb,
                                        "same" if is_same else "each", *values)

    def cross(self, verb, value):
        def theirs():
            with self.pair.tf.scope():
                self.method(verb)(tf.constant(value))
            return []
        return outcome(theirs), outcome(self.pair.copse.ask, "cross", self.name, verb, value)

    def update(self, value):
        def theirs():
            with self.pair.tf.scope():
                self.pair.tf.extended.update(self.variable, lambda v, x: v.assign(x),
                                             args=(tf.constant(value),))
            return []
        return outcome(theirs), outcome(self.pair.copse.ask, "update", self.name, value)

    def scatter(self, verb, rows, values):
        """A row list and values for every replica, or one of each from outside."""
        method = getattr(self.variable, "scatter_" + verb)
        each = len(rows) > 1 or self.pair.count == 1

        def theirs():
            if each:
                self.pair.tf.run(lambda i, x: [method(tf.IndexedSlices(x, i)), None][1],
                                 (self.pair.per_replica(rows), self.pair.per_replica(values)))
            else:
                with self.pair.tf.scope():
                    method(tf.IndexedSlices(tf.constant(values[0]), tf.constant(rows[0])))
            return []
        pairs = [a for pair in zip(rows, values) for a in pair]
        return outcome(theirs), outcome(self.pair.copse.ask, "scatter", self.name, verb,
                                        "each" if each else "outside", *pairs)

    def components(self):
        return (outcome(lambda: [v.numpy() for v in self.pair.local_variables(self.variable)]),
                outcome(self.pair.copse.ask, "components", self.name))

    def read(self):
        def theirs():
            with self.pair.tf.scope():
                return [self.pair.tf.extended.read_var(self.variable)]
        return outcome(theirs), outcome(self.pair.copse.ask, "read", self.name)


def check_variable(table, both, case, outcomes, family="variables", limit=0.0, scale=None):
    """An outcome, and what it left behind."""
    where = both.pair.name
    table.compare(family, case, where, *outcomes)
    table.compare(family, case + ": components", where, *both.components(), limit, scale)
    table.compare(family, case + ": read", where, *both.read(), limit, scale)


def mirrored_variables(table, pair, folder):
    """Every aggregation, assigned, added and subtracted by replicas and from outside: the bits are
    equal, means of 3 too."""
    n = pair.count
    first = np.float32([1, 5, -3])
    own = [np.float32([i, 7 * (i + 1), -i]) for i in range(n)]
    for aggregation in ("sum", "mean", "first"):
        for verb in ("assign", "add", "sub"):
            both = Both(pair, "%s_%s" % (aggregation, verb), "on_write", aggregation, first)
            case = "on write, %s, %s" % (aggregation, verb)
            check_variable(table, both, case, both.replica(verb, own))
            check_variable(table, both, case + " one value", both.replica(verb, own[:1], True))
            check_variable(table, both, case + " from outside", both.cross(verb, own[-1]))
    both = Both(pair, "update", "on_write", "mean", first)
    check_variable(table, both, "on write, update", both.update(own[-1]))


def scattered_variables(table, pair, folder):
    """Rows of mirrored variables, by replicas and from outside; bits are equal where arithmetic is exact. For the
    mean of 3 the original divides each slice and adds one after the other, Copse divides the sum: of
    numbers below 64 there are 3 divisions and 3 additions that round, and one addition on the other side."""
    n = pair.count
    first = np.arange(10, dtype=np.float32).reshape(5, 2)
    rows = [np.int32([0, i, 4]) if i in (1, 2, 3) else np.int32([0, 2, 4]) for i in range(n)]
    values = [np.float32([[i + 1, 2], [16, 32], [-i, 7]]) for i in range(n)]
    for aggregation in ("sum", "mean", "first"):
        for verb in ("add", "sub", "update", "mul", "div", "min", "max"):
            if verb in ("mul", "div") and aggregation != "first":
                continue # see purposes
            both = Both(pair, "rows_%s_%s" % (aggregation, verb), "on_write", aggregation, first)
            case = "scatter_%s, %s" % (verb, aggregation)
            inexact = (7 * U, 64.0) if aggregation == "mean" and n == 3 else (0.0, None)
            # the original divides by nothing that is 0, see purposes
            own = [v - 40 for v in values] if verb == "div" else values
            check_variable(table, both, case, both.scatter(verb, rows, own), "scattered", *inexact)
            if verb in ("add", "sub") or aggregation == "first":
                check_variable(table, both, case + ", from outside",
                               both.scatter(verb, rows[:1], own[:1]), "scattered", *inexact)


def local_variables(table, pair, folder):
    """Replica-local ones: initial values, components, aggregated reads, assigned from outside."""
    n = pair.count
    own = [np.float32([4 + 2 * i, 6 * i]) for i in range(n)]
    six = np.float32([6, -12])
    for aggregation in ("sum", "mean", "first"):
        both = Both(pair, "local_" + aggregation, "on_read", aggregation, np.float32([1, 4]))
        check_variable(table, both, "on read, %s, at first" % aggregation, ([], []))
        for verb in ("add", "assign", "sub"):
            check_variable(table, both, "on read, %s, %s" % (aggregation, verb),
                           both.replica(verb, own))
        for verb in ("assign", "add", "sub"):
            check_variable(table, both, "on read, %s, %s from outside" % (aggregation, verb),
                           both.cross(verb, six))
        check_variable(table, both, "on read, %s, update" % aggregation, both.update(six))


def saved_variables(table, pair, folder):
    """Replica-local variables, saved on n replicas and restored on others."""
    from training import dummy_network
    if pair.kind == "one":
        return
    n = pair.count
    path = "%s/%d-%s" % (folder, n, pair.name.replace(" ", "-").replace(":", "_"))
    kinds = [("on_read", "sum"), ("on_read", "mean"), ("on_read", "first"), ("on_write", "sum")]

    def make(on, base):
        return [Both(on, "s%d" % i, sync, aggregation, np.float32([base, -base]))
                for i, (sync, aggregation) in enumerate(kinds)]
    saved = make(pair, 1)
    for both in saved:
        both.replica("assign", [np.float32([4 + 2 * i, 8 * i]) for i in range(n)])
    dummy_network(pair)
    tf.train.Checkpoint(v=[b.variable for b in saved]).write(path)
    pair.copse.ask("save", path + ".safetensors")
    for count in (1, 2, 4):
        other = type(pair)(pair.copse, "mirrored", ["host:0"] * count)
        restored = make(other, 9)
        dummy_network(other)
        tf.train.Checkpoint(v=[b.variable for b in restored]).read(path).assert_consumed()
        pair.copse.ask("restore", path + ".safetensors")
        for both, (sync, aggregation) in zip(restored, kinds):
            case = "saved by %d, restored by %d: %s, %s" % (n, count, sync, aggregation)
            table.compare("saved", case, pair.name, *both.components())
            table.compare("saved", case + ": read", pair.name, *both.read())
    pair.renew()


# ---- what differs on purpose ----

def equal(outcome_of_one, wanted):
    return not isinstance(outcome_of_one, str) and len(outcome_of_one) == 1 and \
        np.array_equal(outcome_of_one[0], wanted)


def purposes(table, pair, folder):
    n, copse, where = pair.count, pair.copse, pair.name
    points = "What Copse does differently"

    nothing = [np.zeros((0, 2), np.float32)] * n
    theirs = outcome(tf_reduce, pair, "MEAN", nothing, 0)
    ours = outcome(copse_reduce, pair, "MEAN", nothing, 0)
    table.purpose("the mean of nothing", where,
                  not isinstance(theirs, str) and np.isnan(theirs[0]).all() and ours == "ERR_ARGUMENT",
                  "NaN", ours, "Names, Strategy.reduce")
    if pair.kind == "one" or n == 1:
        return

    both = Both(pair, "unaggregated", "on_write", "none", np.float32([1]))
    theirs, ours = both.replica("assign", [np.float32([i]) for i in range(n)])
    apart = [float(v[0]) for v in both.components()[0]]
    table.purpose("a mirrored variable without aggregation", where,
                  theirs == [] and apart == [float(i) for i in range(n)] and ours == "ERR_ARGUMENT",
                  "components %s" % apart, ours, "Parity, measured")

    theirs = outcome(lambda: pair.make_integer_mean())
    ours = outcome(copse.ask, "variable", "whole_mean", "on_write", "mean", np.int32([1]))
    same = outcome(copse.ask, "replica", "whole_mean", "assign", "each", *[np.int32([5])] * n)
    refused = outcome(copse.ask, "replica", "whole_mean", "assign", "each",
                      *[np.int32([i]) for i in range(n)])
    table.purpose("MEAN of an integer variable", where,
                  theirs == "ValueError" and ours == [] and same == [] and refused == "ERR_ARGUMENT",
                  "refused when it is made", "refused when values differ", points + ", beyond that list")

    # its sum of slices is all of them, one behind another, and each is applied: a product of products
    both = Both(pair, "rows_product", "on_write", "sum", np.float32([[3]]))
    theirs, ours = both.scatter("mul", [np.int32([0])] * n, [np.float32([[i + 2]]) for i in range(n)])
    product = 3.0 * np.prod([i + 2.0 for i in range(n)])
    table.purpose("scatter_mul of a SUM variable", where,
                  both.components()[0][0].item() == product and ours == "ERR_UNSUPPORTED",
                  "%g, the product of all" % product, ours, "Names, scatter_mul")
    both = Both(pair, "rows_quotient", "on_write", "first", np.float32([[3]]))
    theirs, ours = both.scatter("div", [np.int32([0])] * n, [np.float32([[0]])] * n)
    table.purpose("scatter_div by 0", where,
                  theirs == "InvalidArgumentError" and np.isinf(both.components()[1][0].item()),
                  theirs, "infinity", "Names, scatter_div")

    both = Both(pair, "whole_sum", "on_read", "sum", np.int32([0]))
    both.cross("assign", np.int32([7]))
    theirs, ours = both.read()
    table.purpose("7 in an integer SUM variable of all replicas", where,
                  equal(theirs, [7 // n * n]) and equal(ours, [7]) and 7 % n != 0,
                  theirs[0] if isinstance(theirs, list) else theirs,
                  ours[0] if isinstance(ours, list) else ours, points + ", 2")

    if n % 2 == 1:
        theirs = pair.hierarchical_sum()
        ours = copse.ask("all_reduce", "sum", *[np.float32(i + 1) for i in range(n)])
        whole = n * (n + 1) / 2
        table.purpose("hierarchical copy of %d" % n, where,
                      all(t == whole - n for t in theirs) and all(o == whole for o in ours),
                      "sum %g" % theirs[0], "sum %g" % ours[0], points + ", 1")


ALL = [reduce, plain, replicas, mirrored_variables, scattered_variables, local_variables,
       saved_variables, purposes] + TRAINING
