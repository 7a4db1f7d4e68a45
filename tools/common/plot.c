/* SPDX-License-Identifier: MIT */
/* Loss and accuracy of a run as an SVG file. */
#include <math.h>
#include <stdio.h>

#include "tools/common/svg.h"
#include "tools/train/train.h"

enum { WIDTH = 760, HEIGHT = 420, LEFT = 64, RIGHT = 64, TOP = 48, BOTTOM = 48 };
enum { MAX_POINTS = 600 };

static double x_of(double step, double steps)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (steps > 1 ? (step - 1) / (steps - 1) : 0.5);
}

static double y_of(double value, double top)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * fmin(fmax(value / top, 0.0), 1.0);
}

static double top_loss(const struct history *h)
{
    double top = 0.0;
    for (size_t i = 0; i < h->step_count; i++)
        if (isfinite(h->steps[i].loss))
            top = fmax(top, h->steps[i].loss);
    for (size_t i = 0; i < h->epoch_count; i++)
        if (isfinite(h->epochs[i].score.loss))
            top = fmax(top, h->epochs[i].score.loss);
    return top > 0.0 ? top : 1.0;
}

static void plot_axes(FILE *f, const struct history *h, double top)
{
    char text[40];
    for (int i = 0; i <= 4; i++) {
        const double y = y_of(i, 4);
        svg_rule(f, LEFT, y, WIDTH - RIGHT - LEFT, "stroke='#ccc'");
        snprintf(text, sizeof text, "%.3g", top * i / 4);
        svg_text(f, LEFT - 8, y + 4, "text-anchor='end' fill='#b04000'", text);
        if (h->is_regression)
            snprintf(text, sizeof text, "%.2f", 0.25 * i);
        else
            snprintf(text, sizeof text, "%.0f %%", 25.0 * i);
        svg_text(f, WIDTH - RIGHT + 8, y + 4, "fill='#0060a0'", text);
    }
    snprintf(text, sizeof text, "step %zu", h->step_count);
    svg_text(f, LEFT, HEIGHT - BOTTOM + 20, "fill='#444'", "1");
    svg_text(f, WIDTH - RIGHT, HEIGHT - BOTTOM + 20, "text-anchor='end' fill='#444'", text);
}

static void plot_legend(FILE *f, const struct history *h)
{
    const struct {
        const char *text, *style;
    } rows[] = {
        { "training loss", "stroke='#e8a070' stroke-width='2'" },
        { "held-out loss", "stroke='#b04000' stroke-width='2'" },
        { h->is_regression ? "held-out R2" : "held-out accuracy",
          "stroke='#0060a0' stroke-width='2' stroke-dasharray='6 3'" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double x = LEFT + 8 + 190 * (double)i;
        svg_rule(f, x, HEIGHT - 12, 24, rows[i].style);
        svg_text(f, x + 30, HEIGHT - 8, "fill='#444'", rows[i].text);
    }
}

static void plot_lines(FILE *f, const struct history *h, double top)
{
    const double steps = (double)h->step_count;
    const size_t points = h->step_count < MAX_POINTS ? h->step_count : MAX_POINTS;
    fprintf(f, "<g fill='none' stroke-width='1.5'>\n<polyline stroke='#e8a070' points='");
    for (size_t i = 0; i < points; i++) {
        const size_t at = i * h->step_count / points;
        if (isfinite(h->steps[at].loss))
            fprintf(f, "%.1f,%.1f ", x_of((double)at + 1, steps), y_of(h->steps[at].loss, top));
    }
    fprintf(f, "'/>\n<polyline stroke='#b04000' stroke-width='2' points='");
    for (size_t i = 0; i < h->epoch_count; i++)
        if (isfinite(h->epochs[i].score.loss))
            fprintf(f, "%.1f,%.1f ", x_of((double)h->epochs[i].step, steps),
                    y_of(h->epochs[i].score.loss, top));
    fprintf(f, "'/>\n<polyline stroke='#0060a0' stroke-width='2' stroke-dasharray='6 3' points='");
    for (size_t i = 0; i < h->epoch_count; i++)
        if (isfinite(h->epochs[i].score.accuracy))
            fprintf(f, "%.1f,%.1f ", x_of((double)h->epochs[i].step, steps),
                    y_of(h->epochs[i].score.accuracy, 1.0));
    fprintf(f, "'/>\n</g>\n");
}

static void plot_draw(FILE *f, const struct history *h, const char *title)
{
    const double top = top_loss(h);
    svg_begin(f, WIDTH, HEIGHT, 12, title);
    svg_text(f, LEFT, 28, "font-size='15'", title);
    plot_axes(f, h, top);
    plot_lines(f, h, top);
    plot_legend(f, h);
    svg_end(f);
}

copse_status plot_write(const char *path, const struct history *h, const char *title)
{
    struct output o;
    COPSE_TRY(output_open(&o, path));
    plot_draw(o.stream, h, title);
    return output_commit(&o);
}
