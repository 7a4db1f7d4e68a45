/* SPDX-License-Identifier: MIT */
/* The settings of `copse train`: defaults, command line, checks that need no data. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "tools/train.h"

static bool is_one_of(const char *value, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(value, *names) == 0)
            return true;
    return false;
}

static int check_name(const char *option, const char *value, const char *const *names)
{
    if (is_one_of(value, names))
        return -1;
    fprintf(stderr, "copse train: --%s: '%s' is not one of", option, value);
    for (size_t i = 0; names[i]; i++)
        fprintf(stderr, "%s %s", i ? "," : "", names[i]);
    fprintf(stderr, "\n");
    return EXIT_BAD_INPUT;
}

static int check(const struct train_settings *s)
{
    static const char *const strategies[] = { "auto", "one_device", "mirrored", NULL };
    static const char *const optimizers[] = { "adam", "adamw", "sgd", "momentum", "nesterov", NULL };
    static const char *const schedules[] = { "cosine", "constant", NULL };
    static const char *const reductions[] = { "auto", "sharded", "tree", "to_one", NULL };
    static const char *const transfers[] = { "auto", "shared", "staged", NULL };
    const struct {
        const char *option, *value;
        const char *const *names;
    } checks[] = {
        { "strategy", s->strategy, strategies },    { "optimizer", s->optimizer, optimizers },
        { "schedule", s->schedule, schedules },     { "reduction", s->reduction, reductions },
        { "transfer", s->transfer, transfers },
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        const int code = check_name(checks[i].option, checks[i].value, checks[i].names);
        if (code >= 0)
            return code;
    }
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
    return wrong ? EXIT_BAD_INPUT : -1;
}

int train_settings_parse(int argc, char **argv, struct train_settings *s)
{
    *s = (struct train_settings){
        .model = "mlp:128,64", .devices = "auto", .strategy = "auto", .optimizer = "adam",
        .schedule = "cosine", .reduction = "auto", .transfer = "auto", .lr = 0.0f,
        .momentum = 0.9f, .batch = 64, .epochs = 40, .seed = 1,
    };
    const float unset = -FLT_MAX;
    float lr = unset;
    const struct option_row rows[] = {
        { "data", OPTION_TEXT, &s->data, "PATH",
          "CSV, CSV.gz, IDX, or a folder with an IDX pair [the digits set]" },
        { "model", OPTION_TEXT, &s->model, "SPEC", "hidden layers of the network [mlp:128,64]" },
        { "devices", OPTION_TEXT, &s->devices, "WHICH",
          "auto, all, opencl, vulkan, host, or a list: opencl:0,vulkan:0 [auto]" },
        { "strategy", OPTION_TEXT, &s->strategy, "NAME",
          "one_device or mirrored [mirrored when there are several devices]" },
        { "optimizer", OPTION_TEXT, &s->optimizer, "NAME",
          "adam, adamw, sgd, momentum, nesterov [adam]" },
        { "lr", OPTION_FLOAT, &lr, "RATE", "learning rate at the start [0.002; sgd kinds 0.05]" },
        { "schedule", OPTION_TEXT, &s->schedule, "NAME",
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
        { "quiet", OPTION_FLAG, &s->is_quiet, NULL, "only the last line" },
        { "reduction", OPTION_TEXT, &s->reduction, "NAME",
          "how gradients are summed: sharded, tree, to_one; same bits [auto]" },
        { "transfer", OPTION_TEXT, &s->transfer, "NAME",
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
    const bool is_adam = strncmp(s->optimizer, "adam", 4) == 0;
    s->lr = lr == unset ? (is_adam ? 0.002f : 0.05f) : lr;
    return check(s);
}
