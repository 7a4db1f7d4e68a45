/* SPDX-License-Identifier: MIT */
/* A dry signal and the recording of an amplifier that played it. */
#ifndef AMPLIFIER_PAIR_H
#define AMPLIFIER_PAIR_H

#include "examples/apps/common/wav.h"

struct pair {
    struct wav dry, wet; /* of one rate and length */
};

/* Read both files, check them, and take back a delay of the recording. false: a line on stderr says
   what is wrong with the recording and what to do. */
bool pair_read(const char *dry, const char *wet, struct pair *out);
void pair_free(struct pair *p);

/* Whether a signal is not silent and does not clip; false: a line on stderr. */
bool pair_check_level(const char *path, const struct wav *w);

/* Make a pair without an amplifier, the same one on every machine: plucked strings, through
   pre-emphasis, an asymmetric tanh whose bias follows the envelope, and a cabinet filter of 12
   taps. */
bool pair_make(double seconds, struct pair *out);

#define SILENCE 1e-4 /* root mean square, -80 dB of full scale; a signal below it is silent */

/* Root mean square. */
double rms_of(const float *x, size_t count);

#endif
