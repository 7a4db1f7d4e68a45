# SPDX-License-Identifier: MIT
"""Names of test_as_tensorflow.py in TensorFlow 2, whose CPU it makes several devices of."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf  # noqa: E402

DEVICES = 3
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * DEVICES)

function = tf.function
replica_context, in_cross_replica_context = tf.distribute.get_replica_context, tf.distribute.in_cross_replica_context
has_strategy, current_strategy = tf.distribute.has_strategy, tf.distribute.get_strategy
mean, square, matmul, cast, gather, exp = tf.reduce_mean, tf.square, tf.matmul, tf.cast, tf.gather, tf.exp
_SYNCHRONIZATIONS = {"auto": tf.VariableSynchronization.AUTO, "on_write": tf.VariableSynchronization.ON_WRITE,
                     "on_read": tf.VariableSynchronization.ON_READ}
_AGGREGATIONS = {"none": tf.VariableAggregation.NONE, "sum": tf.VariableAggregation.SUM,
                 "mean": tf.VariableAggregation.MEAN,
                 "only_first_replica": tf.VariableAggregation.ONLY_FIRST_REPLICA}


class GradientTape(tf.GradientTape):
    def gradient(self, *args):
        return tf.nest.map_structure(tf.convert_to_tensor, super().gradient(*args))  # rows become dense


def strategy(replicas):
    return tf.distribute.MirroredStrategy(  # collective operations take groups of one size in a process
        [f"/cpu:{i}" for i in range(replicas)], cross_device_ops=tf.distribute.ReductionToOneDevice())


def close(_st):
    pass


def replica_id(context):
    return int(context.replica_id_in_sync_group)


def replicas(x):
    return x.num_replicas_in_sync


def per_replica(st, parts):
    return st.experimental_distribute_values_from_function(
        lambda context: tf.convert_to_tensor(parts[context.replica_id_in_sync_group]))


def local(st, x):
    return [c.numpy() if hasattr(c, "numpy") else c for c in st.experimental_local_results(x)]


def variable(values, synchronization="auto", aggregation="none", trainable=True):
    if synchronization == "on_read":
        trainable = None
    return tf.Variable(values, synchronization=_SYNCHRONIZATIONS[synchronization], trainable=trainable,
                       aggregation=_AGGREGATIONS[aggregation])


def components(st, v):
    return [c.numpy() for c in st.experimental_local_results(v)]


def update(st, v, f, args=()):
    return st.extended.update(v, f, args=args)


def distribute(st, columns, batch):
    return st.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(columns).batch(batch))


def distribute_from_function(st, columns, batch):
    return st.distribute_datasets_from_function(
        lambda context: tf.data.Dataset.from_tensor_slices(columns).batch(context.get_per_replica_batch_size(batch)))


def optimizer(_st, kind, rate):
    train = tf.compat.v1.train
    return {"sgd": lambda: train.GradientDescentOptimizer(rate), "momentum": lambda: train.MomentumOptimizer(rate, 0.9),
            "adam": lambda: train.AdamOptimizer(rate)}[kind]()


def apply_in_merge(st, v1_optimizer, pairs):
    gradients, variables = zip(*pairs)

    def merge(strategy, *merged):
        reduced = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, list(zip(merged, variables)))
        for gradient, v in zip(reduced, variables):
            strategy.extended.update(v, lambda v, g: v.assign_sub(v1_optimizer._learning_rate * g), args=(gradient,))

    tf.distribute.get_replica_context().merge_call(merge, args=gradients)
