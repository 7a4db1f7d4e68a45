/* SPDX-License-Identifier: MIT */
/* Plots as SVG files: one picture without scripts or embedded fonts. */
#ifndef TOOL_SVG_H
#define TOOL_SVG_H

#include <stdio.h>

/* A white picture, with text in a sans-serif font of this size. `title` is its name, which is not
   drawn. */
void svg_begin(FILE *f, double width, double height, int font_size, const char *title);
void svg_end(FILE *f);
/* `style`: further attributes, such as "fill='#222' text-anchor='end'". */
void svg_text(FILE *f, double x, double y, const char *style, const char *text);
void svg_rect(FILE *f, double x, double y, double width, double height, const char *style);
/* A horizontal line. */
void svg_rule(FILE *f, double x, double y, double width, const char *style);

#endif
