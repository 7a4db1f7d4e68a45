/* SPDX-License-Identifier: MIT */
/* The parts of `copse train`: its settings, the model, and its output. */
#ifndef TRAIN_TOOL_H
#define TRAIN_TOOL_H

#include "copse/distribute/cluster.h"
#include "copse/loop/find_lr.h"
#include "copse/loop/monitor.h"

#include "tools/tool.h"
#include "tools/train/bits.h"
#include "tools/train/hash_file.h"

/* Values of `strategy`; the other choices use the library's enums. */
enum {
    STRATEGY_AUTO,
    STRATEGY_MIRRORED,
    STRATEGY_ONE_DEVICE,
    STRATEGY_COLLECTIVE,
    STRATEGY_PARAMETER_SERVER,
    STRATEGY_ACCELERATOR
};

/* Exit code after the loss of other workers; tool.h has the others. */
enum { EXIT_LOST = 3 };

struct train_settings {
    const char *network; /* the description as it was written, for messages; NULL: `model` */
    const char *data, *labels, *model, *devices, *kernels, *save, *plot, *logdir, *trace, *cluster;
    struct hash_options hashes;
    struct bits_options bits;
    const char *shares; /* equal, measured, or a list of numbers; NULL: measured, but for host:0 */
    const char *init;   /* file of weights to start from, or NULL */
    struct option_choice init_layout;
    const char *checkpoint; /* folder, or file when is_one_file */
    uint64_t every_steps;
    double every_seconds;
    uint32_t keep;
    uint32_t evaluator_patience; /* seconds; 0 = default */
    uint32_t patience;           /* epochs without a lower held-out loss; 0 = for ever;
                                     UINT32_MAX = not given */
    float min_delta;             /* lower by more than this */
    bool saves_last;             /* --save writes the last epoch, not the best one */
    bool has_own_patience;       /* --patience was not given */
    bool has_few_judges;         /* because so few rows are held out */
    uint32_t folds;              /* 0: no cross-validation */
    const char *held_out;        /* a part, a file, or "none"; NULL: the default part */
    struct option_choice split;
    bool is_held_file;            /* of a checkpoint: its run held out a file */
    const char *taken_part;       /* of a checkpoint: its part or none, though held_out is given */
    const char *label, *ignore;   /* label: name or position; NULL: the last column, none */
    const char *resize, *augment; /* of pictures; NULL: neither */
    struct option_choice scale, task, missing, header;
    struct option_choice unknown, weights; /* of `copse evaluate` */
    const char *date;                      /* likewise: of conversations */
    struct option_texts lora;              /* likewise: adapters of a language model */
    struct option_choice tokens;           /* of a text */
    uint32_t context, stride;              /* 0 = default */
    struct option_choice strategy, optimizer, reduction, transfer, priority, engine, on_loss,
        one_sided, precision;
    const char *schedule; /* copse/optim/schedule.h */
    const char *groups;   /* copse/optim/groups.h; NULL: none */
    const char *freeze;   /* patterns of variables that are not trained; NULL: none */
    float body_lr;        /* of all layers but the last; UNSET_BODY: --lr */
    const char *loss;     /* its description; NULL: the model's own */
    const char *rule;     /* further settings of the optimizer, "beta2=0.99,l1=0.1"; NULL: none */
    float lr, weight_decay, dropout, momentum;
    float average;      /* decay of the averages of the variables that evaluations use; 0: none */
    bool saves_average; /* --save writes the averages */
    uint32_t steps_per_run, cores; /* of an accelerator; 0 = default */
    uint32_t prefetch;             /* batches uploaded ahead, for the other strategies */
    uint32_t audit;                /* steps between audits, 0: none */
    bool has_no_cross_check;       /* the first step is not compared with the host */
    uint32_t batch, epochs, classes, worker_deadline; /* worker_deadline in seconds, 0 = default */
    uint64_t seed, bucket_bytes, window_bytes, one_sided_bytes;
    uint64_t memory;      /* budget of each device, bytes; 0: none */
    bool is_default_data; /* `data` is the digits set */
    bool is_one_file, is_resume;
    bool is_json, is_quiet;
    struct session_how how;
    uint32_t servers;                 /* under mpirun: the last ranks are parameter servers */
    struct copse_find_lr_params find; /* of `copse find-lr`; start_lr is 0 elsewhere */
    struct option_words words;        /* of `copse evaluate`: MODEL DATA */
    bool is_watching;                 /* `copse evaluate --watch` */
    bool is_worker;                   /* `copse worker`: always part of a job */
};

