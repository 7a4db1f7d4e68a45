/* SPDX-License-Identifier: MIT */
/* A picture of a training as SVG. */
#ifndef AMPLIFIER_FIGURE_H
#define AMPLIFIER_FIGURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct figure {
    const float *wet, *output; /* a part of both signals */
    size_t count;
    uint32_t rate;
    const double *curve; /* error-to-signal ratio after each epoch */
    size_t epochs;
};

/* Both signals, and below them the curve. false: a line on stderr, and no file is left. */
bool figure_write(const char *path, const struct figure *f);

#endif
