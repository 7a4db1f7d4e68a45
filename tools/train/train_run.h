/* SPDX-License-Identifier: MIT */
/* Internals of a run of `copse train`. */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "copse/data/checkpoint.h"
#include "copse/loop/early_stopping.h"
#include "copse/loop/event_file.h"
#include "copse/optim/schedule.h"

#include "tools/train/train.h"
#include "tools/train/train_shares.h"

/* Room for the settings in a checkpoint. */
#define SETTINGS_BYTES 9216
/* In a checkpoint: shares_text. */
#define SHARES_KEY "application.shares"

enum { FOLD_MEASURES = 7 };

/* Which epochs have a line. */
struct epoch_lines {
    struct epoch_line {
        struct progress progress;
        struct score score;
    } best;         /* with the lowest held-out loss; epoch 0: none */
    uint32_t shown; /* the newest epoch with a line; 0: none */
    double when;    /* it was printed */
};

/* Everything a run owns. */
struct run {
    struct train_settings settings;
    copse_context *ctx;
    copse_dataset *all, *train, *held_out; /* held_out, held: NULL: all examples train */
    copse_loader *batches;
    copse_loader *held;      /* the held-out part */
    copse_cluster_spec *job; /* NULL: a single process */
    copse_cluster *cluster;
    struct mixture mixture; /* the devices and their shares */
    copse_strategy *strategy;
    copse_trainer *trainer;
    copse_monitor *monitor;
    copse_schedule *schedule;       /* NULL: the rate is constant */
    copse_early_stopping *stopping; /* NULL: parameter servers have the variables */
    struct network model;
    struct history history;
    copse_event_file *log; /* of --logdir, or NULL */
    size_t logged_steps;   /* of `history`: in `log`, or in earlier files */
    struct progress progress;
    struct epoch_lines lines;
    uint32_t epoch;          /* current epoch, from 0: so many are complete */
    struct score test;       /* on the held-out part */
    uint32_t label_sum;      /* identifies the data */
    double spread;           /* sum of squared differences of held-out targets from their mean */
    double clock, drawn;     /* when progress.seconds was updated, when the bar was drawn */
    uint32_t saved_epoch;    /* by --save; counts from 1; 0: nothing was saved */
    char stopped_text[2300]; /* which file of --save was written when a signal stopped the run */
    struct copse_position saved_position; /* of the newest checkpoint */
    bool is_training;                     /* steps are made */
    bool has_write_error;                 /* the file of --save: the disk failed */
    /* why FILE of --save, or the last checkpoint, was not written; "": it was */
    char unsaved[700], unwritten[700];
    bool is_evaluator;  /* of a job, or `copse evaluate`: uses one device and writes nothing */
    bool is_left_alone; /* an evaluator: no checkpoint arrived for --evaluator-patience */
    /* the first remaining worker after the loss of the previous chief: it now prints and writes */
    bool is_successor;
    uint32_t fold; /* of --folds, from 1: it is held out; 0: an ordinary run */
    double fold_scores[FOLD_MEASURES];
    const char *const *taken; /* names of variables with values of --init; of the model */
    size_t taken_count;
    bool is_traced; /* --trace records */
    struct hash_file hashes;
    bool is_recovering; /* devices are being reopened: nothing is printed again */
};

/* A worker that does not print or write. */
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
    return !r->settings.is_json && !r->settings.is_quiet && !is_silent(r) &&
           r->fold <= 1; /* later folds have the same data and model */
}

/* Open and split the data, and print a description. (train_data.c) */
copse_status run_open_data(struct run *r);
/* FNV-1a of the labels or targets, words of 32 bits. */
copse_status run_sum_labels(const copse_dataset *data, uint32_t *out);
/* Open a file of data as these params say, or as a text. (train_text.c) */
copse_status text_open(const struct run *r, const char *path, struct copse_dataset_params *p,
                       copse_dataset **out);
/* Set test.token_bytes: the model is made. Otherwise than for a text it does nothing. */
copse_status text_measure(struct run *r);
/* Print how a text is used. */
void text_show(const struct run *r, const copse_schema *schema);
/* Open data and devices and create the trainer from the settings; and release everything of a
   run. */
copse_status run_open(struct run *r);
void run_close(struct run *r);
/* Parts of run_open: choose the devices and open them; the strategy on the replicas of `mixture`; the model and its trainer. */
copse_status run_open_devices(struct run *r);
copse_status run_open_strategy(struct run *r);
copse_status run_make_trainer(struct run *r);
/* Release what these made, in a run whose data stays. */
/* With portable bits: the shards of each device of the list; otherwise 1. */
uint32_t run_shards_each(const struct run *r);
void run_drop_trainer(struct run *r);

