/* SPDX-License-Identifier: MIT */
/* The parts of `copse conformance`: the command line, lines and tables for the user. The library
   runs the cases in helper processes, which are this command started again, and writes the files
   (copse/device/conformance_job.h). */
#ifndef CONFORM_H
#define CONFORM_H

#include <cjson/cJSON.h>

#include "copse/device/conformance_job.h"

#include "tools/tool.h"

struct conform_settings {
    struct copse_conformance_job_params job;
    bool is_json, is_quiet, is_verbose, is_isolated;
};

/* Bit of a mode or number of a tier by name; false: unknown. */
bool conform_find_mode(const char *name, unsigned *mode);
bool conform_find_tier(const char *name, copse_conformance_tier *tier);

/* conform_own.c: a user kernel, in the form that the device's API accepts. */
copse_status conform_own_read(void *user, const char *path, const char *device, void **code,
                              size_t *size, char *why, size_t room);

/* conform_run.c: how a helper process does its work */
extern const struct copse_conformance_helper_params conform_helper;
/* Run a job. `action`: "" to run the modes, or "list", "info", "support". Returns the exit code.
   `argv` is the command line, for the card. */
int conform_run(struct conform_settings *s, const char *action, int argc, char **argv);

/* conform_soak.c: runs with new seeds until the time is over or one fails */
int conform_soak(struct conform_settings *s, const char *action, double seconds, int argc,
                 char **argv);

/* conform_heal.c: runs of what blocked kernels have failed; the exit code is 0 if nothing is
   blocked in the end */
int conform_heal(struct conform_settings *s, uint64_t runs, int argc, char **argv);

/* conform_site.c: join files of --json into FOLDER/index.html */
int conform_site(const char *const *paths, size_t count, const char *folder);

/* conform_own.c: print the contract of a kernel */
int conform_contract(const char *kernel);

/* ---- reports ---- */

/* conform_report.c: while it runs */
struct conform_progress {
    const struct conform_settings *settings;
    double drawn;
};
void progress_draw(struct conform_progress *p, const struct copse_conformance_event *e);
void progress_clear(const struct conform_progress *p);
void report_event(const cJSON *event); /* one line of JSON */
void report_line(const char *json);
void report_start(const struct conform_settings *s, const copse_conformance_results *all);
void report_case(const struct conform_settings *s, const struct copse_conformance_event *e);
void report_mode(const struct conform_settings *s, const copse_conformance_results *all,
                 size_t from);
/* The list "blocked" of each device, by id. */
cJSON *report_blocked(const copse_conformance_results *all);
/* Kernels of a list of report_blocked from before the run that are no longer blocked. */
void report_unblocked(const copse_conformance_results *all, const cJSON *before);
void report_summary(const struct conform_settings *s, const copse_conformance_results *all);

/* Text of a member, "" if absent. */
const char *json_text(const cJSON *o, const char *name);
/* Everything about a device; delete it. */
cJSON *conform_device(const copse_conformance_results *all, size_t index);

/* conform_tables.c: modes list, info, support */
void table_plan(const struct copse_case_result *c);
void table_info(const copse_conformance_results *all);
void table_support(const struct conform_settings *s, const copse_conformance_results *all);

/* conform_coverage.c: kernels, launch sizes and classes of values; the exit code */
int conform_coverage(bool is_json);

/* conform_tune.c: the measurements of mode tune on each device */
void table_tune(const copse_conformance_results *all);

/* conform_compare.c */
int conform_compare(const struct conform_settings *s, const char *old_path, const char *new_path);

#endif
