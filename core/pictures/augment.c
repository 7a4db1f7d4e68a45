/* SPDX-License-Identifier: MIT */
/* Random changes of pictures: steps of a description, and integer arithmetic of pixels only. */
#include "core/pictures/augment.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "core/base/random.h"

/* ---- the description ---- */

static const struct step {
    const char *name;
    size_t at;        /* of its number in struct copse_augment */
    uint32_t largest; /* 0: the step has no number */
    bool is_fraction; /* the number has a point, and is in hundredths here */
} steps[] = {
    { "flip", offsetof(struct copse_augment, flip), 0, false },
    { "crop", offsetof(struct copse_augment, crop), 90, false },
    { "zoom", offsetof(struct copse_augment, zoom), 90, false },
    { "rotate", offsetof(struct copse_augment, rotate), 180, false },
    { "shift", offsetof(struct copse_augment, shift), 32767, false },
    { "brightness", offsetof(struct copse_augment, brightness), 100, false },
    { "erase", offsetof(struct copse_augment, erase), 100, false },
    { "mixup", offsetof(struct copse_augment, mixup), 100, true },
};

static const char *skip_spaces(const char *at)
{
    return at + strspn(at, " \t\n");
}

static copse_status augment_refuse(const char *at, const char *why)
{
    return copse_fail(
        COPSE_ERR_ARGUMENT,
        "augment: '%.*s' %s; steps are flip, crop P (1 to 90), zoom P (1 to 90), rotate D (1 to "
        "180), shift N (1 to 32767), brightness P (1 to 100), erase P (1 to 100), mixup A "
        "(0.01 to 1), separated by ;",
        (int)COPSE_MIN(strcspn(at, ";"), 40), at, why);
}

/* Digits, of a fraction with at most two after the point; 0: it is no such number. */
static unsigned long parse_number(const char **at, bool is_fraction)
{
    const size_t digits = strspn(*at, "0123456789");
    unsigned long number = digits > 0 && digits < 6 ? strtoul(*at, NULL, 10) : 0;

    *at += digits;
    if (!is_fraction)
        return number;
    number *= 100;
    if (digits == 0 || **at != '.')
        return number;
    const size_t more = strspn(++*at, "0123456789");
    if (more == 0 || more > 2)
        return 0;
    number += strtoul(*at, NULL, 10) * (more == 1 ? 10 : 1);
    *at += more;
    return number;
}

/* One step; *at is moved behind it. */
static copse_status parse_step(const char **at, struct copse_augment *out)
{
    const char *begin = skip_spaces(*at), *end = begin + strcspn(begin, " \t\n;");
    const struct step *s = steps;
    unsigned long number = 1;

    while (s < steps + COPSE_COUNT(steps) && (strlen(s->name) != (size_t)(end - begin) ||
                                              strncmp(s->name, begin, (size_t)(end - begin)) != 0))
        s++;
    if (s == steps + COPSE_COUNT(steps))
        return augment_refuse(begin, "is no step");
    *at = skip_spaces(end);
    if (s->largest != 0) {
        number = parse_number(at, s->is_fraction);
        if (number == 0 || number > s->largest)
            return augment_refuse(begin, "lacks its number or is out of range");
        *at = skip_spaces(*at);
    }
    if (**at != ';' && **at != '\0')
        return augment_refuse(begin, "has more than the step");
    uint32_t *to = (uint32_t *)((char *)out + s->at);
    if (*to != 0)
        return augment_refuse(begin, "is there twice");
    *to = (uint32_t)number;
    return COPSE_OK;
}

copse_status copse__augment_parse(const char *text, struct copse_augment *out)
{
    *out = (struct copse_augment){ 0 };
    for (;;) {
        COPSE_TRY(parse_step(&text, out));
        if (*text == '\0')
            return COPSE_OK;
        text++;
    }
}

/* ---- the steps ---- */

static void augment_mirror(const struct copse_augment_picture *p)
{
    const size_t row = (size_t)p->width * p->channels;

    for (uint32_t y = 0; y < p->height; y++)
        for (uint32_t x = 0; x < p->width; x++)
            memcpy(p->scratch + y * row + (size_t)(p->width - 1 - x) * p->channels,
                   p->pixels + y * row + (size_t)x * p->channels, p->channels);
    memcpy(p->pixels, p->scratch, row * p->height);
}

/* Target pixel x is source pixel x - by; `first` and `count`: the targets that have a source. */
static void augment_overlap(uint32_t size, int32_t by, uint32_t *first, uint32_t *count)
{
    const uint32_t away = (uint32_t)abs(by);

    *count = away < size ? size - away : 0;
    *first = by > 0 ? COPSE_MIN(away, size) : 0;
}

static void augment_move(const struct copse_augment_picture *p, int32_t right, int32_t down)
{
    const size_t row = (size_t)p->width * p->channels;
    uint32_t x, y, width, height;

    augment_overlap(p->width, right, &x, &width);
    augment_overlap(p->height, down, &y, &height);
    memset(p->scratch, 0, row * p->height);
    for (uint32_t i = 0; i < height && width > 0; i++) {
        const size_t from_y = (size_t)((int64_t)y + i - down),
                     from_x = (size_t)((int64_t)x - right);
        memcpy(p->scratch + (y + i) * row + (size_t)x * p->channels,
               p->pixels + from_y * row + from_x * p->channels, (size_t)width * p->channels);
    }
    memcpy(p->pixels, p->scratch, row * p->height);
}

