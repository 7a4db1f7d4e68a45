/* SPDX-License-Identifier: MIT */
/* What a network hears of a recording. */
#ifndef KEYWORDS_SPECTRUM_H
#define KEYWORDS_SPECTRUM_H

#include "examples/apps/common/wav.h"

enum {
    RATE = 16000, /* samples a second */
    FRAMES = 49,  /* of 32 ms, one each 20 ms */
    BANDS = 32,   /* from 60 to 7,600 Hz, of equal width on the mel scale */
    SPECTRUM = FRAMES * BANDS,
};

/* The spectrum [FRAMES][BANDS] of the loudest second of a recording, as the logarithm of the energy
   of each band, less its mean. Recordings that differ in level alone have equal spectra, to rounding. false: a
   line on stderr. */
bool spectrum_make(const char *path, const struct wav *w, float *out);

#endif
