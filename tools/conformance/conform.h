/* SPDX-License-Identifier: MIT */
/* The parts of `copse conformance`. Everything that loads a driver is a job in a child process. Jobs send events,
   JSON objects on a pipe. The parent stores the events and makes reports of them, so a report can also be made from a
   file of events. */
#ifndef CONFORM_H
#define CONFORM_H

#include <cjson/cJSON.h>

#include "copse/device/conformance.h"

#include "tools/tool.h"

/* ---- names (conform_names.c) ---- */

struct conform_name {
    const char *name;
    unsigned value;
    const char *help;
};
extern const struct conform_name conform_modes[]; /* in the order they run; ends with a NULL name */
extern const struct conform_name conform_tiers[];

const struct conform_name *conform_find(const struct conform_name *list, const char *name);
/* COPSE_VERDICT_COUNT for an unknown verdict. */
copse_verdict conform_verdict(const char *name);
/* A verdict that makes the run fail. */
bool conform_is_bad(copse_verdict v);

/* ---- jobs (conform_job.c) ---- */

enum conform_job_kind {
    JOB_DEVICES, /* event "device" for each device that the selector `device` selects */
    JOB_LIST,    /* event "plan" for each case */
    JOB_RUN,     /* events "begin" and "case" for each case, between them "uses" for each kernel that it uses */
    JOB_BLOCK,   /* `kernel` failed the case of `modes`, `ops`, `case_name` and `tier`: see `reason` */
};

struct conform_job {
    enum conform_job_kind kind;
    const char *device;
    unsigned modes;
    copse_conformance_tier tier;
    const char *ops, *case_name, *variant, *after; /* NULL = all */
    double seconds;                                /* 0 = none */
    const char *kernel, *reason;                   /* JOB_BLOCK: how it ended */
    copse_verdict verdict;                         /* JOB_BLOCK */
    const char *own_path;                          /* a user kernel that replaces `kernel` */
    bool is_verbose;
};

/* Takes ownership of the event. */
typedef void conform_event_fn(void *user, cJSON *event);

/* Do the job in this process. The last event is "end", with the status. */
void conform_job_do(const struct conform_job *j, conform_event_fn *emit, void *user);

/* A user kernel (conform_own.c), in the form that the device's API accepts. The caller frees `*bytes`, also on
   failure. */
copse_status conform_own_read(const char *path, const char *device, char **bytes, size_t *size);

/* ---- the child process (conform_child.c) ---- */

enum conform_end { END_DONE, END_CRASHED, END_TIMED_OUT };

struct conform_ended {
    enum conform_end how;
    copse_status status; /* END_DONE */
    char text[512];      /* the error */
};

/* Do the job in a child process, which is killed if no event arrives for `deadline` seconds (at least 60 before the
   first case); in this process if !is_isolated. Event "end" is passed to `ended` instead of `emit`. */
void conform_job_run(const struct conform_job *j, bool is_isolated, double deadline,
                     conform_event_fn *emit, void *user, struct conform_ended *ended);
/* The child's side: `conformance --child ...`. */
int conform_child(int argc, char **argv);

/* ---- what is kept of a run (conform_set.c) ---- */

/* One case. Strings belong to `json`. */
struct conform_case {
    cJSON *json;
    const char *mode, *op, *name, *variant, *type, *device, *metric, *hash, *text, *seed;
    copse_verdict verdict;
    double worst, limit, nmse, index, got, expected, seconds, gflops, gbytes;
};

struct conform_device {
    cJSON *json;
    const char *id, *name, *driver, *api;
};

struct conform_set {
    struct conform_case *cases;
    size_t case_count, case_room;
    struct conform_device *devices;
    size_t device_count, device_room;
    uint64_t counts[COPSE_VERDICT_COUNT];
    double seconds;
    char library[32], started[32]; /* version; time in UTC */
    char *modes, *tier, *command;  /* as text; may be NULL */
    bool has_no_memory;            /* an event could not be stored */
};

/* Text of a member, "" if absent. */
const char *json_text(const cJSON *o, const char *name);
/* Number of a member, also "NaN", "Infinity", "-Infinity"; 0 if absent. */
double json_number(const cJSON *o, const char *name);
void json_add(cJSON *o, const char *name, double value);

/* Store an event; false if events of its kind are not stored. Takes ownership in both cases. */
bool conform_set_take(struct conform_set *s, cJSON *event);
const struct conform_device *conform_set_device(const struct conform_set *s, const char *id);
/* Read a file of events written by --json. */
copse_status conform_set_read(struct conform_set *s, const char *path);
void conform_set_free(struct conform_set *s);

/* ---- reports ---- */

struct conform_settings {
    const char *devices, *ops, *case_name, *variant, *own_path, *kernel;
    const char *junit, *csv, *card, *markdown;
    unsigned modes;
    const struct conform_name *tier;
    double seconds, deadline;
    bool is_json, is_quiet, is_verbose, is_isolated;
};

/* conform_report.c: while it runs */
struct conform_progress {
    const struct conform_settings *settings;
    size_t done, planned;
    char label[512];
    double drawn;
};
void progress_draw(struct conform_progress *p);
void progress_clear(const struct conform_progress *p);
void report_event(const cJSON *event); /* one line of JSON */
void report_start(const struct conform_settings *s, const struct conform_set *set);
void report_case(const struct conform_settings *s, const struct conform_case *c);
void report_mode(const struct conform_settings *s, const struct conform_set *set, size_t from);
/* Kernels of the list "blocked", as it was `before`, that are no longer blocked. */
void report_unblocked(const struct conform_settings *s, const struct conform_set *set,
                      const char *device, const cJSON *before);
void report_summary(const struct conform_settings *s, const struct conform_set *set);

/* The command line that repeats this case, quoted for a shell. Returns `out`. */
char *conform_repeat(char *out, size_t room, const struct conform_settings *s,
                     const struct conform_case *c);
/* "4.1 ulp of 5 at element 77: got 1, expected 2"; "" without a number. Returns `out`. */
char *conform_measure(char *out, size_t room, const struct conform_case *c);
/* Length of a reason without the trailing notes: "...; while ...". */
size_t conform_reason(const char *text);
/* Error as a fraction of the tolerance; 0 without a number. */
double conform_share(const struct conform_case *c);

/* conform_files.c */
copse_status conform_junit(const char *path, const struct conform_settings *s,
                           const struct conform_set *set);
copse_status conform_csv(const char *path, const struct conform_set *set);

/* conform_tables.c: modes list, info, support */
void table_list(const struct conform_settings *s, const cJSON *plan);
void table_info(const struct conform_settings *s, const struct conform_set *set);
void table_support(const struct conform_settings *s, const struct conform_set *set);

/* conform_coverage.c: kernels, launch sizes and classes of values; the exit code */
int conform_coverage(bool is_json);

/* conform_tune.c: the measurements of mode tune on a device */
void table_tune(const struct conform_set *set, const char *device);

/* conform_compare.c */
int conform_compare(const struct conform_settings *s, const char *old_path, const char *new_path);

/* A device as JSON (devices.c): identity, limits, blocked kernels. */
cJSON *device_json(copse_context *ctx, const struct copse_device_info *list, size_t index);

#endif
