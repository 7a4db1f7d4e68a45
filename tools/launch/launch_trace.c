/* SPDX-License-Identifier: MIT */
/* The traces of the workers of a job become one file: each worker is a process of it, and all times
   count from the worker that began first. The library writes an event in each line (trace_file.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "copse/distribute/cluster.h"

#include "tools/common/trace_files.h"
#include "tools/launch/launch_job.h"

enum { LINE_BYTES = 4096, PATH_BYTES = 4200, SECOND = 1000000 };
/* How far the clock of a host may be from ours [us]. */
#define CLOCKS_DIFFER (60ull * SECOND)

/* The trace of a worker. */
struct part {
    FILE *f; /* NULL: it wrote none */
    char path[PATH_BYTES];
    char data[LINE_BYTES]; /* the object "otherData" */
    uint64_t began;        /* [us] since 1970 */
};

struct launch_traces {
    const struct launch *l;
    struct part parts[COPSE_MAX_WORKERS];
    uint64_t first; /* the earliest `began` */
    uint32_t found;
};

uint64_t launch_trace_now(const struct launch *l)
{
    const uint64_t slack = l->hosts ? CLOCKS_DIFFER : SECOND;
    return (uint64_t)time(NULL) * SECOND - slack;
}

/* "1700000000.123456" as microseconds. */
static bool read_time(const char *text, uint64_t *us)
{
    char *end;
    const uint64_t seconds = strtoull(text, &end, 10);
    if (end == text || *end != '.' || strspn(end + 1, "0123456789") != 6)
        return false;
    *us = seconds * SECOND + strtoull(end + 1, NULL, 10);
    return true;
}

/* The first line: a file that is not of this job, or not of ours, is left out. */
static bool read_header(struct part *p, uint64_t since)
{
    static const char before[] = "\"otherData\":", time_of[] = "\"began_unix_s\":";
    char line[LINE_BYTES];
    if (!fgets(line, sizeof line, p->f))
        return false;
    const char *data = strstr(line, before), *began = strstr(line, time_of);
    char *end = strrchr(line, '}');
    if (!data || !began || !end || !read_time(began + sizeof time_of - 1, &p->began) ||
        p->began < since)
        return false;
    end[1] = '\0';
    snprintf(p->data, sizeof p->data, "%s", data + sizeof before - 1);
    return true;
}

static void find_parts(struct launch_traces *all, uint64_t since)
{
    all->first = UINT64_MAX;
    for (uint32_t i = 0; i < all->l->workers; i++) {
        struct part *p = &all->parts[i];
        trace_file_name(all->l->trace, i, p->path, sizeof p->path);
        p->f = system_open(p->path, "rb");
        if (p->f && !read_header(p, since)) {
            fclose(p->f);
            p->f = NULL;
        }
        if (!p->f)
            continue;
        all->found++;
        all->first = p->began < all->first ? p->began : all->first;
    }
}

/* An event, later by `by` microseconds. */
static void write_later(FILE *to, const char *line, uint64_t by)
{
    static const char name[] = "\"ts\":";
    const char *at = strstr(line, name);
    if (!at) {
        fputs(line, to); /* a name */
        return;
    }
    char *rest;
    const uint64_t us = strtoull(at + sizeof name - 1, &rest, 10);
    fprintf(to, "%.*s%s%llu%s", (int)(at - line), line, name, (unsigned long long)(us + by), rest);
}

static bool copy_part(struct launch_traces *all, struct part *p, FILE *to, bool is_first)
{
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, p->f)) {
        size_t length = strlen(line);
        if (length == 0 || line[length - 1] != '\n')
            return false; /* it ends in the middle of an event */
        while (length > 0 && strchr(",\r\n", line[length - 1]))
            line[--length] = '\0';
        if (strncmp(line, "{\"ph\":", 6) != 0)
            continue;
        fputs(is_first ? "" : ",\n", to);
        is_first = false;
        write_later(to, line, p->began - all->first);
    }
    return !ferror(p->f);
}

static bool write_all(struct launch_traces *all, FILE *to)
{
    bool is_good = true, is_first = true;
    fprintf(to, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"clocks\":\"%s\",\"workers\":[",
            all->l->hosts ? "of several hosts, taken as equal" : "of one machine");
    for (uint32_t i = 0; i < all->l->workers; i++)
        if (all->parts[i].f) {
            fprintf(to, "%s%s", is_first ? "" : ",", all->parts[i].data);
            is_first = false;
        }
    fputs("]},\n\"traceEvents\":[\n", to);
    is_first = true;
    for (uint32_t i = 0; i < all->l->workers; i++)
        if (all->parts[i].f) {
            is_good = copy_part(all, &all->parts[i], to, is_first) && is_good;
            is_first = false;
        }
    fputs("\n]}\n", to);
    return is_good;
}

/* The files are kept until the new one is complete. */
static bool trace_merge(struct launch_traces *all, const char *partial)
{
    FILE *to = system_create(partial, NULL);
    bool is_good = to != NULL;
    if (to) {
        is_good = write_all(all, to) && !ferror(to);
        is_good = fclose(to) == 0 && is_good;
    }
    for (uint32_t i = 0; i < all->l->workers; i++)
        if (all->parts[i].f)
            fclose(all->parts[i].f);
    is_good = is_good && system_rename(partial, all->parts[0].path);
    for (uint32_t i = 1; i < all->l->workers && is_good; i++)
        if (all->parts[i].f)
            (void)system_remove(all->parts[i].path);
    if (to && !is_good)
        (void)system_remove(partial);
    return is_good;
}

static void print_missing(const struct launch_traces *all)
{
    fprintf(stderr, "copse launch: no trace of worker");
    for (uint32_t i = 0; i < all->l->workers; i++)
        if (!all->parts[i].f)
            fprintf(stderr, " %u", (unsigned)i);
    fprintf(stderr, ": it did not end well%s\n",
            all->l->hosts ? ", or its host has another folder" : "");
}

void launch_trace_join(const struct launch *l, uint64_t since)
{
    char partial[PATH_BYTES];
    if (!l->trace || !*l->trace || strlen(l->trace) > PATH_BYTES - 16)
        return;
    struct launch_traces *all = calloc(1, sizeof *all);
    if (!all)
        return;
    all->l = l;
    find_parts(all, since);
    if (all->found > 0 && all->found < l->workers)
        print_missing(all);
    snprintf(partial, sizeof partial, "%s.partial", l->trace);
    if (all->found > 1 && !trace_merge(all, partial))
        fprintf(stderr, "copse launch: the traces of the workers are not joined in %s: %s\n",
                partial, errno ? strerror(errno) : "a file is damaged");
    else if (all->found == 1)
        for (uint32_t i = 0; i < l->workers; i++)
            if (all->parts[i].f)
                fclose(all->parts[i].f);
    free(all);
}