static void augment_multiply(const struct copse_augment_picture *p, uint32_t percent)
{
    const size_t count = (size_t)p->width * p->height * p->channels;

    for (size_t i = 0; i < count; i++) {
        const uint32_t v = (p->pixels[i] * percent + 50) / 100;
        p->pixels[i] = (uint8_t)COPSE_MIN(v, 255u);
    }
}

/* -n to n */
static int32_t augment_draw(struct copse_stream *random, uint32_t n)
{
    return (int32_t)copse__stream_below(random, 2 * n + 1) - (int32_t)n;
}

/* A place in the cut-out's range: -2^16 to 2^16. */
static int32_t draw_place(struct copse_stream *random)
{
    return augment_draw(random, 1u << 16);
}

static void change_geometry(const struct copse_augment *a, struct copse_stream *random,
                            const struct copse_augment_picture *p)
{
    struct copse_geometry g = { .crop = 100, .zoom = 100 };

    if (a->crop != 0) {
        g.crop = 100 - (int32_t)copse__stream_below(random, a->crop + 1);
        g.right = draw_place(random);
        g.down = draw_place(random);
    }
    if (a->zoom != 0)
        g.zoom = 100 + augment_draw(random, a->zoom);
    if (a->rotate != 0)
        g.degrees = augment_draw(random, a->rotate);
    copse__augment_geometry(p, &g);
}

/* A pixel to `percent` of a side. */
static uint32_t draw_side(struct copse_stream *random, uint32_t side, uint32_t percent)
{
    const uint32_t most = (uint32_t)((uint64_t)side * percent / 100);
    return 1 + copse__stream_below(random, COPSE_MAX(most, 1u));
}

static void erase_part(const struct copse_augment_picture *p, uint32_t percent,
                       struct copse_stream *random)
{
    const uint32_t width = draw_side(random, p->width, percent),
                   height = draw_side(random, p->height, percent),
                   x = copse__stream_below(random, p->width - width + 1),
                   y = copse__stream_below(random, p->height - height + 1);

    for (uint32_t i = 0; i < height; i++)
        memset(p->pixels + ((size_t)(y + i) * p->width + x) * p->channels, 0,
               (size_t)width * p->channels);
}

void copse__augment_apply(const struct copse_augment *a, uint64_t seed, uint32_t epoch,
                          uint32_t row, const struct copse_augment_picture *p)
{
    struct copse_stream random;

    copse__stream_init(&random, copse__hash(seed ^ COPSE_HASH_START, "augment", 7), epoch);
    random.counter[2] = row; /* each row has a part of the stream of its own */
    if (a->flip != 0 && copse__stream_below(&random, 2) == 1)
        augment_mirror(p);
    if (a->crop != 0 || a->zoom != 0 || a->rotate != 0)
        change_geometry(a, &random, p);
    if (a->shift != 0) {
        const int32_t right = augment_draw(&random, a->shift);
        augment_move(p, right, augment_draw(&random, a->shift));
    }
    if (a->brightness != 0)
        augment_multiply(p, (uint32_t)(100 + augment_draw(&random, a->brightness)));
    if (a->erase != 0 && copse__stream_below(&random, 2) == 1)
        erase_part(p, a->erase, &random);
}

/* ---- mixup ---- */

/* (0, 1] */
static double draw_unit(struct copse_stream *random)
{
    return ((double)copse__stream_u32(random) + 1.0) * 0x1p-32;
}

/* Beta(a, a) for 0 < a <= 1 (Joehnk, 1964), in logarithms: u^(1/a) of a small `a` is no double. */
static double draw_beta(struct copse_stream *random, double a)
{
    for (;;) {
        const double u = log(draw_unit(random)) / a, v = log(draw_unit(random)) / a;
        const double sum = fmax(u, v) + log1p(exp(-fabs(u - v)));
        if (sum <= 0.0)
            return exp(u - sum);
    }
}

uint32_t copse__augment_draw_part(const struct copse_augment *a, uint64_t seed, uint32_t epoch,
                                  uint32_t row)
{
    struct copse_stream random;

    copse__stream_init(&random, copse__hash(seed ^ COPSE_HASH_START, "mixup", 5), epoch);
    random.counter[2] = row;
    const uint32_t part = (uint32_t)rint(COPSE_MIX_ALL * draw_beta(&random, a->mixup / 100.0));
    return COPSE_MAX(part, COPSE_MIX_ALL - part); /* both of a pair: the same two pictures */
}

void copse__augment_mix(uint8_t *first, uint8_t *second, size_t count, uint32_t part)
{
    const uint32_t other = COPSE_MIX_ALL - part, half = COPSE_MIX_ALL / 2;

    for (size_t i = 0; i < count; i++) {
        const uint32_t a = first[i], b = second[i];
        first[i] = (uint8_t)((part * a + other * b + half) / COPSE_MIX_ALL);
        second[i] = (uint8_t)((part * b + other * a + half) / COPSE_MIX_ALL);
    }
}