/* Take results of finished steps; wait while more than `most` are in flight. From 8 on the trainer
   drops results that were not taken. */
copse_status run_results(struct run *r, uint64_t most);

/* Set the variables from the file of --init, and print which (init.c). */
copse_status run_init(struct run *r);

/* ---- fine-tuning (train_freeze.c) ---- */

/* The parameter groups of --freeze, --group and --body-lr: the model is made. */
copse_status freeze_groups(const struct run *r, char *text, size_t room);
/* Let the error of groups name --freeze. Returns `status`. */
copse_status freeze_explain(const struct run *r, copse_status status);
/* Print how much is frozen. */
void freeze_show(const struct run *r, const char *groups);
/* After run_init, and after a checkpoint was read: warn of weights that are frozen with random
   values. */
copse_status freeze_warn(const struct run *r);

/* ---- steps (train_steps.c) ---- */

double run_now(void); /* [s] */
/* The next batch, and the time until it was there. */
copse_status run_wait_for_batch(struct run *r, struct copse_host_batch *out);
bool run_is_accelerator(const struct run *r);
/* Training steps per monitor step. */
uint32_t run_steps_per_run(const struct run *r);
/* Train on the batch, and on an accelerator on the batches of its run. */
copse_status run_train(struct run *r, const struct copse_host_batch *first);

/* Add a step to the history, and to the means of its epoch. */
copse_status run_add_result(struct run *r, double loss, double accuracy);

/* ---- the held-out part (train_split.c) ---- */

/* A run that is resumed keeps its part and its way to split, unless the command line has others.
   COPSE_ERR_ARGUMENT if other options do not fit them. */
copse_status run_keep_split(struct run *r);
/* The path of the newest checkpoint of a run that is resumed; false: there is none. */
bool run_find_checkpoint(const struct run *r, char *path, size_t room);
/* Set `train` and `held_out`, NULL without a held-out part. */
copse_status run_divide(struct run *r);
/* For the settings in a checkpoint; a file is known by its content. Lifetime: until the next call. */
const char *run_held_out_text(const struct run *r);
const char *run_split_text(const struct run *r);

/* ---- the lines of epochs (train_lines.c) ---- */

/* Print which epochs have one, unless all do. */
void lines_announce(const struct run *r);
/* After an epoch: print its line if it has one, and before it the line of a better epoch since the
   last line. */
void lines_show(struct run *r, bool is_last);

/* ---- cross-validation (train_folds.c) ---- */

/* A job that the environment describes: refuse it, unless this is its only process. */
copse_status run_leave_job(struct run *r);
/* Set `train` and `held_out` for a fold. */
copse_status run_divide_fold(struct run *r);
/* Measure the model of a fold, and print it. */
copse_status run_finish_fold(struct run *r);
/* The runs of --folds; the exit code. */
int train_folds(const struct train_settings *s);
/* Train, and print the result or the error; the exit code. (train.c) */
int run_once(struct run *r);

/* ---- early stopping (train_best.c) ---- */

/* Begin to watch the held-out loss; after an epoch: take it. All synchronous workers call both. */
copse_status run_best_open(struct run *r);
copse_status run_best_observe(struct run *r);
/* Whether no step follows: all epochs are complete, or --patience ended the run. */
bool run_is_over(const struct run *r);
bool run_is_stopped_early(const struct run *r);
/* The epoch whose values are the result, from 1; 0: the last one. And its score. */
uint32_t run_best_epoch(const struct run *r);
const struct score *run_best_score(const struct run *r);
/* Call a function while the variables have the values of this epoch, or their averages. */
copse_status run_with_best(struct run *r, copse_status (*fn)(struct run *r));
/* Print the epoch, its loss, and why the run ended before its last epoch. */
void run_best_show(const struct run *r);

/* ---- the file of --save (train_save.c) ---- */

/* FILE once the run is over and has not diverged, else FILE.partial. Lifetime:
   until the next call. */
const char *run_save_path(const struct run *r);
/* After r->epoch epochs: write FILE.partial, or after the last one FILE, and remove FILE.partial.
   All synchronous workers call it; the chief writes. */
copse_status run_save_parameters(struct run *r);
/* The same; a process that no other works with in step goes on if the disk fails, and says so:
   after the last epoch in `unsaved`. */
