/* SPDX-License-Identifier: MIT */
/* The devices of a run and their shares of each batch: given, measured, or as an earlier run had
   them. */
#ifndef TRAIN_SHARES_H
#define TRAIN_SHARES_H

#include <stdbool.h>

#include "copse/device.h"
#include "copse/strategy.h"

struct run;

/* Shares are sixteenths of the largest one, so that two measurements seldom differ. */
enum { SHARE_STEPS = 16 };

enum shares_source {
    SHARES_EQUAL,
    SHARES_GIVEN,
    SHARES_MEASURED,
    SHARES_RECORDED,  /* in the tuning records, by an earlier run of the same job */
    SHARES_CHECKPOINT /* of the run that is resumed */
};

/* The list of devices, a replica each. */
struct mixture {
    char ids[COPSE_MAX_REPLICAS][32];
    size_t count;                      /* 0: not chosen yet */
    float weights[COPSE_MAX_REPLICAS]; /* 0: the device gets no examples, and is not opened */
    enum shares_source source;
    /* of SHARES_MEASURED, 0: not measured: samples/s of a device alone with whole batches; of the
       devices with a share; and of these with the one that gets none */
    double alone[COPSE_MAX_REPLICAS], with[COPSE_MAX_REPLICAS], together;
    bool has_failures; /* a trial failed: the shares are not kept for later runs */
};

/* ---- the choice (train_shares.c) ---- */

/* An error text, or NULL: of the text of --shares. */
const char *shares_check(const char *text);
/* Choose the devices of the run and their shares; measures where that is wanted. */
copse_status shares_settle(struct run *r, struct mixture *m);
/* The replicas: devices with a share. Returns their number. */
size_t shares_replicas(const struct mixture *m, const char *names[COPSE_MAX_REPLICAS],
                       float weights[COPSE_MAX_REPLICAS]);
/* Whether the shares differ. */
bool shares_are_weighted(const struct mixture *m);
/* Print them: lines, or an event. */
copse_status shares_show(const struct run *r, const struct mixture *m);
/* For a checkpoint: "opencl:0=16 vulkan:0=0"; false: the run has none. */
bool shares_text(const struct run *r, char *text, size_t room);

/* ---- the measurement (train_trials.c) ---- */

/* Whether two devices are of one kind, and so equally fast. */
bool shares_are_alike(const struct copse_device_info *a, const struct copse_device_info *b);
/* Measure the devices of a list, alone and together, and set the weights. A device whose trial fails
   gets no share; equal shares if all fail. Lines say why. */
copse_status shares_measure(struct run *r, struct mixture *m);

/* ---- the record (train_shares_record.c) ---- */

/* Take the shares that an earlier run of the same job measured for this list of devices. */
copse_status shares_recall(struct run *r, struct mixture *m, bool *is_found);
/* Keep them with the tuning records of the devices; a line says why they could not be kept. */
void shares_keep(struct run *r, const struct mixture *m);

#endif
