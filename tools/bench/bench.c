/* SPDX-License-Identifier: MIT */
/* copse bench: the speed of the devices and the measured limits of the machine. */
#include <stdio.h>
#include <string.h>

#include "tools/bench/bench.h"

double bench_budget(const struct bench *b)
{
    return b->settings.is_quick ? 0.15 : 0.6;
}

bool bench_wants(struct bench *b, const struct figure *f)
{
    char text[96];
    snprintf(text, sizeof text, "%s %s", f->what, f->size);
    const bool is_wanted = !b->settings.only || strstr(text, b->settings.only);
    b->is_found = b->is_found || is_wanted;
    return is_wanted;
}

bool bench_is_cpu(const struct copse_device_info *info)
{
    return info->kind == COPSE_DEVICE_CPU || info->kind == COPSE_DEVICE_REFERENCE;
}

static const struct copse_device_info *info_of(copse_context *ctx, const char *id)
{
    const struct copse_device_info *list;
    size_t count, i = 0;
    copse_context_devices(ctx, &list, &count);
    while (i + 1 < count && strcmp(list[i].id, id) != 0)
        i++;
    return &list[i];
}

static bool is_repeated(const struct copse_device_info *const *infos, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (infos[k] == infos[i])
            return true;
    return false;
}

static copse_status run_all(struct bench *b)
{
    char ids[COPSE_MAX_REPLICAS][32];
    const struct copse_device_info *infos[COPSE_MAX_REPLICAS];
    const bool is_json = b->settings.is_json;
    size_t count = 0;
    COPSE_TRY(session_open(&(struct session_how){ .is_verbose = b->settings.is_verbose }, &b->ctx));
    COPSE_TRY(copse_select_devices(b->ctx, b->settings.devices, ids, COPSE_MAX_REPLICAS, &count));
    const double start = system_now();
    limits_measure(&b->limits);
    report_machine(is_json, &b->limits, b->has_peer ? peer_name() : NULL, !b->settings.no_peer);
    for (size_t i = 0; i < count; i++)
        infos[i] = info_of(b->ctx, ids[i]);
    for (size_t i = 0; i < count; i++) {
        double copy_rate;
        if (is_repeated(infos, i))
            continue;
        report_device(is_json, &infos[i], 1);
        COPSE_TRY(bench_device(b, infos[i], &copy_rate));
        COPSE_TRY(bench_rows(b, infos[i]));
        COPSE_TRY(bench_update(b, infos[i], copy_rate));
        COPSE_TRY(bench_steps(b, &infos[i], 1));
        COPSE_TRY(bench_predict(b, infos[i]));
    }
    if (count > 1) {
        report_device(is_json, infos, count);
        COPSE_TRY(bench_steps(b, infos, count));
    }
    if (!b->is_found)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "bench: no row contains '%s'; without --only each row is listed",
                                 b->settings.only);
    report_done(is_json, system_now() - start);
    return COPSE_OK;
}

int cmd_bench(int argc, char **argv)
{
    struct bench b = { .settings = { .devices = "auto" } };
    struct bench_settings *s = &b.settings;
    const struct option_row rows[] = {
        { "devices", OPTION_TEXT, &s->devices, "WHICH",
          "auto, all, opencl, vulkan, host, or a list: opencl:0,vulkan:0 [auto]" },
        { "only", OPTION_TEXT, &s->only, "TEXT",
          "measure rows that contain it: step, \"matmul 1024\", \"row gelu\"" },
        { "quick", OPTION_FLAG, &s->is_quick, NULL, "fewer sizes, shorter samples" },
        { "no-peer", OPTION_FLAG, &s->no_peer, NULL, "do not compare with OpenBLAS" },
        { "kernel", OPTION_TEXT, &s->kernels, "LIST",
          "force variants: matmul=wide,column_sum=reduce; a wrong name lists them" },
        { "json", OPTION_FLAG, &s->is_json, NULL, "one JSON object per line" },
        { "verbose", OPTION_FLAG, &s->is_verbose, NULL, "log what the library does" },
        { 0 },
    };
    int code = options_parse(
        argc, argv, rows,
        "Measures matrix products, copies, functions of rows, updates, training steps and "
        "predictions\nof a row on each device, steps on all devices together, and the limits of "
        "the machine.");
    if (code >= 0)
        return code;
    b.has_peer = !s->no_peer && peer_open();
    const copse_status status = run_all(&b);
    code = status == COPSE_OK ? EXIT_DONE : session_fail(status);
    copse_context_release(&b.ctx);
    return code;
}
