/* SPDX-License-Identifier: MIT */
/* The confusion matrix as an SVG file. */
#include <stdio.h>
#include <string.h>

#include "tools/common/svg.h"
#include "tools/evaluate/evaluate_model.h"

enum { TITLE = 40, SIDE = 560, NAMES = 40, GAP = 8 };
#define CHARACTER 6.8 /* width of a character at 12 units, on average */
#define SLOPE     0.71

/* Where the matrix begins, and how far names reach to its right and above it. */
struct place {
    double left, top, right;
};

/* Names take as much room as the longest of them. */
static struct place find_place(const struct verdict *v, double size)
{
    struct place p = { .left = 60, .top = TITLE + 20, .right = 20 };
    for (uint32_t i = 0; v->use.info.outputs <= NAMES && i < v->use.info.outputs; i++) {
        const double width = CHARACTER * (double)strlen(use_name(&v->use, i)), up = SLOPE * width;
        const double right = up - SIDE + (i + 0.5) * size + GAP;
        p.left = width + 2 * GAP > p.left ? width + 2 * GAP : p.left;
        p.top = up + TITLE + 2 * GAP > p.top ? up + TITLE + 2 * GAP : p.top;
        p.right = right + GAP > p.right ? right + GAP : p.right;
    }
    return p;
}

/* Rows are labels; a cell is as dark as its share of the row. */
static void confusion_plot_cells(FILE *f, const struct verdict *v, const struct place *p,
                                 double size)
{
    const uint32_t classes = v->use.info.outputs;
    for (uint32_t i = 0; i < classes; i++) {
        const struct class_counts c = verdict_class(v, i);
        for (uint32_t k = 0; k < classes; k++) {
            const uint64_t count = v->confusion[(size_t)i * classes + k];
            const double share = c.rows > 0 ? (double)count / (double)c.rows : 0.0;
            const double x = p->left + k * size, y = p->top + i * size;
            char style[64], digits[24];
            snprintf(style, sizeof style, "fill='%s' fill-opacity='%.3f'",
                     i == k ? "#0060a0" : "#b04000", share);
            svg_rect(f, x, y, size, size, style);
            snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
            if (count > 0 && classes <= NAMES)
                svg_text(f, x + size / 2, y + size / 2 + 4,
                         share > 0.5 ? "text-anchor='middle' fill='#fff'"
                                     : "text-anchor='middle' fill='#222'",
                         digits);
        }
    }
}

copse_status confusion_plot(const char *path, const struct verdict *v)
{
    const uint32_t classes = v->use.info.outputs;
    const double size = (double)SIDE / classes;
    const struct place p = find_place(v, size);
    struct output o;
    char title[120];
    COPSE_TRY(output_open(&o, path));
    FILE *f = o.stream;
    snprintf(title, sizeof title,
             "%.2f %% of %zu rows are right; lines: labels, columns: predictions",
             100.0 * v->is.accuracy, v->is.rows);
    svg_begin(f, p.left + SIDE + p.right, p.top + SIDE + 20, classes > 20 ? 8 : 12, title);
    svg_text(f, 2 * GAP, 24, "text-anchor='start' fill='#222'", title);
    for (uint32_t i = 0; classes <= NAMES && i < classes; i++) {
        const double middle = ((double)i + 0.5) * size;
        svg_text(f, p.left - GAP, p.top + middle + 4, "text-anchor='end' fill='#222'",
                 use_name(&v->use, i));
        fprintf(f, "<g transform='translate(%.1f %.1f) rotate(-45)'>", p.left + middle,
                p.top - GAP);
        svg_text(f, 0, 0, "text-anchor='start' fill='#222'", use_name(&v->use, i));
        fputs("</g>\n", f);
    }
    confusion_plot_cells(f, v, &p, size);
    svg_rect(f, p.left, p.top, SIDE, SIDE, "fill='none' stroke='#444'");
    svg_end(f);
    return output_commit(&o);
}
