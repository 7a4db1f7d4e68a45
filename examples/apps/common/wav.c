/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_files.h"
#include "wav.h"

enum {
    PCM = 1,
    IEEE_FLOAT = 3,
    EXTENSIBLE = 0xFFFE,
    LONGEST = 1 << 28,
    LOWEST_RATE = 1000,
    HIGHEST_RATE = 384000,
};

static uint32_t number_at(const uint8_t *p, int bytes)
{
    uint32_t n = 0;
    for (int i = 0; i < bytes; i++)
        n |= (uint32_t)p[i] << (8 * i);
    return n;
}

/* The whole file. NULL: a line on stderr. */
static uint8_t *read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = NULL;
    size_t room = 0, got = 1;
    *size = 0;
    if (!f) {
        files_refuse(path, "cannot be opened");
        return NULL;
    }
    while (got) {
        if (*size == room) {
            room = room ? 2 * room : 1 << 16;
            uint8_t *more = room <= (size_t)4 * LONGEST + 4096 ? realloc(bytes, room) : NULL;
            if (!more) {
                files_refuse(path, "is too long");
                free(bytes);
                fclose(f);
                return NULL;
            }
            bytes = more;
        }
        got = fread(bytes + *size, 1, room - *size, f);
        *size += got;
    }
    const bool is_damaged = ferror(f) != 0;
    fclose(f);
    if (!is_damaged)
        return bytes;
    files_refuse(path, "cannot be read");
    free(bytes);
    return NULL;
}

static float read_sample(const uint8_t *p, uint32_t format, uint32_t bits)
{
    float x;
    const uint32_t word = number_at(p, (int)bits / 8);
    if (format == IEEE_FLOAT) {
        memcpy(&x, &word, sizeof x);
        return x;
    }
    return (float)ldexp((double)(int32_t)(word << (32 - bits)), -31);
}

static bool read_samples(const char *path, const uint8_t *data, size_t size, uint32_t format,
                         uint32_t bits, struct wav *out)
{
    char text[120];
    if (format != IEEE_FLOAT && format != PCM)
        return files_refuse(path, "is compressed: save it as PCM or float");
    if (format == IEEE_FLOAT ? bits != 32 : bits != 16 && bits != 24 && bits != 32)
        return files_refuse(path,
                            "has samples of another size: save it as PCM of 16, 24 or 32 bits, or "
                            "as 32-bit float");
    out->count = size / (bits / 8);
    if (!out->count)
        return files_refuse(path, "has no samples");
    out->samples = malloc(out->count * sizeof *out->samples);
    if (!out->samples)
        return files_refuse(path, "does not fit in memory");
    for (size_t i = 0; i < out->count; i++) {
        out->samples[i] = read_sample(data + i * (bits / 8), format, bits);
        if (!isfinite(out->samples[i])) {
            snprintf(text, sizeof text, "sample %zu is not finite", i + 1);
            return files_refuse(path, text);
        }
    }
    return true;
}

/* Go through the chunks of a RIFF file: "fmt " has the format, "data" the samples. */
static bool parse_file(const char *path, const uint8_t *bytes, size_t size, struct wav *out)
{
    char text[120];
    uint32_t format = 0, bits = 0;
    if (size < 12 || memcmp(bytes, "RIFF", 4) != 0 || memcmp(bytes + 8, "WAVE", 4) != 0)
        return files_refuse(path, "is no WAV file");
    for (size_t at = 12; at + 8 <= size;) {
        const uint8_t *chunk = bytes + at + 8;
        const size_t length = number_at(bytes + at + 4, 4), left = size - at - 8;
        const bool is_data = memcmp(bytes + at, "data", 4) == 0;
        if (length > left)
            return files_refuse(path, "ends within its samples: it is damaged");
        if (is_data && bits)
            return read_samples(path, chunk, length, format, bits, out);
        if (memcmp(bytes + at, "fmt ", 4) == 0 && length >= 16) {
            format = number_at(chunk, 2);
            out->rate = number_at(chunk + 4, 4);
            bits = number_at(chunk + 14, 2);
            if (format == EXTENSIBLE && length >= 26)
                format = number_at(chunk + 24, 2);
            snprintf(text, sizeof text, "has %u channels: save one of them",
                     (unsigned)number_at(chunk + 2, 2));
            if (number_at(chunk + 2, 2) != 1)
                return files_refuse(path, text);
            snprintf(text, sizeof text, "has %u samples a second: %d to %d are possible",
                     (unsigned)out->rate, LOWEST_RATE, HIGHEST_RATE);
            if (out->rate < LOWEST_RATE || out->rate > HIGHEST_RATE)
                return files_refuse(path, text);
        }
        at += 8 + length + (length & 1);
    }
    return files_refuse(path, "has no samples");
}

bool wav_read(const char *path, struct wav *out)
{
    size_t size;
    *out = (struct wav){ 0 };
    uint8_t *bytes = read_whole(path, &size);
    if (!bytes)
        return false;
    const bool is_good = parse_file(path, bytes, size, out);
    free(bytes);
    return is_good;
}

static uint8_t *put_number(uint8_t *p, uint32_t n, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (uint8_t)(n >> (8 * i));
    return p;
}

static uint32_t sample_word(float x, uint32_t format, int bits)
{
    const double full = ldexp(1, bits - 1);
    uint32_t word;
    if (format == PCM)
        return (uint32_t)llrint(fmin(fmax((double)x * full, -full), full - 1));
    memcpy(&word, &x, sizeof word);
    return word;
}

static bool write_samples(FILE *f, const struct wav *w, uint32_t format, int bits)
{
    for (size_t i = 0; i < w->count; i++) {
        uint8_t out[4];
        put_number(out, sample_word(w->samples[i], format, bits), bits / 8);
        if (fwrite(out, 1, (size_t)bits / 8, f) != (size_t)bits / 8)
            return false;
    }
    return true;
}

bool wav_write(const char *path, const struct wav *w, const char *samples)
{
    uint8_t header[44] = { 0 }, *p = header;
    const uint32_t format = strcmp(samples, "float") == 0 ? IEEE_FLOAT : PCM;
    const int bits = format == IEEE_FLOAT ? 32 : atoi(samples);
    const uint32_t width = (uint32_t)bits / 8, size = (uint32_t)w->count * width;
    if (bits != 16 && bits != 24 && bits != 32)
        return files_refuse(path, "samples are 16, 24, 32 (PCM) or float");
    if (w->count > LONGEST)
        return files_refuse(path, "would be too long");
    FILE *f = fopen(path, "wb");
    if (!f)
        return files_refuse(path, "cannot be written");
    memcpy(p, "RIFF", 4);
    p = put_number(p + 4, 36 + size + (size & 1), 4);
    memcpy(p, "WAVEfmt ", 8);
    p = put_number(p + 8, 16, 4);
    p = put_number(p, format, 2);
    p = put_number(p, 1, 2);
    p = put_number(p, w->rate, 4);
    p = put_number(p, w->rate * width, 4);
    p = put_number(p, width, 2);
    p = put_number(p, (uint32_t)bits, 2);
    memcpy(p, "data", 4);
    put_number(p + 4, size, 4);
    bool is_good = fwrite(header, 1, sizeof header, f) == sizeof header;
    is_good = is_good && write_samples(f, w, format, bits) && (!(size & 1) || fputc(0, f) == 0);
    is_good = fclose(f) == 0 && is_good;
    if (!is_good)
        remove(path);
    return is_good || files_refuse(path, "cannot be written: is the disk full?");
}
