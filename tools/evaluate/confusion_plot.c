/* SPDX-License-Identifier: MIT */
/* The confusion matrix as one SVG file without scripts or embedded fonts. */
#include <stdio.h>
#include <string.h>

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

static void text_at(FILE *f, double x, double y, const char *anchor, const char *fill,
                    const char *text)
{
    fprintf(f, "<text x='%.1f' y='%.1f' text-anchor='%s' fill='%s'>", x, y, anchor, fill);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '&' || c == '<' || c == '>')
            fprintf(f, "&#%d;", c);
        else
            fputc(c < 32 ? ' ' : c, f);
    }
    fputs("</text>\n", f);
}

/* Rows are labels; a cell is as dark as its share of the row. */
static void cells(FILE *f, const struct verdict *v, const struct place *p, double size)
{
    const uint32_t classes = v->use.info.outputs;
    for (uint32_t i = 0; i < classes; i++) {
        const struct class_counts c = verdict_class(v, i);
        for (uint32_t k = 0; k < classes; k++) {
            const uint64_t count = v->confusion[(size_t)i * classes + k];
            const double share = c.rows > 0 ? (double)count / (double)c.rows : 0.0;
            const double x = p->left + k * size, y = p->top + i * size;
            char digits[24];
            fprintf(f,
                    "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s' "
                    "fill-opacity='%.3f'/>\n",
                    x, y, size, size, i == k ? "#0060a0" : "#b04000", share);
            snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
            if (count > 0 && classes <= NAMES)
                text_at(f, x + size / 2, y + size / 2 + 4, "middle", share > 0.5 ? "#fff" : "#222",
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
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' "
            "font-family='sans-serif' font-size='%d'>\n"
            "<rect width='100%%' height='100%%' fill='#fff'/>\n",
            p.left + SIDE + p.right, p.top + SIDE + 20, classes > 20 ? 8 : 12);
    snprintf(title, sizeof title,
             "%.2f %% of %zu rows are right; lines: labels, columns: predictions",
             100.0 * v->is.accuracy, v->is.rows);
    text_at(f, 2 * GAP, 24, "start", "#222", title);
    for (uint32_t i = 0; classes <= NAMES && i < classes; i++) {
        const double middle = ((double)i + 0.5) * size;
        text_at(f, p.left - GAP, p.top + middle + 4, "end", "#222", use_name(&v->use, i));
        fprintf(f, "<g transform='translate(%.1f %.1f) rotate(-45)'>", p.left + middle,
                p.top - GAP);
        text_at(f, 0, 0, "start", "#222", use_name(&v->use, i));
        fputs("</g>\n", f);
    }
    cells(f, v, &p, size);
    fprintf(f,
            "<rect x='%.1f' y='%.1f' width='%d' height='%d' fill='none' stroke='#444'/>\n</svg>\n",
            p.left, p.top, SIDE, SIDE);
    return output_commit(&o);
}
