/* SPDX-License-Identifier: MIT */
/* The elements of a plot: see svg.h. */
#include "tools/common/svg.h"

#include "tools/tool.h"

void svg_begin(FILE *f, double width, double height, int font_size, const char *title)
{
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' "
            "viewBox='0 0 %.0f %.0f' font-family='sans-serif' font-size='%d'>\n"
            "<rect width='100%%' height='100%%' fill='#fff'/>\n<title>",
            width, height, width, height, font_size);
    output_escape(f, title);
    fputs("</title>\n", f);
}

void svg_end(FILE *f)
{
    fputs("</svg>\n", f);
}

void svg_text(FILE *f, double x, double y, const char *style, const char *text)
{
    fprintf(f, "<text x='%.1f' y='%.1f' %s>", x, y, style);
    output_escape(f, text);
    fputs("</text>\n", f);
}

void svg_rect(FILE *f, double x, double y, double width, double height, const char *style)
{
    fprintf(f, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' %s/>\n", x, y, width, height,
            style);
}

void svg_rule(FILE *f, double x, double y, double width, const char *style)
{
    fprintf(f, "<path d='M%.1f %.1fh%.1f' %s/>\n", x, y, width, style);
}
