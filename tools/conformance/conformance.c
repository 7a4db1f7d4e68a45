/* SPDX-License-Identifier: MIT */
/* copse conformance: the command line, and the choice of the part that runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/conformance/conform.h"

/* Longer than the tier takes with warm caches on slow machines, so that it only stops the first
   run. */
static const double QUICK_SECONDS = 60.0;

static const char summary[] =
    "Compares the results of each device with references in double precision. A kernel variant\n"
    "that fails is blocked on that device and driver version until its failed cases pass again;\n"
    "the library then uses another variant. Each device and mode runs in its own process, so a\n"
    "driver that crashes or hangs ends one case and not the run.\n\n"
    "Modes: run grad bitwise launch opt reduce train api args stress limits import compile "
    "ceilings\n"
    "perf tune [run grad; with --kernel also launch]; and used alone:\n"
    "  list         the cases that the options select\n"
    "  info         identity, limits and blocked kernels of the devices\n"
    "  support      a table of ops and devices, from the quick cases of each op\n"
    "  compare A B  regressions between two files of --json\n"
    "  site FILE... a table of ops and devices from files of --json: DIR/index.html (--out DIR)\n"
    "  heal         run what blocked kernels have failed --runs times; what passes is unblocked\n"
    "  contract     the contract of the kernel that --kernel names: buffers, parameters, group "
    "size\n\n"
    "Exit code 0: success; 1: a result is wrong, or a driver crashed or hung; 2: bad input; 3: no "
    "result\n"
    "is wrong, but cases were not reached in --seconds (but those of mode tune).";

static int conformance_complain(const char *option, const char *value, const char *what)
{
    fprintf(stderr, "copse conformance: %s'%s' is %s\n", option, value, what);
    return EXIT_BAD_INPUT;
}

/* Actions come first; all other words are modes. */
static int take_words(const struct option_words *words, struct conform_settings *s,
                      const char **action)
{
    static const char *const actions[] = { "list",     "info", "support", "compare",
                                           "contract", "site", "heal" };
    size_t at = 0;
    *action = "";
    for (size_t i = 0; words->count && i < sizeof actions / sizeof *actions; i++)
        if (strcmp(words->at[0], actions[i]) == 0)
            *action = actions[i];
    at = **action ? 1 : 0;
    if (strcmp(*action, "compare") == 0) {
        if (words->count == 3)
            return -1;
        fprintf(stderr, "copse conformance: compare needs two files that --json wrote\n");
        return EXIT_BAD_INPUT;
    }
    if (strcmp(*action, "site") == 0) {
        if (words->count > 1)
            return -1;
        fprintf(stderr, "copse conformance: site needs files that --json wrote\n");
        return EXIT_BAD_INPUT;
    }
    for (; at < words->count; at++) {
        unsigned mode;
        if (!conform_find_mode(words->at[at], &mode))
            return conformance_complain("", words->at[at],
                                        "no mode; `copse conformance --help` lists them");
        s->job.modes |= mode;
    }
    return -1;
}

/* "90s", "10m", "8h"; plain numbers are seconds. */
static bool read_time(const char *text, double *seconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {
        { "", 1.0 },
        { "s", 1.0 },
        { "m", 60.0 },
        { "h", 3600.0 },
    };
    char *end;
    const double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && strcmp(end, units[i].unit) == 0) {
            *seconds = number * units[i].seconds;
            return *seconds > 0.0 && *seconds < 1e9;
        }
    return false;
}

static unsigned default_modes(const char *action)
{
    unsigned all = 0;
    for (unsigned mode = 1; *copse_conformance_mode_name(mode); mode <<= 1)
        all |= mode;
    if (strcmp(action, "list") == 0)
        return all;
    if (strcmp(action, "heal") == 0)
        return all & ~(unsigned)(COPSE_CONFORM_API | COPSE_CONFORM_ARGS | COPSE_CONFORM_LIMITS |
                                 COPSE_CONFORM_IMPORT | COPSE_CONFORM_PERF | COPSE_CONFORM_TUNE |
                                 COPSE_CONFORM_COMPILE | COPSE_CONFORM_CEILINGS);
    return strcmp(action, "support") == 0 ? COPSE_CONFORM_RUN
                                          : COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD;
}

/* A user kernel with its own grid and signature. */
static bool is_described(const struct conform_settings *s)
{
    return s->job.own_path && s->job.own_kernel && s->job.own_kernel[0] == '@';
}

