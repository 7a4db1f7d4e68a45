/* SPDX-License-Identifier: MIT */
/* A small model and a training run of it, shared by the tests of training. */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "tests/rig/data/batch_rig.h"

enum { MODEL_IN = 20, MODEL_CLASSES = 5, MODEL_VARIABLES = 6, MODEL_ROWS = 200 };

/* 20-32-16-5 with ReLU; `user` of the loss function. */
struct model {
    copse_tensor *w[3], *b[3];
    copse_variable *variables[MODEL_VARIABLES];
    float dropout;
    bool is_sum; /* the loss is a sum over examples */
};
copse_status model_create(struct model *m, copse_strategy *st);
copse_tensor *model_loss(copse_graph *g, const copse_batch *in, void *user);

/* MODEL_ROWS examples that can be learned, the same on every call. */
void model_data(float *x, int32_t *y);

/* The parameters of a run. Zero means: one replica on host:0, Adam, 20 steps of 32 examples. */
struct run {
    const char *devices[8];
    size_t device_count;
    struct copse_strategy_params strategy;
    struct copse_optimizer_params optimizer;
    uint32_t steps, batch;
    float dropout;
    bool is_sum;
    bool is_unwatched; /* no audits, no cross-check */
    bool is_served;    /* with a parameter server of this process, not mirrored */
    /* Called after every step with the replicas' values flushed; may be NULL. */
    void (*after_step)(copse_strategy *st, struct model *m, uint64_t step);
};

/* Values of every variable of replica 0 after the run, concatenated; the caller frees them. */
float *run_model(copse_context *ctx, const struct run *r, size_t *count);

/* Largest ||a - b|| / ||a|| over the model's variables. */
double model_distance(const float *a, const float *b);
size_t model_parameters(void);

#endif
