/* SPDX-License-Identifier: MIT */
/* What a recording says, and its file: the JSON of Chrome's trace event format, which Perfetto
   reads. A worker is a process, a lane one of its threads; times are microseconds since the
   recording began. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/trace.h"

static const char *const span_kinds[COPSE_SPAN_KINDS] = {
    "step", "data", "upload", "exchange", "update", "wait", "compile", "host", "devices",
};

/* ---- the summary ---- */

/* Begins of spans in order; of two that begin together, the outer one first. */
static int compare_events(const void *left, const void *right)
{
    const struct copse_trace_event *a = left, *b = right;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end > b->end ? -1 : a->end < b->end;
}

/* Nanoseconds of a span within the time from `begin` to `end`. */
static uint64_t part_within(const struct copse_trace_event *e, uint64_t begin, uint64_t end)
{
    const uint64_t from = COPSE_MAX(e->begin, begin), to = COPSE_MIN(e->end, end);
    return to > from ? to - from : 0;
}

/* From the end of the first step, which compiles, to the end of the last one; of a single step all.
   Returns the lane of the thread that made most steps. */
static uint32_t find_steps(const struct copse_trace *t, uint64_t *begin, uint64_t *end,
                           uint64_t *steps)
{
    uint32_t counts[COPSE_TRACE_LANES] = { 0 }, best = 0;
    uint64_t first = UINT64_MAX;
    *begin = *end = *steps = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct copse_trace_event *e = &t->events[i];
        if (e->kind != COPSE_SPAN_STEP)
            continue;
        ++*steps;
        if (e->begin < first) {
            first = e->begin;
            *begin = e->end;
        }
        *end = COPSE_MAX(*end, e->end);
        if (++counts[e->lane] > counts[best])
            best = e->lane;
    }
    if (*steps == 1)
        *begin = first;
    return best;
}

/* Adds, for each kind, the time of the spans of one lane without the spans within them. The spans
   are sorted. */
static void add_own_times(const struct copse_trace *t, uint32_t lane, uint64_t begin, uint64_t end,
                          double *ns)
{
    enum { DEEPEST = 32 };
    const struct copse_trace_event *outer[DEEPEST];
    uint32_t depth = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct copse_trace_event *e = &t->events[i];
        if (e->lane != lane)
            continue;
        while (depth > 0 && outer[depth - 1]->end <= e->begin)
            depth--;
        const double own = (double)part_within(e, begin, end);
        ns[e->kind] += own;
        if (depth > 0)
            ns[outer[depth - 1]->kind] -= own;
        if (depth < DEEPEST)
            outer[depth++] = e;
    }
}

/* Of the busiest queue. */
static double busy_part(const struct copse_trace *t, uint64_t begin, uint64_t end)
{
    uint64_t busy[COPSE_TRACE_LANES] = { 0 }, most = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct copse_trace_event *e = &t->events[i];
        busy[e->lane] += e->kind == COPSE_SPAN_DEVICE ? part_within(e, begin, end) : 0;
        most = COPSE_MAX(most, busy[e->lane]);
    }
    return (double)most / (double)(end - begin);
}

static const char *find_limit(const struct copse_trace_summary *s, const double *parts)
{
    enum copse_span_kind most = COPSE_SPAN_HOST;
    for (enum copse_span_kind k = COPSE_SPAN_DATA; k < COPSE_SPAN_DEVICE; k++)
        most = parts[k] > parts[most] ? k : most;
    /* while they work the host may do what it likes */
    return span_kinds[s->devices >= 0.9 || most == COPSE_SPAN_WAIT ? COPSE_SPAN_DEVICE : most];
}

