/* SPDX-License-Identifier: MIT */
/* A run of `copse train` from the inside. */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "tools/train/train.h"

/* Everything a run owns. */
struct run {
    struct train_settings settings;
    copse_context *ctx;
    copse_dataset *all, *train, *test;
    copse_batches *batches;
    copse_cluster_spec *job; /* NULL: this process alone */
    copse_cluster *cluster;
    copse_strategy *strategy;
    copse_trainer *trainer;
    copse_monitor *monitor;
    struct mlp model;
    struct history history;
    struct progress progress;
    uint32_t epoch; /* under way, from 0; settings.epochs: all are over */
    double test_loss, test_accuracy;
    double clock, drawn; /* when progress.seconds was taken, when the bar was drawn */
    uint32_t saved_epoch; /* by --save; counts from 1; 0: nothing was saved */
    struct copse_position saved_position; /* of the newest checkpoint */
    bool is_evaluator;  /* of a job, or `copse evaluate`: one device, and nothing is written */
    bool is_left_alone; /* an evaluator: no checkpoint came for --patience */
    bool is_successor;  /* the first worker since the one before is lost: it shows and writes now */
    bool is_recovering; /* devices are opened again: nothing is printed anew */
    float *x; /* room for one batch of the held-out part */
    int32_t *y;
};

/* One of several workers that is not the one that shows and writes. */
static inline bool is_silent(const struct run *r)
{
    return !r->is_successor && !r->is_evaluator &&
           (r->settings.is_worker || (r->cluster && !copse_cluster_is_chief(r->cluster)));
}

static inline bool is_json(const struct run *r)
{
    return r->settings.is_json && !is_silent(r);
}

static inline bool is_talking(const struct run *r)
{
    return !r->settings.is_json && !r->settings.is_quiet && !is_silent(r);
}

/* Open data and devices and make the trainer, as the settings say; and release whatever a run has. */
copse_status run_open(struct run *r);
void run_close(struct run *r);

/* Take finished steps; wait while more than `most` are under way. From 8 on the trainer drops results
   that nobody took. */
copse_status run_results(struct run *r, uint64_t most);

/* ---- evaluating (evaluate.c) ---- */

/* Mean loss and accuracy on the held-out part, into test_loss and test_accuracy. */
copse_status run_evaluate(struct run *r);
/* The task of a job that evaluates each checkpoint that the others write, until the last one. COPSE_ERR_TIMEOUT
   when none came for --patience; COPSE_ERR_CANCELLED after a signal. */
copse_status run_evaluator(struct run *r);
/* One line about why it ended, and the exit code. */
int evaluation_fail(const struct run *r, copse_status s);

/* ---- workers in step (train_across.c) ---- */

/* COPSE_ERR_ARGUMENT on all of them where one has other options. All call it; elsewhere nothing happens. */
copse_status run_compare(const struct run *r);

/* ---- parameter servers (train_server.c) ---- */

/* Whether servers have the variables, of this process or of the job; whether the job has some; whether this process
   is one. */
bool run_is_served(const struct run *r);
bool run_has_servers(const struct run *r);
bool run_is_server(const struct run *r);
/* A worker beside the chief, with servers: nobody waits for its evaluations and saves. */
bool run_is_apart(const struct run *r);
/* What --servers says about the job. */
copse_status run_set_servers(struct run *r);
/* Print how this worker and the servers reach each other. */
void run_show_access(const struct run *r);
/* Serve until the workers are gone, and say so. */
copse_status run_serve(struct run *r);
/* The next batch that is this worker's. */
copse_status run_next(struct run *r, struct copse_host_batch *out);
/* Steps of this worker in the whole run, and updates of all. */
uint64_t run_steps(const struct run *r);
uint64_t run_updates(const struct run *r);

/* ---- checkpoints (train_state.c) ---- */

/* The step's functions for the monitor; `user` is the run. */
copse_status run_save(void *user, const char *path);
copse_status run_restore(void *user, const char *path);
/* The trainer takes over the state in the file, which must be of a run with these settings. */
copse_status run_take(struct run *r, const char *path, struct copse_position *at, copse_checkpoint **file);
/* The metadata under a key, or NULL. Lifetime: that of the file. */
const char *run_find(const copse_checkpoint *file, const char *key);
/* The settings that a checkpoint was made with, "--name=value" lines, in `text`. */
copse_status run_settings_of(copse_context *ctx, const char *path, char *text, size_t room);
/* What all workers in step must have the same, "--name=value" lines, in `text`. */
copse_status run_describe(const struct run *r, char *text, size_t room);
/* A step's loss and accuracy go into the figures that are shown. */
void run_smooth(struct progress *p, uint64_t step, double loss, double accuracy);

#endif
