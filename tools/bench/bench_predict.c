/* SPDX-License-Identifier: MIT */
/* Predictions of single rows of a table in memory, in a loop: three cells, of them one text, and a
   network of two layers. The time is that of an application which fills in one cell and calls. */
#include <stdio.h>

#include "copse/train/predict_cells.h"

#include "tools/bench/bench.h"

enum { ROWS = 64, COLUMNS = 4, FEATURES = 3 };

static const char *const names[COLUMNS] = { "colour", "length", "width", "kind" };

struct prediction {
    copse_model *model;
    struct copse_cells cells; /* one row, without its label */
    char text[16];            /* the cell that is filled in: as a text, or as a number */
    double number;
    bool is_number;
    float probabilities[2];
    unsigned at;
};

static copse_status run_predictions(void *user, unsigned count)
{
    struct prediction *p = user;
    for (unsigned i = 0; i < count; i++) {
        const double length = 0.1 * (p->at++ % 50);
        if (p->is_number)
            p->number = length;
        else
            snprintf(p->text, sizeof p->text, "%.1f", length);
        COPSE_TRY(copse_model_predict_cells(p->model, &p->cells, NULL, p->probabilities));
    }
    return COPSE_OK;
}

/* A table of flowers. */
static copse_status make_rows(copse_context *ctx, copse_dataset **out)
{
    char texts[ROWS][2][16];
    const char *cells[ROWS * COLUMNS];
    for (unsigned i = 0; i < ROWS; i++) {
        const bool is_tulip = i % 2;
        snprintf(texts[i][0], sizeof texts[i][0], "%.1f", 0.1 * (i % 25) + (is_tulip ? 2 : 0));
        snprintf(texts[i][1], sizeof texts[i][1], "%.1f", 0.1 * (i % 31));
        cells[i * COLUMNS] = i % 3 ? "red" : "blue";
        cells[i * COLUMNS + 1] = texts[i][0];
        cells[i * COLUMNS + 2] = texts[i][1];
        cells[i * COLUMNS + 3] = is_tulip ? "tulip" : "crocus";
    }
    return copse_dataset_cells(
        ctx,
        &(struct copse_cells){ .names = names, .columns = COLUMNS, .rows = ROWS, .cells = cells },
        NULL, out);
}

static copse_status time_predictions(struct bench *b, struct prediction *p, const char *device)
{
    struct figure f = { .device = device, .what = "predict", .is_time = true };
    const double *const numbers[FEATURES] = { NULL, &p->number, NULL };
    const char *const row[FEATURES] = { "red", p->text, "4.8" };
    struct timing t;
    p->cells = (struct copse_cells){ .names = names,
                                     .columns = FEATURES,
                                     .rows = 1,
                                     .cells = row,
                                     .numbers = p->is_number ? numbers : NULL };
    snprintf(f.size, sizeof f.size, "3 cells, %s", p->is_number ? "number" : "text");
    if (!bench_wants(b, &f))
        return COPSE_OK;
    COPSE_TRY(bench_time(run_predictions, p, 0.05, bench_budget(b), &t));
    f.best = t.best;
    f.median = t.median;
    f.samples = t.samples;
    report_figure(b->settings.is_json, &f);
    return COPSE_OK;
}

copse_status bench_predict(struct bench *b, const struct copse_device_info *info)
{
    static const struct copse_model_params how = { .network = "dense 16 relu; dense out",
                                                   .seed = 1 };
    struct prediction p = { .is_number = false };
    copse_strategy *st = NULL;
    copse_dataset *data = NULL;
    copse_status s = make_rows(b->ctx, &data);
    if (s == COPSE_OK)
        s = copse_one_device_create(b->ctx, info->id, NULL, &st);
    if (s == COPSE_OK)
        s = copse_model_create(st, copse_dataset_schema(data), &how, &p.model);
    for (int i = 0; i < 2 && s == COPSE_OK; i++) {
        p.is_number = i == 1;
        s = time_predictions(b, &p, info->id);
    }
    copse_model_release(&p.model);
    copse_strategy_release(&st);
    copse_dataset_release(&data);
    return s;
}
