/* SPDX-License-Identifier: MIT */
/* Recordings that are computed. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/apps/common/app_files.h"
#include "recordings.h"
#include "spectrum.h"

#ifdef _WIN32
#    include <direct.h>
#    define make_one_folder(path) _mkdir(path)
#else
#    include <sys/stat.h>
#    define make_one_folder(path) mkdir(path, 0777)
#endif

static const double turn = 6.28318530717958647692;

enum sound { FALL, NOISE, RISE, TONE, SOUNDS };
static const char *const names[SOUNDS] = { "fall", "noise", "rise", "tone" };

/* From 0 to 1 (splitmix64). */
static double next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

/* A sound of 0.3 to 0.7 s with three harmonics, or noise, at any time of a second. */
static void draw_sound(enum sound what, double noise, uint64_t *state, float *out)
{
    const double length = 0.3 + 0.4 * next_random(state);
    const double begin = (1 - length) * next_random(state);
    const double pitch = 250 * pow(4, next_random(state)), change = 1 + 2 * next_random(state);
    const double from = what == FALL ? pitch * change : pitch;
    const double to = what == RISE ? pitch * change : pitch;
    double phase = 0;
    for (size_t i = 0; i < RATE; i++) {
        const double place = ((double)i / RATE - begin) / length;
        double x = noise * (2 * next_random(state) - 1);
        if (place >= 0 && place < 1) {
            phase += turn * from * pow(to / from, place) / RATE;
            x +=
                sin(turn / 2 * place) *
                (what == NOISE ? 2 * next_random(state) - 1
                               : (sin(phase) + 0.5 * sin(2 * phase) + 0.25 * sin(3 * phase)) / 1.5);
        }
        out[i] = (float)(0.3 * x / (1 + noise));
    }
}

static bool make_folder(const char *path)
{
    return make_one_folder(path) == 0 || files_refuse(path, strerror(errno));
}

static bool write_sounds(char *path, size_t room, enum sound what, size_t count, double noise,
                         uint64_t *state)
{
    const size_t length = strlen(path);
    static float samples[RATE];
    const struct wav w = { RATE, RATE, samples };
    snprintf(path + length, room - length, "/%s", names[what]);
    bool is_done = make_folder(path);
    const size_t folder = strlen(path);
    for (size_t i = 0; is_done && i < count; i++) {
        draw_sound(what, noise, state, samples);
        snprintf(path + folder, room - folder, "/%02zu.wav", i);
        is_done = wav_write(path, &w, "16");
    }
    path[length] = '\0';
    return is_done;
}

bool recordings_make(const char *folder, size_t count, double noise, uint64_t seed)
{
    const size_t room = strlen(folder) + 64;
    char *path = malloc(room);
    uint64_t state = seed * 1000003;
    if (!path)
        return files_no_memory();
    snprintf(path, room, "%s", folder);
    bool is_done = make_folder(path);
    for (int what = 0; is_done && what < SOUNDS; what++)
        is_done = write_sounds(path, room, (enum sound)what, count, noise, &state);
    free(path);
    return is_done;
}
