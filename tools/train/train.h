/* SPDX-License-Identifier: MIT */
/* The parts of `copse train`: its settings, the model, and what is shown while it runs. */
#ifndef TRAIN_TOOL_H
#define TRAIN_TOOL_H

#include "copse/distribute/cluster.h"

#include "tools/tool.h"

/* Values of `strategy` and `schedule`; those of the others are the library's enums. */
enum { STRATEGY_AUTO, STRATEGY_MIRRORED, STRATEGY_ONE_DEVICE, STRATEGY_COLLECTIVE,
       STRATEGY_PARAMETER_SERVER, STRATEGY_ACCELERATOR };
enum { SCHEDULE_COSINE, SCHEDULE_CONSTANT };

/* Exit code where other workers are gone; the others stand in tool.h. */
enum { EXIT_LOST = 3 };

struct train_settings {
    const char *data, *labels, *model, *devices, *kernels, *save, *plot, *cluster;
    const char *checkpoint; /* folder, or file when is_one_file */
    uint64_t every_steps;
    double every_seconds;
    uint32_t keep;
    uint32_t patience; /* of an evaluator, in seconds; 0 = default */
    struct option_choice strategy, optimizer, schedule, reduction, transfer, engine, on_loss, one_sided;
    float lr, weight_decay, dropout, momentum;
    uint32_t steps_per_run, cores; /* of an accelerator; 0 = default */
    uint32_t prefetch;             /* batches uploaded ahead, of the others */
    uint32_t batch, epochs, classes, worker_deadline; /* the last in seconds, 0 = default */
    uint64_t seed, bucket_bytes, window_bytes, one_sided_bytes;
    bool is_default_data; /* `data` is the digits set */
    bool is_one_file, is_resume;
    bool is_json, is_quiet, is_verbose, no_cache;
    uint32_t servers; /* under mpirun: the last ranks are parameter servers */
    bool is_watching; /* `copse evaluate --watch` */
    bool is_worker; /* `copse worker`: part of a job, and nothing without one */
};

/* Whether something was said that only a job with parameter servers knows. */
static inline bool settings_want_windows(const struct train_settings *s)
{
    return s->one_sided.at->value == COPSE_ONE_SIDED_ON || s->window_bytes > 0 || s->one_sided_bytes > 0;
}

/* Fill in the defaults, read the command line and check all that needs no data, the places of the
   output files included; -1 to go on, else the exit code. */
int train_settings_parse(int argc, char **argv, bool is_worker, struct train_settings *out);

/* The same for `copse evaluate`; what makes up the run is in the checkpoint. */
int evaluate_settings_parse(int argc, char **argv, struct train_settings *out);
/* Take over settings that a checkpoint keeps, "--name=value" lines, which are cut up and must stay. False when one
   is no setting of this version. */
bool train_settings_take(struct train_settings *s, char *text);

/* ---- the model (model.c) ---- */

#define MLP_MAX_LAYERS 16

/* A multilayer perceptron: dense layers with ReLU between them, softmax cross-entropy at the end. */
struct mlp {
    uint32_t layers;                      /* hidden ones and the last */
    uint32_t widths[MLP_MAX_LAYERS + 1];  /* [0] = inputs, [layers] = classes */
    copse_tensor *w[MLP_MAX_LAYERS], *b[MLP_MAX_LAYERS];
    float dropout;
};

/* Read "mlp:128,64". False when it is not one. */
bool mlp_parse(const char *text, struct mlp *out);
/* Make its variables; `out->widths` must be complete. */
copse_status mlp_create(struct mlp *m, copse_strategy *st, uint64_t seed);
/* A copse_loss_fn; `user` is the struct mlp. Reports "accuracy". */
copse_status mlp_loss(copse_graph *g, const copse_batch *in, void *user, copse_tensor **loss);

/* ---- what is shown (progress.c, events.c, curve.c, plot.c) ---- */

/* The losses of a run, for the curves. */
struct history {
    struct { double loss, accuracy; } *steps;    /* training, by step */
    size_t step_count, step_room;
    struct { double loss, accuracy; uint64_t step; } *epochs; /* held-out, by epoch */
    size_t epoch_count, epoch_room;
};
bool history_step(struct history *h, double loss, double accuracy);
bool history_epoch(struct history *h, uint64_t step, double loss, double accuracy);
void history_free(struct history *h);

/* A run as far as it has come. */
struct progress {
    uint64_t step, steps;
    uint64_t resumed_step; /* done by earlier processes */
    uint32_t epoch, epochs;
    uint64_t samples;
    double seconds;
    double loss, accuracy; /* training: smoothed over the last steps */
};

/* A bar that is redrawn on a terminal; nothing elsewhere. */
void bar_draw(const struct progress *p);
void bar_clear(void);

/* The loss curve in characters, on standard output. */
void curve_draw(const struct history *h);
/* The loss and accuracy curves as an SVG file, written beside and renamed. */
copse_status plot_write(const char *path, const struct history *h, const char *title);

#endif
