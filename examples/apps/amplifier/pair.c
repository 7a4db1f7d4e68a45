/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/apps/common/app_files.h"
#include "pair.h"

enum {
    RUN = 4,          /* samples in a row at full scale: the recording clips */
    FARTHEST = 9600,  /* most delay that is looked for, in samples */
    COMPARED = 96000, /* samples that are compared */
    MARGIN = 16,      /* of the delay, left to the network: a filter answers before its peak */
};

double rms_of(const float *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return count ? sqrt(sum / (double)count) : 0;
}

/* ---- checks ---- */

bool pair_check_level(const char *path, const struct wav *w)
{
    char text[160];
    size_t run = 0;
    if (rms_of(w->samples, w->count) < SILENCE)
        return files_refuse(path,
                            "is silent (below -80 dB of full scale): is the right input recorded?");
    for (size_t i = 0; i < w->count; i++) {
        run = fabsf(w->samples[i]) >= 0.9999f ? run + 1 : 0;
        if (run == RUN) {
            snprintf(text, sizeof text, "clips after %.3f s: record it again with a lower level",
                     (double)i / w->rate);
            return files_refuse(path, text);
        }
    }
    return true;
}

/* Normalised cross-correlation of x(t) and y(t + lag), where the signal is loudest. */
static double correlate(const struct pair *p, size_t from, size_t count, long lag)
{
    const float *x = p->dry.samples + from, *y = p->wet.samples + from + lag;
    double xy = 0, yy = 1e-30, xx = 1e-30;
    for (size_t i = 0; i < count; i++) {
        xy += (double)(x[i] * y[i]);
        xx += (double)(x[i] * x[i]);
        yy += (double)(y[i] * y[i]);
    }
    return xy / sqrt(xx * yy);
}

/* The lag with the largest correlation, of either sign. */
static double find_delay(const struct pair *p, long *delay)
{
    const size_t room = p->dry.count / 2;
    const long farthest = room / 2 < FARTHEST ? (long)(room / 2) : FARTHEST;
    const size_t count = room < COMPARED ? room : COMPARED;
    const size_t step = count / 2 + 1, end = p->dry.count - count - (size_t)farthest;
    size_t loudest = (size_t)farthest;
    double most = 0, best = 0;
    for (size_t at = (size_t)farthest; at <= end; at += step) {
        const double level = rms_of(p->dry.samples + at, count);
        loudest = level > most ? at : loudest;
        most = level > most ? level : most;
    }
    *delay = 0;
    for (long lag = -farthest; lag <= farthest; lag++) {
        const double c = fabs(correlate(p, loudest, count, lag));
        *delay = c > best ? lag : *delay;
        best = c > best ? c : best;
    }
    return best;
}

static bool check_delay(const char *path, struct pair *p)
{
    char text[200];
    long delay;
    const double alike = find_delay(p, &delay);
    const double ms = 1000.0 * (double)delay / p->dry.rate;
    if (alike < 0.1) {
        snprintf(text, sizeof text,
                 "does not follow the dry signal (correlation %.2f at most, within "
                 "%d samples): are both files of one recording?",
                 alike, FARTHEST);
        return files_refuse(path, text);
    }
    if (delay < 0) {
        snprintf(text, sizeof text,
                 "is %ld samples (%.1f ms) ahead of the dry signal: move it back", -delay, -ms);
        return files_refuse(path, text);
    }
    if (delay > MARGIN) {
        const size_t moved = (size_t)delay - MARGIN;
        printf("delay: %ld samples (%.1f ms); the wet signal is moved %zu samples earlier\n", delay,
               ms, moved);
        p->dry.count = p->wet.count -= moved;
        memmove(p->wet.samples, p->wet.samples + moved, p->wet.count * sizeof *p->wet.samples);
    } else {
        printf("delay: %ld samples\n", delay);
    }
    return true;
}

