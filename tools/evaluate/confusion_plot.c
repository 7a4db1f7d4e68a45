/* SPDX-License-Identifier: MIT */
/* The confusion matrix as one SVG file without scripts or embedded fonts. */
#include <stdio.h>

#include "tools/evaluate/evaluate_model.h"

enum { LEFT = 140, TOP = 90, SIDE = 560, NAMES = 40 };

static void text_at(FILE *f, double x, double y, const char *anchor, const char *fill, const char *text)
{
    fprintf(f, "<text x='%.1f' y='%.1f' text-anchor='%s' fill='%s'>", x, y, anchor, fill);
    for (size_t i = 0; text[i] && i < 60; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '&' || c == '<' || c == '>')
            fprintf(f, "&#%d;", c);
        else
            fputc(c < 32 ? ' ' : c, f);
    }
    fputs("</text>\n", f);
}

/* Rows are labels; a cell is as dark as its share of the row. */
static void cells(FILE *f, const struct verdict *v, double size)
{
    const uint32_t classes = v->use.info.outputs;
    for (uint32_t i = 0; i < classes; i++) {
        const struct class_counts c = verdict_class(v, i);
        for (uint32_t k = 0; k < classes; k++) {
            const uint64_t count = v->confusion[(size_t)i * classes + k];
            const double share = c.rows > 0 ? (double)count / (double)c.rows : 0.0;
            const double x = LEFT + k * size, y = TOP + i * size;
            char digits[24];
            fprintf(f, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s' fill-opacity='%.3f'/>\n", x, y, size, size,
                    i == k ? "#0060a0" : "#b04000", share);
            snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
            if (count > 0 && classes <= NAMES)
                text_at(f, x + size / 2, y + size / 2 + 4, "middle", share > 0.5 ? "#fff" : "#222", digits);
        }
    }
}

copse_status confusion_plot(const char *path, const struct verdict *v)
{
    const uint32_t classes = v->use.info.outputs;
    const double size = (double)SIDE / classes;
    struct output o;
    char title[120];
    COPSE_TRY(output_open(&o, path));
    FILE *f = o.stream;
    fprintf(f, "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' font-size='%d'>\n"
               "<rect width='100%%' height='100%%' fill='#fff'/>\n", LEFT + SIDE + 20, TOP + SIDE + 20, classes > 20 ? 8 : 12);
    snprintf(title, sizeof title, "%.2f %% of %zu rows are right; lines: labels, columns: predictions",
             100.0 * v->is.accuracy, v->is.rows);
    text_at(f, LEFT, 24, "start", "#222", title);
    for (uint32_t i = 0; classes <= NAMES && i < classes; i++) {
        const double middle = ((double)i + 0.5) * size;
        text_at(f, LEFT - 8, TOP + middle + 4, "end", "#222", use_name(&v->use, i));
        fprintf(f, "<g transform='translate(%.1f %d) rotate(-45)'>", LEFT + middle, TOP - 8);
        text_at(f, 0, 0, "start", "#222", use_name(&v->use, i));
        fputs("</g>\n", f);
    }
    cells(f, v, size);
    fprintf(f, "<rect x='%d' y='%d' width='%d' height='%d' fill='none' stroke='#444'/>\n</svg>\n", LEFT, TOP, SIDE, SIDE);
    return output_commit(&o);
}
