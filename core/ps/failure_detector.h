/* SPDX-License-Identifier: MIT */
/* How long a server has heard nothing of a worker, and when it has waited long enough. */
#ifndef COPSE_FAILURE_DETECTOR_H
#define COPSE_FAILURE_DETECTOR_H

#include "core/comm/heartbeat.h"

struct copse_failure_detector {
    struct copse_pending pending; /* of the next heartbeat */
    struct copse_heartbeat heartbeat;
    bool has_heartbeat; /* else it never will, and nothing is made of its silence */
    bool has_warned;
    uint64_t ns; /* in which this process could have heard it */
};

/* Ask for the first heartbeat. */
copse_status copse__failure_detector_begin(copse_cluster *c, uint32_t worker, struct copse_failure_detector *s);
/* It has made a request. */
void copse__failure_detector_heard(struct copse_failure_detector *s);
/* `passed` since the last look. COPSE_ERR_TIMEOUT with text: it has been silent for the
   cluster's deadline. At warn_ns a line goes to the log. */
copse_status copse__failure_detector_check(copse_cluster *c, uint32_t worker, struct copse_failure_detector *s,
                                           uint64_t passed);
void copse__failure_detector_end(copse_cluster *c, struct copse_failure_detector *s);

#endif
