/* SPDX-License-Identifier: MIT */
/* The losses of a range test over the learning rates, on a logarithmic axis. */
#include <math.h>
#include <stdio.h>

#include "tools/common/svg.h"
#include "tools/find_lr/find_lr.h"

enum { WIDTH = 760, HEIGHT = 420, LEFT = 64, RIGHT = 24, TOP = 48, BOTTOM = 48, LINES = 4 };

struct axes {
    double first, last; /* logarithms of rates */
    double low, high;   /* losses */
};

static double rate_at(const struct axes *a, double lr)
{
    const double span = a->last > a->first ? a->last - a->first : 1.0;
    return LEFT + (WIDTH - LEFT - RIGHT) * (log10(lr) - a->first) / span;
}

static double loss_at(const struct axes *a, double loss)
{
    const double part = (fmin(fmax(loss, a->low), a->high) - a->low) / (a->high - a->low);
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part;
}

/* The smoothed losses fill the picture; single losses may leave it. */
static struct axes find_axes(const struct copse_lr_range *r)
{
    struct axes a = { log10((double)r->points[0].lr), log10((double)r->points[r->count - 1].lr),
                      r->points[r->best].smoothed, r->points[0].smoothed };
    for (uint32_t i = 0; i < r->count; i++)
        a.high = fmax(a.high, fmin(r->points[i].smoothed, 2.0 * r->points[0].smoothed));
    if (!(a.high > a.low))
        a.high = a.low + 1.0;
    return a;
}

static void draw_axes(FILE *f, const struct axes *a)
{
    char text[40];
    for (int i = 0; i <= LINES; i++) {
        const double loss = a->low + (a->high - a->low) * i / LINES, y = loss_at(a, loss);
        svg_rule(f, LEFT, y, WIDTH - RIGHT - LEFT, "stroke='#ccc'");
        snprintf(text, sizeof text, "%.3g", loss);
        svg_text(f, LEFT - 8, y + 4, "text-anchor='end' fill='#444'", text);
    }
    for (double e = ceil(a->first - 1e-6); e <= a->last + 1e-6; e++) {
        snprintf(text, sizeof text, "%g", pow(10.0, e));
        svg_text(f, rate_at(a, pow(10.0, e)), HEIGHT - BOTTOM + 20,
                 "text-anchor='middle' fill='#444'", text);
    }
    svg_text(f, LEFT, HEIGHT - 8, "fill='#444'", "learning rate");
}

static void draw_losses(FILE *f, const struct axes *a, const struct copse_lr_range *r)
{
    for (int is_smoothed = 0; is_smoothed < 2; is_smoothed++) {
        fprintf(f, "<polyline fill='none' stroke='%s' stroke-width='%d' points='",
                is_smoothed ? "#b04000" : "#e8a070", 1 + is_smoothed);
        for (uint32_t i = 0; i < r->count; i++)
            fprintf(f, "%.1f,%.1f ", rate_at(a, (double)r->points[i].lr),
                    loss_at(a, is_smoothed ? r->points[i].smoothed : r->points[i].loss));
        fprintf(f, "'/>\n");
    }
}

copse_status find_lr_plot(const char *path, const struct copse_lr_range *r)
{
    struct output o;
    char title[96] = "no learning rate lowers the loss";
    const struct axes a = find_axes(r);
    COPSE_TRY(output_open(&o, path));
    if (r->suggestion > 0.0f)
        snprintf(title, sizeof title, "suggested learning rate: %.2g", (double)r->suggestion);
    svg_begin(o.stream, WIDTH, HEIGHT, 12, "copse find-lr");
    svg_text(o.stream, LEFT, 28, "font-size='15'", title);
    draw_axes(o.stream, &a);
    draw_losses(o.stream, &a, r);
    if (r->suggestion >= r->points[0].lr) {
        const double x = rate_at(&a, (double)r->suggestion);
        fprintf(o.stream,
                "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#0060a0' "
                "stroke-dasharray='6 3'/>\n",
                x, TOP, x, HEIGHT - BOTTOM);
    }
    svg_end(o.stream);
    return output_commit(&o);
}
