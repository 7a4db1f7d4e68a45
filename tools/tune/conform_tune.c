/* SPDX-License-Identifier: MIT */
/* copse tune: mode tune of `copse conformance` with its own command line and table. */
#include <string.h>

#include "copse/device/tuning.h"

#include "tools/conformance/conform_run.h"

enum { MAX_VARIANTS = 8 };

/* The measurements of a device: one row for each size class. */
struct table {
    const struct conform_set *set;
    const char *device;
    const char *variants[MAX_VARIANTS];
    size_t count;
};

static bool is_measured(const struct table *t, size_t at)
{
    const struct conform_case *c = &t->set->cases[at];
    return strcmp(c->mode, "tune") == 0 && strcmp(c->device, t->device) == 0 && c->gflops > 0.0 &&
           c->verdict == COPSE_VERDICT_PASS;
}

static void find_variants(struct table *t)
{
    for (size_t i = 0; i < t->set->case_count; i++) {
        size_t k = 0;
        while (k < t->count && strcmp(t->variants[k], t->set->cases[i].variant) != 0)
            k++;
        if (is_measured(t, i) && k == t->count && k < MAX_VARIANTS)
            t->variants[t->count++] = t->set->cases[i].variant;
    }
}

/* The case of the same sizes and another variant; NULL if it was not measured. */
static const struct conform_case *case_of(const struct table *t, size_t like, const char *variant)
{
    for (size_t i = 0; i < t->set->case_count; i++)
        if (is_measured(t, i) && strcmp(t->set->cases[i].name, t->set->cases[like].name) == 0 &&
            strcmp(t->set->cases[i].variant, variant) == 0)
            return &t->set->cases[i];
    return NULL;
}

static bool is_first(const struct table *t, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (is_measured(t, i) && strcmp(t->set->cases[i].name, t->set->cases[at].name) == 0)
            return false;
    return is_measured(t, at);
}

static void print_row(const struct table *t, size_t at)
{
    const struct conform_case *best = NULL;
    printf("%-10s %-10s %-32s", t->device, t->set->cases[at].op, t->set->cases[at].name);
    for (size_t k = 0; k < t->count; k++) {
        const struct conform_case *c = case_of(t, at, t->variants[k]);
        if (c)
            printf(" %15.3g", c->gflops);
        else
            printf(" %15s", "-");
        if (c && (!best || c->gflops > best->gflops))
            best = c;
    }
    printf("  %s\n", best ? best->variant : "");
}

void table_tune(const struct conform_set *set, const char *device)
{
    struct table t = { .set = set, .device = device };
    size_t rows = 0;
    find_variants(&t);
    if (t.count == 0)
        return;
    printf("\n%-10s %-10s %-32s", "device", "op", "size [GFLOP/s]");
    for (size_t k = 0; k < t.count; k++)
        printf(" %15s", t.variants[k]);
    printf("  fastest\n");
    for (size_t i = 0; i < set->case_count; i++)
        if (is_first(&t, i)) {
            print_row(&t, i);
            rows++;
        }
    printf("%zu size%s measured on %s; `copse train` chooses by them from now on\n", rows,
           rows == 1 ? "" : "s", device);
}

static const char summary[] =
    "Measures which variant of each kernel is fastest on each device, by problem size, and stores the\n"
    "result for the device, its driver and this version. `copse train` and programs with the same\n"
    "kernel cache use it. A variant is measured only if it is not blocked and its result was right.\n"
    "Each device is measured in its own process.\n\n"
    "Exit code 0: success; 1: a result is wrong, or a driver crashed or hung; 2: bad input.";

static int forget(const char *device)
{
    copse_context *ctx = NULL;
    copse_status s = session_open(&(struct session_how){ .no_cache = false }, &ctx);
    if (s == COPSE_OK)
        s = copse_device_tuning_clear(ctx, device);
    const int code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    copse_context_release(&ctx);
    return code;
}

int cmd_tune(int argc, char **argv)
{
    struct conform_settings s = {
        .devices = "auto",
        .modes = COPSE_CONFORM_TUNE,
        .tier = conform_find(conform_tiers, "quick"),
        .is_isolated = true,
    };
    const char *device = NULL, *forgotten = NULL;
    float seconds = 10.0f, deadline = 60.0f;
    const struct option_row rows[] = {
        { "device", OPTION_TEXT, &device, "ID", "one device: opencl:0" },
        { "devices", OPTION_TEXT, &s.devices, "WHICH",
          "auto, all, opencl, vulkan, host, or a list: opencl:0,vulkan:0 [auto]" },
        { "seconds", OPTION_FLOAT, &seconds, "N",
          "time for each device, 0 = no limit; other sizes stay as measured [10]" },
        { "deadline", OPTION_FLOAT, &deadline, "N",
          "time for each measurement before it counts as hung [60]" },
        { "forget", OPTION_TEXT, &forgotten, "ID", "delete the measurements of this device, and exit" },
        { "json", OPTION_FLAG, &s.is_json, NULL, "one JSON object per line" },
        { "verbose", OPTION_FLAG, &s.is_verbose, NULL,
          "every measurement, and the log of the library" },
        { 0 },
    };
    const int code = options_parse(argc, argv, rows, summary);
    if (code >= 0)
        return code;
    if (seconds < 0.0f || deadline <= 0.0f) {
        fprintf(stderr, "copse tune: --%s must be above 0\n", seconds < 0.0f ? "seconds" : "deadline");
        return EXIT_BAD_INPUT;
    }
    if (forgotten)
        return forget(forgotten);
    if (device)
        s.devices = device;
    s.seconds = (double)seconds;
    s.deadline = (double)deadline;
    return conform_run(&s, "", argc, argv);
}
