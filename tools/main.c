/* SPDX-License-Identifier: MIT */
/* The `copse` command: a table of subcommands. */
#include <stdio.h>
#include <string.h>

#include "tools/common/help.h"
#include "tools/conformance/conform.h"

const struct command commands[] = {
    { "devices", cmd_devices, "list devices, their limits, and why any were rejected" },
    { "train", cmd_train, "train a network on every device found" },
    { "find-lr", cmd_find_lr, "suggest a learning rate for `copse train`" },
    { "worker", cmd_worker, "run one worker of a job of several workers" },
    { "launch", cmd_launch, "start all tasks of a job, here or on several machines" },
    { "predict", cmd_predict, "print what a trained model says about data" },
    { "generate", cmd_generate, "write a text with a model of texts" },
    { "evaluate", cmd_evaluate, "compare a model, or the checkpoints of a run, with labels" },
    { "info", cmd_info, "print what a safetensors, GGUF or ONNX file holds" },
    { "export", cmd_export,
      "write a safetensors file as .npy files, or its model as an ONNX file" },
    { "compare-runs", cmd_compare_runs, "find the first step in which two training runs differ" },
    { "conformance", cmd_conformance, "check every kernel of every device, and block faulty ones" },
    { "tune", cmd_tune, "measure which kernels are fastest on each device, for `copse train`" },
    { "gpucheck", cmd_gpucheck, "check a graphics card, and write a folder of results to send" },
    { "bench", cmd_bench, "measure the devices and the limits of the machine" },
    { "help", cmd_help, "list the commands, or the options of one" },
    { 0 },
};

static int main_unknown(const char *word)
{
    const char *names[sizeof commands / sizeof *commands];
    size_t count = 0;
    for (const struct command *c = commands; c->name; c++)
        names[count++] = c->name;
    const char *like = similar_word(word, names, count);
    fprintf(stderr, "copse: there is no command '%s'; ", word);
    if (like)
        fprintf(stderr, "did you mean '%s'?\n", like);
    else
        fprintf(stderr, "`copse help` lists them\n");
    return EXIT_BAD_INPUT;
}

static int main_run(int argc, char **argv)
{
    while (argc > 1 && strcmp(argv[1], "--debug") == 0) {
        session_debug();
        argc--;
        argv++;
    }
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        cmd_help(1, (char *[]){ "help", NULL });
        return argc < 2 ? EXIT_BAD_INPUT : EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("copse %s\n", copse_version());
        return EXIT_DONE;
    }
    if (strcmp(argv[1], COMPILING_PROCESS) == 0)
        return compiling_process(argc - 1, argv + 1);
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(argv[1], c->name) == 0)
            return c->run(argc - 1, argv + 1);
    return main_unknown(argv[1]);
}

int main(int argc, char **argv)
{
    system_begin(&argc, &argv);
    signals_begin();
    int code = copse_conformance_helper(argc, argv, &conform_helper);
    if (code < 0)
        code = main_run(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "copse: cannot write to standard output\n");
    return code == EXIT_DONE ? EXIT_FAILED : code;
}
