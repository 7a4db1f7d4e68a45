/* SPDX-License-Identifier: MIT */
/* The run as JSON lines: shares, start, resume, one per pass over the data, one per checkpoint, trace, done or
   stopped; for a parameter server: served. */
#ifndef EVENTS_H
#define EVENTS_H

#include "copse/device/trace.h"
#include "copse/distribute/parameter_server.h"

#include "tools/train/train.h"
#include "tools/train/train_shares.h"

/* `shards_each`: replicas of each device of the list, of which the event has one each. */
copse_status event_start(const struct train_settings *s, copse_strategy *st, uint32_t shards_each,
                         size_t train, size_t test);
/* The shares of several devices, and what was measured. */
copse_status event_shares(const struct mixture *m, const char *source);
copse_status event_epoch(const struct progress *p, const struct score *test);
/* `test`: of this epoch, which is the result. */
copse_status event_done(const struct progress *p, const struct score *test, uint32_t epoch,
                        copse_strategy *st, uint32_t shards_each, uint64_t audits);
/* `name`: "evaluated", or "done" for the last one of the run. */
copse_status event_evaluated(const char *name, const char *path, uint64_t step,
                             const struct copse_position *position, const struct score *test);
/* The work of parameter server `index` on this device; `pushes`: updates that arrived through
   windows. */
copse_status event_served(uint32_t index, const char *device,
                          const struct copse_parameter_server_summary *did, uint64_t pushes);
/* --save FILE wrote FILE.partial after a signal. */
copse_status event_partial(const char *path, uint64_t step);
/* --trace FILE: written, and what limited a step. */
copse_status event_trace(const char *path, const struct copse_trace_summary *s);
/* A signal stopped a run without checkpoints. */
copse_status event_stopped(uint64_t step);
/* `name`: "checkpoint", "resume" or "stopped". */
copse_status event_checkpoint(const char *name, const char *path, uint64_t step,
                              const struct copse_position *position);

#endif
