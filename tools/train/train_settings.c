/* SPDX-License-Identifier: MIT */
/* The settings of `copse train`: defaults, command line, checks that need no data. */
#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/pictures.h"
#include "copse/train/defaults.h"
#include "copse/train/weights.h"

#include "tools/common/use.h"
#include "tools/train/find_lr_settings.h"
#include "tools/train/train_shares.h"

static const struct option_name strategies[] = {
    { "auto", STRATEGY_AUTO },
    { "one_device", STRATEGY_ONE_DEVICE },
    { "mirrored", STRATEGY_MIRRORED },
    { "collective", STRATEGY_COLLECTIVE },
    { "parameter_server", STRATEGY_PARAMETER_SERVER },
    { "accelerator", STRATEGY_ACCELERATOR },
    { NULL, 0 },
};
static const struct option_name reductions[] = {
    { "auto", COPSE_REDUCE_AUTO },
    { "sharded", COPSE_REDUCE_SHARDED },
    { "tree", COPSE_REDUCE_TREE },
    { "to_one", COPSE_REDUCE_TO_ONE },
    { NULL, 0 },
};
static const struct option_name priorities[] = {
    { "normal", COPSE_PRIORITY_NORMAL },
    { "low", COPSE_PRIORITY_LOW },
    { "high", COPSE_PRIORITY_HIGH },
    { NULL, 0 },
};
static const struct option_name precisions[] = {
    { "f32", COPSE_F32 },
    { "f16", COPSE_F16 },
    { "bf16", COPSE_BF16 },
    { NULL, 0 },
};
static const struct option_name transfers[] = {
    { "auto", COPSE_TRANSFER_AUTO },
    { "shared", COPSE_TRANSFER_SHARED },
    { "staged", COPSE_TRANSFER_STAGED },
    { NULL, 0 },
};

static const struct option_name engines[] = {
    { "auto", COPSE_ENGINE_AUTO },
    { "mpi", COPSE_ENGINE_MPI },
    { "gloo", COPSE_ENGINE_GLOO },
    { NULL, 0 },
};

static const struct option_name accesses[] = {
    { "auto", COPSE_ONE_SIDED_AUTO },
    { "on", COPSE_ONE_SIDED_ON },
    { "off", COPSE_ONE_SIDED_OFF },
    { NULL, 0 },
};

static const struct option_name answers[] = {
    { "stop", COPSE_LOSS_STOPS },
    { "continue", COPSE_LOSS_CONTINUES },
    { NULL, 0 },
};

static const struct option_name layouts[] = {
    { "auto", COPSE_LAYOUT_AUTO },
    { "copse", COPSE_LAYOUT_COPSE },
    { "torch", COPSE_LAYOUT_TORCH },
    { NULL, 0 },
};

static const struct option_name scales[] = {
    { "auto", COPSE_SCALE_AUTO },
    { "none", COPSE_SCALE_NONE },
    { "standard", COPSE_SCALE_STANDARD },
    { "max", COPSE_SCALE_MAX },
    { NULL, 0 },
};
static const struct option_name tasks[] = {
    { "auto", COPSE_TASK_AUTO },
    { "classification", COPSE_TASK_CLASSIFICATION },
    { "regression", COPSE_TASK_REGRESSION },
    { NULL, 0 },
};
static const struct option_name missings[] = {
    { "refuse", COPSE_MISSING_REFUSE },
    { "mean", COPSE_MISSING_MEAN },
    { NULL, 0 },
};
static const struct option_name headers[] = {
    { "auto", COPSE_CSV_HEADER_AUTO },
    { "yes", COPSE_CSV_HEADER_YES },
    { "no", COPSE_CSV_HEADER_NO },
    { NULL, 0 },
};

#define UNSET      UINT32_MAX /* a count that was not given */
#define UNSET_RATE (-FLT_MAX) /* and a rate */

/* The first value of a table is the default. */
#define CHOICE(table) ((struct option_choice){ .names = (table), .at = (table) })
#define TOKENS \
    ((struct option_choice){ .names = text_tokens, .at = text_tokens, .numbered = "bpe" })

/* The digits set: installed beside the tool, in its source tree, or in the install prefix. */
const char *settings_default_data(void)
{
    static char room[4096 + sizeof COPSE_DIGITS_BESIDE];
    return installed_place(room, sizeof room, COPSE_DIGITS_BESIDE, COPSE_DIGITS_SOURCE,
                           COPSE_DIGITS_INSTALLED);
}

/* In messages. */
static const char *command_name(const struct train_settings *s)
{
    return s->find.start_lr != 0.0f ? "find-lr" : "train";
}

