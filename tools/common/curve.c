/* SPDX-License-Identifier: MIT */
/* The loss curve as text: one column per group of steps, log scale if the loss falls by a large
   factor. */
#include <math.h>
#include <stdio.h>

#include "tools/train/train.h"

#define ROWS        12
#define MAX_COLUMNS 72

static double mean_loss(const struct history *h, size_t from, size_t to)
{
    double sum = 0.0;
    for (size_t i = from; i < to; i++)
        sum += h->steps[i].loss;
    return sum / (double)(to - from);
}

void curve_draw(const struct history *h)
{
    unsigned columns;
    terminal_is(&columns);
    if (h->step_count < 2)
        return;
    size_t width = columns > 24 ? columns - 12 : 12;
    width = width > MAX_COLUMNS ? MAX_COLUMNS : width;
    width = width > h->step_count ? h->step_count : width;
    double points[MAX_COLUMNS], low = INFINITY, high = -INFINITY;
    for (size_t c = 0; c < width; c++) {
        points[c] = mean_loss(h, c * h->step_count / width, (c + 1) * h->step_count / width);
        low = fmin(low, points[c]);
        high = fmax(high, points[c]);
    }
    if (!isfinite(low) || !isfinite(high))
        return;
    const bool is_log = low > 0.0 && high / low > 20.0;
    const double bottom = is_log ? log(low) : low;
    const double top = is_log ? log(high) : high;
    const double span = top > bottom ? top - bottom : 1.0;
    printf("\n  training loss by step%s\n", is_log ? " (log scale)" : "");
    for (int row = ROWS - 1; row >= 0; row--) {
        const double edge = bottom + span * row / (ROWS - 1);
        if (row == ROWS - 1 || row == 0 || row == ROWS / 2)
            printf("  %7.4f |", is_log ? exp(edge) : edge);
        else
            printf("          |");
        for (size_t c = 0; c < width; c++) {
            const double y = is_log ? log(points[c]) : points[c];
            const int at = (int)lround((y - bottom) / span * (ROWS - 1));
            putchar(at == row ? '*' : ' ');
        }
        putchar('\n');
    }
    printf("          +");
    for (size_t c = 0; c < width; c++)
        putchar('-');
    printf("\n           1%*zu\n", (int)width - 1, h->step_count);
}
