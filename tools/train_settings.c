/* SPDX-License-Identifier: MIT */
/* The settings of `copse train`: defaults, command line, checks that need no data. */
#include <float.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/train.h"

static const struct option_name strategies[] = {
    { "auto", STRATEGY_MIRRORED },
    { "one_device", STRATEGY_ONE_DEVICE },
    { "mirrored", STRATEGY_MIRRORED },
    { NULL, 0 },
};
static const struct option_name optimizers[] = {
    { "adam", COPSE_ADAM },         { "adamw", COPSE_ADAMW },
    { "sgd", COPSE_SGD },           { "momentum", COPSE_MOMENTUM },
    { "nesterov", COPSE_NESTEROV }, { NULL, 0 },
};
static const struct option_name schedules[] = {
    { "cosine", SCHEDULE_COSINE },
    { "constant", SCHEDULE_CONSTANT },
    { NULL, 0 },
};
static const struct option_name reductions[] = {
    { "auto", COPSE_REDUCE_AUTO },
    { "sharded", COPSE_REDUCE_SHARDED },
    { "tree", COPSE_REDUCE_TREE },
    { "to_one", COPSE_REDUCE_TO_ONE },
    { NULL, 0 },
};
static const struct option_name transfers[] = {
    { "auto", COPSE_TRANSFER_AUTO },
    { "shared", COPSE_TRANSFER_SHARED },
    { "staged", COPSE_TRANSFER_STAGED },
    { NULL, 0 },
};

/* The first of a table is the default. */
#define CHOICE(table) ((struct option_choice){ .names = (table), .at = (table) })

/* The digits set: installed beside the tool, in the source tree it was built from, or where it was
   to be installed. */
static const char *default_data(void)
{
    static char beside[4096 + sizeof COPSE_DIGITS_BESIDE];
    const char *const places[] = { beside, COPSE_DIGITS_SOURCE, COPSE_DIGITS_INSTALLED };
    const ssize_t n = readlink("/proc/self/exe", beside, 4096);
    char *slash = NULL;
    beside[n > 0 && n < 4096 ? n : 0] = '\0';
    slash = strrchr(beside, '/');
    strcpy(slash ? slash + 1 : beside, slash ? COPSE_DIGITS_BESIDE : "");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (access(places[i], R_OK) == 0)
            return places[i];
    return COPSE_DIGITS_INSTALLED;
}

/* Files that are written can be, and none is one that is read or another that is written. */
static int check_files(const struct train_settings *s)
{
    const struct {
        const char *option, *path;
        bool is_written;
    } files[] = {
        { "data", s->data, false },
        { "labels", s->labels, false },
        { "save", s->save, true },
        { "plot", s->plot, true },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!files[i].path || !files[i].is_written)
            continue;
        if (output_check(files[i].path) != COPSE_OK) {
            fprintf(stderr, "copse train: --%s: %s\n", files[i].option, session_error());
            return EXIT_BAD_INPUT;
        }
        for (size_t k = 0; k < i; k++)
            if (files[k].path && output_is_same(files[k].path, files[i].path)) {
                fprintf(stderr, "copse train: --%s: '%s' is the file of --%s\n", files[i].option,
                        files[i].path, files[k].option);
                return EXIT_BAD_INPUT;
            }
    }
    return -1;
}

static int check(const struct train_settings *s)
{
    const char *wrong = NULL;
    struct mlp m = { 0 };
    if (!mlp_parse(s->model, &m))
        wrong = "--model: write mlp:WIDTH,WIDTH,... with 1 to 15 hidden layers, such as mlp:128,64";
    else if (s->batch == 0)
        wrong = "--batch: must be at least 1";
    else if (s->epochs == 0)
        wrong = "--epochs: must be at least 1";
    else if (!(s->lr > 0.0f))
        wrong = "--lr: must be greater than 0";
    else if (s->dropout < 0.0f || s->dropout >= 1.0f)
        wrong = "--dropout: must be at least 0 and less than 1";
    else if (s->momentum < 0.0f || s->momentum >= 1.0f)
        wrong = "--momentum: must be at least 0 and less than 1";
    else if (s->weight_decay < 0.0f)
        wrong = "--weight-decay: must be at least 0";
    else if (s->bucket_bytes > SIZE_MAX / 2)
        wrong = "--bucket-bytes: too large";
    if (wrong)
        fprintf(stderr, "copse train: %s\n", wrong);
    return wrong ? EXIT_BAD_INPUT : check_files(s);
}

