/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "micrograph.h"

enum { PIXELS_PER_CELL = 1500, POINTS = 160 };

static const double turn = 6.283185307179586;

double dice_roll(struct dice *d)
{
    uint64_t x = d->state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

static double between(struct dice *d, double low, double high)
{
    return low + (high - low) * dice_roll(d);
}

static double normal_number(struct dice *d)
{
    const double r = sqrt(-2 * log(1 - dice_roll(d)));
    return r * cos(turn * dice_roll(d));
}

static void add_light(struct gray *g, double x, double y, double light)
{
    if (x < 0 || y < 0 || x >= (double)g->width || y >= (double)g->height)
        return;
    float *p = &g->pixels[(size_t)y * g->width + (size_t)x];
    *p = (float)fmin(1, (double)*p + light);
}

/* An ellipse with a soft edge. */
static void draw_disc(struct gray *g, double x, double y, double radius, double light,
                      struct dice *d)
{
    const double angle = between(d, 0, turn), flat = between(d, 0.6, 1), size = radius + 3;
    for (double j = -size; j <= size; j++)
        for (double i = -size; i <= size; i++) {
            const double u = i * cos(angle) + j * sin(angle);
            const double v = (j * cos(angle) - i * sin(angle)) / flat;
            const double edge = 1 / (1 + exp((hypot(u, v) - radius) * 1.5));
            add_light(g, floor(x + i), floor(y + j), light * edge);
        }
}

/* A fibre that changes its direction slowly. */
static void draw_fibre(struct gray *g, double x, double y, double light, struct dice *d)
{
    double angle = between(d, 0, turn), bend = 0;
    for (int i = 0; i < POINTS; i++) {
        bend = 0.95 * bend + 0.01 * normal_number(d);
        angle += bend;
        x += 0.5 * cos(angle);
        y += 0.5 * sin(angle);
        for (int k = 0; k < 4; k++)
            add_light(g, x + k % 2, y + k / 2, 0.25 * light); /* 0.5 pixels from point to point */
    }
}

void micrograph_draw(struct gray *g, struct dice *d)
{
    const size_t cells = g->width * g->height / PIXELS_PER_CELL + 1;
    for (size_t i = 0; i < g->width * g->height; i++)
        g->pixels[i] = 0.03f;
    for (size_t i = 0; i < cells; i++) {
        const double x = between(d, 0, (double)g->width), y = between(d, 0, (double)g->height);
        const double radius = between(d, 10, 20);
        draw_disc(g, x, y, radius, between(d, 0.1, 0.3), d);
        draw_disc(g, x, y, radius * between(d, 0.3, 0.5), between(d, 0.2, 0.6), d);
        for (int k = 0; k < 2; k++)
            draw_fibre(g, x, y, between(d, 0.05, 0.25), d);
    }
}

static double poisson_number(double mean, struct dice *d)
{
    if (mean > 500)
        return fmax(0, floor(mean + sqrt(mean) * normal_number(d) + 0.5));
    const double end = exp(-mean);
    double product = dice_roll(d), count = 0;
    for (; product > end; count++)
        product *= dice_roll(d);
    return count;
}

float micrograph_count(float x, double photons, double read_noise, struct dice *d)
{
    const double counted = poisson_number((double)x * photons, d) / photons;
    return (float)(counted + read_noise * normal_number(d));
}
