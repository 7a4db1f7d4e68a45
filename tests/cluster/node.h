/* SPDX-License-Identifier: MIT */
/* What the scenarios of node.c share. */
#ifndef CLUSTER_NODE_H
#define CLUSTER_NODE_H

#include "core/cluster/cluster.h"

/* Reductions on host devices; the worker `victim` kills itself before step `at` of its exchanges, the
   others must say who is lost within 2 s, and hold nothing but whole sums. */
int node_reduce(copse_context *ctx, copse_cluster *c, uint32_t victim, uint32_t at);
/* Values and variables of two replicas on each worker: sums with the bits of the tree over all, means, integers,
   sparse ones; and how long small and large ones take. */
int node_values(copse_context *ctx, copse_cluster *c);

/* As a worker or the parameter server: push and pull and check, or with `bytes` measure that. */
int node_window(copse_context *ctx, copse_cluster *c, uint32_t bytes);

#endif
