/* SPDX-License-Identifier: MIT */
/* copse find-lr: the learning-rate range test for the data, the network and the optimizer of
   `copse train`. It writes no model. */
#include <stdio.h>

#include "tools/common/json.h"
#include "tools/find_lr/find_lr.h"
#include "tools/train/train_run.h"

enum { ROWS = 20 }; /* of the table, about */

static copse_status print_events(const struct copse_lr_range *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        cJSON *o = cJSON_CreateObject();
        json_add_text(o, "event", "step");
        json_add_number(o, "lr", (double)r->points[i].lr);
        json_add_number(o, "loss", r->points[i].loss);
        json_add_number(o, "smoothed", r->points[i].smoothed);
        COPSE_TRY(json_print(o));
    }
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "event", "done");
    json_add_count(o, "steps", r->count);
    json_add_number(o, "lowest_lr", (double)r->points[r->best].lr);
    json_add_number(o, "lowest_loss", r->points[r->best].smoothed);
    if (r->suggestion > 0.0f)
        json_add_number(o, "suggestion", (double)r->suggestion);
    else
        cJSON_AddNullToObject(o, "suggestion");
    cJSON_AddBoolToObject(o, "diverged", r->has_diverged);
    return json_print(o);
}

static void print_table(const struct copse_lr_range *r, const struct copse_find_lr_params *p)
{
    const uint32_t every = (r->count + ROWS - 1) / ROWS;
    printf("learning rate      loss  smoothed\n");
    for (uint32_t i = 0; i < r->count; i++)
        if (i % every == 0 || i == r->best || i + 1 == r->count)
            printf("%13.3g  %8.4f  %8.4f%s\n", (double)r->points[i].lr, r->points[i].loss,
                   r->points[i].smoothed, i == r->best && r->suggestion > 0.0f ? "  lowest" : "");
    if (r->has_diverged)
        printf("the loss diverges: the test ended after %u of %u steps\n", r->count, p->steps);
    printf("\n");
}

static void print_suggestion(const struct copse_lr_range *r)
{
    printf("suggested learning rate: %.2g, a tenth of the rate with the lowest smoothed loss\n",
           (double)r->suggestion);
    if (r->best + 1 == r->count && !r->has_diverged)
        printf("the loss still falls at %g: a larger --end-lr may show a larger rate\n",
               (double)r->points[r->best].lr);
    printf("train with it: copse train --lr %.2g, and the same other options\n",
           (double)r->suggestion);
}

/* No rate lowers the loss enough. */
static copse_status refuse_rates(const struct train_settings *s, const struct copse_lr_range *r)
{
    const char *advice = "more --steps, then other rates (--start-lr, --end-lr)";
    if (r->has_diverged)
        advice = "more --steps, or a lower --start-lr";
    else if (r->best + 1 == r->count)
        advice = "a larger --end-lr, or more --steps";
    return session_set_error(
        COPSE_ERR_NONFINITE, "no learning rate from %g to %g lowers the loss by 10 %%%s: try %s%s",
        (double)s->find.start_lr, (double)s->find.end_lr,
        r->has_diverged ? " before it diverges" : "", advice,
        s->init ? "; a network that is trained already (--init) has little to gain: keep the rate "
                  "of its training"
                : "");
}

static copse_status find_lr_print(const struct run *r, const struct copse_lr_range *range)
{
    const struct train_settings *s = &r->settings;
    if (s->plot && range->count > 0)
        COPSE_TRY(find_lr_plot(s->plot, range));
    if (s->is_json)
        COPSE_TRY(print_events(range));
    if (is_talking(r))
        print_table(range, &s->find);
    if (range->suggestion == 0.0f)
        return refuse_rates(s, range);
    if (s->is_quiet && !s->is_json)
        printf("%.2g\n", (double)range->suggestion);
    if (is_talking(r))
        print_suggestion(range);
    return COPSE_OK;
}

static copse_status find_lr_test(struct run *r)
{
    static struct copse_lr_range range;
    COPSE_TRY(session_open(&r->settings.how, &r->ctx));
    compiling_show(is_json(r) ? COMPILING_JSON : is_talking(r) ? COMPILING_TEXT : COMPILING_SILENT);
    COPSE_TRY(run_open(r));
    COPSE_TRY(run_init(r));
    COPSE_TRY(freeze_warn(r));
    COPSE_TRY(copse_trainer_find_lr(r->trainer, r->batches, &r->settings.find, &range));
    return find_lr_print(r, &range);
}

int cmd_find_lr(int argc, char **argv)
{
    struct run r = { 0 };
    int code = find_lr_settings_parse(argc, argv, &r.settings);
    if (code >= 0)
        return code;
    const copse_status s = find_lr_test(&r);
    code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    if (s == COPSE_ERR_NONFINITE)
        code = EXIT_FAILED;
    run_close(&r);
    return code;
}
