/* SPDX-License-Identifier: MIT */
/* The results as a table, or as JSON lines for programs. */
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "tools/bench/bench.h"
#include "tools/common/plural.h"

/* How each kind of result is printed. */
static const struct row {
    const char *what, *title, *unit;
    double scale; /* from base units */
} rows[] = {
    { "matmul", "matrix product", "GFLOP/s", 1e-9 },
    { "copy", "copy", "GB/s", 1e-9 },
    { "row", "", "GB/s", 1e-9 },
    { "update", "Adam update", "GB/s", 1e-9 },
    { "step", "step", "ms", 1e3 },
    { "run", "step", "ms", 1e3 },
    { "ahead", "step", "ms", 1e3 },
    { "loop", "loop", "ms", 1e3 },
    { "predict", "prediction", "us", 1e6 },
};

static const struct row *row_of(const struct figure *f)
{
    size_t i = 0;
    while (i + 1 < sizeof rows / sizeof *rows && strcmp(rows[i].what, f->what) != 0)
        i++;
    return &rows[i];
}

/* Fraction of the limit; 1: the limit is reached. */
static double bench_report_share(const struct figure *f)
{
    return f->is_time ? f->limit / f->best : f->best / f->limit;
}

/* ---- JSON ---- */

static void bench_report_put(cJSON *o)
{
    char *text = cJSON_PrintUnformatted(o);
    if (text)
        puts(text);
    fflush(stdout);
    cJSON_free(text);
    cJSON_Delete(o);
}

static cJSON *bench_report_event(const char *name)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "event", name);
    return o;
}

/* A value that was not measured is null. */
static void bench_report_add(cJSON *o, const char *name, double value)
{
    if (value > 0.0)
        cJSON_AddNumberToObject(o, name, value);
    else
        cJSON_AddNullToObject(o, name);
}

static void machine_json(const struct limits *l, const char *peer)
{
    cJSON *o = bench_report_event("machine");
    cJSON_AddStringToObject(o, "version", copse_version());
    cJSON_AddStringToObject(o, "processor", l->processor);
    bench_report_add(o, "threads", l->threads);
    cJSON_AddStringToObject(o, "vectors", l->vectors);
    bench_report_add(o, "multiply_add_gflops", 1e-9 * l->multiply_add);
    bench_report_add(o, "copy_gbs", 1e-9 * l->copy);
    bench_report_add(o, "triad_gbs", 1e-9 * l->triad);
    if (peer)
        cJSON_AddStringToObject(o, "peer", peer);
    else
        cJSON_AddNullToObject(o, "peer");
    bench_report_put(o);
}

static void device_json(const struct copse_device_info *d)
{
    cJSON *o = bench_report_event("device");
    cJSON_AddStringToObject(o, "device", d->id);
    cJSON_AddStringToObject(o, "name", d->name);
    cJSON_AddStringToObject(o, "driver", d->driver);
    bench_report_put(o);
}

static void figure_json(const struct figure *f, const struct row *row)
{
    cJSON *o = bench_report_event("figure");
    cJSON_AddStringToObject(o, "device", f->device);
    cJSON_AddStringToObject(o, "what", f->what);
    cJSON_AddStringToObject(o, "size", f->size);
    cJSON_AddStringToObject(o, "unit", row->unit);
    bench_report_add(o, "best", row->scale * f->best);
    bench_report_add(o, "median", row->scale * f->median);
    bench_report_add(o, "device_best", row->scale * f->device_best);
    bench_report_add(o, "samples", f->samples);
    bench_report_add(o, "limit", row->scale * f->limit);
    bench_report_add(o, "of_limit", f->limit > 0.0 ? bench_report_share(f) : 0.0);
    bench_report_add(o, "peer", row->scale * f->peer);
    bench_report_add(o, "of_peer", f->peer > 0.0 ? f->best / f->peer : 0.0);
    bench_report_add(o, "samples_per_s", f->samples_per_s);
    if (f->limited_by)
        cJSON_AddStringToObject(o, "limited_by", f->limited_by);
    bench_report_put(o);
}

