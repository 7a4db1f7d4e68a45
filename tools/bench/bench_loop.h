/* SPDX-License-Identifier: MIT */
/* What the steps of a trainer and of an application's own loop have in common. */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include "tools/bench/bench.h"

#define BENCH_MOST_LAYERS 3

struct bench_perceptron {
    uint32_t layers, widths[BENCH_MOST_LAYERS + 1], batch;
};

/* Examples, and how each step gets new labels. */
struct bench_batch {
    copse_context *ctx;
    const float *x; /* [count, features] */
    const int32_t *labels;
    uint32_t count; /* a multiple of the replicas */
    void (*draw)(void *user);
    void *user;
};

/* Time a training step by a call and a tower optimizer on all replicas of the strategy. */
copse_status bench_loop(copse_strategy *st, const struct bench_perceptron *p,
                        const struct bench_batch *batch, double seconds, struct timing *t);

#endif