/* The values of `tokens`: TEXT_NONE, else 1 + enum copse_tokens. */
enum { TEXT_NONE };
extern const struct option_name text_tokens[];
static inline bool settings_are_text(const struct train_settings *s)
{
    return s->tokens.at->value != TEXT_NONE;
}

/* Whether an option was given that only applies to a job with parameter servers. */
static inline bool settings_want_windows(const struct train_settings *s)
{
    return s->one_sided.at->value == COPSE_ONE_SIDED_ON || s->window_bytes > 0 ||
           s->one_sided_bytes > 0;
}

/* Set the defaults, parse the command line and check everything that needs no data, including the
   paths of output files; -1 to continue, else the exit code. */
int train_settings_parse(int argc, char **argv, bool is_worker, struct train_settings *out);

/* Check that output files can be written, and that none is an input file or another output file. */
copse_status settings_check_files(const struct train_settings *s);

/* The digits set, which is the data if none is named. Static. */
const char *settings_default_data(void);
/* Notes of --help (train_notes.c). */
extern const char train_note_strategies[], train_note_lines[];
/* Decide the defaults that depend on the rows. `held_out`: NULL: none. `can_stop`: --patience is
   possible. */
copse_status train_settings_fit(struct train_settings *s, const copse_dataset *train,
                                const copse_dataset *held_out, bool can_stop);

/* ---- the optimizer (train_optimizer.c) ---- */

#define UNSET_MOMENTUM (-1e30f)

/* The rules of the library. Static. */
const struct option_name *train_optimizers(void);
/* Decide rate and momentum; `rate`: what was given, or NULL. */
void train_optimizer_settle(struct train_settings *s, const float *rate);
/* An error text, or NULL. */
const char *train_optimizer_check(const struct train_settings *s);
/* Set kind, rate and settings. */
void train_optimizer_fill(const struct train_settings *s, struct copse_optimizer_params *p);

/* ---- fine-tuning (train_freeze.c) ---- */

#define UNSET_BODY (-1e30f)

/* An error text, or NULL. */
const char *freeze_check(const struct train_settings *s);

/* ---- the held-out part (train_split.c) ---- */

/* Values of `split`; auto: stratified where there are classes. */
enum { SPLIT_AUTO, SPLIT_STRATIFIED, SPLIT_RANDOM };
extern const struct option_name split_names[];
/* An error text, or NULL. */
const char *split_check(const struct train_settings *s);
/* An error text, or NULL: of --folds, which is given (train_folds.c). */
const char *folds_check(const struct train_settings *s);
/* Whether all examples train. */
bool split_is_none(const struct train_settings *s);
/* After the settings of a checkpoint were taken: COPSE_ERR_ARGUMENT if --held-out names a file and
   the run held out none, or if it names no file. */
copse_status split_check_taken(const struct train_settings *s, const char *path);
/* Take a setting from a checkpoint; false if it is none of these, or wrong. */
bool split_take(struct train_settings *s, const char *name, const char *value);

/* ---- texts (train_text.c) ---- */

/* Check the options of texts, and choose the default of --model; an error text, or NULL. */
const char *text_check(struct train_settings *s);
/* Decide --context and --stride. A network that predicts the token after the window alone gets
   windows at every token. */
copse_status text_settle(struct train_settings *s, const char *network);
/* "bytes", or "bpe:1024". Lifetime: until the next call. */
const char *text_tokens_name(const struct train_settings *s);
/* Take a setting from a checkpoint; false if it is none of texts, or wrong. */
bool text_take(struct train_settings *s, const char *name, const char *value);

/* The same for `copse find-lr`, which takes the options of `copse train` that change its steps. */
int find_lr_settings_parse(int argc, char **argv, struct train_settings *out);

