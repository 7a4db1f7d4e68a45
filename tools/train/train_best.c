/* SPDX-License-Identifier: MIT */
/* Early stopping: --patience, and the epoch with the lowest held-out loss, whose values --save
   writes. */
#include <stdio.h>

#include "tools/common/plural.h"
#include "tools/train/train_run.h"

copse_status run_best_open(struct run *r)
{
    const struct train_settings *s = &r->settings;
    const struct copse_early_stopping_params how = {
        .patience = s->patience,
        .min_delta = s->min_delta,
        .keep_last = s->saves_last || (!s->save && !s->checkpoint && r->fold == 0),
    };
    copse_early_stopping_release(&r->stopping);
    if (!run_is_served(r))
        return copse_early_stopping_create(r->trainer, &how, &r->stopping);
    return s->patience == 0
               ? COPSE_OK
               : session_set_error(COPSE_ERR_ARGUMENT,
                                   "--patience: workers of parameter servers do not train in step, "
                                   "so none decides for all: choose another strategy, or give "
                                   "--epochs alone");
}

/* With --save-average the variables have their averages here, and these are kept. */
static copse_status observe_loss(struct run *r)
{
    bool stop;
    return copse_early_stopping_observe(r->stopping, r->epoch + 1, r->test.loss, &stop);
}

copse_status run_best_observe(struct run *r)
{
    if (!r->stopping || !r->held_out)
        return COPSE_OK;
    return r->settings.saves_average ? run_with_averages(r, observe_loss) : observe_loss(r);
}

bool run_is_over(const struct run *r)
{
    struct copse_early_stopping_info now;
    copse_early_stopping_describe(r->stopping, &now);
    return r->epoch == r->settings.epochs || now.is_over;
}

bool run_is_stopped_early(const struct run *r)
{
    return r->epoch < r->settings.epochs && run_is_over(r);
}

uint32_t run_best_epoch(const struct run *r)
{
    struct copse_early_stopping_info now;
    copse_early_stopping_describe(r->stopping, &now);
    return r->settings.saves_last || now.best_epoch > r->history.epoch_count ? 0 : now.best_epoch;
}

const struct score *run_best_score(const struct run *r)
{
    const uint32_t best = run_best_epoch(r);
    return best > 0 ? &r->history.epochs[best - 1].score : &r->test;
}

copse_status run_with_best(struct run *r, copse_status (*fn)(struct run *r))
{
    const uint32_t best = run_best_epoch(r);
    if (best == 0 || best == r->epoch) /* the variables have these values */
        return r->settings.saves_average ? run_with_averages(r, fn) : fn(r);
    COPSE_TRY(copse_early_stopping_swap(r->stopping));
    const copse_status s = fn(r);
    char text[900];
    session_plain(text, sizeof text, s ? session_error() : "");
    const copse_status end = copse_early_stopping_swap(r->stopping);
    return s ? session_set_error(s, "%s", text) : end;
}

void run_best_show(const struct run *r)
{
    struct copse_early_stopping_info now;
    const uint32_t best = run_best_epoch(r), done = (uint32_t)r->history.epoch_count;
    copse_early_stopping_describe(r->stopping, &now);
    if (best > 0)
        printf("epoch %u of %u has the lowest held-out loss, %.4f%s", best, done,
               run_best_score(r)->loss, run_is_saved(r) ? ", and is saved" : "");
    else
        printf("epoch %u, the last one, counts%s%s", done, run_is_saved(r) ? " and is saved" : "",
               r->settings.has_few_judges
                   ? ": too few examples are held out to choose another (--patience N would)"
                   : "");
    if (run_is_stopped_early(r))
        printf("; training stopped: %u epoch%s without a lower one%s", now.waited,
               plural_end(now.waited),
               r->settings.has_own_patience ? " (as no length was given; --epochs N trains all)"
                                            : " (--patience)");
    printf("\n");
}
