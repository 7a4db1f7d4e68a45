/* SPDX-License-Identifier: MIT */
/* The device card: the results of a run for one device, as HTML and as Markdown. */
#ifndef COPSE_REPORT_CARD_H
#define COPSE_REPORT_CARD_H

#include "prover/report/report.h"

/* All cases of one op and kernel variant. */
struct card_row {
    const char *op, *variant;
    copse_verdict verdict; /* the most severe */
    size_t cases, passed;
    /* worst error of mode run and grad; or NULL */
    const struct copse_case_result *forward, *gradient;
    const struct copse_case_result *speed; /* fastest case of mode perf; or NULL */
};

struct card_mode {
    const char *mode;
    uint64_t counts[COPSE_VERDICT_COUNT];
    size_t cases;
    double seconds;
};

/* The reason why a case was not run or not supported. */
struct card_reason {
    char text[256];
    copse_verdict verdict;
    size_t cases;
    const struct copse_case_result *example;
};

struct card {
    const struct copse_report_device *device;
    const copse_conformance_results *results;
    struct card_row *rows;
    size_t row_count;
    struct card_mode *modes;
    size_t mode_count;
    struct card_reason *reasons;
    size_t reason_count;
    uint64_t counts[COPSE_VERDICT_COUNT];
    size_t cases, bad, hashes;
};

copse_status copse__card_make(struct card *c, const copse_conformance_results *r,
                              const struct copse_report_device *device);
void copse__card_free(struct card *c);

/* The sentence at the top: what the results mean for a user of the device. */
char *copse__card_sentence(char *out, size_t room, const struct card *c);
/* Larger is more severe. */
int copse__card_gravity(copse_verdict v);
bool copse__card_is_of(const struct card *c, const struct copse_case_result *k);
/* The text after "ulp", "R", ... */
const char *copse__card_metric_help(const char *metric);
/* A limit in words: "yes", "64 KiB", "no limit". Returns `out`. */
char *copse__card_number(char *out, size_t room, const cJSON *item);

/* One bar per row: the error as a fraction of the tolerance; the speed of the fastest case
   (card_plot.c). */
void copse__card_plot_errors(FILE *f, const struct card *c);
void copse__card_plot_speed(FILE *f, const struct card *c);

#endif
