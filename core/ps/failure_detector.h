/* SPDX-License-Identifier: MIT */
/* Failure detector of a server: the time since the last heartbeat or request of a worker. */
#ifndef COPSE_FAILURE_DETECTOR_H
#define COPSE_FAILURE_DETECTOR_H

#include "core/comm/heartbeat.h"

struct copse_failure_detector {
    struct copse_pending pending; /* of the next heartbeat */
    struct copse_heartbeat heartbeat;
    bool has_heartbeat; /* false: the worker sends no heartbeats, and the detector is off */
    bool has_warned;
    uint64_t ns; /* since the last heartbeat or request, as far as this process was running */
};

/* Post the receive of the next heartbeat. */
copse_status copse__failure_detector_begin(copse_cluster *c, uint32_t worker,
                                           struct copse_failure_detector *s);
/* The worker is alive: it has sent a request. */
void copse__failure_detector_heard(struct copse_failure_detector *s);
/* `passed`: time since the last check. COPSE_ERR_TIMEOUT with text when the worker has sent nothing
   for the cluster's deadline. Logs a warning at warn_ns. */
copse_status copse__failure_detector_check(copse_cluster *c, uint32_t worker,
                                           struct copse_failure_detector *s, uint64_t passed);
void copse__failure_detector_end(copse_cluster *c, struct copse_failure_detector *s);

#endif
