/* SPDX-License-Identifier: MIT */
/* The plots of a device card as inline SVG: no scripts, colours from the page's style. */
#include <math.h>
#include <string.h>

#include "prover/report/card.h"

enum { LABEL = 210, PLOT = 420, VALUE = 150, ROW = 17, TOP = 22, BOTTOM = 6 };

static const double FULL = 1.25; /* the axis ends here: 125 % */

/* `values`: the heading of the column of numbers. */
static void card_plot_begin(FILE *f, size_t rows, const char *title, const char *values)
{
    const int height = TOP + ROW * (int)rows + BOTTOM;
    fprintf(f, "<svg viewBox='0 0 %d %d' width='%d' height='%d' role='img' aria-label='%s'>\n",
            LABEL + PLOT + VALUE, height, LABEL + PLOT + VALUE, height, title);
    fprintf(f, "<text class='cap' x='%d' y='%d'>%s</text>\n", LABEL + PLOT + 6, TOP - 9, values);
}

/* A vertical line through all rows with a caption above. */
static void card_plot_mark(FILE *f, double x, size_t rows, const char *style, const char *caption)
{
    fprintf(f, "<path class='%s' d='M%.1f %dV%d'/>", style, x, TOP - 4, TOP + ROW * (int)rows + 2);
    fprintf(f, "<text class='cap' x='%.1f' y='%d' text-anchor='middle'>%s</text>\n", x, TOP - 9,
            caption);
}

static void card_plot_label(FILE *f, size_t row, const char *op, const char *variant)
{
    const int y = TOP + ROW * (int)row + 12;
    fprintf(f, "<text x='%d' y='%d' text-anchor='end'>", LABEL - 8, y);
    copse__report_escape(f, op);
    if (*variant) {
        fprintf(f, " <tspan class='cap'>by ");
        copse__report_escape(f, variant);
        fprintf(f, "</tspan>");
    }
    fprintf(f, "</text>");
}

static double card_plot_clip(double share)
{
    return share > FULL || isnan(share) ? FULL : share;
}

static void card_plot_bar(FILE *f, size_t row, int part, int parts, double share, const char *style)
{
    const double height = (ROW - 4.0) / parts;
    fprintf(f, "<rect class='%s' x='%d' y='%.1f' width='%.1f' height='%.1f'/>", style, LABEL,
            TOP + ROW * (double)row + 2 + part * height,
            fmax(PLOT * card_plot_clip(share) / FULL, 1.0), height - 0.5);
}

/* ---- errors ---- */

static double share_of(const struct copse_case_result *k)
{
    return k ? copse_case_share(k) : 0.0;
}

static bool is_plotted(const struct card_row *r)
{
    return share_of(r->forward) > 0.0 || share_of(r->gradient) > 0.0;
}

static void error_row(FILE *f, size_t at, const struct card_row *r)
{
    const double a = share_of(r->forward), b = share_of(r->gradient);
    const struct copse_case_result *k = a >= b ? r->forward : r->gradient;
    card_plot_label(f, at, r->op, r->variant);
    if (a > 0.0)
        card_plot_bar(f, at, 0, 2, a, a > 1.0 ? "bad" : "fwd");
    if (b > 0.0)
        card_plot_bar(f, at, 1, 2, b, b > 1.0 ? "bad" : "grd");
    fprintf(f, "<text class='cap' x='%d' y='%d'>%.3g %s of %.3g</text>\n", LABEL + PLOT + 6,
            TOP + ROW * (int)at + 12, k->worst, k->metric, k->limit);
}

void copse__card_plot_errors(FILE *f, const struct card *c)
{
    size_t rows = 0, at = 0;
    for (size_t i = 0; i < c->row_count; i++)
        rows += is_plotted(&c->rows[i]);
    if (rows == 0) {
        fprintf(f, "<p>No result is off by anything that could be drawn.</p>\n");
        return;
    }
    static const char *const marks[] = { "0", "25 %", "50 %", "75 %" };
    card_plot_begin(f, rows, "Largest error of each op as a fraction of the limit",
                    "the larger of both");
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        card_plot_mark(f, LABEL + PLOT * 0.25 * (double)i / FULL, rows, "grid", marks[i]);
    card_plot_mark(f, LABEL + PLOT / FULL, rows, "limit", "allowed");
    for (size_t i = 0; i < c->row_count; i++)
        if (is_plotted(&c->rows[i]))
            error_row(f, at++, &c->rows[i]);
    fprintf(f, "</svg>\n");
}

/* ---- speed ---- */

static double speed_of(const struct card_row *r, bool is_flops)
{
    return !r->speed ? 0.0 : is_flops ? r->speed->gflops : r->speed->gbytes;
}

/* The dashed line: the speed of a plain memory copy, if measured. Copies within a cache are
   faster. */
static void mark_copy(FILE *f, const struct card *c, size_t rows, double best)
{
    char caption[64];
    for (size_t i = 0; i < c->row_count; i++) {
        const double copy = speed_of(&c->rows[i], false);
        if (copy <= 0.0 || strcmp(c->rows[i].op, "copy") != 0)
            continue;
        snprintf(caption, sizeof caption, "a copy: %.3g GB/s", copy);
        card_plot_mark(f, LABEL + PLOT * copy / best, rows, "limit", caption);
    }
}

static void card_plot_speeds(FILE *f, const struct card *c, bool is_flops)
{
    size_t rows = 0, at = 0;
    double best = 0.0;
    for (size_t i = 0; i < c->row_count; i++) {
        rows += speed_of(&c->rows[i], is_flops) > 0.0;
        best = fmax(best, speed_of(&c->rows[i], is_flops));
    }
    if (rows == 0)
        return;
    card_plot_begin(f, rows, is_flops ? "Speed of products" : "Speed of ops that move data",
                    is_flops ? "arithmetic" : "memory moved");
    card_plot_mark(f, LABEL, rows, "grid", "0");
    if (!is_flops)
        mark_copy(f, c, rows, best);
    for (size_t i = 0; i < c->row_count; i++) {
        const double value = speed_of(&c->rows[i], is_flops);
        if (value <= 0.0)
            continue;
        card_plot_label(f, at, c->rows[i].op, c->rows[i].variant);
        card_plot_bar(f, at, 0, 1, FULL * value / best, "fwd");
        fprintf(f, "<text class='cap' x='%d' y='%d'>%.3g %s</text>\n", LABEL + PLOT + 6,
                TOP + ROW * (int)at + 12, value, is_flops ? "GFLOP/s" : "GB/s");
        at++;
    }
    fprintf(f, "</svg>\n");
}

void copse__card_plot_speed(FILE *f, const struct card *c)
{
    card_plot_speeds(f, c, true);
    card_plot_speeds(f, c, false);
}