/* The same for `copse evaluate`; the checkpoint has the settings of the run. */
int evaluate_settings_parse(int argc, char **argv, struct train_settings *out);
/* Apply settings stored in a checkpoint, "--name=value" lines. They are modified and must stay
   valid. False if one is not a setting of this version. */
bool train_settings_take(struct train_settings *s, char *text);

/* ---- the model (train_network.c) ---- */

/* Check --model: mlp:..., a description of layers, or a file with one. `out` is what checkpoints
   keep, static: mlp:... as it is, else the description on one line. `source` is the text as it was
   written, until the next call. */
copse_status network_settle(const char *spec, float dropout, const char **out, const char **source);
/* Whether a description is mlp:..., which --dropout is for. */
bool network_is_mlp(const char *text);
/* Whether --model is gpt:..., gru:... or lstm:..., which are for texts. */
bool network_is_text(const char *spec);

/* The network and what it is trained for. */
struct network {
    copse_type type;   /* of input "x" */
    copse_shape shape; /* of one example of it */
    /* see copse_schema_info; 0 and 1: the network gets "x" as it is */
    float input_offset, input_scale;
    uint32_t outputs; /* classes, or targets of a regression */
    bool is_regression;
    double target_scale; /* unit of "mae" */
    uint32_t positions;  /* tokens that are predicted for a window; else 1 */
    copse_model *model;
};
/* Make the model of such a text, which must end with the outputs, for data of this schema. */
copse_status network_create(struct network *n, copse_strategy *st, copse_context *ctx,
                            const copse_schema *schema, const char *text, float dropout,
                            uint64_t seed);

/* ---- what is shown (progress_bar.c, events.c, curve.c, plot.c) ---- */

/* How good a network is on the held-out part. */
struct score {
    double loss;
    double accuracy;    /* of a regression the coefficient of determination, R2 */
    double mae;         /* of a regression: mean absolute error in the unit of the target */
    double token_bytes; /* of a text: mean size of the tokens that are predicted */
    bool is_regression, is_sequence;
    bool is_absent; /* no example is held out */
};
/* e to the loss: of a text. */
double score_perplexity(const struct score *s);
/* The loss in bits for each byte of the text. */
double score_bits(const struct score *s);
/* "97.22 % of the 36 held-out examples are right (loss 0.0637)", or R2 and mean absolute error.
   `examples`: of a text the tokens that were predicted. */
void score_print(const struct score *s, size_t examples);

/* The losses of a run, for the curves. */
struct history {
    bool is_regression;
    /* training, by step; the mean absolute error of a regression */
    struct {
        double loss, accuracy;
    } *steps;
    size_t step_count, step_room;
    struct {
        struct score score;
        uint64_t step;
    } *epochs;
    size_t epoch_count, epoch_room;
};
bool history_step(struct history *h, double loss, double accuracy);
bool history_epoch(struct history *h, uint64_t step, const struct score *score);
void history_free(struct history *h);

/* The progress of a run. */
struct progress {
    uint64_t step, steps;
    uint64_t resumed_step; /* done by earlier processes */
    uint32_t epoch, epochs;
    uint64_t samples;
    double seconds;
    double waited; /* of `seconds`: until a batch was there */
    /* Means over the examples of the epoch that have results, as the steps computed them: while the
       weights change, and with dropout. `accuracy`: the mean absolute error of a regression. */
    double loss, accuracy;
    double loss_sum, accuracy_sum; /* over these examples */
    uint64_t examples;             /* their number; of a text the tokens that are predicted */
    uint64_t epoch_steps;          /* the steps with these examples */
    bool is_regression;
};

/* The part of the training time in which steps waited for data, 0 to 1. */
double progress_wait(const struct progress *p);

/* A bar that is redrawn on a terminal; elsewhere no output. */
void bar_draw(const struct progress *p);
void bar_clear(void);

/* The loss curve in characters, on standard output. */
void curve_draw(const struct history *h);
/* The loss and accuracy curves as an SVG file, written under a temporary name and renamed. */
copse_status plot_write(const char *path, const struct history *h, const char *title);

#endif
