/* SPDX-License-Identifier: MIT */
/* copse tune: mode tune of `copse conformance` with its own command line and table. */
#include <stdlib.h>
#include <string.h>

#include "copse/device/tuning.h"

#include "tools/conformance/conform.h"

enum { MAX_VARIANTS = 8 };

/* The measurements of a device: one row for each size class. */
struct table {
    const copse_conformance_results *all;
    const char *device;
    const char *variants[MAX_VARIANTS];
    size_t count;
};

static bool is_measured(const struct table *t, size_t at)
{
    const struct copse_case_result *c = copse_conformance_case(t->all, at);
    return strcmp(c->mode, "tune") == 0 && strcmp(c->device, t->device) == 0 && c->gflops > 0.0 &&
           c->verdict == COPSE_VERDICT_PASS;
}

static void find_variants(struct table *t)
{
    const struct copse_case_result *c;
    for (size_t i = 0; (c = copse_conformance_case(t->all, i)) != NULL; i++) {
        size_t k = 0;
        while (k < t->count && strcmp(t->variants[k], c->variant) != 0)
            k++;
        if (is_measured(t, i) && k == t->count && k < MAX_VARIANTS)
            t->variants[t->count++] = c->variant;
    }
}

/* The case of the same sizes and another variant; NULL if it was not measured. */
static const struct copse_case_result *case_of(const struct table *t, size_t like,
                                               const char *variant)
{
    const struct copse_case_result *c, *size = copse_conformance_case(t->all, like);
    for (size_t i = 0; (c = copse_conformance_case(t->all, i)) != NULL; i++)
        if (is_measured(t, i) && strcmp(c->name, size->name) == 0 &&
            strcmp(c->variant, variant) == 0)
            return c;
    return NULL;
}

static bool is_first(const struct table *t, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (is_measured(t, i) && strcmp(copse_conformance_case(t->all, i)->name,
                                        copse_conformance_case(t->all, at)->name) == 0)
            return false;
    return is_measured(t, at);
}

static void print_row(const struct table *t, size_t at)
{
    const struct copse_case_result *best = NULL;
    printf("%-10s %-10s %-32s", t->device, copse_conformance_case(t->all, at)->op,
           copse_conformance_case(t->all, at)->name);
    for (size_t k = 0; k < t->count; k++) {
        const struct copse_case_result *c = case_of(t, at, t->variants[k]);
        if (c)
            printf(" %15.3g", c->gflops);
        else
            printf(" %15s", "-");
        if (c && (!best || c->gflops > best->gflops))
            best = c;
    }
    printf("  %s\n", best ? best->variant : "");
}

static void print_device(const copse_conformance_results *all, const char *device)
{
    struct table t = { .all = all, .device = device };
    size_t rows = 0;
    find_variants(&t);
    if (t.count == 0)
        return;
    printf("\n%-10s %-10s %-32s", "device", "op", "size [GFLOP/s]");
    for (size_t k = 0; k < t.count; k++)
        printf(" %15s", t.variants[k]);
    printf("  fastest\n");
    for (size_t i = 0; i < copse_conformance_case_count(all); i++)
        if (is_first(&t, i)) {
            print_row(&t, i);
            rows++;
        }
    printf("%zu size%s measured on %s; `copse train` chooses by them from now on\n", rows,
           rows == 1 ? "" : "s", device);
}

void table_tune(const copse_conformance_results *all)
{
    struct copse_checked_device d;
    for (size_t i = 0; copse_conformance_device(all, i, &d); i++)
        print_device(all, d.id);
}

#define ABOUT "About kernels, not hyperparameters: `copse find-lr` suggests a learning rate.\n"