copse_status settings_check_files(const struct train_settings *s)
{
    char partial[4096];
    snprintf(partial, sizeof partial, "%s.partial", s->save ? s->save : "");
    const struct {
        const char *option, *path;
        bool is_written;
    } files[] = {
        { "data", s->data, false },
        { "labels", s->labels, false },
        { "held-out", s->held_out && !split_is_none(s) ? s->held_out : NULL, false },
        { "init", s->init, false },
        { "save", s->save, true },
        { "save", s->save ? partial : NULL, true },
        { "plot", s->plot, true },
        { "checkpoint", s->is_one_file ? s->checkpoint : NULL, true },
        { "trace", s->trace, true },
        { "hash", s->hashes.path, true },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!files[i].path || !files[i].is_written)
            continue;
        const copse_status status = output_check(files[i].path);
        if (status != COPSE_OK) {
            char text[1200];
            session_plain(text, sizeof text, session_error());
            return session_set_error(status, "--%s: %s", files[i].option, text);
        }
        for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
            const bool is_read = files[k].path && !files[k].is_written,
                       is_first = files[k].path && k < i;
            const char *is = is_read ? output_overwrites(files[i].path, files[k].path)
                             : is_first && output_is_same(files[i].path, files[k].path)
                                 ? "is the file of"
                                 : NULL;
            if (is)
                return session_set_error(COPSE_ERR_ARGUMENT, "--%s: '%s' %s --%s", files[i].option,
                                         files[i].path, is, files[k].option);
        }
    }
    return COPSE_OK;
}

/* "100" steps or "30s"; NULL: the library's default. */
static bool parse_every(const char *text, struct train_settings *s)
{
    char *end = NULL;
    if (!text)
        return true;
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    if (use_has_ending(text, "s")) {
        s->every_seconds = strtod(text, &end);
        return strcmp(end, "s") == 0 && s->every_seconds > 0.0 && s->every_seconds <= 1e9;
    }
    s->every_steps = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0 && s->every_steps > 0;
}

static const char *check_checkpoints(struct train_settings *s, const char *every)
{
    if (!s->checkpoint && (s->is_resume || s->keep || every))
        return "--resume, --keep and --checkpoint-every need --checkpoint PATH";
    if (!s->checkpoint && s->evaluator_patience > 0)
        return "--evaluator-patience belongs to a job with an evaluator, which waits for "
               "checkpoints: it "
               "needs --checkpoint PATH";
    if (!s->checkpoint && s->on_loss.at->value == COPSE_LOSS_CONTINUES)
        return "--on-loss continue resumes from a checkpoint: it needs --checkpoint PATH";
    if (s->checkpoint && !*s->checkpoint)
        return "--checkpoint: the path is empty";
    if (!parse_every(every, s))
        return "--checkpoint-every: write steps, such as 100, or seconds, such as 30s";
    s->is_one_file = s->checkpoint && use_has_ending(s->checkpoint, ".safetensors");
    if (s->is_one_file && s->keep > 1)
        return "--keep: one file keeps one checkpoint; name a folder with --checkpoint";
    return NULL;
}

/* The strategy and its own options. */
static const char *check_strategy(struct train_settings *s)
{
    const int strategy = s->strategy.at->value;
    const bool is_alone = strategy == STRATEGY_ONE_DEVICE || strategy == STRATEGY_MIRRORED ||
                          strategy == STRATEGY_ACCELERATOR;
    if (s->steps_per_run == 0 || s->cores == 0)
        return "--steps-per-run and --cores: must be at least 1";
    if ((s->steps_per_run != UNSET || s->cores != UNSET) && strategy != STRATEGY_ACCELERATOR)
        return "--steps-per-run and --cores belong to --strategy accelerator";
    if (is_alone && (s->is_worker || s->cluster || s->servers > 0))
        return s->is_worker
                   ? "--strategy one_device, mirrored and accelerator are for one process, not for "
                     "a job of several workers: leave --strategy out"
               : s->cluster ? "--cluster: --strategy one_device, mirrored and accelerator are for "
                              "one process; "
                              "leave one of the two out"
                            : "--servers: belongs to --strategy parameter_server";
    if (settings_want_windows(s) && (is_alone || strategy == STRATEGY_COLLECTIVE))
        return "--one-sided on, --one-sided-bytes and --window-bytes: belong to --strategy "
               "parameter_server";
    if (s->one_sided_bytes > 0 && s->one_sided.at->value != COPSE_ONE_SIDED_AUTO)
        return "--one-sided-bytes: belongs to --one-sided auto, which chooses by it; leave one of "
               "the two out";
    if (s->servers > 0 && strategy == STRATEGY_COLLECTIVE)
        return "--servers: belongs to --strategy parameter_server";
    if (s->window_bytes > 0 && (s->window_bytes < 4096 || s->window_bytes > 1u << 30))
        return "--window-bytes: 4096 to 1073741824 (1 GiB)";
    if (s->prefetch > 0 && strategy == STRATEGY_ACCELERATOR)
        return "--prefetch: an accelerator already uploads whole runs of batches ahead; omit "
               "--prefetch";
    if (s->prefetch > COPSE_PREFETCH_MAX)
        return "--prefetch: at most 64 batches";
    s->steps_per_run = s->steps_per_run == UNSET ? 0 : s->steps_per_run;
    s->cores = s->cores == UNSET ? 0 : s->cores;
    return NULL;
}