int train_settings_parse(int argc, char **argv, struct train_settings *s)
{
    *s = (struct train_settings){
        .model = "mlp:128,64", .devices = "auto", .strategy = CHOICE(strategies),
        .optimizer = CHOICE(optimizers), .schedule = CHOICE(schedules),
        .reduction = CHOICE(reductions), .transfer = CHOICE(transfers), .momentum = 0.9f,
        .batch = 64, .epochs = 40, .seed = 1,
    };
    const float unset = -FLT_MAX;
    float lr = unset;
    const struct option_row rows[] = {
        { "data", OPTION_TEXT, &s->data, "PATH",
          "CSV, IDX or .npy file, or a folder with an IDX pair [the digits set]" },
        { "labels", OPTION_TEXT, &s->labels, "FILE",
          "IDX or .npy [CSV: last column; IDX: the file's name with labels for images]" },
        { "model", OPTION_TEXT, &s->model, "SPEC", "hidden layers of the network [mlp:128,64]" },
        { "devices", OPTION_TEXT, &s->devices, "WHICH",
          "auto, all, opencl, vulkan, host, or a list: opencl:0,vulkan:0 [auto]" },
        { "strategy", OPTION_CHOICE, &s->strategy, "NAME",
          "one_device or mirrored [mirrored when there are several devices]" },
        { "optimizer", OPTION_CHOICE, &s->optimizer, "NAME",
          "adam, adamw, sgd, momentum, nesterov [adam]" },
        { "lr", OPTION_FLOAT, &lr, "RATE", "learning rate at the start [0.002; sgd kinds 0.05]" },
        { "schedule", OPTION_CHOICE, &s->schedule, "NAME",
          "cosine (down to 0 over the run) or constant [cosine]" },
        { "momentum", OPTION_FLOAT, &s->momentum, "X", "of momentum and nesterov [0.9]" },
        { "weight-decay", OPTION_FLOAT, &s->weight_decay, "X", "[0]" },
        { "dropout", OPTION_FLOAT, &s->dropout, "X", "share of hidden units left out [0]" },
        { "batch", OPTION_COUNT, &s->batch, "N", "examples per step, over all devices [64]" },
        { "epochs", OPTION_COUNT, &s->epochs, "N", "passes over the training part [40]" },
        { "seed", OPTION_U64, &s->seed, "N", "of the split, the order and the start [1]" },
        { "classes", OPTION_COUNT, &s->classes, "N", "labels are 0..N-1 [largest label + 1]" },
        { "save", OPTION_TEXT, &s->save, "FILE", "write the parameters as safetensors" },
        { "plot", OPTION_TEXT, &s->plot, "FILE.svg", "draw loss and accuracy" },
        { "json", OPTION_FLAG, &s->is_json, NULL, "one JSON object a line" },
        { "quiet", OPTION_FLAG, &s->is_quiet, NULL, "only the result" },
        { "reduction", OPTION_CHOICE, &s->reduction, "NAME",
          "how gradients are summed: sharded, tree, to_one; same bits [auto]" },
        { "transfer", OPTION_CHOICE, &s->transfer, "NAME",
          "how they travel: shared or staged; same bits [auto]" },
        { "bucket-bytes", OPTION_U64, &s->bucket_bytes, "N", "gradients summed together [4 MiB]" },
        { "matmul", OPTION_TEXT, &s->matmul, "NAME", "force a matrix-product variant" },
        { "no-cache", OPTION_FLAG, &s->no_cache, NULL, "compile all kernels anew" },
        { "verbose", OPTION_FLAG, &s->is_verbose, NULL, "log what the library does" },
        { 0 },
    };
    const int code = options_parse(argc, argv, rows,
                                   "Trains a network on labelled data, with one replica on each "
                                   "device, and prints the accuracy\non a fifth of the data that "
                                   "it never saw.");
    if (code >= 0)
        return code;
    s->is_default_data = s->data == NULL;
    if (s->is_default_data)
        s->data = default_data();
    const int kind = s->optimizer.at->value;
    if (lr != unset)
        s->lr = lr;
    else
        s->lr = kind == COPSE_ADAM || kind == COPSE_ADAMW ? 0.002f : 0.05f;
    return check(s);
}
