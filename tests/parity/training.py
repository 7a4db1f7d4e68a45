# SPDX-License-Identifier: MIT
"""The cases of parity.py about training: optimizers, a network, splitting of batches, clipping."""
import numpy as np
import tensorflow as tf

from parity import U, norm_difference, outcome

# Rule, its settings in Copse's order: rate, momentum, beta1, beta2, epsilon, weight decay.
RULES = {
    "sgd": (0.05, 0.0, 0, 0, 0, 0),
    "momentum": (0.05, 0.9, 0, 0, 0, 0),
    "nesterov": (0.05, 0.9, 0, 0, 0, 0),
    "adam": (0.01, 0, 0.9, 0.999, 1e-8, 0),
    "adam coarse": (0.01, 0, 0.8, 0.95, 0.01, 0),
    "adamw": (0.01, 0, 0.9, 0.999, 1e-8, 0.1),
}


def keras_optimizer(rule):
    rate, momentum, beta1, beta2, epsilon, decay = RULES[rule]
    if rule in ("sgd", "momentum", "nesterov"):
        return tf.keras.optimizers.SGD(rate, momentum=float(momentum), nesterov=rule == "nesterov")
    if rule == "adamw":
        return tf.keras.optimizers.AdamW(rate, weight_decay=decay, beta_1=beta1, beta_2=beta2,
                                         epsilon=epsilon)
    return tf.keras.optimizers.Adam(rate, beta_1=beta1, beta_2=beta2, epsilon=epsilon)


def epsilon_of(rule, step):
    """Copse adds epsilon to sqrt(v) with v corrected for its start (algorithm 1 of the paper), Keras to sqrt(v)
    as it is: to be the same, Keras' is Copse's times sqrt(1 - beta2^step)."""
    return RULES[rule][4] * (1 - RULES[rule][3] ** step) ** 0.5


def words_of(rule):
    return [rule.split()[0]] + list(RULES[rule])


def as_they_are(gradient):
    return gradient, [tf.identity(gradient)]  # on the device of its replica


class Weights:
    """Variables of TensorFlow's side and an optimizer over them."""

    def __init__(self, pair, rule, values):
        self.pair, self.rule, self.step = pair, rule, 0
        with pair.tf.scope():
            self.variables = [tf.Variable(v, aggregation=tf.VariableAggregation.MEAN)
                              for v in values]
            self.optimizer = keras_optimizer(rule)
            self.optimizer.build(self.variables)

        self.function = tf.function(self.run, reduce_retracing=True)

    def run(self, epsilon, gradients_of, arguments):
        self.optimizer.epsilon = epsilon

        def replica(*args):
            loss, gradients = gradients_of(*args)
            self.optimizer.apply_gradients(zip(gradients, self.variables))
            return loss
        return self.pair.tf.run(replica, arguments)

    def replica_step(self, gradients_of, arguments):
        """One step: gradients_of(one replica's arguments) on every replica, summed, applied."""
        self.step += 1
        epsilon = tf.constant(epsilon_of(self.rule, self.step), tf.float32)
        return self.function(epsilon, gradients_of, arguments)

    def components(self):
        return [[np.asarray(w) for w in self.pair.local_variables(v)] for v in self.variables]


def rule_step(rule, step, p, m, v, g):
    """The rule in float64, with the settings as float32 has them; m and v are changed in place."""
    rate, momentum, beta1, beta2, epsilon, decay = (float(np.float32(x)) for x in RULES[rule])
    if rule == "sgd":
        return p - rate * g
    if rule in ("momentum", "nesterov"):
        m[:] = momentum * m + g
        return p - rate * (g + momentum * m if rule == "nesterov" else m)
    m[:] = beta1 * m + (1 - beta1) * g
    v[:] = beta2 * v + (1 - beta2) * g * g
    change = m / (1 - beta1**step) / (np.sqrt(v / (1 - beta2**step)) + epsilon)
    return p - rate * (change + decay * p)


