/* SPDX-License-Identifier: MIT */
/* Whether a run that is complete has learned nothing because it diverged, and the lines for losses
   that are not finite. */
#include <math.h>
#include <stdio.h>

#include "tools/train/train_run.h"

/* How much larger than without training a loss may be. The training loss of a network that overfits
   is small, its held-out loss is not. Errors of a regression are squared. */
enum { TRAIN_FACTOR = 10, HELD_OUT_FACTOR = 100, REGRESSION_FACTOR = 1000 };
#define BELOW_ZERO (-1e-3) /* rounding alone gives less */

/* The loss of a constant prediction: of equal probabilities, or of the mean of the held-out
   targets. */
static double constant_loss(const struct run *r)
{
    struct copse_dataset_info held;
    copse_dataset_describe(r->held_out ? r->held_out : r->all, &held);
    return r->model.is_regression ? r->spread / (double)held.rows / r->model.outputs
                                  : log(r->model.outputs);
}

/* Whether the result is of an epoch before the last one. */
static bool is_before_last(const struct run *r)
{
    const uint32_t best = run_best_epoch(r);
    return best > 0 && best < r->history.epoch_count;
}

/* The training loss of the epoch that is the result. */
static double result_loss(const struct run *r)
{
    const struct history *h = &r->history;
    const uint32_t best = run_best_epoch(r);
    if (!is_before_last(r) || r->progress.loss < BELOW_ZERO)
        return r->progress.loss;
    const size_t first = best > 1 ? (size_t)h->epochs[best - 2].step : 0,
                 end = (size_t)h->epochs[best - 1].step;
    double sum = 0;
    for (size_t i = first; i < end && i < h->step_count; i++)
        sum += h->steps[i].loss;
    return sum / (double)(end - first);
}

bool run_has_diverged(const struct run *r)
{
    const struct history *h = &r->history;
    const bool is_complete = run_is_over(r) && h->step_count > 0 && h->epoch_count > 0;
    if (!is_complete || run_is_apart(r)) /* such a worker does not evaluate */
        return false;
    const double constant = constant_loss(r), first = h->steps[0].loss, train = result_loss(r),
                 held = run_best_score(r)->loss;
    const int train_factor = r->model.is_regression ? REGRESSION_FACTOR : TRAIN_FACTOR,
              held_factor = r->model.is_regression ? REGRESSION_FACTOR : HELD_OUT_FACTOR;
    /* the best of several epochs is lower than the start was, however bad that was */
    const double most = is_before_last(r) ? fmax(constant * held_factor, first)
                                          : fmax(constant, first) * held_factor;
    return train > fmax(constant, first) * train_factor || held > most || train < BELOW_ZERO ||
           held < BELOW_ZERO;
}

/* The larger one of the two rates. */
static void print_advice(const struct run *r)
{
    const float body = r->settings.body_lr, lr = r->settings.lr;
    const bool is_body = body != UNSET_BODY && body > lr;
    fprintf(stderr, "lower %s (it is %g)", is_body ? "--body-lr" : "--lr",
            (double)(is_body ? body : lr));
}

/* What is left of --save. */
static void print_saved(const struct run *r, const char *path)
{
    struct system_file file;
    fprintf(stderr, system_look(path, &file) ? "; '%s' is unchanged" : "; '%s' was not written",
            path);
    fprintf(stderr, ", '%s' has the parameters", run_save_path(r));
}

void run_show_diverged(const struct run *r)
{
    const double train = result_loss(r), held = run_best_score(r)->loss;
    char epoch[32] = "the last epoch";
    if (is_silent(r))
        return;
    if (is_before_last(r))
        snprintf(epoch, sizeof epoch, "the best epoch, %u,", run_best_epoch(r));
    const bool is_impossible = train < BELOW_ZERO || held < BELOW_ZERO;
    if (is_impossible)
        fprintf(stderr,
                "copse train: a loss is below zero, which is impossible: training %.5g, held-out "
                "%.5g; check the devices "
                "with `copse conformance`",
                train, held);
    else
        fprintf(stderr,
                "copse train: training diverged: the training loss of %s is %.5g, of the "
                "first step %.5g; ",
                epoch, train, r->history.steps[0].loss);
    if (!is_impossible)
        print_advice(r);
    if (r->settings.save)
        print_saved(r, r->settings.save);
    fprintf(stderr, "\n");
}

int run_fail_nonfinite(const struct run *r)
{
    fprintf(stderr, "copse train: %s in epoch %u; training stopped: ", session_error(),
            r->progress.epoch);
    if (r->history.step_count > 0)
        print_advice(r);
    else
        fprintf(stderr, "no update was made: look at the data, --init and --loss");
    if (r->saved_epoch > 0)
        fprintf(stderr, "; '%s' keeps the parameters of epoch %u", run_save_path(r),
                r->saved_epoch);
    else if (r->settings.save)
        fprintf(stderr, "; '%s' was not written", r->settings.save);
    struct copse_monitor_info info = { 0 };
    if (r->monitor)
        copse_monitor_describe(r->monitor, &info);
    if (info.newest)
        fprintf(stderr, "; the last checkpoint is %s", info.newest);
    fprintf(stderr, "\n");
    return EXIT_FAILED;
}
