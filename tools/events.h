/* SPDX-License-Identifier: MIT */
/* The run as JSON lines: start, one a pass over the data, done. */
#ifndef EVENTS_H
#define EVENTS_H

#include "tools/train.h"

copse_status event_start(const struct train_settings *s, copse_strategy *st, size_t train,
                         size_t test);
copse_status event_epoch(const struct progress *p, double test_loss, double test_accuracy);
copse_status event_done(const struct progress *p, double test_loss, double test_accuracy,
                        copse_strategy *st);

#endif
