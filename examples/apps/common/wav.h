/* SPDX-License-Identifier: MIT */
/* WAV files of one channel. */
#ifndef APPS_WAV_H
#define APPS_WAV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wav {
    uint32_t rate; /* samples a second */
    size_t count;
    float *samples; /* free() */
};

/* Read PCM of 16, 24 or 32 bits, or 32-bit float, of 1,000 to 384,000 samples a second. false: a line on stderr says what is wrong;
   `out` can still be freed. */
bool wav_read(const char *path, struct wav *out);

/* Write a file. `samples`: "16", "24", "32" (PCM, from -1 to 1, others are clipped) or "float".
   false: a line on stderr, and no file is left. */
bool wav_write(const char *path, const struct wav *w, const char *samples);

#endif
