/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>

#include "examples/apps/common/app_files.h"
#include "figure.h"

enum { LEFT = 60, WIDTH = 680, TOP = 30, HEIGHT = 170, BELOW = 270 };

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void write_text(FILE *f, double x, double y, const char *anchor, const char *text)
{
    fprintf(f, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text);
}

static void write_frame(FILE *f, double top)
{
    fprintf(
        f, "<rect x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#999\"/>\n",
        LEFT, top, WIDTH, HEIGHT);
}

static void write_signal(FILE *f, const float *x, size_t count, double most, const char *style)
{
    fprintf(f, "<polyline %s fill=\"none\" points=\"", style);
    for (size_t i = 0; i < count; i++)
        fprintf(f, "%.1f,%.1f ", LEFT + WIDTH * (double)i / (double)(count - 1),
                TOP + HEIGHT * (0.5 - 0.48 * (double)x[i] / most));
    fprintf(f, "\"/>\n");
}

static void write_signals(FILE *f, const struct figure *p)
{
    char text[80];
    double most = 1e-9;
    for (size_t i = 0; i < p->count; i++)
        most = larger(most, fabs((double)p->wet[i]));
    write_frame(f, TOP);
    write_signal(f, p->wet, p->count, most, "stroke=\"#bbb\" stroke-width=\"4\"");
    write_signal(f, p->output, p->count, most, "stroke=\"#c33\" stroke-width=\"1.2\"");
    snprintf(text, sizeof text, "amplifier (grey) and network (red), %.0f ms of held-out samples",
             1000.0 * (double)p->count / p->rate);
    write_text(f, LEFT, TOP - 10, "start", text);
}

/* The curve, on a logarithmic axis with a line for each power of ten. */
static void write_curve(FILE *f, const struct figure *p)
{
    char text[80];
    double low = -2, high = 0;
    for (size_t i = 0; i < p->epochs; i++) {
        low = p->curve[i] > 0 ? fmin(low, floor(log10(p->curve[i]))) : low;
        high = larger(high, ceil(log10(larger(p->curve[i], 1e-9))));
    }
    write_frame(f, BELOW);
    for (double power = low; power <= high; power++) {
        const double y = BELOW + HEIGHT * (high - power) / (high - low);
        fprintf(f, "<path d=\"M%d %.1fh%d\" stroke=\"#ddd\"/>\n", LEFT, y, WIDTH);
        snprintf(text, sizeof text, "%g", pow(10, power));
        write_text(f, LEFT - 6, y + 4, "end", text);
    }
    fprintf(f, "<polyline stroke=\"#c33\" stroke-width=\"1.5\" fill=\"none\" points=\"");
    for (size_t i = 0; i < p->epochs; i++)
        fprintf(f, "%.1f,%.1f ", LEFT + WIDTH * ((double)i + 1) / (double)p->epochs,
                BELOW + HEIGHT * (high - log10(larger(p->curve[i], pow(10, low)))) / (high - low));
    fprintf(f, "\"/>\n");
    write_text(f, LEFT, BELOW - 10, "start", "error-to-signal ratio on held-out samples");
    snprintf(text, sizeof text, "%zu epochs", p->epochs);
    write_text(f, LEFT + WIDTH, BELOW + HEIGHT + 18, "end", text);
}

bool figure_write(const char *path, const struct figure *p)
{
    FILE *f = fopen(path, "w");
    if (f) {
        fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 470\" "
                   "font-family=\"sans-serif\" font-size=\"13\">\n"
                   "<rect width=\"760\" height=\"470\" fill=\"#fff\"/>\n");
        write_signals(f, p);
        write_curve(f, p);
        fprintf(f, "</svg>\n");
    }
    bool is_good = f && !ferror(f);
    is_good = f && fclose(f) == 0 && is_good;
    if (is_good)
        return true;
    if (f)
        remove(path);
    return files_refuse(path, "cannot be written");
}
