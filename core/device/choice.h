/* SPDX-License-Identifier: MIT */
/* Which listed devices are one physical device, which driver of it is the best, and what "auto"
   takes: copse/device/choice.h has the rules. Opens no device. */
#ifndef COPSE_CHOICE_H
#define COPSE_CHOICE_H

#include "copse/device/choice.h"
#include "core/device/device.h"

/* A listed device. */
struct copse_candidate {
    size_t physical;            /* the first entry of the list for the same physical device */
    bool is_trusted;            /* usable, and its faults do not come and go */
    char fault[96];             /* why it is not trusted, though it is usable */
    bool is_selected;           /* by the words of copse_select_devices so far */
    struct copse_tuning tuning; /* where the physical device has several drivers */
};

struct copse_choices {
    copse_context *ctx;
    struct copse_candidate *at; /* one for each listed device */
};

copse_status copse__choices_open(copse_context *ctx, struct copse_choices *out);
void copse__choices_close(struct copse_choices *c);

/* The best usable driver of a physical device that belongs to the backend; NULL: of all backends.
   SIZE_MAX: none. A driver that is not trusted is the best only without a trusted one. `why`: what
   it is better in than another one, "" for a single driver. */
size_t copse__choices_best(const struct copse_choices *c, size_t physical, const char *backend,
                           char why[96]);
/* What "auto" makes of the device at `index`. */
void copse__choices_judge(const struct copse_choices *c, size_t index,
                          struct copse_device_choice *out);
/* Whether "auto" leaves the device out only because it is not reliable. */
bool copse__choices_misses(const struct copse_choices *c, size_t index);

#endif