copse_status run_save_epoch(struct run *r);
/* Whether FILE has the result. */
bool run_is_saved(const struct run *r);
/* Print what could not be written, and where the state is. */
void run_show_unwritten(const struct run *r);
/* Call a function while the variables have their moving averages. */
copse_status run_with_averages(struct run *r, copse_status (*fn)(struct run *r));
/* After a signal: write FILE.partial, and describe it in stopped_text. */
copse_status run_save_stopped(struct run *r);

/* ---- runs that diverge (train_diverged.c) ---- */

/* Whether the run is over, and a loss is far above the loss without training, or below zero: of the
   epoch that is the result. Such a run writes no FILE of --save, only FILE.partial. */
bool run_has_diverged(const struct run *r);
/* Print it in one line, with what to do. */
void run_show_diverged(const struct run *r);
/* The same after a loss that is not finite, the last error; the exit code. */
int run_fail_nonfinite(const struct run *r);

/* ---- the event file of --logdir (train_log.c) ---- */

/* Open it, unless this worker writes nothing. */
copse_status run_log_open(struct run *r);
/* Write the steps and the score of an epoch, and the distribution of the variables. */
copse_status run_log_epoch(struct run *r);
copse_status run_log_close(struct run *r);

/* ---- the trace of --trace (train_trace.c) ---- */

copse_status run_trace_open(struct run *r);
/* Write it, and print what limited a step: after all else, also after a signal or an error. */
copse_status run_trace_close(struct run *r);

/* ---- evaluating (evaluate.c) ---- */

/* The score on the held-out examples, into `test`. */
copse_status run_evaluate(struct run *r);
/* The evaluator task of a job: evaluates each checkpoint of the other tasks, until the last one.
   COPSE_ERR_TIMEOUT if none arrived for --evaluator-patience; COPSE_ERR_CANCELLED after a signal. */
copse_status run_evaluator(struct run *r);
/* Print one line with the reason for the end, and return the exit code. */
int evaluation_fail(const struct run *r, copse_status s);

/* ---- workers in step (train_across.c) ---- */

/* COPSE_ERR_ARGUMENT on all workers if the options of one differ. All workers call it; otherwise it
   does nothing. */
copse_status run_compare(const struct run *r);

/* ---- parameter servers (train_server.c) ---- */

/* Whether servers hold the variables of this process or of the job; whether the job has servers;
   whether this process is one. */
bool run_is_served(const struct run *r);
bool run_has_servers(const struct run *r);
bool run_is_server(const struct run *r);
/* A worker other than the chief, in a job with servers: no other task waits for its evaluations and
   saves. */
bool run_is_apart(const struct run *r);
/* The effect of --servers on the job description. */
copse_status run_set_servers(struct run *r);
/* Print how this worker and the servers communicate. */
void run_show_access(const struct run *r);
/* Serve until the workers have exited, and report it. */
copse_status run_serve(struct run *r);
/* The next batch of this worker. */
copse_status run_next(struct run *r, struct copse_host_batch *out);
/* Examples of a step of this worker, counted from 0 in its epoch. The last batch of an epoch may be
   smaller. */
size_t run_examples(const struct run *r, uint64_t step);
/* Steps of this worker in the whole run, and updates of all workers. */
uint64_t run_steps(const struct run *r);
uint64_t run_updates(const struct run *r);

/* ---- checkpoints (train_state.c) ---- */

/* The step's functions for the monitor; `user` is the run. */
copse_status run_save(void *user, const char *path);
copse_status run_restore(void *user, const char *path);
/* Write the model to a file, with the history. */
copse_status run_save_model(struct run *r, const char *path);
/* Restore the trainer from the file, which must be of a run with these settings. */
copse_status run_take(struct run *r, const char *path, struct copse_position *at,
                      copse_checkpoint **file);
/* The metadata under a key, or NULL. Lifetime: that of the file. */
const char *run_find(const copse_checkpoint *file, const char *key);
/* Whether --patience had ended the run when the checkpoint was written. */
bool run_was_stopped_early(const copse_checkpoint *file);
/* The settings stored in a checkpoint, "--name=value" lines, in `text`. */
copse_status run_settings_of(copse_context *ctx, const char *path, char *text, size_t room);
/* The settings that must be equal on all synchronous workers, "--name=value" lines, in `text`. */
copse_status run_describe(const struct run *r, char *text, size_t room);
#endif