void copse__trace_summarize(const struct copse_trace *t, struct copse_trace_summary *out)
{
    uint64_t begin, end;
    double parts[COPSE_SPAN_KINDS] = { 0 }, rest = 1;
    *out = (struct copse_trace_summary){ .events = t->count,
                                         .dropped = t->dropped,
                                         .limit = span_kinds[COPSE_SPAN_HOST] };
    qsort(t->events, t->count, sizeof *t->events, compare_events);
    const uint32_t lane = find_steps(t, &begin, &end, &out->steps);
    if (out->steps == 0 || end <= begin)
        return;
    out->seconds = (double)(end - begin) * 1e-9;
    out->devices = busy_part(t, begin, end);
    add_own_times(t, lane, begin, end, parts);
    for (enum copse_span_kind k = 0; k < COPSE_SPAN_KINDS; k++)
        parts[k] /= (double)(end - begin);
    for (enum copse_span_kind k = COPSE_SPAN_DATA; k < COPSE_SPAN_HOST; k++)
        rest -= parts[k];
    parts[COPSE_SPAN_HOST] = COPSE_MAX(rest, 0); /* a step's own time, and that between steps */
    out->wait = parts[COPSE_SPAN_WAIT];
    out->data = parts[COPSE_SPAN_DATA];
    out->upload = parts[COPSE_SPAN_UPLOAD];
    out->exchange = parts[COPSE_SPAN_EXCHANGE];
    out->update = parts[COPSE_SPAN_UPDATE];
    out->compile = parts[COPSE_SPAN_COMPILE];
    out->host = parts[COPSE_SPAN_HOST];
    out->limit = find_limit(out, parts);
}

/* ---- the file ---- */

/* Names are ASCII, or UTF-8 of drivers; what JSON forbids becomes '?'. */
static void write_name(FILE *f, const char *name)
{
    fputc('"', f);
    for (; *name; name++)
        fputc((unsigned char)*name < ' ' || *name == '"' || *name == '\\' ? '?' : *name, f);
    fputc('"', f);
}

static void write_lane(FILE *f, const struct copse_trace *t, uint32_t lane)
{
    fprintf(f,
            ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":",
            (unsigned)t->worker, (unsigned)lane + 1);
    write_name(f, t->lanes[lane].name);
    fprintf(f, "}}");
}

static void write_event(FILE *f, const struct copse_trace *t, const struct copse_trace_event *e)
{
    const uint64_t at = e->begin - t->began, length = e->end - e->begin;
    fprintf(f, ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":", span_kinds[e->kind]);
    write_name(f, e->name);
    fprintf(f, ",\"pid\":%u,\"tid\":%u,\"ts\":%llu.%03u,\"dur\":%llu.%03u,\"args\":{\"step\":%llu",
            (unsigned)t->worker, (unsigned)e->lane + 1, (unsigned long long)at / 1000,
            (unsigned)(at % 1000), (unsigned long long)length / 1000, (unsigned)(length % 1000),
            (unsigned long long)e->step);
    if (e->kind == COPSE_SPAN_DEVICE)
        fprintf(f, ",\"submissions\":[%llu,%llu]", (unsigned long long)e->first,
                (unsigned long long)e->last);
    fprintf(f, "}}");
}

/* A number of at least 0, with '.' in every locale; `unit`: a power of ten. */
static void write_number(FILE *f, const char *name, double value, unsigned unit, int digits)
{
    const unsigned long long units = (unsigned long long)(value * unit + 0.5);
    fprintf(f, ",\"%s\":%llu.%0*llu", name, units / unit, digits, units % unit);
}

static void write_header(FILE *f, const struct copse_trace *t,
                         const struct copse_trace_summary *summary)
{
    fprintf(f, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"worker\":%u", (unsigned)t->worker);
    write_number(f, "began_unix_s", t->began_unix, 1000000, 6);
    fprintf(f, ",\"dropped\":%llu,\"steps\":%llu", (unsigned long long)summary->dropped,
            (unsigned long long)summary->steps);
    write_number(f, "seconds", summary->seconds, 1000000, 6);
    write_number(f, "devices", summary->devices, 10000, 4);
    fprintf(
        f,
        ",\"limit\":\"%s\"},\n"
        "\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":"
        "\"worker %u\"}}",
        summary->limit, (unsigned)t->worker, (unsigned)t->worker);
}

copse_status copse__trace_write(const struct copse_trace *t,
                                const struct copse_trace_summary *summary)
{
    struct copse_atomic_file file;
    COPSE_TRY(copse_note(copse__atomic_open(&file, t->mem, t->path), "for a trace"));
    FILE *f = file.stream;
    write_header(f, t, summary);
    for (uint32_t i = 0; i < t->lane_count; i++)
        write_lane(f, t, i);
    for (size_t i = 0; i < t->count; i++)
        write_event(f, t, &t->events[i]);
    fprintf(f, "\n]}\n");
    return copse_note(copse__atomic_commit(&file), "for a trace");
}
