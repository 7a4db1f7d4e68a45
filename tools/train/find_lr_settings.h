/* SPDX-License-Identifier: MIT */
/* What `copse find-lr` takes of the settings of `copse train` (train_settings.c), and what it adds. */
#ifndef COPSE_FIND_LR_SETTINGS_H
#define COPSE_FIND_LR_SETTINGS_H

#include "tools/train/train.h"

enum { FIND_ROWS = 128 };

/* An option of `copse train` alone: 2 after a message, else -1. */
int find_lr_refuse(int argc, char **argv);
/* The rows of `copse train` that have an effect, after the rows of the test. */
void find_lr_rows(const struct option_row *from, struct train_settings *s,
                  struct option_row to[FIND_ROWS]);
/* NULL, or what is wrong. */
const char *find_lr_check(const struct copse_find_lr_params *p);
/* For the line of the model. */
void find_lr_settle(struct train_settings *s);

#endif
