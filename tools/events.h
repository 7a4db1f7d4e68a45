/* SPDX-License-Identifier: MIT */
/* The run as JSON lines: start, one a pass over the data, done. */
#ifndef EVENTS_H
#define EVENTS_H

#include "tools/train.h"

void event_start(const struct train_settings *s, copse_strategy *st, size_t train, size_t test);
void event_epoch(const struct progress *p, double test_loss, double test_accuracy);
void event_done(const struct progress *p, double test_loss, double test_accuracy,
                copse_strategy *st);

#endif