/* ---- the table ---- */

static void machine_table(const struct limits *l, const char *peer, bool is_wanted)
{
    printf("copse %s\n\n", copse_version());
    printf("machine  %s, %u thread%s\n", l->processor, l->threads, plural_end(l->threads));
    printf("limits   %.0f GFLOP/s in %s; memory: copy %.1f GB/s, triad %.1f GB/s (%zu MiB "
           "arrays)\n",
           1e-9 * l->multiply_add, l->vectors, 1e-9 * l->copy, 1e-9 * l->triad,
           l->stream_bytes >> 20);
    printf("peer     %s\n", peer        ? peer
                            : is_wanted ? "none: OpenBLAS is not installed (Debian package "
                                          "libopenblas0-pthread)"
                                        : "left out");
    printf("\nbest and median of many samples; limit: speed of plain threads on this processor, "
           "measured now;\n%%: best relative to limit; GB: bytes read plus bytes written; limit "
           "\"-\": "
           "no limit\n");
}

static void figure_table(const struct figure *f, const struct row *row)
{
    char left[96], limit[32] = "-", percent[32] = "-", note[96] = "";
    snprintf(left, sizeof left, "%s%s%s", row->title, *row->title ? " " : "", f->size);
    if (f->limit > 0.0) {
        snprintf(limit, sizeof limit, "%.*f", f->is_time ? 3 : 1, row->scale * f->limit);
        snprintf(percent, sizeof percent, "%.0f %%", 100.0 * bench_report_share(f));
    }
    if (f->peer > 0.0)
        snprintf(note, sizeof note, "  OpenBLAS %.1f, ratio %.2f", row->scale * f->peer,
                 f->best / f->peer);
    else if (f->samples_per_s > 0.0)
        snprintf(note, sizeof note, "  %.0f samples/s%s%s", f->samples_per_s,
                 f->limited_by ? ", limited by: " : "", f->limited_by ? f->limited_by : "");
    printf("  %-32s %9.*f %9.*f %-8s %9s %7s%s\n", left, f->is_time ? 3 : 1, row->scale * f->best,
           f->is_time ? 3 : 1, row->scale * f->median, row->unit, limit, percent, note);
    fflush(stdout);
}

/* ---- either ---- */

void report_machine(bool is_json, const struct limits *limits, const char *peer, bool is_wanted)
{
    if (is_json)
        machine_json(limits, peer);
    else
        machine_table(limits, peer, is_wanted);
    fflush(stdout);
}

void report_device(bool is_json, const struct copse_device_info *const *devices, size_t count)
{
    if (is_json) {
        if (count == 1)
            device_json(devices[0]);
        return;
    }
    printf("\n");
    if (count == 1)
        printf("%s  %s, %s\n", devices[0]->id, devices[0]->name, devices[0]->driver);
    else
        for (size_t i = 0; i < count; i++)
            printf("%s%s%s", i ? " + " : "", devices[i]->id,
                   i + 1 < count ? "" : ", one replica on each\n");
    printf("  %-32s %9s %9s %-8s %9s %7s\n", "", "best", "median", "", "limit", "%");
    fflush(stdout);
}

void report_figure(bool is_json, const struct figure *f)
{
    if (is_json)
        figure_json(f, row_of(f));
    else
        figure_table(f, row_of(f));
}

void report_skipped(bool is_json, const char *device, const char *what, const char *why)
{
    if (is_json) {
        cJSON *o = bench_report_event("skipped");
        cJSON_AddStringToObject(o, "device", device);
        cJSON_AddStringToObject(o, "what", what);
        cJSON_AddStringToObject(o, "why", why);
        bench_report_put(o);
    } else {
        printf("  %s left out: %s\n", what, why);
    }
}

void report_done(bool is_json, double seconds)
{
    if (is_json) {
        cJSON *o = bench_report_event("done");
        bench_report_add(o, "seconds", seconds);
        bench_report_put(o);
    } else {
        printf("\ndone in %.0f s\n", seconds);
    }
}