bool pair_read(const char *dry, const char *wet, struct pair *out)
{
    char text[300];
    *out = (struct pair){ 0 };
    if (!wav_read(dry, &out->dry) || !wav_read(wet, &out->wet))
        return false;
    if (out->dry.rate != out->wet.rate) {
        snprintf(text, sizeof text,
                 "has %u samples a second, the dry signal %u: convert one of them",
                 (unsigned)out->wet.rate, (unsigned)out->dry.rate);
        return files_refuse(wet, text);
    }
    if (out->dry.count != out->wet.count) {
        snprintf(text, sizeof text,
                 "has %zu samples, the dry signal %zu: cut both to the same part", out->wet.count,
                 out->dry.count);
        return files_refuse(wet, text);
    }
    return pair_check_level(dry, &out->dry) && pair_check_level(wet, &out->wet) &&
           check_delay(wet, out);
}

void pair_free(struct pair *p)
{
    free(p->dry.samples);
    free(p->wet.samples);
}

/* ---- a pair without an amplifier ---- */

static uint32_t random_bits(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static double between(uint32_t *state, double low, double high)
{
    return low + (high - low) * random_bits(state) / 16777216.0;
}

/* Add a plucked string (Karplus and Strong, 1983). */
static void pluck(struct wav *w, size_t at, size_t period, double level, double damping,
                  uint32_t *state)
{
    float string[1024];
    const size_t end = at + 2 * w->rate < w->count ? at + 2 * w->rate : w->count;
    for (size_t i = 0; i < period; i++)
        string[i] = (float)between(state, -level, level);
    for (size_t t = at, i = 0; t < end; t++, i = (i + 1) % period) {
        w->samples[t] += string[i];
        string[i] = (float)damping * 0.5f * (string[i] + string[(i + 1) % period]);
    }
}

static void play_strings(struct wav *w)
{
    uint32_t state = 7;
    for (size_t at = w->rate / 8; at < w->count;) {
        const int notes = random_bits(&state) % 3 ? 1 : 3; /* a note, or a chord */
        const double level = pow(10, between(&state, -1.3, -0.3)) / sqrt(notes);
        const double pitch = 82.4 * pow(2, random_bits(&state) % 30 / 12.0);
        for (int i = 0; i < notes; i++)
            pluck(w, at, (size_t)(w->rate / (pitch * (1 + 0.25 * i))), level,
                  between(&state, 0.985, 0.999), &state);
        at += (size_t)(w->rate * between(&state, 0.12, 0.6));
    }
    for (size_t i = 0; i < w->count; i++)
        w->samples[i] = fminf(fmaxf(w->samples[i], -0.95f), 0.95f);
}

static void play_amplifier(const struct wav *dry, struct wav *wet)
{
    static const double cabinet[12] = { 0.21,  0.34,  0.29, 0.16, 0.02, -0.07,
                                        -0.08, -0.04, 0.01, 0.03, 0.02, 0.01 };
    const double attack = 1 - exp(-1 / (0.001 * dry->rate)),
                 release = 1 - exp(-1 / (0.02 * dry->rate));
    double before = 0, envelope = 0, line[12] = { 0 };
    for (size_t t = 0; t < dry->count; t++) {
        const double x = 8 * ((double)dry->samples[t] - 0.7 * before);
        before = (double)dry->samples[t];
        envelope += (fabs(x) > envelope ? attack : release) * (fabs(x) - envelope);
        const double bias = 0.15 + 0.35 * envelope / (1 + envelope), driven = x + bias;
        memmove(line + 1, line, 11 * sizeof line[0]);
        line[0] = (driven > 0 ? tanh(driven) : 0.7 * tanh(driven / 0.7)) - tanh(bias);
        double y = 0;
        for (int i = 0; i < 12; i++)
            y += cabinet[i] * line[i];
        wet->samples[t] = (float)(0.6 * y);
    }
}

bool pair_make(double seconds, struct pair *out)
{
    const size_t count = (size_t)(48000 * seconds);
    out->dry = out->wet = (struct wav){ .rate = 48000, .count = count };
    out->dry.samples = calloc(count + 1, sizeof(float));
    out->wet.samples = calloc(count + 1, sizeof(float));
    if (!out->dry.samples || !out->wet.samples)
        return files_refuse("--make", "out of memory");
    play_strings(&out->dry);
    play_amplifier(&out->dry, &out->wet);
    return true;
}
