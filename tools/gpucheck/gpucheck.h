/* SPDX-License-Identifier: MIT */
/* The parts of `copse gpucheck`: the list of stages, the file of results, what is removed from it
   because it is private, the run, the summary. */
#ifndef GPUCHECK_H
#define GPUCHECK_H

#include <cjson/cJSON.h>

#include "copse/device/conformance_job.h"

#include "tools/tool.h"

/* ---- the stages (gpucheck_stages.c) ---- */

/* A stage is one or more parts: modes of conformance, each run on every device. */
struct gpucheck_part {
    const char *stage;
    unsigned mode; /* one bit */
    copse_conformance_tier tier;
    const char *ops; /* NULL = all */
    double share;    /* of the time */
    bool is_stress;  /* with --stress only: exhausts memory on purpose */
    /* its verdicts decide the exit code, and cases that are not reached count; else it measures as
       much as the time allows */
    bool is_test;
};
extern const struct gpucheck_part gpucheck_parts[]; /* ends with a NULL stage */

/* "existence,tuning" as flags of the parts; NULL text: all stages. False: `*wrong` is no stage. */
enum { GPUCHECK_MOST_PARTS = 16 };
bool gpucheck_stages_parse(const char *list, bool is_stress, bool taken[GPUCHECK_MOST_PARTS],
                           char wrong[32]);

/* ---- private data (gpucheck_private.c) ---- */

/* Names that a text must not have; "" = unknown. */
struct gpucheck_private {
    char host[256], user[256], home[1024];
};
void gpucheck_private_find(struct gpucheck_private *out);
/* Remove serial numbers, UUIDs, places on a bus, paths, and the names of host and user from an event,
   in place. */
void gpucheck_private_clean(const struct gpucheck_private *names, cJSON *event);

/* ---- the file of results (gpucheck_journal.c) ---- */

/* What the file says of a part on a device. */
struct journal_place {
    char device[32], mode[32];
    char after[400]; /* the last case: "mode/op/name/variant"; "" = none */
    bool is_done;    /* every case was reached */
    uint64_t not_reached;
};

/* The best ceilings of a device so far; 0 = not measured. */
struct journal_ceiling {
    char device[32];
    double gbytes, gflops; /* 1e9 bytes/s read and written, 1e9 operations/s */
};

struct journal {
    struct gpucheck_private names;
    FILE *file;
    char *path, *running; /* owned; `running` names the case at hand, while there is one */
    FILE *now;
    struct journal_place *places;
    size_t place_count, place_room;
    struct journal_ceiling ceilings[COPSE_MAX_REPLICAS];
    size_t ceiling_count;
    cJSON *devices; /* events "device" by id */
    uint64_t counts[COPSE_VERDICT_COUNT], cases;
    uint64_t left_out; /* cases in which a run died */
    double seconds;    /* of all runs before this one */
    double synced;     /* time of the last sync [s] */
    bool has_start, has_auto;
    copse_status status; /* the first failure to write */
};

/* Open or make FOLDER/gpucheck.jsonl, and read what earlier runs have written. A line that a killed
   run has not completed is cut off. COPSE_ERR_IO; COPSE_ERR_FORMAT: the file is no such file, or of
   another version of the library. */
copse_status journal_open(struct journal *j, const char *folder);
void journal_close(struct journal *j);
/* Clean an event, write it on a line, flush, and delete it. */
void journal_add(struct journal *j, cJSON *event);
/* The next case begins; a later run leaves it out if this one dies in it. */
void journal_begin(struct journal *j, const struct copse_case_result *c);
/* No case runs. */
void journal_rest(struct journal *j);
struct journal_place *journal_find(struct journal *j, const char *device, const char *mode);
/* Zeros if nothing was measured. */
struct journal_ceiling journal_ceiling_of(const struct journal *j, const char *device);

/* ---- the run (gpucheck_run.c) ---- */

struct gpucheck {
    const char *folder, *devices;
    double seconds; /* for everything */
    bool is_taken[GPUCHECK_MOST_PARTS];
    bool is_verbose;
    struct journal journal;
    copse_context *files; /* a context without drivers */
    char ids[COPSE_MAX_REPLICAS][32];
    size_t count;
    double start, end; /* [s of system_now] */
    int signal;        /* that stopped the run, 0 = none */
    bool has_error;    /* a part could not be run */
};

/* Find the devices, then run every part on each of them as far as the time reaches. */
copse_status gpucheck_run(struct gpucheck *g);
/* Whether a part that was asked for has cases that no run has reached. */
bool gpucheck_is_open(struct gpucheck *g, size_t part, const char *device);
/* Whether every case of every test was reached. */
bool gpucheck_is_complete(struct gpucheck *g);

/* ---- the files at the end (gpucheck_summary.c) ---- */

/* summary.txt, the cards and the tuning records; prints the summary. */
copse_status gpucheck_finish(struct gpucheck *g);

#endif