static int train_settings_check(struct train_settings *s, const char *every)
{
    const char *wrong = check_checkpoints(s, every);
    if (!wrong)
        wrong = check_strategy(s);
    if (!wrong)
        wrong = shares_check(s->shares);
    if (!wrong)
        wrong = text_check(s);
    if (!wrong)
        wrong = train_optimizer_check(s);
    if (!wrong)
        wrong = split_check(s);
    if (!wrong && s->folds != UNSET)
        wrong = folds_check(s);
    s->folds = s->folds == UNSET ? 0 : s->folds;
    if (wrong)
        ;
    else if ((s->data && !*s->data) || (s->labels && !*s->labels))
        wrong = "--data and --labels: a path is empty";
    else if (s->init && !*s->init)
        wrong = "--init: the path is empty";
    else if (use_is_onnx(s->save))
        wrong =
            "--save: a network of layers is saved as a model, not as an ONNX file: name another "
            "file, then `copse export` writes it with --onnx FILE.onnx";
    else if (s->logdir && !*s->logdir)
        wrong = "--logdir: the path is empty";
    else if (s->trace && !*s->trace)
        wrong = "--trace: the path is empty";
    else if (bits_check(&s->bits))
        wrong = bits_check(&s->bits);
    else if (bits_are_portable(&s->bits) && s->shares && strcmp(s->shares, "equal") != 0)
        wrong = "--bits portable: all shards are equal; leave --shares out";
    else if (bits_are_portable(&s->bits) && s->strategy.at->value != STRATEGY_AUTO &&
             s->strategy.at->value != STRATEGY_MIRRORED)
        wrong = "--bits portable: is for --strategy mirrored; leave --strategy out";
    else if (hash_file_check(&s->hashes))
        wrong = hash_file_check(&s->hashes);
    else if (!s->init && s->init_layout.at->value != COPSE_LAYOUT_AUTO)
        wrong = "--init-layout belongs to --init";
    else if (s->label && (!*s->label || strcmp(s->label, "0") == 0))
        wrong = "--label: give the name of a column, or its position from 1";
    else if (s->augment && copse_augment_check(s->augment) != COPSE_OK)
        wrong = session_error();
    else if (s->batch == 0)
        wrong = "--batch: must be at least 1";
    else if (s->epochs == 0)
        wrong = "--epochs: must be at least 1";
    else if (!(s->lr > 0.0f))
        wrong = "--lr: must be greater than 0";
    else if (s->dropout != UNSET_RATE && (s->dropout < 0.0f || s->dropout >= 1.0f))
        wrong = "--dropout: must be at least 0 and less than 1";
    else if (s->momentum < 0.0f || s->momentum >= 1.0f)
        wrong = "--momentum: must be at least 0 and less than 1";
    else if (!(s->min_delta >= 0.0f && s->min_delta <= FLT_MAX))
        wrong = "--min-delta: must be at least 0, and finite";
    else if (s->min_delta > 0.0f &&
             (s->patience == 0 || (s->patience == UNSET && s->epochs != UNSET)))
        wrong = "--min-delta belongs to --patience N; with --epochs alone no run stops early";
    else if (s->weight_decay != UNSET_RATE && s->weight_decay < 0.0f)
        wrong = "--weight-decay: must be at least 0";
    else if (s->bucket_bytes > SIZE_MAX / 2)
        wrong = "--bucket-bytes: too large";
    else if (network_settle(s->model, s->dropout != UNSET_RATE ? s->dropout : 0.0f, &s->model,
                            &s->network) != COPSE_OK ||
             text_settle(s, s->network) != COPSE_OK)
        wrong = session_error();
    else if (settings_check_files(s) != COPSE_OK)
        wrong = session_error();
    if (wrong)
        fprintf(stderr, "copse %s: %s\n", command_name(s), wrong);
    return wrong ? EXIT_BAD_INPUT : -1;
}

copse_status train_settings_fit(struct train_settings *s, const copse_dataset *train,
                                const copse_dataset *held_out, bool can_stop)
{
    struct copse_training_defaults by_rows;
    COPSE_TRY(copse_training_defaults(train, held_out, s->batch == UNSET ? 0 : s->batch, &by_rows));
    const bool is_length_given = s->epochs != UNSET;
    s->batch = by_rows.batch;
    if (!is_length_given)
        s->epochs = by_rows.epochs;
    s->has_few_judges = held_out && !is_length_given && s->patience == UNSET && by_rows.keep_last;
    s->saves_last |= s->has_few_judges;
    s->has_own_patience = s->patience == UNSET;
    if (s->has_own_patience)
        s->patience = is_length_given || !can_stop ? 0 : by_rows.patience;
    if (s->min_delta > 0.0f && s->patience == 0)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--min-delta belongs to --patience N: without it no run with so "
                                 "few held-out examples stops early");
    if (s->dropout == UNSET_RATE)
        s->dropout = network_is_mlp(s->model) ? by_rows.dropout : 0.0f;
    if (s->weight_decay == UNSET_RATE)
        s->weight_decay = network_is_mlp(s->model) && s->optimizer.at->value == COPSE_ADAM
                              ? by_rows.weight_decay
                              : 0.0f;
    return COPSE_OK;
}

