/* SPDX-License-Identifier: MIT */
/* Loss and accuracy of a run as one SVG file without scripts or embedded fonts. */
#include <math.h>
#include <stdio.h>

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

static void axes(FILE *f, const struct history *h, double top)
{
    fprintf(f, "<g stroke='#ccc' font-size='12' font-family='sans-serif'>\n");
    for (int i = 0; i <= 4; i++) {
        const double y = y_of(i, 4);
        fprintf(f, "<path d='M%d %.1fH%d'/>", LEFT, y, WIDTH - RIGHT);
        fprintf(f,
                "<text x='%d' y='%.1f' stroke='none' fill='#b04000' text-anchor='end'>%.3g</text>",
                LEFT - 8, y + 4, top * i / 4);
        fprintf(f, "<text x='%d' y='%.1f' stroke='none' fill='#0060a0'>%.*f%s</text>\n",
                WIDTH - RIGHT + 8, y + 4, h->is_regression ? 2 : 0,
                h->is_regression ? 0.25 * i : 25.0 * i, h->is_regression ? "" : " %");
    }
    fprintf(f, "<text x='%d' y='%d' stroke='none' fill='#444'>1</text>", LEFT,
            HEIGHT - BOTTOM + 20);
    fprintf(f,
            "<text x='%d' y='%d' stroke='none' fill='#444' text-anchor='end'>step %zu</text></g>\n",
            WIDTH - RIGHT, HEIGHT - BOTTOM + 20, h->step_count);
}

static void legend(FILE *f, const struct history *h)
{
    const struct {
        const char *text, *color, *dash;
    } rows[] = {
        { "training loss", "#e8a070", "" },
        { "held-out loss", "#b04000", "" },
        { h->is_regression ? "held-out R2" : "held-out accuracy", "#0060a0",
          " stroke-dasharray='6 3'" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int x = LEFT + 8 + 190 * (int)i;
        fprintf(f, "<path d='M%d %dh24' stroke='%s' stroke-width='2'%s/>", x, HEIGHT - 12,
                rows[i].color, rows[i].dash);
        fprintf(
            f,
            "<text x='%d' y='%d' font-size='12' font-family='sans-serif' fill='#444'>%s</text>\n",
            x + 30, HEIGHT - 8, rows[i].text);
    }
}

static void lines(FILE *f, const struct history *h, double top)
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
        fprintf(f, "%.1f,%.1f ", x_of((double)h->epochs[i].step, steps),
                y_of(h->epochs[i].score.accuracy, 1.0));
    fprintf(f, "'/>\n</g>\n");
}

static void draw(FILE *f, const struct history *h, const char *title)
{
    const double top = top_loss(h);
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d'>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    fprintf(f, "<rect width='100%%' height='100%%' fill='white'/>\n<title>");
    output_escape(f, title);
    fprintf(f, "</title>\n<text x='%d' y='28' font-size='15' font-family='sans-serif'>", LEFT);
    output_escape(f, title);
    fprintf(f, "</text>\n");
    axes(f, h, top);
    lines(f, h, top);
    legend(f, h);
    fprintf(f, "</svg>\n");
}

copse_status plot_write(const char *path, const struct history *h, const char *title)
{
    struct output o;
    COPSE_TRY(output_open(&o, path));
    draw(o.stream, h, title);
    return output_commit(&o);
}
