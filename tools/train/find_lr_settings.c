/* SPDX-License-Identifier: MIT */
/* The settings of `copse find-lr`: settings of `copse train` that have an effect on a range test, and
   its own. */
#include <stdio.h>
#include <string.h>

#include "tools/train/find_lr_settings.h"

/* Options without effect on a range test. */
static const char *const not_of_find_lr[] = {
    "lr",
    "body-lr",
    "schedule",
    "epochs",
    "folds",
    "patience",
    "min-delta",
    "average",
    "save-average",
    "strategy",
    "steps-per-run",
    "cores",
    "prefetch",
    "save",
    "save-last",
    "checkpoint",
    "keep",
    "checkpoint-every",
    "resume",
    "logdir",
    "trace",
    "hash",
    "hash-variables",
    "hash-launches",
    "cluster",
    "engine",
    "worker-deadline",
    "on-loss",
    "servers",
    "one-sided",
    "window-bytes",
    "one-sided-bytes",
    "evaluator-patience",
};

static bool is_of_find_lr(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof not_of_find_lr / sizeof *not_of_find_lr; i++)
        if (strlen(not_of_find_lr[i]) == length && strncmp(not_of_find_lr[i], name, length) == 0)
            return false;
    return true;
}

int find_lr_refuse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i] + 2;
        if (strncmp(argv[i], "--", 2) != 0 || is_of_find_lr(name, strcspn(name, "=")))
            continue;
        fprintf(stderr,
                "copse find-lr: --%.*s belongs to `copse train`: the test makes --steps steps with "
                "rates from --start-lr to --end-lr, and writes no model\n",
                (int)strcspn(name, "="), name);
        return EXIT_BAD_INPUT;
    }
    return -1;
}

void find_lr_rows(const struct option_row *from, struct train_settings *s,
                  struct option_row to[FIND_ROWS])
{
    const struct option_row own[] = {
        { "", OPTION_GROUP, NULL, NULL, "Test" },
        { "start-lr", OPTION_FLOAT, &s->find.start_lr, "RATE", "rate of the first step [1e-7]" },
        { "end-lr", OPTION_FLOAT, &s->find.end_lr, "RATE", "rate of the last step [10]" },
        { "steps", OPTION_COUNT, &s->find.steps, "N", "steps, 10 to 1000 [100]" },
        { "plot", OPTION_TEXT, &s->plot, "FILE.svg", "draw the losses over the rates" },
    };
    const struct option_row example = { "", OPTION_EXAMPLE, NULL, NULL,
                                        "copse find-lr --data table.csv --model mlp:64" };
    size_t count = sizeof own / sizeof *own;
    memcpy(to, own, sizeof own);
    for (; from->name && strcmp(from->name, "cluster") != 0; from++)
        if (strcmp(from->name, "plot") != 0 && is_of_find_lr(from->name, strlen(from->name)))
            to[count++] = *from;
    count -= to[count - 1].kind == OPTION_GROUP; /* jobs of several workers */
    to[count++] = example;
    to[count] = (struct option_row){ .name = NULL };
}

const char *find_lr_check(const struct copse_find_lr_params *p)
{
    return !(p->start_lr > 0.0f && p->end_lr > p->start_lr)
               ? "--start-lr and --end-lr: must be greater than 0, and --end-lr the greater one"
           : p->steps < 10 || p->steps > COPSE_FIND_LR_MAX ? "--steps: 10 to 1000"
                                                           : NULL;
}

void find_lr_settle(struct train_settings *s)
{
    static char text[64];
    snprintf(text, sizeof text, "to %g in %u steps", (double)s->find.end_lr, s->find.steps);
    s->schedule = text;
    s->patience = 0;
}