/* Results must not replace what is read: kernels, known failures, older results. */
static int check_inputs(const struct conform_settings *s, const struct option_words *words,
                        const char *action, const char *folder)
{
    char page[4096];
    const bool has_files = strcmp(action, "compare") == 0 || strcmp(action, "site") == 0;
    snprintf(page, sizeof page, "%s/index.html", folder ? folder : "");
    const char *const outputs[] = { s->job.junit, s->job.csv, s->job.html, s->job.markdown,
                                    folder ? page : NULL };
    const char *const inputs[] = { s->job.own_path, is_described(s) ? s->job.own_kernel + 1 : NULL,
                                   s->job.known };
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const char *read = NULL;
        for (size_t k = 0; outputs[i] && k < sizeof inputs / sizeof *inputs; k++)
            read = inputs[k] && output_is_same(outputs[i], inputs[k]) ? inputs[k] : read;
        for (size_t k = 1; outputs[i] && has_files && k < words->count; k++)
            read = output_is_same(outputs[i], words->at[k]) ? words->at[k] : read;
        if (read)
            return conformance_complain("", read, "both read and written");
    }
    return -1;
}

static int conformance_check(struct conform_settings *s, const char *action, const char *tier,
                             const char *device)
{
    if (!conform_find_tier(tier, &s->job.tier))
        return conformance_complain("--tier: ", tier, "not quick, standard, full or exhaustive");
    if (s->job.seconds < 0.0 || s->job.deadline < 0.0) {
        fprintf(stderr, "copse conformance: --%s must be at least 0\n",
                s->job.seconds < 0.0 ? "seconds" : "deadline");
        return EXIT_BAD_INPUT;
    }
    if (device)
        s->job.devices = device;
    if (strcmp(action, "contract") != 0 && !s->job.own_path != !s->job.own_kernel) {
        fprintf(stderr, "copse conformance: --kernel FILE and --op NAME go together; --op @FILE "
                        "describes a kernel with its "
                        "own grid\n");
        return EXIT_BAD_INPUT;
    }
    if (is_described(s) && s->job.modes & ~(unsigned)COPSE_CONFORM_LAUNCH) {
        fprintf(stderr,
                "copse conformance: a kernel that --op @FILE describes has mode launch only\n");
        return EXIT_BAD_INPUT;
    }
    const char *const files[] = { s->job.junit, s->job.csv, s->job.html, s->job.markdown };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const copse_status status = files[i] ? output_check(files[i]) : COPSE_OK;
        if (status != COPSE_OK)
            return session_fail(status);
        for (size_t k = 0; files[i] && k < i; k++)
            if (files[k] && output_is_same(files[k], files[i])) {
                fprintf(stderr, "copse conformance: two results would be written to '%s'\n",
                        files[i]);
                return EXIT_BAD_INPUT;
            }
    }
    return -1;
}

