/* SPDX-License-Identifier: MIT */
/* Models of Neural Amp Modeler: files in JSON, with the network and its numbers in one list. */
#ifndef AMPLIFIER_NAM_H
#define AMPLIFIER_NAM_H

#include "network.h"

/* Write the network for signals of `rate` samples a second. `esr`: its error-to-signal ratio on
   held-out samples. false: a line on stderr, and no file is left. */
bool nam_write(const char *path, struct network *n, uint32_t rate, double esr);

/* Read such a file into the variables and `scale`. false: a line on stderr. */
bool nam_read(const char *path, struct network *n, uint32_t *rate);

#endif
