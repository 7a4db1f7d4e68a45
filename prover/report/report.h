/* SPDX-License-Identifier: MIT */
/* Results of a conformance run, made from events (JSON objects), and the files that are written
   from them. */
#ifndef COPSE_REPORT_H
#define COPSE_REPORT_H

#include "copse/device/conformance_job.h"
#include "core/device/device.h"
#include "prover/report/event_json.h"

/* ---- names (names.c) ---- */

struct copse_conform_name {
    const char *name;
    unsigned value;
    const char *help;
};
/* in the order they run; ends with a NULL name */
extern const struct copse_conform_name copse_conform_mode_names[];
extern const struct copse_conform_name copse_conform_tier_names[];

const struct copse_conform_name *copse__conform_name_find(const struct copse_conform_name *list,
                                                          const char *name);
/* COPSE_VERDICT_COUNT for an unknown name. */
copse_verdict copse__conform_verdict_find(const char *name);

/* ---- results (results.c) ---- */

struct copse_conformance_results {
    copse_context *ctx;              /* a reference */
    struct copse_case_result *cases; /* texts belong to `json` */
    cJSON **json;                    /* one event for each case */
    size_t case_count, case_room;
    struct copse_report_device {
        struct copse_checked_device info; /* first; texts belong to `event` and `text` */
        cJSON *event;
        char *text;
    } *devices;
    size_t device_count, device_room;
    uint64_t counts[COPSE_VERDICT_COUNT];
    double seconds;
    uint64_t seed;                           /* of the run; 0 = none */
    char library[32], started[32], tier[16]; /* version; time in UTC; name */
    char *modes, *command;                   /* texts; may be NULL */
    cJSON *environment;                      /* NULL = not known */
    char *own_path, *own_kernel;             /* for the line that repeats a case; may be NULL */
    bool has_no_memory;                      /* an event could not be stored */
};

copse_status copse__results_create(copse_context *ctx, copse_conformance_results **out);
/* Store an event. Takes ownership; returns whether it is kept. */
bool copse__results_take(copse_conformance_results *r, cJSON *event);
/* The event "start" or "summary" for the results; NULL without memory. */
cJSON *copse__results_start(const copse_conformance_results *r);
cJSON *copse__results_summary(const copse_conformance_results *r);
/* Replace a text; NULL is kept as NULL. */
copse_status copse__results_set(copse_conformance_results *r, char **text, const char *to);

/* ---- texts about a case (case_text.c). Each returns `out` ---- */

/* "4.1 ulp of 5 at element 77: got 1, expected 2"; "" without a number. */
char *copse__case_measure(char *out, size_t room, const struct copse_case_result *c);
/* The command line that repeats this case, quoted for a shell. */
char *copse__case_repeat(char *out, size_t room, const copse_conformance_results *r,
                         const struct copse_case_result *c);
/* Length of a reason without the trailing notes: "...; while ...". */
size_t copse__case_reason(const char *text);
/* A text on one line without control characters. */
char *copse__case_plain(char *out, size_t room, const char *text);

/* Text of XML, HTML or SVG, also in quotation marks. Control characters become spaces: XML 1.0 does
   not have them. */
void copse__report_escape(FILE *f, const char *text);

/* ---- a device as JSON (device_json.c) ---- */

/* NULL without memory. */
cJSON *copse__device_json(copse_context *ctx, const struct copse_device_info *d);

/* ---- machine and driver as JSON (environment.c) ---- */

/* System, kernel, processor, memory, and the environment variables that change drivers or the
   library; NULL without memory. Names that have KEY, TOKEN, SECRET or PASS are omitted. */
cJSON *copse__environment_json(void);
/* Add "reported" to a device: identifiers, layers, libraries, extensions and limits in the driver's
   own names. */
bool copse__facts_json(cJSON *device, copse_context *ctx, const char *id);

/* ---- files ---- */

copse_status copse__card_html(FILE *f, const copse_conformance_results *r);
copse_status copse__card_markdown(FILE *f, const copse_conformance_results *r);
copse_status copse__table_junit(FILE *f, const copse_conformance_results *r);
copse_status copse__table_csv(FILE *f, const copse_conformance_results *r);
copse_status copse__table_json(FILE *f, const copse_conformance_results *r);

#endif
