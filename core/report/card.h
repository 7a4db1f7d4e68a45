/* SPDX-License-Identifier: MIT */
/* The device card: the results of a run for one device, as HTML and as Markdown. */
#ifndef CARD_H
#define CARD_H

#include "copse/device/conformance.h"

#include "tools/conformance/conform.h"

/* All cases of one op and kernel variant. */
struct card_row {
    const char *op, *variant;
    copse_verdict verdict; /* the most severe */
    size_t cases, passed;
    const struct conform_case *forward, *gradient; /* worst error of mode run and grad; or NULL */
    const struct conform_case *speed;              /* fastest case of mode perf; or NULL */
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
    const struct conform_case *example;
};

struct card {
    const struct conform_device *device;
    const struct conform_settings *settings;
    const struct conform_set *set;
    struct card_row *rows;
    size_t row_count;
    struct card_mode *modes;
    size_t mode_count;
    struct card_reason *reasons;
    size_t reason_count;
    uint64_t counts[COPSE_VERDICT_COUNT];
    size_t cases, bad, hashes;
};

bool card_make(struct card *c, const struct conform_settings *s, const struct conform_set *set,
               const struct conform_device *device);
void card_free(struct card *c);

/* The sentence at the top: what the results mean for a user of the device. */
char *card_sentence(char *out, size_t room, const struct card *c);
/* Larger is more severe. */
int card_gravity(copse_verdict v);
bool card_is_of(const struct card *c, const struct conform_case *k);
/* The text after "ulp", "R", ... */
const char *card_metric_help(const char *metric);
/* A limit in words: "yes", "64 KiB", "no limit". Returns `out`. */
char *card_number(char *out, size_t room, const cJSON *item);

/* One bar per row: the error as a fraction of the tolerance; the speed of the fastest case (card_plot.c). */
void card_plot_errors(FILE *f, const struct card *c);
void card_plot_speed(FILE *f, const struct card *c);
void card_escape(FILE *f, const char *text);

copse_status card_html(const char *path, const struct conform_settings *s,
                       const struct conform_set *set);
copse_status card_markdown(const char *path, const struct conform_settings *s,
                           const struct conform_set *set);

#endif
