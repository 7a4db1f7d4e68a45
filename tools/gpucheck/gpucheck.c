/* SPDX-License-Identifier: MIT */
/* copse gpucheck: a check of a graphics card by a person who has one, in one command. */
#include <errno.h>
#include <string.h>

#include "tools/gpucheck/gpucheck.h"

static const char summary[] =
    "Checks the devices of this machine in stages, each in its share of --minutes, and writes to\n"
    "the folder DIR: gpucheck.jsonl, a line of JSON for each case as soon as it ends; "
    "summary.txt;\n"
    "cards of the devices; their tuning records. The next run with the same DIR goes on where "
    "this\n"
    "one ended. Launches are short, memory is not exhausted, and drivers run in helper processes.\n"
    "The files have no serial numbers, no paths, and no names of hosts or users.\n\n"
    "Stages:\n"
    "  existence    the devices, their limits, and how long each kernel compiles\n"
    "  correctness  results, gradients, equal bits, training, every kernel alone\n"
    "  ceilings     copies, products, launches, waits, transfers\n"
    "  kernels      the speed of every kernel variant, and its share of the ceilings\n"
    "  tuning       what `copse tune` measures\n\n"
    "Exit code 0: every case of the stage correctness passed, and no result is wrong; 1: a\n"
    "result is wrong, or a driver crashed or hung; 2: bad input; 3: no result is wrong, but\n"
    "cases of the stage correctness were not reached in --minutes: run it again; 130, 143:\n"
    "stopped by a signal; the files have the cases that ended.";

static copse_status gpucheck_folder(const char *folder)
{
    struct system_file info;
    if (!system_look(folder, &info) && !system_make_folder(folder))
        return session_set_error(COPSE_ERR_IO, "cannot make the folder '%s': %s", folder,
                                 strerror(errno));
    if (system_look(folder, &info) && info.kind != SYSTEM_FOLDER)
        return session_set_error(COPSE_ERR_IO, "'%s' is not a folder", folder);
    return COPSE_OK;
}

static bool has_failed(const struct gpucheck *g)
{
    for (int v = 0; v < COPSE_VERDICT_COUNT; v++)
        if (copse_verdict_fails((copse_verdict)v) && g->journal.counts[v] > 0)
            return true;
    return false;
}

static int gpucheck_code(struct gpucheck *g)
{
    return has_failed(g) || g->has_error ? EXIT_FAILED
           : g->signal                   ? 128 + g->signal
           : !gpucheck_is_complete(g)    ? EXIT_INCOMPLETE
                                         : EXIT_DONE;
}

static int gpucheck_do(struct gpucheck *g)
{
    copse_status s = gpucheck_folder(g->folder);
    signals_catch();
    if (s == COPSE_OK)
        s = gpucheck_run(g);
    if (s == COPSE_OK)
        s = gpucheck_finish(g);
    const int code = s == COPSE_OK ? gpucheck_code(g) : session_fail(s);
    journal_close(&g->journal);
    copse_context_release(&g->files);
    return code;
}

int cmd_gpucheck(int argc, char **argv)
{
    struct gpucheck g = { .devices = "all" };
    struct option_words words = { 0 };
    const char *stages = NULL;
    char wrong[32];
    float minutes = 10.0f;
    bool is_stress = false;
    const struct option_row rows[] = {
        { "", OPTION_WORDS, &words, "DIR", "the folder of the results, which is made" },
        { "devices", OPTION_TEXT, &g.devices, "WHICH",
          "auto, all, opencl, vulkan, host, or a list: opencl:0,vulkan:0 [all]" },
        { "minutes", OPTION_FLOAT, &minutes, "N", "time for all stages [10]" },
        { "stages", OPTION_TEXT, &stages, "LIST",
          "only these: existence,correctness,ceilings,kernels,tuning [all]" },
        { "stress", OPTION_FLAG, &is_stress, NULL,
          "also exhaust the memory of the device; not on the card of your screen" },
        { "verbose", OPTION_FLAG, &g.is_verbose, NULL, "log what the library does" },
        { 0 },
    };
    const int code = options_parse(argc, argv, rows, summary);
    if (code >= 0)
        return code;
    if (words.count != 1) {
        fprintf(stderr,
                "copse gpucheck: one folder for the results is needed: copse gpucheck DIR\n");
        return EXIT_BAD_INPUT;
    }
    if (!(minutes > 0.0f && minutes <= 1e5f)) {
        fprintf(stderr, "copse gpucheck: --minutes must be above 0\n");
        return EXIT_BAD_INPUT;
    }
    if (!gpucheck_stages_parse(stages, is_stress, g.is_taken, wrong)) {
        fprintf(
            stderr,
            "copse gpucheck: '%s' is no stage; stages: existence, correctness, ceilings, kernels, "
            "tuning\n",
            session_shown(wrong));
        return EXIT_BAD_INPUT;
    }
    g.folder = words.at[0];
    g.seconds = 60.0 * (double)minutes;
    return gpucheck_do(&g);
}