static const char summary[] = ABOUT
    "Measures which variant of each kernel is fastest on each device, by problem size, and stores "
    "the\n"
    "result for the device, its driver and this version. `copse train` and programs with the same\n"
    "kernel cache use it. A variant is measured only if it is not blocked and its result was "
    "right.\n"
    "Each device is measured in its own process.\n\n"
    "Exit code 0: success; 1: a result is wrong, or a driver crashed or hung; 2: bad input.";

static int conform_tune_forget(const char *device)
{
    copse_context *ctx = NULL;
    copse_status s = session_open(&(struct session_how){ .no_cache = false }, &ctx);
    if (s == COPSE_OK)
        s = copse_device_tuning_clear(ctx, device);
    const int code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    copse_context_release(&ctx);
    return code;
}

/* The measurements of a device as a text for other machines with it. */
static copse_status conform_tune_write(copse_context *ctx, const char *device, FILE *to)
{
    size_t needed = 0;
    COPSE_TRY(copse_device_tuning_save(ctx, device, NULL, 0, &needed));
    char *text = malloc(needed);
    copse_status s = text ? copse_device_tuning_save(ctx, device, text, needed, &needed)
                          : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the record");
    if (s == COPSE_OK)
        fwrite(text, 1, needed - 1, to);
    free(text);
    return s;
}

static int conform_tune_save(const char *device, const char *path)
{
    struct output o;
    copse_context *ctx = NULL;
    copse_status s = session_open(&(struct session_how){ .no_cache = false }, &ctx);
    if (s == COPSE_OK)
        s = output_open(&o, path);
    if (s == COPSE_OK)
        s = output_end(&o, conform_tune_write(ctx, device, o.stream));
    const int code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    copse_context_release(&ctx);
    return code;
}

int cmd_tune(int argc, char **argv)
{
    struct conform_settings s = {
        .job = { .devices = "auto", .modes = COPSE_CONFORM_TUNE, .tier = COPSE_CONFORM_QUICK },
        .is_isolated = true,
    };
    const char *device = NULL, *forgotten = NULL, *saved = NULL;
    float seconds = 10.0f, deadline = 60.0f;
    const struct option_row rows[] = {
        { "device", OPTION_TEXT, &device, "ID", "one device: opencl:0" },
        { "devices", OPTION_TEXT, &s.job.devices, "WHICH",
          "auto, all, opencl, vulkan, host, or a list: opencl:0,vulkan:0 [auto]" },
        { "seconds", OPTION_FLOAT, &seconds, "N",
          "time for each device, 0 = no limit; other sizes stay as measured [10]" },
        { "deadline", OPTION_FLOAT, &deadline, "N",
          "time for each measurement before it counts as hung [60]" },
        { "forget", OPTION_TEXT, &forgotten, "ID",
          "delete the measurements of this device, and exit" },
        { "save", OPTION_TEXT, &saved, "FILE",
          "write the measurements that are stored of --device, and exit" },
        { "json", OPTION_FLAG, &s.is_json, NULL, "one JSON object per line" },
        { "verbose", OPTION_FLAG, &s.is_verbose, NULL,
          "every measurement, and the log of the library" },
        { 0 },
    };
    const int code = options_parse(argc, argv, rows, summary);
    if (code >= 0)
        return code;
    if (seconds < 0.0f || deadline <= 0.0f) {
        fprintf(stderr, "copse tune: --%s must be above 0\n",
                seconds < 0.0f ? "seconds" : "deadline");
        return EXIT_BAD_INPUT;
    }
    if (saved && !device) {
        fprintf(stderr, "copse tune: --save FILE needs --device ID\n");
        return EXIT_BAD_INPUT;
    }
    if (saved)
        return conform_tune_save(device, saved);
    if (forgotten)
        return conform_tune_forget(forgotten);
    if (device)
        s.job.devices = device;
    s.job.seconds = (double)seconds;
    s.job.deadline = (double)deadline;
    if (!s.is_json)
        printf("%s", ABOUT);
    fflush(stdout); /* helper processes write, too */
    return conform_run(&s, "", argc, argv);
}