def optimizers(table, pair, folder):
    """The same gradients, 100 steps; compared after 1, 10 and 100. Gradients are multiples of 2^-10, so that
    their sums over replicas are exact and the difference is that of the rules alone. The limit is a tenth of
    what weights may be off by, in norm, after 1000 steps (1e-5)."""
    random = np.random.default_rng(4)
    start = random.standard_normal(64).astype(np.float32)
    gradients = np.round(random.standard_normal((100, pair.count, 64)) * 1024) / 1024
    for at, rule in enumerate(RULES):
        name = "p%d" % at
        weights = Weights(pair, rule, [start])
        exact, m, v = start.astype(np.float64), np.zeros(64), np.zeros(64)
        pair.copse.ask("variable", name, "on_write", "mean", start)
        pair.copse.ask("optimizer", *words_of(rule))
        for step in range(1, 101):
            own = list(gradients[step - 1].astype(np.float32))
            weights.replica_step(as_they_are, (pair.per_replica(own),))
            pair.copse.ask("apply", name, *own)
            exact = rule_step(rule, step, exact, m, v, gradients[step - 1].sum(axis=0))
            if step not in (1, 10, 100):
                continue
            ours = pair.copse.ask("components", name)
            theirs = weights.components()[0]
            case = "%s, step %d" % (rule, step)
            table.row("optimizers", case, pair.name, norm_difference(theirs[:1], ours[:1]), 1e-6)
            table.row("optimizers", case + ": components", pair.name,
                      max(norm_difference(ours[:1], [c]) for c in ours), 0.0)
            table.row("float64", case + ": Copse", pair.name, norm_difference([exact], ours[:1]), 1e-6)
            table.row("float64", case + ": TensorFlow", pair.name,
                      norm_difference([exact], theirs[:1]), 1e-6)


# ---- a network ----

def network_weights(is_normalised):
    random = np.random.default_rng(5)
    weights = [random.standard_normal((6, 8)) * 0.5, random.standard_normal(8) * 0.1,
               random.standard_normal((8, 3)) * 0.5, random.standard_normal(3) * 0.1]
    if is_normalised:
        weights += [1 + random.standard_normal(8) * 0.1, random.standard_normal(8) * 0.1]
    return [w.astype(np.float32) for w in weights]


def dummy_network(pair):
    """A trainer, for saving: Copse saves what a trainer has."""
    pair.copse.ask("network", "balanced", *words_of("sgd"), *network_weights(False))


def split_by_rule(rows, count):
    """Copse's balanced rule: sizes differ by at most one, the first have more."""
    sizes = [rows // count + (r < rows % count) for r in range(count)]
    ends = np.cumsum(sizes)
    return [slice(e - s, e) for s, e in zip(sizes, ends)]


def moments_of_all(h, batch):
    """Mean and variance over the examples of all replicas, by the original's all-reduce and its gradient."""
    context = tf.distribute.get_replica_context()
    mean = context.all_reduce("SUM", tf.reduce_sum(h, 0)) / batch
    variance = context.all_reduce("SUM", tf.reduce_sum((h - mean) ** 2, 0)) / batch
    return mean, variance


def network(table, pair, folder):
    """20 steps of a network, with equal weights and global batches of 10 split by the same rule; without and with
    batch normalisation over all replicas. All 20 losses, and the weights in norm, are no further apart than the
    loss of a first step may be (1e-6)."""
    random = np.random.default_rng(6)
    for rule, is_normalised in (("sgd", False), ("momentum", False), ("adam coarse", False),
                                ("sgd", True)):
        pair.renew()
        start = network_weights(is_normalised)
        weights = Weights(pair, rule, start)
        names = ["w1", "b1", "w2", "b2", "gamma", "beta"][:len(start)]
        pair.copse.ask("network", "balanced", *words_of(rule), *start)

        def gradients_of(x, y):
            w = [tf.convert_to_tensor(v) for v in weights.variables]
            with tf.GradientTape() as tape:
                tape.watch(w)
                h = x @ w[0] + w[1]
                if is_normalised:
                    mean, variance = moments_of_all(h, 10.0)
                    h = (h - mean) / tf.sqrt(variance + 1e-3) * w[4] + w[5]
                h = tf.tanh(h)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, h @ w[2] + w[3])
                loss = tf.reduce_sum(losses) / 10  # the global batch
            return loss, tape.gradient(loss, w)
        worst = 0.0
        for _ in range(20):
            x = random.standard_normal((10, 6)).astype(np.float32)
            y = random.integers(0, 3, 10).astype(np.int32)
            parts = split_by_rule(10, pair.count)
            loss = weights.replica_step(gradients_of, (pair.per_replica([x[p] for p in parts]),
                                                       pair.per_replica([y[p] for p in parts])))
            theirs = float(sum(pair.local(loss)))
            ours = float(pair.copse.ask("step", x, y)[0])
            worst = max(worst, abs(theirs - ours) / abs(theirs))
        case = rule + (", batch norm" if is_normalised else "")
        table.row("network", case + ": losses of 20 steps", pair.name, worst, 1e-6)
        theirs = [w[0] for w in weights.components()]
        ours = [pair.copse.ask("components", name) for name in names]
        table.row("network", case + ": weights", pair.name,
                  norm_difference(theirs, [w[0] for w in ours]), 1e-6)
        table.row("network", case + ": components equal", pair.name,
                  max(norm_difference(w[:1], [c]) for w in ours for c in w), 0.0)
    pair.renew()


