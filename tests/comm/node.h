/* SPDX-License-Identifier: MIT */
/* What the scenarios of node.c share. */
#ifndef CLUSTER_NODE_H
#define CLUSTER_NODE_H

#include "core/comm/cluster.h"

/* Reductions on host devices; the worker `victim` kills itself before step `at` of its exchanges,
   the others must say who is lost within 2 s, and hold nothing but whole sums. */
int node_reduce(copse_context *ctx, copse_cluster *c, uint32_t victim, uint32_t at);
/* Values and variables of two replicas on each worker: sums with the bits of the tree over all,
   means, integers, sparse ones; and how long small and large ones take. */
int node_values(copse_context *ctx, copse_cluster *c);

/* As a worker or the parameter server: push and pull and check, or with `bytes` measure that. */
int node_window(copse_context *ctx, copse_cluster *c, uint32_t bytes);

/* Print so many free ports, for the description of a job; no other test gets them while the process
   `owner` lives (0: who asks). */
int node_ports(int wanted, int owner);
/* Write to a file what the machine is late with. */
int node_pulse(const char *path);
/* From now on measure it beside this process, in another one; before there are threads. */
void node_watch_machine(void);
/* A moment, and the seconds since then, less what the machine was late with. */
uint64_t node_begin(void);
double node_seconds(uint64_t begin);

#endif