/* ---- the command line ---- */

enum command_kind { OF_TRAIN, OF_WORKER, OF_FIND_LR };

static int parse_as(int argc, char **argv, enum command_kind kind, struct train_settings *s)
{
    const bool is_worker = kind == OF_WORKER;
    *s = (struct train_settings){
        .devices = "auto",
        .strategy = CHOICE(strategies),
        .tokens = TOKENS,
        .optimizer = CHOICE(train_optimizers()),
        .schedule = "cosine",
        .reduction = CHOICE(reductions),
        .transfer = CHOICE(transfers),
        .priority = CHOICE(priorities),
        .bits = { CHOICE(bits_names), SHARDS_NOT_GIVEN },
        .hashes.launches_of = HASH_NOT_GIVEN,
        .precision = CHOICE(precisions),
        .momentum = UNSET_MOMENTUM,
        .body_lr = UNSET_BODY,
        .dropout = UNSET_RATE,
        .weight_decay = UNSET_RATE,
        .batch = UNSET,
        .epochs = UNSET,
        .patience = UNSET,
        .folds = UNSET,
        .seed = 1,
        .audit = 128,
        .engine = CHOICE(engines),
        .scale = CHOICE(scales),
        .task = CHOICE(tasks),
        .missing = CHOICE(missings),
        .header = CHOICE(headers),
        .on_loss = CHOICE(answers),
        .one_sided = CHOICE(accesses),
        .split = CHOICE(split_names),
        .init_layout = CHOICE(layouts),
        .is_worker = is_worker,
        .steps_per_run = UNSET,
        .cores = UNSET,
    };
    if (kind == OF_FIND_LR)
        s->find = (struct copse_find_lr_params){ .start_lr = 1e-7f, .end_lr = 10.0f, .steps = 100 };
    float lr = UNSET_RATE;
    const char *every = NULL;
    const struct option_row rows[] = {
        { "", OPTION_GROUP, NULL, NULL, "Data" },
        { "data", OPTION_TEXT, &s->data, "PATH",
          "CSV, IDX or .npy; a folder: IDX pair, or pictures by class [digits]" },
        { "labels", OPTION_TEXT, &s->labels, "FILE",
          "IDX or .npy [CSV: last column; IDX: beside the images, by name]" },
        { "label", OPTION_TEXT, &s->label, "NAME|N",
          "CSV: label column, by name or position from 1; u,v: targets [last]" },
        { "task", OPTION_CHOICE, &s->task, "NAME",
          "classification or regression [text or few whole numbers: classes]" },
        { "missing", OPTION_CHOICE, &s->missing, "NAME",
          "CSV, empty cells: refuse, or the mean of the column [refuse]" },
        { "scale", OPTION_CHOICE, &s->scale, "NAME",
          "none, standard (each column), max [CSV: standard; pictures: 1/255]" },
        { "ignore", OPTION_TEXT, &s->ignore, "COLUMNS",
          "CSV: leave out, names or positions: id,3 [row numbers]; none: nothing" },
        { "header", OPTION_CHOICE, &s->header, "NAME",
          "CSV: whether the first line has names: yes, no [auto]" },
        { "resize", OPTION_TEXT, &s->resize, "WxH",
          "pictures: stretch all to this size [they must have one size]" },
        { "classes", OPTION_COUNT, &s->classes, "N",
          "labels are 0..N-1 [CSV: those found; else largest + 1]" },
        { "tokens", OPTION_CHOICE, &s->tokens, "NAME",
          "--data is a text: characters, bytes, bpe:VOCABULARY [none]" },
        { "context", OPTION_COUNT, &s->context, "N",
          "text: tokens from which the next one is predicted [16]" },
        { "stride", OPTION_COUNT, &s->stride, "N",
          "text: tokens between two windows [each token is predicted once]" },
        { "held-out", OPTION_TEXT, &s->held_out, "X|FILE",
          "what judges each epoch: a part of --data, a file, or none [0.2]" },
        { "folds", OPTION_COUNT, &s->folds, "K",
          "cross-validation: K runs, each judged by another fold [none]" },
        { "split", OPTION_CHOICE, &s->split, "NAME",
          "of the part: stratified (each class its part) or random [by task]" },
        { "seed", OPTION_U64, &s->seed, "N", "of the split, the order and the start [1]" },
        { "", OPTION_GROUP, NULL, NULL, "Model" },
        { "model", OPTION_TEXT, &s->model, "SPEC",
          "mlp, cnn, resnet20, gpt|decoder:L,W,H, gru|lstm:L,W, FILE [mlp:128,64]" },
        { "dropout", OPTION_FLOAT, &s->dropout, "X",
          "hidden units dropped, with mlp:WIDTHS [tables: by their rows; else 0]" },
        { "init", OPTION_TEXT, &s->init, "FILE",
          "start from the weights of a safetensors file, by name" },
        { "freeze", OPTION_TEXT, &s->freeze, "PATTERNS",
          "do not train \"conv*,dense1.*\"; body: all but the last layer [none]" },
        { "init-layout", OPTION_CHOICE, &s->init_layout, "NAME",
          "its matrices: copse [in, out] or torch [out, in] [auto: copse]" },
        { "", OPTION_GROUP, NULL, NULL, "Training" },
        { "batch", OPTION_COUNT, &s->batch, "N",
          "examples per step, over all devices [64, or all; long text: 256]" },
        { "epochs", OPTION_COUNT, &s->epochs, "N",
          "passes over the training part [40; CSV, text: by their rows]" },
        { "patience", OPTION_COUNT, &s->patience, "N",
          "stop after N epochs without a lower held-out loss; 0: never [automatic]" },
        { "min-delta", OPTION_FLOAT, &s->min_delta, "X",
          "of --patience: lower by more than X counts [0]" },
        { "augment", OPTION_TEXT, &s->augment, "STEPS",
          "change pictures: \"flip; rotate 10; mixup 0.2; ...\": pictures.md [none]" },
        { "loss", OPTION_TEXT, &s->loss, "SPEC",
          "\"cross_entropy weights=balanced\", huber, ...: optimizers.md [by task]" },
        { "optimizer", OPTION_CHOICE, &s->optimizer, "NAME",
          "adam, adamw, sgd, momentum, nesterov, adagrad, lion, ... [adam]" },
        { "optimizer-settings", OPTION_TEXT, &s->rule, "LIST",
          "as beta2=0.99,l1=0.01: optimizers.md" },
        { "group", OPTION_TEXT, &s->groups, "LIST",
          "settings by name: \"*.bias: decay=0; conv1.*: frozen\" [none]" },
        { "lr", OPTION_FLOAT, &lr, "RATE",
          "learning rate at the start [adam 0.002; sgd 0.05; others: their own]" },
        { "body-lr", OPTION_FLOAT, &s->body_lr, "RATE",
          "learning rate of all layers but the last [--lr]" },
        { "schedule", OPTION_TEXT, &s->schedule, "TEXT",
          "constant, \"warmup for 5%; cosine\": optimizers.md [cosine]" },
        { "momentum", OPTION_FLOAT, &s->momentum, "X",
          "of momentum and nesterov [0.9]; rmsprop [0]" },
        { "weight-decay", OPTION_FLOAT, &s->weight_decay, "X",
          "decay of the weights per step; adamw: decoupled [as --dropout; else 0]" },
        { "precision", OPTION_CHOICE, &s->precision, "NAME",
          "operands of products: f32, f16, bf16: half-precision.md [f32]" },
        { "average", OPTION_FLOAT, &s->average, "D",
          "evaluate moving averages of the weights, as 0.999 [0: off]" },
        { "save-average", OPTION_FLAG, &s->saves_average, NULL, "--save writes these averages" },
        { "", OPTION_GROUP, NULL, NULL, "Devices" },
        { "devices", OPTION_TEXT, &s->devices, "WHICH",
          "auto, all, opencl, vulkan, host, or a list: opencl:0,vulkan:0 [auto]" },
        { "shares", OPTION_TEXT, &s->shares, "WHICH",
          "equal, measured, or 4,1: parts of a batch [measured; host:0: equal]" },
        { "strategy", OPTION_CHOICE, &s->strategy, "NAME",
          "see below [mirrored; in a job collective or parameter_server]" },
        { "steps-per-run", OPTION_COUNT, &s->steps_per_run, "K",
          "accelerator: steps per submission [16]" },
        { "cores", OPTION_COUNT, &s->cores, "N",
          "accelerator: replicas, on the first N devices by number [all]" },
        { "prefetch", OPTION_COUNT, &s->prefetch, "N",
          "upload up to N batches while earlier ones are computed; same bits [0]" },
        { "memory", OPTION_BYTES, &s->memory, "BYTES",
          "budget of each device, as 6GiB: memory.md; same bits [0: none]" },
        { "audit", OPTION_COUNT, &s->audit, "N",
          "steps between audits of the devices; 0: none; same bits [128]" },
        { "no-cross-check", OPTION_FLAG, &s->has_no_cross_check, NULL,
          "do not compare the first step on a new device with the host; same bits" },
        { "reduction", OPTION_CHOICE, &s->reduction, "NAME",
          "how gradients are summed: sharded, tree, to_one; same bits [auto]" },
        { "transfer", OPTION_CHOICE, &s->transfer, "NAME",
          "how gradients are transferred: shared or staged; same bits [auto]" },
        { "bucket-bytes", OPTION_U64, &s->bucket_bytes, "N", "gradients summed together [4 MiB]" },
        { "kernel", OPTION_TEXT, &s->kernels, "LIST",
          "force variants: matmul=wide,column_sum=reduce; a wrong name lists them" },
        BITS_OPTION_ROWS(&s->bits),
        { "priority", OPTION_CHOICE, &s->priority, "NAME",
          "of the work, if the driver has it: low, normal, high [normal]" },
        { "no-cache", OPTION_FLAG, &s->how.no_cache, NULL, "compile all kernels anew" },
        { "allow-host", OPTION_FLAG, &s->how.allows_host, NULL,
          "compute blocked kernels on the host: right, but slow" },
        { "trust-device", OPTION_FLAG, &s->how.trusts_unreliable, NULL,
          "use devices whose faults come and go" },
        { "", OPTION_GROUP, NULL, NULL, "Output" },
        { "save", OPTION_TEXT, &s->save, "FILE",
          "write the model, for `copse predict`; until the end to FILE.partial" },
        { "save-last", OPTION_FLAG, &s->saves_last, NULL,
          "--save writes the last epoch, not the one with the lowest held-out loss" },
        { "checkpoint", OPTION_TEXT, &s->checkpoint, "PATH",
          "write checkpoints: a folder, or FILE.safetensors" },
        { "checkpoint-every", OPTION_TEXT, &every, "N|Ns",
          "steps or seconds between checkpoints [600s]" },
        { "keep", OPTION_COUNT, &s->keep, "N", "checkpoints kept in the folder [3]" },
        { "resume", OPTION_FLAG, &s->is_resume, NULL,
          "resume from the newest checkpoint, or start; --epochs may be larger" },
        { "plot", OPTION_TEXT, &s->plot, "FILE.svg", "draw loss and accuracy" },
        { "logdir", OPTION_TEXT, &s->logdir, "DIR",
          "write losses, variables and filters for TensorBoard" },
        { "trace", OPTION_TEXT, &s->trace, "FILE.json",
          "record host and devices for ui.perfetto.dev; say what limits a step" },
        HASH_OPTION_ROWS(&s->hashes, "the variables"),
        { "json", OPTION_FLAG, &s->is_json, NULL, "one JSON object per line" },
        { "quiet", OPTION_FLAG, &s->is_quiet, NULL, "only the result" },
        { "verbose", OPTION_FLAG, &s->how.is_verbose, NULL,
          "a line for each epoch; log what the library does" },
        { "", OPTION_GROUP, NULL, is_worker ? NULL : "distributed", "Jobs of several workers" },
        { "cluster", OPTION_TEXT, &s->cluster, "JSON",
          "the job and this process's task [COPSE_CONFIG, TF_CONFIG, mpirun]" },
        { "engine", OPTION_CHOICE, &s->engine, "NAME",
          "transport: mpi or gloo; same bits [mpi under mpirun, else gloo]" },
        { "worker-deadline", OPTION_SECONDS, &s->worker_deadline, "SECONDS",
          "a worker that does not answer for so long is lost [60]" },
        { "on-loss", OPTION_CHOICE, &s->on_loss, "NAME",
          "after losing a worker: stop, or continue from the checkpoint [stop]" },
        { "servers", OPTION_COUNT, &s->servers, "N",
          "under mpirun: the last N ranks are parameter servers [0]" },
        { "one-sided", OPTION_CHOICE, &s->one_sided, "NAME",
          "windows between workers and servers: on or off; same bits [auto]" },
        { "one-sided-bytes", OPTION_U64, &s->one_sided_bytes, "N",
          "with auto: larger variables use messages [512 KiB]" },
        { "window-bytes", OPTION_U64, &s->window_bytes, "N",
          "window size of each server [16 MiB]" },
        { "evaluator-patience", OPTION_SECONDS, &s->evaluator_patience, "SECONDS", /* in a job */
          is_worker ? "evaluator: exit if no new checkpoint arrives for so long [1800]" : NULL },
        { "", OPTION_NOTE, NULL, NULL, train_note_strategies },
        { "", OPTION_NOTE, NULL, NULL, train_note_lines },
        { "", OPTION_EXAMPLE, NULL, NULL, "copse train --epochs 5" },
        { "", OPTION_EXAMPLE, NULL, NULL,
          "copse train --data table.csv --model mlp:64 --save model.safetensors" },
        { "", OPTION_EXAMPLE, NULL, NULL,
          "copse train --data tale.txt --tokens characters --save tale.safetensors" },
        { "", OPTION_EXAMPLE, NULL, NULL,
          "copse train --devices opencl:0,vulkan:0 --plot run.svg" },
        { "", OPTION_EXAMPLE, NULL, NULL,
          "copse train --data photos --resize 32x32 --augment \"flip; shift 2\"" },
        { "", OPTION_EXAMPLE, NULL, NULL, "copse train --checkpoint run --resume" },
        { "", OPTION_EXAMPLE, NULL, NULL, "copse launch -n 4 -- train --epochs 10" },
        { "", OPTION_EXAMPLE, NULL, "distributed",
          "copse launch -n 4 -- train --epochs 10      # here, or with --hosts FILE on several "
          "machines" },
        { "", OPTION_EXAMPLE, NULL, "distributed",
          "mpirun -n 4 --bind-to none copse train --epochs 10" },
        { "", OPTION_EXAMPLE, NULL, "distributed",
          "COPSE_CONFIG='{\"cluster\":{\"worker\":[\"a:7000\",\"b:7000\"]},\n"
          "                 \"task\":{\"type\":\"worker\",\"index\":0}}' copse worker" },
        { "class-weight", OPTION_HINT, NULL, NULL, "--loss \"cross_entropy weights=balanced\"" },
        { "class-weights", OPTION_HINT, NULL, NULL, "--loss \"cross_entropy weights=balanced\"" },
        { "cv", OPTION_HINT, NULL, NULL, "--folds" },
        { "kfold", OPTION_HINT, NULL, NULL, "--folds" },
        { "k-fold", OPTION_HINT, NULL, NULL, "--folds" },
        { "learning-rate", OPTION_HINT, NULL, NULL, "--lr" },
        { 0 },
    };
    struct option_row test[FIND_ROWS];
    _Static_assert(sizeof rows / sizeof *rows + 8 < FIND_ROWS, "the rows fit");
    if (kind == OF_FIND_LR)
        find_lr_rows(rows, s, test);
    const int code = options_parse(
        argc, argv, kind == OF_FIND_LR ? test : rows,
        kind == OF_FIND_LR
            ? "Trains for a few steps while the learning rate grows exponentially, prints the "
              "losses, and\nsuggests a rate: a tenth of the one with the lowest smoothed loss. "
              "Writes no model."
        : is_worker
            ? "Runs one task of a job of several workers. The environment "
              "or --cluster describes the job;\nall workers need the same "
              "options of `copse train`. Without errors it prints nothing.\n"
              "A ps task serves variables until the workers exit, and "
              "prints a summary line;\nan evaluator prints the loss and "
              "accuracy of each checkpoint."
            : "Trains a network on labelled data, with one replica on each device, and prints the "
              "accuracy\non held-out data (a fifth of the examples). With a language model as "
              "--model, which is\nFILE.gguf or a folder, it adapts that to a text: `copse train "
              "--lora 8 --help`. With\n--model FILE.onnx it trains a network of an ONNX file: "
              "`copse train --model FILE.onnx --help`.");
    if (code >= 0)
        return code;
    s->how.priority = (copse_priority)s->priority.at->value;
    s->is_default_data = s->data == NULL;
    if (s->is_default_data)
        s->data = settings_default_data();
    const char *wrong = kind == OF_FIND_LR ? find_lr_check(&s->find) : NULL;
    if (wrong) {
        fprintf(stderr, "copse find-lr: %s\n", wrong);
        return EXIT_BAD_INPUT;
    }
    if (kind == OF_FIND_LR)
        lr = s->find.start_lr;
    train_optimizer_settle(s, lr != UNSET_RATE ? &lr : NULL);
    return train_settings_check(s, every);
}

