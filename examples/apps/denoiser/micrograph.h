/* SPDX-License-Identifier: MIT */
/* Computed pictures of cells, as a fluorescence microscope shows them, and its noise. */
#ifndef DENOISER_MICROGRAPH_H
#define DENOISER_MICROGRAPH_H

#include <stdint.h>

#include "gray.h"

/* Random numbers: the same on every machine. */
struct dice {
    uint64_t state;
};

/* From 0 to below 1. */
double dice_roll(struct dice *d);
/* Cells with nuclei and fibres, drawn over the zeros of `g`. */
void micrograph_draw(struct gray *g, struct dice *d);
/* What a camera counts where `photons` come from a pixel of 1: a Poisson number, divided by
   `photons`, and a normal number with the deviation `read_noise`. */
float micrograph_count(float x, double photons, double read_noise, struct dice *d);

#endif