int cmd_conformance(int argc, char **argv)
{
    struct conform_settings s = { .job = { .devices = "all" } };
    struct option_words words = { 0 };
    const char *device = NULL, *tier = NULL, *budget = NULL, *folder = NULL, *action;
    double budget_seconds = 0.0;
    uint64_t runs = 3;
    float seconds = NAN, deadline = 0.0f; /* NaN cannot be given */
    bool no_isolation = false, has_coverage = false;
    const struct option_row rows[] = {
        { "", OPTION_WORDS, &words, "[MODE...]", "modes to run, see above" },
        { "device", OPTION_TEXT, &device, "ID", "one device: opencl:0" },
        { "devices", OPTION_TEXT, &s.job.devices, "WHICH",
          "auto, all, opencl, vulkan, host, or a list: opencl:0,vulkan:0 [all]" },
        { "tier", OPTION_TEXT, &tier, "TIER",
          "quick (seconds), standard, full (hours), exhaustive [quick; heal: full]" },
        { "ops", OPTION_TEXT, &s.job.ops, "LIST", "only these ops: softmax,matmul [all]" },
        { "case", OPTION_TEXT, &s.job.case_name, "NAME", "only the case of this name [all]" },
        { "variant", OPTION_TEXT, &s.job.variant, "NAME",
          "only this kernel variant; '' is the library's choice [all]" },
        { "kernel", OPTION_TEXT, &s.job.own_path, "FILE",
          "check a user kernel: OpenCL C, GLSL (.comp) or SPIR-V" },
        { "op", OPTION_TEXT, &s.job.own_kernel, "NAME",
          "the kernel it replaces: softmax; @FILE: describes its launch" },
        { "seconds", OPTION_FLOAT, &seconds, "N",
          "time per device, 0 = no limit; skipped cases are listed [quick: 60]" },
        { "deadline", OPTION_FLOAT, &deadline, "N",
          "time for each case before it counts as hung [60; from tier full on 600]" },
        { "seed", OPTION_U64, &s.job.seed, "N",
          "other inputs for all cases; 0: those of their names [0]" },
        { "budget", OPTION_TEXT, &budget, "TIME",
          "repeat with new seeds until a failure or this time: 90s, 10m, 8h" },
        { "runs", OPTION_U64, &runs, "N",
          "with heal: runs; three in a row that pass unblock a kernel [3]" },
        { "out", OPTION_TEXT, &folder, "DIR", "with site: the folder of the page, which exists" },
        { "known", OPTION_TEXT, &s.job.known, "FILE",
          "known failures, a line for each: DEVICE | MODE/OP/CASE | REASON" },
        { "json", OPTION_FLAG, &s.is_json, NULL, "one JSON object per line" },
        { "junit", OPTION_TEXT, &s.job.junit, "FILE", "write JUnit XML" },
        { "csv", OPTION_TEXT, &s.job.csv, "FILE", "write a table" },
        { "card", OPTION_TEXT, &s.job.html, "FILE.html", "write the devices' cards as a page" },
        { "markdown", OPTION_TEXT, &s.job.markdown, "FILE.md",
          "write the devices' cards as Markdown" },
        { "coverage", OPTION_FLAG, &has_coverage, NULL,
          "with list: kernels by launch size and class of values" },
        { "quiet", OPTION_FLAG, &s.is_quiet, NULL,
          "only the result: failures, blocks, the last line" },
        { "no-isolation", OPTION_FLAG, &no_isolation, NULL,
          "run in this process, for debuggers; no deadline" },
        { "verbose", OPTION_FLAG, &s.is_verbose, NULL, "every case, and the log of the library" },
        { 0 },
    };
    int code = options_parse(argc, argv, rows, summary);
    if (code < 0)
        code = take_words(&words, &s, &action);
    if (code < 0) {
        tier = tier ? tier : strcmp(action, "heal") == 0 ? "full" : "quick";
        s.job.seconds = !isnan(seconds)              ? (double)seconds
                        : strcmp(tier, "quick") == 0 ? QUICK_SECONDS
                                                     : 0.0;
        s.job.deadline = (double)deadline;
        code = conformance_check(&s, action, tier, device);
    }
    if (code < 0)
        code = check_inputs(&s, &words, action, folder);
    if (code < 0 && has_coverage && strcmp(action, "list") != 0) {
        fprintf(
            stderr,
            "copse conformance: --coverage goes with list: copse conformance list --coverage\n");
        code = EXIT_BAD_INPUT;
    }
    if (code < 0 && has_coverage)
        code = conform_coverage(s.is_json);
    if (code < 0 && budget && !read_time(budget, &budget_seconds))
        code = conformance_complain("--budget: ", budget, "not a time, such as 90s, 10m or 8h");
    if (code < 0 && (strcmp(action, "site") == 0) != (folder != NULL)) {
        fprintf(stderr, "copse conformance: site and --out DIR go together\n");
        code = EXIT_BAD_INPUT;
    }
    if (code >= 0)
        return code;
    s.is_isolated = !no_isolation;
    if (!s.job.modes)
        s.job.modes = is_described(&s)
                          ? (unsigned)COPSE_CONFORM_LAUNCH
                          : default_modes(action) | (s.job.own_path ? COPSE_CONFORM_LAUNCH : 0u);
    if (strcmp(action, "compare") == 0)
        return conform_compare(&s, words.at[1], words.at[2]);
    if (strcmp(action, "site") == 0)
        return conform_site(words.at + 1, words.count - 1, folder);
    if (strcmp(action, "contract") == 0)
        return conform_contract(s.job.own_path);
    if (strcmp(action, "heal") == 0)
        return conform_heal(&s, runs, argc, argv);
    if (budget)
        return conform_soak(&s, action, budget_seconds, argc, argv);
    return conform_run(&s, action, argc, argv);
}