int train_settings_parse(int argc, char **argv, bool is_worker, struct train_settings *s)
{
    return parse_as(argc, argv, is_worker ? OF_WORKER : OF_TRAIN, s);
}

int find_lr_settings_parse(int argc, char **argv, struct train_settings *s)
{
    int code = find_lr_refuse(argc, argv);
    code = code >= 0 ? code : parse_as(argc, argv, OF_FIND_LR, s);
    if (code < 0)
        find_lr_settle(s);
    return code;
}

/* ---- copse evaluate ---- */

int evaluate_settings_parse(int argc, char **argv, struct train_settings *s)
{
    *s = (struct train_settings){
        .model = "mlp:128,64",
        .devices = "auto",
        .strategy = CHOICE(strategies),
        .optimizer = CHOICE(train_optimizers()),
        .body_lr = UNSET_BODY,
        .schedule = "cosine",
        .reduction = CHOICE(reductions),
        .transfer = CHOICE(transfers),
        .precision = CHOICE(precisions),
        .engine = CHOICE(engines),
        .on_loss = CHOICE(answers),
        .tokens = TOKENS,
        .split = CHOICE(split_names),
        .scale = CHOICE(scales),
        .task = CHOICE(tasks),
        .missing = CHOICE(use_missings),
        .unknown = CHOICE(use_unknowns),
        .weights = CHOICE(use_weights),
        .header = CHOICE(headers),
    };
    const struct option_row rows[] = {
        { "", OPTION_WORDS, &s->words, "[MODEL DATA]",
          "a saved model and labelled data, or a language model and a text" },
        { "plot", OPTION_TEXT, &s->plot, "FILE.svg", "MODEL: draw the confusion matrix" },
        { "logdir", OPTION_TEXT, &s->logdir, "DIR",
          "MODEL: write the pictures with the largest losses for TensorBoard" },
        { "missing", OPTION_CHOICE, &s->missing, "NAME", "MODEL: " USE_MISSING_HELP },
        { "unknown", OPTION_CHOICE, &s->unknown, "NAME", "MODEL: " USE_UNKNOWN_HELP },
        { "weights", OPTION_CHOICE, &s->weights, "NAME", "MODEL: " USE_WEIGHTS_HELP },
        { "date", OPTION_TEXT, &s->date, "TEXT", "MODEL: " USE_DATE_HELP },
        { "lora", OPTION_TEXTS, &s->lora, "ADAPTER", "MODEL: " USE_LORA_HELP },
        { "checkpoint", OPTION_TEXT, &s->checkpoint, "PATH",
          "instead of MODEL: checkpoints of a run, a folder or FILE.safetensors" },
        { "data", OPTION_TEXT, &s->data, "PATH", "the data of that run [the digits set]" },
        { "labels", OPTION_TEXT, &s->labels, "FILE", "its labels, as for `copse train`" },
        { "classes", OPTION_COUNT, &s->classes, "N", "as for `copse train` [largest label + 1]" },
        { "held-out", OPTION_TEXT, &s->held_out, "FILE",
          "the file of its --held-out, if it was one [the part of the run]" },
        { "devices", OPTION_TEXT, &s->devices, "WHICH",
          "the first of these devices is used [auto]" },
        { "watch", OPTION_FLAG, &s->is_watching, NULL,
          "evaluate each checkpoint that the run writes, until its last one" },
        { "evaluator-patience", OPTION_SECONDS, &s->evaluator_patience, "SECONDS",
          "with --watch: exit if no new checkpoint arrives for so long [1800]" },
        { "json", OPTION_FLAG, &s->is_json, NULL, "one JSON object per line" },
        { "quiet", OPTION_FLAG, &s->is_quiet, NULL, "only the result" },
        { "kernel", OPTION_TEXT, &s->kernels, "LIST",
          "force variants: matmul=wide,column_sum=reduce; a wrong name lists them" },
        { "no-cache", OPTION_FLAG, &s->how.no_cache, NULL, "compile all kernels anew" },
        { "allow-host", OPTION_FLAG, &s->how.allows_host, NULL,
          "compute blocked kernels on the host: right, but slow" },
        { "trust-device", OPTION_FLAG, &s->how.trusts_unreliable, NULL,
          "use devices whose faults come and go" },
        { "verbose", OPTION_FLAG, &s->how.is_verbose, NULL, "log what the library does" },
        { 0 },
    };
    const int code = options_parse(
        argc, argv, rows,
        "Compares a model with labels: loss, accuracy, each class, the rows with the largest "
        "loss; or R2 and\nthe mean absolute error; or the perplexity of a language model. With "
        "--checkpoint: loss and\naccuracy of a run on its held-out data, of the newest checkpoint "
        "in the folder, or with --watch\nof each.");
    if (code >= 0)
        return code;
    s->is_default_data = s->data == NULL;
    if (s->is_default_data)
        s->data = settings_default_data();
    const bool is_model = s->words.count == 2 && !s->checkpoint && s->is_default_data;
    const bool has_cells = s->missing.at != use_missings || s->unknown.at != use_unknowns;
    const char *wrong =
        s->words.count > 0 && !is_model  ? "give MODEL and DATA, or --checkpoint PATH"
        : s->plot && !is_model           ? "--plot belongs to MODEL and DATA"
        : s->lora.count > 0 && !is_model ? "--lora belongs to MODEL and DATA"
        : s->logdir && !is_model         ? "--logdir belongs to MODEL and DATA"
        : s->held_out && is_model        ? "--held-out belongs to --checkpoint: DATA is what judges"
        : has_cells && !is_model         ? "--missing and --unknown belong to MODEL and DATA"
        : (s->weights.at != use_weights || s->date) && !is_model
            ? "--weights and --date belong to MODEL and DATA"
        : s->logdir && !*s->logdir ? "--logdir: the path is empty"
        : is_model                 ? s->is_watching || s->evaluator_patience > 0
                                         ? "--watch and --evaluator-patience belong to --checkpoint"
                                         : NULL
        : !s->checkpoint || !*s->checkpoint
            ? "which model? give MODEL and DATA, or --checkpoint PATH"
        : s->evaluator_patience > 0 && !s->is_watching ? "--evaluator-patience belongs to --watch"
        : (s->data && !*s->data) || (s->labels && !*s->labels)
            ? "--data and --labels: a path is empty"
            : NULL;
    if (wrong)
        fprintf(stderr, "copse evaluate: %s\n", wrong);
    s->is_one_file = s->checkpoint && use_has_ending(s->checkpoint, ".safetensors");
    return wrong ? EXIT_BAD_INPUT : -1;
}
