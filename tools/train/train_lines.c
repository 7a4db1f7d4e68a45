/* SPDX-License-Identifier: MIT */
/* The lines of epochs. A terminal has the bar, so it gets one for every tenth of a run. A pipe or a
   file gets at most about two for every twentieth: the best epoch in it, if its held-out loss is
   lower than all before, and the last one. So the output of a table with 500 epochs stays short. */
#include <stdio.h>

#include "tools/train/train_run.h"

enum { ALL_UP_TO = 40, PARTS = 20, TERMINAL_PARTS = 10, LONGEST_SILENCE = 60 /* s */ };

static void print_line(const struct progress *p, const struct score *test)
{
    printf("epoch %3u/%u  loss %.4f  ", p->epoch, p->epochs, p->loss);
    if (test->is_absent) {
        printf(test->is_regression ? "mean error %.5g\n" : "accuracy %5.1f %%\n",
               test->is_regression ? p->accuracy : 100.0 * p->accuracy);
        return;
    }
    if (test->is_regression)
        printf("mean error %.5g  held-out loss %.4f  mean error %.5g  R2 %6.3f\n", p->accuracy,
               test->loss, test->mae, test->accuracy);
    else
        printf("accuracy %5.1f %%  held-out loss %.4f  accuracy %5.1f %%", 100.0 * p->accuracy,
               test->loss, 100.0 * test->accuracy);
    if (test->is_sequence)
        printf("  perplexity %.2f  bits/byte %.3f", score_perplexity(test), score_bits(test));
    if (!test->is_regression)
        printf("\n");
}

static uint32_t part_of(uint32_t epochs, uint32_t parts)
{
    return epochs / parts + (epochs % parts != 0);
}

/* A line each so many epochs. */
static uint32_t step_of(const struct run *r)
{
    const uint32_t epochs = r->settings.epochs;
    unsigned columns;
    if (r->settings.how.is_verbose)
        return 1;
    if (terminal_is(&columns))
        return part_of(epochs, TERMINAL_PARTS);
    return epochs <= ALL_UP_TO ? 1 : part_of(epochs, PARTS);
}

void lines_announce(const struct run *r)
{
    unsigned columns;
    if (step_of(r) > 1 && !terminal_is(&columns) && r->fold == 0)
        printf("lines    of every %u epochs the last one%s; --verbose prints all\n", step_of(r),
               r->held_out ? ", and the best one so far" : "");
}

/* On a pipe: the first epoch of the process, the last one, and one a minute have a line, too. */
static bool has_line(const struct run *r, bool is_last)
{
    const struct epoch_lines *l = &r->lines;
    const struct progress *p = &r->progress;
    unsigned columns;
    if (p->epoch % step_of(r) == 0 || p->epoch == p->epochs)
        return true;
    return !terminal_is(&columns) &&
           (is_last || l->shown == 0 || run_now() - l->when >= LONGEST_SILENCE);
}

/* Keep an epoch that lowers the held-out loss. */
static void keep_best(struct epoch_lines *l, const struct progress *p, const struct score *score)
{
    if (score->is_absent || (l->best.progress.epoch > 0 && !(score->loss < l->best.score.loss)))
        return;
    l->best.progress = *p;
    l->best.score = *score;
}

void lines_show(struct run *r, bool is_last)
{
    struct epoch_lines *l = &r->lines;
    const struct progress *p = &r->progress;
    unsigned columns;
    if (r->fold > 0 || !is_talking(r))
        return;
    bar_clear();
    keep_best(l, p, &r->test);
    if (has_line(r, is_last)) {
        const struct epoch_line *best = &l->best;
        if (!terminal_is(&columns) && best->progress.epoch > l->shown &&
            best->progress.epoch < p->epoch)
            print_line(&best->progress, &best->score);
        print_line(p, &r->test);
        l->shown = p->epoch;
        l->when = run_now();
    }
    fflush(stdout);
}
