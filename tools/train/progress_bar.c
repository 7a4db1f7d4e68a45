/* SPDX-License-Identifier: MIT */
/* The progress bar on a terminal, and the history of a run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/train/train.h"

static bool progress_bar_grow(void **at, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return true;
    const size_t more = *room ? 2 * *room : 256;
    void *p = more <= SIZE_MAX / size ? realloc(*at, more * size) : NULL;
    if (!p)
        return false;
    *at = p;
    *room = more;
    return true;
}

bool history_step(struct history *h, double loss, double accuracy)
{
    if (!progress_bar_grow((void **)&h->steps, &h->step_room, h->step_count, sizeof *h->steps))
        return false;
    h->steps[h->step_count].loss = loss;
    h->steps[h->step_count++].accuracy = accuracy;
    return true;
}

bool history_epoch(struct history *h, uint64_t step, const struct score *score)
{
    if (!progress_bar_grow((void **)&h->epochs, &h->epoch_room, h->epoch_count, sizeof *h->epochs))
        return false;
    h->epochs[h->epoch_count].step = step;
    h->epochs[h->epoch_count++].score = *score;
    return true;
}

void history_free(struct history *h)
{
    free(h->steps);
    free(h->epochs);
    *h = (struct history){ .is_regression = h->is_regression };
}

double score_perplexity(const struct score *s)
{
    return exp(s->loss);
}

double score_bits(const struct score *s)
{
    return s->loss / log(2.0) / s->token_bytes;
}

void score_print(const struct score *s, size_t examples)
{
    if (s->is_regression)
        printf("R2 %.4f, mean absolute error %.6g on the %zu held-out examples (loss %.4f)\n",
               s->accuracy, s->mae, examples, s->loss);
    else if (s->is_sequence)
        printf("%.2f %% of the %zu held-out tokens are right (loss %.4f, perplexity %.2f, %.4f "
               "bits per byte)\n",
               100.0 * s->accuracy, examples, s->loss, score_perplexity(s), score_bits(s));
    else
        printf("%.2f %% of the %zu held-out examples are right (loss %.4f)\n", 100.0 * s->accuracy,
               examples, s->loss);
}

bool terminal_is(unsigned *columns)
{
    const bool is_terminal = system_is_terminal(columns);
    if (*columns == 0)
        *columns = 80;
    if (!is_terminal)
        return false;
    const char *term = getenv("TERM");
    return !term || strcmp(term, "dumb") != 0;
}

double progress_wait(const struct progress *p)
{
    const double share = p->seconds > 0.0 ? p->waited / p->seconds : 0.0;
    return share < 1.0 ? share : 1.0;
}

void bar_draw(const struct progress *p)
{
    unsigned columns;
    if (!terminal_is(&columns) || p->step <= p->resumed_step)
        return;
    const double rate = p->seconds > 0.0 ? (double)p->samples / p->seconds : 0.0;
    const double left =
        p->seconds / (double)(p->step - p->resumed_step) * (double)(p->steps - p->step);
    char text[200], score[100] = "";
    if (p->examples > 0)
        snprintf(score, sizeof score, "  loss %.4f  %s %.*f%s", p->loss,
                 p->is_regression ? "error" : "accuracy", p->is_regression ? 4 : 1,
                 p->is_regression ? p->accuracy : 100.0 * p->accuracy,
                 p->is_regression ? "" : " %");
    const int length = snprintf(text, sizeof text, " epoch %u/%u%s  %.0f samples/s  %.0f s left",
                                p->epoch, p->epochs, score, rate, left);
    const unsigned width = columns > (unsigned)length + 14 ? columns - (unsigned)length - 4 : 0;
    const unsigned shown = width > 30 ? 30 : width;
    const unsigned filled = (unsigned)((double)shown * (double)p->step / (double)p->steps);
    fputs("\r\033[K", stdout);
    if (shown > 0) {
        putchar('[');
        for (unsigned i = 0; i < shown; i++)
            putchar(i < filled ? '#' : '.');
        putchar(']');
    }
    printf("%.*s", (int)columns - (shown ? (int)shown + 2 : 0) - 1, text);
    fflush(stdout);
}

void bar_clear(void)
{
    unsigned columns;
    if (terminal_is(&columns)) {
        fputs("\r\033[K", stdout);
        fflush(stdout);
    }
}