# ---- splitting and clipping ----

def split(table, pair, folder):
    """Which rows each replica gets. The original splits every batch by ceil(n / replicas)."""
    for rows, batch in ((10, 10), (20, 8), (7, 4), (4, 4), (3, 3), (1, 1), (6, 6), (9, 5)):
        data = tf.data.Dataset.range(rows).map(lambda i: tf.cast(i, tf.float32)).batch(batch)

        def theirs():
            return [part for step in pair.tf.experimental_distribute_dataset(data)
                    for part in pair.local(step)]
        theirs = outcome(theirs)
        table.compare("split", "%d rows, batches of %d" % (rows, batch), pair.name, theirs,
                      outcome(pair.copse.ask, "split", "ceil", batch, rows))
        ours = outcome(pair.copse.ask, "split", "balanced", batch, rows)
        sizes, own = [[len(part) for part in side[:pair.count]] for side in (theirs, ours)]
        if sizes != own:
            table.purpose("%d rows, batches of %d, by default" % (rows, batch), pair.name,
                          max(own) - min(own) <= 1 and own == sorted(own, reverse=True),
                          sizes, own, "What Copse does differently, 12")


def shape_of(array):
    return "x".join(map(str, array.shape)) or "scalar"


def clip(table, pair, folder):
    """Clipping by each norm and by the norm of all: a sum of at most 500 squares, a root, a division and a
    product are apart by R <= 4 of the sum each way, half of it behind the root, and a rounding each."""
    random = np.random.default_rng(8)
    gradients = [random.standard_normal(shape).astype(np.float32) for shape in ((20, 25), (7,), ())]
    for device in sorted(set(pair.devices)):
        for largest in (0.5, 3.0, 1e6):
            theirs = [tf.clip_by_norm(g, largest).numpy() for g in gradients]
            ours = outcome(pair.copse.ask, "clip", device, "each", largest, *gradients)
            for t, o, g in zip(theirs, ours, gradients):
                table.compare("clip", "norm %g, shape %s" % (largest, shape_of(g)),
                              device, [t], [o], 10 * U, np.abs(t))
            theirs = [t.numpy() for t in tf.clip_by_global_norm(gradients, largest)[0]]
            ours = outcome(pair.copse.ask, "clip", device, "global", largest, *gradients)
            for t, o, g in zip(theirs, ours, gradients):
                table.compare("clip", "global norm %g, %s" % (largest, shape_of(g)),
                              device, [t], [o], 10 * U, np.abs(t))


TRAINING = [optimizers, network, split, clip]
