# SPDX-License-Identifier: MIT
"""Names of test_as_tensorflow.py in Copse. Replicas are on the devices of COPSE_TEST_DEVICES in turn."""
import os

import numpy as np

import copse
from copse import ops

function, GradientTape = copse.function, copse.GradientTape
replica_context, in_cross_replica_context = copse.replica_context, copse.in_cross_replica_context
has_strategy, current_strategy = copse.has_strategy, copse.current_strategy
mean, square, matmul, cast, gather, exp = ops.mean, ops.square, ops.matmul, ops.cast, ops.gather, ops.exp


DEVICES = os.environ.get("COPSE_TEST_DEVICES", "").split() or ["host:0"]


def strategy(replicas):
    return copse.Strategy((DEVICES * replicas)[:replicas])


def close(st):
    st.close()


def replica_id(context):
    return context.replica_id


def replicas(x):
    """Of a strategy or a replica's context."""
    return x.replicas


def per_replica(st, parts):
    parts = [np.asarray(p) for p in parts]
    return st.values_from_function(lambda context: parts[context.replica_id])


def local(st, x):
    return [np.asarray(c) for c in st.local_results(x)]


def variable(values, synchronization="auto", aggregation="none", trainable=True):
    """In a scope."""
    return copse.Variable(values, synchronization=synchronization, aggregation=aggregation, trainable=trainable)


def components(st, v):
    return [v.numpy(r) for r in range(st.replicas)]


def update(st, v, f, args=()):
    return st.update(v, f, args)


def distribute(st, columns, batch):
    return st.distribute(copse.Dataset(columns).batches(batch, shuffle=False))


def distribute_from_function(st, columns, batch):
    """Each pipeline has all rows, in batches for one replica."""
    return st.distribute_from_function(
        lambda context: copse.Dataset(columns).batches(context.per_replica_batch(batch), shuffle=False))


def optimizer(st, kind, rate):
    return copse.TowerOptimizer(st, kind, learning_rate=rate, reduction="sum")


def apply_in_merge(st, tower, pairs):
    """In a replica: hand gradients over through a merge call."""
    gradients, variables = zip(*pairs)
    copse.replica_context().merge_call(lambda _st, g: tower.apply_gradients(zip(g, variables)), (list(gradients),))
