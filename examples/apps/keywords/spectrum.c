/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/apps/common/app_files.h"
#include "spectrum.h"

enum {
    LENGTH = 512,
    HOP = 320,
    STEP = 160
}; /* of a frame; between two; of the search of the loudest second */

static const double pi = 3.14159265358979323846, lowest = 60, highest = 7600;
static const double quiet = 1e-4, least_energy = 1e-6;

/* Where the loudest second begins. */
static size_t loudest_second(const struct wav *w)
{
    double sum = 0, best = -1;
    size_t found = 0;
    if (w->count <= RATE)
        return 0;
    for (size_t i = 0; i < RATE; i++)
        sum += pow((double)w->samples[i], 2);
    for (size_t at = 0; at + RATE + STEP <= w->count; at += STEP) {
        if (sum > best * (1 + 1e-9)) { /* rounding of the sum decides nothing */
            best = sum;
            found = at;
        }
        for (size_t i = at; i < at + STEP; i++)
            sum += pow((double)w->samples[i + RATE], 2) - pow((double)w->samples[i], 2);
    }
    return found;
}

/* The Fourier transform of LENGTH numbers, in place. */
static void transform_frame(double *re, double *im)
{
    for (size_t i = 1, k = 0; i < LENGTH; i++) {
        size_t bit = LENGTH / 2;
        for (; k & bit; bit /= 2)
            k ^= bit;
        k ^= bit;
        if (i < k) {
            const double t = re[i];
            re[i] = re[k];
            re[k] = t;
        }
    }
    for (size_t half = 1; half < LENGTH; half *= 2)
        for (size_t k = 0; k < half; k++) {
            const double angle = -pi * (double)k / (double)half, c = cos(angle), s = sin(angle);
            for (size_t i = k; i < LENGTH; i += 2 * half) {
                const double x = re[i + half] * c - im[i + half] * s;
                const double y = re[i + half] * s + im[i + half] * c;
                re[i + half] = re[i] - x;
                im[i + half] = im[i] - y;
                re[i] += x;
                im[i] += y;
            }
        }
}

static double mel_of(double hertz)
{
    return 1127 * log1p(hertz / 700);
}

/* The energies of the bands of a frame. Each band is a triangle, and reaches to the middles of its
   neighbours. */
static void measure_bands(const double *re, const double *im, float *out)
{
    const double low = mel_of(lowest), width = (mel_of(highest) - low) / (BANDS + 1);
    double energy[BANDS] = { 0 };
    for (size_t k = 1; k < LENGTH / 2; k++) {
        const double place = (mel_of((double)k * RATE / LENGTH) - low) / width;
        for (int b = (int)floor(place) - 1; b <= (int)floor(place); b++)
            if (b >= 0 && b < BANDS)
                energy[b] += fmax(0, 1 - fabs(place - b - 1)) * (re[k] * re[k] + im[k] * im[k]);
    }
    for (int b = 0; b < BANDS; b++) /* about -1 to 1 */
        out[b] = (float)(log10(energy[b] / LENGTH + least_energy) / 3);
}

bool spectrum_make(const char *path, const struct wav *w, float *out)
{
    static double second[RATE + LENGTH];
    char text[120];
    if (w->rate != RATE) {
        snprintf(text, sizeof text, "has %u samples a second; %d are needed", (unsigned)w->rate,
                 RATE);
        return files_refuse(path, text);
    }
    const size_t from = loudest_second(w), left = w->count - from;
    const size_t count = left < RATE ? left : RATE;
    double squares = 0;
    memset(second, 0, sizeof second);
    for (size_t i = 0; i < count; i++)
        squares += pow((double)w->samples[from + i], 2);
    const double level = fmax(sqrt(squares / (double)count), quiet);
    for (size_t i = 0; i < count; i++)
        second[i] = (double)w->samples[from + i] / level;
    double sum = 0;
    for (size_t frame = 0; frame < FRAMES; frame++) {
        double re[LENGTH], im[LENGTH] = { 0 };
        for (size_t i = 0; i < LENGTH; i++)
            re[i] = second[frame * HOP + i] * (0.5 - 0.5 * cos(2 * pi * (double)i / LENGTH));
        transform_frame(re, im);
        measure_bands(re, im, out + frame * BANDS);
        for (size_t b = 0; b < BANDS; b++)
            sum += (double)out[frame * BANDS + b];
    }
    for (size_t i = 0; i < SPECTRUM; i++)
        out[i] -= (float)(sum / SPECTRUM);
    return true;
}
