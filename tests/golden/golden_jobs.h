/* SPDX-License-Identifier: MIT */
/* What the parts of golden_jobs share: what was asked for, and the model. */
#ifndef GOLDEN_JOBS_H
#define GOLDEN_JOBS_H

#include "copse/copse.h"
#include "copse/distribute/cluster.h"
#include "copse/distribute/partition.h"

enum { INPUTS = 64, HIDDEN = 24, CLASSES = 10, TRAINERS = 3, MOST_PARTS = 8, LONGEST_BATCH = 64 };

extern struct environment {
    const char *folder;
    copse_context *ctx;
    copse_dataset *data;
    copse_cluster_spec *spec; /* NULL: this process is alone */
    copse_cluster *cluster;
    const char *devices[8];
    size_t device_count;
} env;

/* KEY=VALUE arguments; golden_model.c has the defaults. */
extern struct keys {
    unsigned batch; /* examples of a batch */
    unsigned epochs;
    unsigned accumulate; /* micro-batches to an update */
    unsigned parts;      /* of the first variable, which is then partitioned */
    unsigned frozen;     /* the first layer's variables are made with is_frozen */
    unsigned listed;     /* the trainer is given the second layer's variables */
    unsigned sum;        /* the loss is a sum over examples */
    unsigned check;      /* losses and gradients must be finite */
    unsigned clip;       /* gradients are clipped to this global norm, in thousandths */
    unsigned summary;    /* gradient norms are printed */
    unsigned norm;       /* synchronised batch normalisation, and the loss' sum over replicas */
    unsigned mean;       /* the loss' mean over replicas */
    unsigned prefetch;
    unsigned towers;     /* tower optimizers of a replicated model: 1 or 3 */
    unsigned iterations; /* of a run of the single-loss step */
    unsigned resume;     /* after this many batches: checkpoint, make everything anew, restore */
    unsigned dropout;    /* in hundredths */
    const char *loop;    /* trainer, three (trainers), towers, step, train_step, values */
    /* one_device, mirrored, parameter_server, accelerator; in a job: collective */
    const char *strategy;
    const char *optimizer; /* adam, adamw, sgd, momentum, nesterov */
    const char *sharing;   /* balanced, ceil, fixed */
    const char *shares;    /* weights with commas between them: a weighted split */
} keys;
bool keys_set(const char *argument); /* false: there is no such key */

/* FOLDER/name; valid until the next call. */
const char *path(const char *name);
/* One line, by the chief alone. */
void print_number(double x);

/* 64-24-10 with ReLU, dropout, and what the keys add. */
struct model {
    copse_strategy *st;
    copse_partitioned *partitioned;
    /* the first layer's, then weight and bias of the second */
    copse_variable *variables[MOST_PARTS + 4];
    size_t count, first; /* all; those of the first layer */
};
copse_status model_open(struct model *m); /* with its strategy */
void model_close(struct model *m);
/* The variables of one of three optimizers: the first layer, the second weight, the second bias. */
copse_variable *const *model_share(const struct model *m, size_t i, size_t *count);
/* Loss functions; `user` is the model. */
copse_tensor *model_logits(copse_graph *g, const copse_batch *in, void *user);
copse_tensor *model_loss(copse_graph *g, const copse_batch *in, void *user);

copse_status make_strategy(copse_strategy **out);
struct copse_optimizer_params make_rule(const char *name);
copse_status make_trainer(struct model *m, copse_variable *const *variables, size_t count,
                          struct copse_optimizer_params rule, copse_trainer **out);

#endif
